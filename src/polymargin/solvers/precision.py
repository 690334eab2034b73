"""Where single precision is enough for a solver: one rule for all of them.

Compiled loops wait for memory, so float32 rows, prototypes and scores make a fit up to twice as
fast; the certificate is computed in float64 whatever the solver used.  What float32 costs is the
smallest gap that descent can reach: rounding in the scores makes it stop improving at about 5e-5
of the primal value (satimage, RBF, C = 10), and prototypes to which very many steps were added
stop at about 2e-4.  Each limit below leaves a factor of two to that; a judge that still finds the
gap too large makes the solver start again in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.problem.problem import Problem

__all__ = [
    "FLOAT32_LARGEST",
    "FLOAT32_PROTOTYPES_TOL",
    "FLOAT32_SCORES_TOL",
    "allows_float32",
    "row_dtype",
    "row_unit",
]

FLOAT32_SCORES_TOL = 1e-4
"""Smallest tolerance for float32 kernel rows and scores of Crammer-Singer."""

FLOAT32_PROTOTYPES_TOL = 5e-4
"""Smallest tolerance for float32 prototypes, and for the machines with many variables a pattern
(Weston-Watkins and others), whose scores are sums of many more steps."""

_LARGEST_OFFSET = 1.0  # of a penalised intercept, which takes its share of the 16 bits

FLOAT32_LARGEST = 1e30
"""Largest K_ii, C_i and prototypes: products with dual variables and margins fit float32."""


def allows_float32(problem: Problem, tol: float, limit: float) -> bool:
    """Whether float32 reaches ``tol``: soft margin, ``tol`` above ``limit``, moderate norms and C.

    The dual variables of a hard margin have no bound, and their rounding none either.  Rows of a
    sum of kernels are not centred, so that float32 would lose the digits of its RBF terms.
    """
    if tol < limit or problem.is_hard or problem.kernel.parts:
        return False
    norms: tuple[np.ndarray, ...] = ()
    if problem.norms is not None:
        factor = float(np.max(problem.kernel.folded()[1]))
        with np.errstate(over="ignore"):
            norms = (problem.norms, factor * factor * problem.norms)
    return all(
        bool((size < FLOAT32_LARGEST).all()) for size in (problem.diagonal, problem.cap, *norms)
    )


def row_unit(problem: Problem, dtype: Any) -> float | None:
    """The unit of kernel rows of 16 bits beside scores of this dtype; None: rows of that dtype.

    Values of a Gaussian kernel lie between 0 and 1, so whole numbers of 16 bits are right to 8e-6.
    Scores that are sums of many pushes drift away by that, and are made again at the checks near
    the end; what is pushed after that is small, and its error too.
    """
    kernel = problem.kernel
    is_bounded = kernel.name == "rbf" and 0.0 <= kernel.offset <= _LARGEST_OFFSET
    if not is_bounded or np.dtype(dtype) != np.float32:
        return None
    return float((1.0 + kernel.offset) / np.iinfo(np.uint16).max)


def row_dtype(problem: Problem, tol: float, limit: float = FLOAT32_SCORES_TOL) -> Any:
    """float32 where that is enough for kernel rows, float64 otherwise."""
    return np.float32 if allows_float32(problem, tol, limit) else np.float64
