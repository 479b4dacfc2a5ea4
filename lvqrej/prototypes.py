"""Labelled prototypes and a metric: all that certainties and counterfactuals need of an LVQ model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from lvqrej._validation import LARGEST, check_names, check_samples, classes_of, describe, dimensions, shape_of

#: The largest squared distance: the sum of two has to be a number as well.
_LARGEST = LARGEST / 4


@njit(cache=True)
def squared_distances(
    X: NDArray[np.float64], prototypes: NDArray[np.float64], Lt: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return d(x, p) = |L (x - p)|^2 for all rows x of `X` and p of `prototypes`; `Lt` is L transposed.

    A loop and not a matrix product: each row sees the same operations in the same order whether it comes
    alone or in a batch, so that a certainty has the same last bit and a test at the boundary one answer.
    The difference is taken before it is projected, which keeps digits when data lie far from the origin.
    """
    n, d = X.shape
    m, k = prototypes.shape[0], Lt.shape[1]
    result = np.empty((n, m))
    z = np.empty(k)
    for i in range(n):
        for j in range(m):
            z[:] = 0.0
            for f in range(d):
                difference = X[i, f] - prototypes[j, f]
                for r in range(k):
                    z[r] += Lt[f, r] * difference
            total = 0.0
            for r in range(k):
                total += z[r] * z[r]
            result[i, j] = total
    return result


def finite_distances(
    X: NDArray[np.float64], prototypes: NDArray[np.float64], Lt: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the `squared_distances`, or raise a ValueError if one is too large to be a number."""
    distances = squared_distances(X, prototypes, Lt)
    if not (distances <= _LARGEST).all():
        row = int((distances <= _LARGEST).all(axis=1).argmin())
        raise ValueError(
            f"X must be near enough for squared distances up to {_LARGEST:.1g}; "
            f"found {describe(X[row].tolist())} at row {row}"
        )
    return distances


class PrototypeModel:
    """Prototypes p_1..p_m with labels and the metric d(x, p) = |L (x - p)|^2.

    Parameters
    ----------
    prototypes : array-like of shape (m, d)
    labels : array-like of shape (m,)
        The class of each prototype; at least two classes.
    L : array-like of shape (k, d), optional
        Factor of the metric, Omega = L'L, of any rank; the identity if None.
    feature_names : list of str, optional

    Examples
    --------
    >>> model = PrototypeModel([[0, 0], [2, 0]], ["a", "b"])
    >>> model.distances([[0.5, 0]])
    array([[0.25, 2.25]])
    >>> model.predict([[0.5, 0]])
    array(['a'], dtype='<U1')
    """

    def __init__(
        self,
        prototypes: ArrayLike,
        labels: ArrayLike,
        L: ArrayLike | None = None,
        feature_names: list[str] | None = None,
    ) -> None:
        self.prototypes = check_samples(prototypes, name="prototypes")
        m, d = self.prototypes.shape
        if dimensions(labels) != 1 or np.shape(labels) != (m,):
            raise ValueError(f"labels must have one entry per prototype ({m}); found {shape_of(labels)}")
        self.labels: NDArray[Any] = np.asarray(labels)
        self.L = np.eye(d) if L is None else check_samples(L, d, name="L")
        self.classes, self.class_index = classes_of(self.labels, "labels")
        if len(self.classes) < 2:
            raise ValueError(
                "labels must name at least two classes, as a certainty compares two; "
                f"found only {self.classes.tolist()}"
            )
        if feature_names is not None and (dimensions(feature_names) != 1 or len(feature_names) != d):
            raise ValueError(f"feature_names must be a list of {d} names; found {describe(feature_names)}")
        self.feature_names = None if feature_names is None else list(feature_names)
        self._Lt = np.ascontiguousarray(self.L.T)

    @classmethod
    def of(cls, x: Any) -> PrototypeModel:
        """Return the prototype model behind `x`, in the units of the data that `x` predicts for.

        Parameters
        ----------
        x : PrototypeModel, fitted estimator, fitted Pipeline or tuple
            A GLVQ or GMLVQ of lvqrej, sklearn-lvq or sklvq; a pipeline of scalers (StandardScaler,
            MinMaxScaler, MaxAbsScaler, RobustScaler, "passthrough") that ends in one; or the arrays
            (prototypes, labels) or (prototypes, labels, L).

        Examples
        --------
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> from lvqrej.lvq import GLVQ
        >>> X, y = [[0, 10], [2, 10], [0, 50], [2, 50]], ["low", "low", "high", "high"]
        >>> model = PrototypeModel.of(make_pipeline(StandardScaler(), GLVQ()).fit(X, y))
        >>> model.prototypes.round(1)
        array([[ 1. , 58.3],
               [ 1. ,  1.7]])
        >>> model.predict([[1, 12]])
        array(['low'], dtype='<U4')
        """
        if isinstance(x, cls):
            return x
        from lvqrej.wrapping import parts_of  # needs scikit-learn, which arrays alone do not

        return cls(*parts_of(x))

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.prototypes.shape[1]

    def distances(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return d(x, p_j), of shape (n, m)."""
        samples = check_samples(X, self.n_features)
        check_names(X, self.feature_names)
        return finite_distances(samples, self.prototypes, self._Lt)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest prototype (the first one on a tie), of shape (n,)."""
        return self.labels[self.distances(X).argmin(axis=1)]
