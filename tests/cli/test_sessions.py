"""Looking at sessions and after them: `sessions`, `show`, `verify`, `prune`."""

import csv
import io
import math
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import checkpoints
from checkpoints import SessionReader, size_on_disk
from tests.analysis.runs import clocked
from tests.cli.conftest import TINY, Cli, call, flip, rewrite
from tui.cli.session_page import _simulated


def test_sessions_lists_what_each_came_to(cli: Cli, done: Path) -> None:
    (listed,) = cli("sessions", "--size", "--json").json()
    last = SessionReader(done).records()[-1]["accuracy"]
    assert (listed["name"], listed["method"], listed["dataset"]) == ("done", "fedlora", "digits")
    assert (listed["round"], listed["rounds"], listed["state"]) == (3, 3, "finished")
    assert (listed["accuracy"], listed["best"]) == (last["mean"], last["best_mean"])
    means = [record["accuracy"]["mean"] for record in SessionReader(done).records()]
    assert listed["best_round"] == 1 + means.index(max(means))
    assert f"{100 * max(means):.1f} % (r{listed['best_round']})" in cli("sessions").out
    assert listed["bytes"] == sum(path.stat().st_size for path in done.rglob("*") if path.is_file())


def test_in_a_pipe_the_table_is_one_unbroken_line_per_session(cli: Cli, done: Path) -> None:
    shutil.copytree(done, done.parent / ("long-" * 19 + "name"))
    header, *rows = cli("sessions").out.splitlines()
    assert header.split() == ["name", "method", "data", "round", "accuracy", "best", "state", "created"]
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


def forked(cli: Cli, parent: str, round: int, name: str, *options: str) -> None:
    result = cli("fork", parent, "--at-round", round, "--session", name, *options)
    assert result.code == 0, result.err


def test_forks_stand_under_the_session_they_were_forked_from(cli: Cli, done: Path) -> None:
    assert cli("run", *TINY, "--rounds=1", "--session=other").code == 0
    forked(cli, "done", 2, "child", "--method=fedssa")
    forked(cli, "child", 2, "grandchild")
    forked(cli, "done", 1, "second")
    tree = ["done", "├─ child", "│  └─ grandchild", "└─ second", "other"]
    assert [line[:16].rstrip() for line in cli("sessions").out.splitlines()[1:]] == tree
    listed = {each["name"]: each for each in cli("sessions", "--json").json()}
    assert listed["done"]["parent"] is None
    assert listed["child"]["parent"] == {"id": listed["done"]["id"], "name": "done", "round": 2}
    switched = [{"from_round": 1, "method": "fedlora"}, {"from_round": 3, "method": "fedssa"}]
    assert listed["child"]["history"] == switched
    assert any("fedlora→fedssa@3" in line and "done@2" in line for line in cli("sessions").out.splitlines())
    shutil.rmtree(done)
    (row,) = (line for line in cli("sessions").out.splitlines() if "second " in line)
    assert row.endswith("done@1 (gone)") and row.split()[3] == "1/3"


def test_sessions_that_descend_from_one_another_are_listed(cli: Cli, done: Path) -> None:
    twin = Path(shutil.copytree(done, done.parent / "twin"))
    rewrite(done, id="a", parent={"id": "b", "name": "twin", "round": 1})
    rewrite(twin, id="b", parent={"id": "a", "name": "done", "round": 1})
    assert {each["name"] for each in cli("sessions", "--json").json()} == {"done", "twin"}


