"""The accepted set as a union of convex cells, and what every accepted set can be asked.

A cell is an intersection of constraints of one form, with two points a and b and numbers alpha >= beta >= 0:

    f(x) = alpha |L (x - a)|^2 - beta |L (x - b)|^2 + gamma <= 0

It is a ball if alpha > beta (an Apollonius ball if both are positive) and a half-space if alpha = beta. The
two distances are what a certainty compares, so f is as accurate as the certainty itself, and it stays
stable where a ball grows into a half-space and its centre runs off to infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lvqrej.solvers.search import ACCEPTED, CONE, NONE, PATHS, START, Constraints, Margin, Nearest, search
from lvqrej.validation import check_number, check_samples

__all__ = [
    "ACCEPTED",
    "CONE",
    "NONE",
    "PATHS",
    "START",
    "AcceptedSet",
    "Ball",
    "Cell",
    "Cells",
    "HalfSpace",
    "Margin",
    "Nearest",
    "corners",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: With more features in error than this, balls are tightened by a bound instead of at every corner.
MOST_CORNERS = 10


@dataclass(frozen=True, eq=False)
class Ball:
    """The set |L (x - centre)| <= radius; a cylinder or an ellipsoid, depending on L.

    Parameters
    ----------
    centre : array-like of shape (d,)
    radius : float
        At least 0.
    L : array-like of shape (k, d), optional
        The metric; the identity if None.

    Examples
    --------
    >>> ball = Ball([0, 0], 5)
    >>> ball.excess(np.array([[3, 4], [6, 8]]))
    array([0., 5.])
    """

    centre: Floats
    radius: float
    L: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        centre = check_samples(np.atleast_2d(self.centre), name="centre")[0]
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "radius", check_number(self.radius, "radius", low=0))
        metric = np.eye(len(centre)) if self.L is None else check_samples(self.L, len(centre), name="L")
        object.__setattr__(self, "L", metric)

    def along(self, ways: Floats) -> Ball:
        """Return the ball of all (x, t) with x + t'ways in this one, for ways of shape (m, d)."""
        return Ball(np.append(self.centre, np.zeros(len(ways))), self.radius, along(self.L, ways))

    def excess(self, X: Floats) -> Floats:
        """Return |L (x - centre)| - radius, of shape (n,): at most 0 inside."""
        return np.linalg.norm((X - self.centre) @ self.L.T, axis=1) - self.radius


@dataclass(frozen=True, eq=False)
class HalfSpace:
    """The set normal'x + offset >= 0.

    Examples
    --------
    >>> HalfSpace([1, 0], -2).excess(np.array([[3, 4], [1, 0]]))
    array([-1.,  1.])
    """

    normal: Floats
    offset: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", check_samples(np.atleast_2d(self.normal), name="normal")[0])
        object.__setattr__(self, "offset", check_number(self.offset, "offset"))

    def along(self, ways: Floats) -> HalfSpace:
        """Return the half-space of all (x, t) with x + t'ways in this one, for ways of shape (m, d)."""
        return HalfSpace(along(self.normal, ways), self.offset)

    def excess(self, X: Floats) -> Floats:
        """Return -(normal'x + offset), of shape (n,): at most 0 inside."""
        return -(X @ self.normal + self.offset)


@dataclass(frozen=True, eq=False)
class Cell:
    """An intersection of balls and half-spaces, all of whose points are accepted with one label.

    `label` is the index of the class among the option's classes, `name` says in words what the cell is.

    Examples
    --------
    >>> cell = Cell(balls=(Ball([0, 0], 1),), half_spaces=(HalfSpace([1, 0], 0),))
    >>> cell.contains(np.array([[0.5, 0], [-0.5, 0], [2, 0]]))
    array([ True, False, False])
    """

    balls: tuple[Ball, ...] = ()
    half_spaces: tuple[HalfSpace, ...] = ()
    label: int = 0
    name: str = ""

    def contains(self, X: Floats, tolerance: float = 0.0) -> NDArray[np.bool_]:
        """Return whether each sample lies in the cell, of shape (n,)."""
        pieces: list[Ball | HalfSpace] = [*self.balls, *self.half_spaces]
        inside = np.ones(len(X), dtype=bool)
        for piece in pieces:
            inside &= piece.excess(X) <= tolerance
        return inside


