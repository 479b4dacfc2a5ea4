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
#: How far inside to aim, relative to the sizes of terms: for all samples, or for each.
Margin = float | Floats
#: Inside by so much is enough against rounding.
ROUNDING = 32 * EPS
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

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

    metrics: Floats  # (M, k, d)
    points: Floats  # (S, d)
    point_metric: Ints  # (S,)
    near: Ints  # (c,) places among the points
    far: Ints
    alpha: Floats  # (c,)
    beta: Floats
    gamma: Floats
    rows: Ints  # (cells, r) places among the constraints, padded with -1
    linear: Floats = None  # type: ignore[assignment]  # (c, d)

    def __post_init__(self) -> None:
        if self.linear is None:
            object.__setattr__(self, "linear", np.zeros((len(self.near), self.metrics.shape[2])))

    @cached_property
    def flat(self) -> Mask:
        """Which constraints are half-spaces, of shape (c,)."""
        return self.alpha == self.beta

    @cached_property
    def plain(self) -> Mask:
        """Which of them compare no distances, of shape (c,)."""
        return self.alpha == 0

    @cached_property
    def metric(self) -> Ints:
        """The metric of each constraint, of shape (c,)."""
        return self.point_metric[self.near]

    @cached_property
    def normals(self) -> tuple[Floats, Floats]:
        """Gradients of -f of the half-spaces and the sizes of their terms, both (c, d), 0 for balls."""
        normals, sizes = self.linear.copy(), np.abs(self.linear)
        for m, L in enumerate(self.metrics):
            (j,) = np.nonzero(self.flat & (self.metric == m))
            way = 2 * self.alpha[j, None] * (self.points[self.near[j]] - self.points[self.far[j]])
            normals[j] += way @ L.T @ L
            sizes[j] += np.abs(way) @ np.abs(L).T @ np.abs(L)
        return normals, sizes

    @cached_property
    def ball(self) -> Floats:
        """B^2 = |A|^2 - s g of each constraint, the same from everywhere: the radius is B / s."""
        way, squares = self.points[self.near] - self.points[self.far], np.zeros(len(self.near))
        for m, L in enumerate(self.metrics):
            squares[self.metric == m] = np.square(way[self.metric == m] @ L.T).sum(axis=1)
        return self.alpha * self.beta * squares - (self.alpha - self.beta) * self.gamma

    def seen_from(self, X: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return z = L (point - x), (S, n, k), and the values of the constraints, each with its size.

        The size of z (S, n) is at least |z| without cancellation: what its rounding is relative to. The last
        of the values g (c + 1, n) stands for the padding of rows: it always holds.
        """
        (S, d), (n, c), (near, far) = self.points.shape, (len(X), len(self.near)), (self.near, self.far)
        z, reach = np.empty((S, n, self.metrics.shape[1])), np.empty((S, n))
        for m, L in enumerate(self.metrics):
            mine = self.of_metric(m)
            difference = self.points[mine, None] - X
            z[mine] = (difference.reshape(-1, d) @ L.T).reshape(-1, n, len(L))
            reach[mine] = np.abs(difference) @ np.sqrt((L * L).sum(axis=0))
        squares = np.einsum("snk,snk->sn", z, z)
        sizes = reach * np.sqrt(squares)
        g, size = np.full((c + 1, n), -np.inf), np.zeros((c + 1, n))
        alpha, beta, gamma = (part[:, None] for part in (self.alpha, self.beta, self.gamma))
        g[:c] = alpha * squares[near] - beta * squares[far] + gamma
        size[:c] = alpha * sizes[near] + beta * sizes[far] + np.abs(gamma)
        (plain,) = np.nonzero(self.plain)
        if len(plain):
            g[plain] -= self.linear[plain] @ X.T
            size[plain] += np.abs(self.linear[plain]) @ np.abs(X.T)
        return z, reach, g, size

    def of_metric(self, m: int) -> Any:
        """Return the places of the points that are measured in this metric."""
        return slice(None) if len(self.metrics) == 1 else np.flatnonzero(self.point_metric == m)


def search(
    cells: Constraints, X: Floats, weights: Floats, lower: Floats, upper: Floats, margin: Margin
) -> Nearest:
    """Find for each row of X the nearest point of the union of cells, in weighted l1.

    X (n, d); positive weights (d,); lower <= X <= upper (n, d) bound the answer, equal ones fix a feature.
    The `margin` is how far inside the constraints to aim, relative to the sizes of their terms, for all or by
    sample (n,); the bounds of the distance are those of the cells as they are.
    """
    (n, d), (count, r), c = X.shape, cells.rows.shape, len(cells.near)
    result, margins = Nearest.nothing(n, d), np.broadcast_to(margin, n)
    if count and c == 0:  # nothing is asked for
        return result._replace(
            distances=np.zeros(n), bounds=np.zeros(n), cells=0 * result.cells, paths=0 * result.paths + START
        )
    each = len(cells.points) * (2 * d + cells.metrics.shape[1]) + c * d + 2 * count * max(r, 1)
    size = max(1, _NUMBERS // each)
    for first in range(0, n if count else 0, size):
        part = slice(first, first + size)
        view = View(cells, weights, X[part], lower[part], upper[part], margins[part])
        _search(view, Nearest._make(column[part] for column in result))
    return result


def _search(view: View, found: Nearest) -> None:
    """Search the cells of all samples of a view, in the order of their bounds; fill in what is found.

    The most promising cell of each sample comes first, then several at once of those that can still win.
    What the solvers in lock-step leave open is left to the cone program, one cell after the other.
    """
    bounds, best = view.cell_bounds(), found.distances
    turn = np.zeros(bounds.shape, dtype=np.int8)  # 0 for the solvers in lock-step, 1 for the cone program
    for by_cone in (False, True):
        rows, width = np.flatnonzero((turn == by_cone).any(axis=1)), 1
        while len(rows):
            waiting = np.where(turn[rows] == by_cone, bounds[rows], np.inf)
            order = waiting.argmin(axis=1)[:, None] if width == 1 else waiting.argsort(axis=1)[:, :width]
            rows, cell = rows.repeat(order.shape[1]), order.ravel()
            go = (turn[rows, cell] == by_cone) & (bounds[rows, cell] < best[rows] * (1 - _OPTIMAL * by_cone))
            rows, cell = rows[go], cell[go]
            if len(rows) == 0:
                break
            path = np.where(by_cone, CONE, view.paths[cell])
            answer = view.projected(rows, cell, path, best[rows])
            turn[rows, cell] = np.where(answer.closed, 2, 1 + by_cone)
            bounds[rows, cell] = np.maximum(bounds[rows, cell], answer.bound)
            distance = np.where(answer.valid, np.abs(answer.beta).sum(axis=1), np.inf)
            nearer = np.flatnonzero(distance < best[rows])
            nearer = nearer[np.argsort(-distance[nearer], kind="stable")]  # of one sample, the last one stays
            at, length = rows[nearer], distance[nearer]
            best[at], found.cells[at] = length, cell[nearer]
            found.paths[at] = np.where(length > 0, path[nearer], START)
            found.changes[at] = answer.beta[nearer] / view.weights
            rows, width = rows if width == 1 else np.unique(rows), 1 if by_cone else 4 * width
    found.bounds[:] = np.minimum(bounds.min(axis=1), best)


class Projections(NamedTuple):
    """Projections of samples onto a cell each."""

    beta: Floats
    bound: Floats  # certified
    valid: Mask  # whether the change is in the cell
    closed: Mask  # whether nothing is left to be found there


class View:
    """Cells as the samples of a chunk see them: the values of all constraints, bounds in closed form."""

    def __init__(
        self, cells: Constraints, weights: Floats, X: Floats, lower: Floats, upper: Floats, margin: Floats
    ) -> None:
        self.cells, self.weights, self.X, self.aim = cells, weights, X, margin
        self.lo, self.hi = (lower - X) * weights, (upper - X) * weights
        self.unit = (X.shape[1] + cells.metrics.shape[1] + 16) * EPS
        self.s, self.paths = cells.alpha - cells.beta, np.full(len(cells.rows), HOMOTOPY)
        self.paths[(cells.flat[cells.rows] | (cells.rows < 0)).all(axis=1)] = SIMPLEX
        self.z, self.reach, self.g, self.size = cells.seen_from(X)
        self.M = cells.metrics / weights
        self.Q, self.Q_size = (part / weights for part in cells.normals)  # of the half-spaces

    @cached_property
    def gram(self) -> Floats:
        """M'M of each metric, of shape (M, d, d)."""
        return np.einsum("mkd,mke->mde", self.M, self.M)

    @cached_property
    def length(self) -> Floats:
        """The lengths of the columns of M, of shape (M, d)."""
        return np.sqrt(np.square(self.M).sum(axis=1))

    def cell_bounds(self) -> Floats:
        """Return a lower bound of the scaled distance to each cell, of shape (n, cells), in closed form.

        A half-space: g / max_k |Q_k|. A ball: g |A| / ((|A| + B) max_k |c_k|), c = M'A. Infinite where
        nothing that may move helps.
        """
        cells = self.cells
        value, rate = self.g - self.unit * self.size, np.ones(self.g.shape)
        flat, curved = np.flatnonzero(cells.flat), np.flatnonzero(~cells.flat)
        rate[flat] = self._steepest((self.Q + np.copysign(self.unit * self.Q_size, self.Q))[flat, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            if len(curved):
                rate[curved] = self._ball_rates(curved)
            self.alone = np.where(value > 0, value / rate, 0.0)  # what each constraint alone asks for
        bounds = np.zeros((len(cells.rows), len(self.X)))
        for column in cells.rows.T:
            np.maximum(bounds, self.alone[column], out=bounds)
        return np.ascontiguousarray(bounds.T)

    def _steepest(self, pull: Floats) -> Floats:
        """Return max_k |pull_k| over the features that may move that way, of shape (j, n), or (j, 1)."""
        if (self.lo == 0).any() or (self.hi == 0).any():
            pull = np.where(pull > 0, pull * (self.hi > 0), pull * (self.lo < 0))
        result: Floats = np.abs(pull).max(axis=2)
        return result

    def _ball_rates(self, j: Ints) -> Floats:
        """Return what divides the value of balls j in the bound, of shape (balls, n)."""
        cells = self.cells
        alpha, beta, rest = (part[j][:, None] for part in (cells.alpha, cells.beta, cells.ball))
        near, far, (S, n, k) = cells.near[j], cells.far[j], self.z.shape
        pulls = np.empty((S, n, len(self.weights)))
        for m, M in enumerate(self.M):
            mine = cells.of_metric(m)
            pulls[mine] = (self.z[mine].reshape(-1, k) @ M).reshape(-1, n, len(self.weights))
        steepest = self._steepest(alpha[:, None] * pulls[near] - beta[:, None] * pulls[far])
        longest = self.length.max(axis=1)[cells.metric[j], None]
        rounding = longest * (alpha * self.reach[near] + beta * self.reach[far])
        rate = np.where(steepest > 0, steepest + self.unit * rounding, 0.0)
        norm = np.sqrt(np.maximum(self.s[j][:, None] * self.g[j] + rest, 0.0))
        empty = rest < -1e-9 * norm**2
        return np.where(empty, 0.0, rate * (norm + np.sqrt(np.maximum(rest, 0.0))) / norm)

    def projected(self, i: Ints, cell: Ints, path: Ints, cutoff: Floats) -> Projections:
        """Project samples i onto a cell each by the given paths, unless it is farther than the cutoff."""
        n, rows = len(i), self.cells.rows[cell]
        result = Projections(np.zeros((n, self.X.shape[1])), np.zeros(n), *np.zeros((2, n), dtype=bool))
        solvers = {SIMPLEX: self._by_simplex, HOMOTOPY: self._by_homotopy, CONE: self._by_cone}
        for kind, solve in solvers.items():
            (at,) = np.nonzero(path == kind)
            if len(at):
                for whole, part in zip(result, solve(i[at], rows[at], cutoff[at]), strict=True):
                    whole[at] = part
        return result

    def _by_cone(self, i: Ints, rows: Ints, cutoff: Floats) -> Projections:
        """Project onto any cell, one after the other; what is left open then remains so."""
        answers = [cone_projection(self._program(int(k), row)) for k, row in zip(i, rows, strict=True)]
        valid = np.array([answer.status == SOLVED for answer in answers])
        beta, bound = (np.array([getattr(answer, name) for answer in answers]) for name in ("beta", "bound"))
        return Projections(beta, bound, valid, np.full(len(i), True))

    def _by_simplex(self, i: Ints, rows: Ints, cutoff: Floats) -> Projections:
        """Project onto cells of half-spaces."""
        at = i[:, None]
        g, margin = self.g[rows, at], self._margin(rows, at)
        found = dual_simplex(self.Q, rows, g + margin, 0.5 * margin, self.lo[i], self.hi[i], cutoff)
        # Few multipliers are not 0.
        lam, here = found.multipliers, np.arange(len(i))[:, None]
        some = np.argsort(-lam, axis=1)[:, : int((lam > 0).sum(axis=1).max())]
        lam, j = lam[here, some], rows[here, some]
        q, q_size = (np.einsum("nr,nrd->nd", lam, part[j]) for part in (self.Q, self.Q_size))
        tau, tau_size, margin = (
            (lam * np.where(lam > 0, part, 0.0)).sum(axis=1)
            for part in (g[here, some], self.size[j, at], margin[here, some])
        )
        row = q, tau, q_size, tau_size, margin
        return self._certified(i, found.status, found.beta, found.status == SOLVED, row, cutoff)

    def _certified(
        self, i: Ints, status: Ints, beta: Floats, valid: Mask, row: tuple[Floats, ...], cutoff: Floats
    ) -> Projections:
        """Certify what was found by an inequality (q, tau, the sizes of their terms, the margin) each.

        A cell is closed if that proves the change to be nearest, up to rounding and the margin, or the cell
        to be empty or farther than the cutoff.
        """
        (q, tau, q_size, tau_size, margin), lo, hi = row, self.lo[i], self.hi[i]
        bound, length = certified(q, tau, q_size, tau_size, lo, hi, self.unit), np.abs(beta).sum(axis=1)
        least = (1 - _OPTIMAL) * np.where(status == CUT_OFF, cutoff, length)
        closed = knapsack(q, tau + margin, lo, hi) >= least
        closed &= np.where(status == SOLVED, valid, status != UNRESOLVED)
        closed &= (status != INFEASIBLE) | (bound > np.minimum(cutoff, 1e3 * length))
        return Projections(beta, bound, valid, closed)

    def _by_homotopy(self, i: Ints, rows: Ints, cutoff: Floats, j: Ints | None = None) -> Projections:
        """Project onto the most demanding ball of each cell alone (or onto ball j): often all others hold.

        If another ball is missed, it is tried next. What neither meets is left to the cone program.
        """
        lo, hi, cells, here = self.lo[i], self.hi[i], self.cells, np.arange(len(i))
        ball, first = (rows >= 0) & ~cells.flat[rows], j is None
        if j is None:
            j = rows[here, np.where(ball, self.alone[rows, i[:, None]], -1.0).argmax(axis=1)]
        metric, s, g, margin = cells.metric[j], self.s[j], self.g[j, i], self._margin(j, i)
        A, size = self._terms(i, j)
        c = _times(self.M.transpose(0, 2, 1), metric, A)
        path = homotopy(self.gram, metric, c, s, g + margin, hi > 0, lo < 0, cutoff)
        beta, solved, s = path.beta, path.status == SOLVED, s[:, None]
        e = _times(self.M, metric, beta)
        q, square = 2 * _times(self.M.transpose(0, 2, 1), metric, A - s * e), (s * e * e).sum(axis=1)
        q_size = 2 * (size + np.sqrt(s[:, 0] * square))[:, None] * self.length[metric]
        row = q, g - square, q_size, self.size[j, i] + square, margin
        there = cells.seen_from(self.X[i] + beta / self.weights)[2]
        values = there[rows, here[:, None]] + 0.5 * self._margin(rows, i[:, None])  # half is for rounding
        valid = solved & ((lo <= beta) & (beta <= hi)).all(axis=1) & (values <= 0).all(axis=1)
        result = self._certified(i, path.status, beta, valid, row, cutoff)
        others = np.where(ball & (rows != j[:, None]), values, -np.inf)
        worst = others.argmax(axis=1)
        (missed,) = np.nonzero(solved & (others[here, worst] > 0))
        if first and len(missed):
            again = self._by_homotopy(i[missed], rows[missed], cutoff[missed], rows[missed, worst[missed]])
            again.bound[:] = np.maximum(again.bound, result.bound[missed])
            for whole, part in zip(result, again, strict=True):
                whole[missed] = part
        return result

    def _terms(self, i: Ints, j: Ints) -> tuple[Floats, Floats]:
        """Return A (n, k) and the size |A| (n,) would have without cancellation."""
        cells = self.cells
        near, far, alpha, beta = (part[j] for part in (cells.near, cells.far, cells.alpha, cells.beta))
        A = alpha[:, None] * self.z[near, i] - beta[:, None] * self.z[far, i]
        return A, alpha * self.reach[near, i] + beta * self.reach[far, i]

    def _margin(self, j: Any, i: Any) -> Floats:
        """Return how far inside to aim; plain half-spaces, which noise does not move, are met as they are."""
        aim = np.where(self.cells.plain[j], np.minimum(self.aim[i], ROUNDING), self.aim[i])
        return aim * self.size[j, i]

    def _program(self, i: int, rows: Ints) -> Program:
        """Return the constraints of one cell as one sample sees them, for the cone program."""
        j = rows[rows >= 0]
        flat, metric = self.cells.flat[j], self.cells.metric[j]
        A, size = self._terms(np.full(len(j), i), j)
        q, q_size = 2 * _times(self.M.transpose(0, 2, 1), metric, A), 2 * size[:, None] * self.length[metric]
        q[flat], q_size[flat] = self.Q[j[flat]], self.Q_size[j[flat]]
        metrics, none = list(self.M), np.empty((0, len(self.weights)))
        return Program(
            M=[none if f else metrics[m] for f, m in zip(flat, metric, strict=True)],
            A=[a[:0] if f else a for f, a in zip(flat, A, strict=True)],
            q=q, q_size=q_size, s=self.s[j], g=self.g[j, i], g_size=self.size[j, i],
            margin=self._margin(j, i), lo=self.lo[i], hi=self.hi[i],
        )  # fmt: skip


def _times(M: Floats, metric: Ints, v: Floats) -> Floats:
    """Return M v, one row for each row of v, M of the metric of each."""
    return v @ M[0].T if len(M) == 1 else np.einsum("nkd,nd->nk", M[metric], v)
