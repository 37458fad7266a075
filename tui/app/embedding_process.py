"""t-SNE in its own process.

torch, the models, and the computation would delay the app's keys, and a process can be stopped at any moment. It has a
lower priority than a run that trains. It ignores signals for the app's terminal, and ends when the app has ended,
because its standard input is then closed.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from htfl_sim.analysis import MANY, SAMPLED, Embedding
from tui.common.errors import explain

IMAGES, MOST = 40, 1500
"""Test images of each client, and of all together. More would share cells."""
NICE = 5
_ROOT = Path(__file__).parents[2]
_BEGIN = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root)\n"
    "from tui.app.embedding_process import main; sys.exit(main(*sys.argv[1:]))"
)
"""The code of this app, whatever is installed or in the current folder."""


def images_of(clients: int) -> int:
    """The number of images of each client to draw. With very many clients, SAMPLED of them are drawn."""
    return max(min(IMAGES, MOST // max(looked_at(clients), 1)), 2)


def looked_at(clients: int) -> int:
    """The maximum number of clients whose images are drawn."""
    return clients if clients <= MANY else SAMPLED


class EmbeddingProcess:
    """A running computation."""

    def __init__(self, folder: Path, data_dir: Path, round: int, images: int) -> None:
        """Start with a kept round of the session in `folder`. Raises OSError if the system cannot start a process."""
        self._cancelled = False
        what: list[str | Path] = [folder.absolute(), data_dir.absolute(), str(round), str(images)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BEGIN, _ROOT, *what],
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
            },  # threads that wait for each other are slow next to a run
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def cancel(self) -> None:
        """Stop it at once."""
        self._cancelled = True
        self._process.kill()

    def result(self) -> Embedding | str | None:
        """Wait for the result: the embedding, a sentence with the reason of a failure, or None if it was canceled."""
        with self._process as process:
            assert process.stdout is not None
            said = process.stdout.read()
            process.wait()  # before its standard input closes, which would end it with another code
        if self._cancelled:
            return None
        if process.returncode == 0:
            return Embedding.from_bytes(said)
        if process.returncode > 0 and said:
            return said.decode(errors="replace")
        how = f"with code {process.returncode}"
        if process.returncode < 0:
            how = f"by {signal.Signals(-process.returncode).name}. Memory may have run out"
        return f"The process that computes it ended {how}."


def main(folder: str, data_dir: str, round: str, images: str) -> int:
    """Write the embedding to standard output, or the reason of a failure with an exit code."""
    threading.Thread(target=_end_with_the_app, daemon=True).start()
    os.nice(NICE)
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # libraries' output would get in between
        try:
            output.write(embedding(Path(folder), Path(data_dir), int(round), int(images)).to_bytes())
        except Exception as error:
            sentence, code = explain(error)
            output.write(sentence.encode())
            return code or 1
    return 0


def embedding(folder: Path, data_dir: Path, round: int, images: int) -> Embedding:
    """t-SNE of the models' features of the same number of test images per client.

    Raises as `htfl_sim.sessions.representations`.
    """
    from htfl_sim.sessions import representations

    found = representations(folder, round, images=images, data_dir=data_dir)
    points, anchors = found.in_the_plane()
    return Embedding(
        found.round, points, found.labels, found.clients, found.classes,
        anchors, found.anchor_labels, found.anchor_kind,
    )  # fmt: skip


def _end_with_the_app() -> None:
    os.read(0, 1)  # not through sys.stdin, whose lock would keep the interpreter from ending
    os._exit(1)
