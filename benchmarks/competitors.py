"""Small adapters: how each competitor is asked, and how any linear model is judged.

liblinear and we solve the same problem, a penalised intercept of scale 1 included, so their models
are compared by primal value.  LIBSVM solves one-vs-one machines, a different problem: there the
comparison is time and test error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC

from benchmarks.data import DataSet, thin
from benchmarks.timing import median, timed
from polymargin import MulticlassSVC, MultiPrototypeSVC
from polymargin.certificate.certificate import linear_primal

__all__ = [
    "fit_and_predict",
    "folds_error",
    "in_turns",
    "liblinear",
    "libsvm_rbf",
    "ours_linear",
    "ours_prototypes",
    "ours_rbf",
    "percent_wrong",
    "primal",
    "warm",
]

# Enough for the solvers to work block by block, as they do on large data.
_WARM_ROWS = 2000
_INTERCEPT_SCALING = 1.0


def liblinear(C: float, tol: float, seed: int) -> LinearSVC:
    """liblinear's Crammer-Singer solver, to which max_iter is only a reason to warn."""
    return LinearSVC(
        multi_class="crammer_singer",
        C=C,
        tol=tol,
        max_iter=10**6,
        intercept_scaling=_INTERCEPT_SCALING,
        random_state=seed,
    )


def ours_linear(C: float, seed: int, tol: float = 1e-3) -> MulticlassSVC:
    """The linear machine of this package."""
    return MulticlassSVC(C=C, tol=tol, intercept_scaling=_INTERCEPT_SCALING, random_state=seed)


def ours_rbf(C: float, gamma: float, seed: int, cache_mb: float = 2000.0) -> MulticlassSVC:
    """The Gaussian machine of this package."""
    return MulticlassSVC(
        kernel="rbf", C=C, gamma=gamma, tol=1e-3, cache_mb=cache_mb, random_state=seed
    )


def ours_prototypes(
    q: int, C: float, seed: int, annealing: str, metric: str = "euclidean"
) -> MultiPrototypeSVC:
    """The machine of this package with q linear prototypes per class."""
    return MultiPrototypeSVC(
        q,
        C=C,
        annealing=annealing,
        tol=1e-3,
        intercept_scaling=_INTERCEPT_SCALING,
        random_state=seed,
        metric=metric,
    )


def libsvm_rbf(C: float, gamma: float, cache_mb: float = 2000.0) -> SVC:
    """LIBSVM's one-vs-one machines at the default tolerance with a generous cache."""
    return SVC(C=C, gamma=gamma, cache_size=cache_mb)


def primal(model: Any, X: Any, y: np.ndarray, C: float) -> float:
    """Primal value of a linear Crammer-Singer model of three or more classes, by our judge."""
    label = np.unique(y, return_inverse=True)[1]
    return linear_primal(model.coef_, model.intercept_, X, label, C, _INTERCEPT_SCALING)


def percent_wrong(model: Any, X: Any, y: np.ndarray) -> float:
    """Error rate in percent."""
    return 100.0 * float((model.predict(X) != y).mean())


def folds_error(model: Any, X: np.ndarray, y: np.ndarray, n_folds: int) -> float:
    """Share of wrong labels over stratified folds."""
    wrong = 0
    for train, held in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y):
        part = clone(model).fit(X[train], y[train])
        wrong += int((part.predict(X[held]) != y[held]).sum())
    return wrong / len(y)


def fit_and_predict(model: Any, data: DataSet) -> dict[str, Any]:
    """One timed fit and one timed prediction of labels; what the certificate says, if any."""
    fit, _ = timed(model.fit, data.X_train, data.y_train)
    predict, labels = timed(model.predict, data.X_test)
    error = 100.0 * float((labels != data.y_test).mean())
    found = {"fit": fit, "predict": predict, "error": error, "support": len(model.support_)}
    if hasattr(model, "certificate_"):
        found |= {"gap": model.certificate_.relative_gap, "status": model.status_}
    return found


def in_turns(
    make: Callable[[int], tuple[Any, Any]], other: str, data: DataSet, repeat: int
) -> dict[str, Any]:
    """Our machine and another one take turns, so that drift hits both.

    Parameters
    ----------
    make : function of a seed
        Our machine and the other.
    other : str
        Begins the names of the other's columns; ours begin with "our".
    data : DataSet
    repeat : int
        Seeds.

    Returns
    -------
    dict
        Medians of time to fit and to predict, errors and support vectors of both, gap and endings
        of ours, all runs.
    """
    for model in make(0):
        warm(model, data.X_train, data.y_train)
    runs = [[fit_and_predict(model, data) for model in make(seed)] for seed in range(repeat)]
    row: dict[str, Any] = {}
    for name, own in zip(("our", other), zip(*runs, strict=True), strict=True):
        for key in ("fit", "predict", "error", "support"):
            row[f"{name}_{key}"] = median(one[key] for one in own)
        row[f"{name}_runs"] = list(own)
    row["our_gap"] = median(one["gap"] for one in row["our_runs"])
    row["note"] = ", ".join(sorted({str(one["status"]) for one in row["our_runs"]} - {"converged"}))
    return row


def warm(model: ClassifierMixin, X: Any, y: np.ndarray) -> None:
    """Fit and predict once on some rows of the same kind: compiled code and libraries get loaded.

    Kernel machines of ours also load the double-precision variant of their loop.
    """
    rows = thin(len(y), _WARM_ROWS)
    variants = [model]
    if isinstance(model, MulticlassSVC) and model.kernel != "linear":
        variants.append(clone(model).set_params(tol=1e-6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for variant in variants:
            clone(variant).fit(X[rows], y[rows]).predict(X[rows])
