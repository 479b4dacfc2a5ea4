"""Branch and bound over budgets: the nearest change that makes one of several classes probable enough.

In scaled changes beta = w delta, a class i is probable enough where sum_j e_ij <= kappa = 1/theta - 1 with
e_ij = exp(beta_ij - a_j s_j) and s_j = D_j / S_j, the score of the pair (i, j): S = d_other + d_own is a
convex quadratic, D = d_other - d_own is linear. Whoever gives pair j the *level* l_j asks for
l_j S_j - D_j <= 0 and lets it spend the share exp(b_j - a_j l_j) of the budget, b_j = beta_ij - log kappa;
the shares add up to 1 at most.

    node         a class, the prototypes that have to win (some may be open), and a box of levels
    bound        the convex relaxation l S >= low S + (l - low) S_low, solved by Clarabel
    certificate  multipliers and a point prove, by convexity in beta alone, an inequality q(l)'beta >= tau(l)
                 that is linear in the levels: it holds for whole boxes, around an optimum for large ones
    answer       Newton's method on the active features, all samples at once, else convex restrictions

The samples of a batch go in lock-step, so this is not `branch_and_bound`, which takes one node at a time.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

EPS = float(np.finfo(float).eps)
#: A radius beyond all changes.
FAR = 1e30
#: Exponents are kept within what exp can take.
LARGEST = 700.0
#: Boxes of levels narrower than this are as good as a point.
NARROW = 1e-9


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
    """What each class asks for at a threshold, of V sides: first the J = K - 1 rivals.

    A side is an ordered pair of classes whose score matters, that of the first over the second. If other
    pairs matter (normalised probabilities; a target that has to be the most probable class), they follow,
    and then their mirror images.
    """

    pairs: Pairs
    log_kappa: float
    normalize: bool
    foremost: bool  # whether the class has to be the most probable one, too
    first: Ints  # (K, V) the classes of each side
    second: Ints  # (K, V)
    slope: Floats  # (K, E) exponents log e = slope s + shift, without the mirror images
    shift: Floats  # (K, E)
    own: Ints  # (K, V, P) prototypes
    other: Ints  # (K, V, P)
    many: Ints  # (K, V) how many of `own` are not padding
    metric: Ints  # (K, V)

    @property
    def a(self) -> Floats:
        """Slopes |alpha| of the rivals, (K, J)."""
        return -self.slope[:, : len(self.slope) - 1]


def rule_of(pairs: Pairs, theta: float, normalize: bool, foremost: bool) -> Rule:
    """Return what each class asks for p(i | x) >= theta, 0 < theta < 1."""
    K = len(pairs.alpha)
    first, second, slope, shift = [], [], [], []
    for i in range(K):
        rivals = [j for j in range(K) if j != i]
        others = list(combinations(rivals, 2)) if normalize or foremost else []
        # A positive alpha swaps the roles of two classes.
        sides = [(i, j) if pairs.alpha[i, j] <= 0 else (j, i) for j in rivals]
        sides += others + [(k, j) for j, k in others]
        first.append([a for a, _ in sides])
        second.append([b for _, b in sides])
        slope.append([-abs(pairs.alpha[i, j]) for j in rivals] + [pairs.alpha[j, k] for j, k in others])
        shift.append([pairs.beta[i, j] for j in rivals] + [pairs.beta[j, k] for j, k in others])
    a, b = np.array(first), np.array(second)
    own = pairs.own[a, b]
    return Rule(
        pairs, float(np.log1p(-theta) - np.log(theta)), normalize, foremost, a, b, np.array(slope),
        np.array(shift), own, pairs.own[b, a], pairs.counts[a, b], pairs.point_metric[own[..., 0]],
    )  # fmt: skip


class View(NamedTuple):
    """Prototypes and further constraints as the samples of a batch see them, in scaled changes."""

    u: Floats  # (n, S, d) M'L (point - x) with M = L / w
    squares: Floats  # (n, S) |L (point - x)|^2
    factors: list[Floats]  # M of each metric, then of each further ball
    G: Floats  # (M, d, d) M'M
    lo: Floats  # (n, d)
    hi: Floats  # (n, d)
    metric: Ints  # (e,) of the further constraints s beta'G beta - c'beta + g <= 0; 0 for a half-space
    s: Floats  # (e,)
    c: Floats  # (n, e, d)
    g: Floats  # (n, e)
    size: Floats  # (n, e) size of the terms of g

    @property
    def bend(self) -> Floats:
        """The diagonals of G, (M, d)."""
        return np.einsum("mdd->md", self.G)

    @property
    def ways(self) -> Mask:
        """Which features may rise and which may fall, (n, 2, d)."""
        return np.stack([self.hi > 0, self.lo < 0], axis=1)


def view_of(
    pairs: Pairs, X: Floats, weights: Floats, lower: Floats, upper: Floats, pieces: Any, margin: float = 0.0
) -> View:
    """Return what samples (n, d) see within their bounds; `pieces` are further balls and half-spaces."""
    way = pairs.points - X[:, None]
    M = pairs.metrics / weights
    z = np.matmul(way[:, :, None], pairs.metrics[pairs.point_metric].transpose(0, 2, 1))
    u = np.matmul(z, M[pairs.point_metric])[:, :, 0]
    factors, e = list(M), len(pieces)
    metric, s = np.zeros(e, dtype=np.int64), np.zeros(e)
    c, g, size = np.zeros((len(X), e, X.shape[1])), np.zeros((len(X), e)), np.zeros((len(X), e))
    for k, piece in enumerate(pieces):
        if hasattr(piece, "radius"):
            to_centre = (piece.centre - X)[:, None] @ piece.L.T
            squares = np.square(to_centre).sum(axis=(1, 2))
            metric[k], s[k] = len(factors), 1.0
            factors.append(piece.L / weights)
            c[:, k] = 2 * (to_centre @ piece.L)[:, 0] / weights
            g[:, k], size[:, k] = squares - piece.radius**2, squares + piece.radius**2
        else:
            terms = piece.normal * X
            c[:, k] = piece.normal / weights
            g[:, k] = -(terms.sum(axis=1) + piece.offset)
            size[:, k] = np.abs(terms).sum(axis=1) + abs(piece.offset)
    G = np.array([factor.T @ factor for factor in factors])
    lo, hi = (lower - X) * weights, (upper - X) * weights
    return View(
        u, np.square(z).sum(axis=(2, 3)), factors, G, lo, hi, metric, s, c, g + margin * size, size
    )  # fmt: skip


# Where a class is probable enough: F <= 0


def excess(rule: Rule, label: Ints, s: Floats, slopes: bool = True) -> tuple[Floats, Floats, Floats]:
    """Return F(s), its gradient (N, E) and Hessian (N, E, E) in the scores; F <= 0 where it is accepted.

    F = log(sum_j e_ij / kappa). Normalised it is log(sum_j p_j / (kappa p_i)); what has to be the most
    probable class asks for log(p_j / p_i) <= 0 as well, and the largest of these counts.
    """
    slope = rule.slope[label]
    t = np.clip(slope * s + rule.shift[label], -LARGEST, LARGEST)
    N, E, K = *t.shape, len(rule.slope)
    J, rows = K - 1, np.arange(N)
    value, share = _log_sum(t[:, :J])
    value -= rule.log_kappa
    if E == J:
        gradient = share * slope
        if not slopes:
            return value, gradient, np.empty(0)
        return value, gradient, _diagonal(gradient * slope) - gradient[:, :, None] * gradient[:, None]
    own, other = _variables(rule, label)
    T = np.zeros((N, K, K))
    T[rows[:, None], own, other], T[rows[:, None], other, own] = t, -t
    log_p, pi = _log_sum(T)
    log_p = -log_p
    rivals = log_p.copy()
    rivals[rows, label] = -np.inf
    if rule.normalize:
        value, omega = _log_sum(rivals)
        value += -log_p[rows, label] - rule.log_kappa
    else:
        omega = np.zeros((N, K))
    lead = rivals.max(axis=1) - log_p[rows, label]
    ahead = rule.foremost & (lead > value)
    value = np.where(ahead, lead, value)
    omega[ahead] = np.eye(K)[rivals[ahead].argmax(axis=1)]
    if not slopes:
        return value, np.empty(0), np.empty(0)
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


def least_excess(rule: Rule, label: int) -> float:
    """Return what F cannot fall below, as no score of the class exceeds 1."""
    J, E = len(rule.slope) - 1, rule.slope.shape[1]
    if E == J:
        return float(excess(rule, np.array([label]), np.ones((1, E)))[0][0])
    return -np.inf


def _variables(rule: Rule, label: Ints) -> tuple[Ints, Ints]:
    """Return the classes (a, b) whose exponent T_ab each variable is, (N, E)."""
    E, J = rule.slope.shape[1], len(rule.slope) - 1
    own, other = rule.first[label, :E].copy(), rule.second[label, :E].copy()
    other[:, :J] += own[:, :J] - label[:, None]  # of a rival, whichever of the two comes first
    own[:, :J] = label[:, None]
    return own, other


def _log_sum(t: Floats) -> tuple[Floats, Floats]:
    """Return log sum exp(t) over the last axis, and the share of each term."""
    top = t.max(axis=-1, keepdims=True)
    e = np.exp(t - top)
    total = e.sum(axis=-1, keepdims=True)
    return (top + np.log(total))[..., 0], e / total


def _diagonal(rows: Floats) -> Floats:
    """Return diagonal matrices, (N, E, E)."""
    return rows[:, :, None] * np.eye(rows.shape[1])


class Place(NamedTuple):
    """What is known of changes: F, its slope and curvature, and the pairs that decide it."""

    value: Floats  # (N,)
    slope: Floats  # (N, d)
    curvature: Floats  # (N, d, d)
    scores: Floats  # (N, V) of the sides
    sums: Floats  # (N, V) d_own + d_other of the nearest prototypes
    own: Ints  # (N, V) which of `Rule.own` is nearest
    other: Ints  # (N, V)
    weight: Floats  # (N, E) -dF/ds


def place(view: View, rule: Rule, sample: Ints, label: Ints, beta: Floats, curved: bool = False) -> Place:
    """Evaluate changes (N, d) of some samples for some classes."""
    E, point_metric = rule.slope.shape[1], rule.pairs.point_metric
    image = np.matmul(beta[:, None, None], view.G)[:, :, 0]
    squared = np.maximum(np.einsum("nmd,nd->nm", image, beta), 0.0)
    u, rows = view.u[sample], np.arange(len(beta))[:, None]
    distance = view.squares[sample] - 2 * np.einsum("nsd,nd->ns", u, beta) + squared[:, point_metric]
    distance = np.maximum(distance, 0.0)
    mine, theirs = rule.own[label], rule.other[label]
    own = distance[rows[..., None], mine].argmin(axis=2)
    other = distance[rows[..., None], theirs].argmin(axis=2)
    p = np.take_along_axis(mine, own[..., None], 2)[..., 0]
    q = np.take_along_axis(theirs, other[..., None], 2)[..., 0]
    near, far = distance[rows, p], distance[rows, q]
    sums = np.maximum(near + far, 1e-300)
    scores = (far - near) / sums
    value, weight, second = excess(rule, label, scores[:, :E])
    metric = rule.metric[label, :E]
    near, far, total, s = near[:, :E, None], far[:, :E, None], sums[:, :E, None], scores[:, :E, None]
    d_near, d_far = (
        2 * (image[rows, metric] - u[rows, p[:, :E]]),
        2 * (image[rows, metric] - u[rows, q[:, :E]]),
    )
    d_score, d_sum = 2 * (near * d_far - far * d_near) / total**2, d_near + d_far
    slope = np.einsum("ne,ned->nd", weight, d_score)
    curvature = np.empty(0)
    if curved:
        part = weight[..., None] / total
        scale = np.zeros((len(beta), len(view.G)))
        np.add.at(scale, (rows, metric), (4 * part * s)[..., 0])
        cross = np.matmul((part * d_score).transpose(0, 2, 1), d_sum)
        curvature = np.matmul(d_score.transpose(0, 2, 1), np.matmul(second, d_score))
        curvature -= cross + cross.transpose(0, 2, 1) + np.einsum("nm,mde->nde", scale, view.G)
    return Place(value, slope, curvature, scores, sums, own, other, -weight)


# Answers

#: Lengths tried along each feature, relative to the farthest prototype: finer near the sample.
LADDER = np.linspace(0.0, 1.0, 33)[1:] ** 2
#: Relative size below which a change that a solver leaves is taken for zero.
ZERO = 1e-4


def along_features(view: View, rule: Rule, sample: Ints, label: Ints, base: Floats) -> tuple[Floats, Floats]:
    """Change one more feature: by the shortest step on a ladder of lengths that is enough, else the best one.

    Returns
    -------
    value : ndarray of shape (N,)
        F after the step.
    beta : ndarray of shape (N, d)
        The change and the step.
    """
    (N, d), E = base.shape, rule.slope.shape[1]
    value, beta = np.empty(N), base.copy()
    chunk = max(1, 2**19 // (d * len(LADDER) * E * rule.own.shape[2]))
    for first in range(0, N, chunk):
        rows = np.arange(first, min(first + chunk, N))
        start, c, i = base[rows], label[rows], sample[rows]
        metric = rule.metric[c, :E]
        image = np.einsum("nd,nvdf->nvf", start, view.G[metric])[:, :, None]
        square = np.einsum("nvpd,nd->nvp", image, start)
        bend = view.bend[metric].transpose(1, 0, 2)[:, None]  # (E, 1, N, d)
        u, squares = [], []
        for points in (rule.own[c, :E], rule.other[c, :E]):
            towards = view.u[i[:, None, None], points]
            squares.append(
                view.squares[i[:, None, None], points]
                + square
                - 2 * np.einsum("nvpd,nd->nvp", towards, start)
            )
            u.append((towards - image).transpose(1, 2, 0, 3))
        longest = (
            np.maximum(*(np.abs(part).max(axis=1) for part in u)) / np.where(bend > 0, bend, np.inf)[:, 0]
        )
        room = np.stack([view.hi[i] - start, start - view.lo[i]], axis=1)[..., None]
        steps = np.minimum(2 * longest.max(axis=0)[:, None, :, None] * LADDER, room)  # (N, 2, d, ladder)
        signed = steps * np.array([1.0, -1.0])[:, None, None]
        # Prototypes come first: what follows takes the least over few of them.
        near, far = (
            (signed * (signed * bend[:, :, :, None, :, None] - 2 * part[:, :, :, None, :, None])
             + square.transpose(1, 2, 0)[..., None, None, None]).min(axis=1)
            for part, square in zip(u, squares, strict=True)
        )  # fmt: skip
        total = near + far
        s = np.divide(far - near, total, out=np.zeros_like(total), where=total > 0)
        many = np.repeat(c, steps[0].size)
        F = excess(rule, many, s.reshape(E, -1).T, slopes=False)[0].reshape(len(rows), -1)
        F[steps.reshape(len(rows), -1) <= 0] = np.inf
        enough = np.where(F <= 0, steps.reshape(len(rows), -1), np.inf)
        best = np.where(enough.min(axis=1) < np.inf, enough.argmin(axis=1), F.argmin(axis=1))
        value[rows] = F[np.arange(len(rows)), best]
        _, k, _ = np.unravel_index(best, steps.shape[1:])
        beta[rows, k] += signed.reshape(len(rows), -1)[np.arange(len(rows)), best]
    return value, beta


def downhill(view: View, rule: Rule, i: int, label: int, start: Floats) -> Floats | None:
    """Return a change of sample i with F <= 0 that descents find, from a start and prototypes, or None."""
    own = np.unique(rule.own[label, : len(rule.slope) - 1])
    metrics = rule.pairs.point_metric[own]
    ways = [
        np.linalg.lstsq(view.G[m], view.u[i, p], rcond=1e-12)[0] for m, p in zip(metrics, own, strict=True)
    ]
    starts = np.clip([start, np.mean(ways, axis=0), *ways], view.lo[i], view.hi[i])
    one, mine = np.array([i]), np.array([label])

    def F(beta: Floats) -> tuple[float, Floats]:
        at = place(view, rule, one, mine, beta[None])
        return at.value[0], at.slope[0]

    box = np.column_stack([view.lo[i], view.hi[i]])
    for beta in sorted(starts, key=lambda beta: F(beta)[0])[:4]:
        end = minimize(F, beta, jac=True, method="L-BFGS-B", bounds=box, callback=None)
        if end.fun <= 0:
            return np.asarray(end.x)
    return None


def stretched(
    view: View, rule: Rule, sample: Ints, label: Ints, beta: Floats, base: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Return lengths and changes of the points on the way from `base` over beta that just reach F <= 0.

    They are cut at the bounds. A length is infinite where none up to 64 times the way does.
    """
    lo, hi, result, base = view.lo[sample], view.hi[sample], beta.copy(), np.zeros_like(beta) + base
    N = len(beta)
    scale, bad, good, open_ = np.ones(N), np.zeros(N), np.full(N, np.inf), np.arange(N)
    for attempt in range(60):
        if not len(open_):
            break
        at, way = scale[open_], beta[open_] - base[open_]
        point = np.clip(base[open_] + at[:, None] * way, lo[open_], hi[open_])
        now = place(view, rule, sample[open_], label[open_], point)
        inside = (point > lo[open_]) & (point < hi[open_])
        rate = np.where(inside, now.slope * way, 0.0).sum(axis=1)
        met = now.value <= 0
        bad[open_] = np.where(met, bad[open_], np.maximum(bad[open_], at))
        good[open_] = np.where(met, at, good[open_])
        result[open_[met]] = point[met]
        below, above = bad[open_], good[open_]
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = np.where(rate < 0, at - now.value / rate, np.inf)
        found = above < np.inf
        close = (met & (np.abs(ahead - at) <= 1e-14 * at)) | (above - below <= 4e-16 * above)
        ahead *= 1 + 8 * EPS  # from either side to the side where F <= 0
        inner = np.where((below < ahead) & (ahead < above), ahead, 0.5 * (below + np.where(found, above, 0)))
        least = at * (1 + EPS * 4.0 ** min(attempt, 25))  # F is zero up to rounding there
        scale[open_] = np.where(found, inner, np.where(ahead <= 4 * at, np.maximum(ahead, least), 2 * at))
        open_ = open_[~(found & close) & (scale[open_] <= 64)]
    return np.where(good < np.inf, np.abs(result).sum(axis=1), np.inf), result


