"""Explanations for people: a sentence, a page for the notebook, a JSON record.

Numbers are rounded such that they stay true: see `lvqrej.telling.rounding`.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

import numpy as np

from lvqrej.certainty import DecisionDistance
from lvqrej.telling.rounding import before_and_after, percent_up, shown_certainties

#: A gap that is nothing but rounding.
NO_GAP = 1e-6
#: As many changed features a sentence names.
NAMED = 6
#: As many explanations a summary or a page lists.
LISTED = 20
#: The version of the JSON record.
FORMAT = 1


def sentence(why: Any) -> str:
    """Return one honest sentence about an `Explanation`.

    It names what fell short, what would have been accepted, and how much smaller a change could at most be.
    The shown values are rounded away from the sample, so that the shown input is itself accepted; that no
    smaller change suffices is proved for the unrounded one, which is less than 1 % smaller in each feature.

    >>> from lvqrej import PrototypeModel, RelativeSimilarity, explain
    >>> model = PrototypeModel([[0, 0], [20, 0]], ["a", "b"], feature_names=["width", "height"])
    >>> for part in sentence(explain(RelativeSimilarity(model), 0.6, [9, 0])).split("; "):
    ...     print(part)
    rejected: relative similarity 0.2 below 0.6
    it would be accepted as a if width were 6.66 instead of 9
    no smaller change suffices
    """
    return _sentence(why, str)


def _sentence(why: Any, emphasis: Any) -> str:
    certainty, _, theta = shown_certainties(why.certainty_before, why.certainty, why.theta)
    if why.path == "accepted":
        label = emphasis(str(why.label))
        return f"accepted as {label}: {why.certainty_name} {certainty} reaches {theta}"
    if why.certainty_before < why.theta:
        verdict = f"rejected: {why.certainty_name} {certainty} below {theta}"
    else:
        verdict = f"not what was asked for: {why.certainty_name} {certainty} reaches {theta}"
    changes = _changes(why, emphasis)
    return f"{verdict}; it would be accepted as {emphasis(str(why.label))} if {changes}; {proof(why)}"


def _changes(why: Any, emphasis: Any) -> str:
    """Name the changes; of many the costliest, and how many others there are."""
    texts = {
        k: f"{emphasis(why.feature_names[k])} were {after} instead of {before}"
        for k, before, after in before_and_after(why)
    }
    order = sorted(texts, key=lambda k: -why.costs[k])
    if len(order) <= NAMED:
        return _enumerated([texts[k] for k in order])
    rest = len(order) - NAMED + 1
    return ", ".join(texts[k] for k in order[: NAMED - 1]) + f" and {rest} other features changed by less"


def _enumerated(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def proof(why: Any) -> str:
    """Say how far from the smallest change this one can be at most.

    >>> from types import SimpleNamespace
    >>> proof(SimpleNamespace(gap=0.0)), proof(SimpleNamespace(gap=0.0321))
    ('no smaller change suffices', 'a change at most 3.3 % smaller might suffice')
    """
    if hasattr(why, "proof"):
        return str(why.proof())
    if why.gap <= NO_GAP:
        return "no smaller change suffices"
    return f"a change at most {percent_up(why.gap)} smaller might suffice"


def summary(result: Any) -> str:
    """Return a line on the whole of an `Explanations` and one per sample, of the first ones."""
    n, found = len(result), int(result.found.sum())
    lines = [f"{n} samples, {found} explained" + (f", {n - found} without an answer" if found < n else "")]
    for i in range(min(n, LISTED)):
        who = i if result.index is None else result.index[i]
        lines.append(f"{who}: {result[i] if result.found[i] else 'none: ' + result.reasons[i]}")
    return "\n".join(lines + ([f"and {n - LISTED} more"] if n > LISTED else []))


def class_row(result: Any, i: int) -> dict[str, Any]:
    """Return what it takes to accept sample `i` of an `Explanations` with a target, as a row of a table."""
    changes = result.reasons.get(i, "")
    if result.found[i]:
        why = result[i]
        names = why.feature_names
        changes = "; ".join(f"{names[k]}: {before} → {after}" for k, before, after in before_and_after(why))
    changed = result.counterfactuals[i] != result.samples[i]
    return {
        "distance": result.distances[i],
        "lower_bound": result.lower_bounds[i],
        "gap": result.gaps[i],
        "certainty": result.certainties[i],
        "n_changed": int(changed.sum()) if result.found[i] else 0,
        "changes": changes,
    }


def record(why: Any) -> dict[str, Any]:
    """Return an `Explanation` as plain lists, numbers and strings.

    Keys: format (1), sentence, certainty_name, certainty_before, certainty, threshold, label, distance,
    lower_bound, gap, path, active, features, sample, counterfactual, changes (feature, before, after, shown,
    cost), cause (None without one). All numbers are exact but `shown`, the rounded text.
    """
    changes = [
        {
            "feature": why.feature_names[k],
            "before": float(why.sample[k]),
            "after": float(why.counterfactual[k]),
            "shown": after,
            "cost": float(why.costs[k]),
        }
        for k, _, after in before_and_after(why)
    ]
    return {
        "format": FORMAT,
        "sentence": sentence(why),
        "certainty_name": why.certainty_name,
        "certainty_before": why.certainty_before,
        "certainty": why.certainty,
        "threshold": why.theta,
        "label": _plain(why.label),
        "distance": why.distance,
        "lower_bound": why.lower_bound,
        "gap": why.gap,
        "path": why.path,
        "active": list(why.active),
        "features": list(why.feature_names),
        "sample": why.sample.tolist(),
        "counterfactual": why.counterfactual.tolist(),
        "changes": changes,
        "cause": None if why.cause is None else {k: _plain(v) for k, v in why.cause.as_dict().items()},
    }


def to_json(why: Any, indent: int | None = None) -> str:
    """Return an explanation as a JSON object, or several as a list; without an answer with the reason."""
    if not hasattr(why, "found"):
        return json.dumps(record(why), indent=indent, allow_nan=False, ensure_ascii=False)
    rows = [
        {"index": _plain(i if why.index is None else why.index[i])}
        | (record(why[i]) if why.found[i] else {"format": FORMAT, "reason": why.reasons[i]})
        for i in range(len(why))
    ]
    return json.dumps(rows, indent=indent, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return what JSON can hold: the Python value of a NumPy scalar, the text of anything else."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


# Colours and background are set together, so that the page reads the same on white, on black and on paper.
_BOX = (
    "background:#ffffff;color:#1a1a1a;border:1px solid #767676;border-radius:4px;padding:0.8em 1em;"
    "max-width:46em;overflow-x:auto;font-family:sans-serif;color-scheme:light;print-color-adjust:exact"
)
_CELL = 'style="padding:0.2em 0.8em;text-align:{};color:#1a1a1a;background:#ffffff"'


def to_html(why: Any) -> str:
    """Return an explanation, or a table of several, as HTML that stands on its own."""
    if hasattr(why, "found"):
        return f'<div style="{_BOX}">{_list(why)}</div>'
    said = _sentence(_Escaped(why), lambda text: f"<em>{text}</em>")
    parts = [f"<p>{said[0].upper()}{said[1:]}.</p>", _gauge(why)]
    if why.path != "accepted":
        parts.append(_table(why))
    if why.cause is not None:
        parts.append(f"<p>{escape(str(why.cause))}</p>")
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


class _Escaped:
    """An explanation whose texts are safe inside HTML."""

    def __init__(self, why: Any) -> None:
        self._why = why
        self.feature_names = [escape(name) for name in why.feature_names]
        self.label = escape(str(why.label))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._why, name)


def _list(result: Any) -> str:
    """Return a table of the first explanations: what each is accepted as, and if what were changed."""
    n, found = len(result), int(result.found.sum())
    rows = []
    for i in range(min(n, LISTED)):
        row = class_row(result, i)
        label = str(result.labels[i]) if result.found[i] else "none"
        who = str(i if result.index is None else result.index[i])
        rows.append([who, label, row["changes"], f"{row['distance']:.3g}"])
    more = f", the first {LISTED} of them" if n > LISTED else ""
    head = ("sample", "accepted as", "if changed so, or why not", "distance")
    return f"<p>{n} samples, {found} explained{more}</p>" + _rows(head, rows, "lllr")


def _table(why: Any) -> str:
    rows = [
        [why.feature_names[k], before, after, f"{why.costs[k] / why.distance:.0%}"]
        for k, before, after in sorted(before_and_after(why), key=lambda row: -why.costs[row[0]])
    ]
    return _rows(("feature", "before", "after", "share of the change"), rows, "lrrr")


def _rows(head: tuple[str, ...], rows: list[list[str]], sides: str) -> str:
    """Return an HTML table; `sides` has an l or r per column."""
    styles = [_CELL.format("left" if side == "l" else "right") for side in sides]
    top = "".join(f'<th scope="col" {style}>{name}</th>' for name, style in zip(head, styles, strict=True))
    cells = [
        [f"<td {style}>{escape(cell)}</td>" for cell, style in zip(row, styles, strict=True)] for row in rows
    ]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    style = 'style="border-collapse:collapse;color:#1a1a1a"'
    return f"<table {style}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _gauge(why: Any) -> str:
    """Draw the certainty before (cross) and after (disc) and the threshold (line), so that it prints."""
    full = gauge_end(why)
    before, after, theta = shown_certainties(why.certainty_before, why.certainty, why.theta)
    x0, x1, xt = (20 + 360 * v / full for v in (why.certainty_before, why.certainty, max(why.theta, 0.0)))
    words = f"{why.certainty_name} {before} before, threshold {theta}"
    words += "" if why.path == "accepted" else f", {after} after"
    marks = (
        f'<path d="M{x0 - 6:.1f} 12l12 12m0 -12l-12 12" stroke="#D55E00" stroke-width="3"/>'
        f'<path d="M{xt:.1f} 4v28" stroke="#000000" stroke-width="2"/>'
    )
    if why.path != "accepted":
        marks += f'<circle cx="{x1:.1f}" cy="18" r="6" fill="#0072B2"/>'
    size = 'viewBox="0 0 400 56" style="width:400px;max-width:100%"'
    return (
        f'<svg role="img" aria-label="{escape(words)}" {size}>'
        '<rect width="400" height="56" fill="#ffffff"/>'
        '<rect x="20" y="14" width="360" height="8" fill="#e6e6e6" stroke="#767676"/>'
        f'{marks}<text x="20" y="50" font-size="13" fill="#1a1a1a">{escape(words)}</text></svg>'
    )


def gauge_end(why: Any) -> float:
    """Return where the scale of the certainty ends: at 1, or beyond all that has to be shown."""
    largest = max(why.certainty_before, why.certainty, why.theta)
    unbounded = why.certainty_name == DecisionDistance.name
    return 1.1 * largest if largest > 1 or (unbounded and largest > 0) else 1.0
