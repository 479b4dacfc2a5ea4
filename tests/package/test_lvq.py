"""GLVQ and GMLVQ: convergence, parameters, and what scikit-learn asks of a classifier."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn_lvq
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from lvqrej import PrototypeModel, RelativeSimilarity
from lvqrej.lvq import GLVQ, GMLVQ, PrototypeWarning

MODELS = [GLVQ, GMLVQ]


def standardized(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def wine():
    return standardized(load_wine)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(60, centers=[[0, 0, 0], [3, 0, 1], [0, 3, -1]], random_state=0)
    return X, y


def cost(X, y, P, labels, L, phi):
    """Return the mean of phi(mu) by its definition, minus the default penalty of a matrix."""
    D = np.sum(((X[:, None] - P) @ L.T) ** 2, axis=2)
    own = labels == y[:, None]
    plus, minus = np.where(own, D, np.inf).min(axis=1), np.where(own, np.inf, D).min(axis=1)
    value = np.mean([phi(mu) for mu in (plus - minus) / (plus + minus)])
    matrix = L @ L.T / np.trace(L @ L.T)
    return value - (0.0 if (np.eye(len(L)) == L).all() else 0.001 * np.linalg.slogdet(matrix)[1])


def logistic(t):
    return 1 / (1 + math.exp(-2 * t))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("squashing", ["logistic", "identity"])
def test_fitted_cost_is_its_definition_and_a_minimum(model, squashing, blobs):
    X, y = blobs
    fitted = model(squashing=squashing, prototypes_per_class=[1, 2, 1], random_state=0).fit(X, y)
    phi = logistic if squashing == "logistic" else float
    L = getattr(fitted, "omega_", np.eye(3))
    assert fitted.cost_ == pytest.approx(cost(X, y, fitted.w_, fitted.c_w_, L, phi), rel=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(30):
        moved = fitted.w_ + 1e-3 * rng.normal(size=fitted.w_.shape)
        assert cost(X, y, moved, fitted.c_w_, L, phi) > fitted.cost_ - 1e-7


def repaired(monkeypatch):
    """Let sklearn-lvq run on current NumPy and SciPy, otherwise as it is."""

    def flat_minimize(fun, x0, options, **arguments):
        options = {name: value for name, value in options.items() if name != "disp"}
        return minimize(fun, np.ravel(x0), options=options, **arguments)

    monkeypatch.setattr(np, "math", math, raising=False)
    monkeypatch.setattr("sklearn_lvq.glvq.minimize", flat_minimize)
    monkeypatch.setattr("sklearn_lvq.gmlvq.minimize", flat_minimize)


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_iris])
@pytest.mark.parametrize(("model", "theirs"), [(GLVQ, "GlvqModel"), (GMLVQ, "GmlvqModel")])
def test_cost_is_not_above_that_of_sklearn_lvq(load, model, theirs, monkeypatch):
    X, y = standardized(load)
    repaired(monkeypatch)
    starts = [np.append(X[y == label].mean(axis=0), label) for label in np.unique(y)]
    other = getattr(sklearn_lvq, theirs)(initial_prototypes=starts, random_state=0).fit(X, y)
    fitted = model().fit(X, y)
    L = getattr(other, "omega_", np.eye(X.shape[1]))
    assert fitted.cost_ <= cost(X, y, other.w_, other.c_w_, L, logistic) * (1 + 1e-9)
    assert fitted.score(X, y) >= other.score(X, y) - 0.01


@pytest.mark.parametrize("model", MODELS)
def test_check_estimator_but_for_the_class_order_of_sklearn_lvq(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's own checks warn
        results = check_estimator(
            model(),
            expected_failed_checks={"check_mixin_order": "sklearn-lvq lists BaseEstimator before its mixin"},
            on_fail=None,
        )
    status = {result["check_name"]: result["status"] for result in results}
    assert [name for name, found in status.items() if found == "failed"] == []
    assert status["check_mixin_order"] == "xfail"
    assert sum(result["status"] == "passed" for result in results) > 50


@pytest.mark.parametrize(("model", "theirs"), [(GLVQ, "GlvqModel"), (GMLVQ, "GmlvqModel")])
def test_is_the_estimator_of_sklearn_lvq_with_its_parameters(model, theirs):
    parent = getattr(sklearn_lvq, theirs)
    assert isinstance(model(), parent)
    assert set(parent().get_params()) <= set(model().get_params())
    assert is_classifier(model())


def test_matrix_model_keeps_all_parameters_through_clone():
    parameters = {"regularization": 0.2, "initialdim": 2, "beta": 1.5, "squashing": "identity", "gtol": 1e-4}
    assert parameters.items() <= clone(GMLVQ(**parameters)).get_params().items()


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.parametrize(("model", "least"), [(GLVQ, 0.92), (GMLVQ, 0.955)])
def test_defaults_are_accurate_and_converge(load, model, least):
    X, y = load(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), model())
    assert cross_val_score(pipeline, X, y, cv=5).mean() > least  # a ConvergenceWarning would be an error


def test_cross_validation_stratifies(wine):
    X, y = wine  # sorted by class: folds that are not stratified would miss a class
    default = cross_validate(GMLVQ(), X, y, cv=3, return_indices=True)["indices"]["test"]
    stratified = [test for _, test in StratifiedKFold(3).split(X, y)]
    assert all(np.array_equal(a, b) for a, b in zip(default, stratified, strict=True))


def test_grid_search_over_a_pipeline(wine):
    X, y = wine
    pipeline = make_pipeline(StandardScaler(), GMLVQ(random_state=0))
    grid = {"gmlvq__prototypes_per_class": [1, 2], "gmlvq__regularization": [0.0, 0.001]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.95
    assert search.predict(X[:3]).tolist() == y[:3].tolist()


@pytest.mark.parametrize("model", MODELS)
def test_same_seed_same_bits(model, wine):
    a, b = (model(prototypes_per_class=3, random_state=7).fit(*wine) for _ in range(2))
    np.testing.assert_array_equal(a.w_, b.w_)
    assert a.cost_ == b.cost_


def test_random_state_is_not_needed_for_one_prototype_per_class(wine):
    np.testing.assert_array_equal(GMLVQ().fit(*wine).w_, GMLVQ(random_state=5).fit(*wine).w_)


def test_rounding_errors_are_not_amplified(wine):
    X, y = wine
    noisy = X * (1 + 1e-14 * np.random.default_rng(0).normal(size=X.shape))
    a, b = GMLVQ().fit(X, y), GMLVQ().fit(noisy, y)
    np.testing.assert_allclose(a.w_, b.w_, atol=1e-6)
    np.testing.assert_allclose(a.omega_.T @ a.omega_, b.omega_.T @ b.omega_, atol=1e-6)


def test_matrix_model_does_not_depend_on_units():
    X, y = load_breast_cancer(return_X_y=True)
    units = np.logspace(-6, 6, X.shape[1])
    a, b = GMLVQ(regularization=0).fit(X, y), GMLVQ(regularization=0).fit(X * units + 1, y)
    assert a.n_iter_ < 100
    assert b.cost_ == pytest.approx(a.cost_, rel=1e-6)
    np.testing.assert_array_equal(a.predict(X), b.predict(X * units + 1))


@pytest.mark.parametrize("model", [GLVQ(), GMLVQ(regularization=0)])
def test_constant_feature_changes_nothing(model, blobs):
    X, y = blobs
    with_constant = clone(model).fit(np.column_stack([X, np.full(len(X), 0.1)]), y)
    # Not closer: the path differs, and where it meets the minimum's kinks.
    assert with_constant.cost_ == pytest.approx(clone(model).fit(X, y).cost_, rel=1e-4)
    np.testing.assert_allclose(with_constant.w_[:, -1], 0.1, rtol=1e-6)


def test_fewer_samples_than_features():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 20)), np.repeat([0, 1], 4)
    X[y == 1] += 1
    assert GMLVQ(regularization=0.01).fit(X, y).score(X, y) == 1


def test_trace_is_one_and_rank_is_limited(wine):
    X, y = wine
    for k in (1, 2, 5, 13):
        model = GMLVQ(initialdim=k).fit(X, y)
        assert model.omega_.shape == (k, 13)
        assert model.dim_ == k
        assert np.trace(model.omega_.T @ model.omega_) == pytest.approx(1)
    assert GMLVQ(initialdim=2).fit(X, y).score(X, y) == 1


def test_regularization_keeps_the_matrix_from_losing_rank(wine):
    X, y = wine
    spectra = [np.linalg.svd(GMLVQ(regularization=r).fit(X, y).omega_)[1] for r in (0.0, 0.001, 0.1)]
    smallest = [spectrum[-1] / spectrum[0] for spectrum in spectra]
    assert smallest[0] < smallest[1] < smallest[2]
    assert smallest[2] > 0.5


def test_weights_of_errors_move_the_boundary():
    X, y = make_blobs(200, centers=[[0, 0], [1.5, 0]], random_state=1)
    labels = np.where(y == 0, "sick", "well")
    plain = GLVQ().fit(X, labels)
    wary = GLVQ(c=[("sick", "well", 5.0)]).fit(X, labels)
    missed = [np.mean(model.predict(X[y == 0]) == "well") for model in (plain, wary)]
    assert missed[1] < missed[0]


def test_initial_prototypes_and_matrix_are_where_it_starts(blobs):
    X, y = blobs
    starts = [[0, 0, 0, 0], [3, 0, 1, 1], [0, 3, -1, 2], [0, 2, -1, 2]]
    L = [[2.0, 0, 0], [0, 1, 0]]
    model = GMLVQ(initial_prototypes=starts, initial_matrix=L, keep_history=True).fit(X, y)
    np.testing.assert_allclose(model.history_[0]["w"], np.array(starts)[:, :3], atol=1e-12)
    np.testing.assert_allclose(model.history_[0]["omega"], np.array(L) / np.sqrt(5), atol=1e-12)
    assert model.c_w_.tolist() == [0, 1, 2, 2]


def test_initial_prototypes_with_text_labels():
    X, y = [[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"]
    starts = np.array([[0.0, "a"], [5.0, "b"]], dtype=object)
    assert GLVQ(initial_prototypes=starts).fit(X, y).predict([[2.0]]).tolist() == ["a"]


@pytest.mark.parametrize("model", MODELS)
def test_history_goes_down_to_the_fitted_model(model, blobs):
    X, y = blobs
    fitted = model(keep_history=True, prototypes_per_class=2, random_state=0).fit(X, y)
    costs = [state["cost"] for state in fitted.history_]
    assert len(costs) == fitted.n_iter_ + 1
    assert np.all(np.diff(costs) <= 1e-15)
    np.testing.assert_array_equal(fitted.history_[-1]["w"], fitted.w_)
    assert ("omega" in fitted.history_[0]) == (model is GMLVQ)
    assert model().fit(X, y).history_ == []


def test_display_prints_the_cost_of_each_iteration(blobs, capsys):
    model = GLVQ(display=True).fit(*blobs)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_ + 1
    assert lines[-1] == f"iteration {model.n_iter_}: cost {model.cost_:.10g}"
    assert model.history_ == []


def test_convergence_warning_says_what_to_do(wine):
    with pytest.warns(ConvergenceWarning, match=r"GMLVQ did not converge in 3 iterations: increase max_iter"):
        model = GMLVQ(max_iter=3).fit(*wine)
    assert model.n_iter_ == 3


def test_plain_arrays_train_as_all_others_and_forget_names(wine):
    X, y = wine
    model = GLVQ().fit(pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]), y)
    named = model.w_
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    for data, labels in ((X.tolist(), y.tolist()), (np.asfortranarray(X), y), (X, y.astype(float))):
        np.testing.assert_array_equal(GLVQ().fit(data, labels).w_, named)
    np.testing.assert_array_equal(model.w_, named)


def test_text_labels_and_feature_names(wine):
    X, y = wine
    names = load_wine().feature_names
    labels = np.array(["barolo", "grignolino", "barbera"])[y]
    model = GMLVQ().fit(pd.DataFrame(X, columns=names), labels)
    assert model.classes_.tolist() == ["barbera", "barolo", "grignolino"]
    assert model.feature_names_in_.tolist() == names
    assert model.predict(pd.DataFrame(X, columns=names)).tolist() == labels.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=names[::-1]))


@pytest.mark.parametrize("model", MODELS)
def test_decision_function_agrees_with_predictions(model, wine):
    X, y = wine
    fitted = model(prototypes_per_class=2, random_state=0).fit(X, y)
    scores = fitted.decision_function(X)
    assert scores.shape == (len(X), 3)
    np.testing.assert_array_equal(scores.argmax(axis=1), fitted.predict(X))
    two = model().fit(X[y < 2], y[y < 2])
    np.testing.assert_array_equal(two.decision_function(X) > 0, two.predict(X) == 1)


def test_squashing_and_its_derivative():
    t = np.linspace(-1, 1, 5)
    model = GLVQ(beta=3)
    np.testing.assert_allclose(model.phi(t), 1 / (1 + np.exp(-3 * t)))
    finite = (model.phi(t + 1e-6) - model.phi(t - 1e-6)) / 2e-6
    np.testing.assert_allclose(model.phi_prime(t), finite, rtol=1e-6)
    assert GLVQ(squashing="identity").phi(0.3) == 0.3
    assert GLVQ(squashing="identity").phi_prime(t).tolist() == [1] * 5


def test_projection_keeps_distances_of_the_metric(wine, capsys):
    X, y = wine
    model = GMLVQ(initialdim=2).fit(X, y)
    projected = model.project(X, 2, print_variance_covered=True)
    assert capsys.readouterr().out == "variance covered by the projection: 100.00 %\n"
    expected = np.linalg.norm(model.omega_ @ (X[0] - X[1]))
    assert np.linalg.norm(projected[0] - projected[1]) == pytest.approx(expected)
    assert not model.project(X, 3)[:, 2].any()
    with pytest.raises(ValueError, match="dims must be at least 1 and at most 13"):
        model.project(X, 14)


X4, Y4 = [[0.0, 0], [1, 0], [5, 1], [6, 0]], [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_iter": 0}, "max_iter must be at least 1; found 0"),
        ({"max_iter": 2.5}, "max_iter must be an integer; found 2.5"),
        ({"gtol": 0}, "gtol must be above 0"),
        ({"beta": -1}, "beta must be above 0"),
        ({"squashing": "relu"}, "squashing must be one of 'logistic', 'identity'; found 'relu'"),
        ({"regularization": -0.1}, "regularization must be at least 0 and at most .*; found -0.1"),
        ({"regularization": "much"}, "regularization must be a number"),
        ({"prototypes_per_class": 0}, "prototypes_per_class must be at least 1; found 0"),
        ({"prototypes_per_class": [1]}, r"one entry per class \(2\); found 1"),
        ({"prototypes_per_class": 3}, "found 3 prototypes for the 2 samples of class"),
        ({"prototypes_per_class": "two"}, "prototypes_per_class must be an integer"),
        (
            {"initial_prototypes": [[0, 0]]},
            r"initial_prototypes must have shape \(m, 3\).*found shape \(1, 2\)",
        ),
        (
            {"initial_prototypes": [[0, 0, 0], [0, 0, 7]]},
            r"initial_prototypes must have labels.*found \[0, 7\]",
        ),
        ({"initial_prototypes": [[0, 0, 0]]}, "each at least once"),
        ({"initial_prototypes": [[0, np.nan, 0], [1, 1, 1]]}, "initial_prototypes must be finite"),
        ({"initialdim": 0}, "initialdim must be at least 1 and at most 2; found 0"),
        ({"initialdim": 3}, "initialdim must be at least 1 and at most 2; found 3"),
        ({"initial_matrix": [[1.0]]}, "initial_matrix must have 2 features; found 1"),
        ({"initial_matrix": np.zeros((2, 2))}, "initial_matrix must not be zero"),
        ({"initial_matrix": np.eye(2), "initialdim": 1}, "initialdim = 1 rows; found 2"),
        (
            {"initial_matrix": np.ones((2, 2)), "regularization": 0.1},
            "full rank unless regularization is 0; found rank 1 of 2",
        ),
        ({"c": [(0, 9, 1.0)]}, r"c must list \(label, label, weight\)"),
        ({"c": [(0, 1)]}, r"c must list \(label, label, weight\)"),
        ({"c": [(0, 1, -1)]}, "the weight in c must be above 0"),
        ({"c": [(0, 1, np.inf)]}, "the weight in c must be .* found inf"),
        ({"c": [(0, 1, "x")]}, "the weight in c must be a number; found 'x'"),
        ({"c": 5}, "c must be a list .* found 5"),
        ({"c": [5]}, r"c must list \(label, label, weight\)"),
        ({"c": [(0, 1, 1e308)], "squashing": "identity"}, "cost of the model must be a number; found"),
        ({"beta": np.inf}, "beta must be .* found inf"),
        ({"regularization": 1e300}, "regularization must be .* found 1e[+]300"),
        ({"prototypes_per_class": [[1], [1, 2]]}, "prototypes_per_class must be an integer"),
        ({"initial_prototypes": [[1], [1, 2]]}, "initial_prototypes must have shape"),
        ({"initial_prototypes": [[1e160, 0, 0], [1, 1, 1]]}, "the cost of the model must be a number"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GMLVQ(**parameters).fit(X4, Y4)


@pytest.mark.parametrize("model", MODELS)
def test_bad_data_is_named(model):
    with pytest.raises(ValueError, match="NaN"):
        model().fit([[0.0, np.nan], [1, 0]], [0, 1])
    with pytest.raises(ValueError, match="X must be finite; found inf at row 0, column 1"):
        model().fit([[0.0, np.inf], [1, 0]], [0, 1])
    with pytest.raises(ValueError, match="at least two classes; found one class"):
        model().fit(X4, [1, 1, 1, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model().fit(X4, [0, 1])
    with pytest.raises(ValueError, match=r"y must hold labels.*continuous"):
        model().fit(X4, [0.1, 0.2, 0.3, 0.4])
    with pytest.raises(ValueError, match="y must name a class for each sample; found none at row 2"):
        model().fit(X4, np.array([1, "a", None, 1], dtype=object))
    with pytest.raises(ValueError, match="y must name a class for each sample; found none at row 1"):
        model().fit(X4, ["a", np.nan, "b", "b"])
    with pytest.raises(ValueError, match="y must hold labels of one type; found int, str"):
        model().fit(X4, ["a", 1, "b", "b"])
    with pytest.raises(NotFittedError):
        model().predict(X4)
    with pytest.raises(NotFittedError):
        model().decision_function(X4)
    with pytest.raises(ValueError, match="3 features, but"):
        model().fit(X4, Y4).predict([[1, 2, 3]])


@pytest.mark.parametrize("model", MODELS)
def test_values_whose_squares_are_no_numbers_are_refused(model):
    with pytest.raises(ValueError, match="X must have values up to"):
        model().fit(np.array(X4) * 1e160, Y4)
    with pytest.raises(ValueError, match="X must be near enough"):
        model().fit(X4, Y4).decision_function([[1e300, 0]])
    for scale in (1e80, 1e-80):
        assert model().fit(np.array(X4) * scale, Y4).score(np.array(X4) * scale, Y4) == 1


@pytest.mark.parametrize("model", MODELS)
def test_data_without_any_difference_leave_the_classes_undecided(model):
    with pytest.warns(PrototypeWarning, match="a prototype of class 1 wins no training sample"):
        fitted = model(**({"regularization": 0} if model is GMLVQ else {})).fit(np.ones((6, 2)), [0, 1] * 3)
    assert fitted.cost_ == 0.5


# Rare classes, and what a matrix makes of dependent columns


@pytest.fixture(scope="module")
def rare():
    """Return a synthetic table with one sample in thirty of class "yes", overlapping the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.where(np.arange(1500) < 50, "yes", "no")
    X[y == "yes", 0] += 2.0
    return X, y


