"""What a fit of prototypes does once the problem is set: metric, restarts, storing the best.

problem -> learned metric -> alternation (several restarts) -> the model of the lowest energy ->
attributes -> warnings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from polymargin.compiled.memory import rows_of
from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.base import Prepared
from polymargin.estimators.callbacks import FitReporter, onlookers
from polymargin.estimators.fitted import warn_of_outcome
from polymargin.estimators.prototype_base import PrototypeClassifier
from polymargin.problem.annealing import Schedule
from polymargin.problem.problem import Problem
from polymargin.problem.scales import refused_if_inexact
from polymargin.solvers.history import AnyCheck, History, OuterCheck, PatternCheck, Snapshot
from polymargin.solvers.metric_learning import Metric, learn_metric
from polymargin.solvers.run import Deadline, deferred_interrupt
from polymargin.solvers.smo.pattern_smo import PatternSMO

__all__ = ["PrototypeTrainer"]


class PrototypeTrainer(PrototypeClassifier):
    """Training of several prototypes per class, from a ``Problem`` to fitted attributes."""

    assignment: str
    metric: str
    n_restarts: int
    solver: str | PatternSMO

    def _train(
        self,
        problem: Problem,
        ready: Prepared,
        schedule: Schedule | None,
        first_assignment: Callable[[int], np.ndarray],
        seed: int,
        sample_weight: Any,
        metric: Metric | None = None,
    ) -> None:
        """Restarts in threads; the lowest energy is stored.

        ``metric`` is a learned one that is known already.
        """
        from polymargin.solvers.prototypes import PrototypeSolution, solve_prototypes
        from polymargin.solvers.smo.rounds import solve_static

        restarts = int(self.n_restarts) if self.assignment != "static" else 1
        n_jobs = min(effective_n_jobs(self.n_jobs), restarts)
        stop = self._stop()
        deadline = Deadline(stop)
        first_schedule = schedule
        known: PrototypeSolution | None = None
        if metric is None and self.metric == "learned":
            with single_threaded_libraries():
                lesson = learn_metric(
                    problem, schedule, seed, float(self.cache_mb), deadline, onlookers(self)
                )
            # the first run goes on from where the lesson ended
            metric, first_schedule, known = lesson.metric, lesson.schedule, lesson.found
            problem = replace(problem, own=lesson.own)
            deadline.stop = stop = replace(stop, max_iter=max(1, stop.max_iter - lesson.passes))
        if metric is not None:
            problem = metric.problem(problem)
        attributes = self._fitted_attributes(ready, problem.prototype_class, metric)
        reporter = FitReporter(self, ready.X, ready.y, sample_weight, problem, attributes)
        watchers = tuple(map(_one_at_a_time, reporter.watchers))

        def run(restart: int) -> PrototypeSolution | None:
            if known is not None:
                return known if restart == 0 else None
            if restart and deadline.why_end() is not None:
                return None
            if isinstance(self.solver, PatternSMO):
                history = History(watchers, PatternCheck)
                cache_mb = float(self.cache_mb)
                return solve_static(
                    problem, stop, history, self.solver, [seed, 0], cache_mb, deadline
                )
            own = problem.own if restart == 0 else first_assignment(restart)
            return solve_prototypes(
                replace(problem, own=own.copy(), n_jobs=problem.n_jobs if n_jobs == 1 else 1),
                stop,
                History(watchers, OuterCheck),
                schedule if restart else first_schedule,
                self.assignment == "static",
                [seed, restart],
                float(self.cache_mb),
                deadline,
            )

        one_thread, exact = single_threaded_libraries(), refused_if_inexact(problem)
        with deferred_interrupt(deadline), one_thread, exact:
            runs = Parallel(n_jobs=n_jobs, prefer="threads")(
                delayed(run)(restart) for restart in range(restarts)
            )
        found = [one for one in runs if one is not None]
        best = min(found, key=lambda one: np.inf if one.energy is None else one.energy.value)
        self._store(best, ready, reporter)
        reporter.finish()
        warn_of_outcome(best.solution, replace(problem, own=best.own), float(self.tol), False)
        interrupted = any(one.solution.status == "interrupted" for one in found)
        if interrupted and not reporter.stopped:
            raise KeyboardInterrupt

    def _known_metric(self) -> Metric | None:
        return Metric.of(self.metric_) if hasattr(self, "metric_") else None

    def _fitted_attributes(
        self, ready: Prepared, prototype_class: np.ndarray, metric: Metric | None = None
    ) -> Callable[..., dict[str, Any]]:
        """Attributes of the model of a dual point: what ``fit`` stores and callbacks see."""
        kernel, X = ready.kernel, ready.X

        def attributes(
            support: np.ndarray, tau: np.ndarray, W: np.ndarray | None, intercept: np.ndarray
        ) -> dict[str, Any]:
            found: dict[str, Any] = {
                "classes_": ready.classes,
                "support_": support,
                "dual_coef_": tau,
                "intercept_": intercept,
                "prototype_classes_": ready.classes[prototype_class],
                "_kernel": kernel,
                "_prototype_class": prototype_class,
            }
            if kernel.name == "precomputed":
                found["support_vectors_"] = np.empty((0, 0))
            else:
                found["support_vectors_"] = rows_of(X, support)
            if W is not None:
                found["prototypes_"] = W if metric is None else metric.on_features(W)
            if metric is not None:
                found["metric_"] = metric.matrix
            return found

        return attributes

    def _store(self, best: Any, ready: Prepared, reporter: FitReporter) -> None:
        solution = best.solution
        judgement = solution.judgement
        scale = judgement.scale
        W = None if judgement.W is None else judgement.W * scale
        attributes = reporter.attributes(
            ready.kept[solution.support], solution.tau * scale, W, judgement.intercept * scale
        )
        for name in ("prototypes_", "metric_"):
            self.__dict__.pop(name, None)
        for name, value in attributes.items():
            setattr(self, name, value)
        self.assignment_ = np.full(ready.X.shape[0], -1, dtype=np.int64)
        self.assignment_[ready.kept] = best.own
        known = best.energy is not None
        self.energy_ = best.energy.value if known else np.inf
        n_prototypes = len(self._prototype_class)
        self.alive_ = best.energy.alive if known else np.ones(n_prototypes, dtype=bool)
        self.stationary_ = bool(best.is_stationary)
        self.certificate_ = judgement.certificate
        self.status_ = solution.status
        self.history_ = solution.history.as_arrays()
        self.n_iter_ = max(1, solution.iterations)
        self._training = ready


def _one_at_a_time(
    watcher: Callable[[AnyCheck, Snapshot], bool],
) -> Callable[[AnyCheck, Snapshot], bool]:
    """Restarts run in threads; whoever watches hears of one after the other."""
    lock = threading.Lock()

    def watch(check: AnyCheck, snapshot: Snapshot) -> bool:
        with lock:
            return watcher(check, snapshot)

    return watch
