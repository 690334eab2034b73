"""From facts and records to the text of a page: template, style, script, content policy."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from polymargin.report.facts import short
from polymargin.report.svg import chart_svg

__all__ = ["as_script_data", "render"]


def render(data: dict[str, Any], **context: Any) -> str:
    """The page.

    Parameters
    ----------
    data : what the script of the page reads
    **context : what the template shows
    """
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["label"] = lambda value: short(str(value), 24)
    environment.filters["percent"] = _percent
    environment.filters["figure"] = _figure
    environment.filters["svg"] = lambda chart: Markup(chart_svg(chart))
    style, script = _read("report.css"), _read("report.js")
    return environment.from_string(_read("report.html")).render(
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=Markup(as_script_data(data)),
        **context,
    )


def as_script_data(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever labels and names contain."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return files("polymargin.report").joinpath("templates", name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """The policy under which nothing but this style and this script acts, and nothing is loaded."""

    def hashed(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")

    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{hashed(style)}'; "
        f"script-src 'sha256-{hashed(script)}'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'"
    )


def _percent(share: float, digits: int = 1) -> str:
    return "–" if math.isnan(share) else f"{100.0 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def _figure(value: float) -> str:
    text = f"{value:,.0f}" if 1000.0 <= abs(value) < 1e6 else f"{value:.3g}"
    return text.replace("-", "−")
