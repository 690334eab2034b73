"""Margins of a fitted machine as a record: between class pairs, and of every example.

A geometrical margin (9.1) is the distance of an example to the border between two classes in the
feature space of the kernel.  With several prototypes per class the border nearest to an example is
the one between the winning prototypes of the two classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.convex_hull import ConvexHullSVC
from polymargin.estimators.geometry import (
    class_winners,
    prototype_products,
    squared_distances,
)
from polymargin.estimators.inspection import dissect, model_space
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown
from polymargin.problem.machines import find_machine

__all__ = ["MarginRecord", "PrototypeView", "margin_record", "prototype_view"]


@dataclass(frozen=True)
class PrototypeView:
    """A machine seen as prototypes: scores of examples, and inner products of the prototypes.

    Attributes
    ----------
    scores : (n, R)
        Prototype scores of the examples, intercepts included.
    label : (n,) class numbers.
    prototype_class : (R,) class of each prototype.
    products : (R, R) ⟨M_r, M_s⟩ without intercepts.
    constants : (R,)
        The constant feature's weight in each prototype (penalised intercept; else 0).
    classes : (Q,) labels.
    """

    scores: np.ndarray
    label: np.ndarray
    prototype_class: np.ndarray
    products: np.ndarray
    constants: np.ndarray
    classes: np.ndarray

    @property
    def norm2(self) -> float:
        """||M||^2, weights of the constant feature included."""
        return float(np.trace(self.products) + self.constants @ self.constants)

    def squared_distances(self, with_constant: bool) -> np.ndarray:
        """||M_r - M_s||^2."""
        G = self.products
        if with_constant:
            G = G + np.outer(self.constants, self.constants)
        return squared_distances(G)

    def winners(self) -> tuple[np.ndarray, np.ndarray]:
        """Per example and class: the best prototype's number and its score."""
        return class_winners(self.scores, self.prototype_class, len(self.classes))

    def margins(self) -> np.ndarray:
        """Best score of the own class minus the best of the others."""
        _, best = self.winners()
        rows = np.arange(len(self.label))
        own = best[rows, self.label].copy()
        best[rows, self.label] = -np.inf
        return own - best.max(axis=1)


def prototype_view(model: Any, X: Any, y: Any) -> PrototypeView:
    """Scores, classes and inner products of the prototypes of a fitted machine."""
    if isinstance(model, MulticlassSVC):
        check_is_fitted(model)
        scores, label = model._labelled_scores(X, y)
        prototype_class = np.arange(len(model.classes_))
    elif isinstance(model, MultiPrototypeSVC):
        check_is_fitted(model)
        label = model._class_numbers(X, y)
        scores = model.prototype_scores(X)
        prototype_class = model._prototype_class
    elif isinstance(model, ConvexHullSVC):
        check_is_fitted(model)
        X, scores, label = model._labelled_scores(X, y)
        prototype_class = np.arange(len(model.classes_))
    else:
        raise ValueError(
            "model must be a fitted MulticlassSVC, MultiPrototypeSVC or ConvexHullSVC, got "
            f"{shown(model)}."
        )
    products = prototype_products(model, X)
    constants = np.zeros(len(prototype_class))
    unit = np.sqrt(model._kernel.offset)
    if unit > 0.0:
        intercept = model.intercept_
        if len(intercept) < len(constants):  # two classes: the difference is stored
            intercept = np.array([-0.5, 0.5]) * intercept[0]
        constants = intercept / unit
    return PrototypeView(scores, label, prototype_class, products, constants, model.classes_)


@dataclass(frozen=True)
class MarginRecord:
    """Margins and slacks of a fitted machine on examples.

    Attributes
    ----------
    classes : (Q,) labels.
    geometric : (Q, Q)
        Smallest distance of an example of classes k or l to the border between them (9.1), over
        the examples that are classified correctly; infinite on the diagonal and where a pair has no
        such example.
    closest : (Q, Q)
        The example at that distance, -1 where there is none.
    distances : (n, Q)
        Signed distance of every example to the border between its class and each other class
        (negative on the wrong side; infinite in the column of its own class).
    margins : (n,)
        Score of the own class minus the best of the others: positive means correct.
    slacks : (n,) or (n, Q)
        What every example lacks to the margins that the machine asks for; hulls: to the threshold
        of its class (other examples than those of the training: to being right).
    losses : (n,)
        The machine's loss of every example, before its weight :math:`C_i`.
    functional : float
        :math:`d(h)`, the smallest margin; the data are separated if it is positive.
    errors : int
        Examples that are not classified correctly (ties included).

    See Also
    --------
    polymargin.margin_record : Makes it.
    """

    classes: np.ndarray
    geometric: np.ndarray
    closest: np.ndarray
    distances: np.ndarray
    margins: np.ndarray
    slacks: np.ndarray
    losses: np.ndarray
    functional: float
    errors: int

    def quantiles(self, levels: Any = (0.0, 0.25, 0.5, 0.75, 1.0)) -> dict[str, np.ndarray]:
        """Quantiles of the margins and of the losses over examples."""
        return {
            "margins": np.quantile(self.margins, levels),
            "losses": np.quantile(self.losses, levels),
        }


