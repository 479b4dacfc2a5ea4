from fractions import Fraction

import numpy as np
import pytest
from oracles import plain_program
from random_models import random_case
from scipy.optimize import linprog

from lvqrej.cells import Ball, Cell, Cells, HalfSpace
from lvqrej.certainty import DecisionDistance, RelativeSimilarity
from lvqrej.engine.certificate import certified, knapsack
from lvqrej.engine.cone import cone_projection, polish
from lvqrej.engine.homotopy import CUT_OFF, INFEASIBLE, SOLVED, UNRESOLVED, homotopy
from lvqrej.engine.precise import precise_bound
from lvqrej.engine.simplex import dual_simplex
from lvqrej.projection import (
    ROUNDING,
    AcceptedSet,
    cone_program,
    homotopy_path,
    nearest_points,
    path_name,
    project,
)
from lvqrej.prototypes import PrototypeModel


def linear_optimum(Q, g, lo, hi):
    """Return min |beta|_1 s.t. Q beta >= g within bounds by HiGHS."""
    d = Q.shape[1]
    bounds = [*zip(np.zeros(d), hi, strict=True), *zip(np.zeros(d), -lo, strict=True)]
    result = linprog(np.ones(2 * d), A_ub=np.hstack([-Q, Q]), b_ub=-g, bounds=bounds, method="highs")
    return result.fun if result.status == 0 else np.inf


def random_box(rng, d):
    """Return lo <= 0 <= hi with fixed, one-way, bounded and free features."""
    lo, hi = -rng.exponential(size=d), rng.exponential(size=d)
    kind = rng.integers(5, size=d)
    lo[kind == 0] = hi[kind == 0] = 0
    lo[kind == 1] = 0
    hi[(kind == 1) | (kind == 2)] = np.inf
    lo[kind == 2] = -np.inf
    return lo, hi


@pytest.mark.parametrize("seed", range(30))
def test_knapsack_equals_highs(seed):
    rng = np.random.default_rng(seed)
    lo, hi = random_box(rng, 6)
    q, tau = np.round(rng.normal(size=6), 1), rng.exponential()
    assert knapsack(q, tau, lo, hi) == pytest.approx(linear_optimum(q[None], np.array([tau]), lo, hi))
    plain, safe = certified(q.copy(), np.abs(q), tau, 0.0, tau, lo, hi, 1e-10)
    assert safe <= plain
    assert knapsack(q, -1.0, lo, hi) == 0


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_dual_simplex_equals_highs(seed, boxed):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    lo, hi = random_box(rng, d) if boxed else (np.full(d, -np.inf), np.full(d, np.inf))
    Q, g = rng.normal(size=(n, d)), rng.normal(size=n) + 0.5
    beta, lam = np.zeros(d), np.zeros(n)
    rate, none = np.abs(Q).max(axis=1), np.full(n, 1e-14)
    status = dual_simplex(Q, np.arange(n), g, none, rate, lo, hi, np.inf, 500, beta, lam)
    optimum = linear_optimum(Q, g, lo, hi)
    if optimum == np.inf:
        assert status == INFEASIBLE
        assert knapsack(lam @ Q, lam @ g, lo, np.where(hi == np.inf, 1e9, hi)) > 1e6 or lam @ g > 0
        return
    assert status == SOLVED
    assert np.abs(beta).sum() == pytest.approx(optimum, abs=1e-12)
    assert (Q @ beta >= g - 1e-12).all()
    assert ((lo <= beta) & (beta <= hi)).all()
    assert knapsack(lam @ Q, float(lam @ g), lo, hi) == pytest.approx(optimum, rel=1e-12, abs=1e-12)
    if optimum > 0:
        stopped = dual_simplex(Q, np.arange(n), g, none, rate, lo, hi, 0.5 * optimum, 500, beta, lam)
        assert stopped in (CUT_OFF, SOLVED)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_homotopy_equals_the_cone_program(seed, boxed):
    rng = np.random.default_rng(seed)
    d, k = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    L, centre = rng.normal(size=(k, d)), 2 * rng.normal(size=d)
    lo, hi = random_box(rng, d) if boxed else (np.full(d, -np.inf), np.full(d, np.inf))
    radius = rng.uniform(0.05, 0.9) * np.linalg.norm(L @ centre)
    cells = Cells.of([Cell((Ball(centre, radius, L),))])
    x, w = np.zeros(d), np.ones(d)
    found = nearest_points(cells, x[None], w, lo[None], hi[None])
    status, beta, _, bound = cone_projection(cone_program(cells.packed, x, w, lo, hi))
    if not np.isfinite(found.distances[0]):
        assert status == INFEASIBLE or bound > 1e6
        return
    assert found.distances[0] == pytest.approx(np.abs(beta).sum(), rel=1e-7)
    assert found.bounds[0] == pytest.approx(found.distances[0], rel=1e-9)
    assert ((lo <= found.deltas[0]) & (found.deltas[0] <= hi)).all()
    assert cells[0].balls[0].excess(found.deltas) <= 1e-12


