"""One fit of AutoSVC: what happens in which order, and under which clock.

scale (auto_data.py) -> a sample of the rows -> another scaling if it is clearly better
(auto_scaling.py) -> under a time limit a linear machine on all rows
(auto_linear.py) -> race (auto_race.py) of candidates (auto_candidates.py) over splits
(auto_splits.py), each fit warm started from others (auto_fits.py) -> final fit (auto_final.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polymargin.estimators.auto_candidates import Table, starting_candidates
from polymargin.estimators.auto_data import Ready, scaled
from polymargin.estimators.auto_final import FinalRows, best_on_first_split, final_rows, is_good
from polymargin.estimators.auto_linear import (
    fit_linear_first,
    held_out_rows,
    linear_first,
    validate,
)
from polymargin.estimators.auto_losses import objective_weights
from polymargin.estimators.auto_race import Entry, Race, Rules
from polymargin.estimators.auto_scaling import choose_scaling
from polymargin.estimators.auto_splits import plan_stages, search_rows
from polymargin.estimators.auto_warmup import Warmup, compile_first
from polymargin.solvers.run import Clock, interruptible_search

__all__ = ["Course", "Kept"]

_AUTO_SECONDS = 6.0
"""Seconds of the race per 10,000 rows, at least once and at most ten times: with the final fit less
than twenty fits of a kernel machine of the same rows, or 10 s."""

_CHOOSING_LIMIT = 20.0  # seconds of max_time from which on scalings are compared

_SEARCH_SHARE = 0.6  # of max_time; the rest is for the final fit
_CLOSING, _CLOSING_NUMBER = 1.5e-6, 6e-9
"""Seconds per row, and per number of a row, that a fit takes after its time limit: the certificate
and the attributes (0.4 s for MNIST, 1.2 s for all of covtype)."""

_SHORTEST_FIT = 0.05  # least time limit of a final fit, in seconds


class Kept(NamedTuple):
    """The model of a fit: its record, the stage that it comes from and its number of rows."""

    model: Any
    entry: Entry
    stage: str  # "final", "race" or "linear"
    n_rows: int


class Course:
    """The course of one fit; ``kept`` is there as soon as there is a model, also after Ctrl-C.

    Parameters
    ----------
    auto : AutoSVC
        Its parameters, checked.
    ready : Ready
        The training data.
    kinds : sequence of str
        Kinds of machines to try.
    seed : int
    clock : Clock
        Of the whole fit, started before the data were prepared.
    """

    def __init__(
        self, auto: Any, ready: Ready, kinds: Sequence[str], seed: int, clock: Clock
    ) -> None:
        self.auto, self.seed, self.clock = auto, seed, clock
        self.rows = search_rows(ready.label, np.random.default_rng([seed, 0]))
        self._scale(ready)
        self.closing_seconds = _CLOSING * (1.0 + 0.1 * self.table.n_classes)
        self.closing_seconds += _CLOSING_NUMBER * _numbers_per_row(self.sample.X)
        self.weight = "balanced" if self._balances else auto.class_weight
        self.candidates = starting_candidates(
            self.table, auto.prefer, self.weight, kinds, auto.n_candidates
        )
        self.first = None
        if auto.max_time is not None and "linear" in kinds:
            self.first = linear_first(self.weight)
        self.warmup = Warmup(0.0, 0)
        self.linear: Entry | None = None
        self.kept: Kept | None = None

    @property
    def _balances(self) -> bool:
        return self.auto.objective == "balanced_accuracy" and self.auto.class_weight is None

    @property
    def left(self) -> float | None:
        """Seconds until ``max_time``; None without a limit."""
        limit = self.auto.max_time
        return None if limit is None else float(limit) - self.clock.seconds

    def run(self) -> None:
        """Compile, race, train the choice; Ctrl-C is raised after the best model so far is kept."""
        sample = self.sample
        started = self.candidates
        self.candidates, self.warmup = compile_first(
            sample.X, sample.y, self.table, started, self.first, self.clock
        )
        self._choose_scaling()
        sample = self.sample
        stages = plan_stages(
            sample.label, sample.groups, self.auto.cv, self.seed, self.table.is_text
        )
        self.held_out = held_out_rows(stages, self.rows, self.ready.groups)
        self._train_linear()
        self.race = self._make_race()
        with interruptible_search(self.race.clock):
            self.race.run(stages, self.candidates)
        if self.linear is not None:
            validate(self.linear, self.race)
        self._finish()

    # -- before the race -----------------------------------------------------------------------

    def _scale(self, ready: Ready) -> None:
        """The sample as the scaler of the data makes it."""
        self.ready = ready
        began = self.clock.seconds
        self.sample = scaled(ready, self.rows)
        self.scaling_seconds = (self.clock.seconds - began) / len(self.rows)
        self.table = Table.of(self.sample.X, self.sample.label)

    def _choose_scaling(self) -> None:
        """Another scaling where it is clearly better; a short ``max_time`` leaves that out."""
        limit = self.auto.max_time
        if limit is not None and limit < _CHOOSING_LIMIT:
            return
        with interruptible_search(self.clock):
            ready = choose_scaling(self.ready, self.candidates, self._rules(), self.clock)
        if ready is not self.ready:
            self._scale(ready)

    def _train_linear(self) -> None:
        if self.first is None or not len(self.held_out):
            return
        self.linear = fit_linear_first(
            self.ready,
            self.held_out,
            self.first,
            self.table,
            self.clock,
            self.scaling_seconds,
            {"n_jobs": self.auto.n_jobs, "random_state": self.seed},
        )

    # -- the race ------------------------------------------------------------------------------

    def _rules(self) -> Rules:
        auto = self.auto
        return Rules(
            auto.objective,
            auto.prefer,
            self._balances,
            self._search_seconds(),
            auto.max_time is None,
            self.seed,
            auto.n_jobs,
            int(auto.verbose),
            self.linear is not None,
        )

    def _make_race(self) -> Race:
        auto, sample, rules = self.auto, self.sample, self._rules()
        loss_weight = objective_weights(auto.objective, sample.label, sample.weight)
        clock = Clock(rules.budget)
        clock.interrupted = self.clock.interrupted
        if auto.max_time is not None:  # its share of max_time counts from the start of the fit
            clock.started = self.clock.started
        return Race(
            sample.X, sample.y, sample.label, sample.weight, loss_weight, self.table, rules, clock
        )

    def _search_seconds(self) -> float:
        auto = self.auto
        seconds = _AUTO_SECONDS * float(np.clip(len(self.ready.label) / 10_000, 1.0, 10.0))
        if not isinstance(auto.budget, str):
            seconds = float(auto.budget)
        if auto.max_time is not None:
            seconds = min(seconds, _SEARCH_SHARE * float(auto.max_time))
        return seconds

    # -- the final fit -------------------------------------------------------------------------

    def _finish(self) -> None:
        """Train the choice; keep an earlier model where there is no time for it or it is worse."""
        chosen, linear = self.race.final_choice(), self.linear
        lead = best_on_first_split([chosen, linear], self.race) or chosen
        self._keep_earlier(lead)
        if self.race.clock.interrupted:
            raise KeyboardInterrupt
        rng = np.random.default_rng([self.seed, 2])
        for entry in [one for one in (chosen, linear) if one is not None] or [self._untried()]:
            last = entry
            while (plan := self._plan(last, lead, rng)) is not None:
                last = self._fit_finally(last, lead, plan)
                lead = best_on_first_split([last, lead], self.race) or last
                if self.left is None or not plan.is_fair:
                    return
            if last is not entry and lead is not linear:
                return

    def _untried(self) -> Entry:
        """The first candidate: the choice where no split allows validation."""
        return Entry(self.candidates[0])

    def _plan(self, entry: Entry, lead: Entry | None, rng: np.random.Generator) -> FinalRows | None:
        return final_rows(
            self.ready.label,
            entry,
            self.held_out,
            self.left,
            self.scaling_seconds + self.closing_seconds,
            rng,
            leads=lead is None or entry is lead,
        )

    def _keep_earlier(self, lead: Entry | None) -> None:
        if lead is not None:
            stage = "linear" if lead is self.linear else "race"
            self.kept = Kept(lead.model, lead, stage, lead.train_rows)

    def _fit_finally(self, entry: Entry, lead: Entry | None, plan: FinalRows) -> Entry:
        """A fit on the rows of the plan, as an entry; kept if it is better than the leader."""
        part = scaled(self.ready, plan.rows)
        left = self.left
        if left is not None:
            closing = self.closing_seconds * len(plan.rows) + plan.scoring_seconds
            left = max(left - closing, _SHORTEST_FIT)
        model: Any = entry.candidate.build(
            self.table,
            tol=self.auto.tol,
            max_time=left,
            n_jobs=self.auto.n_jobs,
            random_state=self.seed,
        )
        final = Entry(entry.candidate, train_rows=len(plan.rows), model=model)
        began = self.clock.seconds
        try:
            model.fit(part.X, part.y, part.weight)
            if not getattr(model, "alive_", np.ones(1, dtype=bool)).all() and left is None:
                model.prune()
        finally:
            final.seconds = [self.clock.seconds - began]
            if hasattr(model, "certificate_"):
                self._compare(final, entry, lead, plan.is_fair)
        return final

    def _compare(self, final: Entry, entry: Entry, lead: Entry | None, is_fair: bool) -> None:
        """Keep the final model unless an earlier one is better; ``entry`` is its record so far."""
        if is_fair:
            validate(final, self.race)
            final.scoring_seconds = entry.scoring_seconds
            if lead is None or best_on_first_split([final, lead], self.race) is final:
                self.kept = Kept(final.model, final, "final", final.train_rows)
        elif lead is None or lead.model is None or is_good(final.model):
            self.kept = Kept(final.model, entry, "final", final.train_rows)


def _numbers_per_row(X: Any) -> float:
    return float(X.nnz / X.shape[0] if sp.issparse(X) else X.shape[1])
