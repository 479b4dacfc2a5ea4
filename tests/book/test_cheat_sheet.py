"""Every call of the cheat sheet runs."""

import re
from pathlib import Path

import matplotlib.figure
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from lvqrej import RejectOptionClassifier
from lvqrej.stream import explain_stream

SHEET = (Path(__file__).parents[2] / "book/cheat-sheet.md").read_text(encoding="utf-8")
TABLES = dict(re.findall(r"^## (.+)\n\n((?:\|.*\n)+)", SHEET, re.MULTILINE))


def calls(title):
    """Return the calls in the last column of a table, row by row."""
    rows = TABLES[title].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1]) for row in rows]


def single(title):
    return [call for row in calls(title) for call in row]


@pytest.fixture(scope="module")
def names():
    X, y = load_wine(return_X_y=True, as_frame=True)
    # Half of the wines are unseen; of the others some have to be rejected.
    names = {"X": X[::2], "y": y[::2], "X_new": X[1::2], "y_new": y[1::2]}
    clf = RejectOptionClassifier().fit(names["X"], names["y"])
    names["rejected"] = names["X_new"][clf.rejects(names["X_new"])]
    names["sample"] = names["rejected"].iloc[0]
    (block,) = re.findall(r"```\{code-block\} python\n(.*?)```", SHEET, re.DOTALL)
    exec(block, names)  # the page's own code
    return names


def test_the_block_ends_with_an_explanation(names, capsys):
    assert str(names["why"]).startswith("rejected: relative similarity")
    assert len(names["rejected"]) > 3


@pytest.mark.parametrize("option", single("Which certainty?"))
def test_each_certainty_is_an_option(option, names):
    clf = RejectOptionClassifier(option=eval(option), threshold=("reject_rate", 0.1))
    clf.fit(names["X"], names["y"])
    assert 0 < clf.rejects(names["X"]).mean() < 0.5


@pytest.mark.parametrize("threshold", single("Which threshold?"))
def test_each_rule_finds_a_threshold(threshold):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)  # a promise needs many samples
    clf = RejectOptionClassifier(threshold=eval(threshold)).fit(X, y)
    # Where nothing has to be rejected, it lies below every certainty.
    assert -1 < clf.threshold_ < 1


@pytest.mark.parametrize("requirement", single("What may change?"))
def test_each_requirement_is_understood(requirement, names):
    why = eval(f"clf.explain(sample, {requirement})", names)
    clf = names["clf"]
    for answer in why if "several" in requirement else [why]:
        assert clf.option_.accepts(answer.counterfactual[None], clf.threshold_)[0]


@pytest.mark.parametrize("call", single("What do you get?"))
def test_each_answer_is_given(call, names):
    found = eval(call, names)
    assert found is not None
    if "plot" in call:
        assert isinstance(found, matplotlib.figure.Figure)


def test_each_file_is_written(names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in single("What to keep, what to hand on?"):
        eval(call, names | {"explain_stream": explain_stream})
    assert {path.name for path in tmp_path.iterdir()} == {"model", "report.html", "folder"}
