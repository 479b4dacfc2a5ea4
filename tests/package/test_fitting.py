"""What `fit` does: a certainty from training samples, a threshold from held-out ones, a label for rejects."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler

from lvqrej import (
    GLVQ,
    GMLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    accuracy_reject_curve,
)
from lvqrej.fitting import FewerFoldsWarning, label_of_reject, with_rejects
from lvqrej.thresholds import ThresholdWarning

#: Tables are taken as they are here, some not scaled, some without any structure.
pytestmark = pytest.mark.filterwarnings("ignore::lvqrej.lvq.PrototypeWarning")


def pipeline(**options):
    return make_pipeline(StandardScaler(), GLVQ(random_state=0, **options))


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(150, centers=[[0, 0], [3, 0], [0, 3]], random_state=0)


# --- thresholds ---


def held_out(option_of, X, y, cv, seed):
    """Certainty and correctness by models that have not seen the sample: the definition, fold by fold."""
    certainty, correct, final = np.empty(len(X)), np.empty(len(X), bool), option_of(X, y)
    for train, test in StratifiedKFold(cv, shuffle=True, random_state=seed).split(X, y):
        option = option_of(X[train], y[train])
        own, other = np.sort(option.certainty(X[train])), np.sort(final.certainty(X[train]))
        for i in test:
            r = option.certainty(X[[i]])[0]
            shift = min(r - own[0], 0) + max(r - own[-1], 0)
            certainty[i] = np.interp(r, own, other) + shift
        correct[test] = option.predict(X[test]) == y[test]
    unit = np.abs(certainty).max()
    return np.round(certainty / unit, 9) * unit, correct


def test_threshold_is_read_off_the_pooled_held_out_certainties(blobs):
    X, y = blobs
    option_of = lambda X, y: RelativeSimilarity(PrototypeModel.of(pipeline().fit(X, y)))  # noqa: E731
    curve = accuracy_reject_curve(*held_out(option_of, X, y, 4, 7))
    for rule, point in (
        ("knee", curve.knee()),
        (("reject_rate", 0.15), curve.at_reject_rate(0.15)),
        (("accuracy", 0.8), curve.at_accuracy(0.8)),
        (["costs", 5, 1], curve.at_costs(5, 1)),
    ):
        found = RejectOptionClassifier(pipeline(), threshold=rule, cv=4, random_state=7).fit(X, y)
        assert found.operating_point_ == point
        assert found.threshold_ == point.threshold
        np.testing.assert_array_equal(found.curve_.thresholds, curve.thresholds)


def test_decision_distances_of_the_folds_are_brought_to_one_scale(blobs):
    X, y = blobs
    option_of = lambda X, y: DecisionDistance(PrototypeModel.of(pipeline().fit(X, y)))  # noqa: E731
    curve = accuracy_reject_curve(*held_out(option_of, X, y, 3, 0))
    found = RejectOptionClassifier(pipeline(), "decision-distance", ("reject_rate", 0.2), cv=3).fit(X, y)
    np.testing.assert_allclose(found.curve_.thresholds, curve.thresholds, rtol=1e-12)
    assert abs(found.rejects(X).mean() - 0.2) < 0.05


def test_on_average_new_rows_are_rejected_at_the_rate_that_was_asked_for():
    """Sixty rows in six dimensions, where models of folds differ: 40 tables drawn from one distribution."""
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(40):
        X, y = rng.normal(size=(1060, 6)), np.arange(1060) % 2
        X[y == 1, 0] += 2
        classifier = RejectOptionClassifier(
            make_pipeline(StandardScaler(), GMLVQ()), "decision-distance", ("reject_rate", 0.2)
        ).fit(X[:60], y[:60])
        rates.append(classifier.rejects(X[60:]).mean())
    assert abs(np.mean(rates) - 0.2) < 3 * np.std(rates) / np.sqrt(40)


def test_a_number_is_the_threshold_and_needs_no_folds():
    X, y = [[0.0], [1.0], [5.0], [6.0]], ["a", "a", "b", "b"]
    classifier = RejectOptionClassifier(GLVQ(), threshold=0.5).fit(X, y)
    assert (classifier.threshold_, classifier.curve_, classifier.operating_point_) == (0.5, None, None)
    assert classifier.predict([[0.5], [3.0]]).tolist() == ["a", "reject"]


def test_an_accuracy_without_support_is_not_found_and_what_is_supported_is_said():
    """Forty samples, all right: 0.05 ** (1 / 40) = 0.928 is what they support."""
    option = RelativeSimilarity(PrototypeModel([[0.0], [6.0]], [0, 1]))
    X = np.concatenate([np.linspace(0, 2, 20), np.linspace(4, 6, 20)])[:, None]
    classifier = RejectOptionClassifier(option=option, threshold=("accuracy", 0.99))
    expected = r"no threshold has an accuracy of 0\.99 with 95 % confidence on 40 .* supported is 0\.928"
    with pytest.warns(ThresholdWarning, match=expected):
        classifier.fit(X, [0] * 20 + [1] * 20)
    assert not classifier.operating_point_.found
    assert classifier.coverage(X) == 1


def test_without_a_knee_five_per_cent_are_rejected_and_that_is_said():
    X, y = make_blobs(60, centers=[[0, 0], [50, 0]], random_state=0)
    expected = r"no knee \(there are no errors\): \('reject_rate', 0.05\) is used"
    with pytest.warns(ThresholdWarning, match=expected):
        classifier = RejectOptionClassifier().fit(X, y)
    assert not classifier.operating_point_.found
    assert classifier.operating_point_.reject_rate == 0.05


def test_certainties_that_cannot_tell_errors_are_named():
    option = RelativeSimilarity(PrototypeModel([[0.0], [6.0]], [0, 1]))
    X = np.linspace(0, 2.9, 40)[:, None]
    with pytest.warns(ThresholdWarning, match="errors are as certain as right answers"):
        RejectOptionClassifier(option=option, threshold=("reject_rate", 0.1)).fit(X, [1] * 10 + [0] * 30)


def test_saturated_certainties_are_named():
    option = RelativeSimilarity(PrototypeModel([[0.0], [1e6]], [0, 1]))
    X = np.concatenate([np.linspace(0, 2, 20), np.linspace(1e6, 1e6 + 2, 20)])[:, None]
    with pytest.warns(ThresholdWarning, match="half of the held-out certainties lie within 1e-06 of 1"):
        RejectOptionClassifier(option=option, threshold=("reject_rate", 0.1)).fit(X, [0] * 20 + [1] * 20)


def test_the_fitted_pipeline_is_the_one_that_refitting_gives():
    """Column by column in memory or row by row: sums differ in the last digit, training amplifies that."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    for frame in (X, pd.DataFrame(np.ascontiguousarray(X), columns=X.columns)):
        classifier = RejectOptionClassifier(pipeline(), threshold=0.5).fit(frame, y)
        refitted = PrototypeModel.of(pipeline().fit(frame, y))
        np.testing.assert_allclose(classifier.option_.model.prototypes, refitted.prototypes, rtol=1e-13)
        assert (classifier.estimator_.predict(X) == classifier.option_.predict(X)).all()
        assert list(classifier.estimator_.feature_names_in_) == list(X.columns)


