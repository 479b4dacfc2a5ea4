"""Counterfactuals of the probabilistic certainty: against a grid, other methods, and its special cases."""

from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import companion
from companion.baselines import nearest_accepted
from companion.baselines_convex import convex_probabilistic
from companion.baselines_direct import direct_probabilistic, smooth_direct
from lvqrej.budget_search import plane
from lvqrej.cells import Ball, Cells
from lvqrej.certainty import RelativeSimilarity
from lvqrej.counterfactual import NoCounterfactualError, explain, explain_per_class
from lvqrej.local_search import rule_of
from lvqrej.lvq import GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel
from lvqrej.thresholds import accuracy_reject_curve

#: What other methods find is the infimum, without room for noise.
explain, explain_per_class = (partial(call, noise=0) for call in (explain, explain_per_class))

modest = settings(max_examples=12)
seeds = st.integers(0, 2**32 - 1)


def random_option(rng, K, d=2, normalize=False, rising=0.8, most=3):
    """Random pairwise models: one to three prototypes per class, any rank, slopes of both signs and zero."""
    centres = 2 * rng.normal(size=(K, d))
    models = {}
    for i, j in combinations(range(K), 2):
        labels = np.concatenate(([i, j], rng.choice([i, j], size=rng.integers(0, most))))
        L = rng.normal(size=(rng.integers(1, d + 1), d)) if rng.random() < 0.7 else None
        models[i, j] = PrototypeModel(centres[labels] + rng.normal(size=(len(labels), d)), labels, L)
    alpha = rng.uniform(0.5, 8, (K, K)) * np.where(rng.random((K, K)) < rising, -1, 1)
    alpha[rng.random((K, K)) < 0.05] = 0
    beta = rng.normal(size=(K, K))
    alpha, beta = np.triu(alpha, 1), np.triu(beta, 1)
    return ProbabilisticCertainty.from_pairs(models, alpha + alpha.T, beta - beta.T, np.arange(K), normalize)


def two_classes(slope=-4.0, shift=0.0, prototypes=((0, 0), (2, 0)), normalize=False):
    model = PrototypeModel(prototypes, ["a", "b"])
    return ProbabilisticCertainty.from_pairs(
        {(0, 1): model}, [[0, slope], [slope, 0]], [[0, shift], [-shift, 0]], ["a", "b"], normalize
    )


line = np.linspace(-6, 6, 401)
grid = np.array(np.meshgrid(line, line)).reshape(2, -1).T


def on_the_grid(option, theta, x, weights, target=None):
    """The nearest accepted point of a fine grid, by looking at all of them."""
    accepted = option.accepts(grid, theta)
    if target is not None:
        accepted &= option.predict(grid) == target
    return float(np.where(accepted, (np.abs(grid - x) * weights).sum(axis=1), np.inf).min())


# Against a grid


@modest
@given(seeds)
def test_three_classes_agree_with_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    option = random_option(rng, 3, rising=1.0, most=2)
    theta = float(np.quantile(option.certainty(grid), rng.uniform(0.5, 0.95)))
    x, weights = 1.5 * rng.normal(size=2), rng.uniform(0.5, 2, 2)
    nearest = on_the_grid(option, theta, x, weights)
    found = explain(option, theta, x, weights=weights)
    step = line[1] - line[0]
    assert option.accepts(found.counterfactual[None], theta)[0]
    assert found.lower_bound <= found.distance <= nearest * (1 + 1e-9)
    assert found.lower_bound <= nearest + 1e-12
    assert found.gap <= 0.01 or nearest < 4 * step or _has_reverse(option, theta)


def _has_reverse(option, theta):
    """Whether some pair could be met by a score below 0, where the set is not a union of cells."""
    return bool((option.beta_[option.alpha_ != 0] < np.log(1 / theta - 1)).any())


