"""What holds a reject: reasons against all subsets by closed forms and LPs, ranges against a fine scan."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from oracles import decision_reaches, minimal_hitting_sets, minimal_sets, reaches
from random_rejects import KINDS, random_reject
from scipy.optimize import minimize
from sklearn.datasets import load_wine

from lvqrej import (
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    explain,
)
from lvqrej.columns import Column, Columns
from lvqrej.reasons import feature_counts, sufficient_reason

OPTIONS = ("relative-similarity", "decision-distance", "probabilistic")


def plain_reject(kind, seed, d):
    """Return an option of two prototypes, a rejected sample, bounds, and what decides by closed form."""
    rng = np.random.default_rng(seed)
    P, scale = rng.normal(size=(2, d)), rng.uniform(0.5, 2, size=d)
    model = PrototypeModel(P, [0, 1], np.diag(scale))
    x = P.mean(axis=0) + 0.1 * rng.normal(size=d)
    width = rng.uniform(0.2, 0.8, size=d) * rng.choice([1, 1, 0.3])
    lower, upper = x - width * rng.uniform(0.3, 1, size=d), x + width
    level = 0.35 if kind == "half-space" else 0.55
    if kind == "half-space":
        option, theta, level = DecisionDistance(model), 0.12, 0.12
    elif kind == "ball":
        option, theta = RelativeSimilarity(model), level
    else:  # p >= theta where the score is at least (log kappa - beta) / alpha, here of both classes
        slope = np.array([[0, -3.0], [-3.0, 0]])
        option = ProbabilisticCertainty.from_pairs({(0, 1): model}, slope, np.zeros((2, 2)), [0, 1])
        theta = 1 / (1 + np.exp(-3.0 * level))
    return option, theta, x, lower, upper, lambda low, high: reaches(kind, P, scale, level, low, high)


def all_subsets(d):
    """Return all subsets of d features as masks (2^d, d)."""
    return (np.arange(1 << d)[:, None] >> np.arange(d)) & 1 == 1


def as_sets(masks):
    return {frozenset(np.flatnonzero(mask).tolist()) for mask in masks}


def as_bounds(lower, upper):
    return dict(enumerate(zip(lower, upper, strict=True)))


def families(reason):
    """Return all minimal reasons and supports that were found, as sets of indices."""
    names = reason.batch.feature_names
    reasons = {frozenset(one.indices) for one in (reason, *reason.others)}
    return reasons, {frozenset(names.index(name) for name in support) for support in reason.supports}


@pytest.mark.parametrize(
    ("kind", "seed", "d"),
    [
        *product(["ball", "half-space"], [13, 0], [12]),
        *product(["ball", "half-space", "probability"], [7], [9]),
        *product(["ball", "half-space", "probability"], [1], [5]),
    ],
)
def test_all_minimal_reasons_and_supports_are_those_of_brute_force(kind, seed, d):
    """The smallest reason, every other one and every support, against a closed form for all 2^d subsets."""
    option, theta, x, lower, upper, oracle = plain_reject(kind, seed, d)
    assert not option.accepts([x], theta)[0]
    kept = all_subsets(d)
    able = oracle(np.where(kept, x, lower), np.where(kept, x, upper))
    reasons, supports = minimal_sets(as_sets(kept[~able])), minimal_sets(as_sets(~kept[able]))
    reason = sufficient_reason(option, theta, x, bounds=as_bounds(lower, upper), k=10**6, effort=10**6)
    assert reason.smallest
    assert reason.complete
    fast = sufficient_reason(option, theta, x, bounds=as_bounds(lower, upper), effort=0)
    assert fast.fewest <= reason.fewest <= len(fast.indices)
    assert len(reason.indices) == reason.fewest == min(map(len, reasons))
    assert families(reason) == (reasons, supports)
    # The duality: each family is the minimal hitting sets of the other, of all of it.
    assert minimal_hitting_sets(reasons, d) == supports
    assert minimal_hitting_sets(supports, d) == reasons


@pytest.mark.parametrize("seed", [0, 1])
def test_reasons_of_several_prototypes_are_those_of_linear_programs(seed):
    rng = np.random.default_rng(seed)
    d = 6
    P, labels = rng.normal(size=(4, d)), np.array([0, 0, 1, 1])
    option = DecisionDistance(PrototypeModel(P, labels))
    X = rng.normal(size=(50, d))
    theta = float(np.quantile(option.certainty(X), 0.7))
    x = X[~option.accepts(X, theta)][0]
    lower, upper = x - 0.9, x + 0.7
    kept = all_subsets(d)
    able = np.array(
        [
            decision_reaches(P, labels, theta, np.where(mask, x, lower), np.where(mask, x, upper))
            for mask in kept
        ]
    )
    reason = sufficient_reason(option, theta, x, bounds=as_bounds(lower, upper), k=10**6, effort=10**6)
    assert 0 < len(reason.indices) < d
    assert families(reason) == (minimal_sets(as_sets(kept[~able])), minimal_sets(as_sets(~kept[able])))


def test_three_probabilities_against_a_grid():
    """Where scores of three models add up there is no closed form: a grid finds what is accepted."""
    for seed in range(4):
        option, theta, x, _ = random_reject(KINDS[3], seed, 3, 0.7)
        lower, upper = x - 0.8, x + 0.8
        ticks = np.linspace(0, 1, 61)
        able = {}
        for kept in all_subsets(3):
            axes = [[x[k]] if kept[k] else lower[k] + ticks * 1.6 for k in range(3)]
            points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 3)
            able[frozenset(np.flatnonzero(kept).tolist())] = bool(option.accepts(points, theta).any())
        reasons = minimal_sets({kept for kept, found in able.items() if not found})
        reason = sufficient_reason(option, theta, x, bounds=as_bounds(lower, upper), k=100)
        assert reason.smallest
        assert families(reason)[0] == reasons


@pytest.fixture(scope="module", params=OPTIONS)
def wine(request):
    """Return a classifier of wines, two rejected ones, and what keeps them rejected."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    classifier = RejectOptionClassifier(option=request.param, threshold=("reject_rate", 0.2), cv=3).fit(X, y)
    rejected = X[classifier.rejects(X)].iloc[[0, 3]]
    return classifier, rejected, classifier.sufficient_reason(rejected)


