"""Convex programs over changes and budgets, the certificate that any multipliers give, and their units.

In scaled changes beta = w delta and positive budgets y (shares of one total),

    min |beta|_1   s.t.   s_c beta'G_c beta - 2 C_c'beta + g_c - h_c log(y_j(c)) <= 0   for all c
                          sum_j cost_j y_j <= total,   low <= y <= high,   lo <= beta <= hi

with s_c, h_c >= 0. A constraint without a budget has h_c = 0, a half-space s_c = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.engine.certificate import knapsack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Convex(NamedTuple):
    """The constraints of one program, as compiled loops read them."""

    metric: Ints  # (m,) which of the Gram matrices, -1 for a half-space
    s: Floats  # (m,)
    C: Floats  # (m, d)
    g: Floats  # (m,)
    size: Floats  # (m,) size of the terms of g
    reach: Floats  # (m,) C_k is a sum of terms of size at most reach * |M_k|
    h: Floats  # (m,)
    budget: Ints  # (m,) which budget, -1 if none
    cost: Floats  # (J,)
    low: Floats  # (J,)
    high: Floats  # (J,)
    total: float


def without_budgets(metric: Ints, s: Floats, C: Floats, g: Floats, size: Floats, reach: Floats) -> Convex:
    """Return the program of constraints that ask for no budget."""
    none, n = np.empty(0), len(g)
    no_budget = np.full(n, -1, dtype=np.int64)
    return Convex(metric, s, C, g, size, reach, np.zeros(n), no_budget, none, none, none, 1.0)


@inner
def size_of(beta: Floats) -> float:
    """Return |beta|_1."""
    total = 0.0
    for k in range(len(beta)):
        total += abs(beta[k])
    return total


@inner
def put(source: Floats, target: Floats) -> None:
    """Copy one row of numbers into another."""
    for k in range(len(source)):
        target[k] = source[k]


@inner
def joined(program: Convex, extra: Convex) -> Convex:
    """Return the program with the further constraints of another one, which asks for no budgets."""
    if len(extra.g) == 0:
        return program
    return Convex(
        np.concatenate((program.metric, extra.metric)), np.concatenate((program.s, extra.s)),
        np.concatenate((program.C, extra.C)), np.concatenate((program.g, extra.g)),
        np.concatenate((program.size, extra.size)), np.concatenate((program.reach, extra.reach)),
        np.concatenate((program.h, extra.h)), np.concatenate((program.budget, extra.budget)),
        program.cost, program.low, program.high, program.total,
    )  # fmt: skip


@compiled
def cheapest_budgets(
    weight: Floats, cost: Floats, low: Floats, high: Floats, total: float, price: float
) -> float:
    """Return a lower bound of min -sum_j weight_j log(y_j) s.t. cost'y <= total, low <= y <= high.

    Weak duality: any `price` >= 0 of the total gives a bound, the right one gives the minimum.

    >>> one = np.ones(2)
    >>> round(cheapest_budgets(np.array([1.0, 3.0]), one, 0 * one + 1e-9, one, 1.0, 4.0), 12)
    2.249340578475
    """
    value = -price * total
    for j in range(len(weight)):
        y = high[j]
        if price * cost[j] * high[j] > weight[j]:
            y = max(weight[j] / (price * cost[j]), low[j])
        value += price * cost[j] * y - weight[j] * np.log(y)
    return value


@inner
def certificate(
    G: Floats, P: Convex, beta: Floats, lam: Floats, price: float, lo: Floats, hi: Floats, unit: float
) -> float:
    """Return the bound that multipliers lam, a point beta and a price of the budgets prove."""
    d = len(beta)
    q, doubt = np.zeros(d), np.zeros(d)
    tau, size = 0.0, 0.0
    weight = np.zeros(len(P.cost))
    for c in range(len(lam)):
        if lam[c] <= 0.0:
            continue
        tau += lam[c] * P.g[c]
        size += lam[c] * P.size[c]
        if P.budget[c] >= 0:
            weight[P.budget[c]] += lam[c] * P.h[c]
        for k in range(d):
            q[k] += 2 * lam[c] * P.C[c, k]
        if P.metric[c] < 0:
            for k in range(d):
                doubt[k] += 2 * lam[c] * abs(P.C[c, k])
            continue
        gram = G[P.metric[c]]
        squared = 0.0
        for k in range(d):
            value = 0.0
            for f in range(d):
                value += gram[k, f] * beta[f]
            q[k] -= 2 * lam[c] * P.s[c] * value
            squared += value * beta[k]
        squared = max(squared, 0.0)
        tau -= lam[c] * P.s[c] * squared
        size += lam[c] * P.s[c] * squared
        for k in range(d):
            doubt[k] += 2 * lam[c] * (P.reach[c] + P.s[c] * np.sqrt(squared)) * np.sqrt(gram[k, k])
    if len(weight):
        part = cheapest_budgets(weight, P.cost, P.low, P.high, P.total, price)
        tau += part
        size += abs(part) + price * P.total
    for k in range(
        d
    ):  # what rounding may have taken from |q|; a sign that is in doubt counts as the worse one
        slack = unit * doubt[k]
        q[k] += slack if q[k] > 0 else -slack
        if abs(q[k]) <= 2 * slack and not (hi[k] > 0 if q[k] > 0 else lo[k] < 0):
            q[k] = -q[k]
    return knapsack(q, tau - unit * size, lo, hi) * (1 - unit)


@inner
def scale_of(P: Convex, lo: Floats, hi: Floats, cutoff: float) -> float:
    """Return a length to measure changes in: what the most demanding constraint asks for to first order."""
    unit = 0.0
    for c in range(len(P.g)):
        rate = 0.0
        for k in range(len(lo)):
            if hi[k] > lo[k]:
                rate = max(rate, 2 * abs(P.C[c, k]))
        if rate > 0:
            unit = max(unit, abs(P.g[c]) / rate)
    unit = min(unit, cutoff)
    return unit if unit > 0 else 1.0


@inner
def in_units(P: Convex, unit: float, lo: Floats, hi: Floats) -> tuple[Convex, Floats]:
    """Return the program in units of length, and what each constraint was multiplied by."""
    m = len(P.g)
    row = np.empty(m)
    for c in range(m):
        rate = 0.0
        for k in range(len(lo)):
            if hi[k] > lo[k]:
                rate = max(rate, 2 * abs(P.C[c, k]))
        row[c] = 1 / max(rate * unit, abs(P.g[c]), 1e-300)
    scaled = Convex(
        P.metric,
        P.s * row * unit**2,
        P.C * (row * unit).reshape(-1, 1),
        P.g * row,
        P.size * row,
        P.reach * row * unit,
        P.h * row,
        P.budget,
        P.cost,
        P.low,
        P.high,
        P.total,
    )
    return scaled, row
