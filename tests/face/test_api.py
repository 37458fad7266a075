"""What Python offers of the commands: comparing, steering, studies step by step, sessions in their folder, lists."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import htfl_sim as hs
from checkpoints import SessionReader
from htfl_sim.configuring import check_keys
from simulator.base.errors import MethodError
from tests.face.conftest import ROUNDS, tiny
from tests.own import written

ONE: dict[str, Any] = {
    "federation.group": ["tiny_cnn"],
    "federation.clients": 4,
    "data.limit": 200,
    "rounds": 1,
}


@pytest.fixture
def home(done: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of sessions, which holds `done`; the working folder is another one."""
    (done.parent / "here").mkdir()
    monkeypatch.chdir(done.parent / "here")
    monkeypatch.setenv("HTFL_SESSIONS", str(done.parent))
    return done.parent


# Names


def test_a_bare_name_lies_in_the_folder_of_sessions_for_runs_and_studies_alike(home: Path) -> None:
    assert hs.run(tiny(), "nb", until=1).path == home / "nb"
    assert hs.open("done").round == hs.resume("done").round == ROUNDS
    assert hs.fork("done", "branch", at=2).path == home / "branch"
    Path("done").mkdir()
    with pytest.raises(hs.errors.SessionUnreadable, match="not a session"):
        hs.open("done")  # a name that is a folder here is that folder


# Several sessions


def test_sessions_are_compared_by_name_as_a_table_a_frame_and_html(home: Path) -> None:
    table = hs.compare("done", by="method")
    (row,) = table.rows
    frame = table.to_frame()
    assert (frame["method"].item(), frame["last"].item()) == ("fedlora", row.last and row.last.mean)
    assert f"<td>{100 * frame['last'].item():.2f}</td>" in table._repr_html_()
    hs.fork("done", "new", at=0)
    with pytest.warns(UserWarning, match="new has finished no round"):
        hs.compare(["done", "new"])


def test_a_figure_is_drawn_and_written(home: Path) -> None:
    figure = hs.plot("cka", "done", "cka.pdf")
    assert Path("cka.pdf").read_bytes().startswith(b"%PDF") and figure.axes
    with pytest.raises(hs.ConfigError, match="'x' changes nothing of 'box', which takes by, round"):
        hs.plot("box", "done", x="bytes")
    own, same = hs.open("done").plot(x="bytes"), hs.plot("accuracy", "done", x="bytes")
    assert own.axes[0].get_xlabel() == same.axes[0].get_xlabel()


# Sessions in their folder


def test_sessions_are_found_checked_shown_and_removed_as_by_the_commands(home: Path) -> None:
    assert [each.summary.name for each in hs.sessions.search(state="finished")] == ["done"]
    details = hs.sessions.details("done", round=2)
    assert [client.client for client in details.clients] == [0, 1, 2, 3]
    with pytest.raises(hs.errors.SessionUnreadable, match="has no record of round 9"):
        hs.sessions.details("done", round=9)
    (home / "done" / "ledger.jsonl").write_bytes(b"")
    assert "damage" in {finding.severity for finding in hs.sessions.verify("done")}
    with hs.run(tiny(), "nb", until=1), pytest.raises(hs.errors.Locked, match="is run by process"):
        hs.sessions.remove("nb")
    assert hs.sessions.remove("nb") == home / "nb" and not (home / "nb").exists()


# Runs of other processes


def test_a_run_is_paused_and_stopped_from_elsewhere(home: Path) -> None:
    run = hs.run(tiny(rounds=500), "nb", until=1)
    work = threading.Thread(target=run.run)
    work.start()
    try:
        assert hs.steering.pause("nb").outcome == "applied"
        assert SessionReader(home / "nb").state() == "paused"
        assert hs.steering.resume("nb").message
    finally:
        reply = hs.steering.stop("nb")
        work.join()
    assert (reply.session, reply.kind) == ("nb", "stop")
    assert 1 <= run.round < 500


def test_a_misspelled_argument_of_a_command_is_refused(home: Path) -> None:
    for command in (hs.steering.pause, hs.steering.resume, hs.steering.stop, hs.steering.checkpoint):
        with pytest.raises(TypeError, match="unexpected keyword argument 'timout'"):
            command("done", timout=5)
    with pytest.raises(hs.SessionError, match="nothing to pause: it finished with round 4"):
        hs.steering.pause("done")
    assert hs.steering.answer_to(home / "done", command="00000000000000000001-00000000") is None


@pytest.mark.long
def test_none_leaves_a_setting_of_a_fork_unset(home: Path) -> None:
    run = hs.fork("done", "weighted", at=2, training__class_weights="balanced").run()
    assert run.settings["training"]["class_weights"] == "balanced"
    fork = hs.fork("weighted", "plain", at=3, seed=None, training__class_weights=None).run()
    assert "class_weights" not in fork.settings["training"]


