"""Samples of clients, read in a process of its own."""

from collections.abc import Sequence
from pathlib import Path

from simulator.results.inspection import client_samples
from simulator.results.inspection.client_samples import ClientSamples
from tui.app.child_process import ChildProcess, Progress, carry_out


class SamplesProcess(ChildProcess[tuple[ClientSamples, ...]]):
    """A running process that reads samples."""

    module = "tui.app.samples_process"

    def __init__(self, folder: Path, data_dir: Path, clients: Sequence[int]) -> None:
        """Start with these clients of the session in `folder`. Raises OSError if the system cannot start a process."""
        super().__init__(folder.absolute(), data_dir.absolute(), *clients)

    def read(self, content: bytes) -> tuple[ClientSamples, ...]:
        return client_samples.from_bytes(content)


def main(folder: str, data_dir: str, *clients: str) -> int:
    """Write the samples to standard output, or the reason of a failure with an exit code."""
    from htfl_sim.sessions import samples_of_clients

    def work(progress: Progress) -> bytes:
        found = samples_of_clients(folder, [int(client) for client in clients], data_dir=data_dir)
        return client_samples.to_bytes(found)

    return carry_out(work)
