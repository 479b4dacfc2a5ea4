"""The result every baseline returns, and what the baselines share: solving, judging, checking."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from lvqrej.certainty import Certainty
from lvqrej.validation import LARGEST, check_number, check_samples, describe

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Program:
    """One optimisation problem of a divide and conquer loop, and how it ended.

    Attributes
    ----------
    target : tuple of int
        What the loop held fixed: the index of p+, or as the function says.
    status : str
        What the solver reported.
    value : float
        The objective the solver reported; infinite without a point.
    point : ndarray of shape (d,) or None
    """

    target: tuple[int, ...]
    status: str
    value: float
    point: Vector | None


@dataclass(frozen=True)
class Baseline:
    """The answer of a method without a certificate.

    Attributes
    ----------
    counterfactual : ndarray of shape (d,)
        The zero vector if nothing was found, as the paper's algorithms return it.
    distance : float
        l1 distance to the input, weighted where weights were given; infinite if nothing was found.
    found : bool
        Whether the method came up with a point.
    valid : bool
        Whether that point is accepted by the option's own test, without tolerance.
    certainty : float
        r of the counterfactual (of the zero vector if nothing was found).
    programs : tuple of Program
        One entry per optimisation problem solved.
    """

    counterfactual: Vector
    distance: float
    found: bool
    valid: bool
    certainty: float
    programs: tuple[Program, ...] = ()


def solve_program(
    target: tuple[int, ...],
    origin: Vector,
    balls: Iterable[tuple[Vector, Vector, float]],
    half_spaces: Iterable[tuple[Vector, float]],
    margin: float,
    solver: str,
    solver_options: dict[str, Any],
) -> Program:
    """Solve min |x - origin|_1 with |Lx|^2 + q'x + c <= -margin (balls), q'x + c >= margin (half-spaces)."""
    cp = import_module("cvxpy")  # takes a second to load
    if solver not in cp.installed_solvers():
        raise ValueError(
            f"solver must be one of {', '.join(map(repr, cp.installed_solvers()))}; found {describe(solver)}"
        )
    x = cp.Variable(len(origin))
    constraints = [cp.sum_squares(L @ x) + q @ x + c <= -margin for L, q, c in balls]
    constraints += [q @ x + c >= margin for q, c in half_spaces]
    problem = cp.Problem(cp.Minimize(cp.norm1(x - origin)), constraints)
    try:
        problem.solve(solver=solver, **solver_options)
    except cp.error.SolverError:
        return Program(target, "solver_error", np.inf, None)
    if x.value is None or not np.isfinite(x.value).all():
        return Program(target, problem.status, np.inf, None)
    return Program(target, problem.status, float(problem.value), np.asarray(x.value, dtype=float))


def best_program(option: Certainty, theta: float, origin: Vector, programs: Iterable[Program]) -> Baseline:
    """Keep the nearest of the programs' points, valid or not, as the paper's algorithms do."""
    programs = tuple(programs)
    points = [program.point for program in programs if program.point is not None]
    nearest = min(points, key=lambda point: float(np.abs(point - origin).sum()), default=None)
    return judged(option, theta, origin, nearest, programs)


def judged(
    option: Certainty, theta: float, origin: Vector, point: Vector | None, programs: tuple[Program, ...] = ()
) -> Baseline:
    """Put the option's own verdict beside a point (None: nothing was found, the zero vector)."""
    found = point is not None
    counterfactual = np.zeros_like(origin) if point is None else point
    distance = float(np.abs(counterfactual - origin).sum()) if found else np.inf
    valid = found and bool(option.accepts(counterfactual[None], theta)[0])
    certainty = float(option.certainty(counterfactual[None])[0])
    return Baseline(counterfactual, distance, found, valid, certainty, programs)


def nelder_mead(
    violation: Callable[[Vector], float],
    origin: Vector,
    penalty: float,
    clip: bool,
    max_iterations: int | None,
) -> Vector:
    """Minimise |z - origin|_1 + penalty * violation(z), the violation clipped at zero or not."""
    penalty = check_number(penalty, "penalty", low=0, high=LARGEST)
    if not isinstance(clip, (bool, np.bool_)):
        raise ValueError(f"clip must be True or False; found {describe(clip)}")
    options: dict[str, Any] = {}
    if max_iterations is not None:
        options["maxiter"] = int(check_number(max_iterations, "max_iterations", low=1, integer=True))

    def objective(z: Vector) -> float:
        excess = violation(z)
        return float(np.abs(z - origin).sum()) + penalty * (max(0.0, excess) if clip else excess)

    result = minimize(objective, origin, method="Nelder-Mead", options=options)
    return np.asarray(result.x, dtype=float)


def check_option(option: Any) -> None:
    """Raise a ValueError unless `option` is a certainty."""
    if not isinstance(option, Certainty):
        raise ValueError(f"option must be a Certainty; found {describe(option)}")


def check_sample(x: Any, n_features: int) -> Vector:
    """Return one sample as a float array of shape (d,), or raise a ValueError."""
    if np.ndim(x) != 1:
        raise ValueError(f"x must be one sample of shape ({n_features},); found shape {np.shape(x)}")
    return check_samples(np.asarray(x)[None], n_features, name="x")[0]


def check_weights(weights: Any, n_features: int) -> Vector:
    """Return positive weights of shape (d,), all 1 if None, or raise a ValueError."""
    if weights is None:
        return np.ones(n_features)
    w = check_samples(np.atleast_2d(weights), n_features, name="weights")
    if len(w) != 1 or (w <= 0).any():
        raise ValueError(f"weights must be {n_features} positive numbers; found {describe(weights)}")
    return w[0]


def check_margin(margin: Any) -> float:
    """Return the margin as a finite float, at least 0, or raise a ValueError."""
    return check_number(margin, "margin", low=0, high=LARGEST)
