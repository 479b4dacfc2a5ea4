"""Distances have one answer, and PrototypeModel.of reads off other models what they do themselves."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import sklearn_lvq
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    PowerTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from lvqrej.folding import check_affine, fold, opened
from lvqrej.lvq import GLVQ, GMLVQ
from lvqrej.prototypes import PrototypeModel, squared_distances

#: Tables are taken as they are here, some not scaled, some without any structure.
pytestmark = pytest.mark.filterwarnings("ignore::lvqrej.lvq.PrototypeWarning")
RNG = np.random.default_rng(0)
P, LABELS, L = RNG.normal(size=(4, 3)), np.array(["a", "b", "a", "b"]), RNG.normal(size=(2, 3))
X = RNG.normal(size=(50, 3))


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


def by_definition(X, P, L):
    return np.array([[np.sum((L @ (x - p)) ** 2) for p in P] for x in X])


def fitted(kind, **attributes):
    """Return a sklearn-lvq model with its fitted attributes set by hand."""
    model = getattr(sklearn_lvq, kind)()
    model.__dict__.update({"w_": P, "c_w_": LABELS, "classes_": np.array(["a", "b"])} | attributes)
    return model


class Sklvq(BaseEstimator):
    """The fitted attributes of sklvq's models, whose labels are positions in `classes_`."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def fit(self, X, y):
        raise NotImplementedError


def sklvq(**attributes):
    labels = np.array([0, 1, 0, 1])
    return Sklvq(
        prototypes_=P,
        prototypes_labels_=labels,
        classes_=np.array(["a", "b"]),
        n_features_in_=3,
        **attributes,
    )


def test_distances_are_their_definition_also_for_deficient_rank():
    for matrix in (L, np.vstack([L, L]), np.eye(3)):
        model = PrototypeModel(P, LABELS, matrix)
        np.testing.assert_allclose(model.distances(X), by_definition(X, P, matrix), rtol=1e-12)


MATRICES = {
    "full": lambda rng, k, d: rng.normal(size=(k, d)),
    "fortran": lambda rng, k, d: np.asfortranarray(rng.normal(size=(k, d))),
    "slice": lambda rng, k, d: rng.normal(size=(k, 2 * d + 1))[:, 1::2],
    "deficient": lambda rng, k, d: np.repeat(rng.normal(size=(1, d)), k, axis=0),
    "identity": lambda rng, k, d: np.eye(d),
    "diagonal": lambda rng, k, d: np.diag(rng.normal(size=d)),
    "wide diagonal": lambda rng, k, d: np.eye(k, d),
}


def at_an_offset(A, offset):
    """Return A as a view into a longer array, which starts at an odd place in memory."""
    buffer = np.empty(offset + A.size)
    buffer[offset:] = A.ravel()
    return buffer[offset:].reshape(A.shape)


