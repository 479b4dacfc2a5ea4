"""The l1 projection onto one ball, feature by feature: the LASSO homotopy with bounds, in lock-step.

In scaled changes beta_k = w_k delta_k the program is

    min |beta|_1   s.t.   f(beta) = s beta'G beta - 2 c'beta + g <= 0,   lo <= beta <= hi,   lo <= 0 <= hi

with G = M'M, M = L diag(1/w), s > 0: basis pursuit denoising. On its path all active features have the same
|correlation| c_k - s (G beta)_k = +-mu, inactive ones less; mu falls until f reaches 0. A feature that
reaches its bound freezes there and is released when its correlation asks for it; a fixed feature never
joins, a one-way feature joins with one sign only. All problems of a batch take their steps together and
leave when they are done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SOLVED, INFEASIBLE, CUT_OFF, UNRESOLVED = range(4)
_OUT, _ACTIVE, _FROZEN, _SKIPPED = range(4)
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
    lo: Floats,
    hi: Floats,
    cutoff: Floats,
    max_steps: int | None = None,
) -> Path:
    """Follow the path of each problem until f = 0.

    Parameters
    ----------
    gram : ndarray of shape (M, d, d)
    metric : ndarray of shape (n,)
        Which of the Gram matrices each problem has.
    c, lo, hi : ndarrays of shape (n, d)
    s : ndarray of shape (n,)
        The curvature, positive.
    g : ndarray of shape (n,)
        The value of f at 0, positive.
    cutoff : ndarray of shape (n,)
        A path whose length |beta|_1, which only grows, exceeds it ends with CUT_OFF.
    max_steps : int, optional
        A path that takes more steps ends with UNRESOLVED (the worst case is exponential).

    Examples
    --------
    The unit ball around (3, 1), from the origin:

    >>> free, one = np.full((1, 2), np.inf), np.ones(1)
    >>> gram, c = np.eye(2)[None], np.array([[3.0, 1.0]])
    >>> path = homotopy(gram, np.zeros(1, int), c, one, 9 * one, -free, free, 9 * one)
    >>> path.beta.round(4)
    array([[2.2929, 0.2929]])
    """
    n, d = c.shape
    result = Path(np.full(n, UNRESOLVED), np.zeros((n, d)), np.zeros((n, d)))
    T = _State(gram, metric, c.copy(), s, g.copy(), lo, hi, cutoff)
    for _ in range(4 * d + 20 if max_steps is None else max_steps):
        ended = T.step()
        if ended is not None:
            T.put(ended, result)
        if len(T.rows) == 0:
            break
    T.put(np.full(len(T.rows), UNRESOLVED), result)
    return result


class _State:
    """The problems that are still on their way; row i belongs to problem `rows[i]`."""

    def __init__(
        self,
        gram: Floats,
        metric: Ints,
        c: Floats,
        s: Floats,
        f: Floats,
        lo: Floats,
        hi: Floats,
        cutoff: Floats,
    ) -> None:
        n, d = c.shape
        self.gram, self.metric, self.c, self.s, self.f = gram, metric, c, s, f
        self.lo, self.hi, self.cutoff = lo, hi, cutoff
        self.bounded = bool(np.isfinite(lo).any() or np.isfinite(hi).any())
        self.rows = np.arange(n)
        self.beta, self.v = np.zeros((n, d)), np.zeros((n, d))
        self.sign = np.zeros((n, d))
        self.state = np.zeros((n, d), dtype=np.int8)
        self.active = np.full((n, 1), -1)  # features in the order they joined, padded with -1
        self.count = np.zeros(n, dtype=np.int64)
        self.mu, self.length = np.zeros(n), np.zeros(n)
        self.rested = np.full(n, -1)  # what just left the active set: its event at t = 0 is no event
        self.rested_sign = np.zeros(n)

    _PER_ROW = (
        "metric", "c", "s", "f", "lo", "hi", "cutoff", "rows", "beta", "v", "sign", "state", "active",
        "count", "mu", "length", "rested", "rested_sign",
    )  # fmt: skip

    def put(self, status: Ints, result: Path) -> None:
        """Store the problems with a status of at least 0 in the result and let them go."""
        done = status >= 0
        rows = self.rows[done]
        result.status[rows], result.beta[rows], result.direction[rows] = (
            status[done],
            self.beta[done],
            self.v[done],
        )
        for name in self._PER_ROW:
            setattr(self, name, getattr(self, name)[~done])

    def step(self) -> Ints | None:
        """Go to the next event of each problem; return the status of those that end (else -1), or None."""
        n, index = len(self.rows), np.arange(len(self.rows))
        status = np.full(n, -1)
        if not self.count.all():
            status[~self._started()] = INFEASIBLE
        # Directions: G_AA v = sign_A, so that all active correlations fall alike.
        active, there = self.active, self.active >= 0
        signs = np.where(there, np.take_along_axis(self.sign, np.maximum(active, 0), 1), 0.0)
        v = self._solved(active, there, signs)
        h = (signs * v).sum(axis=1)
        columns = self.gram[self.metric[:, None], np.maximum(active, 0)]  # (n, p, d); v is 0 at the padding
        a = np.einsum("npd,np->nd", columns, v)
        t, kind, which = self._next_event(a, v, signs, active, there)
        # f falls to 0 on this segment if the smaller root of f + t h (s t - 2 mu) comes first.
        discriminant = self.mu**2 * h**2 - self.s * h * self.f
        with np.errstate(invalid="ignore", divide="ignore"):
            root = self.f / (self.mu * h + np.sqrt(discriminant))
        arrives = (discriminant >= 0) & (root <= t) & (status < 0)
        t = np.where(arrives, root, t)
        self.v = np.zeros_like(self.beta)
        flat = np.flatnonzero(there)
        self.v[flat // active.shape[1], active.ravel()[flat]] = v.ravel()[flat]
        stays = status >= 0
        t[stays] = 0.0
        self.beta += np.where(np.isfinite(t), t, 0.0)[:, None] * self.v
        status[arrives] = SOLVED
        status[(kind < 0) & (status < 0)] = INFEASIBLE
        self.length += np.where(status < 0, t * h, 0.0)
        status[(status < 0) & (self.length > self.cutoff)] = CUT_OFF
        go = status < 0
        if go.any():
            t = np.where(go, t, 0.0)
            self.f += t * h * (self.s * t - 2 * self.mu)
            self.mu -= self.s * t
            self.c -= (self.s * t)[:, None] * a
            self.rested = np.full(n, -1)
            leaving = go & (kind == _ACTIVE)
            if leaving.any():
                self._drop(index[leaving], which[leaving])
            joining = go & ((kind == _OUT) | (kind == _FROZEN))
            if joining.any():
                refused = ~self._join(index[joining], which[joining])
                rows, features, kinds = (
                    index[joining][refused],
                    which[joining][refused],
                    kind[joining][refused],
                )
                self.state[rows, features] = _SKIPPED  # it depends on the active ones
                status[rows[kinds == _FROZEN]] = UNRESOLVED
        return status if (status >= 0).any() else None

    def _started(self) -> NDArray[np.bool_]:
        """Begin problems without an active feature with the strongest correlation; False if there is none."""
        alive = np.ones(len(self.rows), dtype=bool)
        while True:
            rows = np.flatnonzero((self.count == 0) & alive)
            if len(rows) == 0:
                return alive
            c = self.c[rows]
            usable = (
                np.where(c > 0, self.hi[rows] > 0, self.lo[rows] < 0) & (self.state[rows] == _OUT) & (c != 0)
            )
            strength = np.where(usable, np.abs(c), 0.0)
            k = strength.argmax(axis=1)
            some = strength[np.arange(len(rows)), k] > 0
            alive[rows[~some]] = False
            rows, k = rows[some], k[some]
            chosen = self.c[rows, k]
            self.mu[rows], self.sign[rows, k] = np.abs(chosen), np.sign(chosen)
            good = self._join(rows, k)
            self.state[rows[~good], k[~good]] = _SKIPPED

    def _solved(self, active: Ints, there: NDArray[np.bool_], right: Floats) -> Floats:
        """Solve G_AA x = right for each problem, padded."""
        p = active.shape[1]
        safe = np.maximum(active, 0)
        if p == 1:
            diagonal = self.gram[self.metric, safe[:, 0], safe[:, 0]]
            return np.where(there, right / np.where(diagonal > 0, diagonal, 1.0)[:, None], 0.0)
        K: Floats = self.gram[self.metric[:, None, None], safe[:, :, None], safe[:, None, :]]
        K = np.where(there[:, :, None] & there[:, None, :], K, np.eye(p))
        solution: Any = np.linalg.solve(K, right[:, :, None])
        return solution[:, :, 0]

    def _next_event(
        self, a: Floats, v: Floats, signs: Floats, active: Ints, there: NDArray[np.bool_]
    ) -> tuple[Floats, Ints, Ints]:
        """Return when each problem's next event is, its kind (-1: the end of the path) and the feature."""
        mu, s, c = self.mu[:, None], self.s[:, None], self.c
        n, index = len(c), np.arange(len(c))
        out = self.state == _OUT
        barred = np.where(np.arange(c.shape[1]) == self.rested[:, None], self.rested_sign[:, None], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(
                out & (barred <= 0) & (self.hi > 0) & (a < 1), np.maximum(mu - c, 0.0) / (s * (1 - a)), np.inf
            )
            down = np.where(
                out & (barred >= 0) & (self.lo < 0) & (a > -1),
                np.maximum(mu + c, 0.0) / (s * (1 + a)),
                np.inf,
            )
            join = np.minimum(up, down)
            k = join.argmin(axis=1)
            best, kind = join[index, k], np.full(n, _OUT)
            joined_sign = np.where(up[index, k] <= down[index, k], 1.0, -1.0)
            end = self.mu / self.s
            kind[~(best < end)], best = -1, np.minimum(best, end)
            if self.bounded:
                frozen = (self.state == _FROZEN) & (np.arange(c.shape[1]) != self.rested[:, None])
                ahead = self.sign * a - 1
                back = np.where(
                    frozen & (ahead > 0), np.maximum(self.sign * c - mu, 0.0) / (s * ahead), np.inf
                )
                j = back.argmin(axis=1)
                sooner = back[index, j] < best
                best, k, kind = (
                    np.where(sooner, back[index, j], best), np.where(sooner, j, k), np.where(sooner,
                    _FROZEN, kind)
                )  # fmt: skip
            # An active feature returns to 0, or arrives at its bound.
            safe = np.maximum(active, 0)
            at = np.take_along_axis(self.beta, safe, 1)
            outward = v * signs
            leave = np.where(there & (outward < 0), np.maximum(-at / v, 0.0), np.inf)
            if self.bounded:
                end_of = np.where(
                    signs > 0, np.take_along_axis(self.hi, safe, 1), np.take_along_axis(self.lo, safe, 1)
                )
                arrive = np.where(there & (outward > 0), np.maximum((end_of - at) / v, 0.0), np.inf)
                leave = np.minimum(leave, arrive)
            j = leave.argmin(axis=1)
            sooner = leave[index, j] < best
            best, kind = np.where(sooner, leave[index, j], best), np.where(sooner, _ACTIVE, kind)
            k = np.where(sooner, j, k)
        joins = kind == _OUT
        self.sign[index[joins], k[joins]] = joined_sign[joins]
        return best, kind, k

    def _join(self, rows: Ints, features: Ints) -> NDArray[np.bool_]:
        """Make features active unless they depend on the active ones; return which could."""
        gram, metric, width = self.gram, self.metric[rows], self.active.shape[1]
        own = gram[metric, features, features]
        pivot, there = own.copy(), self.active[rows] >= 0
        some = np.flatnonzero(self.count[rows] > 0)
        if len(some):
            active = np.maximum(self.active[rows[some]], 0)
            right = np.where(there[some], gram[metric[some][:, None], features[some][:, None], active], 0.0)
            K = gram[metric[some][:, None, None], active[:, :, None], active[:, None, :]]
            K = np.where(there[some][:, :, None] & there[some][:, None, :], K, np.eye(width))
            pivot[some] -= (right * np.linalg.solve(K, right[:, :, None])[:, :, 0]).sum(axis=1)
        good = pivot > _DEPENDENT * own
        rows, features = rows[good], features[good]
        if len(rows) and self.count[rows].max() >= width:
            self.active = np.hstack([self.active, np.full((len(self.active), 1), -1)])
        self.active[rows, self.count[rows]] = features
        self.count[rows] += 1
        self.state[rows, features] = _ACTIVE
        return good

    def _drop(self, rows: Ints, places: Ints) -> None:
        """Let the active features at these places rest at 0 or freeze at their bounds."""
        features = self.active[rows, places]
        sign = self.sign[rows, features]
        frozen = self.v[rows, features] * sign > 0
        ends = np.where(sign > 0, self.hi[rows, features], self.lo[rows, features])
        self.beta[rows, features] = np.where(frozen, ends, 0.0)
        self.state[rows, features] = np.where(frozen, _FROZEN, _OUT)
        self.rested[rows], self.rested_sign[rows] = features, sign
        last = self.count[rows] - 1
        self.active[rows, places] = self.active[rows, last]
        self.active[rows, last] = -1
        self.count[rows] = last
        skipped = self.state[rows] == _SKIPPED
        self.state[rows] = np.where(skipped, _OUT, self.state[rows])
