"""One look for every figure and table of the book, and the registry that makes each one citable.

`show` displays a figure *and* registers it: identifier, caption, a sentence for those who cannot see it, and
the data behind it. While the book is built (the environment variable ``LVQREJ_EXPORT`` names a folder) it is
exported as SVG, PDF, PNG and CSV, byte for byte the same in every run; elsewhere it is only displayed.
"""

from __future__ import annotations

import base64
import html
import io
import json
import math
import os
import re
from collections.abc import Callable
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from cycler import cycler
from matplotlib.figure import Figure
from PIL import Image

#: Okabe and Ito's colours, distinguishable with every kind of colour vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: One marker per class, so that colour is never the only sign.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: A page shows a figure about 7 inches wide, so that type of 13 points in this width is still legible. On a
#: phone panels go below each other; what cannot be parted has to fit as it is.
WIDEST, WIDEST_PANEL = 10.5, 8.6
#: Where figures go while the book is built; the path by which pages refer to it.
EXPORT_VARIABLE, EXPORT_URI_VARIABLE = "LVQREJ_EXPORT", "LVQREJ_EXPORT_URI"

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 14,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 15,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "figure.figsize": (8, 5),
    "font.size": 13,
    "grid.alpha": 0.3,
    "hatch.color": "white",
    "hatch.linewidth": 0.8,
    "image.cmap": "cividis",
    "legend.framealpha": 1.0,
    "lines.linewidth": 2,
    "lines.markersize": 8,
    "savefig.facecolor": "white",
}
# Maps are pixels inside an SVG: fine enough for paper, in so few colours that a page stays light.
_SVG_DPI, _SVG_COLOURS = 150, 128
# Values with as many decimals were not rounded before.
_MOST_DECIMALS = 9
# An exponent as a reader writes it.
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# A date or a version in a file would make two runs differ.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def use_style() -> None:
    """Give every figure drawn from now on the book's look: large type, safe colours, opaque background."""
    plt.rcParams.update(STYLE)


class Shown:
    """A registered figure or table as a notebook displays it."""

    def __init__(self, bundle: dict[str, str]) -> None:
        self._bundle = bundle

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self._bundle

    def __repr__(self) -> str:
        return self._bundle["text/plain"]


def show(
    figure: Figure, id: str, *, caption: str, alt: str, data: pd.DataFrame, paper: str | None = None
) -> Shown:
    """Show a matplotlib figure and register it under `id`.

    Parameters
    ----------
    figure : Figure
        Closed afterwards, so that it is shown once.
    id : str
        ``fig-`` and words joined by hyphens; also the label by which pages refer to it.
    caption : str
        What the figure shows (MyST, so formulas and citations are welcome).
    alt : str
        A sentence that says what there is to see, for readers who cannot see it.
    data : DataFrame
        The numbers behind the picture, exported as CSV.
    paper : str, optional
        The figure, table or equation of the paper it belongs to.
    """
    _check(id, "fig", caption, data)
    if not isinstance(figure, Figure):
        raise ValueError(f"figure must be a matplotlib Figure; found {type(figure).__name__}")
    if figure.get_figwidth() > WIDEST:
        raise ValueError(
            f"figure must be at most {WIDEST} inches wide, or its text is too small on a page; "
            f"found {figure.get_figwidth():g}"
        )
    if len(alt.split()) < 5 or not alt.rstrip().endswith((".", "?", "!")):
        raise ValueError(f"alt must be a sentence that says what there is to see; found {alt!r}")
    if alt.strip() == caption.strip():
        raise ValueError("alt must not repeat the caption: readers who cannot see the figure get both")
    cuts = panel_cuts(figure)
    if not cuts and figure.get_figwidth() > WIDEST_PANEL:
        raise ValueError(
            f"figure must be at most {WIDEST_PANEL} inches wide for a phone, or have panels that can be "
            f"parted (`panel_cuts`); found {figure.get_figwidth():g}"
        )
    # It is laid out now; each of the files would do so again, which takes longer than to draw it.
    with plt.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
        figure.set_layout_engine()
        files = {kind: render(figure, kind) for kind in _METADATA}
    plt.close(figure)
    directory = _register(id, caption, data, {"alt": alt, "paper": paper, "kind": "figure"}, files)
    if directory is None:
        picture = base64.b64encode(files["png"]).decode()
        return Shown(
            {
                "text/plain": alt,
                "text/html": f'<figure><img style="max-width: 100%" alt="{html.escape(alt)}" '
                f'src="data:image/png;base64,{picture}"><figcaption>{html.escape(caption)}</figcaption></figure>',
            }
        )
    source = f"{os.environ[EXPORT_URI_VARIABLE]}/{id}.svg"
    options = {"name": id, "alt": " ".join(alt.split())}
    if cuts:
        options["figclass"] = "-".join(["panels", *map(str, cuts)])
    said = "".join(f":{name}: {value}\n" for name, value in options.items())
    page = f"::::{{figure}} {source}\n{said}\n{caption}\n::::\n"
    return Shown({"text/plain": alt, "text/markdown": page})


