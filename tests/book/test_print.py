"""`make print` on a book of two pages: one PDF with contents, page numbers, bookmarks and drawings."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from browser import chromium
from PIL import Image
from test_build import PAGE, ROOT, Book

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import print_book

pytestmark = pytest.mark.slow

SECOND = """# Another page

## A section

{table}

```{code-cell} ipython3
:tags: [hide-input]

plotting = "folded code"
```

```{code-cell} ipython3
algorithm = "visible code"
```

````{prf:theorem} A claim
:label: thm-claim
It holds, see {eq}`eq-claim`.

```{math}
:label: eq-claim
r(x) \\ge \\theta
```
````

```{exercise}
:label: ex-claim
Prove {prf:ref}`thm-claim`.
```

````{solution} ex-claim
:class: dropdown
The folded solution.
````
"""
#: Eight columns of unbreakable words do not fit a page at full size.
WIDE = "\n".join(["|column_of_words" * 8 + "|", "|--" * 8 + "|", "|123.456" * 8 + "|"])
SECOND = SECOND.replace("{table}", WIDE)


def commands():
    """Return the two commands of `make print`."""
    recipe = re.search(r"^print:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE).group(1)
    folder = Path(sys.executable).parent
    return [line.strip().replace("$(BIN)", str(folder)).split() for line in recipe.splitlines()]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    with chromium():
        pass  # without a browser, skip
    book = Book(tmp_path_factory.mktemp("printed"))
    book.write(
        "_toc.yml",
        "format: jb-book\nroot: notebooks/page\nchapters:\n- file: notebooks/second\n- file: book/sheet\n",
    )
    book.write("book/sheet.md", "# Cheat sheet\n\nAll on one page.\n")
    book.write("notebooks/second.md", PAGE.split("# A page")[0] + SECOND)
    environment = {**os.environ, "PYTHONPATH": str(book.folder), "NO_COLOR": "1"}
    for command in commands():
        result = subprocess.run(
            command, cwd=book.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
    book.said = result.stdout
    return book


def test_the_pdf_has_pages_bookmarks_and_no_pixels(book):
    sheet, pdf = sorted((book.folder / "_build").glob("*.pdf"))
    assert print_book.count_pages(sheet.read_bytes()) == 1
    assert sheet.name == "cheat-sheet.pdf"
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/Outlines" in content
    assert b"/StructTreeRoot" in content
    assert b"/Subtype /Image" not in content
    pages = print_book.pages_of(content)
    last = max(pages.values())
    assert pages == {"print-0": 3, "print-1": last - 1, "print-2": last - 1, "print-3": last}
    assert f"{max(pages.values())} pages: _build/{pdf.name}" in book.said


def test_the_page_is_ready_for_paper(book):
    site = book.folder / "_build" / "singlehtml"
    with chromium() as browser:
        page = browser.new_page(viewport={"width": print_book.WIDTH, "height": 1000})
        page.goto((site / "book.html").as_uri())
        page.evaluate("() => window.MathJax?.startup?.promise")
        words = {"title": "Title", "subtitle": ["Author"], "root": "notebooks/page.html"}
        page.evaluate(print_book.PREPARE, words)
        page.evaluate(print_book.NUMBER, {"print-0": 3, "print-1": 5})
        text = page.inner_text("body")
        entries = page.locator(".print-contents a").all()
        assert [(entry.inner_text(), entry.get_attribute("data-page")) for entry in entries] == [
            ("A page", "3"),
            ("Another page", "5"),
            ("A section", ""),
            ("Cheat sheet", ""),
        ]
        assert "visible code" in text
        assert "The folded solution." in text
        assert "Theorem 1" in text
        assert "folded code" not in text
        assert page.locator("article img[src$='.svg']").count() == 1
        page.add_style_tag(path=str(ROOT / "book" / "_static" / "print.css"))
        page.emulate_media(media="print")
        page.evaluate(print_book.FIT)
        # What is wider than the page would shrink all of them.
        assert page.evaluate("document.documentElement.scrollWidth") == print_book.WIDTH
        table = page.locator("article table.table")
        assert float(table.evaluate("table => table.style.fontSize").removesuffix("em")) < 0.85
        assert "whole" in table.get_attribute("class")
        assert page.locator("article pre:not(.whole)").count() == 0
        lost = page.evaluate(
            "() => [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
            ".filter(id => id && !document.getElementById(id))"
        )
        assert lost == []


def drawing(**style):
    """Return a drawing of two overlapping shapes, one of them cut off by the axes."""
    figure, axes = plt.subplots(figsize=(4, 3))
    axes.fill([0, 1, 0.5], [0, 0, 1], edgecolor="white", **style)
    axes.bar([0.8], [3], color="gold", edgecolor="black", **style)
    axes.set(ylim=(-1, 2))
    with io.BytesIO() as buffer:
        figure.savefig(buffer, format="svg")
        plt.close(figure)
        return buffer.getvalue().decode()


def test_hatches_are_drawn_as_lines():
    svg = drawing(hatch="//")
    drawn = print_book.draw_hatches(svg)
    assert "<pattern" in svg
    assert "pattern" not in drawn
    assert "fill: url" not in drawn
    pictures, prints = [], []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 500, "height": 400})
        for shown in (svg, drawn):
            page.set_content(shown[shown.index("<svg") :])
            pictures.append(np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"), dtype=float))
            prints.append(page.pdf())
    assert [b"/Subtype /Image" in printed for printed in prints] == [True, False]
    assert np.abs(pictures[0] - pictures[1]).mean() < 0.5


def test_a_drawing_without_hatches_stays_as_it_is():
    svg = drawing()
    assert print_book.draw_hatches(svg) == svg


def test_short_cells_stay_on_one_line():
    """A table that fits with smaller type breaks no number; another one breaks its longer cells first."""
    row = "<tr>" + "<td>0.12 ± 0.03</td>" * 11 + "<td>a cell that is long enough to be broken</td></tr>"
    long = "<tr>" + "<td>twenty-four letters here</td>" * 9 + "<td>0.12 ± 0.03</td></tr>"
    with chromium() as browser:
        page = browser.new_page(viewport={"width": print_book.WIDTH, "height": 1000})
        body = "".join(f"<div><table class='table'>{part}</table></div>" for part in (row, long))
        page.set_content(f"<div class='bd-article'><article>{body}</article></div>")
        page.add_style_tag(path=str(ROOT / "book" / "_static" / "print.css"))
        page.evaluate(print_book.FIT)
        lines = page.evaluate(
            "() => [...document.querySelectorAll('table')].map(table => "
            "[...table.querySelectorAll('td')].map(cell => cell.classList.contains('line')))"
        )
    assert lines == [[True] * 11 + [False], [False] * 9 + [True]]
