"""What is measured on the examples of a report: errors, classes, size, speed, hardest examples."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from polymargin.estimators.inspection import Labelled, Parts, nameless, prototypes_of
from polymargin.estimators.model_size import classifier_size
from polymargin.explanation.contributions import Explanation, explain
from polymargin.plots.confusion_display import ConfusionDisplay

__all__ = [
    "ClassRow",
    "Hard",
    "Rates",
    "Speed",
    "class_rows",
    "hardest",
    "model_size",
    "rates",
    "speed",
    "wilson",
]

_NORMAL_95 = 1.959963984540054
_SPEED_ROWS = 2000
_SPEED_SECONDS = 0.25
_REASONS = 4


class Rates(NamedTuple):
    """Error with its confidence interval, and the mean recall of the classes."""

    n: int
    wrong: int
    error: float
    low: float
    high: float
    balanced_accuracy: float


class ClassRow(NamedTuple):
    """One class: examples, rates (nan where undefined), and its part of the model."""

    label: Any
    support: int
    precision: float
    recall: float
    f1: float
    parts: str


class Speed(NamedTuple):
    """Microseconds per prediction, in a batch and alone."""

    batch: float
    rows: int
    single: float


class Hard(NamedTuple):
    """An example of low margin; ``reasons`` are what made the predicted class lead."""

    row: int
    name: str
    true: Any
    predicted: Any
    margin: float
    own_score: float
    rival: Any
    rival_score: float
    reasons: list[tuple[str, float]]


def wilson(wrong: int, n: int) -> tuple[float, float]:
    """95 % confidence interval of a share, by Wilson's score."""
    z2 = _NORMAL_95**2
    share = wrong / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _NORMAL_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return middle - half if wrong else 0.0, middle + half if wrong < n else 1.0


def rates(found: Labelled) -> Rates:
    """Error rate and balanced accuracy; unknown labels count as errors."""
    right = found.predicted == found.y
    n, wrong = len(right), int((~right).sum())
    labels = np.unique(found.own[found.own >= 0])
    recall = [float(right[found.own == k].mean()) for k in labels]
    return Rates(n, wrong, wrong / n, *wilson(wrong, n), float(np.mean(recall)))


def class_rows(parts: Parts, confusion: ConfusionDisplay) -> list[ClassRow]:
    """The table of the classes that the model knows, in their order."""
    counts = confusion.counts
    share = model_shares(parts)
    rows = []
    for k, label in enumerate(parts.last.classes_):
        hit, support, predicted = counts[k, k], counts[k].sum(), counts[:, k].sum()
        precision = hit / predicted if predicted else math.nan
        recall = hit / support if support else math.nan
        f1 = 2 * hit / (support + predicted) if support + predicted else math.nan
        rows.append(ClassRow(label, int(support), precision, recall, f1, share[k]))
    return rows


def model_shares(parts: Parts) -> list[str]:
    """What each class has of the model: living prototypes, or support vectors."""
    last = parts.last
    Q = len(last.classes_)
    if hasattr(last, "prototype_classes_"):
        owner = np.searchsorted(last.classes_, last.prototype_classes_)
        total = np.bincount(owner, minlength=Q)
        alive = np.bincount(owner[last.alive_], minlength=Q)
        return [f"{a} of {t}" for a, t in zip(alive, total, strict=True)]
    dual = getattr(last, "dual_coef_", None)
    if dual is None or np.ndim(dual) != 2 or dual.shape[1] != Q:
        return [""] * Q
    # the coefficient of an example is largest for its own class
    count = np.bincount(np.asarray(dual).argmax(axis=1), minlength=Q)
    return [f"{c:,}" for c in count]


def model_size(parts: Parts) -> int:
    """Bytes in float32 of the numbers that prediction needs, without the steps before."""
    last = parts.last
    found = prototypes_of(last)
    if found is None and not hasattr(last, "support_vectors_"):
        return 0
    return classifier_size(last)[0]


def speed(model: Any, X: Any) -> Speed:
    """Measure prediction: the best of repeated batches, the median of single calls."""
    rows = np.arange(min(X.shape[0], _SPEED_ROWS))
    batch = _safe_indexing(X, rows)
    one = _safe_indexing(X, rows[:1])
    model.predict(batch)
    times = _repeated(lambda: model.predict(batch), 7)
    alone = _repeated(lambda: model.predict(one), 50)
    return Speed(1e6 * min(times) / len(rows), len(rows), 1e6 * float(np.median(alone)))


def _repeated(work: Any, most: int) -> list[float]:
    times: list[float] = []
    while len(times) < most and sum(times) < _SPEED_SECONDS:
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return times


def hardest(parts: Parts, found: Labelled, count: int = 12) -> list[Hard]:
    """The examples of the lowest margins."""
    if found.margins is None or found.scores is None:
        return []
    order = np.argsort(found.margins, kind="stable")[:count]  # nan sorts last
    order = order[np.isfinite(found.margins[order])]
    why = _explained(parts.whole, _safe_indexing(found.X, order)) if len(order) else None
    classes = parts.last.classes_
    index = getattr(found.X, "index", None)
    rows = []
    for k, i in enumerate(order):
        own = found.own[i]
        scores = found.scores[i]
        rival = int(np.where(np.arange(len(scores)) == own, -np.inf, scores).argmax())
        name = str(i) if index is None else str(index[i])
        rows.append(
            Hard(
                int(i),
                name,
                found.y[i],
                found.predicted[i],
                float(found.margins[i]),
                float(scores[own]),
                classes[rival],
                float(scores[rival]),
                [] if why is None else why.top(k, _REASONS),
            )
        )
    return rows


def _explained(model: Any, X: Any) -> Explanation | None:
    """Reasons of every row; None where the model has none to give."""
    try:
        with nameless():
            return explain(model, X)
    except (ValueError, TypeError):
        return None
