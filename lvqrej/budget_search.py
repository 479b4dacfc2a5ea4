"""Branch and bound over budgets: the nearest change that makes one of several classes probable enough.

In the terms of `local_search`, whoever gives side j the *level* l_j asks for a score s_j >= l_j, that is for
l_j S_j - D_j <= 0, and lets it spend the share exp(b_j - a_j l_j) of the budget, b_j = beta_ij - log kappa;
the shares add up to 1 at most. S = d_own + d_other is a convex quadratic, D = d_other - d_own is linear.

    node         a class, the prototypes that have to win (some may be open), and a box of levels
    bound        the convex relaxation l S >= low S + (l - low) S_low, solved by Clarabel
    certificate  multipliers and a point prove, by convexity in beta alone, an inequality q(l)'beta >= tau(l)
                 that is linear in the levels: around an optimum it holds for large boxes of them
    answer       what `local_search` finds from a relaxation's point, else the program with levels held fixed

The samples of a batch go in lock-step, so this is not `branch_and_bound`, which takes one node at a time.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, NamedTuple, Self

import clarabel
import numpy as np
from scipy.sparse import csc_matrix

from lvqrej.local_search import (
    EPS,
    LARGEST,
    Floats,
    Ints,
    Mask,
    Rule,
    View,
    along_features,
    downhill,
    least_excess,
    newton,
    place,
    sparse,
    stretched,
)
from lvqrej.solvers.certificate import certified

#: A radius beyond all changes.
FAR = 1e30
#: Boxes of levels narrower than this are as good as a point.
NARROW = 1e-9
#: Nodes of one sample that are relaxed in one round, and relaxations without any answer until it gives up.
WIDTH, PATIENCE = 4, 20
#: A first answer changes at most so many features.
MOST_FEATURES = 8
#: At most so many combinations of prototypes are listed before anything is relaxed.
FEW_TARGETS = 16
#: With more features than this, a program starts with those that matter and takes in others as needed.
FEW_FEATURES = 16
#: The price of violating a row, in units of length, where a program has no solution.
VIOLATION = 1e3
#: Where a box is divided to see what a certificate covers, from its centre (0) to its ends (1).
PARTS = np.concatenate([[0.0], np.geomspace(0.005, 1.0, 20)])


class Comparisons(NamedTuple):
    """Sums S and leads D of all pairs of prototypes of some nodes, and what they can be within a radius."""

    S: Floats  # (N, V, P, Q) at the sample
    D: Floats
    sum_slope: Floats  # (N, V, P, Q, d) their slopes there
    lead_slope: Floats
    apart: Floats  # (N, V, P, Q)
    lowest: Floats  # (N, V, P, Q) of S
    highest: Floats
    worst: Floats  # (N, V, P, Q) score
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
    lowest = np.maximum(0.5 * apart, S - rise(-sum_slope)) * (1 - 1e-12)
    highest = (S + rise(sum_slope, 2 * bend)) * (1 + 1e-12)
    least, most = D - rise(-lead_slope) - slack, D + rise(lead_slope) + slack
    near_least, far_least = (np.maximum(d - rise(2 * w) - slack, 0.0) for d, w in ((near, u), (far, v)))
    near_most, far_most = (d + rise(-2 * w, bend) + slack for d, w in ((near, u), (far, v)))
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.fmin(most / np.where(most > 0, lowest, highest), _score(near_least, far_most))
        worst = np.fmax(least / np.where(least > 0, highest, lowest), _score(near_most, far_least))
    twin = apart == 0
    best, worst = np.where(twin, 0.0, np.minimum(best, 1.0)), np.where(twin, 0.0, np.maximum(worst, -1.0))
    return Comparisons(S, D, sum_slope, lead_slope, apart, lowest, highest, worst, best)


def _score(near: Floats, far: Floats) -> Floats:
    return (far - near) / (far + near)


def alone(c: Comparisons, level: Floats, bend: Floats, ways: Mask) -> Floats:
    """Return how far at least each comparison alone makes one go for its level (N, V), (N, V, P, Q).

    A ball (level above 0): with f = g - 2 C'beta + 2 l beta'G beta, g |A| / ((|A| + B) max_k |C_k|). The
    outside of a ball (below 0): the shortest way out goes along one feature. A level of -1 asks for nothing.
    """
    l, bend = level[:, :, None, None], bend[:, :, None, None]
    g = l * c.S - c.D - 1e-13 * c.S
    C = 0.5 * (c.lead_slope - l[..., None] * c.sum_slope)
    up, down = (way[:, None, None, None] for way in ways.transpose(1, 0, 2))
    squared = (1 + l * l) * c.S - 2 * l * c.D - (1 - l * l) * (c.S - c.apart)
    A, B = np.sqrt(np.maximum(squared, 0.0)), np.sqrt(np.maximum(squared - 2 * l * g, 0.0))
    rate = np.maximum(np.where(up, C, 0.0), np.where(down, -C, 0.0)).max(axis=-1)
    root = np.sqrt(np.maximum(C * C - 2 * l[..., None] * bend * g[..., None], 0.0))
    speed = np.maximum(np.where(up, C + root, 0.0), np.where(down, root - C, 0.0)).max(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.where(l >= 0, np.where(A > 0, g * A / ((A + B) * rate), 0.0), g / speed) * (1 - 1e-12)
    result = np.where((l > 1) | ((l > 0) & (c.apart == 0)), np.inf, result)
    return np.where((g <= 0) | (l <= -1), 0.0, result)


class Rows(NamedTuple):
    """The comparisons that the chosen prototypes have to win, (N, V, Q)."""

    S: Floats
    D: Floats
    sum_slope: Floats
    lead_slope: Floats
    lowest: Floats
    highest: Floats
    use: Mask


def chosen(c: Comparisons, rule: Rule, label: Ints, target: Ints) -> Rows:
    """Return the comparisons of the targets (N, V); those of an open one (-1) are not in use."""
    at = np.arange(len(target))[:, None], np.arange(target.shape[1]), np.maximum(target, 0)
    many = rule.pairs.counts[rule.second[label], rule.first[label]]
    use = (target >= 0)[..., None] & (np.arange(c.S.shape[3]) < many[..., None]) & (c.apart[at] > 0)
    return Rows(c.S[at], c.D[at], c.sum_slope[at], c.lead_slope[at], c.lowest[at], c.highest[at], use)


# Budgets


class Budget(NamedTuple):
    """The room for levels, sum_j cost_j exp(b_j - a_j l_j) <= total; some sides cost nothing."""

    a: Floats  # (N, V)
    b: Floats
    cost: Floats
    total: Floats  # (N,)

    def take(self, rows: Any) -> Budget:
        """Return the budgets of some nodes."""
        return Budget(*(part[rows] for part in self))

    def shares(self, level: Floats) -> Floats:
        """Return what levels spend."""
        return self.cost * np.exp(np.clip(self.b - self.a * level, -LARGEST, LARGEST))

    def levels(self, share: Floats) -> Floats:
        """Return the levels that spend shares, -2 where nothing is spent."""
        with np.errstate(divide="ignore"):
            return np.where(
                self.cost > 0, (self.b - np.log(np.maximum(share, 1e-300) / self.cost)) / self.a, -2.0
            )


def narrowed(low: Floats, high: Floats, budget: Budget, complete: bool) -> tuple[Floats, Floats]:
    """Raise the lowest levels (N, V) to what the others leave of the budget.

    If `complete`, the budget is spent to the last (to ask for less never hurts), which limits the highest.
    """
    paid, total = budget.cost > 0, budget.total[:, None]
    fewest = budget.shares(high)
    left = total - (fewest.sum(axis=1, keepdims=True) - fewest)
    low = np.where(paid, np.maximum(low, budget.levels(left * (1 + 1e-12))), low)
    if complete:
        most = budget.shares(low)
        left = total - (most.sum(axis=1, keepdims=True) - most)
        high = np.where(paid & (left > 0), np.minimum(high, budget.levels(left * (1 - 1e-12))), high)
    return low, high


def least(v: Floats, low: Floats, high: Floats, budget: Budget) -> Floats:
    """Return a lower bound of sum_j v_j l_j over boxes of levels within the budget; arrays are (N, V).

    Any price of the budget proves one; at the best price all that has a positive v gets a share in
    proportion to v / a, unless that leaves the box.
    """
    paid = (v > 0) & (budget.cost > 0)
    most, fewest = budget.shares(low), budget.shares(high)
    room = budget.total - np.where(paid, 0.0, fewest).sum(axis=1)
    weight = np.where(paid, v / budget.a, 0.0)
    share, free = np.where(paid, most, 0.0), paid
    scarce, price = share.sum(axis=1) > room, np.zeros(len(v))
    for _ in range(v.shape[1] + 1):
        rest = room - np.where(free, 0.0, share).sum(axis=1)
        price = np.where(scarce, np.where(free, weight, 0.0).sum(axis=1) / np.maximum(rest, 1e-300), 0.0)
        ideal = np.where(free & scarce[:, None], weight / np.maximum(price, 1e-300)[:, None], share)
        above, below = np.maximum(ideal - most, 0.0) * free, np.maximum(fewest - ideal, 0.0) * free
        over = (above.sum(axis=1) >= below.sum(axis=1))[:, None]
        held = np.where(over, above > 0, below > 0)
        share, free = np.where(held, np.where(over, most, fewest), ideal), free & ~held
        if not held.any():
            break
    share = np.where(scarce[:, None], weight / np.maximum(price, 1e-300)[:, None], share)
    share = np.clip(share, fewest, most)
    level = np.where(paid, np.clip(budget.levels(share), low, high), np.where(v > 0, low, high))
    value = (v * level).sum(axis=1) + price * ((share * paid).sum(axis=1) - room)
    return np.where(fewest.sum(axis=1) > budget.total * (1 + 1e-9), np.inf, value)


# Certificates


class Proof(NamedTuple):
    """Multipliers and a point that prove a bound; the levels they were found at."""

    rows: Floats  # (V, Q) of the comparisons of the chosen prototypes
    further: Floats  # (e,) of the further constraints
    point: Floats  # (d,)
    levels: Floats  # (V,)
    solved: bool = True


class Inequality(NamedTuple):
    """sum_v q_v(l)'beta >= sum_v tau_v(l) for all changes of a node, q and tau linear in the levels l.

    One part per side, and a last one for the further constraints; any multiples of the parts hold as well.
    """

    q: Floats  # (N, V + 1, d)
    tau: Floats  # (N, V + 1)
    dq: Floats  # (N, V, d) by level
    dtau: Floats  # (N, V)
    size_q: Floats  # (N, V + 1, d) of the terms that were summed
    size_tau: Floats  # (N, V + 1)

    def at(self, levels: Floats) -> tuple[Floats, Floats]:
        """Return the parts of q and tau at levels (N, V)."""
        q, tau = self.q.copy(), self.tau.copy()
        q[:, :-1] += levels[..., None] * self.dq
        tau[:, :-1] += levels * self.dtau
        return q, tau


def inequality(
    view: View, rule: Rule, sample: Ints, label: Ints, rows: Rows, proofs: list[Proof],
    low: Floats, high: Floats, local: bool,
) -> Inequality:  # fmt: skip
    """Return what multipliers prove: of l S >= l (tangent of S) if `local`, else of the relaxation."""
    lam, more, point = (np.array([proof[k] for proof in proofs]) for k in range(3))
    metric, n = rule.metric[label], np.arange(len(sample))[:, None]
    image = np.matmul(point[:, None, None], view.G)[:, :, 0]
    squared = np.maximum(np.einsum("nmd,nd->nm", image, point), 0.0)
    pull, square = image[n, metric][:, :, None], squared[n, metric][..., None]
    l, h = low[..., None], high[..., None]
    curved = l >= 0
    lam = np.where(rows.use & (l > -1) & (curved | (rows.highest < FAR)), np.maximum(lam, 0.0), 0.0)
    tangent, dtangent = rows.S - 2 * square, rows.sum_slope + 4 * pull
    flat = np.where(h <= 0, rows.highest, rows.lowest)
    slope, start = np.where(curved, tangent, flat), np.where(curved, 0.0, l * (rows.highest - flat))
    q, dq = rows.lead_slope, np.where(curved[..., None], -dtangent, 0.0)
    if not local:
        slope, start = (
            np.where(curved, rows.lowest, slope),
            np.where(curved, l * (tangent - rows.lowest), start),
        )
        q, dq = rows.lead_slope + l[..., None] * dq, 0.0 * dq
    width = lam * (1 + np.maximum(np.abs(l), np.abs(h)))
    length = np.sqrt(0.5 * (rows.S - rows.D)) + np.sqrt(0.5 * (rows.S + rows.D)) + 2 * np.sqrt(square)
    g, c, s, m, more = view.g[sample], view.c[sample], view.s, view.metric, np.maximum(more, 0.0)
    curl, bent = 2 * s[:, None] * image[:, m], s * squared[:, m]
    size_q = 2 * (width * length).sum(axis=2)[..., None] * np.sqrt(view.bend)[metric]
    size_tau = (width * (rows.S + np.where(curved, 2 * square, rows.highest))).sum(axis=2)
    return Inequality(
        _joined(np.einsum("nvq,nvqd->nvd", lam, q), np.einsum("ne,ned->nd", more, c - curl)),
        _joined((lam * (start - rows.D)).sum(axis=2), (more * (g - bent)).sum(axis=1)),
        np.einsum("nvq,nvqd->nvd", lam, dq),
        (lam * slope).sum(axis=2),
        _joined(size_q, np.einsum("ne,ned->nd", more, np.abs(c) + np.abs(curl))),
        _joined(size_tau, (more * (view.size[sample] + bent)).sum(axis=1)),
    )


def _joined(parts: Floats, last: Floats) -> Floats:
    return np.concatenate([parts, last[:, None]], axis=1)


def unit_of(view: View) -> float:
    """Return the relative error of the sums in a certificate."""
    return (8 * view.lo.shape[1] + 64) * EPS


def proven(view: View, sample: Ints, I: Inequality, budget: Budget, low: Floats, high: Floats) -> Floats:
    """Return the bounds that inequalities with a fixed q prove for boxes of levels, (N,)."""
    sizes = I.size_tau.sum(axis=1) + np.abs(I.dtau * np.maximum(np.abs(low), np.abs(high))).sum(axis=1)
    q, tau = I.q.sum(axis=1), I.tau.sum(axis=1) + least(I.dtau, low, high, budget)
    return certified(q, tau, I.size_q.sum(axis=1), sizes, view.lo[sample], view.hi[sample], unit_of(view))


def balanced(view: View, sample: Ints, I: Inequality, t: Floats, levels: Floats, j: Ints) -> Floats:
    """Return the multiples (N, V + 1) of the parts that prove most at levels (N, V): one of side j, one else.

    By how much all changes of length t miss the inequality is concave in the multiple: a golden section.
    """
    n = np.arange(len(sample))
    q, tau = I.at(levels)
    own_q, own_tau = q[n, j], tau[n, j]
    other_q, other_tau = q.sum(axis=1) - own_q, tau.sum(axis=1) - own_tau
    up, down = view.ways[sample].transpose(1, 0, 2)

    def missed(x: Floats) -> Floats:
        q = other_q + x[:, None] * (own_q - other_q)
        rate = np.maximum(np.where(up, q, 0.0), np.where(down, -q, 0.0)).max(axis=1)
        return other_tau + x * (own_tau - other_tau) - np.minimum(t, FAR) * rate

    low, high, ratio = np.zeros(len(j)), np.ones(len(j)), 0.5 * (np.sqrt(5) - 1)
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = missed(left), missed(right)
    for _ in range(20):
        rises = at_left < at_right
        low, high = np.where(rises, left, low), np.where(rises, high, right)
        x = np.where(rises, low + ratio * (high - low), high - ratio * (high - low))
        value = missed(x)
        left, right = np.where(rises, right, x), np.where(rises, x, left)
        at_left, at_right = np.where(rises, at_right, value), np.where(rises, value, at_left)
    x = 0.5 * (low + high)
    factor = np.repeat((1 - x)[:, None], tau.shape[1], axis=1)
    factor[n, j] = x
    return factor


def covers(
    view: View,
    sample: Ints,
    I: Inequality,
    budget: Budget,
    t: Floats,
    factor: Floats,
    low: Floats,
    high: Floats,
) -> Mask:
    """Return whether multiples (N, V + 1) of an inequality leave no change of length t in boxes of levels.

    Only changes +-t e_k of one feature and none at all have to miss it. Features that reach their bounds
    before t count for less: q'beta <= max_k(|q_k| - nu_k) |beta|_1 + sum_k nu_k room_k for any nu >= 0.
    """
    middle, half, unit = 0.5 * (low + high), 0.5 * (high - low), unit_of(view)
    q, tau = (np.einsum("nv,nv...->n...", factor, part) for part in I.at(middle))
    size_q, size_tau = (np.einsum("nv,nv...->n...", factor, part) for part in (I.size_q, I.size_tau))
    lo, hi, t = view.lo[sample], view.hi[sample], np.minimum(t, FAR)[:, None]
    nu, shift = np.zeros_like(q), np.zeros_like(tau)
    if (np.minimum(hi, -lo) < t).any():
        nu, shift = _reliefs(q, lo, hi, t)
    up, down = view.ways[sample].transpose(1, 0, 2)
    rise, fall = (
        np.where(way, rate, -np.inf) for way, rate in ((up, q - nu * (q > 0)), (down, -q - nu * (q <= 0)))
    )
    slack = unit * (size_tau + shift)[:, None] + unit * t * (size_q + nu)
    least_rate = np.full((len(q), 1), 0.0)
    margin = (tau - shift)[:, None] - np.concatenate(
        [t * rise + slack, t * fall + slack, least_rate + slack.max(axis=1, keepdims=True)], axis=1
    )
    good = (margin > 0).all(axis=1)
    dq, dtau = t[..., None] * factor[:, :-1, None] * I.dq, factor[:, :-1] * I.dtau
    # What the box alone does not settle, the budget may.
    both = (
        np.einsum("nvd,nv->nd", np.abs(dtau[..., None] - dq), half),
        np.einsum("nvd,nv->nd", np.abs(dtau[..., None] + dq), half),
    )
    swing = np.concatenate([*both, np.einsum("nv,nv->n", np.abs(dtau), half)[:, None]], axis=1)
    n, change = np.nonzero((margin <= swing) & good[:, None])
    d = q.shape[1]
    sign = np.where(change < d, 1.0, -1.0) * (change < 2 * d)
    v = dtau[n] - sign[:, None] * dq[n, :, change % d]
    lowest = margin[n, change] + least(v, low[n], high[n], budget.take(n)) - (v * middle[n]).sum(axis=1)
    good[n[~(lowest > 0)]] = False
    return good


def _reliefs(q: Floats, lo: Floats, hi: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Return the best nu (N, d) for some q, and sum_k nu_k room_k."""
    room = np.where(q > 0, hi, -lo)
    rate = np.where(room > 0, np.abs(q), 0.0)
    order = np.argsort(-rate, axis=1)
    full = np.cumsum(np.take_along_axis(np.where(rate > 0, room, np.inf), order, 1), axis=1) < t
    rates = (
        _joined(np.take_along_axis(rate, order, 1).T, np.zeros((1, len(q))).T[None][0].T).T
        if False
        else np.concatenate([np.take_along_axis(rate, order, 1), np.zeros((len(q), 1))], axis=1)
    )
    nu = np.maximum(rate - rates[np.arange(len(q)), full.sum(axis=1)][:, None], 0.0)
    return nu, (nu * np.where(nu > 0, room, 0.0)).sum(axis=1)


