"""The regularisation path: one machine for many values of C, every point certified.

Dual feasible sets grow in proportion to C, so between two solved values C_1 < C < C_2 the point

    alpha(C) = (1 - t) alpha(C_1) + t alpha(C_2),   C = (1 - t) C_1 + t C_2                     (9.11)

is feasible, and its scores are the same mixture of known scores: its primal and dual value cost no
product with the data.  The exact path is piecewise linear in C (M-SVM^2: smooth), so such a mixture
is often good enough.  Where it is not, it is where the next solve starts.  The quadratic loss has no
caps; there the best mixture is taken.

The path is therefore halved, not walked: both ends are solved, then the worst point in between,
until every point has the gap that was asked for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from polymargin._threads import single_threaded_libraries
from polymargin.certificate import energy
from polymargin.classifier import Prepared
from polymargin.continuation import Ticker, with_gram
from polymargin.estimators import MulticlassSVC
from polymargin.exceptions import warn_user
from polymargin.initialization import count_prototypes, initial_assignment
from polymargin.machines import MACHINES
from polymargin.multi_prototype import MultiPrototypeSVC
from polymargin.path_points import Knot, Mixture, Values, mixture_of, values_at
from polymargin.path_solvers import PathSolver, make_solver
from polymargin.problem import Problem
from polymargin.solvers.base import Deadline, Stop, deferred_interrupt
from polymargin.validation import check_number

__all__ = ["RegularizationPath", "regularization_path"]

_FINE, _COARSE = 0.4, 0.9  # share of tol of a solve, where mixtures will be made of it, and not
_CURVATURE = 0.012  # typical gap of a mixture half way between C and e C (measured)
_FAR = 3.0  # factor of C from which on a solution is no good start for another
_AUTO_SHARE = 0.9
_AUTO_STEP = 10.0
_AUTO_RANGE = 1e4
_AUTO_LOSSES = 0.05


class RegularizationPath:
    """What ``regularization_path`` found: arrays with one entry per value of C, and models.

    Attributes
    ----------
    Cs : (m,) increasing.
    primal, dual, gap, relative_gap : (m,)
        The certificate of every point: dual <= P*(C) <= primal.
    norm2 : (m,) sum_r ||M_r||^2.
    n_support : (m,) examples with dual weight.
    training_error, validation_error : (m,)
        Weighted share of wrong labels (ties are decided as ``predict`` does); the second is None
        without ``X_val``.
    intercept : (m, n_classes or n_prototypes)
        Constant part of the scores.
    solved : (m,) bool
        Whether a solver ran for this point; the others are certified mixtures of two that were.
    converged : (m,) bool
        Whether the relative gap is at most ``tol``.
    iterations, seconds : (m,)
        Passes made and time taken for each point.
    status : str
        "complete", "max_time" or "interrupted": after the last two some points have larger gaps.
    total_seconds : float
    n_solves : int
        Solver runs, those that found the range of C included.
    classes : labels.
    tol : float
    """

    def __init__(self, points: list[_Point], shared: _Shared, tol: float, status: str) -> None:
        self._points, self._shared = points, shared
        self.tol, self.status = tol, status
        self.classes = shared.ready.classes
        self.Cs = np.array([point.C for point in points])

        def column(name: str) -> np.ndarray:
            return np.array([getattr(point.values, name) for point in points])

        self.primal, self.dual = column("primal"), column("dual")
        self.gap = np.maximum(self.primal - self.dual, 0.0)
        self.relative_gap = column("relative_gap")
        self.norm2 = column("norm2")
        self.training_error = column("training_error")
        self.validation_error: np.ndarray | None = None
        if shared.validation is not None:
            self.validation_error = column("validation_error")
        self.n_support = np.array([point.mixture.n_support for point in points])
        self.intercept = np.stack([point.mixture.intercept * point.values.scale for point in points])
        self.solved = np.array([point.solved for point in points])
        self.converged = self.relative_gap <= tol
        self.iterations = np.array([point.iterations for point in points])
        self.seconds = np.array([point.seconds for point in points])
        self.total_seconds = shared.seconds
        self.n_solves = shared.n_solves

    def __len__(self) -> int:
        return len(self.Cs)

    def __repr__(self) -> str:
        return (
            f"RegularizationPath({len(self)} values of C from {self.Cs[0]:.3g} to "
            f"{self.Cs[-1]:.3g}, {int(self.solved.sum())} solved, largest relative gap "
            f"{self.relative_gap.max():.1e}, {self.total_seconds:.2f} s, {self.status})"
        )

    def _is_linear(self) -> bool:
        return bool(self._shared.ready.kernel.is_linear)

    @property
    def coef(self) -> np.ndarray:
        """(m, n_classes or n_prototypes, n_features) prototypes; linear kernel only."""
        if not self._is_linear():
            raise AttributeError("coef: only the linear kernel has prototypes; use dual_coef.")
        return np.stack([point.mixture.W * point.values.scale for point in self._points])

    @property
    def dual_coef(self) -> np.ndarray:
        """(m, n_samples, n_classes or n_prototypes) coefficients T: M_r = sum_i T_ir phi(x_i)."""
        ready = self._shared.ready
        R = self._shared.problem.n_prototypes
        out = np.zeros((len(self), ready.X.shape[0], R))
        for at, point in enumerate(self._points):
            support, T = point.mixture.coefficients()
            out[at, ready.kept[support]] = T * point.values.scale
        return out

    def model(self, index: int) -> Any:
        """The machine at one point, ready to predict: MulticlassSVC or MultiPrototypeSVC."""
        return self._shared.fitted(self._points[index])

    def best(self) -> int:
        """The point of the lowest validation error, the smallest C among equals."""
        if self.validation_error is None:
            raise ValueError("best needs validation errors: give X_val and y_val to the path.")
        return int(self.validation_error.argmin())

    def plot(self, ax: Any = None) -> Any:
        """Draw the path: a ``RegularizationPathDisplay``."""
        from polymargin.plots.path import RegularizationPathDisplay

        return RegularizationPathDisplay.from_path(self, ax=ax)


def regularization_path(
    X: Any,
    y: Any,
    machine: Any = "cs",
    Cs: Any = "auto",
    kernel: Any = "linear",
    *,
    n_Cs: int = 50,
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    intercept: str = "auto",
    intercept_scaling: float = 1.0,
    sample_weight: Any = None,
    class_weight: Any = None,
    n_prototypes: Any = None,
    init: Any = "auto",
    estimator: Any = None,
    X_val: Any = None,
    y_val: Any = None,
    tol: float = 1e-3,
    max_iter: int = 100_000,
    max_time: float | None = None,
    cache_mb: float = 1000,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> RegularizationPath:
    """Solve a machine for many values of C, every point with a certificate.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        For a precomputed kernel the (n_samples, n_samples) matrix.
    y : array-like of shape (n_samples,)
    machine : str or Machine, default="cs"
        As in ``MulticlassSVC``.
    Cs : "auto" or sequence of float, default="auto"
        Values of C, finite and positive; they are sorted.  "auto" spaces ``n_Cs`` values evenly in
        log C, from where a tenth of the examples would reach their margin if every example had its
        full weight, to where the losses are 5 % of the objective or less, at most 1e5 times more.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
    n_Cs : int, default=50
        Number of values for "auto".
    gamma, degree, coef0, intercept, intercept_scaling, class_weight
        As in ``MulticlassSVC``.
    sample_weight : array-like of shape (n_samples,) or None
    n_prototypes : int, mapping or array, default=None
        Several prototypes per class: the static problem of the multi-prototype machine with the
        assignment ``init`` ("auto", "kmeans", "random", or prototype numbers per example).
    init : see ``n_prototypes``
    estimator : MulticlassSVC or MultiPrototypeSVC, default=None
        Where the parameters above come from instead (``Cs``, ``tol`` and those after it count
        still).  A fitted ``MultiPrototypeSVC`` gives its assignment.
    X_val, y_val : array-like, default=None
        For ``validation_error``.  For a precomputed kernel values against the training examples.
    tol : float, default=1e-3
        Relative duality gap of every point.
    max_iter : int, default=100000
        Passes of one solve.
    max_time : float or None, default=None
        Seconds for everything.  Points not reached are mixtures of their neighbours, with the gaps
        that they have.  Ctrl-C does the same.
    cache_mb : float, default=1000
        Memory for kernel values.  The kernel matrix is computed once if it takes half of it.
    n_jobs, random_state
        As in ``MulticlassSVC``.
    verbose : int, default=0
        1 prints a line every other second.

    Returns
    -------
    RegularizationPath

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import regularization_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = regularization_path(X, y, machine="ww", n_Cs=20, random_state=0)
    >>> bool((path.relative_gap <= 1e-3).all())
    True
    """
    check_number("tol", tol, above=0.0)
    if max_time is not None:
        check_number("max_time", max_time, above=0.0)
    template = estimator
    if estimator is None:
        options = {
            "kernel": kernel,
            "gamma": gamma,
            "degree": degree,
            "coef0": coef0,
            "intercept": intercept,
            "intercept_scaling": intercept_scaling,
            "class_weight": class_weight,
        }
        if n_prototypes is None:
            template = MulticlassSVC(machine=machine, **options)
        else:
            if machine != "cs":
                raise ValueError(
                    f"n_prototypes: several prototypes per class need machine='cs', got {machine!r}."
                )
            template = MultiPrototypeSVC(
                n_prototypes=n_prototypes, init=init, assignment="static", **options
            )
    given = _given_values(Cs, n_Cs)
    deadline = Deadline(Stop(tol, int(max_iter), max_time))
    with deferred_interrupt(deadline), single_threaded_libraries():
        settings = {"cache_mb": cache_mb, "n_jobs": n_jobs, "random_state": random_state}
        shared = _Shared(template, settings, X, y, sample_weight, X_val, y_val, tol, deadline)
        walk = _Walk(shared, deadline, verbose)
        points = walk.run(given, int(n_Cs))
    shared.seconds = deadline.seconds
    status = "complete"
    if any(point.values.relative_gap > tol for point in points):
        status = deadline.why_end() or "stalled"
        worst = max(point.values.relative_gap for point in points)
        warn_user(
            f"regularization_path ended early ({status}): the largest relative gap is {worst:.1e}, "
            f"above tol={tol:g}.",
            UserWarning,
        )
    return RegularizationPath(points, shared, tol, status)


def _given_values(Cs: Any, n_Cs: Any) -> np.ndarray | None:
    if isinstance(Cs, str):
        if Cs != "auto":
            raise ValueError(f"Cs must be 'auto' or a sequence of numbers, got {Cs!r}.")
        if isinstance(n_Cs, bool) or not isinstance(n_Cs, int | np.integer) or n_Cs < 2:
            raise ValueError(f"n_Cs must be an integer >= 2, got {n_Cs!r}.")
        return None
    try:
        values = np.unique(np.asarray(Cs, dtype=np.float64).ravel())
    except (TypeError, ValueError) as error:
        raise ValueError(f"Cs must be 'auto' or a sequence of numbers, got {Cs!r}.") from error
    if not len(values) or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"Cs must be finite numbers > 0, got {Cs!r}.")
    return values


@dataclass
class _Point:
    """One value of C: the mixture that is its model, and what it is worth."""

    C: float
    mixture: Mixture
    values: Values
    solved: bool
    iterations: int = 0
    seconds: float = 0.0


class _Shared:
    """The problem behind all points: data checked once, kernel values computed once."""

    def __init__(
        self,
        template: Any,
        settings: dict[str, Any],
        X: Any,
        y: Any,
        sample_weight: Any,
        X_val: Any,
        y_val: Any,
        tol: float,
        deadline: Deadline,
    ) -> None:
        if not isinstance(template, MulticlassSVC | MultiPrototypeSVC):
            raise ValueError(
                f"estimator must be a MulticlassSVC or a MultiPrototypeSVC, got {template!r}."
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
        self.problem: Problem = with_gram(self.plain, float(settings["cache_mb"]))
        self.weight = self.ready.cap.copy()
        self.validation = self._validation(X_val, y_val)
        self.solver: PathSolver = make_solver(
            self.problem,
            deadline.stop,
            deadline,
            self.estimator._seed(),
            float(settings["cache_mb"]),
            self.ready.kernel.offset,
        )

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
        # input is checked as predict does it, which wants a fitted attribute to be there
        self.estimator.intercept_ = np.zeros(1)
        self.estimator._kernel = self.ready.kernel
        checked = self.estimator._check_input(X_val)
        del self.estimator.intercept_
        labels = np.asarray(y_val).ravel()
        if len(labels) != checked.shape[0]:
            raise ValueError(
                f"y_val has {len(labels)} labels for {checked.shape[0]} rows of X_val."
            )
        return checked, labels

    def set_C(self, C: float) -> None:
        self.problem.cap = C * self.weight

    def fitted(self, point: _Point) -> Any:
        """An estimator with the attributes of this point."""
        model = clone(self.estimator).set_params(C=float(point.C))
        mixture, scale, ready = point.mixture, point.values.scale, self.ready
        support, T = mixture.coefficients()
        W = None if mixture.W is None else mixture.W * scale
        if isinstance(model, MultiPrototypeSVC):
            made = model._fitted_attributes(ready, self.prototype_class)
        else:
            made = model._fitted_attributes(ready.kernel, ready.classes, ready.X)
        attributes = made(ready.kept[support], T * scale, W, mixture.intercept * scale)
        for name, value in attributes.items():
            setattr(model, name, value)
        model.n_features_in_ = self.estimator.n_features_in_
        if hasattr(self.estimator, "feature_names_in_"):
            model.feature_names_in_ = self.estimator.feature_names_in_
        model.certificate_ = point.values.certificate
        model.status_ = "converged" if model.certificate_.relative_gap <= model.tol else "max_time"
        model.n_iter_ = max(1, point.iterations)
        if isinstance(model, MultiPrototypeSVC):
            problem = replace(self.problem, cap=point.C * self.weight)
            found = energy(problem, support, T, point.values.norm2 / scale**2, scale)
            model.assignment_ = np.full(ready.X.shape[0], -1, dtype=np.int64)
            model.assignment_[ready.kept] = self.problem.own
            model.energy_, model.alive_ = found.value, found.alive
            model.stationary_ = bool(found.excess <= 2.0 * model.tol)
        return model


class _Walk:
    """Halving of the path: solves where mixtures are not good enough."""

    def __init__(self, shared: _Shared, deadline: Deadline, verbose: int) -> None:
        self.shared, self.deadline, self.verbose = shared, deadline, verbose
        self.knots: list[Knot] = []
        self.points: dict[float, _Point] = {}
        self.ticker: Ticker | None = None

    # -- the whole -----------------------------------------------------------------------------

    def run(self, given: np.ndarray | None, n_Cs: int) -> list[_Point]:
        if given is None:
            low = self.lowest_C()
            self.solve(low, None)
            given = np.geomspace(low, self.highest_C(), n_Cs)
        self.ticker = Ticker("path", len(given), self.verbose)
        step = 2.0 * np.log(given[-1] / given[0]) / max(len(given) - 1, 1)
        for C in (float(given[0]), float(given[-1])):
            self.at(C, self.share(_CURVATURE * step**2))
        solved = sorted({knot.C: knot for knot in self.knots}.items())
        for (_, left), (_, right) in zip(solved, solved[1:], strict=False):
            self.fill(left, right, given)
            left.forget_scores()
        for C in given:
            if float(C) not in self.points:  # above the last solved point when time was up
                self.accept(float(C), self.ray(float(C)), False)
        return [self.points[float(C)] for C in given]

    def at(self, C: float, share: float) -> None:
        """The point of an end of the range."""
        for knot in self.knots:
            if knot.C == C:
                self.keep(C, knot)
                return
        if self.knots and self.deadline.why_end():
            self.accept(C, self.ray(C), False)
            return
        is_near = bool(self.knots) and C <= _FAR * self.knots[-1].C
        self.keep(C, self.solve(C, self.ray(C) if is_near else None, share))

    def ray(self, C: float) -> Mixture:
        """The best multiple of the solution of the largest smaller C: it is feasible here too."""
        below = max((knot for knot in self.knots if knot.C <= C), key=lambda knot: knot.C)
        return mixture_of(self.shared.problem, below, None, C)

    def fill(self, left: Knot, right: Knot, given: np.ndarray) -> None:
        """Every value of C between two solved ones: mixtures, or a solve and two halves."""
        inner = [float(C) for C in given if left.C < C < right.C]
        if not inner:
            return
        tol = self.deadline.stop.tol
        middle = inner[len(inner) // 2]
        found: dict[float, _Point] = {}

        def look(C: float) -> float:
            if C not in found:
                mixture = mixture_of(self.shared.problem, left, right, C)
                found[C] = _Point(C, mixture, self.values(C, mixture), False)
            return found[C].values.relative_gap

        if look(middle) <= tol or self.deadline.why_end():
            # the middle is the hardest place as a rule; all others are looked at if it will do
            worst = max(inner, key=look)
            if look(worst) <= tol or self.deadline.why_end():
                self.points |= found
                self.tell()
                return
            middle = worst
        # mixtures lose the square of the distance: what will they lose once only single points
        # are left between solved ones?  If too much, more digits now would be wasted
        lost = max(look(middle) - _COARSE * tol, 0.0)
        left_over = lost * (2.0 / (len(inner) + 1)) ** 2
        knot = self.solve(middle, found[middle].mixture, self.share(left_over, len(inner)))
        self.keep(middle, knot)
        self.fill(left, knot, given)
        self.fill(knot, right, given)
        knot.forget_scores()

    def tell(self) -> None:
        if self.ticker is not None:
            self.ticker.tell(len(self.points), f", {self.shared.n_solves} solves")

    # -- one point -----------------------------------------------------------------------------

    def share(self, loss: float, n_inner: int = 2) -> float:
        """The share of the tolerance to solve to, where the last mixtures lose this much."""
        if n_inner == 1:
            return 0.98  # no mixture will be made of it
        return _FINE if loss <= 0.6 * self.deadline.stop.tol else _COARSE

    def solve(self, C: float, start: Mixture | None, share: float = _COARSE) -> Knot:
        shared = self.shared
        shared.set_C(C)
        started = time.perf_counter()
        tol = share * self.deadline.stop.tol
        knot = shared.solver.solve(C, start, tol)
        if shared.validation is not None:
            knot.validation_scores = self.validation_scores(knot)
        knot.seconds = time.perf_counter() - started
        shared.n_solves += 1
        self.knots.append(knot)
        self.tell()
        return knot

    def keep(self, C: float, knot: Knot) -> None:
        mixture = mixture_of(self.shared.problem, knot, None, C)
        self.accept(C, mixture, True, knot)

    def accept(self, C: float, mixture: Mixture, solved: bool, knot: Knot | None = None) -> None:
        values = self.values(C, mixture)
        point = _Point(C, mixture, values, solved)
        if knot is not None:
            point.iterations, point.seconds = knot.iterations, knot.seconds
            if knot.certificate.relative_gap < values.relative_gap:
                point.values = replace(values, certificate=knot.certificate, scale=knot.scale)
        self.points[C] = point

    def values(self, C: float, mixture: Mixture) -> Values:
        self.shared.set_C(C)
        labels = None if self.shared.validation is None else self.shared.validation[1]
        return values_at(self.shared.problem, C, mixture, self.shared.ready.classes, labels)

    def validation_scores(self, knot: Knot) -> np.ndarray:
        """Scores of the validation examples without the constant part."""
        shared = self.shared
        assert shared.validation is not None
        X = shared.validation[0]
        if knot.W is not None:
            return np.asarray(X @ knot.W.T)
        model = shared.estimator
        support, T = knot.coefficients()
        model.support_ = shared.ready.kept[support]
        if shared.ready.kernel.name != "precomputed":
            model.support_vectors_ = shared.ready.X[model.support_]
        model.dual_coef_, model.intercept_ = T, np.zeros(T.shape[1])
        return model._landmark_model().scores(X, np.float64, 1)

    # -- the range -----------------------------------------------------------------------------

    def lowest_C(self) -> float:
        """Where a tenth of the examples reach their margin with all weights at their bounds."""
        return bounded_margin_C(self.shared.plain, self.shared.problem, self.shared.weight)

    def highest_C(self) -> float:
        """Steps up until losses hardly count; the last value."""
        low = self.knots[-1].C
        while True:
            last = self.knots[-1]
            mixture = mixture_of(self.shared.problem, last, None, last.C)
            values = self.values(last.C, mixture)
            losses = 1.0 - 0.5 * values.norm2 / max(values.primal, 1e-300)
            too_far = last.C * _AUTO_STEP > low * _AUTO_RANGE * (1.0 + 1e-9)
            if losses <= _AUTO_LOSSES or too_far or self.deadline.why_end():
                return last.C if last.C > low else low * _AUTO_STEP
            C = last.C * _AUTO_STEP
            self.solve(C, None)


def bounded_margin_C(plain: Problem, problem: Problem, weight: np.ndarray) -> float:
    """C at which a tenth of the examples have margin 1 under the fully bounded model.

    That model gives every example its whole weight, shared evenly among its rivals: its scores are
    proportional to C, and for small C (up to how rivals share the weight) it is the solution.
    """
    from polymargin.certificate import score_source

    n, R = problem.n_patterns, problem.n_prototypes
    rivals = problem.prototype_class[None, :] != problem.label[:, None]
    T = np.where(rivals, -1.0 / rivals.sum(axis=1, keepdims=True), 0.0)
    T[np.arange(n), problem.own] = 1.0
    T *= weight[:, None]
    if problem.has_free_bias:
        T -= T.mean(axis=0)  # balanced
    source = score_source(problem, np.arange(n), T)
    scores = np.concatenate(
        [source.block(slice(s, min(s + 4096, n))).T for s in range(0, n, 4096)]
    )
    own = scores[np.arange(n), problem.own]
    margins = own - np.where(rivals, scores, -np.inf).max(axis=1)
    reached = float(np.quantile(margins, _AUTO_SHARE))
    if not reached > 0.0:
        reached = float(np.abs(margins).max()) or 1.0
    return 1.0 / reached

