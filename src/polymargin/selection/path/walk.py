"""How a regularisation path is found: solves where mixtures of solved points are not good enough.

Dual feasible sets grow in proportion to C, so between two solved values C_1 < C < C_2 the point

    alpha(C) = (1 - t) alpha(C_1) + t alpha(C_2),   C = (1 - t) C_1 + t C_2             (9.11)

is feasible, and its scores are the same mixture of known scores: its primal and dual value cost no
product with the data.  The exact path is piecewise linear in C (M-SVM^2: smooth), so such a
mixture is often good enough.  Where it is not, it is where the next solve starts.  The quadratic
loss has no caps; there the best mixture is taken.

The path is therefore divided: both ends are solved, then a point near the middle, until every point
has the gap that was asked for.  The loss of a mixture over a long interval predicts the length of
the last intervals; the interval is divided into a whole number of these.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.energy import energy
from polymargin.certificate.training_scores import TrainingScores
from polymargin.estimators.base import Prepared
from polymargin.estimators.fitted import store, support_vectors
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown
from polymargin.problem.first_assignment import count_prototypes, initial_assignment
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import Problem, row_blocks
from polymargin.problem.scoring import KernelModel
from polymargin.selection.path.path_points import Knot, Mixture, Values, mixture_of, values_at
from polymargin.selection.path.path_solvers import PathSolver
from polymargin.selection.ticker import Ticker
from polymargin.solvers.driver import Solution
from polymargin.solvers.history import History
from polymargin.solvers.run import Run

__all__ = ["Point", "Shared", "Walk", "bounded_margin_C"]

# Shares of the tolerance, measured on the paths of benchmarks/.  First the gaps of a solve whose
# mixtures lose much, whose mixtures lose hardly anything, and without mixtures.  Then the largest
# sum of the gap of a solve and the loss of its mixtures (with kinks the noise of two solves cancels
# in part; a smooth loss has none), and the largest loss that is planned with.
_FINE, _COARSE, _ALONE = 0.5, 0.97, 0.98
_FULL, _FULL_IF_SMOOTH, _LARGEST_LOSS = 1.3, 0.9, 0.5
# The loss of mixtures grows with this power of the distance of two solved points (measured: 2.3 to
# 2.9; 4 with a smooth loss).
_POWER, _POWER_IF_SMOOTH = 2.9, 4.0
_CURVATURE = 0.008  # typical gap of a mixture half way between C and e C (measured)
# Beyond this factor of C a solution is no good start for another.  Larger for linear machines,
# whose cold start costs a product with all the data.
_FAR, _FAR_IF_LINEAR = 3.0, 12.0
# Automatic ranges: the share of the losses in the objective at the largest C, and the largest C
# over the smallest (None: begin where nearly every example has its full weight).
_RANGES: dict[str, tuple[float, float | None]] = {"auto": (1.0 / 3.0, 100.0), "wide": (0.05, None)}
_FULL_WEIGHT = 0.9
_STEP, _STEPS = 10.0, 4
_ROUGH_TOL, _SOME_EXAMPLES = 0.03, 500


@dataclass
class Point:
    """One value of C: the mixture that is its model, and its values."""

    C: float
    mixture: Mixture
    values: Values
    solved: bool
    iterations: int = 0
    seconds: float = 0.0


class Shared:
    """The problem behind all points: data checked once, kernel values computed once."""

    def __init__(
        self,
        template: Any,
        settings: dict[str, Any],
        X: Any,
        y: Any,
        sample_weight: Any,
        validation: tuple[Any, Any],
        tol: float,
        run: Run,
    ) -> None:
        if not isinstance(template, MulticlassSVC | MultiPrototypeSVC):
            raise ValueError(
                f"estimator must be a MulticlassSVC or a MultiPrototypeSVC, got {shown(template)}."
            )
        if getattr(template, "metric", "euclidean") != "euclidean":
            raise ValueError(
                "estimator: a path needs metric='euclidean'; a learned metric depends on C, so its "
                "points have no problem in common."
            )
        if template.cost_matrix is not None:
            raise ValueError(
                "estimator: a path mixes points by the margin 1 for every rival; train single "
                "models (GridSearchCV), or leave cost_matrix out."
            )
        if getattr(getattr(template, "machine", None), "loss_matrix", None) is not None:
            raise ValueError(
                "estimator: a path knows the quadratic loss of machine='msvm2' only; train single "
                "models (GridSearchCV), or leave loss_matrix out."
            )
        self.seconds, self.n_solves = 0.0, 0
        self.estimator = clone(template).set_params(C=1.0, tol=tol, **settings)
        self.prototype_class: np.ndarray
        if isinstance(template, MulticlassSVC):
            machine = self.estimator._check_parameters()
            self.ready: Prepared = self.estimator._prepare(machine, X, y, sample_weight)
            own, self.prototype_class = self.ready.label, np.arange(len(self.ready.classes))
        else:
            machine = MACHINES["cs"]
            self.estimator._check_common()
            self.ready = self.estimator._prepare(machine, X, y, sample_weight)
            own, self.prototype_class = self._assignment(template)
        self.plain = self.estimator._problem(machine, self.ready, own, self.prototype_class)
        cache_mb, seed = float(settings["cache_mb"]), self.estimator._seed()
        part = run.part(seed=seed, cache_mb=cache_mb)
        if isinstance(template, MulticlassSVC):
            self.ready, self.plain = self.estimator._in_span(self.ready, self.plain, part)
        self.weight = self.ready.cap.copy()
        self.validation = self._validation(*validation)
        self.solver = PathSolver(self.plain, part)
        self.problem: Problem = self.solver.problem

    def _assignment(self, template: MultiPrototypeSVC) -> tuple[np.ndarray, np.ndarray]:
        """Prototype of each example: that of a fitted machine, or the initial one."""
        ready = self.ready
        assigned = getattr(template, "assignment_", None)
        if assigned is not None:
            if len(assigned) != ready.X.shape[0] or (assigned[ready.kept] < 0).any():
                raise ValueError(
                    "estimator: its assignment belongs to other examples; give X, y and weights "
                    "that it was trained on, or an unfitted one."
                )
            wrong = template._prototype_class[assigned[ready.kept]] != ready.label
            if wrong.any():
                raise ValueError("estimator: its assignment does not fit the labels y.")
            return assigned[ready.kept].astype(np.int64), template._prototype_class
        counts = count_prototypes(self.estimator.n_prototypes, ready.classes, None)
        prototype_class = np.repeat(np.arange(len(counts)), counts)
        own = initial_assignment(
            self.estimator._kept_init(ready),
            ready.data,
            ready.label,
            ready.cap,
            counts,
            [self.estimator._seed(), 0],
            ready.kernel.name != "precomputed",
        )
        return own, prototype_class

    def _validation(self, X_val: Any, y_val: Any) -> tuple[Any, np.ndarray] | None:
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val belong together: give both or neither.")
        if X_val is None:
            return None
        checked = self.estimator._checked_rows(X_val, self.ready.kernel)
        labels = np.asarray(y_val).ravel()
        if len(labels) != checked.shape[0]:
            raise ValueError(
                f"y_val has {len(labels)} labels for {checked.shape[0]} rows of X_val."
            )
        if self.ready.span is not None:
            checked = self.ready.span.transform(checked, self.ready)
        return checked, labels

    def set_C(self, C: float) -> None:
        self.problem = self.problem.changed(cap=C * self.weight)

    def fitted(self, point: Point) -> Any:
        """An estimator with the attributes of this point."""
        model = clone(self.estimator).set_params(C=float(point.C))
        ready, values = self.ready, point.values
        problem = self.problem.changed(cap=point.C * self.weight)
        solution = self.solution(point, problem, float(model.tol))
        store(model, solution, model._fitted_attributes(ready, problem))
        if ready.span is not None:
            model.exact_kernel_ = ready.span.bounds(model, solution)
        model.n_features_in_ = self.estimator.n_features_in_
        if hasattr(self.estimator, "feature_names_in_"):
            model.feature_names_in_ = self.estimator.feature_names_in_
        if isinstance(model, MultiPrototypeSVC):
            found = energy(problem, solution.point, values.norm2 / values.scale**2, values.scale)
            model.assignment_ = np.full(ready.X.shape[0], -1, dtype=np.int64)
            model.assignment_[ready.kept] = problem.own
            model.energy_, model.alive_ = found.value, found.alive
            model.stationary_ = bool(found.excess <= 2.0 * model.tol)
        return model

    def solution(self, point: Point, problem: Problem, tol: float) -> Solution:
        """A point of the path as a solution of its problem."""
        values, mixture = point.values, point.mixture
        b = mixture.b if problem.has_free_bias else np.zeros(problem.n_prototypes)
        intercept = b if mixture.W is None else mixture.intercept
        judgement = Judgement(
            values.certificate, mixture.W, intercept, np.nan, values.norm2, values.scale
        )
        status = "converged" if values.certificate.relative_gap <= tol else "max_time"
        dual_point = mixture.point(problem)
        return Solution(problem, dual_point, judgement, status, point.iterations, History())


class Walk:
    """Division of the path: solves where mixtures are not good enough."""

    def __init__(self, shared: Shared, run: Run, verbose: int) -> None:
        self.shared, self.path_run, self.verbose = shared, run, verbose
        is_smooth = shared.problem.machine.p == 2
        self.full = _FULL_IF_SMOOTH if is_smooth else _FULL
        self.power = _POWER_IF_SMOOTH if is_smooth else _POWER
        self.knots: list[Knot] = []
        self.rough: list[Knot] = []  # rough solutions of the search for the range
        self.points: dict[float, Point] = {}
        self.ticker: Ticker | None = None

    # -- the whole -----------------------------------------------------------------------------

    def run(self, Cs: np.ndarray | str, n_points: int) -> list[Point]:
        """``Cs`` are values, or how to find them: "auto" or "wide"."""
        if isinstance(Cs, str):
            losses, width = _RANGES[Cs]
            low = self.lowest_C()
            high = self.highest_C(low, losses)
            given = np.geomspace(high / width if width else low, high, n_points)
        else:
            given = Cs
        self.ticker = Ticker("path", len(given), self.verbose)
        step = 2.0 * np.log(given[-1] / given[0]) / max(len(given) - 1, 1)
        share = self.plan(_CURVATURE * step**2 * 1.5**self.power, 3)[1]
        # downwards: few examples have weight at the largest C, and nearly all of them keep it
        for C in (float(given[-1]), float(given[0])):
            self.at(C, share)
        if len(self.knots) == 2:
            right, left = self.knots
            self.fill(left, right, given)
        for C in given:
            if float(C) not in self.points:  # beyond the last solved point when time was up
                self.accept(float(C), self.ray(float(C)), False)
        return [self.points[float(C)] for C in given]

    def at(self, C: float, share: float) -> None:
        """Solve the point of an end of the range."""
        if C in self.points:
            return
        known = [*self.knots, *self.rough]
        if known and self.path_run.why_end():
            self.accept(C, self.ray(C), False)
            return
        far = _FAR_IF_LINEAR if self.shared.problem.kernel.is_linear else _FAR
        near = any(1.0 / far <= C / knot.C <= far for knot in known)
        self.keep(C, self.solve(C, self.ray(C) if near else None, share))

    def ray(self, C: float) -> Mixture:
        """The best feasible multiple of the solution of the nearest C."""
        known = [*self.knots, *self.rough]
        nearest = min(known, key=lambda knot: abs(np.log(knot.C / C)))
        return mixture_of(self.shared.problem, nearest, None, C)

    def fill(self, left: Knot, right: Knot, given: np.ndarray) -> None:
        """Find every value of C between two solved ones: by mixtures, or a solve and two parts."""
        inner = [float(C) for C in given if left.C < C < right.C]
        if not inner:
            return
        tol = self.path_run.stop.tol
        middle = inner[len(inner) // 2]
        found: dict[float, Point] = {}

        def look(C: float) -> float:
            if C not in found:
                mixture = mixture_of(self.shared.problem, left, right, C)
                found[C] = Point(C, mixture, self.values(C, mixture), False)
            return found[C].values.relative_gap

        if look(middle) <= tol or self.path_run.why_end():
            # mostly the gap is largest in the middle; compute the others only if it is small there
            worst = max(inner, key=look)
            if look(worst) <= tol or self.path_run.why_end():
                self.points |= found
                self.tell()
                return
            middle = worst
        steps = len(inner) + 1
        lost = look(middle) - max(left.certificate.relative_gap, right.certificate.relative_gap)
        length, share = self.plan(lost, steps)
        pieces = -(-steps // length)
        if pieces > 2:
            middle = inner[round(steps * (pieces // 2) / pieces) - 1]
            look(middle)
        knot = self.solve(middle, self.best_start(found[middle]), share)
        self.keep(middle, knot)
        self.fill(knot, right, given)
        self.fill(left, knot, given)
        knot.forget_scores()

    def best_start(self, point: Point) -> Mixture:
        """The mixture of a point, or the solution of the search for the range if that is nearer.

        Only the first solve inside the range can start from those, so they are dropped.
        """
        candidates = [point]
        for knot in self.rough:
            if 1.0 / _FAR <= point.C / knot.C <= _FAR:
                ray = mixture_of(self.shared.problem, knot, None, point.C)
                candidates.append(Point(point.C, ray, self.values(point.C, ray), False))
        self.rough.clear()
        return min(candidates, key=lambda one: one.values.relative_gap).mixture

    def plan(self, lost: float, steps: int) -> tuple[int, float]:
        """How many steps apart points will be solved, and to which share of the tolerance.

        Mixtures over ``steps`` steps lose ``lost``; over fewer ones less by a power.
        """
        tol = self.path_run.stop.tol
        for length in range(steps - 1, 1, -1):
            loss = max(lost, 0.0) / tol * (length / steps) ** self.power
            if loss <= _LARGEST_LOSS:
                return length, min(max(self.full - loss, _FINE), _COARSE)
        return 1, _ALONE

    def tell(self) -> None:
        if self.ticker is not None:
            self.ticker.tell(len(self.points), f", {self.shared.n_solves} solves")

    # -- one point -----------------------------------------------------------------------------

    def solve(self, C: float, start: Mixture | None, share: float = _COARSE) -> Knot:
        shared = self.shared
        shared.set_C(C)
        started = time.perf_counter()
        tol = share * self.path_run.stop.tol
        knot = shared.solver.solve(shared.problem, C, start, tol)
        knot.seconds = time.perf_counter() - started
        shared.n_solves += 1
        self.tell()
        return knot

    def keep(self, C: float, knot: Knot) -> None:
        self.knots.append(knot)
        mixture = mixture_of(self.shared.problem, knot, None, C)
        self.accept(C, mixture, True, knot)

    def accept(self, C: float, mixture: Mixture, solved: bool, knot: Knot | None = None) -> None:
        values = self.values(C, mixture)
        point = Point(C, mixture, values, solved)
        if knot is not None:
            point.iterations, point.seconds = knot.iterations, knot.seconds
            if knot.certificate.relative_gap < values.relative_gap:
                point.values = replace(values, certificate=knot.certificate, scale=knot.scale)
        self.points[C] = point

    def values(self, C: float, mixture: Mixture) -> Values:
        self.shared.set_C(C)
        labels = None
        if self.shared.validation is not None:
            labels = self.shared.validation[1]
            for knot in (mixture.left, mixture.right):
                if knot is not None and knot.validation_scores is None:
                    knot.validation_scores = self.validation_scores(knot)
        return values_at(self.shared.problem, C, mixture, self.shared.ready.classes, labels)

    def validation_scores(self, knot: Knot) -> np.ndarray:
        """Scores of the validation examples without the constant part."""
        shared = self.shared
        assert shared.validation is not None
        X = shared.validation[0]
        if knot.W is not None:
            return np.asarray(X @ knot.W.T)
        support, T = knot.coefficients()
        if shared.ready.span is not None:
            return np.asarray(X @ shared.ready.span.prototypes(support, T).T)
        support = shared.ready.kept[support]
        kernel = replace(shared.ready.kernel, offset=0.0)
        is_given = kernel.name == "precomputed"
        landmarks = support if is_given else support_vectors(shared.ready, support)
        model = KernelModel(kernel, landmarks, T, np.zeros(T.shape[1]))
        return model.scores(X, np.float64, 1)

    # -- the range -----------------------------------------------------------------------------

    def lowest_C(self) -> float:
        """Where a tenth of the examples reach their margin with all weights at their bounds."""
        return bounded_margin_C(self.shared.plain, self.shared.weight)

    def highest_C(self, low: float, losses: float) -> float:
        """The first of some steps up from the lowest C with so small a share of losses."""
        steps = [low * _STEP**k for k in range(1, _STEPS + 1)]
        at = _STEPS // 2
        found: dict[int, bool] = {}
        while at not in found and not (found and self.path_run.why_end()):
            found[at] = self.share_of_losses(steps[at]) <= losses
            at += -1 if found[at] else 1
            if not 0 <= at < len(steps):
                break
        enough = [k for k, few in found.items() if few]
        return steps[min(enough)] if enough else steps[max(found)]

    def share_of_losses(self, C: float) -> float:
        """Share of the losses by a rough solution, the start of the solve if C becomes an end."""
        share = max(_COARSE, _ROUGH_TOL / self.path_run.stop.tol)
        rough = self.solve(C, self.ray(C) if self.rough else None, share)
        self.rough.append(rough)
        norm2 = mixture_of(self.shared.problem, rough, None, C).norm2 * rough.scale**2
        return 1.0 - 0.5 * norm2 / max(rough.certificate.primal, 1e-300)


def bounded_margin_C(problem: Problem, weight: np.ndarray) -> float:
    """C at which a tenth of the examples have margin 1 under the fully bounded model.

    That model gives every example its whole weight, shared evenly among its rivals: its scores are
    proportional to C, and for small C (up to how rivals share the weight) it is the solution.
    """
    n = problem.n_patterns
    rivals = problem.prototype_class[None, :] != problem.label[:, None]
    T = np.where(rivals, -1.0 / rivals.sum(axis=1, keepdims=True), 0.0)
    T[np.arange(n), problem.own] = 1.0
    T *= weight[:, None]
    if problem.has_free_bias:
        T -= T.mean(axis=0)  # balanced
    if problem.kernel.is_linear:
        source, some = TrainingScores(problem, np.arange(n), T), np.arange(n)
        scores = np.concatenate([source.block(rows).T for rows in row_blocks(n, 4096)])
    else:  # some examples determine a quantile well enough
        some = np.unique(np.linspace(0, n - 1, min(n, _SOME_EXAMPLES)).astype(int))
        scores = np.concatenate(
            [problem.gram(some[rows], slice(0, n)) @ T for rows in row_blocks(len(some), 128)]
        )
    own = scores[np.arange(len(some)), problem.own[some]]
    margins = own - np.where(rivals[some], scores, -np.inf).max(axis=1)
    reached = float(np.quantile(margins, _FULL_WEIGHT))
    if not reached > 0.0:
        reached = float(np.abs(margins).max()) or 1.0
    return 1.0 / reached
