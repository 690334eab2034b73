"""What a size in bytes leaves room for: number formats, prototypes, features, projections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polymargin.estimators.number_formats import BITS, number_bytes, size_words

__all__ = ["Room", "SizePlan", "class_counts", "plans_for"]

_MOST_PER_CLASS = 40  # prototypes: more gain nothing on 15,000 letters, and training takes as long
_LEAST_EXAMPLES = 4  # of a class per prototype
_SHARES = (1.0, 0.5, 0.25)  # of the features that are kept
_PROJECTED = (5, 10, 20)  # prototypes per class behind a projection
_LEAST_INNER = 3  # inner features of a projection


@dataclass(frozen=True)
class SizePlan:
    """A shape of a compact model.

    Attributes
    ----------
    number_format : {"int16", "int8", "int4"}
    n_prototypes : int
        Of all classes together.
    n_kept : int
        Features.
    n_inner : int or None
        Rows of the projection, None without one.
    """

    number_format: str
    n_prototypes: int
    n_kept: int
    n_inner: int | None = None

    def words(self, n_features: int) -> str:
        """For people."""
        text = f"{self.n_prototypes} prototypes in {self.number_format}"
        if self.n_kept < n_features:
            text += f", {self.n_kept} of {n_features} features"
        return text if self.n_inner is None else f"{text}, projected to {self.n_inner}"


@dataclass(frozen=True)
class Room:
    """A size, and what does not depend on the plan.

    Attributes
    ----------
    n_bytes : int
        The size.
    n_features, n_classes : int
    per_feature : int
        Bytes of shifts and factors of a kept feature.
    labels : int
        Bytes of the labels.
    rarest : int
        Examples of the rarest class.
    """

    n_bytes: int
    n_features: int
    n_classes: int
    per_feature: int
    labels: int
    rarest: int

    def size(self, plan: SizePlan) -> int:
        """Bytes of a model of this shape, as ``CompactModel.n_bytes`` counts them."""
        R, kept = plan.n_prototypes, plan.n_kept
        width = kept if plan.n_inner is None else plan.n_inner
        total = number_bytes(R, width, plan.number_format) + 2 * R + 8
        if plan.n_inner is not None:
            total += number_bytes(plan.n_inner, kept, plan.number_format) + 4
        if kept < self.n_features:
            total += (self.n_features + 7) // 8
        if self.n_classes != R:
            total += (self.n_classes + 1) * (1 if R < 256 else 2)
        return total + self.per_feature * kept + self.labels

    def smallest(self) -> int:
        """Bytes of the smallest model: one prototype per class in int4 on one feature."""
        return self.size(SizePlan("int4", self.n_classes, 1))

    @property
    def most(self) -> int:
        """Prototypes that training can fill."""
        per_class = min(_MOST_PER_CLASS, max(1, self.rarest // _LEAST_EXAMPLES))
        return per_class * self.n_classes

    def fill(self, number_format: str, kept: int) -> SizePlan | None:
        """As many prototypes as there is room for; None if not one per class."""
        for R in range(self.most, self.n_classes - 1, -1):
            plan = SizePlan(number_format, R, kept)
            if self.size(plan) <= self.n_bytes:
                return plan
        return None

    def project(self, number_format: str, R: int, kept: int) -> SizePlan | None:
        """The widest projection with R prototypes; None where it is no gain."""
        for inner in range(min(kept // 2, R) - 1, _LEAST_INNER - 1, -1):
            plan = SizePlan(number_format, R, kept, inner)
            if self.size(plan) <= self.n_bytes:
                return plan
        return None


def plans_for(room: Room) -> list[SizePlan]:
    """Shapes worth trying, those most often best first.

    Raises
    ------
    ValueError
        If nothing fits; the message names the smallest possible size.
    """
    found = list(dict.fromkeys(_shapes(room))) or _few_features(room)
    if not found:
        raise ValueError(
            f"fit_into: {size_words(room.n_bytes)} are too few for {room.n_classes} classes; the "
            f"smallest possible size is {room.smallest()} bytes (one feature); one prototype per "
            f"class of all {room.n_features} features needs "
            f"{room.size(SizePlan('int4', room.n_classes, room.n_features))} bytes."
        )
    return found


def _shapes(room: Room) -> Iterator[SizePlan]:
    d = room.n_features
    for number_format in ("int4", "int8", "int16"):
        plan = room.fill(number_format, d)
        if plan is not None and (number_format == "int4" or plan.n_prototypes < room.most):
            yield plan
        elif plan is not None:  # room for the finest numbers that fit with all prototypes
            finer = [room.fill(other, d) for other in BITS if other != "float32"]
            yield next(one for one in finer if one is not None and one.n_prototypes == room.most)
            break
    for share in _SHARES[1:]:
        kept = max(1, int(share * d))
        plan = room.fill("int4", kept)
        whole = room.fill("int4", d)
        if plan is not None and d >= 16 and (whole is None or whole.n_prototypes < room.most // 2):
            yield plan
    if d >= 32:
        for per_class in _PROJECTED:
            R = min(per_class * room.n_classes, room.most)
            for kept in (d, d // 2):
                plan = room.project("int4", R, kept)
                if plan is not None:
                    yield plan
                    break


def _few_features(room: Room) -> list[SizePlan]:
    """Where nothing else fits: one prototype per class on as many features as there is room for."""
    for kept in range(room.n_features, 0, -1):
        plan = room.fill("int4", kept)
        if plan is not None:
            return [plan]
    return []


def class_counts(
    total: int, need: np.ndarray, most: np.ndarray, start: np.ndarray | None = None
) -> np.ndarray:
    """``total`` prototypes for classes: one (or ``start``) each, the others in proportion to need.

    Parameters
    ----------
    total : int
    need : ndarray of shape (Q,)
        How much each class needs; zeros are allowed.
    most : ndarray of shape (Q,)
        No class gets more.
    start : ndarray of shape (Q,) or None
    """
    counts = np.ones(len(need), dtype=np.int64) if start is None else start.astype(np.int64)
    score = np.maximum(need, 1e-9)
    for _ in range(int(min(total, most.sum())) - int(counts.sum())):
        claim = np.where(counts < most, score / counts, -np.inf)
        counts[int(claim.argmax())] += 1
    return counts
