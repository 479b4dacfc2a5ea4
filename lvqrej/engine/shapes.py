"""The pieces of an accepted set that one can draw: balls, half-spaces, and cells made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lvqrej._validation import check_number, check_samples

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ball:
    """The set |L (x - centre)| <= radius; a cylinder or an ellipsoid, depending on L.

    Parameters
    ----------
    centre : array-like of shape (d,)
    radius : float
        At least 0.
    L : array-like of shape (k, d), optional
        The metric; the identity if None.

    Examples
    --------
    >>> ball = Ball([0, 0], 5)
    >>> ball.excess(np.array([[3, 4], [6, 8]]))
    array([0., 5.])
    """

    centre: Floats
    radius: float
    L: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        centre = check_samples(np.atleast_2d(self.centre), name="centre")[0]
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "radius", check_number(self.radius, "radius", low=0))
        metric = np.eye(len(centre)) if self.L is None else check_samples(self.L, len(centre), name="L")
        object.__setattr__(self, "L", metric)

    def excess(self, X: Floats) -> Floats:
        """Return |L (x - centre)| - radius, of shape (n,): at most 0 inside."""
        return np.linalg.norm((X - self.centre) @ self.L.T, axis=1) - self.radius


@dataclass(frozen=True, eq=False)
class HalfSpace:
    """The set normal'x + offset >= 0.

    Examples
    --------
    >>> HalfSpace([1, 0], -2).excess(np.array([[3, 4], [1, 0]]))
    array([-1.,  1.])
    """

    normal: Floats
    offset: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal", check_samples(np.atleast_2d(self.normal), name="normal")[0])
        object.__setattr__(self, "offset", check_number(self.offset, "offset"))

    def excess(self, X: Floats) -> Floats:
        """Return -(normal'x + offset), of shape (n,): at most 0 inside."""
        return -(X @ self.normal + self.offset)


@dataclass(frozen=True, eq=False)
class Cell:
    """An intersection of balls and half-spaces, all of whose points are accepted with one label.

    `label` is the index of the class among the option's classes, `name` says in words what the cell is.

    Examples
    --------
    >>> cell = Cell(balls=(Ball([0, 0], 1),), half_spaces=(HalfSpace([1, 0], 0),))
    >>> cell.contains(np.array([[0.5, 0], [-0.5, 0], [2, 0]]))
    array([ True, False, False])
    """

    balls: tuple[Ball, ...] = ()
    half_spaces: tuple[HalfSpace, ...] = ()
    label: int = 0
    name: str = ""

    def contains(self, X: Floats, tolerance: float = 0.0) -> NDArray[np.bool_]:
        """Return whether each sample lies in the cell, of shape (n,)."""
        pieces: list[Ball | HalfSpace] = [*self.balls, *self.half_spaces]
        excesses = [piece.excess(X) for piece in pieces]
        return np.all([excess <= tolerance for excess in excesses], axis=0)
