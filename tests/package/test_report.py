"""The report of many rejects against the same numbers by hand, its page, one change for many, the command."""

import html.parser
import subprocess
import sys
import tracemalloc
from collections import Counter
from itertools import chain, combinations, product
from math import comb

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import chromium
from scipy.stats import binomtest, chi2_contingency, fisher_exact
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from lvqrej import (
    GLVQ,
    DecisionDistance,
    NoCounterfactualError,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    explain,
)
from lvqrej import report as reports
from lvqrej.__main__ import main
from lvqrej.common import common_change
from lvqrej.report import difference


def cancer():
    data = load_breast_cancer(as_frame=True)
    return data.data, data.target_names[data.target]


@pytest.fixture(scope="module")
def data():
    X, y = cancer()
    groups = pd.Series(np.where(X["mean radius"] > X["mean radius"].median(), "large", "small"), name="size")
    return X[::2], y[::2], X[1::2], y[1::2], groups[1::2]


@pytest.fixture(scope="module")
def classifier(data):
    return RejectOptionClassifier(threshold=("reject_rate", 0.1)).fit(data[0], data[1])


@pytest.fixture(scope="module")
def report(data, classifier):
    return classifier.report(data[2], data[3], data[4], reasons=3, random_state=5)


# Numbers


def test_rates_are_those_of_the_predictions_with_exact_intervals(data, classifier, report):
    _, _, X, y, _ = data
    said = classifier.predict(X).to_numpy()
    rejected = said == "reject"
    labels = classifier.option_.predict(X.to_numpy())
    counts = {
        "accepted": ((~rejected).sum(), len(y)),
        "rejected": (rejected.sum(), len(y)),
        "errors among the accepted": ((said != y)[~rejected].sum(), (~rejected).sum()),
        "errors without rejects": ((labels != y).sum(), len(y)),
        "errors among the rejected": ((labels != y)[rejected].sum(), rejected.sum()),
        "rejects without a counterfactual": (0, rejected.sum()),
    }
    assert report.rates.index.tolist() == list(counts)
    for name, (hits, of) in counts.items():
        row, ends = report.rates.loc[name], binomtest(int(hits), int(of)).proportion_ci(0.95)
        np.testing.assert_allclose(row.tolist(), [hits, of, hits / of, *ends], atol=1e-9)


def test_causes_features_and_costs_are_those_of_the_explanations(data, classifier, report):
    _, _, X, y, _ = data
    rejects = X[classifier.rejects(X)]
    whys = [classifier.explain(row) for _, row in rejects.iterrows()]
    kinds = pd.Series([why.cause.kind.split()[0] for why in whys])
    counted = report.causes.groupby(lambda name: name.split()[0])["rejects"].sum()
    assert counted.to_dict() == kinds.value_counts().to_dict()
    labels = classifier.option_.predict(rejects.to_numpy())
    assert report.causes["wrong"].sum() == (labels != y[classifier.rejects(X)]).sum()
    delta = np.array([why.delta for why in whys])
    table = report.features.loc[list(X.columns)]
    assert table["up"].tolist() == (delta > 0).sum(axis=0).tolist()
    assert table["down"].tolist() == (delta < 0).sum(axis=0).tolist()
    changed = (delta != 0).sum(axis=0)
    np.testing.assert_allclose(table["share"], changed / len(rejects))
    np.testing.assert_allclose(table["mean_change"] * changed, np.abs(delta).sum(axis=0))
    costs = np.array([why.costs for why in whys])
    np.testing.assert_allclose(table["cost_share"], costs.sum(axis=0) / costs.sum())
    assert report.features["changed"].is_monotonic_decreasing
    distances = np.array([why.distance for why in whys])
    np.testing.assert_allclose(np.sort(report.distances), np.sort(distances))
    as_benign = distances[[why.label == "benign" for why in whys]]
    assert report.costs.loc[("all", ""), "median"] == pytest.approx(np.median(distances))
    assert report.costs.loc[("accepted as", "benign"), "90 %"] == pytest.approx(np.quantile(as_benign, 0.9))
    truly = distances[y[classifier.rejects(X)] == "malignant"]
    assert report.costs.loc[("true class", "malignant"), "rejects"] == len(truly)
    assert report.costs.loc[("true class", "malignant"), "most"] == pytest.approx(truly.max())


def test_rejects_and_causes_are_those_of_distances_by_hand(data, classifier, report):
    X_old, _, X, y, _ = data
    model, theta = classifier.option_.model, classifier.threshold_
    known, labels = np.asarray(model.labels), np.unique(data[1])

    def distances(table):
        """Return |L (x - p)|^2 to the nearest prototype of each class, of shape (n, 2)."""
        z = (table.to_numpy()[:, None] - model.prototypes) @ model.L.T
        return np.stack([(z**2).sum(axis=2)[:, known == label].min(axis=1) for label in labels], axis=1)

    near, far = np.sort(distances(X), axis=1).T
    rejected = (far - near) / (far + near) < theta
    assert report.rates.loc["rejected", "count"] == rejected.sum()
    said = labels[distances(X).argmin(axis=1)]
    assert report.rates.loc["errors without rejects", "count"] == (said != y).sum()
    usual = np.quantile(distances(X_old).min(axis=1), 0.99, method="higher")
    unfamiliar = rejected & (near > usual)
    table = report.causes["rejects"]
    assert table.get("unfamiliar", 0) == unfamiliar.sum()
    assert table["ambiguous between benign and malignant"] == (rejected & ~unfamiliar).sum()
    wrong = report.causes["wrong"]["ambiguous between benign and malignant"]
    assert wrong == ((said != y) & rejected & ~unfamiliar).sum()


def test_the_next_steps_name_what_the_tables_have_most_of(data, report):
    steps = report.next_steps()
    most = report.features["changed"].idxmax()
    assert steps[0].startswith(f"check {most} again")
    count, n = report.features["changed"].max(), report.facts["rejects"]
    assert f"in {count} of {n} counterfactuals" in steps[0]
    far = report.typical.set_index("cause")["sample"].get("unfamiliar")
    assert any(f"like sample {far}:" in step for step in steps) == (far is not None)
    rejected, samples = report.groups.loc["large", ["rejected", "samples"]].astype(int)
    assert steps[-1].startswith(f"look at size large first: {rejected} of {samples} are rejected")
    assert not any("try another option" in step for step in steps)
    assert all(step in str(report) for step in steps)


