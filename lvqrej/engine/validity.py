"""Answers that pass the option's own test in floating point, without tolerance.

The nearest point lies on the boundary, where a hair decides. The search therefore aims inside by what
rounding can add up to; the option tests the result; what still fails is aimed further inside, four times each
time. The lower bound is that of the cells as they are, so nothing of this is hidden from the gap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.cells import Cells
from lvqrej.certainty import Certainty
from lvqrej.engine.requirements import Requirements
from lvqrej.engine.search import ACCEPTED, NONE, START, Found
from lvqrej.projection import ROUNDING, nearest_points

Floats = NDArray[np.float64]

#: How far inside to aim, try after try, in units of rounding.
_LADDER = tuple(4.0**k for k in range(18))
#: Where that leaves a relative gap, because the cell is hardly thicker than rounding: less, try after try.
_LOOSE, _CLOSER = 1e-7, (0.0, 1 / 64, 1 / 16, 1 / 4)
#: A set without interior (theta = 1, bounds that just touch it) is met only if rounding is forgiven.
_FORGIVING = (0.0, -1 / 16, -1.0, -16.0, -64.0)


class Answers(NamedTuple):
    """Arrays over the samples of a batch."""

    points: Floats  # (n, d)
    distances: Floats
    bounds: Floats
    certainties_before: Floats
    certainties: Floats
    labels: NDArray[Any]
    found: NDArray[np.bool_]
    cells: NDArray[np.int64]
    paths: NDArray[np.int64]


def valid_answers(option: Certainty, theta: float, union: Any, required: Requirements, X: Floats) -> Answers:
    """Return the nearest valid counterfactuals of the rows of X."""
    n, d = X.shape
    lower, upper = required.box(X)
    start = np.minimum(np.maximum(X, lower), upper)
    before, labels, own = judge(option, theta, required, X)
    state = Answers(
        np.full((n, d), np.nan), np.full(n, np.inf), np.zeros(n), before, before.copy(), labels,
        np.zeros(n, dtype=bool), np.full(n, -1, dtype=np.int64), np.full(n, NONE, dtype=np.int64),
    )  # fmt: skip
    possible = (lower <= upper).all(axis=1)
    own &= possible & (start == X).all(axis=1)
    state.points[own], state.distances[own], state.bounds[own] = X[own], 0.0, 0.0
    state.found[own], state.paths[own] = True, ACCEPTED
    pending = np.flatnonzero(possible & ~own)
    _climb(option, theta, union, required, X, start, lower, upper, pending, _LADDER, state)
    rest = pending[_is_loose(state)[pending]]
    if isinstance(union, Cells):
        _climb(
            option, theta, union, required, X, start, lower, upper, rest[state.found[rest]], _CLOSER, state
        )
    missed = rest[~state.found[rest]]
    _climb(option, theta, union, required, X, start, lower, upper, missed, _FORGIVING, state)
    if isinstance(union, Cells):
        for i in rest[_is_loose(state)[rest]]:
            _settle_on_a_site(option, theta, union, required, X, lower, upper, i, state)
    state.bounds[~state.found] = np.inf
    return state


def _is_loose(state: Answers) -> NDArray[np.bool_]:
    """Return whether an answer is missing, or has a gap."""
    return ~state.found | (state.bounds < (1 - _LOOSE) * state.distances)


def _settle_on_a_site(
    option: Certainty,
    theta: float,
    union: Cells,
    required: Requirements,
    X: Floats,
    lower: Floats,
    upper: Floats,
    i: int,
    state: Answers,
) -> None:
    """Answer sample i by the nearest accepted site, as far as it may go there, if that is nearer.

    Where cells have shrunk to their sites (theta = 1, and just below) no search meets their digits.
    """
    cells = np.flatnonzero(np.diff(union.start) > 0)
    sites = union.near[union.start[cells]]
    cells, sites = cells[sites >= 0], sites[sites >= 0]
    points = np.clip(union.sites[sites], lower[i], upper[i])
    certainty, labels, passed = judge(option, theta, required, points)
    distances = np.where(passed, (np.abs(points - X[i]) * required.weights).sum(axis=1), np.inf)
    if not (distances < state.distances[i]).any():
        return
    k = int(distances.argmin())
    state.points[i], state.distances[i], state.found[i] = points[k], distances[k], True
    state.cells[i], state.paths[i] = cells[k], START
    state.certainties[i], state.labels[i] = certainty[k], labels[k]
    state.bounds[i] = min(state.bounds[i], distances[k])


def judge(
    option: Certainty, theta: float, required: Requirements, points: Floats
) -> tuple[Floats, NDArray[Any], NDArray[np.bool_]]:
    """Return certainty and label of each point and whether it is a valid answer."""
    if len(points) == 0:
        return np.empty(0), option.classes[:0], np.zeros(0, dtype=bool)
    certainty, labels = option.certainty_and_labels(points)
    plain = type(option).accepts is Certainty.accepts  # then its test is a comparison, no second evaluation
    valid = certainty >= theta if plain else option.accepts(points, theta)
    if required.target is not None:
        valid &= labels == option.classes[required.target]
    if len(required.b):
        valid &= required.linear(points)
    return certainty, labels, valid


def is_valid(option: Certainty, theta: float, required: Requirements, points: Floats) -> NDArray[np.bool_]:
    """Return whether the option accepts each point, as the target if there is one, within the constraints."""
    return judge(option, theta, required, points)[2]


def nearest(union: Any, *arguments: Any) -> Found:
    """Find nearest points, compiled for `Cells`, by its own method for any other accepted set."""
    return nearest_points(union, *arguments) if isinstance(union, Cells) else union.nearest(*arguments)


def _on_equalities(
    option: Certainty, theta: float, required: Requirements, z: Floats, x: Floats, low: Floats, high: Floats
) -> Floats:
    """Return z moved by last digits until it meets the equalities and is valid, or z itself if that fails."""
    moved = required.meeting(z, x, low, high)
    return next((point for point in moved if is_valid(option, theta, required, point[None])[0]), z)


def _climb(
    option: Certainty,
    theta: float,
    union: Any,
    required: Requirements,
    X: Floats,
    start: Floats,
    lower: Floats,
    upper: Floats,
    pending: NDArray[np.intp],
    ladder: tuple[float, ...],
    state: Answers,
) -> None:
    """Aim further and further inside until each pending sample has an answer that passes, or none is left."""
    for step in ladder:
        if len(pending) == 0:
            return
        rounding = step * ROUNDING
        x, begin, low, high = X[pending], start[pending], lower[pending], upper[pending]
        found = nearest(union, begin, required.weights, low, high, rounding, rounding)
        reached = found.distances < np.inf
        points = np.minimum(np.maximum(begin + found.deltas, low), high)
        points[~reached] = begin[~reached]
        if len(required.b) and len(required.equalities):
            for i in np.flatnonzero(reached):
                points[i] = _on_equalities(option, theta, required, points[i], x[i], low[i], high[i])
        certainty, labels, passed = judge(option, theta, required, points)
        passed &= reached
        if ladder is _FORGIVING and isinstance(union, Cells):
            tried = reached & ~passed
            snapped = union.snapped(found.cells[tried], points[tried], begin[tried])
            points[tried] = np.clip(snapped, low[tried], high[tried])
            certainty[tried], labels[tried], passed[tried] = judge(option, theta, required, points[tried])
        moved = (np.abs(begin - x) * required.weights).sum(axis=1)
        state.bounds[pending] = np.maximum(state.bounds[pending], moved + found.bounds)
        distances = (np.abs(points - x) * required.weights).sum(axis=1)
        passed &= distances < state.distances[pending]
        rows = pending[passed]
        state.points[rows], state.distances[rows] = points[passed], distances[passed]
        state.found[rows], state.cells[rows] = True, found.cells[passed]
        state.paths[rows], state.certainties[rows] = found.paths[passed], certainty[passed]
        state.labels[rows] = labels[passed]
        state.bounds[rows] = np.minimum(state.bounds[rows], state.distances[rows])
        if ladder is not _FORGIVING:  # there the next step may do better still
            pending = pending[reached & ~passed]
