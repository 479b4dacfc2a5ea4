"""From the files of a run to tidy tables, and from tidy tables to the paper's."""

from __future__ import annotations

import io
import json
import zipfile
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from companion.datasets import PUBLISHED, file_checksum
from companion.deviations import FINDINGS, METHODS, OPTIONS, ablation, variant
from companion.evaluation import from_hex, overlap
from companion.runner import (
    Study,
    Unit,
    data_set,
    fingerprint,
    package_hash,
    result_file,
    versions,
    write_at_once,
)

KEYS = list(Unit._fields)
CELL = ["variant", "data", "model", "option"]
_ORDER = {
    "variant": ["ours", "published", *ablation()],
    "option": list(OPTIONS),
    "method": list(METHODS),
    "experiment": ["properties", "goodness"],
}
#: What is averaged over all attempts, and over the answers that were found.
OVER_ALL = ("found", "valid", "nearly_valid")
OVER_FOUND = ("l0", "l0_at_1e-3", "l1", "recall", "precision", "f1", "chance")
#: Of data about patients, a mean is over at least so many of them.
FEWEST_PATIENTS = 5

Frame: TypeAlias = Any  # pandas has no types


def merge(study: Study, folder: Path, target: str | PathLike[str], path: Any = None) -> list[Path]:
    """Write the tables of a finished run to the folder `target` and return the files.

    Their bytes depend on nothing but the results: rows are sorted and numbers have nine digits. Only
    timings.csv differs from run to run. Of data about patients (those read from a file) neither
    counterfactuals nor models are written, only counts of a fold and means over five patients or more.

    Raises
    ------
    ValueError
        If a unit has no result yet.
    """
    records = _records(study, folder, path)
    place = Path(target)
    units = _sorted(pd.DataFrame([r["unit"] | r["summary"] for r in records]), KEYS)
    few = units["data"].isin(PUBLISHED) & (units["n_test"] - units["n_rejected"] < FEWEST_PATIENTS)
    units["accuracy_accepted"] = units["accuracy_accepted"].where(~few)
    rows = [r["unit"] | row for r in records for row in r["rows"]]
    counterfactuals = _sorted(pd.DataFrame(rows), [*KEYS, "experiment", "method", "sample"])
    tables = {
        "units.csv": units,
        "selection.csv": selection(records),
        "aggregates.csv": aggregates(counterfactuals, units),
        "overlaps.csv": overlaps(counterfactuals, study, path),
        "timings.csv": timings(records),
    }
    public = [name for name in study.data if name not in PUBLISHED]
    for data in public:
        part = counterfactuals[counterfactuals["data"] == data]
        tables[f"counterfactuals_{data}.csv"] = part.drop(columns="data")
    for name, table in tables.items():
        write_at_once(place / name, table.to_csv(index=False, float_format="%.9g", lineterminator="\n"))
    for data in public:
        _write_models(place / f"models_{data}.npz", [r for r in records if r["unit"]["data"] == data])
    write_at_once(place / "provenance.json", json.dumps(provenance(study, path), indent=1) + "\n")
    names = [*tables, *(f"models_{data}.npz" for data in public), "provenance.json"]
    return [place / name for name in names]


def provenance(study: Study, path: Any = None) -> dict[str, Any]:
    """Return where the numbers come from: code, data, seeds, caps, versions."""
    data = {name: data_set(name, path) for name in study.data}
    settings = {name: getattr(study, name) for name in study.__dataclass_fields__}
    return {
        "package_sha256": package_hash(),
        "fingerprint": fingerprint(study),
        "data_sha256": {name: each.sha for name, each in data.items()},
        "file_sha256": {name: file_checksum(name, path) for name in data if name in PUBLISHED},
        "data": {name: str(each) for name, each in data.items()},
        "seeds": "outer folds: the repetition; else: companion.protocol.seed_of(repetition, fold, use)",
        "study": json.loads(json.dumps(settings, default=vars)),
        "deviations": {name: finding.what for name, finding in FINDINGS.items()},
        "versions": versions(),
    }


def aggregates(counterfactuals: Frame, units: Frame) -> Frame:
    """Return mean, variance and number of each measure, over counterfactuals and over folds.

    Variances are those of a population, as in the paper's tables; `sd_repetitions` is the standard deviation
    of a sample of the means of the repetitions. A fold without samples has no mean, or validity 0 where the
    variant counts it so.

    Returns
    -------
    DataFrame
        One row per variant, data, model, option, experiment, method and measure. "l0_valid" and "l1_valid"
        are l0 and l1 of the valid answers.
    """
    extended = counterfactuals.assign(
        **{f"{m}_valid": counterfactuals[m].where(counterfactuals["valid"] == 1) for m in ("l0", "l1")}
    )
    n_folds = units.groupby(CELL, sort=False).size()
    rows = []
    groups = extended.groupby([*CELL, "experiment", "method"], sort=False, observed=True)
    for key, group in groups:
        cell = dict(zip([*CELL, "experiment", "method"], key, strict=True))
        zero = variant(cell["variant"]).deviations.empty_folds_as_zero
        for measure in (*OVER_ALL, *OVER_FOUND, "l0_valid", "l1_valid"):
            values = pd.to_numeric(group[measure]) if measure in group else pd.Series(dtype=float)
            values = values.dropna()
            if len(values) == 0 or _too_few(cell["data"], group.loc[values.index].get("sample")):
                continue
            folds = values.groupby([group["repetition"], group["fold"]]).mean()
            empty = int(n_folds[key[: len(CELL)]]) - len(folds)
            if zero and measure in OVER_ALL:
                folds = pd.concat([folds, pd.Series(np.zeros(empty))], ignore_index=True)
            repetitions = values.groupby(group["repetition"]).mean()
            rows.append(
                cell
                | {
                    "measure": measure,
                    "mean": values.mean(),
                    "variance": values.var(ddof=0),
                    "n": len(values),
                    "mean_folds": folds.mean(),
                    "variance_folds": folds.var(ddof=0),
                    "n_folds": len(folds),
                    "n_empty_folds": empty,
                    "sd_repetitions": repetitions.std(ddof=1),
                    "n_repetitions": len(repetitions),
                }
            )
    return _sorted(pd.DataFrame(rows), [*CELL, "experiment", "method"])


