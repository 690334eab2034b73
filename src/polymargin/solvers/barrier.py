"""A primal-dual interior point for every machine of the table, with a free intercept where asked.

Block descent crawls where features have very different scales, where C is large, or where the
margin is hard; an interior point does not notice.  It is called where one factorisation of order
Q d is cheaper than what descent has spent already (see ``interior.Leap``).

Problem card.  Pattern i has the arrows a_ik in R^Q: e_y - e_k for relative margins, -(e_k - 1/Q)
and +(e_y - 1/Q) for absolute ones; w = sum alpha_ik a_ik (x) x_i and, with a free intercept,
sum alpha_ik a_ik = 0.  On the central path alpha z = mu and room xi = mu, where
a_ik . h(x_i) - target = z_ik - xi and room is C_i - alpha_ik (or C_i - sum_k alpha_ik where slacks
are shared; M-SVM^2 has a ridge instead).  Eliminating alpha, z and xi pattern by pattern leaves::

    (ridge + sum_i Theta_i (x) x_i x_i') (dw, db) = r ,   Theta_i = N_i' E_i^-1 N_i

with N_i the arrows of pattern i, E_i its Q x Q curvature, and the intercept as a constant feature
that has no ridge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.judge import judge
from polymargin.problem.balance import repair
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.interior import Leap, features
from polymargin.solvers.refinement import CUTS, refine

if TYPE_CHECKING:
    from polymargin.solvers.driver import Progress

__all__ = ["Barrier", "MachineLeap", "PlainLeap"]

_ITERATIONS = 120
_LARGEST_CURVATURES = 20_000_000  # numbers in one Q x Q matrix per pattern


class MachineLeap(Leap):
    """Offers the interior point's signed variables when descent is too slow."""

    def __init__(self, problem: Problem, progress: Progress) -> None:
        super().__init__(problem, progress)
        Q = problem.n_prototypes
        self.cost += 2e-8 * problem.n_patterns * Q**3  # the curvatures of the patterns
        if problem.n_patterns * Q**2 > _LARGEST_CURVATURES:
            self.cost = np.inf

    def signed_point(self, dual: float, largest: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Signed variables (n, Q) and intercept better than the point of this dual value."""
        self.left -= 1
        return end_of_path(self.problem, self.progress, dual, largest)


class PlainLeap(Leap):
    """Crammer-Singer: its own interior point first, then the one that corrects its residuals.

    The second takes longer and gets further where kernel values span many magnitudes.
    """

    def point(self, dual: float, largest: float) -> np.ndarray | None:
        """A dual point tau (n, R) that is better than the current one."""
        problem = self.problem
        first = super().point(dual, largest)
        Q = problem.n_prototypes
        one_each = len(np.unique(problem.prototype_class)) == Q
        small = problem.n_patterns * Q**2 <= _LARGEST_CURVATURES // 10
        if self.arrived or not (one_each and small) or self.progress.why_stop():
            return first
        found = end_of_path(problem, self.progress, dual, largest)
        if found is None:
            return first
        return problem.machine.coefficients(found[0], problem.own)


def end_of_path(
    problem: Problem, progress: Progress, dual: float, largest: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """The best of what the end of the central path offers, if it is above ``dual``."""
    with np.errstate(all="ignore"):  # a step beyond the range of float64 ends the path
        barrier = Barrier(problem, features(problem), largest)
        for _ in range(_ITERATIONS):
            if barrier.is_within(0.01 * progress.stop.tol) or progress.why_stop():
                break
            progress.iterations += 1
            if not barrier.advance():
                break
    best = None
    with np.errstate(all="ignore"):
        candidates = list(barrier.candidates(problem))
    for alpha in candidates:
        if alpha is None or not np.isfinite(alpha).all():
            continue
        V = _feasible(problem, np.where(barrier.there, alpha, 0.0), barrier)
        judged = _judged(problem, V, barrier.b)
        if judged is None:
            continue
        if judged.certificate.relative_gap <= progress.stop.tol:
            return V, barrier.b
        if judged.certificate.dual > dual:
            best, dual = (V, barrier.b), judged.certificate.dual
    return best


def _feasible(problem: Problem, alpha: np.ndarray, barrier: Barrier) -> np.ndarray:
    V = barrier.sign * alpha
    if problem.has_free_bias:
        lack = problem.machine.deficits(barrier.scores(), problem.own)
        V = repair(problem.machine, V, problem.own, lack)
    return V


def _judged(problem: Problem, V: np.ndarray, b: np.ndarray) -> Judgement | None:
    try:
        return judge(problem, DualPoint.from_dense(problem, V, b))
    except (FloatingPointError, ValueError):
        return None  # beyond the digits of float64: no point to offer


class Barrier:
    """One point near the central path; ``advance`` makes a predictor-corrector step."""

    def __init__(self, problem: Problem, X: np.ndarray, largest: float) -> None:
        machine, own = problem.machine, problem.own
        n, Q = problem.n_patterns, problem.n_prototypes
        self.machine, self.own, self.free = machine, own, problem.has_free_bias
        rows = np.arange(n)
        rival, mine = machine.shares
        self.there = np.full((n, Q), bool(rival))
        self.there[rows, own] = bool(mine)
        self.sign = np.full((n, Q), -1.0)
        self.sign[rows, own] = 1.0
        self.target = np.full((n, Q), machine.rival_target(Q))
        self.target[rows, own] = machine.target_of_own(Q)
        self.N = self._arrows(Q)
        self.X = np.concatenate([X, np.ones((n, 1))], axis=1) if self.free else X
        self.ridge = np.zeros(n)
        cap = problem.cap
        self.bounded = machine.p == 1 and not problem.is_hard
        if machine.p == 2 and not problem.is_hard:
            self.ridge = 0.5 / cap
        weight = np.full((n, Q), rival)
        weight[rows, own] = mine
        self.cap = cap[:, None] * np.where(self.there, weight, 1.0)
        self.shared = bool(machine.K3)
        if self.shared:
            self.cap = cap[:, None]
        self._start(largest, float(problem.diagonal.mean()) + float(self.ridge.mean()))

    def _arrows(self, Q: int) -> np.ndarray:
        """N (n, Q, Q): row k is the arrow of constraint k, zero where there is none."""
        n = len(self.own)
        N = np.zeros((n, Q, Q))
        eye = np.eye(Q)
        if self.machine.K1:
            N += eye[self.own][:, None, :] - eye[None]
        else:
            N += self.sign[:, :, None] * (eye - 1.0 / Q)[None]
        return N * self.there[:, :, None]

    def _start(self, largest: float, curvature: float) -> None:
        n, Q = self.there.shape
        if self.bounded:
            share = 0.5 / (Q if self.shared else 1)
            self.alpha = np.repeat(self.cap, Q // self.cap.shape[1], axis=1) * share
        else:
            size = max(largest, 1.0 / max(curvature, 1e-300) / n)
            self.alpha = np.full((n, Q), size)
        self.alpha = np.where(self.there, self.alpha, 0.0)
        self.w = self._weights(self.alpha)
        if self.free:
            self.w[:, -1] = 0.0
        g = self._slopes()
        lift = max(1.0, float(np.abs(g[self.there]).max()))
        self.z = np.where(self.there, np.maximum(g, 0.0) + lift, 1.0)
        if self.shared:
            self.xi = np.full((n, 1), 2.0 * lift)
        else:
            self.xi = np.where(self.there, self.z - g, 1.0)
            self.xi = np.maximum(self.xi, lift)
        if not self.bounded:
            self.xi = np.zeros_like(self.xi)

    # -- maps ----------------------------------------------------------------------------------

    def _weights(self, alpha: np.ndarray) -> np.ndarray:
        """(Q, d) sum_ik alpha_ik a_ik (x) x_i."""
        return np.asarray(np.einsum("ik,ikq->iq", alpha, self.N).T @ self.X)

    @property
    def b(self) -> np.ndarray:
        b = self.w[:, -1] if self.free else np.zeros(len(self.w))
        return np.asarray(b - b.mean())

    def scores(self) -> np.ndarray:
        return np.asarray(self.X @ self.w.T)

    def _along(self, w: np.ndarray) -> np.ndarray:
        """a_ik . h(x_i)."""
        return np.asarray(np.einsum("ikq,iq->ik", self.N, self.X @ w.T))

    def _ridge_part(self, alpha: np.ndarray) -> np.ndarray:
        T = np.einsum("ik,ikq->iq", alpha, self.N)
        return np.asarray(self.ridge[:, None] * np.einsum("ikq,iq->ik", self.N, T))

    def _slopes(self) -> np.ndarray:
        return np.asarray(self._along(self.w) + self._ridge_part(self.alpha) - self.target)

    def room(self) -> np.ndarray:
        if self.shared:
            return np.asarray(self.cap - self.alpha.sum(axis=1, keepdims=True))
        return np.asarray(np.where(self.there, self.cap - self.alpha, 1.0))

    # -- the path ------------------------------------------------------------------------------

    def _gap(self) -> float:
        gap = float((self.alpha * self.z)[self.there].sum())
        if self.bounded:
            product = self.room() * self.xi
            gap += float(product.sum() if self.shared else product[self.there].sum())
        return gap

    def is_within(self, tol: float) -> bool:
        """Whether gap and residuals are below ``tol`` relative to the value."""
        reward = float((self.alpha * self.target)[self.there].sum())
        miss = self._balance_error() * (1.0 + float(np.abs(self.b).max()))
        return self._gap() + miss <= tol * max(0.5 * reward, 0.0) and self._off() <= 1e-9

    def _balance_error(self) -> float:
        if not self.free:
            return 0.0
        return float(np.abs(np.einsum("ik,ikq->q", self.alpha, self.N)).sum())

    def _off(self) -> float:
        """How far a . h - target = z - xi is from holding."""
        residual = self._slopes() - self.z + self.xi
        scale = 1.0 + float(np.abs(self.z[self.there]).max())
        return float(np.abs(residual[self.there]).max()) / scale

    def advance(self) -> bool:
        """One predictor-corrector step; False if the arithmetic allows no more."""
        try:
            return self._advance()
        except (LinAlgError, ValueError):  # not definite, or not finite, any more
            return False

    def _advance(self) -> bool:
        solve = self._factorise()
        room = self.room()
        product, other = self.alpha * self.z, room * self.xi
        count = int(self.there.sum())
        count += (self.xi.size if self.shared else count) * self.bounded
        mu = self._gap() / count
        step = solve(-product, -other, room)
        length = self._longest(step, room)
        ahead = self._ahead(step, length, room) / count
        centre = (max(ahead, 0.0) / mu) ** 3 * mu
        d_alpha, d_z, d_xi, _ = step
        d_room = -d_alpha.sum(axis=1, keepdims=True) if self.shared else -d_alpha
        step = solve(centre - product - d_alpha * d_z, centre - other - d_room * d_xi, room)
        length = min(1.0, 0.995 * self._longest(step, room))
        if not length > 1e-9 or not np.isfinite(step[3]).all():
            return False
        d_alpha, d_z, d_xi, d_w = step
        self.alpha += length * d_alpha
        self.z += length * d_z
        self.xi += length * d_xi
        self.w += length * d_w
        return bool(self.alpha[self.there].min() > 0.0 and self.z[self.there].min() > 0.0)

    def _ahead(self, step: tuple[np.ndarray, ...], length: float, room: np.ndarray) -> float:
        d_alpha, d_z, d_xi, _ = step
        there = self.there
        total = float(((self.alpha + length * d_alpha) * (self.z + length * d_z))[there].sum())
        if self.bounded:
            d_room = -d_alpha.sum(axis=1, keepdims=True) if self.shared else -d_alpha
            product = (room + length * d_room) * (self.xi + length * d_xi)
            total += float(product.sum() if self.shared else product[there].sum())
        return total

    def _factorise(self) -> Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        X, N, there = self.X, self.N, self.there
        n, Q = there.shape
        d = X.shape[1]
        room = self.room()
        bend = np.where(there, self.z / np.where(there, self.alpha, 1.0), 1.0)
        if self.bounded and not self.shared:
            bend = bend + np.where(there, self.xi / room, 0.0)
        E = np.zeros((n, Q, Q))
        E[:, np.arange(Q), np.arange(Q)] = bend
        if self.bounded and self.shared:
            both = there[:, :, None] & there[:, None, :]
            E += np.where(both, (self.xi / room)[:, :, None], 0.0)
        if self.ridge.any():
            E += self.ridge[:, None, None] * np.einsum("ikq,ilq->ikl", N, N)
        F = np.linalg.inv(E)
        theta = np.einsum("ikq,ikl,ilr->iqr", N, F, N, optimize=True)
        A = np.empty((Q, d, Q, d))
        for q in range(Q):
            for r in range(q, Q):
                block = (X * theta[:, q, r][:, None]).T @ X
                A[q, :, r, :] = block
                A[r, :, q, :] = block.T
        if self.free:
            # no ridge on the intercept; its mean is fixed instead
            level = float(np.abs(A[:, -1, :, -1]).max()) + 1.0
            A[:, -1, :, -1] += level
        square = A.reshape(Q * d, Q * d)
        plain = np.ones((Q, d))
        if self.free:
            plain[:, -1] = 0.0
        square[np.diag_indices(Q * d)] += plain.ravel()
        factor = cho_factor(square, lower=True, overwrite_a=True)

        def solve(
            c: np.ndarray, e: np.ndarray, room: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
            residual = self._slopes() - self.z + self.xi
            over = np.where(there, c / np.where(there, self.alpha, 1.0), 0.0)
            rho = -residual + over
            if self.bounded:
                rho = rho - e / room
            rho = np.where(there, rho, 0.0)
            loose = self._weights(self.alpha)
            off = self.w * plain - loose  # w - w(alpha); for the intercept minus the imbalance
            pull = self._weights(np.einsum("ikl,il->ik", F, rho))
            d_w = cho_solve(factor, (pull - off).ravel()).reshape(Q, d)
            d_alpha = np.einsum("ikl,il->ik", F, rho - self._along(d_w))
            d_alpha = np.where(there, d_alpha, 0.0)
            d_z = np.where(there, over - bend_z * d_alpha, 0.0)
            d_xi = np.zeros_like(self.xi)
            if self.bounded:
                d_room = -d_alpha.sum(axis=1, keepdims=True) if self.shared else -d_alpha
                d_xi = (e - self.xi * d_room) / room
                if not self.shared:
                    d_xi = np.where(there, d_xi, 0.0)
            return d_alpha, d_z, d_xi, d_w

        bend_z = np.where(there, self.z / np.where(there, self.alpha, 1.0), 1.0)
        return solve

    def _longest(self, step: tuple[np.ndarray, ...], room: np.ndarray) -> float:
        """Largest step that keeps alpha, z, room and xi non-negative."""
        d_alpha, d_z, d_xi, _ = step
        there = self.there
        pairs = [(self.alpha[there], d_alpha[there]), (self.z[there], d_z[there])]
        if self.bounded:
            d_room = -d_alpha.sum(axis=1, keepdims=True) if self.shared else -d_alpha
            if self.shared:
                pairs += [(room.ravel(), d_room.ravel()), (self.xi.ravel(), d_xi.ravel())]
            else:
                pairs += [(room[there], d_room[there]), (self.xi[there], d_xi[there])]
        worst = max(float((-d / v).max(initial=0.0)) for v, d in pairs)
        return 1.0 if worst <= 1.0 else 1.0 / worst

    def candidates(self, problem: Problem) -> Iterator[np.ndarray | None]:
        """Dual points to judge, the most accurate first."""
        for cut in CUTS:
            yield self.refined(problem, cut)
        yield self.purified()
        yield self.alpha

    def refined(self, problem: Problem, cut: float) -> np.ndarray | None:
        """alpha with the last digits of its optimality conditions, where they are equations."""
        if self.machine.p == 2 or not np.isfinite(self.alpha).all():
            return None
        alpha = np.where(self.there, self.purified(), 0.0)
        cap = self.cap if self.bounded else np.full_like(self.cap, np.inf)
        is_full = np.zeros(len(alpha), dtype=bool)
        is_free = self.there & (alpha > 0.0)
        if self.shared and self.bounded:
            is_full = (self.room() < self.cap * self.xi)[:, 0]
        elif self.bounded:
            is_free &= alpha < cap
        return refine(problem, alpha, is_free, is_full, self.b, self.N, self.target, cap, cut)

    def purified(self) -> np.ndarray:
        """alpha with the variables on their way to a bound set to it."""
        scale = self.cap if self.bounded else float(self.alpha.max())
        share = self.alpha / scale
        alpha = np.where(share < self.z, 0.0, self.alpha)
        if self.bounded and not self.shared:
            alpha = np.where((self.room() / self.cap < self.xi) & self.there, self.cap, alpha)
        if self.bounded and self.shared:
            total = alpha.sum(axis=1, keepdims=True)
            full = (self.room() / self.cap < self.xi) & (total > 0.0)
            alpha = np.where(full, alpha * (self.cap / np.where(full, total, 1.0)), alpha)
        return alpha
