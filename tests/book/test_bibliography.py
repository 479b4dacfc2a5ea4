"""The bibliography parses, its entries are complete, and every citation of the book finds one."""

import re
from collections import Counter
from pathlib import Path

from pybtex.database import parse_file

ROOT = Path(__file__).parents[2]
BIBLIOGRAPHY = ROOT / "book" / "references.bib"
ENTRIES = parse_file(str(BIBLIOGRAPHY)).entries
CITATION = re.compile(r"\{cite(?::\w+)?\}`([^`]+)`")


def cited_keys(text):
    """Return the keys that the cite roles of a page name."""
    return [key.strip() for keys in CITATION.findall(text) for key in keys.split(",")]


def having(field):
    """Return a field of all entries that have it, by their keys."""
    return {key: entry.fields[field] for key, entry in ENTRIES.items() if field in entry.fields}


def test_entries_are_complete():
    for key, entry in ENTRIES.items():
        assert entry.persons.get("author"), f"{key}: no author"
        for field in ("title", "year"):
            assert entry.fields.get(field, "").strip(), f"{key}: no {field}"
        assert re.fullmatch(r"(1[89]|20)\d\d", entry.fields["year"]), key
        assert re.fullmatch(r"[a-z]+\d{4}[a-z]+", key), f"{key}: is not author, year and a word in lower case"
        for author in entry.persons["author"]:
            assert author.last_names, f"{key}: an author without a last name"
            assert author.first_names, f"{key}: an author without a first name"


def test_numbers_of_works_and_pages_are_well_formed():
    for key, doi in having("doi").items():
        assert re.fullmatch(r"10\.\d{4,9}/[^\s{}\\\"]+", doi), key
    for key, number in having("eprint").items():
        assert ENTRIES[key].fields["archiveprefix"] == "arXiv", key
        assert re.fullmatch(r"\d{4}\.\d{4,5}", number), key
    for key, pages in having("pages").items():
        first, *last = map(int, pages.split("--"))
        assert not last or first < last[0], key


def test_no_work_is_listed_twice():
    written = re.findall(r"^@\w+\{([^,]+),", BIBLIOGRAPHY.read_text(encoding="utf-8"), re.M)
    values = {
        "key": [key.lower() for key in written],
        "doi": [e.fields["doi"].lower() for e in ENTRIES.values() if "doi" in e.fields],
        "title": [re.sub(r"\W", "", e.fields["title"]).lower() for e in ENTRIES.values()],
    }
    assert len(written) == len(ENTRIES)
    for name, found in values.items():
        assert [value for value, times in Counter(found).items() if times > 1] == [], name


def test_the_papers_own_entry_is_there():
    assert [str(person).split(",")[0] for person in ENTRIES["artelt2022reject"].persons["author"]] == [
        "Artelt", "Brinkrolf", "Visser", "Hammer",
    ]  # fmt: skip


def test_every_citation_has_an_entry():
    pages = [*ROOT.glob("book/**/*.md"), *ROOT.glob("notebooks/**/*.md")]
    cited = {page.name: set(cited_keys(page.read_text(encoding="utf-8"))) for page in pages}
    assert {name: keys - set(ENTRIES) for name, keys in cited.items() if keys - set(ENTRIES)} == {}


def test_citations_are_recognised_in_all_their_forms():
    text = "see {cite}`one2000a`, {cite:p}`two2001b, three2002c` and {cite:t}`four2003d`, not `{cite}`"
    assert cited_keys(text) == ["one2000a", "two2001b", "three2002c", "four2003d"]


def test_the_software_paper_cites_what_its_bibliography_has_and_agrees_with_the_book():
    keys = set(re.findall(r"@([a-z]+\d{4}[a-z]+)", (ROOT / "paper.md").read_text()))
    own = dict(re.findall(r"@\w+\{([^,]+),\s*(.*?)\n\}", (ROOT / "paper.bib").read_text(), re.DOTALL))
    book = dict(
        re.findall(r"@\w+\{([^,]+),\s*(.*?)\n\}", (ROOT / "book/references.bib").read_text(), re.DOTALL)
    )
    assert keys == set(own)
    assert [key for key in keys & set(book) if own[key] != book[key]] == []
