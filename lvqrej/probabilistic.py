"""The paper's third certainty: class probabilities from one calibrated LVQ model per pair of classes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold

from lvqrej.cells import Cells
from lvqrej.certainty import Certainty, Verdicts, check_theta
from lvqrej.local_search import Pairs
from lvqrej.lvq import GMLVQ
from lvqrej.probable_set import EFFORT, GAP, ProbableSet, pairs_of, two_classes
from lvqrej.prototypes import PrototypeModel
from lvqrej.validation import (
    LARGEST,
    check_kinds,
    check_names,
    check_number,
    check_samples,
    describe,
    feature_names_of,
)

Floats = NDArray[np.float64]


class UninformativePairWarning(UserWarning):
    """The score of a pairwise model does not rise with the probability of its class (alpha >= 0)."""


class ProbabilisticCertainty(Certainty):
    """Probability of the most probable class, combined from the pairs of classes.

    In the LVQ model of classes i and j let d_i, d_j be the distances to their nearest prototypes:

        s_ij(x) = (d_j - d_i) / (d_j + d_i)                       (0 where both vanish)
        p_ij(x) = 1 / (1 + e_ij),  e_ij = exp(alpha_ij s_ij(x) + beta_ij)
        p(i | x) = 1 / (1 + sum_{j != i} e_ij)                    (Price et al.)
        r(x) = max_i p(i | x)

    With s_ji = -s_ij, alpha_ji = alpha_ij and beta_ji = -beta_ij both orders of a pair agree,
    p_ij + p_ji = 1. A score that rises with class i has alpha_ij < 0.

    Parameters
    ----------
    estimator : estimator, optional
        What is fitted to each pair of classes, of a kind that `PrototypeModel.of` understands; `GMLVQ()` if
        None.
    cv : int
        Number of stratified folds whose held-out scores are calibrated.
    normalize : bool
        Whether to divide the probabilities by their sum, which is at most 1.
    random_state : int
        Seed of the shuffling into folds.

    Attributes
    ----------
    models_ : dict of (i, j) with i < j to PrototypeModel
        The pairwise models; i and j index `classes`.
    alpha_, beta_ : arrays of shape (K, K)
        The calibration, symmetric and antisymmetric, with zeros on the diagonal.
    uninformative_pairs_ : list of pairs of labels
        The pairs with alpha >= 0: there the score says nothing about the class, or the reverse.
    held_out_ : dict of (i, j) to (scores, is_i)
        What each pair was calibrated on: s_ij and whether the true label is i. Empty after `from_pairs`.

    Examples
    --------
    >>> model = PrototypeModel([[0], [2]], ["a", "b"])
    >>> slope, shift = [[0, -4], [-4, 0]], [[0, 0], [0, 0]]
    >>> option = ProbabilisticCertainty.from_pairs({(0, 1): model}, slope, shift, ["a", "b"])
    >>> option.probabilities([[0], [1]]).round(3)
    array([[0.982, 0.018],
           [0.5  , 0.5  ]])
    >>> option.accepts([[0], [1]], theta=0.9)
    array([ True, False])
    """

    name = "probabilistic certainty"
    models_: dict[tuple[int, int], PrototypeModel]
    alpha_: Floats
    beta_: Floats
    uninformative_pairs_: list[tuple[Any, Any]]
    held_out_: dict[tuple[int, int], tuple[Floats, NDArray[np.bool_]]]
    _pairs: Pairs | None = None  # made when first asked for

    def __init__(
        self, estimator: Any = None, cv: int = 5, normalize: bool = False, random_state: int = 0
    ) -> None:
        if estimator is not None and (isinstance(estimator, type) or not hasattr(estimator, "fit")):
            raise ValueError(f"estimator must be an LVQ estimator or None; found {describe(estimator)}")
        if not isinstance(normalize, (bool, np.bool_)):
            raise ValueError(f"normalize must be True or False; found {describe(normalize)}")
        self.estimator = estimator
        self.cv = int(check_number(cv, "cv", low=2, integer=True))
        self.normalize = bool(normalize)
        self.random_state = int(
            check_number(random_state, "random_state", low=0, high=2**32 - 1, integer=True)
        )

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit one model per pair of classes and calibrate its score.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            At least two classes with at least `cv` samples each.
        """
        samples = check_samples(X)
        classes, label_index = self._check_labels(y, len(samples))
        estimator = GMLVQ() if self.estimator is None else self.estimator
        alpha, beta = np.zeros((2, len(classes), len(classes)))
        models, held_out = {}, {}
        for i, j in combinations(range(len(classes)), 2):
            rows = np.flatnonzero((label_index == i) | (label_index == j))
            of_pair, labels = samples[rows], classes[label_index[rows]]
            models[i, j] = _fitted(estimator, of_pair, labels)
            scores = self._held_out_scores(estimator, of_pair, labels, classes[i])
            held_out[i, j] = scores, labels == classes[i]
            alpha[i, j], beta[i, j] = platt_scaling(*held_out[i, j])
        self._set(models, alpha + alpha.T, beta - beta.T, classes, feature_names_of(X))
        self.held_out_ = held_out
        if self.uninformative_pairs_:
            pairs = ", ".join(f"{first!r} and {second!r}" for first, second in self.uninformative_pairs_)
            warnings.warn(
                f"the calibrated score tells nothing about, or the reverse of, the classes {pairs} "
                "(alpha >= 0): to tell them apart takes more samples, other features or another estimator",
                UninformativePairWarning,
                stacklevel=2,
            )
        return self

    @classmethod
    def from_pairs(
        cls,
        models: Mapping[tuple[int, int], PrototypeModel],
        alpha: ArrayLike,
        beta: ArrayLike,
        classes: ArrayLike,
        normalize: bool = False,
    ) -> Self:
        """Return the certainty made of given parts, as `fit` stores them.

        Parameters
        ----------
        models : mapping of (i, j) with i < j to PrototypeModel
            One per pair, labelled `classes[i]` and `classes[j]`.
        alpha : array-like of shape (K, K)
            Symmetric, finite; the diagonal is not used.
        beta : array-like of shape (K, K)
            Antisymmetric, finite.
        classes : array-like of shape (K,)
        normalize : bool
        """
        labels = np.asarray(classes)
        if labels.ndim != 1 or len(labels) < 2 or len(np.unique(labels)) < len(labels):
            raise ValueError(f"classes must be at least two distinct labels; found {describe(classes)}")
        _check_models(models, labels)
        slope, shift = _check_square(alpha, "alpha", len(labels)), _check_square(beta, "beta", len(labels))
        if (slope != slope.T).any():
            raise ValueError("alpha must be symmetric (alpha_ji = alpha_ij); found different entries")
        if (shift != -shift.T).any():
            raise ValueError("beta must be antisymmetric (beta_ji = -beta_ij); found other entries")
        option = cls(normalize=normalize)
        np.fill_diagonal(slope, 0)
        option._set(dict(models), slope, shift, labels, models[0, 1].feature_names)
        return option

    def probabilities(self, X: ArrayLike) -> Floats:
        """Return p(i | x), of shape (n, K), in the order of `classes`."""
        return price_combination(self._evaluated(X)[0], self.normalize)

    def pairwise_probabilities(self, X: ArrayLike) -> Floats:
        """Return p_ij(x), of shape (n, K, K), 1/2 on the diagonal; p_ij + p_ji is 1 to the last bit.

        The smaller of a pair is computed and the larger is 1 minus it: for q <= 1/2 the rounded 1 - q is
        within half an ulp of 1 - q, so its sum with q rounds to 1, the even neighbour.
        """
        exponents = self._evaluated(X)[0]
        e = np.exp(-np.abs(exponents))
        smaller = e / (1 + e)
        return np.where(exponents > 0, smaller, 1 - smaller)

    def certainty(self, X: ArrayLike) -> Floats:
        """Return r(x) in [0, 1], of shape (n,)."""
        return self.probabilities(X).max(axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class (the first one on a tie), of shape (n,)."""
        most_probable = self.probabilities(X).argmax(axis=1)
        return self.classes[most_probable]

    def verdicts(self, X: ArrayLike) -> Verdicts:
        """Return r(x), the two most probable classes, and the distances to them in the model of the two."""
        exponents, distances = self._evaluated(X)
        p, rows = price_combination(exponents, self.normalize), np.arange(len(exponents))
        label = p.argmax(axis=1)
        others = p.copy()
        others[rows, label] = -1.0
        rival = others.argmax(axis=1)
        near, far = distances[rows, label, rival], distances[rows, rival, label]
        return Verdicts(p[rows, label], label, rival, np.sqrt(near), np.sqrt(far), np.zeros(len(rows)))

    def models(self) -> dict[tuple[int, ...], PrototypeModel]:
        """Return one model per pair of classes."""
        self._check_fitted()
        return {(i, j): model for (i, j), model in self.models_.items()}

    def cells(self, theta: float, gap: float = GAP, effort: int = EFFORT) -> Cells | ProbableSet:
        """Return the accepted set r(x) >= theta, as `explain` searches it.

        For two classes it is a finite union of `Cells`, the relative similarity's balls with threshold
        gamma = (log kappa - beta) / alpha, kappa = 1/theta - 1, unless a gamma in (-1, 0) makes one of them
        the outside of a ball. For more classes, p(i | x) >= theta is sum_j e_ij <= kappa, a union over all
        budgets w of the cells e_ij <= kappa w_j. A branch and bound refines it for each sample until its
        relative gap is at most `gap` or `effort` programs are solved; `explain` reports the gap it has.

        Parameters
        ----------
        theta : float
        gap : float
        effort : int

        Examples
        --------
        >>> model = PrototypeModel([[0, 0], [2, 0]], ["a", "b"])
        >>> slope, shift = [[0, -4], [-4, 0]], [[0, 0], [0, 0]]
        >>> option = ProbabilisticCertainty.from_pairs({(0, 1): model}, slope, shift, ["a", "b"])
        >>> ball = option.cells(0.9)[0].balls[0]
        >>> ball.centre.round(4), round(ball.radius, 4)
        (array([-0.8205,  0.    ]), 1.5212)
        """
        self._check_fitted()
        check_number(gap, "gap", low=0, high=1)
        check_number(effort, "effort", low=0, integer=True)
        if self._pairs is None:
            self._pairs = pairs_of(self.models_, self.alpha_, self.beta_, self.classes)
        level, K = check_theta(theta), len(self.classes)
        level = max(level, 0.5) if K == 2 else level  # of two probabilities that add up to 1
        cells = two_classes(self._pairs, level) if K == 2 else None
        if cells is not None:
            return cells
        return ProbableSet(self, level, self._pairs, tuple(range(K)), gap=float(gap), effort=int(effort))

    def _check_fitted(self) -> None:
        if not hasattr(self, "models_"):
            raise NotFittedError("this ProbabilisticCertainty has no models yet; call fit(X, y) first")

    def _evaluated(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Return alpha_ij s_ij(x) + beta_ij, and d_i in the model of i and j, both of shape (n, K, K)."""
        self._check_fitted()
        samples = check_samples(X, self.n_features, allow_empty=True)
        check_names(X, self.feature_names)
        exponents, nearest = np.zeros((2, len(samples), len(self.classes), len(self.classes)))
        for (i, j), model in self.models_.items():
            own, other = _nearest_two(model, samples, self.classes[i])
            exponents[:, i, j] = self.alpha_[i, j] * _score(own, other) + self.beta_[i, j]
            exponents[:, j, i] = -exponents[:, i, j]
            nearest[:, i, j], nearest[:, j, i] = own, other
        return exponents, nearest

    def _check_labels(self, y: Any, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
        check_kinds(y)
        labels = np.asarray(y)
        if labels.shape != (n,):
            raise ValueError(f"y must have one label per sample, shape ({n},); found shape {labels.shape}")
        classes, label_index, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes; found only {classes.tolist()}")
        if counts.min() < self.cv:
            raise ValueError(
                f"y must hold at least cv={self.cv} samples of each class; "
                f"found {counts.min()} of class {classes.tolist()[counts.argmin()]!r}"
            )
        return classes, label_index

    def _held_out_scores(self, estimator: Any, X: Floats, labels: NDArray[Any], label: Any) -> Floats:
        """Return the score of each sample by a model that has not seen it, of shape (n,)."""
        scores = np.empty(len(X))
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.random_state)
        for train, test in folds.split(X, labels):
            scores[test] = signed_similarity(_fitted(estimator, X[train], labels[train]), X[test], label)
        return scores

    def _set(
        self,
        models: dict[tuple[int, int], PrototypeModel],
        alpha: Floats,
        beta: Floats,
        classes: NDArray[Any],
        feature_names: list[str] | None,
    ) -> None:
        self.models_, self.alpha_, self.beta_, self.classes = models, alpha, beta, classes
        self.n_features, self.feature_names = models[0, 1].n_features, feature_names
        labels = classes.tolist()
        self.uninformative_pairs_ = [(labels[i], labels[j]) for i, j in models if alpha[i, j] >= 0]
        self.held_out_ = {}
        self._pairs = None


def signed_similarity(model: PrototypeModel, X: ArrayLike, label: Any) -> Floats:
    """Return s(x) = (d_other - d_label) / (d_other + d_label) in a model of two classes, of shape (n,).

    It is 1 on a prototype of class `label`, -1 on one of the other class, 0 where both distances vanish.

    >>> signed_similarity(PrototypeModel([[0], [2]], ["a", "b"]), [[0], [0.5], [1], [2]], "b")
    array([-1. , -0.8,  0. ,  1. ])
    """
    return _score(*_nearest_two(model, X, label))


def _nearest_two(model: PrototypeModel, X: ArrayLike, label: Any) -> tuple[Floats, Floats]:
    """Return the distances to the nearest prototypes of a class and of the other one, of shape (n,)."""
    distances, of_label = model.distances(X), model.labels == label
    return distances[:, of_label].min(axis=1), distances[:, ~of_label].min(axis=1)


def _score(own: Floats, other: Floats) -> Floats:
    total = other + own
    return np.divide(other - own, total, out=np.zeros_like(total), where=total > 0)


def platt_scaling(scores: ArrayLike, is_first: ArrayLike) -> tuple[float, float]:
    """Return alpha and beta of p = 1 / (1 + exp(alpha s + beta)), fitted to held-out scores.

    Platt's targets are (n_1 + 1) / (n_1 + 2) for the n_1 samples of the first class and 1 / (n_0 + 2) for
    the n_0 others. The cross-entropy to them is convex, and as they are neither 0 nor 1 its minimum is finite
    even for separable scores: Newton's method, with steps halved until they descend.

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
    design = np.column_stack([(s - centre) / scale, np.ones(n)])

    def cost(w: Floats) -> float:
        t = design @ w
        return float((np.logaddexp(0.0, t) - target * t).sum())

    w, step = np.array([0.0, np.log(target.sum() / (1 - target).sum())]), np.ones(2)
    while np.abs(step).max() > 1e-12 * (1 + np.abs(w).max()):
        p = 1 / (1 + np.exp(-(design @ w)))
        hessian = (design * (p * (1 - p))[:, None]).T @ design
        step = np.linalg.solve(hessian, design.T @ (target - p))
        while cost(w + step) > cost(w) and np.abs(step).max() > 1e-12:
            step = step / 2
        w = w + step
    return float(-w[0] / scale), float(w[0] / scale * centre - w[1])


def price_combination(exponents: Floats, normalize: bool = False) -> Floats:
    """Return p_i = 1 / (1 + sum_{j != i} exp(t_ij)), of shape (n, K), for exponents t of shape (n, K, K).

    The largest exponent above 0 is taken out of numerator and denominator, so nothing overflows, and the
    normalisation shifts log p_i, so it is defined where every p_i underflows.

    >>> price_combination(np.array([[[0.0, -2.0], [2.0, 0.0]]])).round(3)
    array([[0.881, 0.119]])
    """
    t = np.where(np.eye(exponents.shape[1], dtype=bool), 0.0, exponents)  # the 1 is exp(0)
    top = t.max(axis=2)
    total = np.exp(t - top[..., None]).sum(axis=2)
    if not normalize:
        return np.exp(-top) / total
    log_p = -top - np.log(total)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _fitted(estimator: Any, X: Floats, labels: NDArray[Any]) -> PrototypeModel:
    """Fit a copy of the estimator and return its prototypes, labels and metric."""
    fitted = clone(estimator).fit(X, labels)
    try:
        return PrototypeModel.of(fitted)
    except ValueError as error:
        raise ValueError(f"estimator must be a kind that PrototypeModel.of understands: {error}") from error


def _check_models(models: Any, classes: NDArray[Any]) -> None:
    """Raise a ValueError unless there is one model per pair, of its two classes, all of the same features."""
    pairs = set(combinations(range(len(classes)), 2))
    if not isinstance(models, Mapping) or set(models) != pairs:
        found = sorted(models) if isinstance(models, Mapping) else describe(models)
        raise ValueError(f"models must map each pair of {sorted(pairs)} to a model; found {found}")
    for (i, j), model in models.items():
        if not isinstance(model, PrototypeModel):
            raise ValueError(f"models must hold PrototypeModels; found {describe(model)} for pair {(i, j)}")
        if set(model.classes.tolist()) != {*classes[[i, j]].tolist()}:
            raise ValueError(
                f"models[{i}, {j}] must be of classes {classes[[i, j]].tolist()}; "
                f"found {model.classes.tolist()}"
            )
        if model.n_features != models[0, 1].n_features:
            raise ValueError(
                f"models must all have the same features; found {model.n_features} for pair {(i, j)} "
                f"and {models[0, 1].n_features} for pair (0, 1)"
            )


def _check_square(matrix: ArrayLike, name: str, K: int) -> Floats:
    """Return a (K, K) copy of the matrix, or raise a ValueError."""
    square = check_samples(matrix, K, name=name).copy()
    if square.shape != (K, K):
        raise ValueError(f"{name} must have shape {(K, K)}; found shape {square.shape}")
    if (abs(square) > LARGEST / 4).any():
        raise ValueError(f"{name} must leave room for sums; found an entry of {abs(square).max():g}")
    return square
