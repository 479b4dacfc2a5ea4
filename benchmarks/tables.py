"""Tables as they are, with categories, gaps and whole numbers: valid, possible, near and in time.

Run as ``OMP_NUM_THREADS=1 python benchmarks/tables.py``; writes book/results/benchmark_tables.csv. Tables
come from packages on the Python registry (`companion.foreign`). Seven rows in ten train and calibrate, with
the defaults of `RejectOptionClassifier` but the rejects that are asked for; rejects among the others are
explained one at a time, at the usual costs and with numbers that cost ten times as much, so that levels have
to change. Whether answers are valid is found out again from their own columns, by the fitted steps of
scikit-learn and textbook formulas alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from companion import foreign
from lvqrej import GMLVQ, ProbabilisticCertainty, RejectOptionClassifier
from lvqrej.fitting import default_steps

RESULTS = Path(__file__).parents[1] / "book" / "results"
OPTIONS = ("relative-similarity", "decision-distance", "probabilistic")
RATE = 0.1
#: How many times as much as usual numbers cost, so that levels change as well.
COSTS = (1.0, 10.0)


def squares(model: Any, Z: np.ndarray) -> np.ndarray:
    """Return squared distances to the prototypes of a fitted model, of shape (n, m)."""
    return np.square((Z[:, None] - model.w_) @ model.omega_.T).sum(axis=2)


def textbook(name: str, models: dict[Any, Any], platt: Any, Z: np.ndarray) -> np.ndarray:
    """Return r(x) of transformed rows by its definition, of shape (n,)."""
    if name == "probabilistic":
        alpha, beta, classes = platt
        odds = np.zeros((len(Z), len(classes), len(classes)))
        for (i, j), model in models.items():
            d = squares(model, Z)
            near, far = (d[:, model.c_w_ == classes[c]].min(axis=1) for c in (i, j))
            odds[:, i, j] = np.exp(alpha[i, j] * (far - near) / (far + near) + beta[i, j])
            odds[:, j, i] = 1 / odds[:, i, j]
        return (1 / (1 + odds.sum(axis=2))).max(axis=1)
    model = models[()]
    d, rows = squares(model, Z), np.arange(len(Z))
    plus = d.argmin(axis=1)
    others = np.where(model.c_w_[plus][:, None] != model.c_w_, d, np.inf)
    minus = others.argmin(axis=1)
    gain = d[rows, minus] - d[rows, plus]
    if name == "relative-similarity":
        return gain / (d[rows, minus] + d[rows, plus])
    apart = np.square((model.w_[plus] - model.w_[minus]) @ model.omega_.T).sum(axis=1)
    return gain / (2 * apart)


def rows_of(name: str, option: str, rejects: int) -> list[dict[str, Any]]:
    """Train, explain and check one table with one option, at usual and at larger costs of numbers."""
    X, y = foreign.load_mixed(name)
    train, test, y_train, _ = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    begin = time.perf_counter()
    classifier = RejectOptionClassifier(option=option, threshold=("reject_rate", RATE)).fit(train, y_train)
    fitting = time.perf_counter() - begin
    steps, platt = default_steps(train).fit(train), None
    if isinstance(classifier.option_, ProbabilisticCertainty):  # whose models are trained again
        fitted, Z = classifier.option_, steps.transform(train)
        platt = fitted.alpha_, fitted.beta_, fitted.classes
        both = {pair: y_train.isin(fitted.classes[list(pair)]).to_numpy() for pair in fitted.models()}
        models = {
            pair: clone(GMLVQ(random_state=0)).fit(Z[mask], y_train[mask]) for pair, mask in both.items()
        }
    else:
        models = {(): classifier.estimator_[-1]}
    some = test[classifier.rejects(test)].iloc[:rejects]
    others = [column for column in X if X[column].dtype.kind not in "iuf"]
    rows = []
    for times in COSTS:
        usual = dict(zip(X.columns, 1 / classifier.scale_, strict=True))
        weights = {c: times * w if c not in others else w for c, w in usual.items()}
        asked = {"weights": weights, "on_infeasible": "skip"}
        seconds = []
        for i in range(len(some)):
            begin = time.thread_time()
            classifier.explain(some.iloc[[i]], **asked)
            seconds.append(time.thread_time() - begin)
        begin = time.thread_time()
        result = classifier.explain(some, **asked)
        batch = time.thread_time() - begin
        rows.append({"numbers_cost": times, "batch": batch, "seconds": seconds, "result": result})
    return [
        checked(X, y, train, some, option, classifier, fitting, steps, models, platt, **one) for one in rows
    ]


def checked(
    X: Any, y: Any, train: Any, some: Any, option: str, classifier: Any, fitting: float, steps: Any,
    models: Any, platt: Any, *, numbers_cost: float, batch: float, seconds: list[float], result: Any,
) -> dict[str, Any]:  # fmt: skip
    """Check answers by the steps and the formulas alone."""
    answers = result.to_frame()[X.columns][result.found]
    r = textbook(option, models, platt, steps.transform(answers))
    others = [column for column in X if X[column].dtype.kind not in "iuf"]
    known = all(set(answers[c].dropna()) <= set(train[c].dropna()) | set(some[c].dropna()) for c in others)
    whole = [c for c in X if c not in others and (X[c].dropna() % 1 == 0).all()]
    changed = result.changed[result.found]
    at = [X.columns.get_loc(c) for c in others]
    return {
        "rows": len(X), "numbers": X.shape[1] - len(others), "categories": len(others),
        "levels": int(sum(train[c].nunique() for c in others)),
        "with_gaps": int(X.isna().any(axis=1).sum()), "classes": y.nunique(), "option": option,
        "numbers_cost": numbers_cost, "fit_seconds": fitting, "rejects": len(some),
        "found": int(result.found.sum()),
        "valid": float((r >= classifier.threshold_ - 1e-9).mean()),
        "known_levels": known,
        "whole": bool(all((answers[c].dropna() % 1 == 0).all() for c in whole)),
        "change_a_level": float(changed[:, at].any(axis=1).mean()),
        "changed": float(result.counts[result.found].mean()),
        "gap_median": float(np.median(result.gaps[result.found])),
        "gap_largest": float(result.gaps.max(initial=0.0)),
        "ms_median": 1e3 * float(np.median(seconds)), "ms_largest": 1e3 * max(seconds),
        "ms_in_a_batch": 1e3 * batch / max(len(some), 1),
        "sentence": str(result[int(result.found.argmax())]),
    }  # fmt: skip


def main() -> None:
    """Measure all tables and write what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--rejects", type=int, default=50, help="most rejects explained per table and option")
    parser.add_argument("--tables", nargs="*", default=list(foreign.MIXED))
    parser.add_argument("--options", nargs="*", default=list(OPTIONS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in arguments.tables:
        for option in arguments.options:
            for row in rows_of(name, option, arguments.rejects):
                rows.append({"table": name} | row)
                print(
                    {k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True
                )
    table = pd.DataFrame(rows)
    table.to_csv(arguments.out / "benchmark_tables.csv", index=False, float_format="%.6g")
    print(table.groupby("option")[["valid", "gap_median", "ms_median", "ms_largest"]].mean())


if __name__ == "__main__":
    main()
