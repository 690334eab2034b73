"""The radius-margin bound of M-SVM^2 and of the hard-margin Lee-Lin-Wahba machine, with gradient.

The bound is on the number of leave-one-out errors.  It is vacuous as an error estimate; its use is
that its minimiser over C and the kernel's parameters is found by gradients (see ``tuning``).
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from polymargin.certificate.certificate import Certificate
from polymargin.compiled.threads import single_threaded_libraries
from polymargin.exceptions import shown, warn_user
from polymargin.problem.encoding import encode
from polymargin.problem.kernels import KERNELS, resolve_gamma
from polymargin.problem.problem import row_blocks
from polymargin.problem.validation import canonical, check_number, well_formed
from polymargin.radius_margin.criterion import Evaluation, Sample, Setting, definiteness, evaluate
from polymargin.radius_margin.kernel_points import KernelPoints
from polymargin.radius_margin.lemma_counts import dual_error, lemma_counts
from polymargin.radius_margin.sphere import EnclosingSphere
from polymargin.solvers.run import Run, Stop, deferred_interrupt

__all__ = ["RadiusMarginBound", "bound_factor", "radius_margin_bound", "read_sample"]

DIFFERENTIABLE = ("linear", "rbf", "poly", "precomputed")
_MOST_STEPS = 10**9
_MOST_EIGENVALUES = 2000  # examples whose kernel matrix is decomposed: seconds beyond that


@dataclass(frozen=True)
class RadiusMarginBound:
    r"""Upper bounds on the number of leave-one-out errors, and what stands behind them.

    Attributes
    ----------
    value : float
        (28) of the source, (9.4): :math:`\frac{(Q-1)^4}{Q}\, 4 R^2 \sum_k \|w_k\|^2`.
    sharper : float
        (30), (9.5): with the largest dual variable of each example; at most ``value``.
    one_vs_one : float
        (31), (9.6): the same for all pairs of classes, each with its own machine and sphere.
    tight : float
        (9.7): ``sharper`` with the constants that the proof allows.
    tight_value : float
        (9.7): ``value`` with these constants.
    count, sharper_count : int
        Examples whose largest dual variable reaches the threshold of Lemma 1, and the one that its
        proof allows (``lemma_counts``): bounds on the same errors that are at most n.
    radius2, diameter2 : float
        :math:`R^2` and :math:`(2 R)^2` of the smallest enclosing sphere, with
        :math:`\kappa + \delta / (2 C)`.
    gradient : dict
        Derivatives of ``value`` with respect to log "C" (finite C only), log "gamma" (rbf, poly;
        an array where gamma is one), and "coef0" itself (poly).
    certificate : Certificate
        Of the machine; the sum of squared norms in ``value`` is twice ``certificate.primal``.
    sphere : EnclosingSphere
    pair_certificates : dict
        (k, l) to the certificate of that pair's machine.
    C, gamma, coef0
        Where the bound was computed; gamma as a number or an array.
    n_examples, n_classes : int
    status : str
        "converged", or how the solver that did not end so ended.

    See Also
    --------
    radius_margin_bound : Makes it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import radius_margin_bound
    >>> X, y = load_iris(return_X_y=True)
    >>> bound = radius_margin_bound(X, y, C=1.0, kernel="rbf", gamma=0.5)
    >>> bound.tight <= bound.sharper <= bound.value
    True
    """

    value: float
    sharper: float
    one_vs_one: float
    tight: float
    tight_value: float
    count: int
    sharper_count: int
    radius2: float
    diameter2: float
    gradient: dict[str, Any]
    certificate: Certificate
    sphere: EnclosingSphere
    pair_certificates: Mapping[tuple[int, int], Certificate]
    C: float
    gamma: Any
    coef0: float
    n_examples: int
    n_classes: int
    status: str

    @property
    def is_vacuous(self) -> bool:
        """Whether no bound here is below the number of examples."""
        counts = min(self.count, self.sharper_count)
        return min(self.tight, self.sharper, self.one_vs_one, counts) >= self.n_examples


def bound_factor(n_classes: int) -> float:
    """(28) is this times R^2 N."""
    return 4.0 * (n_classes - 1.0) ** 4 / n_classes


def radius_margin_bound(
    X: Any,
    y: Any,
    C: float = 1.0,
    kernel: str | Callable[..., Any] = "rbf",
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    sample_weight: Any = None,
    tol: float = 1e-9,
    max_time: float | None = None,
    cache_mb: float = 1000,
    random_state: int = 0,
    verbose: int = 0,
) -> RadiusMarginBound:
    r"""Bounds on the leave-one-out errors of M-SVM², with the gradient of the first of them.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features), or the kernel matrix
        The matrix for ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Every class needs at least two examples.
    C : float, default=1.0
        ``np.inf`` is the hard-margin Lee-Lin-Wahba machine; classes that cannot be separated are an
        error then.
    kernel : {"linear", "rbf", "poly", "precomputed"}, default="rbf"
        A precomputed kernel has a derivative with respect to C only.
    gamma : float, "scale", "auto" or array of shape (n_features,), default="scale"
        An array is one width per feature, :math:`\exp(-\sum_f \gamma_f (x_f - z_f)^2)`, rbf only.
    degree, coef0 : float, default=3, 0.0
        poly: :math:`(\gamma \langle x, z\rangle + c_0)^d`, d the degree and :math:`c_0` coef0.
    sample_weight : array-like of shape (n_samples,) or None
        :math:`C_i` is C times the weight of example i; examples without weight are left out.
    tol : float, default=1e-9
        Relative duality gap of the machines and relative gap of the spheres.  The gradient is
        good to about the square root of it.
    max_time : float or None, default=None
        Seconds; what is not certified by then is an error, what is only less exact a warning.
    cache_mb : float, default=1000
        Memory for kernel rows in megabytes.
    random_state : int, default=0
    verbose : int, default=0
        1 prints a line per machine solved.

    Returns
    -------
    RadiusMarginBound

    See Also
    --------
    tune_radius_margin : Minimises it over C and kernel.
    smallest_enclosing_sphere : The radius.
    leave_one_out_count : A bound for every machine, by counting.
    leave_one_out : The exact number.
    RadiusMarginBound : What it returns.

    Notes
    -----
    The value is a criterion, not an error estimate: it is usually many times the number of
    examples.

    References
    ----------
    Guermeur & Monfrini, Informatica 22 (2011) 73-96.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import radius_margin_bound
    >>> X, y = load_iris(return_X_y=True)
    >>> bound = radius_margin_bound(X, y, C=1.0, gamma=0.5)
    >>> bound.tight <= bound.sharper <= bound.value
    True
    >>> sorted(bound.gradient)
    ['C', 'gamma']
    """
    check_C(C)
    check_number("tol", tol, above=0.0)
    if max_time is not None:
        check_number("max_time", max_time, above=0.0)
    sample = read_sample(
        X, y, kernel, degree, sample_weight, cache_mb=cache_mb, random_state=random_state
    )
    check_number("coef0", coef0)
    counted = None if sample_weight is None else sample.weight
    setting = Setting(float(C), read_gamma(sample, gamma, counted), float(coef0))
    psd = definiteness(sample, setting)
    run = Run(Stop(tol, _MOST_STEPS, max_time))
    with single_threaded_libraries(), deferred_interrupt(run.clock):
        found = evaluate(sample, setting, tol, tol, run, kernel_psd=psd)
        _tell(verbose, run, "all classes", found)
        require_finite(found, run)
        pairs = _pairs(sample, setting, tol, run, verbose)
    if run.interrupted:
        raise KeyboardInterrupt
    record = _record(sample, found, pairs, psd)
    if record.status != "converged":
        warn_user(
            f"radius_margin_bound ended ({record.status}) with a relative gap of "
            f"{found.certificate.relative_gap:.2e} of the machine and "
            f"{record.sphere.relative_gap:.2e} of the sphere (tol={tol:g}): value and "
            "tight_value are still bounds, the others and the gradient are less exact. Increase "
            "tol or max_time, or scale the features.",
            ConvergenceWarning,
        )
    return record


# -- what users pass in --------------------------------------------------------------------------


def check_C(C: Any) -> None:
    if isinstance(C, bool) or not isinstance(C, numbers.Real) or not float(C) > 0:
        raise ValueError(f"C must be a number > 0 (np.inf for the hard margin), got {shown(C)}.")


def read_sample(
    X: Any,
    y: Any,
    kernel: Any,
    degree: float,
    sample_weight: Any,
    class_weight: Any = None,
    cache_mb: float = 1000,
    random_state: Any = 0,
    n_jobs: int = 1,
) -> Sample:
    """The checked training set; refusals name the argument."""
    _check_differentiable(kernel)
    check_number("degree", degree, above=0.0)
    check_number("cache_mb", cache_mb, above=0.0)
    seed = 0 if random_state is None else random_state
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise ValueError(f"random_state must be an integer >= 0, got {shown(random_state)}.")
    precomputed = kernel == "precomputed"
    data = canonical(
        check_array(
            well_formed(X),
            accept_sparse=False if precomputed else "csr",
            dtype=[np.float64, np.float32],
            order="C",
            input_name="X",
        )
    )
    labels = column_or_1d(y, warn=True)
    check_consistent_length(data, labels)
    if labels.dtype.kind not in "biuSU":
        check_classification_targets(labels)
    if precomputed and data.shape[0] != data.shape[1]:
        raise ValueError(
            f"X must be the square kernel matrix for kernel='precomputed', got shape {data.shape}."
        )
    kept, classes, label, _, weighted = encode(labels, sample_weight, class_weight)
    if len(kept) < data.shape[0]:
        data = data[kept]
        if precomputed:
            data = np.ascontiguousarray(data[:, kept])
    counts = np.bincount(label)
    if counts.min() < 2:
        rare = classes[int(counts.argmin())]
        raise ValueError(
            f"y: class {rare!r} has one example, and leaving it out leaves nothing to learn it "
            "from; a bound on leave-one-out errors needs two examples of every class. Drop the "
            "class or add examples."
        )
    return Sample(
        data, label, weighted, classes, str(kernel), float(degree), int(seed), float(cache_mb),
        n_jobs,
    )  # fmt: skip


def _check_differentiable(kernel: Any) -> None:
    if callable(kernel):
        raise ValueError(
            "kernel: a callable has no derivatives that could be asked for; compute its matrix "
            "and use kernel='precomputed' (value and derivative with respect to C)."
        )
    if kernel == "sigmoid":
        raise ValueError(
            "kernel='sigmoid' is not positive semi-definite, so there is no feature space whose "
            "radius and margin would bound anything; use 'linear', 'rbf', 'poly' or 'precomputed'."
        )
    if kernel not in DIFFERENTIABLE:
        raise ValueError(f"kernel must be one of {list(DIFFERENTIABLE)}, got {shown(kernel)}.")
    assert kernel in KERNELS or kernel == "precomputed"


def read_gamma(sample: Sample, gamma: Any, weight: np.ndarray | None = None) -> Any:
    """The width or widths behind the parameter; 1 for kernels without one."""
    if sample.kernel not in ("rbf", "poly"):
        return 1.0
    found = resolve_gamma(gamma, sample.X, weight)
    if np.ndim(found) and sample.kernel != "rbf":
        raise ValueError("gamma: one width per feature is known to kernel='rbf' only.")
    return found


def require_finite(found: Evaluation, run: Run) -> None:
    """Refuse a criterion that is no number, and say why it is none."""
    if run.interrupted:
        raise KeyboardInterrupt
    setting = found.setting
    if found.status == "not_separable":
        raise ValueError(
            "C: the classes cannot be separated by this kernel, so the hard margin (C=np.inf) has "
            "no bound; use a finite C or a richer kernel."
        )
    if not np.isfinite(found.log_product):
        if run.why_end() is not None:
            raise ValueError(
                "max_time ended before the machine was certified, so there is no bound; increase "
                "max_time or tol."
            )
        raise ValueError(
            f"The criterion is not finite at C={setting.C:g}, gamma={setting.gamma}, "
            f"coef0={setting.coef0:g} (R^2 = {found.radius2:.3g}, N = {found.norm2:.3g}); scale "
            "the features or use other parameters."
        )


# -- the record ----------------------------------------------------------------------------------


def _pairs(
    sample: Sample, setting: Setting, tol: float, run: Run, verbose: int
) -> dict[tuple[int, int], Evaluation]:
    """Machine and sphere of every pair of classes (9.6)."""
    pairs = {}
    for k, m in combinations(range(sample.n_classes), 2):
        if run.why_end() is not None:
            break
        rows = np.flatnonzero((sample.label == k) | (sample.label == m))
        part = sample.part(rows) if sample.n_classes > 2 else sample
        pairs[k, m] = evaluate(part, setting, tol, tol, run, with_slopes=False)
        _tell(verbose, run, f"classes {k} and {m}", pairs[k, m])
    return pairs


def _tell(verbose: int, run: Run, what: str, found: Evaluation) -> None:
    if verbose:
        print(
            f"[polymargin] {run.seconds:8.2f} s  {what}: N {found.norm2:.8g}  "
            f"R^2 {found.radius2:.8g}  gap {found.certificate.relative_gap:.2e}  {found.status}",
            flush=True,
        )


def _record(
    sample: Sample, found: Evaluation, pairs: dict[tuple[int, int], Evaluation], psd: bool | None
) -> RadiusMarginBound:
    Q, setting = sample.n_classes, found.setting
    R2, N = found.radius2, found.norm2
    value = bound_factor(Q) * R2 * N
    largest = float(found.alpha.max(axis=1).sum())
    ridge = np.zeros(len(sample.label))
    if np.isfinite(setting.C):
        ridge = 0.5 / (setting.C * sample.weight)
    points = KernelPoints(sample.kernel_at(setting), sample.X)
    B = min(0.5 * (Q - 1.0) * _largest_distance2(points, ridge), Q * R2)
    counts = lemma_counts(found.alpha, R2, B, _dual_error(found, points, ridge, Q))
    # two classes: their machine is twice the binary one, N = 2 ||w||^2
    complete = len(pairs) == Q * (Q - 1) // 2
    ovo = sum(4.0 * pair.radius2 * 0.5 * pair.norm2 for pair in pairs.values())
    endings = [found.status, found.sphere_status]
    endings += [ended for pair in pairs.values() for ended in (pair.status, pair.sphere_status)]
    endings += [] if complete else ["max_time"]
    status = next((ended for ended in endings if ended != "converged"), "converged")
    sphere = EnclosingSphere(
        R2,
        found.radius2_lower,
        found.beta,
        np.flatnonzero(found.beta),
        None,
        found.sphere_status,
        0,
        psd,
        points,
    )
    return RadiusMarginBound(
        value=value,
        sharper=4.0 * (Q - 1.0) ** 3 / Q * R2 * largest,
        one_vs_one=float(ovo) if complete else np.nan,
        tight=(Q - 1.0) * B * largest,
        tight_value=(Q - 1.0) ** 2 * B * N,
        count=counts.count,
        sharper_count=counts.sharper_count,
        radius2=R2,
        diameter2=4.0 * R2,
        gradient={name: value * slope for name, slope in found.slopes.items()},
        certificate=found.certificate,
        sphere=sphere,
        pair_certificates={pair: one.certificate for pair, one in pairs.items()},
        C=setting.C,
        gamma=setting.gamma,
        coef0=setting.coef0,
        n_examples=len(sample.label),
        n_classes=Q,
        status=status,
    )


def _dual_error(found: Evaluation, points: KernelPoints, ridge: np.ndarray, Q: int) -> float:
    """Error of the dual variables; without a ridge the kernel matrix itself must be definite."""
    smallest = float(ridge.min())
    n = points.n_points
    if smallest <= 0.0 and n <= _MOST_EIGENVALUES:
        K = points.block(np.arange(n), np.arange(n)) + points.level
        smallest = float(np.linalg.eigvalsh(K)[0]) - 1e-12 * float(np.trace(K))
    return dual_error(found.certificate.gap, smallest, Q)


def _largest_distance2(points: KernelPoints, ridge: np.ndarray) -> float:
    """max_ij (K_ii + K_jj - 2 K_ij) of different examples, with the ridge of both."""
    n = points.n_points
    diagonal = points.diagonal() + ridge
    everyone = np.arange(n)
    largest = 0.0
    for rows in row_blocks(n, max(16, 1_000_000 // max(n, 1))):
        D = -2.0 * points.block(rows, everyone)
        D += diagonal[rows][:, None]
        D += diagonal[None, :]
        D[np.arange(len(D)), everyone[rows]] = 0.0
        largest = max(largest, float(D.max(initial=0.0)))
    return largest
