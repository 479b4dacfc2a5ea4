"""The explorer: whole on its own page, set to their scene in chapters, without scripts a picture."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: The scenes of chapters, by the names that `RejectOptionClassifier` gives to the options; and training.
SCENES = {
    "relative-similarity": "similarity",
    "decision-distance": "distance",
    "probabilistic": "probability",
    "training": "training",
}
#: What can be shown in the plane besides map, prototypes and answer.
LAYERS = ("cells", "alternatives", "samples")
#: This and the style sheet are on every page that has an explorer; the loader fetches the other files.
LOADER, STYLE = "explorer-loader.js", "explorer.css"
DATA = "explorer-data.js"


def explorer_data() -> dict[str, Any]:
    """Return the data of the explorer, computed once for each state of the code."""
    from companion import explorer

    kept = Path(os.environ["LVQREJ_EXPORT"]).parent / "explorer.json"
    if not kept.exists():
        unfinished = kept.with_suffix(".part")
        unfinished.write_text(json.dumps(explorer.explorer_data(), allow_nan=False), encoding="utf-8")
        unfinished.replace(kept)
    return json.loads(kept.read_text(encoding="utf-8"))


def scene_picture(key: str, theta: float | None) -> tuple[str, str]:
    """Draw a scene, once for each state of the code; return the picture's address and its description."""
    from companion import explorer

    folder = Path(os.environ["LVQREJ_EXPORT"])
    name = f"explorer-{key}" + (f"-{theta:g}" if theta is not None else "")
    picture, words = folder.parent / f"{name}.svg", folder.parent / f"{name}.txt"
    if not (picture.exists() and words.exists()):
        drawn, alt = explorer.scene(key, theta)
        picture.write_bytes(drawn)
        words.write_text(alt, encoding="utf-8")
    uri = f"{Path(os.environ['LVQREJ_EXPORT_URI']).parent.as_posix()}/{picture.name}"
    return uri, words.read_text(encoding="utf-8")


def _layers(argument: str | None) -> list[str]:
    found = (argument or "").replace(",", " ").split()
    for layer in found:
        directives.choice(layer, LAYERS)
    return found


class Explorer(SphinxDirective):
    """``{explorer}``: the whole explorer; with a scene's name, the explorer inside a chapter.

    The argument is one of `SCENES`. Options: ``threshold``, where the slider stands at first (without it, a
    fifth of the wines is rejected); ``show``, which of `LAYERS` are on at first (without it, cells);
    ``choose``, that the reader may choose another certainty. The content is the caption.
    """

    has_content = True
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "threshold": float,
        "show": _layers,
        "choose": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Return the place for the script and, below it, what takes its place without scripts."""
        scene = nodes.container(classes=["explorer-scene"])
        if not self.arguments:
            scene += [nodes.raw("", '<div class="explorer"></div>', format="html"), self._answers()]
            return [scene]
        key = SCENES[directives.choice(self.arguments[0], list(SCENES))]
        said = {"option": key, "show": " ".join(self.options.get("show", ["cells"]))}
        if "threshold" in self.options:
            said["threshold"] = str(self.options["threshold"])
        if "choose" in self.options:
            said["choose"] = ""
        place = "".join(f' data-{name}="{html.escape(value)}"' for name, value in said.items())
        uri, alt = scene_picture(key, self.options.get("threshold"))
        picture = nodes.image(uri=uri, alt=alt)
        caption = nodes.container(classes=["explorer-caption"])
        self.state.nested_parse(self.content, self.content_offset, caption)
        scene += nodes.raw("", f'<div class="explorer"{place}></div>', format="html")
        scene += nodes.container("", picture, classes=["explorer-static"])
        scene += caption
        return [scene]

    def _answers(self) -> nodes.container:
        """Return what the whole explorer would show at first, as a picture and in words."""
        data = explorer_data()
        start = ", ".join(f"{name} {x:.3g}" for name, x in zip(data["features"], data["start"], strict=True))
        start = start.replace("-", "−")
        uri, alt = scene_picture(SCENES["relative-similarity"], None)
        words = (
            "The explorer needs JavaScript. Without it, here is what it answers for the wine of the chapters "
            f"({start}), each certainty at the threshold that rejects a fifth of the wines:"
        )
        answers = nodes.bullet_list()
        for option in data["options"]:
            sentence = option["answer"]["sentence"]
            answers += nodes.list_item("", nodes.paragraph(text=f"{sentence[0].upper()}{sentence[1:]}."))
        parts = nodes.image(uri=uri, alt=alt), nodes.paragraph(text=words), answers
        return nodes.container("", *parts, classes=["explorer-static"])


def write_data(app: Sphinx) -> None:
    """Write the data beside the scripts that the loader fetches."""
    from companion import explorer

    target = Path(app.outdir) / "_static" / DATA
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(explorer.explorer_script(explorer_data()), encoding="utf-8")


def add_files(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the loader and the styles on pages that have an explorer only, and write what they need."""
    if app.builder.name == "html" and 'class="explorer"' in context.get("body", ""):
        write_data(app)
        app.add_js_file(LOADER, loading_method="defer")
        app.add_css_file(STYLE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_directive("explorer", Explorer)
    # Before the handler that rewrites the list of scripts.
    app.connect("html-page-context", add_files, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
