"""Many random cases through `explain`: answers valid, no bound refuted, no crash; the share of open gaps.

Run as ``python tests/soak.py --cases 100000``. A case is one sample of a random problem; one problem in eight
asks for more than acceptance: bounds, fixed features, directions, constraints, a target. The exit code is 1
if anything failed. A gap is no failure: it is reported.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np
from oracles import meets
from random_models import Case, random_case, random_requirements, rounding_length

from lvqrej import explain

#: Samples per random problem.
_SAMPLES = 8
#: The gap that counts as open.
OPEN = 1e-6


def check(case: Case, asked: dict[str, Any], result: Any) -> np.ndarray:
    """Assert that all answers are valid and no bound is refuted; return the gaps of what was found.

    A gap counts beyond rounding: a distance cannot be better known than the features themselves.
    """
    found, slack = result.found, 100 * rounding_length(case)
    assert set(result.reasons) == set(np.flatnonzero(~found))
    assert np.isnan(result.counterfactuals[~found]).all()
    assert not np.isnan(result.lower_bounds).any()
    Z, X = result.counterfactuals[found], result.samples[found]
    distances, bounds = result.distances[found], result.lower_bounds[found]
    if found.any():
        assert meets(case.option, case.theta, asked, X, Z).all(), "an answer is not valid"
        np.testing.assert_array_equal(result.labels[found], case.option.predict(Z))
        np.testing.assert_array_equal(result.certainties[found], case.option.certainty(Z))
        np.testing.assert_allclose(distances, (np.abs(Z - X) * case.weights).sum(axis=1), rtol=1e-12)
        assert (bounds <= distances).all(), "a bound exceeds its answer"
    for others, limit in _others(case, result):
        shorter = (np.abs(others - result.samples) * case.weights).sum(axis=1) < limit - slack
        valid = meets(case.option, case.theta, asked, result.samples, others)
        assert not (shorter & valid).any(), "a bound is refuted by a nearer point"
    return np.maximum(distances - bounds - slack, 0.0) / np.maximum(distances, 1e-300)


def _others(case: Case, result: Any) -> Any:
    """Yield points that might be nearer than the bounds: prototypes, others' answers, shortened changes."""
    bounds = result.lower_bounds
    known = np.vstack([case.option.model.prototypes, result.counterfactuals[result.found]])
    for point in known[np.random.default_rng(0).permutation(len(known))[:20]]:
        yield np.broadcast_to(point, result.samples.shape), bounds
    delta = np.where(result.found[:, None], result.counterfactuals - result.samples, 0.0)
    far = result.found & (result.distances > 0)
    share = np.divide(bounds, result.distances, out=np.zeros(len(bounds)), where=far)
    for step in (1e-9, 1e-6, 1e-3, 0.1):
        yield result.samples + ((1 - step) * np.minimum(share, 1.0))[:, None] * delta, bounds


def run(cases: int, seed: int = 0, verbose: bool = False) -> dict[str, Any]:
    """Run random cases and return a summary."""
    paths: Counter[str] = Counter()
    gaps: list[np.ndarray] = []
    failures, proven, done, problem = 0, 0, 0, seed * 10**9
    begin = time.perf_counter()
    while done < cases:
        case = random_case(problem, n=_SAMPLES)
        asked = random_requirements(case, problem)
        try:
            result = explain(
                case.option, case.theta, case.X, weights=case.weights, noise=0, on_infeasible="skip", **asked
            )
            gaps.append(check(case, asked, result))
            proven += int(np.isinf(result.lower_bounds[~result.found]).sum())
            paths.update(result.paths)
        except Exception as error:  # whatever it is, the other cases are of interest too
            failures += 1
            print(f"problem {problem}: {error!r}"[:500], file=sys.stderr)
        done += len(case.X)
        problem += 1
        if verbose and problem % 1000 == 0:
            print(f"{done} cases, {failures} failures, {time.perf_counter() - begin:.0f} s", flush=True)
    all_gaps = np.concatenate(gaps)
    return {
        "cases": done,
        "failures": failures,
        "valid": len(all_gaps),
        "without a counterfactual": done - len(all_gaps) - failures * _SAMPLES,
        "of these proven": proven,
        f"share of gaps above {OPEN:g}": float((all_gaps > OPEN).mean()),
        "worst gap": float(all_gaps.max()),
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
        print(f"{key:28} {value}")
    sys.exit(summary["failures"] > 0)
