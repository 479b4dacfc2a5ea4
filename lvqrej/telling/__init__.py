"""Explanations for people: sentences, charts, causes, files."""