@settings(max_examples=300)
@given(
    st.integers(0, 10**6),
    st.tuples(st.integers(1, 50), st.integers(2, 30), st.integers(1, 64)),
    st.sampled_from(sorted(MATRICES)),
    st.integers(0, 7),
)
def test_a_row_has_the_same_bits_alone_and_in_any_batch(seed, shape, kind, offset):
    rng, (n, m, d) = np.random.default_rng(seed), shape
    X, P = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    L = MATRICES[kind](rng, rng.integers(1, d + 1), d)
    distances = squared_distances(X, P, L)
    np.testing.assert_allclose(distances, by_definition(X, P, L), rtol=1e-9)
    alone = np.vstack([squared_distances(x[None], P, L) for x in X])
    np.testing.assert_array_equal(alone, distances)
    part = slice(rng.integers(n), None)
    for same in (at_an_offset(X, offset), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(squared_distances(same[part], P, L), distances[part])
    np.testing.assert_array_equal(squared_distances(X[::-1], P, L), distances[::-1])


@pytest.mark.parametrize("kind", sorted(MATRICES))
def test_chunks_change_no_bit_and_bound_the_memory(kind, monkeypatch):
    rng = np.random.default_rng(1)
    X, P, L = rng.normal(size=(5000, 17)), rng.normal(size=(6, 17)), MATRICES[kind](rng, 5, 17)
    whole = squared_distances(X, P, L)
    for chunk in (1, 1000, 10**9):
        monkeypatch.setattr("lvqrej.prototypes.CHUNK", chunk)
        np.testing.assert_array_equal(squared_distances(X, P, L), whole)
    monkeypatch.undo()
    tracemalloc.start()
    squared_distances(np.tile(X, (10, 1)), P, L)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * X.nbytes + 10 * whole.nbytes + 8e6  # the data, the result, and 8 MB


def test_digits_are_kept_far_from_the_origin():
    X, P = np.array([[1e9 + 0.5, 3.0]]), np.array([[1e9, 3.0], [1e9, 1.0]])
    assert squared_distances(X, P, np.array([[2.0, 1.0]])).tolist() == [[1.0, 9.0]]


@pytest.mark.parametrize("L", [np.eye(2), np.ones((2, 2))])
def test_a_sample_too_far_away_for_a_number_is_named(L):
    model = PrototypeModel([[0.0, 0], [1, 0]], ["a", "b"], L)
    with pytest.raises(ValueError, match=r"X must be near enough .* found \[1e\+300, 0.0\] .* at row 1"):
        model.distances([[0, 0], [1e300, 0]])


def test_duplicate_prototypes_are_allowed_and_the_first_wins_a_tie():
    model = PrototypeModel([[0.0, 0], [0, 0], [1, 0]], ["b", "a", "a"])
    assert model.predict([[0, 0], [0.5, 3]]).tolist() == ["b", "b"]


@pytest.mark.parametrize(
    "estimator", [GLVQ(2, random_state=0), GMLVQ(2, random_state=0), GMLVQ(initialdim=2)]
)
def test_of_own_estimators(estimator, wine):
    X, y = wine
    estimator.fit(X, y)
    model = PrototypeModel.of(estimator)
    matrix = getattr(estimator, "omega_", np.eye(X.shape[1]))
    np.testing.assert_allclose(model.distances(X), by_definition(X, estimator.w_, matrix), rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), estimator.predict(X))


@pytest.mark.parametrize(
    ("kind", "attributes", "matrix"),
    [
        ("GlvqModel", {}, np.eye(3)),
        ("GmlvqModel", {"omega_": L}, L),
        ("GrlvqModel", {"lambda_": np.array([0.2, 0.0, 0.8])}, np.diag(np.sqrt([0.2, 0.0, 0.8]))),
        ("GrmlvqModel", {"omega_": L, "lambda_": np.array([0.2, 0.3, 0.5])}, L * [0.2, 0.3, 0.5]),
    ],
)
def test_of_sklearn_lvq(kind, attributes, matrix):
    estimator = fitted(kind, **attributes)
    model = PrototypeModel.of(estimator)
    np.testing.assert_allclose(model.distances(X), by_definition(X, P, matrix), rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), estimator.predict(X))


def test_learned_matrix_is_not_lost_although_the_class_is_also_one_without():
    estimator = fitted("GmlvqModel", omega_=L)
    assert isinstance(estimator, sklearn_lvq.GlvqModel)
    np.testing.assert_array_equal(PrototypeModel.of(estimator).L, L)


def test_of_sklvq():
    plain = PrototypeModel.of(sklvq())
    assert plain.labels.tolist() == LABELS.tolist()
    np.testing.assert_array_equal(plain.L, np.eye(3))
    matrix = PrototypeModel.of(sklvq(omega_=L, lambda_=L.T @ L))
    differences = X[:, None, :] - P
    expected = np.einsum("nmi,ij,nmj->nm", differences, L.T @ L, differences)
    np.testing.assert_allclose(matrix.distances(X), expected, rtol=1e-10)


def test_of_arrays_and_of_itself():
    model = PrototypeModel.of((P, LABELS, L))
    np.testing.assert_array_equal(model.L, L)
    assert PrototypeModel.of(model) is model
    np.testing.assert_array_equal(PrototypeModel.of((P, LABELS)).L, np.eye(3))


