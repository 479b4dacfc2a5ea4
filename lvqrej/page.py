"""The report as one page of HTML that needs nothing else: no script, no font, no picture from anywhere.

It reads in light and dark and on paper; every table has a caption and headers, what is wide scrolls in a box
that the keyboard reaches; the picture repeats what the tables say.
"""

from __future__ import annotations

import base64
import io
from html import escape
from typing import Any

import numpy as np

from lvqrej.wording import percent_up

#: As many features a page lists.
_FEATURES = 15
#: Shares and the ends of their intervals.
_INTERVALS = (
    ("share", "low", "high"),
    ("reject_rate", "reject_rate_low", "reject_rate_high"),
    ("risk", "risk_low", "risk_high"),
)
#: Everything hangs on one class, so that a notebook can show a part; only a whole page turns dark.
_STYLE = """
.lvqrej{--ink:#1a1a1a;--paper:#ffffff;--soft:#f1f3f5;--line:#767676;--link:#0b5394;
 color:var(--ink);background:var(--paper);font:1rem/1.5 system-ui,sans-serif}
@media screen and (prefers-color-scheme:dark){
 body.lvqrej{--ink:#e8e8e8;--paper:#16181c;--soft:#24272d;--line:#8f949c;--link:#8ec7ff;color-scheme:dark}}
body.lvqrej{margin:0 auto;max-width:64rem;padding:1rem}
div.lvqrej{max-width:48rem;padding:.5rem 1rem;border:1px solid var(--line);color-scheme:light}
.lvqrej h1{font-size:1.7rem;line-height:1.2}
.lvqrej h2{font-size:1.3rem;margin:2rem 0 .5rem}
.lvqrej h3{font-size:1.05rem}
.lvqrej p,.lvqrej li{max-width:44rem;overflow-wrap:anywhere}
.lvqrej .scroll{overflow-x:auto;margin:.5rem 0}
.lvqrej .scroll:focus-visible{outline:3px solid var(--link)}
.lvqrej img{width:100%;min-width:44rem}
.lvqrej table{border-collapse:collapse}
.lvqrej caption{text-align:left;padding:.3rem 0;font-weight:600;color:var(--ink)}
.lvqrej th,.lvqrej td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid var(--line);
 color:var(--ink);background:var(--paper)}
.lvqrej thead th{background:var(--soft);vertical-align:bottom}
.lvqrej tbody th,.lvqrej thead th:first-child{text-align:left;font-weight:normal;min-width:6rem}
@media (max-width:40rem){.lvqrej th,.lvqrej td{padding:.25rem .4rem}}
@media (min-width:40rem){.lvqrej tbody td{white-space:nowrap}}
.lvqrej blockquote{margin:.5rem 0;max-width:44rem;padding:.2rem 1rem;border-left:4px solid var(--line);
 background:var(--soft)}
@page{margin:15mm}
@media print{.lvqrej img{width:auto;min-width:0;max-width:100%;max-height:12cm}
 .lvqrej .scroll,.lvqrej blockquote{break-inside:avoid} .lvqrej h2,.lvqrej h3{break-after:avoid}
 .lvqrej th,.lvqrej td{padding:.1rem .3rem;font-size:.7rem}}
"""
#: Nothing may be loaded and nothing may run, whatever the names in the tables are.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_ALT = (
    "Four charts of the tables below: rejects by cause, share of rejects with its interval, features by how "
    "often they would go up and down, and the share of rejects that are accepted up to a cost."
)

#: What a reader has to know of a section's tables.
_WHY = """<p>A reject is ambiguous if two classes are nearly equally near, and unfamiliar if it is farther
from every prototype than 99 % of the training samples. With labels the last column counts the rejects that
would have been errors.</p>"""
_WHAT = """<p>For each reject the nearest input is found that would be accepted. The table counts in how
many of these a feature changes, and by how much on average where it does, in its own units; of a category
it has the most frequent change. {holds}{unlisted}</p>"""
_HOLDS = """A feature holds a reject if it belongs to a set of values that alone keep it rejected, whatever
the others are within the bounds; this was asked of {reasons} of {rejects} rejects, drawn at random. """
_COST = """<p>The cost is the sum of all changes, each divided by the scale of its feature, or weighed as
was asked: by default, one feature changed by one standard deviation costs 1.</p>"""
_WHOM = """<p>A small p-value says that such a difference would rarely be chance. It does not say where it
comes from, and of several tests some have a small one by chance. It is the share of random tables with the
same margins that differ at least as much.</p>"""
_CENTRAL = """<p>Of each cause the most central reject, with the smallest total distance to the others; of
more than 400 rejects, among 400 drawn at random.</p>"""


