"""Counterfactuals: valid by the option's own test, as near as plain programs find, honest about the rest."""

import re
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import soak
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import as_constraints, best_program, grid_distance, meets
from random_models import random_case, random_requirements, rounding_length

import lvqrej
from lvqrej import (
    DecisionDistance,
    NoCounterfactualError,
    PrototypeModel,
    RelativeSimilarity,
    explain,
    explain_per_class,
)
from lvqrej.cells import Ball, Cell, Cells
from lvqrej.certainty import Certainty

#: What other methods find is the infimum, without room for noise.
explain, explain_per_class = (partial(call, noise=0) for call in (explain, explain_per_class))

OPTIONS = {
    "relative similarity": RelativeSimilarity,
    "metric": DecisionDistance,
    "euclidean": lambda model: DecisionDistance(model, "euclidean"),
}
every_option = pytest.mark.parametrize("make", OPTIONS.values(), ids=OPTIONS)
NAN, INF = float("nan"), float("inf")


def random_option(make, seed, d=4, m=6, classes=3):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(int(rng.integers(1, d + 1)), d))
    return make(PrototypeModel(rng.normal(size=(m, d)), np.arange(m) % classes, L)), rng


def threshold(option, X, quantile=0.7):
    return float(np.quantile(option.certainty(X), quantile))


@pytest.fixture
def line():
    return RelativeSimilarity(
        PrototypeModel([[0.0, 0.0], [2.0, 0.0]], ["a", "b"], feature_names=["age", "bmi"])
    )


def worst_noise(option, Z, size):
    """Return the corners of relative noise of a size at which the certainty of points is least."""
    steps = 1e-6 * np.eye(Z.shape[1])
    slopes = np.stack([option.certainty(Z + step) - option.certainty(Z - step) for step in steps], axis=1)
    return Z * (1 - size * np.sign(slopes * Z))


@every_option
def test_answers_hold_under_the_noise_that_hurts_most(make):
    """Far from the origin, where relative noise is large beside the distances."""
    option, rng = random_option(make, 5)
    option = make(PrototypeModel(option.model.prototypes + 100, option.model.labels, option.model.L))
    X = rng.normal(size=(60, 4)) + 100
    theta = threshold(option, X)
    result = lvqrej.explain(option, theta, X[option.certainty(X) < theta])
    assert result.firm.all()
    assert option.accepts(worst_noise(option, result.counterfactuals, 1e-9), theta).all()
    assert option.accepts(worst_noise(option, result.counterfactuals, 1e-4), theta).mean() < 0.1


# Optimal and valid

REQUIREMENTS = {
    "nothing": {},
    "fixed and one way": {"fixed": [0], "increase_only": [1], "decrease_only": [2]},
    "bounds": {"bounds": {0: (-0.7, 0.6), 1: (None, 1.0), 2: (-2, None), 3: (0.2, 0.2)}},
    "constraints": {"constraints": (np.array([[1, -1, 0, 0], [0, 1, 1, 1.0]]), np.array([0.4, 0.5]))},
    "target": {"target": 1},
    "all": {
        "target": 2, "fixed": [3], "increase_only": [0], "bounds": {1: (-1, 1)},
        "constraints": (np.array([[0, 1, 1, 0.0]]), np.array([0.5])),
    },
}  # fmt: skip


@every_option
@pytest.mark.parametrize("asked", REQUIREMENTS.values(), ids=REQUIREMENTS)
def test_answers_are_valid_and_as_near_as_the_best_plain_program(make, asked):
    found = 0
    for seed in range(2):
        option, rng = random_option(make, seed)
        X, w = 2 * rng.normal(size=(30, 4)), rng.uniform(0.5, 2, size=4)
        theta = threshold(option, X)
        result = explain(option, theta, X, weights=w, on_infeasible="skip", **asked)
        there = result.found
        found += there.sum()
        Z = result.counterfactuals
        assert meets(option, theta, asked, X[there], Z[there]).all()
        np.testing.assert_array_equal(result.labels[there], option.predict(Z[there]))
        np.testing.assert_array_equal(result.certainties[there], option.certainty(Z[there]))
        np.testing.assert_allclose(result.distances[there], np.abs(Z - X)[there] @ w)
        assert (result.gaps <= 1e-6).all()
        for i in np.flatnonzero((option.certainty(X) < theta) | ~there)[:2]:
            optimum = best_program(option, theta, X[i], w, as_constraints(asked, X[i]), asked.get("target"))
            assert there[i] == (optimum < np.inf)
            if there[i]:
                assert result.distances[i] == pytest.approx(optimum, rel=1e-5, abs=1e-6)
                assert result.lower_bounds[i] <= optimum * (1 + 1e-6) + 1e-7
    assert found > 10


