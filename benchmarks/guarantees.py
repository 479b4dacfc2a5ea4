"""Do thresholds keep their promise, and what does it cost? A simulation in which the truth is known.

Run as ``OMP_NUM_THREADS=1 python benchmarks/guarantees.py``; writes book/results/benchmark_guarantees.csv.
Certainties are uniform and a label is wrong with probability a (1 - r)^3, so the risk above a threshold t is
a (1 - t)^3 / 4; or with the same probability everywhere, a hair above what is allowed, where every threshold
breaks the promise. The same draws for every rule; as many samples for the candidates as for the tests.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from companion.selection import selection_with_guaranteed_risk
from lvqrej import accuracy_reject_curve
from lvqrej.guarantees import at_risk

RESULTS = Path(__file__).parents[1] / "book" / "results"
#: Allowed risk and the factor a of the law, or None for the flat one.
CASES = [(0.02, 0.6), (0.05, 0.4), (0.1, 0.6), (0.02, None), (0.05, None), (0.1, None)]
SIZES = (100, 300, 1000)


def thresholds(r: np.ndarray, right: np.ndarray, risk: float) -> dict[str, float | None]:
    """Return what each rule chooses on 2 n samples, None where it finds nothing."""
    n = len(r) // 2
    point = at_risk(accuracy_reject_curve(r[:n], right[:n]), r[n:], right[n:], risk)
    best = accuracy_reject_curve(r[n:], right[n:]).at_accuracy(1 - risk)
    return {
        "fixed sequence": point.threshold if point.found else None,
        "guaranteed risk (2017)": selection_with_guaranteed_risk(r[n:], right[n:], risk),
        "best bound of all": best.threshold if best.found else None,
    }


def simulate(risk: float, factor: float | None, n: int, repetitions: int) -> list[dict[str, object]]:
    """Return one row per rule: how often it finds a threshold, how often that breaks the promise."""
    rng = np.random.default_rng([int(1000 * risk), n])
    chosen: dict[str, list[float | None]] = {}
    for _ in range(repetitions):
        r = rng.uniform(size=2 * n)
        law = np.full(2 * n, risk * (1 + 1e-9)) if factor is None else factor * (1 - r) ** 3
        for rule, threshold in thresholds(r, rng.uniform(size=2 * n) >= law, risk).items():
            chosen.setdefault(rule, []).append(threshold)
    rows = []
    for rule, found in chosen.items():
        accepted = [0.0 if t is None else 1 - min(t, 1.0) for t in found]
        broken = sum(t is not None and (factor is None or factor * (1 - t) ** 3 / 4 > risk) for t in found)
        low, high = binomtest(broken, repetitions).proportion_ci(0.95)
        rows.append(
            {
                "law": "flat" if factor is None else f"falling, a = {factor:g}",
                "risk": risk,
                "samples": n,
                "rule": rule,
                "repetitions": repetitions,
                "found": np.mean([t is not None for t in found]),
                "broken": broken / repetitions,
                "broken_low": low,
                "broken_high": high,
                "accepted": np.mean(accepted),
                "acceptable": 0.0 if factor is None else min(1.0, (4 * risk / factor) ** (1 / 3)),
            }
        )
    return rows


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=RESULTS / "benchmark_guarantees.csv")
    given = parser.parse_args()
    rows = [row for risk, a in CASES for n in SIZES for row in simulate(risk, a, n, given.repetitions)]
    table = pd.DataFrame(rows).round(4)
    table.to_csv(given.out, index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
