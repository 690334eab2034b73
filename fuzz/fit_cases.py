"""Any estimator with any parameters on any small table, drawn from a string of bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fuzz.choices import Choices
from polymargin import (
    AutoSVC,
    ConvexHullSVC,
    MulticlassSVC,
    MultiPrototypeSVC,
    MultiPrototypeSVCCV,
    PatternSMO,
    WorkingSets,
)
from polymargin.problem.machines import MACHINES
from polymargin.solvers.smo.pattern_smo import PATTERNS, SELECTIONS, THRESHOLDS

__all__ = ["Case", "case_of"]

MAX_TIME = 0.5
_MAGNITUDES = (1.0, 0.1, 10.0, 1e-5, 1e5, 1e-30, 1e30, 1e-120, 1e120, 1e-300, 1e300)
_SCALES = (1.0,) * 10 + (1e-8, 1e8, 1e-30, 1e30, 1e-100, 1e100, 1e-160, 1e154, 1e-300, 1e300)


@dataclass
class Case:
    """One fit: what is trained, on what, and how."""

    model: Any
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    batches: int = 0
    """Parts for ``partial_fit``; 0 is ``fit``."""
    is_clocked: bool = False
    """Whether a clock may end it, so that two fits may differ."""

    def train(self) -> Any:
        """The model, fitted."""
        if not self.batches:
            if isinstance(self.model, MultiPrototypeSVCCV) or self.weight is None:
                return self.model.fit(self.X, self.y)
            return self.model.fit(self.X, self.y, sample_weight=self.weight)
        classes = np.unique(self.y)
        for part in np.array_split(np.arange(len(self.y)), self.batches):
            weight = None if self.weight is None else self.weight[part]
            self.model.partial_fit(self.X[part], self.y[part], classes, sample_weight=weight)
        return self.model

    def __str__(self) -> str:
        kind = f"{type(self.X).__name__} {self.X.shape} {self.X.dtype}"
        weight = "no weights" if self.weight is None else f"weights {self.weight[:6]}"
        return f"{self.model!r} on {kind}, {weight}, {self.batches} batches"


def squared_distance_kernel(A: Any, B: Any) -> Any:
    """A callable kernel: 1 / (1 + ||a - b||^2), of dense or sparse rows."""
    A, B = (Z.toarray() if sparse.issparse(Z) else np.asarray(Z) for Z in (A, B))
    with np.errstate(over="ignore", under="ignore"):
        return 1.0 / (1.0 + ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def case_of(data: bytes) -> Case:
    """The case that these bytes describe."""
    c = Choices(data)
    X, y, weight, rng = _table(c)
    kind = c.number(100)
    for below, make in _KINDS:
        if kind < below:
            return make(c, X, y, weight, rng)
    raise AssertionError(kind)


# -- tables ----------------------------------------------------------------------------------


def _table(c: Choices) -> tuple[Any, np.ndarray, np.ndarray | None, np.random.Generator]:
    n = 2 + c.number(c.one_of((8, 24, 24, 60)))
    d = 1 + c.number(c.one_of((1, 5, 5, 40)))
    classes = 2 + c.number(min(n, 5) - 1)
    rng = np.random.default_rng(c.number(2**16))
    y = np.append(np.arange(classes), rng.integers(classes, size=n - classes))
    X = rng.normal(size=(n, d)) + c.one_of((0.0, 2.0, 8.0)) * rng.normal(size=(classes, d))[y]
    with np.errstate(over="ignore", under="ignore"):
        X = _SHAPES[c.number(len(_SHAPES))](X, rng)
        X = np.clip(X * c.one_of(_SCALES), -1.7e308, 1.7e308)
    weight = _WEIGHTS[c.number(len(_WEIGHTS))](rng, n)
    return _CONTAINERS[c.number(len(_CONTAINERS))](X), _labels(c, y), weight, rng


def _twins(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    half = len(X) // 2
    X[half:] = X[: len(X) - half]
    return X


def _first_column(X: np.ndarray, value: float) -> np.ndarray:
    X[:, 0] = value
    return X


_SHAPES: tuple[Callable[[np.ndarray, np.random.Generator], np.ndarray], ...] = (
    lambda X, rng: X,
    lambda X, rng: X,
    lambda X, rng: np.round(X),
    lambda X, rng: np.tile(X[:1], (len(X), 1)),
    _twins,
    lambda X, rng: X * 10.0 ** rng.integers(-12, 13, size=X.shape[1]),
    lambda X, rng: X * 10.0 ** rng.integers(-150, 151, size=X.shape[1]),
    lambda X, rng: X * 10.0 ** rng.integers(-12, 13, size=(len(X), 1)),
    lambda X, rng: X * (rng.random(X.shape) < 0.3),
    lambda X, rng: X * (rng.random((len(X), 1)) < 0.7),
    lambda X, rng: X + 1e7,
    lambda X, rng: _first_column(X, 3.0),
    lambda X, rng: _first_column(X, 0.0),
)
_WEIGHTS: tuple[Callable[[np.random.Generator, int], np.ndarray | None], ...] = (
    lambda rng, n: None,
    lambda rng, n: None,
    lambda rng, n: None,
    lambda rng, n: rng.choice([0.0, 1.0, 2.5], size=n),
    lambda rng, n: np.full(n, 1e6),
    lambda rng, n: 10.0 ** rng.integers(-9, 10, size=n),
    lambda rng, n: 10.0 ** rng.integers(-200, 201, size=n),
)


def _single(X: np.ndarray) -> np.ndarray:
    return X.astype(np.float32) if np.abs(X).max() < 1e38 else X


def _read_only(X: np.ndarray) -> np.ndarray:
    X.flags.writeable = False
    return X


_CONTAINERS: tuple[Callable[[np.ndarray], Any], ...] = (
    lambda X: X,
    lambda X: X,
    _single,
    np.asfortranarray,
    _read_only,
    lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    sparse.csr_matrix,
    sparse.csr_array,
    lambda X: sparse.csr_matrix(_single(X)),
    sparse.csc_matrix,
)


def _labels(c: Choices, y: np.ndarray) -> np.ndarray:
    kind = c.number(6)
    if kind == 1:
        return np.array(["b", "a", "", "ä\n", "Z"])[y]
    if kind == 2:
        return y * 2**54 - 2**60
    if kind == 3 and y.max() == 1:
        return y == 1
    return y.astype(np.float64) if kind == 4 else y


# -- estimators ------------------------------------------------------------------------------


def _kernel(c: Choices) -> dict[str, Any]:
    name = c.one_of(("linear",) * 5 + ("rbf", "rbf", "poly", "sigmoid", "own", "sum"))
    kernel: Any = name
    if name == "own":
        kernel = squared_distance_kernel
    elif name == "sum":
        kernel = {"linear": c.one_of((0.3, 0.0, 1e-9)), "rbf": 0.7}
    return {
        "kernel": kernel,
        "gamma": c.one_of(("scale", "auto", 0.5, 1e-9, 1e9, 1e-300, 1e300)),
        "degree": c.one_of((3, 1, 2, 2.5, 60)),
        "coef0": c.one_of((0.0, 1.0, -1.0, 1e9)),
    }


def _common(c: Choices) -> dict[str, Any]:
    found: dict[str, Any] = {
        "max_time": MAX_TIME if c.number(2) else None,
        "max_iter": c.one_of((500, 500, 1, 50)),
        "tol": c.one_of((1e-3, 1e-1, 1e-6)),
    }
    if c.number(8) == 0:
        found["probabilities"] = c.one_of((None, "temperature"))
        found["calibration_folds"] = c.one_of((2, 3))
    return found


def _costs(c: Choices, y: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    if c.number(12):
        return {}
    costs = 10.0 ** rng.uniform(*c.one_of(((-1, 1), (-9, 9))), size=(len(np.unique(y)),) * 2)
    np.fill_diagonal(costs, 0.0)
    return {"cost_matrix": costs}


def _smo(c: Choices) -> PatternSMO:
    return PatternSMO(
        pattern=c.one_of(PATTERNS),
        selection=c.one_of(SELECTIONS),
        threshold=c.one_of(THRESHOLDS),
        cache_rows=c.one_of((None, 2, 5)),
    )


def _precomputed(c: Choices, kernel: dict[str, Any], X: Any) -> Any:
    """X, or its matrix of products where the case says so and doubles hold it."""
    if c.number(8) or kernel["kernel"] != "linear":
        return X
    X = X.toarray() if sparse.issparse(X) else X
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        K = np.asarray(X, dtype=np.float64) @ np.asarray(X, dtype=np.float64).T
    if not np.isfinite(K).all():
        return X
    kernel["kernel"] = "precomputed"
    return 0.5 * (K + K.T)


def _machine(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    kernel = _kernel(c)
    X = _precomputed(c, kernel, X)
    solver: Any = c.one_of(("auto",) * 5 + ("block", "frank-wolfe", "cycles", "smo", "sets"))
    solver = {"smo": _smo(c), "sets": WorkingSets(size=2 + c.number(9))}.get(solver, solver)
    model = MulticlassSVC(
        c.one_of(sorted(MACHINES)),
        C=c.one_of((*_MAGNITUDES, np.inf)),
        intercept=c.one_of(("auto", "none", "penalized", "free")),
        intercept_scaling=c.one_of((1.0,) * 6 + (1e-9, 1e9)),
        class_weight=c.one_of((None, None, "balanced")),
        solver=solver,
        cache_mb=c.one_of((1000, 1000, 1e-3)),
        random_state=0,
        **kernel,
        **_common(c),
        **_costs(c, y, rng),
    )
    return _finished(model, X, y, weight)


def _landmarks(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    kernel = _kernel(c)
    model = MulticlassSVC(
        c.one_of(sorted(MACHINES)),
        C=c.one_of(_MAGNITUDES),
        intercept=c.one_of(("auto", "none", "penalized", "free")),
        landmarks=c.one_of((1, 3, 10, 0.5, "auto")),
        random_state=0,
        **kernel,
        **_common(c),
    )
    return _finished(model, X, y, weight)


def _prototypes(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    kernel = _kernel(c)
    X = _precomputed(c, kernel, X)
    more: dict[str, Any] = {}
    if kernel["kernel"] == "linear":
        more["metric"] = c.one_of(("euclidean",) * 4 + ("learned", "auto"))
        more["finish"] = c.one_of((None,) * 8 + ("auto", 0.1, ("classes", 0.5)))
    model = MultiPrototypeSVC(
        c.one_of((2, 1, 3, "auto") if c.number(6) == 0 else (2, 1, 3)),
        C=c.one_of(_MAGNITUDES),
        intercept=c.one_of(("auto", "none", "penalized")),
        assignment=c.one_of(("annealed", "greedy", "static")),
        annealing=c.one_of(("default", "default", "thorough", "paper")),
        init=c.one_of(("auto", "kmeans", "random")),
        n_restarts=c.one_of((1, 1, 2)),
        solver=_smo(c) if c.number(8) == 0 else "auto",
        class_weight=c.one_of((None, None, "balanced")),
        random_state=0,
        **kernel,
        **more,
        **_common(c),
        **_costs(c, y, rng),
    )
    return _finished(model, X, y, weight)


def _batches(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    model = MultiPrototypeSVC(
        c.one_of((2, 1, 3)),
        C=c.one_of(_MAGNITUDES),
        metric=c.one_of(("euclidean", "learned")),
        max_time=MAX_TIME,
        random_state=0,
    )
    X = X.tocsr() if sparse.issparse(X) else X
    return Case(model, X, y, weight, batches=1 + c.number(4), is_clocked=True)


def _hulls(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    kernel = _kernel(c)
    X = _precomputed(c, kernel, X)
    model = ConvexHullSVC(
        eta=c.one_of((0.3, 0.7, 1.0, "auto")),
        eta_scale="relative",
        offset=c.one_of(("center", "kkt")),
        solver=c.one_of(("auto", "smo", "frank_wolfe")),
        **kernel,
        **{**_common(c), "max_iter": c.one_of((2000, 50))},
    )
    return _finished(model, X, y, weight)


def _into(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    model = MultiPrototypeSVC(
        fit_into=c.one_of((40, 200, 1000, "4kB")), max_time=MAX_TIME, random_state=0
    )
    return Case(model, X, y, weight, is_clocked=True)


def _search(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    model = MultiPrototypeSVCCV(
        n_prototypes=(1, 2), Cs=c.one_of(((0.1, 1.0), (1e-30, 1e30))), cv=2, random_state=0
    )
    return Case(model, X, y, None)


def _auto(c: Choices, X: Any, y: np.ndarray, weight: Any, rng: Any) -> Case:
    model = AutoSVC(
        objective=c.one_of(("accuracy", "balanced_accuracy", "log_loss")),
        prefer=c.one_of(("accurate", "small", "fast")),
        scale=c.one_of(("auto", "none")),
        cv=c.one_of((2, 3)),
        n_candidates=c.one_of((1, 2, 4)),
        probabilities=c.one_of((None, "temperature")),
        max_time=2 * MAX_TIME,
        random_state=0,
    )
    return Case(model, X, y, weight, is_clocked=True)


def _finished(model: Any, X: Any, y: np.ndarray, weight: Any) -> Case:
    return Case(model, X, y, weight, is_clocked=model.max_time is not None)


_KINDS: tuple[tuple[int, Callable[..., Case]], ...] = (
    (48, _machine),
    (55, _landmarks),
    (77, _prototypes),
    (82, _batches),
    (94, _hulls),
    (96, _into),
    (98, _search),
    (100, _auto),
)
