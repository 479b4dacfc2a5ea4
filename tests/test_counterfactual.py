import tracemalloc

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from oracles import best_program, grid_distance

from lvqrej.cells import Ball, Cells
from lvqrej.certainty import Certainty, DecisionDistance, RelativeSimilarity
from lvqrej.counterfactual import NoCounterfactualError, explain, explain_per_class, mad_weights
from lvqrej.projection import AcceptedSet, nearest_points
from lvqrej.prototypes import PrototypeModel

OPTIONS = [RelativeSimilarity, DecisionDistance, lambda model: DecisionDistance(model, "euclidean")]


def random_option(make, seed, d=4, m=6, classes=3, rank=None):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(rank or d, d))
    return make(PrototypeModel(rng.normal(size=(m, d)), np.arange(m) % classes, L)), rng


def threshold(option, X, quantile=0.7):
    return float(np.quantile(option.certainty(X), quantile))


@pytest.fixture
def line():
    return RelativeSimilarity(
        PrototypeModel([[0.0, 0.0], [2.0, 0.0]], ["a", "b"], feature_names=["age", "bmi"])
    )


@pytest.mark.parametrize("make", OPTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_optimum_equals_the_best_plain_program_over_all_cells(make, seed):
    option, rng = random_option(make, seed, rank=2 + seed % 3)
    X = 2 * rng.normal(size=(30, 4))
    theta, w = threshold(option, X), rng.uniform(0.5, 2, size=4)
    result = explain(option, theta, X, weights=w)
    assert option.accepts(result.counterfactuals, theta).all()
    assert (result.gaps <= 1e-6).all()
    np.testing.assert_array_equal(result.labels, option.predict(result.counterfactuals))
    np.testing.assert_array_equal(result.certainties, option.certainty(result.counterfactuals))
    for i in np.flatnonzero(option.certainty(X) < theta)[:3]:
        optimum = best_program(option, theta, X[i], w)
        assert result.distances[i] == pytest.approx(optimum, rel=1e-5, abs=1e-6)
        assert result.lower_bounds[i] <= optimum * (1 + 1e-6) + 1e-7


@pytest.mark.parametrize("make", OPTIONS)
@pytest.mark.parametrize("seed", range(4))
def test_optimum_agrees_with_a_fine_grid(make, seed):
    option, rng = random_option(make, seed, d=2, m=4, classes=2)
    X = rng.normal(size=(12, 2))
    theta = threshold(option, X, 0.6)
    for x in X[option.certainty(X) < theta][:3]:
        why = explain(option, theta, x)
        width = 1.2 * why.distance + 1e-3
        brute = grid_distance(option, theta, x, width)
        assert why.distance <= brute * (1 + 1e-9)
        assert brute - why.distance <= 8 * width / 400


def test_published_decision_distance_constraints_are_not_sufficient():
    option = DecisionDistance(PrototypeModel([[0, 0], [0, 4], [2, 0]], ["A", "A", "B"]))
    x = np.array([0.6, 2.1])
    assert option.certainty([[0.5, 2.1]])[0] == pytest.approx(0.07, abs=5e-3)
    why = explain(option, 0.25, x)
    assert why.certainty >= 0.25
    assert why.distance == pytest.approx(best_program(option, 0.25, x, np.ones(2)), rel=1e-6)
    assert grid_distance(option, 0.25, x, 1.5) == pytest.approx(why.distance, abs=0.01)


def test_published_decision_distance_constraints_are_not_necessary():
    option = DecisionDistance(PrototypeModel([[0, 0], [2, 0], [0, 10]], ["A", "B", "B"]))
    why = explain(option, 0.25, [0.6, 2.6])
    assert why.distance == pytest.approx(0.1, rel=1e-9)


def test_accepted_samples_are_their_own_counterfactuals(line):
    result = explain(line, 0.6, [[0.0, 0.0], [0.1, 0.1], [0.9, 0.0]])
    np.testing.assert_array_equal(result.distances[:2], 0)
    np.testing.assert_array_equal(result.counterfactuals[:2], [[0, 0], [0.1, 0.1]])
    assert result.paths[:2] == ["accepted", "accepted"]
    assert result.gaps.tolist()[:2] == [0, 0]
    assert explain(line, 0.6, [0.0, 0.0], target="b").distance == pytest.approx(5 / 3 - 1 / 3)


def test_a_single_sample_gives_a_single_explanation(line):
    why = explain(line, 0.6, [0.9, 0.0])
    assert why.counterfactual == pytest.approx([2 / 3, 0])
    assert why.delta == pytest.approx([2 / 3 - 0.9, 0])
    assert (why.label, why.theta, why.path) == ("a", 0.6, "homotopy")
    assert why.certainty_before == pytest.approx(line.certainty([[0.9, 0.0]])[0])
    assert why.active == ("nearer to prototype 0 (a) than to prototype 1 (b) by enough",)
    assert why.feature_names == ["age", "bmi"]
    assert "age" in str(why)
    assert len(why.to_frame()) == 1
    batch = explain(line, 0.6, [[0.9, 0.0], [1.2, 0.5]])
    assert len(batch) == len(list(batch)) == len(batch[:]) == 2
    assert batch[-1].label == "b"
    assert len(batch.to_frame()) == 2
    assert isinstance(str(batch[0]), str)
    with pytest.raises(IndexError, match="explanation 2 of 2"):
        batch[2]
    assert len(explain(line, 0.6, np.empty((0, 2)))) == 0


@pytest.mark.parametrize("make", OPTIONS)
def test_batch_one_by_one_and_parallel_are_equal_to_the_bit(make):
    option, rng = random_option(make, 1)
    X = 2 * rng.normal(size=(9000, 4))
    theta = threshold(option, X, 0.5)
    batch = explain(option, theta, X)
    if make is RelativeSimilarity:  # starting processes takes long
        parallel = explain(option, theta, X, n_jobs=2)
        np.testing.assert_array_equal(batch.counterfactuals, parallel.counterfactuals)
        np.testing.assert_array_equal(batch.lower_bounds, parallel.lower_bounds)
    for i in range(0, 9000, 400):
        one = explain(option, theta, X[i])
        np.testing.assert_array_equal(one.counterfactual, batch.counterfactuals[i])
        assert one.lower_bound == batch.lower_bounds[i]


@pytest.mark.parametrize("make", OPTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_requirements_are_kept_to_the_bit_and_still_optimal(make, seed):
    option, rng = random_option(make, seed, d=5)
    X = rng.normal(size=(12, 5))
    theta = threshold(option, X, 0.6)
    asked = {
        "fixed": [0],
        "increase_only": [1],
        "decrease_only": [2],
        "bounds": {3: (-0.7, 0.6), 4: (None, 2)},
    }
    result = explain(option, theta, X, on_infeasible="skip", **asked)
    Z = result.counterfactuals[result.found]
    S = X[result.found]
    assert result.found.any()
    assert (Z[:, 0] == S[:, 0]).all()
    assert (Z[:, 1] >= S[:, 1]).all()
    assert (Z[:, 2] <= S[:, 2]).all()
    assert ((Z[:, 3] >= -0.7) & (Z[:, 3] <= 0.6) & (Z[:, 4] <= 2)).all()
    assert option.accepts(Z, theta).all()
    assert (result.gaps <= 1e-6).all()

    for i in range(2):

        def extra(z, x=X[i]):
            return [z[0] == x[0], z[1] >= x[1], z[2] <= x[2], z[3] >= -0.7, z[3] <= 0.6, z[4] <= 2]

        optimum = best_program(option, theta, X[i], np.ones(5), extra)
        if result.found[i]:
            assert result.distances[i] == pytest.approx(optimum, rel=1e-5, abs=1e-6)
        else:
            assert optimum == np.inf


@pytest.mark.parametrize("make", OPTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_linear_constraints_between_features(make, seed):
    option, rng = random_option(make, seed, d=3)
    X = rng.normal(size=(8, 3))
    theta = threshold(option, X, 0.6)
    A, b = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, 1.0]]), np.array([0.4, 1.5])
    result = explain(option, theta, X, constraints=(A, b), on_infeasible="skip")
    assert result.found.all()
    assert ((result.counterfactuals[:, None] * A).sum(axis=2) <= b).all()
    assert option.accepts(result.counterfactuals, theta).all()
    assert (result.gaps <= 1e-6).all()
    for i in range(3):
        optimum = best_program(option, theta, X[i], np.ones(3), lambda z: [A @ z <= b])
        assert result.distances[i] == pytest.approx(optimum, rel=1e-5, abs=1e-6)


