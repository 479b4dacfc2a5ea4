"""Cost of sparser, several, robust and plausible answers against plain `explain`, in one run on one thread.

Run as ``OMP_NUM_THREADS=1 python benchmarks/variants.py``; writes book/results/benchmark_variants.csv. Every
variant explains the same rejects one by one, as `explain` does; times are ratios to it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine

from lvqrej import RejectOptionClassifier, explain
from lvqrej.variants import plausible, robust, several, sparsest, trade_off

RESULTS = Path(__file__).parents[1] / "book" / "results"
OPTIONS = ("relative-similarity", "decision-distance", "probabilistic")


def timed(call: Callable[[Any], Any], rows: np.ndarray) -> tuple[list[Any], float]:
    """Return the answers to all rows and the seconds of this thread per row, after a first call."""
    call(rows[0])
    begin = time.thread_time()
    answers = [call(row) for row in rows]
    return answers, (time.thread_time() - begin) / len(rows)


def first(result: Any) -> Any:
    """Return the answer, or the last one of several (None if there is none)."""
    if not hasattr(result, "found"):
        return result
    return result[-1] if len(result) and result.found[-1] else None


def measure(data: str, name: str, samples: int) -> pd.DataFrame:
    """Return one row per variant for one data set and one reject option."""
    load = {"wine": load_wine, "breast cancer": load_breast_cancer}[data]
    X, y = load(return_X_y=True)
    classifier = RejectOptionClassifier(option=name, threshold=("reject_rate", 0.3)).fit(X, y)
    option, theta, scale = classifier.option_, classifier.threshold_, classifier.scale_
    rejected = X[classifier.rejects(X)]
    rows = rejected[np.random.default_rng(0).permutation(len(rejected))[:samples]]
    skip = {"weights": 1 / scale, "on_infeasible": "skip"}
    calls = {
        "explain": lambda x: explain(option, theta, x[None], **skip),
        "sparsest": lambda x: sparsest(option, theta, x[None], **skip),
        "trade_off": partial(trade_off, option, theta, **skip),
        "several (3)": partial(several, option, theta, k=3, **skip),
        "robust (error 0.1)": lambda x: robust(option, theta, x[None], error=0.1 * scale, **skip),
        "robust (least 0.25)": lambda x: robust(option, theta, x[None], least=0.25 * scale, **skip),
        "plausible (0.95)": lambda x: plausible(option, theta, x[None], data=X, labels=y, **skip),
    }
    table, plain = [], []
    for variant, call in calls.items():
        results, seconds = timed(call, rows)
        answers = [first(result) for result in results]
        if variant == "explain":
            plain, unit = answers, seconds
        both = [(a, b) for a, b in zip(answers, plain, strict=True) if a is not None and b is not None]
        row = {
            "data": data,
            "option": name,
            "variant": variant,
            "samples": len(rows),
            "found": len(both),
            "ratio_to_explain": seconds / unit,
            "distance_ratio": float(np.median([a.distance / b.distance for a, b in both])),
            "changed": float(np.mean([len(a.changed) for a, _ in both])),
            "worst_gap": max(a.gap for a, _ in both),
        }
        table.append(row)
        print(row, flush=True)
    return pd.DataFrame(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=12, help="rejects explained per data set and option")
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    tables = [
        measure(data, name, arguments.samples) for data in ("wine", "breast cancer") for name in OPTIONS
    ]
    pd.concat(tables).to_csv(RESULTS / "benchmark_variants.csv", index=False)


if __name__ == "__main__":
    main()
