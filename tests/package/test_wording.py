"""Explanations for people: numbers that stay true when rounded, a sentence, a page, a record."""

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity, explain
from lvqrej.cause import Familiarity
from lvqrej.columns import Columns
from lvqrej.wording import (
    before_and_after,
    class_row,
    number,
    percent_up,
    proof,
    rounded,
    short,
    shown_certainties,
    shown_counterfactual,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
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


def plain(text):
    """Return the number that a text stands for."""
    return float(text.replace("−", "-"))


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
    np.testing.assert_array_equal([plain(after) for _, _, after in sorted(texts)], shown[why.changed])
    assert [why.costs[k] for k, _, _ in texts] == sorted(why.costs[why.changed], reverse=True)
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
        assert (plain(after) > plain(before)) == (why.delta[k] > 0)
        assert abs(plain(before) - x[k]) <= 0.001 * abs(shown[k] - x[k])
    unchanged = [k for k in range(4) if k not in why.changed]
    np.testing.assert_array_equal(shown[unchanged], x[unchanged])


def test_rounding_to_the_nearest_would_not_do():
    """The reason for it all: the nearest short number often lies on the wrong side."""
    wrong = 0
    for theta in np.linspace(0.3, 0.9, 60):
        other = explain(OPTION, theta, REJECTED)
        nearest = [rounded(v, 0) if k in other.changed else v for k, v in enumerate(other.counterfactual)]
        wrong += not other.holds(np.array(nearest))
    assert wrong > 10


def test_all_digits_where_no_shorter_number_holds():
    why = SimpleNamespace(
        sample=np.array([1.0, 2.0]), counterfactual=np.array([1 / 3, 2.0]), changed=[0],
        columns=Columns.numeric(2), before=[1.0, 2.0], after=[1 / 3, 2.0],
        costs=np.array([2 / 3, 0]), box=(np.full(2, -np.inf), np.full(2, np.inf)),
    )  # fmt: skip
    why.holds = lambda point: (point == why.counterfactual).all()
    assert before_and_after(why) == [(0, "1", "0.3333333333333333")]


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
        "−0.5",
        "1e+20",
        "9007199254740994",
    ]
    assert rounded(1.25, 1) == 1.2
    assert rounded(1234.5, -2) == 1234.0
    assert percent_up(0.0) == "0 %"
    for share in (0.0199, 0.02, 0.031, 0.9951, 1.0):
        assert share * 100 * (1 - 1e-9) <= float(percent_up(share).split()[0]) <= max(112 * share, 0)
    assert [percent_up(share) for share in (1.2e-6, 1e-4, 1.01e-4)] == ["0.01 %", "0.01 %", "0.02 %"]
    assert (short(123.4, 2), short(-0.04567), short(0)) == ("120", "−0.0457", "0")


def test_a_sentence_has_true_minus_signs_and_no_exponents():
    model = PrototypeModel([[-5e5, 0], [5e5, 0]], ["a", "b"], feature_names=["balance", "years"])
    why = explain(DecisionDistance(model), 0.25, [-2e5, 0])
    assert shown_certainties(2e5, 2.6e5, 2.5e5) == ("200000", "260000", "250000")
    assert re.search("balance were −25000[01] instead of −200000", str(why))
    assert not re.search(r"\de[+-]?\d|(^|\s)-\d", str(why))


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_shown_certainties_keep_their_order(before, after, theta):
    texts = shown_certainties(before, after, theta)
    for value, text in zip((before, after), texts[:2], strict=True):
        assert (plain(text) < plain(texts[2])) == (value < theta) or value >= theta
        assert not (value >= theta and plain(text) < plain(texts[2]))


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
    assert text.count("instead of") == 3
    assert f"and {len(why.changed) - 3} other features changed by less; " in text


def test_a_gap_is_admitted():
    why = explain(OPTION, 0.35, REJECTED)
    loose = replace(why.batch, lower_bounds=why.batch.lower_bounds * (1 - 0.0321))[0]
    assert str(loose).endswith("a change at most 3.3 % smaller might suffice")


@pytest.mark.parametrize("gap", [2e-6, 1e-4, 1e-3, 0.01])
def test_a_small_gap_is_a_gap(gap):
    batch = explain(OPTION, 0.35, [REJECTED])
    loose = replace(batch, lower_bounds=batch.distances * (1 - gap))[0]
    assert "no smaller change" not in str(loose)
    assert str(loose).endswith(f"at most {percent_up(loose.gap)} smaller might suffice")
    assert float(percent_up(loose.gap).removesuffix(" %")) >= 100 * gap * (1 - 1e-6)


