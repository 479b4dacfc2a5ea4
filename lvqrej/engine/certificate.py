"""One certificate for every solver: a linear inequality that every point of a cell obeys, and its cost.

For multipliers lam_j >= 0 and points e_j, convexity of f_j = s_j |M_j beta|^2 - 2 A_j'M_j beta + g_j gives

    q'beta >= tau    with    q = sum_j 2 lam_j M_j'(A_j - s_j e_j),    tau = sum_j lam_j (g_j - s_j |e_j|^2)

for all beta of the cell. Its cheapest solution within the bounds is a fractional knapsack, whose value no
counterfactual can beat, whatever a solver did to find lam and beta.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled

Floats = NDArray[np.float64]


@compiled
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
    total, last = 0.0, np.inf
    while best > 0:  # fill up the features in the order of their |q|, equal ones together
        for k in range(len(q)):
            room = hi[k] if q[k] > 0 else -lo[k]
            if abs(q[k]) == best and room > 0:
                if best * room >= tau:
                    return total + tau / best
                tau -= best * room
                total += room
        last, best = best, 0.0
        for k in range(len(q)):
            room = hi[k] if q[k] > 0 else -lo[k]
            if room > 0 and best < abs(q[k]) < last:
                best = abs(q[k])
    return np.inf


@compiled
def certified(
    q: Floats, doubt: Floats, tau: float, margin: float, tau_doubt: float, lo: Floats, hi: Floats, unit: float
) -> tuple[float, float]:
    """Return the value for the tightened right-hand side tau + margin, and a safe one for tau itself.

    The safe value is lowered by all that rounding may have added: `doubt` bounds the sizes of the terms that
    were summed into q, `tau_doubt` those of tau, `unit` is the relative error of such sums. q is overwritten.
    """
    plain = knapsack(q, tau + margin, lo, hi)
    for k in range(len(q)):
        slack = unit * doubt[k]
        q[k] += slack if q[k] > 0 else -slack
        if abs(q[k]) <= 2 * slack and not (hi[k] > 0 if q[k] > 0 else lo[k] < 0):
            q[k] = -q[k]
    return plain, knapsack(q, tau - unit * tau_doubt, lo, hi) * (1 - unit)
