"""A process that runs this same code apart from the terminal. It receives no Ctrl-C and prints nothing there."""

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
"""A process runs the code that starts it, whatever is installed or in the current folder."""
_TAIL = 1 << 14
"""Bytes read from the end of a process's stderr."""


class Process:
    """An independent process: it continues when its parent dies."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str | Path],
        pass_fds: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run `main` of a module with these arguments and environment variables, which replace the present ones.

        Raises OSError if the system cannot start a process.
        """
        # An unnamed file: a pipe would break if its reader died first.
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
        """Wait for its end, or until the timeout. Returns what `poll` returns."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def send(self, signal: int) -> None:
        """Send it a signal. Does nothing if it has ended."""
        self._process.send_signal(signal)

    def words(self) -> str:
        """The end of its stderr."""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(size - _TAIL, 0))
        return self._words.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Close the file of its stderr."""
        self._words.close()