def test_homotopy_stops_when_told():
    gram, c, free = np.eye(3), np.array([3.0, 2.0, 1.0]), np.full(3, np.inf)
    beta, v, active, chol = np.zeros(3), np.zeros(3), np.zeros(3, dtype=np.int64), np.empty((3, 3))

    def run(g, hi, cutoff, steps):
        return homotopy(gram, c, 1.0, g, -free, hi, cutoff, steps, chol, beta, v, active)[0]

    assert run(13.9, free, np.inf, 99) == SOLVED
    assert run(13.9, free, 1.5, 99) == CUT_OFF
    assert run(13.9, free, np.inf, 1) == UNRESOLVED
    assert run(14.5, free, np.inf, 99) == INFEASIBLE  # beyond the nearest point of the range
    assert run(13.9, np.zeros(3), np.inf, 99) == INFEASIBLE


def test_dependent_columns_are_skipped():
    L = np.array([[1.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.5, 1.0]])
    x, free = np.zeros(4), np.full((1, 4), np.inf)
    ball = Ball([2.0, 1.0, 0.0, 3.0], 0.3, L)
    found = nearest_points(Cells.of([Cell((ball,))]), x[None], np.ones(4), -free, free)
    assert found.distances[0] == pytest.approx(plain_program(Cell((ball,)), x, np.ones(4)), rel=1e-6)
    assert found.bounds[0] == pytest.approx(found.distances[0], rel=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_cells_of_any_kind_equal_the_plain_program(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 7))
    inside = 3 * rng.normal(size=d)
    shared = rng.normal(size=(int(rng.integers(1, d + 1)), d))
    balls, flats = [], []
    for _ in range(int(rng.integers(1, 5))):
        L = shared if rng.random() < 0.5 else rng.normal(size=(int(rng.integers(1, d + 1)), d))
        centre = inside + rng.normal(size=d)
        balls.append(Ball(centre, float(np.linalg.norm(L @ (inside - centre)) * rng.uniform(1, 1.3)), L))
    for _ in range(int(rng.integers(0, 3))):
        q = rng.normal(size=d)
        flats.append(HalfSpace(q, -float(q @ inside) + rng.uniform(0, 0.5)))
    cell = Cell(tuple(balls), tuple(flats))
    x, w = rng.normal(size=d), rng.uniform(0.5, 2, size=d)
    optimum = plain_program(cell, x, w)
    single = project(cell, x, w)
    assert single.distance == pytest.approx(optimum, rel=1e-5, abs=1e-6)
    assert single.lower_bound <= optimum * (1 + 1e-6) + 1e-9
    assert single.lower_bound == pytest.approx(single.distance, rel=1e-6, abs=1e-9)
    free = np.full((1, d), np.inf)
    found = nearest_points(Cells.of([cell]), x[None], w, -free, free)
    assert found.distances[0] == pytest.approx(optimum, rel=1e-5, abs=1e-6)
    assert found.bounds[0] <= optimum * (1 + 1e-6) + 1e-9
    assert found.bounds[0] == pytest.approx(found.distances[0], rel=1e-6, abs=1e-9)
    assert cell.contains(x + found.deltas, 1e-7).all()


