"""One sample and what is asked of its counterfactuals: certified answers within any box around it.

`lvqrej.variants` builds on this: fewer features, several answers, errors and steps are searches over boxes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.certainty import Certainty
from lvqrej.counterfactual import accepted_set
from lvqrej.engine.requirements import Requirements
from lvqrej.engine.search import PATHS
from lvqrej.engine.validity import nearest, valid_answers

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Answer(NamedTuple):
    """A counterfactual (None if there is none), its distance, and what no other one can beat.

    `fewest` features have to change at least, if that was asked; `worst` is the smallest certainty that
    errors leave; `cell` is the cell of the accepted set it was found in, -1 if that is none of the option's.
    """

    point: Floats | None
    distance: float
    bound: float
    path: str = "none"
    cell: int = -1
    fewest: int = 0
    worst: float = np.inf


class Reach:
    """What can be reached from one sample.

    Parameters
    ----------
    option : Certainty
    theta : float
    required : Requirements
    x : ndarray of shape (d,)
    union : AcceptedSet, optional
        The accepted set, if it is known already.

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity
    >>> from lvqrej.engine.requirements import check_requirements
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> reach = Reach(option, 0.6, check_requirements(2, None, option.classes), np.array([0.9, 0.0]))
    >>> only_first, only_second = np.array([True, False]), np.array([False, True])
    >>> round(reach.answer(*reach.within(only_first)).distance, 6), reach.bound(*reach.within(only_second))
    (0.233333, inf)
    """

    def __init__(
        self, option: Certainty, theta: float, required: Requirements, x: Floats, union: Any = None
    ) -> None:
        self.option, self.theta, self.required, self.x = option, theta, required, x
        self.union = accepted_set(option, theta, required) if union is None else union
        lower, upper = required.box(x[None])
        self.lower, self.upper = lower[0], upper[0]

    @property
    def free(self) -> Mask:
        """Which features may change at all, of shape (d,)."""
        return (self.lower < self.x) | (self.upper > self.x)

    @property
    def forced(self) -> Mask:
        """Which features have to change, as the sample is outside their bounds, of shape (d,)."""
        return (self.lower > self.x) | (self.upper < self.x)

    def within(self, support: Mask) -> tuple[Floats, Floats]:
        """Return the box in which only these features may change (empty if another one has to)."""
        lower = np.where(support, self.lower, np.maximum(self.lower, self.x))
        upper = np.where(support, self.upper, np.minimum(self.upper, self.x))
        return lower, upper

    def boxed(self, lower: Floats, upper: Floats) -> Requirements:
        """Return the requirements with this box instead of bounds, fixed features and directions."""
        none = np.zeros(len(self.x), dtype=bool)
        return replace(
            self.required, lower=lower, upper=upper, fixed=none, increase_only=none, decrease_only=none
        )

    def answer(self, lower: Floats, upper: Floats, union: Any = None, option: Any = None) -> Answer:
        """Return the nearest valid answer within a box (of another accepted set, for another option)."""
        if (lower > upper).any():
            return Answer(None, np.inf, np.inf)
        found = valid_answers(
            self.option if option is None else option, self.theta, self.union if union is None else union,
            self.boxed(lower, upper), self.x[None],
        )  # fmt: skip
        if not found.found[0]:
            return Answer(None, np.inf, self.bound(lower, upper, union))
        cell = int(found.cells[0]) if union is None else -1
        return Answer(
            found.points[0], float(found.distances[0]), float(found.bounds[0]), PATHS[found.paths[0]], cell
        )

    def bound(self, lower: Floats, upper: Floats, union: Any = None) -> float:
        """Return a distance that no point of the accepted set within the box can beat; infinity if none."""
        if (lower > upper).any():
            return np.inf
        start = np.clip(self.x, lower, upper)
        moved = float((np.abs(start - self.x) * self.required.weights).sum())
        found = nearest(
            self.union if union is None else union,
            start[None], self.required.weights, lower[None], upper[None], 0.0, 0.0,
        )  # fmt: skip
        return moved + float(found.bounds[0])
