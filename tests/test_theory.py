"""The theorems the package rests on, in plain NumPy and CVXPY: none of the package's own code is used here.

Notation: prototypes p with classes c, metric d(x, p) = |L(x - p)|^2, threshold theta, weights w,
delta = x - x0 for an input x0.
"""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FAST = settings(max_examples=60)
SLOW = settings(max_examples=25)
seeds = st.integers(0, 2**20)


def squared(V):
    return (np.asarray(V) ** 2).sum(axis=-1)


def distances(X, P, L):
    """Return d(x, p), of shape (n, m)."""
    return squared((X[:, None] - P) @ L.T)


def nearest_two(D, c):
    """Return the index of the nearest prototype and of the nearest one of another class."""
    plus = D.argmin(axis=1)
    return plus, np.where(c == c[plus][:, None], np.inf, D).argmin(axis=1)


def similarity(X, P, c, L):
    """Return the relative similarity, 0 where both distances vanish."""
    D = distances(X, P, L)
    plus, minus = nearest_two(D, c)
    near, far = D[np.arange(len(X)), plus], D[np.arange(len(X)), minus]
    return np.divide(far - near, far + near, out=np.zeros(len(X)), where=far + near > 0)


def apollonius(p_plus, p_j, L, theta):
    """Return centre C and squared radius R^2 of the points with (1 - theta) d_j >= (1 + theta) d_+."""
    centre = p_plus + (1 - theta) / (2 * theta) * (p_plus - p_j)
    return centre, (1 - theta**2) / (4 * theta**2) * squared(L @ (p_plus - p_j))


def random_prototypes(rng, twins):
    """Draw 1-3 prototypes for each of 2-4 classes in 2-D; `twins` coincide within or across classes."""
    counts = rng.integers(1, 4, size=rng.integers(2, 5))
    c = np.repeat(np.arange(len(counts)), counts)
    P = rng.normal(size=(len(c), 2))
    if twins == "across":
        P[-1] = P[0]
    if twins == "within" and counts[0] > 1:
        P[1] = P[0]
    return P, c


def points_of_the_plane(rng, P):
    """Return a grid over the prototypes and around them, random points near and far, and the prototypes."""
    low, high = P.min(axis=0) - 2, P.max(axis=0) + 2
    axes = np.linspace(low, high, 50).T
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    return np.vstack([grid, 10 * rng.normal(size=(300, 2)), P + 0.05 * rng.normal(size=P.shape), P])


def random_L(rng, d, deficient):
    return rng.normal(size=(1 if deficient else d, d))


# --- Relative similarity


@FAST
@given(seeds, st.floats(0.01, 1.0), st.integers(1, 5), st.integers(1, 5))
def test_constraint_is_an_apollonius_ball(seed, theta, d, rank):
    rng = np.random.default_rng(seed)
    L, p, other, X = (rng.normal(size=s) for s in [(rank, d), d, d, (50, d)])
    C, R2 = apollonius(p, other, L, theta)
    slack = (1 - theta) * squared((X - other) @ L.T) - (1 + theta) * squared((X - p) @ L.T)
    scale = squared(L @ C) + R2 + squared(X @ L.T).max()
    np.testing.assert_allclose(R2 - squared((X - C) @ L.T), slack / (2 * theta), atol=1e-11 * scale)


@FAST
@given(seeds, st.floats(0.02, 0.98), st.booleans(), st.sampled_from(["none", "within", "across"]))
def test_union_of_cells_is_the_accepted_set_of_relative_similarity(seed, theta, deficient, twins):
    rng = np.random.default_rng(seed)
    P, c = random_prototypes(rng, twins)
    L, X = random_L(rng, 2, deficient), points_of_the_plane(rng, P)
    covered = np.zeros(len(X), dtype=bool)
    for plus in range(len(P)):
        others = P[c != c[plus]]
        if (squared((P[plus] - others) @ L.T) == 0).any():
            continue  # a twin of another class: there r is 0, and the target is dropped
        balls = [apollonius(P[plus], other, L, theta) for other in others]
        covered |= np.all([squared((X - C) @ L.T) <= R2 for C, R2 in balls], axis=0)
    r = similarity(X, P, c, L)
    decided = np.abs(r - theta) > 1e-9
    assert np.array_equal(covered[decided], r[decided] >= theta)


