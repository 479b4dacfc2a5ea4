"""How training samples become a certainty, a threshold on held-out certainties, and a label for rejects."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from math import ceil
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing

from lvqrej.certainty import Certainty, DecisionDistance, LocalThresholds, RelativeSimilarity
from lvqrej.columns import is_missing, is_table
from lvqrej.folding import check_affine, fold, opened
from lvqrej.guarantees import at_risk
from lvqrej.lvq import GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel
from lvqrej.thresholds import (
    AccuracyRejectCurve,
    OperatingPoint,
    ThresholdWarning,
    accuracy_reject_curve,
    local_curve,
)
from lvqrej.validation import LARGEST, Floats, check_number, describe, feature_names_of

OPTIONS: dict[str, Any] = {
    "relative-similarity": RelativeSimilarity,
    "decision-distance": DecisionDistance,
    "probabilistic": ProbabilisticCertainty,
}
#: Rules by which a threshold is read off the curve, and what each has to be given.
RULES = {
    "reject_rate": ("rate",),
    "accuracy": ("accuracy",),
    "costs": ("error", "reject"),
    "risk": ("risk", "confidence"),
    "conformal": ("share",),
}

#: What is rejected where the curve has no knee.
NO_KNEE_RATE = 0.05
#: Certainties so near the largest one tell little; so many errors can be told from right answers.
SATURATED, FEWEST_ERRORS = 1e-6, 5
#: A category may have so many levels, or one for every two rows.
MANY_LEVELS = 20


class FewerFoldsWarning(UserWarning):
    """The smallest class has too few samples for as many folds as were asked for."""


# The certainty


@dataclass(frozen=True, eq=False)
class Fitting:
    """What it takes to turn training samples into a certainty, checked.

    The option is a certainty that is complete; or one to be fitted (`fits_itself`), which trains its own
    models, copies of the estimator, with `inner_cv` folds; or what makes one of a PrototypeModel.
    """

    option: Any
    estimator: Any  # not fitted; None if the option is complete
    cv: int  # folds of the threshold
    inner_cv: int
    seed: int

    @property
    def is_complete(self) -> bool:
        """Whether the option has its model already and X, y are validation samples only."""
        return isinstance(self.option, Certainty) and not self.fits_itself

    @property
    def fits_itself(self) -> bool:
        """Whether the option trains its own models."""
        return _is_to_fit(self.option)

    @property
    def by_name(self) -> bool:
        """Whether the estimator tells columns apart, or the model does: tables stay as they are."""
        if self.is_complete:
            return not self.option.columns.is_plain
        return any(hasattr(step, "transformers") for _, step in opened(self.estimator))

    def trained(self, X: Any, y: Any) -> Any:
        """Return the estimator trained on X (n, d) with labels y (n,), or None if the option does that."""
        return None if self.is_complete or self.fits_itself else clone(self.estimator).fit(X, y)

    def certainty(self, X: Any, y: NDArray[Any], trained: Any, names: Any = None) -> Certainty:
        """Return the certainty by a trained estimator, or after training on X (n, d) with labels y (n,)."""
        if self.is_complete:
            return self.option
        if self.fits_itself:
            return self._pairwise(X, y, names)
        try:
            model = PrototypeModel.of(trained, X)
        except ValueError as error:
            raise ValueError(f"estimator must be what PrototypeModel.of understands: {error}") from error
        columns = None if model.columns.is_plain else model.columns
        option = self.option(PrototypeModel(model.prototypes, model.labels, model.L, names, columns))
        if not isinstance(option, Certainty):
            raise ValueError(f"option must make a certainty of a PrototypeModel; found {describe(option)}")
        return option

    def _pairwise(self, X: Any, y: NDArray[Any], names: Any) -> Certainty:
        """Return the option, fitted; in a table all its models have the same steps before them.

        Filling values and levels have to be common to the pairs, so these steps are fitted to all rows once.
        """
        option = copy.copy(self.option)
        option.estimator, option.cv = self.estimator, self.inner_cv
        steps, rows = self._prepared(X, y)
        found = fold(steps, X) if steps else None
        if found is None or (isinstance(X, np.ndarray) and found.columns.is_plain):
            option.fit(X, y).feature_names = names
            return option
        option.estimator = opened(self.estimator)[-1][1]
        option.fit(rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows), y)
        columns = None if found.columns.is_plain else found.columns
        option.models_ = {
            pair: PrototypeModel(*found.pulled_back(model.prototypes, model.L, model.labels), names, columns)
            for pair, model in option.models_.items()
        }
        option.n_features, option.feature_names = option.models_[0, 1].n_features, names
        return option

    def _prepared(self, X: Any, y: NDArray[Any]) -> tuple[list[tuple[str, Any]], Any]:
        """Return the steps before the model fitted to X, and what they make of it."""
        rows, steps = X, []
        for name, step in opened(self.estimator)[:-1]:
            steps.append((name, clone(step)))
            rows = steps[-1][1].fit_transform(rows, y)
        return steps, rows

    def scale(self, X: Any, y: NDArray[Any], trained: Any) -> Floats:
        """Return what the steps divide each column of numbers by, of shape (d,).

        Its standard deviation if they do more than that; 1 for categories.
        """
        steps = self._prepared(X, y)[0] if trained is None else opened(trained)[:-1]
        if not steps:
            return np.ones(X.shape[1])
        found = fold(steps, X)
        seen = found.columns.observed(X)[:, found.columns.starts[:-1]]
        is_number = [column.levels is None for column in found.columns.columns]
        spread = np.nanstd(np.where(is_number, seen, 0.0), axis=0)
        scale = np.where(np.isnan(found.scale), np.where(spread > 0, spread, 1.0), found.scale)
        return np.where(is_number, scale, 1.0)

    def for_counts(self, counts: NDArray[np.int64], chooses: bool) -> Fitting:
        """Return it with no more folds than the smallest class can fill, or raise a ValueError.

        `chooses` tells whether a threshold has to be chosen; each fold's training part is then divided again
        if the option has folds of its own. Fewer folds than asked for are told by a warning.
        """
        least = int(counts.min())
        outer = min(self.cv, least) if chooses else self.cv
        part = least - ceil(least / outer) if chooses and outer > 0 else least
        inner = min(self.inner_cv, part) if self.fits_itself else self.inner_cv
        if self.is_complete or (outer, inner) == (self.cv, self.inner_cv):
            return self
        if min(outer, inner) < 2:
            raise ValueError(
                f"y must hold at least {3 if self.fits_itself and chooses else 2} samples of each class for "
                f"cross-validation; found {least} (a number as threshold needs no folds)"
            )
        warnings.warn(
            f"the smallest class in y has {least} samples, too few for cv={self.cv}: "
            f"threshold and calibration use {outer} and {inner} folds",
            FewerFoldsWarning,
            stacklevel=3,
        )
        return replace(self, cv=outer, inner_cv=inner)

    def held_out_curve(self, option: Certainty, X: Any, y: NDArray[Any]) -> AccuracyRejectCurve:
        """Return the accuracy-reject curve of certainties by models that have not seen their sample.

        The folds' values are pooled, each carried over to the scale of the model that is used: what has a
        share of a fold's training certainties below it is worth what has the same share of the final
        model's below it, on the same samples.
        """
        samples = option.columns.lifted(X)
        if self.is_complete:
            return accuracy_reject_curve(option.certainty(samples), option.predict(samples) == y)
        certainty, correct, final = np.empty(len(y)), np.empty(len(y), dtype=bool), option.certainty(samples)
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.seed)
        for train, test in folds.split(X, y):
            rows, others = _safe_indexing(X, train), _safe_indexing(X, test)
            part = self.certainty(rows, y[train], self.trained(rows, y[train]))
            verdicts, own = part.verdicts(part.columns.lifted(others)), part.columns.lifted(rows)
            certainty[test] = carried_over(verdicts.certainty, part.certainty(own), final[train])
            correct[test] = part.classes[verdicts.label] == y[test]
        # What differs by rounding only is the same, or a threshold could lie between.
        unit = np.abs(certainty).max() or 1.0
        return accuracy_reject_curve(np.round(certainty / unit, 9) * unit, correct)

    def calibrated(
        self, option: Certainty, X: Any, y: NDArray[Any], held_out: HeldOut, rule: Any, local: bool
    ) -> tuple[Certainty, AccuracyRejectCurve, OperatingPoint]:
        """Return the option, with local thresholds if asked for, the curve and the point on held-out samples.

        X and y are what the option was trained on. A risk needs candidates from elsewhere: cross-validation
        on these, or for local thresholds one half of the held-out samples, the other one being for the tests.
        """
        samples = option.columns.lifted(held_out.X)
        verdicts = option.verdicts(samples)
        r, right = verdicts.certainty, option.classes[verdicts.label] == held_out.y
        nearest = option.nearest(samples) if local else np.zeros(len(r), dtype=np.intp)
        m = len(option.models()[()].prototypes) if local else 1
        curve = accuracy_reject_curve(r, right)
        check_informative(curve, option.largest)
        if rule[0] == "risk":
            chosen, tested = np.array_split(np.random.default_rng(self.seed).permutation(len(r)), 2)
            by_class = isinstance(held_out.groups, str)
            groups = option.classes[verdicts.label] if by_class else held_out.groups
            if local:
                curve = candidates = local_curve(r[chosen], right[chosen], nearest[chosen], m)
            else:
                candidates, tested = self.held_out_curve(option, X, y), np.arange(len(r))
            point = at_risk(
                candidates, r[tested], right[tested], *rule[1:],
                nearest=nearest[tested] if local else None, groups=None if groups is None else groups[tested],
                among=option.classes if by_class else groups,
            )  # fmt: skip
            if not point.found:
                warnings.warn(point.shortfall, ThresholdWarning, stacklevel=3)
        else:
            curve = local_curve(r, right, nearest, m) if local else curve
            point = chosen_point(curve, rule)
        return (LocalThresholds(option, point.threshold) if local else option), curve, point


class HeldOut(NamedTuple):
    """Samples X (n, d) that nothing is trained on, labels y (n,), groups (n,), "class" or None."""

    X: Any
    y: NDArray[Any]
    groups: Any


def carried_over(values: Floats, own: Floats, other: Floats) -> Floats:
    """Return values on another scale: quantiles of `own` become those of `other`, what is beyond is shifted.

    >>> carried_over(np.array([0.0, 1.0, 2.5, 4.0]), np.array([3.0, 1.0, 2.0]), np.array([10.0, 30.0, 20.0]))
    array([ 9., 10., 25., 31.])
    """
    own, counts = np.unique(own, return_counts=True)
    other = np.add.reduceat(np.sort(other), np.cumsum(counts) - counts) / counts
    beyond = np.minimum(values - own[0], 0.0) + np.maximum(values - own[-1], 0.0)
    return np.interp(values, own, other) + beyond


def check_fitting(estimator: Any, option: Any, cv: Any, random_state: Any, X: Any = None) -> Fitting:
    """Return how to fit, or raise a ValueError that names the argument at fault."""
    folds = int(check_number(cv, "cv", low=2, integer=True))
    seed = int(check_number(random_state, "random_state", low=0, high=2**32 - 1, integer=True))
    kind = OPTIONS.get(option, option) if isinstance(option, str) else option
    if isinstance(kind, str) or not (isinstance(kind, Certainty) or callable(kind)):
        raise ValueError(
            f"option must be one of {', '.join(map(repr, OPTIONS))}, a certainty, or what makes one of a "
            f"PrototypeModel; found {describe(option)}"
        )
    if isinstance(kind, type) and _is_to_fit(kind):
        kind = kind(cv=folds, random_state=seed)
    if isinstance(kind, Certainty) and not _is_to_fit(kind):
        if estimator is not None:
            raise ValueError(
                f"estimator must be None if option has its model already; found {describe(estimator)}"
            )
        return Fitting(kind, None, folds, folds, seed)
    inner_folds, own = (kind.cv, kind.estimator) if _is_to_fit(kind) else (folds, None)
    if estimator is not None and own is not None:
        raise ValueError("estimator must be None if option has an estimator itself; found both")
    given = own if estimator is None else estimator
    return Fitting(kind, _check_estimator(given, seed, X), folds, inner_folds, seed)


def _is_to_fit(option: Any) -> bool:
    """Tell whether an option, or a class of them, trains itself and has not: it has no classes yet."""
    return hasattr(option, "fit") and not hasattr(option, "classes")


def _check_estimator(estimator: Any, seed: int, X: Any) -> Any:
    if estimator is None:
        return make_pipeline(default_steps(X), GMLVQ(random_state=seed))
    methods = ("fit", "predict", "get_params")  # a pipeline has `predict` if its last step has
    if isinstance(estimator, type) or not all(hasattr(estimator, method) for method in methods):
        raise ValueError(
            "estimator must be an LVQ estimator, a pipeline of affine steps ending in one, or None; "
            f"found {describe(estimator)}"
        )
    for name, step in opened(estimator)[:-1]:
        try:
            check_affine(name, step)
        except ValueError as error:
            raise ValueError(f"estimator must be what can be folded into its model: {error}") from error
    alone = not isinstance(estimator, Pipeline) and hasattr(X, "columns") and is_table(X)
    return make_pipeline(default_steps(X), estimator) if alone else estimator


def default_steps(X: Any) -> Any:
    """Return what comes before a GMLVQ unless told otherwise: by the kinds of a frame's columns.

    Numbers are filled in by their medians and standardized; other columns have one indicator per level, a
    missing value being a level. Numbers without gaps are only standardized.
    """
    if not hasattr(X, "columns") or not is_table(X):
        return StandardScaler()
    which: list[Any] = feature_names_of(X) or list(range(X.shape[1]))
    dtypes = X.infer_objects().dtypes  # numbers may be kept as objects
    kinds = zip(which, (getattr(dtype, "kind", "O") for dtype in dtypes), strict=True)
    numbers = [k for k, kind in kinds if kind in "iuf"]
    others = [k for k in which if k not in numbers]
    for name in others:
        _check_levels(name, _safe_indexing(X, name, axis=1))
    filled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts = [("numbers", filled, numbers), ("categories", levels, others)]
    return ColumnTransformer([part for part in parts if part[2]])


def _check_levels(name: Any, values: Any) -> None:
    """Refuse a column of dates, names or numbers of rows as a category: it would train for minutes."""
    known = [value for value in np.asarray(values, dtype=object) if not is_missing(value)]
    if (n := len(set(known))) > max(MANY_LEVELS, len(known) / 2):
        raise ValueError(
            f"X's column {name!r} must be numbers, or a category whose levels recur; found {n} different "
            f"values in {len(known)} rows: leave it out if it names rows, as numbers, names and dates do, "
            "or make numbers or fewer levels of it"
        )


# The threshold


def check_rule(threshold: Any, local: Any = False) -> Any:
    """Return a threshold rule as it is understood: a float, "knee", or a tuple (rule, number, ...)."""
    if not isinstance(local, bool):
        raise ValueError(f"local must be True or False; found {describe(local)}")
    if isinstance(threshold, Real):
        if local:
            raise ValueError(f"threshold must be a rule if local thresholds are chosen; found {threshold!r}")
        return check_number(threshold, "threshold", low=-LARGEST, high=LARGEST)
    if isinstance(threshold, str) and threshold == "knee":
        return threshold
    rule, *values = threshold if isinstance(threshold, (tuple, list)) and len(threshold) > 0 else [None]
    names = RULES.get(rule, ()) if isinstance(rule, str) else ()
    if names and len(names) == len(values):
        if local and rule == "conformal":
            raise ValueError("threshold cannot be conformal if local thresholds are chosen: take a risk")
        largest, strict = {"costs": LARGEST, "risk": 0.9999}.get(str(rule), 1.0), rule == "risk"
        given = zip((f"threshold's {name}" for name in names), values, strict=True)
        return rule, *(check_number(v, name, low=0, high=largest, low_open=strict) for name, v in given)
    rules = ", ".join(f"({rule!r}, {', '.join(names)})" for rule, names in RULES.items())
    raise ValueError(f"threshold must be a number, 'knee' or one of {rules}; found {describe(threshold)}")


def needs_held_out(rule: Any, local: bool) -> bool:
    """Return whether a checked rule needs samples that no model has seen, not even one of a fold."""
    return local or (isinstance(rule, tuple) and rule[0] in ("risk", "conformal"))


def divided(share: Any, seed: int, groups: Any, *parts: Any) -> list[Any]:
    """Return two of each part, trained on and held out, then the groups of what is held out; y comes last.

    Drawn without regard of classes: for an exact test the held-out samples have to be independent.
    """
    share = check_number(share, "calibration", low=0, high=0.9999, low_open=True)
    by_class = groups is None or isinstance(groups, str)
    parts = (*parts, np.zeros(len(parts[0])) if by_class else np.asarray(groups))
    if parts[-1].shape != (len(parts[0]),):
        raise ValueError(f"groups must have shape ({len(parts[0])},); found {describe(groups)}")
    result = train_test_split(*parts, test_size=share, random_state=seed)
    missing = np.setdiff1d(parts[-2], result[-4]).tolist()
    if missing:
        raise ValueError(
            f"calibration must leave samples of each class for training; found none of {missing}"
        )
    missing = np.setdiff1d(parts[-1], result[-1]).tolist()
    if missing:
        raise ValueError(f"calibration must hold out samples of each group; found none of {missing}")
    return [*result[:-2], groups if by_class else result[-1]]


def chosen_point(curve: AccuracyRejectCurve, rule: Any) -> OperatingPoint:
    """Return the point of the curve that a checked rule, other than a number, asks for, or its fallback."""
    if rule != "knee":
        point = getattr(curve, f"at_{rule[0]}")(*rule[1:])
        if not point.found:
            warnings.warn(point.shortfall, ThresholdWarning, stacklevel=3)
        return point
    point = curve.knee()
    if point.found:
        return point
    why = "there are no errors" if curve.n_errors[0] == 0 else "accuracy rises evenly"
    warnings.warn(
        f"the accuracy-reject curve has no knee ({why}): ('reject_rate', {NO_KNEE_RATE:g}) is used",
        ThresholdWarning,
        stacklevel=3,
    )
    return curve.at_reject_rate(NO_KNEE_RATE)._replace(found=False)


def check_informative(curve: AccuracyRejectCurve, largest: float) -> None:
    """Warn of held-out certainties that are all but the largest there is, or do not tell errors."""
    middle = np.interp(0.5, curve.reject_rates, curve.thresholds)
    if abs(largest - middle) <= SATURATED * largest < np.inf:
        text = f"half of the held-out certainties lie within {SATURATED:g} of {largest:g}: they tell little"
    elif curve.n_errors[0] >= FEWEST_ERRORS and curve.ranking <= 0.5:
        text = "held-out errors are as certain as right answers: this certainty cannot tell them"
    else:
        return
    advice = "; try another option, class_weight, fewer prototypes or more regularization"
    warnings.warn(text + advice, ThresholdWarning, stacklevel=3)


# The label of a reject


def label_of_reject(classes: NDArray[Any], given: Any = None) -> Any:
    """Return the label that marks a reject: no class, and of the classes' own type.

    If none is given it is "reject" among strings and booleans, -1 among numbers; where -1 is a class already,
    or cannot be had in an unsigned type, the next integer outside the classes, below them if there is room.

    >>> int(label_of_reject(np.array([0, 1]))), int(label_of_reject(np.array([-1, 1])))
    (-1, -2)
    >>> label_of_reject(np.array(["benign", "malignant"]))
    'reject'
    """
    kind = classes.dtype.kind
    label = _usual_label(classes) if given is None else given
    number = isinstance(label, (int, float, np.number)) and not isinstance(label, bool)
    if kind in "iu":
        limits = np.iinfo(classes.dtype)
        fits = number and isinstance(label, (int, np.integer)) and limits.min <= label <= limits.max
    elif kind == "f":
        fits = number and bool(np.isfinite(label))
    else:
        fits = isinstance(label, str) if kind == "U" else not np.ndim(label)
    if not fits:
        name = classes.dtype.type.__name__
        raise ValueError(
            f"reject_label must be one label of type {name}, as those of y; found {describe(given)}"
        )
    if label in classes.tolist():
        raise ValueError(
            f"reject_label must not be a class; found {describe(label)} among {describe(classes.tolist())}"
        )
    return classes.dtype.type(label) if kind in "iuf" else label


def _usual_label(classes: NDArray[Any]) -> Any:
    if classes.dtype.kind not in "iuf":
        return "reject"
    lowest = -np.inf if classes.dtype.kind == "f" else np.iinfo(classes.dtype).min
    labels = -1, int(np.floor(classes.min())) - 1, int(classes.max()) + 1
    return next(label for label in labels if label >= lowest and label not in classes)


def with_rejects(labels: NDArray[Any], rejected: NDArray[np.bool_], reject_label: Any) -> NDArray[Any]:
    """Return the labels with the reject's where `rejected`; text gets wide enough, booleans are objects."""
    if labels.dtype.kind == "U":
        labels = labels.astype(np.result_type(labels.dtype, np.asarray(reject_label).dtype))
    else:
        labels = labels.astype(labels.dtype if labels.dtype.kind in "iuf" else object)
    labels[rejected] = reject_label
    return labels
