"""The house itself: commands, pins, citation, wheel, and nothing in it that names a machine."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CFF_READER = "cffconvert==2.0.0"


def run(*command, cwd=ROOT, **extra):
    environment = {**os.environ, **extra}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def pins():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_pinned_exactly():
    for line in pins():
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*(\[[a-z,]+\])?==[^\s;]+( ; .+)?", line), line


def test_pins_are_complete():
    pinned = {re.match(r"[a-z0-9.-]+", line).group() for line in pins()}
    installed = {re.sub(r"[-_.]+", "-", d.name).lower() for d in importlib.metadata.distributions()}
    assert installed - pinned <= {"lvqrej", "pip", "setuptools"}


def test_pins_satisfy_the_ranges_of_the_package():
    for requirement in importlib.metadata.requires("lvqrej"):
        name = re.match(r"[A-Za-z0-9-]+", requirement).group()
        assert any(line.startswith(f"{name}==") for line in pins()), requirement


@pytest.fixture
def makefile(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "requirements.txt").touch()
    return tmp_path


def test_missing_python_gets_one_sentence(makefile):
    result = run("make", "env", "PYTHON=no-such-python", cwd=makefile)
    assert result.returncode != 0
    assert "needs Python 3.11 or newer, but 'no-such-python' is missing" in result.stdout
    assert not (makefile / ".venv").exists()


def test_old_python_gets_one_sentence(makefile):
    old = makefile / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.1" && exit 0\nexit 1\n')
    old.chmod(0o755)
    result = run("make", "env", f"PYTHON={old}", cwd=makefile)
    assert result.returncode != 0
    assert "needs Python 3.11 or newer" in result.stdout
    assert "is Python 3.8.1" in result.stdout


def test_second_make_env_installs_nothing(makefile):
    (makefile / ".venv").mkdir()
    (makefile / ".venv" / "installed").touch()
    result = run("make", "env", cwd=makefile)
    assert result.returncode == 0
    assert "pip" not in result.stdout


def test_citation_is_valid(tmp_path):
    """Against the format's own schema, taken from its reference reader (which itself needs old libraries)."""
    import jsonschema

    install = run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, CFF_READER)
    assert install.returncode == 0, install.stderr
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    schema = next(tmp_path.glob(f"**/{citation['cff-version']}/schema.json"))
    jsonschema.validate(citation, json.loads(schema.read_text()))
    assert "Artelt" in str(citation["references"])
    assert citation["version"] == importlib.metadata.version("lvqrej")


def test_wheel_works_in_a_clean_environment_without_book_tools(tmp_path):
    build = run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT)
    assert build.returncode == 0, build.stderr
    (wheel,) = tmp_path.glob("*.whl")
    folders = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"lvqrej"}
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean" / "bin" / "python"
    install = run(python, "-m", "pip", "install", "-q", "-c", ROOT / "requirements.txt", wheel)
    assert install.returncode == 0, install.stderr
    code = (
        "import importlib.metadata, lvqrej\n"
        "from lvqrej import PrototypeModel, RelativeSimilarity\n"
        "names = {d.name.lower() for d in importlib.metadata.distributions()}\n"
        "assert not names & {'sphinx', 'jupyter-book', 'jupyterlab', 'cvxpy', 'pytest', 'numba'}, names\n"
        "option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ['a', 'b']))\n"
        "print(lvqrej.__version__, option.certainty([[0.5, 0]])[0])\n"
    )
    result = run(python, "-c", code, cwd=tmp_path)
    assert result.stdout.split() == [importlib.metadata.version("lvqrej"), "0.8"], result.stderr


def test_no_machine_path_in_tracked_files():
    pattern = "|".join(map(re.escape, {f"{ROOT.parent}/", f"{Path.home()}/"}))
    found = run("git", "grep", "-nE", pattern, "--", ".")
    assert found.returncode == 1, found.stdout


def test_the_example_in_the_readme_runs(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    exec(code, {})  # our own text
    assert "it would be accepted as" in capsys.readouterr().out


def test_the_package_loads_what_it_offers_and_nothing_more():
    program = (
        "import sys, lvqrej;"
        "from lvqrej import PrototypeModel, RelativeSimilarity, explain;"
        "explain(RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], [0, 1])), 0.6, [0.9, 0.0]);"
        "assert 'sklearn' not in sys.modules and 'pandas' not in sys.modules;"
        "assert all(hasattr(lvqrej, name) and name in dir(lvqrej) for name in lvqrej.__all__);"
        "assert not hasattr(lvqrej, 'reject')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
