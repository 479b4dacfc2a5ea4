"""Convex programs over changes and budgets: a compiled interior-point method whose bounds are certified.

In scaled changes beta = w delta and positive budgets y (shares of one total),

    min |beta|_1   s.t.   s_c beta'G_c beta - 2 C_c'beta + g_c - h_c log(y_j(c)) <= 0   for all c
                          sum_j cost_j y_j <= total,   low <= y <= high,   lo <= beta <= hi

with s_c, h_c >= 0. A constraint without a budget has h_c = 0, a half-space s_c = 0. The bound that is
returned does not trust the solver: it holds for any multipliers, by convexity and weak duality.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled
from lvqrej.certificate import knapsack

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_EPS = float(np.finfo(float).eps)


class Convex(NamedTuple):
    """The constraints of one program, as compiled loops read them."""

    metric: Ints  # (m,) which of the Gram matrices, -1 for a half-space
    s: Floats  # (m,)
    C: Floats  # (m, d)
    g: Floats  # (m,)
    size: Floats  # (m,) size of the terms of g
    reach: Floats  # (m,) C_k is a sum of terms of size at most reach * |M_k|
    h: Floats  # (m,)
    budget: Ints  # (m,) which budget, -1 if none
    cost: Floats  # (J,)
    low: Floats  # (J,)
    high: Floats  # (J,)
    total: float


def without_budgets(metric: Ints, s: Floats, C: Floats, g: Floats, size: Floats, reach: Floats) -> Convex:
    """Return the program of constraints that ask for no budget."""
    none, n = np.empty(0), len(g)
    no_budget = np.full(n, -1, dtype=np.int64)
    return Convex(metric, s, C, g, size, reach, np.zeros(n), no_budget, none, none, none, 1.0)


def joined(program: Convex, extra: Convex) -> Convex:
    """Return the program with the further constraints of another one, which asks for no budgets."""
    rows: dict[str, Any] = {
        name: np.concatenate((getattr(program, name), getattr(extra, name))) for name in Convex._fields[:8]
    }
    return program._replace(**rows)


class Solution(NamedTuple):
    """What the method ended with; `bound` is a proven lower bound whatever the rest is."""

    bound: float
    beta: Floats  # (d,)
    budgets: Floats  # (J,)
    multipliers: Floats  # (m,) d |beta|_1 / d (right-hand side)
    violation: float  # largest violation in units of length
    steps: int


@compiled
def _factor(A: Floats) -> None:
    """Replace the lower triangle of a positive definite A by its Cholesky factor."""
    n = len(A)
    for j in range(n):
        for i in range(j, n):
            value = A[i, j]
            for k in range(j):
                value -= A[i, k] * A[j, k]
            if i == j:
                A[j, j] = np.sqrt(max(value, 1e-30))
            else:
                A[i, j] = value / A[j, j]


@compiled
def _solve(A: Floats, x: Floats) -> None:
    """Solve with the factor, in place."""
    n = len(A)
    for i in range(n):
        value = x[i]
        for k in range(i):
            value -= A[i, k] * x[k]
        x[i] = value / A[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= A[i, i]
        value = x[i]
        for k in range(i):
            x[k] -= A[i, k] * value


@compiled
def _longest(x: Floats, dx: Floats) -> float:
    """Return the largest step in [0, 1] that keeps x + step dx >= 0."""
    step = 1.0
    for k in range(len(x)):
        if dx[k] < 0 and -x[k] / dx[k] < step:
            step = -x[k] / dx[k]
    return step


@compiled
def cheapest_budgets(
    weight: Floats, cost: Floats, low: Floats, high: Floats, total: float, price: float
) -> float:
    """Return a lower bound of min -sum_j weight_j log(y_j) s.t. cost'y <= total, low <= y <= high.

    Weak duality: any `price` >= 0 of the total gives a bound, the right one gives the minimum.

    >>> one = np.ones(2)
    >>> round(cheapest_budgets(np.array([1.0, 3.0]), one, 0 * one + 1e-9, one, 1.0, 4.0), 12)
    2.249340578475
    """
    value = -price * total
    for j in range(len(weight)):
        y = high[j]
        if price * cost[j] * high[j] > weight[j]:
            y = max(weight[j] / (price * cost[j]), low[j])
        value += price * cost[j] * y - weight[j] * np.log(y)
    return value


@compiled
def _certificate(
    G: Floats, P: Convex, beta: Floats, lam: Floats, price: float, lo: Floats, hi: Floats, unit: float
) -> float:
    """Return the bound that multipliers lam, a point beta and a price of the budgets prove."""
    d = len(beta)
    q, doubt = np.zeros(d), np.zeros(d)
    tau, size = 0.0, 0.0
    weight = np.zeros(len(P.cost))
    for c in range(len(lam)):
        if lam[c] <= 0.0:
            continue
        tau += lam[c] * P.g[c]
        size += lam[c] * P.size[c]
        if P.budget[c] >= 0:
            weight[P.budget[c]] += lam[c] * P.h[c]
        for k in range(d):
            q[k] += 2 * lam[c] * P.C[c, k]
        if P.metric[c] < 0:
            for k in range(d):
                doubt[k] += 2 * lam[c] * abs(P.C[c, k])
            continue
        gram = G[P.metric[c]]
        squared = 0.0
        for k in range(d):
            value = 0.0
            for f in range(d):
                value += gram[k, f] * beta[f]
            q[k] -= 2 * lam[c] * P.s[c] * value
            squared += value * beta[k]
        squared = max(squared, 0.0)
        tau -= lam[c] * P.s[c] * squared
        size += lam[c] * P.s[c] * squared
        for k in range(d):
            doubt[k] += 2 * lam[c] * (P.reach[c] + P.s[c] * np.sqrt(squared)) * np.sqrt(gram[k, k])
    if len(weight):
        part = cheapest_budgets(weight, P.cost, P.low, P.high, P.total, price)
        tau += part
        size += abs(part) + price * P.total
    for k in range(
        d
    ):  # what rounding may have taken from |q|; a sign that is in doubt counts as the worse one
        slack = unit * doubt[k]
        q[k] += slack if q[k] > 0 else -slack
        if abs(q[k]) <= 2 * slack and not (hi[k] > 0 if q[k] > 0 else lo[k] < 0):
            q[k] = -q[k]
    return knapsack(q, tau - unit * size, lo, hi) * (1 - unit)


@compiled
def scale_of(P: Convex, lo: Floats, hi: Floats, cutoff: float) -> float:
    """Return a length to measure changes in: what the most demanding constraint asks for to first order."""
    unit = 0.0
    for c in range(len(P.g)):
        rate = 0.0
        for k in range(len(lo)):
            if hi[k] > lo[k]:
                rate = max(rate, 2 * abs(P.C[c, k]))
        if rate > 0:
            unit = max(unit, abs(P.g[c]) / rate)
    unit = min(unit, cutoff)
    return unit if unit > 0 else 1.0


@compiled
def _scaled(P: Convex, unit: float, lo: Floats, hi: Floats) -> tuple[Convex, Floats]:
    """Return the program in units of length, and what each constraint was multiplied by."""
    m = len(P.g)
    row = np.empty(m)
    for c in range(m):
        rate = 0.0
        for k in range(len(lo)):
            if hi[k] > lo[k]:
                rate = max(rate, 2 * abs(P.C[c, k]))
        row[c] = 1 / max(rate * unit, abs(P.g[c]), 1e-300)
    scaled = Convex(
        P.metric,
        P.s * row * unit**2,
        P.C * (row * unit).reshape(-1, 1),
        P.g * row,
        P.size * row,
        P.reach * row * unit,
        P.h * row,
        P.budget,
        P.cost,
        P.low,
        P.high,
        P.total,
    )
    return scaled, row


@compiled
def interior_point(
    G: Floats, program: Convex, lo: Floats, hi: Floats, cutoff: float, tolerance: float, max_steps: int = 40
) -> Solution:
    """Solve the program until its relative gap is at most `tolerance` or its bound exceeds `cutoff`.

    Parameters
    ----------
    G : ndarray of shape (M, d, d)
        Gram matrices.
    program : Convex
        With low < high for each budget, cost'low < total.
    lo, hi : ndarrays of shape (d,)
        With lo <= 0 <= hi; equal ones fix a feature.
    """
    d, m, J = len(lo), len(program.g), len(program.cost)
    unit = scale_of(program, lo, hi, cutoff)
    P, row = _scaled(program, unit, lo, hi)
    lo, hi = lo / unit, hi / unit
    eps = (2 * d + 16) * _EPS
    n = d + J
    # Pairs of factors that tend to zero: steps up and down, their room, budgets from below and above, slacks.
    many = 4 * d + 2 * J + m + 1
    x, z = np.ones(many), np.ones(many)
    U, V, RU, RV = 0, d, 2 * d, 3 * d
    YL, YH, S = 4 * d, 4 * d + J, 4 * d + 2 * J
    R = S + m
    in_use = np.ones(many, dtype=np.bool_)
    moving = hi > lo
    for k in range(d):
        in_use[U + k] = hi[k] > 0
        in_use[V + k] = lo[k] < 0
        x[U + k] = min(0.3, 0.5 * hi[k])
        x[V + k] = min(0.3, -0.5 * lo[k])
        in_use[RU + k] = hi[k] > 0 and hi[k] < np.inf
        in_use[RV + k] = lo[k] < 0 and lo[k] > -np.inf
        x[RU + k] = hi[k] - x[U + k] if in_use[RU + k] else 1.0
        x[RV + k] = -lo[k] - x[V + k] if in_use[RV + k] else 1.0
    y = np.empty(J)
    room, spare = 0.0, P.total
    for j in range(J):
        room += P.cost[j] * (P.high[j] - P.low[j])
        spare -= P.cost[j] * P.low[j]
    for j in range(J):
        y[j] = P.low[j] + min(0.9 * spare / room, 0.9) * (P.high[j] - P.low[j])
        x[YL + j], x[YH + j] = y[j] - P.low[j], P.high[j] - y[j]
    in_use[R] = J > 0
    beta = np.zeros(d)
    for k in range(d):
        beta[k] = (x[U + k] if in_use[U + k] else 0.0) - (x[V + k] if in_use[V + k] else 0.0)
    for k in range(many):
        if not in_use[k]:
            x[k], z[k] = 1.0, 0.0
    value, grad, gradY = np.empty(m), np.empty((m, d)), np.zeros(m)
    total = 0.0
    H, step = np.empty((n, n)), np.empty(n)
    dx, dz, cross = np.zeros(many), np.zeros(many), np.zeros(many)
    image = np.empty((len(G), d))
    used = np.zeros(len(G), dtype=np.bool_)
    for c in range(m):
        if P.metric[c] >= 0:
            used[P.metric[c]] = True
    omega = np.empty(len(G))
    best, violation = 0.0, np.inf
    best_beta, best_y, best_lam = beta.copy(), y.copy(), np.zeros(m)
    first, steps = True, 0
    limit = min(cutoff / unit, 1e6)  # a length that only the bound of an empty set reaches
    while steps < max_steps:
        steps += 1
        # Values, gradients
        for i in range(len(G)):
            if used[i]:
                for k in range(d):
                    sum_ = 0.0
                    for f in range(d):
                        sum_ += G[i, k, f] * beta[f]
                    image[i, k] = sum_
        worst = 0.0
        for c in range(m):
            f = P.g[c]
            for k in range(d):
                f -= 2 * P.C[c, k] * beta[k]
                grad[c, k] = -2 * P.C[c, k] if moving[k] else 0.0
            if P.metric[c] >= 0:
                e = image[P.metric[c]]
                for k in range(d):
                    f += P.s[c] * e[k] * beta[k]
                    if moving[k]:
                        grad[c, k] += 2 * P.s[c] * e[k]
            gradY[c] = 0.0
            if P.budget[c] >= 0:
                j = P.budget[c]
                f -= P.h[c] * np.log(y[j])
                gradY[c] = -P.h[c] / y[j]
            value[c] = f
            worst = max(worst, f)
        total = -P.total
        for j in range(J):
            total += P.cost[j] * y[j]
        if first:
            for c in range(m):
                x[S + c] = max(-value[c], 0.3)
                z[S + c] = 0.3 / x[S + c]
            if J > 0:
                x[R] = max(-total, 0.1 * P.total)
                z[R] = 0.3 / x[R]
            for k in range(S):
                if in_use[k]:
                    z[k] = 0.3 / x[k]
            first = False
        mu, count = 0.0, 0
        for k in range(many):
            if in_use[k]:
                mu += x[k] * z[k]
                count += 1
        mu /= count
        # The bound that these multipliers prove
        if not np.isfinite(mu):
            break
        proven = _certificate(G, P, beta, z[S : S + m], z[R], lo, hi, eps)
        length = 0.0
        for k in range(d):
            length += abs(beta[k])
        if proven > best:
            best = proven
        best_beta[:], best_y[:], best_lam[:] = beta, y, z[S : S + m]
        violation = worst
        if best >= limit or (
            length - best <= tolerance * length and worst <= tolerance and mu * count <= tolerance * length
        ):
            break
        if mu < 1e-15:
            break
        # Newton's matrix
        H[:] = 0.0
        omega[:] = 0.0
        for c in range(m):
            if P.metric[c] >= 0:
                omega[P.metric[c]] += 2 * z[S + c] * P.s[c]
        for i in range(len(G)):
            if used[i]:
                for k in range(d):
                    for f in range(k + 1):
                        H[k, f] += omega[i] * G[i, k, f]
        for c in range(m):
            weight = z[S + c] / x[S + c]
            for k in range(d):
                left = weight * grad[c, k]
                if left != 0.0:
                    for f in range(k + 1):
                        H[k, f] += left * grad[c, f]
            if P.budget[c] >= 0:
                j = d + P.budget[c]
                H[j, j] += weight * gradY[c] ** 2 + z[S + c] * P.h[c] / y[P.budget[c]] ** 2
                for k in range(d):
                    H[j, k] += weight * gradY[c] * grad[c, k]
        for j in range(J):
            H[d + j, d + j] += z[YL + j] / x[YL + j] + z[YH + j] / x[YH + j]
            for i in range(j + 1):
                H[d + j, d + i] += z[R] / x[R] * P.cost[j] * P.cost[i]
        Du, Dv, D = np.empty(d), np.empty(d), np.empty(d)
        for k in range(d):
            Du[k] = z[U + k] / x[U + k] + z[RU + k] / x[RU + k] if in_use[U + k] else np.inf
            Dv[k] = z[V + k] / x[V + k] + z[RV + k] / x[RV + k] if in_use[V + k] else np.inf
            D[k] = 1 / (1 / Du[k] + 1 / Dv[k]) if moving[k] else 1.0
            if not moving[k]:
                for f in range(k):
                    H[k, f] = 0.0
                for f in range(k + 1, n):
                    H[f, k] = 0.0
                H[k, k] = 0.0
            H[k, k] += D[k]
        _factor(H)
        pull = np.zeros(d)
        for c in range(m):
            for k in range(d):
                pull[k] += z[S + c] * grad[c, k]
        sigma_mu = 0.0
        cross[:] = 0.0
        step_x, step_z = 1.0, 1.0
        for corrector in range(2):
            # Right-hand side for targets x z = sigma mu - cross
            ru, rv = np.zeros(d), np.zeros(d)
            for k in range(d):
                step[k] = 0.0
                if not moving[k]:
                    continue
                if in_use[U + k]:
                    ru[k] = -(1 + pull[k]) + (sigma_mu - cross[U + k]) / x[U + k]
                    if in_use[RU + k]:
                        ru[k] -= (sigma_mu - cross[RU + k]) / x[RU + k]
                    step[k] += D[k] * ru[k] / Du[k]
                if in_use[V + k]:
                    rv[k] = -(1 - pull[k]) + (sigma_mu - cross[V + k]) / x[V + k]
                    if in_use[RV + k]:
                        rv[k] -= (sigma_mu - cross[RV + k]) / x[RV + k]
                    step[k] -= D[k] * rv[k] / Dv[k]
            for j in range(J):
                step[d + j] = (sigma_mu - cross[YL + j]) / x[YL + j] - (sigma_mu - cross[YH + j]) / x[YH + j]
                target = z[R] + z[R] / x[R] * (total + (sigma_mu - cross[R]) / z[R])
                step[d + j] -= P.cost[j] * target
            for c in range(m):
                shift = z[S + c] / x[S + c] * (value[c] + (sigma_mu - cross[S + c]) / z[S + c])
                for k in range(d):
                    step[k] -= grad[c, k] * shift
                if P.budget[c] >= 0:
                    step[d + P.budget[c]] -= gradY[c] * (shift + z[S + c])
            _solve(H, step)
            # Steps of all factors
            for k in range(d):
                if not moving[k]:
                    continue
                t = D[k] * (ru[k] / Du[k] - rv[k] / Dv[k] - step[k])
                if in_use[U + k]:
                    dx[U + k] = (ru[k] - t) / Du[k]
                    dz[U + k] = (sigma_mu - cross[U + k] - z[U + k] * dx[U + k]) / x[U + k] - z[U + k]
                    if in_use[RU + k]:
                        dx[RU + k] = -dx[U + k]
                        dz[RU + k] = (sigma_mu - cross[RU + k] - z[RU + k] * dx[RU + k]) / x[RU + k] - z[
                            RU + k
                        ]
                if in_use[V + k]:
                    dx[V + k] = (rv[k] + t) / Dv[k]
                    dz[V + k] = (sigma_mu - cross[V + k] - z[V + k] * dx[V + k]) / x[V + k] - z[V + k]
                    if in_use[RV + k]:
                        dx[RV + k] = -dx[V + k]
                        dz[RV + k] = (sigma_mu - cross[RV + k] - z[RV + k] * dx[RV + k]) / x[RV + k] - z[
                            RV + k
                        ]
            for c in range(m):
                change = 0.0
                for k in range(d):
                    change += grad[c, k] * step[k]
                if P.budget[c] >= 0:
                    change += gradY[c] * step[d + P.budget[c]]
                dx[S + c] = -(value[c] + x[S + c]) - change
                dz[S + c] = (sigma_mu - cross[S + c] - z[S + c] * dx[S + c]) / x[S + c] - z[S + c]
            if J > 0:
                change = 0.0
                for j in range(J):
                    change += P.cost[j] * step[d + j]
                    dx[YL + j], dx[YH + j] = step[d + j], -step[d + j]
                    dz[YL + j] = (sigma_mu - cross[YL + j] - z[YL + j] * dx[YL + j]) / x[YL + j] - z[YL + j]
                    dz[YH + j] = (sigma_mu - cross[YH + j] - z[YH + j] * dx[YH + j]) / x[YH + j] - z[YH + j]
                dx[R] = -(total + x[R]) - change
                dz[R] = (sigma_mu - cross[R] - z[R] * dx[R]) / x[R] - z[R]
            step_x, step_z = _longest(x, dx), _longest(z, dz)
            if corrector == 0:
                ahead = 0.0
                for k in range(many):
                    if in_use[k]:
                        ahead += (x[k] + step_x * dx[k]) * (z[k] + step_z * dz[k])
                        cross[k] = dx[k] * dz[k]
                ahead /= count
                sigma_mu = mu * min((ahead / mu) ** 3, 1.0)
                sigma_mu = max(sigma_mu, 1e-3 * mu) if step_x < 0.5 or step_z < 0.5 else sigma_mu
                # Where the first-order step was short its second-order term misleads.
                if step_x < 0.1 or step_z < 0.1:
                    cross[:] = 0.0
                    sigma_mu = max(sigma_mu, 0.3 * mu)
        back = 0.995 if step_x > 0.9 and step_z > 0.9 else 0.95
        step_x, step_z = min(1.0, back * step_x), min(1.0, back * step_z)
        for k in range(many):
            if in_use[k]:
                x[k] += step_x * dx[k]
                z[k] += step_z * dz[k]
        for k in range(d):
            beta[k] = (x[U + k] if in_use[U + k] else 0.0) - (x[V + k] if in_use[V + k] else 0.0)
        for j in range(J):
            y[j] = min(max(y[j] + step_x * step[d + j], P.low[j]), P.high[j])
    return Solution(
        best * unit if best < 1e6 else np.inf,
        best_beta * unit,
        best_y,
        best_lam * row * unit,
        violation,
        steps,
    )