@modest
@given(seeds, st.integers(2, 6), st.booleans(), st.booleans())
def test_random_models_are_answered_validly_and_never_bounded_too_high(seed, K, normalize, targeted):
    rng = np.random.default_rng(seed)
    option = random_option(rng, K, normalize=normalize)
    coarse = grid[::7]
    theta = float(np.quantile(option.certainty(coarse), rng.uniform(0.2, 0.9)))
    x, weights = 1.5 * rng.normal(size=2), rng.uniform(0.5, 2, 2)
    target = int(rng.integers(K)) if targeted else None
    nearest = on_the_grid(option, theta, x, weights, target)
    found = explain(option, theta, x[None], weights=weights, target=target, on_infeasible="skip")
    if found.found[0]:
        assert option.accepts(found.counterfactuals, theta)[0]
        assert target is None or found.labels[0] == target == option.predict(found.counterfactuals)[0]
        assert 0 <= found.lower_bounds[0] <= found.distances[0]
        assert found.lower_bounds[0] <= nearest * (1 + 1e-9) + 1e-12
        assert 0 <= found.gaps[0] <= 1
    else:
        assert nearest == np.inf


@modest
@given(seeds, st.integers(3, 5))
def test_in_more_dimensions_no_accepted_point_beats_the_bound(seed, K):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 7))
    option = random_option(rng, K, d, rising=1.0)
    x = rng.normal(size=d)
    steps = rng.normal(size=(4000, d)) * rng.choice([0, 1], size=(4000, d)) * rng.uniform(0, 3, (4000, 1))
    theta = float(np.quantile(option.certainty(x + steps), 0.8))
    accepted = steps[option.accepts(x + steps, theta)]
    found = explain(option, theta, x)
    assert option.accepts(found.counterfactual[None], theta)[0]
    assert found.lower_bound <= np.abs(accepted).sum(axis=1).min() * (1 + 1e-9)


def shortened(option, theta, x, steps):
    """Return accepted changes after each feature in turn was set back as far as they stay accepted."""
    for k in [*range(len(x))] * 3:
        tries = np.repeat(steps[:, None], 65, axis=1)
        tries[:, :, k] *= np.linspace(0, 1, 65)
        accepted = option.accepts((x + tries).reshape(-1, len(x)), theta).reshape(tries.shape[:2])
        steps = tries[np.arange(len(steps)), accepted.argmax(axis=1)]
    return steps


def test_a_search_that_has_not_met_the_nearest_answer_yet_does_not_rule_it_out():
    """The answers that come first are a fifth too far here: no part may be closed on trust."""
    rng, d = np.random.default_rng([2, 5, 5, 0]), 5
    option = random_option(rng, 5, d, rising=1.0, most=1)
    X = 2 * rng.normal(size=(400, d))
    theta = float(np.quantile(option.certainty(X), rng.uniform(0.5, 0.95)))
    accepted = option.accepts(X, theta)
    for x in X[~accepted][[0, 4]]:
        nearest = np.abs(shortened(option, theta, x, X[accepted] - x)).sum(axis=1).min()
        found = explain(option, theta, x)
        assert found.lower_bound <= found.distance <= nearest


def test_where_scores_below_0_are_enough_the_bound_is_not_lost():
    """The outside of a ball is no cell: five classes at a threshold below a half have such sides."""
    rng, K, d = np.random.default_rng(0), 5, 4
    centres, models = 2 * rng.normal(size=(K, d)), {}
    for pair in combinations(range(K), 2):
        labels = np.concatenate((pair, rng.choice(pair, size=rng.integers(0, 1))))
        L = rng.normal(size=(rng.integers(1, d + 1), d)) if rng.random() < 0.7 else None
        models[pair] = PrototypeModel(centres[labels] + rng.normal(size=(len(labels), d)), labels, L)
    alpha, beta = np.triu(-rng.uniform(0.5, 8, (K, K)), 1), np.triu(rng.normal(size=(K, K)), 1)
    option = ProbabilisticCertainty.from_pairs(models, alpha + alpha.T, beta - beta.T, np.arange(K))
    samples = 3 * rng.normal(size=(3000, d))
    theta = float(np.quantile(option.certainty(samples), 0.8))
    accepted = option.accepts(samples, theta)
    X = samples[~accepted][:4]
    found = explain(option, theta, X)
    nearest = np.abs(X[:, None] - samples[accepted]).sum(axis=2).min(axis=1)
    assert theta < 0.5
    assert option.accepts(found.counterfactuals, theta).all()
    assert (found.lower_bounds <= nearest).all()
    assert (found.distances <= nearest).all()
    assert np.median(found.gaps) < 0.15


