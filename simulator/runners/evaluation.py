"""Evaluate clients' models on the held-out parts of their data, equal clients once.

Two clients give equal answers if they have the same images and every value that they read is equal bit by bit. For
example, InCo's hundred clients are five models on one test set. The runner measures this; methods do not declare it.
"""

import copy
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.utils._pytree import tree_iter

from simulator.base.errors import ConfigError, is_of_memory
from simulator.base.tensors import Tensors
from simulator.methods.hooks import Hooks
from simulator.models.federation import ClientInfo
from simulator.runners.base import Job, Runner, Work
from simulator.runners.local import memory_for_evaluation
from simulator.training.client import LocalClient
from simulator.training.flops import Operations, counting_flops
from simulator.training.stacking import CannotStack, refuse_unlike_networks, values, why
from simulator.training.trainer import TrainingContext

Measure = Callable[[Tensor, Tensor], float | None]
"""A metric of a part's scores [n, C] and labels [n], int64, both on the device."""


class Asked(NamedTuple):
    """What clients are asked: parts of their data, with so many samples at a time, and the user's own metrics."""

    batch_size: int
    parts: Sequence[str] = ("test",)
    measures: Mapping[str, Measure] = MappingProxyType({})


@dataclass(frozen=True)
class Answers:
    """A client's answers on one part of its data: counts per class, each of length C, and the loss."""

    hits: tuple[int, ...]
    """Samples of the class that were classified correctly."""
    answered: tuple[int, ...]
    """Samples of any class that were assigned to this class."""
    support: tuple[int, ...]
    loss: float
    """Cross-entropy of the scores, summed over the samples."""
    measured: Mapping[str, float | None] = field(default_factory=dict)
    """The values of the user's own metrics. None: not a finite number."""

    @property
    def samples(self) -> int:
        return sum(self.support)

    @property
    def correct(self) -> int:
        return sum(self.hits)


_GLIMPSE = 2
"""Images used to find out which values a client's answers depend on."""


def evaluate(runner: Runner, work: Work, asked: Asked, *, received: bool) -> dict[int, dict[str, Answers]]:
    """The answers of all clients of the work. `received`: they received their models, of which some can be equal."""
    context = runner.context
    # What clients must share to give equal answers: the architecture, and the same images.
    shared: dict[int, tuple[Any, ...]] = {}
    for client in work.jobs:
        held = [context.data.clients[client].part(name) for name in asked.parts]
        images = ((indices.data_ptr(), len(indices)) for indices in held)
        shared[client] = runner.info(client).architecture, *images
    several = Counter(shared.values() if received else ())
    perhaps = [client for client in work.jobs if several[shared[client]] > 1]
    answers = dict(zip(perhaps, runner.ask(work, perhaps, _made_of), strict=True))
    kinds = {client: (shared[client], answers.get(client, client)) for client in work.jobs}
    first = {kind: client for client, kind in reversed(kinds.items())}
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for client in first.values():
        alike[shared[client]].append(client)
    groups = [group for each in alike.values() for group in runner.together(sorted(each))]
    stacks = [group for group in groups if len(group) > 1]
    found = runner.ask_as_one(work, stacks, partial(_count_as_one, asked=asked))
    counts: dict[int, dict[str, Answers]] = {}
    for group, of_each in zip(stacks, found, strict=True):
        if of_each is not None:
            counts |= zip(group, of_each, strict=True)
    alone = [client for group in groups for client in group if client not in counts]
    counts |= zip(alone, runner.ask(work, alone, partial(answers_of, asked=asked)), strict=True)
    return {client: counts[first[kinds[client]]] for client in work.jobs}


def answering(hooks: Hooks, context: TrainingContext, info: ClientInfo, round: int, job: Job) -> LocalClient:
    """The client, ready to answer. Its changes here are discarded."""
    local = LocalClient(context, info, round, job.tensors)
    if job.payload is not None:
        hooks.receive(local, job.payload)
    hooks.before_answering(local)
    local.nets.eval()
    return local


