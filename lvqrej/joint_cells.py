"""The accepted set of the probabilistic certainty: cells over all budgets, refined where needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.branching import branch_and_bound
from lvqrej.budgets import Rivals, log_kappa
from lvqrej.calibration import price_combination
from lvqrej.cells import Ball, Cells, HalfSpace
from lvqrej.joint import Answer, View
from lvqrej.normalized import NormalizedProblem
from lvqrej.programs import Convex, without_budgets
from lvqrej.projection import nearest_points
from lvqrej.restricting import JointProblem
from lvqrej.search import CONE, NONE, START, Found, nothing_found
from lvqrej.starts import LADDER

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The relative gap aimed at, and the number of relaxations after which a sample is left with the gap it has.
GAP, EFFORT = 1e-3, 100
#: The number of relaxations after which a search that has found no answer gives up.
_PATIENCE = 20
#: Multiples of a change tried first, by their distance from 1, and parts of an interval around a guess.
_NEARBY = 10.0 ** np.arange(-2, -16, -1)
_AROUND = np.array([-1e-1, -1e-3, -1e-5, -1e-7, 0.0, 1e-7, 1e-5, 1e-3, 1e-1])
#: Relative size below which a change is taken for zero.
_ZERO = 3e-6
#: Thresholds below this are taken for it in the search for answers; then the lower bound is 0.
_SMALLEST = 1e-6
#: How often the threshold is adapted where acceptance asks for something else than p(i | x) >= theta.
_ATTEMPTS = 8


@dataclass(frozen=True, eq=False)
class JointCells:
    """The set of inputs with p(i | x) >= theta for some class i, as `explain` searches it.

    Parameters
    ----------
    option : ProbabilisticCertainty
        It has the last word on whether an input is accepted.
    theta : float
    classes : list of Rivals
    metrics : ndarray of shape (M, k, d)
    sites : ndarray of shape (S, d), site_metric : ndarray of shape (S,)
    labels : tuple of int
        The classes to be accepted as.
    targeted : bool
        Whether an answer has to get one of these labels.
    extra : tuple of Ball and HalfSpace
        Further constraints.
    gap : float
        Relative gap to stop at.
    effort : int
        Number of relaxations after which a sample is left with the gap it has.
    """

    option: Any
    theta: float
    classes: list[Rivals]
    metrics: Floats
    sites: Floats
    site_metric: Ints
    labels: tuple[int, ...]
    targeted: bool = False
    extra: tuple[Ball | HalfSpace, ...] = ()
    gap: float = GAP
    effort: int = EFFORT

    def with_label(self, label: int) -> JointCells:
        """Return the part accepted as the class of this index."""
        return replace(self, labels=(label,), targeted=True)

    def narrowed(self, extra: Sequence[Ball | HalfSpace]) -> JointCells:
        """Return the set cut by further balls and half-spaces."""
        return replace(self, extra=(*self.extra, *extra))

    def active(self, cell: int, x: Floats) -> list[str]:
        """Say in words which pairs of classes take the room for doubt at x, accepted as class `cell`."""
        names = self.option.classes.tolist()
        doubt = np.exp(self.option._exponents(x[None])[0, cell])
        doubt[cell] = 0.0
        parts = [(doubt[j] / doubt.sum(), names[j]) for j in np.argsort(-doubt, kind="stable")]
        return [
            f"{names[cell]} rather than {name} ({part:.0%} of the doubt)"
            for part, name in parts
            if part >= 0.005
        ]

    def nearest(
        self, X: Floats, weights: Floats, lower: Floats, upper: Floats, rounding: float, facet_rounding: float
    ) -> Found:
        """Return the nearest points with lower <= x <= upper, as `nearest_points` does for `Cells`."""
        found = nothing_found(*X.shape)
        M = self.metrics / weights
        balls = [piece for piece in self.extra if isinstance(piece, Ball)]
        G = np.array([L.T @ L for L in [*M, *(ball.L / weights for ball in balls)]])
        for i in range(len(X)):
            self._one(i, X[i], weights, lower[i], upper[i], rounding, M, G, found)
        return found

    def _one(
        self,
        i: int,
        x: Floats,
        weights: Floats,
        lower: Floats,
        upper: Floats,
        rounding: float,
        M: Floats,
        G: Floats,
        found: Found,
    ) -> None:
        """Answer sample i: nearest points of p(i | x) >= theta', until theta' is what acceptance asks for."""
        view = self._view(x, weights, lower, upper, M, G)
        theta, best = self.theta, np.inf
        found.bounds[i] = 0.0
        for attempt in range(_ATTEMPTS if self._shifting else 1):
            theta = min(max(theta, _SMALLEST), 1.0)
            problem = JointProblem(self.classes, self.labels, log_kappa(theta), view, self.gap)
            minimum = branch_and_bound(problem, self.gap, self.effort, _PATIENCE)
            if attempt == 0 and not self._normalized:
                found.bounds[i] = minimum.bound if self.theta >= _SMALLEST else 0.0
            if minimum.answer is None:
                if not self._normalized or best < np.inf:
                    break
                theta *= 0.7  # less than theta may do where the other probabilities are small
                continue
            answer: Answer = minimum.answer
            settled = self._settled(problem, answer, x, weights, lower, upper, rounding)
            best = self._kept(i, found, best, answer.label, *settled)
            asked = self._asked(np.clip(x + answer.beta / weights, lower, upper), answer.label)
            if abs(asked - theta) <= 1e-6 * theta:
                break
            theta = asked if attempt < _ATTEMPTS - 2 or best < np.inf else 0.5 * (1 + 1e-9)
        if self._shifting:
            best = self._kept(i, found, best, *self._scanned(x, weights, lower, upper))
        if self._normalized:
            proven = NormalizedProblem(best, self.classes, self.labels, log_kappa(self.theta), view, self.gap)
            found.bounds[i] = branch_and_bound(proven, self.gap, self.effort).bound

    @staticmethod
    def _kept(
        i: int, found: Found, best: float, label: int, delta: Floats, distance: float, path: int
    ) -> float:
        """Keep the nearer of two answers; return its distance."""
        if not distance < best:
            return best
        found.deltas[i], found.distances[i], found.paths[i], found.cells[i] = delta, distance, path, label
        return distance

    def _scanned(
        self, x: Floats, weights: Floats, lower: Floats, upper: Floats
    ) -> tuple[int, Floats, float, int]:
        """Return the shortest accepted change of one feature on a ladder of lengths, to the last digits."""
        d = len(x)
        reach = 2 * np.abs(self.sites - x).max(axis=0)
        lengths = (reach[:, None] * LADDER).ravel()
        deltas = np.vstack(
            [np.repeat(sign * np.eye(d), len(LADDER), axis=0) * lengths[:, None] for sign in (1, -1)]
        )
        points = np.clip(x + deltas, lower, upper)
        accepted = self._accepts(points, self.option.certainty(points))
        distances = np.where(accepted, np.abs((points - x) * weights).sum(axis=1), np.inf)
        first = int(distances.argmin())
        if distances[first] == np.inf:
            return -1, deltas[first], np.inf, NONE
        delta = self._on_the_boundary(x, points[first] - x, lower, upper)
        if delta is None:
            return -1, deltas[first], np.inf, NONE
        label = int(np.flatnonzero(self.option.classes == self.option.predict((x + delta)[None])[0])[0])
        return label, delta, float(np.abs(delta * weights).sum()), CONE

    @property
    def _normalized(self) -> bool:
        """Whether normalisation matters: two probabilities add up to 1 anyway."""
        return bool(self.option.normalize) and len(self.option.classes) > 2

    @property
    def _shifting(self) -> bool:
        """Whether acceptance as class i asks for more, or less, than p(i | x) >= theta."""
        return self._normalized or (self.targeted and self.theta <= 0.5)

    def _asked(self, point: Floats, label: int) -> float:
        """Return how large p(label | x) has to be at a point to be accepted, as a target if there is one."""
        p = price_combination(self.option._exponents(point[None]))[0]
        asked = self.theta * (p.sum() if self._normalized else 1.0)
        rivals = np.delete(p, label).max() if self.targeted else 0.0
        return float(max(asked, rivals * (1 + 1e-9)))

    def _settled(
        self,
        problem: JointProblem,
        answer: Answer,
        x: Floats,
        weights: Floats,
        lower: Floats,
        upper: Floats,
        rounding: float,
    ) -> tuple[Floats, float, int]:
        """Return the change to the last digits, its length and the path to it."""
        delta = self._on_the_boundary(
            x, problem.stretched(answer, sparse(answer.beta)) / weights, lower, upper
        )
        if delta is not None:
            return delta, float(np.abs(delta * weights).sum()), CONE if delta.any() else START
        cells = self._cells(problem, answer, x, weights, rounding)
        one = nearest_points(cells, x[None], weights, lower[None], upper[None], rounding, rounding)
        point = np.clip(x + one.deltas, lower, upper)
        accepted = self._accepts(point, self.option.certainty(point))[0]
        if self._shifting and not accepted:
            return one.deltas[0], np.inf, NONE
        return one.deltas[0], float(one.distances[0]), int(one.paths[0])

    def _accepts(self, points: Floats, certainties: Floats) -> NDArray[np.bool_]:
        """Return whether the option accepts each point, as the class asked for, within what else is asked."""
        accepted: NDArray[np.bool_] = certainties >= self.theta
        if self.targeted:
            accepted &= self.option.predict(points) == self.option.classes[self.labels[0]]
        for piece in self.extra:
            accepted &= piece.excess(points) <= 0
        return accepted

    def _on_the_boundary(self, x: Floats, delta: Floats, lower: Floats, upper: Floats) -> Floats | None:
        """Stretch or shrink a change to the first multiple that the option accepts; None if none is near.

        At an optimum certainty rises along the change itself (its gradient is a multiple of the signs), so
        one number is left to find.
        """

        def tested(scales: Floats) -> tuple[Floats, NDArray[np.bool_]]:
            points = np.clip(x + scales[:, None] * delta, lower, upper)
            certainties = self.option.certainty(points)
            return certainties - self.theta, self._accepts(points, certainties)

        scales = np.concatenate([[0.0], 1 - _NEARBY, [1.0], 1 + _NEARBY[::-1]])
        margins, good = tested(scales)
        if not good.any():
            return None
        first = int(good.argmax())
        for _ in range(60):
            if first == 0 or scales[first] - scales[first - 1] <= 2**-52 * scales[first]:
                break
            low, high = scales[first - 1], scales[first]
            rise = margins[first] - margins[first - 1]
            part = -margins[first - 1] / rise if rise > 0 else 0.5
            inner = np.concatenate([part + _AROUND, [0.5]])
            inner = low + (high - low) * np.unique(inner[(inner > 0) & (inner < 1)])
            inner = inner[(inner > low) & (inner < high)]
            if len(inner) == 0:
                break
            ends = margins[first - 1], margins[first]
            margins, good = tested(inner)
            scales = np.concatenate([[low], inner, [high]])
            margins = np.concatenate([ends[:1], margins, ends[1:]])
            first = int(np.concatenate([[False], good, [True]]).argmax())
        return np.asarray(scales[first] * delta)

    def _view(self, x: Floats, weights: Floats, lower: Floats, upper: Floats, M: Floats, G: Floats) -> View:
        """Return the sites as the sample sees them."""
        difference = self.sites - x
        u = np.empty_like(difference)
        squares = np.empty(len(u))
        for m in range(len(M)):
            mine = self.site_metric == m
            z = difference[mine] @ self.metrics[m].T
            u[mine], squares[mine] = z @ M[m], (z**2).sum(axis=1)
        extra = self._extra(x, weights)
        diagonal = np.einsum("mii->mi", G).copy()
        return View(
            u, squares, self.site_metric, G, diagonal, (lower - x) * weights, (upper - x) * weights, extra
        )

    def _extra(self, x: Floats, weights: Floats) -> Convex:
        """Return the further constraints as the sample sees them."""
        n, d = len(self.extra), len(x)
        metric, s, C = np.full(n, -1, dtype=np.int64), np.zeros(n), np.empty((n, d))
        g, size, reach = np.empty(n), np.empty(n), np.zeros(n)
        balls = 0
        for i, piece in enumerate(self.extra):
            if isinstance(piece, Ball):
                z = piece.L @ (piece.centre - x)
                metric[i], s[i], C[i] = len(self.metrics) + balls, 1.0, (z @ piece.L) / weights
                g[i], size[i] = z @ z - piece.radius**2, z @ z + piece.radius**2
                reach[i] = np.sqrt(z @ z)
                balls += 1
            else:
                terms = piece.normal * x
                C[i] = 0.5 * piece.normal / weights
                g[i], size[i] = -(terms.sum() + piece.offset), np.abs(terms).sum() + abs(piece.offset)
        return without_budgets(metric, s, C, g, size, reach)

    def _cells(
        self, problem: JointProblem, answer: Answer, x: Floats, weights: Floats, rounding: float
    ) -> Cells:
        """Return the answer's cell; scores are asked a hair higher, as rounding in the exponents wants it."""
        of = self.classes[answer.label]
        rows, least = problem.cell(answer)
        a, beta = of.a[of.pair[rows]], of.beta[of.pair[rows]]
        hair = 8 * rounding * (1 + a + np.abs(beta) + abs(problem.log_kappa)) / a
        level = np.minimum(least + hair, 1.0)
        flat = level < 0
        C, g = problem.tangents(answer.label, rows[flat], level[flat], answer.beta)
        normals = 2 * C * weights
        table = np.zeros((len(rows), 5))
        table[:, 0], table[:, 1] = of.own[rows], of.other[rows]
        table[:, 2], table[:, 3] = 1 + level, 1 - level
        table[flat] = 0.0
        table[flat, 0], table[flat, 1], table[flat, 4] = -1, np.arange(flat.sum()), g + normals @ x
        cells = Cells(
            metrics=self.metrics,
            sites=self.sites,
            site_metric=self.site_metric,
            near=table[:, 0].astype(np.int64),
            far=table[:, 1].astype(np.int64),
            alpha=table[:, 2].copy(),
            beta=table[:, 3].copy(),
            gamma=table[:, 4].copy(),
            start=np.array([0, len(rows)], dtype=np.int64),
            labels=np.array([answer.label], dtype=np.int64),
            plain=normals.reshape(-1, len(x)),
        )
        return cells.narrowed(self.extra) if self.extra else cells


def sparse(beta: Floats) -> Floats:
    """Return the change without what an interior-point method leaves of features that do not change.

    >>> sparse(np.array([1e-9, -0.5, 0.0]))
    array([ 0. , -0.5,  0. ])
    """
    return np.where(np.abs(beta) <= _ZERO * np.abs(beta).sum(), 0.0, beta)
