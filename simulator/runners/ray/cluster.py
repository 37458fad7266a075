"""The Ray that a run uses: started on this machine by itself, or one that is there. What is amiss is a sentence."""

import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psutil
import ray
import torch

from simulator.errors import ConfigError

LOCAL = "local"
"""The address of the Ray that is started here, for this process alone."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # actors without a GPU see what this process sees
}
ANSWER_SECONDS = 10.0
"""How long a cluster may take to answer."""
STORE = 2**28
"""Bytes of the object store of a Ray that is started here, at least."""


class Needs(NamedTuple):
    """What an actor takes of a node."""

    cpus: int
    gpus: int

    def __str__(self) -> str:
        cores = f"{self.cpus} CPU core{'s' * (self.cpus > 1)}"
        return f"{cores} and a GPU" if self.gpus else cores


def connect(address: str, needs: Needs, actors: int, in_transit: int) -> bool:
    """Connect this process to Ray, unless it is; true if Ray was started here for that.

    A Ray that is started here has room for so many actors and, in its object store, bytes in transit. Raises
    ConfigError where there is no such cluster, or where it is of another version.
    """
    if ray.is_initialized():
        return False
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    given: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        room = int(psutil.virtual_memory().available * 0.3)
        given |= {
            "num_cpus": needs.cpus * actors,
            "num_gpus": min(needs.gpus * actors, torch.cuda.device_count()),
            "object_store_memory": min(max(STORE, in_transit), room),
            "include_dashboard": False,
        }
    try:
        _refuse_where_nobody_answers(address)
        _on_a_thread_that_stays(lambda: ray.init(**given))
    except Exception as error:
        raise ConfigError(
            f"cannot use Ray at '{address}' ({said(error)}); start a cluster with `ray start --head`, name another "
            "with --set runtime.address=…, or leave that out: Ray then starts on this machine by itself."
        ) from error
    return address == LOCAL


def room(needs: Needs) -> int:
    """How many actors all nodes together have room for, if nobody else uses them."""
    return sum(
        min(int(has.get("CPU", 0)) // needs.cpus, int(has.get("GPU", 0)) if needs.gpus else 10**9)
        for has in _nodes()
    )


def disconnect() -> None:
    """Let go of Ray; of one that was started here, nothing is left."""
    ray.shutdown()


def said(error: BaseException, longest: int = 200) -> str:
    """What an error of Ray's says, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = " ".join((lines or [type(error).__name__])[:2]).rstrip(".")
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def _nodes() -> Iterator[dict[str, float]]:
    """The resources of each node that is there."""
    for node in ray.nodes():
        if node["Alive"]:
            yield node["Resources"]


def _refuse_where_nobody_answers(address: str) -> None:
    """Raise OSError for a host and port to which there is no way: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()


def _on_a_thread_that_stays(start: Callable[[], object]) -> None:
    """Carry out `start` on a thread that lives as long as the process.

    On Linux what Ray starts ends with the thread that started it; and on any thread but the main one Ray leaves the
    handling of signals to the program. Raises what `start` raises.
    """
    over, failed = threading.Event(), []

    def work() -> None:
        try:
            start()
        except Exception as error:
            failed.append(error)
            return
        finally:
            over.set()
        threading.Event().wait()

    threading.Thread(target=work, name="ray", daemon=True).start()
    over.wait()
    if failed:
        raise failed[0]


def bytes_in_transit(largest: int, actors: int) -> int:
    """What so many actors have in the object store: states and payloads, there and back, of clients of this size."""
    return math.ceil(8 * largest * actors)
