"""How long each chapter is: words, displayed formulas, minutes, lines of code in view, and figures.

Counted is all text, also that of folded proofs and solutions, with titles of boxes and captions; a formula in
a line and a reference count as one word each. Lines of code and assertions count where a reader sees them
without unfolding anything. Reading takes a minute per 200 words and per displayed formula, rounded up to the
next five.

``python book/_ext/reading.py notebooks/03-reject-options.md`` tells the numbers of a chapter.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).parents[2]
WORDS_A_MINUTE, ROUNDED_TO = 200, 5
#: What no chapter exceeds; the pages of this part have no limits.
LIMITS = {"words": 2500, "minutes": 35, "lines": 80, "assertions": 0}
WITHOUT_LIMITS = "Inside"
#: Code cells with one of these tags show no code to begin with.
UNSEEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
#: Directives whose argument is no title, whose content is no text, and those that fold it.
NO_TITLE = ("solution", "solution-start", "exercise", "figure", "image", "explorer", "table")
NO_TEXT = ("math", "bibliography", "eval-rst", "code-block", "code")
FOLDED = ("dropdown", "toggle", "solution-start")
FENCE = re.compile(r"^\s*(?P<marks>`{3,}|:{3,})\s*(?:\{(?P<name>[a-z:-]+)\})?(?P<argument>.*)$")
STATED = re.compile(r"\*\*It takes\*\* about (\d+|five|ten) minutes")
NUMBERS = {"five": 5, "ten": 10}
ASSERTION = re.compile(r"^\s*(?:assert\b|np\.testing\.)", re.MULTILINE)


@dataclass
class Counts:
    """The numbers of one chapter."""

    words: int = 0
    formulas: int = 0
    lines: int = 0
    figures: int = 0
    assertions: int = 0
    stated: int | None = None
    #: The names of the directives that are open, the innermost last, each with whether it is folded.
    open: list[tuple[str, str, bool]] = field(default_factory=list, repr=False)

    @property
    def minutes(self) -> int:
        """The time that reading takes, by words and formulas."""
        exact = self.words / WORDS_A_MINUTE + self.formulas
        return ROUNDED_TO * max(math.ceil(exact / ROUNDED_TO), 1)

    @property
    def folded(self) -> bool:
        """Whether what comes now is folded."""
        return any(folded for *_, folded in self.open)


@cache
def counts_of(file: Path) -> Counts:
    """Count a chapter, from its source."""
    counts = Counts()
    for cell in jupytext.read(file).cells:
        if cell.cell_type == "markdown":
            _count_text(cell.source, counts)
        elif cell.cell_type == "code":
            _count_code(cell, counts)
    found = STATED.search(file.read_text(encoding="utf-8"))
    counts.stated = found and (NUMBERS.get(found[1]) or int(found[1]))
    return counts


def _count_code(cell: Any, counts: Counts) -> None:
    """Count the lines of a code cell, if it shows any, and the figures and captions that it makes."""
    tags = set(cell.metadata.get("tags", ()))
    if not tags & UNSEEN and not counts.folded:
        counts.lines += sum(1 for line in cell.source.splitlines() if line.strip())
        counts.assertions += len(ASSERTION.findall(cell.source))
    if tags & {"remove-cell", "hide-cell", "remove-output", "hide-output"}:
        return
    for call in (node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        if name in ("figures.show", "figures.table"):
            counts.figures += name == "figures.show"
            for keyword in call.keywords:
                if keyword.arg == "caption":
                    strings = (part for part in ast.walk(keyword.value) if isinstance(part, ast.Constant))
                    counts.words += _words(" ".join(str(part.value) for part in strings))


def _count_text(text: str, counts: Counts) -> None:
    """Count the words and formulas of a text cell, box by box; a box may go on in later cells."""
    options = False
    for line in text.splitlines():
        fence = FENCE.match(line)
        closes = fence and fence["name"] is None and not fence["argument"].strip()
        if fence and closes and counts.open and fence["marks"] == counts.open[-1][1]:
            counts.open.pop()
            continue
        if fence and (counts.open or [("", "", False)])[-1][0] not in NO_TEXT:
            options = _open_box(fence, counts)
            continue
        if options and (option := re.match(r"\s*:(\w+):(.*)", line)):
            if option[1] == "class" and {"dropdown", "toggle"} & set(re.findall(r"\w+", option[2])):
                name, marks, _ = counts.open[-1]
                counts.open[-1] = (name, marks, True)
            continue
        options = False
        innermost = counts.open[-1][0] if counts.open else ""
        if innermost in ("code", "code-block"):
            counts.lines += bool(line.strip()) and not counts.folded
        elif innermost not in NO_TEXT:
            _count_line(line, counts)


def _open_box(fence: re.Match[str], counts: Counts) -> bool:
    """Note that a box or a block of code begins; return whether options may follow."""
    name = fence["name"] or "code"
    if name == "solution-end":
        counts.open = [box for box in counts.open if box[0] != "solution"]
        counts.open.append((name, fence["marks"], False))
        return True
    if name == "solution-start":
        counts.open.append(("solution", "", True))
    elif name == "math":
        counts.formulas += 1
    elif name not in (*NO_TITLE, *NO_TEXT):
        counts.words += _words(fence["argument"])
    counts.open.append((name, fence["marks"], name in FOLDED))
    return True


def _count_line(line: str, counts: Counts) -> None:
    # Displayed formulas between two dollars, on lines of their own or several on one.
    marks = line.count("$$")
    inside = counts.open and counts.open[-1][0] == "dollars"
    for part in re.split(r"(\$\$)", line) if marks or inside else [line]:
        if part == "$$":
            if counts.open and counts.open[-1][0] == "dollars":
                counts.open.pop()
            else:
                counts.formulas += 1
                counts.open.append(("dollars", "", False))
        elif not (counts.open and counts.open[-1][0] == "dollars"):
            counts.words += _words(part)


def _words(text: str) -> int:
    """Count the words of a line of MyST.

    >>> _words("A {term}`prototype <prototype>` has $d(x, p) = 0$ *there* ([why](05.md#a-b)).")
    6
    """
    text = re.sub(r"<!--.*?-->|^\s*%.*|^\s*\([\w-]+\)=\s*$|^\+\+\+.*", "", text)
    text = re.sub(r"\$[^$]+\$", " x ", text)
    text = re.sub(r"\{(?:term|ref|doc)\}`([^`<]+?)\s*<[^>]*>`", r"\1", text)
    text = re.sub(r"\{[a-z:]+\}`[^`]*`", " x ", text)
    text = re.sub(r"\]\([^)]*\)|\{[^}]*\}", " ", text)
    return sum(1 for word in text.split() if re.search(r"\w", word))


@cache
def chapters() -> dict[str, str]:
    """Return the notebooks in their order, each with the caption of its part."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    front = {"caption": "Start", "chapters": [{"file": contents["root"]}]}
    parts = [front, *contents.get("parts", [contents])]
    return {
        chapter["file"]: part.get("caption", "")
        for part in parts
        for chapter in part.get("chapters", ())
        if chapter["file"].startswith("notebooks/")
    }