@SLOW
@given(seeds, st.floats(0, 0.999), st.integers(1, 6), st.booleans())
def test_bound_of_a_ball_never_exceeds_the_optimum(seed, theta, d, fix_some):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, d + 1))
    L, w, x0 = rng.normal(size=(rank, d)), rng.uniform(0.2, 5, size=d), 3 * rng.normal(size=d)
    z_plus, z_j = (L @ (rng.normal(size=d) - x0) for _ in range(2))
    free = rng.random(d) < 0.6 if fix_some else np.ones(d, dtype=bool)

    A = (1 + theta) * z_plus - (1 - theta) * z_j
    B = np.sqrt(1 - theta**2) * np.linalg.norm(z_plus - z_j)
    g = (1 + theta) * z_plus @ z_plus - (1 - theta) * z_j @ z_j
    steepest = np.max(np.abs(L.T @ A)[free] / w[free], initial=0)
    norm_A = np.linalg.norm(A)
    bound = 0.0
    if g > 0:  # infinite: no free feature helps, the cell is empty
        bound = g * norm_A / ((norm_A + B) * steepest) if steepest > 0 else np.inf

    delta = cp.Variable(d)
    slack = (  # (1 + theta) d_+ - (1 - theta) d_j, expanded around x0: convex for every theta in [0, 1]
        2 * theta * cp.sum_squares(L @ delta) - 2 * (L.T @ A) @ delta + g
    )
    constraints = [slack <= 0] + [delta[k] == 0 for k in np.flatnonzero(~free)]
    optimum = cp.Problem(cp.Minimize(w @ cp.abs(delta)), constraints).solve(solver="CLARABEL")
    assert bound <= optimum * (1 + 1e-5) + 1e-6


def test_bound_at_theta_zero_is_that_of_the_half_space():
    rng = np.random.default_rng(0)
    for _ in range(20):
        L, w, x0, p, other = (rng.normal(size=s) for s in [(3, 4), 4, 4, 4, 4])
        w = np.abs(w) + 0.1
        z_plus, z_j = L @ (p - x0), L @ (other - x0)
        A, g = z_plus - z_j, z_plus @ z_plus - z_j @ z_j
        bound = max(0, g) / (2 * np.max(np.abs(L.T @ A) / w))  # |A| / (|A| + B) = 1/2
        q, k = 2 * L.T @ A, -g  # q'delta + k >= 0: nearer to p than to the other
        assert bound == pytest.approx(max(0, -k) / np.max(np.abs(q) / w))


# --- Distance to the decision boundary


def decision_distance(X, P, c, L):
    """Return r_Dist, 0 where D vanishes, and how far each point is from a tie of prototypes."""
    D, S = distances(X, P, L), distances(P, P, L)
    rows = np.arange(len(X))
    plus, minus = nearest_two(D, c)
    scale = 2 * S[plus, minus]
    r = np.divide(D[rows, minus] - D[rows, plus], scale, out=np.zeros(len(X)), where=scale > 0)
    own = np.where(c == c[plus][:, None], D, np.inf)
    others = np.where(c == c[plus][:, None], np.inf, D)
    gap = np.full(len(X), np.inf)
    for table in (own, others):
        if len(P) > 1:
            low = np.sort(table, axis=1)[:, :2]
            gap = np.minimum(gap, np.where(np.isfinite(low[:, 1]), low[:, 1] - low[:, 0], np.inf))
    return r, gap


