"""Best-first branch and bound: relaxations give bounds, restrictions give answers, the rest is the gap."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np


class Problem:
    """What is minimised: values of at least 0, over nodes (parts of a domain) of any kind.

    One node at a time, or by `relax_all` and `restrict_all` all nodes of a round at once.
    """

    def relax(self, node: Any, cutoff: float) -> tuple[float, Any]:
        """Return a lower bound over the node, rough if it exceeds `cutoff`, and where it is taken."""
        raise NotImplementedError

    def restrict(self, node: Any, relaxed: Any) -> tuple[float, Any]:
        """Return the value and the description of a feasible point of the node; infinity if none is found."""
        raise NotImplementedError

    def branch(self, node: Any, relaxed: Any, cutoff: float) -> Iterable[Any]:
        """Return nodes that cover the node; none if it need not be divided to get below `cutoff`."""
        raise NotImplementedError

    def relax_all(self, nodes: Sequence[Any], cutoffs: Sequence[float]) -> Iterable[tuple[float, Any]]:
        """Relax each of the nodes."""
        return [self.relax(node, cutoff) for node, cutoff in zip(nodes, cutoffs, strict=True)]

    def restrict_all(self, nodes: Sequence[Any], relaxed: Sequence[Any]) -> Iterable[tuple[float, Any]]:
        """Restrict each of the nodes."""
        return [self.restrict(node, one) for node, one in zip(nodes, relaxed, strict=True)]


class Minimum(NamedTuple):
    """The best value found, its description (None if nothing was found) and the proven lower bound."""

    value: float
    answer: Any
    bound: float


def branch_and_bound(
    problem: Problem, roots: Sequence[Any], gap: float, effort: int, width: int = 1
) -> list[Minimum]:
    """Minimise over each root until the relative gap is at most `gap`, or for `effort` rounds.

    In a round, of each root's nodes those with the smallest bounds are relaxed and divided, so that the bound
    of the whole rises as fast as it can: one, or `width` and by as many less one more in each round. It holds
    whenever the search ends: it is the smallest over all nodes left, closed or cut off.

    Examples
    --------
    The minimum of sin(3 x) + x / 2 + 2 on [0, 4], with |f'| <= 3.5 as the relaxation:

    >>> class Wave(Problem):
    ...     def relax(self, node, cutoff):
    ...         middle = (node[0] + node[1]) / 2
    ...         value = np.sin(3 * middle) + middle / 2 + 2
    ...         return value - 3.5 * (node[1] - node[0]) / 2, (middle, value)
    ...     def restrict(self, node, relaxed):
    ...         return relaxed[1], relaxed[0]
    ...     def branch(self, node, relaxed, cutoff):
    ...         return [(node[0], relaxed[0]), (relaxed[0], node[1])]
    >>> found, = branch_and_bound(Wave(), [(0.0, 4.0)], gap=1e-3, effort=1000)
    >>> print(f"{found.answer:.2f} {found.value:.3f}", bool(found.value - found.bound <= 2e-3))
    1.51 1.771 True
    """
    order, number = count(), len(roots)
    heaps: list[list[tuple[float, int, Any]]] = [[(-np.inf, next(order), root)] for root in roots]
    values, answers, closed = [np.inf] * number, [None] * number, [np.inf] * number
    waiting = list(range(number))
    for turn in range(effort):
        taken, most = [], width + (width - 1) * turn
        for i in waiting:
            for _ in range(most):
                if heaps[i] and heaps[i][0][0] < (1 - gap) * values[i]:
                    bound, _, node = heapq.heappop(heaps[i])
                    taken.append((i, bound, node))
        if not taken:
            break
        waiting = sorted({i for i, _, _ in taken})
        relaxed = problem.relax_all([node for _, _, node in taken], [values[i] for i, _, _ in taken])
        relaxations = [
            (i, max(bound, proven), node, where)
            for (i, bound, node), (proven, where) in zip(taken, relaxed, strict=True)
        ]
        alive = [one for one in relaxations if one[1] < (1 - gap) * values[one[0]]]
        restricted = problem.restrict_all([node for _, _, node, _ in alive], [where for *_, where in alive])
        for (i, *_), (value, answer) in zip(alive, restricted, strict=True):
            if value < values[i]:
                values[i], answers[i] = value, answer
        for i, bound, node, where in relaxations:
            children = []
            if bound < (1 - gap) * values[i]:
                children = list(problem.branch(node, where, values[i]))
            if not children:
                closed[i] = min(closed[i], bound)
            for child in children:
                heapq.heappush(heaps[i], (bound, next(order), child))
    return [
        Minimum(value, answer, min(least, heap[0][0] if heap else np.inf, value))
        for value, answer, least, heap in zip(values, answers, closed, heaps, strict=True)
    ]