def margin_record(model: Any, X: Any, y: Any) -> MarginRecord:
    """Geometrical margins of every class pair, and margins, slacks and losses of every example.

    Parameters
    ----------
    model : MulticlassSVC, MultiPrototypeSVC or ConvexHullSVC
        Fitted; or a Pipeline or search that ends in one, whose margins are those of the features
        that reach the machine.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        For a precomputed kernel the training matrix.
    y : array-like of shape (n_samples,)

    Returns
    -------
    MarginRecord
        ``MulticlassSVC.margins`` refuses examples that are not classified correctly; here they are
        counted in ``errors`` and left out of ``geometric``.

    See Also
    --------
    selection.margins.MarginRecord : What it returns.
    plots.PairMarginsDisplay : Draws margins between classes.
    plots.SlackDistributionDisplay : Draws losses.
    dual_variables : The dual side of the same solution.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, margin_record
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC(C=10.0, random_state=0).fit(X, y)
    >>> margin_record(model, X, y).geometric.shape
    (3, 3)
    """
    if isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        parts = dissect(model)
        model, X = parts.last, model_space(parts, X)
    view = prototype_view(model, X, y)
    number, best = view.winners()
    rows = np.arange(len(view.label))
    lead = best[rows, view.label][:, None] - best
    apart = np.sqrt(view.squared_distances(with_constant=False))
    here = apart[number[rows, view.label][:, None], number]
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(here > 0.0, lead / here, np.sign(lead) * np.inf)
    distances[rows, view.label] = np.inf
    distances[np.isnan(distances)] = 0.0
    margins = view.margins()
    right = margins > 0.0
    geometric, closest = _pairs(distances, view.label, right)
    slacks, losses = _slacks(model, view)
    return MarginRecord(
        classes=view.classes,
        geometric=geometric,
        closest=closest,
        distances=distances,
        margins=margins,
        slacks=slacks,
        losses=losses,
        functional=float(margins.min()),
        errors=int((~right).sum()),
    )


def _pairs(
    distances: np.ndarray, label: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Smallest distance over the examples of both classes of a pair, and where it is."""
    Q = distances.shape[1]
    smallest, where = np.full((Q, Q), np.inf), np.full((Q, Q), -1)
    for k in range(Q):
        mine = np.flatnonzero((label == k) & right)
        if not len(mine):
            continue
        at = distances[mine].argmin(axis=0)
        smallest[k] = distances[mine[at], np.arange(Q)]
        where[k] = mine[at]
        smallest[k, k], where[k, k] = np.inf, -1
    other = smallest > smallest.T
    return np.where(other, smallest.T, smallest), np.where(other, where.T, where)


def _slacks(model: Any, view: PrototypeView) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(model, MulticlassSVC):
        machine = find_machine(model.machine)
        scores = model._raised_scores(view.scores, view.label)
        return machine.slacks(scores, view.label), machine.loss(scores, view.label)
    if isinstance(model, ConvexHullSVC):
        slack = _hull_slacks(model, view)
    else:
        raised = model._raised_scores(view.scores, view.label, view.prototype_class)
        slack = np.maximum(0.0, 1.0 - replace(view, scores=raised).margins())
    return slack, slack.copy()


def _hull_slacks(model: ConvexHullSVC, view: PrototypeView) -> np.ndarray:
    """xi_i of (7.4) in units of ⟨v_k - c, phi(x)⟩: what is missing to the threshold of the class.

    The threshold is the mean of the free weights' values, and where a class has none the highest
    value of its examples with weight (their caps bind).
    """
    shift = model.intercept_
    if len(shift) < len(view.classes):  # two classes: the difference is stored
        shift = np.array([-0.5, 0.5]) * shift[0]
    rows = np.arange(len(view.label))
    own = (view.scores - shift)[rows, view.label]
    u = model.weights_
    if len(u) != len(rows):  # only training examples have weights
        return np.maximum(0.0, -view.margins())
    slack = np.zeros(len(rows))
    for k in range(len(view.classes)):
        mine = view.label == k
        free = mine & (u > 0.0) & (u < model.eta_ * (1.0 - 1e-9))
        used = own[free] if free.any() else own[mine & (u > 0.0)]
        level = float(used.mean() if free.any() else used.max(initial=0.0))
        slack[mine] = np.maximum(0.0, level - own[mine])
    return slack
