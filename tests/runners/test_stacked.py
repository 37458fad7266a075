"""Clients trained as one: the numbers of clients side by side but for the rounding of sums, with bits of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from simulator import methods
from simulator.base.errors import ConfigError
from simulator.base.sections import MethodConfig
from simulator.data.specs import Kind
from simulator.engine.client_states import State
from simulator.engine.progress import Event, Warned
from simulator.methods import registry
from simulator.methods.base import Card, Method
from simulator.runners import RoundInterrupted
from simulator.training import stacking
from simulator.training.client import LocalClient
from simulator.training.phase import Batch, Draws, Nets, Phase
from tests import federations
from tests.methods import reference

EVERYBODY = {"clients": 6, "participation": 1.0}


def after_a_round(name: str, runner: str, told: list[Event] | None = None, **sections: Any) -> State:
    """Six clients of two architectures, one with BatchNorm and dropout, of samples that differ in number."""
    sections = {"federation": EVERYBODY, **sections}
    sections["runtime"] = {"runner": runner, **sections.get("runtime", {})}
    parts = federations.built(federations.config(name, **sections))
    return federations.run(parts.engine, 1, (told if told is not None else []).append)


def assert_close(stacked: State, alone: State) -> None:
    """Every tensor within 1e-5 of its largest number, what ought to be 0 nearly so, and the ledger's figures too."""
    for one, other in zip([stacked.server, *stacked.clients], [alone.server, *alone.clients], strict=True):
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert tensor.dtype == other[name].dtype
            largest = float(other[name].abs().max()) if other[name].numel() else 0.0
            torch.testing.assert_close(tensor, other[name], rtol=1e-5, atol=max(1e-5 * largest, 1e-12))
    assert stacked.record is not None and alone.record is not None
    for figure in ("flops", "bytes", "participants", "diverged"):
        assert stacked.record[figure] == alone.record[figure]
    losses = [state.record["loss"]["per_client"] for state in (stacked, alone) if state.record]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def unwarned(told: list[Event]) -> bool:
    """Nothing is said of clients that train side by side."""
    return not [event for event in told if isinstance(event, Warned) and "side by side" in event.message]


OFTEN = ("scaffold", "fedproto", "fiarse", "pfedmoe", "pfedafm")
STACKED = [name for name in methods.names() if name != "fedmd"]  # its public samples are batches of its own


def tiers(first: str, often: Sequence[str] = ()) -> list[Any]:
    """All methods: the first in every run of the tests, some in longer ones."""
    return [
        pytest.param(
            name, marks=() if name == first else pytest.mark.long if name in often else pytest.mark.slow
        )
        for name in STACKED
    ]


COMPARABLE = {"lora": {"aggregation": "mean"}}
"""Settings without which rounding decides: an SVD's last directions, where a product has not the full rank."""


@pytest.mark.long
@pytest.mark.parametrize("name", ["fedproto", "fedl2g_l"])
def test_each_client_of_a_stack_has_its_own_weights_of_classes(name: str) -> None:
    sections = {"training": {"class_weights": "balanced"}, "data": {"partition": "dirichlet", "alpha": 1.0}}
    with reference.double_precision():
        stacked, alone = (after_a_round(name, runner, **sections) for runner in ("stacked", "parallel"))
        plain = after_a_round(name, "parallel", data=sections["data"])
    assert_close(stacked, alone)
    assert any(
        federations.bits(one) != federations.bits(other)
        for one, other in zip(alone.clients, plain.clients, strict=True)
    )


@pytest.mark.parametrize("name", tiers("fedlora", OFTEN))
def test_a_round_is_that_of_clients_side_by_side(name: str) -> None:
    """BatchNorm's statistics, dropout, two phases, several networks, corrections, sums, parameters asked for by name,
    samples of the client's choice; batches of one client are fewer images than another's.
    """
    told: list[Event] = []
    method = COMPARABLE.get(name, {})
    with reference.double_precision():
        stacked = after_a_round(name, "stacked", told, method=method)
        alone = after_a_round(name, "parallel", method=method)
    assert_close(stacked, alone)
    plain, others = (state.record["loss"]["cross_entropy"] for state in (stacked, alone) if state.record)
    assert plain == pytest.approx(others)
    assert unwarned(told)


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("tokens", "tiny_text"),
        ("signal", "tiny_signal"),
        ("table", "tiny_table"),
        pytest.param("tokens", "tiny_text_cells", marks=pytest.mark.slow),
        pytest.param("tokens", "tiny_text_depths", marks=pytest.mark.slow),
    ],
)
def test_models_of_every_kind_of_samples_are_stacked(kind: Kind, group: str) -> None:
    """Cells of recurrent models, attention, dropout within both, and convolutions over time."""
    told: list[Event] = []
    federation = EVERYBODY | {"group": group}
    states = []
    with reference.double_precision():
        for runner in ("stacked", "parallel"):
            settings = federations.config(federation=federation, runtime={"runner": runner})
            parts = federations.built(settings, federations.samples(kind))
            states.append(federations.run(parts.engine, 1, told.append))
    assert_close(*states)
    assert unwarned(told)