def test_no_completion_of_a_reason_is_accepted(wine):
    """10,000 random ones, corners of the box among them, and a climb of the certainty from the best."""
    classifier, rejected, reasons = wine
    option, theta, seen = classifier.option_, classifier.threshold_, classifier.observed_
    rng = np.random.default_rng(0)
    for x, reason in zip(rejected.to_numpy(), reasons, strict=True):
        assert reason.proven
        assert reason.fewest <= len(reason.indices)
        kept = np.isin(np.arange(len(x)), reason.indices)
        low, high = (np.where(kept, x, end) for end in (np.minimum(x, seen.lower), np.maximum(x, seen.upper)))
        points = rng.uniform(low, high, size=(10_000, len(x)))
        corner = rng.random(points.shape) < 0.5
        points[::2] = np.where(rng.random(points.shape) < 0.5, low, high)[::2]
        points[::4] = np.where(corner, points, x)[::4]
        assert not option.accepts(points, theta).any()
        starts = points[np.argsort(-option.certainty(points))[:3]]
        for start in np.vstack([starts, np.clip(next(iter(option.models().values())).prototypes, low, high)]):
            climbed = minimize(
                lambda z: -option.certainty(z[None])[0], start, method="Powell",
                bounds=list(zip(low, high, strict=True)), options={"maxiter": 1},
            )  # fmt: skip
            assert not option.accepts([np.clip(climbed.x, low, high)], theta)[0]
        # Without any one of its features a counterfactual exists.
        for k in reason.indices[:4]:
            fixed = [j for j in reason.indices if j != k]
            classifier.explain(x, fixed=fixed, grid=None, noise=0)


def test_ranges_are_those_of_a_fine_scan(wine):
    classifier, rejected, _ = wine
    option, theta, seen = classifier.option_, classifier.threshold_, classifier.observed_
    table = classifier.explain(rejected).ranges()
    assert len(table) == rejected.size
    for row in table.itertuples():
        x, k = rejected.loc[row.sample].to_numpy(), list(rejected).index(row.feature)
        assert row.value == x[k]
        for end, is_open, label, limit in (
            (row.low, row.low_open, row.low_class, min(seen.lower[k], x[k])),
            (row.high, row.high_open, row.high_class, max(seen.upper[k], x[k])),
        ):
            values = np.linspace(x[k], limit, 4001)
            points = np.repeat(x[None], len(values), axis=0)
            points[:, k] = values
            accepted = option.accepts(points, theta)
            step = abs(limit - x[k]) / 4000
            if not accepted.any():
                assert label is None or abs(end - limit) <= step
                continue
            first = int(accepted.argmax())
            assert not is_open
            assert label == option.predict(points[first : first + 1])[0]
            assert abs(end - values[first]) <= step * (1 + 1e-6) + 1e-5 * abs(values[first] - x[k])
            assert not accepted[np.abs(values - x[k]) < abs(end - x[k])].any()
        if row.low_open:
            assert row.low == min(seen.lower[k], x[k])


