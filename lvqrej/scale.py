"""Rejects by the million: explained part by part, each part one file, whole or not at all.

`explain` answers a batch that fits into memory; `explain_stream` reads rows from anywhere, explains those
that are rejected and leaves what it found on disk. Whatever ends it, run again it does only what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from lvqrej._validation import (
    check_choice,
    check_number,
    check_samples,
    describe,
    dimensions,
    feature_names_of,
)
from lvqrej.certainty import Certainty, check_theta
from lvqrej.counterfactual import explain
from lvqrej.engine.requirements import check_requirements
from lvqrej.explanation import Explanations, NoCounterfactualError
from lvqrej.parts import Parts, state

Floats = NDArray[np.float64]

#: The columns before the features.
COLUMNS = (
    "row", "found", "label", "certainty_before", "certainty", "distance", "lower_bound", "gap", "path",
    "reason",
)  # fmt: skip


def explain_stream(
    option: Certainty,
    theta: float,
    rows: Any,
    folder: str | PathLike[str],
    *,
    rows_per_part: int = 50_000,
    format: str = "parquet",
    on_infeasible: str = "skip",
    n_jobs: int | None = None,
    progress: bool = False,
    **requirements: Any,
) -> list[Path]:
    """Explain the rejected among any number of rows, in bounded memory, into files that a rerun completes.

    Parameters
    ----------
    option : Certainty
    theta : float
    rows : array of shape (n, d) or iterable of such arrays
        Numbers or data frames; `numpy.memmap` and `pandas.read_csv(..., chunksize=...)` are never in memory
        as a whole. How an iterable is cut into arrays does not matter.
    folder : path
        Made if missing. It has one file per `rows_per_part` rows, named by number and a checksum of the rows,
        and a manifest of what decides the results. A folder of anything else is refused.
    rows_per_part : int
        Memory grows with it, not with the number of rows.
    format : {"parquet", "csv"}
        Parquet needs pyarrow (``pip install "lvqrej[scale]"``).
    on_infeasible : {"skip", "raise"}
        Whether a reject without a counterfactual gets found = False and its reason, or ends the run with a
        `NoCounterfactualError` after the parts before it.
    n_jobs : int, optional
        As in `explain`, which answers each part.
    progress : bool
        Whether to show a progress bar over the rows.
    **requirements
        Those of `explain`: weights, fixed, bounds, increase_only, decrease_only, constraints, target.

    Returns
    -------
    list of Path
        The files in the order of the rows, also those that were there already. Each has the columns of
        `Explanations.to_frame` for the *rejected* rows, and before them `row`, counted from 0; rows that are
        accepted are in no file.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from lvqrej.certainty import RelativeSimilarity
    >>> from lvqrej.prototypes import PrototypeModel
    >>> model = PrototypeModel([[0, 0], [2, 0]], ["a", "b"], feature_names=["age", "bmi"])
    >>> option = RelativeSimilarity(model)
    >>> rows = np.array([[0.1, 0.0], [0.9, 0.0], [1.2, 0.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = explain_stream(option, 0.6, rows, folder, rows_per_part=2, format="csv")
    ...     pd.concat(map(pd.read_csv, files))[["row", "label", "distance", "age", "bmi"]].round(3)
       row label  distance    age  bmi
    0    1     a     0.233  0.667  0.0
    0    2     b     0.133  1.333  0.0
    """
    if not isinstance(option, Certainty):
        raise ValueError(f"option must be a certainty such as RelativeSimilarity; found {describe(option)}")
    theta = check_theta(theta)
    size = int(check_number(rows_per_part, "rows_per_part", low=1, integer=True))
    check_choice(format, "format", ("parquet", "csv"))
    check_choice(on_infeasible, "on_infeasible", ("raise", "skip"))
    if not isinstance(folder, (str, PathLike)):
        raise ValueError(f"folder must be the name of a folder; found {describe(folder)}")
    names, total, pieces = _opened(rows, option, size)
    required = check_requirements(option.n_features, names, option.classes, **requirements)
    manifest = {
        "option": f"{type(option).__name__} {joblib.hash(state(option))}",
        "theta": theta,
        "requirements": joblib.hash(state(required)),
        "columns": [*COLUMNS, *names],
        "format": format,
        "rows_per_part": size,
    }
    parts = Parts(Path(folder), format, manifest, option.classes.tolist())
    files: list[Path] = []
    for first, part in _shown(_regrouped(pieces, size), total, progress):
        file = parts.file(len(files), hashlib.sha256(part.data).hexdigest()[:12])
        if not parts.has(file):
            rejected = np.flatnonzero(~option.accepts(part, theta))
            result = explain(
                option, theta, part[rejected], on_infeasible="skip", n_jobs=n_jobs, **requirements
            )
            parts.write(file, _columns(result, first + rejected, names, on_infeasible))
        files.append(file)
    parts.close(len(files))
    return files


def _shown(parts: Iterator[Floats], total: int | None, progress: bool) -> Iterator[tuple[int, Floats]]:
    """Yield each part after the number of its first row, and show how many rows are done."""
    first, bar = 0, None
    if progress:
        from tqdm.auto import tqdm

        bar = tqdm(total=total, desc="explain", unit="row", unit_scale=True)
    for part in parts:
        yield first, part
        first += len(part)
        if bar is not None:
            bar.update(len(part))
    if bar is not None:
        bar.close()


def _opened(rows: Any, option: Certainty, size: int) -> tuple[list[str], int | None, Iterator[Floats]]:
    """Return the features' names, the number of rows if it is known, and the rows as checked arrays."""
    total = len(rows) if dimensions(rows) == 2 else None
    if total is not None:
        of_rows = rows.iloc if hasattr(rows, "iloc") else rows
        arrays: Iterator[Any] = (of_rows[i : i + size] for i in range(0, total, size))
    elif isinstance(rows, Iterable) and dimensions(rows) != 1:
        arrays = iter(rows)
    else:
        raise ValueError(
            f"rows must have shape (n, d), or be an iterable of such arrays; found {describe(rows)}"
        )
    head = next(arrays, None)
    names = feature_names_of(head) or option.feature_names
    known = names or [f"feature {k}" for k in range(option.n_features)]
    clash = sorted(set(known) & set(COLUMNS) | {name for name in known if known.count(name) > 1})
    if clash:
        raise ValueError(f"features must have names of their own in the files; found {clash}: rename them")
    return known, total, _checked(head, arrays, option, names)


def _checked(
    head: Any, arrays: Iterator[Any], option: Certainty, names: list[str] | None
) -> Iterator[Floats]:
    first, array = 0, head
    while array is not None:
        found = feature_names_of(array)
        if found is not None and found != names:
            raise ValueError(f"rows from {first} on must have the columns {names}; found {found}")
        samples = check_samples(array, option.n_features, f"rows from {first} on", allow_empty=True)
        yield samples
        first, array = first + len(samples), next(arrays, None)


def _regrouped(pieces: Iterable[Floats], size: int) -> Iterator[Floats]:
    """Cut arrays of any lengths into parts of `size` rows, of which the last may have fewer.

    >>> [len(part) for part in _regrouped([np.ones((3, 1)), np.ones((4, 1))], 2)]
    [2, 2, 2, 1]
    """
    waiting: list[Floats] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(map(len, waiting)) >= size:
            block = waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
            whole = len(block) - len(block) % size
            for i in range(0, whole, size):
                yield block[i : i + size]
            waiting = [block[whole:]]
    if sum(map(len, waiting)):
        yield np.concatenate(waiting)


def _columns(
    result: Explanations, rows: NDArray[np.intp], names: list[str], on_infeasible: str
) -> dict[str, Any]:
    """Return what goes into a file, by column."""
    reasons = {i: reason.removeprefix(f"sample {i}: ") for i, reason in result.reasons.items()}
    if reasons and on_infeasible == "raise":
        i = min(reasons)
        raise NoCounterfactualError(f"row {rows[i]}: {reasons[i]}")
    numbers = {
        "row": rows.astype(np.int64),
        "found": result.found,
        "label": result.labels.tolist(),
        "certainty_before": result.certainties_before,
        "certainty": result.certainties,
        "distance": result.distances,
        "lower_bound": result.lower_bounds,
        "gap": result.gaps,
        "path": result.paths,
        "reason": [reasons.get(i) for i in range(len(rows))],
    }
    return numbers | {name: result.counterfactuals[:, k] for k, name in enumerate(names)}
