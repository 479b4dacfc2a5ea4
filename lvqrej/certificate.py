"""One certificate for every solver: a linear inequality that every point of a cell obeys, and its cost.

For multipliers lam_j >= 0 and any point e_j = M_j beta, convexity of f_j(beta) = s_j |M_j beta|^2 - 2 A_j'M_j beta + g_j gives

    q'beta >= tau    with    q = sum_j 2 lam_j M_j'(A_j - s_j e_j),    tau = sum_j lam_j (g_j - s_j |e_j|^2)

for all beta of the cell. Its cheapest solution within the bounds is a fractional knapsack, whose value no
counterfactual can beat, whatever a solver did to find lam and beta.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(cache=True)
def knapsack(q: Floats, tau: float, lo: Floats, hi: Floats) -> float:
    """Return min |beta|_1 s.t. q'beta >= tau, lo <= beta <= hi; infinity if there is no such beta.

    >>> free = np.array([np.inf, np.inf])
    >>> knapsack(np.array([1.0, -2.0]), 4.0, -free, free)
    2.0
    >>> knapsack(np.array([1.0, -2.0]), 4.0, np.array([-1.0, -1.0]), free)
    3.0
    """
    if tau <= 0:
        return 0.0
    best, capacity = 0.0, 0.0
    for k in range(len(q)):
        room = hi[k] if q[k] > 0 else -lo[k]
        if room > 0 and abs(q[k]) > best:
            best, capacity = abs(q[k]), room
    if best == 0.0:
        return np.inf
    if best * capacity >= tau:
        return tau / best
    total = 0.0
    for k in np.argsort(-np.abs(q)):
        room = hi[k] if q[k] > 0 else -lo[k]
        if room > 0 and q[k] != 0.0:
            if abs(q[k]) * room >= tau:
                return total + tau / abs(q[k])
            tau -= abs(q[k]) * room
            total += room
    return np.inf


@njit(cache=True)
def certified(
    q: Floats, doubt: Floats, tau: float, tau_doubt: float, lo: Floats, hi: Floats, unit: float
) -> float:
    """Return the knapsack's value, lowered by all that rounding may have added.

    `doubt` bounds the sizes of the terms that were summed into q, `tau_doubt` those of tau; `unit` is the
    relative error of such a sum. q is overwritten.
    """
    for k in range(len(q)):
        q[k] += unit * doubt[k] if q[k] > 0 else -unit * doubt[k]
        if q[k] != 0.0 and not (hi[k] > 0 if q[k] > 0 else lo[k] < 0) and abs(q[k]) <= 2 * unit * doubt[k]:
            q[k] = -q[k]
    return knapsack(q, tau - unit * tau_doubt, lo, hi) * (1 - unit)
