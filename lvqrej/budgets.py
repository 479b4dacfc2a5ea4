"""Budgets: how much of the room for doubt each pair of classes may take.

A class i is probable enough, p(i | x) >= theta, where sum_j e_ij(x) <= kappa = 1/theta - 1. Given budgets
w_j >= 0 with sum_j w_j <= 1 it suffices, and for some budgets it is necessary, that e_ij <= kappa w_j for
every other class j. With e_ij = exp(-a s_ij + beta_ij) (a = |alpha_ij|, s_ij the score that lowers e_ij)
and b = beta_ij - log kappa this reads

    s_ij(x) >= gamma_ij = (b - log w_j) / a          share taken by a score s: exp(b - a s)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled
from lvqrej.prototypes import PrototypeModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LARGEST = 700.0  # exp of more is no number


@dataclass(frozen=True, eq=False)
class Rivals:
    """What class i asks of every other class it can lose to: sites, slopes and shifts, as flat arrays.

    Every row c of `pair`, `own`, `other` is one comparison: in the model of rival `pair[c]`, is x nearer to
    site `own[c]` than to `other[c]`, and by how much? For each rival one `own` has to win against all
    `other`.
    """

    rivals: Ints  # (J,) classes
    a: Floats  # (J,) |alpha_ij| > 0
    beta: Floats  # (J,)
    constant: float  # sum of exp(beta_ij) over rivals with alpha_ij = 0
    pair: Ints  # (c,) index into rivals
    own: Ints  # (c,) sites
    other: Ints  # (c,)
    separation: Floats  # (c,) |L (own - other)|^2, 0 for twins

    @cached_property
    def owns(self) -> list[list[int]]:
        """The sites that may win against each rival."""
        return [np.unique(self.own[self.pair == j]).tolist() for j in range(len(self.a))]

    @cached_property
    def choices(self) -> list[tuple[int, Ints]]:
        """Each rival j with each choice of a target: the rows that this target has to win."""
        return [
            (j, np.flatnonzero((self.pair == j) & (self.own == p)))
            for j in range(len(self.a))
            for p in self.owns[j]
        ]


def gamma(w: Floats, a: Floats, b: Floats) -> Floats:
    """Return the score that keeps within a budget: (b - log w) / a.

    >>> float(gamma(np.array([0.5]), np.array([4.0]), np.array([0.0]))[0].round(6))
    0.173287
    """
    return (b - np.log(w)) / a


def share(s: Floats, a: Floats, b: Floats) -> Floats:
    """Return the budget that a score takes: exp(b - a s)."""
    return np.exp(np.minimum(b - a * s, _LARGEST))


def log_kappa(theta: float) -> float:
    """Return log(1/theta - 1): infinite for theta <= 0, minus infinity for theta >= 1."""
    if theta <= 0 or theta >= 1:
        return np.inf if theta <= 0 else -np.inf
    return float(np.log1p(-theta) - np.log(theta))


def largest_certainty(of_class: Rivals) -> float:
    """Return what p(i | x) cannot exceed: 1 / (1 + sum_j exp(beta_ij - |alpha_ij|))."""
    return float(
        1 / (1 + of_class.constant + share(np.ones(len(of_class.a)), of_class.a, of_class.beta).sum())
    )


def rivals_of(
    i: int,
    models: dict[tuple[int, int], PrototypeModel],
    first_site: dict[tuple[int, int], int],
    separations: dict[tuple[int, int], Floats],
    alpha: Floats,
    beta: Floats,
    classes: NDArray[np.generic],
) -> Rivals:
    """Return what class i asks; a positive alpha swaps the roles of two classes, alpha = 0 is a constant."""
    rivals: list[int] = []
    rows: list[tuple[int, int, int, float]] = []
    constant = 0.0
    for j in range(len(classes)):
        if j == i:
            continue
        if alpha[i, j] == 0:
            constant += float(np.exp(min(beta[i, j], _LARGEST)))
            continue
        key = (min(i, j), max(i, j))
        winner = models[key].labels == classes[i if alpha[i, j] < 0 else j]
        for p in np.flatnonzero(winner):
            for q in np.flatnonzero(~winner):
                first = first_site[key]
                rows.append((len(rivals), first + int(p), first + int(q), float(separations[key][p, q])))
        rivals.append(j)
    table = np.array(rows, dtype=float).reshape(-1, 4)
    pair, own, other = (table[:, k].astype(np.int64) for k in range(3))
    index = np.array(rivals, dtype=np.int64)
    a, b = np.abs(alpha[i, index]), beta[i, index]
    return Rivals(index, a, b, constant, pair, own, other, table[:, 3].copy())


@compiled
def regions(
    own: Ints,
    other: Ints,
    metric: Ints,
    separation: Floats,
    u: Floats,
    squares: Floats,
    diagonal: Floats,
    lo: Floats,
    hi: Floats,
    radius: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Bound sums d_own + d_other and scores of all comparisons over |beta|_1 <= radius, lo <= beta <= hi.

    With u = M'L(site - x) and squares |L (site - x)|^2: d_own + d_other is convex, at least its tangent at
    0 and at least |L (own - other)|^2 / 2, at most its value at a vertex; d_other - d_own is linear; the
    score is their ratio.

    Returns
    -------
    sum_low, sum_high, score_low, score_high : ndarrays of shape (c,)
    """
    c, d = len(own), len(lo)
    sum_low, sum_high, score_low, score_high = np.empty(c), np.empty(c), np.empty(c), np.empty(c)
    for i in range(c):
        p, q, G = own[i], other[i], diagonal[metric[i]]
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


