"""What every solver shares: stop rules, the clock, Ctrl-C, the solution that comes back."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import numpy as np

from polymargin.certificate.certificate import (
    Certificate,
    Judgement,
    certify,
    judge,
    rescaled_dual,
    separated_primal,
)
from polymargin.problem.problem import Problem
from polymargin.solvers.costs import judge_seconds
from polymargin.solvers.history import AnyCheck, Check, History, Snapshot

__all__ = ["HARD_MARGIN_LIMIT", "Deadline", "Progress", "Solution", "Stop", "deferred_interrupt"]

HARD_MARGIN_LIMIT = 1e9
"""A hard-margin problem is called not separable once its certified lower bound D on the optimal
value, times the largest K_ii (without the constant of a penalised intercept), exceeds this: the
margin is then below 1/44000 of the radius."""


_KEEP_AFTER = 1.1  # times the work at the last point that was kept
_TOO_LATE = ("max_time", "max_iter", "stalled")  # no matter where the gap is within tol
_GRACE = 0.4  # seconds that a fit may go on after it was told to end


@dataclass(frozen=True)
class Stop:
    """When to end: the relative gap, passes over the active patterns, seconds."""

    tol: float
    max_iter: int
    max_time: float | None = None


@dataclass
class Solution:
    """A dual point (rows ``support``), what the judge says of it, and how the run ended."""

    support: np.ndarray
    tau: np.ndarray
    judgement: Judgement
    status: str
    iterations: int
    history: History
    advice: str | None = None  # what a user could change, where the solver knows better


class Deadline:
    """The clock of one fit; ``why_stop`` names the reason to end now, if there is one."""

    def __init__(self, stop: Stop) -> None:
        self.started = time.perf_counter()
        self.stop = stop
        self.interrupted = False
        self.reserve = 0.0  # seconds that the final certificate will take

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def why_end(self) -> str | None:
        """Ctrl-C or the time limit, if it is one of them."""
        if self.interrupted:
            return "interrupted"
        if self.stop.max_time is not None and self.seconds + self.reserve >= self.stop.max_time:
            return "max_time"
        return None

    def why_stop(self, iterations: int) -> str | None:
        reason = self.why_end()
        if reason is not None:
            return reason
        if iterations >= self.stop.max_iter:
            return "max_iter"
        return None


@contextmanager
def deferred_interrupt(deadline: Deadline) -> Iterator[None]:
    """Turn the first Ctrl-C into a flag: nothing is left half-written; a second one raises."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        # somebody else (a server, a notebook) handles Ctrl-C: their business
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        if deadline.interrupted:
            raise KeyboardInterrupt
        deadline.interrupted = True

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Progress:
    """Counts passes, keeps the history and the best dual point, and asks the judge at the end."""

    def __init__(
        self,
        problem: Problem,
        stop: Stop,
        history: History,
        snapshot: Snapshot,
        deadline: Deadline | None = None,
    ) -> None:
        self.problem = problem
        self.snapshot = snapshot
        self.deadline = Deadline(stop) if deadline is None else deadline
        self.stop = stop
        self.history = history
        self.iterations = 0
        self.steps = 0
        self.work = 0.0  # nominal seconds, the same on every machine
        self.marks: list[tuple[float, float]] = []
        self.best_merit = (2.0, 0.0)
        self.best: tuple[np.ndarray, np.ndarray] | None = None
        self.kept_work = 0.0
        self.advice: str | None = None

    def why_stop(self) -> str | None:
        return self.deadline.why_stop(self.iterations)

    def record(self, primal: float, dual: float, active: int) -> float:
        """Note a check; the relative gap comes back."""
        gap = max(primal - dual, 0.0)
        relative = gap / primal if 0.0 < primal < np.inf else (0.0 if primal <= 0.0 else np.inf)
        self.marks.append((self.work, relative))
        try:
            if self.history.record(self.entry(primal, dual, relative, active), self.snapshot):
                self.deadline.interrupted = True
        except KeyboardInterrupt:
            self.deadline.interrupted = True
        return relative

    def entry(self, primal: float, dual: float, relative: float, active: int) -> AnyCheck:
        """One line of the history."""
        return Check(
            self.deadline.seconds, self.iterations, primal, dual, relative, active, self.steps
        )

    def record_final(self, certificate: Certificate, active: int) -> None:
        found = certificate
        self.history.checks.append(self.entry(found.primal, found.dual, found.relative_gap, active))

    def keep_if_best(self, merit: tuple[float, float], snapshot: Snapshot) -> None:
        """Remember the dual point of the lowest merit, now and then; the snapshot is a copy.

        Short fits with a soft margin need none, and long ones not at every check: points are large.
        """
        is_due = self.deadline.seconds > 0.5 and self.work >= _KEEP_AFTER * self.kept_work
        if merit < self.best_merit and (is_due or self.problem.is_hard):
            self.best_merit, self.kept_work = merit, self.work
            self.best = snapshot()

    def judged(self, support: np.ndarray, tau: np.ndarray) -> Judgement:
        return judge(self.problem, support, tau)

    def can_judge(self, n_support: int) -> bool:
        """Whether a certificate fits into what is left of the time."""
        limit = self.stop.max_time
        if self.deadline.interrupted:
            left = _GRACE
        elif limit is None:
            return True
        else:
            left = max(limit - self.deadline.seconds, 0.0) + _GRACE
        return judge_seconds(self.problem, n_support) <= left

    def keep_reserve(self, n_support: int) -> None:
        """Set the time of a certificate aside, as long as it is a modest part of the whole."""
        limit = self.stop.max_time
        seconds = judge_seconds(self.problem, n_support)
        self.deadline.reserve = seconds if limit and seconds <= 0.3 * limit else 0.0

    def uncertified(self, tau: np.ndarray) -> Judgement:
        """No primal value, and the best dual value seen."""
        dual = max((check.dual for check in self.history.checks), default=0.0)
        certificate = certify(np.inf, max(dual, 0.0), self.problem.kernel_psd)
        intercept = self.problem.kernel.offset * tau.sum(axis=0)
        return Judgement(certificate, None, intercept, -np.inf, 0.0)

    def finish(
        self, status: str, support: np.ndarray, tau: np.ndarray, judgement: Judgement | None = None
    ) -> Solution:
        """The better of the last and the best point, with its certificate.

        A fit that has to end now and cannot afford the certificate says so: P is infinite.
        """
        if judgement is None:
            if status in ("max_time", "interrupted") and not self.can_judge(len(support)):
                judgement = self.uncertified(tau)
            else:
                judgement = self.judged(support, tau)
        if (
            self.best is not None
            and status != "converged"
            and (status not in ("max_time", "interrupted") or self.can_judge(len(self.best[0])))
        ):
            other = self.judged(*self.best)
            if _is_better(other, judgement):
                (support, tau), judgement = self.best, _with_best_dual(other, judgement)
        certificate = judgement.certificate
        is_convex = self.problem.has_one_prototype_per_class
        if is_convex and certificate.relative_gap <= self.stop.tol and status in _TOO_LATE:
            status = "converged"
        checks = self.history.checks
        if checks and abs(checks[-1].primal - certificate.primal) <= 1e-9 * certificate.primal:
            checks.pop()  # the same point, seen by the runner: the judge's word replaces it
        self.record_final(certificate, len(support))
        return Solution(support, tau, judgement, status, self.iterations, self.history, self.advice)


