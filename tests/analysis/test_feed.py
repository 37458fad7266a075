"""The feed: a session's files as one Run, what watchers notice in it, and what happens to its owner."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkpoints import Store, canonical
from simulator.results.analysis import run as run_module
from simulator.results.analysis.events import description, is_alarming, shown_events
from simulator.results.analysis.feed import Feed, Noticer, read
from simulator.results.analysis.ledger import Ledger
from simulator.results.analysis.run import Pulse, SessionData, Silence
from tests import sessions
from tests.analysis import runs
from tests.processes import FORKED


def test_a_record_without_what_is_read_of_it_is_refused_by_the_feed(tmp_path: Path) -> None:
    for lacking in ("participants", "params", "flops", "bytes", "accuracy", "timing"):
        folder = sessions.make(tmp_path / lacking, rounds=2, clients=2, checkpoint_every=100, state="stopped")
        feed = Feed(folder)
        feed.poll()
        odd = sessions.record(3, 2)
        del odd[lacking]
        with (folder / "ledger.jsonl").open("ab") as ledger:
            ledger.write(canonical(odd) + b"\n")
        assert feed.poll()
        assert "no session that htfl-sim wrote" in (feed.run.error or "")
        assert feed.run.round == 2  # what was read before is still there


def test_a_fault_is_told_once_and_what_was_read_before_stays_until_it_is_mended(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "s", rounds=3, clients=2)
    feed = Feed(folder)
    feed.poll()
    document = (folder / "session.json").read_bytes()
    (folder / "session.json").write_bytes(b"{}")
    assert feed.poll()
    broken = feed.run
    assert "session.json is damaged" in str(broken.error)
    assert broken.round == 3
    assert not feed.poll() and feed.run is broken
    (folder / "session.json").write_bytes(document)
    assert feed.poll()
    assert (feed.run.error, feed.run.round) == (None, 3)


FALLING = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Five falls in a row in round 6."""


def falling(**changes: Any) -> SessionData:
    """A client without a number of test samples, so that only the mean is judged."""
    return replace(runs.run("s", FALLING), **changes)


def test_a_session_without_watchers_shows_what_they_would_have_told() -> None:
    run = falling()
    (event,) = Noticer().events(run)
    fell = "mean accuracy fell in 5 rounds in a row, from 90.0 % to 40.0 %"
    assert event == {"at": "", "event": "noticed", "round": 6, "watcher": "falling", "message": fell, "clients": [],
                     "action": "log"}  # fmt: skip
    assert shown_events(replace(run, noticed=(event,))) == [event]
    assert description(event) == f"falling: {fell}"
    assert is_alarming(event)


def test_clients_are_judged_by_the_numbers_of_test_samples_of_the_session() -> None:
    """From 90 % to 40 % is far more than chance for 100 samples, and 19 are too few."""
    for tested, watchers in ((100, ["falling", "losing"]), (19, ["falling"])):
        samples = {"classes": ["a"], "train": [[9]], "test": [tested]}
        run = falling(document={"samples": samples})
        assert [event["watcher"] for event in Noticer().events(run)] == watchers


def test_a_session_with_watchers_of_its_own_shows_only_what_they_told() -> None:
    told = {"at": "", "event": "noticed", "round": 2, "watcher": "plateau", "message": "…"}
    now, before_a_switch = {"config": {"watch": {"watchers": ["plateau"]}}}, {"events": (told,)}
    for changes in (now, before_a_switch):
        assert Noticer().events(falling(**changes)) == ()


def test_a_client_that_diverged_is_a_warning_already() -> None:
    diverged = runs.record(1, 0.5) | {"diverged": [0], "participants": [0]}
    assert Noticer().events(runs.of("s", [diverged])) == ()


def test_rounds_are_looked_at_once_unless_they_were_run_again() -> None:
    noticer, run = Noticer(), falling()
    first = noticer.events(replace(run, ledger=Ledger.of(run.records[:6])))
    assert len(first) == 1 and noticer.events(run) is first and noticer.events(run) is first
    again = noticer.events(falling(ledger=Ledger.of([dict(record) for record in run.records])))
    assert again == first and again is not first


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


def note(beat: int, epoch: int = 7) -> dict[str, int]:
    return {"epoch": epoch, "heartbeat": beat}


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 1000.0
        monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: self.at))


