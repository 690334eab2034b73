"""Warnings of polymargin; errors are plain ``ValueError``/``TypeError`` with the argument named."""

from __future__ import annotations

__all__ = ["CollapsedModelWarning", "IndefiniteKernelWarning", "NotSeparableWarning"]


class NotSeparableWarning(UserWarning):
    """The hard-margin problem has no solution: the classes cannot be separated."""


class CollapsedModelWarning(UserWarning):
    """The optimal model is (nearly) zero, so that every class gets the same score."""


class IndefiniteKernelWarning(UserWarning):
    """The kernel is not positive semi-definite: a small duality gap proves nothing."""
