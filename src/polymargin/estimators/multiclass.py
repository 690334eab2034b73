"""MulticlassSVC: parameters, fit, predict.  Read this file first.

fit: check parameters -> validate X, y -> encode labels and weights -> Problem -> solver ->
attributes -> warn with the gap reached if the tolerance was not.  predict: validate -> scores ->
argmax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.compiled.threads import single_threaded_libraries
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.base import Prepared
from polymargin.estimators.callbacks import FitReporter, with_callbacks
from polymargin.estimators.fitted import (
    Attributes,
    model_parts,
    store,
    support_vectors,
    warn_of_outcome,
)
from polymargin.estimators.landmark_training import LandmarkSpan, check_landmarks
from polymargin.estimators.slacks_and_margins import SlacksAndMargins
from polymargin.estimators.trained_in_parts import TrainedInParts
from polymargin.estimators.tuned_parameters import TunedClassifier
from polymargin.estimators.units import Units
from polymargin.exceptions import shown, warn_user
from polymargin.problem.cost_matrix import check_costs_allowed
from polymargin.problem.kernel_sums import weights_of
from polymargin.problem.machines import Machine, find_machine
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem, row_blocks
from polymargin.problem.scales import refused_if_inexact
from polymargin.solvers import find_method, solve
from polymargin.solvers.driver import Solution
from polymargin.solvers.history import Check, PatternCheck
from polymargin.solvers.run import Run, uninterrupted
from polymargin.solvers.smo.pattern_smo import PatternSMO
from polymargin.solvers.working_sets import WorkingSets

__all__ = ["MulticlassSVC"]

KernelParameter = str | Callable[..., Any] | Mapping[str, Any] | Sequence[tuple[str, Any, float]]


class MulticlassSVC(TrainedInParts, SlacksAndMargins, TunedClassifier):
    r"""All-in-one multi-class support vector machine with a certified duality gap.

    The Crammer-Singer machine ("cs") minimises, over one prototype :math:`M_r` per class,

    .. math::

        & P = \tfrac12 \sum_r \|M_r\|^2 + \sum_i C_i\, \xi_i, \qquad
        f_r(x) = \langle M_r, \varphi(x)\rangle, \\
        & \xi_i = \max\bigl(0,\, 1 + \max_{r \ne y_i} f_r(x_i) - f_{y_i}(x_i)\bigr),

    with :math:`C_i` = C times the weights of example and class.  Prediction is the class of the
    highest score.  The other machines have one slack per rival class: "ww" (Weston-Watkins) asks
    :math:`f_{y_i} - f_r \ge 1 - \xi_{ir}`, "llw" (Lee-Lin-Wahba)
    :math:`f_r \le -1/(Q-1) + \xi_{ir}` with scores that sum to zero, "msvm2" the same with the
    loss :math:`\sum_r \xi_{ir}^2 + (\sum_r \xi_{ir})^2`.

    Parameters
    ----------
    machine : str or Machine, default="cs"
        Row of the machine table, see ``polymargin.MACHINES``: "cs", "ww", "llw", "msvm2", "adm",
        "atm", "ats", "mmr", "reinforced", or a row of one's own.
    C : float or "radius-margin", default=1.0
        Weight of the losses; not divided by the number of examples.  ``np.inf`` asks for the hard
        margin.  "radius-margin" (machine "msvm2" only) minimises the radius-margin bound on the
        training examples before the fit, see ``tune_radius_margin``.
    kernel : str, callable, dict or list, default="linear"
        "linear", "rbf", "poly", "sigmoid" or "precomputed".  A callable gets two arrays of rows
        and returns the matrix of values; where X is a sequence of objects (strings, graphs) it
        gets two lists of them.  A dict is a sum of kernels with weights that are not negative,
        taken as they are: ``{"linear": 0.3, "rbf": 0.7}``, or
        ``{"rbf": ({"gamma": 0.1}, 0.7)}`` with parameters of its own; a list of (name, parameters,
        weight) may name a kernel twice.  What a term does not say is gamma, degree, coef0.
    gamma : float, "scale", "auto", "radius-margin" or array of shape (n_features,), default="scale"
        Width of rbf, poly and sigmoid; "scale" is ``1 / (n_features * variance of X)``, examples
        counted by their sample_weight.  An array is one width per feature (rbf only).
        "radius-margin" as for C (rbf and poly; a linear kernel has no width to tune).
    degree, coef0 : float, default=3, 0.0
        poly: :math:`(\gamma \langle x, z\rangle + c_0)^d` with d the degree and :math:`c_0` coef0;
        sigmoid: :math:`\tanh(\gamma \langle x, z\rangle + c_0)`.
    intercept : {"auto", "none", "penalized", "free"}, default="auto"
        "penalized" adds ``intercept_scaling**2`` to the kernel, so that every prototype has a
        constant term that is regularised like the rest; "free" is an unpenalised intercept of sum
        zero.  "auto" is "free" for "ww", "llw" and "msvm2"; otherwise "penalized" for the linear
        kernel and "none" for others.  "adm" and the machines after it know no "free".
    intercept_scaling : float, default=1.0
        The constant feature behind a penalised intercept.
    tol : float, default=1e-3
        Relative duality gap :math:`(P - D) / P` at which training ends.
    max_iter : int, default=10000
        Passes over the active patterns.
    max_time : float or None, default=None
        Seconds; the best model so far is kept.  Where its certificate would not fit into the limit
        (kernels with many examples), ``certificate_.primal`` is infinite: the gap is unknown.
    solver : {"auto", "block", "frank-wolfe", "cycles"}, PatternSMO or WorkingSets, default="auto"
        "block" is block descent with exact pattern steps; "auto" chooses it.  "frank-wolfe" and
        "cycles" are the methods of the literature for "ww", "llw" and "msvm2" with a free
        intercept, for comparison and small data: conditional gradients with exact linear
        programmes, and steps along the most violating cycle or layer.  A ``PatternSMO`` is a
        member of the SMO-like family, for "cs" without a free intercept; a ``WorkingSets`` is
        "frank-wolfe" on working sets of a given size and rule.
    cache_mb : float, default=1000
        Memory for kernel rows in megabytes.
    class_weight : dict, "balanced" or None, default=None
    warm_start : bool, default=False
        Go on from the last fit, made feasible for the present C and weights.
    n_jobs : int or None, default=None
        Threads that share blocks of kernel values in fit and predict, and on large linear data the
        products with all rows (checks and certificate).  The result does not depend on it, except
        for linear Crammer-Singer machines with many rows for each feature (20,000 and 400 per
        feature, for every thread): threads train shards of the rows, and the objective agrees
        within ``tol``.  The same number of threads and the same seed give the same bits.
    random_state : int, RandomState or None, default=None
        Order of visits.
    verbose : int, default=0
        1 prints a line per check of the certificate.
    probabilities : "temperature" or None, default=None
        "temperature": scores of training rows by models that have not seen them are computed after
        the fit, and from them one temperature for ``predict_proba``; labels never change.
    calibration_folds : int or None, default=None
        Number of the folds for these scores (None: 5 if they are needed).  A number also keeps
        them with the fold models, from which ``predict_set`` makes sets without further data.
    landmarks : int, float, "auto" or None, default=None
        Approximate kernel: prototypes are kernel expansions over this many training rows (a float:
        this part of all n rows; "auto": :math:`10 \sqrt{n}`, at most 2000 and what ``cache_mb``
        holds), chosen by randomly pivoted Cholesky.  The machine is solved by the linear engine
        in their span; model size and prediction cost depend on their number only.  Fewer are
        chosen where the kernel matrix has no further rank, or where half of ``max_time`` is over.
        None: the exact kernel.
    kernel_weights : "radius-margin" or None, default=None
        "radius-margin": the weights of a sum of kernels, their sum fixed to 1, minimise the
        radius-margin bound of M-SVM² (machine "msvm2" only); those in ``kernel`` are where the
        search begins.  A weight below 1e-4 becomes 0.
    cost_matrix : array-like of shape (n_classes, n_classes) or None, default=None
        Entry [i, j] is the cost of saying ``classes_[j]`` when ``classes_[i]`` is true: 0 on the
        diagonal, finite and > 0 elsewhere.  It takes the place of the margin 1 that rival j is
        asked for ("cs" and "ww"); labels stay those of the highest score.  Needs a finite C.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    C_, gamma_ : float (gamma_: array with one width per feature)
        The values of this fit: those given, what "scale" or "auto" mean, or those tuned.  gamma_
        is 1 for kernels without a width, and for sums.
    kernel_weights_ : ndarray of shape (n_terms,)
        Sum of kernels only: the weights, in the order of ``kernel``.
    coef_, intercept_ : ndarray
        Linear kernel: (n_classes, n_features) and (n_classes,); for two classes (1, n_features) and
        (1,), the second class minus the first, so that ``X @ coef_.T + intercept_`` is
        ``decision_function``.  Other kernels have ``intercept_`` only.
    support_ : ndarray of shape (n_support,)
        Training examples with dual weight.
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
        Empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_support, n_classes)
        Their coefficients :math:`\tau_{ir}`: :math:`M_r = \sum_i \tau_{ir}\, \varphi(x_i)`.  With a
        free intercept every column sums to zero.  With landmarks, ``support_``,
        ``support_vectors_`` and ``dual_coef_`` are the landmarks and their coefficients in the
        prototypes, not dual variables.
    landmark_indices_, landmarks_
        With landmarks: their rows in the X given to fit, ascending, and those rows.
    exact_kernel_ : ExactKernelBounds
        With landmarks: ``primal, dual, relative_gap, rest, score_rounding``, what the fit proves
        about the machine of the exact kernel; ``certificate_`` is that of the machine in the span.
    bias_is_unique_ : bool
        Free intercept only: whether no other intercept is as good (up to the accuracy of the
        model); where one is, ``intercept_`` is the best one of least norm.
    certificate_ : Certificate
        ``primal, dual, gap, relative_gap, kernel_psd``, recomputed in float64 for exactly these
        coefficients.
    status_ : str
        "converged", "max_iter", "max_time", "interrupted", "not_separable" or "stalled".
    history_ : dict of equally long arrays
        ``seconds, iteration, primal, dual, relative_gap, active, steps``, one entry per check;
        more with a ``PatternSMO``.
    n_iter_ : int
        Passes made.
    temperature_ : float
        Of ``probabilities="temperature"``: ``softmax(scores / temperature_)`` are probabilities.
    out_of_fold_scores_ : ndarray of shape (n_samples, n_classes)
        With ``calibration_folds``: scores of training rows by models that have not seen them (two
        classes: minus and plus half of the decision value; nan for rows without weight).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    AutoSVC : Chooses machine, kernel and C on the training data.
    MultiPrototypeSVC : Several linear prototypes per class instead of a kernel.
    ConvexHullSVC : Prototypes inside the convex hulls of the classes.
    dask.DaskMulticlassSVC : The same machines on a Dask cluster.
    open_rows : Rows on disk that ``fit`` takes in the place of X.
    regularization_path : Many values of C at once.
    sklearn.svm.LinearSVC : One-vs-rest, or Crammer-Singer without a certificate.
    sklearn.svm.SVC : One-vs-one.

    Notes
    -----
    Hard margin on data that cannot be separated ends with status "not_separable" once the certified
    lower bound D on the optimal value, times the largest :math:`K_{ii}` (without the constant of a
    penalised intercept), exceeds ``polymargin.solvers.run.HARD_MARGIN_LIMIT`` (1e9).

    References
    ----------
    Crammer & Singer, JMLR 2 (2001) 265-292; Aiolli & Sperduti, JMLR 6 (2005) 817-850; Weston &
    Watkins, CSD-TR-98-04 (1998); Lee, Lin & Wahba, JASA 99 (2004) 67-81; Guermeur & Monfrini,
    Informatica 22 (2011) 73-96.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVC(C=1.0, random_state=0).fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    _knows_free_intercept = True
    _landmark_duals: tuple[np.ndarray, np.ndarray] | None = None

    def __init__(
        self,
        machine: str | Machine = "cs",
        C: float | str = 1.0,
        kernel: KernelParameter = "linear",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        intercept: str = "auto",
        intercept_scaling: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 10000,
        max_time: float | None = None,
        solver: str | PatternSMO | WorkingSets = "auto",
        cache_mb: float = 1000,
        class_weight: Mapping[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        probabilities: str | None = None,
        calibration_folds: int | None = None,
        landmarks: int | float | str | None = None,
        kernel_weights: str | None = None,
        cost_matrix: Any = None,
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
        self.probabilities = probabilities
        self.calibration_folds = calibration_folds
        self.landmarks = landmarks
        self.kernel_weights = kernel_weights
        self.cost_matrix = cost_matrix

    @property
    def landmarks_(self) -> Any:
        """Rows whose kernel functions the prototypes are made of."""
        self._check_has_landmarks("landmarks_")
        return self.support_vectors_

    @property
    def landmark_indices_(self) -> np.ndarray:
        """Their numbers in the X given to fit, ascending."""
        self._check_has_landmarks("landmark_indices_")
        return self.support_

    def _check_has_landmarks(self, name: str) -> None:
        if "exact_kernel_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} was not fitted with landmarks: no {name}.")

    # -- fit ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MulticlassSVC:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            float32 stays float32.  A list or array of objects for a callable kernel.  For a
            precomputed kernel the (n_samples, n_samples) matrix.
            Or a ``RowStore`` (``open_rows``), which has its labels: linear machines are trained
            block after block, and the model has neither support vectors nor dual variables.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Non-negative; a weight of 2 is the example twice, a weight of 0 leaves it out.

        Returns
        -------
        self
        """
        if isinstance(X, RowStore):
            from polymargin.estimators.row_training import fit_rows

            fit_rows(self, X)
            return self
        started = self._begin_calibration()
        self._fit(X, y, sample_weight)
        self._finish_calibration(started, X, y, sample_weight)
        return self

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, alpha: np.ndarray | None = None
    ) -> MulticlassSVC:
        """Fit, from the dual variables ``alpha`` (kept examples, classes) of M-SVM^2 if given."""
        machine = self._check_parameters()
        self._tune(X, y, sample_weight)
        ready = self._prepare(machine, X, y, sample_weight)
        problem = self._problem(machine, ready, ready.label, np.arange(len(ready.classes)))
        kind = PatternCheck if isinstance(self.solver, PatternSMO) else Check
        run = self._run((), kind)
        ready, problem = self._in_span(ready, problem, run)
        find_method(problem, self.solver)
        start = self._warm_start_point(ready, problem)
        if start is None and ready.span is not None:
            start = ready.span.start
        alpha = alpha if self._tuned is None else self._tuned.alpha
        start = start if alpha is None else DualPoint.from_dense(problem, -alpha)
        attributes = self._fitted_attributes(ready, problem)
        reporter = FitReporter(self, ready.X, ready.y, sample_weight, attributes)
        units = Units(problem)
        run.watched_by(units.watchers(reporter.watchers), kind)
        with single_threaded_libraries(), refused_if_inexact(units.problem):
            solution = solve(units.problem, run, units.entered(start), self.solver)
        solution = units.left(solution)
        with uninterrupted(), single_threaded_libraries():
            self._store(solution, ready, attributes)
        interrupted = self._tuned is not None and self._tuned.interrupted
        self._tuned = None
        reporter.finish()
        warn_of_outcome(solution, float(self.tol))
        if interrupted or (solution.status == "interrupted" and not reporter.stopped):
            raise KeyboardInterrupt
        return self

    def _store(self, solution: Solution, ready: Prepared, attributes: Attributes) -> None:
        store(self, solution, attributes)
        if ready.span is not None:
            self.exact_kernel_ = ready.span.bounds(self, solution)
        self.C_, self.gamma_ = float(self._chosen()[0]), ready.kernel.gamma
        self.__dict__.pop("kernel_weights_", None)
        if ready.kernel.parts:
            self.kernel_weights_ = weights_of(ready.kernel)

    def _check_parameters(self) -> Machine:
        machine = find_machine(self.machine)
        self._check_common()
        known = ("auto", "block", "frank-wolfe", "cycles")
        if isinstance(self.solver, PatternSMO | WorkingSets):
            self.solver.check(not isinstance(self.C, str) and bool(np.isinf(self.C)))
        elif not isinstance(self.solver, str) or self.solver not in known:
            raise ValueError(
                f"solver must be 'auto', 'block', 'frank-wolfe', 'cycles', a PatternSMO or "
                f"a WorkingSets, got {shown(self.solver)}."
            )
        if self.cost_matrix is not None:
            check_costs_allowed(machine, not isinstance(self.C, str) and bool(np.isinf(self.C)))
        self._check_tuning(machine)
        check_landmarks(self.landmarks, self.kernel, bool(self._tuned_parameters()))
        return machine

    def _in_span(self, ready: Prepared, problem: Problem, run: Run) -> tuple[Prepared, Problem]:
        """The problem in the span of landmarks, where they are asked for."""
        if self.landmarks is None:
            return ready, problem
        with single_threaded_libraries():
            span = LandmarkSpan(problem, self.landmarks, run, int(self.verbose))
        return ready._replace(span=span), span.problem

    def _warm_start_point(self, ready: Prepared, problem: Problem) -> DualPoint | None:
        """The last dual point within the present caps, if there is one."""
        if not self.warm_start or not hasattr(self, "dual_coef_"):
            return None
        support, duals = self.support_, self.dual_coef_
        if "exact_kernel_" in vars(self):
            if self._landmark_duals is None:
                return None
            support, duals = self._landmark_duals
        n = ready.X.shape[0]
        if n != self._n_train or not np.array_equal(ready.classes, self.classes_):
            warn_user(
                "warm_start: the number of examples or the classes changed since the last fit; "
                "starting cold.",
                UserWarning,
            )
            return None
        T = np.zeros((n, len(ready.classes)))
        T[support] = duals
        return DualPoint.from_coefficients(problem, T[ready.kept])

    def _fold_estimator(
        self, train: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> MulticlassSVC:
        """A copy for some training rows that starts from their dual variables."""
        model: MulticlassSVC = super()._fold_estimator(train, y, weight).set_params(C=self.C_)
        if self.landmarks is None and np.array_equal(np.unique(y), self.classes_):
            place = np.full(self._n_train, -1)
            place[train] = np.arange(len(train))
            at = place[self.support_]
            model._start_from(self.classes_, len(train), at[at >= 0], self.dual_coef_[at >= 0])
        return model

    def _start_from(
        self, classes: np.ndarray, n_train: int, support: np.ndarray, T: np.ndarray
    ) -> None:
        """Let the next fit start from the coefficients ``T`` of the rows ``support``."""
        self.set_params(warm_start=True)
        self.classes_, self._n_train, self.support_, self.dual_coef_ = classes, n_train, support, T

    def _fitted_attributes(self, ready: Prepared, problem: Problem) -> Attributes:
        """Attributes of the model of a dual point: what ``fit`` stores and callbacks see."""

        def attributes(point: DualPoint, judgement: Judgement | None) -> dict[str, Any]:
            support, T, W, intercept = model_parts(problem, ready, point, judgement)
            found: dict[str, Any] = {
                "classes_": ready.classes,
                "_kernel": ready.kernel,
                "_n_train": ready.X.shape[0],
            }
            if ready.span is not None:
                W = ready.span.prototypes(point.support, T) if W is None else W
                found |= ready.span.attributes(ready, W)
                found["_landmark_duals"] = (support, T) if self.warm_start else None
                return found | {"intercept_": intercept}
            found |= {
                "support_": support,
                "dual_coef_": T,
                "support_vectors_": support_vectors(ready, support),
            }
            if ready.kernel.name == "precomputed":
                found["_prototype_gram"] = _prototype_gram(ready.X, support, T)
            if W is not None:
                if len(ready.classes) == 2:
                    W, intercept = W[1:] - W[:1], intercept[1:] - intercept[:1]
                found["coef_"] = W
            found["intercept_"] = intercept
            return found

        return attributes


def _prototype_gram(K: Any, support: np.ndarray, T: np.ndarray) -> np.ndarray:
    """⟨M_r, M_s⟩ of a given kernel matrix, block by block."""
    gram = np.zeros((T.shape[1], T.shape[1]))
    for rows in row_blocks(len(support), 256):
        gram += T[rows].T @ (K[np.ix_(support[rows], support)].astype(np.float64) @ T)
    return gram
