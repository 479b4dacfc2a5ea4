"""Cost and size of what holds a reject against plain `explain`, in one run on one thread.

Run as ``OMP_NUM_THREADS=1 python benchmarks/reasons.py``; writes book/results/benchmark_reasons.csv (times
as ratios to `explain`) and book/results/benchmark_semifactuals.csv (the published heuristic's answers).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine

from companion.semifactual import SMALL, even_if, farthest_corner
from lvqrej import RejectOptionClassifier

RESULTS = Path(__file__).parents[1] / "book" / "results"
DATA = {"wine": load_wine, "breast cancer": load_breast_cancer}
OPTIONS = ("relative-similarity", "decision-distance", "probabilistic")


def timed(call: Callable[[Any], Any], rows: np.ndarray) -> tuple[list[Any], float]:
    """Return the answers to all rows and the seconds of this thread per row, after a first call."""
    call(rows[0])
    begin = time.thread_time()
    answers = [call(row) for row in rows]
    return answers, (time.thread_time() - begin) / len(rows)


def measure(data: str, name: str, samples: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return one row per question for one data set and one reject option, and one for the heuristic."""
    X, y = DATA[data](return_X_y=True)
    classifier = RejectOptionClassifier(option=name, threshold=("reject_rate", 0.3)).fit(X, y)
    rejected = X[classifier.rejects(X)]
    rows = rejected[np.random.default_rng(0).permutation(len(rejected))[:samples]]
    plain = {"grid": None, "on_infeasible": "skip"}
    _, unit = timed(lambda x: classifier.explain(x[None], **plain), rows)
    asked = {
        "ranges": lambda x: classifier.explain(x[None], **plain).ranges(),
        "minimal reason": lambda x: classifier.sufficient_reason(x, effort=0, grid=None),
        "smallest reason": lambda x: classifier.sufficient_reason(x, grid=None),
        "three reasons": lambda x: classifier.sufficient_reason(x, k=3, grid=None),
    }
    table = []
    for question, call in asked.items():
        answers, seconds = timed(call, rows)
        row: dict[str, Any] = {"data": data, "option": name, "question": question, "samples": len(rows)}
        row |= {"features": X.shape[1], "ratio_to_explain": seconds / unit}
        if question != "ranges":
            row["size"] = float(np.mean([len(answer.indices) for answer in answers]))
            row["fewest"] = float(np.mean([answer.fewest for answer in answers]))
            row["proven"] = float(np.mean([answer.proven for answer in answers]))
            row["smallest"] = float(np.mean([answer.smallest for answer in answers]))
        table.append(row)
        print(row, flush=True)
    return table, heuristic(data, name, classifier, rows, unit)


def heuristic(data: str, name: str, classifier: Any, rows: np.ndarray, unit: float) -> dict[str, Any]:
    """Return how often the published heuristic is valid, and how far from the best known answer."""
    option, theta, seen, scale = (
        classifier.option_, classifier.threshold_, classifier.observed_, classifier.scale_,
    )  # fmt: skip
    shares, rejected, few, between, matters, seconds = [], [], [], [], [], 0.0
    for x in rows:
        box = np.minimum(x, seen.lower), np.maximum(x, seen.upper)
        begin = time.thread_time()
        z = even_if(option, theta, x, box, scale)
        seconds += time.thread_time() - begin
        moved = np.abs(z - x) / scale
        rejected.append(not option.accepts([z], theta)[0])
        few.append(int((moved > SMALL).sum()) <= 2)
        shares.append(np.linalg.norm(moved) / farthest_corner(option, theta, x, box, scale))
        # "Even if it were up to z" speaks of all inputs between the two.
        ends = {k: (min(x[k], z[k]), max(x[k], z[k])) for k in range(len(x))}
        asked = classifier.explain(x[None], bounds=ends, grid=None, noise=0, on_infeasible="skip")
        between.append(bool(asked.found[0]))
        # "It does not matter" speaks of all values of what was changed.
        same = np.flatnonzero(z == x).tolist()
        asked = classifier.explain(x[None], fixed=same, grid=None, noise=0, on_infeasible="skip")
        matters.append(bool(asked.found[0]))
    valid = np.array(rejected) & np.array(few)
    row = {
        "data": data,
        "option": name,
        "samples": len(rows),
        "still_rejected": float(np.mean(rejected)),
        "few_features": float(np.mean(few)),
        "valid": float(valid.mean()),
        "share_of_best_distance": float(np.median(shares)),
        "accepted_on_the_way": float(np.mean(between)),
        "refuted_as_irrelevant": float(np.mean(matters)),
        "ratio_to_explain": seconds / len(rows) / unit,
    }
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=12, help="rejects asked about per data set and option")
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    measured = [measure(data, name, arguments.samples) for data in DATA for name in OPTIONS]
    table = pd.DataFrame([row for rows, _ in measured for row in rows])
    table.to_csv(RESULTS / "benchmark_reasons.csv", index=False)
    pd.DataFrame([row for _, row in measured]).to_csv(RESULTS / "benchmark_semifactuals.csv", index=False)


if __name__ == "__main__":
    main()
