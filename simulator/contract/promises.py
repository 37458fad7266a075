"""A method under test, and the promises of every method: each is a sentence and a function that raises Broken."""

import copy
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simulator import methods, runners
from simulator.base import rng
from simulator.base.errors import RAISED, ConfigError, HtflError
from simulator.base.nested import merged
from simulator.base.record import Record
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors, total_bytes
from simulator.config import Config
from simulator.data.datasets import data_folder
from simulator.data.specs import Kind
from simulator.engine.builder import Built, build
from simulator.engine.client_states import State
from simulator.engine.progress import unobserved
from simulator.methods.hooks import Hooks
from simulator.runners import Job, local
from simulator.sessions import states
from simulator.sessions.reader import CheckedReader
from simulator.sessions.session import Session
from simulator.training.flops import FlopCache
from simulator.training.phase import Batch, Draws, Nets, Phase, parts_of
from simulator.training.precision import Precision, networks_in
from simulator.training.trainer import TrainingContext

GROUPS: dict[Kind, tuple[str, ...]] = {
    "image": ("tiny", "tiny_resnet", "tiny_vit", "tiny_widths"),
    "tokens": ("tiny_text", "tiny_text_depths", "tiny_text_widths"),
    "signal": ("tiny_signal", "tiny_mlp_widths"),
    "table": ("tiny_table", "tiny_mlp_widths"),
}
"""The groups of tiny models for each kind of samples, in the order in which they are tried."""
CLIENTS, ROUNDS = 4, 2
"""The second round is the first that starts from another round's state."""


class Subject:
    """A method under test, on four clients. Three take part in each of two rounds."""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        *,
        runner: str | None = None,
        precision: Precision | None = None,
        dataset: str | None = None,
        kind: Kind = "image",
    ) -> None:
        """Tested with all runners and precisions, or these, on that dataset. Raises ConfigError if no group fits."""
        self.method = methods.get(name)
        self.settings = {"name": name, **(settings or {})}
        self.runners = runners.names_within() if runner is None else [runner]
        self.precisions: list[Precision] = ["float32", "bf16"] if precision is None else [precision]
        self.dataset = {} if dataset is None else {"dataset": dataset}
        refusals = []
        for group in GROUPS[kind]:
            self.group = group
            try:
                self.built()
            except ConfigError as refused:
                refusals.append(f"{group}: {refused}")
            else:
                return
        raise ConfigError(
            f"method '{name}' cannot be tried: none of the tiny models meets its needs ({refusals[0]})"
        )

    def config(self, **sections: Any) -> Config:
        """The tiny federation; `sections` change it."""
        base = {
            "seed": 7,
            "rounds": ROUNDS,
            "method": self.settings,
            "data": {"limit": 200, "public": 0.2} | self.dataset,
            "federation": {"clients": CLIENTS, "participation": 0.75, "group": self.group},
            "training": {"batch_size": 16, "lr": 0.1, "precision": self.precisions[0]},
            "cka": {"every": 0},
            "runtime": {"workers": 1, "device": "cpu", "runner": self.runners[0]},
        }
        return Config.read(merged(base, sections))

    def built(self, **sections: Any) -> Built:
        """The parts of that federation."""
        return build(self.config(**sections), data_folder(None))

    def states(self, rounds: int = ROUNDS, **sections: Any) -> list[State]:
        """The state after each of this many rounds."""
        engine = self.built(**sections).engine
        state, after = engine.initial_state(), []
        for _ in range(rounds):
            after.append(state := engine.round(state, unobserved))
        engine.close()
        return after

    @property
    def first(self) -> State:
        """The state after round 1, computed once."""
        return self._undisturbed[0]

    @property
    def last(self) -> State:
        """The state after the last round, computed once."""
        return self._undisturbed[-1]

    @cached_property
    def _undisturbed(self) -> list[State]:
        return self.states()

    def phases(self) -> Iterator[tuple[Nets, Phase, Batch]]:
        """Every phase of the first client of each architecture, in round 2, with a batch of its data."""
        parts = self.built()
        context = TrainingContext(parts.federation, parts.data, FlopCache())
        firsts = {info.architecture: info for info in reversed(parts.federation.clients)}
        for info in firsts.values():
            client = info.id
            payload = parts.method.downlink(2, self.first.server, info)
            job = Job(self.first.clients[client], {name: tensor.clone() for name, tensor in payload.items()})
            prepared = local.prepare(Hooks(parts.method, parts.federation), context, info, 2, job)
            for phase in prepared.phases:
                yield prepared.local.nets, phase, next(prepared.local.batches(phase))


CPU = torch.device("cpu")
Bits = dict[str, tuple[str, tuple[int, ...], bytes]]


