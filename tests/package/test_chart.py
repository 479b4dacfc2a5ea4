"""The change chart: values, shares and directions, on an opaque ground, without a mark in pyplot."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity, explain
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
    gauge, changes = figure.axes
    labels = [text.get_text() for text in gauge.get_legend().get_texts()]
    assert labels == ["threshold 0.35", "before 0.099", "after 0.35"]
    k, before, after = before_and_after(why)[0]
    assert [text.get_text() for text in changes.texts] == [f"{before} → {after} mm"]
    assert [tick.get_text() for tick in changes.get_yticklabels()] == [NAMES[k]]
    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert "no smaller change suffices" in changes.get_title()
    assert not plt.get_fignums()  # a notebook would show it twice


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
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["threshold 0.35", "before 1"]


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
