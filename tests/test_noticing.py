"""A run with watchers: what they notice is in its records and events, and it pauses, stops, and resumes for it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from simulator.base.nested import merged
from simulator.config import Config, cautions
from simulator.engine.progress import Event, Noticed, RoundFinished, StateChanged
from simulator.results.analysis.classes import class_counts
from simulator.sessions.forking import fork
from simulator.sessions.history import watching_since
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from tests import federations, sessions

PLATEAU = {"watchers": ["plateau"], "plateau_rounds": 2, "plateau_gain": 0.99}
"""No round is 99 pp better than the first one, so this tells of a plateau after round 3, and of no other."""
MOVING = {"watchers": ["falling", "plateau"], "falling_rounds": 1, "plateau_rounds": 1, "plateau_gain": 0.05}
"""Every fall, and every plateau of one round: several notices in eight rounds."""


@pytest.fixture(autouse=True)
def _images() -> Iterator[None]:
    with federations.on_images(federations.generated()), sessions.unsynced():
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of MOVING that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    with federations.on_images(federations.generated()), sessions.unsynced():
        Session.create(config(MOVING), folder / "s", folder).run()
    return folder / "s"


def config(watch: dict[str, Any] | None = None, **sections: Any) -> Config:
    settings = merged({"rounds": 8, "training": {"lr": 0.3}, "evaluation": {"metrics_for": "all"}}, sections)
    return federations.config("standalone", **settings | ({"watch": watch} if watch else {}))


def noticed(folder: Path) -> list[tuple[int, str, str]]:
    """Round, watcher, and action of the events."""
    events = [each for each in CheckedReader(folder).events() if each["event"] == "noticed"]
    return [(each["round"], each["watcher"], each["action"]) for each in events]


def recorded(folder: Path) -> list[tuple[int, str]]:
    """The same of the records."""
    records = CheckedReader(folder).records()
    return [(record["round"], each["watcher"]) for record in records for each in record.get("watch", ())]


def unwatched(folder: Path) -> list[dict[str, Any]]:
    """The records without their times and notices."""
    records = map(federations.untimed, checkpoints.SessionReader(folder).records())
    return [{key: value for key, value in record.items() if key != "watch"} for record in records]


def test_watchers_change_no_bit_and_a_run_without_them_records_nothing_of_them(
    tmp_path: Path, whole: Path
) -> None:
    Session.create(config(), tmp_path / "without", tmp_path).run()
    assert unwatched(whole) == unwatched(tmp_path / "without")
    assert "watch" not in checkpoints.SessionReader(tmp_path / "without").document["config"]
    assert (noticed(tmp_path / "without"), recorded(tmp_path / "without")) == ([], [])
    told = noticed(whole)
    assert len(told) > 2
    assert [(round, watcher) for round, watcher, _ in told] == recorded(whole)


@pytest.mark.long
def test_a_run_paused_by_a_watcher_waits_for_resume_and_goes_on_as_if_nothing_had_been(
    tmp_path: Path,
) -> None:
    Session.create(config(), tmp_path / "without", tmp_path).run()
    seen: list[Event] = []
    held = threading.Event()

    def observe(event: Event) -> None:
        seen.append(event)
        if isinstance(event, StateChanged) and event.state == "paused":
            held.set()

    folder = tmp_path / "s"
    session = Session.create(config({**PLATEAU, "pause": ["plateau"]}), folder, tmp_path)
    thread = threading.Thread(target=session.run, args=(observe,))
    thread.start()
    try:
        assert held.wait(600)
        assert session.round == 3
    finally:
        checkpoints.post(folder, "resume", {})
        thread.join(600)
    at_pause = seen.index(StateChanged("paused", 3))
    finished, told = seen[at_pause - 2 : at_pause]
    assert isinstance(finished, RoundFinished) and isinstance(told, Noticed)
    assert (told.round, told.watcher, told.clients, told.action) == (3, "plateau", (), "pause")
    assert finished.record["watch"] == [{"watcher": "plateau", "message": told.message, "clients": []}]
    assert CheckedReader(folder).state() == "finished"
    assert noticed(folder) == [(3, "plateau", "pause")]
    assert unwatched(folder) == unwatched(tmp_path / "without")


@pytest.mark.long
def test_a_run_stopped_by_a_watcher_is_resumed_without_being_stopped_again(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    outcome = Session.create(config({**PLATEAU, "stop": ["plateau"]}), folder, tmp_path).run()
    assert (outcome.state, outcome.round, outcome.by_watcher) == ("stopped", 3, True)
    assert str(outcome.reason).startswith("watcher plateau: mean accuracy has not exceeded")
    assert CheckedReader(folder).events()[-1]["reason"] == outcome.reason
    again = Session.resume(folder, tmp_path).run()
    assert (again.state, again.round, again.by_watcher) == ("finished", 8, False)
    assert noticed(folder) == [(3, "plateau", "stop")]


@pytest.mark.long
def test_rounds_that_are_lost_and_run_again_tell_nothing_twice(tmp_path: Path, whole: Path) -> None:
    """Only round 4 has a checkpoint, so the ledger's rounds up to 6 are lost with the process."""
    session = Session.create(config(MOVING, checkpoint={"every": 4}), tmp_path / "s", tmp_path)

    def die(event: Event) -> None:
        if isinstance(event, RoundFinished) and event.record["round"] == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.run(die)
    session.close()
    before = noticed(tmp_path / "s")
    assert any(round > 4 for round, _, _ in before)
    Session.resume(tmp_path / "s", tmp_path).run()
    assert noticed(tmp_path / "s") == noticed(whole)
    assert noticed(tmp_path / "s")[: len(before)] == before


