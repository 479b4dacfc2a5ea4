"""Branch and bound over budgets: the nearest change that makes one of several classes probable enough.

In the terms of `local_search`, whoever gives side j the *level* l_j asks for a score s_j >= l_j, that is for
l_j S_j - D_j <= 0; S = d_own + d_other is a convex quadratic, D = d_other - d_own is linear. With all levels
fixed this is a cell of balls. Levels are enough if F(l) <= 0, which planes below F bound in a box of them.
For normalised probabilities the scores between other classes are levels, too, asked for in both orders.

    node         a class, the prototypes that have to win (some may be open), and a box of levels
    proof        multipliers and a point: of a nearest point by Newton's method, where that settles, else of
                 the cone program of one choice of levels
    certificate  by convexity in beta alone, a proof gives an inequality q(l)'beta >= tau(l) that is linear in
                 the levels l: around its own levels it holds for large boxes of them, and what it leaves of
                 the node's box are the node's children
    answer       the points of the proofs

It is not `branch_and_bound`: children are not parts of a node, but what a certificate leaves of it.
"""

from __future__ import annotations

from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from lvqrej.local_search import (
    EPS,
    LARGEST,
    Floats,
    Ints,
    Mask,
    Rule,
    View,
    along_features,
    log_sum,
    newton,
    of_classes,
    place,
    shortened,
)
from lvqrej.solvers.cone import Program, solve
from lvqrej.solvers.homotopy import SOLVED

#: A radius beyond all changes.
FAR = 1e30
#: Boxes of levels narrower than this are as good as a point.
NARROW = 1e-9
#: Nodes of one sample that are looked at in one round, and programs without any answer until it gives up.
WIDTH, PATIENCE = 4, 20
#: A first answer changes at most so many features.
MOST_FEATURES = 8
#: Which score of normalised probabilities is divided: what its range costs counts so much, beside what it
#: makes planes below F too low.
RANGE = 0.02
#: With more features than this, a program starts with those that matter.
FEW_FEATURES = 16
#: Where a box is divided to see what a certificate covers, from its centre (0) to its ends (1).
PARTS = np.concatenate([[0.0], np.geomspace(0.005, 1.0, 20)])


def take(group: Any, rows: Any) -> Any:
    """Return some rows of all arrays of a group, and of the groups in it."""
    return type(group)(*(take(part, rows) if isinstance(part, tuple) else part[rows] for part in group))


class Comparisons(NamedTuple):
    """Sums S and leads D of all pairs of prototypes of some nodes, and what they can be within a radius."""

    S: Floats  # (N, E, P, Q) at the sample
    D: Floats
    sum_slope: Floats  # (N, E, P, Q, d) their slopes there
    lead_slope: Floats
    apart: Floats  # (N, E, P, Q)
    worst: Floats  # (N, E, P, Q) score
    best: Floats


def compare(view: View, rule: Rule, sample: Ints, label: Ints, radius: Floats) -> Comparisons:
    """Return the comparisons of nodes, bounded over |beta|_1 <= radius."""
    own, other, rows = rule.own[label], rule.other[label], sample[:, None, None]
    u, v = view.u[rows, own][:, :, :, None], view.u[rows, other][:, :, None]
    near, far = view.squares[rows, own][..., None], view.squares[rows, other][:, :, None]
    apart = rule.pairs.apart[own[..., None], other[:, :, None]]
    bend = view.bend[rule.metric[label]][:, :, None, None]
    t = np.minimum(radius, FAR)[:, None, None, None, None]
    up, down = (way[:, None, None, None] for way in view.ways[sample].transpose(1, 0, 2))

    def rise(slope: Floats, bend: Any = 0.0) -> Floats:
        """Return the most that slope'beta + beta'G beta, diag(G) = bend, can be at a vertex of the ball."""
        most = np.maximum(np.where(up, slope, -np.inf), np.where(down, -slope, -np.inf))
        return np.maximum((t * (most + t * bend)).max(axis=-1), 0.0)

    S, D, sum_slope, lead_slope = near + far, far - near, -2 * (u + v), 2 * (u - v)
    slack = 1e-12 * S
    near_least, far_least = (np.maximum(d - rise(2 * w) - slack, 0.0) for d, w in ((near, u), (far, v)))
    near_most, far_most = (d + rise(-2 * w, bend) + slack for d, w in ((near, u), (far, v)))
    with np.errstate(invalid="ignore"):
        best, worst = np.fmin(_score(near_least, far_most), 1.0), np.fmax(_score(near_most, far_least), -1.0)
    twin = apart == 0
    best, worst = np.where(twin, 0.0, best), np.where(twin, 0.0, worst)
    return Comparisons(S, D, sum_slope, lead_slope, apart, worst, best)


def _score(near: Floats, far: Floats) -> Floats:
    return (far - near) / (far + near)


def alone(c: Comparisons, level: Floats, bend: Floats, ways: Mask) -> Floats:
    """Return how far at least each comparison alone makes one go for its level (N, V), (N, V, P, Q).

    A ball (level above 0): with f = g - 2 C'beta + 2 l beta'G beta, g |A| / ((|A| + B) max_k |C_k|). The
    outside of a ball (below 0): the shortest way out goes along one feature. A level of -1 asks for nothing.
    """
    S, D, sum_slope, lead_slope, apart = c[:5]
    l, bend = level[:, :, None, None], bend[:, :, None, None]
    g = l * S - D - 1e-13 * S
    C = 0.5 * (lead_slope - l[..., None] * sum_slope)
    up, down = (way[:, None, None, None] for way in ways.transpose(1, 0, 2))
    squared = (1 + l * l) * S - 2 * l * D - (1 - l * l) * (S - apart)
    A, B = np.sqrt(np.maximum(squared, 0.0)), np.sqrt(np.maximum(squared - 2 * l * g, 0.0))
    rate = np.maximum(np.where(up, C, 0.0), np.where(down, -C, 0.0)).max(axis=-1)
    root = np.sqrt(np.maximum(C * C - 2 * l[..., None] * bend * g[..., None], 0.0))
    speed = np.maximum(np.where(up, C + root, 0.0), np.where(down, root - C, 0.0)).max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.where(l >= 0, np.where(A > 0, g * A / ((A + B) * rate), 0.0), g / speed) * (1 - 1e-12)
    result = np.where((l > 1) | ((l > 0) & (apart == 0)), np.inf, result)
    return np.where((g <= 0) | (l <= -1), 0.0, result)


