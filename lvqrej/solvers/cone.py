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
        lam = lam / max(1.0, 1e-100 * lam.max(initial=0.0))  # any multiple proves the same
        squares, lengths = self.squares(e), np.array([np.linalg.norm(M, axis=0) for M in self.M])
        q_size = self.q_size + 2 * np.sqrt(self.s * squares)[:, None] * lengths
        unit = (len(self.lo) + max([len(M) for M in self.M], default=0) + 16) * EPS
        row = (lam @ self.gradients(e))[None], np.array([lam @ (self.g - squares)])
        sizes = (lam @ q_size)[None], np.array([lam @ (self.g_size + squares)])
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
    t >= |e|^2, in units of the longest way that one of the constraints asks for.
    """
    import clarabel

    d, lo, hi, g = len(program.lo), program.lo, program.hi, program.g + program.margin
    direction = np.hstack([np.eye(d)[:, hi > 0], -np.eye(d)[:, lo < 0]])
    steps, images = direction.shape[1], [np.zeros(len(M)) for M in program.M]
    if steps == 0:  # nothing may move: any violated constraint alone is the proof
        return INFEASIBLE, np.zeros(d), (g > 0).astype(float), images
    curved, norm = program.s > 0, np.array([np.linalg.norm(A) for A in program.A])
    slopes = program.q @ direction
    # What each constraint asks for to first order; a ball exactly, as a way |M beta|.
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = np.where(g > 0, g / slopes.max(axis=1), 0.0)
        ways = np.where(g > 0, g / (norm + np.sqrt(np.maximum(norm**2 - program.s * g, 0.0))), 0.0)
    lengths[~np.isfinite(lengths)] = 0.0
    unit = lengths.max(initial=0.0) or 1.0
    metrics = list({id(M): M for M, ball in zip(program.M, curved, strict=True) if ball}.values())
    mine = [np.flatnonzero(curved & [own is M for own in program.M]) for M in metrics]
    n, column = steps + sum(len(M) + 1 for M in metrics), steps
    table, blocks = np.zeros((len(g), n)), [np.empty((0, n))]
    squares: list[Floats] = []
    heads: list[Floats] = []
    scales: list[float] = []
    table[~curved, :steps] = -slopes[~curved] * unit
    for M, own in zip(metrics, mine, strict=True):
        moved, k, t = M @ direction, len(M), column + len(M)
        asked = lengths * np.linalg.norm(moved[:, slopes.argmax(axis=1)], axis=0)
        asked[own] = ways[own]
        scale = asked.max() or unit * np.abs(M).max() or 1.0
        image, square = np.zeros((k, n)), np.zeros((k + 2, n))
        image[:, :steps], image[:, column:t] = moved * (unit / scale), -np.eye(k)
        square[:2, t], square[2:, column:t] = -1.0, -2 * np.eye(k)  # |e|^2 <= t as |(2 e, t - 1)| <= t + 1
        table[own, column:t] = [-2 * scale * program.A[j] for j in own]
        table[own, t] = program.s[own] * scale**2
        blocks, squares, scales = [*blocks, image], [*squares, square], [*scales, scale]
        heads, column = [*heads, np.append([1.0, -1.0], np.zeros(k))], t + 1
    norms = np.maximum(np.abs(table).max(axis=1), np.abs(g))
    norms[norms == 0] = 1.0
    table, values = table / norms[:, None], -g / norms
    a, b = _equalities(program)
    single, rooms = np.setdiff1d(np.arange(len(g)), [a, b]), np.append(hi[hi > 0], -lo[lo < 0]) / unit
    limited, each, count = np.flatnonzero(np.isfinite(rooms)), np.eye(steps, n), sum(map(len, blocks))
    equal, first = count + len(a), count + len(a) + len(single)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-10
    right = [np.zeros(count), (values[a] - values[b]) / 2, values[single], np.zeros(steps), rooms[limited]]
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((n, n)),
        np.append(np.ones(steps), np.zeros(n - steps)),
        sparse.csc_matrix(np.vstack([*blocks, table[a], table[single], -each, each[limited], *squares])),
        np.concatenate([*right, *heads]),
        [
            clarabel.ZeroConeT(equal),
            clarabel.NonnegativeConeT(len(single) + steps + len(limited)),
            *(clarabel.SecondOrderConeT(len(square)) for square in squares),
        ],
        settings,
    ).solve()
    x, z, lam = np.array(solution.x), np.array(solution.z), np.zeros(len(g))
    lam[a], lam[b], lam[single] = z[count:equal], -z[count:equal], z[equal:first]
    lam, row = np.maximum(lam, 0.0) / norms, first + steps + len(limited)
    # Where the constraints weighed by their multipliers are least; there the certificate is best.
    for square, scale, own in zip(squares, scales, mine, strict=True):
        curvature = float(lam[own] @ program.s[own]) * scale
        for j in own if curvature > 0 else ():
            images[j] = -z[row + 2 : row + len(square)] / curvature
        row += len(square)
    largest = lam.max(initial=0.0)
    lam = lam / largest if 0 < largest < np.inf else np.zeros(len(g))  # the certificate is free of its scale
    if "Infeasible" in str(solution.status):
        return INFEASIBLE, np.zeros(d), lam, images
    # A step that is smaller than the multiplier of "not below zero" is a zero that the solver never reaches.
    step, multiplier = x[:steps], z[first : first + steps]
    beta = direction @ np.where(step > multiplier, step, 0.0) * unit
    if not np.abs(beta).sum() < 1e12 * unit:  # no solution in sight, whatever the status says
        return UNRESOLVED, np.zeros(d), lam, images
    return SOLVED, np.clip(beta, lo, hi), lam * (largest * unit), images


def _equalities(program: Program) -> NDArray[np.int64]:
    """Return pairs of half-spaces back to back, hardly apart, of shape (2, m): well posed as equalities."""
    flat = np.flatnonzero(program.s == 0)
    q, g, size = program.q[flat], program.g[flat], program.g_size[flat]
    close = np.abs(g[:, None] + g) <= 1e-6 * size
    pairs = np.nonzero(np.triu(close & (q[:, None] == -q).all(axis=2), 1))
    return flat[np.array(pairs)]


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
