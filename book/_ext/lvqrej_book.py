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
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
from docutils import nodes
from docutils.parsers.rst import Directive
from jupyter_cache import get_cache
from jupyter_cache.executors.utils import create_cache_bundle, single_nb_execution
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

PACKAGES = ("lvqrej", "numpy", "scipy", "scikit-learn", "sklearn-lvq", "clarabel", "cvxpy")
#: Chapters of the first edition by their addresses, and where they are now.
MOVED = {
    "04-counterfactual-explanations": "06-counterfactual-explanations",
    "05-relative-similarity": "07-relative-similarity",
    "06-decision-distance": "08-decision-distance",
    "07-probabilistic-certainty": "09-probabilistic-certainty",
    "08-how-fast": "25-how-fast",
    "09-explain-your-own-rejects": "11-explain-your-own-rejects",
    "10-digits": "13-digits",
    "11-algorithmic-properties": "16-the-experiments",
    "12-goodness": "16-the-experiments",
    "13-published-code": "17-published-code",
    "14-reproduction-report": "18-reproduction-report",
    "15-sparser-several-robust-plausible": "14-sparser-several-robust-plausible",
    "16-at-scale": "26-at-scale",
}
LEADS_TO = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>This chapter has moved</title>'
    '<meta http-equiv="refresh" content="0; url={page}"><link rel="canonical" href="{page}"></head>'
    '<body><main><h1>This chapter has moved</h1><p><a href="{page}">It is here now.</a></p></main></body>'
    "</html>"
)
#: What Sphinx calls the things it numbers, and what we do; whatever else is numbered is a theorem or its kin.
NUMBERED = {"figure": "figures", "table": "tables", "displaymath": "equations", "exercise": "exercises"}
#: A formula and what touches it.
FORMULA = re.compile(r'([(“]?<span class="math notranslate nohighlight">[^<]*</span>[,.;:!?)”’]+)')
#: The space between a number and its unit, outside of code; the browser must not break the line there.
UNIT = re.compile(r"(<pre.*?</pre>)|(?<=\d)(?:</span>)? (?=%|s\b|ms\b|µs\b)", re.DOTALL)
ASSERTION = re.compile(r"^\s*(?:assert |np\.testing\.)", re.MULTILINE)


def content_hash(source: Path) -> str:
    """Hash what a notebook's output depends on besides the notebook itself: code, results, versions."""
    digest = hashlib.sha256(platform.python_version().encode())
    inputs = list(source.glob("book/results/**/*.csv"))
    for package in ("lvqrej", "companion"):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ExtensionError(f"{package} cannot be imported: run `make env` first")
        inputs += Path(spec.origin).parent.rglob("*.py")
    for file in [*sorted(inputs), source / "requirements.txt"]:
        digest.update(file.as_posix().encode() + b"\0" + file.read_bytes())
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


def execute_side_by_side(app: Sphinx) -> None:
    """Execute the notebooks that are not in the cache, as many at once as there are processors.

    Otherwise each would wait until Sphinx reads it. One that fails ends the build when the others are done.
    All of them, with their outputs, are left in ``_build/outputs``, for `make notebooks` to compare with.
    """
    cache = get_cache(app.config.nb_execution_cache_path)
    chapters = [name for name in sorted(app.project.discover()) if name.startswith("notebooks/")]
    for record in cache.list_project_records():
        if not Path(record.uri).exists():  # renamed or removed since the last build
            cache.remove_nb_from_project(record.pk)
    for name in chapters:
        reader = {"type": "plugin", "name": "myst_nb_md"}
        cache.add_nb_to_project(str(app.env.doc2path(name)), read_data=reader)
    records = cache.list_unexecuted()
    tell(f"{len(records)} of {len(chapters)} notebooks to execute" if records else "no notebook to execute")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {
            pool.submit(_executed, cache, record.pk, app.config.nb_execution_timeout) for record in records
        }
        failed = []
        for number, run in enumerate(as_completed(runs), 1):
            notebook, result = run.result()
            name = Path(notebook.uri).stem
            tell(
                f"notebook {number} of {len(runs)}: {name}, {result.time:.0f} s{' FAILED' * bool(result.err)}"
            )
            if result.err:
                tell(str(result.err))
                failed.append(name)
            else:
                bundle = create_cache_bundle(notebook, result.cwd, None, result.time, None)
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    if failed:
        raise ExtensionError(f"cells failed in {', '.join(failed)}; see above")
    outputs = Path(app.srcdir) / "_build" / "outputs"
    shutil.rmtree(outputs, ignore_errors=True)
    outputs.mkdir(parents=True)
    for record in cache.list_project_records():
        _, notebook = cache.merge_match_into_notebook(cache.get_project_notebook(record.pk).nb)
        nbformat.write(notebook, outputs / f"{Path(record.uri).stem}.ipynb")


