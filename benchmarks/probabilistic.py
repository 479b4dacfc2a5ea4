"""Counterfactuals of the probabilistic certainty against the paper's programs, in one run, same rejects.

Run as `python benchmarks/probabilistic.py`; the table is also written to
book/results/benchmark_probabilistic.csv. Times are processor times per sample; `ratio` is how many times
longer than `explain` a method takes one by one, `ratio to batch` than `explain` in one call for all samples.
"Algorithm 3 as published" is what the paper's experiments do, on Wine: data not standardized, SCS, margin
0.1 (the models are the same but for their units). `--quick` leaves out Digits (ten classes), whose 45 models
take long to fit.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from companion.baselines import nearest_accepted
from companion.baselines_convex import convex_probabilistic
from companion.baselines_direct import smooth_direct
from lvqrej import GMLVQ, ProbabilisticCertainty, explain

RESULTS = Path(__file__).parents[1] / "book" / "results" / "benchmark_probabilistic.csv"
DATA = {"Wine": load_wine, "Iris": load_iris, "Breast Cancer": load_breast_cancer, "Digits": load_digits}


def rejects(name, prototypes_per_class, seed=0, standardize=True):
    """Return a fitted certainty, the 40 % quantile of its training certainties, training samples, rejects.

    The rejects are those of the whole table, as in benchmarks/counterfactuals.py.
    """
    X, y = DATA[name](return_X_y=True)
    X = StandardScaler().fit_transform(X) if standardize else X
    train, _, labels, _ = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    estimator = GMLVQ(prototypes_per_class=prototypes_per_class, regularization=0, random_state=0)
    option = ProbabilisticCertainty(estimator).fit(train, labels)
    theta = float(np.quantile(option.certainty(train), 0.4))
    return option, theta, train, X[~option.accepts(X, theta)]


def timed_batch(option, theta, samples):
    """Return processor seconds per sample of one call for all samples (fastest of three), and the answers."""
    seconds = []
    for _ in range(3 if len(option.classes) < 10 else 1):
        start = time.process_time()
        answers = explain(option, theta, samples)
        seconds.append((time.process_time() - start) / len(samples))
    return min(seconds), list(answers)


def timed(method, samples):
    """Return processor seconds per sample and the answers; a first call, which loads, is not counted."""
    method(samples[0])
    start = time.process_time()
    answers = [method(x) for x in samples]
    return (time.process_time() - start) / len(samples), answers


def methods(option, theta, train, many):
    """Yield (name, function of one sample, number of samples it is given)."""
    yield "explain", lambda x: explain(option, theta, x), many
    few = min(many, 5)
    yield "Algorithm 3 as printed", lambda x: convex_probabilistic(option, theta, x), few
    yield "Algorithm 3 as printed, SCS", lambda x: convex_probabilistic(option, theta, x, solver="SCS"), few
    if len(option.classes) < 10:
        surrogate = {"signs": "correct", "classes": "all"}
        yield "uniform budgets", lambda x: convex_probabilistic(option, theta, x, **surrogate), few
        yield "SLSQP, several starts", lambda x: smooth_direct(option, theta, x, n_starts=0), few
    yield "nearest accepted", lambda x: nearest_accepted(option, theta, x[None], train)[0], many


def as_published(name, prototypes):
    """Return the line of the table for Algorithm 3 as the paper's experiments run it."""
    option, theta, _, samples = rejects(name, prototypes, standardize=False)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        seconds, answers = timed(
            lambda x: convex_probabilistic(option, theta, x, solver="SCS", margin=0.1), samples[:5]
        )
    return row(name, prototypes, "Algorithm 3 as published", seconds, option, theta, samples[:5], answers)


def row(name, prototypes, method, seconds, option, theta, samples, answers):
    """Return one line of the table."""
    points = np.array([answer.counterfactual for answer in answers])
    valid = option.accepts(points, theta)
    distances = np.array([answer.distance for answer in answers])
    gaps = [getattr(answer, "gap", np.nan) for answer in answers]
    return {
        "data": name,
        "prototypes per class": prototypes,
        "method": method,
        "samples": len(samples),
        "ms per sample": 1e3 * seconds,
        "valid": valid.mean(),
        "mean distance": distances[valid].mean() if valid.any() else np.nan,
        "median gap": np.median(gaps),
        "largest gap": np.max(gaps),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave out Digits")
    parser.add_argument("--samples", type=int, default=20, help="samples that are explained one by one")
    arguments = parser.parse_args()
    table = []
    for name in DATA:
        for prototypes in (1, 2) if name != "Digits" else (1,):
            if name == "Digits" and arguments.quick:
                continue
            option, theta, train, samples = rejects(name, prototypes)
            samples = samples if name != "Digits" else samples[:10]
            many = min(arguments.samples, len(samples))
            explain(option, theta, samples[:1])
            batch, answers = timed_batch(option, theta, samples)
            line = row(name, prototypes, "explain, one batch", batch, option, theta, samples, answers)
            lines = [line]
            for method, function, n in methods(option, theta, train, many):
                with warnings.catch_warnings():
                    warnings.simplefilter("default")  # a solver that doubts its answer says so, and goes on
                    seconds, answers = timed(function, samples[:n])
                lines.append(row(name, prototypes, method, seconds, option, theta, samples[:n], answers))
            if name == "Wine":
                lines.append(as_published(name, prototypes))
            for line in lines:
                line["ratio"] = line["ms per sample"] / lines[1]["ms per sample"]
                line["ratio to batch"] = line["ms per sample"] / lines[0]["ms per sample"]
            print(pd.DataFrame(lines).to_string(header=not table, index=False), flush=True)
            table += lines
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(table).to_csv(RESULTS, index=False, float_format="%.4g")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
