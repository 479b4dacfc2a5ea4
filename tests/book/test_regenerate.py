"""`make figures`: two runs in two processes give the same bytes, and a difference would be noticed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import regenerate  # noqa: E402

CHAPTER = "01-quickstart"


def run(*arguments):
    command = [sys.executable, ROOT / "book/_ext/regenerate.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    result = run(CHAPTER, "--to", folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_a_second_process_makes_the_same_bytes_and_an_altered_file_is_named(folder):
    assert len(list(folder.glob("fig-*.svg"))) >= 2
    result = run(CHAPTER, "--to", folder, "--check")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("0 files differ\n")
    name = next(folder.glob("*.csv")).name
    other = folder.parent / "other"
    other.mkdir()
    for file in folder.iterdir():
        (other / file.name).write_bytes(file.read_bytes() + (b"\n" if file.name == name else b""))
    assert regenerate.differences(folder, other) == [name]
    (other / name).unlink()
    assert regenerate.differences(folder, other) == [name]


def test_an_unknown_chapter_is_named():
    result = run("99-nowhere")
    assert result.returncode == 2
    assert "no such chapter: 99-nowhere" in result.stderr


def test_every_chapter_is_made():
    assert [f"{name}.md" for name in regenerate.CHAPTERS] == sorted(
        file.name for file in (ROOT / "notebooks").glob("*.md")
    )
