"""Explanations for people: numbers that stay true when rounded, a sentence, a chart, a page, a record."""

import dataclasses
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity, explain
from lvqrej.explanation import Explanation
from lvqrej.telling.cause import Familiarity
from lvqrej.telling.presentation import gauge_end, proof
from lvqrej.telling.rounding import (
    before_and_after,
    number,
    percent_up,
    rounded,
    shown_certainties,
    shown_counterfactual,
)

sys.path.insert(0, str(Path(__file__).parent))
from browser import chromium

NAMES = ["worst <area>", "width & height", "age"]
MODEL = PrototypeModel(
    [[1000.0, 3, 50], [400, 5, 40]], ["malignant", "benign"], np.diag([0.01, 1, 0.1]), NAMES
)
OPTION = RelativeSimilarity(MODEL)
REJECTED = [720.25, 4.1, 45]


@pytest.fixture(scope="module")
def why():
    return explain(OPTION, 0.35, REJECTED)


@pytest.fixture(scope="module")
def several():
    X = [REJECTED, [1000, 3, 50], [690, 4, 44]]
    return explain(OPTION, 0.35, X, bounds={"age": (44.5, 200)}, fixed=["worst <area>"], on_infeasible="skip")


# --- rounding ---


def random_case(seed, digits):
    rng = np.random.default_rng(seed)
    d = 4
    scale = 10.0 ** rng.uniform(-3, 5, size=d)
    prototypes = rng.normal(size=(5, d)) * scale
    model = PrototypeModel(prototypes, [0, 1, 0, 1, 2], rng.normal(size=(d, d)) / scale)
    x = np.array(
        [float(f"{v:.{digits}g}") for v in prototypes.mean(axis=0) + 0.3 * rng.normal(size=d) * scale]
    )
    return model, x, scale


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    digits=st.integers(2, 15),
    kind=st.sampled_from([RelativeSimilarity, DecisionDistance]),
    theta=st.floats(0.05, 0.9),
    boxed=st.booleans(),
)
def test_what_is_shown_is_accepted_as_said_and_within_all_bounds(seed, digits, kind, theta, boxed):
    model, x, scale = random_case(seed, digits)
    option = kind(model)
    assume(not option.accepts([x], theta)[0])
    bounds = {k: (x[k] - 0.3 * scale[k], x[k] + 0.3 * scale[k]) for k in range(2)} if boxed else None
    result = explain(
        option, theta, [x], weights=1 / scale, bounds=bounds, increase_only=[3] if boxed else [],
        on_infeasible="skip",
    )  # fmt: skip
    assume(result.found[0])
    why = result[0]
    shown = shown_counterfactual(why)
    texts = before_and_after(why)
    np.testing.assert_array_equal([float(after) for _, _, after in texts], shown[why.changed])
    assert option.accepts([shown], theta)[0]
    assert option.predict([shown])[0] == why.label
    if boxed:
        for k, (low, high) in bounds.items():
            assert low <= shown[k] <= high
        assert shown[3] >= x[3]
    for k, before, after in texts:
        # Away from the sample, by less than 1 % of the change, and the two are told apart.
        assert abs(shown[k] - x[k]) >= abs(why.delta[k])
        assert abs(shown[k] - why.counterfactual[k]) <= 0.0101 * abs(why.delta[k])
        assert (float(after) > float(before)) == (why.delta[k] > 0)
        assert abs(float(before) - x[k]) <= 0.001 * abs(shown[k] - x[k])
    unchanged = [k for k in range(4) if k not in why.changed]
    np.testing.assert_array_equal(shown[unchanged], x[unchanged])


def test_rounding_to_the_nearest_would_not_do(why):
    """The reason for it all: the nearest short number often lies on the wrong side."""
    nearest = why.counterfactual.copy()
    wrong = 0
    for theta in np.linspace(0.3, 0.9, 60):
        other = explain(OPTION, theta, REJECTED)
        nearest = np.array(
            [rounded(v, 0) if k in other.changed else v for k, v in enumerate(other.counterfactual)]
        )
        wrong += not other.holds(nearest)
    assert wrong > 10