@pytest.mark.parametrize("model", MODELS)
def test_a_rare_class_keeps_its_prototype_near_the_data_and_is_named(model, rare):
    X, y = rare
    with pytest.warns(PrototypeWarning, match="a prototype of class 'yes' wins no training sample"):
        fitted = model().fit(X, y)
    assert np.abs(fitted.w_).max() < 2 * np.abs(X).max()
    assert (fitted.predict(X) == "no").all()


@pytest.mark.parametrize("model", MODELS)
def test_balanced_classes_count_the_same(model, rare):
    X, y = rare
    balanced = model(class_weight="balanced").fit(X, y)
    assert balanced_accuracy_score(y, balanced.predict(X)) > 0.78
    by_hand = model(class_weight={"yes": 29.0, "no": 1.0}).fit(X, y)
    assert by_hand.cost_ == pytest.approx(balanced.cost_, rel=1e-9)


def test_prototypes_outside_of_their_class_are_named():
    """Samples of b stand on both sides of a: the best single prototype of b is far from all of them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2)) * 0.1
    y = np.where(np.arange(400) < 380, "a", "b")
    X[y == "b", 1] += 0.25
    with pytest.warns(PrototypeWarning, match="class 'b' (wins no|lies outside)"):
        GLVQ().fit(X, y)


@pytest.mark.parametrize("weight", ["equal", {"yes": -1.0, "no": 1.0}, 3, [1, 2]])
def test_bad_class_weights_are_named(weight, rare):
    with pytest.raises(ValueError, match="class_weight must be"):
        GLVQ(class_weight=weight).fit(*rare)


def test_the_default_matrix_keeps_certainties_of_one_hot_columns_apart():
    """Adults of the Titanic by class and sex, who did not and who did survive (Dawson 1995).

    Without a penalty most certainties are 1 up to rounding.
    """
    counts = {(0, 0): (118, 57), (0, 1): (4, 140), (1, 0): (154, 14), (1, 1): (13, 80), (2, 0): (387, 75)}
    counts[2, 1] = (89, 76)
    rows = [(*group, y) for group, both in counts.items() for y in (0, 1) for _ in range(both[y])]
    level, sex, y = np.array(rows).T
    X = StandardScaler().fit_transform(np.column_stack([np.eye(3)[level], np.eye(2)[sex]]))
    saturated = [
        (RelativeSimilarity(PrototypeModel.of(model.fit(X, y))).certainty(X) > 1 - 1e-3).mean()
        for model in (GMLVQ(), GMLVQ(regularization=0))
    ]
    assert saturated == [0, 1]
