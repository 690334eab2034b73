"""Decision regions on a plane: two features, or a plane through the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from polymargin.estimators.inspection import (
    check_rows,
    dissect,
    encode_labels,
    input_names,
    margin_target,
)
from polymargin.exceptions import shown
from polymargin.plots.chart import Display
from polymargin.plots.planes import Plane, find_plane
from polymargin.plots.style import BLACK, axes_of, class_colours, class_markers, short

__all__ = ["DecisionRegionDisplay"]

_MOST_EXAMPLES = 5000
_MOST_POINTS = 1500
_MOST_SUPPORT = 120
_MOST_BORDERS = 60
_ARROW = 0.09
_MOST_ARROWS = 40
_SMALLEST_NAMED = 0.004


@dataclass(eq=False)
class DecisionRegionDisplay(Display):
    """Which class wins where, with prototypes or support vectors and the margin.

    Parameters
    ----------
    x, y : (m,), (k,) coordinates of the grid.
    winner : (k, m) number of the winning class.
    lead : (k, m) its score minus that of the best other class; None without scores.
    cell : (k, m) number of the winning prototype where a class has several; else None.
    plane : Plane
        What the axes mean, what is held fixed, and where examples, prototypes and support vectors
        lie.
    points : (n, 2), own : (n,)
        Examples on the plane and their class numbers (-1: no label given or unknown).
    prototype_points, prototype_directions, prototype_owner
        (R, 2), (R, 2), (R,): convex-hull prototypes themselves, or the middle of the examples that
        a prototype wins and the gradient of its score there.
    support : (S, 2) support vectors of a kernel model, those of the largest coefficients first.
    margin : float or None
        The margin that the machine asks for.
    agreement : float
        Share of the examples that get the same label at their place on the plane as where they
        really are.
    labels : (Q,) the classes.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after ``plot``.

    See Also
    --------
    PrototypeImagesDisplay : Prototypes of images.
    polymargin.certified_radius : The distance to a border.

    Notes
    -----
    In more than two dimensions a picture shows one plane.  The model is evaluated on that plane
    itself: all else is held fixed (``plane.held`` says where), and ``agreement`` how far the
    plane speaks for the examples that are drawn on it.

    Examples
    --------
    >>> from polymargin.plots import DecisionRegionDisplay
    >>> display = DecisionRegionDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    x: np.ndarray
    y: np.ndarray
    winner: np.ndarray
    lead: np.ndarray | None
    cell: np.ndarray | None
    plane: Plane
    points: np.ndarray
    own: np.ndarray
    prototype_points: np.ndarray
    prototype_directions: np.ndarray
    prototype_owner: np.ndarray
    support: np.ndarray
    margin: float | None
    agreement: float
    labels: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: Any = None,
        projection: str = "auto",
        resolution: int = 200,
        feature_names: Any = None,
        ax: Any = None,
    ) -> DecisionRegionDisplay:
        """Evaluate a fitted model on a plane and draw it.

        Parameters
        ----------
        estimator : fitted classifier, Pipeline or search
        X : array-like, data frame or CSR matrix of shape (n_samples, n_features)
            Examples to draw; they also say where the plane lies.  Of more than 5000 only so many
            are used, evenly spaced.
        y : array-like of shape (n_samples,) or None
        features : pair of names or numbers or None
            Draw these two features and hold the others at their median (sparse: at 0).
        projection : {"auto", "pca", "prototypes"}, default="auto"
            Without ``features`` and with more than two of them: the plane of the two main
            directions of the examples ("pca", also "auto"), or of the prototypes of a linear model;
            it goes through the mean of the examples, in the space behind the Pipeline's scaler.
        resolution : int, default=200
            Points of the grid along each axis.
        feature_names : sequence of str or None
        ax : matplotlib axes or None
        """
        options = {"features": features, "projection": projection, "resolution": resolution}
        return cls.record(estimator, X, y, feature_names=feature_names, **options).plot(ax)

    @classmethod
    def record(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: Any = None,
        projection: str = "auto",
        resolution: int = 200,
        feature_names: Any = None,
    ) -> DecisionRegionDisplay:
        """The figures alone, nothing drawn."""
        parts = dissect(estimator)
        X, y = _some(check_rows(X, y), y)
        if isinstance(resolution, bool) or not isinstance(resolution, int) or resolution < 2:
            raise ValueError(f"resolution must be an integer >= 2, got {shown(resolution)}.")
        labels = parts.last.classes_
        own = np.full(X.shape[0], -1) if y is None else encode_labels(labels, y)
        names = input_names(parts.whole, X, feature_names)
        plane = find_plane(parts, X, names, features, projection)
        points = plane.points
        x, y_grid = _grid(points, resolution)
        at = np.stack(np.meshgrid(x, y_grid), axis=-1).reshape(-1, 2)
        winner, lead, cell = plane.evaluate(at)
        shape = (len(y_grid), len(x))
        on_plane = plane.evaluate(points)[0]
        agreement = float(np.mean(labels[on_plane] == np.asarray(plane.predicted)))
        return cls(
            x,
            y_grid,
            winner.reshape(shape),
            None if lead is None else lead.reshape(shape),
            None if cell is None else cell.reshape(shape),
            plane,
            points,
            own,
            *plane.prototypes(),
            plane.support(),
            margin_target(estimator),
            agreement,
            labels,
        )

    # -- drawing -----------------------------------------------------------------------------

    def plot(
        self,
        ax: Any = None,
        *,
        points: bool = True,
        prototypes: bool = True,
        support: bool = True,
        margin: bool = True,
    ) -> DecisionRegionDisplay:
        """Draw into ``ax`` (new axes if None); ``ax_`` and ``figure_`` hold them.

        Parameters
        ----------
        ax : matplotlib axes or None
        points, prototypes, support, margin : bool, default=True
            Whether to draw examples, prototypes, support vectors and margin lines.
        """
        is_new = ax is None
        ax = axes_of(ax)
        if is_new:
            ax.figure.set_size_inches(7.2, 5.4)
        colours = class_colours(len(self.labels))
        self._draw_regions(ax, colours)
        if margin and self.lead is not None:
            self._draw_margins(ax)
        if points:
            self._draw_points(ax, colours)
        if support and len(self.support):
            strongest = self.support[:_MOST_SUPPORT]
            ax.scatter(
                *strongest.T, s=60, facecolors="none", edgecolors=BLACK, linewidths=0.7, alpha=0.7
            )
        if prototypes and len(self.prototype_points):
            self._draw_prototypes(ax, colours)
        self._name_regions(ax)
        ax.set_xlim(self.x[0], self.x[-1])
        ax.set_ylim(self.y[0], self.y[-1])
        ax.set_xlabel(short(self.plane.names[0], 60))
        ax.set_ylabel(short(self.plane.names[1], 60))
        if self.plane.held:
            note = f"{self.plane.held}; labels agree for {100 * self.agreement:.0f} %"
            ax.set_title(note, fontsize=9, color="#444444")
        return self._keep(ax)

    def _draw_regions(self, ax: Any, colours: list[Any]) -> None:
        from matplotlib.colors import to_rgb

        tints = np.array([to_rgb(colour) for colour in colours])
        tints = 1.0 - 0.3 * (1.0 - tints)
        extent = (self.x[0], self.x[-1], self.y[0], self.y[-1])
        ax.imshow(
            tints[self.winner],
            origin="lower",
            extent=extent,
            aspect="equal" if self.plane.is_isometric else "auto",
            interpolation="nearest",
        )
        if self.cell is None:
            return
        for r in np.unique(self.cell):
            inside = (self.cell == r).astype(float)
            other = (self.winner == self.winner[self.cell == r][0]).astype(float)
            if (inside < other).any():  # the class has other cells: thin lines between them
                masked = np.ma.masked_where(other == 0, inside)
                ax.contour(
                    self.x, self.y, masked, [0.5], colors="white", linewidths=0.8, linestyles=":"
                )

    def _draw_margins(self, ax: Any) -> None:
        present = np.unique(self.winner)
        if len(present) > _MOST_BORDERS or min(self.winner.shape) < 2:
            return
        assert self.lead is not None
        for k in present:
            # beside a border the second best is the class across: minus the lead is its score
            signed = np.where(self.winner == k, self.lead, -self.lead)
            if len(present) > 1:
                ax.contour(self.x, self.y, signed, [0.0], colors=BLACK, linewidths=0.9)
            if self.margin is not None and signed.max() > self.margin > signed.min():
                ax.contour(
                    self.x,
                    self.y,
                    signed,
                    [self.margin],
                    colors=BLACK,
                    linewidths=0.8,
                    linestyles="--",
                    alpha=0.6,
                )

    def _draw_points(self, ax: Any, colours: list[Any]) -> None:
        step = max(1, -(-len(self.points) // _MOST_POINTS))
        points, own = self.points[::step], self.own[::step]
        size = 22 if len(points) <= 300 else 12
        markers = class_markers(self.labels)
        are_letters = markers[0].startswith("$")
        for k in np.unique(own):
            mine = points[own == k]
            colour = colours[k] if k >= 0 else "#777777"
            ax.scatter(
                *mine.T,
                s=1.6 * size if are_letters else size,
                color=_darker(colour) if are_letters else colour,
                marker=markers[k] if k >= 0 else ".",
                edgecolors="none" if are_letters else "white",
                linewidths=0.4,
                label=short(self.labels[k]) if k >= 0 else "no known label",
            )

    def _draw_prototypes(self, ax: Any, colours: list[Any]) -> None:
        span = np.array([self.x[-1] - self.x[0], self.y[-1] - self.y[0]])
        # gradients as they look on the axes, the longest a tenth of their width
        seen = self.prototype_directions * span
        longest = float(np.sqrt((seen**2).sum(axis=1)).max(initial=0.0))
        few = len(seen) <= _MOST_ARROWS
        for r, (place, k) in enumerate(
            zip(self.prototype_points, self.prototype_owner, strict=True)
        ):
            if few and longest > 0.0:
                tip = place + _ARROW * seen[r] / longest * span
                ax.annotate(
                    "",
                    tip,
                    place,
                    arrowprops={"arrowstyle": "-|>", "color": BLACK, "linewidth": 1.1},
                    annotation_clip=True,
                )
            ax.plot(
                *place,
                marker="D",
                markersize=8 if few else 6,
                markerfacecolor=colours[k],
                markeredgecolor="white",
                markeredgewidth=1.4 if few else 0.9,
                linestyle="none",
                zorder=4,
            )

    def names(self) -> list[tuple[int, float, float]]:
        """Class number and place of every region worth a name: where it is widest."""
        from scipy.ndimage import distance_transform_edt

        found = []
        for k in np.unique(self.winner):
            inside = np.pad(self.winner == k, 1)
            if inside.sum() < _SMALLEST_NAMED * self.winner.size:
                continue
            depth = distance_transform_edt(inside)[1:-1, 1:-1]
            i, j = np.unravel_index(depth.argmax(), depth.shape)
            found.append((int(k), float(self.x[j]), float(self.y[i])))
        return found

    def _name_regions(self, ax: Any) -> None:
        from matplotlib.patheffects import withStroke

        for k, x, y in self.names():
            ax.text(
                x,
                y,
                short(self.labels[k]),
                ha="center",
                va="center",
                fontsize=11,
                fontweight="bold",
                color="#222222",
                path_effects=[withStroke(linewidth=3, foreground="white", alpha=0.85)],
                zorder=5,
            )


def _darker(colour: Any) -> tuple[float, ...]:
    """A colour in which a letter can be read on white."""
    from matplotlib.colors import to_rgb

    return tuple(0.65 * part for part in to_rgb(colour))


def _some(X: Any, y: Any) -> tuple[Any, Any]:
    """At most some thousand examples, evenly spaced: more are neither seen nor quick."""
    if X.shape[0] <= _MOST_EXAMPLES:
        return X, y
    which = np.linspace(0, X.shape[0] - 1, _MOST_EXAMPLES).astype(np.intp)
    return _safe_indexing(X, which), None if y is None else np.asarray(y)[which]


def _grid(points: np.ndarray, resolution: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates around the points, a little wider than they are."""
    low, high = points.min(axis=0), points.max(axis=0)
    if len(points) > 200:  # a few outliers must not make the rest a dot
        inner_low, inner_high = np.quantile(points, [0.002, 0.998], axis=0)
        reach = inner_high - inner_low
        low = np.maximum(low, inner_low - 0.25 * reach)
        high = np.minimum(high, inner_high + 0.25 * reach)
    span = np.where(high > low, high - low, 1.0)
    low, high = low - 0.06 * span, high + 0.06 * span
    return np.linspace(low[0], high[0], resolution), np.linspace(low[1], high[1], resolution)
