"""The regularisation path: one machine for many values of C, every point certified.

``path.walk`` describes how the points are found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown, warn_user
from polymargin.problem.validation import check_number
from polymargin.selection.path.walk import Point, Shared, Walk
from polymargin.solvers.run import Run, Stop, deferred_interrupt

__all__ = ["RegularizationPath", "regularization_path"]


class RegularizationPath:
    r"""Result of ``regularization_path``: arrays with one entry per value of C, and models.

    Attributes
    ----------
    Cs : (m,) increasing.
    primal, dual, gap, relative_gap : (m,)
        The certificate of every point: :math:`\text{dual} \le P^*(C) \le \text{primal}`.
    norm2 : (m,)
        :math:`\sum_r \|M_r\|^2`.
    n_support : (m,) examples with dual weight.
    training_error, validation_error : (m,)
        Weighted share of wrong labels (ties are decided as ``predict`` does); the second is None
        without ``X_val``.
    intercept : (m, n_classes or n_prototypes)
        Constant part of the scores.
    solved : (m,) bool
        Whether a solver ran for this point; the others are certified mixtures of two that were.
    converged : (m,) bool
        Whether the relative gap is at most ``tol``.
    iterations, seconds : (m,)
        Passes made and time taken for each point.
    status : str
        "complete", "max_time" or "interrupted": after the last two some points have larger gaps.
    total_seconds : float
    n_solves : int
        Solver runs, those that found the range of C included.
    classes : labels.
    tol : float

    See Also
    --------
    polymargin.regularization_path : Makes it.
    polymargin.plots.RegularizationPathDisplay : Draws it.
    """

    def __init__(self, points: list[Point], shared: Shared, tol: float, status: str) -> None:
        self._points, self._shared = points, shared
        self.tol, self.status = tol, status
        self.classes = shared.ready.classes
        self.Cs = np.array([point.C for point in points])

        def column(name: str) -> np.ndarray:
            return np.array([getattr(point.values, name) for point in points])

        self.primal, self.dual = column("primal"), column("dual")
        self.gap = np.maximum(self.primal - self.dual, 0.0)
        self.relative_gap = column("relative_gap")
        self.norm2 = column("norm2")
        self.training_error = column("training_error")
        self.validation_error: np.ndarray | None = None
        if shared.validation is not None:
            self.validation_error = column("validation_error")
        self.n_support = np.array([point.mixture.n_support for point in points])
        self.intercept = np.stack([one.mixture.intercept * one.values.scale for one in points])
        self.solved = np.array([point.solved for point in points])
        self.converged = self.relative_gap <= tol
        self.iterations = np.array([point.iterations for point in points])
        self.seconds = np.array([point.seconds for point in points])
        self.total_seconds = shared.seconds
        self.n_solves = shared.n_solves

    def __len__(self) -> int:
        return len(self.Cs)

    def __repr__(self) -> str:
        return (
            f"RegularizationPath({len(self)} values of C from {self.Cs[0]:.3g} to "
            f"{self.Cs[-1]:.3g}, {int(self.solved.sum())} solved, largest relative gap "
            f"{self.relative_gap.max():.1e}, {self.total_seconds:.2f} s, {self.status})"
        )

    def _is_linear(self) -> bool:
        return bool(self._shared.ready.kernel.is_linear)

    @property
    def coef(self) -> np.ndarray:
        """(m, n_classes or n_prototypes, n_features) prototypes; linear kernel only."""
        if not self._is_linear():
            raise AttributeError("coef: only the linear kernel has prototypes; use dual_coef.")
        prototypes = [(one.mixture.W, one.values.scale) for one in self._points]
        return np.stack([W * scale for W, scale in prototypes if W is not None])

    @property
    def dual_coef(self) -> np.ndarray:
        r"""Coefficients T of every point: :math:`M_r = \sum_i T_{ir}\, \varphi(x_i)`.

        Returns
        -------
        ndarray of shape (m, n_samples, n_classes or n_prototypes)
        """
        ready = self._shared.ready
        R = self._shared.problem.n_prototypes
        out = np.zeros((len(self), ready.X.shape[0], R))
        for at, point in enumerate(self._points):
            support, T = point.mixture.coefficients()
            out[at, ready.kept[support]] = T * point.values.scale
        return out

    def model(self, index: int) -> Any:
        """The machine at one point, ready to predict: MulticlassSVC or MultiPrototypeSVC."""
        return self._shared.fitted(self._points[index])

    def best(self) -> int:
        """The point of the lowest validation error, the smallest C among equals."""
        if self.validation_error is None:
            raise ValueError("best needs validation errors: give X_val and y_val to the path.")
        return int(self.validation_error.argmin())

    def plot(self, ax: Any = None) -> Any:
        """Draw the path: a ``RegularizationPathDisplay``."""
        from polymargin.plots.path_display import RegularizationPathDisplay

        return RegularizationPathDisplay.from_path(self, ax=ax)


def regularization_path(
    X: Any,
    y: Any,
    machine: Any = "cs",
    Cs: Any = "auto",
    kernel: Any = "linear",
    *,
    n_points: int = 50,
    gamma: float | str = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    intercept: str = "auto",
    intercept_scaling: float = 1.0,
    sample_weight: Any = None,
    class_weight: Any = None,
    n_prototypes: Any = None,
    init: Any = "auto",
    estimator: Any = None,
    X_val: Any = None,
    y_val: Any = None,
    tol: float = 1e-3,
    max_iter: int = 100_000,
    max_time: float | None = None,
    cache_mb: float = 1000,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> RegularizationPath:
    """Solve a machine for many values of C, every point with a certificate.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        For a precomputed kernel the (n_samples, n_samples) matrix.
    y : array-like of shape (n_samples,)
    machine : str or Machine, default="cs"
        As in ``MulticlassSVC``.
    Cs : "auto", "wide" or sequence of float, default="auto"
        Values of C, finite and positive; they are sorted.  "auto" spaces ``n_points`` values evenly
        in log C over two decades, up to where the losses are a third of the objective or less;
        "wide" from where a tenth of the examples would reach their margin if every example had its
        full weight, to where the losses are 5 %.  Both largest values are looked for in steps of
        10 from that smallest one, up to 1e4 times it.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
    n_points : int, default=50
        Number of values for "auto" and "wide".
    gamma, degree, coef0, intercept, intercept_scaling, class_weight
        As in ``MulticlassSVC``.
    sample_weight : array-like of shape (n_samples,) or None
    n_prototypes : int, mapping or array, default=None
        Several prototypes per class: the static problem of the multi-prototype machine with the
        assignment ``init`` ("auto", "kmeans", "random", or prototype numbers per example).
    init : see ``n_prototypes``
    estimator : MulticlassSVC or MultiPrototypeSVC, default=None
        Where the parameters above come from instead (``Cs``, ``tol`` and those after it count
        still).  A fitted ``MultiPrototypeSVC`` gives its assignment.
    X_val, y_val : array-like, default=None
        For ``validation_error``.  For a precomputed kernel values against the training examples.
    tol : float, default=1e-3
        Relative duality gap of every point.
    max_iter : int, default=100000
        Passes of one solve.
    max_time : float or None, default=None
        Seconds for everything.  Points not reached are mixtures of their neighbours, with the gaps
        that they have.  Ctrl-C does the same.
    cache_mb : float, default=1000
        Memory for kernel values.  They are computed once if all take half of it.
    n_jobs, random_state
        As in ``MulticlassSVC``.
    verbose : int, default=0
        1 prints a line every other second.

    Returns
    -------
    RegularizationPath

    See Also
    --------
    selection.path.RegularizationPath : What it returns.
    plots.RegularizationPathDisplay : Draws it.
    tune_radius_margin : C and kernel of M-SVM² without validation rows.
    AutoSVC : Chooses the machine, too.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import regularization_path
    >>> X, y = load_iris(return_X_y=True)
    >>> path = regularization_path(X, y, machine="ww", n_points=20, random_state=0)
    >>> bool((path.relative_gap <= 1e-3).all())
    True
    """
    check_number("tol", tol, above=0.0)
    if max_time is not None:
        check_number("max_time", max_time, above=0.0)
    template = estimator
    if estimator is None:
        options = {
            "kernel": kernel,
            "gamma": gamma,
            "degree": degree,
            "coef0": coef0,
            "intercept": intercept,
            "intercept_scaling": intercept_scaling,
            "class_weight": class_weight,
        }
        if n_prototypes is None:
            template = MulticlassSVC(machine=machine, **options)
        else:
            if machine != "cs":
                raise ValueError(
                    f"n_prototypes: several prototypes per class need machine='cs', not "
                    f"{machine!r}."
                )
            template = MultiPrototypeSVC(
                n_prototypes=n_prototypes, init=init, assignment="static", **options
            )
    given = _given_values(Cs, n_points)
    run = Run(Stop(tol, int(max_iter), max_time))
    with deferred_interrupt(run.clock), single_threaded_libraries():
        settings = {"cache_mb": cache_mb, "n_jobs": n_jobs, "random_state": random_state}
        shared = Shared(template, settings, X, y, sample_weight, (X_val, y_val), tol, run)
        walk = Walk(shared, run, verbose)
        points = walk.run(given, int(n_points))
    shared.seconds = run.seconds
    status = "complete"
    if any(point.values.relative_gap > tol for point in points):
        status = run.why_end() or "stalled"
        worst = max(point.values.relative_gap for point in points)
        warn_user(
            f"regularization_path ended early ({status}): the largest relative gap is {worst:.1e}, "
            f"above tol={tol:g}.",
            UserWarning,
        )
    return RegularizationPath(points, shared, tol, status)


def _given_values(Cs: Any, n_points: Any) -> np.ndarray | str:
    wanted = "'auto', 'wide' or a sequence of numbers"
    if isinstance(Cs, str):
        if Cs not in ("auto", "wide"):
            raise ValueError(f"Cs must be {wanted}, got {shown(Cs)}.")
        if isinstance(n_points, bool) or not isinstance(n_points, int | np.integer) or n_points < 2:
            raise ValueError(f"n_points must be an integer >= 2, got {shown(n_points)}.")
        return Cs
    try:
        values = np.unique(np.asarray(Cs, dtype=np.float64).ravel())
    except (TypeError, ValueError) as error:
        raise ValueError(f"Cs must be {wanted}, got {shown(Cs)}.") from error
    if not len(values) or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"Cs must be finite numbers > 0, got {shown(Cs)}.")
    return values
