"""Resumable runs: each unit of work leaves one file, whole or not at all, and is never done twice."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import lvqrej
from companion.datafile import DataSet
from companion.datasets import NAMES, load
from companion.deviations import ablation, variant
from companion.experiments import Caps, run_unit
from companion.protocol import FOLDS, GRID, MODELS, FoldFits
from lvqrej.validation import check_choice, check_number

#: Distributions whose versions may change a number.
LIBRARIES = (
    "clarabel", "cvxpy", "imbalanced-learn", "kneed", "numpy", "pandas", "scikit-learn", "scipy",
    "scs", "sklearn-lvq",
)  # fmt: skip


class Unit(NamedTuple):
    """One piece of work: one reject option in one fold under one variant."""

    data: str
    variant: str
    model: str
    option: str
    repetition: int
    fold: int

    @property
    def file(self) -> str:
        """The name of the file with its results."""
        return ".".join(map(str, self[1:])).replace(":", "-") + ".json"


@dataclass(frozen=True)
class Study:
    """What is run.

    Attributes
    ----------
    data : tuple of str
        Names that `companion.datasets.load` knows.
    repetitions, published_repetitions, ablation_repetitions : int
        Repetitions of the five folds: without deviations, with all of them, and with single ones.
    ablation_data : tuple of str
        The data on which single deviations are run, with GMLVQ.
    models : tuple of str
    caps, other_caps : Caps
        Explained samples per fold, without deviations and with.
    large, large_cap : int
        Of data sets with more than `large` rows the fast methods too explain at most `large_cap` samples.
    sizes : tuple of int
        Numbers of prototypes per class that the grid search compares.
    """

    data: tuple[str, ...] = ("wine", "breast_cancer", "flip", "t21_synthetic")
    repetitions: int = 10
    published_repetitions: int = 3
    ablation_repetitions: int = 1
    ablation_data: tuple[str, ...] = ("wine", "breast_cancer")
    models: tuple[str, ...] = ("GLVQ", "GMLVQ")
    caps: Caps = field(default_factory=lambda: Caps(paper=3, black_box=2, direct=2))
    other_caps: Caps = field(default_factory=lambda: Caps(10, 5, 10, 2, 1))
    large: int = 5000
    large_cap: int = 10
    sizes: tuple[int, ...] = GRID

    def __post_init__(self) -> None:
        for name in (*self.data, *self.ablation_data):
            check_choice(name, "data", NAMES)
        for name in self.models:
            check_choice(name, "models", tuple(MODELS))
        for name in ("repetitions", "published_repetitions", "ablation_repetitions"):
            check_number(getattr(self, name), name, low=0, integer=True)

    def caps_for(self, variant_name: str, n_rows: int) -> Caps:
        """Return how many samples each method explains in a fold of a data set with `n_rows` rows."""
        caps = self.caps if variant_name == "ours" else self.other_caps
        if n_rows <= self.large:
            return caps
        return Caps(**{method: min(cap, self.large_cap) for method, cap in asdict(caps).items()})

    def groups(self) -> list[list[Unit]]:
        """Return all units, those that share fitted models together, the longest groups first.

        >>> groups = Study(("wine",), 1, 1, 0, models=("GLVQ",)).groups()
        >>> len(groups), len(groups[0]), groups[0][0].option
        (5, 6, 'relative_similarity')
        """
        groups = [
            list(self._group(data, model, repetition, fold))
            for repetition in range(max(self.repetitions, self.published_repetitions))
            for data in self.data
            for model in self.models
            for fold in range(FOLDS)
        ]
        return sorted(groups, key=len, reverse=True)

    def _group(self, data: str, model: str, repetition: int, fold: int) -> Iterator[Unit]:
        names = ["ours"] if repetition < self.repetitions else []
        names += ["published"] if repetition < self.published_repetitions else []
        if data in self.ablation_data and model == "GMLVQ" and repetition < self.ablation_repetitions:
            names += ablation()
        for name in names:
            for option in variant(name).options:
                yield Unit(data, name, model, option, repetition, fold)


def run(
    study: Study, work: str | PathLike[str], *, jobs: int = 1, progress: bool = False, path: Any = None
) -> Path:
    """Run every unit of the study that has no result yet and return the folder with all results.

    Parameters
    ----------
    study : Study
    work : path
        Results go to a folder in it that is named after the package's code, the libraries, caps and grid:
        what was computed by other code is never taken for current.
    jobs : int
        Number of processes. The results do not depend on it.
    progress : bool
        Whether to show a progress bar.
    path : path, optional
        Where the real Flip and T21 data are, as in `companion.datasets.load`.

    Examples
    --------
    >>> import tempfile
    >>> study = Study(("iris",), 0, 0, 0)
    >>> with tempfile.TemporaryDirectory() as work:
    ...     len(list(run(study, work).iterdir()))
    0
    """
    jobs = int(check_number(jobs, "jobs", low=1, integer=True))
    folder = Path(work) / fingerprint(study)[:16]
    folder.mkdir(parents=True, exist_ok=True)
    groups = [todo for group in study.groups() if (todo := _todo(folder, group, path))]
    if not groups:
        return folder
    bar: Any = None
    if progress:
        from tqdm.auto import tqdm

        bar = tqdm(total=sum(map(len, groups)), desc="reproduce", unit="unit", smoothing=0.05)
    for done in _finished(study, folder, groups, jobs, path):
        if bar is not None:
            bar.update(done)
    if bar is not None:
        bar.close()
    return folder


def result_file(folder: Path, unit: Unit, data: DataSet) -> Path:
    """Return where the results of a unit are: the folder has the data's checksum in its name."""
    return folder / f"{unit.data}-{data.sha[:12]}" / unit.file


