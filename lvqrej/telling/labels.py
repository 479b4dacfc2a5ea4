"""The label of a reject: one that is no class and fits among the classes' own type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej._validation import describe


def check_kinds(y: Any) -> None:
    """Raise a ValueError if `y` lacks a label, or has text among others, which NumPy would make text, too."""
    objects = np.asarray(y, dtype=object)
    labels = list(objects) if objects.ndim == 1 else []  # another shape is told by whoever looks at it
    missing = [row for row, label in enumerate(labels) if _is_missing(label)]
    if missing:
        raise ValueError(f"y must name a class for each sample; found none at row {missing[0]}")
    if len({isinstance(label, str) for label in labels}) > 1:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"y must hold labels of one type; found {', '.join(kinds)}")


def _is_missing(label: Any) -> bool:
    if isinstance(label, (float, np.floating)):
        return bool(np.isnan(label))
    return label is None or type(label).__name__ in ("NAType", "NaTType")  # those of pandas, not loaded here


def check_labels(y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes in `y` (n,) and how often each occurs, or raise a ValueError."""
    classes, counts = np.unique(np.asarray(y), return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y must name at least two classes; found one class: {classes.tolist()}")
    return classes, counts


def label_of_reject(classes: NDArray[Any], given: Any = None) -> Any:
    """Return the label that marks a reject, of the classes' own type.

    Parameters
    ----------
    classes : array of shape (n_classes,)
    given : label, optional
        If None: "reject" among strings and booleans, -1 among numbers; where -1 is a class already, or
        cannot be had in an unsigned type, the next integer outside the classes, below them if there is room.

    Examples
    --------
    >>> int(label_of_reject(np.array([0, 1]))), int(label_of_reject(np.array([-1, 1])))
    (-1, -2)
    >>> label_of_reject(np.array(["benign", "malignant"]))
    'reject'
    >>> label_of_reject(np.array([0, 1]), 1)
    Traceback (most recent call last):
    ...
    ValueError: reject_label must not be a class; found 1 of type int among the classes [0, 1]
    """
    kind = classes.dtype.kind
    label = _default(classes) if given is None else given
    name = "an integer" if kind in "iu" else "a finite number" if kind == "f" else "text"
    fits = True
    if kind in "iuf":
        fits = isinstance(label, (int, np.integer) if kind != "f" else (int, float, np.number))
        fits &= not isinstance(label, (bool, np.bool_))
        if fits and kind in "iu":
            limits = np.iinfo(classes.dtype)
            fits, name = bool(limits.min <= label <= limits.max), f"an integer of type {classes.dtype}"
        fits = fits and bool(np.isfinite(label))
    elif kind == "U":
        fits = isinstance(label, str)
    elif np.ndim(label) > 0:
        fits, name = False, "a single label"
    if not fits:
        raise ValueError(f"reject_label must be {name}, as y is; found {describe(given)}")
    if label in classes.tolist():
        among = f"among the classes {describe(classes.tolist()).rsplit(' of type', 1)[0]}"
        raise ValueError(f"reject_label must not be a class; found {describe(label)} {among}")
    return classes.dtype.type(label) if kind in "iuf" else label


def _default(classes: NDArray[Any]) -> Any:
    if classes.dtype.kind not in "iuf":
        return "reject"
    if classes.dtype.kind == "f":
        return -1.0 if -1.0 not in classes else float(np.floor(classes.min()) - 1)
    limits, lowest, highest = np.iinfo(classes.dtype), int(classes.min()), int(classes.max())
    if limits.min < 0 and -1 not in classes:
        return -1
    return lowest - 1 if lowest > limits.min else highest + 1


def with_rejects(labels: NDArray[Any], rejected: NDArray[np.bool_], reject_label: Any) -> NDArray[Any]:
    """Return the labels with the reject's where `rejected`; text gets wide enough, booleans become objects.

    >>> with_rejects(np.array(["a", "b"]), np.array([True, False]), "reject").tolist()
    ['reject', 'b']
    """
    if labels.dtype.kind == "U":
        labels = labels.astype(np.result_type(labels.dtype, np.asarray(reject_label).dtype))
    elif labels.dtype.kind not in "iuf":
        labels = labels.astype(object)
    else:
        labels = labels.copy()
    labels[rejected] = reject_label
    return labels
