"""The Ray instance that a run uses: started on this machine, or an existing cluster. Raises errors in one sentence."""

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
from ray import exceptions

from simulator.base.errors import ConfigError

LOCAL = "local"
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # actors without a GPU see the same devices as this process
}
ANSWER_SECONDS = 10.0
STORE = 2**28
DEATHS = (
    exceptions.RayActorError,
    exceptions.ObjectLostError,
    exceptions.WorkerCrashedError,
    exceptions.LocalRayletDiedError,
    exceptions.NodeDiedError,
    exceptions.OutOfMemoryError,
)
"""Ray's errors when the process that should answer, or its answer, is lost."""


class Needs(NamedTuple):
    cpus: int
    gpus: float

    def __str__(self) -> str:
        cores = f"{self.cpus} CPU core{'s' * (self.cpus > 1)}"
        if not self.gpus:
            return cores
        return f"{cores} and {'a' if self.gpus == 1 else f'{self.gpus:g} of a'} GPU"


def connect(address: str, needs: Needs | None = None, actors: int = 1, in_transit: int = 0) -> bool:
    """Connect this process to Ray if it is not connected yet. Returns whether Ray was started here.

    Such a Ray has room for `actors` actors, or is as large as this machine; its object store holds the bytes in
    transit. Raises ConfigError if there is no such cluster, or if it has another version.
    """
    if ray.is_initialized():
        return False
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    given: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        room = int(psutil.virtual_memory().available * 0.3)
        if needs is not None:
            gpus = min(math.ceil(needs.gpus * actors), torch.cuda.device_count())
            given |= {"num_cpus": needs.cpus * actors, "num_gpus": gpus}
        given |= {"object_store_memory": min(max(STORE, in_transit), room), "include_dashboard": False}
    try:
        _refuse_where_nobody_answers(address)
        _show_token(address)
        _on_a_thread_that_stays(lambda: ray.init(**given))
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"cannot use Ray at '{address}' ({short_message(error)}); start a cluster (`ray start --head`), "
            "name another (`runtime.address=ADDRESS`), or leave that out: Ray then starts on this machine by itself."
        ) from error
    return address == LOCAL


def room(needs: Needs) -> int:
    """The number of actors that fit on all nodes together if nobody else uses them."""
    return sum(_room_of(has, needs) for _, has in _nodes())


def nodes_with_room(needs: Needs) -> list[str]:
    return [node for node, has in _nodes() if _room_of(has, needs)]


def most_cores() -> int:
    return max((int(has.get("CPU", 0)) for _, has in _nodes()), default=0)


def has_gpus() -> bool:
    return any(has.get("GPU", 0) >= 1 for _, has in _nodes())


def disconnect() -> None:
    ray.shutdown()


def short_message(error: BaseException, longest: int = 200) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = " ".join((lines or [type(error).__name__])[:2]).rstrip(".")
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def _nodes() -> Iterator[tuple[str, dict[str, float]]]:
    for node in ray.nodes():
        if node["Alive"]:
            yield node.get("NodeID", ""), node["Resources"]


def _room_of(has: dict[str, float], needs: Needs) -> int:
    by_cpus = int(has.get("CPU", 0)) // needs.cpus
    if not needs.gpus:
        return by_cpus
    return min(by_cpus, int(has.get("GPU", 0)) * int(1 / needs.gpus + 1e-9))


def _refuse_where_nobody_answers(address: str) -> None:
    """Raise OSError for an unreachable host and port. Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()


def _show_token(address: str) -> None:
    """Use this user's token for a cluster that requires one. Raises ConfigError if there is none.

    Ray does so only for 'auto'. But `ray start --head` requires a token if ~/.ray/auth_token exists, and every Ray that
    ray.init() started leaves that file behind.
    """
    by_client = address.startswith("ray://")
    if address in (LOCAL, "auto") or not (by_client or _asks_for_token(address)):
        return
    try:
        from ray._private.authentication import authentication_token_setup as tokens
    except ImportError:  # an older Ray has no tokens
        return
    tokens.logger.setLevel(logging.ERROR)
    shows = tokens.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    if not (shows or by_client):
        raise ConfigError(
            f"Ray at '{address}' asks for a token, and this process shows none. Set RAY_AUTH_MODE=token, and "
            "RAY_AUTH_TOKEN to what ~/.ray/auth_token holds on the head of the cluster."
        )


def _asks_for_token(address: str) -> bool:
    """Whether the cluster rejects a call without a token. A cluster without tokens rejects calls with one."""
    try:
        import grpc
    except ImportError:
        return False
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetClusterId")(b"", timeout=ANSWER_SECONDS)
        except grpc.RpcError as refused:
            return bool(refused.code() is grpc.StatusCode.UNAUTHENTICATED)
    return False


def _on_a_thread_that_stays(start: Callable[[], object]) -> None:
    """Run `start` on a thread that stays. Ray's processes end with their thread, and on it Ray leaves signals alone."""
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
    """Bytes that actors hold in the object store: states and payloads, in both directions, of two portions each."""
    return math.ceil(12 * largest * actors)
