"""Looking at sessions and after them: `sessions`, `show`, `verify`, `prune`."""

import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from checkpoints import SessionReader, size_on_disk
from tests.analysis.runs import clocked
from tests.cli.conftest import TINY, Cli
from tests.cli.test_bad_input import flip, rewrite
from tui.cli.session_page import _simulated


def test_sessions_lists_what_each_came_to(cli: Cli, done: Path) -> None:
    (listed,) = cli("sessions", "--size", "--json").json()
    last = SessionReader(done).records()[-1]["accuracy"]
    expected = {
        "name": "done",
        "method": "fedlora",
        "dataset": "digits",
        "round": 3,
        "rounds": 3,
        "state": "finished",
    }
    assert expected.items() <= listed.items()
    assert (listed["accuracy"], listed["best"]) == (last["mean"], last["best_mean"])
    means = [record["accuracy"]["mean"] for record in SessionReader(done).records()]
    assert listed["best_round"] == 1 + means.index(max(means))
    assert f"{100 * max(means):.1f} % (r{listed['best_round']})" in cli("sessions").out
    assert listed["bytes"] == sum(path.stat().st_size for path in done.rglob("*") if path.is_file())


def test_in_a_pipe_the_table_is_one_unbroken_line_per_session(cli: Cli, done: Path) -> None:
    shutil.copytree(done, done.parent / ("long-" * 19 + "name"))
    header, *rows = cli("sessions").out.splitlines()
    assert header.split() == [
        "name",
        "method",
        "data",
        "round",
        "accuracy",
        "best",
        "state",
        "created",
    ]
    assert {row.split()[0] for row in rows} == {"done", "long-" * 19 + "name"}
    assert all(row.split()[3] == "3/3" for row in rows)


@pytest.mark.parametrize("file", ["session.json", "ledger.jsonl", "manifests/000003.json"])
def test_a_damaged_session_is_listed_as_damaged_beside_the_others(cli: Cli, done: Path, file: str) -> None:
    flip(Path(shutil.copytree(done, done.parent / "hurt")) / file)
    states = {each["name"]: each for each in cli("sessions", "--json").json()}
    assert states["done"]["state"] == "finished" and states["done"]["error"] is None
    table = cli("sessions")
    assert table.code == 0
    if states["hurt"]["state"] == "damaged":
        assert Path(file).name in states["hurt"]["error"] and "hurt is damaged: " in table.err
    else:  # the others make up for it; `verify` still finds it
        assert file != "session.json" and states["hurt"]["accuracy"] == states["done"]["accuracy"]
        assert cli("verify", "hurt").code == 4


def test_a_session_without_its_session_file_is_listed_as_damaged(cli: Cli, done: Path) -> None:
    (done / "session.json").unlink()
    (listed,) = cli("sessions", "--json").json()
    assert (listed["name"], listed["state"]) == ("done", "damaged")


def forked(cli: Cli, parent: str, round: int, name: str, *options: str) -> None:
    result = cli("fork", parent, "--at-round", round, "--session", name, *options)
    assert result.code == 0, result.err


def test_forks_stand_under_the_session_they_were_forked_from(cli: Cli, done: Path) -> None:
    assert cli("run", *TINY, "--rounds=1", "--session=other").code == 0
    forked(cli, "done", 2, "child", "--method=fedssa")
    forked(cli, "child", 2, "grandchild")
    forked(cli, "done", 1, "second")
    assert [line[:16].rstrip() for line in cli("sessions").out.splitlines()[1:]] == [
        "done",
        "├─ child",
        "│  └─ grandchild",
        "└─ second",
        "other",
    ]
    listed = {each["name"]: each for each in cli("sessions", "--json").json()}
    assert listed["done"]["parent"] is None
    assert listed["child"]["parent"] == {"id": listed["done"]["id"], "name": "done", "round": 2}
    assert listed["child"]["history"] == [
        {"from_round": 1, "method": "fedlora"},
        {"from_round": 3, "method": "fedssa"},
    ]
    assert any("fedlora→fedssa@3" in line and "done@2" in line for line in cli("sessions").out.splitlines())


