"""The accepted set of the probabilistic certainty: cells over all budgets, refined where needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.calibration import price_combination
from lvqrej.cells import Ball, Cells, HalfSpace
from lvqrej.engine.search import CONE, NONE, START, Found, nothing_found
from lvqrej.pairwise.batches import Batch, batch_of, cell_around, search, seen_by
from lvqrej.pairwise.boundary import first_accepted
from lvqrej.pairwise.budgets import Classes, Rivals, log_kappa, share
from lvqrej.pairwise.comparing import asked_by
from lvqrej.pairwise.restricting import sparse
from lvqrej.pairwise.starts import LADDER, by_descent
from lvqrej.projection import nearest_points

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The relative gap aimed at, and the number of relaxations after which a sample is left with the gap it has.
GAP, EFFORT = 1e-3, 100
#: The number of relaxations after which a search that has found no answer gives up.
_PATIENCE = 20
#: Multiples of a change that the option is asked about, those of a batch together.
_ONCE, _STRETCHES = np.ones(1), 1 + 2.0**-52 * 4.0 ** np.arange(20)
#: The number of descents on the doubt that are remembered, whatever the threshold.
_REMEMBERED = 256
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
    flat : Classes
        The same, as flat arrays.
    descents : dict
        Where the doubt is least, by class and sample, once it has been looked for.
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
    flat: Classes
    descents: dict[bytes, tuple[float, Floats]]
    metrics: Floats
    sites: Floats
    site_metric: Ints
    labels: tuple[int, ...]
    targeted: bool = False
    extra: tuple[Ball | HalfSpace, ...] = ()
    gap: float = GAP
    effort: int = EFFORT
    _hopeless: set[bytes] = field(init=False, default_factory=set)

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
        batch = batch_of(X, weights, lower, upper, self.metrics, self.sites, self.site_metric, self.extra)
        keys = [b"".join(row.tobytes() for row in rows) for rows in zip(X, lower, upper, strict=True)]
        rows = np.array([i for i, key in enumerate(keys) if key not in self._hopeless], dtype=np.int64)
        if self._shifting:
            some = np.array([self._shifted(int(i), batch, rounding, found) for i in rows], dtype=bool)
        else:
            value, label, beta, bound = self._searched(batch, rows, self.theta)
            found.bounds[rows] = bound if self.theta >= _SMALLEST else 0.0
            some = value < np.inf
            self._settle_all(batch, rows[some], label[some], beta[some], rounding, found)
        self._hopeless.update(keys[i] for i in rows[~some])
        return found

    def _searched(
        self, batch: Batch, rows: Ints, theta: float, known: float = np.inf
    ) -> tuple[Floats, Ints, Floats, Floats]:
        """Search for p(i | x) >= theta: lengths, classes and changes of answers, lower bounds.

        With a known length only the bound for the normalised certainty is sought.
        """
        limit, labels = log_kappa(min(max(theta, _SMALLEST), 1.0)), np.array(self.labels, dtype=np.int64)
        fixed = (self.flat, labels, limit, self.gap, self.effort, _PATIENCE, LADDER)
        start = (-1, np.inf, np.zeros(batch.X.shape[1]))
        value, label, beta, bound, nodes = search(batch, rows, *fixed, start, known, known == np.inf)
        for i in np.flatnonzero(nodes < 0):  # no answer along one feature
            start = self._descended(batch, int(rows[i]), limit)
            one = search(batch, rows[i : i + 1], *fixed, start, np.inf, True)
            value[i], label[i], beta[i], bound[i] = (column[0] for column in one[:4])
        return value, label, beta, bound

    def _descended(self, batch: Batch, i: int, limit: float) -> tuple[int, float, Floats]:
        """Return the shortest of the classes' first answers by descent on the doubt; label -2 if none is.

        The doubt's minimum is that of any threshold: it is found once.
        """
        seen = seen_by(batch, i)
        best = (-2, np.inf, np.zeros(len(seen.lo)))
        parts = (batch.X[i], batch.weights, seen.lo, seen.hi)
        for label in self.labels:
            asked = asked_by(self.flat, label, limit)
            if not len(asked.a) or not share(np.ones(len(asked.a)), asked.a, asked.b).sum() <= asked.total:
                continue
            key = b"".join([label.to_bytes(4), *(part.tobytes() for part in parts)])
            if key not in self.descents:
                if len(self.descents) >= _REMEMBERED:
                    self.descents.clear()
                doubt, beta = by_descent(asked, seen)
                self.descents[key] = doubt + limit, beta
            doubt, beta = self.descents[key]
            length = float(np.abs(beta).sum())
            if doubt - limit <= np.log(asked.total) and length < best[1]:
                best = (label, length, beta)
        return best

    def _shifted(self, i: int, batch: Batch, rounding: float, found: Found) -> bool:
        """Answer sample i: nearest points of p(i | x) >= theta', until theta' is what acceptance asks for.

        Returns whether there is any such point.
        """
        theta, best, row = self.theta, np.inf, np.array([i])
        lower, upper, weights = batch.lower[i], batch.upper[i], batch.weights
        found.bounds[i] = 0.0
        some = False
        for attempt in range(_ATTEMPTS):
            theta = min(max(theta, _SMALLEST), 1.0)
            value, label, beta, bound = self._searched(batch, row, theta)
            if attempt == 0 and not self._normalized:
                found.bounds[i] = bound[0] if self.theta >= _SMALLEST else 0.0
            if value[0] == np.inf:
                if not self._normalized or best < np.inf:
                    break
                theta *= 0.7  # less than theta may do where the other probabilities are small
                continue
            some = True
            settled = self._settled(batch, i, theta, int(label[0]), beta[0], rounding)
            best = self._kept(i, found, best, int(label[0]), *settled)
            point = np.clip(batch.X[i] + beta[0] / weights, lower, upper)
            asked = self._asked(point, int(label[0]))
            if abs(asked - theta) <= 1e-6 * theta:
                break
            theta = asked if attempt < _ATTEMPTS - 2 or best < np.inf else 0.5 * (1 + 1e-9)
        best = self._kept(i, found, best, *self._scanned(batch.X[i], weights, lower, upper))
        if self._normalized:
            found.bounds[i] = self._searched(batch, row, self.theta, best)[3][0] if best < np.inf else 0.0
        return some or best < np.inf

    def _settle_all(
        self, batch: Batch, rows: Ints, label: Ints, beta: Floats, rounding: float, found: Found
    ) -> None:
        """Keep the answers of some samples, stretched by a few last digits until the option accepts them."""
        pending = np.arange(len(rows)) if not self.extra else np.empty(0, dtype=np.int64)
        deltas, done = beta / batch.weights, np.zeros(len(rows), dtype=bool)
        for scales in (_ONCE, _STRETCHES):
            many = np.repeat(pending, len(scales))
            tried = deltas[many] * np.tile(scales, len(pending))[:, None]
            points = np.clip(batch.X[rows[many]] + tried, batch.lower[rows[many]], batch.upper[rows[many]])
            good = self._accepts(points, self.option.certainty(points)) if len(points) else many > 0
            good = good.reshape(len(pending), len(scales))
            first = np.flatnonzero(good.any(axis=1))
            deltas[pending[first]] *= scales[good[first].argmax(axis=1)][:, None]
            done[pending[first]] = True
            pending = np.flatnonzero(~done)
        lengths = np.abs(deltas * batch.weights).sum(axis=1)
        for k, i in enumerate(rows):
            path = CONE if lengths[k] > 0 else START
            answer = (deltas[k], float(lengths[k]), path) if done[k] else None
            answer = answer or self._settled(batch, int(i), self.theta, int(label[k]), beta[k], rounding)
            self._kept(int(i), found, np.inf, int(label[k]), *answer)

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
        self, batch: Batch, i: int, theta: float, label: int, beta: Floats, rounding: float
    ) -> tuple[Floats, float, int]:
        """Return the change to the last digits, its length and the path to it."""
        x, weights, lower, upper = batch.X[i], batch.weights, batch.lower[i], batch.upper[i]
        delta = self._on_the_boundary(x, sparse(beta) / weights, lower, upper)
        if delta is not None:
            return delta, float(np.abs(delta * weights).sum()), CONE if delta.any() else START
        cells = self._cells(batch, i, theta, label, beta, rounding)
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
        """Stretch or shrink a change to the first multiple that the option accepts; None if none is near."""

        def tested(scales: Floats) -> tuple[Floats, NDArray[np.bool_]]:
            points = np.clip(x + scales[:, None] * delta, lower, upper)
            certainties = self.option.certainty(points)
            return certainties - self.theta, self._accepts(points, certainties)

        scale = first_accepted(tested)
        return None if scale is None else scale * delta

    def _cells(self, batch: Batch, i: int, theta: float, label: int, beta: Floats, rounding: float) -> Cells:
        """Return the answer's cell; scores are asked a hair higher, as rounding in the exponents wants it."""
        limit = log_kappa(min(max(theta, _SMALLEST), 1.0))
        asked = asked_by(self.flat, label, limit)
        rows, level, program = cell_around(batch, i, self.flat, label, limit, beta, rounding)
        flat = level < 0
        normals = 2 * program.C[: len(rows)][flat] * batch.weights
        table = np.zeros((len(rows), 5))
        table[:, 0], table[:, 1] = asked.own[rows], asked.other[rows]
        table[:, 2], table[:, 3] = 1 + level, 1 - level
        table[flat] = 0.0
        table[flat, 0], table[flat, 1] = -1, np.arange(flat.sum())
        table[flat, 4] = program.g[: len(rows)][flat] + normals @ batch.X[i]
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
            labels=np.array([label], dtype=np.int64),
            plain=normals.reshape(-1, batch.X.shape[1]),
        )
        return cells.narrowed(self.extra) if self.extra else cells
