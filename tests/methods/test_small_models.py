"""Small networks that travel beside the clients' own models: losses by hand, and whole rounds against a reference."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base import rng
from simulator.base.errors import ConfigError
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, named, of_module, part
from simulator.data.specs import ImageSpec, InputSpec, TokenSpec
from simulator.engine.progress import Event, Warned, unobserved
from simulator.methods import Uplink
from simulator.methods.fedapen import FedAPEN
from simulator.methods.fedkd import decomposed, rank, restored, truncated
from simulator.methods.fedmrl import FedMRL
from simulator.methods.pfedmoe import Gate
from simulator.models import ImageShape
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.loop import steps
from simulator.training.phase import Nets
from simulator.training.trainer import TrainingContext
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import Rounds, Times, Weights, ce, features, kl, logits, of_head
from tests.networks import Plain, batch

WIDE, HALF = "tiny_cnn", "tiny_cnn_w2"
PIXEL = torch.ones(1, 1, 1, 1)
LR = 0.1
OF_MEME, OF_SMALL = ("fml", "fedapen", "fedkd"), ("fedmrl", "pfedafm", "pfedmoe")
SMALL = dict.fromkeys(OF_MEME, "meme") | dict.fromkeys(OF_SMALL, "small")
Train = Callable[[Rounds, int, int, Weights, Weights, dict[str, Weights]], None]
"""A client's training in round t, of a copy of the small network that all received, and of its own networks."""


def both(name: str, *architectures: str, **options: Any) -> Any:
    """The method over a client of 8 features and one of 4."""
    return sharing.of(name, federations.federation(architectures or (WIDE, HALF)), **options)


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def assert_as_reference(
    name: str,
    shared: str,
    own: tuple[str, ...],
    train: Train,
    group: Sequence[str] = (WIDE, HALF),
    **options: Any,
) -> Rounds:
    """Two rounds, usually of clients of 8, 4, and 8 features. The small network has 4."""
    ran = Rounds.of(name, 2, LR, method=options, federation={"group": [*group]})
    networks, now = {each: ran.of_clients(each) for each in own}, part(ran.server, shared)
    for t in (1, 2):
        received, copies = now, [reference.leaves(now) for _ in ran.data]
        for client, held in enumerate(copies):
            train(ran, t, client, received, held, {each: networks[each][client] for each in own})
        now = ran.mean(copies)
    ran.assert_ended({shared: now}, networks)
    return ran


def pooled(g: Tensor, like: Tensor) -> Tensor:
    """Features of 4 at the width of these: each twice, or as they are."""
    return g if g.shape == like.shape else g.repeat_interleave(2, 1)


# What they have in common


@pytest.mark.parametrize(("name", "option"), SMALL.items())
def test_the_small_model_is_the_smallest_architecture_unless_another_is_named(name: str, option: str) -> None:
    """It starts as its architecture does. Extractors have no head."""
    models = ("tiny_mlp", "tiny_cnn")
    for options, architecture in (({}, "tiny_cnn"), ({option: "tiny_mlp"}, "tiny_mlp")):
        beside = both(name, *models, **options)
        assert tuple(beside.trained_beside()) == (architecture,)
        stream = beside.federation.stream(f"server/{option}")
        built = beside.federation.build(architecture, stream).state_dict()
        found = part(beside.init_server(), option)
        headless = {"head.weight", "head.bias"} if name.startswith("pfed") else set()
        assert built.keys() - found.keys() == headless
        assert federations.bits(found) == federations.bits({key: built[key] for key in found})
    for architecture, why in (
        ("tiny", "unknown model 'tiny'"),
        ("cnn5", "'cnn5' needs images of at least 16×16"),
    ):
        with pytest.raises(ConfigError, match=why):
            both(name, *models, **{option: architecture}).check()


