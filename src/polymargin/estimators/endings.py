"""How a training ended, in sentences that warnings and reports share."""

from __future__ import annotations

import math

__all__ = ["ending", "unfinished"]

_ENDINGS = {
    "converged": "Training ended because the gap asked for was reached.",
    "max_iter": "Training ended at the limit of iterations",
    "max_time": "Training ended at the time limit",
    "interrupted": "Training was interrupted; the model is the best of that moment.",
    "stalled": "Training ended because the arithmetic allowed no further progress.",
    "not_separable": "The classes cannot be separated, so there is no hard margin; the model is "
    "the one of the largest margin reached.",
    "hulls_meet": "The convex hulls of the classes have a common point: every score is zero and "
    "every prediction is a tie.",
}
_LIMITS = ("max_iter", "max_time")


def ending(status: str, gap: float, tol: float) -> str | None:
    """How a model with this status and relative duality gap came to its end; None if unknown."""
    if status not in _LIMITS:
        return _ENDINGS.get(status)
    if gap <= tol:
        return (
            f"{_ENDINGS[status]}: the gap asked for was reached at the assignment so far, but the "
            "search for a better assignment was not over."
        )
    return f"{_ENDINGS[status]}, before the gap asked for was reached."


def unfinished(status: str, gap: float, tol: float, advice: str, is_hard: bool = False) -> str:
    """The warning of a fit that a limit or the arithmetic ended.

    Fits with one prototype per class whose gap is within ``tol`` are "converged", so a gap within
    it means that the search for an assignment to prototypes was cut short.  The gap of a hard
    margin may be infinite because no separating model was found yet; elsewhere an infinite gap
    means that there was no time for a certificate.
    """
    start = f"Training ended ({status})"
    if math.isinf(gap) and not is_hard:
        reached = "before a certificate could be computed, so its duality gap is unknown"
        return f"{start} {reached}. {advice}"
    value = f"a relative duality gap of {gap:.2e}"
    if gap > tol:
        return f"{start} with {value}, above tol={tol:g}. {advice}"
    if status in _LIMITS:
        advice = f"Increase {status}."
    return (
        f"{start} before the search for a better assignment was over; {value} at the one so far is "
        f"within tol={tol:g}. {advice}"
    )
