"""How the experiment grows from 5,000 to 200,000 rows of the size of T21: seconds and memory per stage.

Run as `python benchmarks/growth.py`; the table is also written to book/results/benchmark_growth.csv. One fold
of the synthetic stand-in, GMLVQ with one prototype per class, the three reject options; slow baselines are
left out, as their number of samples is capped and does not grow. `--quick` stops at 20,000.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from companion.deviations import OPTIONS, Deviations
from companion.protocol import FoldFits
from companion.runner import peak_megabytes
from companion.synthetic import t21_synthetic
from lvqrej import explain

RESULTS = Path(__file__).parents[1] / "book" / "results" / "benchmark_growth.csv"
ROWS = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000)


def measured(n):
    """Yield one row per reject option: seconds of the processor to prepare, to fit and to explain."""
    data = t21_synthetic(n)
    start = time.process_time()
    fits = FoldFits(data, "GMLVQ", 0, 0, sizes=(1,))
    fits.inner_models(1)
    shared = time.process_time() - start
    for name in OPTIONS:
        start = time.process_time()
        fitted = fits.fitted(name, Deviations())
        fit = time.process_time() - start
        X, theta = fits.prepared.X_test, fitted.threshold.theta
        rejected = X[~fitted.option.accepts(X, theta)]
        start = time.process_time()
        result = explain(fitted.option, theta, rejected)
        seconds = time.process_time() - start
        assert fitted.option.accepts(result.counterfactuals, theta).all()
        yield {
            "rows": n,
            "option": name,
            "n_test": len(X),
            "n_explained": len(rejected),
            "seconds_fold_and_models": shared,
            "seconds_option_and_threshold": fit,
            "seconds_explain": seconds,
            "milliseconds_each": 1000 * seconds / max(1, len(rejected)),
            "largest_gap": float(result.gaps.max(initial=0)),
            "megabytes": peak_megabytes(),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 20,000 rows; writes no file")
    quick = parser.parse_args().quick
    threadpool_limits(1)
    list(measured(1_500))  # load everything before the clock starts
    table = pd.DataFrame([row for n in ROWS[: 3 if quick else None] for row in measured(n)])
    print(table.to_string(index=False, float_format="%.4g"))
    total = table.assign(
        seconds=table["seconds_option_and_threshold"]
        + table["seconds_explain"]
        + table["seconds_fold_and_models"] / len(OPTIONS)
    )
    total = total.groupby("rows")["seconds"].sum()
    exponent = np.polyfit(np.log(total.index), np.log(total), 1)[0]
    print(f"\nseconds of a fold = a rows^b with b = {exponent:.2f}")
    if not quick:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(RESULTS, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
