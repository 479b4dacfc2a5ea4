"""One Newton step of the interior-point method: pairs of factors x z that tend to zero together.

The factors are, in this order: steps up and down (beta = up - down) and their room to the bounds, budgets
from below and from above, slacks of the constraints, slack of the total. Each has a multiplier; a step makes
x z what it should be, to first order, while the constraints are met.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import inner
from lvqrej.pairwise.programs import Convex

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
#: The product of factor and multiplier at the start.
_START = 0.3


class State(NamedTuple):
    """Where the method stands, and space for its next step."""

    x: Floats  # (many,) factors
    z: Floats  # (many,) their multipliers
    in_use: Bools  # (many,)
    moving: Bools  # (d,) features that may change
    beta: Floats  # (d,)
    y: Floats  # (J,)
    value: Floats  # (m,) of the constraints
    slope: Floats  # (m, d) gradients in beta
    rate: Floats  # (m,) derivatives in the budget
    image: Floats  # (M, d) G beta
    used: Bools  # (M,)
    H: Floats  # (d + J, d + J)
    D: Floats  # (3, d) weights of steps up, down, both
    step: Floats  # (d + J,)
    dx: Floats  # (many,)
    dz: Floats  # (many,)
    goal: Floats  # (many,) what x z is to become


@inner
def start(G: Floats, P: Convex, lo: Floats, hi: Floats) -> State:
    """Return a state inside all bounds."""
    d, m, J = len(lo), len(P.g), len(P.cost)
    many = 4 * d + 2 * J + m + 1
    x, in_use = np.ones(many), np.ones(many, dtype=np.bool_)
    y, beta = np.empty(J), np.zeros(d)
    for k in range(d):
        for side in range(2):
            room = hi[k] if side == 0 else -lo[k]
            at, rest = side * d + k, (2 + side) * d + k
            in_use[at], in_use[rest] = room > 0, 0 < room < np.inf
            x[at] = min(_START, 0.5 * room) if room > 0 else 1.0
            x[rest] = room - x[at] if in_use[rest] else 1.0
            if room > 0:
                beta[k] += x[at] if side == 0 else -x[at]
    room, spare = 0.0, P.total
    for j in range(J):
        room += P.cost[j] * (P.high[j] - P.low[j])
        spare -= P.cost[j] * P.low[j]
    for j in range(J):
        y[j] = P.low[j] + min(0.9 * spare / room, 0.9) * (P.high[j] - P.low[j])
        x[4 * d + j], x[4 * d + J + j] = y[j] - P.low[j], P.high[j] - y[j]
    in_use[-1] = J > 0
    used = np.zeros(len(G), dtype=np.bool_)
    for c in range(m):
        if P.metric[c] >= 0:
            used[P.metric[c]] = True
    n = d + J
    T = State(
        x, np.zeros(many), in_use, hi > lo, beta, y, np.empty(m), np.empty((m, d)), np.zeros(m),
        np.zeros((len(G), d)), used, np.empty((n, n)), np.empty((3, d)), np.empty(n),
        np.zeros(many), np.zeros(many), np.zeros(many),
    )  # fmt: skip
    excess = evaluate(G, P, T)
    for c in range(m):
        x[4 * d + 2 * J + c] = max(-T.value[c], _START)
    x[-1] = max(-excess, 0.1 * P.total) if J > 0 else 1.0
    for k in range(many):
        T.z[k] = _START / x[k] if in_use[k] else 0.0
    return T


@inner
def evaluate(G: Floats, P: Convex, T: State) -> float:
    """Fill in values and derivatives of the constraints; return what the budgets exceed their total by."""
    d = len(T.beta)
    for i in range(len(G)):
        if T.used[i]:
            for k in range(d):
                total = 0.0
                for f in range(d):
                    total += G[i, k, f] * T.beta[f]
                T.image[i, k] = total
    for c in range(len(P.g)):
        f = P.g[c]
        curved = P.metric[c] >= 0
        for k in range(d):
            bend = P.s[c] * T.image[P.metric[c], k] if curved else 0.0
            f += (bend - 2 * P.C[c, k]) * T.beta[k]
            T.slope[c, k] = 2 * (bend - P.C[c, k]) if T.moving[k] else 0.0
        if P.budget[c] >= 0:
            f -= P.h[c] * np.log(T.y[P.budget[c]])
            T.rate[c] = -P.h[c] / T.y[P.budget[c]]
        T.value[c] = f
    excess = -P.total
    for j in range(len(P.cost)):
        excess += P.cost[j] * T.y[j]
    return excess


@inner
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


@inner
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


@inner
def _longest(x: Floats, dx: Floats) -> float:
    """Return the largest step in [0, 1] that keeps x + step dx >= 0."""
    step = 1.0
    for k in range(len(x)):
        if dx[k] < 0 and -x[k] / dx[k] < step:
            step = -x[k] / dx[k]
    return step


@inner
def factorise(G: Floats, P: Convex, T: State) -> None:
    """Factor Newton's matrix: curvature, constraints weighted by z / x, and the bounds on its diagonal."""
    d, m, J, H, x, z = len(T.beta), len(P.g), len(P.cost), T.H, T.x, T.z
    S = 4 * d + 2 * J
    omega = np.zeros(len(G))
    H[:] = 0.0
    for c in range(m):
        if P.metric[c] >= 0:
            omega[P.metric[c]] += 2 * z[S + c] * P.s[c]
        weight = z[S + c] / x[S + c]
        for k in range(d):
            left = weight * T.slope[c, k]
            if left != 0.0:
                for f in range(k + 1):
                    H[k, f] += left * T.slope[c, f]
        if P.budget[c] >= 0:
            j = d + P.budget[c]
            H[j, j] += weight * T.rate[c] ** 2 + z[S + c] * P.h[c] / T.y[P.budget[c]] ** 2
            for k in range(d):
                H[j, k] += weight * T.rate[c] * T.slope[c, k]
    for i in range(len(G)):
        if T.used[i]:
            for k in range(d):
                if T.moving[k]:
                    for f in range(k + 1):
                        if T.moving[f]:
                            H[k, f] += omega[i] * G[i, k, f]
    for j in range(J):
        low, high = 4 * d + j, 4 * d + J + j
        H[d + j, d + j] += z[low] / x[low] + z[high] / x[high]
        for i in range(j + 1):
            H[d + j, d + i] += z[-1] / x[-1] * P.cost[j] * P.cost[i]
    for k in range(d):
        for side in range(2):
            at, rest = side * d + k, (2 + side) * d + k
            T.D[side, k] = z[at] / x[at] + z[rest] / x[rest] if T.in_use[at] else np.inf
        T.D[2, k] = 1 / (1 / T.D[0, k] + 1 / T.D[1, k]) if T.moving[k] else 1.0
        H[k, k] += T.D[2, k]
    _factor(H)


