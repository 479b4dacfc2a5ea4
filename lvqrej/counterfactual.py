"""Counterfactual explanations of rejects: the nearest accepted input, with a certificate.

`explain` knows nothing of any particular reject option. It asks the option for its accepted set, finds the
nearest point of it, and lets the option itself test every answer, without tolerance. The nearest point lies
on the boundary, where a hair decides: the search aims inside by what rounding can add up to, and what still
fails the test is aimed further inside. The lower bound is that of the set as it is, so the gap hides
nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.cells import ACCEPTED, NONE, START, AcceptedSet, Floats, Ints
from lvqrej.certainty import Certainty, Verdicts, check_option, check_theta
from lvqrej.columns import Columns, cells_of
from lvqrej.discrete import make_possible
from lvqrej.explanation import Explanations, NoCounterfactualError
from lvqrej.requirements import Requirements, check_requirements
from lvqrej.validation import (
    as_sample,
    check_choice,
    check_names,
    check_number,
    dimensions,
    feature_names_of,
)
from lvqrej.wording import what_if

#: The relative noise under which answers hold, unless told otherwise, and how much is done for it.
NOISE, _SAFE = 1e-9, 4.0
#: How far inside to aim, try after try, relative to the sizes of a constraint's terms.
LADDER = tuple(32 * float(np.finfo(float).eps) * step for step in (1, 32, 2**10, 2**15))
#: Samples and numbers per chunk: so many that handing one out costs nothing, so few that memory stays flat.
_CHUNK, _NUMBERS = 4096, 2**20
#: Where a sample takes milliseconds or more: samples per chunk, and chunks per worker if there are several,
#: so that none waits long for another.
_SLOW, _PER_WORKER = 128, 4
#: So often a progress bar moves, at least, if there are as many samples.
_STEPS = 20
#: The relative gap above which prototypes are tried as answers, too.
_GAP = 1e-6
#: Changes of a feature below this share of the whole are what a solver's rounding leaves.
_NOISE = 1e-7
#: What bounds are called that training data gave.
_RANGES = "the observed ranges"
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
    integers: Any = (),
    grid: Any = None,
    noise: float = NOISE,
    on_infeasible: str = "raise",
    n_jobs: int | None = None,
    progress: bool = False,
) -> Any:
    """Explain rejects by the nearest accepted inputs: the least weighted change that reaches the threshold.

    min sum_k w_k |delta_k| subject to r(x + delta) >= theta.

    Parameters
    ----------
    option : Certainty
    theta : float
        The threshold of acceptance.
    X : array-like of shape (n, d) or (d,)
        One sample gives one `Explanation`. A sample that is accepted already is its own counterfactual.
    weights : array-like of shape (d,) or mapping of feature to float, optional
        Positive costs of a unit change (see `mad_weights`); 1 if None or not in the mapping. For a category
        the price of another level, or a mapping of pairs of levels to prices, infinite for what cannot be.
    fixed : list of features
        Features that may not change, by index or name.
    increase_only : list of features
        Features that may not decrease.
    decrease_only : list of features
        Features that may not increase.
    bounds : mapping of feature to (low, high), DataFrame or Observed, optional
        Where the counterfactual has to lie; None for no bound, for a category the levels that are allowed. A
        sample outside is moved inside, at its cost; ranges that were `Observed` are widened to it. A data
        frame has the rows low and high.
    constraints : (A, b), optional
        Linear constraints A x <= b of the counterfactual, with shapes (c, d) and (c,). One constraint is also
        ``({"rent": 1, "debt": 1}, 900)``, and a data frame A is taken by the names of its columns; features
        that are not named do not count. An equality is a row together with its negative; it holds to 1e-9 of
        the size of its terms.
    target : label, optional
        The class to be accepted as; any if None.
    integers : list of features
        Features whose changed values are whole numbers, a `grid` of 1.
    grid : mapping of feature to float, or array-like of shape (d,), optional
        How finely values are recorded: changed ones are multiples of this (0: any value) and the answer is
        still valid, within 1 % of the nearest such answer unless the gap says otherwise. Where none is found
        on the grid, the nearest answer of all is given.
    noise : float
        Answers hold under this relative noise in every feature, where there are such (`firm`): they lie a bit
        inside of what is accepted, and the gap has the price of that. With 0 they lie on its boundary.
    on_infeasible : {"raise", "skip"}
        Whether a sample without a counterfactual raises `NoCounterfactualError` or is marked in `found`, its
        reason in `reasons`.
    n_jobs : int, optional
        Number of parallel jobs, as in joblib: None leaves it to `joblib.parallel_config`, and is 1 outside of
        one; -1 is all processors. Beyond rounding the results do not depend on it.
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
        constraints=constraints, target=target, integers=integers, grid=grid, noise=noise,
    )  # fmt: skip
    result = explained(query)
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
    query = Query.of(option, theta, X, on_infeasible="skip", **options)
    answers = {}
    for i, label in enumerate(option.classes.tolist()):
        result = explained(query._replace(required=replace(query.required, target=i)))
        answers[label] = result if not query.single else (result[0] if result.found[0] else None)
    return answers


