"""The fewest features that have to change, by implicit hitting sets.

If the features of a set T cannot do it alone, every answer changes one outside T: what answers change hits
the complements of all such T. A mixed-integer program (HiGHS) finds the smallest set that hits all of them
known so far; if it can do it, no smaller set can; if not, it grows to a maximal T, one more to hit.

The same with a distance instead of "cannot": sets that cannot do it nearer than the best answer known. When
no set of the present size is left, the best answer is the nearest among all of that many features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from lvqrej.varying.reach import Answer, Reach

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Features count as unable if no change of theirs is shorter than this many times the nearest answer.
FAR = 1e6
#: Relative gap of a single answer up to which a set may still be grown.
_LOOSE = 2e-3


class Unable(NamedTuple):
    """Features that cannot do it alone, at least not nearer than `bound`."""

    features: Mask
    bound: float


def fewest_changes(reach: Reach, effort: int, curve: bool = False) -> list[Answer]:
    """Return the nearest answer of the fewest features; with `curve` then of every larger number that helps.

    `fewest` of an answer is the proven number of features that any answer has to change (by less than `FAR`
    times the nearest answer's distance); `bound` holds for all answers of as many features as this one.
    After `effort` sets tried the best answer so far is returned, with what is proven.
    """
    nearest = reach.answer(reach.lower, reach.upper)
    if nearest.point is None:
        return []
    search = _Search(reach, nearest)
    levels: list[Answer] = []
    for _ in range(effort):
        chosen = search.smallest()
        if search.best is not None and (chosen is None or chosen.sum() > search.size):
            levels.append(search.level())
            if not curve or chosen is None or search.best is nearest:
                return levels
        assert chosen is not None  # without an answer so far not all sets can be excluded
        search.try_out(chosen)
    if search.best is None:
        search.best = nearest
    last = search.level(proven=False)
    return levels if levels and last.distance >= levels[-1].distance else [*levels, last]


class _Search:
    """Sets tried so far, the best answer among them, and the size they have reached."""

    def __init__(self, reach: Reach, nearest: Answer) -> None:
        self.reach, self.nearest = reach, nearest
        assert nearest.point is not None
        self.count = int((nearest.point != reach.x).sum())
        self.best: Answer | None = nearest if self.count == 0 else None
        self.size = 0
        self.unable: list[Unable] = []
        # Sets grow best by features that change little in the nearest answer.
        self.order = np.argsort(np.abs(nearest.point - reach.x) * reach.required.weights, kind="stable")

    def smallest(self, proven: bool = False) -> Mask | None:
        """Return the smallest set of features that hits all complements; None if there is none."""
        reach = self.reach
        if self.best is self.nearest and self.size == 0:
            return None
        known = [one for one in self.unable if not proven or one.bound >= self._far]
        rows = np.array([reach.free, *(~one.features & reach.free for one in known)])
        if not rows.any(axis=1).all():
            return None
        guess = self._greedy(rows)
        if not proven and guess.sum() <= self.size:
            return guess  # a smaller set has been excluded before
        low = reach.forced.astype(float)
        solved = milp(
            np.ones(len(low)),
            constraints=LinearConstraint(rows.astype(float), lb=1.0),
            integrality=np.ones(len(low)),
            bounds=Bounds(low, np.maximum(low, reach.free.astype(float))),
        )
        if solved.x is None:
            raise RuntimeError(f"HiGHS found no hitting set: {solved.message}")
        return np.asarray(solved.x > 0.5)

    def _greedy(self, rows: Mask) -> Mask:
        """Return a set that hits all rows, by the feature that hits most of what is left, again and again."""
        chosen = self.reach.forced.copy()
        left = rows[~rows[:, chosen].any(axis=1)]
        while len(left):
            feature = int(self.order[::-1][left.sum(axis=0)[self.order[::-1]].argmax()])
            chosen[feature] = True
            left = left[~left[:, feature]]
        return chosen

    @property
    def _far(self) -> float:
        return FAR * self.nearest.distance

    def try_out(self, chosen: Mask) -> None:
        """Ask for the nearest answer of these features; keep it if it is better, and exclude its like."""
        self.size = int(chosen.sum())
        if self.count <= self.size:  # no answer of any number of features is nearer
            self.best = self.nearest
            self.unable.append(Unable(self.reach.free, self.nearest.bound))
            return
        found = self.reach.answer(*self.reach.within(chosen))
        if found.point is not None and (self.best is None or found.distance < self.best.distance):
            self.best = found
        goal = self._far if self.best is None else self.best.distance
        bound = self.reach.bound(*self.reach.within(chosen))
        if bound >= (1 - _LOOSE) * goal:
            self._grow(chosen, min(bound, goal * (1 - 1e-9)))
        else:
            self.unable.append(Unable(chosen, bound))

    def _grow(self, chosen: Mask, goal: float) -> None:
        """Add features as long as none of their changes is shorter than `goal`."""
        reach, best = self.reach, chosen.copy()
        least = reach.bound(*reach.within(chosen))

        def grow(features: NDArray[np.intp]) -> None:
            nonlocal least
            wider = best.copy()
            wider[features] = True
            bound = reach.bound(*reach.within(wider))
            if bound >= goal:
                best[:], least = wider, bound
            elif len(features) > 1:
                grow(features[: len(features) // 2])
                grow(features[len(features) // 2 :])

        rest = self.order[(reach.free & ~chosen)[self.order]]
        if len(rest):
            grow(rest)
        self.unable.append(Unable(best, least))

    def level(self, proven: bool = True) -> Answer:
        """Return the best answer of the present size with what is proven about it."""
        assert self.best is not None
        fewest = 0
        if self.best.distance > 0:
            surely = self.smallest(proven=True)
            fewest = self.size if surely is None else min(int(surely.sum()), self.size)
        bound = (
            min([one.bound for one in self.unable], default=self.best.bound) if proven else self.nearest.bound
        )
        return self.best._replace(
            fewest=fewest, bound=min(max(bound, self.nearest.bound), self.best.distance)
        )
