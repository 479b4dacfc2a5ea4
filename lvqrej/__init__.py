"""Reject options of learning vector quantization classifiers, explained by certified counterfactuals."""

from lvqrej.certainty import DecisionDistance, RelativeSimilarity
from lvqrej.lvq import GLVQ, GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel
from lvqrej.thresholds import accuracy_reject_curve

__version__ = "0.1.0"
__all__ = [
    "GLVQ",
    "GMLVQ",
    "DecisionDistance",
    "ProbabilisticCertainty",
    "PrototypeModel",
    "RelativeSimilarity",
    "accuracy_reject_curve",
]
