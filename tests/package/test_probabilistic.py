"""Pairwise probabilities: calibration against scikit-learn's, combination against exact arithmetic."""

import warnings
from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.calibration import _SigmoidCalibration
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lvqrej.certainty import Certainty
from lvqrej.lvq import GLVQ, GMLVQ
from lvqrej.probabilistic import (
    ProbabilisticCertainty,
    UninformativePairWarning,
    platt_scaling,
    price_combination,
    signed_similarity,
)
from lvqrej.prototypes import PrototypeModel

#: Tables are taken as they are here, some not scaled, some without any structure.
pytestmark = pytest.mark.filterwarnings("ignore::lvqrej.lvq.PrototypeWarning")

modest = settings(max_examples=100)
seeds = st.integers(0, 2**32 - 1)


def random_option(rng, K=3, d=2, normalize=False, steepness=6.0) -> ProbabilisticCertainty:
    """A certainty from random parts: one to three prototypes per class, each pair with its own metric."""
    models = {}
    for i, j in combinations(range(K), 2):
        labels = np.concatenate(([i, j], rng.choice([i, j], size=rng.integers(0, 4))))
        models[i, j] = PrototypeModel(rng.normal(size=(len(labels), d)), labels, rng.normal(size=(d, d)))
    alpha, beta = -rng.uniform(0, steepness, (K, K)), rng.normal(size=(K, K))
    return ProbabilisticCertainty.from_pairs(
        models, np.triu(alpha, 1) + np.triu(alpha, 1).T, beta - beta.T, np.arange(K), normalize
    )


def exact_probabilities(exponents, normalize=False) -> list[float]:
    """The combination as it is written, in 60 digits."""
    with localcontext(prec=60):
        K = len(exponents)
        e = [[Decimal(float(t)).exp() for t in row] for row in exponents]
        p = [1 / (1 + sum(e[i][j] for j in range(K) if j != i)) for i in range(K)]
        total = sum(p) if normalize else 1
        return [float(value / total) for value in p]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, load_wine().target_names[y], random_state=0, stratify=y)


@pytest.fixture(scope="module")
def on_wine(wine):
    X, _, y, _ = wine
    return ProbabilisticCertainty(make_pipeline(StandardScaler(), GMLVQ()), random_state=1).fit(X, y)


# The score


@modest
@given(seeds)
def test_the_score_is_the_signed_relative_similarity(seed):
    rng = np.random.default_rng(seed)
    labels = np.array(["a", "b", "b", "a", "b"])
    P, L, X = rng.normal(size=(5, 3)), rng.normal(size=(2, 3)), rng.normal(size=(8, 3))
    for x, found, mirrored in zip(
        X,
        signed_similarity(PrototypeModel(P, labels, L), X, "a"),
        signed_similarity(PrototypeModel(P, labels, L), X, "b"),
        strict=True,
    ):
        nearest = {c: min(np.sum((L @ (x - p)) ** 2) for p in P[labels == c]) for c in "ab"}
        expected = (nearest["b"] - nearest["a"]) / (nearest["b"] + nearest["a"])
        assert found == pytest.approx(expected, abs=1e-12)
        assert mirrored == -found


def test_the_score_where_both_distances_vanish_is_zero():
    assert signed_similarity(PrototypeModel([[1], [1]], [0, 1]), [[1]], 0).tolist() == [0]


# Calibration


def sigmoid_loss(alpha, beta, scores, is_first) -> float:
    return log_loss(is_first, 1 / (1 + np.exp(alpha * scores + beta)), labels=[False, True])


@modest
@given(seeds, st.integers(2, 200), st.floats(0, 20))
def test_calibration_agrees_with_scikit_learns_sigmoid(seed, n, separation):
    rng = np.random.default_rng(seed)
    is_first = rng.permutation(np.arange(n) < rng.integers(1, n))
    scores = np.tanh(0.3 * rng.normal(size=n) + separation * (is_first - 0.5))
    alpha, beta = platt_scaling(scores, is_first)
    theirs = _SigmoidCalibration().fit(scores, is_first.astype(int))
    assert sigmoid_loss(alpha, beta, scores, is_first) == pytest.approx(
        sigmoid_loss(theirs.a_, theirs.b_, scores, is_first), abs=1e-3
    )


