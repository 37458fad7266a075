"""Studies and sessions from somebody else: nothing that they name is run or opened without bounds."""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import checkpoints
import htfl_sim as hs
from checkpoints import Locked, Retention, Store
from simulator.base import own_files
from simulator.base.errors import SessionError
from simulator.config.user_files import Files
from simulator.studies import tuning
from simulator.studies.executor import Launch
from simulator.studies.folder import text_of
from simulator.studies.search import Request
from simulator.studies.study import StudySpec
from simulator.studies.sweep import plan
from tests.cli.conftest import TINY, Cli, _made, cli, done, sessions
from tests.own import METRIC, MODEL, another_process, written

__all__ = ["_made", "another_process", "cli", "done", "sessions"]
SELECTION = "def select(round, candidates, number, known, random):\n    return candidates[:number]\n"
SETTINGS = {
    "rounds": 1,
    "training": {"epochs": 1},
    "data": {"limit": 200, "partition": "iid"},
    "federation": {"clients": 4, "group": ["tiny_mlp", "mynets:Net@last"]},
    "evaluation": {"metrics": ["right"]},
    "selection": {"strategy": "mypick"},
    "runtime": {"workers": 1, "device": "cpu"},
}


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The file that every Python file of the stranger adds its name to when it is run."""
    return tmp_path / "ran"


@pytest.fixture
def files(tmp_path: Path, ran: Path) -> Files:
    """The stranger's files."""
    (tmp_path / "theirs").mkdir()
    trap = f"with open({str(ran)!r}, 'a') as file: file.write(__file__ + '\\n')\n"

    def made(name: str, code: str) -> tuple[str, ...]:
        return (str(written(tmp_path / "theirs", name, trap + code)),)

    return Files((), made("mynets.py", MODEL), made("right.py", METRIC), made("mypick.py", SELECTION))


@pytest.fixture
def study(sessions: Path, files: Files, ran: Path, another_process: Any) -> Path:
    """A study whose points have no sessions yet, as it arrives from the stranger."""
    asked = StudySpec(
        preset="quickstart", config=SETTINGS, over={"method": ("standalone", "fd")}, files=files
    )
    plan(sessions / "t", asked).open().close("stopped")
    ran.unlink()
    another_process()
    return sessions / "t"


@pytest.fixture
def tuned(sessions: Path, files: Files, ran: Path, another_process: Any) -> Path:
    """A tuning study of the stranger's."""
    files.load()
    base = {
        key: each
        for key, each in hs.preset("quickstart", method="standalone").with_().to_json().items()
        if key not in ("method", "preset", "profile", "seed")
    }
    request = Request({**base, **SETTINGS}, ("standalone",), 1, 1, "latin").checked()
    launch = Launch(sessions, files=files)
    step = next(tuning.steps(sessions / "u", request, sessions))
    with tuning.plan_of(sessions / "u", request, step, launch).open() as group:
        group.write({"tuning.json": text_of(asdict(request))})
        group.close("stopped")
    ran.unlink()
    another_process()
    return sessions / "u"


def test_a_study_runs_no_file_that_only_it_names(cli: Cli, study: Path, files: Files, ran: Path) -> None:
    for more in ((), ("--dry-run",), ("--on=slurm",), ("--point=0",), ("--extend", "--over=seed=0,1")):
        refused = cli("sweep", "t", *more)
        assert refused.code == 4 and not ran.exists(), refused.err
        assert f"the model {files.models[0]}, the metric {files.metrics[0]}" in refused.err
        assert " ".join(files.options()) in refused.err
    other = written(study.parent, "other.toml", (study / "study.toml").read_text())
    refused = cli("sweep", other, "--dry-run")
    assert refused.code == 4 and str(other) in refused.err and not ran.exists()
    with pytest.raises(SessionError, match=r"names Python files, which were not run"):
        hs.sweep(study)
    assert not ran.exists()
    hs.load_files(models=files.models, metrics=files.metrics, selections=files.selections)
    assert hs.studies.plan(study).listed


def test_so_does_a_tuning_study(cli: Cli, tuned: Path, files: Files, ran: Path) -> None:
    for more in ((), ("--dry-run",), ("--on=slurm",)):
        refused = cli("tune", "u", *more)
        assert refused.code == 4 and not ran.exists(), refused.err
        assert " ".join(files.options()) in refused.err


