"""The published files of Flip and T21: what is known of them, and how they are fetched when asked for."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from lvqrej._validation import check_choice
from lvqrej.study.datafile import DataError, DataSet, as_data_set, read_table

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


def default_folder() -> Path:
    """Return the folder `download` writes to and `load` looks in if nothing else is said."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lvqrej"


def how_to_get(name: str) -> str:
    """Say in a sentence how the file of `name` is got, and under which name its stand-in goes."""
    return (
        f"Get it by `python -c \"from lvqrej.datasets import download; download('{name}')\"` "
        f"(needs `pip install 'lvqrej[paper]'` and a network), or fetch {ADDRESS}/{PUBLISHED[name].file} "
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
    ImportError
        pooch is not installed.
    """
    published = PUBLISHED[check_choice(name, "name", tuple(PUBLISHED))]
    folder = Path(folder) if folder is not None else default_folder()
    target = folder / published.file
    if target.exists():
        _verify(name, target)
        return target
    try:
        import pooch
    except ImportError as error:
        raise ImportError("download needs pooch; install it with `pip install 'lvqrej[paper]'`") from error
    url = f"{(address or os.environ.get(ADDRESS_VARIABLE) or ADDRESS).rstrip('/')}/{published.file}"
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
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
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
