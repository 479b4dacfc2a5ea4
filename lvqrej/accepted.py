"""From pairwise models and their calibration to the set of inputs that are probable enough."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.budgets import Rivals, log_kappa, rivals_of
from lvqrej.cells import Cells
from lvqrej.certainty import separations
from lvqrej.joint_cells import EFFORT, GAP, JointCells

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def joint_cells(option: Any, theta: float, gap: float = GAP, effort: int = EFFORT) -> Cells | JointCells:
    """Return the accepted set of a probabilistic certainty: `Cells` if two classes need balls only."""
    K, keys = len(option.classes), list(option.models_)
    models = [option.models_[key] for key in keys]
    first = np.concatenate([[0], np.cumsum([len(model.prototypes) for model in models])]).tolist()
    first_site = dict(zip(keys, first[:-1], strict=True))
    apart = {key: separations(model.prototypes, model._Lt) for key, model in option.models_.items()}
    classes = [
        rivals_of(i, option.models_, first_site, apart, option.alpha_, option.beta_, option.classes)
        for i in range(K)
    ]
    k = max(len(model.L) for model in models)
    metrics = np.zeros((len(models), k, option.n_features))
    for m, model in enumerate(models):
        metrics[m, : len(model.L)] = model.L
    sites = np.vstack([model.prototypes for model in models])
    site_metric = np.repeat(np.arange(len(models)), [len(model.prototypes) for model in models])
    if K == 2:
        theta = max(theta, 0.5)  # of two probabilities that add up to 1 the larger is at least 1/2
        union = _two_classes(classes, theta, metrics, sites, site_metric)
        if union is not None:
            return union
    labels = tuple(range(K)) if theta < 1 else ()
    return JointCells(option, theta, classes, metrics, sites, site_metric, labels, gap=gap, effort=effort)


def _two_classes(
    classes: list[Rivals], theta: float, metrics: Floats, sites: Floats, site_metric: Ints
) -> Cells | None:
    """Return the cells of two classes, one per target; None if a score below 0 is enough (no ball)."""
    rows: list[tuple[int, int, float]] = []
    start, labels = [0], []
    for label, of in enumerate(classes):
        least = -2.0 if of.constant <= np.exp(log_kappa(theta)) else 2.0
        if len(of.a):
            least = float((of.beta[0] - log_kappa(theta)) / of.a[0])
        if -1 < least < 0:
            return None
        if least > 1:
            continue
        targets = [row for _, row in of.choices] if least > -1 else [np.empty(0, dtype=np.int64)]
        for row in targets:
            apart = of.separation[row] > 0
            if least > 0 and not apart.all():
                continue
            rows += [(int(of.own[c]), int(of.other[c]), least) for c in row[apart]]
            start.append(len(rows))
            labels.append(label)
    table = np.array(rows, dtype=float).reshape(-1, 3)
    return Cells(
        metrics=metrics,
        sites=sites,
        site_metric=site_metric,
        near=table[:, 0].astype(np.int64),
        far=table[:, 1].astype(np.int64),
        alpha=1 + table[:, 2],
        beta=1 - table[:, 2],
        gamma=np.zeros(len(table)),
        start=np.array(start, dtype=np.int64),
        labels=np.array(labels, dtype=np.int64),
        site_names=[f"prototype {k}" for k in range(len(sites))],
    )