def test_what_costs_most_is_named_first():
    """Neither the order of the features nor the size of a change decides, but weight times change."""
    names = ["wide", "small", "dear"]
    model = PrototypeModel([[0, 0, 0], [10, 100, 1]], ["a", "b"], np.diag([0.1, 0.01, 1]), names)
    bounds = {"wide": (1, 9), "small": (45, 55), "dear": (0.2, 0.8)}
    weights = {"wide": 0.05, "small": 0.001, "dear": 1.0}
    why = explain(RelativeSimilarity(model), 0.6, [5, 50, 0.5], weights=weights, bounds=bounds)
    order = np.argsort(-why.costs).tolist()
    assert order == [0, 2, 1]
    assert np.argsort(-np.abs(why.delta)).tolist() == [1, 0, 2]
    assert [k for k, _, _ in before_and_after(why)] == order
    places = [str(why).index(f"{names[k]} were") for k in order]
    assert places == sorted(places)
    costs = {change["feature"]: change["cost"] for change in json.loads(why.to_json())["changes"]}
    for k, name in enumerate(names):
        assert costs[name] == pytest.approx(weights[name] * abs(why.delta[k]))


def test_proof_says_among_what_and_how_few_features():
    case = {"gap": 1e-7, "scope": "", "fewest": None, "changed": [0, 2], "firm": True}
    case |= {"certainty": 0.7, "worst_certainty": None}
    for change, text in (
        ({}, "no smaller change suffices"),
        ({"scope": " among the training data"}, "no smaller change among the training data suffices"),
        (
            {"gap": 0.5, "scope": " of 2 features"},
            "a change of 2 features at most 50 % smaller might suffice",
        ),
        ({"fewest": 2}, "no smaller change suffices, and none of fewer features at all"),
        ({"fewest": 1}, "no smaller change suffices"),
        ({"fewest": 1, "changed": [0]}, "no smaller change suffices"),
        ({"firm": False, "worst_certainty": 0.65}, "no smaller change suffices"),
        (
            {"firm": False},
            "no smaller change suffices, and it lies on the boundary itself, where noise may undo it",
        ),
    ):
        assert proof(SimpleNamespace(**case | change)) == text


def test_summary(several):
    lines = str(several).splitlines()
    assert lines[0] == f"3 samples, {several.found.sum()} explained" + (
        "" if several.found.all() else f", {(~several.found).sum()} without an answer"
    )
    assert len(lines) == 4
    assert [line.split(": ")[0] for line in lines[1:]] == ["0", "1", "2"]
    assert all((": none: " in line) != found for line, found in zip(lines[1:], several.found, strict=True))
    many = explain(OPTION, 0.35, [REJECTED] * 25)
    assert str(many).splitlines()[-1] == "and 5 more"


def test_row_of_a_table(several):
    row = class_row(several, 0)
    assert row["n_changed"] == len(several[0].changed)
    assert row["changes"].count("→") == row["n_changed"]
    lost = np.flatnonzero(~several.found)[0]
    assert class_row(several, lost)["changes"] == several.reasons[lost]
    assert class_row(several, lost)["n_changed"] == 0


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
    records = json.loads(replace(result, index=index).to_json())
    assert [record["index"] for record in records] == [11, 12]
    assert all("no input reaches" in record["reason"] for record in records)
    result = replace(explain(option, 0.5, [[4.0], [5.0]]), familiarity=usual)
    cause = json.loads(result.to_json())[0]["cause"]
    assert (cause["kind"], cause["label"]) == ("unfamiliar", 0)
    assert [record["index"] for record in json.loads(several.to_json())] == [0, 1, 2]


def test_json_of_labels_that_json_does_not_know(why):
    odd = replace(why.batch, labels=np.array([pd.Timestamp("2022-02-15")], dtype=object))
    assert json.loads(odd.to_json())[0]["label"] == "2022-02-15 00:00:00"
    assert json.loads(why.to_json())["cause"] is None


# --- the page ---


class Tags(HTMLParser):
    """Collects text and checks that every tag that opens is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        raise AssertionError(tag)

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
    assert "width &amp; height" in page


def test_html_of_accepted_several_and_with_a_cause(why, several):
    accepted = explain(OPTION, 0.35, [1000, 3, 50])
    assert "<table" not in accepted._repr_html_()
    usual = Familiarity.of(OPTION, np.array([REJECTED]), np.array(["benign"]))
    assert "ambiguous between" in parsed(replace(why.batch, familiarity=usual)[0]._repr_html_())
    assert "3 samples" in parsed(several._repr_html_())
    assert "the first 20 of them" in parsed(explain(OPTION, 0.35, [REJECTED] * 21)._repr_html_())
    indexed = replace(several, index=pd.Index(["p", "q", "r"]))
    assert "q" in parsed(indexed._repr_html_())
    assert str(indexed).splitlines()[1].startswith("p: ")
    assert list(indexed.to_frame().index) == ["p", "q", "r"]


def test_html_escapes_the_name_of_a_certainty():
    class Own(RelativeSimilarity):
        name = "r < 1 & more"

    page = explain(Own(MODEL), 0.35, REJECTED)._repr_html_()
    assert "r < 1" not in page
    assert "r < 1 & more 0.099 below" in parsed(page)


def test_page_reads_in_dark_mode_and_on_paper(why, several):
    """Every text has dark ink on an opaque light ground, whatever page it stands in."""
    contrast = """() => [...document.querySelectorAll('div *')]
        .filter(e => e.textContent.trim() && e.children.length == 0)
        .map(e => { const ink = getComputedStyle(e).color;
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
