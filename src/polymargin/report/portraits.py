"""Prototypes and examples for a page: images where features are pixels, strong features else."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from polymargin.estimators.inspection import (
    Labelled,
    Parts,
    Prototypes,
    feature_names,
    model_space,
    prototypes_of,
    rows_of,
)
from polymargin.plots.prototype_images_display import PrototypeImagesDisplay
from polymargin.report.png import diverging_image, grey_image

__all__ = [
    "Contest",
    "Group",
    "Portrait",
    "Strong",
    "contest",
    "example_images",
    "guess_shape",
    "image_groups",
    "strong",
]

_GENERIC = re.compile(
    r"^(pixel|px|p|x|feature|attr|att|col|column|v|f|input|dim)?[\W_]*\d[\d\W_x]*$"
)
_SMALLEST_IMAGE = 49
_SMOOTH = 0.75
_SAMPLE = 300
_IMAGE_BUDGET = 250_000
_MOST_ROWS = 60
_MOST_STRIP = 400
_STRONGEST = 4


class Portrait(NamedTuple):
    """A prototype as an image; ``wins`` counts the examples of the report that it wins."""

    number: int
    image: str
    alive: bool
    wins: int


class Group(NamedTuple):
    """The prototypes of a class; ``left_out`` of them did not fit."""

    label: Any
    portraits: list[Portrait]
    left_out: int


class Strong(NamedTuple):
    """A prototype against its runner-up: names with weights, and all weights as a strip."""

    label: Any
    number: int
    alive: bool
    wins: int
    rival: Any
    strip: str
    for_it: list[tuple[str, float]]
    against: list[tuple[str, float]]


def guess_shape(X: Any, names: list[str]) -> tuple[int, int] | None:
    """A square, if the features have no names of their own and neighbours among them are alike."""
    d = X.shape[1]
    side = math.isqrt(d)
    if side * side != d or d < _SMALLEST_IMAGE:
        return None
    if not all(_GENERIC.match(name.lower()) for name in names):
        return None
    some = np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], _SAMPLE)).astype(int))
    try:
        images = rows_of(X, some).reshape(-1, side, side)
    except (TypeError, ValueError):
        return None
    mixed = images.reshape(-1, d)[:, check_random_state(0).permutation(d)]
    typical = float(np.mean((mixed[:, 1:] - mixed[:, :-1]) ** 2))
    across = float(np.mean((images[:, :, 1:] - images[:, :, :-1]) ** 2))
    down = float(np.mean((images[:, 1:] - images[:, :-1]) ** 2))
    return (side, side) if max(across, down) < _SMOOTH * typical else None


class Contest(NamedTuple):
    """Prototypes on the examples of a report.

    ``winner`` (n,) is the best prototype of each example, ``wins`` (R,) counts them, ``rival`` (R,)
    is the prototype of another class that most often comes second where this one wins (where it
    wins nothing: on all examples), ``spread`` (d,) the standard deviation of the features seen.
    """

    prototypes: Prototypes
    winner: np.ndarray
    wins: np.ndarray
    rival: np.ndarray
    spread: np.ndarray


def contest(parts: Parts, examples: Labelled) -> Contest | None:
    """Who wins which example, and against whom; None for models without prototypes."""
    found = prototypes_of(parts.last)
    if found is None:
        return None
    Z = model_space(parts, examples.X)
    scores = np.asarray(Z @ found.weights.T) + found.intercept
    R = len(found.owner)
    winner = scores.argmax(axis=1)
    second = np.where(found.owner[None, :] == found.owner[winner][:, None], -np.inf, scores)
    pairs = np.bincount(winner * R + second.argmax(axis=1), minlength=R * R).reshape(R, R)
    wins = pairs.sum(axis=1)
    others = found.owner[None, :] != found.owner[:, None]
    pairs = np.where(wins[:, None] > 0, pairs, np.bincount(winner, minlength=R)[None, :])
    spread = np.sqrt(np.maximum(mean_variance(Z)[1], 0.0))
    return Contest(found, winner, wins, np.where(others, pairs, -1).argmax(axis=1), spread)


def mean_variance(Z: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every column."""
    mean = np.asarray(Z.mean(axis=0), dtype=np.float64).ravel()
    squares = Z.multiply(Z) if sp.issparse(Z) else np.square(Z, dtype=np.float64)
    return mean, np.asarray(squares.mean(axis=0)).ravel() - mean**2


