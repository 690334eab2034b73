"""The multi-prototype machine: static problems and reassignments in turn, hot to cold.

Problem card (2.1): minimise over prototypes M and assignments a_i (a prototype of the own class)

    E = 1/2 ||M||^2 + sum_i C_i xi_i^{a_i},
    xi_i^r = max(0, 1 + max_{s of other classes} f_s(x_i) - f_r(x_i)).

For fixed a this is convex (the static problem, solved by the loops for one prototype per class);
for fixed M the best a_i has the smallest slack.  Annealing (A15) draws assignments at a falling
temperature with a few passes of descent in between; greedy rounds (A14) follow until no
reassignment lowers a slack by more than ``tol``; the static problem is certified at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polymargin.certificate.energy import Energy, energy
from polymargin.certificate.judge import judge
from polymargin.compiled.pattern_descent import screen
from polymargin.compiled.reassignment import pulls, reassign
from polymargin.compiled.totals import (
    BEST_LOSS,
    DRAWN_LOSS,
    MOVED,
    OWN_LOSS,
    OWN_WEIGHT,
    empty_totals,
)
from polymargin.problem.annealing import Schedule
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import OutOfTimeError, Problem
from polymargin.solvers.costs import judge_seconds
from polymargin.solvers.driver import Solution
from polymargin.solvers.history import AnyCheck, OuterCheck
from polymargin.solvers.method import unjudged
from polymargin.solvers.prototype_scores import AssignedKernelScores, AssignedLinearScores
from polymargin.solvers.prototype_smo import AssignedPatternScores
from polymargin.solvers.run import Run
from polymargin.solvers.smo.pattern_smo import PatternSMO

__all__ = ["PrototypeSolution", "solve_prototypes", "with_energy"]

_MOST_SWEEPS = 20  # of the rule "until the energy falls"
_ROUNDS, _LAST_ROUNDS = 50, 2  # greedy rounds at most, alone and after annealing
_LARGE = 500_000  # examples times prototypes above which rounds after annealing are few
_ANNEALED_TOL = 0.01  # of the first static problem after annealing
_COLD_STEPS, _FEW = 20, 5000  # steps at temperature zero; n / 5000 changes are few
_ROUGH_TOL, _CLOSER = 0.02, 0.5  # of the first static problem between greedy reassignments, factor
_SNAPSHOT_STEPS = 20  # per example between two copies of the point: copying stays a few percent
_EXCHANGES = 64  # single reassignments that a tiny problem tries one by one
_HOT_SHARE = 0.5  # of max_iter: passes of the annealing at most, the others are for its end
_GREEDY, _KEEP = 0.0, -1.0  # temperatures: the smallest slack; no reassignment


@dataclass
class PrototypeSolution:
    """The certified solution of the last static problem, its assignment and whole energy."""

    solution: Solution
    own: np.ndarray
    energy: Energy | None
    is_stationary: bool


def solve_prototypes(
    problem: Problem,
    run: Run,
    schedule: Schedule | None,
    is_static: bool = False,
    zeroing: bool = False,
    method: PatternSMO | None = None,
) -> PrototypeSolution:
    """Train from the assignment ``problem.own``.

    Parameters
    ----------
    problem : Problem
    run : Run
    schedule : Schedule or None
        Temperatures of the annealing; None goes straight to greedy rounds.
    is_static : bool
        Keep the initial assignment.
    zeroing : bool
        Give up the weights of examples that change their prototype in greedy rounds (A13), where
        there is no schedule to say so.
    method : PatternSMO or None
        The member of the SMO-like family that solves the static problems; None: our own loops.
    """
    work = _Alternation(problem, run, schedule, zeroing, method)
    try:
        work.begin()
        # one prototype per class: nothing to assign
        return work.static() if is_static or problem.has_one_prototype_per_class else work.run_all()
    except OutOfTimeError:
        return work.interrupted(run.why_end() or "max_time")


def with_energy(solution: Solution, run: Run) -> PrototypeSolution:
    """A solved static problem with its whole energy, as far as the time allows."""
    problem, judgement = solution.problem, solution.judgement
    found = None
    is_known = problem.is_hard or not np.isinf(judgement.certificate.relative_gap)
    if is_known and run.clock.has_left(judge_seconds(problem, len(solution.support))):
        found = energy(problem, solution.point, judgement.norm2, judgement.scale)
    is_stationary = (
        found is not None and solution.status == "converged" and found.excess <= 2.0 * run.stop.tol
    )
    return PrototypeSolution(solution, problem.own, found, is_stationary)


# -- the alternation ---------------------------------------------------------------------------


class _Alternation:
    """The state of the alternation: ``self.problem.own`` is a copy that it changes in place."""

    scores: AssignedLinearScores | AssignedKernelScores | AssignedPatternScores | None = None

    def __init__(
        self,
        problem: Problem,
        run: Run,
        schedule: Schedule | None,
        zeroing: bool = False,
        method: PatternSMO | None = None,
    ) -> None:
        n = problem.n_patterns
        self.problem = problem.changed(own=problem.own.copy())
        self.own = self.problem.own
        self.run = run
        self.stop, self.history = run.stop, run.history
        self.schedule = schedule
        self.method = method
        self.zeroing = zeroing if schedule is None else schedule.zeroing
        n_classes = int(problem.prototype_class[-1]) + 1
        self.first = np.searchsorted(problem.prototype_class, np.arange(n_classes + 1))
        self.winner = np.empty(n, dtype=np.int64)
        self.moved = np.empty((n, 2), dtype=np.int64)
        self.best_energy = np.inf
        self.best_own = self.own.copy()
        self.energy_now = np.inf
        self.snapshot: tuple[float, np.ndarray, DualPoint] | None = None
        self.snapshot_at = 0

    def begin(self) -> None:
        """Make the scores; kernel rows may take longer than there is time."""
        if self.method is not None:
            self.scores = AssignedPatternScores(self.problem, self.run, self.method)
        elif self.problem.kernel.is_linear:
            self.scores = AssignedLinearScores(self.problem, self.run)
        else:
            self.scores = AssignedKernelScores(self.problem, self.run)
        self.stage = self.scores

    # -- one step ----------------------------------------------------------------------------

    def step(self, temperature: float) -> tuple[int, int]:
        """Note the energy, reassign, restore, screen; (examples changed, length of the queue).

        A temperature below 0 leaves the assignment alone.
        """
        stage = self.stage
        duals = stage.duals
        totals, sums = empty_totals(), empty_totals()
        norm2, cross = stage.products()
        cross -= self.problem.extra_reward(duals.tau)
        moved = queued = 0
        balance = 0.0 if self.schedule is None else self.schedule.balance
        pull = pulls(self.own, duals.cap, self.first, balance)
        for patterns, scores, shift in stage.blocks():
            end = reassign(
                scores,
                shift,
                patterns,
                duals,
                self.first,
                float(temperature),
                pull,
                float(self.stop.tol),
                stage.random,
                self.winner,
                self.moved,
                moved,
                totals,
            )
            stage.restore(self.moved, moved, end, self.zeroing)
            moved = end
            queued = int(screen(scores, shift, patterns, duals, stage.queue, queued, 0.0, sums))
        changed = int(totals[MOVED])
        self.energy_now = 0.5 * norm2 + totals[BEST_LOSS]
        self.static_now = 0.5 * norm2 + totals[OWN_LOSS]
        self.drawn_now = 0.5 * norm2 + totals[DRAWN_LOSS]
        if self.energy_now < self.best_energy:
            self.best_energy = self.energy_now
            self.best_own = self.winner.copy()
        self.note(temperature, norm2, float(totals[OWN_WEIGHT]) - cross, changed, queued)
        return changed, queued

    def note(self, temperature: float, norm2: float, own: float, changed: int, queued: int) -> None:
        """One line of the history; watchers see the model of this moment."""
        progress = self.stage.progress
        primal, dual = self.static_now, own - 0.5 * norm2
        relative = max(primal - dual, 0.0) / primal if primal > 0.0 else 0.0
        check = OuterCheck(
            self.run.seconds,
            progress.iterations,
            primal,
            dual,
            relative,
            queued,
            progress.steps,
            max(temperature, 0.0),
            self.energy_now,
            changed,
        )
        progress.tell(check, self.stage.point, self.history)

    def keep_snapshot(self) -> None:
        """A copy of the dual point now and then, for a fit that has to end early.

        Steps decide when, not the clock: a fit that ends at ``max_iter`` has the same bits always.
        """
        made = self.stage.progress.steps
        if made - self.snapshot_at < _SNAPSHOT_STEPS * self.problem.n_patterns:
            return
        self.snapshot_at = made
        if self.snapshot is None or self.energy_now < self.snapshot[0]:
            self.snapshot = (self.energy_now, self.own.copy(), self.stage.point())

    # -- the run -----------------------------------------------------------------------------

    def static(self) -> PrototypeSolution:
        return self.closed(self.stage.settle(self.stop.tol))

    def run_all(self) -> PrototypeSolution:
        reason = None
        if self.schedule is not None:
            reason = self.anneal() or self.cool()
        if reason is not None:
            return self.interrupted(reason)
        is_large = self.problem.n_patterns * self.problem.n_prototypes > _LARGE
        last = _LAST_ROUNDS if is_large and self.schedule is not None else _ROUNDS
        found = self.greedy(last)
        if found.energy is not None and self.is_worse_than_seen(found.energy.value):
            end = self.history.checks.pop()  # a history has one end, that of the better run
            self.go_to(self.best_own)
            # its static problem comes first: present prototypes would lead away from it
            found = self.better(found, end, self.greedy(last, reassigns_first=False))
        return self.exchange(found)

    def better(
        self, a: PrototypeSolution, end: AnyCheck, b: PrototypeSolution
    ) -> PrototypeSolution:
        """The one of the lower energy; the problem keeps its assignment, the history ends with it.

        ``end`` is how the history would have ended with ``a``.
        """
        if a.energy is not None and (b.energy is None or not b.energy.value < a.energy.value):
            last = self.history.checks[-1]
            a.solution.iterations = last.iteration
            self.history.checks[-1] = end._replace(
                seconds=last.seconds, iteration=last.iteration, steps=last.steps
            )
            a, b = b, a
        self.own[:] = b.own
        return b

    def exchange(self, found: PrototypeSolution) -> PrototypeSolution:
        """Tiny problems: every single reassignment with its static problem, while one improves."""
        problem = self.problem
        first = self.first[problem.label]
        others = self.first[problem.label + 1] - first - 1
        if not 0 < others.sum() <= _EXCHANGES:
            return found
        improves = True
        while improves and self.stage.progress.why_stop() is None:
            improves = False
            for i in np.flatnonzero(others):
                for r in range(first[i], first[i] + others[i] + 1):
                    if r == found.own[i] or found.energy is None:
                        continue
                    own = found.own.copy()
                    own[i] = r
                    self.go_to(own)
                    other = self.closed(self.stage.settle(self.stop.tol))
                    last = self.history.checks.pop()
                    enough = (1.0 - self.stop.tol) * found.energy.value
                    if other.energy is not None and other.energy.value < enough:
                        found, improves = other, True
                        self.history.checks[-1] = last
        self.own[:] = found.own
        return found

    def is_worse_than_seen(self, value: float) -> bool:
        no_reason = self.stage.progress.why_stop() is None
        return no_reason and self.best_energy < value * (1.0 - 2.0 * self.stop.tol)

    def anneal(self) -> str | None:
        """Draw and descend at every temperature; the reason to end early, if there is one."""
        schedule, stage = self.schedule, self.stage
        assert schedule is not None
        sweeps = schedule.sweeps or _MOST_SWEEPS
        for _ in range(2):  # the initial assignment has its say before the first draw
            _, queued = self.step(_KEEP)
            stage.passes(queued, sweeps)
            reason = stage.progress.why_stop()
            if reason is not None:
                return reason
        for temperature in schedule.temperatures:
            _, queued = self.step(temperature)
            if schedule.sweeps:
                stage.passes(queued, schedule.sweeps)
            else:
                self.descend_below(queued)
            self.keep_snapshot()
            reason = stage.progress.why_stop()
            if reason is not None:
                return reason
            if stage.progress.iterations > _HOT_SHARE * self.stop.max_iter:
                break  # the static problem of the end needs passes too
        return None

    def descend_below(self, queued: int) -> None:
        """Passes until the energy is below that of the draw with the old prototypes (A15)."""
        drawn = self.drawn_now
        for _ in range(_MOST_SWEEPS):
            self.stage.passes(queued, 1)
            _, queued = self.step(_KEEP)
            gap = self.history.checks.pop().relative_gap
            if self.static_now < drawn or gap <= self.stop.tol or queued == 0:
                break
            if self.stage.progress.why_stop() is not None:
                break

    def go_to(self, own: np.ndarray) -> None:
        """Another assignment, the weights of the examples transferred."""
        point = self.stage.point().assigned(own)
        self.own[:] = own
        self.stage.place(point)

    def cool(self) -> str | None:
        """Temperature zero with a few passes in between: nearly all that greedy rounds would do."""
        assert self.schedule is not None
        sweeps = self.schedule.sweeps or _MOST_SWEEPS
        enough = self.problem.n_patterns // _FEW
        for _ in range(_COLD_STEPS):
            changed, queued = self.step(_GREEDY)
            self.stage.passes(queued, sweeps)
            reason = self.stage.progress.why_stop()
            if changed <= enough or reason is not None:
                return reason
        return None

    def greedy(self, rounds: int = _ROUNDS, reassigns_first: bool = True) -> PrototypeSolution:
        """A14: static problems, each solved closer, until no reassignment improves."""
        rough, closer = (_ROUGH_TOL, _CLOSER) if self.schedule is None else (_ANNEALED_TOL, 0.0)
        tol = max(self.stop.tol, rough)
        self.step(_GREEDY if reassigns_first else _KEEP)
        for _ in range(rounds):
            solution = self.stage.settle(tol)
            reason = self.stage.progress.why_stop()
            if reason is not None and solution.judgement.certificate.relative_gap > self.stop.tol:
                solution.status = reason  # solved as closely as this round asked, not as the user
            if reason is not None or solution.status != "converged":
                break
            changed, _ = self.step(_GREEDY)
            self.keep_snapshot()
            if changed == 0 and tol == self.stop.tol:
                break
            tol = max(self.stop.tol, closer * tol if changed else self.stop.tol)
        else:
            solution = self.stage.settle(self.stop.tol)
        return self.closed(solution)

    # -- the end -----------------------------------------------------------------------------

    def closed(self, solution: Solution) -> PrototypeSolution:
        """With the whole energy; the solution keeps the assignment of this moment."""
        return self.ended(self.weighed(solution, self.own.copy()))

    def weighed(self, solution: Solution, own: np.ndarray) -> PrototypeSolution:
        """A solution of an assignment with its whole energy, as far as the time allows."""
        problem = self.problem.changed(own=own)
        return with_energy(replace(solution, problem=problem, history=self.history), self.run)

    def ended(self, found: PrototypeSolution) -> PrototypeSolution:
        """The same, as the last line of the history."""
        solution = found.solution
        certificate = solution.judgement.certificate
        self.history.checks.append(
            OuterCheck(
                self.run.seconds,
                solution.iterations,
                certificate.primal,
                certificate.dual,
                certificate.relative_gap,
                len(solution.support),
                0 if self.scores is None else self.scores.progress.steps,
                0.0,
                np.nan if found.energy is None else found.energy.value,
                0,
            )
        )
        return found

    def interrupted(self, reason: str) -> PrototypeSolution:
        """The better of the present point and the last snapshot, with its certificate.

        Both are judged where the time allows.  Otherwise the energies noted on the way decide,
        which are those before the last passes of either.
        """
        present = self.own.copy(), self.point_now()
        if self.snapshot is None:
            return self.ended(self.cut_short(*present, reason))
        noted, kept = self.snapshot[0], self.snapshot[1:]
        seconds = sum(judge_seconds(self.problem, len(one[1].support)) for one in (present, kept))
        if self.run.clock.has_left(2.0 * seconds):  # each with the certificate and the energy
            both = [self.cut_short(*one, reason) for one in (kept, present)]
            best = min(both, key=lambda one: np.inf if one.energy is None else one.energy.value)
        else:
            best = self.cut_short(*(kept if noted < self.energy_now else present), reason)
        self.own[:] = best.own
        return self.ended(best)

    def point_now(self) -> DualPoint:
        """Where the run is; zero before the first scores."""
        return DualPoint.zero(self.problem) if self.scores is None else self.scores.point()

    def cut_short(self, own: np.ndarray, point: DualPoint, reason: str) -> PrototypeSolution:
        """A point on the way with what the judge says of it."""
        problem = self.problem.changed(own=own)
        in_time = self.run.clock.has_left(judge_seconds(problem, len(point.support)))
        judgement = judge(problem, point) if in_time else unjudged(problem, point)
        iterations = 0 if self.scores is None else self.scores.progress.iterations
        solution = Solution(problem, point, judgement, reason, iterations, self.history)
        return self.weighed(solution, own)
