"""Why was it rejected? Ambiguous between two classes, or unfamiliar: far from every prototype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.certainty import Certainty, Verdicts
from lvqrej.validation import Floats, check_number
from lvqrej.wording import short


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

    def __str__(self) -> str:
        nearest = min(self.distance, self.rival_distance)
        share = np.floor(self.farther_than * 1000) / 10  # never more than is true
        many = "all" if share == 100 else f"{share:g} % of the"
        far = (
            f"at {short(nearest)} it is farther from every prototype than {many} training samples "
            f"({100 * self.level:g} % are within {short(self.usual_distance)})"
        )
        two = f"{self.label} at distance {short(self.distance)}, {self.rival} at {short(self.rival_distance)}"
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
    distances : dict of tuple to array
        Sorted distances |L (x - p)| of the training samples, by model: () if there is one for all classes,
        (i, j) for the one of a pair, which looks at the samples of its two classes. Empty for a certainty
        that rests on no prototypes.
    """

    distances: dict[tuple[int, ...], Floats]

    @classmethod
    def of(cls, option: Certainty, X: Floats, y: NDArray[Any]) -> Familiarity:
        """Measure the training samples X (n, d) with labels y (n,)."""
        distances = {}
        for pair, model in option.models().items():
            samples = X[np.isin(y, model.classes)] if pair else X
            if len(samples):
                distances[pair] = np.sort(np.sqrt(model.distances(samples).min(axis=1)))
        return cls(distances)

    def causes(
        self, option: Certainty, verdicts: Verdicts, accepted: NDArray[np.bool_], level: float = 0.99
    ) -> list[Cause | None]:
        """Return the cause of each of n samples, None where no training sample tells what is usual.

        `verdicts` are the option's on them, `accepted` (n,) tells which it accepts, and `level` is the share
        of training samples whose distance is usual.

        Examples
        --------
        >>> from lvqrej import PrototypeModel, RelativeSimilarity
        >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [4, 0]], ["a", "b"]))
        >>> X, y = np.array([[0.0, 1], [1, 0], [4, 1], [3, 0]]), np.array(["a", "a", "b", "b"])
        >>> usual, samples = Familiarity.of(option, X, y), [[0, 0], [2, 0.2], [2, 99], [0.9, 0]]
        >>> causes = usual.causes(option, *option.judged(samples, 0.9), level=0.5)
        >>> [cause.kind for cause in causes]
        ['accepted', 'unfamiliar', 'unfamiliar', 'ambiguous']
        >>> print(causes[3])
        ambiguous between a and b: a at distance 0.9, b at 3.1
        """
        level = check_number(level, "level", low=0, high=1)
        limits = {pair: float(np.quantile(d, level, method="higher")) for pair, d in self.distances.items()}
        labels, sees = option.classes.tolist(), option.sees_unfamiliarity
        causes: list[Cause | None] = []
        rows = (verdicts.label, verdicts.rival, verdicts.distance, verdicts.rival_distance, accepted)
        for label, rival, near, other, passes in zip(*(row.tolist() for row in rows), strict=True):
            pair = () if () in limits else (min(label, rival), max(label, rival))
            if pair not in limits:
                causes.append(None)
                continue
            usual, limit, nearest = self.distances[pair], limits[pair], min(near, other)
            unfamiliar = nearest > limit and sees
            kind = "accepted" if passes else "unfamiliar" if unfamiliar else "ambiguous"
            share = float(np.searchsorted(usual, nearest, side="left") / len(usual))
            names = labels[label], labels[rival]
            causes.append(Cause(kind, *names, near, other, share, limit, level, sees))
        return causes
