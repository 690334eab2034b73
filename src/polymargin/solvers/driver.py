"""The driver: check, record, keep the best, ask the judge, decide to stop, next round.

This loop exists once; solvers are methods of it (``solvers.method.Method``).  The decision to stop
is here and nowhere else.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from polymargin.certificate.certificate import Certificate, Judgement, certify
from polymargin.certificate.training_scores import KnownRows
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.solvers.costs import judge_seconds
from polymargin.solvers.history import AnyCheck, History
from polymargin.solvers.method import Checked, Method
from polymargin.solvers.run import Run, deferred_interrupt

__all__ = ["Judged", "Progress", "Solution", "drive"]

_KEEP_AFTER = 1.1
"""A better point is copied once the work exceeds so many times that of the last copy: points are
large, and at most a tenth of the work is lost."""
_NO_MATTER_WITHIN_TOL = ("max_time", "max_iter", "stalled")
_KEEP_SECONDS = 0.3  # nominal; shorter fits keep none: they end before anybody interrupts them
_STEP_SECONDS = 1e-6  # nominal, of methods that count steps but no work


@dataclass
class Solution:
    """A dual point, what the judge says of it, and how the run ended."""

    problem: Problem
    point: DualPoint
    judgement: Judgement
    status: str
    iterations: int
    history: History
    advice: str | None = None  # what a user could change, where the solver knows better
    scores: np.ndarray | None = None  # (n, R) of all patterns, where the method remembers them
    steps: int = 0

    @property
    def support(self) -> np.ndarray:
        """Patterns with dual weight."""
        return self.point.support

    @property
    def start(self) -> DualPoint:
        """The point with the intercept that the judge found: where another solve may begin."""
        if not self.problem.has_free_bias:
            return self.point
        return replace(self.point, b=self.judgement.intercept)

    @cached_property
    def coefficients(self) -> np.ndarray:
        """(s, R) T with M_r = sum_i T_ir phi(x_i)."""
        return self.point.coefficients(self.problem)


class Judged(NamedTuple):
    """A point that the judge has seen, and the scores (n, R) of all patterns if they were kept."""

    point: DualPoint
    judgement: Judgement
    scores: np.ndarray | None


class Progress:
    """Counts passes, steps and work of a run; keeps its history, its best point, what was judged.

    ``work`` is in nominal seconds, the same on every machine: decisions by it give the same bits.
    """

    def __init__(
        self,
        method: Method,
        run: Run,
        iterations: int = 0,
        steps: int = 0,
        known_rows: KnownRows | None = None,
    ) -> None:
        self._method = weakref.ref(method)
        self.run, self.known_rows = run, known_rows
        self.problem = method.problem
        self.stop, self.history = run.stop, run.history
        self.iterations, self.steps = iterations, steps
        self.work = 0.0
        self.marks: list[tuple[float, float]] = []  # work and relative gap of every check
        self.seen: list[Judged] = []
        self.best_merit = (2.0, 0.0)
        self.best: DualPoint | None = None
        self.kept_work = 0.0

    @property
    def method(self) -> Method:
        """Whoever runs it: it owns its progress, and its memory is free as soon as it is gone."""
        method = self._method()
        assert method is not None
        return method

    def why_stop(self) -> str | None:
        """The reason to end now, if there is one."""
        return self.run.why_stop(self.iterations)

    def why_end(self) -> str | None:
        """Ctrl-C or the time limit, if it is one of them."""
        return self.run.why_end()

    # -- history -------------------------------------------------------------------------------

    def record(self, checked: Checked) -> float:
        """Note a check; the relative gap comes back."""
        relative = checked.relative_gap
        self.marks.append((self.work, relative))
        entry = self.entry(checked.primal, checked.dual, relative, checked.active)
        self.tell(entry, self.method.snapshot)
        return relative

    def tell(
        self, entry: AnyCheck, snapshot: Callable[[], DualPoint], history: History | None = None
    ) -> None:
        """Give a check to a history and its watchers; a watcher may ask to stop, as Ctrl-C does."""
        try:
            if (history or self.history).record(entry, snapshot):
                self.run.clock.interrupted = True
        except KeyboardInterrupt:
            self.run.clock.interrupted = True

    def entry(self, primal: float, dual: float, relative: float, active: int) -> AnyCheck:
        """One line of the history."""
        kind: Any = self.history.kind
        entry: AnyCheck = kind(
            self.run.seconds,
            self.iterations,
            primal,
            dual,
            relative,
            active,
            self.steps,
            *self.method.history_columns(primal, dual),
        )
        return entry

    def note(self, certificate: Certificate, active: int) -> AnyCheck:
        """The line of the history that says what the judge said."""
        return self.entry(certificate.primal, certificate.dual, certificate.relative_gap, active)

    # -- points --------------------------------------------------------------------------------

    def keep_if_best(self, merit: tuple[float, float]) -> None:
        """Copy the point of the lowest merit, now and then.

        Short fits with a soft margin need none, and long ones not at every check: points are large.
        Nominal seconds decide, because a fit that ends at ``max_iter`` may return the copy, and the
        same seed must give the same bits.
        """
        spent = max(self.work, _STEP_SECONDS * self.steps)
        is_due = spent > _KEEP_SECONDS and spent >= _KEEP_AFTER * self.kept_work
        if merit < self.best_merit and (is_due or self.problem.is_hard):
            self.best_merit, self.kept_work = merit, spent
            self.best = self.method.point()

    def judged(self, point: DualPoint) -> Judgement:
        """What the judge says of a point; the point that was judged last is not judged again."""
        for known in self.seen[-1:]:
            if _is_same(known.point, point):
                return known.judgement
        kept = self.method.remembers
        self.seen = self.seen[1 - kept :] if kept > 1 else []  # makes room first
        scores = None
        if kept:
            scores = np.zeros((self.problem.n_patterns, self.problem.n_prototypes))
        judgement = self.method.judge(point, scores, self.known_rows)
        self.seen.append(Judged(point, judgement, scores))
        return judgement

    def scores_of_all(self, point: DualPoint) -> np.ndarray:
        """(n, R) scores of a point as the judge computes them (methods that remember)."""
        self.judged(point)
        scores = self.seen[-1].scores
        assert scores is not None
        return scores

    def can_judge(self, n_support: int) -> bool:
        """Whether a certificate fits into what is left of the time."""
        return self.run.clock.has_left(judge_seconds(self.problem, n_support))

    def may_judge(self, has_to_end: bool, point: DualPoint) -> bool:
        """Whether there is time for the certificate of a point, where the run has to end now."""
        return not has_to_end or self.can_judge(len(point.support))

    def keep_reserve(self, n_support: int) -> None:
        """Set the time of a certificate aside."""
        if self.run.clock.max_time:
            self.run.clock.keep_reserve(judge_seconds(self.problem, n_support))

    # -- the end -------------------------------------------------------------------------------

    def finish(self, status: str, point: DualPoint, judgement: Judgement | None = None) -> Solution:
        """The better of the last and the best point, with its certificate.

        A fit that has to end now and cannot afford the certificate says so: P is infinite.
        """
        has_to_end = status in ("max_time", "interrupted")
        if judgement is None:
            if self.may_judge(has_to_end, point):
                judgement = self.judged(point)
            else:
                dual = max((check.dual for check in self.history.checks), default=0.0)
                judgement = self.method.unjudged(point, dual)
        best = self.best
        if best is not None and status != "converged" and self.may_judge(has_to_end, best):
            other = self.method.judge(best, None, self.known_rows)
            if _is_better(other, judgement):
                point, judgement = best, _with_best_dual(other, judgement)
        certificate = judgement.certificate
        status = self.method.final_status(status, judgement)
        is_convex = self.problem.has_one_prototype_per_class
        if (
            is_convex
            and certificate.relative_gap <= self.stop.tol
            and status in _NO_MATTER_WITHIN_TOL
        ):
            status = "converged"
        checks = self.history.checks
        if checks and abs(checks[-1].primal - certificate.primal) <= 1e-9 * certificate.primal:
            checks.pop()  # the same point, seen by the method: the judge's word replaces it
        checks.append(self.note(certificate, len(point.support)))
        scores = next(
            (one.scores for one in reversed(self.seen) if _is_same(one.point, point)), None
        )
        return Solution(
            self.problem,
            point,
            judgement,
            status,
            self.iterations,
            self.history,
            self.method.advice,
            scores,
            self.steps,
        )


def drive(
    method: Method,
    run: Run,
    iterations: int = 0,
    steps: int = 0,
    known_rows: KnownRows | None = None,
) -> Solution:
    """Run a method to the tolerance, or until there is another reason to stop.

    Parameters
    ----------
    method : Method
    run : Run
    iterations, steps : int
        Passes and steps that were made before, where a method goes on.
    known_rows : KnownRows or None
        Kernel rows for the judge, where the same kernel is judged many times.
    """
    progress = Progress(method, run, iterations, steps, known_rows)
    with deferred_interrupt(run.clock):
        try:
            method.start(progress)
            return _loop(method, progress)
        except OutOfTimeError:
            return progress.finish(run.why_end() or "max_time", method.point())


def _loop(method: Method, progress: Progress) -> Solution:
    tol = progress.stop.tol
    switch = None
    if method.takes_interior_point:
        from polymargin.solvers.interior_switch import InteriorPointSwitch

        switch = InteriorPointSwitch(method.problem, progress)
    while True:
        checked = method.check()
        relative = progress.record(checked)
        progress.keep_if_best(checked.merit)
        progress.keep_reserve(checked.n_support)
        if relative <= tol:
            moved = method.last_round(checked)
            point = method.point()
            if not progress.can_judge(len(point.support)):
                return progress.finish("max_time", point)
            judgement = progress.judged(point)
            if moved:
                entry = progress.note(judgement.certificate, checked.active)
                progress.tell(entry, method.snapshot)
            if judgement.certificate.relative_gap <= tol:
                return progress.finish("converged", *method.refine(point, judgement))
            method.rejected(judgement)
        reason = method.why_over(checked) or progress.why_stop()
        if reason is None and switch is not None and switch.is_hopeless():
            reason = "stalled"
        if reason is None and switch is not None and switch.is_worth_it():
            found = switch.point(checked.dual, method.largest_weight())
            if found is not None:
                method.adopt(found)
                continue
        if reason is None and not method.advance(checked):
            reason = "stalled"
        if reason is not None:
            return progress.finish(reason, method.point())


def _is_same(a: DualPoint, b: DualPoint) -> bool:
    if a is b:
        return True
    same_b = a.b is b.b or (a.b is not None and b.b is not None and np.array_equal(a.b, b.b))
    return same_b and np.array_equal(a.support, b.support) and np.array_equal(a.V, b.V)


def _is_better(a: Judgement, b: Judgement) -> bool:
    if np.isinf(a.certificate.primal) and np.isinf(b.certificate.primal):
        return a.margin / np.sqrt(a.norm2 or 1.0) > b.margin / np.sqrt(b.norm2 or 1.0)
    return a.certificate.primal < b.certificate.primal


def _with_best_dual(a: Judgement, b: Judgement) -> Judgement:
    """The primal side of a; the larger dual value of the two bounds the same optimum."""
    dual = max(a.certificate.dual, b.certificate.dual)
    certificate = certify(a.certificate.primal, dual, a.certificate.kernel_psd)
    return replace(a, certificate=certificate)
