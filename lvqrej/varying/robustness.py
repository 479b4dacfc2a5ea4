"""Counterfactuals that can be carried out: with errors, with steps that matter, in whole numbers.

Branch and bound over boxes. A node is a box and a set of features that are taken to be wrong. Its relaxation
is the nearest answer of the box in which just these are; where that answer changes another feature by an
error's worth, changes one by less than matters, or is not whole, the node is divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.cells import Cells, HalfSpace
from lvqrej.counterfactual import accepted_set
from lvqrej.engine.diagnosis import reason_of
from lvqrej.engine.validity import nearest
from lvqrej.pairwise.joint_cells import JointCells
from lvqrej.varying.branching import branch_and_bound
from lvqrej.varying.hitting import FAR
from lvqrej.varying.plausibility import JoinedSets
from lvqrej.varying.reach import Answer, Reach
from lvqrej.varying.tightening import Everywhere, offsets_of, tightened

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: The relative gap aimed at; that of the probabilistic certainty's own search is larger.
_GAP, _JOINT_GAP = 1e-6, 2e-3
#: The number of relaxations solved unless told otherwise.
_EFFORT, _JOINT_EFFORT = 60, 8
#: As many corners give a node its bound; of the probabilistic certainty, whose answers take longer, fewer.
_CORNERS, _JOINT_CORNERS = 64, 2
#: How often the budgets of a cell of the probabilistic certainty are read again at its nearest point.
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Practice:
    """What carrying out a change is like, as arrays over the features.

    Changed features end up within `error` of what was intended; a change is 0 or at least `least`; the values
    of `whole` features are integers.
    """

    error: Floats
    least: Floats
    whole: Mask


class Node(NamedTuple):
    """A box of counterfactuals, and the features that are taken to be wrong in it."""

    lower: Floats
    upper: Floats
    wrong: Mask


def practicable(reach: Reach, practice: Practice, effort: int | None = None) -> Answer:
    """Return the nearest answer that stands the practice, with what is proven after `effort` relaxations."""
    problem = _Problem(reach, practice)
    gap, usual = (_JOINT_GAP, _JOINT_EFFORT) if problem.joint else (_GAP, _EFFORT)
    found = branch_and_bound(problem, gap, usual if effort is None else effort)
    if found.answer is None:
        return Answer(None, np.inf, found.bound)
    return found.answer._replace(bound=min(found.bound, found.value))


class _Problem:
    """One sample's problem, for `branch_and_bound`."""

    def __init__(self, reach: Reach, practice: Practice) -> None:
        self.reach, self.practice, self.x = reach, practice, reach.x
        required = reach.required
        # Constraints are asked of the intended value, acceptance of what comes out.
        self.union = accepted_set(reach.option, reach.theta, required.without(["constraints"]))
        self.flats = [HalfSpace(-a, b) for a, b in zip(required.A, required.b, strict=True)]
        parts = self.union.parts if isinstance(self.union, JoinedSets) else (self.union,)
        self.joint = any(isinstance(part, JointCells) for part in parts)
        self._known: dict[tuple[bytes, ...], Answer] = {}

    @cached_property
    def by_label(self) -> list[Any]:
        """The accepted set of each class that may be the answer's."""
        target = self.reach.required.target
        if target is not None:
            return [self.union]
        return [self.union.with_label(i) for i in range(len(self.reach.option.classes))]

    def start(self) -> tuple[float, Answer | None]:
        """Return no answer."""
        return np.inf, None

    def roots(self) -> Iterable[tuple[float, Node]]:
        """Return the whole box, with whole ends, nothing wrong yet."""
        lower, upper = self.reach.lower, self.reach.upper
        whole = self.practice.whole
        lower, upper = np.where(whole, np.ceil(lower), lower), np.where(whole, np.floor(upper), upper)
        return [(0.0, Node(lower, upper, np.zeros(len(lower), dtype=bool)))]

    def relax(self, node: Node, cutoff: float) -> tuple[float, Answer | None]:
        """Bound the node: by the plain answer, and by what its wrong features cost at least."""
        plain = self.reach.answer(node.lower, node.upper)
        if plain.distance > 0:  # then some feature changes, and by as much as matters
            steps = self.reach.required.weights * self.practice.least
            free = (node.lower != self.x) | (node.upper != self.x)
            plain = plain._replace(
                bound=max(plain.bound, float(steps.min(where=free, initial=np.inf)) * (1 - 1e-12))
            )
        if plain.point is None or plain.bound >= cutoff or not node.wrong.any():
            return plain.bound, plain if plain.point is not None else None
        tight = self._tight(node, plain.point)
        bound = max(plain.bound, self._least(node, plain.point if tight.point is None else tight.point))
        return bound, tight if tight.point is not None else plain

    def restrict(self, node: Node, relaxed: Answer | None, cutoff: float) -> tuple[float, Answer | None]:
        """Round the relaxed answer to one that stands the practice."""
        if relaxed is None or relaxed.point is None:
            return np.inf, None
        box = self._rounded(node, relaxed.point)
        wrong = (self.practice.error > 0) & ((box[0] != self.x) | (box[1] != self.x))
        answer = self._tight(Node(*box, wrong), relaxed.point) if wrong.any() else self.reach.answer(*box)
        return answer.distance, self._judged(answer) if answer.point is not None else None

    def branch(self, node: Node, relaxed: Answer | None) -> list[Node]:
        """Divide the node where the relaxed answer would not stand the practice; nowhere if it would."""
        if relaxed is None or relaxed.point is None:
            return []
        z, x, practice = relaxed.point, self.x, self.practice
        delta = np.abs(z - x)
        cost = delta * self.reach.required.weights
        unaware = (delta > 0) & (practice.error > 0) & ~node.wrong
        if unaware.any():
            k = int((cost * unaware).argmax())
            wrong = node.wrong.copy()
            wrong[k] = True
            return [node._replace(wrong=wrong), self._cut(node, k, x[k], x[k])]
        fraction = np.abs(z - np.round(z)) * practice.whole
        if fraction.any():
            k = int(fraction.argmax())
            return [self._cut(node, k, upper=np.floor(z[k])), self._cut(node, k, lower=np.ceil(z[k]))]
        idle = (delta > 0) & (delta < practice.least * (1 - 1e-12))
        if idle.any():
            k = int((cost * idle).argmax())
            m = practice.least[k]
            up, down = self._cut(node, k, lower=x[k] + m), self._cut(node, k, upper=x[k] - m)
            return [self._cut(node, k, x[k], x[k]), up, down]
        return []

    @staticmethod
    def _cut(node: Node, k: int, lower: float = -np.inf, upper: float = np.inf) -> Node:
        low, high = node.lower.copy(), node.upper.copy()
        low[k], high[k] = max(low[k], lower), min(high[k], upper)
        return node._replace(lower=low, upper=high)

    def _rounded(self, node: Node, z: Floats) -> tuple[Floats, Floats]:
        """Return a box around z, all of whose points are whole and change nothing by less than matters."""
        x, practice = self.x, self.practice
        lower, upper = node.lower.copy(), node.upper.copy()
        z = np.where(practice.whole, np.clip(np.round(z), lower, upper), z)
        stays = (z == x) & ((practice.error > 0) | (practice.least > 0))
        lower[stays], upper[stays] = x[stays], x[stays]
        steps = (z != x) & (practice.least > 0)
        up = steps & (z > x)
        lower[up] = np.maximum(lower[up], (x + practice.least)[up])
        down = steps & (z < x)
        upper[down] = np.minimum(upper[down], (x - practice.least)[down])
        whole = practice.whole
        far = np.where(z > x, np.ceil(lower), np.floor(upper))
        z = np.where(whole & steps, np.where(z > x, np.maximum(z, far), np.minimum(z, far)), z)
        lower[whole], upper[whole] = z[whole], z[whole]
        return lower, upper

    def _tight(self, node: Node, around: Floats) -> Answer:
        """Return the nearest answer of the node's box that its wrong features leave accepted."""
        key = node.lower.tobytes(), node.upper.tobytes(), node.wrong.tobytes()
        if key not in self._known:
            self._known[key] = self._tightest(node, around)
        return self._known[key]

    def _tightest(self, node: Node, around: Floats) -> Answer:
        error, best = self.practice.error, Answer(None, np.inf, np.inf)
        everywhere = Everywhere(self.reach.option, offsets_of(error, node.wrong))
        for point in self._starts(node, around):
            for _ in range(_ROUNDS if self.joint else 1):
                union = tightened(self.union, error, node.wrong, point)
                union = union.narrowed(self.flats) if self.flats else union
                answer = self.reach.answer(node.lower, node.upper, union, everywhere)
                if answer.point is None or not answer.distance < best.distance * (1 - 1e-6):
                    break
                best, point = answer, answer.point
        return best

    def _starts(self, node: Node, around: Floats) -> Iterable[Floats]:
        """Return points around which cells are tightened: a given one, then ever more certain ones."""
        yield around
        theta = self.reach.theta
        if self.joint and theta < 1:
            for part in (0.4, 0.8):
                deeper = Reach(self.reach.option, theta + part * (1 - theta), self.reach.required, self.x)
                answer = deeper.answer(node.lower, node.upper)
                if answer.point is not None:
                    yield answer.point

    def _least(self, node: Node, around: Floats) -> float:
        """Return what an answer of the node costs at least: the dearest corner has to be accepted, too.

        A class with a single cell has all of its box in there: then the tightened cell's bound holds as well.
        """
        offsets = offsets_of(self.practice.error, node.wrong)
        certainty = self.reach.option.certainty(around + offsets)
        offsets = offsets[np.argsort(certainty, kind="stable")[: _JOINT_CORNERS if self.joint else _CORNERS]]
        lower, upper = node.lower + offsets, node.upper + offsets
        start, weights = np.clip(self.x + offsets, lower, upper), self.reach.required.weights
        moved = (np.abs(start - self.x - offsets) * weights).sum(axis=1)
        least = np.inf
        for union in self.by_label:
            bounds = moved + nearest(union, start, weights, lower, upper, 0.0, 0.0).bounds
            bound = float(bounds.max()) * (1 - 1e-12)
            if isinstance(union, Cells) and len(union) == 1 and node.wrong.sum() <= 6:
                tight = tightened(union, self.practice.error, node.wrong, around)
                bound = max(bound, self.reach.bound(node.lower, node.upper, tight))
            least = min(least, bound)
        return least

    def _judged(self, answer: Answer) -> Answer:
        """Return the answer with its worst certainty under the errors of what it changes."""
        assert answer.point is not None
        wrong = (answer.point != self.x) & (self.practice.error > 0)
        points = answer.point + offsets_of(self.practice.error, wrong)
        return answer._replace(worst=float(self.reach.option.certainty(points).min()))