def _executed(cache: Any, pk: int, timeout: int) -> tuple[Any, Any]:
    """Execute a notebook in its folder, by a kernel that tells errors only."""
    notebook = cache.get_project_notebook(pk)
    folder = str(Path(notebook.uri).parent)
    quiet = {"extra_arguments": ["--log-level=ERROR"]}
    return notebook, single_nb_execution(notebook.nb, folder, timeout, allow_errors=False, **quiet)


def tell(text: str) -> None:
    """Say how far the build is, whatever Sphinx says."""
    print(text, flush=True)


def tell_reading(app: Sphinx, env: BuildEnvironment, names: list[str]) -> None:
    """Say how many pages are read."""
    tell(f"{len(names)} of {len(env.found_docs)} pages to read" if names else "no page to read")


def tell_writing(app: Sphinx, env: BuildEnvironment) -> None:
    """Say that pages are written now."""
    tell("writing the site")


def derive_links(app: Sphinx, config: Config) -> None:
    """Derive repository, issue, Binder and Pages addresses from one: the repository that is built."""
    if "GITHUB_REPOSITORY" in os.environ:
        server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
        config.html_theme_options["repository_url"] = f"{server}/{os.environ['GITHUB_REPOSITORY']}"
    owner, name = urlsplit(config.html_theme_options["repository_url"]).path.strip("/").split("/")
    config.html_baseurl = f"https://{owner.lower()}.github.io/{name}/"


def quieten_theme(app: Sphinx, config: Config) -> None:
    """Leave out the header bar, which holds but a second search button; write the title beside the logo."""
    config.html_theme_options["navbar_persistent"] = []
    config.html_theme_options["logo"] = {"text": config.html_title}


def mend_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Leave out the scripts of sphinx-thebe, and mend what is wrong with the text of a page.

    The scripts are of no use here, would fetch from another host and log an error; the role that docutils
    gives to entries of the bibliography is not allowed in a list; browsers break a line between a formula and
    a comma, and between a number and its unit; many fonts lack the sign of a notebook that has run.
    """
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in f"{script.filename} {script.attributes.get('body')}".lower()
    ]
    if "body" in context:
        body = context["body"].replace('role="doc-biblioentry"', 'role="listitem"').replace("✅", "ran")
        body = UNIT.sub(lambda found: found[0] if found[1] else found[0][:-1] + "\u00a0", body)
        context["body"] = FORMULA.sub(r'<span class="unbroken">\1</span>', body)


#: The page that once held the whole reference, the sections that it had, and what leads on from there.
REFERENCE = "book/api"
OLD_SECTIONS = {
    "models": "api-models",
    "certainties": "api-models",
    "thresholds": "api-thresholds",
    "counterfactuals": "api-explain",
    "at-scale": "api-explain",
    "sparser-several-robust-plausible": "api-variants",
    "the-geometry-under-them": "api-inside",
    "the-classifier": "api-classifier",
    "explanations-for-people": "api-classifier",
    "the-book-s-companion": "api-inside",
}
LEAD_ON = """<script>
(function () {
  const pages = %s;
  const lead = () => {
    const name = decodeURIComponent(location.hash.slice(1)).replace(/^module-/, "");
    const page = pages[name] ?? pages[name.split(".").slice(0, 2).join(".")];
    if (page) location.replace(`${page}.html${location.hash}`);
  };
  addEventListener("hashchange", lead);
  lead();
})();
</script>"""


def keep_old_anchors(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Let addresses of the time when the reference was one page lead to the page that has the object now."""
    if pagename == REFERENCE and app.builder.name == "html":
        domain: Any = app.env.get_domain("py")
        places = {name: entry.docname for name, entry in {**domain.modules, **domain.objects}.items()}
        pages = {".".join(name.split(".")[:2]): Path(page).name for name, page in places.items()}
        context["body"] += LEAD_ON % json.dumps({**OLD_SECTIONS, **pages}, sort_keys=True)


class VersionTable(Directive):
    """``{versions}``: the versions this page's numbers were made with."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [("Python", platform.python_version())]
        rows += [(name, importlib.metadata.version(name)) for name in PACKAGES]
        return [table(("what", "version"), rows)]


class CheckTable(Directive):
    """``{checks}``: what the build counted and checked, filled in when all pages have been read."""

    def run(self) -> list[nodes.Node]:
        """Return a placeholder."""
        return [nodes.comment("", "lvqrej-checks")]


def fill_checks(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace the placeholder of the status page by the counts over the whole book."""
    for place in list(doctree.findall(nodes.comment)):
        if place.astext() == "lvqrej-checks":
            rows = [(name, str(count)) for name, count in _counts(app.env).items()]
            place.replace_self(table(("what", "how many"), rows))


