"""The executed notebook that each chapter offers for download shows its figures and tables on any machine.

In the book a figure is a MyST directive that names a file of the build. In the notebook that a reader
downloads the picture itself takes its place, with the caption below it, and a table keeps its rows.
"""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SHOWN = re.compile(r"::::\{(?P<kind>figure|table)\}(?P<argument>[^\n]*)\n(?P<rest>.*)\n::::\n?", re.DOTALL)
#: A role in a caption, such as a citation or a reference, of which only the content is left.
ROLE = re.compile(r"\{[a-z:]+\}`([^`]*)`")
Output = dict[str, Any]


def make_self_contained(app: Sphinx, error: Exception | None) -> None:
    """Rewrite the notebooks that the theme offers for download."""
    if error is None and app.builder.name == "html":
        for file in (Path(app.outdir) / "_sources").rglob("*.ipynb"):
            notebook = json.loads(file.read_text(encoding="utf-8"))
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    cell["outputs"] = [part for output in cell["outputs"] for part in self_contained(output)]
            file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def self_contained(output: Output) -> list[Output]:
    """Return the outputs that take the place of this one."""
    text = "".join(output.get("data", {}).get("text/markdown", ""))
    found = SHOWN.fullmatch(text)
    if found is None:
        return [output]
    options, _, body = found["rest"].partition("\n\n")
    if found["kind"] == "table":
        caption = found["argument"]
        return [_markdown(f"*{_without_roles(caption)}*\n\n{body}")]
    name = re.search(r":name: (\S+)", options)
    picture = Path(os.environ["LVQREJ_EXPORT"]) / f"{name[1]}.png" if name else Path()
    data = {
        "image/png": base64.b64encode(picture.read_bytes()).decode(),
        "text/plain": output["data"]["text/plain"],
    }
    return [{"output_type": "display_data", "metadata": {}, "data": data}, _markdown(_without_roles(body))]


def _markdown(text: str) -> Output:
    return {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/markdown": text, "text/plain": text},
    }


def _without_roles(text: str) -> str:
    return ROLE.sub(r"\1", text.strip())


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.connect("build-finished", make_self_contained)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
