"""The smallest sphere that encloses points in the feature space of a kernel, certified.

Problem card (8.1)::

    R^2 = max over beta  sum_i beta_i K_ii - beta'K beta ,   beta >= 0, sum_i beta_i = 1

The centre is a = sum_i beta_i phi(x_i).  Any beta gives a lower bound (the value) and an upper one
(the largest squared distance from a): (8.3).  A working set grows by the points that lie farthest
outside; on it pairs of weights move, and where that creeps the weights of the support are found
from one linear system.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from polymargin.compiled.sphere_steps import descend_weights
from polymargin.compiled.threads import single_threaded_libraries
from polymargin.exceptions import shown, warn_user
from polymargin.problem.kernels import KERNELS, Kernel, resolve_gamma
from polymargin.problem.machines import MACHINES
from polymargin.problem.problem import Problem, row_blocks
from polymargin.problem.validation import canonical, check_kernel, check_number, well_formed
from polymargin.radius_margin.kernel_points import KernelPoints
from polymargin.solvers.hulls.free_weights import descend_on_face
from polymargin.solvers.run import Run, Stop, deferred_interrupt

__all__ = ["EnclosingSphere", "SphereRun", "smallest_enclosing_sphere"]

_WHOLE = 400  # all points are in play at once
_FIRST = 300  # points in play at the beginning, where there are more
_STEPS_PER_POINT = 4  # pair steps per point before the support's linear system is tried
_LARGEST_FACE = 4000
_ROUNDS = 400


@dataclass(frozen=True)
class EnclosingSphere:
    r"""The smallest enclosing sphere of points, with its proof.

    Attributes
    ----------
    radius2 : float
        Squared radius that encloses every point from this centre: an upper bound of the smallest.
    radius2_lower : float
        Certified lower bound of the smallest squared radius.
    gap, relative_gap : float
        ``radius2 - radius2_lower``, and divided by ``radius2``.
    weights : ndarray of shape (n_points,)
        :math:`\beta`: the centre is :math:`\sum_i \beta_i\, \varphi(x_i)`.
    support : ndarray of int
        Points with weight.
    center : ndarray of shape (n_features,) or None
        The centre itself, for the linear kernel without ridge.
    status : str
        "converged", "max_iter", "max_time", "interrupted" or "stalled" (the digits allow no more).
    n_iter : int
        Pair steps made.
    kernel_psd : bool or None
        Whether the kernel is known to be positive semi-definite; otherwise the bounds prove
        nothing.

    See Also
    --------
    smallest_enclosing_sphere : Makes it.

    Examples
    --------
    >>> from polymargin import smallest_enclosing_sphere
    >>> sphere = smallest_enclosing_sphere([[0.0], [2.0], [1.0]], kernel="linear")
    >>> round(sphere.radius2, 3)
    1.0
    """

    radius2: float
    radius2_lower: float
    weights: np.ndarray
    support: np.ndarray
    center: np.ndarray | None
    status: str
    n_iter: int
    kernel_psd: bool | None = True
    _points: KernelPoints | None = field(default=None, repr=False, compare=False)

    @property
    def gap(self) -> float:
        return max(self.radius2 - self.radius2_lower, 0.0)

    @property
    def relative_gap(self) -> float:
        return self.gap / self.radius2 if self.radius2 > 0.0 else 0.0

    @property
    def radius(self) -> float:
        return float(np.sqrt(self.radius2))

    @property
    def diameter2(self) -> float:
        """:math:`(2 R)^2`, (8.2)."""
        return 4.0 * self.radius2

    def distances2(self) -> np.ndarray:
        """Squared distances of the points from the centre, a ridge not counted."""
        if self._points is None:
            raise ValueError("this record was made without its points.")
        sphere = SphereRun(self._points, np.zeros(self._points.n_points))
        return sphere.slopes(self.weights) + sphere.centre_norm2(self.weights)


class SphereRun:
    """The search for the weights; ``solve`` goes to a relative gap.

    Parameters
    ----------
    points : KernelPoints
    ridge : (n,) added to the diagonal: 1 / (2 C_i) for M-SVM^2, zero for plain spheres.
    """

    def __init__(self, points: KernelPoints, ridge: np.ndarray) -> None:
        self.points = points
        self.ridge = ridge
        self.diagonal = points.diagonal() + ridge
        self.whole = points.n_points <= _WHOLE
        self.steps = 0
        self.tell: Callable[[float, float, int], None] | None = None

    # -- pieces of (8.3) -----------------------------------------------------------------------

    def slopes(self, beta: np.ndarray) -> np.ndarray:
        """K_ii - 2 (K beta)_i of all points, from scratch."""
        points = self.points
        support = np.flatnonzero(beta)
        some = beta[support]
        if points.kernel.is_linear:
            centre = np.asarray(points.X[support].T @ some).ravel()
            product = np.asarray(points.X @ centre).ravel()
        else:
            product = np.empty(points.n_points)
            for rows in row_blocks(points.n_points, max(16, 4_000_000 // max(len(support), 1))):
                product[rows] = points.block(rows, support) @ some
        return np.asarray(self.diagonal - 2.0 * (product + self.ridge * beta))

    def centre_norm2(self, beta: np.ndarray) -> float:
        """beta'K beta, from the slopes."""
        return float(0.5 * beta @ (self.diagonal - self.slopes(beta)))

    def bounds(self, beta: np.ndarray, slope: np.ndarray) -> tuple[float, float]:
        """R_up^2 and R_lo^2 of (8.3)."""
        square = 0.5 * float(beta @ (self.diagonal - slope))
        return float(slope.max()) + square, float(beta @ slope) + square

    # -- the working set -----------------------------------------------------------------------

    def first_weights(self) -> np.ndarray:
        """Half on each of two points far apart."""
        beta = np.zeros(self.points.n_points)
        beta[0] = 1.0
        far = int(self.slopes(beta).argmax())
        beta[0], beta[far] = 0.0, 1.0
        farther = int(self.slopes(beta).argmax())
        if farther != far:
            beta[far] = beta[farther] = 0.5
        return beta

    def first_set(self, beta: np.ndarray, slope: np.ndarray) -> np.ndarray:
        if self.whole:
            return np.arange(len(beta))
        return np.union1d(np.flatnonzero(beta), np.argsort(-slope, kind="stable")[:_FIRST])

    def matrix(self, members: np.ndarray) -> np.ndarray:
        """Kernel matrix of the set, the ridge on its diagonal."""
        K = np.ascontiguousarray(self.points.block(members, members))
        at = np.arange(len(members))
        K[at, at] = self.diagonal[members]
        return K

    def solve(
        self, tol: float, run: Run, start: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float, str]:
        """Weights, R_up^2, R_lo^2 and how it ended."""
        beta = self.first_weights() if start is None else start / start.sum()
        slope = self.slopes(beta)
        members = self.first_set(beta, slope)
        K = self.matrix(members)
        best = (*self.bounds(beta, slope), beta)
        idle = 0
        for _ in range(_ROUNDS):
            up, low = self.bounds(beta, slope)
            if self.tell is not None:
                self.tell(up, low, len(members))
            idle = idle + 1 if up - low >= 0.9 * (best[0] - best[1]) else 0
            low = max(low, best[1])
            best = (up, low, beta.copy()) if up <= best[0] else (best[0], low, best[2])
            if up - low <= tol * up or up <= 1e-15 * float(np.abs(self.diagonal).max()):
                return best[2], best[0], best[1], "converged"
            reason = run.why_stop(self.steps)
            if reason is not None:
                return best[2], best[0], best[1], reason
            if idle > 6:
                break
            grown = self.grow(members, beta, slope)
            if grown is not None:
                members = grown
                K = self.matrix(members)
            beta = self.descend(K, members, beta, slope, 0.3 * tol * up, run)
            slope = self.slopes(beta)
        return best[2], best[0], best[1], "stalled"

    def grow(self, members: np.ndarray, beta: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """The set with the points farthest outside; points long inside leave.  None: no change."""
        if self.whole:
            return None
        inside = float(slope[beta > 0.0].min())
        outside = np.flatnonzero(slope > inside)
        new = np.setdiff1d(outside, members, assume_unique=True)
        if not len(new):
            return None
        new = new[np.argsort(-slope[new], kind="stable")][: max(_FIRST, len(members) // 2)]
        stays = members[(beta[members] > 0.0) | (slope[members] >= inside - abs(inside) * 0.1)]
        return np.union1d(stays, new)

    def descend(
        self,
        K: np.ndarray,
        members: np.ndarray,
        beta: np.ndarray,
        slope: np.ndarray,
        target: float,
        run: Run,
    ) -> np.ndarray:
        """Weights of the set moved towards its own smallest sphere."""
        u, g = beta[members].copy(), slope[members].copy()
        left = _STEPS_PER_POINT * len(u) + 100
        gap = np.inf
        while left > 0 and run.why_end() is None:
            piece = min(left, max(50, 40_000_000 // len(u)))
            steps, gap = descend_weights(K, u, g, target, piece)
            self.steps += steps
            left -= piece
            if steps < piece:
                break
        support = np.flatnonzero(u > 0.0)
        if gap > target and len(support) <= _LARGEST_FACE and run.why_end() is None:
            H = 2.0 * K[np.ix_(support, support)]
            g = H @ u[support] - self.diagonal[members[support]]
            cap = np.full(len(support), np.inf)
            u[support] = descend_on_face(H, g, u[support], cap, np.zeros(len(support), dtype=int))
        out = np.zeros(len(beta))
        out[members] = u / u.sum()
        return out


def smallest_enclosing_sphere(
    X: Any,
    kernel: str | Callable[..., Any] = "linear",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    ridge: Any = 0.0,
    tol: float = 1e-8,
    max_iter: int = 10_000_000,
    max_time: float | None = None,
    verbose: int = 0,
) -> EnclosingSphere:
    """The smallest sphere around points in the feature space of a kernel.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_points, n_features), or the kernel matrix
        The matrix for ``kernel="precomputed"``.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
    gamma : float, "scale", "auto" or array of shape (n_features,), default="scale"
        An array is one width per feature (rbf only).
    degree, coef0 : float, default=3, 0.0
        As in ``MulticlassSVC``.
    ridge : float or array of shape (n_points,), default=0.0
        Added to the diagonal of the kernel matrix: ``1 / (2 * C)`` gives the sphere of M-SVM².
    tol : float, default=1e-8
        Relative gap between the certified bounds of the squared radius.
    max_iter : int, default=10_000_000
        Pair steps.
    max_time : float or None, default=None
        Seconds; the best sphere so far is returned, with a warning.
    verbose : int, default=0
        1 prints a line per look at all points.

    Returns
    -------
    EnclosingSphere

    See Also
    --------
    radius_margin_bound : Uses the radius.
    EnclosingSphere : What it returns.

    Examples
    --------
    >>> from polymargin import smallest_enclosing_sphere
    >>> sphere = smallest_enclosing_sphere([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> round(sphere.radius2, 6)
    1.0
    """
    check_number("tol", tol, above=0.0)
    if max_time is not None:
        check_number("max_time", max_time, above=0.0)
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 1:
        raise ValueError(f"max_iter must be an integer >= 1, got {shown(max_iter)}.")
    made, data, psd = _checked(X, kernel, gamma, degree, coef0)
    n = data.shape[0]
    weights_of_ridge = _checked_ridge(ridge, n)
    run = Run(Stop(tol, int(max_iter), max_time))
    with single_threaded_libraries(), deferred_interrupt(run.clock):
        points = KernelPoints(made, data)
        sphere = SphereRun(points, weights_of_ridge)
        sphere.tell = _Lines(verbose).tell if verbose else None
        beta, up, low, status = sphere.solve(tol, run)
    center = None
    if made.is_linear and not weights_of_ridge.any():
        center = np.asarray(data.T @ beta).ravel()
    found = EnclosingSphere(
        up, low, beta, np.flatnonzero(beta), center, status, sphere.steps, psd, points
    )
    if status != "converged" and found.relative_gap > tol:
        warn_user(
            f"The enclosing sphere ended ({status}) with a relative gap of "
            f"{found.relative_gap:.2e}, above tol={tol:g}. Increase tol, max_iter or max_time, or "
            "scale the features.",
            ConvergenceWarning,
        )
    return found


def _checked(
    X: Any, kernel: str | Callable[..., Any], gamma: Any, degree: float, coef0: float
) -> tuple[Kernel, Any, bool | None]:
    """The kernel, the data and what is known of definiteness; refusals name the argument."""
    if not callable(kernel) and kernel not in (*KERNELS, "precomputed"):
        raise ValueError(
            f"kernel must be one of {[*KERNELS, 'precomputed']} or a callable, got {shown(kernel)}."
        )
    name = "callable" if callable(kernel) else str(kernel)
    data = canonical(
        check_array(
            well_formed(X),
            accept_sparse=False if name == "precomputed" else "csr",
            dtype=[np.float64, np.float32],
            order="C",
            input_name="X",
        )
    )
    if name == "precomputed" and data.shape[0] != data.shape[1]:
        raise ValueError(f"X must be square for kernel='precomputed', got shape {data.shape}.")
    check_number("degree", degree, above=0.0)
    check_number("coef0", coef0)
    widths: Any = 1.0
    if name in ("rbf", "poly", "sigmoid"):
        widths = resolve_gamma(gamma, data)
        if np.ndim(widths) and name != "rbf":
            raise ValueError(f"gamma: one width per feature is known to 'rbf' only, not {name!r}.")
    made = Kernel(
        name, widths, float(degree), float(coef0), 0.0, kernel if callable(kernel) else None
    )
    zeros = np.zeros(data.shape[0], dtype=np.int64)
    problem = Problem(
        MACHINES["msvm2"], made, data, zeros, np.ones(len(zeros)), zeros, np.zeros(1, dtype=int)
    )
    return made, data, check_kernel(problem)


def _checked_ridge(ridge: Any, n: int) -> np.ndarray:
    try:
        values = np.broadcast_to(np.asarray(ridge, dtype=np.float64), (n,)).copy()
    except (TypeError, ValueError):
        raise ValueError(
            f"ridge must be a number or one number per point ({n}), got {shown(ridge)}."
        ) from None
    if not np.isfinite(values).all() or (values < 0.0).any():
        raise ValueError("ridge must be finite and not negative.")
    return values


class _Lines:
    """Progress for people."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self.started = time.perf_counter()

    def tell(self, up: float, low: float, members: int) -> None:
        seconds = time.perf_counter() - self.started
        print(
            f"[polymargin] {seconds:8.2f} s  radius^2 in [{low:.10g}, {up:.10g}]  "
            f"gap {(up - low) / up if up > 0.0 else 0.0:.2e}  points in play {members}",
            flush=True,
        )
