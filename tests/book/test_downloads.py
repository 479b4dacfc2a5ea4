"""What the gallery says of a figure, and what a downloaded notebook shows, on a book of one cell."""

import base64
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from docutils import nodes
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from sphinx import addnodes

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import gallery  # noqa: E402
import notebook_downloads  # noqa: E402

FIGURE = (
    "::::{figure} /_build/figures/fig-line.svg\n:name: fig-line\n:alt: A line.\n\nSee {cite:t}`key`.\n::::\n"
)
TABLE = "::::{table} Two numbers, {numref}`fig-line`\n:name: tab-two\n\n| a |\n| ---: |\n| 1 |\n::::\n"
SOURCE = "---\nkernelspec: python3\n---\n\n# A page\n\nText.\n"
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def shown(text, plain="A line."):
    return new_output("display_data", {"text/markdown": text, "text/plain": plain})


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A site whose download lost its outputs, as in a build from the cache, and the cache that has them."""
    monkeypatch.setenv("LVQREJ_EXPORT", str(tmp_path))
    (tmp_path / "fig-line.png").write_bytes(b"a picture")
    cells = [new_markdown_cell("# A page"), new_code_cell("show()")]
    notebook = new_notebook(cells=cells, metadata=KERNEL)
    target = tmp_path / "_sources" / "page.ipynb"
    target.parent.mkdir()
    target.with_suffix(".md").write_text(SOURCE)
    nbformat.write(notebook, target)
    cells[1].outputs = [shown(FIGURE), shown(TABLE), new_output("stream", text="printed\n")]
    cells[1].execution_count = 1
    bundle = CacheBundleIn(notebook, "page.md", data={"execution_seconds": 1})
    cache = tmp_path / "cache"
    get_cache(str(cache)).cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    return SimpleNamespace(
        builder=SimpleNamespace(name="html"),
        config=SimpleNamespace(
            nb_execution_cache_path=str(cache),
            nb_execution_mode="cache",
            html_theme_options={"repository_url": "https://host/us/ours"},
        ),
        env=SimpleNamespace(found_docs={"page", "prose"}),
        outdir=str(tmp_path),
        file=target,
    )


def test_a_download_has_the_outputs_of_the_cache_and_shows_them_anywhere(book):
    for _ in range(2):  # a second build changes nothing
        notebook_downloads.make_self_contained(book, None)
        note, _, cell = nbformat.read(book.file, as_version=4).cells
        assert "git clone https://host/us/ours" in note.source
        assert cell.execution_count == 1
        picture, caption, table, printed = cell.outputs
        assert base64.b64decode(picture.data["image/png"]) == b"a picture"
        assert picture.data["text/plain"] == "A line."
        assert caption.data["text/markdown"] == "See key."
        assert table.data["text/markdown"] == "*Two numbers, fig-line*\n\n| a |\n| ---: |\n| 1 |"
        assert printed.text == "printed\n"


def test_a_download_keeps_the_caption_of_an_explorer(book):
    notebook = nbformat.read(book.file, as_version=4)
    notebook.cells[0].source = "Before.\n\n```{explorer} training\n:choose:\n\nMove it.\n```\n\nAfter."
    nbformat.write(notebook, book.file)
    book.config.nb_execution_mode = "off"
    notebook_downloads.make_self_contained(book, None)
    text = nbformat.read(book.file, as_version=4).cells[1].source
    assert text == f"Before.\n\n{notebook_downloads.INTERACTIVE}Move it.\n\nAfter."


def test_a_downloaded_source_says_how_to_get_what_it_imports(book):
    for _ in range(2):
        notebook_downloads.make_self_contained(book, None)
        head, note, body = book.file.with_suffix(".md").read_text().split("\n\n", 2)
        assert (head, body) == ("---\nkernelspec: python3\n---", "# A page\n\nText.\n")
        assert all(
            word in note for word in ("`lvqrej`", "`companion`", "git clone https://host/us/ours", "make env")
        )


def test_without_execution_a_download_is_as_the_chapter_is(book):
    book.config.nb_execution_mode = "off"
    notebook_downloads.make_self_contained(book, None)
    assert nbformat.read(book.file, as_version=4).cells[2].outputs == []


@pytest.mark.parametrize(("builder", "error"), [("singlehtml", None), ("html", ValueError("failed"))])
def test_other_builds_leave_downloads_alone(book, builder, error):
    before = book.file.read_bytes()
    book.builder.name = builder
    notebook_downloads.make_self_contained(book, error)
    assert book.file.read_bytes() == before


def test_the_title_of_a_figure_is_its_first_sentence_with_formulas_and_numbers():
    reference = addnodes.pending_xref("", nodes.inline("", "tab-two"), reftarget="tab-two")
    caption = [
        nodes.Text("Where "),
        nodes.math("", "r(x) = 0"),
        nodes.Text(" in "),
        reference,
        nodes.Text(". More."),
    ]
    assert gallery.plain(caption, {"tab-two": "Table 1.1"}) == "Where $r(x) = 0$ in Table 1.1"


def test_names_cover_all_that_is_numbered():
    env = SimpleNamespace(
        toc_fignumbers={"page": {"figure": {"fig-a": (1, 2)}, "displaymath": {"equation-eq-b": (3,)}}}
    )
    assert gallery.names(env) == {"fig-a": "Figure 1.2", "eq-b": "Eq. 3"}


def test_citations_name_the_work_the_figure_and_its_address():
    source = {
        "authors": [{"name": "Us"}],
        "date-released": "2026-11-16",
        "title": "The book",
        "version": "1",
    }
    record = {"page": "notebooks/page", "id": "fig-line"}
    text, bibtex = gallery.citations(record, "Figure 1.1", "A line", source, "https://host/")
    assert text == (
        "Us (2026). A line. Figure 1.1 of “The book”, version 1. "
        "https://host/notebooks/page.html#fig-line (CC BY 4.0)."
    )
    assert "  author = {{Us}},\n  title = {A line},\n" in bibtex
    assert "  url = {https://host/notebooks/page.html#fig-line},\n" in bibtex


def test_thumbnails_keep_their_shape():
    assert gallery.reduced((2000, 1000)) == (gallery.WIDTH, gallery.WIDTH // 2)
