"""What is released: wheel and sdist, checked, installed without make, and README's example run with each.

`make dist` leaves them in the folder that LVQREJ_DIST names.
"""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import lvqrej

ROOT = Path(__file__).parents[2]
TOOLS = ("build", "twine")
EXAMPLE = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S).group(1)
#: What a user of the package does not have.
FOREIGN = "{'sphinx', 'jupyter-book', 'jupyterlab', 'cvxpy', 'pytest', 'imbalanced-learn', 'companion'}"
ALONE = f"""
import importlib.metadata, importlib.util, lvqrej
names = {{d.name.lower() for d in importlib.metadata.distributions()}}
assert not names & {FOREIGN}, names
assert importlib.util.find_spec("companion") is None
assert importlib.metadata.version("lvqrej") == lvqrej.__version__ == "{lvqrej.__version__}"
"""

pytestmark = pytest.mark.slow


def run(*command, cwd=ROOT):
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder):
    """Return the Python of a new environment in which nothing is, not even pip."""
    venv.create(folder)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def install(python, *what):
    """Install by the pip of this environment into another one; what is imported is compiled then."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile", *what)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Return wheel and sdist; the wheel is built from the sdist, so nothing is missing in it."""
    folder = Path(os.environ.get("LVQREJ_DIST") or tmp_path_factory.mktemp("dist"))
    python = environment(tmp_path_factory.mktemp("tools"))
    install(python, *TOOLS)
    run(python, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    run(python, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


@pytest.fixture(scope="module")
def clean(released, tmp_path_factory):
    """Return the Python of an environment with the wheel and what it needs."""
    python = environment(tmp_path_factory.mktemp("clean"))
    install(python, "-c", ROOT / "requirements.txt", released[0])
    return python


def test_they_hold_the_package_and_nothing_else(released):
    with zipfile.ZipFile(released[0]) as wheel:
        folders = {name.split("/")[0] for name in wheel.namelist()}
        (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        text = wheel.read(metadata).decode()
    assert {name for name in folders if not name.endswith(".dist-info")} == {"lvqrej"}
    assert all(f"Project-URL: {name}, https://" in text for name in ("Homepage", "Repository", "Issues"))
    with tarfile.open(released[1]) as sdist:
        held = {name.split("/")[1] for name in sdist.getnames()}
    assert held == {
        "lvqrej",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "pyproject.toml",
        "PKG-INFO",
        ".gitignore",
    }


def test_readmes_example_runs_with_the_wheel_alone(clean, tmp_path):
    assert "it would be accepted as" in run(clean, "-c", ALONE + EXAMPLE, cwd=tmp_path)


def test_readmes_example_runs_with_the_sdist_alone(clean, released, tmp_path):
    install(clean, "--no-deps", "--force-reinstall", released[1])
    assert "it would be accepted as" in run(clean, "-c", ALONE + EXAMPLE, cwd=tmp_path)
