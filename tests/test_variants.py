"""Sparser, several, robust, plausible: against brute force, plain programs and sampled errors."""

from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import best_program

from lvqrej import (
    DecisionDistance,
    NoCounterfactualError,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    explain,
)
from lvqrej.counterfactual import accepted_set
from lvqrej.engine.requirements import check_requirements
from lvqrej.engine.validity import valid_answers
from lvqrej.pairwise.joint_cells import JointCells
from lvqrej.variants import plausible, robust, several, sparsest, trade_off
from lvqrej.varying.hitting import fewest_changes
from lvqrej.varying.plausibility import Plausible
from lvqrej.varying.reach import Reach
from lvqrej.varying.tightening import tightened

KINDS = ("relative similarity", "decision distance", "two classes", "three classes")


def random_option(kind, rng, d, per_class=1):
    """Return a random reject option of one of the kinds; probabilistic ones have two or three classes."""
    classes = 2 if kind == "two classes" else 3
    if kind in KINDS[:2]:
        m = classes * per_class
        model = PrototypeModel(
            rng.normal(size=(m, d)), np.arange(m) % classes, rng.normal(size=(d, d)) / d**0.5
        )
        return (RelativeSimilarity if kind == KINDS[0] else DecisionDistance)(model)
    models = {
        pair: PrototypeModel(
            rng.normal(size=(2 * per_class, d)),
            list(pair) * per_class,
            np.eye(d) + 0.2 * rng.normal(size=(d, d)),
        )
        for pair in combinations(range(classes), 2)
    }
    slope = -4 - 2 * rng.random((classes, classes))
    slope = np.tril(slope, -1) + np.tril(slope, -1).T
    shift = np.triu(0.3 * rng.normal(size=(classes, classes)), 1)
    return ProbabilisticCertainty.from_pairs(models, slope, shift - shift.T, np.arange(classes))


def problem(kind, seed, d, quantile=0.8, width=None, per_class=1):
    """Return an option, a threshold, a rejected sample and options of explain: bounds make it need more."""
    rng = np.random.default_rng(seed)
    option = random_option(kind, rng, d, per_class)
    X = rng.normal(size=(200, d))
    certainty = option.certainty(X)
    theta = float(np.quantile(certainty, quantile))
    x = X[certainty < theta][seed]
    wide = {} if width is None else {"bounds": {k: (x[k] - width, x[k] + width) for k in range(d)}}
    return option, theta, x, {"weights": rng.uniform(0.5, 2, size=d), **wide}


def only(features, d):
    return [k for k in range(d) if k not in features]


def distance_of(option, theta, x, chosen, options):
    """Return the distance of the nearest answer that changes only the chosen features, by the engine."""
    required = check_requirements(
        len(x), None, option.classes, **options, fixed=[k for k in range(len(x)) if k not in chosen]
    )
    return valid_answers(option, theta, accepted_set(option, theta, required), required, x[None]).distances[0]


def brute_force(option, theta, x, options, most):
    """Return the best distance of every number of features up to `most`, by trying all sets of them."""
    best = []
    for size in range(1, most + 1):
        sets = combinations(range(len(x)), size)
        best.append(min([*(distance_of(option, theta, x, chosen, options) for chosen in sets), *best[-1:]]))
    return best


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize(("seed", "d", "width"), [(0, 12, 0.9), (1, 12, None), (2, 9, 0.5)])
def test_sparsest_equals_brute_force(kind, seed, d, width):
    option, theta, x, options = problem(kind, seed, d, width=width)
    near = explain(option, theta, x[None], on_infeasible="skip", **options)
    if not near.found[0]:
        with pytest.raises(NoCounterfactualError, match="bounds"):
            sparsest(option, theta, x, **options)
        return
    why = sparsest(option, theta, x, **options)
    n = len(why.changed)
    assert option.accepts([why.counterfactual], theta)[0]
    assert n == why.fewest <= len(near[0].changed)
    best = brute_force(option, theta, x, options, min(n, 3))
    assert not np.isfinite(best[: n - 1]).any()
    if n <= 3:
        assert why.distance == pytest.approx(best[n - 1], rel=1e-7)
    assert why.lower_bound == pytest.approx(why.distance, rel=1e-7)


