"""A data set, and how one is read from a file: never unpickled, never guessed, every defect named."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

LABEL_NAMES = ("label", "y", "class")


class DataError(ValueError):
    """Data that is missing, cannot be read, or is not what it is said to be."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Samples with their classes, and where they come from.

    Attributes
    ----------
    name : str
        The name `load` knows it by.
    X : DataFrame of shape (n, d)
        float64, one named column per feature; NaN where a value is missing.
    y : array of shape (n,)
        The class of each row, as its place in `class_names`.
    class_names : tuple of str
    synthetic : bool
        True if the rows are drawn at random and belong to nobody.
    description : str
        What it is and its source; the first word of a synthetic one is "Synthetic".

    Examples
    --------
    >>> X, y = pd.DataFrame({"a": [1.0, 2.0]}), np.array([0, 1])
    >>> data = DataSet("toy", X, y, ("no", "yes"), synthetic=True, description="Synthetic.")
    >>> data.feature_names, data.counts
    (['a'], {'no': 1, 'yes': 1})
    """

    name: str
    X: pd.DataFrame = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    class_names: tuple[str, ...]
    synthetic: bool
    description: str

    def __post_init__(self) -> None:
        n, d = self.X.shape
        if n == 0 or d == 0 or len(self.y) != n:
            raise DataError(
                f"{self.name}: X must not be empty and y as long; found {(n, d)} and {len(self.y)}"
            )
        if len(self.class_names) < 2 or set(np.unique(self.y)) != set(range(len(self.class_names))):
            raise DataError(f"{self.name}: y must have at least two classes; found {list(self.class_names)}")
        rows, columns = np.nonzero(np.isinf(self.X.to_numpy()))
        if rows.size:
            raise DataError(f"{self.name}: infinite value at row {rows[0]}, column {columns[0]}")

    def __str__(self) -> str:
        """Say name, size and classes in one line."""
        classes = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"{self.name}: {len(self.X)} x {self.X.shape[1]} ({classes}). {self.description}"

    @property
    def feature_names(self) -> list[str]:
        """The names of the d features."""
        return [str(name) for name in self.X.columns]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of each class."""
        return dict(zip(self.class_names, np.bincount(self.y).tolist(), strict=True))

    @property
    def missing(self) -> float:
        """The share of values that are missing, from 0 to 1."""
        return float(self.X.isna().to_numpy().mean())

    @cached_property
    def sha(self) -> str:
        """The SHA-256 of names, values and classes, which is equal on every machine for equal content."""
        values = self.X.to_numpy().astype("<f8")
        values[np.isnan(values)] = np.nan  # one bit pattern for every missing value
        digest = hashlib.sha256(repr((values.shape, self.feature_names, self.class_names)).encode())
        digest.update(np.ascontiguousarray(values + 0.0).tobytes())  # + 0.0: -0 equals 0
        digest.update(np.asarray(self.y, dtype="<i8").tobytes())
        return digest.hexdigest()


def read_table(path: str | PathLike[str], label: str | None = None) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return features (n, d) and labels (n,) of an .npz file with X and y, or of a CSV file.

    Parameters
    ----------
    path : path
        A file that ends in .npz or .csv. A CSV file has a header line; empty fields are missing values.
    label : str, optional
        The label's column (CSV); by default the column named "label", "y" or "class", otherwise the last.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise DataError(f"{path} must end in .npz or .csv; found {path.suffix or 'no ending'!r}")
    if label is not None and path.suffix.lower() == ".npz":
        raise DataError(f"label names a column of a CSV file, but {path} is an .npz file: its labels are y")
    return readers[path.suffix.lower()](path, label)


def as_data_set(name: str, X: pd.DataFrame, labels: NDArray[Any], description: str) -> DataSet:
    """Return the data set of a table that was read: classes are the sorted labels."""
    classes, y = np.unique(labels, return_inverse=True)
    return DataSet(name, X, y.astype(np.int64), tuple(map(_class_name, classes)), False, description)


def _class_name(value: Any) -> str:
    """Return the label as text; a whole number without its decimal point, so that .npz and CSV agree."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _read_npz(path: Path, _: str | None) -> tuple[pd.DataFrame, NDArray[Any]]:
    try:
        # Pickled objects could run code: an archive of plain arrays never needs them.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            X, y = np.asarray(archive["X"]), np.asarray(archive["y"])
    except KeyError as error:
        raise DataError(f"{path} must hold the arrays X and y: {error.args[0]}") from error
    except (
        OSError,
        EOFError,
        ValueError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DataError(f"{path} cannot be read as an .npz file of plain arrays: {error}") from error
    if X.ndim != 2 or not np.issubdtype(X.dtype, np.number) or np.iscomplexobj(X):
        raise DataError(f"{path}: X must be real, of shape (n, d); found {X.dtype} of shape {X.shape}")
    if y.size != len(X) or np.squeeze(y).ndim > 1:
        raise DataError(f"{path}: y must have shape ({len(X)},); found {y.shape}")
    names = [f"feature {column + 1}" for column in range(X.shape[1])]
    return pd.DataFrame(X.astype(np.float64), columns=names), _complete(y.reshape(-1), path)


def _read_csv(path: Path, label: str | None) -> tuple[pd.DataFrame, NDArray[Any]]:
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:  # pandas' parser errors and wrong encodings are ValueErrors
        raise DataError(f"{path} cannot be read as a CSV file: {error}") from error
    if pd.to_numeric(pd.Series(table.columns), errors="coerce").notna().all():
        raise DataError(f"{path} must begin with a header line; found {list(table.columns)[:4]}")
    column = _label_column(list(table.columns), label, path)
    X = table.drop(columns=column)
    for name in X.columns:
        numbers = pd.to_numeric(X[name], errors="coerce")
        wrong = X[name][numbers.isna() & X[name].notna()]
        if len(wrong):
            raise DataError(
                f"{path}: column {name!r} must be numeric; found {wrong.iloc[0]!r} in row {wrong.index[0]}"
            )
        X[name] = numbers.astype(np.float64)
    return X, _complete(table[column].to_numpy(), path)


def _label_column(columns: list[str], label: str | None, path: Path) -> str:
    if label is not None:
        if label not in columns:
            raise DataError(f"{path} has no column {label!r}; found {columns}")
        return label
    named = [column for column in columns if column.lower() in LABEL_NAMES]
    if len(named) > 1:
        raise DataError(f"{path}: name the column with the labels by label=...; found {named}")
    return named[0] if named else columns[-1]


def _complete(labels: NDArray[Any], path: Path) -> NDArray[Any]:
    missing = np.flatnonzero(pd.isna(labels))
    if missing.size:
        raise DataError(f"{path}: every row must have a label; found none in row {missing[0]}")
    return labels
