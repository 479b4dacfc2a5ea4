"""Budgets: how much of the room for doubt each pair of classes may take.

A class i is probable enough, p(i | x) >= theta, where sum_j e_ij(x) <= kappa = 1/theta - 1. Given budgets
w_j >= 0 with sum_j w_j <= 1 it suffices, and for some budgets it is necessary, that e_ij <= kappa w_j for
every other class j. With e_ij = exp(-a s_ij + beta_ij) (a = |alpha_ij|, s_ij the score that lowers e_ij)
and b = beta_ij - log kappa this reads

    s_ij(x) >= gamma_ij = (b - log w_j) / a          share taken by a score s: exp(b - a s)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lvqrej.prototypes import PrototypeModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_LARGEST = 700.0  # exp of more is no number


@dataclass(frozen=True, eq=False)
class Rivals:
    """What class i asks of every other class it can lose to: sites, slopes and shifts, as flat arrays.

    Every row c of `pair`, `own`, `other` is one comparison: in the model of rival `pair[c]`, is x nearer to
    site `own[c]` than to `other[c]`, and by how much? For each rival one `own` has to win against all
    `other`.
    """

    rivals: Ints  # (J,) classes
    a: Floats  # (J,) |alpha_ij| > 0
    beta: Floats  # (J,)
    constant: float  # sum of exp(beta_ij) over rivals with alpha_ij = 0
    pair: Ints  # (c,) index into rivals
    own: Ints  # (c,) sites
    other: Ints  # (c,)
    separation: Floats  # (c,) |L (own - other)|^2, 0 for twins

    @cached_property
    def owns(self) -> list[list[int]]:
        """The sites that may win against each rival."""
        return [np.unique(self.own[self.pair == j]).tolist() for j in range(len(self.a))]

    @cached_property
    def choices(self) -> list[tuple[int, Ints]]:
        """Each rival j with each choice of a target: the rows that this target has to win."""
        return [
            (j, np.flatnonzero((self.pair == j) & (self.own == p)))
            for j in range(len(self.a))
            for p in self.owns[j]
        ]


class Classes(NamedTuple):
    """The `Rivals` of all classes, one after the other, as compiled loops read them."""

    rivals: Ints  # (R,)
    a: Floats  # (R,)
    beta: Floats  # (R,)
    constant: Floats  # (K,)
    pair: Ints  # (C,) index into the rivals of the class
    own: Ints  # (C,)
    other: Ints  # (C,)
    separation: Floats  # (C,)
    first_rival: Ints  # (K + 1,) where the rivals of each class begin
    first_row: Ints  # (K + 1,) where its comparisons begin


def flattened(classes: list[Rivals]) -> Classes:
    """Return what all classes ask as flat arrays."""

    def joint(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(of, name) for of in classes])

    def starts(name: str) -> Ints:
        return np.cumsum([0, *(len(getattr(of, name)) for of in classes)]).astype(np.int64)

    return Classes(
        joint("rivals"), joint("a"), joint("beta"), np.array([of.constant for of in classes]),
        joint("pair"), joint("own"), joint("other"), joint("separation"), starts("a"), starts("pair"),
    )  # fmt: skip


def gamma(w: Floats, a: Floats, b: Floats) -> Floats:
    """Return the score that keeps within a budget: (b - log w) / a.

    >>> float(gamma(np.array([0.5]), np.array([4.0]), np.array([0.0]))[0].round(6))
    0.173287
    """
    return (b - np.log(w)) / a


def share(s: Floats, a: Floats, b: Floats) -> Floats:
    """Return the budget that a score takes: exp(b - a s)."""
    return np.exp(np.minimum(b - a * s, _LARGEST))


def log_kappa(theta: float) -> float:
    """Return log(1/theta - 1): infinite for theta <= 0, minus infinity for theta >= 1."""
    if theta <= 0 or theta >= 1:
        return np.inf if theta <= 0 else -np.inf
    return float(np.log1p(-theta) - np.log(theta))


def largest_certainty(of_class: Rivals) -> float:
    """Return what p(i | x) cannot exceed: 1 / (1 + sum_j exp(beta_ij - |alpha_ij|))."""
    return float(
        1 / (1 + of_class.constant + share(np.ones(len(of_class.a)), of_class.a, of_class.beta).sum())
    )


def rivals_of(
    i: int,
    models: dict[tuple[int, int], PrototypeModel],
    first_site: dict[tuple[int, int], int],
    separations: dict[tuple[int, int], Floats],
    alpha: Floats,
    beta: Floats,
    classes: NDArray[np.generic],
) -> Rivals:
    """Return what class i asks; a positive alpha swaps the roles of two classes, alpha = 0 is a constant."""
    rivals: list[int] = []
    rows: list[tuple[int, int, int, float]] = []
    constant = 0.0
    for j in range(len(classes)):
        if j == i:
            continue
        if alpha[i, j] == 0:
            constant += float(np.exp(min(beta[i, j], _LARGEST)))
            continue
        key = (min(i, j), max(i, j))
        winner = models[key].labels == classes[i if alpha[i, j] < 0 else j]
        for p in np.flatnonzero(winner):
            for q in np.flatnonzero(~winner):
                first = first_site[key]
                rows.append((len(rivals), first + int(p), first + int(q), float(separations[key][p, q])))
        rivals.append(j)
    table = np.array(rows, dtype=float).reshape(-1, 4)
    pair, own, other = (table[:, k].astype(np.int64) for k in range(3))
    index = np.array(rivals, dtype=np.int64)
    a, b = np.abs(alpha[i, index]), beta[i, index]
    return Rivals(index, a, b, constant, pair, own, other, table[:, 3].copy())
