"""Optional packages: the line that installs one works when typed."""

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from simulator.base import extras
from simulator.base.errors import ConfigError

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("extra", ["ray", "tensorboard", "wandb", "mlflow"])
def test_the_line_installs_what_the_extra_asks_for(extra: str) -> None:
    (requirement,) = PROJECT["project"]["optional-dependencies"][extra]
    assert extras.install_command(extra) == f"pip install '{requirement}'"


def test_the_line_names_the_extra_itself_if_htfl_sim_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", missing)
    assert extras.install_command("wandb") == "pip install 'wandb'"


def test_a_missing_library_is_refused_with_the_line_that_installs_it() -> None:
    with pytest.raises(ConfigError, match=r"wandb is not installed .*: `pip install 'wandb>=[\d.]+'`"):
        extras.library("no_such_library", "wandb")
