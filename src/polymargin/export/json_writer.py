"""JSON: the record as a document that any language reads; ``schema.json`` describes it."""

from __future__ import annotations

import json
import os
from typing import Any

from polymargin.estimators.scalers import Scaling
from polymargin.export.model_record import ExportModel
from polymargin.export.suffixes import write_whole

__all__ = ["FORMAT", "VERSION", "document", "to_json"]

FORMAT = "polymargin-model"
VERSION = 1


def to_json(
    model: Any, path: str | os.PathLike[str] | None = None, indent: int | None = None
) -> str:
    """The model as JSON text, every number with all its digits.

    Parameters
    ----------
    model : estimator, Pipeline of scalers and estimator, search, or ExportModel
    path : str or path-like, optional
        Where to write the file (UTF-8).
    indent : int, optional
        As in ``json.dumps``; one line by default.

    Returns
    -------
    str

    Examples
    --------
    >>> import json
    >>> from polymargin import MulticlassSVC, to_json
    >>> json.loads(to_json(MulticlassSVC().fit([[0.0], [1.0], [2.0]], [0, 1, 2])))["kind"]
    'linear'
    """
    record = ExportModel.from_estimator(model)
    text = json.dumps(document(record), indent=indent, allow_nan=False, ensure_ascii=False) + "\n"
    if path is not None:
        write_whole(path, text.encode("utf-8"))
    return text


def document(record: ExportModel) -> dict[str, Any]:
    """The record as plain dictionaries, lists and numbers."""
    tau = record.coefficients
    kernel: dict[str, Any] = {"name": record.kernel}
    if not record.is_linear:
        kernel["gamma"] = record.gamma
    if record.kernel in ("poly", "sigmoid"):
        kernel["coef0"] = record.coef0
    if record.kernel == "poly":
        kernel["degree"] = record.degree
    found = {
        "format": FORMAT,
        "version": VERSION,
        "kind": record.kind,
        "estimator": record.estimator,
        "n_features": record.n_features,
        "feature_names": None if record.feature_names is None else list(record.feature_names),
        "label_type": record.label_type,
        "labels": list(record.labels),
        "scaler": _scaler(record.scaling),
        "kernel": kernel,
        "vectors": record.vectors.tolist(),
        "coefficients": None if tau is None else tau.tolist(),
        "intercepts": record.intercepts.tolist(),
        "prototype_class": record.prototype_class.tolist(),
        "center": None if record.center is None else record.center.tolist(),
        "metadata": record.metadata,
    }
    if record.temperature is not None:
        found["temperature"] = record.temperature
    if record.normalizer is not None:
        scaler = _scaler(record.normalizer.scaling)
        found["normalizer"] = {"norm": record.normalizer.norm, "scaler": scaler}
    return found


def _scaler(scaling: Scaling | None) -> dict[str, Any] | None:
    if scaling is None:
        return None
    return {
        "shift": scaling.shift.tolist(),
        "scale": scaling.scale.tolist(),
        "low": None if scaling.low is None else scaling.low.tolist(),
        "high": None if scaling.high is None else scaling.high.tolist(),
    }
