"""What a watcher tells of an owner that freezes or dies, and of files that vanish, with real processes."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import Store
from simulator.results.analysis import run as run_module
from simulator.results.analysis.events import description, is_alarming, shown_events
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.run import Pulse, SessionData, Silence
from tests import sessions
from tests.processes import FORKED


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


@given(ago=st.integers(-5, 10**6))
def test_the_first_note_is_as_old_as_its_file_and_later_ones_are_new(ago: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock, heart = Clock(patch), Pulse()
        heart.take(note(40), ago)
        assert heart.silence() == (Silence(ago) if ago > 2.5 else None)
        clock.at += 1
        heart.take(note(41), ago)
        assert heart.silence() is None


def test_of_another_machine_s_clock_the_first_silence_is_a_lower_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, heart = Clock(monkeypatch), Pulse()
    heart.take(note(40), None)
    clock.at += 5
    assert heart.silence() == Silence(5, exact=False)
    heart.take(note(41), None)
    clock.at += 5
    assert heart.silence() == Silence(5)
    heart.take(note(1, epoch=8), None)  # another owner
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
