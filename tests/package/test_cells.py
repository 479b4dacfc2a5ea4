"""Cells: their union is what a certainty accepts, and cutting, choosing and tightening do what they say."""

import numpy as np
import pytest
from oracles import plain_certainty

from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity
from lvqrej.cells import Ball, Cell, Cells, HalfSpace

LABELS = np.array([0, 1, 2, 1, 2, 0, 2])
#: Prototypes that lie where another one does: of its own class, and of another.
TWINS = {"none": (), "of both kinds": ((5, 0), (3, 1))}


def containing(cells, X, tolerance=1e-9):
    """Return which cells hold which samples, of shape (cells, n), by evaluating the readable cells."""
    return np.array([cell.contains(X, tolerance) for cell in cells], dtype=bool).reshape(-1, len(X))


@pytest.mark.parametrize("twins", TWINS)
@pytest.mark.parametrize("kind", ["relative similarity", "metric", "euclidean"])
@pytest.mark.parametrize("theta", [-1.0, 0.0, 0.03, 0.4, 0.9, 1.0, 1.7])
def test_the_union_of_cells_is_what_is_accepted(kind, theta, twins):
    for rank in (1, 2, 3):
        rng = np.random.default_rng(rank)
        P, L = rng.normal(size=(7, 3)), rng.normal(size=(rank, 3))
        for copy, of in TWINS[twins]:
            P[copy] = P[of]
        model = PrototypeModel(P, LABELS, L)
        if kind == "relative similarity":
            option, separation = RelativeSimilarity(model), None
        else:
            option, separation = DecisionDistance(model, kind), L if kind == "metric" else np.eye(3)
        X = np.vstack(
            [rng.normal(size=(800, 3)) * s for s in (0.5, 2, 10)] + [P + 0.01 * rng.normal(size=P.shape)]
        )
        certainty, label = plain_certainty(P, LABELS, L, X, separation)
        held = containing(option.cells(theta), X)
        clear = (np.abs(certainty - theta) > 1e-7) & ((certainty > 1e-7) | (theta < 0))
        np.testing.assert_array_equal(held.any(axis=0)[clear], (certainty >= theta)[clear])
        # Whatever cell holds a sample, it has the label of the sample.
        cell, sample = np.nonzero(held & (clear & (certainty > 1e-7)))
        labels = np.array([cell.label for cell in option.cells(theta)], dtype=int)
        np.testing.assert_array_equal(labels[cell], label[sample])


def test_a_ball_of_relative_similarity_is_that_of_apollonius():
    rng = np.random.default_rng(0)
    p, other, L, theta = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(3, 4)), 0.3
    (ball,) = RelativeSimilarity(PrototypeModel([p, other], [0, 1], L)).cells(theta)[0].balls
    np.testing.assert_allclose(ball.centre, p + (1 - theta) / (2 * theta) * (p - other))
    assert ball.radius**2 == pytest.approx((1 - theta**2) / (4 * theta**2) * np.sum((L @ (p - other)) ** 2))


def test_at_theta_one_the_prototypes_are_left_and_what_the_metric_cannot_tell_from_them():
    model = PrototypeModel([[0.0, 0], [2, 0], [2, 0], [0, 5]], ["a", "b", "a", "b"], [[1.0, 0.0]])
    cells = RelativeSimilarity(model).cells(1.0)
    assert len(cells) == 0  # 0 and 3 are twins, 1 and 2 too
    model = PrototypeModel([[0.0, 0], [2, 0]], ["a", "b"], [[1.0, 0.0]])
    X = np.array([[0, 7.0], [2, -3.0], [1e-3, 0], [1.999, 0]])
    np.testing.assert_array_equal(
        containing(RelativeSimilarity(model).cells(1.0), X), [[1, 0, 0, 0], [0, 1, 0, 0]]
    )


@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
def test_at_theta_zero_the_first_of_two_twins_has_the_region(make):
    option = make(PrototypeModel([[0.0], [0.0], [4.0]], ["a", "b", "c"]))
    assert {option.classes[cell.label] for cell in option.cells(0.0)} == {"a", "c"}


