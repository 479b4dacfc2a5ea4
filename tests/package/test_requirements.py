"""Requirements: the boxes and half-spaces they become, which can be dropped, which are refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lvqrej import mad_weights
from lvqrej.columns import Columns
from lvqrej.requirements import Observed, check_requirements

NAN, INF = float("nan"), float("inf")
NAMES, CLASSES = ["size", "age"], np.array(["a", "b"])


def required(**asked):
    return check_requirements(Columns.numeric(2, NAMES), CLASSES, **asked)


def test_the_box_of_a_sample_holds_exactly_what_the_requirements_allow():
    rng = np.random.default_rng(0)
    asked = check_requirements(
        Columns.numeric(6), CLASSES, fixed=[0], increase_only=[1, 5], decrease_only=[2, 5],
        bounds={3: (-1, 1), 4: (None, 0), 1: (0, 3)},
    )  # fmt: skip
    X = rng.normal(size=(40, 6))
    lower, upper = asked.box(X)
    for x, low, high in zip(X, lower, upper, strict=True):
        Z = np.vstack([x, x + rng.normal(size=(200, 6)) * (rng.random((200, 6)) < 0.3)])
        kept = (Z[:, 0] == x[0]) & (Z[:, 1] >= x[1]) & (Z[:, 2] <= x[2]) & (Z[:, 5] == x[5])
        kept &= (np.abs(Z[:, 3]) <= 1) & (Z[:, 4] <= 0) & (Z[:, 1] >= 0) & (Z[:, 1] <= 3)
        np.testing.assert_array_equal(((low <= Z) & (high >= Z)).all(axis=1), kept)


def test_observed_ranges_reach_to_the_sample_and_given_bounds_do_not():
    seen = np.array([[0.0, 0.0], [1.0, 1.0]])
    outside = np.array([[-2.0, 3.0], [3.0, -2.0]])
    lower, upper = required(bounds=Observed.of(seen)).box(outside)
    assert lower.tolist() == [[-2, 0], [0, -2]]
    assert upper.tolist() == [[1, 3], [3, 1]]
    lower, upper = required(bounds=replace(Observed.of(seen), own={"age": (0.5, None)})).box(outside)
    assert lower.tolist() == [[-2, 0.5], [0, 0.5]]
    assert upper.tolist() == [[1, INF], [3, INF]]


def test_linear_constraints_hold_without_tolerance_and_equalities_relative_to_their_terms():
    X = np.array([[0.0, 0.0], [1e6, 0.0]])
    strict = required(constraints=([[1, 1]], [1]))
    assert strict.linear(np.array([[0.5, 0.5], [0.5, 0.5]]), X).all()
    assert not strict.linear(np.array([[0.5, 0.5 + 3e-16], [1, 1]]), X).any()
    equal = required(constraints=([[1, -1], [-1, 1]], [0, 0]))
    Z = np.array([[3.0, 3.0 + 3e-9], [3.0, 3.0 + 3e-9]])
    assert equal.linear(Z, X).tolist() == [True, True]
    assert equal.linear(Z + np.array([0, 3e-8]), X).tolist() == [False, True]  # the sample had larger terms
    assert equal.linear(np.zeros((2, 2)), X).all()


def test_constraints_are_taken_by_name():
    """In whatever order a frame has its columns; what is not named does not count."""
    X = np.random.default_rng(0).normal(size=(50, 2))
    expected = required(constraints=([[3, 1]], [1])).linear(X, X)
    assert 0 < expected.sum() < 50
    frame = pd.DataFrame({"age": [1.0], "size": [3.0]})
    for named in ((frame, [1]), ({"age": 1, "size": 3}, 1), ({"age": 1, "size": 3}, [1])):
        np.testing.assert_array_equal(required(constraints=named).linear(X, X), expected)
    alone = required(constraints=({"age": 2}, 1)).linear(X, X)
    np.testing.assert_array_equal(alone, 2 * X[:, 1] <= 1)


def test_half_spaces_are_the_constraints_and_equalities_are_a_little_open():
    X = np.random.default_rng(0).normal(size=(300, 2))
    (half,) = required(constraints=([[1, 2]], [0.3])).half_spaces(X)
    np.testing.assert_array_equal(half.excess(X) <= 0, X @ [1, 2] <= 0.3)
    low, high = required(constraints=([[1, 1], [-1, -1]], [1, -1])).half_spaces(X)
    on_it = np.array([[0.3, 0.7]])
    assert -1e-9 < low.excess(on_it)[0] < 0 > high.excess(on_it)[0] > -1e-9


def test_what_can_be_dropped():
    asked = required(
        fixed=["age"], bounds={"size": (0, 1), "age": (0, None)}, target="b", constraints=([[1, 0]], [1])
    )
    assert asked.groups() == ["target", "bounds", "constraints", "fixed"]
    assert (asked.features_of("bounds"), asked.features_of("fixed"), asked.features_of("target")) == (
        [0, 1],
        [1],
        [],
    )
    assert asked.without(asked.groups()).groups() == []
    less = asked.without(["bounds", "fixed"], [1])
    assert (less.groups(), less.features_of("bounds")) == (["target", "bounds", "constraints"], [0])
    assert required().groups() == []
    assert required(increase_only=[0], decrease_only=["age"]).groups() == ["increase_only", "decrease_only"]


def test_constraints_that_hold_a_point_are_told():
    asked = required(constraints=([[0, 1], [1, 0]], [1.0, 0.4]))
    assert asked.tight(np.array([0.4, 0.2])) == ["linear constraint 2"]


def test_weights_are_not_shared_and_mad_weights_measure_typical_deviations():
    given = np.array([1.0, 2.0])
    asked = required(weights=given)
    given[:] = 7
    assert asked.weights.tolist() == [1, 2]
    X = np.random.default_rng(0).normal(size=(101, 3)) * [1, 10, 100]
    np.testing.assert_allclose(mad_weights(X) * np.median(np.abs(X - np.median(X, axis=0)), axis=0), 1)
    mostly_zero = np.array([[0.0, 0, 5], [1, 0, 5], [2, 0, 5], [3, 4, 5]])
    assert mad_weights(mostly_zero).tolist() == [1, 1, 1]  # median, mean, and the largest of the others
    with pytest.raises(ValueError, match="X must vary in some feature"):
        mad_weights([[0, 1], [0, 1]])
    for text in ("abc", pd.Series(["a", "b"])):
        with pytest.raises(ValueError, match="X must be numeric"):
            mad_weights(text)
    X = pd.DataFrame({"size": [1, 2], "kind": ["a", "b"]})
    with pytest.raises(ValueError, match=r"found text in \['kind'\]: X.drop\(columns=\['kind'\]\) leaves it"):
        mad_weights(X)
    assert mad_weights(X.drop(columns=["kind"])) == [2]


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("weights", [1.0], r"weights must have shape \(2,\); found"),
        ("weights", [[1.0, 1.0]], r"weights must have shape \(2,\); found"),
        ("weights", 1.0, r"weights must have shape \(2,\); found 1.0"),
        ("weights", "heavy", r"weights must have shape \(2,\); found 'heavy'"),
        ("weights", {"size": 1, "weight": 2}, "weights must hold names of features .*; found 'weight'"),
        ("weights", {"size": 0}, "weights must lie between .*; found 0 to 1"),
        ("grid", {"size": -1}, r"grid\['size'\] must be at least 0; found -1"),
        ("grid", "fine", "grid must be a number"),
        ("integers", "size", "integers must be a list of features"),
        ("weights", [1.0, 0.0], r"weights must lie between .*; found 0 to 1 \(to fix a feature, use fixed\)"),
        ("weights", [1.0, -1.0], "weights must lie between .*; found -1"),
        ("weights", [1.0, NAN], "weights must be finite; found nan"),
        ("weights", [1.0, INF], "weights must be finite; found inf"),
        ("weights", [1j, 1], "weights must be real"),
        ("weights", [1e200, 1e-200], "weights must lie between 1e-60 and 1e.60; found 1e-200 to 1e.200"),
        ("fixed", "size", "fixed must be a list of features; found 'size'"),
        ("fixed", 0, "fixed must be a list of features; found 0"),
        ("fixed", None, "fixed must be a list of features; found None"),
        (
            "fixed",
            ["weight"],
            "fixed must hold names of features or indices from 0 to 1; found 'weight' of type str$",
        ),
        ("fixed", [2], "fixed must hold names of features or indices from 0 to 1; found 2"),
        ("fixed", [-1], "fixed must hold .* found -1"),
        ("fixed", [0.5], "fixed must hold .* found 0.5"),
        ("fixed", [True], "fixed must hold .* found True"),
        ("fixed", [[0]], r"fixed must hold .* found \[0\]"),
        ("increase_only", ["weight"], "increase_only must hold names"),
        ("decrease_only", "age", "decrease_only must be a list of features; found 'age'"),
        ("bounds", [(0, 1)], "bounds must map features to"),
        ("bounds", "size", "bounds must map features to .* found 'size'"),
        ("bounds", {"weight": (0, 1)}, "bounds must hold names of features .* found 'weight'"),
        ("bounds", {(0, 1): (0, 1)}, r"bounds must hold names of features .* found \(0, 1\)"),
        ("bounds", {"size": (0, 1), 0: (0, 2)}, "bounds must name each feature once; found 'size' twice"),
        ("bounds", {"size": (1, 0)}, r"bounds\['size'\] must have low <= high; found \(1, 0\)"),
        ("bounds", {"size": (INF, INF)}, r"bounds\['size'\] must have low <= high; found \(inf, inf\)"),
        ("bounds", {"size": 1}, r"bounds\['size'\] must be a pair \(low, high\); found 1"),
        ("bounds", {"size": "01"}, r"bounds\['size'\] must be a pair \(low, high\); found '01'"),
        ("bounds", {"size": (0, 1, 2)}, r"bounds\['size'\] must be a pair \(low, high\); found \(0, 1, 2\)"),
        ("bounds", {"size": (NAN, 1)}, r"bounds\['size'\] must be a number; found nan"),
        ("bounds", {1: ("low", 1)}, r"bounds\[1\] must be a number; found 'low'"),
        ("bounds", {"size": (0, 1j)}, r"bounds\['size'\] must be a number; found 1j"),
        ("bounds", {"size": (0, [1])}, r"bounds\['size'\] must be a number; found \[1\]"),
        ("constraints", "A x <= b", r"constraints must be a pair \(A, b\), meaning A x <= b; found"),
        ("constraints", ([[1, 2]],), r"constraints must be a pair \(A, b\)"),
        ("constraints", ([[1, 2, 3]], [1]), "constraints' A must have 2 features; found 3"),
        ("constraints", ([1, 2], 1), r"constraints' A must have shape \(n, d\)"),
        ("constraints", ([[1, NAN]], [1]), "constraints' A must be finite; found NaN"),
        (
            "constraints",
            ({"aeg": 1}, 1),
            "constraints' A must hold .* found 'aeg' .*; did you mean 'age'\\?$",
        ),
        ("constraints", ({"age": "1"}, 1), r"constraints' A\['age'\] must be a .*number"),
        ("weights", {"age": INF}, r"at least 0; found inf for 'age' \(to fix a feature, use fixed"),
        ("constraints", ([[0, 0]], [1]), "constraints' A must not have rows of zeros only"),
        ("constraints", ([[1, 2]], [1, 2]), r"constraints' b must have shape \(1,\); found"),
        ("constraints", ([[1, 2]], "b"), r"constraints' b must have shape \(1,\); found 'b'"),
        ("constraints", ([[1, 2]], [INF]), "constraints' b must be finite; found inf"),
        ("target", "c", r"target must be one of the classes \['a', 'b'\]; found 'c'"),
        ("target", 0, r"target must be one of the classes .* found 0"),
        ("target", ["a"], r"target must be one of the classes .* found \['a'\]"),
        ("target", np.array(["a", "b"]), "target must be one of the classes"),
        ("target", NAN, "target must be one of the classes .* found nan"),
    ],
)
def test_bad_input(argument, value, message):
    with pytest.raises(ValueError, match=message):
        required(**{argument: value})
