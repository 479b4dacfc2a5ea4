"""At scale: streams that survive being killed, in bounded memory, and clusters that lose a worker."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc

import joblib
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris, load_wine

from lvqrej import (
    DecisionDistance,
    NoCounterfactualError,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
    explain,
)
from lvqrej.stream import COLUMNS, MANIFEST, explain_stream

#: Processes on this machine only, with any free port and no dashboard.
CLUSTER = {
    "n_workers": 2,
    "threads_per_worker": 1,
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",
    "scheduler_kwargs": {"dashboard": False},
}


def problem(make=RelativeSimilarity, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    model = PrototypeModel(rng.normal(size=(6, d)), np.array(list("abcabc")), rng.normal(size=(d, d)))
    option, X = make(model), rng.normal(size=(n, d))
    return option, float(np.quantile(option.certainty(X), 0.5)), X


def three_classes():
    """Return a probabilistic certainty whose accepted set is no union of `Cells`."""
    X, y = load_iris(return_X_y=True)
    option = ProbabilisticCertainty().fit(X, y)
    theta = float(np.quantile(option.certainty(X), 0.3))
    return option, theta, X[~option.accepts(X, theta)]


def contents(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def read(files):
    readers = {".parquet": pd.read_parquet, ".csv": pd.read_csv}
    return pd.concat([readers[file.suffix](file) for file in files], ignore_index=True)


# What is in the files


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
def test_a_stream_has_what_explain_finds_to_the_bit(tmp_path, make, format):
    option, theta, X = problem(make)
    asked = {"weights": [1, 2, 3, 4], "fixed": [0], "on_infeasible": "skip"}
    files = explain_stream(option, theta, X, tmp_path, rows_per_part=64, format=format, **asked)
    table = read(files)
    rejected = np.flatnonzero(~option.accepts(X, theta))
    whole = explain(option, theta, X[rejected], **asked)
    assert len(files) == 5
    assert table["row"].tolist() == rejected.tolist()
    np.testing.assert_array_equal(table.iloc[:, 10:].to_numpy(), whole.counterfactuals)
    frame = whole.to_frame()
    for name in COLUMNS[1:-1]:
        assert table[name].tolist() == frame[name].tolist(), name


def test_a_folder_of_parquet_is_one_table_for_its_readers(tmp_path):
    option, theta, X = problem()
    X[64:128] = option.model.prototypes[0]  # a part without rejects
    files = explain_stream(option, theta, X, tmp_path, rows_per_part=64)
    assert [pq.read_metadata(file).num_rows for file in files][1] == 0
    assert len({str(pq.read_schema(file)) for file in files}) == 1
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path), read(files))


def cuts(X, folder):
    """Return the same rows in all the forms they may come in."""
    np.save(folder / "rows.npy", X)
    frame = pd.DataFrame(X, columns=[f"feature {k}" for k in range(X.shape[1])])
    frame.to_csv(folder / "rows.csv", index=False)
    return {
        "array": X,
        "list": X.tolist(),
        "memmap": np.load(folder / "rows.npy", mmap_mode="r"),
        "frame": frame,
        "one by one": (X[i : i + 1] for i in range(len(X))),
        "uneven": iter([X[:1], X[1:1], X[1:200], X[200:]]),
        "list of arrays": [X[:150], X[150:]],
        "csv": pd.read_csv(folder / "rows.csv", chunksize=77),
    }


def test_how_rows_come_does_not_matter(tmp_path):
    option, theta, X = problem()
    made = []
    for name, rows in cuts(X, tmp_path).items():
        explain_stream(option, theta, rows, tmp_path / name, rows_per_part=64, format="csv")
        made.append(contents(tmp_path / name))
    assert all(one == made[0] for one in made)
    assert len(made[0]) == 6


def test_no_rows_leave_a_manifest_only(tmp_path):
    option, theta, X = problem()
    for rows in (X[:0], iter([]), iter([X[:0]])):
        assert explain_stream(option, theta, rows, tmp_path) == []
    assert [file.name for file in tmp_path.iterdir()] == [MANIFEST]


def test_rejects_without_a_counterfactual_say_why(tmp_path):
    option, theta, X = problem()
    X[100, 0] = 9.0  # too far out to come back by the features that may change
    asked = {"fixed": [0], "bounds": {1: (-1, 1), 2: (-1, 1), 3: (-1, 1)}, "rows_per_part": 50}
    table = read(explain_stream(option, theta, X, tmp_path / "skip", **asked)).set_index("row")
    lost = table[~table["found"]]
    assert 100 in lost.index
    assert lost["reason"].str.startswith("with bounds and fixed, no input reaches").all()
    assert np.isinf(lost["distance"]).all()
    assert table.loc[table["found"], "reason"].isna().all()
    first = lost.index[0]
    with pytest.raises(NoCounterfactualError, match=f"^row {first}: with bounds and fixed, no input"):
        explain_stream(option, theta, X, tmp_path / "raise", on_infeasible="raise", **asked)
    assert len(list((tmp_path / "raise").glob("part-*"))) == first // 50


# Resuming


def test_run_again_it_does_only_what_is_missing(tmp_path):
    option, theta, X = problem()
    files = explain_stream(option, theta, X, tmp_path, rows_per_part=50)
    before = contents(tmp_path)
    files[2].unlink()
    files[4].unlink()
    kept = {file: file.stat().st_mtime_ns for file in files if file.exists()}
    option.cells(0.9)  # what an option remembers does not make it another one
    assert explain_stream(option, theta, X, tmp_path, rows_per_part=50, n_jobs=1, progress=True) == files
    assert contents(tmp_path) == before
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


STREAM = """
import os, signal, sys
import numpy as np
from lvqrej import PrototypeModel, RelativeSimilarity
from lvqrej.stream import explain_stream

