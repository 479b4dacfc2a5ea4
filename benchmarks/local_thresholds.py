"""Local against global thresholds on samples that neither has seen, on tables nobody tuned anything to.

Run as ``OMP_NUM_THREADS=1 python benchmarks/local_thresholds.py``; writes
book/results/benchmark_local_thresholds.csv. Per table, model and option: several random divisions into 40 %
training, 30 % calibration, 30 % test. Thresholds are chosen on the calibration samples for some rates of
rejects. On the test samples the local ones are compared with the global threshold that rejects as many there.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from companion import foreign
from lvqrej import GLVQ, GMLVQ, DecisionDistance, PrototypeModel, RelativeSimilarity, accuracy_reject_curve
from lvqrej.lvq import PrototypeWarning
from lvqrej.thresholds import local_curve

RESULTS = Path(__file__).parents[1] / "book" / "results"
OWN = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
FOREIGN = ("glass", "diabetes", "orange juice", "cars", "biopsy", "birth weight")
MODELS = {"GLVQ, 1 per class": GLVQ(), "GLVQ, 3 per class": GLVQ(prototypes_per_class=3), "GMLVQ": GMLVQ()}
OPTIONS = {"relative similarity": RelativeSimilarity, "decision distance": DecisionDistance}
RATES = (0.05, 0.1, 0.2)


def accuracy_at(curve: Any, rate: float) -> float:
    """Return the accuracy of a global threshold at a rate of rejects, between its points on a line."""
    return float(np.interp(rate, curve.reject_rates[:-1], curve.accuracies[:-1]))


def gains(model: Any, kind: Any, X: np.ndarray, y: np.ndarray, seed: int) -> list[dict[str, float]]:
    """Return for each rate what local thresholds gain in accuracy, on calibration and on test samples."""
    A, rest, a, left = train_test_split(X, y, train_size=0.4, random_state=seed, stratify=y)
    B, C, b, c = train_test_split(rest, left, train_size=0.5, random_state=seed, stratify=left)
    option = kind(PrototypeModel.of(make_pipeline(StandardScaler(), model).fit(A, a)))
    seen = option.certainty(B), option.predict(B) == b
    local = local_curve(*seen, option.nearest(B), len(option.model.prototypes))
    everywhere = accuracy_reject_curve(*seen)
    r, right, nearest = option.certainty(C), option.predict(C) == c, option.nearest(C)
    unseen, rows = accuracy_reject_curve(r, right), []
    for rate in RATES:
        point = local.at_reject_rate(rate)
        accepted = r >= point.threshold[nearest]
        rejected = 1 - accepted.mean()
        rows.append(
            {
                "rate": rate,
                "gain_calibration": point.accuracy - accuracy_at(everywhere, point.reject_rate),
                "gain_test": right[accepted].mean() - accuracy_at(unseen, rejected),
                "accuracy_test": right[accepted].mean(),
                "rejected_test": rejected,
                "rejected_test_global": (r < everywhere.at_reject_rate(rate).threshold).mean(),
            }
        )
    return rows


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--divisions", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS / "benchmark_local_thresholds.csv")
    given = parser.parse_args()
    warnings.simplefilter("ignore", PrototypeWarning)
    rows = []
    for table in (*OWN, *FOREIGN):
        X, y = OWN[table](return_X_y=True) if table in OWN else map(np.asarray, foreign.load(table, 1500))
        for name, model in MODELS.items():
            for option, kind in OPTIONS.items():
                draws = [row for seed in range(given.divisions) for row in gains(model, kind, X, y, seed)]
                frame = pd.DataFrame(draws).groupby("rate")
                mean, error = frame.mean(), frame["gain_test"].sem().rename("gain_test_error")
                part = mean.join(error).reset_index()
                rows.append(part.assign(table=table, samples=len(X), model=name, option=option))
                print(rows[-1].round(4).to_string(header=False, index=False), flush=True)
    columns = ["table", "samples", "model", "option"]
    result = pd.concat(rows)
    result[columns + [c for c in result if c not in columns]].round(5).to_csv(given.out, index=False)


if __name__ == "__main__":
    main()
