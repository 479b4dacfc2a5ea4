"""Synthetic stand-ins for Flip and T21: drawn at random from published summary statistics, of no person.

They have the size, the imbalance and the defects of the paper's data, so that every experiment can be
run by everyone. They are not that data: a number computed from them says nothing about the published ones.
Every value is rounded as a laboratory would report it, which also makes the draw equal on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from companion.datafile import DataSet
from lvqrej.validation import check_number

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Marker:
    """A laboratory value in two groups of patients: centre and spread, of the logarithm if `log`.

    `centre` and `affected` are medians in the value's own unit; `low` is the least value possible.
    """

    name: str
    centre: float
    spread: float
    affected: float
    affected_spread: float
    low: float
    decimals: int
    log: bool = False

    def values(self, z: Array, affected: NDArray[np.bool_]) -> Array:
        """Turn standard normal draws `z`, of shape (n,), into values of the marker."""
        spread = np.where(affected, self.affected_spread, self.spread)
        centre = np.where(affected, self.affected, self.centre)
        drawn = centre * np.exp(spread * z) if self.log else centre + spread * z
        return np.round(np.maximum(drawn, self.low), self.decimals)


# Medians and spreads without and with advanced fibrosis; which of them are published, flip_synthetic says.
FLIP_MARKERS = (
    Marker("age", 45.5, 12.5, 60.0, 11.0, 18, 0),
    Marker("BMI", 32.0, 6.0, 33.5, 6.0, 17, 1),
    Marker("blood glucose", 102, 0.22, 122, 0.28, 55, 0, log=True),
    Marker("total cholesterol", 190, 40, 176, 40, 80, 0),
    Marker("HDL cholesterol", 50, 13, 46, 13, 15, 0),
    Marker("triglycerides", 177, 0.50, 185, 0.50, 30, 0, log=True),
    Marker("ALT", 36, 0.70, 57, 0.60, 6, 0, log=True),
    Marker("AST", 25, 0.55, 55, 0.52, 8, 0, log=True),
    Marker("gamma-GT", 60, 0.89, 100, 0.89, 8, 0, log=True),
    Marker("bilirubin", 0.45, 0.51, 0.57, 0.50, 0.1, 1, log=True),
    Marker("platelets", 285, 70, 205, 75, 20, 0),
    Marker("albumin", 39, 3.7, 38, 4.2, 20, 0),
)
FLIP_CORRELATIONS = {
    ("ALT", "AST"): 0.75,
    ("ALT", "gamma-GT"): 0.40,
    ("AST", "gamma-GT"): 0.40,
    ("triglycerides", "HDL cholesterol"): -0.40,
    ("triglycerides", "total cholesterol"): 0.30,
    ("HDL cholesterol", "total cholesterol"): 0.20,
    ("blood glucose", "triglycerides"): 0.25,
    ("age", "blood glucose"): 0.25,
    ("BMI", "blood glucose"): 0.20,
    ("BMI", "HDL cholesterol"): -0.20,
    ("age", "platelets"): -0.15,
    ("bilirubin", "albumin"): -0.20,
    ("platelets", "albumin"): 0.15,
}
FLIP_OUTLIER = {"blood glucose": 486.0, "triglycerides": 2940.0, "gamma-GT": 1712.0}


def flip_synthetic(random_state: int = 0) -> DataSet:
    """Return the stand-in for Flip: 136 x 12, 21 with fibrosis, 4 % of values missing, one outlier.

    Parameters
    ----------
    random_state : int, default 0
        The seed; 0 gives the data set that the book uses.

    Returns
    -------
    DataSet
        Classes "no fibrosis" (115 rows) and "fibrosis" (21 rows).

    Notes
    -----
    The paper names three features: blood glucose, BMI and total cholesterol. The other nine are routine
    values of patients with fatty liver, chosen here. Age, ALT, AST, bilirubin, platelets and albumin follow
    medians and quartiles by stage of fibrosis, cholesterol and triglycerides the share above a limit, all
    in 368 biopsies (Drolz et al. 2021, Table 2: stages 0-I against III-IV); the spread of BMI and gamma-GT
    follows 733 biopsies (Angulo et al. 2007). Assumed, of plausible size, are blood glucose, HDL
    cholesterol, the effect on BMI and gamma-GT, and all correlations.

    Examples
    --------
    >>> data = flip_synthetic()
    >>> data.X.shape, data.counts, round(data.missing, 3)
    ((136, 12), {'no fibrosis': 115, 'fibrosis': 21}, 0.04)
    """
    rng = np.random.default_rng(_seed(random_state))
    n, d = 136, len(FLIP_MARKERS)
    y = rng.permutation(np.repeat([0, 1], [115, 21]))
    factor = np.linalg.cholesky(_correlation([marker.name for marker in FLIP_MARKERS], FLIP_CORRELATIONS))
    z = rng.standard_normal((n, d)) @ factor.T
    X = pd.DataFrame(
        {marker.name: marker.values(column, y == 1) for marker, column in zip(FLIP_MARKERS, z.T, strict=True)}
    )
    outlier = int(rng.choice(np.flatnonzero(y == 0)))
    X.loc[outlier, list(FLIP_OUTLIER)] = list(FLIP_OUTLIER.values())
    # The outlier keeps its values: it is there to be noticed.
    cells = np.flatnonzero(np.repeat(np.arange(n) != outlier, d))
    missing = np.zeros(n * d, dtype=bool)
    missing[rng.choice(cells, size=round(0.04 * n * d), replace=False)] = True
    description = (
        "Synthetic stand-in for Flip (fibrosis of fatty livers): no row belongs to a patient. Only blood "
        "glucose, BMI and total cholesterol are features the paper names; the other names are chosen here. "
        f"Values are missing at random; row {outlier} is an outlier, a metabolic crisis. Seed {random_state}."
    )
    X = X.mask(missing.reshape(n, d))
    return DataSet("flip_synthetic", X, y.astype(np.int64), ("no fibrosis", "fibrosis"), True, description)


def t21_synthetic(n: int = 50_000, random_state: int = 0) -> DataSet:
    """Return the stand-in for T21: n x 18, 0.8 % with trisomy 21.

    Parameters
    ----------
    n : int, default 50,000
        The number of pregnancies, at least 250.
    random_state : int, default 0
        The seed; 0 gives the data set that the book uses.

    Returns
    -------
    DataSet
        Classes "unaffected" and "trisomy 21" (``round(0.008 n)`` rows).

    Notes
    -----
    The paper names two features, heart rate and weight; the others are those of first-trimester screening.
    Ages of affected mothers follow the risk by age, so that they are older. Published, and used here:

    - maternal age: risk = 1 / (1 + exp(7.330 - 4.211 / (1 + exp(-0.282 (age - 37.23))))) [1]
    - gestational age: 8.052 sqrt(1.037 CRL) + 23.73 days [2]
    - nuchal translucency: depends on CRL in 95 % (affected: 5 %), else median 2.0 mm (3.4 mm) [3]
    - fetal heart rate: 170 bpm at CRL 35 mm, 155 bpm at 84 mm; affected: 10 % above the 95th centile [4]
    - ductus venosus PIV: independent of CRL in 3 % (affected: 85 %) [5], above the 95th centile in 5 % by
      definition (77 %) [6], reversed a-wave in 3.2 % (66.4 %) [7]
    - nasal bone absent: 1.0 %, 12 of 1256 (affected: 41.9 %, 13 of 31) [8]
    - tricuspid regurgitation: about 1 % (about 55 %) [9]
    - PlGF: 1 MoM (0.72 MoM at 12 weeks) [10]
    - uterine artery PI: median 1.55 (1.42) [11]

    Free beta-hCG is about doubled and PAPP-A about halved [12]; their standard deviations of log10 MoM (0.27
    and 0.24; affected 0.28) and the curve and spreads of nuchal translucency are close to those in use, but
    were not checked against a publication. The spread of heart rate follows from its correlation with
    gestation (r = 0.41, [13]), that of uterine artery PI from its 95th centile (2.34, [14]). Assumed, and
    equal in both classes: weight, height, parity, arterial pressure, head width, all correlations.

    [1] Morris 2002, [2] Robinson 1975, [3] Wright 2008, [4] Liao 2000, [5] Maiz 2012, [6] Wagner 2017,
    [7] Maiz 2009, [8] Sepulveda 2007, [9] Kagan 2009, [10] Wald 2012, [11] Prodan 2019, [12] Kagan 2008,
    [13] Hyett 1996, [14] Bindra 2001: all in the bibliography of the book.

    Examples
    --------
    >>> data = t21_synthetic(1000)
    >>> data.X.shape, data.counts
    ((1000, 18), {'unaffected': 992, 'trisomy 21': 8})
    """
    n = int(check_number(n, "n", low=250, integer=True))
    rng = np.random.default_rng(_seed(random_state))
    age = _truncated_normal(rng, n, 32.0, 5.8, 16.0, 48.0)
    risk = trisomy_risk(age)
    affected = np.zeros(n, dtype=bool)
    affected[rng.choice(n, size=round(0.008 * n), replace=False, p=risk / risk.sum())] = True
    columns = _mothers(rng, age) | _scans(rng, affected) | _blood(rng, affected)
    X = pd.DataFrame({name: np.round(values, decimals) for name, (values, decimals) in columns.items()})
    description = (
        f"Synthetic stand-in for T21 (screening at 11 to 13 weeks of pregnancy): {n} rows of nobody, "
        "drawn from published statistics. Only heart rate and weight are features the paper names; the "
        f"other names are chosen here. Seed {random_state}."
    )
    return DataSet(
        "t21_synthetic", X, affected.astype(np.int64), ("unaffected", "trisomy 21"), True, description
    )


def trisomy_risk(age: Array) -> Array:
    """Return the probability of trisomy 21 at birth by the mother's age in years (Morris et al. 2002).

    >>> (1 / trisomy_risk(np.array([20.0, 30.0, 40.0]))).round().astype(int).tolist()
    [1478, 940, 86]
    """
    risk: Array = 1 / (1 + np.exp(7.330 - 4.211 / (1 + np.exp(-0.282 * (age - 37.23)))))
    return risk


Columns = dict[str, tuple[Array, int]]


def _mothers(rng: np.random.Generator, age: Array) -> Columns:
    n = len(age)
    height = _truncated_normal(rng, n, 164.0, 6.5, 140.0, 190.0)
    weight = 66.0 * np.exp((height - 164.0) / 164.0 + 0.18 * rng.standard_normal(n))
    pressure = 86.0 + 0.12 * (weight - 67.0) + 7.5 * rng.standard_normal(n)
    parity = np.minimum(rng.poisson(0.9 * np.exp(0.04 * (age - 32.0))), 9).astype(np.float64)
    return {
        "maternal age": (age, 1),
        "height": (height, 0),
        "weight": (np.maximum(weight, 36.0), 1),
        "parity": (parity, 0),
        "mean arterial pressure": (pressure, 0),
    }


def _scans(rng: np.random.Generator, affected: NDArray[np.bool_]) -> Columns:
    n = len(affected)
    crl = _truncated_normal(rng, n, 63.5, 8.0, 45.0, 84.0)
    days = 8.052 * np.sqrt(1.037 * crl) + 23.73 + 1.5 * rng.standard_normal(n)
    head = 5.9 + 0.246 * crl + 1.2 * rng.standard_normal(n)
    # A fetus follows the curve of its length, or, more often if affected, a distribution of its own.
    follows = rng.random(n) < np.where(affected, 0.05, 0.95)
    on_curve = -0.8951 + 0.02940 * crl - 0.0001812 * crl**2
    centre = np.where(follows, on_curve, np.log10(np.where(affected, 3.4, 2.0)))
    nuchal = 10 ** (centre + np.where(follows, 0.079, 0.20) * rng.standard_normal(n))
    # A shift of 0.363 standard deviations puts 10 % above the 95th centile.
    rate = 170.0 - 15.0 / 49.0 * (crl - 35.0) + 6.7 * (rng.standard_normal(n) + 0.363 * affected)
    altered = rng.random(n) < np.where(affected, 0.85, 0.03)
    piv = np.where(altered, 1.8, 1.0) * np.exp(np.where(altered, 0.25, 0.15) * rng.standard_normal(n))
    # 0.78 and 0.0089 are the shares that give 3.2 % and 66.4 % over all.
    reversed_wave = rng.random(n) < np.where(altered, 0.78, 0.0089)
    no_bone = rng.random(n) < np.where(affected, 0.419, 0.0096)
    regurgitation = rng.random(n) < np.where(affected, 0.55, 0.01)
    return {
        "crown-rump length": (crl, 1),
        "gestational age": (days, 0),
        "head width": (head, 1),
        "nuchal translucency": (np.maximum(nuchal, 0.4), 1),
        "fetal heart rate": (rate, 0),
        "ductus venosus PIV": (piv, 2),
        "ductus venosus a-wave reversed": (reversed_wave.astype(np.float64), 0),
        "nasal bone absent": (no_bone.astype(np.float64), 0),
        "tricuspid regurgitation": (regurgitation.astype(np.float64), 0),
    }


def _blood(rng: np.random.Generator, affected: NDArray[np.bool_]) -> Columns:
    """Multiples of the median (MoM) of the three hormones, and the flow to the womb."""
    names = ["hcg", "papp", "plgf", "flow"]
    correlations = {
        ("hcg", "papp"): 0.2,
        ("papp", "plgf"): 0.3,
        ("hcg", "plgf"): 0.1,
        ("papp", "flow"): -0.15,
    }
    z = rng.standard_normal((len(affected), 4)) @ np.linalg.cholesky(_correlation(names, correlations)).T
    hcg = np.where(affected, np.log10(2.0) + 0.28 * z[:, 0], 0.27 * z[:, 0])
    papp = np.where(affected, np.log10(0.5) + 0.28 * z[:, 1], 0.24 * z[:, 1])
    plgf = np.where(affected, np.log10(0.72), 0.0) + 0.18 * z[:, 2]
    # The spread of the logarithm from the median and the 95th centile: log(2.34 / 1.51) / 1.645.
    flow = np.where(affected, 1.42, 1.55) * np.exp(0.266 * z[:, 3])
    return {
        "free beta-hCG": (10**hcg, 3),
        "PAPP-A": (10**papp, 3),
        "PlGF": (10**plgf, 3),
        "uterine artery PI": (flow, 2),
    }


def _correlation(names: list[str], pairs: dict[tuple[str, str], float]) -> Array:
    matrix = np.eye(len(names))
    for (first, second), value in pairs.items():
        i, j = names.index(first), names.index(second)
        matrix[i, j] = matrix[j, i] = value
    return matrix


def _truncated_normal(
    rng: np.random.Generator, n: int, mean: float, spread: float, low: float, high: float
) -> Array:
    """Draw from a normal distribution restricted to [low, high], by inversion."""
    first, last = float(ndtr((low - mean) / spread)), float(ndtr((high - mean) / spread))
    drawn: Array = mean + spread * ndtri(rng.uniform(first, last, size=n))
    return drawn


def _seed(random_state: int) -> int:
    return int(check_number(random_state, "random_state", low=0, integer=True))
