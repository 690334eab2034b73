"""Units in which a training problem is solved, and scales that no double can hold.

Dividing phi(x) by s and multiplying C by s^2 is the same machine: K' = K / s^2, C' = C s^2,
T' = s^2 T, W' = s W, P' = s^2 P, and the scores are equal (T19).  With s a power of two nothing is
rounded.  Problems with extreme K_ii or C are solved in units in which neither is extreme, so that
squares and products of dual variables neither overflow nor vanish.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from polymargin.problem.kernels import Kernel
from polymargin.problem.problem import Problem

__all__ = ["check_scales", "in_units", "refused_if_inexact", "unit_of"]

_USUAL = 2.0**40
"""Squared units between its inverse and this stay 1: solvers are as exact there, and data of usual
size are not copied."""
_LARGEST_WEIGHT = 1e100
"""Largest C_i K_jj: its cube and the sums of its square are still finite."""
_SMALLEST_CAP = 1e-307
"""Smallest C_i of a quadratic loss, which divides by it."""
_LARGEST_EXPONENT = {"rbf": 15, "sigmoid": 300}
"""Decimal logarithm of the largest gamma ||x||^2.  A Gaussian kernel subtracts numbers of that
size: beyond it the value of a row and itself is 0 or 1 by chance.  Products need to be finite."""
_VANISHING = 1e-16
"""Features that add less than this part to the constant of an intercept are lost in rounding."""


def unit_of(problem: Problem) -> float:
    """The power of two s by whose square the kernel is divided; 1 for problems of usual size.

    The largest K_ii becomes about 1 where C K_ii >= 1, and C becomes about 1 where it is less: a
    small C makes every dual variable small, and a kernel that is small beside it does no harm.
    """
    kernel = problem.kernel
    if kernel.name not in ("linear", "precomputed"):
        return 1.0
    largest = float(problem.diagonal.max(initial=0.0))
    if largest == 0.0:
        return 1.0
    square = largest
    cap = float(problem.cap.max())
    # logarithms: the product itself may overflow
    if np.isfinite(cap) and np.log2(cap) + np.log2(largest) < 0.0:
        square = 1.0 / max(cap, 1e-300)
    if 1.0 / _USUAL <= square <= _USUAL:
        return 1.0
    return float(2.0 ** round(0.5 * np.log2(square)))


def in_units(problem: Problem, unit: float) -> Problem:
    """The problem with phi(x) divided by ``unit`` and C multiplied by its square."""
    if unit == 1.0:
        return problem
    kernel = replace(problem.kernel, offset=problem.kernel.offset / unit / unit)
    divisors = (unit, unit) if kernel.name == "precomputed" else (unit,)
    X = problem.X
    for divisor in divisors:
        X = _divided(X, divisor)
    with np.errstate(under="ignore"):
        cap = problem.cap * unit * unit
    changed = replace(problem, X=X, kernel=kernel, cap=cap)
    _check_caps(changed)
    return changed


def _divided(X: Any, unit: float) -> Any:
    """X / unit; in float64, since single precision may not hold it."""
    if sp.issparse(X):
        return type(X)((X.data.astype(np.float64) / unit, X.indices, X.indptr), shape=X.shape)
    return np.asarray(X, dtype=np.float64) / unit


def check_scales(problem: Problem) -> None:
    """Refuse kernels and weights whose products no double can hold."""
    largest = float(problem.diagonal.max(initial=0.0))
    caps = problem.cap
    _check_widths(problem)
    if problem.norms is not None and not problem.norms.any() and _has_entries(problem.X):
        raise ValueError("X: the squares of its values vanish in double precision; scale X up.")
    _check_caps(problem)
    if problem.is_hard:
        _check_features(problem)
    elif largest > 0.0 and np.log10(caps.max()) + np.log10(largest) > np.log10(_LARGEST_WEIGHT):
        raise ValueError(
            f"X: the largest kernel value, {largest:.3g}, times the largest weight of an example, "
            f"{caps.max():.3g}, is above {_LARGEST_WEIGHT:g}; scale the features down, or use a "
            "smaller C (np.inf for the hard margin)."
        )


def _check_caps(problem: Problem) -> None:
    """Refuse weights that vanish, or whose inverse overflows where the loss needs it."""
    least = float(problem.cap.min())
    if not least > (_SMALLEST_CAP if problem.machine.p == 2 else 0.0):
        raise ValueError("C: C times sample_weight vanishes in double precision; use a larger C.")


def _check_widths(problem: Problem) -> None:
    """Refuse widths with which the exponents of Gaussian kernels overflow."""
    if problem.norms is None:
        return
    norm = float(problem.norms.max(initial=0.0))
    if not np.isfinite(norm):
        raise ValueError("X: the squared norm of a row overflows; scale the features of X down.")
    for kernel in [part for beta, part in problem.kernel.parts if beta] or [problem.kernel]:
        largest = _LARGEST_EXPONENT.get(kernel.name)
        widest = float(np.max(kernel.gamma))
        if largest is not None and norm > 0.0 and np.log10(widest) + np.log10(norm) > largest:
            raise ValueError(
                f"gamma: {widest:.3g} times the largest squared norm of a row of X, {norm:.3g}, is "
                f"above 1e{largest}, where doubles hold no digit of the kernel; use a smaller "
                "gamma, or centre and scale the features of X."
            )


def _has_entries(X: Any) -> bool:
    return bool((X.data if sp.issparse(X) else X).any())


def _check_features(problem: Problem) -> None:
    """Refuse a hard margin where the constant of a penalised intercept hides the features."""
    kernel: Kernel = problem.kernel
    if not kernel.offset or problem.norms is None or not kernel.is_linear:
        return
    largest = float(problem.norms.max(initial=0.0))
    if 0.0 < largest < _VANISHING * kernel.offset:
        raise ValueError(
            f"X: its rows (largest norm {np.sqrt(largest):.3g}) vanish beside the constant "
            f"{np.sqrt(kernel.offset):.3g} of the penalised intercept; scale the features up, use "
            "a smaller intercept_scaling, or intercept='none'."
        )


@contextmanager
def refused_if_inexact(problem: Problem) -> Iterator[None]:
    """Turn a certificate that cannot be, after arithmetic that broke down, into a refusal.

    What overflows on the way is neither warned of nor raised, whatever the caller's ``np.errstate``
    is: the judge recomputes the certificate from the point that comes out.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except FloatingPointError as error:
        diagonal = problem.diagonal
        raise ValueError(
            f"X: double precision cannot solve this problem ({error}); its kernel values "
            f"kappa(x, x) lie between {diagonal.min():.1g} and {diagonal.max():.1g}: scale the "
            "features of X, or use another kernel or a smaller C."
        ) from error
