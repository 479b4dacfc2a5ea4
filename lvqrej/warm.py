"""Compile all loops ahead of time, once: `python -m lvqrej.warm`; later calls find them on disk.

The first explanation after an installation or an edit otherwise waits for its compiler, two to three minutes.
"""

from __future__ import annotations

import numpy as np

from lvqrej.certainty import DecisionDistance, RelativeSimilarity
from lvqrej.counterfactual import explain
from lvqrej.lvq import GMLVQ
from lvqrej.probabilistic import ProbabilisticCertainty
from lvqrej.prototypes import PrototypeModel


def main() -> list[float]:
    """Explain one small synthetic sample under each certainty and return the distances.

    >>> len(main())
    3
    """
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 10)
    X = rng.normal(size=(30, 2)) / 4 + np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[y]
    model = PrototypeModel.of(GMLVQ(random_state=0).fit(X, y))
    pairs = ProbabilisticCertainty(GMLVQ(), cv=2).fit(X, y)
    options = {RelativeSimilarity(model): 0.8, DecisionDistance(model): 0.3, pairs: 0.7}
    return [explain(option, theta, [1.0, 0.1]).distance for option, theta in options.items()]


if __name__ == "__main__":
    main()
