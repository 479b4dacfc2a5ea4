"""The l1 projection onto an intersection of half-spaces: a dual simplex on small tableaus, in lock-step.

In scaled changes beta = u - v, with what goes up and what goes down apart, the program is

    min sum(u + v)   s.t.  y = Q (u - v) - g >= 0,  0 <= u <= hi,  0 <= v <= -lo

A tableau expresses the variables that move by those that rest at 0; one that would rest at its end is
measured from there. A pivot takes the variable that is missed most back to 0 and lets the one move that does
this for least. The cost only grows, and what the resting y are charged are multipliers that prove it as a
lower bound: the paper's early stopping for free. All problems of a batch take their steps together and leave
when they are done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.solvers.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Entries of the tableau below this are rounding: its rows are scaled to 1.
_PIVOT = 1e-12


class Vertex(NamedTuple):
    """Where the simplex ended: status (n,), change (n, d) and multipliers of the rows (n, R)."""

    status: Ints
    beta: Floats
    multipliers: Floats


def dual_simplex(
    Q: Floats, rows: Ints, g: Floats, slack: Floats, lo: Floats, hi: Floats, cutoff: Floats
) -> Vertex:
    """Solve min |beta|_1 s.t. Q[rows] beta >= g - slack, lo <= beta <= hi for each problem.

    Q (N, d) has the normals of all half-spaces, `rows` (n, R) which of them each problem has, padded with -1;
    g and slack are (n, R), lo <= 0 <= hi are (n, d). A problem whose cost exceeds the `cutoff` (n,) ends with
    CUT_OFF. On INFEASIBLE the multipliers prove a bound beyond the cutoff (a million times the present cost
    if there is none).

    Examples
    --------
    >>> free, Q = np.full((1, 2), np.inf), np.array([[2.0, 1.0], [-1.0, 1.0]])
    >>> g = np.array([[2.0, 1.0]])
    >>> vertex = dual_simplex(Q, np.array([[0, 1]]), g, 0 * g, -free, free, np.array([np.inf]))
    >>> vertex.beta.round(4), vertex.multipliers.round(4)
    (array([[0.3333, 1.3333]]), array([[0.6667, 0.3333]]))
    """
    (n, d), R, here, there = lo.shape, rows.shape[1], np.arange(len(rows)), rows >= 0
    status, beta, multipliers = np.full(n, UNRESOLVED), np.zeros((n, d)), np.zeros((n, R))
    size = np.abs(Q)
    steepest, rate = size.argmax(axis=1), size.max(axis=1)
    rate = np.where(rate > 0, rate, 1.0)[rows]  # in these units a violation is about the length it asks for
    g = np.where(there, g, -np.inf)
    # Often the most violated row alone, met by the feature that counts most in it, is all that is asked for.
    i = (g / rate).argmax(axis=1)
    j = rows[here, i]
    k = steepest[j]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.maximum(g[here, i], 0.0) / Q[j, k]
        met = Q[rows, k[:, None]] * change[:, None] >= g - slack
        met[here, i] = (lo[here, k] <= change) & (change <= hi[here, k]) & (Q[j, k] != 0)
        done = met.all(axis=1)
    at, left = done.nonzero()[0], (~done).nonzero()[0]
    status[at] = np.where(np.abs(change[at]) > cutoff[at], CUT_OFF, SOLVED)
    beta[at, k[at]], multipliers[at, i[at]] = change[at], 1 / rate[at, i[at]]
    if len(left):
        scale, mine = rate[left], there[left]
        A = Q[rows[left]] * (mine / scale)[:, :, None]  # padding always holds
        target = np.where(mine, g[left], 0.0) / scale
        status[left], beta[left], multipliers[left] = _pivoted(
            A, target, slack[left] / scale, lo[left], hi[left], cutoff[left]
        )
        multipliers[left] /= scale
    return Vertex(status, beta, multipliers)


def _pivoted(A: Floats, g: Floats, slack: Floats, lo: Floats, hi: Floats, cutoff: Floats) -> Vertex:
    """Pivot from where all of u and v rest, for rows A (n, R, d) that are scaled to 1.

    The variables are u, v and y in this order. A tableau (R + 1, 2 d + 1) has a row for each that moves and a
    column for each that rests: how much the one changes with the other. Its last column are values, its last
    row costs.
    """
    n, R, d = A.shape
    result = Vertex(np.full(n, UNRESOLVED), np.zeros((n, d)), np.zeros((n, R)))
    ends = np.concatenate([hi, -lo, np.full((n, R), np.inf)], axis=1)
    rounding = 1e-14 * np.maximum(g.max(axis=1, keepdims=True), 0.0)
    slack = np.concatenate([np.zeros((n, 2 * d)), slack], axis=1) + rounding
    T = np.zeros((n, R + 1, 2 * d + 1))
    T[:, :R, :d], T[:, :R, d:-1], T[:, :R, -1], T[:, R, :-1] = A, -A, -g, 1.0
    T[:, :R, :-1] *= ends[:, None, : 2 * d] > 0
    resting, moving = np.tile(np.arange(2 * d), (n, 1)), np.tile(2 * d + np.arange(R), (n, 1))
    turned, index, most = np.zeros(ends.shape, dtype=bool), np.arange(n), 20 + 4 * (d + R)
    for step in range(most + 1):
        here, values = np.arange(len(index)), T[:, :-1, -1]
        above = values - np.take_along_axis(ends, moving, axis=1)
        missed = np.maximum(-values, above) - np.take_along_axis(slack, moving, axis=1)
        i = missed.argmax(axis=1)
        row = T[here, i]
        (over,) = np.nonzero(above[here, i] > 0)
        if len(over):  # it is to go back to its end, from which it is measured now
            row[over] *= -1
            row[over, -1] = -above[over, i[over]]
            turned[over, moving[over, i[over]]] ^= True
            T[over, i[over]] = row[over]
        entries, costs = row[:, :-1], np.maximum(T[:, -1, :-1], 0.0)
        price = np.divide(costs, entries, out=np.full(costs.shape, np.inf), where=entries > _PIVOT)
        k = price.argmin(axis=1)
        status = np.where(np.isinf(price[here, k]), INFEASIBLE, -1)
        status[missed[here, i] <= 0] = SOLVED
        status[T[:, -1, -1] > cutoff] = CUT_OFF
        ended = (status >= 0) | (step == most)
        if ended.any():
            (empty,) = np.nonzero(status == INFEASIBLE)
            charge = _charge(T[empty, -1, -1], -row[empty, -1], cutoff[empty])
            T[empty, -1, :-1] -= charge[:, None] * row[empty, :-1]
            charges, points = np.zeros((2, *ends.shape))
            np.put_along_axis(charges, resting, T[:, -1, :-1], axis=1)
            charges[empty, moving[empty, i[empty]]] = charge
            np.put_along_axis(points, moving, values, axis=1)
            points = np.clip(np.where(turned, ends - points, points), 0.0, ends)
            at = index[ended]
            result.status[at] = np.where(step == most, UNRESOLVED, status)[ended]
            result.beta[at] = (points[:, :d] - points[:, d : 2 * d])[ended]
            result.multipliers[at] = np.maximum(charges[:, 2 * d :], 0.0)[ended]
            go = ~ended
            if not go.any():
                break
            T, ends, slack, cutoff, turned = T[go], ends[go], slack[go], cutoff[go], turned[go]
            resting, moving, index, row, i, k = resting[go], moving[go], index[go], row[go], i[go], k[go]
            here = np.arange(len(index))
        # Exchange the variables of row i and column k.
        column, pivot = T[here, :, k], row[here, k][:, None]
        row /= -pivot
        T += column[:, :, None] * row[:, None]
        T[here, i], T[here, :, k], T[here, i, k] = row, column / pivot, 1 / pivot[:, 0]
        moving[here, i], resting[here, k] = resting[here, k], moving[here, i]
    return result


def _charge(cost: Floats, missed: Floats, cutoff: Floats) -> Floats:
    """Return what to charge for a variable that nothing can move: each unit proves as much as is missed.

    So much that the bound is beyond doubt, not more: the charge alone might have its proof eaten by rounding.
    """
    goal = np.where(cutoff < np.inf, 2 * cutoff, 1e6 * (cost + missed))
    return np.maximum(goal - cost, 0.0) / missed