def newton(view: View, rule: Rule, sample: Ints, label: Ints, start: Floats) -> tuple[Mask, Floats, Floats]:
    """Solve sign_k + mu dF/dbeta_k = 0 over the features that move, and F = 0, all problems in lock-step.

    Returns
    -------
    optimal : ndarray of bool of shape (N,)
        Whether all optimality conditions are met.
    beta : ndarray of shape (N, d)
    mu : ndarray of shape (N,)
        The multiplier of F <= 0.
    """
    N, d = start.shape
    beta, sign, lo, hi = start.copy(), np.sign(start), view.lo[sample], view.hi[sample]
    moving = (beta != 0) & (lo < beta) & (beta < hi)
    mu, fresh, turns = np.zeros(N), np.ones(N, dtype=bool), np.zeros(N)
    optimal, open_ = np.zeros(N, dtype=bool), np.arange(N)
    for _ in range(60):
        open_ = open_[moving[open_].any(axis=1) & (turns[open_] <= 2 * d)]
        if not len(open_):
            break
        b, m, sg, low, high = beta[open_], moving[open_], sign[open_], lo[open_], hi[open_]
        now = place(view, rule, sample[open_], label[open_], b, curved=True)
        slope = np.where(m, now.slope, 0.0)
        squared = (slope**2).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            mu[open_] = np.where(fresh[open_], -(sg * slope).sum(axis=1) / squared, mu[open_])
        good = (mu[open_] > 0) & (mu[open_] < np.inf)
        system = np.zeros((len(open_), d + 1, d + 1))
        both = m[:, :, None] & m[:, None]
        system[:, :d, :d] = np.where(both, mu[open_][:, None, None] * now.curvature, _diagonal(1.0 * ~m))
        system[:, :d, d] = system[:, d, :d] = slope
        right = np.concatenate([np.where(m, -sg, 0.0), -now.value[:, None]], axis=1)
        system[~good] = np.eye(d + 1)
        try:
            step = np.linalg.solve(system, right[..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
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
        settled = whole & (moved <= 1e-7 * length)
        joins = settled & (wants[rows, worst] > 1e-7)
        at_rest = joins & (b[rows, worst] == 0)
        m[rows[joins], worst[joins]] = True
        sg[rows[at_rest], worst[at_rest]] = np.sign(pull[rows, worst])[at_rest]
        done = settled & ~joins & (moved <= 1e-9 * length)
        beta[open_], moving[open_], sign[open_] = b, m, sg
        fresh[open_] = blocked | joins
        turns[open_] += blocked | joins
        optimal[open_] = done
        open_ = open_[good & ~done]
    return optimal, beta, mu


def sparse(beta: Floats) -> Floats:
    """Return the change without what a solver leaves of features that do not change."""
    return np.where(np.abs(beta) <= ZERO * np.abs(beta).sum(axis=-1, keepdims=True), 0.0, beta)
