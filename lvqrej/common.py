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
from lvqrej.cells import AcceptedSet, Cells, stacked
from lvqrej.certainty import Certainty
from lvqrej.counterfactual import LADDER, Query, reason_of
from lvqrej.explanation import NoCounterfactualError
from lvqrej.validation import Floats, check_number
from lvqrej.wording import ALL, FEWEST, NO_GAP, listed, number, percent_up, rounded

#: The relative gap aimed at, and the number of nodes unless told otherwise.
_GAP, EFFORT = 1e-6, 50
#: As many samples are tried together with the chosen ones of a node.
_TRIED = 24
#: Samples and the cell that each shall lie in.
Choice = dict[int, Cells]


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
    problem: Any

    @property
    def gap(self) -> float:
        """(distance - lower_bound) / distance, 0 where the distance is 0."""
        return (self.distance - self.lower_bound) / self.distance if self.distance > 0 else 0.0

    def _passed(self, delta: Floats) -> NDArray[np.bool_]:
        """Return which samples are accepted with an offset (d,) of the user's columns."""
        columns = self.problem.query.required.columns
        return self.problem.passed(np.where(columns.numbers, columns.spread(delta, 0.0), 0.0))

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
        required, shown = self.problem.query.required, self._shown()
        names, at = required.names, required.columns.starts[:-1]
        k = np.argsort(-required.weights[at] * np.abs(self.delta), kind="stable")
        words = [f"{names[i]} {'+' if shown[i] > 0 else '−'}{number(abs(shown[i]))}" for i in k if shown[i]]
        done = f"{self._passed(shown).sum()} of {len(self.accepted)} samples are accepted"
        text = f"with {listed(words)} for all, {done}" if words else f"without any change {done}"
        gaps = self.problem.gaps.sum(axis=0)[at]
        for i in k[(gaps[k] > 0) & (shown[k] != 0)]:
            text += f" ({names[i]} is missing in {gaps[i]} of them and stays so)"
        within = " within the observed ranges" if np.any(required.observed) else ""
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
    are, and what is missing stays missing, as it does if the offset is added to the table.

    Parameters
    ----------
    option, theta
        As in `explain`.
    X : array-like of shape (n, d)
        Samples, usually rejected ones.
    share : float
        Share of the samples that shall be accepted, above 0.
    effort : int
        Number of nodes of the branch and bound, each a few convex programs. The gap is what is not proven
        then; with the probabilities of three and more classes some of it is left in any case.
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
    problem = _Problem(query, ceil(least * len(query.samples) - 1e-9))
    root = Node((), frozenset(), problem.least)
    (found,) = branch_and_bound(problem, [root], max(_GAP, problem.accepted.gap), tries)
    if found.answer is None:
        raise NoCounterfactualError(problem.why_none(bool(np.isinf(found.bound))))
    delta, bound = found.answer[query.required.columns.starts[:-1]], min(found.bound, found.value)
    return CommonChange(delta, found.value, bound, problem.passed(found.answer), problem.wanted, problem)


class Node(NamedTuple):
    """Samples that shall lie in a cell each, samples that need not be accepted, and what is known of all.

    `least` (n, cells) is what each sample in each of its cells asks for at least within the node.
    """

    chosen: tuple[tuple[int, int], ...]
    left_out: frozenset[int]
    least: Floats


