"""Fits in the span of landmarks: the parameter, the linear problem, the fitted attributes.

A fitted model of landmarks is a kernel expansion like any other, with the landmarks in the place
of the support vectors; only what reads dual variables out of a fitted model cannot use it.
"""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.exact_kernel import ExactKernelBounds, exact_dual, exact_dual_work
from polymargin.estimators.units import Units
from polymargin.exceptions import shown
from polymargin.problem.kernels import Kernel
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.problem.scoring import KernelModel
from polymargin.solvers import solve
from polymargin.solvers.driver import Solution
from polymargin.solvers.landmarks import Landmarks, choose_landmarks, in_span
from polymargin.solvers.precision import FLOAT32_SCORES_TOL, row_dtype
from polymargin.solvers.run import Run, deferred_interrupt

__all__ = ["LandmarkSpan", "check_landmarks", "count_landmarks", "refuse_landmarks"]

_MOST_AUTOMATIC = 2000
"""Landmarks of "auto" at most: beyond it their own products cost more than those of the data."""
_SHARE_OF_TIME = 0.5
"""Part of ``max_time`` for the choice of landmarks; the rest is for solving."""
_SHARE_OF_WORK = 0.1
"""Work of the lower bound of the exact kernel, at most, as a part of the work of the features."""
_ALWAYS = 2000
"""Patterns with dual weight up to which that bound is always computed (well below a second)."""
_COMPARED_ROWS = 512
_GUIDED = 100
"""From so many landmarks on, the dual weights of a machine on the first quarter guide the choice of
the others."""
_GUIDE_TOL, _GUIDE_PASSES = 0.1, 50
"""Relative gap and passes of that machine: it only has to show which rows are near the border."""
_WITHOUT_WEIGHT, _WITH_WEIGHT = 1e-3, 0.05
"""Factors of the probabilities of rows without dual weight, and of rows with next to none; at full
weight the factor is about 1.  Rows without weight stay possible, since that machine is rough."""


def check_landmarks(landmarks: Any, kernel: Any, is_tuned: bool) -> None:
    """Refuse a bad number, and kernels and options that landmarks do not support."""
    if landmarks is None:
        return
    is_number = isinstance(landmarks, numbers.Real) and not isinstance(landmarks, bool)
    if is_number:
        whole = isinstance(landmarks, numbers.Integral)
        right = landmarks >= 1 if whole else 0.0 < landmarks <= 1.0
    else:
        right = isinstance(landmarks, str) and landmarks == "auto"
    if not right:
        raise ValueError(
            "landmarks must be None, an integer >= 1, a fraction of the examples in (0, 1] or "
            f"'auto', got {shown(landmarks)}."
        )
    if not callable(kernel) and kernel == "linear":
        raise ValueError(
            "landmarks: a linear kernel has its features already; use landmarks=None, or "
            "kernel='rbf'."
        )
    if not callable(kernel) and kernel == "precomputed":
        raise ValueError(
            "landmarks: kernel='precomputed' has no rows that could be landmarks; give the rows "
            "and their kernel, or use landmarks=None."
        )
    if is_tuned:
        raise ValueError(
            "landmarks: the radius-margin bound is one of the exact kernel; give C and gamma as "
            "numbers, or use landmarks=None."
        )


def refuse_landmarks(estimator: Any, what: str) -> None:
    """Refuse an estimator with landmarks where exact dual variables are needed."""
    if getattr(estimator, "landmarks", None) is not None:
        raise ValueError(
            f"landmarks={estimator.landmarks!r}: {what} needs the dual variables of the exact "
            "kernel; use landmarks=None."
        )


def count_landmarks(landmarks: Any, n: int, itemsize: int, cache_mb: float) -> int:
    """The number of landmarks; refused where their features would not fit into memory."""
    most = max(int(1e6 * cache_mb / (itemsize * n)), 1)
    if isinstance(landmarks, str):
        wanted = int(np.clip(round(10.0 * np.sqrt(n)), 100, _MOST_AUTOMATIC))
        return min(wanted, most, n)
    whole = isinstance(landmarks, numbers.Integral)
    count = min(int(landmarks) if whole else int(np.ceil(landmarks * n)), n)
    if count > most:
        needed = 1e-6 * itemsize * n * count
        raise ValueError(
            f"landmarks: the features of {n} examples by {count} landmarks need {needed:.0f} MB, "
            f"more than cache_mb={cache_mb:g}; increase cache_mb, or use at most {most} landmarks."
        )
    return count


