"""The lowest versions that are declared: each is named, given out to be installed, and true as far as one can see."""

import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = [Requirement(line) for line in PROJECT["dependencies"]]
DEVELOPING = [Requirement(line) for line in PROJECT["optional-dependencies"]["dev"]]


def floors(requirements: list[Requirement]) -> dict[str, str]:
    """The lowest version of each that has one."""
    return {
        each.name: bound.version
        for each in requirements
        for bound in each.specifier
        if bound.operator == ">="
    }


def test_every_dependency_has_a_floor_and_no_ceiling() -> None:
    assert [each.name for each in REQUIRED if [bound.operator for bound in each.specifier] != [">="]] == []


def test_the_versions_that_the_oldest_environment_installs_are_the_declared_floors() -> None:
    """What `make test-oldest` gives pip as constraints: another version would leave a floor untried."""
    given = subprocess.run(
        [sys.executable, ".ci/lowest"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert dict(line.split("==") for line in given.splitlines()) == floors([*REQUIRED, *DEVELOPING])


def test_a_floor_is_no_higher_than_what_these_tests_run_on() -> None:
    for name, floor in floors(REQUIRED).items():
        with suppress(PackageNotFoundError):  # not all are installed everywhere
            assert Version(version(name)) >= Version(floor), name
