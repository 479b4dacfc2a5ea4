"""Restrictions: convex cells of valid answers, one for fixed budgets, and the budgets to bring them nearest.

With the budgets fixed every comparison with gamma >= 0 is a ball or a half-space; one with gamma < 0, the
outside of a ball, is cut down to its tangent at the point reached so far. Stationary budgets come from the
same program with the budgets free, linearised at that point: gamma (d+ + d-) ~ gamma0 (d+ + d-)(x) + (gamma
- gamma0) (d+ + d-)(x0). At its solution w_j is proportional to lam_j (d+ + d-) / a_j.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.budgets import gamma, share
from lvqrej.joint import Answer, Joint, Node, Point
from lvqrej.programs import Convex, without_budgets
from lvqrej.relaxing import Relaxing
from lvqrej.starts import along_one_feature, by_descent, log_doubt

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Relative gap at which a restriction counts as solved.
_SOLVED = 1e-8


class Restricting(Joint):
    """The restrictions of one sample's problem."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._retries = 8
        self._tried: set[tuple[int, ...]] = set()  # targets whose budgets have been made stationary

    def start(self) -> tuple[float, Answer | None]:
        """Return the best of the classes' answers that change one feature, else of descents on the doubt."""
        labels = [
            i
            for i in self.labels
            if self.log_kappa > -np.inf and self.total(i) > 0 and len(self.classes[i].a)
        ]
        for first_answer in (self._along, self._descended):
            changes = [(first_answer(label), label) for label in labels]
            known = [(float(np.abs(beta).sum()), label, beta) for beta, label in changes if beta is not None]
            if known:
                _, label, beta = min(known, key=lambda one: one[0])
                value, answer = self._polished(*self._fixed(self._around(label, beta)))
                if answer is not None:
                    self._tried.add(answer.targets)
                    return value, answer
        return np.inf, None

    def _along(self, label: int) -> Floats | None:
        v = self.view
        return along_one_feature(
            self.classes[label], self.shifts(label), self.total(label),
            v.site_metric, v.u, v.squares, v.diagonal, v.lo, v.hi,
        )  # fmt: skip

    def _descended(self, label: int) -> Floats | None:
        of, v = self.classes[label], self.view
        # M'M beta = u has the minimum-norm solution that leads to the site's image.
        sites = [np.linalg.lstsq(v.G[v.site_metric[s]], v.u[s], rcond=1e-12)[0] for s in np.unique(of.own)]
        middles = [(p + q) / 2 for p, q in combinations(sites, 2)]
        return by_descent(
            of, self.shifts(label), self.total(label), v.site_metric, v.u, v.squares, v.G, v.lo, v.hi,
            [np.zeros(len(v.lo)), *sites, *middles, np.mean(sites, axis=0)],
        )  # fmt: skip

    def restrict(self, node: Node, relaxed: Point | None, cutoff: float) -> tuple[float, Answer | None]:
        """Find a valid point: the budgets that the relaxation takes, then stationary ones."""
        if relaxed is None:
            return np.inf, None
        first = self._around(node.label, relaxed.beta, node.targets)
        value, answer, point = self._fixed(first)
        if first.targets in self._tried and not value < cutoff:
            # The outside of a ball has several nearest points: there another start may lead to another one.
            again = value < 1.05 * cutoff and self._retries > 0 and bool((self.cell(first)[1] < 0).any())
            self._retries -= again
            if not again:
                return value, answer
        self._tried.add(first.targets)
        return self._polished(value, answer, point)

    def _polished(self, value: float, answer: Answer, point: Point | None) -> tuple[float, Answer | None]:
        """Return the answer with stationary budgets: linearise, solve, keep what is nearer, else damp."""
        if point is None:
            return np.inf, None
        for _ in range(6):
            better = self._stationary(answer, point)
            new_value, new_answer, new_point = self._fixed(better)
            if not new_value < value * (1 + 1e-9):
                half = replace(better, budgets=np.sqrt(better.budgets * answer.budgets))
                new_value, new_answer, new_point = self._fixed(half)
            if new_point is None or not new_value < value:
                break
            done = new_value > value * (1 - 1e-7)
            value, answer, point = new_value, new_answer, new_point
            if done:
                break
        return value, answer

    def _fixed(self, answer: Answer) -> tuple[float, Answer, Point | None]:
        """Solve for fixed budgets; no point if that cell is empty."""
        rows, least = self.cell(answer)
        if (least >= 1).any():
            return np.inf, answer, None
        beta = answer.beta
        for _ in range(3):
            program = self._restricted(answer.label, rows, least, beta)
            solution = self._solved(program, np.inf, _SOLVED)
            if not solution.violation <= 1e-6 or solution.bound == np.inf:
                return np.inf, answer, None
            moved = float(np.abs(solution.beta - beta).sum())
            beta = solution.beta
            if (least >= 0).all() or moved <= 1e-9 * float(np.abs(beta).sum()):
                break
        lam = solution.multipliers[: len(rows)]
        value = float(np.abs(beta).sum())
        return (
            value,
            replace(answer, beta=beta),
            Point(beta, answer.budgets, (answer.budgets, answer.budgets), rows, lam),
        )

    def _restricted(self, label: int, rows: Ints, least: Floats, beta: Floats) -> Convex:
        s, C, g, size, reach, metric = self._balls(label, rows, least)
        out = least < 0
        if out.any():
            C[out], g[out] = self.tangents(label, rows[out], least[out], beta)
            s, metric = np.where(out, 0.0, s), np.where(out, -1, metric)
        return without_budgets(metric, s, C, g, size, reach)

    def cell(self, answer: Answer) -> tuple[Ints, Floats]:
        """Return the comparisons and the scores they have to reach in the cell of an answer."""
        of, b = self.classes[answer.label], self.shifts(answer.label)
        rows = self._rows(answer.label, answer.targets)
        least = gamma(answer.budgets, of.a, b)[of.pair[rows]]
        return rows[least > -1], least[least > -1]

    def tangents(self, label: int, rows: Ints, least: Floats, beta: Floats) -> tuple[Floats, Floats]:
        """Return C and g of half-spaces inside the sets with least < 0: the tangents at beta."""
        s, C, g, _, _, metric = self._balls(label, rows, least)
        image = np.array([self.view.G[m] @ beta for m in metric]).reshape(len(rows), len(beta))
        return C - s[:, None] * image, g - s * (image @ beta)

    def stretched(self, answer: Answer, beta: Floats) -> Floats:
        """Return the multiple of a change at which the doubt is just what is allowed (Newton)."""
        of, v = self.classes[answer.label], self.view
        b, limit, scale = self.shifts(answer.label), float(np.log(self.total(answer.label))), 1.0
        for _ in range(8):
            doubt, slope = log_doubt(
                scale * beta, of.pair, of.own, of.other, of.a, b, v.site_metric, v.u, v.squares, v.G
            )
            rate = float(slope @ beta)
            if not rate < 0 or abs(doubt - limit) > 0.1 * -rate:
                return beta
            step = (doubt - limit) / -rate
            scale += step
            if abs(step) <= 1e-15:
                break
        return np.asarray(scale * beta)

    def _around(self, label: int, beta: Floats, targets: tuple[int, ...] | None = None) -> Answer:
        """Return the cell around a change: its nearest targets (unless chosen), its shares as budgets."""
        of, b = self.classes[label], self.shifts(label)
        each, _, scores = self.scores(label, beta)
        chosen = list(targets) if targets is not None else [-1] * len(of.a)
        for j, row in of.choices:
            if (targets is None or targets[j] < 0) and (chosen[j] < 0 or each[row].min() == scores[j]):
                chosen[j] = int(of.own[row[0]])
        least = share(np.ones(len(of.a)), of.a, b)
        taken = np.maximum(share(self._best(of, each, tuple(chosen)), of.a, b), least)
        return Answer(label, tuple(chosen), self._scaled(label, taken, least), beta)

    def _scaled(self, label: int, wanted: Floats, least: Floats) -> Floats:
        """Return budgets of the wanted proportions beyond the least, with the right total."""
        spare, extra = self.total(label) - least.sum(), wanted - least
        if extra.sum() <= 0:
            return least + spare / max(len(least), 1)
        return least + extra * (spare / extra.sum())

    def _stationary(self, answer: Answer, point: Point) -> Answer:
        """Return the budgets of the linearised program, w_j proportional to lam_j (d+ + d-) / a_j."""
        of, b = self.classes[answer.label], self.shifts(answer.label)
        _, sums, scores = self.scores(answer.label, point.beta)
        rows, least = self.cell(answer)
        least_budget = share(np.ones(len(of.a)), of.a, b)
        ref = np.maximum(answer.budgets, 1e-300)
        low = np.maximum(np.maximum(ref / 8, least_budget * (1 + 1e-9)), 0.0)
        present = np.zeros(len(of.a), dtype=bool)
        present[of.pair[rows]] = True
        varies = (low < ref) & present
        rest = np.where(varies, 0.0, np.minimum(share(scores, of.a, b), ref))
        total = self.total(answer.label) - float(rest.sum())
        if varies.sum() < 1 or total <= float(low[varies].sum()):
            return answer
        base = self._restricted(answer.label, rows, least, point.beta)
        j = of.pair[rows]
        index = np.cumsum(varies) - 1
        program = base._replace(
            h=np.where(varies[j], sums[rows] / of.a[j], 0.0),
            budget=np.where(varies[j], index[j], -1),
            cost=ref[varies],
            low=low[varies] / ref[varies],
            high=np.full(int(varies.sum()), 8.0),
            total=total,
        )
        solution = self._solved(program, np.inf, 1e-6)
        budgets = rest
        budgets[varies] = solution.budgets * ref[varies]
        return replace(
            answer,
            budgets=self._scaled(answer.label, np.maximum(budgets, least_budget), least_budget),
            beta=point.beta,
        )


class JointProblem(Relaxing, Restricting):
    """One sample's problem, for `branch_and_bound`."""
