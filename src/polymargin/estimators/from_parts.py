"""Linear machines trained on parts of the data: from parameters to a problem, from W to a model.

Used where the rows are never together: data larger than memory and clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polymargin.estimators.endings import unfinished
from polymargin.estimators.landmark_training import check_landmarks
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown, warn_user
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import find_machine
from polymargin.solvers.shards.leader import Round, RoundsResult
from polymargin.solvers.shards.part import LinearSpec

__all__ = [
    "check_parts",
    "class_factors",
    "linear_spec",
    "rounds_history",
    "store_parts",
    "warn_if_unfinished",
]


def linear_spec(
    estimator: MulticlassSVC, classes: Any, mass: Mapping[Any, float], n_features: int
) -> LinearSpec:
    """The problem that all parts share; what cannot be trained in parts is refused by name.

    Parameters
    ----------
    estimator : MulticlassSVC
    classes : (Q,) sorted labels.
    mass : mapping from label to the sum of its sample weights over all parts.
    n_features : int
    """
    machine = find_machine(estimator.machine)
    estimator._check_common()
    check_landmarks(estimator.landmarks, estimator.kernel, is_tuned=False)
    check_parts(estimator)
    kind = estimator._intercept_kind(machine)
    if kind == "free":
        raise ValueError(
            f"intercept={estimator.intercept!r} means a free intercept for machine="
            f"{machine.name!r}, which couples all parts of the data; use intercept='penalized'."
        )
    if machine.loss_matrix is not None:
        raise ValueError(
            f"machine={machine.name!r} has a loss_matrix of its own, which is known to the solver "
            "in memory only; give X as an array, or use machine='msvm2'."
        )
    classes = np.asarray(classes)
    if len(classes) < 2:
        raise ValueError(
            f"The number of classes has to be greater than one; got {len(classes)} class."
        )
    offset = float(estimator.intercept_scaling) ** 2 if kind == "penalized" else 0.0
    factor = class_factors(estimator.class_weight, classes, mass)
    return LinearSpec(machine, offset, float(estimator.C), classes, factor, n_features)


def check_parts(estimator: Any) -> None:
    """Refuse parameters that need all rows at once."""
    if estimator.kernel != "linear":
        raise ValueError(
            f"kernel={estimator.kernel!r} cannot be trained in parts, which keep explicit "
            "prototypes; use kernel='linear'."
        )
    if isinstance(estimator.C, str) or np.isinf(estimator.C):
        raise ValueError(f"C={estimator.C!r} cannot be trained in parts; use a finite number.")
    for name in ("probabilities", "calibration_folds"):
        if getattr(estimator, name) is not None:
            raise ValueError(
                f"{name} needs models of folds of all rows, which parts of the data do not have; "
                "leave it out and use polymargin.calibrate on held-out rows."
            )
    if estimator.cost_matrix is not None:
        raise ValueError(
            "cost_matrix cannot be trained in parts, whose rounds know the margin 1 only; train on "
            "an array in memory, or leave it out."
        )
    if estimator.solver not in ("auto", "block"):
        raise ValueError(f"solver={shown(estimator.solver)} does not work in parts; use 'auto'.")


def class_factors(class_weight: Any, classes: np.ndarray, mass: Mapping[Any, float]) -> np.ndarray:
    """Weight of the examples of each class."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight must be a dict, 'balanced' or None, got {shown(class_weight)}."
            )
        weights = np.array([mass.get(label, 0.0) for label in classes.tolist()])
        return weights.sum() / (len(classes) * np.maximum(weights, 1e-300))
    factor = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    if not (factor >= 0.0).all():
        raise ValueError("class_weight must not be negative; drop the class instead.")
    return factor


def rounds_history(rounds: list[Round]) -> dict[str, np.ndarray]:
    """A mapping of equally long arrays, one entry per round."""
    columns = zip(*rounds, strict=True) if rounds else [()] * len(Round._fields)
    found = {name: np.asarray(column) for name, column in zip(Round._fields, columns, strict=True)}
    return {"round": np.arange(len(rounds)), **found}


def store_parts(
    estimator: MulticlassSVC, spec: LinearSpec, result: RoundsResult, n_rows: int
) -> None:
    """Fitted attributes of a model whose dual variables stayed with the parts of the data."""
    W, intercept = result.model.weights, np.sqrt(spec.offset) * result.model.constant
    if not spec.machine.K1:
        W, intercept = W - W.mean(axis=0), intercept - intercept.mean()
    if len(spec.classes) == 2:
        W, intercept = W[1:] - W[:1], intercept[1:] - intercept[:1]
    for name in ("support_", "support_vectors_", "dual_coef_", "bias_is_unique_"):
        estimator.__dict__.pop(name, None)
    estimator.classes_ = spec.classes
    estimator.coef_ = W
    estimator.intercept_ = intercept
    estimator.certificate_ = result.certificate
    estimator.n_support_ = result.n_support
    estimator.n_features_in_ = spec.n_features
    estimator.status_ = result.status
    estimator.n_iter_ = max(1, len(result.rounds))
    estimator.history_ = rounds_history(result.rounds)
    estimator.C_, estimator.gamma_ = spec.C, 1.0
    estimator._kernel = Kernel("linear", 1.0, 3.0, 0.0, spec.offset, None)
    estimator._n_train = n_rows


def warn_if_unfinished(result: RoundsResult, tol: float) -> None:
    """Warn of a fit that a limit or the arithmetic ended."""
    if result.status in ("max_iter", "max_time", "stalled"):
        advice = "Increase tol, max_iter or max_time, or scale the features."
        gap = float(result.certificate.relative_gap)
        warn_user(unfinished(result.status, gap, tol, advice), ConvergenceWarning)