def image_groups(model: Any, seen: Contest, shape: tuple[int, int]) -> list[Group] | None:
    """Prototypes as images, class by class, as many as fit; None where they are no images."""
    try:
        display = PrototypeImagesDisplay.record(model, shape=shape)
    except ValueError:
        return None
    found, wins = seen.prototypes, seen.wins
    scaled = display._scaled("each")
    Q = len(display.labels)
    queues = [_by_use(np.flatnonzero(found.owner == c), found.alive, wins) for c in range(Q)]
    chosen: list[list[Portrait]] = [[] for _ in range(Q)]
    spent = 0
    for turn in range(max(map(len, queues))):  # every class gets its next one before any goes on
        for c, queue in enumerate(queues):
            if turn >= len(queue) or spent > _IMAGE_BUDGET:
                continue
            r = int(queue[turn])
            draw = grey_image if found.are_points else diverging_image
            image = draw(scaled[r])
            spent += len(image)
            chosen[c].append(Portrait(r, image, bool(found.alive[r]), int(wins[r])))
    return [
        Group(display.labels[c], sorted(chosen[c]), len(queues[c]) - len(chosen[c]))
        for c in range(Q)
    ]


def _by_use(which: np.ndarray, alive: np.ndarray, wins: np.ndarray) -> np.ndarray:
    return np.asarray(which[np.lexsort((which, -wins[which], ~alive[which]))])


def strong(parts: Parts, seen: Contest, names: list[str]) -> tuple[list[Strong], int]:
    """Prototypes by what moves their lead over the runner-up most, and how many were left out.

    Weights are (M_r - M_s)_j times the standard deviation of feature j.
    """
    found, wins, classes = seen.prototypes, seen.wins, parts.last.classes_
    W = np.asarray(found.weights, dtype=np.float64)
    leads = (W - W[seen.rival]) * seen.spread
    features = feature_names(parts, names, W.shape[1])
    order = np.concatenate(
        [_by_use(np.flatnonzero(found.owner == c), found.alive, wins) for c in range(len(classes))]
    )
    if len(order) > _MOST_ROWS:  # those that do the most work
        busiest = order[np.argsort(-wins[order], kind="stable")[:_MOST_ROWS]]
        order = order[np.isin(order, busiest)]
    scale = float(np.abs(leads).max()) or 1.0
    rows = []
    for r in order:
        weights = leads[r]
        rank = np.argsort(-weights, kind="stable")
        rows.append(
            Strong(
                classes[found.owner[r]],
                int(r),
                bool(found.alive[r]),
                int(wins[r]),
                classes[found.owner[seen.rival[r]]],
                diverging_image((weights / scale)[None, :]) if len(weights) <= _MOST_STRIP else "",
                [(features[j], float(weights[j])) for j in rank[:_STRONGEST] if weights[j] > 0],
                [
                    (features[j], float(weights[j]))
                    for j in rank[::-1][:_STRONGEST]
                    if weights[j] < 0
                ],
            )
        )
    return rows, len(W) - len(rows)


def example_images(X: Any, which: list[int], shape: tuple[int, int]) -> list[str]:
    """Rows of X in ink on paper, each with its own range."""
    images = rows_of(X, which).reshape(-1, *shape)
    low = images.min(axis=(1, 2), keepdims=True)
    span = images.max(axis=(1, 2), keepdims=True) - low
    span[span == 0.0] = 1.0
    return [grey_image(image) for image in (images - low) / span]
