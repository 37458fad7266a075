"""Work in a real process: what comes of it, how it ends, and that it ends with the app."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from htfl_sim.sessions import confusion, representations, samples_of_clients
from simulator.results.analysis.ledger import CkaMeasurement
from simulator.sessions.reader import CheckedReader
from tests.metrics.test_inspection import session
from tui.app.workers import Worker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return session(tmp_path_factory.mktemp("proto") / "s", "fedproto", cka_every=1)


def test_each_job_gives_what_is_computed_here(measured: Path) -> None:
    data, told = measured.parent / "data", list[str]()
    recorded = CkaMeasurement.of(CheckedReader(measured).records()[1])
    cka = Worker("similarities", measured, data, 2).result(told.append)
    assert recorded is not None and (cka.round, cka.layers) == (2, recorded.layers)
    assert {name: cka.cka[name] for name in recorded.cka} == recorded.cka
    clients = len(cka.clients)
    assert told == [f"client {client} of {clients}" for client in range(1, clients + 1)]
    found = Worker("embeddings", measured, data, 2, 5).result()
    here = representations(measured, 2, images=5, data_dir=data).in_the_plane()
    assert np.allclose(found.points, here.points, atol=1e-3)
    assert Worker("confusions", measured, data, 2, 1).result() == confusion(measured, 1, 2, data_dir=data)
    samples = samples_of_clients(measured, [1, 3], data_dir=data)
    assert Worker("samples", measured, data, 1, 3).result() == samples


def test_it_says_why_there_is_none_and_can_be_ended_at_any_moment(measured: Path) -> None:
    found = Worker("embeddings", measured, measured.parent / "data", 7, 5).result()
    assert isinstance(found, str) and "round 7" in found
    worker = Worker("embeddings", measured, measured.parent / "data", 2, 5)
    worker.cancel()
    assert worker.result() is None


ENDLESS = (
    "import sys, time; root = sys.argv.pop(1); sys.path.insert(0, root); from tui.app import workers\n"
    "workers.compute = lambda *given: time.sleep(3600); sys.exit(workers.main(*sys.argv[1:]))"
)


def test_it_ends_when_the_app_is_killed() -> None:
    begin = (
        f"import time; from pathlib import Path; from tui.app import workers; workers._BEGIN = {ENDLESS!r}\n"
        "begun = workers.Worker('endless', Path('.'), Path('.'))\n"
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
