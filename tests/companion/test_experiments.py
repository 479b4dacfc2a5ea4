"""The experiments: measures against brute force, each switch, seeds, resumption, and stored models."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from companion import reproduce, runner
from companion.datasets import PUBLISHED, load
from companion.deviations import FINDINGS, METHODS, OPTIONS, Deviations, ablation, variant
from companion.evaluation import changed_features, from_hex, goodness, overlap, to_hex
from companion.experiments import Caps, option_of, perturbation, run_unit, samples_to_explain, scaled_samples
from companion.methods import Task, counterfactuals, methods_for
from companion.paper_tables import published_tables, side_by_side
from companion.protocol import FALLBACK_RATE, GRID, FoldFits
from companion.published import THRESHOLDS, UnsignedPairs, farthest_training_sample, shifted_threshold
from companion.results import load_models, merge, provenance
from companion.rules import agreement
from companion.runner import Study, Unit, run
from lvqrej import (
    GLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    accuracy_reject_curve,
    explain,
)

RESULTS = Path(__file__).parents[2] / "book" / "results"
FEW = Caps(4, 1, 4, 0, 0)
TINY = Study(("iris",), 1, 1, 0, models=("GLVQ",), caps=FEW, other_caps=FEW, sizes=(1,))
derandomized = settings(max_examples=30)
masks = arrays(bool, st.tuples(st.integers(1, 4), st.integers(1, 9)))


@pytest.fixture(scope="module")
def wine():
    return load("wine")


@pytest.fixture(scope="module")
def fits(wine):
    """One fold of Wine with GMLVQ, without a grid search."""
    return FoldFits(wine, "GMLVQ", 0, 0, sizes=(1,))


def task(fits, option, **switches):
    """Return the task of explaining the test samples below the 40 % quantile of the certainty, and these."""
    deviations = Deviations(**switches)
    (made,) = fits._options(option, deviations, 2, [fits.prepared])
    certainties = made.certainty(fits.prepared.X_test)
    theta = float(np.quantile(certainties, 0.4))
    rejected = np.flatnonzero(certainties < theta)
    return Task(made, theta, fits.candidates, rejected, deviations), fits.prepared.X_test[rejected]


# --- measures -----------------------------------------------------------------------------------------


@derandomized
@given(st.data())
def test_goodness_is_its_definition(data):
    changed = data.draw(masks)
    truth = data.draw(arrays(bool, changed.shape[1]).filter(np.any))
    scores = goodness(changed, truth)
    for i, row in enumerate(changed):
        named, real = set(np.flatnonzero(row)), set(np.flatnonzero(truth))
        hits = len(named & real)
        recall, precision = hits / len(real), hits / len(named) if named else 0.0
        f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
        assert scores.recall[i] == pytest.approx(recall)
        assert scores.precision[i] == pytest.approx(precision)
        assert scores.f1[i] == pytest.approx(f1)
        assert scores.chance[i] == pytest.approx(len(real) / len(row))


@derandomized
@given(masks)
def test_a_dense_answer_has_recall_one_and_the_precision_of_chance(changed):
    truth = np.zeros(changed.shape[1], dtype=bool)
    truth[0] = True
    dense = goodness(np.ones_like(changed), truth)
    assert (dense.recall == 1).all()
    np.testing.assert_allclose(dense.precision, dense.chance)


@derandomized
@given(st.data())
def test_overlap_and_hex_are_sets(data):
    first = data.draw(masks)
    second = data.draw(arrays(bool, first.shape))
    expected = [
        len(set(np.flatnonzero(a)) & set(np.flatnonzero(b))) for a, b in zip(first, second, strict=True)
    ]
    assert overlap(first, second).tolist() == expected
    assert (from_hex(to_hex(first), first.shape[1]) == first).all()


def test_a_feature_is_changed_above_the_limit_only():
    X, points = np.zeros((1, 4)), np.array([[1e-5, 1.1e-5, -2e-3, 0.0]])
    assert changed_features(X, points).tolist() == [[False, True, True, False]]
    assert changed_features(X, points, 1e-3).tolist() == [[False, False, True, False]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: changed_features([[0.0]], [[0.0], [1.0]]), "counterfactuals must have 1 rows"),
        (lambda: overlap([[True]], [[True, False]]), "second must have shape"),
        (lambda: overlap([[1]], [[True]]), "first must be booleans"),
        (lambda: goodness([[True]], [False]), "perturbed must be"),
        (lambda: variant("mine"), "variant must be one of"),
        (lambda: variant("only:nothing"), "switch of the variant"),
        (lambda: Deviations().without("nothing"), "name must be one of"),
        (lambda: FoldFits(load("iris"), "LVQ", 0, 0), "model must be one of"),
        (lambda: FoldFits(load("iris"), "GLVQ", 0, 5), "fold must be"),
        (lambda: Study(("rain",)), "data must be one of"),
        (lambda: Study(models=("SVM",)), "models must be one of"),
        (lambda: Study(repetitions=-1), "repetitions must be"),
        (lambda: farthest_training_sample([[0.0]], [[1.0]], [0]), "candidates must outnumber"),
        (
            lambda: run_unit(FoldFits(load("iris"), "GLVQ", 0, 0), "probabilistic", "published"),
            "fits must be",
        ),
        (lambda: run(TINY, "nowhere", jobs=0), "jobs must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- protocol -----------------------------------------------------------------------------------------


def test_grid_search_takes_the_best_and_on_a_tie_the_fewest_prototypes(wine, monkeypatch):
    made = FoldFits(wine, "GLVQ", 0, 0)
    columns = zip(
        GRID, (0.9, 0.95, 0.95, 0.8, 0.7), (0.5, 0.6, 0.6, 0.99, 0.1), (0.1, 0.2, 0.3, 0.4, 0.5), strict=True
    )
    names = ("prototypes_per_class", "accuracy", "area_relative_similarity", "area_decision_distance")
    monkeypatch.setattr(FoldFits, "grid", [dict(zip(names, row, strict=True)) for row in columns])
    assert made.best() == 2
    assert made.best("area") == 4
    assert made.best("weighted") == 4
    assert made.best("area", "decision_distance") == 5


def test_grid_is_validated_on_rows_it_was_not_trained_on():
    made = FoldFits(load("iris"), "GLVQ", 0, 0, sizes=(1, 3))
    grid = made.grid
    assert [entry["prototypes_per_class"] for entry in grid] == [1, 3]
    first = [
        np.mean(model.predict(part.X_test) == part.y_test)
        for model, part in zip(made.inner_models(1), made.inner, strict=True)
    ]
    assert grid[0]["accuracy"] == pytest.approx(np.mean(first))
    for part in made.inner:
        np.testing.assert_allclose(part.X_train.mean(axis=0), 0, atol=1e-12)
        assert sorted(np.unique(part.y_test)) == [0, 1, 2]


def test_test_rows_influence_nothing_that_is_fitted():
    data = load("iris")
    made = FoldFits(data, "GLVQ", 0, 0, sizes=(1,))
    altered = data.X.copy()
    altered.iloc[made.test] += 100.0
    other = FoldFits(replace(data, X=altered), "GLVQ", 0, 0, sizes=(1,))
    ours, theirs = (f.fitted("relative_similarity", Deviations()) for f in (made, other))
    assert ours.threshold == theirs.threshold
    assert (ours.option.model.prototypes == theirs.option.model.prototypes).all()


@pytest.mark.parametrize("option", OPTIONS)
def test_the_threshold_rejects_about_the_share_of_the_knee(fits, option):
    threshold = fits.fitted(option, Deviations()).threshold
    assert threshold.rule in ("knee", "fallback rate")
    assert 0 < threshold.rate < 0.5
    (made,) = fits._options(option, Deviations(), 1, [fits.prepared])
    rejected = ~made.accepts(fits.candidates, threshold.theta)
    assert 0 < rejected.mean() < 0.5


def test_without_a_knee_a_stated_share_is_rejected(fits, monkeypatch):
    inner = [RelativeSimilarity(m) for m in fits.inner_models(1)]
    for option, part in zip(inner, fits.inner, strict=True):
        monkeypatch.setattr(option, "predict", lambda X, y=part.y_test: y)
    (final,) = fits._options("relative_similarity", Deviations(), 1, [fits.prepared])
    threshold = fits._threshold(inner, final, Deviations())
    assert threshold.rule == "fallback rate"
    assert 0.05 < threshold.rate <= FALLBACK_RATE == 0.1
    assert threshold.theta > 0


def test_noise_is_on_thirty_percent_of_the_features_and_the_same_for_all(fits):
    X, mask = perturbation(fits)
    again, same = perturbation(fits)
    assert (again == X).all()
    assert (mask == same).all()
    assert mask.sum() == 4  # of 13
    difference = X - fits.prepared.X_test
    assert (difference[:, ~mask] == 0).all()
    assert (difference[:, mask] != 0).all()
    assert 0.7 < difference[:, mask].std() < 1.3


def test_goodness_explains_what_the_noise_made_rejected(fits):
    tested, _ = task(fits, "relative_similarity")
    X, places, rejected = samples_to_explain("goodness", fits, tested.option, tested.theta)
    clean = fits.prepared.X_test
    assert tested.option.accepts(clean[places], tested.theta).all()
    assert not tested.option.accepts(X, tested.theta).any()
    assert not np.isin(places, rejected).any()
    X, places, _ = samples_to_explain("properties", fits, tested.option, tested.theta)
    assert sorted(places) == sorted(rejected)
    assert (clean[places] == X).all()


# --- methods and switches -----------------------------------------------------------------------------


@pytest.mark.parametrize("option", OPTIONS)
def test_no_valid_answer_is_nearer_than_the_exact_one(fits, option):
    given, X = task(fits, option)
    X = X[:2]
    exact = explain(given.option, given.theta, X)
    for method in methods_for(given.option):
        points, found = counterfactuals(method, given, X)
        valid = found & given.option.accepts(points, given.theta)
        distances = np.abs(points - X).sum(axis=1)
        assert (distances[valid] >= exact.lower_bounds[valid] * (1 - 1e-9)).all(), method
        if method in ("exact", "nearest"):
            assert valid.all()
        if method == "paper" and option != "probabilistic":  # the same optimum, to the solver's accuracy
            np.testing.assert_allclose(distances, exact.distances, rtol=1e-3, atol=1e-4)


def test_nothing_to_explain_and_nothing_to_choose_from(fits):
    given, X = task(fits, "relative_similarity")
    points, found = counterfactuals("black_box", given, X[:0])
    assert points.shape == (0, 13)
    assert found.shape == (0,)
    nothing = replace(given, candidates=X[:1])  # a rejected one
    points, found = counterfactuals("nearest", nothing, X[:2])
    assert not found.any()
    with pytest.raises(ValueError, match="direct is for"):
        counterfactuals("direct", given, X[:1])


def test_the_paper_has_no_algorithm_for_other_certainties(fits):
    class Other(RelativeSimilarity):
        pass

    class Stranger:
        name = "stranger"

    given, X = task(fits, "relative_similarity")
    assert counterfactuals("paper", replace(given, option=Other(given.option.model)), X[:1]).found.all()
    with pytest.raises(ValueError, match="no algorithm for Stranger"):
        counterfactuals("paper", replace(given, option=Stranger()), X[:1])


def test_identity_metric_loses_the_learned_matrix_and_keeps_the_prototypes(fits):
    ours, theirs = (
        fits._options("relative_similarity", Deviations(identity_metric=lost), 2, [fits.prepared])[0].model
        for lost in (False, True)
    )
    assert (ours.prototypes == theirs.prototypes).all()
    assert (np.eye(13) == theirs.L).all()
    assert not np.allclose(ours.L, theirs.L)
    X = fits.candidates
    assert (ours.predict(X) != theirs.predict(X)).any()
    (pairs,) = fits._options("probabilistic", Deviations(identity_metric=True), 1, [fits.prepared])
    assert all((np.eye(13) == model.L).all() for model in pairs.models_.values())


def test_farthest_sample_is_the_farthest(fits):
    given, X = task(fits, "relative_similarity", farthest_sample=True)
    far = counterfactuals("nearest", given, X).points
    near = counterfactuals("nearest", task(fits, "relative_similarity")[0], X).points
    kept = [i for i in range(len(fits.candidates)) if i not in set(given.rejected_rows)]
    for x, point in zip(X, far, strict=True):
        assert np.abs(point - x).sum() == max(np.abs(fits.candidates[i] - x).sum() for i in kept)
    assert np.abs(far - X).sum() > 2 * np.abs(near - X).sum()
    assert (changed_features(X, far).sum(axis=1) >= 11).all()


def test_mixed_norms_make_the_constraints_miss_the_certainty(fits):
    given, X = task(fits, "decision_distance", mixed_norms=True)
    assert given.option.norm == "euclidean"
    points = counterfactuals("paper", given, X[:3]).points
    assert not given.option.accepts(points, given.theta).any()
    matched, X = task(fits, "decision_distance")
    points = counterfactuals("paper", matched, X[:3]).points
    exact = explain(matched.option, matched.theta, X[:3])
    np.testing.assert_allclose(np.abs(points - X[:3]).sum(axis=1), exact.distances, rtol=1e-3)


def test_printed_constraints_are_neither_sufficient_nor_necessary():
    cases = [([[0, 0], [0, 4], [2, 0]], "aab", [0.6, 2.1]), ([[0, 0], [2, 0], [0, 10]], "abb", [0.6, 2.6])]
    results = []
    for prototypes, labels, x in cases:
        option = DecisionDistance(PrototypeModel(prototypes, list(labels)))
        exact = explain(option, 0.25, np.array([x]))
        for switch in (True, False):
            switches = Deviations(printed_constraints=switch)
            given = Task(option, 0.25, np.zeros((1, 2)), np.array([0]), switches)
            point = counterfactuals("paper", given, np.array([x])).points
            results.append((np.abs(point - x).sum(), option.certainty(point)[0]))
        # set right it reaches the infimum, which need not be accepted itself: r jumps there
        assert results[-1][0] == pytest.approx(exact.distances[0], abs=1e-6)
    assert results[0] == (pytest.approx(0.1, abs=1e-6), pytest.approx(0.07, abs=1e-4))  # rejected
    assert results[2][0] == pytest.approx(0.2, abs=1e-6)  # twice too far
    assert results[3][0] == pytest.approx(0.1, abs=1e-6)


def test_unsigned_pairs_do_not_tell_which_class_is_meant(fits):
    X = fits.prepared.X_test
    (ours,) = fits._options("probabilistic", Deviations(), 1, [fits.prepared])
    (theirs,) = fits._options("probabilistic", Deviations(unsigned_pairs=True), 1, [fits.prepared])
    assert isinstance(theirs, UnsignedPairs)
    pairs = theirs.pairwise_probabilities(X)
    assert (pairs == pairs.transpose(0, 2, 1)).all()
    np.testing.assert_allclose(
        ours.pairwise_probabilities(X) + ours.pairwise_probabilities(X).transpose(0, 2, 1), 1
    )
    y = fits.prepared.y_test
    assert (ours.predict(X) == y).mean() > 0.9 > (theirs.predict(X) == y).mean()
    assert methods_for(theirs) == ("paper", "nearest", "black_box", "direct")
    with pytest.raises(ValueError, match="no cells"):
        theirs.cells(0.5)


def test_printed_signs_and_a_single_class_are_not_valid(fits):
    share = {}
    for signs, single in ((True, False), (False, True), (False, False)):
        given, X = task(fits, "probabilistic", printed_signs=signs, single_class=single)
        points = counterfactuals("paper", given, X[:4]).points
        share[signs, single] = (given.option.certainty(points) >= given.theta - 1e-4).mean()
    assert share == {(True, False): 0, (False, True): 0, (False, False): 1}


def test_an_unclipped_penalty_runs_away():
    model = PrototypeModel([[1.0, 0.0], [3.0, 0.0]], ["a", "b"])
    zero = np.zeros((2, 2))
    option = ProbabilisticCertainty.from_pairs({(0, 1): model}, [[0, -4], [-4, 0]], zero, ["a", "b"])
    X = np.array([[1.9, 0.2]])
    distances = {}
    for switch in (False, True):
        given = Task(option, 0.9, X, np.array([0]), Deviations(unclipped_penalty=switch))
        points = counterfactuals("direct", given, X).points
        distances[switch] = np.abs(points - X).sum()
    assert distances[True] > 2 * distances[False]


def test_unsigned_pairs_are_searched_by_their_own_probabilities(fits):
    X, y = [[0.0], [0.5], [1.0], [5.0], [6.0], [6.5]], [0, 0, 0, 1, 1, 1]
    option = UnsignedPairs(cv=2).fit(X, y)
    grid = np.linspace(-3, 10, 2001)[:, None]
    r = option.certainty(grid)
    theta = float((r.min() + r.max()) / 2)
    x = grid[[r.argmin()]]
    given = Task(option, theta, grid, np.array([0]), Deviations(unsigned_pairs=True))
    point = counterfactuals("direct", given, x).points
    nearest = np.abs(grid[r >= theta] - x[0]).min()
    assert np.abs(point - x).sum() == pytest.approx(nearest, abs=0.02)


@pytest.mark.parametrize("option", OPTIONS[:2])
def test_margins_cost_distance(fits, option):
    sums = {}
    for switch in (False, True):
        given, X = task(fits, option, margins=switch, identity_metric=True)
        points = counterfactuals("paper", given, X[:3]).points
        sums[switch] = np.abs(points - X[:3]).sum()
    assert sums[True] > 1.01 * sums[False]


def test_margins_loosen_the_probabilistic_threshold(fits):
    given, X = task(fits, "probabilistic", margins=True)
    points = counterfactuals("paper", given, X[:3]).points
    r = given.option.certainty(points)
    assert (r < given.theta).any()
    accurate = counterfactuals("paper", replace(given, deviations=Deviations()), X[:3]).points
    assert (given.option.certainty(accurate) >= given.theta - 1e-4).all()


def test_a_loose_solver_changes_features_by_noise(fits):
    noise = {}
    for switch in (False, True):
        given, X = task(fits, "relative_similarity", loose_solver=switch, identity_metric=True)
        points = counterfactuals("paper", given, X).points
        few = changed_features(X, points, 1e-3).sum()
        noise[switch] = changed_features(X, points, 1e-9).sum() - few
    assert noise[True] > noise[False]


def test_shifted_threshold_stands_one_place_after_the_knee():
    rng = np.random.default_rng(0)
    certainties = [rng.uniform(0, 1, 200) for _ in range(3)]
    correct = [rng.uniform(0, 1, 200) < np.clip(3 * r, 0, 1) for r in certainties]
    point = shifted_threshold(certainties, correct)
    assert point.found
    k = THRESHOLDS.index(point.threshold)
    rates = [np.mean([(r < THRESHOLDS[j]).mean() for r in certainties]) for j in (k - 1, k)]
    assert point.reject_rate == pytest.approx(rates[0])
    assert rates[1] > rates[0]
    exact = accuracy_reject_curve(np.concatenate(certainties), np.concatenate(correct)).knee()
    assert exact.threshold not in THRESHOLDS


def test_shifted_threshold_without_a_knee_takes_the_first_that_rejects():
    r = np.array([0.2, 0.7, 0.8])
    point = shifted_threshold([r], [np.ones(3, dtype=bool)])
    assert not point.found
    assert point.threshold == 0.3


def test_unshuffled_folds_of_sorted_classes_lack_classes(wine):
    kinds = {
        unshuffled: [set(part.y_test) for part in FoldFits(wine, "GLVQ", 0, 0, unshuffled).inner]
        for unshuffled in (False, True)
    }
    assert all(found == {0, 1, 2} for found in kinds[False])
    assert any(len(found) == 1 for found in kinds[True])


def test_scaled_before_split_lets_test_rows_in(wine):
    before, after = (FoldFits(wine, "GLVQ", 0, 0, False, switch) for switch in (True, False))
    assert np.abs(after.prepared.X_train.mean(axis=0)).max() < 1e-12
    assert np.abs(before.prepared.X_train.mean(axis=0)).max() > 1e-3
    everything = np.vstack([before.prepared.X_train, before.prepared.X_test])
    assert np.abs(everything.mean(axis=0)).max() < 1e-12
    assert (before.candidates == before.prepared.X_train).all()


def test_variants_lead_from_published_to_ours():
    assert set(FINDINGS) == set(asdict(Deviations()))
    steps = [variant(f"through:{name}").deviations for name in FINDINGS]
    assert variant("published").deviations.without("identity_metric") == steps[0]
    assert steps[-1] == variant("ours").deviations == Deviations()
    assert [len(step.names) for step in steps] == list(range(len(FINDINGS) - 1, -1, -1))
    assert "only:empty_folds_as_zero" not in ablation()
    for name in ablation():
        assert variant(name).methods
        assert "black_box" not in variant(name).methods
        assert set(variant(name).methods) <= set(METHODS)


# --- runs ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A complete small study in this process."""
    work = tmp_path_factory.mktemp("first")
    folder = run(TINY, work / "work")
    merge(TINY, folder, work / "results")
    return folder, work / "results"


