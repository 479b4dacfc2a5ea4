"""Independent oracles: the plain programs in CVXPY, one per cell, and brute force on a grid."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np


def plain_program(cell: Any, x: np.ndarray, weights: np.ndarray, extra: Any = None) -> float:
    """Return the optimal value of min sum w|z - x| s.t. z in the cell, infinity if there is none."""
    z = cp.Variable(len(x))
    constraints = [cp.norm(ball.L @ (z - ball.centre)) <= ball.radius for ball in cell.balls]
    constraints += [half.normal @ z + half.offset >= 0 for half in cell.half_spaces]
    constraints += extra(z) if extra else []
    problem = cp.Problem(cp.Minimize(weights @ cp.abs(z - x)), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "Solution may be inaccurate": compared loosely then
        problem.solve(cp.CLARABEL)
    return np.inf if problem.value is None else float(problem.value)


def best_program(option: Any, theta: float, x: np.ndarray, weights: np.ndarray, extra: Any = None) -> float:
    """Return the best value over all cells."""
    return min((plain_program(cell, x, weights, extra) for cell in option.cells(theta)), default=np.inf)


def grid_distance(option: Any, theta: float, x: np.ndarray, half_width: float, steps: int = 801) -> float:
    """Return the l1 distance from x (2-D) to the nearest accepted point of a grid around it."""
    ticks = np.linspace(-half_width, half_width, steps)
    moves = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    accepted = option.accepts(x + moves, theta)
    return float(np.abs(moves[accepted]).sum(axis=1).min()) if accepted.any() else np.inf
