"""Reject options of learning vector quantization classifiers, explained by certified counterfactuals."""

__version__ = "0.1.0"
