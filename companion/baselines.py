"""What the paper compares with and what it prints: to look at, to check against, to measure against.

Equation and algorithm numbers are the paper's, counted as its source prints them. None of these methods
carries a certificate; each result says by the option's own test whether it is valid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from companion.baselines_convex import convex_probabilistic
from companion.baselines_direct import direct_probabilistic, smooth_direct
from companion.programs import (
    Baseline,
    Program,
    Vector,
    best_program,
    check_margin,
    check_option,
    check_sample,
    check_weights,
    judged,
    nelder_mead,
    solve_program,
)
from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity
from lvqrej.certainty import Certainty
from lvqrej.validation import LARGEST, check_number, check_samples

__all__ = [
    "Baseline",
    "Program",
    "black_box",
    "convex_probabilistic",
    "direct_probabilistic",
    "nearest_accepted",
    "printed_decision_distance",
    "printed_relative_similarity",
    "smooth_direct",
]


def nearest_accepted(
    option: Certainty,
    theta: float,
    X: ArrayLike,
    candidates: ArrayLike,
    weights: ArrayLike | None = None,
) -> list[Baseline]:
    """Return for each sample the nearest candidate, in weighted l1, that the option accepts.

    The paper's first baseline ("the closest sample from the training data set which is not rejected").

    Parameters
    ----------
    option : Certainty
    theta : float
        Threshold; a candidate c is accepted where r(c) >= theta.
    X : array-like of shape (n, d)
    candidates : array-like of shape (N, d)
        Usually the training samples.
    weights : array-like of shape (d,), optional
        Positive weights of the features' changes; 1 if None.

    Returns
    -------
    list of n Baseline
        The first candidate wins a tie.

    Raises
    ------
    ValueError
        If no candidate is accepted; the message has the largest certainty among them.

    Examples
    --------
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> pool = [[1.0, 0.1], [0.2, 0.3], [0.0, 0.0]]
    >>> (answer,) = nearest_accepted(option, 0.5, [[0.9, 0.0]], candidates=pool)
    >>> answer.counterfactual, round(answer.distance, 6), answer.valid
    (array([0., 0.]), 0.9, True)
    """
    check_option(option)
    pool = check_samples(candidates, option.n_features, name="candidates")
    samples = check_samples(X, option.n_features)
    w = check_weights(weights, option.n_features)
    certainties = option.certainty(pool)
    accepted = np.flatnonzero(option.accepts(pool, theta))
    if len(accepted) == 0:
        raise ValueError(
            f"candidates must hold at least one accepted sample; found none at theta = {theta:g}: "
            f"the largest certainty among {len(pool)} is {certainties.max():g}"
        )
    index, distance = np.empty(len(samples), dtype=np.intp), np.empty(len(samples))
    rows_at_once = max(1, 5_000_000 // len(accepted))  # a block of distances stays below 40 MB
    for start in range(0, len(samples), rows_at_once):
        block = slice(start, start + rows_at_once)
        table = cdist(samples[block], pool[accepted], "cityblock", w=w)
        nearest = table.argmin(axis=1)
        index[block], distance[block] = accepted[nearest], table[np.arange(len(table)), nearest]
    return [
        Baseline(pool[i], float(length), True, True, float(certainties[i]))
        for i, length in zip(index, distance, strict=True)
    ]


def black_box(
    option: Certainty,
    theta: float,
    x: ArrayLike,
    *,
    penalty: float = 1.0,
    clip: bool = True,
    max_iterations: int | None = None,
) -> Baseline:
    """Solve the paper's Eq. (12) by a penalty method with Nelder-Mead, started at the input.

    Minimises |z - x|_1 + penalty * max(0, theta - r(z)) over z. The simplex search is deterministic.

    What is wrong with it: with a penalty weight of 1, as the paper states ("equal weighting"), the constraint
    is worth less than the way to it wherever r gains less than 1 per unit of l1, and the minimiser is then
    the input itself or another rejected point; the published code uses 1,000. Without the clip at
    zero (`clip=False`, as in the published code of the direct probabilistic method) certainty beyond theta is
    rewarded, and the answer runs away from the input. Nelder-Mead itself changes every feature.

    Parameters
    ----------
    option : Certainty
    theta : float
    x : array-like of shape (d,)
    penalty : float, default 1
        1 as the paper says, 1000 as its published code.
    clip : bool, default True
        Whether the penalty is 0 for accepted points, as a penalty must be.
    max_iterations : int, optional
        200 per feature if None (SciPy's default).

    Returns
    -------
    Baseline
        `valid` is the option's own test: the minimiser lies on the boundary, so that a hair decides.

    Examples
    --------
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> answer = black_box(option, 0.5, [0.9, 0.3], penalty=1000)
    >>> bool(abs(answer.certainty - 0.5) < 1e-3)
    True
    """
    check_option(option)
    theta = check_number(theta, "theta", low=-LARGEST, high=LARGEST)
    origin = check_sample(x, option.n_features)
    point = nelder_mead(
        lambda z: theta - float(option.certainty(z[None])[0]), origin, penalty, clip, max_iterations
    )
    return judged(option, theta, origin, point)


def printed_relative_similarity(
    model: PrototypeModel,
    theta: float,
    x: ArrayLike,
    *,
    solver: str = "CLARABEL",
    margin: float = 0.0,
    **solver_options: Any,
) -> Baseline:
    """Solve the paper's Algorithm 1 as printed: Eq. (13) for each target prototype p+, with CVXPY.

    min |z - x|_1  s.t.  z'Omega z + q_j'z + c_j <= -margin  for all p_j of other classes,
    with Eqs. (23) and (24):

        q_j = (-1/theta - 1) Omega p+ + (1/theta - 1) Omega p_j
        c_j = ((1 - 1/theta) p_j'Omega p_j + (1 + 1/theta) p+'Omega p+) / 2

    What is wrong with it: nothing in exact arithmetic with margin 0; it is the global optimum. A solver meets
    the constraint to its tolerance only, so the answer may fail the option's own test by a hair. The margin
    of 0.1 of the published code asks for (1 - theta) d_j - (1 + theta) d+ >= 0.2 theta, and what that means
    depends on the scale of the metric: answers get longer, and every program may become infeasible. The zero
    vector that Algorithm 1 then returns is no answer: `found` is False. A target with a twin of another
    class (distance 0) leaves only points where both distances vanish, and there r = 0.

    Parameters
    ----------
    model : PrototypeModel
    theta : float
        Above 0, as the program divides by it.
    x : array-like of shape (d,)
    solver : str
        A solver CVXPY has: "CLARABEL", "SCS", ...
    margin : float, default 0
        0.1 in the published code.
    **solver_options
        Passed to the solver, as eps=1e-4 for SCS at the default accuracy of its time.

    Returns
    -------
    Baseline
        With one program per prototype, its target the index of p+.

    Examples
    --------
    >>> model = PrototypeModel([[0, 0], [2, 0]], ["a", "b"])
    >>> answer = printed_relative_similarity(model, 0.6, [0.9, 0.0])
    >>> round(answer.distance, 6), [program.status for program in answer.programs]
    (0.233333, ['optimal', 'optimal'])
    """
    option = RelativeSimilarity(model)
    theta = check_number(theta, "theta", low=0, high=LARGEST, low_open=True)
    origin = check_sample(x, option.n_features)
    margin = check_margin(margin)
    programs = []
    for plus in range(len(model.labels)):
        others = model.prototypes[model.labels != model.labels[plus]]
        balls = [(model.L, *ball_as_printed(model, theta, model.prototypes[plus], p)) for p in others]
        programs.append(solve_program((plus,), origin, balls, [], margin, solver, solver_options))
    return best_program(option, theta, origin, programs)


def ball_as_printed(model: PrototypeModel, theta: float, p_plus: Vector, p_j: Vector) -> tuple[Vector, float]:
    """Return q_j of shape (d,) and c_j of the paper's Eqs. (23) and (24)."""
    z_plus, z_j = model.L @ p_plus, model.L @ p_j
    q = (-1 / theta - 1) * model.L.T @ z_plus + (1 / theta - 1) * model.L.T @ z_j
    c = ((1 - 1 / theta) * (z_j @ z_j) + (1 + 1 / theta) * (z_plus @ z_plus)) / 2
    return q, float(c)


def printed_decision_distance(
    model: PrototypeModel,
    theta: float,
    x: ArrayLike,
    *,
    norm: str = "metric",
    solver: str = "CLARABEL",
    margin: float = 0.0,
    **solver_options: Any,
) -> Baseline:
    """Solve Algorithm 1 with the paper's Eq. (14) in its line 4, as printed: a linear program for each p+.

    min |z - x|_1  s.t.  q_j'z + c_j >= margin  for all p_j of other classes, with Eq. (30):

        q_j = 2 Omega (p+ - p_j)
        c_j = p_j'Omega p_j - p+'Omega p+ - 2 theta D(p+, p_j)

    What is wrong with it: with several prototypes per class the constraints are not sufficient (the nearest
    prototype may be another one of p+'s class, with a larger D, and the answer is still rejected) and not
    necessary (only the nearest prototype of the other classes matters, and the answer may be too far). With
    one prototype for each of two classes it is exact. Infeasible throughout: the zero vector, `found` False.

    Parameters
    ----------
    model : PrototypeModel
    theta : float
    x : array-like of shape (d,)
    norm : {"metric", "euclidean"}
        D = |L (p+ - p_j)|^2 as Eq. (30) has it, or |p+ - p_j|^2 as Eq. (7) has it.
    solver : str
    margin : float, default 0
        0.1 in the published code.
    **solver_options
        Passed to the solver.

    Returns
    -------
    Baseline
        With one program per prototype, its target the index of p+.

    Examples
    --------
    Not sufficient: the only program with an answer this near ends at a rejected point.

    >>> model = PrototypeModel([[0, 0], [0, 4], [2, 0]], ["a", "a", "b"])
    >>> answer = printed_decision_distance(model, 0.25, [0.6, 2.1])
    >>> answer.counterfactual.round(6), round(answer.certainty, 4), answer.valid
    (array([0.5, 2.1]), 0.07, False)
    """
    option = DecisionDistance(model, norm)
    theta = check_number(theta, "theta", low=-LARGEST, high=LARGEST)
    origin = check_sample(x, option.n_features)
    margin = check_margin(margin)
    programs = []
    for plus in range(len(model.labels)):
        others = np.flatnonzero(model.labels != model.labels[plus])
        half_spaces = [half_space_as_printed(option, theta, plus, int(j)) for j in others]
        programs.append(solve_program((plus,), origin, [], half_spaces, margin, solver, solver_options))
    return best_program(option, theta, origin, programs)


def half_space_as_printed(option: DecisionDistance, theta: float, plus: int, j: int) -> tuple[Vector, float]:
    """Return q_j of shape (d,) and c_j of the paper's Eq. (30), for prototypes given by their indices."""
    model = option.model
    z_plus, z_j = model.L @ model.prototypes[plus], model.L @ model.prototypes[j]
    c = z_j @ z_j - z_plus @ z_plus - 2 * theta * option.separations[plus, j]
    return 2 * model.L.T @ (z_plus - z_j), float(c)
