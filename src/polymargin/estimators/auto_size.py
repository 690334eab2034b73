"""``AutoSVC(fit_into=...)``: only prototypes fit into a size in bytes, so these are tried."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.estimators.multi_prototype import MultiPrototypeSVC

__all__ = ["fit_small"]


def fit_small(auto: Any, X: Any, y: Any, sample_weight: Any, seed: int) -> None:
    """Fit the best model of a size, and give ``auto`` its fitted attributes.

    Parameters
    ----------
    auto : AutoSVC
    X, y, sample_weight
        The training rows; nothing is scaled here, since the model scales inside.
    seed : int
    """
    if auto.objective != "accuracy":
        raise ValueError(
            f"fit_into chooses by accuracy; it cannot be combined with objective="
            f"{auto.objective!r}."
        )
    if auto.probabilities is not None:
        raise ValueError("fit_into keeps integers without a temperature; leave probabilities out.")
    model = MultiPrototypeSVC(
        fit_into=auto.fit_into,
        max_time=auto.max_time,
        class_weight=auto.class_weight,
        tol=auto.tol,
        n_jobs=auto.n_jobs,
        random_state=seed,
        verbose=auto.verbose,
    )
    try:
        model.fit(X, y, sample_weight=sample_weight)
    finally:
        if hasattr(model, "compact_"):
            _adopt(auto, model, X)


def _adopt(auto: Any, model: MultiPrototypeSVC, X: Any) -> None:
    errors = np.array(model.tried_["error"])
    best = model.tried_["chosen"].index(True)
    n = max(1, int(0.25 * np.shape(X)[0]))
    auto.best_estimator_ = model
    for name in ("classes_", "certificate_", "n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(auto, name, getattr(model, name))
    auto.best_score_ = 1.0 - float(errors[best])
    auto.best_error_ = float(np.sqrt(errors[best] * (1.0 - errors[best]) / n))
    auto.best_params_ = {"estimator": "MultiPrototypeSVC", "fit_into": auto.fit_into}
    auto.scaling_ = "none"
    auto.stage_, auto.n_rows_, auto.temperature_ = "final", int(np.shape(X)[0]), 1.0
    auto.was_cut_short_ = False
    others = [k for k in np.argsort(errors, kind="stable") if k != best]
    order = np.array([best, *others])
    spread = np.sqrt(errors * (1.0 - errors) / n)
    auto.tried_ = {
        "machine": [model.tried_["plan"][k] for k in order],
        "parameters": [
            {"C": model.choice_["C"], "jitter": model.tried_["jitter"][k]} for k in order
        ],
        "score": [1.0 - float(errors[k]) for k in order],
        "standard_error": [float(spread[k]) for k in order],
        "n_splits": [1] * len(order),
        "train_rows": [auto.n_rows_ - n] * len(order),
        "seconds": [model.tried_["seconds"][k] for k in order],
        "model_bytes": [model.tried_["bytes"][k] for k in order],
        "verdict": ["chosen", *["tried"] * (len(order) - 1)],
    }
