"""Small adapters: how each competitor is asked, and how any linear model is judged.

liblinear and we solve the same problem, a penalised intercept of scale 1 included, so their models
are compared by primal value.  LIBSVM solves one-vs-one machines, a different problem: there the
comparison is time and test error.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.svm import SVC, LinearSVC

from benchmarks.data import thin
from polymargin import MulticlassSVC, MultiPrototypeSVC
from polymargin.certificate.certificate import linear_primal

__all__ = [
    "liblinear",
    "libsvm_rbf",
    "ours_linear",
    "ours_prototypes",
    "ours_rbf",
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


def ours_rbf(C: float, gamma: float, seed: int) -> MulticlassSVC:
    """The Gaussian machine of this package."""
    return MulticlassSVC(kernel="rbf", C=C, gamma=gamma, tol=1e-3, random_state=seed)


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


def libsvm_rbf(C: float, gamma: float) -> SVC:
    """LIBSVM's one-vs-one machines at the default tolerance with a generous cache."""
    return SVC(C=C, gamma=gamma, cache_size=2000)


def primal(model: Any, X: Any, y: np.ndarray, C: float) -> float:
    """Primal value of a linear Crammer-Singer model of three or more classes, by our judge."""
    label = np.unique(y, return_inverse=True)[1]
    return linear_primal(model.coef_, model.intercept_, X, label, C, _INTERCEPT_SCALING)


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
