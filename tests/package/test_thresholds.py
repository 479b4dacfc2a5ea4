"""The accuracy-reject curve against brute force, and every rule for choosing a point on it."""

import itertools
import math
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kneed import KneeLocator
from scipy.stats import binomtest
from sklearn.datasets import make_blobs

from lvqrej import GLVQ, RejectOptionClassifier
from lvqrej.thresholds import AccuracyRejectCurve, accuracy_reject_curve, confusion, cost_scorer, interval

exhaustive = settings(max_examples=150)
LARGEST = np.finfo(float).max

any_float = st.floats(allow_nan=False, allow_infinity=False, max_value=np.nextafter(LARGEST, 0))
few_values = st.sampled_from([0.0, 0.25, np.nextafter(0.25, 1), 0.5, 1.0])
judged = st.lists(st.tuples(st.one_of(any_float, few_values), st.booleans()), min_size=1, max_size=40)


def curve_of(samples: list[tuple[float, bool]]) -> AccuracyRejectCurve:
    return accuracy_reject_curve([r for r, _ in samples], [c for _, c in samples])


def brute_force(samples: list[tuple[float, bool]], theta: float) -> tuple[Fraction, Fraction]:
    """Reject rate and accuracy at one threshold, by counting."""
    accepted = [right for r, right in samples if r >= theta]
    rate = Fraction(len(samples) - len(accepted), len(samples))
    return rate, Fraction(sum(accepted), len(accepted)) if accepted else Fraction(1)


@exhaustive
@given(judged)
def test_each_row_is_what_its_own_threshold_does(samples):
    curve = curve_of(samples)
    for theta, rate, accuracy in zip(curve.thresholds, curve.reject_rates, curve.accuracies, strict=True):
        expected_rate, expected_accuracy = brute_force(samples, theta)
        assert rate == float(expected_rate)
        assert accuracy == float(expected_accuracy)


@exhaustive
@given(judged, st.one_of(any_float, few_values))
def test_no_threshold_does_anything_that_is_not_on_the_curve(samples, theta):
    curve = curve_of(samples)
    rate, accuracy = brute_force(samples, theta)
    (k,) = np.flatnonzero(curve.reject_rates == float(rate))
    assert curve.accuracies[k] == float(accuracy)


@exhaustive
@given(judged)
def test_thresholds_separate_neighbouring_certainties_and_ties_are_collapsed(samples):
    curve = curve_of(samples)
    values = sorted({r for r, _ in samples})
    assert len(curve.thresholds) == len(values) + 1
    assert (np.diff(curve.thresholds) > 0).all()
    assert (np.diff(curve.reject_rates) > 0).all()
    assert curve.thresholds[0] == min(0.0, values[0])
    assert curve.thresholds[-1] == np.nextafter(values[-1], np.inf)
    for low, theta, high in zip(values, curve.thresholds[1:-1], values[1:], strict=False):
        assert low < theta <= high
        middle = float((Fraction(low) + Fraction(high)) / 2)
        assert theta == high or math.isclose(theta, middle, rel_tol=1e-15, abs_tol=1e-323)


@exhaustive
@given(judged)
def test_area_is_the_trapezoidal_rule_with_the_end_point(samples):
    values = sorted({r for r, _ in samples})
    points = [brute_force(samples, theta) for theta in values] + [(Fraction(1), Fraction(1))]
    exact = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))
    assert curve_of(samples).area == pytest.approx(float(exact), abs=1e-14)


@exhaustive
@given(judged, st.floats(0, 1))
def test_at_reject_rate_rejects_as_much_as_allowed(samples, rate):
    curve = curve_of(samples)
    point = curve.at_reject_rate(rate)
    assert point[:2] == (point.threshold, max(r for r in curve.reject_rates if r <= rate))
    assert (point.reject_rate, point.accuracy) == tuple(map(float, brute_force(samples, point.threshold)))
    assert point.found


