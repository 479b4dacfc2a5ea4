"""A million rejects on one machine: throughput, memory and size of the files, streamed part by part.

Run as ``nice python benchmarks/scale.py``; writes book/results/benchmark_scale.csv. The data is synthetic:
rows of the stand-in for T21 (`companion.synthetic`), drawn block by block, half of them rejected.
Each measurement is a process of its own with its own peak of memory. Times are of the processor, all
processes together and from their start, so that other load hardly counts; drawing the rows is not in them.
`--quick` streams a hundredth and writes no file.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from joblib.externals.loky import get_reusable_executor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from companion.runner import peak_megabytes
from companion.synthetic import t21_synthetic
from lvqrej import GMLVQ, DecisionDistance, PrototypeModel, RelativeSimilarity
from lvqrej.stream import explain_stream

RESULTS = Path(__file__).parents[1] / "book" / "results" / "benchmark_scale.csv"
OPTIONS = {"relative similarity": RelativeSimilarity, "decision distance": DecisionDistance}
BLOCK = 50_000
#: Certainty, rejects, n_jobs, rows per part.
RUNS = (
    ("relative similarity", 100_000, 1, BLOCK),
    ("relative similarity", 1_000_000, 1, BLOCK),
    ("relative similarity", 1_000_000, 2, BLOCK),
    ("decision distance", 1_000_000, 1, BLOCK),
)


class Rows:
    """Blocks of synthetic rows until so many of them were rejects; what drawing them cost is kept apart."""

    def __init__(self, option, theta, rejects):
        self.option, self.theta, self.rejects = option, theta, rejects
        self.rows = self.seen = 0
        self.drawing = 0.0

    def __iter__(self):
        seed = 1
        while self.seen < self.rejects:
            begin = time.process_time()
            block = t21_synthetic(BLOCK, random_state=seed).X.to_numpy(dtype=float)
            rejected = np.cumsum(~self.option.accepts(block, self.theta))
            block = block[: np.searchsorted(rejected, self.rejects - self.seen) + 1]
            seed, self.rows, self.seen = (
                seed + 1,
                self.rows + len(block),
                self.seen + rejected[len(block) - 1],
            )
            self.drawing += time.process_time() - begin
            yield block


def problem(name):
    """Return a certainty trained on balanced synthetic data, and the threshold that rejects half."""
    data = t21_synthetic(BLOCK)
    X, y = data.X.to_numpy(dtype=float), data.y
    rng = np.random.default_rng(0)
    chosen = np.concatenate(
        [np.flatnonzero(y == 1), rng.choice(np.flatnonzero(y == 0), (y == 1).sum(), False)]
    )
    model = make_pipeline(
        StandardScaler(), GMLVQ(prototypes_per_class=2, regularization=0, random_state=0)
    ).fit(X[chosen], y[chosen])
    option = OPTIONS[name](PrototypeModel.of(model))
    return option, float(np.median(option.certainty(X))), 1 / model[0].scale_


def stream(rows, folder, weights, **options):
    """Return the files, the seconds of this process without drawing the rows, and those of a clock."""
    begin, clock = time.process_time(), time.perf_counter()
    files = explain_stream(rows.option, rows.theta, rows, folder, weights=weights, **options)
    return files, time.process_time() - begin - rows.drawing, time.perf_counter() - clock


def measure(name, rejects, n_jobs, rows_per_part):
    option, theta, weights = problem(name)
    before, load = peak_megabytes(), os.getloadavg()[0]
    rows, again = Rows(option, theta, rejects), Rows(option, theta, rejects)
    how = {"rows_per_part": rows_per_part, "n_jobs": n_jobs}
    with tempfile.TemporaryDirectory() as folder:
        files, seconds, clock = stream(rows, folder, weights, **how)
        peak = peak_megabytes()
        if n_jobs > 1:
            get_reusable_executor(n_jobs, reuse=True).shutdown(wait=True)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds += children.ru_utime + children.ru_stime
        same, rerun, _ = stream(again, folder, weights, **how)
        assert same == files
        table = pd.concat(pd.read_parquet(file, columns=["found", "gap"]) for file in files)
        size = sum(file.stat().st_size for file in files)
    assert len(table) == rejects
    assert table["found"].all()
    return {
        "option": name,
        "features": option.n_features,
        "rows": rows.rows,
        "rejects": rejects,
        "n_jobs": n_jobs,
        "rows_per_part": rows_per_part,
        "files": len(files),
        "largest_gap": table["gap"].max(),
        "bytes_per_reject": size / rejects,
        "processor_seconds": seconds,
        "rerun_processor_seconds": rerun,
        "wall_seconds": clock,
        "load_average": load,
        "megabytes_before": before,
        "megabytes_peak": peak,
        "megabytes_worker": children.ru_maxrss / 2**10 if n_jobs > 1 else 0,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of the rows; writes no file")
    parser.add_argument("--only", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measure(*arguments.only)))
        return
    rows = []
    for name, rejects, *rest in RUNS:
        run = json.dumps([name, rejects // 100 if arguments.quick else rejects, *rest])
        command = [sys.executable, __file__, "--only", run]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    print(table.T.to_string())
    if not arguments.quick:
        table.to_csv(RESULTS, index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
