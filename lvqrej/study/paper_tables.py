"""The paper's published tables beside ours: which published column is which measure of which method."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

#: The paper's own numbers, copied from its tables: mean and variance of each cell.
FILE = "paper_tables.csv"
OPTION_NAMES = {"relsim": "relative_similarity", "dist": "decision_distance", "proba": "probabilistic"}
#: What stands in for data that cannot be shipped; the tables name it.
STAND_INS = {"flip": "flip_synthetic", "t21": "t21_synthetic"}

#: (method, measure) of a column; a pair of methods for an overlap. "black box" is Algorithm 2 in the main
#: tables' probabilistic rows, and the columns of the overlap table mean other pairs than their titles say.
_COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    "sparsity": {
        "BbCfFeasibility": ("black_box", "valid"),
        "BbCf": ("black_box", "l0"),
        "TrainCf": ("nearest", "l0"),
        "ClosestCf": ("paper", "l0"),
    },
    "overlap": {
        "BbCfFeasibility": ("black_box", "valid"),
        "BbCf": ("nearest+paper", "overlap"),
        "TrainCf": ("nearest+black_box", "overlap"),
        "ClosestCf": ("paper+black_box", "overlap"),
    },
    "recall": {
        "BbCfFeasibility": ("black_box", "valid"),
        "BbCf": ("black_box", "recall"),
        "TrainCf": ("nearest", "recall"),
        "ClosestCf": ("paper", "recall"),
    },
    "proba_appendix": {
        "Bb_feasibility": ("black_box", "valid"),
        "Algo_proba1_feasibility": ("direct", "valid"),
        "Bb_sparsity": ("black_box", "l0"),
        "Algo_proba1_sparsity": ("direct", "l0"),
        "Algo_proba2_sparsity": ("paper", "l0"),
    },
}

Frame: TypeAlias = Any  # pandas has no types


def published_tables(folder: str | PathLike[str]) -> Frame:
    """Return the paper's tables in the names of this package, one row per cell.

    Parameters
    ----------
    folder : path
        Where paper_tables.csv is: book/results.

    Returns
    -------
    DataFrame
        table, option, data, column (the paper's title), experiment, method, measure, mean, variance; the
        method of an overlap is "first+second".
    """
    raw = pd.read_csv(Path(folder) / FILE)
    rows = []
    for cell in raw.itertuples(index=False):
        method, measure = _COLUMNS[cell.table][cell.column]
        if cell.reject_option == "proba" and cell.table != "proba_appendix":
            method = method.replace("black_box", "direct")
        rows.append(
            {
                "table": cell.table,
                "option": OPTION_NAMES[cell.reject_option],
                "data": cell.data_set,
                "column": cell.column,
                "experiment": "goodness" if cell.table == "recall" else "properties",
                "method": method,
                "measure": measure,
                "mean": cell.mean,
                "variance": cell.variance,
            }
        )
    return pd.DataFrame(rows)


def side_by_side(folder: str | PathLike[str], model: str = "GMLVQ") -> Frame:
    """Return every published cell beside ours and ours with the published deviations.

    Ours is the exact counterfactual where the paper has its own algorithm. Where a data set cannot be shipped
    our numbers are those of its synthetic stand-in, which the column `our_data` names. Empty: no such result.
    Validity is averaged over folds, as published, and its n is their number; all else over counterfactuals.

    Returns
    -------
    DataFrame
        The columns of `published_tables`, then our_data, and mean, variance, n and sd_repetitions of "ours_"
        and of "deviating_".
    """
    place = Path(folder)
    results = _long(pd.read_csv(place / "aggregates.csv"), pd.read_csv(place / "overlaps.csv"))
    results = results[results["model"] == model].set_index(
        ["variant", "data", "option", "experiment", "method", "measure"]
    )
    table = published_tables(place)
    known = set(results.index.get_level_values("data"))
    table["our_data"] = [name if name in known else STAND_INS.get(name, name) for name in table["data"]]
    for prefix, variant in (("ours", "ours"), ("deviating", "published")):
        methods = table["method"].str.replace("paper", "exact") if variant == "ours" else table["method"]
        keys = zip(
            [variant] * len(table), table["our_data"], table["option"], table["experiment"],
            methods.map(_in_order), table["measure"], strict=True,
        )  # fmt: skip
        index = pd.MultiIndex.from_tuples(list(keys), names=results.index.names)
        found = results.reindex(index)
        for column in ("mean", "variance", "n", "sd_repetitions"):
            table[f"{prefix}_{column}"] = found[column].to_numpy()
    return table


def agreement(table: Frame, units: Frame, model: str = "GMLVQ") -> Frame:
    """Return the table of `side_by_side` with a statement for every cell whether the means agree.

    Two means agree if they differ by at most two standard errors, 2 s, where s^2 = v (1 / n + 1 / m). v is
    the larger of the two variances, and 0.005 more as the paper rounds to two digits; n is the number of
    values behind our mean. The paper does not print m: it is 5 for validity, which is averaged over folds,
    and else taken to be as many samples as our own run found to explain in one repetition.

    Parameters
    ----------
    table : DataFrame
        From `side_by_side`.
    units : DataFrame
        units.csv of the same results.
    model : {"GLVQ", "GMLVQ"}

    Returns
    -------
    DataFrame
        With the columns "ours_tolerance", "ours_agrees", "deviating_tolerance" and "deviating_agrees" added:
        2 s; and "yes", "no", "stand-in" (our data are not the paper's) or "no result".

    Examples
    --------
    >>> cell = {"data": "wine", "our_data": "wine", "option": "probabilistic", "experiment": "goodness"}
    >>> paper = {"measure": "recall", "mean": 0.9, "variance": 0.02}
    >>> ours = {"ours_mean": 0.8, "ours_variance": 0.01, "ours_n": 10}
    >>> theirs = {"deviating_mean": 0.5, "deviating_variance": 0.01, "deviating_n": 10}
    >>> run = {"data": "wine", "model": "GMLVQ", "option": "probabilistic", "n_goodness": 10}
    >>> units = pd.DataFrame([run | {"repetition": 0, "variant": name} for name in ("ours", "published")])
    >>> found = agreement(pd.DataFrame([cell | paper | ours | theirs]), units)
    >>> found[["ours_agrees", "deviating_agrees"]].values.tolist()
    [['yes', 'no']]
    """
    result = table.copy()
    for prefix, variant in (("ours", "ours"), ("deviating", "published")):
        chosen = units[(units["variant"] == variant) & (units["model"] == model)]
        cells = chosen.groupby(["data", "option"])
        explained = {
            (data, option, experiment): max(1.0, part[f"n_{experiment}"].sum() / part["repetition"].nunique())
            for (data, option), part in cells
            for experiment in ("properties", "goodness")
            if f"n_{experiment}" in part
        }
        keys = zip(table["our_data"], table["option"], table["experiment"], strict=True)
        m = np.where(table["measure"] == "valid", 5.0, [explained.get(key, np.nan) for key in keys])
        v = np.maximum(table["variance"], table[f"{prefix}_variance"]) + 0.005
        tolerance = 2 * np.sqrt(v * (1 / table[f"{prefix}_n"] + 1 / m))
        difference = (table[f"{prefix}_mean"] - table["mean"]).abs()
        words = np.where(difference <= tolerance, "yes", "no").astype(object)
        words[table["our_data"] != table["data"]] = "stand-in"
        words[difference.isna()] = "no result"
        result[f"{prefix}_tolerance"], result[f"{prefix}_agrees"] = tolerance, words
    return result


def _long(aggregates: Frame, overlaps: Frame) -> Frame:
    """Return both tables as one, overlaps as a measure of a pair of methods, validity averaged over folds."""
    valid = aggregates["measure"] == "valid"
    for column in ("mean", "variance", "n"):
        aggregates[column] = aggregates[column].where(~valid, aggregates[f"{column}_folds"])
    pairs = overlaps.assign(
        experiment="properties",
        method=(overlaps["first"] + "+" + overlaps["second"]).map(_in_order),
        measure="overlap",
        sd_repetitions=float("nan"),
    )
    return pd.concat([aggregates, pairs])


def _in_order(method: str) -> str:
    """Return the name of a pair of methods the same whichever is named first."""
    return "+".join(sorted(method.split("+")))
