"""Best-first branch and bound: relaxations give bounds, restrictions give answers, the rest is the gap."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Problem(Protocol):
    """What is minimised: values of at least 0, over nodes (parts of a domain) of any kind."""

    def relax(self, node: Any, cutoff: float) -> tuple[float, Any]:
        """Return a lower bound over the node, rough if it exceeds `cutoff`, and where it is taken."""

    def restrict(self, node: Any, relaxed: Any) -> tuple[float, Any]:
        """Return the value and the description of a feasible point of the node; infinity if none is found."""

    def branch(self, node: Any, relaxed: Any) -> Iterable[Any]:
        """Return nodes that cover the node; none if it need not be divided."""


class OpenNodes:
    """What is left to divide in the domains of n problems, each with its best value so far.

    A node is closed once its bound reaches (1 - gap) of that value. What is proven of a problem is the
    smallest bound over all nodes that are left or closed: it holds whenever the search ends.

    Parameters
    ----------
    n : int
        Number of problems, which may be searched in lock-step.
    gap : float
        The relative gap to stop at.
    effort : int
        Nodes of one problem that are handed out at most.
    """

    def __init__(self, n: int, gap: float, effort: int) -> None:
        self.gap, self.effort = gap, effort
        self.value, self.closed = np.full(n, np.inf), np.full(n, np.inf)
        self.spent = np.zeros(n, dtype=int)
        self._heaps: list[list[tuple[float, int, Any]]] = [[] for _ in range(n)]
        self._order = count()

    def push(self, i: int, bound: float, node: Any) -> None:
        """Add a node of problem i to what is left."""
        heapq.heappush(self._heaps[i], (bound, next(self._order), node))

    def close(self, i: int, bound: float) -> None:
        """Note the bound of a node of problem i that need not be divided."""
        self.closed[i] = min(self.closed[i], bound)

    def pop(self, i: int) -> tuple[float, Any] | None:
        """Hand out the node of problem i with the smallest bound, None if there is nothing left to gain."""
        heap = self._heaps[i]
        if not heap or heap[0][0] >= (1 - self.gap) * self.value[i] or self.spent[i] >= self.effort:
            return None
        self.spent[i] += 1
        bound, _, node = heapq.heappop(heap)
        return bound, node

    @property
    def bounds(self) -> NDArray[np.float64]:
        """What is proven of each problem, of shape (n,)."""
        left = [heap[0][0] if heap else np.inf for heap in self._heaps]
        return np.minimum(np.minimum(self.closed, left), self.value)


class Minimum(NamedTuple):
    """The best value found, its description (None if nothing was found) and the proven lower bound."""

    value: float
    answer: Any
    bound: float


def branch_and_bound(problem: Problem, root: Any, gap: float, effort: int) -> Minimum:
    """Minimise until the relative gap is at most `gap` or `effort` relaxations have been solved.

    The node with the smallest bound is divided next, so that the bound of the whole rises as fast as it can.

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
    nodes, answer = OpenNodes(1, gap, effort), None
    nodes.push(0, -np.inf, root)
    while (popped := nodes.pop(0)) is not None:
        bound, node = popped
        proven, relaxed = problem.relax(node, nodes.value[0])
        bound, children = max(bound, proven), []
        if bound < (1 - gap) * nodes.value[0]:
            candidate, description = problem.restrict(node, relaxed)
            if candidate < nodes.value[0]:
                nodes.value[0], answer = candidate, description
            children = list(problem.branch(node, relaxed))
        if not children:
            nodes.close(0, bound)
        for child in children:
            nodes.push(0, bound, child)
    return Minimum(float(nodes.value[0]), answer, float(nodes.bounds[0]))
