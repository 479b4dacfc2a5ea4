"""Freeze explanations of real models, so that another search can be compared with the one of today.

    python tests/package/golden/freeze.py [FILE]

Models, thresholds, samples, requirements and answers go into one file: whoever compares trains nothing. Only
public names are used, so that any edition of the package can freeze and be compared.
"""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lvqrej import (
    GLVQ,
    GMLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    explain,
)

FILE = Path(__file__).with_name("answers.json.gz")
QUANTILES = (0.1, 0.3, 0.5, 0.75, 0.95)
REQUIREMENTS = (
    "nothing", "weights", "bounds", "fixed", "one-way", "target", "inequalities", "equality",
    "bounds one-way", "weights bounds target", "fixed inequalities", "bounds equality",
    "weights one-way target", "inequalities target", "almost all fixed", "tight bounds",
    "weights fixed bounds one-way inequalities target",
)  # fmt: skip
PROBABILISTIC = (
    "nothing", "weights", "bounds", "target", "inequalities", "fixed", "one-way", "weights bounds target",
    "bounds inequalities", "equality", "almost all fixed",
)  # fmt: skip


def data(name: str) -> tuple[Any, Any]:
    """Return samples and labels of one of scikit-learn's data sets."""
    load = {"wine": load_wine, "cancer": load_breast_cancer, "iris": load_iris, "digits": load_digits}[name]
    X, y = load(return_X_y=True)
    return (X[::3], y[::3]) if name == "digits" else (X, y)


def estimators() -> Iterator[tuple[str, Any]]:
    """Yield what is trained for the certainties of one model: name of the data, estimator."""
    for name, counts in (("wine", (1, 2, 3)), ("cancer", (1, 3)), ("iris", (1, 2, 3))):
        for count in counts:
            yield name, GLVQ(count, random_state=0)
            yield name, GMLVQ(count, random_state=0, regularization=0.001)
    yield "wine", GMLVQ(2, random_state=0, initialdim=2)
    yield "cancer", GMLVQ(1, random_state=0, initialdim=3)
    yield "iris", GMLVQ(2, random_state=0, initialdim=1)
    yield "digits", GLVQ(1, random_state=0)
    yield "digits", GMLVQ(1, random_state=0, initialdim=4)


def name_of(estimator: Any) -> str:
    """Return kind, prototypes per class and rank of an estimator."""
    rank = getattr(estimator, "initialdim", None)
    return f"{type(estimator).__name__} {estimator.prototypes_per_class}" + (f" rank {rank}" if rank else "")


def rounded(values: Any) -> Any:
    """Return numbers as somebody would type them."""
    return np.vectorize(lambda value: float(f"{value:.4g}"))(values).tolist()


