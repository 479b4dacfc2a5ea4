"""Numbers that people read: as few digits as possible, and what is said with them stays true.

A counterfactual lies on the boundary of what is accepted, so rounding to the nearest would cross it half of
the time. Values are therefore rounded *away from the sample* (an increase up, a decrease down), to the fewest
digits with which the shown input itself passes the reject option's test and every requirement; the last
resort is to show all digits.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from math import ceil, floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Fewest significant digits of a change; with three, a shown change is less than 1 % larger than the real
#: one.
FEWEST = 3
#: With so many digits every float is itself.
ALL = 17


def shown_counterfactual(why: Any) -> Floats:
    """Return the counterfactual as it is shown, of shape (d,): rounded, and accepted as the same class.

    >>> from lvqrej import PrototypeModel, RelativeSimilarity, explain
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> why = explain(option, 0.6, [0.9, 0.0])
    >>> why.counterfactual.tolist()[0] < 0.6667, shown_counterfactual(why)
    (True, array([0.666, 0.   ]))
    """
    for digits in range(FEWEST, ALL):
        point = why.counterfactual.copy()
        for k in why.changed:
            point[k] = _away(why.sample[k], why.counterfactual[k], digits)
        point = np.clip(point, *why.box)
        if why.holds(point):
            return point
    return why.counterfactual


def _away(start: float, end: float, digits: int) -> float:
    """Round `end` away from `start`, to so many significant digits of the change."""
    change = end - start
    decimals = digits - 1 - floor(log10(abs(change)))
    return rounded(end, decimals, ROUND_CEILING if change > 0 else ROUND_FLOOR)


def rounded(value: float, decimals: int, how: str = ROUND_HALF_EVEN) -> float:
    """Return the value with at most so many decimals (at least 0); itself if it has no more.

    >>> rounded(879.72, 0, ROUND_FLOOR), rounded(0.125, 7)
    (879.0, 0.125)
    """
    exact = Decimal(repr(float(value)))
    decimals = max(decimals, 0)
    if -int(exact.as_tuple().exponent) <= decimals:
        return float(value)
    return float(exact.quantize(Decimal(1).scaleb(-decimals), how))


def number(value: float) -> str:
    """Return the shortest text that stands for this number and no other.

    >>> number(880.0), number(0.1), number(1e-9)
    ('880', '0.1', '1e-09')
    """
    text = repr(float(value))
    return text.removesuffix(".0")


def before_and_after(why: Any) -> list[tuple[int, str, str]]:
    """Return for each changed feature its index and its values as shown, before and after.

    A value of the sample with more than six digits is rounded to the nearest at a thousandth of its change.
    """
    shown = shown_counterfactual(why)
    return [(k, _before(why.sample[k], shown[k]), number(shown[k])) for k in why.changed]


def _before(start: float, end: float) -> str:
    if len(Decimal(repr(float(start))).as_tuple().digits) <= 6:
        return number(start)
    return number(rounded(start, FEWEST - floor(log10(abs(end - start)))))


def shown_certainties(before: float, after: float, theta: float) -> tuple[str, str, str]:
    """Return the three with the fewest digits (at least two) that tell a certainty below theta from theta.

    A theta below 1 is not shown as 1, which for most certainties is the largest value there is.

    >>> shown_certainties(0.12345, 0.3511, 0.351), shown_certainties(0.349, 0.3497, 0.3496)
    (('0.12', '0.35', '0.35'), ('0.349', '0.35', '0.35'))
    """
    for digits in range(2, ALL):
        texts = f"{before:.{digits}g}", f"{after:.{digits}g}", f"{theta:.{digits}g}"
        shown = float(texts[2])
        if theta < 1 <= shown:
            continue
        if (before >= theta or float(texts[0]) < shown) and (after >= theta or float(texts[1]) < shown):
            return texts
    return f"{before:.17g}", f"{after:.17g}", f"{theta:.17g}"


def percent_up(share: float) -> str:
    """Return a share as per cent with two digits, rounded up.

    >>> percent_up(0.0321), percent_up(1.2e-6), percent_up(1.0)
    ('3.3 %', '0.00012 %', '100 %')
    """
    value = 100 * share
    if value <= 0:
        return "0 %"
    unit = 10.0 ** (floor(log10(value)) - 1)
    text = f"{ceil(value / unit - 1e-9) * unit:.12g}"
    return f"{text if float(text) <= 100 else '100'} %"