def test_a_switch_of_a_session_that_rests_waits_for_the_next_resume(home: Path) -> None:
    hs.resume("done").extend(ROUNDS + 2)
    reply = hs.steering.switch("done", training__lr=0.005)
    assert reply.outcome == "waiting" and "next" in reply.message
    assert hs.resume("done").run().settings["training"]["lr"] == 0.005


@pytest.mark.long
def test_keys_of_a_method_are_those_of_the_switch_before_them_though_no_checkpoint_has_it(home: Path) -> None:
    hs.resume("done").extend(ROUNDS + 2)
    hs.steering.switch("done", "fedavg")
    with pytest.raises(hs.ConfigError, match=r"'method\.lam' is an option of .*, not of fedavg"):
        hs.steering.switch("done", method__lam=0.5)
    hs.steering.switch("done", "fedproto")
    assert hs.steering.switch("done", method__lam=0.5).outcome == "waiting"
    hs.resume("done").run().close()
    assert SessionReader(home / "done").rounds() == [ROUNDS + 2]
    check_keys(home / "done", None, ["method.lam=1"], ROUNDS + 1)


def test_a_table_of_a_switch_is_read_with_the_sessions_settings_and_not_with_the_defaults(home: Path) -> None:
    some = tiny(clients=12, data__split="global")  # by default, there are 10
    hs.run(some, "some", until=1).close()
    assert hs.steering.switch("some", evaluation={"clients": 11}).outcome == "waiting"
    with pytest.raises(hs.ConfigError, match=r"unknown key 'evaluation\.client'"):
        hs.steering.switch("some", evaluation={"client": 11})


# Studies


@pytest.fixture
def study_file(home: Path) -> Iterator[Path]:
    lines = [f"{key} = {json.dumps(value)}" for key, value in ONE.items()]
    text = "\n".join(["preset = 'quickstart'", "[config]", *lines, "[over]", "seed = [0, 1]"])
    file = written(Path(), "small.toml", text)
    yield file


@pytest.mark.long
def test_a_study_file_makes_the_study_of_its_name_which_is_exported_in_one_call(
    study_file: Path, home: Path
) -> None:
    study = hs.sweep("small.toml")
    assert (study.path, study.points) == (home / "small", ["s0", "s1"])
    assert [(each.name, each.state) for each in study.status] == [("s0", "finished"), ("s1", "finished")]
    assert hs.sweep("small").points == study.points
    assert hs.studies.plan("again", study_file).folder == home / "again"
    assert study.export("out") == {"s0": 1, "s1": 1}
    assert [path.name for path in sorted(Path("out").iterdir())] == ["s0.csv", "s1.csv"]


def test_a_study_that_nobody_asked_for_is_said(home: Path) -> None:
    with pytest.raises(hs.errors.SessionUnreadable, match="There is no study 'nothing'"):
        hs.sweep("nothing")


# What there is


def test_the_lists_name_what_there_is(home: Path) -> None:
    assert "fedlora_htm5" in [each.name for each in hs.catalog.presets(method="fedlora")]
    assert "fedgh" in [each.name for each in hs.catalog.methods()]
    assert [each.name for each in hs.catalog.models("tiny")] == list(hs.catalog.model_groups("tiny")["tiny"])
    assert hs.catalog.dataset("digits").here
    (lr,) = hs.catalog.settings("training.lr")
    assert lr.key == "training.lr" and lr.description
    assert not hs.catalog.fetch_missing("digits")
    assert hs.catalog.check_dataset("digits").name == "digits"
    found = {check.what: check.status for check in hs.machine.doctor()}
    assert found["python"] == found["sessions folder"] == "ok"
    fedproto = hs.catalog.method("fedproto")
    assert (fedproto.name, fedproto.title) == ("fedproto", "FedProto")
    assert fedproto.needs and fedproto.down and fedproto.up and fedproto.kind and fedproto.paper
    assert fedproto.ranges.keys() == fedproto.space.keys() >= {"training.lr", "method.lam"}


def test_a_method_that_breaks_a_promise_is_refused_with_their_number() -> None:
    kept, broken = hs.catalog.Promise("one", True, None), hs.catalog.Promise("two", False, "so")
    hs.catalog.refuse_broken("m", [kept])
    with pytest.raises(MethodError, match="'m' breaks 1 of 3 promises"):
        hs.catalog.refuse_broken("m", [kept, broken, kept])


def test_an_error_of_the_system_without_a_path_is_not_called_the_users() -> None:
    assert hs.errors.fault_of_others(OSError("no path")) is None
    missing = FileNotFoundError(2, "No such file or directory", "x.csv")
    assert "x.csv" in str(hs.errors.fault_of_others(missing))
