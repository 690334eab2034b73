"""Scalers in front of a model as one shift and one scale per feature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

__all__ = [
    "Normalization",
    "Scaling",
    "compose_scalers",
    "is_scaler",
    "split_at_normalizer",
]


@dataclass(frozen=True, eq=False)
class Scaling:
    """z = (x - shift) * scale for every feature, then limited to [low, high] if these are given.

    Attributes
    ----------
    shift, scale : ndarray of shape (n_features,)
    low, high : ndarray of shape (n_features,) or None
        Limits of a scaler with ``clip=True``.
    """

    shift: np.ndarray
    scale: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def apply(self, X: np.ndarray) -> np.ndarray:
        Z = (X - self.shift) * self.scale
        return Z if self.low is None else np.clip(Z, self.low, self.high)

    def then(self, later: Scaling) -> Scaling:
        """The scaling followed by a later one; scales are positive."""
        both = Scaling(self.shift + later.shift / self.scale, self.scale * later.scale)
        low, high = later.low, later.high
        if self.low is not None:
            # limits pass through the second map, and through its limits
            low = later.apply(self.low)
            high = later.apply(self.high)  # type: ignore[arg-type]
        return replace(both, low=low, high=high)


@dataclass(frozen=True, eq=False)
class Normalization:
    """Rows divided by their norm, after an optional scaling; a row of zeros stays as it is.

    Attributes
    ----------
    norm : {"l2", "l1", "max"}
    scaling : Scaling or None
        Of scalers in front of the ``Normalizer``.
    """

    norm: str
    scaling: Scaling | None = None

    def apply(self, X: np.ndarray) -> np.ndarray:
        Z = X if self.scaling is None else self.scaling.apply(X)
        if self.norm == "l2":
            length = np.sqrt((Z**2).sum(axis=1, keepdims=True))
        elif self.norm == "l1":
            length = np.abs(Z).sum(axis=1, keepdims=True)
        else:
            length = np.abs(Z).max(axis=1, keepdims=True)
        return np.asarray(Z / np.where(length > 0.0, length, 1.0))


def split_at_normalizer(
    steps: list[tuple[str, Any]],
) -> tuple[Normalization | None, list[tuple[str, Any]]]:
    """The steps up to a ``Normalizer`` as one record, and the steps after it."""
    flat = _flat(steps)
    places = [k for k, (_, step) in enumerate(flat) if type(step) is Normalizer]
    if not places:
        return None, steps
    first = places[0]
    before = compose_scalers(flat[:first])
    return Normalization(str(flat[first][1].norm), before), flat[first + 1 :]


def _flat(steps: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Steps of inner Pipelines in place of these."""
    found: list[tuple[str, Any]] = []
    for name, step in steps:
        found += _flat(step.steps) if isinstance(step, Pipeline) else [(name, step)]
    return found


def _standard(step: StandardScaler, d: int) -> Scaling:
    mean = np.zeros(d) if step.mean_ is None or not step.with_mean else step.mean_
    deviation = np.ones(d) if step.scale_ is None else step.scale_
    return Scaling(np.asarray(mean, dtype=np.float64), 1.0 / np.asarray(deviation, np.float64))


def _min_max(step: MinMaxScaler, d: int) -> Scaling:
    scale = np.asarray(step.scale_, dtype=np.float64)
    shift = -np.asarray(step.min_, dtype=np.float64) / scale
    if not step.clip:
        return Scaling(shift, scale)
    low, high = (np.full(d, float(bound)) for bound in step.feature_range)
    return Scaling(shift, scale, low, high)


def _max_abs(step: MaxAbsScaler, d: int) -> Scaling:
    scale = 1.0 / np.asarray(step.scale_, dtype=np.float64)
    if not getattr(step, "clip", False):
        return Scaling(np.zeros(d), scale)
    return Scaling(np.zeros(d), scale, np.full(d, -1.0), np.full(d, 1.0))


def _robust(step: RobustScaler, d: int) -> Scaling:
    centre = np.zeros(d) if step.center_ is None else step.center_
    spread = np.ones(d) if step.scale_ is None else step.scale_
    return Scaling(np.asarray(centre, dtype=np.float64), 1.0 / np.asarray(spread, np.float64))


_SCALERS = {
    StandardScaler: _standard,
    MinMaxScaler: _min_max,
    MaxAbsScaler: _max_abs,
    RobustScaler: _robust,
}
_EXPORT_ADVICE = (
    "For ONNX use polymargin.export.register_skl2onnx() and skl2onnx.to_onnx on the whole "
    "Pipeline, or apply the step before the exported model."
)


def is_scaler(step: Any) -> bool:
    """Whether a step is one shift and one scale per feature."""
    return type(step) in _SCALERS


def compose_scalers(
    steps: list[tuple[str, Any]], into: str = "the export", advice: str = _EXPORT_ADVICE
) -> Scaling | None:
    """All steps in front of the model as one scaling, None where there are none.

    Other steps are refused with the reason: ``into`` and ``advice`` are words of that message.
    """
    found: Scaling | None = None
    for name, step in steps:
        if step is None or (isinstance(step, str) and step == "passthrough"):
            continue
        if isinstance(step, Pipeline):
            scaling = compose_scalers(step.steps, into, advice)
            if scaling is not None:
                found = scaling if found is None else found.then(scaling)
            continue
        fold = _SCALERS.get(type(step))
        if fold is None:
            allowed = ", ".join(scaler.__name__ for scaler in _SCALERS)
            raise ValueError(
                f"model: step {name!r} ({type(step).__name__}) cannot be folded into {into}; "
                f"only {allowed} can. {advice}"
            )
        check_is_fitted(step)
        scaling = fold(step, int(step.n_features_in_))
        found = scaling if found is None else found.then(scaling)
    return found
