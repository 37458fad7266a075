"""`htfl-sim` in processes that have nothing left to import: forked from one that has imported it and done nothing else.

Importing torch takes longer than most of what tests have a process do. These are processes as real as any: with a pid
to signal, files and locks of their own and an exit code. What must be there before the imports (a limit, a variable
that libraries read then, a closed stream) needs a process that begins at the beginning.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    ["tui.cli", "tui.cli.progress", "simulator.sessions.session", "tests.federations", "tests.processes"]
)


class Process:
    """A forked `htfl-sim`, to be waited for and signalled like a `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], log: Path, machine: str | None = None) -> None:
        """It says what it says in `log`, after what is there; on a `machine` of that name."""
        about = ([*map(str, arguments)], str(log), str(Path.cwd()), dict(os.environ), machine)
        self._process: BaseProcess = FORKED.Process(target=_command_line, args=about, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, −N when signal N killed it, None while it lives."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _command_line(
    arguments: list[str], log: str, directory: str, variables: dict[str, str], machine: str | None
) -> None:
    """What the forked process does."""
    from tests.reliability.sessions import pretend_to_be
    from tui.cli import main

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # where the tests themselves run under nohup, it is ignored
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, said, said)):
        os.dup2(file, number)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    if machine is not None:
        pretend_to_be(machine)
    sys.argv = ["htfl-sim", *arguments]
    sys.exit(main())
