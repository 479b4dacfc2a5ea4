"""The projection onto a cell with balls: one constraint decides, or two of the same curvature, compiled.

Balls of one metric and curvature share their quadratic part, so that every convex combination of two of them
is again a ball, which holds their intersection. By duality the cell's projection is that onto the combination
whose projection is farthest: a search for one number, with the homotopy inside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import inner
from lvqrej.cells import Packed
from lvqrej.engine.certificate import certified
from lvqrej.engine.homotopy import SOLVED, UNRESOLVED, homotopy
from lvqrej.engine.measure import Scaled, Space, add_centre, image, value_at

Floats = NDArray[np.float64]

HOMOTOPY, TWO_BALLS = 2, 3


@inner
def _one_ball(
    W: Scaled, metric: int, s: float, g: float, lo: Floats, hi: Floats, cutoff: float, T: Space
) -> int:
    """Project onto the ball (T.A, T.c, s, g); the result is T.beta with T.e = M beta."""
    Mt, A, e, ev, beta, v, active = W.Mt[metric], T.A, T.e, T.ev, T.beta, T.v, T.active
    steps = 4 * len(lo) + 20
    status, p = homotopy(W.gram[metric], T.c, s, g, lo, hi, cutoff, steps, T.chol, beta, v, active)
    image(Mt, beta, e)
    if status != SOLVED or s == 0.0:
        return status
    # The path works with the Gram matrix; the last step is redone with M itself, whose digits count.
    ev[:] = 0.0
    for i in range(p):
        for r in range(len(ev)):
            ev[r] += Mt[active[i], r] * v[i]
    f, slope, bend = g, 0.0, 0.0
    for r in range(len(e)):
        f += e[r] * (s * e[r] - 2 * A[r])
        slope += (A[r] - s * e[r]) * ev[r]
        bend += s * ev[r] * ev[r]
    discriminant = slope * slope - bend * f
    if slope > 0 and discriminant >= 0:
        t = f / (slope + np.sqrt(discriminant))
        for i in range(p):
            k = active[i]
            beta[k] = min(max(beta[k] + t * v[i], lo[k]), hi[k])
        image(Mt, beta, e)
    return SOLVED


@inner
def _certificate(
    P: Packed, W: Scaled, first: int, second: int, share: float, lo: Floats, hi: Floats, unit: float, T: Space
) -> tuple[float, float]:
    """Return the bound of the ball(s) at T.beta, plain and certified; without `second` if `share` is 0.

    y = A - s e serves as it is: whatever rounding did to it, some point e belongs to it, and that point's
    error is part of tau's doubt.
    """
    q, doubt, A, e = T.q, T.doubt, T.A, T.e
    tau = (1 - share) * T.g[first] + share * T.g[second]
    extra = (1 - share) * T.margin[first] + share * T.margin[second]
    size = (1 - share) * T.size[first] + share * T.size[second]
    if P.normal[first] >= 0:
        for f in range(len(q)):
            q[f] = 2 * T.c[f]
            doubt[f] = abs(q[f])
        return certified(q, doubt, tau, extra, size, lo, hi, unit)
    metric = P.site_metric[P.near[first]]
    M, length = W.M[metric], W.length[metric]
    s = P.alpha[first] - P.beta[first]
    squared, norm, residual = 0.0, 0.0, 0.0
    q[:] = 0.0
    for r in range(len(e)):
        y = A[r] - s * e[r]
        squared += e[r] * e[r]
        norm += A[r] * A[r]
        residual += y * y
        for k in range(len(q)):
            q[k] += 2 * y * M[r, k]
    residual = 2 * np.sqrt(residual)
    for k in range(len(q)):
        doubt[k] = residual * length[k]
    size += s * squared + 2 * np.sqrt(squared * norm)
    return certified(q, doubt, tau - s * squared, extra, size, lo, hi, unit)


@inner
def _missed(P: Packed, W: Scaled, cell: int, metric: int, settled: int, other: int, T: Space) -> int:
    """Return the constraint of the cell that T.beta misses most, but for the settled ones; -1 if none."""
    worst, found = 0.0, int(np.int64(-1))
    for j in range(P.start[cell], P.start[cell + 1]):
        if j != settled and j != other:
            value = value_at(P, W, j, metric, T) - 0.5 * T.margin[j]
            if value > worst * T.size[j]:
                worst, found = value / T.size[j], j
    return found


@inner
def _only(P: Packed, W: Scaled, j: int, T: Space) -> None:
    """Set the workspace to constraint j's A and c."""
    T.A[:] = 0.0
    T.c[:] = 0.0
    add_centre(P, W, j, 1.0, T)


