"""A classifier saved and loaded: the same to the last bit, and every damaged file told apart."""

import json
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn_lvq import GlvqModel

import lvqrej.telling.storage
from lvqrej import GLVQ, GMLVQ, DecisionDistance, PrototypeModel, RelativeSimilarity
from lvqrej.classifier import RejectOptionClassifier
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.telling.storage import StorageError, load, save

X, Y = make_blobs(90, centers=[[0, 0], [3, 0], [0, 3]], random_state=0)
COMPLETE = RelativeSimilarity(PrototypeModel([[0, 0], [3, 0], [0, 3]], [0, 1, 2]))
TEMPLATE = ProbabilisticCertainty(make_pipeline(MinMaxScaler(), GLVQ()), cv=3, normalize=True, random_state=2)


def wine():
    data = load_wine(as_frame=True)
    names = pd.Series(data.target_names[data.target], name="cultivar")
    return data.data[["alcohol", "flavanoids", "proline"]], names


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "classifier.npz"
    RejectOptionClassifier(GLVQ(), threshold=("reject_rate", 0.1), cv=2).fit(X, Y).save(path)
    return path


@pytest.mark.parametrize(
    "classifier",
    [
        RejectOptionClassifier(GLVQ(), threshold=("costs", 10, 1), cv=3, random_state=4),
        RejectOptionClassifier(make_pipeline(MinMaxScaler(), GMLVQ(c=[(0, 1, 2.0)])), DecisionDistance, 0.2),
        RejectOptionClassifier(GLVQ(), partial(DecisionDistance, norm="euclidean"), np.float64(0.2)),
        RejectOptionClassifier(GLVQ(), "probabilistic", "knee", cv=2, reject_label=np.int64(77)),
        RejectOptionClassifier(option=TEMPLATE, threshold=0.5),
        RejectOptionClassifier(option=COMPLETE, threshold="knee"),
        RejectOptionClassifier(None, RelativeSimilarity, ["accuracy", 0.9], cv=2),
    ],
    ids=range(7),
)
def test_loaded_is_the_same_to_the_last_bit(classifier, tmp_path):
    classifier.fit(X, Y).save(tmp_path / "file")
    again = RejectOptionClassifier.load(tmp_path / "file")
    for method in ("certainty", "predict", "rejects"):
        np.testing.assert_array_equal(getattr(again, method)(X), getattr(classifier, method)(X))
        assert getattr(again, method)(X).dtype == getattr(classifier, method)(X).dtype
    assert again.explain(X[:5]).to_json() == classifier.explain(X[:5]).to_json()
    assert (again.threshold_, again.operating_point_) == (classifier.threshold_, classifier.operating_point_)
    assert again.score(X, Y) == classifier.score(X, Y)
    if classifier.curve_ is not None:
        np.testing.assert_array_equal(again.curve_.accuracies, classifier.curve_.accuracies)
        assert again.curve_.area == classifier.curve_.area
    # It can be trained again, with the same result: the parameters are there, too.
    if not isinstance(classifier.option, RelativeSimilarity):
        np.testing.assert_array_equal(again.fit(X, Y).certainty(X), classifier.certainty(X))


@pytest.mark.parametrize("option", ["relative-similarity", "probabilistic"])
def test_names_and_units_survive(option, tmp_path):
    frame, names = wine()
    estimator = make_pipeline(StandardScaler(), GLVQ(random_state=0))
    classifier = RejectOptionClassifier(estimator, option, ("reject_rate", 0.2), cv=2).fit(frame, names)
    classifier.save(tmp_path / "wine.npz")
    again = load(tmp_path / "wine.npz")
    pd.testing.assert_series_equal(again.predict(frame), classifier.predict(frame))
    x = frame[classifier.rejects(frame)].iloc[0]
    assert str(again.explain(x)) == str(classifier.explain(x))
    assert again.explain(x).cause == classifier.explain(x).cause
    np.testing.assert_array_equal(again.scale_, classifier.scale_)
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame[frame.columns[::-1]])
    if option == "probabilistic":
        pd.testing.assert_frame_equal(again.predict_proba(frame), classifier.predict_proba(frame))


@pytest.mark.parametrize(
    "labels", [np.array([1.0, 2.0]), np.array([False, True]), np.array(["x", "yy"], dtype=object)], ids=str
)
def test_labels_of_all_kinds(labels, tmp_path):
    y = labels[(X[:, 0] > 1.5).astype(int)]
    classifier = RejectOptionClassifier(GLVQ(), threshold=0.4).fit(X, y)
    classifier.save(tmp_path / "file.npz")
    np.testing.assert_array_equal(load(tmp_path / "file.npz").predict(X), classifier.predict(X))
    assert load(tmp_path / "file.npz").classes_.dtype == classifier.classes_.dtype


