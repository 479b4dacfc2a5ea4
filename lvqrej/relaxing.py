"""Relaxations: what no answer can beat, the lower bounds of branch and bound.

The product gamma (d+ + d-) is replaced by what it is at least within a box of budgets and the radius
searched:

    gamma (d+ + d-) >= l (d+ + d-) + (gamma - l) sum_low        for gamma >= l >= 0
    gamma (d+ + d-) >= l sum_high + (gamma - l) sum_low         for gamma >= l, l < 0

both convex in x and gamma together. A constraint with l < 0 is dropped where sum_high is infinite, never
tightened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lvqrej.budgets import closed_forms, gamma, share
from lvqrej.interior import Solution
from lvqrej.joint import NARROW, Joint, Node, Point
from lvqrej.programs import Convex, joined, without_budgets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Relative gap at which a relaxation counts as solved.
_SOLVED = 1e-5
#: How often a relaxation is tightened before its node is divided.
_ROUNDS = 3


class Relaxing(Joint):
    """The relaxations of one sample's problem."""

    def roots(self) -> Iterator[tuple[float, Node]]:
        """Return one node per class that can be certain enough at all."""
        for label in self.labels:
            of, b = self.classes[label], self.shifts(label)
            low = share(np.ones(len(of.a)), of.a, b)
            total = self.total(label)
            if not low.sum() <= total or self.log_kappa == -np.inf:
                continue
            targets = tuple(owns[0] if len(owns) == 1 else -1 for owns in of.owns)
            node = Node(label, targets, low, self.highest(label, low, np.inf))
            yield self._closed_form(node, gamma(node.high, of.a, b)), node

    def relax(self, node: Node, cutoff: float) -> tuple[float, Point | None]:
        """Bound the node from below; no point if nothing of it is nearer than `cutoff`."""
        of, b = self.classes[node.label], self.shifts(node.label)
        sum_low, sum_high, _, score_high = self.region(node.label, cutoff)
        best = self._best(of, score_high, node.targets)
        low = np.maximum(node.low, share(best, of.a, b) * (1 - 1e-12))
        high = np.minimum(node.high, self.highest(node.label, low, cutoff))
        if (high < low * (1 - NARROW)).any():
            return cutoff, None
        high = np.maximum(high, low)
        least = gamma(high, of.a, b)
        bound = self._closed_form(node, least)
        if bound >= cutoff:
            return bound, None
        varies = (high - low > NARROW * high) & (np.array(node.targets) >= 0)
        if varies.sum() < 2 or high.sum() <= self.total(node.label):
            varies[:] = False
        if node.sums is not None:
            sum_low = np.maximum(sum_low, node.sums)
        rows, program = self._relaxed(node, least, (low, high), varies, sum_low, sum_high)
        solution = self._solved(program, cutoff, _SOLVED)
        if varies.any() and cutoff < np.inf:
            for _ in range(_ROUNDS):
                sums = self._raised(node.label, rows, program, solution, sum_low, cutoff)
                if sums is None:
                    break
                sum_low = sums
                rows, program = self._relaxed(node, least, (low, high), varies, sum_low, sum_high)
                solution = self._solved(program, cutoff, _SOLVED)
        budgets = high.copy()
        budgets[varies] *= solution.budgets
        point = Point(solution.beta, budgets, (low, high), rows, solution.multipliers[: len(rows)], sum_low)
        return max(bound, solution.bound), point

    def _raised(
        self, label: int, rows: Ints, program: Convex, solution: Solution, sum_low: Floats, cutoff: float
    ) -> Floats | None:
        """Raise the lower ends of sums d+ + d- that blur the relaxation most; None if nothing is gained.

        Where the relaxation cut by d+ + d- <= t has no point nearer than the cutoff, the sum exceeds t.
        """
        of, v = self.classes[label], self.view
        room = cutoff * (1 - self.gap) - solution.bound
        if room <= 0:
            return None
        _, sums, _ = self.scores(label, solution.beta)
        n = len(rows)
        spent = np.where(program.budget[:n] >= 0, -np.log(solution.budgets[program.budget[:n]]), 0.0)
        blur = (
            solution.multipliers[:n]
            * spent
            * np.maximum(sums[rows] - sum_low[rows], 0.0)
            / of.a[of.pair[rows]]
        )
        raised = sum_low.copy()
        for i in np.argsort(-blur):
            c = rows[i]
            if blur[i] < 0.1 * max(blur.sum(), room):
                break
            p, q = of.own[c], of.other[c]
            both, near = v.u[p] + v.u[q], v.squares[p] + v.squares[q]
            for part in (0.1, 0.4):
                t = sums[c] - part * (sums[c] - sum_low[c])
                ball = without_budgets(
                    v.site_metric[p : p + 1], np.array([2.0]), both[None], np.array([near - t]),
                    np.array([near + t]), np.sqrt(v.squares[p : p + 1]) + np.sqrt(v.squares[q]),
                )  # fmt: skip
                cut = joined(program, ball)
                if self._solved(cut, cutoff, _SOLVED).bound >= cutoff:
                    raised[c] = t
                    break
        return raised if (raised > sum_low).any() else None

    def _relaxed(
        self,
        node: Node,
        least: Floats,
        box: tuple[Floats, Floats],
        varies: NDArray[np.bool_],
        sum_low: Floats,
        sum_high: Floats,
    ) -> tuple[Ints, Convex]:
        """Return the comparisons of a relaxation and its program; budgets in units of their upper ends."""
        of, b, (low, high) = self.classes[node.label], self.shifts(node.label), box
        rows = self._rows(node.label, node.targets)
        rows = rows[(least[of.pair[rows]] > -1) & ((least[of.pair[rows]] >= 0) | (sum_high[rows] < np.inf))]
        j = of.pair[rows]
        flat = least[j] < 0
        s, C, g, size, reach, metric = self._balls(node.label, rows, np.where(flat, 0.0, least[j]))
        # Below 0 the product gamma (d+ + d-) is at least gamma times the largest sum: a half-space.
        reduced = np.where(flat, least[j] * np.where(flat, sum_high[rows], 0.0), 0.0)
        negative = flat & (gamma(np.maximum(low, 1e-300), of.a, b)[j] <= 0)
        slope = np.where(negative, sum_high[rows], sum_low[rows])
        index = np.cumsum(varies) - 1
        program = Convex(
            np.where(flat, -1, metric), s, C, g + reduced, size - reduced, reach,
            np.where(varies[j], np.where(varies[j], slope, 0.0) / of.a[j], 0.0),
            np.where(varies[j], index[j], -1),
            high[varies], low[varies] / high[varies], np.ones(int(varies.sum())),
            self.total(node.label) - float(low[~varies].sum()),
        )  # fmt: skip
        return rows, program

    def _closed_form(self, node: Node, least: Floats) -> float:
        """Return the largest over rivals of the smallest over targets of what one comparison alone asks."""
        of, v = self.classes[node.label], self.view
        if not len(of.a):
            return 0.0
        alone = closed_forms(
            of.own,
            of.other,
            v.site_metric[of.own],
            of.separation,
            least[of.pair],
            v.u,
            v.squares,
            v.diagonal,
            v.lo,
            v.hi,
        )
        best = np.full(len(of.a), np.inf)
        for j, row in of.choices:
            if node.targets[j] < 0 or of.own[row[0]] == node.targets[j]:
                best[j] = min(best[j], alone[row].max())
        return float(best.max())

    def branch(self, node: Node, relaxed: Point | None) -> list[Node]:
        """Choose the target of a rival that is not met, else divide the budget that is relaxed most."""
        if relaxed is None:
            return []
        of, b = self.classes[node.label], self.shifts(node.label)
        each, sums, scores = self.scores(node.label, relaxed.beta)
        taken = share(scores, of.a, b)
        open_rivals = [j for j, p in enumerate(node.targets) if p < 0]
        if open_rivals:
            j = max(open_rivals, key=lambda j: taken[j])
            if taken.sum() > self.total(node.label):
                targets = [(*node.targets[:j], p, *node.targets[j + 1 :]) for p in of.owns[j]]
                low, high = relaxed.box
                return [replace(node, targets=t, low=low, high=high, sums=relaxed.sums) for t in targets]
        error = np.zeros(len(of.a))
        for c, lam in zip(relaxed.rows, relaxed.multipliers, strict=True):
            j = of.pair[c]
            asked = gamma(relaxed.budgets[j : j + 1], of.a[j : j + 1], b[j : j + 1])[0]
            error[j] += max(lam, 0.0) * max(asked - each[c], 0.0) * sums[c]
        low, high = relaxed.box
        width = high - low
        error[width < NARROW * high] = 0.0
        if not error.any():
            error = width / high
        j = int(error.argmax())
        if width[j] < NARROW * high[j]:
            return []
        middle = min(max(relaxed.budgets[j], low[j] + 0.05 * width[j]), high[j] - 0.05 * width[j])
        below, above = high.copy(), low.copy()
        below[j], above[j] = middle, middle
        return [
            replace(node, low=low, high=below, sums=relaxed.sums),
            replace(node, low=above, high=high, sums=relaxed.sums),
        ]
