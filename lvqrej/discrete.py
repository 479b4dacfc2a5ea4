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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.branch_and_bound import Problem, branch_and_bound
from lvqrej.cells import AcceptedSet, Floats, Ints, Margin

Mask = NDArray[np.bool_]

#: Rounds of the search, and nodes of each sample in one: of wide boxes fewer rounds, so many numbers in all;
#: the same where a search takes long itself.
ROUNDS, NUMBERS, WIDTH, SLOW_ROUNDS = 40, 640, 4, 4
#: The relative gap at which a sample is done: of numbers, less is not worth a change of another feature.
GAP, _LEVEL_GAP = 1e-2, 1e-9
#: So many corners of the noise are tried on an answer of the grid.
_DRAWS = 8
#: Samples with more moves than this together are searched apart.
_MOST_MOVES = 512


class Found(NamedTuple):
    """The nearest point of a box (d + m,), numbers and moves, how it was found, and a bound of the box."""

    point: Floats
    cell: int
    path: int
    bound: float


class Node(NamedTuple):
    """A box of a sample's numbers and moves, a bound of its answers, and the nearest point if it is known.

    In a `fine` one only numbers are in question.
    """

    row: int
    lower: Floats  # (d + m,)
    upper: Floats
    bound: float
    found: Found | None = None
    fine: bool = False


class Moves(NamedTuple):
    """The moves of all samples of a batch, by block."""

    ways: Floats  # (m, d)
    prices: Floats  # (m,)
    block: Ints  # (m,)
    option: Ints  # (m,) of the block, where it leads to
    allowed: Mask  # (n, m)
    stays: Mask  # (n, blocks) whether a sample may keep its own option
    own: Ints  # (n, blocks)

    @staticmethod
    def of(required: Any, X: Floats, lower: Floats, upper: Floats) -> Moves:
        """Return the moves that some sample may make."""
        n, d = X.shape
        blocks = required.blocks
        own = np.array([block.of(X) for block in blocks], dtype=np.intp).reshape(-1, n).T
        stays, allowed, rows = np.ones(own.shape, dtype=bool), [], []
        for b, block in enumerate(blocks):
            fits = _fits(required, block, lower, upper, own[:, b])
            stays[:, b] = fits[np.arange(n), own[:, b]]
            apart = ~required.columns.numbers[block.at]
            for a in np.unique(own[:, b]).tolist():
                here = own[:, b] == a
                for o in np.flatnonzero(fits[here].any(axis=0) & np.isfinite(block.prices[a])).tolist():
                    if o != a:
                        way = np.zeros(d)
                        way[block.at[apart]] = (block.low[o] - block.low[a])[apart]
                        rows.append((way, block.prices[a, o], b, o))
                        allowed.append(here & fits[:, o])
        ways, prices, block, option = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Moves(
            np.array(ways).reshape(-1, d), np.array(prices, dtype=float), np.array(block, dtype=np.intp),
            np.array(option, dtype=np.intp), np.array(allowed, dtype=bool).reshape(-1, n).T, stays, own,
        )  # fmt: skip


