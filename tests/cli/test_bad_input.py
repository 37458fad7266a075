"""Every bad input is one line on stderr that says what to do, an exit code, and nothing written."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from checkpoints import SessionReader
from checkpoints.schema import seal, unseal
from simulator.base.errors import DataError
from simulator.data import datasets
from simulator.data.datasets import Dataset, Progress
from tests.cli.conftest import TINY, Cli, Result


def assert_refused(result: Result, code: int, *fragments: str) -> None:
    assert (result.code, result.out) == (code, "")
    last = result.err.splitlines()[-1]
    assert last.startswith("error: ") and last.endswith((".", "?"))
    assert "Traceback" not in result.err
    for fragment in fragments:
        assert fragment in last


RUNS = {
    "an unknown preset": (["--preset=fedlora_htm"], ["'fedlora_htm'", "'fedlora_htm5'", "htfl-sim presets"]),
    "an unknown method": (["--method=fedlorra"], ["'fedlorra'", "'fedlora'", "htfl-sim methods"]),
    "an unknown data set": (["--dataset=fashion_mnits"], ["'fashion_mnits'", "'fashion_mnist'", "htfl-sim datasets"]),
    "an unknown model group": (["--set=federation.group=htm55"], ["'htm55'", "'htm5'", "htfl-sim models"]),
    "an unknown key": (["--set=training.epoch=3"], ["'training.epoch'", "'training.epochs'"]),
    "a key of another section": (["--set=epochs=3"], ["'epochs'", "'training.epochs'"]),
    "a key of another method": (["--method=fedavg", "--set=method.mu=0.5"], ["'method.mu'"]),
    "a value out of range": (["--set=training.lr=-1"], ["'training.lr'", "-1", "greater than 0"]),
    "a value of another type": (["--set=training.epochs=many"], ["'training.epochs'", "'many'"]),
    "no rounds": (["--rounds=0"], ["'rounds'", "0"]),
    "no key": (["--set=epochs"], ["'epochs'", "key=value"]),
    "a preset and a file": (["--preset=quickstart", "--config=x.toml"], ["--preset", "--config"]),
    "a profile that the preset lacks": (
        ["--preset=fedlora_htm5", "--profile=authors"], ["'fedlora_htm5'", "'authors'", "it has paper"],
    ),
    "a profile of no preset": (["--profile=authors"], ["--profile", "Name the --preset too"]),
    "a file that is not there": (["--config=x.toml"], ["x.toml", "No such file"]),
    "too many classes per client": (
        ["--set=data.partition=pathological", "--set=data.classes_per_client=11"], ["11", "10"],
    ),
    "participation of nobody": (["--set=federation.participation=0.01"], ["selects no client"]),
    "a split with an empty part": (["--set=data.split=8:0:2"], ["data.split", "8:0:2"]),
    "models the method cannot run": (
        ["--method=lg_fedavg", '--set=federation.group=["cnn5", "tiny_cnn"]'], ["lg_fedavg", "client 1 (tiny_cnn)"],
    ),
    "a group whose widths do not nest": (
        ["--method=heterofl", "--set=federation.group=tiny"], ["client 0 (tiny_cnn)", "heterofl_resnet, heterofl_cnn"],
    ),
    "a session name with a folder": (["--session=a/b"], ["'a/b'", "letters"]),
    "an empty session name": (["--session="], ["''", "letters"]),
    "a session name of dots": (["--session=.."], ["'..'", "letters"]),
    "an unknown option": (["--presett=x"], ["--presett", "htfl-sim run --help"]),
    "an unknown device": (["--device=tpu"], ["tpu", "cuda"]),
    "no workers": (["--workers=0"], ["--workers"]),
}  # fmt: skip


def test_a_run_is_refused_before_anything_is_written(cli: Cli, sessions: Path) -> None:
    for arguments, fragments in RUNS.values():
        assert_refused(cli("run", *TINY, *arguments), 2, *fragments)
        assert not sessions.exists(), arguments


def test_an_unknown_command_is_refused_with_where_to_look(cli: Cli) -> None:
    assert_refused(cli("runn"), 2, "'runn'", "htfl-sim --help")


def test_a_file_that_is_no_toml_is_refused_with_the_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("rounds = \n")
    assert_refused(cli("run", "--config=mine.toml"), 2, "mine.toml", "line 1")


def test_a_damaged_data_file_is_named(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    raw = tmp_path / "data" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (raw / f"{name}-ubyte.gz").write_bytes(gzip.compress(b"not images"))
    assert_refused(cli("run", "--dataset=fashion_mnist"), 3, "train-images-idx3-ubyte.gz", "damaged")
    assert_refused(cli("data", "check", "fashion_mnist"), 3, "train-images-idx3-ubyte.gz", "damaged")
    assert not sessions.exists()


def test_data_that_is_not_here_says_how_to_get_it(cli: Cli) -> None:
    assert_refused(cli("data", "check", "cifar10"), 3, "data fetch cifar10", "--dataset digits")


def test_a_run_fetches_missing_data_and_stops_where_it_cannot(
    cli: Cli, sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def unreachable(dataset: Dataset, folder: Path, progress: Progress) -> None:
        asked.append(folder)
        raise DataError("there is no network here.")

    monkeypatch.setattr(type(datasets.get("cifar10")), "fetch", unreachable)
    assert_refused(cli("run", "--dataset=cifar10"), 3, "no network")
    assert asked == [tmp_path / "data"] and not sessions.exists()


def test_own_data_that_is_no_npz_is_named(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.npz").write_bytes(b"PK\x03\x04 and nothing more")
    assert_refused(cli("run", "--dataset=mine.npz"), 3, str(tmp_path / "mine.npz"))
    assert not sessions.exists()


def test_the_name_of_a_session_that_exists_is_refused_and_leaves_it_alone(cli: Cli, done: Path) -> None:
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    assert_refused(cli("run", *TINY, "--session=done"), 2, "done", "exists already", "another name")
    assert before == {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}


def test_what_is_no_session_is_refused_by_every_command_with_the_nearest(
    cli: Cli, done: Path, tmp_path: Path
) -> None:
    for command in ("resume", "show", "verify", "prune"):
        assert_refused(cli(command, "dome"), 4, "'dome'", "'done'", "htfl-sim sessions")
        if command != "verify":
            assert_refused(cli(command, tmp_path), 4, "not a session")


def test_a_damaged_object_stops_a_resume_with_round_client_and_file(cli: Cli, done: Path) -> None:
    ref = SessionReader(done).manifest().states["client/2"]
    flip(done / ref.name)
    assert_refused(cli("resume", "done"), 4, "round 3", "client/2", ref.name, "go on from round 2")


def test_a_damaged_session_file_stops_every_command(cli: Cli, done: Path) -> None:
    flip(done / "session.json")
    for command in ("resume", "show", "prune"):
        assert_refused(cli(command, "done"), 4, "session.json", "damaged")


def test_a_session_of_a_newer_format_is_refused_with_the_format(cli: Cli, done: Path) -> None:
    rewrite(done, format=4)
    assert_refused(cli("show", "done"), 4, "format 4", "formats 1")


def test_a_sound_file_that_is_not_a_sessions_is_refused(cli: Cli, done: Path) -> None:
    (done / "session.json").write_bytes(seal({"format": 1, "config": {"rounds": 3}}))
    assert_refused(cli("show", "done"), 4, str(done))


def test_another_data_set_than_the_recorded_one_is_refused(cli: Cli, done: Path) -> None:
    rewrite(done, data_fingerprint="0" * 64)
    assert_refused(cli("resume", "done"), 4, "digits", "--data-dir")


def test_another_torch_needs_allow_inexact(cli: Cli, done: Path) -> None:
    environment = SessionReader(done).document["environment"]
    rewrite(done, environment=environment | {"torch": "1.0"})
    assert_refused(cli("resume", "done"), 4, "torch 1.0", "--allow-inexact")
    assert cli("resume", "done", "--allow-inexact").code == 0


@pytest.mark.long
def test_a_session_that_another_process_holds_is_refused_with_its_number(cli: Cli, done: Path) -> None:
    hold = f"import checkpoints, pathlib; s = checkpoints.Store.open(pathlib.Path({str(done)!r})); print(); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", hold], stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout and holder.stdout.readline()
        assert_refused(cli("prune", "done"), 4, "in use", f"process {holder.pid}")
        assert_refused(cli("resume", "done"), 4, "in use", f"process {holder.pid}", "needs no resume")
        assert_refused(cli("resume", "done", "--steal"), 4, "in use", f"process {holder.pid}")
        assert cli("show", "done").code == 0
        holder.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("command", [["run", *TINY, "--session=x"], ["sessions"]])
def test_a_sessions_folder_that_cannot_be(cli: Cli, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("")
    result = cli(*command, "--sessions-dir", tmp_path / "file" / "sessions")
    if command[0] == "run":
        assert_refused(result, 5, str(tmp_path / "file" / "sessions"))
    else:
        assert result.code == 0 and "No sessions" in result.err


@pytest.mark.long
def test_a_full_disk_stops_a_run_that_can_be_resumed_when_there_is_room(
    cli: Cli, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 400_000
    write = os.write

    def into_little_room(fd: int, data: bytes) -> int:
        nonlocal room
        room -= len(data)
        if room < 0:
            raise OSError(28, "No space left on device")
        return write(fd, data)

    with monkeypatch.context() as full:
        full.setattr("checkpoints.files.os.write", into_little_room)
        result = cli("run", *TINY, "--rounds=6", "--session=big")
    assert_refused(result, 5, str(sessions / "big"), "no space left", "bytes")

    reached = SessionReader(sessions / "big").rounds()[-1]
    assert 1 <= reached < 6
    assert cli("resume", "big").code == 0
    assert [record["round"] for record in SessionReader(sessions / "big").records()] == [1, 2, 3, 4, 5, 6]


def test_own_data_with_too_few_images_is_refused_with_the_numbers(
    cli: Cli, sessions: Path, tmp_path: Path
) -> None:
    images = np.zeros((6, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "few.npz", images=images, labels=np.array([0, 1] * 3))
    assert_refused(cli("run", "--dataset=few.npz", *TINY[:1], "--clients=4"), 3, "6")
    assert not sessions.exists()


def flip(path: Path) -> None:
    """One bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(session: Path, **changes: object) -> None:
    """Change session.json and seal it again, as another version or another machine would have written it."""
    document = unseal((session / "session.json").read_bytes(), "session.json")
    (session / "session.json").write_bytes(seal(document | changes))
