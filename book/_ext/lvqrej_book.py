"""What the book's build adds to Jupyter Book: no stale page, derived links, a quiet theme, a status page."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

PACKAGES = ("lvqrej", "numpy", "scipy", "scikit-learn", "sklearn-lvq", "numba", "clarabel", "cvxpy", "jupyter-book")


def content_hash(source: Path) -> str:
    """Hash everything that a notebook's output depends on besides the notebook: package, results, versions."""
    spec = importlib.util.find_spec("lvqrej")
    if spec is None or spec.origin is None:
        raise ExtensionError("the package lvqrej cannot be imported: run `make env` first")
    digest = hashlib.sha256(platform.python_version().encode())
    inputs = [*Path(spec.origin).parent.rglob("*.py"), *source.glob("book/results/**/*.csv")]
    inputs.append(source / "requirements.txt")
    for file in sorted(inputs):
        if file.is_file():
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def key_execution_on_content(app: Sphinx, config: Config) -> None:
    """Keep executed notebooks and exported figures in a folder named by the content they depend on.

    The same hash is a configuration value that Sphinx watches, so an edit of the package makes it read every
    page again; otherwise it would keep the page of a notebook whose own text did not change.
    """
    source = Path(app.srcdir)
    config.lvqrej_content = content_hash(source)
    folder = source / "_build" / "executed" / config.lvqrej_content
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other)
    config.nb_execution_cache_path = str(folder / "cache")
    os.environ["LVQREJ_EXPORT"] = str(figures)
    os.environ["LVQREJ_EXPORT_URI"] = f"/{figures.relative_to(source).as_posix()}"


def derive_links(app: Sphinx, config: Config) -> None:
    """Point repository, issue and Binder links to the repository that the build runs in."""
    if "GITHUB_REPOSITORY" in os.environ:
        server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
        address = f"{server}/{os.environ['GITHUB_REPOSITORY']}"
        config.html_theme_options["repository_url"] = address
    if not config.html_baseurl and "LVQREJ_BOOK_URL" in os.environ:
        config.html_baseurl = os.environ["LVQREJ_BOOK_URL"]


class VersionTable(Directive):
    """``{versions}``: the versions this page's numbers were made with."""

    def run(self) -> list[nodes.Node]:
        rows = [("Python", platform.python_version())]
        rows += [(name, importlib.metadata.version(name)) for name in PACKAGES]
        return [_table(("what", "version"), rows)]


class CheckTable(Directive):
    """``{checks}``: what the build counted and checked, filled in when all pages have been read."""

    def run(self) -> list[nodes.Node]:
        return [nodes.comment("", "lvqrej-checks")]


def fill_checks(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace the placeholder of the status page by the counts over the whole book."""
    places = [node for node in doctree.findall(nodes.comment) if node.astext() == "lvqrej-checks"]
    if places:
        rows = [(name, str(value)) for name, value in _counts(app).items()]
        for place in places:
            place.replace_self(_table(("what", "how many"), rows))


def _counts(app: Sphinx) -> dict[str, int]:
    counts = dict.fromkeys(
        ("pages", "registered figures", "registered tables", "numbered equations", "theorems, proofs and "
         "algorithms", "exercises", "assertions in chapters"), 0
    )  # fmt: skip
    env = app.builder.env
    for docname in env.found_docs:
        counts["pages"] += 1
        doctree = env.get_doctree(docname)
        for node in doctree.findall():
            kind = type(node).__name__
            names = " ".join(node.get("ids", [])) if isinstance(node, nodes.Element) else ""
            counts["registered figures"] += isinstance(node, nodes.figure) and "fig-" in names
            counts["registered tables"] += isinstance(node, nodes.table) and "tab-" in names
            counts["numbered equations"] += kind == "math_block" and bool(node.get("number"))
            counts["theorems, proofs and algorithms"] += kind in ("theorem_node", "proof_node") or (
                kind.endswith("_node") and kind.removesuffix("_node") in ("lemma", "algorithm", "definition",
                                                                        "proposition", "corollary"))  # fmt: skip
            counts["exercises"] += kind in ("exercise_node", "exercise_enumerable_node")
        source = Path(env.doc2path(docname))
        if "notebooks" in source.parts:
            counts["assertions in chapters"] += len(
                re.findall(r"^\s*(?:assert |np\.testing)", source.read_text(encoding="utf-8"), re.M)
            )
    return counts


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> nodes.table:
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    for kind, lines in ((nodes.thead, [head]), (nodes.tbody, rows)):
        part = kind()
        for line in lines:
            row = nodes.row()
            row += [nodes.entry("", nodes.paragraph(text=cell)) for cell in line]
            part += row
        group += part
    return nodes.table("", group)


def publish_figures(app: Sphinx, error: Exception | None) -> None:
    """Copy the exports of the figures that pages show beside the site, with an index, once it is built."""
    if error is not None or app.builder.name != "html":
        return
    records = []
    shown = _shown_ids(app)
    target = Path(app.outdir) / "figures"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for record_file in sorted(Path(os.environ["LVQREJ_EXPORT"]).glob("*.json")):
        record = json.loads(record_file.read_text(encoding="utf-8"))
        if record["id"] in shown:
            records.append({**record, "page": shown[record["id"]]})
            for suffix in record["formats"]:
                shutil.copyfile(record_file.with_suffix(f".{suffix}"), target / f"{record['id']}.{suffix}")
    text = json.dumps(records, indent=1, ensure_ascii=False)
    (target / "index.json").write_text(text + "\n", encoding="utf-8")


def _shown_ids(app: Sphinx) -> dict[str, str]:
    """Return the label of every figure and table of the book with the page that shows it."""
    shown = {}
    for docname in sorted(app.builder.env.found_docs):
        doctree = app.builder.env.get_doctree(docname)
        for kind in (nodes.figure, nodes.table):
            for node in doctree.findall(kind):
                for label in node.get("ids", []):
                    shown[label] = docname
    return shown


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_config_value("lvqrej_content", "", "env")
    app.connect("config-inited", key_execution_on_content)
    app.connect("config-inited", derive_links)
    app.connect("doctree-resolved", fill_checks)
    app.connect("build-finished", publish_figures)
    app.add_directive("versions", VersionTable)
    app.add_directive("checks", CheckTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