def test_a_cell_that_constraints_leave_empty_is_proven_empty(line):
    why = explain(line, 0.6, [1.9, 1.0], constraints=([[1, 0]], [1.0]))
    optimum = best_program(line, 0.6, np.array([1.9, 1.0]), np.ones(2), lambda z: [z[0] <= 1])
    assert why.distance == pytest.approx(optimum, rel=1e-6)
    assert why.gap < 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_linear_constraints_leave_no_gap(seed):
    rng = np.random.default_rng(seed)
    d, c = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    scale = 10.0 ** rng.uniform(-2, 2, size=d)
    L = rng.normal(size=(int(rng.integers(1, d + 1)), d)) / scale
    model = PrototypeModel(rng.normal(size=(4, d)) * scale, [0, 1, 0, 1], L)
    option = RelativeSimilarity(model) if seed % 2 else DecisionDistance(model)
    A, b, theta = rng.normal(size=(c, d)) / scale, rng.normal(size=c), float(rng.choice([0.1, 0.3, 0.6]))
    X = 2 * rng.normal(size=(3, d)) * scale
    result = explain(option, theta, X, weights=1 / scale, constraints=(A, b), on_infeasible="skip")
    assert (result.gaps < 1e-6).all()
    for point in result.counterfactuals[result.found]:
        assert option.accepts(point[None], theta)[0]
        assert ((point * A).sum(axis=1) <= b).all()


