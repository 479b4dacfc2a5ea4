"""Answers whose categories are levels: assignments in the order of their price, best first.

With every category at some level, what is left is the ordinary problem in the numbers. An assignment of
levels costs at least its price, and at least its price plus a bound of what is left. So of each sample's
assignments the cheapest are bounded, the most promising are solved, and when nothing is left below the best
answer, that is the nearest of all. All samples go in lock-step: a round is one batch.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lvqrej.cells import START, AcceptedSet, Floats, Ints
from lvqrej.requirements import Block

#: As many assignments of a sample are bounded at once and in all; fewer where a bound is a search itself.
AT_ONCE, MOST, SLOW_MOST = 256, 8192, 512
#: As many of them are solved at once, the most promising first.
_SOLVED = 4
#: As many numbers are bounded at once.
_NUMBERS = 2**21
#: The relative gap at which a sample is done.
_GAP = 1e-9
#: What is kept of an answer that is nearer.
_KEPT = ("counterfactuals", "certainties", "labels", "found", "cells", "path_codes", "firm")

Levels = tuple[int, ...]


def nearest_levels(query: Any, accepted: AcceptedSet, solve: Callable[..., Any]) -> Any:
    """Return the nearest answers over all assignments of levels; `solve` gives those of one each.

    Bounds hold over all assignments: what was not solved costs at least its own bound, and what was not even
    looked at at least the next price.
    """
    X, required, weights = query.samples, query.required, query.required.weights
    blocks, (lower, upper) = required.blocks, required.box(X)
    own = np.stack([block.of(X) for block in blocks], axis=1)

    def at_levels(rows: Ints, chosen: Ints) -> tuple[Any, Floats]:
        """Return a query of samples at chosen levels (m, blocks), and what that costs (m,)."""
        samples, low, high, price = (
            X[rows].copy(),
            lower[rows].copy(),
            upper[rows].copy(),
            np.zeros(len(rows)),
        )
        for b, block in enumerate(blocks):
            least, most = block.low[chosen[:, b]], block.high[chosen[:, b]]
            samples[:, block.at] = np.clip(samples[:, block.at], least, most)
            low[:, block.at] = np.maximum(low[:, block.at], least)
            high[:, block.at] = np.minimum(high[:, block.at], most)
            price += block.prices[own[rows, b], chosen[:, b]]
        none = np.zeros(X.shape[1], dtype=bool)
        asked = replace(
            required, blocks=(), lower=low, upper=high, fixed=none, increase_only=none, decrease_only=none,
            observed=False,
        )  # fmt: skip
        return query._replace(samples=samples, required=asked), price

    def bounded(rows: Ints, chosen: Ints) -> Floats:
        """Return what answers at chosen levels cost at least."""
        step, bounds = max(1, _NUMBERS // X.shape[1]), []
        for i in range(0, len(rows), step):
            asked, price = at_levels(rows[i : i + step], chosen[i : i + step])
            low, high = asked.required.lower, asked.required.upper
            start = np.clip(asked.samples, low, high)
            moved = (np.abs(start - asked.samples) * weights).sum(axis=1)
            bounds.append(price + moved + accepted.nearest(start, weights, low, high, 0.0).bounds)
        return np.concatenate(bounds)

    def solved(rows: Ints, chosen: Ints, bounds: Floats) -> None:
        """Solve at chosen levels, and keep what is nearer than what is known."""
        asked, price = at_levels(rows, chosen)
        answers = solve(asked, accepted)
        np.minimum.at(explored, rows, np.maximum(bounds, price + answers.lower_bounds))
        distances = price + answers.distances
        for j in np.argsort(distances, kind="stable"):
            i = rows[j]
            if distances[j] < state.distances[i]:
                for column in _KEPT:
                    getattr(state, column)[i] = getattr(answers, column)[j]
                state.distances[i] = distances[j]
                if answers.distances[j] == 0:
                    state.path_codes[i] = START

    # The samples at their own levels first: most answers change numbers only, and these have the verdicts.
    state = solve(at_levels(np.arange(len(X)), own)[0], accepted)
    explored = state.lower_bounds.copy()
    prices = [_prices(required, block, lower, upper, own[:, b]) for b, block in enumerate(blocks)]
    most = SLOW_MOST if accepted.gap > 0 else MOST
    searches = [_Search([price[i] for price in prices], tuple(own[i].tolist()), most) for i in range(len(X))]
    while True:
        goals = (state.distances * (1 - _GAP)).tolist()
        asked = [(i, one) for i, search in enumerate(searches) for one in search.cheapest(goals[i])]
        if asked:
            bounds = bounded(np.array([i for i, _ in asked]), np.array([one for _, one in asked]))
            for (i, one), bound in zip(asked, bounds.tolist(), strict=True):
                searches[i].enter(bound, one)
        best = [(i, *one) for i, search in enumerate(searches) for one in search.promising(goals[i])]
        if best:
            rows, bounds, chosen = (np.array(part) for part in zip(*best, strict=True))
            solved(rows, chosen, bounds)
        elif not asked:
            break
    rest = np.array([search.least for search in searches])
    np.minimum(np.minimum(explored, rest), state.distances, out=state.lower_bounds)
    return state


class _Search:
    """One sample's assignments: those not looked at, by price, and those bounded, by their bounds."""

    def __init__(self, prices: list[Floats], own: Levels, most: int) -> None:
        self._later = by_price(prices, own)
        self._next = next(self._later, None)
        self._bounded: list[tuple[float, Levels]] = []
        self._left = most

    @property
    def _price(self) -> float:
        return np.inf if self._next is None else self._next[0]

    @property
    def least(self) -> float:
        """What everything costs at least that is not solved."""
        return min(self._price, self._bounded[0][0] if self._bounded else np.inf)

    def cheapest(self, goal: float) -> list[Levels]:
        """Return the next assignments to be bounded: cheaper than the goal and than what is bounded."""
        limit = min(goal, self._bounded[0][0] if self._bounded else np.inf)
        found: list[Levels] = []
        while self._next is not None and self._price < limit and self._left > 0 and len(found) < AT_ONCE:
            found.append(self._next[1])
            self._next, self._left = next(self._later, None), self._left - 1
        return found

    def enter(self, bound: float, levels: Levels) -> None:
        """Note what an assignment costs at least."""
        if bound < np.inf:
            heapq.heappush(self._bounded, (bound, levels))

    def promising(self, goal: float) -> list[tuple[float, Levels]]:
        """Return the assignments to be solved next: none that is not looked at can be better."""
        limit = np.inf if self._left <= 0 else self._price
        found: list[tuple[float, Levels]] = []
        while self._bounded and self._bounded[0][0] < goal and len(found) < _SOLVED:
            if self._bounded[0][0] > limit:
                break
            found.append(heapq.heappop(self._bounded))
        return found


