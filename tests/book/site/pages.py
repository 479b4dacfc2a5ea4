"""The built site on disk: where it is, its pages, its chapters, and what the configuration says of it."""

import os
from functools import cache
from pathlib import Path

import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[3]
SITE = Path(os.environ.get("LVQREJ_SITE", ROOT / "_build" / "html")).resolve()
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
FRONT = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["root"] + ".html"
PAGES = sorted(
    file.relative_to(SITE).as_posix() for file in SITE.rglob("*.html") if "_static" not in file.parts
)
#: Old addresses of chapters, which lead on.
MOVED = [page for page in PAGES if 'http-equiv="refresh"' in (SITE / page).read_text(encoding="utf-8")]
PAGES = [page for page in PAGES if page != "index.html" and page not in MOVED]
CHAPTERS = [page for page in PAGES if page.startswith("notebooks/")]
PROSE = [page for page in PAGES if page.startswith(("notebooks/", "book/"))]


@cache
def soup(page):
    """Return the parsed page; parsed once."""
    return BeautifulSoup((SITE / page).read_text(encoding="utf-8"), "html.parser")


def repository():
    """Return the address of the repository that the site was built for."""
    if "GITHUB_REPOSITORY" in os.environ:
        return (
            f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{os.environ['GITHUB_REPOSITORY']}"
        )
    return CONFIG["repository"]["url"]
