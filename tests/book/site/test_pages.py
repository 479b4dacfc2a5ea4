"""Every page in a real browser: it loads whole, is typeset, fits a phone and can be read by everyone."""

from urllib.parse import urlsplit

import pytest
from pages import CONFIG, FRONT, SITE, soup
from visit import NEXT_FRAME, PHONE, SCHEMES, UNFOLD, Visit, glance, open_page, untypeset, weight

MEGABYTE = 1e6
# Code that scrolls, and whether the keyboard can get at it.
TAB_STOPS = """() => [...document.querySelectorAll('pre')]
  .filter(code => code.scrollWidth > code.clientWidth).map(code => code.tabIndex === 0)"""


def test_loads_without_error_below_a_sub_path(page, studied):
    assert studied(page).errors == []


def test_no_cell_leaves_a_warning(page):
    """What goes to standard error would be on the page, with a path of the machine."""
    assert soup(page).select(".output.stderr") == []


def foreign(visit, home):
    """Return what a visit asked of other hosts."""
    return {url for url in visit.requests if not url.startswith(("data:", home))}


def test_asks_no_other_host(page, studied, address):
    assert foreign(studied(page), address) == set()


@pytest.mark.parametrize("kind", [FRONT, "book/api.html", "book/explorer.html", "search.html"])
def test_loads_from_a_file_too(kind, context):
    """One page of each kind: that their addresses are relative is read off all of them."""
    visit = glance(context, (SITE / kind).as_uri())
    assert visit.errors == []
    assert foreign(visit, SITE.as_uri()) == set()


def test_mathematics_is_typeset(page, studied):
    assert studied(page).untypeset == []


def test_mathematics_is_typeset_from_a_file_too(context):
    page = open_page(context, (SITE / "book/notation.html").as_uri(), Visit())
    assert untypeset(page) == []
    assert page.locator("mjx-container").count() > 10
    page.close()


def test_fits_a_phone(page, studied):
    assert studied(page).overflowing == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_readable(page, scheme, studied):
    seen = studied(page).contrast[scheme]
    assert (seen["page"] > 0.8) if scheme == "light" else (seen["page"] < 0.1)
    assert seen["text"] >= 7
    assert seen["faint"] == []


@pytest.mark.parametrize("aspect", ["structure", *SCHEMES])
def test_accessible(page, aspect, studied):
    assert studied(page).violations[aspect] == []


def test_folded_code_that_scrolls_is_a_tab_stop_once_it_is_opened(context, address):
    page = context.new_page()
    page.goto(address + "notebooks/25-how-fast.html")
    before = page.evaluate(TAB_STOPS)
    page.evaluate(UNFOLD)
    page.evaluate(NEXT_FRAME)
    after = page.evaluate(TAB_STOPS)
    page.close()
    assert len(after) > len(before)
    assert all(after)


def test_weighs_at_most_two_megabytes(page, studied):
    assert weight(studied(page).requests) <= 2 * MEGABYTE


def test_front_door_leads_to_the_first_page(context, address):
    page = context.new_page()
    page.goto(address)
    page.wait_for_url(address + FRONT)
    assert CONFIG["title"] in page.title()
    page.close()


def test_phone_navigation_opens_and_leads_on(context, address):
    page = context.new_page()
    page.set_viewport_size(PHONE)
    page.goto(address + FRONT)
    link = page.locator(".bd-sidebar-primary a.reference.internal, dialog a.reference.internal").get_by_text(
        "Notation"
    )
    assert not link.first.is_visible()
    page.locator("button.primary-toggle:visible").click()
    link.first.click()
    page.wait_for_url("**/book/notation.html")
    page.close()


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_finds_a_page(context, address, scheme):
    title = soup("book/notation.html").h1.find(string=True)
    page = context.new_page()
    page.goto({"http": address, "file": f"{SITE.as_uri()}/"}[scheme] + f"search.html?q={title}")
    found = page.locator("#search-results a[href*='notation.html']")
    found.first.wait_for()
    assert urlsplit(found.first.get_attribute("href")).path.endswith("book/notation.html")
    page.close()
