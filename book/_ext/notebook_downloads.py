"""What each chapter offers for download can be read, and run, on any machine.

Its first lines say how to get the two packages that a chapter imports. In the book a figure is a MyST
directive that names a file of the build; in the notebook that a reader downloads the picture itself takes
its place, with the caption below it, and a table keeps its rows.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from nbformat.v4 import new_markdown_cell, new_output
from sphinx.application import Sphinx

SHOWN = re.compile(r"::::\{(?P<kind>figure|table)\}(?P<argument>[^\n]*)\n(?P<rest>.*)\n::::\n?", re.DOTALL)
#: A role in a caption, such as a citation or a reference, of which only the content is left.
ROLE = re.compile(r"\{[a-z:]+\}`([^`]*)`")
#: The explorer in a chapter: its options, and its caption, which stays.
EXPLORER = re.compile(
    r"^(`{3,})\{explorer\}[^\n]*\n(?::\w+:[^\n]*\n)*(.*?)^\1[ ]*$", re.DOTALL | re.MULTILINE
)
INTERACTIVE = "*In the book an interactive picture stands here.* "
#: The first lines of a chapter that was downloaded.
NOTE = (
    "> **To run this chapter** you need the package `lvqrej` and, for its data and figures, `companion`. "
    "Both come with the book: `git clone {repository}`, then `make env` installs them and `make lab` opens "
    "all chapters."
)
Output = dict[str, Any]


def make_self_contained(app: Sphinx, error: Exception | None) -> None:
    """Rewrite the sources and the notebooks that the theme offers for download.

    MyST-NB writes them without any output if the notebook was executed in an earlier build: the outputs are
    always taken from the cache of executed notebooks.
    """
    if error is not None or app.builder.name != "html":
        return
    executed = get_cache(app.config.nb_execution_cache_path)
    note = NOTE.format(repository=app.config.html_theme_options["repository_url"])
    for page in app.env.found_docs:
        file = Path(app.outdir) / "_sources" / f"{page}.ipynb"
        if file.exists():
            source = file.with_suffix(".md")
            source.write_text(with_note(source.read_text(encoding="utf-8"), note), encoding="utf-8")
            notebook = nbformat.read(file, as_version=4)
            notebook.cells = [cell for cell in notebook.cells if not _is_note(cell.source)]
            if app.config.nb_execution_mode == "cache":
                _, notebook = executed.merge_match_into_notebook(notebook)
            notebook.cells.insert(0, new_markdown_cell(note, id="how-to-run"))
            for cell in notebook.cells:
                if cell.cell_type == "markdown":
                    cell.source = EXPLORER.sub(lambda found: INTERACTIVE + found[2].strip(), cell.source)
                elif cell.cell_type == "code":
                    cell.outputs = [part for output in cell.outputs for part in self_contained(output)]
            nbformat.write(notebook, file)


def with_note(text: str, note: str) -> str:
    """Return the text of a chapter with the note below its metadata; what had one before has the new one."""
    head, end, body = text.partition("\n---\n")
    lines = [line for line in body.lstrip("\n").splitlines(keepends=True) if not _is_note(line)]
    return f"{head}{end}\n{note}\n\n{''.join(lines).lstrip()}"


def _is_note(text: str) -> bool:
    return text.startswith(NOTE[: NOTE.index("you")])


def self_contained(output: Output) -> list[Output]:
    """Return the outputs that take the place of this one."""
    text = "".join(output.get("data", {}).get("text/markdown", ""))
    found = SHOWN.fullmatch(text)
    if found is None:
        return [output]
    argument, body = found["argument"].strip(), found["rest"].partition("\n\n")[2]
    if found["kind"] == "table":
        return [_markdown(f"*{_without_roles(argument)}*\n\n{body}")]
    picture = Path(os.environ["LVQREJ_EXPORT"]) / Path(argument).with_suffix(".png").name
    data = {
        "image/png": base64.b64encode(picture.read_bytes()).decode(),
        "text/plain": output["data"]["text/plain"],
    }
    return [new_output("display_data", data), _markdown(_without_roles(body))]


def _markdown(text: str) -> Output:
    return new_output("display_data", {"text/markdown": text, "text/plain": text})


def _without_roles(text: str) -> str:
    return ROLE.sub(r"\1", text.strip())


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.connect("build-finished", make_self_contained)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
