"""The real program in a real terminal, tmux, by keys alone."""

import csv
import os
import re
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
    pytest.mark.timeout(900),
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
        own_size = "env -u COLUMNS -u LINES OMP_NUM_THREADS=1"
        shell = f"trap : INT; cd {self._folder} && {own_size} {line}; echo code $?; sleep 600"
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

    def find(self, pattern: str) -> re.Match[str]:
        """The first place on the screen that looks so, once there is one."""
        found: list[re.Match[str]] = []

        def look() -> bool:
            found.extend(re.finditer(pattern, self.screen, re.MULTILINE))
            return bool(found)

        self.until(look, f"'{pattern}' on the screen")
        return found[0]

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


def test_a_run_is_paused_and_left_training(tmux: Tmux, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    run = sessions / "quick"
    tmux.start(
        "tui --preset quickstart --session quick --rounds 60 --workers 1",
        f"--set data.limit=400 --sessions-dir {sessions}",
    )
    tmux.shows("quick", "round 1/60")
    tmux.press("Space")
    tmux.shows("paused")
    tmux.until(lambda: len(events(run, "paused")) == 1, "event")
    tmux.press("Space")
    tmux.until(lambda: len(events(run, "continued")) == 1, "event")
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


def test_from_an_empty_folder_to_two_methods_laid_over_one_another(tmux: Tmux, tmp_path: Path) -> None:
    """A first afternoon: no key is pressed that the screen before it, or its line in the footer, does not name."""
    first = tmp_path / "sessions" / "first"
    tmux.start("tui")

    # Start a run.
    tmux.find("Press n for a new run")
    tmux.press("n")
    tmux.find("tab next")
    tmux.press("Tab", "Tab", "Tab")
    tmux.type("400")
    tmux.find("rounds +400")
    tmux.press("Tab", "Tab", "Tab")
    tmux.type("federation.group=tiny data.limit=1200")
    tmux.press("Tab")
    tmux.type("first")
    tmux.find("session +first")
    tmux.press("Enter")
    tmux.find(r"first · round [3-9]\d*/400 · running · fedlora")

    # Find the worst client, and see its classes: the list begins with the worst.
    tmux.press("2", "g")
    found = tmux.find(r"(?s)client (\d) after round \d+─.*classes +(\d) ×(\d+)")
    counts = checkpoints.SessionReader(first).document["samples"]["train"][int(found[1])]
    assert int(found[3]) == max(counts) == counts[int(found[2])]

    # Switch the method.
    tmux.press("m")
    tmux.find("letters or ↑↓ method")
    tmux.type("fedproto")
    tmux.press("Enter")
    tmux.find("running · fedproto")

    # Fork at an earlier round, and let it go on beside the first.
    switched = next(e["round"] for e in checkpoints.SessionReader(first).events() if e["event"] == "switched")
    tmux.press("[")
    earlier = int(tmux.find(r"REPLAY round (\d+)")[1])
    while earlier > switched:
        earlier -= 1
        tmux.press("[")
        tmux.find(f"REPLAY round {earlier} ")
    tmux.press("f")
    tmux.find(f"Fork first after round {earlier} ")
    tmux.press(*["BSpace"] * len(f"first-at{earlier}"))
    tmux.type("second")
    tmux.press(*["Tab"] * 5)
    tmux.find("show the fork and run it here")
    tmux.type("run")
    tmux.press("Enter")
    tmux.find(r"second · round \d+/400 · running · fedlora")

    # Lay both over one another.
    tmux.press("s")
    tmux.find("2 sessions in")
    tmux.press("g", "x", "v")
    tmux.find("mean accuracy")
    tmux.find(r"method\.name +(fedlora|fedproto) +(fedlora|fedproto)")

    # Export.
    tmux.press("w")
    tmux.find("CSV +the numbers of this panel")
    tmux.press("Enter")
    written = tmux.find(r"Wrote (\S+\.csv)")[1]
    with (tmp_path / written).open(encoding="utf-8", newline="") as file:
        names = {row["session"] for row in csv.DictReader(file)}
    assert names == {"first", "second"}

    # Leave; what was begun first stops with a checkpoint, the other goes on by itself.
    tmux.press("q")
    tmux.find("second continues in its own process")
    tmux.type("stop")
    tmux.press("Enter")
    tmux.until(lambda: checkpoints.SessionReader(first).state() == "stopped", "stop")
    assert checkpoints.SessionReader(tmp_path / "sessions" / "second").state() == "running"
    subprocess.run([COMMAND, "stop", "second"], cwd=tmp_path, check=True, capture_output=True)
