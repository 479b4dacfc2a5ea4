"""Nearest points of cells in weighted l1: compiled where one or two constraints decide, else by cones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej._validation import check_samples
from lvqrej.cells import Ball, Cell, Cells, HalfSpace, Packed
from lvqrej.engine.cone import Program, cone_projection
from lvqrej.engine.homotopy import INFEASIBLE, SOLVED, homotopy
from lvqrej.engine.measure import Scaled, cell_bounds, scaled
from lvqrej.engine.precise import precise_bound
from lvqrej.engine.search import CONE, PATHS, Found, nothing_found, search_batch

Floats = NDArray[np.float64]
_EPS = float(np.finfo(float).eps)
#: What rounding can add up to, in units of the terms' sizes, and so how far inside an answer is aimed at.
ROUNDING = 16 * _EPS
#: The relative gap from which on the certificate is worth extended precision.
_PROVEN = 1e-7


@runtime_checkable
class AcceptedSet(Protocol):
    """What an option's `cells(theta)` may be instead of `Cells`: anything that finds its nearest points."""

    def with_label(self, label: int) -> AcceptedSet:
        """Return the part accepted as the class of this index."""

    def narrowed(self, extra: list[Ball | HalfSpace]) -> AcceptedSet:
        """Return the set cut by further balls and half-spaces."""

    def nearest(
        self, X: Floats, weights: Floats, lower: Floats, upper: Floats, rounding: float, facet_rounding: float
    ) -> Found:
        """Return the nearest points with lower <= x <= upper, as `nearest_points` does for `Cells`."""

    def active(self, cell: int, x: Floats) -> list[str]:
        """Say in words which constraints of a cell are tight at x."""


def nearest_points(
    cells: Cells,
    X: Floats,
    weights: Floats,
    lower: Floats,
    upper: Floats,
    rounding: float = ROUNDING,
    facet_rounding: float = ROUNDING,
) -> Found:
    """Find for each row of X the nearest point of the union of cells, in weighted l1.

    Parameters
    ----------
    cells : Cells
    X : ndarray of shape (n, d)
    weights : ndarray of shape (d,)
        Positive.
    lower : ndarray of shape (n, d)
        Lower bounds of the answer, at most X.
    upper : ndarray of shape (n, d)
        Upper bounds of the answer, at least X. Equal bounds fix a feature.
    rounding : float
        How far inside the constraints to aim, relative to the sizes of their terms.
    facet_rounding : float
        The same for the constraints that only separate neighbouring cells.

    Returns
    -------
    Found
        Changes, distances, certified lower bounds (of the cells as they are, not as tightened), the cell and
        the path of each answer; distance infinity where no cell can be reached.
    """
    n, d = X.shape
    found = nothing_found(n, d)
    if len(cells) == 0 or n == 0:
        return found
    in_units = _in_units(cells, weights)
    search_batch(cells.packed, in_units, X, lower, upper, rounding, facet_rounding, *found)
    unproven = (found.bounds < (1 - _PROVEN) * found.distances) & (found.cells >= 0)
    for i in np.flatnonzero(unproven | (found.open_cells > 0)):
        _with_cones(cells, in_units, X[i], lower[i], upper[i], rounding, facet_rounding, found, int(i))
    return found


def _in_units(cells: Cells, weights: Floats) -> Scaled:
    """Return metrics and normals in units of the objective, which the cells keep for the next sample."""
    latest = vars(cells).get("_in_units")
    if latest is None or not np.array_equal(latest.weights, weights):
        latest = vars(cells)["_in_units"] = scaled(cells.packed, weights)
    return latest


