"""Newer format; other torch, device, library mode or threads; data changed: found at once, by real differences."""

import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import checkpoints
from checkpoints.schema import seal, unseal
from simulator import methods
from simulator.base import rng
from simulator.base.environment import (
    COMPARED,
    METHOD_FILES,
    MODES,
    PROGRAM,
    environment,
    inexact,
    recorded_facts,
)
from simulator.data import partition
from simulator.sessions import metadata
from tests.cli.conftest import TINY, Cli, assert_refused, call, rewrite
from tests.reliability.sessions import COMMAND, contents


def recorded(session: Path) -> dict[str, Any]:
    return dict(checkpoints.SessionReader(session).document)


def inexact_of(session: Path, kind: str = "resumed") -> list[str]:
    """What the session records of a resume or a fork that was allowed to be inexact."""
    [event] = [each for each in checkpoints.SessionReader(session).events() if each["event"] == kind]
    return list(event["inexact"])


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
    refused = "is not the one this session was made with (sha256 "
    assert_refused(
        cli("resume", "x"), 4, "x", "own.npz", refused, "name the folder of the original data: --data-dir"
    )
    assert_refused(cli("fork", "x", "--at-round=1", "--session=y"), 4, "own.npz")
    assert contents(sessions / "x") == before and not (sessions / "y").exists()
    images(own)
    assert cli("resume", "x").code == 0


