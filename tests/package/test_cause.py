"""Why a sample was rejected: the rule, the numbers it rests on, and what a certainty cannot see."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from lvqrej import (
    GLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RejectOptionClassifier,
    RelativeSimilarity,
)
from lvqrej.cause import Cause, Familiarity

MODEL = PrototypeModel([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], ["a", "b", "c"])
RNG = np.random.default_rng(0)
X = np.concatenate([centre + RNG.normal(size=(50, 2)) for centre in MODEL.prototypes])
Y = np.repeat(["a", "b", "c"], 50)


def causes(usual, option, theta, samples, level=0.99):
    return usual.causes(option, *option.judged(samples, theta), level)


def one_cause(option, theta, x, level=0.99):
    return causes(Familiarity.of(option, X, Y), option, theta, np.array([x], dtype=float), level)[0]


def test_between_two_classes_is_ambiguous():
    # Level 1 and training samples that reach the middle: nothing there is farther than all of them.
    option = RelativeSimilarity(MODEL)
    usual = Familiarity.of(option, np.array([[5.0, 1.0], [0.0, 1.0]]), np.array(["a", "a"]))
    cause = causes(usual, option, 0.5, np.array([[4.8, 0.0]]))[0]
    assert (cause.kind, cause.label, cause.rival) == ("ambiguous", "a", "b")
    assert (cause.distance, cause.rival_distance) == pytest.approx((4.8, 5.2))
    assert not cause.is_far
    assert str(cause) == "ambiguous between a and b: a at distance 4.8, b at 5.2"


def test_far_from_everything_is_unfamiliar():
    cause = one_cause(RelativeSimilarity(MODEL), 0.5, [200, 190])
    assert cause.kind == "unfamiliar"
    assert cause.is_far
    assert cause.farther_than == 1
    assert cause.distance == pytest.approx(np.hypot(190, 190))
    assert "farther from every prototype than all training samples (99 % are within" in str(cause)


def test_accepted_is_said_to_be():
    cause = one_cause(RelativeSimilarity(MODEL), 0.5, [0.1, 0])
    assert cause.kind == "accepted"
    assert str(cause).startswith("accepted: a at distance 0.1, b at 9.9")


def test_numbers_are_those_of_the_training_samples():
    cause = one_cause(RelativeSimilarity(MODEL), 0.99, [1.5, 0], level=0.9)
    nearest = np.sqrt(((X[:, None] - MODEL.prototypes) ** 2).sum(axis=2)).min(axis=1)
    assert cause.farther_than == pytest.approx((nearest < 1.5).mean())
    assert (nearest <= cause.usual_distance).mean() >= 0.9
    assert (nearest < cause.usual_distance).mean() < 0.91
    assert cause.is_far == (cause.usual_distance < 1.5)


def test_distance_to_the_boundary_cannot_see_unfamiliarity_and_says_so():
    option = DecisionDistance(MODEL)
    # Far out it is the more certain the farther; a reject there lies between two classes.
    assert option.certainty([[-1e4, -3e4]])[0] > 100
    cause = one_cause(option, 0.5, [500, 500.0])
    assert cause.kind == "ambiguous"
    assert cause.is_far
    assert not cause.sees_unfamiliarity
    assert "grows outward, so this certainty cannot see whether a sample is unfamiliar" in str(cause)
    assert "farther from every prototype than all training samples" in str(cause)
    near = one_cause(option, 5, [0.1, 0])
    assert str(near).endswith("unfamiliar")


def test_relative_similarity_does_see_it():
    # What the rule above rests on: outward, relative similarity falls to 0 in every direction.
    option = RelativeSimilarity(MODEL)
    for angle in np.linspace(0, 6, 7):
        direction = np.array([np.cos(angle), np.sin(angle)])
        assert option.certainty([1e6 * direction])[0] < 1e-3


def test_probabilistic_looks_into_the_model_of_the_two_classes():
    models = {
        (0, 1): PrototypeModel([[0.0, 0], [10, 0]], ["a", "b"], 2 * np.eye(2)),
        (0, 2): PrototypeModel([[0.0, 0], [0, 10]], ["a", "c"]),
        (1, 2): PrototypeModel([[10.0, 0], [0, 10]], ["b", "c"], 3 * np.eye(2)),
    }
    alpha = -8 * (1 - np.eye(3))
    option = ProbabilisticCertainty.from_pairs(models, alpha, np.zeros((3, 3)), ["a", "b", "c"])
    cause = one_cause(option, 0.99, [5.1, 0.3])
    assert (cause.label, cause.rival) == ("b", "a")
    assert (cause.distance, cause.rival_distance) == pytest.approx(
        (2 * np.hypot(4.9, 0.3), 2 * np.hypot(5.1, 0.3))
    )
    usual = Familiarity.of(option, X, Y)
    assert set(usual.distances) == set(models)
    assert len(usual.distances[1, 2]) == 100
    assert one_cause(option, 0.99, [300, 320]).kind == "unfamiliar"


def test_classifier_tells_causes_and_explanations_carry_them():
    samples, y = make_blobs(120, centers=[[0, 0], [4, 0]], random_state=0)
    classifier = RejectOptionClassifier(GLVQ(), threshold=0.7).fit(samples, y)
    rows = np.array([[2.0, 0.1], [50.0, 60.0], [0.0, 0.0]])
    told = classifier.cause(rows)
    assert [cause.kind for cause in told] == ["ambiguous", "unfamiliar", "accepted"]
    assert classifier.cause(rows[1]) == told[1]
    assert list(pd.DataFrame(told)["kind"]) == ["ambiguous", "unfamiliar", "accepted"]
    explained = classifier.explain(rows)
    assert [why.cause for why in explained] == told
    assert classifier.explain(rows[0]).cause == told[0]


def test_the_model_is_evaluated_once_for_explanation_and_cause(monkeypatch):
    samples, y = make_blobs(120, centers=[[0, 0], [4, 0]], random_state=0)
    classifier = RejectOptionClassifier(GLVQ(), threshold=0.7).fit(samples, y)
    sample, seen, distances = np.array([2.0, 0.1]), [], PrototypeModel.distances

    def counted(model, X):
        seen.append(bool((np.asarray(X) == sample).all(axis=1).any()))
        return distances(model, X)

    monkeypatch.setattr(PrototypeModel, "distances", counted)
    why = classifier.explain(sample)
    assert sum(seen) == 1
    assert (why.cause.kind, why.label) == ("ambiguous", why.label)
    assert str(why).startswith("rejected")
    assert sum(seen) == 1


def test_without_samples_of_a_class_there_is_no_reference():
    pairs = {(0, 1): MODEL_OF_TWO}
    option = ProbabilisticCertainty.from_pairs(pairs, [[0, -4], [-4, 0]], np.zeros((2, 2)), ["a", "b"])
    unknown = Familiarity.of(option, X[:0], Y[:0])
    assert unknown.distances == {}
    assert causes(unknown, option, 0.9, np.array([[5.0, 0.0]])) == [None]


MODEL_OF_TWO = PrototypeModel([[0.0, 0], [10, 0]], ["a", "b"])


def test_level_is_checked():
    for level in (-0.1, 1.1, "99", None):
        with pytest.raises(ValueError, match="level must be"):
            one_cause(RelativeSimilarity(MODEL), 0.5, [1, 1], level=level)


def test_a_share_is_never_told_larger_than_it_is():
    """Farther than 999 of 1,000 samples and a bit, or than two of three: 99.9 %, 66.6 %."""
    usual = {"usual_distance": 1.0, "level": 0.99, "sees_unfamiliarity": True}
    for share, text in ((0.99999, "than 99.9 %"), (2 / 3, "than 66.6 %"), (1.0, "than all training samples")):
        assert text in str(Cause("unfamiliar", "a", "b", 2.0, 3.0, share, **usual))
