"""The accepted set of the probabilistic certainty: cells over a continuum of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.budget_search import Search, narrowed
from lvqrej.cells import (
    CONE,
    MOST_CORNERS,
    NONE,
    START,
    Ball,
    Cells,
    HalfSpace,
    Margin,
    Nearest,
    along,
    corners,
    padded,
    stacked,
)
from lvqrej.certainty import separations
from lvqrej.local_search import Pairs, rule_of, view_of
from lvqrej.prototypes import PrototypeModel

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: The relative gap aimed at, and the number of programs after which a sample is left with the gap it has.
GAP, EFFORT = 1e-3, 70
#: Boxes of budgets per class that cover what is accepted.
COVER = 8
#: Thresholds below this are taken for it in the search for answers; then the lower bound is 0.
SMALLEST = 1e-6
#: Multiples of a change that the option is asked about: F is zero there up to rounding.
STRETCHES = np.concatenate([[1.0], 1 + 2.0**-52 * 4.0 ** np.arange(24)])


@dataclass(frozen=True, eq=False)
class ProbableSet:
    """The inputs with p(i | x) >= theta for some class i: sum_j e_ij <= kappa = 1/theta - 1.

    It is the union over all budgets w, sum_j w_j <= 1, of the cells e_ij <= kappa w_j, each an intersection
    of Apollonius balls. A branch and bound over the budgets searches it for each sample, until the relative
    gap is small enough or its effort is spent; what it reports is proven either way.

    Parameters
    ----------
    option : ProbabilisticCertainty
        It has the last word on whether an input is accepted.
    theta : float
    pairs : Pairs
        Its models and their calibration as arrays.
    labels : tuple of int
        The classes to be accepted as.
    targeted : bool
        Whether an answer has to get one of these labels.
    pieces : tuple of (Ball or HalfSpace, label or None)
        Further constraints, of all that is accepted or of one class.
    gap : float
        Relative gap to stop at.
    effort : int
        Number of programs after which a sample is left with the gap it has.
    ways : array of shape (m, d), optional
        Then it is the set of all (x, t) with x + t'ways accepted.
    """

    option: Any
    theta: float
    pairs: Pairs
    labels: tuple[int, ...]
    targeted: bool = False
    pieces: tuple[tuple[Ball | HalfSpace, int | None], ...] = ()
    gap: float = GAP
    effort: int = EFFORT
    ways: Floats | None = None

    def along(self, ways: Floats) -> ProbableSet:
        """Return the set of all (x, t) with x + t'ways in this one, for ways of shape (m, d)."""
        points = np.hstack([self.pairs.points, np.zeros((len(self.pairs.points), len(ways)))])
        pairs = self.pairs._replace(metrics=along(self.pairs.metrics, ways), points=points)
        pieces = tuple((piece.along(ways), label) for piece, label in self.pieces)
        return replace(self, pairs=pairs, pieces=pieces, ways=ways)

    def with_label(self, label: int) -> ProbableSet:
        """Return the part accepted as the class of this index."""
        return replace(self, labels=tuple({label} & {*self.labels}), targeted=True)

    def narrowed(self, pieces: Sequence[Ball | HalfSpace], label: int | None = None) -> ProbableSet:
        """Return the set cut by further balls and half-spaces (only the part of one class, if given)."""
        return replace(self, pieces=(*self.pieces, *((piece, label) for piece in pieces)))

    def active(self, cell: int, x: Floats) -> list[str]:
        """Say in words which pairs of classes take the room for doubt at x, accepted as class `cell`."""
        names = self.option.classes.tolist()
        p = self.option.pairwise_probabilities(x[None])[0, cell]
        odds = np.delete(1 / np.maximum(p, 1e-300) - 1, cell)
        others = [name for k, name in enumerate(names) if k != cell]
        shares = odds / max(odds.sum(), 1e-300)
        return [
            f"{names[cell]} rather than {others[k]} ({100 * shares[k]:.0f} % of the doubt)"
            for k in np.argsort(-shares, kind="stable")
            if shares[k] >= 0.005
        ]

    def nearest(
        self, X: Floats, weights: Floats, lower: Floats, upper: Floats, margin: Margin = 0.0
    ) -> Nearest:
        """Find the nearest accepted points with lower <= x <= upper, in weighted l1; see `AcceptedSet`."""
        n, d = X.shape
        best = Nearest.nothing(n, d)
        for part in self._parts():
            found = part._searched(X, weights, lower, upper, margin)
            nearer = found.distances < best.distances
            for name in ("changes", "distances", "cells", "paths"):
                getattr(best, name)[nearer] = getattr(found, name)[nearer]
            best.bounds[:] = np.minimum(best.bounds, found.bounds)
        return best

    def _parts(self) -> list[ProbableSet]:
        """Return sets whose pieces hold for all of their labels."""
        if all(label is None for _, label in self.pieces):
            return [self]
        parts = []
        for c in self.labels:
            pieces = tuple((piece, None) for piece, of in self.pieces if of in (None, c))
            parts.append(replace(self, labels=(c,), targeted=True, pieces=pieces))
        return parts

    def _searched(self, X: Floats, weights: Floats, lower: Floats, upper: Floats, margin: Margin) -> Nearest:
        """Find the nearest points of a set whose pieces hold for all labels.

        Of margins by sample it is asked that the certainty exceeds theta by what scores may lose.
        """
        theta, K = min(max(self.theta, SMALLEST), 1 - 2.0**-53), len(self.option.classes)
        normalize = bool(self.option.normalize) and K > 2
        labels = np.array(self.labels if self.theta < 1 else (), dtype=np.int64)
        by_sample = isinstance(margin, np.ndarray)
        pieces, least = [piece for piece, _ in self.pieces], float(np.min(margin)) if not by_sample else 0.0
        view = view_of(self.pairs, X, weights, lower, upper, pieces, least)
        steepest = 4 * theta * (1 - theta) * np.abs(self.pairs.alpha).max()
        above = self.theta + (steepest * np.asarray(margin) if by_sample else np.zeros(len(X)))
        start = None
        if normalize:  # what is accepted without normalisation is accepted with it
            start = Search(view, rule_of(self.pairs, theta, False, False), labels, self.gap, self.effort // 5)
        rule = rule_of(self.pairs, theta, normalize, self.targeted and self.theta <= 0.5)
        search = Search(view, rule, labels, self.gap, self.effort, start)
        bounds = search.bounds if self.theta >= SMALLEST or not len(labels) else np.zeros(len(X))
        changes = search.beta / weights
        found, left = np.zeros(len(X), dtype=bool), np.flatnonzero(search.value < np.inf)
        for scale in STRETCHES:
            if not len(left):
                break
            points = np.clip(X[left] + scale * changes[left], lower[left], upper[left])
            good = self._accepts(points) & (self.option.certainty(self._input(points)) >= above[left])
            found[left[good]], changes[left[good]] = True, (points - X[left])[good]
            left = left[~good]
        found[left] = not by_sample  # of which the option may still think otherwise
        changes[~found] = 0.0
        distances = np.where(found, np.abs(changes * weights).sum(axis=1), np.inf)
        paths = np.where(found, np.where(distances > 0, CONE, START), NONE)
        label = np.where(found, search.label, -1)
        return Nearest(changes, distances, np.minimum(bounds, distances), label, paths)

    def _accepts(self, points: Floats) -> Mask:
        """Return whether the option accepts each point, as the class asked for, within all pieces."""
        X = self._input(points)
        accepted = self.option.accepts(X, self.theta)
        if self.targeted and accepted.any():
            accepted &= self.option.predict(X) == self.option.classes[self.labels[0]]
        for piece, _ in self.pieces:
            accepted &= piece.excess(points) <= 0
        return accepted

    def _input(self, points: Floats) -> Floats:
        """Return what the option is asked about."""
        if self.ways is None:
            return points
        d = points.shape[1] - len(self.ways)
        return points[:, :d] + points[:, d:] @ self.ways

    def tightened(self, errors: Floats, around: Floats) -> Cells:
        """Return cells whose points stay accepted when each feature is off by up to `errors`, of shape (d,).

        There is one per class: its budgets are those around a point.
        """
        if np.count_nonzero(errors) <= MOST_CORNERS:
            offsets = corners(errors)
        else:
            offsets = errors * np.random.default_rng(0).choice([-1.0, 1.0], size=(1024, len(errors)))
        return self._cells_around(around + offsets).tightened(errors, around)

    def around(self, cell: int, x: Floats) -> Cells:
        """Return the cell of the class `cell` with budgets as at x."""
        return self._cells_around(x[None]).with_label(cell)

    def cover(self) -> Cells:
        """Return cells that hold all that is accepted, `COVER` boxes of budgets for each class.

        In a box of levels (`budget_search`) what is accepted has at least the lowest scores of the box, and a
        score below 0 is not asked for. The box that leaves most room, in e_ij, is halved next.
        """
        theta, K = min(max(self.theta, SMALLEST), 1 - 2.0**-53), len(self.option.classes)
        rule = rule_of(self.pairs, theta, bool(self.option.normalize) and K > 2, False)
        cells: list[tuple[int, list[tuple[int, int, float]]]] = []
        J, E = K - 1, rule.slope.shape[1]
        for c in self.labels if self.theta < 1 else ():
            a, shift, label = rule.a[c], rule.shift[c, :J], np.array([c])

            def odds(levels: Floats, a: Floats = a, shift: Floats = shift) -> Floats:
                return np.exp(np.minimum(shift - a * levels[:J], 700))

            low, high = np.full((1, E), -1.0), np.ones((1, E))
            if self.theta >= SMALLEST:  # otherwise nothing is asked for
                low, high, _ = narrowed(rule, label, low, high)
            boxes = [(low[0], high[0])]
            while self.theta >= SMALLEST and 0 < len(boxes) < COVER:
                widths = np.array([odds(low) - odds(high) for low, high in boxes])
                k, j = np.unravel_index(widths.argmax(), widths.shape)
                if not widths[k, j] > 0:
                    break
                low, high = boxes.pop(k)
                middle = (shift[j] - np.log((odds(low) + odds(high))[j] / 2)) / a[j]
                ends = np.array([low, low]), np.array([high, high])
                ends[0][1, j] = ends[1][0, j] = middle
                low, high, empty = narrowed(rule, np.repeat(label, 2), *ends)
                boxes += [(low[i], high[i]) for i in (0, 1) if not empty[i]]
            own = [np.unique(points) for points in rule.own[c, :J]]
            for (low, _), *target in product(boxes, *own):
                asked = [j for j in range(J) if a[j] > 0 and low[j] >= 0]
                triples = [(target[j], q, low[j]) for j in asked for q in np.unique(rule.other[c, j])]
                if all(l <= 1 and (l == 0 or self.pairs.apart[p, q] > 0) for p, q, l in triples):
                    cells.append((c, triples))
        return self._cut(score_cells(self.pairs, cells))

    def _cut(self, cells: Cells) -> Cells:
        """Return cells cut by the further pieces."""
        for piece, of in self.pieces:
            cells = cells.narrowed([piece], of)
        return cells

    def _cells_around(self, points: Floats) -> Cells:
        """Return one convex cell of inputs that are probable enough per class, with budgets as at the points.

        They are divided in proportion to the largest e_ij over the points, and asked of the prototypes
        nearest there. A score below 0 would not be convex: 0 is asked instead. From theta = 1/2 on the label
        is the class itself.
        """
        pairs = self.pairs
        rule = rule_of(pairs, min(max(self.theta, 0.5), 1 - 2.0**-53), False, False)
        z = np.einsum("skd,nsd->nsk", pairs.metrics[pairs.point_metric], points[:, None] - pairs.points)
        squares = np.square(z).sum(axis=2)
        cells = []
        for c in self.labels:
            near, far = squares[:, rule.own[c]][..., None], squares[:, rule.other[c]][:, :, None]
            total = near + far
            scores = np.divide(far - near, total, out=np.zeros_like(total), where=total > 0)
            worst = scores.min(axis=(0, 3))  # (J, P)
            target, a, b = worst.argmax(axis=1), rule.a[c], rule.shift[c] - rule.log_kappa
            tells = a > 0
            least, wanted = np.exp(b - a), np.exp(np.minimum(b - a * worst.max(axis=1), 700))
            spare, extra = 1 - least.sum(), np.where(tells, np.maximum(wanted - least, 0.0), 0.0)
            if not spare > 0:
                continue
            part = extra / extra.sum() if extra.sum() > 0 else tells / max(tells.sum(), 1)
            with np.errstate(divide="ignore", invalid="ignore"):
                level = np.where(tells, np.maximum((b - np.log(least + part * spare)) / a, 0.0), -1.0)
            own = rule.own[c][np.arange(len(a)), target]
            triples = [
                (own[j], q, level[j]) for j in np.flatnonzero(tells) for q in np.unique(rule.other[c][j])
            ]
            if all(l < 1 and pairs.apart[p, q] > 0 for p, q, l in triples):
                cells.append((c, triples))
        return self._cut(score_cells(pairs, cells))


def score_cells(pairs: Pairs, cells: list[tuple[int, list[tuple[int, int, float]]]]) -> Cells:
    """Return cells of scores that are high enough: (d_other - d_own) / (d_other + d_own) >= score.

    Parameters
    ----------
    pairs : Pairs
        Whose metrics and prototypes they are.
    cells : list of (label, [(own, other, score), ...])
        Of each cell the class, and what it asks for: two prototypes and a score from 0 to 1.
    """
    table = np.array([triple for _, triples in cells for triple in triples], dtype=float).reshape(-1, 3)
    ends = np.cumsum([0, *(len(triples) for _, triples in cells)])
    return Cells(
        metrics=pairs.metrics,
        points=pairs.points,
        point_metric=pairs.point_metric,
        near=table[:, 0].astype(np.int64),
        far=table[:, 1].astype(np.int64),
        alpha=1 + table[:, 2],
        beta=1 - table[:, 2],
        gamma=np.zeros(len(table)),
        rows=padded([range(a, b) for a, b in pairwise(ends.tolist())]),
        labels=np.array([label for label, _ in cells], dtype=np.int64),
        point_names=[f"prototype {k}" for k in range(1, len(pairs.points) + 1)],
    )


def pairs_of(
    models: dict[tuple[int, int], PrototypeModel], alpha: Floats, beta: Floats, classes: NDArray[Any]
) -> Pairs:
    """Return the pairwise models and their calibration as arrays."""
    sizes, K = [len(model.prototypes) for model in models.values()], len(classes)
    ends = np.cumsum([0, *sizes])
    apart, own = np.zeros((ends[-1], ends[-1])), {}
    for first, ((i, j), model) in zip(ends, models.items(), strict=False):
        here = slice(first, first + len(model.prototypes))
        apart[here, here] = separations(model.prototypes, model.L)
        for a, b in ((i, j), (j, i)):
            own[a, b] = first + np.flatnonzero(model.labels == classes[a])
    many = np.array([[len(own.get((a, b), ())) for b in range(K)] for a in range(K)])
    table = np.zeros((K, K, many.max()), dtype=np.int64)
    for (a, b), points in own.items():
        table[a, b] = np.resize(points, many.max())
    return Pairs(
        metrics=stacked([model.L for model in models.values()], next(iter(models.values())).n_features),
        points=np.vstack([model.prototypes for model in models.values()]),
        point_metric=np.repeat(np.arange(len(models)), sizes),
        own=table, counts=many, apart=apart, alpha=alpha, beta=beta,
    )  # fmt: skip


def two_classes(pairs: Pairs, theta: float) -> Cells | None:
    """Return the cells of two classes, one per target; None if a score below 0 is enough (no ball)."""
    cells: list[tuple[int, list[tuple[int, int, float]]]] = []
    for label in (0, 1) if theta < 1 else ():
        a, b = abs(pairs.alpha[0, 1]), pairs.beta[label, 1 - label] - (np.log1p(-theta) - np.log(theta))
        level = b / a if a > 0 else (2.0 if b > 0 else -2.0)
        winner = label if pairs.alpha[0, 1] <= 0 else 1 - label
        if -1 < level < 0:
            return None
        if level <= -1:
            cells.append((label, []))
            continue
        for p in np.unique(pairs.own[winner, 1 - winner]) if level <= 1 else ():
            others = np.unique(pairs.own[1 - winner, winner])
            apart = pairs.apart[p, others] > 0
            if level == 0 or apart.all():  # a twin has the score 0
                cells.append((label, [(p, q, level) for q in others[apart]]))
    return score_cells(pairs, cells)