@exhaustive
@given(judged, st.one_of(st.floats(0, 1), st.sampled_from([0.5, 1.0])))
def test_at_accuracy_rejects_as_little_as_possible(samples, accuracy):
    curve = curve_of(samples)
    point = curve.at_accuracy(accuracy)
    bounds = [
        binomtest(int(n - wrong), int(n), alternative="greater").proportion_ci(0.95).low if n else 0.0
        for n, wrong in zip(curve.n_samples - curve.n_rejected, curve.n_errors, strict=True)
    ]
    np.testing.assert_allclose(curve.accuracy_bounds, bounds, rtol=1e-9, atol=1e-12)
    enough = [r for r, a in zip(curve.reject_rates, curve.accuracy_bounds, strict=True) if a >= accuracy]
    assert point.found == bool(enough)
    if enough:
        assert point.reject_rate == min(enough)
        assert point.accuracy >= point.accuracy_bound >= accuracy
    else:
        assert point.accuracy_bound == max(curve.accuracy_bounds) < accuracy


def test_one_sample_supports_no_accuracy():
    certainty = np.linspace(0, 1, 200)
    curve = accuracy_reject_curve(certainty, np.arange(200) == 199)
    assert curve.accuracies[-2] == 1
    assert not curve.at_accuracy(0.9).found


@exhaustive
@given(judged)
def test_the_reject_rate_to_expect_is_an_exact_interval(samples):
    point = curve_of(samples).at_reject_rate(0.3)
    n = len(samples)
    expected = binomtest(round(point.reject_rate * n), n).proportion_ci(0.95)
    np.testing.assert_allclose(point.reject_rate_interval, expected, rtol=1e-9, atol=1e-12)


@exhaustive
@given(judged)
def test_ranking_is_the_share_of_ordered_pairs(samples):
    right = [r for r, correct in samples if correct]
    wrong = [r for r, correct in samples if not correct]
    pairs = [(a > b) + 0.5 * (a == b) for a in right for b in wrong]
    assert curve_of(samples).ranking == pytest.approx(np.mean(pairs) if pairs else 1.0)


def mean_over_orders(samples, score):
    """Return the mean of a score of 0/1 errors, most certain first, over all orders of equal certainties."""
    values = sorted({r for r, _ in samples}, reverse=True)
    tied = [list(itertools.permutations([not c for r, c in samples if r == value])) for value in values]
    orders = [list(itertools.chain(*parts)) for parts in itertools.product(*tied)]
    return np.mean([score(errors) for errors in orders])


def risks(errors):
    """Geifman et al.: the mean of the risks of the i most certain samples."""
    return np.mean([sum(errors[:i]) / i for i in range(1, len(errors) + 1)])


def generalised(errors):
    """Traub et al.: the area under errors among accepted, divided by all, over coverage."""
    undetected = [sum(errors[:i]) / len(errors) for i in range(len(errors) + 1)]
    return np.trapezoid(undetected, np.arange(len(errors) + 1) / len(errors))


small = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4]), st.booleans()), min_size=1, max_size=6)


@exhaustive
@given(small)
def test_areas_are_their_definitions(samples):
    curve, errors = curve_of(samples), sorted(not c for _, c in samples)
    assert curve.aurc == pytest.approx(mean_over_orders(samples, risks), abs=1e-12)
    assert curve.excess_aurc == pytest.approx(curve.aurc - risks(errors), abs=1e-12)
    assert curve.augrc == pytest.approx(mean_over_orders(samples, generalised), abs=1e-12)


@exhaustive
@given(judged)
def test_the_generalised_risk_follows_from_accuracy_and_ranking(samples):
    """Equation (6) of Traub et al. (2024)."""
    curve = curve_of(samples)
    a = curve.accuracies[0]
    assert curve.augrc == pytest.approx((1 - curve.ranking) * a * (1 - a) + (1 - a) ** 2 / 2, abs=1e-12)
    assert curve.excess_aurc >= -1e-12


