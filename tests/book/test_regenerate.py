"""`make figures`: a difference between two runs would be noticed, a wrong name is told.

That two runs do give the same bytes is tested for all chapters at once, after `make notebooks` has run them a
second time (tests/book/site/test_registry.py).
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import regenerate  # noqa: E402


def test_a_file_that_is_altered_or_missing_is_named(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        for name in ("fig-a.svg", "fig-a.csv", "fig-a.png"):
            (folder / name).write_text(name)
    assert regenerate.differences(one, other) == []
    (other / "fig-a.png").write_text("a picture may differ in its compression")
    assert regenerate.differences(one, other) == []
    (other / "fig-a.csv").write_text("another number")
    assert regenerate.differences(one, other) == ["fig-a.csv"]
    (other / "fig-a.csv").unlink()
    assert regenerate.differences(one, other) == ["fig-a.csv"]


def test_an_unknown_chapter_is_named(capsys):
    with pytest.raises(SystemExit, match="2"):
        regenerate.main(["99-nowhere"])
    assert "no such chapter: 99-nowhere" in capsys.readouterr().err


def test_every_chapter_is_made():
    assert [f"{name}.md" for name in regenerate.CHAPTERS] == sorted(
        file.name for file in (ROOT / "notebooks").glob("*.md")
    )
