"""Any table as numbers: columns of numbers, indicators of levels, flags of missing values, and back.

The engine works on *lifted* columns, one float each: a column of numbers is itself, a category has one
indicator per level, a missing number that the pipeline tells from its filling value has a flag, and hidden
columns, 0 for every sample, make room for what a pipeline says twice. Over these the usual steps before a
model are one affine map, z = image + A (x - base). It is found by asking the fitted pipeline for its values
at rows that differ from one in a single column, and checked on the training rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.validation import Floats, check_samples, describe, dimensions


@dataclass(frozen=True)
class Column:
    """One column of the user's table, and how it is lifted.

    Attributes
    ----------
    name : str
    levels : tuple of tuples, or None for numbers
        Levels that the model does not tell apart stand together, the most frequent one first; (None,) is the
        level of missing values, () that of unknown ones.
    fill : float, int or None
        What a missing value is taken as, a number or the place of a level; None if it may not be missing.
    flag : bool
        Whether a missing number has a flag besides.
    unknown : int or None
        The level that unknown values are taken as; None if they are refused.
    ordered : bool
        Whether the levels are steps, from low to high.
    """

    name: str
    levels: tuple[tuple[Any, ...], ...] | None = None
    fill: Any = None
    flag: bool = False
    unknown: int | None = None
    ordered: bool = False

    @property
    def width(self) -> int:
        """Number of lifted columns."""
        return 1 + self.flag if self.levels is None else len(self.levels)

    @cached_property
    def places(self) -> dict[Any, int]:
        """The place of each known level."""
        return {level: g for g, group in enumerate(self.levels or ()) for level in group if level is not None}

    def place(self, value: Any) -> int | None:
        """Return the place of a level, of a missing or an unknown one; None if it is refused."""
        return self.fill if is_missing(value) else self.places.get(plain(value), self.unknown)

    def same(self, value: Any) -> list[Any]:
        """Return the other levels that the model does not tell from a level."""
        group = next((group for group in self.levels or () if value in group), ())
        return [level for level in group if level != value]

    def lifted(self, values: NDArray[Any]) -> Floats:
        """Return the lifted columns, (n, width), of values (n,), or raise a ValueError."""
        missing = np.array([is_missing(value) for value in values], dtype=bool)
        if missing.any() and self.fill is None:
            row = int(missing.argmax())
            raise ValueError(
                f"X must not lack a value in column {self.name!r}; found none at row {row}: put a "
                "SimpleImputer before the model, or leave such rows out"
            )
        if self.levels is None:
            filled = np.where(missing, 0.0 if self.fill is None else self.fill, values)
            numbers = check_samples(filled[:, None], 1, f"X's column {self.name!r}", allow_empty=True)
            return np.hstack([numbers, missing[:, None]]) if self.flag else numbers
        places = [self.place(value) for value in values]
        if None in places:
            raise ValueError(
                f"X must have known levels in column {self.name!r}, {describe(list(self.places))}; "
                f"found {describe(values[places.index(None)])} "
                "(OneHotEncoder(handle_unknown='ignore') takes any)"
            )
        return np.eye(len(self.levels))[np.array(places, dtype=np.intp)]

    def value(self, z: Floats) -> Any:
        """Return what the lifted columns z (width,) stand for; None for a missing or unknown one."""
        if self.levels is None:
            return None if self.flag and z[1] > 0.5 else float(z[0])
        group = self.levels[int(z.argmax())]
        return group[0] if group else None


@dataclass(frozen=True, eq=False)
class Columns:
    """The user's columns, the lifted ones, and the way from one to the other.

    Attributes
    ----------
    columns : list of Column
    hidden : int
        Number of lifted columns that are 0 for every sample.

    Examples
    --------
    >>> island = Column("island", (("Biscoe",), ("Dream", "Torgersen")), unknown=1)
    >>> columns = Columns([Column("mass", fill=4000.0), island])
    >>> columns.lifted(np.array([[3750, "Torgersen"], [None, "Biscoe"]], dtype=object))
    array([[3.75e+03, 0.00e+00, 1.00e+00],
           [4.00e+03, 1.00e+00, 0.00e+00]])
    """

    columns: Sequence[Column]
    hidden: int = 0

    @staticmethod
    def numeric(d: int, names: Sequence[str] | None = None) -> Columns:
        """Return d columns of numbers."""
        known = [f"feature {k}" for k in range(d)] if names is None else names
        return Columns([Column(str(name)) for name in known])

    @cached_property
    def names(self) -> list[str]:
        """Names of the user's columns."""
        return [column.name for column in self.columns]

    @cached_property
    def starts(self) -> list[int]:
        """Where the lifted columns of each of the user's begin, and after the last one."""
        return np.cumsum([0, *(column.width for column in self.columns)]).tolist()

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The user's column of each lifted one, -1 for hidden ones."""
        own = np.repeat(np.arange(len(self.columns)), [column.width for column in self.columns])
        return np.append(own, np.full(self.hidden, -1))

    @cached_property
    def numbers(self) -> NDArray[np.bool_]:
        """Which lifted columns hold numbers."""
        mask = np.zeros(len(self.owner), dtype=bool)
        mask[[s for s, c in zip(self.starts, self.columns, strict=False) if c.levels is None]] = True
        return mask

    @cached_property
    def takes_numbers(self) -> bool:
        """Whether all of the user's columns are numbers that may not be missing."""
        return all(column.levels is None and column.fill is None for column in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether the lifted columns are the user's, and numbers that may not be missing."""
        return self.takes_numbers and self.hidden == 0

    def at(self, k: int) -> slice:
        """Return where the lifted columns of the user's column k are."""
        return slice(self.starts[k], self.starts[k + 1])

    def spread(self, values: Any, hidden: Any = False) -> NDArray[Any]:
        """Return values (..., d) of the user's columns for each lifted one."""
        given = np.asarray(values)
        last = np.full((*given.shape[:-1], 1), hidden, dtype=given.dtype)
        return np.concatenate([given, last], axis=-1)[..., self.owner]

    def gathered(self, values: Any) -> NDArray[Any]:
        """Return sums over the lifted columns (..., D) of each of the user's; of truth values "any"."""
        given = np.asarray(values)[..., : self.starts[-1]]
        return (np.logical_or if given.dtype == bool else np.add).reduceat(given, self.starts[:-1], axis=-1)

    def lifted(self, X: Any, name: str = "X") -> Floats:
        """Return a table (n, d) of the user's columns as lifted ones (n, D), or raise a ValueError.

        An array of floats with a column for each lifted one is taken as it is.
        """
        d, D = len(self.columns), len(self.owner)
        if dimensions(X) == 2 and not len(X) and not self.takes_numbers:
            return np.empty((0, D))
        is_lifted = isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2 and X.shape[1] == D
        if is_lifted and np.isfinite(X).all():
            return check_samples(X, D, name, allow_empty=True)
        if self.takes_numbers:
            samples = check_samples(X, d, name, allow_empty=True)
            return np.hstack([samples, np.zeros((len(samples), self.hidden))]) if self.hidden else samples
        values = cells_of(X)
        if values.ndim != 2 or values.shape[1] != d:
            raise ValueError(f"{name} must have {d} columns; found shape {values.shape}")
        parts = [column.lifted(values[:, k]) for k, column in enumerate(self.columns)]
        return np.hstack([*parts, np.zeros((len(values), self.hidden))])

    def observed(self, X: Any) -> Floats:
        """Return a table lifted, with NaN for missing numbers instead of what they are taken as."""
        lifted = self.lifted(X)
        if self.takes_numbers:
            return lifted
        lifted, cells = lifted.copy(), cells_of(X)
        for k, column in enumerate(self.columns):
            if column.levels is None:
                lifted[[is_missing(value) for value in cells[:, k]], self.starts[k]] = np.nan
        return lifted

    def changes(self, x: Floats, z: Floats) -> Floats:
        """Return how much each of the user's columns of numbers changes, NaN for others, (..., d)."""
        is_number = [column.levels is None for column in self.columns]
        return np.where(is_number, (z - x)[..., self.starts[:-1]], np.nan)

    def values(self, z: Floats) -> list[Any]:
        """Return the user's values of a lifted row z (D,)."""
        return [column.value(z[self.at(k)]) for k, column in enumerate(self.columns)]

    def frame(self, Z: Floats, X: Floats | None = None, given: Any = None) -> Any:
        """Return lifted rows as a data frame of the user's values; where they equal X, those `given`."""
        import pandas as pd

        if self.is_plain:
            return pd.DataFrame(Z, columns=self.names)
        rows = np.array([self.values(z) for z in Z], dtype=object).reshape(len(Z), len(self.names))
        if given is not None and X is not None:
            rows = np.where(self.gathered(Z != X), rows, given)
        table = pd.DataFrame(dict(zip(range(len(self.names)), rows.T, strict=True))).infer_objects()
        for k, column in enumerate(self.columns):
            if column.levels is None:
                table[k] = table[k].astype(float)
        return table.set_axis(self.names, axis=1)


def is_missing(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or what pandas has for it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def plain(value: Any) -> Any:
    """Return a level as Python has it; a whole number of any type is the same level."""
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def cells_of(X: Any) -> NDArray[Any]:
    """Return a table's cells as an array of objects (n, d), one row (1, d) for a mapping's values."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        rows = np.empty(X.shape, dtype=object)
        for k in range(X.shape[1]):
            rows[:, k] = X.iloc[:, k].to_numpy(dtype=object)
        return rows
    return np.array(X.rows() if hasattr(X, "rows") else X, dtype=object)


def as_frame(X: Any) -> Any:
    """Return a frame as one of pandas, empty cells as scikit-learn knows them; all else as it is."""
    if not hasattr(X, "columns"):
        return X
    import pandas as pd

    if not hasattr(X, "iloc"):
        X = pd.DataFrame({name: X[name].to_list() for name in X.columns})
    kinds = {"boolean": object, "bool": object, "string": "str", "object": object}
    frame = X.copy(deep=False)
    for k, (name, dtype) in enumerate(X.dtypes.items()):
        if str(dtype) == "object" or getattr(dtype, "na_value", None) is pd.NA:
            kind = kinds.get(str(dtype).split("[")[0], np.float64)
            cells = X.iloc[:, k].astype(object).where(X.iloc[:, k].notna(), np.nan)
            frame[name] = cells.astype(kind)
    return frame


def is_table(X: Any) -> bool:
    """Return whether X has what numbers alone cannot say: text, categories, truth values or gaps."""
    if hasattr(X, "columns"):
        numbers = all(str(dtype).lower().startswith(("int", "uint", "float")) for dtype in X.dtypes)
        return not numbers or any(is_missing(value) for value in cells_of(X).flat)
    if not isinstance(X, np.ndarray) or X.dtype.kind != "O":
        return isinstance(X, np.ndarray) and X.dtype.kind == "f" and bool(np.isnan(X).any())
    return any(isinstance(value, str) or is_missing(value) for value in X.flat)
