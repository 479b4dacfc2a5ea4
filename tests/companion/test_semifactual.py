"""The published heuristic: what it optimises, and the corner it is compared with."""

from itertools import combinations

import numpy as np
from sklearn.datasets import load_wine

from companion.semifactual import even_if, farthest_corner
from lvqrej import DecisionDistance, PrototypeModel, RejectOptionClassifier


def test_a_plane_where_the_best_answer_is_known():
    """Rejected is a slab around height 0: the farthest rejected corners are its ends."""
    option = DecisionDistance(PrototypeModel([[0, 1], [0, -1]], ["a", "b"]))
    box, x, scale = (np.array([-3.0, -2.0]), np.array([5.0, 2.0])), np.zeros(2), np.ones(2)
    assert farthest_corner(option, 0.2, x, box, scale) == 5.0
    z = even_if(option, 0.2, x, box, scale)
    assert ((box[0] <= z) & (z <= box[1])).all()
    assert np.linalg.norm(z) > 2.9  # it runs into one of the ends


def test_corners_are_rejected_and_no_farther_one_is():
    X, y = load_wine(return_X_y=True)
    classifier = RejectOptionClassifier(threshold=("reject_rate", 0.2)).fit(X, y)
    x, seen, scale = X[classifier.rejects(X)][0], classifier.observed_, classifier.scale_
    option, theta = classifier.option_, classifier.threshold_
    best = farthest_corner(option, theta, x, (seen.lower, seen.upper), scale, 1)
    for (k,) in combinations(range(13), 1):
        for end in (seen.lower[k], seen.upper[k]):
            z = np.where(np.arange(13) == k, end, x)
            far = abs(end - x[k]) / scale[k]
            assert far <= best * (1 + 1e-12) or option.accepts([z], theta)[0]
    first, second = (even_if(option, theta, x, (seen.lower, seen.upper), scale) for _ in range(2))
    np.testing.assert_array_equal(first, second)
