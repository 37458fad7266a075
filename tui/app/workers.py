"""Work in processes of their own, by name: CKA, confusion matrices, and t-SNE of a kept round, and clients' samples.

torch, the data, and the computation would delay the app's keys, and a process can be stopped at any moment. It has a
lower priority than a run that trains. It ignores signals for the app's terminal, and ends when the app has ended,
because its standard input is then closed.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from htfl_sim.errors import ConfigError
from simulator.base.sections import MANY, SAMPLED
from simulator.results.analysis.classes import Confusion
from simulator.results.analysis.ledger import CkaMeasurement
from simulator.results.inspection import client_samples
from simulator.results.inspection.client_samples import Embedding
from tui.common.errors import explain

NICE = 5
PROGRESS = b"\r"
"""Begins a line of progress. Neither a result nor the reason of a failure begins with it."""
IMAGES, MOST = 40, 1500
"""Test images of each client, and of all together, for t-SNE. More would share cells."""
Tell = Callable[[str], None]


def images_of(clients: int) -> int:
    """The number of images of each client to draw. With very many clients, SAMPLED of them are drawn."""
    return max(min(IMAGES, MOST // max(looked_at(clients), 1)), 2)


def looked_at(clients: int) -> int:
    """The maximum number of clients whose images are drawn."""
    return clients if clients <= MANY else SAMPLED


def compute(job: str, tell: Tell, folder: str, data_dir: str, *given: str) -> bytes:
    """The result of a job as bytes, in the process. It imports torch, and tells texts about its progress."""
    from htfl_sim import sessions

    numbers = [int(each) for each in given]
    match job:
        case "similarities":

            def done(clients: int, of: int) -> None:
                tell(f"client {clients} of {of}")

            found = sessions.similarity(folder, *numbers, data_dir=data_dir, done=done)
            if not found["order"]:
                none = "No two clients have a layer of the same name, so their models cannot be compared."
                raise ConfigError(none)
            return json.dumps(found).encode()
        case "confusions":
            round, client = numbers
            return json.dumps(sessions.confusion(folder, client, round, data_dir=data_dir).to_json()).encode()
        case "embeddings":  # t-SNE of the features of the same number of test images per client
            round, images = numbers
            features = sessions.representations(folder, round, images=images, data_dir=data_dir)
            return features.in_the_plane().to_bytes()
        case _:
            return client_samples.to_bytes(sessions.samples_of_clients(folder, numbers, data_dir=data_dir))


def _similarity(content: bytes) -> CkaMeasurement:
    found = json.loads(content)
    return CkaMeasurement(found["round"], tuple(found["order"]), found)


JOBS: dict[str, Callable[[bytes], Any]] = {
    "similarities": _similarity,
    "confusions": lambda content: Confusion.from_json(json.loads(content)),
    "embeddings": Embedding.from_bytes,
    "samples": client_samples.from_bytes,
}
"""By the field of View with the results: how the app reads what the process wrote."""

_ROOT = Path(__file__).parents[2]
_BEGIN = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root)\n"
    f"from {__name__} import main; sys.exit(main(*sys.argv[1:]))"
)
"""The code of this app, whatever is installed or in the current folder."""


class Worker:
    """A running process that does one of JOBS."""

    def __init__(self, job: str, folder: Path, data_dir: Path, *arguments: object) -> None:
        """Start it for the session in `folder`. Raises OSError if the system cannot start a process."""
        self._job, self._cancelled = job, False
        given = (folder.absolute(), data_dir.absolute(), *arguments)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BEGIN, str(_ROOT), job, *map(str, given)],
            env=os.environ
            | {"OMP_NUM_THREADS": "1"},  # threads that wait for each other are slow next to a run
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def cancel(self) -> None:
        self._cancelled = True
        self._process.kill()

    def result(self, tell: Tell = lambda text: None) -> Any:
        """Wait for the result, a sentence with the reason of a failure, or None if it was canceled."""
        with self._process as process:
            assert process.stdout is not None
            while (said := process.stdout.readline()).startswith(PROGRESS):
                tell(said.removeprefix(PROGRESS).decode().rstrip())
            said += process.stdout.read()
            process.wait()  # before its standard input closes, which would end it with another code
        if self._cancelled:
            return None
        if process.returncode == 0:
            return JOBS[self._job](said)
        if process.returncode > 0 and said:
            return said.decode(errors="replace")
        how = f"with code {process.returncode}"
        if process.returncode < 0:
            how = f"by {signal.Signals(-process.returncode).name}. Memory may have run out"
        return f"The process that computes it ended {how}."


def main(job: str, *arguments: str) -> int:
    """Write the bytes of a job to standard output, or the reason of a failure. Returns the exit code."""
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    os.nice(NICE)
    lock = threading.Lock()
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # libraries' output would get in between

        def tell(text: str) -> None:
            with lock:  # any thread may
                output.write(PROGRESS + text.encode() + b"\n")
                output.flush()

        try:
            output.write(compute(job, tell, *arguments))
        except Exception as error:
            sentence, code = explain(error)
            output.write(sentence.encode())
            return code or 1
    return 0


def _end_with_the_app() -> None:
    os.read(0, 1)  # not through sys.stdin, whose lock would keep the interpreter from ending
    os._exit(1)