class _Problem(Problem):
    """The smallest offset for `wanted` of the samples, for `branch_and_bound`.

    Bounds come from cells that hold all that is accepted, answers from cells of which all is accepted. They
    are the same but for the probabilities of three and more classes.
    """

    def __init__(self, query: Query, wanted: int) -> None:
        required, X = query.required, query.samples
        self.wanted, self.X, self.weights, numbers = wanted, X, required.weights, required.columns.numbers
        self.query = query._replace(required=replace(required, fixed=required.fixed | ~numbers, blocks=()))
        #: What is missing and stays so, whatever is added.
        self.gaps = np.zeros(X.shape, dtype=bool)
        if query.given is not None:
            self.gaps = np.isnan(required.columns.observed(query.given))
        self.best, self.accepted = np.inf, self.query.accepted_set()
        self.cells = self.accepted.cover()
        lower, upper = self.query.required.box(X)
        self.lower, self.upper = np.where(self.gaps, X, lower), np.where(self.gaps, X, upper)
        own = {c: self._from(self.accepted.with_label(c))[0] for c in np.unique(self.cells.labels).tolist()}
        each = [self._from(self.cells.take(np.array([c])))[0] for c in range(len(self.cells))]
        least = [np.maximum(own[c], asks) for c, asks in zip(self.cells.labels.tolist(), each, strict=True)]
        self.least = np.array(least).reshape(len(least), -1).T

    def moved(self, delta: Any) -> Floats:
        """Return the samples with an offset added."""
        return self.X + np.where(self.gaps, 0.0, delta)

    def passed(self, delta: Floats) -> NDArray[np.bool_]:
        """Return which samples are accepted with an offset, within all requirements, of shape (n,)."""
        points = self.moved(delta)
        within = ((self.lower <= points) & (points <= self.upper)).all(axis=1)
        return self.query.judged(points, self.X)[1] & within

    def relax(self, node: Node, cutoff: float) -> tuple[float, Any]:
        """Bound by what the chosen samples ask for together, and by what so many others ask for beside them.

        Some of the others, those farthest from being accepted, are tried together with the chosen ones.
        """
        delta, proven = self._together(self._cells_of(*node.chosen))
        least, spare = node.least.copy(), len(self.X) - self.wanted - len(node.left_out)
        bound = max(proven, self._counted(node, least))
        if delta is None or bound >= cutoff:
            return bound, None
        for row in self._open(node, delta)[:_TRIED] if node.chosen else ():
            for c in np.flatnonzero(least[row] < cutoff).tolist():
                one_more = self._cells_of(*node.chosen, (row, c))
                least[row, c] = max(least[row, c], self._together(one_more)[1])
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
        waiting = ~self.passed(delta)
        waiting[[row for row, _ in node.chosen] + [*node.left_out]] = False
        rows = np.flatnonzero(waiting)
        return rows[np.argsort(-self._from(self.cells, delta)[0][rows], kind="stable")].tolist()

    def restrict(self, node: Node, relaxed: Any) -> tuple[float, Floats | None]:
        """Try what the chosen samples ask for; with none, grow a choice, at the root also in each class."""
        if relaxed is None:
            return np.inf, None
        found, sets = [relaxed[0]], [] if node.chosen else [self.accepted]
        if sets and not node.left_out and self.query.required.target is None:
            sets += [self.accepted.with_label(label) for label in range(len(self.query.option.classes))]
        found += [self._grown({*node.left_out}, accepted) for accepted in sets]
        offsets = [d for d in found if d is not None and self.passed(d).sum() >= self.wanted]
        sizes = [float((self.weights * np.abs(delta)).sum()) for delta in offsets]
        self.best = min([self.best, *sizes])
        return (min(sizes), offsets[int(np.argmin(sizes))]) if sizes else (np.inf, None)

    def branch(self, node: Node, relaxed: Any, cutoff: float) -> list[Node]:
        """Divide at the sample that is farthest from being accepted: one of its cells, or left out."""
        rows = self._open(node, relaxed[0]) if relaxed is not None else []
        if not rows:
            return []
        row, known = rows[0], node._replace(least=relaxed[1])
        cells = np.flatnonzero(known.least[row] < self.best).tolist()
        nodes = [known._replace(chosen=(*node.chosen, (row, c))) for c in cells]
        if len(node.left_out) < len(self.X) - self.wanted:
            nodes.append(known._replace(left_out=node.left_out | {row}))
        return nodes

    def why_none(self, proven: bool) -> str:
        """Say why no common change was found."""
        found, never = self._from(self.accepted)[1] >= 0, np.isinf(self.least).all(axis=1)
        n, count, required = len(self.X), int(found.sum()), self.query.required
        none = "there is no common change" if proven else "no common change was found"
        if not required.columns.numbers.all():
            none += " of numbers (categories stay as they are)"
        text = f"{none} with which {self.wanted} of {n} samples are accepted"
        if count >= self.wanted:
            but = (
                "not so many by the same change" if proven else "no change was found that does it for so many"
            )
            return f"{text}: each of {count} can be accepted alone, but {but}"
        row, many = (
            int((found - 1.0 * never).argmin()),
            "can" if (found | never).all() else "were found that can",
        )
        required = replace(required, fixed=required.fixed | self.gaps[row])
        alone = self.query._replace(samples=self.X[[row]], required=required)
        reason = reason_of(alone, bool(never[row]))
        return f"{text}: only {count} {many} be accepted at all; sample {row}: {reason}"

    def _cells_of(self, *chosen: tuple[int, int]) -> Choice:
        return {row: self.cells.take(np.array([c])) for row, c in chosen}

    def _from(self, cells: Any, delta: Any = 0.0, rows: Any = slice(None)) -> tuple[Floats, Any, Floats]:
        """Return what samples ask for at least beyond an offset, in which cells, and their nearest points."""
        X, lower, upper = self.moved(delta)[rows], self.lower[rows], self.upper[rows]
        start, possible = np.clip(X, lower, upper), (lower <= upper).all(axis=1)
        bounds = np.where(possible, (np.abs(start - X) * self.weights).sum(axis=1), np.inf)
        near = cells.nearest(start[possible], self.weights, lower[possible], upper[possible], 0.0)
        bounds[possible] += near.bounds
        start[possible] += near.changes
        nearest = np.full(len(X), -1)
        nearest[possible] = near.cells
        return bounds, nearest, start

    def _grown(self, left_out: set[int], accepted: AcceptedSet) -> Floats | None:
        """Choose samples until enough are accepted; return the offset, None if that fails.

        Of those that are still missing, the cheapest are meant to be accepted, and the dearest of these are
        chosen next: most others then come along.
        """
        cover, rungs = accepted.cover(), list(LADDER)
        chosen: Choice = {}
        latest: list[int] = []
        while rungs:
            offset, _ = self._together(chosen, rungs[0])
            if offset is None:  # the latest cannot come along with the others
                left_out |= {*latest[-1:]}
                if not latest:
                    return None
                chosen, latest = {row: chosen[row] for row in chosen if row not in latest}, []
                continue
            passed = self.passed(offset)
            missing = self.wanted - int(passed.sum())
            if missing <= 0:
                return offset
            if not passed[[*chosen]].all():
                rungs, latest = rungs[1:], []
                continue
            asks = self._from(cover, offset)[0]
            asks[passed] = np.inf
            asks[[*left_out]] = np.inf
            order = np.argsort(asks, kind="stable")[:missing]
            if not np.isfinite(asks[order]).all() or len(order) < missing:
                return None
            further = order[-max(1, missing // 16) :].tolist()
            chosen |= (added := self._around(accepted, offset, further))
            left_out |= {*further} - {*added}
            latest = [*added]
        return None

    def _around(self, accepted: AcceptedSet, delta: Floats, rows: list[int]) -> Choice:
        """Return the nearest accepted cell of samples beyond an offset; some have none."""
        _, cell, point = self._from(accepted, delta, rows)
        cells = {row: accepted.around(c, x) for row, c, x in zip(rows, cell, point, strict=True) if c >= 0}
        return {row: own for row, own in cells.items() if len(own)}

    def _together(self, chosen: Choice, margin: float = LADDER[0]) -> tuple[Floats | None, float]:
        """Return the smallest offset with which all chosen samples lie in their cells, and a proven bound."""
        if not chosen:
            return np.zeros(self.X.shape[1]), 0.0
        rows = [*chosen]
        X, gaps = self.X[rows], self.gaps[rows]
        low = np.where(gaps, -np.inf, self.lower[rows] - X).max(axis=0)
        high = np.where(gaps, np.inf, self.upper[rows] - X).min(axis=0)
        # Sums have to lie within the bounds whatever rounding does; it also moves the cells a little.
        room = 2.0**-50 * (np.abs(X).max(axis=0) + np.maximum(low, 0) + np.maximum(-high, 0))
        if (low > high + 8 * room).any():
            return None, np.inf
        narrow = low + 2 * room >= high
        high = np.where(narrow, low, np.where(high == 0, high, high - room))
        low = np.where(narrow | (low == 0), low, low + room)
        start, d = np.clip(0.0, low, high), len(low)
        cells = intersected([(chosen[row], self.X[row], self.gaps[row]) for row in rows])
        still = np.zeros(cells.points.shape[1] - d)  # where samples stand whose value is missing
        begin, low, high = (np.append(part, still)[None] for part in (start, low, high))
        near = cells.nearest(begin, np.append(self.weights, still + 1), low, high, margin)
        bound = float((np.abs(start) * self.weights).sum() + near.bounds[0] - 16 * self.weights @ room)
        delta = np.clip(begin + near.changes, low, high)[0, :d] if near.cells[0] >= 0 else None
        return delta, max(0.0, bound)


def intersected(parts: list[tuple[Cells, Floats, NDArray[np.bool_]]]) -> Cells:
    """Return the offsets with which each point lies in its only cell; parts are (cell, point, gaps).

    An offset does not reach what is missing: if there are gaps, each feature is there twice, as what moves
    and as what stays.

    >>> from lvqrej.cells import Ball, Cell
    >>> cells, none = Cells.of([Cell(balls=(Ball([3, 1], 1),))]), np.zeros(2, dtype=bool)
    >>> both = intersected([(cells, np.zeros(2), none), (cells, np.array([1.0, 0.0]), none)])
    >>> [ball.centre.tolist() for ball in both[0].balls]
    [[3.0, 1.0], [2.0, 1.0]]
    """
    twice = any(gaps.any() for _, _, gaps in parts)

    def apart(values: Floats, gaps: NDArray[np.bool_]) -> Floats:
        halves = np.where(gaps, 0.0, values), np.where(gaps, values, 0.0)
        return np.concatenate(halves, axis=-1) if twice else values

    own: dict[Any, int] = {}  # where the metrics of a part begin; most share them
    metrics: list[Floats] = []
    fields, points = [], 0
    for cells, x, gaps in parts:
        key = id(cells.metrics), gaps.tobytes()
        if key not in own:
            own[key] = len(metrics)
            metrics.extend(apart(cells.metrics, gaps))
        j = cells.rows[0][cells.rows[0] >= 0]
        moved, flats = apart(cells.points - x, gaps), apart(cells.linear[j], gaps)
        ends = cells.near[j] + points, cells.far[j] + points
        gamma = cells.gamma[j] - cells.linear[j] @ x
        fields.append(
            (moved, cells.point_metric + own[key], *ends, cells.alpha[j], cells.beta[j], gamma, flats)
        )
        points += len(cells.points)
    names = ("points", "point_metric", "near", "far", "alpha", "beta", "gamma", "linear")
    joined: dict[str, Any] = dict(zip(names, map(np.concatenate, zip(*fields, strict=True)), strict=True))
    rows, d = np.arange(len(joined["near"]))[None], joined["points"].shape[1]
    return Cells(metrics=stacked(metrics, d), rows=rows, labels=np.zeros(1, dtype=np.int64), **joined)