def test_all_digits_where_nothing_is_known_of_the_option():
    bare = Explanation(
        sample=np.array([1.0, 2.0]), counterfactual=np.array([1 / 3, 2.0]), distance=2 / 3, lower_bound=0.5,
        gap=0.25, certainty_before=0.1, certainty=0.5, label="a", theta=0.5, path="cone",
        feature_names=["p", "q"],
    )  # fmt: skip
    assert "p were 0.3333333333333333 instead of 1" in str(bare)
    assert str(bare).endswith("a change at most 25 % smaller might suffice")
    assert bare.costs.tolist() == pytest.approx([2 / 3, 0])
    assert json.loads(bare.to_json())["cause"] is None


def test_bounds_are_shown_as_they_are():
    why = explain(OPTION, 0.5, REJECTED, bounds={1: (None, 5.123456789)}, target="benign")
    assert "width & height were 5.123456789 instead of 4.1" in str(why)
    assert "width & height at its upper bound" in why.active


def test_certainties_that_differ_in_the_last_bit_only():
    theta = 0.35
    before = np.nextafter(theta, 0)
    assert shown_certainties(before, theta, theta) == (repr(float(before)), "0.35", "0.35")


def test_a_threshold_below_one_is_not_shown_as_one():
    assert shown_certainties(0.91, 0.998, 0.998) == ("0.91", "0.998", "0.998")
    assert shown_certainties(0.91, 1.0, 1.0) == ("0.91", "1", "1")
    assert shown_certainties(0.5, 2.3, 1.96) == ("0.5", "2.3", "2")


def test_numbers():
    assert [number(v) for v in (880.0, -0.5, 1e20, 2**53 + 2.0)] == [
        "880",
        "-0.5",
        "1e+20",
        "9007199254740994",
    ]
    assert rounded(1.25, 1) == 1.2
    assert rounded(1234.5, -2) == 1234.0
    assert percent_up(0.0) == "0 %"
    for share in (1e-9, 0.0199, 0.02, 0.031, 0.9951, 1.0):
        assert share * 100 * (1 - 1e-9) <= float(percent_up(share).split()[0]) <= max(112 * share, 0)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_shown_certainties_keep_their_order(before, after, theta):
    texts = shown_certainties(before, after, theta)
    for value, text in zip((before, after), texts[:2], strict=True):
        assert (float(text) < float(texts[2])) == (value < theta) or value >= theta
        assert not (value >= theta and float(text) < float(texts[2]))


# --- the sentence ---


def test_sentence(why):
    assert str(why) == (
        "rejected: relative similarity 0.099 below 0.35; it would be accepted as malignant if "
        f"width & height were {before_and_after(why)[0][2]} instead of 4.1; no smaller change suffices"
    )


def test_sentence_of_what_is_accepted_or_accepted_otherwise():
    accepted = explain(OPTION, 0.35, [1000, 3, 50])
    assert str(accepted) == "accepted as malignant: relative similarity 1 reaches 0.35"
    other = explain(OPTION, 0.35, [1000, 3, 50], target="benign")
    assert str(other).startswith("not what was asked for: relative similarity 1 reaches 0.35; it would be")


def test_sentence_with_many_changes():
    d = 9
    option = RelativeSimilarity(PrototypeModel(np.vstack([np.zeros(d), np.ones(d)]), ["a", "b"]))
    why = explain(option, 0.9, np.full(d, 0.45), bounds=dict.fromkeys(range(d), (0.1, 0.9)))
    assert len(why.changed) > 6
    text = str(why)
    assert text.count("instead of") == 5
    assert f"and {len(why.changed) - 5} other features changed by less; " in text


def test_a_gap_is_admitted(why):
    loose = dataclasses.replace(why, gap=0.0321)
    assert str(loose).endswith("a change at most 3.3 % smaller might suffice")
    assert proof(SimpleNamespace(gap=1e-7)) == "no smaller change suffices"


