"""What `lvqrej.variants` takes and returns: explain's options, and explanations that say what they prove."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej._validation import (
    check_choice,
    check_number,
    check_samples,
    describe,
    dimensions,
    feature_names_of,
)
from lvqrej.certainty import Certainty, check_theta
from lvqrej.counterfactual import check_rejects, workers
from lvqrej.engine.requirements import Requirements, check_requirements, feature_index
from lvqrej.explanation import Explanation, Explanations, NoCounterfactualError
from lvqrej.telling.presentation import NO_GAP
from lvqrej.telling.rounding import percent_up
from lvqrej.varying.reach import Answer, Reach

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class VariantExplanation(Explanation):
    """An `Explanation` whose bounds hold among answers of a certain kind.

    Attributes
    ----------
    scope : str
        The kind, in words: `distance` is the smallest among changes of this kind, up to `gap`.
    fewest : int or None
        At least so many features have to change, proven (`sparsest`, `trade_off`).
    worst_certainty : float or None
        The smallest certainty that errors leave (`robust`).
    """

    scope: str = ""
    fewest: int | None = None
    worst_certainty: float | None = None

    def proof(self) -> str:
        """Say what is proven about this answer."""
        if self.gap <= NO_GAP:
            text = f"no smaller change{self.scope} suffices"
        else:
            text = f"a change{self.scope} at most {percent_up(self.gap)} smaller might suffice"
        if self.fewest is not None and 1 < self.fewest == len(self.changed):
            text += ", and none of fewer features at all"
        return text


@dataclass(frozen=True, eq=False)
class VariantExplanations(Explanations):
    """`Explanations` whose bounds hold among answers of a certain kind; see `VariantExplanation`.

    Attributes
    ----------
    scopes : list of str
    fewest : ndarray of int of shape (n,), or None
    worst_certainties : ndarray of shape (n,), or None
    """

    scopes: list[str] = field(default_factory=list)
    fewest: NDArray[np.int64] | None = None
    worst_certainties: Floats | None = None

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many features each answer changes, of shape (n,)."""
        return (self.found[:, None] & (self.counterfactuals != self.samples)).sum(axis=1)

    def __getitem__(self, index: Any) -> Any:
        one = super().__getitem__(index)
        if isinstance(index, slice):
            return one
        parts = {item.name: getattr(one, item.name) for item in fields(Explanation)}
        return VariantExplanation(
            **parts,
            scope=self.scopes[index],
            fewest=None if self.fewest is None else int(self.fewest[index]),
            worst_certainty=None if self.worst_certainties is None else float(self.worst_certainties[index]),
        )

    def to_frame(self) -> Any:
        """Return one row per answer, as `Explanations` do, with what else is known of it."""
        frame = super().to_frame()
        frame.insert(7, "changed", self.counts)
        if self.fewest is not None:
            frame.insert(8, "fewest", self.fewest)
        if self.worst_certainties is not None:
            frame.insert(8, "worst_certainty", self.worst_certainties)
        return frame