@inner
def direct(P: Convex, T: State, excess: float) -> None:
    """Fill in the step of all factors and multipliers towards x z = goal."""
    d, m, J, x, z, dx, dz = len(T.beta), len(P.g), len(P.cost), T.x, T.z, T.dx, T.dz
    S = 4 * d + 2 * J
    pull, side_pull = np.zeros(d), np.zeros((2, d))
    step = T.step
    for j in range(J):
        low, high = 4 * d + j, 4 * d + J + j
        step[d + j] = T.goal[low] / x[low] - T.goal[high] / x[high]
        step[d + j] -= P.cost[j] * (z[-1] + (z[-1] * excess + T.goal[-1]) / x[-1])
    step[:d] = 0.0
    for c in range(m):
        shift = (z[S + c] * T.value[c] + T.goal[S + c]) / x[S + c]
        for k in range(d):
            step[k] -= T.slope[c, k] * shift
            pull[k] += z[S + c] * T.slope[c, k]
        if P.budget[c] >= 0:
            step[d + P.budget[c]] -= T.rate[c] * (shift + z[S + c])
    for k in range(d):
        for side in range(2):
            at, rest, sign = side * d + k, (2 + side) * d + k, 1.0 - 2.0 * side
            if T.in_use[at]:
                side_pull[side, k] = T.goal[at] / x[at] - (1 + sign * pull[k])
                if T.in_use[rest]:
                    side_pull[side, k] -= T.goal[rest] / x[rest]
                step[k] += sign * T.D[2, k] * side_pull[side, k] / T.D[side, k]
    _solve(T.H, step)
    for k in range(d):
        lead = side_pull[0, k] / T.D[0, k] - side_pull[1, k] / T.D[1, k] - step[k]
        for side in range(2):
            at, rest, sign = side * d + k, (2 + side) * d + k, 1.0 - 2.0 * side
            if T.in_use[at]:
                dx[at] = (side_pull[side, k] - sign * T.D[2, k] * lead) / T.D[side, k]
                dx[rest] = -dx[at] if T.in_use[rest] else 0.0
    for c in range(m):
        change = T.rate[c] * step[d + P.budget[c]] if P.budget[c] >= 0 else 0.0
        for k in range(d):
            change += T.slope[c, k] * step[k]
        dx[S + c] = -(T.value[c] + x[S + c]) - change
    change = 0.0
    for j in range(J):
        change += P.cost[j] * step[d + j]
        dx[4 * d + j], dx[4 * d + J + j] = step[d + j], -step[d + j]
    dx[-1] = -(excess + x[-1]) - change
    for k in range(len(x)):
        if T.in_use[k]:
            dz[k] = (T.goal[k] - z[k] * dx[k]) / x[k] - z[k]
        else:
            dx[k], dz[k] = 0.0, 0.0


@inner
def advance(P: Convex, T: State, excess: float, mu: float) -> None:
    """Take a predictor-corrector step (Mehrotra) from the factorised state."""
    T.goal[:] = 0.0
    direct(P, T, excess)
    step_x, step_z = _longest(T.x, T.dx), _longest(T.z, T.dz)
    ahead, count = 0.0, 0
    for k in range(len(T.x)):
        if T.in_use[k]:
            ahead += (T.x[k] + step_x * T.dx[k]) * (T.z[k] + step_z * T.dz[k])
            count += 1
    target = mu * min((ahead / count / mu) ** 3, 1.0)
    shortest = min(step_x, step_z)
    if shortest < 0.5:
        target = max(target, 1e-3 * mu)
    if shortest < 0.1:
        target = max(target, 0.3 * mu)
    for k in range(len(T.x)):
        # Where the first-order step was short its second-order term misleads.
        T.goal[k] = target - (T.dx[k] * T.dz[k] if shortest >= 0.1 else 0.0)
    direct(P, T, excess)
    step_x, step_z = _longest(T.x, T.dx), _longest(T.z, T.dz)
    back = 0.995 if min(step_x, step_z) > 0.9 else 0.95
    step_x, step_z = min(1.0, back * step_x), min(1.0, back * step_z)
    d = len(T.beta)
    for k in range(len(T.x)):
        T.x[k] += step_x * T.dx[k]
        T.z[k] += step_z * T.dz[k]
    for k in range(d):
        T.beta[k] = (T.x[k] if T.in_use[k] else 0.0) - (T.x[d + k] if T.in_use[d + k] else 0.0)
    for j in range(len(T.y)):
        T.y[j] = min(max(T.y[j] + step_x * T.step[d + j], P.low[j]), P.high[j])
