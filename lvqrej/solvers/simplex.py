"""The l1 projection onto an intersection of half-spaces: a dual simplex over tiny bases, in lock-step.

In scaled changes beta_k = w_k delta_k the program and its dual are

    min |beta|_1   s.t.  Q beta >= g              max g'lam   s.t.  lam >= 0,  -1 <= r_k <= 1,  r = Q'lam

where bounds of features are further rows, and r_k has no limit on a side to which feature k may not move. A
feature moves only where r_k is at a limit. A basis is a set of tight rows and as many moving features: one
or two of each in practice, so each step solves systems of that size from scratch (nothing accumulates) and
prices the rest once. lam = 0 is feasible, the dual value only grows, and every step's value is a lower
bound: the paper's early stopping for free. All problems of a batch take their steps together and leave when
they are done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.solvers.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

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
        With lo <= 0 <= hi.
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
    R = rows.shape[1]
    g = np.where(rows >= 0, g, -np.inf)
    if np.isfinite(lo).any() or np.isfinite(hi).any():
        lowest, highest = (np.where((end != 0) & np.isfinite(end), end, np.inf) for end in (lo, hi))
        eye = np.eye(d)
        ends = np.broadcast_to(len(Q) + np.arange(2 * d), (n, 2 * d))
        Q, rows = np.vstack([Q, eye, -eye]), np.hstack([rows, ends])
        g = np.hstack([g, np.where(lowest < np.inf, lowest, -np.inf), -highest])
        slack = np.hstack([slack, np.zeros((n, 2 * d))])
    problems = _Problems(np.vstack([Q, np.zeros(d)]), rows, g, slack, hi > 0, lo < 0, cutoff)
    result = Vertex(np.full(n, UNRESOLVED), np.zeros((n, d)), np.zeros((n, R)))
    for _ in range(20 + 4 * (d + rows.shape[1])):
        if problems.put(problems.step(), result):
            break
    return result._replace(beta=np.minimum(np.maximum(result.beta, lo), hi))


class _Problems:
    """The problems that are still on their way; entry i belongs to problem `index[i]`.

    A basis is a list of tight rows (their places in `rows`) and a list of moving features, padded with -1;
    `sign` is the limit at which r_k is held, 0 for a feature at rest. A row of zeros at the end of Q stands
    for the padding of rows.
    """

    def __init__(
        self, Q: Floats, rows: Ints, g: Floats, slack: Floats, up: Mask, down: Mask, cutoff: Floats
    ) -> None:
        n, d = up.shape
        self.Q, self.rows, self.g, self.slack, self.up, self.down = Q, rows, g, slack, up, down
        self.cutoff, self.index = cutoff, np.arange(n)
        # What turns a violation into a length: the steepest rate over the features that may move.
        if up.all() and down.all():
            self.rate = np.maximum(np.abs(Q).max(axis=1), _STUCK)[rows]
        else:
            usable = np.where(Q[rows] > 0, up[:, None], down[:, None]) * np.abs(Q[rows])
            self.rate = np.maximum(usable.max(axis=2), _STUCK)
        self.tight, self.moving = np.full((n, 1), -1), np.full((n, 1), -1)
        self.sign, self.beta, self.lam = np.zeros((n, d)), np.zeros((n, d)), np.zeros(rows.shape)
        # The first pivot is known: the most violated row, by the feature with the steepest rate.
        length = np.where(g > slack, g / self.rate, 0.0)
        row = length.argmax(axis=1)
        of_row = Q[rows[self.index, row]]
        usable = np.where(of_row > 0, up, down) * np.abs(of_row)
        k = usable.argmax(axis=1)
        begun = np.flatnonzero((length[self.index, row] > 0) & (usable[self.index, k] >= _PIVOT))
        self.tight[begun, 0], self.moving[begun, 0] = row[begun], k[begun]
        self.sign[begun, k[begun]] = np.sign(of_row[begun, k[begun]])

    def put(self, status: Ints, result: Vertex) -> bool:
        """Store where the problems are, let those with a status of at least 0 go; whether all have ended."""
        result.beta[self.index] = self.beta
        result.multipliers[self.index] = self.lam[:, : result.multipliers.shape[1]]
        left = status < 0
        if not left.all():
            result.status[self.index[~left]] = status[~left]
            for name, value in vars(self).items() if left.any() else ():
                if name != "Q":
                    setattr(self, name, value[left])
        return not left.any()

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
        # The vertex, K beta_B = g_T, and its multipliers, K'lam_T = r_B.
        right = np.where(there, self.g[at, self.tight], 0.0)
        signs = np.where(there, self.sign[at, moving], 0.0)
        solution = np.where(there, np.einsum("npq,nq->np", inverse, right), 0.0)
        multiplier = np.where(there, np.einsum("npq,np->nq", inverse, signs), 0.0)
        value = (signs * solution).sum(axis=1)
        row, place, gain = self._worst(at, there, signs, solution)
        who, b = np.nonzero(there)
        self.beta, self.lam = np.zeros_like(self.beta), np.zeros_like(self.lam)
        self.beta[who, moving[who, b]] = solution[who, b]
        self.lam[who, self.tight[who, b]] = np.maximum(multiplier[who, b], 0.0)
        status[(status < 0) & (value > self.cutoff)] = CUT_OFF
        solved = (row < 0) & (place < 0) & (status < 0)
        if solved.any():  # what is left of a wrong sign is rounding
            self.beta = np.where(solved[:, None] & (self.sign * self.beta < 0), 0.0, self.beta)
            status[solved] = SOLVED
        go = status < 0
        if not go.any():
            return status
        # Raise the multiplier of the violated row, or let the feature's r_k leave its limit, the rest held.
        by_row = row >= 0
        of_row = self.Q[np.where(by_row, self.rows[here, row], -1)]
        leaver = moving[here, place]
        side = self.sign[here, leaver]
        right = np.where(there, -of_row[at, moving], 0.0)
        right[here[~by_row], place[~by_row]] = -side[~by_row]
        step = np.where(there, np.einsum("npq,np->nq", inverse, right), 0.0)
        r = np.einsum("np,npd->nd", multiplier, of_basis)
        dr = of_row + np.einsum("np,npd->nd", step, of_basis)
        t, leaving, entering = self._ratios(here, there, multiplier, step, r, dr)
        other_side = np.where(side > 0, self.down[here, leaver], self.up[here, leaver])
        flips = go & ~by_row & other_side & (t > 2)
        self.sign[here[flips], leaver[flips]] *= -1
        lost = here[go & ~flips & np.isinf(t)]
        if len(lost):
            status[lost] = INFEASIBLE
            self._ray(lost, row[lost], gain[lost], value[lost], there[lost], (multiplier[lost], step[lost]))
        self._pivot(here[go & ~flips & np.isfinite(t)], row, place, leaving, entering, dr)
        return status

    def _worst(self, at: Ints, there: Mask, signs: Floats, solution: Floats) -> tuple[Ints, Ints, Floats]:
        """Return the most violated row of each problem, or the place of the feature farthest off its side.

        The other one is -1; both are at a vertex that is feasible. The last entry is by how much.
        """
        here = at[:, 0]
        far = np.where(there, -signs * solution, 0.0)
        far = np.where(far > 1e-14 * np.abs(solution).max(axis=1, keepdims=True), far, 0.0)
        of_moving = self.Q[self.rows[:, :, None], self.moving[:, None, :]]
        missed = self.g - np.einsum("nrp,np->nr", of_moving, solution)
        length = np.where(missed > self.slack, missed / self.rate, 0.0)
        who, b = np.nonzero(there)
        length[who, self.tight[who, b]] = 0.0
        row, place = length.argmax(axis=1), far.argmax(axis=1)
        longest, farthest = length[here, row], far[here, place]
        by_row = longest > farthest
        return (
            np.where(by_row, row, -1),
            np.where(~by_row & (farthest > 0), place, -1),
            np.where(by_row, missed[here, row], farthest),
        )

    def _ratios(
        self, here: Ints, there: Mask, multiplier: Floats, step: Floats, r: Floats, dr: Floats
    ) -> tuple[Floats, Ints, Ints]:
        """Return how far to go, and the place of the row that leaves or the feature that enters, else -1."""
        size, rises = np.abs(dr), dr > 0
        usable = np.where(rises, self.up, self.down) & (self.sign == 0) & (size >= _PIVOT)
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = np.where(there & (step < 0), np.maximum(multiplier, 0.0) / -step, np.inf)
            ahead = np.where(usable, np.maximum(1 - np.where(rises, r, -r), 0.0) / size, np.inf)
        leaving, first = falls.argmin(axis=1), ahead.min(axis=1)
        soonest = falls[here, leaving]
        # Among features that reach their limit at the same time, the largest pivot.
        entering = np.where(ahead == first[:, None], size, -1.0).argmax(axis=1)
        enters = (first <= soonest) & (first < np.inf)
        return (
            np.where(enters, first, soonest),
            np.where(enters, -1, leaving),
            np.where(enters, entering, -1),
        )

    def _ray(
        self, at: Ints, row: Ints, gain: Floats, value: Floats, there: Mask, ray: tuple[Floats, Floats]
    ) -> None:
        """Set multipliers far out on the ray along which the dual grows without bound.

        So far that the bound is beyond doubt, not farther: on the ray alone rounding might eat up the proof.
        """
        rate = np.where(row >= 0, self.rate[at, row], 1.0)
        # A row that nothing which may move can meet proves it with any multiplier.
        length = np.where(rate > _STUCK, gain / rate, 1.0)
        goal = np.where(self.cutoff[at] < np.inf, 2 * self.cutoff[at], 1e6 * (value + length))
        t = np.maximum(goal - value, 0.0) / gain
        multiplier, step = ray
        who, b = np.nonzero(there)
        self.lam[at[who], self.tight[at[who], b]] = np.maximum(multiplier + t[:, None] * step, 0.0)[who, b]
        self.lam[at[row >= 0], row[row >= 0]] = t[row >= 0]

    def _pivot(self, at: Ints, row: Ints, place: Ints, leaving: Ints, entering: Ints, dr: Floats) -> None:
        """Change the bases: a row or a feature comes in, a row or a feature goes."""
        by_row, enters = row[at] >= 0, entering[at] >= 0
        off = at[~by_row]
        self.sign[off, self.moving[off, place[off]]] = 0.0
        come = at[enters]
        self.sign[come, entering[come]] = np.sign(dr[come, entering[come]])
        swapped, replaced = at[by_row & ~enters], at[~by_row & enters]
        self.tight[swapped, leaving[swapped]] = row[swapped]
        self.moving[replaced, place[replaced]] = entering[replaced]
        grows, shrinks = at[by_row & enters], at[~by_row & ~enters]
        count = (self.tight >= 0).sum(axis=1)
        if len(grows) and count[grows].max() >= self.tight.shape[1]:
            more = np.full((len(self.index), 1), -1)
            self.tight, self.moving = np.hstack([self.tight, more]), np.hstack([self.moving, more])
        self.tight[grows, count[grows]], self.moving[grows, count[grows]] = row[grows], entering[grows]
        last = count[shrinks] - 1
        self.moving[shrinks, place[shrinks]] = self.moving[shrinks, last]
        self.tight[shrinks, leaving[shrinks]] = self.tight[shrinks, last]
        self.moving[shrinks, last] = self.tight[shrinks, last] = -1


def _inverses(K: Floats) -> tuple[Floats, Mask]:
    """Return the inverses of a stack of matrices, and which of them have none."""
    if K.shape[1] == 1:
        singular = K[:, 0, 0] == 0
        return 1 / np.where(singular[:, None, None], 1.0, K), singular
    singular = np.linalg.det(K) == 0  # one of them would end the inversion of all
    return np.linalg.inv(np.where(singular[:, None, None], np.eye(K.shape[1]), K)), singular
