"""The nearest point of one cell, with its multipliers, and the path to one ball, for the chapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.cells import Ball, Cell
from lvqrej.solvers import SOLVED, UNRESOLVED, Program, cone_projection, homotopy
from lvqrej.validation import check_samples

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Projection:
    """The nearest point of one cell: change, distance, certified lower bound, multipliers.

    `delta` is None and `distance` infinite if the cell cannot be reached within the bounds.
    """

    delta: Floats | None
    distance: float
    lower_bound: float
    multipliers: Floats


def project(
    cell: Cell,
    x: Any,
    weights: Any = None,
    lower: Any = -np.inf,
    upper: Any = np.inf,
) -> Projection:
    """Project one sample onto one cell in weighted l1 by the cone program, multipliers included.

    Parameters
    ----------
    cell : Cell
        Of any balls (each in its own metric) and half-spaces.
    x : array-like of shape (d,)
    weights : array-like of shape (d,), optional
    lower, upper : array-like of shape (d,) or float
        Bounds of the answer, lower <= x <= upper.

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
    lo, hi = ((np.broadcast_to(end, point.shape) - point) * w for end in (lower, upper))
    program = program_of(cell.balls, cell.half_spaces, point, w, lo, hi)
    if (program.g <= 0).all():
        return Projection(np.zeros(len(point)), 0.0, 0.0, np.zeros(len(program.g)))
    status, beta, lam, bound = cone_projection(program)
    if status != SOLVED:
        return Projection(None, np.inf, bound, lam)
    return Projection(beta / w, float(np.abs(beta).sum()), bound, lam)


def homotopy_path(ball: Ball, x: Any, weights: Any = None) -> Floats:
    """Return the breakpoints of the LASSO path from x to the ball, of shape (steps + 1, d).

    The first row is x itself, the last its projection; from row to row one feature joins (or leaves).

    >>> homotopy_path(Ball([3, 1], 1), [0, 0]).round(4)
    array([[0.    , 0.    ],
           [2.    , 0.    ],
           [2.2929, 0.2929]])
    """
    point = check_samples(np.atleast_2d(x), name="x")[0]
    w = np.ones(len(point)) if weights is None else check_samples(np.atleast_2d(weights), len(point))[0]
    M, A = ball.L / w, ball.L @ (ball.centre - point)
    g, both = float(A @ A) - ball.radius**2, np.full((1, len(point)), True)
    rows, status = [point], SOLVED if g <= 0 else UNRESOLVED
    while status == UNRESOLVED and len(rows) < 10 * len(point) + 10:
        path = homotopy(
            (M.T @ M)[None], np.zeros(1, dtype=np.int64), (M.T @ A)[None], np.ones(1), np.array([g]), both,
            both, np.array([np.inf]), max_steps=len(rows),
        )  # fmt: skip
        rows.append(point + path.beta[0] / w)
        status = int(path.status[0])
    return np.array(rows)


def program_of(balls: Any, half_spaces: Any, x: Floats, weights: Floats, lo: Floats, hi: Floats) -> Program:
    """Return the program of balls and half-spaces as they are, seen from x."""
    d, metrics = len(x), {id(ball.L): ball.L / weights for ball in balls}
    M = [metrics[id(ball.L)] for ball in balls] + [np.empty((0, d))] * len(half_spaces)
    A = [ball.L @ (ball.centre - x) for ball in balls] + [np.empty(0)] * len(half_spaces)
    flats = [half_space.normal / weights for half_space in half_spaces]
    q = np.array([2 * a @ m for a, m in zip(A[: len(balls)], M, strict=False)] + flats).reshape(-1, d)
    terms = [(float(a @ a), ball.radius**2) for a, ball in zip(A, balls, strict=False)]
    terms += [(-float(flat.normal @ x), flat.offset) for flat in half_spaces]
    g = np.array([a - b for a, b in terms])
    size = np.array([abs(a) + abs(b) for a, b in terms])
    s = np.repeat([1.0, 0.0], [len(balls), len(half_spaces)])
    return Program(M, A, q, np.abs(q), s, g, size, np.zeros(len(g)), lo, hi)
