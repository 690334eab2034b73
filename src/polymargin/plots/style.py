"""What every picture shares: colours that colour-blind readers tell apart, and axes."""

from __future__ import annotations

from typing import Any

__all__ = [
    "AMBER",
    "BLACK",
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "PURPLE",
    "SKY",
    "axes_of",
]

# The colours of Okabe and Ito (2008), without the yellow that vanishes on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, GREY, BLACK = "#56B4E9", "#E69F00", "#999999", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER, GREY, BLACK)


def axes_of(ax: Any) -> Any:
    """The given axes, or new ones; a helpful message without matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: pip install 'polymargin[plots]' (or matplotlib)."
        ) from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax
