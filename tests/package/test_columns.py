"""Any table: categories, gaps, whole numbers, the pipelines people write; tested by these alone."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_classif
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from lvqrej import (
    GLVQ,
    GMLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    explain,
)
from lvqrej.columns import Column, Columns
from lvqrej.fitting import default_steps
from lvqrej.stream import explain_stream

pytestmark = pytest.mark.filterwarnings(
    "ignore::lvqrej.lvq.PrototypeWarning", "ignore::lvqrej.thresholds.ThresholdWarning",
    "ignore:Found unknown categories:UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning",
)  # fmt: skip
INF = float("inf")


def table(seed=0, n=120, gaps=True):
    """Return a mixed table with gaps and labels of three classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "age": np.round(40 + 6 * y + 7 * rng.normal(size=n)),
            "mass": 3.0 + 0.4 * y + 0.5 * rng.normal(size=n),
            "sex": np.where(rng.random(n) < 0.2 + 0.3 * y, "male", "female"),
            "island": np.array(["Biscoe", "Dream", "Torgersen"])[
                np.where(rng.random(n) < 0.5, y, rng.integers(0, 3, n))
            ],
            "tagged": rng.random(n) < 0.3,
        }
    )
    X["island"] = X["island"].astype("category")
    if gaps:
        X.loc[rng.random(n) < 0.1, "age"] = np.nan
        X.loc[rng.random(n) < 0.1, "sex"] = None
    return X, np.array(["a", "b", "c"])[y]


def certainty_by_pipeline(classifier, frame):
    """Return certainty and label of each row by the fitted pipeline and the formula of the paper, no more."""
    *_, model = (step for _, step in classifier.estimator_.steps)
    z = classifier.estimator_[:-1].transform(frame)
    z = np.asarray(z.toarray() if hasattr(z, "toarray") else z, dtype=float)
    L = getattr(model, "omega_", np.eye(z.shape[1]))
    d = np.square((z[:, None] - model.w_) @ L.T).sum(axis=2)
    r, labels = [], []
    for row in d:
        plus = row.argmin()
        minus = np.where(model.c_w_ != model.c_w_[plus], row, INF).argmin()
        labels.append(model.c_w_[plus])
        if classifier.option == "relative-similarity":
            r.append((row[minus] - row[plus]) / (row[minus] + row[plus]))
        else:
            between = np.square(L @ (model.w_[plus] - model.w_[minus])).sum()
            r.append((row[minus] - row[plus]) / (2 * between))
    return np.array(r), np.array(labels)


def cost(classifier, before, after):
    """Return the weighted l1 distance of rows of the user's values, 1 for each other level."""
    total = np.zeros(len(after))
    for k, name in enumerate(before.index):
        if isinstance(before[name], (int, float, np.number)) and not isinstance(
            before[name], (bool, np.bool_)
        ):
            total += np.abs(after[name].astype(float) - float(before[name])) / classifier.scale_[k]
        else:
            total += (after[name].astype(object) != before[name]).to_numpy(dtype=float)
    return total


def fitted(X, y, estimator=None, option="relative-similarity", rate=0.3, **options):
    return RejectOptionClassifier(estimator, option, ("reject_rate", rate), cv=2, **options).fit(X, y)


@pytest.fixture(scope="module", params=["relative-similarity", "decision-distance"])
def mixed(request):
    X, y = table()
    return fitted(X, y, option=request.param), X, y


@pytest.fixture(scope="module")
def result(mixed):
    classifier, X, _ = mixed
    return classifier.explain(X[classifier.rejects(X)])


# --- the classifier on a table ---


def test_the_default_pipeline_is_made_from_the_kinds_of_columns(mixed):
    classifier, X, _y = mixed
    shown = repr(classifier.estimator_)
    assert all(word in shown for word in ("SimpleImputer", "StandardScaler", "OneHotEncoder", "GMLVQ"))
    r, labels = certainty_by_pipeline(classifier, X)
    np.testing.assert_allclose(classifier.certainty(X), r, rtol=1e-9, atol=1e-12)
    kept = ~classifier.rejects(X)
    assert (classifier.predict(X)[kept] == labels[kept]).all()


def test_answers_are_valid_by_the_pipeline_alone(mixed, result):
    classifier, X, _ = mixed
    rejected = X[classifier.rejects(X)]
    answers = result.to_frame()
    r, labels = certainty_by_pipeline(classifier, answers[X.columns])
    assert (r >= classifier.threshold_ - 1e-9).all()
    assert (labels == answers["label"]).all()
    assert answers["age"].dropna().mod(1).eq(0).all()
    for name in ("sex", "island", "tagged"):
        changed = answers[name].astype(object) != rejected[name].astype(object)
        known = set(X[name].dropna())
        assert set(answers.loc[changed & rejected[name].notna(), name]) <= known  # none is made missing
    assert (result.lower_bounds <= result.distances).all()
    assert (result.gaps < 0.02).all()


def test_no_accepted_training_row_is_nearer_than_the_bound(mixed, result):
    """Rows without gaps: what they cost is the user's own sum, and the bound has to be below it."""
    classifier, X, _ = mixed
    whole = X.dropna()
    r, _ = certainty_by_pipeline(classifier, whole)
    accepted = whole[r >= classifier.threshold_]
    rejected = X[classifier.rejects(X)]
    for i, (_, row) in enumerate(rejected.iterrows()):
        if not row.isna().any():
            assert (cost(classifier, row, accepted) >= result.lower_bounds[i] * (1 - 1e-9)).all()


def all_levels(X, row, names):
    """Return copies of a row at all assignments of levels."""
    levels = [sorted(set(X[name].dropna())) for name in names]
    rows = pd.DataFrame([row] * int(np.prod([len(part) for part in levels])), columns=X.columns)
    rows = rows.reset_index(drop=True).astype(dict.fromkeys(names, object))
    for i, chosen in enumerate(product(*levels)):
        for name, level in zip(names, chosen, strict=True):
            rows.loc[i, name] = level
    return rows


@pytest.mark.parametrize("option", ["relative-similarity", "decision-distance", "probabilistic"])
def test_brute_force_over_all_assignments_agrees(option):
    X, y = table(3, gaps=False)
    classifier = fitted(X, y, option=option, rate=0.4)
    names = ["sex", "island", "tagged"]
    weights = {
        "age": 3.0,
        "mass": 9.0,
        "sex": 0.4,
        "island": {("Biscoe", "Dream"): 0.2, ("Dream", "Biscoe"): INF},
    }
    rows = X[classifier.rejects(X)].iloc[:6]
    found = classifier.explain(rows, weights=weights, grid=None)
    assert found.changed[:, 2:].any(axis=1).any(), "some level should change, or this tests nothing"
    for i, (_, row) in enumerate(rows.iterrows()):
        others = all_levels(X, row, names)
        inner = classifier.explain(others, weights=weights, grid=None, fixed=names, on_infeasible="skip")
        price = 0.4 * (others["sex"] != row["sex"]) + 1.0 * (others["tagged"] != row["tagged"])
        moved = others["island"] != row["island"]
        one = {("Biscoe", "Dream"): 0.2, ("Dream", "Biscoe"): INF}
        price += [
            one.get((row["island"], to), float(far)) for to, far in zip(others["island"], moved, strict=True)
        ]
        whole = (inner.distances + price).min()
        assert found.distances[i] <= whole * (1 + (2e-2 if option == "probabilistic" else 1e-6))
        assert found.lower_bounds[i] <= whole * (1 + 1e-9)
        assert found.lower_bounds[i] >= (inner.lower_bounds + price).min() * (1 - 2e-2) - 1e-9
        assert found.gaps[i] < (0.05 if option == "probabilistic" else 1e-4)


@pytest.mark.parametrize("kind", [RelativeSimilarity, DecisionDistance])
def test_many_combinations_of_the_same_price_are_all_looked_at(kind):
    """Nine categories of two levels, numbers that stay: answers are single points, one on the boundary."""
    rng = np.random.default_rng(0)
    columns = Columns([Column("x"), *(Column(f"c{k}", (("a",), ("b",))) for k in range(9))])
    model = PrototypeModel(rng.normal(size=(2, 19)), ["no", "yes"], rng.normal(size=(4, 19)), columns=columns)
    option, rows = kind(model), [[0.0, *one] for one in product("ab", repeat=9)]
    lifted = columns.lifted(np.array(rows, dtype=object))
    r = option.certainty(lifted)
    theta = np.sort(r)[-6]
    result = explain(option, theta, np.array(rows[::4], dtype=object), fixed=["x"])
    for x, distance, bound in zip(lifted[::4], result.distances, result.lower_bounds, strict=True):
        changes = (lifted[:, 1::2] != x[1::2]).sum(axis=1)
        assert distance == changes[r >= theta].min()
        assert bound == pytest.approx(distance, rel=1e-8)


def test_the_probabilistic_option_has_the_same_steps_before_all_pairs():
    X, y = table(1)
    classifier = RejectOptionClassifier(option="probabilistic", threshold=0.6).fit(X, y)
    z = default_steps(X).fit(X).transform(X)
    other = ProbabilisticCertainty(GMLVQ(random_state=0)).fit(z, y)
    np.testing.assert_allclose(classifier.certainty(X), other.certainty(z), rtol=1e-7)
    rejected = X[classifier.rejects(X)].iloc[:5]
    answers = classifier.explain(rejected)
    steps = default_steps(X).fit(X)
    assert (other.certainty(steps.transform(answers.to_frame()[X.columns])) >= 0.6 - 1e-9).all()
    assert (answers.gaps < 0.1).all()


