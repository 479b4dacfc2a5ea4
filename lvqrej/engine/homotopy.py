"""The l1 projection onto one ball, feature by feature: the LASSO homotopy with bounds, compiled.

In scaled changes beta_k = w_k delta_k the program is

    min |beta|_1   s.t.   f(beta) = s |M beta|^2 - 2 A'M beta + g <= 0,   lo <= beta <= hi,   lo <= 0 <= hi

with M = L diag(1/w). For s > 0 this is a ball (basis pursuit denoising), for s = 0 a half-space (a fractional
knapsack); the same path serves both. On the path all active features have the same |correlation|
c_k = M_k'(A - s M beta) = +-mu, inactive ones less; mu falls until f reaches 0. A feature that reaches its
bound freezes there and is released when its correlation asks for it; a fixed feature never joins, a one-way
feature joins with one sign only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner

Floats = NDArray[np.float64]

SOLVED, INFEASIBLE, CUT_OFF, UNRESOLVED = 0, 1, 2, 3
_OUT, _ACTIVE, _FROZEN, _SKIPPED = 0, 1, 2, 3
#: A column whose part orthogonal to the active ones is smaller than this (squared, relative) is skipped.
_DEPENDENT = 1e-11


@inner
def _append(gram: Floats, chol: Floats, active: NDArray[np.int64], p: int, k: int) -> bool:
    """Extend the Cholesky factor of the active Gram matrix by feature k; False if it depends on them."""
    pivot = gram[k, k]
    for i in range(p):
        value = gram[k, active[i]]
        for j in range(i):
            value -= chol[p, j] * chol[i, j]
        value /= chol[i, i]
        chol[p, i] = value
        pivot -= value * value
    if not pivot > _DEPENDENT * gram[k, k]:
        return False
    chol[p, p] = np.sqrt(pivot)
    active[p] = k
    return True


@inner
def _direction(chol: Floats, sign: Floats, active: NDArray[np.int64], p: int, v: Floats) -> float:
    """Solve G_AA v = sign_A and return sign'v = |M v|^2."""
    for i in range(p):
        value = sign[active[i]]
        for j in range(i):
            value -= chol[i, j] * v[j]
        v[i] = value / chol[i, i]
    for i in range(p - 1, -1, -1):
        value = v[i]
        for j in range(i + 1, p):
            value -= chol[j, i] * v[j]
        v[i] = value / chol[i, i]
    total = 0.0
    for i in range(p):
        total += sign[active[i]] * v[i]
    return total


@inner
def _strongest(c: Floats, lo: Floats, hi: Floats, state: NDArray[np.int64]) -> int:
    """Return the inactive feature with the largest correlation among those that may move, or -1."""
    best, k = 0.0, -1
    for j in range(len(c)):
        if state[j] == _OUT and ((c[j] > best and hi[j] > 0) or (-c[j] > best and lo[j] < 0)):
            best, k = abs(c[j]), j
    return k


