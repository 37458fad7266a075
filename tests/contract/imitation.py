"""An imitation of a CUDA device on a machine without one. It finds waits for the device, and tensors on the wrong one.

Tensors on it say that they are on `cuda:0`, and have their values in the host's memory. Every operation is seen. So a
whole round runs with real values, and the imitation notes:

- each read of a value on the host: `.item()`, `.tolist()`, `.cpu()`, `if tensor:`, and operations whose shape follows
  from values, such as `nonzero`. The host waits for the device there;
- in a training step, also each tensor that is made on the host or copied to the device, where the host waits as well;
- each operation on tensors of two devices. torch accepts some of them, such as a scalar on the CPU;
- each draw from a generator of another device.

torch's own FakeTensorMode has no values for the deliberate reads, and without a driver its backward pass fails on
`cuda`. Of torch's CUDA functions, these are replaced here, because they call the driver: generators, streams, and the
initialization.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from types import FrameType
from typing import Any, Literal, NamedTuple
from unittest import mock

import torch
from torch import Tensor

from simulator import contract
from simulator.base.tensors import Tensors, WayOff
from simulator.contract import Broken, Promise, Subject
from simulator.contract.promises import bits
from simulator.data.datasets import data_folder
from simulator.engine.builder import build
from simulator.engine.client_states import State
from simulator.engine.progress import unobserved
from simulator.engine.round import Engine
from simulator.training import loop
from simulator.training.flops import Operations

CUDA = torch.device("cuda", 0)
HOST = torch.device("cpu")
_INSIDE = torch.device("meta", 0)
"""What torch's C++ code takes the device for: one that runs backward without a driver, and whose values it never reads.

The number tells it from the plain meta device, on which networks without weights are made.
"""

Kind = Literal["reads a value", "copies to the device", "makes a tensor on the host", "mixes devices"]

ALLOWED: dict[str, str] = {
    "simulator.training.client.LocalClient.orders": "the host draws the order of an epoch, for every device the same",
    "simulator.runners.local.finish": "losses are read once, after the last step",
    "simulator.runners.local.server_update": "losses of the server are read once for each of its phases",
    "simulator.runners.evaluation._Tally.answers": "answers are counted on the device and read once",
    "simulator.runners.evaluation._bytes": "received models are compared, so that equal ones answer once",
    "simulator.base.tensors.WayOff.__call__": "a checkpoint needs the values",
    "simulator.methods.checks.finite": "a hook's result is checked at once",
    "simulator.methods.hooks.Hooks._downlink": "the server chooses between rounds what to send",
    "simulator.methods.hooks.Hooks.aggregate": "the server reports metrics, and adds up rows of known classes",
    "simulator.methods.hooks.Hooks.server_phases": "the server chooses its training between rounds",
    "simulator.base.tensors.nonzero_rows": "FedL2G sends the rows that are not zero",
    "simulator.methods.fedkd.decomposed": "the CPU decomposes a matrix into the same factors every time",
    "simulator.methods.fedkd.rank": "the number of sent factors follows from their energy",
    "simulator.methods.fiarse.FIARSE.uplink": "FIARSE sends the weights that a mask has",
}
"""The functions in which the host may wait for the device, and why.

Only the first is called between two steps of a phase. All others are outside of steps.
"""
_BETWEEN_STEPS = frozenset({"simulator.training.client.LocalClient.orders"})
_COPIES = frozenset({torch.ops.aten._to_copy, torch.ops.aten.copy_})
_PLACES_SKIPPED = ("torch", "contextlib", "simulator.base.rng", "simulator.training.flops", __name__)


class Event(NamedTuple):
    """Something that was noticed."""

    kind: Kind
    place: str
    """The innermost function that is not torch's, with its line."""
    operation: str
    in_step: bool
    allowed: str | None
    """The function of `ALLOWED` that it happens in."""

    def __str__(self) -> str:
        return f"{self.place} {self.kind}{' in a training step' * self.in_step} ({self.operation})"


class OnDevice(Tensor):
    """A tensor on the imitated device."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnDevice":
        made: OnDevice = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=_INSIDE,
        )
        made.held = held
        return made

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self) -> Any:
        return self.held.untyped_storage()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def new_tensor(self, data: Any, **options: Any) -> Tensor:  # type: ignore[override]
        return torch.tensor(data, **{"dtype": self.dtype, "device": CUDA, **options})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        return _computed(func, args, kwargs, _tensors((*args, *kwargs.values())), True)


class Generator(torch.Generator):
    """A generator that may be on the imitated device. It draws on the host."""

    _there: dict[int, "Generator"] = {}  # noqa: RUF012  # by the address of torch's object, which stays in use
    place: torch.device

    def __new__(cls, device: torch.device | str = HOST) -> "Generator":
        made = super().__new__(cls, device=HOST)  # type: ignore[call-arg]
        made.place = torch.device(device)
        if made.place.type == "cuda":
            cls._there[_address(made)] = made
        return made

    device = property(lambda self: self.place)


def _address(generator: torch.Generator) -> int:
    """Of torch's own object. Each operation gets it in a new Python object."""
    address: int = generator._cdata  # type: ignore[attr-defined]
    return address


