"""Independent oracles: definitions read out directly, exact fractions, plain programs, brute force."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog


def exact_distance(L: Any, x: Any, p: Any) -> Fraction:
    """Return |L (x - p)|^2 without rounding."""
    difference = [Fraction(a) - Fraction(b) for a, b in zip(x, p, strict=True)]
    images = (sum((Fraction(a) * b for a, b in zip(row, difference, strict=True)), Fraction(0)) for row in L)
    return sum((image**2 for image in images), Fraction(0))


def exact_certainty(
    prototypes: Any, labels: Any, L: Any, x: Any, separation: Any = None
) -> tuple[Fraction, Any]:
    """Return r(x) without rounding and its label, the first of several nearest prototypes winning.

    It is relative similarity, or the distance to the decision boundary if `separation`, the metric of
    D(p+, p-), is given.
    """
    distances = [exact_distance(L, x, p) for p in prototypes]
    plus = distances.index(min(distances))
    minus = min((j for j, c in enumerate(labels) if c != labels[plus]), key=lambda j: (distances[j], j))
    near, far = distances[plus], distances[minus]
    if separation is None:
        scale = far + near
    else:
        scale = 2 * exact_distance(separation, prototypes[plus], prototypes[minus])
    twin = any(
        exact_distance(L, prototypes[plus], p) == 0
        for p, c in zip(prototypes, labels, strict=True)
        if c != labels[plus]
    )
    return (Fraction(0) if scale == 0 or twin else (far - near) / scale), labels[plus]


def plain_certainty(
    prototypes: np.ndarray, labels: np.ndarray, L: np.ndarray, X: np.ndarray, separation: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return what `exact_certainty` does for many samples, in floating point."""
    images, rows = prototypes @ L.T, np.arange(len(X))
    D = ((X @ L.T)[:, None] - images) ** 2
    D = D.sum(axis=2)
    plus = D.argmin(axis=1)
    minus = np.where(labels == labels[plus][:, None], np.inf, D).argmin(axis=1)
    near, far = D[rows, plus], D[rows, minus]
    scale = far + near
    if separation is not None:
        scale = 2 * (((prototypes[plus] - prototypes[minus]) @ separation.T) ** 2).sum(axis=1)
    twin = np.array(
        [
            any((images[p] == images[j]).all() for j in np.flatnonzero(labels != labels[p]))
            for p in range(len(labels))
        ]
    )
    usable = (scale > 0) & ~twin[plus]
    return np.divide(far - near, scale, out=np.zeros(len(X)), where=usable), labels[plus]


def exactly_inside(cells: Any, cell: int, point: list[Fraction]) -> bool:
    """Return whether a point lies in one of `Cells`, without rounding."""
    held = {j for j in cells.rows[cell].tolist() if j >= 0}
    sites = {k for j in held for k in (cells.near[j], cells.far[j])}
    squared = {k: exact_distance(cells.metrics[cells.point_metric[k]], cells.points[k], point) for k in sites}
    return all(
        Fraction(cells.alpha[j]) * squared[cells.near[j]] + Fraction(cells.gamma[j])
        <= Fraction(cells.beta[j]) * squared[cells.far[j]]
        for j in held
    )


