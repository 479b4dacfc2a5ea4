"""Checks of what users pass in: each error names the argument, what was found and what is allowed.

Data frames come in as arrays and go out as data frames. scikit-learn takes two seconds to load and is not
needed to explain a model that is given as arrays: only the functions that use it load it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The largest finite number.
LARGEST = float(np.finfo(float).max)


def describe(value: Any) -> str:
    """Say in a few words what `value` is, for an error message."""
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**60 else "an integer of many digits"
    return f"{text if len(text) <= 60 else text[:57] + '...'} of type {type(value).__name__}"


def dimensions(X: Any) -> int | None:
    """Return the number of dimensions of `X`, or None if it is no array (rows of different lengths)."""
    try:
        return np.ndim(X)
    except ValueError:
        return None


def shape_of(X: Any) -> str:
    """Say what shape `X` has, or what it is if it has none."""
    return describe(X) if dimensions(X) is None else f"shape {np.shape(X)}"


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
        is_number = isinstance(value, kind) and not isinstance(value, (bool, np.bool_))
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.nan  # an integer beyond all floats
    if math.isnan(number):
        raise ValueError(f"{name} must be {what}; found {describe(value)}")
    if (number <= low if low_open else number < low) or number > high:
        limits = [f"{'above' if low_open else 'at least'} {low:g}"] if low > -np.inf else []
        limits += [f"at most {high:g}"] if high < np.inf else []
        raise ValueError(f"{name} must be {' and '.join(limits)}; found {value!r}")
    return number


def check_choice(value: Any, name: str, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the names in `allowed`, or raise a ValueError."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; found {describe(value)}")
    return value


def check_path(path: Any, name: str) -> Path:
    """Return the name of a file or a folder as a Path, or raise a ValueError."""
    if not isinstance(path, (str, PathLike)):
        raise ValueError(f"{name} must be text or a Path; found {describe(path)}")
    return Path(path)


def as_floats(values: Any, name: str, shape: str) -> Floats:
    """Return numbers as a C-contiguous float64 array, or raise a ValueError: no text, no dates."""
    try:
        array = np.asarray(values)
        # The cast would drop an imaginary part with no more than a warning.
        numbers = np.asarray(array.real, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        columns = values.dtypes.items() if hasattr(values, "columns") else ()
        text = [column for column, kind in columns if kind.kind not in "biuf"]
        found = f"text in {text}: {name}.drop(columns={text}) leaves it out" if text else describe(values)
        raise ValueError(f"{name} must be numeric, of shape {shape}; found {found}") from error
    if np.iscomplexobj(array):
        raise ValueError(f"{name} must be real; found complex numbers")
    if array.dtype.kind in "mM":
        raise ValueError(f"{name} must be numeric; found dates or times ({array.dtype})")
    return numbers


def check_samples(
    X: Any, n_features: int | None = None, name: str = "X", *, allow_empty: bool = False
) -> Floats:
    """Return `X` as a C-contiguous float64 array of shape (n, d), or raise a ValueError.

    >>> check_samples([[1, 2]], n_features=2)
    array([[1., 2.]])
    >>> check_samples([[1.0, float("nan")]])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: X must be finite; found NaN at row 0, column 1: leave such ...
    """
    samples = as_floats(X, name, "(n, d)")
    if samples.ndim != 2:
        hint = "; one sample is X.reshape(1, -1)" if samples.ndim == 1 else ""
        raise ValueError(f"{name} must have shape (n, d); found shape {samples.shape}{hint}")
    if samples.shape[1] == 0 or (samples.shape[0] == 0 and not allow_empty):
        raise ValueError(f"{name} must not be empty; found shape {samples.shape}")
    if n_features is not None and samples.shape[1] != n_features:
        raise ValueError(f"{name} must have {n_features} features; found {samples.shape[1]}")
    if not np.isfinite(samples).all():
        raise ValueError(_not_finite(samples, X, name))
    return samples


def _not_finite(samples: Floats, X: Any, name: str) -> str:
    """Say where a value is missing or infinite, and what to do about it."""
    row, k = np.argwhere(~np.isfinite(samples))[0]
    names = feature_names_of(X)
    column = k if names is None else repr(names[k])
    many = int((~np.isfinite(samples)).any(axis=1).sum())
    value = "NaN" if np.isnan(samples[row, k]) else samples[row, k]
    others = f" and in {many - 1} other rows" if many > 1 else ""
    return (
        f"{name} must be finite; found {value} at row {row}, column {column}{others}: leave such "
        "rows out, or fill values in before (the training data's medians, say), in training as later"
    )


def check_vector(values: Any, length: int | None, name: str) -> Floats:
    """Return `values` as a new float64 array of shape (length,), not empty if None, or raise a ValueError."""
    if dimensions(values) != 1 or len(values) != (length or max(len(values), 1)):
        raise ValueError(f"{name} must have shape ({length or 'n'},); found {describe(values)}")
    vector = np.array(as_floats(values, name, "(n,)"))
    if not np.isfinite(vector).all():
        place = int(np.isfinite(vector).argmin())
        raise ValueError(f"{name} must be finite; found {vector[place]} at place {place}")
    return vector


def classes_of(labels: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct labels, two or more, sorted, and the place of each label among them.

    >>> classes_of(np.array(["b", "a", "b"]), "y")
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    try:
        classes, places = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"{name} must hold labels of one kind, all text or all numbers; found {describe(labels.tolist())}"
        ) from error
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise ValueError(f"{name} must hold labels; found {classes[~np.isfinite(classes)][0]} among them")
    if len(classes) < 2:
        raise ValueError(f"{name} must name at least two classes; found one class: {classes.tolist()}")
    return classes, places


def check_kinds(y: Any) -> None:
    """Raise a ValueError if `y` lacks a label, or has text among others, which NumPy would make text, too."""
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuU":
        return
    objects = np.asarray(y, dtype=object)
    labels = list(objects) if objects.ndim == 1 else []  # another shape is told by whoever looks at it
    for row, label in enumerate(labels):
        # Missing values of pandas are known by name: it is not loaded here.
        missing = type(label).__name__ in ("NoneType", "NAType", "NaTType")
        if missing or (isinstance(label, (float, np.floating)) and np.isnan(label)):
            raise ValueError(f"y must name a class for each sample; found none at row {row}")
    if len({isinstance(label, str) for label in labels}) > 1:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"y must hold labels of one type; found {', '.join(kinds)}")


def validated(estimator: Any, X: Any, **training: Any) -> Any:
    """Return X (n, d) as float64 by scikit-learn's checks, or X and labels with ``y=y``; errors name them."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import validate_data

    if hasattr(X, "toarray") and estimator.__sklearn_tags__().input_tags.sparse:
        X = X.toarray()
    try:
        given = {"ensure_min_samples": 0} | training if "y" not in training else training
        data = validate_data(estimator, X, dtype=np.float64, order="C", reset="y" in training, **given)
    except (TypeError, ValueError, OverflowError) as error:
        if re.search(r"Input X contains (NaN|infinity)", str(error)):
            raise ValueError(_not_finite(as_floats(X, "X", "(n, d)"), X, "X")) from error
        if re.search(r"\b[Xy]\b", str(error)):
            raise
        name = "X and y" if "inconsistent numbers of samples" in str(error) else "X"
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error
    if "y" in training:
        check_kinds(training["y"])
        try:
            if data[1].dtype.kind not in "biuU":  # whole numbers and text are labels, and the test is slow
                check_classification_targets(data[1])
        except ValueError as error:
            raise ValueError(f"y must hold labels of classes. {error}") from error
    return data


