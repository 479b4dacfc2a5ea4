"""``make print``: the single page, made ready for paper and printed by Chromium as one PDF.

Algorithms and their calls are printed, folded plotting code is not; solutions are. The page numbers of the
contents are read from a first print, as CSS in Chromium cannot refer to the page of another element.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from playwright.sync_api import Page, Route, sync_playwright

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")
#: Text of 9.5 pt; between its margins (print.css) a page then has room for so many of the screen's pixels.
SCALE = 0.75
WIDTH = round((210 - 2 * 18) / 25.4 * 96 / SCALE)
LOOK = "font: 8pt sans-serif; text-align: center; width: 100%"
FOOTER = f'<div style="{LOOK}"><span class="pageNumber"></span></div>'

# What only a screen has goes, what is folded opens, and every link leads to a place on the same page.
PREPARE = r"""({title, subtitle, root}) => {
  const article = document.querySelector('article');
  const gone = '.headerlink, .copybtn, .toggle-button, .tag_hide-input > details.above-input, script, '
    + '#explorer, #figures-gallery';
  article.querySelectorAll(gone).forEach(part => part.remove());
  article.querySelectorAll('details').forEach(part => { part.open = true; });
  article.querySelectorAll('.toggle-hidden').forEach(part => part.classList.remove('toggle-hidden'));
  article.querySelectorAll('a[href]').forEach(link => {
    const href = link.getAttribute('href');
    if (href.startsWith(root)) link.setAttribute('href', href.slice(href.indexOf('#')));
  });
  const entries = [];
  const entry = (heading, level) => {
    heading.id = `print-${entries.length}`;
    entries.push({id: heading.id, text: heading.textContent.trim(), level});
  };
  const first = article.querySelector('h1');
  first.classList.add('chapter');
  entry(first, 1);
  for (const start of article.querySelectorAll('[id^="document-"]')) {
    const heading = start.nextElementSibling?.querySelector('h1, h2');
    if (!heading) continue;
    heading.classList.add('chapter');
    entry(heading, 1);
    if (!start.id.startsWith('document-notebooks/')) continue;
    start.nextElementSibling.querySelectorAll(':scope > section > h3').forEach(part => entry(part, 2));
  }
  const make = (name, parent, properties = {}) => {
    const made = Object.assign(document.createElement(name), properties);
    parent.append(made);
    return made;
  };
  const shell = Object.assign(document.createElement('div'), {className: 'bd-content'});
  const column = make('div', shell, {className: 'bd-article-container'});
  const cover = make('div', column, {className: 'print-title'});
  make('h1', cover, {textContent: title});
  subtitle.forEach(line => make('p', cover, {textContent: line}));
  const contents = make('nav', column, {className: 'print-contents bd-article'});
  make('h2', contents, {textContent: 'Contents'});
  let list = make('ol', contents), inner;
  for (const {id, text, level} of entries) {
    if (level === 1) inner = null;
    const parent = level === 1 ? list : (inner ??= make('ol', list.lastElementChild));
    const link = make('a', make('li', parent), {textContent: text, href: `#${id}`});
    make('span', link);
  }
  column.append(article);
  document.body.replaceChildren(shell);
  return entries.map(({id}) => id);
}"""
# What a page can hold stays in one piece. A table too wide for it gets smaller type before its cells break
# into lines, and before its words do.
FIT = """() => {
  for (const code of document.querySelectorAll('article pre')) {
    code.classList.toggle('whole', code.offsetHeight < 330);
  }
  for (const box of document.querySelectorAll('article .admonition')) {
    box.classList.toggle('whole', box.offsetHeight < 450);
  }
  for (const table of document.querySelectorAll('article table.table')) {
    const tooWide = () => table.offsetWidth > table.parentElement.clientWidth;
    const shrink = (size, least) => {
      for (; size >= least; size -= 5) {
        table.style.fontSize = `${size / 100}em`;
        if (!tooWide()) return true;
      }
      return false;
    };
    const unbroken = (longest) => table.querySelectorAll('td').forEach(cell => {
      const short = cell.textContent.length <= longest && !cell.querySelector('p + p, br, li');
      cell.classList.toggle('line', short);
    });
    const fits = [[24, 85], [14, 70]].some(([longest, size]) => {
      unbroken(longest);
      return shrink(size, 70);
    });
    if (!fits) unbroken(0);
    table.classList.toggle('broken', !fits && !shrink(85, 60));
    table.classList.toggle('whole', table.offsetHeight < 650);
  }
}"""
NUMBER = """pages => document.querySelectorAll('.print-contents a').forEach(link => {
  link.dataset.page = pages[link.getAttribute('href').slice(1)] ?? '';
})"""
# Of the book only the cheat sheet stays.
SHEET = """() => {
  const sheet = document.querySelector('section#cheat-sheet');
  if (!sheet) return false;
  document.querySelectorAll('.print-title, .print-contents').forEach(part => part.remove());
  document.querySelector('article').replaceChildren(sheet);
  document.body.classList.add('print-sheet');
  return true;
}"""


# A shape that matplotlib has hatched: its outline, what clips it, the pattern and the rest of its style.
HATCHED = re.compile(
    r'<path d="([^"]*)"((?: clip-path="[^"]*")?) style="fill: url\(#(h\w+)\)(?:; )?([^"]*)"/>'
)
PATTERN = re.compile(r'<pattern id="(h\w+)"[^>]* width="(\d+)" height="(\d+)">(.*?)</pattern>', re.DOTALL)


def draw_hatches(svg: str) -> str:
    """Return the drawing with its patterns laid out as tiles: Chromium would print them as coarse pixels."""
    tiles = {name: (int(width), int(height)) for name, width, height, _ in PATTERN.findall(svg)}
    count = itertools.count()

    def laid_out(found: re.Match[str]) -> str:
        outline, clip, name, style = found.groups()
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", outline)]
        spans = [
            range(math.floor(min(part) / size) * size, math.ceil(max(part)), size)
            for part, size in zip((numbers[::2], numbers[1::2]), tiles[name], strict=True)
        ]
        laid = "".join(f'<use xlink:href="#{name}" x="{x}" y="{y}"/>' for x, y in itertools.product(*spans))
        shape = f"hatched-{next(count)}"
        return (
            f'<clipPath id="{shape}"><path d="{outline}"/></clipPath><g{clip}>'
            f'<g clip-path="url(#{shape})">{laid}</g><path d="{outline}" style="fill: none; {style}"/></g>'
        )

    return PATTERN.sub(r'<g id="\1">\4</g>', HATCHED.sub(laid_out, svg))


def serve_drawing(route: Route) -> None:
    """Answer a request for a drawing."""
    file = Path(unquote(urlsplit(route.request.url).path))
    route.fulfill(body=draw_hatches(file.read_text(encoding="utf-8")), content_type="image/svg+xml")


def chromium() -> str:
    """Return the path of a Chromium."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SystemExit(f"make print needs Chromium: none of {', '.join(BROWSERS)} is on the PATH")
    return found


