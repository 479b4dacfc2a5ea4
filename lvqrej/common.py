"""One change for many: the smallest offset with which a given share of rejects would be accepted at once.

Sample i asks for an offset in the accepted set moved by -x_i, a union of convex cells. A choice of one cell
for each of some samples is one convex program, of which the solvers know the minimum. A branch and bound
chooses the hardest sample that is left: in one of its cells, or not among the accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR
from math import ceil, floor, log10
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.branch_and_bound import Problem, branch_and_bound
from lvqrej.cells import Cells, stacked
from lvqrej.certainty import Certainty
from lvqrej.columns import is_missing
from lvqrej.counterfactual import LADDER, Query, explained
from lvqrej.explanation import NoCounterfactualError
from lvqrej.validation import Floats, check_number
from lvqrej.wording import ALL, FEWEST, NO_GAP, listed, number, percent_up, rounded

#: The relative gap aimed at, and the number of nodes unless told otherwise.
_GAP, EFFORT = 1e-6, 50
#: As many samples are tried together with the chosen ones of a node.
_TRIED = 24
#: Answers are grown from nodes with at most so many chosen samples.
_GROWN = 2
#: A sample and the cell that it shall lie in.
Choice = dict[int, tuple[Cells, int]]


@dataclass(frozen=True, eq=False, repr=False)
class CommonChange:
    """One offset for many samples, and what is proven of smaller ones.

    Attributes
    ----------
    delta : ndarray of shape (d,)
        What is added to every sample, 0 for categories.
    distance, lower_bound : float
        sum_k w_k |delta_k|; no offset of a smaller size than `lower_bound` does it.
    accepted : ndarray of bool of shape (n,)
        Which samples are accepted with it, within all requirements, by the option's own test.
    wanted : int
        How many were asked for.
    """

    delta: Floats
    distance: float
    lower_bound: float
    accepted: NDArray[np.bool_]
    wanted: int
    query: Query

    @property
    def gap(self) -> float:
        """(distance - lower_bound) / distance, 0 where the distance is 0."""
        return (self.distance - self.lower_bound) / self.distance if self.distance > 0 else 0.0

    @property
    def _costs(self) -> Floats:
        columns, weights = self.query.required.columns, self.query.required.weights
        return weights[columns.starts[:-1]] * np.abs(self.delta)

    def _passed(self, delta: Floats) -> NDArray[np.bool_]:
        """Return which samples are accepted with an offset (d,) of the user's columns."""
        columns = self.query.required.columns
        return _passed(self.query, np.where(columns.numbers, columns.spread(delta, 0.0), 0.0))

    def to_frame(self) -> Any:
        """Return one row per feature that changes: feature, change, cost; the most expensive first."""
        import pandas as pd

        required, k = self.query.required, np.flatnonzero(self.delta)
        names = [required.names[i] for i in k]
        table = pd.DataFrame({"feature": names, "change": self.delta[k], "cost": self._costs[k]})
        return table.sort_values("cost", ascending=False, kind="stable", ignore_index=True)

    def _shown(self) -> Floats:
        """Return the offset rounded away from 0 to the fewest digits with which it still does it."""
        for digits in range(FEWEST, ALL):
            delta = self.delta.copy()
            for k in np.flatnonzero(delta):
                up, decimals = delta[k] > 0, digits - 1 - floor(log10(abs(delta[k])))
                delta[k] = rounded(delta[k], decimals, ROUND_CEILING if up else ROUND_FLOOR)
            if self._passed(delta).sum() >= self.wanted:
                return delta
        return self.delta

    def __str__(self) -> str:
        n, names, shown = len(self.accepted), self.query.required.names, self._shown()
        k = np.argsort(-self._costs, kind="stable")
        signs = {True: "+", False: "−"}
        words = [f"{names[i]} {signs[shown[i] > 0]}{number(abs(shown[i]))}" for i in k if shown[i]]
        done = f"{self._passed(shown).sum()} of {n} samples are accepted"
        text = f"with {listed(words)} for all, {done}" if words else f"without any change {done}"
        within = " within the observed ranges" if self.query.required.observed else ""
        if self.gap <= NO_GAP:
            return f"{text}; no smaller common change{within} gets {self.wanted} of them accepted"
        return f"{text}; a common change{within} at most {percent_up(self.gap)} smaller might be enough"

    def __repr__(self) -> str:
        return f"<CommonChange: {self}>"


