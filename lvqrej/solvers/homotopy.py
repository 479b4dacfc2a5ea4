"""The l1 projection onto one ball, feature by feature: the LASSO homotopy, in lock-step.

In scaled changes beta_k = w_k delta_k the program is

    min |beta|_1   s.t.   f(beta) = s beta'G beta - 2 c'beta + g <= 0

with G = M'M, M = L diag(1/w), s > 0: basis pursuit denoising. On its path all active features have the same
|correlation| c_k - s (G beta)_k = +-mu, inactive ones less; mu falls until f reaches 0. A feature joins only
with a sign that it may move to. All problems of a batch take their steps together and leave when they are
done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

SOLVED, INFEASIBLE, CUT_OFF, UNRESOLVED = range(4)
#: A column whose part orthogonal to the active ones is smaller than this (squared, relative) is skipped.
_DEPENDENT = 1e-11


class Path(NamedTuple):
    """Where the path ended: status (n,), change (n, d), and the direction of the last segment (n, d)."""

    status: Ints
    beta: Floats
    direction: Floats


def homotopy(
    gram: Floats,
    metric: Ints,
    c: Floats,
    s: Floats,
    g: Floats,
    up: Mask,
    down: Mask,
    cutoff: Floats,
    max_steps: int | None = None,
) -> Path:
    """Follow the path of each problem until f = 0.

    Parameters
    ----------
    gram : ndarray of shape (M, d, d)
    metric : ndarray of shape (n,)
        Which of the Gram matrices each problem has.
    c : ndarray of shape (n, d)
    s : ndarray of shape (n,)
        The curvature, positive.
    g : ndarray of shape (n,)
        The value of f at 0, positive.
    up : ndarray of shape (n, d)
        Which features may increase.
    down : ndarray of shape (n, d)
        Which features may decrease.
    cutoff : ndarray of shape (n,)
        A path whose length |beta|_1, which only grows, exceeds it ends with CUT_OFF.
    max_steps : int, optional
        A path that takes more steps ends with UNRESOLVED (the worst case is exponential).

    Examples
    --------
    The unit ball around (3, 1), from the origin:

    >>> both, one = np.full((1, 2), True), np.ones(1)
    >>> gram, c = np.eye(2)[None], np.array([[3.0, 1.0]])
    >>> homotopy(gram, np.zeros(1, int), c, one, 9 * one, both, both, 9 * one).beta.round(4)
    array([[2.2929, 0.2929]])
    """
    n, d = c.shape
    result = Path(np.full(n, UNRESOLVED), np.zeros((n, d)), np.zeros((n, d)))
    problems = _Problems(gram, metric, c, s, g, up, down, cutoff)
    for _ in range(4 * d + 20 if max_steps is None else max_steps):
        if problems.put(problems.step(), result):
            break
    return result


class _Problems:
    """The problems that are still on their way; row i belongs to problem `index[i]`.

    `active` lists the active features, padded with -1; `sign` is that of their correlation, 0 for others;
    `skipped` features depend on the active ones; `rested` is the one that has just left, with its sign: that
    it could join again at once is no event.
    """

    def __init__(
        self,
        gram: Floats,
        metric: Ints,
        c: Floats,
        s: Floats,
        g: Floats,
        up: Mask,
        down: Mask,
        cutoff: Floats,
    ) -> None:
        n, d = c.shape
        self.gram, self.metric, self.c, self.s, self.f = gram, metric, c.copy(), s, g.copy()
        self.up, self.down, self.cutoff, self.index = up, down, cutoff, np.arange(n)
        self.beta, self.v, self.sign = np.zeros((n, d)), np.zeros((n, d)), np.zeros((n, d))
        self.skipped, self.length = np.zeros((n, d), dtype=bool), np.zeros(n)
        self.rested, self.rested_sign = np.full(n, -1), np.zeros(n)
        # The strongest correlation comes first; a problem without any is at the end of its path.
        strength = np.where(np.where(c > 0, up, down), np.abs(c), 0.0)
        first = strength.argmax(axis=1)
        self.mu = strength[self.index, first]
        self.active = np.where(self.mu > 0, first, -1)[:, None]
        self.sign[self.index, first] = np.where(self.mu > 0, np.sign(c[self.index, first]), 0.0)

    def put(self, status: Ints, result: Path) -> bool:
        """Store where the problems are, let those with a status of at least 0 go; whether all have ended."""
        result.beta[self.index], result.direction[self.index] = self.beta, self.v
        left = status < 0
        if not left.all():
            result.status[self.index[~left]] = status[~left]
            for name, value in vars(self).items() if left.any() else ():
                if name != "gram":
                    setattr(self, name, value[left])
        return not left.any()

    def step(self) -> Ints:
        """Go to the next event of each problem; return the status of those that end, else -1."""
        n = np.arange(len(self.index))
        status, there, active = np.full(len(n), -1), self.active >= 0, np.maximum(self.active, 0)
        # Directions: G_AA v = sign_A, so that all active correlations fall alike.
        signs = np.where(there, self.sign[n[:, None], active], 0.0)
        v = self._solved(n, signs)
        h = (signs * v).sum(axis=1)
        a = np.einsum("npd,np->nd", self.gram[self.metric[:, None], active], v)
        self.v = np.zeros_like(self.beta)
        who, place = np.nonzero(there)
        self.v[who, active[who, place]] = v[who, place]
        join, feature, joined_sign = self._next_join(n, a)
        with np.errstate(divide="ignore", invalid="ignore"):
            # An active feature may return to 0 first.
            back = np.where(v * signs < 0, np.maximum(-self.beta[n[:, None], active] / v, 0.0), np.inf)
            leaver = back.argmin(axis=1)
            leaves = back[n, leaver] < join
            t, end = np.where(leaves, back[n, leaver], join), self.mu / self.s
            # f falls to 0 on this segment if the smaller root of f + t h (s t - 2 mu) comes first.
            discriminant = self.mu**2 * h**2 - self.s * h * self.f
            root = np.maximum(self.f / (self.mu * h + np.sqrt(discriminant)), 0.0)
        arrives = (discriminant >= 0) & (root <= np.minimum(t, end))
        ends = ~arrives & (t >= end)
        t = np.where(arrives, root, np.minimum(t, end))
        self.beta += t[:, None] * self.v
        self.length += t * h
        status[self.length > self.cutoff] = CUT_OFF
        status[arrives], status[ends] = SOLVED, INFEASIBLE
        go = status < 0
        if go.any():
            self.f += t * h * (self.s * t - 2 * self.mu)
            self.mu -= self.s * t
            self.c -= (self.s * t)[:, None] * a
            self.rested = np.full(len(n), -1)
            self._drop(n[go & leaves], leaver)
            self._join(n[go & ~leaves], feature, joined_sign)
        return status

    def _solved(self, rows: Ints, right: Floats) -> Floats:
        """Solve G_AA x = right for some of the problems, padded with zeros."""
        there, active, metric = self.active[rows] >= 0, np.maximum(self.active[rows], 0), self.metric[rows]
        K: Floats = self.gram[metric[:, None, None], active[:, :, None], active[:, None, :]]
        K = np.where(there[:, :, None] & there[:, None, :], K, np.eye(active.shape[1]))
        if K.shape[1] == 1:
            return right / K[:, 0]
        solution: Any = np.linalg.solve(K, right[:, :, None])
        return solution[:, :, 0]

    def _next_join(self, n: Ints, a: Floats) -> tuple[Floats, Ints, Floats]:
        """Return when a feature reaches the correlation mu, which, and with what sign."""
        mu, s, c = self.mu[:, None], self.s[:, None], self.c
        out = (self.sign == 0) & ~self.skipped
        barred = np.where(np.arange(c.shape[1]) == self.rested[:, None], self.rested_sign[:, None], 0.0)
        rises, falls = out & self.up & (barred <= 0) & (a < 1), out & self.down & (barred >= 0) & (a > -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            rise = np.where(rises, np.maximum(mu - c, 0.0) / (s * (1 - a)), np.inf)
            fall = np.where(falls, np.maximum(mu + c, 0.0) / (s * (1 + a)), np.inf)
        first = np.minimum(rise, fall)
        k = first.argmin(axis=1)
        return first[n, k], k, np.where(rise[n, k] <= fall[n, k], 1.0, -1.0)

    def _join(self, rows: Ints, feature: Ints, sign: Floats) -> None:
        """Make features active, or skip them if they depend on the active ones."""
        k, metric, active = feature[rows], self.metric[rows], self.active[rows]
        cross = np.where(active >= 0, self.gram[metric[:, None], k[:, None], np.maximum(active, 0)], 0.0)
        own = self.gram[metric, k, k]
        good = own - (cross * self._solved(rows, cross)).sum(axis=1) > _DEPENDENT * own
        self.skipped[rows[~good], k[~good]] = True
        rows, k = rows[good], k[good]
        count = (self.active >= 0).sum(axis=1)
        if count[rows].max(initial=0) >= self.active.shape[1]:
            self.active = np.hstack([self.active, np.full((len(self.active), 1), -1)])
        self.active[rows, count[rows]], self.sign[rows, k] = k, sign[rows]

    def _drop(self, rows: Ints, place: Ints) -> None:
        """Let the active features at these places rest at 0; what was skipped may join again."""
        feature = self.active[rows, place[rows]]
        self.rested[rows], self.rested_sign[rows] = feature, self.sign[rows, feature]
        self.beta[rows, feature] = self.sign[rows, feature] = 0.0
        last = (self.active[rows] >= 0).sum(axis=1) - 1
        self.active[rows, place[rows]] = self.active[rows, last]
        self.active[rows, last] = -1
        self.skipped[rows] = False