def pages_of(pdf: bytes) -> dict[str, int]:
    """Return the page, from 1, of every named place of a PDF written by Chromium."""
    text = pdf.decode("latin-1")
    objects = {int(number): body for number, body in re.findall(r"(?s)(\d+) 0 obj\n(.*?)\nendobj", text)}

    def leaves(number: int) -> list[int]:
        body = objects[number]
        kids = re.search(r"/Kids\s*\[(.*?)\]", body, re.DOTALL)
        if kids is None or "/Type /Pages" not in body:
            return [number]
        return [leaf for kid in re.findall(r"(\d+) 0 R", kids[1]) for leaf in leaves(int(kid))]

    catalog = next(body for body in objects.values() if "/Type /Catalog" in body)
    tree = int(re.search(r"/Pages (\d+) 0 R", catalog)[1])  # type: ignore[index]  # every catalog has pages
    number_of = {leaf: number for number, leaf in enumerate(leaves(tree), start=1)}
    places = re.findall(r"/(print-\d+)\s*\[(\d+) 0 R /XYZ", text)
    return {name: number_of[int(leaf)] for name, leaf in places}


def printed(page: Page) -> bytes:
    """Print the page as it is."""
    return page.pdf(
        scale=SCALE,
        prefer_css_page_size=True,
        print_background=True,
        display_header_footer=True,
        header_template="<span></span>",
        footer_template=FOOTER,
        outline=True,
        tagged=True,
    )


def print_sheet(page: Page) -> bytes | None:
    """Print the cheat sheet alone, as large as fits on one page; None if the book has none."""
    if not page.evaluate(SHEET):
        return None
    for scale in (0.75, 0.7, 0.65, 0.6, 0.55, 0.5):
        result = page.pdf(scale=scale, prefer_css_page_size=True, print_background=True, tagged=True)
        if count_pages(result) == 1:
            break
    return result


def count_pages(pdf: bytes) -> int:
    """Return the number of pages of a PDF written by Chromium."""
    return pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ")


def print_book(site: Path, target: Path, title: str, subtitle: list[str], root: str) -> int:
    """Print the single page of `site` to `target`, its cheat sheet beside it; return the number of pages."""
    # Its style sheets and figures are named as from the folder above the page's.
    whole = site / "book.html"
    shutil.copyfile(site / root, whole)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(color_scheme="light", viewport={"width": WIDTH, "height": 1000})
        page.set_default_timeout(600_000)
        page.route("**/_images/*.svg", serve_drawing)
        page.goto(whole.resolve().as_uri())
        page.evaluate("() => window.MathJax?.startup?.promise")
        words: dict[str, Any] = {"title": title, "subtitle": subtitle, "root": root}
        page.evaluate(PREPARE, words)
        page.add_style_tag(path=str(ROOT / "book" / "_static" / "print.css"))
        page.emulate_media(media="print")
        page.evaluate(FIT)
        page.evaluate(NUMBER, pages_of(printed(page)))
        result = printed(page)
        sheet = print_sheet(page)
        browser.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(result)
    if sheet is not None:
        target.with_name("cheat-sheet.pdf").write_bytes(sheet)
    return count_pages(result)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("site", type=Path, help="the folder of the single page")
    parser.add_argument("target", type=Path, help="the PDF to write")
    given = parser.parse_args(arguments)
    source = Path(os.getcwd())
    settings = yaml.safe_load((source / "_config.yml").read_text(encoding="utf-8"))
    root = yaml.safe_load((source / "_toc.yml").read_text(encoding="utf-8"))["root"]
    subtitle = [settings["author"], str(settings["copyright"]), settings["html"]["extra_footer"]]
    pages = print_book(given.site, given.target, settings["title"], subtitle, f"{root}.html")
    print(f"{pages} pages: {given.target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
