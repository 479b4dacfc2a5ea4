"""The l1 projection onto an intersection of half-spaces: a dual simplex over tiny bases, in lock-step.

In scaled changes beta_k = w_k delta_k the program and its dual are

    min |beta|_1  s.t.  Q beta >= g,  lo <= beta <= hi        max g'lam - ...  s.t.  lam >= 0,  r = Q'lam

where a feature rests at 0 while |r_k| <= 1, moves while |r_k| = 1, stays at a bound while |r_k| > 1. A
basis is a set of tight rows and as many moving features: one or two of each in practice, so each step
solves systems of that size from scratch (nothing accumulates) and prices the rest once. lam = 0 is
feasible, the dual value only grows, and every step's value is a lower bound: the paper's early stopping for
free. All problems of a batch take their steps together and leave when they are done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.solvers.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Rates below this are rounding.
_PIVOT = 1e-13

#: The rate of a row whose features may not move.
_STUCK = 1e-200


class Vertex(NamedTuple):
    """Where the simplex ended: status (n,), change (n, d) and multipliers of the rows (n, R)."""

    status: Ints
    beta: Floats
    multipliers: Floats


def dual_simplex(
    Q: Floats, rows: Ints, g: Floats, slack: Floats, lo: Floats, hi: Floats, cutoff: Floats
) -> Vertex:
    """Solve min |beta|_1 s.t. Q[rows] beta >= g - slack, lo <= beta <= hi for each problem.

    Parameters
    ----------
    Q : ndarray of shape (N, d)
    rows : ndarray of shape (n, R)
        The half-spaces of each problem; padded with -1.
    g, slack : ndarrays of shape (n, R)
        Right-hand sides and by how much a row may be missed without being taken into the basis.
    lo, hi : ndarrays of shape (n, d)
    cutoff : ndarray of shape (n,)
        A problem whose dual value exceeds it ends with CUT_OFF.

    Returns
    -------
    Vertex
        On INFEASIBLE the multipliers prove a bound beyond the cutoff (a million times the present value if
        there is none).

    Examples
    --------
    >>> free, Q = np.full((1, 2), np.inf), np.array([[2.0, 1.0], [-1.0, 1.0]])
    >>> g = np.array([[2.0, 1.0]])
    >>> vertex = dual_simplex(Q, np.array([[0, 1]]), g, 0 * g, -free, free, np.array([np.inf]))
    >>> vertex.beta.round(4), vertex.multipliers.round(4)
    (array([[0.3333, 1.3333]]), array([[0.6667, 0.3333]]))
    """
    n, d = lo.shape
    result = Vertex(np.full(n, UNRESOLVED), np.zeros((n, d)), np.zeros(rows.shape))
    T = _State(Q, rows, g, slack, lo, hi, cutoff)
    for _ in range(20 + 4 * (d + rows.shape[1])):
        status = T.step()
        if (status >= 0).any():
            T.put(status, result)
        if len(T.index) == 0:
            break
    T.put(np.full(len(T.index), UNRESOLVED), result)
    return result


class _State:
    """The problems that are still on their way; entry i belongs to problem `index[i]`.

    A basis is a list of tight rows (their places in `rows`) and a list of moving features, padded with -1. A
    row of zeros at the end of Q stands for the padding.
    """

    _PER_PROBLEM = (
        "index", "rows", "g", "slack", "rate", "lo", "hi", "cutoff", "tight", "moving", "count", "sign",
        "is_moving", "beta", "lam",
    )  # fmt: skip

    def __init__(
        self, Q: Floats, rows: Ints, g: Floats, slack: Floats, lo: Floats, hi: Floats, cutoff: Floats
    ) -> None:
        n, d = lo.shape
        self.Q = np.vstack([Q, np.zeros(d)])
        self.rows, self.slack, self.lo, self.hi, self.cutoff = rows, slack, lo, hi, cutoff
        self.g = np.where(rows >= 0, g, -np.inf)
        # What turns a violation into a length: the steepest rate over the features that may move.
        if (lo < 0).all() and (hi > 0).all():
            self.rate = np.maximum(np.abs(self.Q).max(axis=1), _STUCK)[rows]
        else:
            of_rows = self.Q[rows]
            of_rows = np.where(of_rows > 0, of_rows * (hi > 0)[:, None], of_rows * (lo < 0)[:, None])
            self.rate = np.maximum(np.abs(of_rows).max(axis=2), _STUCK)
        self.index, self.count = np.arange(n), np.zeros(n, dtype=np.int64)
        self.tight, self.moving = np.full((n, 1), -1), np.full((n, 1), -1)
        self.sign, self.is_moving = np.zeros((n, d)), np.zeros((n, d), dtype=bool)  # sign 0: at rest
        self.beta, self.lam = np.zeros((n, d)), np.zeros(rows.shape)
        # The first pivot is known: the most violated row, by the feature with the steepest rate.
        length = np.where(self.g > slack, self.g / self.rate, 0.0)
        row = length.argmax(axis=1)
        of_row = self.Q[rows[self.index, row]]
        usable = np.where(np.where(of_row > 0, hi > 0, lo < 0), np.abs(of_row), 0.0)
        k = usable.argmax(axis=1)
        begun = np.flatnonzero((length[self.index, row] > 0) & (usable[self.index, k] >= _PIVOT))
        self.tight[begun, 0], self.moving[begun, 0], self.count[begun] = row[begun], k[begun], 1
        self.is_moving[begun, k[begun]], self.sign[begun, k[begun]] = True, np.sign(of_row[begun, k[begun]])

    def put(self, status: Ints, result: Vertex) -> None:
        """Store the problems with a status of at least 0 in the result and let them go."""
        done = status >= 0
        at = self.index[done]
        result.status[at], result.beta[at], result.multipliers[at] = (
            status[done],
            self.beta[done],
            self.lam[done],
        )
        if done.all():
            self.index = self.index[:0]
            return
        for name in self._PER_PROBLEM:
            setattr(self, name, getattr(self, name)[~done])

    def step(self) -> Ints:
        """Do one pivot of each problem; return the status of those that end, else -1."""
        here = np.arange(len(self.index))
        at, there, moving = here[:, None], self.tight >= 0, self.moving
        of_basis = self.Q[np.where(there, self.rows[at, self.tight], -1)]  # (n, p, d)
        K = of_basis[at[:, :, None], np.arange(there.shape[1])[None, :, None], moving[:, None, :]]
        inverse, singular = _inverses(
            np.where(there[:, :, None] & there[:, None, :], K, np.eye(there.shape[1]))
        )
        status = np.where(singular, UNRESOLVED, -1)
        # The vertex: frozen features at their bounds, moving ones such that the tight rows are met.
        frozen = (self.sign != 0) & ~self.is_moving
        stuck = bool(frozen.any())
        beta = (
            np.where(frozen, np.where(self.sign > 0, self.hi, self.lo), 0.0)
            if stuck
            else np.zeros_like(self.beta)
        )
        right = np.where(there, self.g[at, self.tight], 0.0)
        if stuck:
            right -= np.einsum("npd,nd->np", of_basis, beta)
        signs = np.where(there, self.sign[at, moving], 0.0)
        solution = np.where(there, np.einsum("npq,nq->np", inverse, right), 0.0)
        multiplier = np.where(there, np.einsum("npq,np->nq", inverse, signs), 0.0)
        value = np.abs(beta).sum(axis=1) + (signs * solution).sum(axis=1)
        row, place = self._worst(at, there, signs, solution, beta if stuck else None)
        who, b = np.nonzero(there)
        beta[who, moving[who, b]] = solution[who, b]
        self.beta, self.lam = beta, np.zeros_like(self.lam)
        self.lam[who, self.tight[who, b]] = np.maximum(multiplier[who, b], 0.0)
        status[(status < 0) & (value > self.cutoff)] = CUT_OFF
        solved = (row < 0) & (place < 0) & (status < 0)
        if solved.any():  # what is left of a sign is rounding
            low, high = np.where(self.sign > 0, 0.0, self.lo), np.where(self.sign < 0, 0.0, self.hi)
            self.beta = np.where(solved[:, None], np.clip(beta, low, high), beta)
            status[solved] = SOLVED
        go = status < 0
        if not go.any():
            return status
        # Raise the multiplier of the violated row, or let the feature's r_k leave +-1, the other r_B held.
        by_row = row >= 0
        of_row = self.Q[np.where(by_row, self.rows[here, row], -1)]
        leaver = moving[here, place]
        side = self.sign[here, leaver]
        outward = ~by_row & (side * beta[here, leaver] > 0)
        right = np.where(there, -of_row[at, moving], 0.0)
        right[here[~by_row], place[~by_row]] = np.where(outward, side, -side)[~by_row]
        step = np.where(there, np.einsum("npq,np->nq", inverse, right), 0.0)
        r = np.einsum("np,npd->nd", multiplier, of_basis)
        dr = of_row + np.einsum("np,npd->nd", step, of_basis)
        t, leaving, entering, to = self._ratios(here, there, multiplier, step, r, dr)
        other_side = np.where(side > 0, self.lo[here, leaver] < 0, self.hi[here, leaver] > 0)
        flips = go & ~by_row & ~outward & other_side & (t > 2)
        self.sign[here[flips], leaver[flips]] *= -1
        lost = go & ~flips & np.isinf(t)
        if lost.any():
            self._ray(here[lost], row, leaver, outward, value, multiplier, step)
            status[lost] = INFEASIBLE
        self._pivot(here[go & ~flips & ~lost], row, place, leaver, outward, leaving, entering, to)
        return status

    def _worst(
        self, at: Ints, there: NDArray[np.bool_], signs: Floats, solution: Floats, frozen: Floats | None
    ) -> tuple[Ints, Ints]:
        """Return the most violated row of each problem, or the place of the feature farthest off."""
        here, moving = at[:, 0], self.moving
        room = np.where(signs > 0, self.hi[at, moving], -self.lo[at, moving])
        ahead = signs * solution
        far = np.where(there, np.maximum(-ahead, ahead - room), -np.inf)
        far = np.where(far > 1e-14 * np.abs(solution).max(axis=1, keepdims=True), far, 0.0)
        value = self.g - np.einsum("nrp,np->nr", self.Q[self.rows[:, :, None], moving[:, None, :]], solution)
        if frozen is not None:
            value -= np.einsum("nrd,nd->nr", self.Q[self.rows], frozen)
        length = np.where(value > self.slack, value / self.rate, 0.0)
        who, b = np.nonzero(there)
        length[who, self.tight[who, b]] = 0.0
        row, place = length.argmax(axis=1), far.argmax(axis=1)
        longest, farthest = length[here, row], far[here, place]
        return (
            np.where((longest > 0) & (longest > farthest), row, -1),
            np.where((farthest > 0) & (farthest >= longest), place, -1),
        )

    def _ratios(
        self, here: Ints, there: NDArray[np.bool_], multiplier: Floats, step: Floats, r: Floats, dr: Floats
    ) -> tuple[Floats, Ints, Ints, Floats]:
        """Return how far to go, the place of the row that leaves, or the feature that enters, its side."""
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = np.where(there & (step < 0), np.maximum(multiplier, 0.0) / -step, np.inf)
            size, up, rests = np.abs(dr), dr > 0, self.sign == 0
            usable = np.where(rests, np.where(up, self.hi > 0, self.lo < 0), (self.sign > 0) != up)
            ahead = np.where(rests, np.where(up, 1 - r, 1 + r), self.sign * r - 1)
            usable &= ~self.is_moving & (size >= _PIVOT)
            ahead = np.where(usable, np.maximum(ahead, 0.0) / size, np.inf)
        leaving, first = falls.argmin(axis=1), ahead.min(axis=1)
        soonest = falls[here, leaving]
        # Among features that reach +-1 at the same time, the largest pivot.
        entering = np.where(ahead == first[:, None], size, -1.0).argmax(axis=1)
        enters = (first <= soonest) & (first < np.inf)
        old = self.sign[here, entering]
        to = np.where(old == 0, np.where(up[here, entering], 1.0, -1.0), old)
        return (
            np.where(enters, first, soonest),
            np.where(enters, -1, leaving),
            np.where(enters, entering, -1),
            to,
        )

    def _ray(
        self,
        at: Ints,
        row: Ints,
        leaver: Ints,
        outward: NDArray[np.bool_],
        value: Floats,
        multiplier: Floats,
        step: Floats,
    ) -> None:
        """Set multipliers far out on the ray along which the dual grows without bound.

        So far that the bound is beyond doubt, not farther: on the ray alone rounding might eat up the proof.
        """
        for i in at:
            k, j = leaver[i], row[i]
            if j >= 0:
                gain = self.g[i, j] - self.Q[self.rows[i, j]] @ self.beta[i]
                # A row that nothing which may move can meet proves it with any multiplier.
                length = gain / self.rate[i, j] if self.rate[i, j] > _STUCK else 1.0
            else:
                end = self.hi[i, k] if self.sign[i, k] > 0 else -self.lo[i, k]
                gain = length = abs(self.beta[i, k]) - (end if outward[i] else 0.0)
            goal = 2 * self.cutoff[i] if self.cutoff[i] < np.inf else 1e6 * (value[i] + length)
            t, p = max(goal - value[i], 0.0) / gain, self.count[i]
            self.lam[i, self.tight[i, :p]] = np.maximum(multiplier[i, :p] + t * step[i, :p], 0.0)
            if j >= 0:
                self.lam[i, j] = t

    def _pivot(
        self, at: Ints, row: Ints, place: Ints, leaver: Ints, outward: NDArray[np.bool_], leaving: Ints,
        entering: Ints, to: Floats,
    ) -> None:  # fmt: skip
        """Change the bases: a row or a feature comes in, a row or a feature goes."""
        by_row, enters = row[at] >= 0, entering[at] >= 0
        grows = at[by_row & enters]
        if len(grows) and self.count[grows].max() >= self.tight.shape[1]:
            more = np.full((len(self.index), 1), -1)
            self.tight, self.moving = np.hstack([self.tight, more]), np.hstack([self.moving, more])
        # A row comes in, with a feature (the basis grows) or in the place of a row.
        self.tight[grows, self.count[grows]], self.moving[grows, self.count[grows]] = (
            row[grows],
            entering[grows],
        )
        self.count[grows] += 1
        if len(grows) < len(at):
            swaps = at[by_row & ~enters]
            self.tight[swaps, leaving[swaps]] = row[swaps]
            # A feature goes to rest or freezes; another one takes its place, or a row goes with it.
            off = at[~by_row]
            self.is_moving[off, leaver[off]] = False
            inward = off[~outward[off]]
            self.sign[inward, leaver[inward]] = 0.0
            replaced = at[~by_row & enters]
            self.moving[replaced, place[replaced]] = entering[replaced]
            shrinks = at[~by_row & ~enters]
            last = self.count[shrinks] - 1
            self.moving[shrinks, place[shrinks]] = self.moving[shrinks, last]
            self.tight[shrinks, leaving[shrinks]] = self.tight[shrinks, last]
            self.moving[shrinks, last] = self.tight[shrinks, last] = -1
            self.count[shrinks] = last
        come = at[enters]
        self.is_moving[come, entering[come]], self.sign[come, entering[come]] = True, to[come]


def _inverses(K: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the inverses of a stack of matrices, and which of them have none."""
    if K.shape[1] == 1:
        singular = K[:, 0, 0] == 0
        return 1 / np.where(singular[:, None, None], 1.0, K), singular
    singular = np.linalg.det(K) == 0  # one of them would end the inversion of all
    return np.linalg.inv(np.where(singular[:, None, None], np.eye(K.shape[1]), K)), singular
