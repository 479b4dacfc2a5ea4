"""Training of GLVQ and GMLVQ against sklearn-lvq in one run, and how it scales with the number of samples.

Run as `python benchmarks/training.py`; the table is also written to book/results/benchmark_training.csv.
Small sets are split ten times. sklearn-lvq runs as it is but for what stops it on current NumPy and SciPy.
`--quick` leaves out its long fit on 50,000 samples and the largest sets.
"""

import argparse
import math
import time
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.optimize
import sklearn_lvq.glvq
import sklearn_lvq.gmlvq
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn_lvq import GlvqModel, GmlvqModel
from threadpoolctl import threadpool_limits

from lvqrej import GLVQ, GMLVQ

RESULTS = Path(__file__).parents[1] / "book" / "results" / "benchmark_training.csv"
#: The same problem for both: sklearn-lvq has no penalty by default.
PAIRS = {"GLVQ": (GLVQ, GlvqModel), "GMLVQ": (partial(GMLVQ, regularization=0), GmlvqModel)}


def repair_sklearn_lvq():
    """Undo what stops sklearn-lvq today: a start that is not flat, an option that is gone, np.math."""

    def flat_minimize(fun, x0, options, **arguments):
        options = {name: value for name, value in options.items() if name != "disp"}
        return scipy.optimize.minimize(fun, np.ravel(x0), options=options, **arguments)

    np.math = math
    sklearn_lvq.glvq.minimize = flat_minimize
    sklearn_lvq.gmlvq.minimize = flat_minimize


def synthetic(n, seed=0):
    """Return n samples of 18 features in two classes of two clusters each, standardised."""
    X, y = make_classification(
        n, 18, n_informative=10, n_redundant=4, class_sep=1.5, flip_y=0.02, random_state=seed
    )
    return StandardScaler().fit_transform(X), y


def datasets(quick):
    for name, load in {"Wine": load_wine, "Breast Cancer": load_breast_cancer}.items():
        X, y = load(return_X_y=True)
        yield name, StandardScaler().fit_transform(X), y
    if not quick:
        yield "50,000 x 18", *synthetic(62_500)  # 50,000 to train, 12,500 held out


def cost(model, X, y):
    """Return the mean logistic cost (beta = 2) that both packages minimise."""
    Z, Q = (X, model.w_) if not hasattr(model, "omega_") else (X @ model.omega_.T, model.w_ @ model.omega_.T)
    distances = np.sum((Z[:, None, :] - Q) ** 2, axis=2)
    own = y[:, None] == model.c_w_
    plus, minus = np.where(own, distances, np.inf).min(axis=1), np.where(own, np.inf, distances).min(axis=1)
    return float(np.mean(1 / (1 + np.exp(-2 * (plus - minus) / (plus + minus)))))


def timed_fits(models, X, y, repeats):
    """Fit the models in turns and return the median seconds of each.

    Seconds of the processor, not of the clock: with one thread they are the same on an idle machine, and
    other programs do not disturb them.
    """
    seconds = np.empty((repeats, len(models)))
    for i in range(repeats):
        for j, model in enumerate(models):
            start = time.process_time()
            model.fit(X, y)
            seconds[i, j] = time.process_time() - start
    return np.median(seconds, axis=0)


def compare(quick):
    """Yield one row per data set and model: both packages' means over splits into training and test part."""
    for data, X, y in datasets(quick):
        splits, repeats = (10, 15) if len(X) < 10_000 else (1, 1)
        for name, pair in PAIRS.items():
            means = pd.DataFrame([on_split(pair, X, y, seed, repeats) for seed in range(splits)]).mean()
            faster = means["seconds sklearn-lvq"] / means["seconds"]
            row = {"part": "against sklearn-lvq", "data": data, "model": name, "splits": splits}
            yield row | {"times faster": faster} | means.to_dict()


def on_split(pair, X, y, seed, repeats):
    """Return seconds, cost and held-out accuracy of both packages on one stratified split."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
    new, old = (kind(random_state=0) for kind in pair)
    seconds, old_seconds = timed_fits([new, old], X_train, y_train, repeats)
    return {
        "n": len(X_train),
        "seconds": seconds,
        "seconds sklearn-lvq": old_seconds,
        "cost": cost(new, X_train, y_train),
        "cost sklearn-lvq": cost(old, X_train, y_train),
        "accuracy": new.score(X_test, y_test),
        "accuracy sklearn-lvq": old.score(X_test, y_test),
        "iterations": new.n_iter_,
    }


def scale(quick):
    """Yield one row per number of samples: seconds, iterations, peak memory beyond the data."""
    for n in (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)[: 4 if quick else None]:
        X, y = synthetic(n)
        model = GMLVQ(regularization=0)
        (seconds,) = timed_fits([model], X, y, repeats=3)
        tracemalloc.start()
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        yield {
            "part": "scaling",
            "data": "synthetic x 18",
            "model": "GMLVQ",
            "n": n,
            "seconds": seconds,
            "iterations": model.n_iter_,
            "peak MB": peak / 1e6,
            "data MB": X.nbytes / 1e6,
        }


def exponent(frame):
    """Return b of the fit seconds = a n^b."""
    return float(np.polyfit(np.log(frame["n"]), np.log(frame["seconds"]), 1)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sets only; writes no file")
    quick = parser.parse_args().quick
    threadpool_limits(1)  # one thread for both packages
    repair_sklearn_lvq()
    for model in (GLVQ(), GMLVQ()):  # load everything before the clock starts
        model.fit(*synthetic(100))
    against, scaling = pd.DataFrame(compare(quick)), pd.DataFrame(scale(quick))
    print(against.drop(columns="part").to_string(index=False, float_format="%.4g"))
    both = against.groupby("data", sort=False)[["seconds sklearn-lvq", "seconds"]].sum()
    ratios = (both["seconds sklearn-lvq"] / both["seconds"]).round(1).to_dict()
    print(f"\ntimes faster: at least {against['times faster'].min():.1f}; both models together: {ratios}")
    above = (against["cost"] / against["cost sklearn-lvq"] - 1).max()
    worse = (against["accuracy sklearn-lvq"] - against["accuracy"]).max()
    print(f"cost at most {above:.1g} above sklearn-lvq's (relative), accuracy at most {worse:.1g} below")
    print("\n" + scaling.drop(columns="part").to_string(index=False, float_format="%.4g"))
    print(f"\nseconds = a n^b with b = {exponent(scaling):.2f}")
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        pd.concat([against, scaling]).to_csv(RESULTS, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