@pytest.mark.parametrize("seed", range(20))
def test_any_multipliers_certify_a_lower_bound(seed):
    rng = np.random.default_rng(seed)
    d = 4
    cell = Cell(
        tuple(Ball(2 + rng.normal(size=d), 2.0, rng.normal(size=(3, d))) for _ in range(3)),
        (HalfSpace(np.ones(d), -3.0),),
    )
    w = np.ones(d)
    lo, hi = np.full(d, -2.0), np.full(d, 3.0)
    packed = Cells.of([cell]).packed
    optimum = plain_program(cell, np.zeros(d), w, lambda z: [z >= -2, z <= 3])
    for precision in (np.float64, np.longdouble):
        program = cone_program(packed, np.zeros(d), w, lo, hi, precision=precision)
        for _ in range(25):
            images = [rng.normal(size=len(M)) for M in program.M]
            assert program.bound(images, rng.exponential(size=4)) <= optimum * (1 + 1e-6)
            assert precise_bound(program, rng.uniform(lo, hi)) <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_precise_certificate_closes_the_gap_of_badly_scaled_metrics(seed):
    rng = np.random.default_rng(seed)
    d = 8
    scale = 10.0 ** rng.uniform(-4, 4, size=d)
    cells = Cells.of([Cell((Ball(rng.normal(size=d) * scale, 1e-3, rng.normal(size=(d, d)) / scale),))])
    x, w, box = np.zeros(d), np.ones(d), np.full(d, np.inf)
    found = nearest_points(cells, x[None], w, -box[None], box[None])
    assert (1 - 1e-7) * found.distances[0] <= found.bounds[0] <= found.distances[0]
    rough = cone_program(cells.packed, x, w, -box, box)
    program = cone_program(cells.packed, x, w, -box, box, precision=np.longdouble)
    beta = found.deltas[0]
    proven = precise_bound(program, beta)
    assert (1 - 1e-7) * found.distances[0] <= proven <= found.distances[0]
    assert rough.bound(rough.images(beta), np.ones(1)) < proven


def exactly_inside(cells, cell, x, delta):
    """Return whether x + delta lies in a cell of a certainty, in rational arithmetic."""
    point = [Fraction(a) + Fraction(b) for a, b in zip(x, delta, strict=True)]
    metric = [[Fraction(entry) for entry in row] for row in cells.metrics[0]]

    def distance(site):
        difference = [Fraction(a) - b for a, b in zip(cells.sites[site], point, strict=True)]
        return sum(sum(a * b for a, b in zip(row, difference, strict=True)) ** 2 for row in metric)

    return all(
        Fraction(cells.alpha[j]) * distance(cells.near[j]) - Fraction(cells.beta[j]) * distance(cells.far[j])
        <= -Fraction(cells.gamma[j])
        for j in range(cells.start[cell], cells.start[cell + 1])
    )


@pytest.mark.parametrize("weighted", [True, False])
def test_no_bound_exceeds_the_length_of_a_point_that_is_exactly_inside(weighted):
    """Points found without a margin lie so near the optimum that a bound with a few wrong digits would show.

    Without weights a third of the models are badly scaled, and some bounds need extended precision.
    """
    compared = 0
    for seed in range(300):
        case = random_case(seed, max_features=8, n=4)
        weights = case.weights if weighted else np.ones(len(case.weights))
        cells, box = case.option.cells(case.theta), np.full(case.X.shape, np.inf)
        bounds = nearest_points(cells, case.X, weights, -box, box).bounds
        closest = nearest_points(cells, case.X, weights, -box, box, ROUNDING / 64, ROUNDING / 64)
        for i in np.flatnonzero((closest.distances > 0) & (closest.distances < np.inf)):
            if exactly_inside(cells, closest.cells[i], case.X[i], closest.deltas[i]):
                parts = zip(closest.deltas[i], weights, strict=True)
                assert Fraction(bounds[i]) <= sum(abs(Fraction(a)) * Fraction(w) for a, w in parts)
                compared += 1
    assert compared > 100


def test_polish_refuses_the_wrong_sets():
    program = cone_program(
        Cells.of([Cell((Ball([3.0, 0], 1.0),))]).packed,
        np.zeros(2),
        np.ones(2),
        *np.array([[-9.0] * 2, [9.0] * 2]),
    )
    assert polish(program, np.zeros(2), np.ones(1)) is None
    wrong = polish(program, np.array([0.0, 1.0]), np.ones(1))
    assert wrong is None or program.values(wrong[0]).max() <= program.margin.max()


