"""The nearest point of a union of cells: bounds, solvers, search, certificates, validity."""
