"""The comparison of options against the same nested cross-validation by hand."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedKFold

from lvqrej import GLVQ, RejectOptionClassifier
from lvqrej.comparison import compare_options


@pytest.fixture(scope="module")
def data():
    return make_blobs(150, centers=[[0, 0], [2.5, 0], [0, 2.5]], random_state=0)


@pytest.fixture(scope="module")
def found(data):
    options, rules = ["relative-similarity", "decision-distance"], [("reject_rate", 0.2), 0.3]
    models = {"one": GLVQ(), "two": GLVQ(beta=4)}
    return compare_options(*data, options=options, estimators=models, thresholds=rules, cv=3)


def test_every_combination_is_judged_on_what_it_was_not_fitted_to(data, found):
    X, y = data
    table = found.to_frame()
    assert len(table) == 8
    rejects = errors = 0
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        classifier = RejectOptionClassifier(
            GLVQ(beta=4), "decision-distance", ("reject_rate", 0.2), cv=3
        ).fit(X[train], y[train])
        labels = classifier.predict(X[test])
        rejects += (labels == -1).sum()
        errors += ((labels != -1) & (labels != y[test])).sum()
    row = table.loc[("two", "decision-distance", "reject_rate 0.2")]
    assert row["rejected"] == pytest.approx(rejects / 150)
    assert row["risk"] == pytest.approx(errors / (150 - rejects))
    expected = binomtest(int(errors), int(150 - rejects)).proportion_ci(0.95)
    np.testing.assert_allclose(row[["risk_low", "risk_high"]].astype(float), expected, atol=1e-9)
    assert row["augrc_low"] <= row["augrc"] <= row["augrc_high"]
    assert (table["reached"] == 3).all()


def test_the_picture_has_a_row_per_combination(found):
    figure = found.plot()
    assert len(figure.axes) == 3
    for ax, column in zip(figure.axes, ["rejected", "risk", "augrc"], strict=True):
        np.testing.assert_allclose(ax.lines[0].get_xdata(), found.table[column])
    assert len(figure.axes[0].get_yticks()) == 8


def test_what_no_fold_reaches_is_counted(data):
    found = compare_options(
        *data,
        options=["relative-similarity"],
        estimators={"one": GLVQ()},
        thresholds=[("risk", 0.001, 0.99)],
        cv=2,
    )
    assert found.to_frame()["reached"].tolist() == [0]


def test_a_comparison_is_read_as_a_table(found):
    lines = str(found).splitlines()
    assert len(lines) == 2 + len(found.to_frame())
    assert "..." not in str(found)
    assert "augrc_high" in lines[0]
