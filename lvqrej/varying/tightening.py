"""Cells whose every point stays in the cell when it is moved by any of given errors.

A box lies in a convex cell exactly if its corners do. For a half-space only the worst corner matters,

    q'(x + e) + k >= 0  for all |e_k| <= E_k    is    q'x + k - sum_k |q_k| E_k >= 0;

for a ball every corner e asks |L (x + e - C)| <= R, a ball with the centre C - e.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.cells import Ball, Cell, Cells, HalfSpace
from lvqrej.certainty import Certainty
from lvqrej.pairwise.accepted import score_cells
from lvqrej.pairwise.budgets import gamma, log_kappa, share
from lvqrej.pairwise.joint_cells import JointCells
from lvqrej.varying.plausibility import JoinedSets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: With more wrong features than this, balls are tightened by a bound instead of at every corner.
MOST_CORNERS = 10


def corners(error: Floats, wrong: Mask) -> Floats:
    """Return all corners of the box of errors, of shape (2^m, d), m the number of features that are wrong.

    >>> corners(np.array([1.0, 2.0, 3.0]), np.array([True, False, True])).tolist()
    [[-1.0, 0.0, -3.0], [-1.0, 0.0, 3.0], [1.0, 0.0, -3.0], [1.0, 0.0, 3.0]]
    """
    k = np.flatnonzero(wrong)
    result = np.zeros((2 ** len(k), len(error)))
    result[:, k] = np.array(list(product((-1.0, 1.0), repeat=len(k)))) * error[k]
    return result


class Everywhere(Certainty):
    """A certainty that accepts an input only if it is accepted, with the same label, at all given offsets."""

    def __init__(self, option: Certainty, offsets: Floats) -> None:
        self.option, self.offsets = option, offsets
        self.name = option.name  # type: ignore[misc]  # that of the certainty, whatever it is
        self.classes, self.n_features = option.classes, option.n_features
        self.feature_names = option.feature_names

    def certainty(self, X: ArrayLike) -> Floats:
        """Return the certainty at the input itself, of shape (n,)."""
        return self.option.certainty(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label at the input itself, of shape (n,)."""
        return self.option.predict(X)

    def accepts(self, X: ArrayLike, theta: float) -> Mask:
        """Return whether the input is accepted as the same class at all offsets, of shape (n,)."""
        samples = np.asarray(X, dtype=float)
        accepted = self.option.accepts(samples, theta)
        for i in np.flatnonzero(accepted):
            points = samples[i] + self.offsets
            label = self.option.predict(samples[i : i + 1])[0]
            accepted[i] = (
                self.option.accepts(points, theta).all() and (self.option.predict(points) == label).all()
            )
        return accepted


def tightened(union: Any, error: Floats, wrong: Mask, around: Floats) -> Any:
    """Return a set whose points stay accepted, by one and the same cell, when these features are wrong.

    Parameters
    ----------
    union : AcceptedSet
    error : ndarray of shape (d,)
    wrong : ndarray of bool of shape (d,)
    around : ndarray of shape (d,)
        The probabilistic certainty has a continuum of cells: for it, the cell around this point is taken.

    Examples
    --------
    >>> from lvqrej.cells import Ball, Cell, HalfSpace
    >>> cells = Cells.of([Cell((Ball([0, 0], 5),), (HalfSpace([1, -2], 0),))])
    >>> cell = tightened(cells, np.array([1.0, 1.0]), np.array([True, True]), np.zeros(2))[0]
    >>> len(cell.balls), cell.balls[0].centre, cell.half_spaces[0].offset
    (4, array([1., 1.]), -3.0)
    """
    if isinstance(union, JoinedSets):
        return replace(union, parts=tuple(tightened(part, error, wrong, around) for part in union.parts))
    if isinstance(union, JointCells):
        union = cells_around(union, around + offsets_of(error, wrong))
    return _tightened(union, error, wrong) if wrong.sum() <= MOST_CORNERS else _shrunken(union, error, wrong)


def offsets_of(error: Floats, wrong: Mask) -> Floats:
    """Return all corners of the box of errors, or if they are too many, 1024 random ones."""
    if wrong.sum() <= MOST_CORNERS:
        return corners(error, wrong)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(1024, len(error)))
    return signs * np.where(wrong, error, 0.0)


