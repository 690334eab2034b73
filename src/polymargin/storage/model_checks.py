"""Whether a model that came out of a file is sound: shapes, ranges, finite numbers, all at one.

Prediction trusts fitted arrays.  A file can be changed and its checksum redone, so every array that
prediction reads is compared here with the others before a loaded model is handed out.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from polymargin.certificate.certificate import Certificate
from polymargin.estimators.base import LargeMarginClassifier
from polymargin.estimators.convex_hull import ConvexHullSVC
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.estimators.prototype_base import PrototypeClassifier
from polymargin.exceptions import NoScoresError
from polymargin.problem.kernels import EACH, KERNELS, Kernel
from polymargin.problem.machines import find_machine
from polymargin.problem.validation import why_not_compressed

__all__ = ["UnsoundModelError", "check_model"]

_NUMERIC = frozenset(
    [
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "Normalizer",
        "QuantileTransformer",
        "PowerTransformer",
        "PolynomialFeatures",
        "PCA",
        "TruncatedSVD",
        "VarianceThreshold",
        "TfidfTransformer",
        "KBinsDiscretizer",
        "Pipeline",
        "GridSearchCV",
        "RandomizedSearchCV",
        "StratifiedKFold",
        "KFold",
        "ShuffleSplit",
        "StratifiedShuffleSplit",
        "RepeatedStratifiedKFold",
        "CalibratedClassifierCV",
    ]
)
"""What may stand around a classifier so that every row of numbers can be predicted."""
_DENSE_PROBE = 1 << 20  # features; wider models are tried with a sparse row, which costs nothing


class UnsoundModelError(ValueError):
    """Fitted attributes that contradict each other; the message names one of them."""


def check_model(model: Any) -> None:
    """Refuse a model whose fitted attributes are not what ``fit`` could have made.

    Raises
    ------
    UnsoundModelError
        Of the first attribute that is wrong.
    """
    parts = list(_everything(model))
    for part in parts:
        if sp.issparse(part):
            _check_sparse("a sparse matrix", part)
        elif isinstance(part, LargeMarginClassifier) and "intercept_" in vars(part):
            _check_classifier(part)
        elif "best_estimator_" in getattr(part, "__dict__", {}):
            _need(
                getattr(part, "refit", True), "refit must be true where there is a best_estimator_"
            )
    estimators = [part for part in parts if isinstance(part, BaseEstimator)]
    if hasattr(model, "predict") and all(map(_is_numeric, estimators)):
        _predict_a_row(model)


def _everything(model: Any) -> Iterator[Any]:
    """The model and all that hangs on it, every object once."""
    seen: set[int] = set()
    todo = [model]
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            todo += part.values()
        elif isinstance(part, list | tuple | set):
            todo += part
        elif isinstance(part, np.ndarray):
            todo += part.ravel().tolist() if part.dtype == object else []
        elif not sp.issparse(part):
            todo += getattr(part, "__dict__", {}).values()


def _is_numeric(part: Any) -> bool:
    ours = type(part).__module__.partition(".")[0] == "polymargin"
    return ours or type(part).__name__ in _NUMERIC


def _predict_a_row(model: Any) -> None:
    """Prediction of one row of ones must work: this joins the parts of a Pipeline."""
    width = _whole("n_features_in_", getattr(model, "n_features_in_", None), 1)
    row = np.ones((1, width)) if width <= _DENSE_PROBE else sp.csr_matrix((1, width))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of names that the row does not have
        try:
            label = model.predict(row)
        except NoScoresError:  # told of the row, which need not be like those of training
            return
    if np.shape(label) != (1,):
        raise UnsoundModelError("the prediction of one row has another shape than one label")


# -- single values ---------------------------------------------------------------------------------


def _need(is_right: Any, message: str) -> None:
    if not is_right:
        raise UnsoundModelError(message)


def _whole(name: str, value: Any, least: int) -> int:
    right = isinstance(value, int | np.integer) and not isinstance(value, bool)
    _need(right and value >= least, f"{name} must be an integer >= {least}")
    return int(value)


def _numbers(name: str, value: Any, *shape: int | None) -> np.ndarray:
    """A finite float array of that shape, None standing for any length."""
    _need(type(value) is np.ndarray, f"{name} must be an array")
    _need(value.dtype in (np.float64, np.float32), f"{name} must hold floats, not {value.dtype}")
    _check_shape(name, value, shape)
    _need(np.isfinite(value).all(), f"{name} must be finite")
    return np.asarray(value)


def _indices(name: str, value: Any, lowest: int, end: int, *shape: int | None) -> np.ndarray:
    """An array of integers in [lowest, end)."""
    _need(type(value) is np.ndarray and value.dtype.kind in "iu", f"{name} must hold integers")
    _check_shape(name, value, shape)
    inside = not value.size or (value.min() >= lowest and value.max() < end)
    _need(inside, f"{name} must lie between {lowest} and {end - 1}")
    return np.asarray(value)


def _check_shape(name: str, value: Any, shape: tuple[int | None, ...]) -> None:
    right = len(shape) == value.ndim and all(
        want is None or want == got for want, got in zip(shape, value.shape, strict=True)
    )
    wanted = tuple("any" if size is None else size for size in shape)
    _need(right, f"{name} must have shape {wanted}, not {value.shape}")


def _check_sparse(name: str, X: Any) -> None:
    _need(X.format in ("csr", "csc"), f"{name} must be CSR or CSC")
    reason = why_not_compressed(X.data, X.indices, X.indptr, X.shape, X.format == "csc")
    _need(reason is None, f"{name} is damaged: {reason}")
    _need(X.data.dtype.kind in "biuf", f"{name} must hold numbers")
    _need(np.isfinite(X.data).all(), f"{name} must be finite")


# -- classifiers -----------------------------------------------------------------------------------


def _check_classifier(model: Any) -> None:
    """All attributes that prediction and the public methods read."""
    d = _whole("n_features_in_", model.n_features_in_, 1)
    Q = _check_classes(model.classes_)
    kernel = _check_kernel(model._kernel, d)
    R = Q
    if isinstance(model, PrototypeClassifier):
        R = _check_prototypes(model, d, Q)
    scores = 1 if kernel.is_linear and R == Q == 2 and hasattr(model, "coef_") else R
    _numbers("intercept_", model.intercept_, scores)
    if kernel.is_linear:
        name = "prototypes_" if isinstance(model, PrototypeClassifier) else "coef_"
        _numbers(name, getattr(model, name, None), scores, d)
    if hasattr(model, "dual_coef_") or not kernel.is_linear:  # large linear models go without
        _check_support(model, kernel, d, R)
    if isinstance(model, MulticlassSVC):
        _check_machine(model, kernel, Q)
    if isinstance(model, ConvexHullSVC):
        if hasattr(model, "weights_"):
            _numbers("weights_", model.weights_, None)
        if kernel.is_linear:
            _numbers("prototypes_", model.prototypes_, Q, d)
            _numbers("center_", model.center_, d)
    _check_calibration(model)
    _check_facts(model)


def _check_calibration(model: Any) -> None:
    """What probabilities and prediction sets read; fold models are checked like all classifiers."""
    if hasattr(model, "temperature_"):
        right = isinstance(model.temperature_, float) and 0.0 < model.temperature_ < np.inf
        _need(right, "temperature_ must be a finite number > 0")
    if hasattr(model, "calibration_scores_"):
        held = model.calibration_scores_
        _need(type(held) is np.ndarray and held.ndim == 1, "calibration_scores_ must be an array")
        _need(held.dtype == np.float64, "calibration_scores_ must hold floats")
    if not hasattr(model, "_fold_models"):
        return
    folds: Any = model._fold_models
    known: Any = getattr(model, "_fold_nonconformity", None)
    right = isinstance(folds, list) and isinstance(known, list) and len(folds) == len(known) > 1
    _need(right, "_fold_models and _fold_nonconformity must be lists of one length")
    for fold, values in zip(folds, known, strict=True):
        right = isinstance(fold, LargeMarginClassifier) and "intercept_" in vars(fold)
        _need(right, "_fold_models must hold fitted classifiers")
        known_labels = np.isin(fold.classes_, model.classes_).all()
        _need(known_labels, "classes_ of a fold model must be classes_ of the model")
        _need(type(values) is np.ndarray and values.ndim == 1, "_fold_nonconformity must be arrays")
        _need(values.dtype == np.float64, "_fold_nonconformity must hold floats")
        if model._kernel.name == "precomputed":
            continue
        _need(fold.n_features_in_ == model.n_features_in_, "a fold model has other features")
    if model._kernel.name == "precomputed":
        rows: Any = getattr(model, "_fold_rows", None)
        _need(isinstance(rows, list) and len(rows) == len(folds), "_fold_rows must be a list")
        for fold, columns in zip(folds, rows, strict=True):
            _indices("_fold_rows", columns, 0, model.n_features_in_, fold.n_features_in_)


def _check_classes(classes: Any) -> int:
    _need(type(classes) is np.ndarray and classes.ndim == 1, "classes_ must be an array")
    _need(classes.dtype.kind in "biufSUO", f"classes_ must hold labels, not {classes.dtype}")
    _need(len(classes) > 1, "classes_ must hold two labels or more")
    _need(bool((classes[1:] > classes[:-1]).all()), "classes_ must be in growing order")
    return len(classes)


def _check_kernel(kernel: Any, d: int) -> Kernel:
    _need(isinstance(kernel, Kernel), "the kernel is missing")
    known = isinstance(kernel.name, str) and kernel.name in (*KERNELS, "precomputed", "sum", EACH)
    _need(known and kernel.function is None, "the kernel has an unknown name")
    for name in ("degree", "coef0", "offset"):
        value = getattr(kernel, name)
        right = isinstance(value, float | int | np.floating | np.integer) and np.isfinite(value)
        _need(right, f"{name} of the kernel must be a finite number")
    _need(kernel.degree > 0 and kernel.offset >= 0, "degree and offset of the kernel are negative")
    gamma = np.asarray(kernel.gamma)
    right = gamma.ndim == 0 or (kernel.name == "rbf" and gamma.shape == (d,))
    right = right and gamma.dtype.kind in "iuf" and bool(np.isfinite(gamma).all())
    _need(right and (gamma > 0).all(), "gamma of the kernel must be a finite number > 0")
    _check_terms(kernel, d)
    return kernel


def _check_terms(kernel: Kernel, d: int) -> None:
    """The terms of a sum are kernels of the table with weights >= 0, not all of them 0."""
    parts: Any = kernel.parts
    right = isinstance(parts, tuple) and bool(parts) == (kernel.name in ("sum", EACH))
    right = right and all(isinstance(one, tuple) and len(one) == 2 for one in parts)
    _need(right, "the terms of a sum of kernels must be pairs of a weight and a kernel")
    for weight, part in parts:
        _need(
            isinstance(weight, float) and 0.0 <= weight < np.inf, "a weight of a sum is no number"
        )
        right = isinstance(part, Kernel) and part.name in KERNELS and not part.offset
        _need(right, "a term of a sum must be a kernel of the table")
        _check_kernel(part, d)
    _need(not parts or any(weight for weight, _ in parts), "all weights of a sum are 0")


def _check_prototypes(model: Any, d: int, Q: int) -> int:
    """The number of prototypes; they lie class by class, every class has one."""
    owner = _indices("_prototype_class", model._prototype_class, 0, Q, None)
    steps = np.diff(owner.astype(np.int64), prepend=0, append=Q - 1)
    right = len(owner) >= Q and owner[0] == 0 and np.isin(steps, (0, 1)).all()
    _need(right, "_prototype_class must name every class in order")
    R = len(owner)
    if model._kernel.name == EACH:
        enough = np.bincount(owner).max() <= len(model._kernel.parts)
        _need(bool(enough), "a class has more prototypes than there are kernels")
    labels = model.prototype_classes_
    right = type(labels) is np.ndarray and np.array_equal(labels, model.classes_[owner])
    _need(right, "prototype_classes_ must be the labels of the prototypes")
    alive = model.alive_
    right = type(alive) is np.ndarray and alive.dtype == bool and alive.shape == (R,)
    _need(right, f"alive_ must hold {R} truth values")
    if hasattr(model, "assignment_"):
        _indices("assignment_", model.assignment_, -1, R, None)
    if hasattr(model, "metric_"):
        _numbers("metric_", model.metric_, d, d)
    return R


def _check_support(model: Any, kernel: Kernel, d: int, R: int) -> None:
    tau = _numbers("dual_coef_", model.dual_coef_, None, R)
    end = np.iinfo(np.int64).max
    if kernel.name == "precomputed":
        end = d
    elif hasattr(model, "_n_train"):
        end = _whole("_n_train", model._n_train, 1)
    for name in ("assignment_", "weights_"):
        end = min(end, len(getattr(model, name))) if hasattr(model, name) else end
    _indices("support_", model.support_, 0, end, len(tau))
    vectors = model.support_vectors_
    if kernel.name == "precomputed":
        _numbers("support_vectors_", vectors, 0, 0)
    elif sp.issparse(vectors):
        _check_shape("support_vectors_", vectors, (len(tau), d))
        _need(vectors.format == "csr", "support_vectors_ must be CSR")
        _need(vectors.dtype in (np.float64, np.float32), "support_vectors_ must hold floats")
    else:
        _numbers("support_vectors_", vectors, len(tau), d)


def _check_machine(model: Any, kernel: Kernel, Q: int) -> None:
    reason = find_machine(model.machine)._why_not()
    _need(reason is None, f"machine: {reason}")
    if kernel.name == "precomputed":
        _numbers("_prototype_gram", model._prototype_gram, Q, Q)


def _check_facts(model: Any) -> None:
    """What is said of the fit: certificate, status, history, threads."""
    _need(isinstance(model.certificate_, Certificate), "certificate_ is missing")
    for name, value in vars(model.certificate_).items():
        right = value is None or isinstance(value, bool | float | int | np.number | np.bool_)
        _need(right, f"certificate_.{name} must be a number")
    _need(isinstance(model.status_, str), "status_ must be a word")
    _whole("n_iter_", model.n_iter_, 0)
    history = model.history_
    right = isinstance(history, dict) and all(
        type(column) is np.ndarray and column.ndim == 1 and column.dtype.kind in "biuf"
        for column in history.values()
    )
    _need(right, "history_ must be arrays of numbers")
    _need(len({len(column) for column in history.values()}) < 2, "history_ has unequal lengths")
    n_jobs = model.n_jobs
    right = n_jobs is None or (isinstance(n_jobs, int | np.integer) and n_jobs != 0)
    _need(right, "n_jobs must be an integer other than 0, or None")