def test_fewer_folds_than_asked_for_are_announced():
    X, y = np.arange(20.0)[:, None], [0] * 17 + [1] * 3
    with pytest.warns(FewerFoldsWarning, match=r"smallest class in y has 3 samples, too few for cv=5"):
        classifier = RejectOptionClassifier(GLVQ()).fit(X, y)
    assert classifier.curve_.n_samples == 20
    with pytest.warns(FewerFoldsWarning, match="use 3 and 2 folds"):
        RejectOptionClassifier(GLVQ(), "probabilistic", cv=4).fit(X, y)
    with pytest.raises(ValueError, match="y must hold at least 2 samples of each class"):
        RejectOptionClassifier(GLVQ()).fit(X, [0] * 19 + [1])
    with pytest.raises(ValueError, match="y must hold at least 3 samples of each class"):
        RejectOptionClassifier(GLVQ(), "probabilistic").fit(X, [0] * 18 + [1] * 2)


def test_same_seed_same_answer_other_seed_other_folds(blobs):
    X, y = blobs
    one, two, other = (RejectOptionClassifier(GLVQ(), random_state=s).fit(X, y) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.curve_.thresholds, two.curve_.thresholds)
    assert not np.array_equal(one.curve_.thresholds, other.curve_.thresholds)


def test_the_seed_reaches_every_part_that_draws(blobs):
    """With one prototype per class the default estimator draws nothing, but it is the user's to refit."""
    X, y = blobs
    fitted = RejectOptionClassifier(threshold=0.5, random_state=7).fit(X, y)
    assert fitted.estimator_.get_params()["gmlvq__random_state"] == 7
    folds = RejectOptionClassifier(option="probabilistic", threshold=0.5, random_state=7).fit(X, y)
    assert folds.option_.random_state == 7
    assert folds.option_.estimator.get_params()["gmlvq__random_state"] == 7
    other = RejectOptionClassifier(option="probabilistic", threshold=0.5, random_state=8).fit(X, y)
    assert (folds.option_.beta_ != other.option_.beta_).any()


