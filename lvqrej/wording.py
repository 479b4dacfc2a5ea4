"""Explanations for people: a sentence, a page for the notebook, a JSON record, in numbers that stay true.

A counterfactual lies on the boundary of what is accepted, so rounding to the nearest would cross it half of
the time. Values are therefore rounded *away from the sample* (an increase up, a decrease down), to the fewest
digits with which the shown input itself passes the reject option's test and every requirement; the last
resort is to show all digits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from html import escape
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np

from lvqrej.columns import is_missing, plain
from lvqrej.validation import Floats

#: A changed feature's index and its values as shown, before and after.
Shown = tuple[int, str, str]

#: A gap that is nothing but rounding.
NO_GAP = 1e-6
#: Fewest significant digits of a change; with three, a shown change is less than 1 % larger than the real
#: one.
FEWEST = 3
#: With so many digits every float is itself.
ALL = 17
#: As many changed features a sentence names.
NAMED = 3
#: As many explanations a summary or a page lists.
LISTED = 20
#: The version of the JSON record.
FORMAT = 1


# Numbers


def shown_counterfactual(why: Any) -> Floats:
    """Return the counterfactual as it is shown, of shape (d,): rounded, and accepted as the same class."""
    numbers = why.columns.numbers
    for digits in range(FEWEST, ALL):
        point = why.counterfactual.copy()
        for k in np.flatnonzero(numbers & (point != why.sample)):
            change = point[k] - why.sample[k]
            decimals = digits - 1 - floor(log10(abs(change)))
            point[k] = rounded(point[k], decimals, ROUND_CEILING if change > 0 else ROUND_FLOOR)
        point = np.clip(point, *why.box)
        if why.holds(point):
            return point
    return why.counterfactual


def rounded(value: float, decimals: int, how: str = ROUND_HALF_EVEN) -> float:
    """Return the value with at most so many decimals (at least 0); itself if it has no more."""
    exact = Decimal(repr(float(value)))
    decimals = max(decimals, 0)
    if -int(exact.as_tuple().exponent) <= decimals:
        return float(value)
    return float(exact.quantize(Decimal(1).scaleb(-decimals), how))


def number(value: float) -> str:
    """Return the shortest text that stands for this number and no other, with a true minus sign.

    Only what is very large or very small has an exponent.

    >>> number(-0.5), number(120), number(2e-7), number(3e-12)
    ('−0.5', '120', '0.0000002', '3e−12')
    """
    text = repr(float(value))
    if "e" in text and 1e-9 <= abs(value) < 1e20:
        text = f"{Decimal(text):f}"
    return text.removesuffix(".0").replace("-", "−")


def short(value: float, digits: int = 3) -> str:
    """Return a number with at most so many significant digits.

    >>> short(123.456, 2), short(0.98765)
    ('120', '0.988')
    """
    return number(float(f"{value:.{digits}g}"))


def before_and_after(why: Any) -> list[Shown]:
    """Return for each changed feature its index and its values as shown, before and after, costliest first.

    A value of the sample with more than six digits is rounded to the nearest at a thousandth of its change.
    """
    columns, costs, texts = why.columns, why.costs, []
    shown = columns.values(shown_counterfactual(why))
    for k in why.changed:
        column = columns.columns[k]
        text = number(shown[k]) if column.levels is None else _with_same(column, why.after[k])
        texts.append((k, _before(why.before[k], shown[k]), text))
    return sorted(texts, key=lambda text: -costs[text[0]])


def _with_same(column: Any, level: Any) -> str:
    """Return a level, and which others the model does not tell from it."""
    same = [level_text(other) for other in column.same(level)]
    return level_text(level) + (f" (or {' or '.join(same[:2])}{', ...' if same[2:] else ''})" if same else "")


def level_text(level: Any) -> str:
    """Return a level, or any value, as sentences have it."""
    return "missing" if level is None else str(level)


def _before(value: Any, end: Any) -> str:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return level_text(value)
    start = float(value)
    if start == end or len(Decimal(repr(float(start))).as_tuple().digits) <= 6:
        return number(start)
    return number(rounded(start, FEWEST - floor(log10(abs(end - start)))))


def shown_certainties(before: float, after: float, theta: float) -> tuple[str, str, str]:
    """Return the three with the fewest digits (at least two) that tell a certainty below theta from theta.

    A theta below 1 is not shown as 1, which for most certainties is the largest value there is.

    >>> shown_certainties(0.12345, 0.3511, 0.351), shown_certainties(0.349, 0.3497, 0.3496)
    (('0.12', '0.35', '0.35'), ('0.349', '0.35', '0.35'))
    """
    for digits in range(2, ALL + 1):
        values = [float(f"{value:.{digits}g}") for value in (before, after, theta)]
        told = all(r >= theta or value < values[2] for r, value in zip((before, after), values, strict=False))
        if told and not theta < 1 <= values[2]:
            break
    return number(values[0]), number(values[1]), number(values[2])


def percent_up(share: float) -> str:
    """Return a share as per cent with two digits, rounded up, and to a hundredth of a per cent at least."""
    value = 100 * share
    if value <= 0:
        return "0 %"
    unit = max(10.0 ** (floor(log10(value)) - 1), 0.01)
    return f"{short(min(ceil(value / unit - 1e-9) * unit, 100.0), 12)} %"


# The sentence


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
    return _sentence(why, before_and_after(why))


def _sentence(why: Any, shown: list[Shown]) -> str:
    before, _, theta = shown_certainties(why.certainty_before, why.certainty, why.theta)
    certainty = f"{why.certainty_name} {before}"
    if why.path == "accepted":
        return f"accepted as {why.label}: {certainty} reaches {theta}"
    if why.certainty_before < why.theta:
        verdict = f"rejected: {certainty} below {theta}{_asked(why)}"
    else:
        verdict = f"not what was asked for: {certainty} reaches {theta}"
    return f"{verdict}; {_taken(why, shown)}{what_if(why, shown)}; {proof(why)}"


def _taken(why: Any, shown: list[Shown]) -> str:
    """Say what missing values and levels that were never seen are taken as."""
    texts, own = {k: before for k, before, _ in shown}, why.batch.given
    parts: dict[str, list[tuple[str, str]]] = {"missing": [], "never seen": []}
    for k, column in enumerate(why.columns.columns if own is not None else ()):
        value, name = own[why.row][k], column.name
        if column.levels is None and is_missing(value):
            taken = short(column.fill, 4) + " and marked as missing" if column.flag else texts.get(k)
            parts["missing"].append((name, taken or short(column.fill, 4)))
        elif column.levels is not None and len(column.levels) > 1 and plain(value) not in column.places:
            place, lacks = column.place(value), is_missing(value)
            known = [level for level in column.levels[place] if level is not None]
            none = "a level of its own" if lacks and place != column.unknown else "no known level"
            how = "missing" if lacks else "never seen"
            called = name if lacks else f"{name} {level_text(value)}"
            parts[how].append((called, _with_same(column, known[0]) if known else none))
    said = ""
    for how, pairs in parts.items():
        if pairs:
            if len(pairs) == 1:
                ((name, taken),) = pairs
                said += f"{name} was {how}, taken as {taken}; "
            else:
                said += f"{listed([f'{name} (taken as {taken})' for name, taken in pairs])} were {how}; "
    return said


def _asked(why: Any) -> str:
    """Say what the nearest prototype asks for, where each asks for its own."""
    asked = float(why.batch.verdicts.asked[why.row])
    value, _, threshold = shown_certainties(why.certainty_before + asked, asked, why.theta + asked)
    return f" ({value} where the nearest prototype asks for {threshold})" if asked else ""


def what_if(why: Any, shown: list[Shown] | None = None) -> str:
    """Say what would have been accepted: of many changes the largest, and how many more there are."""
    given = before_and_after(why) if shown is None else shown
    changes = [f"{why.feature_names[k]} were {after} instead of {before}" for k, before, after in given]
    if len(changes) > NAMED:
        rest = len(changes) - NAMED
        changes = [*changes[:NAMED], f"{rest} other feature{'s' if rest > 1 else ''} changed by less"]
    return f"it would be accepted as {why.label} if {listed(changes)}"


def proof(why: Any) -> str:
    """Say what is proven: how far from the smallest change this one can be at most."""
    if why.gap <= NO_GAP:
        text = f"no smaller change{why.scope} suffices"
    else:
        text = f"a change{why.scope} at most {percent_up(why.gap)} smaller might suffice"
    if why.fewest is not None and 1 < why.fewest == len(why.changed):
        text += ", and none of fewer features at all"
    inside = why.worst_certainty is not None and why.worst_certainty < why.certainty  # errors are allowed
    edge = ", and it lies on the boundary itself, where noise may undo it"
    return text if why.firm or inside else text + edge


def both_halves(reason: Any) -> str:
    """Say what keeps a sample rejected, what would be enough, and below which size no change is."""
    batch, why = reason.batch, reason.why
    within = " within the observed ranges" if np.all(batch.required.observed) else " within the bounds"
    bounded = np.isfinite(batch.required.lower).any() or np.isfinite(batch.required.upper).any()
    within = within if bounded else ""
    names, number_of = reason.features, len(reason.indices)
    kept = listed(names)
    if number_of == 0:
        text = f"rejected whatever its values are{within}"
    elif number_of == len(batch.feature_names):
        text = "only all features together keep it rejected"
    else:
        keep = "keep" if number_of > 1 else "keeps"
        text = f"{kept} alone {keep} it rejected, whatever the other features are{within}"
    if not reason.proven:
        text += " (not refuted: no accepted input was found, which is no proof that there is none)"
    elif 1 < number_of == reason.fewest < len(batch.feature_names):
        text += ", and no fewer features do"
    elif number_of > reason.fewest > 1:
        text += f", and no set of fewer than {reason.fewest} does"
    if reason.not_refuted is not None:
        text += f" ({listed(reason.not_refuted) or 'nothing at all'} may suffice: not refuted)"
    if why is None:
        return text
    changes = [f"{why.feature_names[k]} to {after}" for k, _, after in before_and_after(why)]
    text += f"; changing {listed(changes)} is enough"
    if why.lower_bound <= 0:
        return text
    below = rounded(why.lower_bound, FEWEST - 1 - floor(log10(why.lower_bound)), ROUND_FLOOR)
    return text + f"; no change of a total size below {number(below)} is"


def range_text(low: float, high: float, low_open: bool, high_open: bool) -> str:
    """Return a range in which a sample stays rejected, rounded inwards; ends where nothing is in brackets.

    An end of which no more is known than that it is far away is "…".

    >>> range_text(0.7666666, 12.0, False, True), range_text(-np.inf, 1.23456789, True, False)
    ('0.77 to [12]', '[−∞] to 1.234')
    """
    size = high - low if isfinite(high - low) else max(abs(v) for v in (low, high, 1.0) if isfinite(v))
    decimals = FEWEST - floor(log10(size)) if size > 0 else ALL
    texts = []
    for value, is_open, how in ((low, low_open, ROUND_CEILING), (high, high_open, ROUND_FLOOR)):
        text = number(rounded(value, decimals, how)) if isfinite(value) else "−∞" if value < 0 else "∞"
        text = text if isfinite(value) or is_open else "…"
        texts.append(f"[{text}]" if is_open else text)
    return " to ".join(texts)


def listed(words: Sequence[str]) -> str:
    """Join words: a, b and c.

    >>> listed([]), listed(["a"]), listed(["a", "b", "c"])
    ('', 'a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def summary(result: Any) -> str:
    """Return a line on the whole of an `Explanations` and one per sample, of the first ones."""
    n, found = len(result), int(result.found.sum())
    lines = [f"{n} samples, {found} explained" + (f", {n - found} without an answer" if found < n else "")]
    for i in range(min(n, LISTED)):
        lines.append(f"{_who(result, i)}: {result[i] if result.found[i] else 'none: ' + result.reasons[i]}")
    return "\n".join(lines + ([f"and {n - LISTED} more"] if n > LISTED else []))


def _who(result: Any, i: int) -> Any:
    return i if result.index is None else result.index[i]


def class_row(result: Any, i: int) -> dict[str, Any]:
    """Return what it takes to accept sample `i` of an `Explanations`, as a row of a table."""
    row = {
        "distance": result.distances[i],
        "lower_bound": result.lower_bounds[i],
        "gap": result.gaps[i],
        "certainty": result.certainties[i],
    }
    if not result.found[i]:
        return row | {"n_changed": 0, "changes": result.reasons[i]}
    why = result[i]
    changes = (f"{why.feature_names[k]}: {before} → {after}" for k, before, after in before_and_after(why))
    return row | {"n_changed": len(why.changed), "changes": "; ".join(changes)}


# The record


def record(why: Any) -> dict[str, Any]:
    """Return an `Explanation` as plain lists, numbers and strings.

    Keys: format (1), sentence, certainty_name, certainty_before, certainty, threshold, label, distance,
    lower_bound, gap, path, active, features, sample, counterfactual, changes (feature, before, after, shown,
    cost), cause (None without one). All numbers are exact but `shown`, the rounded text.
    """
    shown, costs = before_and_after(why), why.costs
    changes = [
        {
            "feature": why.feature_names[k],
            "before": _plain(why.before[k]),
            "after": _plain(why.after[k]),
            "shown": after,
            "cost": float(costs[k]),
        }
        for k, _, after in sorted(shown)
    ]
    return {
        "format": FORMAT,
        "sentence": _sentence(why, shown),
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
        "sample": [_plain(value) for value in why.before],
        "missing": [why.feature_names[k] for k in why.batch.missing(why.row)],
        "counterfactual": [_plain(value) for value in why.after],
        "changes": changes,
        "cause": None if why.cause is None else {k: _plain(v) for k, v in asdict(why.cause).items()},
    }


def to_json(why: Any, indent: int | None = None) -> str:
    """Return an explanation as a JSON object, or several as a list; without an answer with the reason."""
    several = isinstance(why, Sequence)
    content: Any = [_record_of(why, i) for i in range(len(why))] if several else record(why)
    return json.dumps(content, indent=indent, allow_nan=False, ensure_ascii=False)


def _record_of(result: Any, i: int) -> dict[str, Any]:
    content = record(result[i]) if result.found[i] else {"format": FORMAT, "reason": result.reasons[i]}
    return {"index": _plain(_who(result, i))} | content


def _plain(value: Any) -> Any:
    """Return what JSON can hold: the Python value of a NumPy scalar, the text of anything else."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


# The page

# Colours and background are set together, so that the page reads the same on white, on black and on paper.
_BOX = (
    "background:#ffffff;color:#1a1a1a;border:1px solid #767676;border-radius:4px;padding:0.8em 1em;"
    "max-width:46em;overflow-x:auto;font-family:sans-serif;color-scheme:light;print-color-adjust:exact"
)
_CELL = 'style="padding:0.2em 0.8em;text-align:{};color:#1a1a1a;background:#ffffff"'


def to_html(why: Any) -> str:
    """Return an explanation, or a table of several, as HTML that stands on its own."""
    content = _page_of_several(why) if isinstance(why, Sequence) else _page_of_one(why)
    return f'<div style="{_BOX}">{content}</div>'


def _page_of_one(why: Any) -> str:
    shown = before_and_after(why)
    said = escape(_sentence(why, shown))
    page = f"<p>{said[0].upper()}{said[1:]}.</p>"
    if why.path != "accepted":
        shares = [f"{100 * cost / why.distance:.0f} %" for cost in why.costs]
        rows = [[why.feature_names[k], before, after, shares[k]] for k, before, after in shown]
        page += _table(("feature", "before", "after", "share of the change"), rows, "lrrr")
    return page + ("" if why.cause is None else f"<p>{escape(str(why.cause))}</p>")


def _page_of_several(result: Any) -> str:
    """Return a table of the first explanations: what each is accepted as, and if what were changed."""
    n, found = len(result), int(result.found.sum())
    rows = []
    for i in range(min(n, LISTED)):
        row = class_row(result, i)
        label = str(result.labels[i]) if result.found[i] else "none"
        rows.append([str(_who(result, i)), label, row["changes"], short(row["distance"])])
    more = f", the first {LISTED} of them" if n > LISTED else ""
    head = ("sample", "accepted as", "if changed so, or why not", "distance")
    return f"<p>{n} samples, {found} explained{more}</p>" + _table(head, rows, "lllr")


def _table(head: tuple[str, ...], rows: list[list[str]], sides: str) -> str:
    """Return an HTML table; `sides` has an l or r per column."""
    styles = [_CELL.format("left" if side == "l" else "right") for side in sides]
    top = "".join(f'<th scope="col" {style}>{name}</th>' for name, style in zip(head, styles, strict=True))
    cells = [
        [f"<td {style}>{escape(cell)}</td>" for cell, style in zip(row, styles, strict=True)] for row in rows
    ]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    style = 'style="border-collapse:collapse;color:#1a1a1a"'
    return f"<table {style}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
