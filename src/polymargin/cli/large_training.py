"""``polymargin train --memory`` and ``--cluster``: rows in blocks on disk, all of them used.

Order: blocks (``open_rows``), C picked on a sample of rows, a scaler learnt from all blocks, fit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from polymargin.cli.application import INTERRUPTED, ToolError
from polymargin.cli.files import check_writable
from polymargin.cli.machine_setup import MachineSetup, take_machine_setup
from polymargin.cli.messages import emit, progress, say, say_end, size_text
from polymargin.cli.options import take_data_options
from polymargin.cli.outcome import summary_text, write
from polymargin.exceptions import shown

__all__ = ["train_large"]

_MEMORY = "1GB"  # where only --cluster is given
_REFUSED = {
    "probabilities": "--probabilities",
    "calibration_folds": "--calibration-folds",
    "cost": "--cost",
    "query": "--query",
    "part": "--part",
    "group": "--group",
}
_READING = ("header", "delimiter", "decimal", "encoding", "missing", "ignore", "max_bytes")
_PICKING_ROWS = 10_000


@dataclass
class _Found:
    """Facts of the data under the names that tables in memory have for them."""

    X: Any
    labels: list[str]
    label_name: str | None
    zero_based: bool | None
    feature_names: list[str] | None
    plan: Any
    codes: None = None  # labels stay on the disk


def train_large(
    data: str | list[str],
    output: str | None,
    folds: int | None,
    as_json: bool,
    large: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Train on all rows of DATA, write the model, report."""
    _refuse(folds, options)
    for name in ("probabilities", "calibration_folds"):
        options.pop(name)
    options["machine"] = options["machine"] or "CS"
    setup = take_machine_setup(options)
    _check_machine(setup)
    reading = take_data_options(options)
    check_writable(output)
    with _open(data, large, setup, reading) as rows:
        _train(rows, data, output, as_json, large, setup)


def _refuse(folds: int | None, options: dict[str, Any]) -> None:
    """Refuse options that need all rows at once."""
    given = ["-v/--folds"] if folds is not None else []
    given += [flag for name, flag in _REFUSED.items() if options.get(name)]
    if options.get("rows") not in (None, "auto", "all"):
        given.append("--rows")
    if given:
        raise click.UsageError(
            f"{given[0]} needs all rows in memory; leave it out, or train without --memory and "
            "--cluster."
        )


def _check_machine(setup: MachineSetup) -> None:
    if setup.is_hull or setup.is_auto:
        raise click.UsageError(
            f"-m {setup.machine} cannot be trained in blocks of rows; use -m CS, another machine "
            "with one prototype per class, or MP."
        )
    if setup.kernel != "linear":
        raise click.UsageError(
            f"--kernel {setup.kernel} cannot be trained in blocks of rows, which keep explicit "
            "prototypes; use --kernel linear."
        )
    from polymargin.problem.machines import find_machine

    machine = find_machine("cs" if setup.is_prototypes else setup.machine.lower())
    kind = str(setup._intercept()["intercept"])
    if machine.resolve_intercept(kind, True) == "free":
        raise click.UsageError(
            f"-m {setup.machine} has a free intercept here, which couples all rows; give "
            "--intercept penalized."
        )


@contextmanager
def _open(
    data: str | list[str], large: dict[str, Any], setup: MachineSetup, reading: dict[str, Any]
) -> Iterator[Any]:
    """The rows of DATA in blocks, removed at the end unless --scratch keeps them."""
    from polymargin.cli.columns import reading_kinds, say_plan
    from polymargin.cli.preprocessing import new_scaler
    from polymargin.datasets.row_store import bytes_of
    from polymargin.tables.large_tables import open_rows

    try:
        memory = bytes_of(large["memory"] or _MEMORY)
    except ValueError as error:
        raise click.UsageError(f"--memory: {error}") from None
    wanted = {name: reading[name] for name in _READING if reading.get(name) not in (None, ())}
    if reading["format_"] is not None:
        wanted["format"] = reading["format_"]
    started = time.perf_counter()
    scaler = new_scaler(setup, _DENSE)
    if scaler is not None:
        scaler.copy = True
    with progress("converting to blocks") as line:
        rows = open_rows(
            data,
            reading["label"],
            memory,
            large["scratch"],
            "float64" if reading["float32"] is False else "float32",
            kinds=reading_kinds(reading),
            scaler=scaler,
            progress=lambda done: line.set(done, None),
            **wanted,
        )
    with rows:
        if rows.plan is not None:
            say_plan(rows.plan)
            say("(the plan, medians, scales and categories come from a random sample of rows)")
        say(
            f"{rows.n_rows} rows, {rows.n_features} features in {rows.n_blocks} blocks, "
            f"{size_text(rows.nbytes)} on disk (converted in {time.perf_counter() - started:.1f} s)"
        )
        yield rows


class _Dense:
    """Stand-in for dense rows where only the kind of the scaler matters."""


_DENSE = _Dense()


