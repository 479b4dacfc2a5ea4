"""Why there is no counterfactual: the smallest relaxation of the requirements that would allow one."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.certainty import Certainty
from lvqrej.engine.requirements import Requirements

Floats = NDArray[np.float64]

#: As many features a sentence names.
NAMED = 6


def reason_of(
    option: Certainty, theta: float, x: Floats, required: Requirements, with_limit: bool = True
) -> str:
    """Return a sentence that names the requirement at fault for a sample without a counterfactual.

    `with_limit` adds the largest threshold that could be reached, which takes a bisection.
    """
    goal = f"a {option.name} of {theta:g}"
    # A certainty may accept only part of what is certain enough; `plain` is then the one without that.
    plain = getattr(option, "plain", None)
    outside = plain is not None and _possible(plain, theta, x, required)
    if not _possible(option, theta, x, required.without(required.groups())):
        limit = (
            _largest_threshold(option, theta, x, required.without(required.groups())) if with_limit else ""
        )
        if outside:
            return f"no input among the training data reaches {goal}{limit}; one exists outside their region"
        return f"no input reaches {goal}{limit}: lower theta"
    groups = required.groups()
    for size in range(1, len(groups) + 1):
        helpful = [
            names
            for names in combinations(groups, size)
            if _possible(option, theta, x, required.without(names))
        ]
        if helpful:
            break
    blames = [_blames(option, theta, x, required, names) for names in helpful]
    limit = _largest_threshold(option, theta, x, required) if with_limit else ""
    instead = ", or without ".join(blames) + (", or outside the training data's region" if outside else "")
    return f"with {_listed(groups, ' and ')}, no input reaches {goal}{limit}; one exists without {instead}"


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
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} others"]
    return joint.join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _possible(option: Certainty, theta: float, x: Floats, required: Requirements) -> bool:
    """Return whether the sample has a valid counterfactual under these requirements."""
    from lvqrej.counterfactual import accepted_set
    from lvqrej.engine.validity import valid_answers

    union: Any = accepted_set(option, theta, required)
    return bool(valid_answers(option, theta, union, required, x[None]).found[0])


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
