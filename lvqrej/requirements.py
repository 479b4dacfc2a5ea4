"""What a counterfactual has to respect: fixed features, bounds, directions, linear constraints, a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.cells import HalfSpace
from lvqrej.validation import Floats, check_number, check_samples, check_vector, describe

#: What an equality may be missed by, relative to the sizes of its terms at the sample: few floats meet one.
EQUALITY = 1e-9
#: The part of that which a search may use: where counterfactuals are nearer to 0 than samples, it is less.
_OPEN = 2.0**-8
#: The largest weight, and one over the smallest.
_HEAVIEST = 1e60


@dataclass(frozen=True, eq=False)
class Requirements:
    """Checked requirements, as arrays over the features.

    A counterfactual z of x obeys z = x where `fixed`, z >= x where `increase_only`, z <= x where
    `decrease_only`, lower <= z <= upper, A z <= b, and gets the label `classes[target]` unless that is None.
    Rows of A that come with their negative are an equality, which holds to `EQUALITY` times the size of its
    terms at x or at z, |a|'max(|x|, |z|) + |b|; everything else holds without tolerance.
    """

    weights: Floats
    fixed: NDArray[np.bool_]
    increase_only: NDArray[np.bool_]
    decrease_only: NDArray[np.bool_]
    lower: Floats
    upper: Floats
    A: Floats
    b: Floats
    target: int | None
    names: list[str]

    def box(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the bounds of each sample's counterfactual, two arrays of shape (n, d)."""
        lower = np.where(self.fixed | self.increase_only, np.maximum(X, self.lower), self.lower)
        upper = np.where(self.fixed | self.decrease_only, np.minimum(X, self.upper), self.upper)
        return lower, upper

    def linear(self, Z: Floats, X: Floats) -> NDArray[np.bool_]:
        """Return whether A z <= b for counterfactuals Z of samples X, with the same bits in any batch."""
        slack = self._slack(np.maximum(np.abs(X), np.abs(Z)))
        return ((Z[:, None, :] * self.A).sum(axis=2) <= self.b + slack).all(axis=1)

    def half_spaces(self, X: Floats) -> list[HalfSpace]:
        """Return the linear constraints, equalities open by a part of what each of the samples allows."""
        slack = _OPEN * self._slack(X).min(axis=0) if len(X) else np.zeros(len(self.b))
        return [HalfSpace(-a, b) for a, b in zip(self.A, self.b + slack, strict=True)]

    def tight(self, x: Floats, tolerance: float = 1e-7) -> list[str]:
        """Say which linear constraints hold x where it is, relative to the sizes of their terms."""
        size = np.abs(self.A) @ np.abs(x) + np.abs(self.b)
        return [f"linear constraint {i}" for i in np.flatnonzero(self.A @ x >= self.b - tolerance * size)]

    @cached_property
    def _equality(self) -> NDArray[np.bool_]:
        """Which rows of A come with their negative, a'z <= b and -a'z <= -b, of shape (c,)."""
        opposite = (self.A[:, None] == -self.A[None]).all(axis=2) & (self.b[:, None] == -self.b)
        return opposite.any(axis=1)

    def _slack(self, X: Floats) -> Floats:
        """Return what each row may be missed by, of shape (n, c)."""
        size = (np.abs(X)[:, None, :] * np.abs(self.A)).sum(axis=2) + np.abs(self.b)
        return np.where(self._equality, EQUALITY * size, 0.0)

    def groups(self) -> list[str]:
        """Return the names of the requirements that could be dropped to make an answer possible."""
        present = {
            "target": self.target is not None,
            "bounds": bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any()),
            "constraints": len(self.b) > 0,
            "fixed": bool(self.fixed.any()),
            "increase_only": bool(self.increase_only.any()),
            "decrease_only": bool(self.decrease_only.any()),
        }
        return [name for name, given in present.items() if given]

    def without(self, groups: Iterable[str], features: Any = None) -> Requirements:
        """Return the requirements without some groups, or without their entries for some features only."""
        d = len(self.weights)
        gone = np.ones(d, dtype=bool) if features is None else np.isin(np.arange(d), features)
        changes: dict[str, Any] = {}
        for group in groups:
            if group == "target":
                changes["target"] = None
            elif group == "bounds":
                changes["lower"] = np.where(gone, -np.inf, self.lower)
                changes["upper"] = np.where(gone, np.inf, self.upper)
            elif group == "constraints":
                changes["A"], changes["b"] = np.empty((0, d)), np.empty(0)
            else:
                changes[group] = getattr(self, group) & ~gone
        return replace(self, **changes)

    def features_of(self, group: str) -> list[int]:
        """Return the features that a group of requirements speaks of."""
        if group == "bounds":
            return list(np.flatnonzero(np.isfinite(self.lower) | np.isfinite(self.upper)))
        return list(np.flatnonzero(getattr(self, group))) if group not in ("target", "constraints") else []


