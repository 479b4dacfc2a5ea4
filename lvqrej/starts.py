"""First answers: inputs that are probable enough, found cheaply, from which budgets can be read off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled
from lvqrej.budgets import Rivals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Lengths tried along each feature, relative to the farthest site: finer near the sample.
LADDER = np.linspace(0.0, 1.0, 33)[1:] ** 2


@compiled
def doubt_at(pair: Ints, own: Ints, near: Floats, far: Floats, a: Floats, b: Floats) -> float:
    """Return sum_j exp(b_j - a_j s_j), s_j the best over own of the worst over other (rows in that order)."""
    total = 0.0
    best, worst = -2.0, 2.0
    for i in range(len(pair)):
        sum_ = near[i] + far[i]
        score = (far[i] - near[i]) / sum_ if sum_ > 0 else 0.0
        worst = min(worst, score)
        last = i + 1 == len(pair)
        if last or pair[i + 1] != pair[i] or own[i + 1] != own[i]:
            best, worst = max(best, worst), 2.0
        if last or pair[i + 1] != pair[i]:
            total += np.exp(min(b[pair[i]] - a[pair[i]] * best, 700.0))
            best = -2.0
    return total


@compiled
def _along(
    pair: Ints,
    own: Ints,
    other: Ints,
    a: Floats,
    b: Floats,
    total: float,
    metric: Ints,
    u: Floats,
    squares: Floats,
    diagonal: Floats,
    lo: Floats,
    hi: Floats,
    ladder: Floats,
) -> tuple[float, int]:
    """Return the shortest change of one feature that is probable enough (signed), and the feature."""
    c, shortest, feature = len(own), np.inf, -1
    near, far = np.empty(c), np.empty(c)
    for k in range(len(lo)):
        longest = 0.0
        for i in range(c):
            G = diagonal[metric[i], k]
            if G > 0:
                longest = max(longest, 2 * max(abs(u[own[i], k]), abs(u[other[i], k])) / G)
        for sign in (-1.0, 1.0):
            room = hi[k] if sign > 0 else -lo[k]
            rejected, accepted = 0.0, np.inf
            for step in range(len(ladder) + 40):
                if accepted == np.inf:
                    if step >= len(ladder):
                        break
                    t = min(ladder[step] * longest, room)
                else:
                    t = 0.5 * (rejected + accepted)
                if t <= rejected or t >= abs(shortest):
                    break
                for i in range(c):
                    bend = t * t * diagonal[metric[i], k]
                    near[i] = max(squares[own[i]] - 2 * sign * t * u[own[i], k] + bend, 0.0)
                    far[i] = max(squares[other[i]] - 2 * sign * t * u[other[i], k] + bend, 0.0)
                if doubt_at(pair, own, near, far, a, b) <= total:
                    accepted = t
                else:
                    rejected = t
            if accepted < abs(shortest):
                shortest, feature = sign * accepted, k
    return shortest, feature


def along_one_feature(
    of: Rivals,
    b: Floats,
    total: float,
    site_metric: Ints,
    u: Floats,
    squares: Floats,
    diagonal: Floats,
    lo: Floats,
    hi: Floats,
) -> Floats | None:
    """Return the shortest change of a single feature that a scan finds, of shape (d,), or None."""
    arguments = (of.a, b, total, site_metric[of.own], u, squares, diagonal, lo, hi, LADDER)
    length, feature = _along(of.pair, of.own, of.other, *arguments)
    if feature < 0:
        return None
    beta = np.zeros(len(lo))
    beta[feature] = length
    return beta


@compiled
def log_doubt(
    beta: Floats,
    pair: Ints,
    own: Ints,
    other: Ints,
    a: Floats,
    b: Floats,
    site_metric: Ints,
    u: Floats,
    squares: Floats,
    G: Floats,
) -> tuple[float, Floats]:
    """Return log sum_j exp(b_j - a_j s_j(beta)) and its gradient, of shape (d,)."""
    d, J = len(beta), len(a)
    value, slope = np.empty(J), np.zeros((J, d))
    best, worst, at, worst_at = -2.0, 2.0, 0, 0
    images = np.empty((len(G), d))
    squared = np.full(len(G), -1.0)
    near, far = np.empty(len(pair)), np.empty(len(pair))
    for i in range(len(pair)):
        m = site_metric[own[i]]
        if squared[m] < 0:
            images[m] = 0.0
            for k in range(d):
                for f in range(d):
                    images[m, k] += G[m, k, f] * beta[f]
            squared[m] = 0.0
            for k in range(d):
                squared[m] += images[m, k] * beta[k]
            squared[m] = max(squared[m], 0.0)
        near[i], far[i] = squares[own[i]] + squared[m], squares[other[i]] + squared[m]
        for k in range(d):
            near[i] -= 2 * u[own[i], k] * beta[k]
            far[i] -= 2 * u[other[i], k] * beta[k]
        near[i], far[i] = max(near[i], 0.0), max(far[i], 0.0)
        sum_ = near[i] + far[i]
        score = (far[i] - near[i]) / sum_ if sum_ > 0 else 0.0
        if score < worst:
            worst, worst_at = score, i
        last = i + 1 == len(pair)
        if last or pair[i + 1] != pair[i] or own[i + 1] != own[i]:
            if worst > best:
                best, at = worst, worst_at
            worst = 2.0
        if last or pair[i + 1] != pair[i]:
            j = pair[i]
            value[j] = b[j] - a[j] * best
            sum_ = near[at] + far[at]
            if sum_ > 0:
                image = images[site_metric[own[at]]]
                for k in range(d):
                    up, down = image[k] - u[other[at], k], image[k] - u[own[at], k]
                    slope[j, k] = -a[j] * 4 * (near[at] * up - far[at] * down) / sum_**2
            best = -2.0
    top = value.max()
    weight = np.exp(value - top)
    total = weight.sum()
    gradient = np.zeros(d)
    for j in range(J):
        gradient += weight[j] / total * slope[j]
    return top + np.log(total), gradient


def by_descent(
    of: Rivals,
    b: Floats,
    total: float,
    site_metric: Ints,
    u: Floats,
    squares: Floats,
    G: Floats,
    lo: Floats,
    hi: Floats,
    starts: list[Floats],
) -> Floats | None:
    """Return a change that is probable enough, by descent on the doubt from several starts, or None."""
    from scipy.optimize import minimize

    fixed = (of.pair, of.own, of.other, of.a, b, site_metric, u, squares, G)
    table = np.array(starts)
    scatter = np.random.default_rng(0).normal(size=(16, len(lo))) * (table.std(axis=0) + np.abs(table).mean())
    starts = [np.clip(start, lo, hi) for start in [*table, *(table.mean(axis=0) + scatter)]]
    starts.sort(key=lambda start: log_doubt(start, *fixed)[0])
    for start in starts[:12]:
        result = minimize(log_doubt, start, fixed, "L-BFGS-B", True, bounds=list(zip(lo, hi, strict=True)))
        if result.fun <= np.log(total):
            return np.asarray(result.x, dtype=float)
    return None
