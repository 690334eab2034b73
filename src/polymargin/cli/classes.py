"""Checks of labels and features before a training."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from typing import Any

from polymargin.cli.application import ToolError
from polymargin.cli.messages import say
from polymargin.cli.preprocessing import blocks
from polymargin.datasets.dataset import like_a_label

__all__ = ["check_classes", "warn_of_scales"]


_SCALE_RATIO = 1000.0  # ratio of deviations beyond which small features hardly count
_LOOKED_AT = 100_000  # numbers of a sparse matrix that are tested for being counts
_LARGEST = 1e150  # numbers whose squares do not overflow
_MARKERS = {sign * float(nines) for nines in (99, 999, 9999, 99999, 999999) for sign in (1, -1)}
_FAR = 1.0  # distance of such a number from the other values, in their spreads
_SAID = 3  # most warnings of one kind
_LOOKED_AT_FIRST = 200  # rows that tell nearly all columns from copies of the label
_FEW_ROWS = 20  # smaller tables may have one example of each class


def check_classes(found: Any) -> None:
    """Labels that name classes: at least two, no continuous number, no identifier of the rows.

    Features that are the same in all rows are refused too: there is nothing to learn from.
    """
    n, Q = found.X.shape[0], len(found.labels)
    if Q < 2:
        raise ToolError(
            f"training needs at least two classes; all {n} rows have the label {found.labels[0]!r}"
        )
    meant = like_a_label(found.feature_names or []) or _category_like_a_label(found.plan)
    column = "the label column" + (f" {found.label_name!r}" if found.label_name else "")
    if (fraction := fractional_label(found.labels)) is not None:
        raise ToolError(
            f"{column} holds continuous numbers ({Q} different ones in {n} rows, such as "
            f"{fraction}), not classes; name another column with --label{meant}, or round or bin "
            "the numbers first (a letter in front makes each of them a class)"
        )
    if n == Q and n >= _FEW_ROWS:
        raise ToolError(
            f"{column} has a different value in each of the {n} rows: it looks like an identifier, "
            f"not a class; name another column with --label{meant}"
        )
    if _is_constant(found.X):
        raise ToolError(
            f"every feature has the same value in all {n} rows: there is nothing to learn from"
        )
    _check_sizes(found)
    _warn_of_spellings(found.labels, column)
    _warn_of_markers(found)
    _warn_of_copies(found)
    if n >= 2 * Q:
        _warn_of_single_rows(found, column)
    else:
        say(
            f"warning: {column} has {Q} different values in {n} rows: it may be an identifier or "
            "a number to round or bin; name another column with --label"
        )


def _category_like_a_label(plan: Any) -> str:
    """The only column of categories, as a question; empty if there is none or several."""
    if plan is None:
        return ""
    names = [column.name for column in plan.kept if column.kind == "category"]
    return f" ({names[0]!r}?)" if len(names) == 1 else ""


def _numbers_of(found: Any) -> Iterator[tuple[str, Any]]:
    """Name and values of the columns of numbers in memory, gaps left out."""
    import numpy as np

    X, names = found.X, found.feature_names
    if hasattr(X, "nnz") or not isinstance(X, np.ndarray):
        return
    kinds = None if found.plan is None else [column.kind for column in found.plan.kept]
    for k in range(X.shape[1]):
        if kinds is None or kinds[k] == "number":
            values = np.asarray(X[:, k], dtype=np.float64)
            yield str(k) if names is None else names[k], values[~np.isnan(values)]


def _check_sizes(found: Any) -> None:
    """Refuse numbers that cannot be squared, and so not be scaled."""
    for name, values in _numbers_of(found):
        if len(values) and max(values.max(), -values.min()) > _LARGEST:
            raise ToolError(
                f"column {name!r} has values up to {abs(values).max():.3g}, whose squares "
                f"overflow: divide it by a constant, or leave it out with --ignore {name!r}"
            )


def _warn_of_markers(found: Any) -> None:
    """Say that a number such as -999 may stand for no value: often, and far from all others."""
    said = 0
    for name, values in _numbers_of(found):
        for end in {values.min(), values.max()} & _MARKERS if len(values) else ():
            others = values[values != end]
            count = len(values) - len(others)
            spread = others.max() - others.min() if len(others) else 0.0
            if count < 2 or not spread or abs(others - end).min() <= _FAR * spread:
                continue
            said += 1
            if said <= _SAID:
                say(
                    f"warning: column {name!r} has {end:g} in {count} rows, far from all other "
                    f"values; if it stands for no value, give --missing {end:g}"
                )
    if said > _SAID:
        say(f"warning: so have {said - _SAID} more columns")


def _warn_of_single_rows(found: Any, column: str) -> None:
    """Say which classes have one row only; it may be a stray line.  Not of rows on disk."""
    import numpy as np

    if found.codes is None:
        return
    single = [found.labels[k] for k in np.flatnonzero(np.bincount(found.codes) == 1)]
    if single and len(found.codes) >= _FEW_ROWS:
        shown = ", ".join(map(repr, single[:4])) + (", ..." if len(single) > 4 else "")
        what = "1 class" if len(single) == 1 else f"{len(single)} classes"
        say(
            f"warning: {column} has {what} with a single row ({shown}): validation cannot test "
            "what was learnt of it; if it is a stray line, drop it"
        )


def _is_constant(X: Any) -> bool:
    """Whether all rows in memory are the same; rows on disk are not looked at."""
    if hasattr(X, "nnz"):
        return not X.nnz
    if not hasattr(X, "dtype") or not hasattr(X, "__getitem__"):
        return False
    return all(bool((X[rows] == X[0]).all()) for rows in blocks(X.shape[0]))


def _warn_of_copies(found: Any) -> None:
    """Say that a column has one value for each class: it may be the label under another name."""
    import numpy as np

    X, codes = found.X, found.codes
    if codes is None or len(codes) < _FEW_ROWS or not isinstance(X, np.ndarray):
        return
    names = found.feature_names
    copies = [
        str(k) if names is None else names[k]
        for k in range(X.shape[1])
        if _is_copy(X[:_LOOKED_AT_FIRST, k], codes) and _is_copy(X[:, k], codes)
    ]
    for name in copies[:_SAID]:
        say(
            f"warning: column {name!r} has one value for each class: if it is the label under "
            f"another name, unknown when predicting, leave it out with --ignore {name!r}"
        )


def _is_copy(values: Any, codes: Any) -> bool:
    """Whether equal values go with equal labels, and unequal with unequal ones."""
    of_value: dict[Any, int] = {}
    of_code: dict[int, Any] = {}
    for value, code in zip(values.tolist(), codes.tolist(), strict=False):
        if of_value.setdefault(value, code) != code or of_code.setdefault(code, value) != value:
            return False
    return True


def _warn_of_spellings(labels: list[str], column: str) -> None:
    """Say that labels differ in capitals, blanks or the coding of accents only."""
    known: dict[str, list[str]] = {}
    for label in labels:
        plain = unicodedata.normalize("NFKC", label).casefold()
        known.setdefault(" ".join(plain.split()), []).append(label)
    alike = [found for found in known.values() if len(found) > 1]
    if alike:
        shown = "; ".join(" and ".join(map(repr, found)) for found in alike[:4])
        say(
            f"warning: {column} has {shown}{'; ...' if len(alike) > 4 else ''}, which are "
            "different classes; write them alike if they are one"
        )


def warn_of_scales(found: Any, scale: str) -> None:
    """Say that features differ much in size where they are not scaled, or are counts of words."""
    if hasattr(found.X, "nnz") and _are_counts(found.X):
        say(
            "warning: sparse whole numbers look like counts of words; weights such as tf-idf "
            "(scikit-learn's TfidfTransformer) usually make far fewer errors"
        )
    if scale != "none" or hasattr(found.X, "nnz") or found.X.dtype == object:
        return
    spread = found.X.std(axis=0)
    spread = spread[spread > 0]
    if len(spread) > 1 and spread.max() > _SCALE_RATIO * spread.min():
        say(
            f"warning: features differ {spread.max() / spread.min():.2g}-fold in size and --scale "
            "none leaves them so: the small ones hardly count (--scale standard)"
        )


def _are_counts(X: Any) -> bool:
    """Whether sparse rows of more features than rows hold whole numbers, some beyond 1."""
    if X.shape[1] <= X.shape[0] or not X.nnz:
        return False
    some = X.data[:_LOOKED_AT]
    return bool((some >= 0).all() and (some == some.round()).all() and some.max() > 1)


def fractional_label(labels: list[str]) -> str | None:
    """The first label with a fraction where all labels are finite numbers, else None.

    That is the rule of scikit-learn's ``check_classification_targets``, by which ``fit`` refuses
    continuous targets; labels of a file are text, which it would let pass.
    """
    try:
        values = [float(text) for text in labels]
    except ValueError:
        return None
    if not all(map(math.isfinite, values)):
        return None
    return next((t for t, v in zip(labels, values, strict=True) if not v.is_integer()), None)
