"""``polymargin --version``: what a bug report needs, without importing any of the libraries."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import click

from polymargin import __version__

__all__ = ["environment", "print_environment"]

_REQUIRED = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "llvmlite",
    "click",
    "skops",
    "jinja2",
    "duckdb",
)
_OPTIONAL = (
    "pandas",
    "polars",
    "matplotlib",
    "onnx",
    "skl2onnx",
    "onnxruntime",
    "dask",
    "distributed",
)


def environment() -> list[str]:
    """Lines with versions; libraries that are not installed are left out."""
    found = [f"{name} {number}" for name in (*_REQUIRED, *_OPTIONAL) if (number := _version(name))]
    half = (len(found) + 1) // 2
    system = f"{platform.platform()}, {platform.machine()}, {os.cpu_count()} cores"
    return [
        f"polymargin, version {__version__}",
        f"Python {platform.python_version()} ({platform.python_implementation()})",
        ", ".join(found[:half]),
        ", ".join(found[half:]),
        system,
    ]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def print_environment(context: click.Context, option: click.Parameter, asked: bool) -> None:
    """Callback of ``--version``."""
    if asked and not context.resilient_parsing:
        click.echo("\n".join(environment()))
        context.exit()
