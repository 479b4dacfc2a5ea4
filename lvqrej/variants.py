"""Other explanations of the same reject: sparser, several, robust, plausible.

Each takes the options of `explain` and returns what it returns, certified in the same way: the option itself
tests every answer, and `lower_bound` holds among all answers of the kind that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej._validation import check_choice, check_number
from lvqrej.counterfactual import explain
from lvqrej.engine.diagnosis import reason_of
from lvqrej.engine.requirements import feature_mask
from lvqrej.explanation import Explanations
from lvqrej.varying.differing import best_first, one_per_class
from lvqrej.varying.hitting import fewest_changes
from lvqrej.varying.plausibility import Plausible
from lvqrej.varying.reach import Answer, Reach
from lvqrej.varying.robustness import Practice, practicable, why_impracticable
from lvqrej.varying.variant_answers import Asked, VariantExplanation, VariantExplanations, amounts

__all__ = [
    "Plausible",
    "VariantExplanation",
    "VariantExplanations",
    "plausible",
    "robust",
    "several",
    "sparsest",
    "trade_off",
]

Floats = NDArray[np.float64]


def sparsest(option: Any, theta: float, X: ArrayLike, *, effort: int = 500, **options: Any) -> Any:
    """Explain with as few features as possible, and among these answers by the nearest one.

    min |{k: delta_k != 0}|, then min sum_k w_k |delta_k|, by hitting sets (`lvqrej.varying.hitting`).

    Parameters
    ----------
    option, theta, X
        As in `explain`.
    effort : int
        Number of sets of features tried, per sample. If it runs out, `fewest` and `lower_bound` say what is
        proven; the answer never changes more features than that of `explain`.
    **options
        Those of `explain`.

    Returns
    -------
    VariantExplanations, or VariantExplanation for a single sample
        `fewest` features have to change at least: the answer is the sparsest if it changes as many. (A set
        of features counts as unable if no change of it is shorter than 10^6 times the nearest answer.)

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [4, 3]], ["a", "b"]))
    >>> near = explain(option, 0.3, [2, 1.5], bounds={0: (1, 3)})
    >>> few = sparsest(option, 0.3, [2, 1.5], bounds={0: (1, 3)})
    >>> [(len(why.changed), round(why.distance, 3)) for why in (near, few)], few.fewest
    ([(2, 2.167), (1, 2.5)], 1)
    """
    asked = Asked.of(option, theta, X, **options)
    tries = int(check_number(effort, "effort", low=0, integer=True))
    answers = asked.each(partial(_sparsest, effort=tries))
    result = asked.result(answers, _counted(asked, answers), _plain_reason(asked), sparse=True)
    return result[0] if asked.single else result


def _sparsest(reach: Reach, effort: int) -> Answer:
    levels = fewest_changes(reach, effort)
    return levels[0] if levels else Answer(None, np.inf, np.inf)


def trade_off(option: Any, theta: float, x: ArrayLike, *, effort: int = 2000, **options: Any) -> Any:
    """Return the nearest answers of at most 1, 2, 3, ... features, as far as more features help.

    The curve of l1 against l0: from `sparsest`, where it starts, to `explain`, where it ends.

    Parameters
    ----------
    option, theta
        As in `explain`.
    x : array-like of shape (d,)
    effort : int
        Number of sets of features tried.
    **options
        Those of `explain`.

    Returns
    -------
    VariantExplanations
        One row per number of features (`counts`), distances falling.

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [4, 3]], ["a", "b"]))
    >>> curve = trade_off(option, 0.3, [2, 1.5], bounds={0: (1, 3)})
    >>> curve.counts, curve.distances.round(3)
    (array([1, 2]), array([2.5  , 2.167]))
    """
    asked = Asked.of(option, theta, x, **options)
    tries = int(check_number(effort, "effort", low=0, integer=True))
    answers = fewest_changes(asked.one(), tries, curve=True) or [Answer(None, np.inf, np.inf)]
    return asked.result(answers, _counted(asked, answers), _plain_reason(asked), sparse=True)


def _counted(asked: Asked, answers: list[Answer]) -> list[str]:
    """Say of how many features each answer is."""
    samples = asked.samples if len(asked.samples) == len(answers) else [asked.samples[0]] * len(answers)
    changed = [
        0 if a.point is None else int((a.point != x).sum()) for a, x in zip(answers, samples, strict=True)
    ]
    return [f" of {n} feature{'s' if n > 1 else ''}" for n in changed]


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
    option, theta
        As in `explain`.
    x : array-like of shape (d,)
    k : int
        The number of answers wanted.
    differ : {"features", "classes"}
        "features": each answer leaves unchanged at least `apart` of the features any earlier one changes
        (all, if those are fewer), and is the nearest such answer. "classes": the nearest answer of each
        class, nearest class first.
    apart : int
        With the number of features as `apart` no two answers have a feature in common.
    **options
        Those of `explain`; no `target` with "classes".

    Returns
    -------
    VariantExplanations
        At most k rows, in the order of their distances: fewer if there are no more.

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [4, 3]], ["a", "b"]))
    >>> [why.changed for why in several(option, 0.3, [2, 1.5])]
    [[0], [1]]
    >>> several(option, 0.3, [2.1, 1.5], differ="classes").labels
    array(['b', 'a'], dtype='<U1')
    """
    check_choice(differ, "differ", ("features", "classes"))
    wanted = int(check_number(k, "k", low=1, integer=True))
    other = int(check_number(apart, "apart", low=1, integer=True))
    asked = Asked.of(option, theta, x, **options)
    if differ == "classes":
        if options.get("target") is not None:
            raise ValueError("target cannot be given with differ='classes': every class is a target")
        answers = one_per_class(asked.one())[:wanted]
        scopes = [" to this class"] * len(answers)
    else:
        answers = best_first(asked.one(), wanted, other)
        scopes = [" with other features than the former" if i else "" for i in range(len(answers))]
    none = [Answer(None, np.inf, np.inf)]
    return asked.result(answers or none, scopes or [""], _plain_reason(asked))


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
    changed features; delta_k = 0 or |delta_k| >= least_k; x_k + delta_k integer where asked.

    Parameters
    ----------
    option, theta, X
        As in `explain`.
    error : float, array-like of shape (d,) or mapping of feature to float, optional
        How far a changed feature may end up from what was intended. Features that stay as they are have none.
    least : float, array-like of shape (d,) or mapping of feature to float, optional
        The smallest change that matters: smaller ones are not proposed.
    integers : list of features
        Features whose values are whole numbers, in X as in the answer.
    effort : int, optional
        Number of relaxations solved, per sample; 60 if None, 8 if each is itself a branch and bound (three or
        more probabilities). If it runs out, `lower_bound` says what is proven.
    **options
        Those of `explain`. They are asked of the intended value, acceptance of all that errors make of it.

    Returns
    -------
    VariantExplanations, or VariantExplanation for a single sample
        `worst_certainty` is the smallest certainty at the corners of the box of errors. The whole box is
        accepted: it lies in one convex cell of the accepted set, as its corners do.

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity
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
    asked = Asked.of(option, theta, X, **options)
    names = asked.required.names
    practice = Practice(
        amounts(error, "error", names),
        amounts(least, "least", names),
        feature_mask(integers, "integers", names),
    )
    found = asked.samples[:, practice.whole]
    if (found != np.round(found)).any():
        raise ValueError(
            f"X must hold whole numbers in the features of integers; found {found[found % 1 != 0][0]}"
        )
    tries = None if effort is None else int(check_number(effort, "effort", low=1, integer=True))
    answers = asked.each(partial(practicable, practice=practice, effort=tries))
    scope = " that can be carried out so"
    reason = partial(
        why_impracticable, practice=practice, effort=tries, with_limit=asked.on_infeasible == "raise"
    )
    result = asked.result(answers, [scope] * len(answers), reason, errors=True)
    return result[0] if asked.single else result


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
    option, theta, X
        As in `explain`.
    data : array-like of shape (n, d)
        Training samples.
    labels : array-like of shape (n,)
        Their classes.
    level : float
        The share of each class that its region, an ellipsoid, holds.
    **options
        Those of `explain`.

    Returns
    -------
    VariantExplanations, or VariantExplanation for a single sample

    Examples
    --------
    >>> from lvqrej import DecisionDistance, PrototypeModel
    >>> data, labels = [[0, 0], [0, 1], [1, 1], [3, 0], [4, 1], [4, 0]], ["a", "a", "a", "b", "b", "b"]
    >>> option = DecisionDistance(PrototypeModel([[0.3, 0.7], [3.7, 0.3]], ["a", "b"]))
    >>> explain(option, 0.3, [2, 3]).counterfactual.round(2)
    array([1.26, 3.  ])
    >>> plausible(option, 0.3, [2, 3], data=data, labels=labels, level=1).counterfactual.round(2)
    array([1.06, 1.29])
    """
    result = explain(Plausible(option, data, labels, level), theta, X, **options)
    parts = {item.name: getattr(result, item.name) for item in fields(result)}
    scope = " among the training data"
    if isinstance(result, Explanations):
        return VariantExplanations(**parts, scopes=[scope] * len(result))
    return VariantExplanation(**parts, scope=scope)


def _plain_reason(asked: Asked) -> Callable[[Reach, Answer], str]:
    """Return what `explain` says about a sample without a counterfactual."""

    def reason(reach: Reach, answer: Answer) -> str:
        return reason_of(asked.option, asked.theta, reach.x, asked.required, asked.on_infeasible == "raise")

    return reason
