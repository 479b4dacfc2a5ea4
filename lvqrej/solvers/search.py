"""The nearest point of a union of cells, best-first, for all samples of a batch in lock-step.

Every cell gets a lower bound in closed form. Every sample projects onto its most promising cell first, then
round by round onto those that can still win, until the next bound exceeds the best distance found (the
paper's early stopping). Seen from a sample x, with changes beta = w delta, M = L diag(1/w) and
z = L (point - x), a constraint is

    f(beta) = s |M beta|^2 - 2 A'M beta + g,    s = alpha - beta,  A = alpha z_near - beta z_far,
                                                g = alpha |z_near|^2 - beta |z_far|^2 + gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.solvers.certificate import EPS, certified, knapsack
from lvqrej.solvers.cone import Program, cone_projection
from lvqrej.solvers.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED, homotopy
from lvqrej.solvers.simplex import dual_simplex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How an answer was found; searches store the index.
PATHS = ("accepted", "start", "homotopy", "simplex", "cone", "none")
ACCEPTED, START, HOMOTOPY, SIMPLEX, CONE, NONE = range(6)
#: As many numbers a chunk of samples may take at once.
_NUMBERS = 2**21
#: The relative gap up to which an answer of the paths in lock-step is left as it is.
_OPTIMAL = 1e-9


class Nearest(NamedTuple):
    """What a search found, one entry per sample.

    `changes` (n, d); `distances` (n,), sum_k w_k |change_k|, infinite where nothing was found; `bounds` (n,),
    certified: no accepted input is nearer, and infinity is the proof that there is none; `cells` (n,), -1 if
    none; `paths` (n,), places in `PATHS`.
    """

    changes: Floats
    distances: Floats
    bounds: Floats
    cells: Ints
    paths: Ints

    @staticmethod
    def nothing(n: int, d: int) -> Nearest:
        """Return the arrays of a search before it starts."""
        return Nearest(
            np.zeros((n, d)), np.full(n, np.inf), np.full(n, np.inf), np.full(n, -1), np.full(n, NONE)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Constraints:
    """Constraints as arrays and which of them make up each cell; see `lvqrej.cells.Cells`."""

    metrics: Floats
    points: Floats
    point_metric: Ints
    near: Ints
    far: Ints
    alpha: Floats
    beta: Floats
    gamma: Floats
    rows: Ints
    plain: Floats | None = None

    @cached_property
    def flat(self) -> NDArray[np.bool_]:
        """Which constraints are half-spaces, of shape (c,)."""
        return self.alpha == self.beta

    @cached_property
    def normals(self) -> tuple[Floats, Floats, Ints]:
        """Gradients of -f of the half-spaces (N, d), sizes of their terms, and which is whose (c,), or -1."""
        paired, is_plain = self.flat & (self.near >= 0), self.near < 0
        plain = np.empty((0, self.metrics.shape[2])) if self.plain is None else self.plain
        _, first, which = np.unique(
            self.near[paired] * len(self.points) + self.far[paired], return_index=True, return_inverse=True
        )
        a, b = self.near[paired][first], self.far[paired][first]
        difference, L = self.points[a] - self.points[b], self.metrics[self.point_metric[a]]
        pulled = 2 * np.einsum("nkd,nk->nd", L, np.einsum("nkd,nd->nk", L, difference))
        size = np.abs(L)
        sizes = 2 * np.einsum("nkd,nk->nd", size, np.einsum("nkd,nd->nk", size, np.abs(difference)))
        index = np.full(len(self.near), -1)
        index[paired], index[is_plain] = len(plain) + which, self.far[is_plain]
        return np.vstack([plain, pulled]), np.vstack([np.abs(plain), sizes]), index

    def weighed(self, weights: Floats) -> Weighed:
        """Return metrics and normals in units of the objective; those of the latest weights are kept."""
        latest: Weighed | None = vars(self).get("_weighed")
        if latest is None or not np.array_equal(latest.weights, weights):
            latest = vars(self)["_weighed"] = Weighed.of(self, weights)
        return latest


class Weighed(NamedTuple):
    """What all samples share, in units of the objective: beta = w delta."""

    weights: Floats  # (d,)
    M: Floats  # (M, k, d) metrics / w
    gram: Floats  # (M, d, d)
    length: Floats  # (M, d) column lengths |M_k|
    Q: Floats  # (N, d) normals / w
    Q_size: Floats  # (N, d)
    s: Floats  # (c,)
    ball: Floats  # (c,) B^2 = |A|^2 - s g, the same from everywhere
    flat: NDArray[np.bool_]  # (c + 1,) which are half-spaces; the last stands for the padding of rows
    flat_cell: NDArray[np.bool_]  # (cells,)
    metric: Ints  # (c,) of each constraint

    @staticmethod
    def of(cells: Constraints, weights: Floats) -> Weighed:
        """Return what the cells are in units of the objective."""
        M, (normals, sizes, _) = cells.metrics / weights, cells.normals
        gram = np.einsum("mkd,mke->mde", M, M)
        s, near, far = cells.alpha - cells.beta, np.maximum(cells.near, 0), cells.far
        far = np.where(cells.near < 0, 0, far)
        metric = cells.point_metric[near]
        between = np.einsum("ckd,cd->ck", cells.metrics[metric], cells.points[near] - cells.points[far])
        ball = cells.alpha * cells.beta * (between**2).sum(axis=1) - s * cells.gamma
        flat: NDArray[np.bool_] = np.concatenate([cells.flat, [True]])
        return Weighed(
            weights, M, gram, np.sqrt(np.einsum("mii->mi", gram)), normals / weights, sizes / weights, s,
            ball, flat, np.asarray(flat[cells.rows].all(axis=1)), metric,
        )  # fmt: skip


def search(
    cells: Constraints, X: Floats, weights: Floats, lower: Floats, upper: Floats, margin: float
) -> Nearest:
    """Find for each row of X the nearest point of the union of cells, in weighted l1.

    Parameters
    ----------
    cells : Constraints
    X : ndarray of shape (n, d)
    weights : ndarray of shape (d,)
        Positive.
    lower, upper : ndarrays of shape (n, d)
        Bounds of the answer, lower <= X <= upper. Equal bounds fix a feature.
    margin : float
        How far inside the constraints to aim, relative to the sizes of their terms; the bounds of the
        distance are those of the cells as they are.
    """
    n, d = X.shape
    result = Nearest.nothing(n, d)
    count, r = cells.rows.shape
    if count == 0 or n == 0:
        return result
    if len(cells.near) == 0:  # nothing is asked for
        return result._replace(
            distances=np.zeros(n), bounds=np.zeros(n), cells=0 * result.cells, paths=0 * result.paths + START
        )
    W = cells.weighed(weights)
    curved = int((~cells.flat).sum())
    each = len(cells.points) * (2 * d + cells.metrics.shape[1]) + curved * d + 2 * count * max(r, 1)
    size = max(1, _NUMBERS // each)
    for first in range(0, n, size):
        part = slice(first, first + size)
        rows: Any = (column[part] for column in result)
        _search(View(cells, W, X[part], lower[part], upper[part], margin), Nearest(*rows))
    return result


def _search(view: View, found: Nearest) -> None:
    """Search the cells of all samples of a view, in the order of their bounds; fill in what is found.

    The most promising cell comes first, then those that can still win, three times as many at once in each
    round. A cell that the solvers in lock-step leave open goes back into the queue with the bound they have
    proven; if its turn comes again, the cone program decides.
    """
    bounds = view.cell_bounds()
    best, proven, rows = found.distances, np.full(len(bounds), np.inf), np.arange(len(bounds))
    left_open, width = np.zeros(bounds.shape, dtype=bool), 1
    while True:
        order = (
            bounds[rows].argmin(axis=1)[:, None] if width == 1 else bounds[rows].argsort(axis=1)[:, :width]
        )
        rows, cell = np.repeat(rows, order.shape[1]), order.ravel()
        second = left_open[rows, cell]
        go = bounds[rows, cell] < best[rows] * np.where(second, 1 - _OPTIMAL, 1.0)
        if second.any():
            settled = second & ~go  # what is left open of these cells is less than counts
            np.minimum.at(proven, rows[settled], bounds[rows[settled], cell[settled]])
        rows, cell, second = rows[go], cell[go], second[go]
        if len(rows) == 0:
            break
        answer = view.projected(rows, cell, second, best[rows])
        ended = answer.status != UNRESOLVED
        left_open[rows, cell] = ~ended
        bounds[rows, cell] = np.where(ended, np.inf, answer.bound)
        np.minimum.at(proven, rows[ended], answer.bound[ended])
        distance = np.where(answer.valid, np.abs(answer.beta).sum(axis=1), np.inf)
        nearer = np.flatnonzero(distance < best[rows])
        nearer = nearer[np.argsort(-distance[nearer], kind="stable")]  # of one sample, the last one stays
        at = rows[nearer]
        best[at], found.cells[at], found.paths[at] = distance[nearer], cell[nearer], answer.path[nearer]
        found.changes[at] = answer.beta[nearer] / view.W.weights
        rows, width = rows if width == 1 else np.unique(rows), 3 * width
    found.bounds[:] = np.minimum(proven, best)


class Projections(NamedTuple):
    """Projections of samples onto a cell each; UNRESOLVED may still have a change that is in the cell."""

    status: Ints
    beta: Floats
    bound: Floats  # certified
    path: Ints
    valid: NDArray[np.bool_]  # whether the change is in the cell

    @staticmethod
    def without_change(n: int, d: int, status: int, path: int) -> Projections:
        """Return projections that are still to be found, or where nothing has to change."""
        nothing = np.zeros((n, d)), np.zeros(n), np.full(n, path)
        return Projections(np.full(n, status), *nothing, np.full(n, status == SOLVED))


class View:
    """Cells as the samples of a chunk see them: the values of all constraints, bounds in closed form."""

    def __init__(
        self, cells: Constraints, W: Weighed, X: Floats, lower: Floats, upper: Floats, margin: float
    ) -> None:
        self.cells, self.W, self.X = cells, W, X
        self.lo, self.hi = (lower - X) * W.weights, (upper - X) * W.weights
        self.free = bool((self.lo < 0).all() and (self.hi > 0).all())
        self.unit = (X.shape[1] + cells.metrics.shape[1] + 16) * EPS
        n, (S, d), k = len(X), cells.points.shape, cells.metrics.shape[1]
        self.z, self.u = np.zeros((n, S, k)), np.zeros((n, S, d))
        reach = np.zeros((n, S))  # |z| as it would be without cancellation: what its rounding is relative to
        for m, L in enumerate(cells.metrics):
            mine = slice(None) if len(cells.metrics) == 1 else np.flatnonzero(cells.point_metric == m)
            difference = cells.points[mine] - X[:, None]
            shape = difference.shape[:2]
            z = difference.reshape(-1, d) @ L.T
            self.z[:, mine], self.u[:, mine] = z.reshape(*shape, k), (z @ W.M[m]).reshape(*shape, d)
            size = np.abs(difference).reshape(-1, d) @ np.abs(L).T
            reach[:, mine] = np.sqrt(np.einsum("ik,ik->i", size, size)).reshape(shape)
        squares = np.einsum("nsk,nsk->ns", self.z, self.z)
        self.reach, sizes = reach, reach * np.sqrt(squares)
        near, far = np.maximum(cells.near, 0), np.where(cells.near < 0, 0, cells.far)
        c, offset = len(near), np.abs(cells.gamma)
        # The last column stands for the padding of rows: a constraint that always holds.
        self.g, (self.size, self.margin) = np.full((n, c + 1), -np.inf), np.zeros((2, n, c + 1))
        a, b = cells.alpha * squares[:, near], cells.beta * squares[:, far]
        self.g[:, :c], self.margin[:, :c] = a - b + cells.gamma, margin * (a + b + offset)
        self.size[:, :c] = cells.alpha * sizes[:, near] + cells.beta * sizes[:, far] + offset
        plain = np.flatnonzero(cells.near < 0)
        if len(plain):
            normals = cells.normals[0][cells.far[plain]]
            self.g[:, plain] = cells.gamma[plain] - X @ normals.T
            self.size[:, plain] = offset[plain] + np.abs(X) @ np.abs(normals).T
            self.margin[:, plain] = margin * self.size[:, plain]
        self.near, self.far = near, far

    def cell_bounds(self) -> Floats:
        """Return a lower bound of the scaled distance to each cell, of shape (n, cells), in closed form.

        A half-space: g / max_k |Q_k|. A ball: g |A| / ((|A| + B) max_k |c_k|), c = M'A. Infinite where
        nothing that may move helps.
        """
        cells, W = self.cells, self.W
        g = self.g - self.unit * self.size
        self.alone = np.zeros_like(g)  # what each constraint alone asks for
        flat, curved = np.flatnonzero(cells.flat), np.flatnonzero(~cells.flat)
        with np.errstate(divide="ignore", invalid="ignore"):
            if len(flat):
                self.alone[:, flat] = np.where(
                    g[:, flat] > 0, g[:, flat] / self._rates()[:, cells.normals[2][flat]], 0.0
                )
            if len(curved):
                near, far, alpha, beta = (
                    part[curved] for part in (self.near, self.far, cells.alpha, cells.beta)
                )
                c = alpha[:, None] * self.u[:, near] - beta[:, None] * self.u[:, far]
                if not self.free:
                    c = np.where(c > 0, c * (self.hi > 0)[:, None], c * (self.lo < 0)[:, None])
                longest = W.length.max(axis=1)[W.metric[curved]]
                rate = np.abs(c, out=c).max(axis=2)
                rate += np.where(
                    rate > 0,
                    self.unit * longest * (alpha * self.reach[:, near] + beta * self.reach[:, far]),
                    0.0,
                )
                value, rest = g[:, curved], W.ball[curved]
                norm = np.sqrt(np.maximum(W.s[curved] * self.g[:, curved] + rest, 0.0))
                bound = value * norm / ((norm + np.sqrt(np.maximum(rest, 0.0))) * rate)
                empty = rest < -1e-9 * norm**2
                self.alone[:, curved] = np.where(value > 0, np.where(empty | (rate == 0), np.inf, bound), 0.0)
        return self.alone[:, cells.rows].max(axis=2, initial=0.0)

    def _rates(self) -> Floats:
        """Return max_k |Q_k| of each normal over the features that may move, of shape (n or 1, N)."""
        Q = self.W.Q + np.sign(self.W.Q) * self.unit * self.W.Q_size
        if self.free:
            return np.abs(Q).max(axis=1)[None]
        up, down = np.maximum(Q, 0.0), np.maximum(-Q, 0.0)
        ways = np.hstack([self.hi > 0, self.lo < 0])
        kinds, which = np.unique(ways, axis=0, return_inverse=True)
        d = Q.shape[1]
        rates = [np.maximum(up * kind[:d], down * kind[d:]).max(axis=1, initial=0.0) for kind in kinds]
        return np.array(rates)[which.ravel()]

    def projected(self, i: Ints, cell: Ints, by_cone: NDArray[np.bool_], cutoff: Floats) -> Projections:
        """Project samples i onto a cell each, unless it is farther than the cutoff."""
        rows, n, d = self.cells.rows[cell], len(i), self.X.shape[1]
        result = Projections.without_change(n, d, SOLVED, START)
        violated = self.g[i[:, None], rows] + self.margin[i[:, None], rows] > 0
        flat, ball = self.W.flat_cell[cell], (violated & ~self.W.flat[rows]).any(axis=1)
        by_cone = by_cone | (~flat & ~ball & violated.any(axis=1))
        for mine, solve in (
            (violated.any(axis=1) & flat & ~by_cone, self._by_simplex),
            (ball & ~by_cone, self._by_homotopy),
            (by_cone, self._by_cone),
        ):
            if mine.any():
                at = np.flatnonzero(mine)
                for whole, part in zip(result, solve(i[at], rows[at], cutoff[at]), strict=True):
                    whole[at] = part
        return result

    def _by_cone(self, i: Ints, rows: Ints, cutoff: Floats) -> Projections:
        """Project onto any cell, one after the other; what is left open then remains so."""
        result = Projections.without_change(len(i), self.X.shape[1], SOLVED, CONE)
        for k in range(len(i)):
            solved = cone_projection(self._program(int(i[k]), rows[k]))
            result.beta[k], result.bound[k] = solved.beta, solved.bound
            result.valid[k] = solved.status == SOLVED
        return result

    def _by_simplex(self, i: Ints, rows: Ints, cutoff: Floats) -> Projections:
        """Project onto cells of half-spaces."""
        W, at, (_, _, normal) = self.W, i[:, None], self.cells.normals
        lo, hi = self.lo[i], self.hi[i]
        index = np.where(rows >= 0, normal[rows], -1)
        g, margin = self.g[at, rows], self.margin[at, rows]
        vertex = dual_simplex(W.Q, index, g + margin, 0.5 * margin, lo, hi, cutoff)
        lam, status = vertex.multipliers, vertex.status
        few, here = int((lam > 0).sum(axis=1).max()), np.arange(len(i))[:, None]
        some = np.argsort(-lam, axis=1)[:, :few]  # all that are not 0
        lam, index, rows = lam[here, some], index[here, some], rows[here, some]
        q, q_size = (np.einsum("nr,nrd->nd", lam, part[index]) for part in (W.Q, W.Q_size))
        tau = (lam * np.where(lam > 0, self.g[at, rows], 0.0)).sum(axis=1)
        extra, size = ((lam * part[at, rows]).sum(axis=1) for part in (self.margin, self.size))
        bound = certified(q, tau, q_size, size, lo, hi, self.unit)
        length, valid = np.abs(vertex.beta).sum(axis=1), status == SOLVED
        short = valid & (bound < (1 - _OPTIMAL) * length)
        if short.any():  # for more than rounding and the margin
            short &= knapsack(q, tau + extra, lo, hi) < (1 - _OPTIMAL) * length
        unproven = (status == INFEASIBLE) & ~(bound > np.minimum(cutoff, 1e3 * length))
        unproven |= (status == CUT_OFF) & (bound < (1 - _OPTIMAL) * cutoff)
        status = np.where(short | unproven, UNRESOLVED, status)
        return Projections(status, vertex.beta, bound, np.full(len(i), SIMPLEX), valid)

    def _by_homotopy(self, i: Ints, rows: Ints, cutoff: Floats, j: Ints | None = None) -> Projections:
        """Project onto the most demanding ball of each cell alone (or onto ball j): often all others hold.

        If another ball is missed, it is tried next. What neither meets is left to the cone program.
        """
        W, lo, hi = self.W, self.lo[i], self.hi[i]
        ball = ~W.flat[rows] & (self.g[i[:, None], rows] + self.margin[i[:, None], rows] > 0)
        first, here = j is None, np.arange(len(i))
        if j is None:
            j = rows[here, np.where(ball, self.alone[i[:, None], rows], -1.0).argmax(axis=1)]
        metric, s, g, margin = W.metric[j], W.s[j], self.g[i, j], self.margin[i, j]
        A, c, size = self._terms(i, j)
        path = homotopy(W.gram, metric, c, s, g + margin, hi > 0, lo < 0, cutoff)
        beta, M = path.beta, W.M[metric]
        e = np.einsum("nkd,nd->nk", M, beta)
        # The path works with the Gram matrix; the last step is redone with M itself, whose digits count.
        ev = np.einsum("nkd,nd->nk", M, path.direction)
        f = g + margin + (e * (s[:, None] * e - 2 * A)).sum(axis=1)
        slope = ((A - s[:, None] * e) * ev).sum(axis=1)
        inner = slope**2 - s * (ev * ev).sum(axis=1) * f
        redo = (path.status == SOLVED) & (slope > 0) & (inner >= 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(redo, f / (slope + np.sqrt(np.maximum(inner, 0.0))), 0.0)
        beta, e = beta + t[:, None] * path.direction, e + t[:, None] * ev
        y, squared = A - s[:, None] * e, (e * e).sum(axis=1)
        q = 2 * np.einsum("nkd,nk->nd", M, y)
        q_size = 2 * (np.sqrt((y * y).sum(axis=1)) + size + s * np.sqrt(squared))[:, None] * W.length[metric]
        tau = g - s * squared
        tau_size = self.size[i, j] + s * squared + 2 * size * np.sqrt(squared)
        bound = certified(q, tau, q_size, tau_size, lo, hi, self.unit)
        others = np.where(rows == j[:, None], -np.inf, self._values(i, rows, beta))
        inside, solved = ((lo <= beta) & (beta <= hi)).all(axis=1), path.status == SOLVED
        valid = solved & inside & (others <= 0).all(axis=1)
        least = (1 - _OPTIMAL) * np.abs(beta).sum(axis=1)
        optimal = bound >= least
        if not optimal[valid].all():  # for more than rounding and the margin
            optimal = knapsack(q, tau + margin, lo, hi) >= least
        proven = np.where(path.status == CUT_OFF, bound >= (1 - _OPTIMAL) * cutoff, bound > cutoff)
        status = np.where(np.where(solved, valid & optimal, proven), path.status, UNRESOLVED)
        result = Projections(status, beta, bound, np.full(len(i), HOMOTOPY), valid)
        worst = np.where(ball, others, -np.inf).argmax(axis=1)
        missed = np.flatnonzero(solved & (others[here, worst] > 0) & ball[here, worst])
        if first and len(missed):
            again = self._by_homotopy(i[missed], rows[missed], cutoff[missed], rows[missed, worst[missed]])
            for whole, part in zip(result, again, strict=True):
                whole[missed] = part
            result.bound[missed] = np.maximum(again.bound, bound[missed])
        return result

    def _terms(self, i: Ints, j: Ints) -> tuple[Floats, Floats, Floats]:
        """Return A (n, k), c = M'A (n, d) and the size |A| (n,) would have without cancellation."""
        near, far, alpha, beta = self.near[j], self.far[j], self.cells.alpha[j], self.cells.beta[j]
        A, c = (alpha[:, None] * part[i, near] - beta[:, None] * part[i, far] for part in (self.z, self.u))
        return A, c, alpha * self.reach[i, near] + beta * self.reach[i, far]

    def _values(self, i: Ints, rows: Ints, beta: Floats) -> Floats:
        """Return f + margin / 2 of constraints (n, r) at changes, half the margin being for rounding."""
        cells, W, at = self.cells, self.W, i[:, None]
        image = np.einsum("mkd,nd->nmk", W.M, beta)
        squares = np.einsum("nmk,nmk->nm", image, image)
        pull = np.einsum("nsd,nd->ns", self.u[i], beta)
        here = np.arange(len(i))[:, None]
        along = (
            cells.alpha[rows] * pull[here, self.near[rows]] - cells.beta[rows] * pull[here, self.far[rows]]
        )
        value = (
            self.g[at, rows]
            + 0.5 * self.margin[at, rows]
            + W.s[rows] * squares[here, W.metric[rows]]
            - 2 * along
        )
        plain = (rows >= 0) & (cells.near[rows] < 0)
        if plain.any():
            k, r = np.nonzero(plain)
            j = rows[k, r]
            steps = (W.Q[cells.far[j]] * beta[k]).sum(axis=1)
            value[k, r] = self.g[i[k], j] + 0.5 * self.margin[i[k], j] - steps
        return np.where(rows >= 0, value, -np.inf)

    def _program(self, i: int, rows: Ints) -> Program:
        """Return the constraints of one cell as one sample sees them, for the cone program."""
        W, j = self.W, rows[rows >= 0]
        flat, normal = self.cells.flat[j], self.cells.normals[2][j]
        A, c, size = self._terms(np.full(len(j), i), j)
        q, q_size = 2 * c, 2 * size[:, None] * W.length[W.metric[j]]
        q[flat], q_size[flat] = W.Q[normal[flat]], W.Q_size[normal[flat]]
        metrics, none = list(W.M), np.empty((0, len(W.weights)))
        return Program(
            M=[none if f else metrics[m] for f, m in zip(flat, W.metric[j], strict=True)],
            A=[a[:0] if f else a for f, a in zip(flat, A, strict=True)],
            q=q, q_size=q_size, s=W.s[j], g=self.g[i, j], g_size=self.size[i, j], margin=self.margin[i, j],
            lo=self.lo[i], hi=self.hi[i],
        )  # fmt: skip
