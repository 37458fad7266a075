"""pause, resume, stop, checkpoint, switch and fork: what they say, what they leave behind, how they exit."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import checkpoints
from checkpoints import Command, SessionReader, SessionUnreadable, Store
from htfl_sim import steering
from tests.cli.conftest import Cli, assert_refused

pytestmark = pytest.mark.filterwarnings("error")


@contextmanager
def owned(
    session: Path, state: str = "running", act: Callable[[Store, Command], None] | None = None
) -> Iterator[None]:
    """A session that somebody owns, here; `act` is what the owner does with each command."""
    over = threading.Event()
    with Store.open(session) as store:

        def serve() -> None:
            with suppress(SessionUnreadable):  # it has been closed: the owner has ended
                while not over.wait(0.01):
                    for command in store.commands() if act else ():
                        act(store, command)

        store.heartbeat(state, round=4, rounds=9, phase="train", done=3, clients=10)
        owner = threading.Thread(target=serve)
        owner.start()
        try:
            yield
        finally:
            over.set()
            owner.join()


def apply(store: Store, command: Command) -> None:
    store.answer(command, "applied", "it is done", 3)


def refuse(store: Store, command: Command) -> None:
    store.answer(command, "refused", "it cannot be done")


def inbox(session: Path) -> list[str]:
    return [command.kind for command in checkpoints.pending(session)]


# A live session


def test_a_command_is_answered_by_the_owner(cli: Cli, done: Path) -> None:
    with owned(done, act=apply):
        for kind in ("pause", "checkpoint"):
            answer = cli(kind, "done", "--json").json()
            assert (answer["session"], answer["kind"], answer["outcome"]) == ("done", kind, "applied")
            assert (answer["message"], answer["round"]) == ("it is done", 3)


def test_a_stop_waits_until_the_session_can_be_resumed(cli: Cli, done: Path) -> None:
    def end(store: Store, command: Command) -> None:
        apply(store, command)
        threading.Timer(0.3, store.close).start()

    with owned(done, act=end):
        assert cli("stop", "done").code == 0
        assert not SessionReader(done).alive()


def test_what_the_owner_refuses_is_bad_usage_with_its_reason(cli: Cli, done: Path) -> None:
    with owned(done, act=refuse):
        for line in ("pause done", "stop done", "checkpoint done", "switch done fedssa"):
            fault = f"refused the {line.split()[0]}", "it cannot be done"
            assert_refused(cli(*line.split()), 2, *fault)


def test_without_waiting_the_command_is_only_left_in_the_mailbox(cli: Cli, done: Path) -> None:
    with owned(done):
        result = cli("pause", "done", "--no-wait", "--json")
        assert inbox(done) == ["pause"]
    assert result.code == 0 and result.json()["outcome"] == "waiting"


@pytest.mark.long
def test_an_owner_too_busy_to_answer_is_named_and_its_heartbeat_moves(cli: Cli, done: Path) -> None:
    with owned(done):
        result = cli("pause", "done", "--timeout", 0.6)
    owner = SessionReader(done).owner() or {}
    where = (f"process {owner['pid']} on {owner['host']}", "still moves", "round 4, 3 of 10 clients")
    assert_refused(result, 4, "no process answered", *where)


def test_a_silent_owner_is_not_waited_for(cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steering, "SILENT_SECONDS", 0.2)  # less than a beat
    with owned(done):
        result = cli("pause", "done")
    assert_refused(result, 4, "stands still", "stays in the mailbox", "--steal")


def test_an_owner_that_ends_without_an_answer_is_not_waited_for(cli: Cli, done: Path) -> None:
    with owned(done, act=lambda store, command: store.close("finished")):
        assert_refused(cli("pause", "done"), 4, "it finished with round 3")


def test_a_switch_of_a_session_that_ends_first_waits_for_the_next_resume(cli: Cli, done: Path) -> None:
    with owned(done, act=lambda store, command: store.close("stopped")):
        result = cli("switch", "done", "fedssa")
    assert result.code == 0 and "at the next `htfl-sim resume done`" in result.err
    assert inbox(done) == ["switch"]


def test_a_switch_tells_when_it_happened_and_when_it_is_kept(cli: Cli, done: Path) -> None:
    def switch(store: Store, command: Command) -> None:
        store.event("switched", round=3, command=command.id, changes=["a 1 → 2"], adopted="takes over head")
        store.answer(command, "applied", "in force since round 4", 4)

    with owned(done, act=switch):
        said = cli("switch", "done", "fedlora", "--set=training.lr=0.5").err
    assert "switched after round 3: a 1 → 2; takes over head" in said
    assert "in force since round 4" in said


def test_a_switch_while_paused_is_not_awaited(cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("htfl_sim.steering.UNREFUSED_SECONDS", 0.1)
    with owned(done, "paused"):
        result = cli("switch", "done", "fedssa")
    assert result.code == 0 and "once the session is resumed" in result.err


def test_resuming_a_paused_session_lets_it_go_on_without_other_options(cli: Cli, done: Path) -> None:
    with owned(done, "paused", apply):
        other = cli("resume", "done", "--workers=2", "--rounds=9")
        assert_refused(other, 2, "only paused", "--rounds, --workers")
        result = cli("resume", "done")
    assert result.code == 0 and "done: resumed; it is done" in result.err


# A session that nobody runs


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("finished", ["it finished with round 3", "sessions/done --rounds 13`"]),
        ("stopped", ["it was stopped after round 3", "sessions/done`"]),
        ("interrupted", ["its run was interrupted after round 3", "sessions/done`"]),
    ],
)
def test_nobody_to_steer_is_said_with_what_to_do(cli: Cli, done: Path, state: str, said: list[str]) -> None:
    if state == "stopped":
        Store.open(done).close("stopped")
    elif state == "interrupted":
        (done / "owner.json").unlink()
    for command in ("pause", "stop", "checkpoint"):
        assert_refused(cli(command, "done"), 4, "no process runs", *said)
    assert inbox(done) == []


def test_a_switch_of_a_stopped_session_is_shown_and_takes_hold_at_the_resume(cli: Cli, done: Path) -> None:
    switched = cli("switch", "done", "fedssa", "--set=rounds=5")
    assert switched.code == 0 and "rounds 3 → 5" in switched.err
    assert "fedssa rounds=5" in cli("show", "done").out
    (waiting,) = cli("show", "done", "--json").json()["pending"]
    assert waiting["arguments"] == {"method": "fedssa", "set": ["rounds=5"]}
    assert_refused(cli("switch", "done", "fedssa"), 2, "nothing would change")
    assert "mu_0 0.5 → 0.3" in cli("switch", "done", "fedssa", "--set=method.mu_0=0.3").err

    resumed = cli("resume", "done")
    assert resumed.code == 0 and "applies now: fedssa rounds=5" in resumed.err
    assert "from round 4 on: fedlora → fedssa" in resumed.err
    assert [record["method"] for record in SessionReader(done).records()] == ["fedlora"] * 3 + ["fedssa"] * 2
    page = cli("show", "done", "--json").json()
    assert page["settings"]["method"]["name"] == "fedssa" != page["config"]["method"]["name"]
    assert page["pending"] == []


def test_a_resume_tells_of_a_switch_it_refuses(cli: Cli, done: Path) -> None:
    checkpoints.post(done, "switch", {"method": "heteroavg", "set": ["rounds=9"]})
    said = cli("resume", "done").err
    assert "the switch to heteroavg rounds=9" in said and "is refused" in said and "is finished" in said


def test_a_finished_session_is_extended(cli: Cli, done: Path) -> None:
    assert cli("resume", "done", "--rounds=5").code == 0
    assert len(SessionReader(done).records()) == 5
    (listed,) = cli("sessions", "--json").json()
    assert (listed["round"], listed["rounds"], listed["state"]) == (5, 5, "finished")
    again = cli("resume", "done", "--rounds=5")
    assert again.code == 0 and "is finished" in again.err and inbox(done) == []


# Forks


def test_a_fork_tells_what_was_run_again_what_changed_and_what_to_type(cli: Cli, done: Path) -> None:
    assert cli("prune", "done", "--keep-last=1", "--no-keep-best").code == 0
    result = cli("fork", "done", "--at-round=2", "--session=new", "--method=fedssa", "--json")
    assert result.code == 0, result.err
    assert "2 rounds were run again, with the parent's very results" in result.err
    assert "htfl-sim resume new" in result.err
    made = result.json()
    assert (made["parent"], made["round"], made["replayed"]) == ("done", 2, 2)
    assert made["changes"] == ["method fedlora → fedssa"] and made["adopted"]


def test_a_fork_goes_on_at_once_when_asked_to(cli: Cli, done: Path, sessions: Path) -> None:
    result = cli("fork", "done", "--at-round=2", "--session=new", "--rounds=4", "--run", "--json")
    assert result.code == 0 and result.out.count("\n") == 2
    assert [record["round"] for record in SessionReader(sessions / "new").records()] == [1, 2, 3, 4]


# For a later round


def test_a_switch_for_a_later_round_is_waited_for_until_it_is_accepted(cli: Cli, done: Path) -> None:
    def accept(store: Store, command: Command) -> None:
        store.event("scheduled", at_round=command.arguments["at_round"], command=command.id)

    with owned(done, act=accept):
        result = cli("switch", "done", "fedssa", "--at-round=7")
    assert result.code == 0
    assert "switch requested; applies after round 7" in result.err
    shown = cli("show", "done").out
    assert "fedssa after round 7" in shown


@pytest.mark.long
def test_a_switch_of_a_stopped_session_for_a_later_round_waits_in_the_mailbox(cli: Cli, done: Path) -> None:
    assert cli("switch", "done", "fedlora", "--set=rounds=9").code == 0
    result = cli("switch", "done", "fedssa", "--at-round=5")
    assert result.code == 0 and "applies at the next `htfl-sim resume done`, after round 5" in result.err
    assert "waits for its round: fedssa after round 5" in cli("resume", "done").err
    history = SessionReader(done).manifest().history
    assert [(entry["from_round"], entry["method"]["name"]) for entry in history][-1] == (6, "fedssa")
