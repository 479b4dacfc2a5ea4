"""Cells as one sample sees them: the values of all constraints, and bounds in closed form, compiled.

Seen from a sample x, with changes beta = w delta, M = L diag(1/w) and z = L (site - x), a constraint is

    f(beta) = s |M beta|^2 - 2 A'M beta + g,    s = alpha - beta,  A = alpha z_near - beta z_far,
                                                g = alpha |z_near|^2 - beta |z_far|^2 + gamma.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.cells import Packed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    margin: Floats  # (c,) how far inside to aim
    bound: Floats  # (c,) lower bound of |beta|_1 from each constraint alone
    rate: Floats  # (N,) max_k |Q_k| over the features that may move
    chol: Floats  # (d, d)
    beta: Floats  # (d,)
    v: Floats  # (d,)
    active: Ints  # (d,)
    c: Floats  # (d,) M'A
    q: Floats  # (d,)
    doubt: Floats  # (d,)
    A: Floats  # (k,)
    e: Floats  # (k,) M beta
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


@inner
def space(P: Packed) -> Space:
    """Allocate what one sample needs."""
    S, c, N = P.sites.shape[0], P.near.shape[0], P.normals.shape[0]
    k, d = P.metrics.shape[1], P.metrics.shape[2]
    return Space(
        np.empty((S, k)),
        np.empty((S, d)),
        np.empty(S),
        np.empty(c),
        np.empty(c),
        np.empty(c),
        np.empty(c),
        np.empty(N),
        np.empty((d, d)),
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


@inner
def _see_site(site: Floats, x: Floats, Lt: Floats, M: Floats, pull: bool, z: Floats, u: Floats) -> float:
    """Set z = L (site - x) and, if `pull`, u = M'z; return |z|^2."""
    z[:] = 0.0
    for f in range(len(x)):
        difference = site[f] - x[f]
        for r in range(len(z)):
            z[r] += Lt[f, r] * difference
    total = 0.0
    for r in range(len(z)):
        total += z[r] * z[r]
    if pull:
        u[:] = 0.0
        for r in range(len(z)):
            zr = z[r]
            for f in range(len(x)):
                u[f] += M[r, f] * zr
    return total


@inner
def see(
    P: Packed, W: Scaled, x: Floats, curved: bool, rounding: float, facet_rounding: float, T: Space
) -> None:
    """Fill in what the sample x sees: z, |z|^2, (if anything is curved) u = M'z, g, sizes and margins."""
    for i in range(P.sites.shape[0]):
        m = P.site_metric[i]
        T.squares[i] = _see_site(P.sites[i], x, W.Lt[m], W.M[m], curved, T.z[i], T.u[i])
    near, far, alpha, beta, gamma = P.near, P.far, P.alpha, P.beta, P.gamma
    squares, g, size, margin, facet = T.squares, T.g, T.size, T.margin, P.facet
    for j in range(len(near)):
        if near[j] >= 0:
            a = alpha[j] * squares[near[j]]
            b = beta[j] * squares[far[j]] if far[j] >= 0 else 0.0
            g[j] = a - b + gamma[j]
            size[j] = a + b + abs(gamma[j])
        else:
            q = P.normals[P.normal[j]]
            value, total = gamma[j], abs(gamma[j])
            for f in range(len(x)):
                value -= q[f] * x[f]
                total += abs(q[f] * x[f])
            g[j], size[j] = value, total
        margin[j] = (facet_rounding if facet[j] else rounding) * size[j]


@inner
def see_rates(Q: Floats, lo: Floats, hi: Floats, rate: Floats) -> None:
    """Fill in the steepest rate max_k |Q_k| of each normal over the features that may move that way."""
    for i in range(len(rate)):
        best = 0.0
        for f in range(len(lo)):
            value = Q[i, f]
            if abs(value) > best and (hi[f] > 0 if value > 0 else lo[f] < 0):
                best = abs(value)
        rate[i] = best


