"""The command: `python -m lvqrej report data.csv --label diagnosis --out report.html`, and `explain`.

Both fit a classifier to the table, or load a saved one (`--model`). What is wrong with what was given is said
in one line, with exit code 2.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from lvqrej.classifier import RejectOptionClassifier
from lvqrej.explanation import NoCounterfactualError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
            (_report if given.command == "report" else _explain)(given)
    except (OSError, ValueError, TypeError) as error:
        print("lvqrej: error:", *str(error).split(), file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    add, rules = shared.add_argument, "such as reject_rate 0.1 or risk 0.05 0.95"
    add("data", help="a CSV file with a header")
    add("--label", help="column of the classes")
    add("--model", help="a saved classifier to use instead of fitting one; the rows should be new to it")
    add("--option", help="the certainty, by its name; relative-similarity unless told otherwise")
    add("--threshold", nargs="+", help=f"a number, knee (the default), or a rule and its numbers, {rules}")
    add("--fixed", nargs="+", default=[], help="columns that may not change")
    add("--drop", nargs="+", default=[], help="columns to leave out, such as a number of the row")
    add("--seed", type=int, default=0, help="seed of everything random")
    parser = argparse.ArgumentParser(prog="python -m lvqrej", description="Explain what is rejected.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{report,explain}")
    page = "one page of HTML about the rejects in one half of the rows; the other half is fitted to"
    report = commands.add_parser("report", parents=[shared], help=page, description=page)
    report.add_argument("--out", required=True, help="the page to write")
    report.add_argument("--groups", help="column whose groups are compared; the model does not see it")
    why = "why one row is rejected; all other rows are fitted to"
    explain = commands.add_parser("explain", parents=[shared], help=why, description=why)
    explain.add_argument("--row", type=int, required=True, help="which row, from 0")
    return parser


def _report(given: Any) -> None:
    if not Path(given.out).absolute().parent.is_dir():
        raise ValueError(f"--out must be a file in a folder that exists; found {given.out}")
    table = _table(given)
    groups, y = _column(table, given.groups, "--groups"), _column(table, given.label, "--label")
    classifier, rows = _classifier(given, table, y, test_size=0.5)
    parts = [part if part is None else part.iloc[rows] for part in (_features(classifier, table), y, groups)]
    bar = sys.stderr.isatty()
    report = classifier.report(*parts, fixed=given.fixed, random_state=given.seed, progress=bar)
    report.to_html(given.out)
    if given.model is None:
        print(f"Fitted to {len(table) - len(rows)} rows; reported are the other {len(rows)}.")
    print(f"{report}\nWritten to {given.out}")


def _explain(given: Any) -> None:
    table, row = _table(given), given.row
    y = _column(table, given.label, "--label")
    if not 0 <= row < len(table):
        raise ValueError(f"--row must be from 0 to {len(table) - 1}; found {row}")
    classifier, _ = _classifier(given, table.drop(index=row), None if y is None else y.drop(index=row))
    sample = _features(classifier, table).iloc[row]
    try:
        why = classifier.explain(sample, fixed=given.fixed)
    except NoCounterfactualError as none:
        print(f"Row {row}: rejected; {none}.\n{classifier.cause(sample)}")
        return
    print(f"Row {row}: {why}.")
    if why.path != "accepted":
        print(f"{why.cause or ''}\n{why.to_frame().to_string(index=False)}".strip())


def _table(given: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header lose data
            table = pd.read_csv(given.data, index_col=False)
    except FileNotFoundError:
        raise ValueError(f"{given.data}: there is no such file") from None
    except (
        OSError,
        ValueError,
        pd.errors.ParserWarning,
    ) as error:  # what pandas cannot parse or decode is a ValueError
        raise ValueError(f"{given.data} cannot be read as CSV: {error}") from None
    if table.empty:
        raise ValueError(f"{given.data} has no rows")
    for name in given.drop:
        _column(table, name, "--drop")
    return table.drop(columns=given.drop)


def _column(table: Any, name: str | None, option: str) -> Any:
    if name is not None and name not in table.columns:
        known = list(table.columns)
        raise ValueError(f"{option} must name a column; found {name!r}, the columns are {known}")
    return None if name is None else table[name]


def _classifier(given: Any, table: Any, y: Any, test_size: float = 0.0) -> tuple[Any, Any]:
    """Return the classifier, fitted or loaded, and the places of the rows that it was not fitted to."""
    rows = np.arange(len(table))
    if given.model is not None:
        if given.option is not None or given.threshold is not None:
            raise ValueError("--option and --threshold cannot be given with --model, which has its own")
        return RejectOptionClassifier.load(Path(given.model)), rows
    if y is None:
        raise ValueError("--label must name the column of the classes, or --model a saved classifier")
    if y.isna().any():
        raise ValueError(f"--label: column {given.label!r} has no label in row {y.isna().idxmax()}")
    counts = y.value_counts()
    if counts.min() < 2:
        raise ValueError(f"--label: class {counts.index[-1]} of column {given.label!r} is seen only once")
    train, test = rows, rows[:0]
    if test_size:
        train, test = train_test_split(rows, test_size=test_size, stratify=y, random_state=given.seed)
    features = table.drop(columns=[given.label, *filter(None, [getattr(given, "groups", None)])])
    option, threshold = given.option or "relative-similarity", _threshold(given.threshold or ["knee"])
    classifier = RejectOptionClassifier(option=option, threshold=threshold, random_state=given.seed)
    return classifier.fit(features.iloc[train], y.iloc[train].to_numpy()), np.sort(test)


def _features(classifier: Any, table: Any) -> Any:
    """Return the columns that the classifier knows, in its order."""
    names = getattr(classifier, "feature_names_in_", None)
    if names is None:
        raise ValueError("--model must have been fitted to a table with names")
    if missing := [name for name in names if name not in table.columns]:
        raise ValueError(f"the table must have the columns that the classifier knows; it lacks {missing}")
    return table[list(names)]


def _threshold(words: list[str]) -> Any:
    """Return a threshold as `RejectOptionClassifier` takes it: a number, a name, or a rule with numbers."""
    rule, numbers = words[:-1] and words[:1], []
    for word in words[len(rule) :]:
        try:
            numbers.append(float(word))
        except ValueError:
            if not rule:
                return word
            raise ValueError(f"--threshold: {word!r} is no number") from None
    return (*rule, *numbers) if rule else numbers[0]


if __name__ == "__main__":
    raise SystemExit(main())
