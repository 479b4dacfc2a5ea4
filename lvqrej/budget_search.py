"""Branch and bound over budgets: the nearest change that makes one of several classes probable enough.

In the terms of `local_search`, whoever gives side j the *level* l_j asks for a score s_j >= l_j, that is for
l_j S_j - D_j <= 0, and lets it spend the share exp(b_j - a_j l_j) of the budget; S = d_own + d_other is a
convex quadratic, D = d_other - d_own is linear. With all levels fixed this is a cell of balls.

    node         a class, the prototypes that have to win (some may be open), and a box of levels; for
                 normalised probabilities also a box of the scores between other classes
    proof        multipliers and a point: of a nearest point by Newton's method, where that settles, else of
                 the cone program of one choice of levels
    certificate  by convexity in beta alone, a proof gives an inequality q(l)'beta >= tau(l) that is linear in
                 the levels l: around its own levels it holds for large boxes of them, and what it leaves of
                 the node's box are the node's children
    answer       the points of the proofs

The samples of a batch go in lock-step, so this is not `branch_and_bound`, which takes one node at a time.
"""

from __future__ import annotations

from itertools import product
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
    newton,
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
#: At most so many combinations of prototypes are listed before anything is known of them.
FEW_TARGETS = 16
#: A node is divided by a score between other classes if that makes its budget looser than so many gaps, and
#: so often per program that may be solved.
LOOSE, DIVISIONS = 3, 10
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
    highest: Floats  # (N, E, P, Q) sum
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
    highest = (S + rise(sum_slope, 2 * bend)) * (1 + 1e-12)
    with np.errstate(invalid="ignore"):
        best, worst = np.fmin(_score(near_least, far_most), 1.0), np.fmax(_score(near_most, far_least), -1.0)
    twin = apart == 0
    best, worst = np.where(twin, 0.0, best), np.where(twin, 0.0, worst)
    return Comparisons(S, D, sum_slope, lead_slope, apart, highest, worst, best)


def _score(near: Floats, far: Floats) -> Floats:
    return (far - near) / (far + near)


def alone(c: Comparisons, level: Floats, bend: Floats, ways: Mask) -> Floats:
    """Return how far at least each comparison alone makes one go for its level (N, J), (N, J, P, Q).

    A ball (level above 0): with f = g - 2 C'beta + 2 l beta'G beta, g |A| / ((|A| + B) max_k |C_k|). The
    outside of a ball (below 0): the shortest way out goes along one feature. A level of -1 asks for nothing.
    """
    J = level.shape[1]
    S, D, sum_slope, lead_slope, apart = (part[:, :J] for part in c[:5])
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


# Budgets