def common_change(
    option: Certainty, theta: float, X: ArrayLike, share: float = 0.9, *, effort: int = EFFORT, **options: Any
) -> CommonChange:
    """Return the smallest offset that gets a share of samples accepted: min sum_k w_k |delta_k|.

    At least ceil(share n) of the samples x_i have r(x_i + delta) >= theta, and x_i + delta is within the
    requirements of sample i; the others may end up anywhere. The offset lies on the boundary of what does
    it: leave some room where values are uncertain. An offset moves numbers only: categories stay as they
    are, and numbers that may move must not be missing, for what is missing cannot be moved.

    Parameters
    ----------
    option, theta
        As in `explain`.
    X : array-like of shape (n, d)
        Samples, usually rejected ones.
    share : float
        Share of the samples that shall be accepted, above 0.
    effort : int
        Number of nodes of the branch and bound, each a few convex programs. Where it ends before the search
        does, and with the probabilities of three and more classes, the gap is what is not proven.
    **options
        Of `explain`: weights, fixed, bounds, increase_only, decrease_only, constraints, target.

    Returns
    -------
    CommonChange

    Raises
    ------
    NoCounterfactualError
        If no such offset is found, with the reason, and whether it is proven that there is none.

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"], feature_names=["w", "h"]))
    >>> print(common_change(option, 0.6, [[0.9, 0], [0.8, 0], [1.4, 0]], share=2 / 3))
    with w −0.234 for all, 2 of 3 samples are accepted; no smaller common change gets 2 of them accepted
    """
    least = check_number(share, "share", low=0, high=1, low_open=True)
    tries = int(check_number(effort, "effort", low=1, integer=True))
    query = Query.of(option, theta, X, **options, on_infeasible="skip")
    if query.single or not len(query.samples):
        raise ValueError("X must have several samples, (n, d); one alone is what `explain` is for")
    query = _of_numbers(query)
    problem = _Problem(query, ceil(least * len(query.samples) - 1e-9))
    root = Node((), frozenset(), problem.least)
    (found,) = branch_and_bound(problem, [root], max(_GAP, problem.accepted.gap), tries)
    if found.answer is None:
        raise NoCounterfactualError(problem.why_none(bool(np.isinf(found.bound))))
    passed, delta = _passed(query, found.answer), found.answer[query.required.columns.starts[:-1]]
    return CommonChange(delta, found.value, min(found.bound, found.value), passed, problem.wanted, query)


def _of_numbers(query: Query) -> Query:
    """Return the query with all but numbers fixed; raise a ValueError if one that may move is missing."""
    required, columns = query.required, query.required.columns
    fixed = required.fixed | ~columns.numbers
    for k in () if query.given is None else np.flatnonzero(columns.gathered(~fixed)):
        rows = [is_missing(value) for value in query.given[:, k]]
        if any(rows):
            raise ValueError(
                f"X must not lack a value in column {columns.names[k]!r}, which an offset would move; "
                f"found none at row {rows.index(True)}: leave such rows out, or fix the column"
            )
    return query._replace(required=replace(required, fixed=fixed, blocks=()))


class Node(NamedTuple):
    """Samples that shall lie in a cell each, samples that need not be accepted, and what is known of all.

    `least` (n, cells) is what each sample in each of its cells asks for at least within the node.
    """

    chosen: tuple[tuple[int, int], ...]
    left_out: frozenset[int]
    least: Floats


