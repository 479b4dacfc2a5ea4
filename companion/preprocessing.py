"""Filling, scaling and balancing, each learned from the training part of a fold alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from lvqrej.validation import check_choice, check_number, check_samples

SMOTE_NEIGHBORS = 5


@dataclass(frozen=True, eq=False)
class Fold:
    """One fold, ready for training.

    Attributes
    ----------
    X_train, y_train : arrays of shape (m, d) and (m,)
        The training part: filled, scaled and balanced.
    X_test, y_test : arrays of shape (t, d) and (t,)
        The test part: filled and scaled by what the training part taught, never balanced.
    steps : Pipeline
        The fitted filling and scaling, to take new samples in and to tell answers in the original units.
    """

    X_train: NDArray[np.float64]
    y_train: NDArray[Any]
    X_test: NDArray[np.float64]
    y_test: NDArray[Any]
    steps: Pipeline


class MeanFiller(SimpleImputer):  # type: ignore[misc]
    """Fill each missing value by the mean of its feature over the rows given to `fit`.

    scikit-learn's SimpleImputer, except that a feature without a single value is an error: it has no mean,
    and dropping it or filling it with zeros would change the data in silence.

    >>> import numpy as np
    >>> MeanFiller().fit([[1.0], [3.0], [np.nan]]).transform([[np.nan]])
    array([[2.]])
    """

    def fit(self, X: Any, y: Any = None) -> MeanFiller:
        """Learn the means of the features of `X`, of shape (n, d)."""
        empty = np.flatnonzero(np.isnan(np.asarray(X, dtype=np.float64)).all(axis=0))
        if empty.size:
            raise ValueError(
                f"X must have a value of each feature in the training part; found none in column {empty[0]}"
            )
        super().fit(X, y)
        return self


def filling_and_scaling(scale: bool = True) -> Pipeline:
    """Return the paper's two steps: missing values by the feature's mean, then mean 0 and variance 1.

    As a pipeline they learn from what `fit` is given and from nothing else.

    >>> import numpy as np
    >>> filling_and_scaling(scale=False).fit([[1.0], [3.0]]).transform([[np.nan]])
    array([[2.]])
    """
    return make_pipeline(MeanFiller(), StandardScaler()) if scale else make_pipeline(MeanFiller())


def prepared_fold(
    X: Any,
    y: Any,
    train: Any,
    test: Any,
    *,
    scale: bool = True,
    how: str | None = None,
    random_state: int = 0,
) -> Fold:
    """Return the fold with the rows `train` and `test` of `X` and `y`, prepared as the paper does.

    Filling and scaling are fitted on the rows `train`, before balancing; SMOTE then looks for neighbours
    in scaled units. The rows `test` influence nothing but their own images.

    Parameters
    ----------
    X : array or DataFrame of shape (n, d)
        NaN where a value is missing.
    y : array of shape (n,)
    train, test : arrays of row numbers
    scale : bool, default True
    how, random_state
        As in `balanced_training_part`.

    Examples
    --------
    >>> import numpy as np
    >>> fold = prepared_fold([[0.0], [2.0], [np.nan], [4.0]], [0, 1, 1, 0], train=[0, 1, 2], test=[3])
    >>> fold.steps[0].statistics_, fold.X_train.ravel().round(2), fold.X_test.ravel().round(2)
    (array([1.]), array([-1.22,  1.22,  0.  ]), array([3.67]))
    """
    samples, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    train, test = np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)
    shared = np.intersect1d(train, test)
    if shared.size:
        raise ValueError(f"train and test must have no row in common; found row {shared[0]} in both")
    steps = filling_and_scaling(scale).fit(samples[train])
    X_train, y_train = balanced_training_part(
        steps.transform(samples[train]), labels[train], how, random_state
    )
    return Fold(X_train, y_train, steps.transform(samples[test]), labels[test], steps)


def balanced_training_part(
    X: Any, y: Any, how: str | None = None, random_state: int = 0
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return a training part with equally many samples of each class.

    Only ever given the training part: a synthetic neighbour of a test sample, or a test part with another
    share of classes than reality, would flatter every result.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
    how : {"smote", "undersample", None}
        "smote" adds samples between neighbours of the smaller classes (the paper's Flip), "undersample"
        keeps a random part of the larger ones (the paper's T21), None returns the part as it is.
    random_state : int, default 0

    Returns
    -------
    X, y : arrays of shape (m, d) and (m,)

    Examples
    --------
    >>> X, y = balanced_training_part([[0.0], [1.0], [2.0]], [0, 0, 1], "undersample")
    >>> X.shape, y.tolist()
    ((2, 1), [0, 1])
    """
    samples, labels = check_samples(X), np.asarray(y)
    seed = int(check_number(random_state, "random_state", low=0, integer=True))
    if labels.shape != (len(samples),):
        raise ValueError(f"y must have shape ({len(samples)},); found {labels.shape}")
    if how is None:
        return samples, labels
    check_choice(how, "how", ("smote", "undersample"))
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes to balance; found {classes.tolist()}")
    if how == "smote" and counts.min() <= SMOTE_NEIGHBORS:
        rare = classes[counts.argmin()]
        raise ValueError(
            f"SMOTE needs {SMOTE_NEIGHBORS + 1} samples of each class; found {counts.min()} of {rare}"
        )
    balanced: tuple[NDArray[np.float64], NDArray[Any]] = _sampler(how, seed).fit_resample(samples, labels)
    return balanced


def _sampler(how: str, seed: int) -> Any:
    from imblearn.over_sampling import SMOTE  # takes a second to load
    from imblearn.under_sampling import RandomUnderSampler

    if how == "smote":
        return SMOTE(k_neighbors=SMOTE_NEIGHBORS, random_state=seed)
    return RandomUnderSampler(random_state=seed)
