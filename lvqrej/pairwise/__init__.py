"""The accepted set of the probabilistic certainty: budgets, joint cells, bounds, search."""