def minutes_of(names: list[str]) -> int:
    """Return the minutes that these pages take together.

    Names are those of chapters, of pages in book/, captions of parts, or "all", for every chapter. What is
    named twice is read once.
    """
    named: dict[str, list[Path]] = {file.stem: [file] for file in (ROOT / "book").glob("*.md")}
    for chapter, part in chapters().items():
        file = ROOT / f"{chapter}.md"
        named[file.stem] = [file]
        for group in (part, "all"):
            named.setdefault(group, []).append(file)
    for name in names:
        if name not in named:
            raise ExtensionError(f"a reading time is of chapters, pages or parts; found {name!r}")
    return sum(counts_of(file).minutes for file in {file for name in names for file in named[name]})


def in_words(minutes: int) -> str:
    """Return a time as a reader would say it: minutes, from 90 on half hours.

    >>> in_words(55), in_words(100), in_words(490)
    ('55 minutes', '1½ hours', '8 hours')
    """
    if minutes < 90:
        return f"{minutes} minutes"
    hours, half = divmod(round(minutes / 30), 2)
    return f"{hours}{'½' * half} hours"


class ReadingTime(SphinxRole):
    """``{reading-time}`01-quickstart, Foundations```: how long chapters, pages and parts take together."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the time, and read the page again when one of the chapters changes."""
        for chapter in chapters():
            self.env.note_dependency(str(ROOT / f"{chapter}.md"))
        return [nodes.Text(in_words(minutes_of([name.strip() for name in self.text.split(",")])))], []


class ReadingTable(SphinxDirective):
    """``{reading}``: the numbers of every chapter."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        from lvqrej_book import table

        head = ("chapter", "words", "formulas", "minutes", "stated", "lines of code in view", "figures")
        rows = []
        for chapter in chapters():
            self.env.note_dependency(str(ROOT / f"{chapter}.md"))
            counts = counts_of(ROOT / f"{chapter}.md")
            numbers = [counts.words, counts.formulas, counts.minutes, counts.stated, counts.lines]
            told = ["–" if number is None else f"{number:,}" for number in [*numbers, counts.figures]]
            rows.append((chapter.removeprefix("notebooks/"), *told))
        return [table(head, rows)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_role("reading-time", ReadingTime())
    app.add_directive("reading", ReadingTable)
    # A build in the same process as an earlier one counts anew.
    app.connect("builder-inited", lambda app: counts_of.cache_clear())
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    for name in sys.argv[1:] or [str(ROOT / f"{chapter}.md") for chapter in chapters()]:
        told = counts_of(Path(name))
        print(f"{Path(name).stem}: {told}, minutes={told.minutes}")
