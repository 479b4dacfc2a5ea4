"""The house itself: commands, pins, citation, addresses, and nothing in it that names a machine."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import lvqrej

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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
    needed = run(sys.executable, "-m", "pip", "check", "--disable-pip-version-check")
    assert needed.returncode == 0, needed.stdout  # nothing that a pinned package needs is missing


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


PARTS = "one: ; @echo one is done\ntwo: ; @echo two is done\nbroken: ; @false\n"


@pytest.mark.parametrize(
    ("stages", "failed", "told"),
    [
        (["one", "two+one"], "", ["one", "two", "one", "all"]),
        (["two+broken,one", "one"], "broken", ["two", "all"]),
        (["broken,two+one", "two"], "broken", ["one", "all"]),
    ],
)
def test_parts_side_by_side_all_run_and_a_failure_of_any_is_told(stages, failed, told, tmp_path):
    (tmp_path / "Makefile").write_text(PARTS)
    result = run("sh", ROOT / "tests" / "parts.sh", "make", *stages, cwd=tmp_path)
    lines = (tmp_path / "_build" / "test_times.csv").read_text().splitlines()
    times = [line.split(",") for line in lines]
    assert sorted(part for part, _ in times[1:-1]) == sorted(told[:-1])
    assert times[-1][0] == "all"
    assert result.returncode == bool(failed)
    assert (f"failed: {failed}" in result.stdout) == bool(failed)
    assert all(f"{part} is done" in result.stdout for part in told[:-1])
    assert all(f"{part:12}  0 min" in result.stdout for part in told)


def test_citation_is_valid(tmp_path):
    """Against the format's own schema, taken from its reference reader (which itself needs old libraries)."""
    import jsonschema

    install = run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, CFF_READER)
    assert install.returncode == 0, install.stderr
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    schema = next(tmp_path.glob(f"**/{citation['cff-version']}/schema.json"))
    jsonschema.validate(citation, json.loads(schema.read_text()))
    assert "Artelt" in str(citation["references"])


def test_no_machine_path_in_tracked_files():
    pattern = "|".join(map(re.escape, {f"{ROOT.parent}/", f"{Path.home()}/"}))
    found = run("git", "grep", "-nE", pattern, "--", ".")
    assert found.returncode == 1, found.stdout


def own_address(path):
    """Return the file of this repository that an address names, None if it is another's."""
    found = re.fullmatch(
        r"https://(?:github|raw\.githubusercontent)\.com/lvqrej/lvqrej/(?:blob/)?main/(.+)", path
    )
    return found and ROOT / found[1]


def test_links_and_pictures_of_the_readme_work_on_a_package_index_too():
    """There nothing lies beside it: every address is absolute, and our own name files that are there."""
    addresses = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(addresses) >= 7
    for address in addresses:
        assert address.startswith("https://"), address
        assert own_address(address) is None or own_address(address).is_file(), address
    assert any(address.endswith(".png") for address in addresses)


def test_the_example_of_the_readme_says_what_the_readme_shows():
    """That wheel and sdist alone say it, too, is tested by `make dist`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", readme, re.S).group(1)
    said = run(sys.executable, "-c", example, PYTHONPATH=str(ROOT))
    assert said.returncode == 0, said.stderr
    assert " ".join(said.stdout.split()).rstrip(".") in " ".join(readme.split())


def test_addresses_are_those_of_the_repository_that_the_book_is_configured_for():
    repository = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]["url"]
    owner, name = repository.removeprefix("https://github.com/").split("/")
    urls, citation = PROJECT["urls"], yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert urls["Repository"] == citation["repository-code"] == repository
    assert urls["Homepage"] == citation["url"] == f"https://{owner}.github.io/{name}/"
    assert all(address.startswith((repository, urls["Homepage"])) for address in urls.values())
    assert citation["preferred-citation"]["url"] == urls["Homepage"]


def test_the_version_and_its_date_stand_in_one_place_each_and_are_repeated_rightly():
    """Zenodo takes both from the release itself."""
    assert "version" in PROJECT["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == citation["preferred-citation"]["edition"] == lvqrej.__version__
    heads = re.findall(r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heads[0] == (lvqrej.__version__, citation["date-released"])
    dates = [date for _, date in heads]
    assert dates == sorted(dates, reverse=True)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for date in dates)
    record = json.loads((ROOT / ".zenodo.json").read_text())
    assert not {"version", "publication_date"} & set(record)


def test_commits_are_looked_at_by_the_pinned_linter():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    ruff = next(repo for repo in config["repos"] if repo["repo"].endswith("ruff-pre-commit"))
    assert f"ruff=={ruff['rev'].removeprefix('v')}" in pins()


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda f: f.stem
)
def test_issue_forms_are_complete(form):
    content = yaml.safe_load(form.read_text())
    if form.stem == "config":
        return
    assert {"name", "description", "body"} <= set(content)
    ids = [part["id"] for part in content["body"]]
    assert len(set(ids)) == len(ids)
    assert all(
        part["type"] in ("input", "textarea") and part["attributes"]["label"] for part in content["body"]
    )
    assert any(part.get("validations", {}).get("required") for part in content["body"])


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


def test_the_front_page_cites_what_the_citation_file_says():
    book = yaml.safe_load((ROOT / "CITATION.cff").read_text())["preferred-citation"]
    words = " ".join((ROOT / "notebooks/00-welcome.md").read_text().replace("> ", "").split())
    author, title = book["authors"][0]["name"], book["title"]
    assert f"{author} ({book['year']}). *{title}*. Version {book['edition']}. <{book['url']}>" in words
    entry = {key: str(book[key]) for key in ("title", "year", "edition", "url")}
    for key, value in {"author": f"{{{author}}}", **entry}.items():
        assert re.search(rf"{key} += \{{{re.escape(value)}\}},", words), key
