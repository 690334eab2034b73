"""Libraries that are not always there: imported when needed, or a word on how to get them."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["need"]


def need(module: str, purpose: str, extra: str) -> Any:
    """Import an optional library, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs the package {package!r}, which is not installed: "
            f"pip install 'polymargin[{extra}]'."
        ) from error
