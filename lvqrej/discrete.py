"""Answers in values that are possible: levels of categories, whole numbers, so many decimals.

A *move* takes a category from a sample's own level to another one. It is a column of its own, t = 0 or 1,
which stands for x + t (e_other - e_own) and costs its price. With t anywhere between, the price is linear and
what is accepted is a set of the same kind (`AcceptedSet.along`), so its nearest point in a box of numbers and
moves bounds every answer there. Where that point has a changed number between two of the grid, a move between
0 and 1, or two moves of one category, the box is divided; rounding gives answers on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.branch_and_bound import Minimum, Problem, branch_and_bound
from lvqrej.cells import START, AcceptedSet, Floats, Ints, Margin

Mask = NDArray[np.bool_]

#: Nodes of a sample in the first round, on a grid alone and with levels; most rounds, where a search takes
#: long itself and otherwise; and what bounds the square of their number times that of numbers and moves.
GRID, LEVELS, SLOW_ROUNDS, ROUNDS, EFFORT = 2, 4, 4, 40, 140_000
#: The relative gap at which a sample is done: of numbers, less is not worth a change of another feature.
GAP, LEVEL_GAP = 1e-2, 1e-9
#: So many corners of the noise are tried on an answer.
_DRAWS = 8
#: Samples with more moves than this together, or with more numbers and moves in all, are searched apart.
_MOST_MOVES, _MOST_NUMBERS = 512, 2**15


class Moves(NamedTuple):
    """The moves of all samples of a batch, ordered by block."""

    ways: Floats  # (m, d)
    prices: Floats  # (m,)
    block: Ints  # (m,)
    allowed: Mask  # (n, m) to each sample
    own: Ints  # (n, blocks) the options at which samples stand
    stays: Mask  # (n, blocks) whether they may stay there

    @staticmethod
    def of(required: Any, X: Floats, lower: Floats, upper: Floats) -> Moves:
        """Return the moves that some of the samples may make."""
        (n, d), blocks = X.shape, required.blocks
        parts: list[Any] = []
        own = np.array([block.of(X) for block in blocks], dtype=np.intp).reshape(len(blocks), n).T
        stays = np.ones(own.shape, dtype=bool)
        for b, block in enumerate(blocks):
            low, high = lower[:, None, block.at], upper[:, None, block.at]
            fits = ((low <= block.high) & (block.low <= high)).all(axis=2)
            if block.ordered:
                steps = np.arange(len(block.prices)) - own[:, b, None]
                fits &= ~((steps < 0) & required.increase_only[block.at[0]])
                fits &= ~((steps > 0) & required.decrease_only[block.at[0]])
            stays[:, b] = fits[np.arange(n), own[:, b]]
            levels = block.at[~required.columns.numbers[block.at]]
            for a in np.unique(own[:, b]):
                allowed = fits & (own[:, b] == a)[:, None] & np.isfinite(block.prices[a])
                (to,) = (allowed.any(axis=0) & (np.arange(len(block.prices)) != a)).nonzero()
                ways = np.zeros((len(to), d))
                ways[:, levels] = (block.low[to] - block.low[a])[:, np.isin(block.at, levels)]
                parts.append((ways, block.prices[a, to], np.full(len(to), b), allowed[:, to].T))
        if not parts:
            return Moves(
                np.empty((0, d)), np.empty(0), np.empty(0, np.intp), np.empty((n, 0), bool), own, stays
            )
        ways, prices, which, allowed = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Moves(ways, prices, which, allowed.T, own, stays)


def make_possible(
    query: Any, accepted: AcceptedSet, answers: Any, box: tuple[Floats, Floats], margins: Sequence[Margin]
) -> None:
    """Replace answers, in place, by the nearest ones at levels and with changed values on the grid.

    Their bounds become those of all such answers. A sample keeps what it has if none is found in time.

    Parameters
    ----------
    query : Query
    accepted : AcceptedSet
    answers : Answers
        The nearest ones with each sample's own levels, off the grid.
    box : pair of arrays (n, d)
        The lowest and highest values of each sample's answer.
    margins : sequence of float or array of shape (n,)
        How far inside to aim, try after try.
    """
    X, (lower, upper), n = query.samples, box, len(query.samples)
    moves = Moves.of(query.required, X, lower, upper)
    m = len(moves.prices)
    if n > 1 and m and (m > _MOST_MOVES or n * (X.shape[1] + m) > _MOST_NUMBERS):
        for part in (slice(0, n // 2), slice(n // 2, n)):
            mine = answers._replace(**{name: getattr(answers, name)[part] for name in answers._fields[:-1]})
            aims = [np.broadcast_to(margin, n)[part] for margin in margins]
            make_possible(query._replace(samples=X[part]), accepted, mine, (lower[part], upper[part]), aims)
        return
    problem = _Possible(query, accepted, answers, box, margins, moves)
    width, most = LEVELS if m else GRID, SLOW_ROUNDS if accepted.gap > 0 else ROUNDS
    rounds = min(most, isqrt(EFFORT // ((width - 1) * problem.U.shape[1])))
    roots = problem.roots()
    for root, found in zip(roots, branch_and_bound(problem, roots, LEVEL_GAP, rounds, width), strict=True):
        problem.keep(root, found)


class Found(NamedTuple):
    """The nearest point (d + m,) of a box of numbers and moves, how it was found, and a bound of the box."""

    point: Floats
    cell: int
    path: int
    bound: float


class Node(NamedTuple):
    """A box of a sample's numbers and moves, a bound of its answers, and its nearest point if that is known.

    In a `fine` one only numbers are in question.
    """

    row: int
    lower: Floats  # (d + m,)
    upper: Floats
    bound: float
    found: Found | None = None
    fine: bool = False


class _Possible(Problem):
    """The nearest possible answers of the samples of a batch, for `branch_and_bound`."""

    def __init__(
        self, query: Any, accepted: AcceptedSet, answers: Any, box: tuple[Floats, Floats],
        margins: Sequence[Margin], moves: Moves,
    ) -> None:  # fmt: skip
        X, required, numbers = query.samples, query.required, query.required.columns.numbers
        none = np.zeros((len(X), len(moves.prices)))
        self.query, self.answers, self.margins, self.moves, self.d = (
            query,
            answers,
            margins,
            moves,
            X.shape[1],
        )
        self.accepted = accepted.along(moves.ways) if len(moves.prices) else accepted
        self.U, self.weights = np.hstack([X, none]), np.append(required.weights, moves.prices)
        self.grid = replace(required, steps=np.append(required.steps, np.zeros(len(moves.prices))))
        # The columns of levels stay as they are: moves are made instead.
        self.lower, self.upper = (
            np.hstack([np.where(numbers, end, X), more])
            for end, more in zip(box, (none, moves.allowed), strict=True)
        )
        self.groups = [(b, self.d + np.flatnonzero(moves.block == b)) for b in np.unique(moves.block)]
        # Missing numbers, which stay as they are unless a move makes them known: samples, columns and moves.
        self.gaps = [
            (g, required.blocks[b].at[0], np.isfinite(required.blocks[b].low[moves.own[:, b], 0]))
            for g, (b, _) in enumerate(self.groups)
            if numbers[required.blocks[b].at[0]]
        ]
        self.signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_DRAWS, self.d))
        self.spare: dict[int, tuple[int, float, Any]] = {}

    def roots(self) -> list[Node]:
        """Return a node for each sample that may need another answer, at its own levels if these have one."""
        answers, moves = self.answers, np.asarray(self.moves.allowed.any(axis=1))
        Z = self.U.copy()
        Z[answers.found, : self.d] = answers.counterfactuals[answers.found]
        wanted = self.off_grid(slice(None), Z).any(axis=1) | (moves & (answers.distances > 0))
        roots = []
        for i in np.flatnonzero(wanted & (self.lower <= self.upper).all(axis=1)).tolist():
            bound = float(answers.lower_bounds[i])
            own = Found(Z[i], answers.cells[i], answers.path_codes[i], bound) if answers.found[i] else None
            roots.append(Node(i, self.lower[i], self.upper[i], 0.0 if moves[i] else bound, own))
        return roots

    def keep(self, root: Node, minimum: Minimum) -> None:
        """Put what was found of a sample among the answers."""
        i, answers, best = root.row, self.answers, minimum.answer
        if best is None and i in self.spare:
            best = self.spare[i][2]
        if best is not None:
            point, certainty, label, firm, found = best
            answers.counterfactuals[i], answers.distances[i] = self.input(point), self.cost(i, point)
            answers.certainties[i], answers.labels[i] = certainty, self.query.option.classes[label]
            answers.found[i], answers.firm[i] = True, firm
            answers.cells[i], answers.path_codes[i] = found.cell, found.path
        answers.lower_bounds[i] = min(max(minimum.bound, root.bound), answers.distances[i])

    def input(self, Z: Floats) -> Floats:
        """Return the lifted columns that numbers and moves stand for."""
        return Z[..., : self.d] + Z[..., self.d :] @ self.moves.ways

    def cost(self, rows: Any, Z: Floats) -> Floats:
        """Return what points cost samples."""
        return (np.abs(Z - self.U[rows]) * self.weights).sum(axis=-1)

    def off_grid(self, rows: Any, Z: Floats) -> Mask:
        """Return which numbers have changed to values that cannot be recorded."""
        return np.not_equal(Z, self.U[rows]) & np.not_equal(Z, self.grid.on_grid(Z))

    def between(self, rows: Any, Z: Floats) -> Mask:
        """Return which blocks do not stand at one of their options, (k, groups)."""
        result = np.zeros((len(Z), len(self.groups)), dtype=bool)
        for g, (b, at) in enumerate(self.groups):
            moved = Z[:, at] != 0
            number = moved.sum(axis=1)
            result[:, g] = (moved & (Z[:, at] != 1)).any(axis=1) | (number > 1)
            result[:, g] |= (number == 0) & ~self.moves.stays[rows, b]
        for g, k, missing in self.gaps:
            unmoved = missing[rows] & (Z[:, self.groups[g][1]] == 0).all(axis=1)
            result[:, g] |= unmoved & (Z[:, k] != self.U[rows, k])
        return result

    def relax_all(self, nodes: Sequence[Node], cutoffs: Sequence[float]) -> list[tuple[float, Found | None]]:
        """Bound nodes by their nearest points, without what alone costs as much as the best answer known."""
        result: list[tuple[float, Found | None]] = [(node.bound, node.found) for node in nodes]
        done = [
            node.fine and node.bound >= (1 - GAP) * goal for node, goal in zip(nodes, cutoffs, strict=True)
        ]
        asked = [k for k, node in enumerate(nodes) if node.found is None and not done[k]]
        if not asked:
            return result
        rows, lower, upper = (np.array([nodes[k][part] for k in asked]) for part in range(3))
        start = np.clip(self.U[rows], lower, upper)
        goals = np.array(cutoffs)[asked, None]
        left = np.maximum(goals - self.cost(rows, start)[:, None], 0.0)
        room = np.hstack([(left + 1e-9 * goals) / self.weights[: self.d], left > self.moves.prices])
        lower = np.clip(self.grid.on_grid(start - room, 1), lower, start)
        upper = np.clip(self.grid.on_grid(start + room, -1), start, upper)
        bounds, found = self.nearest(rows, lower, upper)
        for k, one, bound in zip(asked, found, bounds.tolist(), strict=True):
            bound = max(bound, nodes[k].bound)
            result[k] = bound, None if one is None else one._replace(bound=bound)
        return result

    def nearest(self, rows: Ints, lower: Floats, upper: Floats) -> tuple[Floats, list[Found | None]]:
        """Return bounds over boxes, of shape (k,), and their nearest points, valid ones if possible."""
        for g, k, missing in self.gaps:
            unmoved = missing[rows] & (upper[:, self.groups[g][1]] == 0).all(axis=1)
            lower[unmoved, k] = upper[unmoved, k] = self.U[rows[unmoved], k]
        possible = (lower <= upper).all(axis=1)
        for b, at in self.groups:
            possible &= self.moves.stays[rows, b] | (upper[:, at] > 0).any(axis=1)
        start = np.clip(self.U[rows], lower, upper)
        moved = self.cost(rows, start)
        found: list[Found | None] = [None] * len(rows)
        own = possible & (moved > 0)  # the samples themselves are rejected
        own[own] = self.judged(rows[own], start[own])[1]  # then nothing in the box is nearer
        for k in np.flatnonzero(own):
            found[k] = Found(start[k], -1, START, 0.0)
        possible &= own | (lower < upper).any(axis=1)
        bounds, (pending,) = np.where(possible, moved, np.inf), (possible & ~own).nonzero()
        for margin in self.margins:
            if not len(pending):
                break
            aim = margin[rows[pending]] if isinstance(margin, np.ndarray) else margin
            low, high = lower[pending], upper[pending]
            near = self.accepted.nearest(start[pending], self.weights, low, high, aim)
            bounds[pending] = np.maximum(bounds[pending], moved[pending] + near.bounds)
            points, there = np.clip(start[pending] + near.changes, low, high), near.distances < np.inf
            valid = there & self.judged(rows[pending], points)[1]
            for k in np.flatnonzero(valid if margin is not self.margins[0] else there):
                found[pending[k]] = Found(points[k], near.cells[k], near.paths[k], 0.0)
            pending = pending[~valid & (near.bounds < np.inf)]
        return bounds, found

    def judged(self, rows: Any, Z: Floats) -> tuple[Any, Mask]:
        """Return the verdicts on points, and whether each is valid for its sample."""
        return self.query.judged(self.input(Z), self.query.samples[rows])

    def holds(self, rows: Any, Z: Floats) -> Mask:
        """Return whether points stay valid at some corners of the noise, of 1e-9 if none is asked for."""
        X, samples, noise = self.input(Z), self.query.samples[rows], self.query.noise or 1e-9
        corners = [self.query.judged(X * (1 + noise * sign), samples)[1] for sign in self.signs]
        return np.all(corners, axis=0)

    def restrict_all(self, nodes: Sequence[Node], relaxed: Sequence[Found | None]) -> list[tuple[float, Any]]:
        """Put blocks at options, where numbers are searched again, then numbers on the grid in two ways."""
        best: list[tuple[float, Any]] = [(np.inf, None)] * len(nodes)
        tried = [(k, found) for k, found in enumerate(relaxed) if found is not None]
        boxes: list[tuple[int, Node]] = []
        if tried:
            Z = np.array([found.point for _, found in tried])
            between = np.asarray(self.between([nodes[k].row for k, _ in tried], Z).any(axis=1))
            for k, found in [one for one, yes in zip(tried, between, strict=True) if yes]:
                for least in (0.0, 0.5):
                    boxes.append((k, self.at_options(nodes[k], found.point, least)))
            tried = [one for one, yes in zip(tried, between, strict=True) if not yes]
        if boxes:
            rows, lower, upper = (np.array([box[part] for _, box in boxes]) for part in range(3))
            there = self.nearest(rows, lower, upper)[1]
            tried += [(k, one) for (k, _), one in zip(boxes, there, strict=True) if one is not None]
        if not tried:
            return best
        rows, Z = np.array([nodes[k].row for k, _ in tried]), np.array([found.point for _, found in tried])
        off = self.off_grid(rows, Z)
        for way in (np.sign(Z - self.U[rows]), 0, None) if off.any() else (0,):
            points = Z if way is None else np.where(off, self.grid.on_grid(Z, way), Z)
            verdicts, valid = self.judged(rows, points)
            valid &= ((self.lower[rows] <= points) & (points <= self.upper[rows])).all(axis=1)
            if not valid.any():
                continue
            firm, costs = self.holds(rows, points), self.cost(rows, points)
            firm |= np.array([found.path == START and way is not None for _, found in tried])
            for c in np.flatnonzero(valid).tolist():
                k, found = tried[c]
                answer = points[c], verdicts.certainty[c], verdicts.label[c], firm[c], found
                flaws = 2 * (way is None and bool(off[c].any())) + (not firm[c] and self.query.noise > 0)
                if flaws == 0:
                    best[k] = min(best[k], (float(costs[c]), answer), key=lambda one: one[0])
                else:
                    spare = self.spare.get(nodes[k].row, (3, np.inf, None))
                    one = flaws, float(costs[c]), answer
                    self.spare[nodes[k].row] = min(spare, one, key=lambda one: one[:2])
        return best

    def at_options(self, node: Node, z: Floats, least: float) -> Node:
        """Return the part of a node with each block at an option: it moves if it has by more than `least`."""
        gaps = {g for g, k, _ in self.gaps if z[k] != self.U[node.row, k]}
        for g, (b, at) in enumerate(self.groups):
            j = self.leading(node, g, z)
            moves = j is not None and (
                z[j] > least or not self.moves.stays[node.row, b] or (g in gaps and least == 0)
            )
            node = self.made(node, at, j if moves else None)
        return node

    def leading(self, node: Node, g: int, z: Floats) -> int | None:
        """Return the move of a block that a point makes most of, the cheapest of several, or None."""
        at = self.groups[g][1]
        at = at[node.upper[at] > 0]
        return int(at[np.lexsort((self.weights[at], -z[at]))[0]]) if len(at) else None

    def made(self, node: Node, at: Ints, move: int | None) -> Node:
        """Return the part of a node in which a block makes one of its moves, or none."""
        lower, upper = node.lower.copy(), node.upper.copy()
        upper[at] = lower[at] = 0.0
        if move is not None:
            lower[move] = upper[move] = 1.0
        return node._replace(lower=lower, upper=upper)

    def branch(self, node: Node, relaxed: Found | None, cutoff: float) -> list[Node]:
        """Divide a node at a block that stands between its options, or at a number off the grid."""
        own = node.found
        if own is not None and node.upper[self.d :].any():  # its own levels are not all there are
            worth = np.append(np.ones(self.d, dtype=bool), self.moves.prices < cutoff)
            node = node._replace(upper=np.where(worth, node.upper, 0.0))
            if not node.upper[self.d :].any():
                return [node._replace(bound=own.bound)]
            return [node._replace(found=None)]
        z, off = self.U[node.row], np.zeros(1, dtype=bool)
        if relaxed is not None:
            z, node = relaxed.point, node._replace(bound=relaxed.bound, found=None)
            off = self.off_grid(node.row, z)
        (between,) = self.between([node.row], z[None]).nonzero()[1:]
        valid = relaxed is not None and self.judged([node.row], z[None])[1][0]
        if not len(between) and not off.any() and not valid:
            # Neither an answer nor the proof that there is none: other moves may still give one.
            open_ = [(node.lower < node.upper)[at].any() for _, at in self.groups]
            between = np.flatnonzero(open_)
        choices = [(g, j) for g in between.tolist() if (j := self.leading(node, g, z)) is not None]
        if choices:
            g, j = max(choices, key=lambda one: min(z[one[1]], 1 - z[one[1]]) * self.weights[one[1]])
            rest = node.upper.copy()
            rest[j] = 0.0
            return [self.made(node, self.groups[g][1], j), node._replace(upper=rest)]
        return self.parts(node, z, off) if off.any() and node.bound < (1 - GAP) * cutoff else []

    def parts(self, node: Node, z: Floats, off: Mask) -> list[Node]:
        """Divide a node at the value that costs most to round; one that stays may lie off the grid."""
        x, ways = self.U[node.row], np.array([[-1], [1]])
        below, above = self.grid.on_grid(np.stack([z, z]), ways)
        k = int(np.where(off, self.weights * np.minimum(z - below, above - z), -1.0).argmax())
        ends = [(node.lower[k], below[k]), (above[k], node.upper[k])]
        if below[k] < x[k] < above[k]:
            ends.append((x[k], x[k]))
        result = []
        for low, high in ends:
            if low <= high:
                part = node._replace(lower=node.lower.copy(), upper=node.upper.copy(), fine=True)
                part.lower[k], part.upper[k] = low, high
                result.append(part)
        return result
