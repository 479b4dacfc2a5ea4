"""Several answers, and what all variants share: requirements, reasons, checks, the classifier's door."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rejects import EXACT, KINDS, random_data, random_reject

from lvqrej import (
    DecisionDistance,
    Explanation,
    Explanations,
    NoCounterfactualError,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    explain,
)
from lvqrej.certainty import Restricted
from lvqrej.variants import plausible, robust, several, sparsest, trade_off


@pytest.mark.parametrize("kind", KINDS)
def test_several_answers_are_valid_and_different(kind):
    option, theta, x, options = random_reject(kind, 3, 6)
    answers = several(option, theta, x, 4, **options)
    assert option.accepts(answers.counterfactuals, theta).all()
    sets = [frozenset(why.changed) for why in answers]
    assert len(answers) == 4
    assert not any(first <= second for first, second in combinations(sets, 2))
    assert (np.diff(answers.distances) >= (0.0 if kind in EXACT else -1e-3)).all()
    assert (answers.lower_bounds <= answers.distances).all()

    def without(*features):
        return explain(
            option, theta, x[None], fixed=list({*features}), on_infeasible="skip", **options
        ).distances[0]

    assert answers.distances[0] == explain(option, theta, x, **options).distance
    assert answers.distances[1] == pytest.approx(min(map(without, sets[0])), rel=2e-3)
    third = min(without(*pair) for pair in product(sets[0], sets[1]))
    assert answers.distances[2] == pytest.approx(third, rel=2e-3)
    disjoint = several(option, theta, x, 2, apart=6, **options)
    assert not set(disjoint[0].changed) & set(disjoint[1].changed)
    assert disjoint.distances[1] == pytest.approx(without(*sets[0]), rel=2e-3)


class Modest(Restricted):
    """A certainty whose search finds and proves less than there is wherever feature `k` must not change."""

    def __init__(self, option, k, stretch, proven):
        super().__init__(option)
        self.k, self.stretch, self.proven = k, stretch, proven

    def judged(self, X, theta):
        return self.option.judged(X, theta)

    def cells(self, theta):
        return ModestSet(self, self.option.cells(theta))

    def models(self):
        return {}  # whose prototypes would be tried as answers


class ModestSet:
    """Its accepted set: answers are `stretch` times as far (None: not found), bounds a share `proven`."""

    gap = 0.0

    def __init__(self, option, cells):
        self.option, self.cells = option, cells

    def nearest(self, X, weights, lower, upper, margin):
        found, k = self.cells.nearest(X, weights, lower, upper, margin), self.option.k
        kept = (lower[:, k] == X[:, k]) & (upper[:, k] == X[:, k])
        found.bounds[kept] *= self.option.proven
        if self.option.stretch is None:
            found.distances[kept] = np.inf
        else:
            found.changes[kept] *= self.option.stretch
            found.distances[kept] *= self.option.stretch
        return found


#: The boundary is 3 a + 2 b + c = const, and a has little room: the nearest answer changes a and b.
PLANE = DecisionDistance(PrototypeModel([[0, 0, 0], [6, 4, 2]], [0, 1]))
POINT, ROOM = np.array([3.0, 2.0, 1.0]), {0: (2.9, 3.1)}


def nearest_without(*features):
    found = explain(PLANE, 0.1, POINT[None], bounds=ROOM, fixed=list(features), on_infeasible="skip", noise=0)
    return found.distances[0]


def test_the_bound_of_several_holds_for_what_the_search_missed():
    near = explain(PLANE, 0.1, POINT, bounds=ROOM)
    assert near.changed == [0, 1]
    second = min(nearest_without(0), nearest_without(1))
    assert nearest_without(0) < nearest_without(1) < 3 * nearest_without(0)
    for stretch in (3.0, None):  # found too far away, or not at all
        answers = several(Modest(PLANE, 0, stretch, 0.7), 0.1, POINT, 2, bounds=ROOM)
        assert set(answers[1].changed) == {0, 2}  # with feature 0 kept, a nearer one exists
        assert answers.lower_bounds[1] <= second < answers.distances[1]
        assert "might suffice" in str(answers[1])


def test_sets_of_features_that_were_not_proven_unable_are_not_counted_out():
    few = sparsest(PLANE, 0.1, POINT, bounds=ROOM)
    assert (few.changed, few.fewest) == ([1], 1)
    # Feature 1 alone would do, but the search gives up wherever feature 0 has to stay.
    modest = sparsest(Modest(PLANE, 0, None, 0.7), 0.1, POINT, bounds=ROOM)
    assert len(modest.changed) == 2
    assert modest.fewest == 1
    assert modest.lower_bound <= few.distance
    assert "none of fewer features" not in str(modest)


def test_several_classes_nearest_first():
    option, theta, x, options = random_reject(KINDS[0], 3, 4)
    answers = several(option, theta, x, 5, differ="classes", **options)
    assert sorted(answers.labels) == [0, 1, 2]
    for why in answers:
        assert why.distance == explain(option, theta, x, target=why.label, **options).distance
        assert "to this class" in str(why)
    assert (np.diff(answers.distances) >= 0).all()
    with pytest.raises(ValueError, match="target cannot be given"):
        several(option, theta, x, differ="classes", target=0)
    with pytest.raises(NoCounterfactualError, match="lower theta"):
        several(option, 1.5, x, differ="classes")


def test_there_are_fewer_where_there_are_no_more():
    option, theta, x, _ = random_reject(KINDS[0], 3, 4)
    assert len(several(option, theta, x, 50, fixed=[0, 2, 3])) <= 1
    inside = explain(option, theta, x).counterfactual
    same = several(option, theta, inside, 3)
    assert (len(same), same.distances[0]) == (1, 0)


@pytest.mark.parametrize("how", [trade_off, several])
def test_one_sample_gives_several_rows(how):
    option, theta, x, _ = random_reject(KINDS[0], 3, 4)
    frame = pd.DataFrame([x], index=["mine"], columns=list("abcd"))
    for given_as in (x, x[None], frame):
        result = how(option, theta, given_as)
        assert isinstance(result, Explanations)
        assert len(result.to_frame()) == len(result)
    assert result.feature_names == list("abcd")
    with pytest.raises(ValueError, match="X must be one sample"):
        how(option, theta, [x, x])


@settings(max_examples=18)
@given(
    st.sampled_from(KINDS),
    st.integers(0, 10_000),
    st.sets(st.sampled_from(["fixed", "bounds", "up", "down", "target", "A"])),
)
def test_any_combination_of_options_is_respected(kind, seed, asked):
    option, theta, x, options = random_reject(kind, seed % 37, 4, 0.6)
    rng = np.random.default_rng(seed)
    options |= {"fixed": [int(rng.integers(4))]} if "fixed" in asked else {}
    options |= {"bounds": {1: (x[1] - 0.5, x[1] + 2)}} if "bounds" in asked else {}
    options |= {"increase_only": [2]} if "up" in asked else {}
    options |= {"decrease_only": [3]} if "down" in asked else {}
    options |= {"target": int(rng.integers(len(option.classes)))} if "target" in asked else {}
    row = rng.normal(size=4)
    options |= {"constraints": ([row], [float(row @ x) + 0.5])} if "A" in asked else {}
    near = explain(option, theta, x[None], on_infeasible="skip", **options)
    error = np.array([0.02, 0, 0.03, 0])
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
            errors = rng.uniform(-1, 1, (1000, 4)) * error * (z != x)
            assert option.accepts(z + errors, theta).all()
            assert why.delta[1] == 0 or abs(why.delta[1]) >= 0.1


def test_reasons_are_those_of_explain():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"], feature_names=["age", "bmi"]))
    with pytest.raises(NoCounterfactualError, match="one exists without fixing age"):
        sparsest(option, 0.6, [9, 0], fixed=["age"])
    for how in (trade_off, several):
        with pytest.raises(NoCounterfactualError, match=r"^no input reaches .* lower theta"):
            how(option, 1.5, [9, 0])
        skipped = how(option, 1.5, [9, 0], on_infeasible="skip")
        assert skipped.found.tolist() == [False]
        assert "lower theta" in skipped.reasons[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: several(o, 0.6, [9, 0], 0), "k must be at least 1"),
        (lambda o: several(o, 0.6, [9, 0], differ="colour"), "differ must be one of"),
        (lambda o: sparsest(o, 0.6, [9, 0], n_jobs=0), "n_jobs must be a number of jobs"),
        (lambda o: sparsest(o, 0.6, [9, 0], effort=-1), "effort must be at least 0"),
        (lambda o: sparsest("certain", 0.6, [9, 0]), "option must be a certainty"),
        (
            lambda o: plausible("certain", 0.6, [9, 0], data=[[1, 2]], labels=[0]),
            "option must be a certainty",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"]))
    with pytest.raises(ValueError, match=message):
        call(option)


def test_a_fitted_classifier_explains_in_every_way():
    X, y = random_data(1, d=4, n=90)
    frame = pd.DataFrame(1000 * X + 5, columns=["a", "b", "c", "d"])
    classifier = RejectOptionClassifier(threshold=("reject_rate", 0.3)).fit(frame, y)
    x = frame[classifier.rejects(frame)].iloc[0]
    near = classifier.explain(x)
    few = classifier.explain(x, how=sparsest)
    assert isinstance(few, Explanation)
    assert few.cause is not None
    assert len(few.changed) <= len(near.changed)
    error = 0.02 * classifier.scale_
    firm = classifier.explain(x, how=robust, error=error)
    errors = np.random.default_rng(0).uniform(-1, 1, (1000, 4)) * error * (firm.delta != 0)
    assert classifier.option_.accepts(firm.counterfactual + errors, classifier.threshold_).all()
    among = classifier.explain(frame.iloc[:30], how=plausible, data=frame, labels=y, on_infeasible="skip")
    assert among.index.equals(frame.index[:30])
    assert among[int(np.flatnonzero(among.found)[0])].cause is not None
    two = classifier.explain(x, how=several, k=2)
    assert len(two) == 2
    assert two[0].counterfactual == pytest.approx(near.counterfactual)
