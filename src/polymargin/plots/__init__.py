"""Pictures: each Display first computes a small record, then draws it with matplotlib."""

from polymargin.plots.criterion import CriterionDisplay
from polymargin.plots.size_accuracy import SizeAccuracyDisplay

__all__ = ["CriterionDisplay", "SizeAccuracyDisplay"]