def validated_table(estimator: Any, X: Any, **training: Any) -> Any:
    """Do what `validated` does for a table: its names are checked, its cells are not."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

    validate_data(estimator, X, skip_check_array=True, reset="y" in training)
    if "y" not in training:
        return X
    check_kinds(training["y"])
    y = column_or_1d(training["y"], warn=True)
    check_consistent_length(X, y)
    check_classification_targets(y)
    return X, y


def feature_names_of(X: Any) -> list[str] | None:
    """Return the names of a data frame's columns, or of a series' entries, if all are strings, else None."""
    columns = getattr(X, "columns", getattr(X, "index", None) if hasattr(X, "iloc") else None)
    if columns is None or not all(isinstance(column, str) for column in columns):
        return None
    return list(columns)


def as_sample(X: Any, names: list[str] | None) -> Any:
    """Return a mapping of features to values as an array (d,) in their order; all else as it is."""
    if not isinstance(X, Mapping):
        return X
    if names is None or set(X) != set(names):
        raise ValueError(f"X must have the features {names}; found {list(X)}{difference(list(X), names)}")
    return np.array([X[name] for name in names], dtype=object)


def difference(found: Sequence[Any], names: Sequence[Any] | None) -> str:
    """Say which names are missing and which are unknown.

    >>> difference(["age", "bmi "], ["age", "bmi"])
    "; missing: ['bmi'], unknown: ['bmi ']"
    """
    known = names or ()
    missing, unknown = [n for n in known if n not in found], [n for n in found if n not in known]
    parts = [f"{what}: {those}" for what, those in (("missing", missing), ("unknown", unknown)) if those]
    return f"; {', '.join(parts)}" if names and parts else ""


def check_names(X: Any, names: list[str] | None) -> None:
    """Raise a ValueError if `X` is a data frame with a known feature in another place."""
    found = feature_names_of(X)
    if found is None or names is None or found == names:
        return
    if any(name in names and name != names[k] for k, name in enumerate(found[: len(names)])):
        raise ValueError(f"X must have its features in the order {names}; found {found}")


def like(X: Any, values: NDArray[Any], name: Any = None, columns: Any = None) -> Any:
    """Return values (n,) or (n, k) as a Series or a data frame with the index of X, if X is a data frame."""
    if not hasattr(X, "iloc"):
        return values
    import pandas as pd

    if columns is None:
        return pd.Series(values, index=X.index, name=name)
    return pd.DataFrame(values, index=X.index, columns=columns)
