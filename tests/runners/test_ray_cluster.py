"""A Ray that is not there, or is too small: one sentence with what to do, before anything is written."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.base.errors import ConfigError
from simulator.contract import Subject
from simulator.data.datasets import data_folder
from simulator.sessions.session import Session
from tests.cli.conftest import TINY

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

from simulator.runners.ray import cluster


@pytest.fixture(autouse=True)
def _as_if_this_process_had_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    for name in cluster.QUIET:
        monkeypatch.setenv(name, "0")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """With what Ray would be started; nothing is."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(cluster.ray, "init", lambda **each: given.update(each))
    monkeypatch.setattr(cluster.ray, "shutdown", given.clear)
    yield given


def refusal(folder: Path, **runtime: Any) -> str:
    """Why a session on Ray is not made."""
    config = Subject("fedavg").config(runtime={"runner": "ray", "workers": 2, **runtime})
    with pytest.raises(ConfigError) as refused:
        Session.create(config, folder / "s", data_folder(None))
    assert not (folder / "s").exists()
    assert refused.value.exit_code == 2
    return str(refused.value)


def test_an_address_where_nobody_answers_is_refused_at_once(tmp_path: Path) -> None:
    for scheme in ("", "ray://"):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and does not listen
            address = f"{scheme}127.0.0.1:{taken.getsockname()[1]}"
            said = refusal(tmp_path, address=address)
        assert said.startswith(f"cannot use Ray at '{address}' (")
        assert said.endswith("or leave that out: Ray then starts on this machine by itself.")


def test_what_ray_says_against_a_cluster_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**given: Any) -> None:
        raise RuntimeError("Version mismatch:\n\n  the cluster has Ray 1.0.\nmore\nand more")

    monkeypatch.setattr(cluster.ray, "init", refuse)
    said = refusal(tmp_path, address="auto")
    assert "cannot use Ray at 'auto' (Version mismatch: the cluster has Ray 1.0); start a cluster" in said


def test_a_cluster_can_be_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: dict[str, Any]
) -> None:
    """Nodes of 1, 3 and, no longer there, 8 cores."""
    nodes = [(1, True), (3, True), (8, False)]
    has = [{"Alive": alive, "Resources": {"CPU": float(cores)}} for cores, alive in nodes]
    monkeypatch.setattr(cluster.ray, "nodes", lambda: has)
    said = refusal(tmp_path, address="auto", threads_per_client=4)
    assert said.startswith("the Ray cluster at 'auto' is too small: no node has 4 CPU cores for an actor; ")
    assert [cluster.room(cluster.Needs(cores, 0)) for cores in (1, 2, 3, 4)] == [4, 1, 1, 0]
    assert cluster.room(cluster.Needs(1, 1)) == 0


def test_a_ray_that_is_started_here_is_as_large_as_the_run_needs_and_the_machine_has_gpus(
    started: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen cores would do for sixteen actors: one has a GPU to compute on. A cluster is taken as it is."""
    assert cluster.connect(cluster.LOCAL, cluster.Needs(3, 0), actors=2, in_transit=2**28 + 1)
    assert (started["address"], started["num_cpus"], started["num_gpus"]) == ("local", 6, 0)
    assert started["object_store_memory"] == 2**28 + 1
    assert started["include_dashboard"] is started["log_to_driver"] is False
    monkeypatch.setattr(cluster.torch.cuda, "device_count", lambda: 1)
    assert cluster.connect(cluster.LOCAL, cluster.Needs(1, 1), actors=16, in_transit=1)
    assert (started["num_cpus"], started["num_gpus"]) == (16, 1)
    started.clear()
    assert not cluster.connect("auto", cluster.Needs(3, 0), actors=2, in_transit=1)
    assert started.keys() == {"address", "logging_level", "log_to_driver"}


@pytest.fixture
def environment_of_a_new_user(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Of somebody with an empty home, whose Ray keeps its files apart."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    (tmp_path / "home").mkdir()
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        own = {"HOME": str(tmp_path / "home"), "HTFL_SESSIONS": str(tmp_path / "sessions")}
        yield kept | own | {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}


def started_node(environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """`ray start` in the foreground, after it has said that it is up; ended with all its processes by SIGTERM."""
    command = [str(Path(sys.executable).with_name("ray")), "start", *words, "--num-cpus=1", "--block"]
    node = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert node.stdout is not None
    said = []
    for line in node.stdout:
        said.append(line)
        if "Ray runtime started" in line:
            return node
    raise AssertionError("".join(said))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_is_shown_the_token_that_it_asks_for(
    environment_of_a_new_user: dict[str, str], tmp_path: Path
) -> None:
    """A run on a Ray of its own leaves ~/.ray/auth_token; with that file, `ray start --head` asks for it."""
    new, with_socket = environment_of_a_new_user, socket.socket()
    with_socket.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{with_socket.getsockname()[1]}"
    with_socket.close()

    def run(session: str, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        asked = [*TINY, "--rounds=1", "--runner=ray", f"--session={session}", *words]
        command = [str(Path(sys.executable).with_name("htfl-sim")), "run", *asked]
        return subprocess.run(command, env=new | changes, capture_output=True, text=True, cwd=tmp_path)

    first = run("local")
    assert first.returncode == 0, first.stderr
    token = Path(new["HOME"], ".ray", "auth_token").read_text(encoding="utf-8")
    nodes = [started_node(new, "--head", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false")]
    try:
        nodes.append(started_node(new | {"RAY_AUTH_MODE": "token"}, f"--address={address}"))
        there = f"--set=runtime.address={address}"
        done = run("cluster", there, "--workers=2")
        assert done.returncode == 0, done.stderr
        refused = run("stranger", there, HOME=str(tmp_path))
        assert refused.returncode == 2 and "asks for a token, and this process shows none" in refused.stderr
        shown = run("guest", there, HOME=str(tmp_path), RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=token)
        assert shown.returncode == 0, shown.stderr
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait(600)
