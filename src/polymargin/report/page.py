"""One self-contained HTML page about a fitted model: ``write_report`` and ``render_report``."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from polymargin.estimators.inspection import (
    Labelled,
    Parts,
    dissect,
    input_names,
    labelled,
    margin_target,
    prototypes_of,
)
from polymargin.exceptions import shown
from polymargin.plots.calibration_display import CalibrationDisplay
from polymargin.plots.chart import Chart
from polymargin.plots.confusion_display import ConfusionDisplay
from polymargin.plots.decision_region_display import DecisionRegionDisplay
from polymargin.plots.history_display import HistoryDisplay
from polymargin.plots.margin_display import MarginDistributionDisplay
from polymargin.plots.planes import holds_numbers
from polymargin.plots.prototype_images_display import image_shape as checked_shape
from polymargin.plots.risk_coverage_display import RiskCoverageDisplay
from polymargin.plots.size_accuracy_display import SizeAccuracyDisplay
from polymargin.plots.style import bytes_text
from polymargin.problem.validation import check_number
from polymargin.report import facts, measures, portraits, trust
from polymargin.report.playground import play_data
from polymargin.report.png import share_image
from polymargin.report.svg import map_svg
from polymargin.report.template import render
from polymargin.storage.atomic import atomic_file

__all__ = ["render_report", "write_report"]

_MOST_CELLS_ACROSS = 30
_MOST_MATRIX_PIXELS = 400
_MOST_CLASS_ROWS = 1500
_FEW_EXAMPLES = 100
_MOST_MAP_CLASSES = 7
_MAP_RESOLUTION = 160
_MOST_REJECT_POINTS = 200


def write_report(  # noqa: PLR0913 - options by keyword, of which most callers give none
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    feature_names: Any = None,
    X_train: Any = None,
    y_train: Any = None,
    seconds: float | None = None,
    image_shape: Any = "auto",
) -> Path:
    """Write one HTML page about a fitted model: what it is, what is proven, where it errs.

    The page needs nothing else: no network, pictures inside, readable on a phone and in the dark.
    With a browser's script engine it can be played with: open the examples behind a figure, reject
    doubtful ones, run the model on changed inputs.  It is written whole or not at all.

    Parameters
    ----------
    model : fitted classifier, Pipeline that ends in one, or search
    X : array-like, data frame or CSR matrix of shape (n_samples, n_features)
        Examples to measure on, best none of the training examples.
    y : array-like of shape (n_samples,)
        Their labels.  Labels that the model has never seen count as errors and are named.
    path : str or path
        The file to write; an existing one is replaced.
    title : str or None
    feature_names : sequence of str or None
        Names of the columns of X; None: those of the data frame, if it is one.
    X_train, y_train : training examples and labels, or None
        For the size of the training data and the training error.
    seconds : float or None
        Training time as measured by the caller; None: the solver's clock.
    image_shape : "auto", (rows, columns) or None, default="auto"
        Whether rows of X are images.  "auto" looks whether they are square and neighbouring
        features are alike; None: they are not.

    Returns
    -------
    Path

    See Also
    --------
    render_report : The page as a string.
    explain : Single rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "report.html")
    >>> write_report(MulticlassSVC().fit(X, y), X, y, path).name
    'report.html'
    """
    target = _checked_path(path)
    page = render_report(
        model,
        X,
        y,
        title=title,
        feature_names=feature_names,
        X_train=X_train,
        y_train=y_train,
        seconds=seconds,
        image_shape=image_shape,
    )
    _write_whole(target, page)
    return target


def render_report(  # noqa: PLR0913 - as above
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    feature_names: Any = None,
    X_train: Any = None,
    y_train: Any = None,
    seconds: float | None = None,
    image_shape: Any = "auto",
) -> str:
    """The page of ``write_report`` as a string.

    Parameters
    ----------
    model, X, y, title, feature_names, X_train, y_train, seconds, image_shape
        As in ``write_report``.

    Returns
    -------
    str

    See Also
    --------
    write_report : Writes it to a file.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from polymargin import MulticlassSVC, render_report
    >>> X, y = load_iris(return_X_y=True)
    >>> render_report(MulticlassSVC().fit(X, y), X, y).startswith("<!DOCTYPE html>")
    True
    """
    parts = dissect(model)
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title must be a string or None, got {shown(title)}.")
    if seconds is not None:
        check_number("seconds", seconds, at_least=0.0)
    examples = labelled(model, X, y)
    training = _training(model, X_train, y_train)
    names = input_names(model, examples.X, feature_names)
    shape = _image_shape(image_shape, examples.X, names)
    found = measures.rates(examples)
    proof = facts.certificate_in_words(parts.last)
    confusion = ConfusionDisplay.record_predictions(
        examples.y, examples.predicted, parts.last.classes_
    )
    per_class = measures.class_rows(parts, confusion)
    seen = portraits.contest(parts, examples)
    reject = _reject(examples)
    winner = None if seen is None else seen.winner
    play = play_data(model, parts, examples, names, shape, confusion, winner)
    return render(
        {"play": play, "reject": None if reject is None else _points(reject)},
        reject=None if reject is None else reject.chart(),
        pad=play["shape"] is not None,
        behind_steps=play["space"] == "model" and not (play["features"] or {}).get("table"),
        why_not_played=play["reason"],
        title=title or f"{facts.machine_name(parts.last)}, {len(parts.last.classes_)} classes",
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        rates=found,
        training=training,
        proof=proof,
        warnings=proof.warnings + _warnings(examples, per_class, X_train),
        rows=facts.describe(parts, examples.X, X_train, seconds),
        parameters=facts.parameter_rows(parts.last),
        size=bytes_text(measures.model_size(parts)),
        has_steps=bool(parts.steps),
        speed=measures.speed(model, examples.X),
        confusion=_confusion(confusion),
        per_class=_shortened(per_class),
        n_classes=len(per_class),
        part_name=_part_name(parts.last),
        history=_history(model, parts),
        margins=_margins(model, examples),
        grounds=trust.grounds(parts, examples, training, X_train, y_train),
        chances=_chances(model, examples),
        curve=_size_curve(parts),
        regions=_regions(model, parts, examples, names),
        **_prototypes(model, parts, seen, names, shape),
        hard=_hard(parts, examples, shape),
        has_images=shape is not None,
        has_reasons=shape is None and _has_reasons(parts.last),
        has_index=hasattr(examples.X, "index"),
    )


# -- parts of the page -------------------------------------------------------------------------


def _training(model: Any, X_train: Any, y_train: Any) -> measures.Rates | None:
    if y_train is not None and X_train is None:
        raise ValueError("X_train is missing: y_train was given without it.")
    if X_train is None:
        return None
    if not hasattr(X_train, "shape"):
        raise ValueError("X_train must be an array, a data frame or a sparse matrix.")
    if y_train is None:
        return None
    return measures.rates(labelled(model, X_train, y_train, "X_train", "y_train"))


def _image_shape(given: Any, X: Any, names: list[str]) -> tuple[int, int] | None:
    if given is None:
        return None
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(
                f"image_shape must be 'auto', (rows, columns) or None, got {shown(given)}."
            )
        return portraits.guess_shape(X, names)
    try:
        return checked_shape(X.shape[1], given)
    except ValueError as error:
        raise ValueError(f"image_{error}") from error


def _warnings(examples: Labelled, per_class: list[measures.ClassRow], X_train: Any) -> list[str]:
    """What readers should know before they believe the figures."""
    out = []
    strange = int((examples.own < 0).sum())
    if strange:
        names = sorted({facts.short(str(label), 24) for label in examples.y[examples.own < 0]})
        out.append(
            f"{strange:,} examples carry labels that the model has never seen ({_listed(names)}); "
            "every prediction for them is wrong."
        )
    absent = [row for row in per_class if not row.support]
    if absent:
        names = [facts.short(str(row.label), 24) for row in absent]
        out.append(f"No example of {len(absent)} of the classes was measured ({_listed(names)}).")
    silent = [row for row in per_class if row.support and row.recall == 0.0]
    if silent:
        names = [facts.short(str(row.label), 24) for row in silent]
        out.append(f"No example of these classes is recognised: {_listed(names)}.")
    if len(examples.y) < _FEW_EXAMPLES:
        out.append(
            f"Only {len(examples.y)} examples were measured: the confidence interval is wide."
        )
    if X_train is not None and X_train is examples.X:
        out.append("The examples are the training examples: the error of new ones is higher.")
    return out


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def _confusion(record: ConfusionDisplay) -> dict[str, Any]:
    Q = len(record.labels)
    shares = np.nan_to_num(record.row_shares)
    place = {label: k for k, label in enumerate(record.labels.tolist())}
    worst = record.worst(12 if Q <= _MOST_CELLS_ACROSS else 25)
    out: dict[str, Any] = {
        "labels": record.labels,
        "worst": [(a, b, *rest, place[a], place[b]) for a, b, *rest in worst],
        "rows": None,
        "image": None,
        "block": 1,
    }
    if Q <= _MOST_CELLS_ACROSS:
        out["rows"] = [
            (
                record.labels[i],
                [
                    (int(record.counts[i, j]), round(20 * np.sqrt(shares[i, j])), i == j, i, j)
                    for j in range(Q)
                ],
            )
            for i in range(Q)
        ]
        return out
    pooled, out["block"] = record.pooled(_MOST_MATRIX_PIXELS)
    out["image"] = share_image(np.sqrt(pooled))
    return out


def _shortened(per_class: list[measures.ClassRow]) -> list[measures.ClassRow]:
    """All classes, or of very many those that are recognised worst."""
    if len(per_class) <= _MOST_CLASS_ROWS:
        return per_class
    return sorted(per_class, key=lambda row: np.nan_to_num(row.f1, nan=2.0))[:_MOST_CLASS_ROWS]


def _part_name(last: Any) -> str:
    if hasattr(last, "prototype_classes_"):
        return "Prototypes alive"
    return "Support vectors" if hasattr(last, "dual_coef_") else ""


def _history(model: Any, parts: Parts) -> list[Chart]:
    if not len(getattr(parts.last, "history_", {}).get("iteration", ())):
        return []
    record = HistoryDisplay.record(model)
    return [record.chart(name) for name in record.quantities]


def _margins(model: Any, examples: Labelled) -> Chart | None:
    if examples.margins is None or not np.isfinite(examples.margins).any():
        return None
    return MarginDistributionDisplay(examples.margins, margin_target(model)).chart(48)


def _size_curve(parts: Parts) -> Chart | None:
    if not hasattr(parts.last, "results_") or not hasattr(parts.last, "n_prototypes_"):
        return None
    return SizeAccuracyDisplay.record(parts.last).chart()


def _regions(
    model: Any, parts: Parts, examples: Labelled, names: list[str]
) -> tuple[str, str] | None:
    """A map and its caption, where nothing must be held fixed to draw one."""
    kernel = getattr(getattr(parts.last, "_kernel", None), "name", "")
    few = len(parts.last.classes_) <= _MOST_MAP_CLASSES
    if examples.X.shape[1] != 2 or not few or kernel == "precomputed":
        return None
    if not holds_numbers(examples.X) or facts.takes_words(parts):
        return None
    record = DecisionRegionDisplay.record(
        model, examples.X, examples.y, resolution=_MAP_RESOLUTION, feature_names=names
    )
    first, second = (facts.short(name, 40) for name in record.plane.names)
    caption = f"Across: {first}; up: {second}. Tints are predictions, dots measured examples."
    return map_svg(record), caption


def _prototypes(
    model: Any,
    parts: Parts,
    seen: portraits.Contest | None,
    names: list[str],
    shape: tuple[int, int] | None,
) -> dict[str, Any]:
    groups: list[portraits.Group] | None = None
    rows: list[portraits.Strong] = []
    left_out = 0
    if seen is not None and shape is not None:
        groups = portraits.image_groups(model, seen, shape)
    if seen is not None and groups is None:
        rows, left_out = portraits.strong(parts, seen, names)
    ink = seen is not None and seen.prototypes.are_points
    return {"groups": groups, "strong": rows, "strong_left_out": left_out, "ink": ink}


def _reject(examples: Labelled) -> RiskCoverageDisplay | None:
    if examples.scores is None or not np.isfinite(examples.scores).all():
        return None
    found = RiskCoverageDisplay.of(examples.scores, examples.predicted == examples.y)
    return found.thinned(_MOST_REJECT_POINTS)


def _chances(model: Any, examples: Labelled) -> CalibrationDisplay | None:
    """The calibration of probabilities, where the model was trained to give them."""
    if not hasattr(model, "predict_proba") or not (examples.own >= 0).any():
        return None
    try:
        probabilities = np.asarray(model.predict_proba(examples.X))
    except (AttributeError, ValueError, NotFittedError):
        return None  # trained without them
    return CalibrationDisplay.of(probabilities, examples.own)


def _points(reject: RiskCoverageDisplay) -> dict[str, Any]:
    columns = {name: getattr(reject, name) for name in ("threshold", "coverage", "risk")}
    return {"n": reject.n, **{name: [float(f"{v:.6g}") for v in c] for name, c in columns.items()}}


def _has_reasons(last: Any) -> bool:
    kernel = getattr(getattr(last, "_kernel", None), "name", "linear")
    return kernel == "rbf" or prototypes_of(last) is not None


def _hard(
    parts: Parts, examples: Labelled, shape: tuple[int, int] | None
) -> list[tuple[measures.Hard, str]]:
    rows = measures.hardest(parts, examples)
    pictures = [""] * len(rows)
    if shape is not None and rows:
        pictures = portraits.example_images(examples.X, [row.row for row in rows], shape)
    return list(zip(rows, pictures, strict=True))


# -- files -------------------------------------------------------------------------------------


def _checked_path(path: Any) -> Path:
    """Refuse what cannot be written before the work begins."""
    try:
        target = Path(path)
    except TypeError as error:
        raise TypeError(f"path must be the name of a file, got {shown(path)}.") from error
    if target.is_dir():
        raise IsADirectoryError(f"path: {target} is a folder; give the name of a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: the folder {target.parent} does not exist; make it first.")
    return target


def _write_whole(target: Path, text: str) -> None:
    try:
        with atomic_file(target) as file:
            file.write(text.encode("utf-8"))
    except OSError as error:  # the temporary name means nothing to the user
        raise type(error)(error.errno, f"path: cannot write {target} ({error.strerror})") from error