def random_cells(rng, d=3, count=4):
    shared = rng.normal(size=(2, d))
    return [
        Cell(
            tuple(
                Ball(
                    rng.normal(size=d),
                    rng.uniform(1, 4),
                    shared if rng.random() < 0.5 else rng.normal(size=(d, d)),
                )
                for _ in range(rng.integers(0, 3))
            ),
            tuple(HalfSpace(rng.normal(size=d), rng.normal()) for _ in range(rng.integers(0, 3))),
            label=int(rng.integers(2)),
            name=f"cell number {i}",
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_packing_choosing_and_cutting_agree_with_the_definitions(seed):
    rng = np.random.default_rng(seed)
    written, X = random_cells(rng), 2 * rng.normal(size=(800, 3))
    packed, plain = Cells.of(written), containing(written, X)
    labels = np.array([cell.label for cell in written])
    np.testing.assert_array_equal(containing(packed, X), plain)
    assert [(cell.label, cell.name) for cell in packed] == [(cell.label, cell.name) for cell in written]
    np.testing.assert_array_equal(containing(packed.take(np.array([2, 0])), X), plain[[2, 0]])
    np.testing.assert_array_equal(containing(packed.with_label(1), X), plain[labels == 1])
    pieces = [Ball([1, 0, 0], 3), HalfSpace([0, 1, 0], 0.5)]
    cut = (np.linalg.norm(X - np.array([1, 0, 0]), axis=1) <= 3) & (X[:, 1] >= -0.5)
    np.testing.assert_array_equal(containing(packed.narrowed(pieces), X), plain & cut)
    np.testing.assert_array_equal(containing(packed.narrowed([]), X), plain)
    only = np.where((labels == 1)[:, None], plain & cut, plain)
    np.testing.assert_array_equal(containing(packed.narrowed(pieces, label=1), X), only)
    twice = packed.narrowed(pieces[:1]).narrowed(pieces[1:]).with_label(0)
    np.testing.assert_array_equal(containing(twice, X), (plain & cut)[labels == 0])
    option = RelativeSimilarity(PrototypeModel(rng.normal(size=(4, 3)), [0, 1, 0, 1]))
    own = option.cells(0.2)
    np.testing.assert_array_equal(containing(own.narrowed(pieces), X), containing(own, X) & cut)


def test_cells_without_a_constraint_hold_everything_and_can_be_cut():
    everything = Cells.of([Cell(label=0), Cell(label=1)])
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert containing(everything, X).all()
    np.testing.assert_array_equal(
        containing(everything.narrowed([HalfSpace([1, 0, 0], 0)], label=1), X),
        [np.full(50, True), X[:, 0] >= 0],
    )
    assert len(Cells.of([]).narrowed([HalfSpace([1, 0, 0], 0), Ball([0, 0, 0], 1)])) == 0


def test_cells_are_a_sequence():
    cells = Cells.of(random_cells(np.random.default_rng(0)))
    assert len(cells) == len(list(cells)) == len(cells[:]) == 4
    assert cells[-1].name == cells[3].name == cells[2:][1].name == "cell number 3"
    for index in (4, -5):
        with pytest.raises(IndexError):
            cells[index]


@pytest.mark.parametrize("kind", ["relative similarity", "decision distance", "of any pieces"])
def test_what_a_tightened_cell_holds_stays_in_the_cell_under_all_errors(kind):
    rng = np.random.default_rng(1)
    model = PrototypeModel(rng.normal(size=(5, 3)), [0, 1, 0, 1, 2], rng.normal(size=(2, 3)))
    cells = {
        "relative similarity": RelativeSimilarity(model).cells(0.3),
        "decision distance": DecisionDistance(model).cells(0.2),
        "of any pieces": Cells.of(random_cells(rng)),
    }[kind]
    errors, X = np.array([0.2, 0.0, 0.1]), 2 * rng.normal(size=(2000, 3))
    corners = np.array([[a, 0, b] for a in (-0.2, 0.2) for b in (-0.1, 0.1)])
    everywhere = np.all([containing(cells, X + corner, 0.0) for corner in corners], axis=0)
    assert 0 < everywhere.sum() < containing(cells, X).sum()
    close = np.any(
        [containing(cells, X + corner, 1e-9) != containing(cells, X + corner, -1e-9) for corner in corners],
        axis=0,
    )
    tight = containing(cells.tightened(errors, X[0]), X, 0.0)
    np.testing.assert_array_equal(tight[~close], everywhere[~close])


def test_with_many_features_in_error_cells_shrink_enough_and_vanish_in_the_end():
    rng = np.random.default_rng(2)
    option = RelativeSimilarity(PrototypeModel(3 * rng.normal(size=(4, 12)), [0, 1, 0, 1], np.eye(2, 12)))
    cells, errors = option.cells(0.2), np.full(12, 0.1)
    tight, X = cells.tightened(errors, np.zeros(12)), 4 * rng.normal(size=(3000, 12))
    held = containing(tight, X, 0.0)
    assert 0 < held.sum() < containing(cells, X).sum()
    for sign in rng.choice([-1, 1], size=(50, 12)):
        assert containing(cells, X + sign * errors)[held].all()
    gone = cells.tightened(np.full(12, 1e3), np.zeros(12))
    assert len(gone.narrowed([HalfSpace(np.ones(12), 0)])) == 0


def test_tight_constraints_are_named():
    option = RelativeSimilarity(PrototypeModel([[0.0], [2.0]], ["a", "b"]))
    assert option.cells(0.6).active(0, np.array([2 / 3])) == [
        "nearer to prototype 1 (a) than to prototype 2 (b) by enough"
    ]
    assert option.cells(0.0).active(0, np.array([1.0])) == [
        "nearer to prototype 1 (a) than to prototype 2 (b)"
    ]
    assert option.cells(0.6).active(0, np.array([0.1])) == []
    assert option.cells(0.6).narrowed([Ball([0], 0.5)]).active(0, np.array([0.5])) == ["near an added centre"]
    pieces = Cells.of([Cell((Ball([0], 1),), (HalfSpace([1], 1),))])
    assert pieces.active(0, np.array([1.0])) == ["a ball"]
    assert pieces.active(0, np.array([-1.0])) == ["a ball", "a half-space"]


@pytest.mark.parametrize(
    ("make", "bad", "message"),
    [
        (Ball, {"radius": -1}, "radius must be at least 0; found -1"),
        (Ball, {"radius": "1"}, "radius must be a number; found '1'"),
        (Ball, {"centre": [np.nan, 0]}, "centre must be finite; found NaN"),
        (Ball, {"L": np.eye(3)}, "L must have 2 features; found 3"),
        (HalfSpace, {"normal": ["a", "b"]}, "normal must be numeric"),
        (HalfSpace, {"offset": None}, "offset must be a number; found None"),
    ],
)
def test_bad_input(make, bad, message):
    good = {"centre": [0, 0], "radius": 1} if make is Ball else {"normal": [1, 0], "offset": 0}
    with pytest.raises(ValueError, match=message):
        make(**{**good, **bad})
