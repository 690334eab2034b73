"""The multi-prototype machine on shards: draws in the shards, sums and line searches here.

Annealing (A15) and greedy rounds (A14) as in ``solvers.prototypes``; the static problem between two
draws is solved by the rounds of any sharded problem (A37).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from polymargin.compiled.reassignment import pulls_of_weights
from polymargin.problem.annealing import Schedule
from polymargin.solvers.metric_learning import Metric, prototype_metric
from polymargin.solvers.shards.leader import Momentum, Rounds, RoundsResult, ShardsLostError, total
from polymargin.solvers.shards.prototype_shard import EnergyPart
from polymargin.solvers.shards.shard_variables import Prototypes

__all__ = ["DrawStep", "PrototypeResult", "PrototypeRounds"]

_KEEP, _GREEDY = -1.0, 0.0  # temperatures: no reassignment; the smallest slack
_ROUND_PASSES = 5  # of a shard between two joins, where there are several shards
_COLD_STEPS, _FEW = 20, 5000  # steps at temperature zero; n / 5000 changes are few
_ROUGH_TOL = 0.01  # of static problems before the last one
_GREEDY_ROUNDS = {True: 2, False: 20}  # after annealing, and alone
_WARM = 0.15  # temperature, in multiples of C, at which a metric is learnt a second time

Answer = TypeVar("Answer")


class DrawStep(NamedTuple):
    """One draw of the history: energy of the prototypes it saw, and the examples it moved."""

    temperature: float
    energy: float
    changed: int
    round: int


@dataclass
class PrototypeResult:
    """The certified static problem of the last assignment, and the energy of its prototypes."""

    static: RoundsResult
    energy: float
    alive: np.ndarray
    is_stationary: bool
    metric: Metric | None
    draws: list[DrawStep]


class PrototypeRounds(Rounds):
    """Draws and rounds in turn on a team of ``PrototypeShard``.

    Parameters
    ----------
    schedule : Schedule or None
        Temperatures of the annealing; None goes straight to greedy rounds.
    first : (Q + 1,) prototypes of the classes.
    """

    def __init__(
        self, *arguments: Any, schedule: Schedule | None, first: np.ndarray, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.schedule, self.first = schedule, first
        self.draws: list[DrawStep] = []
        self.metric: Metric | None = None
        self.best = np.inf
        self.n_rows = 0

    # -- verbs that survive the loss of a shard ------------------------------------------------

    def surviving(self, work: Callable[[], Answer]) -> Answer:
        """What ``work`` gives; lost shards are made anew and it is done again."""
        while True:
            try:
                return work()
            except ShardsLostError as lost:
                self.recover(lost)

    def recover(self, lost: ShardsLostError) -> None:
        """Lost shards take the assignment that the present prototypes prefer."""
        while True:
            try:
                self.team.rebuild(lost.shards)
                self.team.each(
                    "adopt", self.model, None if self.metric is None else self.metric.root
                )
                self.momentum = Momentum()
                self.refresh()
                return
            except ShardsLostError as again:
                lost = again

    # -- steps -----------------------------------------------------------------------------------

    def draw(self, temperature: float) -> int:
        """Note the energy, reassign; the number of examples that moved."""
        return self.surviving(lambda: self._draw(temperature))

    def _draw(self, temperature: float) -> int:
        schedule = self.schedule
        weight = np.sum(self.team.each("weights"), axis=0)
        pull = pulls_of_weights(weight, self.first, 0.0 if schedule is None else schedule.balance)
        zeroing = schedule is not None and schedule.zeroing
        half = 0.5 * self.model.norm2
        parts = self.team.each("reassign", self.model, temperature, pull, self.tol, zeroing)
        energy = half + sum(part.best for part in parts)
        self.drawn = half + sum(part.drawn for part in parts)
        changed = sum(part.moved for part in parts)
        if energy < self.best:
            self.best = energy
            self.team.each("keep")
        if changed:
            self.model = total([self.model, *(part.change for part in parts)])
        self.momentum = Momentum()
        self.draws.append(DrawStep(max(temperature, 0.0), energy, changed, len(self.rounds)))
        return changed

    def descend(self, sweeps: int) -> str | None:
        """Rounds of some passes from the present assignment; a reason to end the fit now."""
        whole = self.team.n_shards == 1
        self.passes = sweeps if whole else min(sweeps, _ROUND_PASSES)
        for _ in range(1 if whole else -(-sweeps // _ROUND_PASSES)):
            reason = self.surviving(self.round)
            if reason in ("interrupted", "max_time", "max_iter"):
                return reason
        return self.why_stop()

    def settle(self, tol: float) -> RoundsResult:
        """The static problem of the present assignment."""
        goal, self.tol = self.tol, tol
        self.passes = 5
        try:
            return self.run(warm=True)
        finally:
            self.tol = goal

    # -- the whole -------------------------------------------------------------------------------

    def train(self, is_static: bool, has_metric: bool) -> PrototypeResult:
        """From the first assignment to a certified static problem."""
        temperatures = np.empty(0) if self.schedule is None else self.schedule.temperatures
        if has_metric:
            self.learn_metric()
            hot = temperatures[temperatures > _WARM]
            if len(hot) and not is_static:
                reason = self.anneal(hot)
                if reason is None:
                    self.learn_metric()
                temperatures = temperatures[temperatures <= _WARM]
        if is_static or len(self.first) - 1 == self.first[-1]:
            return self.closed(self.settle(self.tol))
        reason = self.why_stop()
        if reason is None and self.schedule is not None:
            reason = self.anneal(temperatures) or self.cool()
        if reason is not None:
            return self.closed(self.surviving(lambda: self.judged(reason)))
        found = self.closed(self.greedy())
        if self.best < found.energy * (1.0 - 2.0 * self.tol) and self.why_stop() is None:
            self.surviving(lambda: self.team.each("swap"))
            again = self.closed(self.settle(self.tol))
            if again.energy < found.energy:
                return again
            self.surviving(lambda: self.team.each("swap"))
            found = self.closed(self.settle(self.tol))
        return found

    def anneal(self, temperatures: np.ndarray) -> str | None:
        """Draw and descend at every temperature; a reason to end early."""
        assert self.schedule is not None
        sweeps = self.schedule.sweeps or 20
        for temperature in (_KEEP, _KEEP, *temperatures):
            self.draw(float(temperature))
            reason = self.descend(sweeps)
            if reason is not None:
                return reason
        return None

    def cool(self) -> str | None:
        """Temperature zero with a few passes in between."""
        assert self.schedule is not None
        for _ in range(_COLD_STEPS):
            changed = self.draw(_GREEDY)
            reason = self.descend(self.schedule.sweeps or 20)
            if reason is not None or changed <= self.n_rows // _FEW:
                return reason
        return None

    def greedy(self) -> RoundsResult:
        """Static problems and reassignments in turn until nothing moves."""
        tol = max(self.tol, _ROUGH_TOL)
        self.draw(_GREEDY)
        for _ in range(_GREEDY_ROUNDS[self.schedule is not None]):
            found = self.settle(tol)
            if found.status != "converged":
                return found
            if not self.draw(_GREEDY):
                if tol == self.tol:
                    return found
                tol = self.tol
        return self.settle(self.tol)

    def learn_metric(self) -> None:
        """The metric of the prototypes of the present assignment, found without one."""
        self.metric = None
        self.go_into(None)
        found = self.settle(max(self.tol, _ROUGH_TOL))
        self.metric = prototype_metric(found.model.weights)
        self.go_into(self.metric.root)

    def go_into(self, root: np.ndarray | None) -> None:
        """Rows in another metric, all dual variables zero."""
        self.model = Prototypes(np.zeros(self.model.weights.shape), 0.0 * self.model.constant)
        self.best = np.inf  # energies of different metrics are not compared
        self.surviving(lambda: self.team.each("measure", root))

    def closed(self, static: RoundsResult) -> PrototypeResult:
        """With the whole energy."""
        parts: list[EnergyPart] = list(
            self.surviving(lambda: self.team.each("energy", static.model))
        )
        energy = 0.5 * static.model.norm2 + sum(part.loss for part in parts)
        excess = max(part.excess for part in parts)
        alive = np.any([part.alive for part in parts], axis=0)
        is_stationary = static.status == "converged" and excess <= 2.0 * self.tol
        return PrototypeResult(static, energy, alive, is_stationary, self.metric, self.draws)
