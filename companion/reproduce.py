"""The command behind `make reproduce`: run the paper's experiments, resume where they stopped, write tables.

    python -m companion.reproduce --jobs 2

Interrupted at any time, the same command goes on where it stopped. The Flip data is not shipped: without its
file the other data sets are reproduced, and it is said how to get it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from companion.datasets import NAMES, PUBLISHED, DataError, load
from companion.results import merge
from companion.runner import Study, run


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return 0."""
    args = _parser().parse_args(arguments)
    # Spawned processes read this when they load their BLAS: results do not depend on the number of cores.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    args.data = args.data or available(Study().data, args.path)
    study = study_of(args)
    start = time.perf_counter()
    folder = run(study, args.work, jobs=args.jobs, progress=not args.silent, path=args.path)
    seconds = time.perf_counter() - start
    files = merge(study, folder, args.folder, path=args.path)
    table = pd.read_csv(Path(args.folder) / "timings.csv")
    size = sum(file.stat().st_size for file in files) / 2**20
    print(
        f"{len(files)} files, {size:.1f} MB, in {args.folder}. This run took {seconds / 60:.1f} minutes; "
        f"all results together took {table['seconds'].sum() / 60:.1f} minutes of the processor, "
        f"and at most {table['megabytes'].max():.0f} MB of memory per process."
    )
    return 0


def available(names: Iterable[str], path: str | None) -> list[str]:
    """Return the data sets that are there; of a file that is not, print how to get it."""
    found = []
    for name in names:
        try:
            if name in PUBLISHED:
                load(name, path)
            found.append(name)
        except DataError as error:
            print(f"Without {name}: {error}", file=sys.stderr)
    return found


def study_of(args: argparse.Namespace) -> Study:
    """Return the study that the arguments ask for."""
    data = tuple(args.data or Study().data)
    if args.quick:
        return Study(data, 1, 1, 0)
    ablated = tuple(name for name in Study().ablation_data if name in data)
    published = min(args.repetitions, Study().published_repetitions)
    return Study(data, args.repetitions, published, 1, ablated)


def _parser() -> argparse.ArgumentParser:
    standard = Study()
    parser = argparse.ArgumentParser(
        prog="python -m companion.reproduce",
        description="Run the paper's experiments and write their tables.",
    )
    parser.add_argument(
        "--data", nargs="+", choices=NAMES, metavar="NAME",
        help=f"default: {' '.join(standard.data)}, as far as they are there",
    )  # fmt: skip
    parser.add_argument("--path", help="where the real flip and t21 data are (default: LVQREJ_DATA)")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    parser.add_argument("--repetitions", type=int, default=standard.repetitions)
    parser.add_argument("--folder", default="book/results", help="where the tables go")
    parser.add_argument("--work", default="_build/reproduce", help="where unfinished results are kept")
    parser.add_argument("--quick", action="store_true", help="one repetition, no single deviations")
    parser.add_argument("--silent", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    sys.exit(main())
