"""``train -m MACHINE --max-time``: code is compiled before the time of training runs.

Without it the first fit of an installation would spend its limit on the compiler and keep a machine
that was hardly trained.  Compiling counts, but a part of the limit always remains for training.
"""

from __future__ import annotations

import warnings
from typing import Any

from polymargin.cli.machine_setup import MachineSetup
from polymargin.cli.messages import say
from polymargin.cli.preprocessing import fit_scaler, new_scaler, scale_in_place
from polymargin.cli.time_plan import Timer

__all__ = ["compile_machine"]

_ROWS = 60


def compile_machine(setup: MachineSetup, found: Any, timer: Timer) -> None:
    """Train the machine on a few rows; the timer does not count compiling beyond its part."""
    if timer.limit is None:
        return
    from polymargin.estimators.auto_warmup import compile_watch

    began = timer.seconds
    with compile_watch() as watch:
        _train_few(setup, found)
    if not watch.has_compiled:
        return
    seconds = timer.seconds - began
    late = timer.keep_training(seconds)
    ends = f", and this training ends {late:.1f} s late because of it" if late else ""
    say(
        f"code was compiled for the first time, which took {seconds:.1f} s{ends}; it is kept for "
        "the next time"
    )


def _train_few(setup: MachineSetup, found: Any) -> None:
    import numpy as np

    from polymargin.estimators.auto_splits import stratified_sample
    from polymargin.estimators.auto_warmup import few_features

    rows = stratified_sample(found.codes, _ROWS, np.random.default_rng(0))
    X, y = found.X[rows], found.y[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scaler = new_scaler(setup, X)
            if scaler is not None:
                fit_scaler(scaler, X)
                X = scale_in_place(scaler, X)
            X = few_features(X, "prototypes" if setup.is_prototypes else "")
            setup.estimator(max_time=None, tol=1e-1).fit(X, y).predict(X)
        except (ValueError, ArithmeticError):
            pass  # the training itself reports the error
