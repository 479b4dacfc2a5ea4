"""How long until the first answer? README's example in a fresh environment, from the start of the process.

Run as ``python benchmarks/first_answer.py``; writes book/results/benchmark_first_answer.csv. An environment
is made with ``pip install .`` alone, then README's example runs as a script: in a process of its own, five
times, the first of them right after the installation. Times are of the processor, so that other load hardly
counts. ``--before REVISION`` measures an older state of the repository in the same way, otherwise the table
keeps what it has of one; the first edition compiled its loops in the first of these runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "book" / "results" / "benchmark_first_answer.csv"
RUNS = 5
#: After which lines of the example a part of it is done.
PARTS = {"import": "import GMLVQ", "fit": ".fit(X, y)", "explain": "print(why)"}


def script() -> str:
    """Return README's example with the seconds of the processor after each part, since Python was started."""
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    lines = ["import json, time", "times = {}"]
    for line in example[1].splitlines():
        lines.append(line)
        lines += [f"times[{name!r}] = time.process_time()" for name, end in PARTS.items() if end in line]
    return "\n".join([*lines, "print(json.dumps(times))"])


def megabytes(folder: Path) -> float:
    """Return the size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def measured(source: Path, edition: str) -> list[dict[str, object]]:
    """Install a state of the repository into a fresh environment and time the example there."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        packages = next(Path(folder).glob("lib/python*/site-packages"))
        before = megabytes(packages)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(source)]
        subprocess.run(pip, check=True)
        size = megabytes(packages) - before
        file = Path(folder) / "example.py"
        file.write_text(script(), encoding="utf-8")
        for run in range(RUNS):
            clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
            environment = clean | {"OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                [python, file], check=True, capture_output=True, text=True, cwd=folder, env=environment
            )
            ends = json.loads(done.stdout.splitlines()[-1])
            parts = {
                name: end - begin
                for (name, end), begin in zip(ends.items(), [0.0, *ends.values()], strict=False)
            }
            rows.append(
                {"edition": edition, "run": run + 1, **parts, "total": ends["explain"], "megabytes": size}
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="a revision to measure as well")
    before = parser.parse_args().before
    table = pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame({"edition": []})
    rows = table[table["edition"] == "before"].to_dict("records")
    if before:
        with tempfile.TemporaryDirectory() as folder:
            archive = subprocess.run(["git", "archive", before], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
            rows = measured(Path(folder), "before")
    rows += measured(ROOT, "now")
    pd.DataFrame(rows).round(3).to_csv(RESULTS, index=False, lineterminator="\n")


if __name__ == "__main__":
    sys.exit(main())
