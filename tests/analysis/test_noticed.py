"""What watchers notice, in the events of a session: what it wrote, or what follows from its ledger."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkpoints import canonical
from simulator.results.analysis import feed
from simulator.results.analysis.events import description, is_alarming, shown_events
from simulator.results.analysis.feed import Feed, Noticer, read
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import SessionData
from tests import sessions
from tests.analysis import runs

FALLING = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Five falls in a row in round 6."""


def falling(**changes: Any) -> SessionData:
    """A client without a number of test samples, so that only the mean is judged."""
    return replace(runs.run("s", FALLING), **changes)


def test_a_session_without_watchers_shows_what_they_would_have_told() -> None:
    run = falling()
    (event,) = Noticer().events(run)
    assert event == {
        "at": "",
        "event": "noticed",
        "round": 6,
        "watcher": "falling",
        "message": "mean accuracy fell in 5 rounds in a row, from 90.0 % to 40.0 %",
        "clients": [],
        "action": "log",
    }
    assert shown_events(replace(run, noticed=(event,))) == [event]
    assert description(event) == "falling: mean accuracy fell in 5 rounds in a row, from 90.0 % to 40.0 %"
    assert is_alarming(event)


def test_clients_are_judged_by_the_numbers_of_test_samples_of_the_session() -> None:
    """From 90 % to 40 % is far more than chance for 100 samples, and 19 are too few."""
    for tested, watchers in ((100, ["falling", "losing"]), (19, ["falling"])):
        samples = {"classes": ["a"], "train": [[9]], "test": [tested]}
        run = falling(document={"samples": samples})
        assert [event["watcher"] for event in Noticer().events(run)] == watchers


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"watch": {"watchers": ["plateau"]}}},
        {"events": ({"at": "", "event": "noticed", "round": 2, "watcher": "plateau", "message": "…"},)},
    ],
    ids=["in force", "before a switch"],
)
def test_a_session_with_watchers_of_its_own_shows_only_what_they_told(changes: dict[str, Any]) -> None:
    assert Noticer().events(falling(**changes)) == ()


def test_a_client_that_diverged_is_a_warning_already() -> None:
    diverged = runs.record(1, 0.5) | {"diverged": [0], "participants": [0]}
    assert Noticer().events(runs.of("s", [diverged])) == ()


def test_each_round_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    after = feed.Watchers.after

    def look(self: feed.Watchers, record: Any) -> Any:
        looked.append(record["round"])
        return after(self, record)

    monkeypatch.setattr(feed.Watchers, "after", look)
    noticer, run = Noticer(), falling()
    first = noticer.events(replace(run, ledger=Ledger.of(run.records[:6])))
    assert noticer.events(run) is first
    assert noticer.events(run) is first
    assert looked == [1, 2, 3, 4, 5, 6, 7]
    other = falling(ledger=Ledger.of([dict(record) for record in run.records]))
    assert noticer.events(other) == first, "rounds that were run again are looked at again"
    assert looked[7:] == [1, 2, 3, 4, 5, 6, 7]


def test_only_a_feed_that_looks_for_notices_has_them(tmp_path: Path) -> None:
    """Seven more rounds, in each of which the mean falls."""
    folder = sessions.make(tmp_path / "s", rounds=1, clients=1, checkpoint_every=100, state="stopped")
    feed = Feed(folder, notices=True)
    assert feed.poll()
    assert feed.run.noticed == ()
    with (folder / "ledger.jsonl").open("ab") as ledger:
        for round in range(2, 9):
            record = json.loads(sessions.line(round, 1))
            record["accuracy"] |= {"mean": 0.8 - 0.1 * (round - 1), "per_client": [0.8 - 0.1 * (round - 1)]}
            ledger.write(canonical(record) + b"\n")
    assert feed.poll()
    assert [(event["round"], event["watcher"]) for event in feed.run.noticed] == [(7, "falling")]
    assert not feed.poll()
    assert read(folder).noticed == ()
