"""Answers that can be carried out: against sampled errors, plain programs, all whole numbers, all steps."""

from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pytest
from random_rejects import EXACT, KINDS, random_option, random_reject

from lvqrej import (
    GMLVQ,
    DecisionDistance,
    NoCounterfactualError,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    explain,
)
from lvqrej.variants import robust


def assert_holds(option, theta, why, error, seed=0):
    """Assert that all corners and 1,000 sampled errors of the changed features leave it accepted."""
    changed = why.counterfactual != why.sample
    errors = np.random.default_rng(seed).uniform(-1, 1, size=(1000, len(error))) * error * changed
    sides = np.array(list(product([-1, 1], repeat=int(changed.sum()))), dtype=float)
    corners = np.zeros((len(sides), len(error)))
    corners[:, changed] = sides * error[changed]
    points = why.counterfactual + np.vstack([errors, corners])
    assert option.accepts(points, theta).all()
    assert (option.predict(points) == why.label).all()
    assert why.worst_certainty <= option.certainty(points).min() + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_class", [1, 2])
def test_answers_hold_for_every_error(kind, per_class):
    for seed in range(3 if kind in EXACT else 1):
        option, theta, x, options = random_reject(kind, seed, 5, 0.5, per_class=per_class)
        error = np.random.default_rng(seed).uniform(0.01, 0.06, size=5)
        why = robust(option, theta, x, error=error, effort=20 if kind in EXACT else 5, **options)
        assert_holds(option, theta, why, error)
        near = explain(option, theta, x, **options)
        assert near.lower_bound <= why.lower_bound <= why.distance


@pytest.fixture(scope="module")
def probable():
    """Return a probabilistic certainty of three classes, a threshold and rejects."""
    rng, y = np.random.default_rng(0), np.repeat([0, 1, 2], 30)
    X = rng.normal(size=(90, 3))
    X[np.arange(90), y] += 2
    option = ProbabilisticCertainty(GMLVQ(random_state=0), cv=3).fit(X, y)
    theta = float(np.quantile(option.certainty(X), 0.4))
    return option, theta, X[option.certainty(X) < theta]


def test_errors_that_would_lead_to_another_class_are_no_way(probable):
    """Errors as large as the distance between the classes: all of them accepted is not enough."""
    option, theta, X = probable
    for x in X[[1, 3]]:
        answers = robust(option, theta, [x], error=2.0, effort=6, on_infeasible="skip")
        if answers.found[0]:
            assert_holds(option, theta, answers[0], np.full(3, 2.0))


def test_without_errors_the_bound_is_that_of_the_nearest_answer(probable):
    option, theta, X = probable
    near, same = explain(option, theta, X[:8]), robust(option, theta, X[:8])
    assert near.gaps.max() > 1e-6  # there is something to be honest about
    np.testing.assert_allclose(same.distances, near.distances, rtol=1e-9)
    np.testing.assert_allclose(same.lower_bounds, near.lower_bounds, rtol=1e-9)


@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
def test_the_nearest_robust_answer_by_plain_programs(make):
    """With one cell per class all errors have to stay in it: all sets of features, all corners, CVXPY."""
    rng = np.random.default_rng(2)
    option = make(PrototypeModel(rng.normal(size=(2, 3)), [0, 1], rng.normal(size=(3, 3))))
    error = np.array([0.05, 0.1, 0.02])
    theta = float(np.quantile(option.certainty(rng.normal(size=(100, 3))), 0.5))
    rejected = [x for x in rng.normal(size=(6, 3)) if not option.accepts([x], theta)[0]]
    assert len(rejected) >= 2
    for x in rejected:
        values = []
        for chosen in [c for n in (1, 2, 3) for c in combinations(range(3), n)]:
            sides = [np.array(s) * error * np.isin(range(3), chosen) for s in product([-1, 1], repeat=3)]
            kept = [k for k in range(3) if k not in chosen]
            for cell in option.cells(theta):
                z = cp.Variable(3)
                rows = [z[kept] == x[kept]] if kept else []
                rows += [cp.norm(b.L @ (z + e - b.centre)) <= b.radius for b in cell.balls for e in sides]
                rows += [h.normal @ (z + e) + h.offset >= 0 for h in cell.half_spaces for e in sides]
                program = cp.Problem(cp.Minimize(cp.norm1(z - x)), rows)
                program.solve(cp.CLARABEL)
                values.append(np.inf if program.value is None else program.value)
        why = robust(option, theta, x, error=error)
        assert why.distance == pytest.approx(min(values), rel=1e-5)
        assert why.lower_bound <= min(values) * (1 + 1e-6)
        assert_holds(option, theta, why, error)


