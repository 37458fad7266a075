"""CKA of a kept round, in a process of its own."""

import json
from pathlib import Path

from simulator.results.analysis.ledger import CkaMeasurement
from tui.app.child_process import ChildProcess, Progress, carry_out


class CkaProcess(ChildProcess[CkaMeasurement]):
    """A running computation."""

    module = "tui.app.cka_process"

    def __init__(self, folder: Path, data_dir: Path, round: int) -> None:
        """Start with a kept round of the session in `folder`. Raises OSError if the system cannot start a process."""
        super().__init__(folder.absolute(), data_dir.absolute(), round)

    def read(self, content: bytes) -> CkaMeasurement:
        found = json.loads(content)
        return CkaMeasurement(found["round"], tuple(found["order"]), found)


def main(folder: str, data_dir: str, round: str) -> int:
    """Write CKA as JSON to standard output, or the reason of a failure with an exit code."""

    def work(progress: Progress) -> bytes:
        from htfl_sim.errors import ConfigError
        from htfl_sim.sessions import similarity

        def done(clients: int, of: int) -> None:
            progress.tell(f"client {clients} of {of}")

        found = similarity(folder, int(round), data_dir=data_dir, done=done)
        if not found["order"]:
            raise ConfigError(
                "No two clients have a layer of the same name, so their models cannot be compared."
            )
        return json.dumps(found).encode()

    return carry_out(work)
