"""The nearest point of a union of convex cells: bounds, solvers, search, certificates."""

from lvqrej.solvers.cone import Program, cone_projection
from lvqrej.solvers.homotopy import SOLVED, UNRESOLVED, homotopy

__all__ = ["SOLVED", "UNRESOLVED", "Program", "cone_projection", "homotopy"]
