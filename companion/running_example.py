"""The running example of the book: two features of Wine, six prototypes, one rejected wine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine

from lvqrej import GMLVQ, PrototypeModel, accuracy_reject_curve
from lvqrej.certainty import Certainty


@dataclass(frozen=True, eq=False)
class RunningExample:
    """The same plane, model and rejected wine through the chapters of the book.

    Attributes
    ----------
    X : array of shape (178, 2)
        Flavanoids and colour intensity of Wine, standardised.
    y : array of shape (178,)
        The cultivar, "A", "B" or "C".
    feature_names : list of str
    model : PrototypeModel
        GMLVQ with two prototypes per class.
    rejected : int
        The row of `X` that the chapters explain.
    limits : ((x0, x1), (y0, y1))
        The part of the plane that figures show.
    means, scales : arrays of shape (2,)
        A feature as it was measured is its value here times its scale, plus its mean.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    feature_names: list[str]
    model: PrototypeModel
    rejected: int
    limits: tuple[tuple[float, float], tuple[float, float]]
    means: NDArray[np.float64]
    scales: NDArray[np.float64]

    @property
    def x(self) -> NDArray[np.float64]:
        """The rejected sample, of shape (2,)."""
        return self.X[self.rejected]

    def as_measured(self) -> RunningExample:
        """Return the same example in the units of the measurements; certainties stay as they are.

        The distance of the chapters, in standard deviations, is had with ``weights=1 / example.scales``.

        >>> running_example().as_measured().x.round(2).tolist()
        [1.59, 4.8]
        """
        prototypes = self.model.prototypes * self.scales + self.means
        L = self.model.L / self.scales
        model = PrototypeModel(prototypes, self.model.labels, L, feature_names=self.feature_names)
        # No measurement is negative.
        ends = [
            (max(m + s * low, 0.0), float(m + s * high))
            for (low, high), m, s in zip(self.limits, self.means, self.scales, strict=True)
        ]
        return replace(self, X=self.X * self.scales + self.means, model=model, limits=(ends[0], ends[1]))

    def threshold(self, option: Certainty) -> float:
        """Return the threshold at which `option` rejects a fifth of the samples: a fair comparison."""
        correct = option.predict(self.X) == self.y
        return accuracy_reject_curve(option.certainty(self.X), correct).at_reject_rate(0.2).threshold


def running_example() -> RunningExample:
    """Return the running example, trained anew (a fraction of a second, the same result every time).

    >>> example = running_example()
    >>> example.X.shape, example.model.prototypes.shape
    ((178, 2), (6, 2))
    """
    wine = load_wine(as_frame=True)
    features = ["flavanoids", "color_intensity"]
    raw = wine.data[features].to_numpy()
    means, scales = raw.mean(axis=0), raw.std(axis=0)
    X = (raw - means) / scales
    y = np.array(["A", "B", "C"])[wine.target]
    names = ["flavanoids", "colour intensity"]
    trained = GMLVQ(prototypes_per_class=2, regularization=0, random_state=0).fit(X, y)
    model = PrototypeModel(trained.w_, trained.c_w_, trained.omega_, feature_names=names)
    limits = ((-2.2, 3.4), (-2.2, 3.8))
    return RunningExample(X, y, names, model, rejected=83, limits=limits, means=means, scales=scales)
