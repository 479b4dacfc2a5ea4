"""Counterfactual explanations of rejects: the nearest accepted input, with a certificate.

`explain` knows nothing of any particular reject option. It asks the option for the cells of its accepted set,
finds the nearest point of their union, and lets the option itself test every answer, without tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej._validation import (
    check_choice,
    check_names,
    check_number,
    check_samples,
    describe,
    dimensions,
    feature_names_of,
)
from lvqrej.cells import Cells
from lvqrej.certainty import Certainty, check_theta
from lvqrej.engine.diagnosis import reason_of
from lvqrej.engine.requirements import Requirements, check_requirements, mad_weights
from lvqrej.engine.search import PATHS
from lvqrej.engine.validity import Answers, valid_answers
from lvqrej.explanation import Explanation, Explanations, NoCounterfactualError

__all__ = [
    "Explanation",
    "Explanations",
    "NoCounterfactualError",
    "explain",
    "explain_per_class",
    "mad_weights",
]

Floats = NDArray[np.float64]

#: Samples and numbers per chunk: so many that handing one out costs nothing, so few that memory stays flat.
_CHUNK, _NUMBERS = 4096, 2**20
#: Where a sample takes milliseconds or more: chunks per worker, so that no worker waits long for another.
_PER_WORKER = 4


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
        together with its negative.
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
    samples, single = check_rejects(option, X)
    names = feature_names_of(X) or option.feature_names
    required = check_requirements(
        option.n_features, names, option.classes, weights=weights, fixed=fixed, bounds=bounds,
        increase_only=increase_only, decrease_only=decrease_only, constraints=constraints, target=target,
    )  # fmt: skip
    theta = check_theta(theta)
    check_choice(on_infeasible, "on_infeasible", ("raise", "skip"))
    check_jobs(n_jobs)
    union = accepted_set(option, theta, required)
    size = _chunk_size(union, required, len(samples), option.n_features, n_jobs)
    chunks = [samples[i : i + size] for i in range(0, max(len(samples), 1), size)]
    answers = _joined(_run(option, theta, union, required, chunks, n_jobs, progress), len(samples))
    result = _explanations(option, theta, union, required, samples, answers, on_infeasible, single)
    if single:
        return result[0]
    index = getattr(X, "index", None) if hasattr(X, "iloc") else None
    return result if index is None else replace(result, index=index)


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


def accepted_set(option: Certainty, theta: float, required: Requirements) -> Any:
    """Return the option's cells, narrowed to the target class and cut by the linear constraints."""
    union = option.cells(theta)
    if required.target is not None:
        union = union.with_label(required.target)
    if len(required.b):
        sizes = np.abs(getattr(union, "sites", np.zeros((1, option.n_features)))).max(axis=0, initial=0.0)
        union = union.narrowed(required.half_spaces(sizes))
    return union


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
    check_jobs(n_jobs)
    from joblib import effective_n_jobs

    return effective_n_jobs(n_jobs)


def _chunk_size(union: Any, required: Requirements, n: int, d: int, n_jobs: int | None) -> int:
    """Return the number of samples per chunk.

    Compiled loops over `Cells` take microseconds per sample; with linear constraints cone programs take over.
    """
    largest = max(1, min(_CHUNK, _NUMBERS // d))
    if (isinstance(union, Cells) and len(required.b) == 0) or n <= 1:
        return largest
    return min(largest, -(-n // (_PER_WORKER * workers(n_jobs))))


def _run(
    option: Certainty,
    theta: float,
    union: Cells,
    required: Requirements,
    chunks: list[Floats],
    n_jobs: int | None,
    progress: bool,
) -> Iterable[Answers]:
    """Answer all chunks, one after the other, in this process or in several."""
    if len(chunks) <= 1 or workers(n_jobs) == 1:
        answers: Any = (valid_answers(option, theta, union, required, chunk) for chunk in chunks)
    else:
        from joblib import Parallel, delayed

        tasks = (delayed(_answer)((option, theta, union, required, chunk)) for chunk in chunks)
        answers = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    if progress:
        from tqdm.auto import tqdm

        return tqdm(answers, total=len(chunks), desc="explain", unit="chunk")
    return answers


def _answer(arguments: tuple[Any, ...]) -> Answers:
    """Answer one chunk.

    Its arguments are one tuple, which joblib hands to a Dask cluster with the call; arrays it would leave
    with one worker, and lose with it.
    """
    return valid_answers(*arguments)


def _joined(parts: Iterable[Answers], n: int) -> Answers:
    """Return the answers of all chunks as one; each is copied as it comes, so that no two are kept."""
    result, done = None, 0
    for part in parts:
        if len(part.found) == n:
            return part
        if result is None:
            result = Answers(*(np.empty((n, *column.shape[1:]), column.dtype) for column in part))
        for whole, column in zip(result, part, strict=True):
            whole[done : done + len(column)] = column
        done += len(part.found)
    assert result is not None
    return result


def _explanations(
    option: Certainty,
    theta: float,
    union: Any,
    required: Requirements,
    samples: Floats,
    answers: Answers,
    on_infeasible: str,
    single: bool,
) -> Explanations:
    """Assemble the result; find the reasons of what has no answer."""
    reasons = {}
    for i in np.flatnonzero(~answers.found):
        who = "" if single else f"sample {i}: "
        reasons[int(i)] = who + reason_of(option, theta, samples[i], required, on_infeasible == "raise")
        if on_infeasible == "raise":
            raise NoCounterfactualError(reasons[int(i)])
    return Explanations(
        samples=samples.copy(),  # they may be the caller's, who goes on with them
        counterfactuals=answers.points,
        distances=answers.distances,
        lower_bounds=answers.bounds,
        certainties_before=answers.certainties_before,
        certainties=answers.certainties,
        labels=answers.labels,
        found=answers.found,
        reasons=reasons,
        paths=[PATHS[code] for code in answers.paths],
        theta=theta,
        feature_names=required.names,
        certainty_name=option.name,
        _cells=answers.cells,
        _union=union,
        _option=option,
        _required=required,
    )
