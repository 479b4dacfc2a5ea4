"""The answers: what they hold follows from samples, counterfactuals and bounds, for one as for many."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from lvqrej import (
    DecisionDistance,
    Explanation,
    NoCounterfactualError,
    PrototypeModel,
    RelativeSimilarity,
    explain,
)

MODEL = PrototypeModel([[0.0, 0.0], [2.0, 0.0]], ["a", "b"], feature_names=["age", "bmi"])
WEIGHTS = np.array([1.0, 2.0])


@pytest.fixture(scope="module")
def batch():
    """Return explanations of an accepted sample, three rejects and one that has no counterfactual."""
    X = pd.DataFrame(
        [[0.1, 0.1], [0.9, 0.4], [1.0, -3.0], [1.3, 0.6], [-9.0, 5.0]],
        columns=["age", "bmi"],
        index=list("vwxyz"),
    )
    return explain(
        RelativeSimilarity(MODEL), 0.6, X, weights=WEIGHTS, increase_only=["bmi"], bounds={"bmi": (None, 4)},
        on_infeasible="skip",
    )  # fmt: skip


def test_numbers_follow_from_samples_and_counterfactuals(batch):
    assert batch.found.tolist() == [True, True, True, True, False]
    there, option = batch.found, batch.option
    X, Z = batch.samples[there], batch.counterfactuals[there]
    np.testing.assert_allclose(batch.distances[there], np.abs(Z - X) @ WEIGHTS)
    np.testing.assert_array_equal(batch.certainties_before, option.certainty(batch.samples))
    np.testing.assert_array_equal(batch.certainties[there], option.certainty(Z))
    np.testing.assert_array_equal(batch.labels[there], option.predict(Z))
    np.testing.assert_array_equal(batch.counts, [*(Z != X).sum(axis=1), 0])
    far = batch.distances[there] > 0
    expected = (batch.distances[there] - batch.lower_bounds[there])[far] / batch.distances[there][far]
    np.testing.assert_allclose(batch.gaps[there][far], expected)
    assert (batch.gaps >= 0).all()
    assert batch.gaps[0] == batch.distances[0] == batch.lower_bounds[0] == 0


def test_one_explanation_is_a_row_of_the_batch(batch):
    assert len(batch) == 5
    assert len(batch[:4]) == 4
    for i in range(4):
        why = batch[i]
        assert isinstance(why, Explanation)
        columns = {
            "distance": batch.distances, "lower_bound": batch.lower_bounds, "gap": batch.gaps,
            "certainty": batch.certainties, "certainty_before": batch.certainties_before,
            "label": batch.labels, "path": batch.paths,
        }  # fmt: skip
        for name, column in columns.items():
            assert getattr(why, name) == column[i], name
        np.testing.assert_array_equal(why.delta, batch.counterfactuals[i] - batch.samples[i])
        assert why.changed == np.flatnonzero(why.delta).tolist()
        assert why.costs.sum() == pytest.approx(why.distance)
        assert (why.theta, why.feature_names, why.largest) == (0.6, ["age", "bmi"], 1.0)
        assert (why.scope, why.fewest, why.worst_certainty, why.cause) == ("", None, None, None)
    with pytest.raises(IndexError, match="explanation 5 of 5"):
        batch[5]
    with pytest.raises(NoCounterfactualError, match=r"sample 4: .* without increase_only of bmi$"):
        batch[-1]
    assert list(batch.reasons) == [4]


def test_tables(batch):
    table = batch.to_frame()
    assert table.index.tolist() == list("vwxyz")
    np.testing.assert_array_equal(table[["age", "bmi"]], batch.counterfactuals)
    np.testing.assert_array_equal(table["distance"], batch.distances)
    assert table["found"].tolist() == batch.found.tolist()
    assert not table["distance"].isna().any()
    one = batch[3].to_frame()
    assert one["feature"].tolist() == [["age", "bmi"][k] for k in batch[3].changed]
    np.testing.assert_allclose(one["after"] - one["before"], one["change"])
    assert one["cost"].sum() == pytest.approx(batch[3].distance)


def test_what_holds_a_counterfactual_is_told():
    option = RelativeSimilarity(MODEL)
    assert explain(option, 0.6, [0.9, 0.0]).active == (
        "nearer to prototype 1 (a) than to prototype 2 (b) by enough",
    )
    held = explain(option, 0.6, [0.9, 0.0], constraints=([[0, 1], [1, 0]], [1.0, 0.4]))
    assert held.active == ("linear constraint 2",)
    outside = explain(option, 0.6, [0.0, 5.0], bounds={"bmi": (-1, 0.5), "age": (0.1, 0.2)})
    assert set(outside.active) >= {"age at its lower bound", "bmi at its upper bound"}
    assert explain(option, 0.6, [0.0, 0.0]).active == ()


@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
def test_another_point_holds_if_it_is_accepted_alike_and_meets_the_same_requirements(make):
    why = explain(make(MODEL), 0.2, [0.95, 0.5], increase_only=["bmi"], constraints=([[1.0, 1.0]], [2.0]))
    points = why.counterfactual + np.random.default_rng(0).normal(size=(400, 2))
    option = make(MODEL)
    good = option.accepts(points, 0.2) & (option.predict(points) == why.label)
    good &= (points[:, 1] >= 0.5) & (points.sum(axis=1) <= 2.0)
    assert 0 < good.sum() < 400
    assert [why.holds(point) for point in points] == good.tolist()
    assert why.holds(why.counterfactual)


def test_answers_can_be_copied_and_sent_to_other_processes(batch):
    for again in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        np.testing.assert_array_equal(again.counterfactuals, batch.counterfactuals)
        assert again.reasons[4] == batch.reasons[4]
        assert str(again[1]) == str(batch[1])