@dataclass(frozen=True, eq=False)
class Asked:
    """A call's arguments, checked as `explain` checks them."""

    option: Certainty
    theta: float
    samples: Floats
    single: bool
    required: Requirements
    on_infeasible: str
    jobs: int | None
    progress: bool

    @staticmethod
    def of(
        option: Certainty,
        theta: float,
        X: ArrayLike,
        *,
        on_infeasible: str = "raise",
        n_jobs: int | None = None,
        progress: bool = False,
        **requirements: Any,
    ) -> Asked:
        """Check the arguments, those of `explain`."""
        samples, single = check_rejects(option, X)
        names = feature_names_of(X) or option.feature_names
        required = check_requirements(option.n_features, names, option.classes, **requirements)
        check_choice(on_infeasible, "on_infeasible", ("raise", "skip"))
        jobs = 1 if workers(n_jobs) == 1 else n_jobs
        return Asked(option, check_theta(theta), samples, single, required, on_infeasible, jobs, progress)

    def one(self) -> Reach:
        """Return what can be reached from the sample, of which there has to be one only."""
        if len(self.samples) != 1:
            raise ValueError(f"X must be one sample, of shape (d,); found {len(self.samples)}")
        return Reach(self.option, self.theta, self.required, self.samples[0])

    def each(self, solve: Callable[[Reach], Answer]) -> list[Answer]:
        """Answer every sample, in this process or in several."""
        reaches = (Reach(self.option, self.theta, self.required, x) for x in self.samples)
        if self.jobs == 1:
            answers: Any = map(solve, reaches)
        else:
            from joblib import Parallel, delayed

            answers = Parallel(n_jobs=self.jobs, return_as="generator")(map(delayed(solve), reaches))
        if self.progress:
            from tqdm.auto import tqdm

            answers = tqdm(answers, total=len(self.samples), unit="sample")
        return list(answers)

    def result(
        self,
        answers: Sequence[Answer],
        scopes: list[str],
        reason: Callable[[Reach, Answer], str],
        *,
        sparse: bool = False,
        errors: bool = False,
    ) -> Any:
        """Return the answers as explanations; raise, or keep, the reasons of those that are none."""
        n, d = len(answers), self.option.n_features
        samples = self.samples if len(self.samples) == n else np.repeat(self.samples, n, axis=0)
        found = np.array([answer.point is not None for answer in answers], dtype=bool)
        reasons = {}
        for i in np.flatnonzero(~found).tolist():
            who = "" if self.single else f"sample {i}: "
            reach = Reach(self.option, self.theta, self.required, samples[i])
            reasons[i] = who + reason(reach, answers[i])
            if self.on_infeasible == "raise":
                raise NoCounterfactualError(reasons[i])
        points = np.array([np.full(d, np.nan) if a.point is None else a.point for a in answers]).reshape(n, d)
        final = np.where(found[:, None], points, samples)
        known = n > 0
        return VariantExplanations(
            samples=samples,
            counterfactuals=points,
            distances=np.array([answer.distance for answer in answers]),
            lower_bounds=np.array([a.bound if a.point is not None else np.inf for a in answers]),
            certainties_before=self.option.certainty(samples) if known else np.empty(0),
            certainties=self.option.certainty(final) if known else np.empty(0),
            labels=self.option.predict(final) if known else self.option.classes[:0],
            found=found,
            reasons=reasons,
            paths=[answer.path for answer in answers],
            theta=self.theta,
            feature_names=self.required.names,
            certainty_name=self.option.name,
            _cells=np.array([answer.cell for answer in answers], dtype=np.int64),
            _union=Reach(self.option, self.theta, self.required, np.zeros(d)).union,
            _option=self.option,
            _required=self.required,
            scopes=scopes,
            fewest=np.array([answer.fewest for answer in answers], dtype=np.int64) if sparse else None,
            worst_certainties=np.array([answer.worst for answer in answers]) if errors else None,
        )


def amounts(value: Any, name: str, names: list[str]) -> Floats:
    """Return an amount for each feature, of shape (d,), from a number, an array or a mapping.

    >>> amounts({"age": 2}, "error", ["age", "bmi"])
    array([2., 0.])
    """
    d = len(names)
    if value is None:
        return np.zeros(d)
    if isinstance(value, Mapping):
        given = np.zeros(d)
        for feature, amount in value.items():
            given[feature_index(feature, name, names)] = check_number(amount, f"{name}[{feature!r}]", low=0)
    elif dimensions(value) == 0:
        given = np.full(d, check_number(value, name, low=0))
    else:
        if dimensions(value) != 1 or len(value) != d:
            raise ValueError(
                f"{name} must be a number, a mapping or have shape ({d},); found {describe(value)}"
            )
        given = check_samples(np.asarray(value)[None], d, name=name)[0]
    if not np.isfinite(given).all() or (given < 0).any():
        raise ValueError(f"{name} must be finite and at least 0; found {given.tolist()}")
    return given
