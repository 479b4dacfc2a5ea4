"""Counterfactuals among the training data: one more ball for each class, around its samples.

The paper names this extension: a convex constraint keeps the answer where data of its class lies. It is part
of what is accepted, so `explain` and all of `lvqrej.variants` take it as any other certainty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.cells import AcceptedSet, Ball
from lvqrej.certainty import Certainty, Restricted, Verdicts
from lvqrej.prototypes import squared_distances
from lvqrej.validation import Floats, check_number, check_samples

#: What is added to each variance, relative to their mean: few samples may leave a covariance singular.
_RIDGE = 1e-6


class Plausible(Restricted):
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
        super().__init__(option)
        self.level = check_number(level, "level", low=0, high=1, low_open=True)
        self.regions = _regions(option, data, labels, self.level)

    def judged(self, X: ArrayLike, theta: float) -> tuple[Verdicts, NDArray[np.bool_]]:
        """Return the verdicts, and whether each sample is accepted and in the region of its label."""
        samples = check_samples(X, self.n_features, allow_empty=True)
        verdicts, accepted = self.option.judged(samples, theta)
        for i, region in enumerate(self.regions):
            mine = accepted & (verdicts.label == i)
            accepted[mine] = _distances(samples[mine], region.centre, region.L) <= region.radius
        return verdicts, accepted

    def cells(self, theta: float) -> AcceptedSet:
        """Return the accepted set of the certainty, cut for each class by its region."""
        accepted = self.option.cells(theta)
        for i, region in enumerate(self.regions):
            accepted = accepted.narrowed([region], label=i)
        return accepted


def _regions(option: Certainty, data: ArrayLike, labels: ArrayLike, level: float) -> list[Ball]:
    """Return the ellipsoid of each class as a ball |L (x - mean)| <= rho."""
    from sklearn.covariance import ledoit_wolf  # takes two seconds

    samples = option.columns.lifted(data, "data")
    given = np.asarray(labels)
    if given.shape != (len(samples),):
        raise ValueError(f"labels must have shape ({len(samples)},); found shape {given.shape}")
    scale = samples.std(axis=0)
    scale[~option.columns.numbers & (scale == 0)] = 1.0  # levels that never occur
    if (scale == 0).any():
        k = np.flatnonzero(scale == 0).tolist()
        raise ValueError(f"data must vary in every feature; it is constant in {k}")
    regions = []
    for label in option.classes:
        mine = samples[given == label]
        if len(mine) < 2:
            raise ValueError(f"labels must name each class at least twice; found {len(mine)} of {label!r}")
        mean = mine.mean(axis=0)
        covariance, _ = ledoit_wolf((mine - mean) / scale, assume_centered=True)
        spread = covariance.trace() / len(scale)
        if spread == 0:
            raise ValueError(f"data must vary within each class; all samples of {label!r} are the same")
        covariance += _RIDGE * spread * np.eye(len(scale))
        # S = C C' gives |C^-1 y|^2 = y' S^-1 y
        L = np.linalg.inv(np.linalg.cholesky(covariance)) / scale
        rho = np.quantile(_distances(mine, mean, L), level, method="higher")
        regions.append(Ball(mean, float(rho), L))
    return regions


def _distances(X: Floats, mean: Floats, L: Floats) -> Floats:
    """Return |L (x - mean)|, of shape (n,), the same bits in any batch: one sample lies on the boundary."""
    return np.sqrt(squared_distances(X, mean[None], L)[:, 0])
