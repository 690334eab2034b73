"""Choice of C and the kernel's parameters of M-SVM^2 by the radius-margin criterion."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown, warn_user
from polymargin.problem.validation import check_number
from polymargin.radius_margin.bound import bound_factor, read_sample
from polymargin.radius_margin.choice import N_FOLDS, Choice, choose
from polymargin.radius_margin.criterion import Sample
from polymargin.radius_margin.plan import Plan, make_plan
from polymargin.radius_margin.search import Lines, SearchResult
from polymargin.solvers.run import Run, Stop

__all__ = ["RadiusMarginTuning", "tune_radius_margin"]

_WIDTHS = ("rbf", "poly")


@dataclass(frozen=True)
class RadiusMarginTuning:
    r"""Result of ``tune_radius_margin``.

    Attributes
    ----------
    C, gamma, coef0 : float (gamma: array with one width per feature)
        The values chosen.
    value : float
        The bound (28) at these values: a criterion, not an error estimate.
    plateau : float
        Its value far out, where :math:`C \to 0` or :math:`\gamma \to \infty`; a ``value`` near it
        means that the criterion hardly depends on the parameters for these data.
    minimum : dict
        ``C, gamma, coef0, value`` of the lowest point of the criterion: the values chosen, unless
        ``refine`` preferred others.
    machine : MulticlassSVC
        M-SVM² with these values, fitted to all examples.
    trace : dict of equally long arrays
        ``seconds, start, n_examples, C, gamma, coef0, value, slope`` of every evaluation:
        start 0 is the coarse search, the last start the descent on all examples; ``slope`` is the
        largest derivative of log ``value`` that the box allows to follow.
    refinement : dict of equally long arrays
        ``C, gamma, error`` of the cross-validated settings (infinite where a setting was given up
        before its last fold); empty where none were compared.
    status : str
        "converged", "max_evaluations", "max_time" or "interrupted".
    n_evaluations : int
    seconds : float
    parameters : tuple of str
    kernel : str
    degree : float

    See Also
    --------
    tune_radius_margin : Makes it.
    plots.CriterionDisplay : Draws it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import tune_radius_margin
    >>> X, y = load_iris(return_X_y=True)
    >>> found = tune_radius_margin(X[::3], y[::3], refine=0, tol=0.01)
    >>> found.value < found.plateau
    True
    """

    C: float
    gamma: Any
    coef0: float
    value: float
    plateau: float
    minimum: dict[str, Any]
    machine: MulticlassSVC
    trace: dict[str, np.ndarray]
    refinement: dict[str, np.ndarray]
    status: str
    n_evaluations: int
    seconds: float
    parameters: tuple[str, ...]
    kernel: str
    degree: float
    _sample: Sample | None = field(default=None, repr=False, compare=False)

    @property
    def estimator(self) -> MulticlassSVC:
        """The same as ``machine``."""
        return self.machine


def tune_radius_margin(
    X: Any,
    y: Any,
    kernel: str = "rbf",
    parameters: Sequence[str] = ("C", "gamma"),
    C: float | None = None,
    gamma: Any = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    per_feature: bool = False,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    n_starts: int = 3,
    max_evaluations: int = 50,
    sample_weight: Any = None,
    class_weight: Any = None,
    tol: float = 1e-3,
    refine: int | str = "auto",
    n_folds: int = N_FOLDS,
    max_time: float | None = None,
    cache_mb: float = 1000,
    n_jobs: int | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> RadiusMarginTuning:
    """Minimise the radius-margin bound of M-SVM² over C and the parameters of the kernel.

    Where the machine at the minimum is wrong about training examples, the criterion is known to
    mislead, and settings around the minimum are compared by cross-validation (``refine``).

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features), or the kernel matrix
    y : array-like of shape (n_samples,)
        Every class needs at least two examples.
    kernel : {"linear", "rbf", "poly", "precomputed"}, default="rbf"
    parameters : sequence of {"C", "gamma", "coef0"}, default=("C", "gamma")
        What is tuned; "gamma" needs rbf or poly, "coef0" poly.
    C : float or None, default=None
        Value if it is not tuned, otherwise where the search begins; None is 1 / (2 spread) with
        the mean squared distance of the examples from their mean in feature space.
    gamma : float, "scale", "auto" or array of shape (n_features,), default="scale"
        Likewise.  An array is tuned width by width (rbf only).
    degree, coef0 : float, default=3, 0.0
    per_feature : bool, default=False
        One width per feature (rbf), beginning with equal ones.
    bounds : mapping from parameter to (low, high), or None
        The box of the search; the default is wide, in units of the data.
    n_starts : int, default=3
        Descents on a part of the examples; the best one's end is where the descent on all begins.
    max_evaluations : int, default=50
        Of the criterion on all examples.
    sample_weight, class_weight
        As in ``MulticlassSVC``.
    tol : float, default=1e-3
        Slope of the logarithm of the bound at which the search ends.  The machine is fitted with
        tolerance 1e-3.
    refine : int or "auto", default="auto"
        Settings around the minimum that are compared by cross-validation afterwards.  0 takes the
        minimum of the criterion as it is; "auto" compares 8 where the machine at the minimum is
        wrong about a training example, and none elsewhere.
    n_folds : int, default=3
        Folds of that comparison.
    max_time : float or None, default=None
        Seconds; the best point so far is kept.
    cache_mb, n_jobs, random_state
        As in ``MulticlassSVC``.
    verbose : int, default=0
        1 prints a line per evaluation.

    Returns
    -------
    RadiusMarginTuning

    See Also
    --------
    radius_margin_bound : The bound that is minimised.
    RadiusMarginTuning : What it returns.
    plots.CriterionDisplay : Draws the search.
    regularization_path : C by validation rows.

    Notes
    -----
    Ctrl-C ends the search with the best point so far: the record says "interrupted".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import tune_radius_margin
    >>> X, y = load_iris(return_X_y=True)
    >>> found = tune_radius_margin(X, y)
    >>> found.value < found.plateau
    True
    """
    for name, number in (("n_starts", n_starts), ("max_evaluations", max_evaluations)):
        _check_count(name, number, 1)
    if not (isinstance(refine, str) and refine == "auto"):
        _check_count("refine", refine, 0, " or 'auto'")
    _check_count("n_folds", n_folds, 2)
    check_number("tol", tol, above=0.0)
    if max_time is not None:
        check_number("max_time", max_time, above=0.0)
    sample = read_sample(X, y, kernel, degree, sample_weight, class_weight, cache_mb, random_state)
    counted = None if sample_weight is None else sample.weight
    plan = make_plan(
        sample, tuple(parameters), C, gamma, coef0, bounds, counted,
        per_feature=per_feature, n_starts=n_starts, max_evaluations=max_evaluations, tol=tol,
    )  # fmt: skip
    run = Run(Stop(tol, 10**9, max_time))
    lines = Lines(sample, run) if verbose else None
    choice = choose(sample, plan, run, refine, n_folds, lines)
    found, chosen = choice.found, choice.chosen.setting
    status = run.why_end() or found.status
    seconds = run.seconds
    machine = MulticlassSVC(
        "msvm2",
        C=chosen.C,
        kernel=kernel,
        gamma=chosen.gamma if sample.kernel in _WIDTHS else "scale",
        degree=degree,
        coef0=chosen.coef0,
        cache_mb=cache_mb,
        class_weight=class_weight,
        n_jobs=n_jobs,
        random_state=random_state,
    )
    machine._fit(X, y, sample_weight, choice.chosen.alpha)
    if status not in ("converged", "interrupted"):
        warn_user(
            f"tune_radius_margin ended ({status}) at a slope of {_last_slope(found):.2e}, above "
            f"tol={tol:g}; the best point so far is kept. Increase max_evaluations, max_time or "
            "tol.",
            ConvergenceWarning,
        )
    return _record(sample, plan, choice, machine, status, seconds)


def _check_count(name: str, value: Any, least: int, other: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}{other}, got {shown(value)}.")


def _last_slope(found: SearchResult) -> float:
    at_best = [entry for entry in found.trace if entry[3] is found.best.setting]
    return at_best[-1][5] if at_best else np.nan


def _record(
    sample: Sample,
    plan: Plan,
    choice: Choice,
    machine: MulticlassSVC,
    status: str,
    seconds: float,
) -> RadiusMarginTuning:
    factor = bound_factor(sample.n_classes)
    found, chosen, compared = choice.found, choice.chosen.setting, choice.compared
    lowest = found.best
    rows = found.trace
    trace = {
        "seconds": np.array([row[0] for row in rows]),
        "start": np.array([row[1] for row in rows], dtype=int),
        "n_examples": np.array([row[2] for row in rows], dtype=int),
        "C": np.array([row[3].C for row in rows]),
        "gamma": np.array([row[3].gamma for row in rows]),
        "coef0": np.array([row[3].coef0 for row in rows]),
        "value": factor * np.exp([row[4] for row in rows]),
        "slope": np.array([row[5] for row in rows]),
    }
    refinement = {
        "C": np.array([setting.C for setting, _ in compared]),
        "gamma": np.array([setting.gamma for setting, _ in compared]),
        "error": np.array([error for _, error in compared]),
    }
    return RadiusMarginTuning(
        C=chosen.C,
        gamma=chosen.gamma,
        coef0=chosen.coef0,
        value=factor * float(np.exp(choice.chosen.log_product)),
        plateau=factor * float(np.exp(found.plateau)),
        minimum={
            "C": lowest.setting.C,
            "gamma": lowest.setting.gamma,
            "coef0": lowest.setting.coef0,
            "value": factor * float(np.exp(lowest.log_product)),
        },
        machine=machine,
        trace=trace,
        refinement=refinement,
        status=status,
        n_evaluations=len(rows),
        seconds=seconds,
        parameters=plan.parameters,
        kernel=sample.kernel,
        degree=sample.degree,
        _sample=sample,
    )
