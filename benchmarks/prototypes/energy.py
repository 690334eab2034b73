"""How low the energy gets on USPS: mean over seeds beside the best published value."""

from __future__ import annotations

from typing import Any

from benchmarks import competitors
from benchmarks.charts import Lines
from benchmarks.data import DataMissingError, DataSet, load
from benchmarks.options import Options
from benchmarks.prototypes.fits import fit_seed, mean, note, seeds
from benchmarks.report import Column, Report, Table, Verdict, judged

__all__ = ["PUBLISHED", "run"]

C = 0.01
PUBLISHED = {3: 7.0427, 5: 7.0095, 10: 7.1252, 15: 7.2225, 20: 7.2130}
SECONDS_TARGET = 20.0

_QUICK = (3, 5)
_LARGEST = max(PUBLISHED)

COLUMNS = (
    Column("q", "q", "d"),
    Column("energy", "energy", ".4f"),
    Column("lowest", "lowest", ".4f"),
    Column("highest", "highest", ".4f"),
    Column("published", "published", ".4f"),
    Column("difference", "difference", "+.4f"),
    Column("alive", "alive", ".0f"),
    Column("prototypes", "of", "d"),
    Column("seconds", "fit [s]", ".4g"),
    Column("note", "note"),
)


def run(report: Report, options: Options) -> None:
    """One row per number of prototypes."""
    table = Table(
        "Energy",
        f'USPS, `C={C:g}`, `annealing="thorough"`: energy and seconds are means over seeds '
        "0, 1, 2; q is the number of prototypes per class.",
        COLUMNS,
    )
    report.tables.append(table)
    numbers = _QUICK if options.quick else tuple(PUBLISHED)
    try:
        data = load("usps", options.quick)
    except DataMissingError as reason:
        for q in numbers:
            report.skip(f"energy, usps q={q}", reason)
    else:
        competitors.warm(_model(numbers[0], 0), data.X_train, data.y_train)
        for q in numbers:
            row = measure(q, data, options)
            table.rows.append(row)
            print(
                f"energy, usps q={q}: {row['energy']:.4f} (published {row['published']:.4f}) in "
                f"{row['seconds']:.4g} s",
                flush=True,
            )
        report.panels.append(chart(table.rows))
    report.verdicts += verdicts(table.rows, options.quick)


def _model(q: int, seed: int) -> Any:
    return competitors.ours_prototypes(q, C, seed, "thorough")


def measure(q: int, data: DataSet, options: Options) -> dict[str, Any]:
    """One row of the table."""
    runs = [fit_seed(_model(q, seed), data) for seed in seeds(options)]
    energies = [one["energy"] for one in runs]
    return {
        "q": q,
        "energy": mean(energies),
        "lowest": min(energies),
        "highest": max(energies),
        "published": PUBLISHED[q],
        "difference": mean(energies) - PUBLISHED[q],
        "alive": mean(one["alive"] for one in runs),
        "prototypes": runs[0]["prototypes"],
        "seconds": mean(one["seconds"] for one in runs),
        "note": note(runs),
        "runs": runs,
    }


def verdicts(rows: list[dict[str, Any]], quick: bool) -> list[Verdict]:
    """Nowhere above the published value, and the largest fit in time."""
    differences = [row["difference"] for row in rows]
    seconds = [row["seconds"] for row in rows if row["q"] == _LARGEST]
    return [
        judged(
            "USPS energy minus published, largest",
            differences,
            max,
            0.0,
            len(PUBLISHED),
            quick,
            at_most=True,
        ),
        judged(
            f"USPS q={_LARGEST} thorough, seconds",
            seconds,
            max,
            SECONDS_TARGET,
            1,
            quick,
            at_most=True,
        ),
    ]


def chart(rows: list[dict[str, Any]]) -> Lines:
    """Dots: energies of different q are not on one curve."""
    return Lines(
        f"USPS, C={C:g}: energy (lower is better)",
        "prototypes per class",
        "energy, mean of the seeds (bars: lowest, highest)",
        [row["q"] for row in rows],
        {
            "polymargin, thorough": [row["energy"] for row in rows],
            "best published": [row["published"] for row in rows],
        },
        whiskers={"polymargin, thorough": [(row["lowest"], row["highest"]) for row in rows]},
        y_axis="free",
        joined=False,
    )
