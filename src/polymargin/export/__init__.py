"""Models for elsewhere: ONNX, a C99 header and JSON, all written from one record."""

from polymargin.export.json_writer import to_json
from polymargin.export.onnx_writer import to_onnx
from polymargin.export.record import ExportModel

__all__ = ["ExportModel", "to_json", "to_onnx"]
