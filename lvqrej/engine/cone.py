"""The l1 projection onto any cell, as one cone program for Clarabel, polished and certified.

In scaled changes beta = w delta, with e_m = M_m beta for each metric and t_m >= |e_m|^2 (one second-order
cone per metric), every constraint is linear: s_j t_m - 2 A_j'e_m + g_j <= 0. This takes over where several
balls are active at once, where metrics are mixed and where half-spaces cut balls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from lvqrej.engine.certificate import certified
from lvqrej.engine.homotopy import INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]

#: Relative size below which a multiplier of the solver, or the room to a bound, is taken for zero.
_ZERO = 1e-6
#: Multipliers from here on are no multipliers, whatever the solver's status says.
_HUGE = 1e100


class Program(NamedTuple):
    """One cell as a sample sees it: f_j = s_j |M_j beta|^2 - 2 A_j'M_j beta + g_j, or g_j - q_j'beta."""

    M: list[Floats]  # metric of each constraint, (k, d); empty for a half-space
    A: list[Floats]  # (k,)
    q: Floats  # (c, d) gradient of -f_j at 0
    s: Floats  # (c,)
    g: Floats  # (c,)
    size: Floats  # (c,) size of the terms of g
    margin: Floats  # (c,) by how much the answer has to be inside
    lo: Floats  # (d,)
    hi: Floats  # (d,)

    def images(self, beta: Floats) -> list[Floats]:
        """Return e_j = M_j beta of each constraint; empty for a half-space."""
        return [M @ beta for M in self.M]

    def gradients(self, e: list[Floats]) -> Floats:
        """Return -grad f_j at the images e, of shape (c, d)."""
        rows = self.q.copy()
        for j in np.flatnonzero(self.s):
            rows[j] = 2 * (self.A[j] - self.s[j] * e[j]) @ self.M[j]
        return rows

    def squares(self, e: list[Floats]) -> Floats:
        """Return s_j |e_j|^2, of shape (c,)."""
        return np.array([s * (part @ part) for s, part in zip(self.s, e, strict=True)])

    def values(self, beta: Floats) -> Floats:
        """Return f_j(beta) + margin_j, of shape (c,)."""
        return self.g + self.margin + self.squares(self.images(beta)) - self.q @ beta

    def holds(self, beta: Floats) -> bool:
        """Return whether beta meets all constraints, half their margins being for rounding."""
        return bool((self.values(beta) <= 0.5 * self.margin).all())

    def bound(self, e: list[Floats], lam: Floats) -> float:
        """Return the certified lower bound that multipliers lam >= 0 and any images e give.

        Of a program in extended precision it is lowered by that precision's rounding.
        """
        squares, q = self.squares(e), lam @ self.gradients(e)
        doubt, size = np.zeros_like(q), self.size + squares
        for j in np.flatnonzero(lam):
            if self.s[j] > 0:
                residual = np.linalg.norm(self.A[j] - self.s[j] * e[j])
                doubt += 2 * lam[j] * residual * np.sqrt((self.M[j] ** 2).sum(axis=0))
                size[j] += 2 * np.linalg.norm(self.A[j]) * np.linalg.norm(e[j])
            else:
                doubt += lam[j] * np.abs(self.q[j])
        tau, eps = lam @ (self.g - squares), np.finfo(float).eps
        unit = (len(q) + max([len(M) for M in self.M], default=0) + 16) * eps
        finer = np.finfo(q.dtype).eps / eps  # sums are so much more accurate than their final rounding
        doubt, size = np.maximum(finer * doubt, np.abs(q)), max(finer * (lam @ size), abs(tau))
        lo, hi = self.lo.astype(float), self.hi.astype(float)
        return certified(q.astype(float), doubt.astype(float), float(tau), 0.0, float(size), lo, hi, unit)[1]


def cone_projection(program: Program) -> tuple[int, Floats, Floats, float]:
    """Return status, changes beta, multipliers lam and certified bound of the program."""
    sure, status, beta, lam, bound = _attempt(program, wide=False)
    if not sure:
        other = _attempt(program, wide=True)
        bound = max(bound, other[4])
        if other[0] or (program.holds(other[2]) and not program.holds(beta)):
            _, status, beta, lam, _ = other
    return status, beta, lam, bound


def _attempt(program: Program, wide: bool) -> tuple[bool, int, Floats, Floats, float]:
    """Solve and polish; return whether another attempt would be of no use, and the answer."""
    status, beta, lam, done = _clarabel(program, wide)
    bound = program.bound(program.images(beta), lam)
    if status == INFEASIBLE:
        least = _least(program, lam)
        return True, status, beta, lam, max(bound, program.bound(program.images(least), lam))
    polished = polish(program, beta, lam)
    if polished is None:
        return done, status, beta, lam, bound
    beta, lam = polished
    return True, SOLVED, beta, lam, max(bound, program.bound(program.images(beta), lam))


def _clarabel(program: Program, wide: bool) -> tuple[int, Floats, Floats, bool]:
    """Solve the cone program; return status, changes, multipliers, and whether the solver is content.

    On INFEASIBLE the multipliers are the ray that proves it. Images are measured in units of the balls or, if
    `wide`, of the way to the farthest constraint.
    """
    import clarabel

    d, lo, hi = len(program.lo), program.lo, program.hi
    up, down = np.flatnonzero(hi > 0), np.flatnonzero(lo < 0)
    if len(up) + len(down) == 0:
        # Nothing may move: any violated constraint alone is the proof.
        return INFEASIBLE, np.zeros(d), (program.values(np.zeros(d)) > 0).astype(float), True
    rate = np.maximum(
        program.q[:, up].max(axis=1, initial=0.0), (-program.q[:, down]).max(axis=1, initial=0.0)
    )
    g = program.g + program.margin
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.where(g > 0, g / rate, 0.0)
    finite = lengths[np.isfinite(lengths)]
    unit = float(finite.max(initial=0.0)) or 1.0
    direction = np.hstack([np.eye(d)[:, up], -np.eye(d)[:, down]])
    steps = direction.shape[1]
    curved = [j for j in range(len(g)) if program.s[j] > 0]
    metrics = {id(program.M[j]): program.M[j] for j in curved}
    offsets, origins, scales, n = {}, {}, {}, steps
    for key, M in metrics.items():
        offsets[key] = n
        n += len(M) + 1
        mine = [j for j in curved if program.M[j] is M]
        way = unit * float(np.abs(M).max() or 1.0)
        origins[key], scales[key] = (np.zeros(len(M)), way) if wide else _frame(program, g, mine, way)
    rows: list[Floats] = []
    right: list[float] = []

    def add(row: Floats, value: float) -> None:
        rows.append(row)
        right.append(value)

    for key, M in metrics.items():
        for r in range(len(M)):
            row = np.zeros(n)
            row[:steps] = M[r] @ direction * (unit / scales[key])
            row[offsets[key] + r] = -1.0
            add(row, origins[key][r] / scales[key])
    equalities = len(rows)
    rooms = np.concatenate([hi[up], -lo[down]])
    for i in range(steps):
        add(-np.eye(1, n, i)[0], 0.0)
    for i in range(steps):
        if np.isfinite(rooms[i]):
            add(np.eye(1, n, i)[0], rooms[i] / unit)
    first = len(rows)
    norms = np.empty(len(g))
    for j in range(len(g)):
        row, value = np.zeros(n), g[j]
        if program.s[j] > 0:
            key, A, s = id(program.M[j]), program.A[j], program.s[j]
            k, scale, origin = len(A), scales[key], origins[key]
            row[offsets[key] : offsets[key] + k] = -2 * (A - s * origin) * scale
            row[offsets[key] + k] = s * scale**2
            value += s * (origin @ origin) - 2 * (A @ origin)
        else:
            row[:steps] = -(program.q[j] @ direction) * unit
        norms[j] = max(float(np.abs(row).max()), abs(value)) or 1.0
        add(row / norms[j], -value / norms[j])
    cones = [clarabel.ZeroConeT(equalities)] if equalities else []
    cones.append(clarabel.NonnegativeConeT(len(rows) - equalities))
    for key, M in metrics.items():
        k = len(M)
        for head in (1.0, -1.0):
            row = np.zeros(n)
            row[offsets[key] + k] = -1.0
            add(row, head)
        for r in range(k):
            row = np.zeros(n)
            row[offsets[key] + r] = -2.0
            add(row, 0.0)
        cones.append(clarabel.SecondOrderConeT(k + 2))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-10
    cost = np.concatenate([np.ones(steps), np.zeros(n - steps)])
    matrix = sparse.csc_matrix(np.array(rows))
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((n, n)), cost, matrix, np.array(right), cones, settings
    ).solve()
    multipliers = np.maximum(np.array(solution.z)[first : first + len(g)], 0.0)
    largest = float(multipliers.max(initial=0.0))
    if not 0 < largest < np.inf:
        multipliers, largest = np.zeros(len(g)), 1.0
    multipliers = multipliers / largest / norms
    ray = multipliers / (multipliers.max(initial=0.0) or 1.0)  # the certificate is free of its scale
    if "Infeasible" in str(solution.status):
        return INFEASIBLE, np.zeros(d), ray, True
    # A step that is smaller than the multiplier of "not below zero" is a zero that the solver never reaches.
    step, multiplier = np.array(solution.x)[:steps], np.array(solution.z)[equalities : equalities + steps]
    beta = direction @ np.where(step > multiplier, step, 0.0) * unit
    if not np.abs(beta).sum() < 1e12 * unit:  # no solution in sight, whatever the status says
        return UNRESOLVED, np.zeros(d), ray, False
    scale = largest * unit
    lam = multipliers * scale if scale < _HUGE else ray
    return SOLVED, np.clip(beta, lo, hi), lam, str(solution.status) == "Solved"


def _least(program: Program, lam: Floats) -> Floats:
    """Return where sum_j lam_j f_j is least within the bounds.

    If it is above zero there, no point meets all constraints: with the images of this point the certificate
    proves it.
    """
    lo, hi = program.lo, program.hi
    hessian, slope = np.zeros((len(lo), len(lo))), lam @ program.q
    for j in np.flatnonzero(lam * program.s):
        hessian += 2 * lam[j] * program.s[j] * program.M[j].T @ program.M[j]
    scale = np.sqrt(np.diag(hessian))
    scale = np.where(scale > 0, 1 / np.where(scale > 0, scale, 1.0), 1.0)
    hessian, slope = hessian * scale * scale[:, None], slope * scale
    beta = np.linalg.lstsq(hessian, slope, rcond=None)[0]
    if np.isfinite(lo).any() or np.isfinite(hi).any():
        least = minimize(
            lambda v: (0.5 * v @ hessian @ v - slope @ v, hessian @ v - slope),
            np.clip(beta, lo / scale, hi / scale),
            jac=True,
            bounds=np.column_stack([lo / scale, hi / scale]),
            method="L-BFGS-B",
            options={"ftol": 0.0, "gtol": 1e-14 * float(np.abs(slope).max(initial=0.0)), "maxiter": 1000},
        )
        beta = least.x
    return np.clip(beta * scale, lo, hi)


def _frame(program: Program, g: Floats, mine: list[int], default: float) -> tuple[Floats, float]:
    """Return origin and unit in which the image e = M beta is of order one.

    A small ball far away is seen from its centre, in units of its radius; anything else from the sample, in
    units of the distance to it.
    """
    worst = max(mine, key=lambda j: float(g[j]) / max(float(np.linalg.norm(program.A[j])), 1e-300))
    A, s = program.A[worst], program.s[worst]
    squared = float(A @ A)
    rest = squared - s * g[worst]
    if 0 < rest < 0.25 * squared:
        return A / s, float(np.sqrt(rest)) / s
    return np.zeros(len(A)), abs(g[worst]) / (2 * np.sqrt(squared)) if squared > 0 and g[worst] else default


def polish(program: Program, beta: Floats, lam: Floats) -> tuple[Floats, Floats] | None:
    """Solve the optimality conditions on the solver's active sets by Newton's method, to the last digits.

    Returns None if they turn out not to be the right sets: a sign turns, a constraint is missed, or a feature
    that stays would be worth moving.
    """
    lo, hi = program.lo, program.hi
    largest = float(np.abs(beta).max())
    if largest == 0.0:
        return None
    at_hi = np.isfinite(hi) & (beta > 0) & (hi - beta <= _ZERO * largest)
    at_lo = np.isfinite(lo) & (beta < 0) & (beta - lo <= _ZERO * largest)
    beta = np.where(at_hi, hi, np.where(at_lo, lo, beta))
    moving = np.flatnonzero((beta != 0) & ~at_hi & ~at_lo)
    weight = lam * np.maximum(np.abs(program.q).max(axis=1), 1e-300)
    tight = np.flatnonzero(weight > _ZERO * weight.max(initial=0.0))
    lam = np.where(weight > _ZERO * weight.max(initial=0.0), lam, 0.0)
    signs = np.sign(beta)
    p = len(moving)
    for _ in range(12):
        rows = program.gradients(program.images(beta))[np.ix_(tight, moving)]
        hessian = np.zeros((p, p))
        for j in tight[program.s[tight] > 0]:
            part = program.M[j][:, moving]
            hessian += 2 * lam[j] * program.s[j] * part.T @ part
        residual = np.concatenate([signs[moving] - lam[tight] @ rows, program.values(beta)[tight]])
        jacobian = np.block([[hessian, -rows.T], [-rows, np.zeros((len(tight), len(tight)))]])
        scale = np.concatenate([np.full(p, largest), np.maximum(lam[tight], 1e-300)])
        step = scale * np.linalg.lstsq(jacobian * scale, -residual, rcond=1e-14)[0]
        beta[moving] += step[:p]
        lam[tight] += step[p:]
        if not (np.isfinite(beta).all() and np.isfinite(lam).all()):
            return None
        if np.abs(step[:p]).max(initial=0.0) <= 4e-16 * largest:
            break
    stays, q = beta == 0, lam @ program.gradients(program.images(beta))
    good = (
        (signs * beta >= 0).all()
        and (q[stays & (hi > 0)] <= 1 + _ZERO).all()
        and (q[stays & (lo < 0)] >= -1 - _ZERO).all()
        and (beta >= lo).all()
        and (beta <= hi).all()
        and (lam >= 0).all()
        and program.holds(beta)
    )
    return (beta, lam) if good else None
