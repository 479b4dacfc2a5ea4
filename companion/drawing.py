"""Pictures of a plane: certainty as a map, the accepted set, samples, prototypes, a counterfactual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import ArrayLike, NDArray

from companion.figures import MARKERS, PALETTE
from lvqrej import PrototypeModel
from lvqrej.certainty import Certainty

#: The part of the plane that is drawn, ((x0, x1), (y0, y1)).
Limits = tuple[tuple[float, float], tuple[float, float]]


def certainty_map(
    ax: Axes,
    option: Certainty,
    limits: Limits,
    theta: float | None = None,
    *,
    resolution: int = 121,
    **style: Any,
) -> pd.DataFrame:
    """Draw r(x) over the plane; with `theta`, the rejected part hatched and its border as a black line.

    Returns the drawn numbers: one row per grid point, with both coordinates and the certainty. The colour
    scale can be had from ``ax.collections[0]``.
    """
    grid, shape = plane_grid(limits, resolution)
    certainty = option.certainty(grid)
    gx, gy, values = (v.reshape(shape) for v in (grid[:, 0], grid[:, 1], certainty))
    # Few flat colours and pixels instead of vectors keep a figure light on a page.
    low, high = style.pop("vmin", certainty.min()), style.pop("vmax", certainty.max())
    levels = np.linspace(low, high if high > low else low + 1, 33)
    ax.contourf(gx, gy, values, levels=levels, extend="both", **style).set_rasterized(True)
    if theta is not None:
        rejected_part(ax, gx, gy, values, theta)
    ax.set(xlim=limits[0], ylim=limits[1])
    ax.grid(False)
    return pd.DataFrame({"x": grid[:, 0], "y": grid[:, 1], "certainty": certainty})


def rejected_part(ax: Axes, gx: NDArray[Any], gy: NDArray[Any], values: NDArray[Any], theta: float) -> None:
    """Hatch where `values` lie below `theta` and draw the border, over a grid."""
    if values.min() < theta <= values.max():
        ax.contourf(gx, gy, values, levels=[-np.inf, theta], colors="none", hatches=["//"])
        ax.contour(gx, gy, values, levels=[theta], colors="black", linewidths=2)


def samples(ax: Axes, X: ArrayLike, y: ArrayLike, classes: ArrayLike, *, size: float = 30) -> None:
    """Draw samples, one colour and one marker per class."""
    points, labels = np.asarray(X), np.asarray(y)
    for index, label in enumerate(np.asarray(classes)):
        chosen = points[labels == label]
        look = class_look(index)
        ax.scatter(
            chosen[:, 0], chosen[:, 1], s=size, edgecolors="white", linewidths=0.6, label=str(label), **look
        )


def class_look(index: int) -> dict[str, Any]:
    """Return colour and marker of the class with this index."""
    return {"color": PALETTE[index % len(PALETTE)], "marker": MARKERS[index % len(MARKERS)]}


def prototypes(ax: Axes, model: PrototypeModel) -> None:
    """Draw prototypes as large markers with a black rim, in the look of their class."""
    for index, label in enumerate(model.classes):
        chosen = model.prototypes[model.labels == label]
        look = class_look(index)
        ax.scatter(chosen[:, 0], chosen[:, 1], s=220, edgecolors="black", linewidths=2, zorder=4, **look)


def numbered(
    ax: Axes, model: PrototypeModel, numbers: Sequence[int] | None = None, classes: ArrayLike | None = None
) -> None:
    """Draw the prototypes that lie in the picture, each with its number (from 1) in it.

    A model that is part of another one may give the numbers and class indices of the other one.
    """
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    rim = [Stroke(linewidth=1.8, foreground="black"), Normal()]
    named = zip(
        model.prototypes,
        model.class_index if classes is None else np.asarray(classes),
        numbers or range(1, len(model.labels) + 1),
        strict=True,
    )
    for p, index, number in named:
        if left < p[0] < right and low < p[1] < high:
            ax.scatter(
                p[0], p[1], s=220, edgecolors="black", linewidths=2, zorder=4, **class_look(int(index))
            )
            ax.annotate(
                str(number),
                p,
                ha="center",
                va="center",
                color="white",
                fontsize=13,
                fontweight="bold",
                path_effects=rim,
                zorder=5,
            )


def cross(ax: Axes, x: ArrayLike) -> None:
    """Draw a rejected sample: a white cross."""
    point = np.asarray(x, dtype=float)
    ax.scatter(
        point[0], point[1], s=190, marker="X", color="white", edgecolors="black", linewidths=1.8, zorder=6
    )


def change(ax: Axes, x: ArrayLike, counterfactual: ArrayLike, label: str | None = None) -> None:
    """Draw the way from `x` to its counterfactual, one feature after the other, as the l1-norm counts it."""
    start, end = np.asarray(x, dtype=float), np.asarray(counterfactual, dtype=float)
    corner = np.array([end[0], start[1]])
    ax.plot(*np.array([start, corner, end]).T, color="black", linewidth=3, zorder=5, label=label)
    cross(ax, start)
    ax.scatter(end[0], end[1], s=280, marker="*", color="gold", edgecolors="black", linewidths=1.5, zorder=6)


def plane_grid(limits: Limits, resolution: int) -> tuple[NDArray[np.float64], tuple[int, int]]:
    """Return the points of a regular grid, of shape (resolution^2, 2), and the grid's shape."""
    gx, gy = np.meshgrid(*(np.linspace(*limit, resolution) for limit in limits))
    return np.column_stack([gx.ravel(), gy.ravel()]), gx.shape
