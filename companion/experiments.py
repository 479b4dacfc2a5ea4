"""The paper's two experiments on one fold: algorithmic properties, and goodness of explanations."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from companion.deviations import OPTIONS, Variant, variant
from companion.evaluation import CHANGED, CLEARLY_CHANGED, changed_features, goodness, to_hex
from companion.methods import Task, counterfactuals, methods_for
from companion.protocol import Fitted, FoldFits, seed_of
from lvqrej import DecisionDistance, ProbabilisticCertainty, PrototypeModel, RelativeSimilarity
from lvqrej.certainty import Certainty
from lvqrej.validation import check_choice

#: Share of the features that are perturbed, with noise from N(0, 1) in standardised units.
PERTURBED_SHARE = 0.3

#: By how much the certainty of an answer may miss the threshold and still be called nearly valid.
NEARLY = 1e-4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Caps:
    """How many samples of a fold each method explains at most; a seeded choice where there are more.

    All methods take the beginning of the same seeded order, so that pairs of methods share samples.
    """

    exact: int = 10_000
    paper: int = 4
    nearest: int = 10_000
    black_box: int = 3
    direct: int = 2


@dataclass
class UnitResult:
    """The results of one option in one fold under one variant.

    Attributes
    ----------
    summary : dict
        What was fitted and how many samples were rejected and explained.
    rows : list of dict
        One per counterfactual.
    timings : list of dict
        Seconds of the processor per method and experiment.
    arrays : dict of str to ndarray
        The fitted option and the scaling, to recompute every row from.
    grid : list of dict
        The grid search, as `FoldFits` has it.
    """

    summary: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    timings: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    grid: list[dict[str, float]] = field(default_factory=list)


def run_unit(fits: FoldFits, option: str, variant_name: str, caps: Caps | None = None) -> UnitResult:
    """Fit one reject option in one fold and run both experiments.

    Parameters
    ----------
    fits : FoldFits
        Made with the deviations "unshuffled_folds" and "scaled_before_split" as the variant has them.
    option : {"relative_similarity", "decision_distance", "probabilistic"}
    variant_name : str
        As `companion.deviations.variant` takes it.
    caps : Caps, optional

    Examples
    --------
    >>> from companion.datasets import load
    >>> fits = FoldFits(load("iris"), "GLVQ", repetition=0, fold=0)
    >>> result = run_unit(fits, "relative_similarity", "ours", Caps(paper=1, black_box=0, direct=0))
    >>> exact = [row for row in result.rows if row["method"] == "exact"]
    >>> all(row["valid"] == 1 for row in exact), len(exact) > 0
    (True, True)
    """
    chosen, caps = variant(variant_name), caps or Caps()
    check_choice(option, "option", OPTIONS)
    if (fits.unshuffled, fits.scaled_before) != (
        chosen.deviations.unshuffled_folds,
        chosen.deviations.scaled_before_split,
    ):
        raise ValueError(f"fits must be made with the deviations of {variant_name}; found others")
    start = time.process_time()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        fitted = fits.fitted(option, chosen.deviations)
        seconds = time.process_time() - start
        result = UnitResult(_summary(fits, fitted), arrays=arrays_of(fits, fitted), grid=fits.grid)
        result.timings.append({"experiment": "fit", "method": "fit", "n": 1, "seconds": seconds})
        for experiment in ("properties", "goodness"):
            _experiment(experiment, fits, fitted, chosen, caps, result)
    distinct = {id(warning.message): warning.category.__name__ for warning in raised}
    kinds = Counter(distinct.values())
    result.summary["warnings"] = " ".join(f"{name}:{kinds[name]}" for name in sorted(kinds))
    return result


def perturbation(fits: FoldFits) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the test part with noise on 30 % of the features, and which features these are.

    The noise is drawn from N(0, 1) in the units of the scaled features; both are the same for all options,
    methods and variants of a fold.
    """
    X = fits.prepared.X_test
    d = X.shape[1]
    rng = np.random.default_rng(seed_of(fits.repetition, fits.fold, 2))
    features = rng.choice(d, size=max(1, round(PERTURBED_SHARE * d)), replace=False)
    mask = np.zeros(d, dtype=bool)
    mask[features] = True
    return X + np.where(mask, rng.normal(size=X.shape), 0.0), mask


