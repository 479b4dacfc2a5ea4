"""Counterfactuals that can be carried out: with errors, with steps that matter, in whole numbers.

Branch and bound over boxes. A node is a box and the errors that are taken into account. Its relaxation is the
nearest answer of the box with just these errors; where that answer changes another feature that has one,
changes one by less than matters, or is not whole, the node is divided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.branch_and_bound import Problem, branch_and_bound
from lvqrej.cells import MOST_CORNERS, AcceptedSet, corners
from lvqrej.certainty import Certainty, Restricted, Verdicts
from lvqrej.columns import Columns
from lvqrej.counterfactual import Answers, Query, reason_of
from lvqrej.requirements import amounts, check_numbers, feature_mask
from lvqrej.sparsest import FAR, Reject, bounds_within
from lvqrej.validation import Floats

Mask = NDArray[np.bool_]

#: The relative gap aimed at, the number of relaxations unless told otherwise, and of corners that bound one.
_GAP, _EFFORT, _CORNERS = 1e-6, 60, 64
#: The same where each search is itself a branch and bound.
_SLOW_EFFORT, _SLOW_CORNERS = 8, 2
#: How much farther to go for points around which there is a cell.
_FARTHER = (1.2, 2.0)
#: How often a cell is tightened anew around the nearest point of the former one, where there is a continuum.
_ROUNDS = 12


class Execution(NamedTuple):
    """How changes are carried out, as arrays over the features.

    Changed features end up within `error` of what was intended; a change is 0 or at least `least`; the values
    of `integers` features are integers.
    """

    error: Floats
    least: Floats
    integers: Mask

    @staticmethod
    def of(error: Any, least: Any, integers: Any, columns: Columns) -> Execution:
        """Check what was given, by feature or for all; only numbers have it."""
        names, numbers = columns.names, columns.numbers
        given = amounts(error, "error", names), amounts(least, "least", names)
        whole = feature_mask(integers, "integers", names)
        for value, name in ((error, "error"), (least, "least")):
            check_numbers(value if isinstance(value, Mapping) else (), name, columns)
        check_numbers(np.flatnonzero(whole), "integers", columns)
        error, least = (np.where(numbers, columns.spread(amount, 0.0), 0.0) for amount in given)
        return Execution(error, least, numbers & columns.spread(whole))


class Node(NamedTuple):
    """A box of counterfactuals, and the errors (d,) that are taken into account in it."""

    lower: Floats
    upper: Floats
    errors: Floats


def nearest_execution(
    query: Query, accepted: AcceptedSet, execution: Execution, effort: int | None
) -> tuple[Answers, float]:
    """Return the nearest answer that can be carried out, and the smallest certainty that errors leave.

    Its bound is what is proven after `effort` relaxations.
    """
    reject, gap = Reject(query, accepted), accepted.gap
    problem = _Problem(reject, execution)
    whole, lower, upper = execution.integers, reject.lower, reject.upper
    root = Node(
        np.where(whole, np.ceil(lower), lower), np.where(whole, np.floor(upper), upper), np.zeros(len(whole))
    )
    usual = _SLOW_EFFORT if gap > 0 else _EFFORT
    (found,) = branch_and_bound(problem, [root], max(_GAP, 2 * gap), usual if effort is None else effort)
    if found.answer is None:
        plain = reject.answers(lower[None], upper[None]).distances[0]
        bound = np.inf if found.bound >= FAR * plain else found.bound
        empty = np.zeros((1, len(lower)))
        return reject.answers(empty + 1, empty)._replace(lower_bounds=np.array([bound])), np.inf
    answer = found.answer._replace(lower_bounds=np.array([min(found.bound, found.value)]))
    wrong = np.where(answer.counterfactuals[0] != reject.x, execution.error, 0.0)
    return answer, float(query.option.certainty(answer.counterfactuals + offsets(wrong)).min())


class _Problem(Problem):
    """One sample's problem, for `branch_and_bound`; what is relaxed is a point of the node, or None."""

    def __init__(self, reject: Reject, execution: Execution) -> None:
        self.reject, self.execution, self.x = reject, execution, reject.x
        query, required = reject.query, reject.query.required
        # Constraints are asked of the intended value, acceptance of what comes out.
        self.accepted = query.without(["constraints"]).accepted_set()
        targets = range(len(query.option.classes)) if required.target is None else [required.target]
        self.by_class = [self.accepted.with_label(i) for i in targets]
        self.half_spaces = required.half_spaces(query.samples)
        self.weights = required.weights
        # The nearest floats that are a step away.
        above, below = self.x + execution.least, self.x - execution.least
        self.above = np.where(above - self.x < execution.least, np.nextafter(above, np.inf), above)
        self.below = np.where(self.x - below < execution.least, np.nextafter(below, -np.inf), below)
        self._known: dict[tuple[bytes, ...], Answers] = {}

    def relax(self, node: Node, cutoff: float) -> tuple[float, Floats | None]:
        """Bound the node: by the plain answer, by the smallest step, and by what its errors cost at least."""
        plain = self._nearest(node._replace(errors=np.zeros_like(node.errors)))
        bound = plain.lower_bounds[0]
        if plain.distances[0] > 0:  # then some feature changes, and by as much as matters
            steps = (self.weights * self.execution.least)[(node.lower != self.x) | (node.upper != self.x)]
            bound = max(bound, steps.min(initial=np.inf))
        if not plain.found[0]:
            return bound, None
        if bound >= cutoff or not node.errors.any():
            return bound, plain.counterfactuals[0]
        firm = self._nearest(node, plain.counterfactuals[0])
        point = (firm if firm.found[0] else plain).counterfactuals[0]
        return max(bound, self._least(node, point)), point

    def restrict(self, node: Node, relaxed: Floats | None) -> tuple[float, Answers | None]:
        """Round the relaxed point to one that can be carried out."""
        if relaxed is None:
            return np.inf, None
        lower, upper = self._rounded(node, relaxed)
        errors = np.where((lower != self.x) | (upper != self.x), self.execution.error, 0.0)
        answer = self._nearest(Node(lower, upper, errors), relaxed)
        return answer.distances[0], answer if answer.found[0] else None

    def branch(self, node: Node, relaxed: Floats | None, cutoff: float) -> list[Node]:
        """Divide the node where the relaxed point cannot be carried out; nowhere if it can."""
        if relaxed is None:
            return []
        x, z, (error, least, whole) = self.x, relaxed, self.execution
        delta = np.abs(z - x)
        cost = delta * self.weights
        ignored = (delta > 0) & (error > node.errors)
        if ignored.any():
            k = int((cost * ignored).argmax())
            errors = node.errors.copy()
            errors[k] = error[k]
            return [node._replace(errors=errors), cut(node, k, x[k], x[k])]
        fraction = np.abs(z - np.round(z)) * whole
        if fraction.any():
            k = int(fraction.argmax())
            return [cut(node, k, upper=np.floor(z[k])), cut(node, k, lower=np.ceil(z[k]))]
        small = (delta > 0) & (delta < least)
        if small.any():
            k = int((cost * small).argmax())
            up, down = cut(node, k, lower=self.above[k]), cut(node, k, upper=self.below[k])
            return [cut(node, k, x[k], x[k]), up, down]
        return []

    def _rounded(self, node: Node, z: Floats) -> tuple[Floats, Floats]:
        """Return a box around z, all of whose points are whole and change nothing by less than matters."""
        x, (error, least, whole) = self.x, self.execution
        z = np.where(np.abs(z - x) < least / 2, x, np.where(whole, np.round(z), z))
        z = np.clip(z, node.lower, node.upper)
        stays = (z == x) & ((error > 0) | (least > 0))
        steps = (z != x) & (least > 0)
        lower = np.where(steps & (z > x), np.maximum(node.lower, self.above), node.lower)
        upper = np.where(steps & (z < x), np.minimum(node.upper, self.below), node.upper)
        far = np.where(z > x, np.maximum(z, np.ceil(lower)), np.minimum(z, np.floor(upper)))
        z = np.where(steps, far, z)
        fixed = stays | whole
        return np.where(fixed, z, lower), np.where(fixed, z, upper)

    def _nearest(self, node: Node, around: Floats | None = None) -> Answers:
        """Return the nearest answer of the node's box that its errors leave accepted."""
        key = tuple(part.tobytes() for part in node)
        if key not in self._known:
            if around is None or not node.errors.any():
                self._known[key] = self.reject.answers(node.lower[None], node.upper[None])
            else:
                self._known[key] = self._tightened(node, around)
        return self._known[key]

    def _tightened(self, node: Node, around: Floats) -> Answers:
        everywhere = Everywhere(self.reject.query.option, offsets(node.errors))
        best: Answers | None = None
        for point in self._starts(node, around):
            for _ in range(_ROUNDS if self.accepted.gap > 0 else 1):
                tight = self.accepted.tightened(node.errors, point)
                tight = tight.narrowed(self.half_spaces) if self.half_spaces else tight
                answer = self.reject.answers(node.lower[None], node.upper[None], tight, everywhere)
                nearer = best is None or answer.distances[0] < best.distances[0] * (1 - 1e-4)
                if nearer:
                    best = answer._replace(cells=np.array([-1]))  # its cell is none of the option's
                if not nearer or not answer.found[0]:
                    break
                point = answer.counterfactuals[0]
        assert best is not None
        return best

    def _starts(self, node: Node, around: Floats) -> Iterator[Floats]:
        """Return points around which cells are tightened: a given one, and where there is a continuum more.

        These go farther than to where a corner is only just accepted.
        """
        yield np.clip(around, node.lower, node.upper)
        if self.accepted.gap == 0:
            return
        x, lower, upper = self._corners(node, around)
        start = np.clip(x, lower, upper)
        found = self.accepted.nearest(start, self.weights, lower, upper, 0.0)
        changes = (start + found.changes - x)[np.isfinite(found.distances)]
        for farther in _FARTHER:
            yield from np.clip(self.x + farther * changes, node.lower, node.upper)

    def _corners(self, node: Node, around: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the sample and the node moved by each of the errors with which a point is least certain."""
        shifts = offsets(node.errors)
        certainty = self.reject.query.option.certainty(around + shifts)
        most = _SLOW_CORNERS if self.accepted.gap > 0 else _CORNERS
        shifts = shifts[np.argsort(certainty, kind="stable")[:most]]
        return self.x + shifts, node.lower + shifts, node.upper + shifts

    def _least(self, node: Node, around: Floats) -> float:
        """Return what an answer of the node costs at least: the dearest corner has to be accepted, too."""
        x, lower, upper = self._corners(node, around)
        bounds = [bounds_within(one, x, self.weights, lower, upper).max() for one in self.by_class]
        rounding = 2.0**-50 * float(self.weights @ (np.abs(self.x) + node.errors))  # of the sums
        return float(min(bounds)) - rounding


def cut(node: Node, k: int, lower: float = -np.inf, upper: float = np.inf) -> Node:
    """Return the part of the node with feature k between two values."""
    low, high = node.lower.copy(), node.upper.copy()
    low[k], high[k] = max(low[k], lower), min(high[k], upper)
    return node._replace(lower=low, upper=high)


def offsets(errors: Floats) -> Floats:
    """Return all corners of the box of errors, or if they are too many, 1024 random ones."""
    if np.count_nonzero(errors) <= MOST_CORNERS:
        return corners(errors)
    return np.random.default_rng(0).choice([-1.0, 1.0], size=(1024, len(errors))) * errors


class Everywhere(Restricted):
    """A certainty that accepts an input only if it is accepted, with the same label, at all given offsets."""

    def __init__(self, option: Certainty, shifts: Floats) -> None:
        super().__init__(option)
        self.shifts = shifts

    def judged(self, X: ArrayLike, theta: float) -> tuple[Verdicts, Mask]:
        """Return the verdicts at the input itself, and whether it is accepted everywhere."""
        samples = np.asarray(X, dtype=float)
        verdicts, accepted = self.option.judged(samples, theta)
        for i in np.flatnonzero(accepted):
            there, passed = self.option.judged(samples[i] + self.shifts, theta)
            accepted[i] = passed.all() and (there.label == verdicts.label[i]).all()
        return verdicts, accepted


def why_none(execution: Execution, effort: int | None, query: Query, proven: bool) -> str:
    """Name what makes a change impossible to carry out: dropping it would allow one."""

    def possible(query: Query, execution: Execution) -> bool:
        return bool(nearest_execution(query, query.accepted_set(), execution, effort)[0].found[0])

    none: dict[str, Any] = {name: np.zeros_like(part) for name, part in execution._asdict().items()}
    if not possible(query, Execution(**none)):
        return reason_of(query, proven)
    required = query.required
    words = [name for name, part in execution._asdict().items() if part.any()]
    helpful = [w for w in words if possible(query, execution._replace(**{w: none[w]}))]
    for group in required.groups():
        if possible(query.without([group]), execution):
            features = ", ".join(required.names[k] for k in required.features_of(group))
            helpful.append(f"{group} of {features}" if features else group)
    found = "there is no change" if proven else "no change was found"
    instead = ", or without ".join(helpful) or " and ".join(words)
    return (
        f"with {', '.join([*words, *required.groups()])} {found} that can be carried out; "
        f"one exists without {instead}"
    )