def of_an_update(name: str, **sections: Any) -> list[float]:
    """For each client: how far its stacked parameters are from those side by side, as a share of the round's step."""
    parts = federations.built(federations.config(name, **sections))
    began = [dict(client) for client in parts.engine.initial_state().clients]
    stacked, alone = (after_a_round(name, runner, **sections) for runner in ("stacked", "parallel"))
    found = []
    for start, one, other in zip(began, stacked.clients, alone.clients, strict=True):
        trained = [key for key in start if start[key].is_floating_point() and "running" not in key]
        far, step = (
            torch.cat([(a[key] - b[key]).flatten() for key in trained]).norm()
            for a, b in ((one, other), (other, start))
        )
        found.append(float(far / step))
    return found


@pytest.mark.long
def test_in_float64_a_stacked_resnet_with_batchnorm_takes_the_same_step_to_ten_digits() -> None:
    """In float32 it need not: BatchNorm and ReLU amplify the last digits step by step (docs/training.md)."""
    federation = {"clients": 4, "participation": 1.0, "group": "tiny_resnet"}
    with reference.double_precision():
        found = of_an_update("standalone", federation=federation, data={"quantity": "equal"})
    assert all(0 < share < 1e-10 for share in found), found


@pytest.mark.long
@pytest.mark.parametrize(
    "training",
    [
        pytest.param({"momentum": 0.9, "weight_decay": 0.1, "clip": 0.01}, id="sgd"),
        pytest.param(
            {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1}, id="adamw", marks=pytest.mark.slow
        ),
        pytest.param({"augment": ("flip", "crop", "erase"), "batch_size": 13}, id="augmented"),
    ],
)
def test_settings_of_training_hold_for_every_client_by_itself(training: dict[str, Any]) -> None:
    told: list[Event] = []
    with reference.double_precision():
        stacked = after_a_round("fedavg", "stacked", told, training=training)
        assert_close(stacked, after_a_round("fedavg", "parallel", training=training))
    assert unwarned(told)


class Scripted(Method):
    """Standalone whose networks and loss the test says."""

    name = "scripted"
    card = Card("Scripted", "a test", "none", "nothing", "–", "–")
    Config = MethodConfig
    asked = 0

    def phases(self, local: LocalClient) -> list[Phase]:
        local.nets["idle"] = torch.nn.Linear(1, 1).requires_grad_()
        with torch.no_grad():
            local.nets["idle"].weight.fill_(2.0)
        return [Phase("model", self.loss, trains=("model", "idle"), draws=self.draws)]

    def draws(self, stream: torch.Generator, batch: Batch) -> Draws:
        return {"noise": torch.randn(batch.x.shape, generator=stream)}

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        return F.cross_entropy(nets.model(batch.x + 0.1 * draws["noise"]), batch.y)

    def uplink(self, local: LocalClient) -> dict[str, Tensor]:
        return {"idle": local.nets["idle"].weight.detach()}

    def aggregate(self, round: int, server: Mapping[str, Tensor], uplinks: Any) -> Any:
        assert [float(payload["idle"]) for _, payload in uplinks] == [2.0] * len(uplinks)
        return super().aggregate(round, server, uplinks)


class Looking(Scripted):
    """Its loss looks at a value on the host."""

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        loss = super().loss(nets, state, batch, draws)
        return loss * 2 if loss.item() > 100 else loss


class Noted(Scripted):
    """Every client's network has a number of its own that no tensor holds."""

    def phases(self, local: LocalClient) -> list[Phase]:
        local.nets.model.offset = float(local.info.id)  # type: ignore[assignment]
        return super().phases(local)

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        own = batch._replace(x=batch.x + nets.model.offset)  # type: ignore[operator]
        return super().loss(nets, state, own, draws)


class Drawing(Scripted):
    """Its loss draws by itself."""

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        return super().loss(nets, state, batch._replace(x=batch.x + torch.randn_like(batch.x)), draws)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny")

    def method(kind: type[Method]) -> str:
        monkeypatch.setitem(registry._METHODS, "scripted", kind)
        return "scripted"

    return method


@pytest.mark.parametrize("name", tiers("fedavg"))
def test_bf16_is_stacked_too(name: str) -> None:
    """BatchNorm among it, whose maps are bfloat16 and whose statistics are not."""
    told: list[Event] = []
    state = after_a_round(name, "stacked", told, training={"precision": "bf16"})
    assert unwarned(told)
    for tensors, others in zip(state.clients, after_a_round(name, "parallel").clients, strict=True):
        assert [each.dtype for each in tensors.values()] == [each.dtype for each in others.values()]
        assert all(each.isfinite().all() for each in tensors.values())


