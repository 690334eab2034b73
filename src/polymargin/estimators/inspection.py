"""Facts of a fitted model for pictures and reports, behind any Pipeline or search.

A model may be a classifier of this package, a Pipeline that ends in one, or a search that found
one.  Predictions are those of the whole; weights and support vectors are those of the classifier at
the end, in the space of its input.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from polymargin.estimators.base import LargeMarginClassifier
from polymargin.exceptions import shown
from polymargin.problem.machines import find_machine
from polymargin.problem.scoring import two_columns

__all__ = [
    "Labelled",
    "Parts",
    "Prototypes",
    "check_rows",
    "class_scores",
    "dissect",
    "encode_labels",
    "example_margins",
    "feature_names",
    "input_names",
    "labelled",
    "margin_target",
    "model_space",
    "nameless",
    "prototypes_of",
    "rows_of",
]


class Parts(NamedTuple):
    """A fitted model taken apart.

    ``whole`` is what predicts, ``steps`` the transformers in front (Pipelines without their last
    step, in order), ``last`` the classifier at the end, ``searches`` the scikit-learn searches that
    were around it.
    """

    whole: Any
    steps: tuple[Any, ...]
    last: Any
    searches: tuple[Any, ...]


class Prototypes(NamedTuple):
    """The prototypes of a linear model.

    ``weights`` (R, d) and ``intercept`` (R,) score; ``owner`` (R,) is the class number of each,
    ``alive`` whether it wins training examples.  ``points`` (R, d) are the prototypes to look at:
    the weights, but for convex hulls (``are_points``) the mixtures of examples that they are.
    """

    weights: np.ndarray
    intercept: np.ndarray
    owner: np.ndarray
    alive: np.ndarray
    points: np.ndarray
    are_points: bool


class Labelled(NamedTuple):
    """Examples with predictions and scores; ``own`` is -1 where the label is unknown."""

    X: Any
    y: np.ndarray
    own: np.ndarray
    predicted: np.ndarray
    scores: np.ndarray | None
    margins: np.ndarray | None


def dissect(model: Any) -> Parts:
    """Take a fitted model apart; an error says what is wrong with it.

    Parameters
    ----------
    model : classifier, Pipeline or scikit-learn search, fitted
    """
    if isinstance(model, type) or not hasattr(model, "predict"):
        raise TypeError(
            f"model must be a fitted classifier, a Pipeline that ends in one, or a search, got "
            f"{shown(model)}."
        )
    check_is_fitted(model)
    steps: list[Any] = []
    searches: list[Any] = []
    last = model
    while True:
        if isinstance(last, Pipeline):
            if len(last.steps) > 1:
                steps.append(last[:-1])
            last = last.steps[-1][1]
        elif hasattr(last, "best_estimator_") and not hasattr(last, "intercept_"):
            searches.append(last)
            last = last.best_estimator_
        else:
            break
    check_is_fitted(last)
    if not hasattr(last, "classes_"):
        raise TypeError(f"model must be a classifier with classes_, got {type(last).__name__}.")
    return Parts(model, tuple(steps), last, tuple(searches))


def model_space(parts: Parts, X: Any) -> Any:
    """X after the steps in front of the classifier."""
    for step in parts.steps:
        X = step.transform(X)
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    return X if sp.issparse(X) else np.asarray(X)


@contextmanager
def nameless() -> Iterator[None]:
    """Silence scikit-learn's warning about arrays without feature names, which are ours here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


# -- scores and labels -------------------------------------------------------------------------


def class_scores(model: Any, X: Any) -> np.ndarray:
    """(n, n_classes) scores of whatever has a decision function."""
    if not hasattr(model, "decision_function"):
        raise TypeError(f"model: {type(model).__name__} has no decision_function, so no margins.")
    scores = two_columns(model.decision_function(X))
    if scores.shape[1] != len(model.classes_):
        raise ValueError(
            f"model: its decision_function has {scores.shape[1]} columns for "
            f"{len(model.classes_)} classes; one score per class is needed."
        )
    return scores


