"""Promises of a threshold, kept in simulation; local thresholds against brute force and a convex solver."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from sklearn.datasets import load_breast_cancer, load_wine, make_blobs
from sklearn.model_selection import train_test_split

from lvqrej import (
    GLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    accuracy_reject_curve,
    explain,
)
from lvqrej.certainty import LocalThresholds
from lvqrej.guarantees import at_risk, tail
from lvqrej.thresholds import ThresholdWarning, local_curve
from tests.oracles import plain_program


def drawn(rng, n, law):
    """Return certainties, uniform, and whether labels are right if errors have the probability law(r)."""
    r = rng.uniform(size=n)
    return r, rng.uniform(size=n) >= law(r)


def not_above(hits, n, share):
    """Return whether hits of n do not refute a share, at a level that 1000 such tests survive."""
    return binomtest(int(hits), n, share, alternative="greater").pvalue > 1e-3


# --- risk ---


@pytest.mark.parametrize(("risk", "n"), [(0.1, 120), (0.1, 400), (0.05, 400)])
def test_a_risk_is_exceeded_as_rarely_as_promised_where_every_threshold_exceeds_it(risk, n):
    """The hardest case: whatever is found is wrong. A rule that looks at all thresholds is so too often."""
    rng, repetitions, found, looked = np.random.default_rng(0), 500, 0, 0
    for _ in range(repetitions):
        curve = accuracy_reject_curve(*drawn(rng, n, lambda r: risk + 1e-9))
        r, right = drawn(rng, n, lambda r: risk + 1e-9)
        found += at_risk(curve, r, right, risk).found
        looked += accuracy_reject_curve(r, right).at_accuracy(1 - risk).found
    assert not_above(found, repetitions, 0.05)
    assert found > 0
    assert not not_above(looked, repetitions, 0.05)


def test_a_risk_that_falls_with_certainty_is_kept_and_most_of_what_could_be_accepted_is():
    rng, risk, shares, violations = np.random.default_rng(1), 0.05, [], 0
    for _ in range(200):
        curve = accuracy_reject_curve(*drawn(rng, 1000, lambda r: 0.4 * (1 - r) ** 3))
        point = at_risk(curve, *drawn(rng, 1000, lambda r: 0.4 * (1 - r) ** 3), risk)
        violations += point.found and 0.1 * (1 - point.threshold) ** 3 > risk  # the risk above a threshold
        shares.append(1 - point.threshold if point.found else 0.0)
    assert not_above(violations, 200, 0.05)
    assert np.mean(shares) > 0.8 * 0.5 ** (1 / 3)  # of the largest share that keeps the risk


def test_the_risk_holds_in_every_group_at_once():
    rng, risk, violations, plain = np.random.default_rng(2), 0.1, 0, 0
    for _ in range(300):
        curve = accuracy_reject_curve(*drawn(rng, 600, lambda r: 0.05))
        r, group = rng.uniform(size=600), rng.integers(2, size=600)
        right = rng.uniform(size=600) >= np.where(group == 1, risk + 1e-9, 0.01)
        point = at_risk(curve, r, right, risk, groups=np.array(["a", "b"])[group])
        violations += point.found
        plain += at_risk(curve, r, right, risk).found
    assert not_above(violations, 300, 0.05)
    assert plain > 250


def test_nothing_is_promised_of_a_group_without_samples():
    """Half of a rare group is wrong; it is missing from every third calibration sample."""
    rng, risk, violations, missed = np.random.default_rng(4), 0.1, 0, 0
    for _ in range(300):
        group = (rng.uniform(size=100) < 0.01).astype(int)
        r, wrong = rng.uniform(size=100), rng.uniform(size=100) < np.where(group, 0.5, 0.01)
        curve = accuracy_reject_curve(*drawn(rng, 100, lambda r: 0.01))
        violations += at_risk(curve, r, ~wrong, risk, groups=group, among=[0, 1]).found
        missed += at_risk(curve, r, ~wrong, risk, groups=group).found
    assert not_above(violations, 300, 0.05)
    assert missed > 50
    point = at_risk(curve, r, ~wrong, risk, groups=np.zeros(100), among=[0, 1])
    assert "0 errors among 0 accepted calibration samples support 1" in point.shortfall
    with pytest.raises(ValueError, match="among must hold all groups"):
        at_risk(curve, r, ~wrong, risk, groups=group + 1, among=[0])


def test_a_class_that_is_never_predicted_and_a_group_that_is_not_held_out_are_told(blobs):
    X, y = blobs
    classifier = RejectOptionClassifier(GLVQ(), threshold=("risk", 0.2, 0.9), cv=3)
    few = (X[:400], y[:400])
    two = y[400:] != 2
    assert classifier.fit(*few, calibration=(X[400:], y[400:]), groups="class").operating_point_.found
    two &= classifier.option_.predict(X[400:]) != 2
    with pytest.warns(ThresholdWarning, match="0 errors among 0 accepted"):
        classifier.fit(*few, calibration=(X[400:][two], y[400:][two]), groups="class")
    rare = np.where(np.arange(len(y)) == 7, "rare", "usual")
    held = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0)[1]
    assert 7 not in held
    with pytest.raises(ValueError, match=r"calibration must hold out samples of each group; .* \['rare'\]"):
        classifier.fit(X, y, groups=rare)


def test_a_risk_is_tested_by_the_exact_tail():
    n, k = np.meshgrid(np.arange(60), np.arange(8))
    expected = np.where(n > 0, binom.cdf(k, n, 0.07), 1.0)
    np.testing.assert_allclose(tail(k, n, 0.07), expected, rtol=1e-10)


def test_candidates_are_passed_from_strict_to_loose_and_none_is_skipped():
    """Errors in the middle stop the walk, though the loosest candidate alone would pass."""
    r = np.linspace(0, 1, 1000)
    curve = accuracy_reject_curve(r, r > 0.7)
    right = ~((r > 0.5) & (r < 0.62))
    point = at_risk(curve, r, right, 0.15)
    accepted = r >= point.threshold
    assert point.found
    assert tail((~right)[accepted].sum(), accepted.sum(), 0.15) <= 0.05
    assert point.threshold > 0.5
    assert tail((~right).sum(), len(r), 0.15) <= 0.05


def test_what_is_not_reached_is_told_with_what_would_be():
    r = np.linspace(0, 1, 40)
    curve = accuracy_reject_curve(r, np.ones(40))
    point = at_risk(curve, r, np.ones(40), 0.05)
    assert not point.found
    assert point.threshold == curve.thresholds[0]
    assert point.accuracy_bound == pytest.approx(0.05 ** (1 / 40))  # k = 0
    assert "0 errors among 40 accepted calibration samples support 0.072" in point.shortfall
    assert "about 19 more" in point.shortfall
    hopeless = at_risk(curve, r, np.arange(40) % 2, 0.05)
    assert "would not help" in hopeless.shortfall
    assert not hopeless.found


def test_a_curve_of_local_thresholds_needs_the_nearest_prototypes():
    r, right, nearest = [0.1, 0.9], [False, True], [0, 1]
    local = local_curve(r, right, nearest, 2)
    assert at_risk(local, r, right, 0.9, nearest=nearest).threshold.shape == (2,)
    for curve, owner in ((local, None), (accuracy_reject_curve(r, right), nearest)):
        with pytest.raises(ValueError, match="nearest must be given if the curve has a threshold per"):
            at_risk(curve, r, right, nearest=owner)
    with pytest.raises(ValueError, match="correct must hold booleans"):
        at_risk(local, r, [0.5, 1], nearest=nearest)


# --- conformal ---


def test_the_conformal_share_is_kept_on_average_and_nearly_used_up():
    rng, share, n, wrong = np.random.default_rng(3), 0.1, 60, []
    for _ in range(2000):
        point = accuracy_reject_curve(*drawn(rng, n, lambda r: 0.6 * (1 - r))).at_conformal(share)
        wrong.append(0.3 * (1 - min(point.threshold, 1)) ** 2)  # accepted and wrong, by the law
    error = np.std(wrong) / np.sqrt(len(wrong))
    assert np.mean(wrong) <= share + 3 * error
    assert np.mean(wrong) >= share - 2 / n - 3 * error


def test_too_few_samples_allow_nothing():
    point = accuracy_reject_curve([0.1, 0.5, 0.9], [1, 1, 1]).at_conformal(0.2)
    assert (point.found, point.reject_rate) == (False, 1.0)
    assert "3 held-out samples are too few" in point.shortfall
    assert accuracy_reject_curve([0.1, 0.5, 0.6, 0.9], [1, 1, 1, 1]).at_conformal(0.2).reject_rate == 0


# --- local thresholds: how they are chosen ---

labelled = st.lists(
    st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5]), st.booleans(), st.integers(0, 2)),
    min_size=1,
    max_size=9,
)


@settings(max_examples=100)
@given(labelled)
def test_the_local_curve_is_the_best_of_all_choices(samples):
    r, right, nearest = (np.array(part) for part in zip(*samples, strict=True))
    best = np.full(len(r) + 1, len(r) + 1)
    levels = [np.append(np.unique(r[nearest == j]), 2.0) for j in range(3)]
    for choice in product(*levels):
        accepted = r >= np.array(choice)[nearest]
        q = (~accepted).sum()
        best[q] = min(best[q], (accepted & ~right).sum())
    least = np.minimum.accumulate(best)
    curve = local_curve(r, right, nearest, 3)
    assert curve.n_rejected.tolist() == np.flatnonzero((best <= least) & (best <= len(r))).tolist()
    np.testing.assert_array_equal(curve.n_errors, least[curve.n_rejected])
    for thresholds, q, errors in zip(curve.thresholds, curve.n_rejected, curve.n_errors, strict=True):
        accepted = r >= thresholds[nearest]
        assert ((~accepted).sum(), (accepted & ~right).sum()) == (q, errors)


@pytest.mark.parametrize("seed", range(5))
def test_at_every_rate_of_a_global_threshold_local_ones_are_at_least_as_accurate(seed):
    rng = np.random.default_rng(seed)
    nearest = rng.integers(4, size=150)
    r = rng.uniform(size=150).round(2) ** np.array([1, 2, 3, 0.5])[nearest]
    right = rng.uniform(size=150) < 0.6 + 0.4 * r
    everywhere, local = accuracy_reject_curve(r, right), local_curve(r, right, nearest, 4)
    for rate, accuracy in zip(everywhere.reject_rates, everywhere.accuracies, strict=True):
        assert local.accuracies[local.reject_rates <= rate].max() >= accuracy
    gain = np.interp(everywhere.reject_rates, local.reject_rates, local.accuracies) - everywhere.accuracies
    assert gain.max() > 0.02


def test_scores_are_those_of_one_threshold():
    """With a threshold per prototype no order of the samples stands behind a curve."""
    curve = local_curve([0.5, 0.5, 0.5, 0.1, 0.2, 0.9], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], 2)
    assert curve.n_errors.tolist() == [3, 3, 3, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="score_intervals must be asked of a curve of one threshold"):
        curve.score_intervals()


def test_among_equal_choices_the_least_certain_are_rejected():
    r, nearest = np.array([0.1, 0.3, 0.5, 0.2, 0.4, 0.6]), np.array([0, 0, 0, 1, 1, 1])
    curve = local_curve(r, np.ones(6), nearest, 3)
    for q in range(7):
        np.testing.assert_array_equal(r < curve.thresholds[q][nearest], r < np.sort(np.append(r, 2))[q])
    np.testing.assert_array_equal(curve.thresholds[:, 2], accuracy_reject_curve(r, np.ones(6)).thresholds)


# --- local thresholds: what they accept ---


def local_option(kind, seed, d=3):
    """Return an option with local thresholds and samples; models with twins among them."""
    rng = np.random.default_rng(seed)
    prototypes = rng.normal(size=(7, d))
    if seed % 3 == 0:
        prototypes[1] = prototypes[0]
    labels = np.array([0, 0, 0, 1, 1, 2, 2])
    model = PrototypeModel(prototypes, labels, rng.normal(size=(d - seed % 2, d)))
    highest = 0.9 if kind is RelativeSimilarity else 0.5
    return LocalThresholds(kind(model), rng.uniform(-0.1, highest, size=7)), rng.normal(size=(12, d))


def plain_accepts(option, X):
    """Return r(x) >= theta of the nearest prototype, by the definition and one sample at a time."""
    model = option.option.model
    result = []
    for x in X:
        distances = [np.sum((model.L @ (x - p)) ** 2) for p in model.prototypes]
        result.append(option.option.certainty(x[None])[0] >= option.thresholds[int(np.argmin(distances))])
    return np.array(result)


@pytest.mark.parametrize("kind", [RelativeSimilarity, DecisionDistance])
@pytest.mark.parametrize("seed", range(6))
def test_accepted_is_what_its_own_prototype_accepts_and_what_the_cells_hold(kind, seed):
    option, _ = local_option(kind, seed)
    X = 1.5 * np.random.default_rng(99).normal(size=(1500, 3))
    accepted = option.accepts(X, 0)
    assert 0.05 < accepted.mean() < 0.98
    np.testing.assert_array_equal(accepted, plain_accepts(option, X))
    np.testing.assert_array_equal(accepted, np.any([cell.contains(X) for cell in option.cells(0.0)], axis=0))
    stricter = LocalThresholds(option.option, option.thresholds + 0.25)
    np.testing.assert_array_equal(option.accepts(X, 0.25), stricter.accepts(X, 0))


@pytest.mark.parametrize("kind", [RelativeSimilarity, DecisionDistance])
@pytest.mark.parametrize("seed", range(3))
def test_counterfactuals_are_valid_and_as_near_as_the_nearest_program_of_any_cell(kind, seed):
    option, X = local_option(kind, seed)
    weights = np.array([1.0, 2.0, 0.5])
    result = explain(option, 0.0, X, weights=weights)
    assert plain_accepts(option, result.counterfactuals).all()
    rejected = np.flatnonzero(~option.accepts(X, 0))[:3]
    assert len(rejected) > 0
    for i in rejected:
        optimum = min(plain_program(cell, X[i], weights) for cell in option.cells(0.0))
        assert result.distances[i] == pytest.approx(optimum, rel=2e-5, abs=1e-7)
        assert result.lower_bounds[i] <= optimum * (1 + 1e-6) + 1e-9


def test_equal_local_thresholds_are_a_global_one():
    option, X = local_option(RelativeSimilarity, 1)
    same = LocalThresholds(option.option, np.full(7, 0.4))
    np.testing.assert_array_equal(same.accepts(X, 0), option.option.accepts(X, 0.4))
    near, plain = explain(same, 0, X), explain(option.option, 0.4, X)
    np.testing.assert_array_equal(near.counterfactuals, plain.counterfactuals)


def test_the_sentence_tells_the_certainty_and_what_its_prototype_asks_for():
    model = PrototypeModel([[0, 0], [2, 0], [4, 0]], ["a", "b", "b"])
    option = LocalThresholds(RelativeSimilarity(model), [0.5, 0.9, 0.2])
    why = explain(option, 0, [1.5, 0.0])
    assert str(why).startswith(
        "rejected: margin of relative similarity −0.1 below 0 (0.8 where the nearest prototype asks for 0.9)"
    )
    assert why.certainty >= 0 == why.theta
    with pytest.raises(ValueError, match=r"thresholds must have shape \(3,\)"):
        LocalThresholds(RelativeSimilarity(model), [0.5, 0.9])
    with pytest.raises(ValueError, match="option must be read off one nearest prototype"):
        LocalThresholds(option, [0.5, 0.9, 0.2])


# --- the classifier ---


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(600, centers=[[0, 0], [3, 0], [0, 3]], cluster_std=1.1, random_state=0)


def test_a_risk_is_tested_on_a_part_that_the_model_has_not_seen(blobs):
    X, y = blobs
    rule = ("risk", 0.1, 0.9)
    held = RejectOptionClassifier(GLVQ(), threshold=rule, cv=3, calibration=0.4).fit(X, y)
    assert held.curve_.n_samples == 240
    assert held.operating_point_.found
    assert held.operating_point_.accuracy_bound == 0.9
    # the same by hand, with the parts given
    rest = RejectOptionClassifier(GLVQ(), threshold=0.0).fit(X, y)
    given = RejectOptionClassifier(GLVQ(), threshold=rule, cv=3).fit(
        X[:350], y[:350], calibration=(X[350:], y[350:])
    )
    model = GLVQ().fit(X[:350], y[:350])
    np.testing.assert_allclose(given.option_.model.prototypes, PrototypeModel.of(model).prototypes)
    r, right = given.option_.certainty(X[350:]), given.option_.predict(X[350:]) == y[350:]
    accepted = r >= given.threshold_
    assert binom.cdf((accepted & ~right).sum(), accepted.sum(), 0.1) <= 0.1
    assert given.operating_point_.reject_rate == pytest.approx(1 - accepted.mean())
    assert given.curve_.n_samples == 250
    # candidates are fixed by the training part alone
    fixed = RejectOptionClassifier(GLVQ(), threshold=("reject_rate", 0.1), cv=3).fit(X[:350], y[:350]).curve_
    assert given.threshold_ in fixed.thresholds
    assert given.threshold_ not in given.curve_.thresholds
    np.testing.assert_array_equal(given.observed_.lower, X[:350].min(axis=0))
    np.testing.assert_array_equal(held.observed_.lower, rest.observed_.lower)


def test_a_frame_is_divided_as_an_array_is(blobs):
    X, y = blobs
    of = RejectOptionClassifier(GLVQ(), threshold=("conformal", 0.05))
    frame = pd.DataFrame(X, columns=["a", "b"])
    plain, named = of.fit(X, y).threshold_, of.fit(frame, pd.Series(y)).threshold_
    assert plain == named
    assert 0 < of.rejects(frame).mean() < 1


def test_groups_ask_for_more(blobs):
    X, y = blobs
    of = RejectOptionClassifier(GLVQ(), threshold=("risk", 0.12, 0.9), cv=3, calibration=0.5)
    plain = of.fit(X, y).threshold_
    assert of.fit(X, y, groups="class").threshold_ >= plain
    assert of.fit(X, y, groups=np.zeros(len(y))).threshold_ == plain


def test_what_cannot_be_promised_is_told():
    X, y = load_wine(return_X_y=True)
    classifier = RejectOptionClassifier(threshold=("risk", 0.01, 0.95), cv=2)
    with pytest.warns(ThresholdWarning, match=r"a risk of 0.01 .* is not reached: \d+ errors .* more"):
        classifier.fit(X, y)
    assert not classifier.operating_point_.found


@pytest.mark.parametrize("option", ["relative-similarity", "decision-distance"])
def test_a_classifier_with_local_thresholds(option, tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :6]
    classifier = RejectOptionClassifier(
        GLVQ(prototypes_per_class=2), option, ("reject_rate", 0.25), local=True, calibration=0.5
    ).fit(X, y)
    assert classifier.option_.thresholds.shape == (4,)
    assert len(set(classifier.option_.thresholds)) > 1
    assert classifier.threshold_ == 0
    assert classifier.operating_point_.reject_rate == pytest.approx(0.25, abs=0.01)
    rejected = X[classifier.rejects(X)]
    assert 0.1 < len(rejected) / len(X) < 0.4
    answers = classifier.explain(rejected.iloc[:5])
    changed = pd.DataFrame(answers.counterfactuals, columns=X.columns)
    assert not classifier.rejects(changed).any()
    assert classifier.cause(rejected.iloc[0]).kind != "accepted"
    classifier.save(tmp_path / "file")
    loaded = RejectOptionClassifier.load(tmp_path / "file")
    np.testing.assert_array_equal(loaded.certainty(X), classifier.certainty(X))
    assert str(loaded.explain(rejected.iloc[0])) == str(classifier.explain(rejected.iloc[0]))


def test_local_thresholds_are_chosen_on_one_half_and_tested_on_the_other(blobs):
    X, y = blobs
    classifier = RejectOptionClassifier(GLVQ(), threshold=("risk", 0.15, 0.9), local=True)
    point = classifier.fit(X[:240], y[:240], calibration=(X[240:], y[240:])).operating_point_
    assert point.found
    assert point.threshold.shape == (3,)
    assert classifier.curve_.n_samples == 180
    chosen, tested = np.array_split(np.random.default_rng(0).permutation(360), 2)
    rejected = [classifier.rejects(X[240:][part]).mean() for part in (chosen, tested)]
    assert rejected[1] == pytest.approx(point.reject_rate)
    assert np.isclose(rejected[0], classifier.curve_.reject_rates).any()
    assert rejected[0] != rejected[1]


WRONG = [
    ({"threshold": 0.5, "local": True}, {}, "threshold must be a rule"),
    ({"threshold": ("conformal", 0.1), "local": True}, {}, "threshold cannot be conformal"),
    ({"local": "yes"}, {}, "local must be True or False"),
    ({"threshold": ("risk", 0.0, 0.95)}, {}, "threshold's risk must be above 0"),
    ({"threshold": ("risk", 0.1, 1.0)}, {}, "threshold's confidence must be above 0 and at most 0.9999"),
    ({"threshold": ("risk", 0.1)}, {}, "threshold must be a number"),
    (
        {"threshold": ("risk", 0.1, 0.9), "calibration": 1.0},
        {},
        "calibration must be above 0 and at most 0.9999",
    ),
    ({"threshold": ("risk", 0.1, 0.9)}, {"calibration": 3}, "calibration must be a pair"),
    ({"threshold": ("risk", 0.1, 0.9)}, {"calibration": ([[0.0, 1.0]], [])}, "calibration must have a label"),
    ({"threshold": ("risk", 0.1, 0.9)}, {"groups": [1, 2]}, r"groups must have shape"),
    ({"threshold": ("risk", 0.1, 0.9)}, {"groups": "age"}, "groups must be one of 'class'"),
    ({"threshold": ("conformal", 0.1)}, {"groups": "class"}, "groups cannot be given"),
    ({}, {"calibration": ([[0.0, 1.0]], [0])}, "calibration cannot be given"),
]


@pytest.mark.parametrize(("parameters", "given", "words"), WRONG)
def test_what_contradicts_itself_is_named(blobs, parameters, given, words):
    with pytest.raises(ValueError, match=words):
        RejectOptionClassifier(GLVQ(), **parameters).fit(*blobs, **given)


def test_a_class_that_is_held_out_whole_is_named():
    X, y = make_blobs(40, centers=2, random_state=0)
    y[0] = 2
    classifier = RejectOptionClassifier(GLVQ(), threshold=("conformal", 0.2), calibration=0.97)
    with pytest.raises(ValueError, match=r"calibration must leave samples of each class .* found none of \["):
        classifier.fit(X, y)


def test_probabilities_have_no_nearest_prototype(blobs):
    option = ProbabilisticCertainty(GLVQ(), cv=2)
    with pytest.raises(ValueError, match="local thresholds need one nearest prototype"):
        RejectOptionClassifier(option=option, threshold="knee", local=True).fit(*blobs)
