"""Shapes of models that fit into a size: number formats, prototypes, features, projections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from polymargin.estimators.number_formats import BITS, N_LEVELS, number_bytes, size_words

__all__ = ["SizeBudget", "SizePlan", "class_counts", "plans_for"]

_MOST_PER_CLASS = 40  # prototypes: more gain nothing on 15,000 letters, and training takes as long
_LEAST_EXAMPLES = 4  # of a class per prototype
_SHARES = (0.5, 0.25)  # of the features that are kept; a fourth only where there is no projection
_LEAST_TO_SHARE = 16  # features from which on some may be left out
_PROJECTED = (5, 10, 20)  # prototypes per class behind a projection
_LEAST_INNER = 3  # inner features of a projection
_FEWER, _MUCH_FEWER = (5, 12), 0.6  # prototypes per class, and part of the most that fit
_NARROW = (
    24,
    16,
)  # inner features tried beside the widest, often as good on images
_LEAST_WITH_TABLE = 512  # weights: 256 bytes, of which a table of 16 is little
_WIDE = 32  # features from which on projections are tried


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

    @property
    def has_own_steps(self) -> bool:
        """Whether each prototype has a step of its own: with 15 levels that is worth a byte.

        Behind a projection, where rows are short, it has not been shown to be.
        """
        return self.number_format == "int4" and self.n_inner is None

    @property
    def has_table(self) -> bool:
        """Whether four bits stand for 16 levels that are dense near 0, not for -7 to 7.

        Their table has 16 bytes: little beside many weights.
        """
        return self.has_own_steps and self.n_prototypes * self.n_kept >= _LEAST_WITH_TABLE

    def words(self, n_features: int) -> str:
        """The plan as text."""
        text = f"{self.n_prototypes} prototypes in {self.number_format}"
        if self.n_kept < n_features:
            text += f", {self.n_kept} of {n_features} features"
        return text if self.n_inner is None else f"{text}, projected to {self.n_inner}"


@dataclass(frozen=True)
class SizeBudget:
    """The bytes allowed, and the facts that do not depend on the plan.

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
        total += R if plan.has_own_steps else 0
        total += N_LEVELS if plan.has_table else 0
        if self.n_classes != R:
            total += (self.n_classes + 1) * (1 if R < 256 else 2)
        return total + self.per_feature * kept + self.labels

    def smallest(self) -> int:
        """Bytes of the smallest model: one prototype per class in int4 on one feature."""
        return self.size(SizePlan("int4", self.n_classes, 1))

    @property
    def most(self) -> int:
        """The largest number of prototypes that the rows support."""
        per_class = min(_MOST_PER_CLASS, max(1, self.rarest // _LEAST_EXAMPLES))
        return per_class * self.n_classes

    def fill(self, number_format: str, kept: int) -> SizePlan | None:
        """The plan with the most prototypes that fit; None if not one per class fits."""
        for R in range(self.most, self.n_classes - 1, -1):
            plan = SizePlan(number_format, R, kept)
            if self.size(plan) <= self.n_bytes:
                return plan
        return None

    def project(self, number_format: str, R: int, kept: int) -> SizePlan | None:
        """The widest projection with R prototypes that fits and saves numbers, or None."""
        for inner in range(min(kept // 2, R) - 1, _LEAST_INNER - 1, -1):
            plan = SizePlan(number_format, R, kept, inner)
            if self.size(plan) <= self.n_bytes:
                return plan
        return None


def plans_for(budget: SizeBudget) -> list[SizePlan]:
    """Shapes worth trying, those most often best first.

    Raises
    ------
    ValueError
        If nothing fits; the message names the smallest possible size.
    """
    found = list(dict.fromkeys(_shapes(budget))) or _few_features(budget)
    if not found:
        raise ValueError(
            f"fit_into: {size_words(budget.n_bytes)} are too few for {budget.n_classes} classes; "
            f"the smallest possible size is {budget.smallest()} bytes (one feature); one prototype "
            f"per class of all {budget.n_features} features needs "
            f"{budget.size(SizePlan('int4', budget.n_classes, budget.n_features))} bytes."
        )
    return found


def _shapes(budget: SizeBudget) -> Iterator[SizePlan]:
    yield from _plain(budget)
    if budget.n_features >= _WIDE:
        yield from _projections(budget)


def _plain(budget: SizeBudget) -> Iterator[SizePlan]:
    """Without a projection.

    Finer numbers than int8 only where all prototypes fit: rounding to int8 changes next to no
    label, and int16 halves the number of prototypes.
    """
    d = budget.n_features
    for number_format in ("int4", "int8"):
        plan = budget.fill(number_format, d)
        if plan is not None and (number_format == "int4" or plan.n_prototypes < budget.most):
            yield plan
        elif plan is not None:  # all prototypes fit: take the finest numbers that do, too
            finer = [budget.fill(other, d) for other in BITS if other != "float32"]
            yield next(one for one in finer if one is not None and one.n_prototypes == budget.most)
            break
    whole = budget.fill("int4", d)
    if whole is not None:
        yield from _fewer(budget, whole.n_prototypes)
    if d < _LEAST_TO_SHARE or (whole is not None and whole.n_prototypes >= budget.most // 2):
        return
    for share in _SHARES if d < _WIDE else _SHARES[:1]:
        plan = budget.fill("int4", max(1, int(share * d)))
        if plan is not None:
            yield plan


def _fewer(budget: SizeBudget, most: int) -> Iterator[SizePlan]:
    """Fewer prototypes than would fit: on small tables more of them only fit noise."""
    for per_class in _FEWER:
        R = per_class * budget.n_classes
        plans = (SizePlan(one, R, budget.n_features) for one in ("int8", "int4"))
        plan = next((one for one in plans if budget.size(one) <= budget.n_bytes), None)
        if plan is not None and _MUCH_FEWER * most >= R:
            yield plan


def _projections(budget: SizeBudget) -> Iterator[SizePlan]:
    d = budget.n_features
    for per_class in _PROJECTED:
        R = min(per_class * budget.n_classes, budget.most)
        plans = (budget.project("int4", R, kept) for kept in (d, d // 2))
        plan = next((one for one in plans if one is not None), None)
        if plan is None or plan.n_inner is None:
            continue
        yield plan
        if per_class == _PROJECTED[-1]:
            yield from (replace(plan, n_inner=k) for k in _NARROW if k < plan.n_inner)


def _few_features(budget: SizeBudget) -> list[SizePlan]:
    """Where nothing else fits: one prototype per class on as many features as fit."""
    for kept in range(budget.n_features, 0, -1):
        plan = budget.fill("int4", kept)
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