def test_summary(several):
    lines = str(several).splitlines()
    assert lines[0] == f"3 samples, {several.found.sum()} explained" + (
        "" if several.found.all() else f", {(~several.found).sum()} without an answer"
    )
    assert len(lines) == 4
    many = explain(OPTION, 0.35, [REJECTED] * 25)
    assert str(many).splitlines()[-1] == "and 5 more"


# --- the record ---


def test_json_is_complete_and_exact(why):
    record = json.loads(why.to_json())
    assert record["sentence"] == str(why)
    np.testing.assert_array_equal(record["counterfactual"], why.counterfactual)
    assert (record["distance"], record["lower_bound"], record["gap"]) == (
        why.distance,
        why.lower_bound,
        why.gap,
    )
    assert record["label"] == "malignant"
    assert [change["feature"] for change in record["changes"]] == [NAMES[k] for k in why.changed]
    assert "\n" in why.to_json(indent=1)


def test_json_of_several_with_reasons_index_and_causes(several):
    option = RelativeSimilarity(PrototypeModel([[0.0], [9.0]], [0, 1]))
    usual = Familiarity.of(option, np.array([[0.0], [8.0]]), np.array([0, 1]))
    index = pd.Index(np.array([11, 12]))
    result = explain(option, 0.5, [[4.0], [5.0]], fixed=[0], on_infeasible="skip")
    records = json.loads(dataclasses.replace(result, index=index).to_json())
    assert [record["index"] for record in records] == [11, 12]
    assert all("no input reaches" in record["reason"] for record in records)
    result = dataclasses.replace(explain(option, 0.5, [[4.0], [5.0]]), _familiarity=usual)
    cause = json.loads(result.to_json())[0]["cause"]
    assert (cause["kind"], cause["label"]) == ("unfamiliar", 0)
    assert [record["index"] for record in json.loads(several.to_json())] == [0, 1, 2]


def test_json_of_labels_that_json_does_not_know(why):
    odd = dataclasses.replace(why, label=pd.Timestamp("2022-02-15"))
    assert json.loads(odd.to_json())["label"] == "2022-02-15 00:00:00"


# --- the page ---


