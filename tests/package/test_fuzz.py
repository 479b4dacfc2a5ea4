"""Tables with the defects that real ones have: no crash, no silent nonsense, whatever is asked."""

import warnings

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from lvqrej import GLVQ, GMLVQ, RejectOptionClassifier

RULES = ["knee", ("reject_rate", 0.1), ("accuracy", 0.9), ("costs", 5, 1), 0.0, 0.5, 0.999]


@st.composite
def tables(draw):
    """Draw a table of some good columns and some that are constant, repeated, one-hot or sums of others."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n = draw(st.sampled_from([3, 5, 12, 60, 400, 3000]))
    rare = draw(st.sampled_from([2, 2, 10, 100]))
    y = np.where(np.arange(n) % rare == 0, "rare", "common")
    columns = {
        "size": rng.normal(size=n) + 1.5 * (y == "rare"),
        "age": rng.integers(18, 90, size=n).astype(float),
    }
    kinds = draw(st.lists(st.sampled_from(["constant", "copy", "one-hot", "sum", "huge"]), max_size=3))
    for kind in kinds:
        if kind == "constant":
            columns["constant"] = np.full(n, 7.0)
        elif kind == "copy":
            columns["copy of size"] = columns["size"].copy()
        elif kind == "one-hot":
            level = rng.integers(3, size=n)
            columns |= {f"level {k}": (level == k).astype(float) for k in range(3)}
        elif kind == "sum":
            columns["sum"] = columns["size"] + columns["age"]
        else:
            columns["income"] = np.round(np.exp(rng.normal(10, 2, size=n)), 2)
    return pd.DataFrame(columns), pd.Series(y, name="kind")


@settings(max_examples=25)
@given(
    tables(),
    st.sampled_from([GLVQ(), GMLVQ(), GMLVQ(class_weight="balanced"), None]),
    st.sampled_from(["relative-similarity", "decision-distance", "probabilistic"]),
    st.sampled_from(RULES),
)
def test_whatever_the_table_answers_are_valid_or_the_error_names_what_is_wrong(
    table, estimator, option, rule
):
    X, y = table
    classifier = RejectOptionClassifier(estimator, option, rule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are many here, and have tests of their own
        try:
            classifier.fit(X, y)
        except ValueError as error:
            assert str(error).startswith(("y must hold at least", "y must name at least two"))  # noqa: PT017
            assert y.value_counts().min() < 3 or y.nunique() < 2
            return
        labels, rejected = classifier.predict(X), classifier.rejects(X)
        assert set(labels) <= {"rare", "common", "reject"}
        assert ((labels == "reject") == rejected).all()
        assert np.isfinite(classifier.certainty(X)).all()
        assert 0 <= classifier.score(X, y) <= 1
    some = X[rejected].iloc[:5]
    result = classifier.explain(some, on_infeasible="skip")
    answers = pd.DataFrame(result.counterfactuals, columns=X.columns)[result.found]
    if len(answers):
        assert not classifier.rejects(answers).any()
        assert ((answers >= X.min()) & (answers <= X.max())).all(axis=None)
    assert (result.lower_bounds[result.found] <= result.distances[result.found]).all()
    for i, text in enumerate(str(result).splitlines()[1:]):
        assert "nan" not in text.lower()
        assert ("would be accepted" in text) or not result.found[i]
        if not result.found[i]:
            assert "no input" in text
            assert "was found" in text or np.isinf(result.lower_bounds[i])