@pytest.mark.long
def test_another_partition_is_refused(cli: Cli, done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another version of numpy might draw it."""
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    real = partition.iid
    monkeypatch.setitem(partition.RULES, "iid", lambda *about: real(*about)[::-1])
    assert_refused(cli("resume", "done"), 4, "partition")


@pytest.mark.long
def test_another_instruction_set_is_refused_unless_allowed(cli: Cli, sessions: Path) -> None:
    """A process that torch gives its plain kernels stands for another machine: its sums do differ."""
    made = subprocess.run(
        [COMMAND, "run", *TINY, "--rounds=2", "--session=x", "--sessions-dir", sessions],
        env={"ATEN_CPU_CAPABILITY": "default", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert made.returncode == 0, made.stderr
    device = recorded(sessions / "x")["environment"]["device"]
    assert device == "cpu (DEFAULT)"
    if call("switch", "x", "fedlora", "--set=rounds=3").code or cli("resume", "x").code == 0:
        pytest.skip("this machine has no other instruction set")
    assert_refused(cli("resume", "x"), 4, "no longer be bit-identical", device, "--allow-inexact")
    assert cli("resume", "x", "--allow-inexact").code == 0
    assert [change.split(" ")[0] for change in inexact_of(sessions / "x")] == ["modes", "device"]


@pytest.mark.long
@pytest.mark.parametrize("variable", ["ONEDNN_MAX_CPU_ISA=SSE41", "MKL_CBWR=COMPATIBLE"])
def test_another_mode_of_a_library_is_refused(
    cli: Cli, sessions: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in MODES:  # whoever tests may have set some
        monkeypatch.delenv(name, raising=False)
    assert cli("run", *TINY, "--rounds=1", "--session=x").code == 0
    assert cli("switch", "x", "fedlora", "--set=rounds=2").code == 0
    monkeypatch.setenv(*variable.split("="))
    assert_refused(cli("resume", "x"), 4, "no longer be bit-identical", f"modes none → {variable}")
    assert cli("resume", "x", "--allow-inexact").code == 0
    assert inexact_of(sessions / "x") == [f"modes none → {variable}"]


@pytest.mark.long
def test_a_session_of_version_0_1_goes_on_by_its_own_rules(cli: Cli, done: Path) -> None:
    facts = {fact: value for fact, value in recorded(done)["environment"].items() if fact != "program"}
    rewrite(done, environment=facts | {"htfl-sim": "0.1.0"})
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    assert cli("resume", "done").code == 0


def test_a_session_of_another_version_machine_or_library_is_refused(cli: Cli, done: Path) -> None:
    facts = recorded(done)["environment"]
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    for fact in ("htfl-sim", "torch", "numpy", "cpu", "libraries", "modes", "device"):
        rewrite(done, environment=facts | {fact: "of another kind"})
        assert_refused(cli("resume", "done"), 4, f"{fact} of another kind → ", "--allow-inexact")
    rewrite(done, environment=facts | {"threads_per_client": 4})
    assert_refused(cli("resume", "done"), 4, "no longer be bit-identical (threads_per_client 4 → 1)")
    rewrite(done, environment=facts | {"python": "3.99", "safetensors": "9.0"})
    assert cli("resume", "done").code == 0, "these change no bits"


def with_other_code(done: Path, which: str) -> str:
    """Have a session say that other code made it. Returns the sentence's words about that."""
    other, document = "0" * 64, recorded(done)
    if which == "program":
        rewrite(done, environment=document["environment"] | {"program": other})
        return f"program {other[:12]} → {PROGRAM[:12]}"
    assert document["method_files"]["fedlora.py"] == METHOD_FILES["fedlora.py"]
    rewrite(done, method_files=document["method_files"] | {"fedlora.py": other})
    return f"method file fedlora.py {other[:12]} → {METHOD_FILES['fedlora.py'][:12]}"


@pytest.mark.long
@pytest.mark.parametrize("which", ["program", "method file"])
def test_a_resume_with_changed_code_is_refused_unless_allowed(cli: Cli, done: Path, which: str) -> None:
    named = with_other_code(done, which)
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    before = contents(done)
    assert_refused(
        cli("resume", "done"), 4, f"({named}). Go back to what it was made with, or use --allow-inexact"
    )
    assert contents(done) == before
    assert cli("resume", "done", "--allow-inexact").code == 0
    assert inexact_of(done) == [named]


@pytest.mark.long
@pytest.mark.parametrize("which", ["program", "method file"])
def test_a_fork_with_changed_code_is_refused(cli: Cli, done: Path, sessions: Path, which: str) -> None:
    named = with_other_code(done, which)
    fork = ("fork", "done", "--at-round=2", "--session=y")
    assert_refused(cli(*fork), 4, named, "--allow-inexact")
    assert not (sessions / "y").exists()
    made = cli(*fork, "--allow-inexact")
    assert made.code == 0
    assert inexact_of(sessions / "y", "forked") == [named]
    assert named in cli("show", "y").out


@pytest.mark.long
def test_a_fork_with_another_method_does_not_need_the_parents_method_file(cli: Cli, done: Path) -> None:
    with_other_code(done, "method file")
    assert cli("fork", "done", "--at-round=2", "--session=y", "--method=fedgh").code == 0


@pytest.mark.long
def test_a_switch_records_the_files_of_the_new_method(cli: Cli, done: Path) -> None:
    assert cli("switch", "done", "fedprox", "--set=rounds=4").code == 0
    with_other_code(done, "method file")  # of a method that the resume still has in force
    assert cli("resume", "done", "--allow-inexact").code == 0
    history = checkpoints.SessionReader(done).manifest().history
    files = ("fedavg.py", "fedprox.py", "means.py")
    assert history[-1]["method_files"] == {name: METHOD_FILES[name] for name in files}
    assert cli("switch", "done", "--set=rounds=5").code == 0
    assert cli("resume", "done").code == 0, "fedlora.py no longer counts"


@pytest.mark.long
def test_a_session_without_hashes_of_its_code_opens_and_says_so(cli: Cli, done: Path) -> None:
    document = recorded(done)
    new = ("program", "torchvision", "timm")
    rewrite(done, environment={key: each for key, each in document["environment"].items() if key not in new})
    old = unseal((done / "session.json").read_bytes(), "session.json")
    (done / "session.json").write_bytes(seal({key: old[key] for key in old if key != "method_files"}))
    said = "done was made by an older htfl-sim, which recorded no hashes of its code."
    assert cli("switch", "done", "fedlora", "--set=rounds=5").code == 0
    resumed, forked = cli("resume", "done"), cli("fork", "done", "--at-round=2", "--session=y")
    assert (resumed.code, forked.code) == (0, 0)
    assert f"warning: {said}" in resumed.err and f"warning: {said}" in forked.err
    for session in (done, done.parent / "y"):
        assert any(said in e.get("message", "") for e in checkpoints.SessionReader(session).events())


def test_the_hashes_of_code_tell_the_program_and_each_methods_files_apart() -> None:
    assert metadata.files_of_method("fedavg").keys() == {"fedavg.py", "means.py"}
    assert metadata.files_of_method("fedprox").keys() == {"fedavg.py", "fedprox.py", "means.py"}
    assert {"small_model.py", "fml.py"} & METHOD_FILES.keys() == {"small_model.py", "fml.py"}
    assert not {"hooks.py", "base.py"} & METHOD_FILES.keys()
    every = {file for name in methods.names() for file in metadata.files_of_method(name)}
    assert every >= METHOD_FILES.keys(), "each file of the room belongs to the program or to a method"


def test_libraries_of_models_are_recorded_for_the_sessions_whose_models_come_from_them() -> None:
    facts = recorded_facts(torch.device("cpu"), 1, {"torch", "timm"})
    assert "timm" in facts and "torchvision" not in facts and "methods" not in facts
    made = {each: facts.get(each) for each in ("torch", "timm")} | {"torchvision": "0.1"}
    assert inexact(made, environment(torch.device("cpu"), 1)) == [
        f"torchvision 0.1 → {version('torchvision')}"
    ]


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


def test_on_a_gpu_another_cpu_changes_nothing() -> None:
    here = dict.fromkeys(COMPARED, "same")
    on_gpu, on_cpu = (here | {"device": device} for device in ("cuda (X)", "cpu (AVX2)"))
    assert inexact(on_gpu | {"cpu": "other"}, on_gpu) == []
    assert inexact(on_cpu | {"cpu": "other"}, on_cpu) == ["cpu other → same"]


@pytest.mark.long
def test_another_format_is_refused_and_not_touched(cli: Cli, done: Path) -> None:
    remedy = f"Use htfl-sim {version('htfl-sim')}, which made it"
    for other in (0, 4, 999):
        rewrite(done, format=other)
        before = contents(done)
        for command in (["resume"], ["show"], ["fork", "--at-round=1", "--session=y"], ["pause"]):
            result = cli(command[0], "done", *command[1:])
            assert_refused(result, 4, f"format {other}", "formats 1 to 3", remedy)
        assert contents(done) == before
