"""What is drawn is what the certainty says."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from companion import drawing
from lvqrej import PrototypeModel, RelativeSimilarity

MODEL = PrototypeModel([[0, 0], [2, 0]], ["a", "b"])
LIMITS = ((-1.0, 3.0), (-2.0, 2.0))


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_map_returns_the_certainty_of_every_grid_point(ax):
    option = RelativeSimilarity(MODEL)
    data = drawing.certainty_map(ax, option, LIMITS, theta=0.5, resolution=9)
    assert len(data) == 81
    np.testing.assert_array_equal(data["certainty"], option.certainty(data[["x", "y"]].to_numpy()))
    assert data["x"].min() == -1
    assert data["y"].max() == 2
    assert ax.get_xlim() == LIMITS[0]


@pytest.mark.parametrize(("theta", "drawn"), [(None, 0), (0.5, 2), (0.0, 0), (2.0, 0)])
def test_the_border_is_drawn_only_where_there_is_one(ax, theta, drawn):
    drawing.certainty_map(ax, RelativeSimilarity(MODEL), LIMITS, theta=theta, resolution=9)
    assert len(ax.collections) == 1 + drawn


def test_classes_differ_in_colour_and_marker(ax):
    looks = [drawing.class_look(index) for index in range(7)]
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 7
    drawing.samples(ax, [[0, 0], [1, 1], [2, 2]], ["a", "b", "b"], ["a", "b"])
    assert [len(points.get_offsets()) for points in ax.collections] == [1, 2]
    assert list(ax.get_legend_handles_labels()[1]) == ["a", "b"]


def test_prototypes_are_drawn_where_they_are(ax):
    drawing.prototypes(ax, MODEL)
    drawn = np.vstack([points.get_offsets() for points in ax.collections])
    np.testing.assert_array_equal(drawn, MODEL.prototypes)


def test_prototypes_in_the_picture_have_their_numbers(ax):
    ax.set(xlim=(1, 3), ylim=(-1, 1))
    drawing.numbered(ax, MODEL)
    assert [text.get_text() for text in ax.texts] == ["2"]
    ax.set(xlim=(-1, 3))
    drawing.numbered(ax, MODEL, numbers=[5, 6], classes=[1, 0])
    assert [text.get_text() for text in ax.texts] == ["2", "5", "6"]


def test_a_change_is_as_long_as_its_l1_norm(ax):
    drawing.change(ax, [0, 0], [3, -4])
    (line,) = ax.lines
    assert np.abs(np.diff(line.get_xydata(), axis=0)).sum() == 7