def test_the_file_holds_no_pickle(stored):
    with np.load(stored, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
        header = json.loads(file["header"].tobytes())
    assert (header["format"], header["version"]) == ("lvqrej RejectOptionClassifier", 1)


def test_other_files_are_told_apart(tmp_path):
    path = tmp_path / "file"
    contents = {
        "empty": b"",
        "text": b"a,b\n1,2\n",
        "pickle": pickle.dumps({"a": 1}),
        "half a zip": b"PK\x03\x04 and nothing else",
    }
    for content in contents.values():
        path.write_bytes(content)
        with pytest.raises(StorageError, match="is not a stored classifier"):
            load(path)
    with path.open("wb") as file:
        np.savez(file, X=X)
    with pytest.raises(StorageError, match="it has no header"):
        load(path)
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(StorageError, match="is not a stored classifier"):
        load(path)
    with path.open("wb") as file:
        np.savez(file, header=np.array([{}], dtype=object))
    with pytest.raises(StorageError, match="is not a stored classifier"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


def changed(stored, path, change):
    """Write the stored file again with its header or arrays changed by `change(header, arrays)`."""
    with np.load(stored) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    result = change(header, arrays)
    header = header if result is None else result
    if isinstance(header, dict) and header.get("digest") == "anew":
        header["digest"] = lvqrej.telling.storage._digest(arrays)
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        np.savez(file, header=np.frombuffer(text, dtype=np.uint8), **arrays)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header, arrays: header.update(version=2), "has version 2; this package reads version 1"),
        (lambda header, arrays: header.update(format="other"), "its format is 'other'"),
        (lambda header, arrays: header.pop("digest"), "no header"),
        (lambda header, arrays: [1], "no header"),
        (lambda header, arrays: arrays["model prototypes"].__setitem__((0, 0), 9), "match their digest"),
        (lambda header, arrays: arrays.pop("scale"), "match their digest"),
        (lambda header, arrays: header.pop("option"), "complete stored classifier: KeyError"),
        (lambda header, arrays: header["option"].update(kind="Other"), "KeyError"),
        (lambda header, arrays: header.update(threshold="high"), "could not convert"),
        (lambda header, arrays: header.update(n_features=3), "do not fit together"),
        (lambda header, arrays: header["parameters"].update(extra=1), "unexpected keyword"),
        (lambda header, arrays: header["parameters"].update(estimator={"estimator": "os"}), "KeyError"),
        (lambda header, arrays: header.update(familiarity=[[0], [1], [2]]), "KeyError"),
        (lambda header, arrays: (header.update(digest="anew"), arrays.pop("curve n_errors")), "KeyError"),
        (
            lambda header, arrays: (header.update(digest="anew"), arrays["model L"].fill(np.nan)),
            "L must be finite",
        ),
    ],
    ids=range(15),
)
def test_what_is_wrong_with_a_changed_file(stored, tmp_path, change, words):
    def only(header, arrays):
        result = change(header, arrays)
        return result if isinstance(result, list) else None

    with pytest.raises(StorageError, match=words):
        load(changed(stored, tmp_path / "changed", only))


def test_any_flipped_byte_is_noticed_or_harmless(stored, tmp_path):
    """A flipped byte never gives another classifier: an error, or (in idle fields) the same."""
    content = bytearray(stored.read_bytes())
    expected = load(stored).certainty(X)
    noticed = 0
    for position in range(0, len(content), 61):
        damaged = content.copy()
        damaged[position] ^= 0x55
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        try:
            again = load(path)
        except StorageError:
            noticed += 1
        else:
            np.testing.assert_array_equal(again.certainty(X), expected)
    assert noticed > len(content) / 61 / 2
    for length in range(0, len(content), 501):
        path.write_bytes(content[:length])
        with pytest.raises(StorageError):
            load(path)


def test_a_failed_write_leaves_the_old_file(stored, tmp_path, monkeypatch):
    path = tmp_path / "file.npz"
    path.write_bytes(stored.read_bytes())

    def full(file, **arrays):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="no space left"):
        load(stored).save(path)
    assert path.read_bytes() == stored.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_stored_is_named(tmp_path):
    class Own(RelativeSimilarity):
        pass

    path = tmp_path / "file"
    unusual = RejectOptionClassifier(GLVQ(c=[(0, 1, object())]), threshold=0.1)
    own = RejectOptionClassifier(GLVQ(), Own, 0.1).fit(X, Y)
    with pytest.raises(StorageError, match="option cannot be stored without pickle"):
        own.save(path)
    fitted = RejectOptionClassifier(GLVQ(), threshold=0.1).fit(X, Y).set_params(estimator=unusual.estimator)
    with pytest.raises(StorageError, match="estimator's c cannot be stored without pickle"):
        fitted.save(path)
    fitted.set_params(estimator=None).option_ = Own(fitted.option_.model)
    with pytest.raises(StorageError, match="option must be one of"):
        fitted.save(path)
    with pytest.raises(ValueError, match="classifier must be a RejectOptionClassifier"):
        save(GLVQ(), path)
    odd = RejectOptionClassifier(GLVQ(), threshold=0.1).fit(X, Y)
    odd.option_.model.labels = np.array([(0,), None, 2], dtype=object)
    with pytest.raises(StorageError, match="labels must be text, numbers or booleans"):
        odd.save(path)
    assert not path.exists()


def test_models_of_sklearn_lvq_are_among_the_known_estimators():
    assert (
        lvqrej.telling.storage._decode(
            lvqrej.telling.storage._encode(GlvqModel(beta=3), "estimator"), None
        ).beta
        == 3
    )
