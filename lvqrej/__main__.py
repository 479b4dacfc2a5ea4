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

#: Share of the samples that a fitted classifier has not seen, and the report is about.
_HELD_OUT = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process; return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
            _COMMANDS[given.command](given)
    except (OSError, ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        print(f"lvqrej: error: {text}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("data", help="a CSV file with a header")
    shared.add_argument("--label", help="column of the classes")
    shared.add_argument("--model", help="a saved classifier to use, instead of fitting one")
    shared.add_argument("--option", default="relative-similarity", help="the certainty, by its name")
    shared.add_argument(
        "--threshold",
        nargs="+",
        default=["knee"],
        help="a number, knee, or a rule and its numbers, such as reject_rate 0.1 or risk 0.05 0.95",
    )
    shared.add_argument("--fixed", nargs="+", default=[], help="columns that may not change")
    shared.add_argument(
        "--drop", nargs="+", default=[], help="columns to leave out, such as a number of the row"
    )
    shared.add_argument("--seed", type=int, default=0, help="seed of everything random")
    parser = argparse.ArgumentParser(
        prog="python -m lvqrej", description="Explain what a classifier rejects."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="{report,explain}")
    report = commands.add_parser(
        "report", parents=[shared], help="why does the model reject: one page of HTML"
    )
    report.add_argument("--out", required=True, help="the page to write")
    report.add_argument("--groups", help="column to compare; no feature")
    explain = commands.add_parser("explain", parents=[shared], help="why is one row rejected")
    explain.add_argument("--row", type=int, required=True, help="which row, from 0")
    return parser


def _report(given: Any) -> None:
    if not Path(given.out).absolute().parent.is_dir():
        raise ValueError(f"--out must be a file in a folder that exists; found {given.out}")
    table = _table(given)
    groups = None if given.groups is None else _column(table, given.groups, "--groups")
    y = None if given.label is None else _column(table, given.label, "--label")
    classifier, rows = _classifier(given, table, y)
    X, y = _features(classifier, table).iloc[rows], None if y is None else y.iloc[rows]
    report = classifier.report(
        X, y, None if groups is None else groups.iloc[rows],
        fixed=given.fixed, random_state=given.seed, progress=sys.stderr.isatty(),
    )  # fmt: skip
    report.to_html(given.out)
    if given.model is None:
        print(f"Fitted to {len(table) - len(rows)} rows; reported are the other {len(rows)}.")
    print(report)
    print(f"Written to {given.out}")


def _explain(given: Any) -> None:
    table = _table(given)
    y = None if given.label is None else _column(table, given.label, "--label")
    if not 0 <= given.row < len(table):
        raise ValueError(f"--row must be from 0 to {len(table) - 1}; found {given.row}")
    others = table.drop(index=given.row)
    classifier, _ = _classifier(given, others, None if y is None else y.drop(index=given.row), held_out=0.0)
    why = classifier.explain(_features(classifier, table).iloc[[given.row]], fixed=given.fixed)[0]
    print(f"Row {given.row}: {why}.")
    if why.path != "accepted":
        print(f"{why.cause or ''}\n{why.to_frame().to_string(index=False)}".strip())


_COMMANDS = {"report": _report, "explain": _explain}


def _table(given: Any) -> Any:
    import pandas as pd

    try:
        table = pd.read_csv(given.data)
    except FileNotFoundError:
        raise ValueError(f"{given.data}: there is no such file") from None
    except (OSError, ValueError) as error:  # what pandas cannot parse or decode is a ValueError
        raise ValueError(f"{given.data} cannot be read as CSV: {error}") from None
    if table.empty:
        raise ValueError(f"{given.data} has no rows")
    for name in given.drop:
        _column(table, name, "--drop")
    return table.drop(columns=given.drop)


def _column(table: Any, name: str, option: str) -> Any:
    if name not in table.columns:
        raise ValueError(
            f"{option} must name a column; found {name!r}, the columns are {list(table.columns)}"
        )
    return table[name]


def _classifier(given: Any, table: Any, y: Any, held_out: float = _HELD_OUT) -> tuple[Any, Any]:
    """Return the classifier, fitted or loaded, and the places of the rows that it was not fitted to."""
    import numpy as np

    from lvqrej.classifier import RejectOptionClassifier

    if given.model is not None:
        return RejectOptionClassifier.load(Path(given.model)), np.arange(len(table))
    if y is None:
        raise ValueError(
            "--label must name the column of the classes to fit a classifier, or --model a saved one"
        )
    if y.isna().any():
        raise ValueError(
            f"--label: column {given.label!r} has no label in row {int(y.isna().to_numpy().argmax())}"
        )
    counts = y.value_counts()
    if (counts < 2).any():
        raise ValueError(f"--label: class {counts.index[-1]} of column {given.label!r} is seen only once")
    train, test = np.arange(len(table)), np.arange(0)
    if held_out:
        from sklearn.model_selection import train_test_split

        train, test = train_test_split(train, test_size=held_out, stratify=y, random_state=given.seed)
    names = [name for name in table.columns if name not in (given.label, getattr(given, "groups", None))]
    classifier = RejectOptionClassifier(
        option=given.option, threshold=_threshold(given.threshold), random_state=given.seed
    )
    classifier.fit(table[names].iloc[train], y.iloc[train].to_numpy())
    return classifier, np.sort(test)


def _features(classifier: Any, table: Any) -> Any:
    """Return the columns that the classifier knows, in its order."""
    names = getattr(classifier, "feature_names_in_", None)
    if names is None:
        raise ValueError("--model must have been fitted to a table with names")
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise ValueError(
            f"the table must have the columns that the classifier was fitted to; it lacks {missing}"
        )
    return table[list(names)]


def _threshold(words: list[str]) -> Any:
    """Return a threshold as `RejectOptionClassifier` takes it: a number, a name, or a rule with numbers."""
    numbers = []
    for word in words if len(words) == 1 else words[1:]:
        try:
            numbers.append(float(word))
        except ValueError:
            if len(words) == 1:
                return word
            raise ValueError(f"--threshold: {word!r} is no number") from None
    return numbers[0] if len(words) == 1 else (words[0], *numbers)


if __name__ == "__main__":
    raise SystemExit(main())