@pytest.mark.parametrize(("seed", "d", "width"), [(1, 12, None), (5, 12, 0.8)])
def test_sparsest_of_three_probabilities_equals_brute_force(seed, d, width):
    option, theta, x, options = problem(KINDS[3], seed, d, 0.6, width)
    why = sparsest(option, theta, x, **options)
    n = len(why.changed)
    best = brute_force(option, theta, x, options, n)
    assert isinstance(option.cells(theta), JointCells)
    assert not np.isfinite(best[: n - 1]).any()
    assert n == why.fewest
    assert why.distance == pytest.approx(best[-1], rel=3e-3)
    assert why.lower_bound <= best[-1] * (1 + 1e-9)


@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
def test_fewest_features_by_plain_programs(make):
    """Independent of the engine: one CVXPY program per cell and set of features."""
    rng = np.random.default_rng(5)
    option = make(PrototypeModel(rng.normal(size=(3, 4)), [0, 1, 2], rng.normal(size=(4, 4))))
    X, box = rng.normal(size=(200, 4)), 0.7
    certainty = option.certainty(X)
    theta = float(np.quantile(certainty, 0.8))
    x = X[certainty < theta][1]
    why = sparsest(option, theta, x, bounds={k: (x[k] - box, x[k] + box) for k in range(4)})

    def value(chosen):
        def extra(z):
            kept = only(chosen, 4)
            return [cp.abs(z - x) <= box] + ([z[kept] == x[kept]] if kept else [])

        return best_program(option, theta, x, np.ones(4), extra)

    sizes = [min(value(chosen) for chosen in combinations(range(4), n)) for n in range(1, 5)]
    n = 1 + int(np.isfinite(sizes).argmax())
    assert len(why.changed) == why.fewest == n
    assert why.distance == pytest.approx(sizes[n - 1], rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_trade_off_is_the_best_distance_of_every_number_of_features(kind):
    d = 6 if kind != KINDS[3] else 3
    for seed in range(3 if kind != KINDS[3] else 1):
        option, theta, x, options = problem(kind, seed + 20, d, width=1.2)
        curve = trade_off(option, theta, x, **options)
        near, few = explain(option, theta, x, **options), sparsest(option, theta, x, **options)
        assert (curve.counts[0], curve.counterfactuals[0].tolist()) == (
            len(few.changed),
            few.counterfactual.tolist(),
        )
        assert curve.distances[-1] == pytest.approx(near.distance, rel=2e-3)
        assert (np.diff(curve.counts) > 0).all()
        assert (np.diff(curve.distances) < 0).all()
        best = brute_force(option, theta, x, options, int(curve.counts[-1]))
        for count, distance, bound in zip(curve.counts, curve.distances, curve.lower_bounds, strict=True):
            assert distance == pytest.approx(best[count - 1], rel=2e-3 if kind == KINDS[3] else 1e-7)
            assert bound <= best[count - 1] * (1 + 1e-9)
        assert list(curve.to_frame()["changed"]) == curve.counts.tolist()


def test_what_is_not_proven_is_not_claimed():
    option, theta, x, options = problem(KINDS[0], 0, 12, width=0.6)
    full, none = sparsest(option, theta, x, **options), sparsest(option, theta, x, effort=0, **options)
    some = sparsest(option, theta, x, effort=2, **options)
    near = explain(option, theta, x, **options)
    assert len(none.changed) == len(near.changed)
    assert none.fewest <= some.fewest <= full.fewest
    assert none.fewest < len(none.changed)
    assert none.lower_bound <= near.distance
    assert "of fewer features" not in str(none)
    assert "and none of fewer features at all" in str(full)


def test_accepted_samples_and_batches():
    option, theta, x, options = problem(KINDS[0], 1, 5)
    inside = explain(option, theta, x).counterfactual
    batch = sparsest(option, theta, np.array([x, inside]), **options)
    assert batch.counts.tolist() == [len(sparsest(option, theta, x, **options).changed), 0]
    assert batch.fewest.tolist() == [1, 0]
    assert batch[1].path == "accepted"
    assert "accepted as" in str(batch[1])
    assert list(batch.to_frame()["fewest"]) == [1, 0]
    assert len(batch[:]) == 2
    two = sparsest(option, theta, np.array([x, inside]), n_jobs=2, progress=True, **options)
    np.testing.assert_array_equal(two.counterfactuals, batch.counterfactuals)
    assert len(sparsest(option, theta, np.empty((0, 5)))) == 0
    same = robust(option, theta, inside, error=0.1)
    assert (same.distance, same.changed) == (0, [])
    assert trade_off(option, theta, inside).counts.tolist() == [0]


def test_features_outside_their_bounds_have_to_change():
    option, theta, x, _ = problem(KINDS[1], 2, 5)
    inside = explain(option, theta, x).counterfactual
    bounds = {0: (inside[0] + 1, None), 1: (None, inside[1] - 1)}
    why = sparsest(option, theta, inside, bounds=bounds)
    assert {0, 1} <= set(why.changed)
    assert why.fewest == len(why.changed)


@pytest.mark.parametrize("kind", KINDS)
def test_several_answers_are_valid_and_different(kind):
    option, theta, x, options = problem(kind, 3, 6)
    answers = several(option, theta, x, 4, **options)
    assert option.accepts(answers.counterfactuals, theta).all()
    sets = [frozenset(why.changed) for why in answers]
    assert len(answers) == 4
    assert not any(first <= second for first, second in combinations(sets, 2))
    slack = 1 + (2e-3 if kind == KINDS[3] else 1e-9)
    assert (np.diff(answers.distances) * slack >= -1e-3 * (kind == KINDS[3])).all()
    assert (answers.lower_bounds <= answers.distances).all()
    fixed = [explain(option, theta, x, fixed=[k], **options).distance for k in sets[0]]
    assert answers.distances[0] == explain(option, theta, x, **options).distance
    assert answers.distances[1] == pytest.approx(min(fixed), rel=2e-3)
    third = [
        explain(option, theta, x[None], fixed=list({*pair}), on_infeasible="skip", **options).distances[0]
        for pair in product(sets[0], sets[1])
    ]
    assert answers.distances[2] == pytest.approx(min(third), rel=2e-3)
    disjoint = several(option, theta, x, 2, apart=6, **options)
    assert not set(disjoint[0].changed) & set(disjoint[1].changed)
    kept = explain(option, theta, x, fixed=list(sets[0]), **options)
    assert disjoint.distances[1] == pytest.approx(kept.distance, rel=2e-3)


def test_several_classes_nearest_first():
    option, theta, x, options = problem(KINDS[0], 3, 4)
    answers = several(option, theta, x, 5, differ="classes", **options)
    assert sorted(answers.labels) == [0, 1, 2]
    for why in answers:
        assert why.distance == explain(option, theta, x, target=why.label, **options).distance
    assert (np.diff(answers.distances) >= 0).all()
    with pytest.raises(ValueError, match="target cannot be given"):
        several(option, theta, x, differ="classes", target=0)
    with pytest.raises(ValueError, match="X must be one sample"):
        several(option, theta, [x, x])
    few = several(option, theta, x, 50, fixed=[0, 2, 3])
    assert len(few) == 1


def worst_case(option, theta, why, error, rng):
    """Assert that all corners and 1,000 sampled errors of the changed features leave it accepted."""
    changed = why.counterfactual != why.sample
    errors = rng.uniform(-1, 1, size=(1000, len(error))) * error * changed
    sides = np.array(list(product([-1, 1], repeat=int(changed.sum()))), dtype=float)
    corners = np.zeros((len(sides), len(error)))
    corners[:, changed] = sides * error[changed]
    points = why.counterfactual + np.vstack([errors, corners])
    assert option.accepts(points, theta).all()
    assert (option.predict(points) == why.label).all()
    assert why.worst_certainty <= option.certainty(points).min() + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_class", [1, 2])
def test_robust_answers_hold_for_every_error(kind, per_class):
    few = kind == KINDS[3]  # there an answer takes longer
    for seed in range(1 if few else 3):
        option, theta, x, options = problem(kind, seed, 5, 0.5, per_class=per_class)
        rng = np.random.default_rng(seed)
        error = rng.uniform(0.01, 0.06, size=5)
        why = robust(option, theta, x, error=error, effort=5 if few else 20, **options)
        worst_case(option, theta, why, error, rng)
        near = explain(option, theta, x, **options)
        assert near.lower_bound <= why.lower_bound <= why.distance


@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
def test_the_nearest_robust_answer_by_plain_programs(make):
    """With one cell per class all errors have to stay in it: all sets of features, all corners, CVXPY."""
    rng = np.random.default_rng(2)
    option = make(PrototypeModel(rng.normal(size=(2, 3)), [0, 1], rng.normal(size=(3, 3))))
    error = np.array([0.05, 0.1, 0.02])
    theta = float(np.quantile(option.certainty(rng.normal(size=(100, 3))), 0.5))
    for x in rng.normal(size=(4, 3)):
        if option.accepts([x], theta)[0]:
            continue
        values = []
        for chosen in [c for n in (1, 2, 3) for c in combinations(range(3), n)]:
            sides = [np.array(s) * error * np.isin(range(3), chosen) for s in product([-1, 1], repeat=3)]
            for cell in option.cells(theta):
                z = cp.Variable(3)
                kept = only(chosen, 3)
                rows = [z[kept] == x[kept]] if kept else []
                rows += [cp.norm(b.L @ (z + e - b.centre)) <= b.radius for b in cell.balls for e in sides]
                rows += [h.normal @ (z + e) + h.offset >= 0 for h in cell.half_spaces for e in sides]
                program = cp.Problem(cp.Minimize(cp.norm1(z - x)), rows)
                program.solve(cp.CLARABEL)
                values.append(np.inf if program.value is None else program.value)
        why = robust(option, theta, x, error=error)
        assert why.distance == pytest.approx(min(values), rel=1e-5)
        assert why.gap <= 1e-5


def test_many_wrong_features_are_tightened_by_a_proven_bound():
    rng = np.random.default_rng(0)
    d = 14
    option = RelativeSimilarity(PrototypeModel([[0] * d, [1] * d], [0, 1]))
    x = np.full(d, 0.5)
    bounds = dict.fromkeys(range(d), (0.25, 0.75))
    error = np.full(d, 0.01)
    near = explain(option, 0.6, x, bounds=bounds)
    assert len(near.changed) > 10
    why = robust(option, 0.6, x, error=error, bounds=bounds, effort=5)
    changed = why.counterfactual != x
    errors = rng.choice([-1.0, 1.0], size=(1000, d)) * error * changed
    assert option.accepts(why.counterfactual + errors, 0.6).all()
    gone = tightened(option.cells(0.6), np.full(d, 9.0), np.ones(d, dtype=bool), x)
    assert len(gone) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_steps_that_matter_and_whole_numbers_by_brute_force(kind):
    for seed in range(3 if kind != KINDS[3] else 1):
        option, theta, x, _ = problem(kind, seed + 7, 2, 0.5)
        scale = 4.0
        start = np.round(x * scale) / scale
        grid = np.stack(np.meshgrid(*[np.arange(-40, 41) / scale] * 2), -1).reshape(-1, 2)
        step = 0.6
        # whole numbers in units of 1/4: the same model, scaled
        big = scaled_option(kind, seed + 7, scale)
        accepted = big.accepts(grid * scale, theta)
        distance = np.abs(grid - start).sum(axis=1) * scale
        why = robust(big, theta, start * scale, integers=[0, 1], effort=400)
        assert why.distance == pytest.approx(distance[accepted].min(), abs=1e-9)
        assert why.lower_bound <= why.distance if kind == KINDS[3] else why.gap <= 1e-6
        assert (why.counterfactual == np.round(why.counterfactual)).all()
        moves = np.abs(grid - start)
        large = ((moves == 0) | (moves >= step)).all(axis=1)
        both = robust(big, theta, start * scale, integers=[0, 1], least=step * scale, effort=400)
        assert both.distance == pytest.approx(distance[accepted & large].min(), abs=1e-9)
        least = robust(option, theta, x, least={0: 0.5, 1: 0.3}, effort=400)
        assert all(change == 0 or change >= m for change, m in zip(abs(least.delta), (0.5, 0.3), strict=True))
        assert least.distance == pytest.approx(nearest_of_steps(option, theta, x, (0.5, 0.3)), rel=2e-3)


def scaled_option(kind, seed, scale):
    """Return `random_option(kind, seed)` in units 1 / scale."""
    option = random_option(kind, np.random.default_rng(seed), 2)
    if kind in KINDS[:2]:
        model = option.model
        return type(option)(PrototypeModel(model.prototypes * scale, model.labels, model.L / scale))
    models = {
        pair: PrototypeModel(model.prototypes * scale, model.labels, model.L / scale)
        for pair, model in option.models_.items()
    }
    return ProbabilisticCertainty.from_pairs(models, option.alpha_, option.beta_, option.classes)


def nearest_of_steps(option, theta, x, least):
    """Return the smallest distance over all 9 combinations of none, up and down."""
    best = np.inf
    for signs in product((0, 1, -1), repeat=2):
        bounds = {
            k: (x[k], x[k]) if not s else (x[k] + m, None) if s > 0 else (None, x[k] - m)
            for k, (s, m) in enumerate(zip(signs, least, strict=True))
        }
        best = min(best, explain(option, theta, x[None], bounds=bounds, on_infeasible="skip").distances[0])
    return best


def two_clouds(seed, d=3, n=60, classes=3):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    centres = 3 * rng.normal(size=(classes, d))
    return centres[y] + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.5, size=d), y