def test_an_owner_is_silent_from_two_and_a_half_seconds_on_and_unresponsive_from_ten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, heart = Clock(monkeypatch), Pulse()
    assert heart.silence() is None  # there is no note yet
    heart.take(note(1), 0.0)
    for after, silence in ((2.5, None), (2.6, Silence(2)), (9.9, Silence(9)), (13.7, Silence(13))):
        clock.at = 1000 + after
        assert heart.silence() == silence
    assert [Silence(seconds).long for seconds in (2, 9, 10, 13)] == [False, False, True, True]
    heart.take(note(1), 0.0)  # the same note, read again
    assert heart.silence() == Silence(13)
    heart.take(note(2), 0.0)
    assert heart.silence() is None


def test_the_first_note_is_as_old_as_its_file_or_on_another_machine_at_least_as_old_as_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for ago, at_first, later in (
        (40, Silence(40), Silence(45)), (-3, None, Silence(5)), (None, None, Silence(5, exact=False)),
    ):  # fmt: skip
        clock, heart = Clock(monkeypatch), Pulse()
        heart.take(note(40), ago)
        assert heart.silence() == at_first
        clock.at += 5
        assert heart.silence() == later
        heart.take(note(41), ago)  # as new as it is read
        assert heart.silence() is None
        clock.at += 5
        assert heart.silence() == Silence(5)
        heart.take(note(1, epoch=8), ago)  # another owner
        assert heart.silence() is None


def own(folder: Path) -> None:
    """Own a session until a signal ends the process."""
    with Store.open(folder) as store:
        store.heartbeat("running", round=13, rounds=40, phase="train", done=1, clients=4)
        time.sleep(60)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def looked(feed: Feed) -> SessionData:
    """The session as it is now."""
    feed.poll()
    return feed.run


@pytest.mark.slow
def test_an_owner_that_freezes_and_dies_is_told_with_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sessions.make(tmp_path / "main", rounds=12, of=40, clients=4, state="stopped")
    monkeypatch.setattr(run_module, "SILENT_SECONDS", 4.0)
    feed = Feed(folder)
    process = FORKED.Process(target=own, args=(folder,), daemon=True)
    process.start()
    assert process.pid is not None
    try:
        until(lambda: looked(feed).progress.get("round") == 13)
        assert feed.run.silence is None
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: looked(feed).silence is not None)
        assert feed.run.outages == ()  # a short silence is no event
        until(lambda: (silence := looked(feed).silence) is not None and silence.long)
        assert feed.run.state == "running"  # as it says itself
        os.kill(process.pid, signal.SIGCONT)
        until(lambda: looked(feed).silence is None)
        before = [each["event"] for each in feed.run.outages]
    finally:
        process.kill()
        process.join()
    until(lambda: looked(feed).state == "interrupted")
    silent, heard, died = feed.run.outages
    assert before == ["silent", "heard"]
    assert description(silent) == f"silent: no heartbeat of process {process.pid} for 4 s"
    assert description(heard).startswith("heartbeat again after ")
    assert description(died) == f"interrupted: process {process.pid} ended without a stop in round 13"
    assert feed.run.silence is None
    assert [is_alarming(event) for event in (silent, heard, died)] == [True, False, True]
    assert list(shown_events(feed.run))[-3:] == [silent, heard, died]
    again = Feed(folder)  # whoever looks later sees its death too, at the time of its last note
    assert again.poll()
    (told,) = again.run.outages
    assert description(told) == description(died)
    assert heard["at"][:16] <= told["at"] <= died["at"]


def test_a_deleted_folder_is_a_state_and_an_event_and_so_is_its_return(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "main", rounds=3, clients=4)
    feed = Feed(folder)
    feed.poll()
    shutil.move(folder, tmp_path / "away")
    assert feed.poll() and not feed.poll()  # told once
    assert (feed.run.state, feed.run.live, feed.run.round) == ("gone", False, 3)
    shutil.move(tmp_path / "away", folder)
    assert feed.poll()
    assert feed.run.state == "finished"
    said = [description(event) for event in feed.run.outages]
    assert said == [f"gone: the folder {folder} was deleted or moved", "can be read again"]


def test_a_damaged_session_that_is_deleted_is_gone(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "main", rounds=3, clients=4)
    feed = Feed(folder)
    feed.poll()
    (folder / "session.json").write_bytes(b"{}")
    feed.poll()
    assert (feed.run.state, feed.run.outages[0]["event"]) == ("finished", "unreadable")
    shutil.rmtree(folder)
    feed.poll()
    assert (feed.run.state, [each["event"] for each in feed.run.outages]) == ("gone", ["unreadable", "gone"])


def test_a_folder_that_never_held_a_session_is_not_gone(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "none")
    feed.poll()
    assert feed.run.state == "running" and feed.run.error is not None
