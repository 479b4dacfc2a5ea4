"""Checks of what users pass in: each error names the argument, what was found and what is allowed."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_samples(
    X: Any, n_features: int | None = None, name: str = "X", *, allow_empty: bool = False
) -> NDArray[np.float64]:
    """Return `X` as a C-contiguous float64 array of shape (n, d), or raise a ValueError.

    >>> check_samples([[1, 2]], n_features=2)
    array([[1., 2.]])
    >>> check_samples([[1.0, float("nan")]])
    Traceback (most recent call last):
    ...
    ValueError: X must be finite; found nan at row 0, column 1
    """
    try:
        array = np.asarray(X)
        # The cast would drop an imaginary part with no more than a warning.
        samples = np.ascontiguousarray(array.real, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numeric, of shape (n, d); found {describe(X)}") from error
    if np.iscomplexobj(array):
        raise ValueError(f"{name} must be real; found complex numbers")
    if samples.ndim != 2 or np.ndim(X) != 2:
        hint = "; one sample is X.reshape(1, -1)" if np.ndim(X) == 1 else ""
        raise ValueError(f"{name} must have shape (n, d); found shape {np.shape(X)}{hint}")
    if samples.shape[1] == 0 or (samples.shape[0] == 0 and not allow_empty):
        raise ValueError(f"{name} must not be empty; found shape {samples.shape}")
    if n_features is not None and samples.shape[1] != n_features:
        raise ValueError(f"{name} must have {n_features} features; found {samples.shape[1]}")
    if not np.isfinite(samples).all():
        row, column = np.argwhere(~np.isfinite(samples))[0]
        raise ValueError(f"{name} must be finite; found {samples[row, column]} at row {row}, column {column}")
    return samples


def check_number(
    value: Any,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    low_open: bool = False,
    integer: bool = False,
) -> float:
    """Return `value` as a float between `low` and `high`, or raise a ValueError.

    >>> check_number(0.3, "theta", low=0, high=1)
    0.3
    >>> check_number("0.3", "theta")
    Traceback (most recent call last):
    ...
    ValueError: theta must be a number; found '0.3' of type str
    """
    kind, what = (Integral, "an integer") if integer else (Real, "a number")
    try:
        number = (
            np.nan if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind) else float(value)
        )
    except OverflowError:
        number = np.nan  # an integer beyond all floats
    if math.isnan(number):
        raise ValueError(f"{name} must be {what}; found {describe(value)}")
    if (number <= low if low_open else number < low) or number > high:
        parts = [f"{'above' if low_open else 'at least'} {low:g}"] if low > -np.inf else []
        parts += [f"at most {high:g}"] if high < np.inf else []
        raise ValueError(f"{name} must be {' and '.join(parts)}; found {value!r}")
    return number


def check_choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the names in `allowed`, or raise a ValueError.

    >>> check_choice("l2", "norm", ("metric", "euclidean"))
    Traceback (most recent call last):
    ...
    ValueError: norm must be one of 'metric', 'euclidean'; found 'l2' of type str
    """
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; found {describe(value)}")
    return value


def dimensions(X: Any) -> int | None:
    """Return the number of dimensions of `X`, or None if it is no array (rows of different lengths).

    >>> dimensions([1.0, 2.0]), dimensions([[1.0], [2.0, 3.0]])
    (1, None)
    """
    try:
        return np.ndim(X)
    except ValueError:
        return None


def feature_names_of(X: Any) -> list[str] | None:
    """Return the column names of a data frame whose names are all strings, else None."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(column, str) for column in columns):
        return None
    return list(columns)


def describe(value: Any) -> str:
    """Say in a few words what `value` is, for an error message."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**60 else "an integer of many digits"
    return f"{text if len(text) <= 60 else text[:57] + '...'} of type {type(value).__name__}"