class Stream:
    """A stream of the imitated device. All its work is finished at once."""

    device = CUDA

    def __init__(self, device: object = None) -> None: ...

    def wait_stream(self, other: object) -> None: ...

    def synchronize(self) -> None: ...


class Imitation(Operations):
    """The context in which the device is imitated. `events` has what was noticed, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[Event, None] = {}

    @property
    def faults(self) -> list[Event]:
        """What is allowed nowhere."""
        return [event for event in self.events if event.allowed is None]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = _tensors((*args, *kwargs.values()))
        there = any(isinstance(each, OnDevice) for each in given)
        target = _is_for_device(func, args, kwargs, there)
        if func._overloadpacket in _COPIES:
            source = args[1] if func._overloadpacket is torch.ops.aten.copy_ else args[0]
            if isinstance(source, OnDevice) != target:
                self._note("copies to the device" if target else "reads a value", func)
        elif there and not all(isinstance(each, OnDevice) for each in given):
            self._note("mixes devices", func)
        elif there and _needs_values(func, args):
            self._note("reads a value", func)
        elif not (there or target or any(each.is_meta for each in given)):
            self._note("makes a tensor on the host", func)
        generator = kwargs.get("generator")
        if generator is not None and (_address(generator) in Generator._there) != target:
            self._note("mixes devices", func)
        return _computed(func, args, kwargs, given, target)

    def _note(self, kind: Kind, func: Any) -> None:
        in_step = _is_in_step()
        if kind in ("copies to the device", "makes a tensor on the host") and not in_step:
            return
        functions = list(_functions())
        allowed = None if kind == "mixes devices" else _allowing([name for name, _ in functions], in_step)
        place = next((f"{name} (line {line})" for name, line in functions), "something")
        self.events[Event(kind, place, str(func), in_step, allowed)] = None


@contextmanager
def imitated_device() -> Iterator[Imitation]:
    """A context in which this thread has a device `cuda:0`."""
    replaced = (
        (torch, "Generator", Generator),
        (torch.Tensor, "device", property(_device)),  # also of torch.func's tensors around one on the device
        (torch.Tensor, "is_cuda", property(lambda tensor: _device(tensor).type == "cuda")),
        (torch.Tensor, "is_meta", property(lambda tensor: _device(tensor).type == "meta")),
        (torch.cuda, "_lazy_init", lambda: None),
        (torch.cuda, "Stream", Stream),
        (torch.cuda, "current_stream", Stream),
        (torch.cuda, "stream", nullcontext),
        (torch.cuda, "synchronize", lambda device=None: None),
    )
    with ExitStack() as held:
        for owner, name, double in replaced:
            held.enter_context(mock.patch.object(owner, name, double))
        held.callback(Generator._there.clear)
        held.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(
            True
        )  # torch.tensor() makes its tensor in sight, and then copies it
        yield held.enter_context(Imitation())


_place_of: Callable[[Tensor], torch.device] = torch._C.TensorBase.device.__get__


def _device(tensor: Tensor) -> torch.device:
    found = _place_of(tensor)
    return CUDA if found == _INSIDE else found


def _is_for_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], there: bool) -> bool:
    """Whether the result is on the imitated device."""
    if func._overloadpacket is torch.ops.aten.copy_:
        return isinstance(args[0], OnDevice)
    device = kwargs.get("device")
    return there if device is None else device.type == "cuda" or device == _INSIDE


def _needs_values(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether the host must know values to go on."""
    if func._overloadpacket is torch.ops.aten.index:
        return _has_mask(args[1])
    if func._overloadpacket in (torch.ops.aten.index_put, torch.ops.aten.index_put_):
        return _has_mask(args[1]) and args[2].numel() != 1  # one value is filled in on the device
    return _shape_needs_values(func)


@functools.cache
def _shape_needs_values(func: Any) -> bool:
    return torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags


def _has_mask(indices: Any) -> bool:
    return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in indices)


def _computed(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Tensor], there: bool
) -> Any:
    """The result of an operation, computed on the host. `given`: the tensors among its arguments."""
    if func is torch.ops.aten._efficientzerotensor.default:  # has no memory
        func = torch.ops.aten.zeros.default
    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}  # needs a driver
    result = func(*_each(_held, args), **_each(_held, kwargs))
    if not there:
        return result
    known = {id(each.held): each for each in given if isinstance(each, OnDevice)}

    def back(each: Any) -> Any:
        if not isinstance(each, Tensor):
            return each
        return known[id(each)] if id(each) in known else OnDevice(each)

    return _each(back, result)


