"""Other explanations of the same reject: sparser, several, robust, plausible.

Each takes the options of `explain` and returns what it returns, certified in the same way: the option itself
tests every answer, and `lower_bound` holds among all answers of the kind that was asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lvqrej.cells import AcceptedSet
from lvqrej.counterfactual import LADDER, Answers, Query, explained, joined, valid_answers
from lvqrej.discrete import make_possible
from lvqrej.plausible import Plausible
from lvqrej.robust import Execution, nearest_execution, why_none
from lvqrej.sparsest import Reject, fewest_changes, sparsest_answer
from lvqrej.validation import check_choice, check_number

__all__ = ["Plausible", "plausible", "robust", "several", "sparsest", "trade_off"]


def sparsest(option: Any, theta: float, X: ArrayLike, *, effort: int = 200, **options: Any) -> Any:
    """Explain with as few features as possible, and among these answers by the nearest one.

    min |{k: delta_k != 0}|, then min sum_k w_k |delta_k|, by trying all small sets of features at once and
    larger ones by hitting sets (`lvqrej.sparsest`).

    Parameters
    ----------
    option, theta, X, **options
        As in `explain`.
    effort : int
        Number of sets of features tried, per sample; sizes of which all sets are tried at once count as one.
        If it runs out, `fewest` and `lower_bound` say what is proven; the answer never changes more features
        than that of `explain`.

    Returns
    -------
    Explanations, or Explanation for a single sample
        `fewest` features have to change at least: the answer is the sparsest if it changes as many. (A set
        of features counts as unable if no change of it is shorter than 10^6 times the nearest answer.)

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel, explain
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [4, 3]], ["a", "b"]))
    >>> near = explain(option, 0.3, [2, 1.5], bounds={0: (1, 3)})
    >>> few = sparsest(option, 0.3, [2, 1.5], bounds={0: (1, 3)})
    >>> [(len(why.changed), round(why.distance, 3)) for why in (near, few)], few.fewest
    ([(2, 2.167), (1, 2.5)], 1)
    """
    query = Query.of(option, theta, X, **options)
    tries = int(check_number(effort, "effort", low=0, integer=True))
    accepted = query.accepted_set()
    answers, fewest = _each(query, partial(sparsest_answer, accepted=accepted, effort=tries))
    answers = _or_nearest(query, accepted, _recorded(query, accepted, answers))
    scopes = _counted(query, answers)
    result = query.result(answers, accepted, scopes=scopes, fewest=np.array(fewest, dtype=np.int64))
    return result[0] if query.single else result


def trade_off(option: Any, theta: float, x: ArrayLike, *, effort: int = 500, **options: Any) -> Any:
    """Return the nearest answers of at most 1, 2, 3, ... features, as far as more features help.

    The curve of l1 against l0: from `sparsest`, where it starts, to `explain`, where it ends.

    Parameters
    ----------
    option, theta, **options
        As in `explain`.
    x : array-like of shape (d,)
    effort : int
        Number of sets of features tried, as in `sparsest`.

    Returns
    -------
    Explanations
        One row per number of features (`counts`), distances falling.

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel, explain
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [4, 3]], ["a", "b"]))
    >>> curve = trade_off(option, 0.3, [2, 1.5], bounds={0: (1, 3)})
    >>> curve.counts, curve.distances.round(3)
    (array([1, 2]), array([2.5  , 2.167]))
    """
    query = _of_one(option, theta, x, options)
    tries = int(check_number(effort, "effort", low=0, integer=True))
    accepted = query.accepted_set()
    levels = fewest_changes(Reject(query, accepted), tries, curve=True)
    if query.required.steps.any():  # there the nearest may have more features
        levels.append((valid_answers(query, accepted), levels[-1][1]))
    answers = joined([answer for answer, _ in levels], len(levels))
    answers = _or_nearest(query, accepted, _recorded(query, accepted, answers))
    falls = answers.distances < np.minimum.accumulate(np.append(np.inf, answers.distances[:-1]))
    falls |= ~answers.found
    kept = [answers.row(i) for i in np.flatnonzero(falls).tolist()]
    answers = joined(kept, len(kept))
    fewest = np.array([number for _, number in levels], dtype=np.int64)[falls]
    return query.result(answers, accepted, scopes=_counted(query, answers), fewest=fewest)


def _counted(query: Query, answers: Answers) -> list[str]:
    """Say of how many features each answer is."""
    numbers = query.required.columns.gathered(answers.counterfactuals != query.samples).sum(axis=1)
    return [f" of {n} features" if n > 1 else " of one feature" for n in numbers]


def several(
    option: Any,
    theta: float,
    x: ArrayLike,
    k: int = 3,
    *,
    differ: str = "features",
    apart: int = 1,
    **options: Any,
) -> Any:
    """Return the k best answers that differ: in the features they need, or in the class they lead to.

    Parameters
    ----------
    option, theta, **options
        As in `explain`.
    x : array-like of shape (d,)
    k : int
        The number of answers wanted.
    differ : {"features", "classes"}
        "features": each answer leaves unchanged at least `apart` of the features any earlier one changes
        (all, if those are fewer), and is the nearest such answer. "classes": the nearest answer of each
        class, nearest class first; it takes no `target`.
    apart : int
        With the number of features as `apart` no two answers have a feature in common.

    Returns
    -------
    Explanations
        At most k rows, in the order of their distances: fewer if there are no more.

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel, explain
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [4, 3]], ["a", "b"]))
    >>> [why.changed for why in several(option, 0.3, [2, 1.5])]
    [[0], [1]]
    >>> several(option, 0.3, [2.1, 1.5], differ="classes").labels
    array(['b', 'a'], dtype='<U1')
    """
    check_choice(differ, "differ", ("features", "classes"))
    wanted = int(check_number(k, "k", low=1, integer=True))
    other = int(check_number(apart, "apart", low=1, integer=True))
    query = _of_one(option, theta, x, options)
    accepted = query.accepted_set()
    if differ == "classes":
        if query.required.target is not None:
            raise ValueError("target cannot be given with differ='classes': every class is a target")
        answers = _one_per_class(query, accepted)[:wanted]
        scopes = [" to this class"] * len(answers)
    else:
        answers = _best_first(Reject(query, accepted), wanted, other)
        answers = [_recorded(query, accepted, answer) for answer in answers]
        # On the grid another one may be nearer. A bound is of all that differ from the answers before it.
        order = np.argsort([float(one.distances[0]) for one in answers], kind="stable")
        bounds = [answers[order[place:].min()].lower_bounds for place in range(len(order))]
        answers = [answers[i]._replace(lower_bounds=b) for i, b in zip(order, bounds, strict=True)]
        scopes = [" with other features than the former" if i else "" for i in range(len(answers))]
    return query.result(joined(answers, len(answers)), accepted, scopes=scopes)


def _one_per_class(query: Query, accepted: AcceptedSet) -> list[Answers]:
    """Return the nearest answer of each class that has one, nearest class first."""
    answers = []
    for label in range(len(query.option.classes)):
        of_class = query._replace(required=replace(query.required, target=label))
        answer = valid_answers(of_class, accepted.with_label(label))
        answers.append(answer._replace(cells=np.array([-1])))  # it is none of all classes' cells
    found = sorted((one for one in answers if one.found[0]), key=lambda one: float(one.distances[0]))
    return found or [min(answers, key=lambda one: float(one.lower_bounds[0]))]


def _best_first(reject: Reject, wanted: int, apart: int) -> list[Answers]:
    """Return answers by distance, each keeping `apart` (or all) of the features an earlier one changes.

    A node keeps some features as they are; its answer is the nearest of all that do. If that changes too much
    of what a former answer changes, every admissible answer of the node keeps one feature more of those two
    have in common: these are its children.
    """
    chosen: list[Answers] = []
    order, known, unknown = count(), set(), np.inf
    heap: list[tuple[float, int, frozenset[int], Answers]] = []
    nodes = [frozenset[int]()]
    while len(chosen) < wanted:
        fresh = [kept for kept in nodes if kept not in known]
        known.update(fresh)
        if fresh:
            features = np.arange(len(reject.query.required.names))
            may_change = np.array([~np.isin(features, list(kept)) for kept in fresh])
            answers = reject.answers(*reject.only(may_change))
            unknown = min(unknown, answers.lower_bounds[~answers.found].min(initial=np.inf))
            for i in np.flatnonzero(answers.found):
                entry = float(answers.distances[i]), next(order), fresh[i], answers.row(int(i))
                heapq.heappush(heap, entry)
        if not heap:
            return chosen or [answers]
        _, _, kept, answer = heapq.heappop(heap)
        changed = _changed(reject, answer)
        former = [_changed(reject, one) for one in chosen]
        repeats = [
            features & changed for features in former if len(features - changed) < min(apart, len(features))
        ]
        if not repeats:
            bounds = [answer.lower_bounds[0], unknown, *(item[3].lower_bounds[0] for item in heap)]
            chosen.append(answer._replace(lower_bounds=np.array([min(bounds)])))
            repeats = [changed]
        nodes = [kept | {feature} for feature in repeats[0]]
    return chosen


def _changed(reject: Reject, answer: Answers) -> frozenset[int]:
    return frozenset(np.flatnonzero(reject.changed(answer)[0]).tolist())


def robust(
    option: Any,
    theta: float,
    X: ArrayLike,
    *,
    error: Any = None,
    least: Any = None,
    integers: Any = (),
    effort: int | None = None,
    **options: Any,
) -> Any:
    """Explain by changes that can be carried out: with errors, by steps that matter, in whole numbers.

    min sum_k w_k |delta_k| s.t. x + delta + e is accepted as one class for all errors |e_k| <= error_k of the
    changed features; delta_k = 0 or |delta_k| >= least_k; x_k + delta_k integer where asked. Bounds and the
    like are asked of the intended value, acceptance of all that errors make of it.

    Parameters
    ----------
    option, theta, X, **options
        As in `explain`; of a `grid` only whole numbers are kept.
    error : float, array-like of shape (d,) or mapping of feature to float, optional
        How far a changed feature may end up from what was intended. Features that stay as they are have none.
    least : float, array-like of shape (d,) or mapping of feature to float, optional
        The smallest change that matters: smaller ones are not proposed.
    integers : list of features
        Features whose values are whole numbers, in X as in the answer.
    effort : int, optional
        Number of relaxations solved, per sample; 60 if None, 8 if each is itself a branch and bound (three or
        more probabilities). If it runs out, `lower_bound` says what is proven.

    Returns
    -------
    Explanations, or Explanation for a single sample
        `worst_certainty` is the smallest certainty at the corners of the box of errors. The whole box is
        accepted: it lies in one convex cell of the accepted set, as its corners do.

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity, explain
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [20, 0]], ["a", "b"]))
    >>> round(explain(option, 0.6, [9, 0]).distance, 4)
    2.3333
    >>> why = robust(option, 0.6, [9, 0], error={0: 0.5})
    >>> round(why.distance, 4), round(why.worst_certainty, 4)
    (2.8333, 0.6)
    >>> robust(option, 0.6, [9, 0], error={0: 0.5}, integers=[0]).counterfactual
    array([6., 0.])
    >>> robust(option, 0.6, [9, 0], least={0: 4}).distance
    4.0
    """
    query = Query.of(option, theta, X, **options)
    execution = Execution.of(error, least, integers, query.required.columns)
    whole = (query.required.steps == 1) & (query.samples % 1 == 0).all(axis=0)  # of a grid only that
    execution = execution._replace(integers=execution.integers | whole)
    query = query._replace(required=replace(query.required, steps=np.zeros(len(whole))))
    given = query.samples[:, execution.integers]
    if (given != np.round(given)).any():
        raise ValueError(
            f"X must hold whole numbers in the features of integers; found {given[given % 1 != 0][0]}"
        )
    tries = None if effort is None else int(check_number(effort, "effort", low=1, integer=True))
    accepted = query.accepted_set()
    answers, worst = _each(
        query, partial(nearest_execution, accepted=accepted, execution=execution, effort=tries)
    )
    result = query.result(
        answers, accepted, partial(why_none, execution, tries),
        scopes=[" that can be carried out"] * len(worst), worst_certainties=np.array(worst),
    )  # fmt: skip
    return result[0] if query.single else result


def plausible(
    option: Any,
    theta: float,
    X: ArrayLike,
    *,
    data: ArrayLike,
    labels: ArrayLike,
    level: float = 0.95,
    **options: Any,
) -> Any:
    """Explain by inputs among the training data of the class they are accepted as.

    See `Plausible`, which combines with all of `lvqrej.variants`.

    Parameters
    ----------
    option, theta, X, **options
        As in `explain`.
    data : array-like of shape (n, d)
        Training samples.
    labels : array-like of shape (n,)
        Their classes.
    level : float
        The share of each class that its region, an ellipsoid, holds.

    Returns
    -------
    Explanations, or Explanation for a single sample

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel, explain
    >>> data, labels = [[0, 0], [0, 1], [1, 1], [3, 0], [4, 1], [4, 0]], ["a", "a", "a", "b", "b", "b"]
    >>> option = DecisionDistance(PrototypeModel([[0.3, 0.7], [3.7, 0.3]], ["a", "b"]))
    >>> explain(option, 0.3, [2, 3]).counterfactual.round(2)
    array([1.26, 3.  ])
    >>> plausible(option, 0.3, [2, 3], data=data, labels=labels, level=1).counterfactual.round(2)
    array([1.06, 1.29])
    """
    query = Query.of(Plausible(option, data, labels, level), theta, X, **options)
    scope = " within the ellipsoid around its class's training data"
    result = replace(explained(query), scopes=[scope] * len(query.samples))
    return result[0] if query.single else result


def _recorded(query: Query, accepted: AcceptedSet, answers: Answers) -> Answers:
    """Put the values of the features that answers change on the grid; what is proven stays as it is."""
    if query.required.steps.any() and len(query.samples):
        proven, numbers = answers.lower_bounds.copy(), query.required.columns.numbers
        X = np.repeat(query.samples, len(proven) // len(query.samples), axis=0)
        changed = numbers & (answers.counterfactuals != X)
        # Levels stay those of the answer, at their price.
        start = np.where(numbers | ~answers.found[:, None], X, answers.counterfactuals)
        price = query.required.costs(X, start).sum(axis=1)
        low, high = (np.where(changed, end, start) for end in query.required.box(X))
        answers.distances[:] -= price
        make_possible(query._replace(samples=start), accepted, answers, (low, high), LADDER[-1:])
        answers.distances[:] += price
        answers.lower_bounds[:] = proven
    return answers


def _or_nearest(query: Query, accepted: AcceptedSet, answers: Answers) -> Answers:
    """Take the answers of `explain` on the grid where they are nearer and change no more features.

    What it proves holds of all answers.
    """
    if query.required.steps.any() and len(query.samples):
        near, changed = valid_answers(query, accepted), query.required.columns.gathered
        rows = np.arange(len(answers.found)) % len(query.samples)
        counts, own = (changed(one.counterfactuals != query.samples).sum(axis=1) for one in (near, answers))
        better = (near.distances[rows] < answers.distances) & (counts[rows] <= own)
        for name in Answers._fields[:-1]:
            if name != "lower_bounds":
                getattr(answers, name)[better] = getattr(near, name)[rows][better]
        proven = np.maximum(answers.lower_bounds, near.lower_bounds[rows])
        answers.lower_bounds[:] = np.minimum(proven, answers.distances)
    return answers


def _of_one(option: Any, theta: float, x: ArrayLike, options: dict[str, Any]) -> Query:
    """Check the arguments of what takes one sample only."""
    query = Query.of(option, theta, x, **options)
    if len(query.samples) != 1:
        raise ValueError(f"X must be one sample, of shape (d,); found {len(query.samples)}")
    return query


def _each(query: Query, solve: Callable[[Query], tuple[Answers, Any]]) -> tuple[Answers, list[Any]]:
    """Answer every sample, in this process or in several; return what else was found with each."""
    if len(query.samples) == 0:
        return valid_answers(query, query.accepted_set()), []
    solved = list(query.each(solve))
    return joined((answer for answer, _ in solved), len(solved)), [other for _, other in solved]