def _train(
    rows: Any,
    data: str | list[str],
    output: str | None,
    as_json: bool,
    large: dict[str, Any],
    setup: MachineSetup,
) -> None:
    from polymargin.cli.classes import check_classes
    from polymargin.cli.outcome import name_features
    from polymargin.cli.single_fit import SHORTEST_FIT, Fitted
    from polymargin.cli.time_plan import Timer

    labels = [str(label) for label in rows.classes.tolist()]
    found = _Found(rows, labels, rows.label_name, rows.zero_based, rows.feature_names, rows.plan)
    check_classes(found)
    timer = Timer(setup.max_time)
    try:
        settings, choice = _pick(setup, rows)
        scaler = None if rows.is_encoded else _scaler(setup, rows)
        scaled = rows if scaler is None else rows.scaled(scaler)
        left = timer.left
        if left is not None:
            settings["max_time"] = max(left, SHORTEST_FIT)
        estimator = setup.estimator(**settings)
        with progress("training") as line:
            line.begin_fit(estimator)
            say(f"training: {setup.words()}, on all {rows.n_rows} rows")
            estimator, interrupted = _fit(estimator, scaled, line, large)
    except KeyboardInterrupt:
        say("polymargin: interrupted before there was a model: nothing was written")
        raise click.exceptions.Exit(INTERRUPTED) from None
    estimator.max_time = setup.max_time
    fitted = Fitted(estimator, rows.encoder if rows.is_encoded else scaler, timer.seconds)
    fitted.plan = rows.plan
    if rows.plan is None:
        name_features(fitted, found)
    record = {"command": "train", "data": data} | _summary(fitted, rows, scaled, choice, timer)
    record["interrupted"] = interrupted
    if output is not None:
        record |= {"model": output, "model_bytes": write(fitted.model, output, found, rows.n_rows)}
    say_end(interrupted, output)
    emit(record, as_json, lambda: summary_text(record))
    if interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _pick(setup: MachineSetup, rows: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """C where it is left open, by the error on a part of a random sample of the rows."""
    if not setup.has_choice:
        return {}, None
    from dataclasses import replace

    import numpy as np

    from polymargin.cli.commands.train import pick

    X, y = rows.sample(_PICKING_ROWS, setup.seed)
    part = replace(setup, scale="none") if rows.is_encoded else setup
    settings, choice, outcome = pick(part, X, y, np.unique(y, return_inverse=True)[1])
    if outcome is not None and outcome.interrupted:
        raise KeyboardInterrupt
    return settings, choice


def _scaler(setup: MachineSetup, rows: Any) -> Any:
    """The scaler asked for, learnt from all blocks; its kind is that of a sample."""
    from polymargin.cli.preprocessing import new_scaler
    from polymargin.problem.constant_features import settle_constants

    scaler = new_scaler(setup, rows.sample(_PICKING_ROWS, setup.seed)[0])
    if scaler is None:
        return None
    with progress("scaling"):
        for X, _ in rows.blocks():
            scaler.partial_fit(X)
    settle_constants(scaler)
    return scaler


def _fit(estimator: Any, rows: Any, line: Any, large: dict[str, Any]) -> tuple[Any, bool]:
    """The trained estimator, and whether Ctrl-C came."""
    from polymargin.estimators.callbacks import watched

    interrupted = False
    with _cluster_estimator(estimator, large) as trainer:
        try:
            with watched(line.watch):
                trainer.fit(rows)
        except KeyboardInterrupt:
            if not hasattr(trainer, "classes_"):
                raise
            interrupted = True
    return (trainer.to_local() if trainer is not estimator else trainer), interrupted


@contextmanager
def _cluster_estimator(estimator: Any, large: dict[str, Any]) -> Iterator[Any]:
    """The estimator, or its counterpart on the cluster that --cluster names."""
    address = large["cluster"]
    if address is None:
        yield estimator
        return
    from polymargin._extras import need

    need("distributed", "--cluster", "dask")
    if not address.startswith("local") and large["scratch"] is None:
        raise ToolError(
            "--cluster needs --scratch DIR, a folder that this machine and all workers see; blocks "
            "of rows are written there"
        )
    with contextlib.ExitStack() as stack:
        client = _client(address, stack)
        yield _on_cluster(estimator, client)


def _client(address: str, stack: contextlib.ExitStack) -> Any:
    from distributed import Client, LocalCluster

    kind, _, count = address.partition(":")
    if kind == "local":
        if not count.isdigit() or int(count) < 1:
            raise ToolError(f"--cluster local:N needs a number of processes, got {shown(address)}")
        cluster = LocalCluster(
            n_workers=int(count), threads_per_worker=1, processes=True, dashboard_address=None
        )
        return stack.enter_context(Client(stack.enter_context(cluster)))
    try:
        return stack.enter_context(Client(address, timeout=20))
    except (OSError, TimeoutError, ValueError) as error:
        raise ToolError(
            f"--cluster {address}: no scheduler answers there ({' '.join(str(error).split())})"
        ) from error


def _on_cluster(estimator: Any, client: Any) -> Any:
    import polymargin.dask as dask

    kind = getattr(dask, f"Dask{type(estimator).__name__}")
    return kind(**estimator.get_params(deep=False), client=client)


def _summary(
    fitted: Any, rows: Any, scaled: Any, choice: dict[str, Any] | None, timer: Any
) -> dict[str, Any]:
    from polymargin.cli.model_description import model_record

    record = model_record(fitted.model)
    with progress("training error"):
        error = 0.0 if timer.is_over else 1.0 - fitted.estimator.score(scaled)
    record |= {
        "rows": rows.n_rows,
        "trained_rows": rows.n_rows,
        "C": record["parameters"].get("C"),
        "picked": choice,
        "seconds": timer.seconds,
        "blocks": rows.n_blocks,
        "packed_bytes": rows.nbytes,
    }
    return record if timer.is_over else record | {"training_error": error}