SCALERS = {
    "standard": StandardScaler(),
    "uncentred": StandardScaler(with_mean=False),
    "unscaled": StandardScaler(with_std=False),
    "minmax": MinMaxScaler((-1, 3)),
    "maxabs": MaxAbsScaler(),
    "robust": RobustScaler(),
    "robust uncentred": RobustScaler(with_centering=False),
    "robust unscaled": RobustScaler(with_scaling=False),
    "passthrough": "passthrough",
}


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(sorted(SCALERS)), max_size=3),
    st.integers(0, 10**6),
    st.booleans(),
)
def test_folding_gives_the_pipelines_own_distances(names, seed, matrix):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-3, 4, size=3) + rng.normal(size=3) * 10
    steps = [(f"{i}", SCALERS[name]) for i, name in enumerate(names)]
    pipeline = Pipeline([*steps, ("model", (GMLVQ if matrix else GLVQ)(max_iter=10**4))])
    pipeline.fit(X, rng.permutation(np.arange(20) % 2))
    scaled = pipeline[:-1].transform(X) if names else X
    model = PrototypeModel.of(pipeline)
    own = PrototypeModel.of(pipeline[-1]).distances(scaled)
    np.testing.assert_allclose(model.distances(X), own, rtol=1e-6, atol=1e-9 * own.max())
    found = fold(opened(pipeline)[:-1], d=3)
    np.testing.assert_allclose(
        found.image + (X - found.base) @ found.A.T, scaled, rtol=1e-9, atol=1e-9 * np.abs(scaled).max()
    )


@pytest.mark.parametrize("estimator", [GLVQ(), GMLVQ()])
def test_folded_model_predicts_as_the_pipeline(estimator, wine):
    X, y = wine
    pipeline = make_pipeline(MinMaxScaler(), StandardScaler(), estimator).fit(X, y)
    np.testing.assert_array_equal(PrototypeModel.of(pipeline).predict(X), pipeline.predict(X))


def test_constant_feature_is_folded():
    X = np.column_stack([[0.0, 1, 5, 6], [7.0] * 4])
    pipeline = make_pipeline(StandardScaler(), GLVQ()).fit(X, [0, 0, 1, 1])
    np.testing.assert_allclose(PrototypeModel.of(pipeline).prototypes[:, 1], 7)


def test_feature_names_come_from_the_first_step(wine):
    X, y = wine
    frame = pd.DataFrame(X, columns=load_wine().feature_names)
    assert PrototypeModel.of(GMLVQ().fit(frame, y)).feature_names == list(frame)
    pipeline = make_pipeline(StandardScaler(), GMLVQ()).fit(frame, y)
    assert PrototypeModel.of(pipeline).feature_names == list(frame)
    pipeline = make_pipeline("passthrough", StandardScaler(), GMLVQ()).fit(frame, y)
    assert PrototypeModel.of(pipeline).feature_names == list(frame)
    assert PrototypeModel.of(GMLVQ().fit(X, y)).feature_names is None


@pytest.mark.parametrize("step", [PolynomialFeatures(), PowerTransformer()])
def test_step_that_is_not_affine_is_named(step, wine):
    pipeline = Pipeline([("odd", step), ("model", GLVQ())]).fit(*wine)
    with pytest.raises(ValueError, match=f"found step 'odd', a {type(step).__name__}"):
        PrototypeModel.of(pipeline)


def test_step_that_only_looks_like_a_scaler_is_named(wine):
    class Squashing(StandardScaler):
        def transform(self, X):
            return np.tanh(super().transform(X))

    pipeline = Pipeline([("odd", Squashing()), ("model", GLVQ())]).fit(*wine)
    with pytest.raises(ValueError, match=r"must be affine.* found step 'odd', a Squashing"):
        PrototypeModel.of(pipeline)


def test_scaler_of_other_features_is_named(wine):
    X, y = wine
    pipeline = Pipeline([("narrow", StandardScaler().fit(X[:, :2])), ("model", GLVQ().fit(X, y))])
    with pytest.raises(ValueError, match=f"must have its {X.shape[1]} features; found 2"):
        PrototypeModel.of(pipeline)


def test_clipping_step_is_named(wine):
    pipeline = Pipeline([("clipped", MinMaxScaler(clip=True)), ("model", GLVQ())]).fit(*wine)
    with pytest.raises(ValueError, match="must not clip; found step 'clipped', a MinMaxScaler"):
        PrototypeModel.of(pipeline)


@pytest.mark.parametrize(
    "unfitted", [GLVQ(), GMLVQ(), sklearn_lvq.GmlvqModel(), make_pipeline(StandardScaler(), GLVQ()), Sklvq()]
)
def test_unfitted_models_say_so(unfitted):
    with pytest.raises(NotFittedError, match="not fitted"):
        PrototypeModel.of(unfitted)