class AcceptedSet(Protocol):
    """The inputs that a reject option accepts at one threshold: what `option.cells(theta)` returns.

    `Cells` is one, the probabilistic certainty has another; whoever asks does not need to know which.
    """

    @property
    def gap(self) -> float:
        """The relative gap that the search aims at."""

    def with_label(self, label: int) -> AcceptedSet:
        """Return the part accepted as the class of this index."""

    def narrowed(self, pieces: Sequence[Ball | HalfSpace], label: int | None = None) -> AcceptedSet:
        """Return the set cut by further balls and half-spaces (only the part of one class, if given)."""

    def nearest(self, X: Floats, weights: Floats, lower: Floats, upper: Floats, margin: Margin) -> Nearest:
        """Find the nearest points with lower <= x <= upper (which hold X), aiming inside by `margin`.

        `margin` is relative to the sizes of terms, of all samples or of each (n,); the bounds are
        those of the set as it is.
        """

    def along(self, ways: Floats) -> AcceptedSet:
        """Return the set of all (x, t) with x + t'ways in this one, for ways of shape (m, d)."""

    def active(self, cell: int, x: Floats) -> list[str]:
        """Say in words which constraints of a cell are tight at x."""

    def tightened(self, errors: Floats, around: Floats) -> AcceptedSet:
        """Return a set whose points stay in one cell when each feature k is off by up to errors[k].

        Where there is a continuum of cells, that around the point `around` is taken.
        """

    def cover(self) -> Cells:
        """Return finitely many cells that hold the whole set, and perhaps a bit more."""

    def around(self, cell: int, x: Floats) -> Cells:
        """Return one cell, all of which is accepted, for an answer x in `cell`; none if there is none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells(Constraints, Sequence[Cell]):
    """A union of cells, as arrays; `cells[i]` is a readable `Cell`, `Cells.of` packs some.

    Constraint j is f_j(x) = alpha |L (x - near)|^2 - beta |L (x - far)|^2 + gamma - linear'x <= 0, where a
    plain half-space has alpha = beta = 0 and all others have linear = 0. Its arrays are those of
    `Constraints`, the `labels` of the cells, and what to call the points and the cells.

    Examples
    --------
    >>> cells = Cells.of([Cell(balls=(Ball([0, 0], 1), Ball([1, 0], 1)))])
    >>> len(cells), len(cells[0].balls), cells[0].balls[1].radius
    (1, 2, 1.0)
    """

    labels: Ints
    point_names: Sequence[str] = field(default=())
    names: Sequence[str] = field(default=())

    @property
    def gap(self) -> float:
        """0: the search is exact."""
        return 0.0

    @staticmethod
    def of(cells: Sequence[Cell]) -> Cells:
        """Pack readable cells; balls that share the array `L` share a metric."""
        balls = [ball for cell in cells for ball in cell.balls]
        flats = [half_space for cell in cells for half_space in cell.half_spaces]
        metrics = list({id(ball.L): ball.L for ball in balls}.values())
        order = {id(L): m for m, L in enumerate(metrics)}
        n, k, rows = len(balls), len(flats), []
        ball, flat = iter(range(n)), iter(range(n, n + k))
        for cell in cells:
            rows.append([next(ball) for _ in cell.balls] + [next(flat) for _ in cell.half_spaces])
        d = len(balls[0].centre) if balls else len(flats[0].normal) if flats else 1
        near = np.append(np.arange(n), np.zeros(k, dtype=np.int64))
        return Cells(
            # Half-spaces alone need no point, but arrays are easier with one.
            metrics=stacked(metrics or [np.zeros((1, d))], d),
            points=np.array([ball.centre for ball in balls] or [np.zeros(d)]),
            point_metric=np.array([order[id(ball.L)] for ball in balls] or [0]),
            near=near,
            far=near,
            alpha=np.repeat([1.0, 0.0], [n, k]),
            beta=np.zeros(n + k),
            gamma=np.array([-(ball.radius**2) for ball in balls] + [-flat.offset for flat in flats]),
            rows=padded(rows),
            labels=np.array([cell.label for cell in cells], dtype=np.int64),
            linear=np.array([np.zeros(d)] * n + [flat.normal for flat in flats]).reshape(-1, d),
            names=[cell.name for cell in cells],
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Any:
        i = range(len(self))[index]
        if isinstance(i, range):
            return [self[k] for k in i]
        pieces = [self._piece(j) for j in self.rows[i] if j >= 0]
        return Cell(
            balls=tuple(piece for piece in pieces if isinstance(piece, Ball)),
            half_spaces=tuple(piece for piece in pieces if isinstance(piece, HalfSpace)),
            label=int(self.labels[i]),
            name=self.names[i] if len(self.names) else f"cell {i}",
        )

    def _piece(self, j: int) -> Ball | HalfSpace:
        a, b = self.points[self.near[j]], self.points[self.far[j]]
        if self.flat[j]:
            normal = self.normals[0][j]
            return HalfSpace(normal, -float((normal - self.linear[j]) @ (a + b)) / 2 - self.gamma[j])
        s = self.alpha[j] - self.beta[j]
        radius = float(np.sqrt(max(self.ball[j], 0.0)) / s)
        return Ball(a + self.beta[j] / s * (a - b), radius, self.metrics[self.metric[j]])

    def nearest(
        self, X: Floats, weights: Floats, lower: Floats, upper: Floats, margin: Margin = 0.0
    ) -> Nearest:
        """Find for each row of X the nearest point of the union, in weighted l1; see `AcceptedSet`.

        >>> cells = Cells.of([Cell(balls=(Ball([3, 1], 1),))])
        >>> free = np.full((1, 2), np.inf)
        >>> cells.nearest(np.zeros((1, 2)), np.ones(2), -free, free).changes.round(4)
        array([[2.2929, 0.2929]])
        """
        return search(self, X, weights, lower, upper, margin)

    def active(self, cell: int, x: Floats, tolerance: float = 1e-7) -> list[str]:
        """Say in words which constraints of a cell are tight at x, relative to the sizes of their terms."""
        _, _, value, size = self.seen_from(x[None])
        rows = self.rows[cell][self.rows[cell] >= 0]
        return [self._words(j) for j in rows if value[j, 0] >= -tolerance * size[j, 0]]

    def _words(self, j: int) -> str:
        if self.plain[j] or not len(self.point_names):
            return "a half-space" if self.flat[j] else "a ball"
        if self.beta[j] == 0:
            return f"near {self.point_names[self.near[j]]}"
        enough = " by enough" if self.alpha[j] > self.beta[j] or self.gamma[j] > 0 else ""
        return f"nearer to {self.point_names[self.near[j]]} than to {self.point_names[self.far[j]]}{enough}"

    def with_label(self, label: int) -> Cells:
        """Return the cells that are accepted as the class of this index."""
        return self.take(np.flatnonzero(self.labels == label))

    def take(self, chosen: NDArray[np.integer[Any]]) -> Cells:
        """Return the union of some of the cells only, by their indices."""
        names = [self.names[i] for i in chosen] if len(self.names) else ()
        return replace(self, rows=self.rows[chosen], labels=self.labels[chosen], names=names)

    def cover(self) -> Cells:
        """Return the cells themselves."""
        return self

    def around(self, cell: int, x: Floats) -> Cells:
        """Return the cell itself."""
        return self.take(np.array([cell]))

    def narrowed(self, pieces: Sequence[Ball | HalfSpace], label: int | None = None) -> Cells:
        """Return the cells, each (of one label, if given) cut by all of the balls and half-spaces."""
        if not pieces:
            return self
        balls = tuple(piece for piece in pieces if isinstance(piece, Ball))
        flats = tuple(piece for piece in pieces if isinstance(piece, HalfSpace))
        extra, c, S = Cells.of([Cell(balls, flats)]), len(self.near), len(self.points)
        chosen = (self.labels == label)[:, None] | (label is None)
        rows = np.hstack([self.rows, np.where(chosen, c + extra.rows[0], -1)])
        if c == 0:  # then nothing of its own is known of the features
            return replace(extra, rows=rows, labels=self.labels, names=self.names)
        named = ["an added centre"] * len(extra.points) if self.point_names else []
        return replace(
            self,
            metrics=stacked([*self.metrics, *extra.metrics], self.metrics.shape[2]),
            points=np.vstack([self.points, extra.points]),
            point_metric=np.append(self.point_metric, extra.point_metric + len(self.metrics)),
            near=np.append(self.near, extra.near + S),
            far=np.append(self.far, extra.far + S),
            alpha=np.append(self.alpha, extra.alpha),
            beta=np.append(self.beta, extra.beta),
            gamma=np.append(self.gamma, extra.gamma),
            rows=rows,
            linear=np.vstack([self.linear, extra.linear]),
            point_names=[*self.point_names, *named],
        )

    def along(self, ways: Floats) -> Cells:
        """Return the cells of all (x, t) with x + t'ways in these, for ways of shape (m, d).

        >>> cells = Cells.of([Cell((Ball([0, 0], 5),))]).along(np.array([[3.0, 4.0]]))
        >>> cells[0].contains(np.array([[0, 0, 1.0], [0, 0, 1.1]]))
        array([ True, False])
        """
        return replace(
            self,
            metrics=along(self.metrics, ways),
            points=np.hstack([self.points, np.zeros((len(self.points), len(ways)))]),
            linear=along(self.linear, ways),
        )

    def tightened(self, errors: Floats, around: Floats) -> Cells:
        """Return cells whose points stay inside when each feature is off by up to `errors`, of shape (d,).

        A box lies in a convex cell exactly if its corners do. For a half-space the worst corner counts,
        q'x + k - sum_k |q_k| E_k >= 0; for a ball every corner e asks |L (x + e - C)| <= R, a ball with the
        centre C - e. With many features in error balls shrink by a bound of |L e| instead.

        >>> cells = Cells.of([Cell((Ball([0, 0], 5),), (HalfSpace([1, -2], 0),))])
        >>> cell = cells.tightened(np.array([1.0, 1.0]), np.zeros(2))[0]
        >>> len(cell.balls), cell.balls[0].centre, cell.half_spaces[0].offset
        (4, array([1., 1.]), -3.0)
        """
        flat, n, gamma = self.flat, len(self.points), self.gamma + np.abs(self.normals[0]) @ errors
        if np.count_nonzero(errors) > MOST_CORNERS:
            s, ball = np.where(flat, 1.0, self.alpha - self.beta), np.where(flat, np.inf, self.ball)
            radius = np.sqrt(np.maximum(ball, 0.0)) / s
            grams = np.abs(np.einsum("mkd,mke->mde", self.metrics, self.metrics))
            shift = np.sqrt(np.einsum("mde,d,e->m", grams, errors, errors))[self.metric]
            gamma = gamma + np.where(flat, 0.0, s * shift * (2 * np.where(flat, 0.0, radius) - shift))
            whole = np.append(radius >= shift, True)[self.rows].all(axis=1)
            return replace(self, gamma=gamma).take(np.flatnonzero(whole))
        offsets = corners(errors)
        # Behind all constraints come copies of the balls, one per corner, that have their points moved by it.
        (curved,), c, copies = np.nonzero(~flat), len(flat), len(offsets)
        index = np.append(np.arange(c), np.tile(curved, copies))
        moved = n * np.append(np.zeros(c, dtype=np.int64), np.repeat(1 + np.arange(copies), len(curved)))
        places = np.full((copies, c + 1), -1)
        places[:, curved] = c + np.arange(copies * len(curved)).reshape(copies, -1)
        kept = np.where(np.append(flat, False)[self.rows], self.rows, -1)
        return replace(
            self,
            points=np.vstack([self.points, *(self.points - offset for offset in offsets)]),
            point_metric=np.tile(self.point_metric, copies + 1),
            near=self.near[index] + moved,
            far=self.far[index] + moved,
            alpha=self.alpha[index],
            beta=self.beta[index],
            gamma=gamma[index],
            rows=np.hstack([kept, *(place[self.rows] for place in places)]),
            linear=self.linear[index],
            point_names=(),
        )


def corners(errors: Floats) -> Floats:
    """Return the corners of the box of errors, of shape (2^m, d), m the number of features that have one.

    >>> corners(np.array([1.0, 0.0, 3.0])).tolist()
    [[-1.0, 0.0, -3.0], [-1.0, 0.0, 3.0], [1.0, 0.0, -3.0], [1.0, 0.0, 3.0]]
    """
    k = np.flatnonzero(errors)
    result = np.zeros((2 ** len(k), len(errors)))
    result[:, k] = np.array(list(product((-1.0, 1.0), repeat=len(k)))) * errors[k]
    return result


def along(A: Floats, ways: Floats) -> Floats:
    """Return what acts on (x, t) as a matrix (..., d) acts on x + t'ways, of shape (..., d + m)."""
    return np.concatenate([A, A @ ways.T], axis=-1)


def stacked(metrics: Sequence[Floats], d: int) -> Floats:
    """Return metrics of different numbers of rows as one array (M, k, d), padded with rows of zeros."""
    result = np.zeros((len(metrics), max([len(L) for L in metrics], default=1), d))
    for i, L in enumerate(metrics):
        result[i, : len(L)] = L
    return result


def padded(rows: Sequence[Sequence[int]]) -> Ints:
    """Return lists of indices as one array, padded with -1.

    >>> padded([[0, 1], [2]]).tolist()
    [[0, 1], [2, -1]]
    """
    result = np.full((len(rows), max([len(row) for row in rows], default=0)), -1, dtype=np.int64)
    for i, row in enumerate(rows):
        result[i, : len(row)] = row
    return result
