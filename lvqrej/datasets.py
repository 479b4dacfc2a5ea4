"""The data of the paper and of the book, by name; nothing is ever put in another's place."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from lvqrej._validation import check_choice
from lvqrej.running_example import RunningExample, running_example
from lvqrej.study.datafile import DataError, DataSet
from lvqrej.study.downloads import FOLDER_VARIABLE, PUBLISHED, checked, default_folder, download, how_to_get
from lvqrej.study.synthetic import flip_synthetic, t21_synthetic

__all__ = [
    "NAMES",
    "DataError",
    "DataSet",
    "RunningExample",
    "download",
    "flip_synthetic",
    "load",
    "running_example",
    "t21_synthetic",
]

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
