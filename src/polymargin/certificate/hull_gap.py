"""The judge of convex-hull prototypes: f, its lower bound and the gap, in plain float64 NumPy.

It knows no solver.  ``linear_minimum``, ``thresholds`` and ``judge_hulls`` are the slow, obvious
voice that tests hold the compiled one to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from polymargin.certificate.certificate import Certificate, Judgement
from polymargin.certificate.training_scores import prototypes
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import OutOfTimeError, Problem, row_blocks
from polymargin.problem.scoring import KernelModel, linear_scores

__all__ = [
    "MEETING",
    "HullJudgement",
    "centred_prototypes",
    "certify_hulls",
    "class_members",
    "hull_coefficients",
    "hull_weights",
    "judge_hulls",
    "linear_minimum",
    "spread",
    "thresholds",
]

MEETING = 1e-12
"""Hulls whose f is below this fraction of the data's squared radius are said to meet (19.5)."""

_BLOCK = 8192


@dataclass(frozen=True)
class HullJudgement(Judgement):
    """A judgement of hull weights: ``primal`` is f(u) of (7.1), ``dual`` the value of (7.4).

    ``W`` are the centred prototypes v_k - c of a linear kernel, ``intercept`` is minus
    ``centre_offset``, ``norm2`` is sum_k ||v_k - c||^2.

    Attributes
    ----------
    gradient : (n,) g of (7.5), or None where there was no time to compute it.
    centre_offset : (Q,) ⟨v_k - c, c⟩, what (7.3) subtracts.
    threshold : (Q,) mu_k of (7.6).
    """

    gradient: np.ndarray | None = None
    centre_offset: np.ndarray = field(default_factory=lambda: np.empty(0))
    threshold: np.ndarray = field(default_factory=lambda: np.empty(0))


def class_members(label: np.ndarray, n_classes: int) -> list[np.ndarray]:
    """Examples of each class, ascending."""
    order = np.argsort(label, kind="stable")
    first = np.searchsorted(label[order], np.arange(n_classes + 1))
    return [order[first[k] : first[k + 1]] for k in range(n_classes)]


def hull_coefficients(label: np.ndarray, u: np.ndarray, n_classes: int) -> np.ndarray:
    """Coefficients (s, Q) of the centred prototypes v_k - c: u_i (1[y_i = k] - 1/Q)."""
    tau = np.repeat(-u[:, None] / n_classes, n_classes, axis=1)
    tau[np.arange(len(u)), label] += u
    return tau


