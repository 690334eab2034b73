"""One fit behind its scaler, and the model that is saved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import progress, say_once
from polymargin.cli.preprocessing import blocks, fit_scaler, new_scaler, scale_in_place
from polymargin.estimators.model_size import vectors_needed

__all__ = ["Fitted", "fit", "model_bytes", "predict_scaled", "scaled_fit", "slim"]


SHORTEST_FIT = 0.05  # seconds of a fit after the time limit: max_time must be above 0
_SUPPORT_BYTES = 16_000_000  # larger linear models are saved without support vectors


@dataclass
class Fitted:
    """A trained estimator behind its scaler."""

    estimator: Any
    scaler: Any
    seconds: float
    interrupted: bool = False
    error: float = float("nan")  # on validation rows, where there were some
    plan: Any = None  # of the columns of a table
    X: Any = None  # all rows, as scaled for the fit

    @property
    def model(self) -> Any:
        """The model that is saved: the estimator behind its scaler."""
        if self.scaler is None:
            return self.estimator
        if self.plan is not None:
            from sklearn.pipeline import Pipeline

            columns = self.plan.table_columns()
            return Pipeline(
                [("columns", columns), ("encode", self.scaler), ("model", self.estimator)]
            )
        self.scaler.copy = True  # a loaded model must not overwrite the data it scales
        from sklearn.pipeline import Pipeline

        return Pipeline([("scale", self.scaler), ("model", self.estimator)])


def fit(estimator: Any, X: Any, y: np.ndarray, line: Any) -> bool:
    """Train; whether it was interrupted (the model so far is then in the estimator)."""
    from polymargin.estimators.callbacks import watched

    try:
        with watched(line.watch):
            estimator.fit(X, y)
    except KeyboardInterrupt:
        if not hasattr(estimator, "classes_"):
            raise
        return True
    return False


def scaled_fit(
    setup: MachineSetup,
    settings: dict[str, Any],
    X: Any,
    y: np.ndarray,
    rows: np.ndarray | None = None,
    seconds_left: Callable[[], float | None] = lambda: None,
) -> Fitted:
    """Scale X in place and train on all of it, or on some rows.

    ``seconds_left`` is called once, after scaling; None keeps the limit of the setup.
    """
    started = time.perf_counter()
    scaler = new_scaler(setup, X)
    with progress("training") as line:
        if scaler is not None:
            fit_scaler(scaler, X)
            X = scale_in_place(scaler, X)
        scaled = X
        if rows is not None:
            X, y = X[rows], y[rows]
        left = seconds_left()
        if left is not None:
            settings = settings | {"max_time": max(left, SHORTEST_FIT)}
        estimator = setup.estimator(**settings)
        line.begin_fit(estimator)
        say_once(f"training: {setup.words()}")
        interrupted = fit(estimator, X, y, line)
    seconds = time.perf_counter() - started
    return Fitted(estimator, scaler, seconds, interrupted, plan=setup.plan, X=scaled)


def slim(estimator: Any) -> None:
    """Drop the attributes of a large linear model that predictions do not need."""
    vectors = getattr(estimator, "support_vectors_", None)
    if vectors is None or estimator.kernel != "linear":
        return
    size = vectors.data.nbytes if hasattr(vectors, "nnz") else vectors.nbytes
    if size + estimator.dual_coef_.nbytes < _SUPPORT_BYTES:
        return
    say_once(
        f"the {vectors.shape[0]} support vectors are left out of the model: a linear one predicts "
        "without them"
    )
    for name in ("support_", "support_vectors_", "dual_coef_", "assignment_", "weights_"):
        estimator.__dict__.pop(name, None)
    estimator.__dict__.pop("_training", None)


def predict_scaled(estimator: Any, X: Any) -> np.ndarray:
    """Labels of scaled rows, block by block."""
    return np.concatenate([estimator.predict(X[rows]) for rows in blocks(X.shape[0])])


def model_bytes(estimator: Any) -> int:
    """Bytes that prediction needs, in the precision in which they are stored."""
    if hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    if hasattr(estimator, "model_bytes_"):
        return int(estimator.model_bytes_)
    R, number = vectors_needed(estimator), estimator.intercept_.itemsize
    used = getattr(estimator, "coef_", getattr(estimator, "prototypes_", None))
    if used is not None:
        return int(R * (used.shape[-1] * used.itemsize + number))
    vectors = estimator.support_vectors_
    stored = vectors.data.nbytes + vectors.indices.nbytes if hasattr(vectors, "nnz") else 0
    stored = stored or vectors.nbytes
    return int(stored + R * (len(estimator.dual_coef_) * estimator.dual_coef_.itemsize + number))