class Tags(HTMLParser):
    """Collects text and checks that every tag that opens is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in ("rect", "path", "circle")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parsed(page):
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags.text


def test_html_says_the_sentence_and_escapes_names(why):
    page = why._repr_html_()
    text = parsed(page)
    assert str(why)[1:] in text
    assert "<area>" not in page
    assert "<em>width &amp; height</em>" in page
    assert 'aria-label="relative similarity 0.099 before, threshold 0.35, 0.35 after"' in page


def test_html_of_accepted_several_and_with_a_cause(why, several):
    accepted = explain(OPTION, 0.35, [1000, 3, 50])
    assert "<table" not in accepted._repr_html_()
    cause = Familiarity.of(OPTION, np.array([REJECTED]), np.array(["benign"])).causes(
        OPTION, 0.35, np.array([REJECTED])
    )
    assert "ambiguous between" in parsed(dataclasses.replace(why, cause=cause[0])._repr_html_())
    assert "3 samples" in parsed(several._repr_html_())
    assert "the first 20 of them" in parsed(explain(OPTION, 0.35, [REJECTED] * 21)._repr_html_())
    indexed = dataclasses.replace(several, index=pd.Index(["p", "q", "r"]))
    assert "q" in parsed(indexed._repr_html_())
    assert str(indexed).splitlines()[1].startswith("p: ")
    assert list(indexed.to_frame().index) == ["p", "q", "r"]


def test_page_reads_in_dark_mode_and_on_paper(why, several):
    """Every text has dark ink on an opaque light ground, whatever page it stands in."""
    contrast = """() => [...document.querySelectorAll('div *')]
        .filter(e => e.textContent.trim() && e.children.length == 0)
        .map(e => { const ink = e.closest('svg') ? getComputedStyle(e).fill : getComputedStyle(e).color;
          let g = e; while (getComputedStyle(g).backgroundColor == 'rgba(0, 0, 0, 0)') g = g.parentElement;
          return [ink, getComputedStyle(g).backgroundColor] })"""
    with chromium() as browser:
        page = browser.new_page(color_scheme="dark")
        for scheme in ("screen", "print"):
            page.emulate_media(media=scheme)
            page.set_content(
                "<!doctype html><style>body { background: #111; color: #ddd }</style>"
                + why._repr_html_() + several._repr_html_()
            )  # fmt: skip
            pairs = page.evaluate(contrast)
            assert len(pairs) > 10
            assert {tuple(pair) for pair in pairs} == {("rgb(26, 26, 26)", "rgb(255, 255, 255)")}
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


# --- the chart ---


def test_chart_shows_values_units_threshold_and_is_opaque(why):
    figure = why.plot(units={"width & height": "mm", 0: "mm²"})
    gauge, changes = figure.axes
    labels = [text.get_text() for text in gauge.get_legend().get_texts()]
    assert labels == ["threshold 0.35", "before 0.099", "after 0.35"]
    k, before, after = before_and_after(why)[0]
    assert [text.get_text() for text in changes.texts] == [f"{before} → {after} mm"]
    assert [tick.get_text() for tick in changes.get_yticklabels()] == [NAMES[k]]
    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert "no smaller change suffices" in changes.get_title()
    assert not plt.get_fignums()  # a notebook would show it twice


def test_chart_of_shares_directions_and_the_most():
    d = 6
    prototypes = np.vstack([np.zeros(d), [1, 1, -1, 1, -1, 1]])
    option = DecisionDistance(PrototypeModel(prototypes, ["a", "b"]))
    why = explain(
        option,
        0.35,
        np.array([1, 1, -1, 1, -1, 1]) * 0.4,
        bounds=dict.fromkeys(range(d), (-0.9, 0.9)),
        target="b",
    )
    assert len(why.changed) > 3
    figure = why.plot(most=3)
    bars = figure.axes[1].patches
    assert len(bars) == 3
    order = sorted(why.changed, key=lambda k: -why.costs[k])[:3]
    expected = [np.sign(why.delta[k]) * why.costs[k] / why.distance for k in order]
    assert sorted(bar.get_width() for bar in bars) == pytest.approx(sorted(expected))
    assert "smaller changes not drawn" in figure.axes[1].get_xlabel()
    assert gauge_end(why) == pytest.approx(1.1 * max(why.certainty, why.theta))


def test_gauge_where_everything_is_zero():
    on_the_boundary = explain(DecisionDistance(PrototypeModel([[0], [2]], ["a", "b"])), -1.0, [1.0])
    assert (on_the_boundary.certainty, gauge_end(on_the_boundary)) == (0, 1)
    assert on_the_boundary.plot().axes[0].get_xlim() == (-1, 1)
    assert "reaches -1" in parsed(on_the_boundary._repr_html_())


def test_chart_of_what_is_accepted():
    figure = explain(OPTION, 0.35, [1000, 3, 50]).plot()
    assert "nothing has to change" in figure.axes[1].texts[0].get_text()
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["threshold 0.35", "before 1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"units": ["mm"]}, "units must map features to text"),
        ({"units": {"size": "mm"}}, "units must name features"),
        ({"units": {7: "mm"}}, "units must name features"),
        ({"units": {0: 1}}, "units must map features to text; found 1"),
        ({"most": 0}, "most must be at least 1"),
        ({"most": 2.5}, "most must be an integer"),
    ],
)
def test_chart_checks_its_arguments(why, arguments, words):
    with pytest.raises(ValueError, match=words):
        why.plot(**arguments)


def test_frame_has_what_each_feature_costs(why):
    frame = why.to_frame()
    assert list(frame.columns) == ["feature", "before", "after", "change", "cost"]
    assert frame["cost"].sum() == pytest.approx(why.distance)