@compiled
def closed_forms(
    own: Ints,
    other: Ints,
    metric: Ints,
    separation: Floats,
    least: Floats,
    u: Floats,
    squares: Floats,
    diagonal: Floats,
    lo: Floats,
    hi: Floats,
) -> Floats:
    """Return a lower bound of |beta|_1 for each comparison alone, its score at least `least`, of shape (c,).

    A ball (score above 0): g |A| / ((|A| + B) max_k |C_k|). The outside of a ball (below 0): the shortest
    way out goes along one feature, g / (|C_k| + sqrt(C_k^2 + |s| G_kk g)), the smallest over k. At most -1:
    nothing.
    """
    result = np.zeros(len(own))
    for i in range(len(own)):
        p, q, l = own[i], other[i], least[i]
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
                bend = -2 * l * diagonal[metric[i], k] * g
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


@compiled
def comparisons(
    own: Ints, other: Ints, site_metric: Ints, u: Floats, squares: Floats, G: Floats, beta: Floats
) -> tuple[Floats, Floats]:
    """Return at beta the score (d_other - d_own) / (d_other + d_own) of each comparison, and the sum."""
    squared = np.full(len(G), -1.0)
    each, sums = np.empty(len(own)), np.empty(len(own))
    for i in range(len(own)):
        m = site_metric[own[i]]
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


@compiled
def apollonius(
    own: Ints, other: Ints, level: Floats, site_metric: Ints, u: Floats, squares: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats, Ints]:
    """Return s, C, g, sizes of the terms of g and C, and metric of (1 + l) d_own - (1 - l) d_other <= 0."""
    n, d = len(own), u.shape[1]
    s, C, g = 2 * level, np.empty((n, d)), np.empty(n)
    size, reach, metric = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    for i in range(n):
        p, q, plus, minus = own[i], other[i], 1 + level[i], 1 - level[i]
        g[i] = plus * squares[p] - minus * squares[q]
        size[i] = plus * squares[p] + minus * squares[q]
        reach[i] = plus * np.sqrt(squares[p]) + minus * np.sqrt(squares[q])
        metric[i] = site_metric[p]
        for k in range(d):
            C[i, k] = plus * u[p, k] - minus * u[q, k]
    return s, C, g, size, reach, metric
