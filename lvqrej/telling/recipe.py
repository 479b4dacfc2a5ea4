"""How a reject option is made from training samples, and what its certainties are worth on held-out ones."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lvqrej._validation import LARGEST, check_number, describe
from lvqrej.certainty import Certainty, DecisionDistance, RelativeSimilarity
from lvqrej.lvq import GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel
from lvqrej.thresholds import AccuracyRejectCurve, OperatingPoint, accuracy_reject_curve
from lvqrej.wrapping import check_affine, folded, opened

Floats = NDArray[np.float64]

OPTIONS: dict[str, Any] = {
    "relative-similarity": RelativeSimilarity,
    "decision-distance": DecisionDistance,
    "probabilistic": ProbabilisticCertainty,
}
#: Rules by which a threshold is read off the curve, and what each has to be given.
RULES = {"reject_rate": ("rate",), "accuracy": ("accuracy",), "costs": ("error", "reject")}


class FewerFoldsWarning(UserWarning):
    """The smallest class has too few samples for as many folds as were asked for."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """What it takes to turn training samples into a certainty, checked.

    Attributes
    ----------
    option : class or callable of a PrototypeModel, ProbabilisticCertainty without models, or Certainty
        A certainty that is complete already is returned as it is.
    estimator : estimator or None
        Not fitted; None if the option is complete.
    cv, inner_cv, seed : int
        The folds of the threshold, of the calibration, and their seed.
    """

    option: Any
    estimator: Any
    cv: int
    inner_cv: int
    seed: int

    @property
    def is_complete(self) -> bool:
        """Whether the option has its model already and X, y are validation samples only."""
        return isinstance(self.option, Certainty) and not self._calibrates

    @property
    def _calibrates(self) -> bool:
        """Whether pairwise models have to be fitted and calibrated."""
        return self.option is ProbabilisticCertainty or _has_no_models(self.option)

    def made(self, X: Floats, y: NDArray[Any], names: list[str] | None = None) -> Certainty:
        """Return the certainty after training on these samples."""
        if self.is_complete:
            return self.option
        if self._calibrates:
            option = self._template().fit(X, y)
            option.feature_names = names
            return option
        model = self._fitted_model(clone(self.estimator).fit(X, y))
        option = self.option(PrototypeModel(model.prototypes, model.labels, model.L, names))
        if not isinstance(option, Certainty):
            raise ValueError(f"option must make a certainty of a PrototypeModel; found {describe(option)}")
        return option

    def scale(self, X: Floats) -> Floats:
        """Return what the estimator's scalers, fitted to `X`, divide each feature by, of shape (d,)."""
        rows, fitted = X, []
        for name, step in opened(self.estimator)[:-1]:
            fitted.append((name, clone(step)))
            rows = fitted[-1][1].fit_transform(rows)
        return folded(fitted, X.shape[1])[0]

    def for_counts(self, counts: NDArray[np.int64], chooses: bool) -> Recipe:
        """Return the recipe with no more folds than the smallest class can fill, or raise a ValueError.

        `chooses` tells whether a threshold has to be chosen; each fold's training part is then divided again
        if there is a calibration. Fewer folds than asked for are told by a warning.
        """
        least = int(counts.min())
        outer = min(self.cv, least) if chooses else self.cv
        part = least - ceil(least / outer) if chooses and outer > 0 else least
        inner = min(self.inner_cv, part) if self._calibrates else self.inner_cv
        if self.is_complete or (outer, inner) == (self.cv, self.inner_cv):
            return self
        if min(outer, inner) < 2:
            raise ValueError(
                f"y must hold at least {3 if self._calibrates and chooses else 2} samples of each class for "
                f"cross-validation; found {least} (a number as threshold needs no folds)"
            )
        warnings.warn(
            f"the smallest class in y has {least} samples, too few for cv={self.cv}: "
            f"threshold and calibration use {outer} and {inner} folds",
            FewerFoldsWarning,
            stacklevel=3,
        )
        return replace(self, cv=outer, inner_cv=inner)

    def held_out_curve(self, option: Certainty, X: Floats, y: NDArray[Any]) -> AccuracyRejectCurve:
        """Return the accuracy-reject curve of certainties by models that have not seen their sample.

        The folds' values are pooled. Relative similarities and probabilities mean the same in every fold. The
        distance to the decision boundary is measured in separations of prototypes, which differ from fold to
        fold: there each fold's values are multiplied by the ratio of the median certainty of `option` on all
        samples to that of the fold's model on its own training samples.
        """
        if self.is_complete:
            return accuracy_reject_curve(option.certainty(X), option.predict(X) == y)
        certainty, correct = np.empty(len(X)), np.empty(len(X), dtype=bool)
        unit = _unit(option, X)
        folds = StratifiedKFold(self.cv, shuffle=True, random_state=self.seed)
        for train, test in folds.split(X, y):
            part = self.made(X[train], y[train])
            certainty[test] = part.certainty(X[test]) * (unit / _unit(part, X[train]))
            correct[test] = part.predict(X[test]) == y[test]
        return accuracy_reject_curve(certainty, correct)

    def _template(self) -> ProbabilisticCertainty:
        if self.option is ProbabilisticCertainty:
            return ProbabilisticCertainty(self.estimator, cv=self.inner_cv, random_state=self.seed)
        template = copy.copy(self.option)
        template.estimator, template.cv = self.estimator, self.inner_cv
        return template

    def _fitted_model(self, fitted: Any) -> PrototypeModel:
        try:
            return PrototypeModel.of(fitted)
        except ValueError as error:
            raise ValueError(f"estimator must be what PrototypeModel.of understands: {error}") from error


