"""The command line: ``python -m experiments.hulls [--quick] [--data iris wine] [--splits 10]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.hulls.data import FILES, DataMissingError, load, split
from experiments.hulls.report import as_markdown
from experiments.hulls.study import MACHINES, Grid, run_split

DEFAULT_OUTPUT = Path(__file__).parent / "results"
QUICK = Grid(sigmas=(1.0, 10.0), etas=(0.1, 1.0), folds=3)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.hulls", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--machines", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--splits", type=int, default=10, help="random splits of every set")
    parser.add_argument("--examples", type=int, help="at most so many examples of every set")
    parser.add_argument("--quick", action="store_true", help="tiny grid and data: a smoke test")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    return parser.parse_args(arguments)


def run_set(name: str, given: argparse.Namespace, grid: Grid) -> dict[str, Any]:
    """All splits of a set; what an earlier run with the same settings has done is kept."""
    X, y = load(name, 60 if given.quick else given.examples)
    path = given.output / f"{name}.json"
    result: dict[str, Any] = {"examples": len(y), "grid": asdict(grid), "runs": []}
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        if {key: before[key] for key in ("examples", "grid")} == json.loads(
            json.dumps({key: result[key] for key in ("examples", "grid")})
        ):
            result = before
    done = {(run["machine"], run["split"]) for run in result["runs"]}
    for machine in given.machines:
        for seed in range(1 if given.quick else given.splits):
            if (machine, seed) in done:
                continue
            found = run_split(split(X, y, seed), machine, grid, seed)
            result["runs"] += [run | {"split": seed} for run in found]
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            print(name, seed, machine, [round(run["accuracy"], 3) for run in found], flush=True)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    grid = QUICK if given.quick else Grid()
    for name in given.data:
        try:
            run_set(name, given, grid)
        except DataMissingError as reason:
            print(f"{name}: skipped, {reason}", flush=True)
    results = {
        name: json.loads((given.output / f"{name}.json").read_text(encoding="utf-8"))
        for name in FILES
        if (given.output / f"{name}.json").is_file()
    }
    text = as_markdown(results)
    (given.output / "table.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
