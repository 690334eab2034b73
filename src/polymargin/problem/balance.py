"""Balance: signed variables whose coefficients have vanishing column sums (free intercept, 19.4).

A dual value is a bound only at a feasible point.  With a free intercept the coefficients of every
prototype must sum to zero over the patterns; ``repair`` lowers dual variables until they do.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from polymargin.problem.machines import Machine

__all__ = ["repair"]


def repair(machine: Machine, signed: np.ndarray, own: np.ndarray, lack: np.ndarray) -> np.ndarray:
    """The nearest point by lowering alone whose coefficients have vanishing column sums (19.4).

    Variables whose constraints are met best (``lack`` lowest) are lowered first: that costs the
    dual value least, and few patterns change.

    Parameters
    ----------
    machine : Machine
    signed : (n, Q) signed variables.
    own : (n,) own prototype of each pattern.
    lack : (n, Q) what each constraint lacks (``Machine.deficits``).
    """
    alpha = -signed
    rows = np.arange(len(own))
    alpha[rows, own] = 0.0
    if machine.K1:
        flow = np.zeros((signed.shape[1], signed.shape[1]))
        np.add.at(flow, own, alpha)
        excess = _excess_flow(flow)
        for a, c in zip(*np.nonzero(excess), strict=True):
            _lower(
                alpha[:, c],
                np.flatnonzero((own == a) & (alpha[:, c] > 0.0)),
                lack[:, c],
                excess[a, c],
            )
        # what rounding left over is settled on the largest flows
        _settle(alpha, own)
    else:
        sums = alpha.sum(axis=0)
        for k in np.flatnonzero(sums > sums.min()):
            _lower(alpha[:, k], np.flatnonzero(alpha[:, k] > 0.0), lack[:, k], sums[k] - sums.min())
    repaired = -alpha
    repaired[rows, own] = 0.0
    return repaired


def _lower(column: np.ndarray, entries: np.ndarray, lack: np.ndarray, amount: float) -> None:
    """Take ``amount`` from the entries of a column, best met constraints first; in place."""
    order = entries[np.argsort(lack[entries], kind="stable")]
    ends = np.cumsum(column[order])
    last = int(np.searchsorted(ends, amount))
    if last >= len(order):
        column[order] = 0.0
        return
    left = ends[last] - amount
    column[order[:last]] = 0.0
    column[order[last]] = left


def _excess_flow(flow: np.ndarray) -> np.ndarray:
    """What to take from the flow between classes so that every class is balanced (19.4).

    The excess is a sum of paths from classes with too much outflow to classes with too much inflow;
    shortest paths along arcs with flow are cancelled one after the other.
    """
    Q = len(flow)
    rest = flow.copy()
    excess = np.zeros((Q, Q))
    negligible = 1e-15 * flow.sum()
    balance = rest.sum(axis=1) - rest.sum(axis=0)
    for _ in range(4 * Q * Q):
        start = int(balance.argmax())
        if balance[start] <= negligible:
            break
        path = _path_to_need(rest, balance, start, negligible)
        if path is None:
            break
        arcs = list(pairwise(path))
        amount = min([balance[start], -balance[path[-1]], *(rest[arc] for arc in arcs)])
        for arc in arcs:
            rest[arc] -= amount
            excess[arc] += amount
        balance[start] -= amount
        balance[path[-1]] += amount
    return excess


def _path_to_need(
    rest: np.ndarray, balance: np.ndarray, start: int, negligible: float
) -> list[int] | None:
    before = {start: start}
    frontier = [start]
    while frontier:
        reached = []
        for a in frontier:
            for c in np.flatnonzero(rest[a] > 0.0):
                if c in before:
                    continue
                before[int(c)] = a
                if balance[c] < -negligible:
                    path = [int(c)]
                    while path[-1] != start:
                        path.append(before[path[-1]])
                    return path[::-1]
                reached.append(int(c))
        frontier = reached
    return None


def _settle(alpha: np.ndarray, own: np.ndarray) -> None:
    """Repeat the balancing on what rounding left, lowering the largest variables; in place."""
    Q = alpha.shape[1]
    for _ in range(3):
        flow = np.zeros((Q, Q))
        np.add.at(flow, own, alpha)
        balance = flow.sum(axis=1) - flow.sum(axis=0)
        if np.abs(balance).max(initial=0.0) <= 1e-15 * flow.sum():
            return
        excess = _excess_flow(flow)
        for a, c in zip(*np.nonzero(excess), strict=True):
            members = np.flatnonzero(own == a)
            largest = members[alpha[members, c].argmax()]
            alpha[largest, c] = max(alpha[largest, c] - excess[a, c], 0.0)
