import numpy as np
import pytest
from oracles import plain_program
from random_models import random_case

from lvqrej.cells import Ball, Cell, Cells, HalfSpace
from lvqrej.certainty import DecisionDistance, RelativeSimilarity
from lvqrej.engine.measure import cell_bounds, scaled
from lvqrej.prototypes import PrototypeModel


def membership(cells, X):
    return (
        np.any([cell.contains(X, 1e-9) for cell in cells], axis=0) if len(cells) else np.zeros(len(X), bool)
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("theta", [0.05, 0.4, 0.9, 1.0])
@pytest.mark.parametrize("twins", [False, True])
def test_union_of_cells_is_what_relative_similarity_accepts(seed, theta, twins):
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(6, 3))
    if twins:
        P[3] = P[0]  # classes 0 and 1
    L = rng.normal(size=(1 + seed % 3, 3))
    option = RelativeSimilarity(PrototypeModel(P, [0, 1, 2, 1, 2, 0], L))
    X = np.vstack([rng.normal(size=(4000, 3)) * 2, P, P + 0.01 * rng.normal(size=P.shape)])
    r = option.certainty(X)
    clear = np.abs(r - theta) > 1e-9
    np.testing.assert_array_equal(membership(option.cells(theta), X)[clear], (r >= theta)[clear])


@pytest.mark.parametrize("norm", ["metric", "euclidean"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("theta", [0.02, 0.3, 2.0])
def test_union_of_pair_cells_is_what_decision_distance_accepts(seed, theta, norm):
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(7, 3))
    if seed % 2:
        P[5], P[6] = P[0], P[1]  # a twin of the same class, a twin of another
    L = rng.normal(size=(1 + seed % 3, 3))
    option = DecisionDistance(PrototypeModel(P, [0, 1, 2, 1, 2, 0, 2], L), norm)
    X = rng.normal(size=(4000, 3)) * 3
    r = option.certainty(X)
    clear = np.abs(r - theta) > 1e-9
    np.testing.assert_array_equal(membership(option.cells(theta), X)[clear], (r >= theta)[clear])


def test_apollonius_ball_has_the_centre_and_radius_of_the_theory():
    rng = np.random.default_rng(0)
    p, other, L, theta = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(3, 4)), 0.3
    ball = RelativeSimilarity(PrototypeModel([p, other], [0, 1], L)).cells(theta)[0].balls[0]
    np.testing.assert_allclose(ball.centre, p + (1 - theta) / (2 * theta) * (p - other))
    expected = (1 - theta**2) / (4 * theta**2) * np.sum((L @ (p - other)) ** 2)
    assert ball.radius**2 == pytest.approx(expected)


def test_thresholds_at_and_beyond_the_ends():
    option = RelativeSimilarity(PrototypeModel([[0.0, 0], [2, 0]], ["a", "b"]))
    assert len(option.cells(1.5)) == 0
    assert option.cells(1.0)[0].balls[0].radius == 0
    at_zero = option.cells(-3.0)
    assert at_zero[0].half_spaces[0].excess(np.array([[1.0, 5.0]])) == pytest.approx(0)
    assert len(option.cells(0.0)) == 2


def test_at_theta_zero_the_first_of_two_twins_has_the_region():
    model = PrototypeModel([[0.0], [0.0], [4.0]], ["a", "b", "c"])
    for option in (RelativeSimilarity(model), DecisionDistance(model)):
        labels = {option.classes[cell.label] for cell in option.cells(0.0)}
        assert labels == {"a", "c"}
        assert set(option.predict(np.linspace(-3, 7, 50)[:, None])) == {"a", "c"}


def test_packing_and_reading_back():
    L = np.array([[1.0, 2.0]])
    cells = Cells.of(
        [
            Cell((Ball([0, 0], 1, L), Ball([1, 1], 2, L)), (HalfSpace([1, -1], 0.5),), label=2, name="first"),
            Cell(half_spaces=(HalfSpace([0, 1], 3),), label=1),
        ]
    )
    assert len(cells) == 2
    assert len(cells.metrics) == 1
    assert cells[0].name == "first"
    assert cells[-1].label == 1
    assert cells[0:1][0].balls[1].radius == pytest.approx(2)
    np.testing.assert_allclose(cells[0].half_spaces[0].normal, [1, -1])
    assert [cell.label for cell in cells.take(np.array([False, True]))] == [1]
    assert len(cells.with_label(2)) == 1
    with pytest.raises(IndexError, match="cell 2 of 2"):
        cells[2]


def test_narrowing_cuts_every_cell():
    option = DecisionDistance(PrototypeModel([[0.0, 0], [2, 0], [0, 3]], [0, 1, 0]))
    plain = option.cells(0.2)
    cut = plain.narrowed([HalfSpace([0, 1], -1), Ball([0, 0], 5)])
    assert len(cut) == len(plain)
    X = np.random.default_rng(0).normal(size=(500, 2)) * 3
    expected = membership(plain, X) & (X[:, 1] >= 1) & (np.linalg.norm(X, axis=1) <= 5)
    np.testing.assert_array_equal(membership(cut, X), expected)
    assert cut.describe(len(cut.near) - 1) in ("a half-space", "a ball", "near an added centre")


def test_constraints_are_named_by_their_prototypes():
    option = RelativeSimilarity(PrototypeModel([[0.0], [2.0]], ["a", "b"]))
    assert option.cells(0.5).describe(0) == "nearer to prototype 0 (a) than to prototype 1 (b) by enough"
    assert option.cells(0.0).describe(0) == "nearer to prototype 0 (a) than to prototype 1 (b)"
    boundary = option.cells(0.6).active(0, np.array([2 / 3]))
    assert boundary == ["nearer to prototype 0 (a) than to prototype 1 (b) by enough"]
    assert option.cells(0.6).active(0, np.array([0.1])) == []
    assert Cells.of([Cell((Ball([0], 1),))]).active(0, np.array([1.0])) == ["a ball"]
    assert Cells.of([Cell(half_spaces=(HalfSpace([1], 1),))]).active(0, np.array([-1.0])) == ["a half-space"]


@pytest.mark.parametrize("bad", [{"radius": -1}, {"radius": "1"}, {"centre": [np.nan, 0]}, {"L": np.eye(3)}])
def test_balls_check_their_arguments(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Ball(**{"centre": [0, 0], "radius": 1, **bad})


@pytest.mark.parametrize("seed", range(12))
def test_closed_form_bounds_never_exceed_the_optimum(seed):
    case = random_case(seed, max_features=8, n=1)
    cells, x, d = case.option.cells(case.theta), case.X[0], case.X.shape[1]
    bounds = np.empty(len(cells))
    free = np.full(d, np.inf)
    cell_bounds(cells.packed, scaled(cells.packed, case.weights), x, -free, free, bounds)
    for i in np.argsort(bounds)[:3]:
        optimum = plain_program(cells[int(i)], x, case.weights)
        assert bounds[i] <= optimum * (1 + 1e-5) + 1e-6 * float(case.weights @ np.abs(x))