def operations(
    context: TrainingContext, work: Work, answers: Mapping[int, Mapping[str, Answers]]
) -> dict[int, float]:
    """The operations of each client's answers: those of one forward pass of its architecture, by its samples.

    The pass is counted in every round, because a method may answer with more than the model, and on this machine, also
    if other machines evaluate. Raises ConfigError if nothing in it can be counted.
    """
    per_sample: dict[str, float] = {}
    found = {}
    for client, parts in answers.items():
        info = context.federation.clients[client]
        if info.architecture not in per_sample:
            local = answering(work.hooks, context, info, work.round, work.jobs[client])
            x, _ = context.data.batch(context.data.clients[client].train[:_GLIMPSE])
            with torch.no_grad(), counting_flops() as flops:
                work.hooks.predict(local, x)
            per_sample[info.architecture] = flops.total / len(x)
        samples = sum(each.samples for each in parts.values())
        found[client] = per_sample[info.architecture] * samples
        if samples and not found[client]:
            raise ConfigError(
                f"The seconds of evaluation of {info} cannot be computed: no operation of {info.architecture} is "
                "counted. Remove system.count_evaluation."
            )
    return found


def answers_of(runner: Runner, work: Work, client: int, *, asked: Asked) -> dict[str, Answers]:
    """A question: the client's answers on these parts."""
    context, hooks, round = runner.context, work.hooks, work.round
    with memory_for_evaluation(runner, round, client, asked.batch_size, runner.workers):
        local = answering(hooks, context, runner.info(client), round, work.jobs[client])
        [answers] = _count_all(lambda x: hooks.predict(local, x)[None], context, [local], asked)
        return answers


def _count_as_one(runner: Runner, work: Work, *, asked: Asked) -> list[dict[str, Answers]] | None:
    """The answers of clients on the same images, stacked; None if stacking fails."""
    context, hooks, round, first = runner.context, work.hooks, work.round, next(iter(work.jobs))
    try:
        with memory_for_evaluation(runner, round, first, asked.batch_size, at_once=1):
            local = [answering(hooks, context, runner.info(k), round, job) for k, job in work.jobs.items()]
            size = max(asked.batch_size // len(local), 1)  # batch size for all of them together
            scores_of = Stacked(hooks, local).scores
            return _count_all(scores_of, context, local, asked._replace(batch_size=size))
    except Exception as error:
        if is_of_memory(error):
            raise
        architecture = runner.info(first).architecture
        runner.say_once(f"Clients of {architecture} answer one by one, and not stacked: {why(error)}.")
        return None


@torch.no_grad()
def _count_all(
    scores_of: Callable[[Tensor], Tensor],
    context: TrainingContext,
    clients: Sequence[LocalClient],
    asked: Asked,
) -> list[dict[str, Answers]]:
    """The answers of clients on the same images. `scores_of` returns the scores of all, [n, B, C]."""
    classes = torch.arange(context.federation.num_classes, device=context.federation.device)
    own = [_Tally(classes, asked) for _ in clients]
    for name in asked.parts:
        for indices in context.data.clients[clients[0].info.id].part(name).split(asked.batch_size):
            x, y = context.data.batch(indices)
            for tally, scores in zip(own, scores_of(x), strict=True):
                tally.add(name, scores, y)
    return [tally.answers() for tally in own]


class _Tally:
    def __init__(self, classes: Tensor, asked: Asked) -> None:
        self._classes, self._measures = classes, asked.measures
        zeros = partial(torch.zeros, device=classes.device)
        self._counts = {name: zeros(3, len(classes), dtype=torch.int64) for name in asked.parts}
        self._losses = {name: zeros(1, dtype=torch.float64) for name in asked.parts}
        self._shown: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in asked.parts}

    def add(self, part: str, scores: Tensor, y: Tensor) -> None:
        """Add scores [B, C] of images with labels y."""
        # Comparisons with every class, not bincount, which would make the host wait for the device.
        is_answer, is_label = (each[:, None] == self._classes for each in (scores.argmax(1), y))
        self._counts[part] += torch.stack([(is_answer & is_label).sum(0), is_answer.sum(0), is_label.sum(0)])
        self._losses[part] += F.cross_entropy(scores, y, reduction="none").double().sum()
        if self._measures:
            self._shown[part].append((scores, y))

    def answers(self) -> dict[str, Answers]:
        """The tallies of every part. The host reads the device once; whole numbers are exact in float64."""
        figures = [
            torch.cat([self._counts[part].double().flatten(), loss]) for part, loss in self._losses.items()
        ]
        found, classes = {}, len(self._classes)
        for part, sums in zip(self._losses, torch.stack(figures).tolist(), strict=True):
            hits, answered, support = (
                tuple(map(int, sums[start : start + classes])) for start in range(0, 3 * classes, classes)
            )
            measured: dict[str, float | None] = {}
            if shown := self._shown[part]:  # a part without samples has none
                scores, labels = (torch.cat(each) for each in zip(*shown, strict=True))
                # Each metric gets its own tensors: one that changes them must not change another's value.
                measured = {
                    name: measure(scores.clone(), labels.clone()) for name, measure in self._measures.items()
                }
            found[part] = Answers(hits, answered, support, sums[-1], measured)
        return found


