"""How certain is the model? The paper's certainties r(x); an input is accepted where r(x) >= theta."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej._validation import check_choice, check_number, describe
from lvqrej.prototypes import PrototypeModel, squared_distances


class Certainty(ABC):
    """What every certainty offers: r(x), the test r(x) >= theta, and the label that goes with it."""

    #: The paper's name of the certainty, as sentences and figures use it.
    name: ClassVar[str]
    classes: NDArray[Any]
    n_features: int
    feature_names: list[str] | None

    @abstractmethod
    def certainty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return r(x) for each sample, of shape (n,)."""

    @abstractmethod
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label an accepted sample gets, of shape (n,)."""

    def accepts(self, X: ArrayLike, theta: float) -> NDArray[np.bool_]:
        """Return whether r(x) >= theta for each sample, of shape (n,), without any tolerance."""
        return self.certainty(X) >= check_theta(theta)


class PrototypeCertainty(Certainty):
    """A certainty read off the nearest prototype p+ and the nearest one of another class, p-."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, PrototypeModel):
            raise ValueError(f"model must be a PrototypeModel; found {describe(model)}")
        self.model = model
        self.classes = model.classes
        self.n_features = model.n_features
        self.feature_names = model.feature_names

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest prototype, of shape (n,)."""
        return self.model.predict(X)

    def _nearest_two(self, X: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp], Any, Any]:
        """Return the indices of p+ and p- (the first on a tie) and the distances d+ and d-."""
        distances = self.model.distances(X)
        rows = np.arange(len(distances))
        plus = distances.argmin(axis=1)
        own_class = self.model.class_index == self.model.class_index[plus][:, None]
        minus = np.where(own_class, np.inf, distances).argmin(axis=1)
        return plus, minus, distances[rows, plus], distances[rows, minus]


class RelativeSimilarity(PrototypeCertainty):
    """Relative similarity, between 0 (on a decision boundary) and 1 (on a prototype).

    r(x) = (d- - d+) / (d- + d+) with d+ = d(x, p+), d- = d(x, p-); where both distances vanish (two
    prototypes of different classes coincide in the metric) it is 0.

    Examples
    --------
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> option.certainty([[0, 0], [0.5, 0], [1, 3]])
    array([1. , 0.8, 0. ])
    >>> option.accepts([[0, 0], [0.5, 0], [1, 3]], theta=0.5)
    array([ True,  True, False])
    """

    name = "relative similarity"

    def certainty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return r(x) in [0, 1], of shape (n,)."""
        _, _, d_plus, d_minus = self._nearest_two(X)
        total = d_minus + d_plus
        return np.divide(d_minus - d_plus, total, out=np.zeros_like(total), where=total > 0)


class DecisionDistance(PrototypeCertainty):
    """Distance to the decision boundary, 0 on it and growing without bound away from it.

    r(x) = (d- - d+) / (2 D(p+, p-)); where D vanishes (two prototypes of different classes coincide, up
    to rounding) it is 0.

    Parameters
    ----------
    model : PrototypeModel
    norm : {"metric", "euclidean"}
        ``D(p, q) = |L (p - q)|^2``, as the paper's appendix expands it, or ``|p - q|^2``, as its
        definition prints it.

    Examples
    --------
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> option.certainty([[0, 0], [0.5, 0], [-3, 0]])
    array([0.5 , 0.25, 2.  ])
    """

    name = "distance to the decision boundary"

    def __init__(self, model: Any, norm: str = "metric") -> None:
        super().__init__(model)
        self.norm = check_choice(norm, "norm", ("metric", "euclidean"))
        Lt = self.model._Lt if norm == "metric" else np.eye(self.n_features)
        P, magnitudes = self.model.prototypes, np.abs(self.model.prototypes)
        self.separations = squared_distances(P, P, Lt)
        # A metric of deficient rank maps twins onto each other up to rounding; dividing by that is noise.
        rounding = 4 * np.finfo(float).eps
        noise = rounding**2 * squared_distances(magnitudes, -magnitudes, np.abs(Lt))
        self.separations[self.separations <= noise] = 0

    def certainty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return r(x) >= 0, of shape (n,)."""
        plus, minus, d_plus, d_minus = self._nearest_two(X)
        scale = 2 * self.separations[plus, minus]
        return np.divide(d_minus - d_plus, scale, out=np.zeros_like(scale), where=scale > 0)


def check_theta(theta: Any) -> float:
    """Return the threshold as a finite float, or raise a ValueError."""
    return check_number(theta, "theta", low=-np.finfo(float).max, high=np.finfo(float).max)
