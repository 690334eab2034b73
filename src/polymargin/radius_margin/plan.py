"""What a search over the radius-margin criterion is asked to do: parameters, first values, box."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polymargin.exceptions import shown
from polymargin.problem.kernel_sums import weights_of
from polymargin.problem.validation import check_number
from polymargin.radius_margin.bound import check_C, read_gamma
from polymargin.radius_margin.criterion import Sample, Setting, definiteness
from polymargin.radius_margin.kernel_points import KernelPoints

__all__ = ["Plan", "default_box", "kernel_scale", "make_plan"]

_SCALE_SAMPLE = 300
TUNABLE = {"linear": ("C",), "precomputed": ("C",), "rbf": ("C", "gamma")}
TUNABLE["poly"] = ("C", "gamma", "coef0")
TUNABLE["sum"] = ("C", "weights")
_LEAST_WEIGHT = 1e-5
"""Of a term of a sum during the search, whose coordinates are logarithms."""
_LEAST_FIRST_WEIGHT = 1e-2
"""Where the search begins: from a smaller weight the logarithm has a long way to go."""


@dataclass(frozen=True)
class Plan:
    """What is tuned, where, and how exactly.

    Attributes
    ----------
    parameters : tuple of str
        Of "C", "gamma", "coef0", and "weights" of a sum of kernels.
    first : Setting
        Fixed values, and a start for those that are tuned; an array of widths is tuned width by
        width.
    box : dict
        Name to (low, high).
    n_starts : int
        Descents on a part of the examples.
    max_evaluations : int
        Of the criterion on all examples.
    tol : float
        Largest slope of log (28) at which a descent ends.
    solver_tol : float
        Relative gap of the machines on all examples.
    kernel_psd : bool or None
    """

    parameters: tuple[str, ...]
    first: Setting
    box: dict[str, tuple[float, float]]
    n_starts: int = 3
    max_evaluations: int = 50
    tol: float = 1e-3
    solver_tol: float = 3e-6
    kernel_psd: bool | None = True

    def coordinates(self, setting: Setting) -> np.ndarray:
        """(log C, log gamma, coef0), those that are tuned, one after the other."""
        parts = []
        for name in self.parameters:
            value = np.atleast_1d(getattr(setting, name)).astype(np.float64)
            parts.append(value if name == "coef0" else np.log(value))
        return np.concatenate(parts)

    def setting(self, theta: np.ndarray) -> Setting:
        found, at = self.first, 0
        for name in self.parameters:
            size = np.size(getattr(self.first, name))
            value: Any = theta[at : at + size]
            value = value.copy() if name == "coef0" else np.exp(value)
            if name == "weights":
                value = value / value.sum()
            if not np.ndim(getattr(self.first, name)):
                value = float(value[0])
            found = replace(found, **{name: value})
            at += size
        return found

    def bounds(self) -> np.ndarray:
        """(p, 2) the box in the coordinates of the search."""
        rows = []
        for name in self.parameters:
            low, high = self.box[name]
            ends = (low, high) if name == "coef0" else (np.log(low), np.log(high))
            rows += [ends] * np.size(getattr(self.first, name))
        return np.array(rows)


def kernel_scale(sample: Sample, setting: Setting) -> float:
    """Mean squared distance of the examples from their mean in feature space."""
    points = KernelPoints(sample.kernel_at(setting), sample.X)
    n = points.n_points
    some = (
        np.arange(n)
        if n <= _SCALE_SAMPLE
        else np.linspace(0, n - 1, _SCALE_SAMPLE).astype(np.int64)
    )
    K = points.block(some, some)
    K[np.arange(len(some)), np.arange(len(some))] = points.diagonal()[some]
    return float(np.diag(K).mean() - K.mean())


def data_scale(sample: Sample) -> float:
    """Mean squared norm of the examples, from their mean where the kernel does not see it."""
    norms = KernelPoints(sample.kernel_at(Setting(C=1.0)), sample.X).norms
    return 1.0 if norms is None else float(norms.mean())


def default_box(sample: Sample, first: Setting) -> dict[str, tuple[float, float]]:
    """Wide intervals, in units of the data."""
    box = {"coef0": (0.0, 10.0), "weights": (_LEAST_WEIGHT, 1.0)}
    scale = 1.0
    if sample.kernel in ("rbf", "poly"):
        unit = data_scale(sample) or 1.0
        lowest = 1e-8 if np.ndim(first.gamma) else 1e-4
        box["gamma"] = (lowest / unit, 1e3 / unit)
    if sample.kernel != "rbf":
        scale = kernel_scale(sample, first) or 1.0
    box["C"] = (1e-3 / scale, 1e4 / scale)
    return box


def make_plan(
    sample: Sample,
    parameters: tuple[str, ...],
    C: float | None,
    gamma: Any,
    coef0: float,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    weight: np.ndarray | None = None,
    per_feature: bool = False,
    **options: Any,
) -> Plan:
    """The checked plan of a search; refusals name the argument.

    ``weight`` counts the examples for gamma="scale"; ``options`` are the further fields of Plan.
    """
    _check_parameters(sample, parameters)
    check_number("coef0", coef0)
    width = read_gamma(sample, gamma, weight)
    if per_feature:
        if sample.kernel != "rbf":
            raise ValueError("per_feature: one width per feature is known to kernel='rbf' only.")
        width = np.broadcast_to(width, (sample.X.shape[1],)).astype(np.float64)
    weights = _first_weights(sample) if "weights" in parameters else None
    first = Setting(1.0, width, float(coef0), weights)
    if C is None:
        spread = kernel_scale(sample, first)
        C = 0.5 / spread if 0.0 < spread < np.inf else 1.0
    check_C(C)
    if "C" in parameters and np.isinf(C):
        raise ValueError("C must be finite where it is tuned; leave it out of parameters.")
    first = replace(first, C=float(C))
    box = default_box(sample, first)
    for name, ends in (bounds or {}).items():
        box[name] = _checked_ends(name, ends, parameters)
    box = {name: box[name] for name in parameters}
    for name in parameters:
        value = getattr(first, name)
        low, high = box[name]
        if np.min(value) >= low and np.max(value) <= high:
            continue
        is_given = name != "gamma" or not isinstance(gamma, str)
        if name in (bounds or {}) and is_given:
            raise ValueError(
                f"{name}={value} lies outside its box {box[name]}; begin inside or widen bounds."
            )
        if name in (bounds or {}):
            first = replace(first, **{name: _clipped(value, low, high)})
        else:
            box[name] = (min(low, float(np.min(value))), max(high, float(np.max(value))))
    return Plan(parameters, first, box, kernel_psd=definiteness(sample, first), **options)


def _first_weights(sample: Sample) -> np.ndarray:
    """Those of the sum, none of them zero, divided by their sum."""
    assert sample.terms is not None
    weights = weights_of(sample.terms)
    weights = np.maximum(weights / weights.sum(), _LEAST_FIRST_WEIGHT)
    return np.asarray(weights / weights.sum())


def _clipped(value: Any, low: float, high: float) -> Any:
    clipped = np.clip(value, low, high)
    return clipped if np.ndim(value) else float(clipped)


def _check_parameters(sample: Sample, parameters: tuple[str, ...]) -> None:
    known = TUNABLE[sample.kernel]
    if not parameters or len(set(parameters)) < len(parameters):
        raise ValueError(f"parameters must name one or more of {known}, each once.")
    for name in parameters:
        if name not in ("C", "gamma", "coef0", "weights"):
            raise ValueError(f"parameters must be of 'C', 'gamma', 'coef0', got {shown(name)}.")
        if name not in known:
            raise ValueError(
                f"parameters: kernel={sample.kernel!r} has no derivative with respect to "
                f"{name!r}; it can be tuned over {known}."
            )


def _checked_ends(name: str, ends: Any, parameters: tuple[str, ...]) -> tuple[float, float]:
    if name not in parameters:
        raise ValueError(f"bounds names {name!r}, which is not among the parameters {parameters}.")
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds[{name!r}] must be a pair (low, high), got {shown(ends)}."
        ) from None
    lowest = -np.inf if name == "coef0" else 0.0
    if not (np.isfinite(low) and np.isfinite(high) and lowest < low < high):
        raise ValueError(
            f"bounds[{name!r}] must be finite with {'' if name == 'coef0' else '0 < '}low < high, "
            f"got {shown(ends)}."
        )
    return low, high
