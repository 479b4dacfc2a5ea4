"""The solvers against HiGHS, CVXPY and fractions; whatever they find, no bound exceeds a point of the set."""

from fractions import Fraction

import numpy as np
import pytest
from oracles import exactly_inside, linear_optimum, plain_program
from random_models import random_case

from lvqrej import DecisionDistance, PrototypeModel, RelativeSimilarity
from lvqrej.cells import NONE, PATHS, START, Ball, Cell, Cells, HalfSpace
from lvqrej.solvers.certificate import certified, knapsack, knapsack_change
from lvqrej.solvers.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED, homotopy
from lvqrej.solvers.simplex import dual_simplex

EPS = float(np.finfo(float).eps)


def random_boxes(rng, n, d):
    """Return lo <= 0 <= hi with fixed, one-way, bounded and free features, of shape (n, d)."""
    lo, hi = -rng.exponential(size=(n, d)), rng.exponential(size=(n, d))
    kind = rng.integers(5, size=(n, d))
    lo[kind == 0] = hi[kind == 0] = 0
    lo[kind == 1] = 0
    hi[(kind == 1) | (kind == 2)] = np.inf
    lo[kind == 2] = -np.inf
    return lo, hi


def free(n, d):
    return np.full((n, d), -np.inf), np.full((n, d), np.inf)


def within(lo, hi):
    """Return bounds as what `plain_program` takes as `extra`, for a sample at 0."""
    down, up = np.isfinite(lo), np.isfinite(hi)
    return lambda z: [z[down] >= lo[down]] * bool(down.any()) + [z[up] <= hi[up]] * bool(up.any())


# The certificate


def test_knapsack_equals_highs():
    rng = np.random.default_rng(0)
    lo, hi = random_boxes(rng, 60, 5)
    q, tau = np.round(rng.normal(size=(60, 5)), 1), rng.normal(size=60) + 0.5
    expected = [linear_optimum(q[[i]], tau[[i]], lo[i], hi[i]) for i in range(60)]
    assert {0.0, np.inf} < set(expected)
    np.testing.assert_allclose(knapsack(q, tau, lo, hi), expected, atol=1e-12)
    change, there = knapsack_change(q, tau, lo, hi), np.isfinite(expected)
    np.testing.assert_allclose(np.abs(change).sum(axis=1)[there], np.array(expected)[there], atol=1e-12)
    assert ((q * change).sum(axis=1) >= tau - 1e-12)[there].all()
    assert ((lo <= change) & (change <= hi)).all()


def test_the_certified_value_holds_for_all_that_rounding_may_have_hidden():
    """Errors of a tenth instead of 1e-14, so that a wrong sign or a missing term shows."""
    rng = np.random.default_rng(1)
    n, d, unit = 2000, 3, 0.1
    lo, hi = random_boxes(rng, n, d)
    q, tau = rng.normal(size=(n, d)), rng.exponential(size=n)
    q_size, tau_size = np.abs(q) + rng.exponential(size=(n, d)), tau + rng.exponential(size=n)
    q[rng.random((n, d)) < 0.3] = 0.0
    value = certified(q, tau, q_size, tau_size, lo, hi, unit)
    assert (value > 0).any()
    for _ in range(40):
        truth_q = q + unit * q_size * rng.choice([-1, -0.5, 0, 1], size=(n, d))
        truth_tau = tau + unit * tau_size * rng.choice([-1, 0, 1], size=n)
        assert (value <= knapsack(truth_q, truth_tau, lo, hi) * (1 + 1e-12)).all()
    assert (certified(q, tau, q_size, tau_size, lo, hi, 0.0) == knapsack(q, tau, lo, hi)).all()


# Homotopy and dual simplex, alone


