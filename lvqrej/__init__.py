"""Reject options of learning vector quantization classifiers, explained by certified counterfactuals."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lvqrej.certainty import DecisionDistance, RelativeSimilarity
    from lvqrej.classifier import RejectOptionClassifier
    from lvqrej.counterfactual import explain, explain_per_class
    from lvqrej.explanation import Explanation, Explanations, NoCounterfactualError
    from lvqrej.lvq import GLVQ, GMLVQ
    from lvqrej.probabilistic import ProbabilisticCertainty
    from lvqrej.prototypes import PrototypeModel
    from lvqrej.requirements import mad_weights
    from lvqrej.thresholds import accuracy_reject_curve

__version__ = "0.1.0"
__all__ = [
    "GLVQ", "GMLVQ", "DecisionDistance", "Explanation", "Explanations", "NoCounterfactualError",
    "ProbabilisticCertainty", "PrototypeModel", "RejectOptionClassifier", "RelativeSimilarity",
    "accuracy_reject_curve", "explain", "explain_per_class", "mad_weights",
]  # fmt: skip

#: Where the names live. They are loaded when asked for: scikit-learn alone takes two seconds, and explaining
#: a model that is given as arrays does not need it. No module may have the name of a function here: once
#: loaded it would hide it.
_HOMES = {
    "certainty": ("DecisionDistance", "RelativeSimilarity"),
    "classifier": ("RejectOptionClassifier",),
    "counterfactual": ("explain", "explain_per_class"),
    "explanation": ("Explanation", "Explanations", "NoCounterfactualError"),
    "lvq": ("GLVQ", "GMLVQ"),
    "probabilistic": ("ProbabilisticCertainty",),
    "prototypes": ("PrototypeModel",),
    "requirements": ("mad_weights",),
    "thresholds": ("accuracy_reject_curve",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"lvqrej.{module}"), name)
    raise AttributeError(f"module 'lvqrej' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
