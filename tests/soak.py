"""Many random cases through `explain`: every answer valid, every bound a bound, every gap small.

Run as ``python tests/soak.py --cases 100000`` (about five minutes); a case is one sample of a random problem,
and one problem in eight asks for more than acceptance: bounds, fixed features, directions, constraints, a
target. The exit code is the number of failures, at most 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from random_models import Case, random_case, random_requirements, rounding_length

from lvqrej.counterfactual import explain
from lvqrej.engine.requirements import check_requirements
from lvqrej.engine.validity import is_valid

#: Samples per random problem.
_SAMPLES = 8


def check(case: Case, asked: dict[str, Any], result: Any) -> float:
    """Assert that all answers are valid, finite, certified and near optimal; return the worst gap.

    A gap counts beyond rounding: a distance cannot be better known than the features themselves. Where r_Dist
    jumps (lattice models have cells without interior) the infimum need not be attained: the gap is reported,
    and the answer is valid all the same.
    """
    found = result.found
    if not asked and not found.all():  # then nobody else finds anything either
        rng = np.random.default_rng(0)
        centre, spread = case.option.model.prototypes.mean(axis=0), case.option.model.prototypes.std(axis=0)
        draws = rng.normal(size=(3000, len(centre))) * 10 ** rng.uniform(-1, 5, size=(3000, 1))
        assert not found.any()
        assert not case.option.accepts(centre + draws * spread, case.theta).any()
        return 0.0
    assert set(result.reasons) == set(np.flatnonzero(~found))
    if not found.any():
        return 0.0
    points, X = result.counterfactuals[found], result.samples[found]
    assert np.isfinite(points).all()
    required = check_requirements(len(case.weights), None, case.option.classes, **asked)
    assert is_valid(case.option, case.theta, required, points).all()
    lower, upper = required.box(X)
    assert ((lower <= points) & (points <= upper)).all()
    np.testing.assert_array_equal(result.labels[found], case.option.predict(points))
    np.testing.assert_allclose(
        result.distances[found], (np.abs(points - X) * case.weights).sum(axis=1), rtol=1e-12
    )
    assert (result.lower_bounds[found] <= result.distances[found]).all()
    assert not np.isnan(result.lower_bounds).any()
    excess = result.distances[found] - result.lower_bounds[found] - 100 * rounding_length(case)
    return float((excess / np.maximum(result.distances[found], 1e-300)).max(initial=0.0))


def run(cases: int, seed: int = 0, verbose: bool = False) -> dict[str, Any]:
    """Run random cases and return a summary."""
    paths: Counter[str] = Counter()
    failures, open_gaps, worst, done, problem, valid = 0, 0, 0.0, 0, 0, 0
    begin = time.perf_counter()
    while done < cases:
        n = min(_SAMPLES, cases - done)
        case = random_case(seed * 10**9 + problem, n=max(n, 2))
        try:
            asked = random_requirements(case, seed * 10**9 + problem)
            result = explain(
                case.option, case.theta, case.X, weights=case.weights, on_infeasible="skip", **asked
            )
            gap = check(case, asked, result)
            valid += int(result.found[:n].sum())
            worst = max(worst, gap)
            open_gaps += gap > 1e-6
            paths.update(result.paths[:n])
        except (AssertionError, ValueError, ArithmeticError) as error:
            failures += 1
            print(f"problem {seed * 10**9 + problem}: {error!r}"[:500], file=sys.stderr)
        done += n
        problem += 1
        if verbose and problem % 1000 == 0:
            print(f"{done} cases, {failures} failures, {time.perf_counter() - begin:.0f} s", flush=True)
    return {
        "cases": done,
        "problems": problem,
        "valid": valid,
        "without_a_counterfactual": done - valid,
        "failures": failures,
        "problems_with_a_gap_above_1e-6": open_gaps,
        "worst_gap": worst,
        "paths": dict(paths),
        "seconds": round(time.perf_counter() - begin, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    summary = run(arguments.cases, arguments.seed, verbose=True)
    for key, value in summary.items():
        print(f"{key:32} {value}")
    sys.exit(summary["failures"] > 0)
