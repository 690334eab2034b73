"""polymargin: multi-class large-margin classification with a proof of quality.

Public names are imported on first use, so that ``import polymargin`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polymargin.certificate.certificate import Certificate as Certificate
    from polymargin.certificate.exact_kernel import ExactKernelBounds as ExactKernelBounds
    from polymargin.datasets.row_store import RowStore as RowStore
    from polymargin.estimators.auto import AutoSVC as AutoSVC
    from polymargin.estimators.convex_hull import ConvexHullSVC as ConvexHullSVC
    from polymargin.estimators.monitor import FitMonitor as FitMonitor
    from polymargin.estimators.multi_prototype import MultiPrototypeSVC as MultiPrototypeSVC
    from polymargin.estimators.multi_prototype_cv import MultiPrototypeSVCCV as MultiPrototypeSVCCV
    from polymargin.estimators.multiclass import MulticlassSVC as MulticlassSVC
    from polymargin.exceptions import ClusterError as ClusterError
    from polymargin.exceptions import CollapsedModelWarning as CollapsedModelWarning
    from polymargin.exceptions import DataFileError as DataFileError
    from polymargin.exceptions import IndefiniteKernelWarning as IndefiniteKernelWarning
    from polymargin.exceptions import ModelFileError as ModelFileError
    from polymargin.exceptions import NotSeparableWarning as NotSeparableWarning
    from polymargin.explanation.contributions import explain as explain
    from polymargin.explanation.counterfactuals import counterfactual as counterfactual
    from polymargin.explanation.prediction_sets import calibrate as calibrate
    from polymargin.explanation.prediction_sets import coverage_promise as coverage_promise
    from polymargin.explanation.prediction_sets import predict_set as predict_set
    from polymargin.explanation.prototype_table import prototype_table as prototype_table
    from polymargin.explanation.robustness import certified_radius as certified_radius
    from polymargin.export import ExportModel as ExportModel
    from polymargin.export import export_model as export_model
    from polymargin.export import to_c as to_c
    from polymargin.export import to_json as to_json
    from polymargin.export import to_onnx as to_onnx
    from polymargin.problem.annealing import Annealing as Annealing
    from polymargin.problem.machines import MACHINES as MACHINES
    from polymargin.problem.machines import Machine as Machine
    from polymargin.radius_margin.bound import RadiusMarginBound as RadiusMarginBound
    from polymargin.radius_margin.bound import radius_margin_bound as radius_margin_bound
    from polymargin.radius_margin.sphere import EnclosingSphere as EnclosingSphere
    from polymargin.radius_margin.sphere import (
        smallest_enclosing_sphere as smallest_enclosing_sphere,
    )
    from polymargin.report.page import render_report as render_report
    from polymargin.report.page import write_report as write_report
    from polymargin.selection.bounds import growth_bound as growth_bound
    from polymargin.selection.bounds import margin_bound as margin_bound
    from polymargin.selection.counts import LeaveOneOutCount as LeaveOneOutCount
    from polymargin.selection.counts import leave_one_out_count as leave_one_out_count
    from polymargin.selection.dual_variables import dual_variables as dual_variables
    from polymargin.selection.gacv import gacv as gacv
    from polymargin.selection.leave_one_out import leave_one_out as leave_one_out
    from polymargin.selection.margins import margin_record as margin_record
    from polymargin.selection.path import regularization_path as regularization_path
    from polymargin.selection.risk_coverage import risk_coverage as risk_coverage
    from polymargin.selection.tune_radius_margin import RadiusMarginTuning as RadiusMarginTuning
    from polymargin.selection.tune_radius_margin import tune_radius_margin as tune_radius_margin
    from polymargin.solvers.smo.pattern_smo import PatternSMO as PatternSMO
    from polymargin.solvers.working_sets import WorkingSets as WorkingSets
    from polymargin.storage.model_file import load as load
    from polymargin.storage.model_file import save as save
    from polymargin.tables.large_tables import open_rows as open_rows

__version__ = "0.2.0"

_HOME = {
    "Annealing": "problem.annealing",
    "AutoSVC": "estimators.auto",
    "Certificate": "certificate.certificate",
    "ClusterError": "exceptions",
    "CollapsedModelWarning": "exceptions",
    "ConvexHullSVC": "estimators.convex_hull",
    "FitMonitor": "estimators.monitor",
    "DataFileError": "exceptions",
    "ExactKernelBounds": "certificate.exact_kernel",
    "ExportModel": "export",
    "EnclosingSphere": "radius_margin.sphere",
    "IndefiniteKernelWarning": "exceptions",
    "MACHINES": "problem.machines",
    "Machine": "problem.machines",
    "ModelFileError": "exceptions",
    "MultiPrototypeSVC": "estimators.multi_prototype",
    "MultiPrototypeSVCCV": "estimators.multi_prototype_cv",
    "MulticlassSVC": "estimators.multiclass",
    "NotSeparableWarning": "exceptions",
    "RowStore": "datasets.row_store",
    "open_rows": "tables.large_tables",
    "PatternSMO": "solvers.smo.pattern_smo",
    "WorkingSets": "solvers.working_sets",
    "calibrate": "explanation.prediction_sets",
    "certified_radius": "explanation.robustness",
    "coverage_promise": "explanation.prediction_sets",
    "counterfactual": "explanation.counterfactuals",
    "explain": "explanation.contributions",
    "load": "storage.model_file",
    "save": "storage.model_file",
    "export_model": "export",
    "to_c": "export",
    "to_json": "export",
    "to_onnx": "export",
    "render_report": "report.page",
    "write_report": "report.page",
    "gacv": "selection.gacv",
    "growth_bound": "selection.bounds",
    "LeaveOneOutCount": "selection.counts",
    "leave_one_out": "selection.leave_one_out",
    "leave_one_out_count": "selection.counts",
    "dual_variables": "selection.dual_variables",
    "margin_bound": "selection.bounds",
    "margin_record": "selection.margins",
    "predict_set": "explanation.prediction_sets",
    "prototype_table": "explanation.prototype_table",
    "risk_coverage": "selection.risk_coverage",
    "regularization_path": "selection.path",
    "RadiusMarginBound": "radius_margin.bound",
    "RadiusMarginTuning": "selection.tune_radius_margin",
    "radius_margin_bound": "radius_margin.bound",
    "smallest_enclosing_sphere": "radius_margin.sphere",
    "tune_radius_margin": "selection.tune_radius_margin",
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
