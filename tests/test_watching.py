"""What a run notes of itself for watchers: where each client is, and what the process takes of the machine."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import checkpoints
from checkpoints import Store
from simulator.engine.progress import ClientStarted, ClientTrained, RoundStarted, StateChanged
from simulator.sessions import watching
from simulator.sessions.session import Session
from simulator.sessions.watching import Meter, Watching
from tests import federations, sessions

STATES = (letter * 3 for letter in "abcdefghijklmnopqrstuvwxyz")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    sessions.make(tmp_path / "s", rounds=1, clients=4)
    with Store.open(tmp_path / "s") as store:
        yield store


def noted(store: Store, *events: Any, clients: int = 4) -> dict[str, Any]:
    """The progress that the owner's note has after these."""
    federation = federations.built(federations.config("standalone", federation={"clients": 4})).federation
    watcher = Watching(store, federation)
    watcher._clients = clients
    for event in events:
        watcher(event)
    store.heartbeat(next(STATES), **watcher._progress)  # written at once: the state is another
    note = checkpoints.SessionReader(store.folder).owner()
    assert note is not None
    return dict(note["progress"])


def test_each_client_of_a_round_waits_trains_is_done_or_takes_no_part(store: Store) -> None:
    begun = RoundStarted(2, 5, (0, 1, 3), finished=(3,))
    assert noted(store, begun)["each"] == "ww-d"
    assert noted(store, begun)["done"] == 1
    assert noted(store, begun, ClientStarted(2, 0), ClientStarted(2, 1))["each"] == "tt-d"
    trained = ClientTrained(2, 1, 2, 3, 0.5)
    assert noted(store, begun, ClientStarted(2, 0), ClientStarted(2, 1), trained)["each"] == "td-d"


def test_of_very_many_clients_it_is_not_noted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_CLIENTS", 3)
    assert "each" not in noted(store, RoundStarted(2, 5, (0, 1)))


def test_what_is_waited_while_paused_counts_for_one_round(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([10.0, 17.5, 20.0, 21.0])
    federation = federations.built(federations.config("standalone")).federation
    watcher = Watching(store, federation)
    monkeypatch.setattr(watching.time, "perf_counter", lambda: next(clock))
    for state in ("paused", "running", "paused", "running"):
        watcher(StateChanged(state, 1))
    assert watcher.took()["waited"] == 7.5 + 1.0
    assert watcher.took()["waited"] == 0.0


def test_the_meter_sees_this_process_s_memory_and_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Meter(torch.device("cpu"))
    found.begin()
    assert not found.due()
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.0)
    assert found.due()
    held = torch.ones(64 << 20, dtype=torch.uint8)  # 64 MiB that are written
    seen = found.now()["memory"]
    del held
    round = found.of_round()
    assert 64 << 20 < seen <= round["memory"] + (1 << 20)
    assert round["cpu"] >= 0
    assert "gpu_memory" not in round


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux counts the most memory there was")
def test_the_most_memory_of_a_round_is_known_though_nobody_looked_then() -> None:
    """64 MiB more than this process ever had, held between two looks, and of that round alone."""
    found = Meter(torch.device("cpu"))
    found.begin()
    size = watching.most_ever() - found._memory() + (64 << 20)
    held = torch.ones(size, dtype=torch.uint8)
    del held
    highest = found.of_round()["memory"]
    assert highest >= watching.most_ever() - (1 << 20)
    assert highest > found._memory() + (32 << 20)
    found.begin()
    assert found.of_round()["memory"] < highest - (32 << 20)


def test_a_round_s_record_says_what_each_client_took_and_a_resumed_one_keeps_it(tmp_path: Path) -> None:
    config = federations.config(
        "standalone",
        rounds=2,
        federation={"clients": 4, "participation": 0.5},
        runtime={"runner": "sequential"},
    )
    heard: list[Any] = []

    def stop() -> str | None:
        second = any(isinstance(event, ClientTrained) and event.round == 2 for event in heard)
        return "SIGTERM" if second else None

    with federations.on_images(federations.generated()):
        with Session.create(config, tmp_path / "s", tmp_path) as session:
            assert session.run(heard.append, stop=stop).round == 1
        with Session.resume(tmp_path / "s", tmp_path) as session:
            session.run(heard.append)
    again = next(event for event in reversed(heard) if isinstance(event, RoundStarted))
    assert len(again.finished) == 1
    for record in checkpoints.SessionReader(tmp_path / "s").records():
        timing = record["timing"]
        taken = [seconds for seconds in timing["per_client"] if seconds is not None]
        assert [k for k, each in enumerate(timing["per_client"]) if each is not None] == record[
            "participants"
        ]
        assert min(taken) > 0
        assert timing["workers"] == 1
        assert timing["memory"] > 10 << 20
