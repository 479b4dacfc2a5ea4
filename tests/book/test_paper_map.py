"""The paper map: nothing of the paper is missing, and every place, object and test that it names exists."""

import ast
import importlib
import re
import sys
from functools import cache
from pathlib import Path

import jupytext
import pytest
import yaml

ROOT = Path(__file__).parents[2]
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
NUMBERED = ("Definitions", "Equations", "Algorithms", "Tables")
#: How many subsections each section has.
SUBSECTIONS = {1: 0, 2: 3, 3: 2, 4: 3, 5: 0}
SECTIONS = {f"Section {n}" for n in SUBSECTIONS} | {
    f"Section {n}.{k}" for n, last in SUBSECTIONS.items() for k in range(1, last + 1)
}


def pages():
    """Return the names of all chapters of the book."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    return [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]


@cache
def shown():
    """Return for every figure and table of the chapters what of the paper it belongs to, as its call says."""
    found = {}
    for page in pages():
        cells = jupytext.read(ROOT / f"{page}.md").cells if page.startswith("notebooks/") else []
        code = [cell.source for cell in cells if cell.cell_type == "code" and "figures." in cell.source]
        for call in (node for source in code for node in ast.walk(ast.parse(source))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("figures.show", "figures.table"):
                paper = [word.value.value for word in call.keywords if word.arg == "paper"]
                found[call.args[1].value] = paper[0] if paper else ""
    return found


def items_of(paper):
    """Return the items that words such as "Eqs. (6) to (8), Table 1" mean, one by one."""
    found = set()
    for part in filter(None, paper.split(", ")):
        kind, _, numbers = part.partition(" ")
        name = kind.replace("Eqs.", "Eq.").removesuffix("s")
        if " to " in numbers:
            first, last = (int(number.strip("()")) for number in numbers.split(" to "))
            bracket = "({})" if name == "Eq." else "{}"
            found.update(f"{name} {bracket.format(number)}" for number in range(first, last + 1))
        else:
            found.update(f"{name} {number}" for number in numbers.split(" and "))
    return found


@cache
def labels():
    """Return the labels and the names of all chapters of the book."""
    found = set(pages())
    for page in pages():
        text = (ROOT / f"{page}.md").read_text()
        found.update(re.findall(r":label: (\S+)", text), re.findall(r'"((?:fig|tab)-[a-z0-9-]+)"', text))
    return found


@cache
def names_of_tests(file):
    """Return the names of the tests of a file, those in classes with their class."""
    found = set()
    for node in ast.parse(paper_map.file_of_tests(ROOT, file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found.update(
                f"{node.name}::{test.name}" for test in node.body if isinstance(test, ast.FunctionDef)
            )
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_nothing_of_the_paper_is_missing_or_out_of_order():
    assert [(kind, item) for kind, items in PAPER.items() for item in items] == ITEMS


def test_every_place_in_the_book_exists():
    for row in ROWS:
        assert row["what"], row["item"]
        assert row["book"], row["item"]
        assert set(row["book"]) <= labels(), row["item"]


def test_a_figure_or_table_of_an_item_says_so():
    for row in ROWS:
        for label in row["book"]:
            if label.startswith(("fig-", "tab-")):
                said = items_of(shown()[label])
                assert (row["item"] in said) if row["kind"] in NUMBERED else said, label


def test_figures_and_tables_name_what_the_paper_has():
    known = {item for kind in NUMBERED for item in PAPER[kind]} | SECTIONS
    assert {label: paper for label, paper in shown().items() if not items_of(paper) <= known} == {}


def test_a_figure_and_the_table_of_its_name_belong_to_the_same_item():
    twins = {
        label[4:] for label in shown() if f"tab-{label[4:]}" in shown() and f"fig-{label[4:]}" in shown()
    }
    assert twins
    assert {name for name in twins if shown()[f"fig-{name}"] != shown()[f"tab-{name}"]} == set()


def test_words_for_several_items_mean_each_of_them():
    assert items_of("Eqs. (6) to (8), Table 1") == {"Eq. (6)", "Eq. (7)", "Eq. (8)", "Table 1"}
    assert items_of("Eqs. (18) and (48), Algorithm 3") == {"Eq. (18)", "Eq. (48)", "Algorithm 3"}
    assert items_of("Tables 1 to 3, Sections 4.3 and 5") == {
        *("Table 1", "Table 2", "Table 3"),
        *("Section 4.3", "Section 5"),
    }
    assert items_of("") == set()


def test_every_object_can_be_imported():
    for row in ROWS:
        assert row["code"], row["item"]
        for name in row["code"]:
            module, _, path = name.partition(":")
            found = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
            assert callable(found), name
            assert paper_map.line_of(ROOT / f"{module.replace('.', '/')}.py", path) > 0


def test_every_test_exists():
    for row in ROWS:
        assert row["test"], row["item"]
        for name in row["test"]:
            file, _, test = name.partition("::")
            assert test.rpartition("::")[2].startswith("test_"), name
            assert test in names_of_tests(file), name


def test_a_chapter_of_the_paper_that_is_not_mapped_would_be_noticed():
    assert "eq-of-nowhere" not in labels()
    assert "test_of_nothing" not in names_of_tests("test_cells.py")
    with pytest.raises(paper_map.ExtensionError, match="Nothing is not in"):
        paper_map.line_of(ROOT / "lvqrej/cells.py", "Nothing")
    with pytest.raises(paper_map.ExtensionError, match="no file of tests is called test_nothing"):
        paper_map.file_of_tests(ROOT, "test_nothing.py")
