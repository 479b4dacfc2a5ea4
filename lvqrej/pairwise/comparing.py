"""What a class asks of an input, comparison by comparison, as one sample sees it.

A comparison asks whether x is nearer to site `own` than to `other`, and by how much: with d+ = d(x, own) and
d- = d(x, other) its score is (d- - d+) / (d- + d+). Every function here is compiled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.pairwise.budgets import Classes
from lvqrej.pairwise.programs import Convex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LARGEST = 700.0  # exp of more is no number


class Asked(NamedTuple):
    """What one class asks at a threshold: shifts b = beta - log kappa, and what is left for the budgets."""

    a: Floats  # (J,)
    b: Floats  # (J,)
    total: float  # 1 less the share of the pairs that tell nothing
    pair: Ints  # (c,)
    own: Ints  # (c,)
    other: Ints  # (c,)
    separation: Floats  # (c,)


class Seen(NamedTuple):
    """Sites and further constraints as one sample sees them, in scaled changes beta = w delta."""

    u: Floats  # (S, d) M'L (site - x)
    squares: Floats  # (S,) |L (site - x)|^2
    metric: Ints  # (S,) of each site
    G: Floats  # (M, d, d) Gram matrices M'M
    diagonal: Floats  # (M, d)
    lo: Floats  # (d,)
    hi: Floats  # (d,)
    extra: Convex  # further constraints, without budgets


@compiled
def asked_by(classes: Classes, label: int, log_kappa: float, limited: bool = True) -> Asked:
    """Return what a class asks at the threshold of log kappa; the total is infinite unless `limited`."""
    i, j = classes.first_rival[label], classes.first_rival[label + 1]
    r, s = classes.first_row[label], classes.first_row[label + 1]
    total = 1.0
    if not limited:
        total = np.inf
    elif classes.constant[label] > 0:
        total -= classes.constant[label] * np.exp(-log_kappa)
    return Asked(
        classes.a[i:j], classes.beta[i:j] - log_kappa, total,
        classes.pair[r:s], classes.own[r:s], classes.other[r:s], classes.separation[r:s],
    )  # fmt: skip


@inner
def best_of(asked: Asked, each: Floats, targets: Ints) -> Floats:
    """Return for each rival the largest over targets (one if chosen) of the smallest over its comparisons."""
    best = np.full(len(asked.a), -np.inf)
    worst, last = np.inf, len(each) - 1
    for i in range(len(each)):
        worst = min(worst, each[i])
        j = asked.pair[i]
        if i == last or asked.pair[i + 1] != j or asked.own[i + 1] != asked.own[i]:
            if targets[j] < 0 or targets[j] == asked.own[i]:
                best[j] = max(best[j], worst)
            worst = np.inf
    return best


@inner
def shares(score: Floats, asked: Asked) -> Floats:
    """Return the budget that each rival's score takes."""
    result = np.empty(len(score))
    for j in range(len(score)):
        result[j] = np.exp(min(asked.b[j] - asked.a[j] * score[j], _LARGEST))
    return result


@inner
def least_shares(asked: Asked) -> Floats:
    """Return the budget that each rival takes at least, with a score of 1."""
    return shares(np.ones(len(asked.a)), asked)


@inner
def none_chosen(asked: Asked) -> Ints:
    """Return targets that are all open."""
    return np.full(len(asked.a), -1)