def test_rejects_that_are_not_wrong_more_often_are_told():
    classifier, X, y = blobs(("reject_rate", 0.3))
    labels = classifier.option_.predict(X)
    assert "try another option" not in str(classifier.report(X, labels, reasons=0))  # there are no errors
    labels[classifier.certainty(X).argmax()] = (labels[classifier.certainty(X).argmax()] + 1) % 3
    assert "try another option" in classifier.report(X, labels, reasons=0).next_steps()[-1]
    assert blobs(0.0)[0].report(X, y, reasons=0).next_steps() == []


def test_held_counts_are_those_of_reasons_of_a_seeded_sample(data, classifier, report):
    X = data[2]
    rejected = np.flatnonzero(classifier.rejects(X))
    order = np.argsort(np.random.default_rng(5).permutation(len(X))[rejected])
    some = X.iloc[rejected[order[:3]]]
    held = pd.Series(0, index=X.columns)
    for reason in classifier.sufficient_reason(some, effort=0):
        held[reason.features] += 1
    assert report.features["holds"].reindex(X.columns).tolist() == held.tolist()
    assert report.facts["reasons"] == 3


def test_groups_and_tests_are_those_of_the_tables_of_counts(data, classifier, report):
    _, _, X, y, groups = data
    said, g = classifier.predict(X).to_numpy(), groups.to_numpy()
    rejected, wrong = said == "reject", (said != "reject") & (said != y)
    for name in ("large", "small"):
        mine, row = g == name, report.groups.loc[name]
        assert [row["samples"], row["rejected"]] == [mine.sum(), rejected[mine].sum()]
        assert [row["accepted"], row["errors"]] == [(mine & ~rejected).sum(), wrong[mine].sum()]
        ends = binomtest(int(wrong[mine].sum()), int((mine & ~rejected).sum())).proportion_ci(0.95)
        np.testing.assert_allclose([row["risk_low"], row["risk_high"]], ends, atol=1e-9)
    by_share = {"rejects": pd.crosstab(g, rejected)}
    by_share["errors among the accepted"] = pd.crosstab(g[~rejected], wrong[~rejected])
    for name, counts in by_share.items():
        expected = chi2_contingency(counts, correction=False)
        assert report.tests.loc[name, "statistic"] == pytest.approx(expected.statistic)
        exact = fisher_exact(counts).pvalue
        assert report.tests.loc[name, "p_value"] == pytest.approx(exact, abs=4 * np.sqrt(exact / 9999) + 2e-4)


def test_small_counts_in_several_groups_are_tested_by_tables_with_the_same_margins():
    hits, sizes = np.array([4, 0, 1]), np.array([5, 6, 4])
    _, p = difference(hits, sizes, seed=1)

    def statistic(counts):
        return chi2_contingency([counts, sizes - counts], correction=False).statistic

    weights, extreme = 0, 0
    for counts in product(*(range(size + 1) for size in sizes)):
        if sum(counts) == hits.sum():
            weight = np.prod([comb(size, count) for size, count in zip(sizes, counts, strict=True)])
            weights += weight
            extreme += weight * (statistic(np.array(counts)) >= statistic(hits) - 1e-9)
    assert p == pytest.approx(extreme / weights, abs=4 * np.sqrt(0.25 / 9999))
    assert difference([0, 0], [5, 5]) == difference([5, 5], [5, 5]) == difference([2], [5]) == (0.0, 1.0)


def test_the_typical_case_is_the_medoid_of_its_kind(data, classifier, report):
    X = data[2]
    rejects = X[classifier.rejects(X)]
    kinds = np.array([cause.kind for cause in classifier.cause(rejects)])
    for _, case in report.typical.iterrows():
        own = rejects[kinds == case["cause"].split()[0]]
        scaled = own.to_numpy() / classifier.scale_
        total = np.abs(scaled[:, None] - scaled).sum(axis=(1, 2))
        assert own.index[total.argmin()] == case["sample"]
        assert case["rejects"] == len(own)
        assert case["sentence"] == str(classifier.explain(X.loc[case["sample"]]))


def test_chunks_change_nothing(data, classifier, report, monkeypatch):
    monkeypatch.setattr(reports, "_CHUNK", 37)
    other = classifier.report(data[2], data[3], data[4], reasons=3, random_state=5)
    one, two = report.to_frame(), other.to_frame()
    assert one.drop(columns="value").equals(two.drop(columns="value"))
    for a, b in zip(one["value"], two["value"], strict=True):
        assert a == (pytest.approx(b, rel=1e-9) if isinstance(a, float) else b)
    assert report.typical.equals(other.typical)


def test_progress_is_shown_over_all_rejects(data, classifier, report, capsys):
    classifier.report(data[2], reasons=0, progress=True)
    rejects = report.facts["rejects"]
    assert f"{rejects}/{rejects}" in capsys.readouterr().err


def test_all_numbers_are_one_table(report):
    whole = report.to_frame()
    assert set(whole["table"]) == {"rates", "causes", "features", "costs", "groups", "tests"}
    row = whole.query("table == 'costs' and row == 'accepted as benign' and column == 'median'")
    assert row["value"].item() == report.costs.loc[("accepted as", "benign"), "median"]


def test_text_says_what_the_tables_do(report):
    text = str(report)
    assert f"{report.facts['rejects']} of 284 samples are rejected" in text
    assert "worst texture (" in text
    assert "Groups differ in rejects (p below 0.001)" in text
    assert " nan" not in text


