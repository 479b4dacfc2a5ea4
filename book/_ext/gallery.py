"""``{gallery}``: every registered figure and table with its paper, downloads, command and citation.

The registry is complete only when all chapters have been executed, so the directive leaves a placeholder, and
the page is filled in before references are resolved: captions keep their formulas, citations and links.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from PIL import Image
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

#: Thumbnails in few colours: all of them together weigh about a megabyte.
WIDTH, COLOURS = 400, 128
THUMBNAILS = "_images/thumbnails"
NAMES = {"figure": "Figure", "table": "Table", "displaymath": "Eq."}
Record = dict[str, Any]


class gallery(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """The place on the page that is filled in."""


class Gallery(Directive):
    """``{gallery}``: a placeholder."""

    def run(self) -> list[nodes.Node]:
        """Return the placeholder."""
        return [gallery()]


def records(env: BuildEnvironment) -> list[Record]:
    """Return the records of what the chapters show, with page and number, in reading order."""
    shown = {
        label: (page, kind, number)
        for page, kinds in env.toc_fignumbers.items()
        for kind in ("figure", "table")
        for label, number in kinds.get(kind, {}).items()
    }
    found = []
    for file in Path(os.environ["LVQREJ_EXPORT"]).glob("*.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["id"] in shown:
            page, kind, number = shown[record["id"]]
            found.append({**record, "page": page, "kind": kind, "number": number, "files": file.parent})
    return sorted(found, key=lambda record: (record["page"], record["kind"], record["number"]))


class FillGallery(SphinxPostTransform):
    """Replace the placeholder, before Sphinx resolves references."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Fill the placeholder, if this page has one; in print the figures stand in their chapters only."""
        for place in list(self.document.findall(gallery)):
            self.docname = self.env.docname
            place.replace_self(self._groups() if self.app.builder.name == "html" else [])

    def _groups(self) -> list[nodes.Node]:
        citation = yaml.safe_load((Path(self.app.srcdir) / "CITATION.cff").read_text(encoding="utf-8"))
        menu, sections = nodes.bullet_list(classes=["gallery-menu"]), []
        for page, group in groupby(records(self.env), key=lambda record: record["page"]):
            title = self.env.titles[page].astext()
            anchor = "gallery-" + page.rsplit("/", 1)[-1]
            entry = nodes.paragraph("", "", nodes.reference("", title, internal=True, refuri=f"#{anchor}"))
            menu += nodes.list_item("", entry)
            section = nodes.section(ids=[anchor])
            heading = nodes.reference("", title, internal=True, refuri=self._uri(page))
            section += nodes.title("", "", heading)
            captions = captions_of(self.env, page, self.docname)
            for record in group:
                section += self._item(record, captions[record["id"]], citation)
            sections.append(section)
        return [menu, *sections]

    def _item(self, record: Record, caption: list[nodes.Node], citation: dict[str, Any]) -> nodes.container:
        item = nodes.container(classes=["gallery-item"], ids=[f"gallery-{record['id']}"])
        if record["kind"] == "figure":
            item += _raw(self._thumbnail(record))
        name = f"{NAMES[record['kind']]} {'.'.join(map(str, record['number']))}"
        target = f"{self._uri(record['page'])}#{record['id']}"
        link = nodes.reference("", name, internal=True, refuri=target, classes=["gallery-name"])
        item += nodes.paragraph("", "", link, nodes.Text(". "), *caption)
        item += _raw(self._facts(record))
        item += _raw("<details><summary>Make it, cite it</summary>")
        text, bibtex = citations(
            record, name, plain(caption, names(self.env)), citation, self.app.config.html_baseurl
        )
        chapter = record["page"].rsplit("/", 1)[-1]
        for content in (f"make figures CHAPTER={chapter}", text, bibtex):
            item += nodes.literal_block(content, content, language="text")
        item += _raw("</details>")
        return item

    def _thumbnail(self, record: Record) -> str:
        with Image.open(record["files"] / f"{record['id']}.png") as picture:
            width, height = reduced(picture.size)
        source = relative_uri(self._page(), f"{THUMBNAILS}/{record['id']}.png")
        return (
            f'<a class="gallery-thumbnail" href="{self._file(record, "svg")}"><img loading="lazy" '
            f'src="{source}" width="{width}" height="{height}" alt="{html.escape(record["alt"])}"></a>'
        )

    def _facts(self, record: Record) -> str:
        links = [
            f'<a href="{self._file(record, kind)}" download>{kind.upper()}</a>'
            for kind in ("svg", "pdf", "png", "csv")
            if kind in record["formats"]
        ]
        paper = f"In the paper: {html.escape(record['paper'])}. " if record["paper"] else ""
        return f'<p class="gallery-facts">{paper}Download: {", ".join(links)}.</p>'

    def _page(self) -> str:
        return self.app.builder.get_target_uri(self.docname)

    def _uri(self, page: str) -> str:
        return self.app.builder.get_relative_uri(self.docname, page)

    def _file(self, record: Record, kind: str) -> str:
        return relative_uri(self._page(), f"figures/{record['id']}.{kind}")


