"""The methods that the experiments compare, under whatever deviations are switched on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from companion.baselines import (
    black_box,
    convex_probabilistic,
    direct_probabilistic,
    nearest_accepted,
    printed_decision_distance,
    printed_relative_similarity,
)
from companion.deviations import METHODS, Deviations
from companion.programs import Baseline, Program, best_program, solve_program
from companion.published import MARGIN, UnsignedPairs, direct_search, farthest_training_sample
from lvqrej import DecisionDistance, ProbabilisticCertainty, RelativeSimilarity, explain
from lvqrej.certainty import Certainty
from lvqrej.validation import check_choice

#: The weight of the penalty in the published Nelder-Mead searches.
PENALTY = 1000.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is given besides the samples.

    Attributes
    ----------
    option : Certainty
    theta : float
    candidates : array of shape (N, d)
        The training samples.
    rejected_rows : array of int
        Places of the rejected samples in the test part.
    deviations : Deviations
    """

    option: Certainty
    theta: float
    candidates: Floats
    rejected_rows: NDArray[np.intp]
    deviations: Deviations


class Found(NamedTuple):
    """Counterfactuals of shape (n, d), and where there is one: elsewhere the row is zero, as in the paper."""

    points: Floats
    found: NDArray[np.bool_]


def methods_for(option: Certainty, methods: tuple[str, ...] = METHODS) -> tuple[str, ...]:
    """Return those of the methods that apply to the option.

    >>> from lvqrej import PrototypeModel
    >>> methods_for(RelativeSimilarity(PrototypeModel([[0], [1]], ["a", "b"])))
    ('exact', 'paper', 'nearest', 'black_box')
    """
    without = set() if isinstance(option, ProbabilisticCertainty) else {"direct"}
    if isinstance(option, UnsignedPairs):
        without.add("exact")  # no accepted set to be exact about
    return tuple(method for method in methods if method not in without)


def counterfactuals(method: str, task: Task, X: Floats) -> Found:
    """Return the counterfactuals of the samples, of shape (n, d), by the method of that name.

    "exact" is `explain`; "paper" the paper's algorithm for the option (Algorithm 1 or 3); "nearest" its
    nearest accepted training sample; "black_box" its penalty method; "direct" its Algorithm 2. Whether an
    answer is valid is not asked here: `option.accepts` decides that, the same for all.
    """
    check_choice(method, "method", METHODS)
    if len(X) == 0:
        return Found(np.empty_like(X), np.empty(0, dtype=bool))
    return _BY_NAME[method](task, X)


def _exact(task: Task, X: Floats) -> Found:
    result = explain(task.option, task.theta, X, on_infeasible="skip", noise=0)
    return Found(np.where(result.found[:, None], result.counterfactuals, 0.0), result.found)


def _nearest(task: Task, X: Floats) -> Found:
    everywhere = np.ones(len(X), dtype=bool)
    if task.deviations.farthest_sample:
        return Found(farthest_training_sample(X, task.candidates, task.rejected_rows), everywhere)
    if not task.option.accepts(task.candidates, task.theta).any():
        return Found(np.zeros_like(X), ~everywhere)
    return _gather(X, nearest_accepted(task.option, task.theta, X, task.candidates))


def _black_box(task: Task, X: Floats) -> Found:
    return _gather(X, [black_box(task.option, task.theta, x, penalty=PENALTY) for x in X])


def _direct(task: Task, X: Floats) -> Found:
    option, clip = task.option, not task.deviations.unclipped_penalty
    if not isinstance(option, ProbabilisticCertainty):
        raise ValueError(f"direct is for the probabilistic certainty; found {option.name}")
    theta = _loosened(task)
    if isinstance(option, UnsignedPairs):
        points = np.array([direct_search(option, theta, x, clip) for x in X])
        return Found(points, np.ones(len(X), dtype=bool))
    return _gather(X, [direct_probabilistic(option, theta, x, penalty=PENALTY, clip=clip) for x in X])


def _paper(task: Task, X: Floats) -> Found:
    option, switches = task.option, task.deviations
    program: dict[str, Any] = {"margin": MARGIN if switches.margins else 0.0}
    program |= {"solver": "SCS", "eps": 1e-4} if switches.loose_solver else {"solver": "CLARABEL"}
    answer: Callable[[Floats], Baseline]
    if isinstance(option, RelativeSimilarity):

        def answer(x: Floats) -> Baseline:
            return printed_relative_similarity(option.model, task.theta, x, **program)

    elif isinstance(option, DecisionDistance):

        def answer(x: Floats) -> Baseline:
            if switches.printed_constraints:
                return printed_decision_distance(option.model, task.theta, x, norm="metric", **program)
            return _cell_by_cell(option, task.theta, x, **program)

    elif isinstance(option, ProbabilisticCertainty):
        signs = "printed" if switches.printed_signs else "correct"
        classes = "one" if switches.single_class else "all"
        theta = _loosened(task)

        def answer(x: Floats) -> Baseline:
            return convex_probabilistic(option, theta, x, signs=signs, classes=classes, **program)

    else:
        raise ValueError(f"the paper has no algorithm for {type(option).__name__}")
    return _gather(X, [answer(x) for x in X])


def _loosened(task: Task) -> float:
    """Return the threshold that the probabilistic algorithms work with, above 0 as they divide by it."""
    return max(task.theta - MARGIN, 1e-3) if task.deviations.margins else task.theta


def _cell_by_cell(
    option: DecisionDistance, theta: float, x: Floats, margin: float, solver: str, **solver_options: Any
) -> Baseline:
    """Solve the linear program with the exact constraints, for each pair (p+, p-) that can still win."""
    constraints = DecisionDistance(option.model, "metric")  # Omega, whatever norm the certainty divides by
    cells = [cell.half_spaces for cell in constraints.cells(theta)]
    bounds = [max(h.excess(x[None])[0] / np.abs(h.normal).max() for h in cell) for cell in cells]
    programs: list[Program] = []
    best = np.inf
    for k in np.argsort(bounds, kind="stable"):
        if bounds[k] >= best:
            break
        half_spaces = [(h.normal, h.offset) for h in cells[k]]
        programs.append(solve_program((int(k),), x, [], half_spaces, margin, solver, solver_options))
        best = min(best, programs[-1].value)
    return best_program(option, theta, x, programs)


def _gather(X: Floats, answers: list[Baseline]) -> Found:
    points = np.array([answer.counterfactual for answer in answers]).reshape(X.shape)
    return Found(points, np.array([answer.found for answer in answers], dtype=bool))


_BY_NAME: dict[str, Callable[[Task, Floats], Found]] = {
    "exact": _exact,
    "paper": _paper,
    "nearest": _nearest,
    "black_box": _black_box,
    "direct": _direct,
}
