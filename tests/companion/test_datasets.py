"""Data sets by name: the right one or an error that says how to get it; downloads from a loopback server."""

import dataclasses
import hashlib
import http.server
import io
import socket
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from companion import datasets
from companion.datasets import NAMES, DataError, DataSet, download, load
from companion.running_example import RunningExample, running_example
from lvqrej import RelativeSimilarity


@pytest.fixture(autouse=True)
def own_folders(monkeypatch, tmp_path):
    """No test sees the data, the settings or the proxies of the machine."""
    for variable in ("LVQREJ_DATA", "LVQREJ_DATA_URL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def flip_like(n=136, d=12, positive=21, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.permutation(np.arange(n) < positive).astype(float)


def npz(X, y, **more):
    buffer = io.BytesIO()
    np.savez(buffer, X=X, y=y, **more)
    return buffer.getvalue()


def write_npz(path, X, y):
    path.write_bytes(npz(X, y))
    return path


def write_csv(path, X, y, label="label", at=0):
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    table.insert(at, label, y)
    table.to_csv(path, index=False)
    return path


# Bundled with scikit-learn


@pytest.mark.parametrize(
    ("name", "loader"),
    [
        ("wine", load_wine),
        ("breast_cancer", load_breast_cancer),
        ("iris", load_iris),
        ("digits", load_digits),
    ],
)
def test_bundled(name, loader):
    data, bunch = load(name), loader()
    assert np.array_equal(data.X, bunch.data)
    assert np.array_equal(data.y, bunch.target)
    assert data.feature_names == list(bunch.feature_names)
    assert list(data.class_names) == [str(c) for c in bunch.target_names]
    assert not data.synthetic
    assert data.name == name
    assert "Synthetic" not in data.description
    assert (data.X.dtypes == np.float64).all()


def test_sizes_of_the_paper():
    assert load("wine").X.shape == (178, 13)
    assert load("breast_cancer").X.shape == (569, 30)


def test_every_name_has_its_own_content():
    shas = {name: load(name).sha for name in NAMES if name not in ("flip", "t21")}
    assert len(set(shas.values())) == len(shas) == 6


def test_unknown_name():
    with pytest.raises(ValueError, match=r"name must be one of 'wine'.*'t21_synthetic'; found 'wines'"):
        load("wines")


@pytest.mark.parametrize("name", ["wine", "flip_synthetic"])
@pytest.mark.parametrize("argument", ["path", "label"])
def test_arguments_that_would_be_ignored_are_refused(name, argument):
    with pytest.raises(DataError, match=f"{argument} is only for flip and t21; {name}"):
        load(name, **{argument: "x.csv"})


def test_running_example_is_still_here():
    example = running_example()
    assert isinstance(example, RunningExample)
    assert np.array_equal(example.x, example.X[83])
    option = RelativeSimilarity(example.model)
    rejected = option.certainty(example.X) < example.threshold(option)
    assert rejected.mean() == pytest.approx(0.2, abs=0.01)
    assert rejected[83]


# The data set itself


def test_hash_is_of_the_content_alone():
    X, y = pd.DataFrame({"a": [0.0, np.nan], "b": [1.0, 2.0]}), np.array([0, 1])
    first = DataSet("one", X, y, ("p", "q"), False, "first")
    same = DataSet("two", X.copy(), y.astype(np.int32), ("p", "q"), True, "second")
    assert first.sha == same.sha
    negative_zero = X.copy()
    negative_zero.iloc[0, 0] = -0.0
    assert DataSet("one", negative_zero, y, ("p", "q"), False, "").sha == first.sha
    others = [
        DataSet("one", X.rename(columns={"a": "c"}), y, ("p", "q"), False, ""),
        DataSet("one", X, y[::-1], ("p", "q"), False, ""),
        DataSet("one", X, y, ("p", "r"), False, ""),
        DataSet("one", X.fillna(0.0), y, ("p", "q"), False, ""),
    ]
    assert len({first.sha, *(other.sha for other in others)}) == 5


def test_hash_and_text_are_stable():
    data = DataSet("toy", pd.DataFrame({"a": [1.0, 2.0]}), np.array([0, 1]), ("p", "q"), False, "A toy.")
    values = np.array([1.0, 2.0], dtype="<f8").tobytes() + np.array([0, 1], dtype="<i8").tobytes()
    assert data.sha == hashlib.sha256(b"((2, 1), ['a'], ('p', 'q'))" + values).hexdigest()
    assert str(data) == "toy: 2 x 1 (1 p, 1 q). A toy."
    assert data.missing == 0


@pytest.mark.parametrize(
    ("X", "y", "classes", "message"),
    [
        ([[1.0]], [0, 1], ("p", "q"), "y as long; found .1, 1. and 2"),
        (np.empty((0, 2)), [], ("p", "q"), "must not be empty"),
        (np.empty((2, 0)), [0, 1], ("p", "q"), "must not be empty"),
        ([[1.0], [2.0]], [0, 0], ("p",), "at least two classes"),
        ([[1.0], [2.0]], [0, 0], ("p", "q"), "at least two classes"),
        ([[1.0], [2.0]], [0, 2], ("p", "q"), "at least two classes"),
        ([[1.0], [np.inf]], [0, 1], ("p", "q"), "infinite value at row 1, column 0"),
    ],
)
def test_a_data_set_is_checked(X, y, classes, message):
    with pytest.raises(DataError, match=message):
        DataSet("toy", pd.DataFrame(X), np.array(y, dtype=np.int64), classes, False, "")


# Real data from a file of the user's


def test_npz_by_argument(tmp_path):
    X, y = flip_like()
    data = load("flip", write_npz(tmp_path / "mine.npz", X, y))
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, y)
    assert data.counts == {"0": 115, "1": 21}
    assert data.feature_names[0] == "feature 1"
    assert not data.synthetic
    for fact in ("118", "136", "21 and 115", "already filled", "mine.npz"):
        assert fact in data.description