def test_both_halves_in_a_sentence_a_table_and_a_picture(wine):
    classifier, rejected, reasons = wine
    reason, why = reasons[0], classifier.explain(rejected.iloc[0])
    text = str(reason)
    assert all(name in text for name in reason.features)
    assert "keep it rejected, whatever the other features are within the observed ranges" in text
    assert all(f"{why.feature_names[k]} to " in text for k in why.changed)
    size = float(text.split("of a total size below ")[1].split(" ")[0])
    assert 0.98 * why.lower_bound <= size <= why.lower_bound  # the ball of rejection, rounded down
    table = reason.to_frame().set_index("feature")
    assert set(table.index[table["keeps"]]) == set(reason.features)
    assert set(table.index[table["after"] != table["value"]]) == {why.feature_names[k] for k in why.changed}
    assert ((table["low"] <= table["value"]) & (table["value"] <= table["high"])).all()
    texts = [text.get_text() for ax in why.plot(kind="both").axes for text in ax.get_yticklabels()]
    drawn = {name.replace("\n", "") for name in texts if name}
    assert drawn == {name.replace(" ", "") for name in table.index}
    assert repr(reason) == f"<Reason: {text}>"


def test_counts_over_a_batch(wine):
    _, rejected, reasons = wine
    table = feature_counts(reasons)
    assert sorted(table.index) == sorted(rejected)
    for name, row in table.iterrows():
        assert row["reasons"] == sum(name in reason.features for reason in reasons)
        changed = [rejected.columns[k] for reason in reasons for k in reason.why.changed]
        assert row["counterfactuals"] == changed.count(name)
        assert row["both"] <= min(row["reasons"], row["counterfactuals"])
    assert (table["reasons"] + table["counterfactuals"]).is_monotonic_decreasing
    assert len(feature_counts([])) == 0


def test_what_the_effort_leaves_is_an_honest_bound():
    option, theta, x, _ = random_reject(KINDS[0], 3, 8, per_class=2)
    bounds = as_bounds(x - 1.2, x + 1.2)
    fast, full = (sufficient_reason(option, theta, x, bounds=bounds, effort=e) for e in (0, 10**6))
    assert fast.proven
    assert fast.fewest <= full.fewest == len(full.indices) <= len(fast.indices)
    assert full.smallest
    for reason in (fast, full):  # minimal: nothing can be left out
        for k in reason.indices:
            fixed = [j for j in reason.indices if j != k]
            assert explain(option, theta, x, fixed=fixed, bounds=bounds, noise=0).certainty >= theta
    few = sufficient_reason(option, theta, x, bounds=bounds, k=3)
    assert [len(one.indices) for one in few.others] == sorted(len(one.indices) for one in few.others)
    assert len({tuple(one.indices) for one in (few, *few.others)}) == 3
    assert all(one.proven for one in few.others)
    assert not few.complete


class Blind(RelativeSimilarity):
    """Relative similarity whose accepted set never proves that there is nothing."""

    def cells(self, theta):
        class Set:
            gap = 0.0

            def nearest(self, *arguments):
                found = exact.nearest(*arguments)
                found.bounds[:] = np.minimum(found.bounds, 0.0)
                return found

        exact = super().cells(theta)
        return Set()


def test_what_is_not_proven_is_called_not_refuted():
    option, theta, x, lower, upper, _ = plain_reject("ball", 0, 12)
    blind = Blind(option.model)
    bounds = as_bounds(lower, upper)
    exact, reason = (sufficient_reason(one, theta, x, bounds=bounds, effort=10**4) for one in (option, blind))
    assert not reason.proven
    assert not reason.smallest
    assert "not refuted" in str(reason)
    assert len(reason.indices) == exact.fewest == reason.fewest
    assert not sufficient_reason(blind, theta, x, bounds=bounds, effort=0).proven