@pytest.mark.parametrize("kind", KINDS)
def test_plausible_answers_lie_in_the_region_of_their_class(kind):
    option, theta, x, options = problem(kind, 4, 3, 0.5)
    X, y = two_clouds(4, classes=len(option.classes))
    why = plausible(option, theta, x, data=X, labels=y, level=0.9, **options)
    region = Plausible(option, X, y, 0.9)
    ball = region.regions[int(np.flatnonzero(option.classes == why.label)[0])]
    assert ball.excess(why.counterfactual[None])[0] <= 1e-9
    assert option.accepts([why.counterfactual], theta)[0]
    assert why.distance >= explain(option, theta, x, **options).lower_bound
    for label, of_class in zip(option.classes, region.regions, strict=True):
        assert np.mean(of_class.excess(X[y == label]) <= 1e-12) >= 0.9
    if kind in KINDS[:2]:
        parts = [
            plain_with_ball(option, theta, x, options["weights"], i, b) for i, b in enumerate(region.regions)
        ]
        assert why.distance == pytest.approx(min(parts), rel=1e-5)
        assert why.gap <= 1e-6
    assert "among the training data" in str(why)
    batch = plausible(option, theta, X[:5], data=X, labels=y, target=option.classes[0], on_infeasible="skip")
    assert set(batch.labels[batch.found]) <= {option.classes[0]}
    assert isinstance(batch.to_frame(), pd.DataFrame)


