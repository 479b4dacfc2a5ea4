"""The paper map: nothing of the paper is missing, and every place, object and test that it names exists."""

import ast
import importlib
import re
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import paper_map  # noqa: E402

ROWS = paper_map.read_map(ROOT)
ITEMS = [(row["kind"], row["item"]) for row in ROWS]
#: What the paper's source has, appendix included. The experiments are its sections and methods.
PAPER = {
    "Definitions": ["Definition 1"],
    "Equations": [f"Eq. ({number})" for number in range(1, 49)],
    "Algorithms": [f"Algorithm {number}" for number in range(1, 4)],
    "Tables": [f"Table {number}" for number in range(1, 5)],
    "Data sets": ["Wine", "Breast Cancer", "Flip", "T21", "Preparation"],
    "Experiments": [
        "Setup: model selection",
        "Setup: accuracy-rejection curve",
        "Setup: threshold",
        "Baseline: closest training sample",
        "Baseline: black box",
        "Algorithmic properties: sparsity",
        "Algorithmic properties: validity",
        "Algorithmic properties: overlap",
        "Goodness of the explanations",
        "Additional results (appendix)",
        "Published source code",
    ],
}
BY_ITEM = [pytest.param(row, id=row["item"]) for row in ROWS]


@cache
def labels():
    """Return the labels and the names of all chapters of the book."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    pages = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    found = set(pages)
    for page in pages:
        text = (ROOT / f"{page}.md").read_text()
        found.update(re.findall(r":label: (\S+)", text), re.findall(r'"((?:fig|tab)-[a-z0-9-]+)"', text))
    return found


@cache
def names_of_tests(file):
    """Return the names of the tests of a file, those in classes with their class."""
    found = set()
    for node in ast.parse((ROOT / "tests" / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found.update(
                f"{node.name}::{test.name}" for test in node.body if isinstance(test, ast.FunctionDef)
            )
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_nothing_of_the_paper_is_missing_or_out_of_order():
    assert [(kind, item) for kind, items in PAPER.items() for item in items] == ITEMS


@pytest.mark.parametrize("row", BY_ITEM)
def test_every_place_in_the_book_exists(row):
    assert row["what"]
    assert row["book"]
    assert set(row["book"]) <= labels()


@pytest.mark.parametrize("row", BY_ITEM)
def test_every_object_can_be_imported(row):
    assert row["code"]
    for name in row["code"]:
        module, _, path = name.partition(":")
        found = importlib.import_module(f"lvqrej.{module}")
        for part in path.split("."):
            found = getattr(found, part)
        assert callable(found), name
        assert paper_map.line_of(ROOT / f"lvqrej/{module.replace('.', '/')}.py", path) > 0


@pytest.mark.parametrize("row", BY_ITEM)
def test_every_test_exists(row):
    assert row["test"]
    for name in row["test"]:
        file, _, test = name.partition("::")
        assert test.rpartition("::")[2].startswith("test_"), name
        assert test in names_of_tests(file), name


def test_a_chapter_of_the_paper_that_is_not_mapped_would_be_noticed():
    assert "eq-of-nowhere" not in labels()
    assert "test_of_nothing" not in names_of_tests("test_theory.py")
    with pytest.raises(paper_map.ExtensionError, match="Nothing is not in"):
        paper_map.line_of(ROOT / "lvqrej/engine/shapes.py", "Nothing")