def test_a_weight_that_no_loss_reaches_does_not_move_and_draws_are_the_clients_own(scripted: Any) -> None:
    """Weight decay would move it, had it a gradient of zero."""
    told: list[Event] = []
    training = {"weight_decay": 0.1}
    with reference.double_precision():
        name = scripted(Scripted)
        stacked = after_a_round(name, "stacked", told, training=training)
        assert_close(stacked, after_a_round(name, "parallel", training=training))
    assert unwarned(told)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "reason", "rounds"),
    [
        (Looking, "RuntimeError: ", 2),
        (Noted, "their networks differ in 'offset' of a Tiny", 1),
        (Drawing, "TypeError: randn_like cannot draw for each of several clients at once", 1),
    ],
)
def test_clients_that_cannot_be_stacked_say_so_once(
    kind: type[Method], reason: str, rounds: int, scripted: Any
) -> None:
    name, told = scripted(kind), []
    parts = federations.built(federations.config(name, federation=EVERYBODY, runtime={"runner": "stacked"}))
    stacked = federations.run(parts.engine, rounds, told.append)
    alone = federations.run(federations.built(federations.config(name, federation=EVERYBODY)).engine, rounds)
    assert federations.state_bits(stacked) == federations.state_bits(alone)
    notes = [event.message for event in told if isinstance(event, Warned)]
    assert [note.split(" train ")[0] for note in notes] == ["Clients of tiny_cnn", "Clients of tiny_mlp"]
    assert all(f"side by side, and not stacked: {reason}" in note for note in notes)


@pytest.mark.long
def test_a_phase_with_batches_of_its_own_is_not_stacked() -> None:
    told: list[Event] = []
    after_a_round("fedmd", "stacked", told)
    notes = [event.message for event in told if isinstance(event, Warned)]
    assert len(notes) == 2 and all("phase 'public' has batches of its own" in note for note in notes)


class Broken(Scripted):
    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        raise ZeroDivisionError


def test_a_loss_that_fails_is_said_to_fail(scripted: Any) -> None:
    with pytest.raises(Exception, match="phase 'model', step 1: ZeroDivisionError"):
        after_a_round(scripted(Broken), "stacked")


def test_a_stack_has_so_many_clients_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three clients of each of two architectures: with stacks of two, one of each trains by itself."""
    sizes: list[int] = []
    steps = stacking.steps

    def noted(clients: Any, *rest: Any) -> Any:
        sizes.append(len(clients))
        return steps(clients, *rest)

    monkeypatch.setattr("simulator.runners.in_process.steps", noted)
    iid = {"partition": "iid", "quantity": "equal"}
    after_a_round("standalone", "stacked", data=iid, runtime={"stack": 2})
    after_a_round("standalone", "stacked", data=iid)
    assert sizes == [2, 2, 3, 3]


def test_stacks_stay_whole_in_a_round_that_was_left_and_goes_on() -> None:
    """A client that diverged is not kept over a stop, and would train by itself then, with other last digits."""
    everybody, runtime = {"clients": 8, "participation": 1.0}, {"runner": "stacked", "stack": 2}
    for name, spoilt in (("fedavg", None), ("standalone", 0)):
        engine = federations.built(federations.config(name, federation=everybody, runtime=runtime)).engine
        start = engine.initial_state()
        if spoilt is not None:
            infinite = {key: torch.full_like(each, torch.inf) for key, each in start.clients[spoilt].items()}
            start = replace(start, clients=start.clients.after({spoilt: infinite}))
        alone = engine.round(start, lambda event: None)
        with pytest.raises(RoundInterrupted) as left:
            engine.round(start, lambda event: None, lambda done, running: "leave" if len(done) > 2 else "go")
        finished = {update.client.id: update for update in left.value.updates}
        assert len(finished) == (4 if spoilt is None else 2) and spoilt not in finished
        if spoilt is None:
            finished.pop(min(finished))  # it diverged, say
        later = set(range(8)) - {update.client.id for update in left.value.updates}
        again = engine.round(start, lambda event: None, finished=finished)
        assert alone.record is not None and alone.record["diverged"] == [
            each for each in [spoilt] if each is not None
        ]
        for client in later if spoilt is None else range(8):
            assert federations.bits(again.clients[client]) == federations.bits(alone.clients[client])


def test_clients_of_whom_no_two_are_alike_are_refused_the_runner() -> None:
    pair = {"clients": 2, "participation": 1.0}
    with pytest.raises(ConfigError, match=r"no two have the same; use `runtime\.runner=parallel`"):
        federations.built(federations.config(federation=pair, runtime={"runner": "stacked"}))
