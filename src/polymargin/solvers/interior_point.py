"""A primal-dual interior point for every machine, with a free intercept where asked.

Block descent is slow where features have very different scales, where C is large, or where the
margin is hard; the number of iterations of an interior point does not depend on that.  One
iteration costs a Cholesky factorisation of order R d, so the driver asks for it only where that is
cheaper than what descent has spent already (``interior_switch``).

Problem card.  Constraint k of pattern i has the vector a_ik in R^R: e_own - e_k for relative
margins, -(e_k - 1/R) for rivals and +(e_own - 1/R) for the own class for absolute ones;
w = sum alpha_ik a_ik (x) x_i and, with a free intercept, sum alpha_ik a_ik = 0.  On the central
path alpha z = mu and room xi = mu, where a_ik . h(x_i) - target = z_ik - xi and room is
C_i - alpha_ik (or C_i - sum_k alpha_ik where slacks are shared; M-SVM^2 has a ridge instead).
Eliminating alpha, z and xi pattern by pattern leaves::

    (ridge + sum_i Theta_i (x) x_i x_i') (dw, db) = r ,   Theta_i = N_i' E_i^-1 N_i

with N_i the vectors of pattern i as rows, E_i its curvature, and the intercept as a constant
feature that has no ridge; ``normal_matrix`` assembles this sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from polymargin.problem.balance import repair
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.last_digits import CUTS, refine
from polymargin.solvers.normal_matrix import InverseCurvatures, NormalMatrix

__all__ = ["CentralPath", "features", "follow"]

_ITERATIONS = 120
_BACK = 0.995  # of the way to the nearest bound: the usual choice of predictor-corrector methods
_SHORTEST = 1e-9  # step below which rounding, not the problem, stops the path
_RESIDUAL = 1e-9  # relative residual of the constraints up to which a point counts as exact
_OFF = 1e-3  # of the way to the middle between the bounds, where the path starts beside a point
_CORRECTIONS = 4  # at most, of a direction: each costs a tenth of the factorisation
_FURTHER = 0.3  # so much longer a step is asked for by a correction
_SPREAD = 10.0  # products beyond this factor of their aim are corrected
_RANK = 1e-14  # eigenvalues of a Gram matrix below this part of the largest are rounding


def features(problem: Problem) -> np.ndarray:
    """Rows of the feature map: the data and the constant, or a square root of the Gram matrix."""
    if problem.kernel.is_linear:
        X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
        constant = np.full((len(X), 1), np.sqrt(problem.kernel.offset))
        return np.concatenate([np.asarray(X, dtype=np.float64), constant], axis=1)
    everyone = np.arange(problem.n_patterns)
    K = problem.gram(everyone, everyone).astype(np.float64)
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    keep = values > _RANK * values[-1]
    return np.ascontiguousarray(vectors[:, keep] * np.sqrt(values[keep]))


def follow(
    path: CentralPath, tol: float, why_stop: Callable[[], str | None]
) -> tuple[list[DualPoint], int]:
    """Follow the path to relative gap ``tol``: points at its end, best first, and iterations."""
    iterations = 0
    with np.errstate(all="ignore"):  # a step beyond the range of float64 ends the path
        while iterations < _ITERATIONS and not path.is_within(tol) and not why_stop():
            iterations += 1
            if not path.advance():
                break
        points = [path.point(alpha) for alpha in path.candidates() if np.isfinite(alpha).all()]
    return points, iterations


class _Step(NamedTuple):
    """Changes of the variables of a path."""

    alpha: np.ndarray
    z: np.ndarray
    xi: np.ndarray
    room: np.ndarray
    w: np.ndarray


class CentralPath:
    """One point near the central path; ``advance`` makes a predictor-corrector step.

    Parameters
    ----------
    problem : Problem
    X : (n, d) rows of the feature map (see ``features``).
    cap : (n,) C_i, or smaller caps that the solution is expected not to reach; inf for the hard
        margin.
    largest : float
        The largest dual variable so far: where the path starts if there are no caps.
    start : DualPoint or None
        A feasible point close to the optimum: where the path starts if there are caps.
    """

    def __init__(
        self,
        problem: Problem,
        X: np.ndarray,
        cap: np.ndarray,
        largest: float,
        start: DualPoint | None = None,
    ) -> None:
        machine, own = problem.machine, problem.own
        n, R = problem.n_patterns, problem.n_prototypes
        self.problem, self.machine, self.own = problem, machine, own
        self.is_own = np.arange(R) == own[:, None]
        rival, mine = machine.shares
        is_rival = problem.prototype_class != problem.label[:, None]  # (2.2)
        self.there = np.where(self.is_own, bool(mine), is_rival & bool(rival))
        self.sign = np.where(self.is_own, 1.0, -1.0)
        target = np.where(self.is_own, machine.target_of_own(R), machine.rival_target(R))
        self.target = problem.raised(target)
        self.has_bias = problem.has_free_bias
        self.X = np.concatenate([X, np.ones((n, 1))], axis=1) if self.has_bias else X
        self.normal_matrix = NormalMatrix(self.X, own, self.sign, bool(machine.K1))
        self.is_shared = bool(machine.K3)
        self.is_bounded = machine.p == 1 and bool(np.isfinite(cap).all())
        self.ridge = np.zeros((n, 1))
        if machine.p == 2 and not problem.is_hard:
            self.ridge = 0.5 / cap[:, None]
        share = np.where(self.is_own, mine, rival)
        self.cap = cap[:, None] * (1.0 if self.is_shared else np.where(self.there, share, 1.0))
        self._start(largest, float(problem.diagonal.mean()) + float(self.ridge.mean()))
        if start is not None and self.is_bounded:
            self._start_near(start)

    def _start(self, largest: float, curvature: float) -> None:
        n, R = self.there.shape
        if self.is_bounded:
            share = 0.5 / self.there.sum(axis=1, keepdims=True) if self.is_shared else 0.5
            start = np.broadcast_to(self.cap * share, (n, R))
        else:
            start = np.full((n, R), max(largest, 1.0 / max(curvature, 1e-300) / n))
        self.alpha = np.where(self.there, start, 0.0)
        self.w = self._weights(self.alpha)
        if self.has_bias:
            self.w[:, -1] = 0.0
        slope = self._slopes()
        lift = max(1.0, float(np.abs(slope[self.there]).max()))
        self.z = np.where(self.there, np.maximum(slope, 0.0) + lift, 1.0)
        if not self.is_bounded:
            self.xi = np.zeros((n, 1) if self.is_shared else (n, R))
        elif self.is_shared:
            self.xi = np.full((n, 1), 2.0 * lift)
        else:
            self.xi = np.maximum(np.where(self.there, self.z - slope, 1.0), lift)

    def _start_near(self, point: DualPoint) -> None:
        """Begin beside a point: most of it and a little of the middle between the bounds.

        z and xi are as small as the margins allow, but no product is below the mean one.
        """
        there = self.there
        near = np.where(there, np.abs(point.dense(self.problem)), 0.0)
        self.alpha = (1.0 - _OFF) * near + _OFF * self.alpha
        self.w = self._weights(self.alpha)
        if self.has_bias:
            self.w[:, -1] = 0.0 if point.b is None else point.b
        slope, room = self._slopes(), self.room()
        lack = np.where(there, np.maximum(-slope, 0.0), 0.0)
        lack = lack.max(axis=1, keepdims=True) if self.is_shared else lack
        gap = float((self.alpha * slope)[there].sum()) + float(self._bounds(self.cap * lack).sum())
        mean = gap / (there.sum() + self._bounds(room).size)
        self.xi = lack + mean / room
        least = mean / np.where(there, self.alpha, 1.0)
        self.z = np.where(there, np.maximum(slope + self.xi, least), 1.0)

    # -- maps ----------------------------------------------------------------------------------

    def _coefficients(self, alpha: np.ndarray) -> np.ndarray:
        """(n, R) sum_k alpha_ik a_ik."""
        return self.machine.coefficients(self.sign * alpha, self.own)

    def _weights(self, alpha: np.ndarray) -> np.ndarray:
        """(R, d) sum_ik alpha_ik a_ik (x) x_i."""
        return np.asarray(self._coefficients(alpha).T @ self.X)

    def _along(self, h: np.ndarray) -> np.ndarray:
        """a_ik . h_i, 0 where there is no constraint."""
        if self.machine.K1:
            found = h[np.arange(len(h)), self.own][:, None] - h
        else:
            found = self.sign * (h - h.mean(axis=1, keepdims=True))
        return np.where(self.there, found, 0.0)

    def scores(self) -> np.ndarray:
        """(n, R) scores, the intercept included."""
        return np.asarray(self.X @ self.w.T)

    @property
    def b(self) -> np.ndarray:
        """The unpenalised intercept."""
        b = self.w[:, -1] if self.has_bias else np.zeros(len(self.w))
        return np.asarray(b - b.mean())

    def _slopes(self) -> np.ndarray:
        """a . h + ridge - target."""
        h = self.scores() + self.ridge * self._coefficients(self.alpha)
        return np.asarray(self._along(h) - np.where(self.there, self.target, 0.0))

    def room(self) -> np.ndarray:
        """What is left below the caps."""
        if self.is_shared:
            return np.asarray(self.cap - self.alpha.sum(axis=1, keepdims=True))
        return np.where(self.there, self.cap - self.alpha, 1.0)

    def _bounds(self, values: np.ndarray) -> np.ndarray:
        """Of values that belong to caps, those that count."""
        return values.ravel() if self.is_shared else values[self.there]

    # -- the path ------------------------------------------------------------------------------

    def _gap(self, step: _Step | None = None, length: float = 0.0) -> float:
        """Sum of all products, after a step of this length."""
        alpha, z, xi, room = self.alpha, self.z, self.xi, self.room()
        if step is not None:
            alpha, z = alpha + length * step.alpha, z + length * step.z
            xi, room = xi + length * step.xi, room + length * step.room
        gap = float((alpha * z)[self.there].sum())
        return gap + float(self._bounds(room * xi).sum()) if self.is_bounded else gap

    def is_within(self, tol: float) -> bool:
        """Whether gap and residuals are below ``tol`` relative to the value."""
        reward = float((self.alpha * self.target)[self.there].sum())
        miss = 0.0
        if self.has_bias:
            balance = np.abs(self._coefficients(self.alpha).sum(axis=0)).sum()
            miss = float(balance) * (1.0 + float(np.abs(self.b).max()))
        return self._gap() + miss <= tol * max(0.5 * reward, 0.0) and self._residual() <= _RESIDUAL

    def _residual(self) -> float:
        """How far a . h - target = z - xi is from holding."""
        residual = (self._slopes() - self.z + self.xi)[self.there]
        return float(np.abs(residual).max()) / (1.0 + float(np.abs(self.z[self.there]).max()))

    def advance(self) -> bool:
        """One predictor-corrector step; False if the arithmetic allows no more."""
        try:
            return self._advance()
        except (LinAlgError, ValueError):  # not definite, or not finite, any more
            return False

    def _advance(self) -> bool:
        solve = self._factorised()
        product, other = self.alpha * self.z, self.room() * self.xi
        count = int(self.there.sum()) + (self._bounds(other).size if self.is_bounded else 0)
        mu = self._gap() / count
        step = solve(-product, -other)
        ahead = self._gap(step, self._longest(step)) / count
        centre = (max(ahead, 0.0) / mu) ** 3 * mu
        wanted = centre - product - step.alpha * step.z, centre - other - step.room * step.xi
        step = self._corrected(solve, wanted, centre)
        length = min(1.0, _BACK * self._longest(step))
        if not length > _SHORTEST or not np.isfinite(step.w).all():
            return False
        self.alpha += length * step.alpha
        self.z += length * step.z
        self.xi += length * step.xi
        self.w += length * step.w
        return bool(self.alpha[self.there].min() > 0.0 and self.z[self.there].min() > 0.0)

    def _corrected(
        self,
        solve: Callable[[np.ndarray, np.ndarray], _Step],
        wanted: tuple[np.ndarray, np.ndarray],
        centre: float,
    ) -> _Step:
        """The step for the products ``wanted``, corrected while that makes it longer.

        Products that a longer step would leave far from ``centre`` are asked to come closer
        (Gondzio's centrality corrections): one factorisation serves them all.
        """
        step = solve(*wanted)
        length, room = self._longest(step), self.room()
        for _ in range(_CORRECTIONS if self.is_bounded else 0):
            ahead = min(1.0, length + _FURTHER)
            found = (
                (self.alpha + ahead * step.alpha) * (self.z + ahead * step.z),
                (room + ahead * step.room) * (self.xi + ahead * step.xi),
            )
            high = _SPREAD * centre
            change = [np.maximum(np.clip(p, centre / _SPREAD, high) - p, -high) for p in found]
            asked = wanted[0] + np.where(self.there, change[0], 0.0), wanted[1] + change[1]
            other = solve(*asked)
            longer = self._longest(other)
            if not longer >= length + 0.1 * _FURTHER:
                break
            step, length, wanted = other, longer, asked
        return step

    def _curvatures(self) -> InverseCurvatures:
        """The inverses of the curvatures E_i."""
        R = self.there.shape[1]
        bend = self.z / np.where(self.there, self.alpha, 1.0) + self.ridge
        rank_one = -self.ridge / R
        if self.is_bounded and self.is_shared:
            rank_one = rank_one + self.xi / self.room()
        elif self.is_bounded:
            bend = bend + self.xi / self.room()
        return InverseCurvatures.of(np.where(self.there, 1.0 / bend, 0.0), rank_one)

    def _factorised(self) -> Callable[[np.ndarray, np.ndarray], _Step]:
        """The factor of the normal matrix, as a function from products wanted to a step."""
        there, d = self.there, self.X.shape[1]
        R = there.shape[1]
        E = self._curvatures()
        A = self.normal_matrix.assembled(E)
        ridge = np.ones((R, d))
        if self.has_bias:
            # no ridge on the intercept; its mean is fixed instead
            A[:, -1, :, -1] += float(np.abs(A[:, -1, :, -1]).max()) + 1.0
            ridge[:, -1] = 0.0
        square = A.reshape(R * d, R * d)
        square[np.diag_indices(R * d)] += ridge.ravel()
        factor = cho_factor(square, lower=True, overwrite_a=True)
        alpha, room = np.where(there, self.alpha, 1.0), self.room()
        residual = self._slopes() - self.z + self.xi
        # w - w(alpha); for the intercept minus the imbalance
        off = self.w * ridge - self._weights(self.alpha)

        def solve(c: np.ndarray, e: np.ndarray) -> _Step:
            over = np.where(there, c / alpha, 0.0)
            right = over - residual
            if self.is_bounded:
                right = right - e / room
            right = np.where(there, right, 0.0)
            pull = self._weights(E.times(right)) - off
            d_w = cho_solve(factor, pull.ravel()).reshape(R, d)
            d_alpha = E.times(right - self._along(self.X @ d_w.T))
            d_z = np.where(there, over - self.z / alpha * d_alpha, 0.0)
            d_room = -d_alpha.sum(axis=1, keepdims=True) if self.is_shared else -d_alpha
            d_xi = np.zeros_like(self.xi)
            if self.is_bounded:
                d_xi = (e - self.xi * d_room) / room
                d_xi = d_xi if self.is_shared else np.where(there, d_xi, 0.0)
            return _Step(d_alpha, d_z, d_xi, d_room, d_w)

        return solve

    def _longest(self, step: _Step) -> float:
        """Largest step that keeps alpha, z, room and xi non-negative."""
        there = self.there
        worst = max(
            float((-step.alpha[there] / self.alpha[there]).max(initial=0.0)),
            float((-step.z[there] / self.z[there]).max(initial=0.0)),
        )
        if self.is_bounded:
            for value, change in ((self.room(), step.room), (self.xi, step.xi)):
                ratio = -self._bounds(change) / self._bounds(value)
                worst = max(worst, float(ratio.max(initial=0.0)))
        return 1.0 if worst <= 1.0 else 1.0 / worst

    # -- its end -------------------------------------------------------------------------------

    def point(self, alpha: np.ndarray) -> DualPoint:
        """The dual point of variables alpha, repaired where an intercept asks for balance."""
        V = self.sign * np.where(self.there, alpha, 0.0)
        if self.has_bias:
            scores = self.problem.raised(self.scores())
            V = repair(self.machine, V, self.own, self.machine.deficits(scores, self.own))
        return DualPoint.from_dense(self.problem, V, self.b if self.has_bias else None)

    def candidates(self) -> Iterator[np.ndarray]:
        """Variables to judge, the most accurate first."""
        for cut in CUTS:
            found = self.refined(cut)
            if found is not None:
                yield found
        yield self.purified()
        yield self.alpha

    def refined(self, cut: float) -> np.ndarray | None:
        """alpha with the last digits of its optimality conditions, where they are equations."""
        if self.machine.p == 2 or not np.isfinite(self.alpha).all():
            return None
        alpha = np.where(self.there, self.purified(), 0.0)
        is_full = np.zeros(len(alpha), dtype=bool)
        is_free = self.there & (alpha > 0.0)
        if self.is_shared and self.is_bounded:
            is_full = (self.room() < self.cap * self.xi)[:, 0]
        elif self.is_bounded:
            is_free &= alpha < self.cap
        cap = self.cap if self.is_bounded else np.full_like(self.cap, np.inf)
        return refine(self.problem, alpha, is_free, is_full, self.b, cap, cut)

    def purified(self) -> np.ndarray:
        """alpha with the variables on their way to a bound set to it."""
        scale = self.cap if self.is_bounded else float(self.alpha.max())
        alpha = np.where(self.alpha / scale < self.z, 0.0, self.alpha)
        if not self.is_bounded:
            return alpha
        is_full = self.room() / self.cap < self.xi
        if not self.is_shared:
            return np.where(is_full & self.there, self.cap, alpha)
        total = alpha.sum(axis=1, keepdims=True)
        is_full &= total > 0.0
        return np.where(is_full, alpha * (self.cap / np.where(is_full, total, 1.0)), alpha)
