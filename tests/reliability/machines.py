"""Machines that share a folder over which no lock reaches, each played by processes of this one.

`python -m tests.reliability.machines NAME ARGUMENT…` is `htfl-sim ARGUMENT…` on the machine of that name.
"""

import sys

from checkpoints import lock, machine
from tests.reliability.sessions import COMMAND


def pretend_to_be(name: str) -> None:
    """From now on this process runs on a machine of that name, and its locks bind nobody elsewhere."""
    machine.host = lambda: name
    machine.machine_id = lambda: name
    machine.boot_id = lambda: f"the boot of {name}"
    lock.fcntl.flock = lambda *_: None
    # Heartbeats are seen at once here; a real share may show them late.
    lock.WATCH_SECONDS, lock.SETTLE_SECONDS = 1.6, 0.1


def on(name: str) -> tuple[str, ...]:
    """What to begin a command with, so that it runs on that machine; it takes the place of `htfl-sim`."""
    return (sys.executable, "-m", "tests.reliability.machines", name)


if __name__ == "__main__":
    from tui.cli import main

    pretend_to_be(sys.argv[1])
    given = sys.argv[2:]
    sys.exit(main(given[1:] if given[:1] == [str(COMMAND)] else given))