# --- labels ---


@pytest.mark.parametrize(
    ("classes", "label", "dtype"),
    [
        (np.array([0, 1, 2]), -1, np.int64),
        (np.array([-1, 1], dtype=np.int8), -2, np.int8),
        (np.array([-128, -1], dtype=np.int8), 0, np.int8),
        (np.array([0, 3], dtype=np.uint8), 4, np.uint8),
        (np.array([0.5, 1.5])[:] * 2, -1.0, np.float64),
        (np.array([-1.0, 1.0], dtype=np.float32), -2.0, np.float32),
        (np.array(["a", "b"]), "reject", np.dtype("<U6")),
        (np.array(["a", "b"], dtype=object), "reject", object),
        (np.array([False, True]), "reject", object),
    ],
    ids=str,
)
def test_the_label_of_a_reject_fits_the_labels(classes, label, dtype):
    X = np.array([[0.0], [1.0], [8.0], [9.0]])
    y = classes[[0, 0, -1, -1]]
    predicted = RejectOptionClassifier(GLVQ(), threshold=0.5).fit(X, y).predict([[0.5], [4.5], [8.5]])
    assert predicted.dtype == dtype
    assert predicted.tolist() == [classes[0], label, classes[-1]]


def test_given_reject_labels():
    assert label_of_reject(np.array(["a", "b"]), "?") == "?"
    assert label_of_reject(np.array([0, 1]), 99) == 99
    assert label_of_reject(np.array([False, True]), None) == "reject"
    for classes, given_label, words in (
        (np.array([0, 1]), 1, "must not be a class"),
        (np.array(["a", "reject"]), None, "must not be a class"),
        (np.array([0, 1]), "reject", "must be one label of type int64"),
        (np.array([0, 1]), True, "must be one label of type int64"),
        (np.array([0, 1]), 0.5, "must be one label of type int64"),
        (np.array([0, 1], dtype=np.uint8), -1, "must be one label of type uint8"),
        (np.array([0.0, 1.0]), np.nan, "must be one label of type float64"),
        (np.array(["a", "b"]), 7, "must be one label of type str"),
        (np.array(["a", "b"], dtype=object), ["x"], "must be one label of type object"),
    ):
        with pytest.raises(ValueError, match=f"reject_label {words}"):
            label_of_reject(classes, given_label)


def test_short_text_is_widened_not_cut():
    assert with_rejects(np.array(["a"]), np.array([True]), "not sure").tolist() == ["not sure"]


# --- options as objects ---


def test_options_by_name_class_and_callable_are_the_same(blobs):
    X, y = blobs
    by_name, by_class, by_partial = (
        RejectOptionClassifier(GLVQ(), option, 0.2).fit(X, y)
        for option in ("decision-distance", DecisionDistance, partial(DecisionDistance, norm="metric"))
    )
    np.testing.assert_array_equal(by_name.certainty(X), by_class.certainty(X))
    np.testing.assert_array_equal(by_name.certainty(X), by_partial.certainty(X))


