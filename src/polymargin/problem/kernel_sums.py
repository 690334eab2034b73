"""Sums of kernels, kappa = sum_m beta_m kappa_m with beta_m >= 0, as users write them.

A mapping gives a weight, or parameters and a weight, for each name; a list of (name, parameters,
weight) may name a kernel more than once.  Weights are taken as they are: a common factor of all of
them is a factor of C (T19).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from polymargin.exceptions import shown
from polymargin.problem.kernels import KERNELS, Kernel, resolve_gamma
from polymargin.problem.validation import check_number

__all__ = ["SumEntry", "is_sum", "read_entries", "sum_as_written", "sum_kernel", "weights_of"]

_PARAMETERS = {
    "linear": (),
    "rbf": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "sigmoid": ("gamma", "coef0"),
}


class SumEntry(NamedTuple):
    """One term: a name of the kernel table, its own parameters, and its weight beta."""

    name: str
    parameters: Mapping[str, Any]
    weight: float


def is_sum(kernel: Any) -> bool:
    """Whether a parameter ``kernel`` is written as a sum."""
    return isinstance(kernel, Mapping | list | tuple)


def read_entries(kernel: Any) -> list[SumEntry]:
    """The checked terms of a sum; refusals name the argument."""
    written = kernel.items() if isinstance(kernel, Mapping) else kernel
    entries = [_entry(one, isinstance(kernel, Mapping)) for one in written]
    if not any(entry.weight for entry in entries):
        raise ValueError(
            f"kernel: a sum of kernels needs a weight > 0, got {shown(kernel)}; write "
            "{'linear': 0.3, 'rbf': 0.7}."
        )
    return entries


def _entry(one: Any, is_pair: bool) -> SumEntry:
    parts = (one[0], *_split(one[1])) if is_pair else one
    if not isinstance(parts, tuple | list) or len(parts) != 3:
        raise ValueError(
            f"kernel: a list names a sum by (name, parameters, weight), got {shown(one)}; write "
            "('rbf', {'gamma': 0.1}, 0.7)."
        )
    name, parameters, weight = parts
    if not isinstance(name, str) or name not in KERNELS:
        raise ValueError(f"kernel: a sum is made of {list(KERNELS)}, got {shown(name)}.")
    check_number(f"kernel: the weight of {name!r}", weight, at_least=0.0)
    return SumEntry(name, _checked(name, parameters), float(weight))


def _split(value: Any) -> tuple[Any, Any]:
    """Parameters and weight of a mapping's value, which may be a weight alone."""
    is_both = isinstance(value, tuple | list) and len(value) == 2
    return (value[0], value[1]) if is_both else ({}, value)


def _checked(name: str, parameters: Any) -> dict[str, Any]:
    if parameters is None:
        return {}
    known = _PARAMETERS[name]
    if not isinstance(parameters, Mapping) or not all(key in known for key in parameters):
        raise ValueError(
            f"kernel: parameters of {name!r} in a sum are a dict of {list(known)}, "
            f"got {shown(parameters)}."
        )
    if "degree" in parameters:
        check_number(f"kernel: degree of {name!r}", parameters["degree"], above=0.0)
    if "coef0" in parameters:
        check_number(f"kernel: coef0 of {name!r}", parameters["coef0"])
    return dict(parameters)


def sum_kernel(
    entries: list[SumEntry], X: Any, weight: np.ndarray | None, shared: Kernel
) -> Kernel:
    """The kernel of a sum; what a term does not say is that of ``shared``, its gamma unresolved.

    Parameters
    ----------
    entries : list of SumEntry
    X : training rows, for gamma="scale"
    weight : (n,) or None
        How often each row counts there.
    shared : Kernel
        gamma (perhaps a word), degree, coef0 and offset of the estimator.
    """
    parts = []
    for name, own, beta in entries:
        gamma: Any = 1.0
        if name != "linear":
            gamma = resolve_gamma(own.get("gamma", shared.gamma), X, weight)
        if np.ndim(gamma) and name != "rbf":
            raise ValueError("gamma: one width per feature is known to kernel='rbf' only.")
        degree = float(own.get("degree", shared.degree))
        part = Kernel(name, gamma, degree, float(own.get("coef0", shared.coef0)))
        parts.append((beta, part))
    return Kernel("sum", 1.0, shared.degree, shared.coef0, shared.offset, None, tuple(parts))


def weights_of(kernel: Kernel) -> np.ndarray:
    """The weights beta of a sum."""
    return np.array([beta for beta, _ in kernel.parts])


def sum_as_written(kernel: Kernel) -> Any:
    """A sum as a parameter, its words replaced by numbers."""
    terms = [
        (part.name, {key: getattr(part, key) for key in _PARAMETERS[part.name]}, beta)
        for beta, part in kernel.parts
    ]
    names = [name for name, _, _ in terms]
    if len(set(names)) < len(names):
        return terms
    return {name: (own, beta) for name, own, beta in terms}
