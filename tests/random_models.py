"""Random models, thresholds and samples for property tests and the soak test: ordinary and nasty ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lvqrej.certainty import DecisionDistance, RelativeSimilarity
from lvqrej.prototypes import PrototypeModel


@dataclass
class Case:
    """One random problem."""

    option: Any
    theta: float
    X: np.ndarray
    weights: np.ndarray


def random_case(seed: int, *, max_features: int = 64, n: int = 4, exact: bool = True) -> Case:
    """Return a random case: 2-10 classes, 1-8 prototypes each, any rank, twins, scales, extreme theta."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([k for k in (1, 2, 3, 5, 8, 13, 30, 64) if k <= max_features]))
    rank = int(rng.integers(1, d + 1))
    classes = int(rng.choice([2, 2, 3, 3, 4, 5, 10]))
    per_class = int(rng.choice([1, 1, 2, 3, 4, 8])) if classes < 10 else int(rng.integers(1, 3))
    m = classes * per_class
    scale = 10.0 ** rng.uniform(-4, 4, size=d) if rng.random() < 0.3 else np.ones(d)
    P, L = rng.normal(size=(m, d)), rng.normal(size=(rank, d))
    X = rng.normal(size=(n, d)) * rng.choice([0.5, 1, 3])
    if rng.random() < 0.2:
        L = np.eye(d)
    if exact and rng.random() < 0.3:  # lattice points: ties, twins and flat cells abound
        P, X = np.round(P), np.round(X)
    if exact and rng.random() < 0.2:
        P[rng.integers(m)] = P[rng.integers(m)]
    if rng.random() < 0.2:
        X[0], X[-1] = P[0], (P[0] + P[1]) / 2
    shift = float(rng.choice([0, 0, 0, 100]))
    model = PrototypeModel((P + shift) * scale, np.arange(m) % classes, L / scale)
    weights = 1 / scale if rng.random() < 0.8 else np.ones(d)
    kind = int(rng.integers(3))
    if kind == 0:
        theta = float(rng.choice([1e-6, 1e-3, 0.1, 0.3, 0.6, 0.9, 0.99, 1 - 1e-6]))
        return Case(RelativeSimilarity(model), theta, (X + shift) * scale, weights)
    option = DecisionDistance(model, "metric" if kind == 1 else "euclidean")
    positive = option.separations[option.separations > 0]
    unit = 1.0 if kind == 1 or len(positive) == 0 else float(np.median(positive)) ** -1
    return Case(option, float(10 ** rng.uniform(-3, 1)) * unit, (X + shift) * scale, weights)


def random_requirements(case: Case, seed: int, share: float = 1 / 8) -> dict[str, Any]:
    """Return bounds, fixed features, directions, constraints and a target, for a share of the cases."""
    rng = np.random.default_rng([seed, 1])
    d = case.X.shape[1]
    if rng.random() >= share:
        return {}
    low, high = np.sort(
        case.option.model.prototypes[rng.integers(len(case.option.model.prototypes), size=2)], axis=0
    )
    room = 1 / case.weights

    def some(share: float) -> list[int]:
        return np.flatnonzero(rng.random(d) < share).tolist()

    asked: dict[str, Any] = {}
    if rng.random() < 0.4:
        asked["bounds"] = {k: (low[k] - room[k], high[k] + room[k]) for k in some(0.5)}
    for name in ("fixed", "increase_only", "decrease_only"):
        if rng.random() < 0.3:
            asked[name] = some(0.2)
    if rng.random() < 0.4 and d <= 8:
        A = rng.normal(size=(int(rng.integers(1, 4)), d)) / room
        asked["constraints"] = (A, A @ case.X[-1] + rng.normal(size=len(A)))
    if rng.random() < 0.3:
        asked["target"] = rng.choice(case.option.classes).item()
    return asked


def rounding_length(case: Case) -> float:
    """Return the length below which two distances differ by rounding only."""
    model = case.option.model
    reach = np.abs(case.X).max(axis=0) + np.abs(model.prototypes).max(axis=0)
    return 1e-12 * float(case.weights @ reach)