def test_intervals_of_scores_hold_the_truth_about_as_often_as_they_say():
    """Errors have the probability (1 - r) / 2, so the true AUGRC is an integral."""
    rng, held = np.random.default_rng(0), 0
    truth = np.mean([(1 - t) ** 2 / 4 for t in np.linspace(0, 1, 10_001)])  # P(r >= t, wrong) over coverage
    for _ in range(100):
        r = rng.uniform(size=150)
        table = accuracy_reject_curve(r, rng.uniform(size=150) >= (1 - r) / 2).score_intervals(draws=100)
        low, high = table.loc["AUGRC", ["low", "high"]]
        held += low <= truth <= high
        assert (table["low"] <= table["value"] + 0.02).all()
    assert 85 <= held <= 100
    assert table.index.tolist() == ["AU-ARC", "AURC", "E-AURC", "AUGRC", "AUROC"]


@pytest.mark.parametrize("hits", [0, 3, 20])
def test_intervals_are_exact(hits):
    np.testing.assert_allclose(interval(hits, 20), binomtest(hits, 20).proportion_ci(0.95), atol=1e-9)


@pytest.mark.parametrize("kind", ["risk-coverage", "accuracy-reject"])
def test_a_curve_is_drawn_as_it_is(kind):
    curve = accuracy_reject_curve([0.1, 0.2, 0.3, 0.4], [False, True, False, True])
    (ax,) = curve.plot(kind).axes
    (line,) = ax.lines
    x, y = curve.reject_rates[:-1], curve.accuracies[:-1]
    risky = kind == "risk-coverage"
    np.testing.assert_allclose(line.get_xdata(), 1 - x if risky else x)
    np.testing.assert_allclose(line.get_ydata(), 1 - y if risky else y)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() <= min(line.get_ydata())
    assert band.max() >= max(line.get_ydata())


def test_a_confusion_matrix_has_a_column_for_rejects():
    truth, predicted = [0, 0, 1, 1, 2], [0, -1, 1, 0, -1]
    table = confusion(truth, predicted, -1)
    assert table.index.tolist() == [0, 1, 2]
    assert table.columns.tolist() == [0, 1, 2, -1]
    assert table.to_numpy().tolist() == [[1, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1]]


def test_a_scorer_pays_for_coverage():
    X, y = make_blobs(150, centers=[[0, 0], [3, 0], [0, 3]], random_state=0)
    classifier = RejectOptionClassifier(GLVQ(), threshold=("reject_rate", 0.2)).fit(X, y)
    labels = classifier.predict(X)
    rejects, errors = (labels == -1).mean(), ((labels != -1) & (labels != y)).mean()
    assert cost_scorer(3, 0.5)(classifier, X, y) == pytest.approx(-(3 * errors + 0.5 * rejects))
    everything = RejectOptionClassifier(GLVQ(), threshold=2.0).fit(X, y)
    assert cost_scorer()(classifier, X, y) > cost_scorer()(everything, X, y) == -0.25
    with pytest.raises(ValueError, match=r"reject must be at least 0 .* found -1"):
        cost_scorer(1, -1)


@exhaustive
@given(judged, st.fractions(0, 10), st.fractions(0, 10))
def test_at_costs_is_the_cheapest_point(samples, error, reject):
    def cost(theta):
        n_rejected = sum(r < theta for r, _ in samples)
        n_errors = sum(not right for r, right in samples if r >= theta)
        return error * n_errors + reject * n_rejected

    curve = curve_of(samples)
    point = curve.at_costs(error=float(error), reject=float(reject))
    cheapest = min(cost(theta) for theta in curve.thresholds)
    assert float(cost(point.threshold)) == pytest.approx(float(cheapest), rel=1e-12, abs=1e-12)


