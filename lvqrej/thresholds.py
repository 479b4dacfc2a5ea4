"""Which threshold? The accuracy-reject curve of a validation set, and the points one may choose on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.validation import LARGEST, check_number, check_vector, describe, dimensions

#: How sure the bounds of rates and accuracies are.
CONFIDENCE = 0.95


class OperatingPoint(NamedTuple):
    """A threshold and what it does on the validation samples.

    `found` is False where the curve does not offer what was asked for, and the point is the fallback that
    the method states. With 95 % confidence the reject rate to expect lies in `reject_rate_interval`, and the
    accuracy is at least `accuracy_bound` (exact binomial bounds, Clopper and Pearson).
    """

    threshold: float
    reject_rate: float
    accuracy: float
    found: bool = True
    reject_rate_interval: tuple[float, float] = (0.0, 1.0)
    accuracy_bound: float = 0.0


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

    @property
    def accuracy_bounds(self) -> NDArray[np.float64]:
        """Accuracies that are exceeded with 95 % confidence, of shape (k + 1,): few samples support few."""
        n_accepted = self.n_samples - self.n_rejected
        return least_share(n_accepted - self.n_errors, n_accepted, CONFIDENCE)

    @property
    def ranking(self) -> float:
        """Share of pairs of a right and a wrong sample in which the right one is more certain, ties half.

        0.5 is chance: then the certainty cannot tell errors. It is 1 if there is no such pair.
        """
        right = self.n_samples - self.n_rejected - self.n_errors
        pairs = right[0] * self.n_errors[0]
        steps = -np.diff(self.n_errors)
        return float((steps * (right[1:] + right[:-1])).sum() / (2 * pairs)) if pairs else 1.0

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
        """Return the point that rejects the fewest samples with a supported accuracy of at least `accuracy`.

        Supported means with 95 % confidence (`accuracy_bounds`). If there is none this is the point with the
        largest supported accuracy, with `found` False.
        """
        least, bounds = check_number(accuracy, "accuracy", low=0, high=1), self.accuracy_bounds
        enough = bounds >= least
        return self._point(int(np.argmax(enough if enough.any() else bounds)), bool(enough.any()))

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
        rejected, n, each = self.n_rejected[k], self.n_samples, (1 + CONFIDENCE) / 2
        interval = float(least_share(rejected, n, each)), 1 - float(least_share(n - rejected, n, each))
        threshold, rate, accuracy = self.thresholds[k], self.reject_rates[k], self.accuracies[k]
        bound = float(self.accuracy_bounds[k])
        return OperatingPoint(float(threshold), float(rate), float(accuracy), found, interval, bound)


def least_share(hits: Any, n: Any, confidence: float) -> Any:
    """Return the share that is exceeded with a confidence if `hits` of `n` samples are hits, 0 if none is.

    >>> least_share(10, 10, 0.95).round(4), round(0.05 ** (1 / 10), 4)
    (np.float64(0.7411), 0.7411)
    """
    from scipy.special import betaincinv  # takes as long as all the rest

    hits = np.asarray(hits, dtype=float)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, 1 - confidence), 0.0)


def cost_scorer(error: float = 1.0, reject: float = 0.25) -> Callable[[Any, Any, Any], float]:
    """Return a scorer for scikit-learn that pays for coverage: minus the mean cost of errors and rejects.

    The accuracy of what is accepted, which `score` is, only grows with rejects; a search over thresholds
    would end at rejecting everything. Parameters are those of `AccuracyRejectCurve.at_costs`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from lvqrej import RejectOptionClassifier
    >>> rates = {"threshold": [("reject_rate", rate) for rate in (0.02, 0.1, 0.5)]}
    >>> search = GridSearchCV(RejectOptionClassifier(), rates, scoring=cost_scorer(5, 1), cv=3)
    >>> search.fit(*load_wine(return_X_y=True)).best_params_
    {'threshold': ('reject_rate', 0.02)}
    """
    wrong = check_number(error, "error", low=0, high=LARGEST)
    rejected = check_number(reject, "reject", low=0, high=LARGEST)

    def score(classifier: Any, X: Any, y: Any) -> float:
        labels = np.asarray(classifier.predict(X))
        rejects = labels == classifier.reject_label_
        errors = ~rejects & (labels != np.asarray(y))
        return -float(wrong * errors.mean() + rejected * rejects.mean())

    return score


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
    >>> curve.at_accuracy(0.9)[1:4]  # two samples support no such accuracy
    (0.2, 0.75, False)
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
