"""Files without pickle, at once or not at all: JSON that names classes of a fixed list, never code.

Reading such a file runs no code of its author's: every object is made by its own class from plain numbers
and text, and so checked by it. The first line says what the file is and holds a digest of the rest: a file
with one byte changed is refused. Numbers come back the same to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector
from sklearn_lvq import GlvqModel, GmlvqModel

from lvqrej.cause import Familiarity
from lvqrej.certainty import DecisionDistance, LocalThresholds, RelativeSimilarity
from lvqrej.columns import Column, Columns
from lvqrej.folding import affine_steps
from lvqrej.lvq import GLVQ, GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel
from lvqrej.requirements import Observed
from lvqrej.thresholds import AccuracyRejectCurve, OperatingPoint
from lvqrej.validation import describe

FORMAT, VERSION = "lvqrej RejectOptionClassifier", 2
#: All that a file may name. Objects of these classes have their arguments as attributes.
_CLASSES: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        RelativeSimilarity, DecisionDistance, LocalThresholds, ProbabilisticCertainty, PrototypeModel,
        Familiarity, AccuracyRejectCurve, OperatingPoint, Observed, GLVQ, GMLVQ, GlvqModel, GmlvqModel,
        Column, Columns, *affine_steps(), make_column_selector,
    )
} | {"from_pairs": ProbabilisticCertainty.from_pairs}  # fmt: skip
#: Types that parameters of pipelines may be; nothing is made of them.
_TYPES: dict[str, Any] = {kind.__name__: kind for kind in (object, np.number, np.float64, np.float32)}


class StorageError(ValueError):
    """A file is not a stored classifier, is damaged, or a classifier holds what cannot be stored."""


def save(content: dict[str, Any], path: Path) -> None:
    """Write what `RejectOptionClassifier.save` collects, or raise a StorageError that names what it cannot.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save({"scale": np.array([0.5, 2.0]), "label": ("a", 1)}, Path(folder, "file"))
    ...     load(Path(folder, "file"))
    {'scale': array([0.5, 2. ]), 'label': ('a', 1)}
    """
    body = json.dumps(_items(content)).encode()
    write_whole(path, lambda draft: draft.write_bytes(_header(body) + b"\n" + body))


def load(path: Path) -> dict[str, Any]:
    """Return what `save` wrote to `path`, or raise a StorageError that says what is wrong with the file."""
    content = path.read_bytes()
    header, _, body = content.partition(b"\n")
    if content.startswith(b"PK") and b"header.npy" in content[:64]:
        raise StorageError(f"{path} was saved by lvqrej 0.1: fit again, or load it with lvqrej 0.1")
    if header != _header(body):
        raise StorageError(f"{path} {_fault(header)}")
    try:
        return {name: _decoded(value) for name, value in json.loads(body).items()}
    except Exception as e:  # whatever a class finds wrong with what it shall be made of
        raise StorageError(f"{path} is not a complete stored classifier: {e!r}") from e


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a draft, wait until it is on disk, and put it in its place: no half files."""
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        write(draft)
        with draft.open("rb+") as stream:
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _header(body: bytes) -> bytes:
    header = {"format": FORMAT, "version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(header).encode()


def _fault(header: bytes) -> str:
    """Say what is wrong with a file whose first line is not the header of the rest."""
    try:
        found = dict(json.loads(header))
    except (RecursionError, TypeError, ValueError):
        found = {}
    if found.get("format") != FORMAT:
        return f"is not a stored classifier, or its first line is damaged: {header[:60]!r}"
    if found.get("version") != VERSION:
        return f"has version {found.get('version')!r}; this package reads version {VERSION}"
    return "is damaged: its content does not match its digest"


def _encoded(value: Any, name: str) -> Any:
    """Return a value as JSON: plain ones and lists as they are, the others as {kind: content}."""
    known = set(_CLASSES.values())
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        items = [_encoded(item, name) for item in value]
        return items if type(value) is list else {"tuple": items}
    if isinstance(value, pd.Index):
        return _encoded(value.tolist(), name)
    if type(value) is dict:
        return {"dict": [_encoded([key, item], name) for key, item in value.items()]}
    if isinstance(value, (np.ndarray, np.generic)) and (
        value.dtype.kind in "biufU" or all(isinstance(item, str) for item in value.flat)
    ):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, type) and value in known | set(_TYPES.values()):
        return {"class": value.__name__}
    if isinstance(value, partial) and value.func in known and not value.args:
        return {"partial": value.func.__name__, "with": _items(value.keywords, name)}
    if type(value) not in known:
        advice = "; set_params(estimator=None) stores all but what would train it again"
        raise StorageError(
            f"{name} cannot be stored without pickle; found {describe(value)}"
            f"{advice if name.startswith('estimator') else ''}"
        )
    if hasattr(value, "models_"):
        parts = {"models": value.models_, "alpha": value.alpha_, "beta": value.beta_}
        parts |= {"classes": value.classes, "normalize": value.normalize}
        return {"made": "from_pairs", "with": _items(parts, name)}
    arguments = {argument: getattr(value, argument) for argument in signature(type(value)).parameters}
    return {"made": type(value).__name__, "with": _items(arguments, name)}


def _items(values: dict[str, Any], name: str = "") -> dict[str, Any]:
    return {key: _encoded(value, f"{name}'s {key}" if name else key) for key, value in values.items()}


def _decoded(stored: Any) -> Any:
    if isinstance(stored, list):
        return [_decoded(item) for item in stored]
    if not isinstance(stored, dict):
        return stored
    kind, content = next(iter(stored.items()))
    if kind in ("tuple", "dict"):
        return {"tuple": tuple, "dict": dict}[kind](_decoded(content))
    if kind == "array":
        return np.array(content, dtype=stored["dtype"])[()]
    if kind == "class":
        return (_CLASSES | _TYPES)[content]
    arguments = {key: _decoded(item) for key, item in stored["with"].items()}
    return partial(_CLASSES[content], **arguments) if kind == "partial" else _CLASSES[content](**arguments)
