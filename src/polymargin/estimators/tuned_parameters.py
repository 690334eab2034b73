"""C, gamma and the weights of a sum of kernels by the criterion "radius-margin"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs

from polymargin.estimators.base import LargeMarginClassifier
from polymargin.exceptions import shown
from polymargin.problem.kernel_sums import SumEntry, is_sum, read_entries
from polymargin.problem.kernels import Kernel
from polymargin.problem.machines import Machine
from polymargin.solvers.run import Stop

if TYPE_CHECKING:
    from polymargin.radius_margin.choice import TunedValues

__all__ = ["RADIUS_MARGIN", "TunedClassifier"]

RADIUS_MARGIN = "radius-margin"
"""The word that asks for C, gamma or kernel_weights by the search of ``tune_radius_margin``."""


class TunedClassifier(LargeMarginClassifier):
    """A classifier whose C, gamma and kernel weights may be left to the radius-margin bound."""

    C: Any
    kernel_weights: str | None
    _tuned: TunedValues | None = None

    def _tuned_parameters(self) -> tuple[str, ...]:
        """Those of C, gamma and weights that the radius-margin criterion decides."""
        named = [("C", self.C), ("weights", self.kernel_weights)]
        if self.kernel != "linear":  # a linear kernel has no gamma
            named.append(("gamma", self.gamma))
        return tuple(
            name for name, value in named if isinstance(value, str) and value == RADIUS_MARGIN
        )

    def _chosen(self) -> tuple[Any, Any]:
        tuned = self._tuned
        return (self.C, self.gamma) if tuned is None else (tuned.C, tuned.gamma)

    def _sum_entries(self) -> list[SumEntry]:
        entries = super()._sum_entries()
        if self._tuned is None or self._tuned.weights is None:
            return entries
        pairs = zip(entries, self._tuned.weights, strict=True)
        return [entry._replace(weight=float(beta)) for entry, beta in pairs]

    def _check_C(self) -> None:
        if "C" not in self._tuned_parameters():
            if isinstance(self.C, str):
                raise ValueError(
                    f"C must be a number > 0 or {RADIUS_MARGIN!r}, got {shown(self.C)}."
                )
            super()._check_C()

    def _check_gamma(self) -> None:
        if isinstance(self.gamma, str) and self.gamma == RADIUS_MARGIN:
            return
        if isinstance(self.gamma, str) or np.ndim(self.gamma) == 0:
            super()._check_gamma()
        elif self.kernel != "rbf":
            raise ValueError(
                "gamma: one width per feature is known to kernel='rbf' only; give a number."
            )

    def _check_tuning(self, machine: Machine) -> None:
        """Refuse the criterion for machines, intercepts and kernels that it does not cover."""
        self._check_kernel_weights()
        weights = ("kernel_weights", self.kernel_weights)
        named = (("C", self.C), ("gamma", self.gamma), weights)
        names = [name for name, value in named if isinstance(value, str) and value == RADIUS_MARGIN]
        if not names:
            return
        asked = " and ".join(f"{name}={RADIUS_MARGIN!r}" for name in names)
        if machine.name != "msvm2":
            raise ValueError(
                f"{asked} needs machine='msvm2', got {machine.name!r}: the radius-margin bound is "
                "known for M-SVM^2, whose soft margin is a hard one under another kernel; give "
                "numbers, or use cross-validation."
            )
        if self._intercept_kind(machine) != "free":
            raise ValueError(
                f"{asked}: the radius-margin bound belongs to an unpenalised intercept; use "
                "intercept='auto' or 'free'."
            )
        if "gamma" in names and self.kernel not in ("linear", "rbf", "poly"):
            raise ValueError(
                f"gamma={RADIUS_MARGIN!r}: kernel={self.kernel!r} has no width that could be "
                "tuned by gradients; use 'rbf' or 'poly'."
            )

    def _check_kernel_weights(self) -> None:
        if self.kernel_weights is None:
            return
        if self.kernel_weights != RADIUS_MARGIN:
            raise ValueError(
                f"kernel_weights must be None or {RADIUS_MARGIN!r}, got "
                f"{shown(self.kernel_weights)}; "
                "write weights into kernel, as {'linear': 0.3, 'rbf': 0.7}."
            )
        if not is_sum(self.kernel) or len(read_entries(self.kernel)) < 2:
            raise ValueError(
                f"kernel_weights={RADIUS_MARGIN!r} tunes the weights of a sum of two kernels or "
                f"more, got kernel={self.kernel!r}; write {{'linear': 0.5, 'rbf': 0.5}}."
            )

    def _tune(self, X: Any, y: Any, sample_weight: Any) -> None:
        """C, gamma and weights of the lowest radius-margin bound, if they are asked for."""
        self._tuned = None
        if not self._tuned_parameters():
            return
        from polymargin.radius_margin.bound import read_sample
        from polymargin.radius_margin.choice import tuned_values

        X, y = self._validate(X, y)
        is_tuned = isinstance(self.gamma, str) and self.gamma == RADIUS_MARGIN
        gamma = "scale" if is_tuned else self.gamma
        sample = read_sample(
            X,
            y,
            "linear" if is_sum(self.kernel) else self.kernel,
            float(self.degree),
            sample_weight,
            self.class_weight,
            float(self.cache_mb),
            self._seed(),
            effective_n_jobs(self.n_jobs),
        )
        self._tuned = tuned_values(
            sample,
            self._tuned_parameters(),
            None if isinstance(self.C, str) else float(self.C),
            self.kernel,
            Kernel("sum", gamma, float(self.degree), float(self.coef0)),
            is_weighted=sample_weight is not None,
            max_time=self.max_time,
            verbose=int(self.verbose),
        )

    def _stop(self) -> Stop:
        stop = super()._stop()
        tuned = self._tuned
        if tuned is None or stop.max_time is None:
            return stop
        return replace(stop, max_time=max(stop.max_time - tuned.seconds, 0.2 * stop.max_time))
