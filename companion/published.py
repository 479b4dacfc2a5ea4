"""What the published code does where it departs from the paper, written anew from what it computes."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import clone

from companion.programs import nelder_mead
from lvqrej import GMLVQ, ProbabilisticCertainty, PrototypeModel
from lvqrej.probabilistic import platt_scaling, price_combination, signed_similarity
from lvqrej.thresholds import OperatingPoint
from lvqrej.validation import check_samples

#: The published grid of thresholds, the same for all certainties.
THRESHOLDS = (0.001, 0.005, 0.05, 0.1, 0.3, 0.4, 0.5, 0.6, 1, 2, 3, 4, 5, 7, 10, 100, 1000)
#: The published margin of constraints and by how much the probabilistic threshold is loosened.
MARGIN = 0.1

Floats = NDArray[np.float64]


class IdentityGMLVQ(GMLVQ):
    """A GMLVQ whose learned matrix is thrown away after training: the prototypes stay, the metric is lost.

    Examples
    --------
    >>> IdentityGMLVQ().fit([[0, 0], [1, 9], [5, 1], [6, 8]], ["a", "a", "b", "b"]).omega_
    array([[1., 0.],
           [0., 1.]])
    """

    def fit(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Train as a GMLVQ, then put the identity in the matrix's place."""
        super().fit(x, y)
        self.omega_ = np.eye(self.w_.shape[1])
        return self


