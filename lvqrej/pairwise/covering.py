"""Certificates that hold for whole boxes of budgets: one solution proves a bound for all budgets around it.

For multipliers lam and a point beta0 every comparison gives, by convexity in x alone, an inequality that is
linear in the score gamma_j it asks for:

    q(gamma)'beta >= tau(gamma),     q = A_q + sum_j gamma_j B_jq,     tau = A_tau + sum_j gamma_j B_jtau

Nothing of |beta|_1 < t meets it if h = tau - t |q_k| > 0 for every feature k, and as gamma_j = (b_j - log
w_j) / a_j each h is a constant less sum_j v_j log w_j, whose minimum over a box of budgets with a given
total is found by filling. At stationary budgets the bound falls off with the square of the distance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.pairwise.comparing import Asked, Seen
from lvqrej.pairwise.programs import put
from lvqrej.pairwise.relaxing import completed, levels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_EPS = float(np.finfo(float).eps)
#: How often the ends of what is covered are halved.
_STEPS = 7


class Linear(NamedTuple):
    """Coefficients of q (entries 0 to d - 1) and tau (entry d) in gamma, and the sizes of their terms."""

    A: Floats  # (d + 1,)
    parts: Floats  # (J, d + 1) of A, by rival
    B: Floats  # (J, d + 1)
    size: Floats  # (d + 1,)


@inner
def linear_in_gamma(
    asked: Asked, seen: Seen, lam: Floats, beta0: Floats, low: Floats, high: Floats,
    sum_low: Floats, sum_high: Floats,
) -> Linear:  # fmt: skip
    """Return the inequality of multipliers lam (of all comparisons, then of the further constraints)."""
    d, J, M = len(beta0), len(low), len(seen.G)
    A, parts, B, size = np.zeros(d + 1), np.zeros((J, d + 1)), np.zeros((J, d + 1)), np.zeros(d + 1)
    image, squared = np.zeros((M, d)), np.zeros(M)
    for m in range(M):
        for f in range(d):
            if beta0[f] != 0.0:
                for k in range(d):
                    image[m, k] += seen.G[m, f, k] * beta0[f]
        for k in range(d):
            squared[m] += image[m, k] * beta0[k]
        squared[m] = max(squared[m], 0.0)
    least, most = levels(high, asked), levels(low, asked)
    n = len(asked.pair)
    for c in range(n):
        j = asked.pair[c]
        if lam[c] <= 0.0 or least[j] <= -1 or (least[j] < 0 and sum_high[c] == np.inf):
            continue
        p, q, m = asked.own[c], asked.other[c], seen.metric[asked.own[c]]
        near, far = seen.squares[p], seen.squares[q]
        width = 1 + max(abs(least[j]), abs(most[j]))
        parts[j, d] += lam[c] * (near - far)
        if least[j] >= 0:
            B[j, d] += lam[c] * (near + far - 2 * squared[m])
            size[d] += lam[c] * width * (near + far + 2 * squared[m])
        else:  # below 0 the sum is at most its largest, above at least its smallest
            slope = sum_high[c] if most[j] <= 0 else sum_low[c]
            parts[j, d] += lam[c] * least[j] * (sum_high[c] - slope)
            B[j, d] += lam[c] * slope
            size[d] += lam[c] * width * (near + far + sum_high[c])
        reach = np.sqrt(near) + np.sqrt(far) + 2 * np.sqrt(squared[m])
        for k in range(d):
            parts[j, k] += 2 * lam[c] * (seen.u[p, k] - seen.u[q, k])
            size[k] += 2 * lam[c] * width * reach * np.sqrt(seen.diagonal[m, k])
            if least[j] >= 0:
                B[j, k] += lam[c] * (2 * (seen.u[p, k] + seen.u[q, k]) - 4 * image[m, k])
    for j in range(J):
        for k in range(d + 1):
            A[k] += parts[j, k]
    extra = seen.extra
    for i in range(len(extra.g)):
        if lam[n + i] > 0.0:
            weight, m = lam[n + i], extra.metric[i]
            A[d] += weight * extra.g[i]
            size[d] += weight * extra.size[i]
            if m >= 0:
                A[d] -= weight * extra.s[i] * squared[m]
                size[d] += weight * extra.s[i] * squared[m]
            for k in range(d):
                A[k] += 2 * weight * extra.C[i, k]
                size[k] += 2 * weight * abs(extra.C[i, k])
                if m >= 0:
                    A[k] -= 2 * weight * extra.s[i] * image[m, k]
                    reach = extra.reach[i] + extra.s[i] * np.sqrt(squared[m])
                    size[k] += 2 * weight * reach * np.sqrt(seen.diagonal[m, k])
    return Linear(A, parts, B, size)


@compiled
def filled(v: Floats, low: Floats, high: Floats, total: float, w: Floats) -> float:
    """Return a lower bound of -sum_j v_j log(w_j) over the box with sum_j w_j <= total; fill in where.

    >>> w = np.empty(2)
    >>> round(filled(np.array([1.0, 3.0]), np.full(2, 1e-9), np.ones(2), 1.0, w), 12), w
    (2.249340578475, array([0.25, 0.75]))
    """
    J, rest, room, weight, price = len(v), total, 0.0, 0.0, 0.0
    for j in range(J):
        w[j] = low[j] if v[j] <= 0 else -1.0
        if v[j] <= 0:
            rest -= low[j]
        else:
            room += high[j]
            weight += v[j]
    if room > rest > 0:  # the total is scarce: budgets are proportional to v but where that leaves the box
        for _ in range(2 * J + 2):
            price = weight / rest
            above, below = 0.0, 0.0
            for j in range(J):
                if w[j] < 0:
                    above += max(v[j] / price - high[j], 0.0)
                    below += max(low[j] - v[j] / price, 0.0)
            if above == 0.0 and below == 0.0:
                break
            for j in range(J):
                if w[j] < 0 and (v[j] > price * high[j] if above >= below else v[j] < price * low[j]):
                    w[j] = high[j] if above >= below else low[j]
                    rest -= w[j]
                    weight -= v[j]
            if weight <= 0.0 or rest <= 0.0:
                break
    value, scarce = 0.0, total
    for j in range(J):
        if v[j] <= 0:
            value -= v[j] * np.log(max(low[j], 1e-300))
            scarce -= low[j]
        else:
            w[j] = min(max(v[j] / price, low[j]), high[j]) if price > 0 else high[j]
            value += price * w[j] - v[j] * np.log(w[j])
    return value - price * scarce if price > 0 else value


@inner
def reliefs(linear: Linear, seen: Seen, gamma: Floats, t: float) -> tuple[Floats, float]:
    """Return what bounded features take off |q_k| (first up, then down), and what that takes off tau.

    q'beta <= Q |beta|_1 + sum_k nu_k room_k with Q = max_k (|q_k| - nu_k), for any nu >= 0; these nu are the
    best at one gamma.
    """
    d = len(seen.lo)
    q, nu, shift = np.zeros(d), np.zeros(2 * d), 0.0
    for k in range(d):
        q[k] = linear.A[k]
    for j in range(len(gamma)):
        for k in range(d):
            q[k] += gamma[j] * linear.B[j, k]
    level, rest = np.inf, t
    full = np.zeros(d, dtype=np.bool_)
    while rest > 0:  # fill up the features in the order of their |q|
        top = -1
        for k in range(d):
            possible = not full[k] and (seen.hi[k] > 0 if q[k] > 0 else seen.lo[k] < 0)
            if possible and (top < 0 or abs(q[k]) > abs(q[top])):
                top = k
        level = abs(q[top]) if top >= 0 else 0.0
        if top < 0:
            break
        room = seen.hi[top] if q[top] > 0 else -seen.lo[top]
        full[top] = room < rest
        rest = rest - room if full[top] else 0.0
    for k in range(d):
        if full[k]:
            up = q[k] > 0
            nu[k if up else d + k] = abs(q[k]) - level
            shift += (abs(q[k]) - level) * (seen.hi[k] if up else -seen.lo[k])
    return nu, shift


@inner
def lowest(
    linear: Linear, asked: Asked, i: int, t: float, nu: Floats, shift: float,
    low: Floats, high: Floats, v: Floats, w: Floats,
) -> float:  # fmt: skip
    """Return the least h over the box of budgets, for change i (up, down, none); fill in v and where."""
    d = len(linear.A) - 1
    k, sign = i % d, 1.0 if i < d else -1.0
    value, size, part = linear.A[d] - shift, linear.size[d] + shift, t if i < 2 * d else 0.0
    if part > 0:
        value -= part * (sign * linear.A[k] - nu[i])
        size += part * (linear.size[k] + nu[i])
    for j in range(len(v)):
        v[j] = (linear.B[j, d] - part * sign * linear.B[j, k]) / asked.a[j]
        value += v[j] * asked.b[j]
    return value + filled(v, low, high, asked.total, w) - (8 * d + 64) * _EPS * size


@inner
def doubtful(
    linear: Linear, asked: Asked, seen: Seen, t: float, nu: Floats, shift: float, low: Floats, high: Floats
) -> tuple[Ints, Floats, Floats]:
    """Return the changes for which h may be negative in the box, v and where, of the worst of them."""
    d, J = len(seen.lo), len(low)
    left, n, least = np.empty(2 * d + 1, dtype=np.int64), 0, np.inf
    v, w, worst_v, worst_w = np.zeros(J), np.zeros(J), np.zeros(J), np.zeros(J)
    for i in range(2 * d + 1):
        if (i < d and not seen.hi[i] > 0) or (d <= i < 2 * d and not seen.lo[i - d] < 0):
            continue
        value = lowest(linear, asked, i, t, nu, shift, low, high, v, w)
        if not value > 0:
            left[n] = i
            n += 1
            if not value >= least:
                least = value
                put(v, worst_v)
                put(w, worst_w)
    return left[:n], worst_v, worst_w


@inner
def _least_product(
    asked: Asked, c: Floats, low: Floats, high: Floats, least: Floats, most: Floats, v: Floats, w: Floats
) -> float:
    """Return a lower bound of c0 + c1 gamma1 + c2 gamma2 + c3 gamma1 gamma2 over a box of two budgets.

    The product lies between its bilinear bounds (McCormick), whose error is that of second order.
    """
    best = -np.inf
    for end in range(1 if c[3] >= 0 else 2):
        first, second = least[0], least[1]
        if c[3] < 0:
            first, second = (most[0], least[1]) if end == 0 else (least[0], most[1])
        value = c[0] - c[3] * first * second
        v[0], v[1] = (c[1] + c[3] * second) / asked.a[0], (c[2] + c[3] * first) / asked.a[1]
        value += v[0] * asked.b[0] + v[1] * asked.b[1]
        best = max(best, value + filled(v, low, high, asked.total, w))
    top, other = max(abs(least[0]), abs(most[0])), max(abs(least[1]), abs(most[1]))
    return best - 64 * _EPS * (abs(c[0]) + abs(c[1]) * top + abs(c[2]) * other + abs(c[3]) * top * other)


@inner
def balanced(linear: Linear, asked: Asked, seen: Seen, t: float, low: Floats, high: Floats) -> bool:
    """For two rivals, return whether at all budgets of a box some ratio rho of their multipliers proves t.

    h_k = H_2k(gamma2) + rho H_1k(gamma1) >= 0 for every change k: those with H_2k < 0 ask for a large rho,
    those with H_1k < 0 for a small one, and both can be had if H_2l H_1k >= H_2k H_1l for every such pair.
    """
    d = len(seen.lo)
    least, most, unit = levels(high, asked), levels(low, asked), (8 * d + 64) * _EPS
    large, small, n_large, n_small = np.empty((2 * d + 1, 4)), np.empty((2 * d + 1, 4)), 0, 0
    H, c, v, w, ends = np.empty(4), np.empty(4), np.empty(2), np.empty(2), np.empty(2)
    for i in range(2 * d + 1):
        if (i < d and not seen.hi[i] > 0) or (d <= i < 2 * d and not seen.lo[i - d] < 0):
            continue
        k, part = i % d, 0.0 if i == 2 * d else (t if i < d else -t)
        for j in range(2):
            H[2 * j] = linear.parts[j, d] - part * linear.parts[j, k]
            H[2 * j] -= unit * (linear.size[d] + abs(part) * linear.size[k])
            H[2 * j + 1] = linear.B[j, d] - part * linear.B[j, k]
            ends[j] = H[2 * j] + min(H[2 * j + 1] * least[j], H[2 * j + 1] * most[j])
        if ends[0] > 0 and not ends[1] > 0:
            put(H, large[n_large])
            n_large += 1
        elif ends[1] > 0 and not ends[0] > 0:
            put(H, small[n_small])
            n_small += 1
        elif not ends[0] > 0:
            return False
    for i in range(n_large):
        for j in range(n_small):
            K, L = large[i], small[j]
            c[0], c[1] = L[2] * K[0] - K[2] * L[0], L[2] * K[1] - K[2] * L[1]
            c[2], c[3] = L[3] * K[0] - K[3] * L[0], L[3] * K[1] - K[3] * L[1]
            if not _least_product(asked, c, low, high, least, most, v, w) > 0:
                return False
    return True


@inner
def _holds(
    linear: Linear, asked: Asked, seen: Seen, left: Ints, t: float, nu: Floats, shift: float,
    low: Floats, high: Floats, j: int, ends: tuple[float, float],
) -> bool:  # fmt: skip
    """Return whether the bound t is proven when budget j is between two ends."""
    low, high, v, w = low.copy(), high.copy(), np.empty(len(low)), np.empty(len(low))
    low[j], high[j] = ends
    completed(low, high, asked.total)
    if len(low) == 2 and shift == 0.0 and len(seen.extra.g) == 0 and asked.total < np.inf:
        return balanced(linear, asked, seen, t, low, high)
    holds = True
    for i in left:
        holds = holds and lowest(linear, asked, i, t, nu, shift, low, high, v, w) > 0
    return holds


@inner
def covered(
    linear: Linear, asked: Asked, seen: Seen, left: Ints, t: float, nu: Floats, shift: float,
    low: Floats, high: Floats, j: int, centre: float,
) -> tuple[float, float]:  # fmt: skip
    """Return an interval of budget j, around the centre if there is one, in which h is positive."""
    ends = np.array([centre, centre])
    if not _holds(linear, asked, seen, left, t, nu, shift, low, high, j, (centre, centre)):
        return centre, centre
    for side in range(2):
        good, bad = centre, low[j] if side == 0 else high[j]
        for step in range(_STEPS + 1):
            trial = bad if step == 0 else np.sqrt(good * bad)
            pair = (trial, centre) if side == 0 else (centre, trial)
            if _holds(linear, asked, seen, left, t, nu, shift, low, high, j, pair):
                good = trial
                if step == 0:
                    break
            else:
                bad = trial
        ends[side] = good
    return ends[0], ends[1]