SCRIPT = """
import sys
from companion.experiments import Caps
from companion.runner import Study, run
few = Caps(4, 1, 4, 0, 0)
study = Study(("iris",), 1, 1, 0, models=("GLVQ",), caps=few, other_caps=few, sizes=(1,))
if __name__ == "__main__":
    run(study, sys.argv[1], jobs=2)
"""


def finished(work):
    return {file.name: file.stat().st_mtime_ns for file in work.rglob("[!.]*.json")}


def killed_run(script, work):
    """Run the script, kill it some time after its fourth unit, and return what it had finished."""
    process = subprocess.Popen([sys.executable, script, work], env=os.environ | {"OMP_NUM_THREADS": "1"})
    give_up = time.monotonic() + 240
    while len(finished(work)) < 4 and process.poll() is None and time.monotonic() < give_up:
        time.sleep(0.02)
    time.sleep(random.Random(time.time_ns()).uniform(0, 0.5))
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(1)  # its workers notice that it is gone
    return finished(work)


@pytest.mark.slow
def test_killed_at_any_time_a_run_goes_on_and_ends_with_the_same_bytes(first_run, tmp_path):
    script = tmp_path / "study.py"
    script.write_text(SCRIPT)
    n_units = sum(map(len, TINY.groups()))
    for attempt in range(5):  # on a busy machine the run may end before it is killed
        work = tmp_path / f"work {attempt}"
        before = killed_run(script, work)
        if len(before) < n_units:
            break
    assert 4 <= len(before) < n_units
    folder = run(TINY, work)
    after = finished(work)
    assert len(after) == n_units
    assert {name: after[name] for name in before} == before  # nothing done twice, nothing lost
    merge(TINY, folder, tmp_path / "results")
    for file in sorted(first_run[1].iterdir()):
        if file.name != "timings.csv":
            assert file.read_bytes() == (tmp_path / "results" / file.name).read_bytes(), file.name