@pytest.mark.parametrize("one_way", [False, True])
def test_homotopy_equals_the_plain_program_on_one_ball(one_way):
    rng, n, d = np.random.default_rng(3), 40, 5
    metrics = [rng.normal(size=(k, d)) for k in (1, 3, 5, 7)]
    metric, centres = rng.integers(4, size=n), 2 * rng.normal(size=(n, d))
    up, down = (rng.random((n, d)) < (0.7 if one_way else 1.1) for _ in range(2))
    lo, hi = np.where(down, -np.inf, 0.0), np.where(up, np.inf, 0.0)
    A = [metrics[m] @ centre for m, centre in zip(metric, centres, strict=True)]
    c = np.array([metrics[m].T @ a for m, a in zip(metric, A, strict=True)])
    square = np.array([a @ a for a in A])
    radius = rng.uniform(0.05, 0.9, size=n) * np.sqrt(square)
    gram, s = np.array([L.T @ L for L in metrics]), rng.uniform(0.5, 2, size=n)
    arguments = gram, metric, s[:, None] * c, s, s * (square - radius**2), up, down
    path = homotopy(*arguments, np.full(n, np.inf))
    assert not (path.status == CUT_OFF).any()
    assert (path.status == SOLVED).sum() > (n // 3 if one_way else n - 1)
    lengths = np.abs(path.beta).sum(axis=1)
    assert (homotopy(*arguments, 0.5 * lengths).status == CUT_OFF).any()
    assert not (homotopy(*arguments, 1.001 * lengths).status[path.status == SOLVED] == CUT_OFF).any()
    for i in np.flatnonzero(path.status != UNRESOLVED):
        cell = Cell((Ball(centres[i], radius[i], metrics[metric[i]]),))
        optimum = plain_program(cell, np.zeros(d), np.ones(d), within(lo[i], hi[i]))
        if path.status[i] == INFEASIBLE:
            assert optimum == np.inf
            continue
        assert np.abs(path.beta[i]).sum() == pytest.approx(optimum, rel=1e-6)
        assert ((lo[i] <= path.beta[i]) & (path.beta[i] <= hi[i])).all()
        assert cell.balls[0].excess(path.beta[[i]])[0] == pytest.approx(0, abs=1e-8)
        one = homotopy(*(a if a is gram else a[[i]] for a in arguments), np.array([np.inf]))
        np.testing.assert_allclose(one.beta[0], path.beta[i], rtol=1e-9, atol=1e-12)


def test_homotopy_ends_when_told_and_where_there_is_no_ball():
    one, c = np.ones(1), np.array([[3.0, 2.0, 1.0]])

    def status(g, moves=True, cutoff=np.inf, steps=None):
        may, zero = np.full((1, 3), moves), np.zeros(1, dtype=int)
        return homotopy(np.eye(3)[None], zero, c, one, g * one, may, may, cutoff * one, steps).status[0]

    assert status(13.9) == SOLVED
    assert status(13.9, cutoff=1.5) == CUT_OFF
    assert status(13.9, steps=1) == UNRESOLVED
    assert status(14.5) == INFEASIBLE  # beyond the nearest point of all
    assert status(13.9, moves=False) == INFEASIBLE


@pytest.mark.parametrize("boxed", [False, True])
def test_dual_simplex_equals_highs(boxed):
    rng, n, d, count = np.random.default_rng(4), 60, 6, 12
    Q = rng.normal(size=(count, d))
    Q[:4] = np.round(Q[:4])  # ties
    rows = np.array([rng.permutation(count)[:6] for _ in range(n)])
    rows[rng.random(rows.shape) < 0.3] = -1
    g = rng.normal(size=rows.shape) + 0.5
    lo, hi = random_boxes(rng, n, d) if boxed else free(n, d)
    vertex = dual_simplex(Q, rows, g, np.full(rows.shape, 1e-14), lo, hi, np.full(n, np.inf))
    assert (vertex.status == UNRESOLVED).sum() <= boxed  # a singular basis: the cone program decides
    assert (vertex.status == INFEASIBLE).any() == boxed
    for i in np.flatnonzero(vertex.status != UNRESOLVED):
        there = rows[i] >= 0
        own, right, lam = Q[rows[i][there]], g[i][there], vertex.multipliers[i][there]
        optimum = linear_optimum(own, right, lo[i], hi[i])
        proven = knapsack((lam @ own)[None], np.array([lam @ right]), lo[[i]], hi[[i]])[0]
        if vertex.status[i] == INFEASIBLE:
            assert optimum == np.inf
            assert proven > 1e3
            continue
        assert np.abs(vertex.beta[i]).sum() == pytest.approx(optimum, rel=1e-9, abs=1e-12)
        assert proven == pytest.approx(optimum, rel=1e-9, abs=1e-12)
        assert (own @ vertex.beta[i] >= right - 1e-12).all()
        assert ((lo[i] <= vertex.beta[i]) & (vertex.beta[i] <= hi[i])).all()
        one = dual_simplex(Q, rows[[i]], g[[i]], np.full((1, 6), 1e-14), lo[[i]], hi[[i]], np.array([np.inf]))
        np.testing.assert_allclose(one.beta[0], vertex.beta[i], rtol=1e-9, atol=1e-12)
    lengths = np.abs(vertex.beta).sum(axis=1)
    stopped = dual_simplex(Q, rows, g, np.full(rows.shape, 1e-14), lo, hi, 0.5 * lengths)
    assert (stopped.status[(vertex.status == SOLVED) & (lengths > 0)] == CUT_OFF).all()


# The search over cells


def random_cell(rng, d, inside):
    """Return balls in several metrics and half-spaces that all hold the point `inside`."""
    shared = rng.normal(size=(int(rng.integers(1, d + 1)), d))
    balls, flats = [], []
    for _ in range(int(rng.integers(0, 4))):
        L = shared if rng.random() < 0.5 else rng.normal(size=(int(rng.integers(1, d + 1)), d))
        centre = inside + rng.normal(size=d)
        balls.append(Ball(centre, float(np.linalg.norm(L @ (inside - centre)) * rng.uniform(1, 1.3)), L))
    for _ in range(int(rng.integers(0, 3))):
        q = rng.normal(size=d)
        flats.append(HalfSpace(q, -float(q @ inside) + rng.uniform(0, 0.5)))
    return Cell(tuple(balls), tuple(flats))


@pytest.mark.parametrize("seed", range(12))
def test_the_nearest_point_of_any_cells_equals_the_best_plain_program(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 7))
    inside = 3 * rng.normal(size=d)
    written = [random_cell(rng, d, inside) for _ in range(3)]
    x, w = rng.normal(size=d), rng.uniform(0.5, 2, size=d)
    lo, hi = random_boxes(rng, 1, d) if seed % 2 else free(1, d)
    found = Cells.of(written).nearest(x[None], w, x + lo, x + hi, 0.0)
    optimum = min(plain_program(cell, x, w, lambda z: within(lo[0], hi[0])(z - x)) for cell in written)
    if optimum == np.inf:
        assert found.distances[0] == np.inf
        assert found.bounds[0] > 1e3
        return
    assert found.distances[0] == pytest.approx(optimum, rel=1e-5, abs=1e-6)
    assert found.bounds[0] <= optimum * (1 + 1e-6) + 1e-9
    assert found.bounds[0] == pytest.approx(found.distances[0], rel=1e-6, abs=1e-9)
    assert written[found.cells[0]].contains(x + found.changes, 1e-7).all()
    assert ((lo <= found.changes) & (found.changes <= hi)).all()


