"""The training loop for several clients as one: their weights are stacked, and all clients take each step together.

Every tensor gets a first dimension n, one entry per client. `torch.func` differentiates one client's loss, and maps it
over this dimension. Losses, draws, and batch order are those of the plain loop (`training/loop.py`). The numbers are
the same except for the rounding of sums.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from simulator.base.rng import TAKES_GENERATOR, drawing_from
from simulator.base.tensors import Tensors
from simulator.training import optimizer
from simulator.training.augmentation import augmented
from simulator.training.client import LocalClient
from simulator.training.loop import freeze_all_but
from simulator.training.phase import Batch, Draws, LossParts, Nets, Phase, computed


class CannotStack(Exception):
    """Why clients cannot train as one, such as 'their losses are different functions'."""


def why(error: Exception) -> str:
    """The reason that clients could not be stacked, in one line."""
    cause = error.__cause__ or error
    words = str(cause) if isinstance(cause, CannotStack) else f"{type(cause).__name__}: {cause}"
    return " ".join(words.split())[:200].rstrip(".")


Reached = dict[tuple[object, ...], frozenset[str]]
"""The weights that a loss reaches, found once. The others have no gradient, which differs from a zero gradient."""


class StackedStep(NamedTuple):
    """A step that all clients have taken: loss and terms [n] each, still on the device, and their batch sizes."""

    loss: Tensor
    terms: Mapping[str, Tensor]
    sizes: Tensor | int


def steps(clients: Sequence[LocalClient], phases: Sequence[Phase], reached: Reached) -> Iterator[StackedStep]:
    """Train the clients in place, a step of all per `next`. Raises CannotStack if more than tensors' values differ."""
    refuse_unlike(clients, phases)
    for client in clients:
        freeze_all_but(client.nets, phases[0].trains)
    stack = _Stack(clients, phases, reached)
    yield from stack.steps()
    stack.hand_back()


def refuse_unlike(clients: Sequence[LocalClient], phases: Sequence[Phase]) -> None:
    """Raise CannotStack unless the clients differ only in the values of tensors."""
    first, phase = clients[0], phases[0]
    if phase.keeps is not None:
        raise CannotStack(f"phase '{phase.name}' keeps the optimizer's moments")
    if phase.batches is not None:
        raise CannotStack(f"phase '{phase.name}' has batches of its own")
    for client, other in zip(clients[1:], phases[1:], strict=True):
        if other.loss != phase.loss:
            raise CannotStack("their losses are different functions")
        if _settings(other) != _settings(phase) or client.steps(other) != first.steps(phase):
            raise CannotStack(f"their phases '{phase.name}' differ")
        refuse_unlike_networks(first, client)


def refuse_unlike_networks(one: LocalClient, other: LocalClient) -> None:
    """Raise CannotStack unless two clients' networks differ only in the values of tensors."""
    if _layout(values(one.nets)) != _layout(values(other.nets)):
        raise CannotStack("their networks have other tensors")
    for module, another in zip(one.nets.modules(), other.nets.modules(), strict=True):
        # Attributes other than tensors: the first client's would apply to all.
        if type(module) is not type(another) or vars(module).keys() != vars(another).keys():
            raise CannotStack("their networks are not alike")
        for name, value in vars(module).items():
            if name not in _OF_ANY_MODULE and not _equal(value, vars(another)[name]):
                raise CannotStack(f"their networks differ in '{name}' of a {type(module).__name__}")


def _settings(phase: Phase) -> tuple[object, ...]:
    return (
        *(phase.name, phase.trains, phase.epochs, phase.lr, phase.optimizer, phase.keeps, phase.batches),
        *sorted(phase.within.items()),
        *(phase.collect_after, phase.draws is None, _layout(phase.state), _layout(phase.correction)),
    )


def _layout(tensors: Mapping[str, Tensor]) -> list[tuple[str, torch.Size, torch.dtype]]:
    return [(name, tensor.shape, tensor.dtype) for name, tensor in tensors.items()]


_PLAIN = (bool, int, float, str, tuple, list, dict, set, frozenset, torch.dtype)
_OF_ANY_MODULE = frozenset(vars(nn.Module())) - {"training"}


def _equal(one: object, other: object) -> bool:
    if one is other:
        return True
    try:
        return isinstance(one, _PLAIN) and type(one) is type(other) and bool(one == other)
    except (RuntimeError, ValueError, TypeError):  # tensors or arrays within
        return False