@modest
@given(seeds, st.integers(2, 60), st.floats(0, 20))
def test_calibration_is_the_minimum_of_platts_cross_entropy(seed, n, separation):
    """The gradient of the smoothed cross-entropy vanishes, in the scores' own units."""
    rng = np.random.default_rng(seed)
    is_first = rng.permutation(np.arange(n) < rng.integers(1, n))
    scores = np.tanh(0.3 * rng.normal(size=n) + separation * (is_first - 0.5))
    alpha, beta = platt_scaling(scores, is_first)
    n_first, n_other = is_first.sum(), n - is_first.sum()
    target = np.where(is_first, (n_first + 1) / (n_first + 2), 1 / (n_other + 2))
    residual = 1 / (1 + np.exp(alpha * scores + beta)) - target
    assert abs(residual.mean()) < 1e-7
    assert abs((residual * scores).mean()) < 1e-7


def test_separable_scores_have_a_finite_calibration():
    alpha, beta = platt_scaling([-1, -1, 1, 1], [False, False, True, True])
    assert 1 / (1 + np.exp(alpha + beta)) == pytest.approx(3 / 4)
    assert 1 / (1 + np.exp(-alpha + beta)) == pytest.approx(1 / 4)


def test_swapping_the_classes_swaps_the_calibration():
    rng = np.random.default_rng(0)
    is_first = rng.uniform(size=80) < 0.3
    scores = np.tanh(rng.normal(size=80) + is_first)
    alpha, beta = platt_scaling(scores, is_first)
    assert platt_scaling(-scores, ~is_first) == pytest.approx((alpha, -beta), rel=1e-8)
    assert alpha < 0


@pytest.mark.parametrize("scores", [[0.1] * 10, [0.1] * 9 + [np.nextafter(0.1, 1)], [0, 5e-324] * 5])
def test_constant_scores_leave_the_frequencies(scores):
    is_first = np.arange(10) < 3
    alpha, beta = platt_scaling(scores, is_first)
    smoothed = (3 * 4 / 5 + 7 * 1 / 9) / 10
    assert alpha == 0
    assert 1 / (1 + np.exp(beta)) == pytest.approx(smoothed, rel=1e-12)


@pytest.mark.parametrize(
    ("scores", "is_first", "message"),
    [
        ([], [], "scores must be finite, of shape"),
        ([[0.5]], [True], "scores must be finite, of shape"),
        ([0.5, np.nan], [True, False], "scores must be finite"),
        ([0.5, 0.6], [True], r"is_first must have one entry per score \(2\); found shape \(1,\)"),
    ],
)
def test_bad_input_of_the_calibration(scores, is_first, message):
    with pytest.raises(ValueError, match=message):
        platt_scaling(scores, is_first)


# Combination


@modest
@given(seeds, st.integers(2, 6), st.floats(-2, 2.5), st.booleans())
def test_the_combination_is_the_formula(seed, K, magnitude, normalize):
    rng = np.random.default_rng(seed)
    t = 10**magnitude * rng.normal(size=(4, K, K))
    t -= t.transpose(0, 2, 1)
    for row, found in zip(t, price_combination(t, normalize), strict=True):
        np.testing.assert_allclose(found, exact_probabilities(row, normalize), rtol=1e-12, atol=1e-300)


def test_nothing_overflows_and_a_cycle_that_underflows_is_still_normalised():
    """a beats b, b beats c, c beats a, each beyond doubt: every p underflows, and no class is preferred."""
    t = 1e6 * np.array([[[0, -1, 1], [1, 0, -1], [-1, 1, 0]]], dtype=float)
    assert price_combination(t, False).tolist() == [[0, 0, 0]]
    np.testing.assert_allclose(price_combination(t, True), [[1 / 3] * 3], rtol=1e-15)
    t = np.array([[[0, 1e300], [-1e300, 0]]])
    for normalize in (False, True):
        assert price_combination(t, normalize).tolist() == [[0, 1]]


@modest
@given(seeds, st.integers(2, 5))
def test_both_orders_add_up_to_one_in_every_bit(seed, K):
    rng = np.random.default_rng(seed)
    p = random_option(rng, K).pairwise_probabilities(rng.normal(scale=2, size=(20, 2)))
    off = ~np.eye(K, dtype=bool)
    assert ((p + p.transpose(0, 2, 1))[:, off] == 1).all()
    assert ((p >= 0) & (p <= 1)).all()