def test_the_words_of_the_refusal_run_it(
    cli: Cli, study: Path, tuned: Path, files: Files, ran: Path, another_process: Any
) -> None:
    for line in (("sweep", "t"), ("tune", "u")):
        words = cli(*line, "--dry-run").err.rpartition("add ")[2].rstrip(".\n").split()
        told = cli(*line, "--dry-run", *words)
        assert told.code == 0, told.err
        assert {*ran.read_text().split()} == {*files.models, *files.metrics, *files.selections}
        ran.unlink()
        another_process()


def test_a_file_with_other_bytes_is_not_run(cli: Cli, study: Path, files: Files, ran: Path) -> None:
    metric = Path(files.metrics[0])
    metric.write_text(metric.read_text() + "\n")
    refused = cli("sweep", "t", "--dry-run", *files.options())
    assert refused.code == 4 and not ran.exists()
    assert "the metric file right.py is not the one that study t was made with" in refused.err


def test_the_same_bytes_may_move(cli: Cli, study: Path, files: Files, tmp_path: Path, ran: Path) -> None:
    copies = [Path(file).rename(tmp_path / Path(file).name) for _, each in files for file in each]
    words = [f"--{kind}={file}" for kind, file in zip(("model", "metric", "selection"), copies, strict=True)]
    told = cli("sweep", "t", "--dry-run", *words)
    assert told.code == 0, told.err
    assert ran.read_text().split() == list(map(str, copies))


def test_a_file_that_is_only_hashed_does_not_make_its_neighbors_importable(tmp_path: Path) -> None:
    import sys

    before = [*sys.path]
    own_files.read("metric", written(tmp_path, "right.py", METRIC))
    assert sys.path == before


COMMANDS = (
    *(
        "sessions",
        "show t",
        "show t/standalone",
        "verify t",
        "compare t",
        "plot curves t",
        "report t",
        "export t",
    ),
    *("config", "why t", "partition t/standalone", "resume t", "resume t/standalone"),
    "fork t/standalone --at-round 1 --session=f --rounds=2 --run",
    "switch t/standalone fd",
    "sweep b --from t/standalone@1 --rounds=2 --over training.lr=0.1,0.2 --dry-run",
    *("sweep t --dry-run", "inspect t", "inspect t/standalone", "sweep v --tuned u --dry-run"),
    *("tune u --dry-run", "inspect u", "show u", "compare u", "report u"),
)


@pytest.mark.long
def test_no_command_runs_a_strangers_file(
    cli: Cli, study: Path, tuned: Path, files: Files, ran: Path, another_process: Any
) -> None:
    files.load()
    from simulator.studies.folder import read_points
    from simulator.studies.point import opened

    with opened(study, read_points(study)[0], Launch(study.parent)) as session:
        session.run()
    ran.unlink()
    another_process()
    for command in COMMANDS:
        result = cli(*command.split())
        assert not ran.exists(), command
        assert result.code != 1 and "bug" not in result.err, (command, result.err)


def as_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def as_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


PARTS = [{"train": [*range(k, 80, 4)], "test": [*range(100 + k, 140, 4)]} for k in range(4)]
PATHS = {
    "data.indices": json.dumps(PARTS),
    "system.trace": "client,device\n" + "".join(f"{k},phone\n" for k in range(4)),
    "system.availability_file": "client,from,to\n" + "".join(f"{k},0,9e9\n" for k in range(4)),
    "system.device_file": "",
}
BESIDE = {
    "data.indices": ["--set=data.partition=indices"],
    "system.trace": [],
    "system.availability_file": ["--set=system.availability=intervals", "--set=system.devices=phone"],
    "system.device_file": ["--set=system.devices=phone"],
}
RUN = ("run", *(each for each in TINY if not each.startswith("--set=data")), "--rounds=1", "--session=s")


