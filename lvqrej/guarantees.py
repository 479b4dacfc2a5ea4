"""Thresholds with a promise: at most so many errors among what is accepted, with so much confidence.

Learn then test: candidates are fixed before the calibration samples are looked at, and tested on these from
strict to loose until one fails. Each test is exact and has the full level, since it only counts if all
before it have passed. The first must not be too strict: it would accept too few samples to show anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.thresholds import AccuracyRejectCurve, OperatingPoint, check_correct, interval, least_share
from lvqrej.validation import Floats, check_number, check_vector, describe

#: So many candidates, at equal steps of the share that is accepted.
CANDIDATES = 50


def at_risk(
    curve: AccuracyRejectCurve,
    certainty: ArrayLike,
    correct: ArrayLike,
    risk: float = 0.05,
    confidence: float = 0.95,
    *,
    nearest: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    among: ArrayLike | None = None,
) -> OperatingPoint:
    """Return the loosest threshold with at most a share `risk` of errors among what it accepts.

    With probability `confidence` over the calibration samples this holds for new samples of the same kind;
    it is not reached where no such threshold can be told from worse ones (`found` is False). Then the
    point is the first candidate, with what can be said of it: `accuracy_bound`, and `shortfall` in words.

    Parameters
    ----------
    curve : AccuracyRejectCurve
        Its thresholds are the candidates: made of other samples than those below.
    certainty : array-like of shape (n,)
        Of calibration samples, which neither the model nor the curve has seen.
    correct : array-like of bool, shape (n,)
        Whether their label was predicted rightly.
    risk : float
        The largest share of errors among what is accepted, between 0 and 1.
    confidence : float
        How sure the promise has to be, between 0 and 1.
    nearest : array-like of int, shape (n,), optional
        The nearest prototype of each, if the curve has a threshold per prototype (`local_curve`).
    groups : array-like of shape (n,), optional
        A group or class of each sample. The risk then holds within every group, jointly: a candidate passes
        if the test of each group does, and that needs no correction for their number. The first candidate
        depends on the sizes of the groups; within each the errors are still as if these were given.
    among : array-like, optional
        All groups that may occur, if the samples may lack one: nothing can be promised of that. Those of the
        samples if None.

    Examples
    --------
    >>> from lvqrej.thresholds import accuracy_reject_curve
    >>> rng = np.random.default_rng(0)
    >>> r = rng.uniform(size=2000)
    >>> right = rng.uniform(size=2000) < 0.7 + 0.3 * r
    >>> curve = accuracy_reject_curve(r[:1000], right[:1000])
    >>> point = at_risk(curve, r[1000:], right[1000:], risk=0.1)
    >>> point.found, point.accuracy_bound, round(point.reject_rate, 2)
    (True, 0.9, 0.45)
    """
    risk = check_number(risk, "risk", low=0, high=1, low_open=True)
    level = 1 - check_number(confidence, "confidence", low=0, high=0.9999, low_open=True)
    r = check_vector(certainty, None, "certainty")
    wrong = ~check_correct(correct, len(r))
    if (nearest is None) != (curve.thresholds.ndim == 1):
        raise ValueError("nearest must be given if the curve has a threshold per prototype, and only then")
    group = np.zeros(len(r)) if groups is None else np.asarray(groups)
    if group.shape != r.shape:
        raise ValueError(f"groups must have shape ({len(r)},); found {describe(groups)}")
    names = np.unique(group if among is None else np.asarray(among))
    if not np.isin(group, names).all():
        raise ValueError(f"among must hold all groups; found {describe(among)}")
    rows = _candidates(curve)
    asked = curve.thresholds[rows]
    accepted = r >= (asked[:, None] if nearest is None else asked[:, np.asarray(nearest)])
    members = (names[:, None] == group).astype(int)  # (g, n)
    n, k = accepted @ members.T, (accepted & wrong) @ members.T  # (c, g)
    # Start where the curve and the sizes of the groups, nothing else, let the smallest bound be expected.
    left = curve.n_samples - curve.n_rejected[rows]
    share = (curve.n_errors[rows] + 0.5) / (left + 1)
    expected = np.floor(left[:, None] / curve.n_samples * members.sum(axis=1))
    start = int(np.argmin(_bound(share[:, None] * expected, expected, level).max(axis=1)))
    passed = np.all(tail(k, n, risk) <= level, axis=1)[start:]
    last = int(np.argmin(np.append(passed, False))) - 1
    row, found = start + max(last, 0), last >= 0
    bounds = _bound(k[row], n[row], level)
    worst, total = int(np.argmax(bounds)), n[row].sum()
    rate = float(1 - total / len(r))
    return OperatingPoint(
        threshold=asked[row] if asked.ndim > 1 else float(asked[row]),
        reject_rate=rate,
        accuracy=float(1 - k[row].sum() / max(total, 1)),
        found=found,
        reject_rate_interval=tuple(map(float, interval(len(r) - total, len(r)))),
        accuracy_bound=1 - (risk if found else float(bounds[worst])),
        shortfall="" if found else _shortfall(int(k[row][worst]), int(n[row][worst]), risk, level, rate),
    )


def _candidates(curve: AccuracyRejectCurve) -> NDArray[np.intp]:
    """Return rows of the curve from strict to loose, at equal steps of the share that is accepted."""
    shares = np.arange(1, CANDIDATES + 1) / CANDIDATES
    rows = np.searchsorted(-curve.n_rejected[::-1], curve.n_samples * (shares - 1), side="right") - 1
    rows = len(curve.n_rejected) - 1 - rows
    return np.unique(rows[rows < len(curve.n_rejected) - 1])[::-1]  # the last accepts nothing


def tail(k: Any, n: Any, risk: Any) -> Floats:
    """Return P(Bin(n, risk) <= k), the p-value of "the risk is larger", of any shape; 1 without samples.

    >>> tail(0, 59, 0.05).round(3), tail(0, 0, 0.05)
    (np.float64(0.048), np.float64(1.0))
    """
    from scipy.special import bdtr  # takes as long as all the rest

    return bdtr(np.minimum(k, n), np.asarray(n, dtype=np.intp), risk)


def _bound(k: Any, n: Any, level: float) -> Any:
    """Return the smallest risk that k errors among n samples support (Clopper and Pearson)."""
    return 1 - least_share(n - k, n, 1 - level)


def _shortfall(k: int, n: int, risk: float, level: float, rate: float) -> str:
    """Say what k errors among n accepted samples support, and how many more samples it would take."""
    bound = float(_bound(k, n, level))
    sizes = np.unique(np.geomspace(max(n, 1), 1e7, 2000).round())
    enough = sizes[tail(np.ceil(k / max(n, 1) * sizes), sizes, risk) <= level]
    more = "and more samples with so many errors would not help"
    if k < risk * max(n, 1) and len(enough):
        more = f"and about {enough[0] - n:.0f} more accepted ones with as few errors would do"
    return (
        f"a risk of {risk:g} with {100 * (1 - level):.0f} % confidence is not reached: {k} errors among {n} "
        f"accepted calibration samples support {bound:.2g}, {more}; the first threshold that was "
        f"tested is used, which rejects {100 * rate:.0f} %"
    )