def why_impracticable(
    reach: Reach, answer: Answer, *, practice: Practice, effort: int | None, with_limit: bool
) -> str:
    """Name what makes a change impossible to carry out: dropping it would allow one."""
    plain = reach.answer(reach.lower, reach.upper)
    required = reach.required
    if plain.point is None:
        return reason_of(reach.option, reach.theta, reach.x, required, with_limit)
    none = np.zeros(len(reach.x))
    given = {
        "error": (practice.error.any(), Practice(none, practice.least, practice.whole)),
        "least": (practice.least.any(), Practice(practice.error, none, practice.whole)),
        "integers": (practice.whole.any(), Practice(practice.error, practice.least, none > 0)),
    }
    words = [name for name, (there, _) in given.items() if there]
    helpful = [name for name in words if practicable(reach, given[name][1], effort).point is not None]
    for group in required.groups():
        other = Reach(reach.option, reach.theta, required.without([group]), reach.x)
        if practicable(other, practice, effort).point is not None:
            names = ", ".join(required.names[k] for k in required.features_of(group))
            helpful.append(f"{group} of {names}" if names else group)
    proven = answer.bound >= FAR * plain.distance
    found = "there is no change" if proven else "no change was found"
    instead = ", or without ".join(helpful) or " and ".join(words)
    given_words = ", ".join([*words, *required.groups()])
    return f"with {given_words} {found} that can be carried out; one exists without {instead}"
