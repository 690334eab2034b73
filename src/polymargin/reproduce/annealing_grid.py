"""Aiolli & Sperduti 2005, Table 5: energy and error on USPS over cooling and prototypes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polymargin.reproduce.benchmark_data import draw_rows, load_split
from polymargin.reproduce.experiment import Cell, Experiment, Measured, Row, Scale, values_of
from polymargin.reproduce.experiment_figures import draw_panels
from polymargin.reproduce.prototype_runs import measure, prototypes

__all__ = ["EXPERIMENT"]

C = 0.01  # not printed; the value at which energies are as large as those printed
COOLINGS = (0.2, 0.1, 0.05, 0.03)
NUMBERS = (3, 5, 10, 15, 20)
ENERGY = {
    3: (7.44626, 7.28049, 7.08138, 7.04274),
    5: (7.49136, 7.27318, 7.10498, 7.00946),
    10: (7.82233, 7.51780, 7.27596, 7.12517),
    15: (7.82222, 7.57009, 7.38722, 7.22250),
    20: (7.78410, 7.79388, 7.49125, 7.21303),
}
ERROR = {
    3: (6.33, 6.03, 6.13, 6.48),
    5: (6.08, 5.63, 5.83, 5.58),
    10: (5.58, 5.88, 5.48, 5.23),
    15: (5.33, 5.73, 5.33, 5.53),
    20: (5.48, 5.72, 5.38, 5.53),
}


def cells(scale: Scale) -> list[Cell]:
    """The whole grid, every method and seed."""
    numbers = {"full": NUMBERS, "quick": (3, 5), "tiny": (2,)}[scale]
    coolings = {"full": COOLINGS, "quick": (0.2, 0.05), "tiny": (0.5,)}[scale]
    seeds = {"full": 5, "quick": 2, "tiny": 2}[scale]
    size = {"full": None, "quick": 500, "tiny": 100}[scale]
    return [
        {
            "data": "digits" if scale == "tiny" else "usps",
            "rows": size,
            "q": q,
            "cooling": cooling,
            "method": method,
            "seed": seed,
        }
        for q in numbers
        for cooling in coolings
        for method in ("paper", "default")
        for seed in range(seeds)
    ]


def run(cell: Cell) -> dict[str, Any]:
    """One fit with the cooling of the cell."""
    scaling = "range" if cell["data"] == "digits" else "none"
    data = draw_rows(load_split(cell["data"]).scaled(scaling), cell["rows"], cell["rows"], 0)
    return measure(prototypes(cell["method"], cell["q"], C, cell["seed"], cell["cooling"]), data)


def rows(measured: Sequence[Measured]) -> list[Row]:
    """Energy and error of every number of prototypes and cooling."""
    found = []
    reduced = any(one.cell["rows"] is not None for one in measured)
    why_not = "a small part of the data" if reduced else ""
    for q, cooling in dict.fromkeys((one.cell["q"], one.cell["cooling"]) for one in measured):
        place = COOLINGS.index(cooling) if cooling in COOLINGS else 0
        for quantity, name, printed, digits in (
            ("energy", "energy", ENERGY, 5),
            ("error", "test error %", ERROR, 2),
        ):
            paper, ours = (
                values_of(measured, quantity, q=q, cooling=cooling, method=method)
                for method in ("paper", "default")
            )
            known = printed[q][place] if q in printed and cooling in COOLINGS else None
            found.append(
                Row(
                    (f"q = {q}", f"{cooling:g}"),
                    name,
                    known,
                    paper,
                    ours,
                    digits=digits,
                    why_not=why_not,
                )
            )
    return found


def draw(measured: Sequence[Measured], folder: Path) -> list[Path]:
    """Energy over the cooling, a panel per number of prototypes."""
    coolings = sorted({one.cell["cooling"] for one in measured}, reverse=True)
    panels = {}
    for q in sorted({one.cell["q"] for one in measured}):
        panels[f"q = {q}"] = {
            name: [
                values_of(measured, "energy", q=q, cooling=cooling, method=method)
                for cooling in coolings
            ]
            for method, name in (("paper", "published procedure"), ("default", "our default"))
        }
        if q in ENERGY and set(coolings) <= set(COOLINGS):
            printed = dict(zip(COOLINGS, ENERGY[q], strict=True))
            panels[f"q = {q}"]["printed"] = [[printed[cooling]] for cooling in coolings]
    path = folder / f"{EXPERIMENT.name}.png"
    draw_panels(path, "Energy on USPS", "cooling tau", "energy", coolings, panels, log_x=True)
    return [path]


EXPERIMENT = Experiment(
    name="mprot-annealing",
    title="Annealing of the multi-prototype machine (MP, Table 5)",
    about=(
        "USPS, official split, five seeds. Procedure: random first assignment, T0 = 10, zeroing, "
        "cooling as in the row. Default: our schedule (k-means, T0 = .5 C, transfer, balance) "
        f"with that cooling. C = {C:g}: the paper does not print it; energies are as large "
        "as the printed ones at this value."
    ),
    labels=("prototypes", "cooling"),
    cells=cells,
    run=run,
    rows=rows,
    draw=draw,
)