def scaled_case(seed):
    """Return a random case of badly scaled features, and weights that do not make up for it."""
    case = random_case(seed, max_features=8)
    return case, case.weights if seed % 2 else np.ones(len(case.weights))


def test_no_bound_exceeds_the_length_of_a_point_that_is_exactly_inside():
    """Points found without a margin lie so near the optimum that a bound with wrong digits would show."""
    compared = 0
    for seed in range(250):
        case, weights = scaled_case(seed)
        cells, box = case.option.cells(case.theta), free(*case.X.shape)
        bounds = cells.nearest(case.X, weights, *box, 32 * EPS).bounds
        closest = cells.nearest(case.X, weights, *box, EPS / 2)
        for i in np.flatnonzero((closest.distances > 0) & (closest.distances < np.inf)):
            change = [Fraction(a) for a in closest.changes[i]]
            length = sum(abs(a) * Fraction(w) for a, w in zip(change, weights, strict=True))
            if Fraction(bounds[i]) > length * Fraction(1 - 1e-6):
                point = [Fraction(a) + b for a, b in zip(case.X[i], change, strict=True)]
                if exactly_inside(cells, closest.cells[i], point):
                    assert Fraction(bounds[i]) <= length
                    compared += 1
    assert compared > 100


def test_a_margin_moves_answers_inside_but_no_bound():
    moved = 0
    for seed in range(40):
        case, weights = scaled_case(seed)
        cells, box = case.option.cells(case.theta), free(*case.X.shape)
        plain = cells.nearest(case.X, weights, *box, 0.0)
        for margin in (1e-3, 0.1):
            inside = cells.nearest(case.X, weights, *box, margin)
            there = plain.distances < np.inf
            assert (inside.bounds <= plain.distances * (1 + 1e-9))[there].all()
            moved += (inside.distances > plain.distances * (1 + 1e-6))[there].sum()
    assert moved > 100


