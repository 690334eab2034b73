"""MultiPrototypeSVC: several linear prototypes per class, trained with one margin objective.

fit: check parameters (prototype_parameters) -> validate -> counts and first assignment ->
prototype_training (metric, alternation, attributes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.datasets.row_store import RowStore
from polymargin.estimators.callbacks import with_callbacks
from polymargin.estimators.partial_fit import PartialFit
from polymargin.estimators.trained_in_parts import TrainedInParts
from polymargin.problem.annealing import Annealing
from polymargin.problem.first_assignment import (
    count_distinct,
    count_prototypes,
    initial_assignment,
    row_keys,
)
from polymargin.problem.machines import MACHINES
from polymargin.solvers.smo.pattern_smo import PatternSMO

__all__ = ["MultiPrototypeSVC"]


class MultiPrototypeSVC(TrainedInParts, PartialFit):
    r"""Multi-prototype support vector machine: a few linear prototypes per class.

    Minimises, over prototypes :math:`M_r` (several per class) and an assignment :math:`a_i` of
    every example to one prototype of its class,

    .. math::

        & E = \tfrac12 \sum_r \|M_r\|^2 + \sum_i C_i\, \xi_i^{a_i}, \qquad
        f_r(x) = \langle M_r, \varphi(x)\rangle, \\
        & \xi_i^r = \max\bigl(0,\, 1 + \max_{s \text{ of other classes}} f_s(x_i) - f_r(x_i)\bigr).

    Prediction is the class of the prototype that scores highest: piecewise linear borders at the
    price of a few inner products.  The problem is not convex: assignments are annealed from a
    first guess, the best model seen is kept, and the convex problem of its assignment is solved to
    ``tol`` and certified.

    Parameters
    ----------
    n_prototypes : int, mapping, array or "auto", default=5
        Prototypes per class: one number, a mapping from label to number, or numbers in the order
        of ``classes_``.  A class with fewer examples gets fewer, with a warning.  "auto" is chosen
        by validation on the training rows, as are C and ``metric`` where they are "auto": five per
        class, C of ten times the inverse mean of :math:`\kappa(x, x)` and no metric stand until
        another value is clearly better on the same rows (``choice_``).  Up to 2000 rows there are
        three folds.  The fits before the final one see at most nine times as many rows as it.
        Places of prototypes that win no example are offered to classes with larger losses.
    C : float or "auto", default=1.0
        Weight of the losses; not divided by the number of examples.  ``np.inf`` (hard margin) with
        ``assignment="static"`` only: assignments are compared by their slacks.
    kernel : str, callable, dict or list, default="linear"
        "linear", "rbf", "poly", "sigmoid", "precomputed" or a callable.  A dict is a sum of
        kernels.  A list such as ``["linear", ("rbf", {"gamma": 0.1})]`` gives prototype number j
        of every class its j-th kernel; for some thousand rows at most, since all kernel matrices
        are kept in memory.
    intercept : {"auto", "none", "penalized"}, default="auto"
        "penalized" adds ``intercept_scaling**2`` to the kernel; "auto" is that for the linear
        kernel and "none" otherwise.
    assignment : {"annealed", "greedy", "static"}, default="annealed"
        "static" keeps the initial assignment; "greedy" goes to the nearest local minimum, and
        takes from ``annealing`` only whether weights of reassigned examples are set to zero.
    annealing : {"default", "thorough", "paper"} or Annealing, default="default"
        "default" is chosen for accuracy and speed, "thorough" for the lowest energy, "paper" is the
        published algorithm: a random first assignment, T0 = 10, cooling .05, temperatures not
        scaled by C, dual weights of reassigned examples set to zero, in greedy rounds too.
    n_restarts : int, default=1
        Runs from different seeds, of which the one with the lowest energy is kept.
    init : {"auto", "kmeans", "random"} or array, default="auto"
        The first assignment: k-means within each class ("auto" where rows are vectors; random with
        ``annealing="paper"`` or any other that zeroes), random, an
        array of prototype numbers per example, or an (R, n_features) array of prototypes, of which
        each example takes the one of its class that scores highest.
    tol : float, default=1e-3
        Relative duality gap of the static problem at the end; also the least decrease of a slack
        that counts as an improvement by reassignment.
    max_iter : int, default=100000
        Passes over the active patterns, all stages together.
    max_time : float or None, default=None
        Seconds, all restarts together; the best model so far is kept.
    class_weight : dict, "balanced" or None, default=None
    n_jobs : int or None, default=None
        Threads: restarts, or with one restart blocks of kernel values, products with all rows and,
        on long dense rows of 4 to 64 classes, passes over halves of the classes.  The last visit
        in another order, so energies differ a little; the same number of threads and the same
        seed give the same bits.  Otherwise the result does not depend on it.
    random_state : int, RandomState or None, default=None
        First assignment, draws, order of visits.
    verbose : int, default=0
        1 prints a line per outer step.
    gamma, degree, coef0
        Kernel parameters as in ``MulticlassSVC``.
    intercept_scaling : float, default=1.0
        The constant feature behind a penalised intercept.
    cache_mb : float, default=1000
        Memory for kernel rows in megabytes.
    solver : "auto" or PatternSMO, default="auto"
        A ``PatternSMO`` solves the static problems, one or those between reassignments, with a
        member of the SMO-like family; with ``annealing="paper"`` that is the published algorithm.
    metric : {"euclidean", "learned", "auto"}, default="euclidean"
        "learned" measures prototypes by :math:`\tfrac12 \operatorname{tr}(M A^{-1} M^\top)` instead
        of :math:`\tfrac12 \|M\|^2`, A a matrix learnt from prototypes of early assignments:
        directions that tell classes apart become cheap.
        With ten and more prototypes per class often a tenth fewer errors on validation
        data, with few of them more errors: choose it like C.  The model is as small and as fast.
        Linear kernel, at most 4000 features; the rows in the metric are a dense copy of X.
    probabilities : "temperature" or None, default=None
        "temperature": scores of training rows by models that have not seen them are computed after
        the fit, and from them one temperature for ``predict_proba``; labels never change.
    calibration_folds : int or None, default=None
        Number of the folds for these scores (None: 5 if they are needed).  A number also keeps
        them with the fold models, from which ``predict_set`` makes sets without further data.
    fit_into : int, str or None, default=None
        The largest size of the model on a device: bytes, or text such as "8kB" (1000) and "8kiB"
        (1024).  Prototypes of each class, number format (int16, int8, int4), features, projection
        and C are then chosen by the validation error of rounded models (``tried_``), and the
        numbers are refitted after rounding; ``n_prototypes``, ``C`` and ``metric`` are not used.
        The tables of scalers in front of the model are not counted: put none there, features are
        scaled inside.  ``to_c`` writes the same integers.  Linear kernel.
    finish : None, "auto", float or ("classes", float), default=None
        A last stage of gradient steps on a smooth loss: softmax over classes of log-sum-exp over
        their prototypes, features jittered by Gaussian noise of so many spreads, or by
        so much of a difference of two examples of the same class (``("classes", 0.5)``: noise
        where classes vary, as strokes of images do).  "auto" tries several by validation (three
        more fits on two thirds of the rows, one of three quarters above 20,000 rows, none if
        another parameter is "auto" too) and takes the best if it is clearly better than none.  The
        stage has no certificate: ``certificate_`` is that of the margin problem before it.  Linear
        kernel.
    teacher : fitted classifier or None, default=None
        The finish learns its ``predict_proba`` (or labels) instead of ``y``.  With ``finish=None``
        or "auto" it does so only where that is clearly better on validation rows than labels, or
        no finish at all (``finish_["target"]``); a number as ``finish`` leaves no choice.
    cost_matrix : array-like of shape (n_classes, n_classes) or None, default=None
        Entry [i, j] is the cost of saying ``classes_[j]`` when ``classes_[i]`` is true: 0 on the
        diagonal, finite and > 0 elsewhere.  It takes the place of the margin 1 that rival j is
        asked for; labels stay those of the highest score.  Needs a finite C.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    prototypes_ : ndarray of shape (R, n_features)
        Linear kernel only.  Prototypes are numbered class by class in the order of ``classes_``.
    intercept_ : ndarray of shape (R,)
    prototype_classes_ : ndarray of shape (R,)
        Label of each prototype.
    assignment_ : ndarray of shape (n_samples,)
        Prototype of each training example, -1 for examples without weight.
    alive_ : ndarray of bool of shape (R,)
        Whether the prototype wins a training example.
    energy_ : float
        E of this model with the best assignment.
    metric_ : ndarray of shape (n_features, n_features)
        A of ``metric="learned"``; ``energy_`` and ``certificate_`` are those of the problem in the
        metric; ``prototypes_`` are coefficients of the features themselves, as always.
    stationary_ : bool
        Whether no reassignment of an example lowers its slack by more than ``2 * tol``.
    support_, support_vectors_, dual_coef_
        Dual variables (n_support, R) of the static problem:
        :math:`M_r = \sum_i \tau_{ir}\, \varphi(x_i)`, in a learned metric
        :math:`\sum_i \tau_{ir} A x_i`.
    certificate_ : Certificate
        Of the static problem with the final assignment.
    status_ : str
        "converged", "max_iter", "max_time", "interrupted", "not_separable" or "stalled".
    history_ : dict of equally long arrays
        One entry per outer step: ``seconds, iteration, primal, dual, relative_gap, active, steps``
        of the static problem, ``temperature`` in multiples of C, ``energy`` and ``changed``
        assignments.  With a ``PatternSMO`` and ``assignment="static"`` its counts
        instead of the last three.
    n_iter_ : int
    choice_ : dict
        Where a parameter was "auto": the values chosen, ``n_fits``, ``work`` (rows of all fits in
        multiples of those given, at most 10), ``seconds`` and equally long lists of what was tried;
        ``errors`` are means over the folds that a value has seen (``tried_folds``).
    finish_ : dict
        Of the smooth finish: ``jitter``, ``target`` ("labels" or "teacher"), what was tried, the
        margin objective before and after.
    number_format_, model_bytes_, compact_, tried_
        Of ``fit_into``: format, bytes on a device, the integers, and the table of the search.
    temperature_ : float
        Of ``probabilities="temperature"``: ``softmax(scores / temperature_)`` are probabilities.
    out_of_fold_scores_ : ndarray of shape (n_samples, n_classes)
        With ``calibration_folds``: scores of training rows by models that have not seen them (two
        classes: minus and plus half of the decision value; nan for rows without weight).
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    MultiPrototypeSVCCV : C and the number of prototypes by cross-validation.
    MulticlassSVC : One prototype per class, or kernels.
    Annealing : The schedule of ``annealing=``.
    dask.DaskMultiPrototypeSVC : The same machine on a Dask cluster.
    prototype_table : What every prototype stands for.

    Notes
    -----
    Energies may be compared only for equal numbers of prototypes and equal C: a copy of a prototype
    pays its norm again.  Choose C and ``n_prototypes`` by validation (``MultiPrototypeSVCCV``).
    The fitted object keeps a reference to the training data for ``prune``; it is not pickled.

    The metric is ``A = s (.9 W'W / ||W||^2 + .1 I / d)``, W the prototypes of an assignment (its
    static problem without a metric, solved to ten times ``tol``), s such that W costs as much as
    before, so that C keeps its meaning.  A first metric is learned from the first assignment;
    annealing begins in it, and at a temperature of .15 C the final metric is learned from the
    assignment reached.  ``history_`` begins there.  ``partial_fit`` learns it from the first batch
    and keeps it.

    References
    ----------
    Aiolli & Sperduti, Multiclass Classification with Multi-Prototype Support Vector Machines, JMLR
    6 (2005) 817-850.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from polymargin import MultiPrototypeSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MultiPrototypeSVC(n_prototypes=3, C=0.01, random_state=0).fit(X / 16, y)
    >>> model.prototypes_.shape
    (30, 64)
    """

    def __init__(
        self,
        n_prototypes: int | str | Mapping[Any, int] | Any = 5,
        C: float | str = 1.0,
        kernel: str | Callable[..., Any] = "linear",
        intercept: str = "auto",
        assignment: str = "annealed",
        annealing: str | Annealing = "default",
        n_restarts: int = 1,
        init: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 100000,
        max_time: float | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        intercept_scaling: float = 1.0,
        cache_mb: float = 1000,
        solver: str | PatternSMO = "auto",
        metric: str = "euclidean",
        probabilities: str | None = None,
        calibration_folds: int | None = None,
        fit_into: int | str | None = None,
        finish: float | tuple[str, float] | str | None = None,
        teacher: Any = None,
        cost_matrix: Any = None,
    ) -> None:
        self.n_prototypes = n_prototypes
        self.C = C
        self.kernel = kernel
        self.intercept = intercept
        self.assignment = assignment
        self.annealing = annealing
        self.n_restarts = n_restarts
        self.init = init
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.intercept_scaling = intercept_scaling
        self.cache_mb = cache_mb
        self.solver = solver
        self.metric = metric
        self.probabilities = probabilities
        self.calibration_folds = calibration_folds
        self.fit_into = fit_into
        self.finish = finish
        self.teacher = teacher
        self.cost_matrix = cost_matrix

    # -- fit ---------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MultiPrototypeSVC:
        """Train on examples X with labels y.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            float32 stays float32.  For a precomputed kernel the (n_samples, n_samples) matrix.
            Or a ``RowStore`` (``open_rows``), which has its labels: the machine is trained block
            after block, and the model has neither dual variables nor ``assignment_``.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or None
            Non-negative; an example of weight 0 is left out.

        Returns
        -------
        self
        """
        if isinstance(X, RowStore):
            from polymargin.estimators.prototype_parts import fit_prototype_rows

            fit_prototype_rows(self, X)
            return self
        self._check_stages()
        self._forget_stages()
        self._check_costs()
        if self.fit_into is not None:
            self._fit_into(X, y, sample_weight)
            return self
        if self._has_open_choice:
            self._fit_chosen(X, y, sample_weight)
            return self
        started = self._begin_calibration()
        schedule = self._check_parameters()
        ready = self._prepare(MACHINES["cs"], X, y, sample_weight)
        keys = row_keys(ready.data)
        distinct = count_distinct(keys, ready.label)
        counts = count_prototypes(self.n_prototypes, ready.classes, distinct)
        prototype_class = np.repeat(np.arange(len(counts)), counts)
        seed = self._seed()
        weight = np.ones(len(ready.cap)) if np.isinf(self.C) else ready.cap / float(self.C)
        init = self._kept_init(ready)

        def first_assignment(restart: int) -> np.ndarray:
            return initial_assignment(
                init,
                ready.data,
                ready.label,
                weight,
                counts,
                [seed, restart],
                ready.kernel.name != "precomputed",
                keys,
            )

        if self._has_kernel_list:
            from polymargin.estimators.own_kernel_training import fit_own_kernels

            fit_own_kernels(self, ready, schedule, first_assignment, prototype_class, seed)
            self._finish_calibration(started, X, y, sample_weight)
            return self
        with single_threaded_libraries():
            own = first_assignment(0)
        problem = self._problem(MACHINES["cs"], ready, own, prototype_class)
        self._train(problem, ready, schedule, first_assignment, seed, sample_weight)
        self._finish_stage(X, y, sample_weight)
        self._finish_calibration(started, X, y, sample_weight)
        return self

    def _fold_estimator(
        self, train: np.ndarray, y: np.ndarray, weight: np.ndarray
    ) -> MultiPrototypeSVC:
        """A copy for some training rows with as many prototypes."""
        labels, present = np.unique(y, return_counts=True)
        counts = np.bincount(self._prototype_class)[np.searchsorted(self.classes_, labels)]
        model: MultiPrototypeSVC = super()._fold_estimator(train, y, weight)
        if not isinstance(self.init, str):
            model.set_params(init="auto")
        return model.set_params(n_prototypes=np.minimum(counts, present))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_training", None)  # no training data in files and pickles
        return state

    # -- more training -----------------------------------------------------------------------

    def prune(self) -> MultiPrototypeSVC:
        """Drop the prototypes that win no training example and solve again without them.

        A dead prototype still scores every example (about 0), so the model without it is another
        one: the examples go to the remaining prototypes of their class, and greedy rounds (with
        ``assignment="static"`` one static problem) follow.  A class keeps at least one prototype.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        ready = getattr(self, "_training", None)
        if ready is None:
            raise ValueError(
                "prune needs the training data, which a loaded or partially fitted model does "
                "not have; fit again first."
            )
        label = self._prototype_class
        keep = self.alive_.copy()
        assigned = np.bincount(self.assignment_[ready.kept], minlength=len(keep))
        for c in range(len(self.classes_)):
            mine = np.flatnonzero(label == c)
            if not keep[mine].any():
                keep[mine[assigned[mine].argmax()]] = True
        number = np.cumsum(keep) - 1
        scores = self._prototype_scores(ready.data)
        scores[:, ~keep] = -np.inf
        scores[label[None, :] != ready.label[:, None]] = -np.inf
        present = self.assignment_[ready.kept]
        own = number[np.where(keep[present], present, scores.argmax(axis=1))]
        problem = self._problem(MACHINES["cs"], ready, own, label[keep])
        self._forget_calibration()
        self._train(
            problem, ready, None, lambda restart: own, self._seed(), None, self._known_metric()
        )
        return self