def explained(query: Query) -> Explanations:
    """Answer all samples of a query, in chunks."""
    accepted, (n, d) = query.accepted_set(), query.samples.shape
    size = max(1, min(_CHUNK, _NUMBERS // d))
    if n > 1 and (accepted.gap > 0 or len(query.required.b)):  # then each takes milliseconds
        jobs = workers(query.n_jobs)
        size = min(size, _SLOW, -(-n // (_PER_WORKER * jobs)) if jobs > 1 else n)
    if query.progress:  # then it has to move
        size = min(size, max(1, -(-n // _STEPS)))
    answers = joined(query.each(partial(valid_answers, accepted=accepted), size), n)
    return query.result(answers, accepted)


class Answers(NamedTuple):
    """Valid counterfactuals of a batch, as `Explanations` has them, and the verdicts on the samples."""

    counterfactuals: Floats
    distances: Floats
    lower_bounds: Floats
    certainties: Floats
    labels: NDArray[Any]
    found: NDArray[np.bool_]
    cells: Ints
    path_codes: Ints
    firm: NDArray[np.bool_]
    verdicts: Verdicts

    def row(self, i: int) -> Answers:
        """Return the answers with row i alone."""
        verdicts = Verdicts._make(part[i : i + 1] for part in self.verdicts)
        return Answers._make([*(part[i : i + 1] for part in self[:-1]), verdicts])


class Query(NamedTuple):
    """What `explain` and its variants are asked, checked; also a part of it, with some of the samples."""

    option: Certainty
    theta: float
    samples: Floats
    required: Requirements
    single: bool
    index: Any
    skip: bool
    n_jobs: int | None
    progress: bool
    noise: float
    given: Any = None  # the user's cells (n, d), if numbers do not say it all

    @staticmethod
    def of(
        option: Certainty,
        theta: float,
        X: Any,
        *,
        on_infeasible: str = "raise",
        n_jobs: Any = None,
        progress: bool = False,
        noise: float = NOISE,
        **required: Any,
    ) -> Query:
        """Check the arguments of `explain`."""
        check_option(option)
        X, columns = as_sample(X, option.feature_names), option.columns
        check_names(X, option.feature_names)
        single = dimensions(X) == 1
        rows = np.array(X, dtype=None if columns.takes_numbers else object)[None] if single else X
        samples = columns.lifted(rows)
        if columns.is_plain:
            columns = Columns.numeric(option.n_features, feature_names_of(X) or option.feature_names)
        checked = check_requirements(columns, option.classes, **required)
        given = None if columns.is_plain or rows is samples else cells_of(rows)
        skip = check_choice(on_infeasible, "on_infeasible", ("raise", "skip")) == "skip"
        if n_jobs is not None and check_number(n_jobs, "n_jobs", integer=True) == 0:
            raise ValueError("n_jobs must be a number of jobs, or -1 for all processors; found 0")
        index = getattr(X, "index", None) if hasattr(X, "iloc") and not single else None
        least = check_number(noise, "noise", low=0, high=1e-3)
        theta = check_theta(theta)
        return Query(option, theta, samples, checked, single, index, skip, n_jobs, progress, least, given)

    def without(self, groups: Iterable[str], features: Any = None) -> Query:
        """Return the query without some groups of requirements, or their entries for some features."""
        return self._replace(required=self.required.without(groups, features))

    def accepted_set(self) -> AcceptedSet:
        """Return what the option accepts, narrowed to the target class and cut by the linear constraints."""
        accepted, required = self.option.cells(self.theta), self.required
        if required.target is not None:
            accepted = accepted.with_label(required.target)
        return accepted.narrowed(required.half_spaces(self.samples)) if len(required.b) else accepted

    def judged(self, points: Floats, X: Floats) -> tuple[Verdicts, NDArray[np.bool_]]:
        """Return the verdicts on points, and whether each is a valid answer for its sample."""
        if len(points) == 0:
            none, index = np.empty(0), np.empty(0, dtype=np.intp)
            return Verdicts(none, index, index, none, none, none), np.zeros(0, dtype=bool)
        verdicts, valid = self.option.judged(points, self.theta)
        if self.required.target is not None:
            valid = valid & (verdicts.label == self.required.target)
        if len(self.required.b):
            valid = valid & self.required.linear(points, X)
        return verdicts, valid

    def within(self, lower: Floats, upper: Floats, accepted: AcceptedSet) -> Answers:
        """Return the nearest answers of an only sample within boxes (n, d), off the grid."""
        none = np.zeros(lower.shape[1], dtype=bool)
        required = replace(
            self.required, lower=lower, upper=upper, fixed=none, increase_only=none, decrease_only=none,
            observed=False, steps=np.zeros(len(none)),
        )  # fmt: skip
        samples = np.repeat(self.samples, len(lower), axis=0)
        return valid_answers(self._replace(required=required, samples=samples), accepted)

    def each(self, solve: Callable[[Query], Any], size: int = 1) -> Iterable[Any]:
        """Solve parts of `size` samples, one after the other, in this process or in several."""
        starts = range(0, max(len(self.samples), 1), size)
        parts = [self._replace(samples=self.samples[i : i + size], index=None) for i in starts]
        if len(parts) == 1 or workers(self.n_jobs) == 1:
            results: Any = map(solve, parts)
        else:
            from joblib import Parallel, delayed

            # A part is a tuple, which joblib hands to a Dask cluster with the call; an array it would leave
            # with one worker, and lose with it.
            calls = (delayed(solve)(part) for part in parts)
            results = Parallel(n_jobs=self.n_jobs, return_as="generator")(calls)
        if self.progress:
            from tqdm.auto import tqdm

            return _counted(results, tqdm(total=len(self.samples), desc="explain", unit="sample"), parts)
        return results

    def result(
        self, answers: Answers, accepted: AcceptedSet, reason: Any = None, **fields: Any
    ) -> Explanations:
        """Return the answers; raise the reason of the first that is none, unless such are to be skipped.

        `reason` is called with the query of one sample and whether it is proven that there is no answer, if
        it is not that of `explain`.
        """
        samples, index = self.samples.copy(), self.index  # they may be the caller's, who goes on with them
        given = self.given
        if len(samples) != len(answers.found):  # several answers to one sample
            samples, index = np.repeat(samples, len(answers.found), axis=0), None
            given = None if given is None else np.repeat(given, len(answers.found), axis=0)
        asked = partial(_reason, self._replace(samples=samples), answers.lower_bounds, reason or reason_of)
        if not self.skip and not answers.found.all():
            raise NoCounterfactualError(asked(int(answers.found.argmin())))
        return Explanations(
            samples=samples,
            option=self.option,
            theta=self.theta,
            required=self.required,
            accepted=accepted,
            reason=asked,
            completions=partial(_completions, self._replace(samples=samples)),
            index=index,
            given=given,
            **answers._asdict(),
            **fields,
        )


def _counted(results: Iterable[Any], bar: Any, parts: list[Query]) -> Iterable[Any]:
    """Hand on results, each counted as the samples of its part."""
    with bar:
        for part, result in zip(parts, results, strict=True):
            bar.update(len(part.samples))
            yield result


def workers(n_jobs: int | None) -> int:
    """Return how many jobs can run at once under the joblib backend in force."""
    from joblib import effective_n_jobs

    return effective_n_jobs(n_jobs)


def joined(parts: Iterable[Answers], n: int) -> Answers:
    """Return the answers of all chunks as one; each is copied as it comes, so that no two are kept."""
    columns: list[NDArray[Any]] = []
    done = 0
    for part in parts:
        if len(part.found) == n:
            return part
        arrays = [*part[:-1], *part.verdicts]
        columns = columns or [np.empty((n, *array.shape[1:]), array.dtype) for array in arrays]
        for whole, array in zip(columns, arrays, strict=True):
            whole[done : done + len(array)] = array
        done += len(part.found)
    own = len(columns) - len(Verdicts._fields)
    return Answers._make([*columns[:own], Verdicts._make(columns[own:])])


def valid_answers(query: Query, accepted: AcceptedSet) -> Answers:
    """Return the nearest counterfactuals of the query's samples that pass the option's own test."""
    X, required, classes = query.samples, query.required, query.option.classes
    box = required.box(X)
    lower, upper = required.at_own_levels(X, *box)
    start = np.minimum(np.maximum(X, lower), upper)  # as `clip` does, which takes three times as long
    possible = (lower <= upper).all(axis=1)
    verdicts, own = query.judged(X, X)
    moved = (np.abs(start - X) * required.weights).sum(axis=1)
    own = own & possible & (moved == 0)
    state = Answers(
        counterfactuals=np.where(own[:, None], X, np.nan),
        distances=np.where(own, 0.0, np.inf),
        lower_bounds=np.where(possible, 0.0, np.inf),
        certainties=verdicts.certainty.copy(),
        labels=classes[verdicts.label],
        found=own.copy(),
        cells=np.full(len(X), -1),
        path_codes=np.where(own, ACCEPTED, NONE),
        firm=own.copy(),
        verdicts=verdicts,
    )

    def keep(rows: Ints, points: Floats, cells: Ints, paths: Ints, firm: bool) -> NDArray[np.bool_]:
        """Keep the points that are valid and nearer than what is known; return which were kept."""
        samples = X[rows]
        judgement, valid = query.judged(points, samples)
        distances = (np.abs(points - samples) * required.weights).sum(axis=1)
        kept = valid & (distances < state.distances[rows])
        at, near = rows[kept], distances[kept]
        state.counterfactuals[at], state.distances[at], state.found[at] = points[kept], near, True
        state.cells[at], state.path_codes[at], state.firm[at] = cells[kept], paths[kept], firm
        state.certainties[at], state.labels[at] = judgement.certainty[kept], classes[judgement.label[kept]]
        state.lower_bounds[at] = np.minimum(state.lower_bounds[at], near)
        return kept

    (pending,) = (possible & ~own).nonzero()
    aims = _aims(query, verdicts) if query.noise > 0 else LADDER[0]
    for rung in (aims, *LADDER) if query.noise > 0 else LADDER:
        if len(pending) == 0:
            break
        firm = rung is aims and query.noise > 0
        margin = rung[pending] if isinstance(rung, np.ndarray) else rung
        begin, low, high = start[pending], lower[pending], upper[pending]
        nearest = accepted.nearest(begin, required.weights, low, high, margin)
        state.lower_bounds[pending] = np.maximum(state.lower_bounds[pending], moved[pending] + nearest.bounds)
        there = nearest.distances < np.inf
        later = pending[~there & (nearest.bounds < np.inf) & firm]
        pending = pending[there]
        points = np.minimum(np.maximum(begin + nearest.changes, low), high)[there]
        found = nearest.cells[there], nearest.paths[there], firm
        kept = keep(pending, points, *found)
        # What a solver leaves of features that do not have to change.
        costs = np.abs(points - X[pending]) * required.weights
        noise = (costs > 0) & (costs <= _NOISE * nearest.distances[there][:, None]) & (start == X)[pending]
        if noise.any():
            kept |= keep(pending, np.where(noise, X[pending], points), *found)
        pending = np.concatenate([pending[~kept], later])
    # Where cells have shrunk to their prototypes (theta = 1, and just below) no search meets their digits.
    (wanting,) = (state.lower_bounds < (1 - max(accepted.gap, _GAP)) * state.distances).nonzero()
    for model in query.option.models().values() if len(wanting) else ():
        none = np.full(len(wanting), -1), np.full(len(wanting), START), False
        for prototype in model.prototypes:
            keep(wanting, np.clip(prototype, lower[wanting], upper[wanting]), *none)
    if required.steps.any() or required.blocks:
        make_possible(query, accepted, state, box, (aims, LADDER[2]))
    return state


def _completions(query: Query, row: int, free: NDArray[np.bool_], ways: Ints) -> Answers:
    """Return the nearest accepted inputs that differ from a sample in some features only, free (n, d).

    They lie within the bounds, widened to the sample; where a way (n,) is 1 or -1, features only go up or
    down. Nothing else is required, no room for noise is left and no grid kept to: an infinite bound proves
    that nothing is accepted there.
    """
    x, ways, free = query.samples[row], ways[:, None], query.required.columns.spread(free)
    low, high = query.required.widened(x)
    lower, upper = np.where(free & (ways <= 0), low, x), np.where(free & (ways >= 0), high, x)
    query = query.without(set(query.required.groups()) - {"bounds"})
    query = query._replace(samples=x[None], noise=0.0)
    accepted = query.accepted_set()
    answers = query.within(lower, upper, accepted)
    room = query.required.room(x, lower, upper)
    answers.lower_bounds[~answers.found & (answers.lower_bounds > room * (1 + 1e-9))] = np.inf
    (loose,) = (
        answers.found & (free.sum(axis=1) == 1) & (answers.distances > answers.lower_bounds)
    ).nonzero()
    if accepted.gap > 0 and len(loose):  # its gap is relative: what is proven already can be left out
        z, proven = answers.counterfactuals[loose], answers.lower_bounds[loose, None] / query.required.weights
        start = np.where(z > x, np.minimum(x + proven, z), np.where(z < x, np.maximum(x - proven, z), x))
        closer = query.within(np.minimum(start, z), np.maximum(start, z), accepted)
        bounds = np.minimum(closer.lower_bounds, answers.distances[loose])
        answers.lower_bounds[loose] = np.maximum(answers.lower_bounds[loose], bounds)
    return answers


def _aims(query: Query, verdicts: Verdicts) -> Floats:
    """Return how far inside answers of each sample hold under the noise, relative to sizes of terms, (n,).

    Noise of |x_k| moves L (x - p) by up to sum_k |x_k| |L_k|, relative to its own length. Rounded to a power
    of 2, so that it has the same bits in any batch.
    """
    X, moved = np.abs(query.samples), np.zeros(len(query.samples))
    for model in query.option.models().values():
        moved = np.maximum(moved, (X * np.sqrt(np.square(model.L).sum(axis=0))).sum(axis=1))
    aims = _SAFE * query.noise * (1 + moved / np.maximum(verdicts.rival_distance, 1e-300))
    return np.exp2(np.ceil(np.log2(np.clip(aims, LADDER[0], 1e-3))))


def _reason(query: Query, bounds: Floats, reason: Any, row: int) -> str:
    """Say why a sample has no answer, by the row of the batch."""
    who = "" if query.single else f"sample {row}: "
    return who + reason(query._replace(samples=query.samples[row : row + 1]), bool(np.isinf(bounds[row])))


def reason_of(query: Query, proven: bool) -> str:
    """Return a sentence that names the requirement at fault for a sample without a counterfactual.

    It is the smallest relaxation of the requirements that would allow one. `proven` tells whether it is
    proven that there is none.
    """
    option, groups = query.option, query.required.groups()
    goal = f"a {option.name} of {query.theta:g}"
    none = "no input reaches" if proven else "no input was found that reaches"
    outside = option.unrestricted is not option and _possible(query._replace(option=option.unrestricted))
    if not _possible(query.without(groups)):
        limit = _largest_threshold(query.without(groups))
        if outside:
            among = none.replace("input", "input among the training data")
            return f"{among} {goal}{limit}; one exists outside their region"
        return f"{none} {goal}{limit}: lower theta"
    helpful: list[tuple[str, ...]] = []
    for size in range(1, len(groups) + 1):
        sets = combinations(groups, size)
        helpful = helpful or [names for names in sets if _possible(query.without(names))]
    blames = [_blames(query, names) for names in helpful]
    instead = ", or without ".join(blames) + (", or outside the training data's region" if outside else "")
    limit = _largest_threshold(query)
    ranges = bool(np.all(query.required.observed))
    words = [_RANGES if group == "bounds" and ranges else group for group in groups]
    text = f"with {_listed(words, ' and ')}, {none} {goal}{limit}; one exists without {instead}"
    unbounded = query.without(["bounds"])
    if ranges and _possible(unbounded):
        text += f": {what_if(explained(unbounded)[0])}"
    return text


def _blames(query: Query, groups: tuple[str, ...]) -> str:
    """Name groups of requirements that have to go together, or the features of them that are enough.

    If one feature of a single group is enough, all of which that is true; otherwise features of which each is
    needed.
    """
    features = {group: query.required.features_of(group) for group in groups}
    if len(groups) == 1 and len(features[groups[0]]) > 1:
        enough = [k for k in features[groups[0]] if _possible(query.without(groups, k))]
        if enough:
            return _blame(query, groups[0], enough, " or ")
    for group in groups:
        for k in list(features[group]):
            fewer = features | {group: [j for j in features[group] if j != k]}
            rest = query
            for other, mine in fewer.items():
                rest = rest.without([other], mine if features[other] else None)
            if fewer[group] and _possible(rest):
                features = fewer
    return " and ".join(_blame(query, group, mine, " and ") for group, mine in features.items())


def _blame(query: Query, group: str, features: list[int], joint: str) -> str:
    """Name a group of requirements, by its features if it has any."""
    given = np.isin(query.required.columns.owner, features) & ~np.asarray(query.required.observed)
    words = {
        "target": f"the target {query.option.classes.tolist()[query.required.target or 0]!r}",
        "constraints": "the linear constraints",
        "bounds": "bounds on " if given.any() else f"{_RANGES} of ",
        "fixed": "fixing ",
    }
    return words.get(group, f"{group} of ") + _listed([query.required.names[k] for k in features], joint)


def _listed(names: list[str], joint: str) -> str:
    """Join names; of many the first ones and how many more there are.

    >>> _listed(["a", "b", "c"], " or "), _listed(list("abcdefgh"), " and ")
    ('a, b or c', 'a, b, c, d, e and 3 others')
    """
    if len(names) > _NAMED:
        names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} others"]
    return joint.join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _possible(query: Query) -> bool:
    """Return whether the query's sample has a valid counterfactual."""
    return bool(valid_answers(query, query.accepted_set()).found[0])


def _largest_threshold(query: Query) -> str:
    """Say which threshold could be reached, by bisection below theta; nothing if none can."""
    low, high = (0.0 if query.theta > 0 else query.theta - 1.0), query.theta
    if not _possible(query._replace(theta=low)):
        return ""
    for _ in range(64):
        if high - low <= 2.0**-16 * max(abs(high), abs(low)):
            break
        middle = (low + high) / 2
        if _possible(query._replace(theta=middle)):
            low = middle
        else:
            high = middle
    return f" (the largest threshold that can be reached is about {low:.4g})"
