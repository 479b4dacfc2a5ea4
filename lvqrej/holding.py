"""What holds a reject in place: the features whose values alone force it, whatever the rest is.

A set S of features is a *sufficient reason* if no input that agrees with the sample on S, and lies in the
box D of inputs that may occur, is accepted. So S suffices if and only if it meets the changed features of
every counterfactual in D, and a smallest reason is a smallest set that hits all of these supports. As many of
them are collected as it takes: the smallest set that hits those known so far (HiGHS) either suffices, or it
is refuted by a counterfactual that changes none of its features, whose support is one more to hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej import wording

Mask = NDArray[np.bool_]

#: As many sets of features are asked about, beyond those that the fast minimal reason takes.
EFFORT = 300
#: After so many sets that are neither refuted nor proven the search ends.
_DOUBTS = 8
#: Up to so many pairs of features are asked about at once, unless each is a search that takes long.
_PAIRS = 500


@dataclass(frozen=True, eq=False, repr=False)
class Reason:
    """Features whose values alone keep a sample rejected, and what would have it accepted: both halves.

    Attributes
    ----------
    indices : list of int
        Whatever the features but these are within the bounds, the sample stays rejected; none of these can
        be left out.
    proven : bool
        Whether that is proven. Otherwise it is not refuted: no accepted input was found, which is no proof.
    fewest : int
        No set of fewer features suffices, proven: it is a smallest one if it has as many.
    supports : list of lists of str
        Features with which counterfactuals exist, each set minimal as far as is known. A reason has to meet
        them all, which is why there is none of less than `fewest` features.
    not_refuted : list of str or None
        Fewer features that might suffice: neither an accepted input was found nor a proof that there is none.
    others : list of Reason
        Further reasons, the smallest first, if they were asked for.
    complete : bool
        Whether there are no other minimal reasons.
    batch, row
        The `Explanations` and the row of the sample.
    """

    indices: list[int]
    proven: bool
    fewest: int
    supports: list[list[str]]
    not_refuted: list[str] | None
    others: list[Reason]
    complete: bool
    batch: Any
    row: int

    @property
    def features(self) -> list[str]:
        """Names of the features that suffice."""
        return [self.batch.feature_names[k] for k in self.indices]

    @property
    def smallest(self) -> bool:
        """Whether it is proven that the features suffice, and that no fewer do."""
        return self.proven and len(self.indices) == self.fewest

    @property
    def why(self) -> Any:
        """The other half, the nearest counterfactual; None if there is none."""
        return self.batch[self.row] if self.batch.found[self.row] else None

    def to_frame(self) -> Any:
        """Return both halves: one row per feature that keeps the sample rejected or would have to change.

        Columns: feature, value, keeps (whether it is part of the reason), low and high (the range in which
        the sample stays rejected with all else unchanged), after (its value in the counterfactual).
        """
        table = self.batch.ranges(self.row)
        after = self.batch.after(self.row) if self.why else self.batch.before(self.row)
        table = table.assign(keeps=table.index.isin(self.indices), after=after)
        shown = table["keeps"] | (self.batch.changed[self.row] & (self.why is not None))
        columns = ["feature", "value", "keeps", "low", "high", *table.columns[8:-2], "after"]
        return table.loc[shown, columns].reset_index(drop=True)

    def __str__(self) -> str:
        return wording.both_halves(self)

    def __repr__(self) -> str:
        return f"<Reason: {self}>"


def sufficient(batch: Any, row: int, effort: int, k: int) -> Reason:
    """Return a smallest sufficient reason of a row of `Explanations`, with up to k - 1 further ones."""
    names, search = batch.feature_names, _Search(batch, row, effort)
    found = [search.first()]
    while len(found) < k and (mask := search.further([reason for reason, _ in found])) is not None:
        found.append((mask, True))

    def named(mask: Mask) -> list[str]:
        return [names[i] for i in np.flatnonzero(mask)]

    fewest = smallest_hitting_set(np.array(search.supports).reshape(-1, len(names)))
    assert fewest is not None  # all features together hit everything
    doubtful = min(search.doubtful, key=np.sum, default=np.ones(len(names), dtype=bool))
    reasons = [
        Reason(
            indices=np.flatnonzero(mask).tolist(),
            proven=proven,
            fewest=int(fewest.sum()),
            supports=[named(support) for support in search.supports],
            not_refuted=named(doubtful) if doubtful.sum() < mask.sum() else None,
            others=[],
            complete=search.exhausted and not search.doubtful,
            batch=batch,
            row=row,
        )
        for mask, proven in found
    ]
    return replace(reasons[0], others=reasons[1:])


class _Search:
    """Supports of counterfactuals that are known so far, and sets that are neither refuted nor proven."""

    def __init__(self, batch: Any, row: int, effort: int) -> None:
        self.batch, self.row, self.d, self.effort = batch, row, len(batch.feature_names), 0
        self.doubtful: list[Mask] = []
        self.exhausted = False
        alone = np.eye(self.d, dtype=bool)
        refuted, _, _ = self.asked(np.vstack([np.ones(self.d, dtype=bool), ~alone]))
        if refuted[0]:
            raise ValueError(f"X must be rejected to have a reason; sample {row} is accepted")
        self.supports, self.known = list(alone[refuted[1:]]), 1  # all supports of so many features
        if batch.accepted.gap == 0 and 0 < comb(self.d - len(self.supports), 2) <= _PAIRS:
            two = np.array([one | other for one, other in combinations(alone[~refuted[1:]], 2)])
            self.supports, self.known = [*self.supports, *two[self.asked(~two)[0]]], 2
        self.effort = effort

    def asked(self, kept: Mask) -> tuple[Mask, Mask, Mask]:
        """Return whether sets of kept features (n, d) are refuted, whether they suffice, and what refutes.

        A set that is neither is not refuted, which is no proof. All features together suffice, as the sample
        is rejected.
        """
        self.effort -= len(kept)
        answers = self.batch.completions(self.row, ~kept, np.zeros(len(kept), dtype=np.int64))
        refuted = np.asarray(answers.found)
        proven = ~refuted & (np.isinf(answers.lower_bounds) | kept.all(axis=1))
        differs = answers.counterfactuals != self.batch.samples[self.row]
        return refuted, proven, refuted[:, None] & self.batch.required.columns.gathered(differs)

    def first(self) -> tuple[Mask, bool]:
        """Return a smallest reason, or what the effort allows, and whether it is proven to suffice."""
        effort, everything = self.effort, np.ones(self.d, dtype=bool)
        start, proven = self._grown(np.zeros(self.d, dtype=bool))
        best = self._minimal(start if proven else everything)
        self.effort = effort
        smaller = self.further([], int(best.sum()))
        if smaller is not None:
            return smaller, True
        self.doubtful = self.doubtful or ([] if proven else [start])
        if best.all() and self.doubtful:  # all features together are no reason
            return min(self.doubtful, key=np.sum), False
        return best, True

    def further(self, known: Sequence[Mask], below: float = np.inf) -> Mask | None:
        """Return a smallest reason of less than `below` features without a known one in it.

        It is None if there is none or the effort ends.
        """
        while self.effort > 0 and len(self.doubtful) < _DOUBTS:
            rows = [*self.supports, *(~doubtful for doubtful in self.doubtful)]
            chosen = smallest_hitting_set(np.array(rows).reshape(-1, self.d), never=known)
            if chosen is None or chosen.sum() >= below:
                self.exhausted = chosen is None
                break
            end, proven = self._grown(chosen)
            if (end == chosen).all() and proven:
                return chosen
            if (end == chosen).all():
                self.doubtful.append(chosen)
        return None

    def _grown(self, chosen: Mask) -> tuple[Mask, bool]:
        """Add the support of what refutes a set, until nothing does; return it and whether that is proven."""
        while True:
            refuted, proven, changed = self.asked(chosen[None])
            if not refuted[0]:
                return chosen, bool(proven[0])
            chosen = chosen | self._shrunk(changed[0])

    def _shrunk(self, support: Mask) -> Mask:
        """Leave out features of a support as long as the rest can do it; note and return it."""
        while support.sum() > self.known + 1:
            fewer = support & ~np.eye(self.d, dtype=bool)[support]
            refuted, _, changed = self.asked(~fewer)
            if not refuted.any():
                break
            support = changed[refuted][changed[refuted].sum(axis=1).argmin()]
        if not any((support == known).all() for known in self.supports):
            self.supports.append(support)
        return support

    def _minimal(self, kept: Mask) -> Mask:
        """Leave out features of a reason, one at a time, as long as the rest is proven to suffice."""
        often = np.sum(self.supports, axis=0) if self.supports else np.zeros(self.d)
        for k in np.argsort(often, kind="stable"):
            fewer = kept & (np.arange(self.d) != k)
            hits = all((support & fewer).any() for support in self.supports)
            if not kept[k] or not hits:
                continue
            (refuted,), (proven,), (changed,) = self.asked(fewer[None])
            if refuted:
                self._shrunk(changed)
            kept = fewer if proven else kept
        return kept


def smallest_hitting_set(
    rows: Mask, inside: Mask | None = None, outside: Mask | None = None, never: Sequence[Mask] = ()
) -> Mask | None:
    """Return a smallest set (d,) that meets every row (n, d), by HiGHS; None if there is none.

    It has all of `inside`, nothing of `outside`, and not all of any set of `never`.

    >>> rows = np.array([[True, True, False], [False, True, True]])
    >>> smallest_hitting_set(rows).tolist(), smallest_hitting_set(rows, never=[rows[0] & rows[1]]).tolist()
    ([False, True, False], [True, False, True])
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    d = rows.shape[1]
    low = np.zeros(d) if inside is None else inside.astype(float)
    high = np.ones(d) if outside is None else np.maximum(low, ~outside)
    constraints = [LinearConstraint(rows.astype(float), lb=1.0)] if len(rows) else []
    if len(never):
        constraints.append(LinearConstraint(np.array(never, dtype=float), ub=np.sum(never, axis=1) - 1.0))
    result = milp(np.ones(d), constraints=constraints, integrality=np.ones(d), bounds=Bounds(low, high))
    return None if result.x is None else result.x > 0.5