class _Loss(nn.Module):
    """A phase's loss as a module of the networks, so that their tensors can be replaced."""

    def __init__(self, nets: Nets, phase: Phase) -> None:
        super().__init__()
        self.nets = nets
        self._loss = phase.loss

    def forward(self, state: Tensors, batch: Batch, draws: Draws, weights: Mapping[str, Tensor]) -> LossParts:
        return computed(self._loss, self.nets, state, batch, draws, weights.get("classes"))


class _Stack:
    """Clients in one phase. The first one's networks give the form. All values are in `weights` and `held`."""

    def __init__(self, clients: Sequence[LocalClient], phases: Sequence[Phase], reached: Reached) -> None:
        self.clients, self.phases, self.phase, self.nets = clients, phases, phases[0], clients[0].nets
        self.reached = reached
        of_each = [values(client.nets) for client in clients]
        stacked = {
            name: torch.stack([each[name].detach() for each in of_each]).contiguous() for name in of_each[0]
        }
        trained = tuple(f"{name}." for name in self.phase.trains)
        self.parameters = [name for name, _ in self.nets.named_parameters()]
        self.weights = {
            name: nn.Parameter(stacked.pop(name)) for name in self.parameters if name.startswith(trained)
        }
        self.held = stacked
        """Frozen weights, and buffers."""
        self.state = {name: torch.stack([phase.state[name] for phase in phases]) for name in self.phase.state}
        self.collected: Tensors = {}
        self.loss = _Loss(self.nets, self.phase)
        device = clients[0].federation.device
        weights = [client.class_weights for client in clients]
        self.class_weights = [{} if each is None else {"classes": each} for each in weights]
        self.streams = [client.stream(f"draws/{self.phase.name}", device) for client in clients]

    def steps(self) -> Iterator[StackedStep]:
        settings = self.clients[0].federation.training
        lr = self.phase.lr or self.clients[0].lr
        clip = settings.clip if self.phase.optimizer is None else None
        rule = optimizer.make(self.phase.optimizer, list(self.weights.items()), settings, lr)
        names = [name.replace("/", ".", 1) for name in self.phase.correction]
        corrected: list[Tensor] = [self.weights[name] for name in names]
        of_each = [phase.correction for phase in self.phases]
        corrections = [torch.stack([each[name] for each in of_each]) for name in self.phase.correction]
        for number, (batches, draws) in enumerate(self._batches(), start=1):
            sizes = [len(batch.y) for batch in batches]
            reached = self._tried(batches, draws, sizes)
            taken = self._taken(batches, draws, sizes)
            for name, weight in self.weights.items():
                # In the memory layout of the weight, because torch's fused rules walk through both in memory order.
                weight.grad = taken.gradients[name].contiguous() if name in reached else None
            if clip is not None:
                _clip([weight for weight in self.weights.values() if weight.grad is not None], clip)
            rule.step()
            if corrected:
                with torch.no_grad():
                    torch._foreach_add_(corrected, corrections, alpha=-lr)
            for name, (low, high) in self.phase.within.items():
                self.weights[name.replace("/", ".", 1)].detach().clamp_(low, high)
            self.held |= taken.buffers
            if number > self.phase.collect_after:
                for name, value in taken.sums.items():
                    self.collected[name] = self.collected[name] + value if name in self.collected else value
            alike = len(set(sizes)) == 1
            size = sizes[0] if alike else torch.tensor(sizes, device=taken.loss.device)
            yield StackedStep(taken.loss, taken.terms, size)

    @torch.no_grad()
    def hand_back(self) -> None:
        """Copy weights, buffers, and sums back to every client."""
        frozen = set(self.parameters) - set(self.weights)
        for number, client in enumerate(self.clients):
            for name, tensor in values(client.nets).items():
                if name not in frozen:
                    stacked = self.weights.get(name, self.held.get(name))
                    assert stacked is not None
                    tensor.copy_(stacked[number])
            for name, value in self.collected.items():
                before = client.collected.get(name)
                client.collected[name] = value[number] if before is None else before + value[number]

    def _batches(self) -> Iterator[tuple[list[Batch], list[Draws]]]:
        """Every client's batch of each step, with its draws."""
        changes = self.clients[0].federation.training.augment
        looks = [client.looks(self.phase) for client in self.clients]
        orders = [client.orders(phase) for client, phase in zip(self.clients, self.phases, strict=True)]
        for indices in zip(*orders, strict=True):
            # One gather for all clients. Otherwise, a GPU would launch more kernels for it than for the step.
            x, y = self.clients[0].batch(torch.cat(indices))
            sizes = [len(each) for each in indices]
            batches = [
                Batch(augmented(images, changes, look), labels)
                for images, labels, look in zip(x.split(sizes), y.split(sizes), looks, strict=True)
            ]
            yield batches, [self._drawn(number, batch) for number, batch in enumerate(batches)]

    def _drawn(self, number: int, batch: Batch) -> Draws:
        draw, stream = self.phases[number].draws, self.streams[number]
        if draw is None:
            return {}
        with drawing_from(stream):
            return draw(stream, batch)

    def _tried(
        self, batches: Sequence[Batch], draws: Sequence[Draws], sizes: Sequence[int]
    ) -> frozenset[str]:
        """The weights that the loss reaches, found once in a step that is discarded. Adds every client's operations."""
        kind = (self.clients[0].info.architecture, self.phase.name, self.phase.loss)
        for size in dict.fromkeys(sizes):
            number = sizes.index(size)
            client = self.clients[number]
            if kind not in self.reached or not client.counted(self.phase.name, size):
                before = client.flops
                with client.step(self.phase.name, size):
                    self.reached[kind] = self._taken_plainly(number, batches[number], draws[number])
                client.flops = before
        for client, size in zip(self.clients, sizes, strict=True):
            before = client.flops
            client.add_operations(self.phase.name, size)
            client.step_flops.append(client.flops - before)
        return self.reached[kind]

    def _taken_plainly(self, number: int, batch: Batch, draws: Draws) -> frozenset[str]:
        """The weights that this client's loss reaches, found in a step that updates nothing."""
        leaves = {name: nn.Parameter(weight[number].clone()) for name, weight in self.weights.items()}
        held = {name: tensor[number].clone() for name, tensor in self.held.items()}
        tensors = {f"nets.{name}": tensor for name, tensor in (held | leaves).items()}
        state = {name: tensor[number] for name, tensor in self.state.items()}
        stream = torch.Generator(self.streams[number].device)
        stream.set_state(self.streams[number].get_state())
        with drawing_from(stream), self.clients[0].precise():
            loss = functional_call(self.loss, tensors, (state, batch, draws, self.class_weights[number])).loss
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        return frozenset(name for name, each in zip(leaves, gradients, strict=True) if each is not None)

    def _taken(self, batches: Sequence[Batch], draws: Sequence[Draws], sizes: Sequence[int]) -> "_Taken":
        """Gradients, losses, and terms of all clients. Clients with batches of one size are computed together."""
        groups = [
            [number for number, size in enumerate(sizes) if size == each] for each in dict.fromkeys(sizes)
        ]
        parts = [self._taken_by(group, batches, draws) for group in groups]
        if len(parts) == 1:
            return parts[0]
        order = torch.tensor([number for group in groups for number in group]).argsort()
        return _Taken(*(_in_order(each, order) for each in zip(*parts, strict=True)))

    def _taken_by(self, numbers: Sequence[int], batches: Sequence[Batch], draws: Sequence[Draws]) -> "_Taken":
        device = self.clients[0].federation.device
        index = None if len(numbers) == len(self.clients) else torch.tensor(numbers, device=device)

        def of_these(tensors: Mapping[str, Tensor]) -> Tensors:
            plain = {name: tensor.detach() for name, tensor in tensors.items()}
            return (
                plain
                if index is None
                else {name: each.index_select(0, index) for name, each in plain.items()}
            )

        streams = [self.streams[number] for number in numbers]
        buffers = [name for name, _ in self.nets.named_buffers()]

        def of_one(
            weights: Tensors,
            held: Tensors,
            who: Tensor,
            state: Tensors,
            batch: tuple[Tensor, ...],
            *more: Any,
        ) -> tuple[Tensor, tuple[Any, ...]]:
            tensors = {f"nets.{name}": tensor for name, tensor in (weights | held).items()}
            for name in self.parameters:  # lets a loss that asks for parameters find them
                tensors[f"nets.{name}"]._is_param = True
            with layers_of_each(streams, who):
                loss, terms, sums = functional_call(self.loss, tensors, (state, Batch(*batch), *more))
            after = {name: tensors[f"nets.{name}"] for name in buffers}
            return loss, (loss, dict(terms), dict(sums), after)

        with self.clients[0].precise():
            gradients, figures = vmap(grad(of_one, has_aux=True), randomness="error")(
                of_these(self.weights),
                of_these(self.held),
                torch.arange(len(numbers), device=device),
                of_these(self.state),
                tuple(
                    torch.stack(each) for each in zip(*(batches[number] for number in numbers), strict=True)
                ),
                _stacked([draws[number] for number in numbers]),
                _stacked([self.class_weights[number] for number in numbers]),
            )
        return _Taken(gradients, *figures)


