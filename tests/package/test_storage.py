"""A classifier saved and loaded: the same to the last bit, and every damaged file told apart."""

import hashlib
import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_wine, make_blobs
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn_lvq import GlvqModel

from lvqrej import (
    GLVQ,
    GMLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
)
from lvqrej.storage import FORMAT, StorageError, write_whole

load = RejectOptionClassifier.load
X, Y = make_blobs(90, centers=[[0, 0], [3, 0], [0, 3]], random_state=0)
COMPLETE = RelativeSimilarity(PrototypeModel([[0, 0], [3, 0], [0, 3]], [0, 1, 2]))
TEMPLATE = ProbabilisticCertainty(make_pipeline(MinMaxScaler(), GLVQ()), cv=3, normalize=True, random_state=2)


def wine():
    data = load_wine(as_frame=True)
    names = pd.Series(data.target_names[data.target], name="cultivar")
    return data.data[["alcohol", "flavanoids", "proline"]], names


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "classifier.json"
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
    classifier.save(tmp_path / "wine.json")
    again = load(tmp_path / "wine.json")
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
    classifier.save(tmp_path / "file.json")
    np.testing.assert_array_equal(load(tmp_path / "file.json").predict(X), classifier.predict(X))
    assert load(tmp_path / "file.json").classes_.dtype == classifier.classes_.dtype


def test_the_file_is_text_without_training_data(stored):
    header, body = stored.read_text(encoding="ascii").split("\n")
    assert (json.loads(header)["format"], json.loads(header)["version"]) == (FORMAT, 2)
    assert json.loads(body)["threshold_"] == load(stored).threshold_
    extremes = {*X.min(axis=0), *X.max(axis=0)}
    for number in X[:20].ravel():  # what else a file has of a sample is its distance from a prototype
        assert number in extremes or repr(float(number)) not in body


def test_other_files_are_told_apart(tmp_path):
    path = tmp_path / "file"
    contents = {
        "empty": b"",
        "text": b"a,b\n1,2\n",
        "JSON": b"[1, 2]\n",
        "nested": b"[" * 100_000,
        "pickle": pickle.dumps({"a": 1}),
        "half a zip": b"PK\x03\x04 and nothing else",
        "other": json.dumps({"format": "other", "version": 2}).encode(),
    }
    for content in contents.values():
        path.write_bytes(content)
        with pytest.raises(StorageError, match="is not a stored classifier"):
            load(path)
    with path.open("wb") as file:
        np.savez(file, X=X)
    with pytest.raises(StorageError, match="is not a stored classifier"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)
    with pytest.raises(ValueError, match="path must be text or a Path"):
        load(3)


def test_files_of_the_first_edition_are_refused_by_name(tmp_path):
    path = tmp_path / "old.npz"
    text = json.dumps({"format": FORMAT, "version": 1}).encode()
    with path.open("wb") as file:
        np.savez_compressed(file, header=np.frombuffer(text, dtype=np.uint8), scale=np.ones(2))
    with pytest.raises(
        StorageError, match=r"was saved by lvqrej 0\.1: fit again, or load it with lvqrej 0\.1"
    ):
        load(path)


def changed(stored, path, change):
    """Write the stored file again with its content changed, and a digest that fits."""
    header, body = map(json.loads, stored.read_bytes().split(b"\n"))
    change(header, body)
    text = json.dumps(body).encode()
    if header.get("sha256") == "anew":
        header["sha256"] = hashlib.sha256(text).hexdigest()
    path.write_bytes(json.dumps(header).encode() + b"\n" + text)
    return path


