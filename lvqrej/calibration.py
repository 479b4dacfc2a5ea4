"""From scores of pairs of classes to probabilities: Platt's scaling and the combination of Price et al."""

from __future__ import annotations

from math import exp, log

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from lvqrej._validation import describe


def platt_scaling(scores: ArrayLike, is_first: ArrayLike) -> tuple[float, float]:
    """Return alpha and beta of p = 1 / (1 + exp(alpha s + beta)), fitted to held-out scores.

    Platt's targets are (n_1 + 1) / (n_1 + 2) for the n_1 samples of the first class and 1 / (n_0 + 2) for
    the n_0 others. Each sample enters an unpenalised logistic regression with both labels, weighted by its
    target: that is Platt's problem exactly, and its solution is finite even for separable scores.

    >>> alpha, beta = platt_scaling([-0.5, -0.1, 0.2, 0.6], [False, False, True, True])
    >>> alpha < 0
    True
    """
    s, first = np.asarray(scores, dtype=np.float64), np.asarray(is_first, dtype=bool)
    if s.ndim != 1 or len(s) == 0 or not np.isfinite(s).all():
        raise ValueError(f"scores must be finite, of shape (n,) with n at least 1; found {describe(scores)}")
    if first.shape != s.shape:
        raise ValueError(f"is_first must have one entry per score ({len(s)}); found shape {first.shape}")
    n, n_first = len(s), np.count_nonzero(first)
    target = np.where(first, (n_first + 1) / (n_first + 2), 1 / (n - n_first + 2))
    centre, scale = s.mean(), s.std()
    if scale <= np.finfo(float).eps:  # scores within [-1, 1] that differ by rounding only tell nothing
        return 0.0, float(np.log((1 - target).sum() / target.sum()))
    z = (s - centre) / scale
    regression = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=1000)
    regression.fit(
        np.concatenate((z, z))[:, None], np.repeat([1, 0], n), np.concatenate((target, 1 - target))
    )
    slope = regression.coef_[0, 0] / scale
    return float(-slope), float(slope * centre - regression.intercept_[0])


@njit(cache=True)
def price_combination(exponents: NDArray[np.float64], normalize: bool = False) -> NDArray[np.float64]:
    """Return p_i = 1 / (1 + sum_{j != i} exp(t_ij)), of shape (n, K), for exponents t of shape (n, K, K).

    The largest exponent above 0 is taken out of numerator and denominator, so nothing overflows, and the
    normalisation shifts log p_i, so it is defined where every p_i underflows. A loop over rows with a scalar
    exponential: a vectorised one may give other last bits at the end of a batch than inside it.
    """
    n, K = exponents.shape[0], exponents.shape[1]
    result = np.empty((n, K))
    log_p = np.empty(K)
    for row in range(n):
        for i in range(K):
            top = 0.0
            for j in range(K):
                if j != i:
                    top = max(top, exponents[row, i, j])
            own = exp(-top)
            total = own
            for j in range(K):
                if j != i:
                    total += exp(exponents[row, i, j] - top)
            result[row, i] = own / total
            log_p[i] = -top - log(total)
        if normalize:
            highest, total = log_p.max(), 0.0
            for i in range(K):
                result[row, i] = exp(log_p[i] - highest)
                total += result[row, i]
            result[row] /= total
    return result


@njit(cache=True)
def both_orders(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(t)); the smaller of a pair is computed and the larger is 1 minus it.

    For q <= 1/2 the rounded 1 - q is within half an ulp of 1 - q, so its sum with q rounds to 1, the even
    neighbour: both orders of a pair add up to 1 in every bit.
    """
    result = np.empty_like(exponents)
    for row in range(exponents.shape[0]):
        for i in range(exponents.shape[1]):
            for j in range(exponents.shape[2]):
                e = exp(-abs(exponents[row, i, j]))
                smaller = e / (1 + e)
                result[row, i, j] = smaller if exponents[row, i, j] > 0 else 1 - smaller
    return result
