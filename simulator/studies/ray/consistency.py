"""Check that the nodes of a cluster compute the same bits, because points of a study are compared with each other."""

import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from simulator.base.environment import environment, inexact
from simulator.base.errors import ConfigError, HtflError
from simulator.runners.ray import cluster
from simulator.runners.ray.cluster import Needs

ANSWER_SECONDS = 120.0
"""Seconds that nodes have to report their libraries: each loads torch."""


class NodeInfo(NamedTuple):
    """A node's name, and what its bits depend on; or why it cannot tell."""

    host: str
    environment: Mapping[str, Any]
    refusal: str = ""


def refuse_mixed(needs: Needs) -> None:
    """Raise ConfigError if nodes that fit a point would give different bits."""
    nodes = cluster.nodes_with_room(needs)
    if len(nodes) < 2:
        return
    device = "cuda" if needs.gpus else "cpu"
    asked = [
        ray.remote(node_info)
        .options(
            num_cpus=0,
            num_gpus=needs.gpus,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        .remote(device)
        for node in nodes
    ]
    answered, found = ray.wait(asked, num_returns=len(asked), timeout=ANSWER_SECONDS)[0], []
    for ref in answered:
        try:
            found.append(ray.get(ref))
        except exceptions.RayTaskError as fault:
            raise ConfigError(
                f"a node of the Ray cluster cannot report its versions ({cluster.short_message(fault.cause)}). "
                "Install the same version of htfl-sim on every node."
            ) from fault
        except exceptions.RayError:
            continue  # it has just left the cluster
    refuse_unlike(found)


def node_info(device: str) -> NodeInfo:
    """The facts about this node that bits depend on."""
    from simulator.base.devices import select_device

    host = socket.gethostname()
    try:
        return NodeInfo(host, environment(select_device(device), 1))
    except HtflError as error:
        return NodeInfo(host, {}, str(error))


def refuse_unlike(nodes: list[NodeInfo]) -> None:
    """Raise ConfigError with two nodes and their differences unless all are equal."""
    for node in nodes:
        if node.refusal:
            raise ConfigError(f"node {node.host}: {node.refusal}")
    for node in nodes[1:]:
        if differences := inexact(dict(nodes[0].environment), dict(node.environment)):
            raise ConfigError(
                f"nodes {nodes[0].host} and {node.host} would not give the same bits ({'; '.join(differences)}). Use "
                "equal nodes, or `allow_inexact=True`. Each session records its node."
            )