@modest
@given(seeds, st.integers(2, 5))
def test_the_sum_of_the_probabilities_is_at_most_one(seed, K):
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=2, size=(10, 2))
    option = random_option(rng, K)
    plain = option.probabilities(X)
    assert (plain.sum(axis=1) <= 1 + 1e-15).all()
    option.normalize = True
    normalized = option.probabilities(X)
    np.testing.assert_allclose(normalized.sum(axis=1), 1, rtol=1e-15)
    assert (normalized >= plain * (1 - 1e-14)).all()
    np.testing.assert_allclose(normalized, plain / plain.sum(axis=1, keepdims=True), rtol=1e-12)


@modest
@given(seeds)
def test_two_classes_need_no_combination(seed):
    rng = np.random.default_rng(seed)
    option, X = random_option(rng, K=2), rng.normal(size=(20, 2))
    p = option.probabilities(X)
    np.testing.assert_allclose(p[:, 0], option.pairwise_probabilities(X)[:, 0, 1], rtol=1e-15, atol=1e-16)
    assert (abs(p.sum(axis=1) - 1) <= np.spacing(1.0)).all()


@modest
@given(seeds, st.integers(2, 4))
def test_the_whole_certainty_from_prototypes_to_label(seed, K):
    rng = np.random.default_rng(seed)
    option, X = random_option(rng, K), rng.normal(size=(6, 2))
    for x, p, r, label in zip(
        X, option.probabilities(X), option.certainty(X), option.predict(X), strict=True
    ):
        t = np.zeros((K, K))
        for (i, j), model in option.models_.items():
            z = (model.L @ (x - model.prototypes).T) ** 2
            d_i, d_j = (z.sum(axis=0)[model.labels == c].min() for c in (i, j))
            t[i, j] = option.alpha_[i, j] * (d_j - d_i) / (d_j + d_i) + option.beta_[i, j]
            t[j, i] = option.alpha_[j, i] * (d_i - d_j) / (d_i + d_j) + option.beta_[j, i]
        np.testing.assert_allclose(p, exact_probabilities(t), rtol=1e-9)
        assert r == p.max()
        assert label == p.argmax()


@modest
@given(seeds, st.integers(1, 40), st.integers(0, 7), st.integers(2, 5), st.booleans())
def test_one_sample_has_the_same_bits_alone_and_in_a_batch(seed, n, offset, K, normalize):
    """Whatever the size of the batch and its place in memory, for exponents of every size."""
    rng = np.random.default_rng(seed)
    option = random_option(rng, K, d=3, normalize=normalize, steepness=rng.choice([0.1, 5, 500]))
    X = rng.normal(size=n * 3 + offset)[offset:].reshape(n, 3)
    together, pairs = option.probabilities(X), option.pairwise_probabilities(X)
    for row, x in enumerate(X):
        assert (option.probabilities(x[None])[0] == together[row]).all()
        assert (option.pairwise_probabilities(x[None])[0] == pairs[row]).all()
    assert (option.certainty(X[::-1])[::-1] == together.max(axis=1)).all()
    theta = float(option.certainty(X[:1])[0])
    assert option.accepts(X, theta)[0]
    assert not option.accepts(X, np.nextafter(theta, 2))[0]


@modest
@given(seeds, st.integers(1, 70), st.integers(0, 7))
def test_the_combination_has_the_same_bits_at_any_place_in_memory(seed, n, offset):
    rng = np.random.default_rng(seed)
    t = 30 * rng.normal(size=n * 9 + offset)[offset:].reshape(n, 3, 3)
    together = price_combination(t, False)
    assert all((price_combination(t[row : row + 1].copy(), False) == together[row]).all() for row in range(n))


# Fitting


def test_what_a_fitted_certainty_holds(on_wine, wine):
    X = wine[0]
    assert isinstance(on_wine, Certainty)
    assert on_wine.name == "probabilistic certainty"
    assert on_wine.classes.tolist() == ["class_0", "class_1", "class_2"]
    assert on_wine.n_features == 13
    assert on_wine.feature_names is None
    assert list(on_wine.models_) == [(0, 1), (0, 2), (1, 2)]
    assert (on_wine.alpha_ == on_wine.alpha_.T).all()
    assert (on_wine.beta_ == -on_wine.beta_.T).all()
    assert (on_wine.alpha_[np.triu_indices(3, 1)] < 0).all()
    assert on_wine.uninformative_pairs_ == []
    assert on_wine.probabilities(X).shape == (len(X), 3)
    assert on_wine.certainty(X).shape == (len(X),)


