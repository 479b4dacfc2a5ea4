"""Rejects by the million: explained part by part, each part one file, whole or not at all.

`explain` answers a batch that fits into memory; `explain_stream` reads rows from anywhere, explains those
that are rejected and leaves what it found on disk. Whatever ends it, run again it does only what is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from importlib.metadata import distributions
from importlib.util import find_spec
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lvqrej import validation
from lvqrej.certainty import Certainty, check_option
from lvqrej.classifier import RejectOptionClassifier
from lvqrej.columns import Columns, cells_of
from lvqrej.counterfactual import Query, explained
from lvqrej.explanation import Explanations, NoCounterfactualError
from lvqrej.storage import write_whole
from lvqrej.validation import Floats, describe, dimensions, feature_names_of

#: Says what the files are of. Readers of Parquet folders pass over a name that begins with an underscore.
MANIFEST = "_manifest.json"
#: The columns before the features.
COLUMNS = (
    "row", "found", "label", "certainty_before", "certainty", "distance", "lower_bound", "gap", "path",
    "reason",
)  # fmt: skip
_WRITERS: dict[str, Callable[..., Any]] = {
    "parquet": partial(pd.DataFrame.to_parquet, index=False, compression="zstd"),
    "csv": partial(pd.DataFrame.to_csv, index=False, lineterminator="\n"),
}
#: Distributions that may change a digit, or a byte of a file.
_LIBRARIES = ("lvqrej", "clarabel", "numpy", "pandas", "pyarrow", "scipy")
#: Attributes that tell how a certainty was made, not what it is: after storing and loading they are gone.
_HISTORY = {"estimator", "cv", "random_state", "held_out_", "uninformative_pairs_", "feature_names"}


def explain_stream(
    option: Any,
    theta: Any,
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
    option : Certainty or RejectOptionClassifier
        A classifier gives its own answers, with its weights, observed ranges and grid.
    theta : float
        None for a classifier, which has its threshold.
    rows : array of shape (n, d) or iterable of such arrays
        Arrays or data frames; `numpy.memmap` and `pandas.read_csv(..., chunksize=...)` are never in memory
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
    n_jobs, **requirements
        As in `explain`, which answers each part.
    progress : bool
        Whether to show a progress bar over the parts.

    Returns
    -------
    list of Path
        The files in the order of the rows, also those that were there already. Each has the columns `COLUMNS`
        and those of the counterfactual for the *rejected* rows; `row` counts all rows from 0.

    Examples
    --------
    >>> import tempfile
    >>> from lvqrej import PrototypeModel, RelativeSimilarity
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"], None, ["age", "bmi"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = explain_stream(option, 0.6, [[0.1, 0], [0.9, 0], [1.2, 0]], folder, format="csv")
    ...     pd.read_csv(files[0])[["row", "label", "distance", "age", "bmi"]].round(3)
       row label  distance    age  bmi
    0    1     a     0.233  0.667  0.0
    1    2     b     0.133  1.333  0.0
    """
    if isinstance(option, RejectOptionClassifier):
        check_is_fitted(option)
        if theta is not None:
            raise ValueError(f"theta must be None for a classifier; found {describe(theta)}")
        option, theta, requirements = option.option_, option.threshold_, option.asked(**requirements)
    check_option(option)
    size = int(validation.check_number(rows_per_part, "rows_per_part", low=1, integer=True))
    validation.check_choice(format, "format", tuple(_WRITERS))
    home, files = validation.check_path(folder, "folder"), []
    if format == "parquet" and find_spec("pyarrow") is None:
        raise ImportError('format="parquet" needs pyarrow: pip install "lvqrej[scale]", or take format="csv"')
    names, parts = _opened(rows, option, size)
    none = pd.DataFrame(np.empty((0, len(names))), columns=names)  # requirements may speak of names
    query = Query.of(option, theta, none, on_infeasible=on_infeasible, n_jobs=n_jobs, **requirements)
    manifest = {
        "option": f"{type(option).__name__} {joblib.hash(_state(option))}",
        "theta": query.theta,
        "requirements": joblib.hash(_state(query.required)),
        "columns": [*COLUMNS, *names],
        "format": format,
        "rows_per_part": size,
        "libraries": {d.name: d.version for d in distributions() if d.name in _LIBRARIES},
    }
    there = _settled(home, manifest)
    if progress:
        from tqdm.auto import tqdm

        parts = tqdm(parts, desc="explain", unit="part")
    for number, (part, given) in enumerate(parts):
        told = b"" if given is None else repr(given.tolist()).encode()
        digest = hashlib.sha256(part.tobytes() + told).hexdigest()[:12]
        file = home / f"part-{number:06d}-{digest}.{format}"
        if there.get(number, file) != file:
            break
        if there.pop(number, None) is None:
            rejected = np.flatnonzero(~option.accepts(part, query.theta))
            own = None if given is None else given[rejected]
            result = explained(query._replace(samples=part[rejected], given=own, index=None, skip=True))
            table = _table(result, number * size + rejected, query.skip)
            write_whole(file, partial(_WRITERS[format], table))
        files.append(file)
    if there:
        number, file = min(there.items())
        raise ValueError(f"folder must be empty or of the same rows; part {number} is of others: {file}")
    for draft in home.glob(".part-*"):  # of a run that was killed
        draft.unlink()
    return files


