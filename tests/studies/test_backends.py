"""Where a sweep's points are carried out: what is refused before anything is written, and what a point takes there."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from simulator.base.errors import ConfigError
from simulator.config import Config
from simulator.config.user_files import Files
from simulator.studies.executor import Here, Launch
from simulator.studies.study import Point, StudySpec
from simulator.studies.sweep import backend, plan
from tests.cli.conftest import TINY, Cli, assert_refused, cli, sessions

__all__ = ["cli", "sessions"]
ASKED = ("sweep", "t", *TINY, "--rounds=1", "--over=method=standalone,fedgh")
LAUNCH = Launch(Path("data"))


def point(name: str = "p", **runtime: Any) -> Point:
    config = Config.read({"method": {"name": "standalone"}, "runtime": runtime})
    return Point(name, {}, config.to_json())


def test_points_run_here_say_of_a_share_of_a_gpu_that_it_changes_nothing() -> None:
    [warning] = Here([point(gpus_per_point=0.25)], LAUNCH, jobs=4).warnings
    assert "gpus_per_point = 0.25 changes nothing here" in warning and "`jobs`" in warning
    assert Here([point()], LAUNCH, jobs=4).warnings == ()


def test_a_point_is_launched_as_asked_also_with_numbers_of_numpy_and_devices_of_torch() -> None:
    folder = Path(os.fsdecode(b"/data/\xe9"))
    asked: Any = (folder, np.int64(2), torch.device("cpu"), Files(models=("/m.py",)), True, np.bool_(False))
    arrived = Launch.of(json.loads(Launch(*asked).to_json(lifeline=3))["launch"])
    assert arrived == Launch(folder, 2, "cpu", Files(models=("/m.py",)), allow_inexact=True, reuse=False)
    assert arrived.reuse is False


def test_a_point_takes_a_share_of_one_gpu() -> None:
    for share in (0, 1.5, -1):
        with pytest.raises(ConfigError, match="gpus_per_point"):
            point(gpus_per_point=share)


def test_a_single_run_has_no_use_for_it(cli: Cli) -> None:
    refused = cli("run", *TINY, "--set=runtime.gpus_per_point=0.25")
    assert_refused(refused, 2, "runtime.gpus_per_point changes nothing here", "studies on Ray")


def test_where_points_run_may_be_said_anew_and_is_no_change_of_the_study(tmp_path: Path) -> None:
    def asked(**runtime: Any) -> StudySpec:
        method = {"name": "standalone"}
        return StudySpec(config={"method": method, "runtime": runtime}, over={"seed": (0, 1)})

    plan(tmp_path / "t", asked(threads_per_client=2)).open().close("stopped")
    again = plan(tmp_path / "t", asked(address="auto", gpus_per_point=0.5, threads_per_client=4))
    runtime = again.points[1].config["runtime"]
    assert (runtime["address"], runtime["gpus_per_point"], runtime["threads_per_client"]) == ("auto", 0.5, 2)
    again.open().close("stopped")
    assert plan(tmp_path / "t").points == again.points


class TestOnRay:
    """A cluster of made-up nodes: of 4 cores and 2 GPUs, of 8 cores, and one of 64 that is no longer there."""

    @pytest.fixture(autouse=True)
    def _nodes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
        from simulator.runners.ray import cluster

        has = [(True, {"CPU": 4.0, "GPU": 2.0}), (True, {"CPU": 8.0}), (False, {"CPU": 64.0})]
        nodes = [{"Alive": alive, "Resources": each, "NodeID": f"{each['CPU']:g}"} for alive, each in has]
        monkeypatch.setattr(cluster.ray, "nodes", lambda: nodes)
        monkeypatch.setattr(cluster.ray, "is_initialized", lambda: True)
        monkeypatch.setattr("simulator.studies.on_ray.refuse_mixed", lambda needs: None)

    def test_a_point_takes_its_clients_cores_and_its_share_of_a_gpu(self) -> None:
        """Nine points; with `jobs`, each has as many cores as let so many run at once."""
        cases: list[tuple[int | None, dict[str, Any], tuple[int, float], int]] = [
            (None, {"device": "cpu"}, (1, 0), 12),
            (None, {"device": "cpu", "threads_per_client": 3}, (3, 0), 1 + 2),
            (None, {"device": "cpu", "workers": 4}, (4, 0), 1 + 2),
            (None, {"device": "auto"}, (1, 1), 2),
            (None, {"device": "cuda", "gpus_per_point": 0.5}, (1, 0.5), 4),
            (None, {"device": "cuda", "gpus_per_point": 0.25}, (1, 0.25), 4),
            (None, {"device": "cuda", "gpus_per_point": 0.3}, (1, 0.3), 4),
            (3, {"device": "cpu"}, (4, 0), 3),
            (1, {"device": "cpu"}, (8, 0), 1),
            (2, {"device": "cuda"}, (2, 1), 2),
        ]
        for jobs, runtime, needs, room in cases:
            there: Any = backend("ray")([point(str(each), **runtime) for each in range(9)], LAUNCH, jobs)
            assert (there._needs["0"], there.room) == (needs, room), (jobs, runtime)

    def test_points_that_have_no_place_there_are_refused(self) -> None:
        for points, words in (
            (
                [point(workers=9, device="cpu")],
                r"too small: no node has 9 CPU cores for point p.*runtime\.workers",
            ),
            ([point(workers=8, device="cuda", gpus_per_point=0.5)], r"8 CPU cores and 0\.5 of a GPU"),
            ([point(), point("q", runner="ray")], "point q trains its clients on Ray.*Leave out `on='ray'`"),
            ([point(), point("q", address="auto")], r"2 clusters \(local, auto\).*runtime\.address"),
        ):
            with pytest.raises(ConfigError, match=words):
                backend("ray")(points, LAUNCH, None)

    def test_a_session_is_sent_piece_by_piece(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each is read once the node has the one before it, and the session is held until the last one."""
        from simulator.runners.ray.cluster import Needs
        from simulator.studies.on_ray import RemotePoint

        steps = list[str]()

        def pack(session: Path, live: bool) -> Iterator[str]:
            for piece in "ab":
                steps.append(f"read {piece}")
                yield piece
            steps.append("released")

        monkeypatch.setattr("simulator.studies.on_ray.checkpoints.pack", pack)
        remote = RemotePoint(point(), Path("t"), "", LAUNCH, Needs(1, 0))
        monkeypatch.setattr(remote, "_of", lambda sent: sent)
        receive = SimpleNamespace(remote=lambda name, piece: steps.append(f"sent {piece}"))
        remote._send(SimpleNamespace(receive=receive), Path("t/p"), "t/p")
        assert steps == ["read a", "sent a", "read b", "sent b", "released", "sent None"]

    def test_where_no_point_computes_on_a_gpu_a_share_of_one_is_said_to_change_nothing(self) -> None:
        there = backend("ray")([point(device="cpu", gpus_per_point=0.5)], LAUNCH, None)
        assert "gpus_per_point = 0.5 changes nothing here: no point computes on a GPU" in there.warnings[0]


def test_nodes_that_would_not_give_the_same_bits_are_named_with_what_differs() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
    from simulator.studies.on_ray import NodeInfo, refuse_unlike

    here = {"torch": "2.6", "device": "cpu (AVX2)", "cpu": "one", "python": "3.11"}
    refuse_unlike([NodeInfo("a", here), NodeInfo("b", {**here, "python": "3.12"})])
    with pytest.raises(
        ConfigError, match=r"nodes a and c would not give the same bits \(torch 2\.6 → 2\.7\)"
    ):
        refuse_unlike([NodeInfo("a", here), NodeInfo("b", here), NodeInfo("c", {**here, "torch": "2.7"})])
    with pytest.raises(ConfigError, match="node b: device 'cuda' is not available here"):
        refuse_unlike([NodeInfo("a", here), NodeInfo("b", {}, "device 'cuda' is not available here")])


def test_without_ray_the_line_that_installs_it_is_said(
    cli: Cli, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [each for each in sys.modules if each.startswith("simulator.studies.on_ray")]:
        monkeypatch.delitem(sys.modules, name)
    assert_refused(
        cli(*ASKED, "--on=ray"), 2, "needs Ray, which is not installed", "`pip install 'ray[client]>="
    )
    assert not (sessions / "t").exists()
