"""The l1 projection onto an intersection of half-spaces: a dual simplex on small tableaus, in lock-step.

In scaled changes beta_k = w_k delta_k the program is

    min |beta|_1   s.t.  y = Q beta - g >= 0,  lo <= beta <= hi

Each variable has a convex, piecewise linear cost: |beta_k| within its bounds, 0 for y_i >= 0. At rest it
stands at a kink (0 or a bound), and the cost of moving either way is at least 0; the others, one per row of
the tableau, are expressed by those at rest. A pivot brings the one farthest off its piece back to the kink
and lets the cheapest one move instead. The cost only grows, and what the rows at rest charge are multipliers
that prove it as a lower bound: the paper's early stopping for free. All problems of a batch take their steps
together and leave when they are done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.solvers.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: Entries of the tableau below this are rounding: its rows are scaled to 1.
_PIVOT = 1e-12
# What is known of each variable; the last three of one that moves, and of one at rest.
_NUMBER, _LOWEST, _HIGHEST, _LOW, _HIGH, _SLOPE = range(6)
_LEFT, _RIGHT, _AT = _LOW, _HIGH, _SLOPE


class Vertex(NamedTuple):
    """Where the simplex ended: status (n,), change (n, d) and multipliers of the rows (n, R)."""

    status: Ints
    beta: Floats
    multipliers: Floats


def dual_simplex(
    Q: Floats, rows: Ints, g: Floats, slack: Floats, lo: Floats, hi: Floats, cutoff: Floats
) -> Vertex:
    """Solve min |beta|_1 s.t. Q[rows] beta >= g - slack, lo <= beta <= hi for each problem.

    Q (N, d) has the normals of all half-spaces, `rows` (n, R) which of them each problem has, padded with -1;
    g and slack are (n, R), lo <= 0 <= hi are (n, d). A problem whose cost exceeds the `cutoff` (n,) ends with
    CUT_OFF. On INFEASIBLE the multipliers prove a bound beyond the cutoff (a million times the present cost
    if there is none).

    Examples
    --------
    >>> free, Q = np.full((1, 2), np.inf), np.array([[2.0, 1.0], [-1.0, 1.0]])
    >>> g = np.array([[2.0, 1.0]])
    >>> vertex = dual_simplex(Q, np.array([[0, 1]]), g, 0 * g, -free, free, np.array([np.inf]))
    >>> vertex.beta.round(4), vertex.multipliers.round(4)
    (array([[0.3333, 1.3333]]), array([[0.6667, 0.3333]]))
    """
    (n, d), R, here, there = lo.shape, rows.shape[1], np.arange(len(rows)), rows >= 0
    status, beta, multipliers = np.full(n, UNRESOLVED), np.zeros((n, d)), np.zeros((n, R))
    size = np.abs(Q)
    steepest, rate = size.argmax(axis=1), size.max(axis=1)
    rate = np.where(rate > 0, rate, 1.0)[rows]  # in these units a violation is about the length it asks for
    g = np.where(there, g, -np.inf)
    # Often the most violated row alone, met by the feature that counts most in it, is all that is asked for.
    i = (g / rate).argmax(axis=1)
    j = rows[here, i]
    k = steepest[j]
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.maximum(g[here, i], 0.0) / Q[j, k]
        met = Q[rows, k[:, None]] * change[:, None] >= g - slack
        met[here, i] = (lo[here, k] <= change) & (change <= hi[here, k]) & (Q[j, k] != 0)
        done = met.all(axis=1)
        at, left = done.nonzero()[0], (~done).nonzero()[0]
        status[at] = np.where(np.abs(change[at]) > cutoff[at], CUT_OFF, SOLVED)
        beta[at, k[at]], multipliers[at, i[at]] = change[at], 1 / rate[at, i[at]]
        if len(left):
            T = np.zeros((len(left), R + 1, d + 1))
            scale = rate[left]
            T[:, :R, :d], T[:, :R, d] = Q[rows[left]] / scale[:, :, None], -g[left] / scale
            T[:, :R][~there[left]] = 0.0  # padding always holds
            tableaus = _Tableaus(T, slack[left] / scale, lo[left], hi[left], cutoff[left])
            for _ in range(20 + 4 * (d + R)):
                if tableaus.step():
                    break
            status[left], beta[left], multipliers[left] = tableaus.result()
            multipliers[left] /= scale
    return Vertex(status, beta, multipliers)


class _Tableaus:
    """The problems that are still on their way; entry i belongs to problem `index[i]`.

    A tableau (R + 1, d + 1) has a row for each variable that moves and a column for each at rest: how much
    the one changes with the other. Its last column are values, its last row costs. Each variable has a number
    (features first, then rows) and bounds; one that moves a piece of its cost, from `low` to `high` with a
    `slope`; one at rest stands `at` a kink with the slopes `left` and `right`, not yet among the costs.
    """

    def __init__(self, T: Floats, slack: Floats, lo: Floats, hi: Floats, cutoff: Floats) -> None:
        (n, d), R = lo.shape, slack.shape[1]
        self.T, self.cutoff, self.index, self.status = T, cutoff, np.arange(n), np.full(n, -1)
        self.ended: list[tuple[NDArray[Any], ...]] = []
        self.slack = slack + 1e-14 * np.maximum(-T[:, :-1, -1:].min(axis=1), 0.0)
        self.moving, self.resting = np.zeros((n, 6, R)), np.zeros((n, 6, d))
        self.moving[:, _NUMBER], self.moving[:, _HIGHEST], self.moving[:, _HIGH] = (
            d + np.arange(R),
            np.inf,
            np.inf,
        )
        self.resting[:, _NUMBER], self.resting[:, _LOWEST], self.resting[:, _HIGHEST] = np.arange(d), lo, hi
        self.resting[:, _LEFT] = np.where(lo < 0, -1.0, -np.inf)
        self.resting[:, _RIGHT] = np.where(hi > 0, 1.0, np.inf)

    def step(self) -> bool:
        """Do one pivot of each problem; let go those that end, and return whether all have."""
        values, here = self.T[:, :-1, -1], np.arange(len(self.index))
        missed = np.maximum(self.moving[:, _LOW] - values, values - self.moving[:, _HIGH]) - self.slack
        i = missed.argmax(axis=1)
        self.status[missed[here, i] <= 0] = SOLVED
        self.status[self.T[:, -1, -1] > self.cutoff] = CUT_OFF
        if self.status.max() >= 0:
            i = i[self._let_go(self.status >= 0)]
            if len(i) == 0:
                return True
            here = here[: len(i)]
        T = self.T
        # The variable of row i has to go up or down to the end of its piece. Which one moves it for least?
        row, leaver = T[here, i], self.moving[here, :, i]
        _, lowest, highest, low, high, slope = leaver.T
        up = row[:, -1] < low
        entries = row[:, :-1]
        rises, size = (entries > 0) == up[:, None], np.abs(entries)
        cost = np.abs(np.where(rises, self.resting[:, _RIGHT], self.resting[:, _LEFT]) + T[:, -1, :-1])
        price = np.where(size > _PIVOT, cost / size, np.inf)
        k = price.argmin(axis=1)
        cheapest = price[here, k]
        # A feature may also go on beyond 0, and what nothing can move ends with the proof of that.
        beyond = np.where(up, (slope > 0) & (lowest < 0), (slope < 0) & (highest > 0))
        (stays,) = np.nonzero((cheapest > 2) & (beyond | np.isinf(cheapest)))
        if len(stays):
            self._stay(stays[beyond[stays]], i, up)
            self._prove(stays[~beyond[stays]], i, up)
            kept = T[stays], self.moving[stays], self.resting[stays]
        # Exchange the variables of row i and column k.
        joiner = self.resting[here, :, k]
        kink, taken = np.where(up, low, high), np.where(rises[here, k], joiner[:, _RIGHT], joiner[:, _LEFT])
        column, pivot = T[here, :, k], row[here, k][:, None]
        row[:, -1] -= kink
        row /= pivot
        column[:, -1] += taken
        T -= column[:, :, None] * row[:, None]
        column /= pivot
        column[:, -1] -= slope
        row[:, -1] -= joiner[:, _AT]
        T[here, i], T[here, :, k], T[here, i, k] = -row, column, 1 / pivot[:, 0]
        leaver[:, _LEFT] = np.where(up, np.where(beyond, -1.0, -np.inf), slope)
        leaver[:, _RIGHT] = np.where(up, slope, np.where(beyond, 1.0, np.inf))
        leaver[:, _AT] = kink
        joiner[:, _LOW] = np.where(taken > 0, 0.0, joiner[:, _LOWEST])
        joiner[:, _HIGH] = np.where(taken < 0, 0.0, joiner[:, _HIGHEST])
        joiner[:, _SLOPE] = taken
        self.moving[here, :, i], self.resting[here, :, k] = joiner, leaver
        if len(stays):
            T[stays], self.moving[stays], self.resting[stays] = kept
        return False

    def _stay(self, at: Ints, i: Ints, up: Mask) -> None:
        """Let features go on to their pieces on the other side of 0."""
        i, up = i[at], up[at]
        _, lowest, highest, _, _, slope = self.moving[at, :, i].T
        self.T[at, -1] -= 2 * slope[:, None] * self.T[at, i]
        piece = np.where(up, lowest, 0.0), np.where(up, 0.0, highest), -slope
        self.moving[at, _LOW:, i] = np.transpose(piece)

    def _prove(self, at: Ints, i: Ints, up: Mask) -> None:
        """End with costs far out on the ray along which they grow without bound.

        So far that the bound is beyond doubt, not farther: on the ray alone rounding might eat up the proof.
        """
        i, row, cost, cutoff = i[at], self.T[at, i[at]], self.T[at, -1, -1], self.cutoff[at]
        missed = np.where(up[at], self.moving[at, _LOW, i], self.moving[at, _HIGH, i]) - row[:, -1]
        goal = np.where(cutoff < np.inf, 2 * cutoff, 1e6 * (cost + np.abs(missed)))
        t = np.maximum(goal - cost, 0.0) / missed
        self.T[at, -1, :-1] -= t[:, None] * row[:, :-1]
        self.moving[at, _SLOPE, i] -= t
        self.status[at] = INFEASIBLE

    def _let_go(self, ended: Mask) -> Mask:
        """Keep aside the problems that have ended; return which ones go on."""
        left = ~ended
        self.ended.append((self.index[ended], self.status[ended], self.T[ended]))
        self.ended[-1] += (self.moving[ended], self.resting[ended])
        self.index, self.status, self.T = self.index[left], self.status[left], self.T[left]
        self.moving, self.resting = self.moving[left], self.resting[left]
        self.slack, self.cutoff = self.slack[left], self.cutoff[left]
        return left

    def result(self) -> Vertex:
        """Return where the problems have ended; those that have not are unresolved."""
        self.status[:] = UNRESOLVED
        self._let_go(self.status >= 0)
        index, status, T, moving, resting = (np.concatenate(part) for part in zip(*self.ended, strict=True))
        at, number = index[:, None], np.hstack([moving[:, _NUMBER], resting[:, _NUMBER]]).astype(np.int64)
        values = np.minimum(np.maximum(T[:, :-1, -1], moving[:, _LOW]), moving[:, _HIGH])
        table = np.zeros((2, *number.shape))
        table[0, at, number] = np.hstack([values, resting[:, _AT]])
        table[1, at, number] = np.hstack([-moving[:, _SLOPE], T[:, -1, :-1]])
        d = resting.shape[2]
        return Vertex(status[np.argsort(index)], table[0, :, :d], np.maximum(table[1, :, d:], 0.0))
