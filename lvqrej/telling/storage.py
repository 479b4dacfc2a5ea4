"""A fitted classifier in one file, without pickle: arrays as .npz, everything else as JSON inside it.

Reading such a file runs no code of its author's. What is in it is checked: that it is one of ours, its
version, a digest of all its arrays, and then every part by the class it belongs to. The training data is not
in it, nor the trained scikit-learn estimator: what it learned, prototypes and metric in the units of the
data, is.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import zipfile
import zlib
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted
from sklearn_lvq import GlvqModel, GmlvqModel

from lvqrej._validation import describe
from lvqrej.certainty import Certainty, DecisionDistance, RelativeSimilarity
from lvqrej.classifier import RejectOptionClassifier
from lvqrej.lvq import GLVQ, GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel
from lvqrej.telling.cause import Familiarity
from lvqrej.thresholds import AccuracyRejectCurve, OperatingPoint
from lvqrej.wrapping import SCALERS

FORMAT, VERSION = "lvqrej RejectOptionClassifier", 1
CURVE = ("thresholds", "n_rejected", "n_errors")
CERTAINTIES: dict[str, Any] = {
    kind.__name__: kind for kind in (RelativeSimilarity, DecisionDistance, ProbabilisticCertainty)
}
ESTIMATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (GLVQ, GMLVQ, GlvqModel, GmlvqModel, Pipeline, *SCALERS)
}
Arrays = dict[str, NDArray[Any]]
#: What NumPy and zipfile raise when they read something else, or a part of it.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, AttributeError, KeyError, SyntaxError,
    NotImplementedError, RuntimeError, struct.error, OverflowError, MemoryError,
)  # fmt: skip


class StorageError(ValueError):
    """A file is not a stored classifier, is damaged, or a classifier holds what cannot be stored."""


def save(classifier: RejectOptionClassifier, path: str | PathLike[str]) -> None:
    """Write a fitted classifier to `path`, at once or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = RejectOptionClassifier(threshold=0.3).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(classifier, f"{folder}/iris.npz")
    ...     again = load(f"{folder}/iris.npz")
    >>> bool((again.certainty(X) == classifier.certainty(X)).all())
    True
    """
    _check_path(path)
    if not isinstance(classifier, RejectOptionClassifier):
        raise ValueError(f"classifier must be a RejectOptionClassifier; found {describe(classifier)}")
    check_is_fitted(classifier)
    arrays: Arrays = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "parameters": {
            name: _encode(value, name, classifier.option_)
            for name, value in classifier.get_params(deep=False).items()
        },
        "option": _put_option(classifier.option_, arrays),
        "threshold": classifier.threshold_,
        "reject_label": _encode(classifier.reject_label_, "reject_label"),
        "target_name": _encode(classifier.target_name_, "the name of y"),
        "n_features": classifier.n_features_in_,
        "feature_names": list(getattr(classifier, "feature_names_in_", [])) or None,
        "operating_point": classifier.operating_point_ and list(classifier.operating_point_),
        "n_samples": classifier.curve_ and classifier.curve_.n_samples,
        "familiarity": [list(key) for key in classifier.familiarity_.distances],
    }
    arrays["scale"] = classifier.scale_
    for i, distances in enumerate(classifier.familiarity_.distances.values()):
        arrays[f"familiarity {i}"] = distances
    if classifier.curve_ is not None:
        for name in CURVE:
            arrays[f"curve {name}"] = getattr(classifier.curve_, name)
    header["digest"] = _digest(arrays)
    text = json.dumps(header, allow_nan=False).encode()
    _write(Path(path), {"header": np.frombuffer(text, dtype=np.uint8), **arrays})


def load(path: str | PathLike[str]) -> RejectOptionClassifier:
    """Return the classifier that `save` wrote to `path`, or raise a StorageError that says what is wrong."""
    _check_path(path)
    header, arrays = _read(Path(path))
    try:
        return _assembled(header, arrays)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise StorageError(f"{path} is not a complete stored classifier: {error!r}") from error


def _assembled(header: dict[str, Any], arrays: Arrays) -> RejectOptionClassifier:
    option = _get_option(header["option"], arrays, header["feature_names"])
    parameters = {name: _decode(value, option) for name, value in header["parameters"].items()}
    classifier = RejectOptionClassifier(**parameters)
    classifier.option_, classifier.classes_ = option, option.classes
    classifier.threshold_ = float(header["threshold"])
    classifier.reject_label_ = _decode(header["reject_label"], option)
    classifier.target_name_ = _decode(header["target_name"], option)
    classifier.n_features_in_ = int(header["n_features"])
    if header["feature_names"] is not None:
        classifier.feature_names_in_ = np.asarray(header["feature_names"], dtype=object)
    classifier.scale_ = arrays["scale"]
    if {option.n_features} != {classifier.n_features_in_, *classifier.scale_.shape}:
        raise ValueError("model, scale and number of features do not fit together")
    keys = [tuple(key) for key in header["familiarity"]]
    classifier.familiarity_ = Familiarity({key: arrays[f"familiarity {i}"] for i, key in enumerate(keys)})
    classifier.curve_ = classifier.operating_point_ = None
    if header["operating_point"] is not None:
        curve: dict[str, Any] = {name: arrays[f"curve {name}"] for name in CURVE}
        classifier.curve_ = AccuracyRejectCurve(**curve, n_samples=int(header["n_samples"]))
        classifier.operating_point_ = OperatingPoint(*header["operating_point"])
    return classifier


def _put_option(option: Any, arrays: Arrays) -> dict[str, Any]:
    """Put the arrays of a certainty among the others and return what else there is to know."""
    kind = type(option).__name__
    if CERTAINTIES.get(kind) is not type(option):
        raise StorageError(f"option must be one of {', '.join(CERTAINTIES)} to be stored; found a {kind}")
    if not isinstance(option, ProbabilisticCertainty):
        extra = {"norm": option.norm} if isinstance(option, DecisionDistance) else {}
        return {"kind": kind, **extra, "model": _put_model(option.model, "model", arrays)}
    arrays["alpha"], arrays["beta"] = option.alpha_, option.beta_
    models = [[*pair, _put_model(model, f"model {pair}", arrays)] for pair, model in option.models_.items()]
    labels = _put_labels(option.classes, "classes", arrays)
    return {"kind": kind, "models": models, "classes": labels, "normalize": option.normalize}


def _get_option(stored: dict[str, Any], arrays: Arrays, names: list[str] | None) -> Certainty:
    if stored["kind"] != "ProbabilisticCertainty":
        model = _get_model(stored["model"], arrays)
        extra = {"norm": stored["norm"]} if "norm" in stored else {}
        return CERTAINTIES[stored["kind"]](model, **extra)
    models = {(i, j): _get_model(model, arrays) for i, j, model in stored["models"]}
    option = ProbabilisticCertainty.from_pairs(
        models, arrays["alpha"], arrays["beta"], _get_labels(stored["classes"], arrays), stored["normalize"]
    )
    option.feature_names = names
    return option


def _put_model(model: PrototypeModel, name: str, arrays: Arrays) -> dict[str, Any]:
    arrays[f"{name} prototypes"], arrays[f"{name} L"] = model.prototypes, model.L
    labels = _put_labels(model.labels, f"{name} labels", arrays)
    return {"name": name, "labels": labels, "features": model.feature_names}


def _get_model(stored: dict[str, Any], arrays: Arrays) -> PrototypeModel:
    name, labels = stored["name"], _get_labels(stored["labels"], arrays)
    return PrototypeModel(arrays[f"{name} prototypes"], labels, arrays[f"{name} L"], stored["features"])


def _put_labels(labels: NDArray[Any], name: str, arrays: Arrays) -> dict[str, Any]:
    """Store labels; objects, which an array file cannot hold, only if they are text."""
    is_object = labels.dtype.kind == "O"
    if is_object and not all(isinstance(label, str) for label in labels):
        raise StorageError(f"labels must be text, numbers or booleans to be stored; found {describe(labels)}")
    arrays[name] = labels.astype(str) if is_object else labels
    return {"name": name, "object": is_object}


def _get_labels(stored: dict[str, Any], arrays: Arrays) -> NDArray[Any]:
    labels = arrays[stored["name"]]
    return labels.astype(object) if stored["object"] else labels


def _encode(value: Any, name: str, option: Any = None) -> Any:
    """Return a parameter as JSON: plain values as they are, the others as {kind: content}."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [_encode(item, name, option) for item in value]}
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biufU":
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if value is option:
        return {"fitted option": True}
    for kind, made in CERTAINTIES.items():
        if value is made:
            return {"certainty": kind}
        if isinstance(value, partial) and value.func is made and not value.args:
            return {"certainty": kind, "with": _items(value.keywords, name)}
    if type(value) is ProbabilisticCertainty:
        known = {key: getattr(value, key) for key in ("estimator", "cv", "normalize", "random_state")}
        return {"to fit": _items(known, name)}
    if ESTIMATORS.get(type(value).__name__) is type(value):
        return {"estimator": type(value).__name__, "with": _items(value.get_params(deep=False), name)}
    raise StorageError(f"{name} cannot be stored without pickle; found {describe(value)}")


