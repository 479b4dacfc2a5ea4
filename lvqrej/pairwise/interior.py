"""A compiled interior-point method for `programs`, each of whose bounds is certified.

The bound that is returned does not trust the method: it holds for any multipliers, by convexity and weak
duality.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled
from lvqrej.pairwise.newton import advance, evaluate, factorise, start
from lvqrej.pairwise.programs import Convex, certificate, in_units, put, scale_of

Floats = NDArray[np.float64]
_EPS = float(np.finfo(float).eps)
#: A bound of so many first-order distances is that of an empty set.
_EMPTY = 1e6


class Solution(NamedTuple):
    """What the method ended with; `bound` is a proven lower bound whatever the rest is."""

    bound: float
    beta: Floats  # (d,)
    budgets: Floats  # (J,)
    multipliers: Floats  # (m,) d |beta|_1 / d (right-hand side)
    violation: float  # largest violation in units of length
    steps: int


@compiled
def interior_point(
    G: Floats, program: Convex, lo: Floats, hi: Floats, cutoff: float, tolerance: float, max_steps: int = 40
) -> Solution:
    """Solve the program until its relative gap is at most `tolerance` or its bound exceeds `cutoff`.

    Parameters
    ----------
    G : ndarray of shape (M, d, d)
        Gram matrices.
    program : Convex
        With low < high for each budget, cost'low < total.
    lo, hi : ndarrays of shape (d,)
        With lo <= 0 <= hi; equal ones fix a feature.
    """
    unit = scale_of(program, lo, hi, cutoff)
    P, row = in_units(program, unit, lo, hi)
    lo, hi = lo / unit, hi / unit
    d, m = len(lo), len(P.g)
    eps = (2 * d + 16) * _EPS
    T = start(G, P, lo, hi)
    first, last = len(T.x) - 1 - m, len(T.x) - 1  # the multipliers of the constraints
    best, violation, steps = 0.0, np.inf, 0
    beta, y, lam = T.beta.copy(), T.y.copy(), np.zeros(m)
    while steps < max_steps:
        steps += 1
        excess = evaluate(G, P, T)
        product, count, length, worst = 0.0, 0, 0.0, 0.0
        for k in range(len(T.x)):
            if T.in_use[k]:
                product += T.x[k] * T.z[k]
                count += 1
        if not np.isfinite(product):
            break
        for k in range(d):
            length += abs(T.beta[k])
        for c in range(m):
            worst = max(worst, T.value[c])
        best = max(best, certificate(G, P, T.beta, T.z[first:last], T.z[last], lo, hi, eps))
        put(T.beta, beta)
        put(T.y, y)
        put(T.z[first:last], lam)
        violation = worst
        solved = max(length - best, product) <= tolerance * length and worst <= tolerance
        if solved or best >= min(cutoff / unit, _EMPTY) or product < 1e-15 * count:
            break
        factorise(G, P, T)
        advance(P, T, excess, product / count)
    return Solution(
        best * unit if best < _EMPTY else np.inf, beta * unit, y, lam * row * unit, violation, steps
    )