def _with_cones(
    cells: Cells,
    in_units: Scaled,
    x: Floats,
    lower: Floats,
    upper: Floats,
    rounding: float,
    facet_rounding: float,
    found: Found,
    i: int,
) -> None:
    """Search the cells of one sample again, with the cone program and extended precision at hand."""
    weights = in_units.weights
    bounds = np.empty(len(cells))
    lo, hi = (lower - x) * weights, (upper - x) * weights
    cell_bounds(cells.packed, in_units, x, lo, hi, bounds)
    best, certificate = found.distances[i], np.inf
    for cell in np.argsort(bounds, kind="stable"):
        if bounds[cell] > best:
            break
        one = cells.take(np.array([cell]))
        packed = one.packed
        answer = nothing_found(1, len(x))
        rows = x[None], lower[None], upper[None]
        search_batch(packed, scaled(packed, weights), *rows, rounding, facet_rounding, *answer)
        delta, distance, bound = answer.deltas[0], answer.distances[0], answer.bounds[0]
        path = answer.paths[0]
        candidates = [delta * weights]
        if answer.open_cells[0] and bound < best:
            program = cone_program(packed, x, weights, lo, hi, rounding, facet_rounding)
            status, beta, _, proven = cone_projection(program)
            bound = max(bound, proven)
            length = float(np.abs(beta).sum()) if status == SOLVED else np.inf
            if distance == np.inf or (length < distance and program.holds(beta)):
                delta, distance, path = beta / weights, length, CONE
                candidates.append(beta)
        if distance < np.inf and bound < (1 - _PROVEN) * min(distance, best):
            program = cone_program(packed, x, weights, lo, hi, rounding, facet_rounding, np.longdouble)
            proven = max(precise_bound(program, beta) for beta in candidates)
            bound = max(bound, min(distance, proven))
        certificate = min(certificate, bound)
        if distance < best or (distance == best and found.cells[i] == cell):
            best = distance
            found.deltas[i], found.distances[i] = delta, distance
            found.cells[i], found.paths[i] = cell, path
    found.bounds[i] = min(certificate, best)
    found.open_cells[i] = 0


def cone_program(
    packed: Packed,
    x: Floats,
    weights: Floats,
    lo: Floats,
    hi: Floats,
    rounding: float = ROUNDING,
    facet_rounding: float = ROUNDING,
    precision: type[np.floating] = np.float64,
) -> Program:
    """Return the constraints of all cells in `packed` (usually one) as seen from x, for the cone program."""
    x, L = x.astype(precision), packed.metrics.astype(precision)
    z = np.array([L[m] @ (site - x) for m, site in zip(packed.site_metric, packed.sites, strict=True)])
    metrics = [metric / weights for metric in L]
    squares = (z**2).sum(axis=1) if len(z) else np.empty(0)
    c, d = len(packed.near), len(x)
    M, A, q = [], [], np.empty((c, d), precision)
    s, g, size = np.zeros((3, c), precision)
    for j in range(c):
        near, far = packed.near[j], packed.far[j]
        alpha, beta, gamma = (precision(part[j]) for part in (packed.alpha, packed.beta, packed.gamma))
        if near < 0:
            terms = packed.normals[packed.normal[j]] * x
            g[j], size[j] = gamma - terms.sum(), abs(gamma) + np.abs(terms).sum()
        else:
            parts = alpha * squares[near], beta * squares[far] if far >= 0 else 0.0
            g[j], size[j] = parts[0] - parts[1] + gamma, parts[0] + parts[1] + abs(gamma)
        if packed.normal[j] >= 0:
            M.append(np.empty((0, d)))
            A.append(np.empty(0))
            if near < 0:
                q[j] = packed.normals[packed.normal[j]] / weights
            else:  # the packed normal has the digits of a double
                m, between = (
                    packed.site_metric[near],
                    packed.sites[near].astype(precision) - packed.sites[far],
                )
                q[j] = 2 * alpha * (L[m] @ between) @ metrics[m]
        else:
            M.append(metrics[packed.site_metric[near]])
            A.append(alpha * z[near] - (beta * z[far] if far >= 0 else 0.0))
            q[j], s[j] = 2 * A[j] @ M[j], alpha - beta
    margin = np.where(packed.facet, facet_rounding, rounding) * size
    return Program(M, A, q, s, g, size, margin, lo, hi)


