"""Prototypes of linear models as images, class by class."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import Parts, dissect, prototypes_of
from polymargin.exceptions import shown
from polymargin.plots.chart import Display
from polymargin.plots.style import GREY, ORANGE, axes_of, short

__all__ = ["PrototypeImagesDisplay", "image_shape"]

_SCALES = ("each", "all")
_LETTERS_ACROSS = 14  # of 8 points beside each other in the width of an image


def image_shape(n_features: int, shape: Any = None) -> tuple[int, int]:
    """Rows and columns: those given, checked, or the square root where it is whole."""
    if shape is None:
        side = math.isqrt(n_features)
        if side * side != n_features:
            raise ValueError(
                f"shape: {n_features} features are no square; give shape=(rows, columns)."
            )
        return side, side
    try:
        rows, columns = (int(length) for length in shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"shape must be (rows, columns), got {shown(shape)}.") from error
    if rows < 1 or columns < 1 or rows * columns != n_features:
        raise ValueError(
            f"shape={(rows, columns)} has {rows * columns} pixels, but the model has {n_features} "
            "features."
        )
    return rows, columns


@dataclass(eq=False)
class PrototypeImagesDisplay(Display):
    """The prototypes of a linear model as images; those that win nothing are crossed out.

    Weights are drawn in blue (they speak for the class) and red (against it) around white.
    Convex-hull prototypes are mixtures of examples and are drawn in grey.

    Parameters
    ----------
    images : (R, rows, columns)
    owner : (R,) number of the class of each image.
    alive : (R,) whether the prototype wins a training example.
    labels : (Q,) the classes.
    are_points : bool
        Whether the images are mixtures of examples instead of weights.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after ``plot``.

    See Also
    --------
    DecisionRegionDisplay : Where which class wins.
    polymargin.prototype_table : Prototypes by their largest weights.

    Examples
    --------
    >>> from polymargin.plots import PrototypeImagesDisplay
    >>> display = PrototypeImagesDisplay.from_estimator(model)  # doctest: +SKIP
    """

    images: np.ndarray
    owner: np.ndarray
    alive: np.ndarray
    labels: np.ndarray
    are_points: bool = False

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, shape: Any = None, scale: str = "each", ax: Any = None
    ) -> PrototypeImagesDisplay:
        """Draw the prototypes of a fitted linear model.

        Parameters
        ----------
        estimator : fitted classifier with a linear kernel, or a Pipeline that ends in one
            Behind a scaler the weights are those of the scaled features.  Behind steps that change
            the number of features (PCA) they are taken back to the input, where the steps are
            affine.
        shape : (rows, columns) or None
            None: square, where the number of features is one.
        scale : {"each", "all"}, default="each"
            Whether every image uses the whole range of colours, or all share one.
        ax : matplotlib axes or None
        """
        return cls.record(estimator, shape=shape).plot(ax, scale=scale)

    @classmethod
    def record(cls, estimator: Any, *, shape: Any = None) -> PrototypeImagesDisplay:
        """The images alone, nothing drawn."""
        parts = dissect(estimator)
        found = prototypes_of(estimator)
        if found is None:
            raise ValueError(
                f"estimator: {type(parts.last).__name__} has no prototypes in the space of X "
                "(they exist for kernel='linear' only)."
            )
        pixels = _input_pixels(parts, np.asarray(found.points, dtype=np.float64), found.are_points)
        rows, columns = image_shape(pixels.shape[1], shape)
        images = pixels.reshape(-1, rows, columns)
        return cls(images, found.owner, found.alive, parts.last.classes_, found.are_points)

    # -- drawing -----------------------------------------------------------------------------

    def layout(self) -> list[list[int]]:
        """Rows of image numbers: a row per class, or one prototype per class in a square."""
        Q = len(self.labels)
        if len(self.owner) == Q:
            width = math.ceil(math.sqrt(Q))
            return [list(range(k, min(k + width, Q))) for k in range(0, Q, width)]
        return [np.flatnonzero(self.owner == c).tolist() for c in range(Q)]

    def plot(self, ax: Any = None, *, scale: str = "each") -> PrototypeImagesDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them."""
        if scale not in _SCALES:
            raise ValueError(f"scale must be one of {_SCALES}, got {shown(scale)}.")
        is_new = ax is None
        ax = axes_of(ax)
        rows = self.layout()
        one_per_class = len(self.owner) == len(self.labels)
        height, width = self.images.shape[1:]
        gap = max(1, round(0.08 * max(height, width)))
        head = max(2, round(0.36 * height)) if one_per_class else 0
        step_y, step_x = height + gap + head, width + gap
        n_columns = max(map(len, rows))
        if is_new:
            inches = min(9.0 / n_columns, 7.0 / len(rows), 1.1)
            ax.figure.set_size_inches(
                max(n_columns * inches + 1.0, 4.6), len(rows) * inches * step_y / step_x + 0.4
            )
        mosaic = np.full((len(rows) * step_y - gap, n_columns * step_x - gap), np.nan)
        scaled = self._scaled(scale)
        for i, row in enumerate(rows):
            for j, r in enumerate(row):
                top, left = i * step_y + head, j * step_x
                mosaic[top : top + height, left : left + width] = scaled[r]
                if not self.alive[r]:
                    self._cross_out(ax, top, left)
                if one_per_class:
                    ax.text(
                        left + 0.5 * width - 0.5,
                        top - 0.08 * height - 0.5,
                        _two_lines(self.labels[self.owner[r]]),
                        ha="center",
                        va="bottom",
                        fontsize=8,
                    )
        low = 0.0 if self.are_points else -1.0
        # not "RdBu" reversed: blue speaks for the class
        ax.imshow(
            mosaic,
            cmap="gray_r" if self.are_points else "RdBu",
            vmin=low,
            vmax=1.0,
            interpolation="nearest",
        )
        self._frame(ax, rows, one_per_class, step_y, height)
        dead = int((~self.alive).sum())
        if dead:
            ax.set_xlabel(f"crossed out: {dead} of {len(self.alive)} prototypes win no example")
        return self._keep(ax)

    def _scaled(self, scale: str) -> np.ndarray:
        """Weights within [-1, 1] around 0, mixtures of examples within [0, 1]."""
        flat = self.images.reshape(len(self.images), -1)
        shift = np.zeros(len(flat))
        if self.are_points:
            shift = flat.min(axis=1)
            if scale == "all":
                shift = np.full(len(flat), flat.min())
        moved = flat - shift[:, None]
        size = np.abs(moved).max(axis=1)
        if scale == "all":
            size = np.full(len(flat), size.max(initial=0.0))
        size[size == 0.0] = 1.0
        return np.asarray((moved / size[:, None]).reshape(self.images.shape))

    def _cross_out(self, ax: Any, top: int, left: int) -> None:
        height, width = self.images.shape[1:]
        x, y = [left - 0.5, left + width - 0.5], [top - 0.5, top + height - 0.5]
        ax.plot(x, y, color=ORANGE, linewidth=1.0)
        ax.plot(x, y[::-1], color=ORANGE, linewidth=1.0)

    def _frame(
        self, ax: Any, rows: list[list[int]], one_per_class: bool, step_y: int, height: int
    ) -> None:
        ax.set_xticks([])
        ax.set_yticks([])
        if not one_per_class:
            at = [i * step_y + 0.5 * height - 0.5 for i in range(len(rows))]
            ax.set_yticks(at, [short(label, 12) for label in self.labels])
            ax.tick_params(axis="y", length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set_facecolor("white")
        ax.xaxis.label.set_color(GREY)


def _two_lines(label: Any) -> str:
    """A name above an image: at most two lines of as many letters as an image is wide."""
    lines = textwrap.wrap(short(label, 2 * _LETTERS_ACROSS), _LETTERS_ACROSS) or [""]
    return "\n".join(lines[:1] + [short(" ".join(lines[1:]), _LETTERS_ACROSS)] * (len(lines) > 1))


def _input_pixels(parts: Parts, vectors: np.ndarray, are_points: bool) -> np.ndarray:
    """Weights per input feature, or points of the input space."""
    if not parts.steps:
        return vectors
    d = getattr(parts.whole, "n_features_in_", None)
    if are_points:
        try:
            for step in reversed(parts.steps):
                vectors = step.inverse_transform(vectors)
        except (AttributeError, ValueError):
            return vectors
        return np.asarray(vectors)
    if d is None or d == vectors.shape[1]:
        return vectors
    base = _through(parts, np.zeros((1, d)))
    jacobian = _through(parts, np.eye(d)) - base
    probe = np.random.default_rng(0).normal(size=(3, d))
    expected = probe @ jacobian + base
    if not np.allclose(_through(parts, probe), expected, rtol=1e-6, atol=1e-6):
        raise ValueError(
            "estimator: the steps before the classifier are not affine, so its prototypes are no "
            "images of the input; draw those of the classifier alone: "
            "PrototypeImagesDisplay.from_estimator(pipeline[-1], shape=...)."
        )
    return vectors @ jacobian.T


def _through(parts: Parts, X: np.ndarray) -> np.ndarray:
    from polymargin.estimators.inspection import model_space, nameless

    with nameless():
        out = model_space(parts, X)
    return np.asarray(out.toarray() if hasattr(out, "toarray") else out, dtype=np.float64)