@pytest.mark.parametrize("name", OF_SMALL)
def test_a_client_answers_with_the_small_model_it_has_or_would_receive_next(name: str) -> None:
    """With an aggregated evaluation, it is the server's. Its private module is its own, and goes on as it was."""
    parts = federations.built(federations.config(name, federation={"participation": 1.0}))
    start = parts.engine.initial_state()
    state = federations.run(parts.engine, 1)
    tensors, key = state.clients[0], "fc2.bias"
    assert not torch.equal(tensors[f"small/{key}"], state.server[f"small/{key}"])
    for receives, expected in ((False, tensors), (True, state.server)):
        local = federations.local(parts, 0, tensors, 2)
        if receives:
            parts.method.receive(local, parts.method.downlink(2, state.server, local.info))
        parts.method.before_answering(local)
        assert torch.equal(local.nets["small"].state_dict()[key], expected[f"small/{key}"])
    private = [key for key in tensors if not key.startswith(("model/", "small/"))]
    assert private and not set(private) & state.server.keys()
    for key in private:
        assert not torch.equal(tensors[key], start.clients[0][key])


# FML


def test_two_whole_rounds_of_fml_equal_the_reference() -> None:
    """Each loss reaches its own network alone."""

    def train(ran: Rounds, t: int, client: int, _: Weights, meme: Weights, own: dict[str, Weights]) -> None:
        model = own["model"]
        for x, y in ran.batches("mutual", t, client):
            z, z_meme = logits(model, x), logits(meme, x)
            loss = 0.75 * ce(z, y) + 0.25 * kl(z_meme, z) + 0.4 * ce(z_meme, y) + 0.6 * kl(z, z_meme)
            reference.descend(loss, LR, meme, model)

    assert_as_reference("fml", "meme", ("model",), train, alpha=0.75, beta=0.4)


# FedMRL


def test_fedmrls_answer_is_the_own_heads_on_the_whole_projected_representation() -> None:
    """G(x) = x, F(x) = 3x, v = G + 2F; the own head's logits are (v, 0). x = 1: u = (1, 3), v = 1·1 + 2·3 = 7."""
    projection = nn.Linear(2, 1)
    projection.load_state_dict({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.zeros(1)})
    nets = Nets(Times(3.0, 0), small=Times(1.0, 1), projection=projection)
    assert both("fedmrl", d_1=1).predict(nets, {}, PIXEL).tolist() == [[7.0, 0.0]]


def test_a_narrower_head_is_drawn_from_the_servers_stream_too() -> None:
    """The same weights each time, and other ones under another seed. It may not be wider than a client's features."""
    fedmrl = both("fedmrl", d_1=2)
    other = FedMRL(fedmrl.config, replace(fedmrl.federation, seed=8))
    heads = [each.init_server()["small/head.weight"] for each in (fedmrl, fedmrl, other)]
    assert heads[0].shape == (2, 2)
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])
    with pytest.raises(ConfigError, match=r"client 1 \(tiny_cnn_w2\) has 4; lower method.d_1"):
        both("fedmrl", small=WIDE).check()
    both("fedmrl", small=WIDE, d_1=4).check()


def test_two_whole_rounds_of_fedmrl_equal_the_reference() -> None:
    """Of the small model's 4 features, the means of two neighbors each are used."""

    def train(ran: Rounds, t: int, client: int, _: Weights, small: Weights, own: dict[str, Weights]) -> None:
        model, projection = own["model"], own["projection"]
        for x, y in ran.batches("model", t, client):
            g = features(small, x)
            u = torch.cat([(g[:, ::2] + g[:, 1::2]) / 2, features(model, x)], 1)
            v = u @ projection["weight"].T + projection["bias"]
            loss = 0.5 * ce(of_head(small, v[:, :2]), y) + 2.0 * ce(of_head(model, v), y)
            reference.descend(loss, LR, small, model, projection)

    options = {"d_1": 2, "m_small": 0.5, "m_large": 2.0}
    assert_as_reference("fedmrl", "small", ("model", "projection"), train, **options)


# pFedAFM


def test_alpha_has_a_weight_for_each_of_the_own_features() -> None:
    for afm, start in ((both("pfedafm"), 1.0), (both("pfedafm", alpha=0.5), 0.5)):
        for client, width in zip(afm.federation.clients, (8, 4), strict=True):
            state = afm.init_client(client)
            assert state["alpha/weight"].tolist() == [start] * width
            assert len(state) == 1 + len(part(state, "small"))


