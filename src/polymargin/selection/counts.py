"""A count that bounds the leave-one-out errors of a fitted machine, without any further training.

An example without dual weight can be left out and the solution stays optimal, so that it is
predicted as by the whole model: only support vectors, and examples that the model gets wrong, can
be leave-one-out errors.  M-SVM^2 has dual weight on nearly every example; there Lemma 1 of Guermeur
& Monfrini takes its place (see ``radius_margin_bound``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from polymargin.estimators.convex_hull import ConvexHullSVC
from polymargin.estimators.inspection import dissect, model_space
from polymargin.estimators.landmark_training import refuse_landmarks
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown
from polymargin.problem.machines import find_machine
from polymargin.problem.scoring import two_columns
from polymargin.radius_margin.lemma_counts import dual_error, lemma_counts
from polymargin.radius_margin.sphere import smallest_enclosing_sphere
from polymargin.selection.margins import prototype_view

__all__ = ["LeaveOneOutCount", "leave_one_out_count"]


@dataclass(frozen=True)
class LeaveOneOutCount:
    """An upper bound on the number of leave-one-out errors.

    Attributes
    ----------
    count : int
        Of examples that may be errors; ties count as errors.
    n_examples : int
    support_vectors, training_errors : int
        Examples with dual weight, and examples that the model gets wrong (ties included).
    method : {"support vectors", "Lemma 1"}
        Where the count comes from.
    caveats : tuple of str
        Why the count is no strict bound here; empty where it is one for the exact solution.

    See Also
    --------
    leave_one_out_count : Makes it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, leave_one_out_count
    >>> X, y = load_iris(return_X_y=True)
    >>> count = leave_one_out_count(MulticlassSVC().fit(X, y), X, y)
    >>> count.count <= count.n_examples
    True
    """

    count: int
    n_examples: int
    support_vectors: int
    training_errors: int
    method: str
    caveats: tuple[str, ...]

    @property
    def error_rate(self) -> float:
        """The bound as a share of the examples."""
        return self.count / self.n_examples

    @property
    def is_strict(self) -> bool:
        """Whether the count is a bound for the exact solution: there are no caveats."""
        return not self.caveats

    def __str__(self) -> str:
        text = (
            f"at most {self.count} leave-one-out errors of {self.n_examples} "
            f"({100.0 * self.error_rate:.1f} %, {self.method})"
        )
        return text + "".join(f"; {caveat}" for caveat in self.caveats)


def leave_one_out_count(model: Any, X: Any, y: Any) -> LeaveOneOutCount:
    """Bound the leave-one-out errors of a fitted machine by counting.

    Parameters
    ----------
    model : MulticlassSVC, MultiPrototypeSVC or ConvexHullSVC
        Fitted on X and y; or a Pipeline or search that ends in one.  Scalers and searches were
        fitted with every example; the count is that of the machine behind them.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The training examples; for a precomputed kernel the training matrix.
    y : array-like of shape (n_samples,)

    Returns
    -------
    LeaveOneOutCount

    See Also
    --------
    leave_one_out : The exact number, by refits.
    radius_margin_bound : A bound for M-SVM².
    LeaveOneOutCount : What it returns.

    Notes
    -----
    Of a solution that is optimal to ``tol`` only, examples near the margin may be on either side of
    it; refit with a small ``tol`` for a count that is the bound of the exact solution.
    The exact number of errors: ``leave_one_out``.

    References
    ----------
    Guermeur & Monfrini, Informatica 22 (2011) 73-96, Lemma 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, leave_one_out_count
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC(kernel="rbf", gamma=0.5, tol=1e-6, random_state=0).fit(X, y)
    >>> leave_one_out_count(model, X, y).count < len(y)
    True
    """
    caveats: list[str] = []
    if not isinstance(model, MulticlassSVC | MultiPrototypeSVC | ConvexHullSVC):
        parts = dissect(model)
        model, X = parts.last, model_space(parts, X)
        if parts.steps:
            caveats.append("the steps before the machine were fitted with every example")
    if not isinstance(model, MulticlassSVC | MultiPrototypeSVC | ConvexHullSVC):
        raise ValueError(
            "model must be a fitted MulticlassSVC, MultiPrototypeSVC or ConvexHullSVC, got "
            f"{shown(model)}."
        )
    refuse_landmarks(model, "leave_one_out_count")
    check_is_fitted(model)
    if not hasattr(model, "support_"):
        raise ValueError(
            "model: leave_one_out_count reads dual variables, which a model of fit_into or of "
            "parts of the data does not keep; train it with fit and all rows."
        )
    y = column_or_1d(y)
    n = _n_train(model)
    if len(y) != n or X.shape[0] != n:
        raise ValueError(f"X and y must be the {n} training examples, got {len(y)} labels.")
    wrong = _wrong(model, X, y)
    may_err = wrong.copy()
    method = "support vectors"
    caveats += _caveats(model)
    lemma = _lemma_count(model, X, y)
    if lemma is not None and lemma < n:
        return LeaveOneOutCount(
            lemma, n, len(model.support_), int(wrong.sum()), "Lemma 1", tuple(caveats)
        )
    may_err[model.support_] = True
    return LeaveOneOutCount(
        int(may_err.sum()), n, len(model.support_), int(wrong.sum()), method, tuple(caveats)
    )


def _n_train(model: Any) -> int:
    if isinstance(model, MulticlassSVC):
        return int(model._n_train)
    per_example = model.assignment_ if isinstance(model, MultiPrototypeSVC) else model.weights_
    return len(per_example)


def _wrong(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """Examples whose class does not lead: errors and ties."""
    label = model._class_numbers(X, y)
    scores = two_columns(model.decision_function(X))
    rows = np.arange(len(label))
    own = scores[rows, label].copy()
    scores[rows, label] = -np.inf
    return np.asarray(own <= scores.max(axis=1))


def _caveats(model: Any) -> list[str]:
    """Why a refit without an example could differ in more than that example."""
    found = []
    uses_gamma = model._kernel.name in ("rbf", "poly", "sigmoid", "sum")
    if uses_gamma and isinstance(model.gamma, str) and model.gamma != "auto":
        found.append(f"gamma={model.gamma!r} depends on every example")
    if isinstance(model.class_weight, str):
        found.append("class_weight='balanced' depends on every example")
    if isinstance(model, MulticlassSVC) and isinstance(model.C, str):
        found.append(f"C={model.C!r} depends on every example")
    if isinstance(model, MulticlassSVC) and model.kernel_weights is not None:
        found.append(f"kernel_weights={model.kernel_weights!r} depends on every example")
    if isinstance(model, MulticlassSVC) and not getattr(model, "bias_is_unique_", True):
        found.append("the free intercept is not unique and may move")
    if isinstance(model, MultiPrototypeSVC) and model.assignment != "static":
        found.append("holds for this assignment of examples to prototypes; a refit finds another")
    if isinstance(model, MultiPrototypeSVC) and model.metric != "euclidean":
        found.append("the learned metric depends on every example")
    if isinstance(model, ConvexHullSVC) and model.eta_scale == "relative":
        found.append("eta on its relative scale depends on the size of the smallest class")
    if model.status_ != "converged":
        found.append(f"the training ended early ({model.status_})")
    return found


def _lemma_count(model: Any, X: Any, y: np.ndarray) -> int | None:
    """The sharper count of Lemma 1 for M-SVM^2 with equal weights; None for other machines."""
    if not isinstance(model, MulticlassSVC) or find_machine(model.machine).name != "msvm2":
        return None
    plain = model.class_weight is None and np.isfinite(model.C_)
    if not plain or model._kernel.offset > 0.0 or model._kernel.name in ("callable", "sum"):
        return None
    view = prototype_view(model, X, y)
    label, Q, n = view.label, len(model.classes_), len(view.label)
    loss = float(find_machine(model.machine).loss(view.scores, label).sum())
    known = float(model.certificate_.primal)
    is_weighted = abs(0.5 * view.norm2 + model.C_ * loss - known) > 1e-6 * known
    if is_weighted or np.bincount(label, minlength=Q).min() < 2:
        return None
    tau = model.dual_coef_
    alpha = np.zeros((n, Q))
    # T_ik = sum_l alpha_il / Q - alpha_ik and alpha of the own class is 0
    alpha[model.support_] = tau[np.arange(len(tau)), label[model.support_]][:, None] - tau
    ridge = 0.5 / model.C_
    sphere = smallest_enclosing_sphere(
        X,
        model._kernel.name,
        model._kernel.gamma,
        model._kernel.degree,
        model._kernel.coef0,
        ridge,
        tol=1e-4,
    )
    error = dual_error(model.certificate_.gap, ridge, Q)
    return lemma_counts(alpha, sphere.radius2, Q * sphere.radius2, error).sharper_count