def ranges(batch: Any, row: int) -> Any:
    """Return how far each feature may move alone with nothing gained, as a data frame; see `Explanation`."""
    import pandas as pd

    columns, names, weights = batch.required.columns, batch.feature_names, batch.required.weights
    numbers = np.array([column.levels is None for column in columns.columns])
    at = np.array(columns.starts[:-1])[numbers]
    alone = np.repeat(np.eye(len(names), dtype=bool)[numbers], 2, axis=0)
    ways = np.tile([-1, 1], len(at))
    answers = batch.completions(row, alone, ways)
    if batch.completions(row, np.zeros((1, len(names)), dtype=bool), np.zeros(1, dtype=np.int64)).found[0]:
        raise ValueError(f"X must be rejected to have ranges of rejection; sample {row} is accepted")
    lower, upper = (end[at] for end in batch.required.widened(batch.samples[row]))
    never = ~answers.found & np.isinf(answers.lower_bounds)
    reach = batch.samples[row][at].repeat(2) + ways * answers.lower_bounds / weights[at].repeat(2)
    ends = np.where(never, np.stack([lower, upper], axis=1).ravel(), reach)
    labels = [label if found else None for label, found in zip(answers.labels, answers.found, strict=True)]
    table = pd.DataFrame({"feature": names, "value": batch.before(row)})
    for side, name in enumerate(("low", "high")):
        table[name] = np.nan
        table.loc[numbers, name] = ends[side::2]
    for side, name in enumerate(("low_open", "high_open")):
        table[name] = False
        table.loc[numbers, name] = never[side::2]
    for side, name in enumerate(("low_class", "high_class")):
        known = dict(zip(np.flatnonzero(numbers).tolist(), labels[side::2], strict=True))
        table[name] = pd.Series([known.get(k) for k in range(len(names))], dtype=object)
    if not numbers.all():
        table["accepted_levels"] = [_accepted_levels(batch, row, k) for k in range(len(names))]
    return table


def _accepted_levels(batch: Any, row: int, k: int) -> dict[Any, Any] | None:
    """Return the levels with which alone a sample is accepted, and as what; None for numbers."""
    columns = batch.required.columns
    named = [(g, group[0]) for g, group in enumerate(columns.columns[k].levels or ()) if group]
    named = [(g, level) for g, level in named if level is not None]
    if not named:
        return None
    X = np.repeat(batch.samples[row][None], len(named), axis=0)
    X[:, columns.at(k)] = np.eye(columns.columns[k].width)[[g for g, _ in named]]
    verdicts, accepted = batch.option.judged(X, batch.theta)
    labels = batch.option.classes[verdicts.label]
    return {level: labels[i] for i, (_, level) in enumerate(named) if accepted[i]}