@FAST
@given(seeds, st.floats(0.02, 2.0), st.booleans(), st.booleans())
def test_union_of_pair_cells_is_the_accepted_set_of_decision_distance(seed, theta, deficient, twin):
    rng = np.random.default_rng(seed)
    P, c = random_prototypes(rng, "across" if twin else "none")
    L, X = random_L(rng, 2, deficient), points_of_the_plane(rng, P)
    D, S = distances(X, P, L), distances(P, P, L)
    covered = np.zeros(len(X), dtype=bool)
    for plus in range(len(P)):
        same, other = np.flatnonzero(c == c[plus]), np.flatnonzero(c != c[plus])
        for minus in other:
            if S[plus, minus] == 0:
                continue  # twins: the half-space has no meaning, r is 0
            inside = (D[:, [plus]] <= D[:, same]).all(axis=1) & (D[:, [minus]] <= D[:, other]).all(axis=1)
            covered |= inside & (D[:, minus] - D[:, plus] >= 2 * theta * S[plus, minus])
    r, gap = decision_distance(X, P, c, L)
    decided = (np.abs(r - theta) > 1e-9) & (gap > 1e-9)
    assert np.array_equal(covered[decided], r[decided] >= theta)


def printed_union(X, P, c, L, theta):
    """Return where d_j - d_+ >= 2 theta D(p+, p_j) for all p_j of other classes, for some p+."""
    D, S = distances(X, P, L), distances(P, P, L)
    return np.any(
        [
            np.all([D[:, j] - D[:, i] >= 2 * theta * S[i, j] for j in np.flatnonzero(c != c[i])], axis=0)
            for i in range(len(P))
        ],
        axis=0,
    )


def test_printed_constraints_are_not_sufficient():
    P, c, L = np.array([[0.0, 0], [0, 4], [2, 0]]), np.array([0, 0, 1]), np.eye(2)
    x = np.array([[0.5, 2.1]])
    assert printed_union(x, P, c, L, 0.25)[0]
    assert decision_distance(x, P, c, L)[0][0] == pytest.approx(0.07)


def test_printed_constraints_are_not_necessary():
    P, c, L = np.array([[0.0, 0], [2, 0], [0, 10]]), np.array([0, 1, 1]), np.eye(2)
    x = np.array([[0.5, 2.6]])
    assert decision_distance(x, P, c, L)[0][0] == pytest.approx(0.25)
    assert not printed_union(x, P, c, L, 0.25)[0]


def test_printed_constraints_by_number_of_prototypes():
    rng = np.random.default_rng(0)
    wrong = {}
    for name, c in {"one each": [0, 1], "three classes": [0, 1, 2], "two each": [0, 0, 1, 1]}.items():
        c, too_many, too_few = np.array(c), 0, 0
        for _ in range(50):
            P, X = rng.normal(size=(len(c), 2)), 2 * rng.normal(size=(200, 2))
            printed = printed_union(X, P, c, np.eye(2), 0.2)
            accepted = decision_distance(X, P, c, np.eye(2))[0] >= 0.2
            too_many += (printed & ~accepted).sum()
            too_few += (accepted & ~printed).sum()
        wrong[name] = too_many, too_few
    assert wrong["one each"] == (0, 0)
    assert wrong["three classes"][0] == 0  # p+ is the only one of its class: sufficient
    assert wrong["three classes"][1] > 0
    assert min(wrong["two each"]) > 0


def test_accepted_set_of_decision_distance_is_not_closed():
    # Where the nearest prototype of the other class changes, so does D: r jumps from 1/2 to 1/8.
    P, c, L = np.array([[0.0, 0], [2, 0], [0, -4]]), np.array([0, 1, 1]), np.eye(2)
    on_the_tie = np.array([0.0, -1.5])  # |x - (2, 0)|^2 = |x - (0, -4)|^2 = 6.25
    assert distances(on_the_tie[None], P, L)[0, 1] == distances(on_the_tie[None], P, L)[0, 2] == 6.25
    r, _ = decision_distance(on_the_tie + np.array([[0, 1e-9], [0, -1e-9]]), P, c, L)
    np.testing.assert_allclose(r, [4 / 8, 4 / 32], atol=1e-6)