@pytest.mark.parametrize("file", ["flip_notscaled.npz", "flip.npz", "flip.csv"])
@pytest.mark.parametrize("how", ["argument", "variable", "cache"])
def test_folder(tmp_path, monkeypatch, file, how):
    folder = tmp_path / ("cache/lvqrej" if how == "cache" else "data")
    folder.mkdir(parents=True)
    X, y = flip_like()
    (write_csv if file.endswith("csv") else write_npz)(folder / file, X, y)
    if how == "variable":
        monkeypatch.setenv("LVQREJ_DATA", str(folder))
    data = load("flip", folder if how == "argument" else None)
    assert np.allclose(data.X, X)
    assert np.array_equal(data.y, y)
    assert file in data.description


def test_file_by_variable_and_the_argument_wins(tmp_path, monkeypatch):
    X, y = flip_like(seed=1)
    monkeypatch.setenv("LVQREJ_DATA", str(write_npz(tmp_path / "a.npz", X, y)))
    assert np.array_equal(load("flip").X, X)
    other, labels = flip_like(seed=2)
    assert np.array_equal(load("flip", str(write_npz(tmp_path / "b.npz", other, labels))).X, other)


def test_cache_without_settings_is_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.default_folder() == tmp_path / ".cache" / "lvqrej"


@pytest.mark.parametrize("name", ["flip", "t21"])
@pytest.mark.parametrize("how", ["argument", "variable", "cache", "empty folder"])
def test_missing_file_says_how_to_get_it(tmp_path, monkeypatch, name, how):
    if how == "variable":
        monkeypatch.setenv("LVQREJ_DATA", str(tmp_path / "nowhere"))
    path = {"argument": tmp_path / "nowhere", "empty folder": tmp_path}.get(how)
    with pytest.raises(DataError) as caught:
        load(name, path)
    message = str(caught.value)
    for part in (
        f"download('{name}')",
        "a7efe32",
        f"{name}_notscaled.npz",
        "LVQREJ_DATA",
        f"load('{name}_synthetic')",
        {"argument": "(path)", "empty folder": "(path): none of", "variable": "(LVQREJ_DATA)"}.get(
            how, "(the default)"
        ),
    ):
        assert part in message


def test_the_command_in_the_message_runs(tmp_path):
    """Not the download, which tests never do: the command up to the network."""
    start = datasets.how_to_get("flip").index("`python -c ") + len('`python -c "')
    command = datasets.how_to_get("flip")[start:].split('"')[0]
    environment = {"LVQREJ_DATA_URL": "http://127.0.0.1:9", "LVQREJ_DATA": str(tmp_path), "NO_PROXY": "*"}
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    assert "DataError: http://127.0.0.1:9/flip_notscaled.npz could not be downloaded" in run.stderr


