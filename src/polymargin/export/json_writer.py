"""JSON: the record as a document that any language reads; ``schema.json`` describes it."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

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

    See Also
    --------
    export_model : Writes any format to a file.
    to_c : C99.
    to_onnx : ONNX.

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


def _kernel_document(record: ExportModel) -> dict[str, Any]:
    if record.terms:
        terms = [
            {"weight": beta, **_parameters(part.name, part.gamma, part.degree, part.coef0)}
            for beta, part in record.terms
        ]
        return {"name": record.kernel, "terms": terms}
    gamma = None if record.is_linear else record.gamma
    return _parameters(record.kernel, gamma, record.degree, record.coef0)


def _parameters(name: str, gamma: Any, degree: float, coef0: float) -> dict[str, Any]:
    """A kernel of the table with the parameters that it has."""
    found: dict[str, Any] = {"name": name}
    if name != "linear" and gamma is not None:
        found["gamma"] = gamma.tolist() if isinstance(gamma, np.ndarray) else float(gamma)
    if name in ("poly", "sigmoid"):
        found["coef0"] = float(coef0)
    if name == "poly":
        found["degree"] = float(degree)
    return found


def document(record: ExportModel) -> dict[str, Any]:
    """The record as plain dictionaries, lists and numbers."""
    tau = record.coefficients
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
        "kernel": _kernel_document(record),
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
