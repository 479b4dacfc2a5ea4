"""The workflows: valid, on the Pythons that the package allows, calling commands that exist."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
WORKFLOWS = {
    file.stem: yaml.safe_load(file.read_text()) for file in (ROOT / ".github/workflows").glob("*.yml")
}
#: Actions of those who run the workflows, and of the package index itself.
OFFICIAL = re.compile(r"actions/[a-z-]+@v\d+|pypa/gh-action-pypi-publish@release/v\d+")


def steps(workflow):
    return [step for job in WORKFLOWS[workflow]["jobs"].values() for step in job["steps"]]


def triggers(workflow):
    return WORKFLOWS[workflow][True]  # YAML 1.1 reads the key `on` as true


def pythons(workflow):
    named = [
        step["with"]["python-version"] for step in steps(workflow) if "python-version" in step.get("with", {})
    ]
    matrices = [job.get("strategy", {}).get("matrix", {}) for job in WORKFLOWS[workflow]["jobs"].values()]
    listed = [version for matrix in matrices for version in matrix.get("python", [])]
    return {version for version in named if not version.startswith("${{")} | set(listed)


def test_the_workflows_are_there():
    assert {"tests", "book", "weekly", "release"} <= set(WORKFLOWS)


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_pythons_are_strings_that_the_package_allows(workflow):
    allowed = SpecifierSet(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    assert pythons(workflow)
    assert all(isinstance(version, str) and version in allowed for version in pythons(workflow))


def test_tests_run_on_every_supported_python():
    assert pythons("tests") == {"3.11", "3.12", "3.13"}


def test_everything_and_what_would_be_released_are_tested_on_every_change():
    assert {"make test", "make dist"} <= {step.get("run") for step in steps("tests")}
    assert {"push", "pull_request"} <= set(triggers("tests"))


def test_binder_and_its_workflow_use_the_same_python():
    assert f"python-{min(pythons('weekly'))}" == (ROOT / "binder" / "runtime.txt").read_text().strip()


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_steps_use_official_actions_and_existing_commands(workflow):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step), step
        assert OFFICIAL.fullmatch(step.get("uses", "actions/checkout@v4")), step
        assert set(re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))) <= targets, step


def test_book_is_published_to_pages_only_from_the_main_branch():
    publish = WORKFLOWS["book"]["jobs"]["publish"]
    assert publish["if"] == "github.event_name != 'pull_request'"
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert triggers("book")["push"]["branches"] == ["main"]


def test_binder_is_tested_weekly_and_when_the_environment_changes():
    assert "schedule" in triggers("weekly")
    watched = {"binder/**", "requirements.txt", "pyproject.toml"}
    assert watched <= set(triggers("weekly")["push"]["paths"]) & set(
        triggers("weekly")["pull_request"]["paths"]
    )
    assert "if" not in WORKFLOWS["weekly"]["jobs"]["binder"]
    commands = [step.get("run", "") for step in steps("weekly")]
    assert "make test-binder" in commands
    assert any("--builder linkcheck" in command for command in commands)


def test_what_takes_long_or_explores_runs_weekly():
    commands = " ".join(step.get("run", "") for step in steps("weekly"))
    for command in ("mutants", "fresh", "soak SEED=", "lowest"):
        assert f"make {command}" in commands
    assert {job["runs-on"] for job in WORKFLOWS["weekly"]["jobs"].values()} > {"ubuntu-latest"}


def test_a_tag_is_published_without_a_password_after_its_wheel_has_run():
    jobs = WORKFLOWS["release"]["jobs"]
    assert triggers("release")["push"]["tags"] == ["v*"]
    assert "make dist" in [step.get("run") for step in jobs["build"]["steps"]]
    assert (jobs["publish"]["needs"], jobs["release"]["needs"]) == ("build", "publish")
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()
    assert all("tag" in jobs[name]["if"] for name in ("publish", "release"))
