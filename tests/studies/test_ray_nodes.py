"""A sweep on a cluster of two nodes, both on this machine: both are used, and one of them dies."""

import time
from pathlib import Path

import pytest

import checkpoints
from tests import federations
from tests.reliability.sessions import configuration, finish, messages, rounds, start

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_points_of_a_node_that_dies_are_begun_again_on_the_other(tmp_path: Path) -> None:
    """Of one core each; the one without the cluster's head is killed when both points are at work."""
    from ray.cluster_utils import Cluster

    config, methods = configuration(tmp_path, "standalone", 100), ("standalone", "fedgh")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        node = cluster.add_node(num_cpus=1)
        words = ["sweep", "t", "--config", config, "--over", "method=standalone,fedgh", "--no-progress"]
        where = ["--on", "ray", "--set", f"runtime.address={cluster.address}"]
        sweeping = start(tmp_path, *words, *where, "--workers", "1")
        deadline = time.monotonic() + 600
        while not all(rounds(tmp_path / "t" / name) >= 2 for name in methods):
            assert sweeping.poll() is None and time.monotonic() < deadline, messages(tmp_path)
            time.sleep(0.05)
        cluster.remove_node(node, allow_graceful=False)
        assert sweeping.wait(timeout=1200) == 0, messages(tmp_path)
    finally:
        cluster.shutdown()
    assert "; it starts again" in messages(tmp_path)
    for name in methods:
        finish(tmp_path, "run", "--config", config, "--method", name, "--session", name)
        assert federations.committed(tmp_path / "t" / name) == federations.committed(tmp_path / name)
        assert checkpoints.verify(tmp_path / "t" / name) == []