def samples_to_explain(
    experiment: str, fits: FoldFits, option: Certainty, theta: float
) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Return the samples one experiment explains, in seeded order, and their places in the test part.

    "properties" takes the rejected test samples; "goodness" those that the noise made rejected. The third
    result are the places of all rejected samples.
    """
    check_choice(experiment, "experiment", ("properties", "goodness"))
    before = option.accepts(fits.prepared.X_test, theta)
    X, chosen = fits.prepared.X_test, ~before
    if experiment == "goodness":
        X, _ = perturbation(fits)
        chosen = before & ~option.accepts(X, theta)
    places = np.flatnonzero(chosen)
    order = np.random.default_rng(seed_of(fits.repetition, fits.fold, 3)).permutation(len(X))
    shuffled = order[np.isin(order, places)]
    return X[shuffled], shuffled, np.flatnonzero(~before)


def _experiment(
    experiment: str, fits: FoldFits, fitted: Fitted, chosen: Variant, caps: Caps, result: UnitResult
) -> None:
    option, theta = fitted.option, fitted.threshold.theta
    X, places, rejected = samples_to_explain(experiment, fits, option, theta)
    result.summary[f"n_{experiment}"] = len(X)
    task = Task(option, theta, fits.candidates, rejected, chosen.deviations)
    for method in methods_for(option, chosen.methods):
        n = min(len(X), getattr(caps, method))
        start = time.process_time()
        answers = counterfactuals(method, task, X[:n])
        seconds = time.process_time() - start
        result.timings.append({"experiment": experiment, "method": method, "n": n, "seconds": seconds})
        if n == 0:
            continue
        measured = measured_rows(task, X[:n], answers.points, answers.found)
        if experiment == "goodness":
            add_goodness(measured, X[:n], answers.points, perturbation(fits)[1])
        rows = fits.test[places[:n]]
        for row, values in zip(rows, measured, strict=True):
            head = {"experiment": experiment, "sample": int(row), "method": method}
            result.rows.append(head | values)


def measured_rows(task: Task, X: Floats, points: Floats, found: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return what is measured of each counterfactual; an answer that was not found has no l0 and l1."""
    option = task.option
    changed = changed_features(X, points, CHANGED)
    columns: dict[str, Any] = {
        "found": found.astype(int),
        "valid": (found & option.accepts(points, task.theta)).astype(int),
        "nearly_valid": (found & (option.certainty(points) >= task.theta - NEARLY)).astype(int),
        "l0": changed.sum(axis=1),
        "l0_at_1e-3": changed_features(X, points, CLEARLY_CHANGED).sum(axis=1),
        "l1": np.abs(points - X).sum(axis=1),
        "certainty_before": option.certainty(X),
        "certainty": option.certainty(points),
        "changed": np.array(to_hex(changed), dtype=object),
    }
    rows = []
    for i in range(len(X)):
        row = {name: column[i] for name, column in columns.items()}
        if not found[i]:
            row |= {"l0": None, "l0_at_1e-3": None, "l1": None, "certainty": None, "changed": None}
        rows.append(row)
    return rows


def add_goodness(rows: list[dict[str, Any]], X: Floats, points: Floats, mask: NDArray[np.bool_]) -> None:
    """Add recall, precision and F1 of the changed features, and the chance level, to found answers."""
    scores = goodness(changed_features(X, points, CHANGED), mask)
    for i, row in enumerate(rows):
        row |= {name: float(column[i]) if row["found"] else None for name, column in scores._asdict().items()}


def _summary(fits: FoldFits, fitted: Fitted) -> dict[str, Any]:
    option, threshold = fitted.option, fitted.threshold
    X, y = fits.prepared.X_test, fits.prepared.y_test
    accepted = option.accepts(X, threshold.theta)
    right = option.predict(X) == y
    return {
        "prototypes_per_class": fitted.prototypes_per_class,
        "theta": threshold.theta,
        "threshold_rule": threshold.rule,
        "validation_reject_rate": threshold.rate,
        "validation_accuracy": threshold.accuracy,
        "n_test": len(X),
        "n_rejected": int((~accepted).sum()),
        "accuracy": float(right.mean()),
        "accuracy_accepted": float(right[accepted].mean()) if accepted.any() else 1.0,
    }


def arrays_of(fits: FoldFits, fitted: Fitted) -> dict[str, NDArray[Any]]:
    """Return what was fitted as arrays: filling, scaling, threshold, prototypes, metrics, calibration."""
    steps, option = fits.prepared.steps, fitted.option
    arrays = {"theta": np.array(fitted.threshold.theta), "fill": np.asarray(steps[0].statistics_)}
    if len(steps) > 1:
        arrays |= {"mean": np.asarray(steps[1].mean_), "scale": np.asarray(steps[1].scale_)}
    if isinstance(option, ProbabilisticCertainty):
        arrays |= {"alpha": option.alpha_, "beta": option.beta_, "classes": option.classes}
        for (i, j), model in option.models_.items():
            arrays |= _model_arrays(model, f"pair_{i}_{j}_")
    elif isinstance(option, (RelativeSimilarity, DecisionDistance)):
        arrays |= _model_arrays(option.model, "")
    return arrays


def option_of(arrays: dict[str, NDArray[Any]], option: str) -> Certainty:
    """Return the reject option that `arrays_of` took apart, of a variant without deviations.

    >>> from lvqrej import PrototypeModel
    >>> arrays = {"prototypes": np.array([[0.0], [1.0]]), "labels": np.array([0, 1])}
    >>> option_of(arrays, "relative_similarity").certainty([[0.5]])
    array([0.])
    """
    check_choice(option, "option", OPTIONS)
    if option == "relative_similarity":
        return RelativeSimilarity(_model_of(arrays, ""))
    if option == "decision_distance":
        return DecisionDistance(_model_of(arrays, ""))
    K = len(arrays["classes"])
    models = {(i, j): _model_of(arrays, f"pair_{i}_{j}_") for i in range(K) for j in range(i + 1, K)}
    return ProbabilisticCertainty.from_pairs(models, arrays["alpha"], arrays["beta"], arrays["classes"])


def scaled_samples(arrays: dict[str, NDArray[Any]], X: Any) -> Floats:
    """Return samples of the data set, of shape (n, d), filled and scaled as the stored fold was."""
    samples = np.asarray(X, dtype=float)
    filled = np.where(np.isnan(samples), arrays["fill"], samples)
    return (filled - arrays["mean"]) / arrays["scale"] if "mean" in arrays else filled


def _model_arrays(model: PrototypeModel, prefix: str) -> dict[str, NDArray[Any]]:
    arrays = {f"{prefix}prototypes": model.prototypes, f"{prefix}labels": model.labels}
    identity = np.array_equal(model.L, np.eye(model.n_features))
    return arrays if identity else arrays | {f"{prefix}L": model.L}


def _model_of(arrays: dict[str, NDArray[Any]], prefix: str) -> PrototypeModel:
    return PrototypeModel(arrays[f"{prefix}prototypes"], arrays[f"{prefix}labels"], arrays.get(f"{prefix}L"))