def check_recipe(estimator: Any, option: Any, cv: Any, random_state: Any) -> Recipe:
    """Return the recipe, or raise a ValueError that names the argument at fault.

    >>> check_recipe(None, "relative-similarity", 5, 0).option.__name__
    'RelativeSimilarity'
    """
    folds = int(check_number(cv, "cv", low=2, integer=True))
    seed = int(check_number(random_state, "random_state", low=0, high=2**32 - 1, integer=True))
    kind = _check_option(option)
    given = estimator
    if _has_no_models(kind) and kind.estimator is not None:
        if estimator is not None:
            raise ValueError("estimator must be None if option has an estimator itself; found both")
        given = kind.estimator
    recipe = Recipe(kind, None, folds, kind.cv if _has_no_models(kind) else folds, seed)
    if recipe.is_complete:
        if estimator is not None:
            raise ValueError(
                f"estimator must be None if option has its model already; found {describe(estimator)}"
            )
        return recipe
    return replace(recipe, estimator=_check_estimator(given, seed))


def _check_option(option: Any) -> Any:
    if isinstance(option, str) and option in OPTIONS:
        return OPTIONS[option]
    if isinstance(option, Certainty) or (callable(option) and not isinstance(option, str)):
        return option
    raise ValueError(
        f"option must be one of {', '.join(map(repr, OPTIONS))}, a certainty, or what makes one of a "
        f"PrototypeModel; found {describe(option)}"
    )


def _check_estimator(estimator: Any, seed: int) -> Any:
    if estimator is None:
        return make_pipeline(StandardScaler(), GMLVQ(random_state=seed))
    methods = ("fit", "predict", "get_params")  # a pipeline has `predict` if its last step has
    if isinstance(estimator, type) or not all(hasattr(estimator, method) for method in methods):
        raise ValueError(
            "estimator must be an LVQ estimator, a pipeline of scalers ending in one, or None; "
            f"found {describe(estimator)}"
        )
    for name, step in opened(estimator)[:-1]:
        try:
            check_affine(name, step)
        except ValueError as error:
            raise ValueError(f"estimator must scale each feature on its own: {error}") from error
    return estimator


def _has_no_models(option: Any) -> bool:
    return isinstance(option, ProbabilisticCertainty) and not hasattr(option, "models_")


def _unit(option: Certainty, X: Floats) -> float:
    """Return what a certainty is to be measured in: its median over training samples if it has no scale."""
    if not isinstance(option, DecisionDistance):
        return 1.0
    return float(np.median(option.certainty(X))) or 1.0


def check_rule(threshold: Any) -> Any:
    """Return a threshold rule as it is understood: a float, "knee", or a tuple (rule, number, ...).

    >>> check_rule(("accuracy", 0.99))
    ('accuracy', 0.99)
    >>> check_rule("elbow")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: threshold must be a number, 'knee' or one of ('reject_rate', rate), ...; found 'elbow' of ...
    """
    if isinstance(threshold, str) and threshold == "knee":
        return threshold
    if isinstance(threshold, Sequence) and not isinstance(threshold, str) and len(threshold) > 0:
        rule = threshold[0]
        if isinstance(rule, str) and len(threshold) == 1 + len(RULES.get(rule, threshold)):
            largest = LARGEST if rule == "costs" else 1.0
            numbers = (
                check_number(value, f"threshold's {name}", low=0, high=largest)
                for name, value in zip(RULES[rule], threshold[1:], strict=True)
            )
            return rule, *numbers
    elif np.isscalar(threshold) and not isinstance(threshold, (str, bytes)):
        largest = LARGEST
        return check_number(threshold, "threshold", low=-largest, high=largest)
    rules = ", ".join(f"({rule!r}, {', '.join(names)})" for rule, names in RULES.items())
    raise ValueError(f"threshold must be a number, 'knee' or one of {rules}; found {describe(threshold)}")


def chosen_point(curve: AccuracyRejectCurve, rule: Any) -> OperatingPoint:
    """Return the point of the curve that a checked rule, other than a number, asks for."""
    if rule == "knee":
        return curve.knee()
    return getattr(curve, f"at_{rule[0]}")(*rule[1:])
