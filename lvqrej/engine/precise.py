"""The certificate in extended precision, for models whose features differ in scale by many orders.

There q = sum_j 2 lam_j M_j'(A_j - s_j e_j) has entries of order one, made of terms of order 1e8 and more:
double precision knows them to 1e-7 only, and has to lower the bound by as much. But the images e_j of the
certificate are free, they need not be M_j beta. So they are corrected, in the least squares sense, until the
features that move have q = +-1 exactly and no other one exceeds it: no better answer, only the better proof.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from lvqrej.engine.cone import Program

Floats = NDArray[np.float64]

#: Corrections; each gains the digits that a double has left.
_CORRECTIONS = 4


def precise_bound(program: Program, beta: Floats) -> float:
    """Return a certified lower bound from an answer beta, of a program in extended precision."""
    e, signs = program.images(beta), np.sign(beta)
    moving = (program.lo < beta) & (beta < program.hi) & (beta != 0)
    tight = np.flatnonzero(program.values(beta) >= -2 * program.margin)
    lam = np.zeros(len(program.g), dtype=program.g.dtype)
    if len(tight) == 0 or not moving.any():
        return 0.0
    # What counts is how far the images have to be corrected: little, where a feature's columns are long.
    length = np.sqrt(sum((program.M[j][:, moving] ** 2).sum(axis=0) for j in tight))
    length[length == 0] = 1.0
    lam[tight] = _multipliers(program.gradients(e)[np.ix_(tight, moving)] / length, signs[moving] / length)
    curved = [j for j in tight if lam[j] * program.s[j] > 0]
    best = program.bound(e, lam)
    for _ in range(_CORRECTIONS if curved else 0):
        q = lam @ program.gradients(e)
        free = np.where(q > 0, program.hi, -program.lo) > 0
        held = moving | (free & (np.abs(q) > 1))
        target = np.where(moving, signs, np.sign(q))[held]
        slopes = np.vstack([-2 * lam[j] * program.s[j] * program.M[j][:, held] for j in curved]).T
        length = np.sqrt((slopes**2).sum(axis=1))
        length[length == 0] = 1.0
        wanted = ((target - q[held]) / length).astype(float)
        change = np.linalg.lstsq((slopes / length[:, None]).astype(float), wanted, rcond=None)[0]
        for j in curved:
            e[j] = e[j] + change[: len(e[j])]
            change = change[len(e[j]) :]
        best = max(best, program.bound(e, lam))
    return best


def _multipliers(rows: Floats, signs: Floats) -> Floats:
    """Return lam >= 0 for which lam'rows is nearest to the signs."""
    length = np.maximum(np.sqrt((rows**2).sum(axis=1)), 1e-300)
    unit = np.sqrt(signs @ signs)
    lam = nnls((rows / length[:, None]).T.astype(float), (signs / unit).astype(float))[0]
    return lam * unit / length