@pytest.mark.parametrize("make", OPTIONS)
@pytest.mark.parametrize("seed", [0, 1, 2, 6])
def test_equalities_are_met_to_the_last_digit(make, seed):
    """Parts of a whole: the features have to add up to 1."""
    option, rng = random_option(make, seed, d=3)
    X = rng.normal(size=(4, 3))
    theta = threshold(option, X, 0.6)
    result = explain(option, theta, X, constraints=([[1, 1, 1], [-1, -1, -1]], [1, -1]), on_infeasible="skip")
    for i in range(4):
        optimum = best_program(option, theta, X[i], np.ones(3), lambda z: [cp.sum(z) == 1])
        assert result.found[i] == (optimum < np.inf)
        if result.found[i]:
            assert result.counterfactuals[i].sum() == 1
            assert option.accepts(result.counterfactuals[[i]], theta)[0]
            assert result.distances[i] == pytest.approx(optimum, rel=1e-5, abs=1e-6)


def test_two_equalities_are_met_to_the_last_digit():
    option, rng = random_option(RelativeSimilarity, 1, d=6)
    X = rng.normal(size=(10, 6))
    theta = threshold(option, X, 0.6)
    A, b = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 2, 1.0]]), np.array([1, 0.5])
    result = explain(option, theta, X, constraints=(np.vstack([A, -A]), np.append(b, -b)))
    assert ((result.counterfactuals[:, None] * A).sum(axis=2) == b).all()
    assert option.accepts(result.counterfactuals, theta).all()
    assert (result.gaps < 1e-6).all()


