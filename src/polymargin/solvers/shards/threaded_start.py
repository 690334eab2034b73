"""A start for linear sweeps that threads share: one shard of the rows each, joined exactly (A37).

Sweeps visit one pattern after another and cannot be shared without changing what they find.  Shards
can: each thread descends on rows of its own, and one line search joins them.  Where there are many
rows for every feature, shards agree after a few rounds, and sweeps only check and certify what
they found.  With few rows per feature they do not (MNIST on two shards needs 66 rounds), and the
sweeps begin cold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.solvers.run import Run
from polymargin.solvers.shards.leader import Rounds
from polymargin.solvers.shards.local import LocalTeam
from polymargin.solvers.shards.shard import Shard, why_not_sharded

__all__ = ["pays", "threaded_start"]

_FEWEST_ROWS = 20_000
"""Of a shard: below that a whole fit takes some ten milliseconds, no more than threads cost."""

_ROWS_PER_FEATURE = 400
"""Of a shard.  covtype on two threads has 5,400 and takes 4 rounds, MNIST 38 and takes 66."""

_ROUGH_TOL = 3e-3
"""Above it one thread needs hardly more than the first pass, and there is nothing to share."""

_MOST_ROUNDS = 40
"""After so many rounds shards do not agree soon; sweeps go on from where they are."""

_UNLIKE = 0.1
"""Half the sum of differences between the class shares of a shard and of all rows: rows sorted by
class would make shards that know nothing of each other."""

_MOST_COPIED = 1 << 30
"""Bytes of X up to which such rows are dealt out in turn, which copies them."""


class ThreadTeam(LocalTeam):
    """Shards of this process, a thread for each; what they find does not depend on their order."""

    def __init__(self, shards: Sequence[Shard], pool: ThreadPoolExecutor) -> None:
        super().__init__(shards)
        self.pool = pool

    def each(self, verb: str, *arguments: Any) -> list[Any]:
        return list(self.pool.map(lambda shard: getattr(shard, verb)(*arguments), self.shards))


def pays(problem: Problem, n_threads: int) -> bool:
    """Whether shards of alike rows are expected to agree after a few rounds."""
    if n_threads < 2 or not isinstance(problem.X, np.ndarray) or why_not_sharded(problem):
        return False
    if problem.centre is not None or problem.extra_margins is not None:
        return False
    rows = problem.n_patterns // n_threads
    is_long = rows >= max(_FEWEST_ROWS, _ROWS_PER_FEATURE * problem.X.shape[1])
    return is_long and problem.has_one_prototype_per_class


def threaded_start(problem: Problem, run: Run) -> DualPoint | None:
    """A dual point near the tolerance of the run, or where the rounds ended; None: begin cold.

    The same seed and number of threads give the same bits.
    """
    n_threads = run.n_jobs
    if run.stop.tol > _ROUGH_TOL or not pays(problem, n_threads):
        return None
    parts = _parts(problem, n_threads)
    if not parts:
        return None
    seeds = np.random.SeedSequence(run.seed).generate_state(n_threads).tolist()
    with ThreadPoolExecutor(n_threads) as pool:
        shards = list(
            pool.map(lambda part, seed: _shard(problem, part, seed, run.why_end), parts, seeds)
        )
        shape = (problem.n_prototypes, problem.X.shape[1])
        team = ThreadTeam(shards, pool)
        rounds = Rounds(team, shape, run.stop.tol, _MOST_ROUNDS, why_stop=run.why_end)
        while rounds.round() is None:
            pass
        taus = team.each("support_tau")
    return _joined(problem, parts, taus)


def _parts(problem: Problem, count: int) -> list[slice]:
    """The rows of each shard: stretches, every count-th row where these are unlike, or none."""
    ends = np.linspace(0, problem.n_patterns, count + 1).astype(int).tolist()
    stretches = [slice(a, b, 1) for a, b in pairwise(ends)]
    if _are_alike(problem, stretches):
        return stretches
    dealt = [slice(k, problem.n_patterns, count) for k in range(count)]
    is_small = problem.X.nbytes <= _MOST_COPIED
    return dealt if is_small and _are_alike(problem, dealt) else []


def _are_alike(problem: Problem, parts: Sequence[slice]) -> bool:
    classes = int(problem.label.max()) + 1
    whole = np.bincount(problem.label, minlength=classes) / problem.n_patterns
    for part in parts:
        label = problem.label[part]
        share = np.bincount(label, minlength=classes) / len(label)
        if 0.5 * np.abs(share - whole).sum() > _UNLIKE:
            return False
    return True


def _shard(problem: Problem, part: slice, seed: int, why_stop: Callable[[], str | None]) -> Shard:
    """The shard of some rows; stretches stay where they are in memory."""
    rows = problem.changed(
        X=np.ascontiguousarray(problem.X[part]),
        label=np.ascontiguousarray(problem.label[part]),
        cap=np.ascontiguousarray(problem.cap[part]),
        own=np.ascontiguousarray(problem.own[part]),
        n_jobs=1,
    )
    return Shard(rows, seed, why_stop=why_stop)


def _joined(
    problem: Problem, parts: Sequence[slice], found: Sequence[tuple[np.ndarray, np.ndarray]]
) -> DualPoint:
    """The point of all rows from the support and the coefficients of each shard."""
    at = [part.start + part.step * rows for part, (rows, _) in zip(parts, found, strict=True)]
    support, tau = np.concatenate(at), np.concatenate([tau for _, tau in found])
    order = np.argsort(support, kind="stable")
    support = support[order]
    return DualPoint.from_tau(support, tau[order], problem.own[support])
