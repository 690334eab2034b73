"""When the driver leaves descent for the interior point, and the point that comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polymargin.certificate.judge import judge
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.costs import interior_point_seconds
from polymargin.solvers.interior_point import CentralPath, features, follow

if TYPE_CHECKING:
    from polymargin.certificate.certificate import Certificate
    from polymargin.solvers.driver import Progress

__all__ = ["InteriorPointSwitch"]

_ATTEMPTS = 3  # switches in one run: a second point is rarely better than what descent made of one
_LARGEST_ORDER = 2000  # of the matrix to be factorised: 32 MB, a second
_LARGEST_GRAM = 700  # patterns of a kernel: its square root has so many features
_LARGEST_DATA = 50_000_000  # numbers in the rows of the feature map
_SPENT = 0.5  # of the interior point's cost must have gone into descent before
_LEFT = 2.0  # times its cost must still be needed by descent
_GRACE = 20.0  # times its cost may go into descent after a solution that rounding hides
_NEAR = 0.1  # relative gap up to which descent's point is where the path begins
_AIM = 0.01  # of the tolerance: the next digits are cheap, and the judge sees rounding too


class InteriorPointSwitch:
    """Decides when descent is too slow and offers the interior point's dual point instead.

    The switch is worth it once descent has spent half of what the interior point will cost and, by
    the rate of its last checks, still needs more than twice that.  Costs are counted in nominal
    seconds, not read from the clock: the same seed must give the same bits.
    """

    def __init__(self, problem: Problem, progress: Progress) -> None:
        self.problem, self.progress = problem, progress
        self.left = _ATTEMPTS
        self.cost = np.inf
        self.hidden_at = np.inf  # work at which a solution came back that the judge cannot see
        n, R, is_linear = problem.n_patterns, problem.n_prototypes, problem.kernel.is_linear
        if problem.centre is None and problem.kernel_psd is not False:
            width = problem.X.shape[1] + 1 if is_linear else n
            fits = width * R <= _LARGEST_ORDER and n * width <= _LARGEST_DATA
            if fits and (is_linear or n <= _LARGEST_GRAM):
                self.cost = interior_point_seconds(n, width, R)

    def is_worth_it(self) -> bool:
        """Whether to switch now."""
        progress = self.progress
        marks = progress.marks
        if not self.left or progress.work < _SPENT * self.cost or len(marks) < 3:
            return False
        limit = progress.stop.max_time
        if limit is not None and progress.run.seconds + self.cost > limit:
            return False
        (before, gap_before), (now, gap) = marks[-3], marks[-1]
        if not np.isfinite(gap):
            return len(marks) > 8
        if not gap < gap_before:
            return True
        if gap <= 0.0:
            return False
        checks_left = np.log(max(gap / progress.stop.tol, 1.0)) / np.log(gap_before / gap)
        return bool(checks_left * (now - before) > _LEFT * self.cost)

    def is_hopeless(self) -> bool:
        """Whether rounding in the kernel values hides a solution, and descent has not found it.

        The path ended within the tolerance, the judge finds all its points outside: scores of
        coefficients and kernel values of this size have no more digits.
        """
        return self.progress.work > self.hidden_at + _GRACE * self.cost

    def point(self, dual: float, largest: float) -> DualPoint | None:
        """A dual point better than the current one (its dual value, its largest variable).

        None where there is none, or where the arithmetic fails (LinAlgError).
        """
        self.left -= 1
        progress, tol = self.progress, self.progress.stop.tol
        try:
            X = features(self.problem)
        except np.linalg.LinAlgError:
            return None
        best = None
        for cap in self.caps(dual, largest):
            path, points = self.followed(X, cap, largest)
            for point in points:
                certificate = self.certificate(point)
                if certificate is None:
                    continue
                if certificate.relative_gap <= tol:
                    return point
                if certificate.dual > dual:
                    best, dual = point, certificate.dual
            if progress.why_stop():
                break
            if not self.left and path.is_within(_AIM * tol) and cap is self.problem.cap:
                self.hidden_at = progress.work
        return best

    def followed(
        self, X: np.ndarray, cap: np.ndarray, largest: float
    ) -> tuple[CentralPath, list[DualPoint]]:
        """A path and the points at its end, begun beside descent's point where that is close.

        A path from there may leave the middle too far to arrive: then another begins there.
        """
        progress, tol = self.progress, _AIM * self.progress.stop.tol
        starts: list[DualPoint | None] = [None]
        if progress.marks[-1][1] <= _NEAR:
            starts.insert(0, progress.method.point())
        for start in starts:
            path = CentralPath(self.problem, X, cap, largest, start)
            points, iterations = follow(path, tol, progress.why_stop)
            progress.iterations += iterations
            if path.is_within(tol) or progress.why_stop():
                break
        return path, points

    def caps(self, dual: float, largest: float) -> list[np.ndarray]:
        """Caps to try, the last ones those of the problem.

        Where C is huge, caps well above the largest variable so far come first: they spare digits,
        and a solution that stays below them solves the problem itself.
        """
        cap = self.problem.cap
        if self.problem.machine.p == 2 or self.problem.is_hard:
            return [cap]
        start = max(10.0 * largest, 4.0 * dual)
        first = [start, 100.0 * start] if 0.0 < 1000.0 * start < cap.max() else []
        return [*(np.minimum(cap, c) for c in first), cap]

    def certificate(self, point: DualPoint) -> Certificate | None:
        """What the judge says; None beyond the digits of float64."""
        try:
            return judge(self.problem, point).certificate
        except (FloatingPointError, ValueError, np.linalg.LinAlgError):
            return None
