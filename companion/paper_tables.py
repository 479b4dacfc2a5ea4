"""The paper's published tables beside ours: which column is which measure, and how cells are shown."""

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

#: How the book's tables and figures call data, reject options and methods; the data's numbers of features.
DATA = {
    "wine": "Wine",
    "breast_cancer": "Breast Cancer",
    "flip": "Flip",
    "t21": "T21",
    "flip_synthetic": "Flip (synthetic)",
    "t21_synthetic": "T21 (synthetic)",
}
OPTION = {"relative_similarity": "RelSim", "decision_distance": "Dist", "probabilistic": "Proba"}
METHOD = {
    "exact": "exact (explain)",
    "paper": "paper's algorithm",
    "nearest": "nearest sample",
    "black_box": "black box",
    "direct": "Algorithm 2",
}
FEATURES = {
    "wine": 13, "breast_cancer": 30, "flip": 12, "t21": 18, "flip_synthetic": 12, "t21_synthetic": 18,
}  # fmt: skip
_TITLES = {
    "BbCfFeasibility": "valid",
    "Bb_feasibility": "Bb valid",
    "Bb_sparsity": "Bb",
    "Algo_proba1_feasibility": "Algo 2 valid",
    "Algo_proba1_sparsity": "Algo 2",
    "Algo_proba2_sparsity": "Algo 3",
}

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


def shown(table: Frame) -> Frame:
    r"""Return judged cells as text: paper, ours and with the deviations, each mean ± deviation.

    The table is that of `companion.rules.agreement`. "n" and "spread" (standard deviation of the means of
    repetitions) are those of ours; of the deviating run.

    Examples
    --------
    >>> cell = {"our_data": "wine", "column": "BbCf", "mean": 11.14, "variance": 1.41}
    >>> ours = {"mean": 10.25, "variance": 1.44, "n": 16, "sd_repetitions": 0.5, "agrees": "no"}
    >>> none = dict.fromkeys(ours, float("nan")) | {"agrees": "no result"}
    >>> for prefix, found in (("ours", ours), ("deviating", none)):
    ...     cell |= {f"{prefix}_{name}": value for name, value in found.items()}
    >>> shown(pd.DataFrame([cell])).T[0].tolist()
    ['Wine', 'BbCf', '11.14 ±\xa01.19', '10.25 ±\xa01.20', 'no', '–', 'no result', '16; –', '0.50; –']
    """

    def both(name: str, digits: int) -> list[str]:
        pairs = zip(table[f"ours_{name}"], table[f"deviating_{name}"], strict=True)
        return [f"{_number(a, digits)}; {_number(b, digits)}" for a, b in pairs]

    cells = {
        "data": table["our_data"].map(DATA),
        "column": table["column"].replace(_TITLES),
        "paper": _means(table["mean"], table["variance"]),
    }
    for who in ("ours", "deviating"):
        cells[who] = _means(table[f"{who}_mean"], table[f"{who}_variance"])
        cells[f"{who} agrees"] = table[f"{who}_agrees"]
    cells |= {"n": both("n", 0), "spread": both("sd_repetitions", 2)}
    return pd.DataFrame(cells).reset_index(drop=True)


def _means(means: Frame, variances: Frame) -> list[str]:
    """Return 'mean ± deviation', to be broken before the sign only."""
    return [
        "–" if np.isnan(mean) else f"{mean:.2f} ±\u00a0{variance**0.5:.2f}"
        for mean, variance in zip(means, variances, strict=True)
    ]


def _number(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:,.{digits}f}"


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
