"""Relative similarity and distance to the decision boundary against exact arithmetic, and their edges."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import exact_certainty, exact_distance

from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity
from lvqrej.certainty import Certainty

modest = settings(max_examples=80)
OPTIONS = {
    "relative similarity": RelativeSimilarity,
    "decision distance": DecisionDistance,
    "decision distance, euclidean": lambda model: DecisionDistance(model, norm="euclidean"),
}
every_option = pytest.mark.parametrize("make", OPTIONS.values(), ids=OPTIONS)
kinds = st.sampled_from(sorted(OPTIONS))


def separation(kind, L, d):
    """Return the metric of D(p+, p-), None for relative similarity."""
    metrics = {"decision distance": L, "decision distance, euclidean": np.eye(d, dtype=int).tolist()}
    return metrics.get(kind)


@st.composite
def integer_models(draw):
    """A model with small whole numbers, where every distance is exact, and whole-numbered samples.

    Ties, coinciding prototypes and metrics of deficient rank are frequent.
    """
    d, k = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    m = draw(st.integers(2, 5))
    number = st.integers(-3, 3)
    rows = lambda n: st.lists(st.lists(number, min_size=d, max_size=d), min_size=n, max_size=n)  # noqa: E731
    labels = draw(st.lists(st.sampled_from("abc"), min_size=m, max_size=m).filter(lambda c: len(set(c)) > 1))
    return draw(rows(m)), labels, draw(rows(k)), draw(rows(4))


@modest
@given(integer_models(), kinds)
def test_certainty_and_label_are_the_correctly_rounded_formula(case, kind):
    prototypes, labels, L, X = case
    option = OPTIONS[kind](PrototypeModel(prototypes, labels, L))
    exact = [exact_certainty(prototypes, labels, L, x, separation(kind, L, len(x))) for x in X]
    assert option.certainty(X).tolist() == [float(r) for r, _ in exact]
    assert option.predict(X).tolist() == [label for _, label in exact]


@modest
@given(st.integers(0, 2**32 - 1), kinds)
def test_formulas_on_random_models(seed, kind):
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 6)), int(rng.integers(2, 8))
    L = rng.normal(size=(rng.integers(1, d + 1), d))
    prototypes, labels = rng.normal(size=(m, d)), np.arange(m) % int(rng.integers(2, m + 1))
    X = rng.normal(scale=3, size=(4, d))
    found = OPTIONS[kind](PrototypeModel(prototypes, labels, L)).certainty(X)
    arguments = prototypes.tolist(), labels.tolist(), L.tolist()
    exact = [float(exact_certainty(*arguments, x, separation(kind, L, d))[0]) for x in X.tolist()]
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-12)


@every_option
def test_verdicts_tell_in_one_evaluation_what_the_certainty_rests_on(make):
    rng = np.random.default_rng(0)
    P, labels, L = rng.normal(size=(6, 4)), np.array(list("aabbcc")), rng.normal(size=(3, 4))
    option, X = make(PrototypeModel(P, labels, L)), rng.normal(size=(20, 4))
    verdicts, accepted = option.judged(X, 0.3)
    np.testing.assert_array_equal(verdicts.certainty, option.certainty(X))
    np.testing.assert_array_equal(option.classes[verdicts.label], option.predict(X))
    np.testing.assert_array_equal(accepted, option.accepts(X, 0.3))
    for i, x in enumerate(X.tolist()):
        near = {c: min(exact_distance(L, x, p) for p in P[labels == c]) for c in "abc"}
        first, second = sorted("abc", key=near.get)[:2]
        assert (option.classes[verdicts.label[i]], option.classes[verdicts.rival[i]]) == (first, second)
        assert verdicts.distance[i] ** 2 == pytest.approx(float(near[first]))
        assert verdicts.rival_distance[i] ** 2 == pytest.approx(float(near[second]))


@modest
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 7), st.booleans(), kinds)
def test_one_sample_has_the_same_bits_alone_and_in_a_batch(seed, n, offset, reverse, kind):
    """Whatever the size of the batch, its place in memory and its strides: a test at the boundary agrees."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 20))
    model = PrototypeModel(rng.normal(size=(5, d)), [0, 0, 1, 1, 2], rng.normal(size=(d, d)))
    option, memory = OPTIONS[kind](model), rng.normal(size=n * d + offset)
    X = memory[offset:].reshape(n, d)
    X = X[::-1] if reverse else X
    batch = option.certainty(X)
    assert [option.certainty(x[None])[0] for x in X] == batch.tolist()
    assert (option.certainty(np.asfortranarray(X)) == batch).all()
    theta = float(batch[n // 2])
    assert option.accepts(X[n // 2][None], theta).tolist() == [True]
    assert not option.accepts(X[n // 2][None], np.nextafter(theta, np.inf)).any()


def test_two_prototypes_give_the_distance_to_their_hyperplane():
    """With one prototype per class r_Dist is a distance in units of |p - q|: an SVM's margin picture."""
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(2, 4))
    X = rng.normal(size=(50, 4))
    to_plane = np.abs((X - (p + q) / 2) @ (p - q)) / np.linalg.norm(p - q)
    found = DecisionDistance(PrototypeModel([p, q], [0, 1])).certainty(X)
    np.testing.assert_allclose(found, to_plane / np.linalg.norm(p - q), rtol=1e-9, atol=1e-12)


def test_far_away_relative_similarity_vanishes_and_decision_distance_grows():
    model = PrototypeModel([[0, 0], [2, 0]], ["a", "b"])
    X = [[-(10.0**k), 0] for k in range(1, 7)]
    similarity, distance = RelativeSimilarity(model).certainty(X), DecisionDistance(model).certainty(X)
    assert (np.diff(similarity) < 0).all()
    assert 0 <= similarity[-1] < 1e-5
    assert (np.diff(distance) > 0).all()
    assert distance[-1] > 1e5


# Twins and null spaces


@every_option
@pytest.mark.parametrize("seed", range(8))
def test_twins_up_to_rounding_are_never_certain_not_even_on_themselves(make, seed):
    rng = np.random.default_rng(seed)
    L, P = rng.normal(size=(1, 3)), 10.0 ** rng.uniform(-6, 6) * rng.normal(size=(4, 3))
    along = rng.normal(size=3)
    P[1] = P[0] + along - L[0] * (L[0] @ along) / (L[0] @ L[0])  # L p is the same but for its last digits
    option = make(PrototypeModel(P, ["a", "b", "b", "a"], L))
    assert (option.certainty(P[:2]) == 0).all()
    points = P[:2] + 1e-3 * np.abs(P[2] - P[0]) * rng.normal(size=(20, 1, 3))
    assert (option.certainty(points.reshape(-1, 3)) == 0).all()


def test_prototypes_that_are_merely_close_are_told_apart():
    option = DecisionDistance(PrototypeModel([[1000], [1000 + 1e-9]], ["a", "b"]))
    assert option.certainty([[1000]])[0] == 0.5


@every_option
def test_twins_of_one_class_change_nothing(make):
    X = np.random.default_rng(0).normal(size=(20, 2))
    once = make(PrototypeModel([[0, 0], [2, 1]], ["a", "b"]))
    twice = make(PrototypeModel([[0, 0], [0, 0], [2, 1], [2, 1]], ["a", "a", "b", "b"]))
    assert (once.certainty(X) == twice.certainty(X)).all()
    assert (once.predict(X) == twice.predict(X)).all()


@every_option
def test_a_feature_without_any_difference_adds_no_noise(make):
    """However large its values are."""
    near = make(PrototypeModel([[0.0], [4.0]], ["a", "b"]))
    far = make(PrototypeModel([[1e16, 0.0], [1e16, 4.0]], ["a", "b"]))
    x = np.linspace(-1, 5, 7)
    assert np.array_equal(far.certainty(np.column_stack([np.full(7, 1e16), x])), near.certainty(x[:, None]))


@every_option
def test_a_metric_of_deficient_rank_ignores_its_null_space(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"], L=[[1, 0]]))
    X = np.array([[0.25, 0], [1.5, 0], [-4, 0]])
    assert (option.certainty(X) == option.certainty(X + np.array([0, 1000]))).all()


# What every option offers


@every_option
def test_what_an_option_knows_of_its_model(make):
    model = PrototypeModel([[0, 0], [2, 0]], ["b", "a"], feature_names=["age", "bmi"])
    option = make(model)
    assert option.classes.tolist() == ["a", "b"]
    assert (option.n_features, option.feature_names) == (2, ["age", "bmi"])
    assert option.models() == {(): model}
    assert option.unrestricted is option
    X = np.zeros((7, 2), dtype=np.float32)
    assert (option.certainty(X).dtype, option.accepts(X, 0.1).dtype) == (np.float64, bool)


def test_what_is_bounded_and_what_sees_the_unfamiliar():
    model = PrototypeModel([[0.0], [2.0]], ["a", "b"])
    similarity, distance = RelativeSimilarity(model), DecisionDistance(model)
    assert (similarity.largest, distance.largest) == (1.0, np.inf)
    assert (similarity.sees_unfamiliarity, distance.sees_unfamiliarity) == (True, False)


@every_option
def test_cells_of_the_latest_threshold_are_kept_and_no_others(make):
    option = make(PrototypeModel([[0.0, 0], [2, 0]], ["a", "b"]))
    x = np.array([[0.6, 0.0]])
    theta = 1.2 * option.certainty(x)[0]
    cells = option.cells(theta)
    assert option.cells(theta) is cells
    for _ in range(2):
        assert not option.cells(theta)[0].contains(x)[0]
        assert option.cells(theta / 2)[0].contains(x)[0]


class Bowl(Certainty):
    """A certainty that rests on no prototypes, with its classes in no order."""

    name = "bowl"
    classes = np.array(["up", "down", "level"])
    n_features = 1

    def certainty(self, X):
        return np.abs(np.asarray(X, dtype=float)[:, 0])

    def predict(self, X):
        return np.where(np.asarray(X, dtype=float)[:, 0] > 0, "up", "level")

    def cells(self, theta):
        raise NotImplementedError


def test_a_certainty_of_ones_own_gets_the_rest():
    option = Bowl()
    verdicts, accepted = option.judged([[-2.0], [0.5]], 1.0)
    assert option.classes[verdicts.label].tolist() == ["level", "up"]
    assert verdicts.certainty.tolist() == [2.0, 0.5]
    assert (verdicts.rival.tolist(), verdicts.distance.tolist()) == ([-1, -1], [np.inf, np.inf])
    assert accepted.tolist() == option.accepts([[-2.0], [0.5]], 1.0).tolist() == [True, False]
    assert (option.models(), option.unrestricted) == ({}, option)


def test_acceptance_of_ones_own_is_asked():
    class Strict(RelativeSimilarity):
        def accepts(self, X, theta):
            return self.certainty(X) > theta

    option = Strict(PrototypeModel([[0.0], [2.0]], ["a", "b"]))
    assert not option.judged([[0.5]], 0.8)[1].any()


# Bad input


@every_option
def test_theta_that_is_no_threshold(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    for theta in (math.nan, math.inf, "0.5", None, True, [0.5], np.array([0.5, 0.6]), 1j):
        with pytest.raises(ValueError, match="theta must be"):
            option.accepts([[0, 0]], theta)
        with pytest.raises(ValueError, match="theta must be"):
            option.cells(theta)


@every_option
def test_theta_may_be_any_kind_of_real_number(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    assert {len(option.cells(theta)) for theta in (1, np.float32(1), np.int64(1), Fraction(1))} == {2}


BAD_X = [
    ([0, 0], r"X must have shape \(n, d\); found shape \(2,\); one sample is X.reshape\(1, -1\)"),
    ([[0, 0, 0]], "X must have 2 features; found 3"),
    ([[0, math.nan]], "X must be finite; found NaN at row 0, column 1"),
    ([[math.inf, 0]], "X must be finite; found inf at row 0, column 0"),
    ([["a", "b"]], "X must be numeric"),
    ([[0, 0], [1e154, 0]], r"X must be near enough for squared distances .* \[1e\+154, 0.0\] .* row 1"),
    ([[0, 1j]], "X must be real; found complex numbers"),
    (None, "X must"),
]


@every_option
def test_bad_samples(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    for X, message in BAD_X:
        for method in (option.certainty, option.predict, option.verdicts, lambda X: option.accepts(X, 0.5)):
            with pytest.raises(ValueError, match=message):
                method(X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RelativeSimilarity([[0, 0], [2, 0]]), "model must be a PrototypeModel; found"),
        (lambda: DecisionDistance(PrototypeModel), "model must be a PrototypeModel; found"),
        (
            lambda: DecisionDistance(PrototypeModel([[0], [2]], ["a", "b"]), norm="l2"),
            "norm must be one of 'metric', 'euclidean'; found 'l2'",
        ),
        (
            lambda: DecisionDistance(PrototypeModel([[0], [2]], ["a", "b"]), norm=None),
            "norm must be one of 'metric', 'euclidean'; found None",
        ),
    ],
)
def test_bad_models_and_norms(make, message):
    with pytest.raises(ValueError, match=message):
        make()
