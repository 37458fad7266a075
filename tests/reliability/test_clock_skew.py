"""Clock skew: rounds are ordered by number; no time in a file or of a file decides anything."""

import os
import time
from pathlib import Path

import pytest

import checkpoints
from checkpoints import lock
from simulator.base import rng
from simulator.engine.progress import Event, RoundFinished
from simulator.sessions.session import Session
from tests import federations

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("generated_images")]

IN_2099, IN_1971 = 4_070_908_800, 31_536_000


def run(folder: Path, rounds: int = 4) -> None:
    """A session of four rounds, stopped after some of them."""
    session = Session.create(federations.config("fedssa", rounds=4), folder, folder.parent)
    session.run(stop=lambda: "SIGTERM" if session.round >= rounds else None)


def test_files_whose_times_are_shuffled_are_read_by_round(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    run(folder, rounds=2)
    draw = rng.numpy_stream(0, "tests/mtimes")
    for path in folder.rglob("*"):
        moment = float(draw.uniform(IN_1971, IN_2099))
        os.utime(path, (moment, moment))
    session = Session.resume(folder, tmp_path)
    assert session.round == 2
    session.run()
    run(tmp_path / "alone")
    assert federations.committed(folder) == federations.committed(tmp_path / "alone")


@pytest.mark.parametrize("year", ["1971", "2099"])
def test_a_clock_set_decades_off_between_two_runs_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, year: str
) -> None:
    folder = tmp_path / "s"
    run(folder, rounds=2)
    monkeypatch.setattr(lock, "now", lambda: f"{year}-01-01T00:00:00.000Z")
    monkeypatch.setattr(time, "time", lambda: float(IN_1971 if year == "1971" else IN_2099))
    Session.resume(folder, tmp_path).run()
    run(tmp_path / "alone")
    assert federations.committed(folder) == federations.committed(tmp_path / "alone")
    assert checkpoints.verify(folder) == []


def test_commands_are_carried_out_as_they_were_posted_whatever_the_clocks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, posted = tmp_path / "s", []

    def post(event: Event) -> None:
        if isinstance(event, RoundFinished) and event.record["round"] == 1:
            for moment, rate in ((IN_2099, 0.02), (IN_1971, 0.03)):
                monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment * 10**9)
                arguments = {"method": None, "set": [f"training.lr={rate}"]}
                posted.append(checkpoints.post(folder, "switch", arguments))
            monkeypatch.undo()

    Session.create(federations.config("fedssa", rounds=4), folder, tmp_path).run(post)
    answers = [checkpoints.answer(folder, command.id) for command in posted]
    assert [each and each.outcome for each in answers] == ["applied", "applied"]
    rates = [
        entry["settings"]["training"]["lr"] for entry in checkpoints.SessionReader(folder).manifest().history
    ]
    assert rates == [0.1, 0.02, 0.03], "in the order in which they were posted"
