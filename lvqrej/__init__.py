"""Reject options of learning vector quantization classifiers, explained by certified counterfactuals."""

from lvqrej.certainty import DecisionDistance, RelativeSimilarity
from lvqrej.classifier import RejectOptionClassifier
from lvqrej.counterfactual import (
    Explanation,
    Explanations,
    NoCounterfactualError,
    explain,
    explain_per_class,
    mad_weights,
)
from lvqrej.lvq import GLVQ, GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel
from lvqrej.thresholds import accuracy_reject_curve

__version__ = "0.1.0"
__all__ = [
    "GLVQ",
    "GMLVQ",
    "DecisionDistance",
    "Explanation",
    "Explanations",
    "NoCounterfactualError",
    "ProbabilisticCertainty",
    "PrototypeModel",
    "RejectOptionClassifier",
    "RelativeSimilarity",
    "accuracy_reject_curve",
    "explain",
    "explain_per_class",
    "mad_weights",
]
