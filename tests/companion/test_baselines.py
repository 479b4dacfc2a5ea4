"""The paper's baselines and printed programs against direct evaluation, brute force and known examples."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from companion.baselines import (
    ball_as_printed,
    black_box,
    convex_probabilistic,
    direct_probabilistic,
    half_space_as_printed,
    nearest_accepted,
    printed_decision_distance,
    printed_relative_similarity,
    smooth_direct,
)
from companion.baselines_convex import printed_ball
from companion.baselines_direct import Pair, _exponents, pairs_of
from lvqrej import DecisionDistance, ProbabilisticCertainty, PrototypeModel, RelativeSimilarity

MODERATE = settings(max_examples=40)


def random_model(seed, d=4, per_class=2, n_classes=3, rank=None):
    rng = np.random.default_rng(seed)
    prototypes = rng.normal(size=(per_class * n_classes, d))
    labels = np.repeat(np.arange(n_classes), per_class)
    return PrototypeModel(prototypes, labels, rng.normal(size=(rank or d, d)))


def rejected_sample(option, theta, seed):
    samples = np.random.default_rng(seed).normal(size=(200, option.n_features))
    return samples[~option.accepts(samples, theta)][0]


class TestNearestAccepted:
    @MODERATE
    @given(st.integers(0, 10_000), st.floats(0.05, 0.6), st.booleans())
    def test_brute_force(self, seed, theta, weighted):
        rng = np.random.default_rng(seed)
        option = RelativeSimilarity(random_model(seed))
        X, candidates = (
            rng.normal(size=(5, 4)),
            np.vstack([rng.normal(size=(40, 4)), option.model.prototypes]),
        )
        w = rng.uniform(0.1, 10, size=4) if weighted else None
        for x, answer in zip(X, nearest_accepted(option, theta, X, candidates, w), strict=True):
            lengths = {
                float(((1 if w is None else w) * abs(c - x)).sum())
                for c in candidates
                if option.certainty(c[None])[0] >= theta
            }
            assert answer.distance == pytest.approx(min(lengths), rel=1e-12)
            assert answer.found
            assert answer.valid
            assert option.accepts(answer.counterfactual[None], theta)[0]
            assert answer.certainty == option.certainty(answer.counterfactual[None])[0]

    def test_blocks_agree_with_one_block(self):
        option = RelativeSimilarity(random_model(1, d=2))
        rng = np.random.default_rng(2)
        X, candidates = rng.normal(size=(120, 2)), rng.normal(size=(120_000, 2))
        answers = nearest_accepted(option, 0.2, X, candidates)
        assert option.accepts(candidates, 0.2).sum() * len(X) > 5_000_000  # more than one block
        for i in (0, 60, 119):
            (alone,) = nearest_accepted(option, 0.2, X[i : i + 1], candidates)
            assert np.array_equal(alone.counterfactual, answers[i].counterfactual)

    def test_nothing_accepted_says_how_far(self):
        option = RelativeSimilarity(PrototypeModel([[0.0], [2.0]], [0, 1]))
        with pytest.raises(ValueError, match=r"found none at theta = 0.9.*among 2 is 0.8"):
            nearest_accepted(option, 0.9, [[1.0]], [[0.5], [1.0]])


class TestBlackBox:
    def test_penalty_of_the_published_code_is_valid_and_that_of_the_paper_is_not(self):
        valid = {1: 0, 1000: 0}
        for seed in range(10):
            option = RelativeSimilarity(random_model(seed, per_class=1))
            x = rejected_sample(option, 0.5, seed)
            for penalty in valid:
                answer = black_box(option, 0.5, x, penalty=penalty)
                assert answer.valid == option.accepts(answer.counterfactual[None], 0.5)[0]
                assert answer.distance == pytest.approx(np.abs(answer.counterfactual - x).sum())
                valid[penalty] += answer.valid
        assert valid[1000] >= 9
        assert valid[1] <= 5

    def test_never_nearer_than_the_optimum(self):
        for seed in range(5):
            option = RelativeSimilarity(random_model(seed))
            x = rejected_sample(option, 0.5, seed)
            answer = black_box(option, 0.5, x, penalty=1000)
            if answer.valid:
                assert answer.distance >= printed_relative_similarity(option.model, 0.5, x).distance - 1e-6

    def test_unclipped_penalty_runs_away(self):
        option = RelativeSimilarity(random_model(3))
        x = rejected_sample(option, 0.4, 3)
        clipped = black_box(option, 0.4, x, penalty=1000)
        unclipped = black_box(option, 0.4, x, penalty=1000, clip=False)
        assert clipped.valid
        assert unclipped.valid
        assert unclipped.distance > 1.5 * clipped.distance
        assert unclipped.certainty > clipped.certainty + 0.1

    def test_more_iterations_are_no_worse(self):
        option = RelativeSimilarity(random_model(4))
        x = rejected_sample(option, 0.5, 4)
        few = black_box(option, 0.5, x, penalty=1000, max_iterations=5)
        many = black_box(option, 0.5, x, penalty=1000, max_iterations=2000)
        values = [a.distance + 1000 * max(0, 0.5 - a.certainty) for a in (few, many)]
        assert values[1] < values[0]


class TestPrintedFormulas:
    @MODERATE
    @given(st.integers(0, 10_000), st.floats(0.01, 1.0), st.sampled_from([None, 1, 2]))
    def test_relative_similarity(self, seed, theta, rank):
        model = random_model(seed, rank=rank)
        z = 3 * np.random.default_rng(seed).normal(size=(50, 4))
        p, o = model.prototypes[0], model.prototypes[-1]
        q, c = ball_as_printed(model, theta, p, o)
        printed = ((z @ model.L.T) ** 2).sum(axis=1) + z @ q + c
        d = model.distances(z)
        direct = (1 - theta) * d[:, -1] - (1 + theta) * d[:, 0]
        np.testing.assert_allclose(-2 * theta * printed, direct, rtol=1e-9, atol=1e-9 * np.abs(d).max())

    @MODERATE
    @given(st.integers(0, 10_000), st.floats(0, 3), st.sampled_from(["metric", "euclidean"]))
    def test_decision_distance(self, seed, theta, norm):
        option = DecisionDistance(random_model(seed, rank=2), norm)
        model = option.model
        z = 3 * np.random.default_rng(seed).normal(size=(50, 4))
        q, c = half_space_as_printed(option, theta, 0, 5)
        difference = model.prototypes[0] - model.prototypes[5]
        D = np.sum((model.L @ difference if norm == "metric" else difference) ** 2)
        d = model.distances(z)
        direct = d[:, 5] - d[:, 0] - 2 * theta * D
        np.testing.assert_allclose(z @ q + c, direct, rtol=1e-9, atol=1e-9 * np.abs(d).max())


class TestPrintedRelativeSimilarity:
    @pytest.mark.parametrize("rank", [None, 2])
    @pytest.mark.parametrize("theta", [0.3, 0.7])
    def test_optimal_on_a_grid_and_on_the_threshold(self, rank, theta):
        for seed in range(3):
            model = random_model(seed, d=2, rank=rank)
            option = RelativeSimilarity(model)
            x = rejected_sample(option, theta, seed)
            answer = printed_relative_similarity(model, theta, x)
            assert answer.certainty == pytest.approx(theta, abs=1e-6)
            axis = np.linspace(-1, 1, 401) * 1.05 * answer.distance
            grid = x + np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
            lengths = np.abs(grid[option.accepts(grid, theta)] - x).sum(axis=1)
            step = axis[1] - axis[0]
            assert answer.distance - 1e-6 <= lengths.min() <= answer.distance + 2 * step + 0.02

    def test_programs_are_reported(self):
        model = random_model(0)
        x = rejected_sample(RelativeSimilarity(model), 0.5, 0)
        answer = printed_relative_similarity(model, 0.5, x)
        assert [program.target for program in answer.programs] == [(i,) for i in range(6)]
        assert answer.distance == pytest.approx(min(program.value for program in answer.programs), abs=1e-6)

    def test_published_margin_makes_answers_longer(self):
        for seed in range(4):
            model = random_model(seed)
            x = rejected_sample(RelativeSimilarity(model), 0.5, seed)
            exact = printed_relative_similarity(model, 0.5, x)
            scs = printed_relative_similarity(model, 0.5, x, solver="SCS", eps=1e-4)
            published = printed_relative_similarity(model, 0.5, x, solver="SCS", margin=0.1, eps=1e-4)
            assert scs.distance == pytest.approx(exact.distance, abs=1e-2)
            assert published.distance > exact.distance + 1e-3
            assert published.valid

    def test_infeasible_is_the_zero_vector_and_flagged(self):
        model = PrototypeModel([[3.0, 0.0], [3.1, 0.0]], ["a", "b"])
        answer = printed_relative_similarity(model, 0.9, [3.05, 1.0], margin=0.1)
        assert not answer.found
        assert not answer.valid
        assert np.array_equal(answer.counterfactual, [0, 0])
        assert answer.distance == np.inf
        assert [program.status for program in answer.programs] == ["infeasible", "infeasible"]
        assert all(program.point is None and program.value == np.inf for program in answer.programs)

    def test_solver_that_cannot_is_recorded(self):
        answer = printed_relative_similarity(random_model(0), 0.5, np.zeros(4), solver="HIGHS")
        assert {program.status for program in answer.programs} == {"solver_error"}
        assert not answer.found


class TestPrintedDecisionDistance:
    def test_not_sufficient(self):
        model = PrototypeModel([[0, 0], [0, 4], [2, 0]], ["A", "A", "B"])
        answer = printed_decision_distance(model, 0.25, [0.6, 2.1])
        np.testing.assert_allclose(answer.counterfactual, [0.5, 2.1], atol=1e-6)
        assert answer.certainty == pytest.approx(0.07, abs=1e-6)
        assert not answer.valid

    def test_not_necessary(self):
        model = PrototypeModel([[0, 0], [2, 0], [0, 10]], ["A", "B", "B"])
        x = np.array([0.6, 2.6])
        answer = printed_decision_distance(model, 0.25, x)
        assert answer.distance == pytest.approx(0.2, abs=1e-6)
        better = x - [0.1, 0]
        assert DecisionDistance(model).certainty(better[None])[0] == pytest.approx(0.25)

    def test_exact_with_one_prototype_for_each_of_two_classes(self):
        for seed in range(5):
            model = random_model(seed, per_class=1, n_classes=2)
            option = DecisionDistance(model)
            x = rejected_sample(option, 0.4, seed)
            answer = printed_decision_distance(model, 0.4, x)
            # One half-space: l1 moves along the single best coordinate of either class's normal.
            gaps = [half_space_as_printed(option, 0.4, i, 1 - i) for i in (0, 1)]
            assert answer.distance == pytest.approx(
                min(-(q @ x + c) / np.abs(q).max() for q, c in gaps), rel=1e-5
            )
            assert answer.certainty == pytest.approx(0.4, abs=1e-6)

    def test_norm_of_the_definition_and_of_the_appendix_differ(self):
        model = random_model(5, per_class=1)
        x = rejected_sample(DecisionDistance(model), 0.2, 5)
        for norm in ("metric", "euclidean"):
            answer = printed_decision_distance(model, 0.2, x, norm=norm, margin=0.01)
            assert answer.valid
            assert DecisionDistance(model, norm).certainty(answer.counterfactual[None])[0] >= 0.2
        assert abs(answer.distance - printed_decision_distance(model, 0.2, x).distance) > 1e-3

    def test_published_margin_makes_answers_longer(self):
        model = random_model(6)
        x = rejected_sample(DecisionDistance(model), 0.3, 6)
        exact = printed_decision_distance(model, 0.3, x)
        published = printed_decision_distance(model, 0.3, x, solver="SCS", margin=0.1, eps=1e-4)
        assert published.distance > exact.distance


class TestBadInput:
    option = RelativeSimilarity(random_model(0))
    x = np.zeros(4)

    def test_option(self):
        with pytest.raises(ValueError, match="option must be a Certainty; found 3"):
            black_box(3, 0.5, self.x)
        with pytest.raises(ValueError, match="option must be a Certainty"):
            nearest_accepted("relative similarity", 0.5, [self.x], [self.x])

    @pytest.mark.parametrize("call", [printed_relative_similarity, printed_decision_distance])
    def test_programs(self, call):
        model = self.option.model
        with pytest.raises(ValueError, match="model must be a PrototypeModel"):
            call(self.option, 0.5, self.x)
        with pytest.raises(ValueError, match=r"x must be one sample of shape \(4,\); found shape \(1, 4\)"):
            call(model, 0.5, [self.x])
        with pytest.raises(ValueError, match="x must have 4 features; found 3"):
            call(model, 0.5, self.x[:3])
        with pytest.raises(ValueError, match="theta"):
            call(model, "high", self.x)
        with pytest.raises(ValueError, match="margin must be at least 0"):
            call(model, 0.5, self.x, margin=-0.1)
        with pytest.raises(ValueError, match=r"solver must be one of .*'CLARABEL'.*; found 'GUROBY'"):
            call(model, 0.5, self.x, solver="GUROBY")

    def test_relative_similarity_divides_by_theta(self):
        with pytest.raises(ValueError, match="theta must be above 0"):
            printed_relative_similarity(self.option.model, 0.0, self.x)

    def test_norm(self):
        with pytest.raises(ValueError, match="norm must be one of"):
            printed_decision_distance(self.option.model, 0.5, self.x, norm="l2")

    def test_black_box(self):
        with pytest.raises(ValueError, match="penalty must be at least 0"):
            black_box(self.option, 0.5, self.x, penalty=-1)
        with pytest.raises(ValueError, match="clip must be True or False; found 'no'"):
            black_box(self.option, 0.5, self.x, clip="no")
        with pytest.raises(ValueError, match="max_iterations must be at least 1"):
            black_box(self.option, 0.5, self.x, max_iterations=0)

    @pytest.mark.parametrize(
        "weights", [[1, 1, 1], [1, 1, 1, 0], [1, 1, 1, -1], np.ones((2, 4)), [1, 1, 1, np.nan]]
    )
    def test_weights(self, weights):
        with pytest.raises(ValueError, match="weights"):
            nearest_accepted(self.option, 0.5, [self.x], [self.x], weights)


def random_option(seed, n_classes=3, d=3, per_class=1, alpha=(-9, -4), rank=None, normalize=False):
    rng = np.random.default_rng(seed)
    models, slope, shift = {}, np.zeros((n_classes, n_classes)), np.zeros((n_classes, n_classes))
    centres = 1.5 * rng.normal(size=(n_classes, d))
    for i, j in combinations(range(n_classes), 2):
        prototypes = np.repeat(centres[[i, j]], per_class, axis=0) + 0.4 * rng.normal(size=(2 * per_class, d))
        L = np.eye(d)[:rank] + 0.2 * rng.normal(size=(rank or d, d))
        models[i, j] = PrototypeModel(prototypes, np.repeat([i, j], per_class), L)
        slope[i, j], shift[i, j] = rng.uniform(*alpha), rng.normal()
    return ProbabilisticCertainty.from_pairs(
        models, slope + slope.T, shift - shift.T, np.arange(n_classes), normalize
    )


def rejected_and_theta(option, seed, quantile=0.4):
    """A rejected sample at a threshold that a good part of the samples reach."""
    samples = 2 * np.random.default_rng(seed).normal(size=(200, option.n_features))
    certainties = option.certainty(samples)
    theta = float(np.quantile(certainties, quantile))
    return samples[certainties < theta][0], theta, samples


class TestPair:
    @MODERATE
    @given(st.integers(0, 10_000), st.sampled_from([None, 2]))
    def test_probabilities_and_gradients(self, seed, rank):
        option = random_option(seed, n_classes=4, per_class=2, rank=rank)
        x = np.random.default_rng(seed).normal(size=3)
        for i in range(4):
            values = np.array([pair.exponent(x)[0] for pair in pairs_of(option, i)])
            assert 1 / (1 + np.exp(values).sum()) == pytest.approx(
                option.probabilities(x[None])[0, i], rel=1e-9
            )
        pairs = [pairs_of(option, i) for i in range(4)]
        for normalize in (False, True):
            a, gradients = _exponents(pairs, 1, x, normalize)
            shifts = 1e-6 * np.eye(3)
            ahead, behind = (
                np.array([_exponents(pairs, 1, z, normalize)[0] for z in x + s]) for s in (shifts, -shifts)
            )
            smooth = (
                np.abs(ahead + behind - 2 * a).max() < 1e-7
            )  # no change of the nearest prototype within reach
            if smooth:
                np.testing.assert_allclose(gradients, (ahead - behind).T / 2e-6, rtol=1e-4, atol=1e-4)

    def test_normalised_exponents_give_normalised_probabilities(self):
        option = random_option(1, normalize=True)
        x = np.random.default_rng(1).normal(size=3)
        pairs = [pairs_of(option, i) for i in range(3)]
        for i in range(3):
            a, _ = _exponents(pairs, i, x, True)
            assert 1 / (1 + np.exp(a).sum()) == pytest.approx(option.probabilities(x[None])[0, i], rel=1e-9)

    def test_where_both_distances_vanish(self):
        pair = Pair(np.zeros((1, 2)), np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]), -3.0, 0.5)
        value, gradient = pair.exponent(np.array([0.0, 7.0]))
        assert value == 0.5
        assert np.array_equal(gradient, [0, 0])


class TestPrintedBall:
    @MODERATE
    @given(st.integers(0, 10_000), st.floats(0.05, 0.95), st.sampled_from([1, 2, 3]))
    def test_mirror_image_of_the_right_ball(self, seed, gamma, rank):
        rng = np.random.default_rng(seed)
        L, p_i, p_j = rng.normal(size=(rank, 3)), rng.normal(size=3), rng.normal(size=3)
        z = 3 * rng.normal(size=(60, 3))
        q, c = printed_ball(L, gamma, p_i, p_j)
        centre = p_i + (1 - gamma) / (2 * gamma) * (p_i - p_j)
        squared_radius = (1 - gamma**2) / (4 * gamma**2) * np.sum((L @ (p_i - p_j)) ** 2)
        square = ((z @ L.T) ** 2).sum(axis=1)
        mirrored = (((z + centre) @ L.T) ** 2).sum(axis=1) - (2 * np.sum((L @ centre) ** 2) - squared_radius)
        scale = 1e-10 * (square.max() + np.sum((L @ centre) ** 2) + squared_radius)
        np.testing.assert_allclose(square + z @ q + c, mirrored, atol=scale)
        right = (((z - centre) @ L.T) ** 2).sum(axis=1) - squared_radius
        np.testing.assert_allclose(square - z @ q - c, right, atol=scale)
        # No point is in both, as the two left sides add up to 2|Lz|^2.
        assert not ((mirrored < -scale) & (right < -scale)).any()
        d_i, d_j = (((z - p) @ L.T) ** 2 @ np.ones(rank) for p in (p_i, p_j))
        np.testing.assert_allclose(2 * gamma * right, (gamma - 1) * d_j + (1 + gamma) * d_i, atol=10 * scale)


class TestConvexProbabilistic:
    def test_all_classes_with_correct_signs_is_valid_and_nothing_else_is(self):
        valid = {("printed", "one"): 0, ("printed", "all"): 0, ("correct", "one"): 0, ("correct", "all"): 0}
        for seed in range(8):
            option = random_option(seed)
            x, theta, _ = rejected_and_theta(option, seed)
            for signs, classes in valid:
                answer = convex_probabilistic(option, theta, x, signs=signs, classes=classes, margin=1e-7)
                assert answer.valid == (answer.found and answer.certainty >= theta)
                valid[signs, classes] += answer.valid
        assert valid["correct", "all"] == 8
        assert valid["printed", "one"] == valid["printed", "all"] == 0
        assert valid["correct", "one"] <= 2

    def test_two_classes_are_exact(self):
        for seed in range(3):
            option = random_option(seed, n_classes=2, d=2, per_class=2)
            x, theta, _ = rejected_and_theta(option, seed, quantile=0.7)
            answer = convex_probabilistic(option, theta, x, signs="correct")
            joint = convex_probabilistic(option, theta, x, signs="correct", classes="all")
            assert joint.distance == pytest.approx(answer.distance, abs=1e-6)
            assert answer.certainty == pytest.approx(theta, abs=1e-6)
            axis = np.linspace(-1, 1, 301) * 1.05 * answer.distance
            grid = x + np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
            lengths = np.abs(grid[option.accepts(grid, theta)] - x).sum(axis=1)
            assert answer.distance - 1e-5 <= lengths.min() <= answer.distance + 8 * (axis[1] - axis[0])

    def test_number_of_programs_is_the_papers(self):
        option = random_option(0, n_classes=3, per_class=2)
        x, theta, _ = rejected_and_theta(option, 0)
        one = convex_probabilistic(option, theta, x)
        assert len(one.programs) == 3 * 2 * 2  # |Y| (|Y| - 1) P_N, Eq. (18)
        assert one.programs[0].target == (0, 1, 0)
        joint = convex_probabilistic(option, theta, x, signs="correct", classes="all", margin=1e-7)
        assert len(joint.programs) == 3 * 2**2
        assert joint.valid

    @pytest.mark.parametrize("alpha", [(4, 9), (-9, 9)])
    def test_alpha_of_either_sign_with_correct_signs(self, alpha):
        for seed in range(3):
            option = random_option(seed, alpha=alpha, per_class=2)
            x, theta, _ = rejected_and_theta(option, seed)
            answer = convex_probabilistic(option, theta, x, signs="correct", classes="all", margin=1e-7)
            assert answer.valid
            assert answer.distance > 1e-6

    def test_constant_pair(self):
        model = PrototypeModel([[0.0, 0.0], [2.0, 0.0]], [0, 1])
        zero = np.zeros((2, 2))
        option = ProbabilisticCertainty.from_pairs({(0, 1): model}, zero, [[0, -2], [2, 0]], [0, 1])
        x = np.array([1.0, 0.0])
        reach = option.certainty(x[None])[0]
        assert not convex_probabilistic(option, 0.95, x, signs="correct").found
        met = convex_probabilistic(option, reach - 0.01, x, signs="correct")
        assert met.distance == pytest.approx(0, abs=1e-6)
        assert met.valid
        printed = convex_probabilistic(option, 0.95, x)
        assert {program.status for program in printed.programs} == {"undefined"}
        assert not printed.found

    def test_half_spaces_and_no_constraint(self):
        # theta below 1/2 with two classes: gamma is negative, whatever is nearer is accepted.
        model = PrototypeModel([[0.0, 0.0], [2.0, 0.0]], [0, 1])
        slope = [[0, -4], [-4, 0]]
        option = ProbabilisticCertainty.from_pairs({(0, 1): model}, slope, np.zeros((2, 2)), [0, 1])
        answer = convex_probabilistic(option, 0.3, [0.4, 0.0], signs="correct")
        assert [round(program.value, 5) for program in answer.programs] == [0, 0.6]
        answer = convex_probabilistic(option, 0.01, [0.4, 0.0], signs="correct")
        assert [round(program.value, 5) for program in answer.programs] == [0, 0]

    def test_eps_hides_that_nothing_is_certain(self):
        option = random_option(0)
        x, _, _ = rejected_and_theta(option, 0)
        answer = convex_probabilistic(option, 1.0, x, signs="correct", classes="all", eps=0.5)
        assert answer.found
        assert not answer.valid


class TestDirectProbabilistic:
    def test_clipped_beats_unclipped(self):
        lengths = []
        for seed in range(4):
            option = random_option(seed)
            x, theta, _ = rejected_and_theta(option, seed)
            clipped = direct_probabilistic(option, theta, x)
            unclipped = direct_probabilistic(option, theta, x, clip=False)
            assert len(clipped.programs) == 3
            assert clipped.certainty >= theta - 1e-4
            lengths.append((clipped.distance, unclipped.distance))
        clipped_mean, unclipped_mean = np.mean(lengths, axis=0)
        assert unclipped_mean > 1.5 * clipped_mean

    def test_equal_weighting_stays_with_the_input(self):
        option = random_option(0)
        x, theta, _ = rejected_and_theta(option, 0, quantile=0.9)
        answer = direct_probabilistic(option, theta, x, penalty=0)
        assert answer.distance == pytest.approx(0, abs=1e-3)
        assert not answer.valid


class TestSmoothDirect:
    @pytest.mark.parametrize("normalize", [False, True])
    def test_valid_and_no_farther_than_the_others(self, normalize):
        for seed in range(4):
            option = random_option(seed, normalize=normalize)
            x, theta, samples = rejected_and_theta(option, seed)
            (nearest,) = nearest_accepted(option, theta, [x], samples)
            answer = smooth_direct(option, theta, x, nearest=nearest.counterfactual)
            assert answer.valid
            assert answer.distance <= nearest.distance
            assert answer.certainty == pytest.approx(theta, abs=1e-6)
            joint = convex_probabilistic(option, theta, x, signs="correct", classes="all")
            assert answer.distance <= joint.distance + 1e-5

    @pytest.mark.parametrize("normalize", [False, True])
    def test_grid(self, normalize):
        option = random_option(5, d=2, normalize=normalize)
        x, theta, _ = rejected_and_theta(option, 5)
        answer = smooth_direct(option, theta, x)
        axis = np.linspace(-1, 1, 401) * 1.05 * answer.distance
        grid = x + np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        lengths = np.abs(grid[option.accepts(grid, theta)] - x).sum(axis=1)
        assert abs(answer.distance - lengths.min()) <= 4 * (axis[1] - axis[0])

    def test_accepted_input_is_its_own_counterfactual(self):
        option = random_option(0)
        x, _, _ = rejected_and_theta(option, 0)
        answer = smooth_direct(option, 0.01, x)
        assert answer.distance == 0
        assert answer.valid

    def test_nothing_found(self):
        option = random_option(0)
        x, _, _ = rejected_and_theta(option, 0)
        for theta in (1.0, 1 - 1e-9):
            answer = smooth_direct(option, theta, x, n_starts=0)
            assert not answer.found
            assert not answer.valid
            assert {program.status for program in answer.programs} == {"invalid"}

    def test_seeded(self):
        option = random_option(2, per_class=2)
        x, theta, _ = rejected_and_theta(option, 2)
        first, second = (smooth_direct(option, theta, x, random_state=3) for _ in range(2))
        assert np.array_equal(first.counterfactual, second.counterfactual)


@pytest.mark.parametrize("call", [direct_probabilistic, convex_probabilistic, smooth_direct])
def test_bad_input_of_the_probabilistic_methods(call):
    option = random_option(0)
    x = np.zeros(3)
    with pytest.raises(ValueError, match="option must be a ProbabilisticCertainty; found"):
        call(RelativeSimilarity(random_model(0)), 0.5, x)
    with pytest.raises(NotFittedError, match="option has no pairwise models yet"):
        call(ProbabilisticCertainty(), 0.5, x)
    with pytest.raises(ValueError, match="theta must be above 0"):
        call(option, 0, x)
    with pytest.raises(ValueError, match=r"x must be one sample of shape \(3,\)"):
        call(option, 0.5, [x])


def test_bad_choices_of_the_probabilistic_methods():
    option, x = random_option(0), np.zeros(3)
    with pytest.raises(ValueError, match="signs must be one of 'printed', 'correct'"):
        convex_probabilistic(option, 0.5, x, signs="right")
    with pytest.raises(ValueError, match="classes must be one of 'one', 'all'"):
        convex_probabilistic(option, 0.5, x, classes="two")
    with pytest.raises(ValueError, match="eps must be above 0"):
        convex_probabilistic(option, 0.5, x, eps=0)
    with pytest.raises(ValueError, match="n_starts must be an integer"):
        smooth_direct(option, 0.5, x, n_starts=1.5)
    with pytest.raises(ValueError, match="random_state must be at least 0"):
        smooth_direct(option, 0.5, x, random_state=-1)
    with pytest.raises(ValueError, match="x must have 3 features"):
        smooth_direct(option, 0.5, x, nearest=[0.0])
