"""Answers: the nearest change within reach of a first one, by Newton's method and by convex restrictions.

What is asked is F(x) = log sum_j exp(b_j - a_j s_j(x)) <= log total. Where one comparison per rival decides,
F is smooth: with an active set of features, sign_k + mu dF/dx_k = 0 and F = log total are solved by Newton's
method. Where comparisons tie, or further constraints are active, a program with free budgets is solved that
is linearised at the point reached so far, gamma (d+ + d-) ~ gamma0 (d+ + d-)(x) + (gamma - gamma0) (d+ +
d-)(x0); at its solution w_j is proportional to lam_j (d+ + d-) / a_j. With the budgets fixed every point of
that program is valid.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.pairwise.comparing import Asked, Seen, apollonius, best_of, comparisons, least_shares, shares
from lvqrej.pairwise.doubt import Doubt, curvature, doubt_at, solved
from lvqrej.pairwise.interior import Solution, interior_point
from lvqrej.pairwise.programs import Convex, joined, put, size_of
from lvqrej.pairwise.relaxing import chosen_rows, levels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Relative size below which a change is taken for zero.
_ZERO = 3e-6


@compiled
def sparse(beta: Floats) -> Floats:
    """Return the change without what an interior-point method leaves of features that do not change.

    >>> sparse(np.array([1e-9, -0.5, 0.0]))
    array([ 0. , -0.5,  0. ])
    """
    result, least = beta.copy(), _ZERO * size_of(beta)
    for k in range(len(beta)):
        if abs(beta[k]) <= least:
            result[k] = 0.0
    return result


@inner
def stretched(asked: Asked, seen: Seen, beta: Floats) -> tuple[float, Floats]:
    """Return length and change of the multiple (cut at the bounds) that just meets F = log total."""
    limit, scale, bad, good = np.log(asked.total), 1.0, 0.0, np.inf
    result = beta
    for _ in range(60):
        point = np.empty(len(beta))
        for k in range(len(beta)):
            point[k] = min(max(scale * beta[k], seen.lo[k]), seen.hi[k])
        at = doubt_at(asked, seen, point)
        rate = 0.0
        for k in range(len(beta)):
            if seen.lo[k] < point[k] < seen.hi[k]:
                rate += at.slope[k] * beta[k]
        if at.value > limit:
            bad = max(bad, scale)
        else:
            good, result = scale, point
        ahead = scale + (at.value - limit) / -rate if rate < 0 else np.inf
        if good < np.inf:
            if abs(ahead - scale) <= 2e-16 * scale or good - bad <= 4e-16 * good:
                break
            if not bad < ahead < good:
                ahead = 0.5 * (bad + good)
        elif not ahead <= 4 * scale:
            ahead = 2 * scale
        if ahead > 64:
            break
        scale = ahead
    return (size_of(result) if good < np.inf else np.inf), result


@inner
def _worst_feature(seen: Seen, beta: Floats, at: Doubt, moving: NDArray[np.bool_], mu: float) -> int:
    """Return the resting feature that violates its optimality condition most, -1 if none does."""
    worst, which = 1e-7, -1
    for k in range(len(beta)):
        if moving[k] or seen.lo[k] == seen.hi[k]:
            continue
        pull = -mu * at.slope[k]  # > 1: the feature should rise, < -1: fall
        if beta[k] == 0.0:
            excess = abs(pull) - 1 if (seen.hi[k] > 0 if pull > 0 else seen.lo[k] < 0) else 0.0
        else:
            excess = 1 - pull if beta[k] > 0 else 1 + pull
        if excess > worst:
            worst, which = excess, k
    return which


@inner
def settled(asked: Asked, seen: Seen, start: Floats) -> tuple[bool, Floats, float]:
    """Return whether Newton's method met all optimality conditions, the change, and the multiplier mu."""
    d, limit = len(start), np.log(asked.total)
    beta, sign, moving = start.copy(), np.zeros(d), np.zeros(d, dtype=np.bool_)
    for k in range(d):
        sign[k] = np.sign(beta[k])
        moving[k] = beta[k] != 0 and seen.lo[k] < beta[k] < seen.hi[k]
    mu, changed, changes = 0.0, True, 0
    for _ in range(80):
        at = doubt_at(asked, seen, beta)
        index, n = np.empty(d, dtype=np.int64), 0
        for k in range(d):
            if moving[k]:
                index[n] = k
                n += 1
        if n == 0:
            break
        index = index[:n]
        if changed:
            top, bottom = 0.0, 0.0
            for i in range(n):
                top -= sign[index[i]] * at.slope[index[i]]
                bottom += at.slope[index[i]] ** 2
            mu = top / bottom if bottom > 0 else 0.0
        if not 0 < mu < np.inf:
            break
        system = np.zeros((n + 1, n + 2))
        curvature(asked, seen, at, index, mu, system)
        for i in range(n):
            system[i, n] = system[n, i] = at.slope[index[i]]
            system[i, n + 1] = -sign[index[i]]
        system[n, n + 1] = limit - at.value
        if not solved(system):
            break
        step, length, blocked, part, moved = np.empty(n + 1), size_of(beta), -1, 1.0, 0.0
        for i in range(n + 1):
            step[i] = system[i, n + 1]
        for i in range(n):
            moved += abs(step[i])
        if moved > 0.5 * length:
            part = 0.5 * length / moved
        for i in range(n):
            k = index[i]
            ahead = beta[k] + part * step[i]
            if sign[k] * ahead < 0 or (beta[k] == 0.0 and sign[k] * step[i] <= 0):
                part, blocked = -beta[k] / step[i] if step[i] != 0 else 0.0, i
            elif ahead > seen.hi[k] or ahead < seen.lo[k]:
                part, blocked = ((seen.hi[k] if ahead > 0 else seen.lo[k]) - beta[k]) / step[i], i
        for i in range(n):
            beta[index[i]] += part * step[i]
        changed = blocked >= 0
        if changed:
            k = int(index[blocked])
            moving[k] = False
            if sign[k] * beta[k] <= 1e-9 * length:
                beta[k] = 0.0
            else:
                beta[k] = seen.hi[k] if beta[k] > 0 else seen.lo[k]
            changes += 1
        elif part == 1.0:
            mu = step[n]
            if moved <= 1e-7 * length:
                k = _worst_feature(seen, beta, at, moving, mu)
                if k < 0 and moved <= 1e-14 * length:
                    return True, beta, mu
                if k >= 0:
                    moving[k], changed = True, True
                    changes += 1
                    if beta[k] == 0.0:
                        sign[k] = -np.sign(at.slope[k])
        if changes > 4 * d:
            break
    return False, beta, mu


