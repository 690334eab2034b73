"""A regularisation path: objective, errors and support against C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.plots.chart import Chart, ChartDisplay, Curve, Rule
from polymargin.plots.style import GREEN

__all__ = ["RegularizationPathDisplay"]


@dataclass(eq=False)
class RegularizationPathDisplay(ChartDisplay):
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

    See Also
    --------
    polymargin.regularization_path : The path that it draws.

    Examples
    --------
    >>> from polymargin.plots import RegularizationPathDisplay
    >>> display = RegularizationPathDisplay.from_path(path)  # doctest: +SKIP
    """

    Cs: np.ndarray
    training_error: np.ndarray
    validation_error: np.ndarray | None
    support_share: np.ndarray
    relative_gap: np.ndarray
    solved: np.ndarray
    tol: float

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

    def chart(self) -> Chart:
        """Errors in percent over C; dots are solved points, lines certified mixtures."""
        errors = [(self.training_error, "blue", "training error")]
        rules: tuple[Rule, ...] = ()
        if self.validation_error is not None:
            errors.append((self.validation_error, "orange", "validation error"))
            best = int(self.validation_error.argmin())
            lowest = f"lowest: {100.0 * self.validation_error[best]:.2f} %, C = {self.Cs[best]:.3g}"
            rules = (Rule(float(self.Cs[best]), lowest, is_upright=True),)
        at = self.solved
        curves = [
            Curve(self.Cs, 100.0 * error, colour, name, marks=False)
            for error, colour, name in errors
        ]
        curves += [
            Curve(self.Cs[at], 100.0 * error[at], colour, style="dots")
            for error, colour, _ in errors
        ]
        highest = max(float(error.max(initial=0.0)) for error, *_ in errors)
        return Chart(
            f"{len(self.Cs)} points, {int(at.sum())} solved (dots), "
            f"relative gap at most {self.relative_gap.max():.1e}",
            "C",
            "error (%)",
            curves=tuple(curves),
            rules=rules,
            x_log=True,
            y_range=(0.0, 108.0 * highest or 1.0),
            words="Line chart of the errors along a path of C.",
        )

    def plot(self, ax: Any = None) -> RegularizationPathDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them.

        The share of support vectors has an axis of its own on the right.
        """
        super().plot(ax)
        self.ax_.set_title(self.chart().title, fontsize="medium")
        right = self.support_ax_ = self.ax_.twinx()
        right.plot(self.Cs, 100.0 * self.support_share, color=GREEN, linestyle="--")
        right.set_ylabel("support vectors (%)", color=GREEN)
        right.set_ylim(0.0, 105.0)
        right.spines["top"].set_visible(False)
        return self