class UnsignedPairs(ProbabilisticCertainty):
    """Class probabilities as the published code pairs them up.

    The score of a pair is that of whichever class is nearer, |s_ij| >= 0, and the sigmoid is fitted to the
    model's own predictions on its training samples. So p_ij = p_ji: which of the two classes is meant is
    lost, p_ij + p_ji is not 1, and for two classes both are always equally probable.

    Examples
    --------
    >>> X, y = [[0.0], [0.5], [1.0], [5.0], [6.0], [6.5]], [0, 0, 0, 1, 1, 1]
    >>> p = UnsignedPairs(cv=2).fit(X, y).probabilities([[0.2], [3.1]])
    >>> bool((p[:, 0] == p[:, 1]).all())
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit one model per pair of classes and its sigmoid to the model's own predictions."""
        samples, labels = check_samples(X), np.asarray(y)
        classes = np.unique(labels)
        estimator = GMLVQ(regularization=0) if self.estimator is None else self.estimator
        alpha, beta = np.zeros((2, len(classes), len(classes)))
        models = {}
        for i, j in combinations(range(len(classes)), 2):
            of_pair = samples[np.isin(labels, classes[[i, j]])]
            fitted = clone(estimator).fit(of_pair, labels[np.isin(labels, classes[[i, j]])])
            model = models[i, j] = PrototypeModel.of(fitted)
            scores = np.abs(signed_similarity(model, of_pair, classes[i]))
            alpha[i, j], beta[i, j] = platt_scaling(scores, model.predict(of_pair) == classes[i])
        self.models_, self.alpha_, self.beta_, self.classes = models, alpha + alpha.T, beta + beta.T, classes
        self.n_features, self.feature_names = samples.shape[1], None
        return self

    def probabilities(self, X: ArrayLike) -> Floats:
        """Return p(i | x), of shape (n, K), from pairwise probabilities that do not tell i from j."""
        return price_combination(self._unsigned(X), self.normalize)

    def pairwise_probabilities(self, X: ArrayLike) -> Floats:
        """Return p_ij(x) = p_ji(x), of shape (n, K, K), 1/2 on the diagonal."""
        return np.asarray(expit(-self._unsigned(X)))

    def _unsigned(self, X: ArrayLike) -> Floats:
        """Return alpha_ij |s_ij(x)| + beta_ij, of shape (n, K, K)."""
        samples = check_samples(X, self.n_features)
        exponents = np.zeros((len(samples), len(self.classes), len(self.classes)))
        for (i, j), model in self.models_.items():
            score = np.abs(signed_similarity(model, samples, self.classes[i]))
            exponents[:, i, j] = exponents[:, j, i] = self.alpha_[i, j] * score + self.beta_[i, j]
        return exponents

    def certainty(self, X: ArrayLike) -> Floats:
        """Return the largest of the probabilities, of shape (n,)."""
        return np.asarray(self.probabilities(X).max(axis=1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class, of shape (n,)."""
        return self.classes[self.probabilities(X).argmax(axis=1)]

    def cells(self, theta: float, *options: Any, **more: Any) -> Any:
        """Raise a ValueError: these probabilities are no certainty whose accepted set has been worked out."""
        raise ValueError("UnsignedPairs has no cells; it shows what the published code computes")


def farthest_training_sample(X: ArrayLike, candidates: ArrayLike, rejected_rows: ArrayLike) -> Floats:
    """Return for each sample the farthest candidate, in l1, whose row is not that of a rejected test sample.

    Parameters
    ----------
    X : array-like of shape (n, d)
    candidates : array-like of shape (N, d)
        The training samples.
    rejected_rows : array-like of int
        The places of rejected samples in the test part; that they are looked up among the training samples is
        the point.

    Examples
    --------
    >>> farthest_training_sample([[0.0]], [[1.0], [9.0], [5.0]], rejected_rows=[1])
    array([[5.]])
    """
    pool = check_samples(candidates, name="candidates")
    samples = check_samples(X, pool.shape[1], allow_empty=True)
    kept = np.setdiff1d(np.arange(len(pool)), np.asarray(rejected_rows, dtype=np.intp))
    if len(kept) == 0:
        raise ValueError(f"candidates must outnumber rejected_rows; found {len(pool)} candidates")
    rows = [int(kept[np.abs(pool[kept] - x).sum(axis=1).argmax()]) for x in samples]
    return pool[rows].reshape(samples.shape)


def direct_search(option: ProbabilisticCertainty, theta: float, x: Floats, clip: bool) -> Floats:
    """Return the nearest point over the classes i of Nelder-Mead on |z - x|_1 + 1000 (1/p(i|z) - 1/theta).

    It is Algorithm 2 for any class probabilities, also those that are no function of signed scores.
    """
    points = []
    for i in range(len(option.classes)):

        def violation(z: Floats, i: int = i) -> float:
            p = float(option.probabilities(z[None])[0, i])
            return 1 / max(p, np.finfo(float).tiny) - 1 / theta

        points.append(nelder_mead(violation, x, 1000.0, clip, None))
    return min(points, key=lambda point: float(np.abs(point - x).sum()))


def shifted_threshold(certainties: list[Floats], correct: list[NDArray[np.bool_]]) -> OperatingPoint:
    """Return the threshold of the published grid that stands one place after the knee of the mean curve.

    Parameters
    ----------
    certainties, correct : lists of arrays of shape (n_f,)
        r(x) and whether the label is right, of the validation samples of each fold.

    Returns
    -------
    OperatingPoint
        Rate and accuracy are those of the knee, the threshold is the next one. `found` is False without a
        knee: then it is the first threshold of the grid that rejects anything at all.

    Examples
    --------
    >>> r = np.array([0.02, 0.04, 0.2, 0.35, 0.45, 0.55, 0.7, 0.8])
    >>> shifted_threshold([r], [r > 0.1]).threshold
    0.1
    """
    from kneed import KneeLocator

    def at(theta: float) -> tuple[float, float]:
        kept = [r >= theta for r in certainties]
        rates = [1 - k.mean() for k in kept]
        accuracies = [right[k].mean() if k.any() else 1.0 for k, right in zip(kept, correct, strict=True)]
        return float(np.mean(rates)), float(np.mean(accuracies))

    curve = np.array([at(theta) for theta in THRESHOLDS])
    rates, first = np.unique(curve[:, 0], return_index=True)
    accuracies = np.maximum.accumulate(curve[first, 1])
    knee = None
    if len(rates) > 2 and accuracies[0] < accuracies[-1]:
        knee = KneeLocator(rates, accuracies, curve="concave", direction="increasing").knee
    if knee is None:
        k = int((curve[:, 0] > 0).argmax())
        return OperatingPoint(float(THRESHOLDS[k]), float(curve[k, 0]), float(curve[k, 1]), False)
    k = int(np.searchsorted(curve[:, 0], knee))  # the first threshold with this rate
    shifted = min(k + 1, len(THRESHOLDS) - 1)
    return OperatingPoint(float(THRESHOLDS[shifted]), float(curve[k, 0]), float(curve[k, 1]))
