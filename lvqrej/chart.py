"""Pictures of an answer: how certain before and after, what has to change, what keeps it rejected.

The symbols are those of the book: a white cross is the rejected sample, a star its counterfactual, and what
is hatched is rejected. Every figure is closed in pyplot, so that a notebook shows it once.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

import numpy as np

from lvqrej.requirements import feature_index
from lvqrej.validation import check_choice, check_number, describe
from lvqrej.wording import NAMED, before_and_after, listed, proof, range_text, shown_certainties

#: Blue and orange of Okabe and Ito, told apart with every kind of colour vision: what goes up, what down.
_BLUE, _ORANGE = "#0072B2", "#D55E00"
#: Their bluish green, for another level of a category.
_GREEN = "#009E73"
#: The rejected sample and its counterfactual.
_CROSS = {"marker": "X", "ms": 13, "color": "white", "mec": "black", "mew": 1.6, "ls": "none", "zorder": 4}
_STAR = _CROSS | {"marker": "*", "ms": 18, "color": "gold", "mew": 1.3, "zorder": 5}
#: A gauge shows a part of the scale if all certainties are within such a share of it.
_CLOSE = 0.05
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


@contextmanager
def _drawn(*shape: int, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes, in the package's style and no other's."""
    import matplotlib.pyplot as plt  # takes as long as all the rest, and most explanations are not drawn

    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(*shape, **options)
        plt.close(figure)
        yield figure, axes


def change_chart(why: Any, units: Any = None, most: int = 12) -> Any:
    """Return a figure of an `Explanation`: a gauge of the certainty above one bar per changed feature.

    A single feature is drawn in its own units, before and after. Otherwise a bar's length is the feature's
    share of the whole change (features have different units, shares have none), its direction that of the
    change; beside it stand the values before and after, in the feature's own units.

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

    Examples
    --------
    >>> from lvqrej import PrototypeModel, RelativeSimilarity, explain
    >>> model = PrototypeModel([[0, 0], [20, 0]], ["a", "b"], feature_names=["width", "height"])
    >>> figure = change_chart(explain(RelativeSimilarity(model), 0.6, [9, 0]), units={"width": "mm"})
    >>> [text.get_text() for text in figure.axes[1].texts if text.get_text()]
    ['9 mm', '6.66 mm']
    """
    most = int(check_number(most, "most", low=1, integer=True))
    suffixes = _check_units(units, why.feature_names)
    rows = before_and_after(why)
    height = max(min(len(rows), most), 1.6)
    size = (8, 2.4 + 0.55 * height)
    with _drawn(2, 1, figsize=size, height_ratios=[1, 0.7 * height]) as (figure, (gauge, ax)):
        _draw_gauge(gauge, why)
        if not rows:
            ax.text(0.5, 0.5, f"nothing has to change: accepted as {why.label}", ha="center", va="center")
            ax.set_axis_off()
            return figure
        title = textwrap.fill(f"accepted as {why.label} if changed so; {proof(why)}", 66)
        if len(rows) == 1 and why.columns.columns[rows[0][0]].levels is None:
            _draw_one(ax, why, *rows[0], suffixes)
            ax.set_title(title, fontsize=13)
        else:
            _draw_changes(ax, why, rows[:most], len(rows[most:]), suffixes)
            ax.set_title(title, loc="right", fontsize=13)  # names stand on the left of bars
    return figure