@pytest.mark.long
@pytest.mark.parametrize("key", PATHS)
@pytest.mark.parametrize("become", [as_pipe, as_device, as_huge])
def test_no_command_waits_for_a_path_of_a_strangers_session_or_reads_it_without_end(
    cli: Cli, sessions: Path, tmp_path: Path, key: str, become: Callable[[Path], None]
) -> None:
    file = written(tmp_path, "named", PATHS[key])
    made = cli(*RUN, f"--set={key}={file}", *BESIDE[key])
    assert made.code == 0, made.err
    file.unlink()
    become(file)
    for command in ("show s", "verify s", "sessions", "partition s", "export s", "report s", "inspect s"):
        told = cli(*command.split())
        assert told.code != 1 and "bug" not in told.err, (command, told.err)
    for command in ("resume s --rounds=2", "fork s --at-round=1 --session=f --rounds=2 --run"):
        refused = cli(*command.split())
        assert refused.code == 4 and str(file) in refused.err, refused.err
        assert "Name a regular file." in refused.err or "Name a smaller file." in refused.err
    again = cli(*RUN[:-1], "--session=other", f"--set={key}={file}", *BESIDE[key])
    assert again.code in (2, 3) and str(file) in again.err, again.err


TYPED = (
    *("run --config={}", "sweep mine {}", "run --set=federation.pretrained={}", "run --model={}.py:Net"),
    *("run --metric={}.py", "run --plugin={}.py", "run --selection={}.py", "run --dataset={}.csv"),
    *("run --dataset={}.npz", "run --dataset={}", "run --method=fedktl --set=method.generator_file={}"),
)


@pytest.mark.parametrize("become", [as_pipe, as_device])
def test_no_command_waits_for_a_typed_path(cli: Cli, tmp_path: Path, become: Callable[[Path], None]) -> None:
    path = tmp_path / "named"
    for end in ("", ".py", ".csv", ".npz", ".toml"):
        become(path.with_suffix(end))
    for words in TYPED:
        refused = cli(*words.format(path).split())
        assert refused.code in (2, 3) and "named" in refused.err, refused.err


COMMANDS_ON_ONE = (
    *("sessions", "show {}", "verify {}", "export {} --out o", "prune {}", "tag {}", "note {}", "why {}"),
    *("compare {} {}", "compare {} --format=md", "plot accuracy {} --out a.svg", "report {} --out r.html"),
    *("resume {}", "rename {} other", "fork {} --at-round=1 --session=f --rounds=4", "switch {} fd"),
    *("pause {}", "inspect {}", "rm {} -y"),
)


@pytest.mark.parametrize("commands", [COMMANDS_ON_ONE[:12], COMMANDS_ON_ONE[12:]])
def test_a_newline_in_a_name_begins_no_line(cli: Cli, done: Path, commands: tuple[str, ...]) -> None:
    """The name ends one line and begins another, which would pass for htfl-sim's own."""
    folder = done.rename(done.parent / "x\nwarning: all is well\x1b[2J")
    for command in commands:
        told = cli(*(each.format(folder) for each in command.split()))
        lines = (told.out + told.err).splitlines()
        assert told.code != 1 and not [line for line in lines if line.startswith("warning: all")], command
        assert "\x1b" not in told.out + told.err, command


def test_inspect_lists_what_a_study_names(cli: Cli, study: Path, files: Files, ran: Path) -> None:
    Path(files.metrics[0]).write_text(METRIC)
    Path(files.selections[0]).unlink()
    found = cli("inspect", "t", "--json").json()
    listed = {(each["kind"], each["name"]): each for each in found["names"]}
    here = [listed[kind, paths[0]]["here"] for kind, paths in files if paths]
    assert here == ["same bytes", "other bytes", "not here"]
    assert all(len(listed[kind, paths[0]]["sha256"]) == 64 for kind, paths in files if paths)
    assert ("preset", "quickstart") in listed and ("data set", "digits") in listed
    assert found["is_study"] and found["versions"] == {} and not ran.exists()
    assert "other bytes" in cli("inspect", "t").out


