"""Branch and bound for all samples of a batch, in one compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import compiled
from lvqrej.cells import Ball, HalfSpace
from lvqrej.pairwise.budgets import Classes
from lvqrej.pairwise.comparing import Seen, asked_by, shares
from lvqrej.pairwise.dividing import nearest_change
from lvqrej.pairwise.programs import Convex, without_budgets
from lvqrej.pairwise.relaxing import levels
from lvqrej.pairwise.restricting import around, restriction

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Batch(NamedTuple):
    """Samples, their bounds, and the sites in the metrics of changes weighed: M = L / w, G = M'M."""

    X: Floats  # (n, d)
    lower: Floats  # (n, d)
    upper: Floats  # (n, d)
    weights: Floats  # (d,)
    metrics: Floats  # (M, k, d)
    sites: Floats  # (S, d)
    site_metric: Ints  # (S,)
    G: Floats  # (M + further balls, d, d)
    diagonal: Floats  # (M + further balls, d)
    extra: Convex  # further constraints, rows of C, g, size and reach sample by sample


def batch_of(
    X: Floats,
    weights: Floats,
    lower: Floats,
    upper: Floats,
    metrics: Floats,
    sites: Floats,
    site_metric: Ints,
    further: Sequence[Ball | HalfSpace],
) -> Batch:
    """Return the samples with all that they share, further balls and half-spaces as they see them."""
    balls = [piece for piece in further if isinstance(piece, Ball)]
    factors = [*(metrics / weights), *(ball.L / weights for ball in balls)]
    G = np.array([M.T @ M for M in factors])
    (n, d), e = X.shape, len(further)
    metric, s, C = np.full(e, -1, dtype=np.int64), np.zeros(e), np.empty((n, e, d))
    g, size, reach = np.empty((n, e)), np.empty((n, e)), np.zeros((n, e))
    for k, piece in enumerate(further):
        if isinstance(piece, Ball):
            z = (piece.centre - X) @ piece.L.T
            squares = (z**2).sum(axis=1)
            metric[k], s[k] = len(metrics) + balls.index(piece), 1.0
            C[:, k] = (z @ piece.L) / weights
            g[:, k], size[:, k] = squares - piece.radius**2, squares + piece.radius**2
            reach[:, k] = np.sqrt(squares)
        else:
            terms = piece.normal * X
            C[:, k] = 0.5 * piece.normal / weights
            g[:, k] = -(terms.sum(axis=1) + piece.offset)
            size[:, k] = np.abs(terms).sum(axis=1) + abs(piece.offset)
    extra = without_budgets(metric, s, C.reshape(-1, d), g.ravel(), size.ravel(), reach.ravel())
    diagonal = np.einsum("mii->mi", G).copy()
    X, lower, upper = (np.ascontiguousarray(part) for part in (X, lower, upper))
    return Batch(X, lower, upper, weights, metrics, sites, site_metric, G, diagonal, extra)


@compiled
def seen_by(batch: Batch, i: int) -> Seen:
    """Return sites and further constraints as sample i sees them."""
    x, weights = batch.X[i], batch.weights
    S, d, k = len(batch.sites), len(x), batch.metrics.shape[1]
    u, squares = np.zeros((S, d)), np.zeros(S)
    for s in range(S):
        L = batch.metrics[batch.site_metric[s]]
        for r in range(k):
            z = 0.0
            for f in range(d):
                z += L[r, f] * (batch.sites[s, f] - x[f])
            squares[s] += z * z
            for f in range(d):
                u[s, f] += z * L[r, f]
        for f in range(d):
            u[s, f] /= weights[f]
    e = len(batch.extra.s)
    rows = slice(i * e, (i + 1) * e)
    more = batch.extra
    none = np.empty(0)
    return Seen(
        u, squares, batch.site_metric, batch.G, batch.diagonal,
        (batch.lower[i] - x) * weights, (batch.upper[i] - x) * weights,
        Convex(more.metric, more.s, more.C[rows], more.g[rows], more.size[rows], more.reach[rows],
               np.zeros(e), np.full(e, -1), none, none, none, 1.0),
    )  # fmt: skip


@compiled
def search(
    batch: Batch, rows: Ints, classes: Classes, labels: Ints, log_kappa: float, gap: float, effort: int,
    patience: int, ladder: Floats, start: tuple[int, float, Floats], known: float, limited: bool,
) -> tuple[Floats, Ints, Floats, Floats, Ints]:  # fmt: skip
    """Return values, classes, changes, bounds and relaxations of some samples (see `nearest_change`)."""
    n, d = len(rows), batch.X.shape[1]
    value, label, beta = np.empty(n), np.empty(n, dtype=np.int64), np.empty((n, d))
    bound, nodes = np.empty(n), np.empty(n, dtype=np.int64)
    for i in range(n):
        value[i], label[i], beta[i], bound[i], nodes[i] = nearest_change(
            classes, seen_by(batch, rows[i]), labels, log_kappa, gap, effort, patience, ladder, start,
            known, limited,
        )  # fmt: skip
    return value, label, beta, bound, nodes


@compiled
def cell_around(
    batch: Batch, i: int, classes: Classes, label: int, log_kappa: float, beta: Floats, rounding: float
) -> tuple[Ints, Floats, Convex]:
    """Return the comparisons, their levels and the program of the cell around an answer.

    Scores are asked a hair higher, as rounding in the exponents wants it.
    """
    seen, asked = seen_by(batch, i), asked_by(classes, label, log_kappa)
    targets, budgets = around(asked, seen, beta, np.full(len(asked.a), -1))
    hair = 8 * rounding * (1 + asked.a + np.abs(asked.b) + 2 * abs(log_kappa)) / asked.a
    budgets = shares(np.minimum(levels(budgets, asked) + hair, 1.0), asked)
    rows, _, _, program = restriction(asked, seen, targets, budgets, beta, False)
    return rows, levels(budgets, asked)[asked.pair[rows]], program
