"""Reject options of learning vector quantization classifiers, explained by certified counterfactuals."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lvqrej.certainty import DecisionDistance, RelativeSimilarity
from lvqrej.counterfactual import explain, explain_per_class
from lvqrej.explanation import Explanation, Explanations, NoCounterfactualError
from lvqrej.prototypes import PrototypeModel
from lvqrej.requirements import mad_weights
from lvqrej.thresholds import accuracy_reject_curve

if TYPE_CHECKING:
    from lvqrej.classifier import RejectOptionClassifier
    from lvqrej.comparison import compare_options
    from lvqrej.lvq import GLVQ, GMLVQ
    from lvqrej.probabilistic import ProbabilisticCertainty

__version__ = "0.2.0"
__all__ = [
    "GLVQ", "GMLVQ", "DecisionDistance", "Explanation", "Explanations", "NoCounterfactualError",
    "ProbabilisticCertainty", "PrototypeModel", "RejectOptionClassifier", "RelativeSimilarity",
    "accuracy_reject_curve", "compare_options", "explain", "explain_per_class", "mad_weights",
]  # fmt: skip

#: Where the names live that need scikit-learn. It takes two seconds to load, and explaining a model that is
#: given as arrays does not need it: they are loaded when asked for.
_LATER = {
    "GLVQ": "lvq",
    "GMLVQ": "lvq",
    "ProbabilisticCertainty": "probabilistic",
    "RejectOptionClassifier": "classifier",
    "compare_options": "comparison",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'lvqrej' has no attribute {name!r}")
    return getattr(import_module(f"lvqrej.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
