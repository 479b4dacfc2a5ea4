"""Training of LVQ models: the cost and its exact gradient, where L-BFGS starts, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, OptimizeResult, minimize
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from lvqrej.validation import LARGEST, Floats, check_number, check_samples, describe, dimensions, shape_of

Indices = NDArray[np.intp]

#: How many projections are held at once: they stay in the cache, and memory does not grow with the samples.
CHUNK = 2**16
#: Below this share of |z|^2 a squared distance has lost too many digits in the expansion of the square.
NEAR = 1e-4
#: A relative decrease of the cost that counts as none: of one iteration, of a fresh start.
LEAST_GAIN, LEAST_GAIN_OF_A_START = 1e-10, 1e-7
#: Standard deviation of a feature, relative to its largest value, that is taken for rounding error.
LEAST_STD = 1e-12
#: Relative variance below which a direction counts as having none.
LEAST_VARIANCE = 1e-8
#: Curvature of the log-determinant relative to that of the rest of the cost; found by trial.
REGULARIZED_VARIANCE = 20.0
#: Training squares values, and sums over samples.
LARGEST_VALUE = 1e140


@dataclass
class Problem:
    """Samples with classes, and what the cost of a prototype model on them depends on.

    The cost is the weighted mean over the samples of phi(c mu), mu = (d+ - d-) / (d+ + d-), where d+ and d-
    are the squared distances to the nearest prototype of the same and of another class, minus
    `regularization` times the log-determinant of L L' / trace(L L').

    Attributes
    ----------
    X : array of shape (n, d)
        Fastest if stored feature by feature (order "F").
    targets : array of shape (n,)
        The class of each sample, counted from 0.
    classes : array of shape (m,)
        The class of each prototype, counted from 0.
    weights : array of shape (n_classes, n_classes)
        c, by the class of the sample and the class of the nearest wrong prototype.
    beta : float
        Steepness of the logistic phi(t) = 1 / (1 + exp(-beta t)); 0 stands for the identity.
    regularization : float
    W : array of shape (d, d)
        The samples are W'x of the actual ones, so the matrix that is regularised is L W'.
    class_weights : array of shape (n_classes,), optional
        How much a sample of each class counts; 1 if None.
    chunks : list of (samples (d, rows), targets (rows,))
        Derived.
    """

    X: Floats
    targets: Indices
    classes: Indices
    weights: Floats
    beta: float
    regularization: float
    W: Floats
    class_weights: Floats | None = None

    def __post_init__(self) -> None:
        step = max(1, CHUNK // max(self.X.shape[1], len(self.classes)))
        starts = range(0, len(self.X), step)
        self.chunks = [(self.X.T[:, i : i + step], self.targets[i : i + step]) for i in starts]
        self.weighted = bool((self.weights != 1.0).any())

    def cost_and_gradient(self, P: Floats, L: Floats | None = None) -> tuple[float, Floats]:
        """Return the cost and its gradient by the rows of P (m, d) and, unless L is None, of L (k, d)."""
        n = len(self.X)
        Q = P if L is None else P @ L.T
        cost, by_Q, by_L = 0.0, np.zeros(Q.shape), np.zeros(() if L is None else L.shape)
        for X, targets in self.chunks:
            Z = X if L is None else L @ X
            sum_of_costs, slopes = self._sample_costs(Z, targets, Q)
            cost += sum_of_costs / n
            # Half the gradient of |z - q|^2 is z - q by z and q - z by q.
            by_Q += slopes.sum(axis=1)[:, None] * Q - slopes @ Z.T
            if L is not None:
                by_L += (slopes.sum(axis=0) * Z - Q.T @ slopes) @ X.T
        by_Q *= 2 / n
        if L is None:
            return cost, by_Q
        by_L = by_L * (2 / n) + by_Q.T @ P
        if self.regularization > 0:
            value, slope = log_determinant(L, self.W)
            cost -= self.regularization * value
            by_L -= self.regularization * slope
        return cost, np.concatenate([by_Q @ L, by_L])

    def _sample_costs(self, Z: Floats, targets: Indices, Q: Floats) -> tuple[float, Floats]:
        """Return the sum of phi(c mu), and the derivative of each by its squared distances, of shape (m, n).

        `Z` (k, n) are projected samples L x with their classes, `Q` (m, k) the projected prototypes L p.
        """
        distances, own = distances_between(Z, Q), self.classes[:, None] == targets
        plus = np.where(own, distances, np.inf).argmin(axis=0)
        minus = np.where(own, np.inf, distances).argmin(axis=0)
        samples = np.arange(len(targets))
        d_plus, d_minus = distances[plus, samples], distances[minus, samples]
        both = d_plus + d_minus
        # Two prototypes of different classes and the sample coincide: mu = 0 there, as for the certainty.
        both[both == 0.0] = 1.0
        c = self.weights[targets, self.classes[minus]] if self.weighted else 1.0
        costs = c * (d_plus - d_minus) / both
        scale = 2.0 * c / both / both
        if self.beta > 0.0:
            costs = expit(self.beta * costs)
            scale *= self.beta * costs * (1.0 - costs)
        if self.class_weights is not None:
            costs, scale = costs * self.class_weights[targets], scale * self.class_weights[targets]
        slopes = np.zeros(distances.shape)
        slopes[plus, samples] = scale * d_minus
        slopes[minus, samples] = -scale * d_plus
        return float(costs.sum()), slopes


def distances_between(Z: Floats, Q: Floats) -> Floats:
    """Return |z - q|^2 for all columns z of Z (k, n) and rows q of Q (m, k), of shape (m, n), to 11 digits.

    One matrix product does for most: |z|^2 - 2 q'z + |q|^2 loses the digits of distances that are small
    beside |z|^2, and only those are taken from differences.

    >>> distances_between(np.array([[3.0, 0.0], [4.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[ 0., 25.],
           [18.,  1.]])
    """
    squares = np.einsum("kn,kn->n", Z, Z)
    distances = Q @ Z
    distances *= -2.0
    distances += np.einsum("mk,mk->m", Q, Q)[:, None]
    distances += squares
    (near,) = (distances.min(axis=0) < NEAR * squares).nonzero()
    if len(near):
        for q, row in zip(Q, distances, strict=True):
            row[near] = np.square(Z[:, near] - q[:, None]).sum(axis=0)
    return distances


def log_determinant(L: Floats, W: Floats) -> tuple[float, Floats]:
    """Return log det(M M' / trace(M M')) of M = L W' and its gradient by L.

    Dividing by the trace makes it independent of the scale of M, as the rest of the cost is; otherwise it
    could be increased without end.
    """
    M = L @ W.T
    gram = M @ M.T
    trace = np.trace(gram)
    slope = 2 * np.linalg.solve(gram, M) - (2 * len(M) / trace) * M
    return float(np.linalg.slogdet(gram / trace)[1]), slope @ W


class Solution(NamedTuple):
    """Where the minimisation ended, after how many iterations, and whether it converged."""

    P: Floats
    L: Floats | None
    cost: float
    n_iter: int
    converged: bool


@np.errstate(over="ignore", invalid="ignore")  # a cost that is no number is told in words
def minimise(
    problem: Problem,
    P: Floats,
    L: Floats | None,
    *,
    gtol: float,
    max_iter: int,
    box: tuple[Floats, Floats] | None = None,
    watch: Callable[[float, Floats, Floats | None], None] | None = None,
) -> Solution:
    """Minimise the cost from P and L (from P alone if L is None) by L-BFGS.

    With more than two classes, or several prototypes of one, the cost has a kink wherever the nearest
    prototype changes. Minima lie on kinks, where no gradient vanishes, and a kink on the way can end a line
    search too early. So L-BFGS starts afresh until the gradient is below `gtol` or a start gains nothing.
    Prototypes stay within `box`, lowest and highest values of each coordinate, if there is one. `watch` is
    called with the cost, P and L before the first and after each iteration.
    """
    m, d = P.shape

    def split(v: Floats) -> tuple[Floats, Floats | None]:
        V = v.reshape(-1, d)
        return V[:m], None if L is None else V[m:]

    def cost_of(v: Floats) -> tuple[float, Floats]:
        cost, gradient = problem.cost_and_gradient(*split(v))
        return cost, gradient.ravel()

    callback = None  # calling one takes SciPy longer than an iteration on few samples
    if watch is not None:
        watch(problem.cost_and_gradient(P, L)[0], P, L)

        def callback(intermediate_result: OptimizeResult) -> None:
            watch(intermediate_result.fun, *split(intermediate_result.x))

    v = (P if L is None else np.concatenate([P, L])).ravel()
    options = {"gtol": gtol, "ftol": LEAST_GAIN, "maxcor": 50, "maxfun": 100 * max_iter}
    cost, n_iter, converged = np.inf, 0, False
    limits = None
    if box is not None:
        free = np.full(v.size - m * d, np.inf)
        limits = Bounds(np.append(np.tile(box[0], m), -free), np.append(np.tile(box[1], m), free))
    while not converged and n_iter < max_iter:
        options["maxiter"] = max_iter - n_iter
        result = minimize(
            cost_of, v, jac=True, method="L-BFGS-B", bounds=limits, options=options, callback=callback
        )
        if not np.isfinite(result.fun):
            raise ValueError(
                f"the cost of the model must be a number; found {result.fun} after {n_iter + result.nit} "
                "iterations: scale the features (StandardScaler), start nearer to the data, or choose "
                "moderate beta, c and regularization"
            )
        gained = cost - result.fun
        v, cost, n_iter = result.x, result.fun, n_iter + result.nit
        converged = np.abs(result.jac).max() <= gtol or gained <= LEAST_GAIN_OF_A_START * abs(cost)
    return Solution(*split(v), cost, n_iter, bool(converged))


@dataclass
class Coordinates:
    """Coordinates z = W'(x - mean) in which the cost has a rounder valley.

    The Hessian of the cost by a row of L resembles the covariance of the data, so that a matrix is learned
    in whitened coordinates: on Breast Cancer L-BFGS then needs tens of iterations and not thousands, and
    rounding errors are not amplified on the way. It is the same problem: L z = (L W') (x - mean).

    Attributes
    ----------
    mean, std : arrays of shape (d,)
        Mean and standard deviation of the features, 1 for a constant one.
    W, inverse : arrays of shape (d, d)
    """

    mean: Floats
    std: Floats
    W: Floats
    inverse: Floats

    @classmethod
    def of(cls, X: Floats, *, whiten: bool, regularization: float = 0.0) -> Coordinates:
        """Return whitened coordinates of `X`, or centred ones in units of its spread if not `whiten`."""
        if (largest := np.abs(X).max()) > LARGEST_VALUE:
            raise ValueError(f"X must have values up to {LARGEST_VALUE:g}; found {largest:g}: scale it")
        mean = X.sum(axis=0) / len(X)  # `mean` and `std` of NumPy take twice as long on few samples
        std = np.sqrt(np.square(X - mean).sum(axis=0) / len(X))
        std[std <= LEAST_STD * np.abs(X).max(axis=0)] = 1.0
        d = len(std)
        if not whiten:
            spread = np.sqrt(np.square(std).sum() / d)
            return cls(mean, std, np.diag(np.full(d, 1 / spread)), np.diag(np.full(d, spread)))
        Z = (X - mean) / std
        correlation = Z.T @ Z / len(Z)
        # The Hessian of the regularisation resembles the identity: with it, less is whitened.
        ridge = REGULARIZED_VARIANCE * regularization * np.sum(std**2)
        variances, axes = np.linalg.eigh(correlation + ridge * np.diag(1 / std**2))
        # W must be invertible; along directions without variance nothing moves anyway.
        roots = np.sqrt(np.maximum(variances, LEAST_VARIANCE * (variances[-1] or 1.0)))
        return cls(mean, std, ((axes / roots) @ axes.T) / std[:, None], ((axes * roots) @ axes.T) * std)

    def to(self, X: Floats) -> Floats:
        """Return z of the rows of `X`, stored feature by feature."""
        return (self.W.T @ (X - self.mean).T).T

    def back(self, Z: Floats) -> Floats:
        """Return x of the rows of `Z`."""
        return Z @ self.inverse + self.mean


def reach(X: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and highest values, each (d,), that count as near samples: half a range beyond.

    >>> reach(np.array([[0.0, 1.0], [2.0, 5.0]]))
    (array([-1., -1.]), array([3., 7.]))
    """
    low, high = X.min(axis=0), X.max(axis=0)
    return low - (high - low) / 2, high + (high - low) / 2


def class_centres(
    X: Floats, targets: Indices, classes: NDArray[Any], per_class: Any, random_state: Any
) -> tuple[Floats, Indices]:
    """Return prototypes (m, d) to start from and their classes (m,), counted from 0.

    They are the means of the classes, or the centres of a k-means clustering where there are several.
    """
    given = [per_class] * len(classes) if dimensions(per_class) == 0 else per_class
    if len(given) != len(classes):
        raise ValueError(
            f"prototypes_per_class must have one entry per class ({len(classes)}); found {len(given)}"
        )
    counts = [int(check_number(count, "prototypes_per_class", low=1, integer=True)) for count in given]
    # Only k-means needs a generator: setting one up takes as long as a quarter of a small training.
    generator = check_random_state(random_state) if max(counts) > 1 else None
    centres = []
    for label, count in enumerate(counts):
        members = X[targets == label]
        if len(members) < count:
            raise ValueError(
                "prototypes_per_class must not exceed the number of samples of a class; found "
                f"{count} prototypes for the {len(members)} samples of class {classes[label]!r}"
            )
        if count == 1:
            centres.append(members.sum(axis=0)[None] / len(members))
        else:
            centres.append(KMeans(count, n_init=10, random_state=generator).fit(members).cluster_centers_)
    return np.concatenate(centres), np.repeat(np.arange(len(counts)), counts)


def given_prototypes(given: Any, d: int, classes: NDArray[Any]) -> tuple[Floats, Indices]:
    """Take `initial_prototypes`, of shape (m, d + 1), apart into prototypes and classes counted from 0."""
    if dimensions(given) != 2 or np.shape(given)[1] != d + 1:
        raise ValueError(
            f"initial_prototypes must have shape (m, {d + 1}): {d} features and the label; "
            f"found {shape_of(given)}"
        )
    rows = np.asarray(given)
    matches = rows[:, -1][:, None] == classes
    if not (matches.any(axis=1).all() and matches.any(axis=0).all()):
        raise ValueError(
            f"initial_prototypes must have labels that are the classes of y ({classes.tolist()}), "
            f"each at least once; found {rows[:, -1].tolist()}"
        )
    return check_samples(rows[:, :-1], name="initial_prototypes"), matches.argmax(axis=1)


def initial_matrix(given: Any, k: int | None, P: Floats, space: Coordinates, regularization: float) -> Floats:
    """Return L, of shape (k, d), to start from, in the coordinates of `space`.

    It is `given`, or the identity in units of the features' standard deviations, or if k < d the first k
    directions in which the prototypes `P` differ in whitened coordinates, the axes of a linear discriminant
    analysis; scaled such that its squared entries have the sum k.
    """
    d = P.shape[1]
    start = None if given is None else check_samples(given, d, name="initial_matrix")
    if k is None:
        k = d if start is None else len(start)
    k = int(check_number(k, "initialdim", low=1, high=d, integer=True))
    if start is not None:
        if len(start) != k:
            raise ValueError(f"initial_matrix must have initialdim = {k} rows; found {len(start)}")
        if not start.any():
            raise ValueError("initial_matrix must not be zero; found only zeros")
        L = start @ space.inverse.T
    elif k == d:
        L = space.inverse.T / space.std[:, None]
    else:
        L = np.linalg.svd(space.to(P))[2][:k]
    if regularization > 0 and (rank := np.linalg.matrix_rank(L)) < k:
        raise ValueError(
            f"initial_matrix must have full rank unless regularization is 0; found rank {rank} of {k}"
        )
    return L * np.sqrt(k) / np.linalg.norm(L)


def balance(given: Any, classes: NDArray[Any], targets: Indices) -> Floats | None:
    """Return how much a sample of each class counts, 1 on average; None if all count the same."""
    if given is None:
        return None
    try:
        weights = compute_class_weight(given, classes=classes, y=classes[targets])
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of the classes {classes.tolist()} to numbers; "
            f"found {describe(given)}"
        ) from error
    for weight in weights:
        check_number(weight, "class_weight", low=0, low_open=True, high=LARGEST)
    return weights / weights[targets].mean()


def cost_weights(given: Any, classes: NDArray[Any]) -> Floats:
    """Return the weights c listed in `given`, of shape (n_classes, n_classes), 1 if not listed."""
    weights = np.ones((len(classes), len(classes)))
    known = classes.tolist()
    if given is not None and not isinstance(given, (list, tuple, np.ndarray)):
        raise ValueError(f"c must be a list of (label, label, weight); found {describe(given)}")
    for row in [] if given is None else given:
        listed = isinstance(row, (list, tuple, np.ndarray)) and len(row) == 3
        if not listed or row[0] not in known or row[1] not in known:
            raise ValueError(f"c must list (label, label, weight) with labels of y; found {row!r}")
        weight = check_number(row[2], "the weight in c", low=0, low_open=True, high=LARGEST)
        weights[classes == row[0], classes == row[1]] = weight
    return weights
