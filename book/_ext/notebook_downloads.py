"""The executed notebook that each chapter offers for download shows its figures and tables on any machine.

In the book a figure is a MyST directive that names a file of the build. In the notebook that a reader
downloads the picture itself takes its place, with the caption below it, and a table keeps its rows.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from nbformat.v4 import new_output
from sphinx.application import Sphinx

SHOWN = re.compile(r"::::\{(?P<kind>figure|table)\}(?P<argument>[^\n]*)\n(?P<rest>.*)\n::::\n?", re.DOTALL)
#: A role in a caption, such as a citation or a reference, of which only the content is left.
ROLE = re.compile(r"\{[a-z:]+\}`([^`]*)`")
Output = dict[str, Any]


def make_self_contained(app: Sphinx, error: Exception | None) -> None:
    """Rewrite the notebooks that the theme offers for download.

    MyST-NB writes them without any output if the notebook was executed in an earlier build: the outputs are
    always taken from the cache of executed notebooks.
    """
    if error is not None or app.builder.name != "html":
        return
    executed = get_cache(app.config.nb_execution_cache_path)
    for page in app.env.found_docs:
        file = Path(app.outdir) / "_sources" / f"{page}.ipynb"
        if file.exists():
            notebook = nbformat.read(file, as_version=4)
            if app.config.nb_execution_mode == "cache":
                _, notebook = executed.merge_match_into_notebook(notebook)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.outputs = [part for output in cell.outputs for part in self_contained(output)]
            nbformat.write(notebook, file)


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
