"""The small errors of `make mutants`: each belongs to a line of today's code, and to tests that are there."""

from pathlib import Path

import mutants

ROOT = Path(__file__).parents[2]


def test_every_error_can_still_be_put_in():
    stale = [f"{mutant.file}: {mutant.what}" for mutant in mutants.MUTANTS if mutant.text(ROOT) is None]
    assert stale == [], "the code reads otherwise by now: say these errors anew in tests/mutants.py"
    for mutant in mutants.MUTANTS:
        compile(mutant.text(ROOT), mutant.file, "exec")
        files = {argument.partition("::")[0] for argument in mutant.arguments()[1:]}
        assert all((ROOT / file).is_file() for file in files), mutant.what


def test_descriptions_are_different_and_harmless_errors_are_among_them():
    names = [mutant.what for mutant in mutants.MUTANTS]
    assert len(set(names)) == len(names) >= 60
    assert set(mutants.HARMLESS) <= set(names)


def test_counts_are_by_area_and_of_all():
    found = [("cells", "caught"), ("cells", "survived"), ("stream", "harmless"), ("stream", "caught")]
    assert mutants.counted(found)[1:] == [["cells", 2, 1, 0], ["stream", 2, 1, 1], ["all", 4, 2, 1]]
