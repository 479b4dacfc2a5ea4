"""The doubt about a class, log sum_j exp(b_j - a_j s_j(x)), its slope and curvature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.pairwise.comparing import Asked, Seen

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Doubt(NamedTuple):
    """The doubt at a point; per rival the comparison that decides, its distances and their slopes."""

    value: float
    slope: Floats  # (d,)
    row: Ints  # (J,)
    share: Floats  # (J,) of the doubt
    near: Floats  # (J,) distance to own
    far: Floats  # (J,) distance to other
    near_slope: Floats  # (J, d)
    far_slope: Floats  # (J, d)


@inner
def doubt_at(asked: Asked, seen: Seen, beta: Floats) -> Doubt:
    """Return the doubt at a change: of each rival's comparisons the best target's worst one decides."""
    d, J, M, n = len(beta), len(asked.a), len(seen.G), len(asked.pair)
    image, squared = np.zeros((M, d)), np.full(M, -1.0)
    row, near, far = np.zeros(J, dtype=np.int64), np.ones(J), np.ones(J)
    best, worst, at, lows, highs = -2.0, 2.0, 0, 0.0, 0.0
    for i in range(n):
        p, q, j = asked.own[i], asked.other[i], asked.pair[i]
        m = seen.metric[p]
        if squared[m] < 0:
            squared[m] = 0.0
            for f in range(d):
                if beta[f] != 0.0:
                    for k in range(d):
                        image[m, k] += seen.G[m, f, k] * beta[f]
            for k in range(d):
                squared[m] += image[m, k] * beta[k]
            squared[m] = max(squared[m], 0.0)
        close, away = seen.squares[p] + squared[m], seen.squares[q] + squared[m]
        for k in range(d):
            if beta[k] != 0.0:
                close -= 2 * seen.u[p, k] * beta[k]
                away -= 2 * seen.u[q, k] * beta[k]
        close, away = max(close, 0.0), max(away, 0.0)
        score = (away - close) / (away + close) if away + close > 0 else 0.0
        if score < worst:
            worst, at, lows, highs = score, i, close, away
        if i + 1 == n or asked.pair[i + 1] != j or asked.own[i + 1] != asked.own[i]:
            if worst > best:
                best, row[j], near[j], far[j] = worst, at, lows, highs
            worst = 2.0
        if i + 1 == n or asked.pair[i + 1] != j:
            best = -2.0
    exponent, share = np.empty(J), np.empty(J)
    for j in range(J):
        total = near[j] + far[j]
        exponent[j] = asked.b[j] - (asked.a[j] * (far[j] - near[j]) / total if total > 0 else 0.0)
    top = exponent.max() if J > 0 else 0.0
    whole = 0.0
    for j in range(J):
        share[j] = np.exp(exponent[j] - top)
        whole += share[j]
    slope, near_slope, far_slope = np.zeros(d), np.zeros((J, d)), np.zeros((J, d))
    for j in range(J):
        share[j] /= whole
        total = near[j] + far[j]
        p, q = asked.own[row[j]], asked.other[row[j]]
        m = seen.metric[p]
        scale = 2 * asked.a[j] * share[j] / total**2 if total > 0 else 0.0
        for k in range(d):
            near_slope[j, k] = 2 * (image[m, k] - seen.u[p, k])
            far_slope[j, k] = 2 * (image[m, k] - seen.u[q, k])
            slope[k] += scale * (far[j] * near_slope[j, k] - near[j] * far_slope[j, k])
    value = top + np.log(whole) if J > 0 else -np.inf
    return Doubt(value, slope, row, share, near, far, near_slope, far_slope)


@compiled
def log_doubt(beta: Floats, asked: Asked, seen: Seen) -> tuple[float, Floats]:
    """Return the doubt and its gradient, as a minimiser wants them."""
    at = doubt_at(asked, seen, beta)
    return at.value, at.slope


@inner
def curvature(asked: Asked, seen: Seen, at: Doubt, index: Ints, factor: float, out: Floats) -> None:
    """Add to `out` the Hessian of the doubt over some features (but for slope slope'), times a factor."""
    for j in range(len(asked.a)):
        n, f = at.near[j], at.far[j]
        total = n + f
        if not total > 0:
            continue
        G = seen.G[seen.metric[asked.own[at.row[j]]]]
        scale = 2 * asked.a[j] * at.share[j] * factor / total**3
        rank = 4 * asked.a[j] ** 2 * at.share[j] * factor / total**4
        for r in range(len(index)):
            k = index[r]
            nk, fk = at.near_slope[j, k], at.far_slope[j, k]
            for c in range(len(index)):
                e = index[c]
                ne, fe = at.near_slope[j, e], at.far_slope[j, e]
                bend = 2 * total * (f - n) * G[k, e] + (n - f) * (nk * fe + fk * ne)
                bend += 2 * n * fk * fe - 2 * f * nk * ne
                out[r, c] += scale * bend + rank * (f * nk - n * fk) * (f * ne - n * fe)


@inner
def solved(system: Floats) -> bool:
    """Solve a dense system whose last column is the right-hand side, in place (Gauss); False if singular."""
    n = len(system)
    for c in range(n):
        pivot = c
        for r in range(c + 1, n):
            if abs(system[r, c]) > abs(system[pivot, c]):
                pivot = r
        if not abs(system[pivot, c]) > 1e-300:
            return False
        if pivot != c:
            for e in range(c, n + 1):
                system[c, e], system[pivot, e] = system[pivot, e], system[c, e]
        for r in range(c + 1, n):
            factor = system[r, c] / system[c, c]
            if factor != 0.0:
                for e in range(c + 1, n + 1):
                    system[r, e] -= factor * system[c, e]
    for r in range(n - 1, -1, -1):
        for e in range(r + 1, n):
            system[r, n] -= system[r, e] * system[e, n]
        system[r, n] /= system[r, r]
        if not abs(system[r, n]) < np.inf:
            return False
    return True
