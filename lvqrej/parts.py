"""A folder of result files that a rerun completes: each file whole or not there, all of the same run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

#: Says what the files are of. Readers of Parquet folders pass over a name that begins with an underscore.
MANIFEST = "_manifest.json"
#: Distributions that may change a digit, or a byte of a file.
_LIBRARIES = ("clarabel", "numba", "numpy", "pandas", "pyarrow", "scipy")
#: Attributes that tell how a certainty was made, not what it is: after storing and loading they are gone.
_HISTORY = frozenset(
    {"estimator", "cv", "random_state", "held_out_", "uninformative_pairs_", "feature_names"}
)
#: The pattern of the parts' names.
_NAMES = "part-[0-9][0-9][0-9][0-9][0-9][0-9]-*"
Columns = dict[str, Any]


class Parts:
    r"""Files ``part-<number>-<checksum>.<format>`` in a folder, beside a manifest of what they are of.

    Parameters
    ----------
    folder : Path
        Made if missing; a ValueError if it holds anything else than what `manifest` says.
    format : {"parquet", "csv"}
    manifest : dict
        Everything that decides the results, as JSON knows it.
    classes : list
        Labels, of which the type of the column "label" is taken.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = Parts(Path(folder), "csv", {"theta": 0.5}, ["a", "b"])
    ...     file = parts.file(0, "c0ffee")
    ...     parts.write(file, {"row": [3], "label": ["a"]})
    ...     file.name, file.read_text(), Parts(Path(folder), "csv", {"theta": 0.5}, ["a", "b"]).has(file)
    ('part-000000-c0ffee.csv', 'row,label\n3,a\n', True)
    """

    def __init__(self, folder: Path, format: str, manifest: dict[str, Any], classes: list[Any]) -> None:
        self.folder, self.format = folder, format
        self._write = _csv() if format == "csv" else _parquet(classes)
        self._settle(manifest | libraries())
        self._there = {int(file.name[5:11]): file for file in sorted(folder.glob(_NAMES))}

    def file(self, number: int, checksum: str) -> Path:
        """Return the file of a part; raise a ValueError if there is one of its number from other rows."""
        file = self.folder / f"part-{number:06d}-{checksum}.{self.format}"
        self._refuse(number, file)
        return file

    def has(self, file: Path) -> bool:
        """Return whether the part was done before."""
        return self._there.get(int(file.name[5:11])) == file

    def write(self, file: Path, columns: Columns) -> None:
        """Write a part: at any time the whole of it is on disk, or nothing."""
        _write_whole(file, lambda draft: self._write(columns, draft))

    def close(self, number: int) -> None:
        """End a run of `number` parts; raise a ValueError if there are more than these."""
        self._refuse(number)
        for draft in self.folder.glob(".part-*"):  # of a run that was ended
            draft.unlink()

    def _refuse(self, number: int, file: Path | None = None) -> None:
        there = self._there.get(number)
        if there is not None and there != file:
            raise ValueError(
                f"folder must be empty or of the same rows; part {number} in it is of others: {there}"
            )

    def _settle(self, manifest: dict[str, Any]) -> None:
        """Begin in an empty folder, or go on in one of the same run."""
        file = self.folder / MANIFEST
        if file.is_file():
            try:
                there = json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"folder has a manifest that cannot be read: {file}") from error
            other = [name for name in manifest if there.get(name) != manifest[name]]
            if other:
                found = f"one with other {', '.join(other)}"
                raise ValueError(f"folder must be empty or of the same run; found {found}: {self.folder}")
            return
        if any(self.folder.glob(_NAMES)):
            raise ValueError(f"folder must be empty or of the same run; found no {MANIFEST}: {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        content = (json.dumps(manifest, indent=2) + "\n").encode()
        _write_whole(file, lambda draft: _put(draft, content))


def state(value: Any) -> Any:
    """Return what an object is made of, without what it only remembers, as containers and arrays.

    >>> from lvqrej.prototypes import PrototypeModel
    >>> sorted(state(PrototypeModel([[0], [2]], ["a", "b"]))[1])
    ['L', 'class_index', 'classes', 'labels', 'prototypes']
    """
    if isinstance(value, Mapping):
        return {key: state(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [state(item) for item in value]
    if isinstance(value, np.ndarray) or callable(value) or not hasattr(value, "__dict__"):
        return value
    kept = {
        name: state(item)
        for name, item in vars(value).items()
        if not (name.startswith("_") or name in _HISTORY)
        and not isinstance(getattr(type(value), name, None), cached_property)
    }
    return [type(value).__name__, kept]


def libraries() -> dict[str, Any]:
    """Return the versions of the package, to the byte, and of what it computes and writes with."""
    return {
        "lvqrej": f"{version('lvqrej')} {_sources()}",
        "libraries": {name: _version(name) for name in _LIBRARIES},
    }


@lru_cache(maxsize=1)
def _sources() -> str:
    """Return a checksum of the package, taken once per process: an edit does not reach a running one."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _csv() -> Callable[[Columns, Path], None]:
    import pandas as pd

    return lambda columns, file: pd.DataFrame(columns).to_csv(file, index=False, lineterminator="\n")


def _parquet(classes: list[Any]) -> Callable[[Columns, Path], None]:
    """Return the function that writes Parquet; types are given, as a part may have no rows to tell them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(
            'format="parquet" needs pyarrow: pip install "lvqrej[scale]", or take format="csv"'
        ) from error
    kinds = {"label": pa.array(classes).type, "path": pa.string(), "reason": pa.string()}

    def write(columns: Columns, file: Path) -> None:
        arrays = {name: pa.array(values, kinds.get(name)) for name, values in columns.items()}
        pq.write_table(pa.table(arrays), file, compression="zstd")

    return write


def _put(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def _write_whole(file: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a draft, wait until it is on disk, and put it in its place."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    write(draft)
    with draft.open("rb+") as stream:
        os.fsync(stream.fileno())
    draft.replace(file)
