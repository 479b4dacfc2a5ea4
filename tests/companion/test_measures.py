"""What the paper's tables are made of, against numbers worked out by hand."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from companion.experiments import measured_rows, perturbation, samples_to_explain
from companion.protocol import FoldFits
from companion.results import aggregates, overlaps
from companion.rules import agreement
from lvqrej import PrototypeModel, RelativeSimilarity

CELL = {"variant": "ours", "data": "iris", "model": "GLVQ", "option": "relative_similarity"}


def row(method, sample=0, repetition=0, fold=0, **values):
    place = {"experiment": "properties", "method": method, "repetition": repetition, "fold": fold}
    return CELL | place | {"sample": sample, "found": 1, "valid": 1, "l0": 1, "l1": 1.0} | values


def units(repetitions=2, folds=2):
    return pd.DataFrame(
        [CELL | {"repetition": r, "fold": f} for r in range(repetitions) for f in range(folds)]
    )


def test_mean_variance_and_deviation_by_hand():
    """Variances divide by n; the deviation of repetitions by their number less one."""
    by_fold = {(0, 0): (1.0, 3.0), (0, 1): (5.0,), (1, 0): (7.0,), (1, 1): (9.0, 11.0, 13.0)}
    rows = [
        row("exact", sample=k, repetition=r, fold=f, l1=value, valid=int(value != 13))
        for (r, f), values in by_fold.items()
        for k, value in enumerate(values)
    ]
    table = aggregates(pd.DataFrame(rows), units()).set_index("measure")
    l1, every = table.loc["l1"], np.array([1.0, 3, 5, 7, 9, 11, 13])
    assert (l1["mean"], l1["n"]) == (7, 7)
    assert l1["variance"] == pytest.approx(((every - 7) ** 2).sum() / 7)
    folds = np.array([2.0, 5, 7, 11])
    assert l1["mean_folds"] == pytest.approx(6.25)
    assert l1["variance_folds"] == pytest.approx(((folds - 6.25) ** 2).sum() / 4)
    assert l1["sd_repetitions"] == pytest.approx(np.sqrt(((3 - 6.5) ** 2 + (10 - 6.5) ** 2) / 1))
    assert (table.loc["l1_valid", "mean"], table.loc["l1_valid", "n"]) == (6, 6)


def test_overlap_is_what_both_change_over_what_either_changes():
    """0b0011 and 0b0110 share one of three; two that change nothing agree; what was not found is left out."""
    rows = [
        *(row("exact", k, changed=mask) for k, mask in enumerate(("3", "f", "0", "1"))),
        *(row("nearest", k, changed=mask) for k, mask in enumerate(("6", "3", "0"))),
        row("nearest", 3, changed="1", found=0),
        row("nearest", 9, changed="7"),
    ]
    goodness = [row(method, 0, changed="f") | {"experiment": "goodness"} for method in ("exact", "nearest")]
    (pair,) = overlaps(pd.DataFrame(rows + goodness), None).to_dict("records")
    assert (pair["first"], pair["second"], pair["n"]) == ("exact", "nearest", 3)
    assert pair["mean"] == pytest.approx((1 + 2 + 0) / 3)
    assert pair["variance"] == pytest.approx(((1 - 1) ** 2 + (2 - 1) ** 2 + (0 - 1) ** 2) / 3)
    assert pair["jaccard"] == pytest.approx((1 / 3 + 2 / 4 + 1) / 3)


def fold(d, n=4000):
    X = np.random.default_rng(0).normal(size=(n, d))
    return SimpleNamespace(prepared=SimpleNamespace(X_test=X), repetition=0, fold=0)


@pytest.mark.parametrize(("d", "perturbed"), [(2, 1), (10, 3), (13, 4), (30, 9)])
def test_noise_of_variance_one_is_on_three_of_ten_features(d, perturbed):
    fits = fold(d)
    X, mask = perturbation(fits)
    noise = X - fits.prepared.X_test
    assert mask.sum() == perturbed
    assert (noise[:, ~mask] == 0).all()
    assert abs(noise[:, mask].mean()) < 0.05
    assert noise[:, mask].std() == pytest.approx(1, abs=0.05)


def test_goodness_explains_what_was_accepted_until_the_noise_came():
    option, fits = RelativeSimilarity(PrototypeModel([[-2, 0], [2, 0]], [0, 1])), fold(2, 300)
    X, places, rejected = samples_to_explain("goodness", fits, option, 0.5)
    noisy = perturbation(fits)[0]
    before, after = (option.certainty(part) < 0.5 for part in (fits.prepared.X_test, noisy))
    assert set(rejected) == set(np.flatnonzero(before))
    assert (before & after).any()
    assert set(places) == set(np.flatnonzero(~before & after))
    assert (noisy[places] == X).all()


def test_nearly_valid_is_short_of_the_threshold_by_a_ten_thousandth():
    option = RelativeSimilarity(PrototypeModel([[0.0], [2.0]], [0, 1]))
    points = np.array([[0.5], [0.5], [0.5], [0.5]])
    certainty = float(option.certainty(points)[0])
    for short, nearly in ((0.0, 1), (5e-5, 1), (5e-4, 0)):
        task = SimpleNamespace(option=option, theta=certainty + short)
        first, *_ = measured_rows(task, np.array([[1.0]]), points[:1], np.array([True]))
        assert (first["valid"], first["nearly_valid"]) == (int(short == 0), nearly)
        assert first["l1"] == 0.5


def test_of_equal_scores_the_fewest_prototypes_are_taken(monkeypatch):
    fits = object.__new__(FoldFits)
    object.__setattr__(fits, "sizes", (1, 2, 3, 4))
    scores = [(0.90, 0.7), (0.95, 0.8), (0.95, 0.9), (0.80, 0.9)]
    grid = [{"accuracy": a, "area_relative_similarity": b} for a, b in scores]
    monkeypatch.setattr(FoldFits, "grid", grid)
    assert [fits.best(name) for name in ("accuracy", "area", "weighted")] == [2, 3, 3]


def test_two_means_agree_within_two_standard_errors_and_not_beyond():
    """Of ours 50 values; of the paper's as many as we explain in one repetition, 8 in each of 5 folds."""
    head = {"data": "wine", "our_data": "wine", "option": "probabilistic", "experiment": "goodness"}
    ours = {"measure": "l0", "mean": 5.0, "variance": 1.0, "ours_variance": 2.0, "ours_n": 50}
    none = dict.fromkeys(("deviating_mean", "deviating_variance", "deviating_n"), np.nan)
    error = np.sqrt(2.005 * (1 / 50 + 1 / 40))
    means = [{"ours_mean": 5 + k * error} for k in (1.99, -1.99, 2.01, -2.01)]
    unit = {"data": "wine", "model": "GMLVQ", "option": "probabilistic", "variant": "ours", "n_goodness": 8}
    found = agreement(
        pd.DataFrame([head | ours | none | mean for mean in means]),
        pd.DataFrame([unit | {"repetition": k // 5} for k in range(10)]),
    )
    assert found["ours_agrees"].tolist() == ["yes", "yes", "no", "no"]
    assert found["ours_tolerance"].to_numpy() == pytest.approx(2 * error)
