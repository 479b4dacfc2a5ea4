"""The paper's protocol up to the explanations: folds, grid search, threshold; every draw with a seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from companion.datafile import DataSet
from companion.deviations import OPTIONS, Deviations
from companion.preprocessing import Fold, filling_and_scaling, prepared_fold
from companion.published import IdentityGMLVQ, UnsignedPairs, shifted_threshold
from lvqrej import (
    GLVQ,
    GMLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    accuracy_reject_curve,
)
from lvqrej.certainty import Certainty
from lvqrej.validation import check_choice, check_number

#: The models of the study; the paper's matrix is learned without a penalty.
MODELS: dict[str, Callable[..., GLVQ]] = {"GLVQ": GLVQ, "GMLVQ": partial(GMLVQ, regularization=0)}
#: How the training parts of unbalanced data are balanced.
BALANCING = {"flip": "smote", "flip_synthetic": "smote", "t21": "undersample", "t21_synthetic": "undersample"}
#: Numbers of prototypes per class that the grid search compares.
GRID = (1, 2, 3, 4, 5)
FOLDS = 5
#: What is rejected where the curve has no knee: the share of validation samples.
FALLBACK_RATE = 0.1
#: Weight of the accuracy against the area under the curve in the paper's combined criterion.
ACCURACY_WEIGHT = 0.5

Floats = NDArray[np.float64]


def seed_of(repetition: int, fold: int, purpose: int) -> int:
    """Return the seed of one purpose in one fold: 0 inner folds, 1 training, 2 noise, 3 choice of samples.

    >>> seed_of(0, 1, 2) == seed_of(0, 1, 2), seed_of(0, 1, 2) == seed_of(0, 1, 3)
    (True, False)
    """
    return int(np.random.SeedSequence((repetition, fold, purpose)).generate_state(1)[0])


class Threshold(NamedTuple):
    """A threshold and how it was found; `rate` and `accuracy` are those of the validation samples."""

    theta: float
    rate: float
    accuracy: float
    rule: str


@dataclass(frozen=True, eq=False)
class Fitted:
    """A reject option ready to be explained.

    Attributes
    ----------
    option : Certainty
    threshold : Threshold
    prototypes_per_class : int
    """

    option: Certainty
    threshold: Threshold
    prototypes_per_class: int


@dataclass(frozen=True, eq=False)
class FoldFits:
    """Everything that is fitted in one outer fold, each part once and only when it is asked for.

    What fitting a part warns of is said whenever the part is asked for, so that what a reject option rests
    on is known whatever was fitted before it.

    Parameters
    ----------
    data : DataSet
    model : {"GLVQ", "GMLVQ"}
    repetition, fold : int
        The outer folds are stratified and shuffled with the seed `repetition`.
    unshuffled, scaled_before : bool
        The deviations of the same names: they change what is fitted, not only what is done with it.
    sizes : tuple of int
        Numbers of prototypes per class that the grid search compares, increasing.

    Examples
    --------
    >>> from companion.datasets import load
    >>> fits = FoldFits(load("iris"), "GLVQ", repetition=0, fold=0)
    >>> len(fits.test), fits.prepared.X_train.shape
    (30, (120, 4))
    """

    data: DataSet
    model: str
    repetition: int
    fold: int
    unshuffled: bool = False
    scaled_before: bool = False
    sizes: tuple[int, ...] = GRID

    def __post_init__(self) -> None:
        check_choice(self.model, "model", tuple(MODELS))
        check_number(self.repetition, "repetition", low=0, integer=True)
        check_number(self.fold, "fold", low=0, high=FOLDS - 1, integer=True)
        object.__setattr__(self, "_memory", {})

    @cached_property
    def rows(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows of the training and of the test part."""
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=self.repetition)
        return list(folds.split(self._X, self.data.y))[self.fold]

    @property
    def test(self) -> NDArray[np.intp]:
        """The rows of the test part."""
        return self.rows[1]

    @property
    def prepared(self) -> Fold:
        """The outer fold: filled, scaled, its training part balanced."""
        seed = seed_of(self.repetition, self.fold, 1)
        return self._once("prepared", lambda: self._prepared(*self.rows, seed))

    @cached_property
    def candidates(self) -> Floats:
        """The training samples themselves, filled and scaled, without what balancing added or left out."""
        return np.asarray(self.prepared.steps.transform(self._X[self.rows[0]]), dtype=float)

    @property
    def inner(self) -> list[Fold]:
        """The folds of the training part on which the grid search and the threshold are validated."""
        return self._once("inner", self._inner)

    def _inner(self) -> list[Fold]:
        train = self.rows[0]
        seed = seed_of(self.repetition, self.fold, 0)
        kind: Any = (
            KFold(FOLDS) if self.unshuffled else StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        )
        parts = kind.split(train, self.data.y[train])
        return [self._prepared(train[a], train[b], seed) for a, b in parts]

    @property
    def grid(self) -> list[dict[str, float]]:
        """One entry per number of prototypes: mean accuracy and areas under the curves of two certainties."""
        return self._once("grid", self._grid)

    def _grid(self) -> list[dict[str, float]]:
        entries = []
        for k in self.sizes:
            scores = []
            for model, part in zip(self.inner_models(k), self.inner, strict=True):
                right = model.predict(part.X_test) == part.y_test
                areas = [
                    accuracy_reject_curve(kind(model).certainty(part.X_test), right).area
                    for kind in (RelativeSimilarity, DecisionDistance)
                ]
                scores.append([right.mean(), *areas])
            accuracy, area_relsim, area_dist = (float(value) for value in np.mean(scores, axis=0))
            entries.append(
                {
                    "prototypes_per_class": k,
                    "accuracy": accuracy,
                    "area_relative_similarity": area_relsim,
                    "area_decision_distance": area_dist,
                }
            )
        return entries

    def best(self, criterion: str = "accuracy", option: str = "relative_similarity") -> int:
        """Return the number of prototypes per class with the best score, the smallest on a tie.

        Parameters
        ----------
        criterion : {"accuracy", "area", "weighted"}
            The paper's choice; the area under the accuracy-reject curve (AU-ARC), which it names as an
            alternative; half of each.
        option : {"relative_similarity", "decision_distance"}
            Whose area.
        """
        check_choice(criterion, "criterion", ("accuracy", "area", "weighted"))
        check_choice(option, "option", OPTIONS[:2])
        weight = {"accuracy": 1.0, "area": 0.0, "weighted": ACCURACY_WEIGHT}[criterion]
        scores = [weight * e["accuracy"] + (1 - weight) * e[f"area_{option}"] for e in self.grid]
        return self.sizes[
            int(np.argmax(np.round(scores, 12)))
        ]  # rounded: a tie is a tie whatever the last bit

    def inner_models(self, k: int) -> list[PrototypeModel]:
        """Return the models of the inner folds with k prototypes per class."""
        seed = seed_of(self.repetition, self.fold, 1)
        return self._once(
            ("inner", k),
            lambda: [
                PrototypeModel.of(
                    MODELS[self.model](prototypes_per_class=k, random_state=seed).fit(
                        part.X_train, part.y_train
                    )
                )
                for part in self.inner
            ],
        )

    def fitted(self, option: str, deviations: Deviations) -> Fitted:
        """Return the reject option of that name with its threshold, under the deviations."""
        check_choice(option, "option", OPTIONS)
        k = self.best()
        inner = self._options(option, deviations, k, self.inner)
        (final,) = self._options(option, deviations, k, [self.prepared])
        return Fitted(final, self._threshold(inner, final, deviations), k)

    def _options(self, option: str, deviations: Deviations, k: int, parts: list[Fold]) -> list[Certainty]:
        """Return the option fitted on each of the parts, which are the inner folds or the outer one."""
        lost = deviations.identity_metric and self.model == "GMLVQ"
        outer = parts[0] is self.prepared
        if option == "probabilistic":
            return self._once(
                (option, k, lost, deviations.unsigned_pairs, outer),
                lambda: [self._probabilistic(part, k, lost, deviations.unsigned_pairs) for part in parts],
            )
        models = self.outer_model(k) if outer else self.inner_models(k)
        if lost:
            models = [PrototypeModel(m.prototypes, m.labels) for m in models]
        if option == "relative_similarity":
            return [RelativeSimilarity(m) for m in models]
        return [DecisionDistance(m, "euclidean" if deviations.mixed_norms else "metric") for m in models]

    def outer_model(self, k: int) -> list[PrototypeModel]:
        """Return a list of one: the model of the outer fold with k prototypes per class."""
        seed = seed_of(self.repetition, self.fold, 1)
        part = self.prepared
        return self._once(
            ("outer", k),
            lambda: [
                PrototypeModel.of(
                    MODELS[self.model](prototypes_per_class=k, random_state=seed).fit(
                        part.X_train, part.y_train
                    )
                )
            ],
        )

    def _probabilistic(self, part: Fold, k: int, lost: bool, unsigned: bool) -> ProbabilisticCertainty:
        seed = seed_of(self.repetition, self.fold, 1)
        kind = partial(IdentityGMLVQ, regularization=0) if lost else MODELS[self.model]
        estimator = kind(prototypes_per_class=k, random_state=seed)
        pairs = UnsignedPairs if unsigned else ProbabilisticCertainty
        return pairs(estimator, random_state=seed).fit(part.X_train, part.y_train)

    def _threshold(self, inner: list[Certainty], final: Certainty, deviations: Deviations) -> Threshold:
        """Return the knee of the validation samples' curve, pooled over the inner folds.

        Certainties of different models have different scales. Each is therefore replaced by its rank among
        the certainties of the model's own training samples, and the chosen rank turned back into a
        certainty of the final model.
        """
        parts = self.inner
        right = [o.predict(p.X_test) == p.y_test for o, p in zip(inner, parts, strict=True)]
        values = [o.certainty(p.X_test) for o, p in zip(inner, parts, strict=True)]
        if deviations.shifted_thresholds:
            point = shifted_threshold(values, right)
            rule = "beside the knee" if point.found else "first of the grid that rejects"
            return Threshold(point.threshold, point.reject_rate, point.accuracy, rule)
        scales = [_scale(o, p) for o, p in zip(inner, parts, strict=True)]
        ranks = [np.interp(r, *scale) for r, scale in zip(values, scales, strict=True)]
        curve = accuracy_reject_curve(np.concatenate(ranks), np.concatenate(right))
        point, rule = curve.knee(), "knee"
        if not point.found or point.reject_rate == 0:
            point, rule = curve.at_reject_rate(FALLBACK_RATE), "fallback rate"
        certainties, levels = _scale(final, self.prepared)
        theta = float(np.interp(point.threshold, levels, certainties))
        return Threshold(theta, point.reject_rate, point.accuracy, rule)

    @cached_property
    def _X(self) -> Floats:
        samples = self.data.X.to_numpy(dtype=float)
        return filling_and_scaling().fit_transform(samples) if self.scaled_before else samples

    def _prepared(self, train: NDArray[np.intp], test: NDArray[np.intp], seed: int) -> Fold:
        how = BALANCING.get(self.data.name)
        return prepared_fold(
            self._X, self.data.y, train, test, scale=not self.scaled_before, how=how, random_state=seed
        )

    def _once(self, key: Any, make: Any) -> Any:
        memory: dict[Any, Any] = self._memory  # type: ignore[attr-defined]
        if key not in memory:
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always")
                memory[key] = make(), raised
        made, raised = memory[key]
        for warning in raised:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return made


def _scale(option: Certainty, part: Fold) -> tuple[Floats, Floats]:
    """Return the distinct certainties of the training samples, 0 before them, and their ranks in [0, 1)."""
    certainties, counts = np.unique(option.certainty(part.X_train), return_counts=True)
    ranks = np.cumsum(counts) / (counts.sum() + 1)
    if certainties[0] == 0:
        return certainties, ranks
    return np.concatenate(([0.0], certainties)), np.concatenate(([0.0], ranks))