def check_requirements(
    n_features: int,
    names: Sequence[str] | None,
    classes: NDArray[Any],
    *,
    weights: ArrayLike | None = None,
    fixed: Any = (),
    bounds: Any = None,
    increase_only: Any = (),
    decrease_only: Any = (),
    constraints: Any = None,
    target: Any = None,
) -> Requirements:
    """Return the requirements as arrays, or raise a ValueError that names the argument at fault.

    >>> classes = np.array(["a", "b"])
    >>> asked = check_requirements(2, ["age", "bmi"], classes, fixed=["age"], bounds={1: (18, 40)})
    >>> asked.fixed, asked.lower
    (array([ True, False]), array([-inf,  18.]))
    """
    d = n_features
    known = list(names) if names is not None else [f"feature {k}" for k in range(d)]
    lower, upper = _bounds(bounds, known)
    A, b = _linear(constraints, d)
    return Requirements(
        weights=_weights(weights, d),
        fixed=feature_mask(fixed, "fixed", known),
        increase_only=feature_mask(increase_only, "increase_only", known),
        decrease_only=feature_mask(decrease_only, "decrease_only", known),
        lower=lower,
        upper=upper,
        A=A,
        b=b,
        target=_target(target, classes),
        names=known,
    )


def _weights(weights: ArrayLike | None, d: int) -> Floats:
    if weights is None:
        return np.ones(d)
    values = check_vector(weights, d, "weights")
    if values.min() < 1 / _HEAVIEST or values.max() > _HEAVIEST:
        raise ValueError(
            f"weights must lie between {1 / _HEAVIEST:g} and {_HEAVIEST:g}; found {values.min():g} to "
            f"{values.max():g} (to fix a feature, use fixed)"
        )
    return values


def feature_index(value: Any, name: str, names: list[str]) -> int:
    """Return the index of a feature given by index or name."""
    if isinstance(value, str) and value in names:
        return names.index(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= value < len(names):
        return int(value)
    raise ValueError(
        f"{name} must hold names of features or indices from 0 to {len(names) - 1}; found {describe(value)}"
    )


def feature_mask(value: Any, name: str, names: list[str]) -> NDArray[np.bool_]:
    """Return a mask over the features from a list of indices or names."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list of features; found {describe(value)}")
    mask = np.zeros(len(names), dtype=bool)
    for feature in value:
        mask[feature_index(feature, name, names)] = True
    return mask


def _bounds(bounds: Any, names: list[str]) -> tuple[Floats, Floats]:
    lower, upper = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    if bounds is None:
        return lower, upper
    if not isinstance(bounds, Mapping):
        raise ValueError(f"bounds must map features to (low, high); found {describe(bounds)}")
    seen: set[int] = set()
    for feature, pair in bounds.items():
        k = feature_index(feature, "bounds", names)
        if k in seen:
            raise ValueError(f"bounds must name each feature once; found {names[k]!r} twice")
        seen.add(k)
        if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise ValueError(f"bounds[{feature!r}] must be a pair (low, high); found {describe(pair)}")
        for side, value in zip((lower, upper), pair, strict=True):
            if value is not None:
                side[k] = check_number(value, f"bounds[{feature!r}]")
        if lower[k] > upper[k] or lower[k] == np.inf or upper[k] == -np.inf:
            raise ValueError(f"bounds[{feature!r}] must have low <= high; found ({lower[k]:g}, {upper[k]:g})")
    return lower, upper


def _linear(constraints: Any, d: int) -> tuple[Floats, Floats]:
    if constraints is None:
        return np.empty((0, d)), np.empty(0)
    if not isinstance(constraints, (tuple, list)) or len(constraints) != 2:
        raise ValueError(
            f"constraints must be a pair (A, b), meaning A x <= b; found {describe(constraints)}"
        )
    A = check_samples(constraints[0], d, name="constraints' A")
    if not A.any(axis=1).all():
        raise ValueError("constraints' A must not have rows of zeros only")
    return A.copy(), check_vector(constraints[1], len(A), "constraints' b")  # A may be the caller's


def _target(target: Any, classes: NDArray[Any]) -> int | None:
    if target is None:
        return None
    equal = ((i, label == target) for i, label in enumerate(classes.tolist()))
    hits = [i for i, answer in equal if isinstance(answer, (bool, np.bool_)) and answer]
    if not hits:
        raise ValueError(f"target must be one of the classes {classes.tolist()}; found {describe(target)}")
    return hits[0]


def mad_weights(X: ArrayLike) -> Floats:
    """Return weights 1 / MAD of each feature, the inverse median absolute deviation, of shape (d,).

    w_k = 1 / median_i |x_ik - median_j x_jk|: a change of one typical deviation costs 1 in every feature.

    >>> mad_weights([[0, 0], [1, 10], [2, 20], [9, 90]])
    array([1. , 0.1])
    """
    samples = check_samples(X)
    deviations = np.median(np.abs(samples - np.median(samples, axis=0)), axis=0)
    if (deviations == 0).any():
        k = np.flatnonzero(deviations == 0).tolist()
        raise ValueError(
            f"X must vary in every feature for weights by median absolute deviation; it is 0 in {k}: "
            "give these weights yourself, or fix them"
        )
    return 1 / deviations
