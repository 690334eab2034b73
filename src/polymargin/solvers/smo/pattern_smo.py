"""PatternSMO: which pattern is optimised next, and how, in the SMO-like family."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from polymargin.exceptions import shown

__all__ = ["PATTERNS", "SELECTIONS", "THRESHOLDS", "PatternSMO"]

PATTERNS = ("basic", "all-pairs", "opt-kkt", "fixed-point", "exact")
SELECTIONS = ("kkt", "amg", "bmg", "core")
THRESHOLDS = ("log", "max", "mean")


class PatternSMO(BaseEstimator):
    """The SMO-like family of kernel solvers, put together from its published parts.

    Passed as ``solver=`` to ``MulticlassSVC`` (Crammer-Singer machine) and to
    ``MultiPrototypeSVC``.  Every round gives each pattern p (example) a value :math:`V_p`, selects
    the patterns whose value is above a threshold and optimises their dual variables one pattern
    after the other, in random order; a pattern that moved needs its kernel row, which comes from a
    cache.  The optimum does not depend on the parts, the way to it does.

    Parameters
    ----------
    pattern : {"basic", "all-pairs", "opt-kkt", "fixed-point", "exact"}, default="opt-kkt"
        What happens to a selected pattern: one step of its best pair of variables (A3); steps of
        all pairs in turn (A4) or of the pair that most violates the KKT conditions (A5), until
        they gain no more than ``pattern_tol``; the fixed point of Crammer and Singer (A6, soft
        margin only); the exact optimum by one threshold (A7).
    selection : {"kkt", "amg", "bmg", "core"}, default="bmg"
        The value of a pattern: its violation of the KKT conditions, the gain of its best single
        pair, or the gain of its exact optimum, both in 2D (A8).  "core" is the ordering of the
        default solver: all violating patterns in random order, steps made where their gain is
        above the mean of the round before; it has no use for ``threshold``.
    threshold : {"log", "max", "mean"}, default="mean"
        ``theta0 / log10(t + 10)`` in round t, ``mu`` times the largest value, or the mean of all
        values (A9).  "log" leaves patterns below its threshold alone however many they are, so
        runs usually end with status "stalled".
    mu : float in [0, 1], default=0.5
        For "max"; 1 takes the pattern of the largest value alone.
    theta0 : float or None, default=None
        For "log"; None is the largest value before the first round.
    pattern_tol : float, default=1e-6
        Gain in 2D at which the pairs of one pattern are left; change of the threshold at which the
        fixed point ends (smaller in later rounds if it turns out to be too coarse).
    cache_rows : int or None, default=None
        Kernel rows that the cache holds; None: as many as fit into the estimator's ``cache_mb``,
        eight bytes a value, at least two.  The least recently used row leaves.

    See Also
    --------
    WorkingSets : Frank-Wolfe on working sets.
    FitMonitor : Records a value of your own at every check.

    Notes
    -----
    ``history_`` of the estimator gets ``gap, kernel_rows, cache_hits, cache_misses, patterns``
    beside ``seconds, iteration, primal, dual, relative_gap, active, steps``: kernel rows computed,
    rows found and not found in the cache, patterns optimised.  ``tol`` of the estimator ends the
    run, ``max_iter`` counts as many visits of patterns as there are patterns as one.

    References
    ----------
    Aiolli & Sperduti, JMLR 6 (2005) 817-850, section 5; Aiolli & Sperduti, An efficient SMO-like
    algorithm for multiclass SVM, NNSP 2002; Crammer & Singer, JMLR 2 (2001) 265-292.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, PatternSMO
    >>> X, y = load_iris(return_X_y=True)
    >>> solver = PatternSMO(pattern="exact", cache_rows=20)
    >>> model = MulticlassSVC(kernel="rbf", solver=solver, random_state=0).fit(X, y)
    >>> model.status_
    'converged'
    """

    def __init__(
        self,
        pattern: str = "opt-kkt",
        selection: str = "bmg",
        threshold: str = "mean",
        mu: float = 0.5,
        theta0: float | None = None,
        pattern_tol: float = 1e-6,
        cache_rows: int | None = None,
    ) -> None:
        self.pattern = pattern
        self.selection = selection
        self.threshold = threshold
        self.mu = mu
        self.theta0 = theta0
        self.pattern_tol = pattern_tol
        self.cache_rows = cache_rows

    def check(self, is_hard: bool = False) -> None:
        """Refuse what cannot be; ``is_hard`` where C is infinite."""
        for name, known in (
            ("pattern", PATTERNS),
            ("selection", SELECTIONS),
            ("threshold", THRESHOLDS),
        ):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"solver: {name} must be one of {known}, got {shown(value)}.")
        if not (_is_number(self.mu) and 0.0 <= float(self.mu) <= 1.0):
            raise ValueError(f"solver: mu must be in [0, 1], got {shown(self.mu)}.")
        if self.theta0 is not None and not (_is_number(self.theta0) and float(self.theta0) > 0.0):
            raise ValueError(
                f"solver: theta0 must be a finite number > 0 or None, got {shown(self.theta0)}."
            )
        if not (_is_number(self.pattern_tol) and float(self.pattern_tol) >= 0.0):
            raise ValueError(
                f"solver: pattern_tol must be a finite number >= 0, got {shown(self.pattern_tol)}."
            )
        rows = self.cache_rows
        is_count = isinstance(rows, numbers.Integral) and not isinstance(rows, bool)
        if rows is not None and not (is_count and int(rows) >= 1):
            raise ValueError(
                f"solver: cache_rows must be an integer >= 1 or None (use cache_mb), got "
                f"{shown(rows)}."
            )
        if is_hard and self.pattern == "fixed-point":
            raise ValueError(
                "solver: pattern='fixed-point' needs a finite C: its fixed point is a projection "
                "onto a simplex of size C; use pattern='exact' for the hard margin."
            )


def _is_number(value: Any) -> bool:
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return good and bool(np.isfinite(float(value)))
