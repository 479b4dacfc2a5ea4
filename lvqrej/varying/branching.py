"""Best-first branch and bound: relaxations give bounds, restrictions give answers; what remains is the gap.

It knows nothing of what is minimised. A problem offers nodes (parts of its domain) and three moves on them;
the node with the smallest bound is taken next, so that the bound of the whole rises as fast as it can.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import numpy as np


class Problem(Protocol):
    """What is minimised: any nodes, and what can be said about one of them."""

    def start(self) -> tuple[float, Any]:
        """Return the value and the description of a feasible point that is known; infinity if none is."""

    def roots(self) -> Iterable[tuple[float, Any]]:
        """Return nodes that cover the domain, each with a lower bound."""

    def relax(self, node: Any, cutoff: float) -> tuple[float, Any]:
        """Return a lower bound over the node (of what is below `cutoff`) and what else was found."""

    def restrict(self, node: Any, relaxed: Any, cutoff: float) -> tuple[float, Any]:
        """Return the value and the description of a feasible point; infinity if none was found."""

    def branch(self, node: Any, relaxed: Any) -> Iterable[Any]:
        """Return nodes that cover the node; none if it cannot be divided."""


@dataclass(frozen=True)
class Minimum:
    """The best value found, its answer, the proven lower bound, and the number of relaxations solved."""

    value: float
    answer: Any
    bound: float
    nodes: int


def branch_and_bound(problem: Problem, gap: float, effort: int, patience: int | None = None) -> Minimum:
    """Minimise until the relative gap is at most `gap` or `effort` relaxations have been solved.

    The bound holds either way: it is the smallest over all nodes left, closed or cut off. As long as
    no answer is known it gives up after `patience` relaxations (`effort` if None).

    Examples
    --------
    The minimum of sin(3 x) + x / 2 on [0, 4], with |f'| <= 3.5 as the relaxation:

    >>> class Wave:
    ...     def start(self):
    ...         return np.inf, None
    ...     def roots(self):
    ...         return [(-9.0, (0.0, 4.0))]
    ...     def relax(self, node, cutoff):
    ...         middle = (node[0] + node[1]) / 2
    ...         value = np.sin(3 * middle) + middle / 2 + 2
    ...         return value - 3.5 * (node[1] - node[0]) / 2, (middle, value)
    ...     def restrict(self, node, relaxed, cutoff):
    ...         return relaxed[1], relaxed[0]
    ...     def branch(self, node, relaxed):
    ...         return [(node[0], relaxed[0]), (relaxed[0], node[1])]
    >>> found = branch_and_bound(Wave(), gap=1e-3, effort=1000)
    >>> print(f"{found.answer:.2f} {found.value:.3f}", bool(found.value - found.bound <= 2e-3))
    1.51 1.771 True
    """
    order = count()
    heap = [(bound, next(order), node) for bound, node in problem.roots()]
    heapq.heapify(heap)
    closed, nodes = np.inf, 0
    value, answer = problem.start()
    patience = effort if patience is None else min(patience, effort)
    while heap and heap[0][0] < (1 - gap) * value:
        if nodes >= (effort if value < np.inf else patience):
            break
        bound, _, node = heapq.heappop(heap)
        nodes += 1
        proven, relaxed = problem.relax(node, value)
        bound = max(bound, proven)
        if bound >= (1 - gap) * value:
            closed = min(closed, bound)
            continue
        candidate, description = problem.restrict(node, relaxed, value)
        better = candidate < (1 - gap) * value
        if candidate < value:
            value, answer = candidate, description
        if bound >= (1 - gap) * value:
            children = []
        elif better:  # a much better answer tightens the relaxation of the same node
            children = [node]
        else:
            children = list(problem.branch(node, relaxed))
        if not children:
            closed = min(closed, bound)
        for child in children:
            heapq.heappush(heap, (bound, next(order), child))
    bound = min(closed, heap[0][0] if heap else np.inf, value)
    return Minimum(value, answer, bound, nodes)