def test_a_worker_ends_with_the_process_that_started_it(monkeypatch):
    events = []

    class Parent:
        def join(self):
            events.append("gone")

    monkeypatch.setattr(runner.os, "_exit", events.append)
    monkeypatch.setattr(runner, "parent_process", Parent)
    monkeypatch.setattr(runner, "threadpool_limits", lambda n: events.append(f"threads: {n}"))
    runner._start_worker()
    give_up = time.monotonic() + 10
    while 1 not in events and time.monotonic() < give_up:
        time.sleep(0.01)
    assert events == ["threads: 1", "gone", 1]


def test_what_json_does_not_know_is_an_error():
    assert runner._plain(np.float64(0.5)) == 0.5
    with pytest.raises(TypeError, match="cannot store set"):
        runner._plain({1})


def test_a_half_written_file_does_not_count(first_run, tmp_path):
    folder, _ = first_run
    unit = TINY.groups()[0][0]
    data = load("iris")
    whole = runner.result_file(folder, unit, data)
    copy = runner.result_file(tmp_path / "copy", unit, data)
    copy.parent.mkdir(parents=True)
    (copy.with_name(f".{copy.name}.17")).write_text(whole.read_text()[:100])
    assert runner._todo(tmp_path / "copy", [unit], None) == [unit]
    with pytest.raises(ValueError, match="must be finished"):
        merge(TINY, tmp_path / "copy", tmp_path / "results")


