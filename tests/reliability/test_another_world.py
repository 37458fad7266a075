"""Newer format; other torch, device, library mode or threads; data changed: found at once, by real differences."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import checkpoints
from simulator.base import rng
from simulator.base.environment import COMPARED, MODES, environment, inexact
from simulator.data import partition
from tests.cli.conftest import TINY, Cli, call
from tests.cli.test_bad_input import assert_refused, rewrite
from tests.reliability.sessions import COMMAND, contents


def images(path: Path, change: bool = False) -> Path:
    """An .npz of the user's own: noise of two classes; `change` alters one pixel of one image by one."""
    draw = rng.numpy_stream(0, "tests/own")
    pixels = draw.integers(1, 255, (120, 8, 8)).astype(np.uint8)
    pixels[7, 3, 3] += change
    np.savez(path, images=pixels, labels=np.arange(120) % 2)
    return path


def test_data_that_changed_by_one_pixel_are_refused(cli: Cli, sessions: Path, tmp_path: Path) -> None:
    own = images(tmp_path / "own.npz")
    assert cli("run", *TINY, f"--dataset={own}", "--rounds=2", "--session=x").code == 0
    assert cli("switch", "x", "fedlora", "--set=rounds=4").code == 0
    before = contents(sessions / "x")
    images(own, change=True)
    assert_refused(cli("resume", "x"), 4, "x", "own.npz", "--data-dir")
    assert_refused(cli("fork", "x", "--at-round=1", "--session=y"), 4, "own.npz")
    assert contents(sessions / "x") == before and not (sessions / "y").exists()
    images(own)
    assert cli("resume", "x").code == 0


def test_a_partition_that_comes_out_otherwise_is_refused(
    cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another version of numpy might draw it."""
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    real = partition.iid
    monkeypatch.setattr(partition, "iid", lambda *about: real(*about)[::-1])
    assert_refused(cli("resume", "done"), 4, "partition")


def test_another_instruction_set_is_refused_unless_allowed_and_then_recorded(
    cli: Cli, sessions: Path
) -> None:
    """A process that torch gives its plain kernels stands for another machine: its sums do differ."""
    made = subprocess.run(
        [COMMAND, "run", *TINY, "--rounds=2", "--session=x", "--sessions-dir", sessions],
        env={"ATEN_CPU_CAPABILITY": "default", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert made.returncode == 0, made.stderr
    recorded = checkpoints.SessionReader(sessions / "x").document["environment"]["device"]
    assert recorded == "cpu (DEFAULT)"
    if call("switch", "x", "fedlora", "--set=rounds=3").code or cli("resume", "x").code == 0:
        pytest.skip("this machine has no other instruction set")
    assert_refused(cli("resume", "x"), 4, "no longer be bit-identical", recorded, "--allow-inexact")
    assert cli("resume", "x", "--allow-inexact").code == 0
    (event,) = [e for e in checkpoints.SessionReader(sessions / "x").events() if e["event"] == "resumed"]
    assert [change.split(" ")[0] for change in event["inexact"]] == ["modes", "device"]


@pytest.mark.parametrize("variable", ["ONEDNN_MAX_CPU_ISA=SSE41", "MKL_CBWR=COMPATIBLE"])
def test_a_mode_of_the_libraries_that_the_environment_sets_is_refused_unless_allowed_and_then_recorded(
    cli: Cli, sessions: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in MODES:  # whoever tests may have set some
        monkeypatch.delenv(name, raising=False)
    assert cli("run", *TINY, "--rounds=1", "--session=x").code == 0
    assert cli("switch", "x", "fedlora", "--set=rounds=2").code == 0
    monkeypatch.setenv(*variable.split("="))
    assert_refused(cli("resume", "x"), 4, "no longer be bit-identical", f"modes none → {variable}")
    assert cli("resume", "x", "--allow-inexact").code == 0
    (event,) = [e for e in checkpoints.SessionReader(sessions / "x").events() if e["event"] == "resumed"]
    assert event["inexact"] == [f"modes none → {variable}"]


@pytest.mark.parametrize("fact", ["htfl-sim", "numpy", "cpu", "libraries", "modes"])
def test_a_session_of_another_version_machine_or_library_is_refused(cli: Cli, done: Path, fact: str) -> None:
    recorded = checkpoints.SessionReader(done).document["environment"]
    rewrite(done, environment=recorded | {fact: "of another kind"})
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    assert_refused(cli("resume", "done"), 4, f"{fact} of another kind → ", "--allow-inexact")


def test_the_libraries_that_are_recorded_are_those_that_torch_reports() -> None:
    """Blank or never found, another oneDNN or MKL would be no difference."""
    built = torch.__config__.show()
    recorded = environment(torch.device("cpu"), 1)["libraries"]
    mkl = re.search(r"MKL (20\d\d\.\d+)", recorded)
    onednn = re.search(r"oneDNN (\d+\.\d+\.\d+) \(([0-9a-f]{7})\)", recorded)
    assert bool(mkl) == ("Math Kernel Library" in built)
    assert bool(onednn) == torch.backends.mkldnn.is_available()
    assert mkl is None or f"Math Kernel Library Version {mkl[1]}" in built
    assert onednn is None or f"v{onednn[1]} (Git Hash {onednn[2]}" in built


def test_what_an_earlier_version_did_not_record_is_no_difference(cli: Cli, done: Path) -> None:
    recorded = checkpoints.SessionReader(done).document["environment"]
    new = ("numpy", "cpu", "libraries", "modes")
    rewrite(done, environment={fact: value for fact, value in recorded.items() if fact not in new})
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    assert cli("resume", "done").code == 0


def test_on_a_gpu_another_cpu_changes_nothing() -> None:
    here = dict.fromkeys(COMPARED, "same")
    on_gpu, on_cpu = (here | {"device": device} for device in ("cuda (X)", "cpu (AVX2)"))
    assert inexact(on_gpu | {"cpu": "other"}, on_gpu) == []
    assert inexact(on_cpu | {"cpu": "other"}, on_cpu) == ["cpu other → same"]


@pytest.mark.parametrize("version", [0, 4, 999])
def test_a_session_of_another_format_is_refused_with_the_version_and_not_touched(
    cli: Cli, done: Path, version: int
) -> None:
    rewrite(done, format=version)
    before = contents(done)
    for command in (["resume"], ["show"], ["fork", "--at-round=1", "--session=y"], ["pause"]):
        result = cli(command[0], "done", *command[1:])
        assert_refused(result, 4, f"format {version}", "formats 1 to 3")
    assert contents(done) == before