class LandmarkSpan:
    """The span of the landmarks of one fit.

    Attributes
    ----------
    exact : Problem
        Of the kernel itself.
    problem : Problem
        With prototypes in the span, linear on the features.
    start : DualPoint or None
        Of the machine on the first landmarks; feasible here too.
    """

    def __init__(self, exact: Problem, landmarks: Any, run: Run, verbose: int = 0) -> None:
        dtype = np.dtype(row_dtype(exact, run.stop.tol, FLOAT32_SCORES_TOL))
        count = count_landmarks(landmarks, exact.n_patterns, dtype.itemsize, run.cache_mb)
        self.exact, self.verbose, self.run = exact, verbose, run
        self.start: DualPoint | None = None
        guide = self._guide if _GUIDED <= count <= exact.n_patterns // 2 else None
        with deferred_interrupt(run.clock):
            self.found: Landmarks = choose_landmarks(
                exact, count, dtype, [self._seed(run.seed), 1], self._why_stop, self._tell, guide
            )
        self.problem = in_span(exact, self.found)

    @staticmethod
    def _seed(seed: Any) -> int:
        return int(seed[0] if isinstance(seed, list | tuple) else seed)

    def _guide(self, features: np.ndarray) -> np.ndarray | None:
        """Factors of the probabilities of rows, by dual weights of a machine so far."""
        exact = self.exact
        kernel = Kernel("linear", offset=exact.kernel.offset)
        units = Units(exact.changed(X=features, kernel=kernel, kernel_psd=True))
        part = self.run.part(tol=_GUIDE_TOL, max_iter=_GUIDE_PASSES)
        try:
            solution = units.left(solve(units.problem, part))
        except (FloatingPointError, ValueError):
            return None
        self.start = solution.start
        factor = np.full(exact.n_patterns, _WITHOUT_WEIGHT)
        weight = np.abs(self.start.V).sum(axis=1)
        factor[self.start.support] = _WITH_WEIGHT + weight / max(weight.max(initial=0.0), 1e-300)
        return factor

    def _why_stop(self) -> str | None:
        limit, seconds = self.run.stop.max_time, self.run.seconds
        if limit is not None and seconds > _SHARE_OF_TIME * limit:
            return "max_time"
        return self.run.why_end()

    def _tell(self, count: int) -> None:
        if self.verbose:
            print(f"[polymargin] {self.run.seconds:8.2f} s  {count} landmarks", flush=True)

    def prototypes(self, support: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Prototypes (R, m) of the features from coefficients (s, R) of patterns."""
        return np.asarray(T.T @ self.found.features[support].astype(np.float64))

    def attributes(self, ready: Any, W: np.ndarray) -> dict[str, Any]:
        """The expansion over the landmarks that prototypes (R, m) of the features are."""
        rows = ready.kept[self.found.indices]
        order = np.argsort(rows, kind="stable")
        return {
            "support_": rows[order],
            "support_vectors_": ready.X[rows[order]],
            "dual_coef_": np.ascontiguousarray(self.found.expansion(W)[order]),
        }

    def transform(self, X: Any, ready: Any) -> np.ndarray:
        """Features (n, m) of other rows, in float64."""
        kernel, rows = _without_offset(ready.kernel), ready.X[ready.kept[self.found.indices]]
        m = len(self.found.indices)
        basis = solve_triangular(self.found.factor, np.eye(m), lower=True).T
        return KernelModel(kernel, rows, basis, np.zeros(m)).scores(X)

    def bounds(self, model: Any, solution: Solution) -> ExactKernelBounds:
        """Bounds of the machine of the exact kernel."""
        rest = float((self.found.rest / np.maximum(self._own(), 1e-300)).mean())
        dual = self._dual(solution.point)
        primal = float(solution.judgement.certificate.primal)
        return ExactKernelBounds.of(primal, dual, rest, self._rounding(model, solution.judgement))

    def _own(self) -> np.ndarray:
        return np.asarray(self.exact.diagonal - self.exact.kernel.offset)

    def _dual(self, point: DualPoint) -> float | None:
        n, m = self.found.features.shape
        allowed = _SHARE_OF_WORK * (exact_dual_work(self.exact, 1) * 2.0 + m) * n * m
        size = len(point.support)
        if size > _ALWAYS and exact_dual_work(self.exact, size) > allowed:
            return None
        try:
            return exact_dual(self.exact, point, self.run.why_end)
        except OutOfTimeError:
            return None

    def _rounding(self, model: Any, judgement: Judgement) -> float:
        """Largest difference of scores by the stored expansion and by features, on some rows."""
        if judgement.W is None:
            return 0.0
        n = self.exact.n_patterns
        rows = np.unique(np.linspace(0, n - 1, min(n, _COMPARED_ROWS)).astype(np.int64))
        W, b = judgement.W * judgement.scale, judgement.intercept * judgement.scale
        certified = self.found.features[rows].astype(np.float64) @ W.T + b
        return float(np.abs(model._landmark_model().scores(self.exact.X[rows]) - certified).max())


def _without_offset(kernel: Kernel) -> Kernel:
    return replace(kernel, offset=0.0)