def test_tables_hold_one_row_per_counterfactual_and_their_means(first_run):
    _, place = first_run
    rows = pd.read_csv(place / "counterfactuals_iris.csv", dtype={"changed": str})
    table = pd.read_csv(place / "aggregates.csv")
    assert set(rows["method"]) == {"exact", "paper", "nearest"}
    assert (rows.loc[rows["method"] == "exact", "valid"] == 1).all()
    keys = ["variant", "model", "option", "experiment", "method"]
    means = rows.groupby(keys)["l1"].agg(["mean", "count"])
    ours = table[table["measure"] == "l1"].set_index(keys)
    np.testing.assert_allclose(ours["mean"], means["mean"].reindex(ours.index), rtol=1e-7)
    assert (ours["n"] == means["count"].reindex(ours.index)).all()
    l0 = from_hex(rows.loc[rows["found"] == 1, "changed"].tolist(), 4).sum(axis=1)
    assert (l0 == rows.loc[rows["found"] == 1, "l0"]).all()


def test_a_fold_without_rejects_counts_as_zero_only_if_published(first_run):
    table = pd.read_csv(first_run[1] / "aggregates.csv")
    valid = table[(table["measure"] == "valid") & (table["n_empty_folds"] > 0)]
    for row in valid.itertuples():
        assert row.n_folds == (5 if row.variant == "published" else 5 - row.n_empty_folds)
    assert "published" in set(valid["variant"])


