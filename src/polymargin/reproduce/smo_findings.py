"""What the papers found, checked against our curves.

Counts decide (patterns optimised, kernel rows computed), which no other work of the machine can
change; seconds stand beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polymargin.reproduce.smo_curves import Curve, Member

__all__ = ["Finding", "check", "check_cubic", "comparison", "optimum"]

_NEAR = 0.999  # of the optimal dual value
_NEARER = 0.9999


@dataclass(frozen=True)
class Finding:
    """A statement of the papers, whether our curves agree, and the numbers."""

    statement: str
    is_confirmed: bool
    numbers: str

    def __str__(self) -> str:
        verdict = "confirmed" if self.is_confirmed else "NOT confirmed"
        return f"{verdict}: {self.statement}. {self.numbers}"


def find(curves: dict[str, Curve], label: str, rows: int, kernel: str = "rbf") -> Curve:
    """The curve of a member with a cache of so many rows."""
    return curves[Member(label, rows, None, kernel).key]


def optimum(curves: dict[str, Curve], kernel: str = "rbf") -> float:
    """The largest dual value that any run with that kernel reached."""
    return max(
        float(curve.columns["dual"].max())
        for curve in curves.values()
        if curve.member.kernel == kernel
    )


def check(curves: dict[str, Curve], few: int, many: int) -> list[Finding]:
    """The statements of the papers, one after the other."""
    best = optimum(curves)
    return [
        _selections(curves, many, best),
        _cooling(curves, many, best),
        _whole_patterns(curves, few, best),
        _rows(curves, (many, few), best),
    ]


def check_cubic(curves: dict[str, Curve], many: int) -> list[Finding]:
    """The two statements about values of patterns with a kernel whose K_ii differ.

    With K_ii = 1 (RBF) the three values order patterns almost alike; the papers name no kernel.
    """
    best = optimum(curves, "poly")
    return [
        _selections(curves, many, best, "poly"),
        _rows(curves, (many,), best, "poly"),
    ]


_WORDS = {"rbf": "", "poly": ", cubic kernel"}


def _selections(curves: dict[str, Curve], many: int, best: float, kernel: str = "rbf") -> Finding:
    found = {}
    for selection in ("kkt", "amg", "bmg"):
        curve = find(curves, f"opt-kkt, {selection}, mean", many, kernel)
        found[selection] = [
            curve.first(column, "dual", level * best)
            for column in ("patterns", "seconds")
            for level in (0.99, _NEAR)
        ]
    numbers = "; ".join(
        f"{name.upper()} {p[0]:.0f} and {p[1]:.0f} patterns, {p[2]:.2f} and {p[3]:.2f} s"
        for name, p in found.items()
    )
    slow = found["kkt"]
    faster = all(found[name][k] < slow[k] for name in ("amg", "bmg") for k in (0, 1))
    return Finding(
        f"the new selections (AMG, BMG) converge faster than KKT{_WORDS[kernel]}",
        faster,
        f"Patterns optimised to 99 and {100 * _NEAR:g} % of the optimal dual value, mean, "
        f"{many} rows: {numbers}.",
    )


def _cooling(curves: dict[str, Curve], many: int, best: float) -> Finding:
    shares, ends = {}, {}
    for selection in ("kkt", "amg", "bmg"):
        curve = find(curves, f"opt-kkt, {selection}, log", many)
        shares[selection] = float(curve.columns["dual"].max()) / best
        ends[selection] = curve.status
    stalls = all(ends[s] == "stalled" and shares[s] < _NEAR for s in ("amg", "bmg"))
    numbers = "; ".join(
        f"{name.upper()} {100 * share:.2f} % ({ends[name]})" for name, share in shares.items()
    )
    return Finding(
        "log cooling stalls with AMG and BMG",
        stalls and max(shares["amg"], shares["bmg"]) < shares["kkt"],
        f"Dual value in the end, of the optimal one: {numbers}.",
    )


def _whole_patterns(curves: dict[str, Curve], few: int, best: float) -> Finding:
    whole = find(curves, "opt-kkt, bmg, mean", few)
    single = find(curves, "basic, bmg, mean", few)
    rows = [curve.first("kernel_rows", "dual", 0.99 * best) for curve in (whole, single)]
    seconds = [curve.first("seconds", "dual", 0.99 * best) for curve in (whole, single)]
    return Finding(
        "solving a pattern fully beats single pair steps when rows are scarce",
        _is_less(*rows),
        f"To 99 % of the optimal dual value with {few} rows: opt-kkt {rows[0]:.0f} kernel rows, "
        f"{seconds[0]:.2f} s; basic {rows[1]:.0f} rows, {seconds[1]:.2f} s.",
    )


def _rows(
    curves: dict[str, Curve], sizes: tuple[int, ...], best: float, kernel: str = "rbf"
) -> Finding:
    found = {
        size: [
            find(curves, f"opt-kkt, {selection}, mean", size, kernel).first(
                "kernel_rows", "dual", 0.99 * best
            )
            for selection in ("bmg", "kkt")
        ]
        for size in sizes
    }
    numbers = "; ".join(
        f"with {size} rows BMG {rows[0]:.0f}, KKT {rows[1]:.0f}" for size, rows in found.items()
    )
    return Finding(
        f"BMG needs fewer kernel rows than KKT{_WORDS[kernel]}",
        all(_is_less(*rows) for rows in found.values()),
        f"To 99 % of the optimal dual value {numbers}.",
    )


def _is_less(a: float, b: float) -> bool:
    """Whether a is smaller, also where b was never reached."""
    return bool(a < b or (np.isfinite(a) and not np.isfinite(b)))


def comparison(curves: dict[str, Curve]) -> list[tuple[str, int, str, list[float]]]:
    """Seconds to three dual levels and to the tolerance: (curve, rows, status, seconds)."""
    table = []
    for curve in curves.values():
        best = optimum(curves, curve.member.kernel)
        seconds = [curve.first("seconds", "dual", level * best) for level in (0.99, _NEAR, _NEARER)]
        is_done = curve.status == "converged"
        seconds.append(float(curve.columns["seconds"][-1]) if is_done else float("nan"))
        label = curve.member.label + _WORDS[curve.member.kernel]
        table.append((label, curve.member.rows, curve.status, seconds))
    return table