def _fits(required: Any, block: Any, lower: Floats, upper: Floats, own: Ints) -> Mask:
    """Return which options of a block are within the requirements of each sample, (n, options)."""
    low, high = lower[:, None, block.at], upper[:, None, block.at]
    fits: Mask = ((low <= block.high) & (block.low <= high)).all(axis=2)
    if block.ordered:
        steps = np.arange(len(block.prices)) - own[:, None]
        fits &= ~((steps < 0) & required.increase_only[block.at[0]])
        fits &= ~((steps > 0) & required.decrease_only[block.at[0]])
    return fits


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
    X, (lower, upper) = query.samples, box
    moves, n = Moves.of(query.required, X, lower, upper), len(X)
    if len(moves.prices) > _MOST_MOVES and n > 1:
        for part in (slice(0, n // 2), slice(n // 2, n)):
            mine = answers._replace(**{name: getattr(answers, name)[part] for name in answers._fields[:-1]})
            aims = [np.broadcast_to(margin, n)[part] for margin in margins]
            make_possible(query._replace(samples=X[part]), accepted, mine, (lower[part], upper[part]), aims)
        return
    problem = _Possible(query, accepted, answers, box, margins, moves)
    roots, columns = problem.roots(), X.shape[1]
    rounds = SLOW_ROUNDS if accepted.gap > 0 else min(ROUNDS, max(4, NUMBERS // columns))
    for root, found in zip(roots, branch_and_bound(problem, roots, _LEVEL_GAP, rounds, WIDTH), strict=True):
        problem.keep(root, found)


class _Possible(Problem):
    """The nearest possible answers of the samples of a batch, for `branch_and_bound`."""

    def __init__(
        self, query: Any, accepted: AcceptedSet, answers: Any, box: tuple[Floats, Floats],
        margins: Sequence[Margin], moves: Moves,
    ) -> None:  # fmt: skip
        X, required = query.samples, query.required
        (n, d), m = X.shape, len(moves.prices)
        self.query, self.answers, self.moves, self.d = query, answers, moves, d
        self.blocks, self.accepted = required.blocks, accepted.along(moves.ways) if m else accepted
        self.margins = margins
        self.U = np.hstack([X, np.zeros((n, m))])
        self.weights = np.append(required.weights, moves.prices)
        self.grid = replace(required, steps=np.append(required.steps, np.zeros(m)))
        numbers = required.columns.numbers
        low, high = (np.where(numbers, end, X) for end in box)
        self.lower = np.hstack([low, np.zeros((n, m))])
        self.upper = np.hstack([high, moves.allowed.astype(float)])
        self.groups = [(b, d + np.flatnonzero(moves.block == b)) for b in np.unique(moves.block).tolist()]
        # A number that is known or missing: what its options leave of it.
        self.flagged = [
            (g, b, int(at[0]))
            for g, (b, _) in enumerate(self.groups)
            if len(at := self.blocks[b].at[numbers[self.blocks[b].at]])
        ]
        self.signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_DRAWS, d))
        self.spare: dict[int, tuple[int, float, Any]] = {}
        self.solved: set[tuple[int, bytes]] = set()

    def roots(self) -> list[Node]:
        """Return a node for each sample that may need another answer: its own levels, which are solved."""
        answers, X = self.answers, self.U[:, : self.d]
        given = np.where(answers.found[:, None], answers.counterfactuals, X)
        Z = np.hstack([given, np.zeros((len(X), self.U.shape[1] - self.d))])
        moves = self.moves.allowed.any(axis=1)
        wanted = self.off_grid(np.arange(len(X)), Z).any(axis=1) | (moves & (answers.distances > 0))
        wanted &= (self.lower <= self.upper).all(axis=1)
        roots = []
        for i in np.flatnonzero(wanted).tolist():
            bound = 0.0 if moves[i] else float(answers.lower_bounds[i])
            own = Found(Z[i], answers.cells[i], answers.path_codes[i], bound) if answers.found[i] else None
            roots.append(Node(i, self.lower[i], self.upper[i], bound, own))
        return roots

    def keep(self, root: Node, minimum: Any) -> None:
        """Put what was found of a sample among the answers."""
        i, answers, best = root.row, self.answers, minimum.answer
        if best is None and i in self.spare and (self.spare[i][0] > 0 or not answers.found[i]
                                                 or self.spare[i][1] < answers.distances[i]):  # fmt: skip
            best = self.spare[i][2]
        if best is not None:
            point, certainty, label, firm, found = best
            answers.counterfactuals[i] = self._x(point)
            answers.distances[i] = (np.abs(point - self.U[i]) * self.weights).sum()
            answers.certainties[i], answers.labels[i] = certainty, self.query.option.classes[label]
            answers.found[i], answers.firm[i] = True, firm
            answers.cells[i], answers.path_codes[i] = found.cell, found.path
        answers.lower_bounds[i] = min(max(minimum.bound, root.bound), answers.distances[i])

    def _x(self, Z: Floats) -> Floats:
        """Return the lifted columns that numbers and moves stand for."""
        return Z[..., : self.d] + Z[..., self.d :] @ self.moves.ways

    def off_grid(self, rows: Any, Z: Floats) -> Mask:
        """Return which numbers have changed to values that cannot be recorded."""
        return np.not_equal(Z, self.U[rows]) & np.not_equal(Z, self.grid.on_grid(Z)) & (self.grid.steps > 0)

    def split(self, rows: Ints, Z: Floats) -> Mask:
        """Return which blocks do not stand at one of their options, (k, groups)."""
        result = np.zeros((len(Z), len(self.groups)), dtype=bool)
        for g, (b, at) in enumerate(self.groups):
            T = Z[:, at]
            number = (T != 0).sum(axis=1)
            result[:, g] = ((T != 0) & (T != 1)).any(axis=1) | (number > 1)
            result[:, g] |= (number == 0) & ~self.moves.stays[rows, b]
        for g, b, k in self.flagged:
            own, block = self.moves.own[rows, b], self.blocks[b]
            low, high = block.low[own, 0], block.high[own, 0]
            outside = (Z[:, k] < low) | (Z[:, k] > high)
            result[:, g] |= outside & (Z[:, self.groups[g][1]] == 0).all(axis=1)
        return result

    def fixed(self, node: Node, g: int, move: int | None) -> Node | None:
        """Return the part of a node in which a block makes one move, or none; None if it may not."""
        (b, at), lower, upper = self.groups[g], node.lower.copy(), node.upper.copy()
        if move is None and (lower[at].any() or not self.moves.stays[node.row, b]):
            return None
        upper[at] = 0.0
        if move is not None:
            lower[move] = upper[move] = 1.0
        option = self.moves.own[node.row, b] if move is None else self.moves.option[move - self.d]
        for _, other, k in self.flagged:
            if other == b:
                lower[k] = max(lower[k], self.blocks[b].low[option, 0])
                upper[k] = min(upper[k], self.blocks[b].high[option, 0])
        return node._replace(lower=lower, upper=upper, found=None)

    def relax_all(self, nodes: Sequence[Node], cutoffs: Sequence[float]) -> list[tuple[float, Found | None]]:
        """Bound nodes by their nearest points; moves that alone cost too much are left out."""
        result: list[tuple[float, Found | None]] = [(node.bound, node.found) for node in nodes]
        asked = [
            k
            for k, (node, cutoff) in enumerate(zip(nodes, cutoffs, strict=True))
            if node.found is None and not (node.fine and node.bound >= (1 - GAP) * cutoff)
        ]
        if not asked:
            return result
        rows = np.array([nodes[k].row for k in asked])
        lower, upper = (np.array([nodes[k][end] for k in asked]) for end in (1, 2))
        goal, d, moves = np.array([cutoffs[k] for k in asked]), self.d, self.moves
        price = (lower[:, d:] @ moves.prices)[:, None] + moves.prices
        out = (lower[:, d:] == 0) & (upper[:, d:] > 0) & (price >= (1 - _LEVEL_GAP) * goal[:, None])
        least = np.where(out, price, np.inf).min(axis=1, initial=np.inf)
        upper[:, d:][out] = 0.0
        possible = np.ones(len(rows), dtype=bool)
        for b, at in self.groups:
            possible &= self.moves.stays[rows, b] | (upper[:, at] > 0).any(axis=1)
        for g, b, k in self.flagged:
            stuck = ~(upper[:, self.groups[g][1]] > 0).any(axis=1)
            own, block = moves.own[rows, b], self.blocks[b]
            lower[:, k] = np.where(stuck, np.maximum(lower[:, k], block.low[own, 0]), lower[:, k])
            upper[:, k] = np.where(stuck, np.minimum(upper[:, k], block.high[own, 0]), upper[:, k])
        possible &= (lower <= upper).all(axis=1)
        bounds, found = np.full(len(rows), np.inf), [None] * len(rows)
        (p,) = possible.nonzero()
        if len(p):
            bounds[p], some = self.nearest(rows[p], lower[p], upper[p])
            for k, one in zip(p.tolist(), some, strict=True):
                found[k] = one
        for k, least_bound, one in zip(asked, np.minimum(bounds, least).tolist(), found, strict=True):
            bound = max(least_bound, nodes[k].bound)
            result[k] = bound, None if one is None else one._replace(bound=bound)
        return result

    def nearest(self, rows: Ints, lower: Floats, upper: Floats) -> tuple[Floats, list[Found | None]]:
        """Return bounds (k,) over boxes, and their nearest points."""
        start = np.clip(self.U[rows], lower, upper)
        moved = (np.abs(start - self.U[rows]) * self.weights).sum(axis=1)
        bounds, found = moved.copy(), [None] * len(rows)
        pending = np.arange(len(rows))
        for aim in self.margins:
            margin = aim[rows[pending]] if isinstance(aim, np.ndarray) else aim
            low, high, begin = lower[pending], upper[pending], start[pending]
            near = self.accepted.nearest(begin, self.weights, low, high, margin)
            bounds[pending] = np.maximum(bounds[pending], moved[pending] + near.bounds)
            points = np.clip(begin + near.changes, low, high)
            valid = near.distances < np.inf
            at = np.flatnonzero(valid)
            valid[at] &= self.judged(rows[pending[at]], points[at])[1]
            for k in at.tolist():
                if valid[k] or found[pending[k]] is None:
                    found[pending[k]] = Found(points[k], near.cells[k], near.paths[k], 0.0)
            pending = pending[~valid & (near.bounds < np.inf)]
            if not len(pending):
                break
        return bounds, found

    def judged(self, rows: Ints, Z: Floats) -> tuple[Any, Mask]:
        """Return the verdicts on points, and whether each is valid for its sample."""
        return self.query.judged(self._x(Z), self.query.samples[rows])

    def holds(self, rows: Ints, Z: Floats) -> Mask:
        """Return whether points stay valid at some corners of the noise."""
        X, noise, samples = self._x(Z), self.query.noise, self.query.samples[rows]
        return np.all([self.query.judged(X * (1 + noise * sign), samples)[1] for sign in self.signs], axis=0)

    def restrict_all(
        self, nodes: Sequence[Node], relaxed: Sequence[Found | None]
    ) -> list[tuple[float, Any]]:
        """Put blocks at options, numbers on the grid."""
        best: list[tuple[float, Any]] = [(np.inf, None)] * len(nodes)
        known = [k for k, found in enumerate(relaxed) if found is not None]
        if not known:
            return best
        rows = np.array([nodes[k].row for k in known])
        split = self.split(rows, np.array([relaxed[k].point for k in known])).any(axis=1)
        candidates = [(k, relaxed[k]) for k, no in zip(known, split.tolist(), strict=True) if not no]
        boxes = []
        for k in [k for k, yes in zip(known, split.tolist(), strict=True) if yes]:
            for least in (0.0, 0.5):
                box = self.rounded(nodes[k], relaxed[k].point, least)
                if box is not None:
                    key = box.row, box.lower.tobytes() + box.upper.tobytes()
                    if key not in self.solved:
                        self.solved.add(key)
                        boxes.append((k, box))
        if boxes:
            lower, upper = (np.array([box[end] for _, box in boxes]) for end in (1, 2))
            _, some = self.nearest(np.array([box.row for _, box in boxes]), lower, upper)
            candidates += [(k, one) for (k, _), one in zip(boxes, some, strict=True) if one is not None]
        if not candidates:
            return best
        rows = np.array([nodes[k].row for k, _ in candidates])
        Z = np.array([found.point for _, found in candidates])
        off = self.off_grid(rows, Z)
        ways = [np.sign(Z - self.U[rows]), 0] if off.any() else [0]
        tries = [(1, np.where(off, self.grid.on_grid(Z, way), Z)) for way in ways]
        if off.any():
            tries.append((0, Z))
        for rank, points in tries:
            verdicts, valid = self.judged(rows, points)
            valid &= ((self.lower[rows] <= points) & (points <= self.upper[rows])).all(axis=1)
            distances = (np.abs(points - self.U[rows]) * self.weights).sum(axis=1)
            firm = valid & self.holds(rows, points) if valid.any() and self.query.noise > 0 else valid & False
            for c in np.flatnonzero(valid).tolist():
                k, found = candidates[c]
                answer = points[c], verdicts.certainty[c], verdicts.label[c], firm[c], found
                sure = rank * (1 + bool(firm[c] or self.query.noise == 0))
                if sure == 2 and distances[c] < best[k][0]:
                    best[k] = float(distances[c]), answer
                i = nodes[k].row
                if sure < 2 and (-sure, distances[c]) < (-1 * self.spare.get(i, (-1, np.inf))[0],
                                                         self.spare.get(i, (-1, np.inf))[1]):  # fmt: skip
                    self.spare[i] = sure, float(distances[c]), answer
        return best

    def rounded(self, node: Node, z: Floats, least: float) -> Node | None:
        """Return the part of a node in which every block stands at the option that is nearest to a point.

        Blocks move if they have moved by more than `least`.
        """
        part: Node | None = node
        for g, (b, at) in enumerate(self.groups):
            if part is None:
                return None
            open_ = at[part.upper[at] > 0]
            move = None
            if len(open_):
                j = open_[np.lexsort((self.weights[open_], -z[open_]))[0]]
                takes = z[j] > least or not self.moves.stays[node.row, b]
                takes |= least == 0 and any(
                    other == g and z[k] != self.U[node.row, k] for other, _, k in self.flagged
                )
                move = int(j) if takes else None
            if part.lower[at].any():
                move = int(at[part.lower[at].argmax()])
            part = self.fixed(part, g, move)
        return part

    def branch(self, node: Node, found: Found | None, cutoff: float) -> list[Node]:
        """Divide a node at a block that stands between its options, or at a number off the grid."""
        if node.found is not None and self.moves.allowed[node.row].any():
            return [node._replace(found=None)]
        if found is None:
            return []
        row, z, node = np.array([node.row]), found.point[None], node._replace(bound=found.bound, found=None)
        split = self.split(row, z)[0]
        if split.any():
            g, j = self.choice(node, found.point, split)
            rest = node.upper.copy()
            rest[j] = 0.0
            at = self.groups[g][1]
            stay: Node | None = node._replace(upper=rest)
            if stay is not None and not rest[at].any():
                stay = self.fixed(stay, g, None)
            return [part for part in (self.fixed(node, g, j), stay) if part is not None]
        off = self.off_grid(row, z)[0]
        if not off.any() or node.bound >= (1 - GAP) * cutoff:
            return []
        return self._parts(node, found.point, off)

    def choice(self, node: Node, z: Floats, split: Mask) -> tuple[int, int]:
        """Return the block to be divided and the move that is made or not."""
        best = (-1.0, 0, 0)
        for g in np.flatnonzero(split).tolist():
            at = self.groups[g][1]
            open_ = at[node.upper[at] > 0]
            j = open_[np.lexsort((self.weights[open_], -z[open_]))[0]]
            best = max(best, (float(min(z[j], 1 - z[j]) * self.weights[j]), g, int(j)))
        return best[1], best[2]

    def _parts(self, node: Node, z: Floats, off: Mask) -> list[Node]:
        """Divide a node at the value that costs most to round; one that stays may lie off the grid."""
        ways, x = np.array([[-1], [1]]), self.U[node.row]
        below, above = self.grid.on_grid(np.stack([z, z]), ways)
        k = int(np.where(off, self.weights * np.minimum(z - below, above - z), -1.0).argmax())
        ends = [(node.lower[k], below[k]), (above[k], node.upper[k])]
        if below[k] < x[k] < above[k]:
            ends.append((x[k], x[k]))
        parts = []
        for low, high in ends:
            if low <= high:
                lower, upper = node.lower.copy(), node.upper.copy()
                lower[k], upper[k] = low, high
                parts.append(Node(node.row, lower, upper, node.bound, fine=True))
        return parts