# --- requirements in the user's columns ---


def test_requirements_speak_of_the_users_columns(mixed):
    classifier, X, _ = mixed
    rejected = X[classifier.rejects(X)]
    kept = classifier.explain(rejected, fixed=["sex", "age"], weights={"mass": 50.0}, on_infeasible="skip")
    assert not kept.changed[kept.found][:, [0, 2]].any()
    only = classifier.explain(rejected, bounds={"island": {"Dream"}}, grid=None, on_infeasible="skip")
    assert set(only.to_frame()["island"][only.found]) == {"Dream"}
    never = {(a, b): INF for a, b in product(["Biscoe", "Dream", "Torgersen"], repeat=2) if a != b}
    stay = classifier.explain(rejected, weights={"island": never, "age": 9.0}, on_infeasible="skip")
    assert not stay.changed[stay.found][:, 3].any()
    as_b = classifier.explain(rejected, target="b", on_infeasible="skip")
    assert set(as_b.labels[as_b.found]) == {"b"}
    A = np.zeros((1, 5))
    A[0, 1] = 1.0
    light = classifier.explain(rejected, constraints=(A, [3.5]), bounds=None, grid=None, on_infeasible="skip")
    assert (light.to_frame()["mass"][light.found] <= 3.5 + 1e-9).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"island": ["Hawaii"]}}, r"bounds\['island'\] must be a set of .*; found \['Hawaii'\]"),
        ({"bounds": {"island": [["Dream"]]}}, r"bounds\['island'\] must be a set of .*; found \[\['Dream'"),
        ({"increase_only": ["island"]}, "increase_only must name numbers or ordered levels; found 'island'"),
        ({"weights": {"island": {("Dream", "Hawaii"): 1}}}, r"weights\['island'\] must have pairs of"),
        ({"integers": ["island"]}, "integers must name columns of numbers; found the category 'island'"),
        ({"grid": {"sex": 1}}, "grid must name columns of numbers; found the category 'sex'"),
        ({"how": "robust", "error": {"sex": 1}}, "error must name columns of numbers; found the category"),
        ({"weights": {"age": {("a", "b"): 1}}}, r"weights\['age'\] must be a number"),
        (
            {"constraints": (np.ones((1, 5)), [1])},
            "must be 0 in columns that are no numbers; found others in",
        ),
    ],
)
def test_requirements_that_make_no_sense_for_levels_are_named(mixed, options, message):
    classifier, X, _ = mixed
    with pytest.raises(ValueError, match=message):
        classifier.explain(X.iloc[:1], **options)


def test_ordered_levels_cost_by_steps_and_go_one_way():
    rng = np.random.default_rng(0)
    size = pd.Categorical(rng.choice(["low", "mid", "high"], 200), ["low", "mid", "high"], ordered=True)
    X = pd.DataFrame({"size": size, "noise": rng.normal(size=200)})
    y = np.where(X["size"].cat.codes + 0.5 * rng.normal(size=200) > 1, "big", "small")
    encoder = OrdinalEncoder(categories=[["low", "mid", "high"]])
    steps = make_column_transformer((encoder, ["size"]), (StandardScaler(), ["noise"]))
    classifier = fitted(X, y, make_pipeline(steps, GLVQ()), rate=0.3)
    assert classifier.option_.columns.columns[0].ordered
    row = X[classifier.rejects(X) & (X["size"] == "mid")].iloc[0]
    up = classifier.explain(row, fixed=["noise"], increase_only=["size"])
    down = classifier.explain(row, fixed=["noise"], decrease_only=["size"])
    assert (up.after[0], up.distance, down.after[0], down.distance) == ("high", 1.0, "low", 1.0)
    far = row.copy()
    far["size"] = "low"
    assert classifier.explain(far, fixed=["noise"], target="big").distance == 2.0


def test_variants_of_an_answer(mixed):
    classifier, X, y = mixed
    rejected = X[classifier.rejects(X)]
    near = classifier.explain(rejected)
    few = classifier.explain(rejected, "sparsest")
    assert (few.counts <= near.counts).all()
    assert (few.counts >= few.fewest).all()
    r, _ = certainty_by_pipeline(classifier, few.to_frame()[X.columns])
    assert (r >= classifier.threshold_ - 1e-9).all()
    row = rejected.iloc[0]
    sets = [tuple(np.flatnonzero(mask)) for mask in classifier.explain(row, "several", k=3).changed]
    assert len(set(sets)) == len(sets) > 1
    assert (few.distances <= near.distances * (1 + 1e-9))[few.counts == near.counts].all()
    for k, (_, row) in enumerate(rejected.iterrows()):
        curve = classifier.explain(row, "trade_off")
        assert (np.diff(curve.distances) < 0).all()
        assert (np.diff(curve.counts) > 0).all()
        assert curve.distances[-1] == pytest.approx(near.distances[k])
        assert (np.diff(classifier.explain(row, "several", k=4).distances) >= 0).all()
    row = rejected.iloc[0]
    table = classifier.explain_per_class(row)
    assert np.isclose(table["distance"].min(), near.distances[0], rtol=2e-2)
    among = classifier.explain(rejected, "plausible", data=X, labels=y, on_infeasible="skip", level=1.0)
    assert (among.distances >= near.lower_bounds * (1 - 1e-9)).all()
    firm = classifier.explain(rejected.iloc[:3], "robust", error={"mass": 0.05}, on_infeasible="skip")
    assert (firm.distances >= near.lower_bounds[:3] * (1 - 1e-9)).all()
    assert firm.found.any()


