"""Points of a regularisation path: solved ones, and mixtures of two with their exact values."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polymargin.certificate.certificate import Certificate, certify
from polymargin.certificate.objective import A_HAIR_MORE, separated_primal
from polymargin.compiled.mixing import mixed_margins
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem

__all__ = ["Knot", "Mixture", "Products", "Values", "mixture_of", "values_at"]


@dataclass
class Knot:
    """A solved point.

    Attributes
    ----------
    C : float
    point : DualPoint
    T : (s, R) their coefficients: M_r = sum_i T_ir phi(x_i).
    scores : (n, R) or None
        Of all patterns, without a free intercept; None once no mixture needs them.
    b, constant : (R,)
        The free intercept (or zeros), and the constant that a penalised one adds to the scores.
    W : (R, d) prototypes of a linear kernel, or None.
    reward, ridge : float
        The linear term of D, and sum ||T_i||^2 / weight_i where the loss is quadratic.
    certificate, scale
        Judgement of the model ``scale`` times these coefficients.
    """

    C: float
    point: DualPoint
    T: np.ndarray
    scores: np.ndarray | None
    b: np.ndarray
    constant: np.ndarray
    W: np.ndarray | None
    reward: float
    ridge: np.ndarray
    certificate: Certificate
    scale: float
    iterations: int
    seconds: float = 0.0
    validation_scores: np.ndarray | None = None
    known_products: dict[int, Products] = field(default_factory=dict)

    @property
    def support(self) -> np.ndarray:
        return self.point.support

    @cached_property
    def sums(self) -> np.ndarray:
        """Column sums of the coefficients, to which the constant is proportional."""
        return np.asarray(self.T.sum(axis=0))

    def forget_scores(self) -> None:
        """Free the scores once every mixture that needs them is made."""
        self.scores = None
        self.validation_scores = None
        self.known_products.clear()

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        return self.support, self.T


class Products(NamedTuple):
    """⟨M_1, M_1⟩, ⟨M_1, M_2⟩, ⟨M_2, M_2⟩, and the same of the ridge per unit of C."""

    norms: tuple[float, float, float]
    ridges: tuple[float, float, float]


@dataclass
class Mixture:
    """a times one solved point plus c times another (or nothing)."""

    left: Knot
    right: Knot | None
    a: float
    c: float
    products: Products

    def _mix(self, name: str) -> np.ndarray:
        value = self.a * getattr(self.left, name)
        return value + self.c * getattr(self.right, name) if self.right is not None else value

    def scores(self) -> np.ndarray:
        return self._mix("scores")

    def validation_scores(self) -> np.ndarray:
        return self._mix("validation_scores")

    def margins(self, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        """f_own - max over the other classes, and whose label is wrong."""
        n = problem.n_patterns
        margins, wrong = np.empty(n), np.empty(n, dtype=bool)
        first = self.left.scores
        second = first if self.right is None else self.right.scores
        c = 0.0 if self.right is None else self.c
        shift = self.b if problem.has_free_bias else np.zeros(problem.n_prototypes)
        mixed_margins(
            first,
            second,
            self.a,
            c,
            shift,
            problem.own,
            problem.label,
            problem.prototype_class,
            margins,
            wrong,
        )
        return margins, wrong

    @property
    def b(self) -> np.ndarray:
        return self._mix("b")

    @property
    def intercept(self) -> np.ndarray:
        """The constant part of the scores."""
        return self._mix("constant") + self._mix("b")

    @property
    def W(self) -> np.ndarray | None:
        return None if self.left.W is None else self._mix("W")

    @property
    def reward(self) -> float:
        return self.a * self.left.reward + (self.c * self.right.reward if self.right else 0.0)

    @property
    def norm2(self) -> float:
        return self._square(self.products.norms)

    def ridge(self, C: float) -> float:
        return self._square(self.products.ridges) / C

    def _square(self, terms: tuple[float, float, float]) -> float:
        a, c = self.a, self.c
        return max(a * a * terms[0] + 2.0 * a * c * terms[1] + c * c * terms[2], 0.0)

    def _knots(self) -> list[tuple[float, Knot]]:
        pairs = [(self.a, self.left)]
        if self.right is not None:
            pairs.append((self.c, self.right))
        return [(factor, knot) for factor, knot in pairs if factor != 0.0]

    @property
    def support(self) -> np.ndarray:
        knots = [knot for _, knot in self._knots()]
        if len(knots) == 1:
            return knots[0].support  # in order, each once
        largest = max((int(knot.support.max(initial=-1)) for knot in knots), default=-1)
        has_weight = np.zeros(largest + 1, dtype=bool)
        for knot in knots:
            has_weight[knot.support] = True
        return np.flatnonzero(has_weight)

    @property
    def n_support(self) -> int:
        return len(self.support)

    def point(self, problem: Problem) -> DualPoint:
        """The mixture of the dual points, with the mixture of their intercepts."""
        support = self.support
        V = np.zeros((len(support), problem.n_prototypes))
        for factor, knot in self._knots():
            V[np.searchsorted(support, knot.support)] += factor * knot.point.V
        b = self.b if problem.has_free_bias else None
        return DualPoint(support, V, problem.own[support], b)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Patterns with weight and their coefficients."""
        support = self.support
        T = np.zeros((len(support), self.left.T.shape[1]))
        for factor, knot in self._knots():
            T[np.searchsorted(support, knot.support)] += factor * knot.T
        return support, T


