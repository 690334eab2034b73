"""The race of AutoSVC: all candidates on cheap splits first, the close ones on all of them.

After every split a candidate is dropped if its loss exceeds the leader's by more than chance
explains (paired over the same validation examples); after every stage only the best ones stay.
Decisions are made by losses, between splits, so that they do not depend on the clock or on the
number of threads; only a time limit that is reached does.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from polymargin.compiled.threads import single_threaded_libraries
from polymargin.estimators.auto_candidates import Candidate, Table, neighbours
from polymargin.estimators.auto_fits import Trainer, WarmStart, chain_of
from polymargin.estimators.auto_losses import class_scores_of, example_losses, mean_and_error
from polymargin.estimators.auto_splits import SMALL, Split, Stage
from polymargin.estimators.model_size import classifier_size
from polymargin.solvers.run import Clock

__all__ = ["Entry", "Race", "Rules", "predicted_seconds"]

_HOPELESS_Z = 2.5
"""Standard errors of the paired difference beyond which a candidate is dropped.  A smaller
number drops machines that a larger training part would favour, a larger one costs fits."""

_FEW_ROWS, _FEW_POWER, _MANY_POWER = 2_000, 1.3, 1.75
"""Seconds of a kernel machine grow with a power of the rows, up to a few of them and beyond, as
measured on digits (USPS, MNIST)."""

_STAGE_OVERRUN = 0.2  # of its time, which a race may overrun rather than leave a stage out

_SEEN_SHARE = 0.5  # least part of the rows in validation for a choice that prefers small C
_SEEN_OFTEN = 5  # validation examples from which on a class that is never predicted is reported
_MOST_MOVES = 8  # steps from neighbour to neighbour


@dataclass(frozen=True)
class Rules:
    """What the user asked for, as far as the race is concerned.

    ``is_unlimited``: there is no ``max_time``, so that compiling need not count.
    ``may_stay_empty``: there is a model already, so that the race may end without a fit.
    """

    objective: str
    prefer: str
    may_unweight: bool
    budget: float
    is_unlimited: bool
    seed: int
    n_jobs: int | None
    verbose: int
    may_stay_empty: bool = False


@dataclass
class Entry:
    """A candidate and its record.

    ``losses``, ``scores`` and ``starts`` (by the number of the split) are of the current size.
    """

    candidate: Candidate
    losses: list[np.ndarray] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    mean: float = float("nan")
    error: float = float("nan")
    n_splits: int = 0
    train_rows: int = 0
    starts: dict[int, WarmStart | None] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    scoring_seconds: float = 0.0  # to score one validation part
    model_bytes: int = 0
    operations: int = 0
    was_too_slow: bool = False
    model: Any = None
    verdict: str = ""

    @property
    def is_alive(self) -> bool:
        return not self.verdict


def predicted_seconds(entry: Entry, rows: int) -> float:
    """Seconds of a fit of an entry on so many rows, from those of its last fit."""
    if entry.candidate.kind != "rbf":
        return entry.seconds[-1] * rows / entry.train_rows

    def cost(n: int) -> float:
        few, many = min(n, _FEW_ROWS), max(n, _FEW_ROWS)
        return float(few**_FEW_POWER * many**_MANY_POWER)

    return entry.seconds[-1] * cost(rows) / cost(entry.train_rows)


class Race:
    """Candidates on splits; ``entries`` in the order in which they joined."""

    def __init__(
        self,
        X: Any,
        y: np.ndarray,
        label: np.ndarray,
        fit_weight: np.ndarray | None,
        loss_weight: np.ndarray,
        table: Table,
        rules: Rules,
        clock: Clock,
    ) -> None:
        self.X, self.y, self.label = X, y, label
        self.classes = np.unique(y)
        self.loss_weight = loss_weight
        self.table, self.rules, self.clock = table, rules, clock
        self.trainer = Trainer(
            X, y, fit_weight, table, clock, rules.budget, rules.is_unlimited, rules.seed
        )
        self.entries: dict[Candidate, Entry] = {}
        self.splits: list[Split] = []
        self.before: tuple[list[Split], dict[int, Any]] = ([], {})
        self.best: Entry | None = None
        self.n_fits = 0
        self.was_cut_short = False

    # -- the course ----------------------------------------------------------------------------

    def run(self, stages: Sequence[Stage], candidates: Iterable[Candidate]) -> None:
        """All stages, or as many as the time allows."""
        for one in candidates:
            self.entries[one] = Entry(one)
        for number, stage in enumerate(stages):
            if number and len(self.alive) < 2:
                return
            if stage.is_first:
                if number and not self._has_time_for(stage):
                    self.was_cut_short = True
                    return
                self._grow()
            for split in stage.splits:
                if number and len(self.alive) < 2:
                    return
                if not self._validate(self.alive, split):
                    return
                self._drop_hopeless(self.alive)
            if stage.explores and not self._explore():
                return
            self._cut(stage.keep if number + 1 < len(stages) else len(self.entries))

    def _has_time_for(self, stage: Stage) -> bool:
        """Whether, under ``max_time``, the best two can be compared on parts of another size.

        A stage that is not finished decides nothing and takes time from the final fit.
        """
        if self.rules.is_unlimited or self.clock.max_time is None:
            return True
        rows = len(stage.splits[0].train)
        needed = [predicted_seconds(entry, rows) for entry in self.ranked()[:2]]
        return self.clock.seconds + sum(needed) <= (1.0 + _STAGE_OVERRUN) * self.clock.max_time

    @property
    def alive(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.is_alive]

    def _grow(self) -> None:
        """Begin another size of the training part: losses of the size before do not count."""
        self.before = self.splits, {id(e): (e.losses, e.scores, e.model) for e in self.alive}
        self.splits = []
        for entry in self.entries.values():
            entry.starts = {}
            if entry.is_alive:
                entry.losses, entry.scores = [], []

    def _shrink(self) -> None:
        """Go back to the size before: no two candidates have finished a split of this one."""
        self.splits, records = self.before
        for entry in self.alive:
            entry.losses, entry.scores, entry.model = records[id(entry)]

    def _validate(self, entries: Sequence[Entry], split: Split) -> bool:
        """Every entry on a split, the best ones first; False if the time was over before."""
        self.splits.append(split)
        number = len(self.splits) - 1
        tried_before = any(entry.n_splits for entry in entries)
        if tried_before:
            entries = sorted(entries, key=_rank)
        if self._fits(entries, number) == len(entries):
            self._standings()
            return True
        self.was_cut_short = True
        finished = [entry for entry in entries if len(entry.losses) > number]
        has_leader = not number and any(entry is self.best for entry in finished)
        if len(finished) > 1 or has_leader or not tried_before:
            self._settle_for(finished, entries)
        elif not number:
            self._shrink()
        else:
            self.splits.pop()
            for entry in finished:  # means stay those of the last split that all have finished
                del entry.losses[number:], entry.scores[number:]
        return False

    def _settle_for(self, finished: Sequence[Entry], entries: Sequence[Entry]) -> None:
        """Drop all but the finished ones for lack of time."""
        for entry in entries:
            if entry.is_alive and not any(entry is one for one in finished):
                entry.verdict = "not finished: time" if entry.seconds else "not tried: time"
        self._standings()

    def _standings(self) -> None:
        """Update the mean losses of all with a loss on every split, and the leader."""
        weight = self._weights(range(len(self.splits)))
        for entry in self.alive:
            if len(entry.losses) != len(self.splits):
                continue
            entry.mean, entry.error = mean_and_error(np.concatenate(entry.losses), weight)
            entry.error *= np.sqrt(self._repeats())
            entry.n_splits = len(self.splits)
            entry.train_rows = len(self.splits[0].train)
        self.best = min(self.ranked(), key=_rank, default=None)
        self._say(f"{len(self.alive)} machines left, {len(self.splits)} splits")

    def _repeats(self) -> float:
        """How often a validation example was used: repeats are not new examples."""
        return sum(len(split.test) for split in self.splits) / self._n_seen()

    def _n_seen(self) -> int:
        """How many rows have validated at the present size."""
        tests = [split.test for split in self.splits]
        return len(np.unique(np.concatenate(tests))) if tests else 0

    def _weights(self, numbers: Iterable[int]) -> np.ndarray:
        return np.concatenate([self.loss_weight[self.splits[k].test] for k in numbers])

    def ranked(self) -> list[Entry]:
        """Those with a complete record at the present size, best first."""
        known = [e for e in self.alive if e.n_splits and not np.isnan(e.mean)]
        most = max((e.n_splits for e in known if e.train_rows == self._rows(known)), default=0)
        known = [e for e in known if e.train_rows == self._rows(known) and e.n_splits == most]
        return sorted(known, key=_rank)

    @staticmethod
    def _rows(entries: Sequence[Entry]) -> int:
        return max((entry.train_rows for entry in entries), default=0)

    # -- dropping candidates -------------------------------------------------------------------

    def _drop_slow_leaders(self) -> None:
        """Under ``max_time`` drop leaders that reached the limit of a fit."""
        ranked = self.ranked()
        if self.rules.is_unlimited or all(entry.was_too_slow for entry in ranked):
            return
        for entry in ranked:
            if not entry.was_too_slow:
                self.best = entry
                return
            entry.verdict, entry.model = "time limit of a fit", None

    def _drop_hopeless(self, entries: Sequence[Entry]) -> None:
        self._drop_slow_leaders()
        leader = self.best
        if leader is None:
            return
        for entry in entries:
            if entry is leader or len(entry.losses) != len(leader.losses):
                continue
            if entry.was_too_slow:
                entry.verdict, entry.model = "time limit of a fit", None
                continue
            behind, noise = self._difference(entry, leader)
            if behind > _HOPELESS_Z * noise and not self._is_in_band(entry):
                entry.verdict = f"worse than the leader by {100.0 * behind:.2g} points"
                if self.rules.objective == "log_loss":
                    entry.verdict = f"worse than the leader by {behind:.2g}"
                entry.model = None

    def _difference(self, one: Entry, other: Entry) -> tuple[float, float]:
        """Mean paired difference of losses and its standard error."""
        gap = np.concatenate(one.losses) - np.concatenate(other.losses)
        mean, error = mean_and_error(gap, self._weights(range(len(one.losses))))
        return mean, error * np.sqrt(self._repeats())

    def _is_in_band(self, entry: Entry) -> bool:
        """Whether the one-standard-error rule could still choose it for being small or fast."""
        if self.rules.prefer == "accurate" or self.best is None:
            return False
        return entry.mean <= self.best.mean + self.best.error

    def _cut(self, keep: int) -> None:
        ranked = self.ranked()
        families = {e.candidate.family: e for e in reversed(ranked)}
        for place, entry in enumerate(ranked):
            is_spare = self._is_in_band(entry) and families[entry.candidate.family] is entry
            if place >= keep and not is_spare:
                entry.verdict = f"not among the best {keep}"
                entry.model = None

    # -- neighbours --------------------------------------------------------------------------------

    def _explore(self) -> bool:
        """Walk to better neighbours of the leader until there are none."""
        for _ in range(_MOST_MOVES):
            start = self.choice()
            if start is None:
                return True
            near = neighbours(start.candidate, self.table, self.rules.may_unweight)
            fresh = [Entry(one) for one in near if one not in self.entries]
            if not fresh:
                return True
            self.entries |= {entry.candidate: entry for entry in fresh}
            if not self._catch_up(fresh):
                return False
            if self.choice() is start:
                return True
        return True

    def _catch_up(self, fresh: list[Entry]) -> bool:
        """Fit new entries on all splits so far, or until one is clearly worse than the leader."""
        for number in range(len(self.splits)):
            running = [entry for entry in fresh if entry.is_alive]
            if self._fits(running, number) < len(running):
                self.was_cut_short = True
                for entry in running:
                    entry.verdict = "not finished: time"
                return False
            self._drop_early(running)
        self._standings()
        self._drop_hopeless(fresh)
        return True

    def _drop_early(self, entries: Sequence[Entry]) -> None:
        """Drop new entries that are clearly worse on the splits that they have seen so far."""
        leader = self.best
        assert leader is not None
        for entry in entries:
            seen = len(entry.losses)
            if seen == len(self.splits):
                continue
            weight = self._weights(range(seen))
            gap = np.concatenate(entry.losses) - np.concatenate(leader.losses[:seen])
            behind, noise = mean_and_error(gap, weight)
            entry.mean, entry.error = mean_and_error(np.concatenate(entry.losses), weight)
            if behind > _HOPELESS_Z * noise:
                entry.verdict = "worse than its neighbour"
                entry.model = None

    # -- fits --------------------------------------------------------------------------------------

    def _fits(self, entries: Sequence[Entry], number: int) -> int:
        """Train and validate on a split; how many were done before the time was over.

        Machines that start from each other are trained one after the other, in any number of
        threads.
        """
        jobs = effective_n_jobs(self.rules.n_jobs)
        chains: list[list[Entry]] = [list(entries)]
        if jobs > 1:
            by_chain: dict[Candidate, list[Entry]] = {}
            for entry in entries:
                by_chain.setdefault(chain_of(entry.candidate), []).append(entry)
            chains = list(by_chain.values())
        recent = self._recent_seconds()
        # products of a race are small: threads of the libraries would wait more than they work
        with warnings.catch_warnings(), single_threaded_libraries():
            warnings.simplefilter("ignore")
            done = Parallel(n_jobs=jobs, prefer="threads")(
                delayed(self._fit_chain)(chain, number, recent) for chain in chains
            )
        return sum(done)

    def _recent_seconds(self) -> list[float]:
        return [entry.seconds[-1] for entry in self.entries.values() if entry.seconds]

    def _fit_chain(self, chain: Sequence[Entry], number: int, recent: Sequence[float]) -> int:
        return sum(self._fit(entry, number, recent) for entry in chain)

    def _fit(self, entry: Entry, number: int, recent: Sequence[float]) -> bool:
        if (self.n_fits or self.rules.may_stay_empty) and self.clock.why_end() is not None:
            return False
        split, one = self.splits[number], entry.candidate
        try:
            start = self._nearest_start(one, number)
            model, seconds = self.trainer.train(one, split.train, recent, start)
            began = time.perf_counter()
            scores = class_scores_of(model, self.X[split.test], self.classes)
            entry.scoring_seconds = time.perf_counter() - began
        except (ValueError, ArithmeticError, MemoryError, np.linalg.LinAlgError) as error:
            entry.verdict = f"failed: {' '.join(str(error).split())[:80]}"
            return True
        entry.starts[number] = self.trainer.start_of(one, model)
        self._note(entry, split, model, scores, seconds)
        return True

    def _nearest_start(self, one: Candidate, number: int) -> WarmStart | None:
        """The start of the machine with the nearest C among those that differ in C only."""
        chain = chain_of(one)
        found = [
            start
            for entry in list(self.entries.values())
            if chain_of(entry.candidate) == chain
            and (start := entry.starts.get(number)) is not None
        ]
        return min(found, key=lambda start: abs(np.log(start.c / one.c)), default=None)

    def _note(
        self, entry: Entry, split: Split, model: Any, scores: np.ndarray, seconds: float
    ) -> None:
        label, weight = self.label[split.test], self.loss_weight[split.test]
        entry.losses.append(example_losses(self.rules.objective, scores, label, weight))
        entry.scores.append(scores.astype(np.float32))
        entry.seconds.append(seconds)
        entry.model_bytes, entry.operations = classifier_size(model)
        entry.model = model
        entry.was_too_slow |= model.status_ == "max_time"
        self.n_fits += 1

    # -- the choice --------------------------------------------------------------------------------

    def choice(self) -> Entry | None:
        """The best, or by the one-standard-error rule the smallest or fastest of the good ones."""
        ranked = self.ranked()
        if not ranked or self.rules.prefer == "accurate":
            return ranked[0] if ranked else None
        good = [e for e in ranked if e.mean <= ranked[0].mean + ranked[0].error]
        if self.rules.prefer == "small":
            return min(good, key=lambda e: (e.model_bytes, *_rank(e)))
        return min(good, key=lambda e: (e.operations, *_rank(e)))

    def final_choice(self) -> Entry | None:
        """As ``choice``; of few rows the most regularised machine that may be as good as the best.

        There the means of good machines differ by less than chance, so that the best of many is
        often one that fits the validation examples: the paired difference decides who may be as
        good.  Over thirteen small tables this made fewer errors on eight and more on three.  A race
        cut short before half of the rows validated has too noisy differences for this rule.
        """
        lead = self.choice()
        is_noisy = len(self.label) <= SMALL and self.rules.objective != "log_loss"
        is_noisy = is_noisy and self._n_seen() >= _SEEN_SHARE * len(self.label)
        if lead is None or self.rules.prefer != "accurate" or not is_noisy:
            return lead
        good = [entry for entry in self.ranked() if entry is lead or self._may_equal(entry, lead)]
        return min(good, key=lambda e: (e.candidate.c * e.candidate.g, *_rank(e)))

    def _may_equal(self, entry: Entry, lead: Entry) -> bool:
        behind, noise = self._difference(entry, lead)
        return behind <= noise

    def validation_scores(self, entry: Entry) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores, class numbers and weights of the validation examples of an entry."""
        used = range(len(entry.scores))
        label = np.concatenate([self.label[self.splits[k].test] for k in used])
        return np.concatenate(entry.scores).astype(np.float64), label, self._weights(used)

    def never_predicted(self, entry: Entry | None) -> np.ndarray:
        """Numbers of classes that validation has several times and the entry never predicts."""
        if entry is None or not entry.scores:
            return np.zeros(0, dtype=np.int64)
        scores, label, _ = self.validation_scores(entry)
        seen = np.bincount(label, minlength=len(self.classes))
        named = np.bincount(scores.argmax(axis=1), minlength=len(self.classes))
        return np.flatnonzero((seen >= _SEEN_OFTEN) & (named == 0))

    def other_mean(self, one: Candidate, splits: Sequence[Split]) -> tuple[float, float]:
        """Mean loss of a candidate on splits outside the race, and its standard error."""
        losses, weights = [], []
        for split in splits:
            model, _ = self.trainer.train(one, split.train, self._recent_seconds(), None)
            scores = class_scores_of(model, self.X[split.test], self.classes)
            weights.append(self.loss_weight[split.test])
            label = self.label[split.test]
            losses.append(example_losses(self.rules.objective, scores, label, weights[-1]))
        return mean_and_error(np.concatenate(losses), np.concatenate(weights))

    def _say(self, text: str) -> None:
        if self.rules.verbose and self.best is not None:
            best = self.best.candidate
            print(
                f"[polymargin] {self.clock.seconds:5.1f} s  {self.n_fits} fits  {text}; leader: "
                f"{best.family} {best.words(self.table)}, loss {self.best.mean:.4g}",
                flush=True,
            )


def _rank(entry: Entry) -> tuple[float, ...]:
    return (round(entry.mean, 12), *entry.candidate.simplicity)
