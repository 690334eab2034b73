"""A regularisation path: objective, errors and support against C."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, axes_of

__all__ = ["RegularizationPathDisplay"]


class RegularizationPathDisplay:
    """Errors and share of support vectors along a regularisation path, solved points marked.

    Parameters
    ----------
    Cs : (m,) values of C.
    training_error : (m,) share of wrong labels on the training examples.
    validation_error : (m,) or None
    support_share : (m,) share of examples with dual weight.
    relative_gap : (m,) certified relative duality gap.
    solved : (m,) bool, False for certified mixtures of two solved points.
    tol : float

    Examples
    --------
    >>> from polymargin.plots import RegularizationPathDisplay
    >>> display = RegularizationPathDisplay.from_path(path)  # doctest: +SKIP
    """

    def __init__(
        self,
        Cs: np.ndarray,
        training_error: np.ndarray,
        validation_error: np.ndarray | None,
        support_share: np.ndarray,
        relative_gap: np.ndarray,
        solved: np.ndarray,
        tol: float,
    ) -> None:
        self.Cs = Cs
        self.training_error = training_error
        self.validation_error = validation_error
        self.support_share = support_share
        self.relative_gap = relative_gap
        self.solved = solved
        self.tol = tol

    @classmethod
    def record(cls, path: Any) -> RegularizationPathDisplay:
        """The figures of a ``RegularizationPath`` alone, nothing drawn."""
        n = path._shared.problem.n_patterns
        return cls(
            path.Cs,
            path.training_error,
            path.validation_error,
            path.n_support / n,
            path.relative_gap,
            path.solved,
            path.tol,
        )

    @classmethod
    def from_path(cls, path: Any, ax: Any = None) -> RegularizationPathDisplay:
        """Draw what ``regularization_path`` returned."""
        return cls.record(path).plot(ax)

    def plot(self, ax: Any = None) -> RegularizationPathDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them.

        The share of support vectors has an axis of its own on the right.
        """
        ax = axes_of(ax)
        self._curve(ax, self.training_error, BLUE, "training error")
        if self.validation_error is not None:
            self._curve(ax, self.validation_error, ORANGE, "validation error")
            best = int(self.validation_error.argmin())
            lowest = 100.0 * self.validation_error[best]
            ax.axvline(
                self.Cs[best],
                color=GREY,
                linewidth=1,
                linestyle=":",
                label=f"lowest validation error: {lowest:.2f} % at C = {self.Cs[best]:.3g}",
            )
        right = ax.twinx()
        right.plot(self.Cs, 100.0 * self.support_share, color=GREEN, linestyle="--")
        right.set_ylabel("support vectors (%)", color=GREEN)
        right.set_ylim(0.0, 105.0)
        right.spines["top"].set_visible(False)
        marks = ax.plot([], [], "o", color=BLACK, markersize=4)[0]
        marks.set_label("solved (other points: certified mixtures)")
        ax.set_xscale("log")
        ax.set_xlabel("C")
        ax.set_ylabel("error (%)")
        ax.set_ylim(bottom=0.0)
        ax.grid(alpha=0.3)
        ax.set_title(
            f"{len(self.Cs)} points, {int(self.solved.sum())} solved, "
            f"relative gap at most {self.relative_gap.max():.1e}",
            fontsize="medium",
        )
        ax.plot([], [], color=GREEN, linestyle="--", label="support vectors (right)")
        ax.legend(frameon=False, fontsize="small")
        self.ax_, self.support_ax_ = ax, right
        self.figure_ = ax.figure
        return self

    def _curve(self, ax: Any, error: np.ndarray, colour: str, label: str) -> None:
        ax.plot(self.Cs, 100.0 * error, color=colour, label=label)
        at = self.solved
        ax.plot(self.Cs[at], 100.0 * error[at], "o", color=colour, markersize=3)
