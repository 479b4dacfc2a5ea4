"""Counterfactual explanations of rejects: the nearest accepted input, with a certificate.

`explain` knows nothing of any particular reject option. It asks the option for its accepted set, finds the
nearest point of it, and lets the option itself test every answer, without tolerance. The nearest point lies
on the boundary, where a hair decides: the search aims inside by what rounding can add up to, and what still
fails the test is aimed further inside. The lower bound is that of the set as it is, so the gap hides
nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.cells import ACCEPTED, NONE, START, AcceptedSet, Floats, Ints
from lvqrej.certainty import Certainty, Verdicts, check_theta
from lvqrej.explanation import Explanation, Explanations, NoCounterfactualError
from lvqrej.requirements import Requirements, check_requirements, mad_weights
from lvqrej.validation import (
    check_choice,
    check_names,
    check_number,
    check_samples,
    describe,
    dimensions,
    feature_names_of,
)

__all__ = [
    "Explanation",
    "Explanations",
    "NoCounterfactualError",
    "explain",
    "explain_per_class",
    "mad_weights",
]

#: How far inside to aim, try after try, relative to the sizes of a constraint's terms.
LADDER = tuple(32 * float(np.finfo(float).eps) * step for step in (1, 32, 2**10, 2**15))
#: Samples and numbers per chunk: so many that handing one out costs nothing, so few that memory stays flat.
_CHUNK, _NUMBERS = 4096, 2**20
#: Where a sample takes milliseconds or more: chunks per worker, so that no worker waits long for another.
_PER_WORKER = 4
#: The relative gap above which prototypes are tried as answers, too.
_GAP = 1e-6
#: As many features a reason names.
_NAMED = 6


def explain(
    option: Certainty,
    theta: float,
    X: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    fixed: Any = (),
    bounds: Any = None,
    increase_only: Any = (),
    decrease_only: Any = (),
    constraints: Any = None,
    target: Any = None,
    on_infeasible: str = "raise",
    n_jobs: int | None = None,
    progress: bool = False,
) -> Any:
    """Explain rejects: the nearest accepted inputs, min sum_k w_k |delta_k| s.t. r(x + delta) >= theta.

    Parameters
    ----------
    option : Certainty
    theta : float
        The threshold of acceptance.
    X : array-like of shape (n, d) or (d,)
        One sample gives one `Explanation`. A sample that is accepted already is its own counterfactual.
    weights : array-like of shape (d,), optional
        Positive costs of a unit change (see `mad_weights`); 1 if None.
    fixed : list of features
        Features that may not change, by index or name.
    increase_only : list of features
        Features that may not decrease.
    decrease_only : list of features
        Features that may not increase.
    bounds : mapping of feature to (low, high), optional
        Where the counterfactual has to lie; None for no bound. A sample outside is moved inside, at its cost.
    constraints : (A, b), optional
        Linear constraints A x <= b of the counterfactual, with shapes (c, d) and (c,). An equality is a row
        together with its negative; it holds to 1e-9 of the size of its terms.
    target : label, optional
        The class to be accepted as; any if None.
    on_infeasible : {"raise", "skip"}
        Whether a sample without a counterfactual raises `NoCounterfactualError` or is marked in `found`, its
        reason in `reasons`.
    n_jobs : int, optional
        Number of parallel jobs, as in joblib: None leaves it to `joblib.parallel_config`, and is 1 outside of
        one; -1 is all processors. The results do not depend on it.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Explanations, or Explanation for a single sample

    Examples
    --------
    >>> from lvqrej.certainty import RelativeSimilarity
    >>> from lvqrej.prototypes import PrototypeModel
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> why = explain(option, 0.6, [0.9, 0.0])
    >>> why.counterfactual.round(6), round(why.distance, 6), str(why.label)
    (array([0.666667, 0.      ]), 0.233333, 'a')
    >>> explain(option, 0.6, [[0.9, 0.0]], target="b").distances.round(6)
    array([0.433333])
    """
    query = Query.of(
        option, theta, X, on_infeasible=on_infeasible, n_jobs=n_jobs, progress=progress, weights=weights,
        fixed=fixed, bounds=bounds, increase_only=increase_only, decrease_only=decrease_only,
        constraints=constraints, target=target,
    )  # fmt: skip
    samples, n = query.samples, len(query.samples)
    accepted = query.accepted_set()
    size = max(1, min(_CHUNK, _NUMBERS // option.n_features))
    if n > 1 and (accepted.gap > 0 or len(query.required.b)):  # then each takes milliseconds
        size = min(size, -(-n // (_PER_WORKER * workers(n_jobs))))
    tasks = [
        (option, query.theta, accepted, query.required, samples[i : i + size])
        for i in range(0, max(n, 1), size)
    ]
    result = query.result(joined(query.each(valid_answers, tasks, "chunk"), n), accepted)
    return result[0] if query.single else result


def explain_per_class(option: Certainty, theta: float, X: ArrayLike, **options: Any) -> dict[Any, Any]:
    """Explain each sample once per class: what it would cost to be accepted as this one.

    Takes the options of `explain` but `target` and `on_infeasible`: a class that cannot be reached is marked
    in `found` (for one sample (d,): is None).

    Returns
    -------
    dict of label to Explanations (or Explanation for a single sample)

    Examples
    --------
    >>> from lvqrej.certainty import RelativeSimilarity
    >>> from lvqrej.prototypes import PrototypeModel
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> answers = explain_per_class(option, 0.6, [0.9, 0.0])
    >>> {label: round(why.distance, 6) for label, why in answers.items()}
    {'a': 0.233333, 'b': 0.433333}
    """
    for name in ("target", "on_infeasible"):
        if name in options:
            raise ValueError(
                f"{name} cannot be given: every class is a target, and what is infeasible is marked"
            )
    samples, single = check_rejects(option, X)
    rows: Any = X if not single else samples
    result = {}
    for label in option.classes.tolist():
        why = explain(option, theta, rows, target=label, on_infeasible="skip", **options)
        result[label] = why if not single else (why[0] if why.found[0] else None)
    return result


class Answers(NamedTuple):
    """Valid counterfactuals of a batch, as arrays over its samples."""

    points: Floats  # (n, d)
    distances: Floats
    bounds: Floats  # certified; infinity with found = False: proven that there is none
    certainties: Floats
    labels: NDArray[Any]
    found: NDArray[np.bool_]
    cells: Ints
    paths: Ints
    verdicts: Verdicts  # of the samples

    def row(self, i: int) -> Answers:
        """Return the answers with row i alone."""
        verdicts = Verdicts._make(part[i : i + 1] for part in self.verdicts)
        return Answers._make([*(part[i : i + 1] for part in self[:-1]), verdicts])


class Query(NamedTuple):
    """What `explain` and its variants are asked, checked."""

    option: Certainty
    theta: float
    samples: Floats
    required: Requirements
    single: bool
    index: Any
    skip: bool
    n_jobs: int | None
    progress: bool

    @staticmethod
    def of(
        option: Certainty,
        theta: float,
        X: Any,
        *,
        on_infeasible: str = "raise",
        n_jobs: Any = None,
        progress: bool = False,
        **required: Any,
    ) -> Query:
        """Check the arguments of `explain`."""
        samples, single = check_rejects(option, X)
        names = feature_names_of(X) or option.feature_names
        checked = check_requirements(option.n_features, names, option.classes, **required)
        skip = check_choice(on_infeasible, "on_infeasible", ("raise", "skip")) == "skip"
        check_jobs(n_jobs)
        index = getattr(X, "index", None) if hasattr(X, "iloc") and not single else None
        return Query(option, check_theta(theta), samples, checked, single, index, skip, n_jobs, progress)

    def accepted_set(self) -> AcceptedSet:
        """Return what the option accepts, narrowed to the target class and cut by the linear constraints."""
        return accepted_set(self.option, self.theta, self.required, self.samples)

    def each(self, solve: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], unit: str) -> Iterable[Any]:
        """Return solve(*task) of each task, one after the other, in this process or in several."""
        if len(tasks) <= 1 or workers(self.n_jobs) == 1:
            results: Any = (solve(*task) for task in tasks)
        else:
            from joblib import Parallel, delayed

            # One tuple of arguments, which joblib hands to a Dask cluster with the call; arrays it would
            # leave with one worker, and lose with it.
            calls = (delayed(_call)((solve, *task)) for task in tasks)
            results = Parallel(n_jobs=self.n_jobs, return_as="generator")(calls)
        if self.progress:
            from tqdm.auto import tqdm

            return tqdm(results, total=len(tasks), desc="explain", unit=unit)
        return results

    def result(
        self, answers: Answers, accepted: AcceptedSet, reason: Any = None, **fields: Any
    ) -> Explanations:
        """Return the answers; raise the reason of the first that is none, unless such are to be skipped.

        `reason` is called with the sample and whether it is proven that there is no answer, if it is not that
        of `explain`.
        """
        samples, index = self.samples, self.index
        if len(samples) != len(answers.found):  # several answers to one sample
            samples, index = np.repeat(samples, len(answers.found), axis=0), None
        asked = partial(
            _reason, reason or partial(reason_of, self.option, self.theta, self.required), samples,
            answers.bounds, self.single,
        )  # fmt: skip
        missing = np.flatnonzero(~answers.found)
        if len(missing) and not self.skip:
            raise NoCounterfactualError(asked(int(missing[0])))
        return Explanations(
            samples=samples.copy(),  # they may be the caller's, who goes on with them
            counterfactuals=answers.points,
            distances=answers.distances,
            lower_bounds=answers.bounds,
            certainties=answers.certainties,
            labels=answers.labels,
            found=answers.found,
            verdicts=answers.verdicts,
            cells=answers.cells,
            path_codes=answers.paths,
            option=self.option,
            theta=self.theta,
            required=self.required,
            accepted=accepted,
            reason=asked,
            index=index,
            **fields,
        )


def _call(task: tuple[Any, ...]) -> Any:
    return task[0](*task[1:])


def accepted_set(option: Certainty, theta: float, required: Requirements, X: Floats) -> AcceptedSet:
    """Return what the option accepts, narrowed to the target class and cut by the linear constraints."""
    accepted = option.cells(theta)
    if required.target is not None:
        accepted = accepted.with_label(required.target)
    return accepted.narrowed(required.half_spaces(X)) if len(required.b) else accepted


def check_rejects(option: Certainty, X: ArrayLike) -> tuple[Floats, bool]:
    """Return the samples to explain as an array (n, d), and whether X is a single one."""
    if not isinstance(option, Certainty):
        raise ValueError(f"option must be a certainty such as RelativeSimilarity; found {describe(option)}")
    check_names(X, option.feature_names)
    single = dimensions(X) == 1
    rows = np.asarray(X)[None] if single else X
    return check_samples(rows, option.n_features, allow_empty=True), single


def check_jobs(n_jobs: Any) -> None:
    """Raise a ValueError unless `n_jobs` is None or a number of jobs as in joblib."""
    if n_jobs is not None and int(check_number(n_jobs, "n_jobs", integer=True)) == 0:
        raise ValueError("n_jobs must be a number of jobs, or -1 for all processors; found 0")


def workers(n_jobs: int | None) -> int:
    """Return how many jobs can run at once under the joblib backend in force."""
    from joblib import effective_n_jobs

    return effective_n_jobs(n_jobs)


def joined(parts: Iterable[Answers], n: int) -> Answers:
    """Return the answers of all chunks as one; each is copied as it comes, so that no two are kept."""
    columns: list[NDArray[Any]] = []
    done = 0
    for part in parts:
        arrays = [*part[:-1], *part.verdicts]
        if len(part.found) == n:
            return part
        columns = columns or [np.empty((n, *array.shape[1:]), array.dtype) for array in arrays]
        for whole, array in zip(columns, arrays, strict=True):
            whole[done : done + len(array)] = array
        done += len(part.found)
    fields = Answers._fields[:-1]
    of_samples = Verdicts(*columns[len(fields) :])
    return Answers(verdicts=of_samples, **dict(zip(fields, columns[: len(fields)], strict=True)))


def valid_answers(
    option: Certainty, theta: float, accepted: AcceptedSet, required: Requirements, X: Floats
) -> Answers:
    """Return the nearest counterfactuals of the rows of X that pass the option's own test."""
    n, d = X.shape
    lower, upper = required.box(X)
    start = np.clip(X, lower, upper)
    verdicts, labels, own = judged(option, theta, required, X, X)
    state = Answers(
        np.full((n, d), np.nan), np.full(n, np.inf), np.zeros(n), verdicts.certainty.copy(), labels,
        np.zeros(n, dtype=bool), np.full(n, -1), np.full(n, NONE), verdicts,
    )  # fmt: skip
    possible = (lower <= upper).all(axis=1)
    state.bounds[~possible] = np.inf
    own &= possible & (start == X).all(axis=1)
    state.points[own], state.distances[own] = X[own], 0.0
    state.found[own], state.paths[own] = True, ACCEPTED

    def keep(rows: Ints, points: Floats, cells: Ints, paths: Ints) -> NDArray[np.bool_]:
        """Keep the points that are valid and nearer than what is known; return which were kept."""
        judgement, names, valid = judged(option, theta, required, points, X[rows])
        distances = (np.abs(points - X[rows]) * required.weights).sum(axis=1)
        kept = valid & (distances < state.distances[rows])
        at = rows[kept]
        state.points[at], state.distances[at], state.found[at] = points[kept], distances[kept], True
        state.cells[at], state.paths[at] = cells[kept], paths[kept]
        state.certainties[at], state.labels[at] = judgement.certainty[kept], names[kept]
        state.bounds[at] = np.minimum(state.bounds[at], state.distances[at])
        return kept

    pending = np.flatnonzero(possible & ~own)
    for margin in LADDER:
        if len(pending) == 0:
            break
        begin, low, high = start[pending], lower[pending], upper[pending]
        nearest = accepted.nearest(begin, required.weights, low, high, margin)
        moved = (np.abs(begin - X[pending]) * required.weights).sum(axis=1)
        state.bounds[pending] = np.maximum(state.bounds[pending], moved + nearest.bounds)
        there = nearest.distances < np.inf
        pending = pending[there]
        points = np.clip(begin + nearest.changes, low, high)[there]
        pending = pending[~keep(pending, points, nearest.cells[there], nearest.paths[there])]
    # Where cells have shrunk to their prototypes (theta = 1, and just below) no search meets their digits.
    wanting = np.flatnonzero(state.bounds < (1 - max(accepted.gap, _GAP)) * state.distances)
    for model in option.models().values() if len(wanting) else ():
        for prototype in model.prototypes:
            points = np.clip(prototype, lower[wanting], upper[wanting])
            keep(wanting, points, np.full(len(wanting), -1), np.full(len(wanting), START))
    return state


