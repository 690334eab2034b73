"""The model file and the summary at the end of a training."""

from __future__ import annotations

import time
from typing import Any

from polymargin.cli.files import writing
from polymargin.cli.messages import progress, say, size_text, table

__all__ = ["name_features", "summary", "summary_text", "warn_of_unpredicted", "write"]

_PROBED = 200  # rows whose prediction is timed to predict the time of all


def name_features(fitted: Any, found: Any) -> None:
    """Names of columns become those of the model's features."""
    if found.feature_names is None or fitted.plan is not None:
        return
    import numpy as np

    first = fitted.estimator if fitted.scaler is None else fitted.scaler
    first.feature_names_in_ = np.array(found.feature_names, dtype=object)


def write(model: Any, output: str, found: Any, trained_rows: int | None = None) -> int:
    """Write the model file; returns its size."""
    from polymargin.storage.model_file import write_model

    extra = {"label_name": found.label_name, "zero_based": found.zero_based}
    if trained_rows is not None:
        extra["trained_rows"] = trained_rows
    with progress(f"writing {output}"), writing(output):
        return write_model(model, output, extra)


def summary(
    fitted: Any,
    found: Any,
    choice: dict[str, Any] | None,
    seconds: float,
    X: Any,
    y: Any,
    left: float | None = None,
) -> dict[str, Any]:
    """Record of a training; with the training error only if ``left`` seconds allow it."""
    from polymargin.cli.model_description import model_record
    from polymargin.cli.single_fit import predict_scaled

    record = model_record(fitted.model)
    record |= {
        "rows": found.X.shape[0],
        "C": getattr(fitted.estimator, "choice_", {}).get("C", record["parameters"].get("C")),
        "picked": choice,
        "seconds": seconds,
    }
    if X is not None and _is_quick(fitted.estimator, X, left):  # scaled by now
        with progress("training error"):
            labels = predict_scaled(fitted.estimator, X)
            record["training_error"] = float((labels != y).mean())
            warn_of_unpredicted(labels, fitted.estimator.classes_, "training rows")
    return record


def _is_quick(estimator: Any, X: Any, left: float | None) -> bool:
    """Whether all rows can be predicted in the time that is left, by that of the first ones."""
    if left is None:
        return True
    if left <= 0.0:
        return False
    began = time.perf_counter()
    estimator.predict(X[:_PROBED])
    return (time.perf_counter() - began) * X.shape[0] / _PROBED <= left


def warn_of_unpredicted(labels: Any, classes: Any, where: str) -> None:
    """Say which classes the model never predicts."""
    seen = set(labels.tolist())
    never = [str(label) for label in classes.tolist() if label not in seen]
    if never:
        shown = ", ".join(never[:8]) + (", ..." if len(never) > 8 else "")
        say(
            f"warning: never predicted for the {where}: {shown} (try --class-weight balanced, or "
            "--objective balanced_accuracy)"
        )


def summary_text(record: dict[str, Any]) -> str:
    """The summary as text."""
    from polymargin.cli.model_description import (
        CERTIFICATE_MEANING,
        certificate_words,
        eta_words,
        title_of,
    )

    rows = [["model", title_of(record)]]
    if record.get("C") is not None:
        rows.append(["C", f"{record['C']:.4g}"])
    elif "eta" in record:
        rows.append(["eta", eta_words(record)])
    rows += _loss_rows(record)
    if "trained_rows" in record:
        rows.append(["trained on", f"{record['trained_rows']} of {record['rows']} rows"])
    rows.append(["certificate", certificate_words(record)])
    rows.append(["", CERTIFICATE_MEANING])
    if "prediction_bytes" in record:
        rows.append(["for prediction", size_text(record["prediction_bytes"])])
    if "header" in record:
        rows.append(["header", f"{record['header']}: {record['header_notes'][0]}"])
    rows.append(["time", f"{record['seconds']:.1f} s"])
    if "model" in record:
        rows.append(["file", f"{record['model']}, {size_text(record['model_bytes'])}"])
    return table(rows)


def _loss_rows(record: dict[str, Any]) -> list[list[str]]:
    """Errors and costs on validation parts and training rows."""
    from polymargin.cli.cross_validation import loss_text

    rows = []
    picked = record.get("picked") or {}
    if "validation_cost" in picked:
        rows.append(["validation cost", f"{picked['validation_cost']:.4g}"])
    elif picked:
        rows.append(["validation error", f"{100 * picked['validation_error']:.2f} %"])
    if record.get("validation_error") is not None:
        spread = record["validation_standard_error"]
        rows.append(
            ["validation error", f"{100 * record['validation_error']:.2f} % ± {100 * spread:.2f}"]
        )
    if "training_error" in record:
        rows.append(["training error", f"{100 * record['training_error']:.2f} %"])
    if "training_cost" in record:
        rows.append(["training cost", f"{record['training_cost']:.4g} on average"])
    if "cross_validation" in record:
        rows.append(["cross-validation", loss_text(record["cross_validation"])])
    return rows
