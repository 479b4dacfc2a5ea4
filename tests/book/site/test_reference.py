"""Gallery, paper map, downloads and search: what a reader looks up is there."""

import json
import re

import pytest
from pages import CONFIG, PROSE, ROOT, SITE, repository, soup
from test_registry import RECORDS

GALLERY, MAP, FAQ = "book/gallery.html", "book/paper-map.html", "book/faq.html"
BIBLIOGRAPHY = "book/bibliography.html"
REFERENCE = [page for page in PROSE if page.startswith("book/api-")]
#: The paper's own terms, and the page that is about each.
TERMS = {
    "learning vector quantization": "02-learning-vector-quantization",
    "GMLVQ": "02-learning-vector-quantization",
    "prototype": "02-learning-vector-quantization",
    "reject option": "03-reject-options",
    "certainty": "03-reject-options",
    "certainty measure": "03-reject-options",
    "threshold": "03-reject-options",
    "counterfactual": "06-counterfactual-explanations",
    "counterfactual explanation": "06-counterfactual-explanations",
    "relative similarity": "07-relative-similarity",
    "distance to the decision boundary": "08-decision-distance",
    "probabilistic certainty": "09-probabilistic-certainty",
    "T21": "16-the-experiments",
}


@pytest.mark.parametrize("id", RECORDS)
def test_the_gallery_has_everything_about_a_figure_or_table(id):
    record, item = RECORDS[id], soup(GALLERY).find(id=f"gallery-{id}")
    links = {link["href"] for link in item.find_all("a", href=True)}
    assert {f"../figures/{id}.{kind}" for kind in record["formats"]} <= links
    assert f"../{record['page']}.html#{id}" in links
    assert (record["paper"] or "") in item.get_text()
    command, citation, bibtex = (block.get_text() for block in item.select("details pre"))
    assert command.strip() == f"make figures CHAPTER={record['page'].removeprefix('notebooks/')}"
    for text in (citation, bibtex):
        assert f"{record['page']}.html#{id}" in text
        assert "CC BY 4.0" in text
    assert bibtex.startswith(f"@misc{{lvqrej-{id},")
    assert bibtex.count("{") == bibtex.count("}")
    if record["kind"] == "figure":
        image = item.find("img")
        assert image["loading"] == "lazy"
        assert image["alt"] == record["alt"]


def test_the_reference_names_attributes_that_share_a_line_and_nothing_that_python_generates():
    pages = [soup(page) for page in REFERENCE]
    assert not any("Alias for field" in page.get_text() for page in pages)
    items = [item for page in pages for item in page.select("dl.field-list li")]
    fields = (item.get_text().replace("\u200b", "") for item in items)
    names = {field.partition(" – ")[0].strip() for field in fields}
    assert {"sample,counterfactual", "distance,lower_bound"} <= names


def test_the_reference_says_of_each_parameter_what_it_is():
    for fields in [fields for page in REFERENCE for fields in soup(page).select("dl.field-list")]:
        said = [item.get_text().partition(" – ")[2].strip() for item in fields.select("dd li")]
        own = [text for text in said if text and not text.startswith(("See ", "As "))]
        assert len(set(own)) == len(own), fields.get_text()


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("lvqrej.counterfactual.explain", "book/api-explain.html"),
        ("lvqrej.requirements.mad_weights", "book/api-explain.html"),
        ("module-lvqrej.lvq", "book/api-models.html"),
        ("the-classifier", "book/api-classifier.html"),
    ],
)
def test_addresses_of_the_time_when_the_reference_was_one_page_still_lead_there(context, address, old, now):
    assert soup(now).find(id=old)
    tab = context.new_page()
    tab.goto(f"{address}book/api.html#{old}")
    tab.wait_for_url(f"{address}{now}#{old}")
    tab.close()


def test_a_page_of_the_reference_is_not_endless(context, address):
    tab = context.new_page()
    for page in REFERENCE:
        tab.goto(address + page)
        assert tab.evaluate("document.documentElement.scrollHeight") < 30_000, page
    tab.close()


def test_a_citation_has_the_label_of_one_entry_of_the_bibliography_and_of_no_other():
    entries = soup(BIBLIOGRAPHY).select("div.citation")
    labels = {entry["id"]: entry.select_one(".label").get_text().strip("[]") for entry in entries}
    assert len(set(labels.values())) == len(entries) >= 70
    assert {"Artelt et al., 2022a", "Artelt et al., 2022b"} <= set(labels.values())
    for page in PROSE:
        for link in soup(page).select(".bibtex-citation a"):
            cited, label = link.get_text().replace("\u00a0", " "), labels[link["href"].partition("#")[2]]
            assert cited in (label, label.rpartition(" ")[2]), page  # in parentheses, or after the authors


def test_no_line_breaks_between_a_number_and_its_unit():
    article = soup("notebooks/25-how-fast.html").find("article")
    text = "".join(part for part in article.find_all(string=True) if not part.find_parent("pre"))
    assert "\u00a0%" in text
    assert not re.search(r"\d (?:%|s\b|ms\b|µs\b)", text)


def test_the_whole_gallery_is_light_even_when_scrolled_to_its_end():
    thumbnails = list((SITE / "_images" / "thumbnails").iterdir())
    assert {file.stem for file in thumbnails} == {id for id, record in RECORDS.items() if record["alt"]}
    assert sum(file.stat().st_size for file in thumbnails) <= 1.2e6


def test_the_paper_map_links_book_code_and_tests():
    tests = f"{repository()}/blob/{CONFIG['repository']['branch']}/tests/"
    rows = soup(MAP).select("tbody tr")
    assert len(rows) >= 72
    for row in rows:
        _, book, code = row.find_all("td")
        assert book.select("a.internal"), row.get_text()
        places = [link["href"] for link in code.find_all("a")]
        assert any(place.startswith(tests) for place in places), row.get_text()
        code = re.compile(r"/lvqrej/|/companion/|api[a-z-]*\.html#(?:lvqrej|companion)\.")
        assert any(code.search(place) for place in places), row.get_text()


def test_every_answer_links_into_the_book():
    questions = soup(FAQ).find_all("h3")
    assert len(questions) >= 15
    assert [heading.get_text() for heading in questions if not heading.parent.select("a.internal")] == []


def downloads(chapter):
    """Return the files that a chapter's download button offers, by ending."""
    links = soup(chapter).select(".article-header-buttons a[class*=btn-download]")
    files = [(SITE / chapter).parent / link["href"] for link in links]
    return {file.suffix: file.resolve() for file in files}


def test_chapter_offers_its_source_and_the_executed_notebook(chapter):
    offered = downloads(chapter)
    head, note, body = re.split(r"\n(> \*\*To run this chapter\*\*.*)\n\n", offered[".md"].read_text())
    assert head + "\n" + body == (ROOT / chapter.replace(".html", ".md")).read_text()
    assert "make env" in note
    text = offered[".ipynb"].read_text()
    assert str(ROOT) not in text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells)
    outputs = [output.get("data", {}) for cell in cells for output in cell["outputs"]]
    pictures = [data for data in outputs if "image/png" in data]
    shown = [record for record in RECORDS.values() if f"{record['page']}.html" == chapter and record["alt"]]
    assert len(pictures) == len(shown)
    assert not [data for data in outputs if "::::" in "".join(data.get("text/markdown", ""))]


@pytest.mark.parametrize("term", TERMS)
def test_search_finds_the_papers_terms(context, address, term):
    page = context.new_page()
    page.goto(f"{address}search.html?q={term}")
    page.locator(f"#search-results a[href*='{TERMS[term]}.html']").first.wait_for()
    page.close()
