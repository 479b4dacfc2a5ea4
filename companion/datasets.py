"""The data of the paper and of the book, by name; nothing is ever put in another's place.

Flip and T21 are not shipped: `download` fetches their published files when asked to, and only then.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from companion.datafile import DataError, DataSet, as_data_set, read_table
from companion.synthetic import flip_synthetic, t21_synthetic
from lvqrej.validation import check_choice

__all__ = ["NAMES", "DataError", "DataSet", "download", "flip_synthetic", "load", "t21_synthetic"]

FOLDER_VARIABLE = "LVQREJ_DATA"
ADDRESS_VARIABLE = "LVQREJ_DATA_URL"
REPOSITORY = "HammerLabML/LocalModelAgnosticExamplebasedExplanationsReject"
COMMIT = "a7efe32de9d6f4b6e64683982ab078cafc2912fb"
ADDRESS = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}/Implementation/data"
TIMEOUT = 30.0


@dataclass(frozen=True)
class Published:
    """What is known of a published file.

    Attributes
    ----------
    file : str
        Its name, in the repository and on disk.
    n_features : int
    class_counts : dict
        The rows of the smaller and the larger class, for each number of rows that is known.
    sha_start : str
        The first digits of its SHA-256, as far as they are known.
    note : str
        What a reader of its results has to know.
    """

    file: str
    n_features: int
    class_counts: dict[int, tuple[int, int] | None]
    sha_start: str
    note: str


PUBLISHED = {
    "flip": Published(
        "flip_notscaled.npz",
        12,
        {136: (21, 115), 118: None},
        "64d5c052",
        "Flip: prediction of fibrosis. The paper speaks of 118 patients and of missing values; the published "
        "file has 136 rows (21 and 115 of the two classes), its missing values already filled by the means "
        "of all rows, and no feature names.",
    ),
    "t21": Published(
        "t21_notscaled.npz",
        18,
        {},
        "",
        "T21: early diagnosis of trisomy 21 and other chromosomal abnormalities. The paper speaks of more "
        "than 50,000 rows with 0.8 % of abnormal ones; the published file has no feature names.",
    ),
}
BUNDLED: dict[str, tuple[Callable[..., Any], str]] = {
    "wine": (load_wine, "Wine: the cultivar from 13 chemical properties. UCI, from scikit-learn."),
    "breast_cancer": (
        load_breast_cancer,
        "Breast Cancer Wisconsin (Diagnostic): malignant or benign from 30 measures. UCI, from scikit-learn.",
    ),
    "iris": (load_iris, "Iris: the species from 4 measurements. Fisher 1936, from scikit-learn."),
    "digits": (load_digits, "Digits: the digit from 8 x 8 grey values. UCI, from scikit-learn."),
}
SYNTHETIC: dict[str, Callable[[], DataSet]] = {
    "flip_synthetic": flip_synthetic,
    "t21_synthetic": t21_synthetic,
}
NAMES = (*BUNDLED, *PUBLISHED, *SYNTHETIC)


def load(name: str, path: str | PathLike[str] | None = None, *, label: str | None = None) -> DataSet:
    """Return the data set of that name.

    Parameters
    ----------
    name : str
        "wine", "breast_cancer", "iris" or "digits" (from scikit-learn); "flip" or "t21" (from a file of
        yours or one that `download` fetched); "flip_synthetic" or "t21_synthetic" (drawn, and said to be).
    path : path, optional
        For "flip" and "t21": a file (.npz with X and y, or .csv with a header line) or a folder with
        ``<name>_notscaled.npz``, ``<name>.npz`` or ``<name>.csv``; by default what the environment variable
        ``LVQREJ_DATA`` names, otherwise the folder `download` writes to.
    label : str, optional
        The label's column in a CSV file; by default "label", "y" or "class", otherwise the last one.

    Raises
    ------
    DataError
        The file is missing, unreadable or not what it claims to be. Never is another data set returned.

    Examples
    --------
    >>> data = load("wine")
    >>> data.X.shape, data.counts, data.synthetic
    ((178, 13), {'class_0': 59, 'class_1': 71, 'class_2': 48}, False)
    >>> load("flip_synthetic").description.split()[0]
    'Synthetic'
    """
    check_choice(name, "name", NAMES)
    if name in PUBLISHED:
        return checked(name, _find(name, path), label)
    for argument, value in (("path", path), ("label", label)):
        if value is not None:
            raise DataError(
                f"{argument} is only for {' and '.join(PUBLISHED)}; {name} is not read from a file"
            )
    return SYNTHETIC[name]() if name in SYNTHETIC else _bundled(name)


def _bundled(name: str) -> DataSet:
    loader, description = BUNDLED[name]
    bunch = loader(as_frame=True)
    X = bunch.data.astype(np.float64)
    y = bunch.target.to_numpy().astype(np.int64)
    return DataSet(name, X, y, tuple(map(str, bunch.target_names)), False, description)


def _find(name: str, path: str | PathLike[str] | None) -> Path:
    """Return the file with the real data of `name`, or raise a DataError that says how to get it."""
    place = Path(path) if path is not None else default_folder()
    if place.is_file():
        return place
    candidates = [PUBLISHED[name].file, f"{name}.npz", f"{name}.csv"]
    for candidate in candidates:
        if (place / candidate).is_file():
            return place / candidate
    said = (
        "path" if path is not None else FOLDER_VARIABLE if os.environ.get(FOLDER_VARIABLE) else "the default"
    )
    looked = f"none of {', '.join(candidates)} in it" if place.is_dir() else "it does not exist"
    raise DataError(f"The {name} data is not at {place} ({said}): {looked}. {how_to_get(name)}")


def file_checksum(name: str, path: str | PathLike[str] | None = None) -> str:
    """Return the SHA-256 of the file that `load` reads for "flip" or "t21"."""
    check_choice(name, "name", tuple(PUBLISHED))
    return hashlib.sha256(_find(name, path).read_bytes()).hexdigest()


def default_folder() -> Path:
    """Return the folder `download` writes to and `load` looks in if nothing else is said."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lvqrej"