def test_where_scores_below_0_leave_no_proof_the_bound_stays_below_nearer_answers():
    """Two classes far from equally probable: it is enough to leave balls, and the way found may be longer."""
    rng = np.random.default_rng(417)
    n, m = rng.integers(2, 5), rng.integers(2, 6)
    P = rng.uniform(-3, 3, (n + m, 2))
    slope, shift = -rng.uniform(2, 8), -rng.uniform(0.5, 4)
    option = ProbabilisticCertainty.from_pairs(
        {(0, 1): PrototypeModel(P, ["a"] * n + ["b"] * m)}, [[0, slope], [slope, 0]],
        [[0, shift], [-shift, 0]], ["a", "b"],
    )  # fmt: skip
    theta, X = rng.uniform(0.55, 0.9), rng.uniform(-4, 4, (12, 2))
    X, weights = X[~option.accepts(X, theta)], np.array([1.0, rng.uniform(0.3, 3)])
    result = explain(option, theta, X, weights=weights)
    nearest = np.array([on_the_grid(option, theta, x, weights) for x in X])
    assert (result.lower_bounds <= nearest).all()
    assert (nearest < (1 - 1e-3) * result.distances).any()  # otherwise nothing is tested


@modest
@given(seeds)
def test_no_accepted_point_around_the_answer_beats_a_tight_bound(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 6))
    option = random_option(rng, 3, d, rising=1.0)
    x = rng.normal(size=(1, d))
    theta = float(np.quantile(option.certainty(x + rng.normal(size=(500, d))), 0.9))
    box = np.full(x.shape, np.inf)
    found = option.cells(theta, gap=1e-4).nearest(x, np.ones(d), -box, box, 1e-15)
    scale = 10 ** rng.uniform(-4, 0, (4000, 1)) * found.distances[0]
    steps = found.changes + scale * rng.normal(size=(4000, d)) * rng.choice([0, 1], size=(4000, d))
    accepted = steps[option.accepts(x + steps, theta)]
    assert found.bounds[0] <= found.distances[0] * (1 + 1e-12)
    assert (np.abs(accepted).sum(axis=1) >= found.bounds[0] * (1 - 1e-12)).all()


# Against other methods, on data


