"""The explorer's page: its data as a script, its files on this page only, and its answers without scripts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

#: The page that has the explorer.
PAGE = "book/explorer"
SCRIPTS = ("explorer-data.js", "explorer-engine.js", "explorer-text.js", "explorer-picture.js", "explorer.js")


def explorer_data() -> dict[str, Any]:
    """Return the data of the explorer, computed once for each state of the code."""
    from companion import explorer

    kept = Path(os.environ["LVQREJ_EXPORT"]).parent / "explorer.json"
    if not kept.exists():
        unfinished = kept.with_suffix(".part")
        unfinished.write_text(json.dumps(explorer.explorer_data(), allow_nan=False), encoding="utf-8")
        unfinished.replace(kept)
    return json.loads(kept.read_text(encoding="utf-8"))


class Explorer(Directive):
    """``{explorer}``: where the script puts the explorer; without scripts, what it would answer at first."""

    def run(self) -> list[nodes.Node]:
        """Return the empty place and, below it, the three answers in words."""
        data = explorer_data()
        place = nodes.raw("", '<div id="explorer-place" class="explorer"></div>', format="html")
        start = ", ".join(f"{name} {x:.3g}" for name, x in zip(data["features"], data["start"], strict=True))
        words = (
            "The explorer needs JavaScript. Without it, here is what it answers for the wine of the chapters "
            f"({start}), each certainty at the threshold that rejects a fifth of the wines:"
        )
        answers = nodes.bullet_list()
        for option in data["options"]:
            sentence = option["answer"]["sentence"]
            answers += nodes.list_item("", nodes.paragraph(text=f"{sentence[0].upper()}{sentence[1:]}."))
        static = nodes.container("", nodes.paragraph(text=words), answers, classes=["explorer-static"])
        return [place, static]


def write_data(app: Sphinx, env: BuildEnvironment) -> None:
    """Write the data beside the scripts before the pages that name them are written."""
    if app.builder.name == "html" and PAGE in env.found_docs:
        from companion import explorer

        target = Path(app.outdir) / "_static" / SCRIPTS[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(explorer.explorer_script(explorer_data()), encoding="utf-8")


def add_files(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load scripts and styles on the explorer's page only."""
    if pagename == PAGE:
        for script in SCRIPTS:
            app.add_js_file(script, loading_method="defer")
        app.add_css_file("explorer.css")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_directive("explorer", Explorer)
    app.connect("env-updated", write_data)
    # Before the handler that rewrites the list of scripts.
    app.connect("html-page-context", add_files, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