@every_option
def test_the_optimum_agrees_with_a_fine_grid(make):
    option, rng = random_option(make, 1, d=2, m=4, classes=2)
    X = rng.normal(size=(12, 2))
    theta = threshold(option, X, 0.6)
    for x in X[option.certainty(X) < theta][:3]:
        why = explain(option, theta, x)
        width = 1.2 * why.distance + 1e-3
        brute = grid_distance(option, theta, x, width)
        assert why.distance <= brute * (1 + 1e-9)
        assert brute - why.distance <= 8 * width / 400


def test_the_published_constraints_of_decision_distance_are_neither_sufficient_nor_necessary():
    option, x = DecisionDistance(PrototypeModel([[0, 0], [0, 4], [2, 0]], ["A", "A", "B"])), [0.6, 2.1]
    assert option.certainty([[0.5, 2.1]])[0] == pytest.approx(0.07, abs=5e-3)  # what they would answer
    why = explain(option, 0.25, x)
    assert why.certainty >= 0.25
    assert grid_distance(option, 0.25, np.array(x), 1.5) == pytest.approx(why.distance, abs=0.01)
    option = DecisionDistance(PrototypeModel([[0, 0], [2, 0], [0, 10]], ["A", "B", "B"]))
    assert explain(option, 0.25, [0.6, 2.6]).distance == pytest.approx(0.1, rel=1e-9)


@every_option
@pytest.mark.parametrize("constraints", [None, ([[1.0, 1.0, 0.0, 0.0]], [2.0])], ids=["free", "constrained"])
def test_a_batch_gives_what_each_sample_gets_alone(make, constraints):
    option, rng = random_option(make, 1)
    X = 2 * rng.normal(size=(60, 4))
    theta = threshold(option, X, 0.8)
    batch = explain(option, theta, X, constraints=constraints)
    for i, x in enumerate(X):
        one = explain(option, theta, x, constraints=constraints)
        np.testing.assert_allclose(one.counterfactual, batch.counterfactuals[i], rtol=1e-9, atol=1e-9)
        assert one.lower_bound == pytest.approx(batch.lower_bounds[i], rel=1e-9, abs=1e-12)
        assert (one.path == "accepted") == (batch.paths[i] == "accepted")  # the test itself has the same bits


