"""``explain``: which features (or support vectors) made the winner lead the runner-up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from polymargin.estimators.inspection import check_rows, model_space, nameless
from polymargin.exceptions import shown
from polymargin.explanation.column_origins import column_origins
from polymargin.explanation.model_view import View, dense_rows, view_of

__all__ = ["Explanation", "explain"]

_BLOCK_BYTES = 32_000_000  # of kernel values held at once


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions to the lead of the predicted class over the runner-up, exact sums.

    ``lead[i] == contributions[i].sum() + constant[i]`` up to rounding.

    Attributes
    ----------
    kind : {"features", "columns", "support vectors"}
        What the columns of ``contributions`` are.
    feature_names : tuple of str
        Names of the columns of ``contributions``: the features that the classifier sees, the
        columns of a raw table, or "support vector i" with the number i of the training row.
    label, runner_up : ndarray of shape (n_samples,)
        Predicted label and the label of the best other class.
    prototype, rival : ndarray of shape (n_samples,)
        Numbers of the prototypes that are compared: the best of the predicted class, and the best
        of all others.
    lead : ndarray of shape (n_samples,)
        Score of the predicted class minus that of the runner-up.
    contributions : ndarray or CSR array of shape (n_samples, n_columns)
        Positive: speaks for the predicted class.
    constant : ndarray of shape (n_samples,)
        The lead that no column accounts for: the difference of the intercepts, or with a
        reference the lead of the same two prototypes at the reference row.

    See Also
    --------
    polymargin.explain : Makes it.
    """

    kind: str
    feature_names: tuple[str, ...]
    label: np.ndarray
    runner_up: np.ndarray
    prototype: np.ndarray
    rival: np.ndarray
    lead: np.ndarray
    contributions: Any
    constant: np.ndarray

    def top(self, row: int = 0, n: int = 10) -> list[tuple[str, float]]:
        """Names and contributions of a row, the largest in size first, without zeros.

        Parameters
        ----------
        row : int, default=0
        n : int, default=10
        """
        values = self.contributions[[row]]
        values = values.toarray()[0] if sp.issparse(values) else values[0]
        order = np.argsort(-np.abs(values), kind="stable")[:n]
        return [(self.feature_names[j], float(values[j])) for j in order if values[j] != 0.0]


def explain(model: Any, X: Any, reference: Any = None, by: str = "columns") -> Explanation:
    r"""Exact contributions of features to the lead of the predicted class over the runner-up.

    Linear and prototype models: with r the best prototype of the predicted class and s the best
    of all other classes, the lead is

    .. math:: f_r - f_s = \sum_j z_j (M_{rj} - M_{sj}) + b_r - b_s,

    z the features that the classifier sees, so feature j contributes
    :math:`z_j (M_{rj} - M_{sj})`.  Behind a
    ``StandardScaler`` :math:`z_j = 0` is the training mean, and contributions are relative to it.

    Gaussian (RBF) models: support vector i contributes
    :math:`(\tau_{ir} - \tau_{is})\, \kappa(x_i, z)`.

    Parameters
    ----------
    model : classifier, Pipeline or search, fitted
        Any steps may stand in front of the classifier: contributions are those of the features
        that it sees.  Where these steps encode a raw table (categories, gaps, texts), the
        contributions of all features of a column are summed, see ``by``.  Other kernels than
        "linear" and "rbf" are refused.
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
    reference : array-like of shape (n_features,) or None
        A row of input features (or a frame of one row, which may hold words) to compare with
        (linear and prototype models): feature j then
        contributes :math:`(z_j - z^0_j)(M_{rj} - M_{sj})`, and ``constant`` is the lead at the
        reference.
    by : {"columns", "features"}, default="columns"
        "columns": the features that a ColumnTransformer, an encoder or an imputer made of one
        column of X count together, so that a category has one contribution.  "features": each on
        its own.  The same where there are no such steps.

    Returns
    -------
    Explanation
        ``contributions`` is sparse where the classifier sees sparse rows and there is no
        reference.

    See Also
    --------
    certified_radius : How far the next label is.
    counterfactual : What would have to change for another label.
    prototype_table : What the prototypes of a model stand for.
    explanation.contributions.Explanation : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, explain
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> found = explain(MulticlassSVC(random_state=0).fit(X, y), X.iloc[[0]])
    >>> found.label[0], found.runner_up[0], len(found.top(0, 2))
    (np.int64(0), np.int64(1), 2)
    >>> bool(abs(found.contributions[0].sum() + found.constant[0] - found.lead[0]) < 1e-9)
    True
    """
    if not isinstance(by, str) or by not in ("columns", "features"):
        raise ValueError(f"by must be 'columns' or 'features', got {shown(by)}.")
    view = view_of(model, X, "explain")
    own = view.is_own()
    scores = view.scores
    r = np.where(own, scores, -np.inf).argmax(axis=1)
    s = np.where(own, -np.inf, scores).argmax(axis=1)
    rows = np.arange(len(r))
    found = view.model
    constant = found.intercept[r] - found.intercept[s]
    if found.is_linear:
        kind, names = "features", view.model_names
        if reference is None:
            parts = _feature_parts(view, r, s)
        else:
            zero = _reference_row(view, reference)
            parts = _feature_parts(view, r, s, zero)
            at_zero = found.scores(zero[None, :])[0]
            constant = at_zero[r] - at_zero[s]
        if by == "columns":
            kind, names, parts = _by_columns(view, parts)
    else:
        if reference is not None:
            raise ValueError(
                "reference is for linear and prototype models: the contributions of an RBF model "
                "are those of support vectors; leave it out."
            )
        kind = "support vectors"
        names = [f"support vector {i}" for i in found.parts.last.support_]
        parts = _support_parts(view, r, s)
    return Explanation(
        kind,
        tuple(names),
        view.labels,
        found.classes[found.owner[s]],
        r,
        s,
        scores[rows, r] - scores[rows, s],
        parts,
        constant,
    )


