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

from lvqrej.solvers.certificate import EPS, certified
from lvqrej.solvers.homotopy import INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]

#: Relative size below which a multiplier of the solver, or the room to a bound, is taken for zero.
_ZERO = 1e-6


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
    status, beta, lam, e = solve(program)
    bound = program.bound(e, lam)
    polished = _polished(program, beta, lam) if status == SOLVED else None
    if polished is not None:
        beta, lam = polished
        bound = max(bound, program.bound(program.images(beta), lam))
    return Projection(status, beta, lam, bound)


def solve(program: Program) -> tuple[int, Floats, Floats, list[Floats]]:
    """Return status, changes, and multipliers and images for the certificate.

    The variables are steps up and down, in a unit of length, and for each metric the image e = M beta and
    t >= |e|^2, in units of the longest way that one of its balls asks for.
    """
    import clarabel

    d, lo, hi = len(program.lo), program.lo, program.hi
    up, down = np.flatnonzero(hi > 0), np.flatnonzero(lo < 0)
    steps, g = len(up) + len(down), program.g + program.margin
    if steps == 0:  # nothing may move: any violated constraint alone is the proof
        return INFEASIBLE, np.zeros(d), (g > 0).astype(float), [np.zeros(len(M)) for M in program.M]
    direction = np.zeros((d, steps))
    direction[up, np.arange(len(up))], direction[down, len(up) + np.arange(len(down))] = 1.0, -1.0
    slopes = program.q @ direction
    # What the most demanding constraint asks for to first order.
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.where(g > 0, g / slopes.max(axis=1), 0.0)
    unit = float(lengths[np.isfinite(lengths)].max(initial=0.0)) or 1.0
    metrics = list({id(M): M for M, s in zip(program.M, program.s, strict=True) if s > 0}.values())
    mine = [[j for j, own in enumerate(program.M) if own is M and program.s[j] > 0] for M in metrics]
    scales = [
        _way(program, g, M @ direction, own, slopes, lengths) or unit * float(np.abs(M).max()) or 1.0
        for M, own in zip(metrics, mine, strict=True)
    ]
    n, column, flat = steps + sum(len(M) + 1 for M in metrics), steps, program.s == 0
    table, images = np.zeros((len(g), n)), [np.empty((0, n))]
    squares: list[Floats] = []
    table[flat, :steps] = -slopes[flat] * unit
    for M, scale, own in zip(metrics, scales, mine, strict=True):
        image, square, eye = np.zeros((len(M), n)), np.zeros((len(M) + 2, n)), np.eye(len(M))
        t = column + len(M)
        image[:, :steps], image[:, column:t] = M @ direction * (unit / scale), -eye
        square[:2, t], square[2:, column:t] = -1.0, -2 * eye  # |e|^2 <= t as |(2 e, t - 1)| <= t + 1
        table[own, column:t] = [-2 * scale * program.A[j] for j in own]
        table[own, t] = program.s[own] * scale**2
        images, squares, column = [*images, image], [*squares, square], t + 1
    norms = np.maximum(np.abs(table).max(axis=1), np.abs(g))
    norms[norms == 0] = 1.0
    table, values = table / norms[:, None], -g / norms
    a, b = _equalities(program)
    single = np.setdiff1d(np.arange(len(g)), [a, b])
    rooms = np.concatenate([hi[up], -lo[down]])
    limited = np.flatnonzero(np.isfinite(rooms))
    heads = [np.concatenate([[1.0, -1.0], np.zeros(len(M))]) for M in metrics]
    count, each = sum(map(len, images)), np.eye(steps, n)
    equal = count + len(a)
    first = equal + len(single)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-10
    middle = np.concatenate([np.zeros(count), (values[a] - values[b]) / 2])
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((n, n)),
        np.concatenate([np.ones(steps), np.zeros(n - steps)]),
        sparse.csc_matrix(np.vstack([*images, table[a], table[single], -each, each[limited], *squares])),
        np.concatenate([middle, values[single], np.zeros(steps), rooms[limited] / unit, *heads]),
        [
            clarabel.ZeroConeT(equal),
            clarabel.NonnegativeConeT(len(single) + steps + len(limited)),
            *(clarabel.SecondOrderConeT(len(M) + 2) for M in metrics),
        ],
        settings,
    ).solve()
    x, z, lam = np.array(solution.x), np.array(solution.z), np.zeros(len(g))
    lam[a], lam[b], lam[single] = z[count:equal], -z[count:equal], z[equal:first]
    lam = np.maximum(lam, 0.0) / norms
    # Where the constraints weighed by their multipliers are least; there the certificate is best.
    e, row = [np.zeros(len(M)) for M in program.M], 0
    for M, scale, own in zip(metrics, scales, mine, strict=True):
        pull = sum(lam[j] * program.A[j] for j in own) + z[row : row + len(M)] / (2 * scale)
        curvature, row = float(lam[own] @ program.s[own]), row + len(M)
        for j in own:
            e[j] = pull / curvature if curvature > 0 else e[j]
    largest = lam.max(initial=0.0)
    lam = lam / largest if 0 < largest < np.inf else np.zeros(len(g))  # the certificate is free of its scale
    if "Infeasible" in str(solution.status):
        return INFEASIBLE, np.zeros(d), lam, e
    # A step that is smaller than the multiplier of "not below zero" is a zero that the solver never reaches.
    step, multiplier = x[:steps], z[first : first + steps]
    beta = direction @ np.where(step > multiplier, step, 0.0) * unit
    if not np.abs(beta).sum() < 1e12 * unit:  # no solution in sight, whatever the status says
        return UNRESOLVED, np.zeros(d), lam, e
    return SOLVED, np.clip(beta, lo, hi), lam * (largest * unit), e


