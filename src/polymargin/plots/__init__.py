"""Pictures: each Display first computes a small record, then draws it with matplotlib."""

from polymargin.plots.margins import PairMarginsDisplay, SlackDistributionDisplay
from polymargin.plots.path import RegularizationPathDisplay
from polymargin.plots.size_accuracy import SizeAccuracyDisplay

__all__ = [
    "PairMarginsDisplay",
    "RegularizationPathDisplay",
    "SizeAccuracyDisplay",
    "SlackDistributionDisplay",
]
