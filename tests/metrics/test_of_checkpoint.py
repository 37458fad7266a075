"""CKA from a session on disk, after its run."""

from pathlib import Path
from typing import Any

import pytest

import simulator
from checkpoints import SessionUnreadable
from simulator.base.errors import SessionError
from simulator.config import Config
from simulator.metrics.cka_matrices import common_layers, measure, probe
from simulator.results.inspection.checkpoint import cka
from simulator.sessions.reader import CheckedReader
from tests import federations
from tests.federations import built, config, context, generated, on_images


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three rounds that keeps the last two."""
    folder = tmp_path_factory.mktemp("sessions") / "done"
    with on_images(generated()), simulator.Session.create(settings(), folder, Path()) as session:
        session.run()
    return folder


def settings() -> Config:
    return config("fedlora", checkpoint={"keep_last": 2, "keep_best": False})


def after(folder: Path, *args: Any, **options: Any) -> dict[str, Any]:
    with on_images(generated()):
        return cka(folder, Path(), *args, **options)


def in_the_run(rounds: int, debiased: bool = False) -> dict[str, Any]:
    """What the same run measures while its models are in memory."""
    parts = built(settings())
    states = federations.run(parts.engine, rounds).clients
    return measure(
        context(parts),
        lambda clients, work: [work(client) for client in clients],
        states.__getitem__,
        common_layers(parts.federation),
        probe(parts.data, 7),
        debiased,
    )


def test_it_is_what_the_run_would_have_recorded(folder: Path) -> None:
    for round, debiased, workers in [(2, False, 1), (3, True, 2)]:
        expected = {"round": round} | in_the_run(round, debiased)
        assert after(folder, round, debiased=debiased, workers=workers) == expected


def test_layers_and_images_can_be_chosen(folder: Path) -> None:
    chosen = after(folder, layers=["fc1"], images=8)
    assert chosen["order"] == ["fc1"]
    assert chosen["layers"]["fc1"] != after(folder)["layers"]["fc1"]


def test_it_writes_nothing(folder: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    before = files()
    after(folder)
    assert files() == before


def test_a_round_that_is_not_kept_is_refused_with_those_that_are(folder: Path) -> None:
    with pytest.raises(SessionUnreadable, match=r"no checkpoint of round 1; kept: 2, 3"):
        after(folder, 1)


def test_other_data_are_refused(folder: Path) -> None:
    with on_images(generated(per_class=41)), pytest.raises(SessionError, match="data_dir=DIR"):
        cka(folder, Path())


def test_received_models_are_those_that_the_run_has_measured(tmp_path: Path) -> None:
    """FedRolex sends other parts of the server's model in each round."""
    wanted = config("fedrolex", rounds=1, cka={"every": 1, "model": "aggregated"})
    with on_images(generated()), simulator.Session.create(wanted, tmp_path / "s", Path()) as session:
        session.run()
    recorded = CheckedReader(tmp_path / "s").records()[-1]["cka"]
    assert after(tmp_path / "s") == {"round": 1} | recorded
