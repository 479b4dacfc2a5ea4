"""Branch and bound on problems whose answers are known, and the interior-point method against CVXPY."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvqrej.pairwise.covering import filled
from lvqrej.pairwise.interior import interior_point
from lvqrej.pairwise.programs import Convex, cheapest_budgets, without_budgets
from lvqrej.varying.branching import branch_and_bound

modest = settings(max_examples=60)
seeds = st.integers(0, 2**32 - 1)


class Staircase:
    """min over a grid of integers; a node is an interval, its bound off by its length."""

    def __init__(self, values, blur=1.0, known=np.inf):
        self.values, self.blur, self.known, self.relaxed = values, blur, known, 0

    def start(self):
        return self.known, "known"

    def roots(self):
        half = len(self.values) // 2
        return [(0.0, (0, half)), (0.0, (half, len(self.values)))]

    def relax(self, node, cutoff):
        self.relaxed += 1
        low, high = node
        return max(0.0, self.values[low:high].min() - self.blur * (high - low - 1)), None

    def restrict(self, node, relaxed, cutoff):
        middle = (node[0] + node[1]) // 2
        return self.values[middle], middle

    def branch(self, node, relaxed):
        low, high = node
        middle = (low + high) // 2
        return [(low, middle), (middle, high)] if high - low > 1 else []


@modest
@given(seeds, st.floats(0, 0.5))
def test_branch_and_bound_finds_the_minimum_within_its_gap(seed, gap):
    values = np.random.default_rng(seed).uniform(1, 9, 64)
    found = branch_and_bound(Staircase(values), gap, 10_000)
    assert found.bound <= values.min() <= found.value
    assert found.value - found.bound <= gap * found.value + 1e-12
    assert values[found.answer] == found.value


@modest
@given(seeds, st.integers(0, 12))
def test_the_bound_holds_whatever_the_effort(seed, effort):
    values = np.random.default_rng(seed).uniform(1, 9, 64)
    problem = Staircase(values)
    found = branch_and_bound(problem, 0.0, effort)
    assert found.bound <= values.min()
    assert problem.relaxed == found.nodes <= effort


def test_a_known_value_cuts_off_from_the_start():
    values = np.arange(1.0, 65.0)[::-1].copy()
    found = branch_and_bound(Staircase(values, blur=0.0, known=1.0), 0.0, 1000)
    assert (found.value, found.answer, found.bound) == (1.0, "known", 1.0)
    assert found.nodes < 20


def test_nothing_to_search_is_an_empty_domain():
    class Empty(Staircase):
        def roots(self):
            return []

    found = branch_and_bound(Empty(np.ones(2)), 0.1, 10)
    assert found.value == found.bound == np.inf


def random_program(rng, budgets):
    """A few balls in their own metrics and half-spaces around a point that meets them all."""
    d, M = int(rng.integers(1, 6)), int(rng.integers(1, 3))
    metrics = rng.normal(size=(M, int(rng.integers(1, d + 1)), d))
    inside = rng.normal(size=d)
    m = int(rng.integers(1, 5))
    metric = rng.integers(-1, M, size=m)
    s = np.where(metric < 0, 0.0, rng.uniform(0.1, 2, m))
    C = np.array(
        [rng.normal(size=d) if i < 0 else rng.normal(size=metrics.shape[1]) @ metrics[i] for i in metric]
    )
    G = np.array([L.T @ L for L in metrics])
    at = np.array([0.0 if i < 0 else inside @ G[i] @ inside for i in metric])
    g = -(s * at - 2 * C @ inside) - rng.uniform(0.1, 1, m)
    J = int(rng.integers(2, 4)) if budgets else 0
    h = np.where(np.arange(m) < m, rng.uniform(0.1, 1, m), 0.0) if budgets else np.zeros(m)
    which = rng.integers(0, J, size=m) if budgets else np.full(m, -1)
    if budgets:
        g -= h * np.log(J)  # so that equal budgets leave room
    program = Convex(
        metric, s, C, g, np.abs(g) + 1, np.full(m, 10.0), h, which,
        np.ones(J), np.full(J, 1e-3), np.full(J, 0.99), 1.0,
    )  # fmt: skip
    lo = np.where(rng.random(d) < 0.3, np.minimum(inside, 0.0) - 0.1, -np.inf)
    hi = np.where(rng.random(d) < 0.3, np.maximum(inside, 0.0) + 0.1, np.inf)
    return metrics, G, program, lo, hi


def with_cvxpy(metrics, program, lo, hi):
    """The same program, as it is written."""
    beta = cp.Variable(len(lo))
    y = cp.Variable(len(program.cost)) if len(program.cost) else None
    constraints = [beta[k] >= lo[k] for k in np.flatnonzero(np.isfinite(lo))]
    constraints += [beta[k] <= hi[k] for k in np.flatnonzero(np.isfinite(hi))]
    if y is not None:
        constraints += [program.cost @ y <= program.total, y >= program.low, y <= program.high]
    for c in range(len(program.g)):
        f = program.g[c] - 2 * program.C[c] @ beta
        if program.metric[c] >= 0:
            f += program.s[c] * cp.sum_squares(metrics[program.metric[c]] @ beta)
        if program.budget[c] >= 0:
            f -= program.h[c] * cp.log(y[program.budget[c]])
        constraints.append(f <= 0)
    problem = cp.Problem(cp.Minimize(cp.norm1(beta)), constraints)
    problem.solve(solver="CLARABEL")
    return float(problem.value)


@settings(max_examples=40)
@given(seeds, st.booleans())
def test_the_interior_point_method_agrees_with_cvxpy(seed, budgets):
    metrics, G, program, lo, hi = random_program(np.random.default_rng(seed), budgets)
    expected = with_cvxpy(metrics, program, lo, hi)
    found = interior_point(G, program, lo, hi, np.inf, 1e-7)
    assert found.bound <= expected + 1e-6 * (1 + expected)
    assert found.bound >= expected - 1e-4 * (1 + expected)
    assert found.violation <= 1e-5
    assert (found.beta >= lo - 1e-9).all()
    assert (found.beta <= hi + 1e-9).all()


@modest
@given(seeds)
def test_every_bound_on_the_way_holds(seed):
    rng = np.random.default_rng(seed)
    _, G, program, lo, hi = random_program(rng, bool(rng.integers(2)))
    final = interior_point(G, program, lo, hi, np.inf, 1e-8).bound
    for steps in range(1, 6):
        assert interior_point(G, program, lo, hi, np.inf, 1e-8, steps).bound <= final * (1 + 1e-6) + 1e-9


def test_an_empty_set_has_an_infinite_bound():
    left = without_budgets(
        np.array([-1, -1]),
        np.zeros(2),
        np.array([[0.5], [-0.5]]),
        np.array([1.0, 1.0]),
        np.ones(2),
        np.ones(2),
    )
    free = np.array([np.inf])
    assert interior_point(np.zeros((1, 1, 1)), left, -free, free, np.inf, 1e-6).bound == np.inf


def test_a_bound_beyond_the_cutoff_stops():
    far = without_budgets(
        np.array([0]), np.ones(1), np.array([[9.0, 0.0]]), np.array([80.0]), np.array([82.0]), np.array([9.0])
    )
    free = np.full(2, np.inf)
    full = interior_point(np.eye(2)[None], far, -free, free, np.inf, 1e-8)
    cut = interior_point(np.eye(2)[None], far, -free, free, 1.0, 1e-8)
    assert full.bound == pytest.approx(8.0, rel=1e-6)
    assert 1.0 <= cut.bound <= 8.0
    assert cut.steps < full.steps


@modest
@given(seeds)
def test_no_budgets_are_cheaper_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    J = int(rng.integers(1, 5))
    weight, cost = rng.uniform(0, 2, J), rng.uniform(0.1, 1, J)
    low, high = rng.uniform(0.01, 0.1, J), rng.uniform(0.2, 2, J)
    total = cost @ low + rng.uniform(0.01, 1)
    y = low + rng.uniform(0, 1, (500, J)) * (high - low)
    y = y[y @ cost <= total]
    bounds = [
        cheapest_budgets(weight, cost, low, high, total, price) for price in np.geomspace(1e-3, 1e3, 60)
    ]
    assert max(bounds) <= min([-(weight * np.log(row)).sum() for row in y], default=np.inf) + 1e-9


@modest
@given(seeds)
def test_filling_finds_the_least_over_a_box_of_budgets(seed):
    """No budgets of the box cost less than the bound, and those it names cost just that."""
    rng = np.random.default_rng(seed)
    J = int(rng.integers(1, 6))
    v, low = rng.normal(size=J) + 0.5, rng.uniform(0.01, 0.1, J)
    high = low + rng.uniform(0.05, 1, J)
    total = float(low.sum() + rng.uniform(0.01, 1) * (high - low).sum())
    w = np.empty(J)
    bound = filled(v, low, high, total, w)
    assert (w >= low).all()
    assert (w <= high).all()
    assert w.sum() <= total * (1 + 1e-9)
    assert bound == pytest.approx(-(v * np.log(w)).sum(), abs=1e-9)
    near = np.clip(w + rng.normal(size=(500, J)) * 10 ** rng.uniform(-4, 0, (500, 1)), low, high)
    y = np.vstack([near, low + rng.uniform(0, 1, (500, J)) * (high - low)])
    y = y[y.sum(axis=1) <= total]
    assert (-(v * np.log(y)).sum(axis=1) >= bound - 1e-9).all()
