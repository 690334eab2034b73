"""A primal-dual interior point for small or badly conditioned problems.

Block descent crawls where features have very different scales, where C is large, or where the
margin is hard; an interior point does not notice.  One iteration costs a Cholesky factorisation of
order R d, so it is called only where that is cheaper than what descent has spent already.

Problem card: the dual (1.2) in the variables delta = C e_own - tau >= 0, sum_r delta_ir = C_i,
with s_ir = theta_i - F_ir >= 0 and the central path delta_ir s_ir = mu.  W = W(tau) and
s = theta - F hold exactly at every iterate, so the gap is sum delta s.  Eliminating delta, s and
theta from Newton's equations leaves::

    (I + sum_i Theta_i (x) x_i x_i') vec(dW) = r ,   Theta_i = diag(w_i) - w_i w_i' / sum(w_i) ,
    w_ir = delta_ir / s_ir
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from polymargin.certificate.judge import judge
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.refinement import CUTS, refine
from polymargin.solvers.run import HARD_MARGIN_LIMIT

if TYPE_CHECKING:
    from polymargin.solvers.driver import Progress

__all__ = ["Leap", "central_path", "expected_seconds", "features"]

_ITERATIONS = 100
_FLOPS_PER_SECOND = 1.5e10
_LARGEST_ORDER = 2000
_LARGEST_GRAM = 700


class Leap:
    """Decides when descent is too slow and offers the interior point's dual point instead.

    A leap is worth it once descent has spent half of what the leap will cost and, by the rate of
    its last checks, still needs more than twice that.  Costs are counted in nominal seconds, not
    read from the clock: the same seed must give the same bits.
    """

    def __init__(self, problem: Problem, progress: Progress) -> None:
        self.problem = problem
        self.progress = progress
        self.left = 3
        self.arrived = False  # whether the last point offered is within the tolerance
        n, R = problem.n_patterns, problem.n_prototypes
        self.cost = np.inf
        if problem.centre is None and problem.kernel_psd is not False:
            width = problem.X.shape[1] + 1 if problem.kernel.is_linear else n
            small = width * R <= _LARGEST_ORDER and n * width <= 50_000_000
            if small and (problem.kernel.is_linear or n <= _LARGEST_GRAM):
                self.cost = expected_seconds(n, width, R)

    def is_worth_it(self) -> bool:
        """Whether to leap now."""
        progress = self.progress
        marks = progress.marks
        if not self.left or progress.work < 0.5 * self.cost or len(marks) < 3:
            return False
        limit = progress.stop.max_time
        if limit is not None and progress.run.seconds + self.cost > limit:
            return False
        (before, gap_before), (now, gap) = marks[-3], marks[-1]
        if not np.isfinite(gap):
            return len(marks) > 8
        if not gap < gap_before:
            return True
        checks_left = np.log(max(gap / progress.stop.tol, 1.0)) / np.log(gap_before / gap)
        return bool(checks_left * (now - before) > 2.0 * self.cost)

    def point(self, dual: float, largest: float) -> np.ndarray | None:
        """A dual point (n, R) that is better than the current one, whose dual value is given.

        Where C is huge or infinite, caps well above the largest weight so far are tried first: they
        spare digits, and a solution that stays below them solves the problem itself.
        """
        self.left -= 1
        problem, progress = self.problem, self.progress
        X = features(problem)
        last = 100.0 * HARD_MARGIN_LIMIT / problem.radius2
        whole = np.full(len(problem.cap), last) if problem.is_hard else problem.cap
        start = max(10.0 * largest, 4.0 * dual)
        tried = [start, 100.0 * start] if 1000.0 * start < whole.max() else []
        caps = [*(np.minimum(whole, c) for c in tried), whole]
        free = problem.prototype_class[None, :] != problem.label[:, None]
        free[np.arange(len(free)), problem.own] = True
        best: np.ndarray | None = None
        for cap in caps:
            points, iterations = central_path(
                X,
                problem.own,
                cap,
                free,
                0.1 * progress.stop.tol,
                progress.why_stop,
            )
            progress.iterations += iterations
            for tau in [*refined_points(problem, points[0], cap), *points]:
                if not np.isfinite(tau).all():
                    continue
                V = problem.machine.signed(tau, problem.own)
                try:
                    certificate = judge(problem, DualPoint.from_dense(problem, V)).certificate
                except (FloatingPointError, ValueError):
                    continue  # beyond the digits of float64: no point to offer
                if certificate.relative_gap <= progress.stop.tol:
                    self.arrived = True
                    return tau
                if certificate.dual > dual:
                    best, dual = tau, certificate.dual
            if progress.why_stop():
                break
        return best


def refined_points(problem: Problem, tau: np.ndarray, cap: np.ndarray) -> list[np.ndarray]:
    """tau (inactive variables zero) with the last digits of its conditions, if they can be had."""
    if not np.isfinite(tau).all():
        return []
    rows, own = np.arange(len(tau)), problem.own
    alpha = np.maximum(-tau, 0.0)
    alpha[rows, own] = 0.0
    is_full = alpha.sum(axis=1) >= cap * (1.0 - 1e-12)
    eye = np.eye(tau.shape[1])
    arrows = eye[own][:, None, :] - eye[None]
    target, none = np.ones(alpha.shape), np.zeros(tau.shape[1])
    found = []
    for cut in CUTS:
        alpha_new = refine(
            problem, alpha, alpha > 0.0, is_full, none, arrows, target, cap[:, None], cut
        )
        if alpha_new is not None:
            point = -alpha_new
            point[rows, own] = np.minimum(alpha_new.sum(axis=1), cap)
            found.append(point)
    return found


def features(problem: Problem) -> np.ndarray:
    """Rows of the feature map: the data and the constant, or a square root of the Gram matrix."""
    if problem.kernel.is_linear:
        X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
        constant = np.full((len(X), 1), np.sqrt(problem.kernel.offset))
        return np.concatenate([np.asarray(X, dtype=np.float64), constant], axis=1)
    everyone = np.arange(problem.n_patterns)
    K = problem.gram(everyone, everyone).astype(np.float64)
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    keep = values > 1e-14 * values[-1]
    return np.ascontiguousarray(vectors[:, keep] * np.sqrt(values[keep]))


def expected_seconds(n: int, width: int, R: int) -> float:
    """What some twenty iterations will cost, roughly."""
    normal = n * float(width) ** 2 * R * (R + 1)
    factor = (R * float(width)) ** 3 / 3.0
    return 2e-3 + 20.0 * ((normal + factor) / _FLOPS_PER_SECOND + 1e-8 * n * R * 40)


def central_path(
    X: np.ndarray,
    own: np.ndarray,
    cap: np.ndarray,
    free: np.ndarray,
    tol: float,
    why_stop: Callable[[], str | None],
) -> tuple[list[np.ndarray], int]:
    """Follow the central path to relative gap ``tol``.

    Parameters
    ----------
    X : (n, d) rows of the feature map, the constant feature included.
    own : (n,) own prototype of each row.
    cap : (n,) finite C_i > 0.
    free : (n, R) the variables that take part: all but other prototypes of the own class (2.2).
    tol : relative gap (P - D) / P.
    why_stop : asked once an iteration.

    Returns
    -------
    points : list of (n, R)
        The end of the path with inactive variables set to zero, and as it is; both feasible.
    iterations : int
    """
    iterations = 0
    with np.errstate(all="ignore"):  # a step beyond the range of float64 ends the path
        path = _Path(X, own, cap, free)
        while iterations < _ITERATIONS and not path.is_within(tol) and not why_stop():
            iterations += 1
            if not path.advance():
                break
    return [path.purified(), path.tau()], iterations


class _Path:
    def __init__(self, X: np.ndarray, own: np.ndarray, cap: np.ndarray, free: np.ndarray) -> None:
        self.X, self.own, self.cap, self.R = X, own, cap, free.shape[1]
        self.rows = np.arange(len(X))
        self.free = free.astype(np.float64)  # variables that take no part have delta 0 and s 1
        # the centre of every simplex, with theta so high that all products are nearly equal
        self.delta = (cap / free.sum(axis=1))[:, None] * self.free
        tau = -self.delta
        tau[self.rows, own] += cap
        self.W = tau.T @ X
        F = self.scores(self.W)
        F[self.rows, own] -= 1.0
        highest = np.where(free, F, -np.inf).max(axis=1, keepdims=True)
        spread = 2.0 * float((self.free * (highest - F)).max())
        self.s = np.where(free, highest + max(1.0, spread) - F, 1.0)

    def scores(self, W: np.ndarray) -> np.ndarray:
        return self.X @ W.T

    def is_within(self, tol: float) -> bool:
        gap = float((self.delta * self.s).sum())
        own_tau = float((self.cap - self.delta[self.rows, self.own]).sum())
        dual = own_tau - 0.5 * float((self.W * self.W).sum())
        return gap <= tol * max(dual + gap, 0.0)

    def advance(self) -> bool:
        """One predictor-corrector step; False if the arithmetic allows no more."""
        try:
            return self._advance()
        except (LinAlgError, ValueError):  # not definite, or not finite, any more
            return False

    def _advance(self) -> bool:
        solve = self._factorise()
        product = self.delta * self.s
        mu = float(product.sum() / self.free.sum())
        d_delta, d_s, _ = solve(-product)
        step = self._longest(d_delta, d_s)
        ahead = float(((self.delta + step * d_delta) * (self.s + step * d_s)).sum())
        centring = (ahead / (mu * self.free.sum())) ** 3
        d_delta, d_s, step_W = solve(centring * mu * self.free - product - d_delta * d_s)
        step = min(1.0, 0.995 * self._longest(d_delta, d_s))
        if not step > 1e-8 or not np.isfinite(step_W).all():
            return False
        self.delta += step * d_delta
        self.s += step * d_s
        self.W += step * step_W
        return bool((self.delta > 0.0)[self.free > 0.0].all() and self.s.min() > 0.0)

    def _factorise(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        X, R = self.X, self.R
        d = X.shape[1]
        w = self.delta / self.s
        total = w.sum(axis=1)
        A = np.empty((R, d, R, d))
        for r in range(R):
            for q in range(r, R):
                theta = -w[:, r] * w[:, q] / total
                if q == r:
                    theta = theta + w[:, r]
                block = (X * theta[:, None]).T @ X
                A[r, :, q, :] = block
                A[q, :, r, :] = block.T
        square = A.reshape(R * d, R * d)
        square[np.diag_indices(R * d)] += 1.0
        factor = cho_factor(square, lower=True, overwrite_a=True)

        def solve(c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            scaled = c / self.s
            mean = scaled.sum(axis=1) / total
            right = -((scaled - w * mean[:, None]).T @ X)
            step_W = cho_solve(factor, right.ravel()).reshape(R, d)
            df = self.scores(step_W)
            d_theta = mean + (w * df).sum(axis=1) / total
            d_s = self.free * (d_theta[:, None] - df)
            return scaled - w * d_s, d_s, step_W

        return solve

    def _longest(self, d_delta: np.ndarray, d_s: np.ndarray) -> float:
        """Largest step that keeps delta and s non-negative."""
        worst = max(
            float((-d_delta / np.where(self.free, self.delta, 1.0)).max(initial=0.0)),
            float((-d_s / self.s).max(initial=0.0)),
        )
        return 1.0 if worst <= 1.0 else 1.0 / worst

    def purified(self) -> np.ndarray:
        """tau with the variables on their way to zero set to zero, rows summing to zero."""
        share = self.delta / self.cap[:, None]
        keep = share > self.s
        keep[self.rows, share.argmax(axis=1)] = True
        delta = np.where(keep, self.delta, 0.0)
        delta *= (self.cap / delta.sum(axis=1))[:, None]
        return self._as_tau(delta)

    def tau(self) -> np.ndarray:
        """tau of the interior point itself, its rows back on their simplices."""
        return self._as_tau(self.delta * (self.cap / self.delta.sum(axis=1))[:, None])

    def _as_tau(self, delta: np.ndarray) -> np.ndarray:
        tau = -delta
        tau[self.rows, self.own] = 0.0
        tau[self.rows, self.own] = np.minimum(-tau.sum(axis=1), self.cap)
        return tau
