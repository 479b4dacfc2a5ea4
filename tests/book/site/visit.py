"""One visit of a page in the browser gathers every fact that the tests judge."""

import gzip
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import unquote, urlsplit

from axe_playwright_python.sync_playwright import Axe
from pages import SITE

#: Where the tests' server keeps the site: not at its root.
PREFIX = "/some/sub-path/"
DESKTOP = {"width": 1280, "height": 900}
SCHEMES = ("light", "dark")
PHONE = {"width": 390, "height": 844}
#: Milliseconds to wait for anything: a busy machine is slow, not wrong.
PATIENCE = 120_000

# With `preload` axe-core itself requests style sheets, by wrong addresses; only violations are of interest.
BRIEF = {"preload": False, "resultTypes": ["violations"]}
# Structure is the same in both schemes; colours are judged in each, on two samples of every pair of colours.
STRUCTURE = {**BRIEF, "rules": {"color-contrast": {"enabled": False}}}
COLOURS = {**BRIEF, "runOnly": ["color-contrast"]}
SAMPLES = {"include": [["[data-sample]"]]}
STILL = "* { transition: none !important; animation: none !important; }"

# When the second frame begins, all that the first one asked for is done: what watches sizes has been told.
NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

# Folded solutions and code are content too.
UNFOLD = """() => {
  document.querySelectorAll('details').forEach(part => { part.open = true; });
  document.querySelectorAll('.toggle-hidden').forEach(part => part.classList.remove('toggle-hidden'));
}"""

# Formulas without typeset output, formulas in error, and TeX or MyST left in the text outside code.
UNTYPESET = r"""() => {
  const found = [];
  for (const formula of document.querySelectorAll('main .math')) {
    if (!formula.querySelector('mjx-container')) found.push(formula.textContent.trim());
  }
  document.querySelectorAll('mjx-merror, [data-mjx-error]').forEach(part => found.push(part.textContent));
  const raw = /\\[([]|\$\$|\\[a-zA-Z]+\s*\{|\\begin\b|\$[^$\s][^$]*\\[^$]*\$|\{[a-z:]+\}`|^:::/;
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    if (!text.parentElement.closest('pre, code, script, style, mjx-container') && raw.test(text.data)) {
      found.push(text.data.trim());
    }
  }
  return found;
}"""

# What sticks out of the screen and cannot be reached by scrolling a box of its own.
OVERFLOWING = """() => {
  const found = [];
  const HIDDEN = 'mjx-assistive-mml, .bd-sidebar-secondary';
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(`the page is ${width} pixels wide`);
  for (const part of document.querySelectorAll('main *')) {
    if (part.getBoundingClientRect().right <= innerWidth + 1 || part.closest(HIDDEN)) continue;
    let box = part.parentElement;
    while (box && !(['auto', 'scroll'].includes(getComputedStyle(box).overflowX)
                    && box.getBoundingClientRect().right <= innerWidth + 1)) box = box.parentElement;
    if (!box) found.push(part.outerHTML.slice(0, 120));
  }
  return found;
}"""

# Luminance of the page, contrast of its running text (WCAG 2), and the tokens of code that are hard to read.
CONTRAST = r"""() => {
  const luminance = colour => {
    const channels = colour.match(/[\d.]+/g).slice(0, 3).map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
  };
  const background = part => {
    const colour = getComputedStyle(part).backgroundColor;
    return part.parentElement && /, 0\)$/.test(colour) ? background(part.parentElement) : colour;
  };
  const contrast = part => {
    const [one, other] = [getComputedStyle(part).color, background(part)].map(luminance);
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  };
  // Of tokens of one kind in boxes of one kind, one is enough.
  const kinds = new Map();
  for (const span of document.querySelectorAll('.highlight pre span')) {
    if (!span.textContent.trim()) continue;
    const boxes = [span, span.parentElement, span.closest('.cell, .admonition, details')];
    kinds.set(boxes.map(part => part?.className).join('|'), span);
  }
  const tokens = [...kinds.values()];
  return {
    page: luminance(background(document.body)),
    text: contrast(document.querySelector('article p') ?? document.querySelector('main')),
    faint: tokens.filter(token => contrast(token) < 4.5).map(token => token.outerHTML),
  };
}"""

