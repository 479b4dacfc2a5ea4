"""The fewest features: against all sets of them, by the engine and by plain programs."""

from functools import partial
from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from oracles import best_program
from random_rejects import EXACT, KINDS, random_reject

from lvqrej import (
    GMLVQ,
    DecisionDistance,
    NoCounterfactualError,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    explain,
)
from lvqrej.variants import sparsest, trade_off

#: What other methods find is the infimum, without room for noise.
explain, sparsest, trade_off = (partial(call, noise=0) for call in (explain, sparsest, trade_off))


@pytest.fixture(params=["all sets at once", "hitting sets"])
def way(request, monkeypatch):
    """Both ways to exclude the sets of a size."""
    if request.param == "hitting sets":
        monkeypatch.setattr("lvqrej.sparsest._AT_ONCE", 0)


def brute_force(option, theta, x, options, most):
    """Return the best distance of every number of features up to `most`, by trying all sets of them."""
    best = [np.inf]
    for size in range(1, most + 1):
        fixed = combinations(range(len(x)), len(x) - size)
        best.append(
            min(
                best[-1],
                *(
                    explain(
                        option, theta, x[None], **options, fixed=list(kept), on_infeasible="skip"
                    ).distances[0]
                    for kept in fixed
                ),
            )
        )
    return best[1:]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize(("seed", "d", "width"), [(0, 9, 0.9), (1, 12, None), (2, 9, 0.5)])
def test_sparsest_equals_brute_force(kind, seed, d, width):
    option, theta, x, options = random_reject(kind, seed, d, width=width)
    near = explain(option, theta, x[None], on_infeasible="skip", **options)
    if not near.found[0]:
        with pytest.raises(NoCounterfactualError, match="bounds"):
            sparsest(option, theta, x, **options)
        return
    why = sparsest(option, theta, x, effort=500, **options)
    n = len(why.changed)
    assert option.accepts([why.counterfactual], theta)[0]
    assert n == why.fewest <= len(near[0].changed)
    best = brute_force(option, theta, x, options, min(n, 3))
    assert not np.isfinite(best[: n - 1]).any()
    if n <= 3:
        assert why.distance == pytest.approx(best[n - 1], rel=1e-7)
    assert why.lower_bound == pytest.approx(why.distance, rel=1e-7)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("seed", "d", "width"), [(1, 8, None), (5, 6, 0.8)])
def test_sparsest_of_three_probabilities_equals_brute_force(seed, d, width):
    option, theta, x, options = random_reject(KINDS[3], seed, d, 0.6, width)
    why = sparsest(option, theta, x, **options)
    n = len(why.changed)
    best = brute_force(option, theta, x, options, n)
    assert option.cells(theta).gap > 0
    assert not np.isfinite(best[: n - 1]).any()
    assert n == why.fewest
    assert why.distance == pytest.approx(best[-1], rel=3e-3)
    assert why.lower_bound <= best[-1] * (1 + 1e-9)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
