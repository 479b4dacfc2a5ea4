"""Side by side with DiCE on one mixed table: the same model, the same rejects, the same price.

Run as ``OMP_NUM_THREADS=1 python benchmarks/dice.py --python ENV/bin/python`` with the Python of an
environment of its own that has dice-ml 0.12 (``python -m venv ENV; ENV/bin/pip install dice-ml``); writes
book/results/benchmark_dice.csv. A `RejectOptionClassifier` with the defaults is trained on complete rows; its
rejects among the others are explained by `explain` and by DiCE's random, genetic and kd-tree searches, which
are asked for four counterfactuals each, of which the cheapest valid one counts. DiCE sees the model as a
classifier of accepted and rejected rows, made of fitted steps, prototypes and metric by textbook formulas.
The price of an answer is sum |change| / standard deviation over numbers plus 1 for each other level.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parents[1] / "book" / "results"
METHODS = ("random", "genetic", "kdtree")
TABLE, RATE, WANTED = "titanic", 0.2, 4


class Accepting:
    """The reject option as a classifier of rows: 1 if relative similarity reaches the threshold."""

    classes_ = np.array([0, 1])

    def __init__(self, model: dict[str, Any]) -> None:
        self.model = model
        self.w, self.L, self.labels = (np.array(model[key]) for key in ("w", "omega", "labels"))

    def certainty(self, X: pd.DataFrame) -> np.ndarray:
        """Return r(x), of shape (n,)."""
        parts = []
        for name, how in self.model["columns"].items():
            if "levels" in how:
                values = X[name].astype(str).to_numpy()
                parts.append((values[:, None] == np.array(how["levels"])).astype(float))
            else:
                parts.append((X[name].astype(float).to_numpy()[:, None] - how["mean"]) / how["scale"])
        d = np.square((np.hstack(parts)[:, None] - self.w) @ self.L.T).sum(axis=2)
        plus = d.min(axis=1)
        other = np.where(self.labels[d.argmin(axis=1)][:, None] != self.labels, d, np.inf).min(axis=1)
        return np.asarray((other - plus) / (other + plus))

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return 1 for accepted rows, of shape (n,)."""
        return (self.certainty(X) >= self.model["theta"]).astype(int)

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Return a share of acceptance that is 1/2 at the threshold, of shape (n, 2)."""
        share = 1 / (1 + np.exp(-10 * (self.certainty(X) - self.model["theta"])))
        return np.stack([1 - share, share], axis=1)


def inside(folder: Path) -> None:
    """Run in DiCE's environment: explain the rows of a folder by each method, and leave answers there."""
    import dice_ml
    from raiutils.exceptions import UserConfigValidationException

    model = json.loads((folder / "model.json").read_text())
    text = {name: str for name, how in model["columns"].items() if "levels" in how}
    train, rows = (pd.read_csv(folder / f"{name}.csv", dtype=text) for name in ("train", "rows"))
    classifier = Accepting(model)
    numbers = [name for name in train if name not in text]
    data = dice_ml.Data(
        dataframe=train.assign(accepted=classifier.predict(train)), continuous_features=numbers,
        outcome_name="accepted",
    )  # fmt: skip
    wrapped, found = dice_ml.Model(model=classifier, backend="sklearn"), []
    for method in METHODS:
        explainer = dice_ml.Dice(data, wrapped, method=method)
        seeded = {"random_seed": 0} if method == "random" else {}
        for i in range(len(rows)):
            begin = time.perf_counter()
            try:
                result = explainer.generate_counterfactuals(
                    rows.iloc[[i]], total_CFs=WANTED, desired_class=1, verbose=False, **seeded
                )
                table = result.cf_examples_list[0].final_cfs_df
            except UserConfigValidationException as error:  # what DiCE raises where it finds none
                if not str(error).startswith("No counterfactuals found"):
                    raise
                print(f"{method}, row {i}: {error}", file=sys.stderr)
                table = None
            seconds = time.perf_counter() - begin
            answers = [] if table is None else table[list(train)].astype(str).to_dict("records")
            found.append({"method": method, "row": i, "seconds": seconds, "answers": answers})
    (folder / "found.json").write_text(json.dumps(found))


