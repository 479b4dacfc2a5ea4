"""Which threshold? The accuracy-reject curve of a validation set, and the points one may choose on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.validation import LARGEST, check_number, check_vector, describe, dimensions


class OperatingPoint(NamedTuple):
    """A threshold and what it does on the validation samples.

    `found` is False where the curve does not offer what was asked for, and the point is the fallback that
    the method states.
    """

    threshold: float
    reject_rate: float
    accuracy: float
    found: bool = True


@dataclass(frozen=True, eq=False)
class AccuracyRejectCurve:
    """The accuracy of what is accepted against the share of what is rejected, for every threshold.

    Row k of each array belongs to `thresholds[k]`; rows run from rejecting nothing to rejecting everything.
    Made by `accuracy_reject_curve`.

    Attributes
    ----------
    thresholds : array of shape (k + 1,), increasing, for k distinct certainties
        The first accepts everything, the last nothing, the others lie midway between two certainties.
    n_rejected, n_errors : int arrays of shape (k + 1,)
        Number of rejected samples, and of accepted samples with a wrong label.
    n_samples : int
        Number of validation samples.
    """

    thresholds: NDArray[np.float64]
    n_rejected: NDArray[np.int64]
    n_errors: NDArray[np.int64]
    n_samples: int

    @property
    def reject_rates(self) -> NDArray[np.float64]:
        """Share of rejected samples, from 0 to 1, strictly increasing, of shape (k + 1,)."""
        return self.n_rejected / self.n_samples

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """Share of right labels among the accepted samples, 1 by convention where none is accepted."""
        n_accepted = self.n_samples - self.n_rejected
        return (n_accepted - self.n_errors + (n_accepted == 0)) / np.maximum(n_accepted, 1)

    @property
    def area(self) -> float:
        """Area under the curve (AU-ARC) by the trapezoidal rule, the end point (1, 1) included."""
        return float(np.trapezoid(self.accuracies, self.reject_rates))

    def knee(self, sensitivity: float = 1.0) -> OperatingPoint:
        """Return the point where rejecting more begins to pay less, by Kneedle on the concave majorant.

        Kneedle asks for a smooth curve, and an exact one has a jag per sample, each of which would pass
        for a knee: the smallest concave function above the curve takes its place. Its knee is a vertex,
        so it lies on the curve. Where there is none (the accuracy is constant, or the majorant a straight
        line) the point that rejects nothing is returned, with `found` False.

        Parameters
        ----------
        sensitivity : float above 0
            Kneedle's S: how many mean steps in the reject rate the normalised curve has to sink back
            toward the diagonal after its highest point.
        """
        from kneed import KneeLocator  # it loads pyplot, which would double the time `import lvqrej` takes

        sensitivity = check_number(sensitivity, "sensitivity", low=0, low_open=True)
        rates, accuracies = self.reject_rates, self.accuracies
        vertices = _upper_hull(self.n_rejected, accuracies)
        if accuracies[0] == 1:  # the majorant rises to 1, so here it is constant and has no scale
            return self._point(0, found=False)
        majorant = np.interp(rates, rates[vertices], accuracies[vertices])
        rate = KneeLocator(rates, majorant, S=sensitivity, curve="concave", direction="increasing").knee
        if rate is None:
            return self._point(0, found=False)
        # On an edge parallel to the diagonal rounding may pick a point inside: take the edge's first vertex.
        return self._point(int(vertices[np.searchsorted(rates[vertices], rate, side="right") - 1]))

    def at_reject_rate(self, rate: float) -> OperatingPoint:
        """Return the point that rejects the most samples with a reject rate of at most `rate`."""
        rate = check_number(rate, "rate", low=0, high=1)
        return self._point(int(np.searchsorted(self.reject_rates, rate, side="right")) - 1)

    def at_accuracy(self, accuracy: float) -> OperatingPoint:
        """Return the point that rejects the fewest samples with an accuracy of at least `accuracy`.

        If no accepted set is that accurate this is the end point, which rejects everything, with `found`
        False.
        """
        accuracy = check_number(accuracy, "accuracy", low=0, high=1)
        k = int(np.argmax(self.accuracies >= accuracy))
        return self._point(k, found=k < len(self.thresholds) - 1)

    def at_costs(self, error: float, reject: float) -> OperatingPoint:
        """Return the point of the lowest total cost (Chow), the one with fewest rejects on a tie.

        Where the certainty is the probability of the label, Chow's threshold 1 - reject / error is what this
        estimates.

        Parameters
        ----------
        error : float, at least 0
            Cost of an accepted sample with a wrong label.
        reject : float, at least 0
            Cost of a rejected sample.
        """
        error = check_number(error, "error", low=0, high=LARGEST)
        reject = check_number(reject, "reject", low=0, high=LARGEST)
        scale = max(error, reject) or 1.0  # so that no product overflows
        costs = error / scale * self.n_errors + reject / scale * self.n_rejected
        return self._point(int(np.argmin(costs)))

    def _point(self, k: int, found: bool = True) -> OperatingPoint:
        threshold, rate, accuracy = self.thresholds[k], self.reject_rates[k], self.accuracies[k]
        return OperatingPoint(float(threshold), float(rate), float(accuracy), found)


def accuracy_reject_curve(certainty: ArrayLike, correct: ArrayLike) -> AccuracyRejectCurve:
    """Return the exact accuracy-reject curve of validation samples, in O(n log n).

    Samples of equal certainty are accepted or rejected together, so k distinct certainties give k + 1
    points: rejecting nothing, then all of the lowest one, ..., then everything, where the accuracy is 1 by
    convention. A threshold lies midway between the two certainties that it separates, or on the upper one
    where no number lies between them. The first is 0, the least value of a certainty (or the least one given,
    if negative); the last is the next number above the greatest certainty.

    Parameters
    ----------
    certainty : array-like of shape (n,)
        r(x) of samples that the model has not been trained on.
    correct : array-like of bool, shape (n,)
        Whether the label of each sample was predicted rightly.

    Examples
    --------
    >>> curve = accuracy_reject_curve([0.1, 0.2, 0.2, 0.8, 0.9], [False, True, False, True, True])
    >>> curve.reject_rates
    array([0. , 0.2, 0.6, 0.8, 1. ])
    >>> curve.accuracies
    array([0.6 , 0.75, 1.  , 1.  , 1.  ])
    >>> curve.thresholds.round(2)
    array([0.  , 0.15, 0.5 , 0.85, 0.9 ])
    >>> round(curve.area, 3)
    0.885
    >>> curve.at_accuracy(0.9)
    OperatingPoint(threshold=0.5, reject_rate=0.6, accuracy=1.0, found=True)
    """
    r = check_vector(certainty, None, "certainty")
    right = _check_correct(correct, len(r))
    values, value_index, counts = np.unique(r, return_inverse=True, return_counts=True)
    errors = np.bincount(value_index, weights=~right, minlength=len(values)).astype(np.int64)
    n_rejected = np.concatenate(([0], np.cumsum(counts)))
    n_errors = errors.sum() - np.concatenate(([0], np.cumsum(errors)))
    lowest, highest = min(0.0, values[0]), np.nextafter(values[-1], np.inf)
    thresholds = np.concatenate(([lowest], _between(values[:-1], values[1:]), [highest]))
    for array in (thresholds, n_rejected, n_errors):
        array.flags.writeable = False
    return AccuracyRejectCurve(thresholds, n_rejected, n_errors, len(r))


def _between(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return t with low < t <= high, midway up to rounding: halves first, as a sum may overflow."""
    middle = low / 2 + high / 2
    return np.where((low < middle) & (middle <= high), middle, high)


def _upper_hull(x: NDArray[np.int64], y: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the indices of the vertices of the smallest concave function above (x, y), x increasing."""
    points = list(zip(x.tolist(), y.tolist(), strict=True))  # Python's own numbers are faster one by one
    hull: list[int] = []
    for k, (x_k, y_k) in enumerate(points):
        while len(hull) > 1:
            (x_a, y_a), (x_b, y_b) = points[hull[-2]], points[hull[-1]]
            if (y_b - y_a) * (x_k - x_a) > (y_k - y_a) * (x_b - x_a):
                break
            hull.pop()  # b lies on or below the chord from a to k
        hull.append(k)
    return np.array(hull, dtype=np.intp)


def _check_correct(correct: Any, n: int) -> NDArray[np.bool_]:
    if dimensions(correct) != 1 or len(correct) != n:
        raise ValueError(f"correct must have one entry per certainty ({n}); found {describe(correct)}")
    right = np.asarray(correct)
    if right.dtype != bool and not (right.dtype.kind in "iuf" and np.isin(right, (0, 1)).all()):
        raise ValueError(f"correct must hold booleans (or 0 and 1); found {describe(correct)}")
    return right.astype(bool)