def captions_of(env: BuildEnvironment, page: str, reader: str) -> dict[str, list[nodes.Node]]:
    """Return copies of the captions of `page` by identifier, with references as from page `reader`."""
    found = {}
    for shown in env.get_doctree(page).findall(lambda node: isinstance(node, nodes.figure | nodes.table)):
        kind = nodes.caption if isinstance(shown, nodes.figure) else nodes.title
        caption = next(iter(shown.findall(kind)), None)
        if caption is not None:
            copy = caption.deepcopy()
            for reference in copy.findall(addnodes.pending_xref):
                reference["refdoc"] = reader
            for element in copy.findall(nodes.Element):
                element["ids"] = []
            found.update(dict.fromkeys(shown["ids"], copy.children))
    return found


def names(env: BuildEnvironment) -> dict[str, str]:
    """Return what the book calls everything it numbers, by label."""
    return {
        label.removeprefix("equation-"): f"{NAMES.get(kind, kind.capitalize())} {'.'.join(map(str, number))}"
        for kinds in env.toc_fignumbers.values()
        for kind, numbers in kinds.items()
        for label, number in numbers.items()
    }


def plain(caption: list[nodes.Node], named: dict[str, str]) -> str:
    """Return the first sentence of a caption as text: formulas between dollars, references by their names."""

    def parts(node: nodes.Node) -> Iterator[str]:
        if isinstance(node, nodes.math):
            yield f"${node.astext()}$"
        elif isinstance(node, addnodes.pending_xref) and node["reftarget"] in named:
            yield named[node["reftarget"]]
        elif isinstance(node, nodes.Text):
            yield node.astext()
        else:
            for child in node.children:
                yield from parts(child)

    text = " ".join("".join(part for node in caption for part in parts(node)).split())
    return text.split(". ")[0].rstrip(".")


def citations(record: Record, name: str, title: str, source: dict[str, Any], site: str) -> tuple[str, str]:
    """Return a citation of one figure or table as text and as BibTeX."""
    authors = " and ".join(author["name"] for author in source["authors"])
    year, work = str(source["date-released"])[:4], source["title"]
    address = f"{site}{record['page']}.html#{record['id']}"
    text = (
        f"{authors} ({year}). {title}. {name} of “{work}”, version {source['version']}. "
        f"{address} (CC BY 4.0)."
    )
    fields = {
        "author": f"{{{authors}}}",
        "title": title,
        "howpublished": f"{name} of \\emph{{{work}}}, version {source['version']}",
        "year": year,
        "url": address,
        "note": "CC BY 4.0",
    }
    lines = "".join(f"  {field} = {{{value}}},\n" for field, value in fields.items())
    return text, f"@misc{{lvqrej-{record['id']},\n{lines}}}"


def reduced(size: tuple[int, int]) -> tuple[int, int]:
    """Return the size of a thumbnail of a picture of this `size`."""
    width, height = size
    return WIDTH, round(height * WIDTH / width)


def make_thumbnails(app: Sphinx, error: Exception | None) -> None:
    """Write the thumbnails, if the book has a gallery."""
    if error is not None or app.builder.name != "html" or not galleries(app, app.env):
        return
    target = Path(app.outdir) / THUMBNAILS
    target.mkdir(parents=True, exist_ok=True)
    wanted = {record["id"]: record for record in records(app.env) if record["kind"] == "figure"}
    for old in target.iterdir():
        if old.stem not in wanted:
            old.unlink()
    for identifier, record in wanted.items():
        source, thumbnail = record["files"] / f"{identifier}.png", target / f"{identifier}.png"
        changed = max(file.stat().st_mtime for file in (source, Path(__file__)))
        if not thumbnail.exists() or thumbnail.stat().st_mtime < changed:
            with Image.open(source) as picture:
                small = picture.convert("RGB").resize(reduced(picture.size), Image.Resampling.LANCZOS)
            small.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(
                thumbnail, optimize=True
            )


def galleries(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages that show every chapter's figures."""
    return [page for page in env.found_docs if page == "book/gallery"]


def announce(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Let Sphinx write the gallery in every build, with MathJax: it looks for formulas before they are in."""
    for page in galleries(app, env):
        env.get_domain("math").data["has_equations"][page] = True
    return galleries(app, env)


def add_style(app: Sphinx, page: str, *_: Any) -> None:
    """Add the look of the gallery to its page."""
    if page in galleries(app, app.env):
        app.add_css_file("gallery.css")


def _raw(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_node(gallery)
    app.add_directive("gallery", Gallery)
    app.add_post_transform(FillGallery)
    app.connect("env-updated", announce)
    app.connect("html-page-context", add_style)
    app.connect("build-finished", make_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
