"""Relaxations: what no answer can beat, within a box of budgets and a radius.

The product gamma (d+ + d-) is replaced by what it is at least:

    gamma (d+ + d-) >= l (d+ + d-) + (gamma - l) sum_low        for gamma >= l >= 0
    gamma (d+ + d-) >= l sum_high + (gamma - l) sum_low         for gamma >= l, l < 0

both convex in x and gamma together. A constraint with l < 0 is dropped where sum_high is infinite, never
tightened.

Normalised probabilities are p(i | x) / S with S = sum_k p(k | x) <= 1. With t_k = e_ik and E_k >= sum_{j !=
i, k} e_kj, what is accepted as class i, sum_{k != i} p_k <= kappa p_i, obeys

    H(t) = (1 + sum_k t_k) sum_k t_k / (1 + (1 + E_k) t_k) <= kappa

since p_k = 1 / (1 + 1/t_k + sum_j e_kj). H rises with every t_k, so within a box of budgets t_k / kappa
each has a largest value when all others take their least. The E_k are the largest within the radius.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import inner
from lvqrej.pairwise.budgets import Classes
from lvqrej.pairwise.comparing import Asked, Seen, apollonius, asked_by, best_of, none_chosen, regions, shares
from lvqrej.pairwise.programs import Convex, joined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Budgets narrower than this, relatively, are as good as fixed.
NARROW = 1e-9


@inner
def levels(budgets: Floats, asked: Asked) -> Floats:
    """Return the score that keeps within each budget, gamma = (b - log w) / a."""
    result = np.empty(len(budgets))
    for j in range(len(budgets)):
        result[j] = (asked.b[j] - np.log(max(budgets[j], 1e-300))) / asked.a[j]
    return result


@inner
def other_doubts(classes: Classes, seen: Seen, label: int, log_kappa: float, radius: float) -> Floats:
    """Return 1 + E_k for each rival k of the class: its doubt against third classes is at most E_k."""
    first, last = classes.first_rival[label], classes.first_rival[label + 1]
    result = np.ones(last - first)
    for i in range(last - first):
        k = classes.rivals[first + i]
        asked = asked_by(classes, k, 0.0)
        least = best_of(asked, regions(asked, seen, radius)[2], none_chosen(asked))
        doubts = shares(least, asked)
        result[i] += classes.constant[k]
        for j in range(len(doubts)):
            if classes.rivals[classes.first_rival[k] + j] != label:
                result[i] += doubts[j]
    return result


@inner
def largest_normalized(low: Floats, rest: Floats, constant: float, kappa: float) -> Floats:
    """Return the largest t_k / kappa with H(t) <= kappa when all others take their least; -1 if none."""
    total, terms, largest = 0.0, 0.0, np.empty(len(low))
    for j in range(len(low)):
        total += kappa * low[j]
        terms += kappa * low[j] / (1 + rest[j] * kappa * low[j])
    for j in range(len(low)):
        t = kappa * low[j]
        outside, inside = 1 + constant + total - t, terms - t / (1 + rest[j] * t)
        # The equation (outside + t) (inside + t / (1 + rest t)) = kappa is quadratic in t.
        a = inside * rest[j] + 1
        b = inside + outside * a - kappa * rest[j]
        c = outside * inside - kappa
        root = np.sqrt(max(b * b - 4 * a * c, 0.0))
        t = -2 * c / (b + root) if b > 0 else (root - b) / (2 * a)
        largest[j] = t / kappa * (1 + 1e-9) if c <= 0 else -1.0
    return largest


@inner
def completed(low: Floats, high: Floats, total: float) -> None:
    """Tighten a box of budgets that add up to their total (more of one only helps), in place."""
    if total == np.inf:
        return
    used, room = 0.0, 0.0
    for j in range(len(low)):
        used += low[j]
    for j in range(len(low)):
        high[j] = min(high[j], (total - (used - low[j])) * (1 + 1e-12))
        room += high[j]
    for j in range(len(low)):
        low[j] = max(low[j], (total - (room - high[j])) * (1 - 1e-12))


@inner
def narrowed(asked: Asked, low: Floats, high: Floats, score_high: Floats, targets: Ints) -> bool:
    """Raise low to what the scores within reach take, lower high to what that leaves; False if empty."""
    least = shares(best_of(asked, score_high, targets), asked)
    for j in range(len(low)):
        low[j] = max(low[j], least[j] * (1 - 1e-12))
    completed(low, high, asked.total)
    for j in range(len(low)):
        if not high[j] >= low[j] * (1 - NARROW):
            return False
        high[j] = max(high[j], low[j])
    return True


@inner
def chosen_rows(asked: Asked, targets: Ints) -> Ints:
    """Return the comparisons of the chosen targets, without twins, whose score is 0 everywhere."""
    rows = np.empty(len(asked.pair), dtype=np.int64)
    n = 0
    for c in range(len(rows)):
        if asked.own[c] == targets[asked.pair[c]] and asked.separation[c] > 0:
            rows[n] = c
            n += 1
    return rows[:n]


@inner
def relaxation(
    asked: Asked, seen: Seen, targets: Ints, low: Floats, high: Floats, sum_low: Floats, sum_high: Floats
) -> tuple[Ints, Ints, Convex]:
    """Return the comparisons, the index of each budget (-1 if fixed), and the program of a relaxation.

    Budgets are in units of their upper ends.
    """
    J, least = len(low), levels(high, asked)
    most = levels(low, asked)
    rows = chosen_rows(asked, targets)
    n = 0
    for c in rows:
        level = least[asked.pair[c]]
        if level >= 0 or (level > -1 and sum_high[c] < np.inf):
            rows[n] = c
            n += 1
    rows = rows[:n]
    index, n_budgets, fixed, room = np.full(J, -1), 0, 0.0, 0.0
    for j in range(J):
        room += high[j]
        if high[j] - low[j] > NARROW * high[j] and targets[j] >= 0:
            index[j] = n_budgets
            n_budgets += 1
        else:
            fixed += low[j]
    if n_budgets < 2 or room <= asked.total:
        index, n_budgets = np.full(J, -1), 0
    level = np.empty(n)
    for i in range(n):
        level[i] = max(least[asked.pair[rows[i]]], 0.0)
    s, C, g, size, reach, metric = apollonius(asked, seen, rows, level)
    h, budget = np.zeros(n), np.full(n, -1)
    for i in range(n):
        c, j = rows[i], asked.pair[rows[i]]
        if least[j] < 0:
            g[i] += least[j] * sum_high[c]
            size[i] -= least[j] * sum_high[c]
            metric[i] = -1
        if index[j] >= 0:
            budget[i] = index[j]
            h[i] = (sum_high[c] if most[j] <= 0 else sum_low[c]) / asked.a[j]
    cost, least_cost = np.empty(n_budgets), np.empty(n_budgets)
    for j in range(J):
        if index[j] >= 0:
            cost[index[j]], least_cost[index[j]] = high[j], low[j] / high[j]
    program = Convex(
        metric, s, C, g, size, reach, h, budget, cost, least_cost, np.ones(n_budgets), asked.total - fixed
    )
    return rows, index, joined(program, seen.extra)
