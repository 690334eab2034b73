"""Exact leave-one-out errors with warm starts.

Why a pattern without dual weight need not be refitted.  Let (M, b) and the dual point alpha have a
certified gap P - D, and let alpha_i = 0.  Leave example i out: alpha without its row is still
feasible (caps, signs and balanced columns lose a zero row), its dual value is the same, and (M, b)
loses the non-negative term C_i loss_i from P.  So the gap of the smaller problem is at most the gap
of the whole one, and (M, b) *is* the left-out model to the same certified accuracy.  The prototypes
are unique (P is strongly convex in them), so nothing else could come out of a refit.  The same
holds for the hard margin: the rescaled pair stays feasible.

A free intercept need not be unique.  Of all best ones the fit reports the one of least norm, and
leaving out an example can enlarge the set of best ones, but only if the constraints of that example
bind there: the nearest point of a convex set to the origin does not change when a constraint that
is slack at it is dropped.  So with a free intercept a pattern is skipped only if its constraints
are also met by more than the accuracy of the scores.

How many digits are enough.  ||M - M*||^2 <= 2 (P - D), so the lead of one class over another at x
is known to 2 sqrt((P - D) kappa(x, x)).  A lead below that is not decided yet: the model is refined
until it is; a lead that the finest tolerance leaves undecided is a tie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
)

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.base import Prepared
from polymargin.estimators.fitted import store
from polymargin.estimators.landmark_training import refuse_landmarks
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.exceptions import shown, warn_user
from polymargin.problem.encoding import encode, sample_weights
from polymargin.problem.kernels import resolve_gamma
from polymargin.problem.machines import Machine
from polymargin.problem.problem import Problem
from polymargin.problem.validation import check_number
from polymargin.selection.ticker import Ticker
from polymargin.solvers import solve
from polymargin.solvers.driver import Solution
from polymargin.solvers.run import Run, Stop, deferred_interrupt
from polymargin.solvers.sessions import on_kernel_matrix

__all__ = ["LeaveOneOut", "leave_one_out"]

_WHOLE = 1e-6  # relative gap of the solution for all examples
_TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
_MAX_ITER = 1_000_000
_SAME = 1e-7  # leads below this share of the scores are ties once no tolerance tells them apart


@dataclass(frozen=True)
class LeaveOneOut:
    """Result of leave-one-out.

    Attributes
    ----------
    errors : int
        Examples whose left-out prediction is wrong; ties count as errors.
    predictions : (n,) labels
        The prediction for every example by the model that was trained without it (the first class
        among equals).
    error_rate : float
        Weighted share of errors among the examples that were looked at.
    wrong, ties : (n,) bool
        Where the prediction is an error, and where two classes share the highest score.
    scores : (n, n_classes)
        Scores of the left-out examples by those models, as accurate as the predictions need (nan
        where there are none).
    refits, skipped : int
        Models trained anew, and examples without dual weight that needed none.
    known : (n,) bool
        False for examples without weight, and for those not reached in time; their prediction is
        that of the model of all examples and they are not counted.
    relative_gap : float
        The largest relative duality gap among all models used.
    status : str
        "complete", "max_time" or "interrupted".
    seconds : float

    See Also
    --------
    polymargin.leave_one_out : Makes it.
    """

    errors: int
    predictions: np.ndarray
    error_rate: float
    wrong: np.ndarray
    ties: np.ndarray
    scores: np.ndarray
    refits: int
    skipped: int
    known: np.ndarray
    relative_gap: float
    status: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"leave-one-out: {self.errors} errors of {int(self.known.sum())} "
            f"({100.0 * self.error_rate:.2f} %), {int(self.ties.sum())} ties, "
            f"{self.refits} refits, {self.skipped} skipped, {self.seconds:.2f} s ({self.status})"
        )


def leave_one_out(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    refit_gamma: bool = True,
    max_time: float | None = None,
    verbose: int = 0,
) -> LeaveOneOut:
    """Train once without every example, predict it, and count the errors; exactly.

    Equal to refitting every time, but refits start from the solution for all examples, and an
    example without dual weight needs none.  Every model is solved to the accuracy that its
    prediction needs, whatever ``tol`` of the estimator is.

    Parameters
    ----------
    estimator : MulticlassSVC, or any classifier of scikit-learn's kind
        Only its parameters are read.  Other classifiers than ``MulticlassSVC`` are cloned and
        refitted from scratch every time.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        For a precomputed kernel the (n_samples, n_samples) matrix.
    y : array-like of shape (n_samples,)
        Every class needs two examples.
    sample_weight : array-like of shape (n_samples,) or None
        Weights of the losses and of ``error_rate``; examples of weight 0 are not counted.
    refit_gamma : bool, default=True
        ``gamma="scale"`` depends on the training examples: True takes it anew without the example,
        as refitting does, which spares no refit; False keeps that of all examples.
    max_time : float or None, default=None
        Seconds; what is known by then comes back.
    verbose : int, default=0
        1 prints a line every other second.

    Returns
    -------
    LeaveOneOut
        After Ctrl-C or ``max_time`` with what is known by then (``known``, ``status``); a warning
        says so.

    See Also
    --------
    leave_one_out_count : A bound without refits.
    radius_margin_bound : A bound for M-SVM², smooth in its parameters.
    gacv : An approximation for Lee-Lin-Wahba.
    selection.leave_one_out.LeaveOneOut : What it returns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, leave_one_out
    >>> X, y = load_iris(return_X_y=True)
    >>> record = leave_one_out(MulticlassSVC(kernel="rbf", gamma=0.5), X, y)
    >>> record.refits + record.skipped
    150
    """
    if max_time is not None:
        check_number("max_time", max_time, above=0.0)
    run = Run(Stop(_TOLERANCES[0], _MAX_ITER, max_time))
    with deferred_interrupt(run.clock), single_threaded_libraries():
        refits: _Refits
        if isinstance(estimator, MulticlassSVC):
            refits = _WarmRefits(estimator, X, y, sample_weight, bool(refit_gamma), run)
        else:
            refits = _PlainRefits(estimator, X, y, sample_weight)
        record = _collect(refits, run, verbose)
    if record.status != "complete":
        left = int(refits.counted.sum() - record.known.sum())
        warn_user(
            f"leave_one_out ended early ({record.status}): {left} examples were not reached; "
            "the counts cover the others (record.known).",
            UserWarning,
        )
    return record


def _collect(refits: _Refits, run: Run, verbose: int) -> LeaveOneOut:
    n = len(refits.y)
    predictions, scores = refits.predictions(), np.full((n, len(refits.classes)), np.nan)
    wrong, ties, known = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, bool)
    rows = np.flatnonzero(refits.counted)
    ticker = Ticker("leave-one-out", len(rows), verbose)
    for done, i in enumerate(rows):
        found = None if run.why_end() else refits.without(int(i))
        if found is None:
            break
        scores[i] = found.scores
        predictions[i] = found.label
        ties[i] = found.tie
        wrong[i] = found.tie or bool(found.label != refits.y[i])
        known[i] = True
        ticker.tell(done + 1, f", {int(wrong.sum())} errors")
    weight = refits.weight * known
    return LeaveOneOut(
        errors=int(wrong.sum()),
        predictions=predictions,
        error_rate=float(weight[wrong].sum() / weight.sum()) if known.any() else np.nan,
        wrong=wrong,
        ties=ties,
        scores=scores,
        refits=refits.refits,
        skipped=refits.skipped,
        known=known,
        relative_gap=refits.worst_gap,
        status="complete" if known.sum() == len(rows) else run.why_end() or "max_time",
        seconds=run.seconds,
    )


@dataclass(frozen=True)
class _LeftOut:
    """The prediction for one example by the model trained without it."""

    label: Any
    scores: np.ndarray
    tie: bool


class _Refits:
    """Examples to leave out one after the other; ``without`` gives None when time is up."""

    y: np.ndarray
    classes: np.ndarray
    weight: np.ndarray
    counted: np.ndarray
    refits = 0
    skipped = 0
    worst_gap = 0.0

    def predictions(self) -> np.ndarray:
        """Labels by the model of all examples, which left-out predictions replace."""
        raise NotImplementedError

    def without(self, i: int) -> _LeftOut | None:
        raise NotImplementedError


def _check_classes(classes: np.ndarray, label: np.ndarray) -> None:
    counts = np.bincount(label, minlength=len(classes))
    if counts.min() < 2:
        raise ValueError(
            f"y: class {classes.tolist()[counts.argmin()]!r} has a single example, so that leaving "
            "it out leaves no such class; drop the example or add another one."
        )


class _WarmRefits(_Refits):
    """MulticlassSVC: one solve for all examples, and a warm refit where one is needed."""

    def __init__(
        self,
        estimator: MulticlassSVC,
        X: Any,
        y: Any,
        sample_weight: Any,
        refit_gamma: bool,
        run: Run,
    ) -> None:
        refuse_landmarks(estimator, "leave_one_out")
        model = clone(estimator)
        self.model = model
        self.run = run.part(seed=model._seed(), cache_mb=float(model.cache_mb))
        self.machine: Machine = model._check_parameters()
        ready = model._prepare(self.machine, X, y, sample_weight)
        self.ready: Prepared = ready
        self.y, self.classes = ready.y, ready.classes
        _check_classes(ready.classes, ready.label)
        n = len(ready.y)
        self.counted = np.zeros(n, bool)
        self.counted[ready.kept] = True
        self.place = np.cumsum(self.counted) - 1
        self.is_weighted = sample_weight is not None
        self.weight = np.ones(n)
        if self.is_weighted:
            self.weight = sample_weights(sample_weight, ready.y)
        self.rebalances = isinstance(model.class_weight, str)
        named = isinstance(model.gamma, str) and model.gamma == "scale"
        uses_gamma = ready.kernel.name in ("rbf", "poly", "sigmoid")
        self.rescales = named and uses_gamma and refit_gamma
        whole = model._problem(self.machine, ready, ready.label, np.arange(len(ready.classes)))
        self.problem = whole if self.rescales else on_kernel_matrix(whole, self.run.cache_mb)
        self.whole = solve(self.problem, self.run.part(tol=_WHOLE))
        self.has_weight = np.zeros(len(ready.kept), bool)
        self.has_weight[self.whole.support] = True

    def predictions(self) -> np.ndarray:
        store(self.model, self.whole, self.model._fitted_attributes(self.ready, self.problem))
        return self.model.predict(self.ready.X)

    # -- one example ---------------------------------------------------------------------------

    def without(self, i: int) -> _LeftOut | None:
        p = int(self.place[i])
        if not (self.rebalances or self.rescales or self.has_weight[p]):
            scores = self._scores(self.problem, self.whole, p)
            if self._is_safe(scores, p):
                self.skipped += 1
                self._note(self.whole)
                return self._result(scores, False)
        problem = self._problem_without(p)
        start = self.whole.start.without(p).clipped(problem)
        for tol in _TOLERANCES:
            solution = solve(problem, self.run.part(tol=tol), start)
            if solution.status in ("max_time", "interrupted"):
                return None
            scores = self._scores(problem, solution, p)
            error, lead = self._score_error(problem, solution, p), _lead(scores)
            if lead > error or solution.status != "converged":
                break
            start = solution.start
        self.refits += 1
        self._note(solution)
        size = 1.0 + float(np.abs(scores).max())
        return self._result(scores, bool(lead <= min(error, _SAME * size)))

    def _note(self, solution: Solution) -> None:
        self.worst_gap = max(self.worst_gap, solution.judgement.certificate.relative_gap)

    def _result(self, scores: np.ndarray, tie: bool) -> _LeftOut:
        return _LeftOut(self.classes[int(scores.argmax())], scores, tie)

    def _is_safe(self, scores: np.ndarray, p: int) -> bool:
        """Whether the model of all examples is also the one without p, with a clear lead at p."""
        error = self._score_error(self.problem, self.whole, p)
        if not _lead(scores) > error:
            return False
        if not self.problem.has_free_bias:
            return True
        one = slice(p, p + 1)
        lack = self.machine.deficits(
            self.problem.raised(scores[None, :], one), self.problem.own[one]
        )
        return bool(lack.max() < -error)

    def _score_error(self, problem: Problem, solution: Solution, p: int) -> float:
        """Bound of the error of a lead; four times as large with a free intercept."""
        gap = solution.judgement.certificate.gap
        diagonal = float(self.problem.diagonal[p])
        if problem.has_free_bias:
            return 8.0 * float(np.sqrt(gap * max(diagonal, float(problem.diagonal.max()))))
        return 2.0 * float(np.sqrt(gap * diagonal))

    # -- the smaller problem -------------------------------------------------------------------

    def _problem_without(self, p: int) -> Problem:
        whole = self.problem
        rest = np.delete(np.arange(whole.n_patterns), p)
        kernel, cap = whole.kernel, whole.cap[rest]
        data = whole.X[rest]
        if kernel.name == "precomputed":
            data = np.delete(data, p, axis=1)
        kept = self.ready.kept[rest]
        if self.rescales:
            weight = self.weight[kept] if self.is_weighted else None
            kernel = replace(kernel, gamma=resolve_gamma("scale", data, weight))
        if self.rebalances and not whole.is_hard:
            again = encode(self.y[kept], self.weight[kept], self.model.class_weight)
            cap = float(self.model.C) * again.weighted
        return replace(
            whole,
            X=data,
            kernel=kernel,
            label=whole.label[rest],
            own=whole.own[rest],
            cap=cap,
        )

    def _scores(self, problem: Problem, solution: Solution, p: int) -> np.ndarray:
        """Class scores of pattern p by a solution of this or of the smaller problem."""
        whole, judged = self.problem, solution.judgement
        row = whole.X[p : p + 1]
        if judged.W is not None:
            row = row.toarray() if sp.issparse(row) else row
            scores = (row.astype(np.float64) @ judged.W.T)[0] + judged.intercept
            return np.asarray(scores * judged.scale)
        support = solution.support
        if problem is not whole:
            support = support + (support >= p)  # their numbers among all patterns
        here = replace(whole, kernel=problem.kernel)
        scores = here.gram(np.array([p]), support)[0].astype(np.float64) @ solution.coefficients
        if problem.has_free_bias:
            scores = scores + judged.intercept
        return np.asarray(scores * judged.scale)


class _PlainRefits(_Refits):
    """Any other classifier: a clone is trained from scratch without every example."""

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        if not (hasattr(estimator, "fit") and is_classifier(estimator)):
            raise ValueError(f"estimator must be a classifier, got {shown(estimator)}.")
        self.estimator = estimator
        self.X = X.tocsr() if sp.issparse(X) else X
        check_consistent_length(X, y)
        self.y = column_or_1d(y)
        n = len(self.y)
        self.weight = np.ones(n)
        self.is_weighted = sample_weight is not None
        if self.is_weighted:
            self.weight = sample_weights(sample_weight, self.y)
        self.counted = self.weight > 0.0
        self.classes, label = np.unique(self.y[self.counted], return_inverse=True)
        _check_classes(self.classes, label)
        self.pairwise = bool(get_tags(estimator).input_tags.pairwise)

    def _fit(self, rows: np.ndarray) -> Any:
        options = {"sample_weight": self.weight[rows]} if self.is_weighted else {}
        X = _safe_indexing(self.X, rows)
        if self.pairwise:
            X = np.asarray(X)[:, rows]
        return clone(self.estimator).fit(X, self.y[rows], **options)

    def predictions(self) -> np.ndarray:
        return np.asarray(self._fit(np.arange(len(self.y))).predict(self.X))

    def without(self, i: int) -> _LeftOut | None:
        rest = np.delete(np.arange(len(self.y)), i)
        try:
            model = self._fit(rest)
        except KeyboardInterrupt:
            return None
        x = _safe_indexing(self.X, np.array([i]))
        if self.pairwise:
            x = np.asarray(x)[:, rest]
        self.refits += 1
        scores = np.full(len(self.classes), np.nan)
        tie = False
        if hasattr(model, "decision_function"):
            found = np.atleast_1d(np.asarray(model.decision_function(x), dtype=np.float64)[0])
            if len(found) == 1:
                found = np.array([-0.5, 0.5]) * found[0]
            if len(found) == len(scores):
                scores, tie = found, _lead(found) == 0.0
        return _LeftOut(model.predict(x)[0], scores, bool(tie))


def _lead(scores: np.ndarray) -> float:
    """By how much the highest score exceeds the next."""
    top = np.partition(scores, -2)[-2:]
    return float(top[1] - top[0])