class Budget(NamedTuple):
    """The room for levels, sum_j cost_j exp(b_j - a_j l_j) <= total; some sides cost nothing."""

    a: Floats  # (N, J)
    b: Floats
    cost: Floats
    total: Floats  # (N,)

    def shares(self, level: Floats) -> Floats:
        """Return what levels spend."""
        return self.cost * np.exp(np.clip(self.b - self.a * level, -LARGEST, LARGEST))

    def levels(self, share: Floats) -> Floats:
        """Return the levels that spend shares, -2 where nothing is spent."""
        with np.errstate(divide="ignore"):
            level = (self.b - np.log(np.maximum(share, 1e-300) / self.cost)) / self.a
        return np.where(self.cost > 0, level, -2.0)

    def narrowed(self, low: Floats, high: Floats, complete: bool) -> tuple[Floats, Floats]:
        """Raise the lowest levels (N, J) to what the others leave of the budget.

        If `complete`, it is spent to the last (to ask for less never hurts), which limits the highest.
        """
        paid, total = self.cost > 0, self.total[:, None]
        fewest = self.shares(high)
        left = total - (fewest.sum(axis=1, keepdims=True) - fewest)
        low = np.where(paid, np.maximum(low, self.levels(left * (1 + 1e-12))), low)
        if complete:
            most = self.shares(low)
            left = total - (most.sum(axis=1, keepdims=True) - most)
            high = np.where(paid & (left > 0), np.minimum(high, self.levels(left * (1 - 1e-12))), high)
        return low, high

    def least(self, v: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return a lower bound of sum_j v_j l_j over boxes of levels within the budget, and where it is.

        Any price of the budget proves one; at the best price all that has a positive v gets a share in
        proportion to v / a, unless that leaves the box. Arrays are (N, J).
        """
        paid = (v > 0) & (self.cost > 0)
        most, fewest = self.shares(low), self.shares(high)
        room = self.total - np.where(paid, 0.0, fewest).sum(axis=1)
        weight = np.where(paid, v / self.a, 0.0)
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
        level = np.where(paid, np.clip(self.levels(share), low, high), np.where(v > 0, low, high))
        value = (v * level).sum(axis=1) + price * ((share * paid).sum(axis=1) - room)
        return np.where(fewest.sum(axis=1) > self.total * (1 + 1e-9), np.inf, value), level


# Certificates


class Proof(NamedTuple):
    """Multipliers and a point that prove a bound."""

    rows: Floats  # (J, Q) of the comparisons of the chosen prototypes
    further: Floats  # (e,) of the further constraints
    point: Floats  # (d,)


def chosen(c: Comparisons, target: Ints) -> Comparisons:
    """Return the comparisons (N, J, Q) that the targets (N, J) have to win."""
    at = np.arange(len(target))[:, None], np.arange(target.shape[1]), target
    return take(c, at)


class Inequality(NamedTuple):
    """sum_v q_v(l)'beta >= sum_v tau_v(l) for all changes of a node, q and tau linear in the levels l.

    One part per side, and a last one for the further constraints; any multiples of the parts hold as well.
    """

    q: Floats  # (N, J + 1, d)
    tau: Floats  # (N, J + 1)
    dq: Floats  # (N, J, d) by level
    dtau: Floats  # (N, J)
    size_q: Floats  # (N, J + 1, d) of the terms that were summed
    size_tau: Floats  # (N, J + 1)

    def at(self, levels: Floats) -> tuple[Floats, Floats]:
        """Return the parts of q and tau at levels (N, J)."""
        q, tau = self.q.copy(), self.tau.copy()
        q[:, :-1] += levels[..., None] * self.dq
        tau[:, :-1] += levels * self.dtau
        return q, tau


def inequality(
    view: View, rule: Rule, sample: Ints, label: Ints, rows: Comparisons, proofs: list[Proof],
    low: Floats, high: Floats,
) -> Inequality:  # fmt: skip
    """Return what multipliers prove for levels between low and high (N, J).

    For levels of at least 0, S is at least its tangent at the point; for those of at most 0, it is at most
    what it can be within the radius. Where a level may have both signs, its side is left out.
    """
    J = low.shape[1]
    lam, more, point = (np.array(part) for part in zip(*proofs, strict=True))
    metric, n = rule.metric[label, :J], np.arange(len(sample))[:, None]
    image = np.matmul(point[:, None, None], view.G)[:, :, 0]
    squared = np.maximum(np.einsum("nmd,nd->nm", image, point), 0.0)
    pull, square = image[n, metric][:, :, None], squared[n, metric][..., None]
    curved, below = (low >= 0)[..., None], (high <= 0)[..., None] & (rows.highest < FAR)
    lam = np.where(curved | below, np.maximum(lam, 0.0), 0.0)
    width = lam * (1 + np.maximum(-low, high)[..., None])
    length = np.sqrt(0.5 * (rows.S - rows.D)) + np.sqrt(0.5 * (rows.S + rows.D)) + 2 * np.sqrt(square)
    g, c, s, m, more = view.g[sample], view.c[sample], view.s, view.metric, np.maximum(more, 0.0)
    curl, bent = 2 * s[:, None] * image[:, m], s * squared[:, m]
    size_q = 2 * (width * length).sum(axis=2)[..., None] * np.sqrt(view.bend)[metric]
    size_tau = (width * (rows.S + np.where(curved, 2 * square, rows.highest))).sum(axis=2)
    return Inequality(
        _joined(np.einsum("njq,njqd->njd", lam, rows.lead_slope), np.einsum("ne,ned->nd", more, c - curl)),
        _joined(-(lam * rows.D).sum(axis=2), (more * (g - bent)).sum(axis=1)),
        -np.einsum("njq,njqd->njd", lam * curved, rows.sum_slope + 4 * pull),
        (lam * np.where(curved, rows.S - 2 * square, rows.highest)).sum(axis=2),
        _joined(size_q, np.einsum("ne,ned->nd", more, np.abs(c) + np.abs(curl))),
        _joined(size_tau, (more * (view.size[sample] + bent)).sum(axis=1)),
    )


def _joined(parts: Floats, last: Floats) -> Floats:
    return np.concatenate([parts, last[:, None]], axis=1)


def balanced(view: View, sample: Ints, I: Inequality, t: Floats, levels: Floats, j: Ints) -> Inequality:
    """Return the multiples of the parts that prove most at levels (N, J): one of side j, one of all else.

    By how much all changes of length t miss the inequality is concave and piecewise linear in the multiple:
    the next one to look at is where the pieces on its left and on its right meet.
    """
    n = np.arange(len(sample))
    q, tau = I.at(levels)
    own_q, own_tau = q[n, j], tau[n, j]
    other_q, other_tau = q.sum(axis=1) - own_q, tau.sum(axis=1) - own_tau
    up, down = view.ways[sample].transpose(1, 0, 2)
    t = np.minimum(t, FAR)
    x = np.zeros(len(n))
    low, high = np.zeros((2, len(n))), np.zeros((2, len(n)))  # pieces value + slope x
    for attempt in range(7):
        trial = other_q + x[:, None] * (own_q - other_q)
        rate = np.maximum(np.where(up, trial, 0.0), np.where(down, -trial, 0.0))
        k = rate.argmax(axis=1)
        sign = np.sign(trial[n, k]) * (rate[n, k] > 0)
        piece = np.stack([other_tau - t * sign * other_q[n, k], own_tau - t * sign * own_q[n, k]])
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
    view: View, sample: Ints, I: Inequality, budget: Budget, t: Floats, low: Floats, high: Floats
) -> Mask:
    """Return whether inequalities leave no change of length t in boxes of levels within the budget.

    Only changes +-t e_k of one feature and none at all have to miss it. Features that reach their bounds
    before t count for less: q'beta <= max_k(|q_k| - nu_k) |beta|_1 + sum_k nu_k room_k for any nu >= 0.
    """
    middle, half, unit = 0.5 * (low + high), 0.5 * (high - low), (8 * view.lo.shape[1] + 64) * EPS
    q, tau = (part.sum(axis=1) for part in I.at(middle))
    size_q, size_tau = I.size_q.sum(axis=1), I.size_tau.sum(axis=1)
    lo, hi, t = view.lo[sample], view.hi[sample], np.minimum(t, FAR)[:, None]
    nu, shift = np.zeros_like(q), np.zeros_like(tau)
    if (np.minimum(hi, -lo) < t).any():
        nu, shift = _reliefs(q, lo, hi, t)
    up, down = view.ways[sample].transpose(1, 0, 2)
    slack = unit * (size_tau + shift)[:, None] + unit * t * (size_q + nu)
    rise = np.where(up, t * (q - nu * (q > 0)), -np.inf) + slack
    fall = np.where(down, t * (-q - nu * (q <= 0)), -np.inf) + slack
    margin = (tau - shift)[:, None] - np.concatenate([rise, fall, slack.max(axis=1, keepdims=True)], axis=1)
    good = (margin > 0).all(axis=1)
    # What the box alone does not settle, the budget may.
    absorbed = nu > np.einsum("njd,nj->nd", np.abs(I.dq), half)  # then nu follows q, and only its room counts
    room = np.where(absorbed, np.where(q > 0, hi, lo), 0.0)
    dtau = (I.dtau - np.einsum("njd,nd->nj", I.dq, room))[..., None]
    dq = t[..., None] * np.where(absorbed[:, None], 0.0, I.dq)
    slopes = np.concatenate([dtau - dq, dtau + dq, dtau], axis=2)
    swing = np.einsum("njk,nj->nk", np.abs(slopes), half)
    n, change = np.nonzero((margin <= swing) & good[:, None])
    v = slopes[n, :, change]
    least, _ = take(budget, n).least(v, low[n], high[n])
    good[n[~(margin[n, change] + least - (v * middle[n]).sum(axis=1) > 0)]] = False
    return good


def _reliefs(q: Floats, lo: Floats, hi: Floats, t: Floats) -> tuple[Floats, Floats]:
    """Return the best nu (N, d) for some q, and sum_k nu_k room_k."""
    room = np.where(q > 0, hi, -lo)
    rate = np.where(room > 0, np.abs(q), 0.0)
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
    """A part of the domain: a class, prototypes that have to win (-1 is open), boxes of levels and scores.

    It is what its proof leaves of a larger box; it is worth another try on this one if it is `fresh`. What
    Newton's method proves of its targets was `tried`, too.
    """

    sample: int
    label: int
    bound: float
    target: Ints
    low: Floats
    high: Floats
    third: Floats  # (2, T) box of the scores between other classes, if they matter
    proof: Proof | None = None
    fresh: bool = False
    tried: Proof | None = None

    @property
    def promise(self) -> float:
        """How far away an answer of the node is thought to be: as the point of its proof."""
        return self.bound if self.proof is None else max(self.bound, float(np.abs(self.proof.point).sum()))

    @property
    def key(self) -> tuple[int, int, tuple[int, ...]]:
        """What Newton's method knows it by."""
        return self.sample, self.label, tuple(self.target.tolist())


class Boxes(NamedTuple):
    """Nodes as arrays, with all that bounds need."""

    sample: Ints
    label: Ints
    target: Ints
    low: Floats
    high: Floats
    bound: Floats
    third: Floats
    budget: Budget
    comparisons: Comparisons


class Search:
    """The nearest changes of the samples of a batch.

    Attributes
    ----------
    value, bounds : ndarrays of shape (n,)
        Lengths of the best answers, infinite if there is none, and what no answer can beat.
    label : ndarray of shape (n,)
    beta : ndarray of shape (n, d)
    spent : ndarray of shape (n,)
        Programs that were solved.
    """

    def __init__(
        self, view: View, rule: Rule, labels: Ints, gap: float, effort: int, start: Search | None = None
    ) -> None:
        n, d = view.lo.shape
        self.view, self.rule, self.labels, self.gap, self.effort = view, rule, labels, gap, effort
        self.value, self.label, self.beta = np.full(n, np.inf), np.full(n, -1), np.zeros((n, d))
        self.closed, self.spent = np.full(n, np.inf), np.zeros(n, dtype=int)
        self.divided = np.zeros(n, dtype=int)
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
            self._roots()
            while self._round():
                pass
        self._bounded()
        self.bounds = np.minimum(self.closed, self.value)

    @property
    def radius(self) -> Floats:
        """What has to be proven of each sample, (n,)."""
        return (1 - self.gap) * self.value

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
        settled = {key[0] for key, proof in self.known.items() if proof is not None}
        lost = np.array([i for i in np.flatnonzero(self.value > 0).tolist() if i not in settled], dtype=int)
        for c in self.labels if len(lost) else ():  # then the prototypes of a class, or their middle, may do
            own = np.unique(np.delete(self.rule.pairs.own[c], c, axis=0))
            ways = view.ways_to[lost][:, own]
            ways = np.concatenate([ways, ways.mean(axis=1, keepdims=True)], axis=1)
            beta = np.clip(ways, view.lo[lost, None], view.hi[lost, None]).reshape(-1, ways.shape[2])
            sample, label = np.repeat(lost, len(own) + 1), np.full(len(beta), c)
            good = place(view, self.rule, sample, label, beta).value <= 0
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
        view, rule, J = self.view, self.rule, len(self.rule.slope) - 1
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
        lam = np.zeros((len(sample), J, rule.own.shape[2]))
        rows, sides = np.arange(len(sample))[:, None], np.arange(J)
        lam[rows, sides, at.other[:, :J]] = mu[:, None] * at.weight[:, :J] / at.sums[:, :J]
        for k, length in enumerate(np.abs(beta).sum(axis=1)):
            key = int(sample[k]), int(label[k]), tuple(at.own[k, :J].tolist())
            known = self.known.get(key)
            if known is None or length < (1 - 1e-6) * np.abs(known.point).sum():
                self.known[key] = Proof(lam[k], np.zeros(len(view.s)), beta[k])

    # Nodes

    def _roots(self) -> None:
        J = len(self.rule.slope) - 1
        third = np.repeat([[-1.0], [1.0]], self.rule.slope.shape[1] - J, axis=1)
        for label in self.labels.tolist():
            many = self.rule.pairs.counts[self.rule.first[label, :J], self.rule.second[label, :J]]
            few = np.prod(many) <= FEW_TARGETS
            ranges = [range(m) if few else (0,) if m == 1 else (-1,) for m in many.tolist()]
            for target in product(*ranges):
                for i in np.flatnonzero(self.value > 0).tolist():
                    box = np.full(J, -1.0), np.ones(J), third
                    self.nodes.append(Node(i, label, 0.0, np.array(target), *box))

    def _budget(self, label: Ints, low: Floats, high: Floats, third: Floats) -> Budget:
        """Return the room for the levels of nodes.

        Normalised, sum_k p_k / p_i = (1 + sum_j t_j) sum_k t_k / (1 + r_k t_k) <= kappa, with t = e_ik and
        r_k = 1 + the odds of third classes over k: a product of two sums that are at least linear in a box.
        """
        rule, J = self.rule, len(self.rule.slope) - 1
        a, b, cost = rule.a[label], rule.shift[label, :J], np.ones_like(low)
        total = np.full(len(low), np.exp(rule.log_kappa))
        tells = a > 0
        if rule.normalize:
            least, most = (np.exp(np.clip(b - a * part, -LARGEST, LARGEST)) for part in (high, low))
            r = 1 + self._third_odds(label, third)[0]
            X, g = 1 + least.sum(axis=1), (least / (1 + r * least)).sum(axis=1)
            cost = X[:, None] / ((1 + r * least) * (1 + r * most)) + g[:, None]
            total = total - X * g + (cost * least).sum(axis=1)
        spent = np.where(tells, 0.0, cost * np.exp(np.minimum(b, LARGEST))).sum(axis=1)
        return Budget(np.where(tells, a, 1.0), b, cost * tells, total - spent)

    def _third_odds(self, label: Ints, third: Floats) -> tuple[Floats, Floats]:
        """Return the most that sum_j e_kj over third classes j can be, per rival k (N, J), and by score.

        The latter is (2, 2, N, T): of both orders of a pair, at the end of the box and in its middle.
        """
        rule, J = self.rule, len(self.rule.slope) - 1
        ends = rule.slope[label, J:, None] * third.transpose(0, 2, 1) + rule.shift[label, J:, None]
        middle = ends.mean(axis=2)
        exponents = np.array([[ends.max(axis=2), middle], [-ends.min(axis=2), -middle]])
        each, odds = np.exp(np.clip(exponents, -LARGEST, LARGEST)), np.zeros((len(label), J))
        for k, (most, _) in zip(self._thirds(label), each, strict=True):
            np.add.at(odds, (np.arange(len(label))[:, None], k), most)
        return odds, each

    def _thirds(self, label: Ints) -> tuple[Ints, Ints]:
        """Return the places (N, T) among the rivals of the two classes of each pair of other classes."""
        J = len(self.rule.slope) - 1
        first, second = self.rule.first[label, J:], self.rule.second[label, J:]
        return first - (first > label[:, None]), second - (second > label[:, None])

    def _boxes(self, nodes: list[Node]) -> Boxes:
        """Return nodes as arrays, their boxes narrowed to the scores within the radius and to the budget."""
        sample, label, bound, target, low, high = (
            np.array(part) for part in list(zip(*nodes, strict=True))[:6]
        )
        J = low.shape[1]
        c = compare(self.view, self.rule, sample, label, self.radius[sample])
        worst, best = (_of_side(part[:, :J], target) for part in (c.worst, c.best))
        low, high = np.maximum(low, np.minimum(worst, high)), np.minimum(high, best)
        third = np.array([node.third for node in nodes])
        third[:, 0] = np.maximum(third[:, 0], _of_side(c.worst[:, J:], None))
        third[:, 1] = np.minimum(third[:, 1], _of_side(c.best[:, J:], None))
        nowhere = (third[:, 0] > third[:, 1] + NARROW).any(axis=1)
        budget = self._budget(label, low, np.maximum(low, high), third)
        low, high = budget.narrowed(low, high, not self.rule.normalize)
        bend = self.view.bend[self.rule.metric[label, :J]]
        each = alone(c, low, bend, self.view.ways[sample]).max(axis=3)
        undecided = np.where(target >= 0, _at(each, target), each.min(axis=2))
        bound = np.maximum(bound, undecided.max(axis=1))
        bound = np.where((low > high + NARROW).any(axis=1) | nowhere, np.inf, bound)
        if J > 1:  # then the levels are narrowed by what is within the radius
            bound = np.minimum(bound, self.radius[sample])
        return Boxes(sample, label, target, low, np.maximum(low, high), bound, third, budget, c)

    def _round(self) -> bool:
        """Look at the most promising nodes of all samples; False if there are none."""
        nodes, rest, many = [], [], np.zeros(len(self.value), dtype=int)
        limit = np.where(self.value < np.inf, self.effort, min(self.effort, PATIENCE))
        radius = self.radius
        for node in sorted(self.nodes, key=lambda node: node.promise):
            i = node.sample
            if node.bound >= radius[i]:
                self.closed[i] = min(self.closed[i], node.bound)
            elif node.fresh or self._has_new_proof(node) or (self.spent[i] < limit[i] and many[i] < WIDTH):
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
        for k in np.flatnonzero(~over):
            if (nodes[k].target < 0).any():
                self.nodes += _by_target(nodes[k]._replace(bound=boxes.bound[k]), self.rule)
        keep = np.flatnonzero(~over & (boxes.target >= 0).all(axis=1))
        if not len(keep):
            return True
        boxes, nodes = take(boxes, keep), [nodes[k] for k in keep]
        rows = chosen(boxes.comparisons, boxes.target)
        proofs = self._proofs(boxes, rows, nodes)
        self.nodes += self._uncovered(boxes, rows, proofs, nodes)
        return True

    def _has_new_proof(self, node: Node) -> bool:
        """Return whether Newton's method may prove something of a node that was not tried yet."""
        return node.key not in self.known or self.known[node.key] is not node.tried

    def _proofs(self, boxes: Boxes, rows: Comparisons, nodes: list[Node]) -> list[Proof]:
        """Return a proof for each node that was not tried on it yet; keep the answers on the way."""
        new = np.array([k for k, node in enumerate(nodes) if node.key not in self.known], dtype=int)
        if len(new):
            self._settle(boxes.sample[new], boxes.label[new], boxes.target[new])
        proofs, solved = [], []
        for k, node in enumerate(nodes):
            proof = node.proof if node.fresh else self.known[node.key]
            if node.fresh is False:
                nodes[k] = node._replace(tried=proof)
            if proof is None or (not node.fresh and proof is node.tried):
                self.spent[node.sample] += 1
                proof, works = self._program(boxes, rows, k, node.proof)
                solved += [k] if works else []
            proofs.append(proof)
        if solved:
            points = np.array([proofs[k].point for k in solved])
            sample, label = boxes.sample[solved], boxes.label[solved]
            good = place(self.view, self.rule, sample, label, points).value <= 0
            near = np.abs(points).sum(axis=1) < self.value[sample]
            near |= np.array([self.known[nodes[k].key] is None for k in solved])
            self._keep(sample, label, points, good)
            self._newton(sample[near], label[near], points[near], boxes.target[solved][near])
        return proofs

    def _program(self, boxes: Boxes, rows: Comparisons, k: int, known: Proof | None) -> tuple[Proof, bool]:
        """Project onto the cell of one choice of levels of node k; levels below 0 are asked as 0.

        It is halfway between equal parts of the room of the box, and where a known proof is weakest.
        """
        view, rule, i, label = self.view, self.rule, int(boxes.sample[k]), int(boxes.label[k])
        low, high, budget, mine = boxes.low[[k]], boxes.high[[k]], take(boxes.budget, [k]), take(rows, k)
        metric = rule.metric[label, : low.shape[1]]
        most, fewest = budget.shares(low), budget.shares(high)
        spare = max(float(budget.total[0] - fewest.sum()), 0.0) * (1 - 1e-9)
        wanted = [most - fewest]
        if known is not None:
            S = mine.S + mine.sum_slope @ known.point
            S += 2 * np.einsum("d,jde,e->j", known.point, view.G[metric], known.point)[:, None]
            weakest = budget.least((known.rows * S).sum(axis=1)[None], low, high)[1]
            wanted.append(budget.shares(weakest) - fewest)
        parts = [part * min(1.0, spare / max(part.sum(), 1e-300)) for part in wanted]
        level = np.clip(budget.levels(fewest + sum(parts) / len(parts)), low, high)
        level = np.maximum(np.where(budget.cost > 0, level, low)[0], 0.0)
        side, other = (index.ravel() for index in np.indices(mine.S.shape))
        l, own, rival = (
            level[side],
            rule.own[label, side, boxes.target[k, side]],
            rule.other[label, side, other],
        )
        A = (1 + l)[:, None] * view.z[i, own] - (1 - l)[:, None] * view.z[i, rival]
        q = np.concatenate(
            [(mine.lead_slope - level[:, None, None] * mine.sum_slope)[side, other], view.c[i]]
        )
        g = np.concatenate([(level[:, None] * mine.S - mine.D).ravel(), view.g[i]])
        size = np.concatenate([mine.S.ravel(), view.size[i]])
        program = Program(
            [view.factors[j] for j in (*metric[side], *view.metric)],
            [*A, *(centre[i] for centre in view.centres)], q, np.abs(q),
            np.concatenate([2 * l, view.s]), g, size, view.margin * size, view.lo[i], view.hi[i],
        )  # fmt: skip
        solved, beta, lam = projected(program, self.beta[i])
        return Proof(lam[: len(side)].reshape(mine.S.shape), lam[len(side) :], beta), solved

    def _uncovered(
        self, boxes: Boxes, rows: Comparisons, proofs: list[Proof], nodes: list[Node]
    ) -> list[Node]:
        """Return what certificates leave of nodes, in parts along one level; the rest is closed."""
        view, (sample, label, _, low, high, bound) = self.view, boxes[:6]
        radius = self.radius[sample]
        I = inequality(view, self.rule, sample, label, rows, proofs, low, high)
        high = np.where(boxes.budget.cost > 0, high, low)
        whole = covers(self.view, sample, I, boxes.budget, radius, low, high)
        # Divide a level around 0, else that which the certificate depends on most.
        weight = np.where((low < 0) & (high > 1e-6), np.inf, np.abs(I.dtau)) * (high - low > 1e-7)
        weight *= high - low
        side = weight.argmax(axis=1)
        zero = np.isinf(weight.max(axis=1))
        point = weight.max(axis=1) == 0
        children: list[tuple[Any, Node]] = []
        scores = self._scores(boxes, proofs)
        if self.rule.normalize:
            children = self._by_third(boxes, nodes, proofs, scores, np.flatnonzero(~whole))
            whole[[k for k, _ in children]] = True
        np.minimum.at(self.closed, sample, np.where(point & ~whole, bound, np.maximum(bound, radius)))
        n = np.flatnonzero(~whole & ~point)
        if not len(n):
            return [child for _, child in children]
        j, lo, hi = side[n], low[n, side[n]], high[n, side[n]]
        mid = np.clip(scores[n, j], lo, hi)
        grid = np.concatenate([mid - (mid - lo) * PARTS[:0:-1, None], mid + (hi - mid) * PARTS[:, None]]).T
        B = grid.shape[1] - 1
        m, at = np.repeat(n, B), (np.arange(B * len(n)), np.repeat(j, B))
        box_low, box_high, budget = low[m], high[m], take(boxes.budget, m)
        box_low[at], box_high[at] = grid[:, :-1].ravel(), grid[:, 1:].ravel()
        if self.rule.normalize:  # then it is the tighter, the smaller the box
            budget = self._budget(label[m], box_low, box_high, boxes.third[m])
        box_low, box_high = budget.narrowed(box_low, box_high, not self.rule.normalize)
        box_high = np.maximum(box_low, box_high)
        part = take(I, m)
        part = balanced(view, sample[m], part, radius[m], 0.5 * (box_low + box_high), at[1])
        holds = covers(view, sample[m], part, budget, radius[m], box_low, box_high)
        for r, (k, held) in enumerate(zip(n, holds.reshape(len(n), B), strict=True)):
            fresh = bool(np.diff(grid[r])[held].sum() >= 0.2 * (hi[r] - lo[r]))
            if not fresh:
                split = (
                    0.0
                    if zero[k]
                    else float(np.clip(mid[r], 0.8 * lo[r] + 0.2 * hi[r], 0.2 * lo[r] + 0.8 * hi[r]))
                )
                ends = [(lo[r], split), (split, hi[r])]
            else:
                edges = np.flatnonzero(np.diff(np.concatenate([[True], held, [True]]).astype(int)))
                ends = [(grid[r, a], grid[r, b]) for a, b in edges.reshape(-1, 2)]
            for ends_of in ends:
                lows, highs = low[k].copy(), high[k].copy()
                lows[j[r]], highs[j[r]] = ends_of
                child = nodes[k]._replace(bound=bound[k], low=lows, high=highs, proof=proofs[k], fresh=fresh)
                children.append((k, child))
        return [child for _, child in children]

    def _scores(self, boxes: Boxes, proofs: list[Proof]) -> Floats:
        """Return the scores of the targets where proofs have their points, (N, E)."""
        points = np.array([proof.point for proof in proofs])
        return place(self.view, self.rule, boxes.sample, boxes.label, points, boxes.target).scores

    def _by_third(
        self, boxes: Boxes, nodes: list[Node], proofs: list[Proof], scores: Floats, n: Ints
    ) -> list[tuple[Any, Node]]:
        """Divide nodes n by the score between other classes by which their budget is loosest, if it is."""
        J, rows = boxes.low.shape[1], np.arange(len(boxes.low))[:, None]
        levels = np.clip(scores[:, :J], boxes.low, boxes.high)
        t = boxes.budget._replace(cost=np.ones_like(levels)).shares(levels)
        odds, each = self._third_odds(boxes.label, boxes.third)
        doubt = t / (1 + (1 + odds) * t)
        loss = sum(
            doubt[rows, k] ** 2 * (most - middle)
            for k, (most, middle) in zip(self._thirds(boxes.label), each, strict=True)
        ) / doubt.sum(axis=1, keepdims=True)
        children = []
        for k in n:
            j, i = int(loss[k].argmax()), nodes[k].sample
            if loss[k, j] <= LOOSE * self.gap or self.divided[i] >= DIVISIONS * self.effort:
                continue
            self.divided[i] += 1
            low, high = boxes.third[k, :, j]
            split = float(np.clip(scores[k, J + j], 0.8 * low + 0.2 * high, 0.2 * low + 0.8 * high))
            for side, end in ((1, split), (0, split)):
                third = boxes.third[k].copy()
                third[side, j] = end
                box = {"low": boxes.low[k], "high": boxes.high[k], "third": third, "bound": boxes.bound[k]}
                children.append((k, nodes[k]._replace(proof=proofs[k], fresh=True, **box)))
        return children

    def _bounded(self) -> None:
        """Close the nodes that are left, by the largest radius that one of their certificates covers."""
        for node in self.nodes:
            if node.proof is None or self.value[node.sample] == np.inf:
                self.closed[node.sample] = min(self.closed[node.sample], node.bound)
        left = [node for node in self.nodes if self.value[node.sample] < np.inf]
        pairs = [(node, node.proof) for node in left if node.proof is not None]
        if not pairs:
            return
        boxes = self._boxes([node for node, _ in pairs])
        rows = chosen(boxes.comparisons, boxes.target)
        sample, label, _, low, high, bound = boxes[:6]
        high = np.where(boxes.budget.cost > 0, high, low)
        for proofs in ([node.tried or proof for node, proof in pairs], [proof for _, proof in pairs]):
            I = inequality(self.view, self.rule, sample, label, rows, proofs, low, high)
            proven, step = np.zeros(len(pairs)), self.radius[sample]
            for _ in range(12):  # bisection
                step = 0.5 * step
                holds = covers(self.view, sample, I, boxes.budget, proven + step, low, high)
                proven += np.where(holds, step, 0.0)
            bound = np.maximum(bound, proven)
        np.minimum.at(self.closed, sample, bound)


def _at(each: Floats, target: Ints) -> Floats:
    """Return the values (N, J) of the targets, of (N, J, P)."""
    return np.take_along_axis(each, np.maximum(target, 0)[..., None], 2)[..., 0]


def _of_side(score: Floats, target: Ints | None) -> Floats:
    """Return a bound (N, J) of each side's score, by bounds (N, J, P, Q) of its comparisons."""
    each = score.min(axis=3)
    return each.max(axis=2) if target is None else np.where(target >= 0, _at(each, target), each.max(axis=2))


def _by_target(node: Node, rule: Rule) -> list[Node]:
    """Divide a node by the prototypes of its first open side."""
    j = int((node.target < 0).argmax())
    many = rule.pairs.counts[rule.first[node.label, j], rule.second[node.label, j]]
    children = []
    for p in range(many):
        target = node.target.copy()
        target[j] = p
        children.append(node._replace(target=target))
    return children