def both_chart(why: Any, units: Any = None, most: int = 12) -> Any:
    """Return a figure of both halves of an `Explanation`: what keeps it rejected, and what would be enough.

    Below the gauge there is one row per feature that keeps the sample rejected (hatched bar) or has to
    change (star). A bar is the range in which the sample stays rejected with all else unchanged, on a scale
    of what the change costs; an arrow says that it goes on. Beside it stands the range in the feature's own
    units, rounded inwards, ends at which nothing is accepted in brackets. Parameters as in `change_chart`;
    features that change or have the shortest range come first.
    """
    most = int(check_number(most, "most", low=1, integer=True))
    suffixes = _check_units(units, why.feature_names)
    reason, table = why.sufficient_reason(), why.ranges()
    at = why.columns.starts[:-1]
    weights, x = why.batch.required.weights[at], why.sample[at]
    numbers = np.array([column.levels is None for column in why.columns.columns])
    low = np.where(numbers, weights * (table["low"] - x), 0.0)
    high = np.where(numbers, weights * (table["high"] - x), 0.0)
    near = np.minimum(np.where(table["low_open"], np.inf, -low), np.where(table["high_open"], np.inf, high))
    changed = why.changed
    rows = sorted({*reason.indices, *changed}, key=lambda k: (k not in changed, near[k], k))
    left_out, rows = len(rows[most:]), rows[:most]
    costs = why.costs * np.where(numbers, np.sign(why.counterfactual[at] - x), 1.0)
    # A range may go on for ever, or nearly so: what costs many times the answer is out of the picture.
    width = 1.25 * max([min(near[k], 3 * why.distance) for k in rows] + [abs(costs[k]) for k in rows])
    table["low"] = np.where((low < -1000 * width) & ~table["low_open"], -np.inf, table["low"])
    table["high"] = np.where((high > 1000 * width) & ~table["high_open"], np.inf, table["high"])
    height = max(len(rows), 1.6)
    size = (8.5, 2.8 + 0.5 * height)
    with _drawn(2, 1, figsize=size, height_ratios=[1, 0.7 * height]) as (figure, (gauge, ax)):
        _draw_gauge(gauge, why)
        for place, k in enumerate(rows):
            left, right = max(low[k], -width), min(high[k], width)
            if not numbers[k]:
                left, right = -width / 20, width / 20
            style = {"color": "#F0C6A0", "hatch": "//"} if k in reason.indices else {"color": "#d9d9d9"}
            ax.barh(place, right - left, left=left, height=0.55, **style)
            for end, sign, marker in ((low[k], -1, "<"), (high[k], 1, ">")):
                if sign * end > width:
                    ax.plot(sign * width, place, marker, ms=8, color="black", clip_on=False)
            ax.plot(0, place, **_CROSS)
            if k in changed:
                ax.plot(costs[k], place, **_STAR)
            text = _alone(table.loc[k]) + suffixes.get(k, "")
            ax.annotate(text, (1.02, place), xycoords=ax.get_yaxis_transform(), va="center")
        _name_rows(ax, [why.feature_names[k] for k in rows])
        more = f" ({left_out} more features not drawn)" if left_out else ""
        ax.set(xlim=(-width, width), xlabel=f"decrease ←  cost of the change  → increase{more}")
        alone = "these values\nalone keep it rejected" if reason.proven else "not refuted\nas a reason"
        ax.set_title(f"hatched: {alone}", loc="left", fontsize=13)
        ax.text(1.02, 1.02, "rejected with\neach of these", transform=ax.transAxes, fontsize=13)
    return figure


def batch_chart(result: Any, most: int = 12) -> Any:
    """Return a figure of `Explanations`: how often each feature goes up and down, the `most` frequent."""
    most = int(check_number(most, "most", low=1, integer=True))
    found = result.found & (result.distances > 0)
    columns = result.required.columns
    numbers = np.array([column.levels is None for column in columns.columns])
    change = (result.counterfactuals - result.samples)[:, columns.starts[:-1]]
    changed = result.changed & found[:, None]
    up, down = (changed & (change > 0) & numbers).sum(axis=0), (changed & (change < 0) & numbers).sum(axis=0)
    total = changed.sum(axis=0)
    order = [k for k in np.argsort(-total, kind="stable")[:most] if total[k]]
    with _drawn(figsize=(8, 1.8 + 0.5 * max(len(order), 1))) as (figure, ax):
        names = [result.feature_names[k] for k in order]
        _draw_counts(ax, names, up[order], down[order], total[order], "counterfactuals")
        ax.set_title(f"what would have to change in {found.sum()} of {len(result)} samples", fontsize=13)
    return figure


def curve_chart(curve: Any, kind: str = "risk-coverage") -> Any:
    """Return a figure of an `AccuracyRejectCurve`, with Clopper and Pearson's intervals point by point.

    Parameters
    ----------
    curve : AccuracyRejectCurve
    kind : {"risk-coverage", "accuracy-reject"}
        Errors among the accepted over the accepted share, or right labels over the rejected share.
    """
    risky = check_choice(kind, "kind", ("risk-coverage", "accuracy-reject")) == "risk-coverage"
    some = slice(None, -1)  # where nothing is accepted there is no risk
    rejected, (low, high) = curve.reject_rates[some], curve.accuracy_interval
    x, y, band = rejected, curve.accuracies[some], (low[some], high[some])
    if risky:
        x, y, band = 1 - rejected, 1 - y, (1 - high[some], 1 - low[some])
    step = "pre" if risky else "post"
    with _drawn(figsize=(8, 4.6)) as (figure, ax):
        ax.fill_between(x, *band, step=step, color=_BLUE, alpha=0.2, label="95 % interval")
        ax.step(x, y, where=step, color=_BLUE, label="held-out samples")
        most = min(1.0, 2 * float(1 - low[0])) or 1.0  # few accepted samples tell nothing, and need no room
        ax.set(xlim=(0, 1), ylim=(-most / 30, most) if risky else (1 - most, 1 + most / 30))
        ax.set_xlabel("share of accepted samples" if risky else "share of rejected samples")
        ax.set_ylabel("errors among the accepted" if risky else "accuracy of the accepted")
        ax.legend(frameon=False)
    return figure