def example_margins(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """f_y - max_{r != y} f_r of every example; nan where the label is unknown (-1)."""
    rows = np.arange(len(own))
    rivals = scores.copy()
    rivals[rows, own] = -np.inf
    lead = scores[rows, own] - rivals.max(axis=1)
    return np.where(own >= 0, lead, np.nan)


def encode_labels(classes: np.ndarray, y: Any, name: str = "y") -> np.ndarray:
    """Class numbers, -1 for labels that the model has never seen; refused if it knows none."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"{name} must be one label per example, got shape {y.shape}.")
    numbers = {label: k for k, label in enumerate(classes.tolist())}
    try:
        own = np.fromiter((numbers.get(label, -1) for label in y.tolist()), np.intp, len(y))
    except TypeError as error:
        raise ValueError(f"{name} has entries that are no labels ({error}).") from error
    if len(y) and not (own >= 0).any():
        known = ", ".join(repr(label) for label in classes.tolist()[:5])
        more = ", ..." if len(classes) > 5 else ""
        raise ValueError(
            f"{name}: the model knows none of its labels: the first is {y.tolist()[0]!r}, the "
            f"model was trained on {known}{more}. Give the labels as they were in training."
        )
    return own


def check_rows(X: Any, y: Any = None, X_name: str = "X", y_name: str = "y") -> Any:
    """X with rows to count; as many labels as rows, at least one."""
    if not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"{X_name} must have rows and columns, got shape {tuple(X.shape)}.")
    if X.shape[0] == 0:
        raise ValueError(f"{X_name} has no rows; at least one example is needed.")
    if y is not None and len(y) != X.shape[0]:
        raise ValueError(f"{y_name} has {len(y)} labels for {X.shape[0]} rows of {X_name}.")
    return X


def labelled(model: Any, X: Any, y: Any, X_name: str = "X", y_name: str = "y") -> Labelled:
    """Check examples and labels, predict, and measure margins where there are scores."""
    parts = dissect(model)
    y = np.asarray(y)
    X = check_rows(X, y, X_name, y_name)
    classes = parts.last.classes_
    own = encode_labels(classes, y, y_name)
    predicted = np.asarray(model.predict(X))
    scores = margins = None
    if hasattr(model, "decision_function"):
        scores = class_scores(model, X)
        margins = example_margins(scores, own)
    return Labelled(X, y.ravel(), own, predicted, scores, margins)


def margin_target(model: Any) -> float | None:
    """The margin f_y - max f_r below which every example has a loss; None where there is none.

    Relative margins require K2.  Absolute ones require -K2 of rivals, so that with scores of sum
    zero the own class has (Q - 1) K2 at least: a margin of Q K2, or K2 plus the own target.
    """
    last = dissect(model).last
    if not isinstance(last, LargeMarginClassifier) or hasattr(last, "eta_"):
        return None  # hulls have no loss
    if last.cost_matrix is not None:
        return None  # a margin for every pair of classes
    if not hasattr(last, "machine"):
        return 1.0  # several prototypes per class: Crammer-Singer margins
    machine = find_machine(last.machine)
    Q = len(last.classes_)
    if not machine.has_rivals:
        return None
    target = machine.rival_target(Q)
    return target if machine.K1 else max(Q * target, target + machine.target_of_own(Q))


# -- weights -----------------------------------------------------------------------------------


def prototypes_of(model: Any) -> Prototypes | None:
    """The prototypes of a linear model, None of a kernel model."""
    last = dissect(model).last
    Q = len(last.classes_)
    if hasattr(last, "prototype_classes_"):
        if not hasattr(last, "prototypes_"):
            return None
        owner = np.searchsorted(last.classes_, last.prototype_classes_)
        W, alive = last.prototypes_, np.asarray(last.alive_, dtype=bool)
        return Prototypes(W, last.intercept_, owner, alive, W, False)
    coef = getattr(last, "coef_", None)
    if coef is None or sp.issparse(coef) or np.ndim(coef) != 2:
        return None
    if len(coef) != (1 if Q == 2 else Q):
        return None
    W = two_columns(coef.T).T
    b = np.broadcast_to(np.asarray(last.intercept_, dtype=np.float64).ravel(), (len(coef),))
    b = two_columns(b[None, :])[0]
    are_points = hasattr(last, "prototypes_")  # convex hulls
    points = last.prototypes_ if are_points else W
    return Prototypes(W, b, np.arange(Q), np.ones(Q, dtype=bool), points, are_points)


def input_names(model: Any, X: Any = None, given: Any = None, d: int | None = None) -> list[str]:
    """Names of the columns of X: given ones, those of training, of the frame, or numbers."""
    width = d if d is not None else int(X.shape[1])
    if given is not None:
        names = [str(name) for name in given]
        if len(names) != width:
            raise ValueError(f"feature_names has {len(names)} names for {width} features.")
        return names
    for found in (getattr(model, "feature_names_in_", None), getattr(X, "columns", None)):
        if found is not None and len(found) == width:
            return [str(name) for name in found]
    return [f"feature {j}" for j in range(width)]


def feature_names(parts: Parts, names: list[str], width: int) -> list[str]:
    """Names of the features that the classifier at the end sees."""
    current: Any = np.asarray(names, dtype=object)
    for step in parts.steps:
        try:
            current = step.get_feature_names_out(current)
        except (AttributeError, ValueError, TypeError):
            try:
                # a step that was fitted with other names refuses these
                current = step.get_feature_names_out()
            except (AttributeError, ValueError, TypeError):
                break
    if len(current) == width:
        return [str(name) for name in current]
    return names if len(names) == width else [f"component {j}" for j in range(width)]


def rows_of(X: Any, which: Any) -> np.ndarray:
    """A few rows as a dense float array."""
    rows = _safe_indexing(X, which)
    if sp.issparse(rows):
        rows = rows.toarray()
    elif hasattr(rows, "to_numpy"):
        rows = rows.to_numpy()
    return np.asarray(rows, dtype=np.float64)