def test_the_paper_size_of_flip_is_read_too(tmp_path):
    X, y = flip_like(n=118, positive=20)
    X[3, 4] = np.nan
    data = load("flip", write_npz(tmp_path / "flip.npz", X, y))
    assert len(data.X) == 118
    assert data.missing == pytest.approx(1 / X.size)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"d": 13}, "is not flip: it must have 12 features and 2 classes; found 13 features"),
        ({"n": 137}, "must have 136 or 118 rows; found 137"),
        ({"positive": 22}, r"classes must have \(21, 115\) rows; found"),
    ],
)
def test_a_file_that_is_not_flip(tmp_path, size, message):
    with pytest.raises(DataError, match=message):
        load("flip", write_npz(tmp_path / "flip.npz", *flip_like(**size)))


def test_t21_has_18_features_and_two_classes(tmp_path):
    X, y = flip_like(n=500, d=18, positive=4)
    assert load("t21", write_npz(tmp_path / "t21.npz", X, y)).counts == {"0": 496, "1": 4}
    with pytest.raises(DataError, match="18 features and 2 classes; found 12 features"):
        load("t21", write_npz(tmp_path / "t21.npz", X[:, :12], y))
    with pytest.raises(DataError, match="found 18 features and 3 classes"):
        load("t21", write_npz(tmp_path / "t21.npz", X, np.arange(500) % 3))


# CSV


@pytest.mark.parametrize("column", ["label", "y", "class", "Class", "LABEL"])
def test_csv_finds_its_label_by_name(tmp_path, column):
    X, y = flip_like()
    data = load("flip", write_csv(tmp_path / "flip.csv", X, y, column, at=5))
    assert np.array_equal(data.y, y)
    assert data.feature_names == [f"f{j}" for j in range(12)]


def test_csv_label_by_argument_and_by_place(tmp_path):
    X, y = flip_like()
    path = write_csv(tmp_path / "flip.csv", X, y, "stage", at=3)
    assert np.array_equal(load("flip", path, label="stage").y, y)
    path = write_csv(tmp_path / "flip.csv", X, y, "stage", at=12)
    assert np.array_equal(load("flip", path).y, y)


def test_csv_and_npz_agree(tmp_path):
    X, y = flip_like()
    table = load("flip", write_csv(tmp_path / "flip.csv", X, y))
    arrays = load("flip", write_npz(tmp_path / "flip.npz", X, y))
    assert np.array_equal(table.X, arrays.X)
    assert table.counts == arrays.counts


def test_csv_with_text_labels_and_missing_values(tmp_path):
    X, y = flip_like()
    X[2, 7] = np.nan
    data = load("flip", write_csv(tmp_path / "flip.csv", X, np.where(y, "sick", "healthy")))
    assert data.counts == {"healthy": 115, "sick": 21}
    assert data.X.isna().to_numpy().nonzero() == (np.array([2]), np.array([7]))


def test_csv_without_a_label_column_named_so(tmp_path):
    with pytest.raises(DataError, match="has no column 'stage'; found"):
        load("flip", write_csv(tmp_path / "flip.csv", *flip_like()), label="stage")


