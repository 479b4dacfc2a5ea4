"""The only certificate: a linear inequality that every point of a cell obeys, and what meeting it costs.

For multipliers lam_j >= 0 and any images e_j, convexity of f_j = s_j |M_j beta|^2 - 2 A_j'M_j beta + g_j
gives

    q'beta >= tau    with    q = sum_j 2 lam_j M_j'(A_j - s_j e_j),    tau = sum_j lam_j (g_j - s_j |e_j|^2)

for all beta of the cell. Its cheapest solution within the bounds is a fractional knapsack, whose value no
counterfactual can beat, whatever a solver did to find lam and e.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
EPS = float(np.finfo(float).eps)


def knapsack(q: Floats, tau: Floats, lo: Floats, hi: Floats) -> Floats:
    """Return min |beta|_1 s.t. q'beta >= tau, lo <= beta <= hi, row by row; infinity if there is none.

    q (n, d), tau (n,) and lo <= 0 <= hi (n, d).

    Examples
    --------
    >>> free = np.full((2, 2), np.inf)
    >>> q, tau = np.array([[1.0, -2.0], [1.0, -2.0]]), np.array([4.0, 4.0])
    >>> knapsack(q, tau, np.array([[-np.inf, -np.inf], [-1.0, -1.0]]), free)
    array([2., 3.])
    """
    rate, bounded = np.abs(q), lo.max() > -np.inf or hi.min() < np.inf
    if bounded:
        room = np.where(q > 0, hi, -lo)
        rate = np.where(room > 0, rate, 0.0)
    index, best = np.arange(len(q)), rate.argmax(axis=1)
    top = rate[index, best]
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.where(tau > 0, tau / top, 0.0)
        if not bounded:
            return result
        short = (tau > 0) & (top > 0) & (top * room[index, best] < tau)
    if short.any():
        result[short] = _filled(rate[short], room[short], tau[short])[0]
    return result


def knapsack_change(q: Floats, tau: Floats, lo: Floats, hi: Floats) -> Floats:
    """Return the change (n, d) that attains the value of `knapsack`, else all features at their ends."""
    room = np.where(q > 0, hi, -lo)
    rate = np.where(room > 0, np.abs(q), 0.0)
    return np.sign(q) * _filled(rate, room, np.maximum(tau, 0.0))[1]


def _filled(rate: Floats, room: Floats, tau: Floats) -> tuple[Floats, Floats]:
    """Fill up the features in the order of their rates until `tau` is reached; return value and amounts."""
    order = np.argsort(-rate, axis=1, kind="stable")
    rates = np.take_along_axis(rate, order, axis=1)
    rooms = np.where(rates > 0, np.take_along_axis(room, order, axis=1), 0.0)
    before = np.cumsum(np.where(rates > 0, rates * rooms, 0.0), axis=1)
    rest = tau[:, None] - np.concatenate([np.zeros((len(tau), 1)), before[:, :-1]], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        amounts = np.where((rates > 0) & (rest > 0), np.minimum(rooms, rest / rates), 0.0)
    result = np.zeros_like(rate)
    np.put_along_axis(result, order, amounts, axis=1)
    return np.where(before[:, -1] >= tau, amounts.sum(axis=1), np.inf), result


def certified(
    q: Floats, tau: Floats, q_size: Floats, tau_size: Floats, lo: Floats, hi: Floats, unit: float
) -> Floats:
    """Return the value of `knapsack`, lowered by all that rounding may have added, of shape (n,).

    `q_size` and `tau_size` are the sizes of the terms that were summed into q and tau, `unit` is the relative
    error of such sums. Where the sign is in doubt, the side with more room counts.
    """
    slack = unit * q_size
    worse, doubt = q + np.copysign(slack, q), np.abs(q) <= slack
    if doubt.any():
        worse[doubt] = np.where(hi >= -lo, 1.0, -1.0)[doubt] * np.abs(worse[doubt])
    return knapsack(worse, tau - unit * tau_size, lo, hi) * (1 - unit)
