"""The wire copies what passes and counts it; on request it loses uplinks or adds noise to them."""

from typing import Any

import pytest
import torch
from torch import Tensor

from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.sections import WireConfig
from simulator.engine.client_states import State
from simulator.engine.wire import Wire
from tests import federations


def test_bytes_are_counted_per_client_direction_and_part() -> None:
    """Client 1 gets a head of 3·2 + 3 floats, 36 B; it sends 2 features of 4 floats, 32 B, and 2 labels, 8 B."""
    wire = Wire(3)
    wire.down(1, {"head/weight": torch.zeros(3, 2), "head/bias": torch.zeros(3)})
    wire.up(1, {"features": torch.zeros(2, 4), "labels": torch.zeros(2, dtype=torch.int32)})
    assert wire.traffic(None) == {
        "up": 40,
        "down": 36,
        "up_total": 40,
        "down_total": 36,
        "per_client_up": [0, 40, 0],
        "per_client_down": [0, 36, 0],
        "by_tensor": {"down/head": 36, "up/features": 32, "up/labels": 8},
    }
    assert wire.params() == {"up": 8, "down": 9}  # without labels


def test_totals_go_on_from_the_round_before() -> None:
    first, second = Wire(1), Wire(1)
    first.up(0, {"a": torch.zeros(2)})
    first.down(0, {"a": torch.zeros(3)})
    second.up(0, {"a": torch.zeros(5)})
    traffic = second.traffic(first.traffic(None))
    assert (traffic["up"], traffic["up_total"]) == (20, 28)
    assert (traffic["down"], traffic["down_total"]) == (0, 12)


def test_what_arrives_is_a_copy_without_history() -> None:
    for direction in ("up", "down"):
        sent = torch.ones(2, requires_grad=True) * 1.0
        arrived = getattr(Wire(1), direction)(0, {"a": sent})["a"]
        assert arrived.tolist() == [1.0, 1.0] and not arrived.requires_grad
        arrived += 1
        assert sent.tolist() == [1.0, 1.0]


def test_what_would_travel_in_a_wasteful_form_is_refused() -> None:
    for dtype in (torch.int64, torch.bool, torch.uint8):
        with pytest.raises(TypeError, match=r"'labels' is .*: labels and counts travel as int32"):
            Wire(1).up(0, {"labels": torch.zeros(2, dtype=dtype)})


def test_what_is_carried_to_a_client_again_counts_once() -> None:
    """Its job was made again: a payload is made when it is asked for."""
    wire = Wire(1)
    for _ in range(2):
        wire.down(0, {"head/x": torch.zeros(3)})
    assert (wire.traffic(None)["down"], wire.params()["down"]) == (12, 3)


def noisy(noise: float, *, clients: int = 2, seed: int = 7, round: int = 1) -> Wire:
    return Wire(clients, WireConfig(noise=noise), seed, round)


def lossy(drop: float, *, seed: int = 7, round: int = 1) -> Wire:
    return Wire(1000, WireConfig(drop=drop), seed, round)


def normal(*shape: int, purpose: str = "sent") -> Tensor:
    return torch.randn(shape, generator=rng.torch_stream(0, f"tests/{purpose}"))


def test_noise_has_the_deviation_of_the_update_times_the_factor() -> None:
    """A weight of 5 + N(0, 1) that was trained to 0.02·N(0, 1) further away: with factor 0.5 the noise has deviation
    0.01, within 5 standard errors of 1/√(2·40000), and no bias.
    """
    before, update = 5 + normal(200, 200, purpose="before"), 0.02 * normal(200, 200)
    wire = noisy(0.5)
    wire.down(0, {"model/weight": before})
    noise = wire.up(0, {"model/weight": before + update})["model/weight"] - (before + update)
    assert noise.std().item() == pytest.approx(0.01, rel=0.02)
    assert abs(noise.mean().item()) < 5 * 0.01 / 200


@pytest.mark.parametrize(
    "down", [{}, {"features": torch.full((3, 4), 99.0)}, {"other": torch.zeros(200, 200)}]
)
def test_what_was_not_sent_down_in_this_shape_counts_by_its_own_deviation(down: dict[str, Tensor]) -> None:
    wire = noisy(0.5)
    wire.down(0, down)
    sent = 7 + 3 * normal(200, 200)
    noise = wire.up(0, {"features": sent})["features"] - sent
    assert noise.std().item() == pytest.approx(1.5, rel=0.02)


def test_each_tensor_has_its_own_deviation() -> None:
    arrived = noisy(1.0).up(0, {"a": 100 * normal(100, 100), "b": normal(100, 100)})
    noise = {"a": arrived["a"] - 100 * normal(100, 100), "b": arrived["b"] - normal(100, 100)}
    assert noise["a"].std().item() == pytest.approx(100, rel=0.05)
    assert noise["b"].std().item() == pytest.approx(1, rel=0.05)
    assert abs(torch.corrcoef(torch.stack([noise["a"].flatten(), noise["b"].flatten()]))[0, 1]) < 0.05


def test_labels_counts_and_running_statistics_get_no_noise() -> None:
    sent = {
        "labels": torch.arange(5, dtype=torch.int32),
        "model/norm.running_mean": normal(5),
        "model/norm.running_var": normal(5) ** 2,
        "empty": torch.zeros(0, 4),
    }
    assert federations.bits(noisy(1.0).up(0, sent)) == federations.bits(sent)