def test_the_picture_has_bars_of_the_tables(report):
    figure = report.plot(most=3)
    why, whom, what, cost = figure.axes
    assert [bar.get_width() for bar in why.patches] == report.causes["rejects"].tolist()
    up, down = report.features["up"].head(3).tolist(), (-report.features["down"].head(3)).tolist()
    assert [bar.get_width() for bar in what.patches] == up + down
    assert whom.lines[0].get_xdata().tolist() == report.groups["reject_rate"].tolist()
    assert len(cost.lines[0].get_xdata()) == len(report.distances)
    assert plt.get_fignums() == []


# Categories and gaps


def passengers(n=240):
    """Return a table of text, truth values and numbers with gaps in each, and labels."""
    rng = np.random.default_rng(3)
    sex, berth = rng.choice(["female", "male"], n), rng.choice(["first", "second", "third"], n)
    age, fare, alone = np.round(rng.normal(35, 12, n)), np.round(rng.gamma(2, 10, n), 1), rng.random(n) < 0.4
    score = (sex == "female") + 0.9 * (berth == "first") + 0.03 * fare - 0.04 * age + rng.normal(0, 0.6, n)
    table = pd.DataFrame({"sex": sex, "age": age, "class": berth, "alone": alone, "fare": fare})
    table["alone"] = table["alone"].astype("boolean")
    for name, value in (("age", np.nan), ("class", None), ("alone", pd.NA)):
        table.loc[rng.random(n) < 0.12, name] = value
    return table, np.where(score > np.median(score), "yes", "no")


@pytest.fixture(scope="module")
def mixed():
    X, y = passengers()
    return RejectOptionClassifier(threshold=("reject_rate", 0.25)).fit(X[::2], y[::2]), X[1::2], y[1::2]


#: With these categories and numbers change.
CHEAP = {"sex": 0.1, "class": 0.12}


def test_a_report_of_categories_and_gaps_speaks_of_the_tables_columns(mixed):
    classifier, X, y = mixed
    report = classifier.report(X, y, X["sex"], reasons=2, weights=CHEAP)
    whys = [classifier.explain(X.loc[row], weights=CHEAP) for row in X.index[classifier.rejects(X)]]
    assert {*report.features.index} == {*X.columns}
    holds = pd.Series(0, index=X.columns)
    order = np.random.default_rng(0).permutation(len(X))[rejected := np.flatnonzero(classifier.rejects(X))]
    for reason in classifier.sufficient_reason(
        X.iloc[rejected[np.argsort(order)[:2]]], effort=0, weights=CHEAP
    ):
        holds[reason.features] += 1
    for k, name in enumerate(X.columns):
        pairs = [(why.before[k], why.after[k]) for why in whys if k in why.changed]
        row = report.features.loc[name]
        assert row["changed"] == len(pairs)
        assert row["share"] == pytest.approx(len(pairs) / len(whys))
        assert row["holds"] == holds[name]
        expected = sum(why.costs[k] for why in whys) / sum(why.distance for why in whys)
        assert row["cost_share"] == pytest.approx(expected)
        if name in ("age", "fare"):
            change = np.array([after - before for before, after in pairs])
            assert [row["up"], row["down"]] == [(change > 0).sum(), (change < 0).sum()]
            assert row["mean_change"] * len(pairs) == pytest.approx(np.abs(change).sum())
            assert row["most_often"] == ""
            continue
        counts = Counter(f"{'missing' if old is None else old} → {new}" for old, new in pairs)
        assert row["up"] == row["down"] == 0
        assert np.isnan(row["mean_change"])
        assert counts[row["most_often"]] == max(counts.values(), default=0)
    assert report.features.loc[["sex", "fare"], "changed"].min() > 0
    assert " → " in report.features.loc["sex", "most_often"]
    assert not report.to_frame()["value"].isna().any()
    lacks = X[classifier.rejects(X)].isna().sum()
    assert report.features["missing"].reindex(X.columns).tolist() == lacks.tolist()
    assert report.next_steps()[0].startswith("check sex again: it changes in")
    step = f": it is missing in {lacks.max()} of {len(whys)} rejects"
    assert any(text.startswith("fill in ") and text.endswith(step) for text in report.next_steps())


def test_the_typical_case_of_a_mixed_table_is_its_medoid(mixed):
    classifier, X, _ = mixed
    rejects = X[classifier.rejects(X)]
    kinds = np.array([cause.kind for cause in classifier.cause(rejects)])
    taken = rejects.fillna({"age": passengers()[0]["age"][::2].median()})
    for case in classifier.report(X, reasons=0).typical.itertuples():
        own = taken[kinds == case.cause.split()[0]]
        total = np.zeros(len(own))
        for name, scale in zip(X.columns, classifier.scale_, strict=True):
            column = own[name].astype(object).where(own[name].notna(), "none").to_numpy()
            numbers = name in ("age", "fare")
            apart = np.abs(np.subtract.outer(column, column)) if numbers else column[:, None] != column
            total += apart.astype(float).sum(axis=1) / scale
        assert case.sample == own.index[total.argmin()]
        assert case.rejects == len(own)