def _counts(env: BuildEnvironment) -> Counter[str]:
    """Count what Sphinx numbered in the whole book, and the assertions of its chapters."""
    counts = Counter(pages=len(env.found_docs))
    for kinds in env.toc_fignumbers.values():
        for kind, numbers in kinds.items():
            counts[NUMBERED.get(kind, "theorems, lemmas, definitions and algorithms")] += len(numbers)
    chapters = [Path(env.doc2path(name)) for name in env.found_docs if name.startswith("notebooks/")]
    counts["assertions in chapters"] = sum(
        len(ASSERTION.findall(chapter.read_text(encoding="utf-8"))) for chapter in chapters
    )
    return counts


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> nodes.table:
    """Return a table whose first column is text and whose others are numbers."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    for kind, lines in ((nodes.thead, [head]), (nodes.tbody, rows)):
        part = kind()
        for line in lines:
            row = nodes.row()
            row += [nodes.entry("", nodes.paragraph(text=cell)) for cell in line]
            part += row
        group += part
    return nodes.table("", group, classes=["numbers"])


def publish_figures(app: Sphinx, error: Exception | None) -> None:
    """Copy what figures and tables that pages show export, with an index, and attached pages, to the site."""
    if error is not None or app.builder.name != "html":
        return
    shown = {
        label: page
        for page, kinds in app.env.toc_fignumbers.items()
        for label in [*kinds.get("figure", ()), *kinds.get("table", ())]
    }
    target, attached = Path(app.outdir) / "figures", Path(app.outdir) / "_static" / "attached"
    for folder in (target, attached):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    for page in Path(os.environ["LVQREJ_EXPORT"]).glob("*.html"):
        shutil.copyfile(page, attached / page.name)
    records = []
    for record_file in sorted(Path(os.environ["LVQREJ_EXPORT"]).glob("*.json")):
        record = json.loads(record_file.read_text(encoding="utf-8"))
        if record["id"] in shown:
            records.append({**record, "page": shown[record["id"]]})
            for suffix in record["formats"]:
                shutil.copyfile(record_file.with_suffix(f".{suffix}"), target / f"{record['id']}.{suffix}")
    text = json.dumps(records, indent=1, ensure_ascii=False)
    (target / "index.json").write_text(text + "\n", encoding="utf-8")


def remove_front_door(app: Sphinx) -> None:
    """Delete the page that leads to the first one: it is made anew only where there is none."""
    (Path(app.outdir) / "index.html").unlink(missing_ok=True)


def remove_gone_pages(app: Sphinx, error: Exception | None) -> None:
    """Delete the pages of an earlier build whose source has left the book; lead on from those that moved."""
    if error is None and app.builder.name == "html":
        for page in Path(app.outdir).glob("[!_]*/**/*.html"):
            if page.relative_to(app.outdir).with_suffix("").as_posix() not in app.env.found_docs:
                page.unlink()
        for old, new in MOVED.items():
            if f"notebooks/{new}" in app.env.found_docs:
                page = Path(app.outdir, "notebooks", old).with_suffix(".html")
                page.write_text(LEADS_TO.format(page=f"{new}.html"), encoding="utf-8")


def escape_markup(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Let a docstring write a norm as |x| and an attribute as name_, which Sphinx takes for references.

    Of attributes that share a line Sphinx takes all but the last for its type, unless there is no space.
    """
    for number, line in enumerate(lines):
        if line.startswith(":ivar "):
            names, colon, text = line.removeprefix(":ivar ").partition(":")
            line = ":ivar " + names.replace(", ", ",\u200b") + colon + text
        if not line.lstrip().startswith((">>>", "... ", ".. ")):
            parts = re.split(r"(``.*?``|`.*?`)", line)
            for i in range(0, len(parts), 2):  # the odd parts are code
                parts[i] = re.sub(r"(\w)_(?!\w)", r"\1\\_", parts[i].replace("|", r"\|"))
            lines[number] = "".join(parts)


def skip_inherited(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out of the reference what scikit-learn generates on estimators, and Python on named tuples."""
    generated = re.fullmatch(r"set_\w+_request", name) or str(obj.__doc__).startswith("Alias for field")
    return True if generated else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.add_config_value("lvqrej_content", "", "env")
    app.connect("autodoc-process-docstring", escape_markup)
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("config-inited", key_execution_on_content)
    app.connect("config-inited", derive_links)
    app.connect("config-inited", quieten_theme)
    app.connect("builder-inited", execute_side_by_side)
    app.connect("builder-inited", remove_front_door)
    app.connect("env-before-read-docs", tell_reading)
    app.connect("env-updated", tell_writing)
    app.connect("html-page-context", mend_page)
    app.connect("html-page-context", keep_old_anchors)
    app.connect("doctree-resolved", fill_checks)
    app.connect("build-finished", publish_figures)
    app.connect("build-finished", remove_gone_pages)
    app.add_css_file("lvqrej.css")
    app.add_js_file("tab-stops.js", loading_method="defer")
    app.add_js_file("panels.js", loading_method="defer")
    app.add_directive("versions", VersionTable)
    app.add_directive("checks", CheckTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
