"""What `explain` returns: counterfactuals with their certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.telling import presentation

Floats = NDArray[np.float64]


class NoCounterfactualError(ValueError):
    """No input meets all requirements; the message says which of them makes it so."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The nearest input that is accepted, and the proof that no nearer one is.

    Attributes
    ----------
    sample, counterfactual, delta : ndarrays of shape (d,)
        delta = counterfactual - sample.
    distance, lower_bound, gap : float
        sum_k w_k |delta_k|; no accepted input is nearer than `lower_bound`; gap = (distance - lower_bound) /
        distance.
    certainty_before, certainty, theta : float
    label : Any
        The class the counterfactual is accepted as.
    active : tuple of str
        The constraints that hold the counterfactual where it is, in words.
    path : str
        How it was found: "accepted" (the sample itself), "start", "homotopy", "two balls", "simplex" or
        "cone".
    feature_names : list of str
    certainty_name : str
    cause : Cause or None
        Why the sample is rejected, if a `RejectOptionClassifier` explains it.
    """

    sample: Floats
    counterfactual: Floats
    distance: float
    lower_bound: float
    gap: float
    certainty_before: float
    certainty: float
    label: Any
    theta: float
    path: str
    feature_names: list[str]
    certainty_name: str = "certainty"
    cause: Any = None
    _option: Any = field(default=None, repr=False)
    _required: Any = field(default=None, repr=False)
    _union: Any = field(default=None, repr=False)
    _cell: int = field(default=-1, repr=False)

    @cached_property
    def active(self) -> tuple[str, ...]:
        """The constraints that hold the counterfactual where it is, in words."""
        x, (lower, upper) = self.counterfactual, self.box
        words = [] if self._cell < 0 else list(self._union.active(self._cell, x))
        if self._required is not None and len(self._required.b):
            words = [word for word in words if word != "a half-space"] + self._required.tight(x)
        for k in np.flatnonzero((x != self.sample) & ((x == lower) | (x == upper))):
            words.append(f"{self.feature_names[k]} at its {'lower' if x[k] == lower[k] else 'upper'} bound")
        return tuple(words)

    @property
    def delta(self) -> Floats:
        """The change, counterfactual - sample, of shape (d,)."""
        return self.counterfactual - self.sample

    @property
    def changed(self) -> list[int]:
        """Indices of the features that change."""
        return [int(k) for k in np.flatnonzero(self.counterfactual != self.sample)]

    @property
    def box(self) -> tuple[Floats, Floats]:
        """Lowest and highest values that bounds, fixed features and directions allow, each of shape (d,)."""
        if self._required is None:
            return np.full(len(self.sample), -np.inf), np.full(len(self.sample), np.inf)
        lower, upper = self._required.box(self.sample[None])
        return lower[0], upper[0]

    @property
    def costs(self) -> Floats:
        """What the change of each feature adds to the distance, w_k |delta_k|, of shape (d,)."""
        weights = 1.0 if self._required is None else self._required.weights
        return weights * np.abs(self.delta)

    def holds(self, point: Floats) -> bool:
        """Return whether another input is accepted as the same class and meets the same requirements.

        Without the reject option at hand only the counterfactual itself is known to.
        """
        if self._option is None:
            return bool((point == self.counterfactual).all())
        from lvqrej.engine.validity import is_valid

        lower, upper = self.box
        inside = bool(((lower <= point) & (point <= upper)).all())
        row = point[None]
        valid = is_valid(self._option, self.theta, self._required, row)[0]
        return inside and bool(valid) and self._option.predict(row)[0] == self.label

    def to_frame(self) -> Any:
        """Return one row per changed feature: feature, before, after, change, cost."""
        import pandas as pd

        k = self.changed
        return pd.DataFrame(
            {
                "feature": [self.feature_names[i] for i in k],
                "before": self.sample[k],
                "after": self.counterfactual[k],
                "change": self.delta[k],
                "cost": self.costs[k],
            }
        )

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as a JSON object, in full precision; see `lvqrej.telling.presentation.record`."""
        return presentation.to_json(self, indent)

    def plot(self, units: Any = None, most: int = 12) -> Any:
        """Return a matplotlib figure: the certainty and what has to change; see `lvqrej.telling.chart`."""
        from lvqrej.telling.chart import change_chart

        return change_chart(self, units, most)

    def __str__(self) -> str:
        return presentation.sentence(self)

    def _repr_html_(self) -> str:
        return presentation.to_html(self)


