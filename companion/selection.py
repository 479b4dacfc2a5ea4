"""Selection with guaranteed risk (Geifman and El-Yaniv, 2017), the older rule, to compare with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lvqrej.guarantees import tail


def selection_with_guaranteed_risk(
    certainty: NDArray[np.float64], correct: NDArray[np.bool_], risk: float, confidence: float = 0.95
) -> float | None:
    """Return a threshold with at most a share `risk` of errors among the accepted, or None.

    Binary search over the calibration samples in the order of their certainty. It looks at log2(n) of them,
    so each exact test has the level (1 - confidence) / log2(n).

    >>> r = np.arange(200) / 200
    >>> selection_with_guaranteed_risk(r, r >= 0.3, 0.1)
    0.275
    """
    order = np.argsort(-certainty, kind="stable")
    errors, n = np.cumsum(~np.asarray(correct, dtype=bool)[order]), len(order)
    level = (1 - confidence) / np.ceil(np.log2(n))
    low, high, best = 1, n, 0
    for _ in range(int(np.ceil(np.log2(n)))):
        middle = (low + high + 1) // 2
        if tail(errors[middle - 1], middle, risk) <= level:
            low, best = middle, middle
        else:
            high = middle - 1
        if low >= high:
            break
    return float(certainty[order[best - 1]]) if best else None
