"""The nearest input that is probable enough as some class, as a problem for branch and bound.

A node is a class i, a target prototype in each of its pairwise models (or none yet) and a box of budgets.
With d+ = d(x, p_own), d- = d(x, p_other), score s = (d- - d+) / (d- + d+) and gamma the score that a budget
asks for, all of

    d+ - d- + gamma (d+ + d-) <= 0        sum_j w_j(gamma_j) <= 1

is a program over x *and* gamma. Its only product is relaxed, gamma (d+ + d-) >= l (d+ + d-) + (gamma - l)
sum_low for gamma >= l >= 0, which is convex; and it is restricted to a convex one by fixing the budgets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.budgets import Rivals, apollonius, comparisons, regions
from lvqrej.interior import Solution, interior_point
from lvqrej.programs import Convex, joined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Budgets narrower than this, relatively, are as good as fixed.
NARROW = 1e-9


class View(NamedTuple):
    """Sites and further constraints as one sample sees them, in scaled changes beta = w delta."""

    u: Floats  # (S, d) M'L (site - x)
    squares: Floats  # (S,) |L (site - x)|^2
    site_metric: Ints  # (S,)
    G: Floats  # (M, d, d) Gram matrices M'M
    diagonal: Floats  # (M, d)
    lo: Floats  # (d,)
    hi: Floats  # (d,)
    extra: Convex  # further constraints, without budgets


@dataclass(frozen=True, eq=False)
class Node:
    """A class, its target sites (-1 if open) and a box of budgets."""

    label: int
    targets: tuple[int, ...]
    low: Floats
    high: Floats
    sums: Floats | None = None  # lower ends of d+ + d- where they are known better


@dataclass(frozen=True, eq=False)
class Point:
    """Where a program ended: changes, budgets, and how much each comparison weighs."""

    beta: Floats
    budgets: Floats
    box: tuple[Floats, Floats]
    rows: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    multipliers: Floats = field(default_factory=lambda: np.empty(0))
    sums: Floats | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A convex cell of valid inputs: a class, its targets, budgets, and where tangents touch."""

    label: int
    targets: tuple[int, ...]
    budgets: Floats
    beta: Floats


class Joint:
    """What all views of one sample's problem share: what the classes ask for, as the sample sees it.

    Parameters
    ----------
    classes : list of Rivals
        One per class.
    labels : sequence of int
        The classes to be accepted as.
    log_kappa : float
    view : View
    """

    def __init__(
        self, classes: list[Rivals], labels: tuple[int, ...], log_kappa: float, view: View, gap: float = 1e-3
    ) -> None:
        self.gap = gap
        self.classes, self.labels, self.view, self.log_kappa = classes, labels, view, log_kappa
        self._regions: tuple[float, dict[int, tuple[Floats, ...]]] = (np.inf, {})

    def shifts(self, label: int) -> Floats:
        """Return b = beta - log kappa of each rival."""
        return self.classes[label].beta - self.log_kappa

    def total(self, label: int) -> float:
        """Return what is left for budgets when the pairs that tell nothing have taken their share."""
        return 1 - self.classes[label].constant * float(np.exp(-self.log_kappa))

    def region(self, label: int, radius: float) -> tuple[Floats, ...]:
        """Return the ranges of sums and scores of all comparisons within the radius."""
        if self._regions[0] != radius:
            self._regions = (radius, {})
        known = self._regions[1]
        if label not in known:
            of, v = self.classes[label], self.view
            known[label] = regions(
                of.own,
                of.other,
                v.site_metric[of.own],
                of.separation,
                v.u,
                v.squares,
                v.diagonal,
                v.lo,
                v.hi,
                radius,
            )
        return known[label]

    def scores(self, label: int, beta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return at beta the score and the sum of each comparison, and the score of each rival."""
        of, v = self.classes[label], self.view
        each, sums = comparisons(of.own, of.other, v.site_metric, v.u, v.squares, v.G, beta)
        return each, sums, self._best(of, each)

    @staticmethod
    def _best(of: Rivals, each: Floats, targets: tuple[int, ...] | None = None) -> Floats:
        """Return the largest over targets (one if chosen) of the smallest over what it has to win against."""
        best = np.full(len(of.a), -np.inf)
        for j, row in of.choices:
            if targets is None or targets[j] < 0 or of.own[row[0]] == targets[j]:
                best[j] = max(best[j], each[row].min())
        return best

    def highest(self, label: int, low: Floats, radius: float) -> Floats:
        """Return the largest budgets when all others take their least."""
        return self.total(label) - (low.sum() - low)

    def _rows(self, label: int, targets: tuple[int, ...]) -> Ints:
        """Return the comparisons of the chosen targets, without twins, whose score is 0 everywhere."""
        of = self.classes[label]
        return np.flatnonzero((of.own == np.array(targets)[of.pair]) & (of.separation > 0))

    def _balls(
        self, label: int, rows: Ints, level: Floats
    ) -> tuple[Floats, Floats, Floats, Floats, Floats, Ints]:
        """Return s, C, g, the sizes of their terms and the metric of (1 + l) d+ - (1 - l) d- <= 0."""
        of, v = self.classes[label], self.view
        return apollonius(of.own[rows], of.other[rows], level, v.site_metric, v.u, v.squares)

    def _solved(self, program: Convex, cutoff: float, tolerance: float) -> Solution:
        """Solve a program together with the further constraints."""
        extra, v = self.view.extra, self.view
        if len(extra.g):
            program = joined(program, extra)
        if len(program.g) == 0 or (not len(program.cost) and (program.g <= 0).all()):
            d = len(v.lo)
            return Solution(0.0, np.zeros(d), np.ones(len(program.cost)), np.zeros(len(program.g)), 0.0, 0)
        return interior_point(v.G, program, v.lo, v.hi, cutoff, tolerance)