def test_two_whole_rounds_of_pfedafm_equal_the_reference() -> None:
    """The model and α learn before the extractor. α leaves [0, 1] in some steps, and is put back. Clients keep the
    extractor that they received, with which α was trained.
    """
    kept: Weights = {}
    outside = 0

    def train(
        ran: Rounds, t: int, client: int, received: Weights, small: Weights, own: dict[str, Weights]
    ) -> None:
        nonlocal outside
        kept.update(received)
        model, alpha = own["model"], own["alpha"]["weight"]
        for x, y in ran.batches("model", t, client):
            f = features(model, x)
            mixture = alpha * f + (1 - alpha) * pooled(features(received, x), f)
            reference.descend(ce(of_head(model, mixture), y), LR, model, own["alpha"])
            with torch.no_grad():
                outside += int((alpha > 1).sum() + (alpha < 0).sum())
                alpha.clamp_(0, 1)
        for x, y in ran.batches("small", t, client):
            loss = ce(of_head(model, pooled(features(small, x), features(model, x))), y)
            reference.descend(loss, LR, small)

    ran = assert_as_reference("pfedafm", "small", ("model", "alpha"), train)
    assert outside > 0
    ran.assert_ended({}, {"small": [kept] * 3})


# pFedMoE


def gate(spec: InputSpec, shares: Tensor, reads: Tensor) -> Gate:
    """A gate of two hidden numbers, whose last layer has these weights [2, 2] and the biases log 1 and log 3."""
    made = Gate(spec, 2)
    weights = {name: torch.zeros_like(each) for name, each in made.state_dict().items()}
    weights |= {"reads.weight": reads, "norm.weight": torch.ones(2), "shares.weight": shares}
    made.load_state_dict(weights | {"shares.bias": torch.tensor([0.0, math.log(3)])})
    return made