def test_the_page_and_the_picture_show_changes_of_levels(mixed, tmp_path):
    classifier, X, y = mixed
    report = classifier.report(X, y, reasons=0, weights=CHEAP)
    report.to_html(tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert report.features.loc["sex", "most_often"] in page.texts
    assert not any("nan" in text.split() for text in page.texts)
    changed = report.features[report.features["changed"] > 0]
    bars = [bar.get_width() for bar in report.plot().axes[2].patches[2 * len(changed) :]]
    assert bars == (changed["changed"] - changed["up"] - changed["down"]).tolist()
    assert sum(bars) > 0


def test_rows_without_names_have_a_report():
    X, y = passengers()
    rows = X[["sex", "class"]].fillna("none").to_numpy(dtype=object)
    model = make_pipeline(OneHotEncoder(sparse_output=False), GLVQ())
    classifier = RejectOptionClassifier(model, threshold=("reject_rate", 0.5)).fit(rows, y)
    report = classifier.report(rows.tolist(), y, reasons=0)
    assert report.rates.loc["rejected", "count"] == classifier.rejects(rows).sum() > 0
    assert report.features["changed"].sum() > 0


def test_a_common_change_moves_numbers_and_leaves_categories(mixed):
    classifier, X, _ = mixed
    rejects = X[classifier.rejects(X)].iloc[:14]
    found = classifier.common_change(rejects, 0.5, fixed=["age"])
    assert found.delta.shape == (5,)
    assert (found.delta[:4] == 0).all()
    fare = found.delta[4]
    accepted = ~classifier.rejects(rejects.assign(fare=rejects["fare"] + fare))
    assert (accepted == found.accepted).all()
    assert accepted.sum() >= 7

    def enough(offset):
        moved = rejects["fare"] + offset
        low, high = X_old["fare"].min(), X_old["fare"].max()
        within = (moved >= np.minimum(low, rejects["fare"])) & (moved <= np.maximum(high, rejects["fare"]))
        return (~classifier.rejects(rejects.assign(fare=moved)) & within).sum() >= 7

    X_old = passengers()[0][::2]
    assert not any(enough(sign * size) for sign in (1, -1) for size in np.linspace(0, 0.999 * abs(fare), 100))
    assert found.gap <= 1e-6
    assert found.distance == pytest.approx(abs(fare) / classifier.scale_[4])
    assert str(found).startswith(f"with fare {'+' if fare > 0 else '−'}")


def test_a_common_change_leaves_missing_what_is_missing(mixed):
    classifier, X, _ = mixed
    rejects = X[classifier.rejects(X)]
    lacking = rejects[rejects["age"].isna()]
    some = pd.concat([lacking.iloc[:2], rejects[rejects["age"].notna()].iloc[:4]])
    found = classifier.common_change(some, 0.5, effort=5)

    def enough(age, fare):
        """Return whether 3 are accepted, by the table with the offset added: a gap stays one."""
        moved = some.assign(age=some["age"] + age, fare=some["fare"] + fare)
        good = ~classifier.rejects(moved)
        for name in ("age", "fare"):
            ends = passengers()[0][::2][name]
            low, high = np.minimum(ends.min(), some[name]), np.maximum(ends.max(), some[name])
            good &= moved[name].isna() | ((low <= moved[name]) & (moved[name] <= high))
        return good.sum() >= 3

    age, fare = found.delta[[1, 4]]
    assert (found.delta[[0, 2, 3]] == 0).all()
    assert enough(age, fare)
    scale, rng = classifier.scale_[[1, 4]], np.random.default_rng(0)
    tried = rng.dirichlet([0.5, 0.5, 0.2], 60)[:, :2] * rng.choice([-1, 1], (60, 2)) * scale
    assert not any(enough(*offset) for offset in tried * found.lower_bound * (1 - 1e-6))
    only = classifier.common_change(lacking.iloc[:2].assign(fare=some["fare"].iloc[:2]), 0.5, effort=5)
    assert only.delta[1] == 0  # nobody's age is known
    text = str(classifier.common_change(some, 0.5, fixed=["fare"], effort=5))
    assert "age is missing in 2 of them and stays so" in text
    with pytest.raises(NoCounterfactualError, match=r"of numbers \(categories stay as they are\)"):
        classifier.common_change(rejects, 1.0, fixed=["age", "fare"])


# Edges


def blobs(threshold, **parameters):
    X, y = make_blobs(60, centers=[[0, 0], [2.5, 0], [0, 2.5]], random_state=0)
    return RejectOptionClassifier(GLVQ(), threshold=threshold, **parameters).fit(X, y), X, y


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_nothing_and_everything_rejected(threshold, tmp_path):
    classifier, X, y = blobs(threshold)
    report = classifier.report(X, y, y % 2, fixed=[0], reasons=1)
    assert report.rates.loc["rejected", "share"] == threshold
    assert np.isfinite(report.rates.to_numpy()).all()
    assert np.isfinite(report.features.to_numpy()).all()
    assert report.rates.loc["rejects without a counterfactual", "count"] <= 60 * threshold
    report.to_html(tmp_path / "page.html")
    assert "nan" not in str(report)
    assert "nan" not in (tmp_path / "page.html").read_text().partition("<main>")[0]


def test_rejects_without_an_answer_are_counted_and_told():
    classifier, X, _ = blobs(0.5)
    report = classifier.report(X, fixed=[0, 1], reasons=0)
    row = report.rates.loc["rejects without a counterfactual"]
    assert row["count"] == row["of"] == classifier.rejects(X).sum() > 0
    assert report.features["changed"].sum() == 0
    for case in report.typical.itertuples():
        with pytest.raises(NoCounterfactualError) as none:
            classifier.explain(X[case.sample], fixed=[0, 1])
        assert case.sentence == str(none.value)
    assert report.typical["why"].str.contains("at distance").all()
    assert len(report.costs) == len(report.distances) == 0


def test_shares_of_features_are_of_the_rejects_that_have_an_answer():
    classifier, X, _ = blobs(0.7)
    whys = classifier.explain(X[classifier.rejects(X)], fixed=[0], on_infeasible="skip")
    assert 0 < whys.found.sum() < len(whys)
    shares = classifier.report(X, fixed=[0], reasons=0).features["share"]
    assert shares.sort_index().tolist() == [0.0, 1.0]  # the other feature changes in every answer


def test_local_thresholds_and_unknown_causes_have_a_report():
    X, y = make_blobs(200, centers=[[0, 0], [2.5, 0]], random_state=0)
    local = RejectOptionClassifier(GLVQ(), threshold=("reject_rate", 0.2), local=True).fit(X, y)
    assert "nearest prototype" in str(local.report(X, y, reasons=0))
    local.familiarity_ = type(local.familiarity_)({})
    assert local.report(X, y, reasons=0).causes.index.tolist() == ["of unknown cause"]


def test_missing_groups_are_a_group():
    classifier, X, _ = blobs(0.4)
    groups = pd.Series(["a", None, np.nan] * 20)
    assert classifier.report(X, groups=groups, reasons=0).groups.index.tolist() == ["(missing)", "a"]


def test_groups_may_be_a_column_of_the_table(data, classifier):
    _, _, X, y, _ = data
    X = X.assign(**{"mean area": X["mean area"].round(-3)})
    by_name, given = (classifier.report(X, y, g, reasons=0).groups for g in ("mean area", X["mean area"]))
    pd.testing.assert_frame_equal(by_name, given)


def test_errors_name_the_argument():
    classifier, X, y = blobs(0.4)
    for arguments, message in [
        ({"y": y[:5]}, "y must have a label for each of the 60"),
        ({"y": y.astype(str)}, "y must hold labels of the classes"),
        ({"groups": y[:5]}, "groups must have an entry for each of the 60"),
        ({"groups": np.arange(60)}, "groups must be at most 50"),
        ({"reasons": -1}, "reasons must be"),
        ({"random_state": 0.5}, "random_state must be"),
        ({"on_infeasible": "raise"}, "on_infeasible cannot be given"),
        ({"how": "sparsest"}, "how cannot be given"),
    ]:
        with pytest.raises(ValueError, match=message):
            classifier.report(X, **arguments)


# The page


class Page(html.parser.HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def hostile():
    """Return a report all of whose names are markup."""
    X, y = make_blobs(80, centers=[[0, 0], [2.0, 0]], random_state=0)
    frame = pd.DataFrame(X, columns=["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>'])
    frame.index = [f"<i>{i}</i>" for i in range(80)]
    labels = np.array(["<b>no</b>", "'&amp;"])[y]
    classifier = RejectOptionClassifier(GLVQ(), threshold=("reject_rate", 0.3)).fit(frame, labels)
    groups = pd.Series(np.where(X[:, 0] > 1, "<u>", "</table>"), name="<style>*{}</style>")
    return classifier.report(frame, labels, groups, reasons=2), frame


def test_names_stay_text(hostile, tmp_path):
    report, _ = hostile
    report.to_html(tmp_path / "page.html")
    for text in ((tmp_path / "page.html").read_text(encoding="utf-8"), report._repr_html_()):
        page = Page(text)
        tags = [tag for tag, _ in page.tags]
        assert not {"script", "i", "b", "u"} & {*tags}
        assert tags.count("style") == 1
        assert all(attributes["src"].startswith("data:") for tag, attributes in page.tags if tag == "img")
        assert any("<b>no</b>" in part for part in page.texts)
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "<script>alert(1)</script>" in page.texts
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_every_table_has_a_caption_headers_and_a_box_that_scrolls(report, tmp_path):
    report.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    tags = [tag for tag, _ in page.tags]
    boxes = [attributes for tag, attributes in page.tags if attributes.get("class") == "scroll"]
    assert tags.count("table") == tags.count("caption") == len(boxes) - 1 == 6
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)
    assert all(attributes["scope"] in ("row", "col") for tag, attributes in page.tags if tag == "th")
    headings = [int(tag[1]) for tag in tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == 1
    assert max(np.diff(headings)) == 1
    assert all(attributes["alt"] for tag, attributes in page.tags if tag == "img")
    assert "http" not in text.replace('http-equiv="Content', "")


def test_a_page_is_written_whole_or_not_at_all(report, tmp_path, monkeypatch):
    file = tmp_path / "page.html"
    report.to_html(file)
    before = file.read_bytes()
    report.to_html(file)
    assert file.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        report.to_html(tmp_path / "nowhere" / "page.html")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        report.to_html(file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.slow
def test_pages_of_real_tables_in_a_browser(report, hostile, tmp_path):
    Z, z = load_iris(return_X_y=True, as_frame=True)
    iris = RejectOptionClassifier(option="probabilistic", threshold=("reject_rate", 0.2)).fit(Z, z)
    pages = {
        "cancer": report,
        "iris": iris.report(Z, z, reasons=1),
        "hostile": hostile[0],
    }
    with chromium() as browser:
        looks = [
            ("cancer", "light", 1280),
            ("cancer", "dark", 390),
            ("iris", "dark", 390),
            ("hostile", "light", 1280),
        ]
        for name, scheme, width in looks:
            page = pages[name]
            file = tmp_path / f"{name}.html"
            page.to_html(file)
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            tab, told = context.new_page(), []
            tab.on("console", lambda message, told=told: told.append(message.text))
            tab.on("request", lambda request, told=told: told.append(request.url))
            tab.on("dialog", lambda dialog, told=told: told.append(dialog.message))
            tab.goto(file.as_uri())
            assert [one for one in told if one != file.as_uri() and not one.startswith("data:")] == []
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            found = Axe().run(tab).response["violations"]
            assert [(one["id"], one["impact"]) for one in found] == [], (name, scheme, width)
            dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
            assert dark == (scheme == "dark")
            context.close()


@pytest.mark.slow
def test_forty_thousand_rows_take_bounded_memory():
    rng = np.random.default_rng(0)
    X, y = make_blobs(40_000, n_features=8, centers=3, cluster_std=4.0, random_state=0)
    classifier = RejectOptionClassifier(GLVQ(), threshold=("reject_rate", 0.1)).fit(X[:2000], y[:2000])
    groups = rng.integers(0, 3, len(X))
    tracemalloc.start()
    report = classifier.report(X, y, groups, reasons=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.facts["rejects"] > 2_000
    assert peak < 20e6  # about 3 kB for each reject


# One change for many


def smallest_offset(option, theta, X, wanted, weights, fixed=(), low=-np.inf, high=np.inf):
    """Return the size of the smallest offset: every choice of samples and of a cell for each, by CVXPY."""
    model = option.model
    p, L, label = model.prototypes, model.L, np.asarray(model.labels)

    def squared(z, q):
        return cp.sum_squares(L @ (z - q))

    def linear(z, a, b):
        """Return |L (z - b)|^2 - |L (z - a)|^2, which is linear in z."""
        G = L.T @ L
        return 2 * (a - b) @ G @ z + b @ G @ b - a @ G @ a

    def cells(z):
        for i in range(len(p)):
            others = [j for j in range(len(p)) if label[j] != label[i]]
            if isinstance(option, RelativeSimilarity):
                yield [2 * theta * squared(z, p[i]) <= (1 - theta) * linear(z, p[i], p[j]) for j in others]
                continue
            for k in others:
                same = [linear(z, p[i], p[j]) >= 0 for j in range(len(p)) if label[j] == label[i] and j != i]
                rival = [linear(z, p[k], p[j]) >= 0 for j in others if j != k]
                apart = option.separations[i, k]
                yield [*same, *rival, linear(z, p[i], p[k]) >= 2 * theta * apart]

    best = np.inf
    for rows in combinations(range(len(X)), wanted):
        delta = cp.Variable(X.shape[1])
        for choice in product(*(list(cells(X[i] + delta)) for i in rows)):
            limits = [delta[k] == 0 for k in fixed]
            for i in rows:
                ends = np.minimum(X[i], low), np.maximum(X[i], high)
                limits += [
                    X[i, k] + delta[k] >= ends[0][k] for k in range(len(weights)) if ends[0][k] > -np.inf
                ]
                limits += [
                    X[i, k] + delta[k] <= ends[1][k] for k in range(len(weights)) if ends[1][k] < np.inf
                ]
            program = cp.Problem(
                cp.Minimize(weights @ cp.abs(delta)), [*limits, *chain.from_iterable(choice)]
            )
            program.solve(solver="CLARABEL")
            if program.status in ("optimal", "optimal_inaccurate"):
                best = min(best, program.value)
    return best


def smallest_tried(option, theta, X, wanted, width=8.0):
    """Return the size of the smallest offset of those tried: a grid, and finer ones around its best."""
    best = np.zeros(2)
    for _ in range(4):
        ticks = np.linspace(-width, width, 161)
        offsets = best + np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
        passed = option.accepts((X[:, None] + offsets).reshape(-1, 2), theta).reshape(len(X), -1)
        sizes = np.where(passed.sum(axis=0) >= wanted, np.abs(offsets).sum(axis=1), np.inf)
        best, width = offsets[sizes.argmin()], width / 20
    return sizes.min()


@pytest.mark.parametrize(
    ("make", "seed", "wanted"),
    [
        (RelativeSimilarity, 11, 3),
        (DecisionDistance, 12, 3),
        (DecisionDistance, 17, 5),
        # what is found first is less than a hundredth too large
        (DecisionDistance, 5, 4),
        (RelativeSimilarity, 78, 2),
    ],
)
def test_of_many_cells_of_many_samples_none_is_forgotten(make, seed, wanted):
    """Cells that are not a sample's nearest are the best for all, and others are nearly as good."""
    rng = np.random.default_rng(seed)
    m = int(rng.choice([4, 6]))
    option = make(PrototypeModel(3 * rng.normal(size=(m, 2)), np.arange(m) % 2))
    many = 2 * rng.normal(size=(300, 2))
    theta = float(np.quantile(option.certainty(many), 0.75))
    X = many[~option.accepts(many, theta)][: int(rng.choice([3, 4, 6]))]
    found = common_change(option, theta, X, wanted / len(X))
    tried = smallest_tried(option, theta, X, wanted)
    assert option.accepts(X + found.delta, theta).sum() >= wanted
    assert found.lower_bound <= found.distance <= tried <= found.distance * (1 + 1e-4)


@pytest.mark.parametrize(
    ("make", "seed", "labels"),
    [(RelativeSimilarity, 0, "abc"), (RelativeSimilarity, 1, "aab"), (DecisionDistance, 1, "aab")],
)
def test_a_common_change_is_the_smallest_of_all_choices(make, seed, labels):
    rng = np.random.default_rng(seed)
    model = PrototypeModel(3 * rng.normal(size=(3, 2)), np.array(list(labels)), rng.normal(size=(2, 2)))
    option, many = make(model), rng.normal(size=(200, 2))
    theta = float(np.quantile(option.certainty(many), 0.6))
    X = many[~option.accepts(many, theta)][:4]
    weights = np.array([1.0, 2.0])
    for share, wanted in ((0.5, 2), (0.75, 3)):
        expected = smallest_offset(option, theta, X, wanted, weights)
        found = common_change(option, theta, X, share, weights=weights, effort=2000)
        assert found.distance == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert found.lower_bound <= expected * (1 + 1e-5) + 1e-7
        assert found.gap <= 1e-5
        assert found.distance == pytest.approx(weights @ np.abs(found.delta))
        assert option.accepts(X + found.delta, theta).sum() >= wanted == found.wanted
        assert (option.accepts(X + found.delta, theta) == found.accepted).all()


def test_a_common_change_keeps_to_fixed_features_and_bounds():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [4, 1]], ["a", "b"], feature_names=["w", "h"]))
    X = np.array([[1.9, 0.3], [2.1, 0.2], [2.2, 0.9]])
    for asked in ({"fixed": [1]}, {"bounds": {0: (1.0, 3.2)}}):
        found = common_change(option, 0.6, X, 1.0, **asked, effort=500)
        fixed, ends = asked.get("fixed", ()), asked.get("bounds", {0: (-np.inf, np.inf)})[0]
        low, high = np.array([ends[0], -np.inf]), np.array([ends[1], np.inf])
        expected = smallest_offset(option, 0.6, X, 3, np.ones(2), fixed, low, high)
        assert found.distance == pytest.approx(expected, rel=1e-4)
        assert found.gap <= 1e-5
        assert (found.delta[list(fixed)] == 0).all()
        moved = X + found.delta
        assert ((low <= moved) & (moved <= high)).all()
        assert option.accepts(moved, 0.6).all()
    up = common_change(option, 0.6, X, 1.0, increase_only=[0, 1])
    assert (up.delta >= 0).all()
    as_a = common_change(option, 0.6, X, 1.0, target="a")
    assert (option.predict(X + as_a.delta) == "a").all()


def test_the_sentence_of_a_common_change_is_true_as_shown():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [4, 1]], ["a", "b"], feature_names=["w", "h"]))
    X = np.array([[1.9, 0.3], [2.1, 0.2], [2.2, 0.9]])
    found = common_change(option, 0.6, X, 0.6)
    text = str(found)
    shown = {
        w.split()[0]: float(w.split()[1].replace("−", "-"))
        for w in text.split("with ")[1].split(" for all")[0].split(" and ")
    }
    delta = np.array([shown.get("w", 0.0), shown.get("h", 0.0)])
    assert f"{option.accepts(X + delta, 0.6).sum()} of 3 samples are accepted" in text
    assert option.accepts(X + delta, 0.6).sum() >= 2
    assert np.abs(delta).sum() <= found.distance * 1.02
    assert common_change(option, 0.6, [[0.0, 0.0], [4.0, 1.0]]).distance == 0.0