@SLOW
@given(seeds, st.integers(1, 4), st.integers(1, 5))
def test_dual_of_a_cell_of_half_spaces(seed, n, d):
    rng = np.random.default_rng(seed)
    Q, w = rng.normal(size=(n, d)), rng.uniform(0.2, 5, size=d)
    b = Q @ rng.normal(size=d) - rng.uniform(0, 1, size=n)  # feasible
    delta, multipliers = cp.Variable(d), cp.Variable(n, nonneg=True)
    primal = cp.Problem(cp.Minimize(w @ cp.abs(delta)), [Q @ delta >= b]).solve(solver="HIGHS")
    dual = cp.Problem(cp.Maximize(b @ multipliers), [Q.T @ multipliers <= w, -w <= Q.T @ multipliers]).solve(
        solver="HIGHS"
    )
    assert dual == pytest.approx(primal, rel=1e-6, abs=1e-8)
    assert np.max(np.maximum(b, 0) / np.max(np.abs(Q) / w, axis=1)) <= primal + 1e-8


# --- Probabilistic certainty


def random_exponents(rng, K, spread):
    """Return antisymmetric log e_ij: the two orders of a pair agree, e_ij e_ji = 1."""
    upper = np.triu(spread * rng.normal(size=(K, K)), 1)
    return upper - upper.T


def coupled(exponents):
    """Return p_i = 1 / (1 + sum_{j != i} e_ij) for log e of shape (K, K) with a zero diagonal."""
    return 1 / np.exp(exponents).sum(axis=1)


@FAST
@given(seeds, st.integers(2, 10), st.floats(0.01, 50))
def test_pairwise_coupling_sums_to_at_most_one(seed, K, spread):
    p = coupled(random_exponents(np.random.default_rng(seed), K, spread))
    assert p.sum() <= 1 + 1e-12
    assert p.max() / p.sum() >= p.max() * (1 - 1e-12)  # valid unnormalised is valid normalised
    if K == 2:
        assert p.sum() == pytest.approx(1)


def test_pairwise_coupling_sums_to_one_only_if_consistent():
    scores = np.random.default_rng(0).normal(size=4)
    assert coupled(scores - scores[:, None]).sum() == pytest.approx(1)  # e_ij = u_j / u_i
    cycle = np.array([[0, -3.0, 3], [3, 0, -3], [-3, 3, 0]])
    assert coupled(cycle).sum() < 0.2


@FAST
@given(seeds, st.floats(0.05, 0.95), st.integers(1, 3))
def test_printed_surrogate_is_the_mirror_image(seed, gamma, rank):
    rng = np.random.default_rng(seed)
    L, p_i, p_j, X = (rng.normal(size=s) for s in [(rank, 3), 3, 3, (100, 3)])
    omega = L.T @ L
    q = (-2 * (gamma - 1) * p_j @ omega - 2 * (1 + gamma) * p_i @ omega) / (-2 * gamma)
    k = ((gamma - 1) * p_j @ omega @ p_j + (1 + gamma) * p_i @ omega @ p_i) / (-2 * gamma)
    printed = squared(X @ L.T) + X @ q + k
    C, R2 = apollonius(p_i, p_j, L, gamma)
    mirrored = squared((X + C) @ L.T) - (2 * squared(L @ C) - R2)
    right = squared((X - C) @ L.T) - R2
    scale = 1e-10 * (1 + squared(L @ C) + R2 + squared(X @ L.T).max())
    np.testing.assert_allclose(printed, mirrored, atol=scale)
    np.testing.assert_allclose(
        printed + right, 2 * squared(X @ L.T), atol=scale
    )  # both <= 0 only where Lx = 0


