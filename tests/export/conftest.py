"""A run on real digits that keeps only its last checkpoint, and has clients of both tiny models."""

import shutil
from pathlib import Path

import pytest

import htfl_sim as hs
from tests.cli.conftest import cli, sessions  # noqa: F401 - fixtures
from tests.face.conftest import tiny


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "trained"
    hs.run(tiny(training__lr=0.2, data__limit=600, cka__every=2), folder)
    return folder


@pytest.fixture
def trained(_trained: Path, tmp_path: Path) -> Path:
    """A finished session of four rounds, which keeps the checkpoint of the last."""
    return Path(shutil.copytree(_trained, tmp_path / "trained"))