def test_reasons_and_ranges_speak_of_the_users_columns(mixed):
    classifier, X, _ = mixed
    rows = X[classifier.rejects(X)].iloc[:4]
    for reason, (_, row) in zip(classifier.sufficient_reason(rows), rows.iterrows(), strict=True):
        assert set(reason.features) <= set(X.columns)
        others = pd.DataFrame([row] * len(X.dropna()), columns=X.columns).reset_index(drop=True)
        free = [name for name in X.columns if name not in reason.features]
        others[free] = X.dropna()[free].reset_index(drop=True)
        assert reason.proven
        assert classifier.rejects(others).all(), "whatever the other columns are"
        assert set(reason.to_frame()["feature"]) >= set(reason.features)
    why = classifier.explain(rows.iloc[1])
    spans = why.ranges().set_index("feature")
    for name in ("sex", "island", "tagged"):
        for level in X[name].dropna().unique():
            changed = rows.iloc[[1]].astype({name: object})
            changed[name] = level
            assert classifier.rejects(changed).iloc[0] == (level not in spans.loc[name, "accepted_levels"])


def test_a_reason_under_probabilities_survives_random_completions():
    X, y = table()
    classifier = fitted(X, y, option="probabilistic")
    row = X[classifier.rejects(X)].iloc[0]
    reason = classifier.sufficient_reason(row, effort=20)
    rng, known = np.random.default_rng(0), X.dropna()
    others = pd.DataFrame([row] * 2000, columns=X.columns).reset_index(drop=True)
    for name in X.columns.difference(reason.features):
        others[name] = known[name].sample(2000, replace=True, random_state=rng.integers(2**31)).to_numpy()
    assert reason.proven
    assert len(reason.features) >= reason.fewest >= 1
    assert classifier.rejects(others).all()


# --- gaps ---


def test_a_missing_value_is_taken_as_the_imputer_takes_it_and_that_is_said(mixed):
    classifier, X, _ = mixed
    rejected = X[classifier.rejects(X) & X["age"].isna()]
    assert len(rejected)
    median = X["age"].median()
    for why, (_, row) in zip(classifier.explain(rejected), rejected.iterrows(), strict=True):
        assert "age was missing, taken as" in str(why) or row.isna().sum() > 1
        assert f"taken as {median:g}" in str(why)
        assert why.before[0] == median
        could = why.missing.set_index("feature").loc["age"]
        assert could["taken_as"] == median
        values = pd.DataFrame([row] * 200, columns=X.columns)
        values["age"] = np.linspace(X["age"].min(), X["age"].max(), 200)
        accepted = ~classifier.rejects(values).to_numpy()
        if could["holds"]:
            assert not accepted.any()
        elif could["accepted_at"] is not None:
            values["age"] = could["accepted_at"]
            assert classifier.predict(values).iloc[0] == could["accepted_as"]


def test_missing_levels_are_told_with_missing_numbers(mixed):
    classifier, X, _ = mixed
    gaps = X.assign(age=np.nan, sex=None)
    said = str(classifier.explain(gaps[classifier.rejects(gaps)].iloc[0], fixed=["age"]))
    told = f"age (taken as {X['age'].median():g}) and sex (taken as a level of its own) were missing"
    assert f"{told}; it would be" in said


