"""What `explain` returns: counterfactuals with their certificates, one or many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej import holding, wording
from lvqrej.cause import Cause, Familiarity
from lvqrej.cells import PATHS, AcceptedSet, Floats, Ints
from lvqrej.certainty import Certainty, Verdicts
from lvqrej.columns import Columns, is_missing
from lvqrej.requirements import Requirements
from lvqrej.validation import check_choice, check_number

#: Among which changes an answer is the smallest if bounds are what training data gave.
_OBSERVED = " within the observed ranges"


class NoCounterfactualError(ValueError):
    """No input meets all requirements; the message says which of them makes it so."""


@dataclass(frozen=True, eq=False)
class Explanations(Sequence["Explanation"]):
    """Counterfactuals of a batch; `result[i]` is one `Explanation`.

    Attributes
    ----------
    samples, counterfactuals : ndarrays of shape (n, d)
    distances, lower_bounds, certainties : ndarrays of shape (n,)
    labels : ndarray of shape (n,)
        The class each counterfactual is accepted as.
    found : ndarray of bool of shape (n,)
        False where a sample was skipped because it has no counterfactual (`on_infeasible="skip"`): then
        the counterfactual's row is NaN, the distance is infinite, and so is the lower bound if it is proven
        that there is none; the gap is 0, certainty and label are those of the sample itself, and `result[i]`
        raises the error that says why.
    firm : ndarray of bool of shape (n,)
        Whether each answer holds under the noise that was asked for; otherwise it lies on the boundary of
        what is accepted.
    index : pandas.Index or None
        The samples' index, if they came as a data frame.
    given : array of objects of shape (n, d), or None
        The samples' cells, if numbers do not say it all (`lvqrej.columns`): then `samples` and
        `counterfactuals` have lifted columns, and `to_frame` has the table's own.
    scopes : sequence of str
        Among changes of which kind each is the smallest, in words; "" for all.
    fewest : ndarray of int of shape (n,), or None
        At least so many features have to change, proven (`variants.sparsest`, `variants.trade_off`).
    worst_certainties : ndarray of shape (n,), or None
        The smallest certainty that errors leave (`variants.robust`).
    option, theta, required
        What was asked.
    completions : function of (row, free, ways)
        Returns the nearest accepted inputs that differ from a sample in the features `free` (n, d) only, in
        either direction or in that of `ways` (n,), within the bounds: what `holding` asks.
    """

    samples: Floats
    counterfactuals: Floats
    distances: Floats
    lower_bounds: Floats
    certainties: Floats
    labels: NDArray[Any]
    found: NDArray[np.bool_]
    verdicts: Verdicts
    cells: Ints
    path_codes: Ints
    firm: NDArray[np.bool_]
    option: Certainty
    theta: float
    required: Requirements
    accepted: AcceptedSet
    reason: Callable[[int], str]
    completions: Callable[[int, NDArray[np.bool_], Ints], Any]
    scopes: Sequence[str] = ()
    fewest: NDArray[np.int64] | None = None
    worst_certainties: Floats | None = None
    index: Any = None
    given: Any = None
    familiarity: Familiarity | None = None

    @property
    def certainties_before(self) -> Floats:
        """Certainties of the samples, of shape (n,)."""
        return self.verdicts.certainty

    @property
    def gaps(self) -> Floats:
        """Relative gaps (distance - lower bound) / distance, 0 where the distance is 0, of shape (n,)."""
        there = self.found & (self.distances > 0)
        short = np.subtract(self.distances, self.lower_bounds, out=np.zeros(len(there)), where=there)
        return np.divide(short, self.distances, out=short, where=there)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many features each answer changes, of shape (n,)."""
        return self.changed.sum(axis=1)

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Which features each answer changes, of shape (n, d)."""
        different = self.required.columns.gathered(self.counterfactuals != self.samples)
        return self.found[:, None] & different

    def before(self, row: int) -> list[Any]:
        """Return the values of a sample, missing ones as they are taken."""
        values = self.required.columns.values(self.samples[row])
        if self.given is None:
            return values
        return [taken if is_missing(own) else own for own, taken in zip(self.given[row], values, strict=True)]

    def after(self, row: int) -> list[Any]:
        """Return the values of a counterfactual, those of the sample where nothing changes."""
        values = self.required.columns.values(self.counterfactuals[row])
        pairs = zip(self.changed[row], values, self.before(row), strict=True)
        return [new if changed else old for changed, new, old in pairs]

    def missing(self, row: int) -> list[int]:
        """Return the columns in which a sample has no value."""
        return [] if self.given is None else [k for k, v in enumerate(self.given[row]) if is_missing(v)]

    @property
    def paths(self) -> list[str]:
        """How each answer was found; see `Explanation`."""
        return [PATHS[code] for code in self.path_codes]

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return self.required.names

    @cached_property
    def reasons(self) -> Mapping[int, str]:
        """Why a sample has no counterfactual, by its row; found out when asked for."""
        return _Reasons(np.flatnonzero(~self.found).tolist(), self.reason)

    def __len__(self) -> int:
        return len(self.distances)

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
            certainty_before=float(self.certainties_before[i]),
            certainty=float(self.certainties[i]),
            label=self.labels[i],
            path=PATHS[self.path_codes[i]],
            theta=self.theta,
            feature_names=self.feature_names,
            certainty_name=self.option.name,
            largest=self.option.largest,
            scope=(self.scopes[i] if len(self.scopes) else "")
            + _OBSERVED * bool(np.any(self.required.observed)),
            fewest=None if self.fewest is None else int(self.fewest[i]),
            worst_certainty=None if self.worst_certainties is None else float(self.worst_certainties[i]),
            firm=bool(self.firm[i]),
            batch=self,
            row=i,
        )

    def to_frame(self) -> Any:
        """Return one row per sample: the certificate's numbers, then the counterfactual's features."""
        import pandas as pd

        numbers: dict[str, Any] = {
            "found": self.found,
            "label": self.labels,
            "certainty_before": self.certainties_before,
            "certainty": self.certainties,
            "distance": self.distances,
            "lower_bound": self.lower_bounds,
            "gap": self.gaps,
            "changed": self.counts,
            "fewest": self.fewest,
            "worst_certainty": self.worst_certainties,
            "path": self.paths,
        }
        given = {name: column for name, column in numbers.items() if column is not None}
        features = self.required.columns.frame(self.counterfactuals, self.samples, self.given)
        frame = pd.concat([pd.DataFrame(given), features], axis=1)
        return frame if self.index is None else frame.set_axis(self.index, axis=0)

    def ranges(self, row: int | None = None) -> Any:
        """Return the ranges of one sample, or of all with a column `sample`; see `Explanation.ranges`."""
        import pandas as pd

        if row is not None:
            return holding.ranges(self, row)
        who = range(len(self)) if self.index is None else self.index
        tables = [holding.ranges(self, i).assign(sample=sample) for i, sample in enumerate(who)]
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def sufficient_reasons(self, effort: int = holding.EFFORT, k: int = 1) -> list[holding.Reason]:
        """Return what keeps each sample rejected; see `Explanation.sufficient_reason`."""
        tries = int(check_number(effort, "effort", low=0, integer=True))
        wanted = int(check_number(k, "k", low=1, integer=True))
        return [holding.sufficient(self, i, tries, wanted) for i in range(len(self))]

    def to_json(self, indent: int | None = None) -> str:
        """Return a JSON list with one object per sample, in full precision."""
        return wording.to_json(self, indent)

    def plot(self, most: int = 12) -> Any:
        """Return a matplotlib figure: how often each feature goes up and down; see `lvqrej.chart`."""
        from lvqrej.chart import batch_chart

        return batch_chart(self, most)

    def __str__(self) -> str:
        return wording.summary(self)

    def _repr_html_(self) -> str:
        return wording.to_html(self)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The nearest input that is accepted, and the proof that no nearer one is: one row of `Explanations`.

    Attributes
    ----------
    sample, counterfactual : ndarrays of shape (d,)
    distance, lower_bound : float
        sum_k w_k |delta_k|; no accepted input is nearer than `lower_bound`.
    certainty_before, certainty, theta, largest : float
        Before and after, the threshold, and the largest value that the certainty can have.
    certainty_name, feature_names
    label : Any
        The class the counterfactual is accepted as.
    path : str
        How it was found: "accepted" (the sample itself), "start", "homotopy", "simplex" or "cone".
    scope, fewest, worst_certainty, firm
        See `Explanations`.
    batch, row
        The `Explanations` that it is a row of.
    """

    sample: Floats
    counterfactual: Floats
    distance: float
    lower_bound: float
    certainty_before: float
    certainty: float
    label: Any
    path: str
    theta: float
    feature_names: list[str]
    certainty_name: str
    largest: float
    scope: str
    fewest: int | None
    worst_certainty: float | None
    firm: bool
    batch: Explanations
    row: int

    @property
    def columns(self) -> Columns:
        """The table's columns, and how they are lifted."""
        return self.batch.required.columns

    @property
    def delta(self) -> Floats:
        """The change, counterfactual - sample, of shape (d,)."""
        return self.counterfactual - self.sample

    @property
    def changed(self) -> list[int]:
        """Indices of the features that change."""
        return np.flatnonzero(self.batch.changed[self.row]).tolist()

    @property
    def gap(self) -> float:
        """(distance - lower_bound) / distance, 0 where the distance is 0."""
        return (self.distance - self.lower_bound) / self.distance if self.distance > 0 else 0.0

    @property
    def costs(self) -> Floats:
        """What the change of each feature adds to the distance, w_k |delta_k| or a price, of shape (d,)."""
        return self.batch.required.costs(self.sample[None], self.counterfactual[None])[0]

    @cached_property
    def before(self) -> list[Any]:
        """The sample's values, missing ones as they are taken."""
        return self.batch.before(self.row)

    @cached_property
    def after(self) -> list[Any]:
        """The counterfactual's values."""
        return self.batch.after(self.row)

    @cached_property
    def missing(self) -> Any:
        """What the missing values could do, one row for each, as a data frame.

        Columns: feature; taken_as, what it is taken as; accepted_at, the value nearest to that with which
        alone the sample would be accepted, within the bounds of `explain`, and accepted_as, its class (None
        if none is found); holds, whether it is proven that the sample is rejected with every value.
        """
        import pandas as pd

        batch, rows = self.batch, []
        for k in batch.missing(self.row):
            alone = np.arange(len(self.feature_names)) == k
            answer = batch.completions(self.row, alone[None], np.zeros(1, dtype=np.int64))
            found, z = bool(answer.found[0]), answer.counterfactuals
            # A value that could have been recorded, if that is accepted, too.
            recorded = batch.required.on_grid(z, np.sign(z - self.sample)) if found else z
            if found and batch.option.judged(recorded, self.theta)[1][0]:
                z = recorded
            column = self.columns.columns[k]
            taken = self.before[k] if column.levels is not None else column.fill
            row = {"feature": self.feature_names[k], "taken_as": taken}
            row["accepted_at"] = self.columns.values(z[0])[k] if found else None
            row["accepted_as"] = answer.labels[0] if found else None
            rows.append(row | {"holds": not found and bool(np.isinf(answer.lower_bounds[0]))})
        names = ["feature", "taken_as", "accepted_at", "accepted_as", "holds"]
        return pd.DataFrame(rows, columns=names, dtype=object)

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """Lowest and highest values that bounds, fixed features and directions allow, each of shape (d,)."""
        lower, upper = self.batch.required.box(self.sample[None])
        return lower[0], upper[0]

    @cached_property
    def active(self) -> tuple[str, ...]:
        """The constraints that hold the counterfactual where it is, in words."""
        x, (lower, upper), cell = self.counterfactual, self.box, int(self.batch.cells[self.row])
        words = [] if cell < 0 else list(self.batch.accepted.active(cell, x))
        if len(self.batch.required.b):
            words = [word for word in words if word != "a half-space"] + self.batch.required.tight(x)
        columns = self.columns
        for k in np.flatnonzero(columns.numbers & (x != self.sample) & ((x == lower) | (x == upper))):
            name = self.feature_names[columns.owner[k]]
            words.append(f"{name} at its {'lower' if x[k] == lower[k] else 'upper'} bound")
        return tuple(words)

    @cached_property
    def cause(self) -> Cause | None:
        """Why the sample is rejected, if a `RejectOptionClassifier` explains it."""
        if self.batch.familiarity is None:
            return None
        verdicts = Verdicts._make(part[self.row : self.row + 1] for part in self.batch.verdicts)
        accepted = verdicts.certainty >= self.theta
        return self.batch.familiarity.causes(self.batch.option, verdicts, accepted)[0]

    def holds(self, point: Floats) -> bool:
        """Return whether another input is accepted as the same class and meets the same requirements."""
        (lower, upper), option = self.box, self.batch.option
        if not ((lower <= point) & (point <= upper)).all():
            return False
        if not self.batch.required.linear(point[None], self.sample[None])[0]:
            return False
        verdicts, accepted = option.judged(point[None], self.theta)
        return bool(accepted[0]) and option.classes[verdicts.label[0]] == self.label

    def to_frame(self) -> Any:
        """Return one row per changed feature: feature, before, after, change (NaN for levels), cost."""
        import pandas as pd

        k, change = self.changed, self.columns.changes(self.sample, self.counterfactual)
        return pd.DataFrame(
            {
                "feature": [self.feature_names[i] for i in k],
                "before": [self.before[i] for i in k],
                "after": [self.after[i] for i in k],
                "change": change[k],
                "cost": self.costs[k],
            }
        )

    def ranges(self) -> Any:
        """Return how far each feature may move with nothing gained, all others unchanged.

        Returns
        -------
        DataFrame
            One row per feature: feature, value, low and high, strictly between which the sample stays
            rejected, proven; low_open and high_open, whether that end is one of the bounds of `explain`
            (widened to the sample) and nothing is accepted up to there; low_class and high_class, what the
            sample is accepted as beyond that end, None if the end is open.

        Examples
        --------
        >>> from lvqrej import PrototypeModel, RelativeSimilarity, explain
        >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
        >>> explain(option, 0.6, [0.9, 0.0]).ranges()[["low", "high", "high_open", "high_class"]].round(4)
              low    high  high_open high_class
        0  0.6667  1.3333      False          b
        1    -inf     inf       True       None
        """
        return self.batch.ranges(self.row)

    def sufficient_reason(self, effort: int = holding.EFFORT, k: int = 1) -> holding.Reason:
        """Return a smallest set of features whose values alone keep the sample rejected.

        See `lvqrej.reasons.sufficient_reason`; the bounds are those of this explanation.
        """
        tries = int(check_number(effort, "effort", low=0, integer=True))
        wanted = int(check_number(k, "k", low=1, integer=True))
        return holding.sufficient(self.batch, self.row, tries, wanted)

    def to_json(self, indent: int | None = None) -> str:
        """Return everything as a JSON object, in full precision; see `lvqrej.wording.record`."""
        return wording.to_json(self, indent)

    def plot(self, units: Any = None, most: int = 12, kind: str = "change") -> Any:
        """Return a matplotlib figure: the certainty and what has to change; see `lvqrej.chart`.

        With kind "both" it shows also what keeps the sample rejected.
        """
        from lvqrej.chart import both_chart, change_chart

        draw = both_chart if check_choice(kind, "kind", ("change", "both")) == "both" else change_chart
        return draw(self, units, most)

    def __str__(self) -> str:
        return wording.sentence(self)

    def __repr__(self) -> str:
        return f"<Explanation: {self}>"

    def _repr_html_(self) -> str:
        return wording.to_html(self)


class _Reasons(Mapping[int, str]):
    """Reasons by row, each found out when it is asked for."""

    def __init__(self, rows: list[int], reason: Callable[[int], str]) -> None:
        self._reason, self._known = reason, dict.fromkeys(rows, "")

    def __getitem__(self, row: int) -> str:
        self._known[row] = self._known[row] or self._reason(row)
        return self._known[row]

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