def test_the_pairwise_models_are_those_of_the_estimator_on_two_classes(on_wine, wine):
    X, _, y, _ = wine
    for (i, j), model in on_wine.models_.items():
        pair = np.isin(y, on_wine.classes[[i, j]])
        own = make_pipeline(StandardScaler(), GMLVQ()).fit(X[pair], y[pair])
        assert (model.predict(X[pair]) == own.predict(X[pair])).all()


def test_calibration_uses_held_out_scores_and_true_labels(on_wine, wine):
    X, _, y, _ = wine
    for (i, j), (scores, is_first) in on_wine.held_out_.items():
        pair = np.isin(y, on_wine.classes[[i, j]])
        assert (is_first == (y[pair] == on_wine.classes[i])).all()
        resubstituted = signed_similarity(on_wine.models_[i, j], X[pair], on_wine.classes[i])
        assert (scores != resubstituted).mean() > 0.9
        expected = platt_scaling(scores, is_first)
        assert (on_wine.alpha_[i, j], on_wine.beta_[i, j]) == expected


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_log_loss_on_real_data_is_that_of_scikit_learns_calibration(load):
    X, y = load(return_X_y=True)
    option = ProbabilisticCertainty(make_pipeline(StandardScaler(), GLVQ())).fit(X, y)
    for (i, j), (scores, is_first) in option.held_out_.items():
        theirs = _SigmoidCalibration().fit(scores, is_first.astype(int))
        assert sigmoid_loss(option.alpha_[i, j], option.beta_[i, j], scores, is_first) == pytest.approx(
            sigmoid_loss(theirs.a_, theirs.b_, scores, is_first), abs=1e-3
        )


def test_held_out_probabilities_on_wine_are_accurate_and_calibrated(on_wine, wine):
    _, X, _, y = wine
    on_wine_normalized = ProbabilisticCertainty.from_pairs(
        on_wine.models_, on_wine.alpha_, on_wine.beta_, on_wine.classes, normalize=True
    )
    assert (on_wine.predict(X) == y).mean() > 0.9
    assert log_loss(y, on_wine_normalized.probabilities(X), labels=on_wine.classes) < 0.25


def test_the_same_seed_gives_the_same_certainty_and_another_one_other_folds(wine):
    X, X_test, y, _ = wine
    fit = lambda seed: ProbabilisticCertainty(GLVQ(), random_state=seed).fit(X, y)  # noqa: E731
    one, same, other = fit(0), fit(0), fit(1)
    assert (one.probabilities(X_test) == same.probabilities(X_test)).all()
    assert (one.alpha_ != other.alpha_).any()


def test_the_default_estimator_is_a_gmlvq():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + 2 * (np.arange(40) % 2)[:, None]
    default, explicit = (ProbabilisticCertainty(e).fit(X, np.arange(40) % 2) for e in (None, GMLVQ()))
    assert (default.probabilities(X) == explicit.probabilities(X)).all()
    assert not np.allclose(default.models_[0, 1].L, np.eye(2))


def test_the_given_estimator_is_left_alone(wine):
    X, _, y, _ = wine
    estimator = GLVQ()
    ProbabilisticCertainty(estimator, cv=2).fit(X, y)
    assert not hasattr(estimator, "w_")


def test_scaling_the_features_changes_nothing_behind_a_scaler(wine):
    X, X_test, y, _ = wine
    fit = lambda X: ProbabilisticCertainty(make_pipeline(StandardScaler(), GLVQ()), cv=3).fit(X, y)  # noqa: E731
    factor = 2.0 ** np.arange(-6, 7)
    np.testing.assert_allclose(
        fit(X).probabilities(X_test), fit(X * factor).probabilities(X_test * factor), rtol=1e-6
    )


def test_frames_keep_their_feature_names():
    X, y = load_wine(return_X_y=True, as_frame=True)
    columns = ["alcohol", "flavanoids"]
    option = ProbabilisticCertainty(GLVQ(), cv=3).fit(X[columns], y)
    assert option.feature_names == columns
    assert isinstance(X, pd.DataFrame)
    assert (
        option.certainty(X[columns])
        == ProbabilisticCertainty(GLVQ(), cv=3).fit(X[columns].to_numpy(), y.to_numpy()).certainty(X[columns])
    ).all()


