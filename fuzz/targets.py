"""All fuzz targets by name: functions of bytes that raise where something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzz.fits import FITS
from fuzz.models import MODELS
from fuzz.options import OPTIONS
from fuzz.readers import READERS

__all__ = ["CORPUS", "REGRESSIONS", "TARGETS"]

CORPUS = Path(__file__).parent / "corpus"
REGRESSIONS = Path(__file__).parent / "regressions"
TARGETS: dict[str, Callable[..., None]] = {**READERS, **MODELS, **OPTIONS, **FITS}