class _Taken(NamedTuple):
    """The results of a step before the weights are updated: each tensor [n, …]."""

    gradients: Tensors
    loss: Tensor
    terms: Tensors
    sums: Tensors
    buffers: Tensors


def _in_order(parts: Sequence[Any], order: Tensor) -> Any:
    """Tensors of groups of clients, by name or alone, joined in the order of the clients."""
    if isinstance(parts[0], Tensor):
        return torch.cat(list(parts)).index_select(0, order.to(parts[0].device))
    return {name: _in_order([each[name] for each in parts], order) for name in parts[0]}


def _stacked(tensors: Sequence[Mapping[str, Tensor]]) -> Tensors:
    return {name: torch.stack([each[name] for each in tensors]) for name in tensors[0]}


def values(nets: nn.Module) -> dict[str, Tensor]:
    """The tensors of networks by name, parameters before buffers."""
    return {**dict(nets.named_parameters()), **dict(nets.named_buffers())}


def _clip(weights: Sequence[nn.Parameter], largest: float) -> None:
    """`clip_grad_norm_` for each client separately."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    norms = torch.stack([torch.linalg.vector_norm(each.flatten(1), dim=1) for each in gradients])
    scale = (largest / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1)
    for each in gradients:
        each.mul_(scale.view(-1, *[1] * (each.dim() - 1)))


class layers_of_each(drawing_from):
    """A context within `torch.vmap`: dropout of the client with number `who` draws from that client's stream.

    `who` is mapped over: 0, 1, 2, … Raises TypeError for a draw that cannot be made per client. It replaces two
    functions that a map does not accept: `one_hot`, which reads values, and BatchNorm of bfloat16 maps with float32
    statistics.
    """

    def __init__(self, streams: Sequence[torch.Generator], who: Tensor) -> None:
        super().__init__(streams[0])
        self._streams = streams
        self._who = who

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if func is F.batch_norm and args[0].dtype == torch.bfloat16:
            return func(args[0].float(), *args[1:], **(kwargs or {})).to(torch.bfloat16)
        if func is F.one_hot and (classes := _classes(*args, **(kwargs or {}))) is not None:
            return (args[0][..., None] == torch.arange(classes, device=args[0].device)).long()
        if name in TAKES_GENERATOR:
            match args:
                case (Tensor() as tensor, float() as share) if name == "bernoulli_" and not kwargs:
                    return tensor.copy_(self.kept(tensor.shape, tensor, share))
            raise TypeError(f"{name} cannot draw for each of several clients at once")
        return super().__torch_function__(func, types, args, kwargs)

    def kept(self, shape: Sequence[int], like: Tensor, share: float) -> Tensor:
        def each() -> Tensor:
            masks = [torch.empty(shape, dtype=like.dtype, device=like.device) for _ in self._streams]
            pairs = zip(masks, self._streams, strict=True)
            return torch.stack([mask.bernoulli_(share, generator=stream) for mask, stream in pairs])

        drawn: Tensor = _Drawn.apply(self._who, each)
        return drawn


def _classes(tensor: Tensor | None = None, num_classes: int = -1, **others: Any) -> int | None:
    """The number of classes that `one_hot` is given; None if it would search for the largest label."""
    return num_classes if tensor is not None and num_classes > 0 and not others else None


class _Drawn(torch.autograd.Function):
    """The draws of `each` for all clients: [n, …] outside of the map and [… ] within it."""

    @staticmethod
    def forward(who: Tensor, each: Callable[[], Tensor]) -> Tensor:
        raise TypeError("draws for each of several clients are made where a function is mapped over them")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, who: Tensor, each: Callable[[], Tensor]) -> tuple[Tensor, int]:
        return each(), 0