def overlaps(counterfactuals: Frame, study: Study, path: Any = None) -> Frame:
    """Return how many changed features two methods share, for all pairs, over the samples both explain.

    `jaccard` is the mean share of the shared features among those that either changes (1 if none).
    """
    chosen = counterfactuals[
        (counterfactuals["experiment"] == "properties") & (counterfactuals["found"] == 1)
    ]
    rows = []
    for key, group in chosen.groupby(CELL, sort=False, observed=True):
        n_features = data_set(str(key[1]), path).X.shape[1]
        table = group.pivot(index=["repetition", "fold", "sample"], columns="method", values="changed")
        for first, second in combinations([m for m in METHODS if m in table], 2):
            both = table[[first, second]].dropna()
            if both.empty or _too_few(str(key[1]), both.index.get_level_values("sample")):
                continue
            a, b = (from_hex(both[m].tolist(), n_features) for m in (first, second))
            shared, either = overlap(a, b), (a | b).sum(axis=1)
            rows.append(
                dict(zip(CELL, key, strict=True))
                | {
                    "first": first,
                    "second": second,
                    "mean": shared.mean(),
                    "variance": shared.var(),
                    "n": len(both),
                    "jaccard": np.where(either > 0, shared / np.maximum(either, 1), 1.0).mean(),
                }
            )
    return _sorted(pd.DataFrame(rows), CELL)


def _too_few(data: str, samples: Any) -> bool:
    """Whether a mean over these samples would be about single patients."""
    return data in PUBLISHED and len(set(samples)) < FEWEST_PATIENTS


def selection(records: list[dict[str, Any]]) -> Frame:
    """Return the grid search of each fold: accuracy and AU-ARC per number of prototypes, and the best."""
    rows = []
    for record in records:
        unit = record["unit"]
        if (unit["variant"], unit["option"]) != ("ours", "relative_similarity"):
            continue
        grid = pd.DataFrame(record["grid"]).round(12)
        for area in ("area_relative_similarity", "area_decision_distance"):
            grid[f"weighted{area[4:]}"] = (grid["accuracy"] + grid[area]) / 2
        best = {
            f"best_by_{name}": (grid.index == grid[name].idxmax()).astype(int)
            for name in grid.columns
            if name != "prototypes_per_class"
        }
        head = {name: unit[name] for name in ("data", "model", "repetition", "fold")}
        rows.append(grid.assign(**head, **best)[[*head, *grid.columns, *best]])
    if not rows:
        return pd.DataFrame(columns=["data", "model", "repetition", "fold"])
    return _sorted(pd.concat(rows), ["data", "model", "repetition", "fold", "prototypes_per_class"])


def timings(records: list[dict[str, Any]]) -> Frame:
    """Return seconds of the processor per method, and the largest memory of a process in megabytes."""
    rows = [r["unit"] | t | {"megabytes": r["megabytes"]} for r in records for t in r["timings"]]
    groups = pd.DataFrame(rows).groupby([*CELL, "method"], sort=False)
    table = groups.agg(
        n=("n", "sum"), seconds=("seconds", "sum"), megabytes=("megabytes", "max")
    ).reset_index()
    table["seconds_each"] = table["seconds"] / table["n"].clip(lower=1)
    return _sorted(table, [*CELL, "method"])


def load_models(file: str | PathLike[str], unit: Unit) -> dict[str, Any]:
    """Return the arrays of a unit from a models_<data>.npz, as `experiments.option_of` takes them."""
    prefix = _prefix(unit._asdict())
    with np.load(file) as arrays:
        found = {name[len(prefix) :]: arrays[name] for name in arrays.files if name.startswith(prefix)}
    if not found:
        raise ValueError(f"{file} has no arrays of {unit}")
    return found


def _write_models(file: Path, records: list[dict[str, Any]]) -> None:
    """Write all arrays to one .npz whose bytes depend on nothing but the arrays."""
    arrays = {
        _prefix(record["unit"]) + name: np.asarray(values)
        for record in records
        for name, values in record["arrays"].items()
    }
    draft = file.with_name(f".{file.name}")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.save(buffer, arrays[name], allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED)
    draft.replace(file)


def _prefix(unit: dict[str, Any]) -> str:
    return "/".join(str(unit[name]) for name in KEYS[1:]) + "/"


def _records(study: Study, folder: Path, path: Any) -> list[dict[str, Any]]:
    units = [unit for group in study.groups() for unit in group]
    files = [result_file(folder, unit, data_set(unit.data, path)) for unit in units]
    missing = [unit for unit, file in zip(units, files, strict=True) if not file.is_file()]
    if missing:
        raise ValueError(
            f"the run must be finished; found {len(missing)} units without a result, as {missing[0]}"
        )
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _sorted(frame: Frame, by: list[str]) -> Frame:
    """Return the rows sorted by the columns, names in the order the package lists them."""
    if frame.empty:
        return frame

    def rank(column: Any) -> Any:
        order = _ORDER.get(column.name)
        return column if order is None else column.map({name: k for k, name in enumerate(order)})

    return frame.sort_values(by, key=rank, kind="stable", ignore_index=True)
