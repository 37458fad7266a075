"""LoRA: each client's low-rank update of a frozen body, and four ways to join them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.rng import drawing_from
from simulator.base.tensors import Tensors
from simulator.clock.devices import LIBRARY
from simulator.methods import Aggregated, Uplink
from simulator.methods.lora import A, Adapter, B, LoRA
from simulator.models import Network
from simulator.training.loop import steps
from simulator.training.phase import Nets
from tests import federations
from tests.methods import reference, sharing
from tests.networks import batch

LAYER = "fc2"
"""The layer of tiny_cnn whose update is followed: 12 → 8."""


def method(
    samples: Sequence[int] = (1, 3), architectures: Sequence[str] | None = None, **options: object
) -> LoRA:
    config = federations.config("lora", method=options)
    models = architectures or ["tiny_cnn"] * len(samples)
    lora = LoRA(config.method, federations.federation(models, samples))
    lora.check()
    return lora


def joined(
    lora: LoRA, *factors: tuple[Tensor, Tensor], server: Tensors | None = None, weight: float = 1.0
) -> Aggregated:
    """What the server makes of uplinks: clients 0, 1, … send these B and A of one layer, zeros for all others, and a
    head of their own number + 1.
    """
    sent = []
    for (b, a), info in zip(factors, lora.federation.clients, strict=False):
        payload: Tensors = {}
        for path, layer in lora.layers(info.architecture).items():
            payload[f"adapter/{path}.{B}"] = torch.zeros(layer.out_features, b.shape[1])
            payload[f"adapter/{path}.{A}"] = torch.zeros(b.shape[1], layer.in_features)
        payload |= {f"adapter/{LAYER}.{B}": b, f"adapter/{LAYER}.{A}": a}
        for name, each in lora.federation.architecture_of(info).head.named_parameters():
            payload[f"adapter/head.{name}"] = torch.full(each.shape, info.id + 1.0)
        sent.append(Uplink(info, payload, weight))
    return lora.aggregate(1, lora.init_server() if server is None else server, sent)


def outer(*pairs: tuple[int, int, float]) -> tuple[Tensor, Tensor]:
    """B and A with value · e_i e_jᵀ for each (i, j, value): rank by rank, B has the value."""
    b, a = torch.zeros(8, len(pairs)), torch.zeros(len(pairs), 12)
    for rank, (i, j, value) in enumerate(pairs):
        b[i, rank], a[rank, j] = value, 1.0
    return b, a


def factors(server: Tensors) -> tuple[Tensor, Tensor]:
    return server[f"tiny_cnn/{LAYER}.{B}"], server[f"tiny_cnn/{LAYER}.{A}"]


def shown(lora: LoRA, server: Tensors, client: int) -> Tensor:
    """The product of the factors that a client receives."""
    payload = lora.downlink(2, server, lora.federation.clients[client])
    return payload[f"adapter/{LAYER}.{B}"] @ payload[f"adapter/{LAYER}.{A}"]


def of_memory(memories: Sequence[float | None], ranks: Sequence[int]) -> LoRA:
    """Clients on phones of these memories, in bytes."""
    devices = tuple(replace(LIBRARY["phone"], memory=memory) for memory in memories)
    federation = federations.federation(["tiny_cnn"] * len(memories)).with_devices(devices)
    lora: LoRA = sharing.of("lora", federation, ranks=ranks, order="memory")
    lora.check()
    return lora


def test_ranks_go_round_or_follow_the_data_or_the_memory() -> None:
    """A device without a limit has the most memory. Four sizes make two groups of two. Equal memory has one rank."""
    samples = (50, 10, 40, 20, 30, 60)
    assert method(samples, ranks=[1, 4]).ranks == (1, 4, 1, 4, 1, 4)
    assert method(samples, ranks=[4, 1, 2], order="samples").ranks == (4, 1, 2, 1, 2, 4)
    assert method(samples, ranks=[4, 1, 2], order="inverse").ranks == (1, 4, 2, 4, 2, 1)
    assert of_memory([8e9, 4e9, 80e9, 4e9], [16, 1, 4]).ranks == (4, 1, 16, 1)
    assert of_memory([8e9, None, 16e9, 4e9, None], [1, 4]).ranks == (1, 4, 4, 1, 4)
    assert of_memory([8e9, None, 16e9], [1, 4]).ranks == (1, 4, 1)
    assert of_memory([4e9, 4e9], [3]).ranks == (3, 3)


def test_ranks_and_layers_that_cannot_be_are_refused() -> None:
    """Ranks by memory need devices with as many sizes."""
    for refused, why in (
        (lambda: method(order="memory"), r"and they have none\. Set system\.devices, or"),
        (
            lambda: of_memory([4e9, 8e9, 8e9], [1, 2, 3]),
            "has 3 ranks, .* devices have only 2 sizes of memory",
        ),
        (lambda: of_memory([4e9, 4e9], [1, 2]), "has 2 ranks, .* devices have only 1 size of memory"),
        (lambda: method(ranks=[]), "ranks"),
        (lambda: method(ranks=[0]), "ranks"),
        (lambda: method(ranks=[4, -1]), "ranks"),
        (lambda: method(targets=["fc9"]), r"named fc9: client 0 \(tiny_cnn\) has none"),
        (lambda: method(architectures=["tiny_resnet6"] * 2), "needs a linear layer besides the head"),
    ):
        with pytest.raises(ConfigError, match=why):
            refused()


def test_targets_choose_layers_by_the_last_part_of_their_names() -> None:
    assert list(method(targets=["fc2"]).layers("tiny_cnn")) == ["fc2"]
    vit = method(architectures=["tiny_vit1", "tiny_vit1"], targets=["qkv"])
    assert list(vit.layers("tiny_vit1")) == ["vit.blocks.0.attn.qkv"]


class OneLayer(Network):
    """Two pixels → W (the identity) → head (the identity)."""

    layers = ("features",)

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.head = nn.Linear(2, 2, dtype=torch.float64), nn.Linear(2, 2, dtype=torch.float64)
        for layer in (self.fc, self.head):
            layer.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.fc(x.flatten(1))}


def test_the_loss_is_that_of_the_body_with_its_update_and_only_the_update_learns() -> None:
    """W + (α/r)·BA = I + 3·(1, 0)ᵀ(2, 0) = diag(7, 1). Logits of (1, 0): (7, 0). With p = softmax(7, 0)₁:

    ∂CE/∂b = −p·(α/r)·(a·x)·(1, −1) = −p·6·(1, −1), ∂CE/∂a = −p·3·x. Of class 0.
    """
    nets = Nets(OneLayer())
    adapter = Adapter(nets.model, {"fc": 1}).double()
    nets["adapter"] = adapter
    pair = adapter.get_submodule("fc")
    pair.load_state_dict({B: torch.tensor([[1.0], [0.0]]), A: torch.tensor([[2.0, 0.0]])})
    loss = method(ranks=[1], alpha=3.0).loss(nets, {}, batch((1, 0, 0)), {})
    loss.backward()
    p = 1 / (1 + math.exp(7))
    assert loss.item() == pytest.approx(math.log1p(math.exp(-7)), rel=1e-9)
    assert pair.get_parameter(B).grad.flatten().tolist() == pytest.approx([-6 * p, 6 * p], rel=1e-9)
    assert pair.get_parameter(A).grad.flatten().tolist() == pytest.approx([-3 * p, 0], rel=1e-9)
    assert adapter.head.weight.grad is not None


def test_means_fill_lower_ranks_up_with_zeros() -> None:
    """n = 1 and 3: the first rank has (4 + 3·8)/4 = 7, the second 3·8/4 = 6. A is 1 in both, so 1 and 3/4."""
    lora = method(ranks=[1, 2], aggregation="mean")
    b, a = factors(joined(lora, outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 8.0))).server)
    assert (b[0, 0], b[1, 1], b.sum()) == (7, 6, 13)
    assert (a[0, 0], a[1, 1]) == (1, 0.75)


def test_hetlora_weighs_clients_by_the_norm_of_their_update_or_by_samples_where_nobody_has_moved() -> None:
    """‖ΔW‖ is 4 and √(6² + 8²) = 10: p = 2/7 and 5/7. B: 4·2/7 + 6·5/7 = 38/7, and 8·5/7 = 40/7. Of B = 0, A is
    (1 + 3·1)/4 in the first rank and 3/4 in the second.
    """
    lora = method(ranks=[1, 2], aggregation="hetlora")
    b, a = factors(joined(lora, outer((0, 0, 4.0)), outer((0, 0, 6.0), (1, 1, 8.0))).server)
    assert (b[0, 0].item(), b[1, 1].item()) == pytest.approx((38 / 7, 40 / 7))
    assert (a[0, 0].item(), a[1, 1].item()) == pytest.approx((1, 5 / 7))
    _, a = factors(joined(lora, outer((0, 0, 0.0)), outer((0, 0, 0.0), (1, 1, 0.0))).server)
    assert (a[0, 0], a[1, 1]) == (1, 0.75)


def test_flexlora_decomposes_the_mean_product_and_cuts_it_to_each_rank() -> None:
    """ΔW = (4 e₀e₀ᵀ + 3·(8 e₀e₀ᵀ + 4 e₁e₁ᵀ))/4 = 7 e₀e₀ᵀ + 3 e₁e₁ᵀ. Rank 1 keeps the 7."""
    lora = method(ranks=[1, 2], aggregation="flexlora")
    server = joined(lora, outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 4.0))).server
    expected = torch.zeros(8, 12)
    expected[0, 0], expected[1, 1] = 7, 3
    b, a = factors(server)
    torch.testing.assert_close(b @ a, expected)
    assert [shown(lora, server, client).sum().item() for client in (0, 1)] == pytest.approx([7, 10])


def test_with_alpha_a_product_counts_by_the_scale_of_its_rank() -> None:
    """α = 2: scales 2 and 1. ΔW = (2·4 + 3·1·8)/4 = 8 e₀e₀ᵀ. Both clients get BA whose scaled product is ΔW again."""
    lora = method(ranks=[1, 2], aggregation="flexlora", alpha=2.0)
    server = joined(lora, outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 0.0))).server
    b, a = factors(server)
    assert (b @ a)[0, 0].item() == pytest.approx(8)
    for client, scale in ((0, 2.0), (1, 1.0)):
        assert scale * shown(lora, server, client)[0, 0].item() == pytest.approx(8)


def test_flora_adds_the_mean_product_to_the_body_without_loss() -> None:
    """Two rounds of ΔW = 7 e₀e₀ᵀ + 3 e₁e₁ᵀ: the sum is 14 and 6. Lower ranks receive all of it."""
    lora = method(ranks=[1, 2], aggregation="flora")
    sent = outer((0, 0, 4.0)), outer((0, 0, 8.0), (1, 1, 4.0))
    first = joined(lora, *sent).server
    payload = lora.downlink(3, joined(lora, *sent, server=first).server, lora.federation.clients[0])
    assert payload[f"adapter/{LAYER}.weight"][0, 0] == 14 and payload[f"adapter/{LAYER}.weight"][1, 1] == 6
    assert not [name for name in payload if "lora_" in name]


def test_heads_are_averaged_by_samples() -> None:
    """(1 + 3·2)/4 = 1.75."""
    for aggregation in ["mean", "hetlora", "flexlora", "flora"]:
        server = joined(method(ranks=[1], aggregation=aggregation), *[outer((0, 0, 1.0))] * 2).server
        assert (server["tiny_cnn/head.weight"] == 1.75).all() and (server["tiny_cnn/head.bias"] == 1.75).all()


def test_a_stale_update_moves_the_server_half_as_far() -> None:
    """From no update, half of the way to 4 e₀e₀ᵀ. In `mean` with A as it is sent, so that the product is half."""
    for aggregation in ("mean", "flexlora", "flora"):
        lora = method(ranks=[1], aggregation=aggregation)
        server = {name: torch.zeros_like(each) for name, each in lora.init_server().items()}
        if aggregation == "mean":
            server[f"tiny_cnn/{LAYER}.{A}"] = outer((0, 0, 4.0))[1]
        after = joined(lora, *[outer((0, 0, 4.0))] * 2, server=server, weight=0.5).server
        if aggregation == "flora":
            assert after[f"tiny_cnn/{LAYER}.weight"][0, 0].item() == pytest.approx(2)
        else:
            b, a = factors(after)
            assert (b @ a)[0, 0].item() == pytest.approx(2)


def test_a_group_without_a_participant_keeps_its_adapter() -> None:
    lora = method((1, 3), ["tiny_cnn", "tiny_mlp"], ranks=[1])
    server = lora.init_server()
    after = joined(lora, outer((0, 0, 1.0)), server=server).server
    assert all(torch.equal(after[name], server[name]) for name in server if name.startswith("tiny_mlp/"))


def test_the_used_rank_is_measured() -> None:
    """Singular values 2 and 2 of fc2 and none of fc1: ranks 2 and 0, mean 1. Half of the energy is beyond rank 1."""
    lora = method(ranks=[2, 1])
    metrics = joined(lora, outer((0, 0, 2.0), (1, 1, 2.0))).metrics
    assert metrics["effective_rank"].item() == pytest.approx(1)
    assert metrics["energy_beyond_lowest"].item() == pytest.approx(0.25)


def test_factors_that_are_cut_for_a_client_lie_in_memory_as_sent_ones() -> None:
    """Products of other strides can have other bits."""
    for aggregation in ["mean", "flexlora"]:
        lora = method(ranks=[1, 2], aggregation=aggregation)
        payload = lora.downlink(1, lora.init_server(), lora.federation.clients[0])
        assert all(each.is_contiguous() for each in payload.values())


def test_a_client_trains_the_head_of_the_server_unless_it_is_local() -> None:
    for head in ("shared", "local"):
        _, lora, state, local = sharing.working("lora", receives=False, options={"head": head})
        own = local.nets.model.head.state_dict()["bias"].clone()
        payload = lora.downlink(1, state.server, local.info)
        payload |= {name: torch.full_like(each, 5.0) for name, each in payload.items() if "head" in name}
        lora.receive(local, payload)
        if head == "shared":
            assert (local.nets["adapter"].get_submodule("head").get_parameter("bias") == 5).all()
        else:
            assert torch.equal(local.nets.model.head.state_dict()["bias"], own)
            assert not [name for name in (*state.server, *payload, *lora.uplink(local)) if "head" in name]


def test_a_round_changes_the_body_of_a_client_by_an_update_of_its_rank_alone() -> None:
    for aggregation in ["flexlora", "flora"]:
        options = {"ranks": [2], "aggregation": aggregation}
        with drawing_from(reference.stream("factors", 0)):
            _, lora, _, local = sharing.working("lora", options=options)
        (phase,) = lora.phases(local)
        for _ in steps(local, phase):
            pass
        lora.uplink(local)
        first = lora.federation.first_weights[local.info.architecture]
        for name, weight in local.nets.model.state_dict().items():
            if name.removesuffix(".weight") in lora.layers(local.info.architecture):
                assert torch.linalg.matrix_rank(weight - first[name], tol=1e-6) == 2
            else:
                assert torch.equal(weight, first[name]) or name.startswith("head.")


def test_a_merged_model_answers_as_the_body_with_its_adapter() -> None:
    _, lora, state, local = sharing.working("lora", receives=False)
    payload = lora.downlink(1, state.server, local.info)
    lora.receive(local, payload | {n: torch.ones_like(each) for n, each in payload.items() if n.endswith(B)})
    x = local.batch(local.train[:5])
    expected = lora.loss(local.nets.eval(), {}, x, {})
    lora.before_answering(local)
    torch.testing.assert_close(F.cross_entropy(local.nets.model(x.x), x.y), expected)