def test_a_fork_whose_parent_is_gone_is_listed_and_says_so(cli: Cli, done: Path) -> None:
    forked(cli, "done", 3, "child", "--rounds=5")
    shutil.rmtree(done)
    _, row = cli("sessions").out.splitlines()
    assert row.startswith("child ") and row.endswith("done@3 (gone)")
    assert row.split()[3] == "3/5"


def test_sessions_that_claim_to_descend_from_one_another_are_listed_all_the_same(
    cli: Cli, done: Path
) -> None:
    twin = Path(shutil.copytree(done, done.parent / "twin"))
    rewrite(done, id="a", parent={"id": "b", "name": "twin", "round": 1})
    rewrite(twin, id="b", parent={"id": "a", "name": "done", "round": 1})
    assert {each["name"] for each in cli("sessions", "--json").json()} == {"done", "twin"}


def test_a_listing_reads_the_last_line_of_a_ledger_however_long_it_is(
    cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cli("sessions", "--json").json()
    monkeypatch.setattr("checkpoints.reader.TAIL", 5)
    assert cli("sessions", "--json").json() == whole


def test_a_torn_last_line_is_made_up_for_by_the_checkpoint(cli: Cli, done: Path) -> None:
    ledger = (done / "ledger.jsonl").read_bytes()
    (done / "ledger.jsonl").write_bytes(ledger[:-40])
    (listed,) = cli("sessions", "--json").json()
    assert listed["round"] == 3


def test_show_tells_parent_and_forks(cli: Cli, done: Path) -> None:
    forked(cli, "done", 2, "child", "--method=fedssa")
    assert "child at round 2" in cli("show", "done").out
    assert cli("show", "done", "--json").json()["children"] == [{"name": "child", "round": 2}]
    page = cli("show", "child")
    assert "done at round 2" in page.out and "fedlora → fedssa" in page.out
    (switch,) = cli("show", "child", "--json").json()["switches"]
    assert (switch["from_round"], switch["method"], switch["before"]) == (3, "fedssa", "fedlora")


def test_show_compares_the_rounds_before_and_after_a_fork_with_its_parents(cli: Cli, done: Path) -> None:
    forked(cli, "done", 2, "child", "--method=fedssa")
    assert cli("resume", "child").code == 0
    page = cli("show", "child").out
    assert "Fork of done after round 2: method fedlora → fedssa" in page
    assert "after − done" in page and "So compare with its rounds 3." in page
    (effect,) = cli("show", "child", "--json").json()["effects"]
    means = [record["accuracy"]["mean"] for record in SessionReader(done).records()]
    assert effect["before"]["accuracy"] == pytest.approx(sum(means[:2]) / 2)
    assert effect["beside"]["accuracy"] == pytest.approx(means[2])


def test_no_sessions_is_no_error_and_says_how_to_begin(cli: Cli) -> None:
    assert cli("sessions", "--json").json() == []
    assert "htfl-sim run" in cli("sessions").err


def test_show_tells_settings_curve_clients_traffic_and_events(cli: Cli, done: Path) -> None:
    page = cli("show", "done")
    last = SessionReader(done).records()[-1]
    assert page.code == 0
    for said in (
        "finished, round 3 of 3",
        "fedlora",
        "mu=0.9",
        "group=tiny",
        "round 1, 2, 3",
        "Clients after round 3",
    ):
        assert said in page.out
    for client, model in enumerate(["tiny_cnn", "tiny_mlp", "tiny_cnn", "tiny_mlp"]):
        accuracy = f"{100 * last['accuracy']['per_client'][client]:.1f}"
        assert any(line.split()[:4] == [str(client), model, accuracy, "%"] for line in page.out.splitlines())


def test_the_mean_age_of_uplinks_is_over_those_that_were_used() -> None:
    run = clocked("s", [(10.0, 0.5)])
    run.records[0]["time"]["staleness"] = {"0": 3, "2": 1}  # one of four waited two rounds
    assert dict(_simulated(SimpleNamespace(run=run)))["mean age"] == "0.50 rounds"  # type: ignore[arg-type]


def test_show_tells_a_target_and_the_traffic_until_it(cli: Cli, done: Path) -> None:
    """Without a target of its own, that is the highest multiple of 5 % that the session reached."""
    records = SessionReader(done).records()
    target = math.floor(20 * max(record["accuracy"]["mean"] for record in records)) / 20
    first = next(record for record in records if record["accuracy"]["mean"] >= target)
    found = cli("show", "done", "--json").json()["target"]
    assert found["accuracy"] == pytest.approx(target) and found["reached"]["round"] == first["round"]
    assert found["reached"]["bytes"] == first["bytes"]["up_total"] + first["bytes"]["down_total"]
    [line] = [line for line in cli("show", "done").out.splitlines() if line.startswith("reached ")]
    assert f"{100 * target:.1f} % in round {first['round']}, after " in line
    row = cli("compare", "done", "--target", f"{target:.2f}", "--json").json()["rows"][0]
    assert row["bytes"]["mean"] == found["reached"]["bytes"]


def test_show_of_a_round_gives_that_rounds_record(cli: Cli, done: Path) -> None:
    page = cli("show", "done", "--round=2", "--json").json()
    records = SessionReader(done).records()
    assert page["record"] == records[1]
    assert page["curve"] == [record["accuracy"]["mean"] for record in records]
    assert page["checkpoints"] == [1, 2, 3]
    assert [client["up"] for client in page["clients"]] == records[1]["bytes"]["per_client_up"]


def test_show_of_a_round_that_never_was_says_which_were(cli: Cli, done: Path) -> None:
    result = cli("show", "done", "--round=4")
    assert result.code == 4 and "rounds 1 to 3" in result.err


def test_what_a_session_says_cannot_steer_the_terminal(cli: Cli, done: Path) -> None:
    config = SessionReader(done).document["config"]
    rewrite(done, config=config | {"preset": "\x1b[2Jcleared [bold]loud[/bold]"})
    page = cli("show", "done").out
    assert "\x1b" not in page and "[bold]loud[/bold]" in page


def test_verify_calls_a_sound_session_sound(cli: Cli, done: Path) -> None:
    assert cli("verify", "done").out.endswith("sound, every byte as it was written.\n")
    assert cli("verify", "done", "--json").json() == {"path": str(done), "sound": True, "findings": []}


def test_verify_names_the_damaged_file_and_exits_with_4(cli: Cli, done: Path) -> None:
    ref = SessionReader(done).manifest().states["server"]
    flip(done / ref.name)
    result = cli("verify", "done")
    assert result.code == 4 and ref.name in result.out and "server" in result.out
    findings = cli("verify", "done", "--json").json()["findings"]
    assert [(each["path"], each["severity"]) for each in findings] == [(ref.name, "damage")]


def test_prune_removes_what_the_dry_run_said(cli: Cli, done: Path) -> None:
    options = ["prune", "done", "--keep-last=1", "--no-keep-best", "--json"]
    before = size_on_disk(done / "objects")
    planned = cli(*options, "--dry-run").json()
    assert planned["rounds"] == [1, 2] and size_on_disk(done / "objects") == before

    pruned = cli(*options).json()
    assert (pruned["rounds"], pruned["bytes"]) == (planned["rounds"], planned["bytes"])
    assert size_on_disk(done / "objects") == before - planned["bytes"]
    assert SessionReader(done).rounds() == [3] and len(SessionReader(done).records()) == 3
    assert cli("verify", "done").code == 0


def test_prune_keeps_every_nth_round_and_says_what_it_did(cli: Cli, done: Path) -> None:
    result = cli("prune", "done", "--keep-last=1", "--keep-every=2", "--no-keep-best")
    assert "checkpoints removed: 1;" in result.out
    assert SessionReader(done).rounds() == [2, 3]


def test_show_says_what_a_session_does_as_before_a_setting_existed(cli: Cli, done: Path) -> None:
    assert "as before" not in cli("show", "done").out
    config = SessionReader(done).document["config"]
    older = config | {"cka": {key: value for key, value in config["cka"].items() if key != "untrained"}}
    rewrite(done, config=older)
    assert re.search(r"^as before +cka\.untrained=true$", cli("show", "done").out, re.M)