def test_empty_folds_as_zero_give_the_published_pairs_of_numbers():
    from companion.results import aggregates

    head = {"data": "iris", "model": "GLVQ", "option": "relative_similarity"}
    for empty, expected in ((1, (0.8, 0.16)), (2, (0.6, 0.24)), (3, (0.4, 0.24))):
        for name in ("published", "ours"):
            units = pd.DataFrame([head | {"variant": name, "repetition": 0, "fold": f} for f in range(5)])
            some = units[units["fold"] < 5 - empty]
            rows = some.assign(experiment="goodness", method="black_box", found=1, valid=1, l0=2, l1=1.0)
            table = aggregates(rows, units).set_index("measure").loc["valid"]
            found = (table["mean_folds"], table["variance_folds"])
            assert found == pytest.approx(expected if name == "published" else (1, 0))


def test_overlaps_are_those_of_the_rows(first_run):
    rows = pd.read_csv(first_run[1] / "counterfactuals_iris.csv", dtype={"changed": str})
    table = pd.read_csv(first_run[1] / "overlaps.csv")
    cell = table[(table["variant"] == "ours") & (table["option"] == "relative_similarity")]
    assert {(a, b) for a, b in zip(cell["first"], cell["second"], strict=True)} == {
        ("exact", "paper"), ("exact", "nearest"), ("paper", "nearest"),
    }  # fmt: skip
    chosen = rows[
        (rows["variant"] == "ours")
        & (rows["option"] == "relative_similarity")
        & (rows["experiment"] == "properties")
    ]
    shared = []
    for _, group in chosen.groupby(["repetition", "fold", "sample"]):
        by_method = group.set_index("method")["changed"]
        if {"exact", "paper"} <= set(by_method.index):
            a, b = (int(by_method[m], 16) for m in ("exact", "paper"))
            shared.append((a & b).bit_count())
    pair = cell[(cell["first"] == "exact") & (cell["second"] == "paper")].iloc[0]
    assert pair["mean"] == pytest.approx(np.mean(shared))
    assert pair["n"] == len(shared)


