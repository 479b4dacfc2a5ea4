"""How much faster than published? Ratios measured side by side in one run, on one thread.

Run as ``OMP_NUM_THREADS=1 python benchmarks/counterfactuals.py``; writes tidy tables to book/results/. The
published method (`companion.baselines`) is one CVXPY program per prototype, by SCS with a margin of 0.1.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler

from companion.baselines import printed_decision_distance, printed_relative_similarity
from lvqrej import GMLVQ, DecisionDistance, PrototypeModel, RelativeSimilarity, explain

RESULTS = Path(__file__).parents[1] / "book" / "results"
OPTIONS = {
    "relative similarity": (RelativeSimilarity, printed_relative_similarity),
    "decision distance": (DecisionDistance, printed_decision_distance),
}


def fastest(call: Callable[[], Any], repeats: int = 15) -> float:
    """Return the shortest of several run times, in seconds of this thread: other load does not count."""
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        call()
        times.append(time.thread_time() - begin)
    return min(times)


def against_published(samples: int) -> pd.DataFrame:
    """Time batch, single sample and certainty beside the published method."""
    rows = []
    for data, load in {"wine": load_wine, "breast cancer": load_breast_cancer}.items():
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        for per_class in (1, 2, 3):
            model = PrototypeModel.of(
                GMLVQ(prototypes_per_class=per_class, regularization=0, random_state=0).fit(X, y)
            )
            for name, (make, published) in OPTIONS.items():
                option = make(model)
                r = option.certainty(X)
                for quantile in (0.4, 0.9):
                    theta = float(np.quantile(r, quantile))
                    rejects = X[r < theta]
                    row = {
                        "data": data,
                        "prototypes_per_class": per_class,
                        "option": name,
                        "quantile": quantile,
                    }
                    rows.append(row | compare(option, published, theta, rejects, samples))
                    print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def compare(option: Any, published: Any, theta: float, rejects: np.ndarray, samples: int) -> dict[str, Any]:
    """Return times per counterfactual and distances of one configuration."""
    result = explain(option, theta, rejects)
    batch = fastest(lambda: explain(option, theta, rejects)) / len(rejects)
    certainty = fastest(lambda: option.certainty(rejects), 30) / len(rejects)
    single = fastest(lambda: explain(option, theta, rejects[0]), 20)
    chosen = np.random.default_rng(0).choice(len(rejects), min(samples, len(rejects)), replace=False)
    begin = time.thread_time()
    answers = [published(option.model, theta, rejects[i], solver="SCS", margin=0.1, eps=1e-4) for i in chosen]
    slow = (time.thread_time() - begin) / len(chosen)
    valid = [k for k, answer in enumerate(answers) if answer.found and answer.valid]
    longer = [answers[k].distance / result.distances[chosen[k]] for k in valid]
    return {
        "rejects": len(rejects),
        "published_ms": 1e3 * slow,
        "batch_us": 1e6 * batch,
        "single_us": 1e6 * single,
        "ratio_batch": slow / batch,
        "ratio_single": slow / single,
        "ratio_to_certainty": batch / certainty,
        "published_valid": len(valid) / len(chosen),
        "published_distance_ratio": float(np.median(longer)) if longer else np.inf,
        "published_shorter": sum(ratio < 1 - 1e-9 for ratio in longer),
        "worst_gap": float(result.gaps.max()),
        "valid": float(option.accepts(result.counterfactuals, theta).mean()),
        "paths": "; ".join(f"{path} {count}" for path, count in sorted(Counter(result.paths).items())),
    }


def growth() -> pd.DataFrame:
    """Time against the numbers of features, prototypes and samples, with the fitted exponents."""
    rows = []
    for name, (make, _) in OPTIONS.items():
        for vary, values in {
            "features": (4, 8, 16, 32, 64, 128, 256),
            "prototypes": (2, 4, 10, 20, 50, 100),
            "samples": (1, 10, 100, 1000, 10_000, 100_000),
        }.items():
            for value in values:
                size = {"features": 16, "prototypes": 6, "samples": 500} | {vary: value}
                rng = np.random.default_rng(0)
                d, m = size["features"], size["prototypes"]
                model = PrototypeModel(rng.normal(size=(m, d)), np.arange(m) % 2, rng.normal(size=(d, d)))
                option, X = make(model), rng.normal(size=(size["samples"], d))
                theta = float(np.quantile(option.certainty(rng.normal(size=(2000, d))), 0.6))
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                seconds = fastest(
                    lambda o=option, t=theta, x=X: explain(o, t, x), 1 if value == 100_000 else 3
                )
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                rows.append(
                    {"option": name, "vary": vary, "value": value, "seconds": seconds, "peak_kb": peak}
                )
    table = pd.DataFrame(rows)
    for (name, vary), part in table.groupby(["option", "vary"]):
        top = part.tail(4)
        slope = np.polyfit(np.log(top["value"]), np.log(top["seconds"]), 1)[0]
        table.loc[part.index, "exponent"] = slope
        print(f"{name}: time grows as {vary}^{slope:.2f}", flush=True)
    return table


def throughput() -> pd.DataFrame:
    """Explain the 10 % least certain of 50,000 samples of 18 features."""
    rows = []
    for name, (make, _) in OPTIONS.items():
        rng = np.random.default_rng(0)
        model = PrototypeModel(rng.normal(size=(6, 18)), np.arange(6) % 3, rng.normal(size=(18, 18)))
        option, X = make(model), rng.normal(size=(50_000, 18))
        theta = float(np.quantile(option.certainty(X), 0.1))
        seconds = fastest(lambda o=option, t=theta, x=X: explain(o, t, x), 3)
        rejected = int((option.certainty(X) < theta).sum())
        rows.append({"option": name, "samples": len(X), "rejected": rejected, "seconds": seconds})
        rows[-1]["rejects_per_second"] = rejected / seconds
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def latency() -> pd.DataFrame:
    """Time (of the processor) of import, first call and what training needs, in a fresh process."""
    program = (
        "import time; now = time.process_time; a = now();"
        "from lvqrej import PrototypeModel, RelativeSimilarity, explain; b = now();"
        "o = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], [0, 1])); c = now();"
        "explain(o, 0.6, [0.9, 0.0]); d = now(); from lvqrej import GMLVQ; print(b - a, d - c, now() - d)"
    )
    runs = [
        [
            float(word)
            for word in subprocess.run(
                [sys.executable, "-c", program], capture_output=True, check=True
            ).stdout.split()
        ]
        for _ in range(4)
    ]
    best = np.min(runs[1:], axis=0)
    names = ["import_seconds", "first_call_seconds", "import_for_training_seconds"]
    return pd.DataFrame([dict(zip(names, best, strict=True))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=5, help="samples given to the published method")
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    start = latency()
    start.to_csv(RESULTS / "benchmark_counterfactuals_latency.csv", index=False)
    print(start.to_string(index=False))
    table = against_published(arguments.samples)
    table.to_csv(RESULTS / "benchmark_counterfactuals.csv", index=False)
    print(table.groupby("option")[["ratio_batch", "ratio_single", "ratio_to_certainty"]].median())
    throughput().to_csv(RESULTS / "benchmark_counterfactuals_throughput.csv", index=False)
    growth().to_csv(RESULTS / "benchmark_counterfactuals_growth.csv", index=False)


if __name__ == "__main__":
    main()
