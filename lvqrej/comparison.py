"""Which option, model and threshold rule? All combinations on your own data, by nested cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import _safe_indexing

from lvqrej.chart import comparison_chart
from lvqrej.classifier import RejectOptionClassifier
from lvqrej.fitting import OPTIONS
from lvqrej.thresholds import ThresholdWarning, accuracy_reject_curve, interval
from lvqrej.validation import check_number, describe


@dataclass(frozen=True)
class Comparison:
    """What `compare_options` found; `to_frame()` is the table and `plot()` the picture."""

    table: Any

    def to_frame(self) -> Any:
        """Return a row per model, option and rule.

        `rejected`, and `risk`, the share of errors among the accepted, with exact 95 % intervals (_low,
        _high); `augrc` with a bootstrap interval, and `area`, of certainties ranked within folds; `reached`,
        in how many folds the rule was. Intervals treat the models of the folds as one.
        """
        return self.table

    def plot(self) -> Any:
        """Return a matplotlib figure of the table."""
        return comparison_chart(self.table)

    def __str__(self) -> str:
        return str(self.table.round(3).to_string())

    def _repr_html_(self) -> Any:
        return self.table._repr_html_()


def compare_options(
    X: ArrayLike,
    y: ArrayLike,
    *,
    options: Any = tuple(OPTIONS),
    estimators: Any = None,
    thresholds: Any = ("knee",),
    cv: int = 5,
    random_state: int = 0,
    **parameters: Any,
) -> Comparison:
    """Compare reject options, models and threshold rules on samples X (n, d) with labels y (n,).

    Each combination is a `RejectOptionClassifier`, fitted (its threshold included) to all folds but one and
    judged on that one. To choose the best row and quote its numbers is still a choice on these data.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Samples.
    y : array-like of shape (n,)
        Their labels.
    options : sequence
        Options of `RejectOptionClassifier`.
    estimators : mapping of name to estimator, optional
        Models; the classifier's own if None.
    thresholds : sequence
        Threshold rules.
    cv : int
        Number of folds, outside and inside.
    random_state : int
        Seed of both.
    **parameters
        Further ones of `RejectOptionClassifier`, such as `local` and `calibration`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> found = compare_options(*load_iris(return_X_y=True), options=["decision-distance"], cv=3)
    >>> found.to_frame()[["rejected", "risk", "reached"]].round(2).to_numpy().tolist()
    [[0.07, 0.01, 3.0]]
    """
    import pandas as pd

    folds = int(check_number(cv, "cv", low=2, integer=True))
    seed = int(check_number(random_state, "random_state", low=0, integer=True))
    models = {"GMLVQ": None} if estimators is None else estimators
    if not isinstance(models, Mapping) or not models:
        raise ValueError(f"estimators must map names to estimators; found {describe(estimators)}")
    labels = np.asarray(y)
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
    rows = {}
    for (name, model), option, rule in product(models.items(), options, thresholds):
        classifier = RejectOptionClassifier(model, option, rule, cv=folds, random_state=seed, **parameters)
        n, reached = len(labels), 0
        rank, right, rejected = np.empty(n), np.empty(n, dtype=bool), np.empty(n, dtype=bool)
        for train, test in splits.split(np.zeros(n), labels):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ThresholdWarning)  # told by `reached` and the scores
                fitted = clone(classifier).fit(_safe_indexing(X, train), labels[train])
            part, point = _safe_indexing(X, test), fitted.operating_point_
            reached += point is None or point.found
            found, rejected[test] = fitted.decided(part)
            right[test] = found == labels[test]
            values = np.asarray(fitted.certainty(part))
            rank[test] = np.searchsorted(np.sort(values), values, side="right") / len(test)
        curve = accuracy_reject_curve(rank, right)
        accepted, errors = n - rejected.sum(), (~rejected & ~right).sum()
        augrc = curve.score_intervals(draws=200, seed=seed).loc["AUGRC"]
        rows[name, _said(option), _said(rule)] = {
            "rejected": rejected.mean(),
            **_ends("rejected", interval(n - accepted, n)),
            "risk": errors / max(accepted, 1),
            **_ends("risk", interval(errors, accepted)),
            "augrc": augrc["value"],
            **_ends("augrc", (augrc["low"], augrc["high"])),
            "area": curve.area,
            "reached": reached,
        }
    index = pd.MultiIndex.from_tuples(rows, names=["model", "option", "rule"])
    return Comparison(pd.DataFrame(rows.values(), index))


def _ends(name: str, ends: tuple[Any, Any]) -> dict[str, float]:
    return {f"{name}_low": float(ends[0]), f"{name}_high": float(ends[1])}


def _said(choice: Any) -> str:
    """Return a rule or an option in words, such as "risk 0.05 0.95"."""
    return " ".join(map(str, choice)) if isinstance(choice, (tuple, list)) else str(choice)
