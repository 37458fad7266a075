"""The real program in a real terminal, tmux, by keys alone."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import checkpoints

COMMAND = Path(sys.executable).with_name("htfl-sim")
SECONDS = 600.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


class Tmux:
    """One window of 120 × 40 in a tmux server of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = ["tmux", "-S", str(folder / "socket"), "-f", os.devnull]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, timeout=600)
        return done.stdout

    def start(self, *arguments: str) -> None:
        line = " ".join(map(str, [COMMAND, *arguments]))
        shell = f"trap : INT; cd {self._folder} && OMP_NUM_THREADS=1 {line}; echo code $?; sleep 600"
        self("new-session", "-d", "-s", "app", "-x", "120", "-y", "40", shell)

    def press(self, *keys: str) -> None:
        for key in keys:
            self("send-keys", "-t", "app", key)
            time.sleep(0.3)

    def type(self, text: str) -> None:
        self("send-keys", "-t", "app", "-l", text)
        time.sleep(0.3)

    @property
    def screen(self) -> str:
        return self("capture-pane", "-p", "-t", "app")

    def shows(self, *texts: str) -> None:
        """Wait until all of these are on the screen."""
        self.until(lambda: all(text in self.screen for text in texts), f"{texts} on the screen")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"no {what}:\n{self.screen}"
            time.sleep(0.2)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    window = Tmux(tmp_path)
    yield window
    window("kill-server")


def events(folder: Path, kind: str) -> list[dict[str, object]]:
    return [event for event in checkpoints.SessionReader(folder).events() if event["event"] == kind]


def test_a_run_is_steered_branched_compared_exported_and_left_training(tmux: Tmux, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    run = sessions / "quick"
    tmux.start(
        "tui --preset quickstart --session quick --rounds 60 --workers 1",
        f"--set data.limit=400 --set checkpoint.keep_last=60 --sessions-dir {sessions}",
    )
    tmux.shows("quick", "round 1/60")

    tmux.press("Space")
    tmux.shows("paused")
    tmux.until(lambda: len(events(run, "paused")) == 1, "event")
    tmux.press("m")
    tmux.shows("Switch the method")
    tmux.press("End", "Enter")
    tmux.shows("switching")
    tmux.press("Space")
    tmux.until(lambda: len(events(run, "continued")) == 1, "event")
    tmux.until(lambda: len(events(run, "switched")) == 1, "event")
    assert events(run, "switched")[0]["method"] == "standalone"
    tmux.until(lambda: len(checkpoints.SessionReader(run).records()) >= 3, "third round")

    tmux.press("{")
    tmux.shows("REPLAY round 1")
    tmux.press("f")
    tmux.shows("Fork quick after round 1")
    tmux.press("Enter")
    tmux.shows("Forked: quick-at1", "round 1/60 · stopped")
    fork = checkpoints.SessionReader(sessions / "quick-at1")
    assert fork.parent is not None
    assert (fork.parent["name"], fork.parent["round"]) == ("quick", 1)

    tmux.press("v", "s")
    tmux.shows("quick-at1")
    tmux.press("Home", "x", "v")
    tmux.shows("5 Compare", "quick-at1")
    tmux.press("w", "Enter")
    tmux.until(lambda: any(tmp_path.glob("*-compare.csv")), "CSV file")
    tmux.press("w", "Down", "Enter")
    tmux.until(lambda: any(tmp_path.glob("*-compare.svg")), "SVG file")

    tmux.press("q")
    tmux.shows("keep training")
    tmux.press("Enter")
    tmux.shows("quick trains on")
    done = len(checkpoints.SessionReader(run).records())
    tmux.until(lambda: len(checkpoints.SessionReader(run).records()) > done, "round without the app")
    tmux.press("C-c")
    tmux.shows("code 130")
    assert checkpoints.SessionReader(run).state() == "stopped"
    assert checkpoints.verify(run) == []


def test_a_headless_run_is_attached_to_and_steered(tmux: Tmux, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    settings = ["--session", "far", "--rounds", "60", "--workers", "1", "--no-progress"]
    headless = subprocess.Popen(
        [COMMAND, "run", *settings, "--set", "data.limit=400", "--sessions-dir", sessions],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        tmux.until(lambda: (sessions / "far" / "session.json").exists(), "session")
        tmux.start(f"tui --session far --sessions-dir {sessions}")
        tmux.shows("far", "running")
        tmux.press("Space")
        tmux.shows("paused")
        tmux.press("Space")
        tmux.shows("running")
        tmux.press("S", "Down", "Enter")
        assert headless.wait(timeout=SECONDS) == 0
        tmux.shows("stopped")
        tmux.press("q")
        tmux.shows("code 0")
    finally:
        headless.kill()
        headless.wait()
    assert checkpoints.SessionReader(sessions / "far").state() == "stopped"
