"""What is chosen: the minimum of the criterion, or a neighbour that cross-validation prefers.

The bound charges every slack as if it were an error.  Where the machine at the minimum knows all
training examples, that does no harm; where it does not, the minimum lies at too small a C, and a
few settings around it are compared by cross-validation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.problem.kernel_sums import is_sum, read_entries, sum_kernel
from polymargin.problem.kernels import Kernel
from polymargin.problem.problem import row_blocks
from polymargin.radius_margin.criterion import Evaluation, Sample, Setting, evaluate
from polymargin.radius_margin.plan import Plan, make_plan
from polymargin.radius_margin.search import SPHERE_TOL, Lines, SearchResult, search
from polymargin.radius_margin.validation_refinement import refine
from polymargin.solvers.run import Run, Stop, deferred_interrupt

__all__ = ["AUTO_SETTINGS", "N_FOLDS", "Choice", "TunedValues", "choose", "tuned_values"]

AUTO_SETTINGS = 8
"""Settings that are compared where ``refine="auto"`` finds that it is needed."""
N_FOLDS = 3
_TRACE = 1e-4
"""Weights of terms below this are dropped from a sum: the search never reaches zero itself."""
_TOL = 1e-3  # of the machine at a setting that is not the minimum: no search goes on from there


@dataclass(frozen=True)
class Choice:
    """The search, the settings that were cross-validated, and the criterion at the chosen one."""

    found: SearchResult
    compared: list[tuple[Setting, float]]
    chosen: Evaluation


def choose(
    sample: Sample,
    plan: Plan,
    run: Run,
    n_settings: int | str = "auto",
    n_folds: int = N_FOLDS,
    lines: Lines | None = None,
) -> Choice:
    """Search the minimum, and compare ``n_settings`` around it ("auto": only where it errs)."""
    with single_threaded_libraries(), deferred_interrupt(run.clock):
        found = search(sample, plan, run, lines.evaluation if lines else None)
        if n_settings == "auto":
            is_soft = bool(np.isfinite(found.best.setting.C))
            n_settings = AUTO_SETTINGS if is_soft and has_errors(sample, found.best) else 0
        compared: list[tuple[Setting, float]] = []
        if not n_settings or plan.parameters == ("weights",) or run.why_end() is not None:
            return Choice(found, compared, found.best)
        box = {name: plan.box[name] for name in plan.parameters if name in ("C", "gamma")}
        setting, compared = refine(
            sample, found.best.setting, box, int(n_settings), n_folds, run,
            lines.fold if lines else None,
        )  # fmt: skip
        if setting is found.best.setting:
            return Choice(found, compared, found.best)
        chosen = evaluate(
            sample, setting, _TOL, SPHERE_TOL, run, found.best.warm(),
            with_slopes=False, kernel_psd=plan.kernel_psd,
        )  # fmt: skip
        return Choice(found, compared, chosen)


def has_errors(sample: Sample, at: Evaluation) -> bool:
    """Whether the machine of an evaluation is wrong about a training example."""
    problem = sample.problem(at.setting)
    landmarks = np.flatnonzero(at.T.any(axis=1))
    for rows in row_blocks(len(sample.label), 2048):
        scores = problem.gram(np.arange(rows.start, rows.stop), landmarks) @ at.T[landmarks]
        if ((scores + at.bias).argmax(axis=1) != sample.label[rows]).any():
            return True
    return False


# -- inside an estimator -------------------------------------------------------------------------


@dataclass(frozen=True)
class TunedValues:
    """What an estimator takes from a search: the values, and dual variables to begin with."""

    C: float
    gamma: Any
    alpha: np.ndarray
    seconds: float
    interrupted: bool
    weights: np.ndarray | None = None


def tuned_values(
    sample: Sample,
    parameters: tuple[str, ...],
    C: float | None,
    kernel: Any,
    shared: Kernel,
    *,
    is_weighted: bool,
    max_time: float | None,
    verbose: int,
) -> TunedValues:
    """The choice with the defaults of ``tune_radius_margin``, in at most 0.7 of the time.

    Parameters
    ----------
    sample : the training set, read for the kernel, or for "linear" where that is a sum
    parameters : which of "C", "gamma" and "weights" are chosen
    C : its value, or None where it is chosen
    kernel : the kernel of the estimator
    shared : its gamma, degree and coef0, shared by the terms of a sum
    is_weighted : whether weights of examples count in gamma="scale"
    max_time, verbose : those of the estimator
    """
    counted = sample.weight if is_weighted else None
    if is_sum(kernel):
        terms = sum_kernel(read_entries(kernel), sample.X, counted, shared)
        sample = replace(sample, kernel="sum", terms=terms)
    plan = make_plan(sample, parameters, C, shared.gamma, shared.coef0, weight=counted)
    run = Run(Stop(plan.tol, 10**9, None if max_time is None else 0.7 * max_time))
    lines = Lines(sample, run) if verbose else None
    chosen = choose(sample, plan, run, lines=lines).chosen
    return TunedValues(
        chosen.setting.C,
        chosen.setting.gamma,
        chosen.alpha,
        run.seconds,
        run.interrupted,
        _without_traces(chosen.setting.weights),
    )


def _without_traces(weights: np.ndarray | None) -> np.ndarray | None:
    """Weights of a sum of kernels; those that the search could only have made smaller are 0."""
    if weights is None:
        return None
    kept = np.where(weights < _TRACE, 0.0, weights)
    return np.asarray(kept / kept.sum())
