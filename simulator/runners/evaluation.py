"""How clients' models answer on their test splits, each question asked once.

Clients answer alike if they have the same test images and whatever their answers are made of is equal bit by bit:
InCo's hundred clients, say, are five models on one test set. That is found by looking, not promised by the method.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from simulator.federation import ClientInfo
from simulator.methods.hooks import Hooks
from simulator.runners.base import Job, Runner
from simulator.training.client import LocalClient
from simulator.training.context import TrainingContext

Counts = tuple[int, int]
"""Correct answers, test samples."""

_GLIMPSE = 2
"""Images of which a client's answers are asked to see what they are made of."""


def evaluate(
    runner: Runner, hooks: Hooks, round: int, jobs: Mapping[int, Job], batch_size: int
) -> dict[int, Counts]:
    """Correct answers and test samples of the clients in `jobs`, each after it has received its payload, if any."""
    context = runner.context

    def made_of(client: int) -> bytes:
        return _made_of(hooks, context, runner.info(client), round, jobs[client])

    def count(client: int) -> Counts:
        return _count(hooks, context, runner.info(client), round, jobs[client], batch_size)

    asked = {client: _asked(context, runner.info(client)) for client in jobs}
    # Models that clients have trained differ: only what was received may be the same.
    several = Counter(asked[client] for client, job in jobs.items() if job.payload is not None)
    perhaps = [client for client in jobs if several[asked[client]] > 1]
    answers = dict(zip(perhaps, runner.each(perhaps, made_of), strict=True))
    kinds = {client: (asked[client], answers.get(client, client)) for client in jobs}
    first = {kind: client for client, kind in reversed(kinds.items())}
    counts = dict(zip(first.values(), runner.each(first.values(), count), strict=True))
    return {client: counts[first[kinds[client]]] for client in jobs}


def _asked(context: TrainingContext, info: ClientInfo) -> tuple[str, int, int]:
    """What clients must share to answer alike: the architecture, and the very same test images."""
    test = context.data.clients[info.id].test
    return info.architecture, test.data_ptr(), len(test)


def answering(hooks: Hooks, context: TrainingContext, info: ClientInfo, round: int, job: Job) -> LocalClient:
    """The client, about to answer: nothing of what it does here is kept."""
    local = LocalClient(context, info, round, job.tensors)
    if job.payload is not None:
        hooks.receive(local, job.payload)
    hooks.before_answering(local)
    local.nets.eval()
    return local


@torch.no_grad()
def _count(
    hooks: Hooks, context: TrainingContext, info: ClientInfo, round: int, job: Job, batch_size: int
) -> Counts:
    local = answering(hooks, context, info, round, job)
    test = context.data.clients[info.id].test
    correct = torch.zeros((), dtype=torch.int64, device=test.device)
    for indices in test.split(batch_size):
        x, y = context.data.batch(indices)
        correct += (hooks.predict(local, x).argmax(1) == y).sum()
    return int(correct), len(test)


@torch.no_grad()
def _made_of(hooks: Hooks, context: TrainingContext, info: ClientInfo, round: int, job: Job) -> bytes:
    """SHA-256 over every tensor that the client's answers read: of its networks, and of the method's own."""
    local = answering(hooks, context, info, round, job)
    x, _ = context.data.batch(context.data.clients[info.id].test[:_GLIMPSE])
    with _reading() as read:
        hooks.predict(local, x)
    digest = hashlib.sha256()
    for name, tensor in sorted({**local.nets.state_dict(), **local.state}.items()):
        if tensor.untyped_storage().data_ptr() in read.storages:
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            digest.update(_bytes(tensor))
    return digest.digest()


class _reading(TorchDispatchMode):
    """A context that notes the memory of every tensor that this thread's operations read."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storages: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for each in tree_iter((args, kwargs)):
            if isinstance(each, Tensor):
                self.storages.add(each.untyped_storage().data_ptr())
        return func(*args, **(kwargs or {}))


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).cpu().view(torch.uint8).numpy().tobytes()
