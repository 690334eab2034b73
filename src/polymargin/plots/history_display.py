"""What happened during a fit: objective or energy, duality gap, temperature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.inspection import dissect
from polymargin.exceptions import shown
from polymargin.plots.chart import Chart, Curve, Display, Rule, draw_chart
from polymargin.plots.style import axes_of

__all__ = ["HistoryDisplay"]

_AXES = ("seconds", "iteration")


@dataclass(eq=False)
class HistoryDisplay(Display):
    """The progress of a fit, one entry per check of the certificate.

    Parameters
    ----------
    seconds, iteration : (k,) when; None for the seconds of a loaded model, which forgets them.
    primal, dual, gap : (k,) value of the model, proven lower bound of the best possible value, and
        their relative distance.
    energy, temperature : (k,) or None
        Of the multi-prototype machine only.
    tol : float or None
        The relative gap that was asked for.
    status : str

    Attributes
    ----------
    quantities : tuple of str
        What there is to draw, of "objective", "energy", "gap" and "temperature".
    axes_ : (m,) matplotlib axes, one per quantity, after ``plot``; ``ax_`` is the first.
    figure_ : matplotlib figure.

    See Also
    --------
    polymargin.FitMonitor : Records a value of your own.
    polymargin.Certificate : How far a finished fit is from the best.

    Examples
    --------
    >>> from polymargin.plots import HistoryDisplay
    >>> display = HistoryDisplay.from_estimator(model, x="iteration")  # doctest: +SKIP
    """

    seconds: np.ndarray | None
    iteration: np.ndarray
    primal: np.ndarray
    dual: np.ndarray
    gap: np.ndarray
    energy: np.ndarray | None = None
    temperature: np.ndarray | None = None
    tol: float | None = None
    status: str = ""

    @property
    def quantities(self) -> tuple[str, ...]:
        if self.energy is None:
            return "objective", "gap"
        heated = self.temperature is not None and np.any(self.temperature > 0)
        return ("energy", "gap", "temperature") if heated else ("energy", "gap")

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str | None = None, quantities: Any = None, ax: Any = None
    ) -> HistoryDisplay:
        """Draw the history of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier, Pipeline that ends in one, or search
        x : {"seconds", "iteration"} or None
            None: seconds where they are known, which they are not after loading.
        quantities : sequence of str or None
            Of "objective", "energy", "gap", "temperature"; None: all that there are.
        ax : matplotlib axes or sequence of axes or None
            A single one is divided among the quantities.
        """
        return cls.record(estimator).plot(ax, x=x, quantities=quantities)

    @classmethod
    def record(cls, estimator: Any) -> HistoryDisplay:
        """The figures alone, nothing drawn."""
        last = dissect(estimator).last
        check_is_fitted(last, "history_", msg=f"estimator: {type(last).__name__} has no history_.")
        history = last.history_
        model = getattr(last, "best_estimator_", last)
        return cls(
            history.get("seconds"),
            history["iteration"],
            history["primal"],
            history["dual"],
            history["relative_gap"],
            history.get("energy"),
            history.get("temperature"),
            getattr(model, "tol", None),
            getattr(last, "status_", ""),
        )

    def range_of_objective(self) -> tuple[float, float]:
        """Limits that show where the bounds meet, not how bad the first model was."""
        upper = self.energy if self.energy is not None else self.primal
        upper = upper[np.isfinite(upper)]
        lower = self.dual[np.isfinite(self.dual)] if self.energy is None else upper
        if not len(upper):
            upper = lower
        if not len(upper):
            return 0.0, 1.0
        best = float(upper.min())
        high = float(upper.max())
        if self.energy is None:
            high = min(high, best + abs(best) * 1.5)
        low = max(float(lower.min()), best - abs(best)) if len(lower) else best
        pad = 0.06 * (high - low) or 0.05 * abs(best) or 0.5
        return low - pad, high + pad

    def plot(
        self, ax: Any = None, *, x: str | None = None, quantities: Any = None
    ) -> HistoryDisplay:
        """Draw into ``ax`` (new axes if None); ``axes_``, ``ax_`` and ``figure_`` hold them."""
        if x not in (None, *_AXES):
            raise ValueError(f"x must be 'seconds' or 'iteration', got {shown(x)}.")
        if x == "seconds" and self.seconds is None:
            raise ValueError("x='seconds': a loaded model does not know them; use 'iteration'.")
        chosen = self._chosen(quantities)
        axes = _divided(ax, len(chosen))
        charts = {name: self.chart(name, x) for name in chosen}
        for one, name in zip(axes, chosen, strict=True):
            draw_chart(charts[name], one)
            if one is not axes[-1]:
                one.tick_params(labelbottom=False)
                one.set_xlabel("")
        self.axes_ = np.asarray(axes, dtype=object)
        return self._keep(axes[0])

    def _chosen(self, quantities: Any) -> list[str]:
        if quantities is None:
            return list(self.quantities)
        chosen = [quantities] if isinstance(quantities, str) else list(quantities)
        has = {"objective", "gap"}
        has |= {name for name in ("energy", "temperature") if getattr(self, name) is not None}
        for name in chosen:
            if name not in has:
                raise ValueError(f"quantities must be among {sorted(has)} here, got {shown(name)}.")
        if not chosen:
            raise ValueError("quantities is empty; name at least one.")
        return chosen

    def chart(self, quantity: str, x: str | None = None) -> Chart:
        """One of the quantities against time or iterations."""
        x = x or ("iteration" if self.seconds is None else "seconds")
        when, ending = getattr(self, x), f"over {len(self.iteration)} checks, ending at"
        if quantity == "objective":
            return Chart(
                "Objective",
                x,
                "objective",
                curves=(
                    Curve(when, self.primal, "blue", "this model (primal)", filled_to=self.dual),
                    Curve(when, self.dual, "orange", "proven lower bound (dual)"),
                ),
                y_range=self.range_of_objective(),
                words=f"Line chart: the value of the model and its proven lower bound {ending} "
                f"{_known(self.primal)} and {_known(self.dual)}.",
                caption="The best possible value lies in the tinted area.",
            )
        if quantity == "energy":
            assert self.energy is not None
            low, high = np.nanmin(self.energy, initial=np.inf), np.nanmax(self.energy, initial=0.0)
            return Chart(
                "Energy",
                x,
                "energy",
                curves=(Curve(when, self.energy, "blue"),),
                # the whole curve, its end readable beside its beginning
                y_log=bool(0.0 < low < 0.4 * high < np.inf),
                words=f"Line chart: the energy {ending} {_known(self.energy)}.",
            )
        if quantity == "gap":
            return Chart(
                "Relative duality gap",
                x,
                "relative duality gap",
                curves=(Curve(when, self.gap, "green"),),
                rules=() if self.tol is None else (Rule(self.tol, f"tol = {self.tol:g}"),),
                y_log=True,
                words=f"Line chart: the relative duality gap {ending} {_known(self.gap)}.",
            )
        assert self.temperature is not None
        high = float(self.temperature.max(initial=0.0)) or 1.0
        return Chart(
            "Temperature, in units of C",
            x,
            "temperature / C",
            curves=(Curve(when, self.temperature, "amber", style="steps"),),
            y_range=(0.0, 1.05 * high),
            words="Line chart: the temperature of the annealing falls to zero.",
        )


def _known(values: np.ndarray) -> str:
    """The last number, or the word for none."""
    return f"{values[-1]:.6g}" if len(values) and np.isfinite(values[-1]) else "unknown"


def _divided(ax: Any, count: int) -> list[Any]:
    """As many axes as quantities: new ones, those given, or parts of the one given."""
    if ax is None:
        axes_of(object())  # matplotlib or a helpful message
        import matplotlib.pyplot as plt

        axes = plt.subplots(
            count, 1, sharex=True, layout="constrained", figsize=(6.4, 1.2 + 1.9 * count)
        )[1]
        return list(np.atleast_1d(axes))
    if np.ndim(ax):
        axes = list(np.ravel(ax))
        if len(axes) != count:
            raise ValueError(f"ax has {len(axes)} axes for {count} quantities.")
        return axes
    if count == 1:
        return [ax]
    ax.set_axis_off()
    spec = ax.get_subplotspec()
    if spec is None:
        height = 1.0 / count
        return [
            ax.inset_axes((0.0, 1.0 - (k + 0.9) * height, 1.0, 0.8 * height)) for k in range(count)
        ]
    parts = spec.subgridspec(count, 1)
    axes = [ax.figure.add_subplot(parts[0])]
    axes += [ax.figure.add_subplot(parts[k], sharex=axes[0]) for k in range(1, count)]
    return axes