def test_projection_inside_and_out_of_reach():
    cell = Cell((Ball([3.0, 0.0], 1.0),))
    assert project(cell, [3.0, 0.5]).distance == 0
    nowhere = project(cell, [0.0, 0.0], upper=[1.0, np.inf])
    assert nowhere.delta is None
    assert nowhere.distance == np.inf
    assert nowhere.lower_bound > 1e6
    fixed = project(cell, [0.0, 0.0], lower=0.0, upper=0.0)
    assert fixed.lower_bound == np.inf
    one = project(cell, [0.0, 0.0])
    step = 1e-6  # the multiplier is the price of the right-hand side R^2
    wider = project(Cell((Ball([3.0, 0.0], np.sqrt(1 + step)),)), [0.0, 0.0])
    assert one.multipliers[0] == pytest.approx((one.distance - wider.distance) / step, rel=1e-3)


def test_path_grows_feature_by_feature():
    rng = np.random.default_rng(0)
    ball = Ball(3 * rng.normal(size=5), 1.0, rng.normal(size=(5, 5)))
    rows = homotopy_path(ball, np.zeros(5))
    lengths = np.abs(rows).sum(axis=1)
    assert (np.diff(lengths) > 0).all()
    assert ball.excess(rows[-1:])[0] == pytest.approx(0, abs=1e-9)
    assert (np.abs(np.diff((rows != 0).sum(axis=1))) <= 1).all()
    assert len(homotopy_path(ball, ball.centre)) == 1
    assert homotopy_path(ball, np.zeros(5), np.full(5, 2.0))[-1] == pytest.approx(rows[-1])
    assert path_name(2) == "homotopy"


def test_two_balls_agree_with_the_cone_program():
    model = PrototypeModel(np.random.default_rng(3).normal(size=(6, 4)), [0, 1, 2, 0, 1, 2])
    option = RelativeSimilarity(model)
    cells, w, free = option.cells(0.7), np.ones(4), np.full(4, np.inf)
    X = 2 * np.random.default_rng(4).normal(size=(60, 4))
    found = nearest_points(cells, X, w, np.tile(-free, (60, 1)), np.tile(free, (60, 1)))
    assert "two balls" in {path_name(code) for code in found.paths}
    for i in np.flatnonzero(found.paths == 3)[:10]:
        one = cells.take(np.array([found.cells[i]])).packed
        _, beta, _, bound = cone_projection(cone_program(one, X[i], w, -free, free))
        assert found.distances[i] == pytest.approx(np.abs(beta).sum(), rel=1e-8)
        assert found.bounds[i] <= np.abs(beta).sum() * (1 + 1e-9)
        assert bound == pytest.approx(found.distances[i], rel=1e-7)


def test_simplex_and_cone_program_agree_on_half_spaces():
    model = PrototypeModel(np.random.default_rng(3).normal(size=(6, 4)), [0, 1, 2, 0, 1, 2])
    cells, w, free = DecisionDistance(model).cells(0.4), np.ones(4), np.full(4, np.inf)
    for x in 2 * np.random.default_rng(5).normal(size=(8, 4)):
        for i in range(0, len(cells), 5):
            one = cells.take(np.array([i]))
            found = nearest_points(one, x[None], w, -free[None], free[None])
            status, beta, _, _ = cone_projection(cone_program(one.packed, x, w, -free, free))
            if status == SOLVED and np.isfinite(found.distances[0]):
                assert found.distances[0] == pytest.approx(np.abs(beta).sum(), rel=1e-6, abs=1e-9)


def test_nothing_to_search():
    empty = RelativeSimilarity(PrototypeModel([[0.0], [1.0]], [0, 1])).cells(2.0)
    found = nearest_points(empty, np.zeros((2, 1)), np.ones(1), -np.ones((2, 1)), np.ones((2, 1)))
    assert (found.distances == np.inf).all()
    assert issubclass(Cells, object)
    assert isinstance(AcceptedSet, type)