def plain_with_ball(option, theta, x, weights, label, ball):
    class OfLabel:
        def cells(self, theta):
            return option.cells(theta).with_label(label)

    return best_program(
        OfLabel(), theta, x, weights, lambda z: [cp.norm(ball.L @ (z - ball.centre)) <= ball.radius]
    )


def test_plausible_combines_with_the_other_variants():
    option, theta, x, options = problem(KINDS[0], 4, 3, 0.5)
    X, y = two_clouds(4)
    region = Plausible(option, X, y, 0.9)
    few = sparsest(region, theta, x, **options)
    assert region.accepts([few.counterfactual], theta)[0]
    assert any("its class" in word for word in few.active) or len(few.active) > 0
    error = np.full(3, 0.03)
    firm = robust(region, theta, x, error=error, **options)
    worst_case(region, theta, firm, error, np.random.default_rng(0))
    assert all(region.accepts(several(region, theta, x, 2, **options).counterfactuals, theta))


kinds = st.sampled_from(KINDS)


@settings(max_examples=18)
@given(
    kinds, st.integers(0, 10_000), st.sets(st.sampled_from(["fixed", "bounds", "up", "down", "target", "A"]))
)
def test_any_combination_of_options_is_respected(kind, seed, asked):
    option, theta, x, options = problem(kind, seed % 37, 4, 0.6)
    rng = np.random.default_rng(seed)
    options |= {"fixed": [int(rng.integers(4))]} if "fixed" in asked else {}
    options |= {"bounds": {1: (x[1] - 0.5, x[1] + 2)}} if "bounds" in asked else {}
    options |= {"increase_only": [2]} if "up" in asked else {}
    options |= {"decrease_only": [3]} if "down" in asked else {}
    options |= {"target": int(rng.integers(len(option.classes)))} if "target" in asked else {}
    row = rng.normal(size=4)
    options |= {"constraints": ([row], [float(row @ x) + 0.5])} if "A" in asked else {}
    near = explain(option, theta, x[None], on_infeasible="skip", **options)
    error = {0: 0.02, 2: 0.03}
    calls = {
        "sparsest": lambda: sparsest(option, theta, x, **options),
        "several": lambda: several(option, theta, x, 2, **options)[-1],
        "robust": lambda: robust(option, theta, x, error=error, least={1: 0.1}, effort=12, **options),
    }
    for name, call in calls.items():
        try:
            why = call()
        except NoCounterfactualError as error_found:
            reason = str(error_found)
        else:
            reason = ""
        if reason:
            assert name == "robust" or not near.found[0]
            assert any(word in reason for word in ("without", "lower theta", "outside"))
            continue
        z = why.counterfactual
        assert near.found[0]
        assert option.accepts([z], theta)[0]
        assert near.lower_bounds[0] <= why.lower_bound * (1 + 2e-3)
        assert why.lower_bound <= why.distance
        assert "target" not in options or option.predict([z])[0] == options["target"]
        assert all(z[k] == x[k] for k in options.get("fixed", []))
        assert "bounds" not in asked or x[1] - 0.5 <= z[1] <= x[1] + 2
        assert "up" not in asked or z[2] >= x[2]
        assert "down" not in asked or z[3] <= x[3]
        assert "A" not in asked or row @ z <= row @ x + 0.5 + 1e-12
        if name == "sparsest":
            assert why.fewest <= len(why.changed) <= len(near[0].changed)
        if name == "robust":
            worst_case(option, theta, why, np.array([0.02, 0, 0.03, 0]), rng)