def _held(each: Any) -> Any:
    if isinstance(each, OnDevice):
        return each.held
    if isinstance(each, torch.device) and (each.type == "cuda" or each == _INSIDE):
        return HOST
    return each


def _each(function: Callable[[Any], Any], values: Any) -> Any:
    """The function of everything in nested lists, tuples, and dictionaries. torch's own `tree_map` takes longer."""
    if isinstance(values, list | tuple):
        return type(values)([_each(function, each) for each in values])
    if isinstance(values, dict):
        return {key: _each(function, each) for key, each in values.items()}
    return function(values)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors in nested lists and tuples."""
    found: list[Tensor] = []
    for each in values:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, list | tuple):
            found += _tensors(each)
    return found


def _frames() -> Iterator[FrameType]:
    """Those of the running functions, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _allowing(running: Sequence[str], in_step: bool) -> str | None:
    """The function of `ALLOWED` that is running, up to the hook that runs."""
    for name in running:
        if name in ALLOWED and (name in _BETWEEN_STEPS or not in_step):
            return name
        if name.startswith("simulator.methods.hooks.Hooks."):
            return None
    return None


def _is_in_step() -> bool:
    return any(frame.f_code is loop.steps.__code__ for frame in _frames())


def _functions() -> Iterator[tuple[str, int]]:
    """The running functions that are not torch's, the innermost first, with their lines."""
    for frame in _frames():
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_PLACES_SKIPPED):
            yield f"{module}.{frame.f_code.co_qualname}", frame.f_lineno


# What every built-in method promises besides: its rounds stay on the device


PINNED = 2**16
"""Bytes through which a checkpoint's tensors pass: some need several portions."""
STEPS = 2
"""Training steps of each client on the imitated device: the first makes what the second finds."""


def _stays(subject: Subject) -> None:
    before = subject.first
    config = subject.config(
        federation={"participation": 1.0},
        training={"precision": "float32", "epochs": None, "steps": STEPS},
        runtime={"runner": "sequential"},
    )
    parts = build(config, data_folder(None))
    with imitated_device() as device:
        federation = replace(parts.federation, device=CUDA)
        data = replace(
            parts.data,
            inputs=parts.data.inputs.to(CUDA),
            labels=parts.data.labels.to(CUDA),
            public=parts.data.public and parts.data.public.to(CUDA),
            clients=tuple(
                replace(each, train=each.train.to(CUDA), eval=each.eval.to(CUDA), test=each.test.to(CUDA))
                for each in parts.data.clients
            ),
        )
        method, sent = type(parts.method)(parts.method.config, federation), list[Tensors]()
        method.downlink = _noting(method.downlink, sent)  # type: ignore[method-assign]
        method.uplink = _noting(method.uplink, sent)  # type: ignore[method-assign]
        engine = Engine(config, federation, data, method)
        start = engine.initial_state()
        clients = {client: _moved(tensors) for client, tensors in enumerate(before.clients)}
        start = replace(before, server=_moved(before.server), clients=start.clients.after(clients))
        end = engine.round(start, unobserved)
        off = WayOff(torch.cuda.Stream(CUDA), torch.empty(PINNED, dtype=torch.uint8, pin_memory=True))
        saved = [off(tensors) for tensors in _parts(end)]  # as a checkpoint does
        if device.faults:
            raise Broken("; ".join(map(str, device.faults)))
        for tensors in [*_parts(end), *sent]:
            for name, tensor in tensors.items():
                if tensor.device != CUDA:
                    raise Broken(f"'{name}' is on the host after round 2")
    for number, (tensors, copied) in enumerate(zip(_parts(end), saved, strict=True)):
        if bits(_values(tensors)) != bits(copied):
            whose = f"client {number - 1}" if number else "the server"
            raise Broken(f"a checkpoint has other tensors of {whose}")


STAYS = Promise("a whole round stays on its device, and no training step waits for the device", _stays)
PROMISES = [*contract.PROMISES, STAYS]


def _parts(state: State) -> list[Tensors]:
    return [state.server, *state.clients]


def _values(tensors: Tensors) -> Tensors:
    """The values of tensors on the imitated device, where no operation reads them."""
    return {name: tensor.held for name, tensor in tensors.items() if isinstance(tensor, OnDevice)}


def _moved(tensors: Mapping[str, Tensor]) -> Tensors:
    return {name: tensor.to(CUDA) for name, tensor in tensors.items()}


def _noting(hook: Callable[..., Tensors], sent: list[Tensors]) -> Callable[..., Tensors]:
    """The hook, which also adds its payloads to `sent`."""

    def noted(*given: Any) -> Tensors:
        sent.append(hook(*given))
        return sent[-1]

    return noted