@dataclass(frozen=True, eq=False)
class Explanations(Sequence[Explanation]):
    """Counterfactuals of a batch; `result[i]` is one `Explanation`.

    Attributes
    ----------
    samples, counterfactuals : ndarrays of shape (n, d)
    distances, lower_bounds, gaps, certainties_before, certainties : ndarrays of shape (n,)
    labels : ndarray of shape (n,)
        The class each counterfactual is accepted as.
    found : ndarray of bool of shape (n,)
        False where a sample was skipped because it has no counterfactual (`on_infeasible="skip"`): then
        the counterfactual's row is NaN, distance and lower bound are infinite, the gap is 0, certainty and
        label are those of the sample itself, and `result[i]` raises the error that says why.
    reasons : dict of int to str
        Why a sample has no counterfactual, by its row.
    paths : list of str
        How each answer was found.
    index : pandas.Index or None
        The samples' index, if they came as a data frame.
    """

    samples: Floats
    counterfactuals: Floats
    distances: Floats
    lower_bounds: Floats
    certainties_before: Floats
    certainties: Floats
    labels: NDArray[Any]
    found: NDArray[np.bool_]
    reasons: dict[int, str]
    paths: list[str]
    theta: float
    feature_names: list[str]
    certainty_name: str = "certainty"
    _cells: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)
    _union: Any = field(default=None, repr=False)
    index: Any = None
    _option: Any = field(default=None, repr=False)
    _required: Any = field(default=None, repr=False)
    _familiarity: Any = field(default=None, repr=False)

    @property
    def gaps(self) -> Floats:
        """Relative gaps (distance - lower bound) / distance, 0 where the distance is 0, of shape (n,)."""
        gaps = np.zeros(len(self.distances))
        there = self.found & (self.distances > 0)
        gaps[there] = (self.distances[there] - self.lower_bounds[there]) / self.distances[there]
        return gaps

    def __len__(self) -> int:
        return len(self.distances)

    def __iter__(self) -> Iterator[Explanation]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"explanation {index} of {len(self)}")
        i = int(index) % len(self)
        if not self.found[i]:
            raise NoCounterfactualError(self.reasons[i])
        distance, bound = float(self.distances[i]), float(self.lower_bounds[i])
        return Explanation(
            sample=self.samples[i],
            counterfactual=self.counterfactuals[i],
            distance=distance,
            lower_bound=bound,
            gap=(distance - bound) / distance if distance > 0 else 0.0,
            certainty_before=float(self.certainties_before[i]),
            certainty=float(self.certainties[i]),
            label=self.labels[i],
            theta=self.theta,
            path=self.paths[i],
            feature_names=self.feature_names,
            certainty_name=self.certainty_name,
            cause=self._cause(i),
            _option=self._option,
            _required=self._required,
            _union=self._union,
            _cell=int(self._cells[i]),
        )

    def _cause(self, i: int) -> Any:
        if self._familiarity is None:
            return None
        option = getattr(self._option, "plain", self._option)
        return self._familiarity.causes(option, self.theta, self.samples[i : i + 1])[0]

    def to_frame(self) -> Any:
        """Return one row per sample: the certificate's numbers, then the counterfactual's features."""
        import pandas as pd

        numbers = pd.DataFrame(
            {
                "found": self.found,
                "label": self.labels,
                "certainty_before": self.certainties_before,
                "certainty": self.certainties,
                "distance": self.distances,
                "lower_bound": self.lower_bounds,
                "gap": self.gaps,
                "path": self.paths,
            }
        )
        features = pd.DataFrame(self.counterfactuals, columns=self.feature_names)
        frame = pd.concat([numbers, features], axis=1)
        return frame if self.index is None else frame.set_axis(self.index, axis=0)

    def to_json(self, indent: int | None = None) -> str:
        """Return a JSON list with one object per sample, in full precision."""
        return presentation.to_json(self, indent)

    def __str__(self) -> str:
        return presentation.summary(self)

    def _repr_html_(self) -> str:
        return presentation.to_html(self)
