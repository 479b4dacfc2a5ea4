"""Answers in values that can be recorded: whole numbers, or so many decimals.

Branch and bound over boxes, all samples of a batch in lock-step. Where the nearest answer of a box has a
changed value between two of the grid, the box is divided there; rounding gives answers on the way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.cells import AcceptedSet, Floats, Ints, Margin

#: Rounds, in each of which a node of each sample is divided: at most so many, and of wide boxes fewer, so
#: many numbers in all; the same where a search takes long itself.
ROUNDS, NUMBERS, SLOW_ROUNDS = 40, 640, 4
#: The relative gap at which a sample is done: less than this is not worth a change of another feature.
GAP = 1e-2
#: So many corners of the noise are tried on an answer of the grid.
_DRAWS = 8


class Node(NamedTuple):
    """A box, a bound of its answers on the grid, and its nearest answer on and off it."""

    lower: Floats  # (d,)
    upper: Floats
    bound: float
    point: Floats  # (d,)
    cell: int
    path: int


def put_on_grid(
    query: Any, accepted: AcceptedSet, answers: Any, box: tuple[Floats, Floats], margin: Margin
) -> None:
    """Replace answers, in place, by the nearest ones whose changed values are multiples of the steps.

    Their bounds become those of all such answers. A sample keeps what it has if none is found in time.

    Parameters
    ----------
    query : Query
    accepted : AcceptedSet
    answers : Answers
        The nearest ones of all.
    box : pair of arrays (n, d)
        The lowest and highest values of each sample's answer.
    margin : float or array of shape (n,)
        How far inside to aim.
    """
    X, required, (lower, upper) = query.samples, query.required, box
    weights, best, closed = required.weights, np.full(len(X), np.inf), np.full(len(X), np.inf)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_DRAWS, X.shape[1]))
    margins = np.broadcast_to(margin, len(X))
    nodes: dict[int, list[Node]] = {}

    def off_grid(rows: Any, Z: Floats) -> NDArray[np.bool_]:
        return np.not_equal(Z, X[rows]) & np.not_equal(Z, required.on_grid(Z))

    def holds(rows: Ints, Z: Floats) -> NDArray[np.bool_]:
        """Return whether points stay valid at some corners of the noise."""
        corners = [query.judged(Z * (1 + query.noise * sign), X[rows])[1] for sign in signs]
        return (query.noise > 0) & np.all(corners, axis=0)

    def enter(rows: Ints, new: list[Node]) -> None:
        """Round the answers of new nodes in two ways; keep those of which the grid may have nearer ones."""
        Z = np.array([node.point for node in new])
        off = off_grid(rows, Z)
        for way in (np.sign(Z - X[rows]), 0):
            points = np.where(off, required.on_grid(Z, way), Z)
            verdicts, valid = query.judged(points, X[rows])
            valid &= ((lower[rows] <= points) & (points <= upper[rows])).all(axis=1)
            distances = (np.abs(points - X[rows]) * weights).sum(axis=1)
            firm = valid & holds(rows, points) if valid.any() else valid
            for k in np.flatnonzero(valid):
                i = rows[k]
                surer = firm[k] and (best[i] == np.inf or not answers.firm[i])
                if surer or ((firm[k] == answers.firm[i] or best[i] == np.inf) and distances[k] < best[i]):
                    best[i] = answers.distances[i] = distances[k]
                    answers.counterfactuals[i], answers.certainties[i] = points[k], verdicts.certainty[k]
                    answers.labels[i] = query.option.classes[verdicts.label[k]]
                    answers.cells[i], answers.path_codes[i] = new[k].cell, new[k].path
                    answers.firm[i] = firm[k]
        for i, node, divisible in zip(rows.tolist(), new, off, strict=True):
            if divisible.any():
                nodes.setdefault(i, []).append(node)
            else:
                closed[i] = min(closed[i], node.bound)

    given = np.where(answers.found[:, None], answers.counterfactuals, X)
    rows = np.flatnonzero(off_grid(slice(None), given).any(axis=1))
    columns = lower, upper, answers.lower_bounds, given, answers.cells, answers.path_codes
    if len(rows):
        enter(rows, [Node(*(column[i] for column in columns)) for i in rows])
    for _ in range(SLOW_ROUNDS if accepted.gap > 0 else min(ROUNDS, max(4, NUMBERS // X.shape[1]))):
        divided: list[tuple[int, Node]] = []
        for i, mine in nodes.items():
            mine.sort(key=lambda node: -node.bound)
            if mine and mine[-1].bound < (1 - GAP) * best[i]:
                node = mine.pop()
                divided += [(i, part) for part in _parts(node, X[i], off_grid(i, node.point), required)]
        if not divided:
            break
        rows = np.array([i for i, _ in divided])
        low, high, bounds = (
            np.array(part) for part in list(zip(*(node for _, node in divided), strict=True))[:3]
        )
        start = np.clip(X[rows], low, high)
        found = accepted.nearest(start, weights, low, high, margins[rows])
        bounds = np.maximum(bounds, (np.abs(start - X[rows]) * weights).sum(axis=1) + found.bounds)
        points, there = np.clip(start + found.changes, low, high), found.distances < np.inf
        np.minimum.at(closed, rows[~there], bounds[~there])
        columns = low, high, bounds, points, found.cells, found.paths
        if there.any():
            enter(rows[there], [Node(*(column[k] for column in columns)) for k in np.flatnonzero(there)])
    for i, mine in nodes.items():
        bound = min(best[i], closed[i], *(node.bound for node in mine), np.inf)
        answers.lower_bounds[i] = max(answers.lower_bounds[i], bound)


def _parts(node: Node, x: Floats, off: NDArray[np.bool_], required: Any) -> list[Node]:
    """Divide a node at the value that costs most to round; one that stays may lie off the grid."""
    z, ways = node.point, np.array([[-1], [1]])
    below, above = required.on_grid(np.stack([z, z]), ways)
    k = int(np.where(off, required.weights * np.minimum(z - below, above - z), -1.0).argmax())
    ends = [(node.lower[k], below[k]), (above[k], node.upper[k])]
    if below[k] < x[k] < above[k]:
        ends.append((x[k], x[k]))
    parts = []
    for low, high in ends:
        if low <= high:
            part = node._replace(lower=node.lower.copy(), upper=node.upper.copy())
            part.lower[k], part.upper[k] = low, high
            parts.append(part)
    return parts
