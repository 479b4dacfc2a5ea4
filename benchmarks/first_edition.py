"""The first edition's results, judged by today's rules and computed again by today's engine.

    git archive b9a124b book/results | tar -x -C FOLDER
    python benchmarks/first_edition.py FOLDER/book/results

Writes first_edition_*.csv to book/results: the words for every entry of the paper's tables and for every
conclusion; how many of the stored exact counterfactuals today's engine finds again from their models; and how
many of the stored models are those of today's training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.conclusions import FIRST_DATA, write_first_edition
from companion.datasets import load
from companion.evaluation import changed_features
from companion.experiments import option_of, scaled_samples
from companion.results import load_models
from companion.runner import Unit
from lvqrej import explain

RESULTS = Path(__file__).parents[1] / "book" / "results"
#: At this relative gap the search over probabilities stops.
GAP = 1e-3
_FOLD = ["model", "option", "repetition", "fold"]


def again(folder: Path, data: str) -> pd.DataFrame:
    """Return stored and new distance of every rejected test sample, and whether l0 is the same."""
    X = load(data).X.to_numpy()
    rows = pd.read_csv(folder / f"counterfactuals_{data}.csv")
    chosen = (rows["variant"] == "ours") & (rows["method"] == "exact") & (rows["experiment"] == "properties")
    parts = []
    for key, part in rows[chosen].groupby(_FOLD):
        unit = Unit(data, "ours", *key)
        arrays = load_models(folder / f"models_{data}.npz", unit)
        samples = scaled_samples(arrays, X[part["sample"]])
        answers = explain(option_of(arrays, unit.option), float(arrays["theta"]), samples, noise=0)
        l0 = changed_features(samples, answers.counterfactuals).sum(axis=1)
        found = {"stored": part["l1"].to_numpy(), "now": answers.distances, "same_l0": l0 == part["l0"]}
        parts.append(pd.DataFrame(found).assign(data=data, model=unit.model, option=unit.option))
    return pd.concat(parts)


def line(part: Any) -> pd.Series:
    """Return how many distances are the stored ones."""
    difference = part["now"] - part["stored"]
    allowed = GAP * part["stored"] + 1e-9
    return pd.Series(
        {
            "n": len(part),
            "to_1e-6": (difference.abs() <= 1e-6).sum(),
            "to_0.1_percent": (difference.abs() <= allowed).sum(),
            "nearer": (difference < -allowed).sum(),
            "farther": (difference > allowed).sum(),
            "same_l0": part["same_l0"].sum(),
            "largest": difference.abs().max(),
        },
        dtype=object,
    )


def models(old: Path, data: str) -> pd.DataFrame:
    """Return how many stored models of each kind have the first edition's arrays to 1e-6."""
    with np.load(old / f"models_{data}.npz") as before, np.load(RESULTS / f"models_{data}.npz") as now:
        names = pd.Series([name for name in before.files if name in now])
        same = [
            before[name].shape == now[name].shape and np.allclose(before[name], now[name], rtol=0, atol=1e-6)
            for name in names
        ]
    keys = names.str.split("/", expand=True).drop(columns=5)
    keys.columns = ["variant", *_FOLD]
    whole = keys.assign(same=same).groupby([*keys.columns], as_index=False)["same"].all()
    kinds = whole.groupby(["variant", "model", "option"], as_index=False)["same"].agg(["size", "sum"])
    return kinds.rename(columns={"size": "n", "sum": "to_1e-6"}).assign(data=data)


def main(old: Path) -> None:
    """Write the four tables."""
    write_first_edition(old, RESULTS)
    both = pd.concat([again(old, name) for name in sorted(FIRST_DATA)])
    keys = ["data", "model", "option"]
    table = both.groupby(keys)[["stored", "now", "same_l0"]].apply(line).reset_index()
    order = ["relative_similarity", "decision_distance", "probabilistic"]
    table = table.sort_values(keys, key=lambda c: c.map(order.index) if c.name == "option" else c)
    table.to_csv(RESULTS / "first_edition_engine.csv", index=False, float_format="%.3g", lineterminator="\n")
    print(table.to_string(index=False))
    kinds = pd.concat([models(old, name) for name in sorted(FIRST_DATA)])
    kinds = kinds[["data", "variant", "model", "option", "n", "to_1e-6"]]
    kinds.to_csv(RESULTS / "first_edition_models.csv", index=False, lineterminator="\n")
    print(kinds.to_string(index=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
