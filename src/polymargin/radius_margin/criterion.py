"""The radius-margin criterion at one point: machine, sphere, value and exact gradient.

One evaluation is one M-SVM^2 (or hard-margin Lee-Lin-Wahba) problem and one enclosing sphere, both
for kappa + delta / (2 C); by (9.8) only the explicit derivative of the kernel counts, so the
gradient costs one more pass over the kernel values, whatever the number of parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polymargin.certificate.certificate import Certificate
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import MACHINES
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, row_blocks
from polymargin.problem.validation import check_kernel
from polymargin.radius_margin.kernel_points import KernelPoints
from polymargin.radius_margin.sphere import SphereRun
from polymargin.solvers import solve
from polymargin.solvers.driver import Solution
from polymargin.solvers.run import Run

__all__ = ["Evaluation", "Sample", "Setting", "WarmStart", "evaluate", "solve_at"]

_BLOCK_CELLS = 1_000_000
_MOST_PASSES = 10_000


@dataclass(frozen=True)
class Setting:
    """Where the criterion is asked for: C, the parameters of the kernel, weights of a sum."""

    C: float
    gamma: Any = 1.0
    coef0: float = 0.0
    weights: Any = None


@dataclass(frozen=True)
class Sample:
    """The training set behind a criterion: rows with weight only.

    Attributes
    ----------
    X : the data, or the kernel matrix for "precomputed".
    label : (n,) class numbers.
    weight : (n,) C_i = C weight_i.
    classes : the labels behind the class numbers.
    kernel : str
    degree : float
    seed : int
        Order of visits of the solver.
    cache_mb : float
    n_jobs : int
    terms : Kernel or None
        The sum of kernels behind kernel="sum"; a setting may give it other weights.
    """

    X: Any
    label: np.ndarray
    weight: np.ndarray
    classes: np.ndarray
    kernel: str
    degree: float
    seed: int = 0
    cache_mb: float = 1000.0
    n_jobs: int = 1
    terms: Kernel | None = None

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def part(self, rows: np.ndarray) -> Sample:
        """Some examples; class numbers are made anew."""
        numbers, label = np.unique(self.label[rows], return_inverse=True)
        X = self.X[rows]
        if self.kernel == "precomputed":
            X = np.ascontiguousarray(X[:, rows])
        return replace(
            self,
            X=X,
            label=label.astype(np.int64),
            weight=self.weight[rows],
            classes=self.classes[numbers],
        )

    def kernel_at(self, setting: Setting) -> Kernel:
        if self.terms is not None:
            parts = self.terms.parts
            if setting.weights is not None:
                new = zip(setting.weights, parts, strict=True)
                parts = tuple((float(beta), part) for beta, (_, part) in new)
            return replace(self.terms, parts=parts)
        return Kernel(self.kernel, setting.gamma, self.degree, float(setting.coef0))

    def problem(self, setting: Setting) -> Problem:
        """M-SVM^2, or Lee-Lin-Wahba where the margin is hard, with its free intercept."""
        hard = bool(np.isinf(setting.C))
        cap = np.full(len(self.label), np.inf) if hard else setting.C * self.weight
        machine = MACHINES["llw" if hard else "msvm2"]
        return Problem(
            machine,
            self.kernel_at(setting),
            self.X,
            self.label,
            cap,
            self.label,
            np.arange(self.n_classes),
            self.n_jobs,
            has_free_bias=True,
        )


@dataclass(frozen=True)
class WarmStart:
    """What the next evaluation may begin with; it stays feasible for every setting."""

    alpha: np.ndarray
    bias: np.ndarray
    beta: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """The criterion at one setting.

    Attributes
    ----------
    setting : Setting
    norm2 : float
        N = sum_k ||w_k||^2 of (9.3), from the primal value: an upper bound.
    radius2, radius2_lower : float
        Certified bounds of the squared radius, with kappa + delta / (2 C).
    alpha : (n, Q) dual variables.
    T : (n, Q) their coefficients.
    beta : (n,) weights of the sphere's centre.
    bias : (Q,)
    certificate : Certificate
        Of the machine.
    status, sphere_status : str
        How the two solvers ended.
    slopes : mapping
        Derivatives of log(R^2 N) with respect to log C, log gamma (one or an array), coef0, and
        the logarithms of weights that are divided by their sum.
    """

    setting: Setting
    norm2: float
    radius2: float
    radius2_lower: float
    alpha: np.ndarray
    T: np.ndarray
    beta: np.ndarray
    bias: np.ndarray
    certificate: Certificate
    status: str
    sphere_status: str
    slopes: dict[str, Any]

    @property
    def log_product(self) -> float:
        """log(R^2 N): every bound of the (28) family is a constant times this product."""
        if not (self.norm2 > 0.0 and self.radius2 > 0.0):
            return np.inf
        return float(np.log(self.radius2) + np.log(self.norm2))

    def warm(self) -> WarmStart:
        return WarmStart(self.alpha, self.bias, self.beta)


def solve_at(
    problem: Problem,
    sample: Sample,
    tol: float,
    run: Run,
    start: WarmStart | None,
    max_passes: int = _MOST_PASSES,
) -> Solution:
    """The machine by block descent, from variables and intercept of a neighbouring setting."""
    part = run.part(seed=sample.seed, cache_mb=sample.cache_mb, tol=tol, max_iter=max_passes)
    point = None if start is None else DualPoint.from_dense(problem, -start.alpha, start.bias)
    return solve(problem, part, point)


def evaluate(
    sample: Sample,
    setting: Setting,
    tol: float,
    sphere_tol: float,
    run: Run,
    start: WarmStart | None = None,
    with_slopes: bool = True,
    kernel_psd: bool | None = True,
) -> Evaluation:
    """The criterion at a setting; the caller asks ``run`` whether it is whole."""
    problem = sample.problem(setting).changed(kernel_psd=kernel_psd)
    solution = solve_at(problem, sample, tol, run, start)
    machine, own = problem.machine, problem.own
    alpha = -solution.point.dense(problem)
    T = machine.coefficients(-alpha, own)
    if problem.is_hard:
        # the dual point on its ray (5.10): there sum alpha / (Q - 1) = ||w||^2
        reward, norm2 = machine.reward(-alpha, own), solution.judgement.norm2
        factor = reward / norm2 if norm2 > 0.0 else 1.0
        alpha, T = alpha * factor, T * factor
    ridge = np.zeros(len(own)) if problem.is_hard else 0.5 / problem.cap
    points = KernelPoints(problem.kernel, sample.X)
    sphere = SphereRun(points, ridge)
    beta, up, low, ended = sphere.solve(sphere_tol, run, None if start is None else start.beta)
    found = Evaluation(
        setting,
        2.0 * solution.judgement.certificate.primal,
        up,
        low,
        alpha,
        T,
        beta,
        solution.judgement.intercept * solution.judgement.scale,
        solution.judgement.certificate,
        solution.status,
        ended,
        {},
    )
    if with_slopes and np.isfinite(found.log_product):
        found.slopes.update(_slopes(points, found, ridge))
    return found


# -- the gradient (9.8) ------------------------------------------------------------------------


def _slopes(points: KernelPoints, at: Evaluation, ridge: np.ndarray) -> dict[str, Any]:
    """d log(R^2 N) = dR^2 / R^2 + dJ / J for every parameter of the kernel, and C."""
    J, R2 = 0.5 * at.norm2, at.radius2
    slopes: dict[str, Any] = {}
    if ridge.any():
        # dK~ = -1/(2 C_i) on the diagonal for log C
        of_margin = 0.5 * float((at.T**2).sum(axis=1) @ ridge)
        of_radius = -float((at.beta - at.beta**2) @ ridge)
        slopes["C"] = of_margin / J + of_radius / R2
    name = points.kernel.name
    if name == "rbf":
        slopes["gamma"] = _rbf_slope(points, at, J, R2)
    elif name == "poly":
        slopes["gamma"], slopes["coef0"] = _poly_slopes(points, at, J, R2)
    elif name == "sum":
        slopes["weights"] = _weight_slopes(points, at, J, R2)
    return slopes


def _weights_of_values(at: Evaluation, J: float, R2: float) -> tuple[np.ndarray, np.ndarray]:
    """Factors A, S: the explicit derivative is sum_ij (A S A')_ij dK_ij + diagonal terms."""
    A = np.concatenate([at.T, at.beta[:, None]], axis=1)
    S = np.full(A.shape[1], -0.5 / J)
    S[-1] = -1.0 / R2
    return A, S


def _rbf_slope(points: KernelPoints, at: Evaluation, J: float, R2: float) -> Any:
    """sum_ij W_ij dK_ij with dK_ij = -gamma_f (x_if - x_jf)^2 K_ij, widths together or apart."""
    A, S = _weights_of_values(at, J, R2)
    n = points.n_points
    everyone = np.arange(n)
    per_feature = isinstance(points.kernel.gamma, np.ndarray)
    total: Any = np.zeros(points.X.shape[1]) if per_feature else 0.0
    size = max(16, _BLOCK_CELLS // max(n, 1))
    Z = points.X
    for rows in row_blocks(n, size):
        D = points.squared_distances(rows, everyone)
        M = np.exp(-D)
        M *= (A[rows] * S) @ A.T
        if not per_feature:
            total -= float(np.einsum("ij,ij->", M, D))
            continue
        # (z_if - z_jf)^2 multiplied out; Z carries the square roots of the widths
        squares = Z.multiply(Z) if hasattr(Z, "multiply") else Z * Z
        some = Z[rows]
        own = some.multiply(some) if hasattr(some, "multiply") else some * some
        cross = M @ Z
        cross = (
            some.multiply(cross).sum(axis=0)
            if hasattr(some, "multiply")
            else (some * cross).sum(axis=0)
        )
        total -= np.asarray(own.T @ M.sum(axis=1)).ravel()
        total -= np.asarray(squares.T @ M.sum(axis=0)).ravel()
        total += 2.0 * np.asarray(cross).ravel()
    return total


def _poly_slopes(points: KernelPoints, at: Evaluation, J: float, R2: float) -> tuple[float, float]:
    """d/dlog gamma and d/dcoef0 of (gamma ⟨x, z⟩ + coef0)^degree."""
    A, S = _weights_of_values(at, J, R2)
    kernel, n = points.kernel, points.n_points
    assert points.norms is not None

    def derivatives(G: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        along = kernel.degree * np.power(kernel.gamma * G + kernel.coef0, kernel.degree - 1.0)
        return along * (kernel.gamma * G), along

    own_gamma, own_coef0 = derivatives(points.norms)
    d_gamma = float(at.beta @ own_gamma) / R2
    d_coef0 = float(at.beta @ own_coef0) / R2
    everyone = np.arange(n)
    for rows in row_blocks(n, max(16, _BLOCK_CELLS // max(n, 1))):
        by_gamma, by_coef0 = derivatives(points.products(rows, everyone))
        W = (A[rows] * S) @ A.T
        d_gamma += float(np.einsum("ij,ij->", W, by_gamma))
        d_coef0 += float(np.einsum("ij,ij->", W, by_coef0))
    return d_gamma, d_coef0


def _weight_slopes(points: KernelPoints, at: Evaluation, J: float, R2: float) -> np.ndarray:
    """d/dlog beta_m along sum beta = 1: beta_m (g_m - sum_l beta_l g_l), g_m = d/dbeta_m.

    beta is a point of the simplex; the kernel is linear in it, dK/dbeta_m = K_m.
    """
    A, S = _weights_of_values(at, J, R2)
    X, n, norms = points.X, points.n_points, points.norms
    assert norms is not None
    parts = points.kernel.parts
    beta = np.array([weight for weight, _ in parts])
    slopes = np.array([float(at.beta @ part.diagonal(X, norms)) / R2 for _, part in parts])
    for rows in row_blocks(n, max(16, _BLOCK_CELLS // max(n, 1))):
        W = (A[rows] * S) @ A.T
        for m, (_, part) in enumerate(parts):
            slopes[m] += float(np.einsum("ij,ij->", W, part.block(X[rows], X, norms[rows], norms)))
    total = float(beta.sum())
    return np.asarray(beta * (slopes - float(beta @ slopes) / total))


def definiteness(sample: Sample, setting: Setting) -> bool | None:
    """What is known of the kernel at a setting; refuses what no kernel can be."""
    return check_kernel(sample.problem(setting))
