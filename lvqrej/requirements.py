"""What a counterfactual has to respect: fixed features, bounds, directions, grids, constraints, a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.cells import HalfSpace
from lvqrej.columns import Column, Columns
from lvqrej.validation import Floats, check_number, check_samples, check_vector, describe, dimensions

#: What an equality may be missed by, relative to the sizes of its terms at the sample: few floats meet one.
EQUALITY = 1e-9
#: The part of that which a search may use: where counterfactuals are nearer to 0 than samples, it is less.
_OPEN = 2.0**-8
#: The largest weight, and one over the smallest.
_HEAVIEST = 1e60
#: Values with more decimals than this are taken for continuous.
_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class Observed:
    """What training samples say of possible values: ranges, and how finely values are recorded.

    As `bounds` it keeps counterfactuals within the ranges, widened to the sample.

    Attributes
    ----------
    lower, upper : ndarrays of shape (d,)
    steps : ndarray of shape (d,)
        1 for whole numbers, 0.1 for one decimal, ...; 0 for values of more than six decimals.
    own : mapping or DataFrame, optional
        Bounds as `explain` takes them, which hold for their features instead of the ranges.

    Examples
    --------
    >>> seen = Observed.of(np.array([[1.0, 0.5], [3.0, 0.25], [2.0, 1 / 3]]))
    >>> seen.lower, seen.upper, seen.steps
    (array([1.  , 0.25]), array([3. , 0.5]), array([1., 0.]))
    """

    lower: Floats
    upper: Floats
    steps: Floats
    own: Any = None

    @staticmethod
    def of(X: Floats) -> Observed:
        """Look at samples X (n, d); NaN is not looked at."""
        steps, gaps = np.zeros(X.shape[1]), np.isnan(X)
        for decimals in range(_DECIMALS, -1, -1):
            coarse = np.abs(X - np.round(X, decimals)) <= 1e-12 * np.abs(X)
            steps[(coarse | gaps).all(axis=0)] = 10.0**-decimals
        lower, upper = np.where(gaps, np.inf, X).min(axis=0), np.where(gaps, -np.inf, X).max(axis=0)
        empty = gaps.all(axis=0)
        return Observed(np.where(empty, -np.inf, lower), np.where(empty, np.inf, upper), steps)


class Block(NamedTuple):
    """Lifted columns that only stand in certain ways: a category at a level, a number known or missing.

    Attributes
    ----------
    column : int
        The user's.
    at : array of shape (k,)
        The lifted ones.
    low, high : arrays of shape (options, k)
        Where each option has them.
    prices : array of shape (options, options)
        What it costs to go from one to another; infinity if that is not allowed.
    ordered : bool
        Whether options are steps, from low to high.
    """

    column: int
    at: NDArray[np.intp]
    low: Floats
    high: Floats
    prices: Floats
    ordered: bool

    def of(self, X: Floats) -> NDArray[np.intp]:
        """Return the option at which each sample stands, of shape (n,)."""
        values = X[:, None, self.at]
        return ((self.low <= values) & (values <= self.high)).all(axis=2).argmax(axis=1)


@dataclass(frozen=True, eq=False)
class Requirements:
    """Checked requirements, as arrays over the features.

    A counterfactual z of x obeys z = x where `fixed`, z >= x where `increase_only`, z <= x where
    `decrease_only`, lower <= z <= upper, A z <= b, and gets the label `classes[target]` unless that is None.
    Changed features are multiples of `steps`, if that is not 0, wherever such an answer is found; where they
    are `observed`, the bounds are widened to x.
    All but `names` is over lifted columns (`lvqrej.columns`); `blocks` tells which of them are no numbers.
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
    columns: Columns
    steps: Floats
    blocks: tuple[Block, ...] = ()
    observed: Any = False

    @property
    def names(self) -> list[str]:
        """Names of the user's columns."""
        return self.columns.names

    def costs(self, X: Floats, Z: Floats) -> Floats:
        """Return what the change of each of the user's columns costs, of shape (n, d)."""
        costs = np.abs(Z - X) * self.weights
        result = self.columns.gathered(np.where(self.columns.numbers, costs, 0.0))
        for block in self.blocks:
            result[:, block.column] += block.prices[block.of(X), block.of(Z)]
        return result

    def room(self, x: Floats, lower: Floats, upper: Floats) -> Floats:
        """Return what any change of a sample x (d,) within boxes (n, d) costs at most, of shape (n,)."""
        far = np.maximum(x - lower, upper - x) * self.weights
        prices = sum(block.prices[np.isfinite(block.prices)].max() for block in self.blocks)
        return far[:, self.columns.numbers].sum(axis=1) + prices

    def box(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the bounds of each sample's counterfactual, two arrays of shape (n, d)."""
        lower = np.where(self.observed, np.minimum(X, self.lower), self.lower)
        upper = np.where(self.observed, np.maximum(X, self.upper), self.upper)
        up, down, numbers = self.increase_only, self.decrease_only, self.columns.numbers
        fixed = self.fixed | (self.columns.owner < 0)
        lower = np.where(fixed | (up & numbers), np.maximum(X, lower), lower)
        upper = np.where(fixed | (down & numbers), np.minimum(X, upper), upper)
        return lower, upper

    def at_own_levels(self, X: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return bounds (n, d) narrowed to the options at which samples stand."""
        if self.blocks:
            lower, upper = lower.copy(), upper.copy()
        for block in self.blocks:
            own = block.of(X)
            lower[:, block.at] = np.maximum(lower[:, block.at], block.low[own])
            upper[:, block.at] = np.minimum(upper[:, block.at], block.high[own])
        return lower, upper

    def widened(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the bounds alone, widened to a sample x (d,): the box of inputs that may occur."""
        return np.minimum(x, self.lower), np.maximum(x, self.upper)

    def on_grid(self, Z: Floats, way: Any = 0) -> Floats:
        """Return values (n, d) on the grid: the nearest ones, where `way` is 1 or -1 the next up or down."""
        steps = np.where(self.steps > 0, self.steps, 1.0)
        k = Z / steps
        k = np.where(way > 0, np.ceil(k - 1e-9), np.where(way < 0, np.floor(k + 1e-9), np.round(k)))
        # A decimal is its nearest float if it is divided by a whole number.
        whole = np.round(1 / steps)
        values = np.where(np.abs(whole * steps - 1) < 1e-12, k / np.maximum(whole, 1.0), k * steps)
        return np.where(self.steps > 0, values, Z)

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
        return [f"linear constraint {i + 1}" for i in np.flatnonzero(self.A @ x >= self.b - tolerance * size)]

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
        gone = np.ones(d, dtype=bool) if features is None else np.isin(self.columns.owner, features)
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
        if features is None and "bounds" in groups:
            changes["observed"] = False
        return replace(self, **changes)

    def features_of(self, group: str) -> list[int]:
        """Return the user's columns that a group of requirements speaks of."""
        if group in ("target", "constraints"):
            return []
        bounded = np.isfinite(self.lower) | np.isfinite(self.upper)
        mask = self.columns.gathered(bounded if group == "bounds" else getattr(self, group))
        return list(np.flatnonzero(mask))


def check_requirements(
    columns: Columns,
    classes: NDArray[Any],
    *,
    weights: Any = None,
    fixed: Any = (),
    bounds: Any = None,
    increase_only: Any = (),
    decrease_only: Any = (),
    constraints: Any = None,
    target: Any = None,
    integers: Any = (),
    grid: Any = None,
) -> Requirements:
    """Return the requirements over the lifted columns, or raise a ValueError that names the argument.

    >>> columns, classes = Columns.numeric(2, ["age", "bmi"]), np.array(["a", "b"])
    >>> asked = check_requirements(columns, classes, fixed=["age"], bounds={1: (18, 40)})
    >>> asked.fixed, asked.lower
    (array([ True, False]), array([-inf,  18.]))
    """
    names, spread = columns.names, columns.spread
    ranges = bounds if isinstance(bounds, Observed) else None
    lower, upper, own, columns = _bounds(ranges.own if ranges else bounds, columns)
    if ranges:
        lower, upper = np.where(own, lower, ranges.lower), np.where(own, upper, ranges.upper)
    check_numbers(grid if isinstance(grid, Mapping) else (), "grid", columns)
    steps = grid.steps.copy() if isinstance(grid, Observed) else spread(amounts(grid, "grid", names), 0.0)
    whole = feature_mask(integers, "integers", names)
    check_numbers(np.flatnonzero(whole), "integers", columns)
    steps[spread(whole)] = 1.0
    ways = [
        _way(feature_mask(value, name, names), name, columns)
        for name, value in (("increase_only", increase_only), ("decrease_only", decrease_only))
    ]
    A, b = _linear(constraints, columns)
    values, blocks = _prices(weights, columns)
    return Requirements(
        weights=values,
        fixed=spread(feature_mask(fixed, "fixed", names)),
        increase_only=ways[0],
        decrease_only=ways[1],
        lower=lower,
        upper=upper,
        A=A,
        b=b,
        target=_target(target, classes),
        columns=columns,
        steps=np.where(columns.numbers, steps, 0.0),
        blocks=blocks,
        observed=~own & (ranges is not None),
    )


def _prices(weights: Any, columns: Columns) -> tuple[Floats, tuple[Block, ...]]:
    """Return the weights of lifted columns, and the blocks with the prices of their options.

    Weights of indicators are such that no change of level costs less than they say, half of its price each.
    """
    pairs: dict[int, Any] = {}
    if isinstance(weights, Mapping):
        given = {feature_index(key, "weights", columns.names): value for key, value in weights.items()}
        pairs = {k: value for k, value in given.items() if isinstance(value, Mapping)}
        weights = {k: value for k, value in given.items() if k not in pairs}
    each = _weights(weights, columns.names)
    lifted, blocks = columns.spread(each, 1.0), []
    for k, column in enumerate(columns.columns):
        at = np.arange(columns.starts[k], columns.starts[k + 1])
        if column.levels is None:
            if k in pairs:
                raise ValueError(f"weights[{column.name!r}] must be a number; found {describe(pairs[k])}")
            if not column.flag:
                continue
            low = np.array([[-np.inf, 0.0], [column.fill, 1.0]])
            high = np.array([[np.inf, 0.0], [column.fill, 1.0]])
            prices = np.array([[0.0, np.inf], [1.0, 0.0]])
        elif len(column.levels) > 1:
            low = high = np.identity(column.width)
            far = np.abs(np.subtract.outer(at, at))
            prices = each[k] * (far if column.ordered else np.minimum(far, 1)).astype(float)
            for pair, price in pairs.get(k, {}).items():
                name = f"weights[{column.name!r}][{pair!r}]"
                prices[_pair(pair, column)] = check_number(price, name, low=0, low_open=True)
            named = np.array([any(level is not None for level in group) for group in column.levels])
            prices[:, ~named] = np.inf  # no answer makes a value missing or unknown
            np.fill_diagonal(prices, 0.0)
        else:
            continue
        least = prices[np.isfinite(prices) & (prices > 0)].min(initial=np.inf)
        no_numbers = at[~columns.numbers[at]]
        lifted[no_numbers] = least / 2 if least < np.inf else 1.0
        blocks.append(Block(k, at, low, high, prices, column.ordered))
    return lifted, tuple(blocks)


def _pair(pair: Any, column: Column) -> tuple[int, int]:
    """Return the places of two levels."""
    if not isinstance(pair, tuple) or len(pair) != 2 or not set(pair) <= set(column.places):
        levels = list(column.places)
        raise ValueError(f"weights[{column.name!r}] must have pairs of {levels}; found {describe(pair)}")
    return column.places[pair[0]], column.places[pair[1]]


def _way(mask: NDArray[np.bool_], name: str, columns: Columns) -> NDArray[np.bool_]:
    for k in np.flatnonzero(mask).tolist():
        if columns.columns[k].levels is not None and not columns.columns[k].ordered:
            raise ValueError(f"{name} must name numbers or ordered levels; found {columns.names[k]!r}")
    return columns.spread(mask)


def amounts(value: Any, name: str, names: list[str], otherwise: Any = 0.0) -> Floats:
    """Return an amount for each feature, of shape (d,), from a number, an array or a mapping."""
    given = np.full(len(names), otherwise) if np.ndim(otherwise) == 0 else np.array(otherwise)
    if isinstance(value, Mapping):
        for feature, amount in value.items():
            k = feature_index(feature, name, names)
            given[k] = check_number(amount, f"{name}[{names[k]!r}]", low=0)
    elif value is not None and dimensions(value) == 0:
        given[:] = check_number(value, name, low=0)
    elif value is not None:
        given = check_vector(value, len(names), name)
    wrong = np.flatnonzero(~np.isfinite(given) | (given < 0))
    if len(wrong):
        advice = " (to fix a feature, use fixed)" if name == "weights" else ""
        found = f"{given[wrong[0]]:g} for {names[wrong[0]]!r}{advice}"
        raise ValueError(f"{name} must be finite and at least 0; found {found}")
    return given


def check_numbers(features: Iterable[Any], name: str, columns: Columns) -> None:
    """Raise a ValueError if one of the features, by index or name, is a category."""
    for feature in features:
        column = columns.columns[feature_index(feature, name, columns.names)]
        if column.levels is not None:
            raise ValueError(f"{name} must name columns of numbers; found the category {column.name!r}")


def _weights(weights: Any, names: list[str]) -> Floats:
    if weights is None or isinstance(weights, Mapping):
        values = amounts(weights, "weights", names, 1.0)
    else:
        values = check_vector(weights, len(names), "weights")
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
    near = get_close_matches(str(value), names, n=1)
    raise ValueError(
        f"{name} must hold names of features or indices from 0 to {len(names) - 1}; found {describe(value)}"
        + "".join(f"; did you mean {one!r}?" for one in near)
    )


def feature_mask(value: Any, name: str, names: list[str]) -> NDArray[np.bool_]:
    """Return a mask over the features from a list of indices or names."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a list of features; found {describe(value)}")
    mask = np.zeros(len(names), dtype=bool)
    for feature in value:
        mask[feature_index(feature, name, names)] = True
    return mask


def _bounds(bounds: Any, columns: Columns) -> tuple[Floats, Floats, NDArray[np.bool_], Columns]:
    """Return bounds, where they are given, and columns that name an allowed level of those that are one."""
    names, named = columns.names, list(columns.columns)
    lower, upper = np.full(len(columns.owner), -np.inf), np.full(len(columns.owner), np.inf)
    if bounds is None:
        return lower, upper, np.zeros(len(lower), dtype=bool), columns
    if hasattr(bounds, "columns"):  # as X.agg(["min", "max"]) has it
        bounds = {column: bounds[column].tolist() for column in bounds.columns}
    if not isinstance(bounds, Mapping):
        raise ValueError(
            "bounds must map features to (low, high), or be a data frame with two rows, low and high; "
            f"found {describe(bounds)}"
        )
    seen: set[int] = set()
    for feature, pair in bounds.items():
        k = feature_index(feature, "bounds", names)
        if k in seen:
            raise ValueError(f"bounds must name each feature once; found {names[k]!r} twice")
        seen.add(k)
        if columns.columns[k].levels is not None:
            pair = list(pair) if isinstance(pair, Iterable) and not isinstance(pair, str) else pair
            upper[columns.at(k)] = _levels(pair, named[k])
            groups = (sorted(group, key=lambda level: level not in pair) for group in named[k].levels or ())
            named[k] = replace(named[k], levels=tuple(map(tuple, groups)))
            continue
        if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise ValueError(f"bounds[{feature!r}] must be a pair (low, high); found {describe(pair)}")
        i = columns.starts[k]
        for side, value in zip((lower, upper), pair, strict=True):
            if value is not None:
                side[i] = check_number(value, f"bounds[{feature!r}]")
        if lower[i] > upper[i] or lower[i] == np.inf or upper[i] == -np.inf:
            raise ValueError(f"bounds[{feature!r}] must have low <= high; found ({lower[i]:g}, {upper[i]:g})")
    given = np.isin(columns.owner, list(seen))
    return lower, upper, given, replace(columns, columns=named)


def _levels(allowed: Any, column: Column) -> Floats:
    """Return 1 for allowed levels and 0 for others."""
    known = list(column.places)
    if not isinstance(allowed, list) or any(level not in known for level in allowed):
        raise ValueError(f"bounds[{column.name!r}] must be a set of {known}; found {describe(allowed)}")
    upper = np.zeros(column.width)
    upper[[column.places[level] for level in allowed]] = 1.0
    return upper


def _linear(constraints: Any, columns: Columns) -> tuple[Floats, Floats]:
    d = len(columns.names)
    if constraints is None:
        return np.empty((0, len(columns.owner))), np.empty(0)
    if not isinstance(constraints, (tuple, list)) or len(constraints) != 2:
        raise ValueError(
            f"constraints must be a pair (A, b), meaning A x <= b; found {describe(constraints)}"
        )
    A, b = constraints
    if hasattr(A, "columns") or isinstance(A, Mapping):  # by name, whatever the order
        given = A.to_dict("records") if hasattr(A, "columns") else [A]
        A = np.zeros((len(given), d))
        for row, terms in zip(A, given, strict=True):
            for feature, factor in terms.items():
                k = feature_index(feature, "constraints' A", columns.names)
                row[k] = check_number(factor, f"constraints' A[{feature!r}]")
        b = [b] if dimensions(b) == 0 else b
    A = check_samples(A, d, name="constraints' A")
    if not A.any(axis=1).all():
        raise ValueError("constraints' A must not have rows of zeros only")
    text = [
        name for name, c, a in zip(columns.names, columns.columns, A.T, strict=True) if c.levels and a.any()
    ]
    if text:
        raise ValueError(f"constraints' A must be 0 in columns that are no numbers; found others in {text}")
    lifted = np.where(columns.numbers, columns.spread(A, 0.0), 0.0)
    return lifted, check_vector(b, len(A), "constraints' b")


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
    Where more than half of the values are the same, which makes it 0, the mean absolute deviation takes its
    place; a feature that never varies gets the largest weight of the others.

    >>> mad_weights([[0, 0, 0, 7], [1, 10, 0, 7], [2, 20, 0, 7], [9, 90, 1, 7]])
    array([1. , 0.1, 4. , 4. ])
    """
    samples = check_samples(X)
    deviations = np.abs(samples - np.median(samples, axis=0))
    scales = np.median(deviations, axis=0)
    scales = np.where(scales > 0, scales, deviations.mean(axis=0))
    if not scales.any():
        raise ValueError("X must vary in some feature; found the same values in all rows")
    return 1 / np.where(scales > 0, scales, scales[scales > 0].min())
