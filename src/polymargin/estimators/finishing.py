"""The smooth finish of a fitted model: how strong its jitter is, chosen by validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import StratifiedShuffleSplit

from polymargin.solvers.smooth_finish import FinishSettings, Parts, finish

__all__ = ["FINISHES", "choose_jitter", "finished", "validation_split"]

FINISHES = ("auto",)
# Range and sharpness were set after single runs on LETTER and USPS, not by validation on many sets:
# which jitter, or whether to finish at all, is decided by validation on the data at hand.
_JITTERS = (0.0, 0.1, 0.2, 0.3)  # in spreads of a feature
_SHARPNESS = 8.0  # of the softmax over scores, which are counted in margins
_EPOCHS, _LEAST_STEPS, _MOST_EPOCHS = 50, 1500, 300
_SHARE = 0.25  # of the rows that validate


def validation_split(
    label: np.ndarray, seed: int, share: float = _SHARE
) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows to train and to validate, None where a class has too few."""
    counts = np.bincount(label)
    n_test = int(share * len(label))
    if counts.min() < 2 or n_test < len(counts) or len(label) - n_test < len(counts):
        return None
    splitter = StratifiedShuffleSplit(1, test_size=n_test, random_state=seed)
    return next(splitter.split(label, label))


def finished(
    model: Any, X: Any, target: np.ndarray, weight: np.ndarray | None, jitter: float, seed: int
) -> Parts:
    """The prototypes of a fitted model after the stage."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    middle = dense.mean(axis=0)
    start = Parts(model.prototypes_, model.intercept_ + model.prototypes_ @ middle)
    epochs = int(np.clip(-(-_LEAST_STEPS * 256 // len(dense)), _EPOCHS, _MOST_EPOCHS))
    settings = FinishSettings(_SHARPNESS, jitter, epochs, seed=seed)
    done = finish(start, dense - middle, target, model._prototype_class, settings, None, weight)
    return Parts(done.weights, done.intercepts - done.weights @ middle)


def choose_jitter(
    model: Any,
    X: Any,
    label: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    seed: int,
) -> dict[str, Any]:
    """The jitter of least validation error; None, the model as it is, wins ties.

    One more margin machine is trained, on three quarters of the rows.
    """
    split = validation_split(label, seed)
    if split is None:
        return {"jitter": None, "tried": [], "errors": []}
    train, test = split
    part = None if weight is None else weight[train]
    counts = np.bincount(model._prototype_class)
    base = clone(model).set_params(
        finish=None,
        teacher=None,
        n_prototypes=np.minimum(counts, np.bincount(label[train])),
        init="auto" if not isinstance(model.init, str) else model.init,
    )
    base.fit(X[train], label[train], sample_weight=part)
    tried: list[float | None] = [None, *_JITTERS]
    errors = [float(np.mean(base.predict(X[test]) != label[test]))]
    for jitter in _JITTERS:
        parts = finished(base, X[train], target[train], part, jitter, seed)
        scores = np.asarray(X[test] @ parts.weights.T) + parts.intercepts
        errors.append(float(np.mean(base._prototype_class[scores.argmax(axis=1)] != label[test])))
    return {"jitter": tried[int(np.argmin(errors))], "tried": tried, "errors": errors}
