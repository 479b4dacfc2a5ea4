"""The same evaluation for every method: how valid, near, sparse and optimal its counterfactuals are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from lvqrej._validation import check_samples
from lvqrej.certainty import Certainty
from lvqrej.counterfactual import explain

#: A feature counts as changed above this, as in the paper's published code.
CHANGED = 1e-5


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
    >>> from lvqrej.certainty import RelativeSimilarity
    >>> from lvqrej.prototypes import PrototypeModel
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> evaluate(option, 0.6, [[0.9, 0.0]], {"prototype": lambda X: 0 * X, "nothing": lambda X: X}).round(2)
          method  valid   l1   l0   gap
    0  prototype    1.0  0.9  1.0  0.74
    1    nothing    0.0  0.0  0.0   NaN
    """
    samples = check_samples(X, option.n_features)
    bounds = explain(option, theta, samples).lower_bounds
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