def _prices(required: Any, block: Block, lower: Floats, upper: Floats, own: Ints) -> Floats:
    """Return what each option costs each sample, (n, options), infinity if it is not allowed."""
    low, high = lower[:, None, block.at], upper[:, None, block.at]
    fits = ((low <= block.high) & (block.low <= high)).all(axis=2)
    if block.ordered:
        steps = np.arange(len(block.prices)) - own[:, None]
        fits &= ~((steps < 0) & required.increase_only[block.at[0]])
        fits &= ~((steps > 0) & required.decrease_only[block.at[0]])
    return np.where(fits, block.prices[own], np.inf)


def by_price(prices: list[Floats], own: Levels) -> Iterator[tuple[float, Levels]]:
    """Yield assignments of options to blocks in the order of their prices, without a sample's own one.

    >>> [price for price, _ in by_price([np.array([0.0, 1.0, np.inf]), np.array([3.0, 0.0, 1.5])], (0, 1))]
    [1.0, 1.5, 2.5, 3.0, 4.0]
    """
    orders = [np.argsort(row, kind="stable").tolist() for row in prices]
    costs = [[row[k] for k in order if row[k] < np.inf] for row, order in zip(prices, orders, strict=True)]
    if not all(costs):
        return
    heap = [(float(sum(row[0] for row in costs)), (0,) * len(costs), 0)]
    while heap:
        price, ranks, last = heapq.heappop(heap)
        levels = tuple(order[r] for order, r in zip(orders, ranks, strict=True))
        if levels != own:
            yield price, levels
        for b in range(last, len(costs)):
            r = ranks[b] + 1
            if r < len(costs[b]) and (b == last or r == 1):
                more = price - costs[b][r - 1] + costs[b][r]
                heapq.heappush(heap, (more, (*ranks[:b], r, *ranks[b + 1 :]), b))
