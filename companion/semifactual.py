"""The published way to say what holds a reject: "even if" explanations, by Nelder-Mead with penalties.

Artelt and Hammer (2022) explain a reject by an input that is rejected as well, as different as possible from
the sample, in few features. This is our own implementation of their idea, not their program. What we assume:
the certainty is that of the LVQ model instead of a conformal predictor; distances are in standard deviations;
the answer is clipped to the box of inputs that may occur, so that both halves speak of the same inputs; and
the best of ten searches counts, each from a start that changes two features, as a single one from the sample
itself hardly leaves it.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from lvqrej.certainty import Certainty

Floats = NDArray[np.float64]

#: Changes below this, in standard deviations, count as none.
SMALL = 1e-5
#: What it costs to change one feature too many, and to be more certain than allowed.
SPARSE, CERTAIN = 0.1, 1.0
#: Searches from different starts, and the first steps of each, in standard deviations.
STARTS, STEP = 10, 0.5


def even_if(
    option: Certainty, theta: float, x: Floats, box: tuple[Floats, Floats], scale: Floats, features: int = 2
) -> Floats:
    """Return a far input (d,) that is meant to be rejected and to differ from x in few features.

    min -|u| + SPARSE max(#{k: |u_k| > SMALL} - features, 0)
        + CERTAIN (max(r(z) - theta, 0) + max(r(z) - r(x), 0)),    z = clip(x + scale u), by Nelder-Mead.

    The last term asks that the other input is not more certain than the sample. Nothing guarantees any of
    the three: the answer is where the search stops.

    Parameters
    ----------
    option, theta
        The reject option.
    x : array of shape (d,)
    box : (lower, upper), arrays of shape (d,)
        Which inputs may occur; x is one of them.
    scale : array of shape (d,)
        Standard deviations.
    features : int
        How many features may change.
    """
    before = float(option.certainty(x[None])[0])

    def point(u: Floats) -> Floats:
        return np.clip(x + scale * u, *box)

    def loss(u: Floats) -> float:
        z = point(u)
        moved = np.abs(z - x) / scale
        certainty = float(option.certainty(z[None])[0])
        too_many = max(int((moved > SMALL).sum()) - features, 0)
        too_certain = max(certainty - theta, 0.0) + max(certainty - before, 0.0)
        return -float(np.linalg.norm(moved)) + SPARSE * too_many + CERTAIN * too_certain

    rng, best = np.random.default_rng(0), np.zeros(len(x))
    for _ in range(STARTS):
        first = np.zeros(len(x))
        first[rng.choice(len(x), features, replace=False)] = rng.choice([-1.0, 1.0], size=features)
        simplex = first + np.vstack([np.zeros(len(x)), STEP * np.eye(len(x))])
        found = minimize(loss, first, method="Nelder-Mead", options={"initial_simplex": simplex})
        best = min(best, found.x, key=loss)
    return point(best)


def farthest_corner(
    option: Certainty, theta: float, x: Floats, box: tuple[Floats, Floats], scale: Floats, features: int = 2
) -> float:
    """Return how far a rejected input of few changes can be, at least: the best corner of the box."""
    corners: list[Any] = [x]
    for chosen in combinations(range(len(x)), features):
        for ends in product(*((box[0][k], x[k], box[1][k]) for k in chosen)):
            z = x.copy()
            z[list(chosen)] = ends
            corners.append(z)
    rejected = np.array(corners)
    rejected = rejected[~option.accepts(rejected, theta)]
    return float(np.linalg.norm((rejected - x) / scale, axis=1).max())
