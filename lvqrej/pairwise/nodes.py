"""Nodes of branch and bound: a class, its target prototypes (some may be open) and a box of budgets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import inner
from lvqrej.pairwise.budgets import Classes
from lvqrej.pairwise.comparing import Asked, Seen, asked_by, best_of, closed_forms, least_shares, none_chosen
from lvqrej.pairwise.programs import put
from lvqrej.pairwise.relaxing import NARROW, levels
from lvqrej.pairwise.restricting import around

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: At most so many combinations of targets are listed without bounding what is chosen so far.
_FEW = 16


class Nodes(NamedTuple):
    """Parts of the domain; a node whose `bound` is infinite is not in use."""

    bound: Floats  # (n,)
    label: Ints  # (n,)
    targets: Ints  # (n, J) sites, -1 if open
    low: Floats  # (n, J)
    high: Floats  # (n, J)
    proof: Ints  # (n,) whether there is a certificate to inherit
    lam: Floats  # (n, c) its multipliers
    point: Floats  # (n, d) its point
    centre: Floats  # (n, J) its budgets


class Best(NamedTuple):
    """The best answer so far: class and number of targets' sites; what proves it around its budgets."""

    value: Floats  # (1,)
    label: Ints  # (1,)
    beta: Floats  # (d,)
    targets: Ints  # (J,)
    lam: Floats  # (c,)
    centre: Floats  # (J,)


@inner
def add(nodes: Nodes, bound: float, label: int, targets: Ints, low: Floats, high: Floats) -> int:
    """Put a node into the first free place and return that."""
    i, J = 0, len(low)
    while nodes.bound[i] < np.inf:
        i += 1
    nodes.bound[i], nodes.label[i], nodes.proof[i] = bound, label, 0
    for j in range(J):
        nodes.targets[i, j], nodes.low[i, j], nodes.high[i, j] = targets[j], low[j], high[j]
    return i


@inner
def no_nodes(classes: Classes, seen: Seen, capacity: int) -> Nodes:
    """Return free places for nodes."""
    J, c = 0, 0
    for i in range(len(classes.constant)):
        J = max(J, classes.first_rival[i + 1] - classes.first_rival[i])
        c = max(c, classes.first_row[i + 1] - classes.first_row[i])
    c += len(seen.extra.g)
    return Nodes(
        np.full(capacity, np.inf), np.zeros(capacity, dtype=np.int64),
        np.zeros((capacity, J), dtype=np.int64), np.zeros((capacity, J)), np.zeros((capacity, J)),
        np.zeros(capacity, dtype=np.int64), np.zeros((capacity, c)),
        np.zeros((capacity, len(seen.lo))), np.zeros((capacity, J)),
    )  # fmt: skip


@inner
def room_left(nodes: Nodes) -> int:
    """Return the number of free places."""
    free = 0
    for bound in nodes.bound:
        free += bound == np.inf
    return free


@inner
def _alone(asked: Asked, seen: Seen, high: Floats, targets: Ints) -> Floats:
    """Return, negative, the smallest over each rival's targets of what one comparison alone asks."""
    each = closed_forms(asked, seen, levels(high, asked))
    for i in range(len(each)):
        each[i] = -each[i]
    return best_of(asked, each, targets)


@inner
def closed_form(asked: Asked, seen: Seen, high: Floats, targets: Ints) -> float:
    """Return the largest over rivals of what one of them alone asks at least."""
    bound = 0.0
    for value in _alone(asked, seen, high, targets):
        bound = max(bound, -value)
    return bound


@inner
def roots(classes: Classes, seen: Seen, labels: Ints, log_kappa: float, limited: bool, nodes: Nodes) -> int:
    """Put in one node per class that can be certain enough at all; return their number."""
    n = 0
    for label in labels:
        asked = asked_by(classes, label, log_kappa, limited)
        low, used = least_shares(asked), 0.0
        for j in range(len(low)):
            used += low[j]
        if not used <= asked.total or log_kappa == -np.inf:
            continue
        targets, high = none_chosen(asked), np.empty(len(low))
        for i in range(len(asked.pair)):  # -2 - site: one so far
            j = asked.pair[i]
            if targets[j] == -1:
                targets[j] = -2 - asked.own[i]
            elif targets[j] != -2 - asked.own[i]:
                targets[j] = -3 - len(seen.squares)
        for j in range(len(low)):
            targets[j] = -1 if targets[j] < -2 - len(seen.squares) else -2 - targets[j]
            high[j] = asked.total - (used - low[j])
        bound = closed_form(asked, seen, high, targets) if limited else 0.0
        if bound < np.inf:
            add(nodes, bound, label, targets, low, high)
            n += 1
    return n


