"""``{paper-map}``: everything the paper has, with the place in the book, the code and the tests, all linked.

The rows come from ``book/paper_map.csv``, which ``tests/book/test_paper_map.py`` holds against the paper's
list, the chapters, the code and the tests. In the file, tests lack their folder, and several entries of one
field are separated by blanks.
"""

from __future__ import annotations

import ast
import csv
import importlib
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

FILE = "book/paper_map.csv"
#: The role by which a label is referred to, by its first word.
ROLES = {
    "eq": "eq",
    "fig": "numref",
    "tab": "numref",
    **dict.fromkeys(("alg", "cor", "def", "lem", "thm"), "prf:ref"),
}


def read_map(root: Path) -> list[dict[str, Any]]:
    """Return the rows; the fields `book`, `code` and `test` are lists."""
    with (root / FILE).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{**row, **{field: row[field].split() for field in ("book", "code", "test")}} for row in rows]


def line_of(file: Path, name: str) -> int:
    """Return the line on which a function, class or method begins."""
    scope: Any = ast.parse(file.read_text(encoding="utf-8"))
    for part in name.split("."):
        named = [node for node in scope.body if getattr(node, "name", None) == part]
        if not named:
            raise ExtensionError(f"{FILE}: {name} is not in {file}")
        scope = named[0]
    return scope.lineno


def file_of_tests(root: Path, name: str) -> Path:
    """Return the file of tests of that name, in whichever folder of tests it is."""
    found = next((root / "tests").rglob(name), None)
    if found is None:
        raise ExtensionError(f"{FILE}: no file of tests is called {name}")
    return found


class PaperMap(SphinxDirective):
    """``{paper-map}``: one table for each kind of thing."""

    def run(self) -> list[nodes.Node]:
        """Return the tables, parsed from MyST."""
        self.root = Path(self.env.app.srcdir)
        self.env.note_dependency(FILE)
        self.documented = {
            name
            for page in self.root.glob("book/api*.md")
            for name in re.findall(r"auto\w+:: (\S+)", page.read_text("utf-8"))
        }
        lines: list[str] = []
        for kind, rows in groupby(read_map(self.root), key=lambda row: row["kind"]):
            lines += [
                f"## {kind}",
                "",
                "| In the paper | In the book | Code, and tests of it |",
                "|:--|:--|:--|",
            ]
            lines += [self._row(row) for row in rows] + [""]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)

    def _row(self, row: dict[str, Any]) -> str:
        cells = (
            [f"**{row['item']}** {row['what']}"],
            map(self._book, row["book"]),
            [*map(self._code, row["code"]), *map(self._test, row["test"])],
        )
        return "| " + " | ".join("<br>".join(cell) for cell in cells) + " |"

    def _book(self, label: str) -> str:
        if "/" in label:
            return f"{{doc}}`/{label}`"
        kind = label.split("-")[0]
        return ("Eq. " if kind == "eq" else "") + f"{{{ROLES[kind]}}}`{label}`"

    def _code(self, name: str) -> str:
        module, _, path = name.partition(":")
        public = getattr(importlib.import_module(module), "__all__", [path.split(".")[0]])
        in_full = module in self.documented and path.split(".")[0] in public
        if in_full or f"{module}.{path}" in self.documented:
            return f"{{py:obj}}`{path} <{module}.{path}>`"
        file = module.replace(".", "/") + ".py"
        return f"[`{path}`]({self._source(file, path)})"

    def _test(self, name: str) -> str:
        file, *path = name.split("::")
        words = path[-1].removeprefix("test_").replace("_", " ")
        place = file_of_tests(self.root, file).relative_to(self.root).as_posix()
        return f"[{words}]({self._source(place, '.'.join(path))})"

    def _source(self, file: str, name: str) -> str:
        theme = self.config.html_theme_options
        repository, branch = theme["repository_url"], theme.get("repository_branch", "main")
        return f"{repository}/blob/{branch}/{file}#L{line_of(self.root / file, name)}"


def read_again(app: Sphinx, env: BuildEnvironment, *_: Any) -> list[str]:
    """Return the pages to read in every build: lines of code and the repository's address change unseen."""
    return [page for page in env.found_docs if page == "book/paper-map"]


def add_style(app: Sphinx, page: str, *_: Any) -> None:
    """Add the look of the map to its page."""
    if page in read_again(app, app.env):
        app.add_css_file("paper-map.css")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_directive("paper-map", PaperMap)
    app.connect("env-get-outdated", read_again)
    app.connect("html-page-context", add_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
