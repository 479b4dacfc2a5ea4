"""Bad input over the whole public surface: every error is this package's own and names the argument.

No error may come from deep inside NumPy, SciPy or a solver. scikit-learn's input checks, which it asks of all
estimators, count as this package's own; their messages name X or y, too.
"""

import re
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, PowerTransformer

import lvqrej
from lvqrej import (
    GLVQ,
    GMLVQ,
    DecisionDistance,
    NoCounterfactualError,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    accuracy_reject_curve,
    explain,
    explain_per_class,
    mad_weights,
)
from lvqrej.certainty import LocalThresholds
from lvqrej.classifier import RejectOptionClassifier
from lvqrej.comparison import compare_options
from lvqrej.guarantees import at_risk
from lvqrej.thresholds import confusion, local_curve

PACKAGE = str(Path(lvqrej.__file__).parent)
CHECKS = ("sklearn/utils/validation.py", "sklearn/utils/multiclass.py")
NAN, INF = float("nan"), float("inf")

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(12, 2)), RNG.normal(size=(12, 2)) + 3])
Y = np.repeat(["a", "b"], 12)
FRAME = pd.DataFrame(X, columns=["size", "age"])
MODEL = PrototypeModel([[0, 0], [3, 3]], ["a", "b"], feature_names=["size", "age"])
OPTION = RelativeSimilarity(MODEL)
CURVE = accuracy_reject_curve([0.1, 0.5, 0.9], [False, True, True])
CLASSIFIER = RejectOptionClassifier(GLVQ(), threshold=0.5).fit(FRAME, Y)
LIKELY = RejectOptionClassifier(GLVQ(), "probabilistic", threshold=0.5).fit(X, Y)
WHY = explain(OPTION, 0.9, [1.4, 1.5])


