"""The change chart: how certain before and after, and what has to change by how much."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl

from lvqrej._validation import check_number, describe
from lvqrej.telling.presentation import gauge_end, proof
from lvqrej.telling.rounding import before_and_after, shown_certainties


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
    """
    most = int(check_number(most, "most", low=1, integer=True))
    names = _check_units(units, why.feature_names)
    import matplotlib.pyplot as plt

    from lvqrej.figures import STYLE

    rows = sorted(before_and_after(why), key=lambda row: -why.costs[row[0]])
    drawn = rows[:most]
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(
            2, 1, figsize=(8, 2.4 + 0.55 * max(len(drawn), 1)), height_ratios=[1, 0.7 * max(len(drawn), 1)]
        )
        plt.close(figure)
        _draw_gauge(axes[0], why)
        _draw_changes(axes[1], why, drawn, len(rows) - len(drawn), names)
    return figure


def _check_units(units: Any, names: list[str]) -> dict[int, str]:
    if units is None:
        return {}
    if not isinstance(units, Mapping):
        raise ValueError(f"units must map features to text; found {describe(units)}")
    result = {}
    for feature, unit in units.items():
        k = names.index(feature) if feature in names else feature
        if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k < len(names):
            raise ValueError(f"units must name features of {names[:5]}...; found {describe(feature)}")
        if not isinstance(unit, str):
            raise ValueError(f"units must map features to text; found {describe(unit)}")
        result[k] = f" {unit}"
    return result


def _draw_gauge(ax: Any, why: Any) -> None:
    from lvqrej.figures import PALETTE

    full = gauge_end(why)
    before, after, theta = shown_certainties(why.certainty_before, why.certainty, why.theta)
    start = min(0.0, why.theta)
    ax.barh(0, why.theta - start, left=start, height=0.5, color="#e6e6e6", edgecolor="#767676", hatch="//")
    ax.barh(0, full - why.theta, left=why.theta, height=0.5, color="white", edgecolor="#767676")
    ax.axvline(why.theta, color="black", label=f"threshold {theta}")
    ax.plot(why.certainty_before, 0, "X", ms=13, mec="white", color=PALETTE[1], label=f"before {before}")
    if why.path != "accepted":
        ax.plot(why.certainty, 0, "o", ms=11, mec="white", color=PALETTE[0], label=f"after {after}")
    ax.set(xlim=(start, full), ylim=(-0.5, 0.5), yticks=[], xlabel=why.certainty_name)
    ax.grid(False)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


def _draw_changes(ax: Any, why: Any, rows: list[tuple[int, str, str]], left_out: int, units: Any) -> None:
    from lvqrej.figures import PALETTE

    if not rows:
        ax.text(0.5, 0.5, f"nothing has to change: accepted as {why.label}", ha="center", va="center")
        ax.set_axis_off()
        return
    longest = max(why.costs[k] for k, _, _ in rows) / why.distance
    for position, (k, before, after) in enumerate(rows):
        up = why.delta[k] > 0
        share = why.costs[k] / why.distance * (1 if up else -1)
        ax.barh(position, share, height=0.6, color=PALETTE[0 if up else 1], hatch="" if up else "//")
        # The text stands on the empty side of the axis, where no bar is in its way.
        ax.annotate(
            f"{before} → {after}{units.get(k, '')}", (0, position), (-6 if up else 6, 0),
            textcoords="offset points", va="center", ha="right" if up else "left",
        )  # fmt: skip
    ax.axvline(0, color="black", linewidth=1)
    ticks = [textwrap.fill(why.feature_names[k], 22) for k, _, _ in rows]
    ax.set_yticks(range(len(rows)), ticks)
    more = f" ({left_out} smaller changes not drawn)" if left_out else ""
    ax.set(
        xlim=(-1.15 * longest, 1.15 * longest), xlabel=f"decrease ←  share of the change  → increase{more}"
    )
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0%}")
    ax.invert_yaxis()
    ax.set_title(f"accepted as {why.label} if changed so; {proof(why)}", fontsize=13)