def test_a_flag_of_missing_values_goes_off_when_the_value_is_given():
    X, y = table(5, n=200)
    rng = np.random.default_rng(1)
    X.loc[(y == "a") & (rng.random(200) < 0.6), "age"] = np.nan  # being missing tells something
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    steps = make_column_transformer(
        (numbers, ["age", "mass"]), (OneHotEncoder(handle_unknown="ignore"), ["sex", "island", "tagged"])
    )
    classifier = fitted(X, y, make_pipeline(steps, GMLVQ()), rate=0.5)
    assert classifier.option_.columns.columns[0].flag
    r, _ = certainty_by_pipeline(classifier, X)
    np.testing.assert_allclose(classifier.certainty(X), r, rtol=1e-7)
    rejected = X[classifier.rejects(X) & X["age"].isna()]
    result = classifier.explain(rejected, fixed=["mass", "sex", "island", "tagged"], on_infeasible="skip")
    fill, why = round(X["age"].mean()), result[int(result.found.argmax())]
    assert f"age was missing, taken as {fill} and marked as missing; it would be" in str(why)
    assert why.missing["taken_as"].iloc[0] == fill
    answers = result.to_frame()[result.found]
    assert len(answers)
    assert answers["age"].notna().all()
    r, _ = certainty_by_pipeline(classifier, answers[X.columns])
    assert (r >= classifier.threshold_ - 1e-9).all()
    whole = classifier.explain(rejected).to_frame()
    assert (certainty_by_pipeline(classifier, whole[X.columns])[0] >= classifier.threshold_ - 1e-9).all()


def test_levels_that_were_never_seen_and_rare_ones():
    X, y = table(7, gaps=False)
    X["island"] = X["island"].astype(object)
    X.loc[X.index[:4], "island"] = ["Hawaii", "Tahiti", "Samoa", "Tahiti"]
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5)
    steps = make_column_transformer(
        (encoder, ["sex", "island", "tagged"]), remainder=StandardScaler(), verbose_feature_names_out=False
    )
    classifier = fitted(X, y, make_pipeline(steps, GMLVQ()))
    groups = classifier.option_.columns.columns[3].levels
    assert max(groups, key=len) == ("Tahiti", "Hawaii", "Samoa")  # the most frequent one is named first
    new = X.iloc[[5]].assign(island="Fiji")
    np.testing.assert_allclose(classifier.certainty(new), certainty_by_pipeline(classifier, new)[0])
    free = {"island": 1e-3}
    text = [
        str(
            classifier.explain(
                row, weights=free, fixed=["age", "mass", "sex", "tagged"], bounds={"island": ["Samoa"]}
            )
        )
        for _, row in X.iterrows()
        if not classifier.rejects(
            pd.DataFrame([row.replace(row["island"], "Tahiti")], columns=X.columns)
        ).iloc[0]
    ]
    # The answer names a level that may be, and says which others the model does not tell from it.
    assert any("island were Samoa (or Tahiti or Hawaii) instead of" in one for one in text)
    fiji = X.assign(island="Fiji")
    said = str(classifier.explain(fiji[classifier.rejects(fiji)].iloc[0]))
    assert "island Fiji was never seen, taken as Tahiti (or Hawaii or Samoa); it would be" in said
    strict = make_column_transformer(
        (OneHotEncoder(), ["sex", "island", "tagged"]), remainder=StandardScaler()
    )
    classifier = RejectOptionClassifier(make_pipeline(strict, GMLVQ()), threshold=0.3).fit(X, y)
    with pytest.raises(ValueError, match=r"X must have known levels in column 'island'.* found 'Fiji'"):
        classifier.predict(new)
    with pytest.raises(ValueError, match="X must not lack a value in column 'age'; found none at row 0"):
        classifier.predict(X.iloc[[5]].assign(age=np.nan))


# --- pipelines ---

NUMBERS, OTHERS = ["age", "mass"], ["sex", "island", "tagged"]
IMPUTERS = {
    "median": lambda: SimpleImputer(strategy="median"),
    "flag": lambda: SimpleImputer(add_indicator=True),
    "constant": lambda: SimpleImputer(strategy="constant", fill_value=-1.0),
}
SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler, "robust": RobustScaler}
ENCODERS = {
    "all": lambda: OneHotEncoder(handle_unknown="ignore"),
    "dropped": lambda: OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False),
    "binary": lambda: OneHotEncoder(drop="if_binary", handle_unknown="ignore"),
    "rare": lambda: OneHotEncoder(min_frequency=0.25, handle_unknown="infrequent_if_exist"),
    "few": lambda: OneHotEncoder(max_categories=2),
    "ordinal": lambda: OrdinalEncoder(encoded_missing_value=-1),
    "frequent": lambda: make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
}
AFTER = {
    "nothing": lambda: "passthrough",
    "pca": lambda: PCA(4, random_state=0),
    "svd": lambda: TruncatedSVD(4, random_state=0),
    "best": lambda: SelectKBest(f_classif, k=4),
    "twice": lambda: FeatureUnion([("one", VarianceThreshold()), ("two", PCA(2, random_state=0))]),
    "scaled": lambda: StandardScaler(with_mean=False),
}


def pipeline(imputer, scaler, encoder, after, model):
    numbers = make_pipeline(IMPUTERS[imputer](), SCALERS[scaler]())
    steps = ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("levels", ENCODERS[encoder](), OTHERS),
        ]
    )
    return make_pipeline(steps, AFTER[after](), model)


