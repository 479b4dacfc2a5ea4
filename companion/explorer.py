"""What the book's explorer needs to know: the running example as one file of data for its script.

The explorer answers in the reader's browser, where no Python is. The build exports prototypes, metrics and
calibrations in full precision, and a few answers of `explain` for readers without scripts.
"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import to_hex

from companion.figures import MARKERS, PALETTE
from companion.running_example import RunningExample, running_example
from lvqrej import (
    GMLVQ,
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    explain,
    explain_per_class,
)
from lvqrej.certainty import Certainty

#: The name under which the script finds the data: a page opened as a file cannot fetch one.
VARIABLE = "lvqrejExplorerData"
#: Thresholds that the reader can choose, by the key of the certainty. Above one half the class that is
#: probable enough is the only one; beyond the last probability no input is certain enough, which is worth
#: seeing.
RANGES = {"similarity": (0.02, 0.98), "distance": (0.02, 1.5), "probability": (0.5, 0.97)}
#: Flat colours of the certainty map, as in the book's figures.
COLOURS = 32


def explorer_options(example: RunningExample) -> dict[str, Certainty]:
    """Return the three certainties on the running example, by the keys of `RANGES`."""
    frame = pd.DataFrame(example.X, columns=example.feature_names)
    pairwise = ProbabilisticCertainty(GMLVQ(prototypes_per_class=2, regularization=0, random_state=0))
    return {
        "similarity": RelativeSimilarity(example.model),
        "distance": DecisionDistance(example.model),
        "probability": pairwise.fit(frame, example.y),
    }


def explorer_data() -> dict[str, Any]:
    """Return everything the explorer shows or computes with, as plain lists, numbers and strings.

    Keys: features, classes, limits, samples, labels, start (the rejected wine), model, colours, palette,
    markers, and options: a list with key, name, range, threshold (a fifth of the wines is rejected), what
    its certainty is computed from, and the answer of `explain` for the wine.
    """
    example = running_example()
    options = [_option(example, key, option) for key, option in explorer_options(example).items()]
    colours = colormaps["cividis"]
    return {
        "features": example.feature_names,
        "classes": example.model.classes.tolist(),
        "limits": example.limits,
        "samples": example.X.tolist(),
        "labels": [example.model.classes.tolist().index(label) for label in example.y.tolist()],
        "start": example.x.tolist(),
        "model": _model(example.model),
        "colours": [to_hex(colours((k + 0.5) / COLOURS)) for k in range(COLOURS)],
        "palette": PALETTE[: len(example.model.classes)],
        "markers": MARKERS[: len(example.model.classes)],
        "options": options,
    }


def explorer_script(data: dict[str, Any]) -> str:
    r"""Return `explorer_data` as a script that assigns it to a variable, in full precision.

    >>> explorer_script({"features": ["width"], "start": [0.1]})
    'window.lvqrejExplorerData = {"features":["width"],"start":[0.1]};\n'
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return f"window.{VARIABLE} = {text};\n"


def _option(example: RunningExample, key: str, option: Certainty) -> dict[str, Any]:
    theta = example.threshold(option)
    record: dict[str, Any] = {
        "key": key,
        "name": option.name,
        "range": RANGES[key],
        "threshold": theta,
        "answer": _answer(explain(option, theta, example.x)),
        "alternatives": {
            label: _answer(why) for label, why in explain_per_class(option, theta, example.x).items()
        },
    }
    if isinstance(option, DecisionDistance):
        record["separations"] = option.separations.tolist()
    if isinstance(option, ProbabilisticCertainty):
        record["pairs"] = [
            {"classes": pair, **_model(model)} for pair, model in sorted(option.models_.items())
        ]
        record["alpha"], record["beta"] = option.alpha_.tolist(), option.beta_.tolist()
    return record


def _model(model: PrototypeModel) -> dict[str, Any]:
    """Return prototypes, the metric's factor L and the labels in words, which pairwise models share."""
    return {
        "prototypes": model.prototypes.tolist(),
        "L": model.L.tolist(),
        "labels": model.labels.tolist(),
    }


def _answer(why: Any) -> dict[str, Any]:
    return {
        "sentence": str(why),
        "counterfactual": why.counterfactual.tolist(),
        "label": str(why.label),
        "distance": why.distance,
        "lowerBound": why.lower_bound,
    }
