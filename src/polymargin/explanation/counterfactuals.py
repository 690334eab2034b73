"""``counterfactual``: the least change of a row that gives it another label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.estimators.inspection import encode_labels, nameless
from polymargin.exceptions import shown
from polymargin.explanation.model_view import View, check_norm_and_units, dense_rows, view_of
from polymargin.explanation.nearest_point import nearest_step, step_length
from polymargin.explanation.robustness import prototype_distances, stretch_of
from polymargin.problem.validation import check_number

__all__ = ["Counterfactual", "counterfactual"]

_GROWTH = 8.0  # of a default margin that rounding ate up
_TRIES = 24  # 8^24 rounding units: more than any score


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """The nearest rows with another label.

    Attributes
    ----------
    rows : ndarray of shape (n_samples, n_features)
        In the units of X; NaN where there is none.
    distance : ndarray of shape (n_samples,)
        From the given row, in ``norm`` and ``units``; infinite where there is none.
    label : ndarray of shape (n_samples,)
        Predicted label of the given rows.
    target : ndarray of shape (n_samples,)
        Label of the new rows, or the one that was asked for and cannot be reached.
    margin : ndarray of shape (n_samples,)
        By how much the score of the target leads all others at the new row, at least.
    reason : tuple of str
        Empty where a row was found, else why there is none.
    feature_names : tuple of str
    norm : {1, 2, "inf"}
    units : {"input", "scaled"}

    See Also
    --------
    polymargin.counterfactual : Makes it.
    """

    rows: np.ndarray
    distance: np.ndarray
    label: np.ndarray
    target: np.ndarray
    margin: np.ndarray
    reason: tuple[str, ...]
    feature_names: tuple[str, ...]
    norm: Any
    units: str


def counterfactual(
    model: Any,
    X: Any,
    target: Any = None,
    margin: float | None = None,
    norm: Any = 2,
    fixed: Sequence[Any] = (),
    bounds: Any = None,
    units: str = "input",
) -> Counterfactual:
    r"""The nearest row predicted as the target, exact for linear and prototype models.

    For every prototype s of the target, the projection of x onto

    .. math:: \{x' : f_s(x') \ge f_r(x') + \text{margin for all } r \text{ of other classes}\}

    within bounds and with fixed features, of which the nearest is returned: a quadratic programme
    (norm 2) or a linear one, no search.

    Parameters
    ----------
    model : classifier, Pipeline of scalers and classifier, or search, fitted
        Linear or with prototypes; kernels are refused, their borders have no closed form.
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
    target : label, array of one label per row, or None
        None: the nearest other class.
    margin : float or None
        By how much the target must lead, > 0.  None: the smallest that survives rounding, so that
        ``predict`` gives the target (checked).
    norm : {1, 2, "inf"}, default=2
        1 changes few features, "inf" many by little.
    fixed : sequence of feature names or numbers
        Features that must not change.
    bounds : (low, high), mapping from feature to (low, high), or None
        Limits of the new rows in the units of X; low and high are numbers, arrays of one number
        per feature, or None.
    units : {"input", "scaled"}, default="input"
        Units of the distance that is minimised; the rows are those of X in any case.

    Returns
    -------
    Counterfactual
        Where no row exists (bounds, fixed features, a class that never wins) the row is NaN and
        ``reason`` says why.

    See Also
    --------
    certified_radius : Only the distance, for RBF kernels, too.
    explain : Which features decide.
    explanation.counterfactuals.Counterfactual : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, counterfactual
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC(random_state=0).fit(X, y)
    >>> found = counterfactual(model, X[:1], target=1, fixed=[0, 1])
    >>> model.predict(found.rows).tolist(), (found.rows[0, :2] == X[0, :2]).tolist()
    ([1], [True, True])
    """
    norm = check_norm_and_units(norm, units)
    if margin is not None:
        check_number("margin", margin, above=0.0)
    view = view_of(model, X, "counterfactual")
    if not view.model.is_linear:
        raise ValueError(
            "model: counterfactual needs a linear or prototype model: the borders of kernel='rbf' "
            "are not made of planes, so the nearest row beyond them has no exact form; "
            "certified_radius gives a bound of its distance."
        )
    view.model.scaling("a counterfactual")  # refuses other steps before X is taken for numbers
    search = _Search(view, model, dense_rows(X), norm, units, fixed, bounds)
    targets = _targets(view, target)
    found = [search.of_row(i, targets[i], margin) for i in range(len(search.X))]
    rows, distance, goal, lead, reason = zip(*found, strict=True)
    return Counterfactual(
        np.array(rows),
        np.array(distance),
        view.labels,
        view.model.classes[np.array(goal)],
        np.array(lead),
        tuple(reason),
        tuple(view.input_names),
        norm,
        units,
    )


def _targets(view: View, target: Any) -> np.ndarray:
    """A class number for every row; -1 where any other class will do."""
    n = len(view.predicted)
    if target is None:
        return np.full(n, -1)
    classes = view.model.classes
    given = np.asarray(target)
    if given.ndim and given.shape != (n,):
        raise ValueError(f"target must be one label, or one for each of the {n} rows.")
    number = encode_labels(classes, np.broadcast_to(given, (n,)), "target")
    if (number < 0).any():
        bad = np.broadcast_to(given, (n,)).tolist()[int(np.argmin(number))]
        raise ValueError(f"target: {bad!r} is not one of the classes {classes.tolist()}.")
    return number


class _Search:
    """What the rows share: prototypes in the units of distance, free features, bounds."""

    def __init__(
        self,
        view: View,
        model: Any,
        X: np.ndarray,
        norm: Any,
        units: str,
        fixed: Sequence[Any],
        bounds: Any,
    ) -> None:
        assert view.model.weights is not None
        scaling = view.model.scaling("a counterfactual")
        if scaling is not None and scaling.low is not None:
            raise ValueError(
                "model: a scaler with clip=True has flat parts, where a counterfactual is not "
                "defined by planes; use clip=False, and bounds= to keep rows in their range."
            )
        d = X.shape[1]
        self.view, self.model, self.X, self.norm = view, model, X, norm
        stretch = stretch_of(scaling, units, d)
        # a step in units of distance, times this, is a step of the input features
        self.to_input = np.ones(d) if scaling is None else stretch / scaling.scale
        names = view.input_names
        self.low, self.high = _bounds(bounds, names)
        free = np.ones(d, dtype=bool)
        free[[_feature(one, names, "fixed") for one in fixed]] = False
        self.free = np.flatnonzero(free)
        self.W = (view.model.weights * stretch)[:, self.free]
        self.distance = prototype_distances(self.W, norm)
        shift = np.zeros(d) if scaling is None else np.abs(scaling.shift * scaling.scale)
        size = np.abs(view.model.weights) @ shift + np.abs(view.model.intercept)
        self.rounding = np.finfo(np.float64).eps * float(size.max(initial=0.0))

    def of_row(self, i: int, target: int, margin: float | None) -> tuple[Any, ...]:
        """New row, distance, class number, margin and reason."""
        y = int(self.view.predicted[i])
        if target == y and margin is None and self._allows(self.X[i]):
            return self.X[i].copy(), 0.0, y, 0.0, ""
        blocked = self._blocked(i)
        if blocked:
            return self._none(max(target, 0) if target >= 0 else self._runner_up(i), blocked)
        if margin is not None:
            goal, step = self._nearest(i, target, margin)
            if step is None:
                return self._none(goal, self._why(target))
            return (*self._moved(i, step), goal, margin, "")
        lead = self._least_margin(i)
        for _ in range(_TRIES):
            goal, step = self._nearest(i, target, lead)
            if step is None:
                return self._none(goal, self._why(target))
            row, distance = self._moved(i, step)
            with nameless():
                label = self.model.predict(row[None, :])[0]
            if label == self.view.model.classes[goal]:
                return row, distance, goal, lead, ""
            lead *= _GROWTH
        return self._none(goal, "rounding leaves no row that is predicted as the target")

    def _none(self, goal: int, reason: str) -> tuple[Any, ...]:
        return np.full(self.X.shape[1], np.nan), np.inf, goal, np.nan, reason

    def _runner_up(self, i: int) -> int:
        others = self.view.model.owner != self.view.predicted[i]
        best = np.where(others, self.view.scores[i], -np.inf).argmax()
        return int(self.view.model.owner[best])

    def _allows(self, row: np.ndarray) -> bool:
        return bool((row >= self.low).all() and (row <= self.high).all())

    def _blocked(self, i: int) -> str:
        """Why fixed features rule out any row."""
        fixed = np.setdiff1d(np.arange(self.X.shape[1]), self.free)
        row = self.X[i, fixed]
        outside = (row < self.low[fixed]) | (row > self.high[fixed])
        if not outside.any():
            return ""
        name = self.view.input_names[int(fixed[np.argmax(outside)])]
        return f"the fixed feature {name!r} lies outside its bounds"

    def _why(self, target: int) -> str:
        what = "another class" if target < 0 else "the target"
        limited = len(self.free) < self.X.shape[1]
        limited = limited or bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())
        if limited:
            return f"no row within the bounds and with the fixed features is predicted as {what}"
        return f"no row at all is predicted as {what}"

    def _least_margin(self, i: int) -> float:
        """A bound of the rounding of the scores of this row."""
        W = self.view.model.weights
        assert W is not None
        z = self.view.Z[[i]]
        z = z.toarray()[0] if hasattr(z, "toarray") else np.asarray(z)[0]
        size = float((np.abs(W) @ np.abs(z)).max(initial=0.0))
        eps = float(np.finfo(np.float64).eps)
        return max(4.0 * (self.rounding + eps * size), float(np.finfo(np.float64).tiny))

    def _nearest(self, i: int, target: int, margin: float) -> tuple[int, np.ndarray | None]:
        """Class and step of the nearest win of a prototype of the target (any other for -1)."""
        owner, f = self.view.model.owner, self.view.scores[i]
        wanted = owner == target if target >= 0 else owner != self.view.predicted[i]
        low = (self.low - self.X[i])[self.free] / self.to_input[self.free]
        high = (self.high - self.X[i])[self.free] / self.to_input[self.free]
        candidates = []
        for s in np.flatnonzero(wanted):
            rivals = np.flatnonzero(owner != owner[s])
            need = f[rivals] - f[s] + margin
            with np.errstate(divide="ignore", invalid="ignore"):
                least = np.where(need > 0.0, need / self.distance[s, rivals], 0.0)
            candidates.append((float(least.max()), int(s), rivals, need))
        candidates.sort(key=lambda candidate: candidate[:2])
        best, goal, found = np.inf, int(owner[candidates[0][1]]), None
        for bound, number, rivals, need in candidates:
            if bound >= best:
                break
            step = nearest_step(self.W[number] - self.W[rivals], need, self.norm, low, high)
            if step is not None and step_length(step, self.norm) < best:
                best, goal, found = step_length(step, self.norm), int(owner[number]), step
        return goal, found

    def _moved(self, i: int, step: np.ndarray) -> tuple[np.ndarray, float]:
        row = self.X[i].copy()
        row[self.free] += step * self.to_input[self.free]
        row[self.free] = np.clip(row, self.low, self.high)[self.free]
        return row, step_length(step, self.norm)


# -- fixed and bounds --------------------------------------------------------------------------


def _feature(one: Any, names: list[str], argument: str) -> int:
    """The number of a feature given by name or number."""
    if isinstance(one, str) and one in names:
        return names.index(one)
    is_number = isinstance(one, (int, np.integer)) and not isinstance(one, bool)
    if is_number and 0 <= one < len(names):
        return int(one)
    some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise ValueError(
        f"{argument}: {one!r} is no feature; give numbers from 0 to {len(names) - 1} or names "
        f"({some})."
    )


def _bounds(bounds: Any, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of every feature."""
    d = len(names)
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    if bounds is None:
        return low, high
    pairs = bounds.items() if isinstance(bounds, Mapping) else [(None, bounds)]
    for key, pair in pairs:
        try:
            least, most = pair
        except (TypeError, ValueError):
            raise ValueError(
                f"bounds must be a pair (low, high) or map features to pairs, got {shown(pair)}."
            ) from None
        at: Any = slice(None) if key is None else _feature(key, names, "bounds")
        try:
            low[at] = -np.inf if least is None else least
            high[at] = np.inf if most is None else most
        except (TypeError, ValueError):
            raise ValueError(
                f"bounds: low and high must be numbers, None, or arrays of {d} numbers."
            ) from None
    if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
        raise ValueError("bounds: every low must be a number and not exceed its high.")
    return low, high