def test_of_tokens_the_gate_reads_the_fraction_of_each_word() -> None:
    """Words 1 and 2 have the vectors (1, 0) and (0, 1). Padding counts for nothing, so three ways to write a half of
    each give the same, and a third of word 1 gives another.
    """
    made = gate(TokenSpec(4, 3), torch.eye(2), torch.tensor([[9.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    shares = made(torch.tensor([[1, 2, 0, 0], [2, 1, 0, 0], [2, 2, 1, 1], [1, 2, 2, 0]]))
    torch.testing.assert_close(shares[:3], torch.tensor([[0.25, 0.75]]).expand(3, 2))
    assert shares[3, 0] < 0.25  # (1/3, 2/3) has less of word 1


def test_narrower_or_wider_features_of_the_small_model_are_pooled_to_the_clients_width() -> None:
    """G's four numbers of tiny_cnn_w2 are each used twice beside tiny_cnn's eight, and the reverse are means of two."""
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for own, small in ((WIDE, HALF), (HALF, WIDE)):
        moe = both("pfedmoe", own, small=small)
        model, general = (moe.federation.build(n, moe.federation.stream(n)).eval() for n in (own, small))
        only_small = gate(ImageSpec(1, 8, 8), torch.zeros(2, 2), torch.zeros(2, 64))
        only_small.shares.bias.data = torch.tensor([100.0, 0.0])
        g = general.features(x)
        expected = g.repeat_interleave(2, 1) if own == WIDE else (g[:, ::2] + g[:, 1::2]) / 2
        found = moe.predict(Nets(model, small=general, gate=only_small), {}, x)
        torch.testing.assert_close(found, model.head(expected))
        moe.check()


def test_stacked_clients_train_in_bf16_too() -> None:
    """Where they cannot be stacked, a warning says so."""
    told: list[Event] = []
    sections = {"federation": {"participation": 1.0, "group": WIDE}, "training": {"precision": "bf16"}}
    config = federations.config("pfedmoe", **sections, runtime={"runner": "stacked"})
    federations.run(federations.built(config).engine, 1, told.append)
    assert not [event for event in told if isinstance(event, Warned) and "stacked" in event.message]


def shares_of(w: Tensors, x: Tensor) -> Tensor:
    """The gate by hand: LayerNorm and softmax written out."""
    h = x.flatten(1) @ w["reads.weight"].T + w["reads.bias"]
    h = (h - h.mean(1, keepdim=True)) / (h.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    h = 1 / (1 + (-(h * w["norm.weight"] + w["norm.bias"])).exp())
    e = (h @ w["shares.weight"].T + w["shares.bias"]).exp()
    return e / e.sum(1, keepdim=True)


def test_two_whole_rounds_of_pfedmoe_equal_the_reference() -> None:
    def train(ran: Rounds, t: int, client: int, _: Weights, small: Weights, own: dict[str, Weights]) -> None:
        model = own["model"]
        for x, y in ran.batches("model", t, client):
            f, shares = features(model, x), shares_of(own["gate"], x)
            g = pooled(features(small, x), f)
            loss = ce(of_head(model, shares[:, :1] * g + shares[:, 1:] * f), y)
            reference.descend(loss, LR, small, model, own["gate"])

    assert_as_reference("pfedmoe", "small", ("model", "gate"), train, gate_hidden=6)


# pFedES


def made(w: Tensors, x: Tensor) -> Tensor:
    """The extractor's images."""
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=1).relu()
    return F.conv2d(h, w["conv2.weight"], w["conv2.bias"], padding=1).relu()


def test_two_whole_rounds_of_pfedes_equal_the_reference() -> None:
    """The extractor is trained after the model, for epochs of its own."""

    def train(
        ran: Rounds, t: int, client: int, received: Weights, extractor: Weights, own: dict[str, Weights]
    ) -> None:
        model = own["model"]
        for x, y in ran.batches("model", t, client):
            loss = 0.7 * ce(logits(model, x), y) + 0.3 * ce(logits(model, made(received, x)), y)
            reference.descend(loss, LR, model)
        for x, y in ran.batches("extractor", t, client, epochs=3):
            reference.descend(ce(logits(model, made(extractor, x)), y), LR, extractor)

    options = {"mu": 0.3, "channels": 3, "extractor_epochs": 3}
    assert_as_reference("pfedes", "extractor", ("model",), train, **options)


# FedAPEN


def test_two_networks_answer_with_their_weighted_logits() -> None:
    """λ = ¼: ¼ · (4, 0) + ¾ · (−8, 0) = (−5, 0)."""
    nets, x = Nets(Plain(1.0), meme=Plain(-2.0)), batch((4, 0, 0), (0, 4, 0)).x
    found = both("fedapen").predict(nets, {"lam": torch.tensor(0.25)}, x)
    assert found.tolist() == [[-5.0, 0.0], [0.0, -5.0]]


def at_work(
    round: int = 1, begun: int = 0, samples: int = 4, label: int = 0, **options: Any
) -> tuple[FedAPEN, LocalClient]:
    """A FedAPEN and its client of equal images (2, 0), in batches of two. The own logits are (2, 0), and the meme's (0,
    0).
    """
    shape, training = ImageShape(1, 1, 2), TrainingConfig(batch_size=2)
    federation = federations.federation(["tiny_mlp"], [samples], [(0,)], shape=shape, training=training)
    federation = replace(federation, begun=begun)
    vars(federation)["architectures"] = {"tiny_mlp": Plain().float()}
    images, labels = torch.tensor([2, 0]).expand(samples, 1, 2)[..., None], torch.full((samples,), label)
    data = federations.pixels(images, labels, [torch.arange(samples)], num_classes=2)
    own, meme = Plain(1.0).float().state_dict(), Plain(0.0).float().state_dict()
    tensors = named("model", own) | named("meme", meme) | {"lam": torch.tensor(0.5)}
    place = TrainingContext(federation, data, FlopCache())
    options = {"lam_share": 0.5, "lam_lr": 0.1, "lam_epochs": 1} | options
    fedapen: FedAPEN = sharing.of("fedapen", federation, **options)
    return fedapen, LocalClient(place, federation.clients[0], round, tensors)


def stepped(lam: float, number: int) -> float:
    """λ after so many steps: the common logits are (2λ, 0), with the slope (σ(2λ) − 1) · 2."""
    for _ in range(number):
        lam -= 0.1 * 2 * (sigma(2 * lam) - 1)
    return lam


def test_the_weight_stays_within_zero_and_one() -> None:
    """A rate of 10 would move it to 0.5 + 20 · (1 − σ(1)) = 5.9, and for the other label to 0.5 − 20 σ(1)."""
    for label, end in ((0, 1), (1, 0)):
        fedapen, local = at_work(lam_lr=10, label=label)
        fedapen.before_answering(local)
        assert local.state["lam"].item() == end


def test_the_weight_is_learned_before_training_as_soon_as_the_meme_is_an_average() -> None:
    for round, begun, number in [(1, 0, 0), (2, 0, 1), (2, 1, 0), (3, 1, 1)]:
        fedapen, local = at_work(round, begun)
        [phase] = fedapen.phases(local)
        assert local.state["lam"].item() == pytest.approx(stepped(0.5, number))
        assert phase.state["lam"].item() == local.state["lam"].item()


def test_a_share_of_the_samples_is_held_out_at_least_one_and_two_remain() -> None:
    """Fewer than three samples: a client has them only by an event, and then learns no weight."""
    for samples, share, held_out in [
        (40, 0.25, 10), (41, 0.25, 10), (19, 0.05, 1), (4, 0.9, 2), (3, 0.05, 1), (2, 0.5, 0), (1, 0.5, 0),
    ]:  # fmt: skip
        fedapen, local = at_work(samples=samples, lam_share=share)
        train, kept = fedapen.divided(local)
        assert len(kept) == held_out
        assert sorted([*train.tolist(), *kept.tolist()]) == list(range(samples))
        fedapen.before_answering(local)
        assert local.state["lam"].item() == pytest.approx(stepped(0.5, -(-held_out // 2)))
    for samples, refused in (([3, 2], True), ([3, 3], False)):
        method = sharing.method("fedapen", ["tiny_mlp", "tiny_cnn"], samples)
        assert ("needs 3 training samples" in (method.unmet_need() or "")) == refused


def test_the_held_out_samples_follow_from_the_seed_of_training_alone() -> None:
    def held_out(round: int, **changes: Any) -> list[int]:
        fedapen, local = at_work(round, samples=40)
        fedapen.federation = replace(fedapen.federation, **changes)
        return list(fedapen.divided(local)[1].tolist())

    assert held_out(1) == held_out(2) == held_out(1, init_seed=9) != held_out(1, seed=8)


def test_clients_answer_with_the_weight_that_they_train_with_next() -> None:
    """After a round, a client receives the new meme and learns λ. It repeats this at the beginning of the next one."""
    everybody = {"participation": 1.0}
    parts = federations.built(federations.config("fedapen", federation=everybody, method={"lam_lr": 1.0}))
    first = federations.run(parts.engine, 1)
    second = parts.engine.round(first, unobserved)
    for client, (tensors, after) in enumerate(zip(first.clients, second.clients, strict=True)):
        local = federations.local(parts, client, tensors, 1)
        parts.method.receive(local, parts.method.downlink(2, first.server, local.info))
        parts.method.before_answering(local)
        assert tensors["lam"].item() == 0.5
        assert local.state["lam"].item() == after["lam"].item() != 0.5


def test_two_whole_rounds_of_fedapen_equal_the_reference() -> None:
    """λ is learned in round 2 on the share that is held out, in three passes."""
    weights = [torch.tensor(0.5, dtype=torch.float64) for _ in range(3)]

    def train(ran: Rounds, t: int, client: int, _: Weights, meme: Weights, nets: dict[str, Weights]) -> None:
        (x, y), own = ran.data[client], nets["model"]
        order = torch.randperm(len(y), generator=reference.stream("adaptability", 0, client))
        held_out, rest = order[: int(len(y) * 0.6)], order[int(len(y) * 0.6) :]
        for rows in held_out.split(16) * 3 if t > 1 else ():
            lam = weights[client].requires_grad_()
            z, z_meme = (logits(w, x[rows]).detach() for w in (own, meme))
            (slope,) = torch.autograd.grad(ce(lam * z + (1 - lam) * z_meme, y[rows]), lam)
            weights[client] = (lam.detach() - 0.5 * slope).clamp(0, 1)
        lam = weights[client]
        for chosen in reference.orders(len(rest), 16, 2, reference.stream("batches/mutual", t, client)):
            rows = rest[chosen]
            z, z_meme = logits(own, x[rows]), logits(meme, x[rows])
            of_own = ce(z, y[rows]) + kl(z_meme, z)
            of_own = of_own + ce(lam * z + (1 - lam) * z_meme.detach(), y[rows])
            of_meme = ce(z_meme, y[rows]) + kl(z, z_meme)
            of_meme = of_meme + ce(lam * z.detach() + (1 - lam) * z_meme, y[rows])
            reference.descend(of_own + of_meme, LR, own, meme)

    options = {"lam_share": 0.6, "lam_lr": 0.5, "lam_epochs": 3}
    ran = assert_as_reference("fedapen", "meme", ("model",), train, **options)
    for tensors, lam in zip(ran.end.clients, weights, strict=True):
        reference.assert_equal({"lam": tensors["lam"]}, {"lam": lam})
        assert abs(lam.item() - 0.5) > 0.01


# FedKD


def test_the_rank_is_the_fewest_factors_that_hold_the_energy_which_rises_evenly_to_its_end() -> None:
    """s² = 9, 4, 1, and with it 9/14 = 0.643, 13/14 = 0.929 and 1 of the energy. 0.95 + 0.03 · t/10."""
    for energy, expected in [(0.5, 1), (0.64, 1), (0.7, 2), (0.92, 2), (0.95, 3), (1.0, 3)]:
        assert rank(torch.tensor([3.0, 2.0, 1.0]), energy) == expected
    fedkd = sharing.of("fedkd", federations.federation(["tiny_mlp"], rounds=10))
    assert [fedkd.energy(t) for t in (1, 5, 10, 11)] == pytest.approx([0.953, 0.965, 0.98, 0.98], rel=1e-12)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**20),
    st.one_of(
        st.tuples(st.integers(1, 12), st.integers(1, 12)),
        st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)),
    ),
    st.integers(1, 4),
    st.floats(0.5, 1.0),
)
def test_a_matrix_comes_back_within_the_energy(
    seed: int, shape: tuple[int, ...], true_rank: int, energy: float
) -> None:
    """‖W − Ŵ‖² ≤ (1 − T)·‖W‖² for matrices and kernels of any true rank, for at most the matrix's own numbers; and one
    factor less would have left more than that behind.
    """
    stream = rng.torch_stream(seed, "tests/matrix")
    rows, columns = shape[0], math.prod(shape[1:])
    left, right = (torch.randn(size, generator=stream) for size in ((rows, true_rank), (true_rank, columns)))
    weight = (left @ right).reshape(shape)
    payload = truncated({"w": weight}, decomposed({"w": weight}), energy)
    assert sum(tensor.numel() for tensor in payload.values()) <= weight.numel()
    whole = weight.double().square().sum().item()

    def lost(sent: Tensors) -> float:
        return float((restored(sent, "w").reshape(shape) - weight).double().square().sum())

    assert lost(payload) <= (1 - energy) * whole + 1e-5 * whole
    if "s/w" in payload and len(payload["s/w"]) > 1:
        fewer = {name: payload[name][:-1] for name in ("s/w", "v/w")} | {"u/w": payload["u/w"][:, :-1]}
        assert lost(fewer) >= (1 - energy) * whole - 1e-5 * whole


def test_each_loss_of_fedkd_reaches_its_own_network_and_the_divisor_none() -> None:
    """Features and logits are the pixels in the local model, H = (1, 0), and minus the pixels in the meme; W_h doubles,
    W_h·H_meme = (−2, 0): MSE 9/2. CE: −log σ and −log(1 − σ). Either KL is (2σ − 1)·log(σ/(1−σ)) = 2σ − 1.

    By the scales, for the pixel 1. Local: σ − 1 from CE, 2σ − 1 from KL, and d/dh (h + 2)²/2 = 3 from MSE. Meme: −σ,
    1 − 2σ, and d/dh_meme (2h_meme − 1)²/2 = −6. W_h: the meme's MSE alone, d/dw (w·(−1) − 1)²/2 = 3.
    """
    nets, p = Nets(Plain(1.0), meme=Plain(-1.0)), sigma(1)
    nets["projection"] = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    nets["projection"].load_state_dict({"weight": 2 * torch.eye(2)})
    errors = -math.log(p) - math.log(1 - p)
    loss = both("fedkd").loss(nets, {}, batch((1, 0, 0)), {})
    loss.backward()
    assert loss.item() == pytest.approx(errors + 2 * ((2 * p - 1) + 4.5) / errors, rel=1e-13)
    local, meme = (p - 1) + ((2 * p - 1) + 3) / errors, -p + ((1 - 2 * p) - 6) / errors
    assert nets.model.scale.grad.item() == pytest.approx(local, rel=1e-12)
    assert nets["meme"].scale.grad.item() == pytest.approx(meme, rel=1e-12)
    assert nets["projection"].weight.grad[0, 0].item() == pytest.approx(3 / errors, rel=1e-12)


def test_the_meme_is_the_mean_of_the_restored_ones_weighted_by_training_samples() -> None:
    """n = 1, 1, 2: (4 + 8 + 2·10)/4 = 8, in the meme and in what its new factors make. Matrices in which every number
    is the same, of rank one, travel as factors.
    """
    fedkd = sharing.method("fedkd", ["tiny_mlp", "tiny_cnn", "tiny_mlp"], [1, 1, 2])
    start, uplinks = fedkd.init_server(), []
    for client, value in zip(fedkd.federation.clients, (4.0, 8.0, 10.0), strict=True):
        meme = sharing.filled(part(start, "meme"), value)
        payload = truncated(meme, decomposed(meme), 0.95)
        assert {"u/fc1.weight", "meme/fc1.bias"} < payload.keys()
        uplinks.append(Uplink(client, payload))
    server, metrics = fedkd.aggregate(1, start, uplinks)
    assert metrics == {"energy": fedkd.energy(1)}
    shapes = [{name: each.shape for name, each in tensors.items()} for tensors in (server, start)]
    assert shapes[0] == shapes[1]  # of kernels, too
    for tensor in part(server, "meme").values():
        torch.testing.assert_close(tensor, torch.full_like(tensor, 8.0))
    payload = fedkd.downlink(2, server, fedkd.federation.clients[0])
    assert payload["s/fc1.weight"].shape == (1,)
    fc1 = restored(payload, "fc1.weight")
    torch.testing.assert_close(fc1, torch.full_like(fc1, 8.0))


def test_w_h_joins_features_of_different_widths_and_stays_with_the_client() -> None:
    """Models of 8 and of 500 features."""
    two = {"clients": 2, "participation": 1.0, "group": ["tiny_cnn", "cnn5"]}
    parts = federations.built(federations.config("fedkd", federation=two), federations.generated(side=16))
    state = parts.engine.initial_state()
    for client, width in [(0, 8), (1, 500)]:
        before, key = state.clients[client], "projection/weight"
        payload = parts.method.downlink(1, state.server, parts.federation.clients[client])
        payload = {name: tensor.clone() for name, tensor in payload.items()}
        done = federations.updated(parts, client, before, payload)
        assert before[key].shape == done.tensors[key].shape == (width, 8)
        assert not torch.equal(done.tensors[key], before[key])
        assert not [name for name in done.uplink if name.startswith("projection")]
        assert [name for name in before if name.startswith("projection/")] == [key]


def test_factors_travel_only_where_they_are_fewer_numbers_than_the_weight() -> None:
    """Of rank 1, a 2×3 matrix has 2 + 1 + 3 = 6 numbers in its factors and in itself; a 2×4 one 7 and 8. One that is
    not finite travels as such. The decomposition would raise; a diverged client is the engine's to name.
    """
    for columns, travels in [(3, ["meme/w"]), (4, ["s/w", "u/w", "v/w"])]:
        weight = torch.ones(2, columns)
        assert sorted(truncated({"w": weight}, decomposed({"w": weight}), 0.95)) == travels
    weight = torch.tensor([[1.0, math.nan], [math.inf, 1.0]])
    payload = truncated({"w": weight}, decomposed({"w": weight}), 0.95)
    assert not restored(payload, "w").isfinite().all()


def test_what_float32_cannot_decompose_is_decomposed_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """MKL failed for a finite 500 × 500 weight of a CNN."""
    svd = torch.linalg.svd

    def failing(matrix: Tensor, **options: bool) -> Any:
        if matrix.dtype == torch.float32:
            raise torch.linalg.LinAlgError("linalg.svd: The algorithm failed to converge")
        return svd(matrix, **options)

    weight = torch.arange(12.0).reshape(3, 4)
    expected = decomposed({"w": weight})
    monkeypatch.setattr(torch.linalg, "svd", failing)
    found = decomposed({"w": weight})
    assert found["s/w"].dtype == torch.float32
    assert torch.allclose(found["s/w"], expected["s/w"], atol=1e-5)
    assert torch.allclose((found["u/w"] * found["s/w"]) @ found["v/w"], weight, atol=1e-5)


# FedLoRA

HTM5 = ("cnn1", "cnn2", "cnn3", "cnn4", "cnn5")


def fedlora_with(*architectures: str, **options: Any) -> Any:
    """FedLoRA among clients of CIFAR-10's shape."""
    federation = federations.federation(architectures, num_classes=10, shape=ImageShape(3, 32, 32))
    return sharing.of("fedlora", federation, **options)


@pytest.mark.parametrize("structure", ["decomposed", "direct"])
def test_two_whole_rounds_of_fedlora_equal_the_reference(structure: str) -> None:
    """The adapter is trained after the model, at a rate of its own. The direct one reads FC1, and has a ReLU."""
    upto = "fc2" if structure == "decomposed" else "fc1"

    def adapted(w: Weights, model: Weights, x: Tensor) -> Tensor:
        h = features(model, x, upto=upto) @ w["down.weight"].T + w["down.bias"]
        return (h if structure == "decomposed" else h.relu()) @ w["up.weight"].T + w["up.bias"]

    def train(
        ran: Rounds, t: int, client: int, received: Weights, adapter: Weights, own: dict[str, Weights]
    ) -> None:
        model = own["model"]
        for x, y in ran.batches("model", t, client):
            loss = 0.2 * ce(adapted(received, model, x), y) + 0.8 * ce(logits(model, x), y)
            reference.descend(loss, LR, model)
        for x, y in ran.batches("adapter", t, client):
            reference.descend(ce(adapted(adapter, model, x), y), 0.05, adapter)

    options = {"structure": structure, "hidden": 3, "mu": 0.8, "eta_theta": 0.05}
    assert_as_reference("fedlora", "adapter", ("model",), train, (WIDE,), **options)


def test_each_phase_trains_its_part_and_leaves_the_other_untouched() -> None:
    """The model's statistics included: client 1 has a BatchNorm. The adapter may have its own learning rate."""
    for client in (0, 1):
        _, fedlora, _, local = sharing.working("fedlora", client, options={"eta_theta": 0.5})
        first, second = fedlora.phases(local)
        assert (first.lr, second.lr) == (None, 0.5)
        for phase, moves, stays in ((first, "model", "adapter"), (second, "adapter", "model")):
            before = {name: copy.deepcopy(of_module(local.nets[name])) for name in (moves, stays)}
            assert [*steps(local, phase)]
            assert federations.bits(of_module(local.nets[stays])) == federations.bits(before[stays])
            weights = local.nets[moves].named_parameters()
            assert not any(torch.equal(each, before[moves][name]) for name, each in weights)


def test_the_adapter_lies_beside_fc3_or_beside_fc2_and_fc3() -> None:
    """500 → 60 → 10: 500·60 + 60 + 60·10 + 10 = 30,670 parameters. 2000 → 200 → 10: 402,210. CNN-1 and CNN-2 have an
    FC1 of 2000, CNN-3 of 1000: client 2 is the first that differs.
    """
    for fedlora, hidden, width, number in (
        (fedlora_with(*HTM5), 60, 500, 30_670),
        (fedlora_with("cnn1", "cnn1", structure="direct"), 200, 2000, 402_210),
    ):
        server = part(fedlora.init_server(), "adapter")
        assert {name: tuple(each.shape) for name, each in server.items()} == {
            "down.weight": (hidden, width),
            "down.bias": (hidden,),
            "up.weight": (10, hidden),
            "up.bias": (10,),
        }
        assert sum(each.numel() for each in server.values()) == number
    reason = r"client 0 \(cnn1\) has 'fc1' of width 2000, client 2 \(cnn3\) has .* 1000"
    with pytest.raises(ConfigError, match=reason):
        fedlora_with(*HTM5, structure="direct").check()
    fedlora_with(*HTM5, structure="decomposed").check()