def test_what_cannot_be_carried_out_names_the_culprit():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"], feature_names=["age", "bmi"]))
    with pytest.raises(NoCounterfactualError, match=r"there is no change .* one exists without error$"):
        robust(option, 0.6, [9, 0], error={"age": 30.0})
    with pytest.raises(
        NoCounterfactualError, match="without least, or without target, or without bounds of age"
    ):
        robust(option, 0.6, [9, 0], least={"age": 5}, bounds={"age": (5, 20)}, target="a")
    with pytest.raises(NoCounterfactualError, match="without integers, or without bounds of age"):
        robust(option, 0.6, [9, 0], integers=["age"], bounds={"age": (6.1, 13.1)})
    with pytest.raises(NoCounterfactualError, match="one exists without fixing age"):
        sparsest(option, 0.6, [9, 0], fixed=["age"])
    with pytest.raises(NoCounterfactualError, match="lower theta"):
        trade_off(option, 1.5, [9, 0])
    data, labels = [[9, 0], [9, 1], [8, 0], [11, 0], [11, 1], [12, 0]], ["a", "a", "a", "b", "b", "b"]
    with pytest.raises(
        NoCounterfactualError, match=r"no input among the training data .* outside their region"
    ):
        plausible(option, 0.99, [9, 0], data=data, labels=labels)
    with pytest.raises(NoCounterfactualError, match="without bounds on bmi, or outside the training data"):
        plausible(option, 0.3, [9, 0], data=data, labels=labels, bounds={"bmi": (5, 6)})
    skipped = robust(option, 0.6, [[9, 0], [8, 0]], error={"age": 30.0}, on_infeasible="skip")
    assert not skipped.found.any()
    assert "sample 1: with error" in skipped.reasons[1]
    with pytest.raises(NoCounterfactualError, match="without error"):
        skipped[0]
    with pytest.raises(NoCounterfactualError, match="fixing age"):
        robust(option, 0.6, [9, 0], error=1.0, fixed=["age"])
    with pytest.raises(NoCounterfactualError, match="lower theta"):
        several(option, 1.5, [9, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: robust(o, 0.6, [9, 0], error=-1), "error must be at least 0"),
        (lambda o: robust(o, 0.6, [9, 0], error={"size": 1}), "error must hold names of features"),
        (
            lambda o: robust(o, 0.6, [9, 0], error=[1.0]),
            r"error must be a number, a mapping or have shape \(2,\)",
        ),
        (lambda o: robust(o, 0.6, [9, 0], error=[1.0, -1.0]), "error must be finite and at least 0"),
        (lambda o: robust(o, 0.6, [9, 0], least="much"), "least must be a number"),
        (lambda o: robust(o, 0.6, [9.5, 0], integers=[0]), "X must hold whole numbers .* found 9.5"),
        (lambda o: robust(o, 0.6, [9, 0], effort=0), "effort must be at least 1"),
        (lambda o: several(o, 0.6, [9, 0], 0), "k must be at least 1"),
        (lambda o: several(o, 0.6, [9, 0], differ="colour"), "differ must be one of"),
        (lambda o: sparsest(o, 0.6, [9, 0], n_jobs=0), "n_jobs must be a number of jobs"),
        (lambda o: sparsest("certain", 0.6, [9, 0]), "option must be a certainty"),
        (lambda o: Plausible("certain", [[1, 2]], [0]), "option must be a certainty"),
        (lambda o: Plausible(o, [[1, 2], [2, 3]], ["a"]), r"labels must have shape \(2,\)"),
        (lambda o: Plausible(o, [[1, 2], [2, 3]], ["a", "a"]), "labels must name each class at least twice"),
        (
            lambda o: Plausible(o, [[1, 2], [1, 2], [0, 0]], ["a", "a", "b"]),
            "data must vary within each class",
        ),
        (lambda o: Plausible(o, [[1, 2], [1, 3]], ["a", "a"]), "data must vary in every feature"),
        (lambda o: Plausible(o, [[1, 2], [2, 3]], ["a", "b"], level=0), "level must be above 0"),
    ],
)
def test_bad_input_is_named(call, message):
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"]))
    with pytest.raises(ValueError, match=message):
        call(option)