def test_a_common_change_that_is_impossible_is_told_why():
    option = RelativeSimilarity(PrototypeModel([[0, 0], [4, 0]], ["a", "b"], feature_names=["w", "h"]))
    X = np.array([[1.9, 0.3], [2.1, 0.2]])
    with pytest.raises(NoCounterfactualError, match=r"no common change.*only 0 were found.*fixing w"):
        common_change(option, 0.6, X, 1.0, fixed=["w"])
    apart = np.array([[0.5, 0.0], [3.5, 0.0]])  # each is near its own prototype
    with pytest.raises(
        NoCounterfactualError, match=r"there is no .* each of 2 can .* alone, but not so many"
    ):
        common_change(option, 0.99, apart, 1.0, bounds={"w": (0.0, 4.0), "h": (-9.0, 9.0)})
    with pytest.raises(NoCounterfactualError, match=r"was found with .* alone, but no change was found"):
        common_change(option, 0.99, apart, 1.0, bounds={"w": (0.0, 4.0)})  # not found is no proof
    for wrong, message in (({"share": 0.0}, "share"), ({"effort": 0}, "effort")):
        with pytest.raises(ValueError, match=f"{message} must be"):
            common_change(option, 0.6, X, **wrong)
    with pytest.raises(ValueError, match="X must have several samples"):
        common_change(option, 0.6, X[0])


