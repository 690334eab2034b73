"""Training of prototypes from a problem: metric, restarts, storing the best.

problem -> learned metric -> alternation (several restarts) -> the model of the lowest energy ->
attributes -> warnings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from polymargin.certificate.certificate import Judgement
from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.base import Prepared
from polymargin.estimators.callbacks import FitReporter, fit_watchers
from polymargin.estimators.fitted import (
    Attributes,
    model_parts,
    store,
    support_vectors,
    warn_of_outcome,
)
from polymargin.estimators.prototype_base import PrototypeClassifier
from polymargin.problem.annealing import Schedule, find_annealing
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.problem.scales import refused_if_inexact
from polymargin.solvers import solve
from polymargin.solvers.history import AnyCheck, OuterCheck, PatternCheck, Snapshot
from polymargin.solvers.metric_learning import Metric, learn_metric
from polymargin.solvers.run import deferred_interrupt, uninterrupted
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
        from polymargin.solvers.prototypes import (
            PrototypeSolution,
            solve_prototypes,
            with_energy,
        )

        restarts = int(self.n_restarts) if self.assignment != "static" else 1
        n_jobs = min(effective_n_jobs(self.n_jobs), restarts)
        run = self._run((), seed=seed)
        first_schedule = schedule
        known: PrototypeSolution | None = None
        if metric is None and self.metric == "learned":
            with single_threaded_libraries():
                learned = learn_metric(problem, run, schedule, fit_watchers(self))
            # the first restart continues from the assignment at the end of metric learning
            metric, first_schedule, known = learned.metric, learned.schedule, learned.found
            problem = problem.changed(own=learned.own)
            run = run.part(max_iter=max(1, run.stop.max_iter - learned.passes))
        if metric is not None:
            problem = metric.problem(problem)
        attributes = self._fitted_attributes(ready, problem, metric)
        reporter = FitReporter(self, ready.X, ready.y, sample_weight, attributes)
        watchers = tuple(map(_one_at_a_time, reporter.watchers))

        def train(restart: int) -> PrototypeSolution | None:
            if known is not None:
                return known if restart == 0 else None
            if restart and run.why_end() is not None:
                return None
            part = run.part(seed=[seed, restart])
            method = self.solver if isinstance(self.solver, PatternSMO) else None
            if method is not None and self.assignment == "static":
                part.watched_by(watchers, PatternCheck)
                return with_energy(solve(problem, part, method=method), part)
            return solve_prototypes(
                problem.changed(
                    own=problem.own if restart == 0 else first_assignment(restart),
                    n_jobs=problem.n_jobs if n_jobs == 1 else 1,
                ),
                part.watched_by(watchers, OuterCheck),
                schedule if restart else first_schedule,
                self.assignment == "static",
                find_annealing(self.annealing).restoration == "zeroing",
                method,
            )

        one_thread, exact = single_threaded_libraries(), refused_if_inexact(problem)
        with deferred_interrupt(run.clock), one_thread, exact:
            runs = Parallel(n_jobs=n_jobs, prefer="threads")(
                delayed(train)(restart) for restart in range(restarts)
            )
        found = [one for one in runs if one is not None]
        best = min(found, key=lambda one: np.inf if one.energy is None else one.energy.value)
        with uninterrupted():
            self._store(best, ready, attributes)
        reporter.finish()
        warn_of_outcome(best.solution, float(self.tol), can_go_on=False)
        interrupted = any(one.solution.status == "interrupted" for one in found)
        if interrupted and not reporter.stopped:
            raise KeyboardInterrupt

    def _known_metric(self) -> Metric | None:
        return Metric.of(self.metric_) if hasattr(self, "metric_") else None

    def _fitted_attributes(
        self, ready: Prepared, problem: Problem, metric: Metric | None = None
    ) -> Attributes:
        """Attributes of the model of a dual point: what ``fit`` stores and callbacks see."""
        prototype_class = problem.prototype_class

        def attributes(point: DualPoint, judgement: Judgement | None) -> dict[str, Any]:
            support, T, W, intercept = model_parts(problem, ready, point, judgement)
            found: dict[str, Any] = {
                "classes_": ready.classes,
                "support_": support,
                "support_vectors_": support_vectors(ready, support),
                "dual_coef_": T,
                "intercept_": intercept,
                "prototype_classes_": ready.classes[prototype_class],
                "_kernel": ready.kernel,
                "_prototype_class": prototype_class,
            }
            if W is not None:
                found["prototypes_"] = W if metric is None else metric.on_features(W)
            if metric is not None:
                found["metric_"] = metric.matrix
            return found

        return attributes

    def _store(self, best: Any, ready: Prepared, attributes: Attributes) -> None:
        store(self, best.solution, attributes)
        self.assignment_ = np.full(ready.X.shape[0], -1, dtype=np.int64)
        self.assignment_[ready.kept] = best.own
        known = best.energy is not None
        self.energy_ = best.energy.value if known else np.inf
        n_prototypes = len(self._prototype_class)
        self.alive_ = best.energy.alive if known else np.ones(n_prototypes, dtype=bool)
        self.stationary_ = bool(best.is_stationary)
        self._training = ready


def _one_at_a_time(
    watcher: Callable[[AnyCheck, Snapshot], bool],
) -> Callable[[AnyCheck, Snapshot], bool]:
    """The watcher behind a lock: restarts run in threads, and calls must not overlap."""
    lock = threading.Lock()

    def watch(check: AnyCheck, snapshot: Snapshot) -> bool:
        with lock:
            return watcher(check, snapshot)

    return watch