fsync, calls = os.fsync, 0

def deadly(handle):  # the draft is written, but not yet in its place
    global calls
    calls += 1
    if calls == 4:  # the manifest's, then those of three parts
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(handle)

os.fsync = deadly
rng = np.random.default_rng(0)
model = PrototypeModel(rng.normal(size=(6, 4)), np.array(list("abcabc")), rng.normal(size=(4, 4)))
X = rng.normal(size=(300, 4))
explain_stream(RelativeSimilarity(model), float(sys.argv[2]), X, sys.argv[1], rows_per_part=50)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
def test_killed_midway_it_goes_on_where_it_was(tmp_path):
    option, theta, X = problem()
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    end = subprocess.run([sys.executable, "-c", STREAM, killed, repr(theta)], check=False)
    assert end.returncode == -signal.SIGKILL
    assert len(list(killed.glob("part-*"))) == 2
    assert len(list(killed.glob(".part-*"))) == 1  # the draft of the third
    before = contents(killed)
    explain_stream(option, theta, X, killed, rows_per_part=50)
    explain_stream(option, theta, X, whole, rows_per_part=50)
    assert contents(killed) == contents(whole)
    assert all(contents(killed)[name] == before[name] for name in before if name.startswith("part-"))


def test_a_stored_classifier_goes_on_with_what_the_fitted_one_began(tmp_path):
    X, y = load_iris(return_X_y=True)
    for kind in ("relative-similarity", "probabilistic"):
        fitted = RejectOptionClassifier(option=kind, threshold=0.5).fit(X, y)
        fitted.save(tmp_path / "classifier.json")
        again = RejectOptionClassifier.load(tmp_path / "classifier.json")
        for one in (fitted, again):
            explain_stream(one.option_, 0.5, X[:3], tmp_path / kind, weights=1 / one.scale_)


def test_a_classifier_gives_its_own_answers(tmp_path):
    X, y = load_wine(return_X_y=True, as_frame=True)
    classifier = RejectOptionClassifier(None, "decision-distance", ("reject_rate", 0.3), cv=3).fit(X, y)
    (file,) = explain_stream(classifier, None, X, tmp_path, format="csv")
    found = pd.read_csv(file)
    result = classifier.explain(X[classifier.rejects(X)])
    np.testing.assert_array_equal(found[list(X.columns)], result.counterfactuals)
    with pytest.raises(ValueError, match="theta must be None for a classifier"):
        explain_stream(classifier, 0.5, X, tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path):
    option, theta, X = problem()
    other, _, Y = problem(seed=1)
    asked = {"rows_per_part": 50, "format": "csv", "weights": [1, 2, 3, 4]}

    def stream(option=option, theta=theta, rows=X, **changes):
        return explain_stream(option, theta, rows, tmp_path, **{**asked, **changes})

    files = stream()
    before = contents(tmp_path)
    names = pd.DataFrame(X, columns=list("wxyz"))
    for message, change in {
        "other option:": {"option": other},
        "other theta:": {"theta": theta + 0.01},
        "other requirements:": {"weights": [1, 2, 3, 5]},
        "other requirements, columns:": {"rows": names},
        "other rows_per_part:": {"rows_per_part": 60},
        "other format:": {"format": "parquet"},
        "of the same rows; part 0 ": {"rows": Y},
        "of the same rows; part 5 ": {"rows": X[:250]},
        "of the same rows; part 1 ": {"rows": np.vstack([X[:50], Y[50:]])},
    }.items():
        with pytest.raises(ValueError, match=message):
            stream(**change)
    assert contents(tmp_path) == before
    assert stream(weights=np.array([1.0, 2.0, 3.0, 4.0])) == files
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(ValueError, match=f"found no {MANIFEST} that can be read"):
        stream()
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(ValueError, match=f"found no {MANIFEST} that can be read"):
        stream()


