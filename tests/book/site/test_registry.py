"""No figure or table in a chapter without identifier, caption, alternative text and data."""

import json

import pandas as pd
import pytest
from pages import ROOT, SITE, soup
from PIL import Image

FOLDER = SITE / "figures"
INDEX = FOLDER / "index.json"
#: A table of times, measured while its chapter runs.
MEASURED = {"tab-fast-ladder"}
RECORDS = {record["id"]: record for record in json.loads(INDEX.read_text())} if INDEX.exists() else {}


def outputs(page, name):
    return [tag for output in soup(page).find_all(class_="cell_output") for tag in output.find_all(name)]


def test_index_is_published():
    assert INDEX.is_file()


def test_every_figure_of_a_chapter_is_registered(chapter):
    for image in outputs(chapter, "img"):
        figure = image.find_parent("figure")
        assert figure is not None, f"not shown by figures.show: {str(image)[:120]}"
        record = RECORDS[figure["id"]]
        assert record["page"] == chapter.removesuffix(".html")
        assert image["alt"] == " ".join(record["alt"].split())
        assert figure.figcaption.find(class_="caption-number") is not None


def test_every_table_of_a_chapter_is_registered(chapter):
    for table in outputs(chapter, "table"):
        assert table.caption is not None, f"not shown by figures.table: {str(table)[:120]}"
        holder = table if table.get("id") else table.find_parent(id=True)
        assert RECORDS[holder["id"]]["page"] == chapter.removesuffix(".html")


def test_a_second_run_exports_the_same_bytes():
    """`make notebooks` runs every chapter again, in other processes; every number and line is the same."""
    again = ROOT / "_build" / "again"
    if not again.is_dir():
        pytest.skip("the notebooks have run only once: make notebooks")
    for id in RECORDS.keys() - MEASURED:
        for kind in {"csv", "svg"} & set(RECORDS[id]["formats"]):
            first, second = (folder / f"{id}.{kind}" for folder in (FOLDER, again))
            assert first.read_bytes() == second.read_bytes(), first.name


@pytest.mark.parametrize("id", RECORDS)
def test_record_is_complete_and_its_files_are_there(id):
    record = RECORDS[id]
    assert len(record["caption"].split()) >= 3
    assert not pd.read_csv(FOLDER / f"{id}.csv").empty
    if record["kind"] == "figure":
        assert len(record["alt"].split()) >= 5
        assert sorted(record["formats"]) == ["csv", "pdf", "png", "svg"]
        assert (FOLDER / f"{id}.pdf").read_bytes().startswith(b"%PDF")
        assert b"<svg" in (FOLDER / f"{id}.svg").read_bytes()[:1000]
        with Image.open(FOLDER / f"{id}.png") as picture:
            lightest_alpha = picture.convert("RGBA").getchannel("A").getextrema()[0]
        assert lightest_alpha == 255, "the background must be opaque, or dark mode hides the axes"