@pytest.mark.parametrize("theta", [1.0, 1 - 1e-15, 1 - 1e-13])
@pytest.mark.parametrize("seed", range(2))
def test_prototypes_are_certain_whatever_the_threshold(theta, seed):
    rng = np.random.default_rng(seed)
    model = PrototypeModel(rng.normal(size=(4, 5)), [0, 1, 0, 1], rng.normal(size=(5, 5)))
    option = RelativeSimilarity(model)
    X = rng.normal(size=(2, 5))
    result = explain(option, theta, X)
    assert option.accepts(result.counterfactuals, theta).all()
    assert (result.distances <= np.abs(X[:, None] - model.prototypes).sum(axis=2).min(axis=1)).all()


def test_results_share_no_memory_with_what_was_given(line):
    X, weights = np.array([[0.9, 0.3]]), np.array([1.0, 2.0])
    result = explain(line, 0.6, X, weights=weights)
    X[:], weights[:] = 7, 7
    assert result.samples.tolist() == [[0.9, 0.3]]
    assert (result[0].costs.sum(), result[0].distance) == (result[0].distance, result[0].distance)


def test_frames_keep_their_index_and_series_their_names():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    frame = pd.DataFrame([[0.9, 0.2], [1.0, 1.0]], columns=["age", "bmi"], index=["p", "q"])
    assert explain(option, 0.6, frame).to_frame().index.tolist() == ["p", "q"]
    why = explain(option, 0.6, frame.loc["p"], fixed=["bmi"])
    assert why.feature_names == ["age", "bmi"]
    assert why.changed == [0]


def test_active_linear_constraints_are_named(line):
    why = explain(line, 0.6, [0.9, 0.0], constraints=([[0, 1], [1, 0]], [1.0, 0.4]))
    assert why.active == ("linear constraint 1",)


def test_memory_beyond_the_result_does_not_grow():
    rng = np.random.default_rng(0)
    option = RelativeSimilarity(PrototypeModel(rng.normal(size=(4, 8)), [0, 1, 0, 1]))
    beyond = []
    for n in (20_000, 80_000):
        X = rng.normal(size=(n, 8))
        explain(option, 0.5, X[:10])
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        result = explain(option, 0.5, X)
        after, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(result) == n
        beyond.append(peak - after + before)
    assert beyond[1] < beyond[0] + 2e6


def test_per_class_answers(line):
    option, rng = random_option(RelativeSimilarity, 0)
    X = rng.normal(size=(20, 4))
    theta = threshold(option, X)
    per_class = explain_per_class(option, theta, X)
    for label, result in per_class.items():
        assert (result.labels == label).all()
        assert option.accepts(result.counterfactuals, theta).all()
    best = np.min([result.distances for result in per_class.values()], axis=0)
    np.testing.assert_allclose(best, explain(option, theta, X).distances, rtol=1e-9, atol=1e-12)
    one = explain_per_class(line, 0.6, [0.9, 0.0], bounds={"age": (None, 1)})
    assert one["b"] is None
    assert one["a"].distance == pytest.approx(0.9 - 2 / 3)
    with pytest.raises(ValueError, match="target"):
        explain_per_class(line, 0.6, [0.9, 0.0], target="a")


def test_target_below_zero_threshold(line):
    for option in (line, DecisionDistance(line.model)):
        why = explain(option, -1.0, [0.5, 0.0], target="b")
        assert option.predict([why.counterfactual])[0] == "b"
        assert why.distance == pytest.approx(0.5, rel=1e-9)


