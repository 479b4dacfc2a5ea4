"""The build of the book, on a book of one page: never stale, never green with an error in it, repeatable."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ("book/_ext", "book/_static")
FILES = (
    "_config.yml",
    "requirements.txt",
    "book/references.bib",
    "companion/__init__.py",
    "companion/figures.py",
)
PACKAGE = "def answer():\n    return 'the first answer'\n"
TOC = "format: jb-book\nroot: notebooks/page\n"
PAGE = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A page

```{code-cell} ipython3
import matplotlib.pyplot as plt
import pandas as pd

from companion import figures
from lvqrej import answer

print(answer(), file=open("RUNS", "a"))
print(answer())
```

```{code-cell} ipython3
figure, axes = plt.subplots()
axes.plot([0, 1], [0, 1], label="$r(x)$")
axes.legend()
figures.show(
    figure,
    "fig-line",
    caption="A line $r(x) = x$.",
    alt="A straight line rising from zero to one.",
    data=pd.DataFrame({"x": [0, 1 / 3]}),
)
```
"""


def build_command():
    """Return the command by which `make book` builds, so that what is tested is what is run."""
    arguments = re.search(r"\$\(BIN\)/jupyter-book (build .*)", (ROOT / "Makefile").read_text()).group(1)
    return [str(Path(sys.executable).with_name("jupyter-book")), *arguments.split()]


class Book:
    """A book of one page with a package of one function."""

    def __init__(self, folder):
        self.folder = folder
        for name in SHARED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            self.write(name, (ROOT / name).read_text())
        self.write("lvqrej/__init__.py", PACKAGE)
        self.write("_toc.yml", TOC)
        self.write("notebooks/page.md", PAGE.replace("RUNS", str(folder / "runs")))

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def build(self, **variables):
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "NO_COLOR": "1", **variables}
        return subprocess.run(
            build_command(), cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def html(self):
        return (self.folder / "_build/html/notebooks/page.html").read_text()

    def runs(self):
        return (self.folder / "runs").read_text().splitlines()


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    book = Book(tmp_path_factory.mktemp("built"))
    result = book.build()
    assert result.returncode == 0, result.stdout + result.stderr
    book.said = result.stdout + result.stderr
    return book


def test_page_shows_the_output_and_the_numbered_figure(built):
    assert "the first answer" in built.html()
    assert re.search(r'<figure[^>]* id="fig-line">', built.html())
    assert "Fig. 1" in built.html()


def test_progress_is_told_and_nothing_of_kernels(built):
    assert re.search(r"1 of 1 notebooks to execute\nnotebook 1 of 1: page, \d+ s\n", built.said)
    assert "IPKernelApp" not in built.said
    assert len(built.said.splitlines()) < 40, built.said


def test_what_was_executed_is_left_with_its_outputs(built):
    notebook = json.loads((built.folder / "_build/outputs/page.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert outputs[0]["text"] in ("the first answer\n", ["the first answer\n"])
    assert any("fig-line.svg" in str(output) for output in outputs)


def test_unchanged_book_is_not_executed_again_even_for_another_repository(built):
    before = built.runs()
    result = built.build(GITHUB_REPOSITORY="someone/else", GITHUB_SERVER_URL="https://github.com")
    assert result.returncode == 0, result.stderr
    assert built.runs() == before
    assert "no notebook to execute" in result.stdout
    assert "https://mybinder.org/v2/gh/someone/else/main?urlpath=lab/tree/notebooks/page.md" in built.html()
    assert 'href="https://github.com/someone/else/issues/new?' in built.html()
    assert '<link rel="canonical" href="https://someone.github.io/else/notebooks/page.html"' in built.html()


def test_edited_package_changes_the_page_and_a_gone_page_is_removed(built):
    gone = built.folder / "_build/html/notebooks/gone.html"
    gone.write_text("<title>A chapter that left the book</title>")
    door = built.folder / "_build/html/index.html"
    leads_to = door.read_text()
    door.write_text("leads to a page that is gone")
    built.write("lvqrej/__init__.py", PACKAGE.replace("first", "second"))
    result = built.build()
    assert result.returncode == 0, result.stderr
    assert "the second answer" in built.html()
    assert "the first answer" not in built.html()
    assert built.runs()[-1] == "the second answer"
    assert not gone.exists()
    assert door.read_text() == leads_to


def test_failing_cell_fails_the_build(tmp_path):
    book = Book(tmp_path)
    book.write("lvqrej/__init__.py", PACKAGE.replace("return", "raise ValueError"))
    result = book.build()
    assert result.returncode != 0
    assert "ValueError" in result.stdout + result.stderr
    assert "the first answer" in result.stdout + result.stderr


def test_warning_fails_the_build(tmp_path):
    book = Book(tmp_path)
    book.write("notebooks/page.md", "# A page\n\nSee {numref}`fig-that-is-nowhere`.\n")
    result = book.build()
    assert result.returncode != 0
    assert "fig-that-is-nowhere" in result.stdout + result.stderr
