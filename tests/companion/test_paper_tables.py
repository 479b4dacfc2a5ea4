"""The rules by which the book's chapters judge cells and conclusions."""

import numpy as np
import pandas as pd
import pytest

from companion.paper_tables import DATA, FEATURES, shown
from companion.rules import count, precision_above_chance, replicated, times, verdict


@pytest.mark.parametrize(
    ("holds", "word"),
    [([1, 1, 1], "confirmed"), ([1, 1, 0], "qualified"), ([1, 0], "qualified"), ([1, 0, 0], "not confirmed")],
)
def test_a_verdict_depends_on_the_share_of_cells_only(holds, word):
    assert verdict(holds) == verdict(np.array(holds, dtype=bool)) == verdict(pd.Series(holds[::-1])) == word


@pytest.mark.parametrize(
    ("yes", "word"), [(10, "replicated"), (8, "replicated"), (7, "partly replicated"), (4, "not replicated")]
)
def test_cells_without_a_statement_do_not_count(yes, word):
    words = ["yes"] * yes + ["no"] * (10 - yes)
    assert replicated(words) == replicated([*words, "stand-in", "no result"]) == word
    assert count([*words, "stand-in"]) == f"{yes} of 10"


def test_nothing_judged_is_no_result():
    assert replicated(["stand-in", "no result"]) == verdict([]) == "no result"
    assert count([]) == "0 of 0"


def test_thousands_are_set_apart():
    assert count([True] * 1500 + [False] * 1500) == "1,500 of 3,000"


def test_times_in_words():
    assert [times(n) for n in (1, 2, 10)] == ["once", "twice", "10 times"]


def test_every_data_set_has_a_title_and_a_number_of_features():
    assert set(DATA) == set(FEATURES)


def test_cells_are_shown_with_deviations_not_variances():
    cell = {"our_data": "flip_synthetic", "column": "Algo_proba2_sparsity", "mean": 11.5, "variance": 1.44}
    for who in ("ours", "deviating"):
        cell |= {f"{who}_mean": 2.0, f"{who}_variance": 0.25, f"{who}_n": 2086.0}
        cell |= {f"{who}_sd_repetitions": 0.125, f"{who}_agrees": "stand-in"}
    row = shown(pd.DataFrame([cell])).iloc[0]
    assert row[["data", "column", "n", "spread"]].tolist() == [
        "Flip (synthetic)",
        "Algo 3",
        "2,086; 2,086",
        "0.12; 0.12",
    ]
    assert row[["paper", "ours"]].str.replace("\u00a0", " ").tolist() == ["11.50 ± 1.20", "2.00 ± 0.50"]


@pytest.mark.parametrize(
    ("precision", "error", "clear"), [(0.5, 0.01, True), (0.5, 0.2, False), (0.38, 0.01, False)]
)
def test_precision_is_clearly_above_chance_by_size_and_by_standard_errors(precision, error, clear):
    head = {"variant": "ours", "experiment": "goodness", "data": "wine", "model": "GLVQ"}
    head |= {"option": "probabilistic", "method": "exact", "n_folds": 5}
    rows = [
        head | {"measure": "precision", "mean": precision, "variance_folds": 4 * error**2},
        head | {"measure": "chance", "mean": 0.3, "variance_folds": 0.0},
        head | {"measure": "precision", "mean": 0.9, "variance_folds": 0.0, "variant": "published"},
    ]
    found = precision_above_chance(pd.DataFrame(rows))
    assert len(found) == 1
    assert found["clear"].item() == clear
    assert found["standard_error"].item() == pytest.approx(error)
    assert found["chance"].item() == pytest.approx(0.3)
