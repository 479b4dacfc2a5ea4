"""``make figures``: run the chapters and export what they show, without building the site.

With ``--check`` the exports of this run are compared with those of an earlier one: on one machine every SVG
and every CSV has to come out with the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import jupytext
import nbclient

ROOT = Path(__file__).parents[2]
CHAPTERS = {file.stem: file for file in sorted((ROOT / "notebooks").glob("*.md"))}
TARGET = ROOT / "_build" / "figures"
#: What has to be the same in every run.
REPEATABLE = (".svg", ".csv")


def export(chapters: list[str], folder: Path) -> None:
    """Execute the notebooks of these chapters; `companion.figures` writes into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["LVQREJ_EXPORT"] = str(folder)
    os.environ["LVQREJ_EXPORT_URI"] = folder.as_posix()
    for chapter in chapters:
        print(chapter, flush=True)
        notebook = jupytext.read(CHAPTERS[chapter])
        where = {"metadata": {"path": str(CHAPTERS[chapter].parent)}}
        nbclient.NotebookClient(notebook, timeout=600, resources=where).execute()


def differences(one: Path, other: Path) -> list[str]:
    """Return the names of the repeatable files of folder `one` that are not the same in `other`."""
    names = sorted(file.name for file in one.iterdir() if file.suffix in REPEATABLE)
    return [
        name
        for name in names
        if not (other / name).exists() or (one / name).read_bytes() != (other / name).read_bytes()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("chapters", nargs="*", metavar="chapter", help=f"all of: {', '.join(CHAPTERS)}")
    parser.add_argument("--to", type=Path, default=TARGET, help=f"folder ({TARGET.relative_to(ROOT)})")
    parser.add_argument("--check", action="store_true", help="run again and compare with what is there")
    given = parser.parse_args(arguments)
    if unknown := set(given.chapters) - set(CHAPTERS):
        parser.error(f"no such chapter: {', '.join(sorted(unknown))}; there are {', '.join(CHAPTERS)}")
    chapters = given.chapters or list(CHAPTERS)
    if not given.check:
        export(chapters, given.to)
        print(f"{len(list(given.to.glob('*.csv')))} figures and tables: {given.to}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        export(chapters, Path(folder))
        made = len(list(Path(folder).glob("*.csv")))
        different = differences(Path(folder), given.to)
    print(f"{made} figures and tables made twice, {len(different)} files differ")
    print("\n".join(different), end="\n" if different else "")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
