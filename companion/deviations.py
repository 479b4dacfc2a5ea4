"""How the published code departs from the paper or from what was meant, each departure as one switch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from lvqrej.validation import check_choice

#: The reject options, by the names that results use.
OPTIONS = ("relative_similarity", "decision_distance", "probabilistic")
#: The methods: ours; the paper's algorithm; its two baselines; its Algorithm 2 (probabilistic option only).
METHODS = ("exact", "paper", "nearest", "black_box", "direct")


class Finding(NamedTuple):
    """What a switch does, and where that can be seen.

    `options` and `methods` are those whose results it may change.
    """

    what: str
    options: tuple[str, ...] = OPTIONS
    methods: tuple[str, ...] = METHODS


_DIST, _PROBA = ("decision_distance",), ("probabilistic",)

#: The findings in the order in which the switches are turned off one by one.
FINDINGS: dict[str, Finding] = {
    "identity_metric": Finding("GMLVQ's learned matrix is replaced by the identity in the reject option"),
    "farthest_sample": Finding(
        "the closest accepted training sample is the farthest one, filtered by rows of the test part",
        methods=("nearest",),
    ),
    "mixed_norms": Finding("r_Dist divides by the Euclidean norm, its constraints use Omega", _DIST),
    "printed_constraints": Finding(
        "r_Dist's constraints for one fixed nearest prototype, as printed", _DIST, ("paper",)
    ),
    "unsigned_pairs": Finding(
        "pairwise probabilities of the nearer class's score, calibrated on the model's own predictions",
        _PROBA,
    ),
    "printed_signs": Finding(
        "q_j and c_j of the convex surrogate with the printed signs", _PROBA, ("paper",)
    ),
    "single_class": Finding("the surrogate constrains one other class at a time", _PROBA, ("paper",)),
    "unclipped_penalty": Finding("Algorithm 2's penalty is not clipped at zero", _PROBA, ("direct",)),
    "margins": Finding(
        "margin 0.1 in the constraints; threshold loosened by 0.1 in the probabilistic algorithms",
        methods=("paper", "direct"),
    ),
    "loose_solver": Finding("SCS with accuracy 1e-4", methods=("paper",)),
    "shifted_thresholds": Finding("a coarse grid of thresholds, read one place beside the knee"),
    "unshuffled_folds": Finding("inner cross-validation neither shuffled nor stratified"),
    "scaled_before_split": Finding("missing values and scale learned from all rows, before the split"),
    "empty_folds_as_zero": Finding("a fold without rejects counts as validity 0", methods=()),
}


@dataclass(frozen=True)
class Deviations:
    """The published deviations, each on or off; all off is the protocol as it was meant.

    See `FINDINGS` for what each one does.

    Examples
    --------
    >>> Deviations(margins=True).names
    ('margins',)
    >>> Deviations.all().without("margins").margins
    False
    """

    identity_metric: bool = False
    farthest_sample: bool = False
    mixed_norms: bool = False
    printed_constraints: bool = False
    unsigned_pairs: bool = False
    printed_signs: bool = False
    single_class: bool = False
    unclipped_penalty: bool = False
    margins: bool = False
    loose_solver: bool = False
    shifted_thresholds: bool = False
    unshuffled_folds: bool = False
    scaled_before_split: bool = False
    empty_folds_as_zero: bool = False

    @classmethod
    def all(cls) -> Deviations:
        """Return the published code's own settings: every deviation at once."""
        return cls(**dict.fromkeys(FINDINGS, True))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the switches that are on."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name))

    def without(self, *names: str) -> Deviations:
        """Return these deviations without the named ones."""
        for name in names:
            check_choice(name, "name", tuple(FINDINGS))
        return Deviations(**{name: True for name in self.names if name not in names})


class Variant(NamedTuple):
    """A named set of deviations, and the methods it is worth running with."""

    name: str
    deviations: Deviations
    methods: tuple[str, ...]
    options: tuple[str, ...]


def variant(name: str) -> Variant:
    """Return the variant of that name.

    Parameters
    ----------
    name : str
        "ours" (no deviation), "published" (all of them), "only:<switch>" (one alone) or
        "through:<switch>" (all but those listed in `FINDINGS` up to and including this one: the steps from
        "published" to "ours"). A variant of a single switch runs only the options and methods that the switch
        may change, and leaves the slow searches by Nelder-Mead out unless the switch is about them.

    Examples
    --------
    >>> variant("only:margins").deviations.names
    ('margins',)
    >>> variant("through:loose_solver").deviations.names[0]
    'shifted_thresholds'
    >>> variant("only:printed_signs").options, variant("only:printed_signs").methods
    (('probabilistic',), ('paper',))
    """
    if name == "ours":
        return Variant(name, Deviations(), METHODS, OPTIONS)
    if name == "published":
        return Variant(name, Deviations.all(), METHODS, OPTIONS)
    kind, _, switch = name.partition(":")
    check_choice(kind, "variant", ("ours", "published", "only", "through"))
    check_choice(switch, "switch of the variant", tuple(FINDINGS))
    finding = FINDINGS[switch]
    slow = {"black_box", "direct"} - (
        {"direct"} if switch in ("unclipped_penalty", "unsigned_pairs") else set()
    )
    methods = tuple(method for method in finding.methods if method not in slow)
    if kind == "only":
        return Variant(name, Deviations(**{switch: True}), methods, finding.options)
    done = list(FINDINGS)[: list(FINDINGS).index(switch) + 1]
    return Variant(name, Deviations.all().without(*done), methods, finding.options)


def ablation() -> list[str]:
    """Return the names of all variants of a single switch that have something to run."""
    switches = [name for name, finding in FINDINGS.items() if finding.methods]
    return [f"{kind}:{switch}" for kind in ("only", "through") for switch in switches]