def _products(left: Knot, right: Knot | None) -> Products:
    """Inner products from the scores of both: no kernel value is needed."""
    key = -1 if right is None else id(right)
    if key not in left.known_products:
        left.known_products[key] = _new_products(left, right)
    return left.known_products[key]


def _new_products(left: Knot, right: Knot | None) -> Products:
    first, first_ridge = _product(left, left), _square(left)
    if right is None:
        return Products((first, 0.0, 0.0), (first_ridge, 0.0, 0.0))
    cross, second = _product(left, right), _product(right, right)
    common_ridge = 0.0
    if left.ridge.any():
        _, at, there = np.intersect1d(left.support, right.support, return_indices=True)
        common_ridge = float(left.ridge[at] @ (left.T[at] * right.T[there]).sum(axis=1))
    return Products((first, cross, second), (first_ridge, common_ridge, _square(right)))


def _product(one: Knot, other: Knot) -> float:
    """⟨M_1, M_2⟩ with the constant of a penalised intercept."""
    if one.W is None or other.W is None:
        assert other.scores is not None
        return float((one.T * other.scores[one.support]).sum())
    return float(np.vdot(one.W, other.W) + one.sums @ other.constant)


def _square(knot: Knot) -> float:
    """Its ridge term, which only the quadratic loss has."""
    return float(knot.ridge @ (knot.T**2).sum(axis=1)) if knot.ridge.any() else 0.0


def mixture_of(problem: Problem, left: Knot, right: Knot | None, C: float) -> Mixture:
    """A feasible point for C from one or two solved ones; the best one on their ray or face."""
    products = _products(left, right)
    if right is None:
        a = 1.0
        if left.C != C:
            square = products.norms[0] + products.ridges[0] / C
            a = left.reward / square if square > 0.0 else 1.0
            if problem.machine.p == 1:
                a = min(a, C / left.C)
        return Mixture(left, None, a, 0.0, products)
    if problem.machine.p == 1:
        t = (C - left.C) / (right.C - left.C)
        return Mixture(left, right, 1.0 - t, t, products)
    a, c = _best_pair(left, right, C, products)
    return Mixture(left, right, a, c, products)


def _best_pair(left: Knot, right: Knot, C: float, products: Products) -> tuple[float, float]:
    """max over a, c >= 0 of D: no caps bound the quadratic loss."""
    aa, ac, cc = (n + r / C for n, r in zip(products.norms, products.ridges, strict=True))
    determinant = aa * cc - ac * ac
    if determinant > 1e-14 * aa * cc:
        a = (left.reward * cc - right.reward * ac) / determinant
        c = (right.reward * aa - left.reward * ac) / determinant
        if a >= 0.0 and c >= 0.0:
            return a, c
    only_left = left.reward**2 / aa if aa > 0.0 else 0.0
    only_right = right.reward**2 / cc if cc > 0.0 else 0.0
    if only_left >= only_right:
        return (left.reward / aa if aa > 0.0 else 1.0), 0.0
    return 0.0, right.reward / cc


@dataclass(frozen=True)
class Values:
    """Values of a point: certificate, errors, and the factor of the model they belong to."""

    certificate: Certificate
    norm2: float
    scale: float
    training_error: float
    validation_error: float

    @property
    def primal(self) -> float:
        return self.certificate.primal

    @property
    def dual(self) -> float:
        return self.certificate.dual

    @property
    def relative_gap(self) -> float:
        return self.certificate.relative_gap


def values_at(
    problem: Problem,
    C: float,
    mixture: Mixture,
    classes: np.ndarray,
    validation_labels: np.ndarray | None,
) -> Values:
    """Primal and dual value of a mixture for this C (the problem has its caps), by known scores."""
    machine, own, cap = problem.machine, problem.own, problem.cap
    norm2 = mixture.norm2
    margins = None
    if machine.K1 and machine.K3:
        margins, wrong = mixture.margins(problem)
        losses = np.maximum(0.0, machine.rival_target(problem.n_prototypes) - margins)
    else:
        scores = mixture.scores()
        if problem.has_free_bias:
            scores = scores + mixture.b
        losses = machine.loss(scores, own)
        wrong = problem.prototype_class[scores.argmax(axis=1)] != problem.label
    training_error = float(cap @ wrong / cap.sum())
    primal = 0.5 * norm2 + float(cap @ losses)
    ridge = mixture.ridge(C) if machine.p == 2 else 0.0
    dual = mixture.reward - 0.5 * (norm2 + ridge)
    scale = 1.0
    if margins is not None and problem.has_margin_loss:
        primal, scale = _scaled(problem, mixture, primal, norm2, float(margins.min()))
    validation_error = np.nan
    if validation_labels is not None:
        found = (mixture.validation_scores() + mixture.intercept).argmax(axis=1)
        labels = classes[problem.prototype_class[found]]
        validation_error = float((labels != validation_labels).mean())
    certificate = certify(primal, dual, problem.kernel_psd)
    return Values(certificate, norm2 * scale**2, scale, training_error, validation_error)


def _scaled(
    problem: Problem, mixture: Mixture, primal: float, norm2: float, margin: float
) -> tuple[float, float]:
    """P and scale: where the model scaled to margin 1 is better and its weights stay in bounds."""
    target = problem.machine.rival_target(problem.n_prototypes)
    separated = separated_primal(norm2, margin, target)
    if not separated < primal:
        return primal, 1.0
    support, T = mixture.coefficients()
    weight = T[np.arange(len(support)), problem.own[support]]
    if (weight * A_HAIR_MORE <= margin / target * problem.cap[support]).all():
        return separated, A_HAIR_MORE * target / margin
    return primal, 1.0
