"""The rounds of a sharded solve: join what the shards did, certify, stop (A37).

The leader keeps W only.  A round costs one message with W to every shard and one with dW_k back;
dual variables stay with the shards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from polymargin.certificate.certificate import Certificate, certify
from polymargin.solvers.precision import FLOAT32_PROTOTYPES_TOL
from polymargin.solvers.shards.shard import LocalStep
from polymargin.solvers.shards.shard_variables import Prototypes, ShardSums

__all__ = [
    "Momentum",
    "Round",
    "Rounds",
    "RoundsResult",
    "ShardsLostError",
    "Team",
    "line_search",
    "primal_and_dual",
    "total",
]

_REFRESH = 20
"""Rounds between two sums of W from the shards' own W_k: rounding of W grows with the rounds."""

_ROUNDS_WITHOUT_MOMENTUM = 3

_REMEMBERED = 3
"""Rounds whose changes decide on sigma."""


class Team:
    """The shards, wherever they live: in this process, on threads, on the workers of a cluster.

    Every verb is carried out by all shards; answers come in the order of the shards.  A kind of
    team says how, in ``each``.
    """

    n_shards: int

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        """What every shard answers to a verb."""
        raise NotImplementedError

    def advance(self, model: Prototypes, sigma: float, passes: int) -> list[LocalStep]:
        """A round from the same prototypes."""
        return self.each("advance", model, sigma, passes)

    def settle(self, theta: float, beta: float) -> list[Prototypes]:
        """Take the part theta of the round, then extrapolate by beta; what that adds to W_k."""
        return self.each("settle", theta, beta)

    def sums(self, model: Prototypes) -> list[ShardSums]:
        """Primal and dual terms in float64."""
        return self.each("sums", model)

    def prototypes(self) -> list[Prototypes]:
        """W_k from the dual variables."""
        return self.each("prototypes")

    def rebuild(self, shards: Sequence[int]) -> None:
        """Make lost shards anew, without dual variables or with an earlier copy of them.

        Only shards of other processes are ever lost.
        """


class ShardsLostError(Exception):
    """Some shards lost their dual variables; ``shards`` are their numbers."""

    def __init__(self, shards: Sequence[int]) -> None:
        super().__init__(f"shards {list(shards)} lost their dual variables")
        self.shards = list(shards)


class Round(NamedTuple):
    """One round of the history: the values of the point it began with, and its step."""

    primal: float
    dual: float
    relative_gap: float
    theta: float
    sigma: float
    steps: int


@dataclass
class RoundsResult:
    """The prototypes reached, their certificate, and how the run ended."""

    model: Prototypes
    certificate: Certificate
    n_support: int
    status: str
    rounds: list[Round] = field(default_factory=list)

    @classmethod
    def of(
        cls, model: Prototypes, sums: Sequence[ShardSums], status: str, rounds: list[Round]
    ) -> RoundsResult:
        """With the certificate that the sums of all shards make."""
        certificate = certify(*primal_and_dual(model, sums), True)
        return cls(model, certificate, sum(one.n_support for one in sums), status, rounds)


class Join(NamedTuple):
    """The joined change of a round: dW, the best step in [0, 1], and its gain."""

    change: Prototypes
    theta: float
    gain: float


def total(parts: Sequence[Prototypes]) -> Prototypes:
    """sum_k W_k."""
    found = parts[0]
    for part in parts[1:]:
        found = found.plus(part)
    return found


def line_search(model: Prototypes, steps: Sequence[LocalStep]) -> Join:
    """The exact maximum of D on the segment from W to W + dW (20.3)."""
    change = total([step.change for step in steps])
    slope = sum(step.gain for step in steps) - model.product(change)
    curvature = change.norm2 + sum(step.curvature for step in steps)
    raw = slope / curvature if curvature > 0.0 else 1.0
    theta = float(np.clip(raw, 0.0, 1.0)) if len(steps) > 1 else 1.0
    return Join(change, theta, theta * slope - 0.5 * theta * theta * curvature)


class Momentum:
    """Nesterov's sequence of extrapolations, begun anew whenever D falls.

    Shards that see each other's work only after a round converge as gradient ascent does; with
    momentum 64 shards of low-dimensional data need 115 rounds instead of more than 400 (generated
    data, gap 1e-3).  D is monotone without it; with it the best value is what counts.
    """

    def __init__(self) -> None:
        self.t = 1.0
        self.best = -np.inf

    def beta(self) -> float:
        """The factor of the next extrapolation."""
        before, self.t = self.t, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self.t**2))
        return float((before - 1.0) / self.t)

    def learn(self, dual: float) -> None:
        """D after a round."""
        if dual < self.best:
            self.t = 1.0
        self.best = max(self.best, dual)


