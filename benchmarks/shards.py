"""Rounds of a sharded fit over the number of shards, all of them simulated in this process.

Shards are visited one after another and timed one by one, so that the time of a cluster follows:
the slowest shard of every verb, and what the leader adds up between them.  Finished rows are kept
in ``shards.cells.jsonl`` beside the results until all are there, so that a run can be interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.charts import Lines, Panel
from benchmarks.data import DataMissingError, load, load_covtype
from benchmarks.kept_cells import KeptCells
from benchmarks.options import Options
from benchmarks.report import Column, Report, Verdict, judged
from polymargin import MACHINES
from polymargin.solvers.shards.leader import Rounds
from polymargin.solvers.shards.local import LocalTeam
from polymargin.solvers.shards.part import LinearSpec
from polymargin.solvers.shards.shard import LocalStep, Shard
from polymargin.solvers.shards.shard_variables import Prototypes, ShardSums

__all__ = ["run"]

TOL = 1e-3
SHARDS = (1, 2, 4, 16, 64, 256)
MOST_ROUNDS = 300
MOST_BYTES = 3.0  # times the size of W, per shard and round

COLUMNS = (
    Column("set", "set"),
    Column("rows", "rows", ",d"),
    Column("C", "C", "g"),
    Column("shards", "shards", "d"),
    Column("rounds", "rounds", "d"),
    Column("gap", "gap", ".1e"),
    Column("seconds", "all shards [s]", ".1f"),
    Column("slowest", "slowest shard [s]", ".2f"),
    Column("leader", "leader [s]", ".2f"),
    Column("megabytes", "sent per shard [MB]", ".3f"),
    Column("ratio", "per round / W", ".2f"),
    Column("note", "note"),
)


@dataclass(frozen=True)
class Case:
    """A data set and its C."""

    name: str
    C: float
    rows: Callable[[bool], tuple[Any, np.ndarray]]


def _covtype(quick: bool) -> tuple[Any, np.ndarray]:
    return load_covtype(2000 if quick else 581_012)


def _training_part(name: str) -> Callable[[bool], tuple[Any, np.ndarray]]:
    def rows(quick: bool) -> tuple[Any, np.ndarray]:
        data = load(name, quick)
        return data.X_train.astype(np.float32), data.y_train

    return rows


CASES = (
    Case("covtype", 1e-4, _covtype),
    Case("mnist", 1e-2, _training_part("mnist")),
    Case("news20", 1.0, _training_part("news20_bydate")),
)


def run(options: Options) -> Report:
    """Every set with every number of shards."""
    report = Report(
        "shards",
        "shards: rounds, bytes and seconds to gap 1e-3",
        "Crammer-Singer, penalised intercept, float32 rows in random order, divided evenly. "
        "Shards are simulated one after another in one process; seconds are those of the "
        "processor. Slowest shard: the sum over all verbs of the time of their slowest shard, "
        "which is what a cluster of so many equal processors would need beside the network. Sent: "
        "prototypes to a shard (float32) and its changes back (float64); W counts as float64.",
        COLUMNS,
    )
    counts = SHARDS[:3] if options.quick else SHARDS
    kept = None if options.quick else options.output / "shards.cells.jsonl"
    cells = KeptCells(kept, {"tol": TOL, "most_rounds": MOST_ROUNDS})
    for case in CASES:
        try:
            X, y = case.rows(options.quick)
        except DataMissingError as reason:
            report.skip(case.name, reason)
            continue
        machine.require_one_thread()
        measure(case, X, y, 1)  # compiled code is loaded
        for count in counts:
            row = cells.get(f"{case.name} {count}", partial(measure, case, X, y, count))
            report.rows.append(row)
            print(
                f"{case.name}, {count} shards: {row['rounds']} rounds, {row['seconds']:.1f} s, "
                f"slowest shards {row['slowest']:.2f} s, gap {row['gap']:.1e} {row['note']}",
                flush=True,
            )
    report.verdicts = verdicts(report.rows, len(CASES) * len(counts), options.quick)
    report.panels = charts(report.rows, counts)
    if kept is not None:
        kept.unlink(missing_ok=True)  # all are there
    return report


def measure(case: Case, X: Any, y: np.ndarray, count: int) -> dict[str, Any]:
    """One row of the table."""
    classes = np.unique(y)
    spec = LinearSpec(MACHINES["cs"], 1.0, case.C, classes, np.ones(len(classes)), X.shape[1])
    order = np.random.default_rng(0).permutation(len(y))
    team = TimedTeam(
        [Shard(spec.problem(X[p], y[p]), k) for k, p in enumerate(np.array_split(order, count))]
    )
    started = time.process_time()
    found = Rounds(team, spec.shape, TOL, MOST_ROUNDS).run()
    seconds = time.process_time() - started
    size = 8 * (spec.shape[0] * (spec.shape[1] + 1))
    rounds = len(found.rounds)
    return {
        "set": case.name,
        "rows": len(y),
        "C": case.C,
        "shards": count,
        "rounds": rounds,
        "gap": float(found.certificate.relative_gap),
        "seconds": seconds,
        "slowest": team.slowest,
        "leader": seconds - team.seconds,
        "megabytes": team.bytes_sent / count / 1e6,
        "ratio": team.bytes_in_rounds / (count * rounds * size),
        "note": "" if found.status == "converged" else found.status,
        "theta": [one.theta for one in found.rounds],
        "sigma": [one.sigma for one in found.rounds],
        "gaps": [one.relative_gap for one in found.rounds],
    }


class TimedTeam(LocalTeam):
    """Shards of this process, every verb of each timed; bytes as a cluster would send them."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        self.seconds = self.slowest = 0.0
        self.bytes_sent = self.bytes_in_rounds = 0

    def _each(self, verb: Callable[[Shard], Any]) -> list[Any]:
        found, seconds = [], []
        for shard in self.shards:
            started = time.process_time()
            found.append(verb(shard))
            seconds.append(time.process_time() - started)
        self.seconds += sum(seconds)
        self.slowest += max(seconds)
        return found

    def _count(self, model: Prototypes, is_round: bool = True) -> None:
        size = self.n_shards * int(model.weights.nbytes + model.constant.nbytes)
        self.bytes_sent += size
        self.bytes_in_rounds += size if is_round else 0

    def advance(self, model: Prototypes, sigma: float, passes: int) -> list[LocalStep]:
        found = self._each(lambda shard: shard.advance(model, sigma, passes))
        self._count(model)
        self._count(found[0].change)
        return found

    def settle(self, theta: float, beta: float) -> list[Prototypes]:
        found = self._each(lambda shard: shard.settle(theta, beta))
        if beta:
            self._count(found[0])
        return found

    def sums(self, model: Prototypes) -> list[ShardSums]:
        self._count(model, is_round=False)
        return self._each(lambda shard: shard.sums(model))

    def prototypes(self) -> list[Prototypes]:
        found = self._each(lambda shard: shard.prototypes())
        self._count(found[0], is_round=False)
        return found


def verdicts(rows: list[dict[str, Any]], expected: int, quick: bool) -> list[Verdict]:
    """Bytes per shard and round beside the size of W."""
    ratios = [row["ratio"] for row in rows]
    return [judged("bytes per shard and round / W", ratios, max, MOST_BYTES, expected, quick, True)]


def charts(rows: list[dict[str, Any]], counts: Sequence[int]) -> list[Panel]:
    """Rounds over shards."""
    series = {
        case.name: [row["rounds"] for row in rows if row["set"] == case.name] for case in CASES
    }
    whole = {name: values for name, values in series.items() if len(values) == len(counts)}
    if not whole:
        return []
    return [
        Lines("rounds to gap 1e-3", "shards", "rounds", list(counts), whole, y_axis="log"),
    ]
