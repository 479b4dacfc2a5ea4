"""The probabilistic option's convex approximation: the paper's Algorithm 3, as printed and set right."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from companion.baselines_direct import Pair, check_problem, pairs_of
from companion.programs import Baseline, Program, Vector, best_program, check_margin, solve_program
from lvqrej import ProbabilisticCertainty
from lvqrej.validation import LARGEST, check_choice, check_number


def convex_probabilistic(
    option: ProbabilisticCertainty,
    theta: float,
    x: ArrayLike,
    *,
    signs: str = "printed",
    classes: str = "one",
    eps: float = 1e-5,
    solver: str = "CLARABEL",
    margin: float = 0.0,
    **solver_options: Any,
) -> Baseline:
    """Solve the paper's Algorithm 3: Eq. (17) for each class, other class and target prototype, with CVXPY.

    min |z - x|_1  s.t.  z'Omega z + q_j'z + c_j <= -margin  for all prototypes p_j of the other class, with
    Eqs. (42) and (46):

        gamma = (log max(1/theta - 1, eps) - log(K - 1) - beta) / alpha
        q_j = (-2 (gamma - 1) Omega p_j - 2 (1 + gamma) Omega p_i) / (-2 gamma)
        c_j = ((gamma - 1) p_j'Omega p_j + (1 + gamma) p_i'Omega p_i) / (-2 gamma)

    What is wrong with it: (1) Dividing by alpha < 0 must turn the inequality of Eq. (41), and dividing by
    -2 gamma must divide the square as well: q_j and c_j are both the negatives of the right ones. Instead of
    the right ball |L(z - C)| <= R the program gets one with centre -C and squared radius 2|LC|^2 - R^2. The
    two share no point but where Lz = 0; the printed one is empty if p_i is near the origin, and often
    contains the rejected input itself if not. (2) The bound of Eq. (39) needs every other class:
    constraining one at a time proves nothing for three classes or more, and the nearest such point is often
    the input itself. (3) max(-c', eps) yields points for theta >= 1, where no input is certain enough.

    Parameters
    ----------
    option : ProbabilisticCertainty
        Fitted.
    theta : float
        Above 0.
    x : array-like of shape (d,)
    signs : {"printed", "correct"}
        With "correct", q_j and c_j are negated, and the cases that Eq. (46) does not cover are set right:
        gamma <= -1 (no constraint), -1 < gamma <= 0 (tightened to the half-spaces of gamma = 0, valid but
        smaller than the set itself), alpha > 0 (the two classes change roles) and alpha = 0 (a constant).
    classes : {"one", "all"}
        One other class at a time as printed, or all jointly: one program for each choice of a target
        prototype in every pairwise model, a product that grows with the number of classes.
    eps : float, default 1e-5
    solver, margin, **solver_options
        As for `printed_relative_similarity`.

    Returns
    -------
    Baseline
        The target of a program is (i, j, prototype) for one class at a time, (i, prototype, ...) jointly. A
        program whose gamma is 0 or undefined has status "undefined" with the printed signs.

    Examples
    --------
    The printed program is content with the rejected input itself.

    >>> from lvqrej import PrototypeModel
    >>> model = PrototypeModel([[-1.0, 0.0], [1.0, 0.0]], ["a", "b"])
    >>> option = ProbabilisticCertainty.from_pairs(
    ...     {(0, 1): model}, [[0, -4], [-4, 0]], [[0, 0], [0, 0]], ["a", "b"]
    ... )
    >>> printed = convex_probabilistic(option, 0.9, [-0.1, 0.2])
    >>> abs(printed.distance) < 1e-6, round(printed.certainty, 3)
    (True, 0.682)
    >>> correct = convex_probabilistic(option, 0.9, [-0.1, 0.2], signs="correct")
    >>> round(correct.distance, 3), round(correct.certainty, 3)
    (0.212, 0.9)
    """
    theta, origin = check_problem(option, theta, x)
    check_choice(signs, "signs", ("printed", "correct"))
    check_choice(classes, "classes", ("one", "all"))
    eps = check_number(eps, "eps", low=0, high=LARGEST, low_open=True)
    margin = check_margin(margin)
    K = len(option.classes)
    budget = np.log(max(1 / theta - 1, eps)) - np.log(K - 1)
    programs = []
    for i in range(K):
        others = [j for j in range(K) if j != i]
        choices = [list(_targets(pair, budget, signs)) for pair in pairs_of(option, i)]
        jobs: list[tuple[tuple[int, ...], list[Constraints]]] = []
        if classes == "one":
            for j, choice in zip(others, choices, strict=True):
                jobs += [((i, j, k), [c]) for k, c in choice]
        else:
            jobs = [((i, *(k for k, _ in job)), [c for _, c in job]) for job in product(*choices)]
        for target, constraints in jobs:
            programs.append(_solve(target, origin, constraints, margin, solver, solver_options))
    return best_program(option, theta, origin, programs)


# What one target prototype of one pairwise model asks: balls (L, q, c), half-spaces (q, c); None: undefined.
Constraints = tuple[list[tuple[Vector, Vector, float]], list[tuple[Vector, float]]] | None


def _targets(pair: Pair, budget: float, signs: str) -> Iterator[tuple[int, Constraints]]:
    """Yield each target prototype's index and its constraints for alpha s + beta <= budget."""
    own, other, gamma = pair.own, pair.other, np.nan
    if pair.alpha != 0:
        gamma = (budget - pair.beta) / pair.alpha
    if signs == "printed":
        for k, p in enumerate(own):
            defined = np.isfinite(gamma) and gamma != 0
            yield k, ([(pair.L, *printed_ball(pair.L, gamma, p, q)) for q in other], []) if defined else None
        return
    if pair.alpha == 0:  # a constant: met everywhere (no constraint) or nowhere (0 >= 1)
        met = pair.beta <= budget
        yield 0, ([], [] if met else [(np.zeros(pair.L.shape[1]), -1.0)])
        return
    if pair.alpha > 0:  # s <= gamma is the other class's score >= -gamma
        own, other, gamma = other, own, -gamma
    for k, p in enumerate(own):
        if gamma <= -1:
            yield k, ([], [])
        elif gamma <= 0:
            yield k, ([], [_nearer(pair.L, p, q) for q in other])
        else:
            balls = [(pair.L, *printed_ball(pair.L, gamma, p, q)) for q in other]
            yield k, ([(L, -q, -c) for L, q, c in balls], [])


def printed_ball(L: Vector, gamma: float, p_i: Vector, p_j: Vector) -> tuple[Vector, float]:
    """Return q_j of shape (d,) and c_j of the paper's Eq. (46): the negatives of the right ones."""
    z_i, z_j = L @ p_i, L @ p_j
    q = (-2 * (gamma - 1) * z_j - 2 * (1 + gamma) * z_i) @ L / (-2 * gamma)
    c = ((gamma - 1) * (z_j @ z_j) + (1 + gamma) * (z_i @ z_i)) / (-2 * gamma)
    return q, float(c)


def _nearer(L: Vector, p_i: Vector, p_j: Vector) -> tuple[Vector, float]:
    """Return the half-space q'x + c >= 0 of the points nearer to p_i than to p_j."""
    z_i, z_j = L @ p_i, L @ p_j
    return 2 * (z_i - z_j) @ L, float(z_j @ z_j - z_i @ z_i)


def _solve(
    target: tuple[int, ...],
    origin: Vector,
    constraints: list[Constraints],
    margin: float,
    solver: str,
    solver_options: dict[str, Any],
) -> Program:
    """Solve one program over the constraints of one or several pairwise models."""
    defined = [c for c in constraints if c is not None]
    if len(defined) < len(constraints):
        return Program(target, "undefined", np.inf, None)
    balls = [ball for some, _ in defined for ball in some]
    half_spaces = [half_space for _, some in defined for half_space in some]
    return solve_program(target, origin, balls, half_spaces, margin, solver, solver_options)
