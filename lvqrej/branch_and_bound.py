"""Best-first branch and bound: relaxations give bounds, restrictions give answers, the rest is the gap."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np


class Problem(Protocol):
    """What is minimised: values of at least 0, over nodes (parts of a domain) of any kind."""

    def relax(self, node: Any, cutoff: float) -> tuple[float, Any]:
        """Return a lower bound over the node, rough if it exceeds `cutoff`, and where it is taken."""

    def restrict(self, node: Any, relaxed: Any) -> tuple[float, Any]:
        """Return the value and the description of a feasible point of the node; infinity if none is found."""

    def branch(self, node: Any, relaxed: Any) -> Iterable[Any]:
        """Return nodes that cover the node; none if it need not be divided."""


class Minimum(NamedTuple):
    """The best value found, its description (None if nothing was found) and the proven lower bound."""

    value: float
    answer: Any
    bound: float


def branch_and_bound(problem: Problem, root: Any, gap: float, effort: int) -> Minimum:
    """Minimise until the relative gap is at most `gap` or `effort` relaxations have been solved.

    The node with the smallest bound is divided next, so that the bound of the whole rises as fast as it can.
    It holds whenever the search ends: it is the smallest over all nodes left, closed or cut off.

    Examples
    --------
    The minimum of sin(3 x) + x / 2 + 2 on [0, 4], with |f'| <= 3.5 as the relaxation:

    >>> class Wave:
    ...     def relax(self, node, cutoff):
    ...         middle = (node[0] + node[1]) / 2
    ...         value = np.sin(3 * middle) + middle / 2 + 2
    ...         return value - 3.5 * (node[1] - node[0]) / 2, (middle, value)
    ...     def restrict(self, node, relaxed):
    ...         return relaxed[1], relaxed[0]
    ...     def branch(self, node, relaxed):
    ...         return [(node[0], relaxed[0]), (relaxed[0], node[1])]
    >>> found = branch_and_bound(Wave(), (0.0, 4.0), gap=1e-3, effort=1000)
    >>> print(f"{found.answer:.2f} {found.value:.3f}", bool(found.value - found.bound <= 2e-3))
    1.51 1.771 True
    """
    order = count()
    heap: list[tuple[float, int, Any]] = [(-np.inf, next(order), root)]
    value, answer, closed = np.inf, None, np.inf
    for _ in range(effort):
        if not heap or heap[0][0] >= (1 - gap) * value:
            break
        bound, _, node = heapq.heappop(heap)
        proven, relaxed = problem.relax(node, value)
        bound, children = max(bound, proven), []
        if bound < (1 - gap) * value:
            candidate, description = problem.restrict(node, relaxed)
            if candidate < value:
                value, answer = candidate, description
            children = list(problem.branch(node, relaxed))
        if not children:
            closed = min(closed, bound)
        for child in children:
            heapq.heappush(heap, (bound, next(order), child))
    return Minimum(value, answer, min(closed, heap[0][0] if heap else np.inf, value))
