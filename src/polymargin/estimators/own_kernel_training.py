"""``MultiPrototypeSVC(kernel=[...])``: one kernel per prototype of a class, trained and scored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polymargin.compiled.memory import rows_of
from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.base import Prepared
from polymargin.estimators.endings import unfinished
from polymargin.exceptions import warn_user
from polymargin.problem.annealing import Schedule, find_annealing
from polymargin.problem.kernels import squared_norms
from polymargin.problem.own_kernel_lists import place_in_class
from polymargin.solvers.history import OuterCheck
from polymargin.solvers.own_kernels import OwnKernelProblem, solve_own_kernels
from polymargin.solvers.run import deferred_interrupt, uninterrupted

__all__ = ["fit_own_kernels"]


def fit_own_kernels(
    model: Any,
    ready: Prepared,
    schedule: Schedule | None,
    first_assignment: Callable[[int], np.ndarray],
    prototype_class: np.ndarray,
    seed: int,
) -> None:
    """Train, keep the restart of the lowest energy and store its attributes."""
    problem = _problem(model, ready, prototype_class)
    run = model._run((), OuterCheck, seed)
    zeroing = find_annealing(model.annealing).restoration == "zeroing"
    best: Any = None
    with single_threaded_libraries(), deferred_interrupt(run.clock):
        for restart in range(int(model.n_restarts)):
            if best is not None and run.why_end() is not None:
                break
            part = run.part(seed=[seed, restart]).watched_by((), OuterCheck)
            found = solve_own_kernels(
                problem,
                first_assignment(restart),
                schedule,
                part,
                model.assignment == "static",
                zeroing,
            )
            if best is None or found.energy < best[0].energy:
                best = (found, part.history)
    found, history = best
    with uninterrupted():
        _store(model, ready, prototype_class, found)
        model.history_ = history.as_arrays()
    gap = found.certificate.relative_gap
    if found.status not in ("converged", "interrupted"):
        advice = "Increase max_iter, use a smaller C, or scale the features."
        warn_user(unfinished(found.status, gap, float(model.tol), advice), ConvergenceWarning)
    if found.status == "interrupted":
        raise KeyboardInterrupt


def _problem(model: Any, ready: Prepared, prototype_class: np.ndarray) -> OwnKernelProblem:
    parts = ready.kernel.parts
    n = ready.data.shape[0]
    place = place_in_class(prototype_class)
    if place.max() >= len(parts):
        raise ValueError(
            f"kernel: {len(parts)} entries for classes of up to {place.max() + 1} prototypes; a "
            f"list names one kernel per prototype of a class: set n_prototypes={len(parts)}, or "
            "write more entries."
        )
    if 8e-6 * len(parts) * n * n > float(model.cache_mb):
        raise ValueError(
            f"kernel: a list keeps {len(parts)} matrices of {n} x {n} kernel values in memory, "
            f"more than cache_mb={model.cache_mb:g}; use fewer rows, a larger cache_mb, or one "
            "kernel for all prototypes."
        )
    norms = squared_norms(ready.data)
    data = ready.data.astype(np.float64)
    grams = np.array([part.block(data, data, norms, norms) for _, part in parts])
    grams = 0.5 * (grams + grams.transpose(0, 2, 1)) + ready.kernel.offset
    if not np.isfinite(grams).all():
        raise ValueError("kernel: kernel values overflow; scale the features of X down.")
    return OwnKernelProblem(
        grams, place, prototype_class, ready.label, ready.cap, ready.kernel.is_psd
    )


def _store(model: Any, ready: Prepared, prototype_class: np.ndarray, found: Any) -> None:
    for name in ("prototypes_", "metric_", "_training"):
        model.__dict__.pop(name, None)
    support = np.flatnonzero(found.tau.any(axis=1))
    model.classes_ = ready.classes
    model.support_ = ready.kept[support]
    model.support_vectors_ = rows_of(ready.X, model.support_)
    model.dual_coef_ = found.tau[support]
    model.intercept_ = ready.kernel.offset * model.dual_coef_.sum(axis=0)
    model.prototype_classes_ = ready.classes[prototype_class]
    model._kernel, model._prototype_class = ready.kernel, prototype_class
    model.assignment_ = np.full(ready.X.shape[0], -1, dtype=np.int64)
    model.assignment_[ready.kept] = found.own
    model.energy_, model.alive_ = found.energy, found.alive
    model.stationary_, model.status_ = found.is_stationary, found.status
    model.certificate_, model.n_iter_ = found.certificate, found.iterations
