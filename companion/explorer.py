"""What the book's explorer needs to know: the running example as one file of data for its script.

The explorer answers in the reader's browser, where no Python is. The build exports prototypes, metrics and
calibrations in full precision, and a few answers of `explain` for readers without scripts. Chapters show the
explorer set to their scene; `scene` draws the picture that stands for it on paper and without scripts.
"""

from __future__ import annotations

import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from companion import drawing, figures
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
    markers, training (the models of `training_history`), and options: a list with key, name, range,
    threshold (a fifth of the wines is rejected), what its certainty is computed from, and the answer of
    `explain` for the wine.
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
        "training": [_model(model) | {"cost": cost} for cost, model in training_history(example)],
        "options": options,
    }


def training_history(example: RunningExample) -> list[tuple[float, PrototypeModel]]:
    """Return cost and model before the first and after each iteration of the running example's training."""
    trained = GMLVQ(prototypes_per_class=2, regularization=0, random_state=0, keep_history=True)
    trained.fit(example.X, example.y)
    return [
        (state["cost"], PrototypeModel(state["w"], trained.c_w_, state["omega"], example.feature_names))
        for state in trained.history_
    ]


def scene(key: str, theta: float | None = None) -> tuple[bytes, str]:
    """Draw what the explorer shows at first in a chapter; return the picture (SVG) and a description of it.

    Parameters
    ----------
    key : str
        A key of `RANGES`, or "training".
    theta : float, optional
        The threshold; without it, the one that rejects a fifth of the wines.
    """
    example = running_example()
    with plt.rc_context(figures.STYLE):
        fig, ax = plt.subplots(figsize=(6.4, 6.4))
        words = _training(ax, example) if key == "training" else _reject(ax, example, key, theta)
        ax.set(xlim=example.limits[0], ylim=example.limits[1])
        ax.set(
            xlabel=f"{example.feature_names[0]} (standardised)",
            ylabel=f"{example.feature_names[1]} (standardised)",
        )
        drawn = figures.render(fig, "svg")
        plt.close(fig)
    return drawn, words


def _reject(ax: Axes, example: RunningExample, key: str, theta: float | None) -> str:
    option = explorer_options(example)[key]
    theta = example.threshold(option) if theta is None else theta
    why = explain(option, theta, example.x)
    drawing.certainty_map(ax, option, example.limits, theta, resolution=161)
    if key != "probability":
        drawing.prototypes(ax, example.model)
    drawing.change(ax, example.x, why.counterfactual)
    return (
        f"Map of the {option.name} over the plane of two features of Wine, hatched where it lies below the "
        f"threshold {theta:.2f}; a cross marks the rejected wine, a star the nearest point that is accepted, "
        f"a line leads from one to the other."
    )


def _training(ax: Axes, example: RunningExample) -> str:
    history = training_history(example)
    drawing.samples(ax, example.X, example.y, example.model.classes)
    for way in np.swapaxes([model.prototypes for _, model in history], 0, 1):
        ax.plot(*way.T, color="black", linewidth=2, zorder=3)
    drawing.prototypes(ax, history[-1][1])
    return (
        "Wines of three cultivars in a plane and six prototypes, each at the end of the line that it has "
        f"followed in {len(history) - 1} iterations of the training."
    )


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
