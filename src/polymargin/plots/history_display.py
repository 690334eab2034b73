"""What happened during a fit: objective or energy, duality gap, temperature."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.inspection import dissect
from polymargin.plots.style import AMBER, BLUE, GREEN, GREY, ORANGE, axes_of

__all__ = ["HistoryDisplay"]

_TITLES = {
    "objective": "objective",
    "energy": "energy",
    "gap": "relative duality gap",
    "temperature": "temperature / C",
}
_AXES = {"seconds": "seconds", "iteration": "iteration"}


class HistoryDisplay:
    """The progress of a fit, one entry per check of the certificate.

    Parameters
    ----------
    seconds, iteration : (k,) when.
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

    Examples
    --------
    >>> from polymargin.plots import HistoryDisplay
    >>> display = HistoryDisplay.from_estimator(model, x="iteration")  # doctest: +SKIP
    """

    def __init__(
        self,
        seconds: np.ndarray,
        iteration: np.ndarray,
        primal: np.ndarray,
        dual: np.ndarray,
        gap: np.ndarray,
        energy: np.ndarray | None = None,
        temperature: np.ndarray | None = None,
        tol: float | None = None,
        status: str = "",
    ) -> None:
        self.seconds = seconds
        self.iteration = iteration
        self.primal = primal
        self.dual = dual
        self.gap = gap
        self.energy = energy
        self.temperature = temperature
        self.tol = tol
        self.status = status

    @property
    def quantities(self) -> tuple[str, ...]:
        if self.energy is None:
            return "objective", "gap"
        heated = self.temperature is not None and np.any(self.temperature > 0)
        return ("energy", "gap", "temperature") if heated else ("energy", "gap")

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str = "seconds", quantities: Any = None, ax: Any = None
    ) -> HistoryDisplay:
        """Draw the history of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier, Pipeline that ends in one, or search
        x : {"seconds", "iteration"}, default="seconds"
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
            history["seconds"],
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

    def plot(self, ax: Any = None, *, x: str = "seconds", quantities: Any = None) -> HistoryDisplay:
        """Draw into ``ax`` (new axes if None); ``axes_``, ``ax_`` and ``figure_`` hold them."""
        if x not in _AXES:
            raise ValueError(f"x must be 'seconds' or 'iteration', got {x!r}.")
        chosen = self._chosen(quantities)
        axes = _divided(ax, len(chosen))
        when = self.seconds if x == "seconds" else self.iteration
        for one, name in zip(axes, chosen, strict=True):
            getattr(self, f"_draw_{name}")(one, when)
            one.set_ylabel(_TITLES[name])
            one.grid(alpha=0.3)
            one.spines[["top", "right"]].set_visible(False)
            if one is not axes[-1]:
                one.tick_params(labelbottom=False)
        axes[-1].set_xlabel(_AXES[x])
        self.axes_ = np.asarray(axes, dtype=object)
        self.ax_ = axes[0]
        self.figure_ = axes[0].figure
        return self

    def _chosen(self, quantities: Any) -> list[str]:
        if quantities is None:
            return list(self.quantities)
        chosen = [quantities] if isinstance(quantities, str) else list(quantities)
        has = {"objective", "gap"}
        has |= {name for name in ("energy", "temperature") if getattr(self, name) is not None}
        for name in chosen:
            if name not in has:
                raise ValueError(f"quantities must be among {sorted(has)} here, got {name!r}.")
        if not chosen:
            raise ValueError("quantities is empty; name at least one.")
        return chosen

    def _draw_objective(self, ax: Any, when: np.ndarray) -> None:
        style = {"marker": ".", "markersize": 5, "linewidth": 1.5}
        ax.plot(when, _finite(self.primal), color=BLUE, label="this model (primal)", **style)
        ax.plot(when, _finite(self.dual), color=ORANGE, label="proven bound (dual)", **style)
        both = np.isfinite(self.primal) & np.isfinite(self.dual)
        ax.fill_between(
            when[both],
            self.dual[both],
            self.primal[both],
            color=GREY,
            alpha=0.15,
            linewidth=0,
            label="the best possible is in here",
        )
        ax.set_ylim(*self.range_of_objective())
        ax.legend(frameon=False, fontsize=9)

    def _draw_energy(self, ax: Any, when: np.ndarray) -> None:
        energy = _finite(self.energy)
        ax.plot(when, energy, color=BLUE, marker=".", markersize=5)
        low, high = np.nanmin(energy, initial=np.inf), np.nanmax(energy, initial=0.0)
        if 0.0 < low < 0.4 * high:  # the whole curve, its end readable beside its beginning
            ax.set_yscale("log")

    def _draw_gap(self, ax: Any, when: np.ndarray) -> None:
        gap = np.where(self.gap > 0, self.gap, np.nan)
        ax.plot(when, _finite(gap), color=GREEN, marker=".", markersize=5)
        if np.isfinite(gap).any():
            ax.set_yscale("log")
        if self.tol is not None:
            ax.axhline(self.tol, color=GREY, linestyle="--", linewidth=1)
            ax.annotate(
                f"tol = {self.tol:g}",
                (0.0, self.tol),
                xycoords=("axes fraction", "data"),
                xytext=(4, 3),
                textcoords="offset points",
                ha="left",
                fontsize=8,
                color="#555555",
            )

    def _draw_temperature(self, ax: Any, when: np.ndarray) -> None:
        ax.plot(when, self.temperature, color=AMBER, marker=".", markersize=5, drawstyle="steps")
        ax.set_ylim(bottom=0.0)


def _finite(values: np.ndarray | None) -> np.ndarray:
    assert values is not None
    values = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


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
