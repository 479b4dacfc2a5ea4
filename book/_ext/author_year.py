"""Author and year, in text and bibliography alike, with a letter where two works would share them."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import count
from typing import Any

import pybtex.plugin
from pybtex.database import Entry
from pybtex.richtext import BaseText
from pybtex.style.formatting.alpha import Style
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.template import Node
from sphinx.application import Sphinx
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle
from sphinxcontrib.bibtex.style.template import join, node, year

#: What the configuration calls both styles.
NAME = "author_year_letter"


class Labels(BaseLabelStyle):
    """The labels of the bibliography: "Chow, 1970" or, of two works of one year, "Artelt et al., 2022a"."""

    def format_labels(self, sorted_entries: list[Entry]) -> list[str]:
        """Return a label for each entry, all different."""
        style = AuthorYearReferenceStyle()
        names = style.person.author_or_editor_or_title(full=False)
        text = join(sep=style.author_year_sep)[names, year]
        plain = [
            text.format_data({"entry": entry, "style": style}).render_as("plaintext")
            for entry in sorted_entries
        ]
        times, used = Counter(plain), defaultdict(lambda: count(ord("a")))
        return [label + (chr(next(used[label])) if times[label] > 1 else "") for label in plain]


class Bibliography(Style):
    """The style of an entry, with these labels."""

    default_label_style = Labels


@node
def lettered(children: list[Node], data: dict[str, Any]) -> BaseText:
    """Format a citation with the year that the label of its entry has."""
    entry, (citation,) = data["entry"], children
    fields = {**entry.fields, "year": data["formatted_entry"].label.rpartition(" ")[2]}
    return citation.format_data({**data, "entry": Entry(entry.type, fields, entry.persons)})


@dataclass
class Citations(AuthorYearReferenceStyle):
    """The citations of the text."""

    def inner(self, role_name: str) -> Node:
        """Return the template of one citation."""
        return lettered[super().inner(role_name)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register both styles."""
    pybtex.plugin.register_plugin("pybtex.style.formatting", NAME, Bibliography)
    register_plugin("sphinxcontrib.bibtex.style.referencing", NAME, Citations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
