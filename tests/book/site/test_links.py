"""Links, anchors, alternative texts and buttons, read from the files of the site."""

from functools import cache
from posixpath import normpath
from urllib.parse import unquote, urlsplit

import pytest
from pages import CONFIG, FRONT, MOVED, PAGES, SITE, repository, soup

REFERENCES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "object": "data"}


@cache
def anchors(page):
    return {tag["id"] for tag in soup(page).find_all(id=True)} | {
        tag["name"] for tag in soup(page).find_all("a", attrs={"name": True})
    }


def broken(page, address):
    """Say what is wrong with an internal reference of `page`, or None."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    target = normpath(f"{page}/../{unquote(parts.path)}") if parts.path else page
    if not (SITE / target).is_file():
        return f"{address}: no such file"
    if parts.fragment and target.endswith(".html") and unquote(parts.fragment) not in anchors(target):
        return f"{address}: no such anchor"
    return None


def test_internal_links_and_anchors_resolve(page):
    addresses = {
        tag[key] for name, key in REFERENCES.items() for tag in soup(page).find_all(name, attrs={key: True})
    }
    assert [problem for address in sorted(addresses) if (problem := broken(page, address))] == []


def test_old_addresses_of_chapters_lead_to_chapters():
    assert len(MOVED) == 13
    for page in MOVED:
        target = normpath(f"{page}/../{soup(page).a['href']}")
        assert target in PAGES
        assert (
            soup(page).find("meta", attrs={"http-equiv": "refresh"})["content"].endswith(soup(page).a["href"])
        )


@pytest.mark.parametrize("address", ["no-such-page.html", "#no-such-anchor", "../outside.html"])
def test_a_broken_link_would_be_noticed(address):
    assert broken(FRONT, address)


def test_images_have_alternative_text(page):
    assert [str(image) for image in soup(page).find_all("img", alt=False)] == []
    shown = soup(page).main.find_all("img")
    assert [str(image) for image in shown if not image["alt"].strip()] == []


def test_page_is_titled_and_says_its_language(page):
    assert soup(page).title.get_text().strip()
    assert soup(page).html["lang"] == "en"
    headings = [h1 for h1 in soup(page).main.find_all("h1") if not h1.find_parent(class_="onlyprint")]
    assert len(headings) == 1


def test_chapter_launches_on_binder(chapter):
    source = chapter.replace(".html", ".md")
    owner_and_name = urlsplit(repository()).path.strip("/")
    binder, branch = CONFIG["launch_buttons"]["binderhub_url"], CONFIG["repository"]["branch"]
    (launch,) = [
        link["href"] for link in soup(chapter).find_all("a", href=True) if link["href"].startswith(binder)
    ]
    assert launch == f"{binder}/v2/gh/{owner_and_name}/{branch}?urlpath=lab/tree/{source}"


def test_page_has_repository_issue_and_download_buttons(prose):
    header = soup(prose).find(class_="article-header-buttons")
    assert header.find("a", class_="btn-source-repository-button")["href"] == repository()
    assert header.find("a", class_="btn-source-issues-button")["href"].startswith(
        f"{repository()}/issues/new?"
    )
    assert header.find("a", class_="btn-download-source-button")["href"].endswith(".md")
