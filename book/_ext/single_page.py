"""What the single page needs, from which the book is printed."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def lend_visitors(app: Sphinx) -> None:
    """Give the single page the visitors of the site.

    Sphinx falls back from ``singlehtml`` to ``html`` only if *no* extension has visitors of its own for the
    single page; sphinx-exercise has, so that the nodes of sphinx-proof and others would have none.
    """
    handlers = app.registry.translation_handlers
    handlers["singlehtml"] = {**handlers.get("html", {}), **handlers.get("singlehtml", {})}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register everything with Sphinx."""
    app.connect("builder-inited", lend_visitors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
