"""Minimising the radius-margin criterion over C and the parameters of the kernel by gradients.

The logarithm of (28) is minimised in (log C, log gamma, coef0) by L-BFGS-B inside a box.  The
criterion is not convex and flat far out: C -> 0 and gamma -> infinity both make the kernel matrix a
multiple of the identity, a plateau of known height (9.4).  So a coarse look at a part of the
examples comes first; starts on the plateau are left out; the best of a few descents on the part is
where the descent on all examples begins.  Every evaluation begins with the dual variables,
intercept and sphere of the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from polymargin.radius_margin.bound import bound_factor
from polymargin.radius_margin.criterion import Evaluation, Sample, Setting, WarmStart, evaluate
from polymargin.radius_margin.plan import Plan, kernel_scale
from polymargin.solvers.run import Run

__all__ = ["SPHERE_TOL", "Lines", "SearchResult", "part_of", "plateau", "search"]

_PART = 200  # examples of the coarse look
_LOOK_TOL = 1e-2  # relative gaps: of the coarse look, of descents on the part, of the last descent
_PART_TOL = 1e-4
SPHERE_TOL = 1e-6
_PART_EVALUATIONS = 8
_REACH = 3.0  # of one round of a descent, in each coordinate
_FACTORS = (1.0, 8.0, 0.125)
_MOSTLY = 0.9  # share of one term of a sum of kernels where others only help
_ON_PLATEAU = 2e-3  # a start must lie below the plateau by this much (of the logarithm)


@dataclass(frozen=True)
class SearchResult:
    """The best evaluation on all examples and how it was found.

    ``trace`` has one entry per evaluation: (seconds, start, examples, setting, log of (28) without
    its constant, largest slope).
    """

    best: Evaluation
    trace: list[tuple[float, int, int, Setting, float, float]]
    status: str
    plateau: float


class _OutOfTimeError(Exception):
    """The search has to end now."""


def plateau(label: np.ndarray, n_classes: int) -> float:
    """log(R^2 N) where the kernel matrix is a multiple of the identity.

    There all constraints bind, b is the mean of the targets and R^2 = 1 - 1/n; balanced classes
    give 4 (Q - 1)^3 (n - 1) for (28), as in (9.4).
    """
    n = len(label)
    share = np.bincount(label, minlength=n_classes) / n
    b = share - (1.0 - share) / (n_classes - 1.0)
    N = n * (1.0 + 1.0 / (n_classes - 1.0) - float(b @ b))
    return float(np.log((1.0 - 1.0 / n) * N))


# -- the search ----------------------------------------------------------------------------------


@dataclass
class _Search:
    sample: Sample
    plan: Plan
    run: Run
    tell: Callable[[int, int, Evaluation], None] | None
    trace: list[tuple[float, int, int, Setting, float, float]] = field(default_factory=list)
    best: Evaluation | None = None
    warm: WarmStart | None = None
    start: int = 0

    def look(self, sample: Sample, setting: Setting, tol: float) -> Evaluation:
        """One evaluation, noted; raises when there is no time for it."""
        found = evaluate(
            sample,
            setting,
            tol,
            min(SPHERE_TOL, tol),
            self.run,
            self.warm,
            kernel_psd=self.plan.kernel_psd,
        )
        whole = sample is self.sample
        late = self.run.why_end() is not None
        if late and not (whole and self.best is None and np.isfinite(found.log_product)):
            raise _OutOfTimeError
        if np.isfinite(found.log_product):
            self.warm = found.warm()
            slope = self.slope(found)
            inward = float(np.abs(slope).max(initial=0.0))
            entry = (
                self.run.seconds, self.start, len(sample.label), setting,
                found.log_product, inward,
            )  # fmt: skip
            self.trace.append(entry)
            if whole and (self.best is None or found.log_product < self.best.log_product):
                self.best = found
            if self.tell is not None:
                self.tell(self.start, len(sample.label), found)
        if late:
            raise _OutOfTimeError
        return found

    def slope(self, found: Evaluation) -> np.ndarray:
        """Gradient in the coordinates of the search, zero where the box allows no descent."""
        parts = [np.atleast_1d(found.slopes[name]) for name in self.plan.parameters]
        gradient = np.concatenate(parts)
        theta, box = self.plan.coordinates(found.setting), self.plan.bounds()
        at_low = (theta <= box[:, 0] + 1e-9) & (gradient > 0.0)
        at_high = (theta >= box[:, 1] - 1e-9) & (gradient < 0.0)
        return np.where(at_low | at_high, 0.0, gradient)

    def descend(self, sample: Sample, setting: Setting, tol: float, most: int) -> Evaluation | None:
        """L-BFGS-B from a setting; the best evaluation of this descent.

        A line search must not jump into a corner of the box, where machines take longest: each
        round stays within reach of its start, and one that ends at the edge is followed by another.
        """
        plan = self.plan
        box = plan.bounds()
        theta = np.clip(plan.coordinates(setting), box[:, 0], box[:, 1])
        best: Evaluation | None = None
        used = 0

        def value_and_slope(theta: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, used
            used += 1
            found = self.look(sample, plan.setting(theta), tol)
            if not np.isfinite(found.log_product):
                return 1e10, np.zeros(len(theta))
            if best is None or found.log_product < best.log_product:
                best = found
            parts = [np.atleast_1d(found.slopes[name]) for name in plan.parameters]
            return found.log_product, np.concatenate(parts)

        while used < most:
            low, high = np.maximum(box[:, 0], theta - _REACH), np.minimum(box[:, 1], theta + _REACH)
            self.minimize(
                value_and_slope, theta, np.stack([low, high], axis=1), sample, most - used
            )
            if best is None:
                break
            theta = np.clip(plan.coordinates(best.setting), box[:, 0], box[:, 1])
            edge = ((theta <= low + 1e-9) & (low > box[:, 0] + 1e-9)) | (
                (theta >= high - 1e-9) & (high < box[:, 1] - 1e-9)
            )
            if not edge.any():
                break
        return best

    def minimize(
        self, function: Any, theta: np.ndarray, box: np.ndarray, sample: Sample, most: int
    ) -> None:
        from scipy.optimize import minimize

        whole = sample is self.sample
        minimize(
            function,
            theta,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={
                "maxfun": most,
                "gtol": self.plan.tol if whole else 10.0 * self.plan.tol,
                "ftol": 1e-9 if whole else 1e-5,
                "maxls": 8,
            },
        )

    def search_all(self) -> str:
        part = part_of(self.sample, _PART)
        most = self.plan.max_evaluations
        try:
            start = self.first_settings(part)
            if part is not self.sample:
                self.warm = None
            best = self.descend(self.sample, start, self.plan.solver_tol, most)
        except _OutOfTimeError:
            return self.run.why_end() or "max_time"
        if best is None:
            return "not_finite"
        reached = float(np.abs(self.slope(best)).max(initial=0.0)) <= max(self.plan.tol, 1e-6)
        used = sum(entry[2] == len(self.sample.label) for entry in self.trace)
        return "max_evaluations" if not reached and used >= most else "converged"

    def first_settings(self, part: Sample) -> Setting:
        """Where the last descent begins: the lowest end of the descents on a part."""
        level = plateau(part.label, part.n_classes) - _ON_PLATEAU
        seen = []
        for setting in self.candidates(part):
            found = self.look(part, setting, _LOOK_TOL)
            if np.isfinite(found.log_product):
                seen.append(found)
        seen.sort(key=lambda found: found.log_product)
        inside = [found for found in seen if found.log_product < level] or seen[:1]
        if not inside:
            return self.plan.first
        ends = []
        for found in inside[: self.plan.n_starts]:
            self.start += 1
            self.warm = found.warm()
            end = self.descend(part, found.setting, _PART_TOL, _PART_EVALUATIONS)
            ends += [] if end is None else [end]
        self.start += 1
        best = min(ends, key=lambda found: found.log_product)
        self.warm = best.warm()
        return best.setting

    def weight_choices(self) -> list[Any]:
        """Weights of a sum of kernels to begin with: the first ones, and each term nearly alone."""
        first = self.plan.first.weights
        if first is None:
            return [None]
        return [first, *(_MOSTLY * np.eye(len(first)) + (1.0 - _MOSTLY) / len(first))]

    def candidates(self, part: Sample) -> list[Setting]:
        """The first setting and others around it, C in units of the kernel's spread."""
        plan = self.plan
        found = [plan.first]
        choices = [_FACTORS if name in plan.parameters else (1.0,) for name in ("gamma", "C")]
        for weights, wide, large in product(self.weight_choices(), *choices):
            setting = replace(plan.first, gamma=plan.first.gamma * wide, weights=weights)
            if "C" in plan.parameters:
                spread = kernel_scale(part, setting)
                if not 0.0 < spread < np.inf:
                    continue
                setting = replace(setting, C=0.5 * large / spread)
            box = plan.bounds()
            theta = np.clip(plan.coordinates(setting), box[:, 0], box[:, 1])
            found.append(plan.setting(theta))
        return found


