"""Best-first branch and bound over classes, target prototypes and boxes of budgets, for one sample.

A node is a class, its targets (some may be open) and a box of budgets. It is closed by a closed form, by a
certificate that holds for its whole box, or by a relaxation; else it is divided, at best into what a
certificate covers and what it does not. Answers come from `restricting`. The bound of the whole is the
smallest over all nodes left, closed or cut off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import inner
from lvqrej.pairwise.budgets import Classes
from lvqrej.pairwise.comparing import Asked, Seen, asked_by, none_chosen, regions
from lvqrej.pairwise.covering import balanced, covered, doubtful, linear_in_gamma, reliefs
from lvqrej.pairwise.doubt import doubt_at
from lvqrej.pairwise.interior import interior_point
from lvqrej.pairwise.nodes import (
    Best,
    Nodes,
    choose_target,
    closed_form,
    divide,
    divide_targets,
    keep,
    no_nodes,
    room_left,
    roots,
    widest,
)
from lvqrej.pairwise.programs import put
from lvqrej.pairwise.relaxing import NARROW, largest_normalized, levels, narrowed, other_doubts, relaxation
from lvqrej.pairwise.restricting import improved, sparse, spread, stretched
from lvqrej.pairwise.starts import along_one_feature

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Relative gap at which a relaxation counts as solved.
_SOLVED = 1e-5


class Minimum(NamedTuple):
    """The best value found, its class and change, the proven lower bound, relaxations solved."""

    value: float
    label: int
    beta: Floats
    bound: float
    nodes: int


@inner
def _first_answer(
    classes: Classes, seen: Seen, log_kappa: float, ladder: Floats, nodes: Nodes
) -> tuple[int, float, Floats]:
    """Return class, length and a first answer that changes one feature or none; class -1 if there is none."""
    shortest, which, beta = np.inf, -1, np.zeros(len(seen.lo))
    inside = True
    for c in range(len(seen.extra.g)):
        inside &= seen.extra.g[c] <= 0
    for i in range(len(nodes.bound)):
        if nodes.bound[i] == np.inf:
            break
        asked = asked_by(classes, nodes.label[i], log_kappa)
        if inside and doubt_at(asked, seen, np.zeros(len(beta))).value <= np.log(asked.total):
            return nodes.label[i], 0.0, np.zeros(len(beta))
        length, k = along_one_feature(asked, seen, shortest, ladder)
        if k >= 0:
            shortest, which, beta = abs(length), nodes.label[i], np.zeros(len(beta))
            beta[k] = length
    return which, shortest, beta


@inner
def _prove(
    asked: Asked, seen: Seen, t: float, low: Floats, high: Floats, sum_low: Floats, sum_high: Floats,
    lam: Floats, point: Floats, centre: Floats, cut: bool,
) -> tuple[bool, int, float, float]:  # fmt: skip
    """Try a certificate on a box: whether it covers it all, else which budget to divide, around what."""
    linear = linear_in_gamma(asked, seen, lam, point, low, high, sum_low, sum_high)
    inside = np.empty(len(low))
    for j in range(len(low)):
        inside[j] = min(max(centre[j], low[j]), high[j])
    nu, shift = reliefs(linear, seen, levels(inside, asked), t)
    left, v, w = doubtful(linear, asked, seen, t, nu, shift, low, high)
    two = len(low) == 2 and shift == 0.0 and len(seen.extra.g) == 0 and asked.total < np.inf
    if len(left) == 0 or (two and balanced(linear, asked, seen, t, low, high)):
        return True, -1, 0.0, 0.0
    if not cut:
        return False, -1, 0.0, 0.0
    j, middle = widest(asked, lam, low, high, inside, v, w)
    if j < 0:
        return False, -1, 0.0, 0.0
    below, above = covered(linear, asked, seen, left, t, nu, shift, low, high, j, inside[j])
    if above > below * 1.02:
        return False, j, below, above
    return False, j, middle, middle


@inner
def _prepare(
    classes: Classes, seen: Seen, log_kappa: float, t: float, i: int, limited: bool, nodes: Nodes, best: Best
) -> tuple[float, bool]:
    """Close or divide a node without a relaxation; return its bound and whether it still needs one."""
    label = nodes.label[i]
    asked = asked_by(classes, label, log_kappa, limited)
    J = len(asked.a)
    targets, low, high = nodes.targets[i][:J], nodes.low[i][:J], nodes.high[i][:J]
    sum_low, sum_high, _, score_high = regions(asked, seen, t)
    if not narrowed(asked, low, high, score_high, targets):
        return t, False
    if not limited:
        rest = other_doubts(classes, seen, label, log_kappa, t)
        largest = largest_normalized(low, rest, classes.constant[label], np.exp(log_kappa))
        for j in range(J):
            high[j] = min(high[j], largest[j])
            if not high[j] >= low[j] * (1 - NARROW):
                return t, False
            high[j] = max(high[j], low[j])
    bound = max(nodes.bound[i], closed_form(asked, seen, high, targets))
    if bound >= t:
        return bound, False
    if choose_target(asked, seen, nodes, bound, label, targets, low, high):
        return np.inf, False
    fresh = nodes.proof[i] == 0 and label == best.label[0]
    for j in range(J):
        fresh &= targets[j] == best.targets[j]
    if fresh:
        nodes.proof[i] = 1
        put(best.lam, nodes.lam[i])
        put(best.beta, nodes.point[i])
        put(best.centre, nodes.centre[i])
    if nodes.proof[i] == 1 and t < np.inf:
        lam, point, centre = nodes.lam[i], nodes.point[i], nodes.centre[i][:J]
        whole, j, below, above = _prove(
            asked, seen, t, low, high, sum_low, sum_high, lam, point, centre, fresh
        )  # fmt: skip
        if whole:
            return t, False
        if j >= 0 and above > below:
            divide(nodes, bound, label, targets, low, high, j, below, above, lam, point, centre)
            return np.inf, False
    return bound, True


@inner
def _digest(asked: Asked, seen: Seen, t: float, i: int, nodes: Nodes) -> tuple[bool, int, float, float]:
    """Try the certificate of a relaxation: whether the node is closed, else which budget to divide."""
    J = len(asked.a)
    sum_low, sum_high, _, _ = regions(asked, seen, t)
    low, high, centre = nodes.low[i][:J], nodes.high[i][:J], nodes.centre[i][:J]
    if t < np.inf:
        return _prove(
            asked, seen, t, low, high, sum_low, sum_high, nodes.lam[i], nodes.point[i], centre, True
        )
    j, middle = widest(asked, nodes.lam[i], low, high, centre, np.zeros(J), np.zeros(J))
    return False, j, middle, middle


@inner
def _further(asked: Asked, nodes: Nodes, i: int, bound: float, j: int, below: float, above: float) -> bool:
    """Divide a node by targets that are open, else by budget j; False if that cannot be."""
    J, label = len(asked.a), nodes.label[i]
    targets, low, high = nodes.targets[i][:J], nodes.low[i][:J], nodes.high[i][:J]
    for k in range(J):
        if targets[k] < 0:
            divide_targets(asked, nodes, bound, label, targets, low, high, k)
            return True
    if j >= 0:
        lam, point, centre = nodes.lam[i], nodes.point[i], nodes.centre[i][:J]
        divide(nodes, bound, label, targets, low, high, j, below, above, lam, point, centre)
    return j >= 0


@inner
def nearest_change(
    classes: Classes, seen: Seen, labels: Ints, log_kappa: float, gap: float, effort: int, patience: int,
    ladder: Floats, start: tuple[int, float, Floats], known: float, limited: bool,
) -> Minimum:  # fmt: skip
    """Minimise until the relative gap is at most `gap` or `effort` relaxations have been solved.

    Parameters
    ----------
    labels : ndarray of int
        The classes to be accepted as.
    patience : int
        Relaxations after which a search without any answer gives up.
    start : (label, length, beta)
        A first answer; label -1: find one, and give up (nodes = -1) if that fails; -2: go on without.
    known : float
        The length of an answer for which only a bound is sought, unless infinite.
    limited : bool
        Whether budgets add up to a total; otherwise (normalised probabilities) H(t) <= kappa limits them.
    """
    d = len(seen.lo)
    nodes = no_nodes(classes, seen, 4 * effort + 2 * len(classes.pair) + 64)
    J, c = nodes.targets.shape[1], nodes.lam.shape[1]
    best = Best(
        np.full(1, known), np.full(1, -1), np.zeros(d), np.zeros(J, dtype=np.int64), np.zeros(c), np.zeros(J)
    )
    if roots(classes, seen, labels, log_kappa, limited, nodes) == 0:
        return Minimum(known, -1, best.beta, known, 0)
    label, value, beta = start
    if known == np.inf and label < 0:
        label, value, beta = _first_answer(classes, seen, log_kappa, ladder, nodes)
        if label < 0 and start[0] == -1:
            return Minimum(np.inf, -1, best.beta, 0.0, -1)
    closed, spent, i = np.inf, 0, -1
    asked, j, below, above = asked_by(classes, labels[0], log_kappa, limited), -1, 0.0, 0.0
    while True:
        before = best.value[0]
        if label >= 0 and known == np.inf:  # something to improve
            asked = asked_by(classes, label, log_kappa)
            lam = np.zeros(len(asked.pair) + len(seen.extra.g))
            targets = nodes.targets[i][: len(asked.a)].copy() if i >= 0 else none_chosen(asked)
            if value > 0:
                if len(seen.extra.g) > 0:
                    value = np.inf
                value, beta = improved(asked, seen, value, beta, targets, lam)
            if value < best.value[0]:
                keep(best, label, asked, seen, value, beta, lam)
        if i >= 0:  # the node that is not closed yet
            bound, nodes.bound[i] = nodes.bound[i], 0.0  # its place is still needed
            if best.value[0] < (1 - gap) * before:
                nodes.bound[i] = bound  # the same node again, with a smaller radius
            else:
                divided = _further(asked, nodes, i, bound, j, below, above)
                closed = min(closed, np.inf if divided else bound)
                nodes.bound[i] = np.inf
        i, label = nodes.bound.argmin(), -1
        t = (1 - gap) * best.value[0]
        if nodes.bound[i] >= t or nodes.bound[i] == np.inf or spent >= (effort if t < np.inf else patience):
            break
        if room_left(nodes) < c + 4:
            break
        bound, needed = _prepare(classes, seen, log_kappa, t, i, limited, nodes, best)
        if not needed:
            closed = min(closed, bound)
            nodes.bound[i], i = np.inf, -1
            continue
        spent += 1
        asked = asked_by(classes, nodes.label[i], log_kappa, limited)
        J = len(asked.a)
        sum_low, sum_high, _, _ = regions(asked, seen, t)
        rows, index, program = relaxation(
            asked, seen, nodes.targets[i][:J], nodes.low[i][:J], nodes.high[i][:J], sum_low, sum_high
        )
        nodes.proof[i] = 1
        put(nodes.high[i][:J], nodes.centre[i])
        put(np.zeros(c), nodes.lam[i])
        put(np.zeros(d), nodes.point[i])
        if len(program.g) > 0:
            solution = interior_point(seen.G, program, seen.lo, seen.hi, t, _SOLVED)
            bound = max(bound, solution.bound)
            put(spread(asked, seen, rows, solution), nodes.lam[i])
            put(solution.beta, nodes.point[i])
            for k in range(J):
                if index[k] >= 0:
                    nodes.centre[i, k] *= solution.budgets[index[k]]
        nodes.bound[i] = bound
        whole, j, below, above = False, -1, 0.0, 0.0
        if bound < t:
            whole, j, below, above = _digest(asked, seen, t, i, nodes)
        if whole or bound >= t:
            closed = min(closed, max(bound, t) if whole else bound)
            nodes.bound[i], i = np.inf, -1
            continue
        if limited:
            value, beta = np.inf, sparse(nodes.point[i])
            if len(seen.extra.g) == 0:
                value, beta = stretched(asked, seen, beta)
            if value < 1.2 * best.value[0] or value == np.inf:
                label = nodes.label[i]
    least = nodes.bound.min()
    return Minimum(best.value[0], best.label[0], best.beta, min(closed, least, best.value[0]), spent)