def test_bounds_that_leave_one_value_are_met_to_the_digit():
    option = RelativeSimilarity(PrototypeModel([[0.1, 0], [4.3, 0]], ["a", "b"]))
    X = np.array([[2.0, 0.3], [2.0, 0.7], [2.0, 0.1]])
    found = common_change(option, 0.6, X, 1.0, bounds={0: (0.25, 0.25)})
    assert (X[:, 0] + found.delta[0] == 0.25).all()
    assert option.accepts(X + found.delta, 0.6).all()
    assert found.gap < 1e-9
    with pytest.raises(NoCounterfactualError, match=r"no common change .* each of 3 can be"):
        common_change(
            option, 0.6, X + np.array([[0.0, 0], [0.1, 0], [0.2, 0]]), 1.0, bounds={0: (0.25, 0.25)}
        )


@pytest.fixture(scope="module")
def probable():
    X, y = load_iris(return_X_y=True)
    option = ProbabilisticCertainty().fit(X, y)
    theta = float(np.quantile(option.certainty(X), 0.1))
    return option, theta, X[~option.accepts(X, theta)][:6]


def smaller_offset(option, theta, X, wanted, start, rounds=150, seed=0):
    """Return the size of a small offset near a first one: random steps, each shortened as far as it goes."""
    rng, best = np.random.default_rng(seed), start

    def enough(offsets):
        moved = X[None] + offsets[:, None]
        return option.accepts(moved.reshape(-1, X.shape[1]), theta).reshape(len(offsets), -1).sum(1) >= wanted

    for step in np.geomspace(1, 1e-3, rounds):
        trial = best + step * np.abs(best).max() * rng.normal(size=(40, len(best))) * rng.integers(
            0, 2, (40, 1)
        )
        trial = np.where(rng.random(trial.shape) < 0.2, 0.0, trial)
        trial = np.vstack([part * trial for part in np.linspace(0.8, 1, 5)])
        sizes = np.where(enough(trial), np.abs(trial).sum(axis=1), np.inf)
        best = trial[sizes.argmin()] if sizes.min() < np.abs(best).sum() else best
    return np.abs(best).sum()