def _is_better(a: Judgement, b: Judgement) -> bool:
    if np.isinf(a.certificate.primal) and np.isinf(b.certificate.primal):
        return a.margin / np.sqrt(a.norm2 or 1.0) > b.margin / np.sqrt(b.norm2 or 1.0)
    return a.certificate.primal < b.certificate.primal


def _with_best_dual(a: Judgement, b: Judgement) -> Judgement:
    """The primal side of a; the larger dual value of the two bounds the same optimum."""
    dual = max(a.certificate.dual, b.certificate.dual)
    certificate = certify(a.certificate.primal, dual, a.certificate.kernel_psd)
    return replace(a, certificate=certificate)


def values(
    problem: Problem, norm2: float, loss: float, own: float, margin: float
) -> tuple[float, float]:
    """P and D from the runner's sums: (1.1), (1.2), or (1.12) where a separating model is scaled.

    ``loss`` is sum_i C_i xi_i, ``own`` is sum_i tau_{i,a_i}, less ⟨M - M_0, M_0⟩ with a centre.
    """
    separated = separated_primal(norm2, margin)
    if problem.is_hard:
        return separated, rescaled_dual(norm2, own)
    if problem.centre is not None:
        return 0.5 * norm2 + loss, own - 0.5 * norm2
    return min(0.5 * norm2 + loss, separated), own - 0.5 * norm2


def merit(primal: float, margin: float, norm2: float) -> tuple[float, float]:
    """What models are compared by: P, or while that is infinite the largest geometrical margin."""
    if primal < np.inf:
        return 0.0, primal
    return 1.0, -margin / np.sqrt(norm2) if norm2 > 0.0 else np.inf


def stand_in_cap(problem: Problem, tau: np.ndarray) -> float:
    """Stands for an infinite C in estimates of the gap: twice the largest weight so far."""
    if not problem.is_hard:
        return 0.0
    largest = float(tau.max(initial=0.0))
    return 2.0 * largest if largest > 0.0 else 1.0


def is_not_separable(problem: Problem, dual: float) -> bool:
    """A hard margin whose certified lower bound passed the limit, or with a zero vector in it."""
    if not problem.is_hard:
        return False
    return bool((problem.diagonal <= 0.0).any() or dual * problem.radius2 > HARD_MARGIN_LIMIT)


def seed_state(seed: Any) -> np.ndarray:
    """State of the compiled generator from a NumPy seed (never zero)."""
    word = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return np.where(word == 0, np.uint64(1), word)
