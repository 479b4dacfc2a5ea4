"""The l1 projection onto an intersection of half-spaces: a dual simplex over tiny bases, compiled.

In scaled changes beta_k = w_k delta_k the program and its dual are

    min |beta|_1  s.t.  Q beta >= g,  lo <= beta <= hi        max g'lam - ...  s.t.  lam >= 0,  r = Q'lam

where a feature rests at 0 while |r_k| <= 1, moves while |r_k| = 1, stays at a bound while |r_k| > 1. A basis
is a set of tight rows and as many moving features: one or two of each in practice, so each step solves
systems of that size from scratch (nothing accumulates) and prices the rest once. lam = 0 is feasible, the
dual value only grows, and every step's value is a lower bound: the paper's early stopping for free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled, inner
from lvqrej.engine.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@inner
def _factor(K: Floats, p: int, order: Ints) -> bool:
    """Factor the leading p x p block in place, P K = L U; False if it is singular."""
    for i in range(p):
        order[i] = i
    for i in range(p):
        best = i
        for j in range(i + 1, p):
            if abs(K[j, i]) > abs(K[best, i]):
                best = j
        if K[best, i] == 0.0:
            return False
        if best != i:
            order[i], order[best] = order[best], order[i]
            for j in range(p):
                K[i, j], K[best, j] = K[best, j], K[i, j]
        for j in range(i + 1, p):
            K[j, i] /= K[i, i]
            for k in range(i + 1, p):
                K[j, k] -= K[j, i] * K[i, k]
    return True


@inner
def _solve(K: Floats, p: int, order: Ints, b: Floats, x: Floats) -> None:
    """Solve K x = b with the factors of `_factor`."""
    for i in range(p):
        x[i] = b[order[i]]
        for j in range(i):
            x[i] -= K[i, j] * x[j]
    for i in range(p - 1, -1, -1):
        for j in range(i + 1, p):
            x[i] -= K[i, j] * x[j]
        x[i] /= K[i, i]


@inner
def _solve_transposed(K: Floats, p: int, order: Ints, b: Floats, x: Floats) -> None:
    """Solve K'x = b with the factors of `_factor`; b is overwritten."""
    for i in range(p):
        for j in range(i):
            b[i] -= K[j, i] * b[j]
        b[i] /= K[i, i]
    for i in range(p - 1, -1, -1):
        for j in range(i + 1, p):
            b[i] -= K[j, i] * b[j]
        x[order[i]] = b[i]


@inner
def _worst(
    Q: Floats,
    rows: Ints,
    g: Floats,
    slack: Floats,
    rate: Floats,
    lo: Floats,
    hi: Floats,
    beta: Floats,
    sign: Floats,
    tight: Ints,
    moving: Ints,
    p: int,
) -> tuple[int, int]:
    """Return the most violated row (index, -1) or the feature farthest off its side (-1, position)."""
    worst, row, position, largest = 0.0, -1, -1, 0.0
    for b in range(p):
        largest = max(largest, abs(beta[moving[b]]))
    for b in range(p):
        k = moving[b]
        far = -sign[k] * beta[k]
        room = hi[k] if sign[k] > 0 else -lo[k]
        far = max(far, sign[k] * beta[k] - room)
        if far > worst and far > 1e-14 * largest:
            worst, row, position = far, -1, b
    for i in range(len(rows)):
        q = Q[rows[i]]
        value = g[i]
        for k in range(len(beta)):
            if beta[k] != 0.0:
                value -= q[k] * beta[k]
        if value > slack[i] and value / rate[i] > worst:
            known = False
            for j in range(p):
                known = known or tight[j] == i
            if not known:
                worst, row, position = value / rate[i], i, -1
    return row, position


