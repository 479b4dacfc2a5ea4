"""Relative similarity and distance to the decision boundary against exact arithmetic, and their edges."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvqrej.certainty import Certainty, DecisionDistance, RelativeSimilarity, check_theta
from lvqrej.prototypes import PrototypeModel

modest = settings(max_examples=120)
OPTIONS = {
    "relative similarity": RelativeSimilarity,
    "decision distance": DecisionDistance,
    "decision distance, euclidean": lambda model: DecisionDistance(model, norm="euclidean"),
}
every_option = pytest.mark.parametrize("make", OPTIONS.values(), ids=OPTIONS)


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


def exact_distance(L, x, p) -> Fraction:
    difference = [Fraction(a) - Fraction(b) for a, b in zip(x, p, strict=True)]
    return sum(
        (sum((Fraction(l) * z for l, z in zip(row, difference, strict=True)), Fraction(0)) ** 2 for row in L),
        Fraction(0),
    )


def exact_nearest_two(prototypes, labels, L, x) -> tuple[int, int, Fraction, Fraction]:
    """p+ and p- by looking at one prototype after the other, the first winning a tie."""
    distances = [exact_distance(L, x, p) for p in prototypes]
    plus = distances.index(min(distances))
    others = [j for j in range(len(labels)) if labels[j] != labels[plus]]
    minus = min(others, key=lambda j: (distances[j], j))
    return plus, minus, distances[plus], distances[minus]


def exact_relative_similarity(prototypes, labels, L, x) -> Fraction:
    _, _, near, far = exact_nearest_two(prototypes, labels, L, x)
    return (far - near) / (far + near) if far + near else Fraction(0)


def exact_decision_distance(prototypes, labels, L, x, norm) -> Fraction:
    plus, minus, near, far = exact_nearest_two(prototypes, labels, L, x)
    metric = L if norm == "metric" else np.eye(len(x), dtype=int).tolist()
    separation = exact_distance(metric, prototypes[plus], prototypes[minus])
    return (far - near) / (2 * separation) if separation else Fraction(0)


@modest
@given(integer_models())
def test_relative_similarity_is_the_correctly_rounded_formula(case):
    prototypes, labels, L, X = case
    found = RelativeSimilarity(PrototypeModel(prototypes, labels, L)).certainty(X)
    assert found.tolist() == [float(exact_relative_similarity(prototypes, labels, L, x)) for x in X]


@modest
@given(integer_models(), st.sampled_from(["metric", "euclidean"]))
def test_decision_distance_is_the_correctly_rounded_formula(case, norm):
    prototypes, labels, L, X = case
    found = DecisionDistance(PrototypeModel(prototypes, labels, L), norm=norm).certainty(X)
    assert found.tolist() == [float(exact_decision_distance(prototypes, labels, L, x, norm)) for x in X]


@modest
@given(integer_models())
def test_the_label_is_that_of_the_first_nearest_prototype(case):
    prototypes, labels, L, X = case
    expected = [labels[exact_nearest_two(prototypes, labels, L, x)[0]] for x in X]
    for make in OPTIONS.values():
        assert make(PrototypeModel(prototypes, labels, L)).predict(X).tolist() == expected


@modest
@given(st.integers(0, 2**32 - 1))
def test_formulas_on_random_models(seed):
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 6)), int(rng.integers(2, 8))
    L = rng.normal(size=(rng.integers(1, d + 1), d))
    prototypes, labels = rng.normal(size=(m, d)), np.arange(m) % int(rng.integers(2, m + 1))
    model, X = PrototypeModel(prototypes, labels, L), rng.normal(scale=3, size=(5, d))
    args = prototypes.tolist(), labels.tolist(), L.tolist()
    for x, similarity, distance in zip(
        X,
        RelativeSimilarity(model).certainty(X),
        DecisionDistance(model).certainty(X),
        strict=True,
    ):
        assert similarity == pytest.approx(float(exact_relative_similarity(*args, x)), abs=1e-12)
        assert distance == pytest.approx(float(exact_decision_distance(*args, x, "metric")), rel=1e-9)


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
    assert similarity[-1] < 1e-5
    assert (np.diff(distance) > 0).all()
    assert distance[-1] > 1e5


# Degenerate cases


def test_on_a_prototype():
    model = PrototypeModel([[0, 0], [3, 0], [0, 5]], ["a", "b", "a"])
    assert RelativeSimilarity(model).certainty(model.prototypes).tolist() == [1, 1, 1]
    assert DecisionDistance(model).certainty(model.prototypes).tolist() == [0.5, 0.5, 0.25 * (34 - 0) / 17]


@every_option
def test_on_a_boundary_the_certainty_is_zero_and_the_first_prototype_wins(make):
    X = [[1, 0], [1, 7], [1, -2]]
    assert make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"])).certainty(X).tolist() == [0, 0, 0]
    assert make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"])).predict(X).tolist() == ["a"] * 3
    assert make(PrototypeModel([[2, 0], [0, 0]], ["b", "a"])).predict(X).tolist() == ["b"] * 3


@every_option
def test_twins_of_different_classes_are_never_certain(make):
    option = make(PrototypeModel([[0, 0], [0, 0], [9, 0]], ["a", "b", "b"]))
    assert option.certainty([[0, 0], [1, 0], [-3, 2]]).tolist() == [0, 0, 0]
    assert option.certainty([[9, 0]])[0] > 0


@every_option
@pytest.mark.parametrize("seed", range(20))
def test_twins_up_to_rounding_are_never_certain_not_even_on_themselves(make, seed):
    rng = np.random.default_rng(seed)
    L, P = rng.normal(size=(1, 3)), rng.normal(size=(4, 3))
    along = rng.normal(size=3)
    P[1] = P[0] + along - L[0] * (L[0] @ along) / (L[0] @ L[0])  # L p is the same but for its last digits
    option = make(PrototypeModel(P, ["a", "b", "b", "a"], L))
    assert (option.certainty(P[:2]) == 0).all()
    points = P[:2] + 1e-3 * rng.normal(size=(50, 1, 3))
    assert (option.certainty(points.reshape(-1, 3)) == 0).all()


@every_option
def test_a_feature_without_any_difference_adds_no_noise(make):
    """However large its values are."""
    near = make(PrototypeModel([[0.0], [4.0]], ["a", "b"]))
    far = make(PrototypeModel([[1e16, 0.0], [1e16, 4.0]], ["a", "b"]))
    x = np.linspace(-1, 5, 7)
    assert np.array_equal(far.certainty(np.column_stack([np.full(7, 1e16), x])), near.certainty(x[:, None]))


@every_option
def test_twins_of_one_class_change_nothing(make):
    X = np.random.default_rng(0).normal(size=(20, 2))
    once = make(PrototypeModel([[0, 0], [2, 1]], ["a", "b"]))
    twice = make(PrototypeModel([[0, 0], [0, 0], [2, 1], [2, 1]], ["a", "a", "b", "b"]))
    assert (once.certainty(X) == twice.certainty(X)).all()
    assert (once.predict(X) == twice.predict(X)).all()


@every_option
def test_a_metric_of_deficient_rank_ignores_its_null_space(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"], L=[[1, 0]]))
    X = np.array([[0.25, 0], [1.5, 0], [-4, 0]])
    assert (option.certainty(X) == option.certainty(X + np.array([0, 1000]))).all()


@every_option
@pytest.mark.parametrize("L", [[[0, 1]], [[0, 0]], [[0, 0], [0, 0]]])
def test_prototypes_that_coincide_in_the_metric_are_twins(make, L):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"], L=L))
    assert option.certainty([[0, 0], [0.1, 5], [7, -3]]).tolist() == [0, 0, 0]


@modest
@given(st.integers(0, 2**32 - 1), st.floats(-6, 6))
def test_prototypes_that_coincide_in_the_metric_up_to_rounding_are_twins(seed, magnitude):
    """Without a tolerance the rounding of L (p - q) is divided by its own square, some 1e16."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(2, 5))
    null_direction = np.linalg.svd(L)[2][-1]
    p, centre = 10**magnitude * rng.normal(size=(2, 5))
    option = DecisionDistance(PrototypeModel([p, p + 10**magnitude * null_direction], [0, 1], L))
    assert option.separations[0, 1] == 0
    assert (option.certainty(centre + rng.normal(size=(10, 5))) == 0).all()