def _opened(rows: Any, option: Certainty, size: int) -> tuple[list[str], Iterator[tuple[Floats, Any]]]:
    """Return the features' names, and the rows in checked parts of `size`, the last one of fewer.

    A part is lifted, and comes with its cells where numbers do not say it all.
    """
    if dimensions(rows) == 2:
        table = rows.iloc if hasattr(rows, "iloc") else rows
        arrays: Iterator[Any] = (table[i : i + size] for i in range(0, len(rows), size))
    elif isinstance(rows, Iterable) and dimensions(rows) != 1:
        arrays = iter(rows)
    else:
        found = describe(rows)
        raise ValueError(f"rows must have shape (n, d), or be an iterable of such arrays; found {found}")
    head = list(islice(arrays, 1))
    names = (feature_names_of(head[0]) if head else None) or option.feature_names
    known = names or option.columns.names
    clash = sorted(set(known) & set(COLUMNS) | {name for name in known if known.count(name) > 1})
    if clash:
        raise ValueError(f"features must have names of their own in the files; found {clash}: rename them")
    return known, _parts(chain(head, arrays), option.columns, names, size)


def _parts(
    arrays: Iterable[Any], columns: Columns, names: list[str] | None, size: int
) -> Iterator[tuple[Floats, Any]]:
    first, held, waiting, cells = 0, 0, [], []
    for array in arrays:
        found = feature_names_of(array)
        if found is not None and found != names:
            raise ValueError(f"rows from {first} on must have the columns {names}; found {found}")
        waiting.append(columns.lifted(array, f"rows from {first} on"))
        cells.append(waiting[-1][:, :0] if columns.takes_numbers else cells_of(array))
        first, held = first + len(waiting[-1]), held + len(waiting[-1])
        while held >= size:
            block, told = (part[0] if len(part) == 1 else np.concatenate(part) for part in (waiting, cells))
            yield block[:size], None if columns.takes_numbers else told[:size]
            waiting, cells, held = [block[size:]], [told[size:]], held - size
    if held:
        yield np.concatenate(waiting), None if columns.takes_numbers else np.concatenate(cells)


def _table(result: Explanations, rows: NDArray[np.intp], skip: bool) -> Any:
    """Return what goes into a file."""
    missing = np.flatnonzero(~result.found).tolist()
    reasons = {i: result.reasons[i].removeprefix(f"sample {i}: ") for i in (missing if skip else missing[:1])}
    if reasons and not skip:
        raise NoCounterfactualError(f"row {rows[missing[0]]}: {reasons[missing[0]]}")
    columns = (
        rows, result.found, result.labels, result.certainties_before, result.certainties, result.distances,
        result.lower_bounds, result.gaps, result.paths, [reasons.get(i) for i in range(len(rows))],
    )  # fmt: skip
    table = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
    answers = result.required.columns.frame(result.counterfactuals, result.samples, result.given)
    table = pd.concat([table, answers], axis=1)
    # A part without rejects, and one of which all are answered, would not tell that this is text.
    text = ["path", "reason"] + ["label"] * (result.labels.dtype.kind in "OU")
    return table.astype({"row": np.int64} | dict.fromkeys(text, "string"))


def _settled(home: Path, manifest: dict[str, Any]) -> dict[int, Path]:
    """Begin in an empty folder, or go on in one of the same run; return the parts that are there."""
    there = {int(file.name[5:11]): file for file in home.glob("part-[0-9][0-9][0-9][0-9][0-9][0-9]-*")}
    file = home / MANIFEST
    if not there and not file.exists():
        home.mkdir(parents=True, exist_ok=True)
        content = json.dumps(manifest, indent=2) + "\n"
        write_whole(file, lambda draft: draft.write_text(content, encoding="utf-8"))
        return there
    try:
        found = dict(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, TypeError, ValueError):
        found = {}
    other = [name for name in manifest if found.get(name) != manifest[name]]
    if other:
        what = f"one with other {', '.join(other)}" if found else f"no {MANIFEST} that can be read"
        raise ValueError(f"folder must be empty or of the same run; found {what}: {home}")
    return there


def _state(value: Any) -> Any:
    """Return what an object is made of, without what it only remembers, as containers and arrays."""
    if isinstance(value, Mapping):
        return {key: _state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_state(item) for item in value]
    if callable(value) or not hasattr(value, "__dict__"):
        return value
    kept = {name: item for name, item in vars(value).items() if name[0] != "_" and name not in _HISTORY}
    cached = {name for name in kept if isinstance(getattr(type(value), name, None), cached_property)}
    return [type(value).__name__, {name: _state(kept[name]) for name in kept.keys() - cached}]
