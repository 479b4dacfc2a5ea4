"""A proven bound for normalised probabilities, p(i | x) / S with S = sum_k p(k | x) <= 1.

With t_k = e_ik and E_k >= sum_{j != i, k} e_kj, what is accepted as class i, sum_{k != i} p_k <= kappa p_i,
obeys

    H(t) = (1 + sum_k t_k) sum_k t_k / (1 + (1 + E_k) t_k) <= kappa

since p_k = 1 / (1 + 1/t_k + sum_j e_kj). H rises with every t_k, so within a box of budgets t_k / kappa
each has a largest value when all others take their least. The E_k are the largest within the radius that is
searched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.budgets import share
from lvqrej.joint import Answer, Node, Point
from lvqrej.relaxing import Relaxing

Floats = NDArray[np.float64]


class NormalizedProblem(Relaxing):
    """The relaxation of one sample's problem for the normalised certainty: bounds only, no answers."""

    def __init__(self, known: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.known = known
        self._doubts: tuple[float, dict[int, Floats]] = (np.inf, {})

    def total(self, label: int) -> float:
        """Return infinity: no sum limits the budgets, but `highest`."""
        return np.inf

    def highest(self, label: int, low: Floats, radius: float) -> Floats:
        """Return the largest t_k / kappa with H(t) <= kappa when all others take their least."""
        of, kappa = self.classes[label], float(np.exp(self.log_kappa))
        rest = 1 + self.doubt(label, radius)
        t = kappa * low
        terms = t / (1 + rest * t)
        outer, inner = 1 + of.constant + t.sum() - t, terms.sum() - terms
        # The equation (outer + t) (inner + t / (1 + rest t)) = kappa is quadratic in t.
        a = inner * rest + 1
        b = inner + outer * (inner * rest + 1) - kappa * rest
        c = outer * inner - kappa
        root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
        largest = np.where(b > 0, -2 * c / np.where(b > 0, b + root, 1.0), (root - b) / (2 * a))
        return np.where(c <= 0, largest / kappa * (1 + 1e-9), -1.0)

    def doubt(self, label: int, radius: float) -> Floats:
        """Return E_k for each rival k of the class, the largest within the radius."""
        if self._doubts[0] != radius:
            self._doubts = (radius, {})
        known = self._doubts[1]
        if label not in known:
            result = []
            for k in self.classes[label].rivals:
                of = self.classes[k]
                least = self._best(of, self.region(int(k), radius)[2])
                doubts = share(least, of.a, of.beta)
                result.append(of.constant + float(doubts[of.rivals != label].sum()))
            known[label] = np.array(result)
        return known[label]

    def start(self) -> tuple[float, Answer | None]:
        """Return the length of an answer that is known."""
        return self.known, None

    def restrict(self, node: Node, relaxed: Point | None, cutoff: float) -> tuple[float, Answer | None]:
        """Return no answer: the problem without normalisation gives them."""
        return np.inf, None