# Thousands of elements whose colours have been judged, and rows of long tables, would cost axe-core minutes.
FLATTEN = """() => {
  document.querySelectorAll('.highlight pre').forEach(code => { code.textContent = code.textContent; });
  document.querySelectorAll('mjx-container').forEach(formula => formula.replaceChildren('x'));
  document.querySelectorAll('tbody').forEach(part => [...part.rows].slice(12).forEach(row => row.remove()));
}"""


SAMPLE = r"""() => {
  const seen = {};
  for (const part of document.querySelectorAll('body *')) {
    delete part.dataset.sample;
    if (![...part.childNodes].some(child => child.nodeType === Node.TEXT_NODE && child.data.trim())) continue;
    let box = part;
    while (box.parentElement && /, 0\)$/.test(getComputedStyle(box).backgroundColor)) box = box.parentElement;
    const {color, fontSize, fontWeight} = getComputedStyle(part);
    const kind = [color, getComputedStyle(box).backgroundColor, fontSize, fontWeight].join();
    seen[kind] = (seen[kind] ?? 0) + 1;
    if (seen[kind] <= 2) part.dataset.sample = '';
  }
}"""


@dataclass
class Visit:
    """What a reader's browser met on one page."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    untypeset: list[str] = field(default_factory=list)
    overflowing: list[str] = field(default_factory=list)
    contrast: dict[str, dict] = field(default_factory=dict)
    violations: dict[str, list[str]] = field(default_factory=dict)


def open_page(context, url, visit):
    """Open `url`, noting errors and requests."""
    page = context.new_page()
    page.on("console", lambda message: message.type == "error" and visit.errors.append(message.text))
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("request", lambda request: visit.requests.append(request.url))
    page.on("requestfailed", lambda request: visit.errors.append(f"failed: {request.url}"))
    page.on(
        "response",
        lambda answer: answer.status >= 400 and visit.errors.append(f"{answer.status}: {answer.url}"),
    )
    page.goto(url, wait_until="load")
    return page


def untypeset(page):
    """Return the formulas of a page that are not typeset once MathJax says that it is done."""
    page.evaluate("() => window.MathJax?.startup?.promise")
    return page.evaluate(UNTYPESET)


def glance(context, url):
    """Visit a page only to see whether it loads whole."""
    visit = Visit()
    page = open_page(context, url, visit)
    page.wait_for_load_state("networkidle")  # a font that is still on its way would count as lost
    page.close()
    return visit


def study(context, url):
    """Visit a page and judge it in both colour schemes, on a desktop and on a phone."""
    visit = Visit()
    page = open_page(context, url, visit)
    page.add_style_tag(content=STILL)
    page.evaluate(UNFOLD)
    visit.untypeset = untypeset(page)
    page.set_viewport_size(PHONE)
    visit.overflowing = page.evaluate(OVERFLOWING)
    page.set_viewport_size(DESKTOP)
    for scheme in SCHEMES:
        _switch(page, scheme)
        visit.contrast[scheme] = page.evaluate(CONTRAST)
    page.evaluate(FLATTEN)
    page.evaluate(NEXT_FRAME)
    visit.violations["structure"] = _serious(Axe().run(page, options=STRUCTURE).response)
    for scheme in SCHEMES:
        _switch(page, scheme)
        page.evaluate(SAMPLE)
        visit.violations[scheme] = _serious(Axe().run(page, context=SAMPLES, options=COLOURS).response)
    page.close()
    return visit


def _switch(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)


def _serious(response):
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary']}"
        for violation in response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def weight(urls):
    """Return the compressed bytes of everything a page requests from the served site."""
    paths = {unquote(urlsplit(url).path) for url in urls if url.startswith("http")}
    return sum(_compressed(path.removeprefix(PREFIX)) for path in paths)


@cache
def _compressed(path):
    return len(gzip.compress((SITE / path).read_bytes()))
