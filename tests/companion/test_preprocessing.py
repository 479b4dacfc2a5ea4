"""Nothing of a test part reaches the training part; filling, scaling and balancing do what they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from companion.datasets import flip_synthetic, t21_synthetic
from companion.preprocessing import MeanFiller, balanced_training_part, filling_and_scaling, prepared_fold


def folds(data):
    return StratifiedKFold(5, shuffle=True, random_state=0).split(data.X, data.y)


@pytest.fixture(scope="module")
def flip():
    return flip_synthetic()


@pytest.mark.parametrize("how", [None, "smote", "undersample"])
@pytest.mark.parametrize("scale", [True, False])
def test_no_leak_from_the_test_part(flip, how, scale):
    X, y = flip.X.to_numpy(), flip.y
    rng = np.random.default_rng(0)
    for train, test in folds(flip):
        before = prepared_fold(X, y, train, test, scale=scale, how=how)
        changed, labels = X.copy(), y.copy()
        changed[test] = 1e6 * rng.normal(size=(len(test), 12))
        labels[test] = 1 - labels[test]
        after = prepared_fold(changed, labels, train, test, scale=scale, how=how)
        assert np.array_equal(before.X_train, after.X_train)
        assert np.array_equal(before.y_train, after.y_train)
        assert np.array_equal(before.steps.transform(X), after.steps.transform(X), equal_nan=True)
        # Each test row is transformed by itself: its neighbours do not matter either.
        alone = prepared_fold(X, y, train, test[:1], scale=scale, how=how)
        assert np.array_equal(alone.X_test, before.X_test[:1])


def test_a_changed_training_row_does_change_it(flip):
    X = flip.X.to_numpy()
    train, test = next(folds(flip))
    changed = X.copy()
    changed[train[0]] += 1
    before, after = prepared_fold(X, flip.y, train, test), prepared_fold(changed, flip.y, train, test)
    assert not np.array_equal(before.X_test, after.X_test)


def test_filled_by_training_means_and_scaled(flip):
    X = flip.X.to_numpy()
    train, test = next(folds(flip))
    fold = prepared_fold(X, flip.y, train, test, how=None)
    means = np.nanmean(X[train], axis=0)
    filled = np.where(np.isnan(X), means, X)
    spread = filled[train].std(axis=0)
    assert np.allclose(fold.X_train, (filled[train] - means) / spread)
    assert np.allclose(fold.X_test, (filled[test] - means) / spread)
    assert np.array_equal(fold.y_train, flip.y[train])
    assert np.array_equal(fold.y_test, flip.y[test])
    unscaled = prepared_fold(flip.X, flip.y, train, test, scale=False)
    assert np.allclose(unscaled.X_test, filled[test])


def test_answers_go_back_to_original_units(flip):
    train, test = next(folds(flip))
    fold = prepared_fold(flip.X, flip.y, train, test)
    original = fold.steps[-1].inverse_transform(fold.X_test)
    known = flip.X.iloc[test].notna().to_numpy()
    assert np.allclose(original[known], flip.X.iloc[test].to_numpy()[known])


def test_smote_only_adds_between_samples_of_the_smaller_class(flip):
    train, test = next(folds(flip))
    plain = prepared_fold(flip.X, flip.y, train, test)
    fold = prepared_fold(flip.X, flip.y, train, test, how="smote")
    assert np.bincount(fold.y_train).tolist() == [92, 92]
    assert np.array_equal(fold.X_train[: len(train)], plain.X_train)
    assert np.array_equal(fold.X_test, plain.X_test)
    added, small = fold.X_train[len(train) :], plain.X_train[plain.y_train == 1]
    assert (fold.y_train[len(train) :] == 1).all()
    # On a segment between two samples: the two distances add up to the distance of the two.
    ends = np.linalg.norm(small[:, None] - small, axis=2)
    for x in added:
        distance = np.linalg.norm(small - x, axis=1)
        assert np.abs(distance[:, None] + distance - ends).min() < 1e-9


def test_undersampling_keeps_all_of_the_smaller_class_and_rows_as_they_are():
    data = t21_synthetic(5000)
    train, test = next(folds(data))
    fold = prepared_fold(data.X, data.y, train, test, how="undersample")
    assert np.bincount(fold.y_train).tolist() == [32, 32]
    assert np.bincount(fold.y_test).tolist() == [992, 8]
    whole = {row.tobytes() for row in fold.steps.transform(data.X.to_numpy()[train])}
    assert {row.tobytes() for row in fold.X_train} <= whole
    # Scaling was learned before balancing, from the whole training part.
    assert np.allclose(fold.steps[-1].mean_, data.X.to_numpy()[train].mean(axis=0))


@pytest.mark.parametrize("how", ["smote", "undersample"])
def test_a_seed_repeats_and_another_differs(how):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) < 15
    first, again, other = (balanced_training_part(X, y, how, seed) for seed in (1, 1, 2))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[0], other[0])


@settings(max_examples=30)
@given(
    counts=st.lists(st.integers(6, 25), min_size=2, max_size=4),
    how=st.sampled_from(["smote", "undersample"]),
    seed=st.integers(0, 5),
)
def test_classes_are_balanced(counts, how, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([f"class {c}" for c in range(len(counts))], counts))
    X = rng.normal(size=(len(y), 2))
    X_new, y_new = balanced_training_part(X, y, how, seed)
    size = max(counts) if how == "smote" else min(counts)
    assert np.unique(y_new, return_counts=True)[1].tolist() == [size] * len(counts)
    assert X_new.shape == (size * len(counts), 2)
    assert np.isfinite(X_new).all()


def test_without_balancing_the_part_is_as_it_was():
    X, y = balanced_training_part([[1.0], [2.0], [3.0]], ["a", "a", "b"])
    assert X.tolist() == [[1.0], [2.0], [3.0]]
    assert y.tolist() == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("X", "y", "arguments", "message"),
    [
        ([[1.0], [2.0]], [0, 1], {"how": "oversample"}, "how must be one of 'smote', 'undersample'"),
        ([[1.0], [np.nan]], [0, 1], {"how": "smote"}, "X must be finite"),
        ([[1.0], [2.0]], [0], {}, r"y must have shape \(2,\); found \(1,\)"),
        ([[1.0], [2.0]], [0, 0], {"how": "undersample"}, "at least two classes to balance; found"),
        ([[float(i)] for i in range(15)], [0] * 10 + [1] * 5, {"how": "smote"}, "6 samples.*found 5 of 1"),
        ([[1.0], [2.0]], [0, 1], {"random_state": None}, "random_state must be an integer"),
        ([[1.0], [2.0]], [0, 1], {"random_state": -1}, "random_state must be at least 0"),
    ],
)
def test_bad_input(X, y, arguments, message):
    with pytest.raises(ValueError, match=message):
        balanced_training_part(X, y, **arguments)


def test_a_row_in_both_parts_is_refused():
    with pytest.raises(ValueError, match="no row in common; found row 1 in both"):
        prepared_fold([[1.0], [2.0]], [0, 1], [0, 1], [1])


def test_a_feature_without_any_value_has_no_mean():
    X = [[1.0, np.nan], [2.0, np.nan], [3.0, 4.0]]
    with pytest.raises(
        ValueError, match="value of each feature in the training part; found none in column 1"
    ):
        prepared_fold(X, [0, 1, 1], [0, 1], [2])
    with pytest.raises(ValueError, match="column 1"):
        MeanFiller().fit_transform(X[:2])


def test_the_steps_are_ordinary_estimators():
    steps = clone(filling_and_scaling())
    assert [type(step).__name__ for step in steps] == ["MeanFiller", "StandardScaler"]
    assert len(filling_and_scaling(scale=False)) == 1