def model_of(body):
    return body["option_"]["with"]["model"]["with"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header, body: header.update(version=3), "has version 3; this package reads version 2"),
        (lambda header, body: header.update(format="other"), "is not a stored classifier"),
        (lambda header, body: header.pop("sha256"), "does not match its digest"),
        (lambda header, body: body.update(threshold_=0.1), "does not match its digest"),
    ],
    ids=range(4),
)
def test_what_is_wrong_with_a_changed_file(stored, tmp_path, change, words):
    with pytest.raises(StorageError, match=words):
        load(changed(stored, tmp_path / "changed", change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: body.pop("option_"), "KeyError.*option_"),
        (lambda body: body["option_"].update(made="Other"), "KeyError.*Other"),
        (lambda body: body.update(option_={"made": "GLVQ", "with": {}}), "complete stored classifier"),
        (lambda body: body.update(option_=3), "complete stored classifier"),
        (lambda body: body.update(n_features_in_=3), "do not fit together"),
        (lambda body: body.pop("estimator"), "KeyError.*estimator"),
        (lambda body: body.update(curve_={"class": "os.system"}), "KeyError.*os.system"),
        (lambda body: body.update(curve_={"partial": "eval", "with": {}}), "KeyError.*eval"),
        (lambda body: model_of(body)["L"]["array"][0].__setitem__(0, float("nan")), "L must be finite"),
        (lambda body: model_of(body)["labels"]["array"].pop(), "one entry per prototype"),
        (lambda body: body["scale_"].update(dtype="<U999999999999"), "complete stored classifier"),
        (lambda body: body["scale_"].update(dtype="nothing"), "complete stored classifier"),
    ],
    ids=range(12),
)
def test_a_file_made_on_purpose_names_nothing_but_known_classes_which_check_it(
    stored, tmp_path, change, words
):
    def forged(header, body):
        header["sha256"] = "anew"
        change(body)

    with pytest.raises(StorageError, match=words):
        load(changed(stored, tmp_path / "changed", forged))


def test_every_flipped_byte_and_every_truncation_is_noticed(stored, tmp_path):
    content, path = stored.read_bytes(), tmp_path / "damaged"
    places = [*range(200), *range(200, len(content), 61), len(content) - 1]
    for place in places:
        for flip in (0x01, 0x20, 0x55):  # 0x20 turns letters into capitals, which JSON might not mind
            damaged = bytearray(content)
            damaged[place] ^= flip
            path.write_bytes(damaged)
            with pytest.raises(StorageError):
                load(path)
    for length in [*range(200), *range(200, len(content), 501), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(StorageError):
            load(path)
    path.write_bytes(content + b"\n")
    with pytest.raises(StorageError, match="does not match its digest"):
        load(path)


def test_a_failed_write_leaves_the_old_file(stored, tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    path.write_bytes(stored.read_bytes())

    def full(draft, content):
        with draft.open("wb") as file:
            file.write(content[:50])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        load(stored).save(path)
    assert path.read_bytes() == stored.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_nobody_sees_a_draft(tmp_path):
    path, seen = tmp_path / "file", []

    def write(draft):
        draft.write_text("whole")
        seen.append((draft.parent, draft.name.startswith("."), path.exists()))

    write_whole(path, write)
    assert seen == [(tmp_path, True, False)]
    assert [file.read_text() for file in tmp_path.iterdir()] == ["whole"]


def table():
    """Return numbers with a gap and a category, and their labels."""
    frame = pd.DataFrame(X, columns=["age", "income"]).assign(city=np.where(X[:, 0] > 1, "Rome", "Oslo"))
    frame.loc[3, "age"] = np.nan
    return frame, Y


@pytest.mark.parametrize(
    "columns",
    [
        lambda frame: (["age", "income"], ["city"]),
        lambda frame: (frame.columns[:2], frame.columns[2:]),
        lambda frame: (
            make_column_selector(dtype_include="number"),
            make_column_selector(dtype_exclude=np.number),
        ),
    ],
    ids=["lists", "index", "selectors"],
)
def test_a_pipeline_of_one_s_own_is_stored(columns, tmp_path):
    """With the forms of columns that scikit-learn's own examples use, and its encoder's type of numbers."""
    frame, labels = table()
    numbers, categories = columns(frame)
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), categories),
    )
    fitted = RejectOptionClassifier(make_pipeline(steps, GLVQ()), threshold=0.3).fit(frame, labels)
    fitted.save(tmp_path / "file")
    again = load(tmp_path / "file")
    np.testing.assert_array_equal(again.certainty(frame), fitted.certainty(frame))
    assert str(again.explain(frame.iloc[0])) == str(fitted.explain(frame.iloc[0]))
    np.testing.assert_array_equal(again.fit(frame, labels).certainty(frame), fitted.certainty(frame))


