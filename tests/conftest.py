"""Binder's environment takes minutes to build: its tests run only when asked for (make test-binder)."""

collect_ignore = ["binder"]