def test_no_point_of_a_badly_scaled_cell_is_nearer_than_the_bound():
    rng = np.random.default_rng(5)
    for _ in range(40):
        d = int(rng.integers(2, 7))
        scale, inside = 10.0 ** rng.uniform(-4, 4, size=d), 3 * rng.normal(size=d)
        plain = random_cell(rng, d, inside)
        cell = Cell(
            tuple(Ball(ball.centre * scale, ball.radius, ball.L / scale) for ball in plain.balls),
            tuple(HalfSpace(half.normal / scale, half.offset) for half in plain.half_spaces),
        )
        x = rng.normal(size=d) * scale
        bound = Cells.of([cell]).nearest(x[None], np.ones(d), *free(1, d), 0.0).bounds[0]
        ways = (inside * scale - x) * rng.uniform(0, 1, size=(2000, d)) ** rng.choice(
            [0.1, 1], size=(2000, 1)
        )
        points = np.vstack([x + ways, inside * scale])
        held = points[cell.contains(points)]
        assert (np.abs(held - x).sum(axis=1) >= bound * (1 - 1e-12)).all()


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("make", [RelativeSimilarity, DecisionDistance])
def test_a_batch_gives_what_each_sample_gets_alone(make, boxed):
    rng = np.random.default_rng(6)
    option = make(PrototypeModel(rng.normal(size=(9, 6)), np.arange(9) % 3, rng.normal(size=(4, 6))))
    X, w = 2 * rng.normal(size=(150, 6)), rng.uniform(0.5, 2, size=6)
    cells = option.cells(float(np.quantile(option.certainty(X), 0.8)))
    lo, hi = random_boxes(rng, 150, 6) if boxed else free(150, 6)
    batch = cells.nearest(X, w, X + lo, X + hi, 32 * EPS)
    assert {PATHS[path] for path in batch.paths} >= {
        "start",
        "cone" if make is RelativeSimilarity else "simplex",
    }
    for i, x in enumerate(X):
        one = cells.nearest(x[None], w, x + lo[[i]], x + hi[[i]], 32 * EPS)
        np.testing.assert_allclose(one.changes[0], batch.changes[i], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            [one.distances[0], one.bounds[0]], [batch.distances[i], batch.bounds[i]], rtol=1e-9, atol=1e-12
        )
        assert (one.cells[0], one.paths[0]) == (batch.cells[i], batch.paths[i])


def test_a_nearly_singular_basis_decides_nothing():
    """A cell whose dual simplex ran into one was taken for farther than it is."""
    case = random_case(1000000246, n=8)
    found = case.option.cells(case.theta).nearest(case.X, case.weights, *free(*case.X.shape), 32 * EPS)
    np.testing.assert_allclose(found.bounds, found.distances, rtol=1e-6)


def test_columns_that_depend_on_each_other_are_skipped():
    L = np.array([[1.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.5, 1.0]])
    cell = Cell((Ball([2.0, 1.0, 0.0, 3.0], 0.3, L),))
    found = Cells.of([cell]).nearest(np.zeros((1, 4)), np.ones(4), *free(1, 4), 0.0)
    assert found.distances[0] == pytest.approx(plain_program(cell, np.zeros(4), np.ones(4)), rel=1e-6)
    assert found.bounds[0] == pytest.approx(found.distances[0], rel=1e-9)


def test_nothing_to_search_and_nothing_to_do():
    empty = RelativeSimilarity(PrototypeModel([[0.0], [1.0]], [0, 1])).cells(2.0)
    found = empty.nearest(np.zeros((2, 1)), np.ones(1), *free(2, 1), 0.0)
    assert (found.bounds == np.inf).all()
    assert set(found.paths) == {NONE}
    inside = Cells.of([Cell((Ball([0.0], 1.0),))]).nearest(np.zeros((1, 1)), np.ones(1), *free(1, 1), 0.0)
    assert (inside.distances[0], inside.paths[0]) == (0.0, START)
    assert len(empty.nearest(np.empty((0, 1)), np.ones(1), *free(0, 1), 0.0).bounds) == 0