# Levels that are enough


def plane(rule: Rule, label: Ints, low: Floats, high: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Return f and g (N, E) with F(l) >= f + g'(l - at) for all scores l of a box.

    log(sum_k p_k) is convex in the log p_k, and -log p_k = log(1 + sum_j e_kj) in the exponents, where both
    are at least their tangents. log p_k for a rival k is concave, with slopes that fall as other exponents
    rise: it is at least the plane through its values at the lowest exponents and one step from there.
    """
    E = low.shape[1]
    slope, shift = rule.slope[label, :E], rule.shift[label, :E]
    t = np.clip(slope * at + shift, -LARGEST, LARGEST)
    if not rule.normalize:
        value, share = log_sum(t)
        return value - rule.log_kappa - 1e-12, share * slope
    least, most = (np.clip(slope * end + shift, -LARGEST, LARGEST) for end in (high, low))
    T = of_classes(rule, label, t, -t)
    bottom, width = of_classes(rule, label, least, -most), of_classes(rule, label, most - least, most - least)
    value, share = log_sum(bottom)
    with np.errstate(divide="ignore", invalid="ignore"):
        secant = np.where(width > 1e-6, np.log1p(share * np.expm1(width)) / width, share * np.exp(width))
    log_p = -value - (secant * (T - bottom)).sum(axis=2)
    n = np.arange(len(label))
    log_p[n, label] = -np.inf
    value, omega = log_sum(log_p)
    own, share = log_sum(T[n, label])
    slopes = -omega[:, :, None] * secant
    slopes[n, label] = share
    first, second = rule.first[label], rule.second[label]
    g = slopes[n[:, None], first, second] - slopes[n[:, None], second, first]
    return value + own - rule.log_kappa - 1e-12, g * slope


def cheapest(rule: Rule, label: Ints, v: Floats, low: Floats, high: Floats) -> Floats:
    """Return about where sum_j v_j l_j is least over a box of levels (N, E) that are enough.

    All that has a positive v gets a share of the room in proportion to v / a, unless that leaves the box.
    """
    J = len(rule.slope) - 1
    a, shift = rule.a[label], rule.shift[label, :J]
    level = np.where(v > 0, low, high)
    level[:, J:] = 0.5 * (low + high)[:, J:]
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where((v[:, :J] > 0) & (a > 0), v[:, :J] / a, 0.0)
        free = weight > 0
        for _ in range(2):
            spent = np.where(free, 0.0, np.exp(np.minimum(shift - a * level[:, :J], LARGEST))).sum(axis=1)
            rest = np.maximum(np.exp(rule.log_kappa) - spent, 1e-300)
            share = weight * (rest / np.where(free, weight, 0.0).sum(axis=1))[:, None]
            ideal = np.where(free, (shift - np.log(share)) / a, level[:, :J])
            level[:, :J] = np.clip(ideal, low[:, :J], high[:, :J])
            free &= ideal == level[:, :J]
    return level


def least(rule: Rule, label: Ints, v: Floats, low: Floats, high: Floats) -> Floats:
    """Return a lower bound of sum_j v_j l_j over boxes of levels (N, E) that are enough, by F's planes."""
    at = cheapest(rule, label, v, low, high)
    f, g = plane(rule, label, low, high, at)
    with np.errstate(divide="ignore", invalid="ignore"):
        price = np.where(v * g < 0, -v / g, 0.0)
    price = np.append(np.where(price < 1e30, price, 0.0), np.zeros((len(v), 1)), axis=1)  # the best is one
    slopes = v[:, None] + price[..., None] * g[:, None]
    rest = price * (f - (g * at).sum(axis=1))[:, None]
    ends = np.where(slopes > 0, low[:, None], high[:, None])
    size = np.abs(slopes).sum(axis=2) + np.abs(v).sum(axis=1)[:, None] + np.abs(rest)
    value = ((slopes * ends).sum(axis=2) + rest - 1e-14 * size).max(axis=1)
    nowhere = f + (g * (np.where(g > 0, low, high) - at)).sum(axis=1) > 0
    return np.where(nowhere, np.inf, value)


def narrowed(rule: Rule, label: Ints, low: Floats, high: Floats) -> tuple[Floats, Floats, Mask]:
    """Narrow boxes of levels (N, E) to those that are enough; return whether nothing is left of them, too.

    To ask for less than what is enough never hurts. So if only rivals matter, their levels leave F = 0.
    """
    J = len(rule.slope) - 1
    low, high = low.copy(), high.copy()
    if rule.normalize:
        for j in range(low.shape[1]):
            at = np.append(high[:, :J], 0.5 * (low + high)[:, J:], axis=1)
            at[:, j] = low[:, j] if j < J else at[:, j]
            f, g = plane(rule, label, low, high, at)
            parts = g * (np.where(g > 0, low, high) - at)
            parts[:, j] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                end = at[:, j] - (f + parts.sum(axis=1)) / g[:, j]
            low[:, j] = np.where(g[:, j] < 0, np.maximum(low[:, j], end - NARROW), low[:, j])
            high[:, j] = np.where(g[:, j] > 0, np.minimum(high[:, j], end + NARROW), high[:, j])
            low[:, j] = np.minimum(low[:, j], high[:, j] + 2 * NARROW)
    else:
        a, shift, others = rule.a[label], rule.shift[label, :J], 1 - np.eye(J)
        with np.errstate(divide="ignore", invalid="ignore"):
            for sign in (1, -1):
                t = np.exp(np.clip(shift - a * (high if sign > 0 else low), -LARGEST, LARGEST))
                left = (np.exp(rule.log_kappa) - t @ others) * (1 + sign * 1e-12)
                level = np.where(a > 0, (shift - np.log(np.maximum(left, 0.0))) / a, -sign * np.inf)
                low, high = (np.maximum(low, level), high) if sign > 0 else (low, np.minimum(high, level))
    empty: Mask = np.asarray((low > high + NARROW).any(axis=1))
    low = np.minimum(low, 2.0)
    return low, np.maximum(low, high), empty


def just_enough(rule: Rule, label: Ints, low: Floats, high: Floats) -> Floats:
    """Return levels (1, E) of a box with about F = 0, with equal parts of the room between its corners."""
    J = len(rule.slope) - 1
    a, shift, level = rule.a[label], rule.shift[label, :J], 0.5 * (low + high)
    most, fewest = (np.exp(np.clip(shift - a * end[:, :J], -LARGEST, LARGEST)) for end in (low, high))
    start, end = 0.0, 1.0
    if not rule.normalize:
        start = end = (np.exp(rule.log_kappa) - fewest.sum()) / max((most - fewest).sum(), 1e-300)
    for _ in range(12 if rule.normalize else 1):
        part = 0.5 * (start + end)
        with np.errstate(divide="ignore", invalid="ignore"):
            asked = (shift - np.log(fewest + part * (most - fewest))) / a
        level[:, :J] = np.clip(np.where(a > 0, asked, -1.0), low[:, :J], high[:, :J])
        if plane(rule, label, level, level, level)[0][0] <= 0:
            start = part
        else:
            end = part
    return level


# Certificates


class Proof(NamedTuple):
    """Multipliers and a point that prove a bound."""

    rows: Floats  # (V, Q) of the comparisons of the chosen prototypes
    further: Floats  # (e,) of the further constraints
    point: Floats  # (d,)


def chosen(c: Comparisons, target: Ints) -> Comparisons:
    """Return the comparisons (N, V, Q) that the targets (N, V) have to win."""
    at = np.arange(len(target))[:, None], np.arange(target.shape[1]), np.maximum(target, 0)
    return take(c, at)


class Inequality(NamedTuple):
    """sum_v q_v(l)'beta + t sum_v e_v(l)'|beta| >= sum_v tau_v(l) for all changes of a node up to a length t.

    All are linear in the levels l. One part per level, and a last one for the further constraints; any
    multiples of the parts hold as well.
    """

    q: Floats  # (N, E + 1, d)
    tau: Floats  # (N, E + 1)
    dq: Floats  # (N, E, d) by level
    dtau: Floats  # (N, E)
    de: Floats  # (N, E, d); e is 0 where all levels are
    size_q: Floats  # (N, E + 1, d) of the terms that were summed
    size_tau: Floats  # (N, E + 1)

    def at(self, levels: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the parts of q, tau and e at levels (N, E)."""
        q, tau, e = self.q.copy(), self.tau.copy(), np.zeros_like(self.q)
        q[:, :-1] += levels[..., None] * self.dq
        tau[:, :-1] += levels * self.dtau
        e[:, :-1] += levels[..., None] * self.de
        return q, tau, e


def both_ways(low: Floats, high: Floats, V: int) -> tuple[Floats, Floats]:
    """Return boxes of the scores of V sides, of boxes (N, E): the last ones are the reverse of others."""
    some = slice(2 * low.shape[1] - V, None)
    return np.append(low, -high[:, some], axis=1), np.append(high, -low[:, some], axis=1)


def one_way(part: Floats, E: int, sign: float) -> Floats:
    """Add to the values of E sides those of the reverse sides, times a sign."""
    result = part[:, :E].copy()
    result[:, 2 * E - part.shape[1] :] += sign * part[:, E:]
    return result


def inequality(
    view: View, sides: Rule, sample: Ints, label: Ints, target: Ints, rows: Comparisons, proofs: list[Any],
    low: Floats, high: Floats, bounded: Mask,
) -> Inequality:  # fmt: skip
    """Return what multipliers prove for levels between low and high (N, E).

    For levels of at least 0, S is at least its tangent at the point. For those of at most 0 it is at most
    what is linear between no change and the vertices +-t e_k of all changes up to a length t, of which there
    has to be one (`bounded`). Where a level may have both signs, its side is left out.
    """
    E, V = low.shape[1], target.shape[1]
    low, high = both_ways(low, high, V)
    lam, more, point = (np.array(part) for part in zip(*proofs, strict=True))
    metric, n = sides.metric[label], np.arange(len(sample))[:, None]
    image = np.matmul(point[:, None, None], view.G)[:, :, 0]
    squared = np.maximum(np.einsum("nmd,nd->nm", image, point), 0.0)
    pull, square = image[n, metric][:, :, None], squared[n, metric][..., None]
    curved = (low >= 0)[..., None]
    below = (high <= 0)[..., None] & ~curved & bounded[:, None, None]
    lam = np.where((curved | below) & (target >= 0)[..., None], np.maximum(lam, 0.0), 0.0)
    width = lam * (1 + np.maximum(-low, high)[..., None])
    length = np.sqrt(0.5 * (rows.S - rows.D)) + np.sqrt(0.5 * (rows.S + rows.D)) + 2 * np.sqrt(square)
    g, c, s, m, more = view.g[sample], view.c[sample], view.s, view.metric, np.maximum(more, 0.0)
    curl, bent = 2 * s[:, None] * image[:, m], s * squared[:, m]
    size_q = 2 * (width * length).sum(axis=2)[..., None] * np.sqrt(view.bend)[metric]
    size_tau = (width * (rows.S + 2 * square)).sum(axis=2)
    q, tau = np.einsum("njq,njqd->njd", lam, rows.lead_slope), -(lam * rows.D).sum(axis=2)
    dq = -np.einsum("njq,njqd->njd", lam, rows.sum_slope + 4 * pull * curved[..., None])
    dtau = (lam * (rows.S - 2 * square * curved)).sum(axis=2)
    de = -2 * (lam * below).sum(axis=2)[..., None] * view.bend[metric]
    return Inequality(
        _joined(one_way(q, E, 1.0), np.einsum("ne,ned->nd", more, c - curl)),
        _joined(one_way(tau, E, 1.0), (more * (g - bent)).sum(axis=1)),
        one_way(dq, E, -1.0),
        one_way(dtau, E, -1.0),
        one_way(de, E, -1.0),
        _joined(one_way(size_q, E, 1.0), np.einsum("ne,ned->nd", more, np.abs(c) + np.abs(curl))),
        _joined(one_way(size_tau, E, 1.0), (more * (view.size[sample] + bent)).sum(axis=1)),
    )


def _joined(parts: Floats, last: Floats) -> Floats:
    return np.concatenate([parts, last[:, None]], axis=1)


def balanced(view: View, sample: Ints, I: Inequality, t: Floats, levels: Floats, j: Ints) -> Inequality:
    """Return the multiples of the parts that prove most at levels (N, J): one of side j, one of all else.

    By how much all changes of length t miss the inequality is concave and piecewise linear in the multiple:
    the next one to look at is where the pieces on its left and on its right meet.
    """
    n = np.arange(len(sample))
    t = np.minimum(t, FAR)
    q, tau, e = I.at(levels)
    # What a step up or down of each feature is worth, (N, V, 2 d).
    steps = np.concatenate([q, -q], axis=2) + t[:, None, None] * np.concatenate([e, e], axis=2)
    own_q, own_tau = steps[n, j], tau[n, j]
    other_q, other_tau = steps.sum(axis=1) - own_q, tau.sum(axis=1) - own_tau
    ways = view.ways[sample].reshape(len(n), -1)
    x = np.zeros(len(n))
    low, high = np.zeros((2, len(n))), np.zeros((2, len(n)))  # pieces value + slope x
    for attempt in range(7):
        rate = np.where(ways, other_q + x[:, None] * (own_q - other_q), 0.0)
        k = rate.argmax(axis=1)
        moves = t * (rate[n, k] > 0)
        piece = np.stack([other_tau - moves * other_q[n, k], own_tau - moves * own_q[n, k]])
        rises = piece[1] > piece[0]
        low = np.where(rises | (attempt == 0), piece, low)
        high = np.where(~rises & (attempt > 0) | (attempt == 1), piece, high)
        gains, losses = low[1] - low[0], high[1] - high[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = (high[0] - low[0]) / (gains - losses)
        x = np.where(attempt == 0, 1.0, np.where(gains <= 0, 0.0, np.where(losses >= 0, 1.0, meet)))
    factor = np.repeat(1 - x[:, None], tau.shape[1], axis=1)
    factor[n, j] = x
    scaled = [factor[:, : part.shape[1]].reshape(*part.shape[:2], *[1] * (part.ndim - 2)) for part in I]
    return Inequality(*(part * scale for part, scale in zip(I, scaled, strict=True)))


def covers(
    view: View, rule: Rule, sample: Ints, label: Ints, I: Inequality, t: Floats, low: Floats, high: Floats
) -> Mask:
    """Return whether inequalities leave no change of length t in boxes of levels that are enough.

    The lowest levels of the rivals, which are asked for whatever is enough, may do alone.
    """
    J = len(rule.slope) - 1
    lowest = np.append(low[:, :J], high[:, J:], axis=1)
    alone = _covers(view, None, sample, label, I, t, low, lowest)
    return alone | _covers(view, rule, sample, label, I, t, low, high)


def _covers(view: View, rule: Any, sample: Ints, label: Ints, I: Inequality, t: Floats, *box: Floats) -> Mask:
    """Return whether inequalities leave no change of length t in boxes of levels, by a rule of those enough.

    Only changes +-t e_k of one feature and none at all have to miss it. Features that reach their bounds
    before t count for less: q'beta <= max_k(|q_k| - nu_k) |beta|_1 + sum_k nu_k room_k for any nu >= 0 (with
    |q_k| + t e_k for |q_k|, that is `rate`).
    """
    (low, high), unit = box, (8 * view.lo.shape[1] + 64) * EPS
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    q, tau, e = (part.sum(axis=1) for part in I.at(middle))
    size_q, size_tau = I.size_q.sum(axis=1), I.size_tau.sum(axis=1)
    lo, hi, t = view.lo[sample], view.hi[sample], np.minimum(t, FAR)[:, None]
    nu, shift, e = np.zeros_like(q), np.zeros_like(tau), t * e
    if (np.minimum(hi, -lo) < t).any():
        nu, shift = _reliefs(q, np.abs(q) + e, lo, hi, t)
    up, down = view.ways[sample].transpose(1, 0, 2)
    slack = unit * (size_tau + shift)[:, None] + unit * t * (size_q + e + nu)
    rise = np.where(up, t * (q + e - nu * (q > 0)), -np.inf) + slack
    fall = np.where(down, t * (e - q - nu * (q <= 0)), -np.inf) + slack
    margin = (tau - shift)[:, None] - np.concatenate([rise, fall, slack.max(axis=1, keepdims=True)], axis=1)
    good = (margin > 0).all(axis=1)
    # What the box alone does not settle, the levels that are enough may.
    de = t[..., None] * I.de
    # Then nu follows the rate, and only its room counts.
    absorbed = nu > np.einsum("njd,nj->nd", np.abs(I.dq) + np.abs(de), half)
    room = np.where(absorbed, np.where(q > 0, hi, lo), 0.0)
    dtau = I.dtau - np.einsum("njd,nd->nj", I.dq, room) - np.einsum("njd,nd->nj", de, np.abs(room))
    up, down = (absorbed & (q > 0))[:, None], (absorbed & (q <= 0))[:, None]
    ends = np.where(up, 0.0, de + I.dq), np.where(down, 0.0, de - I.dq), np.zeros_like(de[..., :1])
    slopes = dtau[..., None] - t[..., None] * np.concatenate(ends, axis=2)
    swing = np.einsum("njk,nj->nk", np.abs(slopes), half)
    if rule is None:
        return np.asarray((margin > swing).all(axis=1))
    n, change = np.nonzero((margin <= swing) & good[:, None])
    v = slopes[n, :, change]
    lowest = margin[n, change] + least(rule, label[n], v, low[n], high[n]) - (v * middle[n]).sum(axis=1)
    good[n[~(lowest > 0)]] = False
    return good


def _reliefs(q: Floats, rate: Floats, lo: Floats, hi: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Return the best nu (N, d) for rates in the direction of q, and sum_k nu_k room_k."""
    room = np.where(q > 0, hi, -lo)
    rate = np.where(room > 0, rate, 0.0)
    order = np.argsort(-rate, axis=1)
    full = np.cumsum(np.take_along_axis(np.where(rate > 0, room, np.inf), order, 1), axis=1) < t
    rates = np.append(np.take_along_axis(rate, order, 1), np.zeros((len(q), 1)), axis=1)
    nu = np.maximum(rate - rates[np.arange(len(q)), full.sum(axis=1)][:, None], 0.0)
    return nu, (nu * np.where(nu > 0, room, 0.0)).sum(axis=1)


# Programs


def projected(program: Program, hint: Floats) -> tuple[bool, Floats, Floats]:
    """Project onto a cell: whether there is a point, the change and the multipliers.

    With many features it looks at those that matter and at those that change in `hint`, then takes in others
    as the multipliers ask for. If there is no point, the multipliers are a ray that proves it, and the change
    is where their sum of constraints is least.
    """
    moves, d = (program.lo < 0) | (program.hi > 0), len(program.lo)
    rate, work = np.where(moves, np.abs(program.q).max(axis=0, initial=0.0), 0.0), moves & (hint != 0)
    while True:
        work |= moves & (rate > 0) & (rate >= np.sort(rate)[-min(FEW_FEATURES, d)])
        frames = {id(M): np.linalg.qr(M[:, work]) for M in program.M}
        status, part, lam, _ = solve(program._replace(
            M=[frames[id(M)].R for M in program.M],
            A=[frames[id(M)].Q.T @ A for M, A in zip(program.M, program.A, strict=True)],
            q=program.q[:, work], q_size=program.q_size[:, work], lo=program.lo[work], hi=program.hi[work],
        ))  # fmt: skip
        beta, found = np.zeros(d), status == SOLVED
        beta[work] = part
        if not found:
            H = np.zeros((d, d))
            for a, s, M in zip(lam, program.s, program.M, strict=True):
                H += 2 * a * s * M.T @ M
            least = np.linalg.lstsq(H[np.ix_(work, work)], (lam @ program.q)[work], rcond=1e-12)[0]
            beta[work] = np.clip(least, program.lo[work], program.hi[work])
        q = lam @ program.gradients(program.images(beta))
        rate = np.where(~work & np.where(q > 0, program.hi > 0, program.lo < 0), np.abs(q), 0.0)
        if not (rate > (1 + 1e-3 if found else 0.0)).any():
            return found, beta, lam


# The search


class Node(NamedTuple):
    """A part of the domain: a class, prototypes that have to win (-1 is open) and a box of levels.

    It is what its proof leaves of a larger box; it is worth another try on this one if it is `fresh`.
    """

    sample: int
    label: int
    bound: float
    target: Ints  # (V,)
    low: Floats  # (E,)
    high: Floats
    proof: Proof | None = None
    fresh: bool = False
    tried: Proof | None = None  # what Newton's method proved of its targets

    @property
    def promise(self) -> float:
        """How far away an answer of the node is thought to be: as the point of its proof."""
        return self.bound if self.proof is None else max(self.bound, float(np.abs(self.proof.point).sum()))


class Boxes(NamedTuple):
    """Nodes as arrays, with all that bounds need."""

    sample: Ints
    label: Ints
    target: Ints
    low: Floats
    high: Floats
    bound: Floats
    comparisons: Comparisons


class Search:
    """The nearest changes `beta` (n, d) of the samples of a batch, their labels and lengths `value` (n,).

    The length is infinite if there is none. No answer can beat `bounds` (n,); `spent` (n,) counts programs.
    """

    def __init__(
        self, view: View, rule: Rule, labels: Ints, gap: float, effort: int, start: Search | None = None
    ) -> None:
        n, d = view.lo.shape
        self.view, self.rule, self.labels, self.gap, self.effort = view, rule, labels, gap, effort
        self.J = J = len(rule.slope) - 1
        self.E = E = rule.slope.shape[1] if rule.normalize else J
        #: Rivals, pairs of other classes, the reverse of these.
        self.sides = rule._replace(
            own=np.append(rule.own[:, :E], rule.other[:, J:E], axis=1),
            other=np.append(rule.other[:, :E], rule.own[:, J:E], axis=1),
            many=np.append(rule.many[0, :, :E], rule.many[1, :, J:E], axis=1),
            metric=np.append(rule.metric[:, :E], rule.metric[:, J:E], axis=1),
        )
        self.value, self.label, self.beta = np.full(n, np.inf), np.full(n, -1), np.zeros((n, d))
        self.closed, self.spent = np.full(n, np.inf), np.zeros(n, dtype=int)
        #: The bounds leave room for no change of this length.
        self.room = np.maximum(-view.lo, view.hi).sum(axis=1) * (1 + 1e-9) + 1e-300
        #: What Newton's method has proven of each sample, class and choice of targets, None where it failed.
        self.known: dict[tuple[int, int, tuple[int, ...]], Proof | None] = {}
        self.nodes: list[Node] = []
        if len(labels):
            self._first_answers()
            if start is not None:
                known = np.flatnonzero(start.value < np.inf)
                label, beta = start.label[known], start.beta[known]
                self._keep(known, label, beta, place(view, rule, known, label, beta).value <= 0)
                self._newton(known, label, beta)
            left = np.flatnonzero(self.value > 0).tolist()
            for i, c in product(left, labels.tolist()):
                target = np.where(self.sides.many[c] == 1, 0, -1)
                self.nodes.append(Node(i, c, 0.0, target, np.full(E, -1.0), np.ones(E)))
            while self._round():
                pass
        for node in self.nodes:
            self.closed[node.sample] = min(self.closed[node.sample], node.bound)
        self.closed[self.closed >= self.room] = np.inf
        self.bounds = np.minimum(self.closed, self.value)

    @property
    def radius(self) -> Floats:
        """What has to be proven of each sample, (n,)."""
        return np.minimum((1 - self.gap) * self.value, self.room)

    # Answers

    def _first_answers(self) -> None:
        """Look for answers that change no feature, one, or else a few."""
        view, n = self.view, len(self.value)
        sample, label = (part.ravel() for part in np.meshgrid(np.arange(n), self.labels, indexing="ij"))
        beta = np.zeros((len(sample), view.lo.shape[1]))
        inside = (place(view, self.rule, sample, label, beta).value <= 0) & view.within(sample, beta)
        self.value[sample[inside]], self.label[sample[inside]] = 0.0, label[inside]
        left = self.value[sample] > 0
        self._settle(sample[left], label[left])
        for c in self.labels.tolist():  # else what is near the prototypes of a class, or their middle, may do
            lost = np.flatnonzero((self.value == np.inf) | (self.rule.normalize & (self.value > 0)))
            own = np.unique(np.delete(self.rule.pairs.own[c], c, axis=0))
            ways = view.ways_to[lost][:, own]
            ways = np.concatenate([ways, 0.5 * ways, ways.mean(axis=1, keepdims=True)], axis=1)
            beta = np.clip(ways, view.lo[lost, None], view.hi[lost, None]).reshape(-1, ways.shape[2])
            sample, label = np.repeat(lost, 2 * len(own) + 1), np.full(len(beta), c)
            value = place(view, self.rule, sample, label, beta).value
            for _ in range(2):
                bad = np.flatnonzero(value > 0)
                if len(bad):
                    value[bad], beta[bad] = along_features(
                        view, self.rule, sample[bad], label[bad], beta[bad]
                    )
            good = value <= 0
            self._keep(sample, label, beta, good)
            self._newton(sample[good], label[good], beta[good])

    def _settle(self, sample: Ints, label: Ints, target: Ints | None = None) -> None:
        """Look for answers that change a few features, and for the nearest ones around them."""
        beta, found, left = np.zeros((len(sample), self.view.lo.shape[1])), sample < 0, np.arange(len(sample))
        chunk = max(1, 2**19 // (beta.shape[1] * self.rule.own[0].size))
        for attempt in range(MOST_FEATURES):
            if not len(left):
                break
            for part in np.split(left, range(chunk, len(left), chunk)):
                forced = None if target is None else target[part]
                value, beta[part] = along_features(
                    self.view, self.rule, sample[part], label[part], beta[part], forced
                )
                found[part] = value <= 0
            self._keep(sample[left], label[left], beta[left], found[left])
            limit = self.value[sample] if attempt < 2 else np.where(self.value[sample] < np.inf, 0.0, np.inf)
            left = left[~found[left] & (np.abs(beta).sum(axis=1) < limit)[left]]
        self._newton(sample, label, beta, target)

    def _keep(self, sample: Ints, label: Ints, beta: Floats, accepted: Mask) -> None:
        """Keep changes that are accepted, within the pieces and nearer than what is known."""
        length = np.where(accepted, np.abs(beta).sum(axis=1), np.inf)
        for k in np.flatnonzero((length < self.value[sample]) & self.view.within(sample, beta)):
            i = int(sample[k])
            if length[k] < self.value[i]:
                self.value[i], self.label[i], self.beta[i] = length[k], label[k], beta[k]

    def _newton(self, sample: Ints, label: Ints, start: Floats, target: Ints | None = None) -> None:
        """Keep what Newton's method makes of changes, and what that proves."""
        view, rule, J, E = self.view, self.rule, self.J, self.E
        optimal, beta, mu = newton(view, rule, sample, label, start, target)
        again = np.flatnonzero(~optimal & rule.normalize)  # otherwise programs find them
        again = again[place(view, rule, sample[again], label[again], start[again]).value <= 0]
        if len(again):
            i, c, forced = sample[again], label[again], None if target is None else target[again]
            shorter = shortened(view, rule, i, c, start[again], forced)
            self._keep(i, c, shorter, np.ones(len(again), dtype=bool))
            optimal[again], beta[again], mu[again] = newton(view, rule, i, c, shorter, forced)
        if target is not None:
            for row in np.flatnonzero(~optimal):
                self.known.setdefault((int(sample[row]), int(label[row]), tuple(target[row].tolist())), None)
        sample, label, beta, mu = sample[optimal], label[optimal], beta[optimal], mu[optimal]
        at = place(view, rule, sample, label, beta, None if target is None else target[optimal])
        self._keep(sample, label, beta, np.ones(len(sample), dtype=bool))
        V = 2 * E - J
        lam = np.zeros((len(sample), V, rule.own.shape[2]))
        rows, price = np.arange(len(sample))[:, None], mu[:, None] * at.weight[:, :E] / at.sums[:, :E]
        lam[rows, np.arange(E), at.other[:, :E]] = np.maximum(price, 0.0)
        lam[rows, np.arange(E, V), at.own[:, J:E]] = np.maximum(-price[:, J:], 0.0)
        for k, length in enumerate(np.abs(beta).sum(axis=1)):
            key = int(sample[k]), int(label[k]), tuple(at.own[k, :J].tolist())
            known = self.known.get(key)
            if known is None or length < (1 - 1e-6) * np.abs(known.point).sum():
                self.known[key] = Proof(lam[k], np.zeros(len(view.s)), beta[k])

    # Nodes

    def _key(self, node: Node) -> tuple[int, int, tuple[int, ...]]:
        """Return what Newton's method knows a node by."""
        return node.sample, node.label, tuple(node.target[: self.J].tolist())

    def _boxes(self, nodes: list[Node]) -> Boxes:
        """Return nodes as arrays, their boxes narrowed to the scores within the radius that are enough."""
        sample, label, bound, target, low, high = (
            np.array(part) for part in list(zip(*nodes, strict=True))[:6]
        )
        E, J, V = low.shape[1], self.J, target.shape[1]
        c = compare(self.view, self.sides, sample, label, self.radius[sample])
        worst, best = _of_side(c.worst, target), _of_side(c.best, target)
        low[:, J:] = np.maximum(low[:, J:], np.maximum(worst[:, J:E], -best[:, E:]))
        high[:, J:] = np.minimum(high[:, J:], np.minimum(best[:, J:E], -worst[:, E:]))
        nowhere = (low > high + NARROW).any(axis=1)
        low[:, :J] = np.maximum(low[:, :J], np.minimum(worst[:, :J], high[:, :J]))
        high[:, :J] = np.minimum(high[:, :J], best[:, :J])
        low, high, empty = narrowed(self.rule, label, low, np.maximum(low, high))
        bend = self.view.bend[self.sides.metric[label]]
        each = alone(c, both_ways(low, high, V)[0], bend, self.view.ways[sample]).max(axis=3)
        undecided = np.where(target >= 0, _at(each, target), each.min(axis=2))
        bound = np.maximum(bound, undecided.max(axis=1))
        bound = np.where(nowhere | empty, np.inf, bound)
        if J > 1:  # then the levels are narrowed by what is within the radius
            bound = np.minimum(bound, self.radius[sample])
        return Boxes(sample, label, target, low, high, bound, c)

    def _round(self) -> bool:
        """Look at the most promising nodes of all samples; False if there are none."""
        nodes, rest, many = [], [], np.zeros(len(self.value), dtype=int)
        limit = np.where(self.value < np.inf, self.effort, min(self.effort, PATIENCE))
        radius = self.radius
        key = attrgetter("promise" if len(self.view.s) else "bound")
        for node in sorted(self.nodes, key=key):
            i = node.sample
            if node.bound >= radius[i]:
                self.closed[i] = min(self.closed[i], node.bound)
            elif (
                node.fresh
                or self._new_proof(node) is not None
                or (self.spent[i] < limit[i] and many[i] < WIDTH)
            ):
                nodes.append(node)
                many[i] += 1
            else:
                rest.append(node)
        self.nodes = rest
        if not nodes:
            return False
        boxes = self._boxes(nodes)
        radius = radius[boxes.sample]
        over = boxes.bound >= radius
        np.minimum.at(self.closed, boxes.sample[over], boxes.bound[over])
        is_open = (boxes.target[:, : self.J] < 0).any(axis=1)
        for k in np.flatnonzero(~over & is_open):
            node = nodes[k]._replace(bound=boxes.bound[k])
            self.nodes += self._by_target(node, int((node.target < 0).argmax()))
        keep = np.flatnonzero(~over & ~is_open)
        if not len(keep):
            return True
        boxes, nodes = take(boxes, keep), [nodes[k] for k in keep]
        rows = chosen(boxes.comparisons, boxes.target)
        proofs = self._proofs(boxes, rows, nodes)
        children = self._uncovered(boxes, rows, proofs, nodes)
        self.nodes += self._bounded(children)
        return True

    def _by_target(self, node: Node, side: int) -> list[Node]:
        """Divide a node by the prototypes of a side."""
        children = []
        for p in range(self.sides.many[node.label, side]):
            target = node.target.copy()
            target[side] = p
            children.append(node._replace(target=target))
        return children

    def _new_proof(self, node: Node) -> Proof | None:
        """Return what Newton's method proves of the targets of a node, if it was not tried yet."""
        known = self.known.get(self._key(node))
        return None if known is node.tried else known

    def _proofs(self, boxes: Boxes, rows: Comparisons, nodes: list[Node]) -> list[Proof]:
        """Return a proof for each node that was not tried on it yet; keep the answers on the way."""
        new = np.array([k for k, node in enumerate(nodes) if self._key(node) not in self.known], dtype=int)
        if len(new):
            self._settle(boxes.sample[new], boxes.label[new], boxes.target[new, : self.J])
        proofs, solved = [], []
        for k, node in enumerate(nodes):
            proof = node.proof if node.fresh else self._new_proof(node)
            if proof is None:
                self.spent[node.sample] += 1
                proof, works = self._program(boxes, rows, k, node.proof)
                solved += [k] if works else []
            elif not node.fresh:
                nodes[k] = node._replace(tried=proof)
            proofs.append(proof)
        if solved:
            points = np.array([proofs[k].point for k in solved])
            sample, label = boxes.sample[solved], boxes.label[solved]
            good = place(self.view, self.rule, sample, label, points).value <= 0
            near = np.abs(points).sum(axis=1) < self.value[sample]
            near |= np.array([self.known[self._key(nodes[k])] is None for k in solved])
            self._keep(sample, label, points, good)
            self._newton(sample[near], label[near], points[near], boxes.target[solved][near, : self.J])
        return proofs

    def _program(self, boxes: Boxes, rows: Comparisons, k: int, known: Proof | None) -> tuple[Proof, bool]:
        """Project onto the cell of one choice of levels of node k.

        For levels below 0, S is replaced by its tangent halfway to the best answer.
        """
        view, rule, i, J = self.view, self.rule, int(boxes.sample[k]), self.J
        label, low, high, mine = boxes.label[[k]], boxes.low[[k]], boxes.high[[k]], take(rows, k)
        metric = self.sides.metric[label[0]]
        level = just_enough(rule, label, low, high)
        if known is not None and np.abs(known.point).sum() > self.radius[i]:  # nothing of it may be in reach
            level = low
        elif known is not None:  # halfway to where it is weakest
            at = place(view, rule, boxes.sample[[k]], label, known.point[None], boxes.target[[k], :J])
            v = np.append(known.rows.sum(axis=1)[None, :J] * at.sums[:, :J], 0 * low[:, J:], axis=1)
            level = 0.5 * (level + cheapest(rule, label, v, low, high))
        asks = both_ways(low, high, len(metric))[0][0]
        asks[:J] = level[0, :J]
        use = (boxes.target[k] >= 0) & ((asks > 0) | ((asks > -1) & (np.arange(len(asks)) < J)))
        side, other = np.nonzero(np.repeat(use[:, None], mine.S.shape[1], axis=1))
        l = asks[side]
        own = self.sides.own[label[0], side, boxes.target[k, side]]
        rival = self.sides.other[label[0], side, other]
        A = (1 + l)[:, None] * view.z[i, own] - (1 - l)[:, None] * view.z[i, rival]
        pull = (view.G[metric] @ self.beta[i]) * (asks < 0)[:, None]
        S, slope = mine.S - 0.5 * (pull @ self.beta[i])[:, None], mine.sum_slope + 2 * pull[:, None]
        q = np.concatenate([(mine.lead_slope - asks[:, None, None] * slope)[side, other], view.c[i]])
        g = np.concatenate([(asks[:, None] * S - mine.D)[side, other], view.g[i]])
        size = np.concatenate([mine.S[side, other], view.size[i]])
        program = Program(
            [view.factors[j] for j in (*metric[side], *view.metric)],
            [*A, *(centre[i] for centre in view.centres)], q, np.abs(q),
            np.append(2 * np.maximum(l, 0), view.s), g, size, view.margin * size, view.lo[i], view.hi[i],
        )  # fmt: skip
        solved, beta, lam = projected(program, self.beta[i])
        multipliers = np.zeros(mine.S.shape)
        multipliers[side, other] = lam[: len(side)]
        return Proof(multipliers, lam[len(side) :], beta), solved

    def _uncovered(
        self, boxes: Boxes, rows: Comparisons, proofs: list[Proof], nodes: list[Node]
    ) -> list[Node]:
        """Return what certificates leave of nodes, in parts along one level; the rest is closed."""
        view, rule, (sample, label, target, low, high, bound) = self.view, self.rule, boxes[:6]
        radius, E, J = self.radius[sample], low.shape[1], self.J
        I = inequality(view, self.sides, sample, label, target, rows, proofs, low, high, radius < FAR)
        high[:, :J] = np.where(rule.a[label] > 0, high[:, :J], low[:, :J])
        whole = covers(view, rule, sample, label, I, radius, low, high)
        points = np.array([proof.point for proof in proofs])
        at = place(view, rule, sample, label, points, target[:, :J])
        centre = np.clip(at.scores[:, :E], low, high)
        missed = np.append(at.scores[:, J:E] < low[:, J:], at.scores[:, J:E] > high[:, J:], axis=1)
        missed &= target[:, J:] < 0
        # Divide a level around 0, else that which the certificate depends on most.
        weight = np.abs(I.dtau) * (high - low)
        if rule.normalize:
            lam = np.array([proof.rows for proof in proofs])
            price = lam.sum(axis=2) * np.append(at.sums[:, :E], at.sums[:, J:E], axis=1)
            mu = price[:, :J].sum(axis=1) / np.maximum(at.weight[:, :J].sum(axis=1), 1e-300)
            weight *= RANGE
            weight += self._lost(label, low, high, centre) * np.maximum(mu, 1e-9)[:, None]
        weight[:, :J][(low < 0)[:, :J] & (high > 1e-6)[:, :J]] = np.inf
        weight = np.where(high - low > 1e-7, weight, 0.0)
        side = weight.argmax(axis=1)
        zero = np.isinf(weight.max(axis=1))
        point = weight.max(axis=1) == 0
        np.minimum.at(self.closed, sample, np.where(point & ~whole, bound, np.maximum(bound, radius)))
        children: list[Node] = []
        n = np.flatnonzero(~whole & ~point)
        if not len(n):
            return children
        j, lo, hi = side[n], low[n, side[n]], high[n, side[n]]
        mid = centre[n, j]
        grid = np.concatenate([mid - (mid - lo) * PARTS[:0:-1, None], mid + (hi - mid) * PARTS[:, None]]).T
        B = grid.shape[1] - 1
        m, row = np.repeat(n, B), np.arange(B * len(n))
        box_low, box_high, at_j = low[m], high[m], (row, np.repeat(j, B))
        box_low[at_j], box_high[at_j] = grid[:, :-1].ravel(), grid[:, 1:].ravel()
        box_low, box_high, empty = narrowed(rule, label[m], box_low, box_high)
        part = balanced(view, sample[m], take(I, m), radius[m], 0.5 * (box_low + box_high), at_j[1])
        holds = covers(view, rule, sample[m], label[m], part, radius[m], box_low, box_high) | empty
        for r, (k, held) in enumerate(zip(n, holds.reshape(len(n), B), strict=True)):
            node = nodes[k]._replace(bound=bound[k], low=low[k], high=high[k], proof=proofs[k], fresh=True)
            if np.diff(grid[r])[held].sum() >= 0.2 * (hi[r] - lo[r]):
                edges = np.flatnonzero(np.diff(np.concatenate([[True], held, [True]]).astype(int)))
                ends = [(grid[r, a], grid[r, b]) for a, b in edges.reshape(-1, 2)]
            else:
                if missed[k].any():
                    children += self._by_target(node._replace(fresh=False), J + int(missed[k].argmax()))
                    continue
                split = float(np.clip(mid[r], 0.8 * lo[r] + 0.2 * hi[r], 0.2 * lo[r] + 0.8 * hi[r]))
                if zero[k] or lo[r] < 0 < hi[r]:
                    split = 0.0
                ends = [(lo[r], split), (split, hi[r])]
                node = node._replace(fresh=False)
            for ends_of in ends:
                lows, highs = low[k].copy(), high[k].copy()
                lows[j[r]], highs[j[r]] = ends_of
                children.append(node._replace(low=lows, high=highs))
        return children

    def _lost(self, label: Ints, low: Floats, high: Floats, at: Floats) -> Floats:
        """Return by how much planes below F are too low for the width of each side, (N, E)."""
        value = plane(self.rule, label, low, high, at)[0]
        lost = np.zeros_like(low)
        for j in range(low.shape[1]):
            ends = low.copy(), high.copy()
            for end in ends:
                end[:, j] = at[:, j]
            lost[:, j] = plane(self.rule, label, *ends, at)[0] - value
        return lost

    def _bounded(self, nodes: list[Node]) -> list[Node]:
        """Give nodes of samples that take long the largest radius that their proofs cover as a bound."""
        late = [k for k, node in enumerate(nodes) if not node.fresh and self.spent[node.sample] > WIDTH]
        late = [k for k in late if self.value[nodes[k].sample] < np.inf]
        if not late:
            return nodes
        boxes = self._boxes([nodes[k] for k in late])
        sample, label, target, low, high, bound = boxes[:6]
        proofs, rows = [nodes[k].proof for k in late], chosen(boxes.comparisons, target)
        proven, step = np.zeros(len(late)), self.radius[sample]
        I = inequality(self.view, self.sides, sample, label, target, rows, proofs, low, high, step < FAR)
        for _ in range(10):  # bisection
            step = 0.5 * step
            holds = covers(self.view, self.rule, sample, label, I, proven + step, low, high)
            proven += np.where(holds, step, 0.0)
        for k, value in zip(late, np.maximum(bound, proven), strict=True):
            nodes[k] = nodes[k]._replace(bound=value)
        return nodes


def _at(each: Floats, target: Ints) -> Floats:
    """Return the values (N, J) of the targets, of (N, J, P)."""
    return np.take_along_axis(each, np.maximum(target, 0)[..., None], 2)[..., 0]


def _of_side(score: Floats, target: Ints) -> Floats:
    """Return a bound (N, V) of each side's score, by bounds (N, V, P, Q) of its comparisons."""
    each = score.min(axis=3)
    return np.where(target >= 0, _at(each, target), each.max(axis=2))
