"""t-SNE or CKA of several kept rounds, one after the other, in a process of its own."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from htfl_sim.analysis import CkaMeasurement, Embedding
from tui.app.child_process import ChildProcess, Progress, carry_out

Frames = tuple[Embedding, ...] | tuple[CkaMeasurement, ...]


class FilmProcess(ChildProcess[Frames]):
    """A running computation."""

    module = "tui.app.film_process"

    def __init__(self, folder: Path, data_dir: Path, of: str, images: int, rounds: Sequence[int]) -> None:
        """of: 'tsne' or 'cka', of the session in `folder`. Raises OSError if the system cannot start a process."""
        super().__init__(folder.absolute(), data_dir.absolute(), of, images, *rounds)

    def read(self, content: bytes) -> Frames:
        found = json.loads(content)
        if "tsne" in found:
            return tuple(Embedding.from_bytes(base64.b64decode(each)) for each in found["tsne"])
        return tuple(CkaMeasurement(each["round"], tuple(each["order"]), each) for each in found["cka"])


def main(folder: str, data_dir: str, of: str, images: str, *rounds: str) -> int:
    """Write the frames as JSON to standard output, or the reason of a failure with an exit code."""

    def work(progress: Progress) -> bytes:
        from htfl_sim import filming
        from htfl_sim.analysis import feed

        run, chosen = feed.read(Path(folder)), [int(round) for round in rounds]

        def done(round: int, number: int, frames: int) -> None:
            progress.tell(f"round {round}, {number} of {frames}")

        if of == "tsne":
            found = filming.positions(run, chosen, images=int(images), data_dir=data_dir, done=done)
            texts = [base64.b64encode(each.to_bytes()).decode() for each in found]
            return json.dumps({"tsne": texts}).encode()
        measured = filming.similarities(run, chosen, data_dir=data_dir, done=done)
        return json.dumps({"cka": [{**each.cka, "round": each.round} for each in measured]}).encode()

    return carry_out(work)
