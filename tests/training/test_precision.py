"""What is rounded in each precision, what never is, and who is refused one."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.sections import MethodConfig
from simulator.engine.progress import Event, Warned
from simulator.methods import registry
from simulator.methods.base import Card, Method
from simulator.training.phase import Batch, Draws, Nets, Phase
from simulator.training.precision import networks_in, refuse_lacking, slow_here, tf32_in_force
from tests import federations

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def layer(weight: float) -> nn.Linear:
    """x ↦ weight · x."""
    module = nn.Linear(1, 1, bias=False)
    module.load_state_dict({"weight": torch.tensor([[weight]])})
    return module


def test_in_bf16_a_network_multiplies_with_eight_bits_and_shows_float32() -> None:
    """1 + 2⁻⁷ has eight bits; of 1 + 2⁻⁷ + 2⁻⁹ the last is lost, and with it a third of the difference from 1."""
    nets = Nets(fine=layer(1 + 2**-7), finer=layer(1 + 2**-7 + 2**-9))
    one = torch.ones(1, 1)
    with networks_in("bf16", nets, CPU):
        shown = [nets[name](one) for name in ("fine", "finer")]
    assert [each.item() for each in shown] == [1 + 2**-7, 1 + 2**-7]
    assert {each.dtype for each in shown} == {torch.float32}
    assert nets["finer"](one).item() == 1 + 2**-7 + 2**-9


def test_networks_are_as_before_afterwards_also_after_an_error() -> None:
    nets = Nets(layer=layer(1 + 2**-20))
    before = set(vars(nets["layer"]))
    with pytest.raises(ZeroDivisionError), networks_in("bf16", nets, CPU):
        raise ZeroDivisionError
    assert set(vars(nets["layer"])) == before
    assert not torch.is_autocast_enabled("cpu")


class Watched(Method):
    """Standalone that notes which dtypes its loss meets, and whether a product of its own is rounded."""

    name = "watched"
    card = Card("Watched", "a test", "none", "nothing", "–", "–")
    Config = MethodConfig
    seen: set[tuple[str, torch.dtype]]

    def phases(self, local: Any) -> list[Phase]:
        return [Phase("model", self.loss)]

    def loss(self, nets: Nets, state: Mapping[str, Tensor], batch: Batch, draws: Draws) -> Tensor:
        features = nets.model.features(batch.x)
        logits = nets.model.head(features)
        shown = {"x": batch.x, "features": features, "logits": logits, "whole": nets.model(batch.x)}
        shown |= nets.model.represent(batch.x) | {"own": features @ features.T}
        self.seen.update((name, tensor.dtype) for name, tensor in shown.items())
        return F.cross_entropy(logits, batch.y)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._METHODS, "watched", Watched)
    monkeypatch.setattr(federations, "group_for", lambda name: "tiny")


def after_a_round(name: str, **training: Any) -> Any:
    settings = federations.config(name, training={"optimizer": "adam", "lr": 0.01, **training})
    return federations.run(federations.built(settings).engine, 1)


def test_a_loss_meets_float32_alone_and_computes_in_it(watched: None) -> None:
    Watched.seen = set()
    after_a_round("watched", precision="bf16")
    assert {dtype for _, dtype in Watched.seen} == {torch.float32}
    assert {name for name, _ in Watched.seen} >= {"features", "logits", "fc1", "own"}


def test_bf16_changes_the_bits_of_what_is_trained_and_no_dtype() -> None:
    """The group has a convolution, BatchNorm and dropout."""
    rounded, plain = (after_a_round("fedavg", precision=each) for each in ("bf16", "float32"))
    assert federations.state_bits(rounded) != federations.state_bits(plain)
    for one, other in zip([rounded.server, *rounded.clients], [plain.server, *plain.clients], strict=True):
        assert {k: each.dtype for k, each in one.items()} == {k: each.dtype for k, each in other.items()}
        for name, tensor in one.items():
            torch.testing.assert_close(tensor, other[name], rtol=0.1, atol=0.05)


def test_evaluation_and_the_initial_weights_are_float32_in_bf16() -> None:
    """A rate of 10⁻³⁰ moves no weight: the same models then give the same figures, though they were trained in bf16."""
    rounded, plain = (
        after_a_round("standalone", precision=each, lr=1e-30, optimizer="sgd") for each in ("bf16", "float32")
    )
    weights = [
        {name: each for name, each in state.clients[0].items() if "running" not in name}
        for state in (rounded, plain)
    ]
    assert federations.bits(weights[0]) == federations.bits(weights[1])
    assert rounded.record["loss"] != plain.record["loss"]
    cnn = [0, 2]  # the others' running statistics come from rounded maps
    for measured in ("accuracy", "evaluation"):
        assert set(rounded.record[measured]) == set(plain.record[measured])
    losses = [state.record["evaluation"]["test"]["loss"]["per_client"] for state in (rounded, plain)]
    assert [losses[0][client] for client in cnn] == [losses[1][client] for client in cnn]


def test_a_precision_that_the_device_lacks_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for precision, device, capability, why in [
        ("tf32", CPU, None, "this is the CPU; use float32 or bf16"),
        ("tf32", CUDA, (7, 5), "compute capability 8.0 or more, and this is compute capability 7.5"),
        ("bf16", CUDA, (7, 5), "a CUDA device that computes in bfloat16"),
    ]:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        monkeypatch.setattr(
            torch.cuda, "is_bf16_supported", lambda including_emulation, found=capability: found >= (8, 0)
        )
        with pytest.raises(ConfigError, match=why):
            refuse_lacking(precision, device)


def test_every_device_has_float32_and_new_ones_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    refuse_lacking("bf16", CPU)
    for precision in ("float32", "tf32", "bf16"):
        refuse_lacking(precision, CUDA)  # type: ignore[arg-type]


def test_bf16_is_slow_on_a_cpu_that_does_not_compute_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run says so. Where torch does not tell what the CPU has, it says nothing."""
    none = {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}
    for cpu, slow in (
        (none | {"avx512_bf16": True}, False),
        (none | {"amx_bf16": True}, False),
        ({"architecture": "aarch64"}, False),
        (none, True),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda cpu=cpu: cpu, raising=False)
        assert (slow_here("bf16", CPU) is not None) == slow
        assert slow_here("float32", CPU) is None
    told: list[Event] = []
    parts = federations.built(federations.config(training={"precision": "bf16"}))
    federations.run(parts.engine, 1, told.append)
    notes = [event.message for event in told if isinstance(event, Warned)]
    assert [note.split(" (")[0] for note in notes] == ["This CPU has no arithmetic in bfloat16"]


def switches() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def test_torchs_switches_are_turned_for_a_round_on_cuda_and_turned_back() -> None:
    """They can be turned where there is no GPU."""
    for precision, on in [("float32", False), ("tf32", True), ("bf16", False)]:
        before = switches()
        with pytest.raises(ZeroDivisionError), tf32_in_force(precision, CUDA):
            assert switches() == (on, on)
            with tf32_in_force(precision, CUDA):  # CKA within a round
                pass
            assert switches() == (on, on)
            raise ZeroDivisionError
        assert switches() == before
        assert before == (False, True)  # torch's own


def test_two_runs_of_a_process_cannot_compute_both_ways_at_once() -> None:
    before = switches()
    with (
        tf32_in_force("tf32", CUDA),
        pytest.raises(ConfigError, match="in a process of its own"),
        tf32_in_force("float32", CUDA),
    ):
        raise AssertionError("both")
    assert switches() == before
