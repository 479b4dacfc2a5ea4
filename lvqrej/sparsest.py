"""The fewest features that have to change: all small sets of them at once, larger ones by hitting sets.

If the features of a set T cannot do it alone, every answer changes one outside T: what answers change hits
the complements of all such T. A mixed-integer program (HiGHS) finds a set of the present size that hits all
of them known so far; it is tried, and grows to a maximal T, one more to hit. If there is no such set, no set
of this size can do it.

The same with a distance instead of "cannot": sets that cannot do it nearer than the best answer known. When
no set of the present size is left, the best answer is the nearest among all of that many features.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from lvqrej.cells import AcceptedSet
from lvqrej.certainty import Certainty
from lvqrej.counterfactual import Answers, Query
from lvqrej.holding import smallest_hitting_set
from lvqrej.validation import Floats

Mask = NDArray[np.bool_]

#: Features count as unable if no change of theirs is shorter than this many times the nearest answer.
FAR = 1e6
#: If there are no more sets of a size than these, all are tried at once.
_AT_ONCE = 500
#: Distances with a smaller relative difference are the same.
_SAME = 1e-9
#: Relative gap of a single answer up to which a set may still be grown.
_LOOSE = 2e-3


class Reject:
    """A query of one sample and what it accepts: certified answers within any box around the sample.

    >>> from lvqrej import PrototypeModel, RelativeSimilarity
    >>> query = Query.of(RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"])), 0.6, [0.9, 0.0])
    >>> reject = Reject(query, query.accepted_set())
    >>> one_each = np.array([[True, False], [False, True]])
    >>> reject.answers(*reject.only(one_each)).distances.round(6), reject.bounds(*reject.only(one_each))[1]
    (array([0.233333,      inf]), np.float64(inf))
    """

    def __init__(self, query: Query, accepted: AcceptedSet) -> None:
        self.query, self.accepted, self.x = query, accepted, query.samples[0]
        (self.lower,), (self.upper,) = query.required.box(query.samples)

    def only(self, features: Mask, limit: float = np.inf) -> tuple[Floats, Floats]:
        """Return boxes (n, d) in which only these features (n, d) may change, at a cost of `limit` each.

        A box is empty where another feature has to change.
        """
        free = self.query.required.columns.spread(features)
        most = np.where(free, limit / self.query.required.weights, 0.0)
        return np.maximum(self.lower, self.x - most), np.minimum(self.upper, self.x + most)

    def changed(self, answers: Answers) -> Mask:
        """Return which features answers change, of shape (n, d)."""
        return self.query.required.columns.gathered(answers.counterfactuals != self.x)

    def answers(
        self,
        lower: Floats,
        upper: Floats,
        accepted: AcceptedSet | None = None,
        option: Certainty | None = None,
    ) -> Answers:
        """Return the nearest valid answers within boxes (n, d), of another set and option if given."""
        query = self.query._replace(option=option or self.query.option)
        return query.within(lower, upper, self.accepted if accepted is None else accepted)

    def bounds(self, lower: Floats, upper: Floats) -> Floats:
        """Return distances (n,) that no accepted point within boxes (n, d) can beat; infinity if none is."""
        return bounds_within(self.accepted, self.x, self.query.required.weights, lower, upper)


def bounds_within(accepted: AcceptedSet, X: Floats, weights: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return distances from X (n, d) that no accepted point within boxes (n, d) can beat, of shape (n,)."""
    start = np.clip(X, lower, upper)
    bounds = (np.abs(start - X) * weights).sum(axis=1)
    possible = (lower <= upper).all(axis=1)
    bounds[~possible] = np.inf
    if possible.any():
        start, lower, upper = start[possible], lower[possible], upper[possible]
        bounds[possible] += accepted.nearest(start, weights, lower, upper, 0.0).bounds
    return bounds


def sparsest_answer(query: Query, accepted: AcceptedSet, effort: int) -> tuple[Answers, int]:
    """Return the nearest answer of the fewest features, and how many have to change at least."""
    return fewest_changes(Reject(query, accepted), effort)[0]


def fewest_changes(reject: Reject, effort: int, curve: bool = False) -> list[tuple[Answers, int]]:
    """Return the nearest answer of the fewest features; with `curve` then of every larger number that helps.

    With each comes the proven number of features that any answer has to change (by less than `FAR` times the
    nearest answer's distance); its bound holds for all answers of as many features as this one. After
    `effort` tries the best answer so far is returned, with what is proven.
    """
    nearest = reject.answers(reject.lower[None], reject.upper[None])
    most = int(reject.changed(nearest).sum())
    if not nearest.found[0] or most == 0:
        return [(nearest, 0)]
    search = _Search(reject, nearest, effort)
    levels: list[tuple[Answers, int]] = []
    fewest = size = max(1, int(search.forced.sum()))
    while size < most and (curve or not levels):
        former, bound = search.best, search.exclude(size)
        if search.best is not None and search.best is not former:
            bounds = np.clip(bound or 0.0, nearest.lower_bounds, search.best.distances)
            levels.append((search.best._replace(lower_bounds=bounds), fewest))
        elif search.best is None and fewest == size and bound == search.goal:
            fewest += 1
        if bound is None:
            break
        size += 1
    if not levels or (curve and nearest.distances[0] < (1 - _SAME) * search.goal):
        levels.append((nearest, fewest))
    return levels


class _Search:
    """The best answer so far, and the sets of features that cannot do it nearer."""

    def __init__(self, reject: Reject, nearest: Answers, effort: int) -> None:
        self.reject, self.effort = reject, effort
        x, lower, upper = reject.x, reject.lower, reject.upper
        required = reject.query.required
        self.free = required.columns.gathered((lower < x) | (upper > x))
        self.forced = required.columns.gathered((lower > x) | (upper < x))
        # Sets grow best by features that change little in the nearest answer.
        self.order = np.argsort(required.costs(x[None], nearest.counterfactuals)[0], kind="stable")
        self.best: Answers | None = None
        self.goal = FAR * float(nearest.distances[0])  # what is to be undercut
        self.unable: list[tuple[Mask, float]] = []  # features, and a distance that they cannot undercut

    def exclude(self, size: int) -> float | None:
        """Try sets of a size until none is left that could be better; return a bound for all of them.

        It is None if the effort does not suffice.
        """
        others, number = np.flatnonzero(self.free & ~self.forced), size - int(self.forced.sum())
        if comb(len(others), number) <= _AT_ONCE:
            if self.effort < 1:
                return None
            self.effort -= 1
            indices = np.array(list(combinations(others, number)), dtype=np.intp)
            sets = np.repeat(self.forced[None], len(indices), axis=0)
            np.put_along_axis(sets, indices, True, axis=1)
            return float(self._tried(sets).min())
        while (chosen := self._hitting(size)) is not None:
            if self.effort < 1:
                return None
            self.effort -= 1
            (bound,) = self._tried(chosen[None])
            grows = bound >= (1 - _LOOSE) * self.goal
            self.unable.append(self._grown(chosen, bound) if grows else (chosen, bound))
        return min(bound for _, bound in self.unable)

    def _tried(self, sets: Mask) -> Floats:
        """Ask for the nearest answers of sets (n, d), keep a better one, and return bounds (n,)."""
        goal, found = self.goal, self.reject.answers(*self.reject.only(sets, self.goal))
        i = int(found.distances.argmin())
        if found.distances[i] < (1 - _SAME) * goal:
            self.best, self.goal = found.row(i), float(found.distances[i])
        return np.minimum(found.lower_bounds, goal)

    def _hitting(self, size: int) -> Mask | None:
        """Return a set (d,) of this size that hits the complements of all unable sets; None if none does."""
        rows = np.array([~features for features, _ in self.unable]).reshape(-1, len(self.free))
        chosen = smallest_hitting_set(rows, self.forced, ~self.free)
        if chosen is None or chosen.sum() > size:
            return None
        more = self.order[::-1][(self.free & ~chosen)[self.order[::-1]]]
        chosen[more[: size - int(chosen.sum())]] = True
        return chosen

    def _grown(self, chosen: Mask, bound: float) -> tuple[Mask, float]:
        """Add features to an unable set as long as it stays so; return it and its bound."""
        least = min(bound, (1 - _SAME) * self.goal)
        rest = self.order[(self.free & ~chosen)[self.order]]
        while n := len(rest):
            more = np.repeat(chosen[None], 2 * n, axis=0)
            more[:, rest] |= np.vstack([np.tri(n), np.eye(n)]) > 0  # the first ones, and each alone
            bounds = np.minimum(self.reject.bounds(*self.reject.only(more, self.goal)), self.goal)
            fits = bounds >= least
            i = n if fits[:n].all() else int(fits[:n].argmin())
            if i > 0:
                chosen, bound = more[i - 1], min(bound, float(bounds[i - 1]))
            rest = rest[i + 1 :][fits[n + i + 1 :]]
        return chosen, bound
