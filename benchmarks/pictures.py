"""Pictures of the documentation: regions, a path, a criterion, solvers, and accuracy at a size.

``python -m benchmarks.pictures [directory]`` draws them with data that come with scikit-learn; the
last one shows committed results of the benchmark ``tiny``.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine, make_blobs
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

from benchmarks import charts, tiny
from polymargin import MulticlassSVC, regularization_path, tune_radius_margin

__all__ = ["draw_criterion", "draw_path", "draw_regions", "draw_sizes", "draw_solvers", "main"]

_TINY = Path(__file__).parent / "results" / "tiny.json"

_COLOURS = ("#0072B2", "#E69F00", "#009E73")
_DASHES = {"block": "-", "cycles": "--", "frank-wolfe": ":"}
MACHINES = ("cs", "ww", "llw", "msvm2")


def draw_regions(path: Path) -> None:
    """One panel per machine: the linear regions, levels of the margin, support vectors."""
    X, y = make_blobs(
        90, centers=[[-2.2, -1.0], [2.2, -1.0], [0.0, 0.7]], cluster_std=0.9, random_state=3
    )
    figure = _figure((13, 3.6))
    grid = np.stack(np.meshgrid(np.linspace(-5, 5, 300), np.linspace(-4, 4, 240)), axis=-1)
    for axes, machine in zip(figure.subplots(1, 4, sharey=True), MACHINES, strict=True):
        model = MulticlassSVC(machine=machine, intercept="free", C=1.0, tol=1e-6).fit(X, y)
        scores = model.decision_function(grid.reshape(-1, 2)).reshape(*grid.shape[:2], 3)
        top = np.sort(scores, axis=2)
        axes.contourf(
            grid[..., 0],
            grid[..., 1],
            scores.argmax(axis=2),
            [-0.5, 0.5, 1.5, 2.5],
            colors=_COLOURS,
            alpha=0.25,
        )
        lead = top[..., 2] - top[..., 1]
        axes.contour(grid[..., 0], grid[..., 1], lead, [1.0], colors="0.4", linestyles="--")
        for c, marker in enumerate("os^"):
            axes.scatter(*X[y == c].T, s=14, c=_COLOURS[c], marker=marker)
        axes.scatter(*X[model.support_].T, s=46, facecolors="none", edgecolors="black", lw=0.6)
        error = 100.0 * (1.0 - model.score(X, y))
        title = f"{machine}: {len(model.support_)} support vectors, {error:.0f} % wrong"
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("first feature")
    figure.axes[0].set_ylabel("second feature")
    figure.savefig(path, dpi=150)


def draw_solvers(path: Path, n: int = 600, seconds: float = 8.0) -> dict[str, Any]:
    """Relative gap against seconds of three solvers on part of the digits; the curves."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:n] / 8.0 - 1.0, y[:n]
    figure = _figure((13, 3.8))
    curves: dict[str, Any] = {}
    for axes, machine in zip(figure.subplots(1, 3, sharey=True), MACHINES[1:], strict=True):
        for k, (solver, dash) in enumerate(_DASHES.items()):
            model = MulticlassSVC(
                machine=machine, solver=solver, kernel="rbf", gamma=0.02, C=1.0, tol=1e-5,
                max_time=seconds, max_iter=10**6, random_state=0,
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if solver == "block":
                    model.fit(X, y)  # compiled code gets loaded
                history = model.fit(X, y).history_
            curves[f"{machine} {solver}"] = history
            axes.plot(
                history["seconds"], history["relative_gap"], dash, color=_COLOURS[k], label=solver
            )
        axes.set(xscale="log", yscale="log", xlabel="seconds", title=machine)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.axes[0].set_ylabel("relative duality gap")
    figure.savefig(path, dpi=150)
    return curves


def draw_path(path: Path) -> None:
    """Errors and support vectors along C on the digits."""
    X, y = load_digits(return_X_y=True)
    X, X_val, y, y_val = train_test_split(X / 16, y, test_size=0.3, random_state=0, stratify=y)
    walked = regularization_path(X, y, X_val=X_val, y_val=y_val, random_state=0)
    figure = _figure((7, 4.2))
    walked.plot(ax=figure.subplots())
    figure.savefig(path, dpi=100)


def draw_criterion(path: Path) -> None:
    """The radius-margin bound over C and gamma on wine, and the search on it."""
    from polymargin.plots import CriterionDisplay

    X, y = load_wine(return_X_y=True)
    figure = _figure((7, 4.6))
    CriterionDisplay.from_tuning(tune_radius_margin(scale(X), y), ax=figure.subplots())
    figure.savefig(path, dpi=100)


def draw_sizes(path: Path, results: Path = _TINY) -> None:
    """Error over bytes on USPS and LETTER: ``fit_into`` beside its rivals."""
    rows = json.loads(results.read_text())["rows"]
    panels = [tiny.panel(name, rows) for name in ("usps", "letter")]
    charts.draw("Test error of the best model of a size", panels, path)


def _figure(size: tuple[float, float]) -> Any:
    module: Any = importlib.import_module("matplotlib.figure")
    return module.Figure(figsize=size, layout="constrained")


def main(folder: Path) -> None:
    """Draw all pictures into a directory and print when each solver passed each gap."""
    draw_regions(folder / "machines.png")
    draw_path(folder / "path.png")
    draw_criterion(folder / "criterion.png")
    draw_sizes(folder / "sizes.png")
    for name, history in draw_solvers(folder / "solvers.png").items():
        times = []
        for gap in (1e-1, 1e-2, 1e-3, 1e-5):
            below = np.flatnonzero(history["relative_gap"] <= gap)
            times.append(f"{history['seconds'][below[0]]:.3f}" if len(below) else "-")
        print(f"{name:20s} seconds to 1e-1, 1e-2, 1e-3, 1e-5: {', '.join(times)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
