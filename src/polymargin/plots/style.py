"""What every picture shares: colours that colour-blind readers tell apart, and axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from polymargin._extras import need

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
    "bytes_text",
    "class_colours",
    "class_markers",
    "short",
    "ticks_of",
]

# The colours of Okabe and Ito (2008), without the yellow that vanishes on white.
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, GREY, BLACK = "#56B4E9", "#E69F00", "#999999", "#000000"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER, GREY, BLACK)

_MARKERS = "osD^vP<>X*ph8"
_GOLDEN = 0.6180339887498949


def axes_of(ax: Any) -> Any:
    """The given axes, or new ones; a helpful message without matplotlib."""
    plt = need("matplotlib.pyplot", "A plot", "plots")
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def class_colours(n_classes: int) -> list[Any]:
    """One colour per class: the palette, twenty hues, or samples of a map of rising lightness.

    Golden steps through the map keep the colours of neighbouring classes far apart.
    """
    if n_classes <= len(PALETTE):
        return list(PALETTE[:n_classes])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    if n_classes <= 20:  # strong hues first, then their light companions
        hues = colormaps["tab20"](range(20)).tolist()
        return [to_hex(colour) for colour in (hues[::2] + hues[1::2])[:n_classes]]
    chart = colormaps["viridis"]
    return [to_hex(chart((0.3 + k * _GOLDEN) % 1.0)) for k in range(n_classes)]


def class_markers(labels: Any) -> list[str]:
    """One marker per class: colour is never the only sign.

    Many classes with labels of one or two letters or digits are marked by these.
    """
    texts = [str(label) for label in labels]
    if len(texts) > len(PALETTE) and all(
        len(text) <= 2 and text.isascii() and text.isalnum() for text in texts
    ):
        return [rf"$\mathdefault{{{text}}}$" for text in texts]
    return [_MARKERS[k % len(_MARKERS)] for k in range(len(texts))]


def bytes_text(size: float) -> str:
    """A size for people."""
    if not np.isfinite(size):
        return "unknown"
    if size < 1000:
        return f"{size:.0f} bytes"
    return f"{size / 1000:.3g} kB" if size < 1e6 else f"{size / 1e6:.3g} MB"


def ticks_of(n: int, most: int) -> list[int]:
    """At most ``most`` of n places, evenly spaced, the first among them."""
    step = max(1, -(-n // most))
    power = 10 ** (len(str(step)) - 1)
    step = next(nice * power for nice in (1, 2, 5, 10) if nice * power >= step)
    return list(range(0, n, step))


def short(label: Any, most: int = 16) -> str:
    """A label that fits beside a picture."""
    text = str(label).replace("\n", " ").replace("$", r"\$")
    return text if len(text) <= most else text[: most - 1] + "…"
