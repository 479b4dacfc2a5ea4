"""What helps on the way: definitions of glossary terms on hover and focus, and the look of a quiz."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx

#: The page that has the definitions, and the script into which they are written.
GLOSSARY, DATA = "book/glossary", "definitions-data.js"
#: The title of a box that asks for a prediction; the answer is a folded box inside it.
QUIZ = "Predict, then look"
#: How a page names a link to a term.
TERM = 'class="xref std std-term"'


def mark_quizzes(app: Sphinx, doctree: nodes.document) -> None:
    """Give every box that asks for a prediction the class by which it is styled."""
    for box in doctree.findall(nodes.admonition):
        title = next(box.findall(nodes.title), None)
        if title is not None and title.astext() == QUIZ:
            box["classes"] = [name for name in box["classes"] if name != "tip"] + ["quiz"]


def write_definitions(app: Sphinx, error: Exception | None) -> None:
    """Write the glossary's definitions as a script: a page that is opened as a file cannot fetch others."""
    if error is not None or app.builder.name != "html" or GLOSSARY not in app.env.found_docs:
        return
    page = BeautifulSoup((Path(app.outdir) / f"{GLOSSARY}.html").read_text(encoding="utf-8"), "html.parser")
    definitions = {}
    for term in page.select("dl.glossary dt[id]"):
        definition = term.find_next_sibling("dd")
        for citation in definition.select(".bibtex-citation"):
            citation.extract()
        for link in definition.select("a, .std-term"):
            link.unwrap()
        # Where a citation was, a space is left before the full stop.
        definitions[term["id"]] = re.sub(r"\s+([.,;])", r"\1", definition.decode_contents().strip())
    value = {"mathjax": app.config.mathjax_path, "terms": definitions}
    script = f"window.lvqrejDefinitions = {json.dumps(value, ensure_ascii=False)};\n"
    (Path(app.outdir) / "_static" / DATA).write_text(script, encoding="utf-8")


def add_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the script on pages that name a term."""
    if app.builder.name == "html" and TERM in context.get("body", ""):
        app.add_js_file("definitions.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.connect("doctree-read", mark_quizzes)
    app.connect("html-page-context", add_script, priority=400)
    app.connect("build-finished", write_definitions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