def write_at_once(file: Path, text: str) -> None:
    """Write the text to the file such that at any time there is the whole file or none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_at_once(Path(folder) / "a", "text")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a']
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with draft.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(file)


def fingerprint(study: Study | None = None) -> str:
    """Return a checksum of all that decides the results: code, libraries, caps and grid, not the data."""
    digest = hashlib.sha256(package_hash().encode())
    digest.update(json.dumps(versions(), sort_keys=True).encode())
    if study is not None:
        caps = (asdict(study.caps), asdict(study.other_caps), study.large, study.large_cap, study.sizes)
        digest.update(json.dumps(caps, sort_keys=True).encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def package_hash() -> str:
    """Return a checksum of the sources that a unit runs through: experiments.py and all that it imports.

    Taken once per process, when it is first asked for: an edit during a run does not change the name of
    what the run computes.
    """
    digest = hashlib.sha256()
    for file in _sources(Path(__file__).with_name("experiments.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    return {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}


def _sources(start: Path) -> list[Path]:
    """Return the files of companion and lvqrej that `start` imports, directly or not, in order."""
    folders = {"companion": Path(__file__).parent, "lvqrej": Path(lvqrej.__file__).parent}
    found: set[Path] = set()
    stack = [start]
    while stack:
        file = stack.pop()
        if file in found or not file.is_file():
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            package, *parts = (getattr(node, "module", None) or "").split(".")
            if not isinstance(node, ast.ImportFrom) or package not in folders:
                continue
            place = folders[package].joinpath(*parts)
            stack += [place.with_suffix(".py"), place / "__init__.py"] if parts else []
            for name in (alias.name for alias in node.names):
                stack.append(place / f"{name}.py")
                if not parts and name in lvqrej.__all__:  # it lives in one of the modules
                    stack.append(Path(sys.modules[getattr(lvqrej, name).__module__].__file__ or ""))
    return sorted(found)


def _todo(folder: Path, group: list[Unit], path: Any) -> list[Unit]:
    if not group:
        return []
    data = data_set(group[0].data, path)
    return [unit for unit in group if not result_file(folder, unit, data).is_file()]


def _finished(study: Study, folder: Path, groups: list[list[Unit]], jobs: int, path: Any) -> Iterator[int]:
    """Run the groups, in this process or in several, and yield the number of units of each one done."""
    if jobs == 1:
        with threadpool_limits(1):
            for group in groups:
                yield run_group(study, folder, group, path)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_start_worker)
    with pool:
        futures = [pool.submit(run_group, study, folder, group, path) for group in groups]
        for future in as_completed(futures):
            yield future.result()


def run_group(study: Study, folder: Path, group: list[Unit], path: Any = None) -> int:
    """Run units of one data set, model, repetition and fold, each leaving its file; return their number."""
    data = data_set(group[0].data, path)
    fits: dict[tuple[bool, bool], FoldFits] = {}
    for unit in group:
        deviations = variant(unit.variant).deviations
        key = (deviations.unshuffled_folds, deviations.scaled_before_split)
        if key not in fits:
            fits[key] = FoldFits(data, unit.model, unit.repetition, unit.fold, *key, study.sizes)
        start = time.perf_counter()
        result = run_unit(fits[key], unit.option, unit.variant, study.caps_for(unit.variant, len(data.X)))
        record = {
            "unit": unit._asdict(),
            "summary": result.summary,
            "grid": result.grid,
            "rows": result.rows,
            "arrays": result.arrays if unit.variant in ("ours", "published") else {},
            "timings": result.timings,
            "seconds": time.perf_counter() - start,
            "megabytes": peak_megabytes(),
        }
        write_at_once(result_file(folder, unit, data), json.dumps(record, default=_plain))
    return len(group)


def peak_megabytes() -> float:
    """Return the largest memory this process has had, 0 on Windows, which does not tell."""
    if sys.platform == "win32":
        return 0.0
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _plain(value: Any) -> Any:
    """Return NumPy's numbers and arrays as what JSON knows."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"cannot store {type(value).__name__}")


@lru_cache(maxsize=8)
def data_set(name: str, path: Any = None) -> DataSet:
    """Return the data set of that name, loaded once per process."""
    return load(name, path) if name in ("flip", "t21") else load(name)


def _start_worker() -> None:
    """Use one thread per process, and end when the process that started this one is gone."""
    threadpool_limits(1)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)
