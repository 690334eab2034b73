"""Pictures: each Display first computes a small record, then draws it with matplotlib."""

from polymargin.plots.calibration_display import CalibrationDisplay
from polymargin.plots.confusion_display import ConfusionDisplay
from polymargin.plots.criterion_display import CriterionDisplay
from polymargin.plots.decision_region_display import DecisionRegionDisplay
from polymargin.plots.history_display import HistoryDisplay
from polymargin.plots.margin_display import MarginDistributionDisplay
from polymargin.plots.pair_margin_display import PairMarginsDisplay, SlackDistributionDisplay
from polymargin.plots.path_display import RegularizationPathDisplay
from polymargin.plots.prototype_images_display import PrototypeImagesDisplay
from polymargin.plots.risk_coverage_display import RiskCoverageDisplay
from polymargin.plots.size_accuracy_display import SizeAccuracyDisplay

__all__ = [
    "CalibrationDisplay",
    "ConfusionDisplay",
    "CriterionDisplay",
    "DecisionRegionDisplay",
    "HistoryDisplay",
    "MarginDistributionDisplay",
    "PairMarginsDisplay",
    "PrototypeImagesDisplay",
    "RegularizationPathDisplay",
    "RiskCoverageDisplay",
    "SizeAccuracyDisplay",
    "SlackDistributionDisplay",
]