def test_probabilistic_object_is_a_template_and_stays_unfitted(blobs):
    X, y = blobs
    template = ProbabilisticCertainty(GLVQ(), cv=3, normalize=True, random_state=5)
    classifier = RejectOptionClassifier(option=template, threshold=0.6).fit(X, y)
    assert not hasattr(template, "models_")
    assert classifier.option_.normalize
    expected = ProbabilisticCertainty(GLVQ(), cv=3, normalize=True, random_state=5).fit(X, y)
    np.testing.assert_array_equal(classifier.certainty(X), expected.certainty(X))
    np.testing.assert_array_equal(classifier.predict_proba(X), expected.probabilities(X))
    by_class = RejectOptionClassifier(GLVQ(), ProbabilisticCertainty, 0.6).fit(X, y)
    assert not by_class.option_.normalize


def test_a_complete_certainty_only_gets_a_threshold(blobs):
    X, y = blobs
    option = RelativeSimilarity(PrototypeModel.of(GLVQ().fit(X[:75], y[:75])))
    classifier = RejectOptionClassifier(option=option, threshold=("reject_rate", 0.2)).fit(X[75:], y[75:])
    assert classifier.option_ is option
    curve = accuracy_reject_curve(option.certainty(X[75:]), option.predict(X[75:]) == y[75:])
    assert classifier.operating_point_ == curve.at_reject_rate(0.2)
    np.testing.assert_array_equal(classifier.classes_, option.classes)
    only_two = y[75:] != 2
    fewer = RejectOptionClassifier(option=option).fit(X[75:][only_two], y[75:][only_two])
    np.testing.assert_array_equal(fewer.classes_, [0, 1, 2])
    with pytest.raises(ValueError, match="y must name classes of the option"):
        RejectOptionClassifier(option=option).fit(X, y + 1)
    with pytest.raises(ValueError, match="X must have the option's 2 features; found 1"):
        RejectOptionClassifier(option=option).fit(X[:, :1], y)
    with pytest.raises(ValueError, match="estimator must be None if option has its model already"):
        RejectOptionClassifier(GLVQ(), option).fit(X, y)


# --- estimators ---


def test_scalers_in_a_row_and_nested_pipelines(blobs):
    X, y = blobs
    nothing = ("nothing", "passthrough")
    inner = Pipeline([nothing, ("range", MinMaxScaler()), ("none", None), ("lvq", GLVQ())])
    scalers = Pipeline([("spread", StandardScaler()), ("range", MinMaxScaler()), nothing])
    flat = make_pipeline(StandardScaler(), MinMaxScaler(), GLVQ())
    expected = RejectOptionClassifier(flat, threshold=0.3).fit(X, y)
    np.testing.assert_allclose(expected.scale_, np.ptp(X, axis=0))
    for nested in (
        Pipeline([("spread", StandardScaler()), ("rest", inner)]),
        Pipeline([("scalers", scalers), ("lvq", GLVQ())]),
    ):
        classifier = RejectOptionClassifier(nested, threshold=0.3).fit(X, y)
        np.testing.assert_array_equal(classifier.scale_, expected.scale_)
        np.testing.assert_array_equal(classifier.certainty(X), expected.certainty(X))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (PowerTransformer(), r"step 'powertransformer', a Power"),
        (MinMaxScaler(clip=True), r"must not clip; found step 'minmaxscaler'"),
    ],
)
def test_a_step_that_is_not_affine_is_named_before_any_training(step, words):
    with pytest.raises(ValueError, match=f"estimator must be what can be folded into its model.*{words}"):
        RejectOptionClassifier(make_pipeline(step, GLVQ())).fit([[0.0], [1.0]], [0, 1])


def test_estimator_without_prototypes():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="estimator must be what PrototypeModel"):
        RejectOptionClassifier(LogisticRegression(max_iter=1000), threshold=0.1).fit(X, y)
    with pytest.raises(ValueError, match="option must make a certainty of a PrototypeModel"):
        RejectOptionClassifier(GLVQ(), lambda model: model, threshold=0.1).fit(X, y)
    with pytest.raises(ValueError, match="estimator must be None if option has an estimator itself"):
        RejectOptionClassifier(GLVQ(), ProbabilisticCertainty(GLVQ())).fit(X, y)