def page(report: Any) -> str:
    """Return a `RejectReport` as the text of an HTML file."""
    facts, features = report.facts, report.features
    used, asked = features[(features["changed"] > 0) | (features["holds"] > 0)], facts["reasons"]
    used = used.rename(columns={"holds": f"holds, of {asked}"}) if asked else used.drop(columns="holds")
    more = len(features) - len(used.head(_FEATURES))
    unlisted = f"{more} features with lower or no counts are not listed." if more else ""
    what = _WHAT.format(holds=_HOLDS.format(**facts) if asked else "", unlisted=unlisted)
    count, gap = f"{facts['proven']} of {len(report.distances)}", percent_up(facts["largest_gap"])
    proof = f"for {count} it is proven that none smaller by more than 1 % does, for all by more than {gap}"
    sections = {
        "What next": _listed(report.next_steps()),
        "": _picture(report),
        "How often": table("Accepted, rejected and wrong", report.rates),
        "Why": table("Rejects by cause", report.causes, _WHY),
        "What would have to change": table("Features", used.head(_FEATURES), what),
        "What acceptance costs": table(
            "Quantiles of the cost", report.costs.rename_axis([None, "class"]), _COST
        ),
        "Whom": table(f"Rejects and errors by {facts['group']}", report.groups, _WHOM)
        + table("Do they differ?", report.tests),
        "Typical cases": _typical(report),
    }
    body = "".join(
        f"<section>{f'<h2>{title}</h2>' if title else ''}{content}</section>"
        for title, content in sections.items()
        if content
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Why does the model reject?</title><style>{_STYLE}</style></head>"
        f'<body class="lvqrej"><header><h1>Why does the model reject?</h1>{_listed(report.sentences())}'
        f"</header><main>{body}</main>"
        f"<footer><p>Made by lvqrej. Intervals are exact ones of Clopper and Pearson. Random draws have the "
        f"seed {facts['seed']}. Every change passes the option's own test. {_sentence(proof)}</p></footer>"
        "</body></html>\n"
    )


def summary(report: Any) -> str:
    """Return the sentences and the causes of a `RejectReport` for a notebook."""
    causes = table("Rejects by cause", report.causes)
    return f'<div class="lvqrej"><style>{_STYLE}</style>{_listed(report.sentences())}{causes}</div>'


def table(caption: str, frame: Any, introduction: str = "") -> str:
    """Return a data frame as an HTML table in a box that scrolls; whatever it holds stays text.

    A share and its interval are one column. Of no rows there is nothing.

    >>> import pandas as pd
    >>> html = table("Numbers", pd.DataFrame({"share": [0.125]}, index=["<b>"]))
    >>> html[html.index("<tbody>"):html.index("</tbody>")]
    '<tbody><tr><th scope="row">&lt;b&gt;</th><td>12.5&nbsp;%</td></tr>'
    """
    if frame is None or not len(frame):
        return ""
    for share, *ends in _INTERVALS:
        if ends[0] in frame:
            parts = zip(*(100 * frame[name] for name in (share, *ends)), strict=True)
            text = [f"{value:.1f}\xa0% ({low:.1f}\xa0to\xa0{high:.1f})" for value, low, high in parts]
            frame = frame.assign(**{share: text}).drop(columns=ends)
            frame = frame.rename(columns={share: f"{share} (95 % interval)"})
    names: list[str] = [str(name).replace("_", " ") for name in frame.columns]
    first = " ".join(filter(None, frame.index.names)) or "of"
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in (first, *names))
    rows = ""
    for key, values in zip(frame.index, frame.to_numpy(dtype=object), strict=True):
        cells = "".join(f"<td>{_cell(name, value)}</td>" for name, value in zip(names, values, strict=True))
        label = " ".join(map(str, key)) if isinstance(key, tuple) else str(key)
        rows += f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>'
    content = f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return introduction + _scrolling(caption, f"<table>{content}</table>")


def _cell(name: str, value: Any) -> str:
    """Return a number or a text of a column as it is shown."""
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if not isinstance(value, (float, np.floating)):
        return escape(str(value))
    shown = float(value)
    if np.isnan(shown):
        return "–"
    if name.endswith("share"):
        return f"{100 * shown:.1f}&nbsp;%"
    return f"{shown:,.0f}" if abs(shown) >= 1000 else f"{shown:.3g}"


def _scrolling(name: str, content: str) -> str:
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}">{content}</div>'


def _listed(texts: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{_sentence(text)}</li>' for text in texts)}</ul>" if texts else ""


def _sentence(text: str) -> str:
    return escape(f"{text[0].upper()}{text[1:]}.").replace(" %", "&nbsp;%")


def _typical(report: Any) -> str:
    cases = "".join(
        f"<h3>{_sentence(case.cause)[:-1]}</h3><blockquote><p>Sample {escape(str(case.sample))} stands for "
        f"{case.rejects}. {_sentence(case.sentence)}</p><p>{_sentence(case.why)}</p></blockquote>"
        for case in report.typical.itertuples()
    )
    return _CENTRAL + cases if cases else ""


def _picture(report: Any) -> str:
    """Return the chart of a report, drawn into the page."""
    import matplotlib as mpl

    drawn = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "lvqrej"}):
        report.plot().savefig(drawn, format="svg", metadata={"Date": None})
    data = base64.b64encode(drawn.getvalue()).decode()
    return _scrolling("Charts", f'<img src="data:image/svg+xml;base64,{data}" alt="{_ALT}">')
