"""Stale uplinks of every method that takes them: what they change in the server, and by how much."""

import pytest
import torch

from simulator.methods import Uplink
from simulator.methods.base import moved
from simulator.runners import Job, Work, carry_out
from tests import federations

pytestmark = pytest.mark.usefixtures("generated_images")


ALL = {"participation": 1.0}


METHODS = (
    "fedavg", "fedprox", "moon", "lg_fedavg", "fedclassavg", "fedlora", "fml", "fedmrl", "fedproto", "fedssa", "fd",
    "fedkd", "fedkwaz", "fedper", "fedrep", "ditto", "pfedmoe", "fedapen", "lora", "pfedafm", "pfedes",
)  # fmt: skip
"""But those whose servers train on what they receive: tests/methods has the step of a stale uplink there."""


@pytest.mark.long
def test_a_stale_client_that_changed_nothing_leaves_weights_as_they_are() -> None:
    """Its uplink counts as the downlink of now. Prototypes, outputs, and rows of heads count as they were sent."""
    for method in (*METHODS, "lora, mean", "lora, flora"):
        name, _, aggregation = method.partition(", ")
        options = {"aggregation": aggregation} if aggregation else {}
        built = federations.built(
            federations.config(name, method=options, federation={"clients": 4, **ALL}, training={"epochs": 1})
        )
        first = built.engine.initial_state()
        state = federations.run(built.engine, 1)
        hooks, client = built.engine._hooks, built.federation.clients[0]
        received, present = (
            hooks.downlink(round, each.server, client) for round, each in ((1, first), (2, state))
        )
        job = Work(hooks, 2, {0: Job(state.clients[0], present)})
        [update] = carry_out(built.engine._runner, job)
        if name in ("fedproto", "fedssa", "fd", "fedkwaz"):
            assert federations.bits(
                hooks.rebased(2, state.server, client, update.uplink, received)
            ) == federations.bits(update.uplink)
            continue
        fixed = {key: tensor for key, tensor in update.uplink.items() if key not in received}
        if aggregation == "flora":  # its factors are a change by themselves: none
            fixed = {key: torch.zeros_like(tensor) for key, tensor in fixed.items()}
        unchanged = (
            received
            if name == "fedkd"
            else fixed | {key: received[key] for key in update.uplink if key in received}
        )
        now = (
            present
            if name == "fedkd"
            else fixed | {key: present[key] for key in update.uplink if key in present}
        )
        rebased = hooks.rebased(2, state.server, client, unchanged, received)
        found, expected = (
            hooks.aggregate(2, state.server, [Uplink(client, payload)]).server for payload in (rebased, now)
        )
        assert federations.bits(first.server) != federations.bits(state.server)
        for key, tensor in expected.items():
            if tensor.is_floating_point() and key[:2] not in ("u/", "s/", "v/") and ".lora_" not in key:
                assert (found[key] - tensor).abs().max() < 1e-5, key
        if name == "lora" and not options:  # an SVD may turn the factors, and not their product
            for path in [
                key.removesuffix(".lora_A.weight") for key in expected if key.endswith("lora_A.weight")
            ]:
                one, other = (
                    each[f"{path}.lora_B.weight"] @ each[f"{path}.lora_A.weight"]
                    for each in (found, expected)
                )
                assert (one - other).abs().max() < 1e-5


def test_statistics_of_batchnorm_have_no_difference() -> None:
    """Weights: 7 + (3 − 2) = 8. A variance of 2 + (1 − 9) would be negative."""
    payload = {"model/bn.weight": torch.tensor([3.0]), "model/bn.running_var": torch.tensor([1.0])}
    received = {"model/bn.weight": torch.tensor([2.0]), "model/bn.running_var": torch.tensor([9.0])}
    present = {"model/bn.weight": torch.tensor([7.0]), "model/bn.running_var": torch.tensor([2.0])}
    found = moved(payload | {"model/other": torch.tensor([5.0])}, received, present)
    assert {name: tensor.item() for name, tensor in found.items()} == {
        "model/bn.weight": 8, "model/bn.running_var": 1, "model/other": 5,
    }  # fmt: skip


@pytest.mark.long
def test_uplinks_of_half_the_weight_move_the_server_half_as_far() -> None:
    """From the second round on: a class without a prototype takes the first one that it gets.

    FedKD's factors are those of the moved meme, and FlexLoRA's those of the moved product: LoRA is tried with means.
    """
    for method in METHODS:
        options = {"aggregation": "mean"} if method == "lora" else {}
        built = federations.built(
            federations.config(method, method=options, federation={"clients": 4, **ALL})
        )
        state = federations.run(built.engine, 1)
        hooks, clients = built.engine._hooks, built.federation.clients
        received = {client.id: hooks.downlink(2, state.server, client) for client in clients}
        work = Work(hooks, 2, {k: Job(state.clients[k], received[k]) for k in received})
        updates = carry_out(built.engine._runner, work)
        full, half = (
            hooks.aggregate(
                2, state.server, [Uplink(each.client, each.uplink, weight) for each in updates]
            ).server
            for weight in (1.0, 0.5)
        )
        moved = 0.0
        for name, before in state.server.items():
            if before.is_floating_point() and name[:2] not in ("u/", "s/", "v/"):
                expected = before + 0.5 * (full[name] - before)
                assert (half[name] - expected).abs().max() < 1e-5 * max(1, float(full[name].abs().max()))
                moved += float((full[name] - before).abs().sum())
        assert moved > 0
