"""The cost of generalized learning vector quantization, its exact gradient, and their minimisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

Array = NDArray[np.float64]

#: Rows whose projections are held at once: they stay in the cache, and memory does not grow with them.
CHUNK = 2048
#: A relative decrease of the cost that counts as none: of one iteration, of a fresh start.
LEAST_GAIN = 1e-10
LEAST_GAIN_OF_A_START = 1e-7


@njit(cache=True, fastmath={"reassoc"})  # sums over features in any order, so that they run side by side
def add_sample_costs(
    Z: Array,
    targets: NDArray[np.intp],
    Q: Array,
    classes: NDArray[np.intp],
    weights: Array,
    beta: float,
    pull: Array,
) -> float:
    """Return the sum of phi(c mu) over the samples and leave its derivatives in `Z` and `pull`.

    Parameters
    ----------
    Z : array of shape (n, k)
        Projected samples L x; overwritten by half the derivative of each sample's cost by its own L x.
    targets : array of shape (n,)
        The class of each sample, counted from 0.
    Q : array of shape (m, k)
        Projected prototypes L p.
    classes : array of shape (m,)
        The class of each prototype, counted from 0.
    weights : array of shape (classes, classes)
        c, by the class of the sample and the class of the nearest wrong prototype.
    beta : float
        Steepness of the logistic phi(t) = 1 / (1 + exp(-beta t)); 0 stands for the identity.
    pull : array of shape (m, k)
        Minus half the derivative by L p is added to it.
    """
    n, k = Z.shape
    m = Q.shape[0]
    total = 0.0
    for i in range(n):
        plus = minus = -1
        d_plus = d_minus = np.inf
        for j in range(m):
            distance = 0.0
            for r in range(k):
                distance += (Z[i, r] - Q[j, r]) ** 2
            if classes[j] == targets[i]:
                if distance < d_plus:
                    plus, d_plus = j, distance
            elif distance < d_minus:
                minus, d_minus = j, distance
        both = d_plus + d_minus
        c = weights[targets[i], classes[minus]]
        # Two prototypes of different classes and the sample coincide: mu = 0 there, as for the certainty.
        mu = (d_plus - d_minus) / both if both > 0.0 else 0.0
        slope = 1.0
        if beta > 0.0:
            phi = 1.0 / (1.0 + np.exp(-beta * c * mu))
            slope = beta * phi * (1.0 - phi)
            total += phi
        else:
            total += c * mu
        scale = 2.0 * c * slope / both / both if both > 0.0 else 0.0
        for r in range(k):
            attract = scale * d_minus * (Z[i, r] - Q[plus, r])
            repel = scale * d_plus * (Z[i, r] - Q[minus, r])
            pull[plus, r] += attract
            pull[minus, r] -= repel
            Z[i, r] = attract - repel
    return total


@dataclass
class Problem:
    """Samples with classes, and what the cost of a prototype model on them depends on.

    The cost is the mean over the samples of phi(c mu), mu = (d+ - d-) / (d+ + d-), where d+ and d- are the
    squared distances to the nearest prototype of the same and of another class, minus
    `regularization` times the log-determinant of L L' / trace(L L').

    Attributes
    ----------
    X : array of shape (n, d)
    targets : array of shape (n,)
    classes : array of shape (m,)
    weights : array of shape (classes, classes)
    beta : float
        See `add_sample_costs`.
    regularization : float
    W : array of shape (d, d)
        The samples are W'x of the actual ones, so the matrix that is regularised is L W'.
    chunks : list of (samples, targets)
        Derived: `CHUNK` rows each.
    """

    X: Array
    targets: NDArray[np.intp]
    classes: NDArray[np.intp]
    weights: Array
    beta: float
    regularization: float
    W: Array

    def __post_init__(self) -> None:
        starts = range(0, len(self.X), CHUNK)
        self.chunks = [(self.X[i : i + CHUNK], self.targets[i : i + CHUNK]) for i in starts]

    def cost_and_gradient(self, P: Array, L: Array | None = None) -> tuple[float, Array]:
        """Return the cost and its gradient by the rows of P (m, d) and, unless L is None, of L (k, d)."""
        n = len(self.X)
        Q = P if L is None else P @ L.T
        cost, pull, by_L = 0.0, np.zeros(Q.shape), np.zeros(() if L is None else L.shape)
        for X, targets in self.chunks:
            Z = X.copy() if L is None else X @ L.T
            cost += add_sample_costs(Z, targets, Q, self.classes, self.weights, self.beta, pull)
            if L is not None:
                by_L += Z.T @ X
        cost /= n
        if L is None:
            return cost, pull * (-2 / n)
        by_L -= pull.T @ P
        by_L *= 2 / n
        if self.regularization > 0:
            penalty, slope = log_determinant(L, self.W)
            cost -= self.regularization * penalty
            by_L -= self.regularization * slope
        return cost, np.concatenate([pull @ L * (-2 / n), by_L])


def log_determinant(L: Array, W: Array) -> tuple[float, Array]:
    """Return log det(M M' / trace(M M')) of M = L W' and its gradient by L.

    Dividing by the trace makes it independent of the scale of M, as the rest of the cost is; otherwise it
    could be increased without end.
    """
    M = L @ W.T
    gram = M @ M.T
    trace = np.trace(gram)
    slope = 2 * np.linalg.solve(gram, M) - (2 * len(M) / trace) * M
    return float(np.linalg.slogdet(gram / trace)[1]), slope @ W


@dataclass
class Solution:
    """Where the minimisation ended, after how many iterations, and whether it converged."""

    P: Array
    L: Array | None
    cost: float
    n_iter: int
    converged: bool


def minimise(
    problem: Problem,
    P: Array,
    L: Array | None,
    *,
    gtol: float,
    max_iter: int,
    watch: Callable[[float, Array, Array | None], None] | None = None,
) -> Solution:
    """Minimise the cost from P and L (from P alone if L is None) by L-BFGS.

    With more than two classes, or several prototypes of one, the cost has a kink wherever the nearest
    prototype changes. Minima lie on kinks, where no gradient vanishes, and a kink on the way can end a line
    search too early. So L-BFGS starts afresh until the gradient is below `gtol` or a start gains nothing.
    `watch` is called with the cost, P and L after each iteration.
    """
    m, d = P.shape

    def split(v: Array) -> tuple[Array, Array | None]:
        V = v.reshape(-1, d)
        return V[:m], None if L is None else V[m:]

    latest = np.empty(0)  # SciPy asks for the gradient after the cost, at the same place

    def cost_of(v: Array) -> float:
        nonlocal latest
        cost, gradient = problem.cost_and_gradient(*split(v))
        latest = gradient.ravel()
        return cost

    def gradient_of(v: Array) -> Array:
        return latest

    callback = None  # calling one takes SciPy longer than an iteration on few samples
    if watch is not None:

        def callback(intermediate_result: OptimizeResult) -> None:
            watch(intermediate_result.fun, *split(intermediate_result.x))

    v = (P if L is None else np.concatenate([P, L])).ravel()
    cost, n_iter, converged = np.inf, 0, False
    while not converged and n_iter < max_iter:
        options = {
            "gtol": gtol,
            "ftol": LEAST_GAIN,
            "maxcor": 50,
            "maxiter": max_iter - n_iter,
            "maxfun": 100 * max_iter,
        }
        result = minimize(cost_of, v, jac=gradient_of, method="L-BFGS-B", options=options, callback=callback)
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
