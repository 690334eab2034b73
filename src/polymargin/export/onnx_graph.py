"""The ONNX graph of a record: nodes that turn features into scores and a label.

The same graph serves files of our own and Pipelines of skl2onnx; only where nodes and constants are
put differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin._extras import need
from polymargin.estimators.scalers import Normalization, Scaling
from polymargin.export.labels import fits_int64
from polymargin.export.model_record import ExportModel
from polymargin.export.numbers import centred_weights, folded_weights, is_well_conditioned

__all__ = ["GraphBuilder", "add_model", "label_array"]

_TYPES = {"float32": np.float32, "float64": np.float64}
_AXES_ARE_INPUT = 18  # from this opset on ReduceMax takes its axes as an input


class GraphBuilder:
    """Collects nodes and constants; the arithmetic is float32 or float64."""

    def __init__(self, opset: int, arithmetic: str) -> None:
        self.onnx = need("onnx", "ONNX export", "onnx")
        self.opset = opset
        self.arithmetic = arithmetic
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def unique(self, hint: str) -> str:
        return f"{hint}_{len(self.nodes) + len(self.constants)}"

    def emit(self, op: str, inputs: list[str], output: str, attributes: dict[str, Any]) -> None:
        """Add a node."""
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [output], **attributes))

    def store(self, name: str, tensor: Any) -> None:
        """Add a constant; the converter for skl2onnx overrides this, and needs its name."""
        self.constants.append(tensor)

    def node(self, op: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or self.unique(op.lower())
        self.emit(op, list(inputs), output, attributes)
        return output

    def cast(self, value: str, dtype: str, output: str | None = None) -> str:
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(_TYPES[dtype]))
        return self.node("Cast", value, output=output, to=kind)

    def constant(self, hint: str, values: np.ndarray) -> str:
        """A constant as it is."""
        name = self.unique(hint)
        if values.dtype == object:
            texts = [str(value).encode("utf-8") for value in values]
            kind = self.onnx.TensorProto.STRING
            tensor = self.onnx.helper.make_tensor(name, kind, [len(texts)], texts)
        else:
            tensor = self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name)
        self.store(name, tensor)
        return name

    def numbers(self, hint: str, values: Any) -> str:
        """A constant in the arithmetic; stored as float32 where nothing is lost."""
        values = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        if self.arithmetic == "float32":
            if not np.isfinite(single).all():
                raise ValueError(
                    f"arithmetic='float32': {hint} of this model exceed the range of float32; "
                    "use arithmetic='float64'."
                )
            return self.constant(hint, single)
        if values.size > 16 and np.array_equal(single.astype(np.float64), values):
            return self.cast(self.constant(hint, single), "float64")
        return self.constant(hint, values)

    def largest(self, value: str, axis: int, keep: bool = False) -> str:
        """Maximum over an axis."""
        if self.opset >= _AXES_ARE_INPUT:
            axes = self.constant("axes", np.array([axis], dtype=np.int64))
            return self.node("ReduceMax", value, axes, keepdims=int(keep))
        return self.node("ReduceMax", value, axes=[axis], keepdims=int(keep))


def label_array(record: ExportModel) -> np.ndarray:
    """Labels as int64, or as text where they are no whole numbers of 64 bits."""
    if record.label_type != "str" and fits_int64(record.labels):
        return np.array([int(label) for label in record.labels], dtype=np.int64)
    return np.array([str(label) for label in record.labels], dtype=object)


def add_model(
    graph: GraphBuilder,
    record: ExportModel,
    features: str,
    score_type: str,
    label_output: str,
    score_output: str,
    probability_output: str | None = None,
) -> None:
    """Nodes from the input ``features`` (any numeric type) to label, scores and probabilities."""
    record.refuse_sum("ONNX")
    X = graph.cast(features, graph.arithmetic)
    if record.normalizer is not None:
        X = _unit_rows(graph, record.normalizer, X)
    f = _linear(graph, record, X) if record.is_linear else _kernel(graph, record, X)
    S = _class_scores(graph, record, f)
    best = graph.node("ArgMax", S, axis=1, keepdims=0)
    labels = graph.constant("labels", label_array(record))
    graph.node("Gather", labels, best, output=label_output, axis=0)
    graph.cast(S, score_type, output=score_output)
    if probability_output is not None:
        assert record.temperature is not None
        logits = graph.node("Mul", S, graph.numbers("sharpness", [1.0 / record.temperature]))
        P = graph.node("Softmax", logits, axis=1)
        graph.cast(P, score_type, output=probability_output)


def _linear(graph: GraphBuilder, record: ExportModel, X: str) -> str:
    """Prototype scores: one product, the scaler folded into the weights."""
    if record.scaling is not None and record.scaling.low is not None:
        X, W, b = _scaled(graph, record.scaling, X), record.vectors, record.intercepts
    elif graph.arithmetic == "float64" or is_well_conditioned(record):
        W, b = folded_weights(record)
    else:
        shift, W, b = centred_weights(record)
        X = graph.node("Sub", X, graph.numbers("shift", shift))
    if record.is_difference:  # the first class scores 0
        W, b = np.vstack([np.zeros_like(W), W]), np.concatenate([[0.0], b])
    f = graph.node("MatMul", X, graph.numbers("prototypes", W.T))
    return graph.node("Add", f, graph.numbers("intercepts", b))


def _unit_rows(graph: GraphBuilder, normalizer: Normalization, X: str) -> str:
    """Rows divided by their norm; a row of zeros is divided by one."""
    Z = _scaled(graph, normalizer.scaling, X)
    axes = graph.constant("axes", np.array([1], dtype=np.int64))
    if normalizer.norm == "max":
        length = graph.largest(graph.node("Abs", Z), 1, keep=True)
    elif normalizer.norm == "l1":
        length = graph.node("ReduceSum", graph.node("Abs", Z), axes, keepdims=1)
    else:
        square = graph.node("ReduceSum", graph.node("Mul", Z, Z), axes, keepdims=1)
        length = graph.node("Sqrt", square)
    is_zero = graph.node("Equal", length, graph.numbers("zero", [0.0]))
    return graph.node("Div", Z, graph.node("Where", is_zero, graph.numbers("one", [1.0]), length))


def _scaled(graph: GraphBuilder, scaling: Scaling | None, X: str) -> str:
    if scaling is None:
        return X
    Z = graph.node("Sub", X, graph.numbers("shift", scaling.shift))
    Z = graph.node("Mul", Z, graph.numbers("scale", scaling.scale))
    if scaling.low is not None:
        Z = graph.node("Max", Z, graph.numbers("low", scaling.low))
        Z = graph.node("Min", Z, graph.numbers("high", scaling.high))
    return Z


def _kernel(graph: GraphBuilder, record: ExportModel, X: str) -> str:
    """Prototype scores over the support vectors."""
    assert record.coefficients is not None
    V = record.vectors
    if record.kernel == "rbf":
        K = _rbf(graph, record, X)
    else:
        Z = _scaled(graph, record.scaling, X)
        G = graph.node("MatMul", Z, graph.numbers("vectors", record.gamma * V.T))
        G = graph.node("Add", G, graph.numbers("coef0", [record.coef0]))
        if record.kernel == "poly":
            K = graph.node("Pow", G, graph.numbers("degree", [record.degree]))
        else:
            K = graph.node("Tanh", G)
    tau, b = record.coefficients, record.intercepts
    if record.is_difference:
        tau, b = np.hstack([np.zeros_like(tau), tau]), np.concatenate([[0.0], b])
    f = graph.node("MatMul", K, graph.numbers("coefficients", tau))
    return graph.node("Add", f, graph.numbers("intercepts", b))


def _rbf(graph: GraphBuilder, record: ExportModel, X: str) -> str:
    """exp(-gamma |z - v|^2), features measured from the mean of the support vectors.

    Distances do not change by that, but the squares that cancel in them become small.
    """
    factor = float(np.sqrt(record.gamma))
    centre = record.vectors.mean(axis=0) if len(record.vectors) else np.zeros(record.n_features)
    V = (record.vectors - centre) * factor
    scaling = record.scaling
    if scaling is not None and scaling.low is None:
        Z = graph.node("Sub", X, graph.numbers("shift", scaling.shift + centre / scaling.scale))
        Z = graph.node("Mul", Z, graph.numbers("scale", scaling.scale * factor))
    else:
        Z = _scaled(graph, record.scaling, X)
        Z = graph.node("Sub", Z, graph.numbers("shift", centre))
        # one factor per feature: onnxruntime fuses a single one into a product as float32
        Z = graph.node("Mul", Z, graph.numbers("scale", np.full(record.n_features, factor)))
    axes = graph.constant("axes", np.array([1], dtype=np.int64))
    square = graph.node("ReduceSum", graph.node("Mul", Z, Z), axes, keepdims=1)
    # no maximum with 0: rounding may leave a distance of -1e-16, whose exponential is right
    D = graph.node("MatMul", Z, graph.numbers("vectors", 2.0 * V.T))
    D = graph.node("Sub", D, graph.numbers("squares", (V**2).sum(axis=1)))
    return graph.node("Exp", graph.node("Sub", D, square))


def _class_scores(graph: GraphBuilder, record: ExportModel, f: str) -> str:
    """The best prototype of each class; of two classes the first scores 0."""
    if record.is_difference:
        return f
    S = f
    if len(record.prototype_class) != record.n_classes:
        S = _best_of_each(graph, record, f)
    if record.n_classes == 2:
        zero = graph.constant("reference", np.array([0], dtype=np.int64))
        S = graph.node("Sub", S, graph.node("Gather", S, zero, axis=1))
    return S


def _best_of_each(graph: GraphBuilder, record: ExportModel, f: str) -> str:
    first = record.first_prototypes()
    width = int(np.diff(first).max())
    # classes with fewer prototypes repeat their last one, which does not change the maximum
    index = np.minimum(first[:-1, None] + np.arange(width), first[1:, None] - 1)
    if not np.array_equal(index.ravel(), np.arange(len(record.prototype_class))):
        chosen = graph.constant("prototype_numbers", index.ravel().astype(np.int64))
        f = graph.node("Gather", f, chosen, axis=1)
    shape = graph.constant("shape", np.array([0, record.n_classes, width], dtype=np.int64))
    return graph.largest(graph.node("Reshape", f, shape), 2)
