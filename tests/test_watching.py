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
from simulator.metrics.evaluation import accuracy
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


def test_a_pause_counts_for_one_round(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_mean_weighted_and_spread() -> None:
    """Accuracies 0.5 (of 10) and 1.0 (of 30): mean 0.75, weighted (5 + 30)/40, population deviation 0.25."""
    result = accuracy({0: (5, 10), 1: (30, 30)}, [10, 30], None)
    assert result == {
        "mean": 0.75,
        "std": 0.25,
        "weighted": 0.875,
        "min": 0.5,
        "max": 1.0,
        "best_mean": 0.75,
        "best_weighted": 0.875,
        "per_client": [0.5, 1.0],
    }


def test_a_client_that_is_not_evaluated_stays_as_it_was_or_counts_for_nothing() -> None:
    """Client 0 keeps 0.5, client 1 moves to 0.9: mean 0.7, weighted (0.5·10 + 0.9·30)/40 = 0.8."""
    never = accuracy({1: (1, 4)}, [10, 4, 10], None)
    assert never["per_client"] == [None, 0.25, None]
    assert never["mean"] == never["weighted"] == never["min"] == never["max"] == 0.25
    before = accuracy({0: (5, 10), 1: (30, 30)}, [10, 30], None)
    after = accuracy({1: (27, 30)}, [10, 30], before)
    assert (before["per_client"], after["per_client"]) == ([0.5, 1.0], [0.5, 0.9])
    assert (after["mean"], after["weighted"]) == (pytest.approx(0.7), pytest.approx(0.8))


def test_the_best_is_kept_and_the_best_weighted_is_of_its_own_round() -> None:
    """Ten and forty images: 10/10 and 10/40, then 4/10 and 32/40. Means 0.625 and 0.6, weighted 0.4 and 0.72."""
    first = accuracy({0: (10, 10), 1: (10, 40)}, [10, 40], None)
    second = accuracy({0: (4, 10), 1: (32, 40)}, [10, 40], first)
    third = accuracy({0: (9, 10)}, [10, 40], second)
    best = [(each["best_mean"], each["best_weighted"]) for each in (first, second, third)]
    assert best == [(0.625, 0.4), (0.625, 0.72), (pytest.approx(0.85), 0.82)]
