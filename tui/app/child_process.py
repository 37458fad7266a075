"""Work in a process of its own.

torch, the data, and the computation would delay the app's keys, and a process can be stopped at any moment. It has a
lower priority than a run that trains. It ignores signals for the app's terminal, and ends when the app has ended,
because its standard input is then closed.
"""

import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, ClassVar, Generic, TypeVar

from tui.common.errors import explain

NICE = 5
PROGRESS = b"\r"
"""Begins a line of progress. Neither a result nor the reason of a failure begins with it."""
_ROOT = Path(__file__).parents[2]
_BEGIN = (
    "import sys, importlib; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root)\n"
    "sys.exit(importlib.import_module(sys.argv[1]).main(*sys.argv[2:]))"
)
"""The code of this app, whatever is installed or in the current folder."""

Found = TypeVar("Found")


class ChildProcess(ABC, Generic[Found]):
    """A running process of this program. `module` has the function `main`, which ends with `carry_out`."""

    module: ClassVar[str]

    def __init__(self, *arguments: object) -> None:
        """Start it. Raises OSError if the system cannot start a process."""
        self._cancelled = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BEGIN, str(_ROOT), self.module, *map(str, arguments)],
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
            },  # threads that wait for each other are slow next to a run
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @abstractmethod
    def read(self, content: bytes) -> Found:
        """The result from the bytes that the process wrote."""

    def cancel(self) -> None:
        """Stop it at once."""
        self._cancelled = True
        self._process.kill()

    def result(self, tell: Callable[[str], None] = lambda text: None) -> Found | str | None:
        """Wait for the result, a sentence with the reason of a failure, or None if it was canceled.

        tell: receives each text of `Progress`.
        """
        with self._process as process:
            assert process.stdout is not None
            while (said := process.stdout.readline()).startswith(PROGRESS):
                tell(said.removeprefix(PROGRESS).decode().rstrip())
            said += process.stdout.read()
            process.wait()  # before its standard input closes, which would end it with another code
        if self._cancelled:
            return None
        if process.returncode == 0:
            return self.read(said)
        if process.returncode > 0 and said:
            return said.decode(errors="replace")
        how = f"with code {process.returncode}"
        if process.returncode < 0:
            how = f"by {signal.Signals(-process.returncode).name}. Memory may have run out"
        return f"The process that computes it ended {how}."


class Progress:
    """Lines about the work, before its result."""

    def __init__(self, output: BinaryIO) -> None:
        self._output, self._lock = output, threading.Lock()

    def tell(self, text: str) -> None:
        """Report what has been done. Any thread may."""
        with self._lock:
            self._output.write(PROGRESS + text.encode() + b"\n")
            self._output.flush()


def carry_out(work: Callable[[Progress], bytes]) -> int:
    """Write the work's bytes to standard output, or the reason of a failure. Returns the exit code."""
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    os.nice(NICE)
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # libraries' output would get in between
        try:
            output.write(work(Progress(output)))
        except Exception as error:
            sentence, code = explain(error)
            output.write(sentence.encode())
            return code or 1
    return 0


def _end_with_the_app() -> None:
    os.read(0, 1)  # not through sys.stdin, whose lock would keep the interpreter from ending
    os._exit(1)