def requirements(words: str, X: Any, classes: list[Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return random requirements of the kinds that are named, of sizes that suit the data X."""
    d = X.shape[1]
    spread = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    result: dict[str, Any] = {}
    rows: list[Any] = []
    sides: list[float] = []
    if "weights" in words:
        result["weights"] = rounded(rng.uniform(0.3, 3, d) / spread)
    if "almost all fixed" in words:
        result["fixed"] = sorted(rng.choice(d, d - 1 - d // 8, replace=False).tolist())
    elif "fixed" in words:
        result["fixed"] = sorted(rng.choice(d, max(1, d // 4), replace=False).tolist())
    if "one-way" in words:
        ways = rng.permutation(d)
        result["increase_only"] = sorted(ways[: max(1, d // 5)].tolist())
        result["decrease_only"] = sorted(ways[-max(1, d // 5) :].tolist())
    if "bounds" in words:
        outer = 0.3 if "tight" in words else rng.choice([0.0, 0.05])
        low, high = np.quantile(X, [outer, 1 - outer], axis=0)
        open_side = rng.integers(4, size=d)  # 0: no lower bound, 1: no upper bound
        result["bounds"] = [
            [k, None if open_side[k] == 0 else low_k, None if open_side[k] == 1 else high_k]
            for k, (low_k, high_k) in enumerate(zip(rounded(low), rounded(high), strict=True))
        ]
    if "inequalities" in words:
        for _ in range(2):
            row = np.zeros(d)
            row[rng.choice(d, min(3, d), replace=False)] = rng.choice([-1, 1], min(3, d))
            row = np.array(rounded(row / spread))
            rows, sides = [*rows, row], [*sides, rounded(np.quantile(X @ row, 0.6))]
    if "equality" in words:
        # Ones, and 0 where numbers of both signs are added: floating-point numbers meet that exactly.
        row = np.zeros(d)
        row[rng.choice(np.flatnonzero(X.std(axis=0)), 2, replace=False)] = 1
        middle = np.median(X @ row)
        side = rounded(middle) if abs(middle) > spread @ row else 0.0
        rows, sides = [*rows, row, -row], [*sides, side, -side]
    if rows:
        result["constraints"] = [np.array(rows).tolist(), sides]
    if "target" in words:
        result["target"] = classes[rng.integers(len(classes))]
    return result


def stored(option: Any) -> dict[str, Any]:
    """Return the arrays an option is made of."""
    if isinstance(option, ProbabilisticCertainty):
        models = list(option.models_.values())
        calibration = {"alpha": option.alpha_.tolist(), "beta": option.beta_.tolist()}
        own = {**calibration, "classes": option.classes.tolist(), "normalize": option.normalize}
        own["pairs"] = [list(pair) for pair in option.models_]
    else:
        models = [option.model]
        own = {"norm": option.norm} if isinstance(option, DecisionDistance) else {}
    arrays = [[model.prototypes.tolist(), model.labels.tolist(), model.L.tolist()] for model in models]
    return {"kind": type(option).__name__, "models": arrays, **own}


class Answers:
    """What has been frozen so far: options, and cases that refer to them by position."""

    def __init__(self) -> None:
        self.options: list[dict[str, Any]] = []
        self.cases: list[dict[str, Any]] = []

    def add(self, name: str, option: Any, X: Any, kinds: list[str], n: int) -> None:
        """Explain n rejects per kind of requirements, at one quantile of the certainty after the other."""
        if stored(option) not in self.options:
            self.options.append(stored(option))
        certainty = option.certainty(X)
        for words in kinds:
            number = len(self.cases)
            rng = np.random.default_rng(number)
            theta = float(np.quantile(certainty, QUANTILES[number % len(QUANTILES)]))
            rejects = np.flatnonzero(certainty < theta)
            samples = X[rng.choice(rejects, min(n, len(rejects)), replace=False)]
            required = requirements(words, X, option.classes.tolist(), rng)
            given = dict(required)
            if "bounds" in required:
                given["bounds"] = {k: (low, high) for k, low, high in required["bounds"]}
            result = explain(option, theta, samples, on_infeasible="skip", **given)
            found = result.found.tolist()
            self.cases.append(
                {
                    "name": f"{name}, {words}",
                    "option": self.options.index(stored(option)),
                    "theta": theta,
                    "requirements": required,
                    "samples": samples.tolist(),
                    "found": found,
                    "distances": np.where(found, result.distances, np.inf).tolist(),
                    "lower_bounds": result.lower_bounds.tolist(),
                    "labels": [
                        label if ok else None for label, ok in zip(result.labels.tolist(), found, strict=True)
                    ],
                }
            )


def freeze(file: Path) -> None:
    """Train, explain and write the file."""
    answers = Answers()
    turn = cycle(REQUIREMENTS)
    for number, (name, estimator) in enumerate(estimators()):
        X, y = data(name)
        raw = number % 3 == 2 and name != "digits"
        pipeline = make_pipeline(StandardScaler(), estimator).fit(X, y)
        model = PrototypeModel.of(pipeline if raw else estimator)
        title = f"{name}{' raw' if raw else ''}, {name_of(estimator)}"
        samples = X if raw else pipeline[0].transform(X)
        for option, count, n in (
            (RelativeSimilarity(model), 9, 5),
            (DecisionDistance(model, "metric"), 5, 4),
            (DecisionDistance(model, "euclidean"), 4, 4),
        ):
            norm = f" {option.norm}" if isinstance(option, DecisionDistance) else ""
            count, n = (3, 2) if name == "digits" else (count, n)
            kinds = list(islice(turn, count))
            answers.add(f"{type(option).__name__}{norm}, {title}", option, samples, kinds, n)
    for name, labels, estimator, normalize, count in (
        ("cancer", (0, 1), GMLVQ(1, random_state=0, regularization=0.001), False, 11),
        ("cancer", (0, 1), GLVQ(2, random_state=0), True, 11),
        ("wine", (0, 1), GLVQ(1, random_state=0), False, 11),
        ("iris", (1, 2), GMLVQ(2, random_state=0, regularization=0.001), False, 11),
        ("iris", (0, 1, 2), GLVQ(1, random_state=0), False, 11),
        ("iris", (0, 1, 2), GMLVQ(1, random_state=0, regularization=0.001), False, 11),
        ("wine", (0, 1, 2), GLVQ(2, random_state=0), False, 11),
        ("wine", (0, 1, 2), GMLVQ(1, random_state=0, regularization=0.001), False, 11),
        ("wine", (0, 1, 2), GMLVQ(1, random_state=0, initialdim=2), False, 11),
        # The search has large gaps if the probabilities are normalized: a few will do.
        ("iris", (0, 1, 2), GLVQ(2, random_state=0), True, 4),
        ("wine", (0, 1, 2), GLVQ(1, random_state=0), True, 4),
        ("digits", (0, 1, 2, 3), GLVQ(1, random_state=0), False, 2),
    ):
        X, y = data(name)
        X, y = X[np.isin(y, labels)], y[np.isin(y, labels)]
        raw = bool(len(answers.options) % 2)
        samples = X if raw else StandardScaler().fit_transform(X)
        certainty = ProbabilisticCertainty(
            make_pipeline(StandardScaler(), estimator) if raw else estimator, normalize=normalize
        ).fit(samples, y)
        title = f"{name} {len(labels)} classes{' raw' if raw else ''}, {name_of(estimator)}"
        answers.add(
            f"{type(certainty).__name__}{' normalized' if normalize else ''}, {title}",
            certainty, samples, list(PROBABILISTIC[:count]), 4,
        )  # fmt: skip
    text = json.dumps({"options": answers.options, "cases": answers.cases}, separators=(",", ":"))
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what training says of convergence is of no interest here
        freeze(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
