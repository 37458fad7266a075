"""The feed: a session's files as one Run."""

from pathlib import Path

import pytest

from checkpoints import canonical
from simulator.results.analysis.feed import Feed
from tests import sessions


def test_a_session_without_a_finished_round_is_read_as_such(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "begun", rounds=0, of=20, state="stopped")
    feed = Feed(folder)
    assert feed.poll()
    assert feed.run.error is None
    assert (feed.run.round, feed.run.rounds, feed.run.state) == (0, 20, "stopped")


def test_a_ledger_that_lacks_a_round_is_said_to_be_no_session_of_ours(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "short", rounds=6, checkpoint_every=100, state="stopped")
    lines = (folder / "ledger.jsonl").read_text().splitlines(keepends=True)
    (folder / "ledger.jsonl").write_text("".join(lines[:2] + lines[3:]))
    feed = Feed(folder)
    feed.poll()
    assert feed.run.error is not None
    assert feed.run.round == 0


def test_nothing_new_is_no_news(tmp_path: Path) -> None:
    feed = Feed(sessions.make(tmp_path / "done", rounds=3))
    assert feed.poll()
    before = feed.run
    assert not feed.poll()
    assert feed.run is before


def test_lines_that_come_are_added_and_earlier_curves_stay_as_they_were(tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "grows", rounds=3)
    feed = Feed(folder)
    feed.poll()
    before = feed.run.curves
    with (folder / "ledger.jsonl").open("a") as ledger:
        ledger.write(sessions.line(4, 10))
    assert feed.poll()
    assert (before.rounds, feed.run.curves.rounds, feed.run.round) == (3, 4, 4)


@pytest.mark.parametrize("lacking", ["participants", "params", "flops", "bytes", "accuracy", "timing"])
def test_a_record_without_what_is_read_of_it_is_refused_by_the_feed(lacking: str, tmp_path: Path) -> None:
    folder = sessions.make(tmp_path / "odd", rounds=2, clients=2, checkpoint_every=100, state="stopped")
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