def test_a_listing_reads_long_last_lines(cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cli("sessions", "--json").json()
    monkeypatch.setattr("checkpoints.reader.TAIL", 5)
    assert cli("sessions", "--json").json() == whole
    (done / "ledger.jsonl").write_bytes((done / "ledger.jsonl").read_bytes()[:-40])
    assert cli("sessions", "--json").json()[0]["round"] == 3  # the checkpoint makes up for a torn line


def test_show_tells_parent_and_forks_and_compares_the_rounds_before_and_after(cli: Cli, done: Path) -> None:
    forked(cli, "done", 2, "child", "--method=fedssa")
    assert "child at round 2" in cli("show", "done").out
    assert cli("show", "done", "--json").json()["children"] == [{"name": "child", "round": 2}]
    assert cli("resume", "child").code == 0
    page = cli("show", "child").out
    assert "done at round 2" in page and "fedlora → fedssa" in page
    assert "Fork of done after round 2: method fedlora → fedssa" in page
    assert "after − done" in page and "So compare with its rounds 3." in page
    found = cli("show", "child", "--json").json()
    (switch,), (effect,) = found["switches"], found["effects"]
    assert (switch["from_round"], switch["method"], switch["before"]) == (3, "fedssa", "fedlora")
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
    for said in ("finished, round 3 of 3", "fedlora", "mu=0.9", "group=tiny", "round 1, 2, 3"):
        assert said in page.out
    assert "Clients after round 3" in page.out
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


def test_verify_calls_a_sound_session_sound_and_names_a_damaged_file(cli: Cli, done: Path) -> None:
    assert cli("verify", "done").out.endswith("sound, every byte as it was written.\n")
    assert cli("verify", "done", "--json").json() == {"path": str(done), "sound": True, "findings": []}
    ref = SessionReader(done).manifest().states["server"]
    flip(done / ref.name)
    result = cli("verify", "done")
    assert result.code == 4 and ref.name in result.out and "server" in result.out
    findings = cli("verify", "done", "--json").json()["findings"]
    assert [(each["path"], each["severity"]) for each in findings] == [(ref.name, "damage")]


def test_prune_removes_what_the_dry_run_said(cli: Cli, done: Path) -> None:
    options = ["prune", "done", "--keep-last=1", "--no-keep-best"]
    before = size_on_disk(done / "objects")
    planned = cli(*options, "--json", "--dry-run").json()
    assert planned["rounds"] == [1, 2] and size_on_disk(done / "objects") == before
    assert "checkpoints removed: 1;" in cli(*options, "--keep-every=2").out
    assert SessionReader(done).rounds() == [2, 3]

    pruned = cli(*options, "--json").json()
    assert pruned["rounds"] == [2]
    assert size_on_disk(done / "objects") == before - planned["bytes"]
    assert SessionReader(done).rounds() == [3] and len(SessionReader(done).records()) == 3
    assert cli("verify", "done").code == 0


def test_show_says_what_a_session_does_as_before_and_steers_no_terminal(cli: Cli, done: Path) -> None:
    assert "as before" not in cli("show", "done").out
    config = SessionReader(done).document["config"] | {"preset": "\x1b[2Jcleared [bold]loud[/bold]"}
    older = config | {"cka": {key: value for key, value in config["cka"].items() if key != "untrained"}}
    rewrite(done, config=older)
    page = cli("show", "done").out
    assert re.search(r"^as before +cka\.untrained=true$", page, re.M)
    assert "\x1b" not in page and "[bold]loud[/bold]" in page


# `htfl-sim why`: the findings on a client, as a page and as JSON


def test_it_explains_a_client_after_a_round(cli: Cli, done: Path) -> None:
    page = cli("why", "done", "--client", "1", "--round", "2")
    assert page.code == 0
    found = cli("why", "done", "--client", "1", "--round", "2", "--json").json()
    record = cli("show", "done", "--round", "2", "--json").json()["record"]
    rows = record["evaluation"]["test"]["classes"]["per_client"][1]
    tested, correct = (sum(row[column] for row in rows) for column in (1, 2))
    first = found["findings"][0]
    assert first["facts"]["accuracy"] == record["accuracy"]["per_client"][1] == correct / tested
    assert f"({correct} of {tested} test samples)" in first["text"]
    assert f"{first['facts']['parameters']:,} parameters" in first["text"]
    assert first["text"] in " ".join(page.out.split())
    assert {row["label"]: (row["samples"], row["correct"]) for row in found["classes"]} == {
        label: (samples, correct) for label, samples, correct, _ in rows
    }
    assert "Classes" in page.out and "`--method standalone`" in " ".join(page.out.split())


def test_the_gain_is_over_a_session_of_standalone_in_the_folder(cli: Cli, sessions: Path) -> None:
    for method in ("standalone", "lg_fedavg"):
        cli("run", f"--method={method}", "--session", method, "--rounds=1", *TINY)
    found = cli("why", "lg_fedavg", "--client=0", "--json").json()
    [gain] = [each["facts"] for each in found["findings"] if each["topic"] == "baseline"]
    own, alone = (
        cli("show", name, "--json").json()["record"]["accuracy"]["per_client"][0]
        for name in ("lg_fedavg", "standalone")
    )
    assert gain == {
        "session": "standalone", "method": "standalone", "round": 1, "gain": own - alone, "accuracy": alone,
        "significant": False,
    }  # fmt: skip
    alone = cli("why", "standalone", "--client=0", "--json").json()
    assert not [each for each in alone["findings"] if each["topic"] == "baseline"]
    assert not [each for each in alone["missing"] if "gain" in each]


def test_the_confusion_matrix_is_printed_and_adds_up_to_the_ledger(cli: Cli, done: Path) -> None:
    page = cli("why", "done", "--client", "1", "--round", "3", "--confusion")
    assert page.code == 0 and "Confusion matrix" in page.out
    matrix = cli("why", "done", "--client", "1", "--round", "3", "--confusion", "--json").json()["confusion"]
    record = cli("show", "done", "--round", "3", "--json").json()["record"]
    for label, samples, correct, answered in record["evaluation"]["test"]["classes"]["per_client"][1]:
        row, column = matrix["counts"][label], [row[label] for row in matrix["counts"]]
        assert (sum(row), row[label], sum(column)) == (samples, correct, answered)
    assert f"answers {sum(row[i] for i, row in enumerate(matrix['counts']))} of" in page.out


# `htfl-sim checkpoint --cka` of a session that nobody runs


def test_cka_of_a_kept_round_is_measured_with_every_layers_matrix(cli: Cli, done: Path) -> None:
    before = sorted(path.name for path in done.rglob("*"))
    result = cli("checkpoint", "done", "--cka")
    assert result.code == 0 and "CKA between clients of done after round 3" in result.out
    assert "mean over pairs" in result.out
    assert sorted(path.name for path in done.rglob("*")) == before
    kept = checkpoints.SessionReader(done).rounds()[0]
    measured = cli("checkpoint", "done", "--cka", "--round", str(kept), "--json").json()
    assert measured["round"] == kept
    assert measured["order"] == list(dict.fromkeys(measured["order"]))
    assert set(measured["order"]) == set(measured["layers"]) == set(measured["matrix"])
    for name, matrix in measured["matrix"].items():
        assert {row[i] for i, row in enumerate(matrix)} <= {1.0, None}, name
        assert len(matrix) == 4
    assert [row[i] for i, row in enumerate(measured["matrix"][measured["order"][-1]])] == [1.0] * 4


# Unseen clients in `show`, `compare`, and `export`


@pytest.fixture(scope="module")
def _unseen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unseen") / "sessions"
    for seed in (0, 1):
        given = ("--rounds=3", "--set=federation.unseen=0.5", "--set=unseen.every=2", f"--seed={seed}")
        where = (f"--session=s{seed}", "--sessions-dir", folder)
        made = call("run", *where, "--method=fedavg", *TINY, *given)
        assert made.code == 0, made.err
    return folder


@pytest.fixture
def unseen(_unseen: Path, sessions: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sessions of two seeds, in which two of four clients are unseen and measured after rounds 2 and 3."""
    monkeypatch.setenv("HTFL_SESSIONS", str(_unseen))
    return _unseen


def records(unseen: Path, name: str) -> list[Any]:
    return SessionReader(unseen / name).records()


def percent(accuracy: float) -> str:
    return f"{100 * accuracy:.1f}"


def test_show_has_a_row_for_each_unseen_client_and_their_mean(cli: Cli, unseen: Path) -> None:
    found = records(unseen, "s0")[2]["unseen"]
    page = cli("show", "s0").out
    lines = page[page.index("Unseen clients after round 3") :].splitlines()[2:5]
    for line, client in zip(lines, found["clients"], strict=False):
        assert line.split()[0] == str(client)
        for moment in ("before", "after", "alone"):
            assert percent(found[moment]["per_client"][str(client)]) in line
    assert percent(found["alone"]["mean"]) in lines[2]
    assert f"Participating clients: {percent(found['participating'])}" in page
    assert "Unseen clients" not in cli("show", "s0", "--round=1").out
    assert "Unseen clients after round 2" in cli("show", "s0", "--round=2").out


def test_compare_has_columns_of_unseen_clients_if_they_are_named(cli: Cli, unseen: Path) -> None:
    """Means over two seeds of the last measurement."""
    given = ("compare", "s0", "s1", "--by=method")
    named = [f"--columns=unseen {moment}" for moment in ("before", "after", "alone")]
    [row] = cli(*given, *named, "--json").json()["rows"]
    last = [records(unseen, name)[2]["unseen"] for name in ("s0", "s1")]
    for moment in ("before", "after", "alone"):
        assert row["extras"][f"unseen {moment}"]["mean"] == pytest.approx(
            sum(each[moment]["mean"] for each in last) / 2
        )
    assert cli(*given, *named).out.split("\n")[0] == "unseen before, %  unseen after, %  unseen alone, %"
    assert "unseen" not in cli(*given).out


def test_exported_tables_have_columns_of_unseen_clients(cli: Cli, unseen: Path) -> None:
    rounds = list(csv.DictReader(io.StringIO(cli("export", "s0").out)))
    recorded = [record.get("unseen") for record in records(unseen, "s0")]
    assert [row["unseen_after"] for row in rounds] == [
        "" if each is None else str(each["after"]["mean"]) for each in recorded
    ]
    clients = list(csv.DictReader(io.StringIO(cli("export", "s0", "--what=clients").out)))
    found = {(row["round"], row["client"]): row["unseen_alone"] for row in clients if row["unseen_alone"]}
    assert found == {
        (str(round), client): str(alone)
        for round in (2, 3)
        for client, alone in recorded[round - 1]["alone"]["per_client"].items()
    }