def meets(option: Any, theta: float, required: dict[str, Any], X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return whether each row of Z is accepted and meets all that `explain` was asked for of the row of X."""
    good = option.certainty(Z) >= theta
    if required.get("target") is not None:
        good &= option.predict(Z) == required["target"]
    fixed, up, down = (list(required.get(name, [])) for name in ("fixed", "increase_only", "decrease_only"))
    good &= (Z[:, fixed] == X[:, fixed]).all(axis=1)
    good &= (Z[:, up] >= X[:, up]).all(axis=1) & (Z[:, down] <= X[:, down]).all(axis=1)
    for k, (low, high) in (required.get("bounds") or {}).items():
        good &= (Z[:, k] >= (-np.inf if low is None else low)) & (
            Z[:, k] <= (np.inf if high is None else high)
        )
    A, b = required.get("constraints") or ((), ())
    rows = [(*map(float, a), float(side)) for a, side in zip(A, b, strict=True)]
    for *a, side in rows:
        equality = tuple(-entry for entry in (*a, side)) in rows
        size = (np.maximum(np.abs(X), np.abs(Z)) * np.abs(a)).sum(axis=1) + abs(side)
        good &= (Z * a).sum(axis=1) <= side + (1e-9 * size if equality else 0.0)
    return good


def linear_optimum(Q: np.ndarray, g: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> float:
    """Return min |beta|_1 s.t. Q beta >= g, lo <= beta <= hi by HiGHS, infinity if there is none."""
    d = Q.shape[1]
    bounds = [*zip(np.zeros(d), hi, strict=True), *zip(np.zeros(d), -lo, strict=True)]
    result = linprog(np.ones(2 * d), A_ub=np.hstack([-Q, Q]), b_ub=-g, bounds=bounds, method="highs")
    return float(result.fun) if result.status == 0 else np.inf


def plain_program(cell: Any, x: np.ndarray, weights: np.ndarray, extra: Any = None) -> float:
    """Return the optimal value of min sum w|z - x| s.t. z in the cell, infinity if there is none."""
    z = cp.Variable(len(x))
    constraints = [cp.norm(ball.L @ (z - ball.centre)) <= ball.radius for ball in cell.balls]
    constraints += [half.normal @ z + half.offset >= 0 for half in cell.half_spaces]
    constraints += extra(z) if extra else []
    problem = cp.Problem(cp.Minimize(weights @ cp.abs(z - x)), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "Solution may be inaccurate": compared loosely then
        problem.solve(cp.CLARABEL)
    return np.inf if problem.value is None else float(problem.value)


def best_program(
    option: Any, theta: float, x: np.ndarray, weights: np.ndarray, extra: Any = None, label: Any = None
) -> float:
    """Return the best value over all cells, or over those of one label."""
    cells = [c for c in option.cells(theta) if label is None or option.classes[c.label] == label]
    return min((plain_program(cell, x, weights, extra) for cell in cells), default=np.inf)


def as_constraints(required: dict[str, Any], x: np.ndarray) -> Any:
    """Return requirements of `explain` but weights and target as what `plain_program` takes as `extra`."""

    def constraints(z: Any) -> list[Any]:
        result = [z[k] == x[k] for k in required.get("fixed", [])]
        result += [z[k] >= x[k] for k in required.get("increase_only", [])]
        result += [z[k] <= x[k] for k in required.get("decrease_only", [])]
        for k, (low, high) in (required.get("bounds") or {}).items():
            result += [z[k] >= low] if low is not None else []
            result += [z[k] <= high] if high is not None else []
        if required.get("constraints"):
            A, b = required["constraints"]
            result.append(np.asarray(A) @ z <= b)
        return result

    return constraints


def grid_distance(option: Any, theta: float, x: np.ndarray, half_width: float, steps: int = 801) -> float:
    """Return the l1 distance from x (2-D) to the nearest accepted point of a grid around it."""
    ticks = np.linspace(-half_width, half_width, steps)
    moves = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    accepted = option.accepts(x + moves, theta)
    return float(np.abs(moves[accepted]).sum(axis=1).min()) if accepted.any() else np.inf


def reaches(
    kind: str, P: np.ndarray, scale: np.ndarray, level: float, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """Return whether boxes (n, d) hold an accepted point, for two prototypes and a diagonal metric.

    A ball, (d- - d+) / (d- + d+) >= level > 0, or a half-space, d- - d+ >= 2 level D, around each of the two:
    the point of a box that is nearest to a centre, or farthest along a normal, is in closed form.
    """
    P, lower, upper = P * scale, lower * scale, upper * scale
    found = np.zeros(len(lower), dtype=bool)
    for own, other in (P, P[::-1]):
        if kind == "half-space":
            normal = 2 * (own - other)
            best = np.maximum(normal * lower, normal * upper).sum(axis=1)
            found |= best + other @ other - own @ own >= 2 * level * ((own - other) ** 2).sum()
        else:
            centre = ((1 + level) * own - (1 - level) * other) / (2 * level)
            squared = centre @ centre - ((1 + level) * own @ own - (1 - level) * other @ other) / (2 * level)
            nearest = np.clip(centre, lower, upper)
            found |= ((nearest - centre) ** 2).sum(axis=1) <= squared
    return found


def decision_reaches(P: np.ndarray, labels: np.ndarray, theta: float, lower: Any, upper: Any) -> bool:
    """Return whether a box holds a point of {r_Dist >= theta} in the Euclidean metric, by one LP per pair."""
    for p, q in ((p, q) for p in range(len(P)) for q in range(len(P)) if labels[p] != labels[q]):
        # d(x, a) <= d(x, b) is 2 (b - a)'x <= b'b - a'a
        nearer = [(p, a) for a in range(len(P)) if labels[a] == labels[p] and a != p]
        nearer += [(q, a) for a in range(len(P)) if labels[a] != labels[p] and a != q]
        A = [2 * (P[b] - P[a]) for a, b in nearer] + [2 * (P[q] - P[p])]
        b = [P[b] @ P[b] - P[a] @ P[a] for a, b in nearer]
        b.append(P[q] @ P[q] - P[p] @ P[p] - 2 * theta * ((P[p] - P[q]) ** 2).sum())
        result = linprog(np.zeros(len(lower)), A_ub=A, b_ub=b, bounds=list(zip(lower, upper, strict=True)))
        if result.status == 0:
            return True
    return False


def minimal_sets(sets: set[frozenset[int]]) -> set[frozenset[int]]:
    """Return the sets that have no other one in them."""
    return {one for one in sets if not any(other < one for other in sets)}


def minimal_hitting_sets(sets: set[frozenset[int]], d: int) -> set[frozenset[int]]:
    """Return the minimal sets of numbers below d that meet all given ones, by looking at all 2^d."""
    masks = [sum(1 << k for k in one) for one in sets]
    everything = np.arange(1 << d)
    hits = np.all([(everything & mask) > 0 for mask in masks], axis=0) if masks else everything >= 0
    smaller = hits.copy()
    for k in range(d):  # one that still hits without k is not minimal
        has = (everything >> k) & 1 == 1
        smaller[has] &= ~hits[everything[has] ^ (1 << k)]
    return {frozenset(k for k in range(d) if mask >> k & 1) for mask in everything[smaller].tolist()}