def test_that_no_value_for_a_gap_would_help_is_said_only_with_a_proof():
    columns = Columns([Column("n", fill=0.0), Column("m")])
    model = PrototypeModel([[0.0, 0.0], [0.0, 2.0]], ["a", "b"], columns=columns)
    row = np.array([[None, 0.9]], dtype=object)  # n tells nothing of the classes
    proven, unknown = (explain(make(model), 0.6, row)[0].missing for make in (RelativeSimilarity, Blind))
    assert (proven["holds"].tolist(), unknown["holds"].tolist()) == ([True], [False])
    assert proven["accepted_at"].tolist() == unknown["accepted_at"].tolist() == [None]


def test_a_range_is_open_only_with_a_proof():
    model = PrototypeModel([[0.0, 0.0], [0.0, 2.0]], ["a", "b"], feature_names=["n", "m"])
    proven, unknown = (
        explain(make(model), 0.6, [[0.5, 0.9]], bounds={"n": (-3, 4)}).ranges().set_index("feature").loc["n"]
        for make in (RelativeSimilarity, Blind)
    )
    assert (proven["low_open"], proven["low"], proven["high"]) == (True, -3, 4)
    assert (unknown["low_open"], unknown["low"], unknown["high"]) == (False, 0.5, 0.5)


def test_edges():
    model = PrototypeModel([[0, 0], [2, 0]], ["a", "b"], feature_names=["width", "height"])
    option = RelativeSimilarity(model)
    nothing = sufficient_reason(option, 0.6, [1, 0], bounds={"width": (0.9, 1.1), "height": (-1, 1)}, k=5)
    assert (nothing.features, nothing.fewest, nothing.others, nothing.complete) == ([], 0, [], True)
    assert nothing.why is None
    assert str(nothing) == "rejected whatever its values are within the bounds"
    assert len(nothing.to_frame()) == 0
    one = sufficient_reason(option, 0.6, [1, 0])
    assert one.features == ["width"]
    assert str(one).startswith(
        "width alone keeps it rejected, whatever the other features are; changing width"
    )
    diagonal = RelativeSimilarity(PrototypeModel([[0, 0], [2, 2]], ["a", "b"]))
    both = sufficient_reason(diagonal, 0.2, [[1, 1]])
    assert both[0].features == ["feature 0", "feature 1"]
    assert "only all features together" in str(both[0])
    # A sample outside of the bounds: they are widened to it.
    outside = sufficient_reason(option, 0.6, [1, 5], bounds={"width": (0, 2), "height": (-1, 1)})
    assert outside.proven
    why = explain(option, 0.6, [1, 5], bounds={"width": (0, 2), "height": (-1, 1)})
    height = why.ranges().set_index("feature").loc["height"]
    assert (height["low"], height["high"], height["high_open"]) == (-1, 5, True)
    with pytest.raises(ValueError, match="X must be rejected"):
        sufficient_reason(option, 0.6, [0, 0])
    with pytest.raises(ValueError, match="X must be rejected"):
        explain(option, 0.6, [0, 0]).ranges()
    with pytest.raises(ValueError, match="effort must"):
        sufficient_reason(option, 0.6, [1, 0], effort=-1)
    with pytest.raises(ValueError, match="k must"):
        explain(option, 0.6, [1, 0]).sufficient_reason(k=0)
    with pytest.raises(ValueError, match="reasons must"):
        feature_counts([1])
    with pytest.raises(ValueError, match="reasons must be about the same features"):
        feature_counts([one, *both])
    assert explain(option, 0.6, np.empty((0, 2))).ranges().empty


def test_a_sample_may_come_in_any_form_and_requirements_but_bounds_do_not_count(wine):
    classifier, rejected, reasons = wine
    series = rejected.iloc[0]
    for one in (series, series.to_dict(), series.to_numpy()):
        assert classifier.sufficient_reason(one).features == reasons[0].features
    narrow = classifier.sufficient_reason(
        series, bounds={name: (series[name], series[name]) for name in list(rejected)[1:]}
    )
    assert narrow.features in ([], [rejected.columns[0]])
    why = classifier.explain(series, fixed=[k for k in rejected if k not in reasons[0].supports[0]])
    assert why.sufficient_reason().features == reasons[0].features
    assert isinstance(why.ranges(), pd.DataFrame)
