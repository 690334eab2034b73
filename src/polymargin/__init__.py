"""polymargin: multi-class large-margin classification with a proof of quality.

Public names are imported on first use, so that ``import polymargin`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polymargin.annealing import Annealing as Annealing
    from polymargin.bounds import growth_bound as growth_bound
    from polymargin.bounds import margin_bound as margin_bound
    from polymargin.certificate import Certificate as Certificate
    from polymargin.convex_hull import ConvexHullSVC as ConvexHullSVC
    from polymargin.cross_validation import gacv as gacv
    from polymargin.estimators import MulticlassSVC as MulticlassSVC
    from polymargin.exceptions import CollapsedModelWarning as CollapsedModelWarning
    from polymargin.exceptions import DataFileError as DataFileError
    from polymargin.exceptions import IndefiniteKernelWarning as IndefiniteKernelWarning
    from polymargin.exceptions import ModelFileError as ModelFileError
    from polymargin.exceptions import NotSeparableWarning as NotSeparableWarning
    from polymargin.export import ExportModel as ExportModel
    from polymargin.export import export_model as export_model
    from polymargin.export import to_c as to_c
    from polymargin.export import to_json as to_json
    from polymargin.export import to_onnx as to_onnx
    from polymargin.files import load as load
    from polymargin.files import save as save
    from polymargin.left_out import leave_one_out as leave_one_out
    from polymargin.machines import MACHINES as MACHINES
    from polymargin.machines import Machine as Machine
    from polymargin.margins import margin_record as margin_record
    from polymargin.monitoring import FitMonitor as FitMonitor
    from polymargin.multi_prototype import MultiPrototypeSVC as MultiPrototypeSVC
    from polymargin.multi_prototype_cv import MultiPrototypeSVCCV as MultiPrototypeSVCCV
    from polymargin.path import regularization_path as regularization_path
    from polymargin.pattern_smo import PatternSMO as PatternSMO
    from polymargin.radius.bound import RadiusMarginBound as RadiusMarginBound
    from polymargin.radius.bound import radius_margin_bound as radius_margin_bound
    from polymargin.radius.sphere import EnclosingSphere as EnclosingSphere
    from polymargin.radius.sphere import smallest_enclosing_sphere as smallest_enclosing_sphere
    from polymargin.report import render_report as render_report
    from polymargin.report import write_report as write_report
    from polymargin.tuning import RadiusMarginTuning as RadiusMarginTuning
    from polymargin.tuning import tune_radius_margin as tune_radius_margin

__version__ = "0.1.0"

_HOME = {
    "Annealing": "annealing",
    "Certificate": "certificate",
    "CollapsedModelWarning": "exceptions",
    "ConvexHullSVC": "convex_hull",
    "FitMonitor": "monitoring",
    "DataFileError": "exceptions",
    "ExportModel": "export",
    "EnclosingSphere": "radius.sphere",
    "IndefiniteKernelWarning": "exceptions",
    "MACHINES": "machines",
    "Machine": "machines",
    "ModelFileError": "exceptions",
    "MultiPrototypeSVC": "multi_prototype",
    "MultiPrototypeSVCCV": "multi_prototype_cv",
    "MulticlassSVC": "estimators",
    "NotSeparableWarning": "exceptions",
    "PatternSMO": "pattern_smo",
    "load": "files",
    "save": "files",
    "export_model": "export",
    "to_c": "export",
    "to_json": "export",
    "to_onnx": "export",
    "render_report": "report",
    "write_report": "report",
    "gacv": "cross_validation",
    "growth_bound": "bounds",
    "leave_one_out": "left_out",
    "margin_bound": "bounds",
    "margin_record": "margins",
    "regularization_path": "path",
    "RadiusMarginBound": "radius.bound",
    "RadiusMarginTuning": "tuning",
    "radius_margin_bound": "radius.bound",
    "smallest_enclosing_sphere": "radius.sphere",
    "tune_radius_margin": "tuning",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'polymargin' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"polymargin.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