@inner
def _ball_bound(
    z: Floats, z2: Floats, u: Floats, u2: Floats, alpha: float, beta: float, g: float, lo: Floats, hi: Floats
) -> float:
    """Return g |A| / ((|A| + B) max_k |c_k|), B^2 = |A|^2 - s g: no point of the ball is nearer."""
    squared, rate = 0.0, 0.0
    for r in range(len(z)):
        value = alpha * z[r] - beta * z2[r]
        squared += value * value
    for f in range(len(u)):
        value = alpha * u[f] - beta * u2[f]
        if abs(value) > rate and (hi[f] > 0 if value > 0 else lo[f] < 0):
            rate = abs(value)
    rest = squared - (alpha - beta) * g
    if rate == 0.0 or rest < -1e-9 * squared:
        return np.inf
    norm = np.sqrt(squared)
    return g * norm / ((norm + np.sqrt(max(rest, 0.0))) * rate)


@inner
def see_bounds(P: Packed, lo: Floats, hi: Floats, T: Space, bounds: Floats) -> None:
    """Fill in the closed-form bounds of all constraints and, as their maxima, of all cells."""
    start, near, far, normal, alpha, beta = P.start, P.near, P.far, P.normal, P.alpha, P.beta
    g, rate, bound, z, u = T.g, T.rate, T.bound, T.z, T.u
    for cell in range(len(start) - 1):
        largest = 0.0
        for j in range(start[cell], start[cell + 1]):
            value = 0.0
            if g[j] > 0:
                if normal[j] >= 0:
                    value = g[j] / rate[normal[j]]
                else:
                    a, b = near[j], far[j] if far[j] >= 0 else near[j]
                    value = _ball_bound(z[a], z[b], u[a], u[b], alpha[j], beta[j], g[j], lo, hi)
            bound[j] = value
            largest = max(largest, value)
        bounds[cell] = largest


@compiled
def cell_bounds(P: Packed, W: Scaled, x: Floats, lo: Floats, hi: Floats, bounds: Floats) -> None:
    """Fill in a lower bound of the scaled distance from x to each cell, in closed form."""
    T = space(P)
    see(P, W, x, True, 0.0, 0.0, T)
    see_rates(W.Q, lo, hi, T.rate)
    see_bounds(P, lo, hi, T, bounds)


@inner
def image(Mt: Floats, beta: Floats, e: Floats) -> None:
    """Set e = M beta."""
    e[:] = 0.0
    for f in range(len(beta)):
        if beta[f] != 0.0:
            for r in range(len(e)):
                e[r] += Mt[f, r] * beta[f]


@inner
def add_centre(P: Packed, W: Scaled, j: int, share: float, T: Space) -> None:
    """Add `share` of constraint j's A (if curved) and c = M'A to the workspace."""
    A, c = T.A, T.c
    if P.normal[j] >= 0:
        q = W.Q[P.normal[j]]
        for f in range(len(q)):
            c[f] += share * 0.5 * q[f]
        return
    alpha, beta, a = share * P.alpha[j], share * P.beta[j], P.near[j]
    b = P.far[j] if P.far[j] >= 0 else a  # beta = 0 then
    z, z2, u, u2 = T.z[a], T.z[b], T.u[a], T.u[b]
    for r in range(len(z)):
        A[r] += alpha * z[r] - beta * z2[r]
    for f in range(len(u)):
        c[f] += alpha * u[f] - beta * u2[f]


@inner
def value_at(P: Packed, W: Scaled, j: int, metric: int, T: Space) -> float:
    """Return f_j + margin_j at T.beta; T.e must hold M beta in metric number `metric`."""
    value = T.g[j] + T.margin[j]
    if P.normal[j] >= 0:
        q, beta = W.Q[P.normal[j]], T.beta
        for f in range(len(q)):
            value -= q[f] * beta[f]
        return value
    a = P.near[j]
    b = P.far[j] if P.far[j] >= 0 else a
    e = T.e
    if P.site_metric[a] != metric:
        e = T.ev
        image(W.Mt[P.site_metric[a]], T.beta, e)
    z, z2, alpha, beta2 = T.z[a], T.z[b], P.alpha[j], P.beta[j]
    for r in range(len(z)):
        value += e[r] * ((alpha - beta2) * e[r] - 2 * (alpha * z[r] - beta2 * z2[r]))
    return value