def test_what_would_train_it_again_can_be_left_out(tmp_path):
    estimator = make_pipeline(SelectKBest(f_classif, k=1), GLVQ())
    fitted = RejectOptionClassifier(estimator, threshold=0.3).fit(X, Y)
    with pytest.raises(StorageError, match=r"estimator's steps .* set_params\(estimator=None\) stores all"):
        fitted.save(tmp_path / "file")
    fitted.set_params(estimator=None).save(tmp_path / "file")
    np.testing.assert_array_equal(load(tmp_path / "file").certainty(X), fitted.certainty(X))


def test_what_cannot_be_stored_is_named(tmp_path):
    class Own(RelativeSimilarity):
        pass

    path = tmp_path / "file"
    fitted = RejectOptionClassifier(GLVQ(), threshold=0.1).fit(X, Y)
    for parameters, words in (
        ({"option": Own}, "option cannot be stored without pickle; found <class"),
        ({"option": partial(Own)}, "option cannot be stored without pickle; found functools.partial"),
        ({"option": partial(DecisionDistance, None)}, "option cannot be stored without pickle"),
        ({"estimator": GLVQ(c=[(0, 1, object())])}, "estimator's c cannot be stored without pickle"),
        ({"reject_label": np.array([0, 1j])}, "reject_label cannot be stored without pickle; found array"),
    ):
        with pytest.raises(StorageError, match=words):
            RejectOptionClassifier(GLVQ(), threshold=0.1).fit(X, Y).set_params(**parameters).save(path)
    fitted.option_ = Own(fitted.option_.model)
    with pytest.raises(StorageError, match="option_ cannot be stored without pickle; found <"):
        fitted.save(path)
    odd = RejectOptionClassifier(GLVQ(), threshold=0.1).fit(X, Y)
    odd.option_.model.labels = np.array([(0,), None, 2], dtype=object)
    with pytest.raises(StorageError, match="labels cannot be stored without pickle; found array"):
        odd.save(path)
    with pytest.raises(ValueError, match="path must be text or a Path"):
        odd.save(None)
    assert not path.exists()


def test_models_of_sklearn_lvq_are_among_the_known_estimators(stored, tmp_path):
    load(stored).set_params(estimator=GlvqModel(beta=3)).save(tmp_path / "file")
    assert load(tmp_path / "file").estimator.beta == 3


def test_what_decides_a_certainty_survives(tmp_path):
    """With a learned metric the two norms differ, and so do probabilities with and without their sum."""
    estimator = GMLVQ(random_state=0)
    for kind in (partial(DecisionDistance, norm="euclidean"), DecisionDistance):
        fitted = RejectOptionClassifier(estimator, kind, 0.2).fit(X, Y)
        fitted.save(tmp_path / "norm")
        again = load(tmp_path / "norm")
        assert again.option_.norm == fitted.option_.norm
        np.testing.assert_array_equal(again.certainty(X), fitted.certainty(X))
        np.testing.assert_array_equal(again.fit(X, Y).certainty(X), fitted.certainty(X))
    other = RejectOptionClassifier(estimator, partial(DecisionDistance, norm="euclidean"), 0.2).fit(X, Y)
    assert not np.allclose(other.certainty(X), fitted.certainty(X))
    sums = RejectOptionClassifier(option=TEMPLATE, threshold=0.5).fit(X, Y)
    sums.save(tmp_path / "sums")
    np.testing.assert_array_equal(load(tmp_path / "sums").certainty(X), sums.certainty(X))
    assert load(tmp_path / "sums").option_.normalize