def test_threshold_one_leaves_the_prototypes():
    option, rng = random_option(RelativeSimilarity, 2, d=3)
    X = rng.normal(size=(4, 3))
    result = explain(option, 1.0, X)
    assert (option.certainty(result.counterfactuals) == 1).all()
    nearest = np.abs(X[:, None] - option.model.prototypes).sum(axis=2).min(axis=1)
    np.testing.assert_allclose(result.distances, nearest, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "theta", "words"),
    [
        ({}, 1.2, ["no input reaches a relative similarity of 1.2", "about 1)", "lower theta"]),
        ({"bounds": {"age": (0.8, 1.2)}}, 0.9, ["bounds", "without bounds on age", "largest threshold"]),
        ({"fixed": ["age", "bmi"]}, 0.9, ["fixing age"]),
        ({"fixed": ["age"]}, 0.9, ["without fixing age"]),
        (
            {"fixed": ["bmi"], "target": "b", "decrease_only": ["age"]},
            0.9,
            ["target 'b'", "decrease_only of age"],
        ),
        ({"increase_only": ["age"], "target": "a"}, 0.9, ["increase_only of age", "target 'a'"]),
        ({"constraints": ([[-1.0, 0.0], [1.0, 0.0]], [-0.8, 1.2])}, 0.9, ["without the linear constraints"]),
        ({"bounds": {"age": (0.8, 1.2)}, "fixed": ["age"]}, 0.9, ["bounds on age and fixing age"]),
        ({"bounds": {"age": (3, 4)}, "fixed": ["age"], "target": "b"}, 0.1, ["without"]),
        ({}, 1e6, ["about 1)"]),
        (
            {"bounds": {"age": (0.8, 1.2), "bmi": (-9, 9)}, "fixed": ["age"]},
            0.9,
            ["with bounds and fixed, no", "without bounds on age and fixing age"],
        ),
    ],
)
def test_infeasible_requests_name_the_culprit(line, options, theta, words):
    with pytest.raises(NoCounterfactualError) as caught:
        explain(line, theta, [0.9, 0.3], **options)
    for word in words:
        assert word in str(caught.value)
    result = explain(line, theta, [[0.9, 0.3], [0.0, 0.0]], on_infeasible="skip", **options)
    assert not result.found[0]
    assert np.isnan(result.counterfactuals[0]).all()
    assert result.distances[0] == result.lower_bounds[0] == np.inf
    assert result.gaps[0] == 0
    assert result.certainties[0] == result.certainties_before[0]
    assert result.reasons[0].startswith("sample 0: ")
    with pytest.raises(NoCounterfactualError, match="sample 0"):
        result[0]
    assert not np.isnan(result.to_frame()["distance"]).any()


def test_of_many_requirements_only_those_at_fault_are_named():
    d = 12
    names = [f"f{k}" for k in range(d)]
    option = RelativeSimilarity(PrototypeModel(np.eye(2, d), ["a", "b"], np.eye(2, d), names))
    box = dict.fromkeys(range(d), (-1.0, 1.0))
    x = np.zeros(d)
    x[:2], x[[5, 7]] = 0.5, 3.0
    with pytest.raises(NoCounterfactualError, match=r"bounds on f5 and f7, or without fixing f5 and f7$"):
        explain(option, 0.5, x, bounds=box, fixed=[4, 5, 6, 7])
    x[2:] = 3.0
    with pytest.raises(NoCounterfactualError, match=r"without fixing f2, f3, f4, f5, f6 and 5 others$"):
        explain(option, 0.5, x, bounds=box, fixed=list(range(2, d)))


def test_samples_outside_the_bounds_are_moved_inside(line):
    why = explain(line, 0.6, [0.0, 5.0], bounds={"bmi": (-1, 1), "age": (0.1, 0.2)})
    assert 0.1 <= why.counterfactual[0] <= 0.2
    assert -1 <= why.counterfactual[1] <= 1
    assert "age at its lower bound" in why.active
    assert why.gap <= 1e-9


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("weights", [1.0], r"weights must have shape \(2,\)"),
        ("weights", [1.0, 0.0], "weights must be positive"),
        ("weights", [1e200, 1e-200], "weights must lie between"),
        ("bounds", {"age": (0, 0.5), 0: (0.4, 1)}, "bounds must name each feature once; found 'age' twice"),
        ("weights", [1.0, np.nan], "weights must be finite"),
        ("fixed", "age", "fixed must be a list"),
        ("fixed", ["height"], "fixed must hold names"),
        ("fixed", [2], "indices from 0 to 1"),
        ("fixed", [True], "fixed must hold"),
        ("increase_only", 3, "increase_only must be a list"),
        ("bounds", [(0, 1)], "bounds must map"),
        ("bounds", {"age": 3}, "must be a pair"),
        ("bounds", {"age": (2, 1)}, "low <= high"),
        ("bounds", {"age": ("1", 2)}, "bounds.*must"),
        ("constraints", [1, 2, 3], r"pair \(A, b\)"),
        ("constraints", ([[1.0, 0.0]], [1.0, 2.0]), "b must have shape"),
        ("constraints", ([[0.0, 0.0]], [1.0]), "rows of zeros"),
        ("target", "c", "target must be one of"),
        ("on_infeasible", "ignore", "on_infeasible must be one of"),
        ("n_jobs", 0, "n_jobs"),
        ("n_jobs", "two", "n_jobs"),
    ],
)
def test_bad_arguments_are_named(line, argument, value, message):
    with pytest.raises(ValueError, match=message):
        explain(line, 0.6, [0.9, 0.0], **{argument: value})


