"""Base of all classifiers: parameter checks, validation, the kernel, class scores.

A classifier with other scores than those of one prototype per class supplies ``_class_scores`` and
``predict``; the reject option and decision values follow.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from polymargin.estimators.calibration import CalibratedClassifier
from polymargin.estimators.callbacks import CallbackSupport
from polymargin.estimators.explaining import ExplainedClassifier
from polymargin.estimators.label_score import LabelScore
from polymargin.exceptions import shown
from polymargin.problem.cost_matrix import extra_margins
from polymargin.problem.encoding import encode, weights_times
from polymargin.problem.kernel_sums import SumEntry, is_sum, read_entries, sum_kernel
from polymargin.problem.kernels import KERNELS, Kernel, resolve_gamma, squared_norms
from polymargin.problem.machines import Machine, find_machine
from polymargin.problem.object_rows import ObjectKernel, as_object_rows, holds_objects
from polymargin.problem.own_kernel_lists import list_kernel, read_list
from polymargin.problem.problem import Problem
from polymargin.problem.scales import check_scales
from polymargin.problem.scoring import KernelModel, check_finite, linear_scores
from polymargin.problem.validation import canonical, check_kernel, check_number, validate_named
from polymargin.solvers.history import AnyCheck, Check, Watcher
from polymargin.solvers.run import Run, Stop

__all__ = ["LargeMarginClassifier", "Prepared"]


class Prepared(NamedTuple):
    """Training data after validation: the rows that count and what is known of them."""

    X: Any
    y: np.ndarray
    kept: np.ndarray
    classes: np.ndarray
    label: np.ndarray
    cap: np.ndarray
    kernel: Kernel
    data: Any
    norms: np.ndarray | None = None
    span: Any = None


class LargeMarginClassifier(
    CalibratedClassifier, ExplainedClassifier, CallbackSupport, LabelScore, BaseEstimator
):
    """Base of the estimators: everything that does not depend on the machine."""

    C: float
    kernel: Any
    gamma: float | str
    degree: float
    coef0: float
    intercept: str
    intercept_scaling: float
    tol: float
    max_iter: int
    max_time: float | None
    cache_mb: float
    class_weight: Mapping[Any, float] | str | None
    n_jobs: int | None
    random_state: Any
    verbose: int
    cost_matrix: Any = None
    _knows_free_intercept = False
    _knows_objects = True
    _knows_kernel_lists = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    # -- on the way in -----------------------------------------------------------------------

    def _check_common(self) -> None:
        """Refuse parameters that no machine allows."""
        self._check_C()
        if self._has_kernel_list:
            read_list(self.kernel)
        elif is_sum(self.kernel):
            read_entries(self.kernel)
        elif not callable(self.kernel) and self.kernel not in (*KERNELS, "precomputed"):
            raise ValueError(
                f"kernel must be one of {[*KERNELS, 'precomputed']}, a callable or a dict "
                f"of names and weights, got {shown(self.kernel)}."
            )
        self._check_gamma()
        check_number("degree", self.degree, above=0.0)
        check_number("coef0", self.coef0)
        check_number("intercept_scaling", self.intercept_scaling, above=0.0)
        check_number("tol", self.tol, above=0.0)
        check_number("cache_mb", self.cache_mb, above=0.0)
        if not isinstance(self.max_iter, numbers.Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter must be an integer >= 1, got {shown(self.max_iter)}.")
        if self.max_time is not None:
            check_number("max_time", self.max_time, above=0.0)
        if self.n_jobs is not None and not isinstance(self.n_jobs, numbers.Integral):
            raise ValueError(f"n_jobs must be an integer or None, got {shown(self.n_jobs)}.")

    def _check_C(self) -> None:
        is_number = isinstance(self.C, numbers.Real) and not isinstance(self.C, bool)
        if not is_number or not self.C > 0 or sys.float_info.max < self.C < np.inf:
            raise ValueError(
                f"C must be a number > 0 (np.inf for the hard margin), got {shown(self.C)}."
            )

    def _check_gamma(self) -> None:
        if isinstance(self.gamma, str):
            if self.gamma not in ("scale", "auto"):
                raise ValueError(f"gamma must be > 0, 'scale' or 'auto', got {shown(self.gamma)}.")
        else:
            check_number("gamma", self.gamma, above=0.0)

    def _chosen(self) -> tuple[Any, Any]:
        """C and gamma of this fit: the parameters, unless something else decides."""
        return self.C, self.gamma

    def _validate(
        self, X: Any, y: Any, reset: bool = True, is_finite: bool = False
    ) -> tuple[Any, np.ndarray]:
        """Checked arrays; ``is_finite`` says that X is known to be so."""
        if callable(self.kernel) and holds_objects(X):
            return self._validate_objects(X, y)
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        X, y = validate_named(
            self,
            X,
            y,
            accept_sparse=False if precomputed else "csr",
            dtype=[np.float64, np.float32],
            order="C",
            reset=reset,
            ensure_all_finite=not is_finite,
        )
        if y.dtype.kind not in "biuSU":  # integers and strings are labels, whatever they are
            check_classification_targets(y)
        if precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X must be the square kernel matrix of the training examples for "
                f"kernel='precomputed', got shape {X.shape}."
            )
        return canonical(X), y

    def _validate_objects(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Patterns for a callable kernel that are no vectors, and their labels."""
        if not self._knows_objects:
            raise ValueError(
                f"X: {type(self).__name__} begins with clusters of vectors, and these patterns are "
                "none; use MulticlassSVC or ConvexHullSVC, or kernel='precomputed' with the "
                "matrix of their kernel."
            )
        if y is None:
            raise ValueError("y: labels are needed, one for every pattern of X; got None.")
        rows, labels = as_object_rows(X), column_or_1d(y)
        check_consistent_length(rows, labels)
        if labels.dtype.kind not in "biuSU":
            check_classification_targets(labels)
        self.n_features_in_ = 1
        return rows, labels

    def _prepare(self, machine: Machine, X: Any, y: Any, sample_weight: Any) -> Prepared:
        """Validate, encode labels and weights, drop rows without weight, make the kernel."""
        norms = self._finite_norms(X)
        X, y = self._validate(X, y, is_finite=norms is not None)
        kept, classes, label, weight, weighted = encode(y, sample_weight, self.class_weight)
        data = X if len(kept) == X.shape[0] else X[kept]
        kernel = self._make_kernel(machine, data, None if sample_weight is None else weight)
        if kernel.name == "precomputed" and data is not X:
            data = np.ascontiguousarray(data[:, kept])
        C = float(self._chosen()[0])
        cap = np.full(len(kept), np.inf) if np.isinf(C) else weights_times(C, weighted)
        if norms is not None and data is not X:
            norms = norms[kept]
        return Prepared(X, y, kept, classes, label, cap, kernel, data, norms)

    def _finite_norms(self, X: Any) -> np.ndarray | None:
        """Squared norms of dense rows, if that proves that X is finite: large data are read once.

        None where they overflow or are nan: then the full check names what is wrong.
        """
        plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float32, np.float64)
        if not plain or callable(self.kernel) or self.kernel == "precomputed":
            return None
        norms = squared_norms(X)
        return norms if np.isfinite(norms).all() else None

    def _problem(
        self,
        machine: Machine,
        ready: Prepared,
        own: np.ndarray,
        prototype_class: np.ndarray,
        **facts: Any,
    ) -> Problem:
        """The training problem; ``facts`` are further fields of ``Problem``."""
        n_jobs = effective_n_jobs(self.n_jobs)
        problem = Problem(
            machine,
            ready.kernel,
            ready.data,
            ready.label,
            ready.cap,
            own,
            prototype_class,
            n_jobs,
            has_free_bias=self._intercept_kind(machine) == "free",
            extra_margins=extra_margins(
                self.cost_matrix,
                machine,
                ready.classes,
                prototype_class,
                bool(np.isinf(ready.cap).any()),
            ),
            **facts,
        )
        if ready.norms is not None:
            problem = problem.with_norms(ready.norms)
        problem = problem.changed(kernel_psd=check_kernel(problem))
        check_scales(problem)
        return problem

    def _stop(self) -> Stop:
        return Stop(float(self.tol), int(self.max_iter), self._time_of_fit())

    def _run(
        self, watchers: tuple[Watcher, ...], kind: type[AnyCheck] = Check, seed: Any = None
    ) -> Run:
        """Stop rule, clock, seed, memory and watchers of this fit."""
        seed = self._seed() if seed is None else seed
        n_jobs = effective_n_jobs(self.n_jobs)
        return Run(self._stop(), seed, float(self.cache_mb), n_jobs, watchers, kind)

    def _seed(self) -> int:
        seed = self.random_state
        if not isinstance(seed, numbers.Integral) or seed < 0:
            seed = check_random_state(seed).randint(2**31 - 1)
        return int(seed)

    def _intercept_kind(self, machine: Machine) -> str:
        is_linear = not callable(self.kernel) and self.kernel == "linear"
        kind = machine.resolve_intercept(self.intercept, is_linear)
        if kind == "free" and not self._knows_free_intercept:
            raise ValueError(
                f"intercept='free' is not available for {type(self).__name__}: its certificate "
                "knows no unpenalised intercept; use 'penalized' or 'none'."
            )
        return kind

    def _make_kernel(self, machine: Machine, X: Any, weight: np.ndarray | None) -> Kernel:
        kind = self._intercept_kind(machine)
        offset = float(self.intercept_scaling) ** 2 if kind == "penalized" else 0.0
        if self._has_kernel_list:
            shared = Kernel("sum", self.gamma, float(self.degree), float(self.coef0), offset)
            return list_kernel(self.kernel, X, weight, shared)
        if is_sum(self.kernel):
            shared = Kernel("sum", self.gamma, float(self.degree), float(self.coef0), offset)
            return sum_kernel(self._sum_entries(), X, weight, shared)
        name = "callable" if callable(self.kernel) else str(self.kernel)
        gamma = (
            1.0
            if name in ("linear", "precomputed", "callable")
            else resolve_gamma(self._chosen()[1], X, weight)
        )
        function = self.kernel if callable(self.kernel) else None
        if function is not None and X.dtype == object:
            function = ObjectKernel(function)
        return Kernel(name, gamma, float(self.degree), float(self.coef0), offset, function)

    @property
    def _has_kernel_list(self) -> bool:
        """Whether every prototype of a class has a kernel of its own."""
        return self._knows_kernel_lists and isinstance(self.kernel, list | tuple)

    def _sum_entries(self) -> list[SumEntry]:
        """The terms of a sum of kernels in this fit."""
        return read_entries(self.kernel)

    # -- on the way out ----------------------------------------------------------------------

    def _check_input(self, X: Any) -> Any:
        check_is_fitted(self, "intercept_")  # a failed fit leaves n_features_in_ behind
        return self._checked_rows(X, self._kernel)

    def _checked_rows(self, X: Any, kernel: Kernel) -> Any:
        """Rows to be scored, of as many features as there were in training."""
        if isinstance(kernel.function, ObjectKernel):
            if not holds_objects(X):
                raise ValueError(
                    "X: the model was trained on a sequence of objects; give a list or an array "
                    "of one dimension of such objects, with one at least."
                )
            return as_object_rows(X)
        return canonical(
            validate_named(
                self,
                X,
                accept_sparse=False if kernel.name == "precomputed" else "csr",
                dtype=[np.float64, np.float32],
                order="C",
                reset=False,
            )
        )

    def _landmark_model(self) -> KernelModel:
        """Scores by support vectors; the offset of a penalised intercept is in intercept_."""
        precomputed = self._kernel.name == "precomputed"
        landmarks = self.support_ if precomputed else self.support_vectors_
        kernel = replace(self._kernel, offset=0.0)
        return KernelModel(kernel, landmarks, self.dual_coef_, self.intercept_)

    def _class_numbers(self, X: Any, y: Any) -> np.ndarray:
        """Places of the labels of X in ``classes_``; unknown ones are refused."""
        y = column_or_1d(y)
        check_consistent_length(X, y)
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(
                f"y has labels that the model does not know ({y[~known][0]!r} is the first); "
                f"it was trained on {list(self.classes_)}."
            )
        return np.searchsorted(self.classes_, y)

    def _raised_scores(
        self, scores: np.ndarray, label: np.ndarray, prototype_class: np.ndarray | None = None
    ) -> np.ndarray:
        """Scores (n, R) plus the margins beyond 1 that costs require of rivals (24.1)."""
        owner = np.arange(len(self.classes_)) if prototype_class is None else prototype_class
        machine = find_machine(getattr(self, "machine", "cs"))
        extra = extra_margins(self.cost_matrix, machine, self.classes_, owner, False)
        return scores if extra is None else np.asarray(scores + extra[label])

    def _class_scores(self, X: Any) -> np.ndarray:
        """(n, n_classes) scores of validated rows, or (n, 1) differences for two classes."""
        n_jobs = effective_n_jobs(self.n_jobs)
        if self._kernel.is_linear:
            return check_finite(linear_scores(X, self.coef_, self.intercept_, n_jobs))
        return check_finite(self._landmark_model().scores(X, np.float64, n_jobs))

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
        if len(self.classes_) > 2 and not self._kernel.is_linear:
            best = self._landmark_model().argmax(X, effective_n_jobs(self.n_jobs))
            return self.classes_[best]
        scores = self._class_scores(X)
        if len(self.classes_) > 2:
            return self.classes_[scores.argmax(axis=1)]
        return self.classes_[(_difference(scores) > 0).astype(np.intp)]

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

        Notes
        -----
        The products are those of the BLAS behind NumPy.  Fits do not depend on its number of
        threads; the last bits of scores may (set OPENBLAS_NUM_THREADS=1 where they matter).
        """
        scores = self._class_scores(self._check_input(X))
        return scores if len(self.classes_) > 2 else _difference(scores)

    def predict_or_reject(
        self, X: Any, margin: float = 0.0, reject_label: Any = None
    ) -> np.ndarray:
        """Labels, or ``reject_label`` where the best class leads by no more than ``margin``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        margin : float, default=0.0
            Rejects where best minus second-best class score is at most ``margin``; 0 rejects exact
            ties.
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


def _difference(scores: np.ndarray) -> np.ndarray:
    """The second class minus the first, from (n, 2) scores or (n, 1) differences."""
    return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
