"""AutoSVC: how dense features are scaled.

Standardising is the rule.  It fails where a few values lie far from all others, since they alone
then decide the deviation, and where features have a common unit and the large ones tell more.  A
few machines validate these two scalings on a small sample beside the rule, and one of them takes
its place where it is clearly better.  Of a raw table, whose encoder scales the numbers, only limits
for values far away are compared with the rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from polymargin.compiled.memory import rows_of
from polymargin.estimators.auto_candidates import Candidate, Table
from polymargin.estimators.auto_data import Ready, scaled
from polymargin.estimators.auto_limits import clipping, median_and_spread, reaches_far
from polymargin.estimators.auto_losses import mean_and_error, objective_weights
from polymargin.estimators.auto_race import Race, Rules
from polymargin.estimators.auto_splits import Split, Stage, stratified_sample, usual_folds
from polymargin.solvers.run import Clock

__all__ = ["choose_scaling"]

_LEAST_ROWS, _MOST_ROWS = 60, 800
_MOST_NUMBERS = 4_000_000  # of the sample
_MOST_CLASSES = 20  # up to which kernel machines take part: their fits take longer
_BUDGET_SHARE = 1.0 / 3.0  # of the race, by which fits are limited that a bad scaling makes long
_CLEARLY = 2.0  # standard errors of the paired difference by which another scaling must be better

_ALIKE, _UNLIKE = 1.2, 100.0
"""Ratio of large to small deviations below which a common unit changes nothing, and above which
features surely have none."""


def choose_scaling(ready: Ready, candidates: list[Candidate], rules: Rules, clock: Clock) -> Ready:
    """The training data with the scaler that they have unless another is clearly better.

    Parameters
    ----------
    ready : Ready
        The training data.
    candidates : list of Candidate
        Machines of the race, the first choices in front.
    rules : Rules
        Those of the race.
    clock : Clock
        Of the whole fit; Ctrl-C ends the comparison.

    Returns
    -------
    Ready
    """
    count = min(_MOST_ROWS, _MOST_NUMBERS // ready.X.shape[1])
    has_choice = ready.scaler is not None or ready.table is not None
    if not has_choice or min(count, len(ready.label)) < _LEAST_ROWS:
        return ready
    rng = np.random.default_rng([rules.seed, 3])
    rows = stratified_sample(ready.label, count, rng)
    others = _others(ready, rows)
    probes = _probes(candidates, len(np.bincount(ready.label)))
    groups = None if ready.groups is None else ready.groups[rows]
    folds = usual_folds(ready.label[rows], groups, rules.seed)
    if not (others and probes and folds):
        return ready
    best, least = ready, _losses(ready, rows, folds, probes, rules, clock)
    for other in others:
        found = _losses(other, rows, folds, probes, rules, clock)
        if least is None or found is None:
            return ready
        # beside another scaling that is clearly better than the rule the mean decides
        needed = _CLEARLY if best is ready else 0.0
        better, noise = mean_and_error(least[0] - found[0], least[1])
        if better > needed * noise:
            best, least = other, found
    return best


def _probes(candidates: list[Candidate], n_classes: int) -> list[Candidate]:
    """The first machines of each kind, without kernels where classes are many."""
    kinds = ("linear", "rbf") if n_classes <= _MOST_CLASSES else ("linear",)
    found = []
    for kind in kinds:
        found += [one for one in candidates if one.kind == kind][:2]
    return found


def _losses(
    ready: Ready,
    rows: np.ndarray,
    folds: list[Split],
    probes: list[Candidate],
    rules: Rules,
    clock: Clock,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Losses of the validation examples of the best machine, and their weights."""
    part = scaled(ready, rows)
    table = Table.of(part.X, part.label)
    weight = objective_weights(rules.objective, part.label, part.weight)
    quiet = replace(rules, budget=_BUDGET_SHARE * rules.budget, verbose=0, may_stay_empty=False)
    race = Race(part.X, part.y, part.label, part.weight, weight, table, quiet, Clock(None, clock))
    race.run([Stage(tuple(folds), len(probes), False, True)], probes)
    if race.best is None or len(race.best.losses) < len(folds):
        return None
    tested = np.concatenate([fold.test for fold in folds])
    return np.concatenate(race.best.losses), weight[tested]


def _others(ready: Ready, rows: np.ndarray) -> list[Ready]:
    """The training data as other scalings make them, of those that may be better."""
    if ready.table is not None:
        return [ready._replace(scaling="clipped")] if ready.table.learn(rows) else []
    return [
        ready._replace(scaler=scaler, scaling=name)
        for name, scaler in _other_scalers(rows_of(ready.X, rows), ready.scaler)
    ]


def _other_scalers(X: np.ndarray, usual: StandardScaler) -> list[tuple[str, Any]]:
    """The scalings that may be better than the rule on rows such as these."""
    X = np.asarray(X, dtype=np.float64)
    middle, spread = median_and_spread(X, np.asarray(usual.scale_))
    found: list[tuple[str, Any]] = []
    if reaches_far(X, middle, spread):
        found.append(("clipped", clipping(middle, spread)))
    varying = np.sqrt(usual.var_[usual.var_ > 0.0])
    if len(varying) > 1:
        small, large = np.quantile(varying, [0.05, 0.95])
        if _ALIKE * small < large < _UNLIKE * small:
            found.append(("common", _centring(usual)))
    return found


def _centring(usual: StandardScaler) -> StandardScaler:
    """The means of the rule, and one unit for all features."""
    scaler = StandardScaler()
    scaler.__dict__.update(usual.__dict__)
    scaler.scale_ = np.full_like(usual.scale_, np.sqrt(np.mean(usual.var_)))
    return scaler
