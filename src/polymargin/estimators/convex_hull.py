"""ConvexHullSVC: one prototype per class in the convex hull of its examples, close to the others.

fit: check parameters -> validate -> caps eta * w_i -> weights of the hulls -> certificate ->
attributes -> warnings.  predict: centred scores -> argmax.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polymargin.certificate.certificate import Judgement
from polymargin.certificate.hull_gap import HullJudgement, hull_weights, judge_hulls
from polymargin.certificate.training_scores import prototypes
from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.base import LargeMarginClassifier, Prepared
from polymargin.estimators.callbacks import FitReporter, with_callbacks
from polymargin.estimators.fitted import Attributes, store, support_vectors, warn_of_outcome
from polymargin.estimators.geometry import geometric_margins, prototype_products
from polymargin.estimators.hull_separability import HullSeparability, hull_separability
from polymargin.exceptions import shown
from polymargin.problem.machines import Machine
from polymargin.problem.point import DualPoint
from polymargin.problem.problem import Problem
from polymargin.problem.scales import refused_if_inexact
from polymargin.problem.scoring import two_columns
from polymargin.problem.validation import check_number
from polymargin.solvers import solve
from polymargin.solvers.run import uninterrupted

__all__ = ["ConvexHullSVC", "resolve_eta"]

_SOLVERS = ("auto", "smo", "frank_wolfe")
_OFFSETS = ("center", "kkt")
_SCALES = ("absolute", "relative")

# eta="auto" on the relative scale, by cross-validated accuracy on nine sets (iris, wine, glass,
# vehicle, ecoli, segment, satimage, optdigits, pendigits; standardised, at most 700 rows).  Mean
# loss to the best eta of each set: RBF .025 at .1, .031 at .05, .028 at .2, .043 at .5, .040 at 1;
# linear .026, .034, .034, .071, .050.
_AUTO_ETA = 0.1

# Hulls have their own judge and solvers.  They read two facts of this row: the weights u_i of the
# own class become coefficients u_i (1[y_i = k] - 1/Q), and there is no intercept (a constant added
# to the kernel cancels in every v_m - v_l).
_MACHINE = Machine(
    "ad",
    "AD-SVM (convex-hull prototypes)",
    K1=0,
    K2=1.0,
    K3=0,
    own_target=1.0,
    has_rivals=False,
    intercepts=("none",),
    reference="Ñanculef, Concha, Allende, Candel & Moraga, IJHIS 6 (2009) 69-79",
)


class ConvexHullSVC(LargeMarginClassifier):
    r"""Multi-class support vector machine by convex-hull prototypes (AD-SVM), certified.

    Minimises the sum of the squared distances between one prototype per class,

    .. math::

        & f(u) = \sum_{m \lt l} \|v_m - v_l\|^2, \qquad
        v_k = \sum_{i:\, y_i = k} u_i\, \varphi(x_i), \\
        & \sum_{i:\, y_i = k} u_i = 1, \qquad 0 \le u_i \le \eta\, w_i,

    with sample weights :math:`w_i`, and predicts the class of the highest
    :math:`s_k(x) = \langle v_k - c, \varphi(x) - c\rangle`, c the mean of the prototypes.

    Parameters
    ----------
    eta : float or "auto", default="auto"
        Largest weight of an example; "auto" is .1 on the relative scale below, which leaves
        overlapping classes apart.  1 or more: the whole convex hulls.  Less: reduced hulls,
        which may stay apart where the whole ones meet, and let no single example dominate.  At
        least 1 / (the number of examples of the smallest class), whose prototype is then its mean.
    kernel : {"linear", "rbf", "poly", "sigmoid", "precomputed"} or callable, default="rbf"
    gamma : float, "scale" or "auto", default="scale"
    degree, coef0 : float, default=3, 0.0
        Kernel parameters as in ``MulticlassSVC``.
    offset : {"center", "kkt"}, default="center"
        "center" measures from the mean of the prototypes, as published.  "kkt" subtracts the
        optimality thresholds instead:
        :math:`s_k(x) = \langle v_k - c, \varphi(x)\rangle - \mu_k / (2 Q)`, for two classes the
        bias of the nu-SVM.
    eta_scale : {"absolute", "relative"}, default="absolute"
        "relative" reads eta in (0, 1] on a log scale from the smallest feasible value to 1, so that
        a grid is feasible for any data: ``eta_ = smallest ** (1 - eta)``.
    tol : float, default=1e-6
        Relative gap at which training ends:
        :math:`(f - \text{lower bound}) / \max(f, 10^{-12} \max_i K_{ii})`.
    solver : {"auto", "smo", "frank_wolfe"}, default="auto"
        Pairs of weights within classes ("auto"; linear kernels keep the prototypes explicitly), or
        Frank-Wolfe with line search, which is simple and slow beyond a gap of 1e-3.
    max_iter : int, default=1000000
        Steps: pairs, or Frank-Wolfe iterations.
    max_time : float or None, default=None
        Seconds; the model so far is kept.  Where its certificate would not fit into the limit,
        ``certificate_.gap`` is infinite.
    cache_mb : float, default=1000
        Memory for kernel rows in megabytes.
    n_jobs : int or None, default=None
        Threads that share blocks of kernel values when certifying and predicting.
    verbose : int, default=0
        1 prints a line per check of the gap.
    probabilities : "temperature" or None, default=None
        "temperature": scores of training rows by models that have not seen them are computed after
        the fit, and from them one temperature for ``predict_proba``; labels never change.
    calibration_folds : int or None, default=None
        Number of the folds for these scores (None: 5 if they are needed).  A number also keeps
        them with the fold models, from which ``predict_set`` makes sets without further data.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    eta_ : float
        The cap of an example of weight 1.
    weights_ : ndarray of shape (n_samples,)
        u.
    support_ : ndarray of shape (n_support,)
        Training examples with weight.
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
        Empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (n_support, n_classes)
        Coefficients of :math:`v_k - c`; all zero where the hulls meet.
    prototypes_ : ndarray of shape (n_classes, n_features)
        :math:`v_k`; linear kernel only.
    center_ : ndarray of shape (n_features,)
        c, the mean of the prototypes; linear kernel only.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        :math:`v_k - c`, for two classes the difference of the second and the first; linear kernel
        only.
    intercept_ : ndarray of shape (n_classes,), or (1,) for a linear kernel and two classes
    certificate_ : Certificate
        ``primal`` is :math:`f(u)` of these weights, ``dual`` the value of the max-margin problem at
        :math:`w_k = Q (v_k - c)`: the best possible f lies between them.
    status_ : str
        "converged", "hulls_meet", "max_iter", "max_time", "interrupted" or "stalled".
    history_ : dict of equally long arrays
        ``seconds, iteration, primal, dual, relative_gap, active, steps``, one entry per check.
    n_iter_ : int
        Steps made.
    temperature_ : float
        Of ``probabilities="temperature"``: ``softmax(scores / temperature_)`` are probabilities.
    out_of_fold_scores_ : ndarray of shape (n_samples, n_classes)
        With ``calibration_folds``: scores of training rows by models that have not seen them (two
        classes: minus and plus half of the decision value; nan for rows without weight).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    MulticlassSVC : Machines with a loss, which see training errors.
    estimators.hull_separability.HullSeparability : Whether this rule can separate the classes.

    Notes
    -----
    There is no loss and hence no C: the objective does not see training errors, and for three or
    more classes data that a linear model separates may be misclassified (see the last example).

    Where the (reduced) hulls have a common point, f is 0, every score is 0 and every prediction is
    a tie; a ``CollapsedModelWarning`` says so.  Use a smaller ``eta`` or another kernel.

    A sample weight of 2 is the example twice: its cap is 2 eta.

    References
    ----------
    R. Ñanculef, C. Concha, H. Allende, D. Candel, C. Moraga, AD-SVMs: a light extension of SVMs for
    multicategory classification, International Journal of Hybrid Intelligent Systems 6 (2009)
    69-79.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from polymargin import ConvexHullSVC
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ConvexHullSVC(eta=0.1).fit(scale(X), y)
    >>> model.certificate_.relative_gap <= 1e-6
    True

    The middle of three classes on a line never wins, although a linear model separates them:

    >>> X, y = [[0.0], [1.5], [2.5], [4.0]], [0, 1, 1, 2]
    >>> ConvexHullSVC(kernel="linear").fit(X, y).predict(X).tolist()
    [0, 0, 2, 2]
    >>> ConvexHullSVC(gamma=1.0).fit(X, y).predict(X).tolist()
    [0, 1, 1, 2]
    """

    # what the base class reads of machines with a loss and an intercept
    C = 1.0
    intercept = "none"
    intercept_scaling = 1.0
    class_weight = None
    random_state = 0

    def __init__(
        self,
        eta: float | str = "auto",
        kernel: str | Callable[..., Any] = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        offset: str = "center",
        eta_scale: str = "absolute",
        tol: float = 1e-6,
        solver: str = "auto",
        max_iter: int = 1_000_000,
        max_time: float | None = None,
        cache_mb: float = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
        probabilities: str | None = None,
        calibration_folds: int | None = None,
    ) -> None:
        self.eta = eta
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.offset = offset
        self.eta_scale = eta_scale
        self.tol = tol
        self.solver = solver
        self.max_iter = max_iter
        self.max_time = max_time
        self.cache_mb = cache_mb
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.probabilities = probabilities
        self.calibration_folds = calibration_folds

    # -- fit ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ConvexHullSVC:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            For a precomputed kernel the (n_samples, n_samples) matrix.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Non-negative; multiplies the caps.  A weight of 2 is the example twice, a weight of 0
            leaves it out.

        Returns
        -------
        self
        """
        started = self._begin_calibration()
        self._check_parameters()
        ready = self._prepare(_MACHINE, X, y, sample_weight)
        eta = resolve_eta(self.eta, self.eta_scale, ready)
        with np.errstate(over="ignore"):
            ready = ready._replace(cap=np.minimum(eta * ready.cap, 1.0))
        classes = np.arange(len(ready.classes))
        problem = self._problem(_MACHINE, ready, ready.label, classes, has_class_sums=True)
        attributes = self._fitted_attributes(ready, problem, eta)
        reporter = FitReporter(self, ready.X, ready.y, sample_weight, attributes)
        method = "hulls-frank-wolfe" if self.solver == "frank_wolfe" else "hulls"
        with single_threaded_libraries(), refused_if_inexact(problem):
            solution = solve(problem, self._run(reporter.watchers), method=method)
        if solution.status == "hulls_meet":
            attributes = self._fitted_attributes(ready, problem, eta, is_tie=True)
        with uninterrupted(), single_threaded_libraries():
            store(self, solution, attributes)
        reporter.finish()
        warn_of_outcome(solution, float(self.tol), can_go_on=False)
        if self.status_ == "interrupted" and not reporter.stopped:
            raise KeyboardInterrupt
        self._finish_calibration(started, X, y, sample_weight)
        return self

    def _fold_estimator(
        self, train: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> ConvexHullSVC:
        """A copy for some training rows; an absolute eta is raised where it would be infeasible."""
        model: ConvexHullSVC = super()._fold_estimator(train, y, weight)
        if self.eta_scale == "absolute":
            smallest = min(float(weight[y == label].sum()) for label in np.unique(y))
            model.set_params(eta=max(float(self.eta), 1.0 / smallest))
        return model

    def _check_parameters(self) -> None:
        self._check_common()
        if not (isinstance(self.eta, str) and self.eta == "auto"):
            check_number("eta", self.eta, above=0.0)
        for name, allowed in (
            ("solver", _SOLVERS),
            ("offset", _OFFSETS),
            ("eta_scale", _SCALES),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be one of {allowed}, got {shown(getattr(self, name))}."
                )
        if self.eta_scale == "relative" and self.eta != "auto" and float(self.eta) > 1:
            raise ValueError(
                f"eta must be in (0, 1] for eta_scale='relative', got {shown(self.eta)}."
            )

    def _fitted_attributes(
        self, ready: Prepared, problem: Problem, eta: float, is_tie: bool = False
    ) -> Attributes:
        """Attributes of the model of a dual point: what ``fit`` stores and callbacks see.

        ``is_tie``: the hulls meet, so that every score is zero.
        """
        Q = len(ready.classes)

        def attributes(point: DualPoint, judgement: Judgement | None) -> dict[str, Any]:
            if judgement is None:
                judgement = judge_hulls(problem, point, 1.0, lambda: "offset only")
            assert isinstance(judgement, HullJudgement)
            T, u, support = point.coefficients(problem), hull_weights(problem, point), point.support
            shift = judgement.centre_offset
            if self.offset == "kkt":
                shift = judgement.threshold / (2.0 * Q)
            W = judgement.W
            if is_tie:
                T, shift = np.zeros_like(T), np.zeros(Q)
                W = None if W is None else np.zeros_like(W)
            rows = ready.kept[support]
            weights = np.zeros(ready.X.shape[0])
            weights[rows] = u
            found: dict[str, Any] = {
                "classes_": ready.classes,
                "eta_": eta,
                "weights_": weights,
                "support_": rows,
                "support_vectors_": support_vectors(ready, rows),
                "dual_coef_": T,
                "intercept_": -shift,
                "_kernel": ready.kernel,
            }
            if W is not None:
                V = prototypes(problem, support, point.V)
                found |= {"prototypes_": V, "center_": V.mean(axis=0), "coef_": W}
                if Q == 2:
                    found |= {"coef_": W[1:] - W[:1], "intercept_": shift[:1] - shift[1:]}
            return found

        return attributes

    # -- margins and separability --------------------------------------------------------------

    def _labelled_scores(self, X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """Checked rows, (n, n_classes) scores with their differences right, class numbers."""
        X = self._check_input(X)
        label = self._class_numbers(X, y)
        return X, two_columns(self._class_scores(X)), label

    def margins(self, X: Any, y: Any) -> np.ndarray:
        r"""Geometrical margins between classes (9.1), for examples that are classified correctly.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            For a precomputed kernel the training matrix.
        y : array-like of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_classes, n_classes)
            Entry (k, l) is the smallest :math:`|s_k - s_l|` over the examples of classes k and l,
            divided by :math:`\|v_k - v_l\|`; infinite on the diagonal and where there is no
            example.
        """
        X, scores, label = self._labelled_scores(X, y)
        products = prototype_products(self, X)
        return geometric_margins(scores, label, np.arange(len(self.classes_)), products)

    def separability(self, X: Any, y: Any) -> HullSeparability:
        """The sufficient condition for training without errors, and the examples that violate it.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            For a precomputed kernel the training matrix.
        y : array-like of shape (n_samples,)

        Returns
        -------
        HullSeparability
            Costs all kernel values of X.
        """
        X = self._check_input(X)
        return hull_separability(self, X, self._class_numbers(X, y))


def resolve_eta(eta: float | str, scale: str, ready: Prepared) -> float:
    """The cap of an example of weight 1; refused where (7.1) has no feasible point (19.1).

    Parameters
    ----------
    eta : float or "auto"
    scale : {"absolute", "relative"}
    ready : Prepared
        With weights as ``cap``.
    """
    mass = np.bincount(ready.label, ready.cap)
    smallest = float(1.0 / mass.min())
    if isinstance(eta, str):
        eta, scale = _AUTO_ETA, "relative"
    if scale == "relative":
        return max(smallest, smallest ** (1.0 - float(eta)))
    if eta < smallest * (1.0 - 1e-12):
        which = ready.classes[mass.argmin()]
        raise ValueError(
            f"eta={eta:g} is infeasible: class {which} has a total weight of {mass.min():g}, so "
            f"the smallest feasible eta is {smallest!r}. Use that or more, or "
            "eta_scale='relative', which is feasible for any data."
        )
    return float(eta)