def test_many_errors_at_once():
    rng = np.random.default_rng(0)
    d = 14
    option = RelativeSimilarity(PrototypeModel([[0] * d, [1] * d], [0, 1]))
    x, bounds, error = np.full(d, 0.5), dict.fromkeys(range(d), (0.25, 0.75)), np.full(d, 0.01)
    near = explain(option, 0.6, x, bounds=bounds)
    assert len(near.changed) > 10
    why = robust(option, 0.6, x, error=error, bounds=bounds, effort=5)
    errors = rng.choice([-1.0, 1.0], size=(1000, d)) * error * (why.counterfactual != x)
    assert option.accepts(why.counterfactual + errors, 0.6).all()
    half = (np.ones((1, d)), [d / 2.0])
    with pytest.raises(NoCounterfactualError, match="without error"):
        robust(option, 0.6, x, error=9.0, bounds=bounds, constraints=half, effort=3)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_matter_and_whole_numbers_by_brute_force(kind):
    for seed in range(3 if kind in EXACT else 1):
        option, theta, x, _ = random_reject(kind, seed + 7, 2, 0.5)
        scale, step, effort = 4.0, 0.6, 400 if kind in EXACT else 80
        start = np.round(x * scale) / scale
        grid = np.stack(np.meshgrid(*[np.arange(-40, 41) / scale] * 2), -1).reshape(-1, 2)
        big = random_option(kind, seed + 7, 2, scale=scale)  # its whole numbers are quarters
        accepted, moves = big.accepts(grid * scale, theta), np.abs(grid - start)
        distance = moves.sum(axis=1) * scale
        why = robust(big, theta, start * scale, integers=[0, 1], effort=effort)
        assert why.distance == pytest.approx(distance[accepted].min(), abs=1e-9)
        assert why.gap <= 1e-6 if kind in EXACT else why.lower_bound <= why.distance
        assert (why.counterfactual == np.round(why.counterfactual)).all()
        large = ((moves == 0) | (moves >= step)).all(axis=1)
        both = robust(big, theta, start * scale, integers=[0, 1], least=step * scale, effort=effort)
        assert both.distance == pytest.approx(distance[accepted & large].min(), abs=1e-9)
        least = robust(option, theta, x, least={0: 0.5, 1: 0.3}, effort=effort)
        assert all(change == 0 or change >= m for change, m in zip(abs(least.delta), (0.5, 0.3), strict=True))
        assert least.distance == pytest.approx(nearest_of_steps(option, theta, x, (0.5, 0.3)), rel=2e-3)


def nearest_of_steps(option, theta, x, least):
    """Return the smallest distance over all combinations of none, up and down."""
    best = np.inf
    for signs in product((0, 1, -1), repeat=len(x)):
        bounds = {
            k: (x[k], x[k]) if not s else (x[k] + m, None) if s > 0 else (None, x[k] - m)
            for k, (s, m) in enumerate(zip(signs, least, strict=True))
        }
        best = min(best, explain(option, theta, x[None], bounds=bounds, on_infeasible="skip").distances[0])
    return best


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("seed", range(3))
def test_an_equality_holds_for_what_is_intended(kind, seed):
    """A budget that is neither to grow nor to shrink, in units that no binary fraction meets."""
    option, theta, x, options = random_reject(kind, seed, 4, 0.6)
    row = np.array([0.1, 0.7, -0.3, 0.2])
    equality = (np.array([row, -row]), [float(row @ x), -float(row @ x)])
    error = np.full(4, 0.02)
    near = explain(option, theta, x, constraints=equality, **options)
    why = robust(option, theta, x, error=error, constraints=equality, **options)
    assert row @ why.counterfactual == pytest.approx(row @ x, abs=2e-9 * (np.abs(row) @ np.abs(x)))
    assert_holds(option, theta, why, error)
    assert near.lower_bound <= why.lower_bound * (1 + 1e-6)
    both = robust(option, theta, x, least=0.2, constraints=equality, **options)
    assert ((both.delta == 0) | (np.abs(both.delta) >= 0.2)).all()


def test_accepted_samples_stay_and_batches_do_not_depend_on_jobs():
    option, theta, x, _ = random_reject(KINDS[0], 1, 5)
    inside = explain(option, theta, x).counterfactual
    same = robust(option, theta, inside, error=0.1)
    assert (same.distance, same.changed) == (0, [])
    batch = robust(option, theta, [x, inside], error=0.02)
    two = robust(option, theta, [x, inside], error=0.02, n_jobs=2, progress=True)
    np.testing.assert_array_equal(two.counterfactuals, batch.counterfactuals)
    assert list(batch.to_frame()["worst_certainty"]) == batch.worst_certainties.tolist()
    assert len(robust(option, theta, np.empty((0, 5)), error=0.1)) == 0


def test_what_cannot_be_carried_out_names_the_culprit():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"], feature_names=["age", "bmi"]))
    with pytest.raises(NoCounterfactualError, match=r"no change .* one exists without error$"):
        robust(option, 0.6, [9, 0], error={"age": 30.0})
    with pytest.raises(
        NoCounterfactualError, match="without least, or without target, or without bounds of age"
    ):
        robust(option, 0.6, [9, 0], least={"age": 5}, bounds={"age": (5, 20)}, target="a")
    with pytest.raises(
        NoCounterfactualError, match=r"there is no change .* without integers, or without bounds of age"
    ):
        robust(option, 0.6, [9, 0], integers=["age"], bounds={"age": (6.1, 13.1)})
    with pytest.raises(NoCounterfactualError, match="fixing age"):
        robust(option, 0.6, [9, 0], error=1.0, fixed=["age"])
    skipped = robust(option, 0.6, [[9, 0], [8, 0]], error={"age": 30.0}, on_infeasible="skip")
    assert not skipped.found.any()
    assert "sample 1: with error" in skipped.reasons[1]
    with pytest.raises(NoCounterfactualError, match="without error"):
        skipped[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": -1}, "error must be at least 0"),
        ({"error": {"size": 1}}, "error must hold names of features"),
        ({"error": [1.0]}, r"error must have shape \(2,\)"),
        ({"error": [1.0, -1.0]}, "error must be finite and at least 0"),
        ({"error": np.inf}, "error must be finite and at least 0"),
        ({"least": "much"}, "least must be a number"),
        ({"integers": [1]}, "X must hold whole numbers .* found 0.5"),
        ({"effort": 0}, "effort must be at least 1"),
    ],
)
def test_bad_input_is_named(options, message):
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"]))
    with pytest.raises(ValueError, match=message):
        robust(option, 0.6, [9, 0.5], **options)