def table(data: pd.DataFrame, id: str, *, caption: str, digits: int = 3, paper: str | None = None) -> Shown:
    """Show a data frame as a captioned table (numbers with `digits` significant digits) and register it.

    The numbers of a column have the same decimals where that is possible, and never more than they were
    rounded to before. Thousands are set apart by commas; the exported CSV holds plain numbers in full
    precision.
    """
    _check(id, "tab", caption, data)
    directory = _register(id, caption, data, {"alt": None, "paper": paper, "kind": "table"}, {})
    cells = data.apply(partial(_texts, digits=digits))
    if directory is None:
        body = cells.to_html(index=False, escape=True, border=0)
        return Shown(
            {
                "text/plain": cells.to_string(index=False),
                "text/html": f"<figure>{body}<figcaption>{html.escape(caption)}</figcaption></figure>",
            }
        )
    alignment = ["---:" if pd.api.types.is_numeric_dtype(data[name]) else ":---" for name in data]
    rows = [list(map(str, data.columns)), alignment, *cells.to_numpy().tolist()]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    page = f"::::{{table}} {' '.join(caption.split())}\n:name: {id}\n\n" + "\n".join(lines) + "\n::::\n"
    return Shown({"text/plain": cells.to_string(index=False), "text/markdown": page})


def attach(write: Callable[[Path], Any], name: str, text: str) -> Shown:
    """Let `write` make a file that is published with the book, and show a link to it.

    While the book is built the file goes into the export folder, from which the build copies it to
    ``_static/attached``; elsewhere it is left beside the notebook.
    """
    if not re.fullmatch(r"[a-z0-9-]+\.html", name):
        raise ValueError(f"name must be lower-case words joined by hyphens, and .html; found {name!r}")
    target, link, kind = Path(os.environ.get(EXPORT_VARIABLE, ".")) / name, name, "text/html"
    if EXPORT_VARIABLE in os.environ:
        target.parent.mkdir(parents=True, exist_ok=True)
        link, kind = f"../_static/attached/{name}", "text/markdown"
    write(target)
    return Shown({"text/plain": f"{text} ({name})", kind: f'<a href="{link}">{html.escape(text)}</a>'})


def _check(id: str, prefix: str, caption: str, data: pd.DataFrame) -> None:
    if not re.fullmatch(rf"{prefix}(-[a-z0-9]+)+", id):
        raise ValueError(f"id must be '{prefix}-' and lower-case words joined by hyphens; found {id!r}")
    if len(caption.split()) < 3:
        raise ValueError(f"caption must say what is shown; found {caption!r}")
    if not isinstance(data, pd.DataFrame) or data.empty:
        raise ValueError("data must be a non-empty DataFrame: the numbers behind what is shown")