def part_of(sample: Sample, size: int) -> Sample:
    """A stratified part of about ``size`` examples, every class with some."""
    n, Q = len(sample.label), sample.n_classes
    size = max(size, 30 * Q)
    if n <= 1.3 * size:
        return sample
    rng = np.random.default_rng(sample.seed)
    rows = []
    for k in range(Q):
        members = np.flatnonzero(sample.label == k)
        count = max(min(len(members), 5), round(size * len(members) / n))
        rows.append(rng.choice(members, min(count, len(members)), replace=False))
    return sample.part(np.sort(np.concatenate(rows)))


def search(
    sample: Sample, plan: Plan, run: Run, tell: Callable[[int, int, Evaluation], None] | None = None
) -> SearchResult:
    """The lowest point of the criterion that was found before ``run``.

    Without any time a whole evaluation at the first setting is tried, so that there is a point.
    """
    work = _Search(sample, plan, run, tell)
    status = work.search_all()
    if work.best is None:
        if status not in ("max_time", "interrupted"):
            raise ValueError(
                f"The criterion is not finite at C={plan.first.C:g}, gamma={plan.first.gamma}, "
                f"coef0={plan.first.coef0:g} or near it; scale the features or start elsewhere"
                + (" (a hard margin needs separable classes)." if np.isinf(plan.first.C) else ".")
            )
        setting = plan.first
        if work.trace:
            setting = min(work.trace, key=lambda entry: entry[4])[3]
        nothing = evaluate(
            sample, setting, 1.0, 1.0, run, None, with_slopes=False, kernel_psd=plan.kernel_psd
        )
        return SearchResult(nothing, work.trace, status, plateau(sample.label, sample.n_classes))
    level = plateau(sample.label, sample.n_classes)
    return SearchResult(work.best, work.trace, status, level)


