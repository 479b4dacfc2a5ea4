"""What a fitted LVQ estimator is made of, read off its fitted attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from lvqrej._validation import describe

Array = NDArray[np.float64]
SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
#: Prototypes (m, d), labels (m,), L (k, d) or None for the identity, feature names or None.
Parts = tuple[Any, Any, Any, list[str] | None]


def parts_of(x: Any) -> Parts:
    """Return prototypes, labels, L and feature names of what `PrototypeModel.of` takes.

    >>> parts_of(([[0.0], [1.0]], ["a", "b"]))
    ([[0.0], [1.0]], ['a', 'b'], None, None)
    """
    if isinstance(x, tuple) and len(x) in (2, 3):
        return x[0], x[1], x[2] if len(x) == 3 else None, None
    if isinstance(x, Pipeline):
        return _parts_of_pipeline(x)
    if hasattr(x, "fit") and not isinstance(x, type):
        check_is_fitted(x)
        if hasattr(x, "w_") and hasattr(x, "c_w_"):
            prototypes, labels = x.w_, np.asarray(x.c_w_)
        elif hasattr(x, "prototypes_") and hasattr(x, "prototypes_labels_"):
            # sklvq's labels are positions in `classes_`.
            prototypes, labels = x.prototypes_, np.asarray(x.classes_)[x.prototypes_labels_]
        else:
            raise ValueError(f"x must be an LVQ model with prototypes; found a fitted {type(x).__name__}")
        missing = [label for label in x.classes_ if label not in labels]
        if missing:
            raise ValueError(f"x must have a prototype of each class; found none of {missing}")
        return prototypes, labels, metric_of(x), _feature_names(x)
    raise ValueError(
        "x must be a PrototypeModel, a fitted LVQ estimator, a pipeline that ends in one, or a tuple "
        f"(prototypes, labels) or (prototypes, labels, L); found {describe(x)}"
    )


def metric_of(estimator: Any) -> Array | None:
    """Return the factor L of a fitted estimator's metric, of shape (k, d), or None for the identity.

    It asks for the learned attributes and not for the class: in sklearn-lvq every matrix model is also an
    instance of the model without one.
    """
    L: Any = getattr(estimator, "omega_", None)
    if hasattr(estimator, "omegas_") or np.ndim(L) == 3:
        name = type(estimator).__name__
        raise ValueError(f"x must have one metric for all prototypes; found a {name}, which has several")
    relevances: Any = getattr(estimator, "lambda_", None)
    # A vector of relevances scales squared differences if alone, and features before a matrix. sklvq's
    # matrix of the same name is omega_' omega_ again.
    if np.ndim(relevances) == 1:
        if L is not None:
            return np.asarray(L) * relevances
        if np.min(relevances) < 0:
            raise ValueError(f"x must have relevances of at least 0; found {np.min(relevances)} in lambda_")
        return np.diag(np.sqrt(relevances))
    return L


def affine_scale_of(pipeline: Pipeline) -> tuple[Array, Array]:
    """Return scale and shift, each of shape (d,): the pipeline passes (x - shift) / scale to its last step.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted scalers and a last step, which is not looked at but for its number of features.

    Examples
    --------
    >>> from lvqrej.lvq import GLVQ
    >>> pipeline = Pipeline([("scale", MinMaxScaler()), ("model", GLVQ())])
    >>> affine_scale_of(pipeline.fit([[0, 10], [2, 50], [0, 20], [1, 30]], [0, 1, 0, 1]))
    (array([ 2., 40.]), array([ 0., 10.]))
    """
    *scalers, (_, model) = opened(pipeline)
    return folded(scalers, model.n_features_in_)


def folded(scalers: list[tuple[str, Any]], d: int) -> tuple[Array, Array]:
    """Return scale and shift, each of shape (d,), of named fitted scalers one after the other."""
    scale, shift = np.ones(d), np.zeros(d)
    for name, step in scalers:
        step_scale, step_shift = _scaling(name, step)
        if step.n_features_in_ != d:
            raise ValueError(
                f"the steps before the LVQ model must have its {d} features; found {step.n_features_in_} in "
                f"step {name!r}"
            )
        scale, shift = scale * step_scale, shift + scale * step_shift
    return scale, shift


def opened(estimator: Any, name: str = "estimator") -> list[tuple[str, Any]]:
    """Return the named steps of a pipeline, those of pipelines inside it included, without 'passthrough'.

    >>> from lvqrej.lvq import GLVQ
    >>> scalers = Pipeline([("first", StandardScaler()), ("second", "passthrough")])
    >>> [name for name, _ in opened(Pipeline([("scalers", scalers), ("model", GLVQ())]))]
    ['first', 'model']
    """
    if not isinstance(estimator, Pipeline):
        return [(name, estimator)]
    steps = [(name, step) for name, step in estimator.steps if step is not None and step != "passthrough"]
    return [inner for name, step in steps for inner in opened(step, name)]


def check_affine(name: str, step: Any) -> None:
    """Raise a ValueError that names the step of a pipeline, fitted or not, if it is no affine scaler."""
    own = isinstance(step, SCALERS) and any(type(step).transform is kind.transform for kind in SCALERS)
    if not own:
        raise ValueError(
            f"the steps before the LVQ model must be {', '.join(kind.__name__ for kind in SCALERS)} or "
            f"'passthrough', with their own transform; found step {name!r}, a {type(step).__name__}"
        )
    if getattr(step, "clip", False):
        raise ValueError(
            f"the steps before the LVQ model must not clip; found step {name!r}, a {type(step).__name__} "
            "with clip=True"
        )


def _scaling(name: str, step: Any) -> tuple[Any, Any]:
    """Return scale and shift of one fitted scaler (numbers where it has none), or name what it is instead."""
    check_affine(name, step)
    check_is_fitted(step)
    if isinstance(step, MinMaxScaler):
        return 1 / step.scale_, -step.min_ / step.scale_
    shift = None
    if isinstance(step, StandardScaler) and step.with_mean:
        shift = step.mean_
    elif isinstance(step, RobustScaler):
        shift = step.center_
    return 1.0 if step.scale_ is None else step.scale_, 0.0 if shift is None else shift


def _parts_of_pipeline(pipeline: Pipeline) -> Parts:
    """Fold the scalers into the model: L / scale and prototypes * scale + shift."""
    if not pipeline.steps:
        raise ValueError("x must end in an LVQ model; found a pipeline without steps")
    *scalers, (_, last) = opened(pipeline) or pipeline.steps[-1:]
    prototypes, labels, L, names = parts_of(last)
    scale, shift = folded(scalers, last.n_features_in_)
    for _, step in scalers:
        names = names or _feature_names(step)
    L = np.eye(len(scale)) if L is None else np.asarray(L)
    return np.asarray(prototypes) * scale + shift, labels, L / scale, names


def _feature_names(step: Any) -> list[str] | None:
    names = getattr(step, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
