"""The smooth finish of a fitted model: how strong its jitter is, chosen by validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from polymargin.estimators.paired_validation import is_clearly_better, validation_parts
from polymargin.solvers.precision import FLOAT32_LARGEST
from polymargin.solvers.smooth_finish import FinishSettings, Parts, finish

__all__ = [
    "ALONG",
    "CLEARLY",
    "CLEARLY_ONCE",
    "FINISHES",
    "JITTERS",
    "FinishValue",
    "choose_finish",
    "finish_errors",
    "finished",
    "jitter_parts",
]

Rows = tuple[Any, np.ndarray, np.ndarray | None]  # features, targets, weights

FinishValue = float | tuple[str, float]
_Trial = tuple[FinishValue | None, str]  # a jitter, and the targets: "labels" or "teacher"
FINISHES = ("auto",)
ALONG = ("features", "classes")
# Sharpness, range and rate were set on validation parts of LETTER, USPS and MNIST: white jitter is
# best on the first, jitter along classes on the second, and neither helps much on the third.  Which
# of them, or whether to finish at all, is decided by validation on the data at hand.
JITTERS: tuple[FinishValue, ...] = (0.0, 0.1, 0.2, 0.3, ("classes", 0.3), ("classes", 0.6))
_RATE = 0.03
_SHARPNESS = 8.0  # of the softmax over scores, which are counted in margins
_EPOCHS, _LEAST_STEPS, _MOST_EPOCHS = 50, 1500, 300
_MOST_FOLDED = 20_000  # rows with three folds; with more a quarter of them validates
_LEADERS = 3  # best strengths of the first fold, tried on the other folds
# Simulated for C and counts on 29 small sets: with three folds one standard error gave the lowest
# mean error; a single part, which sees one annealing of each setting, needs a half more.
CLEARLY, CLEARLY_ONCE = 1.0, 1.5
"""Standard errors by which a change must be better on several folds, and on a single one."""


def jitter_parts(value: FinishValue) -> tuple[str, float]:
    """The directions and the strength that a value of ``finish`` means."""
    return (str(value[0]), float(value[1])) if isinstance(value, tuple) else ("features", value)


def finished(
    model: Any,
    X: Any,
    target: np.ndarray,
    weight: np.ndarray | None,
    jitter: FinishValue,
    seed: int,
) -> Parts:
    """The prototypes of a fitted model after the stage."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    middle = dense.mean(axis=0)
    start = Parts(model.prototypes_, model.intercept_ + model.prototypes_ @ middle)
    largest = max(np.abs(part).max() for part in (start.weights, start.intercepts))
    if not largest < FLOAT32_LARGEST:
        raise ValueError(
            f"finish: prototypes of size {largest:.1e} do not fit single precision, in which it "
            "works; scale X or sample_weight, or use finish=None."
        )
    epochs = int(np.clip(-(-_LEAST_STEPS * 256 // len(dense)), _EPOCHS, _MOST_EPOCHS))
    along, strength = jitter_parts(jitter)
    settings = FinishSettings(_SHARPNESS, strength, epochs, _RATE, seed, along)
    done = finish(start, dense - middle, target, model._prototype_class, settings, None, weight)
    return Parts(done.weights, done.intercepts - done.weights @ middle)


def choose_finish(
    model: Any,
    X: Any,
    label: np.ndarray,
    taught: np.ndarray | None,
    weight: np.ndarray | None,
    seed: int,
) -> dict[str, Any]:
    """Jitter and targets of least validation error, if they are clearly better than no finish.

    Each fold trains one more margin machine, and finishes it with several strengths: with the
    labels as targets and, where there is a teacher, with its predictions (``taught``).  These
    must be clearly better than the best finish with labels.
    """
    tests = validation_parts(label, _MOST_FOLDED, seed)
    targets = {"labels": label} if taught is None else {"labels": label, "teacher": taught}
    if not tests:
        return {"jitter": None, "target": "labels", "tried": [], "errors": []}
    wrong: dict[_Trial, list[np.ndarray]] = {(None, "labels"): []}
    left = {name: [(value, name) for value in JITTERS] for name in targets}
    for test in tests:
        train = np.delete(np.arange(len(label)), test)
        part = None if weight is None else weight[train]
        base = _fold_machine(model, X, label, train, part)
        plain = np.asarray(base.predict(X[test]) != model.classes_[label[test]])
        wrong[None, "labels"].append(plain)
        for name, trials in left.items():
            given = (X[train], targets[name][train], part)
            for trial in trials:
                errors = finish_errors(base, given, X[test], label[test], trial[0], seed)
                wrong.setdefault(trial, []).append(errors)
            left[name] = sorted(trials, key=lambda trial: wrong[trial][0].mean())[:_LEADERS]
    rows = np.concatenate(tests)
    share = None if weight is None else weight[rows]
    return _best_trial(wrong, left, share, CLEARLY if len(tests) > 1 else CLEARLY_ONCE)


def _best_trial(
    wrong: dict[_Trial, list[np.ndarray]],
    left: dict[str, list[tuple[FinishValue, str]]],
    weight: np.ndarray | None,
    clearly: float,
) -> dict[str, Any]:
    """The record of a choice: labels must be clearly better than no finish, then the teacher."""
    pooled = {trial: np.concatenate(parts) for trial, parts in wrong.items()}
    errors = {
        trial: float(np.average(one, weights=None if weight is None else weight[: len(one)]))
        for trial, one in pooled.items()
    }
    stands: _Trial = (None, "labels")
    for trials in left.values():
        best = min(trials, key=lambda trial: errors[trial])
        if is_clearly_better(pooled[best], pooled[stands], weight, clearly):
            stands = best
    return {
        "jitter": stands[0],
        "target": stands[1],
        "tried": [value for value, _ in errors],
        "tried_targets": [name for _, name in errors],
        "errors": list(errors.values()),
        "folds": [len(parts) for parts in wrong.values()],
    }


def _fold_machine(
    model: Any, X: Any, label: np.ndarray, train: np.ndarray, weight: np.ndarray | None
) -> Any:
    """The same machine on some of the rows."""
    base = clone(model).set_params(
        finish=None,
        teacher=None,
        n_prototypes=np.minimum(np.bincount(model._prototype_class), np.bincount(label[train])),
        init="auto" if not isinstance(model.init, str) else model.init,
    )
    return base.fit(X[train], model.classes_[label[train]], sample_weight=weight)


def finish_errors(
    model: Any, train: Rows, X: Any, label: np.ndarray, jitter: FinishValue, seed: int
) -> np.ndarray:
    """Which rows of X a model gets wrong that is finished on ``train``."""
    parts = finished(model, *train, jitter, seed)
    scores = np.asarray(X @ parts.weights.T) + parts.intercepts
    return np.asarray(model._prototype_class[scores.argmax(axis=1)] != label)
