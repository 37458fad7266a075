"""A live session and its mailbox: pause, resume, stop and checkpoint take hold where they should."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from simulator.engine.progress import ClientTrained, Event, StateChanged
from simulator.sessions.session import RunOutcome, Session
from tests import federations
from tests.operators import Operator, alone, config, finished, kinds, trained
from tests.reliability.sessions import wait_until

pytestmark = pytest.mark.usefixtures("generated_images")


# Pause and resume


@pytest.mark.long
def test_a_pause_within_a_round_holds_the_next_client_back_until_a_resume(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    resume = (lambda event: event == StateChanged("paused", 1), "resume", {})
    operator = Operator(folder, (trained(2, 1), "pause", {}), resume)
    Session.create(config(), folder, tmp_path).run(operator)
    paused = operator.seen.index(StateChanged("paused", 1))
    trained_before = [e for e in operator.seen[:paused] if isinstance(e, ClientTrained) and e.round == 2]
    assert len(trained_before) < 3
    assert operator.phases() == [("pausing", 1), ("paused", 1), ("running", 1)]
    assert operator.answers() == [("pause", "applied", 1), ("resume", "applied", None)]
    assert kinds(folder) == ["started", "paused", "continued", "stopped"]
    assert federations.committed(folder) == alone(tmp_path, config())


def test_a_pause_is_seen_before_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "s"
    states: list[tuple[str, str]] = []
    answer = checkpoints.Store.answer

    def look_first(store: checkpoints.Store, command: checkpoints.Command, *rest: Any) -> None:
        states.append((command.kind, checkpoints.SessionReader(folder).state()))
        answer(store, command, *rest)

    monkeypatch.setattr(checkpoints.Store, "answer", look_first)
    resume = (lambda event: event == StateChanged("paused", 1), "resume", {})
    Session.create(config(), folder, tmp_path).run(Operator(folder, (trained(2, 1), "pause", {}), resume))
    assert states == [("pause", "paused"), ("resume", "running")]


def test_a_pause_right_after_a_resume_is_answered_and_a_second_one_refused(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    paused = lambda event: event == StateChanged("paused", 1)  # noqa: E731
    operator = Operator(folder, (trained(2, 1), "pause", {}), (paused, "resume", {}), (paused, "pause", {}))
    session = Session.create(config(), folder, tmp_path)
    running = threading.Thread(target=session.run, args=(operator,))
    running.start()
    wait_until(lambda: len(operator.answers()) == 3)
    second = checkpoints.post(folder, "pause").id
    wait_until(lambda: checkpoints.answer(folder, second) is not None)
    checkpoints.post(folder, "resume")
    running.join(timeout=600)
    refused = checkpoints.answer(folder, second)
    assert refused and (refused.outcome, refused.message) == ("refused", "it is paused already")
    answers = [("pause", "applied"), ("resume", "applied"), ("pause", "applied")]
    assert [answer[:2] for answer in operator.answers()] == answers


@pytest.mark.long
def test_no_client_trains_while_paused_and_the_time_is_not_counted_as_training(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    operator = Operator(folder, (trained(2, 1), "pause", {}))
    session = Session.create(config(), folder, tmp_path)
    running = threading.Thread(target=session.run, args=(operator,))
    began = time.monotonic()
    running.start()
    wait_until(lambda: ("paused", 1) in operator.phases())
    before = len(operator.seen)
    time.sleep(1.5)
    assert len(operator.seen) == before
    assert checkpoints.SessionReader(folder).state() == "paused"
    checkpoints.post(folder, "resume")
    running.join(timeout=600)
    took = time.monotonic() - began
    assert federations.committed(folder) == alone(tmp_path, config())
    first, paused, *_ = (record["timing"] for record in checkpoints.SessionReader(folder).records())
    assert paused["waited"] >= 1.5 and first["waited"] == 0
    assert first["seconds"] + paused["seconds"] + paused["waited"] < took


def test_a_resume_of_a_run_that_is_not_paused_and_an_unknown_command_are_refused(tmp_path: Path) -> None:
    operator = Operator(tmp_path / "s", (finished(1), "resume", {}), (finished(2), "dance", {}))
    Session.create(config(), tmp_path / "s", tmp_path).run(operator)
    assert operator.answers() == [("resume", "refused", None), ("dance", "refused", None)]


# Stop


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_within_a_round_keeps_its_finished_clients(tmp_path: Path, workers: int) -> None:
    folder = tmp_path / "s"
    settings = config(federation={"clients": 6, "participation": 1.0}, runtime={"workers": workers})
    operator = Operator(folder, (trained(2, 2), "stop", {}))
    assert Session.create(settings, folder, tmp_path).run(operator) == RunOutcome("stopped", 1, "stop")
    assert operator.answers() == [("stop", "applied", 1)]
    before = {e.client for e in operator.seen if isinstance(e, ClientTrained) and e.round == 2}
    partial = checkpoints.SessionReader(folder).unfinished_round()
    assert partial is not None
    assert {int(client) for client in partial.note["clients"]} == before
    assert 2 <= len(before) < 6

    resumed: list[Event] = []
    Session.resume(folder, tmp_path).run(resumed.append)
    again = {e.client for e in resumed if isinstance(e, ClientTrained) and e.round == 2}
    assert again == set(range(6)) - before
    assert federations.committed(folder) == alone(tmp_path, settings)
    assert list((folder / "partial").iterdir()) == []
    assert checkpoints.verify(folder) == []


@pytest.mark.long
def test_a_stop_after_every_client_changes_no_bit(tmp_path: Path) -> None:
    """Every kind of uplink goes through the session's files."""
    step = (lambda event: isinstance(event, ClientTrained), "stop", {})
    for name in ("fedlora", "fedgh", "fedproto", "fd", "fedl2g_f", "fml", "fedkd", "scaffold"):
        settings, folder = federations.config(name, rounds=2), tmp_path / name / "s"
        Session.create(settings, folder, tmp_path).run(Operator(folder, step))
        for _ in range(5):
            Session.resume(folder, tmp_path).run(Operator(folder, step))
        Session.resume(folder, tmp_path).run()
        assert federations.committed(folder) == alone(tmp_path / name, settings)
        assert checkpoints.verify(folder) == []