def judged(
    option: Certainty, theta: float, required: Requirements, points: Floats, X: Floats
) -> tuple[Verdicts, NDArray[Any], NDArray[np.bool_]]:
    """Return the verdicts on points, their labels, and whether each is a valid answer for its sample."""
    if len(points) == 0:
        none = np.empty(0)
        index = np.empty(0, dtype=np.intp)
        return Verdicts(none, index, index, none, none), option.classes[:0], np.zeros(0, dtype=bool)
    verdicts, valid = option.judged(points, theta)
    if required.target is not None:
        valid = valid & (verdicts.label == required.target)
    if len(required.b):
        valid = valid & required.linear(points, X)
    return verdicts, option.classes[verdicts.label], valid


def _reason(reason: Any, samples: Floats, bounds: Floats, single: bool, row: int) -> str:
    """Say why a sample has no answer, by the row of the batch."""
    who = "" if single else f"sample {row}: "
    return who + reason(samples[row], bool(np.isinf(bounds[row])))


def reason_of(option: Certainty, theta: float, required: Requirements, x: Floats, proven: bool = True) -> str:
    """Return a sentence that names the requirement at fault for a sample without a counterfactual.

    It is the smallest relaxation of the requirements that would allow one. `proven` tells whether it is
    proven that there is none.
    """
    goal, groups = f"a {option.name} of {theta:g}", required.groups()
    none = "no input reaches" if proven else "no input was found that reaches"
    free = required.without(groups)
    outside = option.unrestricted is not option and _possible(option.unrestricted, theta, x, required)
    if not _possible(option, theta, x, free):
        limit = _largest_threshold(option, theta, x, free)
        if outside:
            among = none.replace("input", "input among the training data")
            return f"{among} {goal}{limit}; one exists outside their region"
        return f"{none} {goal}{limit}: lower theta"
    helpful: list[tuple[str, ...]] = []
    for size in range(1, len(groups) + 1):
        helpful = helpful or [
            names
            for names in combinations(groups, size)
            if _possible(option, theta, x, required.without(names))
        ]
    blames = [_blames(option, theta, x, required, names) for names in helpful]
    limit = _largest_threshold(option, theta, x, required)
    instead = ", or without ".join(blames) + (", or outside the training data's region" if outside else "")
    return f"with {_listed(groups, ' and ')}, {none} {goal}{limit}; one exists without {instead}"


