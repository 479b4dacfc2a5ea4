"""Counterfactuals among the training data: one more ball for each class, around its samples.

The paper names this extension: a convex constraint keeps the answer where data of its class lies. It is part
of what is accepted, so `explain` and all of `lvqrej.variants` take it as any other certainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.covariance import ledoit_wolf

from lvqrej._validation import check_number, check_samples, describe
from lvqrej.cells import Ball, HalfSpace
from lvqrej.certainty import Certainty
from lvqrej.engine.search import Found, nothing_found
from lvqrej.engine.validity import nearest

Floats = NDArray[np.float64]

#: What is added to each variance, relative to their mean: few samples may leave a covariance singular.
_RIDGE = 1e-6
#: Relative rounding of a radius that the test of a region forgives.
_ROUNDING = 1e-12


class Plausible(Certainty):
    """A certainty that accepts only inputs among the training data of the class they are accepted as.

    A class's region is the ellipsoid (x - mean)' S^-1 (x - mean) <= rho^2, S the shrunken covariance of its
    samples (Ledoit and Wolf, in standard units), rho such that it holds a share `level` of them.

    Parameters
    ----------
    option : Certainty
    data : array-like of shape (n, d)
        Training samples, in the units of `option`.
    labels : array-like of shape (n,)
        Their classes, at least two samples of each of the option's.
    level : float
        Share of a class's samples that its region holds, above 0, at most 1.

    Attributes
    ----------
    regions : list of Ball
        One per class of the option.

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel, explain
    >>> data, labels = [[0, 0], [0, 1], [1, 1], [3, 0], [4, 1], [4, 0]], ["a", "a", "a", "b", "b", "b"]
    >>> option = DecisionDistance(PrototypeModel([[0.3, 0.7], [3.7, 0.3]], ["a", "b"]))
    >>> near = Plausible(option, data, labels, level=1.0)
    >>> [round(explain(one, 0.3, [2, 3]).distance, 2) for one in (option, near)]
    [0.74, 2.66]
    """

    def __init__(self, option: Certainty, data: ArrayLike, labels: ArrayLike, level: float = 0.95) -> None:
        if not isinstance(option, Certainty):
            raise ValueError(
                f"option must be a certainty such as RelativeSimilarity; found {describe(option)}"
            )
        self.plain = option
        self.name = option.name  # type: ignore[misc]  # that of the certainty, whatever it is
        self.classes, self.n_features = option.classes, option.n_features
        self.feature_names = option.feature_names
        self.level = check_number(level, "level", low=0, high=1, low_open=True)
        self.regions = _regions(option, data, labels, self.level)

    def certainty(self, X: ArrayLike) -> Floats:
        """Return the certainty itself, of shape (n,)."""
        return self.plain.certainty(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label an accepted sample gets, of shape (n,)."""
        return self.plain.predict(X)

    def accepts(self, X: ArrayLike, theta: float) -> NDArray[np.bool_]:
        """Return whether a sample is certain enough and in the region of its label, of shape (n,)."""
        samples = check_samples(X, self.n_features)
        return self.plain.accepts(samples, theta) & self.inside(samples, self.predict(samples))

    def inside(self, X: Floats, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each sample is in the region of its label, of shape (n,)."""
        result = np.zeros(len(X), dtype=bool)
        for label, ball in zip(self.classes, self.regions, strict=True):
            mine = labels == label
            # Row by row, so that a sample gets the same bits in any batch.
            seen = ((X[mine] - ball.centre)[:, None, :] * ball.L).sum(axis=2)
            result[mine] = np.sqrt((seen**2).sum(axis=1)) <= ball.radius * (1 + _ROUNDING)
        return result

    def cells(self, theta: float) -> Any:
        """Return the option's cells, each cut by the region of its class."""
        union = self.plain.cells(theta)
        parts = [union.with_label(i).narrowed([ball]) for i, ball in enumerate(self.regions)]
        return JoinedSets(tuple(parts), tuple(range(len(parts))))


def _regions(option: Certainty, data: ArrayLike, labels: ArrayLike, level: float) -> list[Ball]:
    samples = check_samples(data, option.n_features, name="data")
    given = np.asarray(labels)
    if given.shape != (len(samples),):
        raise ValueError(f"labels must have shape ({len(samples)},); found shape {given.shape}")
    scale = samples.std(axis=0)
    if (scale == 0).any():
        k = np.flatnonzero(scale == 0).tolist()
        raise ValueError(f"data must vary in every feature; it is constant in {k}")
    regions = []
    for label in option.classes:
        mine = samples[given == label]
        if len(mine) < 2:
            raise ValueError(f"labels must name each class at least twice; found {len(mine)} of {label!r}")
        centre = mine.mean(axis=0)
        covariance, _ = ledoit_wolf((mine - centre) / scale, assume_centered=True)
        spread = covariance.trace() / len(scale)
        if spread == 0:
            raise ValueError(f"data must vary within each class; all samples of {label!r} are the same")
        covariance += _RIDGE * spread * np.eye(len(scale))
        # S = C C' gives |C^-1 y|^2 = y' S^-1 y
        L = np.linalg.inv(np.linalg.cholesky(covariance)) / scale
        distances = np.linalg.norm((mine - centre) @ L.T, axis=1)
        regions.append(Ball(centre, float(np.quantile(distances, level, method="higher")), L))
    return regions


@dataclass(frozen=True, eq=False)
class JoinedSets:
    """The union of accepted sets of any kind, each of one label: the nearest point is the nearest of all."""

    parts: tuple[Any, ...]
    labels: tuple[int, ...]

    def with_label(self, label: int) -> JoinedSets:
        """Return the parts accepted as the class of this index."""
        chosen = [i for i, own in enumerate(self.labels) if own == label]
        return JoinedSets(tuple(self.parts[i] for i in chosen), tuple(self.labels[i] for i in chosen))

    def narrowed(self, extra: Sequence[Ball | HalfSpace]) -> JoinedSets:
        """Return the set cut by further balls and half-spaces."""
        return replace(self, parts=tuple(part.narrowed(list(extra)) for part in self.parts))

    def nearest(self, X: Floats, *arguments: Any) -> Found:
        """Return the nearest points over all parts; the bound is the smallest of theirs."""
        best = nothing_found(*X.shape)
        for number, part in enumerate(self.parts):
            found = nearest(part, X, *arguments)
            nearer = found.distances < best.distances
            best.bounds[:] = np.minimum(best.bounds, found.bounds)
            for mine, other in ((best.deltas, found.deltas), (best.distances, found.distances)):
                mine[nearer] = other[nearer]
            best.paths[nearer] = found.paths[nearer]
            best.cells[nearer] = found.cells[nearer] * len(self.parts) + number
        return best

    def active(self, cell: int, x: Floats) -> list[str]:
        """Say in words which constraints of a cell are tight at x."""
        words = self.parts[cell % len(self.parts)].active(cell // len(self.parts), x)
        return [
            word.replace("an added centre", "the mean of its class, as far as its data goes")
            for word in words
        ]
