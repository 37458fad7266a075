"""Sessions of many clients, with CKA: every command that reads one can read what a run wrote."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from checkpoints import SessionReader, limits
from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.sessions.metadata import check_size
from tests.cli.conftest import Cli, Result
from tests.sessions import make_large

ROUNDS = 3


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """8,008 images of noise, so that 1,001 clients have eight each."""
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (8008, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", images=images, labels=np.arange(8008) % 2)
    return tmp_path / "noise.npz"


SMALL = (
    "run --session=s --method=standalone --set=federation.group=tiny_cnn --set=federation.participation=0.02 "
    "--set=data.partition=iid --set=data.split=2:2 --set=cka.every=2 --set=cka.untrained=true --set=cka.probe=4"
)


def run(cli: Cli, images: Path, clients: int, *settings: str) -> Result:
    given = (f"--dataset={images}", f"--clients={clients}", f"--rounds={ROUNDS}")
    return cli(*SMALL.split(), *given, *settings)


def ran(cli: Cli, images: Path, clients: int, *settings: str) -> None:
    done = run(cli, images, clients, *settings)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    "clients",
    [
        100,
        *(pytest.param(clients, marks=pytest.mark.slow) for clients in (499, 500, 1000)),
        pytest.param(1001, marks=pytest.mark.long),
    ],
)
def test_what_a_run_of_so_many_clients_wrote_can_be_read(
    clients: int, cli: Cli, sessions: Path, images: Path
) -> None:
    ran(cli, images, clients)
    lines = (sessions / "s" / "ledger.jsonl").read_bytes().splitlines()
    cka = json.loads(lines[1])["cka"]
    compared = cka.get("clients", range(clients))
    assert len(compared) == 100
    assert {len(matrix) for matrix in cka["matrix"].values()} == {100}
    assert max(map(len, lines)) < 500_000
    for command in (
        ("show", "s"),
        ("show", "s", "--json"),
        ("verify", "s"),
        ("fork", "s", "--at-round=2", "--session=f"),
        ("resume", "s", "--rounds=4"),
        *(("export", "s", f"--what={table}") for table in ("rounds", "clients", "cka", "partition")),
        ("compare", "s", "f"),
    ):
        done = cli(*command)
        assert done.code == 0, (command, done.err)
    pairs = cli("export", "s", "--what=cka").out.splitlines()
    layers = len(cka["order"])
    assert len(pairs) == 1 + 2 * layers * 100 * 99 // 2  # rounds 2 and 4


@pytest.mark.slow
def test_a_session_whose_matrices_are_of_everybody_can_be_read(cli: Cli, images: Path) -> None:
    """As before a session drew whom it compares: 499 clients, and 1,000,000 values were too many."""
    ran(cli, images, 499, "--set=cka.clients=1000", "--set=evaluation.metrics_for=changed")
    for command in ("show", "verify"):
        assert cli(command, "s").code == 0


NO_CLASSES = "--set=evaluation.classes=false"
NEWS = "--set evaluation.metrics_for=changed --set evaluation.initial=skip"


@pytest.mark.long
def test_a_too_large_first_round_is_refused(cli: Cli, images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of 100 clients takes more than 3,000 bytes, and that of the clients that changed fewer.

    Counts by class are the largest part, and the first to leave out.
    """
    monkeypatch.setattr(limits, "RECORD", 3_000)
    refused = run(cli, images, 100, "--set=cka.every=0")
    assert refused.code == 2
    assert "Its largest part is evaluation (" in refused.err
    assert f"Use {NO_CLASSES.replace('=', ' ', 1)}." in refused.err
    refused = run(cli, images, 100, "--set=cka.every=0", NO_CLASSES)
    assert refused.code == 2
    assert "The record of round 1 has" in refused.err and "at most 3,000 can be read back." in refused.err
    assert "Use --set evaluation.metrics_for=changed and --set evaluation.initial=skip." in refused.err
    ran(cli, images, 100, "--set=cka.every=0", NO_CLASSES, *NEWS.split())
    assert cli("verify", "s").code == 0


@pytest.mark.long
@pytest.mark.parametrize("every", [1, 10])
def test_a_later_round_too_large_to_be_read_back_leaves_those_before_it(
    every: int, cli: Cli, sessions: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round 2 measures CKA. Round 1 gets its checkpoint, though only every tenth round would."""
    monkeypatch.setattr(limits, "RECORD", 20_000)
    refused = run(cli, images, 100, f"--set=checkpoint.every={every}", "--set=cka.every=2")
    remedy = "htfl-sim switch s --set cka.every=0"
    assert refused.code == 2 and "The record of round 2 has" in refused.err
    assert "Its largest part is cka (" in refused.err
    assert f"Run `{remedy}`, then `htfl-sim resume s`." in refused.err
    left = SessionReader(sessions / "s")
    assert (left.state(), left.rounds(), len(left.records())) == ("stopped", [1], 1)
    assert cli(*remedy.split()[1:]).code == 0
    resumed = cli("resume", "s")
    assert resumed.code == 0 and "computed again" not in resumed.out + resumed.err
    assert cli("verify", "s").code == 0


TOO_MANY = [
    (
        {"rounds": 3, "federation": {"clients": 300_000, "participation": 1.0}},
        "A round would have 300,000 participants, and its record has room for 200,000. Use a smaller "
        "federation.participation.",
    ),
    (
        {"rounds": 10, "federation": {"clients": 600_000, "participation": 0.1}},
        "600,001 states would have to be kept, and a checkpoint has room for 500,000. Use fewer "
        "federation.clients, a smaller federation.participation, or fewer rounds.",
    ),
]


def test_more_clients_than_a_checkpoint_can_name_are_refused() -> None:
    for settings, sentence in TOO_MANY:
        with pytest.raises(ConfigError) as refused:
            check_size(Config.read({"method": {"name": "standalone"}, **settings}))
        assert str(refused.value) == sentence


LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
"""A small process that starts the measured one: Linux counts a parent's memory at the fork as the child's peak."""
APP = """
import asyncio, os, sys, time
from pathlib import Path
from tui.app.app import HtflApp
from tui.app.runs import LaunchOptions

async def drawn(folder, keys):
    shown = HtflApp(LaunchOptions(folder.parent, folder.parent), folder)
    async with shown.run_test(size=(120, 40)) as pilot:
        began = time.monotonic()
        while not shown.view.run.round:
            assert time.monotonic() - began < 60, shown.view.run.error
            await pilot.pause(0.05)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        os._exit(0)

asyncio.run(drawn(Path(sys.argv[1]), "yyy2345678"))
"""
"""The app opens a session, draws it with all modes of the accuracy chart, and then all panels after Live."""
SHOW = "import sys; from tui.cli import main; sys.exit(main(['show', sys.argv[1]]))"


@pytest.mark.slow
@pytest.mark.parametrize("program", [SHOW, APP], ids=["show", "app"])
def test_a_hundred_thousand_clients_open_in_half_a_gigabyte(program: str, tmp_path: Path) -> None:
    folder = make_large(tmp_path / "large", 100_000, 500)
    opened = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(
        [sys.executable, "-IS", "-c", LAUNCHER, *opened], stdout=subprocess.PIPE, check=True
    )
    assert int(done.stdout) * 1024 < 500e6