def test_a_stop_within_a_round_between_checkpoints_writes_the_one_before(tmp_path: Path) -> None:
    sparse = config(checkpoint={"every": 10})
    folder = tmp_path / "s"
    Session.create(sparse, folder, tmp_path).run(Operator(folder, (trained(4, 1), "stop", {})))
    assert checkpoints.SessionReader(folder).rounds() == [3]
    Session.resume(folder, tmp_path).run()
    assert federations.committed(folder) == alone(tmp_path, sparse)


@pytest.mark.long
def test_a_stop_of_a_paused_run_takes_hold(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    paused = (lambda event: event == StateChanged("paused", 1), "stop", {})
    operator = Operator(folder, (trained(2, 1), "pause", {}), paused)
    assert Session.create(config(), folder, tmp_path).run(operator).state == "stopped"
    Session.resume(folder, tmp_path).run()
    assert federations.committed(folder) == alone(tmp_path, config())


# Checkpoint


def test_a_checkpoint_within_a_round_keeps_it_and_its_finished_clients(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    folder = tmp_path / "s"
    sparse = config(checkpoint={"every": 10}, federation={"participation": 1.0})
    operator = Operator(folder, (trained(3, 2), "checkpoint", {}))

    def kill_late(event: Event) -> None:
        operator(event)
        if trained(3, 4)(event):
            raise Killed

    session = Session.create(sparse, folder, tmp_path)
    with pytest.raises(Killed):
        session.run(kill_late)
    session.close()
    assert operator.answers() == [("checkpoint", "applied", 2)]
    resumed: list[Event] = []
    Session.resume(folder, tmp_path).run(resumed.append)
    assert sum(isinstance(event, ClientTrained) and event.round == 3 for event in resumed) <= 2
    assert federations.committed(folder) == alone(tmp_path, sparse)


def test_a_checkpoint_asked_for_between_checkpoints_leaves_the_same_ledger(tmp_path: Path) -> None:
    sparse = config(checkpoint={"every": 10, "keep_last": 10})
    asked = iter([False] * 6 + [True])
    folder = tmp_path / "s"
    Session.create(sparse, folder, tmp_path).run(checkpoint=lambda: next(asked, False))
    assert len(checkpoints.SessionReader(folder).rounds()) == 2
    assert federations.committed(folder) == alone(tmp_path, sparse)


# Neither now nor ever


def test_what_was_asked_of_an_earlier_run_is_not_done_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    Session.create(config(), folder, tmp_path).run(Operator(folder, (finished(1), "stop", {})))
    stale = checkpoints.post(folder, "pause")
    assert Session.resume(folder, tmp_path).run() == RunOutcome("finished", 4)
    answer = checkpoints.answer(folder, stale.id)
    assert answer is not None
    assert (answer.outcome, answer.message) == ("refused", "the run it was meant for had ended")


# CKA on demand


def test_a_checkpoint_with_cka_measures_it_at_the_end_of_the_round(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    sparse = config(checkpoint={"every": 10, "keep_last": 9})
    operator = Operator(folder, (trained(2, 1), "checkpoint", {"cka": True}))
    Session.create(sparse, folder, tmp_path).run(operator)
    reader = checkpoints.SessionReader(folder)
    assert [record["cka"] is not None for record in reader.records()] == [False, True, False, False]
    assert 2 in reader.rounds()
    assert operator.answers() == [("checkpoint", "applied", 2)]


@pytest.mark.long
def test_a_damaged_note_of_an_unfinished_round_costs_its_clients_only(tmp_path: Path) -> None:
    begun, expected = tmp_path / "s", alone(tmp_path, config())
    Session.create(config(), begun, tmp_path).run(Operator(begun, (trained(2, 1), "stop", {})))
    partial = checkpoints.SessionReader(begun).unfinished_round()
    assert partial is not None
    clients, history = partial.note["clients"], partial.note["history"]
    for number, note in enumerate((
        {"history": {"clients": clients}},
        {"history": history, "clients": ["0"]},
        {"history": history, "clients": {"0": {}, "99": {}}},
    )):  # fmt: skip
        folder = Path(shutil.copytree(begun, tmp_path / str(number)))
        with checkpoints.Store.open(folder) as store:
            store.save_unfinished_round(partial.round, note, partial.states)
        Session.resume(folder, tmp_path).run()
        assert federations.committed(folder) == expected
        events = checkpoints.SessionReader(folder).events()
        warnings = [each["message"] for each in events if each["event"] == "warning"]
        assert any("trained again" in message for message in warnings)
