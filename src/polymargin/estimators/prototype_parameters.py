"""Checks of the parameters of ``MultiPrototypeSVC``, and the meaning of ``init="auto"``."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from polymargin.estimators.base import LargeMarginClassifier, Prepared
from polymargin.exceptions import shown
from polymargin.problem.annealing import Annealing, Schedule, find_annealing
from polymargin.solvers.metric_learning import METRICS
from polymargin.solvers.smo.pattern_smo import PatternSMO

__all__ = ["PrototypeParameters"]

_ASSIGNMENTS = ("static", "greedy", "annealed")


class PrototypeParameters(LargeMarginClassifier):
    """Checks of the parameters of ``MultiPrototypeSVC``."""

    annealing: str | Annealing
    assignment: str
    init: Any
    metric: str
    n_restarts: int
    solver: str | PatternSMO

    def _check_parameters(self) -> Schedule | None:
        """Refuse impossible values; returns the schedule of the annealing, None without one."""
        self._check_common()
        self._check_kernel_list()
        if self.assignment not in _ASSIGNMENTS:
            raise ValueError(
                f"assignment must be one of {_ASSIGNMENTS}, got {shown(self.assignment)}."
            )
        self._check_solver()
        self._check_metric()
        restarts = self.n_restarts
        if not isinstance(restarts, numbers.Integral) or restarts < 1:
            raise ValueError(f"n_restarts must be an integer >= 1, got {shown(restarts)}.")
        schedule = find_annealing(self.annealing).schedule(float(self.C))
        if np.isinf(self.C) and self.assignment != "static":
            raise ValueError(
                "C=np.inf (hard margin) needs assignment='static': assignments are compared by "
                "their slacks, which a hard margin does not have; use a large finite C."
            )
        return schedule if self.assignment == "annealed" else None

    def _check_costs(self) -> None:
        """Refuse stages that do not support costs."""
        if self.cost_matrix is None:
            return
        for name in ("fit_into", "finish", "teacher"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"cost_matrix cannot be combined with {name}=, whose loss counts every mistake "
                    "the same; leave one of them out."
                )

    def _check_solver(self) -> None:
        if isinstance(self.solver, PatternSMO):
            self.solver.check(bool(np.isinf(self.C)))
            if self.metric != "euclidean":
                raise ValueError(
                    "solver: a PatternSMO needs metric='euclidean'; a metric is learned from "
                    "prototypes of the other solvers."
                )
        elif not isinstance(self.solver, str) or self.solver != "auto":
            raise ValueError(f"solver must be 'auto' or a PatternSMO, got {shown(self.solver)}.")

    def _check_kernel_list(self) -> None:
        """Refuse parameters that a list of kernels does not support."""
        if not self._has_kernel_list:
            return
        for name, plain in (("solver", "auto"), ("cost_matrix", None), ("metric", "euclidean")):
            value = getattr(self, name)
            if not (value is plain or (isinstance(value, str) and value == plain)):
                raise ValueError(f"kernel: a list of kernels needs {name}={plain!r}.")
        if np.isinf(self.C):
            raise ValueError("kernel: a list of kernels needs a finite C.")

    def _check_metric(self) -> None:
        if not isinstance(self.metric, str) or self.metric not in METRICS:
            raise ValueError(f"metric must be one of {METRICS}, got {shown(self.metric)}.")
        if self.metric == "learned" and self.kernel != "linear":
            raise ValueError(
                "metric='learned' needs kernel='linear': it is made of explicit prototypes; use "
                "metric='euclidean'."
            )

    def _kept_init(self, ready: Prepared) -> Any:
        """``init`` of the examples with weight; "auto" is random where annealing sets to zero."""
        if isinstance(self.init, str) and self.init == "auto" and self.assignment == "annealed":
            is_published = find_annealing(self.annealing).restoration == "zeroing"
            return "random" if is_published else "auto"
        if isinstance(self.init, str) or np.ndim(self.init) != 1:
            return self.init
        given = np.asarray(self.init)
        if len(given) != ready.X.shape[0]:
            raise ValueError(
                f"init has {len(given)} prototype numbers for {ready.X.shape[0]} examples."
            )
        return given[ready.kept]
