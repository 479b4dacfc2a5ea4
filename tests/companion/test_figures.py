"""The registry of figures and tables: what it refuses, what it shows, what it writes."""

import base64
import io
import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from companion import figures

DATA = pd.DataFrame({"x": [0.0, 1 / 3], "y": [1, 2]})
WORDS = {"caption": "A line that rises.", "alt": "A straight line rising from zero to one."}


@pytest.fixture(autouse=True)
def no_export(monkeypatch):
    monkeypatch.delenv(figures.EXPORT_VARIABLE, raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The export folder of a book that is being built."""
    monkeypatch.setenv(figures.EXPORT_VARIABLE, str(tmp_path / "exports"))
    monkeypatch.setenv(figures.EXPORT_URI_VARIABLE, "/exports")
    return tmp_path / "exports"


def line():
    figure, axes = plt.subplots()
    axes.plot(DATA.x, DATA.y, label="$r(x)$")
    axes.legend()
    return figure


def bundle(shown):
    return shown._repr_mimebundle_()


@pytest.mark.parametrize(
    "id", ["line", "fig", "fig-", "fig-Line", "fig_line", "tab-line", "fig-a b", "fig-a--b"]
)
def test_refuses_an_identifier_that_is_no_label(id):
    with pytest.raises(ValueError, match=r"id must be 'fig-' and lower-case words .* found"):
        figures.show(Figure(), id, **WORDS, data=DATA)


@pytest.mark.parametrize("caption", ["", "A line", "  two   words "])
def test_refuses_a_caption_that_says_nothing(caption):
    with pytest.raises(ValueError, match="caption must say what is shown; found"):
        figures.show(Figure(), "fig-line", caption=caption, alt=WORDS["alt"], data=DATA)


@pytest.mark.parametrize("alt", ["", "A line.", "a picture of some line without a stop"])
def test_refuses_an_alternative_text_that_is_no_sentence(alt):
    with pytest.raises(ValueError, match="alt must be a sentence"):
        figures.show(Figure(), "fig-line", caption=WORDS["caption"], alt=alt, data=DATA)


def test_refuses_an_alternative_text_that_repeats_the_caption():
    with pytest.raises(ValueError, match="alt must not repeat the caption"):
        figures.show(Figure(), "fig-line", caption=WORDS["alt"], alt=f" {WORDS['alt']} ", data=DATA)


@pytest.mark.parametrize("data", [None, [1, 2], pd.DataFrame(), DATA.iloc[:0]])
def test_refuses_missing_data(data):
    with pytest.raises(ValueError, match="data must be a non-empty DataFrame"):
        figures.show(Figure(), "fig-line", **WORDS, data=data)
    with pytest.raises(ValueError, match="data must be a non-empty DataFrame"):
        figures.table(data, "tab-line", caption=WORDS["caption"])


def test_refuses_what_is_no_figure():
    with pytest.raises(ValueError, match="figure must be a matplotlib Figure; found str"):
        figures.show("picture", "fig-line", **WORDS, data=DATA)


def test_refuses_a_table_with_the_identifier_of_a_figure():
    with pytest.raises(ValueError, match="id must be 'tab-'"):
        figures.table(DATA, "fig-line", caption=WORDS["caption"])


def test_outside_the_book_a_figure_is_only_displayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = figures.show(line(), "fig-line", caption="Where r < 1 & rises.", alt=WORDS["alt"], data=DATA)
    assert repr(shown) == WORDS["alt"]
    assert set(bundle(shown)) == {"text/plain", "text/html"}
    assert 'src="data:image/png;base64,' in bundle(shown)["text/html"]
    assert f'alt="{WORDS["alt"]}"' in bundle(shown)["text/html"]
    assert "<figcaption>Where r &lt; 1 &amp; rises.</figcaption>" in bundle(shown)["text/html"]
    assert list(tmp_path.iterdir()) == []
    assert plt.get_fignums() == []


def test_in_the_book_a_figure_is_a_labelled_directive(folder):
    shown = figures.show(
        line(), "fig-line", caption="A line, see {eq}`eq-a`.", alt="A line\n that rises a lot.", data=DATA
    )
    assert bundle(shown)["text/markdown"] == (
        "::::{figure} /exports/fig-line.svg\n:name: fig-line\n:alt: A line that rises a lot.\n\n"
        "A line, see {eq}`eq-a`.\n::::\n"
    )


def test_a_figure_is_exported_with_its_record(folder):
    figures.show(line(), "fig-line", **WORDS, data=DATA, paper="Figure 1")
    assert {file.name for file in folder.iterdir()} == {
        f"fig-line.{kind}" for kind in ["svg", "pdf", "png", "csv", "json"]
    }
    record = json.loads((folder / "fig-line.json").read_text())
    expected = {
        "id": "fig-line",
        "kind": "figure",
        "paper": "Figure 1",
        "formats": ["svg", "pdf", "png", "csv"],
    }
    assert record == {**expected, **WORDS}
    assert (folder / "fig-line.csv").read_bytes() == b"x,y\n0.0,1\n0.3333333333333333,2\n"


def test_two_exports_are_the_same_bytes(folder):
    exports = []
    for _ in range(2):
        figures.show(line(), "fig-line", **WORDS, data=DATA)
        exports.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert exports[0] == exports[1]


def test_an_interrupted_export_leaves_the_earlier_one_whole(folder, monkeypatch):
    figures.show(line(), "fig-line", **WORDS, data=DATA)
    before = (folder / "fig-line.svg").read_bytes()
    other = line()
    other.axes[0].set_title("another picture")

    def interrupted(path, target):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", interrupted)
    with pytest.raises(OSError, match="disk full"):
        figures.show(other, "fig-line", **WORDS, data=DATA)
    assert (folder / "fig-line.svg").read_bytes() == before


def test_outside_the_book_a_table_is_only_displayed():
    shown = figures.table(DATA.assign(name=["<a>", "b"]), "tab-line", caption="Numbers < 3 here.")
    assert "&lt;a&gt;" in bundle(shown)["text/html"]
    assert "<figcaption>Numbers &lt; 3 here.</figcaption>" in bundle(shown)["text/html"]
    assert "0.333" in repr(shown)


def test_in_the_book_numbers_align_right_and_bars_are_escaped(folder):
    data = pd.DataFrame({"method": ["a|b", "c"], "distance": [1 / 3, 2.0], "cells": [4, 12345]})
    shown = figures.table(data, "tab-methods", caption="Two methods\nand distances.", digits=2)
    assert bundle(shown)["text/markdown"] == (
        "::::{table} Two methods and distances.\n:name: tab-methods\n\n"
        "| method | distance | cells |\n| :--- | ---: | ---: |\n"
        "| a\\|b | 0.33 | 4 |\n| c | 2.00 | 12,345 |\n::::\n"
    )


def test_a_table_is_exported_in_full_precision(folder):
    figures.table(DATA, "tab-line", caption=WORDS["caption"], digits=1)
    assert {file.name for file in folder.iterdir()} == {"tab-line.csv", "tab-line.json"}
    assert float((folder / "tab-line.csv").read_text().splitlines()[2].split(",")[0]) == 1 / 3
    assert json.loads((folder / "tab-line.json").read_text())["formats"] == ["csv"]


def test_style_is_opaque_and_large():
    with plt.rc_context():
        figures.use_style()
        assert plt.rcParams["figure.facecolor"] == plt.rcParams["savefig.facecolor"] == "white"
        assert plt.rcParams["font.size"] >= 13
        assert plt.rcParams["axes.prop_cycle"].by_key()["color"] == list(figures.PALETTE)


def test_palette_is_told_apart_without_colour():
    assert len(figures.PALETTE) == len(figures.MARKERS) == len(set(figures.MARKERS))
    lightness = sorted(
        np.dot([int(colour[i : i + 2], 16) for i in (1, 3, 5)], [0.2126, 0.7152, 0.0722])
        for colour in figures.PALETTE
    )
    assert len(set(np.round(lightness))) == len(figures.PALETTE)


def test_large_numbers_in_tables_are_written_out(folder):
    data = pd.DataFrame({"rows": [5944.2, 50000.0, 1.06e-13, 0.1239]})
    text = repr(figures.table(data, "tab-sizes", caption="Sizes, large and small."))
    assert text.split() == ["rows", "5,944", "50,000", "1.06·10⁻¹³", "0.124"]


def test_thousands_are_set_apart_for_readers_only(folder):
    data = pd.DataFrame(
        {
            "year": ["2022"],
            "rows": [-1234567],
            "time": [1234.5],
            "few": [999],
            "valid": [True],
            "none": [np.nan],
        }
    )
    text = repr(figures.table(data, "tab-sizes", caption="Counts and times.", digits=4))
    assert text.split()[6:] == ["2022", "−1,234,567", "1,234", "999", "True", "–"]
    assert (folder / "tab-sizes.csv").read_text().splitlines()[1] == "2022,-1234567,1234.5,999,True,"


def picture_in_svg(folder, shade, **style):
    """Return the one picture that is embedded in the export of a map, and its bytes."""
    figure, axes = plt.subplots()
    axes.imshow(shade, cmap="cividis", **style)
    figures.show(figure, "fig-map", **WORDS, data=DATA)
    (embedded,) = re.findall(r'data:image/png;base64,\s*([^"]+)"', (folder / "fig-map.svg").read_text())
    content = base64.b64decode(embedded)
    return Image.open(io.BytesIO(content)), content


def test_a_map_of_few_colours_is_exact(folder):
    colours = plt.get_cmap("cividis")(np.linspace(0, 1, 33), bytes=True)[:, :3]
    picture, _ = picture_in_svg(folder, np.linspace(0, 1, 33)[:, None] * np.ones(33), interpolation="nearest")
    assert picture.mode == "P"
    found = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)
    np.testing.assert_array_equal(found, np.unique(colours, axis=0))


def test_a_smooth_map_is_fine_and_light_and_nearly_exact(folder):
    x = np.linspace(-1, 1, 201)
    picture, content = picture_in_svg(folder, x[:, None] * x, interpolation="bilinear")
    assert min(picture.size) > 500
    assert len(content) < 0.25 * picture.width * picture.height
    shown = np.asarray(picture.convert("RGB"), dtype=int)
    near = plt.get_cmap("cividis")(np.linspace(0, 1, 256), bytes=True)[:, :3].astype(int)
    distance = np.abs(shown.reshape(-1, 1, 3)[::97] - near).max(axis=2).min(axis=1)
    assert distance.max() <= 6


def test_a_transparent_picture_stays_as_it_is(folder):
    picture, _ = picture_in_svg(folder, np.eye(3), alpha=0.4)
    assert picture.mode == "RGBA"
    assert picture.getextrema()[3][0] < 255


def test_panels_beside_each_other_can_be_cut_apart():
    figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
    axes[0].set(ylabel="a long label of the axis")
    figure.colorbar(axes[1].imshow([[0, 1]]), ax=axes[1])
    first, second = figures.panel_cuts(figure)
    positions = [ax.get_position() for ax in figure.axes]
    assert 1000 * positions[0].x1 < first < 1000 * positions[1].x0
    assert 1000 * positions[3].x1 < second < 1000 * positions[2].x0
    plt.close(figure)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1)])
def test_panels_below_each_other_are_not_cut(shape):
    figure, _ = plt.subplots(*shape)
    assert figures.panel_cuts(figure) == []
    plt.close(figure)


def test_what_belongs_to_all_panels_is_not_cut():
    figure, _ = plt.subplots(1, 2)
    figure.suptitle("of both")
    assert figures.panel_cuts(figure) == []
    plt.close(figure)


def test_panels_without_the_names_of_their_rows_are_not_cut_off():
    figure, axes = plt.subplots(1, 2, sharey=True)
    for ax in axes:
        ax.barh(["one method", "another"], [1, 2])
    assert figures.panel_cuts(figure) == []
    plt.close(figure)


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ([0.97988, 0.978, 1.0], ["0.980", "0.978", "1.000"]),
        ([123.4, 1.234, 0.0], ["123.4", "1.2", "0.0"]),
        ([1.5e-12, 3e-13], ["1.5·10⁻¹²", "3·10⁻¹³"]),
        ([12.34, 0.456, np.nan], ["12.34", "0.46", "–"]),
        ([0.46, 0.5, 0.0], ["0.46", "0.50", "0.00"]),
        ([26.5, 38.0, 3.0], ["26.5", "38.0", "3.0"]),
        ([8.0, 0.0, -6.0], ["8", "0", "−6"]),
        ([1 / 3, 0.0, 1234.5], ["0.333", "0", "1,234"]),
        ([0.9996, 9.996, -0.00042], ["1.00", "10.0", "−0.00042"]),
    ],
)
def test_numbers_of_a_table_keep_the_digits_that_are_meant(column, shown):
    text = figures.table(
        pd.DataFrame({"a": column}), "tab-line", caption=WORDS["caption"]
    )._repr_mimebundle_()
    assert text["text/plain"].split() == ["a", *shown]


def test_what_a_phone_can_neither_show_nor_part_is_refused():
    single, _ = plt.subplots(figsize=(9, 4))
    with pytest.raises(ValueError, match=r"at most 8\.6 inches wide for a phone, .* found 9"):
        figures.show(single, "fig-wide", **WORDS, data=DATA)
    parted, _ = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    figures.show(parted, "fig-parted", **WORDS, data=DATA)
    plt.close("all")


def test_the_book_is_told_where_to_cut(folder):
    figure, _ = plt.subplots(1, 2, layout="constrained")
    page = figures.show(figure, "fig-two", **WORDS, data=DATA)._repr_mimebundle_()["text/markdown"]
    assert re.search(r"^:figclass: panels-\d{3}$", page, re.MULTILINE)


def test_an_attached_page_is_written_where_the_build_finds_it(folder, tmp_path, monkeypatch):
    shown = bundle(figures.attach(lambda file: file.write_text("page"), "a-page.html", "A <page>"))
    assert (folder / "a-page.html").read_text() == "page"
    assert shown["text/markdown"] == '<a href="../_static/attached/a-page.html">A &lt;page&gt;</a>'
    monkeypatch.delenv(figures.EXPORT_VARIABLE)
    monkeypatch.chdir(tmp_path)
    shown = bundle(figures.attach(lambda file: file.write_text("page"), "b.html", "b"))
    assert (tmp_path / "b.html").exists()
    assert 'href="b.html"' in shown["text/html"]
    with pytest.raises(ValueError, match="name must be lower-case words"):
        figures.attach(lambda file: None, "../B.html", "b")