@pytest.mark.parametrize("seed", [5, 6])
def test_fewest_features_by_plain_programs(make, seed):
    """Independent of the engine: one CVXPY program per cell and set of features."""
    rng = np.random.default_rng(seed)
    option = make(PrototypeModel(rng.normal(size=(3, 4)), [0, 1, 2], rng.normal(size=(4, 4))))
    X, box = rng.normal(size=(200, 4)), 0.7
    certainty = option.certainty(X)
    theta = float(np.quantile(certainty, 0.8))
    x = X[certainty < theta][1]
    curve = trade_off(option, theta, x, bounds={k: (x[k] - box, x[k] + box) for k in range(4)})

    def value(chosen):
        kept = [k for k in range(4) if k not in chosen]
        extra = lambda z: [cp.abs(z - x) <= box] + ([z[kept] == x[kept]] if kept else [])  # noqa: E731
        return best_program(option, theta, x, np.ones(4), extra)

    sizes = [min(value(chosen) for chosen in combinations(range(4), n)) for n in range(1, 5)]
    fewest = 1 + int(np.isfinite(sizes).argmax())
    assert curve.counts[0] == curve.fewest[0] == fewest
    for count, distance in zip(curve.counts, curve.distances, strict=True):
        assert distance == pytest.approx(sizes[count - 1], rel=1e-5)
    assert curve.gaps.max() <= 1e-7


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", KINDS)
def test_the_trade_off_is_the_best_distance_of_every_number_of_features(kind):
    d = 6 if kind in EXACT else 3
    for seed in range(3 if kind in EXACT else 1):
        option, theta, x, options = random_reject(kind, seed + 20, d, width=1.2)
        curve = trade_off(option, theta, x, **options)
        near, few = explain(option, theta, x, **options), sparsest(option, theta, x, **options)
        assert curve.counts[0] == len(few.changed)
        assert curve.counterfactuals[0].tolist() == few.counterfactual.tolist()
        assert curve.distances[-1] == pytest.approx(near.distance, rel=2e-3)
        assert (np.diff(curve.counts) > 0).all()
        assert (np.diff(curve.distances) < 0).all()
        best = brute_force(option, theta, x, options, int(curve.counts[-1]))
        for count, distance, bound in zip(curve.counts, curve.distances, curve.lower_bounds, strict=True):
            assert distance == pytest.approx(best[count - 1], rel=1e-7 if kind in EXACT else 2e-3)
            assert bound <= best[count - 1] * (1 + 1e-9)
        assert list(curve.to_frame()["changed"]) == curve.counts.tolist()


@pytest.mark.usefixtures("way")
def test_what_is_not_proven_is_not_claimed():
    option, theta, x, options = random_reject(KINDS[0], 0, 12, width=0.6)
    near = explain(option, theta, x, **options)
    full, none, some = (sparsest(option, theta, x, effort=n, **options) for n in (500, 0, 2))
    assert len(none.changed) == len(near.changed)
    assert none.fewest <= some.fewest <= full.fewest
    assert none.fewest < len(none.changed)
    assert none.lower_bound <= near.distance
    assert "of fewer features" not in str(none)
    assert "and none of fewer features at all" in str(full)
    curve = trade_off(option, theta, x, effort=1, **options)
    assert curve.distances[-1] == near.distance
    assert (curve.lower_bounds <= curve.distances).all()


def test_features_count_as_unable_only_if_that_is_proven():
    """Certain to 95 % by one feature alone: no answer is found, but nothing proves that there is none."""
    rng, y = np.random.default_rng(1), np.repeat([0, 1, 2], 30)
    X = rng.normal(size=(90, 3))
    X[np.arange(90), y] += 2
    option = ProbabilisticCertainty(GMLVQ(random_state=0), cv=3).fit(X, y)
    theta = float(np.quantile(option.certainty(X), 0.95))
    X = X[option.certainty(X) < theta][:10]
    near, single = explain(option, theta, X), []
    for k in range(3):
        single.append(explain(option, theta, X, fixed=[j for j in range(3) if j != k], on_infeasible="skip"))
    able = np.any([one.found for one in single], axis=0)
    proven = np.all([one.lower_bounds > 1e6 * near.distances for one in single], axis=0)
    assert (~able & ~proven).any()
    assert (sparsest(option, theta, X[~able & ~proven]).fewest == 1).all()


def test_accepted_samples_and_batches():
    option, theta, x, options = random_reject(KINDS[0], 1, 5)
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
    assert trade_off(option, theta, inside).counts.tolist() == [0]


def test_features_outside_their_bounds_have_to_change():
    option, theta, x, _ = random_reject(KINDS[1], 2, 5)
    inside = explain(option, theta, x).counterfactual
    bounds = {0: (inside[0] + 1, None), 1: (None, inside[1] - 1)}
    why = sparsest(option, theta, inside, bounds=bounds)
    assert {0, 1} <= set(why.changed)
    assert why.fewest == len(why.changed)
