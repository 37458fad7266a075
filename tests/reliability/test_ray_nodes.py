"""A node of two whose raylet is killed -9 while it computes clients: the other goes on, to the same bits."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from simulator.contract import Subject
from simulator.engine.progress import ClientStarted, EvaluationStarted, Event, Warned
from simulator.engine.round import Engine
from tests import federations

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

SOON = {"health_check_period_ms": 1000, "health_check_failure_threshold": 4}
"""A cluster that finds out in seconds that a node is gone whose port is closed, and not in a quarter of a minute."""


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, on this machine."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": SOON}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes.add_node(num_cpus=1)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


class Silence:
    """The end of the node that is not the head's, in round 2: its actor stands still, and its raylet is killed."""

    def __init__(self, engine: Engine, nodes: Any, moment: type[Event]) -> None:
        self._engine, self._nodes, self._moment = engine, nodes, moment
        self.halted: list[int] = []
        self.warnings: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.message)
        if isinstance(event, self._moment) and event.round == 2 and not self.halted:
            [node] = self._nodes.worker_nodes
            members = self._engine._runner._pool._joined.values()
            [actor] = [facts.pid for facts in members if facts.node == node.node_id]
            os.kill(actor, signal.SIGSTOP)
            self.halted.append(actor)
            [raylet] = node.all_processes["raylet"]
            os.kill(raylet.process.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("moment", [ClientStarted, EvaluationStarted])
@pytest.mark.parametrize("held", ["sequential", "stacked"])
def test_a_node_that_falls_silent_at_work_loses_nothing(held: str, moment: type[Event], cluster: Any) -> None:
    """As a machine that loses its power: who computed there sends nothing, not even that he ended."""
    subject = Subject("fedlora")
    there = {"runner": "ray", "address": cluster.address, "workers": 2, "inner": held}
    everybody = {"federation": {"clients": 8, "participation": 1.0}}
    engine = subject.built(**everybody, runtime=there).engine
    assert [place.workers for place in engine.open()] == [1, 1]
    silence = Silence(engine, cluster, moment)
    here = subject.built(**everybody, runtime={"runner": held}).engine
    try:
        lost, alone = federations.run(engine, 3, silence), federations.run(here, 3)
    finally:
        engine.close()
        here.close()
        for pid in filter(psutil.pid_exists, silence.halted):
            os.kill(pid, signal.SIGKILL)
    assert federations.state_bits(lost) == federations.state_bits(alone)
    assert federations.untimed(lost.record) == federations.untimed(alone.record)
    assert any("died at work on client" in warning for warning in silence.warnings)