@inner
def restriction(
    asked: Asked, seen: Seen, targets: Ints, budgets: Floats, beta: Floats, free: bool
) -> tuple[Ints, Ints, Floats, Convex]:
    """Return the comparisons, the index of each budget, their units, and the program around a change."""
    J, gamma = len(budgets), levels(budgets, asked)
    _, sums = comparisons(asked, seen, beta)
    least = least_shares(asked)
    rows = chosen_rows(asked, targets)
    n, present = 0, np.zeros(J, dtype=np.bool_)
    for c in rows:
        if gamma[asked.pair[c]] > -1:
            rows[n] = c
            n += 1
            present[asked.pair[c]] = True
    rows = rows[:n]
    index, unit, low, n_budgets, rest = np.full(J, -1), np.empty(J), np.empty(J), 0, asked.total
    spare = 0.0
    for j in range(J):
        unit[j] = max(budgets[j], 1e-300)
        low[j] = max(unit[j] / 8, least[j] * (1 + 1e-9))
        if free and present[j] and low[j] < unit[j]:
            index[j] = n_budgets
            n_budgets += 1
            spare -= low[j]
        else:
            rest -= budgets[j]
    if not rest + spare > 0:
        index, n_budgets = np.full(J, -1), 0
    cost, cheapest = np.empty(n_budgets), np.empty(n_budgets)
    for j in range(J):
        if index[j] >= 0:
            cost[index[j]], cheapest[index[j]] = unit[j], low[j] / unit[j]
    level = np.empty(n)
    for i in range(n):
        level[i] = gamma[asked.pair[rows[i]]]
    s, C, g, size, reach, metric = apollonius(asked, seen, rows, level)
    h, budget = np.zeros(n), np.full(n, -1)
    for i in range(n):
        j = asked.pair[rows[i]]
        if level[i] < 0:  # the outside of a ball: its tangent at the change
            image = np.zeros(len(beta))
            for k in range(len(beta)):
                for f in range(len(beta)):
                    image[k] += seen.G[metric[i], k, f] * beta[f]
            for k in range(len(beta)):
                C[i, k] -= s[i] * image[k]
                g[i] -= s[i] * image[k] * beta[k]
            s[i], metric[i] = 0.0, -1
        if index[j] >= 0:
            budget[i], h[i] = index[j], sums[rows[i]] / asked.a[j]
    program = Convex(metric, s, C, g, size, reach, h, budget, cost, cheapest, np.full(n_budgets, 8.0), rest)
    return rows, index, unit, joined(program, seen.extra)


