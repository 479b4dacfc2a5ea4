"""The chapters and the companion use public names of the package, and the package knows neither of them."""

import ast
from pathlib import Path

import jupytext

import lvqrej

ROOT = Path(__file__).parents[2]
#: Modules of the package that a reader may look into; what else there is may change without notice.
OPEN = {
    *("cause", "cells", "certainty", "chart", "classifier", "comparison", "guarantees", "lvq"),
    *("probabilistic", "prototypes", "reasons"),
    *("requirements", "solvers", "stream", "thresholds", "training", "validation", "variants", "wording"),
}
CHAPTERS = sorted((ROOT / "notebooks").glob("*.md"))
COMPANION = sorted((ROOT / "companion").glob("*.py"))


def imports(source):
    """Return the modules and names that a piece of code imports from; a plain import has no names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def of_chapter(file):
    cells = [cell.source for cell in jupytext.read(file).cells if cell.cell_type == "code"]
    return [each for cell in cells for each in imports(cell)]


def is_public(module, names):
    package, *parts = module.split(".")
    if package != "lvqrej":
        return package != "companion" or len(parts) < 2
    if parts:
        return len(parts) == 1 and parts[0] in OPEN and not any(name.startswith("_") for name in names)
    return set(names) <= set(lvqrej.__all__)


def test_only_public_names_are_imported():
    found = {file.stem: of_chapter(file) for file in CHAPTERS}
    found |= {file.stem: list(imports(file.read_text())) for file in COMPANION}
    hidden = {name: [each for each in all_of if not is_public(*each)] for name, all_of in found.items()}
    assert {name: each for name, each in hidden.items() if each} == {}


def test_a_chapter_needs_no_checks_of_arguments():
    assert not [file for file in CHAPTERS for module, _ in of_chapter(file) if module == "lvqrej.validation"]


def test_the_package_knows_nothing_of_the_book():
    known = {module for file in (ROOT / "lvqrej").rglob("*.py") for module, _ in imports(file.read_text())}
    assert not [module for module in known if module and module.split(".")[0] == "companion"]


def test_what_is_not_public_is_noticed():
    assert not is_public("lvqrej.solvers.cone", ["solve"])
    assert not is_public("lvqrej.cells", ["_scaled"])
    assert not is_public("lvqrej", ["wording"])
    assert is_public("lvqrej", ["explain"])