def test_another_version_of_a_library_is_something_else(tmp_path):
    option, theta, X = problem()
    explain_stream(option, theta, X[:5], tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert {"lvqrej", "numpy", "scipy", "clarabel"} <= manifest["libraries"].keys()
    assert not manifest["libraries"].keys() & {"numba", "llvmlite"}
    manifest["libraries"]["numpy"] = "1.0"
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="other libraries:"):
        explain_stream(option, theta, X[:5], tmp_path)


class Wrapped(RelativeSimilarity):
    """Accepts near given points only: a certainty that rests on another one's model and on data."""

    def __init__(self, model, data):
        super().__init__(model)
        self.data = data

    def accepts(self, X, theta):
        near = np.abs(np.asarray(X)[:, None] - self.data).max(axis=2).min(axis=1) < 5
        return super().accepts(X, theta) & near


def test_certainties_differ_by_what_they_are_made_of(tmp_path):
    option, theta, X = problem()
    explain_stream(Wrapped(option.model, X), theta, X[:5], tmp_path)
    explain_stream(Wrapped(option.model, X.copy()), theta, X[:5], tmp_path)
    with pytest.raises(ValueError, match="other option"):
        explain_stream(Wrapped(option.model, X[1:]), theta, X[:5], tmp_path)


def test_requirements_may_name_the_columns_of_the_rows(tmp_path):
    option, theta, X = problem()
    rows = pd.DataFrame(X, columns=list("wxyz"))
    by_name, by_place = (
        read(explain_stream(option, theta, table, tmp_path / name, fixed=fixed))
        for table, name, fixed in ((rows, "names", ["w"]), (X, "places", [0]))
    )
    assert list(by_name.columns[10:]) == list("wxyz")
    np.testing.assert_array_equal(by_name.iloc[:, 10:], by_place.iloc[:, 10:])
    model = PrototypeModel(option.model.prototypes, option.model.labels, None, list("wxyz"))
    with pytest.raises(ValueError, match="X must have its features in the order"):
        explain_stream(RelativeSimilarity(model), theta, rows[list("zyxw")], tmp_path / "order")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"option": "relative"}, "option must be a certainty"),
        ({"theta": np.nan}, "theta must be a number"),
        ({"rows": np.ones(4)}, r"rows must have shape \(n, d\)"),
        ({"rows": 3}, r"rows must have shape \(n, d\)"),
        ({"rows": np.ones((2, 3))}, "rows from 0 on must have 4 features; found 3"),
        ({"rows": iter([np.ones((5, 4)), [[1, 2, 3, np.nan]]])}, "rows from 5 on must be finite; found NaN"),
        ({"rows": pd.DataFrame(np.ones((2, 4)), columns=["row", "a", "b", "c"])}, r"found \['row'\]"),
        ({"rows": pd.DataFrame(np.ones((2, 4)), columns=list("aabc"))}, r"found \['a'\]"),
        (
            {
                "rows": iter(
                    [pd.DataFrame(np.ones((1, 4)), columns=list(names)) for names in ("abcd", "abdc")]
                )
            },
            "rows from 1 on must have the columns",
        ),
        ({"folder": 3}, "folder must be text or a Path"),
        ({"rows_per_part": 0}, "rows_per_part must be at least 1"),
        ({"format": "xlsx"}, "format must be one of 'parquet', 'csv'"),
        ({"on_infeasible": "ignore"}, "on_infeasible must be one of"),
        ({"n_jobs": 0}, "n_jobs must be a number of jobs"),
        ({"weights": [1, 2]}, "weights must have shape"),
    ],
)
def test_bad_input_is_named(tmp_path, change, message):
    option, theta, X = problem()
    given = {"option": option, "theta": theta, "rows": X, "folder": tmp_path} | change
    with pytest.raises(ValueError, match=message):
        explain_stream(**given)