def test_a_fitted_classifier_explains_in_every_way():
    X, y = two_clouds(1, d=4, n=90)
    frame = pd.DataFrame(1000 * X + 5, columns=["a", "b", "c", "d"])
    classifier = RejectOptionClassifier(threshold=("reject_rate", 0.3)).fit(frame, y)
    x = frame[classifier.rejects(frame)].iloc[0]
    near = classifier.explain(x)
    few = classifier.explain(x, how=sparsest)
    assert few.cause is not None
    assert len(few.changed) <= len(near.changed)
    error = 0.02 * classifier.scale_
    firm = classifier.explain(x, how=robust, error=error)
    worst_case(classifier.option_, classifier.threshold_, firm, error, np.random.default_rng(0))
    among = classifier.explain(frame.iloc[:30], how=plausible, data=frame, labels=y, on_infeasible="skip")
    assert among.index.equals(frame.index[:30])
    assert among[int(np.flatnonzero(among.found)[0])].cause is not None
    two = classifier.explain(x, how=several, k=2)
    assert len(two) == 2
    assert two[0].counterfactual == pytest.approx(near.counterfactual)


def test_without_a_way_there_are_no_levels():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    required = check_requirements(2, None, option.classes)
    assert fewest_changes(Reach(option, 1.5, required, np.array([0.9, 0.0])), 10) == []