def how_to_get(name: str) -> str:
    """Say in a sentence how the file of `name` is got, and under which name its stand-in goes."""
    return (
        f"Get it by `python -c \"from companion.datasets import download; download('{name}')\"` "
        f"(needs a network), or fetch {ADDRESS}/{PUBLISHED[name].file} "
        f"by hand and name the file or its folder by load('{name}', path=...) or the environment variable "
        f"{FOLDER_VARIABLE}. "
        f"A synthetic stand-in exists under its own name: load('{name}_synthetic')."
    )


def checked(name: str, path: Path, label: str | None = None) -> DataSet:
    """Return the data set in a file that claims to be `name`, or raise a DataError saying what it is not."""
    published = PUBLISHED[name]
    X, labels = read_table(path, label)
    data = as_data_set(name, X, labels, f"{published.note} Read from {path.name}.")
    n, d = data.X.shape
    if d != published.n_features or len(data.class_names) != 2:
        raise DataError(
            f"{path} is not {name}: it must have {published.n_features} features and 2 classes; "
            f"found {d} features and {len(data.class_names)} classes"
        )
    if published.class_counts and n not in published.class_counts:
        raise DataError(f"{path} is not {name}: it must have {_or(published.class_counts)} rows; found {n}")
    counts = published.class_counts.get(n)
    if counts and tuple(sorted(data.counts.values())) != counts:
        raise DataError(f"{path} is not {name}: its classes must have {counts} rows; found {data.counts}")
    return data


def download(name: str, folder: str | PathLike[str] | None = None, *, address: str | None = None) -> Path:
    """Fetch the published file of "flip" or "t21" and return its path; only ever called by you.

    The file comes from a pinned commit, is checked (SHA-256 as far as it is known, arrays without pickles,
    shape, classes, finite values) in a temporary folder and only then put in its place: after an error
    nothing is left behind. A checked file that is there already is not fetched again; another file of the
    same name is never overwritten.

    Parameters
    ----------
    name : {"flip", "t21"}
    folder : path, optional
        Where to put it; by default the folder in the environment variable ``LVQREJ_DATA``, otherwise a
        folder in the user's cache. `load` finds it in both.
    address : str, optional
        The address of a folder with the file, instead of the published one; by default that in the
        environment variable ``LVQREJ_DATA_URL``, if any.

    Raises
    ------
    DataError
        Not reachable, refused, cut off, or not the published file; the message says what else to do.
    """
    published = PUBLISHED[check_choice(name, "name", tuple(PUBLISHED))]
    folder = Path(folder) if folder is not None else default_folder()
    target = folder / published.file
    if target.exists():
        _verify(name, target)
        return target
    url = f"{(address or os.environ.get(ADDRESS_VARIABLE) or ADDRESS).rstrip('/')}/{published.file}"
    import pooch  # loads a progress bar, which warns in notebooks

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as temporary:
            fetched = Path(temporary) / published.file
            # Read at once: a streamed answer that is refused would keep its connection open.
            pooch.HTTPDownloader(timeout=TIMEOUT, stream=False)(url, str(fetched), None)
            _verify(name, fetched)
            os.replace(fetched, target)
    except OSError as error:  # whatever the network or the disk refuses; requests' errors are OSErrors
        raise DataError(f"{url} could not be downloaded to {folder}: {error}. {how_to_get(name)}") from error
    return target


def _verify(name: str, path: Path) -> None:
    """Raise a DataError unless the file is the published one, as far as that is known."""
    digest = file_checksum(name, path)
    if not digest.startswith(PUBLISHED[name].sha_start):
        raise DataError(
            f"{path} is not the published file: its SHA-256 must begin with {PUBLISHED[name].sha_start}; "
            f"found {digest}. Nothing was kept or changed. {how_to_get(name)}"
        )
    values = checked(name, path).X.to_numpy()
    if not np.isfinite(values).all():
        raise DataError(f"{path} is not the published file: all its values must be finite; found NaN")


def _or(numbers: dict[int, tuple[int, int] | None]) -> str:
    return " or ".join(map(str, numbers))