def price(classifier: Any, before: pd.Series, after: dict[str, Any]) -> float:
    """Return what an answer costs."""
    total = 0.0
    for name, scale in zip(before.index, classifier.scale_, strict=True):
        if isinstance(before[name], str):
            total += after[name] != before[name]
        else:
            total += abs(float(after[name]) - before[name]) / scale
    return total


def main() -> None:
    """Train, let both explain, and write what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", help="the Python of an environment that has dice-ml")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--rejects", type=int, default=20)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.inside)
        return
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline

    from companion import foreign
    from lvqrej import GMLVQ, RejectOptionClassifier
    from lvqrej.fitting import default_steps

    X, y = foreign.load_mixed(TABLE)
    kept = X.notna().all(axis=1)
    X, y = X[kept], y[kept]
    train, test, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    model = make_pipeline(default_steps(train), GMLVQ(random_state=0))
    classifier = RejectOptionClassifier(model, threshold=("reject_rate", RATE)).fit(train, y_train)
    rows = test[classifier.rejects(test)].iloc[: arguments.rejects]
    steps, lvq = classifier.estimator_[0], classifier.estimator_[-1]
    scaler, encoder = steps.named_transformers_["numbers"][-1], steps.named_transformers_["categories"]
    numbers, others = (part[2] for part in steps.transformers_)
    columns: dict[str, Any] = {
        name: {"mean": mean, "scale": scale}
        for name, mean, scale in zip(numbers, scaler.mean_.tolist(), scaler.scale_.tolist(), strict=True)
    }
    columns |= {
        name: {"levels": levels.tolist()} for name, levels in zip(others, encoder.categories_, strict=True)
    }
    stored = {
        "columns": columns, "w": lvq.w_.tolist(), "labels": lvq.c_w_.tolist(), "omega": lvq.omega_.tolist(),
        "theta": classifier.threshold_,
    }  # fmt: skip
    judge = Accepting(stored)
    assert np.allclose(judge.certainty(rows), classifier.certainty(rows))
    found = []
    for i in range(len(rows)):
        begin = time.perf_counter()
        why = classifier.explain(rows.iloc[i])
        seconds = time.perf_counter() - begin
        answer = dict(zip(X.columns, why.after, strict=True))
        found.append({"method": "lvqrej", "row": i, "seconds": seconds, "answers": [answer]})
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "model.json").write_text(json.dumps(stored))
        train.to_csv(home / "train.csv", index=False)
        rows.to_csv(home / "rows.csv", index=False)
        subprocess.run([arguments.python, __file__, "--inside", folder], check=True)
        found += json.loads((home / "found.json").read_text())
    table = []
    for one in found:
        before = rows.iloc[one["row"]]
        valid = [a for a in one["answers"] if judge.predict(pd.DataFrame([a]))[0] == 1]
        prices = [price(classifier, before, answer) for answer in valid]
        table.append(
            {"method": one["method"], "row": one["row"], "asked": WANTED if one["method"] != "lvqrej" else 1,
             "answers": len(one["answers"]), "valid": len(valid), "price": min(prices, default=np.inf),
             "seconds": one["seconds"]}
        )  # fmt: skip
    result = pd.DataFrame(table)
    best = result[result["method"] == "lvqrej"].set_index("row")["price"]
    result["times_the_price"] = result["price"] / best[result["row"]].to_numpy()
    result.to_csv(arguments.out / "benchmark_dice.csv", index=False, float_format="%.6g")
    groups = result.groupby("method")
    print(groups[["price", "times_the_price", "seconds"]].median())
    print(groups[["answers", "valid"]].sum())


if __name__ == "__main__":
    main()
