"""The change chart: values, shares and directions, on an opaque ground, without a mark in pyplot."""

from io import BytesIO
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity, explain
from lvqrej.chart import gauge_ends
from lvqrej.wording import before_and_after

NAMES = ["worst area", "width & height", "age"]
MODEL = PrototypeModel(
    [[1000.0, 3, 50], [400, 5, 40]], ["malignant", "benign"], np.diag([0.01, 1, 0.1]), NAMES
)
OPTION = RelativeSimilarity(MODEL)


@pytest.fixture(scope="module")
def why():
    return explain(OPTION, 0.35, [720.25, 4.1, 45])


def test_chart_shows_values_units_threshold_and_is_opaque(why):
    figure = why.plot(units={"width & height": "mm", 0: "mm²"})
    _, changes = figure.axes
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["threshold 0.35", "before 0.099", "after 0.35"]
    k, before, after = before_and_after(why)[0]
    texts = [text.get_text() for text in changes.texts if text.get_text()]
    assert texts == [f"{before} mm", f"{after} mm"]
    assert changes.get_xlabel() == f"{NAMES[k]} [mm]"
    assert [line.get_xdata()[0] for line in changes.lines] == [why.sample[k], why.counterfactual[k]]
    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert "no smaller change suffices" in changes.get_title()
    assert not plt.get_fignums()  # a notebook would show it twice


@pytest.mark.parametrize("bounds", [None, {1: (3.9, 4.3)}, {1: (3.9, 4.3), 2: (44, 46)}])
def test_nothing_is_outside_of_a_saved_figure(bounds):
    """Also where names and labels are long: all that is drawn lies within the picture."""
    names = ["the largest area that was ever measured", "width_and_height_of_the_whole_thing", "age in years"]
    labels = ["malignant, to be treated at once", "benign, to be seen again in a year's time"]
    model = PrototypeModel(MODEL.prototypes, labels, MODEL.L, names)
    figure = explain(RelativeSimilarity(model), 0.35, [720.25, 4.1, 45], bounds=bounds).plot()
    figure.savefig(BytesIO())
    box, page = figure.get_tightbbox(), figure.get_size_inches()
    assert box.xmin >= -0.02
    assert box.ymin >= -0.02
    assert box.xmax <= page[0] + 0.02
    assert box.ymax <= page[1] + 0.02
    names = [tick.get_text() for tick in figure.axes[1].get_yticklabels()]
    assert all(len(line) <= 24 for name in names for line in name.split("\n"))


def test_chart_of_many_counts_ways(why):
    rng = np.random.default_rng(0)
    result = explain(OPTION, 0.5, rng.uniform([400, 3, 40], [1000, 5, 50], size=(30, 3)))
    figure = result.plot()
    (ax,) = figure.axes
    delta = result.counterfactuals - result.samples
    up = sorted((bar.get_width() for bar in ax.patches if bar.get_width() > 0), reverse=True)
    down = sorted((-bar.get_width() for bar in ax.patches if bar.get_width() < 0), reverse=True)
    assert up == sorted((count for count in (delta > 0).sum(axis=0) if count), reverse=True)
    assert down == sorted((count for count in (delta < 0).sum(axis=0) if count), reverse=True)
    assert f"in {(result.distances > 0).sum()} of 30 samples" in ax.get_title()
    assert not plt.get_fignums()
    assert explain(OPTION, 0.5, np.empty((0, 3))).plot().axes[0].patches[:] == []


def test_chart_leaves_the_style_of_others_alone(why):
    before = dict(mpl.rcParams)
    why.plot()
    assert dict(mpl.rcParams) == before


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
    assert figure.axes[0].get_xlim() == pytest.approx((0, 1.1 * max(why.certainty, why.theta)))


def test_gauge_where_everything_is_zero():
    on_the_boundary = explain(DecisionDistance(PrototypeModel([[0], [2]], ["a", "b"])), -1.0, [1.0])
    assert on_the_boundary.plot().axes[0].get_xlim() == (-1, 1)


def test_chart_of_what_is_accepted():
    figure = explain(OPTION, 0.35, [1000, 3, 50]).plot()
    assert "nothing has to change" in figure.axes[1].texts[0].get_text()
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["threshold 0.35", "before 1"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"units": ["mm"]}, "units must map features to text"),
        ({"units": {"size": "mm"}}, "units must hold names of features"),
        ({"units": {7: "mm"}}, "units must hold names of features"),
        ({"units": {0: 1}}, r"units must map features to text; found \{0: 1\}"),
        ({"most": 0}, "most must be at least 1"),
        ({"most": 2.5}, "most must be an integer"),
    ],
)
def test_chart_checks_its_arguments(why, arguments, words):
    with pytest.raises(ValueError, match=words):
        why.plot(**arguments)


@pytest.mark.parametrize("bounds", [None, {1: (3.9, 4.3)}])
def test_cross_and_star_are_those_of_the_book(bounds):
    """A white cross with a dark edge is the rejected sample, a golden star its counterfactual."""
    answer = explain(OPTION, 0.35, [720.25, 4.1, 45], bounds=bounds)
    for figure in (answer.plot(), answer.plot(kind="both")):
        for ax in figure.axes:
            marks = {(m.get_marker(), m.get_markerfacecolor(), m.get_markeredgecolor()) for m in ax.lines}
            marks = {mark for mark in marks if mark[0] not in ("None", "<", ">", "")}
            assert marks <= {("X", "white", "black"), ("*", "gold", "black")}
        assert {m.get_marker() for m in figure.axes[0].lines} >= {"X", "*"}


def test_a_range_that_goes_on_for_ever_leaves_the_others_visible():
    """Without bounds a feature may move very far with nothing gained; the change is what is looked at."""
    answer = explain(OPTION, 0.35, [720.25, 4.1, 45], bounds={1: (3.9, 4.3)})
    table = answer.ranges()
    assert table["high"].max() > 1e9
    ax = answer.plot(kind="both").axes[1]
    assert ax.get_xlim()[1] < 10 * answer.distance
    assert not any(len(text.get_text()) > 30 for text in ax.texts)
    assert any("…" in text.get_text() for text in ax.texts)


def test_gauge_ends_at_the_largest_certainty_or_beyond_what_is_shown():
    on_the_boundary = explain(DecisionDistance(PrototypeModel([[0], [2]], ["a", "b"])), -1.0, [1.0])
    assert (on_the_boundary.certainty, gauge_ends(on_the_boundary)) == (0, (-1, 1))
    case = {"certainty_before": 0.1, "certainty": 0.5, "theta": 0.5, "largest": 1.0}
    for change, end in (
        ({}, 1), ({"largest": np.inf}, 0.55), ({"largest": 4.0}, 4), ({"theta": 2.0}, 2.2),
        ({"largest": np.inf, "theta": 3.0}, 3.3),
    ):  # fmt: skip
        assert gauge_ends(SimpleNamespace(**case | change)) == pytest.approx((0, end))


def test_gauge_shows_what_lies_around_certainties_that_are_close():
    case = SimpleNamespace(certainty_before=0.97, certainty=0.99, theta=0.98, largest=1.0)
    assert gauge_ends(case) == pytest.approx((0.95, 1.0))
