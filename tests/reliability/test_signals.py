"""SIGTERM, SIGINT, SIGUSR1, SIGHUP: real processes checkpoint at a safe point; a second SIGINT leaves at once."""

import os
import signal
import subprocess
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

import checkpoints
from tests.cli.conftest import TINY, call
from tests.reliability.sessions import (
    COMMAND,
    AnyProcess,
    configuration,
    kinds,
    messages,
    rounds,
    running,
    wait_until,
)

ENDLESS = 100_000
"""More rounds than a test waits for."""


def endless(folder: Path, before: tuple[str, ...] = ()) -> AbstractContextManager[AnyProcess]:
    """A run of the session 's' without a checkpoint of its own accord."""
    config = configuration(folder, "standalone", ENDLESS, "checkpoint.every = 100_000")
    return running(folder, "run", "--config", config, "--session", "s", before=before)


@pytest.mark.long
def test_a_terminal_that_goes_away_stops_a_run_with_a_checkpoint(tmp_path: Path) -> None:
    """SIGHUP; for SIGTERM and SIGINT see the command line's tests."""
    session = tmp_path / "s"
    with endless(tmp_path) as process:
        wait_until(lambda: rounds(session) >= 2, process)
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=600) == -signal.SIGHUP, messages(tmp_path)
    reader = checkpoints.SessionReader(session)
    assert reader.state() == "stopped"
    assert reader.rounds()[-1] == rounds(session) >= 2
    assert reader.events()[-1]["reason"] == "SIGHUP"
    assert "Traceback" not in messages(tmp_path) and "htfl-sim resume s" in messages(tmp_path)


@pytest.mark.slow
def test_sigusr1_writes_a_checkpoint_and_the_run_goes_on(tmp_path: Path) -> None:
    session = tmp_path / "s"
    with endless(tmp_path) as process:
        wait_until(lambda: rounds(session) >= 2, process)
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: checkpoints.SessionReader(session).rounds() != [], process)
        (kept,) = checkpoints.SessionReader(session).rounds()
        wait_until(lambda: rounds(session) > kept + 2, process)
        process.kill()
    assert kinds(session) == ["started"]
    here = ("--sessions-dir", tmp_path)
    assert call("switch", "s", "standalone", f"--set=rounds={kept + 1}", *here).code == 0
    assert call("resume", "s", *here).code == 0
    assert "warning" in kinds(session), "the rounds after the checkpoint are computed again, and that is said"
    assert checkpoints.SessionReader(session).state() == "finished"


@pytest.mark.slow
def test_a_run_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    session = tmp_path / "s"
    with endless(tmp_path, before=("nohup",)) as process:
        wait_until(lambda: rounds(session) >= 2, process)
        process.send_signal(signal.SIGHUP)
        reached = rounds(session)
        wait_until(lambda: rounds(session) > reached + 2, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == -signal.SIGTERM


@pytest.mark.slow
def test_a_second_sigint_leaves_at_once_and_loses_the_round(tmp_path: Path) -> None:
    """The clients would train for hours; the first SIGINT waits for them."""
    session, here = tmp_path / "s", ("--sessions-dir", tmp_path)
    assert call("run", *TINY, "--method=standalone", "--rounds=1", "--session=s", *here).code == 0
    forever = ("--set=rounds=2", "--set=training.epochs=1000000")
    assert call("switch", "s", "standalone", *forever, *here).code == 0
    with running(tmp_path, "resume", "s") as process:
        wait_until(lambda: training(session, 2), process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None, "the first SIGINT lets the clients at work finish"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=600) == -signal.SIGINT
    assert "left at once: this round is lost" in messages(tmp_path)
    reader = checkpoints.SessionReader(session)
    assert (reader.state(), reader.rounds()[-1]) == ("interrupted", 1)
    checkpoints.Store.open(session).close()
    assert checkpoints.verify(session) == []


def training(session: Path, round: int) -> bool:
    """Whether the owner says that it is in this round."""
    note = checkpoints.SessionReader(session).owner() or {}
    return bool(note.get("progress", {}).get("round") == round and note.get("state") == "running")


def interruptible() -> None:
    """Heed SIGINT, as at a terminal: tests started in the background have it ignored, and a shell keeps to that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.long
def test_a_run_dies_by_the_signal_that_stopped_it_so_that_a_shells_loop_ends_too(tmp_path: Path) -> None:
    config = configuration(tmp_path, "standalone", ENDLESS)
    loop = f"for s in a b; do {COMMAND} run --config {config} --session $s --sessions-dir {tmp_path}; done"
    shell = subprocess.Popen(
        ["bash", "-c", loop],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        preexec_fn=interruptible,
    )
    try:
        wait_until(lambda: rounds(tmp_path / "a") >= 1, shell)
        os.killpg(shell.pid, signal.SIGINT)
        assert shell.wait(timeout=600) in (130, -signal.SIGINT)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert checkpoints.SessionReader(tmp_path / "a").state() == "stopped" and not (tmp_path / "b").exists()