@inner
def _two_balls(
    P: Packed,
    W: Scaled,
    first: int,
    second: int,
    metric: int,
    over: float,
    under: float,
    lo: Floats,
    hi: Floats,
    cutoff: float,
    T: Space,
) -> tuple[int, float]:
    """Find the share of `second` at which both balls are met, by regula falsi; status and share.

    `over` > 0 is by how much the first ball's projection misses the second, `under` < 0 minus the converse.
    """
    s = P.alpha[first] - P.beta[first]
    left, right, share = 0.0, 1.0, 0.5
    for step in range(100):
        share = left + (right - left) * over / (over - under)
        if step % 8 == 7 or not left < share < right:
            share = 0.5 * (left + right)
        T.A[:] = 0.0
        T.c[:] = 0.0
        add_centre(P, W, first, 1 - share, T)
        add_centre(P, W, second, share, T)
        g = (1 - share) * (T.g[first] + T.margin[first]) + share * (T.g[second] + T.margin[second])
        status = _one_ball(W, metric, s, g, lo, hi, cutoff, T)
        if status != SOLVED:
            return status, share
        difference = value_at(P, W, second, metric, T) - value_at(P, W, first, metric, T)
        if abs(difference) <= 0.5 * min(T.margin[first], T.margin[second]) or right - left <= 4e-16 * right:
            break
        if difference > 0:
            left, over, under = share, difference, 0.5 * under
        else:
            right, under, over = share, difference, 0.5 * over
    return SOLVED, share


@inner
def solve_balls(
    P: Packed, W: Scaled, cell: int, lo: Floats, hi: Floats, cutoff: float, unit: float, T: Space
) -> tuple[int, int, float, float]:
    """Project onto a cell: the most demanding constraint alone, the one it misses alone, then both together.

    Returns status, path, and the bound, plain and certified.
    """
    first = P.start[cell]
    for j in range(P.start[cell], P.start[cell + 1]):
        if T.bound[j] > T.bound[first]:
            first = j
    plain, safe, second, over = 0.0, 0.0, int(np.int64(-1)), 0.0
    while True:
        curved = P.normal[first] < 0
        metric = P.site_metric[P.near[first]] if curved else int(np.int64(0))
        s = P.alpha[first] - P.beta[first] if curved else 0.0
        _only(P, W, first, T)
        status = _one_ball(W, metric, s, T.g[first] + T.margin[first], lo, hi, cutoff, T)
        found = _certificate(P, W, first, first, 0.0, lo, hi, unit, T)
        plain, safe = max(plain, found[0]), max(safe, found[1])
        if status != SOLVED:
            return status, HOMOTOPY, plain, safe
        missed = _missed(P, W, cell, metric, first, first, T)
        if missed < 0:
            return SOLVED, HOMOTOPY, plain, safe
        if second >= 0:
            break
        over = value_at(P, W, missed, metric, T)
        first, second = missed, first
    alike = curved and P.normal[second] < 0 and metric == P.site_metric[P.near[second]]
    if missed != second or not alike or s != P.alpha[second] - P.beta[second]:
        return UNRESOLVED, TWO_BALLS, plain, safe
    # `second` was projected onto first: in the order of the search it is the first of the two.
    under = -value_at(P, W, second, metric, T)
    status, share = _two_balls(P, W, second, first, metric, over, under, lo, hi, cutoff, T)
    found = _certificate(P, W, second, first, share, lo, hi, unit, T)
    plain, safe = max(plain, found[0]), max(safe, found[1])
    if status == SOLVED and _missed(P, W, cell, metric, first, second, T) >= 0:
        status = UNRESOLVED
    return status, TWO_BALLS, plain, safe