def test_costs_on_a_tie_reject_fewest_and_never_overflow():
    curve = accuracy_reject_curve([0.1, 0.2, 0.3, 0.4], [False, True, True, True])
    assert curve.at_costs(1, 1).reject_rate == 0
    assert curve.at_costs(0, 0).reject_rate == 0
    assert curve.at_costs(1, 0).reject_rate == 0.25
    assert curve.at_costs(LARGEST, LARGEST / 2).reject_rate == 0.25
    assert curve.at_costs(0, 1).reject_rate == 0


def test_costs_recover_chows_threshold_when_the_certainty_is_the_probability():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 200_000)
    curve = accuracy_reject_curve(p, rng.uniform(size=p.size) < p)
    assert curve.at_costs(error=1, reject=0.2).threshold == pytest.approx(0.8, abs=0.01)


# The knee


def majorant(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Smallest concave function above the points, as the best chord over each of them: cubic and plain."""
    best = y.astype(float).copy()
    for k in range(len(x)):
        for i in range(k):
            for j in range(k + 1, len(x)):
                best[k] = max(best[k], y[i] + (y[j] - y[i]) * (x[k] - x[i]) / (x[j] - x[i]))
    return best


@settings(max_examples=100)
@given(judged)
def test_the_knee_is_the_highest_point_of_the_normalised_majorant_over_the_diagonal(samples):
    curve = curve_of(samples)
    x, y = curve.reject_rates, majorant(curve.reject_rates, curve.accuracies)
    point = curve.knee()
    assert all(map(math.isfinite, point[:3]))
    if not point.found:
        assert point.reject_rate == 0
        flat = y[0] == 1
        assert flat or np.max((y - y[0]) / (1 - y[0]) - x) <= 1 / (len(x) - 1) + 1e-12
        return
    difference = (y - y[0]) / (1 - y[0]) - x
    (k,) = np.flatnonzero(x == point.reject_rate)
    assert difference[k] == pytest.approx(difference.max(), abs=1e-12)
    assert point.accuracy == pytest.approx(y[k], abs=1e-12)  # a vertex: on the curve itself
    assert 0 < point.reject_rate < 1
    assert (point.reject_rate, point.accuracy) == tuple(map(float, brute_force(samples, point.threshold)))


def test_the_knee_of_a_curve_with_one_bend_is_the_bend():
    certainty = np.linspace(0, 1, 101)[:-1]
    correct = certainty > 0.295  # the 30 least certain samples are the wrong ones
    point = accuracy_reject_curve(certainty, correct).knee()
    assert point.found
    assert point.reject_rate == 0.3
    assert point.accuracy == 1
    assert point.threshold == pytest.approx(0.295)


def test_a_jag_is_no_knee():
    """Plain Kneedle takes the first jag of an exact curve; its majorant bends where the curve does."""
    certainty = np.arange(200) / 200
    correct = certainty >= 0.2
    correct[1:40:2] = True  # among the 40 least certain every other one is right
    curve = accuracy_reject_curve(certainty, correct)
    assert KneeLocator(curve.reject_rates, curve.accuracies).knee < 0.02
    point = curve.knee()
    assert point.found
    assert point.reject_rate == pytest.approx(0.195)
    assert point.accuracy == 1


def test_the_knee_does_not_depend_on_the_order_of_the_samples():
    rng = np.random.default_rng(1)
    certainty = rng.integers(0, 30, 300) / 30
    correct = rng.uniform(size=300) < 0.6 + 0.4 * certainty
    order = rng.permutation(300)
    one = accuracy_reject_curve(certainty, correct)
    other = accuracy_reject_curve(certainty[order], correct[order])
    assert one.knee() == other.knee()
    assert one.area == other.area


@pytest.mark.parametrize(
    ("certainty", "correct"),
    [
        ([0.5], [True]),
        ([0.5], [False]),
        ([0.5, 0.5], [True, False]),
        ([0.1, 0.2, 0.3], [True, True, True]),
        ([0.1, 0.2, 0.3], [False, False, False]),
        ([0.1, 0.2, 0.3], [True, True, False]),
    ],
)
def test_without_a_knee_nothing_is_rejected_and_the_point_says_so(certainty, correct):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        point = accuracy_reject_curve(certainty, correct).knee()
    assert point[:4] == (0.0, 0.0, sum(correct) / len(correct), False)


def test_a_less_sensitive_knee_may_not_be_found():
    certainty = np.linspace(0, 1, 101)[:-1]
    curve = accuracy_reject_curve(certainty, certainty > 0.295)
    assert curve.knee(sensitivity=50).found
    assert not curve.knee(sensitivity=99).found


def test_a_large_curve_takes_memory_in_proportion():
    """Comparing each sample with each would take 10 GB; time is measured in `benchmarks/growth.py`."""
    rng = np.random.default_rng(2)
    n = 100_000
    certainty, correct = rng.uniform(size=n), rng.uniform(size=n) < 0.9
    tracemalloc.start()
    curve = accuracy_reject_curve(certainty, correct)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(curve.thresholds) == n + 1
    assert peak < 200 * n


def test_the_curve_cannot_be_changed_by_accident():
    curve = accuracy_reject_curve([0.1, 0.2], [True, False])
    with pytest.raises(ValueError, match="read-only"):
        curve.thresholds[0] = 3
    with pytest.raises(AttributeError):
        curve.thresholds = np.zeros(3)


def test_numbers_0_and_1_serve_as_booleans():
    certainty = [0.1, 0.2, 0.3]
    expected = accuracy_reject_curve(certainty, [False, True, True]).accuracies
    for correct in ([0, 1, 1], np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1], dtype=np.uint8)):
        assert (accuracy_reject_curve(certainty, correct).accuracies == expected).all()


@pytest.mark.parametrize(
    ("certainty", "correct", "message"),
    [
        ([], [], r"certainty must have shape \(n,\); found \[\] of type list"),
        (0.5, True, r"certainty must have shape \(n,\); found 0.5"),
        ([[0.5]], [True], r"certainty must have shape \(n,\); found \[\[0.5\]\]"),
        ([0.5, np.nan], [True, True], "certainty must be finite.* found nan at place 1"),
        ([np.inf], [True], "certainty must be finite.* found inf at place 0"),
        (["high"], [True], "certainty must be numeric"),
        ([0.5, 0.6], [True], r"correct must have one entry per certainty \(2\); found \[True\]"),
        ([0.5], [[True]], r"correct must have one entry per certainty \(1\); found \[\[True\]\]"),
        ([0.5], [2], "correct must hold booleans"),
        ([0.5], [np.nan], "correct must hold booleans"),
        ([0.5], ["yes"], "correct must hold booleans"),
        ([0.5], [None], "correct must hold booleans"),
        ([10**400, 1], [True, True], "certainty must be numeric"),
        ([0.5, 1j], [True, True], "certainty must be real"),
        ([0.5, 0.6], [[1], [1, 2]], "correct must have one entry per certainty"),
    ],
)
def test_bad_input_of_the_curve(certainty, correct, message):
    with pytest.raises(ValueError, match=message):
        accuracy_reject_curve(certainty, correct)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda c: c.at_reject_rate(1.5), "rate must be at least 0 and at most 1; found 1.5"),
        (lambda c: c.at_reject_rate("0.5"), "rate must be a number"),
        (lambda c: c.at_accuracy(-0.1), "accuracy must be at least 0"),
        (lambda c: c.at_accuracy(math.nan), "accuracy must be a number"),
        (lambda c: c.at_costs(-1, 1), "error must be at least 0"),
        (lambda c: c.at_costs(1, math.inf), "reject must be at least 0 and at most"),
        (lambda c: c.knee(sensitivity=0), "sensitivity must be above 0"),
    ],
)
def test_bad_input_of_the_choices(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(accuracy_reject_curve([0.1, 0.2], [True, False]))