def panel_cuts(figure: Figure) -> list[int]:
    """Return where panels beside each other can be cut apart, in thousandths of the figure's width.

    A phone shows such panels one below the other. A title or legend of the whole figure forbids it, and so do
    names of rows that stand at the first panel only.
    """
    figure.draw_without_rendering()
    if figure.legends or figure.texts or figure._suptitle or figure._supxlabel:  # type: ignore[attr-defined]
        return []
    for ax in figure.axes:
        names = [label.get_text() for label in ax.get_yticklabels()]
        if len(ax.get_shared_y_axes().get_siblings(ax)) > 1 and any(name[:1].isalpha() for name in names):
            return []
    spans = []
    for ax in figure.axes:
        # A scale of colours stays with the panels it is for.
        together = [ax, *getattr(ax, "_colorbar_info", {}).get("parents", ())]
        boxes = [box for box in (part.get_tightbbox() for part in together) if box is not None]
        spans.append((min(box.x0 for box in boxes), max(box.x1 for box in boxes)))
    spans = sorted((start / figure.bbox.width, end / figure.bbox.width) for start, end in spans)
    cuts, reached = [], spans[0][1] if spans else 1.0
    for start, end in spans:
        if start > reached:
            cuts.append(round(500 * (start + reached)))
        reached = max(reached, end)
    return cuts


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as SVG, PDF or PNG, byte for byte the same in every run."""
    # The salt makes the identifiers inside an SVG the same in every run.
    with io.BytesIO() as buffer, plt.rc_context({"svg.hashsalt": "lvqrej"}):
        figure.savefig(buffer, format=kind, dpi=_SVG_DPI if kind == "svg" else 200, metadata=_METADATA[kind])
        return _lighten(buffer.getvalue()) if kind == "svg" else buffer.getvalue()


def _lighten(svg: bytes) -> bytes:
    """Give the pictures inside an SVG a palette: a third of their weight, and hardly a difference to see."""

    def with_palette(found: re.Match[bytes]) -> bytes:
        with Image.open(io.BytesIO(base64.b64decode(found[2]))) as picture, io.BytesIO() as buffer:
            coloured = picture.convert("RGBA")
            # A palette has no shades of transparency; at an edge white may shine through instead.
            if sum(coloured.getchannel("A").histogram()[:255]) > 0.01 * coloured.width * coloured.height:
                return found[0]
            opaque = Image.alpha_composite(Image.new("RGBA", coloured.size, "white"), coloured).convert("RGB")
            few = opaque.quantize(_SVG_COLOURS, Image.Quantize.MEDIANCUT, kmeans=1, dither=Image.Dither.NONE)
            few.save(buffer, format="png", optimize=True)
            return found[1] + base64.b64encode(buffer.getvalue())

    return re.sub(rb'(data:image/png;base64,)\s*([^"]+)', with_palette, svg)


def _register(
    id: str, caption: str, data: pd.DataFrame, record: dict[str, Any], files: dict[str, bytes]
) -> Path | None:
    """Write the files and the record into the export folder, if there is one."""
    if EXPORT_VARIABLE not in os.environ:
        return None
    directory = Path(os.environ[EXPORT_VARIABLE])
    directory.mkdir(parents=True, exist_ok=True)
    csv = data.to_csv(index=False, lineterminator="\n").encode()
    entry = {"id": id, "caption": caption, **record, "formats": [*files, "csv"]}
    described = (json.dumps(entry, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    for suffix, content in {**files, "csv": csv, "json": described}.items():
        unfinished = directory / f"{id}.{suffix}.part"
        unfinished.write_bytes(content)
        unfinished.replace(directory / f"{id}.{suffix}")
    return directory


def _texts(column: pd.Series, digits: int) -> list[str]:
    """Return the cells of a column as a reader sees them.

    All have as many decimals as the largest number needs for `digits` significant digits, one more if the
    smallest one needs it, and none that rounding took away before. Where the smallest would lose more than
    one of its digits by that, each number has its own decimals.
    """
    most = _decimals(column)
    sizes = [abs(v) for v in column if isinstance(v, float) and math.isfinite(v) and v]
    if sizes and max(sizes) < 1e9:
        fewest, wanted = (max(digits - 1 - _place(size, digits), 0) for size in (max(sizes), min(sizes)))
        decimals = min(wanted, fewest + 1, most)
        if decimals >= wanted - 1 or decimals == most < _MOST_DECIMALS:
            return [_text(value, digits, most, decimals) for value in column]
    return [_text(value, digits, most) for value in column]


def _decimals(values: Any, most: int = _MOST_DECIMALS) -> int:
    """Return the decimals to which values were rounded before, or `most`.

    >>> _decimals([0.46, 0.5, "a"]), _decimals([1 / 3, 0.5])
    (2, 9)
    """
    numbers = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    return next((k for k in range(most) if all(round(value, k) == value for value in numbers)), most)


def _place(size: float, digits: int) -> int:
    """Return the power of ten of the first digit of a positive number that is rounded to `digits` digits.

    >>> _place(0.0123, 3), _place(99.96, 3)
    (-2, 2)
    """
    return math.floor(math.log10(float(f"{size:.{digits}g}")))


def _text(value: Any, digits: int, most: int, decimals: int | None = None) -> str:
    """Return a value as a reader sees it, thousands apart; numbers that are names have to come as text.

    With `decimals` a number has so many, otherwise `digits` significant digits and at most `most` decimals.

    >>> _text(-1.06e-13, 3, 9), _text(-1234.5, 3, 9), _text(0.9801, 3, 9), _text(0.5, 3, 2)
    ('−1.06·10⁻¹³', '−1,234', '0.980', '0.50')
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        return f"{value:,}".replace("-", "−")
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "–"
    if decimals is not None:
        return f"{value:,.{decimals}f}".replace("-", "−")
    text = f"{value:,.0f}" if 10**digits <= abs(value) < 1e9 else f"{value:,.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    if value and abs(value) < 10**digits and not exponent:
        mantissa = f"{value:,.{max(min(digits - 1 - _place(abs(value), digits), most), 0)}f}"
    elif not value and most < _MOST_DECIMALS:
        mantissa = f"{value:.{min(digits - 1, most)}f}"
    power = "·10" + str(int(exponent)).translate(_RAISED) if exponent else ""
    return mantissa.replace("-", "−") + power
