"""Answers at levels and on a grid against the enumeration of all of them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from lvqrej import (
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    explain,
    variants,
)
from lvqrej.columns import Column, Columns
from lvqrej.requirements import Observed

INF = float("inf")


def random_option(rng, kind):
    m, d = int(rng.integers(2, 5)), 3
    P = rng.integers(-4, 5, size=(m, d)).astype(float)
    labels = np.append([0, 1], rng.integers(2, size=m - 2))
    return kind(PrototypeModel(P, labels, rng.normal(size=(3, d))))


def enumerated(option, theta, x, weights, grid):
    """Return the smallest distance of an accepted point of the grid, values that stay may be off it."""
    values = [sorted({*np.arange(-6, 6.1, step), value}) for step, value in zip(grid, x, strict=True)]
    points = np.array(list(product(*values)))
    points = points[option.accepts(points, theta)]
    return np.min(np.abs(points - x) @ weights, initial=np.inf)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([RelativeSimilarity, DecisionDistance]))
def test_the_nearest_answer_of_a_grid_is_found_and_the_bound_holds(seed, kind):
    rng = np.random.default_rng(seed)
    option = random_option(rng, kind)
    X = rng.integers(-5, 6, size=(4, 3)) + np.where(rng.random((4, 3)) < 0.2, 0.3, 0.0)
    theta = float(np.quantile(option.certainty(X), 0.7))
    weights, grid = rng.uniform(0.5, 2, size=3), rng.choice([1.0, 0.5, 2.0], size=3)
    box = dict.fromkeys(range(3), (-6.0, 6.0))
    result = explain(option, theta, X, weights=weights, grid=grid, bounds=box, on_infeasible="skip")
    for i, x in enumerate(X):
        best = enumerated(option, theta, x, weights, grid)
        assert result.lower_bounds[i] <= best * (1 + 1e-9)
        if result.found[i]:
            z = result.counterfactuals[i]
            moved = z != x
            on_grid = np.isclose(z / grid, np.round(z / grid), rtol=0, atol=1e-12)[moved].all()
            assert on_grid or best == np.inf
            if best < np.inf:
                assert best * (1 - 1e-9) <= result.distances[i] <= best / 0.98


def test_the_bound_is_not_the_answer_where_a_nearer_one_is_not_worth_the_search():
    """Answers of nearly the same cost: within 1 % of the nearest is enough, but the bound has to say so."""
    rng, farther = np.random.default_rng(0), 0
    for _ in range(3):
        prototype, weights = rng.uniform(4, 6, size=3), rng.uniform(0.9, 1.1, size=3)
        option = DecisionDistance(PrototypeModel([-prototype, prototype], ["a", "b"]))
        X = rng.uniform(-3, -1, size=(40, 3)).round(1)
        theta = 1.2 * float(option.certainty(X).max())
        box = dict.fromkeys(range(3), (-3.0, 6.0))
        result = explain(option, theta, X, weights=weights, grid=np.ones(3), bounds=box, target="b")
        for x, distance, bound in zip(X, result.distances, result.lower_bounds, strict=True):
            points = np.array(list(product(*(sorted({*np.arange(-3.0, 7.0), value}) for value in x))))
            points = points[option.accepts(points, theta) & (option.predict(points) == "b")]
            best = (np.abs(points - x) @ weights).min()
            assert bound <= best * (1 + 1e-9)
            assert best * (1 - 1e-9) <= distance <= best / 0.98
            farther += distance > best * (1 + 1e-6)
    assert farther > 5


def test_whole_numbers_of_many_columns_are_proven_where_no_grid_can_be_listed():
    """Of two prototypes what is accepted is two half-spaces: an integer program has the nearest answers."""
    rng, d = np.random.default_rng(2), 40
    P, L = rng.integers(0, 7, size=(2, d)).astype(float), rng.normal(size=(3, d))
    option = DecisionDistance(PrototypeModel(P, ["a", "b"], L))
    X, weights = rng.integers(0, 7, size=(12, d)).astype(float), rng.uniform(0.2, 5.0, size=d)
    theta = 1.1 * float(option.certainty(X).max())
    result = explain(
        option, theta, X, weights=weights, integers=range(d), bounds=dict.fromkeys(range(d), (0, 6))
    )
    normal = (P[1] - P[0]) @ L.T @ L
    certainty = (X - P.mean(axis=0)) @ normal / np.square((P[1] - P[0]) @ L.T).sum()
    normal /= np.square((P[1] - P[0]) @ L.T).sum()
    for i, x in enumerate(X):
        best = INF
        for sign in (-1, 1):  # x + up - down
            far = LinearConstraint(sign * np.append(normal, -normal), theta - sign * certainty[i], INF)
            room = Bounds(0, np.append(6 - x, x))
            best = min(best, milp(np.tile(weights, 2), constraints=far, bounds=room, integrality=1).fun)
        assert result.lower_bounds[i] <= best * (1 + 1e-6)
        assert best * (1 - 1e-6) <= result.distances[i] <= best / 0.98
    assert (result.gaps <= 0.01).all()


def test_decimals_are_those_of_their_text():
    option = RelativeSimilarity(PrototypeModel([[0.0], [2.0]], ["a", "b"]))
    why = explain(option, 0.6, [0.9], grid=[0.1])
    assert why.counterfactual.tolist() == [0.6]
    assert explain(option, 0.6, [0.9], grid=[0.05]).counterfactual.tolist() == [0.65]
    assert explain(option, 0.6, [0.95], grid=[0.3]).counterfactual[0] == pytest.approx(0.6)


def test_the_gap_has_the_price_of_the_grid_and_other_grids_are_left_alone():
    option = RelativeSimilarity(PrototypeModel([[0.0, 0.0], [20.0, 0.0]], ["a", "b"]))
    why = explain(option, 0.6, [9.0, 0.0], integers=[0])
    assert why.counterfactual.tolist() == [6.0, 0.0]
    assert why.gap == 0
    assert explain(option, 0.6, [9.0, 0.0], integers=[1]).counterfactual[0] == pytest.approx(20 / 3)


def test_an_answer_of_the_grid_lies_on_the_boundary_only_if_it_does():
    option = RelativeSimilarity(PrototypeModel([[0.0], [20.0]], ["a", "b"]))
    inside = explain(option, 0.6, [9.0], integers=[0], noise=0)
    assert (inside.firm, inside.counterfactual.tolist()) == (True, [6.0])
    assert "boundary itself" not in str(inside)
    on_it = explain(option, float(option.certainty([[6.0]])[0]), [9.0], integers=[0], noise=0)
    assert (on_it.firm, on_it.counterfactual.tolist()) == (False, [6.0])
    assert "boundary itself" in str(on_it)


def test_variants_keep_to_the_grid():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 3)).round(1) * 10, np.repeat([0, 1, 2], 20)
    X[np.arange(60), y] += 25
    option = ProbabilisticCertainty(cv=3).fit(X, y)
    r = option.certainty(X)
    theta = float(np.quantile(r, 0.5))
    x = X[r < theta][0]
    for answers in (
        explain(option, theta, [x], integers=range(3)),
        variants.sparsest(option, theta, [x], integers=range(3)),
        variants.several(option, theta, x, 2, grid=np.ones(3)),
        variants.robust(option, theta, [x], integers=range(3), effort=4),
        variants.plausible(option, theta, [x], data=X, labels=y, grid=np.ones(3)),
    ):
        assert (answers.counterfactuals % 1 == 0).all()
        assert option.accepts(answers.counterfactuals, theta).all()


def test_recording_precision_is_read_off_the_columns():
    seen = Observed.of(np.array([[1.0, 0.1, 1e-3, np.pi], [7.0, 0.2 + 0.1, 2.5, 0.0]]))
    assert seen.steps.tolist() == [1.0, 0.1, 1e-3, 0.0]
    assert seen.lower.tolist() == [1.0, 0.1, 1e-3, 0.0]


# --- levels ---


def letters(count):
    return tuple((letter,) for letter in "abcdefgh"[:count])


@pytest.mark.parametrize("kind", [RelativeSimilarity, DecisionDistance])
def test_prices_of_many_levels_are_proven_where_they_cannot_be_listed(kind):
    """Ten categories of three levels: answers of up to five prices, of which there are 10,000 and more."""
    rng = np.random.default_rng(1)
    columns = Columns([Column("x"), *(Column(f"c{k}", letters(3)) for k in range(10))])
    model = PrototypeModel(
        rng.normal(size=(4, 31)) / 2, [0, 1, 0, 1], rng.normal(size=(6, 31)), columns=columns
    )
    option = kind(model)
    indicators = np.eye(3)[np.array(list(product(range(3), repeat=10)))].reshape(-1, 30)
    everything = np.hstack([np.zeros((len(indicators), 1)), indicators])
    r = option.certainty(everything)
    theta = np.sort(r)[-40]
    places = rng.integers(len(everything), size=6)
    result = explain(option, theta, everything[places], fixed=["x"])
    for x, distance, bound in zip(everything[places], result.distances, result.lower_bounds, strict=True):
        changes = 10 - (everything[r >= theta][:, 1:] * x[1:]).sum(axis=1)
        assert bound <= distance == changes.min()
    assert (result.gaps < 0.08).all()
    assert result.distances.max() >= 5


def test_a_category_makes_one_move_at_a_time():
    """Two levels together would be cheaper than anything that exists."""
    columns = Columns([Column("x"), Column("level", letters(3))])
    L, P = [[1.0, 0.0, 1.0, 1.2]], [[-2.0, 1, 0, 0], [8.0, 1, 0, 0]]
    option = DecisionDistance(PrototypeModel(P, ["no", "yes"], L, columns=columns))
    row, asked = np.array([[0.0, "a"]], dtype=object), {"weights": {"x": 10.0}, "target": "yes", "noise": 0}
    result = explain(option, 0.01, row, **asked)
    table = [(x, level) for x in np.linspace(0, 4, 4001) for level in "abc"]
    lifted = columns.lifted(np.array(table, dtype=object))
    good = option.accepts(lifted, 0.01) & (option.predict(lifted) == "yes")
    best = min(10 * x + (level != "a") for (x, level), passed in zip(table, good, strict=True) if passed)
    again = columns.lifted(result.to_frame()[["x", "level"]].to_numpy(dtype=object))
    assert option.accepts(again, 0.01)[0]
    assert result.lower_bounds[0] <= result.distances[0] <= best * (1 + 1e-12) <= result.distances[0] + 0.011


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([RelativeSimilarity, DecisionDistance]))
def test_levels_prices_gaps_and_whole_numbers_together_agree_with_enumeration(seed, kind):
    rng = np.random.default_rng(seed)
    columns = Columns(
        [
            Column("n"),
            Column("gap", fill=1.0, flag=True),
            Column("steps", letters(4), ordered=True),
            Column("level", letters(3)),
            Column("other", (*letters(2), (None,)), fill=2),
        ]
    )
    model = PrototypeModel(rng.normal(size=(3, 13)) * 2, [0, 1, 1], rng.normal(size=(4, 13)), columns=columns)
    option, numbers = kind(model), range(-2, 3)
    prices = {(a, b): rng.choice([0.3, 0.7, 2.0, INF]) for a, b in product("abc", repeat=2) if a != b}
    weights = {"n": rng.uniform(0.2, 1), "gap": rng.uniform(0.2, 1), "steps": 0.4, "level": prices}
    allowed = [*rng.permutation(list("abc"))[:2]]
    table = list(product(numbers, [None, *numbers], "abcd", "abc", ["a", "b", None]))
    lifted = columns.lifted(np.array(table, dtype=object))
    r = option.certainty(lifted)
    theta = float(np.quantile(r, 0.9))
    rows = [table[k] for k in rng.integers(len(table), size=4)]
    box = {"n": (-2, 2), "gap": (-2, 2), "level": allowed}
    result = explain(
        option, theta, np.array(rows, dtype=object), weights=weights, bounds=box, increase_only=["steps"],
        integers=["n", "gap"], on_infeasible="skip",
    )  # fmt: skip
    for i, row in enumerate(rows):
        best = INF
        for other, passed in zip(table, r >= theta, strict=True):
            up = ord(other[2]) - ord(row[2])
            if not passed or up < 0 or other[3] not in allowed:
                continue
            if any(new is None and old is not None for old, new in zip(row, other, strict=True)):
                continue  # nothing is made missing
            cost = weights["n"] * abs(other[0] - row[0]) + 0.4 * up + (other[4] != row[4])
            cost += prices.get((row[3], other[3]), 0.0)
            if other[1] is not None:  # a missing value is given, from the one that it was taken as
                cost += weights["gap"] * abs(other[1] - (1 if row[1] is None else row[1])) + (row[1] is None)
            best = min(best, cost)
        assert result.lower_bounds[i] <= best * (1 + 1e-9)
        assert result.found[i] == (best < INF)
        if best < INF:
            assert best * (1 - 1e-9) <= result.distances[i] <= best / 0.98