def recomputed(place, data_name, unit):
    """Return stored and recomputed l1 and certainty of the exact counterfactuals of one unit."""
    data = load(data_name)
    stored = load_models(place / f"models_{data_name}.npz", unit)
    option = option_of(stored, unit.option)
    rows = pd.read_csv(place / f"counterfactuals_{data_name}.csv")
    for name in ("variant", "model", "option", "repetition", "fold"):
        rows = rows[rows[name] == getattr(unit, name)]
    rows = rows[(rows["method"] == "exact") & (rows["experiment"] == "properties")]
    X = scaled_samples(stored, data.X.to_numpy()[rows["sample"]])
    result = explain(option, float(stored["theta"]), X, noise=0)
    return rows[["l1", "certainty"]].to_numpy(), np.column_stack([result.distances, result.certainties])


@pytest.mark.parametrize("option", OPTIONS)
def test_a_fold_is_recomputed_from_stored_arrays(first_run, option):
    n = 0
    for fold in range(5):
        unit = Unit("iris", "ours", "GLVQ", option, 0, fold)
        stored, again = recomputed(first_run[1], "iris", unit)
        np.testing.assert_allclose(again, stored, atol=1e-6)
        n += len(stored)
    assert n > 0
    with pytest.raises(ValueError, match="no arrays"):
        load_models(first_run[1] / "models_iris.npz", Unit("iris", "ours", "GLVQ", option, 7, 0))


def test_one_fold_of_the_books_results_is_recomputed():
    """Whatever BLAS made them: the stored models give the stored counterfactuals to 1e-6."""
    stored = sorted(file.stem.removeprefix("models_") for file in RESULTS.glob("models_*.npz"))
    tables = sorted(
        file.stem.removeprefix("counterfactuals_") for file in RESULTS.glob("counterfactuals_*.csv")
    )
    assert stored == tables
    assert not {"flip", "t21"} & {*stored}  # nothing of single patients
    for data in stored:
        for option in OPTIONS:
            expected, again = recomputed(RESULTS, data, Unit(data, "ours", "GMLVQ", option, 0, 0))
            np.testing.assert_allclose(again, expected, atol=1e-6)


def test_provenance_names_code_data_and_versions(first_run):
    found = json.loads((first_run[1] / "provenance.json").read_text())
    assert found["data_sha256"] == {"iris": load("iris").sha}
    assert len(found["package_sha256"]) == 64
    assert found["study"]["caps"]["paper"] == 1
    assert found["versions"]["numpy"] == np.__version__
    names = {file.name for file in runner._sources(Path(runner.__file__).with_name("experiments.py"))}
    assert {"experiments.py", "explanation.py", "counterfactual.py", "lvq.py", "published.py"} <= names
    assert "runner.py" not in names


def test_results_of_other_caps_or_data_are_not_reused(first_run):
    assert runner.fingerprint(TINY) != runner.fingerprint(replace(TINY, caps=Caps()))
    data = load("iris")
    changed = replace(data, X=data.X + 1.0)
    unit = TINY.groups()[0][0]
    folder = first_run[0]
    assert runner.result_file(folder, unit, data) != runner.result_file(folder, unit, changed)


def test_large_data_are_capped(wine):
    study = Study()
    assert study.caps_for("ours", 178) == study.caps
    assert study.caps_for("ours", 50_000).exact == study.large_cap
    assert study.caps_for("published", 178) == study.other_caps


def test_groups_hold_every_unit_once():
    study = Study(("wine", "t21_synthetic"), 2, 1, 1, ("wine",))
    units = [unit for group in study.groups() for unit in group]
    assert len(units) == len(set(units))
    n_single = sum(len(variant(name).options) for name in ablation())
    assert len(units) == 2 * 2 * 5 * 3 * 2 + 2 * 2 * 5 * 3 + 5 * n_single
    assert {u.model for u in units if ":" in u.variant} == {"GMLVQ"}


def test_warnings_are_counted_not_lost(fits, monkeypatch):
    import warnings

    real = FoldFits.fitted

    def loud(self, option, deviations):
        warnings.warn("hot", RuntimeWarning, stacklevel=1)
        return real(self, option, deviations)

    monkeypatch.setattr(FoldFits, "fitted", loud)
    result = run_unit(fits, "relative_similarity", "ours", Caps(1, 0, 1, 0, 0))
    assert result.summary["warnings"] == "RuntimeWarning:1"


def test_what_a_unit_is_warned_of_does_not_depend_on_what_ran_before(wine, monkeypatch):
    """A run that is resumed fits again what the units before the interruption had fitted."""
    import warnings

    from companion import protocol

    def loud(**parameters):
        warnings.warn(f"{parameters['prototypes_per_class']} per class", RuntimeWarning, stacklevel=1)
        return GLVQ(**parameters)

    monkeypatch.setitem(protocol.MODELS, "GLVQ", loud)
    caps, before = Caps(1, 0, 1, 0, 0), FoldFits(wine, "GLVQ", 0, 0)
    first, second = (run_unit(before, option, "ours", caps).summary for option in OPTIONS[:2])
    alone = run_unit(FoldFits(wine, "GLVQ", 0, 0), OPTIONS[1], "ours", caps).summary
    assert first["warnings"] == second["warnings"] == alone["warnings"]
    assert first["warnings"].endswith(" RuntimeWarning:26")  # five sizes in five folds, and the outer model


# --- the command and the paper's tables ---------------------------------------------------------------


