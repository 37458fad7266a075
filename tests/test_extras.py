"""Optional packages: the line that installs one works when typed."""

import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import htfl_sim as hs
from simulator.base import extras
from simulator.base.errors import ConfigError
from simulator.studies.search import Request, proposed
from tests import sessions
from tests.cli.conftest import call

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_line_installs_what_the_extra_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("ray", "tensorboard", "wandb", "mlflow", "tune", "serve"):
        (requirement,) = PROJECT["optional-dependencies"][extra]
        assert extras.install_command(extra) == f"pip install '{requirement}'"

    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", missing)
    assert extras.install_command("wandb") == "pip install 'wandb'"


def test_a_missing_library_is_refused_with_the_line_that_installs_it() -> None:
    with pytest.raises(
        ConfigError, match=r"no_such_library is not installed .*: `pip install 'wandb>=[\d.]+'`"
    ):
        extras.library("no_such_library", "wandb")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without the extra `tune`, and two sessions of each of two methods."""
    for name in [*sys.modules, "optuna"]:
        if name.partition(".")[0] == "optuna":
            monkeypatch.setitem(sys.modules, name, None)  # an import of it raises ImportError
    for method, ceiling in (("standalone", 0.8), ("fedgh", 0.9)):
        for seed in (0, 1):
            document = sessions.config(3, 4, method) | {"seed": seed}
            made = {"clients": 3, "rounds": 4, "method": method, "document": document}
            sessions.make(tmp_path / f"{method}-{seed}", ceiling=ceiling + 0.01 * seed**2, **made)
    return tmp_path


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_what_needs_an_extra_names_the_line_that_installs_it(sampler: str, without: Path) -> None:
    words = ["tune", "t", "--over", "method=fedgh", "--sampler", sampler, "--rounds", "1"]
    refused = call(*words, "--sessions-dir", without)
    assert refused.code == 2
    assert re.search(r"optuna is not installed .*`pip install 'optuna>=[\d.]+'`", refused.err), refused.err
    assert not (without / "t").exists()


def test_the_rest_works_without_extras(without: Path) -> None:
    for words in (["--by", "method"], ["--by", "method", "--gain", "--test", "t", "--margin", "1", "--holm"]):
        done = call("compare", "*", *words, "--sessions-dir", without)
        assert done.code == 0, done.err
    asked = Request({}, ("standalone", "fedgh"), 4)
    assert [len(proposed(asked, method, [])) for method in asked.methods] == [10, 10]  # a Latin hypercube
    found = {check.what: check for check in hs.machine.doctor(without)}
    assert found["optuna"].status == "missing" and "--sampler random" in found["optuna"].detail
    assert "run: pip install 'optuna>=" in found["optuna"].detail


REQUIRED = [Requirement(line) for line in PROJECT["dependencies"]]
DEVELOPING = [Requirement(line) for line in PROJECT["optional-dependencies"]["dev"]]


def floors(requirements: list[Requirement]) -> dict[str, str]:
    """The lowest version of each that has one."""
    bounds = [(each.name, bound) for each in requirements for bound in each.specifier]
    return {name: bound.version for name, bound in bounds if bound.operator == ">="}


def test_every_dependency_has_a_floor_and_no_ceiling() -> None:
    assert [each.name for each in REQUIRED if [bound.operator for bound in each.specifier] != [">="]] == []


def test_the_versions_that_the_oldest_environment_installs_are_the_declared_floors() -> None:
    """What `make test-oldest` gives pip as constraints: another version would leave a floor untried."""
    given = subprocess.check_output([sys.executable, ".ci/lowest"], cwd=ROOT, text=True)
    assert dict(line.split("==") for line in given.splitlines()) == floors([*REQUIRED, *DEVELOPING])


def test_a_floor_is_no_higher_than_what_these_tests_run_on() -> None:
    for name, floor in floors(REQUIRED).items():
        with suppress(PackageNotFoundError):  # not all are installed everywhere
            assert Version(version(name)) >= Version(floor), name
