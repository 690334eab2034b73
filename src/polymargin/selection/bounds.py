"""Generalisation bounds of the multi-prototype machine, with what they assume and whether it holds.

Both are theorems of Aiolli and Sperduti (2005).  Each record has the formula that was computed in
``form``; where the published formula has an error, ``form`` is the corrected one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import find_machine
from polymargin.problem.problem import Problem
from polymargin.problem.validation import check_number
from polymargin.selection.margins import PrototypeView, prototype_view

__all__ = ["Assumption", "Bound", "growth_bound", "margin_bound"]

_PAPER = "Aiolli & Sperduti, JMLR 6 (2005) 817-850"
_RADIUS_TOLERANCE = 1e-8
_SLACK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Assumption:
    """An assumption of a bound.

    Attributes
    ----------
    name : str
    holds : bool or None
        None where it cannot be decided from the data.
    detail : str
    """

    name: str
    holds: bool | None
    detail: str


@dataclass(frozen=True)
class Bound:
    """A bound on the probability of error, with probability at least 1 - delta over samples.

    Attributes
    ----------
    value : float
        The number that the theorem's formula gives; a bound only where no assumption fails.
    ours : float or None
        The same with the sharp constant of (10.2) (``margin_bound`` only).
    terms : mapping from str to float
        The parts of the formula.
    assumptions : tuple of Assumption
    reference : str
    form : str
        What was computed, in words.
    vacuous : bool
        Whether the better of the values is 1 or more, or an assumption fails.
    sentence : str
        The result in words.
    delta : float

    See Also
    --------
    polymargin.margin_bound : By margins.
    polymargin.growth_bound : By counting.
    """

    value: float
    ours: float | None
    terms: Mapping[str, float]
    assumptions: tuple[Assumption, ...]
    reference: str
    form: str
    vacuous: bool
    sentence: str
    delta: float

    @property
    def holds(self) -> bool:
        """Whether no assumption is known to fail."""
        return all(one.holds is not False for one in self.assumptions)

    def __str__(self) -> str:
        lines = [self.sentence, self.form]
        words = {True: "holds", False: "fails", None: "cannot be decided here"}
        lines += [f"- {a.name}: {words[a.holds]} ({a.detail})" for a in self.assumptions]
        return "\n".join([*lines, self.reference])


def margin_bound(
    model: Any,
    X: Any,
    y: Any,
    delta: float = 0.05,
    radius: float | None = None,
    log_base: float = 2.0,
) -> Bound:
    r"""The margin bound of the multi-prototype machine (theorem 4), and ours with (10.2).

    For a machine whose training examples all have zero slack.  Where they are only classified
    correctly, the same predictions come from the machine scaled to a margin of 1: ``value_scaled``.

    Parameters
    ----------
    model : MultiPrototypeSVC, or MulticlassSVC with machine="cs"
        Fitted on these examples.
    X : array-like or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    delta : float, default=0.05
        The bound holds with probability at least 1 - delta.
    radius : float or None, default=None
        Radius of a ball that contains the support of the distribution (in the feature space of the
        kernel).  None plugs in the smallest sphere around the sample, certified from above.
    log_base : float, default=2.0
        Base of the logarithms of (10.1), which the source does not state.

    Returns
    -------
    Bound
        ``terms`` has the sample size ``n``, ``radius2``, ``norm2`` (:math:`\|M\|^2`), ``margin``
        (the smallest), ``constant`` and ``constant_ours``, ``nodes``, ``capacity`` and
        ``confidence`` (the two summands), ``pair_sum`` and ``margin_sum`` with the values
        ``value_pair_sum`` and ``value_margin_sum`` that they give in (10.1), ``value_scaled``
        (ours, of the machine scaled to margin 1; infinite if it does not separate) and
        ``value_both_terms``: theorem 4 with :math:`130 R^2` in front of both summands.

    See Also
    --------
    growth_bound : A bound that does not look at margins.
    leave_one_out : Usually says far more.
    selection.bounds.Bound : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, margin_bound
    >>> X, y = load_iris(return_X_y=True)
    >>> margin_bound(MulticlassSVC().fit(X, y), X, y).value > 0
    True
    """
    view = _checked(model, X, y, delta)
    check_number("log_base", log_base, above=1.0)
    if radius is not None:
        check_number("radius", radius, above=0.0)
    n, nodes = len(view.label), _nodes(view)
    margins = view.margins()
    margin = float(margins.min())
    radius2 = _sphere_radius2(model, X) if radius is None else float(radius) ** 2
    q = int(np.bincount(view.prototype_class).max())
    Q, R = len(view.classes), len(view.prototype_class)
    constant, ours = float(q * (Q - 1 + q)), float(R)
    norm2 = view.norm2
    pair_sum, margin_sum = _pair_sums(view)
    logs = np.log(4.0 * math.e * n) * np.log(4.0 * n) / np.log(log_base) ** 2
    factor = 130.0 * radius2 * logs
    confidence = float((np.log(2.0 / delta) + nodes * np.log(2.0 * n)) / np.log(log_base))

    def bound(capacity: float) -> float:
        return float((factor * capacity + confidence) / n)

    centred = _is_centred(view)
    met = margin >= 1.0 - _SLACK_TOLERANCE
    assumptions = (
        Assumption(
            "zero slack on the whole sample",
            met,
            f"smallest margin {margin:.4g}, {int((margins <= 0.0).sum())} of {n} examples are not "
            "classified correctly",
        ),
        Assumption(
            "the distribution lies in a ball of this radius",
            None if radius is None else True,
            "the smallest sphere around the sample is plugged in"
            if radius is None
            else "given by the user",
        ),
        Assumption(
            "prototypes sum to zero (needed by our constant only)",
            centred,
            "true at every dual feasible point",
        ),
        Assumption("examples are independent draws", None, "a property of how they were taken"),
    )
    value = bound(constant * norm2)
    value_ours = bound(ours * norm2) if centred else np.inf
    terms = {
        "n": float(n),
        "radius2": radius2,
        "norm2": norm2,
        "margin": margin,
        "constant": constant,
        "constant_ours": ours,
        "nodes": float(nodes),
        "capacity": float(factor * constant * norm2),
        "confidence": confidence,
        "pair_sum": pair_sum,
        "margin_sum": margin_sum,
        "value_pair_sum": bound(pair_sum),
        "value_margin_sum": bound(margin_sum),
        "value_scaled": bound(ours * norm2 / margin**2) if margin > 0.0 else np.inf,
        "value_both_terms": float(130.0 * radius2 * (logs * constant * norm2 + confidence) / n),
        "log_base": float(log_base),
    }
    form = (
        "(130 R^2 q(Q-1+q) ||M||^2 log(4en) log(4n) + log(2 (2n)^K / delta)) / n with K pairs of "
        "prototypes of different classes and q the largest number per class; ours has the number "
        "of prototypes in place of q(Q-1+q). The published derivation gives q(Q-1+q)+1 when its "
        "first inequality is inserted literally; the theorem holds because it is not tight. "
        f"Logarithms to base {log_base:g}. 130 R^2 stands before the first summand as printed; "
        "value_both_terms has it before both, as the cited theorem is often stated."
    )
    return Bound(
        value,
        value_ours,
        terms,
        assumptions,
        f"{_PAPER}, theorem 4, from the decision-DAG bound of Platt, Cristianini & Shawe-Taylor, "
        "NIPS 12 (2000)",
        form,
        *_verdict(min(value, value_ours), delta, met, "zero slack on the whole sample"),
        delta,
    )


def growth_bound(model: Any, X: Any, y: Any, delta: float = 0.05) -> Bound:
    """The growth-function bound of the multi-prototype machine (theorem 5), whatever its margins.

    Parameters
    ----------
    model : MultiPrototypeSVC, or MulticlassSVC with machine="cs"
        With the linear kernel, fitted on these examples.
    X : array-like or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    delta : float, default=0.05
        The bound holds with probability at least 1 - delta.

    Returns
    -------
    Bound
        ``terms`` has ``n``, the dimension ``d`` (a penalised intercept adds one), ``nodes``,
        ``training_error`` (ties are errors), ``orderings``, ``growth``, ``confidence`` (the parts
        of the bracket), ``deviation`` (the root) and ``formula``, the number that (10.3) gives even
        where an assumption fails.

    See Also
    --------
    margin_bound : A bound by margins.
    leave_one_out : Usually says far more.
    selection.bounds.Bound : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, growth_bound
    >>> X, y = load_iris(return_X_y=True)
    >>> growth_bound(MulticlassSVC().fit(X, y), X, y).value > 0
    True
    """
    view = _checked(model, X, y, delta)
    n, R, nodes = len(view.label), len(view.prototype_class), _nodes(view)
    is_linear = bool(model._kernel.is_linear)
    d = int(model.n_features_in_) + (1 if model._kernel.offset > 0.0 else 0)
    training_error = float((view.margins() <= 0.0).mean())
    orderings = (R + 0.5) * np.log(R)
    growth = d * nodes * np.log(2.0 * math.e * n / d)
    confidence = -np.log(delta / 4.0)
    bracket = 1.0 + orderings + growth + confidence
    deviation = float(np.sqrt(max(4.0 * bracket / n, 0.0)))
    formula = training_error + deviation + 1.0 / n
    assumptions = (
        Assumption(
            "linear kernel, prototypes in d dimensions",
            is_linear,
            f"d = {d}"
            if is_linear
            else f"kernel {model._kernel.name!r}: the dimension of its "
            "feature space is not the number of features",
        ),
        Assumption("n >= d", n >= d, f"n = {n}, d = {d}"),
        Assumption(
            "the proof counts legal orderings of prototypes rigorously",
            None,
            "it multiplies a growth function by a share of states; treat the value as heuristic",
        ),
        Assumption("examples are independent draws", None, "a property of how they were taken"),
    )
    holds = is_linear and n >= d
    value = formula if is_linear else np.inf
    failed = "the linear kernel" if not is_linear else "n >= d"
    terms = {
        "n": float(n),
        "d": float(d),
        "nodes": float(nodes),
        "training_error": training_error,
        "orderings": float(orderings),
        "growth": float(growth),
        "confidence": float(confidence),
        "deviation": deviation,
        "formula": formula,
    }
    form = (
        "training error + sqrt(4 (1 + (R + 1/2) ln R + d K ln(2en/d) - ln(delta/4)) / n) + 1/n, "
        "with R prototypes (qQ in the theorem) and K pairs of prototypes of different classes "
        "(q^2 Q(Q-1)/2), natural logarithms. The additive 1 is kept as printed though it is loose, "
        "and so is the factor 4 inside the root, which the cited theorem usually does not have."
    )
    reference = f"{_PAPER}, theorem 5"
    return Bound(
        value,
        None,
        terms,
        assumptions,
        reference,
        form,
        *_verdict(value, delta, holds, failed),
        delta,
    )


def _checked(model: Any, X: Any, y: Any, delta: float) -> PrototypeView:
    check_number("delta", delta, above=0.0)
    if not delta < 1.0:
        raise ValueError(f"delta must be a number between 0 and 1, got {shown(delta)}.")
    if getattr(model, "cost_matrix", None) is not None:
        raise ValueError(
            "model: the bounds are those of the margin 1 for every rival; train without "
            "cost_matrix."
        )
    if isinstance(model, MulticlassSVC):
        if not find_machine(model.machine).is_crammer_singer:
            raise ValueError(
                f"model: the bounds are those of prototype machines; machine={model.machine!r} "
                "is not one of them. Use machine='cs' or MultiPrototypeSVC."
            )
        if hasattr(model, "_kernel") and model._intercept_kind(find_machine("cs")) == "free":
            raise ValueError(
                "model: the bounds are those of prototypes without an unpenalised intercept; use "
                "intercept='penalized' or 'none'."
            )
    return prototype_view(model, X, y)


def _nodes(view: PrototypeView) -> int:
    """Pairs of prototypes of different classes."""
    counts = np.bincount(view.prototype_class)
    return int((counts.sum() ** 2 - (counts**2).sum()) // 2)


def _pair_sums(view: PrototypeView) -> tuple[float, float]:
    """sum ||M_r - M_s||^2 and sum of inverse squared margins (10.1), over pairs of classes."""
    apart2 = view.squared_distances(with_constant=True)
    r, s = np.nonzero(view.prototype_class[:, None] < view.prototype_class[None, :])
    number, _ = view.winners()
    own = number[np.arange(len(view.label)), view.label]
    total = 0.0
    for a, b in zip(r, s, strict=True):
        mine = np.flatnonzero((own == a) | (own == b))
        if not len(mine):
            continue  # neither prototype wins an example of its class
        smallest = float(np.abs(view.scores[mine, a] - view.scores[mine, b]).min())
        total += float(apart2[a, b]) / smallest**2 if smallest > 0.0 else np.inf
    return float(apart2[r, s].sum()), total


def _is_centred(view: PrototypeView) -> bool:
    total = float(view.products.sum()) + float(view.constants.sum()) ** 2
    return abs(total) <= 1e-8 * max(view.norm2, 1e-300) * len(view.constants)


def _verdict(value: float, delta: float, holds: bool, failed: str) -> tuple[bool, str]:
    sure = f"{100.0 * (1.0 - delta):g} %"
    if not holds:
        return True, f"No bound: the assumption '{failed}' fails, so the theorem says nothing."
    if value >= 1.0:
        return True, (
            f"Vacuous: the bound is {value:.4g}, and no probability of error exceeds 1. It "
            "compares machines; it does not estimate their error."
        )
    return False, f"With probability {sure} the error is at most {value:.4g}."


# -- the sphere around the sample ------------------------------------------------------------------


def _sphere_radius2(model: Any, X: Any) -> float:
    """An upper bound on R^2 of the smallest sphere (8.3), to 1e-8: a sphere of few examples grows.

    The examples farthest from the centre are added until none lies outside.
    """
    data = model._check_input(X)
    kernel: Kernel = model._kernel
    n = data.shape[0]
    label = np.zeros(n, dtype=np.int64)
    rows = data if kernel.name in ("precomputed", "callable") else data.astype(np.float64)
    problem = Problem(
        find_machine("cs"), kernel, rows, label, np.ones(n), label, np.zeros(1, dtype=np.int64)
    )
    everyone = np.arange(n)
    chosen = np.array([0, int(_distances2(problem, everyone, np.array([0]), np.ones(1)).argmax())])
    chosen = np.unique(chosen)
    beta = np.full(len(chosen), 1.0 / len(chosen))
    upper = np.inf
    for _ in range(200):
        K = problem.gram(chosen, chosen).astype(np.float64)
        beta, lower = _small_sphere(K, beta)
        distances = _distances2(problem, everyone, chosen, beta)
        upper = min(upper, float(distances.max()))
        if upper - lower <= _RADIUS_TOLERANCE * upper:
            break
        farthest = np.argsort(-distances, kind="stable")[:20]
        new = np.setdiff1d(farthest[distances[farthest] > lower], chosen)
        if not len(new):
            break
        keep = beta > 0.0
        chosen = np.concatenate([chosen[keep], new])
        beta = np.concatenate([beta[keep], np.zeros(len(new))])
    return upper


def _distances2(
    problem: Problem, rows: np.ndarray, chosen: np.ndarray, beta: np.ndarray
) -> np.ndarray:
    """Squared distances to the centre sum_j beta_j phi(x_j)."""
    K = problem.gram(chosen, chosen).astype(np.float64)
    products = np.empty(len(rows))
    for start in range(0, len(rows), 2048):
        part = rows[start : start + 2048]
        products[start : start + 2048] = problem.gram(part, chosen).astype(np.float64) @ beta
    return np.maximum(problem.diagonal[rows] - 2.0 * products + float(beta @ K @ beta), 0.0)


def _small_sphere(K: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, float]:
    """Pair steps on (8.1) to a fraction of the tolerance; beta and the value."""
    diagonal = np.diag(K)
    beta = beta.copy()
    products = K @ beta
    for step in range(200_000):
        slope = diagonal - 2.0 * products
        i = int(slope.argmax())
        positive = np.flatnonzero(beta > 0.0)
        j = int(positive[slope[positive].argmin()])
        square = float(beta @ products)
        lower = float(beta @ diagonal) - square
        upper = float(slope[i]) + square
        if upper - lower <= 0.1 * _RADIUS_TOLERANCE * max(upper, 1e-300):
            break
        curvature = 2.0 * (diagonal[i] + diagonal[j] - 2.0 * K[i, j])
        if not curvature > 0.0:
            break
        t = min(float(slope[i] - slope[j]) / curvature, float(beta[j]))
        beta[i] += t
        beta[j] = 0.0 if t == beta[j] else beta[j] - t
        products += t * (K[:, i] - K[:, j])
        if step % 1000 == 999:
            products = K @ beta
    return beta, float(beta @ diagonal - beta @ (K @ beta))