def _items(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: _encode(value, f"{name}'s {key}") for key, value in values.items()}


def _decode(stored: Any, option: Any) -> Any:
    if not isinstance(stored, dict):
        return stored
    extra = {key: _decode(value, option) for key, value in stored.get("with", {}).items()}
    kind = next(iter(stored))
    if kind in ("tuple", "list"):
        return {"tuple": tuple, "list": list}[kind](_decode(item, option) for item in stored[kind])
    if kind == "array":
        return np.array(stored["array"], dtype=stored["dtype"])[()]
    if kind == "fitted option":
        return option
    if kind == "certainty":
        made = CERTAINTIES[stored[kind]]
        return partial(made, **extra) if "with" in stored else made
    if kind == "to fit":
        return ProbabilisticCertainty(**{key: _decode(value, option) for key, value in stored[kind].items()})
    return ESTIMATORS[stored["estimator"]](**extra)


def _digest(arrays: Arrays) -> str:
    """Return SHA-256 over names, types, shapes and bytes of the arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode() + array.tobytes())
    return digest.hexdigest()


def _check_path(path: Any) -> None:
    if not isinstance(path, (str, PathLike)):
        raise ValueError(f"path must be the name of a file; found {describe(path)}")


def _write(path: Path, arrays: Arrays) -> None:
    """Write to a temporary file beside the target and put it in its place: nobody ever sees half a file."""
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a file after checking that it is ours, of a known version and whole."""
    with path.open("rb") as file:
        try:
            content = np.load(file, allow_pickle=False)
            arrays = {name: content[name] for name in content.files}
        except _DAMAGE as error:
            raise StorageError(f"{path} is not a stored classifier, or is damaged: {error!r}") from error
    try:
        header = json.loads(arrays.pop("header").tobytes())
        form, version, digest = header["format"], header["version"], header["digest"]
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{path} is not a stored classifier: it has no header") from error
    if form != FORMAT:
        raise StorageError(f"{path} is not a stored classifier: its format is {form!r}")
    if version != VERSION:
        raise StorageError(f"{path} has version {version!r}; this package reads version {VERSION}")
    if digest != _digest(arrays):
        raise StorageError(f"{path} is damaged: its arrays do not match their digest")
    return header, arrays
