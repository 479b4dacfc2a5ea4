"""Labelled prototypes and a metric: all that certainties and counterfactuals need of an LVQ model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.columns import Columns
from lvqrej.folding import fold, opened
from lvqrej.validation import (
    LARGEST,
    Floats,
    check_names,
    check_samples,
    classes_of,
    describe,
    dimensions,
    shape_of,
)

#: The largest squared distance: the sum of two has to be a number as well.
LARGEST_DISTANCE = LARGEST / 4
#: How many differences are held at once: they stay in the cache, and memory does not grow with the samples.
CHUNK = 2**16


def squared_distances(X: Floats, prototypes: Floats, L: Floats) -> Floats:
    """Return d(x, p) = |L (x - p)|^2 for all rows x of `X` and p of `prototypes`, or raise a ValueError.

    A row has the same bits alone and in a batch, so that a test at the boundary has one answer: `matmul` of
    a stack of differences is one product per sample. The difference is taken before it is projected, which
    keeps digits when data lie far from the origin.

    Parameters
    ----------
    X : array of shape (n, d)
    prototypes : array of shape (m, d)
    L : array of shape (k, d)

    Returns
    -------
    array of shape (n, m)

    Examples
    --------
    >>> squared_distances(np.array([[1.0, 1.0]]), np.zeros((1, 2)), np.array([[3.0, 4.0]]))
    array([[49.]])
    """
    diagonal = L.diagonal()
    is_diagonal = np.count_nonzero(L) == np.count_nonzero(diagonal)
    distances = np.empty((len(X), len(prototypes)))
    step = max(1, CHUNK // (len(prototypes) * max(L.shape)))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(X), step):
            # The order in memory decides in which order the last axis is summed.
            Z = np.subtract(X[start : start + step, None], prototypes, order="C")
            Z = Z[..., : len(diagonal)] * diagonal if is_diagonal else Z @ L.T
            np.square(Z, out=Z).sum(axis=-1, out=distances[start : start + step])
    if not distances.max(initial=0.0) <= LARGEST_DISTANCE:  # nor NaN
        row = int((distances <= LARGEST_DISTANCE).all(axis=1).argmin())
        raise ValueError(
            f"X must be near enough for squared distances up to {LARGEST_DISTANCE:.1g}; "
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
    columns : Columns, optional
        How a table's columns become the features, if they are not numbers already.

    Attributes
    ----------
    prototypes, labels, L, feature_names, columns
        As given, as arrays; names are those of the table's columns.
    classes : array of shape (n_classes,)
        The distinct labels, sorted.
    class_index : array of shape (m,)
        The place of each prototype's label among the classes.

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
        columns: Columns | None = None,
    ) -> None:
        self.prototypes = check_samples(prototypes, name="prototypes")
        m, d = self.prototypes.shape
        if dimensions(labels) != 1 or np.shape(labels) != (m,):
            raise ValueError(f"labels must have one entry per prototype ({m}); found {shape_of(labels)}")
        self.labels: NDArray[Any] = np.asarray(labels)
        self.L = np.eye(d) if L is None else check_samples(L, d, name="L")
        self.classes, self.class_index = classes_of(self.labels, "labels")
        number = d if columns is None else len(columns.columns)
        if feature_names is not None and (dimensions(feature_names) != 1 or len(feature_names) != number):
            raise ValueError(
                f"feature_names must be a list of {number} names; found {describe(feature_names)}"
            )
        self.feature_names = None if feature_names is None else list(feature_names)
        self.columns = Columns.numeric(d, self.feature_names) if columns is None else columns

    @classmethod
    def of(cls, x: Any, X: Any = None) -> PrototypeModel:
        """Return the prototype model behind `x`, in the units of the data that `x` predicts for.

        Parameters
        ----------
        x : PrototypeModel, fitted estimator, fitted Pipeline or tuple
            A GLVQ or GMLVQ of lvqrej, sklearn-lvq or sklvq; a pipeline of affine steps (scalers, encoders,
            SimpleImputer, PCA, TruncatedSVD, feature selection, a ColumnTransformer of these) that ends in
            one; or the arrays (prototypes, labels) or (prototypes, labels, L).
        X : array-like of shape (n, d), optional
            What a pipeline was fitted to, if that has categories or gaps.

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
        if isinstance(x, tuple) and len(x) in (2, 3):
            return cls(*x)
        if hasattr(x, "fit") and not isinstance(x, type):
            return _of_estimator(x, X)
        raise ValueError(
            "x must be a PrototypeModel, a fitted LVQ estimator, a pipeline that ends in one, or a tuple "
            f"(prototypes, labels) or (prototypes, labels, L); found {describe(x)}"
        )

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.prototypes.shape[1]

    def distances(self, X: ArrayLike) -> Floats:
        """Return d(x, p_j), of shape (n, m)."""
        samples = check_samples(X, self.n_features, allow_empty=True)
        check_names(X, self.feature_names)
        return squared_distances(samples, self.prototypes, self.L)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest prototype (the first one on a tie), of shape (n,)."""
        return self.labels[self.distances(X).argmin(axis=1)]


def _of_estimator(x: Any, X: Any) -> PrototypeModel:
    """Return the model of a fitted LVQ estimator, or of a pipeline with its steps folded into it."""
    from sklearn.utils.validation import check_is_fitted  # takes two seconds, and arrays do not need it

    *steps, (_, model) = opened(x) or [("", None)]
    if not hasattr(model, "fit"):
        raise ValueError(f"x must end in an LVQ model; found {describe(x)}")
    check_is_fitted(model)
    if hasattr(model, "w_") and hasattr(model, "c_w_"):
        prototypes, labels = np.asarray(model.w_), np.asarray(model.c_w_)
    elif hasattr(model, "prototypes_") and hasattr(model, "prototypes_labels_"):
        # sklvq's labels are positions in `classes_`.
        prototypes = np.asarray(model.prototypes_)
        labels = np.asarray(model.classes_)[model.prototypes_labels_]
    else:
        raise ValueError(f"x must be an LVQ model with prototypes; found a fitted {type(model).__name__}")
    missing = [label for label in model.classes_ if label not in labels]
    if missing:
        raise ValueError(f"x must have a prototype of each class; found none of {missing}")
    L = _metric(model)
    if steps:
        found = fold(steps, X)
        if len(found.image) != prototypes.shape[1]:
            raise ValueError(
                f"the steps before the LVQ model must have its {prototypes.shape[1]} features; found "
                f"{len(found.image)}"
            )
        names = found.columns.names if found.named else None
        columns = None if found.columns.is_plain else found.columns
        return PrototypeModel(*found.pulled_back(prototypes, L, labels), names, columns)
    names = getattr(model, "feature_names_in_", None)
    return PrototypeModel(prototypes, labels, L, None if names is None else [str(name) for name in names])


def _metric(estimator: Any) -> Any:
    """Return the factor L of a fitted estimator's metric, of shape (k, d), or None for the identity.

    It asks for the learned attributes and not for the class: in sklearn-lvq every matrix model is also an
    instance of the model without one.
    """
    L: Any = getattr(estimator, "omega_", None)
    if hasattr(estimator, "omegas_") or np.ndim(L) == 3:
        name = type(estimator).__name__
        raise ValueError(f"x must have one metric for all prototypes; found a {name}, which has several")
    relevances: Any = getattr(estimator, "lambda_", None)
    # A vector of relevances scales squared differences if alone, and features before a matrix. sklvq's
    # matrix of the same name is omega_' omega_ again.
    if np.ndim(relevances) != 1:
        return L
    if L is not None:
        return np.asarray(L) * relevances
    if np.min(relevances) < 0:
        raise ValueError(f"x must have relevances of at least 0; found {np.min(relevances)} in lambda_")
    return np.diag(np.sqrt(relevances))
