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
#: Scores of a curve, by property, and their usual names.
SCORES = {"area": "AU-ARC", "aurc": "AURC", "excess_aurc": "E-AURC", "augrc": "AUGRC", "ranking": "AUROC"}
#: What no choice of local thresholds is worth.
_NEVER = np.iinfo(np.int64).min // 2


class ThresholdWarning(UserWarning):
    """The held-out samples do not offer what the threshold was asked for."""


class OperatingPoint(NamedTuple):
    """A threshold and what it does on the validation samples.

    `found` is False where the curve does not offer what was asked for, and the point is the fallback that
    the method states. With 95 % confidence the reject rate to expect lies in `reject_rate_interval`, and the
    accuracy is at least `accuracy_bound` (exact binomial bounds, Clopper and Pearson). These know nothing of
    the choice, but for the `accuracy_bound` of `lvqrej.guarantees.at_risk`. What the point falls short of is
    said in `shortfall`.
    With local thresholds `threshold` is an array, one number per prototype.
    """

    threshold: Any
    reject_rate: float
    accuracy: float
    found: bool = True
    reject_rate_interval: tuple[float, ...] = (0.0, 1.0)
    accuracy_bound: float = 0.0
    shortfall: str = ""


@dataclass(frozen=True, eq=False)
class AccuracyRejectCurve:
    """The accuracy of what is accepted against the share of what is rejected, for every threshold.

    Row k of each array belongs to `thresholds[k]`; rows run from rejecting nothing to rejecting everything.
    Made by `accuracy_reject_curve`.

    Attributes
    ----------
    thresholds : array of shape (k + 1,), increasing, for k distinct certainties
        The first accepts everything, the last nothing, the others lie midway between two certainties. Of
        shape (k + 1, m) if there is one per prototype (`local_curve`).
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
    def n_accepted(self) -> NDArray[np.int64]:
        """Number of accepted samples, of shape (k + 1,)."""
        return self.n_samples - self.n_rejected

    @property
    def n_right(self) -> NDArray[np.int64]:
        """Number of accepted samples with a right label, of shape (k + 1,)."""
        return self.n_accepted - self.n_errors

    @property
    def reject_rates(self) -> NDArray[np.float64]:
        """Share of rejected samples, from 0 to 1, strictly increasing, of shape (k + 1,)."""
        return self.n_rejected / self.n_samples

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """Share of right labels among the accepted samples, 1 by convention where none is accepted."""
        return (self.n_right + (self.n_accepted == 0)) / np.maximum(self.n_accepted, 1)

    @property
    def accuracy_bounds(self) -> NDArray[np.float64]:
        """Accuracies that are exceeded with 95 % confidence, of shape (k + 1,): few samples support few."""
        return least_share(self.n_right, self.n_accepted, CONFIDENCE)

    @property
    def accuracy_interval(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends of exact 95 % intervals of each accuracy on its own, of shape (k + 1,)."""
        return interval(self.n_right, self.n_accepted)

    @property
    def area(self) -> float:
        """Area under the curve (AU-ARC) by the trapezoidal rule, the end point (1, 1) included."""
        return float(np.trapezoid(self.accuracies, self.reject_rates))

    @property
    def aurc(self) -> float:
        """Area under the risk-coverage curve: the mean risk of the i most certain samples, i = 1, ..., n.

        Samples of equal certainty count in any order, on average.
        """
        accepted = np.arange(1, self.n_samples + 1)
        return float((np.interp(accepted, self.n_accepted[::-1], self.n_errors[::-1]) / accepted).mean())

    @property
    def excess_aurc(self) -> float:
        """E-AURC: by how much `aurc` exceeds that of the best order, all errors last."""
        accepted = np.arange(1, self.n_samples + 1)
        return self.aurc - float((np.maximum(accepted - self.n_right[0], 0) / accepted).mean())

    @property
    def augrc(self) -> float:
        """Area under the generalised risk, errors among accepted divided by *all* samples, over coverage.

        It is the mean risk of undetected errors, (1 - ranking) a (1 - a) + (1 - a)^2 / 2 with accuracy a.
        """
        return float(np.trapezoid(self.n_errors, self.n_rejected) / self.n_samples**2)

    @property
    def ranking(self) -> float:
        """Share of pairs of a right and a wrong sample in which the right one is more certain, ties half.

        0.5 is chance: then the certainty cannot tell errors. It is 1 if there is no such pair.
        """
        pairs = self.n_right[0] * self.n_errors[0]
        return float(-np.trapezoid(self.n_right, self.n_errors) / pairs) if pairs else 1.0

    def score_intervals(self, confidence: float = 0.95, draws: int = 1000, seed: int = 0) -> Any:
        """Return a table of the scores with bootstrap intervals: rows scores, columns value, low, high."""
        import pandas as pd

        confidence = check_number(confidence, "confidence", low=0, high=0.9999, low_open=True)
        draws = int(check_number(draws, "draws", low=1, integer=True))
        seed = int(check_number(seed, "seed", low=0, integer=True))
        if self.thresholds.ndim > 1:
            raise ValueError("score_intervals must be asked of a curve of one threshold; found local ones")
        wrong, n = -np.diff(self.n_errors), self.n_samples
        shares = np.concatenate([np.diff(self.n_rejected) - wrong, wrong]) / n
        values = [[getattr(self, score) for score in SCORES]]
        for counts in np.random.default_rng(seed).multinomial(n, shares, size=draws):
            right, errors = counts.reshape(2, -1)
            drawn = _curve(self.thresholds, right + errors, errors)
            values.append([getattr(drawn, score) for score in SCORES])
        low, high = np.quantile(values[1:], [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
        columns = {"value": values[0], "low": low, "high": high}
        return pd.DataFrame(columns, index=pd.Index(list(SCORES.values()), name="score"))

    def plot(self, kind: str = "risk-coverage") -> Any:
        """Return a matplotlib figure with exact intervals at each point; see `lvqrej.chart.curve_chart`."""
        from lvqrej.chart import curve_chart

        return curve_chart(self, kind)

    def knee(self, sensitivity: float = 1.0) -> OperatingPoint:
        """Return the point where rejecting more begins to pay less, by Kneedle on the concave majorant.

        Kneedle asks for a smooth curve, and an exact one has a jag per sample, each of which would pass
        for a knee: the smallest concave function above the curve takes its place. Its knee is the point of
        the curve that is highest above the diagonal, (accuracy - a) / (1 - a) - reject rate with the accuracy
        a without rejects. Where there is none (the accuracy is constant, or the majorant a straight line)
        the point that rejects nothing is returned, with `found` False.

        Parameters
        ----------
        sensitivity : float above 0
            Kneedle's S: by how many mean steps in the reject rate the highest point has to exceed the end of
            the curve, which is on the diagonal.
        """
        sensitivity = check_number(sensitivity, "sensitivity", low=0, low_open=True)
        rates, accuracies = self.reject_rates, self.accuracies
        if accuracies[0] == 1:  # then there is no scale
            return self._point(0, found=False)
        heights = (accuracies - accuracies[0]) / (1 - accuracies[0]) - rates
        if not heights.max() > sensitivity / (len(rates) - 1):
            return self._point(0, found=False)
        return self._point(int(np.argmax(heights >= heights.max() - 1e-12)))  # on a tie the fewest rejects

    def at_reject_rate(self, rate: float) -> OperatingPoint:
        """Return the point that rejects the most samples with a reject rate of at most `rate`."""
        rate = check_number(rate, "rate", low=0, high=1)
        return self._point(int(np.searchsorted(self.reject_rates, rate, side="right")) - 1)

    def at_accuracy(self, accuracy: float) -> OperatingPoint:
        """Return the point that rejects the fewest samples with a supported accuracy of at least `accuracy`.

        Supported means by the bound of this threshold alone (`accuracy_bounds`): no promise, since all
        thresholds are looked at: for one take `lvqrej.guarantees.at_risk`. If there is none this is the point
        with the largest supported accuracy, with `found` False.
        """
        least, bounds = check_number(accuracy, "accuracy", low=0, high=1), self.accuracy_bounds
        enough = bounds >= least
        point = self._point(int(np.argmax(enough if enough.any() else bounds)), found=bool(enough.any()))
        return point if point.found else point._replace(
            shortfall=f"no threshold has an accuracy of {least:g} with {100 * CONFIDENCE:.0f} % confidence "
            f"on {self.n_samples} held-out samples: the largest that is supported is "
            f"{point.accuracy_bound:.3g}, whose threshold is used and rejects {100 * point.reject_rate:.0f} %"
        )  # fmt: skip

    def at_conformal(self, share: float) -> OperatingPoint:
        """Return the point that rejects the fewest samples with (accepted errors + 1) / (n + 1) <= share.

        The conformal promise: drawn together with the n samples of the curve, a new one is accepted *and*
        wrong with probability at most `share`. That is on average over calibration samples, of all inputs,
        not of the accepted ones. With fewer than 1 / share - 1 samples nothing can be accepted, and this is
        the point that does, with `found` False.
        """
        share = check_number(share, "share", low=0, high=1)
        enough = self.n_errors + 1 <= share * (self.n_samples + 1)
        if enough.any():
            return self._point(int(np.argmax(enough)))
        few = f"{self.n_samples} held-out samples are too few for a share of {share:g}"
        return self._point(-1, found=False)._replace(shortfall=f"{few}: everything is rejected")

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
        return OperatingPoint(
            float(threshold) if threshold.ndim == 0 else threshold, float(rate), float(accuracy), found,
            tuple(map(float, interval(self.n_rejected[k], self.n_samples))), float(self.accuracy_bounds[k]),
        )  # fmt: skip


def interval(hits: Any, n: Any, confidence: float = CONFIDENCE) -> tuple[Any, Any]:
    """Return Clopper and Pearson's exact interval of the share of which `hits` of `n` samples are.

    >>> [round(float(end), 3) for end in interval(2, 20)]
    [0.012, 0.317]
    """
    each = (1 + confidence) / 2
    return least_share(hits, n, each)[()], 1 - least_share(n - hits, n, each)[()]


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
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from lvqrej import RejectOptionClassifier
    >>> rates = {"threshold": [("reject_rate", rate) for rate in (0.02, 0.5)]}
    >>> search = GridSearchCV(RejectOptionClassifier(cv=2), rates, scoring=cost_scorer(5, 1), cv=2)
    >>> search.fit(*load_iris(return_X_y=True)).best_params_
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
    right = check_correct(correct, len(r))
    values, value_index, counts = np.unique(r, return_inverse=True, return_counts=True)
    errors = np.bincount(value_index, weights=~right, minlength=len(values)).astype(np.int64)
    lowest, highest = min(0.0, values[0]), np.nextafter(values[-1], np.inf)
    thresholds = np.concatenate(([lowest], _between(values[:-1], values[1:]), [highest]))
    return _curve(thresholds, counts, errors)


def _curve(thresholds: Any, counts: NDArray[np.int64], errors: NDArray[np.int64]) -> AccuracyRejectCurve:
    """Return the curve that rejects so many samples, and errors among them, from threshold to threshold."""
    n_rejected = np.append(0, np.cumsum(counts))
    n_errors = errors.sum() - np.append(0, np.cumsum(errors))
    for array in (thresholds, n_rejected, n_errors):
        array.flags.writeable = False
    return AccuracyRejectCurve(thresholds, n_rejected, n_errors, int(n_rejected[-1]))


def local_curve(certainty: ArrayLike, correct: ArrayLike, nearest: ArrayLike, m: int) -> AccuracyRejectCurve:
    """Return the curve of the best thresholds of the nearest prototypes' own, for every number of rejects.

    For q rejects in all it has the fewest errors among the accepted that any choice of one threshold per
    prototype leaves: a knapsack, solved exactly by dynamic programming on counts in O(n^2). So at every rate
    of a global threshold it is at least as accurate, on these samples. Among equal choices the one is taken
    that rejects the least certain samples; a prototype without samples has the global threshold.

    Parameters
    ----------
    certainty, correct : array-likes of shape (n,)
        As in `accuracy_reject_curve`, of samples that the model has not been trained on.
    nearest : array-like of int of shape (n,)
        The nearest prototype of each (`option.nearest`).
    m : int
        Number of prototypes.

    Examples
    --------
    >>> certainty, correct = [0.1, 0.2, 0.3, 0.4], [True, True, False, True]
    >>> accuracy_reject_curve(certainty, correct).accuracies.round(2)
    array([0.75, 0.67, 0.5 , 1.  , 1.  ])
    >>> local_curve(certainty, correct, [0, 0, 1, 1], 2).accuracies
    array([0.75, 1.  , 1.  , 1.  , 1.  ])
    """
    r, everywhere = check_vector(certainty, None, "certainty"), accuracy_reject_curve(certainty, correct)
    m = int(check_number(m, "m", low=1, integer=True))
    owner = check_vector(nearest, len(r), "nearest")
    if not np.isin(owner, np.arange(m)).all():
        raise ValueError(f"nearest must hold indices of {m} prototypes; found {describe(nearest)}")
    n, right = len(r), check_correct(correct, len(r))
    # One error less counts more than any order; the sum of ranks decides between equal choices.
    worth = np.where(right, 0, n * (n + 1)) - 1 - np.searchsorted(np.unique(r), r)
    best, picks = np.array([0]), []
    for j in np.unique(owner).astype(int):
        mine = owner == j
        own = accuracy_reject_curve(r[mine], right[mine])
        gains = np.append(0, np.cumsum(worth[mine][np.argsort(r[mine], kind="stable")]))[own.n_rejected]
        new = np.full(len(best) + own.n_samples, _NEVER)
        pick = np.zeros(len(new), dtype=np.int64)
        for choice, (count, gain) in enumerate(zip(own.n_rejected, gains, strict=True)):
            part = slice(count, count + len(best))
            better = (best > _NEVER) & (best + gain > new[part])
            new[part][better], pick[part][better] = (best + gain)[better], choice
        best = new
        picks.append((j, own, pick))
    n_rejected = np.flatnonzero(best > _NEVER)
    usual = everywhere.thresholds[np.searchsorted(everywhere.n_rejected, n_rejected)]
    thresholds = np.repeat(usual[:, None], m, axis=1)
    left, n_errors = n_rejected.copy(), np.zeros(len(n_rejected), dtype=np.int64)
    for j, own, pick in reversed(picks):
        choices = pick[left]
        thresholds[:, j] = own.thresholds[choices]
        n_errors += own.n_errors[choices]
        left -= own.n_rejected[choices]
    # With ties more rejects may leave more errors: such a choice is of no use.
    useful = n_errors <= np.minimum.accumulate(n_errors)
    return AccuracyRejectCurve(thresholds[useful], n_rejected[useful], n_errors[useful], n)


def confusion(truth: ArrayLike, predicted: ArrayLike, reject_label: Any) -> Any:
    """Return a table of counts: a row per true class, a column per predicted class and one for rejects.

    Examples
    --------
    >>> table = confusion(["a", "a", "b"], ["a", "reject", "a"], "reject")
    >>> table.columns.tolist(), table.to_numpy().tolist()
    (['a', 'b', 'reject'], [[1, 0, 1], [1, 0, 0]])
    """
    import pandas as pd

    y, labels = np.asarray(truth), np.asarray(predicted)
    if y.ndim != 1 or y.shape != labels.shape:
        raise ValueError(f"predicted must have the shape of truth, {y.shape}; found {describe(predicted)}")
    classes = sorted({*y.tolist(), *labels.tolist()} - {reject_label})
    counts = pd.crosstab(pd.Series(y, name="truth"), pd.Series(labels, name="predicted"))
    return counts.reindex(index=classes, columns=[*classes, reject_label], fill_value=0)


def _between(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return t with low < t <= high, midway up to rounding: halves first, as a sum may overflow."""
    middle = low / 2 + high / 2
    return np.where((low < middle) & (middle <= high), middle, high)


def check_correct(correct: Any, n: int) -> NDArray[np.bool_]:
    """Return whether each of n labels is right, of shape (n,), or raise a ValueError."""
    if dimensions(correct) != 1 or len(correct) != n:
        raise ValueError(f"correct must have one entry per certainty ({n}); found {describe(correct)}")
    right = np.asarray(correct)
    if right.dtype != bool and not (right.dtype.kind in "iuf" and np.isin(right, (0, 1)).all()):
        raise ValueError(f"correct must hold booleans (or 0 and 1); found {describe(correct)}")
    return right.astype(bool)
