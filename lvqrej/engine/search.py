"""The nearest point of a union of cells, sample by sample, in one compiled loop.

Every cell gets a lower bound in closed form; cells are then projected onto in the order of their bounds until
the next bound exceeds the best distance found (the paper's early stopping).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.cells import Packed
from lvqrej.engine.balls import solve_balls
from lvqrej.engine.certificate import certified
from lvqrej.engine.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED
from lvqrej.engine.measure import Scaled, Space, see, see_bounds, see_rates, space
from lvqrej.engine.simplex import dual_simplex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How an answer was found; the index is the code that compiled loops return.
PATHS = ("accepted", "start", "homotopy", "two balls", "simplex", "cone", "none")
ACCEPTED, START, HOMOTOPY, TWO_BALLS, SIMPLEX, CONE, NONE = range(7)
_EPS = float(np.finfo(float).eps)
#: The relative gap up to which an answer of the compiled paths is left as it is.
_OPTIMAL = 1e-9


class Found(NamedTuple):
    """What a search found, one entry per sample; a distance of infinity means nothing.

    `bounds` are certified lower bounds; `open_cells` is 1 where the compiled paths left a cell open.
    """

    deltas: Floats
    distances: Floats
    bounds: Floats
    cells: Ints
    paths: Ints
    open_cells: Ints


def nothing_found(n: int, d: int) -> Found:
    """Return the arrays of a search before it starts."""
    return Found(
        np.zeros((n, d)),
        np.full(n, np.inf),
        np.full(n, np.inf),
        np.full(n, -1, dtype=np.int64),
        np.full(n, NONE, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )


@inner
def _solve_flat(
    P: Packed, W: Scaled, cell: int, lo: Floats, hi: Floats, cutoff: float, unit: float, T: Space
) -> tuple[int, int, float, float]:
    """Project onto a cell of half-spaces; return status, path, and the bound, plain and certified."""
    first, last = P.start[cell], P.start[cell + 1]
    rows, lam, rate = P.normal[first:last], np.zeros(last - first), np.empty(last - first)
    for i in range(len(rows)):
        rate[i] = max(T.rate[rows[i]], 1e-300)
    g = T.g[first:last] + T.margin[first:last]
    steps = 20 + 4 * (len(lo) + len(rows))
    slack = 0.5 * T.margin[first:last]
    status = dual_simplex(W.Q, rows, g, slack, rate, lo, hi, cutoff, steps, T.beta, lam)
    q, doubt = T.q, T.doubt
    q[:] = 0.0
    doubt[:] = 0.0
    tau, extra, size = 0.0, 0.0, 0.0
    for i in range(len(rows)):
        if lam[i] > 0:
            tau += lam[i] * T.g[first + i]
            extra += lam[i] * T.margin[first + i]
            size += lam[i] * T.size[first + i]
            for k in range(len(q)):
                value = lam[i] * W.Q[rows[i], k]
                q[k] += value
                doubt[k] += abs(value)
    plain, safe = certified(q, doubt, tau, extra, size, lo, hi, unit)
    return status, SIMPLEX, plain, safe


@inner
def _solve_cell(
    P: Packed, W: Scaled, cell: int, lo: Floats, hi: Floats, cutoff: float, unit: float, T: Space
) -> tuple[int, int, float, float]:
    """Project onto a cell: nothing to do, only half-spaces, or balls."""
    flat, inside = True, True
    for j in range(P.start[cell], P.start[cell + 1]):
        flat = flat and P.normal[j] >= 0
        inside = inside and T.g[j] + T.margin[j] <= 0
    if inside:
        T.beta[:] = 0.0
        return SOLVED, START, 0.0, 0.0
    if flat:
        return _solve_flat(P, W, cell, lo, hi, cutoff, unit, T)
    return solve_balls(P, W, cell, lo, hi, cutoff, unit, T)


@inner
def _search_one(
    P: Packed, W: Scaled, lo: Floats, hi: Floats, bounds: Floats, unit: float, T: Space, delta: Floats
) -> tuple[float, float, int, int, int]:
    """Search all cells in the order of `bounds`; distance, certificate, cell, path, whether one is open."""
    best, certificate, doubtful = np.inf, np.inf, np.inf
    nearest, how = int(np.int64(-1)), NONE
    for _ in range(len(bounds)):
        cell = int(np.argmin(bounds))
        if bounds[cell] > best or bounds[cell] == np.inf:
            break
        bound, bounds[cell] = bounds[cell], np.inf
        status, path, plain, safe = _solve_cell(P, W, cell, lo, hi, best, unit, T)
        distance = np.inf
        if status == SOLVED:
            distance = 0.0
            for f in range(len(delta)):
                distance += abs(T.beta[f])
        # A degenerate path, more active constraints than compiled paths take, or no proof that the cell is
        # out of reach: what is proven of it has to suffice, or the cone program decides.
        if status == INFEASIBLE and safe < 1e3 * bound:
            doubtful = min(doubtful, safe)
        elif status == UNRESOLVED or (status == SOLVED and plain < (1 - _OPTIMAL) * distance):
            doubtful = min(doubtful, plain)
        if status != CUT_OFF:
            certificate = min(certificate, safe)
        if distance < best:
            best, nearest, how = distance, cell, path
            for f in range(len(delta)):
                delta[f] = T.beta[f] / W.weights[f]
    return best, min(certificate, best), nearest, how, int(doubtful < (1 - _OPTIMAL) * best)


@compiled
def search_batch(
    P: Packed,
    W: Scaled,
    X: Floats,
    lower: Floats,
    upper: Floats,
    rounding: float,
    facet_rounding: float,
    deltas: Floats,
    distances: Floats,
    bounds: Floats,
    cells: Ints,
    paths: Ints,
    open_cells: Ints,
) -> None:
    """Find the nearest point of the union for each row of X, within lower <= x <= upper (which hold X).

    Constraints are tightened by `rounding` (facets: `facet_rounding`) times the size of their terms, the
    bounds of the distance are not. `open_cells` is 1 where a cell is left for the cone program.
    """
    d = X.shape[1]
    unit = (d + P.metrics.shape[1] + 16) * _EPS
    T = space(P)
    lo, hi, cell_bound = np.empty(d), np.empty(d), np.empty(len(P.start) - 1)
    curved = False
    for j in range(len(P.normal)):
        curved = curved or P.normal[j] < 0
    for i in range(X.shape[0]):
        same = i > 0
        for f in range(d):
            down, up = (lower[i, f] - X[i, f]) * W.weights[f], (upper[i, f] - X[i, f]) * W.weights[f]
            same = same and (down < 0) == (lo[f] < 0) and (up > 0) == (hi[f] > 0)
            lo[f], hi[f] = down, up
        see(P, W, X[i], curved, rounding, facet_rounding, T)
        if not same:
            see_rates(W.Q, lo, hi, T.rate)
        see_bounds(P, lo, hi, T, cell_bound)
        distances[i], bounds[i], cells[i], paths[i], open_cells[i] = _search_one(
            P, W, lo, hi, cell_bound, unit, T, deltas[i]
        )
