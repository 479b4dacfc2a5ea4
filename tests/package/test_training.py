"""The cost of training is its definition, its gradient that of finite differences, wherever it is taken."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvqrej.training import Coordinates, Problem, distances_between, log_determinant, minimise


def plain_cost(X, y, P, c, L, phi, weights=None):
    """Sum up the definition of the cost, sample by sample."""
    total = 0.0
    for x, label in zip(X, y, strict=True):
        d = np.array([np.sum((L @ (x - p)) ** 2) for p in P])
        same = c == label
        minus = np.where(same, np.inf, d).argmin()
        d_plus, d_minus = d[same].min(), d[minus]
        mu = (d_plus - d_minus) / (d_plus + d_minus)
        total += phi(mu * (1.0 if weights is None else weights[label, c[minus]]))
    return total / len(X)


def logistic(beta):
    return lambda t: 1 / (1 + math.exp(-beta * t))


@st.composite
def problems(draw):
    """Draw a random problem with a point at which to take the gradient."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    d, n_classes = draw(st.integers(1, 4)), draw(st.integers(2, 3))
    per_class = draw(st.integers(1, 3))
    k = draw(st.one_of(st.none(), st.integers(1, d)))
    targets = np.append(np.arange(n_classes), rng.integers(n_classes, size=6))
    classes = np.repeat(np.arange(n_classes), per_class)
    problem = Problem(
        rng.normal(size=(len(targets), d)),
        targets,
        classes,
        rng.uniform(0.5, 2, size=(n_classes, n_classes)),
        draw(st.sampled_from([0.0, 0.7, 2.0])),
        0.0 if k is None else draw(st.sampled_from([0.0, 0.3])),
        rng.normal(size=(d, d)) + 3 * np.eye(d),
    )
    return problem, rng.normal(size=(len(classes), d)), None if k is None else rng.normal(size=(k, d))


@settings(max_examples=60)
@given(problems())
def test_gradient_is_that_of_finite_differences(drawn):
    problem, P, L = drawn
    m, d = P.shape
    start = (P if L is None else np.concatenate([P, L])).ravel()

    def cost(v):
        V = v.reshape(-1, d)
        return problem.cost_and_gradient(V[:m], None if L is None else V[m:])[0]

    gradient = problem.cost_and_gradient(P, L)[1].ravel()
    h = 1e-6
    steps = h * np.eye(start.size)
    both = np.array([[cost(start + step), cost(start - step)] for step in steps])
    one_sided = np.abs(both.sum(axis=1) - 2 * cost(start)) / h
    smooth = one_sided < 1e-3  # no kink within the step
    finite = (both[:, 0] - both[:, 1]) / (2 * h)
    assert smooth.mean() > 0.5
    np.testing.assert_allclose(gradient[smooth], finite[smooth], rtol=1e-5, atol=1e-7)


@settings(max_examples=30)
@given(problems())
def test_cost_is_its_definition(drawn):
    problem, P, L = drawn
    phi = logistic(problem.beta) if problem.beta else float
    matrix = np.eye(P.shape[1]) if L is None else L
    expected = plain_cost(
        problem.X, problem.targets, P, problem.classes, matrix, phi, weights=problem.weights
    )
    if L is not None and problem.regularization:
        M = L @ problem.W.T
        gram = M @ M.T / np.sum(M**2)
        expected -= problem.regularization * math.log(np.linalg.det(gram))
    assert problem.cost_and_gradient(P, L)[0] == pytest.approx(expected, rel=1e-10)


def test_cost_and_gradient_do_not_depend_on_the_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(50, 3)), rng.integers(2, size=50), np.array([0, 1]), np.ones((2, 2))
    P, L = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    cost, gradient = Problem(*data, 2.0, 0.0, np.eye(3)).cost_and_gradient(P, L)
    monkeypatch.setattr("lvqrej.training.CHUNK", 21)
    chunked = Problem(*data, 2.0, 0.0, np.eye(3))
    assert len(chunked.chunks) == 8
    chunked_cost, chunked_gradient = chunked.cost_and_gradient(P, L)
    assert chunked_cost == pytest.approx(cost, rel=1e-13)
    np.testing.assert_allclose(chunked_gradient, gradient, rtol=1e-10, atol=1e-15)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 1e-2, 1e-5, 1e-8, 0.0]))
