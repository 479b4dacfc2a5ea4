"""Where a class is probable enough, and the nearest such change around a first one, samples in lock-step.

In scaled changes beta = w delta, a class i is probable enough where sum_j e_ij <= kappa = 1/theta - 1 with
e_ij = exp(beta_ij - a_j s_j) and s_j = D_j / S_j, the score of the pair (i, j): S = d_other + d_own is a
convex quadratic, D = d_other - d_own is linear. F is the logarithm of the left over the right side.

    first answers  one feature after the other is changed by the best step on a ladder of lengths
    nearest ones   Newton's method on the features that move: sign_k + mu dF/dbeta_k = 0 and F = 0
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.solvers.certificate import knapsack_change

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

EPS = float(np.finfo(float).eps)
#: Exponents are kept within what exp can take.
LARGEST = 700.0
#: How far below zero F has to be, so that rounding does not decide.
INSIDE = 1e-12
#: Newton's method: a relative step so small that another feature may join; its steps in all, and until a
#: feature joins or leaves.
NEARLY, STEPS, PATIENCE = 1e-2, 40, 10
#: Lengths tried along each feature, relative to the farthest prototype: finer near the sample.
LADDER = np.linspace(0.0, 1.0, 17)[1:] ** 2
#: Parts of the way from one of them to the next.
FINER = np.linspace(0.0, 1.0, 9)[1:]


class Pairs(NamedTuple):
    """The pairwise models and their calibration as arrays; prototypes are padded by repeating the first."""

    metrics: Floats  # (M, k, d), padded with rows of zeros
    points: Floats  # (S, d), the prototypes of all models
    point_metric: Ints  # (S,)
    own: Ints  # (K, K, P): own[a, b] are the prototypes of class a in the model of a and b
    counts: Ints  # (K, K): how many there are
    apart: Floats  # (S, S) |L (p - q)|^2 between prototypes of one model, 0 for twins
    alpha: Floats  # (K, K)
    beta: Floats  # (K, K)


class Rule(NamedTuple):
    """What each class asks for at a threshold, of E sides: first the J = K - 1 rivals.

    A side is an ordered pair of classes whose score matters. If other pairs matter (normalised probabilities;
    a target that has to be the most probable class), they follow. A positive alpha swaps prototypes.
    """

    pairs: Pairs
    log_kappa: float
    normalize: bool
    foremost: bool  # whether the class has to be the most probable one, too
    first: Ints  # (K, E) the classes of each side
    second: Ints  # (K, E)
    slope: Floats  # (K, E) exponents log e = slope s + shift
    shift: Floats  # (K, E)
    own: Ints  # (K, E, P) prototypes
    other: Ints  # (K, E, P)
    many: Ints  # (2, K, E) how many of `own` and `other` are not padding
    metric: Ints  # (K, E)

    @property
    def a(self) -> Floats:
        """Slopes |alpha| of the rivals, (K, J)."""
        return -self.slope[:, : len(self.slope) - 1]


def rule_of(pairs: Pairs, theta: float, normalize: bool, foremost: bool) -> Rule:
    """Return what each class asks for p(i | x) >= theta, 0 < theta < 1."""
    K = len(pairs.alpha)
    sides = []
    for i in range(K):
        rivals = [j for j in range(K) if j != i]
        others = combinations(rivals, 2) if normalize or foremost else ()
        sides.append([*((i, j) for j in rivals), *others])
    first, second = np.array(sides).transpose(2, 0, 1)
    slope, shift = -np.abs(pairs.alpha[first, second]), pairs.beta[first, second]
    swapped = pairs.alpha[first, second] > 0
    a, b = np.where(swapped, second, first), np.where(swapped, first, second)
    own, other, log_kappa = pairs.own[a, b], pairs.own[b, a], float(np.log1p(-theta) - np.log(theta))
    metric = pairs.point_metric[own[..., 0]]
    many = np.array([pairs.counts[a, b], pairs.counts[b, a]])
    return Rule(pairs, log_kappa, normalize, foremost, first, second, slope, shift, own, other, many, metric)


class View(NamedTuple):
    """Prototypes and further constraints as the samples of a batch see them, in scaled changes."""

    ways_to: Floats  # (n, S, d) to the prototypes
    z: Floats  # (n, S, k) L (point - x)
    u: Floats  # (n, S, d) M'z with M = L / w
    squares: Floats  # (n, S) |z|^2
    factors: list[Floats]  # M of each metric, then of each further ball
    G: Floats  # (M, d, d) M'M
    bend: Floats  # (M, d) its diagonals
    lo: Floats  # (n, d)
    hi: Floats  # (n, d)
    metric: Ints  # (e,) of the further constraints s |M beta|^2 - c'beta + g <= 0; 0 for a half-space
    s: Floats  # (e,)
    c: Floats  # (n, e, d)
    g: Floats  # (n, e)
    size: Floats  # (n, e) size of the terms of g
    margin: float  # by how much of that size an answer has to be inside
    centres: list[Floats]  # (n, k) L (centre - x) of the further balls, zeros for a half-space

    @property
    def ways(self) -> Mask:
        """Which features may rise and which may fall, (n, 2, d)."""
        return np.stack([self.hi > 0, self.lo < 0], axis=1)

    def within(self, sample: Ints, beta: Floats) -> Mask:
        """Return whether changes (N, d) meet the further constraints."""
        image = np.einsum("nd,edf->nef", beta, self.G[self.metric])
        curved = self.s * np.einsum("nef,nf->ne", image, beta)
        values = curved - np.einsum("ned,nd->ne", self.c[sample], beta) + self.g[sample]
        return np.asarray((values <= 1e-10 * self.size[sample]).all(axis=1))


def view_of(
    pairs: Pairs, X: Floats, weights: Floats, lower: Floats, upper: Floats, pieces: Any, margin: float
) -> View:
    """Return what samples (n, d) see within their bounds; `pieces` are further balls and half-spaces."""
    way = pairs.points - X[:, None]
    M = pairs.metrics / weights
    z = np.matmul(way[:, :, None], pairs.metrics[pairs.point_metric].transpose(0, 2, 1))
    u = np.matmul(z, M[pairs.point_metric])[:, :, 0]
    factors, e = list(M), len(pieces)
    metric, s, centres = np.zeros(e, dtype=np.int64), np.zeros(e), []
    c, g, size = np.zeros((len(X), e, X.shape[1])), np.zeros((len(X), e)), np.zeros((len(X), e))
    for k, piece in enumerate(pieces):
        if hasattr(piece, "radius"):
            to_centre = (piece.centre - X) @ piece.L.T
            squares = np.square(to_centre).sum(axis=1)
            metric[k], s[k] = len(factors), 1.0
            factors.append(piece.L / weights)
            c[:, k] = 2 * (to_centre @ piece.L) / weights
            g[:, k], size[:, k] = squares - piece.radius**2, squares + piece.radius**2
        else:
            to_centre = np.zeros((len(X), M.shape[1]))
            terms = piece.normal * X
            c[:, k] = piece.normal / weights
            g[:, k] = -(terms.sum(axis=1) + piece.offset)
            size[:, k] = np.abs(terms).sum(axis=1) + abs(piece.offset)
        centres.append(to_centre)
    G = np.array([factor.T @ factor for factor in factors])
    return View(
        way * weights, z[:, :, 0], u, np.square(z).sum(axis=(2, 3)), factors, G, np.einsum("mdd->md", G),
        (lower - X) * weights, (upper - X) * weights, metric, s, c, g, size, margin, centres,
    )  # fmt: skip


# Where a class is probable enough: F <= 0


def excess(rule: Rule, label: Ints, s: Floats, order: int = 2) -> tuple[Floats, Floats, Floats]:
    """Return F(s), its gradient (N, E) and Hessian (N, E, E) in the scores, up to an order of derivatives.

    F = log(sum_j e_ij / kappa). Normalised it is log(sum_j p_j / (kappa p_i)); what has to be the most
    probable class asks for log(p_j / p_i) <= 0 as well, and the largest of these counts.
    """
    slope = rule.slope[label]
    t = np.clip(slope * s + rule.shift[label], -LARGEST, LARGEST)
    N, E, K = *t.shape, len(rule.slope)
    J, rows = K - 1, np.arange(N)
    value, share = log_sum(t[:, :J])
    value -= rule.log_kappa
    if E == J:
        gradient = share * slope
        if order < 2:
            return value, gradient, np.empty(0)
        return value, gradient, _diagonal(gradient * slope) - gradient[:, :, None] * gradient[:, None]
    own, other = rule.first[label], rule.second[label]
    log_p, pi = log_sum(of_classes(rule, label, t, -t))
    log_p = -log_p
    rivals = log_p.copy()
    rivals[rows, label] = -np.inf
    omega = np.zeros((N, K))
    if rule.normalize:
        value, omega = log_sum(rivals)
        value += -log_p[rows, label] - rule.log_kappa
    lead = rivals.max(axis=1) - log_p[rows, label]
    ahead = rule.foremost & (lead > value)
    value = np.where(ahead, lead, value)
    if order == 0:
        return value, np.empty(0), np.empty(0)
    omega[ahead] = np.eye(K)[rivals[ahead].argmax(axis=1)]
    jac = np.zeros((N, K, E))  # of log p
    which = np.arange(E)
    jac[rows[:, None], own, which] = -pi[rows[:, None], own, other]
    jac[rows[:, None], other, which] = pi[rows[:, None], other, own]
    c = omega - np.eye(K)[label]
    mean = np.einsum("nk,nke->ne", omega, jac)
    gradient = mean - jac[rows, label]
    hessian = np.einsum("nke,nk,nkf->nef", jac, c + omega, jac) - mean[:, :, None] * mean[:, None]
    hessian -= _diagonal(np.einsum("nk,nke->ne", c, np.abs(jac)))
    if not rule.normalize:
        plain = np.zeros((N, E))
        plain[:, :J] = share
        simple = ~ahead
        gradient[simple] = plain[simple]
        hessian[simple] = (_diagonal(plain) - plain[:, :, None] * plain[:, None])[simple]
    return value, gradient * slope, hessian * slope[:, :, None] * slope[:, None]


def of_classes(rule: Rule, label: Ints, t: Floats, reverse: Floats) -> Floats:
    """Return values (N, E) of the sides as matrices (N, K, K) of classes, `reverse` in the other order."""
    rows, K = np.arange(len(label))[:, None], len(rule.slope)
    first, second, result = rule.first[label], rule.second[label], np.zeros((len(label), K, K))
    result[rows, first, second], result[rows, second, first] = t, reverse
    return result


def log_sum(t: Floats) -> tuple[Floats, Floats]:
    """Return log sum exp(t) over the last axis, and the share of each term."""
    e = np.exp(t)
    total = e @ np.ones(t.shape[-1])
    return np.log(total), e / total[..., None]


def _diagonal(rows: Floats) -> Floats:
    """Return diagonal matrices, (N, E, E)."""
    return rows[:, :, None] * np.eye(rows.shape[1])


class Place(NamedTuple):
    """What is known of changes: F, its slope and curvature, and the pairs that decide it."""

    value: Floats  # (N,)
    slope: Floats  # (N, d)
    curvature: Floats  # (N, d, d)
    scores: Floats  # (N, E) of the sides
    sums: Floats  # (N, E) d_own + d_other of the nearest prototypes
    own: Ints  # (N, E) which of `Rule.own` is nearest
    other: Ints  # (N, E)
    weight: Floats  # (N, E) -dF/ds


def place(
    view: View, rule: Rule, sample: Ints, label: Ints, beta: Floats, target: Ints | None = None,
    curved: bool = False,
) -> Place:  # fmt: skip
    """Evaluate changes (N, d) of some samples for some classes.

    The targets (N, J), if given, are the prototypes that have to be near instead of the nearest ones.
    """
    rows = np.arange(len(beta))[:, None]
    image = np.matmul(beta[:, None, None], view.G)[:, :, 0]
    squared = np.maximum(np.einsum("nmd,nd->nm", image, beta), 0.0)
    u = view.u[sample]
    distance = view.squares[sample] - 2 * np.matmul(u, beta[..., None])[..., 0]
    distance = np.maximum(distance + squared[:, rule.pairs.point_metric], 0.0)
    mine, theirs = rule.own[label], rule.other[label]
    own = distance[rows[..., None], mine].argmin(axis=2)
    other = distance[rows[..., None], theirs].argmin(axis=2)
    if target is not None:
        own[:, : target.shape[1]] = target
    p = np.take_along_axis(mine, own[..., None], 2)[..., 0]
    q = np.take_along_axis(theirs, other[..., None], 2)[..., 0]
    near, far = distance[rows, p], distance[rows, q]
    sums = np.maximum(near + far, 1e-300)
    scores = (far - near) / sums
    value, weight, second = excess(rule, label, scores, order=2 if curved else 1)
    pull = image[rows, rule.metric[label]]
    d_near, d_far = 2 * (pull - u[rows, p]), 2 * (pull - u[rows, q])
    d_score = (near[..., None] * d_far - far[..., None] * d_near) * (2 / sums**2)[..., None]
    slope = np.matmul(weight[:, None], d_score)[:, 0]
    curvature = np.empty(0)
    if curved:
        part = weight / sums
        scale = np.zeros((len(beta), len(view.G)))
        np.add.at(scale, (rows, rule.metric[label]), 4 * part * scores)
        cross = np.matmul((part[..., None] * d_score).transpose(0, 2, 1), d_near + d_far)
        curvature = np.matmul(d_score.transpose(0, 2, 1), np.matmul(second, d_score))
        curvature -= cross + cross.transpose(0, 2, 1) + np.tensordot(scale, view.G, 1)
    return Place(value, slope, curvature, scores, sums, own, other, -weight)


# Answers


def along_features(
    view: View, rule: Rule, sample: Ints, label: Ints, base: Floats, target: Ints | None = None
) -> tuple[Floats, Floats]:
    """Change one more feature: by the shortest step on a ladder of lengths that is enough, else the best one.

    Returns F after the step, and the change with it.
    """
    (N, d), metric, n = base.shape, rule.pairs.point_metric, np.arange(len(base))
    image = np.matmul(base[:, None, None], view.G)[:, :, 0]
    square = np.einsum("nmd,nd->nm", image, base)
    distance = view.squares[sample] - 2 * np.einsum("nsd,nd->ns", view.u[sample], base) + square[:, metric]
    way, bend = view.u[sample] - image[:, metric], view.bend[metric]
    longest = (np.abs(way) / np.where(bend > 0, bend, np.inf)).max(axis=1)
    room = np.stack([view.hi[sample] - base, base - view.lo[sample]], axis=1)[..., None]
    steps = np.minimum(2 * longest[:, None, :, None] * LADDER, room)  # (N, 2, d, ladder)
    signed = steps * np.array([1.0, -1.0])[:, None, None]

    def nearest(points: Ints) -> Floats:
        """Return the distances (E, N, 2, d, ladder) to the nearest of some prototypes (N, E, P)."""
        at = points.transpose(2, 1, 0)
        slope = (-2 * way[n, at])[:, :, :, None, :, None]
        there = signed * (signed * bend[at][:, :, :, None, :, None] + slope)
        there += distance[n, at][..., None, None, None]
        return there.min(axis=0)

    own = rule.own[label]
    if target is not None:
        own[:, : target.shape[1]] = np.take_along_axis(own[:, : target.shape[1]], target[..., None], 2)
    near, far = nearest(own), nearest(rule.other[label])
    total = near + far
    s = np.divide(far - near, total, out=np.zeros_like(total), where=total > 0)
    many = np.repeat(label, steps[0].size)
    F = excess(rule, many, s.reshape(len(s), -1).T, order=0)[0].reshape(N, -1)
    lengths = steps.reshape(N, -1)
    F[lengths <= 0] = np.inf
    enough = np.where(F <= 0, lengths, np.inf)
    best = np.where(enough.min(axis=1) < np.inf, enough.argmin(axis=1), F.argmin(axis=1))
    # Between the step and the one before it, where F gets below 0 for the first time.
    last = np.where(best % len(LADDER) > 0, signed.reshape(N, -1)[n, best - 1], 0.0)
    ends = last[:, None] + (signed.reshape(N, -1)[n, best] - last)[:, None] * FINER
    beta = np.repeat(base[:, None], len(FINER), axis=1)
    beta[n, :, best // len(LADDER) % d] += ends
    again = np.repeat(n, len(FINER))
    forced = None if target is None else target[again]
    F = place(view, rule, sample[again], label[again], beta.reshape(-1, d), forced).value.reshape(N, -1)
    best = np.where((F <= 0).any(axis=1), (F <= 0).argmax(axis=1), len(FINER) - 1)
    return F[n, best], beta[n, best]


def shortened(
    view: View, rule: Rule, sample: Ints, label: Ints, beta: Floats, target: Ints | None = None
) -> Floats:
    """Shorten accepted changes (N, d), by steps of two kinds in turn, each within a region of trust.

    A linear program: the shortest change in a box that meets F + slope'step <= 0 fills up one feature after
    the other, so it has few changed features; what F misses there is asked for in addition. And a step along
    the boundary, in the features that are changed, down the length's gradient without that of F, with a way
    back to F <= 0: where the boundary is curved, programs hardly get on.
    """
    lo, hi, trust = view.lo[sample], view.hi[sample], 0.5 * np.tile(np.abs(beta).max(axis=1), (2, 1))

    def at(beta: Floats) -> Place:
        return place(view, rule, sample, label, beta, target)

    for step in range(50):
        now, room = at(beta), trust[step % 2][:, None]
        if step % 2 == 0:
            low, high = np.maximum(lo, beta - room), np.minimum(hi, beta + room)
            base = np.clip(0.0, low, high)
            missing = now.value + (now.slope * (base - beta)).sum(axis=1)
            for _ in range(3):
                trial = base + knapsack_change(-now.slope, missing, low - base, high - base)
                value = at(trial).value
                missing = missing + np.maximum(value, 0.0)
        else:
            sign = np.sign(beta)
            way = _without(sign, np.where(sign != 0, now.slope, 0.0))
            trial = beta - room * way / np.maximum(np.abs(way).max(axis=1, keepdims=True), 1e-300)
            for _ in range(3):
                trial = np.clip(np.where(trial * sign > 0, trial, 0.0), lo, hi)
                there = at(trial)
                slope, value = np.where(trial != 0, there.slope, 0.0), there.value
                back = np.where(value > 0, value + INSIDE, 0.0) / np.maximum((slope**2).sum(axis=1), 1e-300)
                trial = trial - back[:, None] * slope
            value = at(trial).value
        shorter = np.abs(trial).sum(axis=1) < np.abs(beta).sum(axis=1)
        inside = (lo <= trial).all(axis=1) & (trial <= hi).all(axis=1) & view.within(sample, trial)
        good = (value <= 0) & shorter & inside
        beta = np.where(good[:, None], trial, beta)
        trust[step % 2] *= np.where(good, 1.5, 0.4)
    return beta


def _without(rows: Floats, others: Floats) -> Floats:
    """Return rows (N, d) without their parts along others."""
    part = (rows * others).sum(axis=1) / np.maximum((others**2).sum(axis=1), 1e-300)
    return np.asarray(rows - part[:, None] * others)


def _solved(systems: Floats, right: Floats) -> Floats:
    """Solve systems (N, d, d); those that are singular get infinity."""
    try:
        return np.asarray(np.linalg.solve(systems, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        regular = np.linalg.slogdet(systems)[0] != 0
        result = np.full(right.shape, np.inf)
        result[regular] = np.linalg.solve(systems[regular], right[regular][..., None])[..., 0]
        return result


def newton(
    view: View, rule: Rule, sample: Ints, label: Ints, start: Floats, target: Ints | None = None
) -> tuple[Mask, Floats, Floats]:
    """Solve sign_k + mu dF/dbeta_k = 0 over the features that move, and F = 0, all problems in lock-step.

    Returns whether all optimality conditions are met, beta and mu, the multiplier of F <= 0.
    """
    N, d = start.shape
    beta, sign, lo, hi = start.copy(), np.sign(start), view.lo[sample], view.hi[sample]
    moving = (beta != 0) & (lo < beta) & (beta < hi)
    mu, fresh, since = np.zeros(N), np.ones(N, dtype=bool), np.zeros(N)
    optimal, open_ = np.zeros(N, dtype=bool), np.arange(N)
    for _ in range(STEPS):
        open_ = open_[moving[open_].any(axis=1) & (since[open_] < PATIENCE)]
        if not len(open_):
            break
        b, m, sg, low, high = beta[open_], moving[open_], sign[open_], lo[open_], hi[open_]
        forced = None if target is None else target[open_]
        now = place(view, rule, sample[open_], label[open_], b, forced, curved=True)
        slope = np.where(m, now.slope, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            first_mu = -(sg * slope).sum(axis=1) / (slope**2).sum(axis=1)
        mu[open_] = np.where(fresh[open_], first_mu, mu[open_])
        good = (mu[open_] > 0) & (mu[open_] < np.inf)
        system = np.zeros((len(open_), d + 1, d + 1))
        both = m[:, :, None] & m[:, None]
        system[:, :d, :d] = np.where(both, mu[open_][:, None, None] * now.curvature, _diagonal(1.0 * ~m))
        system[:, :d, d] = system[:, d, :d] = slope
        right = np.concatenate([np.where(m, -sg, 0.0), -(now.value + INSIDE)[:, None]], axis=1)
        system[~good] = np.eye(d + 1)
        step = _solved(system, right)
        good &= np.isfinite(step).all(axis=1)
        step[~good] = 0.0
        length, moved = np.abs(b).sum(axis=1), np.abs(step[:, :d]).sum(axis=1)
        part = np.minimum(1.0, 0.5 * length / np.maximum(moved, 1e-300))
        # How far each feature can go until it reaches zero or its bound.
        change = step[:, :d]
        end = np.where(sg * change < 0, 0.0, np.where(change > 0, high, low))
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(m & (change != 0), (end - b) / change, np.inf)
        first = room.argmin(axis=1)
        rows = np.arange(len(open_))
        blocked = good & (room[rows, first] < part)
        part = np.where(blocked, room[rows, first], part)
        b = np.where(m, b + part[:, None] * change, b)
        b[rows[blocked], first[blocked]] = end[rows[blocked], first[blocked]]
        m[rows[blocked], first[blocked]] = False
        whole = good & ~blocked & (part == 1.0)
        mu[open_] = np.where(whole, step[:, d], mu[open_])
        # A feature at rest moves if mu |dF| exceeds 1; one at its bound returns if it falls short of 1.
        pull = -mu[open_][:, None] * now.slope
        rises = np.where(pull > 0, high > 0, low < 0)
        wants = np.where(b == 0, np.where(rises, np.abs(pull) - 1, 0.0), 1 - np.sign(b) * pull)
        wants = np.where(m | (low == high), 0.0, wants)
        worst = wants.argmax(axis=1)
        settled = whole & (moved <= NEARLY * length)
        joins = settled & (wants[rows, worst] > 1e-7)
        at_rest = joins & (b[rows, worst] == 0)
        m[rows[joins], worst[joins]] = True
        sg[rows[at_rest], worst[at_rest]] = np.sign(pull[rows, worst])[at_rest]
        done = settled & ~joins & (moved <= 1e-9 * length)
        beta[open_], moving[open_], sign[open_] = b, m, sg
        fresh[open_] = blocked | joins | (whole & (step[:, d] <= 0))
        since[open_] = np.where(blocked | joins, 0, since[open_] + 1)
        optimal[open_] = done
        open_ = open_[good & ~done]
    return optimal, beta, mu
