"""First answers: inputs that are probable enough, found cheaply, to be improved."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from lvqrej._compiled import inner
from lvqrej.pairwise.comparing import Asked, Seen
from lvqrej.pairwise.doubt import log_doubt

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Lengths tried along each feature, relative to the farthest site: finer near the sample.
LADDER = np.linspace(0.0, 1.0, 33)[1:] ** 2
#: How often the first length that is enough is halved: what follows improves it anyway.
_HALVINGS = 6


@inner
def _enough(asked: Asked, seen: Seen, k: int, t: float) -> bool:
    """Return whether changing feature k by t is probable enough."""
    total, best, worst, n = 0.0, -2.0, 2.0, len(asked.pair)
    for i in range(n):
        p, q, j = asked.own[i], asked.other[i], asked.pair[i]
        bend = t * t * seen.diagonal[seen.metric[p], k]
        near = max(seen.squares[p] - 2 * t * seen.u[p, k] + bend, 0.0)
        far = max(seen.squares[q] - 2 * t * seen.u[q, k] + bend, 0.0)
        score = (far - near) / (far + near) if far + near > 0 else 0.0
        worst = min(worst, score)
        if i + 1 == n or asked.pair[i + 1] != j or asked.own[i + 1] != asked.own[i]:
            best, worst = max(best, worst), 2.0
        if i + 1 == n or asked.pair[i + 1] != j:
            total += np.exp(min(asked.b[j] - asked.a[j] * best, 700.0))
            if total > asked.total:
                return False
            best = -2.0
    return total <= asked.total


@inner
def along_one_feature(asked: Asked, seen: Seen, shortest: float, ladder: Floats) -> tuple[float, int]:
    """Return a change of one feature, shorter than `shortest`, that is probable enough, and the feature.

    The change has a sign; the feature is -1 if a scan finds none.
    """
    feature, length = -1, shortest
    for k in range(len(seen.lo)):
        longest = 0.0
        for i in range(len(asked.pair)):
            p, q = asked.own[i], asked.other[i]
            bend = seen.diagonal[seen.metric[p], k]
            if bend > 0:
                longest = max(longest, 2 * max(abs(seen.u[p, k]), abs(seen.u[q, k])) / bend)
        for sign in (-1.0, 1.0):
            room = seen.hi[k] if sign > 0 else -seen.lo[k]
            rejected, accepted, halvings = 0.0, np.inf, 0
            for step in range(len(ladder) + _HALVINGS):
                if accepted == np.inf:
                    if step >= len(ladder):
                        break
                    t = min(ladder[step] * longest, room)
                else:
                    t = 0.5 * (rejected + accepted)
                    halvings += 1
                if t <= rejected or t >= shortest or halvings > _HALVINGS:
                    break
                if _enough(asked, seen, k, sign * t):
                    accepted = t
                else:
                    rejected = t
            if accepted < shortest:
                shortest, length, feature = accepted, sign * accepted, k
    return length, feature


def by_descent(asked: Asked, seen: Seen) -> tuple[float, Floats]:
    """Return the least doubt that descents from several starts find, and the change there.

    They end with the first one that is probable enough.
    """
    from scipy.optimize import minimize

    # M'M beta = u has the minimum-norm solution that leads to the site's image.
    sites = [np.linalg.lstsq(seen.G[seen.metric[s]], seen.u[s], rcond=1e-12)[0] for s in np.unique(asked.own)]
    middles = [(p + q) / 2 for p, q in combinations(sites, 2)]
    table = np.array([np.zeros(len(seen.lo)), *sites, *middles, np.mean(sites, axis=0)])
    scatter = np.random.default_rng(0).normal(size=(16, len(seen.lo)))
    scatter *= table.std(axis=0) + np.abs(table).mean()
    starts = [np.clip(start, seen.lo, seen.hi) for start in [*table, *(table.mean(axis=0) + scatter)]]
    starts.sort(key=lambda start: log_doubt(start, asked, seen)[0])
    bounds, least, where = list(zip(seen.lo, seen.hi, strict=True)), np.inf, starts[0]
    for start in starts[:12]:
        result = minimize(log_doubt, start, (asked, seen), "L-BFGS-B", True, bounds=bounds)
        if result.fun < least:
            least, where = float(result.fun), np.asarray(result.x, dtype=float)
        if least <= np.log(asked.total):
            break
    return least, where
