"""One cell, one ball: what the chapters show of the solvers."""

import numpy as np
import pytest
from oracles import plain_program

from companion.projection import homotopy_path, program_of, project
from lvqrej.cells import Ball, Cell, HalfSpace


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


def test_any_multipliers_certify_a_lower_bound():
    rng, lo, hi = np.random.default_rng(2), np.full(4, -2.0), np.full(4, 3.0)
    for _ in range(4):
        cell = Cell(
            tuple(Ball(2 + rng.normal(size=4), 2.0, rng.normal(size=(3, 4))) for _ in range(3)),
            (HalfSpace(np.ones(4), -3.0),),
        )
        optimum = plain_program(cell, np.zeros(4), np.ones(4), lambda z: [z >= lo, z <= hi])
        program = program_of(cell.balls, cell.half_spaces, np.zeros(4), np.ones(4), lo, hi)
        bounds = [
            program.bound([rng.normal(size=len(M)) for M in program.M], rng.exponential(size=4))
            for _ in range(200)
        ]
        assert 0 < max(bounds) <= optimum * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_projection_onto_one_cell_equals_the_plain_program(seed):
    rng = np.random.default_rng(seed)
    inside, x, w = 3 * rng.normal(size=4), rng.normal(size=4), rng.uniform(0.5, 2, size=4)
    cell = random_cell(rng, 4, inside)
    found, optimum = project(cell, x, w), plain_program(cell, x, w)
    assert found.distance == pytest.approx(optimum, rel=1e-5, abs=1e-6)
    assert found.lower_bound <= optimum * (1 + 1e-6) + 1e-9
    assert cell.contains(x + found.delta[None], 1e-7).all()


def test_multipliers_are_prices_and_what_is_out_of_reach_is_told():
    cell, step = Cell((Ball([3.0, 0.0], 1.0),)), 1e-6
    here, wider = project(cell, [0, 0]), project(Cell((Ball([3.0, 0.0], np.sqrt(1 + step)),)), [0, 0])
    assert here.multipliers[0] == pytest.approx((here.distance - wider.distance) / step, rel=1e-3)
    assert project(cell, [3.0, 0.5]).distance == 0
    nowhere = project(cell, [0.0, 0.0], upper=[1.0, np.inf])
    assert nowhere.delta is None
    assert nowhere.distance == np.inf
    assert nowhere.lower_bound > 1e6
    assert project(cell, [0.0, 0.0], lower=0.0, upper=0.0).lower_bound == np.inf


def test_the_path_to_a_ball_grows_feature_by_feature():
    rng = np.random.default_rng(0)
    ball = Ball(3 * rng.normal(size=5), 1.0, rng.normal(size=(5, 5)))
    rows = homotopy_path(ball, np.zeros(5))
    assert (np.diff(np.abs(rows).sum(axis=1)) > 0).all()
    assert (np.abs(np.diff((rows != 0).sum(axis=1))) <= 1).all()
    assert np.abs(rows[-1]).sum() == pytest.approx(
        plain_program(Cell((ball,)), np.zeros(5), np.ones(5)), rel=1e-6
    )
    assert homotopy_path(ball, np.zeros(5), np.full(5, 2.0))[-1] == pytest.approx(rows[-1])
    assert len(homotopy_path(ball, ball.centre)) == 1
