"""The change chart: how certain before and after, and what has to change by how much."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from lvqrej.requirements import feature_index
from lvqrej.validation import check_number, describe
from lvqrej.wording import before_and_after, gauge_end, proof, shown_certainties

#: Blue and orange of Okabe and Ito, told apart with every kind of colour vision: what goes up, what down.
_BLUE, _ORANGE = "#0072B2", "#D55E00"
#: Large type on an opaque ground.
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 14,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "font.size": 13,
    "grid.alpha": 0.3,
    "hatch.color": "white",
    "hatch.linewidth": 0.8,
    "lines.linewidth": 2,
    "savefig.facecolor": "white",
}


def change_chart(why: Any, units: Any = None, most: int = 12) -> Any:
    """Return a figure of an `Explanation`: a gauge of the certainty above one bar per changed feature.

    A bar's length is the feature's share of the whole change (features have different units, shares have
    none), its direction that of the change; beside it stand the values before and after, in the feature's
    own units. The background is opaque and every mark has a shape of its own, so it reads in print and in
    dark mode.

    Parameters
    ----------
    why : Explanation
    units : mapping of feature to str, optional
        By name or index: what stands behind the values, e.g. ``{"worst area": "mm²"}``.
    most : int
        Most features to draw, the ones with the largest share first.

    Returns
    -------
    matplotlib.figure.Figure
        Closed in pyplot, so that a notebook shows it once.

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity, explain
    >>> model = PrototypeModel([[0, 0], [20, 0]], ["a", "b"], feature_names=["width", "height"])
    >>> figure = change_chart(explain(RelativeSimilarity(model), 0.6, [9, 0]), units={"width": "mm"})
    >>> [text.get_text() for text in figure.axes[1].texts]
    ['9 → 6.66 mm']
    """
    import matplotlib.pyplot as plt  # takes as long as all the rest, and most explanations are not drawn

    most = int(check_number(most, "most", low=1, integer=True))
    suffixes = _check_units(units, why.feature_names)
    rows = before_and_after(why)
    height = max(min(len(rows), most), 1)
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(2, 1, figsize=(8, 2.4 + 0.55 * height), height_ratios=[1, 0.7 * height])
        plt.close(figure)
        _draw_gauge(axes[0], why)
        _draw_changes(axes[1], why, rows[:most], len(rows[most:]), suffixes)
    return figure


def _check_units(units: Any, names: list[str]) -> dict[int, str]:
    """Return what stands behind the values, by feature."""
    given = {} if units is None else units
    if not isinstance(given, Mapping) or not all(isinstance(unit, str) for unit in given.values()):
        raise ValueError(f"units must map features to text; found {describe(units)}")
    return {feature_index(feature, "units", names): f" {unit}" for feature, unit in given.items()}


def _draw_gauge(ax: Any, why: Any) -> None:
    before, after, theta = shown_certainties(why.certainty_before, why.certainty, why.theta)
    start, end = min(0.0, why.theta), gauge_end(why)
    ax.barh(0, why.theta - start, left=start, height=0.5, color="#e6e6e6", edgecolor="#767676", hatch="//")
    ax.barh(0, end - why.theta, left=why.theta, height=0.5, color="white", edgecolor="#767676")
    ax.axvline(why.theta, color="black", label=f"threshold {theta}")
    ax.plot(why.certainty_before, 0, "X", ms=13, mec="white", color=_ORANGE, label=f"before {before}")
    if why.path != "accepted":
        ax.plot(why.certainty, 0, "o", ms=11, mec="white", color=_BLUE, label=f"after {after}")
    ax.set(xlim=(start, end), ylim=(-0.5, 0.5), yticks=[], xlabel=why.certainty_name)
    ax.grid(False)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


def _draw_changes(
    ax: Any, why: Any, rows: list[tuple[int, str, str]], left_out: int, suffixes: dict[int, str]
) -> None:
    if not rows:
        ax.text(0.5, 0.5, f"nothing has to change: accepted as {why.label}", ha="center", va="center")
        ax.set_axis_off()
        return
    shares = why.costs / why.distance
    for position, (k, before, after) in enumerate(rows):
        up = why.delta[k] > 0
        bar = (shares[k], _BLUE, "") if up else (-shares[k], _ORANGE, "//")
        ax.barh(position, bar[0], height=0.6, color=bar[1], hatch=bar[2])
        # The text stands on the empty side of the axis, where no bar is in its way.
        ax.annotate(
            f"{before} → {after}{suffixes.get(k, '')}", (0, position), (-6 if up else 6, 0),
            textcoords="offset points", va="center", ha="right" if up else "left",
        )  # fmt: skip
    ax.axvline(0, color="black", linewidth=1)
    ax.set_yticks(range(len(rows)), [textwrap.fill(why.feature_names[k], 22) for k, _, _ in rows])
    ax.invert_yaxis()
    more = f" ({left_out} smaller changes not drawn)" if left_out else ""
    width = 1.15 * shares.max()
    ax.set(xlim=(-width, width), xlabel=f"decrease ←  share of the change  → increase{more}")
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0%}")
    ax.set_title(f"accepted as {why.label} if changed so; {proof(why)}", fontsize=13)
