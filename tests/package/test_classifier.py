"""The scikit-learn face: thresholds from held-out certainties, labels, data frames, units, explanations."""

import copy
import pickle
import warnings
from functools import partial, partialmethod

import numpy as np
import pandas as pd
import pytest
import tqdm.std
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_wine, make_blobs
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_train, check_estimator

from lvqrej import (
    GLVQ,
    GMLVQ,
    DecisionDistance,
    NoCounterfactualError,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    explain,
    variants,
)
from lvqrej.cells import Cells
from lvqrej.certainty import Certainty

NAMES = ["relative-similarity", "decision-distance", "probabilistic"]


def pipeline(**options):
    return make_pipeline(StandardScaler(), GLVQ(random_state=0, **options))


@pytest.fixture(scope="module")
def wine():
    data = load_wine(as_frame=True)
    columns = ["alcohol", "flavanoids", "color_intensity", "proline"]
    y = pd.Series(data.target_names[data.target], name="cultivar", index=data.data.index + 1000)
    return data.data[columns].set_axis(y.index), y


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(150, centers=[[0, 0], [3, 0], [0, 3]], random_state=0)


@pytest.fixture(scope="module", params=NAMES)
def fitted(request, wine):
    X, y = wine
    threshold = ("reject_rate", 0.2)
    return RejectOptionClassifier(pipeline(), request.param, threshold, cv=3).fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"option": "probabilistic", "threshold": 0.0},
    ],
    ids=str,
)
def test_check_estimator(parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's own checks warn
        results = check_estimator(RejectOptionClassifier(**parameters), on_fail=None)
    failed = [
        (result["check_name"], result["exception"]) for result in results if result["status"] == "failed"
    ]
    assert failed == []
    assert sum(result["status"] == "passed" for result in results) > 50
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("option", ["decision-distance", "probabilistic"])
def test_the_one_check_that_a_reject_can_fail_is_the_one_the_docstring_names(option):
    with pytest.raises(AssertionError):
        check_classifiers_train("RejectOptionClassifier", RejectOptionClassifier(option=option))
    assert "`check_classifiers_train`" in RejectOptionClassifier.__doc__


# --- the methods ---


def test_what_is_rejected_is_less_certain_than_the_threshold(fitted, wine):
    X, y = wine
    certainty, rejected, labels = fitted.certainty(X), fitted.rejects(X), fitted.predict(X)
    np.testing.assert_array_equal(rejected, certainty < fitted.threshold_)
    np.testing.assert_array_equal(labels == fitted.reject_label_, rejected)
    np.testing.assert_array_equal(labels[~rejected], fitted.option_.predict(X)[~rejected.to_numpy()])
    assert 0 < rejected.mean() < 1
    assert fitted.coverage(X) == pytest.approx(1 - rejected.mean())
    assert fitted.score(X, y) == pytest.approx((labels == y)[~rejected].mean())


def test_score_with_weights_and_when_all_is_rejected(wine):
    X, y = wine
    classifier = RejectOptionClassifier(pipeline(), threshold=0.4).fit(X, y)
    kept = ~classifier.rejects(X)
    weights = np.arange(len(X)) % 3
    right = (classifier.predict(X) == y)[kept]
    assert classifier.score(X, y, weights) == pytest.approx(np.average(right, weights=weights[kept]))
    with pytest.warns(UndefinedMetricWarning, match="nothing is accepted: the score is 0"):
        assert RejectOptionClassifier(pipeline(), threshold=2).fit(X, y).score(X, y) == 0.0


def test_data_frames_in_data_frames_out(fitted, wine):
    X, _ = wine
    shuffled = X.sample(20, random_state=0)
    for method in ("predict", "certainty", "rejects"):
        result = getattr(fitted, method)(shuffled)
        assert isinstance(result, pd.Series)
        assert result.index.equals(shuffled.index)
    assert fitted.predict(shuffled).name == "cultivar"
    assert list(fitted.feature_names_in_) == list(X.columns)


def test_arrays_in_arrays_out(blobs):
    X, y = blobs
    classifier = RejectOptionClassifier(GLVQ(), threshold=0.5).fit(X, y)
    for method in ("predict", "certainty", "rejects"):
        assert type(getattr(classifier, method)(X)) is np.ndarray


def test_probabilities_only_where_they_exist(fitted, wine):
    X, _ = wine
    if fitted.option != "probabilistic":
        assert not hasattr(fitted, "predict_proba")
        return
    probabilities = fitted.predict_proba(X)
    assert list(probabilities.columns) == list(fitted.classes_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (fitted.option_.normalize, fitted.certainty(X).max() <= 1) == (False, True)


def test_works_inside_scikit_learn(blobs):
    X, y = blobs
    scores = cross_val_score(RejectOptionClassifier(GLVQ(), threshold=0.3), X, y, cv=3)
    assert (scores > 0.9).all()
    search = GridSearchCV(
        RejectOptionClassifier(pipeline(), threshold=0.3), {"estimator__glvq__prototypes_per_class": [1, 2]}
    ).fit(X, y)
    assert search.best_estimator_.option_.model.n_features == 2


def test_clone_copy_and_pickle(blobs):
    X, y = blobs
    classifier = RejectOptionClassifier(GLVQ(), partial(DecisionDistance, norm="euclidean"), 0.3).fit(X, y)
    assert not hasattr(clone(classifier), "option_")
    for again in (pickle.loads(pickle.dumps(classifier)), copy.deepcopy(classifier)):
        np.testing.assert_array_equal(again.predict(X), classifier.predict(X))
        assert str(again.explain(X[0])) == str(classifier.explain(X[0]))


def test_methods_need_fit():
    classifier = RejectOptionClassifier(option="probabilistic")
    for method in ("predict", "certainty", "rejects", "coverage", "explain", "explain_per_class", "cause"):
        with pytest.raises(NotFittedError):
            getattr(classifier, method)([[0.0, 1.0]])
    for method in ("predict_proba", "explain"):
        with pytest.raises(NotFittedError):
            getattr(classifier, method)([0.0, 1.0])
    with pytest.raises(NotFittedError):
        classifier.save("never.npz")


# --- explanations, in the units of the data ---


def test_every_explanation_is_valid_by_the_options_own_test(fitted, wine):
    X, _ = wine
    rejected = X[fitted.rejects(X)]
    result = fitted.explain(rejected)
    assert fitted.option_.accepts(result.counterfactuals, fitted.threshold_).all()
    frame = pd.DataFrame(result.counterfactuals, columns=X.columns, index=rejected.index)
    np.testing.assert_array_equal(fitted.predict(frame), result.labels)
    assert result.to_frame().index.equals(rejected.index)
    costs = np.abs(result.counterfactuals - rejected) / fitted.scale_
    np.testing.assert_allclose(costs.sum(axis=1), result.distances, rtol=1e-12)
    assert (result.gaps <= 1e-2).all()
    free = fitted.explain(rejected, bounds=None, grid=None, noise=0)
    assert (free.gaps <= (1.0001e-3 if fitted.option == "probabilistic" else 1e-9)).all()
    assert (free.distances <= result.distances).all()


def test_answers_are_values_that_the_training_data_could_have(fitted, wine):
    """Within the ranges, and with as many decimals as the columns have."""
    X, _ = wine
    rejected = X[fitted.rejects(X)]
    result = fitted.explain(rejected)
    Z = result.counterfactuals
    assert ((X.min().to_numpy() <= Z) & (X.max().to_numpy() >= Z)).all()
    for k, column in enumerate(X.columns):
        decimals = max(len(str(value).rstrip("0").partition(".")[2]) for value in X[column].unique())
        assert (np.round(Z[:, k], decimals) == Z[:, k]).all()
    assert "within the observed ranges" in str(result[0])
    assert "within the observed ranges" not in str(fitted.explain(rejected.iloc[0], bounds=None))


def test_a_sample_outside_of_the_ranges_may_stay_there(fitted, wine):
    X, _ = wine
    x = X[fitted.rejects(X)].iloc[0].copy()
    x[X.columns[0]] = X[X.columns[0]].max() + 1
    why = fitted.explain(x)
    lower, upper = why.box
    assert upper[0] == x.iloc[0]
    assert lower[0] == X[X.columns[0]].min()


def test_where_the_ranges_leave_no_answer_the_error_has_the_one_outside(wine):
    X, y = wine
    classifier = RejectOptionClassifier(pipeline(), "decision-distance", threshold=40.0).fit(X, y)
    x = X.iloc[0]
    free = classifier.explain(x, bounds=None)
    changed = [X.columns[k] for k in free.changed]
    with pytest.raises(NoCounterfactualError, match="with the observed ranges, no input reaches") as raised:
        classifier.explain(x)
    assert "one exists without the observed ranges of " in str(raised.value)
    assert f"accepted as {free.label} if {changed[0]} were" in str(raised.value)


def test_what_a_user_types_first(fitted, wine):
    X, _ = wine
    x = X[fitted.rejects(X)].iloc[0]
    names = list(X.columns)
    by_name = fitted.explain(x, how="sparsest")
    assert by_name.fewest == 1
    assert (by_name.counterfactual == fitted.explain(x, variants.sparsest).counterfactual).all()
    assert str(fitted.explain(x.to_dict())) == str(fitted.explain(x))
    framed = fitted.explain(x, bounds=X.agg(["min", "max"]))
    mapped = fitted.explain(x, bounds={name: (X[name].min(), X[name].max()) for name in names})
    assert (framed.counterfactual == mapped.counterfactual).all()
    dear = fitted.explain(x, weights={names[k]: 1e6 for k in fitted.explain(x).changed})
    assert not set(dear.changed) & set(fitted.explain(x).changed)
    whole = fitted.explain(x, integers=names, grid=None)
    assert (whole.counterfactual[whole.changed] % 1 == 0).all()
    with pytest.raises(ValueError, match=r"how must be one of 'explain', .*'sparsest'.*found 'sparse'"):
        fitted.explain(x, how="sparse")
    with pytest.raises(
        ValueError, match=r"X must have the features .*; missing: \['alcohol'\], unknown: \['Alcohol'\]$"
    ):
        fitted.explain(x.rename({"alcohol": "Alcohol"}).to_dict())
    with pytest.raises(ValueError, match=r"weights\['alcohol'\] must be at least 0; found -1"):
        fitted.explain(x, weights={"alcohol": -1})
    with pytest.raises(ValueError, match="bounds must be one of 'observed'; found 'all'"):
        fitted.explain(x, bounds="all")


def test_one_sample_as_series_array_or_list(fitted, wine):
    X, _ = wine
    x = X[fitted.rejects(X)].iloc[0]
    texts = {str(fitted.explain(form)) for form in (x, x.to_numpy(), x.tolist())}
    assert len(texts) == 1
    assert texts == {str(fitted.explain(x.to_frame().T)[0])}
    text = texts.pop()
    assert any(name in text for name in X.columns)


def test_names_of_one_sample_are_checked(fitted, wine):
    x = wine[0].iloc[0]
    with pytest.raises(ValueError, match=r"X must have the features \[.*\], in this order; found"):
        fitted.explain(x[::-1])
    with pytest.raises(ValueError, match="X must have 4 features; found 2"):
        fitted.explain([1.0, 2.0])


def test_requirements_in_the_units_of_the_data(fitted, wine):
    X, _ = wine
    rejected = X[fitted.rejects(X)]
    free = fitted.explain(rejected)
    fixed = fitted.explain(rejected, fixed=["proline"], on_infeasible="skip")
    found = fixed.found
    assert found.any()
    np.testing.assert_array_equal(fixed.counterfactuals[found, 3], rejected["proline"].to_numpy()[found])
    assert (fixed.distances >= free.lower_bounds).all()
    bounds = {"proline": (300, 1500), "alcohol": (11, 15)}
    bounded = fitted.explain(rejected, bounds=bounds, on_infeasible="skip")
    assert bounded.found.any()
    for name, (low, high) in bounds.items():
        values = bounded.counterfactuals[bounded.found, list(X.columns).index(name)]
        assert (values >= low).all()
        assert (values <= high).all()


def test_bounds_of_some_features_leave_the_others_their_observed_ranges(fitted, wine):
    """By hand: all ranges, widened to the sample, but the one that is named, which is kept as it is given."""
    X, _ = wine
    rejected = X[fitted.rejects(X)]
    narrow = (X["proline"].quantile(0.4), X["proline"].quantile(0.6))
    ours = fitted.explain(rejected, bounds={"proline": narrow}, on_infeasible="skip")
    assert ours.found.any()
    assert (fitted.explain(rejected).counterfactuals[:, 3] > narrow[1]).any()
    for row, (_, x) in enumerate(rejected.iterrows()):
        ranges = {name: (min(X[name].min(), x[name]), max(X[name].max(), x[name])) for name in X}
        by_hand = fitted.explain(x.to_frame().T, bounds=ranges | {"proline": narrow}, on_infeasible="skip")
        assert by_hand.found[0] == ours.found[row]
        if ours.found[row]:
            assert by_hand.distances[0] == pytest.approx(ours.distances[row])
            assert narrow[0] <= ours.counterfactuals[row, 3] <= narrow[1]
    assert "within the observed ranges" in str(ours[np.flatnonzero(ours.found)[0]])
    anything = dict.fromkeys(X.columns, (None, None))
    free = fitted.explain(rejected, bounds=anything)
    assert (free.counterfactuals == fitted.explain(rejected, bounds=None).counterfactuals).all()


def test_weights_of_the_user_replace_those_of_the_scalers(wine):
    X, y = wine
    classifier = RejectOptionClassifier(pipeline(), threshold=0.6).fit(X, y)
    x = X[classifier.rejects(X)].iloc[0]
    np.testing.assert_allclose(classifier.scale_, X.std(ddof=0))
    raw = classifier.explain(x, weights=np.ones(4))
    assert raw.distance == pytest.approx(np.abs(raw.delta).sum())
    default = classifier.explain(x, weights=None)
    assert default.distance == pytest.approx((np.abs(default.delta) / X.std(ddof=0)).sum())


def test_infeasible_says_why(wine):
    X, y = wine
    classifier = RejectOptionClassifier(pipeline(), threshold=0.9).fit(X, y)
    x = X[classifier.rejects(X)].iloc[0]
    with pytest.raises(NoCounterfactualError, match="with the observed ranges and fixed, no input reaches"):
        classifier.explain(x, fixed=list(X.columns))


def test_table_per_class(fitted, wine):
    X, _ = wine
    rejected = X[fitted.rejects(X)]
    table = fitted.explain_per_class(rejected.iloc[0])
    assert set(table.index) == set(fitted.classes_)
    assert table["distance"].is_monotonic_increasing
    assert table["distance"].iloc[0] == pytest.approx(fitted.explain(rejected.iloc[0]).distance, rel=1e-6)
    for label, row in table.iterrows():
        alone = fitted.explain(rejected.iloc[0], target=label)
        assert row["distance"] == alone.distance
        assert row["n_changed"] == len(alone.changed)
        assert row["changes"].count("→") == len(alone.changed)
    both = fitted.explain_per_class(rejected.iloc[:2])
    assert both.shape[0] == 2 * len(fitted.classes_)
    assert list(both.index.get_level_values("sample").unique()) == list(rejected.index[:2])
    blocked = fitted.explain_per_class(rejected.iloc[0].to_numpy(), fixed=list(X.columns))
    assert np.isinf(blocked["distance"]).all()
    assert blocked["changes"].str.contains("no input reaches").all()
    with pytest.raises(ValueError, match="target cannot be given"):
        fitted.explain_per_class(rejected, target="class_0")


def test_classes_come_in_the_order_of_what_they_cost_each_sample(fitted, wine):
    X, _ = wine
    table = fitted.explain_per_class(X[fitted.rejects(X)].iloc[:8])
    orders = set()
    for _, costs in table["distance"].groupby(level="sample", sort=False):
        assert costs.is_monotonic_increasing
        orders.add(tuple(costs.index.get_level_values("class")))
    assert len(orders) > 1


SCALERS = [StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, lambda: StandardScaler(with_mean=False)]


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    scaler=st.sampled_from(SCALERS),
    option=st.sampled_from([RelativeSimilarity, DecisionDistance]),
    log_units=st.lists(st.floats(-4, 4), min_size=3, max_size=3),
)
def test_scaled_and_original_units_give_the_same_answer(seed, scaler, option, log_units):
    rng = np.random.default_rng(seed)
    units = 10.0 ** np.array(log_units)
    X, y = rng.normal(size=(40, 3)) + np.repeat(np.eye(3)[:2] * 2, 20, axis=0), np.repeat([0, 1], 20)
    X = (X + rng.normal(size=3)) * units
    model = make_pipeline(scaler(), GMLVQ(prototypes_per_class=2, random_state=0, gtol=1e-3))
    probe = RejectOptionClassifier(model, option, threshold=0.0).fit(X, y)
    theta = float(np.quantile(probe.certainty(X), 0.4))
    classifier = clone(probe).set_params(threshold=theta).fit(X, y)
    rows = X[classifier.rejects(X)][:6]
    free = {"bounds": None, "grid": None, "noise": 0}
    raw = classifier.explain(rows, **free)

    trained = clone(model).fit(X, y)
    scaled = explain(option(PrototypeModel.of(trained[-1])), theta, trained[0].transform(rows), noise=0)
    np.testing.assert_allclose(raw.distances, scaled.distances, rtol=1e-7, atol=1e-9)
    back = trained[0].inverse_transform(scaled.counterfactuals)
    cost = np.abs(back - rows) / classifier.scale_
    np.testing.assert_allclose(cost.sum(axis=1), raw.distances, rtol=1e-7, atol=1e-9)
    # The answer itself, where it is unique: ties between features are decided by the last bit.
    same = np.isclose(back / units, raw.counterfactuals / units, rtol=1e-5, atol=1e-5).all(axis=1)
    assert same.mean() >= 0.5

    weights = rng.uniform(0.5, 2, size=3)
    weighed = classifier.explain(
        rows, weights=weights / classifier.scale_, fixed=[0], on_infeasible="skip", **free
    )
    expected = explain(
        option(PrototypeModel.of(trained[-1])), theta, trained[0].transform(rows), weights=weights, fixed=[0],
        noise=0, on_infeasible="skip",
    )  # fmt: skip
    np.testing.assert_array_equal(weighed.found, expected.found)
    np.testing.assert_allclose(weighed.distances, expected.distances, rtol=1e-7, atol=1e-9)


class FirstFeature(Certainty):
    """A certainty of one's own: the absolute value of the only feature, whose sign is the class."""

    name = "size"
    classes = np.array([0, 1])
    n_features = 1
    feature_names = None

    def certainty(self, X):
        return np.abs(np.asarray(X)[:, 0])

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)

    def cells(self, theta):
        return Cells.of([])