def _by_columns(view: View, parts: Any) -> tuple[str, list[str], Any]:
    """Contributions summed over the features of each input column, where steps encode some."""
    names = _column_names(view)
    origin = column_origins(view.model.parts, len(names), parts.shape[1])
    if origin is None:
        return "features", view.model_names, parts
    d = len(origin)
    sums = sp.csr_array((np.ones(d), (np.arange(d), origin)), shape=(d, len(names)))
    found = parts @ sums
    return "columns", names, np.asarray(found.toarray() if sp.issparse(found) else found)


def _column_names(view: View) -> list[str]:
    """Names of the columns that the first step takes."""
    steps = view.model.parts.steps
    first = steps[0] if steps else None
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    known = getattr(first, "feature_names_in_", None)
    return view.input_names if known is None else [str(name) for name in known]


def _reference_row(view: View, reference: Any) -> np.ndarray:
    """The reference as the classifier sees it."""
    if hasattr(reference, "iloc") and len(reference) == 1:  # a frame of one row: a raw table
        return dense_rows(model_space(view.model.parts, reference))[0]
    row = np.asarray(reference, dtype=np.float64).ravel()
    width = len(view.input_names)
    if row.shape != (width,) or not np.isfinite(row).all():
        raise ValueError(f"reference must be one row of {width} finite features.")
    with nameless():
        return dense_rows(model_space(view.model.parts, check_rows(row[None, :])))[0]


def _feature_parts(view: View, r: np.ndarray, s: np.ndarray, zero: Any = None) -> Any:
    W = view.model.weights
    assert W is not None
    if not sp.issparse(view.Z) or zero is not None:
        Z = dense_rows(view.Z)
        Z -= 0.0 if zero is None else zero
        return Z * (W[r] - W[s])
    Z = view.Z
    at = np.repeat(np.arange(Z.shape[0]), np.diff(Z.indptr))
    weight = W[r[at], Z.indices] - W[s[at], Z.indices]
    return sp.csr_array((Z.data * weight, Z.indices, Z.indptr), shape=Z.shape)


def _support_parts(view: View, r: np.ndarray, s: np.ndarray) -> np.ndarray:
    """(n, n_support) contributions: the kernel values, weighted."""
    tau = view.model.parts.last.dual_coef_
    out = np.empty((len(r), len(tau)))
    size = max(16, _BLOCK_BYTES // (8 * max(1, len(tau))))
    for start in range(0, len(r), size):
        rows = slice(start, start + size)
        out[rows] = view.model.kernel_values(view.Z[rows]) * (tau[:, r[rows]] - tau[:, s[rows]]).T
    return out