def test_the_command_runs_resumes_and_says_time_and_memory(first_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "study_of", lambda args: TINY)
    work = first_run[0].parent  # all done already
    assert reproduce.main(["--work", str(work), "--folder", str(tmp_path), "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert "minutes of the processor" in said
    assert "MB of memory" in said
    assert (tmp_path / "units.csv").read_bytes() == (first_run[1] / "units.csv").read_bytes()


def test_progress_is_shown(tmp_path, capsys):
    study = replace(TINY, repetitions=0, caps=Caps(1, 0, 1, 0, 0), other_caps=Caps(1, 0, 1, 0, 0))
    run(study, tmp_path, progress=True)
    assert "15/15" in capsys.readouterr().err


@pytest.fixture
def patients(tmp_path):
    """A file that looks like the published one and holds nobody."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [115, 21])
    X = rng.normal(size=(136, 12)) + y[:, None]
    np.savez(tmp_path / "flip_notscaled.npz", X=X, y=y)
    return tmp_path


def numbers_in(folder):
    """Return every number in the tables of a folder, with six digits."""
    words = " ".join(file.read_text() for file in folder.iterdir()).replace(",", " ").split()
    found = pd.to_numeric(pd.Series(words), errors="coerce").dropna()
    return {f"{number:.6g}" for number in found[found % 1 != 0]}


def test_nothing_of_single_patients_is_written(patients):
    """Rows, counterfactuals and prototypes of data that is read from a file stay out of the results."""
    place, few = patients / "results", Caps(4, 0, 4, 0, 0)
    study = replace(TINY, data=("flip",), published_repetitions=0, caps=few)
    folder = run(study, patients / "work", path=patients)
    files = merge(study, folder, place, path=patients)
    names = {"units.csv", "selection.csv", "aggregates.csv", "overlaps.csv", "timings.csv", "provenance.json"}
    assert {file.name for file in place.iterdir()} == {file.name for file in files} == names
    for name in ("units", "selection", "aggregates", "overlaps", "timings"):
        assert {"sample", "changed", "certainty", "certainty_before"}.isdisjoint(
            pd.read_csv(place / f"{name}.csv")
        )
    assert len(pd.read_csv(place / "units.csv")) == 15  # one row per fold and option
    # not one number of a patient, of a prototype or of the measures of a single counterfactual
    records = [json.loads(file.read_text()) for file in folder.rglob("[!.]*.json")]
    private = [np.load(patients / "flip_notscaled.npz")["X"]]
    private += [np.ravel(v) for r in records for n, v in r["arrays"].items() if "prototypes" in n]
    private += [[row["l1"], row["certainty_before"]] for r in records for row in r["rows"]]
    values = np.concatenate([np.ravel(v) for v in private])
    assert len(values) > 2000
    written = numbers_in(place)
    assert len(written) > 90
    assert written.isdisjoint(f"{value:.6g}" for value in values)


def test_of_fewer_than_five_patients_there_is_no_mean(patients):
    from companion.results import aggregates, overlaps

    head = {"data": "flip", "model": "GLVQ", "option": "relative_similarity", "variant": "ours"}
    units = pd.DataFrame([head | {"repetition": 0, "fold": f} for f in range(5)])
    for n, found in ((4, 1), (5, 1), (5, 0)):  # four patients; five; five of whom one has no answer
        rows = pd.DataFrame(
            head | {"repetition": k // 5, "fold": k % 5, "sample": k % n}
            | {"method": m, "experiment": "properties"}
            | {"found": 1 if k % n else found, "valid": 1, "l1": 0.5, "l0": 1 if k % n or found else np.nan}
            | {"changed": "1"}
            for k in range(20)
            for m in ("exact", "nearest")
        )  # fmt: skip
        table = aggregates(rows, units)
        measures = set(table["measure"]) if len(table) else set()
        assert ("valid" in measures) == (n == 5)
        assert ("l0" in measures) == (n == 5 and found == 1)
        assert len(overlaps(rows, TINY, str(patients))) == (n == 5 and found == 1)
    one = rows.assign(data="iris", sample=0)
    assert len(aggregates(one, units.assign(data="iris"))) > 0  # flowers may be counted one by one


def test_provenance_has_the_checksum_of_the_file_and_no_path(patients):
    found = provenance(replace(TINY, data=("flip",)), patients)
    digest = hashlib.sha256((patients / "flip_notscaled.npz").read_bytes()).hexdigest()
    assert found["file_sha256"] == {"flip": digest}
    assert str(patients) not in json.dumps(found)


def test_without_the_file_the_others_are_run_and_it_is_said_how_to_get_it(
    patients, tmp_path, monkeypatch, capsys
):
    assert reproduce.available(["wine", "flip"], str(patients)) == ["wine", "flip"]
    assert capsys.readouterr().err == ""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("LVQREJ_DATA", str(empty))
    started = []
    monkeypatch.setattr(reproduce, "run", lambda study, *_, **__: started.append(study))
    monkeypatch.setattr(reproduce, "merge", lambda *_, **__: [])
    pd.DataFrame({"seconds": [1.0], "megabytes": [1.0]}).to_csv(empty / "timings.csv")
    assert reproduce.main(["--folder", str(empty)]) == 0
    assert started == [replace(Study(), data=("wine", "breast_cancer", "t21_synthetic"))]
    said = capsys.readouterr().err
    assert all(
        word in said for word in ("Without flip", "download('flip')", "flip_notscaled.npz", "LVQREJ_DATA")
    )


def test_the_books_results_are_those_of_the_study_with_the_published_file():
    found = json.loads((RESULTS / "provenance.json").read_text())
    study = Study()
    assert found["study"] == json.loads(json.dumps(asdict(study)))
    assert found["file_sha256"]["flip"].startswith(PUBLISHED["flip"].sha_start)
    assert "/" not in found["data"]["flip"]
    units = pd.read_csv(RESULTS / "units.csv")
    assert len(units) == sum(map(len, study.groups()))
    assert set(units["data"]) == set(study.data)
    sizes = units[units["variant"] == "ours"].groupby(["data", "model", "option"]).size()
    assert (sizes == 5 * study.repetitions).all()


def test_the_command_understands_its_arguments():
    parse = reproduce._parser().parse_args
    assert reproduce.study_of(parse([])) == Study()
    quick = reproduce.study_of(parse(["--quick", "--data", "wine"]))
    assert (quick.data, quick.repetitions, quick.ablation_repetitions) == (("wine",), 1, 0)
    two = reproduce.study_of(parse(["--data", "flip_synthetic", "--repetitions", "2"]))
    assert (two.repetitions, two.published_repetitions, two.ablation_data) == (2, 2, ())


def test_every_published_cell_is_known():
    table = published_tables(RESULTS)
    raw = pd.read_csv(RESULTS / "paper_tables.csv")
    assert len(table) == len(raw)
    assert (table["mean"] == raw["mean"]).all()
    assert set(table["option"]) == set(OPTIONS)
    relsim = table[(table["table"] == "overlap") & (table["option"] == "relative_similarity")]
    assert set(relsim["method"]) == {"black_box", "nearest+paper", "nearest+black_box", "paper+black_box"}
    proba = table[(table["table"] == "sparsity") & (table["option"] == "probabilistic")]
    assert set(proba["method"]) == {"direct", "nearest", "paper"}


def test_published_and_ours_stand_side_by_side(tmp_path):
    (tmp_path / "paper_tables.csv").write_bytes((RESULTS / "paper_tables.csv").read_bytes())
    head = {"data": "wine", "model": "GMLVQ", "option": "relative_similarity"}
    extra = {"variance": 1.0, "n": 9, "mean_folds": 0.5, "variance_folds": 0.2, "n_folds": 4}
    extra["sd_repetitions"] = 0.3
    rows = [
        head
        | {"variant": "ours", "experiment": "properties", "method": "exact", "measure": "l0", "mean": 3.0},
        head
        | {
            "variant": "published",
            "experiment": "properties",
            "method": "paper",
            "measure": "l0",
            "mean": 7.0,
        },
        head
        | {
            "variant": "ours",
            "experiment": "properties",
            "method": "black_box",
            "measure": "valid",
            "mean": 0.9,
        },
    ]
    pd.DataFrame([row | extra for row in rows]).to_csv(tmp_path / "aggregates.csv", index=False)
    pair = head | {
        "variant": "ours",
        "first": "exact",
        "second": "nearest",
        "mean": 2.5,
        "variance": 1.0,
        "n": 4,
    }
    pd.DataFrame([pair | {"jaccard": 0.5}]).to_csv(tmp_path / "overlaps.csv", index=False)
    table = side_by_side(tmp_path)
    wine = table[(table["data"] == "wine") & (table["option"] == "relative_similarity")]
    by_column = wine.set_index(["table", "column"])
    assert by_column.loc[("sparsity", "ClosestCf"), ["mean", "ours_mean", "deviating_mean"]].tolist() == [
        5.68,
        3,
        7,
    ]
    assert by_column.loc[("sparsity", "BbCfFeasibility"), ["ours_mean", "ours_n"]].tolist() == [
        0.5,
        4,
    ]  # folds
    assert by_column.loc[("overlap", "BbCf"), "ours_mean"] == 2.5
    assert set(table.loc[table["data"] == "flip", "our_data"]) == {"flip_synthetic"}


def test_agreement_is_two_standard_errors():
    """Means of samples of one distribution agree about nineteen times of twenty; others do not."""
    rng = np.random.default_rng(0)
    head = {"data": "wine", "our_data": "wine", "option": "probabilistic", "experiment": "properties"}
    rows = []
    for _ in range(400):
        paper, same, other = rng.normal([5, 5, 9], 2.0, (40, 3)).T
        cell = {"mean": paper.mean(), "variance": paper.var(), "measure": "l0"}
        for prefix, values in (("ours", same), ("deviating", other)):
            cell |= {f"{prefix}_mean": values.mean(), f"{prefix}_variance": values.var(), f"{prefix}_n": 40}
        rows.append(head | cell)
    unit = {"data": "wine", "model": "GMLVQ", "option": "probabilistic", "n_properties": 8}
    folds = [
        unit | {"variant": name, "repetition": k // 5}
        for name in ("ours", "published")
        for k in range(10)  # two repetitions of five folds: 40 samples each
    ]
    found = agreement(pd.DataFrame(rows), pd.DataFrame(folds))
    assert 0.93 < (found["ours_agrees"] == "yes").mean() < 0.995
    assert (found["deviating_agrees"] == "no").all()


def test_no_statement_about_other_data_or_without_a_result():
    cell = {"data": "flip", "our_data": "flip_synthetic", "option": "probabilistic", "experiment": "goodness"}
    cell |= {"measure": "valid", "mean": 0.5, "variance": 0.1}
    cell |= {"ours_mean": 0.5, "ours_variance": 0.1, "ours_n": 5}
    cell |= {"deviating_mean": np.nan, "deviating_variance": np.nan, "deviating_n": np.nan}
    units = pd.DataFrame(columns=["data", "model", "option", "variant", "repetition", "n_goodness"])
    found = agreement(pd.DataFrame([cell]), units).iloc[0]
    assert (found["ours_agrees"], found["deviating_agrees"]) == ("stand-in", "no result")
    assert found["ours_tolerance"] == pytest.approx(2 * np.sqrt(0.105 * 2 / 5))
