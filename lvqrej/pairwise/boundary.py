"""From a change that is nearly accepted to one that just is: one number, to its last digit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Multiples of a change tried first, by their distance from 1, and parts of an interval around a guess.
_NEARBY = 10.0 ** np.arange(-2, -16, -1)
_AROUND = np.array([-1e-1, -1e-3, -1e-5, -1e-7, 0.0, 1e-7, 1e-5, 1e-3, 1e-1])


def first_accepted(tested: Callable[[Floats], tuple[Floats, NDArray[np.bool_]]]) -> float | None:
    """Return the first multiple of a change that passes, None if none near 1 does.

    At an optimum certainty rises along the change itself (its gradient is a multiple of the signs), so one
    number is left to find. `tested` returns for multiples how far certainty exceeds the threshold, and
    whether each passes.

    >>> limit = 0.9995
    >>> first_accepted(lambda scales: (scales - limit, scales >= limit)) == limit
    True
    """
    scales = np.concatenate([[0.0], 1 - _NEARBY, [1.0], 1 + _NEARBY[::-1]])
    margins, good = tested(scales)
    if not good.any():
        return None
    first = int(good.argmax())
    for _ in range(60):
        if first == 0 or scales[first] - scales[first - 1] <= 2**-52 * scales[first]:
            break
        low, high = scales[first - 1], scales[first]
        rise = margins[first] - margins[first - 1]
        part = -margins[first - 1] / rise if rise > 0 else 0.5
        inner = np.concatenate([part + _AROUND, [0.5]])
        inner = low + (high - low) * np.unique(inner[(inner > 0) & (inner < 1)])
        inner = inner[(inner > low) & (inner < high)]
        if len(inner) == 0:
            break
        ends = margins[first - 1], margins[first]
        margins, good = tested(inner)
        scales = np.concatenate([[low], inner, [high]])
        margins = np.concatenate([ends[:1], margins, ends[1:]])
        first = int(np.concatenate([[False], good, [True]]).argmax())
    return float(scales[first])