def _shrunken(cells: Cells, error: Floats, wrong: Mask) -> Cells:
    """Tighten balls by the triangle inequality, |L e| <= sum_k |L_k| E_k; a cell that vanishes is dropped."""
    off = np.where(wrong, error, 0.0)
    kept = []
    for cell in cells:
        radii = [ball.radius - np.linalg.norm(ball.L, axis=0) @ off for ball in cell.balls]
        if min(radii, default=0.0) >= 0:
            balls = [Ball(ball.centre, r, ball.L) for ball, r in zip(cell.balls, radii, strict=True)]
            flats = [HalfSpace(h.normal, h.offset - float(np.abs(h.normal) @ off)) for h in cell.half_spaces]
            kept.append(Cell(tuple(balls), tuple(flats), cell.label, cell.name))
    return Cells.of(kept)


def _tightened(cells: Cells, error: Floats, wrong: Mask) -> Cells:
    """Tighten half-spaces by their worst corner, balls by a copy for each corner."""
    offsets = corners(error, wrong)
    n, copies = len(cells.sites), len(offsets)
    flat = cells.alpha == cells.beta
    falls = np.abs(cells.packed.normals) @ np.where(wrong, error, 0.0)
    gamma = cells.gamma.copy()
    gamma[flat] += falls[cells.packed.normal[flat]]
    copied = np.where(flat, 1, copies)
    index = np.repeat(np.arange(len(flat)), copied)
    ends = np.concatenate([[0], np.cumsum(copied)])
    # A flat constraint keeps its sites; the i-th copy of a curved one has them moved by the i-th corner.
    copy = n * np.where(flat[index], 0, 1 + np.arange(len(index)) - ends[index])
    near, far = cells.near[index], cells.far[index]
    return Cells(
        metrics=cells.metrics,
        sites=np.vstack([cells.sites, *(cells.sites - offset for offset in offsets)]),
        site_metric=np.tile(cells.site_metric, copies + 1),
        near=np.where(near >= 0, near + copy, near),
        far=np.where((near >= 0) & (far >= 0), far + copy, far),
        alpha=cells.alpha[index],
        beta=cells.beta[index],
        gamma=gamma[index],
        start=ends[cells.start].astype(np.int64),
        labels=cells.labels,
        plain=cells.plain,
        facet=None if cells.facet is None else cells.facet[index],
        site_names=[*cells.site_names] * (copies + 1),
        names=cells.names,
    )


def cells_around(union: JointCells, points: Floats) -> Cells:
    """Return one convex cell of inputs that are probable enough per label, with budgets as at the points.

    With budgets w_j that sum up to 1, scores s_ij >= gamma_ij(w_j) are enough for p(i | x) >= theta. They are
    divided in proportion to the largest e_ij over the points, and asked of the prototypes nearest there. A
    score below 0 would not be convex: 0 is asked instead. From theta = 1/2 on the label is the class itself.
    """
    rows: list[tuple[int, int, float]] = []
    start, labels = [0], []
    log_k = log_kappa(max(union.theta, 0.5))
    for label in union.labels:
        of = union.classes[label]
        total = 1 - of.constant * float(np.exp(-log_k))
        each = _scores(union, of.own, of.other, points)
        shift = of.beta - log_k
        targets = [
            max((row for j, row in of.choices if j == i), key=lambda row: each[:, row].min())
            for i in range(len(of.a))
        ]
        worst = np.array([each[:, row].min() for row in targets])
        least, wanted = share(np.ones(len(of.a)), of.a, shift), share(worst, of.a, shift)
        spare, extra = total - least.sum(), np.maximum(wanted - least, 0.0)
        if spare <= 0 or not len(of.a):
            continue
        budgets = least + (extra * spare / extra.sum() if extra.sum() > 0 else spare / len(least))
        asked = np.maximum(gamma(budgets, of.a, shift), 0.0)
        if (asked >= 1).any() or any((of.separation[row] == 0).any() for row in targets):
            continue
        rows += [(int(of.own[c]), int(of.other[c]), asked[j]) for j, row in enumerate(targets) for c in row]
        start.append(len(rows))
        labels.append(label)
    cells = score_cells(union, rows, start, labels)
    return cells.narrowed(union.extra) if union.extra else cells


def _scores(union: JointCells, own: Ints, other: Ints, points: Floats) -> Floats:
    """Return the scores (d_other - d_own) / (d_other + d_own) of all comparisons, of shape (n, c)."""
    metrics = union.metrics[union.site_metric]
    seen = np.einsum("skd,nsd->nsk", metrics, points[:, None, :] - union.sites)
    squares = (seen**2).sum(axis=2)
    near, far = squares[:, own], squares[:, other]
    return np.divide(far - near, far + near, out=np.zeros_like(near), where=far + near > 0)
