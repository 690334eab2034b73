"""What the text of a field may stand for: missing, a number, a truth value, a date."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

__all__ = [
    "MISSING",
    "dates_from_texts",
    "find_date_format",
    "is_missing",
    "is_number",
    "numbers_from_texts",
    "without_points",
]

MISSING = frozenset(
    ["", "?", "na", "n/a", "nan", "-nan", "null", "none", "<na>", "#n/a", "missing", ".", "-"]
)
"""Fields that stand for no value, in small letters."""

NO_LABEL = frozenset(["", "?", "nan", "<na>"])
"""Labels that stand for none; "none" or "NA" may well be a class."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE | re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
_GROUPED_POINTS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?", re.ASCII)

DATE_FORMATS = (
    "iso",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%d %B %Y",
    "%B %d, %Y",
)
"""Tried in this order; day before month where both fit every value, which the plan shows."""

_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_DAY = 86400.0


def is_missing(text: str | None, extra: Iterable[str] = ()) -> bool:
    """Whether a field holds no value."""
    return text is None or text.strip().lower() in MISSING or text in extra


def is_number(text: str, decimal: str = ".") -> bool:
    """Whether a field is a decimal number in ASCII digits, or infinite."""
    text = text.strip()
    if decimal != ".":
        text = text.replace(decimal, ".")
    return bool(_NUMBER.fullmatch(text) or _INFINITE.fullmatch(text))


def number_from_text(text: str, decimal: str = ".") -> float | None:
    """The number of a field as Python reads it (the nearest double), or None."""
    text = text.strip()
    if decimal != ".":
        text = text.replace(decimal, ".")
    if _NUMBER.fullmatch(text) or _INFINITE.fullmatch(text):
        return float(text)
    if decimal == "." and _GROUPED.fullmatch(text):  # 1,234.5
        return float(text.replace(",", ""))
    return None


def without_points(texts: dict[Any, str | None]) -> dict[Any, str | None]:
    """Numbers as 1.234,5 without the points between thousands, if one of the texts is such a one.

    Only then is 1.234 known to be more than a thousand.
    """
    present = [text for text in texts.values() if text is not None]
    if not any("," in text and _GROUPED_POINTS.fullmatch(text) for text in present):
        return texts
    return {
        key: text.replace(".", "") if text is not None and _GROUPED_POINTS.fullmatch(text) else text
        for key, text in texts.items()
    }


def numbers_from_texts(
    texts: Sequence[str | None], decimal: str = "."
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of fields (nan where there is none), and which fields hold something else."""
    known: dict[str | None, float | None] = {None: np.nan}
    values = np.empty(len(texts))
    is_other = np.zeros(len(texts), dtype=bool)
    for i, text in enumerate(texts):
        if text not in known:
            known[text] = number_from_text(str(text), decimal)
        value = known[text]
        if value is None:
            is_other[i] = True
            value = np.nan
        values[i] = value
    return values, is_other


# -- dates -------------------------------------------------------------------------------------


def find_date_format(texts: Iterable[str]) -> str | None:
    """The format that fits all of the texts; None if there is none, or nothing to go by."""
    distinct = list(dict.fromkeys(texts))
    if not distinct or not any(c.isdigit() for c in distinct[0]):
        return None
    if all(_ISO.fullmatch(text) for text in distinct):
        return "iso" if all(_day(text, "iso") is not None for text in distinct) else None
    if any(len(text) > 40 for text in distinct[:10]):
        return None
    few = distinct[:50]
    for date in DATE_FORMATS[1:]:
        for time in _TIMES:
            form = date + time
            if all(_day(text, form) is not None for text in few) and all(
                _day(text, form) is not None for text in distinct
            ):
                return form
    return None


def _day(text: str, form: str) -> float | None:
    """Days since the beginning of 1970, UTC."""
    try:
        iso = form == "iso"
        moment = datetime.fromisoformat(text) if iso else datetime.strptime(text, form)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.timestamp() / _DAY
    except (ValueError, OverflowError):
        return None


def dates_from_texts(texts: Sequence[Any], form: str) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970 (nan where there is none), and which fields hold something else."""
    known: dict[Any, float | None] = {None: np.nan}
    values = np.empty(len(texts))
    is_other = np.zeros(len(texts), dtype=bool)
    for i, text in enumerate(texts):
        if text not in known:
            known[text] = _day(str(text).strip(), form)
        value = known[text]
        is_other[i] = value is None
        values[i] = np.nan if value is None else value
    return values, is_other
