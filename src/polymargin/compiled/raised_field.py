"""A field whose rivals ask for margins of their own: the scores that costs add to.

Where saying j instead of i costs c_ij, an example of class i asks rival j for the margin c_ij
instead of the machine's target.  That is the same as the target itself with the score of rival j
raised by c_ij - target (24.1): the loops of unit costs run as they are, on raised scores; without
costs there is no such field, and nothing changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polymargin.compiled.fields import (
    VERBS,
    Verbs,
    difference,
    is_ready,
    push,
    push_list,
    push_pair,
    read,
)

if TYPE_CHECKING:
    from polymargin.problem.problem import Problem

__all__ = ["RaisedField", "raised"]


class RaisedField(NamedTuple):
    """A field, the classes (m,) of its patterns, and what is added: ``extra[class, prototype]``.

    ``extra`` is 0 for prototypes of the own class.
    """

    field: Any
    label: np.ndarray
    extra: np.ndarray


def raised(problem: Problem, field: Any, label: np.ndarray) -> Any:
    """The field as loops are to see it: itself where all rivals ask for the machine's target."""
    extra = problem.extra_margins
    return field if extra is None else RaisedField(field, label, extra)


def _read_raised(field: Any, i: Any, active: Any, count: Any, out: Any) -> None:
    read(field.field, i, active, count, out)
    for q in range(count):
        out[q] += field.extra[field.label[i], np.intp(active[i, q])]


def _difference_raised(field: Any, i: Any, r: Any, s: Any) -> float:
    k = field.label[i]
    return difference(field.field, i, r, s) + (field.extra[k, r] - field.extra[k, s])


def _unchanged(verb: Any) -> Any:
    """A verb that does not see what is added to scores."""

    def passed_on(field: Any, *arguments: Any) -> Any:
        return verb(field.field, *arguments)

    return passed_on


VERBS[RaisedField] = Verbs(
    _read_raised, _difference_raised, *map(_unchanged, (push, push_pair, push_list, is_ready))
)
