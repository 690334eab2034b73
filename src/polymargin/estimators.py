"""MulticlassSVC: parameters, fit, predict.  Read this file first.

fit: check parameters -> validate X, y -> encode labels and weights -> Problem -> solver ->
attributes -> warn with the gap reached if the tolerance was not.  predict: validate -> scores ->
argmax.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from polymargin._callbacks import CallbackSupport, FitReporter, with_callbacks
from polymargin.encoding import encode
from polymargin.exceptions import warn_user
from polymargin.history import History
from polymargin.kernels import KERNELS, Kernel, resolve_gamma
from polymargin.machines import Machine, find_machine
from polymargin.outcome import warn_of_outcome
from polymargin.problem import Problem
from polymargin.scoring import KernelModel, linear_scores
from polymargin.solvers.base import Solution, Stop
from polymargin.validation import canonical, check_kernel, check_number, validate_named

__all__ = ["MulticlassSVC"]


class MulticlassSVC(CallbackSupport, ClassifierMixin, BaseEstimator):
    """All-in-one multi-class support vector machine with a certified duality gap.

    The Crammer-Singer machine ("cs") minimises, over one prototype M_r per class,

        P = 1/2 sum_r ||M_r||^2 + sum_i C_i xi_i,
        xi_i = max(0, 1 + max_{r != y_i} f_r(x_i) - f_{y_i}(x_i)),   f_r(x) = <M_r, phi(x)>,

    with C_i = C * sample_weight_i * class_weight_{y_i}.  Prediction is argmax_r f_r(x).

    Parameters
    ----------
    machine : str or Machine, default="cs"
        Row of the machine table, see ``polymargin.MACHINES``.
    C : float, default=1.0
        Weight of the losses; not divided by the number of examples.  ``np.inf`` asks for the hard
        margin.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="linear"
        A callable gets two arrays of rows and returns the matrix of values.
    gamma : float, "scale" or "auto", default="scale"
        Width of rbf, poly and sigmoid; "scale" is 1 / (n_features * variance of X), examples
        counted by their sample_weight.
    degree, coef0 : float, default=3, 0.0
        poly: (gamma <x, z> + coef0)^degree; sigmoid: tanh(gamma <x, z> + coef0).
    intercept : {"auto", "none", "penalized", "free"}, default="auto"
        "penalized" adds ``intercept_scaling**2`` to the kernel, so that every prototype has a
        constant term that is regularised like the rest.  "auto" is "penalized" for the linear
        kernel and "none" otherwise.  "free" is refused for "cs".
    intercept_scaling : float, default=1.0
        The constant feature behind a penalised intercept.
    tol : float, default=1e-3
        Relative duality gap (P - D) / P at which training ends.
    max_iter : int, default=10000
        Passes over the active patterns.
    max_time : float or None, default=None
        Seconds; the best model so far is kept.  Where its certificate would not fit into the limit
        (kernels with many examples), ``certificate_.primal`` is infinite: the gap is unknown.
    solver : {"auto", "block"}, default="auto"
        Block descent with exact pattern steps; "auto" chooses it.
    cache_mb : float, default=1000
        Memory for kernel rows in megabytes.
    class_weight : dict, "balanced" or None, default=None
    warm_start : bool, default=False
        Go on from the last fit, made feasible for the present C and weights.
    n_jobs : int or None, default=None
        Threads that share blocks of kernel values in fit and predict (linear models: none).  The
        result does not depend on it.
    random_state : int, RandomState or None, default=None
        Order of visits.
    verbose : int, default=0
        1 prints a line per check of the certificate.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_, intercept_ : ndarray
        Linear kernel: (n_classes, n_features) and (n_classes,); for two classes (1, n_features) and
        (1,), the second class minus the first, so that ``X @ coef_.T + intercept_`` is
        ``decision_function``.  Other kernels have ``intercept_`` only.
    support_ : ndarray of shape (n_support,)
        Training examples with dual weight.
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
        Empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_support, n_classes)
        Their dual variables tau; M_r = sum_i tau_ir phi(x_i).
    certificate_ : Certificate
        ``primal, dual, gap, relative_gap, kernel_psd``, recomputed in float64 for exactly these
        coefficients.
    status_ : str
        "converged", "max_iter", "max_time", "interrupted", "not_separable" or "stalled".
    history_ : dict of equally long arrays
        ``seconds, iteration, primal, dual, relative_gap, active, steps``, one entry per check.
    n_iter_ : int
        Passes made.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Hard margin on data that cannot be separated ends with status "not_separable" once the certified
    lower bound D on the optimal value, times the largest K_ii, exceeds
    ``polymargin.solvers.base.HARD_MARGIN_LIMIT`` (1e9).

    Probabilities: wrap in ``CalibratedClassifierCV(method="temperature")``, which keeps the argmax.

    References
    ----------
    Crammer & Singer, JMLR 2 (2001) 265-292; Aiolli & Sperduti, JMLR 6 (2005) 817-850.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC(C=1.0, random_state=0).fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        machine: str | Machine = "cs",
        C: float = 1.0,
        kernel: str | Callable[..., Any] = "linear",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        intercept: str = "auto",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        solver: str = "auto",
        cache_mb: float = 1000,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.machine = machine
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.cache_mb = cache_mb
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    # -- fit ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MulticlassSVC:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            float32 stays float32.  For a precomputed kernel the (n_samples, n_samples) matrix.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Non-negative; a weight of 2 is the example twice, a weight of 0 leaves it out.

        Returns
        -------
        self
        """
        machine = self._check_parameters()
        X, y = self._validate(X, y)
        kept, classes, label, weight, weighted = encode(y, sample_weight, self.class_weight)
        data = X if len(kept) == X.shape[0] else X[kept]
        kernel = self._make_kernel(machine, data, None if sample_weight is None else weight)
        if kernel.name == "precomputed" and data is not X:
            data = np.ascontiguousarray(data[:, kept])
        n_jobs = effective_n_jobs(self.n_jobs)
        hard = np.isinf(self.C)
        cap = np.full(len(kept), np.inf) if hard else float(self.C) * weighted
        problem = Problem(machine, kernel, data, label, cap, label, np.arange(len(classes)), n_jobs)
        problem.kernel_psd = check_kernel(problem)
        start = self._warm_start_point(X.shape[0], classes, kept, problem)
        attributes = self._fitted_attributes(kernel, classes, X)
        reporter = FitReporter(self, X, y, sample_weight, problem, attributes)
        history = History(reporter.watchers)
        solution = self._solve(problem, history, start)
        self._store(solution, problem, kept, reporter)
        reporter.finish()
        warn_of_outcome(solution, problem, float(self.tol))
        if solution.status == "interrupted" and not reporter.stopped:
            raise KeyboardInterrupt
        return self

    def _check_parameters(self) -> Machine:
        machine = find_machine(self.machine)
        if isinstance(self.C, bool) or not isinstance(self.C, numbers.Real) or not self.C > 0:
            raise ValueError(
                f"C must be a number > 0 (np.inf for the hard margin), got {self.C!r}."
            )
        if not callable(self.kernel) and self.kernel not in (*KERNELS, "precomputed"):
            raise ValueError(
                f"kernel must be one of {[*KERNELS, 'precomputed']} or a callable, "
                f"got {self.kernel!r}."
            )
        if isinstance(self.gamma, str):
            if self.gamma not in ("scale", "auto"):
                raise ValueError(f"gamma must be > 0, 'scale' or 'auto', got {self.gamma!r}.")
        else:
            check_number("gamma", self.gamma, above=0.0)
        check_number("degree", self.degree, above=0.0)
        check_number("coef0", self.coef0)
        check_number("intercept_scaling", self.intercept_scaling, above=0.0)
        check_number("tol", self.tol, above=0.0)
        check_number("cache_mb", self.cache_mb, above=0.0)
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be an integer >= 1, got {self.max_iter!r}.")
        if self.max_time is not None:
            check_number("max_time", self.max_time, above=0.0)
        if self.n_jobs is not None and not isinstance(self.n_jobs, numbers.Integral):
            raise ValueError(f"n_jobs must be an integer or None, got {self.n_jobs!r}.")
        if self.solver not in ("auto", "block"):
            raise ValueError(f"solver must be 'auto' or 'block', got {self.solver!r}.")
        return machine

    def _validate(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        X, y = validate_named(
            self,
            X,
            y,
            accept_sparse=False if precomputed else "csr",
            dtype=[np.float64, np.float32],
            order="C",
        )
        if y.dtype.kind not in "biuSU":  # integers and strings are labels, whatever they are
            check_classification_targets(y)
        if precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X must be the square kernel matrix of the training examples for "
                f"kernel='precomputed', got shape {X.shape}."
            )
        return canonical(X), y

    def _make_kernel(self, machine: Machine, X: Any, weight: np.ndarray | None) -> Kernel:
        name = "callable" if callable(self.kernel) else str(self.kernel)
        kind = machine.resolve_intercept(self.intercept, name == "linear")
        offset = float(self.intercept_scaling) ** 2 if kind == "penalized" else 0.0
        gamma = (
            1.0
            if name in ("linear", "precomputed", "callable")
            else resolve_gamma(self.gamma, X, weight)
        )
        function = self.kernel if callable(self.kernel) else None
        return Kernel(name, gamma, float(self.degree), float(self.coef0), offset, function)

    def _warm_start_point(
        self, n: int, classes: np.ndarray, kept: np.ndarray, problem: Problem
    ) -> np.ndarray | None:
        """The last dual point, scaled row by row into the present caps."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        if n != self._n_train or not np.array_equal(classes, self.classes_):
            warn_user(
                "warm_start: the number of examples or the classes changed since the last fit; "
                "starting cold.",
                UserWarning,
            )
            return None
        full = np.zeros((n, len(classes)))
        full[self.support_] = self.dual_coef_
        tau = full[kept]
        rows = np.arange(len(kept))
        # rows whose label changed would not be feasible: they start at zero
        own = tau[rows, problem.own]
        usable = (own > 0.0) & ((tau > 0.0).sum(axis=1) <= 1)
        tau[~usable] = 0.0
        too_heavy = np.flatnonzero(own > problem.cap)
        tau[too_heavy] *= (problem.cap[too_heavy] / own[too_heavy])[:, None]
        tau[rows, problem.own] = 0.0
        tau[rows, problem.own] = np.minimum(-tau.sum(axis=1), problem.cap)
        return tau

    def _solve(self, problem: Problem, history: History, start: np.ndarray | None) -> Solution:
        stop = Stop(float(self.tol), int(self.max_iter), self.max_time)
        seed = self.random_state
        if not isinstance(seed, numbers.Integral) or seed < 0:
            seed = check_random_state(seed).randint(2**31 - 1)
        if problem.kernel.is_linear:
            from polymargin.solvers.sweeps import solve_linear

            return solve_linear(problem, stop, history, start, int(seed))
        from polymargin.solvers.working_set import solve_kernel

        return solve_kernel(problem, stop, history, start, int(seed), float(self.cache_mb))

    def _fitted_attributes(
        self, kernel: Kernel, classes: np.ndarray, X: Any
    ) -> Callable[..., dict[str, Any]]:
        """Attributes of the model of a dual point: what ``fit`` stores and callbacks see."""

        def attributes(
            support: np.ndarray, tau: np.ndarray, W: np.ndarray | None, intercept: np.ndarray
        ) -> dict[str, Any]:
            found: dict[str, Any] = {
                "classes_": classes,
                "support_": support,
                "dual_coef_": tau,
                "_kernel": kernel,
                "_n_train": X.shape[0],
            }
            if kernel.name == "precomputed":
                found["support_vectors_"] = np.empty((0, 0))
            else:
                found["support_vectors_"] = X[support]
            if W is not None:
                if len(classes) == 2:
                    W, intercept = W[1:] - W[:1], intercept[1:] - intercept[:1]
                found["coef_"] = W
            found["intercept_"] = intercept
            return found

        return attributes

    def _store(
        self,
        solution: Solution,
        problem: Problem,
        kept: np.ndarray,
        reporter: FitReporter,
    ) -> None:
        judgement = solution.judgement
        scale = judgement.scale
        W = None if judgement.W is None else judgement.W * scale
        attributes = reporter.attributes(
            kept[solution.support], solution.tau * scale, W, judgement.intercept * scale
        )
        for name in ("coef_", "intercept_"):
            self.__dict__.pop(name, None)
        for name, value in attributes.items():
            setattr(self, name, value)
        self.certificate_ = judgement.certificate
        self.status_ = solution.status
        self.history_ = solution.history.as_arrays()
        self.n_iter_ = max(1, solution.iterations)

    # -- predict -----------------------------------------------------------------------------

    def _check_input(self, X: Any) -> Any:
        check_is_fitted(self)
        precomputed = self._kernel.name == "precomputed"
        return canonical(
            validate_named(
                self,
                X,
                accept_sparse=False if precomputed else "csr",
                dtype=[np.float64, np.float32],
                order="C",
                reset=False,
            )
        )

    def _kernel_model(self) -> KernelModel:
        precomputed = self._kernel.name == "precomputed"
        landmarks = self.support_ if precomputed else self.support_vectors_
        # the offset of a penalised intercept is in intercept_ already
        kernel = Kernel(
            self._kernel.name,
            self._kernel.gamma,
            self._kernel.degree,
            self._kernel.coef0,
            0.0,
            self._kernel.function,
        )
        return KernelModel(kernel, landmarks, self.dual_coef_, self.intercept_)

    def _class_scores(self, X: Any) -> np.ndarray:
        """(n, n_classes) scores, or (n, 1) differences for a linear model of two classes."""
        n_jobs = effective_n_jobs(self.n_jobs)
        if self._kernel.is_linear:
            return linear_scores(X, self.coef_, self.intercept_, n_jobs)
        return self._kernel_model().scores(X, np.float64, n_jobs)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores in float64.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            One score per class, whose argmax is ``predict``; for two classes the score of
            ``classes_[1]`` minus that of ``classes_[0]``.
        """
        scores = self._class_scores(self._check_input(X))
        if len(self.classes_) > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def predict(self, X: Any) -> np.ndarray:
        """Label of the largest score; the lowest index among equals.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._check_input(X)
        if len(self.classes_) == 2 or self._kernel.is_linear:
            scores = self._class_scores(X)
            if scores.shape[1] == 2:
                scores = scores[:, 1:] - scores[:, :1]
            best = scores.argmax(axis=1) if scores.shape[1] > 1 else scores[:, 0] > 0
            return self.classes_[np.asarray(best, dtype=np.intp)]
        return self.classes_[self._kernel_model().argmax(X, effective_n_jobs(self.n_jobs))]

    def predict_or_reject(
        self, X: Any, margin: float = 0.0, reject_label: Any = None
    ) -> np.ndarray:
        """Labels, or ``reject_label`` where the best class leads by no more than ``margin``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        margin : float, default=0.0
            Rejects where best minus second-best class score <= margin; 0 rejects exact ties.
        reject_label : object, default=None
            Must not be one of ``classes_``.

        Returns
        -------
        ndarray of shape (n_samples,)
            Of the labels' dtype if it can hold ``reject_label``, of dtype object otherwise.
        """
        check_is_fitted(self)
        check_number("margin", margin, at_least=0.0)
        if reject_label is not None and any(reject_label == label for label in self.classes_):
            raise ValueError(f"reject_label={reject_label!r} is one of the classes; use another.")
        scores = self.decision_function(X)
        if scores.ndim == 1:
            best, lead = (scores > 0).astype(np.intp), np.abs(scores)
        else:
            best = scores.argmax(axis=1)
            top = np.partition(scores, -2, axis=1)[:, -2:]
            lead = top[:, 1] - top[:, 0]
        labels = self.classes_[best]
        rejected = lead <= margin
        dtype = np.result_type(labels, np.min_scalar_type(reject_label))
        if labels.dtype.kind != np.asarray(reject_label).dtype.kind:
            dtype = np.dtype(object)
        labels = labels.astype(dtype)
        labels[rejected] = reject_label
        return labels
