"""The best unpenalised intercept of Weston-Watkins: a minimum-cost circulation on the classes.

Problem card, (4.12).  alpha_ik is flow on an arc from node y_i to node k with cost g_ik and
capacity C_i; among all circulations find a cheapest one.  Its node potentials are an intercept b of
least primal value (4.10).  Potentials shift the costs of all arcs between two classes equally, so
the arcs in use are always a prefix of the arcs sorted by cost: the state is one place per ordered
pair of classes.  Shortest paths from nodes with surplus to nodes with need restore the balance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polymargin.compiled.jit import inlined, jit

__all__ = ["Circulation", "cheapest_circulation"]


class Circulation(NamedTuple):
    """A cheapest circulation and everything that is known of its potentials.

    Attributes
    ----------
    bias : (Q,) potentials, optimal, of mean zero.
    low, high : (Q, Q)
        The optimal potentials are exactly those with low[a, c] <= b_c - b_a <= high[a, c].
    flow : (n, Q) gamma: what each arc carries.
    """

    bias: np.ndarray
    low: np.ndarray
    high: np.ndarray
    flow: np.ndarray


def cheapest_circulation(
    cost: np.ndarray, own: np.ndarray, cap: np.ndarray, start: np.ndarray | None = None
) -> Circulation:
    """Solve (4.12) exactly.

    Parameters
    ----------
    cost : (n, Q) g_ik; the own column is ignored.
    own : (n,) y_i.
    cap : (n,) finite C_i > 0.
    start : (Q,) or None
        Potentials to begin with: near the answer few paths are needed.
    """
    n, Q = cost.shape
    rival = np.ones((n, Q), dtype=bool)
    rival[np.arange(n), own] = False
    pattern, rival_class = np.nonzero(rival)
    pair = own[pattern] * Q + rival_class
    order = np.lexsort((cost[pattern, rival_class], pair))
    pattern, rival_class, pair = pattern[order], rival_class[order], pair[order]
    sorted_cost = np.ascontiguousarray(cost[pattern, rival_class], dtype=np.float64)
    sorted_cap = np.ascontiguousarray(cap[pattern], dtype=np.float64)
    first = np.searchsorted(pair, np.arange(Q * Q + 1))
    bias = np.zeros(Q) if start is None else np.array(start, dtype=np.float64)
    place = np.zeros(Q * Q, dtype=np.int64)
    part = np.zeros(Q * Q)
    nodes, before = np.zeros((4, Q)), np.empty(Q, dtype=np.int64)
    _balance(sorted_cost, sorted_cap, first, bias, place, part, nodes, before)
    low, high = _bounds(sorted_cost, first, place, part)
    used = np.zeros(len(pair))
    for k in range(Q * Q):
        used[first[k] : place[k]] = sorted_cap[first[k] : place[k]]
        if part[k] > 0.0:
            used[place[k]] = part[k]
    flow = np.zeros((n, Q))
    flow[pattern, rival_class] = used
    return Circulation(bias - bias.mean(), low.reshape(Q, Q), high.reshape(Q, Q), flow)


def _bounds(
    cost: np.ndarray, first: np.ndarray, place: np.ndarray, part: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cost of the last arc in use and of the first that is not, for every ordered pair."""
    low = np.full(len(place), -np.inf)
    high = np.full(len(place), np.inf)
    for k in range(len(place)):
        if place[k] < first[k + 1]:
            high[k] = cost[place[k]]
        if part[k] > 0.0:
            low[k] = cost[place[k]]
        elif place[k] > first[k]:
            low[k] = cost[place[k] - 1]
    return low, high


@inlined
def _shortest_arc(
    cost: Any, cap: Any, first: Any, bias: Any, place: Any, part: Any, v: Any, c: Any
) -> tuple[float, float, bool]:
    """Length and capacity of one more arc v -> c, or of taking one arc c -> v back, and which."""
    Q = len(bias)
    length, width, takes_back = np.inf, 0.0, False
    k = v * Q + c
    t = place[k]
    if t < first[k + 1]:
        length, width = cost[t] + bias[v] - bias[c], cap[t] - part[k]
    k = c * Q + v
    is_part = part[k] > 0.0
    t = place[k] if is_part else place[k] - 1
    if t >= first[k]:
        back = -(cost[t] + bias[c] - bias[v])
        if back < length:
            length, width, takes_back = back, part[k] if is_part else cap[t], True
    return length, width, takes_back


@jit
def _balance(
    cost: Any, cap: Any, first: Any, bias: Any, place: Any, part: Any, nodes: Any, before: Any
) -> None:
    """Potentials and the place in every sorted list at which the circulation is balanced.

    ``place[k]`` is the first arc of pair k that is not full, ``part[k]`` what that one carries;
    ``nodes`` (zeros) and ``before`` are scratch.
    """
    Q = len(bias)
    surplus, distance, room, done = nodes[0], nodes[1], nodes[2], nodes[3]
    scale = 0.0
    for a in range(Q):
        for c in range(Q):
            k = a * Q + c
            t = first[k]
            shift = bias[a] - bias[c]
            while t < first[k + 1] and cost[t] + shift < 0.0:
                surplus[c] += cap[t]
                surplus[a] -= cap[t]
                scale += cap[t]
                t += 1
            place[k] = t
    negligible = 1e-13 * (scale + 1e-300)
    for _ in range(100 * (len(cost) + Q)):
        # all nodes with surplus are at distance zero
        any_surplus = False
        for v in range(Q):
            done[v] = 0.0
            before[v] = -1
            distance[v] = np.inf
            room[v] = np.inf
            if surplus[v] > negligible:
                distance[v] = 0.0
                any_surplus = True
        if not any_surplus:
            return
        end = -1
        while True:
            v = -1
            for w in range(Q):
                if done[w] == 0.0 and distance[w] < np.inf and (v < 0 or distance[w] < distance[v]):
                    v = w
            if v < 0:
                return
            done[v] = 1.0
            if surplus[v] < -negligible:
                end = v
                break
            for c in range(Q):
                if c == v or done[c] != 0.0:
                    continue
                length, width, _ = _shortest_arc(cost, cap, first, bias, place, part, v, c)
                if length == np.inf:
                    continue
                reach = distance[v] + max(length, 0.0)
                if reach < distance[c]:
                    distance[c] = reach
                    before[c] = v
                    room[c] = min(room[v], width)
        start = end
        while before[start] >= 0:
            start = before[start]
        amount = min(room[end], min(surplus[start], -surplus[end]))
        c = end
        while before[c] >= 0:
            v = before[c]
            # the same choice as above, before the potentials move
            _, _, takes_back = _shortest_arc(cost, cap, first, bias, place, part, v, c)
            if takes_back:
                k = c * Q + v
                if part[k] <= 0.0:
                    place[k] -= 1
                    part[k] = cap[place[k]]
                part[k] -= amount
                if part[k] <= 1e-15 * cap[place[k]]:
                    part[k] = 0.0
            else:
                k = v * Q + c
                part[k] += amount
                if part[k] >= cap[place[k]] * (1.0 - 1e-15):
                    part[k] = 0.0
                    place[k] += 1
            c = v
        for v in range(Q):
            bias[v] += min(distance[v], distance[end])
        surplus[start] -= amount
        surplus[end] += amount
