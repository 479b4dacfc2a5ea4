"""The inside of the package: imports go one way, nothing is compiled, one sample takes a short way."""

import ast
import re
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lvqrej
from lvqrej import GLVQ, RejectOptionClassifier

ROOT = Path(__file__).parents[2]
PACKAGE = Path(lvqrej.__file__).parent
#: A module imports only what stands before it; a new one takes its place here.
ORDER = [
    *("validation", "columns", "folding", "prototypes", "training", "lvq"),
    *("solvers.certificate", "solvers.homotopy", "solvers.simplex", "solvers.cone"),
    *("solvers.search", "solvers", "cells", "branch_and_bound", "certainty"),
    *(
        "local_search",
        "budget_search",
        "probable_set",
        "probabilistic",
        "requirements",
    ),
    *("wording", "chart", "thresholds", "guarantees", "cause", "holding", "explanation", "discrete"),
    *("counterfactual", "sparsest", "robust", "plausible", "variants", "reasons", "common", "fitting"),
    *("storage", "page", "report", "classifier", "comparison", "stream", "__main__"),
]


def modules():
    """Return the files of the package by module, without the face of the package itself."""
    files = {file: file.relative_to(PACKAGE).with_suffix("").parts for file in PACKAGE.rglob("*.py")}
    names = {".".join(part for part in parts if part != "__init__"): file for file, parts in files.items()}
    return {name: file for name, file in names.items() if name}


def imports(file):
    """Return the full names that a file imports, also inside functions and for type checkers only."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def graph():
    """Return for each module of the package those that it imports."""
    known = modules()
    edges = {}
    for name, file in known.items():
        own = {full.removeprefix("lvqrej.") for full in imports(file) if full.split(".")[0] == "lvqrej"}
        # `from lvqrej.cells import Ball` asks for the module `cells`, `from lvqrej import cells` too.
        edges[name] = {full if full in known else full.rpartition(".")[0] for full in own}
    return edges


def test_every_module_has_its_place_and_imports_nothing_that_comes_later():
    edges = graph()
    assert sorted(set(edges) ^ set(ORDER)) == []
    wrong = [
        (name, other) for name in ORDER for other in edges[name] if other not in ORDER[: ORDER.index(name)]
    ]
    assert wrong == []
    assert len(list(TopologicalSorter(edges).static_order())) == len(ORDER)  # raises on a cycle
    assert all(
        other.split(".")[0] in ("solvers", "validation")
        for name in ORDER
        if name.startswith("solvers")
        for other in edges[name]
    )


def test_nothing_needs_a_compiler_or_the_book():
    everything = {full.split(".")[0] for file in PACKAGE.rglob("*.py") for full in imports(file)}
    assert not everything & {"numba", "llvmlite", "cython", "companion"}
    assert not re.search(
        "numba|llvmlite", (ROOT / "pyproject.toml").read_text() + (ROOT / "requirements.txt").read_text()
    )


def test_what_is_imported_is_seen_wherever_it_stands(tmp_path):
    file = tmp_path / "some.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a.b\ndef f():\n    from c import d\n"
    )
    assert imports(file) == {"typing.TYPE_CHECKING", "a.b", "c.d"}


@pytest.fixture(scope="module", params=["relative-similarity", "decision-distance", "probabilistic"])
def rejected(request):
    """Return a classifier and a sample that it rejects."""
    X, y = load_wine(return_X_y=True)
    threshold = ("reject_rate", 0.2)
    pipeline = make_pipeline(StandardScaler(), GLVQ(prototypes_per_class=2))
    classifier = RejectOptionClassifier(pipeline, request.param, threshold, cv=3).fit(X, y)
    return classifier, X[classifier.rejects(X)][0]


def test_one_sample_passes_few_files(rejected):
    classifier, x = rejected
    classifier.explain(x, bounds=None, grid=None)
    files = set()

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            files.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        classifier.explain(x, bounds=None, grid=None)
    finally:
        sys.setprofile(before)
    assert len(files) <= (14 if classifier.option == "probabilistic" else 12), sorted(files)


def test_the_distances_of_a_sample_are_computed_once(rejected, monkeypatch):
    """Once in each prototype model; neither the sentence nor the tables compute them again."""
    classifier, x = rejected
    seen = Counter()

    def counting(original):
        def distances(X, prototypes, L):
            seen[prototypes.tobytes()] += int((np.asarray(X) == x).all(axis=1).sum())
            return original(X, prototypes, L)

        return distances

    for name, module in list(sys.modules.items()):
        if name.startswith("lvqrej") and hasattr(module, "squared_distances"):
            monkeypatch.setattr(module, "squared_distances", counting(module.squared_distances))
    why = classifier.explain(x)
    assert len(why.to_frame()) == len(why.changed) > 0
    assert str(why.label) in str(why)
    assert why.cause.kind != "accepted"
    assert list(seen.values()) == [1] * len(classifier.option_.models())