@compiled
def homotopy(
    gram: Floats,
    correlation: Floats,
    s: float,
    g: float,
    lo: Floats,
    hi: Floats,
    cutoff: float,
    max_steps: int,
    chol: Floats,
    beta: Floats,
    v: Floats,
    active: NDArray[np.int64],
) -> tuple[int, int]:
    """Follow the path until f = 0; return the status and the number of active features.

    Parameters
    ----------
    gram : ndarray of shape (d, d)
        M'M.
    correlation : ndarray of shape (d,)
        M'A.
    s, g : float
        Curvature and value of f at beta = 0; g > 0.
    lo, hi : ndarrays of shape (d,)
    cutoff : float
        Stop with CUT_OFF as soon as |beta|_1, which only grows, exceeds it.
    max_steps : int
        Stop with UNRESOLVED after so many steps (beta is then a point of the path).
    chol : ndarray of shape (d, d)
        Space for the Cholesky factor.
    beta, v, active : ndarrays of shape (d,)
        Results: the changes, the direction of the last segment in the order of `active`.
    """
    d = len(correlation)
    c = correlation.copy()
    sign = np.zeros(d)
    a = np.empty(d)
    state = np.zeros(d, dtype=np.int64)
    beta[:] = 0.0
    p = int(np.int64(0))  # a typed zero: a literal would be compiled for, too
    f = g
    length = 0.0
    mu = 0.0
    rested, rested_side = -1, 0.0  # what just left the active set: its event at t = 0 is no event
    for _ in range(max_steps):
        while p == 0:  # at the start, and when every active feature froze
            k = _strongest(c, lo, hi, state)
            if k < 0:
                return INFEASIBLE, p
            if _append(gram, chol, active, p, k):
                mu, sign[k], state[k], p = abs(c[k]), np.sign(c[k]), _ACTIVE, int(np.int64(1))
            else:
                state[k] = _SKIPPED
        h = _direction(chol, sign, active, p, v)
        a[:] = 0.0
        for i in range(p):
            row = gram[active[i]]
            vi = v[i]
            for j in range(d):
                a[j] += row[j] * vi
        t, k, event = np.inf, -1, -1
        if s > 0:
            t = mu / s
            for j in range(d):
                if state[j] == _OUT:
                    barred = rested_side if j == rested else 0.0
                    if barred <= 0 and hi[j] > 0 and a[j] < 1 and (mu - c[j]) < t * s * (1 - a[j]):
                        t, k, event = max(mu - c[j], 0.0) / (s * (1 - a[j])), j, _OUT
                        sign[j] = 1.0
                    if barred >= 0 and lo[j] < 0 and a[j] > -1 and (mu + c[j]) < t * s * (1 + a[j]):
                        t, k, event = max(mu + c[j], 0.0) / (s * (1 + a[j])), j, _OUT
                        sign[j] = -1.0
                elif state[j] == _FROZEN and j != rested:
                    ahead = sign[j] * a[j] - 1
                    if ahead > 0 and (sign[j] * c[j] - mu) < t * s * ahead:
                        t, k, event = max(sign[j] * c[j] - mu, 0.0) / (s * ahead), j, _FROZEN
        for i in range(p):
            j = active[i]
            outward = v[i] * sign[j]
            if outward < 0 and -beta[j] / v[i] < t:
                t, k, event = max(-beta[j] / v[i], 0.0), i, _ACTIVE
            elif outward > 0:
                room = (hi[j] if sign[j] > 0 else lo[j]) - beta[j]
                if room / v[i] < t:
                    t, k, event = max(room / v[i], 0.0), i, _ACTIVE
        discriminant = mu * mu * h * h - s * h * f
        if discriminant >= 0:
            root = f / (mu * h + np.sqrt(discriminant))
            if root <= t:
                for i in range(p):
                    beta[active[i]] += root * v[i]
                return SOLVED, p
        for i in range(p):
            beta[active[i]] += t * v[i]
        length += t * h
        if event < 0:
            return INFEASIBLE, p
        if length > cutoff:
            return CUT_OFF, p
        f += t * h * (s * t - 2 * mu)
        mu -= s * t
        for j in range(d):
            c[j] -= s * t * a[j]
        rested = -1
        if event == _ACTIVE:
            j = active[k]
            frozen = v[k] * sign[j] > 0
            beta[j] = (hi[j] if sign[j] > 0 else lo[j]) if frozen else 0.0
            state[j] = _FROZEN if frozen else _OUT
            rested, rested_side = j, sign[j]
            kept = int(np.int64(0))
            for i in range(p):  # rebuild the factor without feature j
                if i != k:
                    if not _append(gram, chol, active, kept, active[i]):
                        return UNRESOLVED, kept
                    kept += 1
            p = kept
            for j in range(d):
                if state[j] == _SKIPPED:
                    state[j] = _OUT
        elif _append(gram, chol, active, p, k):
            state[k] = _ACTIVE
            p += 1
        elif event == _OUT:
            state[k] = _SKIPPED
        else:
            return UNRESOLVED, p
    return UNRESOLVED, p
