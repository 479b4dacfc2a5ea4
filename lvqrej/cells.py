"""Unions of convex cells, packed as arrays: what an accepted set is made of.

Every constraint has the same form, with two *sites* a and b (points) and numbers alpha >= beta >= 0:

    f(x) = alpha |L (x - a)|^2 - beta |L (x - b)|^2 + gamma <= 0

It is a ball if alpha > beta (an Apollonius ball if both are positive), a half-space if alpha = beta. The two
site distances are what a certainty compares, so f is as accurate as the certainty itself, and it stays
stable where a ball grows into a half-space and its centre runs off to infinity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from lvqrej.engine.shapes import Ball, Cell, HalfSpace

__all__ = ["Ball", "Cell", "Cells", "HalfSpace", "Packed", "join_cells"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Packed(NamedTuple):
    """The arrays of `Cells`, as compiled loops read them."""

    metrics: Floats  # (M, k, d), padded with rows of zeros
    sites: Floats  # (S, d)
    site_metric: Ints  # (S,)
    normals: Floats  # (N, d): gradient of -f for flat constraints
    near: Ints  # (c,) site a, -1 for a plain half-space
    far: Ints  # (c,) site b, -1 if beta = 0
    alpha: Floats  # (c,)
    beta: Floats  # (c,)
    gamma: Floats  # (c,)
    normal: Ints  # (c,) row of `normals` if flat, else -1
    facet: NDArray[np.bool_]  # (c,) a boundary that may be shared with another cell
    start: Ints  # (cells + 1,) the constraints of cell i are start[i]:start[i + 1]


@dataclass(frozen=True, eq=False)
class Cells(Sequence[Cell]):
    """A union of cells, as arrays; `cells[i]` is a readable `Cell`.

    A constraint is f(x) = alpha |L (x - near)|^2 - beta |L (x - far)|^2 + gamma <= 0 or, of a plain
    half-space, f(x) = gamma - plain'x <= 0.

    Parameters
    ----------
    metrics : ndarray of shape (M, k, d)
    sites : ndarray of shape (S, d)
        The points the constraints compare.
    site_metric : ndarray of shape (S,)
        The metric each is measured in, by its index.
    near : ndarray of shape (c,)
        The site of the first distance, by its index; -1 for a plain half-space.
    far : ndarray of shape (c,)
        The site of the second distance, by its index, -1 if beta = 0; for a plain half-space, its row of
        `plain`.
    alpha : ndarray of shape (c,)
        The factor of the first squared distance.
    beta : ndarray of shape (c,)
        The factor of the second squared distance.
    gamma : ndarray of shape (c,)
        The constant.
    start : ndarray of shape (cells + 1,)
    labels : ndarray of shape (cells,)
    plain : ndarray of shape (N, d), optional
        Normals of the plain half-spaces.
    facet : ndarray of shape (c,), optional
        Whether a constraint only separates this cell from a neighbour that may accept as well.
    site_names : list of str, optional
        What to call the sites.
    names : list of str, optional
        What to call the cells.

    Examples
    --------
    >>> cells = Cells.of([Cell(balls=(Ball([0, 0], 1), Ball([1, 0], 1)))])
    >>> len(cells), len(cells[0].balls), cells[0].balls[1].radius
    (1, 2, 1.0)
    """

    metrics: Floats
    sites: Floats
    site_metric: Ints
    near: Ints
    far: Ints
    alpha: Floats
    beta: Floats
    gamma: Floats
    start: Ints
    labels: Ints
    plain: Floats | None = None
    facet: NDArray[np.bool_] | None = None
    site_names: Sequence[str] = field(default=())
    names: Sequence[str] = field(default=())

    @staticmethod
    def of(cells: Sequence[Cell]) -> Cells:
        """Pack readable cells; balls that share the array `L` share a metric."""
        metrics: dict[int, Floats] = {}
        centres: list[Floats] = []
        plain: list[Floats] = []
        rows: list[tuple[int, int, float, float, float]] = []
        site_metric: list[int] = []
        start = [0]
        for cell in cells:
            for ball in cell.balls:
                metrics.setdefault(id(ball.L), ball.L)
                site_metric.append(list(metrics).index(id(ball.L)))
                rows.append((len(centres), -1, 1.0, 0.0, -ball.radius * ball.radius))
                centres.append(ball.centre)
            for half_space in cell.half_spaces:
                rows.append((-1, len(plain), 0.0, 0.0, -half_space.offset))
                plain.append(half_space.normal)
            start.append(len(rows))
        d = len((centres or plain or [np.zeros(1)])[0])
        table = np.array(rows, dtype=float).reshape(-1, 5)
        return Cells(
            metrics=_stack(list(metrics.values()), d),
            sites=np.array(centres, dtype=float).reshape(-1, d),
            site_metric=np.array(site_metric, dtype=np.int64),
            near=table[:, 0].astype(np.int64),
            far=table[:, 1].astype(np.int64),
            alpha=table[:, 2].copy(),
            beta=table[:, 3].copy(),
            gamma=table[:, 4].copy(),
            start=np.array(start, dtype=np.int64),
            labels=np.array([cell.label for cell in cells], dtype=np.int64),
            plain=np.array(plain, dtype=float).reshape(-1, d),
            names=[cell.name for cell in cells],
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Cell]:
        return (self._readable(i) for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Cell]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._readable(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"cell {index} of {len(self)}")
        return self._readable(index % len(self))

    def _readable(self, index: int) -> Cell:
        rows = range(self.start[index], self.start[index + 1])
        pieces = [self.piece(j) for j in rows]
        return Cell(
            balls=tuple(piece for piece in pieces if isinstance(piece, Ball)),
            half_spaces=tuple(piece for piece in pieces if isinstance(piece, HalfSpace)),
            label=int(self.labels[index]),
            name=self.names[index] if len(self.names) else f"cell {index}",
        )

    def piece(self, j: int) -> Ball | HalfSpace:
        """Return constraint j as a ball or a half-space."""
        alpha, beta, gamma = self.alpha[j], self.beta[j], self.gamma[j]
        if alpha == beta:
            k = self.packed.normal[j]
            normal = self.packed.normals[k]
            if self.near[j] < 0:
                return HalfSpace(normal, -gamma)
            middle = (self.sites[self.near[j]] + self.sites[self.far[j]]) / 2
            return HalfSpace(normal, -float(normal @ middle) - gamma)
        a = self.sites[self.near[j]]
        b = self.sites[self.far[j]] if beta > 0 else a
        L = self.metrics[self.site_metric[self.near[j]]]
        between = L @ (a - b)
        squared = alpha * beta / (alpha - beta) ** 2 * float(between @ between) - gamma / (alpha - beta)
        return Ball(a + beta / (alpha - beta) * (a - b), float(np.sqrt(max(squared, 0.0))), L)

    def describe(self, j: int) -> str:
        """Say in words what constraint j asks for."""
        if self.near[j] < 0 or not len(self.site_names):
            return "a half-space" if self.alpha[j] == self.beta[j] else "a ball"
        if self.beta[j] == 0:
            return f"near {self.site_names[self.near[j]]}"
        enough = " by enough" if self.alpha[j] > self.beta[j] or self.gamma[j] > 0 else ""
        return f"nearer to {self.site_names[self.near[j]]} than to {self.site_names[self.far[j]]}{enough}"

    def active(self, cell: int, x: Floats, tolerance: float = 1e-7) -> list[str]:
        """Say in words which constraints of a cell are tight at x, relative to the sizes of their terms."""
        tight = []
        for j in range(self.start[cell], self.start[cell + 1]):
            if self.near[j] < 0:
                normal = self.packed.normals[self.packed.normal[j]]
                value, size = self.gamma[j] - normal @ x, abs(self.gamma[j]) + np.abs(normal) @ np.abs(x)
            else:
                L = self.metrics[self.site_metric[self.near[j]]]
                near, far = L @ (self.sites[self.near[j]] - x), L @ (self.sites[self.far[j]] - x)
                terms = self.alpha[j] * (near @ near), self.beta[j] * (far @ far), self.gamma[j]
                value, size = terms[0] - terms[1] + terms[2], terms[0] + terms[1] + abs(terms[2])
            if value >= -tolerance * size:
                tight.append(self.describe(j))
        return tight

    def snapped(self, cells: Ints, points: Floats, start: Floats) -> Floats:
        """Return the points with features that almost agree with the cell's first near site set to it.

        A cell of radius 0 is a single point, which only its own digits meet.
        """
        first = self.start[cells]
        sites = self.sites[self.near[first]] if len(self.sites) else points
        moved = np.abs(points - start)
        near = np.abs(points - sites) <= 1e-5 * moved.max(axis=1, keepdims=True)
        return np.where(near & (moved > 0), sites, points)

    def with_label(self, label: int) -> Cells:
        """Return the cells that are accepted as the class of this index."""
        return self.take(self.labels == label)

    def take(self, chosen: NDArray[Any]) -> Cells:
        """Return the union of some of the cells only (a mask or indices)."""
        kept = np.arange(len(self))[chosen]
        rows = [np.arange(self.start[i], self.start[i + 1]) for i in kept]
        sizes = [len(row) for row in rows]
        return self._rows(
            np.concatenate([*rows, np.empty(0, dtype=np.int64)]).astype(np.int64),
            start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            labels=self.labels[kept],
            names=[self.names[i] for i in kept] if len(self.names) else (),
        )

    def _rows(self, rows: Ints, **changes: Any) -> Cells:
        parts = {name: getattr(self, name)[rows] for name in ("near", "far", "alpha", "beta", "gamma")}
        facet = None if self.facet is None else self.facet[rows]
        same = {
            name: getattr(self, name) for name in ("metrics", "sites", "site_metric", "site_names", "plain")
        }
        return Cells(**{**same, **parts, "facet": facet, **changes})

    def narrowed(self, extra: Sequence[Ball | HalfSpace]) -> Cells:
        """Return the cells, each cut by all of the balls and half-spaces in `extra`."""
        balls = tuple(piece for piece in extra if isinstance(piece, Ball))
        flats = tuple(piece for piece in extra if isinstance(piece, HalfSpace))
        return join_cells(self, Cells.of([Cell(balls, flats)] * 1), every=True)

    @cached_property
    def packed(self) -> Packed:
        """The arrays for compiled loops, with the normals of flat constraints (once per pair of sites)."""
        paired = (self.alpha == self.beta) & (self.near >= 0)
        is_plain = self.near < 0
        d = self.metrics.shape[2]
        plain = np.empty((0, d)) if self.plain is None else self.plain
        keys, row = np.unique(self.near[paired] * len(self.sites) + self.far[paired], return_inverse=True)
        a, b = keys // max(len(self.sites), 1), keys % max(len(self.sites), 1)
        difference = self.sites[a] - self.sites[b]
        pulled = np.empty_like(difference)
        for metric in np.unique(self.site_metric[a]):
            mine = self.site_metric[a] == metric
            L = self.metrics[metric]
            pulled[mine] = 2 * (difference[mine] @ L.T) @ L
        normal = np.full(len(self.near), -1, dtype=np.int64)
        normal[paired] = len(plain) + row
        normal[is_plain] = self.far[is_plain]
        return Packed(
            metrics=np.ascontiguousarray(self.metrics),
            sites=np.ascontiguousarray(self.sites),
            site_metric=self.site_metric,
            normals=np.ascontiguousarray(np.vstack([plain, pulled])),
            near=self.near,
            far=np.where(is_plain, -1, self.far),
            alpha=self.alpha,
            beta=self.beta,
            gamma=self.gamma,
            normal=normal,
            facet=np.zeros(len(self.near), dtype=bool) if self.facet is None else self.facet,
            start=self.start,
        )


def _stack(metrics: list[Floats], d: int) -> Floats:
    """Return metrics of different numbers of rows as one array, padded with rows of zeros."""
    k = max([len(L) for L in metrics], default=1)
    result = np.zeros((len(metrics), k, d))
    for i, L in enumerate(metrics):
        result[i, : len(L)] = L
    return result


def join_cells(first: Cells, second: Cells, *, every: bool = False) -> Cells:
    """Return the union of two families of cells; with `every`, cut each cell of the first by `second[0]`."""
    d = first.metrics.shape[2]
    sites, plain = len(first.sites), 0 if first.plain is None else len(first.plain)
    near = np.where(second.near >= 0, second.near + sites, -1)
    shift = np.where(second.near < 0, plain, sites)
    far = np.where(second.far >= 0, second.far + shift, -1)
    both = {
        "near": np.concatenate([first.near, near]),
        "far": np.concatenate([first.far, far]),
        "alpha": np.concatenate([first.alpha, second.alpha]),
        "beta": np.concatenate([first.beta, second.beta]),
        "gamma": np.concatenate([first.gamma, second.gamma]),
    }
    facets = [
        np.zeros(len(cells.near), dtype=bool) if cells.facet is None else cells.facet
        for cells in (first, second)
    ]
    metrics = _stack([*first.metrics, *second.metrics], d)
    named = len(first.site_names) > 0
    joined = Cells(
        metrics=metrics,
        sites=np.vstack([first.sites, second.sites]),
        site_metric=np.concatenate([first.site_metric, second.site_metric + len(first.metrics)]),
        start=np.concatenate([first.start, first.start[-1] + second.start[1:]]),
        labels=np.concatenate([first.labels, second.labels]),
        plain=np.vstack(
            [np.empty((0, d)) if cells.plain is None else cells.plain for cells in (first, second)]
        ),
        facet=np.concatenate(facets),
        site_names=[*first.site_names, *(["an added centre"] * len(second.sites))] if named else (),
        names=[*first.names, *second.names] if len(first.names) and len(second.names) else (),
        **both,
    )
    if not every:
        return joined
    extra = np.arange(len(first.near), len(joined.near))
    rows = [
        np.concatenate([np.arange(first.start[i], first.start[i + 1]), extra])
        for i in range(len(first.labels))
    ]
    return joined._rows(
        np.concatenate([*rows, np.empty(0, dtype=np.int64)]).astype(np.int64),
        start=first.start + len(extra) * np.arange(len(first.start)),
        labels=first.labels,
        names=first.names,
    )
