"""The radius-margin criterion over C and gamma, and the path of the search on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.plots.chart import Chart, Curve, Display, Rule, draw_chart
from polymargin.plots.style import BLACK, GREY, axes_of
from polymargin.radius_margin.criterion import Sample, Setting, WarmStart, evaluate
from polymargin.radius_margin.search import part_of, plateau
from polymargin.selection.tune_radius_margin import RadiusMarginTuning
from polymargin.solvers.run import Run, Stop

__all__ = ["CriterionDisplay"]

_TOL = 1e-2
_AROUND = 30.0  # the surface reaches at least this factor beyond the chosen point


@dataclass(eq=False)
class CriterionDisplay(Display):
    """The radius-margin bound over C and gamma with the points that a search visited.

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

    See Also
    --------
    polymargin.tune_radius_margin : The search that it draws.

    Examples
    --------
    >>> from polymargin.plots import CriterionDisplay
    >>> display = CriterionDisplay.from_tuning(found)  # doctest: +SKIP
    """

    C: np.ndarray | None
    gamma: np.ndarray | None
    ratio: np.ndarray
    path_C: np.ndarray
    path_gamma: np.ndarray
    path_ratio: np.ndarray
    path_start: np.ndarray
    chosen: tuple[float, float]
    n_examples: int

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
            draw_chart(self.chart(), ax)
        else:
            self._plot_surface(ax)
        return self._keep(ax)

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
        C, gamma = np.reshape(self.chosen, (2, 1))
        chosen = Curve(C, gamma, "orange", "chosen", style="ring")
        draw_chart(Chart("", "C", "gamma", (chosen,), x_log=True, y_log=True), ax)
        ax.legend(loc="upper left", facecolor=GREY, framealpha=0.8)
        ax.set_title(f"radius-margin criterion ({self.n_examples} examples)")

    def chart(self) -> Chart:
        """The curve of a single parameter."""
        name = "gamma" if self.C is None else "C"
        grid, path = (self.gamma, self.path_gamma) if self.C is None else (self.C, self.path_C)
        assert grid is not None
        return Chart(
            "Radius-margin criterion",
            name,
            "bound / plateau",
            curves=(
                Curve(grid, self.ratio, "blue", f"{self.n_examples} examples", marks=False),
                Curve(path, self.path_ratio, "green", "visited", style="dots"),
            ),
            rules=(
                Rule(1.0, "plateau"),
                Rule(self.chosen[name == "gamma"], "chosen", is_upright=True),
            ),
            x_log=True,
            y_log=True,
            words=f"Line chart of the radius-margin bound over {name}.",
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
    run = Run(Stop(_TOL, 10**9, max_time))
    ratio = np.full((len(widths), len(weights)), np.nan)
    with single_threaded_libraries():
        for row, width in enumerate(widths):
            warm: WarmStart | None = None
            for column, weight in enumerate(weights):
                setting = replace(first, C=float(weight), gamma=float(width))
                found = evaluate(
                    sample, setting, _TOL, _TOL, run, warm, with_slopes=False, kernel_psd=None
                )
                if run.why_end() is not None:
                    break
                if np.isfinite(found.log_product):
                    ratio[row, column] = np.exp(found.log_product - level)
                    warm = found.warm()
    return ratio if C is not None and gamma is not None else ratio.ravel()