def bits(tensors: Mapping[str, Tensor]) -> Bits:
    """Names, dtypes, shapes, and bytes, so that two states compare bit for bit, NaN or not."""
    return {
        name: (
            str(tensor.dtype),
            tuple(tensor.shape),
            tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
        for name, tensor in tensors.items()
    }


def state_bits(state: State) -> dict[str, Any]:
    """Every tensor of the server and the clients, bit for bit."""
    return {"server": bits(state.server), "clients": [bits(tensors) for tensors in state.clients]}


def untimed(record: Record | None) -> dict[str, Any]:
    """A ledger record without the part that may differ between equal runs."""
    return {key: value for key, value in (record or {}).items() if key != "timing"}


class Broken(Exception):
    """A broken promise. The message says how."""


@dataclass(frozen=True)
class Promise:
    """A sentence about every method, and the check of it."""

    sentence: str
    check: Callable[[Subject], None]

    def broken_by(self, subject: Subject) -> str | None:
        """How a method breaks it, or None."""
        try:
            self.check(subject)
        except (Broken, HtflError) as fault:
            return str(fault)
        except RAISED as fault:  # a check also calls hooks directly, and may get any error
            return f"{type(fault).__name__}: {fault}"
        return None


PROMISES: list[Promise] = []


def promise(sentence: str) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Add a check under its sentence."""

    def add(check: Callable[[Subject], None]) -> Callable[[Subject], None]:
        PROMISES.append(Promise(sentence, check))
        return check

    return add


@promise("states keep their names, shapes and dtypes")
def _states_keep_their_layout(subject: Subject) -> None:
    start, end = subject.built().engine.initial_state(), subject.last
    for (name, before), after in zip(_parts(start).items(), _parts(end).values(), strict=True):
        layouts = [{n: (each.shape, each.dtype) for n, each in of.items()} for of in (before, after)]
        _expect(layouts[0] == layouts[1], f"{name} has other tensors after {ROUNDS} rounds than before")


@promise("a round changes every participant and nobody else")
def _a_round_changes_its_participants(subject: Subject) -> None:
    start, end = subject.built().engine.initial_state(), subject.first
    assert end.record is not None
    for client in range(CLIENTS):
        changed = bits(start.clients[client]) != bits(end.clients[client])
        took_part = client in end.record["participants"]
        _expect(changed == took_part, f"client {client} {'kept' if took_part else 'changed'} its state")


@promise("the same seed gives the same bits")
def _the_same_seed_gives_the_same_bits(subject: Subject) -> None:
    _expect_same(subject.states()[-1], subject.last, "a second run")


@promise("another seed gives other bits")
def _another_seed_gives_other_bits(subject: Subject) -> None:
    [other] = subject.states(1, seed=8)
    _expect(state_bits(other) != state_bits(subject.first), "seeds 7 and 8 give the same bits")


@promise("every runner and precision gives its bits again, whatever the number of workers")
def _every_runner_and_precision_repeats_itself(subject: Subject) -> None:
    usual = subject.runners[0], subject.precisions[0]
    ways = [(runner, usual[1]) for runner in subject.runners]
    ways += [(usual[0], precision) for precision in subject.precisions[1:]]
    for runner, precision in ways:
        one, two = (
            subject.last
            if (runner, precision, workers) == (*usual, 1)
            else subject.states(
                runtime={"runner": runner, "workers": workers}, training={"precision": precision}
            )[-1]
            for workers in (1, 2)
        )
        _expect_same(one, two, f"runner '{runner}' in {precision} with two workers in place of one")


@promise("a session that was stopped and resumed gives the bits of one left alone")
def _a_resumed_session_gives_the_same_bits(subject: Subject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "stopped")
        session = Session.create(subject.config(), folder, data_folder(None))
        session.run(stop=lambda: "enough" if session.round == 1 else None)
        Session.resume(folder, data_folder(None)).run()
        kept = CheckedReader(folder)
        records = [untimed(record) for record in kept.records()]
        expected = [untimed(state.record) for state in (subject.first, subject.last)]
        _expect(records == expected, "the resumed session has other records")
        end = states.restore(kept, kept.manifest(), subject.built())
        _expect_same(end, subject.last, "the resumed session")


@promise("measured traffic is the size of the payloads")
def _traffic_is_the_size_of_the_payloads(subject: Subject) -> None:
    parts = subject.built()
    sent = {"down": [0] * CLIENTS, "up": [0] * CLIENTS}
    downlink, uplink = parts.method.downlink, parts.method.uplink

    def weighed_downlink(round: int, server: Any, client: Any) -> Tensors:
        payload = downlink(round, server, client)
        if round == 1:  # otherwise, the next downlink is evaluated
            sent["down"][client.id] += total_bytes(payload)
        return payload

    def weighed_uplink(at_work: Any) -> Tensors:
        payload = uplink(at_work)
        sent["up"][at_work.info.id] += total_bytes(payload)
        return payload

    parts.method.downlink = weighed_downlink  # type: ignore[method-assign]
    parts.method.uplink = weighed_uplink  # type: ignore[method-assign,assignment]
    record = parts.engine.round(parts.engine.initial_state(), unobserved).record
    assert record is not None
    traffic = record["bytes"]
    for direction, counted in (("down", traffic["per_client_down"]), ("up", traffic["per_client_up"])):
        _expect(counted == sent[direction], f"{direction}: measured {counted} bytes, sent {sent[direction]}")
    _expect(sum(traffic["by_tensor"].values()) == traffic["down"] + traffic["up"], "the parts do not add up")


@promise("a round is a function of the state it starts from")
def _a_round_is_a_function_of_its_state(subject: Subject) -> None:
    parts = subject.built()
    start = parts.engine.initial_state()
    before, held = state_bits(start), _attributes(parts.method)
    first = parts.engine.round(start, unobserved)
    bits_of_first = state_bits(first)
    second = parts.engine.round(first, unobserved)
    again = state_bits(parts.engine.round(start, unobserved))
    _expect(bits_of_first == again, f"round 1 gives other bits after round {second.round} than before it")
    _expect(state_bits(start) == before, "a round changes the state that it starts from")
    _expect(_attributes(parts.method) == held, "the method object holds what a round changes")


@promise("no global generator is touched")
def _no_global_generator_is_touched(subject: Subject) -> None:
    before = _global_generators()
    subject.states(1, runtime={"workers": 2})
    moved = [name for name, state in _global_generators().items() if state != before[name]]
    named = " and ".join(moved)
    _expect(not moved, f"{named} moved; draw from local.stream(purpose) or self.federation.stream(…)")


@promise("losses are pure")
def _losses_are_pure(subject: Subject) -> None:
    for nets, phase, batch in subject.phases():
        nets.eval()  # dropout and batch statistics belong to the network, not to the loss
        draws = _drawn(phase, batch)
        stream = rng.torch_stream(0, "contract/loss")
        begun, weights = stream.get_state(), bits(nets.state_dict())
        with drawing_from(stream), networks_in(subject.precisions[0], nets, CPU):
            first, second = (parts_of(phase.loss(nets, phase.state, batch, draws)).loss for _ in range(2))
        whose = f"the loss of phase '{phase.name}'"
        _expect(first.shape == (), f"{whose} is no scalar but {list(first.shape)}")
        _expect(bool(first.isfinite()), f"{whose} is not finite")
        _expect(torch.equal(first, second), f"{whose} is another at the second call")
        still = torch.equal(stream.get_state(), begun)
        _expect(still, f"{whose} draws by itself; give the phase a `draws` function")
        _expect(bits(nets.state_dict()) == weights, f"{whose} changes its networks")


@promise("every phase trains the modules that it names")
def _phases_train_what_they_name(subject: Subject) -> None:
    for nets, phase, batch in subject.phases():
        for name, module in nets.named_children():
            module.requires_grad_(name in phase.trains)
        with (
            drawing_from(rng.torch_stream(0, "contract/layers")),
            networks_in(subject.precisions[0], nets, CPU),
        ):
            parts_of(phase.loss(nets, phase.state, batch, _drawn(phase, batch))).loss.backward()
        for name in phase.trains:
            reached = any(parameter.grad is not None for parameter in nets[name].parameters())
            _expect(reached, f"no gradient of phase '{phase.name}' reaches '{name}'")


@promise("its card says what it is")
def _the_card_is_filled_in(subject: Subject) -> None:
    card = getattr(subject.method, "card", None)
    _expect(card is not None, "it has no card")
    for field in fields(subject.method.card):
        text = getattr(subject.method.card, field.name)
        empty = field.name in ("stale", "partial")  # such a method takes no such uplinks
        _expect((empty or bool(text)) and text.strip() == text, f"its card says {text!r} for '{field.name}'")


def _expect(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Broken(otherwise)


def _expect_same(first: State, second: State, what: str) -> None:
    for (name, one), other in zip(_parts(first).items(), _parts(second).values(), strict=True):
        _expect(bits(one) == bits(other), f"{what} gives {name} other tensors")
    _expect(untimed(first.record) == untimed(second.record), f"{what} gives another record")


def _parts(state: State) -> dict[str, Tensors]:
    return {"the server": state.server} | {f"client {k}": each for k, each in enumerate(state.clients)}


def _attributes(method: methods.Method) -> dict[str, Any]:
    """All attributes of a method object besides the facts of the federation."""
    return copy.deepcopy({key: value for key, value in vars(method).items() if key != "federation"})


def _drawn(phase: Phase, batch: Batch) -> Draws:
    return phase.draws(rng.torch_stream(0, "contract/draws"), batch) if phase.draws else {}


def _global_generators() -> dict[str, Any]:
    numpy = np.random.get_state(legacy=False)  # noqa: NPY002 - looked at, not used
    assert isinstance(numpy, dict)
    return {
        "torch's global generator": torch.get_rng_state().numpy().tobytes(),
        "numpy's global generator": (numpy["state"]["key"].tobytes(), numpy["state"]["pos"]),
        "Python's global generator": random.getstate(),
    }