# Convex programs


class Program(NamedTuple):
    """min |beta|_1 s.t. s beta'G beta - c'beta + g + h (l_j - level_j) <= 0 for all rows, within a budget.

    The levels of the sides in `free` are between low and high; what they spend adds up to 1 at most.
    """

    metric: Ints  # (R,)
    s: Floats  # (R,)
    c: Floats  # (R, d)
    g: Floats  # (R,)
    h: Floats  # (R,)
    side: Ints  # (R,) -1 for a further constraint
    free: Ints  # (f,) sides
    level: Floats  # (V,)
    low: Floats  # (V,)
    high: Floats  # (V,)
    a: Floats  # (V,)
    share: Floats  # (V,) what is spent at `level`


def solve(view: View, i: int, P: Program, hint: Floats) -> tuple[bool, Floats, Floats, Floats]:
    """Solve the program of sample i: whether that worked, beta, levels and multipliers of the rows.

    Features that change in `hint` are sure to be looked at.
    """
    up, down = view.ways[i]
    work = up | down
    if work.sum() > FEW_FEATURES:
        rate = np.where(work, np.abs(P.c).max(axis=0, initial=0.0), -1.0)
        work = (work & (hint != 0)) | (rate > max(np.sort(rate)[-FEW_FEATURES], 0.0))
    elastic = False
    for _ in range(6):
        solved, beta, levels, lam = _clarabel(view, i, P, np.flatnonzero(work), elastic)
        if not solved and not elastic:
            elastic = True
            continue
        q = lam @ P.c - 2 * np.einsum("r,rd->d", lam * P.s, view.G[P.metric] @ beta)
        rate = np.where(work, 0.0, np.maximum(np.where(up, q, 0.0), np.where(down, -q, 0.0)))
        if not solved or rate.max() <= 1 + 1e-4:
            break
        work |= rate > max(1 + 1e-4, np.sort(rate)[-FEW_FEATURES // 2])
    return solved and not elastic, beta, levels, lam


def _clarabel(
    view: View, i: int, P: Program, features: Ints, elastic: bool
) -> tuple[bool, Floats, Floats, Floats]:
    """Solve the program over some features; if `elastic`, rows may be violated at a high price."""
    F, R, f, d = len(features), len(P.g), len(P.free), P.c.shape[1]
    if F == 0 or R == 0:
        return False, np.zeros(d), P.level, (P.g > 0).astype(float)
    c, g, lo, hi = P.c[:, features], P.g.copy(), view.lo[i, features], view.hi[i, features]
    rate = np.maximum(np.abs(c).max(axis=1), 1e-300)
    unit = float(np.where(g > 0, g / rate, 0.0).max()) or 1.0  # a length to measure changes in
    metrics = sorted(set(P.metric[P.s > 0].tolist()))
    factors, origins, scales = [], [], []
    for m in metrics:
        factor: Any = np.linalg.qr(view.factors[m][:, features], mode="r")
        mine = np.flatnonzero((P.metric == m) & (P.s > 0))
        origin, scale = np.zeros(len(factor)), unit * float(np.abs(factor).max(initial=0.0)) or 1.0
        worst = mine[(g[mine] / rate[mine]).argmax()]
        centre = np.linalg.lstsq(factor.T, c[worst] / (2 * P.s[worst]), rcond=1e-12)[0]
        squared = centre @ centre - g[worst] / P.s[worst]
        if 0 < squared < 0.25 * (centre @ centre):  # a small ball far away is seen from its centre
            origin, scale = centre, float(np.sqrt(squared))
        c[mine] -= 2 * P.s[mine, None] * (origin @ factor)
        g[mine] -= P.s[mine] * (origin @ origin)
        factors.append(factor)
        origins.append(origin / scale)
        scales.append(scale)
    norm = np.maximum(np.maximum(np.abs(c).max(axis=1) * unit, np.abs(g)), 1e-300)
    bounded = bool(np.isfinite(lo).any() or np.isfinite(hi).any())
    # Columns: changes, their sizes, squares |M beta|^2, levels, shares, violation.
    l0 = 2 * F + len(metrics)
    n, r0 = l0 + 2 * f + elastic, 4 * F if bounded else 2 * F
    linear = r0 + R + (2 * f + 1 if f else 0) + elastic
    A = np.zeros((linear + sum(len(factor) + 2 for factor in factors) + 3 * f, n))
    b, k, row = np.zeros(len(A)), np.arange(F), linear
    A[k, k], A[F + k, k], A[k, F + k], A[F + k, F + k] = 1.0, -1.0, -1.0, -1.0
    if bounded:
        A[2 * F + k, k], A[3 * F + k, k] = 1.0, -1.0
        b[2 * F : 4 * F] = np.minimum(np.concatenate([hi, -lo]) / unit, 1e21)  # left out by the solver
    A[r0 : r0 + R, :F], b[r0 : r0 + R] = -c * (unit / norm)[:, None], -g / norm
    cones = [clarabel.NonnegativeConeT(linear)]
    for j, (m, factor, origin, scale) in enumerate(
        zip(metrics, factors, origins, scales, strict=True), 2 * F
    ):
        A[r0 : r0 + R, j] = np.where(P.metric == m, P.s * scale**2 / norm, 0.0)
        A[row, j], A[row + 1, j], b[row], b[row + 1] = -1.0, 1.0, 1.0, 1.0
        A[row + 2 : row + 2 + len(factor), :F] = factor * (-2 * unit / scale)
        b[row + 2 : row + 2 + len(factor)] = -2 * origin
        cones.append(clarabel.SecondOrderConeT(len(factor) + 2))
        row += len(factor) + 2
    if elastic:
        A[r0 : r0 + R, n - 1], A[linear - 1, n - 1] = -1.0, -1.0
    spent = r0 + R + 2 * f
    for j, side in enumerate(P.free, l0):
        A[r0 : r0 + R, j] = np.where(P.side == side, P.h / norm, 0.0)
        at = r0 + R + 2 * (j - l0)
        A[at, j], A[at + 1, j] = -1.0, 1.0
        b[at], b[at + 1] = P.level[side] - P.low[side], P.high[side] - P.level[side]
        A[spent, j + f], b[spent] = 1.0, 1.0
        A[row, j], A[row + 2, j + f] = P.a[side], -1.0
        b[row], b[row + 1] = np.log(max(P.share[side], 1e-300)), 1.0
        cones.append(clarabel.ExponentialConeT())
        row += 3
    column, index = np.nonzero(A.T)
    start = np.searchsorted(column, np.arange(n + 1))
    matrix = csc_matrix((A.T[column, index], index, start), shape=A.shape)
    cost = np.zeros(n)
    cost[F : 2 * F], cost[l0 + 2 * f :] = 1.0, VIOLATION
    settings = clarabel.DefaultSettings()
    settings.verbose = settings.equilibrate_enable = False  # the rows are scaled already
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-8 if f == 0 else 1e-6
    solution = clarabel.DefaultSolver(csc_matrix((n, n)), cost, matrix, b, cones, settings).solve()
    lam = np.maximum(np.array(solution.z)[r0 : r0 + R], 0.0) / norm
    beta, levels = np.zeros(d), P.level.copy()
    solved = str(solution.status) in ("Solved", "AlmostSolved")
    if (solved or elastic) and np.isfinite(lam).all():
        beta[features] = np.clip(np.array(solution.x)[:F] * unit, lo, hi)
        levels[P.free] = np.clip(levels[P.free] + solution.x[l0 : l0 + f], P.low[P.free], P.high[P.free])
        return solved, beta, levels, lam * unit
    return False, beta, levels, np.zeros(R)


# The search


class Node(NamedTuple):
    """A part of the domain: a class, prototypes that have to win (-1 is open), a box of levels."""

    sample: int
    label: int
    bound: float
    target: Ints
    low: Floats
    high: Floats
    proof: Proof | None = None

    def between(self, j: int, low: float, high: float) -> Node:
        """Return the part with level j between two ends."""
        lows, highs = self.low.copy(), self.high.copy()
        lows[j], highs[j] = low, high
        return self._replace(low=lows, high=highs)


class Boxes(NamedTuple):
    """Nodes as arrays, with all that bounds need."""

    nodes: list[Node]
    sample: Ints
    label: Ints
    target: Ints
    low: Floats
    high: Floats
    radius: Floats
    comparisons: Comparisons
    budget: Budget

    def take(self, keep: Mask) -> Self:
        """Return some of the nodes."""
        which = np.flatnonzero(keep)
        nested: list[Any] = [type(part)(*(array[which] for array in part)) for part in self[7:]]
        plain: Any = (part[which] for part in self[1:7])
        return type(self)([self.nodes[k] for k in which], *plain, *nested)


class Search:
    """The nearest changes of the samples of a batch.

    Attributes
    ----------
    value, bounds : ndarrays of shape (n,)
        Lengths of the best answers, infinite if there is none, and what no answer can beat.
    label : ndarray of shape (n,)
    beta : ndarray of shape (n, d)
    spent : ndarray of shape (n,)
        Relaxations that were solved.
    """

    def __init__(
        self, view: View, rule: Rule, labels: Ints, gap: float, effort: int, starts: Any = None
    ) -> None:
        n, d = view.lo.shape
        self.view, self.rule, self.labels, self.gap, self.effort = view, rule, labels, gap, effort
        self.value, self.label, self.beta = np.full(n, np.inf), np.full(n, -1), np.zeros((n, d))
        self.proof: list[tuple[Ints, Proof] | None] = [None] * n  # of the answer, for its targets
        self.closed, self.spent, self.order = np.full(n, np.inf), np.zeros(n, dtype=int), count()
        self.queues: list[list[tuple[float, int, Node]]] = [[] for _ in range(n)]
        if len(labels):
            if starts is not None:
                known = np.flatnonzero(starts[0] >= 0)
                self._improve(known, starts[0][known], starts[1][known])
            self._first_answers()
            self._prepare(self._roots())
            while self._round():
                pass
        left = np.array([min((node[0] for node in queue), default=np.inf) for queue in self.queues])
        self.bounds = np.minimum(np.minimum(self.closed, left), self.value)

    # Answers

    def _first_answers(self) -> None:
        """Look for answers that change no feature, one, or else a few."""
        view, n = self.view, len(self.value)
        sample, label = (part.ravel() for part in np.meshgrid(np.arange(n), self.labels, indexing="ij"))
        beta = np.zeros((len(sample), view.lo.shape[1]))
        value = place(view, self.rule, sample, label, beta).value
        inside = np.asarray((view.g <= 0).all(axis=1))[sample] & (value <= 0)
        self.value[sample[inside]], self.label[sample[inside]] = 0.0, label[inside]
        for attempt in range(MOST_FEATURES + 1):
            left = np.flatnonzero((self.value == np.inf)[sample])
            sample, label, value, beta = sample[left], label[left], value[left], beta[left]
            if not len(left) or attempt == MOST_FEATURES:
                break
            value, beta = along_features(view, self.rule, sample, label, beta)
            found = value <= 0
            self._improve(sample[found], label[found], beta[found])
        for k in np.argsort(value):
            i, c = int(sample[k]), int(label[k])
            if self.value[i] == np.inf and least_excess(self.rule, c) <= 0:
                point = downhill(view, self.rule, i, c, beta[k])
                if point is not None:
                    self._improve(sample[k : k + 1], label[k : k + 1], point[None])

    def _improve(self, sample: Ints, label: Ints, beta: Floats, levels: Floats | None = None) -> None:
        """Improve changes that are accepted, or nearly so, and keep the best."""
        view, rule = self.view, self.rule
        if len(view.s):
            for k in range(len(sample)):
                self._restrict(sample[k], label[k], beta[k], None if levels is None else levels[k])
            return
        value, point = stretched(view, rule, sample, label, beta)
        lost = (value == np.inf) & (np.abs(beta).sum(axis=1) < self.value[sample])
        same = np.flatnonzero(lost & (label == self.label[sample]))
        value[same], point[same] = stretched(
            view, rule, sample[same], label[same], self.beta[sample[same]], beta[same]
        )
        for k in np.flatnonzero(lost & (self.value[sample] == np.inf)).tolist() if levels is not None else ():
            self._restrict(sample[k], label[k], beta[k], levels[k] if levels is not None else None)
        near = np.flatnonzero((value < 1.2 * self.value[sample]) & (value < np.inf))
        for k in self._settle(sample[near], label[near], point[near]):
            i, c = sample[near[k]], label[near[k]]
            self._restrict(i, c, point[near[k]], None)
            if self.label[i] == c:
                self._settle(np.array([i]), np.array([c]), self.beta[i : i + 1])

    def _settle(self, sample: Ints, label: Ints, beta: Floats) -> Ints:
        """Keep changes and what Newton's method makes of them; return where it did not reach an optimum."""
        view, rule = self.view, self.rule
        optimal, point, mu = newton(view, rule, sample, label, beta)
        length, point = stretched(view, rule, sample, label, point)
        optimal &= length <= np.abs(beta).sum(axis=1) * (1 + 1e-12)
        at = place(view, rule, sample, label, point)
        J = np.arange(len(rule.slope) - 1)
        for k in range(len(sample)):
            if optimal[k]:
                lam = np.zeros((rule.first.shape[1], rule.own.shape[2]))
                lam[J, at.other[k, J]] = mu[k] * at.weight[k, J] / at.sums[k, J]
                proof = Proof(lam, np.zeros(0), point[k], at.scores[k])
                self._keep(sample[k], label[k], point[k], (at.own[k], proof))
            else:
                self._keep(sample[k], label[k], beta[k], None)
        return np.flatnonzero(~optimal)

    def _keep(self, i: int, label: int, beta: Floats, proof: tuple[Ints, Proof] | None) -> None:
        value = float(np.abs(beta).sum())
        if value < self.value[i]:
            self.value[i], self.label[i], self.beta[i], self.proof[i] = value, label, beta, proof

    def _restrict(self, i: int, label: int, beta: Floats, levels: Floats | None) -> None:
        """Look for an answer near a change by convex programs that contain answers only, to first order.

        With levels that are free to change, l S ~ level S + (l - level) S(beta), it finds good ones; with
        these held fixed, all that is left in the program is accepted.
        """
        view, rule, one, mine = self.view, self.rule, np.array([i]), np.array([label])
        a, J = np.ones(rule.first.shape[1]), len(rule.slope) - 1
        a[:J] = np.maximum(rule.a[label], 1e-300)
        for attempt in range(4):
            at = place(view, rule, one, mine, beta[None])
            c = compare(view, rule, one, mine, np.array([np.inf]))
            rows = Rows(*(part[0] for part in chosen(c, rule, mine, at.own)))
            weight = np.zeros_like(a)
            weight[:J] = at.weight[0, :J] / a[:J] * (rule.a[label] > 0)
            total = weight.sum()
            if attempt or levels is None:
                share = np.where(
                    (weight > 1e-9 * total) & rows.use.any(axis=1),
                    weight / total * np.exp(at.value[0] / total),
                    0.0,
                )
                span = np.log(8) / a
                P, index = self._program(
                    i,
                    label,
                    rows,
                    at.scores[0],
                    beta,
                    (at.scores[0] - span, np.minimum(at.scores[0] + span, 1.0), a, share),
                )
                solved, _, levels, _ = solve(view, i, P, beta)
                if not solved:
                    return
            point, value = beta, np.inf
            for _ in range(3):
                P, index = self._program(i, label, rows, levels, point)
                solved, point, _, lam = solve(view, i, P, beta)
                if not solved:
                    return
                value = place(view, rule, one, mine, point[None]).value[0]
                if len(view.s) == 0:
                    length, trial = (
                        part[0] for part in stretched(view, rule, one, mine, sparse(point)[None])
                    )
                    point, value = (trial, 0.0) if length < np.inf else (point, value)
                if value <= 1e-9:
                    break
                levels = np.minimum(levels + value / total / a, 1.0)
            if value > 1e-9:
                return
            before = self.value[i]
            self._keep(i, label, point, (at.own[0], self._proof(index, lam, point, levels, True)))
            if self.value[i] > before * (1 - 1e-6):
                return
            beta = point

    # Relaxations

    def _program(
        self, i: int, label: int, rows: Rows, level: Floats, point: Floats | None,
        vary: tuple[Floats, Floats, Floats, Floats] | None = None,
    ) -> tuple[Program, tuple[Ints, Ints]]:  # fmt: skip
        """Return the program of some comparisons (V, Q) at levels, and side and rival of its rows.

        Without a `point` it is the relaxation. With one it is a restriction around it: levels below 0, which
        ask to be outside of a ball, are cut by a tangent. Levels are held fixed unless it is said how they
        may vary: low, high, a, and what is spent at `level` (0: fixed).
        """
        view = self.view
        use = rows.use & (level > -1)[:, None]
        if point is None:
            use &= (level >= 0)[:, None] | (rows.highest < FAR)
        side, other = np.nonzero(use)
        S, D, sum_slope, lead_slope, lowest, highest = (part[side, other] for part in rows[:6])
        l, metric, more = level[side], self.rule.metric[label][side], len(view.s)
        curved = l >= 0
        base, slope = highest, np.zeros_like(sum_slope)
        low, high, a, share = vary or (level, level, level, np.zeros_like(level))
        h = np.where(curved | (high[side] > 0), lowest, highest)
        if point is not None:
            image = view.G[metric] @ point
            base, slope, h = (
                S - 2 * (image @ point),
                sum_slope + 4 * image,
                S + sum_slope @ point + 2 * (image @ point),
            )
        bent = np.where(curved[:, None], sum_slope, slope)
        return Program(
            metric=np.concatenate([metric, view.metric]),
            s=np.concatenate([np.where(curved, 2 * l, 0.0), view.s]),
            c=np.concatenate([lead_slope - l[:, None] * bent, view.c[i]]),
            g=np.concatenate([l * np.where(curved, S, base) - D, view.g[i]]),
            h=np.concatenate([h, np.zeros(more)]),
            side=np.concatenate([side, np.full(more, -1)]),
            free=np.flatnonzero(share > 0), level=level, low=low, high=high, a=a, share=share,
        ), (side, other)  # fmt: skip

    def _proof(
        self, index: tuple[Ints, Ints], lam: Floats, beta: Floats, levels: Floats, solved: bool
    ) -> Proof:
        rows = np.zeros((self.rule.first.shape[1], self.rule.own.shape[2]))
        rows[index] = lam[: len(index[0])]
        return Proof(rows, lam[len(index[0]) :], beta, levels, solved)

    def _relax(self, boxes: Boxes, rows: Rows, k: int) -> Proof:
        """Solve the relaxation of node k."""
        node, low, high, budget = boxes.nodes[k], boxes.low[k], boxes.high[k], boxes.budget.take([k])
        most, fewest = budget.shares(low)[0], budget.shares(high)[0]
        total = budget.total[0]
        mine = Rows(*(part[k] for part in rows))
        free = (node.target >= 0) & (most - fewest > 1e-6 * total) & mine.use.any(axis=1) & (low > -1)
        if free.sum() < 2 or most.sum() <= total:
            free[:] = False
        share = np.where(free, most / max(total - fewest[~free].sum(), 1e-300), 0.0)
        P, index = self._program(node.sample, node.label, mine, low, None, (low, high, budget.a[0], share))
        solved, beta, levels, lam = solve(self.view, node.sample, P, self.beta[node.sample])
        return self._proof(index, lam, beta, levels, solved)

    # Nodes

    def _roots(self) -> list[Node]:
        V = self.rule.first.shape[1]
        target = np.where(self.rule.many == 1, 0, -1)
        return [
            Node(i, label, 0.0, target[label], np.full(V, -1.0), np.ones(V))
            for i in np.flatnonzero(self.value > 0).tolist() for label in self.labels.tolist()
        ]  # fmt: skip

    def _budget(self, label: Ints, low: Floats, high: Floats) -> Budget:
        """Return the room for the levels of nodes."""
        rule, J = self.rule, len(self.rule.slope) - 1
        a, b, cost = np.ones((3, *low.shape))
        a[:, :J], b[:, :J], cost[:, J:] = rule.a[label], rule.shift[label, :J], 0.0
        total = np.full(len(low), np.exp(rule.log_kappa))
        tells = a > 0
        if rule.normalize:
            least, most = (np.exp(np.clip(b - a * part, -LARGEST, LARGEST))[:, :J] for part in (high, low))
            rest = 1 + self._other_odds(label, low)[0]
            X, g = 1 + least.sum(axis=1), (least / (1 + rest * least)).sum(axis=1)
            cost[:, :J] = X[:, None] / ((1 + rest * least) * (1 + rest * most)) + g[:, None]
            total = total - X * g + (cost[:, :J] * least).sum(axis=1)
        spent = np.where(tells, 0.0, cost * np.exp(np.minimum(b, LARGEST)))[:, :J].sum(axis=1)
        return Budget(np.where(tells, a, 1.0), b, cost * tells, total - spent)

    def _other_odds(self, label: Ints, low: Floats) -> tuple[Floats, Floats]:
        """Return the most that sum_j e_kj over third classes j can be, per rival k (N, J), and by side."""
        rule, J = self.rule, len(self.rule.slope) - 1
        E = rule.slope.shape[1]
        slope, shift = rule.slope[label, J:], rule.shift[label, J:]
        ends = np.stack([slope * low[:, J:E] + shift, shift - slope * low[:, E:]])
        each = np.exp(
            np.clip(np.concatenate([ends.max(axis=0), -ends.min(axis=0)], axis=1), -LARGEST, LARGEST)
        )
        odds = np.zeros((len(low), J))
        first = rule.first[label, J:]
        np.add.at(odds, (np.arange(len(low))[:, None], first - (first > label[:, None])), each)
        return odds, each

    def _boxes(self, nodes: list[Node]) -> Boxes:
        """Return nodes as arrays, their boxes narrowed to the scores within the radius and to the budget."""
        sample, label, _, target, low, high = (np.array(part) for part in list(zip(*nodes, strict=True))[:6])
        radius = (1 - self.gap) * self.value[sample]
        c = compare(self.view, self.rule, sample, label, radius)
        worst, best = (_decided(part.min(axis=3), target, np.max) for part in (c.worst, c.best))
        low, high = np.maximum(low, np.minimum(worst, high)), np.minimum(high, best)
        E, J = self.rule.slope.shape[1], len(self.rule.slope) - 1
        high[:, J:] = np.minimum(high[:, J:], -np.roll(low[:, J:], E - J, axis=1))
        budget = self._budget(label, low, high)
        low, high = narrowed(low, high, budget, complete=not self.rule.normalize)
        # A score of at least l > 0 is d_own <= r d_other, r = (1 - l) / (1 + l): the triangle inequality.
        r = ((1 - np.clip(low, 0.0, 1.0)) / (1 + np.clip(low, 0.0, 1.0)))[:, :, None, None]
        lowest = np.maximum(c.lowest, c.apart * (1 + r) / (1 + np.sqrt(r)) ** 2 * (1 - 1e-12))
        limit = c.apart * (1 + r) / np.maximum(1 - np.sqrt(r), 1e-100) ** 2 * (1 + 1e-12)
        c = c._replace(lowest=lowest, highest=np.minimum(c.highest, limit))
        return Boxes(nodes, sample, label, target, low, high, radius, c, budget)

    def _close(self, node: Node, bound: float) -> None:
        self.closed[node.sample] = min(self.closed[node.sample], bound)

    def _prepare(self, nodes: list[Node]) -> None:
        """Close or divide nodes without a relaxation, as far as that goes; put the rest into the queues."""
        while nodes:
            boxes, nodes = self._boxes(nodes), []
            empty = (boxes.low > boxes.high + NARROW).any(axis=1)
            bend = self.view.bend[self.rule.metric[boxes.label]]
            each = alone(boxes.comparisons, boxes.low, bend, self.view.ways[boxes.sample]).max(axis=3)
            bound = np.maximum(
                [node.bound for node in boxes.nodes], _decided(each, boxes.target, np.min).max(axis=1)
            )
            bound = np.where(empty, np.maximum(bound, boxes.radius), bound)
            high = np.maximum(boxes.high, boxes.low)
            for k, node in enumerate(boxes.nodes):
                boxes.nodes[k] = node._replace(low=boxes.low[k], high=high[k], bound=float(bound[k]))
                known, proof = self.proof[node.sample], node.proof
                if proof is None and known is not None and node.label == self.label[node.sample]:
                    proof = known[1] if (known[0] == node.target).all() else None
                    boxes.nodes[k] = boxes.nodes[k]._replace(proof=proof)
            over = bound >= boxes.radius
            np.minimum.at(self.closed, boxes.sample[over], bound[over])
            boxes = boxes._replace(high=high).take(~over)
            proofs = np.array([node.proof is not None for node in boxes.nodes], dtype=bool)
            some = boxes.take(proofs & (boxes.radius < np.inf))
            waiting = [
                node
                for node, proof in zip(boxes.nodes, proofs & (boxes.radius < np.inf), strict=True)
                if not proof
            ]
            for node, rest in zip(some.nodes, self._uncovered(some, False), strict=True):
                if rest is None:
                    waiting.append(node)
                else:
                    self._close(node, max(node.bound, (1 - self.gap) * self.value[node.sample]))
                    nodes += rest
            for node in waiting:
                children = self._by_target(node)
                nodes += children
                if not children:
                    heapq.heappush(self.queues[node.sample], (node.bound, next(self.order), node))

    def _by_target(self, node: Node, blindly: bool = False) -> list[Node]:
        """Divide by the prototypes of a side that is open, unless there are too many to do so blindly."""
        J = len(self.rule.slope) - 1
        many, is_open = self.rule.many[node.label, :J], node.target[:J] < 0
        if not is_open.any() or (not blindly and not is_open.all() and np.prod(many[is_open]) > FEW_TARGETS):
            return []
        j, children = int(is_open.argmax()), []
        for p in range(many[j]):
            target = node.target.copy()
            target[j] = p
            children.append(node._replace(target=target, proof=None))
        return children

    def _uncovered(self, boxes: Boxes, divide: bool) -> list[list[Node] | None]:
        """Return what certificates leave of boxes, None where that is (nearly) all.

        If `divide`, what they leave whole is divided.
        """
        if not boxes.nodes:
            return []
        view = self.view
        proofs = [node.proof for node in boxes.nodes if node.proof is not None]
        rows = chosen(boxes.comparisons, self.rule, boxes.label, boxes.target)
        args = boxes.sample, boxes.label, rows, proofs, boxes.low, boxes.high
        I = inequality(view, self.rule, *args, local=True)
        paid = boxes.budget.cost > 0
        low, high = boxes.low, np.where(paid, boxes.high, boxes.low)
        ones = np.ones((len(proofs), low.shape[1] + 1))
        whole = covers(view, boxes.sample, I, boxes.budget, boxes.radius, ones, low, high)
        result: list[list[Node] | None] = [[] for _ in proofs]
        n = np.flatnonzero(~whole)
        if not len(n):
            return result
        # Which level to divide: one around 0 that matters, else where the certificate may lose most.
        centre = np.clip(np.array([proof.levels for proof in proofs]), low, high)
        weight = np.array([proof.rows.sum(axis=1) for proof in proofs])
        wide = paid & (high - low > 1e-7)
        around = np.where(wide & (low < -1e-6) & (high > 1e-6), weight, 0.0)
        point = np.array([proof.point for proof in proofs])
        lam = np.array([proof.rows for proof in proofs]) * rows.use
        square = np.einsum("nd,nvde,ne->nv", point, view.G[self.rule.metric[boxes.label]], point)
        S = rows.S + np.einsum("nvqd,nd->nvq", rows.sum_slope, point) + 2 * square[..., None]
        flat = np.where((low >= 0)[..., None], rows.lowest, np.minimum(rows.highest, FAR))
        lost = (lam * np.abs(S - flat)).sum(axis=2) * (centre - low)
        lost = np.where(wide, lost + 1e-6 * np.abs(I.dtau) * (high - low), 0.0)
        if self.rule.normalize:
            lost = self._lost_on_others(boxes, I, centre, lost)
        zero = np.asarray((around > 0).any(axis=1))
        j = np.where(zero, around.argmax(axis=1), lost.argmax(axis=1))[n]
        mid, lo, hi = centre[n, j], low[n, j], high[n, j]
        grid = np.concatenate([mid - (mid - lo) * PARTS[:0:-1, None], mid + (hi - mid) * PARTS[:, None]]).T
        B = grid.shape[1] - 1
        m, jj = np.repeat(n, B), np.repeat(j, B)
        at = np.arange(len(m))
        box_low, box_high = low[m], high[m]
        box_low[at, jj], box_high[at, jj] = grid[:, :-1].ravel(), grid[:, 1:].ravel()
        budget, part = boxes.budget.take(m), Inequality(*(array[m] for array in I))
        box_low, box_high = narrowed(box_low, box_high, budget, complete=not self.rule.normalize)
        box_high = np.maximum(box_high, box_low)
        sample, radius = boxes.sample[m], boxes.radius[m]
        factor = balanced(view, sample, part, radius, 0.5 * (box_low + box_high), jj)
        holds = covers(view, sample, part, budget, radius, factor, box_low, box_high).reshape(len(n), B)
        J = len(self.rule.slope) - 1
        for r, k in enumerate(n):
            node, ends = boxes.nodes[k], grid[r]
            if j[r] >= J and divide:
                result[k] = self._by_other(node, j[r])
            elif j[r] >= J or not wide[k, j[r]]:
                result[k] = None
            elif np.diff(ends)[holds[r]].sum() < 0.2 * (hi[r] - lo[r]):
                split = (
                    0.0
                    if zero[k]
                    else float(np.clip(mid[r], 0.8 * lo[r] + 0.2 * hi[r], 0.2 * lo[r] + 0.8 * hi[r]))
                )
                result[k] = (
                    [node.between(j[r], lo[r], split), node.between(j[r], split, hi[r])] if divide else None
                )
            else:
                edges = np.flatnonzero(np.diff(np.concatenate([[True], holds[r], [True]]).astype(int)))
                result[k] = [node.between(j[r], ends[a], ends[b]) for a, b in edges.reshape(-1, 2)]
        return result

    def _lost_on_others(self, boxes: Boxes, I: Inequality, centre: Floats, lost: Floats) -> Floats:
        """Return what a relaxation may lose by each level, and by each pair of other classes."""
        rule, J = self.rule, len(self.rule.slope) - 1
        T = rule.slope.shape[1] - J
        odds, each = self._other_odds(boxes.label, boxes.low)
        t = boxes.budget._replace(cost=np.ones_like(centre)).shares(centre)[:, :J]
        first = rule.first[boxes.label, J:]
        k = first - (first > boxes.label[:, None])
        tk, rest = np.take_along_axis(t, k, 1), 1 + np.take_along_axis(odds, k, 1)
        middle = np.sqrt(each) / np.sqrt(np.roll(each, T, axis=1))
        gain = tk / (1 + (rest - each + middle) * tk) - tk / (1 + rest * tk)
        gain = (gain[:, :T] + gain[:, T:]) / (t / (1 + (1 + odds) * t)).sum(axis=1, keepdims=True)
        wide = -boxes.low[:, J + T :] - boxes.low[:, J : J + T] > 1e-4
        result = lost.copy()
        price = (I.dtau[:, :J] / boxes.budget.a[:, :J]).sum(axis=1, keepdims=True)
        result[:, J : J + T] = np.where(wide, gain * price, 0.0)
        return result

    def _by_other(self, node: Node, j: int) -> list[Node]:
        """Divide a node by the score of a pair of other classes, where its relaxation is."""
        T = self.rule.slope.shape[1] - len(self.rule.slope) + 1
        low, high = node.low[j], -node.low[j + T]
        point = np.zeros((1, self.view.lo.shape[1])) if node.proof is None else node.proof.point[None]
        at = place(self.view, self.rule, np.array([node.sample]), np.array([node.label]), point)
        split = float(np.clip(at.scores[0, j], 0.8 * low + 0.2 * high, 0.2 * low + 0.8 * high))
        return [node.between(j, split, node.high[j]), node.between(j + T, -split, node.high[j + T])]

    def _round(self) -> bool:
        """Relax the most promising nodes of all samples; divide what is left of them; False if none is."""
        nodes: list[Node] = []
        for i, queue in enumerate(self.queues):
            for _ in range(WIDTH):
                limit = self.effort if self.value[i] < np.inf else min(self.effort, PATIENCE)
                if queue and queue[0][0] < (1 - self.gap) * self.value[i] and self.spent[i] < limit:
                    nodes.append(heapq.heappop(queue)[2])
                    self.spent[i] += 1
        if not nodes:
            return False
        boxes = self._boxes(nodes)
        boxes = boxes._replace(high=np.maximum(boxes.high, boxes.low))
        rows = chosen(boxes.comparisons, self.rule, boxes.label, boxes.target)
        proofs = [self._relax(boxes, rows, k) for k in range(len(nodes))]
        args = boxes.sample, boxes.label, rows, proofs, boxes.low, boxes.high
        I = inequality(self.view, self.rule, *args, local=False)
        fixed = np.where(boxes.budget.cost > 0, boxes.high, boxes.low)
        bound = proven(self.view, boxes.sample, I, boxes.budget, boxes.low, fixed)
        bound = np.maximum(bound, [node.bound for node in nodes])
        for k, node in enumerate(nodes):
            boxes.nodes[k] = node._replace(
                low=boxes.low[k], high=boxes.high[k], proof=proofs[k], bound=float(bound[k])
            )
        before = self.value.copy()
        hopeful = (bound < boxes.radius) & np.array([proof.solved for proof in proofs])
        points = sparse(np.array([proof.point for proof in proofs]))
        levels = np.array([proof.levels for proof in proofs])
        self._improve(boxes.sample[hopeful], boxes.label[hopeful], points[hopeful], levels[hopeful])
        over = bound >= (1 - self.gap) * self.value[boxes.sample]
        np.minimum.at(self.closed, boxes.sample[over], bound[over])
        again = ~over & (self.value < (1 - self.gap) * before)[boxes.sample]  # with a smaller radius
        children = [node for node, same in zip(boxes.nodes, again, strict=True) if same]
        boxes = boxes._replace(radius=(1 - self.gap) * self.value[boxes.sample]).take(~over & ~again)
        for node, rest in zip(boxes.nodes, self._uncovered(boxes, True), strict=True):
            by_target = self._by_target(node, blindly=True) if rest is None or rest else []
            if rest is None and not by_target:
                self._close(node, node.bound)
            elif by_target:
                children += by_target
            else:
                self._close(node, max(node.bound, (1 - self.gap) * self.value[node.sample]))
                children += rest or []
        self._prepare(children)
        return True


def _decided(each: Floats, target: Ints, over: Any) -> Floats:
    """Return each side's value (N, V) of (N, V, P): that of its target, else the best over all of them."""
    at = np.take_along_axis(each, np.maximum(target, 0)[..., None], 2)[..., 0]
    return np.where(target >= 0, at, over(each, axis=2))