def test_unfitted_scaler_before_a_fitted_model_says_so(wine):
    X, y = wine
    with pytest.raises(NotFittedError, match="StandardScaler"):
        PrototypeModel.of(Pipeline([("scale", StandardScaler()), ("model", GLVQ().fit(X, y))]))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (3, "x must be a PrototypeModel, a fitted LVQ estimator.*found 3 of type int"),
        ((P,), r"tuple \(prototypes, labels\)"),
        (LogisticRegression().fit(X, X[:, 0] > 0), "found a fitted LogisticRegression"),
        (fitted("LgmlvqModel", omegas_=[L, L]), "one metric for all prototypes; found a LgmlvqModel"),
        (sklvq(omega_=np.stack([L, L])), "one metric for all prototypes"),
        (fitted("GrlvqModel", lambda_=np.array([-1.0, 1, 1])), r"relevances of at least 0; found -1.0"),
        (
            fitted("GlvqModel", classes_=np.array(["a", "b", "c"])),
            r"a prototype of each class; found none of",
        ),
        (fitted("GlvqModel", c_w_=np.array(["a"] * 4), classes_=np.array(["a"])), "at least two classes"),
        ((P, LABELS[:2]), r"one entry per prototype \(4\); found shape \(2,\)"),
        ((P, LABELS, np.eye(2)), "L must have 3 features; found 2"),
        ((P * np.nan, LABELS), "prototypes must be finite"),
        ((P, ["a"] * 4), "at least two classes"),
        ((P, ["a", 1, None, "b"]), "labels must hold labels of one kind"),
        ((P, [[1], [1, 2], [1], [1]]), "labels must have one entry per prototype"),
        ((P, [0, 1, 1, np.nan]), "labels must hold labels; found nan"),
        (GLVQ, "x must be a PrototypeModel, a fitted LVQ estimator"),
        (Pipeline([]), r"x must end in an LVQ model; found Pipeline\(steps=\[\]\)"),
    ],
)
def test_what_cannot_be_wrapped_is_named(x, message):
    with pytest.raises(ValueError, match=message):
        PrototypeModel.of(x)


def test_feature_names_must_fit():
    for names in (["one"], 5, "abc"):
        with pytest.raises(ValueError, match="feature_names must be a list of 3 names; found"):
            PrototypeModel(P, LABELS, feature_names=names)


def test_features_in_another_order_are_refused():
    model = PrototypeModel(P, LABELS, feature_names=["u", "v", "w"])
    frame = pd.DataFrame(P, columns=["u", "v", "w"])
    assert np.array_equal(model.distances(frame), model.distances(P))
    renamed = frame.set_axis(["other", "names", "altogether"], axis=1)
    assert np.array_equal(model.distances(renamed), model.distances(P))
    with pytest.raises(ValueError, match=r"X must have its features in the order .* found \['w', 'u', 'v'\]"):
        model.distances(frame[["w", "u", "v"]])
    with pytest.raises(ValueError, match="X must be numeric; found dates or times"):
        model.distances(np.zeros((1, 3), dtype="datetime64[s]"))


def test_steps_are_checked_before_they_are_fitted():
    check_affine("scale", RobustScaler())
    with pytest.raises(
        ValueError, match="found step 'spline', a SplineTransformer: transform the column before"
    ):
        check_affine("outer", make_pipeline(ColumnTransformer([("spline", SplineTransformer(), [0])])))


def test_steps_of_pipelines_inside_are_found_and_only_passthrough_is_no_model():
    inner = make_pipeline("passthrough", StandardScaler())
    assert [name for name, _ in opened(make_pipeline(inner, None, GLVQ()))] == ["standardscaler", "glvq"]
    assert [name for name, _ in opened(GLVQ())] == ["estimator"]
    with pytest.raises(ValueError, match="x must end in an LVQ model; found Pipeline"):
        PrototypeModel.of(make_pipeline("passthrough"))


def test_arrays_need_no_scikit_learn():
    code = (
        "import sys; from lvqrej.prototypes import PrototypeModel;"
        "PrototypeModel.of(([[0.0], [1.0]], [0, 1])).predict([[0.2]]); print('sklearn' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
