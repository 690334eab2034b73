"""``certified_radius``: how far a row may move before its label can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.scalers import Scaling
from polymargin.explanation.model_view import View, check_norm_and_units, dual_norm, view_of
from polymargin.explanation.nearest_point import nearest_step, step_length

__all__ = ["CertifiedRadius", "certified_radius", "prototype_distances"]


@dataclass(frozen=True, eq=False)
class CertifiedRadius:
    """Inside the radius around a row the predicted label does not change.

    Attributes
    ----------
    radius : ndarray of shape (n_samples,)
        Infinite where no row of another label exists (or none was excluded by the bound).
    label : ndarray of shape (n_samples,)
        Predicted label.
    nearest : ndarray of shape (n_samples,)
        The label across the nearest border; by the bound where ``is_exact`` is False.
    is_exact : bool
        Whether the radius is the distance to the nearest row of another label (linear and
        prototype models), or a lower bound of it (RBF, or scalers with ``clip=True``).
    norm : {1, 2, "inf"}
    units : {"input", "scaled"}

    See Also
    --------
    polymargin.certified_radius : Makes it.
    """

    radius: np.ndarray
    label: np.ndarray
    nearest: np.ndarray
    is_exact: bool
    norm: Any
    units: str


def certified_radius(model: Any, X: Any, norm: Any = 2, units: str = "input") -> CertifiedRadius:
    r"""The distance around each row inside which the predicted label cannot change.

    Linear models: the distance to the border with class s is
    :math:`(f_y - f_s) / \|M_y - M_s\|_*`, with the dual norm, and the radius is the least of them.
    Prototype models: for every prototype s of another class the distance to the polyhedron
    :math:`\{x' : f_s(x') \ge f_r(x') \text{ for all r of class y}\}`, a small quadratic or linear
    programme.  Both are exact.

    Gaussian (RBF) models get a lower bound: moving by t changes the image in feature space by
    :math:`\sqrt{2 - 2 \exp(-\gamma t^2)}`, hence with
    :math:`\rho_s = (f_y - f_s) / \|M_y - M_s\|` no label changes within
    :math:`\sqrt{-\ln(1 - \rho_s^2 / 2) / \gamma}`; infinite where :math:`\rho_s^2 \ge 2`.

    Parameters
    ----------
    model : classifier, Pipeline of scalers and classifier, or search, fitted
        Kernels other than "linear" and "rbf" are refused.
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
    norm : {1, 2, "inf"}, default=2
        How distances are measured: sum, root of the sum of squares, or largest of the changes.
    units : {"input", "scaled"}, default="input"
        Distances in the units of X, or in those after the scalers of the Pipeline.

    Returns
    -------
    CertifiedRadius

    See Also
    --------
    counterfactual : The row on the surface of that ball.
    explain : Which features decide.
    explanation.robustness.CertifiedRadius : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, certified_radius
    >>> X, y = load_iris(return_X_y=True)
    >>> found = certified_radius(MulticlassSVC(random_state=0).fit(X, y), X[:1])
    >>> found.is_exact, bool(found.radius[0] > 1.0)
    (True, True)
    """
    norm = check_norm_and_units(norm, units)
    view = view_of(model, X, "certified_radius")
    scaling = view.model.scaling("the certified radius")
    stretch = stretch_of(scaling, units, view.Z.shape[1])
    is_clipped = scaling is not None and scaling.low is not None
    if view.model.is_linear:
        assert view.model.weights is not None
        W = view.model.weights * stretch
        bound = _border_distances(view, prototype_distances(W, norm))
        if view.model.has_one_prototype_per_class or is_clipped:
            radius, rival = bound.min(axis=1), bound.argmin(axis=1)
        else:
            radius, rival = _exact_distances(view, W, bound, norm)
        is_exact = not is_clipped
    else:
        bound = _gaussian_bound(view, stretch, norm)
        radius, rival, is_exact = bound.min(axis=1), bound.argmin(axis=1), False
    nearest = view.model.classes[view.model.owner[rival]]
    return CertifiedRadius(radius, view.labels, nearest, is_exact, norm, units)


def stretch_of(scaling: Scaling | None, units: str, d: int) -> np.ndarray:
    """How much the features that the classifier sees change per unit of distance."""
    if scaling is None or units == "scaled":
        return np.ones(d)
    return scaling.scale


def prototype_distances(W: np.ndarray, norm: Any) -> np.ndarray:
    """(R, R) dual norms of the differences of prototypes."""
    return np.stack([dual_norm(W - row, norm) for row in W])


def _border_distances(view: View, distance: np.ndarray) -> np.ndarray:
    """(n, R) lower bounds of the distance to a win of prototype s: max over own r.

    Infinite for prototypes of the predicted class; (f_r - f_s) / ||M_r - M_s||* otherwise.
    """
    out = np.full(view.scores.shape, np.inf)
    owner = view.model.owner
    for y in np.unique(view.predicted):
        rows = np.flatnonzero(view.predicted == y)
        own, others = np.flatnonzero(owner == y), np.flatnonzero(owner != y)
        best = np.zeros((len(rows), len(others)))
        for r in own:
            lead = view.scores[rows, r][:, None] - view.scores[np.ix_(rows, others)]
            best = np.maximum(best, _ratio(lead, distance[r, others]))
        out[np.ix_(rows, others)] = best
    return out


def _ratio(lead: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """lead / distance; infinite where equal prototypes keep their order (ties too) for ever."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(distance > 0.0, lead / distance, np.inf)
    return np.where(lead >= 0.0, found, 0.0)


def _exact_distances(
    view: View, W: np.ndarray, bound: np.ndarray, norm: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Distances to the polyhedra of rivals, nearest bounds first; the rest is not computed."""
    radius = np.full(len(bound), np.inf)
    rival = bound.argmin(axis=1)
    for i, f in enumerate(view.scores):
        own = np.flatnonzero(view.model.owner == view.predicted[i])
        for s in np.argsort(bound[i], kind="stable"):
            if bound[i, s] >= radius[i]:
                break
            step = nearest_step(W[s] - W[own], f[own] - f[s], norm)
            distance = np.inf if step is None else max(step_length(step, norm), bound[i, s])
            if distance < radius[i]:
                radius[i], rival[i] = distance, s
    return radius, rival


def _gaussian_bound(view: View, stretch: np.ndarray, norm: Any) -> np.ndarray:
    """(n, R) radii of MATH (RBF), carried over to the norm and units asked for."""
    model = view.model.landmarks
    assert model is not None
    tau = model.tau
    last = view.model.parts.last
    gram = tau.T @ (last._landmark_model().scores(last.support_vectors_) - model.intercept)
    gram = 0.5 * (gram + gram.T)
    square = np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2.0 * gram
    rho = _border_distances(view, np.sqrt(np.maximum(square, 0.0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.sqrt(-np.log1p(-0.5 * rho**2))
    steps = np.where(rho**2 >= 2.0, np.inf, steps)
    # gamma |z - z'|^2 = |a (x - x')|^2: how long may x - x' be in its norm?
    a = np.abs(stretch * model.factor)
    longest = float(np.linalg.norm(a)) if norm == "inf" else float(a.max())
    return np.asarray(steps / longest)
