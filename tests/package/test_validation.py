"""Each check names the argument, what was found and what is allowed; frames come in and go out."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator

from lvqrej.validation import (
    as_floats,
    check_choice,
    check_kinds,
    check_names,
    check_number,
    check_samples,
    classes_of,
    describe,
    dimensions,
    feature_names_of,
    like,
    shape_of,
    validated,
)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], r"X must have shape \(n, d\); found shape \(2,\); one sample is X.reshape\(1, -1\)"),
        (5, r"X must have shape \(n, d\); found shape \(\)$"),
        ([[[1.0]]], r"found shape \(1, 1, 1\)$"),
        ([], r"X must have shape \(n, d\)"),
        (np.empty((0, 2)), r"X must not be empty; found shape \(0, 2\)"),
        (np.empty((2, 0)), r"X must not be empty; found shape \(2, 0\)"),
        ([[1.0]], "X must have 2 features; found 1"),
        ([[1.0, math.inf]], "X must be finite; found inf at row 0, column 1"),
        ([["a", "b"]], r"X must be numeric, of shape \(n, d\); found \[\['a', 'b'\]\] of type list"),
        ([[1, 2], [3]], "X must be numeric"),
        ([[1, 10**400]], "X must be numeric"),
        ([[1, 2j]], "X must be real; found complex numbers"),
        (np.zeros((1, 2), dtype="datetime64[s]"), r"found dates or times \(datetime64\[s\]\)"),
    ],
)
def test_samples_that_are_none_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        check_samples(X, 2)


def test_samples_become_contiguous_floats():
    for X in ([[1, 2], [3, 4]], np.array([[1, 3], [2, 4]], dtype=np.int8).T, pd.DataFrame([[1, 2], [3, 4]])):
        samples = check_samples(X, 2)
        assert samples.flags.c_contiguous
        assert samples.dtype == np.float64
        assert samples.tolist() == [[1, 2], [3, 4]]
    assert check_samples(np.empty((0, 2)), allow_empty=True).shape == (0, 2)
    with pytest.raises(ValueError, match="A must have 3 features"):
        check_samples([[1.0]], 3, name="A")


def test_numbers_of_any_shape_are_taken():
    assert as_floats(3, "r", "()").shape == ()
    with pytest.raises(ValueError, match=r"r must be numeric, of shape \(n,\); found 'many' of type str"):
        as_floats("many", "r", "(n,)")


@pytest.mark.parametrize(
    ("value", "limits", "message"),
    [
        (True, {}, "t must be a number; found True of type bool"),
        (None, {}, "t must be a number; found None of type NoneType"),
        (math.nan, {}, "t must be a number; found nan of type float"),
        (10**400, {}, "t must be a number; found an integer of many digits of type int"),
        (2.0, {"integer": True}, "t must be an integer; found 2.0 of type float"),
        (-1, {"low": 0}, "t must be at least 0; found -1"),
        (0, {"low": 0, "low_open": True}, "t must be above 0; found 0"),
        (2, {"high": 1}, "t must be at most 1; found 2"),
        (2, {"low": 0, "high": 1}, "t must be at least 0 and at most 1; found 2"),
    ],
)
def test_numbers_that_are_not_allowed_are_named(value, limits, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        check_number(value, "t", **limits)


def test_numbers_of_all_kinds_become_floats():
    assert check_number(np.int64(3), "t", integer=True, low=3, high=3) == 3
    assert type(check_number(np.float32(0.5), "t")) is float
    assert check_number(-math.inf, "t") == -math.inf


def test_choices():
    assert check_choice("a", "letter", ("a", "b")) == "a"
    for value in ("c", 3, ["a"]):
        with pytest.raises(ValueError, match="letter must be one of 'a', 'b'; found"):
            check_choice(value, "letter", ("a", "b"))


def test_long_values_are_described_in_few_words():
    assert describe("x" * 100) == "'" + "x" * 56 + "... of type str"
    assert dimensions(np.zeros((1, 2))) == 2
    assert shape_of(3) == "shape ()"


def test_classes_are_sorted_with_the_place_of_each_label():
    classes, places = classes_of(np.array([3, 1, 3]), "y")
    assert classes.tolist() == [1, 3]
    assert places.tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="y must hold labels of one kind, all text or all numbers"):
        classes_of(np.array([1, "a"], dtype=object), "y")
    with pytest.raises(ValueError, match="labels must hold labels; found inf among them"):
        classes_of(np.array([1.0, math.inf]), "labels")
    with pytest.raises(ValueError, match=r"y must name at least two classes; found one class: \[1\]"):
        classes_of(np.array([1, 1]), "y")


@pytest.mark.parametrize(
    "y", [[0, None], ["a", math.nan], pd.Series(["a", pd.NA]), pd.Series([1.0, np.nan]), [pd.NaT, pd.NaT]]
)
def test_missing_labels_are_named(y):
    with pytest.raises(ValueError, match="y must name a class for each sample; found none at row"):
        check_kinds(y)


def test_text_among_numbers_is_named():
    with pytest.raises(ValueError, match="y must hold labels of one type; found float, str"):
        check_kinds(["a", 1.0])
    for y in (["a", "b"], [0, True], np.array([1, 2]), [[1, "a"]], None):
        check_kinds(y)


class Estimator(BaseEstimator):
    def fit(self, X, y):
        return self


def test_training_data_are_checked_by_scikit_learn():
    estimator = Estimator()
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["u", "v"])
    X, y = validated(estimator, frame, y=["a", "b"])
    assert X.dtype == np.float64
    assert y.tolist() == ["a", "b"]
    assert estimator.feature_names_in_.tolist() == ["u", "v"]
    with pytest.raises(ValueError, match="feature names should match"):
        validated(estimator, frame[["v", "u"]])
    for labels in ([1.0, 2.0], [True, False], np.array(["a", "b"], dtype=object)):
        assert validated(estimator, X, y=labels)[1].tolist() == list(labels)
    assert estimator.n_features_in_ == 2
    assert not hasattr(estimator, "feature_names_in_")


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([1.0, 2.0], [0, 1], "^X: Expected 2D array"),
        ([[1.0], [2.0]], [0], "^X and y: Found input variables with inconsistent numbers of samples"),
        ([[1.0], [math.nan]], [0, 1], "X must be finite; found NaN at row 1, column 0"),
        ([[1.0], [2.0]], ["a", None], "y must name a class for each sample; found none at row 1"),
        ([[1.0], [2.0]], [0.1, 0.2], "y must hold labels of classes. Unknown label type: continuous"),
        ([[1.0], [2.0]], [1.0, math.inf], "y contains infinity"),
    ],
)
def test_errors_of_training_data_name_the_argument(X, y, message):
    with pytest.raises(ValueError, match=message):
        validated(Estimator(), X, y=y)


def test_type_errors_stay_type_errors():
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        validated(Estimator(), csr_array(np.eye(2)), y=[0, 1])


def test_names_of_frames_and_series():
    frame = pd.DataFrame([[1, 2]], columns=["u", "v"])
    assert feature_names_of(frame) == ["u", "v"]
    assert feature_names_of(frame.iloc[0]) == ["u", "v"]
    assert feature_names_of(frame.to_numpy()) is None
    assert feature_names_of(pd.DataFrame([[1, 2]])) is None
    check_names(frame, None)
    check_names(frame, ["other", "names"])
    with pytest.raises(ValueError, match=r"X must have its features in the order \['v', 'u'\]"):
        check_names(frame, ["v", "u"])


def test_answers_look_like_the_question():
    frame = pd.DataFrame([[1], [2]], index=["a", "b"])
    values = np.array([3, 4])
    assert like(frame.to_numpy(), values) is values
    series = like(frame, values, name="r")
    assert (series.name, series.index.tolist()) == ("r", ["a", "b"])
    table = like(frame, np.eye(2), columns=["u", "v"])
    assert list(table) == ["u", "v"]
    assert table.index.tolist() == ["a", "b"]


def test_neither_scikit_learn_nor_pandas_is_loaded_before_it_is_needed():
    code = "import sys, lvqrej; print({'sklearn', 'pandas'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