def test_printed_surrogate_on_centred_data():
    p = np.array([1.0, 0.5])
    for gamma in (0.1, 0.5, 0.9):
        C, R2 = apollonius(p, -p, np.eye(2), gamma)
        assert 2 * squared(C) - R2 == pytest.approx((1 + gamma**2) / gamma**2 * squared(p))  # not empty ...
        assert (
            squared(C) < 2 * squared(C) - R2
        )  # ... it contains the origin, a point on the boundary of classes
        C, R2 = apollonius(np.zeros(2), p, np.eye(2), gamma)
        assert (2 * squared(C) - R2 < 0) == (gamma > 1 / 3)  # empty for a target prototype at the origin


@FAST
@given(seeds, st.integers(3, 6), st.floats(0.1, 0.95))
def test_budgets_cover_the_accepted_set(seed, K, theta):
    rng = np.random.default_rng(seed)
    alpha, beta, s = (
        -rng.uniform(0.5, 9, K - 1),
        rng.normal(size=K - 1),
        rng.uniform(-1, 1, size=(200, K - 1)),
    )
    kappa = 1 / theta - 1
    e = np.exp(alpha * s + beta)
    accepted = e.sum(axis=1) <= kappa

    def within(w):
        """Return s_j >= gamma_j(w) for all j: the constraints of the budgets w, of shape (n, K - 1)."""
        return (s >= (np.log(kappa * w) - beta) / alpha - 1e-12).all(axis=1)

    assert np.array_equal(
        within(e / e.sum(axis=1, keepdims=True)), accepted
    )  # some budgets reach every accepted
    assert accepted[within(np.full_like(s, 1 / (K - 1)) * (1 - 1e-9))].all()  # the uniform ones only accepted
    # Existence: no score lies above 1, so nothing is accepted if the smallest possible sum is too large.
    if np.exp(-np.abs(alpha) + beta).sum() > kappa:
        assert not accepted.any()


def test_one_class_at_a_time_proves_nothing():
    alpha, kappa = -4.0, 1 / 0.9 - 1
    s = np.array([1.0, -0.5])  # far from the one class, on the side of the other
    assert alpha * s[0] <= np.log(kappa) - np.log(2)
    assert 1 / (1 + np.exp(alpha * s).sum()) < 0.2


@FAST
@given(seeds, st.integers(1, 6), st.integers(1, 6))
def test_leaving_a_ball_along_one_coordinate_is_optimal(seed, d, rank):
    rng = np.random.default_rng(seed)
    L, C = rng.normal(size=(rank, d)), rng.normal(size=d)
    x0 = C + 0.3 * rng.normal(size=d)
    y = L @ (x0 - C)
    R = np.linalg.norm(y) * rng.uniform(1.01, 3)
    along, norms = L.T @ y, squared(L.T)
    root = np.sqrt(along**2 - norms * (y @ y - R**2))
    lengths = np.array([(-along + root) / norms, (along + root) / norms])
    t = lengths.min()
    sign, k = np.unravel_index(lengths.argmin(), lengths.shape)
    end = x0 + t * (1 - 2 * sign) * np.eye(d)[k]
    assert np.linalg.norm(L @ (end - C)) == pytest.approx(R)
    directions = rng.dirichlet(0.3 * np.ones(d), size=500) * rng.choice([-1, 1], size=(500, d))
    shorter = x0 + (1 - 1e-9) * t * directions
    assert (np.sqrt(squared((shorter - C) @ L.T)) <= R).all()


# --- The certificate


def knapsack(q, tau, w, low, high):
    """Return min sum w |delta| s.t. q'delta >= tau, low <= delta <= high, for low <= 0 <= high; or inf."""
    total, need = 0.0, tau
    room = np.where(q > 0, high, -low)
    for k in np.argsort(-np.abs(q) / w):
        if need <= 0:
            break
        step = min(room[k], need / abs(q[k])) if q[k] != 0 else 0.0
        total, need = total + w[k] * step, need - abs(q[k]) * step
    return total if need <= 1e-12 * max(1, abs(tau)) else np.inf


