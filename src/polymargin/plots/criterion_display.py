"""The radius-margin criterion over C and gamma, and the path of the search on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, axes_of
from polymargin.radius_margin.criterion import Sample, Setting, WarmStart, evaluate
from polymargin.radius_margin.search import part_of, plateau
from polymargin.selection.tune_radius_margin import RadiusMarginTuning
from polymargin.solvers.run import Deadline, Stop

__all__ = ["CriterionDisplay"]

_TOL = 1e-2
_AROUND = 30.0  # the surface reaches at least this factor beyond the chosen point


class CriterionDisplay:
    """The bound (28) over C and gamma with the points that a search visited.

    Parameters
    ----------
    C, gamma : (m,), (k,) the grid; gamma is None where only C was tuned, C where only gamma was.
    ratio : (k, m), or one-dimensional with one parameter
        The bound divided by its plateau: below 1 the criterion has something to say.
    path_C, path_gamma : (p,) settings visited on all examples.
    path_ratio : (p,) their bound divided by the plateau of all examples.
    path_start : (p,) number of the descent they belong to; 0 is the coarse look.
    chosen : (C, gamma) of the tuned machine.
    n_examples : int
        Examples behind the surface (a part of them where there are many).

    Examples
    --------
    >>> from polymargin.plots import CriterionDisplay
    >>> display = CriterionDisplay.from_tuning(found)  # doctest: +SKIP
    """

    def __init__(
        self,
        C: np.ndarray | None,
        gamma: np.ndarray | None,
        ratio: np.ndarray,
        path_C: np.ndarray,
        path_gamma: np.ndarray,
        path_ratio: np.ndarray,
        path_start: np.ndarray,
        chosen: tuple[float, float],
        n_examples: int,
    ) -> None:
        self.C = C
        self.gamma = gamma
        self.ratio = ratio
        self.path_C = path_C
        self.path_gamma = path_gamma
        self.path_ratio = path_ratio
        self.path_start = path_start
        self.chosen = chosen
        self.n_examples = n_examples

    @classmethod
    def from_tuning(
        cls,
        tuning: RadiusMarginTuning,
        ax: Any = None,
        n_grid: int = 13,
        max_examples: int = 300,
        max_time: float | None = 60.0,
    ) -> CriterionDisplay:
        """Compute the surface around the path of a tuning and draw both."""
        return cls.record(tuning, n_grid, max_examples, max_time).plot(ax)

    @classmethod
    def record(
        cls,
        tuning: RadiusMarginTuning,
        n_grid: int = 13,
        max_examples: int = 300,
        max_time: float | None = 60.0,
    ) -> CriterionDisplay:
        """The figures alone, nothing drawn.

        Parameters
        ----------
        tuning : RadiusMarginTuning
            Of one width, or of C or gamma alone.
        n_grid : int, default=13
            Values of each parameter.
        max_examples : int, default=300
            The surface is that of a stratified part where there are more examples.
        max_time : float or None, default=60
            Seconds; what is not computed by then is NaN.
        """
        sample = tuning._sample
        if sample is None:
            raise ValueError("tuning: this record has no examples to compute the surface from.")
        if np.ndim(tuning.gamma):
            raise ValueError(
                "tuning: a surface over one width per feature cannot be drawn; tune one gamma."
            )
        whole = tuning.trace["n_examples"] == len(sample.label)
        path_C, path_gamma = tuning.trace["C"][whole], tuning.trace["gamma"][whole]
        axes: dict[str, np.ndarray | None] = {"C": None, "gamma": None}
        for name, path in (("C", path_C), ("gamma", path_gamma)):
            if name in tuning.parameters:
                chosen = getattr(tuning, name)
                axes[name] = np.geomspace(
                    min(path.min(initial=chosen), chosen / _AROUND),
                    max(path.max(initial=chosen), chosen * _AROUND),
                    n_grid,
                )
        part = part_of(sample, max_examples)
        first = Setting(tuning.C, tuning.gamma, tuning.coef0)
        ratio = _surface(part, first, axes["C"], axes["gamma"], max_time)
        return cls(
            axes["C"],
            axes["gamma"],
            ratio,
            path_C,
            path_gamma,
            tuning.trace["value"][whole] / tuning.plateau,
            tuning.trace["start"][whole],
            (tuning.C, tuning.gamma),
            len(part.label),
        )

    def plot(self, ax: Any = None) -> CriterionDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        ax = axes_of(ax)
        if self.C is None or self.gamma is None:
            self._plot_curve(ax)
        else:
            self._plot_surface(ax)
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _plot_surface(self, ax: Any) -> None:
        height = np.ma.masked_invalid(np.log10(self.ratio))
        low = float(height.min())
        # fine steps in the valley, coarse ones on the slopes that are of no interest
        levels = low + (max(1.0 - low, 0.5)) * np.linspace(0.0, 1.0, 17) ** 2
        filled = ax.contourf(self.C, self.gamma, height, levels, cmap="cividis", extend="max")
        ax.contour(self.C, self.gamma, height, [-0.001], colors=GREY, linestyles="--")
        bar = ax.figure.colorbar(filled, ax=ax, format="%.2f")
        bar.set_label("log10 of bound / plateau")
        look = self.path_start == 0
        ax.plot(self.path_C[look], self.path_gamma[look], "x", color="white", label="coarse look")
        for number in np.unique(self.path_start[~look]):
            own = self.path_start == number
            ax.plot(
                self.path_C[own],
                self.path_gamma[own],
                color="white",
                marker="o",
                markersize=4,
                markeredgecolor=BLACK,
                linewidth=1.2,
                label="descent" if number == self.path_start.max() else None,
            )
        self._mark(ax, *self.chosen)
        legend = ax.legend(loc="upper left", facecolor=GREY)
        legend.get_frame().set(alpha=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("C")
        ax.set_ylabel("gamma")
        ax.set_title(f"radius-margin criterion ({self.n_examples} examples)")

    def _plot_curve(self, ax: Any) -> None:
        name = "gamma" if self.C is None else "C"
        grid, path = (self.gamma, self.path_gamma) if self.C is None else (self.C, self.path_C)
        ax.plot(grid, self.ratio, color=BLUE, label=f"{self.n_examples} examples")
        ax.plot(path, self.path_ratio, "o", color=GREEN, markersize=5, label="visited")
        ax.axhline(1.0, color=GREY, linestyle="--", label="plateau")
        ax.axvline(self.chosen[name == "gamma"], color=ORANGE, label="chosen")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(name)
        ax.set_ylabel("bound / plateau")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False)

    def _mark(self, ax: Any, x: float, y: float) -> None:
        ax.plot(
            x,
            y,
            linestyle="none",
            marker="D",
            markersize=10,
            markerfacecolor="none",
            markeredgewidth=2,
            color=ORANGE,
            label="chosen",
        )


def _surface(
    sample: Sample,
    first: Setting,
    C: np.ndarray | None,
    gamma: np.ndarray | None,
    max_time: float | None,
) -> np.ndarray:
    """The bound over its plateau, each row of the grid warm-started along C."""
    widths = [first.gamma] if gamma is None else gamma
    weights = [first.C] if C is None else C
    level = plateau(sample.label, sample.n_classes)
    deadline = Deadline(Stop(_TOL, 10**9, max_time))
    ratio = np.full((len(widths), len(weights)), np.nan)
    with single_threaded_libraries():
        for row, width in enumerate(widths):
            warm: WarmStart | None = None
            for column, weight in enumerate(weights):
                setting = replace(first, C=float(weight), gamma=float(width))
                found = evaluate(
                    sample, setting, _TOL, _TOL, deadline, warm, with_slopes=False, kernel_psd=None
                )
                if deadline.why_end() is not None:
                    break
                if np.isfinite(found.log_product):
                    ratio[row, column] = np.exp(found.log_product - level)
                    warm = found.warm()
    return ratio if C is not None and gamma is not None else ratio.ravel()
