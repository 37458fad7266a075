"""The confusion matrix of a client after a kept round, in a process of its own."""

import json
from pathlib import Path

from simulator.results.analysis.classes import Confusion
from tui.app.child_process import ChildProcess, Progress, carry_out


class ConfusionProcess(ChildProcess[Confusion]):
    """A running computation."""

    module = "tui.app.confusion_process"

    def __init__(self, folder: Path, data_dir: Path, client: int, round: int) -> None:
        """Start with a kept round of the session in `folder`. Raises OSError if the system cannot start a process."""
        super().__init__(folder.absolute(), data_dir.absolute(), client, round)

    def read(self, content: bytes) -> Confusion:
        return Confusion.from_json(json.loads(content))


def main(folder: str, data_dir: str, client: str, round: str) -> int:
    """Write the matrix as JSON to standard output, or the reason of a failure with an exit code."""

    def work(progress: Progress) -> bytes:
        from htfl_sim.sessions import confusion

        found = confusion(folder, int(client), int(round), data_dir=data_dir)
        return json.dumps(found.to_json()).encode()

    return carry_out(work)