def own(error):
    """Return whether an exception was raised by this package or by scikit-learn's checks on its behalf."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    while files and files[-1].endswith(CHECKS):
        files.pop()
    return files[-1].startswith(PACKAGE) or (isinstance(error, TypeError) and "argument" in str(error))


def outcome(call):
    """Return what a call returns and the error it raises, one of them None."""
    try:
        return call(), None
    except (ValueError, TypeError) as error:
        return None, error


def assert_clear(call, *names, case=""):
    """Assert that a call fails with a clear error that names one of the arguments."""
    _, error = outcome(call)
    assert error is not None, f"{names}: {case!r} is taken"
    assert own(error), [case, *traceback.format_exception(error)]
    assert any(re.search(rf"(^|\W){re.escape(name)}(\W|$)", str(error)) for name in names), (case, error)
    assert len(str(error)) < 700


def by_name(cases):
    """Return the values of each argument."""
    return {name: [value for other, value in cases if other == name] for name, _ in cases}


#: Samples that are none, in the two features of the models above.
BAD_X = {
    "text": "abc",
    "None": None,
    "number": 3.0,
    "words": [["a", "b"]],
    "NaN": [[1.0, NAN]],
    "infinite": [[1.0, INF]],
    "huge": [[1e308, -1e308]],
    "complex": [[1j, 2.0]],
    "ragged": [[1.0, 2.0], [3.0]],
    "cube": np.zeros((2, 2, 2)),
    "too few features": [[1.0]],
    "too many features": [[1.0, 2.0, 3.0]],
    "no features": np.zeros((3, 0)),
    "object": object(),
    "dict": {"a": 1},
    "None inside": [[None, 1.0]],
    "missing": [[pd.NA, 1.0]],
    "dates": pd.DataFrame({"size": pd.to_datetime(["2022-01-01"]), "age": [1.0]}),
    "texts in a frame": pd.DataFrame({"size": ["small"], "age": [1.0]}),
}
TAKERS = {
    "distances": MODEL.distances,
    "model.predict": MODEL.predict,
    "certainty": OPTION.certainty,
    "decision certainty": DecisionDistance(MODEL).certainty,
    "option.predict": OPTION.predict,
    "accepts": lambda X: OPTION.accepts(X, 0.5),
    "probabilities": LIKELY.option_.probabilities,
    "explain": lambda X: explain(OPTION, 0.5, X),
    "explain_per_class": lambda X: explain_per_class(OPTION, 0.5, X),
    "predict": CLASSIFIER.predict,
    "classifier.certainty": CLASSIFIER.certainty,
    "rejects": CLASSIFIER.rejects,
    "coverage": CLASSIFIER.coverage,
    "score": lambda X: CLASSIFIER.score(X, ["a"]),
    "predict_proba": LIKELY.predict_proba,
    "classifier.explain": CLASSIFIER.explain,
    "classifier.explain_per_class": CLASSIFIER.explain_per_class,
    "cause": CLASSIFIER.cause,
}


#: One for each way in which samples are checked meets all that is bad; for the others a few will do.
DOORS = ("distances", "probabilities", "explain", "predict", "classifier.explain")
FEW = ("text", "NaN", "too many features")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("taker", TAKERS)
def test_bad_samples(taker):
    for what in BAD_X if taker in DOORS else FEW:
        assert_clear(lambda what=what: TAKERS[taker](BAD_X[what]), "X", case=what)


MODELS = {
    "GLVQ": GLVQ(),
    "GMLVQ": GMLVQ(),
    "classifier": RejectOptionClassifier(GLVQ()),
    "probabilistic": ProbabilisticCertainty(GLVQ()),
}


@pytest.mark.parametrize("model", MODELS)
def test_bad_training_samples(model):
    for what in BAD_X.keys() - {"too few features", "too many features", "huge"}:
        n = len(BAD_X[what]) if isinstance(BAD_X[what], (list, np.ndarray, pd.DataFrame)) else 2
        y = (["a", "b"] * n)[:n]
        assert_clear(lambda what=what, y=y: MODELS[model].fit(BAD_X[what], y), "X", "y", case=what)


BAD_Y = {
    "None": None,
    "text": "abc",
    "too few": ["a", "b"],
    "one class": ["a"] * 24,
    "NaN": [0.0, 1.0] * 11 + [NAN, 1.0],
    "None inside": ["a", "b"] * 11 + [None, "b"],
    "of two types": ["a", 1] * 12,
    "numbers that are no labels": np.linspace(0, 1, 24),
    "matrix": np.zeros((24, 2)),
}


@pytest.mark.parametrize("model", ["classifier", "probabilistic"])
def test_bad_labels(model):
    for what in BAD_Y:
        assert_clear(lambda what=what: MODELS[model].fit(X, BAD_Y[what]), "y", case=what)


PARAMETERS = [
    ("estimator", "GLVQ"),
    ("estimator", GLVQ),
    ("estimator", 3),
    ("estimator", make_pipeline(PowerTransformer(), GLVQ())),
    ("estimator", PCA()),
    ("estimator", make_pipeline("passthrough", "passthrough")),
    ("estimator", make_pipeline(make_pipeline("passthrough", PolynomialFeatures()), GLVQ())),
    ("estimator", GLVQ(prototypes_per_class=-1)),
    ("option", "similarity"),
    ("option", None),
    ("option", 0.5),
    ("option", ["relative-similarity"]),
    ("option", lambda model: 3),
    ("threshold", "elbow"),
    ("threshold", None),
    ("threshold", NAN),
    ("threshold", INF),
    ("threshold", True),
    ("threshold", "0.5"),
    ("threshold", b"knee"),
    ("threshold", 1j),
    ("threshold", ()),
    ("threshold", ("reject_rate",)),
    ("threshold", ("reject_rate", 1.5)),
    ("threshold", ("reject_rate", "0.1")),
    ("threshold", ("accuracy", NAN)),
    ("threshold", ("accuracy", -0.1)),
    ("threshold", ("costs", 1)),
    ("threshold", ("costs", 1, INF)),
    ("threshold", ("costs", -1, 1)),
    ("threshold", ("rate", 0.1)),
    ("threshold", (0.1, "reject_rate")),
    ("threshold", {"reject_rate": 0.1}),
    ("threshold", np.array([0.1, 0.2])),
    ("threshold", ("risk", 0.1)),
    ("threshold", ("risk", NAN, 0.9)),
    ("threshold", ("conformal", 2)),
    ("local", 1),
    ("cv", 1),
    ("cv", 2.5),
    ("cv", "5"),
    ("cv", None),
    ("cv", True),
    ("reject_label", "a"),
    ("reject_label", 1),
    ("reject_label", ["x"]),
    ("random_state", -1),
    ("random_state", None),
    ("random_state", 2**33),
    ("random_state", "0"),
]


@pytest.mark.parametrize("name", by_name(PARAMETERS))
def test_bad_parameters_of_the_classifier(name):
    for value in by_name(PARAMETERS)[name]:
        classifier = RejectOptionClassifier(**{"estimator": GLVQ(), name: value})
        named = "prototypes_per_class" if isinstance(value, GLVQ) else name
        assert_clear(lambda classifier=classifier: classifier.fit(X, np.array(Y)), named, case=value)


OPTIONS_OF_EXPLAIN = [
    ("weights", [1.0]),
    ("weights", [1.0, 0.0]),
    ("weights", [1.0, -1.0]),
    ("weights", [1.0, NAN]),
    ("weights", [1.0, INF]),
    ("weights", "heavy"),
    ("weights", {"size": 1, "height": 2}),
    ("weights", [[1.0, 1.0]]),
    ("weights", 1.0),
    ("weights", [1j, 1]),
    ("fixed", "size"),
    ("fixed", ["weight"]),
    ("fixed", [2]),
    ("fixed", [-1]),
    ("fixed", [0.5]),
    ("fixed", [True]),
    ("fixed", 0),
    ("fixed", None),
    ("fixed", [None]),
    ("fixed", [[0]]),
    ("increase_only", ["weight"]),
    ("increase_only", 1),
    ("decrease_only", ["weight"]),
    ("decrease_only", "age"),
    ("bounds", [(0, 1)]),
    ("bounds", {"weight": (0, 1)}),
    ("bounds", {"size": (1, 0)}),
    ("bounds", {"size": 1}),
    ("bounds", {"size": (1,)}),
    ("bounds", {"size": (0, 1, 2)}),
    ("bounds", {"size": (NAN, 1)}),
    ("bounds", {"size": ("low", "high")}),
    ("bounds", {"size": (INF, INF)}),
    ("bounds", {"size": (0, 1j)}),
    ("bounds", {"size": (0, [1])}),
    ("bounds", {"size": "01"}),
    ("bounds", {9: (0, 1)}),
    ("bounds", {(0, 1): (0, 1)}),
    ("bounds", "size"),
    ("constraints", "A x <= b"),
    ("constraints", ([[1, 2]],)),
    ("constraints", ([[1, 2, 3]], [1])),
    ("constraints", ([[1, 2]], [1, 2])),
    ("constraints", ([[0, 0]], [1])),
    ("constraints", ([[1, NAN]], [1])),
    ("constraints", ([[1, 2]], [INF])),
    ("constraints", ([1, 2], 1)),
    ("constraints", ([[1, 2]], "b")),
    ("target", "c"),
    ("target", 0),
    ("target", ["a"]),
    ("target", np.array(["a", "b"])),
    ("target", NAN),
    ("on_infeasible", "ignore"),
    ("on_infeasible", None),
    ("n_jobs", 0),
    ("n_jobs", 1.5),
    ("n_jobs", "all"),
    ("weighs", [1, 1]),
]


@pytest.mark.parametrize("name", by_name(OPTIONS_OF_EXPLAIN))
def test_bad_options_of_explain(name):
    for value in by_name(OPTIONS_OF_EXPLAIN)[name]:
        for call in (partial(explain, OPTION, 0.5, [[1.4, 1.5]]), partial(CLASSIFIER.explain, FRAME)):
            assert_clear(partial(call, **{name: value}), name, case=value)


@pytest.mark.parametrize("theta", [NAN, INF, "0.5", None, True, 1j, [0.5]], ids=str)
def test_bad_theta(theta):
    for call in (
        lambda: OPTION.accepts([[0, 0]], theta),
        lambda: OPTION.cells(theta),
        lambda: DecisionDistance(MODEL).cells(theta),
        lambda: LIKELY.option_.accepts([[0, 0]], theta),
        lambda: explain(OPTION, theta, [[1.4, 1.5]]),
        lambda: explain_per_class(OPTION, theta, [[1.4, 1.5]]),
    ):
        assert_clear(call, "theta")


CALLS = {
    "prototypes": lambda: PrototypeModel([[NAN, 0], [1, 1]], ["a", "b"]),
    "prototypes ": lambda: PrototypeModel("abc", ["a", "b"]),
    "labels": lambda: PrototypeModel([[0, 0], [1, 1]], ["a"]),
    "labels ": lambda: PrototypeModel([[0, 0], [1, 1]], ["a", "a"]),
    "L": lambda: PrototypeModel([[0, 0], [1, 1]], ["a", "b"], [[1.0]]),
    "feature_names": lambda: PrototypeModel([[0, 0], [1, 1]], ["a", "b"], feature_names=["x"]),
    "x": lambda: PrototypeModel.of("model"),
    "x ": lambda: PrototypeModel.of(PCA().fit(X)),
    "x  ": lambda: PrototypeModel.of(make_pipeline("passthrough", "passthrough").fit(X)),
    "model": lambda: RelativeSimilarity(GLVQ()),
    "model ": lambda: DecisionDistance([[0, 0]]),
    "norm": lambda: DecisionDistance(MODEL, norm="l2"),
    "estimator": lambda: ProbabilisticCertainty("GLVQ"),
    "normalize": lambda: ProbabilisticCertainty(normalize="yes"),
    "cv": lambda: ProbabilisticCertainty(cv=1),
    "random_state": lambda: ProbabilisticCertainty(random_state=-1),
    "certainty": lambda: accuracy_reject_curve(["a"], [True]),
    "certainty ": lambda: accuracy_reject_curve([NAN], [True]),
    "certainty  ": lambda: accuracy_reject_curve([], []),
    "correct": lambda: accuracy_reject_curve([0.5], ["yes"]),
    "correct ": lambda: accuracy_reject_curve([0.5], [True, False]),
    "sensitivity": lambda: CURVE.knee(0),
    "rate": lambda: CURVE.at_reject_rate(2),
    "accuracy": lambda: CURVE.at_accuracy("all"),
    "error": lambda: CURVE.at_costs(-1, 1),
    "reject": lambda: CURVE.at_costs(1, NAN),
    "share": lambda: CURVE.at_conformal(-1),
    "confidence": lambda: CURVE.score_intervals(2),
    "draws": lambda: CURVE.score_intervals(draws=0),
    "seed": lambda: CURVE.score_intervals(seed=-1),
    "kind": lambda: CURVE.plot("pie"),
    "nearest": lambda: local_curve([0.5], [True], [1], 1),
    "m": lambda: local_curve([0.5], [True], [0], 0),
    "risk": lambda: at_risk(CURVE, [0.5], [True], 0),
    "groups": lambda: at_risk(CURVE, [0.5], [True], groups=[1, 2]),
    "predicted": lambda: confusion([1], [1, 2], -1),
    "estimators": lambda: compare_options(FRAME, Y, estimators=[GLVQ()]),
    "thresholds": lambda: LocalThresholds(OPTION, [NAN, 0]),
    "option": lambda: explain("relative-similarity", 0.5, [[0, 0]]),
    "option ": lambda: explain_per_class(MODEL, 0.5, [[0, 0]]),
    "target": lambda: explain_per_class(OPTION, 0.5, [[0, 0]], target="a"),
    "on_infeasible": lambda: explain_per_class(OPTION, 0.5, [[0, 0]], on_infeasible="skip"),
    "X": lambda: mad_weights([[1, 2], [1, 2]]),
    "X ": lambda: mad_weights("abc"),
    "level": lambda: CLASSIFIER.cause(FRAME, level=2),
    "units": lambda: WHY.plot(units=3),
    "most": lambda: WHY.plot(most=NAN),
    "y": lambda: CLASSIFIER.score(FRAME, Y[:3]),
    "sample_weight": lambda: CLASSIFIER.score(FRAME, Y, [1.0]),
    "sample_weight ": lambda: CLASSIFIER.score(FRAME, Y, "heavy"),
    "path": lambda: RejectOptionClassifier.load(3),
    "path ": lambda: CLASSIFIER.save(None),
    "max_iter": lambda: GLVQ(max_iter=0).fit(X, Y),
    "gtol": lambda: GMLVQ(gtol=NAN).fit(X, Y),
    "beta": lambda: GLVQ(beta="steep").fit(X, Y),
    "squashing": lambda: GLVQ(squashing="tanh").fit(X, Y),
    "prototypes_per_class": lambda: GLVQ(prototypes_per_class=0).fit(X, Y),
    "initial_prototypes": lambda: GLVQ(initial_prototypes=[[0, 0]]).fit(X, Y),
    "regularization": lambda: GMLVQ(regularization=-1).fit(X, Y),
    "initialdim": lambda: GMLVQ(initialdim=7).fit(X, Y),
    "initial_matrix": lambda: GMLVQ(initial_matrix=[[NAN, 0]]).fit(X, Y),
}


def test_bad_arguments_elsewhere():
    for argument, call in CALLS.items():
        assert_clear(call, argument.strip(), case=argument)


def test_names_of_features():
    for frame in (FRAME[["age", "size"]], FRAME.rename(columns={"age": "Age"}), FRAME[["age"]]):
        for call in (CLASSIFIER.predict, CLASSIFIER.explain, CLASSIFIER.cause):
            assert_clear(lambda call=call, frame=frame: call(frame), "X")
    assert_clear(lambda: CLASSIFIER.explain(FRAME.iloc[0][["age", "size"]]), "X")
    mixed = FRAME.set_axis(["size", 1], axis=1)
    assert_clear(lambda: CLASSIFIER.predict(mixed), "X")
    assert_clear(lambda: RejectOptionClassifier(GLVQ()).fit(mixed, Y), "X")


def test_contradictory_requirements_say_which():
    for options, words in (
        ({"bounds": {"size": (5, 9)}, "fixed": ["size"]}, ("bounds", "fixed")),
        (
            {"increase_only": ["size"], "decrease_only": ["size"], "fixed": ["age"]},
            ("fixed", "increase_only"),
        ),
        ({"constraints": ([[1, 0], [-1, 0]], [0, -1])}, ("constraints",)),
        ({"bounds": {"size": (-1e-3, 0), "age": (3, 3)}, "target": "b"}, ("target", "bounds")),
    ):
        assert_clear(lambda options=options: explain(OPTION, 0.99, [1.4, 1.5], **options), *words)
        with pytest.raises(NoCounterfactualError):
            CLASSIFIER.set_params(threshold=0.99).explain(pd.Series([1.4, 1.5], ["size", "age"]), **options)


def test_unfitted():
    for method in ("predict", "explain", "cause"):
        with pytest.raises(NotFittedError):
            getattr(RejectOptionClassifier(), method)(X)
    with pytest.raises(NotFittedError):
        ProbabilisticCertainty().certainty(X)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.sampled_from([object(), GLVQ, np.array([]), np.zeros((2, 2)), pd.NA, pd.NaT, "size", "a", 10**400]),
)
NESTED = st.recursive(
    JUNK,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from(["size", "age", 0, 1, 5]), inner, max_size=2)
    ),
    max_leaves=4,
)
ARGUMENTS = [
    "X", "theta", "weights", "fixed", "bounds", "increase_only", "decrease_only", "constraints", "target",
    "on_infeasible",
]  # fmt: skip


@settings(max_examples=400)
@given(argument=st.sampled_from(ARGUMENTS), value=NESTED)
def test_fuzzed_explain_answers_or_says_what_is_wrong(argument, value):
    arguments = {"theta": 0.8, "X": [[1.4, 1.5]], argument: value}
    result, error = outcome(lambda: explain(OPTION, **arguments))
    if isinstance(error, NoCounterfactualError):
        assert own(error)
    elif error is not None:
        assert own(error), traceback.format_exception(error)
        assert re.search(rf"(^|\W){argument}(\W|$)", str(error)), str(error)
    else:
        for why in result if isinstance(result, lvqrej.Explanations) else [result]:
            assert why.certainty >= why.theta


@settings(max_examples=250)
@given(
    name=st.sampled_from(["estimator", "option", "threshold", "cv", "reject_label", "random_state"]),
    value=NESTED,
)
def test_fuzzed_parameters_of_the_classifier(name, value):
    classifier = RejectOptionClassifier(**{"estimator": GLVQ(), "threshold": 0.3, name: value})
    _, error = outcome(lambda: classifier.fit(X, Y))
    if error is None:
        assert set(classifier.predict(X)) <= {"a", "b", classifier.reject_label_}
    else:
        assert own(error), traceback.format_exception(error)
        assert re.search(rf"(^|\W){name}(\W|$)", str(error)), str(error)
