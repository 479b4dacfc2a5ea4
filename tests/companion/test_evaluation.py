"""The evaluation against numbers worked out by hand."""

import numpy as np
import pytest

from companion.evaluation import evaluate
from lvqrej import PrototypeModel, RelativeSimilarity, explain

OPTION = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
X = np.array([[0.9, 0.0], [1.1, 0.0]])
# On the axis r = (2 - x)^2 - x^2 over their sum; r = 0.6 at x = 2/3.


def test_measures_by_hand():
    methods = {
        "optimal": lambda Z: explain(OPTION, 0.6, Z, noise=0).counterfactuals,
        "prototype": lambda Z: np.array([[0.0, 0.0], [2.0, 0.0]]),
        "half": lambda Z: np.array([[0.0, 0.0], [np.nan, np.nan]]),
        "none": lambda Z: np.full((2, 2), np.nan),
        "invalid": lambda Z: Z + np.array([0.0, 1e-6]),
    }
    table = evaluate(OPTION, 0.6, X, methods).set_index("method")
    assert table["valid"].tolist() == [1, 1, 0.5, 0, 0]
    np.testing.assert_allclose(table["l1"], [0.9 - 2 / 3, 0.9, 0.9, np.nan, 1e-6], rtol=1e-6)
    np.testing.assert_array_equal(table["l0"], [1, 1, 1, np.nan, 0])
    farther = 1 - (0.9 - 2 / 3) / 0.9
    np.testing.assert_allclose(table["gap"], [0, farther, farther, np.nan, np.nan], atol=1e-9)


def test_accepted_samples_have_gap_zero():
    table = evaluate(OPTION, 0.6, [[0.1, 0.0]], {"itself": lambda Z: Z})
    assert table.loc[0, ["valid", "l1", "l0", "gap"]].tolist() == [1, 0, 0, 0]


def test_a_method_must_answer_every_sample():
    with pytest.raises(
        ValueError, match=r"methods\['short'\] must return .* shape \(2, 2\); found shape \(1, 2\)"
    ):
        evaluate(OPTION, 0.6, X, {"short": lambda Z: Z[:1]})