def test_two_jobs_give_the_same():
    option, rng = random_option(RelativeSimilarity, 1)
    X = 2 * rng.normal(size=(5000, 4))
    theta = threshold(option, X, 0.5)
    for samples, asked in ((X, {}), (X[:40], {"constraints": ([[1.0, 1.0, 0.0, 0.0]], [2.0])})):
        alone, both = (explain(option, theta, samples, n_jobs=n, **asked) for n in (1, 2))
        np.testing.assert_allclose(both.counterfactuals, alone.counterfactuals, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(both.lower_bounds, alone.lower_bounds, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(both.labels, alone.labels)


# Special samples, thresholds, requirements


def test_accepted_samples_are_their_own_counterfactuals(line):
    result = explain(line, 0.6, [[0.0, 0.0], [0.1, 0.1], [0.9, 0.0]])
    assert result.distances.tolist()[:2] == result.gaps.tolist()[:2] == [0, 0]
    np.testing.assert_array_equal(result.counterfactuals[:2], [[0, 0], [0.1, 0.1]])
    assert result.paths == ["accepted", "accepted", "homotopy"]
    assert explain(line, 0.6, [0.0, 0.0], target="b").distance == pytest.approx(4 / 3)
    assert len(explain(line, 0.6, np.empty((0, 2)))) == 0


@pytest.mark.parametrize("theta", [1.0, 1 - 1e-15, 1 - 1e-13, 1 - 1e-8])
def test_prototypes_are_certain_whatever_the_threshold(theta):
    for seed in range(3):
        option, rng = random_option(RelativeSimilarity, seed, d=5)
        X = rng.normal(size=(4, 5))
        result = explain(option, theta, X)
        assert (option.certainty(result.counterfactuals) >= theta).all()
        assert (
            result.distances <= np.abs(X[:, None] - option.model.prototypes).sum(axis=2).min(axis=1)
        ).all()


@every_option
def test_twins_of_two_classes_are_nobodys_counterfactual(make):
    option = make(PrototypeModel([[0.0, 0], [0, 0], [4, 0], [0, 9]], ["a", "b", "a", "b"]))
    result = explain(option, 0.3, [[0.0, 0.0], [0.5, 0.1], [2.0, 1.0]])
    assert (option.certainty(result.counterfactuals) >= 0.3).all()
    assert (result.gaps < 1e-6).all()


@every_option
def test_below_zero_everything_is_accepted_and_a_target_is_a_region(make):
    option = make(PrototypeModel([[0.0, 0.0], [2.0, 0.0]], ["a", "b"]))
    why = explain(option, -1.0, [0.5, 0.0], target="b")
    assert option.predict([why.counterfactual])[0] == "b"
    assert why.distance == pytest.approx(0.5, rel=1e-9)
    assert explain(option, -1.0, [0.5, 0.0]).distance == 0


@every_option
@pytest.mark.parametrize("zeros", [False, True])
def test_equalities_hold_to_rounding(make, zeros):
    """Parts of a whole: a sample of zeros only gives no size to compare with."""
    option, rng = random_option(make, 2, d=3)
    X = np.zeros((1, 3)) if zeros else rng.normal(size=(4, 3))
    theta, b = threshold(option, rng.normal(size=(50, 3))), 0.0 if zeros else 1.0
    a = np.array([1.0, -0.7, 1 / 3])
    result = explain(option, theta, X, constraints=([a, -a], [b, -b]), on_infeasible="skip")
    for i, x in enumerate(X):
        optimum = best_program(option, theta, x, np.ones(3), lambda z: [a @ z == b])
        assert result.found[i] == (optimum < np.inf)
        if result.found[i]:
            z = result.counterfactuals[i]
            assert abs(a @ z - b) <= 1e-9 * (np.abs(a) @ np.abs(z) + b)
            assert result.distances[i] == pytest.approx(optimum, rel=1e-5, abs=1e-6)
    assert result.found.any()


def test_samples_outside_the_bounds_are_moved_inside_at_their_cost(line):
    why = explain(line, 0.6, [0.0, 5.0], bounds={"bmi": (-1, 0.5), "age": (0.1, 0.2)}, weights=[1, 2])
    assert why.counterfactual.tolist() == [0.1, 0.5]
    assert why.distance == pytest.approx(0.1 + 9.0)
    assert why.gap <= 1e-9


def test_a_cell_that_constraints_leave_empty_is_passed_over(line):
    why = explain(line, 0.6, [1.9, 1.0], constraints=([[1, 0]], [1.0]))
    optimum = best_program(line, 0.6, np.array([1.9, 1.0]), np.ones(2), lambda z: [z[0] <= 1])
    assert why.distance == pytest.approx(optimum, rel=1e-6)
    assert why.gap < 1e-9


def test_empty_cells_leave_no_gap_where_the_metric_ignores_a_direction():
    """There the sum of the constraints that proves a cell empty has a slope of rounding and no curvature."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        option = RelativeSimilarity(
            PrototypeModel(rng.normal(size=(6, 2)), [0, 1] * 3, rng.normal(size=(1, 2)))
        )
        A, b, X = rng.normal(size=(3, 2)), rng.normal(size=3) - 0.5, rng.normal(size=(6, 2))
        assert (explain(option, 0.3, X, constraints=(A, b), on_infeasible="skip").gaps < 1e-6).all()


def test_per_class_answers(line):
    option, rng = random_option(RelativeSimilarity, 0)
    X = rng.normal(size=(20, 4))
    theta = threshold(option, X)
    per_class = explain_per_class(option, theta, X)
    for label, result in per_class.items():
        assert (result.labels == label).all()
        assert meets(option, theta, {"target": label}, X, result.counterfactuals).all()
    best = np.min([result.distances for result in per_class.values()], axis=0)
    np.testing.assert_allclose(best, explain(option, theta, X).distances, rtol=1e-9, atol=1e-12)
    one = explain_per_class(line, 0.6, [0.9, 0.0], bounds={"age": (None, 1)})
    assert one["b"] is None
    assert one["a"].distance == pytest.approx(0.9 - 2 / 3)


# What goes in and out


def test_data_frames_keep_index_and_names_and_series_are_single_samples():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"], feature_names=["age", "bmi"]))
    frame = pd.DataFrame([[0.9, 0.2], [1.0, 1.0]], columns=["age", "bmi"], index=["p", "q"])
    assert explain(option, 0.6, frame).to_frame().index.tolist() == ["p", "q"]
    why = explain(option, 0.6, frame.loc["p"], fixed=["bmi"])
    assert (why.feature_names, why.changed) == (["age", "bmi"], [0])
    renamed = explain(option, 0.6, frame.set_axis(["length", "width"], axis=1), fixed=["width"])
    assert renamed.feature_names == ["length", "width"]
    for shuffled in (frame[["bmi", "age"]], frame[["bmi", "age"]].loc["p"]):
        with pytest.raises(
            ValueError, match=r"X must have its features in the order \['age', 'bmi'\]; found"
        ):
            explain(option, 0.6, shuffled)


def test_results_share_no_memory_with_what_was_given(line):
    X, weights, A, b = np.array([[0.9, 0.3]]), np.array([1.0, 2.0]), np.array([[1.0, 0.0]]), np.array([0.5])
    result = explain(line, 0.6, X, weights=weights, constraints=(A, b))
    before = str(result[0]), result[0].active, result[0].distance
    X[:], weights[:], A[:], b[:] = 7, 7, 7, 7
    assert result.samples.tolist() == [[0.9, 0.3]]
    assert (str(result[0]), result[0].active, float(result[0].costs.sum())) == before


def test_memory_beyond_the_result_does_not_grow():
    rng = np.random.default_rng(0)
    option = RelativeSimilarity(PrototypeModel(rng.normal(size=(2, 8)), [0, 1]))
    beyond = []
    for n in (10_000, 40_000):
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


def test_progress_is_shown(line, capsys):
    explain(line, 0.6, [[0.9, 0.0]], progress=True)
    assert "explain" in capsys.readouterr().err


# No counterfactual: which requirement is at fault, and only with a proof that there is none


@pytest.mark.parametrize(
    ("asked", "theta", "words"),
    [
        ({}, 1.2, ["no input reaches a relative similarity of 1.2", "about 1)", "lower theta"]),
        ({}, 1e6, ["about 1)"]),
        ({"bounds": {"age": (0.8, 1.2)}}, 0.9, ["with bounds", "about 0.3846", "without bounds on age"]),
        ({"fixed": ["age", "bmi"]}, 0.9, ["with fixed", "without fixing age"]),
        ({"increase_only": ["age"], "target": "a"}, 0.9, ["increase_only of age", "target 'a'"]),
        (
            {"fixed": ["bmi"], "target": "b", "decrease_only": ["age"]},
            0.9,
            ["without the target 'b', or without decrease_only of age"],
        ),
        ({"constraints": ([[-1.0, 0.0], [1.0, 0.0]], [-0.8, 1.2])}, 0.9, ["without the linear constraints"]),
        ({"constraints": ([[1, 0], [-1, 0]], [0, -1])}, 0.5, ["without the linear constraints"]),
        (
            {"bounds": {"age": (0.8, 1.2), "bmi": (-9, 9)}, "fixed": ["age"]},
            0.9,
            ["with bounds and fixed, no", "without bounds on age and fixing age"],
        ),
        ({"bounds": {"age": (3, 4)}, "fixed": ["age"], "target": "b"}, 0.1, ["without"]),
        (
            {"increase_only": ["age"], "decrease_only": ["age"]},
            0.9,
            ["without increase_only of age, or without decrease_only of age"],
        ),
    ],
)
def test_infeasible_requests_name_the_requirement_at_fault(line, asked, theta, words):
    with pytest.raises(NoCounterfactualError) as caught:
        explain(line, theta, [0.9, 0.3], **asked)
    for word in words:
        assert word in str(caught.value)
    result = explain(line, theta, [[0.9, 0.3], [0.0, 0.0]], on_infeasible="skip", **asked)
    assert not result.found[0]
    assert np.isnan(result.counterfactuals[0]).all()
    assert (result.distances[0], result.gaps[0]) == (np.inf, 0)
    assert result.certainties[0] == result.certainties_before[0]
    assert result.reasons[0] == f"sample 0: {caught.value}"
    with pytest.raises(NoCounterfactualError, match="sample 0"):
        result[0]
    assert ("no input reaches" in result.reasons[0]) == np.isinf(result.lower_bounds[0])
    assert ("no input was found that reaches" in result.reasons[0]) == np.isfinite(result.lower_bounds[0])
    # What is at fault is so: where one requirement is blamed, it is possible without it.
    if len(asked) == 1:
        explain(line, theta, [0.9, 0.3])


def test_both_a_proof_and_the_lack_of_one_occur(line):
    """Rounding leaves no proof where a far away change might help: then it is not claimed."""
    proven = explain(DecisionDistance(line.model), 0.9, [[0.9, 0.3]], fixed=["age"], on_infeasible="skip")
    assert proven.lower_bounds[0] == np.inf
    open_ = explain(line, 0.6, [[0.9, 0.3]], constraints=([[-1, -0.3]], [-50]), on_infeasible="skip")
    assert 1e6 < open_.lower_bounds[0] < np.inf


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


def test_reasons_are_found_out_when_asked_for_and_once(line):
    class Counting(RelativeSimilarity):
        searches = 0

        def cells(self, theta):
            type(self).searches += 1
            return super().cells(theta)

    option = Counting(line.model)
    result = explain(option, 0.9, [[0.9, 0.3]] * 3, fixed=["age"], on_infeasible="skip")
    assert (list(result.reasons), len(result.reasons), Counting.searches) == ([0, 1, 2], 3, 1)
    reason = result.reasons[1]
    after = Counting.searches
    assert after > 1
    assert result.reasons[1] == reason
    assert Counting.searches == after
    with pytest.raises(KeyError):
        explain(line, 0.5, [[0.0, 0.0]]).reasons[0]


# Options and sets of one's own


class Halo(Certainty):
    """Certain within a disc around the origin: an option that `explain` has never heard of."""

    name = "halo"
    classes = np.array(["out", "in"])
    n_features = 2

    def __init__(self, wrap):
        self.wrap = wrap

    def certainty(self, X):
        return 1 / (1 + np.linalg.norm(np.asarray(X), axis=1))

    def predict(self, X):
        return np.full(len(X), "in")

    def cells(self, theta):
        cells = Cells.of([Cell((Ball([0, 0], 1 / theta - 1),), label=1)] if theta <= 1 else [])
        return Wrapped(cells) if self.wrap else cells


class Wrapped:
    """An accepted set that is no `Cells`: it brings its own search."""

    gap = 0.0

    def __init__(self, cells):
        self.inner = cells

    def with_label(self, label):
        return Wrapped(self.inner.with_label(label))

    def narrowed(self, pieces, label=None):
        return Wrapped(self.inner.narrowed(pieces, label))

    def nearest(self, X, weights, lower, upper, margin):
        return self.inner.nearest(X, weights, lower, upper, margin)

    def active(self, cell, x):
        return self.inner.active(cell, x)


@pytest.mark.parametrize("wrap", [False, True])
def test_any_option_with_an_accepted_set_can_be_explained(wrap):
    option, asked = Halo(wrap), {"target": "in", "constraints": ([[0.0, 1.0]], [0.5])}
    why = explain(option, 0.5, [3.0, 0.0], **asked)
    assert why.counterfactual == pytest.approx([1, 0])
    assert (why.active, why.label) == (("a ball",), "in")
    assert not explain(option, 0.5, [[3.0, 0.0]], on_infeasible="skip", **(asked | {"target": "out"})).found[
        0
    ]
    assert not explain(option, 1.5, [[3.0, 0.0]], on_infeasible="skip", **asked).found[0]


def test_the_certainty_that_contributors_are_shown_is_explained_like_any_other(capsys):
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    shown = {}
    exec(code, shown)  # our own text
    assert "it would be accepted as left" in capsys.readouterr().out
    option, X = shown["option"], 3 * np.random.default_rng(0).normal(size=(25, 2))
    for theta, asked in (
        (0.5, {}),
        (0.7, {"target": "top"}),
        (-1.0, {"target": "right"}),
        (0.99, {"bounds": {1: (0, 9)}}),
    ):
        result = explain(option, theta, X, **asked)
        assert meets(option, theta, asked, X, result.counterfactuals).all()
        assert (result.gaps < 1e-6).all()
        assert (result.counts > 0).any()
    for x, why in zip(X[:4], explain(option, 0.5, X[:4]), strict=True):
        assert why.distance <= grid_distance(option, 0.5, x, 8.0) * (1 + 1e-9)
        assert grid_distance(option, 0.5, x, 8.0) - why.distance < 0.1
    assert not explain(option, 1.1, X[:1], on_infeasible="skip", constraints=([[1, 0]], [9])).found[0]


# Properties over random models, ordinary and nasty

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=20)


@settings(max_examples=60)
@given(seeds)
def test_valid_and_certified_whatever_is_asked(seed):
    case = random_case(seed)
    asked = random_requirements(case, seed, share=0.5)
    result = explain(case.option, case.theta, case.X, weights=case.weights, on_infeasible="skip", **asked)
    soak.check(case, asked, result)


@few
@given(seeds)
def test_invariant_under_permutations(seed):
    case = random_case(seed, max_features=13, exact=False)
    rng, model = np.random.default_rng(seed), case.option.model
    result = explain(case.option, case.theta, case.X, weights=case.weights)
    features, order = rng.permutation(case.X.shape[1]), rng.permutation(len(model.labels))
    renamed = 7 - model.labels  # the classes come in reverse order
    other = PrototypeModel(model.prototypes[order][:, features], renamed[order], model.L[:, features])
    norm = {"norm": case.option.norm} if isinstance(case.option, DecisionDistance) else {}
    option = type(case.option)(other, **norm)
    permuted = explain(option, case.theta, case.X[:, features], weights=case.weights[features])
    slack = 100 * rounding_length(case)
    assert (permuted.lower_bounds <= result.distances * (1 + 1e-9) + slack).all()
    assert (result.lower_bounds <= permuted.distances * (1 + 1e-9) + slack).all()


@few
@given(seeds)
def test_equivariant_under_scaling_and_monotone_in_what_is_asked(seed):
    case = random_case(seed, max_features=8, exact=False)
    rng, model = np.random.default_rng(seed), case.option.model
    full = explain(case.option, case.theta, case.X, weights=case.weights)
    slack = 1e-9 * full.distances + 100 * rounding_length(case)
    fixed = explain(case.option, case.theta, case.X, weights=case.weights, fixed=[0], on_infeasible="skip")
    assert (fixed.distances >= full.lower_bounds - slack).all()
    if isinstance(case.option, RelativeSimilarity):
        lower = explain(case.option, 0.5 * case.theta, case.X, weights=case.weights)
        assert (lower.lower_bounds <= full.distances + slack).all()
    if getattr(case.option, "norm", "metric") == "metric":  # the Euclidean D changes with the units
        scale = 2.0 ** rng.integers(-8, 9, size=case.X.shape[1])
        scaled = type(case.option)(PrototypeModel(model.prototypes * scale, model.labels, model.L / scale))
        other = explain(scaled, case.theta, case.X * scale, weights=case.weights / scale)
        np.testing.assert_allclose(other.distances, full.distances, rtol=1e-9, atol=float(slack.max()))


def test_a_short_soak():
    summary = soak.run(320, seed=7)
    assert (summary["cases"], summary["failures"]) == (320, 0)
    assert summary["share of gaps above 1e-06"] < 0.02
