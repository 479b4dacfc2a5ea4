"""From pairwise models and their calibration to the set of inputs that are probable enough."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.cells import Cells
from lvqrej.certainty import separations
from lvqrej.pairwise.budgets import Classes, Rivals, flattened, log_kappa, rivals_of
from lvqrej.pairwise.joint_cells import EFFORT, GAP, JointCells
from lvqrej.prototypes import PrototypeModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Pairs(NamedTuple):
    """The pairwise models as arrays, whatever the threshold: what each class asks, metrics and sites."""

    classes: list[Rivals]
    flat: Classes
    descents: dict[bytes, tuple[float, Floats]]  # what `JointCells` remembers
    metrics: Floats  # (M, k, d), padded with rows of zeros
    sites: Floats  # (S, d)
    site_metric: Ints  # (S,)


def pairs_of(
    models: dict[tuple[int, int], PrototypeModel], alpha: Floats, beta: Floats, classes: NDArray[Any]
) -> Pairs:
    """Return the pairwise models and their calibration as arrays."""
    keys, parts = list(models), list(models.values())
    sizes = [len(model.prototypes) for model in parts]
    first_site = dict(zip(keys, np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist(), strict=True))
    apart = {key: separations(model.prototypes, model._Lt) for key, model in models.items()}
    rivals = [rivals_of(i, models, first_site, apart, alpha, beta, classes) for i in range(len(classes))]
    metrics = np.zeros((len(parts), max(len(model.L) for model in parts), parts[0].n_features))
    for m, model in enumerate(parts):
        metrics[m, : len(model.L)] = model.L
    sites = np.vstack([model.prototypes for model in parts])
    return Pairs(rivals, flattened(rivals), {}, metrics, sites, np.repeat(np.arange(len(parts)), sizes))


def joint_cells(
    option: Any, pairs: Pairs, theta: float, gap: float = GAP, effort: int = EFFORT
) -> Cells | JointCells:
    """Return the accepted set of a probabilistic certainty: `Cells` if two classes need balls only."""
    K = len(option.classes)
    if K == 2:
        theta = max(theta, 0.5)  # of two probabilities that add up to 1 the larger is at least 1/2
        union = _two_classes(pairs, theta)
        if union is not None:
            return union
    labels = tuple(range(K)) if theta < 1 else ()
    return JointCells(option, theta, *pairs, labels, gap=gap, effort=effort)


def _two_classes(pairs: Pairs, theta: float) -> Cells | None:
    """Return the cells of two classes, one per target; None if a score below 0 is enough (no ball)."""
    rows: list[tuple[int, int, float]] = []
    start, labels = [0], []
    for label, of in enumerate(pairs.classes):
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
    return score_cells(pairs, rows, start, labels)


def score_cells(
    models: Any, rows: list[tuple[int, int, float]], start: list[int], labels: list[int]
) -> Cells:
    """Return cells of scores that are high enough: (d_other - d_own) / (d_other + d_own) >= score.

    Parameters
    ----------
    models : Pairs or JointCells
        Whose metrics and sites they are.
    rows : list of (own, other, score)
        Two sites and the score, from 0 to 1, that is asked of them.
    start, labels : lists of int
        Cell c, of class labels[c], has the rows from start[c] to start[c + 1].
    """
    table = np.array(rows, dtype=float).reshape(-1, 3)
    return Cells(
        metrics=models.metrics,
        sites=models.sites,
        site_metric=models.site_metric,
        near=table[:, 0].astype(np.int64),
        far=table[:, 1].astype(np.int64),
        alpha=1 + table[:, 2],
        beta=1 - table[:, 2],
        gamma=np.zeros(len(table)),
        start=np.array(start, dtype=np.int64),
        labels=np.array(labels, dtype=np.int64),
        site_names=[f"prototype {k}" for k in range(len(models.sites))],
    )
