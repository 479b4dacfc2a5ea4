"""Several answers that differ, best first."""

from __future__ import annotations

import heapq
from dataclasses import replace
from itertools import count

import numpy as np

from lvqrej.varying.reach import Answer, Reach


def one_per_class(reach: Reach) -> list[Answer]:
    """Return the nearest answer of each class that has one, nearest class first."""
    answers = []
    for label in range(len(reach.option.classes)):
        of_class = Reach(reach.option, reach.theta, replace(reach.required, target=label), reach.x)
        answers.append(of_class.answer(of_class.lower, of_class.upper)._replace(cell=-1))
    return sorted((one for one in answers if one.point is not None), key=lambda one: one.distance)


def best_first(reach: Reach, wanted: int, apart: int = 1) -> list[Answer]:
    """Return answers by distance, each keeping `apart` (or all) of the features an earlier one changes.

    A node keeps some features as they are; its answer is the nearest of all that do. If that changes too much
    of what a former answer changes, every admissible answer of the node keeps one feature more of those two
    have in common: these are its children.
    """
    chosen: list[Answer] = []
    order, seen, unknown = count(), set(), np.inf
    heap: list[tuple[float, int, frozenset[int], Answer]] = []

    def push(kept: frozenset[int]) -> None:
        nonlocal unknown
        if kept in seen:
            return
        seen.add(kept)
        support = np.ones(len(reach.x), dtype=bool)
        support[list(kept)] = False
        answer = reach.answer(*reach.within(support))
        if answer.point is None:
            unknown = min(unknown, answer.bound)
        else:
            heapq.heappush(heap, (answer.distance, next(order), kept, answer))

    push(frozenset())
    while heap and len(chosen) < wanted:
        _, _, kept, answer = heapq.heappop(heap)
        changed = frozenset(np.flatnonzero(answer.point != reach.x).tolist())
        former = [frozenset(np.flatnonzero(one.point != reach.x).tolist()) for one in chosen]
        repeats = [
            features & changed for features in former if len(features - changed) < min(apart, len(features))
        ]
        if not repeats:
            bounds = [answer.bound, unknown, *(item[3].bound for item in heap)]
            chosen.append(answer._replace(bound=min(bounds)))
            repeats = [changed]
        for feature in repeats[0]:
            push(kept | {feature})
    return chosen
