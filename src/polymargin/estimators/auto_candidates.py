"""The machines that AutoSVC tries: where the race starts, and what lies next to a machine.

Costs and widths are counted in units that do not depend on the table.  A linear machine with
C = c / E||x||^2 is the same machine whatever the scale of X, and an RBF machine with
gamma = g / (d var X) as well, so that one list of c and g serves every table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.problem.kernels import resolve_gamma, squared_norms

__all__ = ["Candidate", "Table", "neighbours", "starting_candidates"]

_STEP_C, _STEP_GAMMA = 10.0**0.5, 2.0
"""Ratio of neighbouring C and gamma.  Between optima one step apart the validation error differs by
less than its standard error on a thousand rows, so that finer steps would choose noise."""

_KERNEL_C = (10.0**-0.5, 10.0**0.5, 10.0**1.5)  # of the kernel machines that start

_DUAL_LIMIT = 3_000_000
"""Rows times classes up to which machines with one dual variable per class and row are tried with a
kernel; beyond it Crammer-Singer, which keeps only the variables in use, is the kernel machine."""

_MOST_NUMBERS = 200_000
"""Words times classes beyond which prototypes of texts are not tried: on 2,000 documents of news20
(56,000 words, 20 classes) two per class took 5.5 s and made 22.0 % errors, a linear machine 0.05 s
and 20.8 %."""

_LEAST_PER_PROTOTYPE = 4
"""Examples that a prototype needs at least, counted in the class of median size."""


@dataclass(frozen=True)
class Table:
    """The facts of the training data from which candidates and their units are chosen.

    ``row_norm`` is the mean of ||x||^2 + 1, ``gamma`` the width 1 / (d var X).
    """

    n_rows: int
    n_features: int
    n_classes: int
    median_class: float
    row_norm: float
    gamma: float
    is_sparse: bool

    @property
    def is_text(self) -> bool:
        """Whether rows look like texts: sparse, with more words than rows."""
        return self.is_sparse and self.n_features > self.n_rows

    @classmethod
    def of(cls, X: Any, y: np.ndarray) -> Table:
        """Measure the (scaled) rows and the class numbers."""
        counts = np.bincount(y)
        norms = squared_norms(X)
        with np.errstate(over="ignore"):  # the sum may overflow where the mean does not
            row_norm = float(np.mean(norms, dtype=np.float64)) + 1.0
        if np.isinf(row_norm):
            row_norm = float(np.sum(norms / len(norms)))
        gamma = float(resolve_gamma("scale", X))
        n, d = X.shape
        median = float(np.median(counts))
        return cls(n, d, len(counts), median, row_norm, gamma, sp.issparse(X))


@dataclass(frozen=True)
class Candidate:
    """A machine with its parameters, in the units of the table.

    ``kind`` is "linear", "prototypes" or "rbf"; ``machine`` the row of the machine table (None for
    prototypes); ``c`` and ``g`` as in the head of this file; ``count`` prototypes per class.
    """

    kind: str
    machine: str | None
    c: float
    g: float = 1.0
    count: int = 1
    metric: str = "euclidean"
    class_weight: Any = field(default=None, hash=False)

    def parameters(self, table: Table) -> dict[str, Any]:
        """The parameters of the estimator that matter, as a user would write them."""
        own: dict[str, Any] = {"C": self.c if self.kind == "rbf" else self.c / table.row_norm}
        if self.kind == "prototypes":
            own |= {"n_prototypes": self.count, "metric": self.metric}
        else:
            own |= {"machine": self.machine, "intercept": "penalized"}
        if self.kind == "rbf":
            own |= {"kernel": "rbf", "gamma": self.g * table.gamma}
        return own | {"class_weight": self.class_weight}

    def build(self, table: Table, **common: Any) -> MulticlassSVC | MultiPrototypeSVC:
        """The estimator, not fitted."""
        maker = MultiPrototypeSVC if self.kind == "prototypes" else MulticlassSVC
        return maker(**self.parameters(table), **common)

    @property
    def family(self) -> str:
        """Machines that differ in C and gamma only."""
        if self.kind != "prototypes":
            return f"{self.kind} {self.machine}"
        learned = " learned" if self.metric == "learned" else ""
        return f"{self.count} prototypes{learned}"

    @property
    def simplicity(self) -> tuple[float, ...]:
        """Sort key among equal scores: fewer prototypes, then no kernel, then small C and gamma."""
        return (float(self.kind == "rbf"), float(self.count), self.c, self.g)

    def words(self, table: Table) -> str:
        """C and gamma for a table of candidates."""
        own = self.parameters(table)
        text = f"C={own['C']:.3g}"
        if "gamma" in own:
            text += f" gamma={own['gamma']:.3g}"
        return text + (" balanced" if self.class_weight == "balanced" else "")


# -- where the race starts ---------------------------------------------------------------------


def starting_candidates(
    table: Table, prefer: str, class_weight: Any, kinds: Sequence[str], n_candidates: int | None
) -> list[Candidate]:
    """The first machines, the most often useful ones first, at most ``n_candidates``.

    Machines that would be refused or cannot help are left out: prototypes where classes are too
    small for them, a second loss for two classes (where all losses agree).
    """
    found = _first_choices(table)
    if not table.is_text:
        found += _other_linear(table) + _other_kernel(table)
    found += _prototypes(table, prefer)
    unique = [one for one in dict.fromkeys(found) if one.kind in kinds]
    unique = unique or [Candidate("prototypes", None, 10.0, count=2)]
    return [replace(one, class_weight=class_weight) for one in unique[:n_candidates]]


def _kernel_loss(table: Table) -> str:
    return "ww" if table.n_rows * table.n_classes <= _DUAL_LIMIT else "cs"


def _linear_losses(table: Table) -> tuple[str, ...]:
    """Both losses: Weston-Watkins is better on overlapping, Crammer-Singer on many classes."""
    if table.n_classes == 2:
        return ("ww",)
    return ("cs", "ww") if table.n_classes <= 200 else ("cs",)


def _first_choices(table: Table) -> list[Candidate]:
    """First candidates of texts: one with a kernel, which is slower and hardly ever better."""
    kernel, linear = _kernel_loss(table), _linear_losses(table)
    if table.is_text:
        some = [Candidate("linear", loss, c) for c in (1.0, 10.0, 0.1) for loss in linear]
        return [*some, Candidate("rbf", kernel, _KERNEL_C[1])]
    few = [Candidate("linear", linear[-1], 1.0), Candidate("rbf", kernel, _KERNEL_C[1])]
    return [*few, Candidate("linear", linear[0], 10.0), Candidate("rbf", kernel, _KERNEL_C[0])]


def _other_linear(table: Table) -> list[Candidate]:
    return [
        Candidate("linear", loss, c)
        for c in (0.1, 1.0, 10.0, 100.0)
        for loss in _linear_losses(table)
    ]


def _other_kernel(table: Table) -> list[Candidate]:
    loss = _kernel_loss(table)
    return [Candidate("rbf", loss, c, g) for g in (1.0, 0.25, 4.0) for c in _KERNEL_C]


def _prototypes(table: Table, prefer: str) -> list[Candidate]:
    """One number of prototypes per class to start with; the other numbers are its neighbours."""
    sizes: tuple[tuple[int, str], ...] = ((5, "euclidean"),)
    if prefer != "accurate":
        sizes = ((2, "euclidean"), (3, "euclidean"), (5, "euclidean"), (5, "learned"))
        sizes += ((10, "learned"), (20, "learned"))
    if table.is_sparse and table.n_features > 4000:
        sizes = ((2, "euclidean"),)  # a learned metric is a dense matrix
        if table.n_features * table.n_classes > _MOST_NUMBERS and prefer == "accurate":
            sizes = ()
    return [
        Candidate("prototypes", None, 10.0, count=count, metric=metric)
        for count, metric in sizes
        if count * _LEAST_PER_PROTOTYPE <= table.median_class
    ]


# -- next to a machine -------------------------------------------------------------------------


def neighbours(one: Candidate, table: Table, may_unweight: bool) -> list[Candidate]:
    """Machines one step away; ``may_unweight`` adds the same machine without class weights."""
    found = [replace(one, c=_half_decade(one.c * step)) for step in (_STEP_C, 1.0 / _STEP_C)]
    if one.kind == "rbf":
        found += [replace(one, g=one.g * step) for step in (_STEP_GAMMA, 1.0 / _STEP_GAMMA)]
        other = "cs" if one.machine == "ww" else "ww"
        if table.n_classes > 2 and table.n_rows * table.n_classes <= _DUAL_LIMIT:
            found.append(replace(one, machine=other))
    if one.kind == "prototypes" and 2 * one.count * _LEAST_PER_PROTOTYPE <= table.median_class:
        metric = "learned" if one.count >= 5 and not table.is_sparse else one.metric
        found.append(replace(one, count=2 * one.count, metric=metric))
    if may_unweight:
        found.append(replace(one, class_weight=None))
    return [near for near in found if 1e-3 <= near.c <= 1e5]


def _half_decade(c: float) -> float:
    """The nearest power of the square root of ten, so that different steps reach equal values."""
    return float(10.0 ** (round(2.0 * np.log10(c)) / 2.0))
