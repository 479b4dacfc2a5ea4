"""The steps before a model, folded into it: any pipeline of affine steps, found by asking it.

Over the lifted columns of `lvqrej.columns` scalers, imputers, encoders, selections, principal components and
what is made of them are one affine map z = image + A (x - base). So its values at rows that differ from the
base in a single column determine it. Where A is not onto (a column that is used twice, an indicator for every
level), hidden columns complete it: with these every point of the model's space has an x, and all distances,
those between prototypes included, are exactly the model's own.

scikit-learn takes two seconds to load, and arrays do not need it: the functions load it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.columns import Column, Columns, cells_of, is_missing, plain
from lvqrej.validation import Floats, describe, feature_names_of

#: Values of a column of numbers that are asked about, to see whether the steps are affine in it.
_PROBES = 32
#: Images that differ by less, relative to the largest, are the same; and what folding may miss.
_SAME, _CLOSE = 1e-9, 1e-7
#: What no column has: shows what the pipeline makes of unknown levels.
_UNKNOWN_TEXT, _UNKNOWN_NUMBER = "\x00unknown", 987654321.5
#: What to do instead of steps that are not affine.
_BEFOREHAND = "transform the column before fit and predict: answers are then in its units"
_INSTEAD = {
    "FunctionTransformer": _BEFOREHAND,
    "PowerTransformer": _BEFOREHAND,
    "QuantileTransformer": _BEFOREHAND,
    "SplineTransformer": _BEFOREHAND,
    "Normalizer": _BEFOREHAND,
    "PolynomialFeatures": "add the products as columns before fit and predict, or leave them out",
    "KBinsDiscretizer": "cut the column into categories before, and put a OneHotEncoder here",
    "Binarizer": "cut the column into categories before, and put a OneHotEncoder here",
    "KNNImputer": "take a SimpleImputer",
    "IterativeImputer": "take a SimpleImputer",
}


def affine_steps() -> tuple[Any, ...]:
    """Return the classes of scikit-learn whose transform is affine in lifted columns."""
    from sklearn import compose, decomposition, feature_selection, impute, preprocessing
    from sklearn.pipeline import FeatureUnion, Pipeline

    return (
        preprocessing.StandardScaler, preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler,
        preprocessing.RobustScaler, preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder,
        impute.SimpleImputer, impute.MissingIndicator, decomposition.PCA, decomposition.IncrementalPCA,
        decomposition.TruncatedSVD, feature_selection.SelectorMixin, compose.ColumnTransformer,
        FeatureUnion, Pipeline,
    )  # fmt: skip


def opened(estimator: Any, name: str = "estimator") -> list[tuple[str, Any]]:
    """Return the named steps of a pipeline, those of pipelines inside it included, without 'passthrough'."""
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline):
        return [(name, estimator)]
    steps = [(name, step) for name, step in estimator.steps if step is not None and step != "passthrough"]
    return [inner for name, step in steps for inner in opened(step, name)]


def _leaves(name: str, step: Any) -> Iterator[tuple[str, Any]]:
    """Yield the steps that a step, fitted or not, is made of."""
    inner = getattr(step, "transformers_", None) or getattr(step, "transformers", None)
    inner = inner or getattr(step, "transformer_list", None) or getattr(step, "steps", None)
    if inner is None:
        yield name, step
        return
    for part in [*inner, ("remainder", getattr(step, "remainder", "drop"))]:
        if part[1] is not None and not isinstance(part[1], str):
            yield from _leaves(part[0], part[1])


def check_affine(name: str, step: Any) -> None:
    """Raise a ValueError that names the step of a pipeline, fitted or not, if it is not affine."""
    known = affine_steps()
    for inner, leaf in _leaves(name, step):
        found, kind = f"found step {inner!r}, a {type(leaf).__name__}", type(leaf).__name__
        if kind == "FunctionTransformer" and leaf.func is None:  # what "passthrough" becomes
            continue
        transform = getattr(type(leaf), "transform", None)
        if not isinstance(leaf, known) or all(transform is not getattr(k, "transform", 0) for k in known):
            instead = _INSTEAD.get(kind, "take scalers, encoders, SimpleImputer, PCA or feature selection")
            raise ValueError(
                "the steps before the LVQ model must be affine, or folding them would not be exact; "
                f"{found}: {instead}"
            )
        if getattr(leaf, "clip", False):
            raise ValueError(
                f"the steps before the LVQ model must not clip; {found} with clip=True: take clip=False"
            )


class Fold(NamedTuple):
    """The steps before a model as z = image + A (x - base), x of shape (D,), z of shape (q,).

    `scale` (d,) tells what each of the user's columns of numbers is divided by, NaN if it is not only that.
    """

    columns: Columns
    base: Floats
    image: Floats
    A: Floats
    scale: Floats
    named: bool

    def pulled_back(self, prototypes: Floats, L: Any, labels: Any = None) -> tuple[Floats, Any, Floats]:
        """Return prototypes (m, D), their labels and a metric (k, D) with which distances are the model's.

        L (z - p) = L A (x - p') with A (p' - base) = p - image.
        """
        A, wanted = self.A, prototypes - self.image
        size = np.sqrt(np.square(A).sum(axis=0))
        used = A != 0
        if (
            (used.sum(axis=0) <= 1).all()
            and (used.sum(axis=1) == 1).all()
            and used.any(axis=0).sum() == len(A)
        ):
            rows, places = np.nonzero(used)
            moved = np.zeros((len(prototypes), A.shape[1]))
            moved[:, places] = wanted[:, rows] / A[rows, places]
        else:  # in units in which all columns are alike
            unit = np.where(size > 0, size, 1.0)
            moved = np.linalg.lstsq(A / unit, wanted.T, rcond=None)[0].T / unit
        return self.base + moved, labels, A if L is None else np.asarray(L) @ A


def fold(steps: list[tuple[str, Any]], X: Any = None, d: int | None = None) -> Fold:
    """Return fitted, named steps as one affine map of lifted columns; X (n, d) is what they were fitted to.

    Without X columns are numbers.

    >>> from sklearn.preprocessing import MinMaxScaler, StandardScaler
    >>> unit, standard = MinMaxScaler().fit([[0, 10], [2, 50]]), StandardScaler().fit([[0, 0], [1, 1]])
    >>> found = fold([("unit", unit), ("standard", standard)])
    >>> found.scale.round(9), found.pulled_back(np.zeros((1, 2)), None)[0].round(9)
    (array([ 1., 20.]), array([[ 1., 30.]]))
    """
    from sklearn.utils.validation import check_is_fitted

    for name, step in steps:
        check_affine(name, step)
        check_is_fitted(step)
    if X is not None:
        return _Probing(steps, X).fold()
    first = steps[0][1] if steps else None
    names = getattr(first, "feature_names_in_", None)
    number = int(d or 0) if first is None else first.n_features_in_
    # Between these the steps are asked: first anywhere, then where their values are near 0, for all digits.
    table: Any = np.array([[0.0], [1.0]]) * np.ones(number)
    for _ in range(2):
        if names is not None:
            import pandas as pd

            table = pd.DataFrame(table, columns=names)
        found = _Probing(steps, table).fold(check=False)
        centre = found.pulled_back(np.zeros((1, len(found.image))), None)[0][0, :number]
        size = np.sqrt(np.square(found.A[:, :number]).sum(axis=0))
        table = centre + np.array([[-1.0], [1.0]]) / np.where(size > 0, size, 1.0)
    return found


class _Probing:
    """Asks fitted steps for their values at rows that differ in one column from a row of the table."""

    def __init__(self, steps: list[tuple[str, Any]], X: Any) -> None:
        self.steps, self.X = steps, X
        self.names = list(X.columns) if hasattr(X, "columns") else None
        self.cells = cells_of(X)
        self.shown = feature_names_of(X) or [f"feature {k}" for k in range(self.cells.shape[1])]
        self.known = [[plain(v) for v in column if not is_missing(v)] for column in self.cells.T]
        self.is_number = [
            bool(column) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in column)
            for column in self.known
        ]
        self.base = np.array(
            [
                min(column) if number else Counter(column).most_common(1)[0][0] if column else np.nan
                for column, number in zip(self.known, self.is_number, strict=True)
            ],
            dtype=object,
        )
        self.image = self.transformed(self.base[None])[0]
        if not np.isfinite(self.image).all():
            empty = [name for name, column in zip(self.shown, self.known, strict=True) if not column]
            raise ValueError(f"the steps before the LVQ model must give numbers; found NaN (empty: {empty})")

    def transformed(self, rows: NDArray[Any]) -> Floats:
        """Return the values of the steps at rows (m, d), of shape (m, q)."""
        table: Any = rows
        if self.names is not None:
            import pandas as pd

            table = pd.DataFrame({name: rows[:, k] for k, name in enumerate(self.names)})
            for name, number, dtype in zip(self.names, self.is_number, self.X.dtypes, strict=True):
                if number and str(dtype) != "object":
                    table[name] = table[name].astype(float)
        elif all(self.is_number):
            table = rows.astype(float)
        return self.run(table)

    def run(self, table: Any) -> Floats:
        """Return the values of the steps, of shape (m, q)."""
        for _, step in self.steps:
            table = step.transform(table)
        dense = table.toarray() if hasattr(table, "toarray") else table
        return np.asarray(dense, dtype=np.float64)

    def at(self, asked: list[tuple[int, list[Any]]]) -> list[Floats | None]:
        """Return the values of the steps with others in one column each; None where they refuse one."""
        if not asked:
            return []
        rows = np.repeat(self.base[None], sum(len(values) for _, values in asked), axis=0)
        ends = np.cumsum([len(values) for _, values in asked])
        for (k, values), end in zip(asked, ends, strict=True):
            rows[end - len(values) : end, k] = values
        try:
            images = self.transformed(rows)
        except (TypeError, ValueError):  # an encoder's unknown level, a gap that nothing fills
            half = len(asked) // 2
            return [None] if half == 0 else self.at(asked[:half]) + self.at(asked[half:])
        return [part if np.isfinite(part).all() else None for part in np.split(images, ends[:-1])]

    def fold(self, check: bool = True) -> Fold:
        """Ask for all columns; complete what is not onto; check it on the table."""
        everyone = range(len(self.base))
        self.gaps = self.at([(k, [np.nan]) for k in everyone])
        values = [self._values(k) for k in everyone]
        images = self.at(list(zip(everyone, values, strict=True)))
        parts: list[Any] = [self._numbers(k, values[k], images[k]) for k in everyone]
        others = [k for k in everyone if parts[k] is None]
        levels = [self._order(k) for k in others]
        images = self.at([(k, names) for k, (_, names) in zip(others, levels, strict=True)])
        unknown = [_UNKNOWN_NUMBER if self.is_number[k] else _UNKNOWN_TEXT for k in others]
        new = self.at([(k, [value]) for k, value in zip(others, unknown, strict=True)])
        for i, k in enumerate(others):
            parts[k] = self._levels(k, *levels[i], images[i], new[i])
        columns = [column for column, _, _ in parts]
        A = np.hstack([part for _, part, _ in parts])
        base = np.concatenate([start for _, _, start in parts])
        scale = np.full(len(columns), np.nan)
        for k, (column, part, _) in enumerate(parts):
            used = np.flatnonzero(part[:, 0])
            if column.levels is None and len(used) == 1 and np.count_nonzero(A[used[0]]) == 1:
                scale[k] = 1 / abs(part[used[0], 0])
        size = np.sqrt(np.square(A).sum(axis=0))
        U, s, _ = np.linalg.svd(A / np.where(size > 0, size, 1.0))
        rest = U[:, int((s > _SAME * s.max(initial=1.0)).sum()) :]
        found = Fold(
            Columns(columns, rest.shape[1]), np.append(base, np.zeros(rest.shape[1])), self.image,
            np.hstack([A, rest]), scale, feature_names_of(self.X) is not None,
        )  # fmt: skip
        if check:
            z = self.run(self.X)
            missed = np.abs(found.image + (found.columns.lifted(self.X) - found.base) @ found.A.T - z)
            if not missed.max() <= _CLOSE * max(1.0, np.abs(z).max()):
                row = int(missed.max(axis=1).argmax())
                raise ValueError(
                    "the steps before the LVQ model must be affine in numbers and levels; found other values "
                    f"at row {row}, {describe(self.cells[row].tolist())}"
                )
        return found

    def _values(self, k: int) -> list[Any]:
        """Return some values of a column of numbers, the lowest and the highest first."""
        if not self.is_number[k]:
            return [self.base[k]]
        distinct = np.unique(np.array(self.known[k], dtype=float))
        low, high = distinct[0], distinct[-1] if len(distinct) > 1 else distinct[0] + 1.0
        some = distinct[np.linspace(0, len(distinct) - 1, min(len(distinct), _PROBES)).astype(int)]
        return [low, high, (low + high) / 2, *some]

    def _numbers(self, k: int, given: list[Any], images: Any) -> tuple[Column, Floats, Floats] | None:
        """Return a column of numbers, its part of A and its base, if the steps are affine in it."""
        if not self.is_number[k] or images is None:
            return None
        values = np.array(given)
        low, high = values[:2]
        slope = (images[1] - images[0]) / (high - low)
        line = images[0] + (values - low)[:, None] * slope
        if (np.abs(images - line) > _SAME * max(1.0, np.abs(images).max())).any():
            return None
        missing = self.gaps[k]
        if missing is None:
            return Column(self.shown[k]), slope[:, None], np.array([low])
        moved = missing[0] - images[0]
        fill = low + float(moved @ slope) / float(slope @ slope) if slope.any() else low
        fill = float(f"{fill:.12g}")
        rest = moved - (fill - low) * slope
        if (np.abs(rest) <= _SAME * max(1.0, np.abs(images).max())).all():
            return Column(self.shown[k], fill=fill), slope[:, None], np.array([low])
        # With a flag a value that is given starts from one that could have been recorded.
        known = np.array(self.known[k], dtype=float)
        decimals = next(
            (n for n in range(7) if np.allclose(known, np.round(known, n), rtol=1e-12, atol=0)), 12
        )
        fill = round(fill, decimals)
        A = np.stack([slope, moved - (fill - low) * slope], axis=1)
        return Column(self.shown[k], fill=fill, flag=True), A, np.array([low, 0.0])

    def _levels(
        self, k: int, ordered: bool, levels: list[Any], asked: Any, new: Any
    ) -> tuple[Column, Floats, Floats]:
        """Return a category, its part of A and its base."""
        if asked is None:
            raise ValueError(
                f"the steps before the LVQ model must take every level of column {self.shown[k]!r}; "
                "found one that they refuse"
            )
        counts = Counter(self.known[k])
        groups: list[list[Any]] = []
        images: list[Floats] = []

        def place(image: Floats) -> int:
            for g, known in enumerate(images):
                if np.abs(known - image).max() <= _SAME * max(1.0, np.abs(image).max()):
                    return g
            images.append(image)
            groups.append([])
            return len(images) - 1

        for level, image in zip(levels, asked, strict=True):
            groups[place(image)].append(level)
        steps, order = _on_a_line(np.array(images))
        if steps:
            ordered, images, groups = True, [images[g] for g in order], [groups[g] for g in order]
        missing = self.gaps[k]
        fill = None if missing is None else place(missing[0])
        if fill is not None and not groups[fill]:
            groups[fill].append(None)
        unknown = None if new is None else place(new[0])
        named = [tuple(sorted(group, key=lambda level: -counts[level])) for group in groups]
        if len(images) == 1:  # whatever it is, the model does not look at it
            named, fill, unknown = [()], 0, 0
        column = Column(self.shown[k], tuple(named), fill, False, unknown, ordered and len(images) > 1)
        start = place(self.image)
        return column, (np.array(images) - self.image).T, np.eye(len(images))[start]

    def _order(self, k: int) -> tuple[bool, list[Any]]:
        """Return whether levels are steps, and the levels in their order."""
        counts = set(self.known[k])
        dtype: Any = self.X.dtypes.iloc[k] if self.names is not None and hasattr(self.X, "iloc") else None
        if hasattr(dtype, "categories"):
            levels = [plain(level) for level in dtype.categories if plain(level) in counts]
            return bool(dtype.ordered), levels
        try:
            return False, sorted(counts)
        except TypeError:  # text among numbers
            return False, sorted(counts, key=str)


def _on_a_line(images: Floats) -> tuple[bool, list[int]]:
    """Return whether three or more images stand on a line at equal steps, and their order along it."""
    if len(images) < 3:
        return False, []
    centred = images - images.mean(axis=0)
    along = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    along = along if along[0] <= along[-1] else -along
    order = np.argsort(along, kind="stable")
    steps = np.diff(images[order], axis=0)
    even = np.abs(steps - steps[0]).max() <= _SAME * max(1.0, np.abs(images).max())
    return bool(even), order.tolist()