def test_uninformative_pairs_are_named():
    """Classes b and c have one and the same distribution; a lies apart."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 2))
    y = np.repeat(["a", "b", "c"], 30)
    X[:30] += 20
    X[60:] = X[30:60]
    with pytest.warns(UninformativePairWarning, match="the classes 'b' and 'c' .alpha >= 0."):
        option = ProbabilisticCertainty(GLVQ(), cv=3).fit(X, y)
    assert option.uninformative_pairs_ == [("b", "c")]
    assert option.alpha_[1, 2] >= 0
    assert option.alpha_[0, 1] < 0
    assert np.isfinite(option.probabilities(X)).all()


def test_constant_features_are_uninformative_and_no_error():
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    constant = PrototypeEstimator()
    with pytest.warns(UninformativePairWarning, match="0 and 1"):
        option = ProbabilisticCertainty(constant).fit(X, y)
    assert option.alpha_[0, 1] == 0
    assert option.certainty(X).tolist() == [0.5] * 20


class PrototypeEstimator(GLVQ):
    """One prototype per class, at its mean: nothing to train."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        self.w_ = np.array([np.asarray(x)[y == c].mean(axis=0) for c in self.classes_])
        self.c_w_ = self.classes_
        self.n_features_in_ = np.shape(x)[1]
        return self


# From parts


def test_parts_make_the_same_certainty(on_wine, wine):
    X = wine[1]
    again = ProbabilisticCertainty.from_pairs(
        on_wine.models_, on_wine.alpha_.tolist(), on_wine.beta_.tolist(), on_wine.classes.tolist()
    )
    assert (again.probabilities(X) == on_wine.probabilities(X)).all()
    assert (again.predict(X) == on_wine.predict(X)).all()
    assert again.held_out_ == {}


def test_parts_are_copied():
    model, alpha = PrototypeModel([[0], [1]], ["a", "b"], feature_names=["age"]), -np.ones((2, 2))
    option = ProbabilisticCertainty.from_pairs({(0, 1): model}, alpha, np.zeros((2, 2)), ["a", "b"])
    alpha[:] = 7
    assert option.alpha_.tolist() == [[0, -1], [-1, 0]]
    assert option.feature_names == ["age"]