@settings(max_examples=14, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    *(st.sampled_from(sorted(part)) for part in (IMPUTERS, SCALERS, ENCODERS, AFTER)),
    st.integers(0, 1000),
    st.sampled_from(["relative-similarity", "decision-distance"]),
    st.booleans(),
)
def test_any_pipeline_is_answered_by_inputs_that_it_accepts_itself(
    imputer, scaler, encoder, after, seed, option, matrix
):
    X, y = table(seed, n=90)
    X["tagged"] = X["tagged"].map({True: "yes", False: "no"})
    X["island"] = X["island"].astype(object)
    model = GMLVQ(max_iter=50) if matrix else GLVQ(max_iter=50)
    classifier = fitted(X, y, pipeline(imputer, scaler, encoder, after, model), option, rate=0.3)
    r, labels = certainty_by_pipeline(classifier, X)
    np.testing.assert_allclose(classifier.certainty(X), r, rtol=1e-6, atol=1e-9)
    rejected = X[classifier.rejects(X)].iloc[:8]
    result = classifier.explain(rejected, on_infeasible="skip")
    answers = result.to_frame()[X.columns][result.found]
    r, labels = certainty_by_pipeline(classifier, answers)
    assert (r >= classifier.threshold_ - 1e-8).all()
    assert (labels == result.labels[result.found]).all()
    for name in OTHERS:
        assert set(answers[name].dropna()) <= set(X[name].dropna())
    changed = result.changed[result.found][:, 0]
    assert (answers["age"][changed] % 1 == 0).all()
    assert (result.lower_bounds <= result.distances * (1 + 1e-12)).all()
    whole = X.dropna()
    accepted = whole[certainty_by_pipeline(classifier, whole)[0] >= classifier.threshold_]
    for i, (_, row) in enumerate(rejected.iterrows()):
        ordered = any(column.ordered for column in classifier.option_.columns.columns)
        if not row.isna().any() and not ordered:
            same = [column.same(row[column.name]) for column in classifier.option_.columns.columns]
            rows = accepted if not any(same) else accepted.iloc[:0]
            assert (cost(classifier, row, rows) >= result.lower_bounds[i] * (1 - 1e-9)).all()


def test_a_column_that_is_used_twice_keeps_all_distances():
    X, y = table(2, gaps=False)
    twice = ColumnTransformer([("a", StandardScaler(), ["age", "mass"]), ("b", MinMaxScaler(), ["age"])])
    trained = make_pipeline(twice, GMLVQ()).fit(X, y)
    model = PrototypeModel.of(trained, X)
    assert model.columns.hidden == 1
    own = PrototypeModel.of(trained[-1])
    lifted = model.columns.lifted(X)
    np.testing.assert_allclose(model.distances(lifted), own.distances(twice.fit_transform(X)), rtol=1e-9)
    np.testing.assert_allclose(
        model.distances(model.prototypes), own.distances(own.prototypes), rtol=1e-9, atol=1e-12
    )


def test_columns_that_are_passed_through_or_dropped():
    X, y = table(2, gaps=False)
    parts = [("levels", OneHotEncoder(sparse_output=False), ["island"]), ("gone", "drop", ["sex"])]
    steps = ColumnTransformer([*parts, ("truth", "passthrough", ["tagged"])], remainder="passthrough")
    for output in ("default", "pandas"):
        estimator = make_pipeline(steps, StandardScaler(), GMLVQ()).set_output(transform=output)
        classifier = fitted(X, y, estimator)
        np.testing.assert_allclose(classifier.certainty(X), certainty_by_pipeline(classifier, X)[0])
        answers = classifier.explain(X[classifier.rejects(X)])
        r, labels = certainty_by_pipeline(classifier, answers.to_frame()[X.columns])
        assert (r >= classifier.threshold_ - 1e-9).all()
        assert (labels == answers.labels).all()
        assert not answers.changed[:, 2].any()


@pytest.mark.parametrize(
    ("step", "advice"),
    [
        (FunctionTransformer(np.log1p), "transform the column before fit and predict"),
        (QuantileTransformer(n_quantiles=10), "transform the column before fit and predict"),
        (PolynomialFeatures(), "add the products as columns"),
        (KNNImputer(), "take a SimpleImputer"),
        (MinMaxScaler(clip=True), "clip=True: take clip=False"),
    ],
)
def test_what_cannot_be_folded_is_named_with_what_would_work(step, advice):
    X, y = table(gaps=False)
    steps = ColumnTransformer([("odd", step, NUMBERS), ("levels", OneHotEncoder(), OTHERS)])
    with pytest.raises(ValueError, match=rf"found step 'odd', a {type(step).__name__}.*{advice}"):
        RejectOptionClassifier(make_pipeline(steps, GMLVQ())).fit(X, y)


class Products(FeatureUnion):
    """Made of scalers, but not affine: the product of two columns is so in each of them alone."""

    def transform(self, X):
        Z = super().transform(X)
        return np.column_stack([Z, Z[:, 0] * Z[:, 1]])

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X)


