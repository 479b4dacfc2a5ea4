"""The rules by which the book judges cells of the paper's tables and its conclusions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

_UNJUDGED = ("stand-in", "no result")

Frame: TypeAlias = Any  # pandas has no types


def agreement(table: Frame, units: Frame, model: str = "GMLVQ") -> Frame:
    """Return the table of `side_by_side` with a statement for every cell whether the means agree.

    Two means agree if they differ by at most two standard errors, 2 s, where s^2 = v (1 / n + 1 / m). v is
    the larger of the two variances, and 0.005 more as the paper rounds to two digits; n is the number of
    values behind our mean. The paper does not print m: it is 5 for validity, which is averaged over folds,
    and else taken to be as many samples as our own run found to explain in one repetition.

    Parameters
    ----------
    table : DataFrame
        From `companion.paper_tables.side_by_side`.
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


#: Why an entry of the paper's tables is not ours, in the order in which it is asked.
REASONS = {
    "agrees": "ours agrees with the published mean",
    "code": "it agrees once the deviations of the published code are on",
    "code, in part": "the deviations halve the difference or more",
    "sparser": "ours is the exact counterfactual, which changes, shares and names fewer features",
    "no rejects": "with the deviations nothing, or too little, is rejected",
    "open": "none of these",
}


def reasons(table: Frame) -> Any:
    """Return the first of `REASONS` that holds for an entry; of one without a statement, why it has none.

    Parameters
    ----------
    table : DataFrame
        From `agreement`.

    Examples
    --------
    >>> cell = {"method": "black_box", "mean": 9.0, "ours_mean": 3.0, "deviating_mean": 7.0}
    >>> words = {"ours_agrees": "no", "deviating_agrees": "no"}
    >>> reasons(pd.DataFrame([cell | words, cell | words | {"deviating_agrees": "yes"}])).tolist()
    ['code, in part', 'code']
    """
    ours, deviating = (table[f"{who}_mean"] - table["mean"] for who in ("ours", "deviating"))
    holds = [
        table["ours_agrees"] == "yes",
        table["ours_agrees"] != "no",
        table["deviating_agrees"] == "yes",
        deviating.abs() <= ours.abs() / 2,
        table["method"].str.contains("paper") & (ours < 0),
        table["deviating_agrees"] == "no result",
    ]
    words = ["agrees", table["ours_agrees"], "code", "code, in part", "sparser", "no rejects"]
    found = np.select(
        holds, [pd.Series(word, table.index) if isinstance(word, str) else word for word in words], "open"
    )
    return pd.Series(found, table.index)


def count(holds: Iterable[Any]) -> str:
    """Return in how many cells something holds, 'k of n'; of words of `agreement`, only "yes" and "no" count.

    Examples
    --------
    >>> count([True, False, True]), count(["yes", "no", "stand-in"])
    ('2 of 3', '1 of 2')
    """
    cells = _judged(holds)
    return f"{sum(cells):,} of {len(cells):,}"


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


def times(n: int) -> str:
    """Return 'once', 'twice', '3 times', ..."""
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def _judged(holds: Iterable[Any]) -> list[bool]:
    return [cell == "yes" if isinstance(cell, str) else bool(cell) for cell in holds if cell not in _UNJUDGED]


def _by_share(holds: Iterable[Any], high: float, words: tuple[str, str, str]) -> str:
    cells = _judged(holds)
    if not cells:
        return "no result"
    share = sum(cells) / len(cells)
    return words[0] if share >= high else words[1] if share >= 0.5 else words[2]
