"""Data frames in, data frames out; errors about input that name the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from lvqrej._validation import classes_of


def like(X: Any, values: NDArray[Any], name: Any = None, columns: Any = None) -> Any:
    """Return values (n,) or (n, k) as a Series or a data frame with the index of X, if X is a data frame.

    >>> import pandas as pd
    >>> like(pd.DataFrame([[1], [2]], index=["a", "b"]), np.array([3, 4])).to_dict()
    {'a': 3, 'b': 4}
    """
    if not hasattr(X, "iloc"):
        return values
    import pandas as pd

    if columns is None:
        return pd.Series(values, index=X.index, name=name)
    return pd.DataFrame(values, index=X.index, columns=columns)


def one_row(X: Any, names: Any = None) -> Any:
    """Return one sample (d,), an array or a Series, as a table of one row, with names if they are known.

    A Series keeps its own names, so that they can be checked.
    """
    if names is None:
        return np.asarray(X)[None]
    if hasattr(X, "to_frame"):
        return X.to_frame().T
    row = np.asarray(X)[None]
    if row.shape[1] != len(names):
        raise ValueError(f"X must have {len(names)} features; found {row.shape[1]}")
    import pandas as pd

    return pd.DataFrame(row, columns=names)


def validated(estimator: Any, X: Any, **training: Any) -> Any:
    """Return X (n, d) as float64 by scikit-learn's checks, or (X, y) with ``y=y``; errors name it."""
    if "y" in training and are_plain(X, training["y"]):
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, training["y"]
    try:
        return validate_data(estimator, X, dtype=np.float64, order="C", reset="y" in training, **training)
    except (TypeError, ValueError, OverflowError) as error:
        raise about_argument(error) from error


def check_labels(given: Any, labels: NDArray[Any]) -> None:
    """Raise a ValueError that names y if the labels, as given and as an array, are none.

    >>> check_labels([0.1, 0.7], np.array([0.1, 0.7]))
    Traceback (most recent call last):
    ...
    ValueError: y must hold labels of classes. Unknown label type: continuous. ...
    """
    if isinstance(given, (list, tuple)) and any(
        isinstance(label, float) and label != label for label in given
    ):
        raise ValueError("y must hold labels; found nan among them")
    if labels.dtype.kind in "biuU":  # whole numbers and text are labels; scikit-learn's test is slow
        return
    classes_of(labels, "y")
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(f"y must hold labels of classes. {error}") from error


def are_plain(X: Any, y: Any) -> bool:
    """Tell whether X and y are arrays of finite numbers and of labels: nothing for scikit-learn to do.

    Its checks take as long as a third of a training on a hundred samples.

    >>> are_plain(np.eye(2), np.array(["a", "b"])), are_plain([[1, 2]], ["a"])
    (True, False)
    """
    return (
        type(X) is type(y) is np.ndarray
        and (X.dtype == np.float64 and X.flags.c_contiguous and X.ndim == 2 and X.size > 0)
        and (y.dtype.kind in "biuU" and y.shape == X.shape[:1])
        and bool(np.isfinite(X).all())
    )


def about_argument(error: Exception) -> Exception:
    """Return an error of scikit-learn's checks with the argument named, if its message does not name it.

    >>> about_argument(ValueError("Expected 2D array"))
    ValueError('X: Expected 2D array')
    """
    text = str(error)
    words = text.replace(",", " ").replace(".", " ").replace(":", " ").split()
    if "X" in words or "y" in words:
        return error
    name = "X and y" if "inconsistent numbers of samples" in text else "X"
    return (TypeError if isinstance(error, TypeError) else ValueError)(f"{name}: {text}")