def test_steps_that_multiply_columns_are_noticed_on_the_training_rows():
    X, y = table(gaps=False)
    model = make_pipeline(Products([("scaled", StandardScaler())]), GMLVQ())
    with pytest.raises(ValueError, match=r"affine in numbers and levels; found other values at row \d+"):
        RejectOptionClassifier(model).fit(X[NUMBERS], y)


def test_whole_numbers_that_are_categories_are_levels():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.choice([3, 7, 20], 150), "x": rng.normal(size=150)})
    y = np.where((X["code"] == 7) ^ (rng.random(150) < 0.2), "in", "out")
    steps = make_column_transformer((OneHotEncoder(), ["code"]), remainder=StandardScaler())
    classifier = fitted(X, y, make_pipeline(steps, GMLVQ()))
    assert classifier.option_.columns.columns[0].levels == ((3,), (7,), (20,))
    answers = classifier.explain(X[classifier.rejects(X)]).to_frame()
    assert set(answers["code"]) <= {3, 7, 20}


# --- frames and files ---


def test_frames_of_all_kinds_give_the_same_answers():
    X, y = table(4)
    other = X.astype({"age": "Int64", "sex": "string", "tagged": "boolean", "island": "string"})
    one, two = fitted(X, y), fitted(other, y)
    np.testing.assert_allclose(one.certainty(X), two.certainty(other), rtol=1e-9)
    rows = one.rejects(X)
    first, second = one.explain(X[rows]), two.explain(other[rows])
    np.testing.assert_allclose(first.distances, second.distances, rtol=1e-6)


@pytest.mark.parametrize("kind", ["object", "pyarrow"])
def test_how_a_frame_keeps_its_cells_does_not_matter(kind):
    """Numbers and truth values as objects, None for what is missing; columns of Arrow."""
    X, y = table(4)
    X["tagged"] = X["tagged"].astype(object).where(X.index % 7 > 0, None)
    if kind == "object":
        cells = X.astype(object)
        other = cells.where(cells.notna(), None)
    else:
        other = X.convert_dtypes(dtype_backend="pyarrow")
    one, two = fitted(X.replace({None: np.nan}), y), fitted(other, y)
    np.testing.assert_allclose(one.certainty(X), two.certainty(other), rtol=1e-9)
    assert [c.levels is None for c in two.option_.columns.columns] == [True, True, False, False, False]
    rows = one.rejects(X)
    first, second = one.explain(X[rows]), two.explain(other[rows])
    np.testing.assert_allclose(first.distances, second.distances, rtol=1e-6)
    codes = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["age"]), (StandardScaler(), ["mass"])
    )
    coded = fitted(other.dropna(), y[other.notna().all(axis=1)], make_pipeline(codes, GMLVQ()))
    assert set(coded.option_.columns.columns[0].places) == set(X.dropna()["age"])


def test_a_frame_that_is_not_of_pandas_is_taken_by_its_columns():
    class Column(list):
        def to_list(self):
            return list(self)

    class Frame:
        """What polars offers, as far as it is needed."""

        def __init__(self, X):
            self.columns, self.shape = list(X), X.shape
            self.dtypes = ["Float64" if name in NUMBERS else "String" for name in X]
            self.table = {name: Column(X[name].astype(object).where(X[name].notna(), None)) for name in X}

        def __getitem__(self, name):
            return self.table[name]

    X, y = table(6)
    one, two = fitted(X, y), fitted(Frame(X), y)
    assert (one.certainty(X) == two.certainty(Frame(X))).all()
    first, second = one.explain(X[one.rejects(X)]), two.explain(Frame(X[one.rejects(X)]))
    np.testing.assert_allclose(first.distances, second.distances)


def test_one_row_as_series_dict_or_list(mixed):
    classifier, X, _ = mixed
    row = X[classifier.rejects(X)].iloc[0]
    answers = [classifier.explain(one) for one in (row, row.to_dict(), list(row))]
    assert len({str(why) for why in answers}) == 1
    assert classifier.cause(row).kind in ("ambiguous", "unfamiliar")


def test_stored_and_loaded_it_is_the_same(mixed, tmp_path):
    classifier, X, _ = mixed
    classifier.save(tmp_path / "file")
    loaded = RejectOptionClassifier.load(tmp_path / "file")
    assert (loaded.certainty(X) == classifier.certainty(X)).all()
    rejected = X[classifier.rejects(X)]
    assert str(loaded.explain(rejected)) == str(classifier.explain(rejected))


