"""Search over settings on parts of the data, and the choice among them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polymargin.cli.application import ToolError
from polymargin.cli.data_parts import holdout
from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import progress, say_once
from polymargin.cli.preprocessing import fit_scaler, new_scaler, scale_in_place
from polymargin.cli.single_fit import SHORTEST_FIT, Fitted, fit, model_bytes, predict_scaled

__all__ = ["SEARCH_SHARE", "Cell", "Search", "choose", "search"]

_AUTO_C = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # times the inverse of a typical kernel value
_AUTO_ETA = (0.2, 0.4, 0.6, 0.8, 1.0)  # on the relative scale of ConvexHullSVC
_PART_ROWS = {"linear": 10_000, "other": 3_000}  # rows on which C is picked, at most
SEARCH_SHARE = 0.5  # of the time limit; the rest is for the final fit


@dataclass
class Cell:
    """One combination of settings and its errors on the validation rows of each split."""

    settings: dict[str, Any]
    errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    model_bytes: int = 0

    @property
    def error(self) -> float:
        return float(np.mean(self.errors)) if self.errors else np.inf

    @property
    def spread(self) -> float:
        return float(np.std(self.errors)) if self.errors else np.nan


@dataclass
class Search:
    """The outcome of a search; ``fitted`` is the best model of a part of the data."""

    cells: list[Cell]
    n_train: int
    validation: np.ndarray  # rows that ``fitted`` was validated on
    fitted: Fitted | None
    interrupted: bool

    @property
    def n_validation(self) -> int:
        return len(self.validation)

    @property
    def best(self) -> Cell:
        """The lowest error over the most splits; the first, which is the simplest, among equals."""
        most = max(len(cell.errors) for cell in self.cells)
        complete = [cell for cell in self.cells if len(cell.errors) == most]
        return min(complete, key=lambda cell: round(cell.error, 12))


def settings_grid(setup: MachineSetup, X: Any) -> list[dict[str, Any]]:
    """All settings to try, the simpler ones first; X is scaled."""
    if setup.is_hull:
        if setup.eta is None:
            base = [{"eta": eta, "eta_scale": "relative"} for eta in _AUTO_ETA]
        else:
            base = [{"eta": eta} for eta in sorted(_listed(setup.eta))]
        return [{"gamma": g} | b if g is not None else b for g in _gammas(setup) for b in base]
    found = []
    for q in sorted(_listed(setup.prototypes)) if setup.is_prototypes else [None]:
        for gamma in _gammas(setup):
            for C in _levels(setup, gamma, X):
                cell: dict[str, Any] = {"C": C}
                if gamma is not None:
                    cell["gamma"] = gamma
                found.append(cell if q is None else {"n_prototypes": q} | cell)
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _gammas(setup: MachineSetup) -> list[Any]:
    if setup.kernel == "linear":
        return [None]
    return sorted(_listed(setup.gamma), key=lambda g: (isinstance(g, str), g))


def _levels(setup: MachineSetup, gamma: Any, X: Any) -> list[float]:
    """The values of C: given, or around the inverse of a typical kernel value."""
    given = _listed(setup.C)
    if given != ["auto"]:
        return sorted(float(c) for c in given if c != "auto")
    from polymargin.problem.kernels import squared_norms
    from polymargin.problem.machines import MACHINES

    plain = replace(setup, C=1.0, prototypes=1)
    estimator = plain.estimator(**({} if gamma is None else {"gamma": gamma}))
    machine = MACHINES["cs" if setup.is_prototypes else setup.machine.lower()]
    kernel = estimator._make_kernel(machine, X, None)
    typical = float(np.mean(kernel.diagonal(X, squared_norms(X))))
    return [float(f"{c / max(typical, 1e-300):.3g}") for c in _AUTO_C]


class _InterruptedError(Exception):
    """Raised where Ctrl-C ended a fit."""


def search(
    setup: MachineSetup,
    X: Any,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    title: str,
    limit: float | None,
) -> Search:
    """Try every setting on every split, until time is up or Ctrl-C; keep the results so far."""
    started = time.perf_counter()
    runner: _Runner | None = None
    cells: list[Cell] = []
    parts = splits[0]
    interrupted = False
    with progress(title) as line, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for number, (train, test) in enumerate(splits):
                X_train, X_test = X[train], X[test]
                scaler = new_scaler(setup, X)
                if scaler is not None:
                    fit_scaler(scaler, X_train)
                    X_train, X_test = (scale_in_place(scaler, part) for part in (X_train, X_test))
                if not cells:
                    cells = [Cell(settings) for settings in settings_grid(setup, X_train)]
                    if len(cells) > 1:
                        say_once(f"{title}: {len(cells)} settings, {len(test)} rows to validate on")
                data = (X_train, y[train], X_test, y[test])
                before = None if runner is None else runner.best
                runner = _Runner(setup, cells, data, scaler, line, runner, started, limit)
                runner.run(number, len(splits))
                if runner.best is not before:
                    parts = train, test
                if runner.is_late():
                    break
        except (KeyboardInterrupt, _InterruptedError):
            interrupted = True
    fitted = None if runner is None else runner.best
    if not cells or (fitted is None and interrupted):
        raise KeyboardInterrupt
    if not interrupted and not any(cell.errors for cell in cells):
        raise ToolError("no setting could be tried: every training part has a single class")
    return Search(cells, len(parts[0]), parts[1], fitted, interrupted)


class _Runner:
    """Fits all cells on one split, in threads if asked."""

    def __init__(
        self,
        setup: MachineSetup,
        cells: list[Cell],
        data: tuple[Any, np.ndarray, Any, np.ndarray],
        scaler: Any,
        line: Any,
        before: _Runner | None,
        started: float,
        limit: float | None,
    ) -> None:
        self.setup, self.cells, self.data = setup, cells, data
        self.scaler, self.line = scaler, line
        self.started, self.limit = started, limit
        self.best: Fitted | None = None if before is None else before.best
        self.best_error: float = np.inf if before is None else before.best_error

    def is_late(self) -> bool:
        if self.limit is None or self.best is None:
            return False
        return time.perf_counter() - self.started >= self.limit

    def run(self, split: int, n_splits: int) -> None:
        """All cells of a split."""
        jobs = self.setup.jobs
        total = n_splits * len(self.cells)
        if len(np.unique(self.data[1])) < 2:
            return
        if jobs == 1 or len(self.cells) == 1:
            for done, k in enumerate(self._order()):
                if self.one(self.cells[k], split * len(self.cells) + done, total):
                    raise _InterruptedError
            return
        self._run_in_threads(jobs, split, total)

    def _order(self) -> list[int]:
        """From the middle outwards, since the last settings may not be reached in time."""
        n = len(self.cells)
        return sorted(range(n), key=lambda k: abs(k - (n - 1) / 2.0 + 0.25))

    def _run_in_threads(self, jobs: int, split: int, total: int) -> None:
        from joblib import Parallel, delayed, effective_n_jobs

        from polymargin.estimators.callbacks import watched
        from polymargin.solvers.run import Clock, deferred_interrupt

        clock = Clock()
        with (
            deferred_interrupt(clock),
            watched(lambda check, snapshot: clock.interrupted),
        ):
            Parallel(n_jobs=effective_n_jobs(jobs), prefer="threads")(
                delayed(self._unless)(clock, self.cells[k], split * len(self.cells) + done, total)
                for done, k in enumerate(self._order())
            )
        if clock.interrupted:
            raise _InterruptedError

    def _unless(self, clock: Any, cell: Cell, number: int, total: int) -> None:
        if not clock.interrupted:
            self.one(cell, number, total)

    def one(self, cell: Cell, number: int, total: int) -> bool:
        """Fit and judge one cell; whether Ctrl-C came."""
        if self.is_late():
            return False
        X, y, X_test, y_test = self.data
        changes = dict(cell.settings)
        if self.limit is not None:
            left = self.limit - (time.perf_counter() - self.started)
            changes["max_time"] = max(left, SHORTEST_FIT)
        estimator = self.setup.estimator(**changes, **self._threads())
        self.line.begin_fit(estimator, number, total)
        begun = time.perf_counter()
        interrupted = fit(estimator, X, y, self.line)
        seconds = time.perf_counter() - begun
        error = self.setup.loss(predict_scaled(estimator, X_test), y_test) if len(y_test) else 0.0
        if not interrupted:
            cell.errors.append(error)
            cell.seconds.append(seconds)
            cell.model_bytes = model_bytes(estimator)
        if self.best is None or error < self.best_error:
            self.best = Fitted(estimator, self.scaler, seconds, interrupted, error, self.setup.plan)
            self.best_error = error
        return interrupted

    def _threads(self) -> dict[str, Any]:
        return {"n_jobs": 1} if self.setup.jobs != 1 and len(self.cells) > 1 else {}


def part_limit(setup: MachineSetup) -> int:
    """Rows on which settings are picked."""
    return _PART_ROWS["linear" if setup.kernel == "linear" else "other"]


def choose(
    setup: MachineSetup,
    X: Any,
    y: np.ndarray,
    codes: np.ndarray,
    groups: np.ndarray | None = None,
) -> Search | None:
    """Pick what the setup leaves open on a validation part; None if there is no such part."""
    train, test = holdout(codes, setup.seed, part_limit(setup), groups)
    if not len(test):
        return None
    limit = None if setup.max_time is None else SEARCH_SHARE * setup.max_time
    name = "eta" if setup.is_hull else "C"
    return search(setup, X, y, [(train, test)], f"picking {name}", limit)
