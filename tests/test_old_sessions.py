"""Sessions that an earlier version of htfl-sim made: they resume, and continue to the bits that version gives."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from simulator.sessions.session import Session
from tests import federations

pytestmark = pytest.mark.slow

OLD = "f5d3c2c"
"""The last commit before runners, hooks and server phases; its sessions are of format 1."""

ROOT = Path(__file__).parents[1]

MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "contrast": ("fedclassavg", {"method": {"contrast": 1.0}}),
    "header_epochs": ("fedgh", {"method": {"server_epochs": 3}}),
    "momentum": ("fednova", {"training": {"momentum": 0.9}}),
    "adam": ("fedlora", {"training": {"optimizer": "adam", "lr": 0.001}}),
    "aggregated": ("inco_scaffold", {"evaluation": {"model": "aggregated"}}),
    "aggregated_moon": ("moon", {"evaluation": {"model": "aggregated"}}),
    "warm": ("fedl2g_l", {"method": {"t_warm": 1}}),
    "noise": ("fedkd", {"wire": {"noise": 0.1, "drop": 0.3}, "cka": {"every": 2}}),
}
"""Beside every method with its defaults: settings that reach other code."""

MAKE = """
import json, shutil, sys
from pathlib import Path
from simulator import methods
from simulator.session import Session
from tests import federations

folder = Path(sys.argv[1])
runs = {name: (name, {}) for name in methods.names()} | json.loads(sys.argv[2])
with federations.on_images(federations.generated()):
    for label, (method, sections) in runs.items():
        config = federations.config(method, **{"rounds": 4, **sections})
        with Session.create(config, folder / "begun" / label, folder) as session:
            session.run(stop=lambda: "enough" if session.round == 2 else None)
        shutil.copytree(folder / "begun" / label, folder / "finished" / label)
        Session.resume(folder / "finished" / label, folder).run()
"""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`begun/LABEL`: two rounds of four, by the old version; `finished/LABEL`: the same, continued by it."""
    folder = tmp_path_factory.mktemp("old")
    archive = subprocess.run(["git", "archive", OLD], cwd=ROOT, capture_output=True)
    if archive.returncode:
        pytest.skip(f"the history of this checkout does not reach back to {OLD}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder / "code", filter="data")
    command = [sys.executable, "-c", MAKE, str(folder), json.dumps(MORE)]
    subprocess.run(
        command, cwd=folder / "code", env=os.environ | {"PYTHONPATH": str(folder / "code")}, check=True
    )
    return folder


def test_sessions_of_every_method_continue_to_the_same_bits(made: Path) -> None:
    labels = sorted(path.name for path in (made / "begun").iterdir())
    assert len(labels) == 23 + len(MORE)
    different = []
    for label in labels:
        with federations.on_images(federations.generated()):
            Session.resume(made / "begun" / label, made).run()
        (now, states), (then, before) = (
            federations.committed(made / part / label) for part in ("begun", "finished")
        )
        if states != before or not all(map(says_all, now, then)):
            different.append(label)
    assert different == []


def says_all(now: Any, then: Any) -> bool:
    """Whether a record says what the earlier version's does; it may say more."""
    if isinstance(then, dict):
        return all(key in now and says_all(now[key], value) for key, value in then.items())
    return bool(now == then)