@pytest.mark.long
def test_watchers_that_a_switch_turns_on_are_told_what_goes_on_already(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    session = Session.create(config(), folder, tmp_path)
    session.run(upto=5)
    words = ["watch.watchers=[plateau]", "watch.plateau_rounds=2", "watch.plateau_gain=0.99"]
    checkpoints.post(folder, "switch", {"method": None, "set": words})
    session.run(upto=7)
    assert noticed(folder) == [(6, "plateau", "log")]
    session.close()
    Session.resume(folder, tmp_path).run()
    assert noticed(folder) == [(6, "plateau", "log")]


@pytest.mark.long
def test_watchers_that_a_switch_turns_off_stay_off_after_a_resume(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    session = Session.create(config(PLATEAU), folder, tmp_path)
    checkpoints.post(folder, "switch", {"method": None, "set": ["watch={}"]})
    session.run(stop=lambda: "enough" if session.round == 2 else None)
    with Session.resume(folder, tmp_path) as resumed:
        assert not resumed.config.watch.watchers
        resumed.run()
    assert noticed(folder) == []


@pytest.mark.long
def test_a_fork_with_watchers_repeats_rounds_without_them(tmp_path: Path) -> None:
    """Round 1 is run again for the fork, and compared with a record that says what was noticed."""
    parent = config({**MOVING, "plateau_rounds": 1}, checkpoint={"keep_last": 1, "keep_best": False})
    Session.create(parent, tmp_path / "s", tmp_path).run()
    at = recorded(tmp_path / "s")[0][0]
    assert fork(tmp_path / "s", tmp_path / "fork", tmp_path, at).replayed == at
    Session.resume(tmp_path / "fork", tmp_path).run()
    assert recorded(tmp_path / "fork") == recorded(tmp_path / "s")
    assert noticed(tmp_path / "fork") == [each for each in noticed(tmp_path / "s") if each[0] > at]


def test_a_client_that_answers_one_class_is_noticed_when_its_counts_by_class_say_so(tmp_path: Path) -> None:
    """At this learning rate, clients learn nothing, and an untrained model answers few classes."""
    data = {"partition": "iid", "split": "1:1:3"}
    still = {"training": {"lr": 1e-9}, "federation": {"clients": 2}, "data": data, "rounds": 2, "seed": 1}
    Session.create(config({"watchers": ["collapse"]}, **still), tmp_path / "s", tmp_path).run()
    records = CheckedReader(tmp_path / "s").records()
    collapsed = []
    for client in range(2):
        counts = list((class_counts(records[:1], client) or {}).values())
        samples = sum(each.samples for each in counts)
        most = max(counts, key=lambda each: each.answered)
        if samples >= 20 and most.answered >= 0.9 * samples and most.samples < samples / 2:
            collapsed.append(client)
    assert len(collapsed) == 1
    assert [each["clients"] for each in records[0]["watch"]] == [collapsed]
    assert "watch" not in records[1]


@pytest.mark.long
def test_a_run_without_counts_by_class_says_that_no_collapse_can_be_noticed() -> None:
    watch: dict[str, Any] = {"watchers": ["collapse"]}
    needs = "Watcher 'collapse' needs counts by class"
    assert cautions(config(watch)) == []
    remedies: list[tuple[dict[str, Any], str]] = [
        ({"classes": False}, ". Set evaluation.classes=true."),
        ({"parts": ["eval"]}, " of the test part. Add test to evaluation.parts."),
    ]
    for evaluation, remedy in remedies:
        assert cautions(config(watch, evaluation=evaluation)) == [needs + remedy]


def test_the_watchers_in_force_look_from_the_round_in_which_they_last_changed() -> None:
    def entry(round: int, watch: dict[str, Any] | None) -> Any:
        return {"from_round": round, "method": {"name": "x"}, "settings": {"watch": watch} if watch else {}}

    one, other = {"watchers": ["plateau"]}, {"watchers": ["falling"]}
    assert watching_since([entry(1, one)]) == 1
    assert watching_since([entry(1, one), entry(4, one)]) == 1
    assert watching_since([entry(1, None), entry(4, one), entry(6, one)]) == 4
    assert watching_since([entry(1, one), entry(3, other), entry(6, one)]) == 6