def test_a_stream_of_tables_is_answered_part_by_part(mixed, tmp_path):
    classifier, X, _ = mixed
    chunks = [X.iloc[:50], X.iloc[50:]]
    files = explain_stream(classifier, None, chunks, tmp_path, rows_per_part=40, format="csv")
    table = pd.concat([pd.read_csv(file) for file in files])
    whole = classifier.explain(X[classifier.rejects(X)]).to_frame()
    assert table["row"].tolist() == np.flatnonzero(classifier.rejects(X)).tolist()
    np.testing.assert_allclose(table["distance"], whole["distance"], rtol=1e-6)
    assert table["island"].tolist() == whole["island"].tolist()


def test_sentence_page_record_and_picture(mixed):
    classifier, X, _ = mixed
    rejected = X[classifier.rejects(X)]
    weights = {"age": 1.0, "mass": 50.0}
    result = classifier.explain(rejected, weights=weights, on_infeasible="skip")
    i = int(np.flatnonzero(result.found & result.changed[:, 2:].any(axis=1))[0])
    why, k = result[i], int(np.flatnonzero(result.changed[i, 2:])[0]) + 2
    expected = f"{X.columns[k]} were {why.after[k]} instead of {rejected.iloc[i, k]}"
    assert expected in str(why)
    assert str(why.after[k]) in why._repr_html_()
    record = json.loads(why.to_json())
    assert record["counterfactual"][k] == why.after[k]
    frame = why.to_frame().set_index("feature")
    assert frame.loc[X.columns[k], "after"] == why.after[k]
    assert np.isnan(frame.loc[X.columns[k], "change"])
    assert frame["cost"].sum() == pytest.approx(why.distance)
    for figure in (why.plot(), why.plot(kind="both"), result.plot()):
        assert figure.axes


def test_lifted_and_back():
    columns = Columns(
        [Column("n", fill=2.0, flag=True), Column("c", (("a", "b"), ("z",), (None,)), fill=2), Column("m")],
        hidden=1,
    )
    X = np.array([[None, "b", 1], [5, "z", 2], [7, None, 3]], dtype=object)
    lifted = columns.lifted(X)
    np.testing.assert_array_equal(
        lifted, [[2, 1, 1, 0, 0, 1, 0], [5, 0, 0, 1, 0, 2, 0], [7, 0, 0, 0, 1, 3, 0]]
    )
    assert [columns.values(row) for row in lifted] == [[None, "a", 1], [5, "z", 2], [7, None, 3]]
    back = columns.frame(lifted, lifted, X)
    assert back["c"].tolist()[:2] == ["b", "z"]
    assert back.isna().to_numpy().nonzero()[0].tolist() == [0, 2]


def test_an_estimator_by_itself_gets_the_steps_that_a_table_needs():
    """So that a parameter of the model can be set without writing the steps."""
    X, y = table()
    alone = RejectOptionClassifier(GMLVQ(class_weight="balanced", random_state=0), threshold=0.2).fit(X, y)
    steps = make_pipeline(default_steps(X), GMLVQ(class_weight="balanced", random_state=0))
    np.testing.assert_array_equal(
        alone.certainty(X), RejectOptionClassifier(steps, threshold=0.2).fit(X, y).certainty(X)
    )
    numbers = X[["mass"]]
    raw = RejectOptionClassifier(GLVQ(), threshold=0.2).fit(numbers, y)
    assert isinstance(raw.estimator_, GLVQ)  # numbers alone are taken as they are


def test_a_missing_value_is_told_with_as_many_digits_as_are_meant():
    X, y = table()
    classifier = RejectOptionClassifier(threshold=0.4).fit(X, y)
    rows = X[X["age"].notna()].assign(mass=np.nan)
    taken = X["mass"].median()
    assert len(str(taken)) > 8
    row = rows[classifier.rejects(rows)].iloc[0]
    assert f"mass was missing, taken as {taken:.4g};" in str(classifier.explain(row, fixed=["mass"]))
    # Where it changes it is the same number twice, with as many digits as the change needs.
    assert f"taken as {taken:.6g};" in (said := str(classifier.explain(row)))
    assert f"instead of {taken:.6g};" in said


def test_a_column_that_names_rows_is_refused_before_training():
    X, y = table()
    dates = pd.date_range("2025-01-03", periods=len(X), freq="11h")
    for column in (dates, dates.astype(str), [f"patient {k // 3 * 2 + k % 2}" for k in range(len(X))]):
        named = X.assign(admitted=column)
        named.loc[named.index[5], "admitted"] = None
        found = (
            rf"X's column 'admitted' must .* found {named['admitted'].nunique()} different values in 119 rows"
        )
        with pytest.raises(ValueError, match=found):
            RejectOptionClassifier().fit(named, y)
    recur = X.assign(doctor=[f"doctor {k // 2}" for k in range(len(X))])  # two rows for each level
    assert "doctor" in default_steps(recur).transformers[1][2]
    few = X[:8].assign(doctor=list("abcdefgh"))
    assert "doctor" in default_steps(few).transformers[1][2]