def test_noise_leaves_the_client_its_own_tensors_and_the_downlink_alone() -> None:
    wire, sent = noisy(1.0), normal(5)
    arrived = wire.up(0, {"a": sent})["a"]
    assert not torch.equal(arrived, sent)
    assert torch.equal(sent, normal(5))
    assert torch.equal(wire.down(0, {"a": sent})["a"], sent)


def test_noise_is_a_function_of_seed_round_client_and_name() -> None:
    def noise(client: int = 0, name: str = "a", **stream: int) -> list[float]:
        return noisy(1.0, **stream).up(client, {name: normal(5)})[name].tolist()

    assert noise() == noise()
    others: list[dict[str, Any]] = [{}, {"client": 1}, {"name": "b"}, {"seed": 8}, {"round": 2}]
    assert len({tuple(noise(**each)) for each in others}) == 5


def test_uplinks_are_lost_with_the_probability_given() -> None:
    """300 of 1,000 at 0.3, give or take 5 standard deviations of 14.5."""
    lost = [client for client in range(1000) if lossy(0.3).loses(client)]
    assert abs(len(lost) - 300) < 73
    assert lost == [client for client in range(1000) if lossy(0.3).loses(client)]
    assert lost != [client for client in range(1000) if lossy(0.3, round=2).loses(client)]
    assert lost != [client for client in range(1000) if lossy(0.3, seed=8).loses(client)]


def test_an_uplink_is_disturbed_by_its_dispatch_number_not_by_the_round_it_arrives_in() -> None:
    """An uplink dispatched in round 1 arrives on round 3's wire: the noise and the loss are those of round 1."""
    before, sent = 5 + normal(5, purpose="before"), 5 + normal(5)
    first, third = noisy(1.0, round=1), noisy(1.0, round=3)
    first.down(0, {"model/weight": before})
    received = dict(first.received(0))
    third.down(0, {"model/weight": 2 * before})  # the client's next job
    late = third.up(0, {"model/weight": sent}, dispatch=1, received=received)
    assert federations.bits(late) == federations.bits(first.up(0, {"model/weight": sent}))
    in_time = third.up(0, {"model/weight": sent})
    assert federations.bits(late) != federations.bits(in_time)
    assert [lossy(0.3, round=3).loses(client, dispatch=1) for client in range(100)] == [
        lossy(0.3, round=1).loses(client) for client in range(100)
    ]


def test_an_uplink_that_arrives_late_leaves_what_the_client_received_since() -> None:
    """The later downlink still scales the noise of its own uplink: an unchanged weight gets none."""
    wire, weight = noisy(1.0), normal(5)
    wire.down(0, {"model/weight": weight})
    wire.up(0, {"model/weight": 3 * weight}, dispatch=0, received={})
    assert torch.equal(wire.up(0, {"model/weight": weight})["model/weight"], weight)


def test_impossible_settings_are_refused() -> None:
    for wire in ({"noise": -0.1}, {"drop": 1.0}, {"drop": -0.1}, {"loss": 0.1}):
        with pytest.raises(ConfigError, match=r"wire\."):
            federations.config(wire=wire)


def after(name: str, rounds: int = 3, **sections: Any) -> State:
    return federations.run(federations.built(federations.config(name, **sections)).engine, rounds)


def test_a_lost_uplink_is_recorded_not_counted_and_not_merged() -> None:
    """The client keeps what it learned; the server's heads are the mean of the others'."""
    state = after("lg_fedavg", 1, wire={"drop": 0.5})
    participants, dropped = state.record["participants"], state.record["dropped"]
    assert 0 < len(dropped) < len(participants)
    assert set(dropped) < set(participants)
    sent = [client for client, size in enumerate(state.record["bytes"]["per_client_up"]) if size]
    assert sent == [client for client in participants if client not in dropped]
    whole = after("lg_fedavg", 1)
    assert [federations.bits(t) for t in state.clients] == [federations.bits(t) for t in whole.clients]
    clients = federations.built(federations.config("lg_fedavg")).federation.clients
    total = sum(clients[client].samples for client in sent)
    mean = sum(state.clients[k]["model/head.weight"] * (clients[k].samples / total) for k in sent)
    torch.testing.assert_close(state.server["head/weight"], mean)


def test_a_round_whose_uplinks_are_all_lost_leaves_the_server_as_it_was() -> None:
    parts = federations.built(federations.config("fedavg", wire={"drop": 0.999}))
    start = parts.engine.initial_state()
    end = parts.engine.round(start, lambda event: None)
    assert end.record["dropped"] == end.record["participants"]
    assert federations.bits(end.server) == federations.bits(start.server)
    assert end.record["bytes"]["up"] == 0


@pytest.mark.parametrize("name", ["fedavg", "fedgh"])
def test_disturbed_rounds_are_repeatable_with_any_number_of_workers(name: str) -> None:
    wire = {"noise": 0.3, "drop": 0.3}
    one, two = (after(name, wire=wire, runtime={"workers": workers}) for workers in (1, 2))
    assert federations.state_bits(one) == federations.state_bits(two)
    assert federations.untimed(one.record) == federations.untimed(two.record)


def test_a_downlink_that_never_arrived_is_not_counted() -> None:
    wire = Wire(2)
    for client in (0, 1):
        wire.down(client, {"head/weight": torch.zeros(3)})
    wire.down_failed(0)
    traffic = wire.traffic(None)
    assert (traffic["per_client_down"], traffic["by_tensor"]) == ([0, 12], {"down/head": 12})
    assert (wire.sent_down(0), wire.params()["down"]) == (0, 3)