def centred_prototypes(problem: Problem, support: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """v_k - c (Q, d) of a linear kernel from the coefficients above.

    Their columns sum to zero, so the data may be shifted: near the origin less is lost to rounding.
    """
    X = problem.X
    if sp.issparse(X):
        return prototypes(problem, support, tau)
    shift = X[support[:256]].mean(axis=0, dtype=np.float64)
    W = np.zeros((tau.shape[1], X.shape[1]))
    for rows in row_blocks(len(support), 2048):
        W += tau[rows].T @ (X[support[rows]] - shift)
    return W


def linear_minimum(g: np.ndarray, cap: np.ndarray, members: Sequence[np.ndarray]) -> np.ndarray:
    """The vertex s of (7.1) with the smallest g's: caps to the smallest g until the sum is 1."""
    s = np.zeros_like(g)
    for own in members:
        order = own[np.argsort(g[own], kind="stable")]
        room = cap[order]
        before = np.cumsum(room) - room
        s[order] = np.minimum(room, np.maximum(1.0 - before, 0.0))
    return s


def thresholds(
    g: np.ndarray, u: np.ndarray, cap: np.ndarray, members: Sequence[np.ndarray]
) -> np.ndarray:
    """mu_k of (7.6): the mean of g over the free weights, else the middle of what is allowed.

    A cap of 1 binds nothing, so a weight of 1 below such a cap counts as free.
    """
    mu = np.empty(len(members))
    for k, own in enumerate(members):
        weight, room, slope = u[own], cap[own], g[own]
        free = (weight > 0.0) & ((weight < room) | (room >= 1.0))
        if free.any():
            mu[k] = slope[free].mean()
            continue
        highest = float(slope[weight > 0.0].max())
        lowest = float(slope[weight < room].min(initial=np.inf))
        mu[k] = highest if np.isinf(lowest) else 0.5 * (highest + lowest)
    return mu


def spread(problem: Problem) -> float:
    """Squared radius that f is compared with: max K_ii; linear: around the mean (f sees no shift).

    A kernel that is zero everywhere counts as 1.
    """
    if not problem.kernel.is_linear:
        return float(problem.diagonal.max()) or 1.0
    X = problem.X
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    if sp.issparse(X):
        norms = problem.norms
        assert norms is not None
        squares = norms - 2.0 * np.asarray(X @ mean).ravel() + mean @ mean
        return max(float(squares.max()), 0.0) or 1.0
    largest = 0.0
    for rows in row_blocks(X.shape[0], _BLOCK):
        centred = X[rows] - mean
        largest = max(largest, float(np.einsum("ij,ij->i", centred, centred).max()))
    return largest or 1.0


def certify_hulls(value: float, gap: float, scale: float, psd: bool | None) -> Certificate:
    """f, f - gap and gap / max(f, 1e-12 max K_ii) (19.5); a negative gap beyond rounding raises."""
    if gap < 0.0:
        if gap < -1e-9 * max(abs(value), MEETING * scale) - 1e-14 * scale and psd is True:
            raise FloatingPointError(f"negative duality gap {gap:.3e} at f = {value:.6e}")
        gap = 0.0
    size = max(value, MEETING * scale)
    relative = gap / size if size > 0.0 else np.inf if gap > 0.0 else 0.0
    return Certificate(value, value - gap, gap, relative, psd)


def judge_hulls(
    problem: Problem,
    point: DualPoint,
    scale: float,
    why_stop: Callable[[], str | None] | None = None,
) -> HullJudgement:
    """Certify hull weights (all others zero).

    Parameters
    ----------
    problem : Problem
        ``cap`` are the upper bounds eta * w_i of (7.1).
    point : DualPoint
        The weights u as variables of the own class, feasible for (7.1).
    scale : float
        From ``spread``.
    why_stop : callable or None
        Asked between blocks; a reason ends the work without a certificate (gap infinite): scores
        of the support alone are computed then, which the offset of the model needs.
    """
    n, Q = problem.n_patterns, problem.n_prototypes
    support, u = point.support, hull_weights(problem, point)
    _check_feasible(problem, support, u)
    W, score = _scorer(problem, support, hull_coefficients(problem.label[support], u, Q))
    gradient: np.ndarray | None = np.empty(n)
    at_support = np.empty((len(support), Q))
    place = np.full(n, -1)
    place[support] = np.arange(len(support))
    try:
        for rows in row_blocks(n, _BLOCK):
            if why_stop is not None and why_stop():
                raise OutOfTimeError
            S = score(rows)
            assert gradient is not None
            gradient[rows] = 2.0 * Q * S[np.arange(len(S)), problem.label[rows]]  # (7.5)
            here = place[rows] >= 0
            at_support[place[rows][here]] = S[here]
    except OutOfTimeError:
        gradient = None
        at_support = score(support)
    own = at_support[np.arange(len(support)), problem.label[support]]
    value = _checked_value(problem, float(Q * (u @ own)), u, support)
    offset = u @ at_support / Q
    if gradient is None:
        certificate = Certificate(value, -np.inf, np.inf, np.inf, problem.kernel_psd)
        mu = 2.0 * Q * np.bincount(problem.label[support], u * own, Q)
        return _judgement(certificate, W, value / Q, None, offset, mu)
    full = np.zeros(n)
    full[support] = u
    members = class_members(problem.label, Q)
    gap = float((full - linear_minimum(gradient, problem.cap, members)) @ gradient)  # (7.7)
    certificate = certify_hulls(value, gap, scale, problem.kernel_psd)
    mu = thresholds(gradient, full, problem.cap, members)
    return _judgement(certificate, W, value / Q, gradient, offset, mu)


def _judgement(
    certificate: Certificate,
    W: np.ndarray | None,
    norm2: float,
    gradient: np.ndarray | None,
    offset: np.ndarray,
    mu: np.ndarray,
) -> HullJudgement:
    return HullJudgement(
        certificate, W, -offset, np.nan, norm2,
        gradient=gradient, centre_offset=offset, threshold=mu,
    )  # fmt: skip


def hull_weights(problem: Problem, point: DualPoint) -> np.ndarray:
    """(s,) the weights u of the examples ``point.support``."""
    return np.asarray(point.V[np.arange(len(point.support)), problem.label[point.support]])


def _check_feasible(problem: Problem, support: np.ndarray, u: np.ndarray) -> None:
    sums = np.bincount(problem.label[support], u, problem.n_prototypes)
    violation = max(
        float(np.abs(sums - 1.0).max()),
        float(-u.min(initial=0.0)),
        float((u - problem.cap[support]).max(initial=0.0)),
    )
    if not violation <= 1e-9:
        raise FloatingPointError(f"the weights are not feasible (by {violation:.1e})")


def _checked_value(problem: Problem, value: float, u: np.ndarray, support: np.ndarray) -> float:
    """f(u); refused where it proves the kernel indefinite or not finite (19.6)."""
    if not np.isfinite(value):
        raise ValueError("kernel: its values overflow on these data; scale the features of X.")
    weight = float(u @ np.sqrt(problem.diagonal[support]))
    if value < -1e-9 * weight**2 and problem.kernel_psd is not True:
        raise ValueError(
            "kernel: u'Kbar u is negative, the kernel matrix is not positive semi-definite "
            "on these data; use another kernel or add a multiple of the identity."
        )
    return max(value, 0.0)


def _scorer(
    problem: Problem, support: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray | None, Callable[[slice | np.ndarray], np.ndarray]]:
    """Centred prototypes (linear kernels) and scores ⟨v_k - c, phi(x)⟩ of training examples."""
    X, zero = problem.X, np.zeros(problem.n_prototypes)
    if problem.kernel.is_linear:
        W = centred_prototypes(problem, support, tau)
        return W, lambda rows: linear_scores(X[rows], W, zero, problem.n_jobs)
    landmarks = support if problem.kernel.name == "precomputed" else X[support]
    model = KernelModel(problem.kernel, landmarks, tau, zero)
    return None, lambda rows: model.scores(X[rows], np.float64, problem.n_jobs)
