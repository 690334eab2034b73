"""Prototypes of one model that live in different kernels: the alternation on small problems.

Problem card (23b): prototype r lives in the space of its own kernel k(r), with the scores
f_r(x) = sum_i tau_ir kappa_{k(r)}(x_i, x).  For a fixed assignment the constraints of the dual are
those of (2.2); its quadratic term is sum_r tau_r' K_{k(r)} tau_r.  The block of a pattern p has a
curvature A_r = kappa_{k(r)}(x_p, x_p) for every prototype, and is solved exactly by one threshold:

    tau_r = min(0, (theta - B_r) / A_r) for rivals, tau_a = min(C, (theta - B_a) / A_a),
    B_r = f_r - A_r tau_r - 1[r = a],   theta such that sum_r tau_r = 0.

All kernel matrices are kept in memory.  Annealing and greedy rounds are those of ``prototypes``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polymargin.certificate.certificate import Certificate, certify
from polymargin.problem.annealing import Schedule
from polymargin.solvers.history import OuterCheck
from polymargin.solvers.run import Run

__all__ = ["OwnKernelProblem", "OwnKernelSolution", "pattern_optimum", "solve_own_kernels"]

_ROUNDS = 50  # greedy rounds at most
_ROUGH_TOL, _CLOSER = 0.02, 0.5  # of the first static problem between greedy rounds, factor
_MOST_SWEEPS = 20  # of the rule "until the energy falls"
_PASSES_PER_CHECK = 5
_LEAST_CURVATURE = 1e-12  # of the mean: a zero vector would make a block linear


@dataclass(frozen=True, eq=False)
class OwnKernelProblem:
    """The training problem.

    Attributes
    ----------
    grams : (m, n, n) kernel matrices.
    kernel_of : (R,) kernel number of each prototype.
    prototype_class : (R,) class of each prototype, in growing order.
    label : (n,) class numbers.
    cap : (n,) C_i.
    kernel_psd : bool or None
    """

    grams: np.ndarray
    kernel_of: np.ndarray
    prototype_class: np.ndarray
    label: np.ndarray
    cap: np.ndarray
    kernel_psd: bool | None

    def scores(self, tau: np.ndarray) -> np.ndarray:
        """(n, R) scores of coefficients (n, R)."""
        F = np.empty(tau.shape)
        for m, gram in enumerate(self.grams):
            mine = self.kernel_of == m
            F[:, mine] = gram @ tau[:, mine]
        return F


@dataclass
class OwnKernelSolution:
    """Coefficients, assignment and values of the best end that was reached."""

    tau: np.ndarray
    own: np.ndarray
    certificate: Certificate
    energy: float
    alive: np.ndarray
    is_stationary: bool
    status: str
    iterations: int


def pattern_optimum(A: np.ndarray, B: np.ndarray, own: int, cap: float) -> np.ndarray:
    """The exact block: Newton's method on the concave, piecewise linear sum of tau(theta).

    Parameters
    ----------
    A, B : (k,) curvatures > 0 and constants of the own prototype and its rivals.
    own : int
        Place of the own prototype.
    cap : float
    """
    high = np.zeros(len(A))
    high[own] = cap
    theta = float(B.min())
    for _ in range(2 * len(A) + 4):
        tau = (theta - B) / A
        free = tau < high
        tau = np.where(free, tau, high)
        slope = float((1.0 / A[free]).sum())
        step = -float(tau.sum()) / slope if slope > 0.0 else 0.0
        if step <= 1e-15 * max(1.0, abs(theta)):
            break
        theta += step
    tau = np.minimum((theta - B) / A, high)
    tau[own] = 0.0
    total = -float(tau.sum())
    if total > cap:
        tau *= cap / total
        total = cap
    tau[own] = total
    return tau


def solve_own_kernels(
    problem: OwnKernelProblem,
    own: np.ndarray,
    schedule: Schedule | None,
    run: Run,
    is_static: bool,
    zeroing: bool,
) -> OwnKernelSolution:
    """Train from an assignment; parameters as those of ``prototypes.solve_prototypes``."""
    work = _OwnKernels(problem, own, schedule, run, zeroing)
    if is_static:
        work.settle(run.stop.tol)
        return work.finish()
    if schedule is not None:
        work.anneal(schedule)
    return work.greedy()


class _OwnKernels:
    def __init__(
        self,
        problem: OwnKernelProblem,
        own: np.ndarray,
        schedule: Schedule | None,
        run: Run,
        zeroing: bool,
    ) -> None:
        n, R = len(problem.label), len(problem.prototype_class)
        self.problem, self.run, self.own = problem, run, own.copy()
        self.zeroing = zeroing if schedule is None else schedule.zeroing
        self.balance = 0.0 if schedule is None else schedule.balance
        self.random = np.random.default_rng(run.seed)
        self.tau, self.F = np.zeros((n, R)), np.zeros((n, R))
        self.mine = problem.prototype_class[None, :] == problem.label[:, None]
        diagonals = np.array([gram.diagonal() for gram in problem.grams])
        least = _LEAST_CURVATURE * float(diagonals.mean()) or 1.0
        self.curvature = np.maximum(diagonals, least)[problem.kernel_of].T  # (n, R)
        self.passes_made = self.steps = 0

    # -- static problems -----------------------------------------------------------------------

    def lifted(self) -> np.ndarray:
        """F_pr = f_r + 1[r is a rival], -inf for the other prototypes of the own class."""
        rows = np.arange(len(self.own))
        lifted = np.where(self.mine, -np.inf, self.F + 1.0)
        lifted[rows, self.own] = self.F[rows, self.own]
        return lifted

    def one_pass(self) -> int:
        """Visit the patterns that violate their conditions (1.8); how many moved."""
        rows = np.arange(len(self.own))
        lifted = self.lifted()
        weighted = self.tau < 0.0
        weighted[rows, self.own] = self.tau[rows, self.own] < self.problem.cap
        lowest = np.where(weighted, lifted, np.inf).min(axis=1)
        psi = lifted.max(axis=1) - lowest
        queue = np.flatnonzero(psi > 0.1 * self.run.stop.tol)
        self.random.shuffle(queue)
        for p in queue:
            self.visit(int(p))
        self.passes_made += 1
        self.steps += len(queue)
        return len(queue)

    def visit(self, p: int) -> None:
        own = int(self.own[p])
        listed = np.flatnonzero(~self.mine[p])
        place = int(np.searchsorted(listed, own))
        listed = np.insert(listed, place, own)
        A, old = self.curvature[p, listed], self.tau[p, listed]
        B = self.F[p, listed] - A * old
        B[place] -= 1.0
        new = pattern_optimum(A, B, place, float(self.problem.cap[p]))
        self.push(p, listed, new - old)
        self.tau[p, listed] = new

    def push(self, p: int, prototypes: np.ndarray, change: np.ndarray) -> None:
        for r, step in zip(prototypes, change, strict=True):
            if step != 0.0:
                self.F[:, r] += step * self.problem.grams[self.problem.kernel_of[r], p]

    def values(self) -> tuple[float, float, float]:
        """P and D of the static problem, and the energy."""
        rows = np.arange(len(self.own))
        norm2 = max(float((self.tau * self.F).sum()), 0.0)
        slack = self.slacks()
        cap = self.problem.cap
        primal = 0.5 * norm2 + float(cap @ slack[rows, self.own])
        dual = float(self.tau[rows, self.own].sum()) - 0.5 * norm2
        return primal, dual, 0.5 * norm2 + float(cap @ slack.min(axis=1))

    def slacks(self) -> np.ndarray:
        """(n, R) xi_i^r, infinite for prototypes of other classes."""
        rival = np.where(self.mine, -np.inf, self.F).max(axis=1)
        return np.where(self.mine, np.maximum(0.0, 1.0 + rival[:, None] - self.F), np.inf)

    def settle(self, tol: float) -> bool:
        """Passes until the relative gap is at most ``tol``; False where something ends the run."""
        while True:
            moved = 0
            for _ in range(_PASSES_PER_CHECK):
                if self.why_stop() is not None:
                    return False
                moved = self.one_pass()
                if not moved:
                    break
            self.F = self.problem.scores(self.tau)
            primal, dual, _ = self.values()
            if primal - dual <= tol * primal or not moved:
                return primal - dual <= tol * primal

    def why_stop(self) -> str | None:
        return self.run.why_stop(self.passes_made)

    # -- assignments ---------------------------------------------------------------------------

    def reassign(self, temperature: float) -> int:
        """Draw assignments (17), or take the smallest slacks at temperature 0; how many changed."""
        slack = self.slacks()
        rows = np.arange(len(self.own))
        new = slack.argmin(axis=1)
        if temperature > 0.0:
            chance = np.exp((slack.min(axis=1, keepdims=True) - slack) / temperature)
            chance *= self.pull()
            draw = self.random.random((len(rows), 1)) * chance.sum(axis=1, keepdims=True)
            new = (chance.cumsum(axis=1) > draw).argmax(axis=1)
        else:
            stays = slack[rows, self.own] <= slack[rows, new] + self.run.stop.tol
            new = np.where(stays, self.own, new)
        changed = np.flatnonzero(new != self.own)
        self.restore(changed, new)
        return len(changed)

    def pull(self) -> np.ndarray:
        """Prototypes with little weight draw more, as ``Annealing(balance=)`` asks."""
        from polymargin.compiled.reassignment import pulls

        owner = self.problem.prototype_class
        first = np.searchsorted(owner, np.arange(int(owner[-1]) + 2))
        return pulls(self.own, self.problem.cap, first, self.balance)

    def restore(self, changed: np.ndarray, new: np.ndarray) -> None:
        """Feasible variables for new assignments (A13): own weights move, or all are given up."""
        for p in changed:
            old = int(self.own[p])
            weight = self.tau[p, old]
            if self.zeroing:
                self.tau[p] = 0.0
            else:
                self.tau[p, old] = 0.0
                self.tau[p, new[p]] = weight
        self.own = np.asarray(new, dtype=np.int64)
        self.F = self.problem.scores(self.tau)

    def note(self, temperature: float, changed: int) -> None:
        primal, dual, energy = self.values()
        relative = max(primal - dual, 0.0) / primal if primal > 0.0 else 0.0
        self.run.history.checks.append(
            OuterCheck(
                self.run.seconds,
                self.passes_made,
                primal,
                dual,
                relative,
                int((self.tau != 0.0).any(axis=1).sum()),
                self.steps,
                temperature,
                energy,
                changed,
            )
        )

    def anneal(self, schedule: Schedule) -> None:
        for _ in range(2):  # the initial assignment has its say before the first draw
            self.one_pass()
        for temperature in schedule.temperatures:
            if self.why_stop() is not None:
                return
            self.note(float(temperature), self.reassign(float(temperature)))
            drawn = self.values()[0]
            for _ in range(schedule.sweeps or _MOST_SWEEPS):
                moved = self.one_pass()
                if not moved or (not schedule.sweeps and self.values()[0] < drawn):
                    break

    def greedy(self) -> OwnKernelSolution:
        tol, target = _ROUGH_TOL, self.run.stop.tol
        for _ in range(_ROUNDS):
            is_close = self.settle(max(tol, target))
            if not is_close:
                return self.finish()
            changed = self.reassign(0.0)
            self.note(0.0, changed)
            if not changed and tol <= target:
                break
            tol = target if not changed else tol * _CLOSER
        self.settle(target)
        return self.finish()

    def finish(self) -> OwnKernelSolution:
        self.F = self.problem.scores(self.tau)
        primal, dual, energy = self.values()
        certificate = certify(primal, dual, self.problem.kernel_psd)
        is_close = certificate.relative_gap <= self.run.stop.tol
        status = self.why_stop() or ("converged" if is_close else "stalled")
        if is_close and status == "max_iter":
            status = "converged"
        slack = self.slacks()
        excess = slack[np.arange(len(self.own)), self.own] - slack.min(axis=1)
        is_stationary = status == "converged" and excess.max() <= 2.0 * self.run.stop.tol
        alive = np.zeros(self.F.shape[1], dtype=bool)
        alive[self.F.argmax(axis=1)] = True
        self.note(0.0, 0)
        return OwnKernelSolution(
            self.tau,
            self.own,
            certificate,
            energy,
            alive,
            bool(is_stationary),
            status,
            max(1, self.passes_made),
        )
