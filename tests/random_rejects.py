"""Random reject options of every kind, each with a sample that it rejects."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

import lvqrej
from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity

KINDS = ("relative similarity", "decision distance", "two probabilities", "three probabilities")
#: The kinds whose search is exact.
EXACT = KINDS[:3]


def random_option(kind: str, seed: int, d: int, per_class: int = 1, scale: float = 1.0) -> Any:
    """Return a random reject option, in units of 1 / scale."""
    rng = np.random.default_rng(seed)
    classes = 2 if kind == "two probabilities" else 3
    if kind in KINDS[:2]:
        m = classes * per_class
        P, L = rng.normal(size=(m, d)), rng.normal(size=(d, d)) / d**0.5
        model = PrototypeModel(P * scale, np.arange(m) % classes, L / scale)
        return (RelativeSimilarity if kind == KINDS[0] else DecisionDistance)(model)
    models = {}
    for pair in combinations(range(classes), 2):
        P, L = rng.normal(size=(2 * per_class, d)), np.eye(d) + 0.2 * rng.normal(size=(d, d))
        models[pair] = PrototypeModel(P * scale, list(pair) * per_class, L / scale)
    slope = np.tril(-4 - 2 * rng.random((classes, classes)), -1)
    shift = np.triu(0.3 * rng.normal(size=(classes, classes)), 1)
    return lvqrej.ProbabilisticCertainty.from_pairs(
        models, slope + slope.T, shift - shift.T, np.arange(classes)
    )


def random_reject(
    kind: str, seed: int, d: int, quantile: float = 0.8, width: float | None = None, per_class: int = 1
) -> tuple[Any, float, np.ndarray, dict[str, Any]]:
    """Return an option, a threshold, a rejected sample and options of explain; bounds make it need more."""
    option = random_option(kind, seed, d, per_class)
    rng = np.random.default_rng([seed, 1])
    X = rng.normal(size=(200, d))
    certainty = option.certainty(X)
    theta = float(np.quantile(certainty, quantile))
    x = X[certainty < theta][seed]
    wide = {} if width is None else {"bounds": {k: (x[k] - width, x[k] + width) for k in range(d)}}
    return option, theta, x, {"weights": rng.uniform(0.5, 2, size=d), **wide}


def random_data(seed: int, d: int = 3, n: int = 60, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return training samples, a cloud around each class's centre, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centres = 3 * rng.normal(size=(classes, d))
    return centres[y] + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.5, size=d), y