# -- progress ------------------------------------------------------------------------------------


class Lines:
    """Progress for people."""

    def __init__(self, sample: Sample, run: Run) -> None:
        self.factor = bound_factor(sample.n_classes)
        self.run = run

    def evaluation(self, start: int, n_examples: int, found: Evaluation) -> None:
        value = self.factor * float(np.exp(found.log_product))
        print(
            f"[polymargin] {self.run.seconds:8.2f} s  start {start}  examples {n_examples}  "
            f"{_shown(found.setting)}  bound {value:.6g}",
            flush=True,
        )

    def fold(self, setting: Setting, error: float) -> None:
        print(
            f"[polymargin] {self.run.seconds:8.2f} s  cross-validation  {_shown(setting)}  "
            f"error {100.0 * error:.2f} %",
            flush=True,
        )


def _shown(setting: Setting) -> str:
    widths = np.atleast_1d(setting.gamma)
    gamma = f"{widths[0]:.4g}" if len(widths) == 1 else f"{widths.min():.3g}..{widths.max():.3g}"
    if setting.weights is not None:
        return f"C {setting.C:.4g}  weights {' '.join(f'{beta:.4g}' for beta in setting.weights)}"
    return f"C {setting.C:.4g}  gamma {gamma}  coef0 {setting.coef0:.4g}"
