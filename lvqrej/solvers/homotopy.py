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
    """Where the path ended: status (n,) and change (n, d)."""

    status: Ints
    beta: Floats


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

    `gram` (M, d, d) and which of them each problem has, `metric` (n,); c (n, d), the curvature s (n,) and the
    value g (n,) of f at 0; which features may go `up` and `down` (n, d). A path whose length |beta|_1, which
    only grows, exceeds the `cutoff` (n,) ends with CUT_OFF, one of more than `max_steps` with UNRESOLVED (the
    worst case is exponential).

    Examples
    --------
    The unit ball around (3, 1), from the origin:

    >>> both, one = np.full((1, 2), True), np.ones(1)
    >>> gram, c = np.eye(2)[None], np.array([[3.0, 1.0]])
    >>> homotopy(gram, np.zeros(1, int), c, one, 9 * one, both, both, 9 * one).beta.round(4)
    array([[2.2929, 0.2929]])
    """
    n, d = c.shape
    result = Path(np.full(n, UNRESOLVED), np.zeros((n, d)))
    problems = _Problems(gram, metric, c, s, g, up, down, cutoff)
    for _ in range(4 * d + 20 if max_steps is None else max_steps):
        if problems.put(problems.step(), result):
            break
    return result


class _Problems:
    """The problems that are still on their way; row i belongs to problem `index[i]`.

    `sign` is that of the correlation of active features, 0 for others; `skipped` ones depend on active ones.
    """

    def __init__(
        self, gram: Floats, metric: Ints, c: Floats, s: Floats, g: Floats, up: Mask, down: Mask,
        cutoff: Floats,
    ) -> None:  # fmt: skip
        n, d = c.shape
        self.gram, self.metric, self.c, self.s, self.f = gram, metric, c.copy(), s, g.copy()
        self.up, self.down, self.cutoff, self.index = up, down, cutoff, np.arange(n)
        self.beta, self.sign = np.zeros((2, n, d))
        self.skipped, self.length = np.zeros((n, d), dtype=bool), np.zeros(n)
        # The strongest correlation comes first; a problem without any is at the end of its path.
        strength = np.where(np.where(c > 0, up, down), np.abs(c), 0.0)
        first = strength.argmax(axis=1)
        self.mu = strength[self.index, first]
        self.sign[self.index, first] = np.where(self.mu > 0, np.sign(c[self.index, first]), 0.0)

    def put(self, status: Ints, result: Path) -> bool:
        """Store where the problems are, let those with a status of at least 0 go; whether all have ended."""
        result.beta[self.index] = self.beta
        left = status < 0
        if not left.all():
            result.status[self.index[~left]] = status[~left]
            for name, value in vars(self).items() if left.any() else ():
                if name != "gram":
                    setattr(self, name, value[left])
        return not left.any()

    def step(self) -> Ints:
        """Go to the next event of each problem; return the status of those that end, else -1."""
        n, status = np.arange(len(self.index)), np.full(len(self.index), -1)
        # Directions: G_AA v = sign_A, so that all active correlations fall alike.
        most = max(1, int(np.count_nonzero(self.sign, axis=1).max()))
        active = np.argsort(self.sign == 0, axis=1, kind="stable")[:, :most]
        signs = self.sign[n[:, None], active]
        v = self._solved(n, active, signs)
        h = (signs * v).sum(axis=1)
        a = np.einsum("npd,np->nd", self.gram[self.metric[:, None], active], v)
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
        self.beta[n[:, None], active] += t[:, None] * v
        self.length += t * h
        status[self.length > self.cutoff] = CUT_OFF
        status[arrives], status[ends] = SOLVED, INFEASIBLE
        go = status < 0
        if go.any():
            self.f += t * h * (self.s * t - 2 * self.mu)
            self.mu -= self.s * t
            self.c -= (self.s * t)[:, None] * a
            # One leaves, and what was skipped may join again ...
            out = n[go & leaves]
            left = active[out, leaver[out]]
            self.beta[out, left] = self.sign[out, left] = 0.0
            self.skipped[out] = False
            # ... or one joins, unless it depends on the active ones.
            come = n[go & ~leaves]
            k, metric = feature[come], self.metric[come]
            cross = self.gram[metric[:, None], k[:, None], active[come]] * (signs[come] != 0)
            own = self.gram[metric, k, k]
            rest = own - (cross * self._solved(come, active[come], cross)).sum(axis=1)
            good = rest > _DEPENDENT * own
            self.skipped[come, k] = ~good
            self.sign[come[good], k[good]] = joined_sign[come[good]]
        return status

    def _solved(self, rows: Ints, active: Ints, right: Floats) -> Floats:
        """Solve G_AA x = right for some of the problems, padded with zeros."""
        there = self.sign[rows[:, None], active] != 0
        K: Floats = self.gram[self.metric[rows, None, None], active[:, :, None], active[:, None, :]]
        K = np.where(there[:, :, None] & there[:, None, :], K, np.eye(active.shape[1]))
        if K.shape[1] == 1:
            return right / K[:, 0]
        solution: Any = np.linalg.solve(K, right[:, :, None])
        return solution[:, :, 0]

    def _next_join(self, n: Ints, a: Floats) -> tuple[Floats, Ints, Floats]:
        """Return when a feature reaches the correlation mu, which, and with what sign."""
        mu, s, c = self.mu[:, None], self.s[:, None], self.c
        out = (self.sign == 0) & ~self.skipped
        with np.errstate(divide="ignore", invalid="ignore"):
            rise = np.where(out & self.up & (a < 1), np.maximum(mu - c, 0.0) / (s * (1 - a)), np.inf)
            fall = np.where(out & self.down & (a > -1), np.maximum(mu + c, 0.0) / (s * (1 + a)), np.inf)
        first = np.minimum(rise, fall)
        k = first.argmin(axis=1)
        return first[n, k], k, np.where(rise[n, k] <= fall[n, k], 1.0, -1.0)