class _Problem(Problem):
    """The smallest offset for `wanted` of the samples, for `branch_and_bound`."""

    def __init__(self, query: Query, wanted: int) -> None:
        self.query, self.wanted, self.X = query, wanted, query.samples
        self.weights = query.required.weights
        accepted: Any = query.accepted_set()
        self.accepted = accepted
        self.exact = self.accepted.gap == 0  # then it has cells; otherwise there is a continuum of them
        self.lower, self.upper = query.required.box(self.X)
        self.known: dict[int | None, Any] = {}
        if self.exact:
            each = [self.accepted.take(np.array([c])) for c in range(len(self.accepted))]
            self.least = np.array([self._from(one, self.X)[0] for one in each]).reshape(len(each), -1).T
        else:
            self.least = self._alone(None).lower_bounds[:, None]

    def relax(self, node: Node, cutoff: float) -> tuple[float, Any]:
        """Bound by what the chosen samples ask for together, and by what so many others ask for beside them.

        Some of the others, those farthest from being accepted, are tried together with the chosen ones.
        """
        delta, proven = self._together(self._cells_of(node), LADDER[0])
        least, spare = node.least.copy(), len(self.X) - self.wanted - len(node.left_out)
        bound = max(proven, self._counted(node, least))
        if delta is None or bound >= cutoff:
            return bound, None
        rows = self._open(node, delta)[:_TRIED] if node.chosen and self.exact else []
        for row in rows:
            for c in np.flatnonzero(least[row] < cutoff).tolist():
                one_more = node._replace(chosen=(*node.chosen, (row, c)))
                least[row, c] = max(least[row, c], self._together(self._cells_of(one_more), LADDER[0])[1])
            if (least.min(axis=1) >= cutoff).sum() > spare + len(node.left_out) + len(node.chosen):
                break  # too many to be left out
        return max(bound, self._counted(node, least)), (delta, least)

    def _counted(self, node: Node, least: Floats) -> float:
        """Return what as many samples as are missing ask for at least, one by one."""
        taken = [row for row, _ in node.chosen] + [*node.left_out]
        free = np.sort(np.delete(least.min(axis=1, initial=np.inf), np.array(taken, dtype=np.intp)))
        missing = self.wanted - len(node.chosen)
        return 0.0 if missing <= 0 else float(free[missing - 1]) if missing <= len(free) else np.inf

    def _open(self, node: Node, delta: Floats) -> list[int]:
        """Return the samples that are neither decided nor accepted with an offset, the farthest first."""
        waiting = ~_passed(self.query, delta)
        waiting[[row for row, _ in node.chosen] + [*node.left_out]] = False
        rows = np.flatnonzero(waiting)
        asks = self._from(self.accepted, self.X + delta)[0][rows] if len(rows) else np.empty(0)
        return rows[np.argsort(-asks, kind="stable")].tolist()

    def restrict(self, node: Node, relaxed: Any) -> tuple[float, Floats | None]:
        """Try what the chosen samples ask for; let few of them grow, at the root also into one class each."""
        found: list[Floats | None] = [] if relaxed is None else [relaxed[0]]
        labels: list[int | None] = [None]
        if not node.chosen and not node.left_out and self.query.required.target is None:
            labels += range(len(self.query.option.classes))
        if relaxed is not None and len(node.chosen) <= _GROWN:
            found += [self._grown(self._cells_of(node), set(node.left_out), label) for label in labels]
        offsets = [d for d in found if d is not None and _passed(self.query, d).sum() >= self.wanted]
        sizes = [float((self.weights * np.abs(delta)).sum()) for delta in offsets]
        return (min(sizes), offsets[int(np.argmin(sizes))]) if sizes else (np.inf, None)

    def branch(self, node: Node, relaxed: Any, cutoff: float) -> list[Node]:
        """Divide at the sample that is farthest from being accepted: one of its cells, or left out."""
        rows = self._open(node, relaxed[0]) if relaxed is not None and self.exact else []
        if not rows:
            return []
        row, known = rows[0], node._replace(least=relaxed[1])
        cells = np.flatnonzero(np.isfinite(known.least[row])).tolist()
        nodes = [known._replace(chosen=(*node.chosen, (row, c))) for c in cells]
        if len(node.left_out) < len(self.X) - self.wanted:
            nodes.append(known._replace(left_out=node.left_out | {row}))
        return nodes

    def why_none(self, proven: bool) -> str:
        """Say why no common change was found."""
        alone, n = self._alone(None), len(self.X)
        none = "there is no common change" if proven else "no common change was found"
        if not self.query.required.columns.numbers.all():
            none += " of numbers (categories stay as they are)"
        text = f"{none} with which {self.wanted} of {n} samples are accepted"
        if (count := int(alone.found.sum())) >= self.wanted:
            return f"{text}: each of {count} can be accepted alone, but not so many by the same change"
        return f"{text}: only {count} can be accepted at all; {alone.reasons[int(alone.found.argmin())]}"

    def _cells_of(self, node: Node) -> Choice:
        return {row: (self.accepted, c) for row, c in node.chosen}

    def _alone(self, label: int | None) -> Any:
        """Return the nearest counterfactual of each sample alone, as one class if a label is given."""
        if label not in self.known:
            asked = self.query.required if label is None else replace(self.query.required, target=label)
            self.known[label] = explained(self.query._replace(required=asked))
        return self.known[label]

    def _from(self, cells: Any, X: Floats) -> tuple[Floats, Any]:
        """Return what each sample costs at least from X on within its bounds, and the nearest cells."""
        start = np.clip(X, self.lower, self.upper)
        bounds = (np.abs(start - X) * self.weights).sum(axis=1)
        possible = (self.lower <= self.upper).all(axis=1)
        bounds[~possible] = np.inf
        near = cells.nearest(start[possible], self.weights, self.lower[possible], self.upper[possible], 0.0)
        bounds[possible] += near.bounds
        nearest = np.full(len(X), -1)
        nearest[possible] = near.cells
        return bounds, nearest

    def _grown(self, chosen: Choice, left_out: set[int], label: int | None) -> Floats | None:
        """Choose further samples until enough are accepted; return the offset, None if that fails.

        Of those that are still missing, the cheapest are meant to be accepted, and the dearest of these are
        chosen next: most others then come along.
        """
        rungs = list(LADDER)
        latest: list[int] = []
        while rungs:
            delta, _ = self._together(chosen, rungs[0])
            if delta is None:  # the latest cannot come along with the others
                left_out |= {*latest[-1:]}
                for row in latest:
                    del chosen[row]
                if not latest:
                    return None
                latest = []
                continue
            passed = _passed(self.query, delta)
            missing = self.wanted - int(passed.sum())
            if missing <= 0:
                return delta
            if not passed[[*chosen]].all():
                rungs, latest = rungs[1:], []
                continue
            asks, cell_of = self._next(delta, label)
            asks[passed] = np.inf
            asks[[*left_out]] = np.inf
            order = np.argsort(asks, kind="stable")[:missing]
            if not np.isfinite(asks[order]).all() or len(order) < missing:
                return None
            latest = order[-max(1, missing // 16) :].tolist()
            chosen |= {row: cell_of(row) for row in latest}
        return None

    def _next(self, delta: Floats, label: int | None) -> tuple[Floats, Any]:
        """Return what each sample asks for beyond an offset, and a function that tells the cell it takes."""
        if self.exact:
            cells = self.accepted if label is None else self.accepted.with_label(label)
            asks, nearest = self._from(cells, self.X + delta)
            return asks, lambda row: (cells, int(nearest[row]))
        answers, whole = self._alone(label), self.accepted
        asks = (np.abs(answers.counterfactuals - self.X - delta) * self.weights).sum(axis=1)

        def pick(row: int) -> tuple[Cells, int]:
            around = whole.tightened(np.zeros(self.X.shape[1]), answers.counterfactuals[row])
            target = (answers.labels[row] == self.query.option.classes).argmax()
            return around, int((around.labels == target).argmax())

        return np.where(answers.found, asks, np.inf), pick

    def _together(self, chosen: Choice, margin: float) -> tuple[Floats | None, float]:
        """Return the smallest offset with which all chosen samples lie in their cells, and a proven bound."""
        if not chosen:
            return np.zeros(self.X.shape[1]), 0.0
        rows = [*chosen]
        low, high = (self.lower - self.X)[rows].max(axis=0), (self.upper - self.X)[rows].min(axis=0)
        # Sums have to lie within the bounds whatever rounding does; it also moves the cells a little.
        room = 2.0**-50 * (np.abs(self.X[rows]).max(axis=0) + np.maximum(low, 0) + np.maximum(-high, 0))
        if (low > high + 8 * room).any():
            return None, np.inf
        narrow = low + 2 * room >= high
        high = np.where(narrow, low, np.where(high == 0, high, high - room))
        low = np.where(narrow | (low == 0), low, low + room)
        start = np.clip(0.0, low, high)
        cells = intersected([(*chosen[row], self.X[row]) for row in rows])
        near = cells.nearest(start[None], self.weights, low[None], high[None], margin)
        bound = float((np.abs(start) * self.weights).sum() + near.bounds[0] - 16 * self.weights @ room)
        delta = np.clip(start + near.changes[0], low, high) if near.cells[0] >= 0 else None
        return delta, max(0.0, bound)


def _passed(query: Query, delta: Floats) -> NDArray[np.bool_]:
    """Return which samples are accepted with an offset, within all requirements, of shape (n,)."""
    points, (lower, upper) = query.samples + delta, query.required.box(query.samples)
    return query.judged(points, query.samples)[1] & ((lower <= points) & (points <= upper)).all(axis=1)


def intersected(parts: list[tuple[Cells, int, Floats]]) -> Cells:
    """Return the offsets with which each point lies in its cell, as one cell; parts are (cells, cell, point).

    >>> from lvqrej.cells import Ball, Cell
    >>> cells = Cells.of([Cell(balls=(Ball([3, 1], 1),))])
    >>> both = intersected([(cells, 0, np.zeros(2)), (cells, 0, np.array([1.0, 0.0]))])
    >>> [ball.centre.tolist() for ball in both[0].balls]
    [[3.0, 1.0], [2.0, 1.0]]
    """
    own: dict[int, int] = {}  # where the metrics of a part begin; most share them
    metrics: list[Floats] = []
    fields: dict[str, list[Any]] = {}
    points = 0
    for cells, c, x in parts:
        if id(cells.metrics) not in own:
            own[id(cells.metrics)] = len(metrics)
            metrics.extend(cells.metrics)
        j = cells.rows[c][cells.rows[c] >= 0]
        for name, part in {
            "points": cells.points - x,
            "point_metric": cells.point_metric + own[id(cells.metrics)],
            "near": cells.near[j] + points,
            "far": cells.far[j] + points,
            "alpha": cells.alpha[j],
            "beta": cells.beta[j],
            "gamma": cells.gamma[j] - cells.linear[j] @ x,
            "linear": cells.linear[j],
        }.items():
            fields.setdefault(name, []).append(part)
        points += len(cells.points)
    joined: dict[str, Any] = {name: np.concatenate(part) for name, part in fields.items()}
    rows = np.arange(len(joined["near"]))[None]
    return Cells(
        metrics=stacked(metrics, len(parts[0][2])), rows=rows, labels=np.zeros(1, dtype=np.int64), **joined
    )