def test_prototypes_that_are_merely_close_are_told_apart():
    option = DecisionDistance(PrototypeModel([[1000], [1000 + 1e-9]], ["a", "b"]))
    assert option.certainty([[1000]])[0] == 0.5


def test_the_two_norms_differ_by_the_metric():
    model = PrototypeModel([[0, 0], [2, 0]], ["a", "b"], L=[[3, 0], [0, 1]])
    X = [[0.5, 1], [-1, 2]]
    ratio = DecisionDistance(model, "euclidean").certainty(X) / DecisionDistance(model, "metric").certainty(X)
    assert ratio.tolist() == [9, 9]


# What every option promises


@modest
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(0, 7),
    st.booleans(),
    st.sampled_from(sorted(OPTIONS)),
)
def test_one_sample_has_the_same_bits_alone_and_in_a_batch(seed, n, offset, reverse, kind):
    """Whatever the size of the batch, its place in memory and its strides."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 20))
    model = PrototypeModel(rng.normal(size=(5, d)), [0, 0, 1, 1, 2], rng.normal(size=(d, d)))
    option = OPTIONS[kind](model)
    memory = rng.normal(size=n * d + offset)
    X = memory[offset:].reshape(n, d)
    X = X[::-1] if reverse else X
    batch = option.certainty(X)
    assert [option.certainty(x[None])[0] for x in X] == batch.tolist()
    assert (option.certainty(np.asfortranarray(X)) == batch).all()
    theta = float(batch[n // 2])
    assert option.accepts(X[n // 2][None], theta).tolist() == [True]
    assert not option.accepts(X[n // 2][None], np.nextafter(theta, np.inf)).any()


@modest
@given(st.integers(0, 2**32 - 1), st.floats(-8, 8))
def test_bounds(seed, magnitude):
    rng = np.random.default_rng(seed)
    model = PrototypeModel(rng.normal(size=(4, 3)), [0, 1, 1, 2], rng.normal(size=(2, 3)))
    X = 10**magnitude * rng.normal(size=(30, 3))
    similarity = RelativeSimilarity(model).certainty(X)
    assert ((similarity >= 0) & (similarity <= 1)).all()
    assert (DecisionDistance(model).certainty(X) >= 0).all()


@every_option
def test_certainty_and_label_in_one_evaluation_have_the_same_bits(make):
    rng = np.random.default_rng(0)
    option = make(PrototypeModel(rng.normal(size=(6, 4)), list("aabbcc"), rng.normal(size=(3, 4))))
    X = rng.normal(size=(50, 4))
    certainties, labels = option.certainty_and_labels(X)
    np.testing.assert_array_equal(certainties, option.certainty(X))
    np.testing.assert_array_equal(labels, option.predict(X))


def test_a_subclass_with_a_certainty_of_its_own_is_asked_for_it():
    class Halved(RelativeSimilarity):
        def certainty(self, X):
            return super().certainty(X) / 2

    option = Halved(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    assert option.certainty_and_labels([[0.5, 0.0]])[0].tolist() == [0.4]


@every_option
def test_cells_of_the_latest_threshold_are_kept_and_no_others(make):
    option = make(PrototypeModel([[0.0, 0], [2, 0]], ["a", "b"]))
    cells = option.cells(0.25)
    assert option.cells(0.25) is cells
    other = option.cells(0.125)
    assert (other.alpha != cells.alpha).any() or (other.gamma != cells.gamma).any()
    again = option.cells(0.25)
    np.testing.assert_array_equal(again.gamma, cells.gamma)
    np.testing.assert_array_equal(again.alpha, cells.alpha)


@every_option
def test_what_an_option_knows_of_its_model(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["b", "a"], feature_names=["age", "bmi"]))
    assert isinstance(option, Certainty)
    assert option.classes.tolist() == ["a", "b"]
    assert option.n_features == 2
    assert option.feature_names == ["age", "bmi"]
    assert option.name in ("relative similarity", "distance to the decision boundary")


@every_option
def test_shapes_and_types(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    X = np.zeros((7, 2), dtype=np.float32)
    assert option.certainty(X).shape == (7,)
    assert option.certainty(X).dtype == np.float64
    assert option.accepts(X, 0.1).dtype == bool
    assert option.predict(X).shape == (7,)


@every_option
def test_acceptance_is_without_tolerance(make):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    X = np.random.default_rng(0).normal(size=(200, 2))
    r = option.certainty(X)
    for theta in (0, -1, r[3], np.nextafter(r[3], 1), r.max(), 10.0):
        assert (option.accepts(X, theta) == (r >= theta)).all()


# Bad input


@every_option
@pytest.mark.parametrize(
    "theta", [math.nan, math.inf, -math.inf, "0.5", None, True, [0.5], np.array([0.5, 0.6]), 1j]
)
def test_theta_not_a_number(make, theta):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    with pytest.raises(ValueError, match="theta must be"):
        option.accepts([[0, 0]], theta)


def test_theta_may_be_any_kind_of_real_number():
    for theta in (1, np.float32(1), np.int64(1), Fraction(1)):
        assert check_theta(theta) == 1.0


@every_option
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([0, 0], r"X must have shape \(n, d\); found shape \(2,\); one sample is X.reshape\(1, -1\)"),
        ([[0, 0, 0]], "X must have 2 features; found 3"),
        ([[0, math.nan]], "X must be finite; found nan at row 0, column 1"),
        ([[math.inf, 0]], "X must be finite; found inf at row 0, column 0"),
        (np.zeros((0, 2)), "X must not be empty"),
        ([["a", "b"]], "X must be numeric"),
        ([[0, 0], [1e154, 0]], r"X must be near enough for squared distances .* \[1e\+154, 0.0\] .* row 1"),
        ([[0, 1j]], "X must be real; found complex numbers"),
        (None, "X must"),
    ],
)
def test_bad_samples(make, X, message):
    option = make(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    for method in (option.certainty, option.predict, lambda X: option.accepts(X, 0.5)):
        with pytest.raises(ValueError, match=message):
            method(X)


@every_option
@pytest.mark.parametrize("model", [None, [[0, 0], [2, 0]], "model", PrototypeModel])
def test_a_model_is_needed(make, model):
    with pytest.raises(ValueError, match="model must be a PrototypeModel; found"):
        make(model)


@pytest.mark.parametrize("norm", ["l2", None, 2, "Metric"])
def test_unknown_norm(norm):
    with pytest.raises(ValueError, match="norm must be one of 'metric', 'euclidean'; found"):
        DecisionDistance(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]), norm=norm)


def test_one_class_only_is_refused_by_the_model():
    with pytest.raises(ValueError, match="labels must name at least two classes"):
        RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "a"]))
