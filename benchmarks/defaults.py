"""What ``MultiPrototypeSVC()`` should do by default: its defaults beside values chosen by "auto".

Small tables (public, scikit-learn's, generated), features standardised by the training part.  A
parameter that is "auto" is chosen on the training part; the other rows, of which there are as many
as the table has, say what the choice was worth.  Tables without their public files are left out.
Settings and splits are measured round by round: a run that was stopped has all tables.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.auto_sets import SETS, TableSet, load_set
from benchmarks.data import DataMissingError
from benchmarks.kept_cells import KeptCells
from benchmarks.options import Options
from benchmarks.report import Column, Report, Table
from benchmarks.timing import processor_seconds
from polymargin import MultiPrototypeSVC

__all__ = ["run"]

_TRAINED = 400  # rows at most, and at most half of a table
_MOST_ROWS = 2000  # of a table
_SPLITS = 5
_WIDEST = 100  # features; wider tables are no place for prototypes by default

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "C": {"C": "auto"},
    "count": {"n_prototypes": "auto"},
    "metric": {"metric": "auto"},
    "finish": {"finish": "auto"},
    "jitter": {"finish": 0.3},
    "no C": {"n_prototypes": "auto", "metric": "auto", "finish": "auto"},
    "all": {"C": "auto", "n_prototypes": "auto", "metric": "auto", "finish": "auto"},
}
TITLES = {
    "default": "default",
    "C": "C auto",
    "count": "n_prototypes auto",
    "metric": "metric auto",
    "finish": "finish auto",
    "jitter": "finish .3",
    "no C": "all but C",
    "all": "all four",
}
COLUMNS = (
    Column("set", "set"),
    Column("source", "source"),
    Column("splits", "splits", "d"),
    *(Column(key, f"{title} [%]", ".1f") for key, title in TITLES.items()),
)
_SUMMARY = (
    Column("setting", "setting"),
    Column("mean", "mean error [%]", ".2f"),
    Column("gain", "mean gain on default [points]", ".2f"),
    Column("spread", "standard error of the gain", ".2f"),
    Column("better", "better on", "d"),
    Column("worse", "worse on", "d"),
    Column("seconds", "median fit [CPU s]", ".2f"),
)


def run(options: Options) -> Report:
    """All sets; a run that was stopped writes what it has and goes on next time."""
    report = Report(
        "defaults",
        "Defaults of MultiPrototypeSVC on small tables",
        f"Test errors, means over the splits measured (at most {_SPLITS}): up to {_TRAINED} rows "
        f"train, the other rows of at most {_MOST_ROWS} judge. Standardised features. Everything "
        "that is 'auto' is chosen on the training rows.",
        COLUMNS,
    )
    path = None if options.quick else options.output / "defaults.cells.jsonl"
    cells = KeptCells(path, {"trained": _TRAINED, "rows": _MOST_ROWS})
    runs: dict[str, list[dict[str, Any]]] = {}
    try:
        for split in range(1 if options.quick else _SPLITS):
            for one in SETS[:2] if options.quick else SETS:
                found = _measure_set(one, split, cells, report)
                if found is not None:
                    runs.setdefault(one.name, []).append(found)
    except KeyboardInterrupt:
        report.missing.append(f"split {split} from {one.name} on: stopped")
    sources = {one.name: one.source for one in SETS}
    for name, splits in runs.items():
        row: dict[str, Any] = {"set": name, "source": sources[name], "splits": len(splits)}
        row |= {key: float(np.mean([run[key]["error"] for run in splits])) for key in SETTINGS}
        row["seconds"] = {
            key: float(np.median([run[key]["seconds"] for run in splits])) for key in SETTINGS
        }
        report.rows.append(row)
    if report.rows:
        report.tables.append(Table("Summary", "Over all sets.", _SUMMARY, _summary(report.rows)))
    return report


def _measure_set(
    one: TableSet, split: int, cells: KeptCells, report: Report
) -> dict[str, Any] | None:
    """All settings on one split; None for tables that are left out."""
    try:
        X, y = load_set(one, _MOST_ROWS)
    except DataMissingError as reason:
        if split == 0:
            report.skip(one.name, reason)
        return None
    if sp.issparse(X) or X.shape[1] > _WIDEST or np.bincount(y).min() < 4:
        return None
    found = {
        key: cells.get(f"{one.name} {key} {split}", lambda p=parameters: _measure(X, y, p, split))
        for key, parameters in SETTINGS.items()
    }
    errors = " ".join(f"{key} {value['error']:.1f}" for key, value in found.items())
    print(f"{one.name} {split}: {errors}", flush=True)
    return found


def _measure(
    X: np.ndarray, y: np.ndarray, parameters: dict[str, Any], split: int
) -> dict[str, float]:
    rows = min(_TRAINED, len(y) // 2)
    parts = train_test_split(X, y, train_size=rows, stratify=y, random_state=split)
    scaler = StandardScaler().fit(parts[0])
    X_train, X_test = scaler.transform(parts[0]), scaler.transform(parts[1])
    model = MultiPrototypeSVC(**parameters, random_state=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, _ = processor_seconds(model.fit, X_train, parts[2])
    wrong = model.predict(X_test) != parts[3]
    return {"error": 100.0 * float(wrong.mean()), "seconds": seconds}


def _summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for key, title in TITLES.items():
        gain = np.array([row["default"] - row[key] for row in rows])
        found.append(
            {
                "setting": title,
                "mean": float(np.mean([row[key] for row in rows])),
                "gain": float(gain.mean()),
                "spread": float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else None,
                "better": int((gain > 0.0).sum()),
                "worse": int((gain < 0.0).sum()),
                "seconds": float(np.median([row["seconds"][key] for row in rows])),
            }
        )
    return found