@compiled
def dual_simplex(
    Q: Floats,
    rows: Ints,
    g: Floats,
    slack: Floats,
    rate: Floats,
    lo: Floats,
    hi: Floats,
    cutoff: float,
    max_steps: int,
    beta: Floats,
    lam: Floats,
) -> int:
    """Solve min |beta|_1 s.t. Q[rows] beta >= g - slack, lo <= beta <= hi; return the status.

    Parameters
    ----------
    Q : ndarray of shape (N, d), rows : ndarray of shape (n,)
    g, slack : ndarrays of shape (n,)
        Right-hand sides and by how much a row may be missed without being taken into the basis.
    rate : ndarray of shape (n,)
        max_k |Q_k| of each row over the features that may move: turns a violation into a length.
    lo, hi : ndarrays of shape (d,)
    cutoff : float
        Stop with CUT_OFF as soon as the dual value exceeds it.
    beta, lam : ndarrays of shape (d,) and (n,)
        Results: the changes and the multipliers; on INFEASIBLE `lam` proves a bound beyond
        the cutoff (a million times the present value if there is none).
    """
    d, n = Q.shape[1], len(rows)
    cap = min(n, d) + 1
    K = np.empty((cap, cap))
    order = np.empty(cap, dtype=np.int64)
    tight = np.empty(cap, dtype=np.int64)
    moving = np.empty(cap, dtype=np.int64)
    right, solution, step = np.empty(cap), np.empty(cap), np.empty(cap)
    multiplier = np.empty(cap)
    sign = np.zeros(d)  # side of a moving or frozen feature, 0 at rest
    is_moving = np.zeros(d, dtype=np.bool_)
    r, dr = np.empty(d), np.empty(d)
    p = int(np.int64(0))
    for _ in range(max_steps):
        for j in range(p):
            for b in range(p):
                K[j, b] = Q[rows[tight[j]], moving[b]]
        if not _factor(K, p, order):
            return UNRESOLVED
        value = 0.0
        for k in range(d):
            beta[k] = 0.0
            if sign[k] != 0.0 and not is_moving[k]:
                beta[k] = hi[k] if sign[k] > 0 else lo[k]
                value += abs(beta[k])
        for j in range(p):
            right[j] = g[tight[j]]
            for k in range(d):
                if beta[k] != 0.0:
                    right[j] -= Q[rows[tight[j]], k] * beta[k]
        _solve(K, p, order, right, solution)
        for b in range(p):
            beta[moving[b]] = solution[b]
            value += sign[moving[b]] * solution[b]
            right[b] = sign[moving[b]]
        _solve_transposed(K, p, order, right, multiplier)
        lam[:] = 0.0
        r[:] = 0.0
        for j in range(p):
            lam[tight[j]] = max(multiplier[j], 0.0)
            q = Q[rows[tight[j]]]
            for k in range(d):
                r[k] += multiplier[j] * q[k]
        if value > cutoff:
            return CUT_OFF
        row, position = _worst(Q, rows, g, slack, rate, lo, hi, beta, sign, tight, moving, p)
        if row < 0 and position < 0:
            for b in range(p):  # what is left of a sign is rounding
                k = moving[b]
                beta[k] = min(max(beta[k], 0.0), hi[k]) if sign[k] > 0 else max(min(beta[k], 0.0), lo[k])
            return SOLVED
        # Raise the multiplier of the violated row, or let the feature's r_k leave +-1, the other r_B held.
        outward = False
        for b in range(p):
            right[b] = -Q[rows[row], moving[b]] if row >= 0 else 0.0
        if row < 0:
            k = moving[position]
            outward = sign[k] * beta[k] > 0
            right[position] = sign[k] if outward else -sign[k]
        _solve_transposed(K, p, order, right, step)
        for k in range(d):
            dr[k] = Q[rows[row], k] if row >= 0 else 0.0
        for j in range(p):
            q = Q[rows[tight[j]]]
            for k in range(d):
                dr[k] += step[j] * q[k]
        t, leaving, entering, side, pivot = np.inf, -1, -1, 0.0, 0.0
        for j in range(p):
            if step[j] < 0 and max(multiplier[j], 0.0) < -step[j] * t:
                t, leaving = max(multiplier[j], 0.0) / -step[j], j
        for k in range(d):
            if is_moving[k] or abs(dr[k]) < 1e-13:
                continue
            up = dr[k] > 0
            if sign[k] == 0.0:
                if (hi[k] <= 0) if up else (lo[k] >= 0):
                    continue
                ahead, to = max((1 - r[k]) if up else (1 + r[k]), 0.0), 1.0 if up else -1.0
            elif (sign[k] > 0) != up:
                ahead, to = max(sign[k] * r[k] - 1, 0.0), sign[k]
            else:
                continue
            if ahead < t * abs(dr[k]) or (ahead == t * abs(dr[k]) and abs(dr[k]) > pivot):
                t, leaving, entering, side, pivot = ahead / abs(dr[k]), -1, k, to, abs(dr[k])
        if row < 0 and not outward:
            k = moving[position]
            if (lo[k] < 0 if sign[k] > 0 else hi[k] > 0) and t > 2:
                sign[k] = -sign[k]
                continue
        if t == np.inf:
            # The dual grows without bound along the ray. Go so far that the bound is beyond doubt, not on:
            # on the ray alone rounding might eat up the proof.
            if row >= 0:
                gain = g[row]
                for k in range(d):
                    gain -= Q[rows[row], k] * beta[k]
                length = gain / rate[row]
            else:
                k = moving[position]
                gain = abs(beta[k]) - ((hi[k] if sign[k] > 0 else -lo[k]) if outward else 0.0)
                length = gain
            goal = 2 * cutoff if cutoff < np.inf else 1e6 * (value + length)
            t = max(goal - value, 0.0) / gain
            for j in range(p):
                lam[tight[j]] = max(multiplier[j] + t * step[j], 0.0)
            if row >= 0:
                lam[row] = t
            return INFEASIBLE
        if row < 0:
            k = moving[position]
            is_moving[k] = False
            if not outward:
                sign[k] = 0.0
            p -= 1
            moving[position] = moving[p]
            if entering < 0:
                tight[leaving] = tight[p]
            else:
                moving[p] = entering
        elif entering < 0:
            tight[leaving] = row
        else:
            tight[p], moving[p] = row, entering
        if entering >= 0:
            is_moving[entering], sign[entering] = True, side
            p += 1
    return UNRESOLVED
