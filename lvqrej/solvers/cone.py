"""The l1 projection onto any cell, as one cone program for Clarabel, polished and certified.

In scaled changes beta = w delta, with e_m = M_m beta for each metric and t_m >= |e_m|^2 (one second-order
cone per metric), every constraint is linear: s_j t_m - 2 A_j'e_m + g_j <= 0. This takes over where several
balls are active at once, where metrics are mixed and where half-spaces cut balls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lvqrej.solvers.certificate import EPS, certified
from lvqrej.solvers.homotopy import INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]

#: Relative size below which a multiplier of the solver, or the room to a bound, is taken for zero.
_ZERO = 1e-6
#: What keeps a sum of constraints from falling without end where rounding leaves a slope, but no curvature.
_RIDGE = 1e-12


class Program(NamedTuple):
    """One cell as a sample sees it: f_j = s_j |M_j beta|^2 - 2 A_j'M_j beta + g_j, or g_j - q_j'beta."""

    M: list[Floats]  # metric of each constraint, (k, d); balls that share it share the array
    A: list[Floats]  # (k,)
    q: Floats  # (c, d) gradient of -f_j at 0
    q_size: Floats  # (c, d) sizes of its terms
    s: Floats  # (c,) 0 for a half-space
    g: Floats  # (c,)
    g_size: Floats  # (c,) size of its terms
    margin: Floats  # (c,) by how much the answer has to be inside
    lo: Floats  # (d,)
    hi: Floats  # (d,)

    def images(self, beta: Floats) -> list[Floats]:
        """Return e_j = M_j beta of each constraint."""
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
        """Return whether beta meets all constraints up to rounding, or half their margins."""
        return bool((self.values(beta) <= np.maximum(0.5 * self.margin, 4 * EPS * self.g_size)).all())

    def bound(self, e: list[Floats], lam: Floats) -> float:
        """Return the certified lower bound that multipliers lam >= 0 and any images e give."""
        squares, q_size, tau_size = self.squares(e), self.q_size.copy(), self.g_size.copy()
        for j in np.flatnonzero(self.s):
            size = self.s[j] * np.linalg.norm(e[j])
            q_size[j] += 2 * size * np.linalg.norm(self.M[j], axis=0)
            tau_size[j] += squares[j] + 2 * np.linalg.norm(self.A[j]) * np.linalg.norm(e[j])
        unit = (len(self.lo) + max([len(M) for M in self.M], default=0) + 16) * EPS
        row = (lam @ self.gradients(e))[None], np.array([lam @ (self.g - squares)])
        sizes = (lam @ q_size)[None], np.array([lam @ tau_size])
        return float(certified(*row, *sizes, self.lo[None], self.hi[None], unit)[0])


class Projection(NamedTuple):
    """Status, changes, multipliers and certified bound."""

    status: int
    beta: Floats
    multipliers: Floats
    bound: float


def cone_projection(program: Program) -> Projection:
    """Solve, polish and certify the program."""
    status, beta, lam = solve(program)
    bound = program.bound(program.images(beta), lam)
    if status == INFEASIBLE:
        least = _least(program, lam)
        return Projection(status, beta, lam, max(bound, program.bound(program.images(least), lam)))
    polished = _polished(program, beta, lam) if status == SOLVED else None
    if polished is not None:
        beta, lam = polished
        bound = max(bound, program.bound(program.images(beta), lam))
    return Projection(status, beta, lam, bound)


def _clarabel(P: Any, cost: Floats, A: Any, b: Floats, cones: list[Any]) -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-10
    return clarabel.DefaultSolver(P, cost, sparse.csc_matrix(A), b, cones, settings).solve()


def solve(program: Program) -> tuple[int, Floats, Floats]:
    """Return status, changes and multipliers; on INFEASIBLE these are the ray that proves it.

    The variables are steps up and down, in a unit of length, and for each metric the image e = M beta and
    t >= |e|^2, in units of the longest way that a constraint asks for.
    """
    import clarabel

    d, lo, hi = len(program.lo), program.lo, program.hi
    up, down = np.flatnonzero(hi > 0), np.flatnonzero(lo < 0)
    steps, g = len(up) + len(down), program.g + program.margin
    if steps == 0:  # nothing may move: any violated constraint alone is the proof
        return INFEASIBLE, np.zeros(d), (g > 0).astype(float)
    direction = np.zeros((d, steps))
    direction[up, np.arange(len(up))], direction[down, len(up) + np.arange(len(down))] = 1.0, -1.0
    slopes = program.q @ direction
    # What the most demanding constraint asks for to first order.
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.where(g > 0, g / slopes.max(axis=1), 0.0)
    unit = float(lengths[np.isfinite(lengths)].max(initial=0.0)) or 1.0
    metrics = {id(M): M for M, s in zip(program.M, program.s, strict=True) if s > 0}
    n = steps + sum(len(M) + 1 for M in metrics.values())
    table, values = np.zeros((len(g), n)), -g
    flat = program.s == 0
    table[flat, :steps] = -slopes[flat] * unit
    images, column = [np.empty((0, n))], steps
    squares: list[Floats] = []
    for M in metrics.values():
        mine = [j for j in range(len(g)) if not flat[j] and program.M[j] is M]
        scale = _way(program, g, M @ direction, mine, slopes) or unit * float(np.abs(M).max()) or 1.0
        image, square, eye = np.zeros((len(M), n)), np.zeros((len(M) + 2, n)), np.eye(len(M))
        e, t = slice(column, column + len(M)), column + len(M)
        image[:, :steps], image[:, e] = M @ direction * (unit / scale), -eye
        square[:2, t], square[2:, e] = -1.0, -2 * eye  # |e|^2 <= t as |(2 e, t - 1)| <= t + 1
        table[mine, e], table[mine, t] = [-2 * scale * program.A[j] for j in mine], program.s[mine] * scale**2
        images, squares, column = [*images, image], [*squares, square], t + 1
    norms = np.maximum(np.abs(table).max(axis=1), np.abs(values))
    norms[norms == 0] = 1.0
    table, values = table / norms[:, None], values / norms
    # Two half-spaces back to back, hardly apart, are an equality: as such they are well posed.
    pairs = _equalities(program)
    single = np.setdiff1d(np.arange(len(g)), pairs)
    middle = (values[pairs[:, 0]] - values[pairs[:, 1]]) / 2
    rooms = np.concatenate([hi[up], -lo[down]])
    limited, each = np.flatnonzero(np.isfinite(rooms)), np.eye(steps, n)
    equal = sum(map(len, images)) + len(pairs)
    first = equal + steps + len(limited)
    heads = [np.concatenate([[1.0, -1.0], np.zeros(len(M))]) for M in metrics.values()]
    below = np.zeros(equal - len(pairs)), middle, np.zeros(steps), rooms[limited] / unit, values[single]
    solution = _clarabel(
        sparse.csc_matrix((n, n)),
        np.concatenate([np.ones(steps), np.zeros(n - steps)]),
        np.vstack([*images, table[pairs[:, 0]], -each, each[limited], table[single], *squares]),
        np.concatenate([*below, *heads]),
        [
            clarabel.ZeroConeT(equal),
            clarabel.NonnegativeConeT(first - equal + len(single)),
            *(clarabel.SecondOrderConeT(len(M) + 2) for M in metrics.values()),
        ],
    )
    x, z, lam = np.array(solution.x), np.array(solution.z), np.zeros(len(g))
    lam[single] = np.maximum(z[first : first + len(single)], 0.0)
    lam[pairs[:, 0]], lam[pairs[:, 1]] = (
        np.maximum(sign * z[equal - len(pairs) : equal], 0.0) for sign in (1, -1)
    )
    lam /= norms
    largest = lam.max(initial=0.0)
    ray = lam / largest if 0 < largest < np.inf else np.zeros(len(g))  # the certificate is free of its scale
    if "Infeasible" in str(solution.status):
        return INFEASIBLE, np.zeros(d), ray
    # A step that is smaller than the multiplier of "not below zero" is a zero that the solver never reaches.
    step, multiplier = x[:steps], z[equal : equal + steps]
    beta = direction @ np.where(step > multiplier, step, 0.0) * unit
    if not np.abs(beta).sum() < 1e12 * unit:  # no solution in sight, whatever the status says
        return UNRESOLVED, np.zeros(d), ray
    return SOLVED, np.clip(beta, lo, hi), lam * unit


def _way(program: Program, g: Floats, M: Floats, mine: list[int], slopes: Floats) -> float:
    """Return the longest way |M beta| that one of the balls or one half-space asks for; 0 if none does."""
    ways = [0.0]
    for j in np.flatnonzero(g > 0):
        if j in mine:
            squared = float(program.A[j] @ program.A[j])
            reach = np.sqrt(squared) + np.sqrt(max(squared - program.s[j] * g[j], 0.0))
            ways.append(float(g[j] / (reach or 1.0)))
        elif program.s[j] == 0:
            k = int(slopes[j].argmax())
            ways.append(float(np.linalg.norm(M[:, k]) * g[j] / (slopes[j, k] or 1.0)))
    return max(ways)


def _equalities(program: Program) -> NDArray[np.int64]:
    """Return pairs of half-spaces with opposite normals and hardly any room between them, of shape (m, 2)."""
    flat, pairs = np.flatnonzero(program.s == 0), []
    for a, i in enumerate(flat):
        for j in flat[a + 1 :]:
            apart = -(program.g[i] + program.g[j])
            if abs(apart) <= 1e-6 * program.g_size[i] and (program.q[i] == -program.q[j]).all():
                pairs.append((i, j))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _least(program: Program, lam: Floats) -> Floats:
    """Return where sum_j lam_j f_j is least within the bounds.

    If it is above zero there, no point meets all constraints: with the images of this point the certificate
    proves it.
    """
    import clarabel

    curved = np.flatnonzero(lam * program.s)
    if len(curved) == 0:  # linear: the images do not matter
        return np.zeros(len(program.lo))
    hessian = sum(2 * lam[j] * program.s[j] * program.M[j].T @ program.M[j] for j in curved)
    scale = np.sqrt(np.diag(hessian))
    scale = np.where(scale > 0, 1 / np.where(scale > 0, scale, 1.0), 1.0)
    up, down = np.isfinite(program.hi), np.isfinite(program.lo)
    eye = np.eye(len(scale))
    solution = _clarabel(
        sparse.csc_matrix(np.triu(hessian * scale * scale[:, None] + _RIDGE * eye)),
        -(lam @ program.q) * scale,
        np.vstack([eye[up], -eye[down]]),
        np.concatenate([(program.hi / scale)[up], (-program.lo / scale)[down]]),
        [clarabel.NonnegativeConeT(int(up.sum() + down.sum()))],
    )
    beta = np.array(solution.x) * scale
    return np.clip(beta, program.lo, program.hi) if np.isfinite(beta).all() else np.zeros(len(beta))


def _polished(program: Program, beta: Floats, lam: Floats) -> tuple[Floats, Floats] | None:
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
    signs, p = np.sign(beta), len(moving)
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
