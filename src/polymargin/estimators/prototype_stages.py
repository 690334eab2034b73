"""Stages around one fit of prototypes: parameters left open, a smooth finish, a size in bytes.

``MultiPrototypeSVC.fit`` runs them where its parameters ask for them.  Each stage uses training
rows only and stores a record of what it tried.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import clone

from polymargin.estimators.finishing import ALONG, FINISHES, choose_finish, finished
from polymargin.estimators.number_formats import parse_size
from polymargin.estimators.prototype_choice import choose_parameters
from polymargin.estimators.prototype_training import PrototypeTrainer
from polymargin.estimators.size_limit import fit_compact
from polymargin.exceptions import shown
from polymargin.problem.encoding import sample_weights
from polymargin.solvers.run import uninterrupted

__all__ = ["StagedTrainer"]

_NO_CERTIFICATE = "none: the smooth loss is no margin objective"
_OF_TRAINING = ("support_", "support_vectors_", "dual_coef_")
_OF_STAGES = ("compact_", "number_format_", "model_bytes_", "finish_", "tried_", "choice_")


class StagedTrainer(PrototypeTrainer):
    """Stages of ``MultiPrototypeSVC``."""

    n_prototypes: Any
    C: Any
    fit_into: int | str | None
    finish: float | tuple[str, float] | str | None
    teacher: Any

    def _forget_stages(self) -> None:
        for name in _OF_STAGES:
            self.__dict__.pop(name, None)

    def _check_stages(self) -> None:
        """Refuse parameters that the stages do not support."""
        if self.fit_into is not None:
            parse_size(self.fit_into)
        finish = self.finish
        if not (finish is None or _is_jitter(finish) or _is_name(finish, FINISHES)):
            raise ValueError(
                "finish must be None, 'auto', a jitter >= 0 such as 0.3, or ('classes', jitter), "
                f"got {shown(finish)}."
            )
        if self.teacher is not None and not hasattr(self.teacher, "predict"):
            raise ValueError(
                f"teacher must be a fitted classifier, got {type(self.teacher).__name__}."
            )
        for name, value in (("fit_into", self.fit_into), ("finish", finish)):
            if value is None:
                continue
            if self.kernel != "linear":
                raise ValueError(
                    f"{name} needs kernel='linear': it changes explicit prototypes; leave it out "
                    "or use kernel='linear'."
                )
            if self._calibration_parameters() != (None, None):
                raise ValueError(
                    f"{name} cannot be combined with probabilities or calibration_folds, whose "
                    "fold models have no such stage; wrap the fitted model in "
                    "CalibratedClassifierCV instead."
                )

    # -- a size in bytes -----------------------------------------------------------------------

    def _fit_into(self, X: Any, y: Any, sample_weight: Any) -> None:
        """The best model of at most ``fit_into`` bytes."""
        X, y = self._validate(X, y)
        n, everything = X.shape[0], X
        X, y, weight = _weighted_rows(X, y, sample_weight)
        classes, label = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError("The number of classes has to be greater than one; got 1 class in y.")
        found = fit_compact(self, X, label, weight, classes, self._seed())
        with uninterrupted():
            self._adopt_base(found.base)
            model = found.model
            self.prototypes_, self.intercept_ = model.on_features()
            self.classes_ = classes
            self._prototype_class = model.prototype_class
            self.prototype_classes_ = classes[model.prototype_class]
            self.alive_ = np.ones(len(model.prototype_class), dtype=bool)
            self.assignment_ = np.full(n, -1, dtype=np.int64)
            kept = slice(None) if X is everything else np.asarray(sample_weight) > 0.0
            scores = self._prototype_scores(X)
            scores[self._prototype_class[None, :] != label[:, None]] = -np.inf
            self.assignment_[kept] = scores.argmax(axis=1)
            self.compact_ = model.record()
            self.number_format_ = model.number_format
            self.model_bytes_ = model.n_bytes(classes)
            self.tried_ = found.tried
            self.choice_ = {"C": found.C}
            self.finish_ = {
                "jitter": None if found.settings.rate == 0.0 else found.settings.jitter,
                "certificate": "none: certificate_ is that of the margin problem before rounding",
            }
        if found.interrupted:
            self.status_ = "interrupted"
            raise KeyboardInterrupt

    def _adopt_base(self, base: Any) -> None:
        """Fitted attributes of the margin machine, without those that belong to its dual point."""
        mine = ("n_features_in_", "feature_names_in_", "_training", *_OF_TRAINING)
        for name, value in vars(base).items():
            if (name.endswith("_") or name == "_kernel") and name not in mine:
                setattr(self, name, value)
        for name in _OF_TRAINING:
            self.__dict__.pop(name, None)

    # -- parameters left open ------------------------------------------------------------------

    @property
    def _has_open_choice(self) -> bool:
        return any(
            isinstance(v, str) and v == "auto" for v in (self.n_prototypes, self.C, self.metric)
        )

    def _fit_chosen(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Choose what is "auto" on the training rows, then fit."""
        X, y = self._validate(X, y)
        choice = choose_parameters(self, X, y, sample_weight, self._seed())
        model = clone(self).set_params(**choice.parameters, max_time=choice.seconds_left)
        try:
            model.fit(X, y, sample_weight=sample_weight)
        finally:
            if hasattr(model, "classes_"):
                own = ("n_features_in_", "feature_names_in_")
                state = {k: v for k, v in vars(model).items() if k not in own}
                names = self.get_params(deep=False)
                self.__dict__.update({k: v for k, v in state.items() if k not in names})
                self.choice_ = choice.record()
                if "finish" in choice.parameters and choice.parameters["finish"] is None:
                    self.finish_ = {"jitter": None, "certificate": _NO_CERTIFICATE}

    # -- the smooth finish ---------------------------------------------------------------------

    def _finish_stage(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Move the prototypes by the smooth loss; ``finish_`` records how."""
        if self.finish is None and self.teacher is None:
            return
        X, y = self._validate(X, y, reset=False)
        X, y, weight = _weighted_rows(X, y, sample_weight)
        label = np.searchsorted(self.classes_, y)
        taught = None if self.teacher is None else self._taught(X)
        target = label if taught is None else taught
        record: dict[str, Any] = {"target": "labels" if taught is None else "teacher"}
        jitter = self.finish
        if jitter is None or isinstance(jitter, str):
            record = choose_finish(self, X, label, taught, weight, self._seed())
            jitter = record["jitter"]
            target = label if record["target"] == "labels" else target
        record |= {"jitter": jitter, "certificate": _NO_CERTIFICATE}
        if jitter is not None:
            before = self._margin_objective(X, label, weight)
            parts = finished(self, X, target, weight, jitter, self._seed())
            self.prototypes_, self.intercept_ = parts.weights, parts.intercepts
            for name in _OF_TRAINING:
                self.__dict__.pop(name, None)
            after = self._margin_objective(X, label, weight)
            record |= {"margin_objective_before": before, "margin_objective": after}
        self.finish_ = record

    def _margin_objective(self, X: Any, label: np.ndarray, weight: np.ndarray | None) -> float:
        """E of the present prototypes with the best assignment (without a learned metric)."""
        scores = self._prototype_scores(X)
        mine = self._prototype_class[None, :] == label[:, None]
        own = np.where(mine, scores, -np.inf).max(axis=1)
        rival = np.where(mine, -np.inf, scores).max(axis=1)
        slack = np.maximum(0.0, 1.0 + rival - own)
        loss = slack.sum() if weight is None else float(slack @ weight)
        norm = float((self.prototypes_**2).sum())
        if self._kernel.offset:
            norm += float((self.intercept_**2).sum() / self._kernel.offset)
        return 0.5 * norm + float(self.C) * float(loss)

    def _taught(self, X: Any) -> np.ndarray:
        """Class probabilities of the teacher where it has them, else its labels."""
        if not np.array_equal(np.asarray(self.teacher.classes_), self.classes_):
            raise ValueError(
                f"teacher knows the classes {list(self.teacher.classes_)[:6]}, y has "
                f"{list(self.classes_)[:6]}; they must be the same."
            )
        if hasattr(self.teacher, "predict_proba"):
            return np.asarray(self.teacher.predict_proba(X), dtype=np.float64)
        return np.searchsorted(self.classes_, self.teacher.predict(X))


def _is_name(value: Any, names: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value in names


def _is_jitter(value: Any) -> bool:
    """A strength, alone or with the directions of the jitter."""
    if isinstance(value, tuple):
        return len(value) == 2 and _is_name(value[0], ALONG) and _is_jitter(value[1])
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_number and 0.0 <= float(value) < np.inf


def _weighted_rows(
    X: Any, y: np.ndarray, sample_weight: Any
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Rows with a weight above 0."""
    if sample_weight is None:
        return X, y, None
    weight = sample_weights(sample_weight, y)
    kept = np.flatnonzero(weight > 0.0)
    return X[kept], y[kept], weight[kept]
