"""The probabilistic option solved directly: the paper's Algorithm 2, and a better solver of the same problem.

Notation: K classes; for classes i and j a pairwise model with metric L_ij and the score
s_ij = (d_j - d_i) / (d_j + d_i) of the nearest prototype of each; e_ij = exp(alpha_ij s_ij + beta_ij); and
p(i|x) = 1 / (1 + sum_j e_ij).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError

from companion.programs import Baseline, Program, Vector, best_program, check_sample, judged, nelder_mead
from lvqrej import ProbabilisticCertainty
from lvqrej.validation import LARGEST, check_number, describe


@dataclass(frozen=True)
class Pair:
    """What class i needs to know of class j: both classes' prototypes, the metric and the sigmoid."""

    own: Vector
    other: Vector
    L: Vector
    alpha: float
    beta: float

    def exponent(self, x: Vector) -> tuple[float, Vector]:
        """Return alpha s(x) + beta and its gradient, of shape (d,), that of the two nearest prototypes."""
        to_own, to_other = (x - self.own) @ self.L.T, (x - self.other) @ self.L.T
        d_own, d_other = (to_own**2).sum(axis=1), (to_other**2).sum(axis=1)
        i, j = d_own.argmin(), d_other.argmin()
        total = d_own[i] + d_other[j]
        if total == 0:
            return self.beta, np.zeros_like(x)
        slope = 4 * (d_own[i] * to_other[j] - d_other[j] * to_own[i]) @ self.L / total**2
        return self.alpha * (d_other[j] - d_own[i]) / total + self.beta, self.alpha * slope


def pairs_of(option: ProbabilisticCertainty, i: int) -> list[Pair]:
    """Return the pairs (i, j) for all other classes j, in the order of the classes."""
    pairs = []
    for j in range(len(option.classes)):
        if j == i:
            continue
        model = option.models_[min(i, j), max(i, j)]
        own = model.labels == option.classes[i]
        pairs.append(
            Pair(
                model.prototypes[own],
                model.prototypes[~own],
                model.L,
                float(option.alpha_[i, j]),
                float(option.beta_[i, j]),
            )
        )
    return pairs


def direct_probabilistic(
    option: ProbabilisticCertainty,
    theta: float,
    x: ArrayLike,
    *,
    penalty: float = 1000.0,
    clip: bool = True,
    max_iterations: int | None = None,
) -> Baseline:
    """Solve the paper's Algorithm 2: Eq. (16) for each class i, by a penalty method with Nelder-Mead.

    min |z - x|_1  s.t.  sum_j e_ij(z) + 1 - 1/theta <= 0,  started at the input; of the classes' points the
    nearest is kept.

    What is wrong with it: the algorithm keeps the nearest point, and where the search failed to meet the
    constraint that is an invalid one. The published code does not clip the penalty at zero (`clip=False`),
    so that certainty beyond theta is rewarded and the answer is several times too far.

    Parameters
    ----------
    option : ProbabilisticCertainty
        Fitted.
    theta : float
        Above 0.
    x : array-like of shape (d,)
    penalty : float, default 1000
        1 as the paper says, 1000 as its published code.
    clip : bool, default True
    max_iterations : int, optional
        Per class; 200 per feature if None (SciPy's default).

    Returns
    -------
    Baseline
        With one program per class, its target the index of the class, its value the distance, its status
        "valid" or "invalid" by Eq. (16).

    Examples
    --------
    >>> from lvqrej import PrototypeModel
    >>> model = PrototypeModel([[1.0, 0.0], [3.0, 0.0]], ["a", "b"])
    >>> option = ProbabilisticCertainty.from_pairs(
    ...     {(0, 1): model}, [[0, -4], [-4, 0]], [[0, 0], [0, 0]], ["a", "b"]
    ... )
    >>> answer = direct_probabilistic(option, 0.9, [1.9, 0.2])
    >>> bool(abs(answer.certainty - 0.9) < 1e-3), len(answer.programs)
    (True, 2)
    """
    theta, origin = check_problem(option, theta, x)
    programs = []
    for i in range(len(option.classes)):
        pairs = pairs_of(option, i)

        def violation(z: Vector, pairs: list[Pair] = pairs) -> float:
            return float(sum(np.exp(pair.exponent(z)[0]) for pair in pairs)) + 1 - 1 / theta

        point = nelder_mead(violation, origin, penalty, clip, max_iterations)
        status = "valid" if violation(point) <= 0 else "invalid"
        programs.append(Program((i,), status, float(np.abs(point - origin).sum()), point))
    return best_program(option, theta, origin, programs)