def random_cell(rng, d):
    """Return two balls |L delta - a| <= R, two half-spaces b'delta + k >= 0, and a point of all four."""
    inside = 2 * rng.normal(size=d)
    balls = []
    for _ in range(2):
        L = rng.normal(size=(int(rng.integers(1, d + 1)), d))
        noise = rng.normal(size=len(L))
        balls.append((L, L @ inside + noise, np.linalg.norm(noise) * rng.uniform(1, 2)))
    normals = rng.normal(size=(2, d))
    return balls, [(b, -b @ inside + rng.uniform(0, 1)) for b in normals], inside


@SLOW
@given(seeds, st.integers(1, 6), st.booleans())
def test_any_multipliers_give_a_bound(seed, d, bounded):
    rng = np.random.default_rng(seed)
    balls, half_spaces, inside = random_cell(rng, d)
    w = rng.uniform(0.2, 5, size=d)
    low = np.minimum(inside, 0) - rng.uniform(0, 1, size=d) if bounded else np.full(d, -np.inf)
    high = np.maximum(inside, 0) + rng.uniform(0, 1, size=d) if bounded else np.full(d, np.inf)
    delta = cp.Variable(d)
    constraints = [cp.norm(L @ delta - a) <= R for L, a, R in balls]
    constraints += [b @ delta + k >= 0 for b, k in half_spaces]
    if bounded:
        constraints += [delta >= low, delta <= high]
    optimum = cp.Problem(cp.Minimize(w @ cp.abs(delta)), constraints).solve(solver="CLARABEL")

    def bound(y, nu):
        q = sum(L.T @ v for (L, _, _), v in zip(balls, y, strict=True))
        q = q + sum(n * b for (b, _), n in zip(half_spaces, nu, strict=True))
        tau = sum(v @ a - R * np.linalg.norm(v) for (_, a, R), v in zip(balls, y, strict=True))
        tau -= sum(n * k for (_, k), n in zip(half_spaces, nu, strict=True))
        for point in (delta.value, inside):
            assert q @ point >= tau - 1e-6 * (1 + abs(tau))  # the inequality itself, for points of the cell
        value = knapsack(q, tau, w, low, high)
        if not bounded and tau > 0:
            assert value == pytest.approx(tau / np.max(np.abs(q) / w))
        return value

    for _ in range(10):
        random = bound([rng.normal(size=len(L)) for L, _, _ in balls], rng.exponential(size=2))
        assert random <= optimum + 1e-5 * (1 + optimum)
    # The solver's own multipliers prove optimality: y from the residuals, nu from the half-spaces.
    y = []
    for (L, a, _), constraint in zip(balls, constraints, strict=False):
        residual = a - L @ delta.value
        y.append(constraint.dual_value * residual / max(np.linalg.norm(residual), 1e-300))
    best = bound(y, [float(constraint.dual_value) for constraint in constraints[2:4]])
    assert best == pytest.approx(optimum, rel=1e-3, abs=1e-4)


@SLOW
@given(seeds, st.integers(1, 8))
def test_knapsack_is_the_linear_program(seed, d):
    rng = np.random.default_rng(seed)
    q, w = rng.normal(size=d), rng.uniform(0.2, 5, size=d)
    low, high = -rng.uniform(0, 1, size=d), rng.uniform(0, 1, size=d)
    capacity = np.where(q > 0, q * high, q * low).sum()
    tau = capacity * rng.uniform(0.1, 1.3)
    delta = cp.Variable(d)
    program = cp.Problem(cp.Minimize(w @ cp.abs(delta)), [q @ delta >= tau, delta >= low, delta <= high])
    program.solve(solver="HIGHS")
    if tau > capacity:
        assert program.status == "infeasible"
        assert knapsack(q, tau, w, low, high) == np.inf  # capacity exhausted
    else:
        assert knapsack(q, tau, w, low, high) == pytest.approx(program.value, rel=1e-6, abs=1e-9)
