"""Pictures: each Display first computes a small record, then draws it with matplotlib."""

from polymargin.plots.confusion import ConfusionDisplay
from polymargin.plots.criterion import CriterionDisplay
from polymargin.plots.decision_regions import DecisionRegionDisplay
from polymargin.plots.history import HistoryDisplay
from polymargin.plots.margins import MarginDistributionDisplay
from polymargin.plots.pair_margins import PairMarginsDisplay, SlackDistributionDisplay
from polymargin.plots.path import RegularizationPathDisplay
from polymargin.plots.prototype_images import PrototypeImagesDisplay
from polymargin.plots.size_accuracy import SizeAccuracyDisplay

__all__ = [
    "ConfusionDisplay",
    "CriterionDisplay",
    "DecisionRegionDisplay",
    "HistoryDisplay",
    "MarginDistributionDisplay",
    "PairMarginsDisplay",
    "PrototypeImagesDisplay",
    "RegularizationPathDisplay",
    "SizeAccuracyDisplay",
    "SlackDistributionDisplay",
]
