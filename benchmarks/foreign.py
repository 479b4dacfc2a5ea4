"""Tables nobody tuned to, as a new user would explain them: valid, possible, near and in time.

Run as ``OMP_NUM_THREADS=1 python benchmarks/foreign.py``; writes book/results/benchmark_foreign.csv. Tables
come from packages on the Python registry (`companion.foreign`). Seven rows in ten train and calibrate, with
the defaults of `RejectOptionClassifier` but the rejects that are asked for; the rejects among the others are
explained. Whether answers are valid is found out again by textbook formulas on what the fitted
scikit-learn pipelines transform, as the answers are and with relative noise of 1e-9 in every feature. The
share of rejects that was expected, counted on held-out training rows, is compared with the one that was found
by Fisher's exact test (`rate_p`).
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import fisher_exact
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from companion import foreign
from lvqrej import GMLVQ, ProbabilisticCertainty, RejectOptionClassifier

RESULTS = Path(__file__).parents[1] / "book" / "results"
OPTIONS = ("relative-similarity", "decision-distance", "probabilistic")
RATE, NOISE, DRAWS = 0.1, 1e-9, 20
#: Tables whose classes have to be weighed against each other, as the training says in a warning.
UNBALANCED = ("loan defaults", "caravan", "birth weight")


def squares(pipeline: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances to the prototypes of a fitted pipeline, and their labels."""
    Z, model = pipeline[:-1].transform(X), pipeline[-1]
    D = Z[:, None] - model.w_
    return np.square(D @ model.omega_.T).sum(axis=2), model.c_w_


def textbook(classifier: RejectOptionClassifier, pairs: Any, X: np.ndarray) -> np.ndarray:
    """Return r(x) by its definition, of shape (n,)."""
    if pairs is not None:
        return probabilities(classifier.option_, pairs, X).max(axis=1)
    d, labels = squares(classifier.estimator_, X)
    nearest = d.argmin(axis=1)
    other = labels[nearest][:, None] != labels
    plus, minus = d.min(axis=1), np.where(other, d, np.inf).min(axis=1)
    if classifier.option == "relative-similarity":
        return (minus - plus) / (minus + plus)
    rival = np.where(other, d, np.inf).argmin(axis=1)
    model = classifier.estimator_[-1]
    apart = np.square((model.w_[nearest] - model.w_[rival]) @ model.omega_.T).sum(axis=1)
    return (minus - plus) / (2 * apart)


def probabilities(option: Any, pairs: dict[tuple[int, int], Any], X: np.ndarray) -> np.ndarray:
    """Return p(i | x) after Price et al. from pairwise pipelines, of shape (n, classes)."""
    K = len(option.classes)
    odds = np.zeros((len(X), K, K))
    for (i, j), pipeline in pairs.items():
        d, labels = squares(pipeline, X)
        near, far = (d[:, labels == option.classes[c]].min(axis=1) for c in (i, j))
        s = (far - near) / (far + near)
        odds[:, i, j] = np.exp(option.alpha_[i, j] * s + option.beta_[i, j])
        odds[:, j, i] = 1 / odds[:, i, j]
    return 1 / (1 + odds.sum(axis=2))


def same_rate(expected: float, n_expected: int, found: float, n_found: int) -> float:
    """Return the p-value of Fisher's exact test that two shares of rejects are those of one classifier.

    >>> round(same_rate(0.1, 140, 13 / 60, 60), 3)
    0.04
    """
    counts = [(round(share * n), n) for share, n in ((expected, n_expected), (found, n_found))]
    return float(fisher_exact([[k, n - k] for k, n in counts]).pvalue)


def row(name: str, option: str, rejects: int) -> dict[str, Any]:
    """Train, explain and check one table with one option."""
    X, y = foreign.load(name)
    train, test, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    weight = "balanced" if name in UNBALANCED else None
    model = make_pipeline(StandardScaler(), GMLVQ(random_state=0, class_weight=weight))
    classifier = RejectOptionClassifier(model, option, ("reject_rate", RATE)).fit(train, y_train)
    pairs = None
    if isinstance(classifier.option_, ProbabilisticCertainty):  # whose pipelines are trained again
        classes = classifier.option_.classes
        both = {(i, j): y_train.isin(classes[[i, j]]) for i, j in classifier.option_.models()}
        data = train.to_numpy(), y_train.to_numpy()
        pairs = {pair: make_pipeline(StandardScaler(), GMLVQ(random_state=0, class_weight=weight)).fit(
            data[0][mask], data[1][mask]) for pair, mask in both.items()}  # fmt: skip
    rejected = classifier.rejects(test)
    some = test[rejected].iloc[:rejects]
    begin = time.thread_time()
    result = classifier.explain(some, on_infeasible="skip")
    seconds = time.thread_time() - begin
    Z, x = result.counterfactuals[result.found], some.to_numpy(float)[result.found]
    rng = np.random.default_rng(0)
    noisy = [Z * (1 + NOISE * rng.choice([-1.0, 1.0], size=Z.shape)) for _ in range(DRAWS)]
    theta, point = classifier.threshold_, classifier.operating_point_
    seen, steps = classifier.observed_, classifier.observed_.steps
    outside = (np.minimum(seen.lower, x) > Z) | (np.maximum(seen.upper, x) < Z)
    on_grid = (steps == 0) | (np.abs(Z / np.where(steps > 0, steps, 1) % 1 - 0.5) > 0.5 - 1e-6)
    return {
        "table": name, "rows": len(X), "features": X.shape[1], "classes": y.nunique(), "option": option,
        "rate_expected": point.reject_rate, "rate_low": point.reject_rate_interval[0],
        "rate_high": point.reject_rate_interval[1], "rate_found": rejected.mean(),
        "rate_p": same_rate(point.reject_rate, len(train), rejected.mean(), len(test)),
        "rejects": len(some), "found": int(result.found.sum()),
        "valid": (textbook(classifier, pairs, Z) >= theta).mean(),
        "valid_with_noise": np.mean([(textbook(classifier, pairs, one) >= theta).mean() for one in noisy]),
        "impossible": int((outside | ((x != Z) & ~on_grid)).any(axis=1).sum()),
        "changed": result.counts[result.found].mean(),
        "gap_median": np.median(result.gaps[result.found]), "gap_largest": result.gaps.max(initial=0.0),
        "ms": 1e3 * seconds / max(len(some), 1),
    }  # fmt: skip


def main() -> None:
    """Measure all tables and write what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--rejects", type=int, default=100, help="most rejects explained per table and option"
    )
    parser.add_argument("--tables", nargs="*", default=list(foreign.TABLES))
    parser.add_argument("--options", nargs="*", default=list(OPTIONS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in arguments.tables:
        for option in arguments.options:
            rows.append(row(name, option, arguments.rejects))
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    table = pd.DataFrame(rows)
    table.to_csv(arguments.out / "benchmark_foreign.csv", index=False, float_format="%.6g")
    print(table.groupby("option")[["valid", "valid_with_noise", "impossible", "gap_median", "ms"]].mean())


if __name__ == "__main__":
    main()