@inner
def regions(asked: Asked, seen: Seen, radius: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Bound sums d_own + d_other and scores of all comparisons over |beta|_1 <= radius, lo <= beta <= hi.

    With u = M'L(site - x) and squares |L (site - x)|^2: d_own + d_other is convex, at least its tangent at
    0 and at least |L (own - other)|^2 / 2, at most its value at a vertex; d_other - d_own is linear; the
    score is their ratio.

    Returns
    -------
    sum_low, sum_high, score_low, score_high : ndarrays of shape (c,)
    """
    own, other, separation, u, squares = asked.own, asked.other, asked.separation, seen.u, seen.squares
    lo, hi = seen.lo, seen.hi
    c, d = len(own), len(lo)
    sum_low, sum_high, score_low, score_high = np.empty(c), np.empty(c), np.empty(c), np.empty(c)
    for i in range(c):
        p, q, G = own[i], other[i], seen.diagonal[seen.metric[own[i]]]
        start, lead = squares[p] + squares[q], squares[q] - squares[p]
        fall, up, down, top = 0.0, 0.0, 0.0, 0.0
        closer, farther = (
            np.zeros(2),
            np.zeros(2),
        )  # of own and other, how much nearer and farther they can get
        for k in range(d):
            both, between = 2 * (u[p, k] + u[q, k]), 2 * (u[p, k] - u[q, k])
            for sign in (-1.0, 1.0):
                if hi[k] > 0 if sign > 0 else lo[k] < 0:
                    fall = max(fall, sign * both)
                    up, down = max(up, sign * between), max(down, -sign * between)
                    if radius < np.inf:
                        top = max(top, 2 * radius * radius * G[k] - sign * both * radius)
                        bend = radius * radius * G[k]
                        for end in range(2):
                            slope = 2 * sign * radius * u[p if end == 0 else q, k]
                            closer[end] = max(closer[end], slope)
                            farther[end] = max(farther[end], bend - slope)
        if separation[i] == 0.0:
            score_low[i], score_high[i] = 0.0, 0.0
        low, high, least, most = 0.5 * separation[i], np.inf, -np.inf, np.inf
        if radius < np.inf:
            low = max(low, start - radius * fall)
            high, least, most = start + top, lead - radius * down, lead + radius * up
        low, high = low * (1 - 1e-12), high * (1 + 1e-12)
        slack = 1e-12 * start
        least, most = least - slack, most + slack
        sum_low[i], sum_high[i] = low, high
        if separation[i] > 0.0:
            score_low[i], score_high[i] = -1.0, 1.0
            if radius < np.inf:
                score_high[i] = min(1.0, most / (low if most > 0 else high))
                score_low[i] = max(-1.0, least / (high if least > 0 else low))
                near, far = max(squares[p] - closer[0] - slack, 0.0), squares[q] + farther[1] + slack
                score_high[i] = min(score_high[i], (far - near) / (far + near))
                near, far = squares[p] + farther[0] + slack, max(squares[q] - closer[1] - slack, 0.0)
                score_low[i] = max(score_low[i], (far - near) / (far + near))
    return sum_low, sum_high, score_low, score_high


@inner
def closed_forms(asked: Asked, seen: Seen, level: Floats) -> Floats:
    """Return a lower bound of |beta|_1 for each comparison alone, given each rival's level, of shape (c,).

    A ball (score above 0): g |A| / ((|A| + B) max_k |C_k|). The outside of a ball (below 0): the shortest
    way out goes along one feature, g / (|C_k| + sqrt(C_k^2 + |s| G_kk g)), the smallest over k. At most -1:
    nothing.
    """
    separation, u, squares, lo, hi = asked.separation, seen.u, seen.squares, seen.lo, seen.hi
    result = np.zeros(len(separation))
    for i in range(len(separation)):
        p, q, l = asked.own[i], asked.other[i], level[asked.pair[i]]
        near, far = (1 + l) * squares[p], (1 - l) * squares[q]
        g = near - far - 1e-13 * (near + far)
        if g <= 0 or l <= -1:
            continue
        if l > 0 and (separation[i] == 0.0 or l > 1):
            result[i] = np.inf
            continue
        rate, shortest = 0.0, np.inf
        for k in range(len(lo)):
            value = (1 + l) * u[p, k] - (1 - l) * u[q, k]
            if l < 0:
                bend = -2 * l * seen.diagonal[seen.metric[p], k] * g
                for sign in (-1.0, 1.0):
                    if hi[k] > 0 if sign > 0 else lo[k] < 0:
                        speed = sign * value + np.sqrt(value * value + bend)
                        if speed > 0:
                            shortest = min(shortest, g / speed)
            elif hi[k] > 0 if value > 0 else lo[k] < 0:
                rate = max(rate, abs(value))
        if l >= 0:
            inner = 0.5 * (squares[p] + squares[q] - separation[i])
            A = (1 + l) ** 2 * squares[p] + (1 - l) ** 2 * squares[q] - 2 * (1 - l * l) * inner
            B = A - 2 * l * g
            if rate > 0:
                norm = np.sqrt(max(A, 0.0))
                shortest = g * norm / ((norm + np.sqrt(max(B, 0.0))) * rate) if norm > 0 else 0.0
        result[i] = shortest * (1 - 1e-12)
    return result


@inner
def comparisons(asked: Asked, seen: Seen, beta: Floats) -> tuple[Floats, Floats]:
    """Return at beta the score (d_other - d_own) / (d_other + d_own) of each comparison, and the sum."""
    own, other, u, squares, G = asked.own, asked.other, seen.u, seen.squares, seen.G
    squared = np.full(len(G), -1.0)
    each, sums = np.empty(len(own)), np.empty(len(own))
    for i in range(len(own)):
        m = seen.metric[own[i]]
        if squared[m] < 0:
            total = 0.0
            for k in range(len(beta)):
                if beta[k] != 0.0:
                    for f in range(len(beta)):
                        total += beta[k] * G[m, k, f] * beta[f]
            squared[m] = max(total, 0.0)
        near, far = squares[own[i]] + squared[m], squares[other[i]] + squared[m]
        for k in range(len(beta)):
            near -= 2 * u[own[i], k] * beta[k]
            far -= 2 * u[other[i], k] * beta[k]
        near, far = max(near, 0.0), max(far, 0.0)
        sums[i] = near + far
        each[i] = (far - near) / sums[i] if sums[i] > 0 else 0.0
    return each, sums


@inner
def apollonius(
    asked: Asked, seen: Seen, rows: Ints, level: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats, Ints]:
    """Return s, C, g, sizes of the terms of g and C, and metric of (1 + l) d_own - (1 - l) d_other <= 0."""
    u, squares = seen.u, seen.squares
    n, d = len(rows), u.shape[1]
    s, C, g = 2 * level, np.empty((n, d)), np.empty(n)
    size, reach, metric = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    for i in range(n):
        p, q, plus, minus = asked.own[rows[i]], asked.other[rows[i]], 1 + level[i], 1 - level[i]
        g[i] = plus * squares[p] - minus * squares[q]
        size[i] = plus * squares[p] + minus * squares[q]
        reach[i] = plus * np.sqrt(squares[p]) + minus * np.sqrt(squares[q])
        metric[i] = seen.metric[p]
        for k in range(d):
            C[i, k] = plus * u[p, k] - minus * u[q, k]
    return s, C, g, size, reach, metric
