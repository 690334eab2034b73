"""ONNX files: scaler, scores and label in one graph of standard operators."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from polymargin import __version__
from polymargin._extras import need
from polymargin.exceptions import shown
from polymargin.export.model_record import ExportModel
from polymargin.export.onnx_graph import GraphBuilder, add_model, label_array
from polymargin.export.suffixes import write_whole
from polymargin.export.table_encoding import add_encoding

__all__ = ["DEFAULT_OPSET", "to_onnx"]

DEFAULT_OPSET = 17
_OLDEST_OPSET = 13
_IR_VERSION = 8  # what runtimes of opset 17 read
_ML_OPSET = 3  # LabelEncoder from text to whole numbers
_DTYPES = ("float32", "float64")


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    dtype: str = "float32",
    arithmetic: str = "float64",
    opset: int = DEFAULT_OPSET,
) -> Any:
    """An ONNX model with input ``X``, outputs ``label`` and ``scores``, perhaps ``probabilities``.

    A model of a raw table has one input of shape (n, 1) per column instead: numbers (nan: missing)
    and dates (days since 1970) in ``dtype``, categories as text ("": missing).

    ``scores`` is (n, n_classes): ``decision_function``, for two classes the columns 0 and
    ``decision_function``.  ``label`` is int64 for whole numbers (floats and booleans too), text
    otherwise.  ``probabilities`` (n, n_classes) is there if the model was trained with
    ``probabilities="temperature"``.

    Parameters
    ----------
    model : estimator, Pipeline of scalers and estimator, search, or ExportModel
    path : str or path-like, optional
        Where to write the file.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input and of the scores.
    arithmetic : {"float32", "float64"}, default="float64"
        Of the computation inside.  "float32" is half the size and faster, and needed by runtimes
        that know no double numbers; its scores carry the rounding of float32.
    opset : int, default=17
        Version of the standard operators, 13 or later.

    Returns
    -------
    onnx.ModelProto

    See Also
    --------
    export_model : Writes any format to a file.
    export.register_skl2onnx : Pipelines with other steps.
    to_c : C99.
    to_json : JSON.

    Examples
    --------
    >>> from polymargin import MulticlassSVC, to_onnx
    >>> graph = to_onnx(MulticlassSVC().fit([[0.0], [1.0], [2.0]], [0, 1, 2])).graph
    >>> [output.name for output in graph.output]
    ['label', 'scores']
    """
    onnx = need("onnx", "ONNX export", "onnx")
    for name, value in (("dtype", dtype), ("arithmetic", arithmetic)):
        if value not in _DTYPES:
            raise ValueError(f"{name} must be one of {_DTYPES}, got {shown(value)}.")
    newest = onnx.defs.onnx_opset_version()
    if (
        isinstance(opset, bool)
        or not isinstance(opset, int)
        or not (_OLDEST_OPSET <= opset <= newest)
    ):
        raise ValueError(
            f"opset must be an integer from {_OLDEST_OPSET} to {newest}, got {shown(opset)}."
        )
    record = ExportModel.from_estimator(model)
    graph = GraphBuilder(opset, arithmetic)
    features = "X"
    if record.encoding is not None:
        record.encoding.check_words("ONNX")
        columns = {name: name for name, _, _ in record.encoding.columns}
        features = add_encoding(graph, record.encoding, columns)
    last = None if record.temperature is None else "probabilities"
    add_model(graph, record, features, dtype, "label", "scores", last)
    proto = _assemble(onnx, graph, record, dtype)
    if proto.ByteSize() >= 2**31:
        raise ValueError(
            f"model: {proto.ByteSize() / 1e9:.1f} GB are more than an ONNX file holds (2 GB); "
            "train a smaller model."
        )
    onnx.checker.check_model(proto)
    if path is not None:
        write_whole(path, proto.SerializeToString())
    return proto


def _assemble(onnx: Any, graph: GraphBuilder, record: ExportModel, dtype: str) -> Any:
    helper, kinds = onnx.helper, onnx.TensorProto
    number = kinds.FLOAT if dtype == "float32" else kinds.DOUBLE
    text = label_array(record).dtype == np.dtype(object)
    inputs = [helper.make_tensor_value_info("X", number, ["N", record.n_features])]
    domains = [helper.make_opsetid("", graph.opset)]
    if record.encoding is not None:
        inputs = [
            helper.make_tensor_value_info(
                name, number if kind in ("number", "date") else kinds.STRING, ["N", 1]
            )
            for name, kind, _ in record.encoding.columns
        ]
        domains.append(helper.make_opsetid("ai.onnx.ml", _ML_OPSET))
    outputs = [
        helper.make_tensor_value_info("label", kinds.STRING if text else kinds.INT64, ["N"]),
        helper.make_tensor_value_info("scores", number, ["N", record.n_classes]),
    ]
    if record.temperature is not None:
        shape = ["N", record.n_classes]
        outputs.append(helper.make_tensor_value_info("probabilities", number, shape))
    body = helper.make_graph(graph.nodes, "polymargin", inputs, outputs, graph.constants)
    proto = helper.make_model(
        body,
        opset_imports=domains,
        producer_name="polymargin",
        producer_version=__version__,
    )
    # old enough for runtimes of this opset, new enough for the opset itself
    proto.ir_version = max(_IR_VERSION, helper.find_min_ir_version_for(proto.opset_import))
    proto.doc_string = (
        f"{record.estimator}: {record.n_features} features, {record.n_classes} classes; "
        "scores[:, k] is the score of class k (of two classes the first scores 0)."
    )
    helper.set_model_props(proto, _properties(record))
    return proto


def _properties(record: ExportModel) -> dict[str, str]:
    found = {
        "estimator": record.estimator,
        "kind": record.kind,
        "kernel": record.kernel,
        "labels": json.dumps(list(record.labels)),
        "label_type": record.label_type,
    }
    if record.feature_names is not None:
        found["feature_names"] = json.dumps(list(record.feature_names))
    for name, value in record.metadata.items():
        found[name] = value if isinstance(value, str) else json.dumps(value)
    return found
