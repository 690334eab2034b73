"""A converter for skl2onnx, so that Pipelines with other steps can be converted as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin._extras import need
from polymargin.estimators.convex_hull import ConvexHullSVC
from polymargin.estimators.multi_prototype import MultiPrototypeSVC
from polymargin.estimators.multi_prototype_cv import MultiPrototypeSVCCV
from polymargin.estimators.multiclass import MulticlassSVC
from polymargin.export.model_record import ExportModel
from polymargin.export.onnx_graph import GraphBuilder, add_model, label_array

__all__ = ["register_skl2onnx"]

_ESTIMATORS = (MulticlassSVC, MultiPrototypeSVC, MultiPrototypeSVCCV, ConvexHullSVC)
_ARITHMETICS = ["float64", "float32"]


def register_skl2onnx() -> None:
    """Teach skl2onnx the classifiers of this package.

    After it ``skl2onnx.to_onnx(model, X)`` works on them and on Pipelines of any step that skl2onnx
    knows and one of them.  Outputs are ``label`` and ``scores`` as in ``to_onnx`` (and
    ``probabilities`` where the model has them), never a ZipMap.
    The option ``{"arithmetic": "float32"}`` of an estimator leaves out double numbers.  Calling
    it again does no harm.

    See Also
    --------
    polymargin.to_onnx : Classifiers and Pipelines with scalers, without skl2onnx.
    """
    skl2onnx = need("skl2onnx", "Conversion of Pipelines", "onnx")
    for estimator in _ESTIMATORS:
        skl2onnx.update_registered_converter(
            estimator,
            f"Polymargin{estimator.__name__}",
            _shapes,
            _convert,
            parser=_parse,
            # Pipelines hand on zipmap to classifiers, so it has to be known
            options={"zipmap": [False, True], "arithmetic": _ARITHMETICS},
        )


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    from skl2onnx._parse import _get_sklearn_operator_name
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(_get_sklearn_operator_name(type(model)), model)
    operator.inputs = inputs
    label = scope.declare_local_variable("label", Int64TensorType())
    scores = scope.declare_local_variable("scores", guess_tensor_type(inputs[0].type))
    operator.outputs.append(label)
    operator.outputs.append(scores)
    if model._calibration_parameters()[0] is not None and hasattr(model, "temperature_"):
        kind = guess_tensor_type(inputs[0].type)
        operator.outputs.append(scope.declare_local_variable("probabilities", kind))
    return operator.outputs


def _shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType, guess_tensor_type

    record = ExportModel.from_estimator(operator.raw_operator)
    rows = operator.inputs[0].get_first_dimension()
    text = label_array(record).dtype == np.dtype(object)
    operator.outputs[0].type = (StringTensorType if text else Int64TensorType)([rows])
    scores = guess_tensor_type(operator.inputs[0].type)
    scores.shape = [rows, record.n_classes]
    operator.outputs[1].type = scores
    if len(operator.outputs) > 2:
        probabilities = guess_tensor_type(operator.inputs[0].type)
        probabilities.shape = [rows, record.n_classes]
        operator.outputs[2].type = probabilities


class _ContainerBuilder(GraphBuilder):
    """Puts nodes and constants into a container of skl2onnx."""

    def __init__(self, scope: Any, container: Any, arithmetic: str) -> None:
        super().__init__(int(container.target_opset_any_domain("")), arithmetic)
        self.scope = scope
        self.container = container

    def unique(self, hint: str) -> str:
        return str(self.scope.get_unique_variable_name(f"polymargin_{hint}"))

    def emit(self, op: str, inputs: list[str], output: str, attributes: dict[str, Any]) -> None:
        name = self.scope.get_unique_operator_name(f"polymargin_{op}")
        self.container.add_node(op, inputs, [output], name=name, **attributes)

    def store(self, name: str, tensor: Any) -> None:
        if tensor.HasField("raw_data"):
            self.container.add_initializer(name, tensor.data_type, list(tensor.dims), tensor)
        else:
            texts = list(tensor.string_data)
            self.container.add_initializer(name, tensor.data_type, list(tensor.dims), texts)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType

    model = operator.raw_operator
    options = container.get_options(model, {"arithmetic": "float64"})
    record = ExportModel.from_estimator(model)
    features = [variable.full_name for variable in operator.inputs]
    graph = _ContainerBuilder(scope, container, options["arithmetic"])
    if len(features) > 1:
        columns = [graph.cast(feature, graph.arithmetic) for feature in features]
        features = [graph.node("Concat", *columns, axis=1)]
    is_double = isinstance(operator.outputs[1].type, DoubleTensorType)
    add_model(
        graph,
        record,
        features[0],
        "float64" if is_double else "float32",
        operator.outputs[0].full_name,
        operator.outputs[1].full_name,
        operator.outputs[2].full_name if len(operator.outputs) > 2 else None,
    )
