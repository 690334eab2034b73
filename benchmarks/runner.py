"""Runs benchmarks one after the other and says at the end what was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks import (
    auto,
    costs,
    covtype,
    defaults,
    doubt,
    explanations,
    gacv,
    goals,
    hulls,
    kernel_sums,
    landmarks,
    linear,
    machine,
    machines,
    path,
    probabilities,
    prototypes,
    radius,
    rbf,
    rounding,
    row_blocks,
    shards,
    threads,
    tiny,
    workers,
)
from benchmarks.options import Options
from benchmarks.report import Report, publish

__all__ = ["BENCHMARKS", "run"]

BENCHMARKS: dict[str, Callable[[Options], Report]] = {
    "linear": linear.run,
    "rbf": rbf.run,
    "landmarks": landmarks.run,
    "machines": machines.run,
    "covtype": covtype.run,
    "prototypes": prototypes.run,
    "hulls": hulls.run,
    "path": path.run,
    "gacv": gacv.run,
    "kernel_sums": kernel_sums.run,
    "radius": radius.run,
    "auto": auto.run,
    "auto_further": auto.run_further,
    "probabilities": probabilities.run,
    "shards": shards.run,
    "threads": threads.run,
    "tiny": tiny.run,
    "rounding": rounding.run,
    "goals": goals.run,
    "defaults": defaults.run,
    "row_blocks": row_blocks.run,
    "workers": workers.run,
    "doubt": doubt.run,
    "costs": costs.run,
    "explanations": explanations.run,
}


def run(names: Sequence[str], options: Options) -> int:
    """Run the named benchmarks and write their reports; exit code 1 if one measured nothing.

    A benchmark whose data are all absent writes nothing: earlier results stay.
    """
    machine.require_one_thread()
    facts = machine.facts()
    print(machine.describe(facts), flush=True)
    reports = []
    for name in names:
        print(f"\n== {name}", flush=True)
        report = BENCHMARKS[name](options)
        if report.is_empty:
            print(f"{name}: nothing measured, nothing written", flush=True)
        else:
            publish(report, facts, options)
        reports.append(report)
    _summarise(reports)
    return int(any(report.is_empty for report in reports))


def _summarise(reports: Sequence[Report]) -> None:
    print("\n== summary")
    for report in reports:
        for verdict in report.verdicts:
            print(f"{report.name}: {verdict.line()}")
    missing = [f"{report.name}: {row}" for report in reports for row in report.missing]
    print("missing rows:" if missing else "missing rows: none")
    for row in missing:
        print(f"  {row}")