def test_distances_keep_their_digits_where_samples_crowd_around_prototypes(seed, spread):
    rng = np.random.default_rng(seed)
    Q = rng.normal(size=(5, 3))
    Z = (Q[rng.integers(5, size=20)] + spread * rng.normal(size=(20, 3))).T
    Q[1] = Q[0] + spread * 1e-3
    expected = np.array([[math.fsum((z - q) ** 2) for z in Z.T] for q in Q])
    np.testing.assert_allclose(distances_between(Z, Q), expected, rtol=1e-11)


def test_two_classes_near_each_other_are_told_apart_beside_a_third_far_away():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + np.repeat([[0, 0], [3, 0], [1e6, 1e6]], 20, axis=0)
    y, classes = np.repeat([0, 1, 2], 20), np.arange(3)
    P = np.array([X[y == label].mean(axis=0) for label in range(3)]) + 0.1
    shift = X.mean(axis=0)
    near, far = (
        Problem(X - s, y, classes, np.ones((3, 3)), 2.0, 0.0, np.eye(2)).cost_and_gradient(P - s)
        for s in (0.0, shift)
    )
    expected = plain_cost(X - shift, y, P - shift, classes, np.eye(2), logistic(2))
    assert far[0] == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(far[1], near[1], rtol=1e-7, atol=1e-10)


def test_sample_on_two_coinciding_prototypes_has_cost_of_the_boundary_and_no_pull():
    problem = Problem(np.zeros((1, 2)), np.array([0]), np.array([0, 1]), np.ones((2, 2)), 0.0, 0.0, np.eye(2))
    cost, gradient = problem.cost_and_gradient(np.zeros((2, 2)), np.eye(2))
    assert cost == 0
    assert not gradient.any()


def test_log_determinant_ignores_the_scale_of_the_matrix():
    L = np.random.default_rng(0).normal(size=(2, 3))
    value, slope = log_determinant(L, np.eye(3))
    assert log_determinant(5 * L, np.eye(3))[0] == pytest.approx(value)
    assert np.sum(slope * L) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("regularization", [0.0, 0.1])
def test_coordinates_are_inverted_exactly_enough(whiten, regularization):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) * [1e-3, 1, 1e4] + [5, 0, -1e5]
    X = np.column_stack([X, X[:, 1] * 2, np.full(40, 0.1)])  # collinear and constant features
    space = Coordinates.of(X, whiten=whiten, regularization=regularization)
    np.testing.assert_allclose((X - space.mean) @ space.W @ space.inverse + space.mean, X, rtol=1e-9)
    np.testing.assert_allclose(space.W @ space.inverse, np.eye(5), atol=1e-6 * 1e4)


def test_whitened_coordinates_have_the_identity_as_covariance():
    X = np.random.default_rng(0).normal(size=(200, 4)) @ np.diag([1, 10, 100, 0.1]) + 7
    space = Coordinates.of(X, whiten=True)
    np.testing.assert_allclose(
        np.cov((X - space.mean) @ space.W, rowvar=False, bias=True), np.eye(4), atol=1e-9
    )


def test_minimum_is_reported_with_iterations_and_convergence():
    X = np.array([[-1.0], [1.0]])
    problem = Problem(X, np.array([0, 1]), np.array([0, 1]), np.ones((2, 2)), 0.0, 0.0, np.eye(1))
    costs = []
    solution = minimise(
        problem,
        np.array([[-0.9], [1.2]]),
        None,
        gtol=1e-6,
        max_iter=100,
        watch=lambda cost, P, L: costs.append(cost),
    )
    assert solution.converged
    assert solution.L is None
    assert len(costs) == solution.n_iter + 1
    assert solution.cost == costs[-1] == pytest.approx(-1)
    assert not minimise(problem, np.array([[-0.5], [1.9]]), None, gtol=1e-12, max_iter=1).converged


def test_a_weight_counts_as_repeated_samples():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(20, 3)), np.repeat([0, 1], [15, 5])
    P, L, classes = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), np.array([0, 1, 0, 1])
    weighted = Problem(X, y, classes, np.ones((2, 2)), 2.0, 0.0, np.eye(3), np.array([0.5, 2.5]))
    rows = np.concatenate([np.arange(15), np.repeat(np.arange(15, 20), 5)])
    repeated = Problem(X[rows], y[rows], classes, np.ones((2, 2)), 2.0, 0.0, np.eye(3))
    cost, gradient = weighted.cost_and_gradient(P, L)
    expected, slope = repeated.cost_and_gradient(P, L)
    assert cost == pytest.approx(expected * 40 / 20 / 2, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-14)