def test_uninformative_parts_are_listed_without_a_warning():
    model = PrototypeModel([[0], [1]], ["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        option = ProbabilisticCertainty.from_pairs(
            {(0, 1): model}, np.zeros((2, 2)), np.zeros((2, 2)), ["a", "b"]
        )
    assert option.uninformative_pairs_ == [("a", "b")]


AB = PrototypeModel([[0], [1]], ["a", "b"])
AC = PrototypeModel([[0], [1]], ["a", "c"])
BC = PrototypeModel([[0], [1]], ["b", "c"])
WIDE = PrototypeModel([[0, 0], [1, 1]], ["b", "c"])
NONE2, NONE3 = np.zeros((2, 2)), np.zeros((3, 3))


@pytest.mark.parametrize(
    ("models", "alpha", "beta", "classes", "message"),
    [
        ({}, NONE2, NONE2, ["a"], "classes must be at least two distinct labels"),
        ({(0, 1): AB}, NONE2, NONE2, ["a", "a"], "classes must be at least two distinct labels"),
        ({(0, 1): AB}, NONE2, NONE2, [["a", "b"]], "classes must be at least two distinct labels"),
        (AB, NONE2, NONE2, ["a", "b"], r"models must map each pair of \[\(0, 1\)\] to a model; found"),
        ({(1, 0): AB}, NONE2, NONE2, ["a", "b"], r"models must map each pair .* found \[\(1, 0\)\]"),
        ({(0, 1): AB}, NONE3, NONE3, ["a", "b", "c"], "models must map each pair of"),
        ({(0, 1): "AB"}, NONE2, NONE2, ["a", "b"], "models must hold PrototypeModels; found 'AB'"),
        ({(0, 1): AC}, NONE2, NONE2, ["a", "b"], r"models\[0, 1\] must be of classes \['a', 'b'\]; found"),
        (
            {(0, 1): AB, (0, 2): AC, (1, 2): WIDE},
            NONE3,
            NONE3,
            ["a", "b", "c"],
            r"models must all have the same features; found 2 for pair \(1, 2\) and 1",
        ),
        ({(0, 1): AB}, NONE3, NONE2, ["a", "b"], "alpha must have 2 features; found 3"),
        ({(0, 1): AB}, NONE2[:1], NONE2, ["a", "b"], r"alpha must have shape \(2, 2\); found shape \(1, 2\)"),
        ({(0, 1): AB}, [[0, -1], [-2, 0]], NONE2, ["a", "b"], "alpha must be symmetric"),
        ({(0, 1): AB}, NONE2, [[0, 1], [1, 0]], ["a", "b"], "beta must be antisymmetric"),
        ({(0, 1): AB}, NONE2, [[0, np.nan], [1, 0]], ["a", "b"], "beta must be finite; found NaN"),
        ({(0, 1): AB}, [[0, -1e308], [-1e308, 0]], NONE2, ["a", "b"], "alpha must leave room for sums"),
    ],
)
def test_bad_parts(models, alpha, beta, classes, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticCertainty.from_pairs(models, alpha, beta, classes)


# Bad input


@pytest.mark.parametrize("method", ["certainty", "predict", "probabilities", "pairwise_probabilities"])
def test_unfitted_use(method):
    with pytest.raises(NotFittedError, match=r"call fit\(X, y\) first"):
        getattr(ProbabilisticCertainty(), method)([[0, 0]])


def test_unfitted_acceptance():
    with pytest.raises(NotFittedError):
        ProbabilisticCertainty().accepts([[0, 0]], 0.5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cv": 1}, "cv must be at least 2; found 1"),
        ({"cv": 2.5}, "cv must be an integer; found 2.5"),
        ({"cv": "5"}, "cv must be an integer; found '5'"),
        ({"cv": None}, "cv must be an integer"),
        ({"cv": True}, "cv must be an integer"),
        ({"normalize": "yes"}, "normalize must be True or False; found 'yes'"),
        ({"normalize": 1}, "normalize must be True or False"),
        ({"random_state": None}, "random_state must be an integer"),
        ({"random_state": -1}, "random_state must be at least 0"),
        ({"estimator": "gmlvq"}, "estimator must be an LVQ estimator or None; found 'gmlvq'"),
        ({"estimator": GMLVQ}, "estimator must be an LVQ estimator or None"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticCertainty(**parameters)


GOOD_X, GOOD_Y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (GOOD_X, np.zeros(12), r"y must hold at least two classes; found only \[0.0\]"),
        (
            GOOD_X,
            ["a"] * 4 + ["b"] * 8,
            "y must hold at least cv=5 samples of each class; found 4 of class 'a'",
        ),
        (GOOD_X, GOOD_Y[:-1], r"y must have one label per sample, shape \(12,\); found shape \(11,\)"),
        (GOOD_X, GOOD_Y[:, None], r"y must have one label per sample"),
        (GOOD_X, np.where(GOOD_Y, 1.0, np.nan), "y must name a class for each sample; found none at row 0"),
        (GOOD_X, ["a", None] * 6, "y must name a class for each sample; found none at row 1"),
        (GOOD_X[0], GOOD_Y, r"X must have shape \(n, d\)"),
        (np.where(GOOD_X > 1, np.nan, GOOD_X), GOOD_Y, "X must be finite"),
        (np.empty((0, 2)), [], "X must not be empty"),
    ],
)
def test_bad_training_data(X, y, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticCertainty().fit(X, y)


def test_an_estimator_without_prototypes():
    with pytest.raises(ValueError, match=r"estimator must be a kind .* LogisticRegression"):
        ProbabilisticCertainty(LogisticRegression()).fit(GOOD_X, GOOD_Y)


class Opaque(BaseEstimator):
    def fit(self, X, y):
        return self


def test_an_estimator_of_an_unknown_kind():
    with pytest.raises(ValueError, match=r"estimator must be a kind .* Opaque"):
        ProbabilisticCertainty(Opaque()).fit(GOOD_X, GOOD_Y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0] * 12], "X must have 13 features; found 12"),
        ([[np.nan] * 13], "X must be finite"),
        ([0] * 13, r"X must have shape \(n, d\)"),
    ],
)
def test_bad_samples(on_wine, X, message):
    for method in (on_wine.certainty, on_wine.predict, on_wine.probabilities):
        with pytest.raises(ValueError, match=message):
            method(X)


def test_theta_not_a_number(on_wine, wine):
    with pytest.raises(ValueError, match="theta must be a number"):
        on_wine.accepts(wine[1], "0.5")