def _equalities(program: Program) -> NDArray[np.int64]:
    """Return pairs of half-spaces back to back, hardly apart, of shape (2, m): well posed as equalities."""
    flat = np.flatnonzero(program.s == 0)
    q, g, size = program.q[flat], program.g[flat], program.g_size[flat]
    close = np.abs(g[:, None] + g) <= 1e-6 * size
    pairs = np.nonzero(np.triu(close & (q[:, None] == -q).all(axis=2), 1))
    return flat[np.array(pairs)]


def _way(program: Program, g: Floats, M: Floats, mine: list[int], slopes: Floats, lengths: Floats) -> float:
    """Return the longest way |M beta| that one of the metric's balls or another constraint alone asks for."""
    norms = [float(np.linalg.norm(program.A[j])) for j in mine]
    ways = [
        max(g[j], 0.0) / (norm + max(norm**2 - program.s[j] * g[j], 0.0) ** 0.5 or 1.0)
        for j, norm in zip(mine, norms, strict=True)
    ]
    others = np.setdiff1d(np.flatnonzero(np.isfinite(lengths)), mine)
    return max([*ways, *lengths[others] * np.linalg.norm(M[:, slopes[others].argmax(axis=1)], axis=0)])


def _polished(program: Program, beta: Floats, lam: Floats) -> tuple[Floats, Floats] | None:
    """Solve the optimality conditions on the solver's active sets by Newton's method, to the last digits.

    None if they turn out not to be the right sets: a constraint is missed, or the way is longer.
    """
    lo, hi = program.lo, program.hi
    largest, length = float(np.abs(beta).max()), float(np.abs(beta).sum())
    if largest == 0.0:
        return None
    at_hi = np.isfinite(hi) & (beta > 0) & (hi - beta <= _ZERO * largest)
    at_lo = np.isfinite(lo) & (beta < 0) & (beta - lo <= _ZERO * largest)
    beta = np.where(at_hi, hi, np.where(at_lo, lo, beta))
    moving = np.flatnonzero((beta != 0) & ~at_hi & ~at_lo)
    weight = lam * np.abs(program.q).max(axis=1)
    lam = np.where(weight > _ZERO * weight.max(initial=0.0), lam, 0.0)
    tight = np.flatnonzero(lam)
    signs, p = np.sign(beta), len(moving)
    for _ in range(12):
        rows = program.gradients(program.images(beta))[np.ix_(tight, moving)]
        jacobian = np.zeros((p + len(tight), p + len(tight)))
        jacobian[:p, p:], jacobian[p:, :p] = -rows.T, -rows
        for j in tight[program.s[tight] > 0]:
            part = program.M[j][:, moving]
            jacobian[:p, :p] += 2 * lam[j] * program.s[j] * part.T @ part
        residual = np.concatenate([signs[moving] - lam[tight] @ rows, program.values(beta)[tight]])
        scale = np.concatenate([np.full(p, largest), np.maximum(lam[tight], 1e-300)])
        step = scale * np.linalg.lstsq(jacobian * scale, -residual, rcond=1e-14)[0]
        beta[moving] += step[:p]
        lam[tight] += step[p:]
        if not (np.isfinite(beta).all() and np.isfinite(lam).all()):
            return None
        if np.abs(step[:p]).max(initial=0.0) <= 1e-12 * largest:  # the next would be below rounding
            break
    inside = (beta >= lo).all() and (beta <= hi).all() and (lam >= 0).all() and program.holds(beta)
    return (beta, lam) if inside and np.abs(beta).sum() <= (1 + _ZERO) * length else None
