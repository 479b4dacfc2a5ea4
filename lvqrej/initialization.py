"""Where the training of LVQ models starts: prototypes, matrix, and the coordinates it runs in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from lvqrej._validation import LARGEST, check_number, check_samples, describe, dimensions, shape_of

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Standard deviation of a feature, relative to its largest value, that is taken for rounding error.
LEAST_STD = 1e-12
#: Relative variance below which a direction counts as having none.
LEAST_VARIANCE = 1e-8
#: Curvature of the log-determinant relative to that of the rest of the cost; found by trial.
REGULARIZED_VARIANCE = 20.0
#: Training squares values, and sums over samples.
LARGEST_VALUE = 1e140


@dataclass
class Coordinates:
    """Coordinates z = W'(x - mean) in which the cost has a rounder valley.

    The Hessian of the cost by a row of L resembles the covariance of the data, so that a matrix is learned
    in whitened coordinates: on Breast Cancer L-BFGS then needs tens of iterations and not thousands, and
    rounding errors are not amplified on the way. It is the same problem: L z = (L W') (x - mean).

    Attributes
    ----------
    mean, std : arrays of shape (d,)
        Mean and standard deviation of the features, 1 for a constant one.
    W, inverse : arrays of shape (d, d)
    """

    mean: Array
    std: Array
    W: Array
    inverse: Array

    @classmethod
    def of(cls, X: Array, *, whiten: bool, regularization: float = 0.0) -> Coordinates:
        """Return whitened coordinates of `X`, or centred ones in units of its spread if not `whiten`."""
        mean = X.sum(axis=0) / len(X)
        largest = np.abs(X).max(axis=0)
        check_size(largest.max(), "X")
        std = np.sqrt(np.square(X - mean).sum(axis=0) / len(X))
        std[std <= LEAST_STD * largest] = 1.0
        d = len(std)
        if not whiten:
            spread = np.sqrt(np.square(std).sum() / d)
            return cls(mean, std, np.diag(np.full(d, 1 / spread)), np.diag(np.full(d, spread)))
        Z = (X - mean) / std
        correlation = Z.T @ Z / len(Z)
        # The Hessian of the regularisation resembles the identity: with it, less is whitened.
        ridge = REGULARIZED_VARIANCE * regularization * np.sum(std**2)
        variances, axes = np.linalg.eigh(correlation + ridge * np.diag(1 / std**2))
        # W must be invertible; along directions without variance nothing moves anyway.
        roots = np.sqrt(np.maximum(variances, LEAST_VARIANCE * (variances[-1] or 1.0)))
        return cls(mean, std, ((axes / roots) @ axes.T) / std[:, None], ((axes * roots) @ axes.T) * std)


def check_size(largest: float, name: str) -> None:
    """Raise a ValueError if squares of values of this size overflow, or vanish."""
    if largest > LARGEST_VALUE or 0 < largest < 1 / LARGEST_VALUE:
        raise ValueError(
            f"{name} must have values up to {LARGEST_VALUE:g}, and not all below {1 / LARGEST_VALUE:g}, as "
            f"they are squared; found {largest:g} as the largest: scale it"
        )


def prototype_counts(given: Any, classes: NDArray[Any]) -> list[int]:
    """Return the number of prototypes of each class: `given` itself, or the same for all.

    >>> prototype_counts(2, np.array(["a", "b"]))
    [2, 2]
    """
    if dimensions(given) == 0:
        given = [given] * len(classes)
    if len(given) != len(classes):
        raise ValueError(
            f"prototypes_per_class must have one entry per class ({len(classes)}); found {len(given)}"
        )
    return [int(check_number(count, "prototypes_per_class", low=1, integer=True)) for count in given]


def class_centres(
    X: Array, targets: Indices, classes: NDArray[Any], counts: list[int], random_state: Any
) -> tuple[Array, Indices]:
    """Return the mean of each class, or as many k-means centres as `counts` asks for.

    Parameters
    ----------
    X : array of shape (n, d)
    targets : array of shape (n,)
        The class of each sample, counted from 0.
    classes : array of shape (n_classes,)
    counts : list of int
    random_state : int, RandomState or None
        For k-means only: setting up a generator takes as long as a quarter of a small training.

    Returns
    -------
    prototypes : array of shape (m, d)
    prototype_classes : array of shape (m,)
        Counted from 0.
    """
    centres = []
    random_state = check_random_state(random_state) if max(counts) > 1 else None
    for label, count in enumerate(counts):
        members = X[targets == label]
        if len(members) < count:
            raise ValueError(
                "prototypes_per_class must not exceed the number of samples of a class; found "
                f"{count} prototypes for the {len(members)} samples of class {classes[label]!r}"
            )
        if count == 1:
            centres.append(members.sum(axis=0)[None] / len(members))
        else:
            centres.append(KMeans(count, n_init=10, random_state=random_state).fit(members).cluster_centers_)
    return np.concatenate(centres), np.repeat(np.arange(len(counts)), counts)


def given_prototypes(given: Any, d: int, classes: NDArray[Any]) -> tuple[Array, Indices]:
    """Take `initial_prototypes`, of shape (m, d + 1), apart into prototypes and classes counted from 0."""
    if dimensions(given) != 2 or np.shape(given)[1] != d + 1:
        raise ValueError(
            f"initial_prototypes must have shape (m, {d + 1}): {d} features and the label; "
            f"found {shape_of(given)}"
        )
    rows = np.asarray(given)
    matches = rows[:, -1][:, None] == classes
    if not (matches.any(axis=1).all() and matches.any(axis=0).all()):
        raise ValueError(
            f"initial_prototypes must have labels that are the classes of y ({classes.tolist()}), "
            f"each at least once; found {rows[:, -1].tolist()}"
        )
    prototypes = check_samples(rows[:, :-1], name="initial_prototypes")
    check_size(np.abs(prototypes).max(), "initial_prototypes")
    return prototypes, matches.argmax(axis=1)


def initial_matrix(given: Any, k: int, P: Array, space: Coordinates) -> Array:
    """Return L, of shape (k, d), to start from, in the coordinates of `space`.

    It is `given`, or the identity in units of the features' standard deviations, or if k < d the first k
    directions in which the prototypes `P` differ in whitened coordinates, the axes of a linear discriminant
    analysis; scaled such that its squared entries have the sum k.
    """
    d = P.shape[1]
    if given is not None:
        start = check_samples(given, d, name="initial_matrix")
        check_size(np.abs(start).max(), "initial_matrix")
        L = start @ space.inverse.T
        if not L.any():
            raise ValueError("initial_matrix must not be zero; found only zeros")
    elif k == d:
        L = space.inverse.T / space.std[:, None]
    else:
        L = np.linalg.svd((P - space.mean) @ space.W)[2][:k]
    return L * np.sqrt(len(L)) / np.linalg.norm(L)


def cost_weights(given: Any, classes: NDArray[Any]) -> Array:
    """Return the weights c listed in `given`, of shape (n_classes, n_classes), 1 if not listed.

    >>> cost_weights([("a", "b", 3.0)], np.array(["a", "b"]))
    array([[1., 3.],
           [1., 1.]])
    """
    weights = np.ones((len(classes), len(classes)))
    known = classes.tolist()
    if given is not None and not isinstance(given, (list, tuple, np.ndarray)):
        raise ValueError(f"c must be a list of (label, label, weight); found {describe(given)}")
    for row in [] if given is None else given:
        listed = isinstance(row, (list, tuple, np.ndarray)) and len(row) == 3
        if not listed or row[0] not in known or row[1] not in known:
            raise ValueError(f"c must list (label, label, weight) with labels of y; found {row!r}")
        weight = check_number(row[2], "the weight in c", low=0, low_open=True, high=LARGEST)
        weights[classes == row[0], classes == row[1]] = weight
    return weights