def test_a_certainty_of_ones_own_without_prototypes():
    X, y = np.array([[-3.0], [-1], [1], [0.5], [4]]), [0, 0, 1, 0, 1]
    classifier = RejectOptionClassifier(option=FirstFeature(), threshold="knee").fit(X, y)
    assert classifier.predict([[9.0], [0.1]]).tolist() == [1, -1]
    with pytest.raises(ValueError, match="option must rest on prototypes to tell a cause"):
        classifier.cause([0.1])


def test_an_empty_frame_gives_an_empty_result_everywhere(fitted, wine):
    X, _ = wine
    none = X.iloc[:0]
    for answer in (fitted.predict(none), fitted.certainty(none), fitted.rejects(none), fitted.cause(none)):
        assert len(answer) == 0
    result = fitted.explain(none)
    assert len(result) == 0
    assert list(result.to_frame().columns[-4:]) == list(X.columns)
    assert str(result) == "0 samples, 0 explained"
    assert len(fitted.explain_per_class(none)) == 0
    for how in ("sparsest", "robust"):
        assert len(fitted.explain(none, how=how)) == 0
    assert len(PrototypeModel.of(pipeline().fit(*wine)).predict(none)) == 0


def test_a_missing_value_is_named_by_row_and_column_with_advice_that_works(fitted, wine):
    X, _ = wine
    broken = X.copy()
    broken.iloc[3, 1] = broken.iloc[7, 2] = np.nan
    expected = "X must be finite; found NaN at row 3, column 'flavanoids' and in 1 other rows: leave such"
    for call in (fitted.predict, fitted.explain, fitted.certainty):
        with pytest.raises(ValueError, match=expected):
            call(broken)
    assert len(fitted.predict(broken.dropna())) == len(X) - 2
    assert len(fitted.predict(broken.fillna(X.median()))) == len(X)


def test_progress_moves_within_one_chunk(fitted, wine, capsys, monkeypatch):
    X, _ = wine
    monkeypatch.setattr("tqdm.std.tqdm.__init__", partialmethod(tqdm.std.tqdm.__init__, mininterval=0))
    fitted.explain(X, progress=True)
    assert capsys.readouterr().err.count("sample") > 3
