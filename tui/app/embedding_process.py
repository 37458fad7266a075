"""t-SNE in its own process."""

from pathlib import Path

from simulator.base.sections import MANY, SAMPLED
from simulator.results.inspection.client_samples import Embedding
from tui.app.child_process import ChildProcess, carry_out

IMAGES, MOST = 40, 1500
"""Test images of each client, and of all together. More would share cells."""


def images_of(clients: int) -> int:
    """The number of images of each client to draw. With very many clients, SAMPLED of them are drawn."""
    return max(min(IMAGES, MOST // max(looked_at(clients), 1)), 2)


def looked_at(clients: int) -> int:
    """The maximum number of clients whose images are drawn."""
    return clients if clients <= MANY else SAMPLED


class EmbeddingProcess(ChildProcess[Embedding]):
    """A running computation."""

    module = "tui.app.embedding_process"

    def __init__(self, folder: Path, data_dir: Path, round: int, images: int) -> None:
        """Start with a kept round of the session in `folder`. Raises OSError if the system cannot start a process."""
        super().__init__(folder.absolute(), data_dir.absolute(), round, images)

    def read(self, content: bytes) -> Embedding:
        return Embedding.from_bytes(content)


def main(folder: str, data_dir: str, round: str, images: str) -> int:
    """Write the embedding to standard output, or the reason of a failure with an exit code."""
    return carry_out(
        lambda progress: embedding(Path(folder), Path(data_dir), int(round), int(images)).to_bytes()
    )


def embedding(folder: Path, data_dir: Path, round: int, images: int) -> Embedding:
    """t-SNE of the models' features of the same number of test images per client.

    Raises as `htfl_sim.sessions.representations`.
    """
    from htfl_sim.sessions import representations

    return representations(folder, round, images=images, data_dir=data_dir).embedded()
