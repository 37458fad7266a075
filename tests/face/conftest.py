"""A finished session of the face's own making, to read or to copy."""

import shutil
from pathlib import Path

import pytest

import htfl_sim as hs

ROUNDS = 4


def tiny(**settings: object) -> hs.Config:
    """Four tiny models on 200 digits, three of them a round, a checkpoint every second round: a blink a round."""
    given = {
        "rounds": ROUNDS,
        "clients": 4,
        "data__limit": 200,
        "data__partition": "iid",
        "federation__group": "tiny",
        "federation__participation": 0.75,
        "training__epochs": 1,
        "runtime__workers": 1,
        "checkpoint__every": 2,
        "checkpoint__keep_last": 1,
        "checkpoint__keep_best": False,
    }
    return hs.preset(**given | settings)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("face") / "done"
    hs.run(tiny(cka__every=4), folder)
    return folder


@pytest.fixture
def done(_made: Path, tmp_path: Path) -> Path:
    """A finished session of four rounds that keeps the checkpoint of the last."""
    return Path(shutil.copytree(_made, tmp_path / "done"))
