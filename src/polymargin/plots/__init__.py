"""Pictures: each Display first computes a small record, then draws it with matplotlib."""

from polymargin.plots.confusion import ConfusionDisplay
from polymargin.plots.decision_regions import DecisionRegionDisplay
from polymargin.plots.history import HistoryDisplay
from polymargin.plots.margins import MarginDistributionDisplay
from polymargin.plots.prototype_images import PrototypeImagesDisplay
from polymargin.plots.size_accuracy import SizeAccuracyDisplay

__all__ = [
    "ConfusionDisplay",
    "DecisionRegionDisplay",
    "HistoryDisplay",
    "MarginDistributionDisplay",
    "PrototypeImagesDisplay",
    "SizeAccuracyDisplay",
]
