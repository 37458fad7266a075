"""t-SNE, CKA, and samples in a real process: what comes of it, how it ends, and that it ends with the app."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from htfl_sim.sessions import confusion, records, samples_of_clients
from simulator.results.analysis.ledger import CkaMeasurement
from simulator.results.inspection.client_samples import Embedding
from tests.metrics.test_representations import session
from tui.app.child_process import ChildProcess, carry_out
from tui.app.cka_process import CkaProcess
from tui.app.confusion_process import ConfusionProcess
from tui.app.embedding_process import EmbeddingProcess, embedding
from tui.app.samples_process import SamplesProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fedproto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session(tmp_path_factory.mktemp("proto") / "s", "fedproto")


def test_it_gives_what_is_computed_here(fedproto: Path) -> None:
    data = fedproto.parent / "data"
    found = EmbeddingProcess(fedproto, data, 2, 5).result()
    assert isinstance(found, Embedding)
    assert np.allclose(found.points, embedding(fedproto, data, 2, 5).points, atol=1e-3)


def test_cka_is_what_the_run_measured(tmp_path: Path) -> None:
    folder, told = session(tmp_path / "s", "fedproto", cka_every=1), list[str]()
    found = CkaProcess(folder, tmp_path / "data", 2).result(told.append)
    assert isinstance(found, CkaMeasurement)
    recorded = CkaMeasurement.of(records(folder)[1])
    assert recorded is not None
    assert (found.round, found.layers) == (2, recorded.layers)
    assert {name: found.cka[name] for name in recorded.cka} == recorded.cka
    clients = len(found.clients)
    assert told == [f"client {client} of {clients}" for client in range(1, clients + 1)]


def test_a_confusion_matrix_is_the_one_computed_here(fedproto: Path) -> None:
    data = fedproto.parent / "data"
    assert ConfusionProcess(fedproto, data, 1, 2).result() == confusion(fedproto, 1, 2, data_dir=data)


def test_samples_are_those_that_are_read_here(fedproto: Path) -> None:
    data = fedproto.parent / "data"
    assert SamplesProcess(fedproto, data, [1, 3]).result() == samples_of_clients(
        fedproto, [1, 3], data_dir=data
    )


def test_it_says_why_there_is_none(fedproto: Path) -> None:
    found = EmbeddingProcess(fedproto, fedproto.parent / "data", 7, 5).result()
    assert isinstance(found, str) and "round 7" in found


def test_it_can_be_ended_at_any_moment(fedproto: Path) -> None:
    process = EmbeddingProcess(fedproto, fedproto.parent / "data", 2, 5)
    process.cancel()
    assert process.result() is None


class Endless(ChildProcess[bytes]):
    """Work that does not end by itself."""

    module = __name__

    def read(self, content: bytes) -> bytes:
        return content


def main() -> int:
    return carry_out(lambda progress: time.sleep(3600) or b"")


def test_it_ends_when_the_app_is_killed() -> None:
    begin = (
        f"import time; from {__name__} import Endless; begun = Endless()\n"
        "print(begun._process.pid, flush=True); time.sleep(3600)"
    )
    root = Path(__file__).parents[2]
    app = subprocess.Popen([sys.executable, "-c", begin], stdout=subprocess.PIPE, text=True, cwd=root)
    assert app.stdout is not None
    child = int(app.stdout.readline())
    app.kill()
    app.wait()
    deadline = time.monotonic() + 600
    while _is_there(child):
        assert time.monotonic() < deadline, "the process outlives the app"
        time.sleep(0.05)


def _is_there(process: int) -> bool:
    """Whether a process is at work; one that has ended waits for whoever collects it."""
    try:
        os.kill(process, 0)
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
