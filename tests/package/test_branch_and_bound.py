"""Branch and bound on problems whose answers are known."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lvqrej.branch_and_bound import Problem, branch_and_bound

modest = settings(max_examples=60)
seeds = st.integers(0, 2**32 - 1)


class Staircase(Problem):
    """min over a grid of integers; a node is an interval, its bound off by its length."""

    def __init__(self, values, blur=1.0):
        self.values, self.blur, self.relaxed = values, blur, 0

    def relax(self, node, cutoff):
        self.relaxed += 1
        low, high = node
        return max(0.0, self.values[low:high].min() - self.blur * (high - low - 1)), None

    def restrict(self, node, relaxed):
        middle = (node[0] + node[1]) // 2
        return self.values[middle], middle

    def branch(self, node, relaxed, cutoff):
        low, high = node
        middle = (low + high) // 2
        return [(low, middle), (middle, high)] if high - low > 1 else []


@modest
@given(seeds, st.floats(0, 0.5))
def test_the_minimum_is_found_within_the_gap(seed, gap):
    values = np.random.default_rng(seed).uniform(1, 9, 64)
    (found,) = branch_and_bound(Staircase(values), [(0, 64)], gap, 10_000)
    assert found.bound <= values.min() <= found.value
    assert found.value - found.bound <= gap * found.value + 1e-12
    assert values[found.answer] == found.value


@modest
@given(seeds, st.integers(0, 12))
def test_the_bound_holds_whatever_the_effort(seed, effort):
    values = np.random.default_rng(seed).uniform(1, 9, 64)
    problem = Staircase(values)
    (found,) = branch_and_bound(problem, [(0, 64)], 0.0, effort)
    assert found.bound <= values.min()
    assert problem.relaxed <= effort


@modest
@given(seeds)
def test_a_part_in_which_nothing_was_found_still_bounds(seed):
    values = np.random.default_rng(seed).uniform(1, 9, 64)

    class Blind(Staircase):
        def restrict(self, node, relaxed):
            value, place = super().restrict(node, relaxed)
            return (value, place) if value > values.min() else (np.inf, None)

    (found,) = branch_and_bound(Blind(values), [(0, 64)], 0.0, 10_000)
    assert found.bound <= values.min() < found.value < np.inf


def test_a_bound_that_is_taken_ends_the_search():
    problem = Staircase(np.arange(1.0, 65.0), blur=0.0)
    (found,) = branch_and_bound(problem, [(0, 64)], 0.0, 1000)
    assert (found.value, found.answer, found.bound) == (1.0, 0, 1.0)
    assert problem.relaxed < 20


def test_an_empty_domain_has_an_infinite_bound():
    class Empty(Staircase):
        def relax(self, node, cutoff):
            return np.inf, None

    (found,) = branch_and_bound(Empty(np.ones(2)), [(0, 2)], 0.1, 10)
    assert found.answer is None
    assert found.value == found.bound == np.inf