def comparison_chart(table: Any) -> Any:
    """Return a figure of `compare_options`: a row per combination, rates and scores with intervals."""
    names = ["\n".join(map(str, row)) for row in table.index]
    titles = {"rejected": "rejected", "risk": "errors among accepted", "augrc": "AUGRC"}
    size = (8.5, 1.6 + 0.35 * len(names) * table.index.nlevels)
    with _drawn(1, len(titles), figsize=size, sharey=True) as (figure, axes):
        for ax, (column, title) in zip(axes, titles.items(), strict=True):
            _draw_intervals(ax, names, table[[column, f"{column}_low", f"{column}_high"]])
            ax.set(xlabel=title)
            ax.tick_params(axis="y", labelsize=11)
            ax.locator_params(axis="x", nbins=3)
    return figure


def report_chart(report: Any, most: int = 12) -> Any:
    """Return a figure of a `RejectReport`: causes, features, costs of acceptance and, if given, groups.

    Of causes and features the first `most` are drawn.
    """
    most = int(check_number(most, "most", low=1, integer=True))
    causes, groups = report.causes.head(most), report.groups
    features = report.features[report.features["changed"] > 0].head(most)
    heights = [max(2, len(causes), 0 if groups is None else len(groups)), max(6, len(features))]
    size = (8.5, 3 + 0.42 * sum(heights))
    with _drawn(2, 2, figsize=size, height_ratios=heights) as (figure, ((why, whom), (what, cost))):
        why.barh(range(len(causes)), causes["rejects"], height=0.6, color=_BLUE)
        why.set(title="why", xlabel="number of rejects")
        _name_rows(why, causes.index)
        up, down, changed = (features[name].to_numpy() for name in ("up", "down", "changed"))
        _draw_counts(what, features.index, up, down, changed, "rejects")
        what.set_title("what would have to change")
        if len(report.distances):
            costs = np.sort(report.distances)
            end = min(costs[-1], 2 * np.quantile(costs, 0.9)) or 1.0
            more = f" ({(costs > end).sum()} above are not drawn)" if costs[-1] > end else ""
            cost.step(costs, np.arange(1, len(costs) + 1) / len(costs), where="post", color=_BLUE)
            cost.set(xlim=(0, 1.03 * end), ylim=(0, 1.02), xlabel=f"cost{more}")
        cost.set(title="what acceptance costs", ylabel="share of rejects")
        rows, columns = report.rates.loc[["rejected"]], ["share", "low", "high"]
        if groups is not None:
            rows, columns = groups, ["reject_rate", "reject_rate_low", "reject_rate_high"]
        _draw_intervals(whom, rows.index, rows[columns])
        whom.set(title="how often" if groups is None else "whom", xlabel="rejected, 95 % interval")
    return figure


def gauge_ends(why: Any) -> tuple[float, float]:
    """Return where the scale of the certainty starts and ends.

    It is all there is, or reaches beyond what is shown; where that is too close together to be told apart,
    it is what lies around.
    """
    shown = why.certainty_before, why.certainty, why.theta
    lowest, highest = min(shown), max(shown)
    start, end = min(0.0, lowest), 1.1 * highest if highest > 0 else 1.0
    if isfinite(why.largest) and highest <= why.largest:
        end = float(why.largest)
    spread = highest - lowest
    if spread < _CLOSE * (end - start) and spread > 0:
        return max(start, lowest - spread), min(end, highest + spread)
    return start, end


def _broken(name: str) -> str:
    """Return a name in lines that end between words.

    >>> print(_broken("the width_and_height of the whole"))
    the width_and_height
    of the whole
    """
    parts = (textwrap.wrap(part.replace("_", "_ "), 22, break_long_words=False) for part in name.split("\n"))
    return "\n".join(line.replace("_ ", "_") for part in parts for line in part)


def _alone(row: Any) -> str:
    """Say with which values of a feature alone a sample stays rejected: a row of `ranges`."""
    levels = row.get("accepted_levels")
    if not isinstance(levels, dict):
        return range_text(*row[["low", "high", "low_open", "high_open"]])
    names = [str(level) for level in levels]
    names = names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return f"all but {listed(names)}" if levels else "every level"


def _check_units(units: Any, names: list[str]) -> dict[int, str]:
    """Return what stands behind the values, by feature."""
    given = {} if units is None else units
    if not isinstance(given, Mapping) or not all(isinstance(unit, str) for unit in given.values()):
        raise ValueError(f"units must map features to text; found {describe(units)}")
    return {feature_index(feature, "units", names): f" {unit}" for feature, unit in given.items()}