def _blames(
    option: Certainty, theta: float, x: Floats, required: Requirements, groups: tuple[str, ...]
) -> str:
    """Name groups of requirements that have to go together, or the features of them that are enough.

    If one feature of a single group is enough, all of which that is true; otherwise features of which each is
    needed.
    """
    features = {group: required.features_of(group) for group in groups}
    if len(groups) == 1 and len(features[groups[0]]) > 1:
        (group,) = groups
        enough = [k for k in features[group] if _possible(option, theta, x, required.without([group], k))]
        if enough:
            return _blame(option, required, group, enough, " or ")
    for group, mine in features.items():
        for k in list(mine) if len(mine) > 1 else []:
            fewer = [j for j in features[group] if j != k]
            rest = required
            for other in groups:
                left = fewer if other == group else features[other]
                rest = rest.without([other], left if required.features_of(other) else None)
            if fewer and _possible(option, theta, x, rest):
                features[group] = fewer
    return " and ".join(_blame(option, required, group, mine, " and ") for group, mine in features.items())


def _blame(option: Certainty, required: Requirements, group: str, features: list[int], joint: str) -> str:
    """Name a group of requirements, by its features if it has any."""
    if group == "target":
        return f"the target {option.classes.tolist()[required.target]!r}"
    if group == "constraints":
        return "the linear constraints"
    words = {"bounds": "bounds on", "fixed": "fixing", "increase_only": "increase_only of"}
    return f"{words.get(group, 'decrease_only of')} {_listed([required.names[k] for k in features], joint)}"


def _listed(names: list[str], joint: str) -> str:
    """Join names; of many the first ones and how many more there are.

    >>> _listed(["a", "b", "c"], " or "), _listed(list("abcdefgh"), " and ")
    ('a, b or c', 'a, b, c, d, e and 3 others')
    """
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} others"]
    return joint.join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _possible(option: Certainty, theta: float, x: Floats, required: Requirements) -> bool:
    """Return whether the sample has a valid counterfactual under these requirements."""
    accepted = accepted_set(option, theta, required, x[None])
    return bool(valid_answers(option, theta, accepted, required, x[None]).found[0])


def _largest_threshold(option: Certainty, theta: float, x: Floats, required: Requirements) -> str:
    """Say which threshold could be reached, by bisection below theta; nothing if none can."""
    low, high = (0.0 if theta > 0 else theta - 1.0), theta
    if not _possible(option, low, x, required):
        return ""
    for _ in range(64):
        if high - low <= 2.0**-16 * max(abs(high), abs(low)):
            break
        middle = (low + high) / 2
        if _possible(option, middle, x, required):
            low = middle
        else:
            high = middle
    return f" (the largest threshold that can be reached is about {low:.4g})"
