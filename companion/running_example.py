"""The running example of the book: two features of Wine, six prototypes, one rejected wine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_wine

from lvqrej import GMLVQ, PrototypeModel, accuracy_reject_curve
from lvqrej.certainty import Certainty


@dataclass(frozen=True, eq=False)
class RunningExample:
    """The same plane, model and rejected sample through chapters 2 to 8 of the book.

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
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    feature_names: list[str]
    model: PrototypeModel
    rejected: int
    limits: tuple[tuple[float, float], tuple[float, float]]

    @property
    def x(self) -> NDArray[np.float64]:
        """The rejected sample, of shape (2,)."""
        return self.X[self.rejected]

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
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    y = np.array(["A", "B", "C"])[wine.target]
    names = ["flavanoids", "colour intensity"]
    trained = GMLVQ(prototypes_per_class=2, regularization=0, random_state=0).fit(X, y)
    model = PrototypeModel(trained.w_, trained.c_w_, trained.omega_, feature_names=names)
    return RunningExample(X, y, names, model, rejected=83, limits=((-2.2, 3.4), (-2.2, 3.8)))