@pytest.fixture(scope="module", params=["wine", "iris", "breast cancer"])
def data(request):
    load = {"wine": load_wine, "iris": load_iris, "breast cancer": load_breast_cancer}[request.param]
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module", params=[1, 2])
def fitted(request, data):
    return ProbabilisticCertainty(GMLVQ(prototypes_per_class=request.param)).fit(*data), *data


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # said by CVXPY of its own answer
def test_no_other_method_finds_anything_nearer(fitted):
    option, X, y = fitted
    certainty = option.certainty(X)
    knee = accuracy_reject_curve(certainty, option.predict(X) == y).knee().threshold
    exact = 1e-6 if len(option.classes) == 2 else 0.01
    for theta in (knee, float(np.quantile(certainty, 0.4))):
        rejected = X[certainty < theta]
        if len(rejected) == 0:  # a knee that keeps everything
            assert theta == knee
            continue
        found = explain(option, theta, rejected[:12])
        assert option.accepts(found.counterfactuals, theta).all()
        assert (found.gaps <= exact).all()
        for x, distance in zip(rejected[: 3 - len(X) // 200], found.distances, strict=False):
            others = [
                convex_probabilistic(option, theta, x, signs="correct", classes="all"),
                smooth_direct(option, theta, x, n_starts=0),
                direct_probabilistic(option, theta, x, max_iterations=60),
                *nearest_accepted(option, theta, x[None], X),
            ]
            assert distance <= min(other.distance for other in others if other.valid) * (1 + 1e-7)


def test_batches_processes_and_single_samples_agree(fitted):
    option, X, _ = fitted
    theta = float(np.quantile(option.certainty(X), 0.3))
    rejected = X[~option.accepts(X, theta)][:3]
    together = explain(option, theta, rejected)
    alone = [explain(option, theta, x).distance for x in rejected]
    np.testing.assert_allclose(together.distances, alone, rtol=1e-9)
    np.testing.assert_allclose(explain(option, theta, rejected, n_jobs=2).distances, alone, rtol=1e-9)


# Normalised probabilities of three classes


def many_starts(option, theta, x, X):
    """The nearest accepted point by SLSQP from accepted samples, and by looking along each feature."""
    d, best = len(x), np.inf

    def nearer(points):
        accepted = option.accepts(points, theta)
        return min(best, np.where(accepted, np.abs(points - x).sum(axis=1), np.inf).min())

    for step in np.eye(d):
        best = nearer(x + np.linspace(-6, 6, 1201)[:, None] * step)
    accepted = X[option.accepts(X, theta)]
    order = np.abs(accepted - x).sum(axis=1).argsort()
    for z in accepted[[*order[:4], *order[:: max(1, len(order) // 3)]]]:
        way = np.linspace(0, 1, 101)[:, None] * (z - x)
        first = way[option.accepts(x + way, theta).argmax()]
        label = option.probabilities((x + first)[None])[0].argmax()
        found = minimize(
            np.sum,
            np.concatenate([np.maximum(first, 0), np.maximum(-first, 0)]),
            jac=lambda u: np.ones(len(u)),
            constraints={
                "type": "ineq",
                "fun": lambda u, c=label: np.log(
                    option.probabilities((x + u[:d] - u[d:])[None])[0, c] / theta
                ),
            },
            bounds=[(0, None)] * (2 * d),
            method="SLSQP",
        )
        best = nearer(x + np.linspace(1, 1.01, 101)[:, None] * (found.x[:d] - found.x[d:]))
    return best


@pytest.fixture(scope="module", params=[("wine", 2), ("iris", 1)], ids=str)
def normalised(request):
    name, prototypes = request.param
    X, y = {"wine": load_wine, "iris": load_iris}[name](return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return ProbabilisticCertainty(
        GMLVQ(prototypes_per_class=prototypes, regularization=0), normalize=True
    ).fit(X, y), X


@pytest.mark.parametrize("quantile", [0.4, 0.9])
def test_normalised_answers_are_as_near_as_those_of_many_starts_and_nearly_proven(normalised, quantile):
    option, X = normalised
    theta = float(np.quantile(option.certainty(X), quantile))
    rejected = X[~option.accepts(X, theta)]
    rejected = rejected[:: len(rejected) // 5][:5]
    found = explain(option, theta, rejected)
    assert option.accepts(found.counterfactuals, theta).all()
    assert np.median(found.gaps) <= 0.05
    for x, distance, bound in zip(rejected[:2], found.distances, found.lower_bounds, strict=False):
        other = many_starts(option, theta, x, X)
        assert distance <= 1.01 * other
        assert bound <= other * (1 + 1e-9)


def test_a_normalised_answer_beside_another_valley_is_found():
    """Penguins, a matrix of low rank: from prototypes themselves only a valley 11 % farther is reached."""
    table = pd.read_csv(Path(companion.__file__).with_name("penguins.csv")).dropna()
    numbers = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    X = StandardScaler().fit_transform(table[numbers])
    model = GMLVQ(prototypes_per_class=2, regularization=0, random_state=0)
    option = ProbabilisticCertainty(model, normalize=True).fit(X, table["species"].to_numpy())
    theta = float(np.quantile(option.certainty(X), 0.9))
    rejected = X[~option.accepts(X, theta)]
    x = rejected[5 * (len(rejected) // 6)]
    assert explain(option, theta, x).distance <= 1.01 * many_starts(option, theta, x, X)


def test_every_reject_of_a_pipeline_has_a_normalised_answer():
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), GMLVQ(max_iter=60))
    option = ProbabilisticCertainty(pipeline, cv=3, normalize=True).fit(X, y)
    theta, weights = float(np.quantile(option.certainty(X), 0.9)), 1 / X.std(axis=0)
    accepted = option.accepts(X, theta)
    rejected = X[~accepted][::32]
    found = explain(option, theta, rejected, weights=weights)
    nearest = (np.abs(rejected[:, None] - X[accepted]) * weights).sum(axis=2).min(axis=1)
    assert option.accepts(found.counterfactuals, theta).all()
    assert (found.distances <= nearest).all()
    assert np.median(found.gaps) <= 0.05


@settings(max_examples=6)
@given(seeds, st.booleans())
def test_normalised_random_models_are_answered_and_never_bounded_too_high(seed, tells):
    """Also if one pair tells nothing: then the score of the two matters to no one."""
    rng = np.random.default_rng(seed)
    option = random_option(rng, 3, normalize=True)
    if not tells:
        i, j = rng.choice(3, 2, replace=False)
        option.alpha_[i, j] = option.alpha_[j, i] = 0.0
    coarse = grid[::7]
    theta = float(np.quantile(option.certainty(coarse), rng.uniform(0.3, 0.99)))
    x = 1.5 * rng.normal(size=2)
    nearest = on_the_grid(option, theta, x, np.ones(2))
    found = explain(option, theta, x)
    assert option.accepts(found.counterfactual[None], theta)[0]
    assert found.lower_bound <= min(found.distance, nearest * (1 + 1e-9) + 1e-12)


@settings(max_examples=4)
@given(seeds)
def test_normalised_answers_agree_with_a_fine_grid(seed):
    """Budgets that are too small would send answers too far, and prove what is not true."""
    rng = np.random.default_rng(seed)
    option = random_option(rng, 3, normalize=True, rising=1.0, most=1)
    theta = float(np.quantile(option.certainty(grid), rng.uniform(0.5, 0.9)))
    x, weights = 1.5 * rng.normal(size=2), rng.uniform(0.5, 2, 2)
    nearest, found = on_the_grid(option, theta, x, weights), explain(option, theta, x, weights=weights)
    assert found.lower_bound <= nearest * (1 + 1e-9)
    assert found.distance <= nearest * (1 + 1e-9)


@pytest.mark.parametrize("label", range(3))
def test_planes_lie_below_what_the_probabilities_leave_to_be_desired(label):
    """F = log((1 - p) / p) - log((1 - theta) / theta) of a normalised p, at the scores of inputs."""
    rng, theta = np.random.default_rng(0), 0.6
    option, X = random_option(rng, 3, normalize=True, rising=1.0, most=2), 2 * rng.normal(size=(50, 2))
    rule, scores = rule_of(option.cells(theta).pairs, theta, True, False), []
    for pair in zip(rule.first[label], rule.second[label], strict=True):
        model = option.models()[min(pair), max(pair)]
        own, other = (model.distances(X)[:, np.equal(model.labels, one)].min(axis=1) for one in pair)
        scores.append((other - own) / (other + own))
    p, s, labels = option.probabilities(X)[:, label], np.transpose(scores), np.full(50, label)
    exact = np.log((1 - p) / p) - np.log((1 - theta) / theta)
    np.testing.assert_allclose(plane(rule, labels, s, s, s)[0], exact, atol=1e-10)
    low, high = s - 0.1 * rng.random(s.shape), s + 0.1 * rng.random(s.shape)
    at = rng.uniform(low, high)
    value, slopes = plane(rule, labels, low, high, at)
    assert (value + (slopes * (s - at)).sum(axis=1) <= exact).all()


# Two classes


@pytest.mark.parametrize("theta", [-1.0, 0.0, 0.2, 0.45, 0.5])
@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_of_two_probabilities_one_is_at_least_a_half(theta, shift):
    """So the other class begins where it is the more probable one, whatever smaller theta is asked for."""
    option, x = two_classes(shift=shift), np.array([0.4, 0.3])
    found = explain(option, theta, x, target="b")
    scan = x + np.stack([np.linspace(0, 2, 20001), np.zeros(20001)], axis=1)
    first = float((scan[option.predict(scan) == "b"][0] - x).sum())
    assert found.distance == pytest.approx(first, abs=2e-4)
    assert found.gap <= 1e-6
    assert found.certainty >= 0.5
    assert explain(option, theta, x).distance == 0


@modest
@given(seeds, st.floats(0.55, 0.97))
def test_two_classes_are_the_relative_similarity_with_another_threshold(seed, theta):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "a", "b"])
    model = PrototypeModel(rng.normal(size=(4, 3)), labels, rng.normal(size=(2, 3)))
    option = ProbabilisticCertainty.from_pairs(
        {(0, 1): model}, [[0, -5], [-5, 0]], np.zeros((2, 2)), ["a", "b"]
    )
    level = np.log(1 / theta - 1) / -5
    x = rng.normal(size=(5, 3))
    assert isinstance(option.cells(theta), Cells)
    found, same = explain(option, theta, x), explain(RelativeSimilarity(model), level, x)
    assert np.allclose(found.distances, same.distances, rtol=1e-9, atol=1e-12)
    assert (found.gaps <= 1e-6).all()
    assert option.accepts(found.counterfactuals, theta).all()


def test_leaving_one_ball_goes_along_one_feature():
    """With beta = -3 class a is accepted outside a ball around the other prototype: gamma is below 0."""
    option = two_classes(shift=-3.0)
    theta = 0.9
    level = (-3.0 - np.log(1 / theta - 1)) / 4.0
    assert -1 < level < 0
    x = np.array([2.0, 0.05])
    assert not isinstance(option.cells(theta), Cells)
    found = explain(option, theta, x, target="a")
    lengths = np.linspace(0, 3, 300_001)
    shortest = np.inf
    for step in (*np.eye(2), *-np.eye(2)):
        accepted = option.probabilities(x + lengths[:, None] * step)[:, 0] >= theta
        shortest = min(shortest, lengths[accepted.argmax()] if accepted.any() else np.inf)
    assert found.distance == pytest.approx(shortest, abs=2e-5)
    assert found.gap <= 1e-6
    assert len(found.changed) == 1


@pytest.mark.parametrize("slope", [4.0, 0.0])
def test_slopes_that_tell_the_reverse_or_nothing(slope):
    option = two_classes(slope, shift=-3.0)
    found = explain(option, 0.9, [1.0, 0.3], target="a")
    assert option.accepts(found.counterfactual[None], 0.9)[0]
    assert found.label == "a"


def test_twins_have_a_score_of_zero():
    option = two_classes(prototypes=((1, 0), (1, 0)))
    with pytest.raises(NoCounterfactualError):
        explain(option, 0.9, [0.0, 0.0])
    assert explain(two_classes(shift=-5.0, prototypes=((1, 0), (1, 0))), 0.9, [0.0, 0.0]).distance == 0


# Thresholds


def three_classes(normalize=False, steep=-6.0):
    corners = {0: [0.0, 0.0], 1: [3.0, 0.0], 2: [0.0, 3.0]}
    models = {
        (i, j): PrototypeModel([corners[i], corners[j]], [i, j], np.diag([1.0 + i, 1.0 + j / 2]))
        for i, j in combinations(range(3), 2)
    }
    return ProbabilisticCertainty.from_pairs(
        models, np.full((3, 3), steep), np.zeros((3, 3)), np.arange(3), normalize
    )


@pytest.mark.parametrize("theta", [1.0, 1.5])
def test_no_input_is_certain(theta):
    with pytest.raises(NoCounterfactualError, match="no input reaches"):
        explain(three_classes(), theta, [1.0, 1.0])


def test_out_of_reach_says_what_is_within():
    option = three_classes(steep=-2.0)
    highest = 1 / (1 + 2 * np.exp(-2.0))  # both scores are 1
    assert highest < 0.9
    with pytest.raises(
        NoCounterfactualError, match="largest threshold that can be reached is about"
    ) as error:
        explain(option, 0.9, [1.0, 1.0])
    reached = float(str(error.value).split("about ")[1].split(")")[0])
    assert 0.5 < reached <= highest + 1e-3
    assert option.accepts(explain(option, reached * 0.999, [1.0, 1.0]).counterfactual[None], reached * 0.999)[
        0
    ]


def test_everything_is_accepted_at_zero():
    option = three_classes()
    assert explain(option, 0.0, [1.0, 1.0]).distance == 0
    for target in range(3):
        found = explain(option, 0.0, [1.0, 1.0], target=target)
        assert option.predict(found.counterfactual[None])[0] == target


def test_a_target_below_one_half_has_to_be_the_most_probable():
    option = three_classes()
    for target in range(3):
        found = explain(option, 0.2, [0.2, 0.1], target=target)
        assert option.predict(found.counterfactual[None])[0] == target
        assert found.distance <= explain(option, 0.51, [0.2, 0.1], target=target).distance * (1 + 1e-9)


def test_normalised_probabilities():
    option, plain = three_classes(normalize=True), three_classes()
    x = [[1.3, 1.4], [1.0, 1.2]]
    found, other = explain(option, 0.95, x), explain(plain, 0.95, x)
    assert option.accepts(found.counterfactuals, 0.95).all()
    assert (found.distances <= other.distances * (1 + 1e-9)).all()
    assert (found.lower_bounds <= found.distances).all()
    assert (explain(option, 1 / 3, x).distances == 0).all()
    pair, same = two_classes(normalize=True), two_classes()
    assert explain(pair, 0.9, [1, 0.4]).distance == explain(same, 0.9, [1, 0.4]).distance


def test_less_effort_leaves_a_larger_gap_and_says_so():
    rng = np.random.default_rng(5)
    option = random_option(rng, 5, rising=1.0)
    theta = float(np.quantile(option.certainty(grid), 0.9))
    x = rng.normal(size=(1, 2))
    box = np.full((1, 2), np.inf)
    ends = [
        option.cells(theta, gap=0.0, effort=effort).nearest(x, np.ones(2), -box, box, 1e-15)
        for effort in (0, 5, 60)
    ]
    bounds = [float(end.bounds[0]) for end in ends]
    assert bounds == sorted(bounds)
    assert all(end.distances[0] >= bounds[-1] for end in ends)
    with pytest.raises(ValueError, match="effort"):
        option.cells(theta, effort=-1)


# Requirements


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    option = ProbabilisticCertainty(GMLVQ()).fit(X, y)
    theta = float(np.quantile(option.certainty(X), 0.4))
    return option, theta, X[~option.accepts(X, theta)]


def test_requirements_are_kept(wine):
    option, theta, rejected = wine
    x = rejected[0]
    free = explain(option, theta, x)
    moved = free.changed[0]
    fixed = explain(option, theta, x, fixed=[moved])
    assert fixed.counterfactual[moved] == x[moved]
    assert fixed.distance >= free.lower_bound
    half = x[moved] + 0.5 * free.delta[moved]
    bounded = explain(option, theta, x, bounds={moved: tuple(sorted((x[moved], half)))})
    assert min(x[moved], half) <= bounded.counterfactual[moved] <= max(x[moved], half)
    one_way = {"decrease_only" if free.delta[moved] > 0 else "increase_only": [moved]}
    turned = explain(option, theta, x, **one_way)
    assert turned.delta[moved] * free.delta[moved] <= 0
    weights = np.ones(13)
    weights[moved] = 10
    dear = explain(option, theta, x, weights=weights)
    assert free.distance <= dear.distance <= 10 * free.distance * 1.01
    row = np.zeros((1, 13))
    row[0, moved] = np.sign(free.delta[moved])
    limit = row @ (x + 0.5 * free.delta)
    cut = explain(option, theta, x, constraints=(row, limit))
    assert (row @ cut.counterfactual <= limit).all()
    for why in (fixed, bounded, turned, dear, cut):
        assert option.accepts(why.counterfactual[None], theta)[0]
        assert why.gap <= 0.011


def test_each_class_can_be_asked_for(wine):
    option, _, rejected = wine
    theta, x = 0.8, rejected[option.certainty(rejected).argmin()]
    found = explain_per_class(option, theta, x)
    nearest = explain(option, theta, x)
    assert sorted(found) == [0, 1, 2]
    for label, why in found.items():
        assert option.predict(why.counterfactual[None])[0] == label
        assert why.distance >= nearest.lower_bound
    assert min(why.distance for why in found.values()) == pytest.approx(nearest.distance, rel=2e-3)


def test_words_say_where_the_doubt_is(wine):
    option, theta, rejected = wine
    why = explain(option, theta, rejected[0])
    assert "% of the doubt)" in why.active[0]
    assert f"{why.label} rather than" in why.active[0]


def test_what_is_accepted_already_stays(wine):
    option, theta, _ = wine
    X = load_wine(return_X_y=True)[0]
    X = StandardScaler().fit_transform(X)
    accepted = X[option.accepts(X, theta)][:3]
    box = np.full(accepted.shape, np.inf)
    found = option.cells(theta).nearest(accepted, np.ones(13), -box, box, 1e-15)
    assert (found.distances == 0).all()
    assert (found.changes == 0).all()


def test_a_further_ball_narrows_the_set(wine):
    option, theta, rejected = wine
    x = rejected[:1]
    free = explain(option, theta, x)
    near = Ball(free.counterfactuals[0], 1.0)
    box = np.full(x.shape, np.inf)
    union = option.cells(theta).narrowed([near])
    found = union.nearest(x, np.ones(13), -box, box, 1e-15)
    assert found.distances[0] == pytest.approx(free.distances[0], rel=2e-3)
    away = option.cells(theta).narrowed([Ball(x[0] + 9, 0.1)]).nearest(x, np.ones(13), -box, box, 1e-15)
    assert away.distances[0] == np.inf