@dataclass(frozen=True, eq=False)
class Projection:
    """The nearest point of one cell: changes, distance, certified lower bound, multipliers, how it was found.

    `delta` is None and `distance` infinite if the cell cannot be reached within the bounds.
    """

    delta: Floats | None
    distance: float
    lower_bound: float
    multipliers: Floats
    path: str


def project(
    cell: Cell,
    x: ArrayLike,
    weights: ArrayLike | None = None,
    lower: ArrayLike | float = -np.inf,
    upper: ArrayLike | float = np.inf,
) -> Projection:
    """Project one sample onto one cell in weighted l1 with the cone program, duals included.

    Parameters
    ----------
    cell : Cell
        Of any balls (each in its own metric) and half-spaces.
    x : array-like of shape (d,)
    weights : array-like of shape (d,), optional
    lower : array-like of shape (d,) or float
        Lower bounds of the answer, at most x.
    upper : array-like of shape (d,) or float
        Upper bounds of the answer, at least x.

    Returns
    -------
    Projection
        `multipliers` has one entry per ball, then one per half-space: d distance / d (right-hand side of
        |L (x - C)|^2 <= R^2 and q'x + k >= 0).

    Examples
    --------
    >>> cell = Cell(balls=(Ball([3, 0], 1), Ball([3, 1], 1)))
    >>> nearest = project(cell, [0, 0])
    >>> nearest.delta.round(6), round(nearest.distance, 6)
    (array([2.292893, 0.292893]), 2.585786)
    """
    point = check_samples(np.atleast_2d(x), name="x")[0]
    w = np.ones(len(point)) if weights is None else check_samples(np.atleast_2d(weights), len(point))[0]
    lo = (np.broadcast_to(lower, point.shape) - point) * w
    hi = (np.broadcast_to(upper, point.shape) - point) * w
    program = cone_program(Cells.of([cell]).packed, point, w, lo, hi)
    if (program.values(np.zeros(len(point))) <= 0).all():
        return Projection(np.zeros(len(point)), 0.0, 0.0, np.zeros(len(program.g)), "start")
    status, beta, lam, bound = cone_projection(program)
    if status != SOLVED:
        return Projection(None, np.inf, bound, lam, "cone")
    return Projection(beta / w, float(np.abs(beta).sum()), bound, lam, "cone")


def homotopy_path(ball: Ball, x: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """Return the breakpoints of the LASSO path from x to the ball, of shape (steps + 1, d).

    The first row is x itself, the last its projection; from row to row one feature joins (or leaves).

    >>> homotopy_path(Ball([3, 1], 1), [0, 0]).round(4)
    array([[0.    , 0.    ],
           [2.    , 0.    ],
           [2.2929, 0.2929]])
    """
    point = check_samples(np.atleast_2d(x), name="x")[0]
    d = len(point)
    w = np.ones(d) if weights is None else check_samples(np.atleast_2d(weights), d, name="weights")[0]
    M = ball.L / w
    A = ball.L @ (ball.centre - point)
    gram, correlation, g = M.T @ M, M.T @ A, float(A @ A) - ball.radius**2
    free, beta = np.full(d, np.inf), np.zeros(d)
    rows = [point]
    status = SOLVED if g <= 0 else -1
    while status < 0 or (status not in (SOLVED, INFEASIBLE) and len(rows) < 10 * d + 10):
        status, _ = homotopy(
            gram, correlation, 1.0, g, -free, free, np.inf, len(rows), np.empty((d, d)), beta,
            np.empty(d), np.empty(d, dtype=np.int64),
        )  # fmt: skip
        rows.append(point + beta / w)
    return np.array(rows)


def path_name(code: int) -> str:
    """Return the name of a path's code."""
    return PATHS[code]