def test_csv_with_two_label_columns(tmp_path):
    X, y = flip_like()
    path = write_csv(tmp_path / "flip.csv", X, y)
    table = pd.read_csv(path).rename(columns={"f0": "y"})
    table.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"by label=...; found \['label', 'y'\]"):
        load("flip", path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as a CSV file"),
        ("1,2,0\n3,4,1\n", "must begin with a header line; found \\['1', '2', '0'\\]"),
        ("a,b,label\n1,x,0\n2,3,1\n", "column 'b' must be numeric; found 'x' in row 0"),
        ("a,b,label\n1,2,0\n2,3,\n", "every row must have a label; found none in row 1"),
        ("a,b,label\n1,2,0,7,8\n2,3\n4,5,6,7,8,9\n", "cannot be read as a CSV file"),
        ("a,b,label\n1,2,0\n2,inf,1\n", "infinite value at row 1, column 1"),
        ("a,b,label\n1,2,0\n2,3,0\n", "at least two classes"),
    ],
)
def test_bad_csv(tmp_path, text, message):
    (tmp_path / "flip.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load("flip", tmp_path / "flip.csv")


def test_csv_in_no_encoding(tmp_path):
    (tmp_path / "flip.csv").write_bytes(b"a,label\n\xff\xfe\x00,1\n")
    with pytest.raises(DataError, match="cannot be read as a CSV file"):
        load("flip", tmp_path / "flip.csv")


def test_other_endings_and_label_for_npz(tmp_path):
    (tmp_path / "flip.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"must end in .npz or .csv; found '.xlsx'"):
        load("flip", tmp_path / "flip.xlsx")
    with pytest.raises(DataError, match="label names a column of a CSV file"):
        load("flip", write_npz(tmp_path / "flip.npz", *flip_like()), label="y")


# .npz: whatever is in it, a DataError and never an unpickled object

RAN = []


class Trap:
    """Unpickled, it would leave a trace."""

    def __reduce__(self):
        return (RAN.append, ("unpickled",))


def trap(shape):
    array = np.empty(shape, dtype=object)
    array.flat[0] = Trap()
    return array


GOOD = npz(*flip_like())
BAD_NPZ = {
    "empty": b"",
    "no zip": b"this is not an archive",
    "half": GOOD[: len(GOOD) // 2],
    "flipped bits": GOOD[:400] + bytes(255 - b for b in GOOD[400:500]) + GOOD[500:],
    "one array": (lambda b: (np.save(b, np.eye(3)), b.getvalue())[1])(io.BytesIO()),
    "pickle in X": npz(trap((136, 12)), flip_like()[1]),
    "pickle in y": npz(flip_like()[0], trap(136)),
    "no y": (lambda b: (np.savez(b, X=np.eye(3)), b.getvalue())[1])(io.BytesIO()),
    "no X": (lambda b: (np.savez(b, y=np.eye(3)), b.getvalue())[1])(io.BytesIO()),
    "X is flat": npz(np.zeros(136), flip_like()[1]),
    "X is text": npz(flip_like()[0].astype(str), flip_like()[1]),
    "X is complex": npz(flip_like()[0] * 1j, flip_like()[1]),
    "y is short": npz(flip_like()[0], flip_like()[1][:-1]),
    "y is a table": npz(flip_like()[0], flip_like()[1].reshape(68, 2)),
    "y has NaN": npz(flip_like()[0], np.where(flip_like()[1] == 1, np.nan, 0)),
    "X has infinity": npz(flip_like()[0] * np.inf, flip_like()[1]),
    "one class": npz(flip_like()[0], np.zeros(136)),
    "other size": npz(*flip_like(d=11)),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_bad_npz(tmp_path, case):
    (tmp_path / "flip.npz").write_bytes(BAD_NPZ[case])
    with pytest.raises(DataError):
        load("flip", tmp_path / "flip.npz")
    assert RAN == []


def test_a_bare_pickle_is_not_opened(tmp_path):
    import pickle

    (tmp_path / "flip.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match=r"cannot be read as an .npz file of plain arrays"):
        load("flip", tmp_path / "flip.npz")
    assert RAN == []


def test_a_column_of_labels_is_read(tmp_path):
    X, y = flip_like()
    assert np.array_equal(load("flip", write_npz(tmp_path / "flip.npz", X, y.reshape(-1, 1))).y, y)


# Download, from a server on this machine


class Server(http.server.ThreadingHTTPServer):
    """Answers every request with `status` and `body`; announces `length` bytes if given."""

    daemon_threads = True
    status, body, length = 200, b"", None

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}/data"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
            self.server.status = 404
        self.send_header("Content-Length", str(self.server.length or len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def known(monkeypatch):
    """Make `body` the published file of `name`, as far as its hash goes."""

    def publish(name, body):
        start = hashlib.sha256(body).hexdigest()[:8]
        published = dataclasses.replace(datasets.PUBLISHED[name], sha_start=start)
        monkeypatch.setitem(datasets.PUBLISHED, name, published)
        return body

    return publish


def everything_in(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_download_then_load(server, known, tmp_path):
    X, y = flip_like()
    server.body = known("flip", npz(X, y))
    path = download("flip", tmp_path / "new" / "folder", address=server.address)
    assert path == tmp_path / "new" / "folder" / "flip_notscaled.npz"
    assert path.read_bytes() == server.body
    assert everything_in(path.parent) == ["flip_notscaled.npz"]
    assert server.requests == ["/data/flip_notscaled.npz"]
    assert np.array_equal(load("flip", path.parent).X, X)


@pytest.mark.parametrize("variable", [True, False])
def test_download_without_a_folder_is_found_by_load(server, known, tmp_path, monkeypatch, variable):
    server.body = known("flip", GOOD)
    monkeypatch.setenv("LVQREJ_DATA_URL", server.address + "/")
    if variable:
        monkeypatch.setenv("LVQREJ_DATA", str(tmp_path / "mine"))
    path = download("flip")
    assert path.parent == tmp_path / ("mine" if variable else "cache/lvqrej")
    assert server.requests == ["/data/flip_notscaled.npz"]
    assert load("flip").counts == {"0": 115, "1": 21}


def test_t21_is_checked_by_shape_and_finiteness(server, tmp_path):
    X, y = flip_like(n=500, d=18, positive=4)
    server.body = npz(X, y)
    assert len(load("t21", download("t21", tmp_path, address=server.address)).X) == 500


def test_a_checked_file_is_not_fetched_again(server, known, tmp_path):
    server.body = known("flip", GOOD)
    first = download("flip", tmp_path, address=server.address)
    assert download("flip", tmp_path, address=server.address) == first
    assert len(server.requests) == 1


def test_another_file_of_that_name_is_never_overwritten(server, known, tmp_path):
    server.body = known("flip", GOOD)
    mine = tmp_path / "flip_notscaled.npz"
    mine.write_bytes(b"my own work")
    with pytest.raises(DataError, match="is not the published file"):
        download("flip", tmp_path, address=server.address)
    assert mine.read_bytes() == b"my own work"
    assert server.requests == []


@pytest.mark.parametrize("status", [302, 403, 404, 429, 500, 503])
def test_server_error(server, known, tmp_path, status):
    server.status, server.body = status, known("flip", GOOD)
    with pytest.raises(
        DataError, match=f"could not be downloaded.*{404 if status == 302 else status}"
    ) as caught:
        download("flip", tmp_path, address=server.address)
    assert "load('flip_synthetic')" in str(caught.value)
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("sent", [0, 1, 1000, len(GOOD) - 1])
def test_cut_connection(server, known, tmp_path, sent):
    known("flip", GOOD)
    server.body, server.length = GOOD[:sent], len(GOOD)
    with pytest.raises(DataError, match="could not be downloaded"):
        download("flip", tmp_path, address=server.address)
    assert everything_in(tmp_path) == []


def test_wrong_checksum(server, tmp_path):
    """With the checksum that is really published: no file made here has it."""
    server.body = GOOD
    with pytest.raises(DataError, match=r"SHA-256 must begin with 64d5c052; found [0-9a-f]{64}"):
        download("flip", tmp_path, address=server.address)
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("case", BAD_NPZ)
def test_right_checksum_wrong_content(server, known, tmp_path, case):
    server.body = known("flip", BAD_NPZ[case])
    with pytest.raises(DataError):
        download("flip", tmp_path, address=server.address)
    assert everything_in(tmp_path) == []
    assert RAN == []


@pytest.mark.parametrize("name", ["flip", "t21"])
def test_a_missing_value_is_not_what_was_published(server, known, tmp_path, name):
    X, y = flip_like(d=datasets.PUBLISHED[name].n_features)
    X[5, 5] = np.nan
    server.body = known(name, npz(X, y))
    with pytest.raises(DataError, match="all its values must be finite"):
        download(name, tmp_path, address=server.address)
    assert everything_in(tmp_path) == []


def test_refused_connection(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with pytest.raises(DataError, match="could not be downloaded") as caught:
        download("flip", tmp_path, address=f"http://127.0.0.1:{port}")
    assert "by hand" in str(caught.value)
    assert everything_in(tmp_path) == []


def test_a_silent_server_does_not_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "TIMEOUT", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(DataError, match="timed out"):
            download("flip", tmp_path, address=f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize("address", ["no address", "http://", "http://[broken", "nothing://127.0.0.1"])
def test_bad_address(tmp_path, address):
    with pytest.raises(DataError, match="could not be downloaded"):
        download("flip", tmp_path, address=address)
    assert everything_in(tmp_path) == []


def test_a_folder_that_is_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("LVQREJ_DATA", str(write_npz(tmp_path / "flip.npz", *flip_like())))
    with pytest.raises(DataError, match="could not be downloaded to"):
        download("flip", address="http://127.0.0.1:9")
    assert everything_in(tmp_path) == ["flip.npz"]


@pytest.mark.parametrize("name", ["wine", "flip_synthetic", ""])
def test_only_what_was_published_is_downloaded(name):
    with pytest.raises(ValueError, match="name must be one of 'flip', 't21'"):
        download(name)


def test_the_address_is_pinned():
    assert datasets.ADDRESS.startswith("https://")
    assert "/a7efe32de9d6f4b6e64683982ab078cafc2912fb/" in datasets.ADDRESS
    assert datasets.PUBLISHED["flip"].sha_start == "64d5c052"
