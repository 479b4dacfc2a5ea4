"""The paper's published tables beside ours: which column is which measure; the rules by which we judge."""

from __future__ import annotations

from collections.abc import Iterable
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
_UNJUDGED = ("stand-in", "no result")
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


def shown(table: Frame) -> Frame:
    r"""Return the cells of `agreement` as text: paper, ours and with the deviations, each mean ± deviation.

    "n" and "spread" (standard deviation of the means of repetitions) are those of ours; of the deviating run.

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


def count(holds: Iterable[Any]) -> str:
    """Return in how many cells something holds, 'k of n'; of words of `agreement`, only "yes" and "no" count.

    Examples
    --------
    >>> count([True, False, True]), count(["yes", "no", "stand-in"])
    ('2 of 3', '1 of 2')
    """
    cells = _judged(holds)
    return f"{sum(cells)} of {len(cells)}"


def verdict(holds: Iterable[Any]) -> str:
    """Return what holds in every cell as 'confirmed', in half of them as 'qualified', else 'not confirmed'.

    Examples
    --------
    >>> verdict([True, True]), verdict([True, False]), verdict([True, False, False]), verdict([])
    ('confirmed', 'qualified', 'not confirmed', 'no result')
    """
    return _by_share(holds, 1.0, ("confirmed", "qualified", "not confirmed"))


def replicated(words: Iterable[Any]) -> str:
    """Return 'replicated' if four of five cells agree, 'partly replicated' if half do, else 'not replicated'.

    Examples
    --------
    >>> replicated(["yes"] * 4 + ["no"]), replicated(["yes", "no"]), replicated(["no", "stand-in"])
    ('replicated', 'partly replicated', 'not replicated')
    """
    return _by_share(words, 0.8, ("replicated", "partly replicated", "not replicated"))


def times(n: int) -> str:
    """Return 'once', 'twice', '3 times', ..."""
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def precision_above_chance(aggregates: Frame) -> Frame:
    """Return precision, chance and the standard error over folds of every method of our protocol.

    Returns
    -------
    DataFrame
        data, model, option, method, precision, chance, standard_error, and `clear`: whether precision exceeds
        chance by more than 0.1 and by more than two standard errors.
    """
    keys = ["data", "model", "option", "method"]
    part = aggregates[(aggregates["variant"] == "ours") & (aggregates["experiment"] == "goodness")]
    found = part[part["measure"] == "precision"].set_index(keys)
    chance = part[part["measure"] == "chance"].set_index(keys)["mean"]
    error = np.sqrt(found["variance_folds"] / (found["n_folds"] - 1))
    above = found["mean"] - chance.reindex(found.index)
    table = pd.DataFrame(
        {
            "precision": found["mean"],
            "chance": found["mean"] - above,
            "standard_error": error,
            "clear": (above > 0.1) & (above > 2 * error),
        }
    )
    return table.reset_index()


def _judged(holds: Iterable[Any]) -> list[bool]:
    return [cell == "yes" if isinstance(cell, str) else bool(cell) for cell in holds if cell not in _UNJUDGED]


def _by_share(holds: Iterable[Any], high: float, words: tuple[str, str, str]) -> str:
    cells = _judged(holds)
    if not cells:
        return "no result"
    share = sum(cells) / len(cells)
    return words[0] if share >= high else words[1] if share >= 0.5 else words[2]


def _means(means: Frame, variances: Frame) -> list[str]:
    """Return 'mean ± deviation', to be broken before the sign only."""
    return [
        "–" if np.isnan(mean) else f"{mean:.2f} ±\u00a0{variance**0.5:.2f}"
        for mean, variance in zip(means, variances, strict=True)
    ]


def _number(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


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
