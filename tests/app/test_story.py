"""A first afternoon in a real terminal, by keys alone: from an empty folder to two methods laid over one another.

tmux is the terminal: it takes keys as a person gives them, and shows what is on its screen. No key is pressed here that
the screen before it, or the key's line in the footer, does not name.
"""

import csv
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from checkpoints import SessionReader

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]
COMMAND = Path(sys.executable).with_name("htfl-sim")
COLUMNS, ROWS = 120, 40
PATIENCE = 600.0
PLAIN = "env -u COLUMNS -u LINES TERM=tmux-256color"  # the terminal has a size of its own
TINY = "federation.group=tiny data.limit=1200 cka.every=1"


class Terminal:
    """The app in a terminal of its own, started in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._call("new-session", "-d", *size, "-c", str(folder), f"{PLAIN} {COMMAND} tui")

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: letters, Enter, Tab, Escape."""
        self._call("send-keys", *keys)

    def type(self, text: str) -> None:
        self._call("send-keys", "-l", text)

    @property
    def screen(self) -> str:
        return self._call("capture-pane", "-p")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first place on the screen that looks so, once there is one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.screen, re.MULTILINE):
                return found
            time.sleep(0.2)
        raise AssertionError(f"'{pattern}' did not come up:\n{self.screen}")

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)

    def _call(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True)
        return done.stdout


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    try:
        yield opened
    finally:
        subprocess.run([COMMAND, "stop", "second"], cwd=tmp_path, check=False, capture_output=True)
        opened.close()


def test_from_an_empty_folder_to_two_methods_laid_over_one_another(
    terminal: Terminal, tmp_path: Path
) -> None:
    first = tmp_path / "sessions" / "first"

    # Start a run.
    terminal.wait_for("Press n for a new run")
    terminal.press("n")
    terminal.wait_for("tab next")
    terminal.press("Tab", "Tab", "Tab")
    terminal.type("400")
    terminal.wait_for("rounds +400")
    terminal.press("Tab", "Tab", "Tab")
    terminal.type(TINY)
    terminal.press("Tab")
    terminal.type("first")
    terminal.wait_for("session +first")
    terminal.press("Enter")
    terminal.wait_for(r"first · round [3-9]\d*/400 · running · fedlora")

    # Find the worst client, and see its classes: the list begins with the worst.
    terminal.press("2", "g")
    worst = int(terminal.wait_for(r"client (\d) after round \d+─")[1])
    counts = SessionReader(first).document["samples"]["train"][worst]
    classes = terminal.wait_for(r"classes +(\d) ×(\d+)")
    assert int(classes[2]) == max(counts) == counts[int(classes[1])]

    # Find the pair least alike.
    terminal.press("3", "d")
    pair = terminal.wait_for(r"client (\d) \w+ × client (\d) \w+: (0\.\d+)")
    shown = int(terminal.wait_for(r"CKA of \w+, round (\d+)")[1])
    matrices = [
        np.array(list(record["cka"]["matrix"].values())[-1], float)
        for record in SessionReader(first).records()[max(shown - 3, 0) : shown]
    ]
    assert any(round(np.nanmin(each), 3) == float(pair[3]) for each in matrices)

    # Switch the method.
    terminal.press("m")
    terminal.wait_for("letters or ↑↓ method")
    terminal.type("fedproto")
    terminal.press("Enter")
    terminal.wait_for("running · fedproto")

    # Fork at an earlier round, and let it go on beside the first.
    switched = next(e["round"] for e in SessionReader(first).events() if e["event"] == "switched")
    terminal.press("[")
    earlier = int(terminal.wait_for(r"REPLAY round (\d+)")[1])
    while earlier > switched:
        earlier -= 1
        terminal.press("[")
        terminal.wait_for(f"REPLAY round {earlier} ")
    terminal.press("f")
    terminal.wait_for(f"Fork first after round {earlier} ")
    terminal.press(*["BSpace"] * len(f"first-at{earlier}"))
    terminal.type("second")
    terminal.press(*["Tab"] * 5)
    terminal.wait_for("show the fork and run it here")
    terminal.type("run")
    terminal.press("Enter")
    terminal.wait_for(r"second · round \d+/400 · running · fedlora")

    # Lay both over one another.
    terminal.press("s")
    terminal.wait_for("2 sessions in")
    terminal.press("g", "x", "v")
    terminal.wait_for("mean accuracy")
    terminal.wait_for(r"method\.name +(fedlora|fedproto) +(fedlora|fedproto)")

    # Export.
    terminal.press("w")
    terminal.wait_for("CSV +the numbers of this panel")
    terminal.press("Enter")
    written = terminal.wait_for(r"Wrote (\S+\.csv)")[1]
    with (tmp_path / written).open(encoding="utf-8", newline="") as file:
        names = {row["session"] for row in csv.DictReader(file)}
    assert names == {"first", "second"}

    # Leave; what was begun first stops with a checkpoint, the other goes on by itself.
    terminal.press("q")
    terminal.wait_for("second continues in its own process")
    terminal.type("stop")
    terminal.press("Enter")
    deadline = time.monotonic() + PATIENCE
    while SessionReader(first).state() != "stopped" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert SessionReader(first).state() == "stopped"
    assert SessionReader(tmp_path / "sessions" / "second").state() == "running"