def _name_rows(ax: Any, names: Sequence[Any]) -> None:
    """Name the rows of a chart from top to bottom; sizes have no sign."""
    ax.set_yticks(range(len(names)), [_broken(str(name)) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")


def _draw_gauge(ax: Any, why: Any) -> None:
    before, after, theta = shown_certainties(why.certainty_before, why.certainty, why.theta)
    start, end = gauge_ends(why)
    ax.barh(0, why.theta - start, left=start, height=0.5, color="#e6e6e6", edgecolor="#767676", hatch="//")
    ax.barh(0, end - why.theta, left=why.theta, height=0.5, color="white", edgecolor="#767676")
    ax.axvline(why.theta, color="black", label=f"threshold {theta}")
    ax.plot(why.certainty_before, 0, label=f"before {before}", **_CROSS, clip_on=False)
    if why.path != "accepted":
        ax.plot(why.certainty, 0, label=f"after {after}", **_STAR, clip_on=False)
    ax.set(xlim=(start, end), ylim=(-0.5, 0.5), yticks=[], xlabel=why.certainty_name)
    ax.grid(False)
    ax.figure.legend(loc="outside upper center", ncols=3, frameon=False)


def _draw_one(ax: Any, why: Any, k: int, before: str, after: str, suffixes: dict[int, str]) -> None:
    """Draw the only feature that changes in its own units, before and after."""
    x, z, unit = why.before[k], why.after[k], suffixes.get(k, "")
    arrow = {"arrowstyle": "-|>", "color": "black", "shrinkA": 8, "shrinkB": 10}
    ax.annotate("", (z, 0), (x, 0), arrowprops=arrow)
    for value, text, look in ((x, before, _CROSS), (z, after, _STAR)):
        ax.plot(value, 0, **look)
        ax.annotate(f"{text}{unit}", (value, 0), (0, 13), textcoords="offset points", ha="center")
    name = _broken(why.feature_names[k]) + (f" [{unit.strip()}]" if unit else "")
    ax.set(yticks=[], ylim=(-0.6, 0.9), xlabel=name)
    ax.margins(x=0.25)


def _draw_changes(
    ax: Any, why: Any, rows: list[tuple[int, str, str]], left_out: int, suffixes: dict[int, str]
) -> None:
    shares, changes = why.costs / why.distance, why.columns.changes(why.sample, why.counterfactual)
    for position, (k, before, after) in enumerate(rows):
        up = not changes[k] < 0
        bar = (shares[k], _BLUE, "") if up else (-shares[k], _ORANGE, "//")
        bar = (shares[k], _GREEN, "xx") if np.isnan(changes[k]) else bar
        ax.barh(position, bar[0], height=0.6, color=bar[1], hatch=bar[2])
        # The text stands on the empty side of the axis, where no bar is in its way.
        ax.annotate(
            f"{before} → {after}{suffixes.get(k, '')}", (0, position), (-6 if up else 6, 0),
            textcoords="offset points", va="center", ha="right" if up else "left",
        )  # fmt: skip
    ax.axvline(0, color="black", linewidth=1)
    _name_rows(ax, [why.feature_names[k] for k, _, _ in rows])
    more = f" ({left_out} smaller changes not drawn)" if left_out else ""
    width = 1.15 * shares.max()
    words = " or another level" if np.isnan(changes[[k for k, _, _ in rows]]).any() else ""
    ax.set(xlim=(-width, width), xlabel=f"decrease ←  share of the change  → increase{words}{more}")
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(100 * value):.0f} %")


def _draw_counts(ax: Any, names: Sequence[Any], up: Any, down: Any, changed: Any, of: str) -> None:
    """Draw how often each feature goes up, goes down or gets another level."""
    place, other = np.arange(len(names)), changed - up - down
    ax.barh(place, up, height=0.6, color=_BLUE)
    ax.barh(place, -down, height=0.6, color=_ORANGE, hatch="//")
    if other.any():
        ax.barh(place, other, height=0.6, color=_GREEN, hatch="xx")
    ax.axvline(0, color="black", linewidth=1)
    _name_rows(ax, names)
    left, right = down.max(initial=0), max(up.max(initial=0), other.max(initial=0))
    least = 0.15 * max(left, right, 1)
    crossed = "\n(crossed: another level)" if other.any() else ""
    ax.set(xlim=(-1.05 * max(left, least), 1.05 * max(right, least)), xlabel=f"{of}, down ← → up{crossed}")


def _draw_intervals(ax: Any, names: Sequence[Any], table: Any) -> None:
    """Draw a value per row with its interval: the three columns of a table."""
    value, low, high = table.to_numpy(dtype=float).T
    reach = np.maximum([value - low, high - value], 0)
    ax.errorbar(value, range(len(names)), xerr=reach, fmt="o", color=_BLUE, capsize=4)
    _name_rows(ax, names)
    ax.set_xlim(left=0)
