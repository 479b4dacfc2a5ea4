"""Why was it rejected? Ambiguous between two classes, or unfamiliar: far from every prototype."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej._validation import check_number, describe
from lvqrej.certainty import Certainty, DecisionDistance, PrototypeCertainty
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel

Floats = NDArray[np.float64]
#: Which model: () if there is one for all classes, (i, j) for that of a pair.
Key = tuple[int, ...]


@dataclass(frozen=True)
class Cause:
    """What a reject rests on.

    Distances are those of the model's metric, |L (x - p)|, not squared. What the metric ignores (the null
    space of L) does not make a sample unfamiliar.

    Attributes
    ----------
    kind : str
        "unfamiliar": farther from every prototype than a share `level` of the training samples, and the
        certainty can see that; "ambiguous": any other reject; "accepted".
    label, rival : Any
        The two classes in question: of the nearest prototype and of the nearest one of another class, or the
        two most probable ones.
    distance, rival_distance : float
        Distances to the nearest prototypes of the two.
    farther_than : float
        Share of the training samples that are nearer to their nearest prototype.
    usual_distance, level : float
        A share `level` of the training samples is at most `usual_distance` from its nearest prototype.
    sees_unfamiliarity : bool
        False for the distance to the decision boundary, which grows outward: the farther away from all
        training data, the more certain it is.
    """

    kind: str
    label: Any
    rival: Any
    distance: float
    rival_distance: float
    farther_than: float
    usual_distance: float
    level: float
    sees_unfamiliarity: bool

    @property
    def is_far(self) -> bool:
        """Whether the sample is farther from every prototype than a share `level` of the training samples."""
        return min(self.distance, self.rival_distance) > self.usual_distance

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as a dict."""
        return asdict(self)

    def __str__(self) -> str:
        nearest = min(self.distance, self.rival_distance)
        share = np.floor(self.farther_than * 1000) / 10  # never more than is true
        far = (
            f"at {nearest:.3g} it is farther from every prototype than {share:g} % of the training samples "
            f"({100 * self.level:g} % are within {self.usual_distance:.3g})"
        )
        two = f"{self.label} at distance {self.distance:.3g}, {self.rival} at {self.rival_distance:.3g}"
        text = f"{self.kind}: " + (far if self.kind == "unfamiliar" else two)
        if self.kind == "ambiguous":
            text = f"ambiguous between {self.label} and {self.rival}: {two}"
        if not self.sees_unfamiliarity:
            text += (
                "; the distance to the decision boundary grows outward, so this certainty cannot see "
                "whether a sample is unfamiliar"
            )
            text += f": {far}" if self.is_far else ""
        return text


@dataclass(frozen=True, eq=False)
class Familiarity:
    """How far training samples are from their nearest prototype: what is usual.

    Attributes
    ----------
    distances : dict of model to array
        Sorted distances |L (x - p)| of the training samples; for a pair of classes those of its samples.
    """

    distances: dict[Key, Floats]

    @classmethod
    def of(cls, option: Certainty, X: Floats, y: NDArray[Any]) -> Familiarity:
        """Measure the training samples."""
        distances = {}
        for key, model in models_of(option).items():
            rows = np.isin(y, model.classes) if key else slice(None)
            samples = X[rows]
            if len(samples):
                distances[key] = np.sort(np.sqrt(model.distances(samples).min(axis=1)))
        return cls(distances)

    def causes(self, option: Certainty, theta: float, X: Floats, level: float = 0.99) -> list[Cause]:
        """Return the cause of each sample.

        >>> from lvqrej.certainty import RelativeSimilarity
        >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [4, 0]], ["a", "b"]))
        >>> X, y = np.array([[0.0, 1], [1, 0], [4, 1], [3, 0]]), np.array(["a", "a", "b", "b"])
        >>> usual = Familiarity.of(option, X, y)
        >>> [cause.kind for cause in usual.causes(option, 0.9, np.array([[0.0, 0], [2, 0.2], [2, 99]]), 0.5)]
        ['accepted', 'unfamiliar', 'unfamiliar']
        >>> print(usual.causes(option, 0.9, np.array([[0.9, 0.0]]))[0])
        ambiguous between a and b: a at distance 0.9, b at 3.1
        """
        level = check_number(level, "level", low=0, high=1)
        accepted = option.accepts(X, theta)
        seen = not isinstance(option, DecisionDistance)
        models, classes = models_of(option), option.classes.tolist()
        if not models:
            raise ValueError(f"option must rest on prototypes to tell a cause; found {describe(option)}")
        causes = []
        for row, (label, rival) in enumerate(_two_classes(option, X)):
            key: Key = () if () in models else (min(label, rival), max(label, rival))
            model, usual = models[key], self.distances[key]
            squared = model.distances(X[row : row + 1])[0]
            near, other = (
                float(np.sqrt(squared[model.labels == option.classes[i]].min())) for i in (label, rival)
            )
            nearest = min(near, other)
            limit = float(np.quantile(usual, level, method="higher"))
            far = nearest > limit
            kind = "accepted" if accepted[row] else "unfamiliar" if far and seen else "ambiguous"
            share = float(np.searchsorted(usual, nearest, side="left") / len(usual))
            causes.append(Cause(kind, classes[label], classes[rival], near, other, share, limit, level, seen))
        return causes


def models_of(option: Certainty) -> dict[Key, PrototypeModel]:
    """Return the prototype models a certainty rests on: one under (), one per pair, or none."""
    if isinstance(option, PrototypeCertainty):
        return {(): option.model}
    if isinstance(option, ProbabilisticCertainty):
        return {(i, j): model for (i, j), model in option.models_.items()}
    return {}


def _two_classes(option: Certainty, X: Floats) -> NDArray[np.intp]:
    """Return the indices of the two classes in question, of shape (n, 2)."""
    if isinstance(option, ProbabilisticCertainty):
        return np.argsort(-option.probabilities(X), axis=1, kind="stable")[:, :2]
    model = models_of(option)[()]
    distances = model.distances(X)
    nearest = np.stack(
        [distances[:, model.class_index == i].min(axis=1) for i in range(len(model.classes))], 1
    )
    return np.argsort(nearest, axis=1, kind="stable")[:, :2]
