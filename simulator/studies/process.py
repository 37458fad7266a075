"""A process that runs this very code, apart from the terminal: it hears no Ctrl-C there and writes nothing into it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_BEGIN = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root)\n"
    "from {module} import main; sys.exit(main(sys.argv[1:]))"
)
"""The code that starts a process is what it runs, whatever is installed or lies in the present folder."""
_TAIL = 1 << 14
"""Bytes of a process's last words that are looked at."""


class Process:
    """A process with an end of its own: it goes on when whoever started it is gone."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str | Path],
        pass_fds: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`main` of a module runs on the arguments, with these environment variables in place of those here.

        Raises OSError when the system gives no process.
        """
        # A file without a name: a pipe would break if whoever reads it died first.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BEGIN.format(module=module), _ROOT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                pass_fds=pass_fds,
                env=variables,
                start_new_session=True,
            )
        except BaseException:
            self._words.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, below zero for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait until it has ended, or so long; like `poll`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def send(self, signal: int) -> None:
        """Send it a signal; nothing happens where it has ended."""
        self._process.send_signal(signal)

    def words(self) -> str:
        """Its last words on stderr."""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - _TAIL, 0))
        return self._words.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Let its words go."""
        self._words.close()
