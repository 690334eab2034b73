"""``MultiPrototypeSVC.partial_fit``: training goes on from the current prototypes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.base import Prepared
from polymargin.estimators.class_growth import add_classes
from polymargin.estimators.prototype_parameters import PrototypeParameters
from polymargin.estimators.prototype_stages import StagedTrainer
from polymargin.problem.encoding import encode_known, weights_times
from polymargin.problem.first_assignment import count_prototypes, initial_assignment
from polymargin.problem.machines import MACHINES
from polymargin.solvers.smo.pattern_smo import PatternSMO

__all__ = ["PartialFit"]

_Beginning = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]
"""Prototype of each example, class of each prototype, and the centre that the step stays near."""


def _has_linear_kernel(estimator: Any) -> bool:
    """``partial_fit`` keeps prototypes, which only the linear kernel has."""
    if isinstance(estimator.kernel, str) and estimator.kernel == "linear":
        return True
    raise AttributeError("partial_fit needs kernel='linear'; use fit for other kernels.")


class PartialFit(PrototypeParameters, StagedTrainer):
    """Training in steps, each of which stays close to the prototypes before it."""

    @available_if(_has_linear_kernel)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on from the current prototypes with new examples (linear kernel).

        Minimises ``1/2 sum_r ||M_r - M_r(old)||^2`` plus the losses of the new examples, from the
        assignment that the old prototypes give them, by greedy rounds: a step that stays close to
        what was learnt.  The first call starts from M = 0, which is an ordinary greedy fit.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like or None
            All labels that will come; needed in the first call where y lacks some.  In a later
            call further labels may be added: their prototypes begin at 0.
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        self
            ``energy_``, ``certificate_``, ``support_`` and ``assignment_`` belong to the step.
        """
        self._check_partial_fit()
        is_first = not hasattr(self, "prototypes_")
        X, y = self._validate(X, y, reset=is_first)
        if is_first:
            known = np.unique(y if classes is None else classes)
        else:
            known = self._known_classes(classes)
        kept, label, weight = encode_known(y, sample_weight, self.class_weight, known)
        data = X if len(kept) == X.shape[0] else X[kept]
        kernel = self._make_kernel(MACHINES["cs"], data, None)
        cap = weights_times(float(self.C), weight)
        ready = Prepared(X, y, kept, known, label, cap, kernel, data)
        seed = self._seed()
        self._forget_stages()
        begin = self._from_zero if is_first else self._from_prototypes
        own, prototype_class, centre = begin(ready, weight, seed)
        problem = self._problem(MACHINES["cs"], ready, own, prototype_class, centre=centre)
        self._forget_calibration()
        self._train(problem, ready, None, lambda restart: own, seed, None, self._known_metric())
        del self._training
        return self

    def _check_partial_fit(self) -> None:
        self._check_parameters()
        if np.isinf(self.C):
            raise ValueError("partial_fit needs a finite C: new examples may contradict old ones.")
        if isinstance(self.solver, PatternSMO):
            raise ValueError(
                "partial_fit needs solver='auto': it goes on from prototypes, which a PatternSMO "
                "does not keep."
            )

    def _known_classes(self, classes: Any) -> np.ndarray:
        """Labels of the earlier calls, and further ones if ``classes`` names them."""
        known = self.classes_
        if classes is None or np.array_equal(np.unique(classes), known):
            return known
        if not np.isin(known, classes).all():
            raise ValueError(
                f"classes lack some of the first call: {known.tolist()}; name these and "
                "the new ones, or leave it out."
            )
        return np.unique(classes)

    def _from_zero(self, ready: Prepared, weight: np.ndarray, seed: int) -> _Beginning:
        """The first step: prototypes of zeros, and the first assignment of ``fit``."""
        counts = count_prototypes(self.n_prototypes, ready.classes, None)
        prototype_class = np.repeat(np.arange(len(counts)), counts)
        with single_threaded_libraries():
            own = initial_assignment(
                self._kept_init(ready), ready.data, ready.label, weight, counts, [seed, 0]
            )
        R = len(prototype_class)
        return own, prototype_class, (np.zeros((R, ready.data.shape[1])), np.zeros(R))

    def _from_prototypes(self, ready: Prepared, weight: np.ndarray, seed: int) -> _Beginning:
        """A later step: every example takes the prototype of its class that scores highest.

        Prototypes of new classes are all zero and score the same, so that examples of these
        classes get the first assignment of ``fit`` instead.
        """
        has_more = len(ready.classes) > len(self.classes_)
        is_new = add_classes(self, ready.classes) if has_more else np.zeros(1, dtype=bool)
        prototype_class = self._prototype_class
        scores = self._prototype_scores(ready.data)
        scores[prototype_class[None, :] != ready.label[:, None]] = -np.inf
        own = scores.argmax(axis=1)
        if is_new.any():
            counts = np.bincount(prototype_class)
            with single_threaded_libraries():
                first = initial_assignment(
                    "auto", ready.data, ready.label, weight, counts, [seed, 0]
                )
            own = np.where(is_new[ready.label], first, own)
        unit = np.sqrt(ready.kernel.offset)
        constant = self.intercept_ / unit if unit > 0.0 else np.zeros(len(prototype_class))
        return own, prototype_class, (self.prototypes_, constant)