def smooth_direct(
    option: ProbabilisticCertainty,
    theta: float,
    x: ArrayLike,
    *,
    n_starts: int = 3,
    random_state: int = 0,
    nearest: ArrayLike | None = None,
) -> Baseline:
    """Solve Eq. (16) for each class by SLSQP with exact gradients from several starts: a fair direct solver.

    min sum(u + v)  s.t.  log sum_j exp(a_j(x + u - v)) <= log(1/theta - 1),  u, v >= 0

    where a_j = alpha_ij s_ij + beta_ij (for a normalised certainty a_j = log p_j - log p_i). The logarithm
    keeps the constraint well scaled for theta near 1. A local method: what it returns is valid, yet nothing
    says how far from optimal it is.

    Parameters
    ----------
    option : ProbabilisticCertainty
        Fitted.
    theta : float
        Above 0.
    x : array-like of shape (d,)
    n_starts : int, default 3
        Random starts per class, on the segments from the input to the fixed starts: the class's prototypes
        in all pairwise models, and `nearest`.
    random_state : int, default 0
        Seed of the random starts.
    nearest : array-like of shape (d,), optional
        One more start, such as the nearest accepted training sample; if valid, the answer is never farther.

    Returns
    -------
    Baseline
        The nearest point that the option accepts, over all starts; `found` is False if there is none. One
        program per class, its value the best distance, its status "valid" or "invalid".

    Examples
    --------
    >>> from lvqrej import PrototypeModel
    >>> model = PrototypeModel([[1.0, 0.0], [3.0, 0.0]], ["a", "b"])
    >>> option = ProbabilisticCertainty.from_pairs(
    ...     {(0, 1): model}, [[0, -4], [-4, 0]], [[0, 0], [0, 0]], ["a", "b"]
    ... )
    >>> answer = smooth_direct(option, 0.9, [1.9, 0.2])
    >>> answer.valid, round(answer.distance, 3), round(answer.certainty, 6)
    (True, 0.212, 0.9)
    """
    theta, origin = check_problem(option, theta, x)
    n_starts = int(check_number(n_starts, "n_starts", low=0, integer=True))
    rng = np.random.default_rng(int(check_number(random_state, "random_state", low=0, integer=True)))
    extra = [] if nearest is None else [check_sample(nearest, option.n_features)]
    if option.accepts(origin[None], theta)[0]:
        return judged(option, theta, origin, origin)
    pairs = [pairs_of(option, i) for i in range(len(option.classes))]
    programs = []
    for i in range(len(pairs)):
        fixed = np.array([p for pair in pairs[i] for p in pair.own] + extra)
        towards = fixed[rng.integers(len(fixed), size=n_starts)]
        between = origin + rng.uniform(0.1, 1.0, size=(n_starts, 1)) * (towards - origin)
        starts = np.vstack([fixed, between])
        ends = []
        if _within_reach(pairs[i], theta, option.normalize):
            ends = [_slsqp(pairs, i, option.normalize, theta, origin, start) for start in starts]
        points = np.array([*starts, *ends])
        points = points[option.accepts(points, theta)]
        distances = np.abs(points - origin).sum(axis=1)
        if len(points) == 0:
            programs.append(Program((i,), "invalid", np.inf, None))
        else:
            programs.append(Program((i,), "valid", float(distances.min()), points[distances.argmin()]))
    return best_program(option, theta, origin, programs)


def _within_reach(pairs: list[Pair], theta: float, normalize: bool) -> bool:
    """Return False if no input at all is accepted as this class: all scores at their best do not suffice."""
    if normalize or theta >= 1:
        return theta < 1
    return sum(np.exp(-abs(pair.alpha) + pair.beta) for pair in pairs) <= 1 / theta - 1


def _slsqp(
    pairs: list[list[Pair]], i: int, normalize: bool, theta: float, origin: Vector, start: Vector
) -> Vector:
    """Run SLSQP for class i over (u, v), aiming a hair inside so that rounding does not cost validity."""
    d = len(origin)
    limit = np.log(1 / theta - 1) - 1e-9

    def slack(uv: Vector) -> tuple[float, Vector]:
        exponents, gradients = _exponents(pairs, i, origin + uv[:d] - uv[d:], normalize)
        total = logsumexp(exponents)
        gradient = np.exp(exponents - total) @ gradients
        return float(limit - total), np.concatenate([-gradient, gradient])

    result = minimize(
        lambda uv: float(uv.sum()),
        np.concatenate([np.maximum(start - origin, 0), np.maximum(origin - start, 0)]),
        jac=lambda uv: np.ones_like(uv),
        bounds=[(0, None)] * (2 * d),
        constraints={"type": "ineq", "fun": lambda uv: slack(uv)[0], "jac": lambda uv: slack(uv)[1]},
        method="SLSQP",
        options={"ftol": 1e-10, "maxiter": 100},
    )
    return origin + result.x[:d] - result.x[d:]


def _exponents(pairs: list[list[Pair]], i: int, x: Vector, normalize: bool) -> tuple[Vector, Vector]:
    """Return a_j and their gradients, of shapes (K-1,) and (K-1, d), as `smooth_direct` defines them."""
    if not normalize:
        values, gradients = zip(*(pair.exponent(x) for pair in pairs[i]), strict=True)
        return np.array(values), np.array(gradients)
    logs = []
    for row in pairs:  # log p_k = -log(1 + sum_j e_kj)
        values, gradients = zip(*(pair.exponent(x) for pair in row), strict=True)
        total = logsumexp([0.0, *values])
        logs.append((-total, -np.exp(np.array(values) - total) @ np.array(gradients)))
    others = [k for k in range(len(pairs)) if k != i]
    return (
        np.array([logs[k][0] - logs[i][0] for k in others]),
        np.array([logs[k][1] - logs[i][1] for k in others]),
    )


def check_problem(option: Any, theta: Any, x: Any) -> tuple[float, Vector]:
    """Return theta, above 0 and finite, and the input of shape (d,), or raise a ValueError."""
    if not isinstance(option, ProbabilisticCertainty):
        raise ValueError(f"option must be a ProbabilisticCertainty; found {describe(option)}")
    if not hasattr(option, "models_"):
        raise NotFittedError("option has no pairwise models yet; call option.fit(X, y) first")
    number = check_number(theta, "theta", low=0, high=LARGEST, low_open=True)
    return number, check_sample(x, option.n_features)