# Memory


def test_memory_does_not_grow_with_the_rows(tmp_path):
    option, theta, X = problem(n=300)
    peaks = []
    explain_stream(option, theta, X, tmp_path / "warm", format="csv")
    for repeats in (2, 8):
        tracemalloc.start()
        rows = (np.roll(X, i, axis=0) for i in range(repeats))
        explain_stream(option, theta, rows, tmp_path / str(repeats), rows_per_part=300, format="csv")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


# Several jobs


class Watched(RelativeSimilarity):
    """Remembers which threads asked for verdicts."""

    threads: set[str]

    def verdicts(self, X):
        self.threads.add(threading.current_thread().name)
        return super().verdicts(X)


def test_the_backend_in_force_decides_unless_a_number_is_given():
    plain, theta, rows = problem(n=9000)
    option = Watched(plain.model)

    def threads(**asked):
        option.threads = set()
        found = explain(option, theta, rows, **asked)
        return found.counterfactuals, option.threads - {threading.current_thread().name}

    alone, others = threads()
    assert not others
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together, others = threads()
        assert others
        assert not threads(n_jobs=1)[1]
    np.testing.assert_array_equal(together, alone)


def test_a_few_slow_samples_are_shared_out_with_the_same_bits(monkeypatch):
    option, theta, X = three_classes()
    few, threads, verdicts = X[:9], set(), ProbabilisticCertainty.verdicts
    alone = [explain(option, theta, x).counterfactual for x in few]

    def watched(self, X):
        threads.add(threading.current_thread().name)
        return verdicts(self, X)

    monkeypatch.setattr(ProbabilisticCertainty, "verdicts", watched)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        found = explain(option, theta, few)
    assert len(threads - {threading.current_thread().name}) == 2
    np.testing.assert_array_equal(found.counterfactuals, alone)


def deadly_certainty(model, flag):
    """Return a relative similarity that kills the first worker process that asks for it."""
    home = os.getpid()

    class Deadly(RelativeSimilarity):  # made here, so that it travels to the workers by value
        def verdicts(self, X):
            if os.getpid() != home:
                try:
                    flag.unlink()
                except FileNotFoundError:
                    pass
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().verdicts(X)

    return Deadly(model)


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")
@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_loses_nothing(tmp_path):
    from distributed import Client, LocalCluster

    option, theta, X = problem(n=12_000)
    rejected = X[~option.accepts(X, theta)]
    serial = explain(option, theta, rejected)
    deadly = deadly_certainty(option.model, tmp_path / "flag")
    with LocalCluster(**CLUSTER) as cluster, Client(cluster) as client:
        before = set(client.run(os.getpid).values())
        (tmp_path / "flag").touch()
        with joblib.parallel_config(backend="dask"):
            found = explain(deadly, theta, rejected)
            explain_stream(option, theta, X, tmp_path / "cluster", rows_per_part=8_000)
        after = set(client.run(os.getpid).values())
    assert not (tmp_path / "flag").exists()
    assert len(before - after) == 1  # one was killed
    for name in ("counterfactuals", "distances", "lower_bounds", "certainties", "labels", "found"):
        np.testing.assert_array_equal(getattr(found, name), getattr(serial, name))
    explain_stream(option, theta, X, tmp_path / "serial", rows_per_part=8_000, n_jobs=1)
    assert contents(tmp_path / "cluster") == contents(tmp_path / "serial")


# Dependencies


def test_neither_import_nor_csv_needs_the_extra(tmp_path):
    program = """
    import sys
    for name in ("dask", "distributed", "pyarrow"):
        sys.modules[name] = None  # importing it fails
    import lvqrej
    from lvqrej.stream import explain_stream
    option = lvqrej.RelativeSimilarity(lvqrej.PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    (file,) = explain_stream(option, 0.6, [[0.9, 0.0]], sys.argv[1], format="csv")
    print(file.read_text().splitlines()[1][:9])
    try:
        explain_stream(option, 0.6, [[0.9, 0.0]], sys.argv[1] + "p")
    except ImportError as error:
        print(error)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = run.stdout.splitlines()
    assert first == "0,True,a,"
    assert second == 'format="parquet" needs pyarrow: pip install "lvqrej[scale]", or take format="csv"'
    assert json.loads((tmp_path / "csv" / MANIFEST).read_text())["theta"] == 0.6
    assert not (tmp_path / "csvp").exists()