@pytest.mark.parametrize(("share", "gap"), [(0.5, 0.06), (1.0, 0.5)])
def test_with_probabilities_of_three_classes_no_search_finds_less_than_the_bound(probable, share, gap):
    option, theta, rejects = probable
    wanted = int(6 * share)
    found = common_change(option, theta, rejects, share)
    assert option.accepts(rejects + found.delta, theta).sum() >= wanted
    alone = np.sort(explain(option, theta, rejects).distances)
    searched = smaller_offset(option, theta, rejects, wanted, found.delta)
    assert found.lower_bound <= searched * (1 + 1e-9)
    assert searched >= 0.97 * found.distance
    assert found.lower_bound >= alone[wanted - 1] * (1 - 2e-3)
    assert 0 < found.gap <= gap


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("level", [0.0, 0.02, 0.1, 0.4, 0.7])
def test_cells_cover_all_that_is_probable_enough(probable, normalize, level):
    known = probable[0]
    option = ProbabilisticCertainty.from_pairs(
        known.models_, known.alpha_, known.beta_, known.classes, normalize
    )
    rng = np.random.default_rng(0)
    corner = load_iris().data
    X = corner[rng.integers(len(corner), size=4000)] + rng.normal(0, 0.7, (4000, 4))
    theta = float(np.quantile(option.certainty(X), level)) if level else 1e-9
    accepted = X[option.accepts(X, theta)]
    labels, cover = option.predict(accepted), option.cells(theta).cover()
    for label, name in enumerate(option.classes):
        inside = [cell.contains(accepted, 1e-9) for cell in cover if cell.label == label]
        assert np.array(inside).reshape(len(inside), -1).any(axis=0)[labels == name].all()


def test_a_classifier_knows_units_and_ranges(data, classifier):
    X = data[2]
    rejects = X[classifier.rejects(X)].iloc[:8]
    found = classifier.common_change(rejects, 0.5, effort=5)
    assert found.distance == pytest.approx(np.abs(found.delta) @ (1 / classifier.scale_))
    assert (~classifier.rejects(rejects + found.delta)).sum() >= 4
    moved = (rejects + found.delta).to_numpy()[found.accepted]
    seen, own = classifier.observed_, rejects.to_numpy()[found.accepted]
    assert ((np.minimum(seen.lower, own) <= moved) & (moved <= np.maximum(seen.upper, own))).all()
    assert "within the observed ranges" in str(found)