def test_bad_options_and_samples_are_named(line):
    with pytest.raises(ValueError, match="option must be a certainty"):
        explain("relative", 0.6, [0.9, 0.0])
    with pytest.raises(ValueError, match="X must have 2 features"):
        explain(line, 0.6, [0.9, 0.0, 1.0])
    with pytest.raises(ValueError, match="theta"):
        explain(line, np.nan, [0.9, 0.0])


def test_names_of_a_data_frame(line):
    frame = pd.DataFrame({"length": [0.9], "width": [0.0]})
    result = explain(line, 0.6, frame, fixed=["width"])
    assert result.feature_names == ["length", "width"]


def test_progress_bar(line, capsys):
    explain(line, 0.6, [[0.9, 0.0]], progress=True)
    assert "explain" in capsys.readouterr().err


def test_mad_weights():
    X = np.random.default_rng(0).normal(size=(101, 3)) * [1, 10, 100]
    weights = mad_weights(X)
    np.testing.assert_allclose(weights * np.median(np.abs(X - np.median(X, axis=0)), axis=0), 1)
    with pytest.raises(ValueError, match=r"0 in \[1\]"):
        mad_weights([[0, 1], [1, 1], [2, 1]])


class Halo(Certainty):
    """Certain within a ring of balls around the origin: an option `explain` has never heard of."""

    name = "halo"

    def __init__(self, nested):
        self.classes, self.n_features, self.feature_names, self.nested = np.array(["in"]), 2, None, nested

    def certainty(self, X):
        return 1 / (1 + np.linalg.norm(np.asarray(X), axis=1))

    def predict(self, X):
        return np.full(len(X), "in")

    def cells(self, theta):
        cells = Cells.of([type(self).disc(theta)])
        return Wrapped(cells) if self.nested else cells

    @staticmethod
    def disc(theta):
        from lvqrej.cells import Cell

        return Cell((Ball([0, 0], 1 / theta - 1),))


class Wrapped:
    """An accepted set that is no `Cells`: it brings its own search."""

    def __init__(self, cells):
        self.cells = cells

    def with_label(self, label):
        return Wrapped(self.cells.with_label(label))

    def narrowed(self, extra):
        return Wrapped(self.cells.narrowed(extra))

    def nearest(self, X, weights, lower, upper, rounding, facet_rounding):
        return nearest_points(self.cells, X, weights, lower, upper, rounding, facet_rounding)

    def active(self, cell, x):
        return self.cells.active(cell, x)


@pytest.mark.parametrize("nested", [False, True])
def test_any_option_with_cells_can_be_explained(nested):
    assert isinstance(Wrapped(None), AcceptedSet)
    option = Halo(nested)
    why = explain(option, 0.5, [3.0, 0.0], target="in", constraints=([[0.0, 1.0]], [0.5]))
    assert why.counterfactual == pytest.approx([1, 0])
    assert why.active == ("a ball",)
    with pytest.raises(NotImplementedError, match="no cells"):
        Certainty.cells(option, 0.5)
