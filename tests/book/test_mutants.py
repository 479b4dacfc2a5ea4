"""The small errors of `make mutants`: each belongs to a line of today's code, and to tests that are there."""

from pathlib import Path

import mutants
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.what)
def test_the_error_can_still_be_put_in(mutant):
    text = mutant.text(ROOT)
    assert text is not None, (
        f"{mutant.file} no longer has {mutant.old!r} (once): say it anew in tests/mutants.py"
    )
    compile(text, mutant.file, "exec")
    assert all((ROOT / argument).is_file() for argument in mutant.arguments()[1:])


def test_descriptions_are_different_and_harmless_errors_are_among_them():
    names = [mutant.what for mutant in mutants.MUTANTS]
    assert len(set(names)) == len(names) >= 60
    assert set(mutants.HARMLESS) <= set(names)