class Rounds:
    """Rounds to the relative gap ``tol``.

    Parameters
    ----------
    team : Team
    shape : (R, d)
        Of the prototypes.
    tol : float
    max_rounds : int
    passes : int
        Passes of a shard over its own rows in one round.
    why_stop : callable
        A reason to end now ("max_time", "interrupted"), or None.
    watch : callable or None
        Told of every Round; a true answer ends the run.
    """

    def __init__(
        self,
        team: Team,
        shape: tuple[int, int],
        tol: float,
        max_rounds: int = 10_000,
        passes: int = 5,
        why_stop: Callable[[], str | None] = lambda: None,
        watch: Callable[[Round], bool] | None = None,
    ) -> None:
        self.team = team
        self.tol = tol
        self.max_rounds = max_rounds
        self.passes = passes
        self.why_stop = why_stop
        self.watch = watch
        self.sigma = float(team.n_shards)
        self.shared: deque[float] = deque(maxlen=_REMEMBERED)
        self.model = Prototypes(np.zeros(shape), np.zeros(shape[0]))
        self.momentum = Momentum()
        self.rounds: list[Round] = []

    def run(self, warm: bool = False) -> RoundsResult:
        """Rounds until the certificate is small enough or something ends the run.

        ``warm``: the shards have dual variables already.
        """
        if warm:
            self.refresh()
        while True:
            try:
                reason = self.round()
                result = None if reason is None else self.judged(reason)
            except ShardsLostError as lost:
                self.recover(lost)
                continue
            if result is not None and not self.is_too_early(result):
                return result
            if len(self.rounds) % _REFRESH == 0:
                self.refresh()

    def round(self) -> str | None:
        """One round: advance, join, settle; the reason to end, if there is one.

        A point within ``tol`` is left as it is.
        """
        sigma = self.sigma
        steps = self.team.advance(self.shown(), sigma, self.passes)
        primal, dual = primal_and_dual(self.model, [step.before for step in steps])
        relative = max(primal - dual, 0.0) / primal if primal > 0.0 else 0.0
        join = line_search(self.model, steps)
        self.adapt(join.change, steps)
        made = sum(step.steps for step in steps)
        is_there = relative <= self.tol
        theta = 0.0 if is_there else join.theta
        self.rounds.append(Round(primal, dual, relative, theta, sigma, made))
        reason = "converged" if is_there else self.why_end(made)
        if not is_there:
            self.momentum.learn(dual + join.gain)
        beta = self.momentum.beta() if reason is None and self.has_momentum else 0.0
        further = self.team.settle(theta, beta)
        self.model = total([self.model.plus(join.change, theta), *further])
        return reason

    def adapt(self, change: Prototypes, steps: Sequence[LocalStep]) -> None:
        """sigma for the next round: K halved while it is above ||dW||^2 / sum_k ||dW_k||^2.

        That ratio is what sigma stands for, K for equal changes and 1 for orthogonal ones; the
        largest of the last rounds counts.  Halves keep variables and caps exact to the last bit.
        Beside sigma = K it took 136 instead of 168 rounds (MNIST 15,000 rows, K = 16), 217 instead
        of 285 (K = 64) and 8 instead of 10 (covtype 60,000 rows, K = 16).
        """
        apart = sum(step.change.norm2 for step in steps)
        self.shared.append(change.norm2 / apart if apart > 0.0 else 1.0)
        sigma = float(self.team.n_shards)
        while 0.5 * sigma >= max(1.0, *self.shared):
            sigma *= 0.5
        self.sigma = sigma

    @property
    def has_momentum(self) -> bool:
        """Not in the first rounds: where few are all, a shard need not copy its variables."""
        return self.team.n_shards > 1 and len(self.rounds) >= _ROUNDS_WITHOUT_MOMENTUM

    def shown(self) -> Prototypes:
        """The prototypes as shards are shown them: in float32 where ``tol`` allows it."""
        if self.tol < FLOAT32_PROTOTYPES_TOL:
            return self.model
        return Prototypes(self.model.weights.astype(np.float32), self.model.constant)

    def is_too_early(self, result: RoundsResult) -> bool:
        """Whether the judge finds a gap above ``tol`` where the sums of the round did not."""
        if result.status != "converged" or result.certificate.relative_gap <= self.tol:
            return False
        return bool(self.rounds[-1].steps) and self.why_stop() is None

    def recover(self, lost: ShardsLostError) -> None:
        """Shards lost their variables: they begin anew, W is what is left (section 20)."""
        self.team.rebuild(lost.shards)
        self.momentum = Momentum()
        self.refresh()

    def why_end(self, made: int) -> str | None:
        """The reason to end after a round, if there is one."""
        reason = self.why_stop()
        if reason is None and self.watch is not None and self.watch(self.rounds[-1]):
            reason = "interrupted"
        if reason is None and len(self.rounds) >= self.max_rounds:
            reason = "max_iter"
        if reason is None and not made:
            reason = "stalled"
        return reason

    def refresh(self) -> None:
        """W = sum_k W_k, free of drift."""
        self.model = total(self.team.prototypes())

    def judged(self, status: str) -> RoundsResult:
        """The certificate of W recomputed from all dual variables, in float64."""
        self.refresh()
        return RoundsResult.of(self.model, self.team.sums(self.model), status, self.rounds)


def primal_and_dual(model: Prototypes, sums: Sequence[ShardSums]) -> tuple[float, float]:
    """P and D (20.1) from the sums of all shards."""
    half = 0.5 * model.norm2
    primal = half + sum(one.loss for one in sums)
    dual = sum(one.reward - 0.5 * one.ridge for one in sums) - half
    return primal, dual