def test_inspect_lists_the_paths_and_versions_of_a_session(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    file = written(tmp_path, "named.csv", PATHS["system.trace"])
    assert cli(*RUN, f"--set=system.trace={file}").code == 0
    found = cli("inspect", "s", "--json").json()
    trace = {"kind": "trace", "name": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert trace | {"here": "same bytes"} in found["names"]
    assert found["versions"]["python"] == [platform.python_version()] and not found["is_study"]
    file.unlink()
    as_pipe(file)
    (listed,) = (each for each in cli("inspect", "s", "--json").json()["names"] if each["kind"] == "trace")
    assert "it is a pipe" in listed["here"]


@pytest.fixture
def two(cli: Cli, sessions: Path) -> Path:
    """A study of two finished points."""
    (sessions / "two").mkdir(parents=True)
    names = ("fd", "standalone")
    for name in names:
        assert cli("run", *TINY, "--rounds=3", f"--method={name}", f"--session={name}").code == 0
    small = {"data": {"limit": 200, "partition": "iid"}, "federation": {"clients": 4, "group": "tiny"}}
    small |= {"rounds": 3, "training": {"epochs": 1}, "runtime": {"workers": 1}}
    asked = StudySpec(preset="quickstart", config=small, over={"method": names})
    (sessions / "two").rmdir()
    plan(sessions / "two", asked).open().close("finished")
    for name in names:
        (sessions / name).rename(sessions / "two" / name)
    return sessions / "two"


def link(study: Path, number: int) -> None:
    """Let a point use the session two/fd in place of its own."""
    entries = json.loads((study / "points.json").read_text())
    fingerprint = json.loads((study.parent / "two" / "fd" / "session.json").read_text())["fingerprint"]
    entries[number]["link"] = {"session": "two/fd", "fingerprint": fingerprint}
    (study / "points.json").write_text(json.dumps(entries))
    shutil.rmtree(study / entries[number]["name"])


def test_verify_takes_a_study_and_names_the_point(cli: Cli, two: Path) -> None:
    assert cli("verify", "two").code == 0
    (two / "fd" / "ledger.jsonl").write_text("{}\n")
    damaged = cli("verify", "two", "--json")
    assert damaged.code == 4 and "fd/ledger.jsonl" in {each["path"] for each in damaged.json()["findings"]}
    (two / "points.json").write_text("[1]")
    assert "points.json" in {each["path"] for each in cli("verify", "two", "--json").json()["findings"]}


def test_a_study_is_marked_and_pruned_session_by_session(cli: Cli, two: Path) -> None:
    assert cli("tag", "two", "paper").out == "two/fd: paper\ntwo/standalone: paper\n"
    assert cli("note", "two", "for the paper").code == 0
    assert [hs.sessions.marks(two / name).note for name in ("fd", "standalone")] == ["for the paper"] * 2
    would = cli("prune", "two", "--keep-last=1", "--no-keep-best", "--dry-run")
    assert would.out.count("would go: 1, 2;") == 2
    assert cli("prune", "two", "--keep-last=1", "--no-keep-best").out.count("removed: 1, 2;") == 2


def test_a_study_is_renamed_with_its_links_unless_another_one_uses_it(cli: Cli, two: Path) -> None:
    other = Path(shutil.copytree(two, two.parent / "other"))
    link(other, 0)
    refused = cli("rename", "two", "again")
    assert refused.code == 2 and "The point other/fd uses two by its name" in refused.err
    assert two.is_dir()
    shutil.rmtree(other)
    link(two, 1)
    assert cli("rename", "two", "again").out == "renamed two to again\n"
    assert hs.studies.linked(two.parent / "again") == {"standalone": "again/fd"}


def test_a_study_is_removed_whole_but_not_while_one_of_its_sessions_is_run(cli: Cli, two: Path) -> None:
    with Store.open(two / "fd", retention=Retention(last=3)):
        refused = cli("rm", "two", "--yes")
        assert refused.code == 4 and "Stop it first" in refused.err and two.is_dir()
        with pytest.raises(Locked):
            checkpoints.remove(two)
    assert cli("rm", "two").code == 2
    assert cli("rm", "two", "--yes").code == 0
    assert not list(two.parent.iterdir())


@pytest.mark.parametrize(
    ("name", "content"),
    [("study.toml", "a = [" + "{}," * 1_500_000 + "]"), ("points.json", "[" + "{}," * 4_000_000 + "{}]")],
)
def test_a_giant_study_file_is_not_parsed(cli: Cli, study: Path, name: str, content: str) -> None:
    written(study, name, content)
    for command in ("inspect t", "verify t"):
        told = cli(*command.split())
        assert told.code == 4 and name in told.out + told.err
        assert "the most that is read" in told.out + told.err or "values it may have" in told.out + told.err
