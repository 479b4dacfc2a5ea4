"""The nearest point of a union of cells, sample by sample, in one compiled loop.

Every cell gets a lower bound in closed form; cells are then projected onto in the order of their bounds until
the next bound exceeds the best distance found (the paper's early stopping).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lvqrej.cells import Packed
from lvqrej.certificate import certified
from lvqrej.homotopy import CUT_OFF, SOLVED, UNRESOLVED, homotopy
from lvqrej.simplex import dual_simplex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How an answer was found; the index is the code that compiled loops return.
PATHS = ("accepted", "start", "homotopy", "two balls", "simplex", "cone", "none")
ACCEPTED, START, HOMOTOPY, TWO_BALLS, SIMPLEX, CONE, NONE = range(7)
_EPS = float(np.finfo(float).eps)
#: The relative gap up to which an answer of the compiled paths is left as it is.
_OPTIMAL = 1e-9


class Scaled(NamedTuple):
    """Metrics and normals in units of the objective: beta = w delta."""

    Lt: Floats  # (M, d, k) metrics, transposed
    M: Floats  # (M, k, d) metrics / w
    Mt: Floats  # (M, d, k)
    gram: Floats  # (M, d, d)
    length: Floats  # (M, d) column lengths |M_k|
    Q: Floats  # (N, d) normals / w
    weights: Floats  # (d,)


class Space(NamedTuple):
    """Arrays a sample needs, allocated once per batch."""

    z: Floats  # (S, k) L (site - x)
    u: Floats  # (S, d) M'z
    squares: Floats  # (S,) |z|^2
    g: Floats  # (c,) f at the sample
    size: Floats  # (c,) size of the terms of g
    bound: Floats  # (c,)
    chol: Floats  # (d, d)
    beta: Floats  # (d,)
    second: Floats  # (d,)
    v: Floats  # (d,)
    active: Ints  # (d,)
    c: Floats  # (d,)
    q: Floats  # (d,)
    doubt: Floats  # (d,)
    A: Floats  # (k,)
    e: Floats  # (k,)
    ev: Floats  # (k,)


def scaled(packed: Packed, weights: Floats) -> Scaled:
    """Return metrics and normals divided by the weights."""
    M = packed.metrics / weights
    gram = np.array([L.T @ L for L in M]).reshape(len(M), len(weights), len(weights))
    return Scaled(
        Lt=np.ascontiguousarray(packed.metrics.transpose(0, 2, 1)),
        M=np.ascontiguousarray(M),
        Mt=np.ascontiguousarray(M.transpose(0, 2, 1)),
        gram=gram,
        length=np.sqrt(np.einsum("mii->mi", gram)),
        Q=packed.normals / weights,
        weights=weights,
    )


@njit(cache=True)
def space(P: Packed) -> Space:
    """Allocate what one sample needs."""
    S, c = P.sites.shape[0], P.near.shape[0]
    k, d = P.metrics.shape[1], P.metrics.shape[2]
    return Space(
        np.empty((S, k)),
        np.empty((S, d)),
        np.empty(S),
        np.empty(c),
        np.empty(c),
        np.empty(c),
        np.empty((d, d)),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(d, dtype=np.int64),
        np.empty(d),
        np.empty(d),
        np.empty(d),
        np.empty(k),
        np.empty(k),
        np.empty(k),
    )


@njit(cache=True)
def measure(P: Packed, W: Scaled, x: Floats, T: Space) -> None:
    """Fill in z = L (site - x), u = M'z, |z|^2 and all constraints' values g at x."""
    d, k = P.sites.shape[1], P.metrics.shape[1]
    for s in range(P.sites.shape[0]):
        Lt, M = W.Lt[P.site_metric[s]], W.M[P.site_metric[s]]
        z, u = T.z[s], T.u[s]
        z[:] = 0.0
        for f in range(d):
            difference = P.sites[s, f] - x[f]
            row = Lt[f]
            for r in range(k):
                z[r] += row[r] * difference
        total = 0.0
        u[:] = 0.0
        for r in range(k):
            zr = z[r]
            total += zr * zr
            row = M[r]
            for f in range(d):
                u[f] += row[f] * zr
        T.squares[s] = total
    for j in range(P.near.shape[0]):
        if P.near[j] < 0:
            value, size = P.gamma[j], abs(P.gamma[j])
            q = P.normals[P.normal[j]]
            for f in range(d):
                value -= q[f] * x[f]
                size += abs(q[f] * x[f])
        else:
            near = P.alpha[j] * T.squares[P.near[j]]
            far = P.beta[j] * T.squares[P.far[j]] if P.far[j] >= 0 else 0.0
            value = near - far + P.gamma[j]
            size = near + far + abs(P.gamma[j])
        T.g[j] = value
        T.size[j] = size


@njit(cache=True)
def centre(P: Packed, W: Scaled, j: int, share: float, T: Space, clear: bool) -> None:
    """Add `share` of constraint j's A (curved only) and c = M'A to the workspace."""
    if clear:
        T.A[:] = 0.0
        T.c[:] = 0.0
    if P.normal[j] >= 0:
        q = W.Q[P.normal[j]]
        for f in range(len(q)):
            T.c[f] += share * 0.5 * q[f]
        return
    alpha = share * P.alpha[j]
    z, u = T.z[P.near[j]], T.u[P.near[j]]
    for r in range(len(z)):
        T.A[r] += alpha * z[r]
    for f in range(len(u)):
        T.c[f] += alpha * u[f]
    if P.far[j] >= 0:
        beta = share * P.beta[j]
        z, u = T.z[P.far[j]], T.u[P.far[j]]
        for r in range(len(z)):
            T.A[r] -= beta * z[r]
        for f in range(len(u)):
            T.c[f] -= beta * u[f]


@njit(cache=True)
def closed_form(P: Packed, W: Scaled, j: int, lo: Floats, hi: Floats, T: Space) -> float:
    """Return a lower bound of |beta|_1 from constraint j alone: g |A| / ((|A| + B) max_k |c_k|)."""
    g = T.g[j]
    if g <= 0:
        return 0.0
    rate = 0.0
    if P.normal[j] >= 0:
        q = W.Q[P.normal[j]]
        for f in range(len(q)):
            if abs(q[f]) > rate and (hi[f] > 0 if q[f] > 0 else lo[f] < 0):
                rate = abs(q[f])
        return g / rate if rate > 0 else np.inf
    alpha, beta = P.alpha[j], P.beta[j]
    z, u = T.z[P.near[j]], T.u[P.near[j]]
    squared = 0.0
    if P.far[j] >= 0:
        z2, u2 = T.z[P.far[j]], T.u[P.far[j]]
        for r in range(len(z)):
            value = alpha * z[r] - beta * z2[r]
            squared += value * value
        for f in range(len(u)):
            value = alpha * u[f] - beta * u2[f]
            if abs(value) > rate and (hi[f] > 0 if value > 0 else lo[f] < 0):
                rate = abs(value)
    else:
        squared = alpha * alpha * T.squares[P.near[j]]
        for f in range(len(u)):
            value = alpha * u[f]
            if abs(value) > rate and (hi[f] > 0 if value > 0 else lo[f] < 0):
                rate = abs(value)
    rest = squared - (alpha - beta) * g
    if rate == 0.0 or rest < -1e-9 * squared:
        return np.inf
    norm = np.sqrt(squared)
    return g * norm / ((norm + np.sqrt(max(rest, 0.0))) * rate)


@njit(cache=True)
def value_at(P: Packed, W: Scaled, j: int, beta: Floats, metric: int, T: Space) -> float:
    """Return f_j(beta); `T.e` must hold M beta in metric number `metric`."""
    value = T.g[j]
    if P.normal[j] >= 0:
        q = W.Q[P.normal[j]]
        for f in range(len(q)):
            if beta[f] != 0.0:
                value -= q[f] * beta[f]
        return value
    mine = P.site_metric[P.near[j]]
    e = T.e
    if mine != metric:
        e = T.ev
        image(W.Mt[mine], beta, e)
    alpha, b = P.alpha[j], P.beta[j]
    z = T.z[P.near[j]]
    squared, inner = 0.0, 0.0
    for r in range(len(z)):
        squared += e[r] * e[r]
        inner += alpha * z[r] * e[r]
    if P.far[j] >= 0:
        z = T.z[P.far[j]]
        for r in range(len(z)):
            inner -= b * z[r] * e[r]
    return value + (alpha - b) * squared - 2 * inner


@njit(cache=True)
def image(Mt: Floats, beta: Floats, e: Floats) -> None:
    """Set e = M beta."""
    e[:] = 0.0
    for f in range(len(beta)):
        if beta[f] != 0.0:
            row = Mt[f]
            for r in range(len(e)):
                e[r] += row[r] * beta[f]


@njit(cache=True)
def one_ball(
    W: Scaled, metric: int, s: float, g: float, lo: Floats, hi: Floats, cutoff: float, T: Space
) -> int:
    """Project onto the ball (T.A, T.c, s, g); the result is T.beta with T.e = M beta."""
    status, p = homotopy(
        W.gram[metric], T.c, s, g, lo, hi, cutoff, 4 * len(lo) + 20, T.chol, T.beta, T.v, T.active
    )
    image(W.Mt[metric], T.beta, T.e)
    if status != SOLVED or s == 0.0:
        return status
    # The path works with the Gram matrix; the last step is redone with M itself, whose digits count.
    T.ev[:] = 0.0
    for i in range(p):
        row = W.Mt[metric, T.active[i]]
        for r in range(len(row)):
            T.ev[r] += row[r] * T.v[i]
    f, slope, bend = g, 0.0, 0.0
    for r in range(len(T.e)):
        f += s * T.e[r] * T.e[r] - 2 * T.A[r] * T.e[r]
        slope += (T.A[r] - s * T.e[r]) * T.ev[r]
        bend += s * T.ev[r] * T.ev[r]
    discriminant = slope * slope - bend * f
    if slope > 0 and discriminant >= 0:
        t = f / (slope + np.sqrt(discriminant))
        for i in range(p):
            k = T.active[i]
            T.beta[k] = min(max(T.beta[k] + t * T.v[i], lo[k]), hi[k])
        image(W.Mt[metric], T.beta, T.e)
    return SOLVED


@njit(cache=True)
def ball_certificate(
    P: Packed, W: Scaled, first: int, second: int, share: float, lo: Floats, hi: Floats, unit: float, T: Space
) -> float:
    """Return the certified bound of the ball(s) at T.beta, T.e; without `second` if `share` is 0."""
    if P.normal[first] >= 0:
        q = W.Q[P.normal[first]]
        for f in range(len(q)):
            T.q[f], T.doubt[f] = q[f], abs(q[f])
        return certified(T.q, T.doubt, T.g[first], T.size[first], lo, hi, unit)
    metric = P.site_metric[P.near[first]]
    s = P.alpha[first] - P.beta[first]
    tau = (1 - share) * T.g[first] + share * T.g[second]
    size = (1 - share) * T.size[first] + share * T.size[second]
    squared, largest = 0.0, 0.0
    for r in range(len(T.e)):
        squared += T.e[r] * T.e[r]
    for j in (first, second):
        reach = P.alpha[j] * np.sqrt(T.squares[P.near[j]])
        if P.far[j] >= 0:
            reach += P.beta[j] * np.sqrt(T.squares[P.far[j]])
        largest = max(largest, reach)
    T.q[:] = 0.0
    for f in range(len(T.beta)):
        if T.beta[f] != 0.0:
            row = W.gram[metric, f]
            for k in range(len(row)):
                T.q[k] -= s * row[k] * T.beta[f]
    for k in range(len(T.q)):
        T.q[k] = 2 * (T.q[k] + T.c[k])
        T.doubt[k] = 2 * (largest + s * np.sqrt(squared)) * W.length[metric, k]
    return certified(T.q, T.doubt, tau - s * squared, size + s * squared, lo, hi, unit)


@njit(cache=True)
def worst_of(P: Packed, W: Scaled, cell: int, margin: Floats, metric: int, T: Space) -> int:
    """Return the constraint of the cell that T.beta misses most, in lengths, or -1 if none."""
    worst, found = 0.0, -1
    for j in range(P.start[cell], P.start[cell + 1]):
        value = value_at(P, W, j, T.beta, metric, T) + 0.5 * margin[j]
        if value > 0 and value / T.size[j] > worst:
            worst, found = value / T.size[j], j
    return found


@njit(cache=True)
def solve_balls(
    P: Packed,
    W: Scaled,
    cell: int,
    lo: Floats,
    hi: Floats,
    cutoff: float,
    margin: Floats,
    unit: float,
    T: Space,
) -> tuple[int, int, float]:
    """Project onto a cell with a ball: the most demanding constraint alone, then two; status, path, bound."""
    first = P.start[cell]
    for j in range(P.start[cell], P.start[cell + 1]):
        if T.bound[j] > T.bound[first]:
            first = j
    lower, second = T.bound[first] * (1 - unit), -1
    for _ in range(2):
        curved = P.normal[first] < 0
        metric = P.site_metric[P.near[first]] if curved else 0
        s = P.alpha[first] - P.beta[first] if curved else 0.0
        centre(P, W, first, 1.0, T, True)
        status = one_ball(W, metric, s, T.g[first] + margin[first], lo, hi, cutoff, T)
        lower = max(lower, ball_certificate(P, W, first, first, 0.0, lo, hi, unit, T))
        if status != SOLVED:
            return status, HOMOTOPY, lower
        other = worst_of(P, W, cell, margin, metric, T)
        if other < 0:
            return SOLVED, HOMOTOPY, lower
        if second >= 0:
            break
        first, second = other, first
    if (
        other != second
        or not curved
        or P.normal[second] >= 0
        or metric != P.site_metric[P.near[second]]
        or s != P.alpha[second] - P.beta[second]
    ):
        return UNRESOLVED, NONE, lower
    # Both balls are active: the share of the second at which both values agree, by regula falsi (Illinois).
    left, right = 0.0, 1.0
    centre(P, W, first, 1.0, T, True)
    at_left = value_at(P, W, second, T.beta, metric, T) + margin[second]
    centre(P, W, second, 1.0, T, True)
    one_ball(W, metric, s, T.g[second] + margin[second], lo, hi, np.inf, T)
    at_right = -(value_at(P, W, first, T.beta, metric, T) + margin[first])
    for step in range(100):
        share = left + (right - left) * at_left / (at_left - at_right)
        if step % 8 == 7 or not left < share < right:
            share = 0.5 * (left + right)
        centre(P, W, first, 1 - share, T, True)
        centre(P, W, second, share, T, False)
        g = (1 - share) * (T.g[first] + margin[first]) + share * (T.g[second] + margin[second])
        status = one_ball(W, metric, s, g, lo, hi, cutoff, T)
        if status != SOLVED:
            lower = max(lower, ball_certificate(P, W, first, second, share, lo, hi, unit, T))
            return status, TWO_BALLS, lower
        gap = value_at(P, W, second, T.beta, metric, T) + margin[second]
        gap -= value_at(P, W, first, T.beta, metric, T) + margin[first]
        if abs(gap) <= 0.5 * min(margin[first], margin[second]) or right - left <= 4e-16 * right:
            break
        if gap > 0:
            left, at_left, at_right = share, gap, 0.5 * at_right
        else:
            right, at_right, at_left = share, gap, 0.5 * at_left
    lower = max(lower, ball_certificate(P, W, first, second, share, lo, hi, unit, T))
    if worst_of(P, W, cell, margin, metric, T) >= 0:
        return UNRESOLVED, NONE, lower
    return SOLVED, TWO_BALLS, lower


@njit(cache=True)
def solve_flat(
    P: Packed,
    W: Scaled,
    cell: int,
    lo: Floats,
    hi: Floats,
    cutoff: float,
    margin: Floats,
    unit: float,
    T: Space,
) -> tuple[int, int, float]:
    """Project onto a cell of half-spaces; return status, path and certified bound."""
    first, last = P.start[cell], P.start[cell + 1]
    rows, rate = P.normal[first:last], np.empty(last - first)
    lam = np.zeros(last - first)
    for i in range(len(rows)):
        rate[i] = 1e-300
        for value in W.Q[rows[i]]:
            rate[i] = max(rate[i], abs(value))
    g = T.g[first:last] + margin[first:last]
    status = dual_simplex(
        W.Q,
        rows,
        g,
        0.5 * margin[first:last],
        rate,
        lo,
        hi,
        cutoff,
        20 + 4 * (len(lo) + len(rows)),
        T.beta,
        lam,
    )
    T.q[:] = 0.0
    T.doubt[:] = 0.0
    tau, size = 0.0, 0.0
    for i in range(len(rows)):
        if lam[i] > 0:
            tau += lam[i] * T.g[first + i]
            size += lam[i] * T.size[first + i]
            q = W.Q[rows[i]]
            for k in range(len(q)):
                T.q[k] += lam[i] * q[k]
                T.doubt[k] += lam[i] * abs(q[k])
    return status, SIMPLEX, certified(T.q, T.doubt, tau, size, lo, hi, unit)


@njit(cache=True)
def _fill_bounds(P: Packed, W: Scaled, lo: Floats, hi: Floats, T: Space, bounds: Floats) -> None:
    """Fill in the closed-form bounds of all constraints and, as their maxima, of all cells."""
    for cell in range(len(P.start) - 1):
        bound = 0.0
        for j in range(P.start[cell], P.start[cell + 1]):
            T.bound[j] = closed_form(P, W, j, lo, hi, T)
            bound = max(bound, T.bound[j])
        bounds[cell] = bound


@njit(cache=True)
def cell_bounds(P: Packed, W: Scaled, x: Floats, lo: Floats, hi: Floats, bounds: Floats) -> None:
    """Fill in a lower bound of the scaled distance from x to each cell, in closed form."""
    T = space(P)
    measure(P, W, x, T)
    _fill_bounds(P, W, lo, hi, T, bounds)


@njit(cache=True)
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

    Constraints are tightened by `rounding` (facets: `facet_rounding`) times the size of their terms, bounds are
    not. `open_cells` counts the cells that are left for the cone program.
    """
    d = X.shape[1]
    n_cells = len(P.start) - 1
    unit = (d + P.metrics.shape[1] + 16) * _EPS
    T = space(P)
    lo, hi = np.empty(d), np.empty(d)
    cell_bound, margin = np.empty(n_cells), np.empty(len(P.near))
    for i in range(X.shape[0]):
        measure(P, W, X[i], T)
        for f in range(d):
            lo[f] = (lower[i, f] - X[i, f]) * W.weights[f]
            hi[f] = (upper[i, f] - X[i, f]) * W.weights[f]
        for j in range(len(margin)):
            margin[j] = (facet_rounding if P.facet[j] else rounding) * T.size[j]
        _fill_bounds(P, W, lo, hi, T, cell_bound)
        best, certificate, unresolved = np.inf, np.inf, 0
        deltas[i] = 0.0
        cells[i] = -1
        paths[i] = NONE
        for _ in range(n_cells):
            cell = np.argmin(cell_bound)
            if cell_bound[cell] > best or cell_bound[cell] == np.inf:
                break
            cell_bound[cell] = np.inf
            flat, inside = True, True
            for j in range(P.start[cell], P.start[cell + 1]):
                flat = flat and P.normal[j] >= 0
                inside = inside and T.g[j] + margin[j] <= 0
            T.beta[:] = 0.0
            if inside:
                status, path, bound = SOLVED, START, 0.0
            elif flat:
                status, path, bound = solve_flat(P, W, cell, lo, hi, best, margin, unit, T)
            else:
                status, path, bound = solve_balls(P, W, cell, lo, hi, best, margin, unit, T)
            if status == UNRESOLVED and bound < best:
                unresolved += 1
            if status != CUT_OFF:
                certificate = min(certificate, bound)
            if status == SOLVED:
                distance = 0.0
                for f in range(d):
                    distance += abs(T.beta[f])
                if bound < (1 - _OPTIMAL) * distance and bound < best:
                    unresolved += 1  # a degenerate path: the cone program decides
                if distance < best:
                    best = distance
                    cells[i], paths[i] = cell, path
                    for f in range(d):
                        deltas[i, f] = T.beta[f] / W.weights[f]
        distances[i] = best
        bounds[i] = min(certificate, best)
        open_cells[i] = unresolved


class Found(NamedTuple):
    """What a search found, one entry per sample; a distance of infinity means nothing."""

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
