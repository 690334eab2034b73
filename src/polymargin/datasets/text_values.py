"""What the text of a field may stand for: missing, a number, a truth value, a date."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

__all__ = [
    "MISSING",
    "are_codes",
    "common_unit",
    "date_text",
    "date_words",
    "dates_from_texts",
    "find_date_format",
    "is_missing",
    "is_number",
    "number_from_text",
    "numbers_from_texts",
    "without_points",
    "without_unit",
]

MISSING = frozenset(
    ["", "?", "na", "n/a", "nan", "-nan", "null", "none", "<na>", "#n/a", "missing", ".", "-"]
) | frozenset(["--", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"])
"""Fields that stand for no value, in small letters; the last ones are errors of spreadsheets."""

NO_LABEL = frozenset(["", "?", "nan", "<na>"])
"""Labels that stand for none; "none" or "NA" may well be a class."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE | re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", re.ASCII)
_GROUPED_BLANKS = re.compile(r"[+-]?\d{1,3}([ \u00a0\u202f']\d{3})+(\.\d*)?", re.ASCII)
_BRACKETED = re.compile(r"\(([\d.,]+)\)", re.ASCII)  # a negative amount, as accountants write it
_GROUPED_POINTS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?", re.ASCII)

_CURRENCY = r"[$\u20ac\u00a3\u00a5\u20b9]|USD|EUR|GBP|CHF|JPY"
_WITH_UNIT = re.compile(
    rf"(?P<sign>[+-]?)\s?(?P<before>{_CURRENCY})?\s?(?P<number>[+-]?\d[\d.,' \u00a0\u202f]*?)\s?"
    r"(?P<after>[^\d\s.,;:()'\"+_-]{1,8})?",
    re.ASCII,
)
"""A number between a currency and a unit; a unit holds no digit, so that codes as 4x4 are none."""

_CODE_DIGITS = 5

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

CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
"""Times without a day: values are shares of the day."""

OR = " or "  # between the formats of a column that mixes them
_MOST_FORMATS = 3
_SWAPPED = {"%d/%m": "%m/%d", "%m/%d": "%d/%m", "%d-%m": "%m-%d", "%m-%d": "%d-%m"}
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_DAY = 86400.0
_FEWEST_DIGITS = 3  # of a date: one of the day, two of the year; months may have names


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
    if _GROUPED_BLANKS.fullmatch(text):  # 1 234.5, 1'234.5
        return float(re.sub(r"[ \u00a0\u202f']", "", text))
    if bracketed := _BRACKETED.fullmatch(text):
        value = number_from_text(bracketed[1])
        return None if value is None else -value
    return None


def date_words(form: str | None) -> str:
    """The format of dates in words, such as day.month.year."""
    if form is not None and OR in form:
        return OR.join(date_words(one) for one in form.split(OR))
    if form in (None, "iso"):
        return "year-month-day"
    words = {"%d": "day", "%m": "month", "%Y": "year", "%y": "year", "%b": "month", "%B": "month"}
    words |= {"%H": "hour", "%I": "hour", "%M": "minute", "%S": "second", "%p": "AM/PM"}
    words |= {"%f": "fraction"}
    return re.sub(r"%.", lambda m: words.get(m.group(), m.group()), str(form))


def without_unit(text: str) -> tuple[str, str]:
    """The number of a field such as "$1,200", "12 %" or "180 cm", and its unit; ("", "") if none.

    Numbers that begin with further zeros are codes.
    """
    found = _WITH_UNIT.fullmatch(text.strip())
    if found is None:
        return "", ""
    units = [unit for unit in (found["before"], found["after"]) if unit]
    is_code = re.match(r"[+-]?0\d", found["number"])
    if len(units) != 1 or is_code or units[0] in ("e", "E"):
        return "", ""
    return found["sign"] + found["number"].strip(), units[0]


def are_codes(texts: Iterable[str]) -> bool:
    """Whether all texts are digits of one length, of five at least, and some begin with zero.

    Such are postcodes and account numbers; shorter ones may as well be numbers that were padded.
    """
    found = list(texts)
    same = len({len(text) for text in found}) == 1 and len(found[0]) >= _CODE_DIGITS
    digits = same and all(text.isascii() and text.isdigit() for text in found)
    return digits and any(text.startswith("0") for text in found)


def common_unit(texts: Iterable[str]) -> str | None:
    """The unit that stands at every one of the texts; None if there is none."""
    units: set[str] = set()
    for text in texts:
        units.add(without_unit(text)[1])
        if len(units) > 1 or "" in units:
            return None
    return units.pop() if units else None


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
    if not distinct or sum(c.isdigit() for c in distinct[0][:40]) < _FEWEST_DIGITS:
        return None
    if all(_ISO.fullmatch(text) for text in distinct):
        return "iso" if all(_day(text, "iso") is not None for text in distinct) else None
    if any(len(text) > 40 for text in distinct[:10]):
        return None
    few = distinct[:50]
    forms = [date + time for date in DATE_FORMATS[1:] for time in _TIMES]
    for form in (*CLOCKS, *forms):
        if _fits(few, form) and _fits(distinct, form):
            return form
    return _mixed_format(distinct, ["iso", *forms])


def _fits(texts: Iterable[str], form: str) -> bool:
    return all(_day(text, form) is not None for text in texts)


def _mixed_format(texts: list[str], forms: list[str]) -> str | None:
    """A few formats that together fit all of the texts, unless they swap days and months."""
    if any(len(re.findall(r"\d+", text)) < 2 for text in texts[:50]):
        return None
    found: list[str] = []
    rest = texts
    while rest:
        known = {_SWAPPED.get(form[:5], "") for form in found}
        fitting = (f for f in forms if f[:5] not in known and _day(rest[0], f) is not None)
        form = next(fitting, None)
        if form is None or len(found) == _MOST_FORMATS:
            return None
        found.append(form)
        rest = [text for text in rest if _day(text, form) is None]
    return OR.join(sorted(found, key=forms.index))


def _day(text: str, form: str) -> float | None:
    """Days since the beginning of 1970, UTC; the share of the day for times without one."""
    if OR in form:
        days = (_day(text, one) for one in form.split(OR))
        return next((day for day in days if day is not None), None)
    try:
        iso = form == "iso"
        moment = datetime.fromisoformat(text) if iso else datetime.strptime(text, form)
    except (ValueError, OverflowError):
        return None
    if form in CLOCKS:
        moment = moment.replace(year=1970)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.timestamp() / _DAY
    except (ValueError, OverflowError):
        return None


def date_text(days: float, form: str | None) -> str:
    """Days since 1970 as a date, with its time if it has one; shares of the day as a time."""
    if days != days:
        return ""
    moment = datetime(1970, 1, 1) + timedelta(seconds=round(float(days) * _DAY))
    time = moment.strftime("%H:%M:%S").removesuffix(":00")
    if form in CLOCKS:
        return time
    date = moment.strftime("%Y-%m-%d")
    return date if time == "00:00" else f"{date} {time}"


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