# The command


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X, y = load_iris(return_X_y=True, as_frame=True)
    file = tmp_path_factory.mktemp("data") / "iris.csv"
    X.assign(species=np.array(["a", "b", "c"])[y], site=["n", "s"] * 75).to_csv(file, index=False)
    return file


def test_the_command_fits_reports_loads_and_explains(table, tmp_path, capsys):
    page, model = tmp_path / "page.html", tmp_path / "model.json"
    fitted = ["--label", "species", "--groups", "site", "--threshold", "reject_rate", "0.2"]
    assert main(["report", str(table), *fitted, "--out", str(page)]) == 0
    told = capsys.readouterr().out
    assert "Fitted to 75 rows; reported are the other 75." in told
    frame = pd.read_csv(table)
    X = frame.drop(columns=["species", "site"])
    classifier = RejectOptionClassifier(threshold=("reject_rate", 0.2)).fit(X, frame["species"])
    classifier.save(model)
    row = int(np.flatnonzero(classifier.rejects(X))[0])
    assert main(["explain", str(table), "--row", str(row), "--model", str(model)]) == 0
    assert str(classifier.explain(X.iloc[row])) in capsys.readouterr().out
    fixed = "petal length (cm)"
    assert main(["explain", str(table), "--row", str(row), "--model", str(model), "--fixed", fixed]) == 0
    assert str(classifier.explain(X.iloc[row], fixed=[fixed])) in capsys.readouterr().out
    every = ["--fixed", *X.columns]
    assert main(["explain", str(table), "--row", str(row), "--model", str(model), *every]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"Row {row}: rejected; with the observed ranges and fixed, no input reaches a")
    assert "ambiguous between" in told
    assert main(["report", str(table), "--model", str(model), "--out", str(page)]) == 0
    assert f"{classifier.rejects(X).sum()} of 150 samples are rejected" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "150 samples are rejected" in text
    gaps = classifier.explain(X[classifier.rejects(X)]).gaps
    assert f"For {(gaps <= 0.01).sum()} of {len(gaps)} it is proven" in text


def test_the_command_explains_a_row_that_the_model_has_not_seen(table, capsys):
    assert main(f"explain {table} --label species --drop site --row 70 --threshold 0.9".split()) == 0
    assert capsys.readouterr().out.startswith("Row 70: rejected: relative similarity")


def test_the_command_takes_categories_and_gaps(tmp_path, capsys):
    X, y = passengers()
    X.assign(survived=y).to_csv(file := tmp_path / "passengers.csv", index=False)
    words = [str(file), "--label", "survived", "--threshold", "reject_rate", "0.25"]
    page = tmp_path / "page.html"
    assert main(["report", *words, "--groups", "sex", "--out", str(page)]) == 0
    told = capsys.readouterr().out
    assert "of 120 samples are rejected" in told
    assert "roups" in told
    texts = Page(page.read_text(encoding="utf-8")).texts
    assert {"age", "class", "alone", "fare", "female", "male"} <= {*texts}
    row = int(np.flatnonzero(X["age"].isna())[0])
    assert main(["explain", *words[:-3], "--threshold", "0.9", "--row", str(row)]) == 0
    assert "age was missing, taken as" in capsys.readouterr().out


def test_what_is_wrong_is_said_in_one_line(table, tmp_path, capsys):
    once, empty, junk, wide = (tmp_path / f"{name}.csv" for name in ("once", "empty", "junk", "wide"))
    wide.write_text("species,site\n1,a,n\n2,b,s\n")
    frame = pd.read_csv(table)
    frame.assign(species=["once", *frame["species"][1:]]).to_csv(once, index=False)
    frame.assign(species=[None, *frame["species"][1:]]).to_csv(empty, index=False)
    junk.write_bytes(b"\xff\xfe\x00\x01,\x80")
    out, fit = ["--out", str(tmp_path / "page.html")], ["--label", "species", "--drop", "site"]
    for words, message in [
        (["report", "nowhere.csv", *fit, *out], "nowhere.csv: there is no such file"),
        (["report", str(junk), *fit, *out], "junk.csv cannot be read as CSV"),
        (["report", str(table), "--label", "kind", *out], "--label must name a column; found 'kind'"),
        (["report", str(table), *out], "--label must name the column of the classes"),
        (["report", str(table), *fit, "--groups", "side", *out], "--groups must name a column"),
        (["report", str(table), "--label", "species", "--drop", "side", *out], "--drop must name a column"),
        (["report", str(once), *fit, *out], "class once of column 'species' is seen only once"),
        (["report", str(empty), *fit, *out], "has no label in row 0"),
        (["report", str(table), *fit, "--threshold", "risk", "much", *out], "'much' is no number"),
        (["report", str(table), *fit, "--threshold", "kne", *out], "threshold must be a number, 'knee'"),
        (["report", str(table), *fit, "--option", "none", *out], "option must be"),
        (["report", str(table), *fit, "--fixed", "height", *out], "fixed must hold names"),
        (["report", str(table), *fit, "--out", str(tmp_path / "no" / "page.html")], "--out must be a file"),
        (["report", str(table), "--model", str(table), *out], "is not a stored classifier"),
        (
            ["report", str(table), "--model", "m.json", "--option", "probabilistic", *out],
            "cannot be given with",
        ),
        (["report", str(wide), *fit, *out], "does not match length of data"),
        (["explain", str(table), *fit, "--row", "150"], "--row must be from 0 to 149"),
    ]:
        assert main(words) == 2, words
        told = capsys.readouterr()
        assert message in told.err
        assert "\n" not in told.err.strip().removeprefix("note")
        assert told.out == ""
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_the_command_is_one(table, tmp_path):
    words = [sys.executable, "-m", "lvqrej", "report", str(table), "--label", "nothing", "--out", "x.html"]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr
    assert ran.stderr.startswith("lvqrej: error: --label must name a column")