@inner
def around(asked: Asked, seen: Seen, beta: Floats, targets: Ints) -> tuple[Ints, Floats]:
    """Return the nearest targets (those that are open) and the shares taken, scaled to the total."""
    each, _ = comparisons(asked, seen, beta)
    chosen, J = targets.copy(), len(asked.a)
    best, worst = np.full(J, -np.inf), np.inf
    for i in range(len(each)):
        j = asked.pair[i]
        worst = min(worst, each[i])
        if i + 1 == len(each) or asked.pair[i + 1] != j or asked.own[i + 1] != asked.own[i]:
            if targets[j] < 0 and worst > best[j]:
                best[j], chosen[j] = worst, asked.own[i]
            worst = np.inf
    return chosen, proportional(asked, shares(best_of(asked, each, chosen), asked))


@inner
def proportional(asked: Asked, wanted: Floats) -> Floats:
    """Return budgets of the wanted proportions beyond the least, with the right total."""
    least, result, spare, extra = least_shares(asked), np.empty(len(wanted)), asked.total, 0.0
    for j in range(len(wanted)):
        spare -= least[j]
        extra += max(wanted[j] - least[j], 0.0)
    for j in range(len(wanted)):
        part = max(wanted[j] - least[j], 0.0) / extra if extra > 0 else 1 / len(wanted)
        result[j] = least[j] + part * spare
    return result


@inner
def spread(asked: Asked, seen: Seen, rows: Ints, solution: Solution) -> Floats:
    """Return the multipliers of all comparisons, then those of the further constraints."""
    lam, n = np.zeros(len(asked.pair) + len(seen.extra.g)), len(rows)
    for i in range(n):
        lam[rows[i]] = solution.multipliers[i]
    for i in range(len(seen.extra.g)):
        lam[len(asked.pair) + i] = solution.multipliers[n + i]
    return lam


@inner
def improved(
    asked: Asked, seen: Seen, value: float, beta: Floats, targets: Ints, lam: Floats
) -> tuple[float, Floats]:  # fmt: skip
    """Return length and change of an answer near a first one; fill in the multipliers that prove it.

    `value` is infinite if the first one is none.
    """
    more = len(seen.extra.g) > 0
    for _ in range(8):
        if not more:
            optimal, point, mu = settled(asked, seen, beta)
            length, point = stretched(asked, seen, point)
            if optimal and length <= value * (1 + 1e-12):
                at = doubt_at(asked, seen, point)
                for i in range(len(lam)):
                    lam[i] = 0.0
                for j in range(len(asked.a)):
                    lam[at.row[j]] = mu * asked.a[j] * at.share[j] / (at.near[j] + at.far[j])
                return length, point
        chosen, budgets = around(asked, seen, beta, targets)
        length, point = np.inf, beta
        for stage in range(4 if more else 1):  # free budgets; with further constraints, then fixed ones
            rows, index, unit, program = restriction(asked, seen, chosen, budgets, point, stage == 0)
            if len(program.g) == 0:
                break
            solution = interior_point(seen.G, program, seen.lo, seen.hi, np.inf, 1e-7)
            point = solution.beta
            if stage == 0:
                put(spread(asked, seen, rows, solution), lam)
                for j in range(len(budgets)):
                    if index[j] >= 0:
                        budgets[j] = solution.budgets[index[j]] * unit[j]
                budgets = proportional(asked, budgets)
            else:
                good = solution.violation <= 1e-6 and solution.bound < np.inf
                length = size_of(point) if good else np.inf
        for part in (1.0, 0.5):
            if not more and not length < value:
                trial = np.empty(len(beta))
                for k in range(len(beta)):
                    trial[k] = part * point[k] + (1 - part) * beta[k]
                length, trial = stretched(asked, seen, sparse(trial))
                if length < value:
                    point = trial
        if not length < value:
            break
        done = length > value * (1 - 1e-7)
        value, beta = length, point
        if done:
            break
    return value, beta
