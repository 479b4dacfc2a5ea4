"""Answers among the training data: in the region of their class, as near as plain programs find."""

from functools import partial

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from oracles import best_program
from random_rejects import KINDS, random_data, random_reject
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lvqrej import GMLVQ, NoCounterfactualError, PrototypeModel, RelativeSimilarity, explain
from lvqrej.variants import Plausible, plausible, robust, several, sparsest

#: What other methods find is the infimum, without room for noise.
explain, plausible, sparsest = (partial(call, noise=0) for call in (explain, plausible, sparsest))


def nearest_in_region(option, theta, x, weights, label, region):
    """Return the distance of the nearest answer of one class in a region, by one CVXPY program per cell."""

    class OfClass:
        def cells(self, theta):
            return option.cells(theta).with_label(label)

    inside = lambda z: [cp.norm(region.L @ (z - region.centre)) <= region.radius]  # noqa: E731
    return best_program(OfClass(), theta, x, weights, inside)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_lie_in_the_region_of_their_class(kind):
    option, theta, x, options = random_reject(kind, 4, 3, 0.5)
    X, y = random_data(4, classes=len(option.classes))
    why = plausible(option, theta, x, data=X, labels=y, level=0.9, **options)
    near = Plausible(option, X, y, 0.9)
    region = near.regions[int(np.flatnonzero(option.classes == why.label)[0])]
    assert region.excess(why.counterfactual[None])[0] <= 1e-9
    assert near.accepts([why.counterfactual], theta)[0]
    assert option.accepts([why.counterfactual], theta)[0]
    assert why.distance >= explain(option, theta, x, **options).lower_bound
    if kind in KINDS[:2]:
        parts = [
            nearest_in_region(option, theta, x, options["weights"], i, b) for i, b in enumerate(near.regions)
        ]
        assert why.distance == pytest.approx(min(parts), rel=1e-5)
        assert why.gap <= 1e-6
    assert "within the ellipsoid around its class's training data" in str(why)
    batch = plausible(option, theta, X[:5], data=X, labels=y, target=option.classes[0], on_infeasible="skip")
    assert set(batch.labels[batch.found]) <= {option.classes[0]}
    assert isinstance(batch.to_frame(), pd.DataFrame)


def test_a_sample_on_the_edge_of_its_region_has_the_nearest_answer():
    X, y = load_wine(return_X_y=True)
    model = PrototypeModel.of(make_pipeline(StandardScaler(), GMLVQ(random_state=0)).fit(X, y))
    option, weights = RelativeSimilarity(model), 1 / X.std(axis=0)
    edges = 0
    for level in np.linspace(0.1, 0.9, 17):
        near = Plausible(option, X, y, level)
        for i, region in enumerate(near.regions):  # the sample that sets the radius
            x = X[y == i][np.abs(region.excess(X[y == i])).argmin()]
            theta = (1 + option.certainty([x])[0]) / 2
            parts = [nearest_in_region(option, theta, x, weights, k, b) for k, b in enumerate(near.regions)]
            why = explain(near, theta, x, weights=weights)
            assert why.distance <= (1 + 1e-6) * min(parts)
            assert why.gap <= 1e-6
            edges += 1
    assert edges == 51


@pytest.mark.parametrize("level", [0.3, 0.9, 1.0])
def test_a_region_holds_its_share_of_the_class(level):
    option, _, _, _ = random_reject(KINDS[1], 0, 3)
    X, y = random_data(0)
    near = Plausible(option, X, y, level)
    for label, region in zip(option.classes, near.regions, strict=True):
        assert np.mean(region.excess(X[y == label]) <= 1e-9) >= level
    # The least certain threshold leaves the regions alone to decide, on one sample as in a batch.
    inside = near.accepts(X, -1.0)
    assert [bool(near.accepts([x], -1.0)[0]) for x in X] == inside.tolist()
    own = option.predict(X) == y
    assert inside[own].mean() >= level - 0.1
    if level == 1:
        assert inside[own].all()


def test_it_is_the_certainty_but_for_what_it_accepts():
    option, theta, _, _ = random_reject(KINDS[1], 1, 3)
    X, y = random_data(1)
    near = Plausible(option, X, y)
    np.testing.assert_array_equal(near.certainty(X), option.certainty(X))
    np.testing.assert_array_equal(near.predict(X), option.predict(X))
    for mine, plain in zip(near.verdicts(X), option.verdicts(X), strict=True):
        np.testing.assert_array_equal(mine, plain)
    assert near.unrestricted is option
    assert near.models() == option.models()
    assert (near.name, near.largest, near.sees_unfamiliarity) == (option.name, np.inf, False)
    assert not (near.accepts(X, theta) & ~option.accepts(X, theta)).any()


def test_it_combines_with_the_other_variants():
    option, theta, x, options = random_reject(KINDS[0], 4, 3, 0.5)
    X, y = random_data(4)
    near = Plausible(option, X, y, 0.9)
    few = sparsest(near, theta, x, **options)
    assert near.accepts([few.counterfactual], theta)[0]
    assert len(few.active) > 0
    error = np.full(3, 0.03)
    firm = robust(near, theta, x, error=error, **options)
    errors = np.random.default_rng(0).uniform(-1, 1, (1000, 3)) * error * (firm.delta != 0)
    assert near.accepts(firm.counterfactual + errors, theta).all()
    assert near.accepts(several(near, theta, x, 2, **options).counterfactuals, theta).all()


def test_what_lies_outside_the_data_is_told():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"], feature_names=["age", "bmi"]))
    data, labels = [[9, 0], [9, 1], [8, 0], [11, 0], [11, 1], [12, 0]], ["a", "a", "a", "b", "b", "b"]
    with pytest.raises(
        NoCounterfactualError, match=r"no input among the training data .* outside their region"
    ):
        plausible(option, 0.99, [9, 0], data=data, labels=labels)
    with pytest.raises(NoCounterfactualError, match="without bounds on bmi, or outside the training data"):
        plausible(option, 0.3, [9, 0], data=data, labels=labels, bounds={"bmi": (5, 6)})


@pytest.mark.parametrize(
    ("data", "labels", "options", "message"),
    [
        ([[1, 2], [2, 3]], ["a"], {}, r"labels must have shape \(2,\)"),
        ([[1, 2], [2, 3]], ["a", "a"], {}, "labels must name each class at least twice"),
        ([[1, 2], [1, 2], [0, 0]], ["a", "a", "b"], {}, "data must vary within each class"),
        ([[1, 2], [1, 3]], ["a", "a"], {}, "data must vary in every feature"),
        ([[1, 2], [2, 3]], ["a", "b"], {"level": 0}, "level must be above 0"),
        ([[1, 2, 3]], ["a"], {}, "data must have 2 features"),
    ],
)
def test_bad_input_is_named(data, labels, options, message):
    option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"]))
    with pytest.raises(ValueError, match=message):
        Plausible(option, data, labels, **options)
    with pytest.raises(ValueError, match="option must be a certainty"):
        Plausible("certain", data, labels)
