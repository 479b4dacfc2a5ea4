"""What is measured of counterfactuals, the same for every method.

How valid, near, sparse and optimal they are (`evaluate`), which features they change, what two methods share
(`overlap`), and whether the changed features name the cause (`goodness`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from lvqrej import explain
from lvqrej.certainty import Certainty
from lvqrej.validation import check_number, check_samples

#: A feature counts as changed above this, as in the published code.
CHANGED = 1e-5
#: A second count beside it, above the noise of a solver of moderate accuracy.
CLEARLY_CHANGED = 1e-3

Bools = NDArray[np.bool_]


def evaluate(
    option: Certainty,
    theta: float,
    X: ArrayLike,
    methods: Mapping[str, Callable[[NDArray[np.float64]], ArrayLike]],
) -> pd.DataFrame:
    """Compare methods on the same rejected samples, one row per method.

    Parameters
    ----------
    option : Certainty
    theta : float
    X : array-like of shape (n, d)
    methods : mapping of name to function
        From (n, d) samples to (n, d) counterfactuals; a row of NaN where the method found none.

    Returns
    -------
    DataFrame
        method; valid: share of the samples with an answer that the option accepts; l1, l0: mean distance and
        mean number of changed features of the answers; gap: mean of (l1 - lower bound) / l1 over the valid
        answers, with the certified lower bound of `explain`. NaN where there is no answer, or no valid one.

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> evaluate(option, 0.6, [[0.9, 0.0]], {"prototype": lambda X: 0 * X, "nothing": lambda X: X}).round(2)
          method  valid   l1   l0   gap
    0  prototype    1.0  0.9  1.0  0.74
    1    nothing    0.0  0.0  0.0   NaN
    """
    samples = check_samples(X, option.n_features)
    bounds = explain(option, theta, samples, noise=0).lower_bounds
    rows: list[dict[str, Any]] = []
    for name, method in methods.items():
        points = np.asarray(method(samples), dtype=float)
        if points.shape != samples.shape:
            raise ValueError(
                f"methods[{name!r}] must return one counterfactual per sample, shape {samples.shape}; "
                f"found shape {points.shape}"
            )
        found = np.isfinite(points).all(axis=1)
        valid = np.zeros(len(samples), dtype=bool)
        valid[found] = option.accepts(points[found], theta) if found.any() else []
        delta = np.abs(points - samples)
        l1, l0 = delta.sum(axis=1), (delta > CHANGED).sum(axis=1)
        away = valid & (l1 > 0)
        gaps = np.where(away, 1 - np.divide(bounds, l1, out=np.ones_like(l1), where=away), 0)
        rows.append(
            {
                "method": name,
                "valid": valid.mean(),
                "l1": _mean(l1[found]),
                "l0": _mean(l0[found]),
                "gap": _mean(gaps[valid]),
            }
        )
    return pd.DataFrame(rows)


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def changed_features(X: ArrayLike, counterfactuals: ArrayLike, above: float = CHANGED) -> Bools:
    """Return whether |delta_k| exceeds `above`, of shape (n, d).

    >>> changed_features([[0.0, 0.0]], [[1e-4, 2.0]], above=1e-3)
    array([[False,  True]])
    """
    samples = check_samples(X, allow_empty=True)
    points = check_samples(counterfactuals, samples.shape[1], "counterfactuals", allow_empty=True)
    if len(points) != len(samples):
        raise ValueError(f"counterfactuals must have {len(samples)} rows; found {len(points)}")
    return np.abs(points - samples) > check_number(above, "above", low=0)


def overlap(first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
    """Return how many features two methods both change, of shape (n,), from tables of shape (n, d).

    >>> overlap([[True, True, False]], [[False, True, True]])
    array([1])
    """
    a, b = _masks(first, "first"), _masks(second, "second")
    if a.shape != b.shape:
        raise ValueError(f"second must have shape {a.shape}, as first; found {b.shape}")
    return (a & b).sum(axis=1)


class Goodness(NamedTuple):
    """How well the changed features name the perturbed ones, each of shape (n,).

    `chance` is the precision that a random choice of features reaches on average: the share of features
    that were perturbed. The recall of a random choice of l0 features is l0 / d: a dense answer has recall 1.
    """

    recall: NDArray[np.float64]
    precision: NDArray[np.float64]
    f1: NDArray[np.float64]
    chance: NDArray[np.float64]


def goodness(changed: ArrayLike, perturbed: ArrayLike) -> Goodness:
    """Return recall, precision and F1 of the changed features against the perturbed ones.

    Parameters
    ----------
    changed : array-like of bool, shape (n, d)
    perturbed : array-like of bool, shape (d,)
        At least one feature. Where nothing was changed, precision and F1 are 0 by convention.

    Examples
    --------
    >>> result = goodness([[True, True, True, True], [True, False, False, False]], [True, True, False, False])
    >>> result.recall, result.precision, result.f1.round(2), result.chance
    (array([1. , 0.5]), array([0.5, 1. ]), array([0.67, 0.67]), array([0.5, 0.5]))
    """
    masks, truth = _masks(changed, "changed"), np.asarray(perturbed)
    if truth.dtype != bool or truth.shape != masks.shape[1:] or not truth.any():
        raise ValueError(
            f"perturbed must be {masks.shape[1]} booleans, one of them True; found {perturbed!r}"
        )
    hits, named = (masks & truth).sum(axis=1), masks.sum(axis=1)
    return Goodness(
        recall=hits / truth.sum(),
        precision=hits / np.maximum(named, 1),
        f1=2 * hits / (named + truth.sum()),
        chance=np.full(len(masks), truth.mean()),
    )


def to_hex(masks: ArrayLike) -> list[str]:
    """Return each row of a table of booleans as a number in base 16, feature 0 the lowest bit.

    >>> to_hex([[True, False, False, False, True]])
    ['11']
    """
    return [format(sum(1 << int(k) for k in np.flatnonzero(row)), "x") for row in _masks(masks, "masks")]


def from_hex(texts: list[str], n_features: int) -> Bools:
    """Return the table, of shape (n, d), that `to_hex` wrote.

    >>> from_hex(["11"], 5)
    array([[ True, False, False, False,  True]])
    """
    numbers = [int(text, 16) for text in texts]
    table = [[bool(number >> k & 1) for k in range(n_features)] for number in numbers]
    return np.array(table, dtype=bool).reshape(len(texts), n_features)


def _masks(table: ArrayLike, name: str) -> Bools:
    masks = np.asarray(table)
    if masks.dtype != bool or masks.ndim != 2:
        raise ValueError(
            f"{name} must be booleans of shape (n, d); found {masks.dtype} of shape {masks.shape}"
        )
    return masks
