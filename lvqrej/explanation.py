"""What `explain` returns: counterfactuals with their certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        sum_k w_k |delta_k|; no accepted input is nearer than `lower_bound`; gap = (distance - lower_bound) / distance.
    certainty_before, certainty, theta : float
    label : Any
        The class the counterfactual is accepted as.
    active : tuple of str
        The constraints that hold the counterfactual where it is, in words.
    path : str
        How it was found: "accepted" (the sample itself), "start", "homotopy", "two balls", "simplex" or "cone".
    feature_names : list of str
    certainty_name : str
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
    active: tuple[str, ...]
    path: str
    feature_names: list[str]
    certainty_name: str = "certainty"

    @property
    def delta(self) -> Floats:
        """The change, counterfactual - sample, of shape (d,)."""
        return self.counterfactual - self.sample

    @property
    def changed(self) -> list[int]:
        """Indices of the features that change."""
        return [int(k) for k in np.flatnonzero(self.counterfactual != self.sample)]

    def to_frame(self) -> Any:
        """Return one row per changed feature: feature, before, after, change."""
        import pandas as pd

        k = self.changed
        return pd.DataFrame(
            {
                "feature": [self.feature_names[i] for i in k],
                "before": self.sample[k],
                "after": self.counterfactual[k],
                "change": self.delta[k],
            }
        )

    def __str__(self) -> str:
        if self.path == "accepted":
            what = f"{self.certainty_name} {self.certainty:.4g} reaches {self.theta:.4g}"
            return f"accepted as {self.label}: {what}"
        changes = " and ".join(
            f"{self.feature_names[k]} were {self.counterfactual[k]:.4g} instead of {self.sample[k]:.4g}"
            for k in self.changed
        )
        proof = (
            "no smaller change suffices" if self.gap <= 1e-6 else f"at most {self.gap:.1%} from the smallest"
        )
        return (
            f"{self.certainty_name} is {self.certainty_before:.4g}, the threshold {self.theta:.4g}; accepted as "
            f"{self.label} if {changes}; {proof}"
        )


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
    _box: Any = field(default=None, repr=False)

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
        return Explanation(
            sample=self.samples[i],
            counterfactual=self.counterfactuals[i],
            distance=float(self.distances[i]),
            lower_bound=float(self.lower_bounds[i]),
            gap=float(self.gaps[i]),
            certainty_before=float(self.certainties_before[i]),
            certainty=float(self.certainties[i]),
            label=self.labels[i],
            theta=self.theta,
            active=tuple(self._active(i)),
            path=self.paths[i],
            feature_names=self.feature_names,
            certainty_name=self.certainty_name,
        )

    def _active(self, i: int) -> list[str]:
        x = self.counterfactuals[i]
        words = [] if self._cells[i] < 0 else list(self._union.active(int(self._cells[i]), x))
        lower, upper = self._box(self.samples[i : i + 1])
        for k, name in enumerate(self.feature_names):
            if x[k] != self.samples[i, k] and x[k] in (lower[0, k], upper[0, k]):
                words.append(f"{name} at its {'lower' if x[k] == lower[0, k] else 'upper'} bound")
        return words

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
        return pd.concat([numbers, features], axis=1)