@inner
def keep(best: Best, label: int, asked: Asked, seen: Seen, value: float, beta: Floats, lam: Floats) -> None:
    """Keep an answer and what proves it."""
    best.value[0], best.label[0] = value, label
    targets, centre = around(asked, seen, beta, none_chosen(asked))
    for j in range(len(targets)):
        best.targets[j] = targets[j]
    put(beta, best.beta)
    put(centre, best.centre)
    put(lam, best.lam)


@inner
def choose_target(
    asked: Asked, seen: Seen, nodes: Nodes, bound: float, label: int, targets: Ints, low: Floats, high: Floats
) -> bool:
    """Divide by the targets of an open rival; False if none is open, or too many for doing so blindly."""
    alone, J = _alone(asked, seen, high, targets), len(low)
    which, combinations, chosen = -1, 1, 0
    for j in range(J):
        if targets[j] >= 0:
            chosen += 1
            continue
        owns = 0
        for i in range(len(asked.pair)):
            if asked.pair[i] == j and (i == 0 or asked.own[i - 1] != asked.own[i] or asked.pair[i - 1] != j):
                owns += 1
        combinations *= owns
        if which < 0 or alone[j] < alone[which]:
            which = j
    if which < 0 or (chosen > 0 and combinations > _FEW):
        return False
    divide_targets(asked, nodes, bound, label, targets, low, high, which)
    return True


@inner
def divide_targets(
    asked: Asked, nodes: Nodes, bound: float, label: int, targets: Ints, low: Floats, high: Floats, j: int
) -> None:
    """Put in one node per target of rival j."""
    for i in range(len(asked.pair)):
        if asked.pair[i] == j and (i == 0 or asked.own[i - 1] != asked.own[i] or asked.pair[i - 1] != j):
            child = targets.copy()
            child[j] = asked.own[i]
            add(nodes, bound, label, child, low, high)


@inner
def widest(
    asked: Asked, lam: Floats, low: Floats, high: Floats, centre: Floats, v: Floats, w: Floats
) -> tuple[int, float]:
    """Return the budget to divide, and where: at gamma = 0, else where the certificate loses most."""
    least, most = levels(high, asked), levels(low, asked)
    which, worst = -1, 0.0
    for i in range(len(asked.pair)):
        j = asked.pair[i]
        if lam[i] > worst and least[j] < -1e-6 and most[j] > 1e-6:
            which, worst = j, lam[i]
    if which >= 0:
        return which, np.exp(asked.b[which])
    error, width = np.zeros(len(low)), np.zeros(len(low))
    for j in range(len(low)):
        if high[j] - low[j] > NARROW * high[j]:
            width[j] = (high[j] - low[j]) / high[j]
            if w[j] > 0 and centre[j] > 0:
                error[j] = abs(v[j] * np.log(w[j] / centre[j]))
    for _ in range(2):
        for j in range(len(low)):
            if error[j] > (error[which] if which >= 0 else 0.0):
                which = j
        if which < 0:
            error = width
    if which < 0:
        return -1, 0.0
    margin = 0.05 * (high[which] - low[which])
    return which, min(max(centre[which], low[which] + margin), high[which] - margin)


@inner
def divide(
    nodes: Nodes, bound: float, label: int, targets: Ints, low: Floats, high: Floats,
    j: int, below: float, above: float, lam: Floats, point: Floats, centre: Floats,
) -> None:  # fmt: skip
    """Put in what is below and above an interval of budget j; both inherit a certificate."""
    for side in range(2):
        first, last = (low[j], below) if side == 0 else (above, high[j])
        if last > first:
            child_low, child_high = low.copy(), high.copy()
            child_low[j], child_high[j] = first, last
            i = add(nodes, bound, label, targets, child_low, child_high)
            nodes.proof[i] = 1
            put(lam, nodes.lam[i])
            put(point, nodes.point[i])
            put(centre, nodes.centre[i])
