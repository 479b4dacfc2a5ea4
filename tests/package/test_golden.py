"""Answers that an earlier edition gave for real models, frozen by golden/freeze.py: none may get worse."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from lvqrej import DecisionDistance, ProbabilisticCertainty, PrototypeModel, RelativeSimilarity, explain

FILE = Path(__file__).parent / "golden" / "answers.json.gz"
FROZEN = json.loads(gzip.decompress(FILE.read_bytes()))
#: How much farther an answer may be. Branch and bound over budgets stops at a gap, not at the nearest point.
FARTHER, FARTHER_BY_BUDGETS = 1e-6, 1e-2
#: Relative rounding of a lower bound, and of an equality to the sizes of its terms.
ROUNDING = 1e-9
#: Samples of a case where probabilities of three and more classes are combined, whose search takes longest.
FEW = 2


def option_of(stored):
    models = [PrototypeModel(*arrays) for arrays in stored["models"]]
    if stored["kind"] == "RelativeSimilarity":
        return RelativeSimilarity(models[0])
    if stored["kind"] == "DecisionDistance":
        return DecisionDistance(models[0], stored["norm"])
    pairs = dict(zip(map(tuple, stored["pairs"]), models, strict=True))
    return ProbabilisticCertainty.from_pairs(
        pairs, stored["alpha"], stored["beta"], stored["classes"], stored["normalize"]
    )


def check_requirements(required, x, z):
    """Assert that a counterfactual z of x meets all requirements but the target."""
    fixed, up, down = (required.get(name, []) for name in ("fixed", "increase_only", "decrease_only"))
    assert (z[fixed] == x[fixed]).all()
    assert (z[up] >= x[up]).all()
    assert (z[down] <= x[down]).all()
    for k, (low, high) in required.get("bounds", {}).items():
        assert low is None or z[k] >= low
        assert high is None or z[k] <= high
    rows = list(zip(*required.get("constraints", ((), ())), strict=True))
    for a, b in rows:
        equality = ([-value for value in a], -b) in rows
        size = np.abs(z * a).sum() + abs(b)
        assert (z * a).sum() <= b + (ROUNDING * size if equality else 0.0)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in FROZEN["cases"]])
def test_no_answer_is_worse_than_the_frozen_one(case):
    option, theta = option_of(FROZEN["options"][case["option"]]), case["theta"]
    many = isinstance(option, ProbabilisticCertainty) and len(option.classes) > 2
    names = ("samples", "found", "distances", "lower_bounds")
    samples, found, before, earlier = (np.array(case[name][: FEW if many else None]) for name in names)
    required = dict(case["requirements"])
    if "bounds" in required:
        required["bounds"] = {k: (low, high) for k, low, high in required["bounds"]}
    result = explain(option, theta, samples, on_infeasible="skip", noise=0, **required)

    assert result.found[found].all()
    answers = result.counterfactuals[result.found]
    for x, z, label in zip(samples[result.found], answers, result.labels[result.found], strict=True):
        check_requirements(required, x, z)
        assert option.accepts(z[None], theta)[0]
        assert option.predict(z[None])[0] == label
        assert required.get("target", label) == label

    now, bounds = result.distances, result.lower_bounds
    costs = np.abs(answers - samples[result.found]) * required.get("weights", 1.0)
    np.testing.assert_allclose(now[result.found], costs.sum(axis=1), rtol=1e-12)
    assert (now <= (1 + (FARTHER_BY_BUDGETS if many else FARTHER)) * before)[found].all()
    # An equality holds up to a rounding, by whose worth an answer may undercut a bound.
    above = FARTHER if "equality" in case["name"] else ROUNDING
    assert (bounds <= (1 + above) * now)[result.found].all()
    assert (bounds <= (1 + above) * before)[found].all()
    assert (earlier <= (1 + above) * now)[found].all()
