"""The paper's conclusions by stated rules, and what changed since the first edition."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion.conclusions import FIRST_DATA, changed_entries, changes, conclusions, write_first_edition
from companion.paper_tables import side_by_side
from companion.rules import REASONS, agreement, reasons

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "book" / "results"
REAL = ("wine", "breast_cancer", "flip")


@pytest.fixture(scope="module")
def compared():
    return agreement(side_by_side(RESULTS), pd.read_csv(RESULTS / "units.csv"))


@pytest.mark.parametrize(
    ("cell", "word"),
    [
        ({"ours_agrees": "yes"}, "agrees"),
        ({"ours_agrees": "yes", "deviating_agrees": "yes"}, "agrees"),
        ({"deviating_agrees": "yes"}, "code"),
        ({"deviating_mean": 8.0}, "code, in part"),
        ({"deviating_mean": 4.0, "method": "paper"}, "sparser"),
        ({"deviating_mean": 4.0, "method": "nearest+paper"}, "sparser"),
        ({"ours_mean": 20.0, "deviating_mean": 20.0, "method": "paper"}, "open"),
        ({"deviating_mean": np.nan, "deviating_agrees": "no result"}, "no rejects"),
        ({"deviating_mean": 4.0}, "open"),
        ({"ours_agrees": "stand-in", "deviating_agrees": "stand-in"}, "stand-in"),
        ({"ours_agrees": "no result"}, "no result"),
    ],
)
def test_why_an_entry_is_not_ours(cell, word):
    usual = {"method": "black_box", "mean": 10.0, "ours_mean": 2.0, "deviating_mean": 3.0}
    usual |= {"ours_agrees": "no", "deviating_agrees": "no"}
    assert reasons(pd.DataFrame([usual | cell], index=[7])).tolist() == [word]


def test_every_entry_about_flip_has_a_reason(compared):
    flip = compared[compared["data"] == "flip"]
    assert len(flip) == 41
    assert set(flip["our_data"]) == {"flip"}  # the real one
    assert set(reasons(flip)) <= {*REASONS, "no result"}


def test_verdicts_are_counted_over_the_data_that_are_named():
    """The cases of three data sets are those of each alone: nothing else enters a verdict."""
    whole = conclusions(RESULTS, REAL)
    parts = [conclusions(RESULTS, [name]) for name in REAL]
    counted = whole["holds in"] != "proof"
    assert counted.sum() == 11
    for k in np.flatnonzero(counted):
        held, n = zip(*(map(int, part["holds in"][k].split(" of ")) for part in parts), strict=True)
        assert whole["holds in"][k] == f"{sum(held)} of {sum(n)}"
        share = sum(held) / sum(n)
        word = "confirmed" if share == 1 else "qualified" if share >= 0.5 else "not confirmed"
        assert whole["here"][k] == word


def test_sparse_is_a_quarter_of_the_features():
    table = pd.read_csv(RESULTS / "aggregates.csv")
    for name, value in {"variant": "ours", "model": "GMLVQ", "measure": "l0", "method": "paper"}.items():
        table = table[table[name] == value]
    table = table[(table["experiment"] == "properties") & table["data"].isin(REAL)]
    features = table["data"].map({"wine": 13, "breast_cancer": 30, "flip": 12})
    found = conclusions(RESULTS, REAL).iloc[0]
    assert found["holds in"] == f"{(table['mean'] <= features / 4).sum()} of {len(table)}"


def test_nothing_has_changed_against_the_same_results(tmp_path, compared):
    for name in ("units", "aggregates", "overlaps", "timings", "paper_tables"):
        (tmp_path / f"{name}.csv").write_bytes((RESULTS / f"{name}.csv").read_bytes())
    write_first_edition(tmp_path, tmp_path)
    assert len(changed_entries(compared, tmp_path)) == 0
    assert len(changes(tmp_path, FIRST_DATA)) == 0


def test_a_changed_verdict_is_due_to_data_or_not(tmp_path, compared):
    for name in ("units", "aggregates", "overlaps", "timings", "paper_tables"):
        (tmp_path / f"{name}.csv").write_bytes((RESULTS / f"{name}.csv").read_bytes())
    write_first_edition(tmp_path, tmp_path)
    file = tmp_path / "first_edition_conclusions.csv"
    first = pd.read_csv(file)
    now = conclusions(RESULTS, REAL)["here"]
    other = {"confirmed": "not confirmed", "not confirmed": "confirmed", "qualified": "confirmed"}
    first.loc[0, "here"] = other[now[0]]
    first.to_csv(file, index=False)
    found = changes(tmp_path, REAL).set_index("the paper concludes")
    assert found["because of"][first["the paper concludes"][0]] == "training or rounding"
    moved = set(found.index) - {first["the paper concludes"][0]}
    assert set(found.loc[list(moved), "because of"]) <= {"data"}
    entries = pd.read_csv(tmp_path / "first_edition_entries.csv", keep_default_na=False)
    entries["ours_agrees"] = "stand-in"
    entries.to_csv(tmp_path / "first_edition_entries.csv", index=False)
    part = changed_entries(compared, tmp_path)
    part = part[part["run"] == "ours"]
    assert set(part.loc[part["data"].isin(FIRST_DATA), "why"]) == {"training or rounding"}
    assert set(part.loc[part["data"] == "flip", "why"]) == {"data"}


@pytest.mark.parametrize(
    "chapter", ["16-the-experiments", "17-published-code", "18-reproduction-report", "27-inside-experiments"]
)
def test_no_count_or_verdict_is_typed(chapter):
    """'k of n' in the text of a chapter is computed when it is built, but for one of the paper's numbers."""
    text = (ROOT / "notebooks" / f"{chapter}.md").read_text(encoding="utf-8")
    prose = re.sub(r"```\{code-cell\}.*?\n```\n", "", text, flags=re.DOTALL)
    counts = [c for c in re.findall(r"\b\d[\d.,]* of (?:its |the )?\d[\d,]*\b", prose) if c != "11.14 of 13"]
    assert counts == []
