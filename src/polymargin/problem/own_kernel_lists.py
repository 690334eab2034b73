"""A list of kernels, one per prototype of a class: how it is written, and how models score.

Prototype number j of every class lives in the space of the j-th kernel (23b), so that there is no
kernel value of two examples that all prototypes share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from polymargin.exceptions import shown
from polymargin.problem.kernel_sums import read_entries, sum_kernel
from polymargin.problem.kernels import EACH, Kernel
from polymargin.problem.scoring import KernelModel

__all__ = ["list_kernel", "list_scores", "place_in_class", "read_list"]


def read_list(kernel: Any) -> list[Any]:
    """The checked entries: a name, or (name, parameters)."""
    written = []
    for one in kernel:
        parts = (one, {}) if isinstance(one, str) else one
        if not isinstance(parts, tuple | list) or len(parts) != 2:
            raise ValueError(
                f"kernel: a list names the kernel of each prototype of a class, got {shown(one)}; "
                "write 'linear' or ('rbf', {'gamma': 0.1}). A sum of kernels is {'linear': 0.3, "
                "'rbf': 0.7}."
            )
        written.append((*parts, 1.0))
    if not written:
        raise ValueError("kernel: the list of kernels is empty; write ['linear', 'rbf'].")
    return read_entries(written)


def list_kernel(kernel: Any, X: Any, weight: np.ndarray | None, shared: Kernel) -> Kernel:
    """The list as a ``Kernel`` that knows its entries and has no values of its own."""
    whole = sum_kernel(read_list(kernel), X, weight, shared)
    return replace(whole, name=EACH)


def place_in_class(prototype_class: Any) -> np.ndarray:
    """(R,) number of each prototype within its class: which entry of the list is its kernel."""
    owner = np.asarray(prototype_class)
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


def list_scores(
    kernel: Kernel,
    vectors: Any,
    tau: np.ndarray,
    intercept: np.ndarray,
    prototype_class: np.ndarray,
    X: Any,
    n_jobs: int = 1,
) -> np.ndarray:
    """(n, R) scores of rows X: every entry of the list scores its own prototypes."""
    place = place_in_class(prototype_class)
    scores = np.empty((X.shape[0], len(place)))
    for number, (_, part) in enumerate(kernel.parts):
        mine = np.flatnonzero(place == number)
        if len(mine):
            one = KernelModel(part, vectors, np.ascontiguousarray(tau[:, mine]), intercept[mine])
            scores[:, mine] = one.scores(X, np.float64, n_jobs)
    return scores
