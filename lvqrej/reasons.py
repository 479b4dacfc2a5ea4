"""What holds a reject in place: sufficient reasons, the other half of an explanation.

A counterfactual says what would have to change. A sufficient reason says what keeps the sample rejected:
features whose values alone force it, whatever the others are. The search is in `lvqrej.holding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lvqrej.certainty import Certainty
from lvqrej.counterfactual import Query, explained
from lvqrej.holding import EFFORT, Reason
from lvqrej.validation import describe

__all__ = ["Reason", "feature_counts", "sufficient_reason"]


def sufficient_reason(
    option: Certainty,
    theta: float,
    X: ArrayLike,
    *,
    bounds: Any = None,
    effort: int = EFFORT,
    k: int = 1,
    **options: Any,
) -> Any:
    """Return a smallest set of features whose values alone force the reject, within bounds.

    S suffices if no z with z_S = x_S and low <= z <= high has r(z) >= theta. By duality S meets the changed
    features of every counterfactual: smallest sets that hit those known so far are tried until one suffices.

    Parameters
    ----------
    option, theta
        As in `explain`.
    X : array-like of shape (n, d) or (d,)
        Rejected samples.
    bounds : mapping of feature to (low, high), DataFrame or Observed, optional
        Which inputs may occur; widened to the sample. None for all.
    effort : int
        Sets of features asked about, per sample, after a minimal reason was found by leaving out features.
        With 0 it is returned. If the effort ends, `fewest` says what is proven.
    k : int
        How many different minimal reasons are wanted, the smallest first; the further ones are in `others`.
    **options
        Those of `explain` for the counterfactual, the other half, which a `Reason` tells too. For the reason
        only bounds count: fixed features, directions, constraints and a target restrict answers, not what
        may occur.

    Returns
    -------
    Reason, or a list of them for several samples

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity
    >>> model = PrototypeModel([[0, 0, 0], [2, 0, 1]], ["a", "b"], feature_names=["width", "height", "depth"])
    >>> bounds = {"width": (0, 2), "height": (-1, 1), "depth": (0, 1)}
    >>> reason = sufficient_reason(RelativeSimilarity(model), 0.6, [1, 0, 0.5], bounds=bounds)
    >>> reason.features, reason.proven, reason.fewest, reason.supports
    (['width'], True, 1, [['width']])
    """
    query = Query.of(option, theta, X, bounds=bounds, **options, on_infeasible="skip")
    reasons = explained(query).sufficient_reasons(effort, k)
    return reasons[0] if query.single else reasons


def feature_counts(reasons: Sequence[Reason]) -> Any:
    """Count in how many reasons and in how many counterfactuals each feature appears, as a data frame.

    One row per feature, the most frequent first: `reasons`, samples that it helps to keep rejected;
    `counterfactuals`, samples whose nearest counterfactual changes it; `both`, samples of which both is true.
    """
    import pandas as pd

    if isinstance(reasons, Reason) or not all(isinstance(reason, Reason) for reason in reasons):
        raise ValueError(f"reasons must be a list of Reason; found {describe(reasons)}")
    names = reasons[0].batch.feature_names if reasons else []
    if any(reason.batch.feature_names != names for reason in reasons):
        raise ValueError("reasons must be about the same features")
    kept, changed = np.zeros((2, len(reasons), len(names)), dtype=bool)
    for i, reason in enumerate(reasons):
        kept[i, reason.indices] = True
        changed[i, [] if reason.why is None else reason.why.changed] = True
    counts = {"reasons": kept, "counterfactuals": changed, "both": kept & changed}
    table = pd.DataFrame(
        {name: part.sum(axis=0) for name, part in counts.items()}, index=pd.Index(names, name="feature")
    )
    order = np.argsort(-(table["reasons"] + table["counterfactuals"]), kind="stable")
    return table.iloc[order]