@torch.no_grad()
def _made_of(runner: Runner, work: Work, client: int) -> bytes:
    """SHA-256 of the computation of a client's answers: the operations, and every existing value that they read."""
    data = runner.context.data
    local = answering(work.hooks, runner.context, runner.info(client), work.round, work.jobs[client])
    x, _ = data.batch(data.clients[client].test[:_GLIMPSE])
    read = _reading()
    with read:
        work.hooks.predict(local, x)
    if read.draws:  # draws come from the client's own stream
        read.digest.update(f"client {client}".encode())
    return read.digest.digest()


class _reading(Operations):
    """Hashes this thread's operations with every argument that follows from no earlier one, whatever holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hashlib.sha256()
        self.draws = False
        self._known: set[tuple[Any, ...]] = set()
        self._made: list[Tensor] = []  # kept, so that no new tensor gets the same address

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.digest.update(str(func).encode())
        for each in tree_iter((args, kwargs)):
            if isinstance(each, Tensor):
                self._read(each)
            elif isinstance(each, torch.Generator):
                self.draws = True
            else:
                self.digest.update(f"{each!r},".encode())
        result = func(*args, **(kwargs or {}))
        for each in tree_iter(result):
            if isinstance(each, Tensor):
                self._known.add(_place(each))
                self._made.append(each)
        return result

    def _read(self, tensor: Tensor) -> None:
        if _place(tensor) not in self._known:
            self._known.add(_place(tensor))
            self.digest.update(f"{tensor.dtype} {list(tensor.shape)}".encode())
            self.digest.update(_bytes(tensor))


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).cpu().view(torch.uint8).numpy().tobytes()


class Stacked:
    """Clients ready to answer that differ only in the values of tensors. Raises CannotStack otherwise."""

    def __init__(self, hooks: Hooks, clients: Sequence[LocalClient]) -> None:
        self._hooks = hooks
        self._first = first = clients[0]
        for other in clients[1:]:
            refuse_unlike_networks(first, other)
            if {name: each.shape for name, each in other.state.items()} != {
                name: each.shape for name, each in first.state.items()
            }:
                raise CannotStack("they keep other tensors")
        of_each = [values(client.nets) for client in clients]
        self._values = {
            f"nets.{name}": torch.stack([each[name].detach() for each in of_each]) for name in of_each[0]
        }
        self._state = {name: torch.stack([client.state[name] for client in clients]) for name in first.state}

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """[n, B, C] of images x [B, …]. Raises torch's error if an answer cannot be mapped."""

        def of_one(tensors: Tensors, state: Tensors) -> Tensor:
            answer: Tensor = functional_call(_Answer(self._hooks, self._first), tensors, (state, x))
            return answer

        answers: Tensor = vmap(of_one, randomness="error")(self._values, self._state)
        return answers


class _Answer(nn.Module):
    """A client's answer as a module of its networks, so that their tensors can be replaced."""

    def __init__(self, hooks: Hooks, client: LocalClient) -> None:
        super().__init__()
        self.nets = client.nets
        self._hooks, self._client = hooks, client

    def forward(self, state: Tensors, x: Tensor) -> Tensor:
        client = copy.copy(self._client)
        client.state = state
        return self._hooks.predict(client, x)
