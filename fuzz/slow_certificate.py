"""Objectives of fitted models by their definitions, in long doubles, with a bound on rounding.

Nothing of the package is used but fitted attributes: long doubles neither overflow nor vanish where
doubles do, and have three digits more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Value", "slow_energy", "slow_primal"]

_LONG = np.longdouble


class Value(NamedTuple):
    """A number, and how far doubles may be from it."""

    value: float
    slack: float


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=_LONG)


def _kernel(model: Any, A: np.ndarray, B: np.ndarray, eps: float) -> tuple[Any, Any] | None:
    """Kernel values (n, m) and bounds of their rounding in doubles; None for other kernels."""
    if model.kernel in ("linear", "precomputed"):
        return A @ B.T, 4 * eps * (np.abs(A) @ np.abs(B).T)
    gamma, degree, coef0 = _LONG(model.gamma_), _LONG(model.degree), _LONG(model.coef0)
    a2, b2 = (A * A).sum(axis=1)[:, None], (B * B).sum(axis=1)
    if model.kernel == "rbf":
        distance = np.maximum(((A[:, None, :] - B) ** 2).sum(axis=2), 0)
        K = np.exp(-gamma * distance)
        off = 8 * eps * gamma * (a2 + b2)
        return K, np.minimum(1.0, 8 * eps + np.expm1(np.minimum(off, 50.0)) * K)
    size = gamma * np.sqrt(a2 * b2) + abs(coef0)
    if model.kernel == "poly" and float(model.degree).is_integer():
        inner = gamma * (A @ B.T) + coef0
        return inner ** int(model.degree), 8 * eps * degree * size**degree
    if model.kernel == "sigmoid":
        return np.tanh(gamma * (A @ B.T) + coef0), 8 * eps * (1 + size)
    return None


def _loss(machine: str, f: np.ndarray, label: int, costs: np.ndarray | None) -> Any:
    """Loss of one example by the definition of its machine: (1.1), (4.1), (5.1), (6.1), 11."""
    Q = len(f)
    rivals = [k for k in range(Q) if k != label]
    zero = _LONG(0)
    asked = np.ones(Q) if costs is None else costs[label]
    if machine in ("cs", "ww"):
        lacks = [max(zero, asked[k] + f[k] - f[label]) for k in rivals]
        return max(lacks) if machine == "cs" else sum(lacks, zero)
    if machine == "llw":
        return sum((max(zero, _LONG(1) / (Q - 1) + f[k]) for k in rivals), zero)
    lacks = [max(zero, 1 + f[k]) for k in rivals]
    own = max(zero, 1 - f[label])
    if machine == "adm":
        return max(lacks)
    if machine == "mmr":
        return own
    if machine == "atm":
        return max(own, *lacks)
    if machine == "ats":
        return own + sum(lacks, zero)
    if machine == "reinforced":
        return (max(zero, Q - 1 - f[label]) + sum(lacks, zero)) / 2
    return None


def slow_primal(model: Any, X: Any, y: np.ndarray, cap: np.ndarray) -> Value | None:
    """P of a MulticlassSVC from dual coefficients and intercept; None where it is not known.

    ``cap`` (n,) are the weights C_i; examples of weight 0 count for nothing.
    """
    if not isinstance(model.kernel, str) or not isinstance(model.machine, str):
        return None
    eps = float(np.finfo(np.float64).eps)
    rows = _dense(X)
    if model.kernel == "precomputed":
        K = rows[:, model.support_]
        found: Any = (K, 4 * eps * np.abs(K))
    else:
        found = _kernel(model, rows, rows[model.support_], eps)
    if found is None:
        return None
    K, off = found
    T = np.asarray(model.dual_coef_, dtype=_LONG)
    Q = len(model.classes_)
    b = np.asarray(model.intercept_, dtype=_LONG)
    b = b if len(b) == Q else np.array([-0.5, 0.5], dtype=_LONG) * b[0]
    sums = T.sum(axis=0)
    kind = model._intercept_kind(_machine(model))
    offset = _LONG(model.intercept_scaling) ** 2 if kind == "penalized" else _LONG(0)
    norm = sum(T[:, k] @ K[model.support_] @ T[:, k] + offset * sums[k] ** 2 for k in range(Q))
    F = K @ T + b
    if model.machine not in ("cs", "ww"):
        F = F - F.mean(axis=1, keepdims=True)  # scores sum to zero
    number = np.searchsorted(model.classes_, y)
    costs = None if model.cost_matrix is None else np.asarray(model.cost_matrix, dtype=_LONG)
    loss, error = _LONG(0), _LONG(0)
    size = (off + 4 * eps * np.abs(K)) @ np.abs(T) + 8 * eps * (
        np.abs(b) + offset * np.abs(T).sum(axis=0)
    )
    for f, e, label, weight in zip(F, size, number, cap, strict=True):
        if weight == 0:
            continue
        one = _loss(model.machine, f, int(label), costs)
        if one is None:
            return None
        loss += _LONG(weight) * one
        asked = 0 if costs is None else 1 + costs.max()  # kept as differences to the margin 1
        error += _LONG(weight) * 2 * Q * (e.max() + eps * (asked + np.abs(f).max()))
    error += sum(
        np.abs(T[:, k]) @ (off + 4 * eps * np.abs(K))[model.support_] @ np.abs(T[:, k])
        + 8 * eps * offset * np.abs(T[:, k]).sum() ** 2
        for k in range(Q)
    )
    return Value(norm / 2 + loss, error)


def _machine(model: Any) -> Any:
    from polymargin.problem.machines import find_machine

    return find_machine(model.machine)


def slow_energy(model: Any, X: Any, y: np.ndarray, cap: np.ndarray) -> Value | None:
    """E of a linear MultiPrototypeSVC from its prototypes; None where it is not known."""
    plain = model.metric == "euclidean" and model.finish is None and model.fit_into is None
    if model.kernel != "linear" or not plain or model.teacher is not None:
        return None
    eps = float(np.finfo(np.float64).eps)
    rows = _dense(X)
    M = np.asarray(model.prototypes_, dtype=_LONG)
    b = np.asarray(model.intercept_, dtype=_LONG)
    norm = (M * M).sum()
    if model._intercept_kind(_machine_cs()) == "penalized":
        norm += ((b / _LONG(model.intercept_scaling)) ** 2).sum()
    F = rows @ M.T + b
    size = 8 * eps * (np.abs(rows) @ np.abs(M).T + np.abs(b))
    loss, error = _LONG(0), 8 * eps * norm
    costs = None if model.cost_matrix is None else np.asarray(model.cost_matrix, dtype=_LONG)
    owner = np.searchsorted(model.classes_, model.prototype_classes_)
    number = np.searchsorted(model.classes_, y)
    for f, e, label, weight in zip(F, size, number, cap, strict=True):
        if weight == 0:
            continue
        mine = owner == label
        asked = 1 if costs is None else costs[label][owner[~mine]]
        loss += _LONG(weight) * max(_LONG(0), (asked + f[~mine]).max() - f[mine].max())
        size_of_costs = 0 if costs is None else 1 + costs.max()
        error += _LONG(weight) * 4 * (e.max() + eps * (size_of_costs + np.abs(f).max()))
    return Value(norm / 2 + loss, error)


def _machine_cs() -> Any:
    from polymargin.problem.machines import MACHINES

    return MACHINES["cs"]
