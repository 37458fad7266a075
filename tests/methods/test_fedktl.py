"""FedKTL: the classes' fixed vectors, both losses, and the server's steps by hand; what travels; needs."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.base.rng import drawing_from
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import of_module, part
from simulator.data.specs import TableSpec
from simulator.methods import Uplink
from simulator.methods.fedktl import FedKTL, etf, mmd, sine
from simulator.models import ImageShape, generators
from simulator.models.generators import Design, Generator
from simulator.training.flops import FlopCache
from simulator.training.phase import Batch, Nets
from simulator.training.trainer import CentralServer, TrainingContext
from tests import federations
from tests.methods import reference, sharing

DESIGN = Design(noise=3, latent=2, layers=1, width=1, size=4, channels=1)


def method(classes: int = 3, shape: Any = federations.DIGIT, clients: int = 2, **options: Any) -> FedKTL:
    return sharing.of(
        "fedktl", federations.federation(["tiny_cnn"] * clients, num_classes=classes, shape=shape), **options
    )


def file(folder: Path, **sizes: int) -> str:
    design = Design(**(vars(DESIGN) | sizes))
    path = folder / "generator.safetensors"
    generators.save(generators.drawn(design, reference.stream("generator", 0)), design, path)
    return str(path)


def sent(fedktl: FedKTL, client: int, prototypes: list[list[float]], labels: list[int]) -> Uplink:
    payload = {"prototypes": torch.tensor(prototypes), "labels": torch.tensor(labels, dtype=torch.int32)}
    return Uplink(fedktl.federation.clients[client], payload)


def at_work(fedktl: FedKTL) -> CentralServer:
    with torch.device("meta"):
        networks = fedktl.server_networks()
    context = TrainingContext(fedktl.federation, None, FlopCache())
    return CentralServer(context, 1, fedktl.init_server(), networks)


class Plain(nn.Module):
    """A model whose logits and features are its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x

    features = forward


def nets(**others: nn.Module) -> Nets:
    found = Nets()
    for name, network in {"model": Plain(), **others}.items():
        found[name] = network
    return found


def test_any_two_class_vectors_have_the_same_widest_angle() -> None:
    """Length 1, and cosine −1/(C − 1) = −1/2 for three classes."""
    vectors = etf(3, reference.stream("test", 1))
    expected = torch.tensor([[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]])
    assert torch.allclose(vectors @ vectors.T, expected, atol=1e-6)
    assert not torch.allclose(vectors, vectors.T, atol=0.1)  # turned by the draw


def test_the_margin_widens_the_angle_to_the_own_class() -> None:
    """The direction of (3, 4) has cosines .6 and .8. cos(arccos .6 + .5) = .6 · .877583 − .8 · .479426 = .143009.

    With scale 2, the loss is log(1 + e^(2 · (.8 − .143009))).
    """
    batch = Batch(torch.tensor([[3.0, 4.0]]), torch.tensor([0]))
    found = method(2, scale=2.0).own(nets(), {"etf": torch.eye(2)}, batch, {})
    assert found.loss.item() == pytest.approx(math.log(1 + math.exp(2 * 0.656991)), rel=1e-5)
    assert found.terms["cross_entropy"] is found.loss


def test_the_margin_keeps_a_finite_gradient_at_the_class_itself() -> None:
    cosines = torch.tensor([1.0, 0.6, 0.0], requires_grad=True)
    found = sine(cosines)
    found.sum().backward()
    assert found.tolist() == pytest.approx([1e-3, 0.8, 1.0])
    assert cosines.grad is not None
    assert cosines.grad.tolist() == pytest.approx([0.0, -0.75, 0.0])


def test_generated_images_count_by_mu() -> None:
    """Image 1 is (1, 3), its latent vector (0, 0), and the projection doubles: (2² + 6²)/2 = 20, times μ = 3."""
    double = nn.Linear(2, 2, bias=False)
    nn.init.eye_(double.weight).data.mul_(2)
    state = {
        "etf": torch.eye(2),
        "images": torch.tensor([[9.0, 9.0], [1.0, 3.0]]),
        "latents": torch.tensor([[5.0, 5.0], [0.0, 0.0]]),
    }
    batch, draws = Batch(torch.tensor([[3.0, 4.0]]), torch.tensor([0])), {"pairs": torch.tensor([1])}
    fedktl = method(2, mu=3.0)
    own = fedktl.own(nets(), state, batch, {}).loss.item()
    found = fedktl.loss(nets(projection=double), state, batch, draws)
    assert found.loss.item() == pytest.approx(own + 60, rel=1e-5)
    assert found.terms["transferred"].item() == pytest.approx(20)
    assert found.terms["cross_entropy"].item() == pytest.approx(own)


def test_a_step_has_different_images_no_more_than_a_batch() -> None:
    for classes, drawn in [(20, 16), (3, 3)]:
        training = TrainingConfig(batch_size=16)
        federation = federations.federation(["tiny_cnn"], num_classes=classes, training=training)
        fedktl = FedKTL(federations.config("fedktl").method, federation)
        stream = reference.stream("test", 1)
        pairs = fedktl.draws(stream, Batch(torch.zeros(2), torch.zeros(2)))["pairs"]
        assert len(pairs.unique()) == len(pairs) == drawn
        assert not torch.equal(pairs, fedktl.draws(stream, Batch(torch.zeros(2), torch.zeros(2)))["pairs"])


def test_mmd_sums_four_kernels_over_all_pairs() -> None:
    """Squared distance 20: k = e^−1 + e^−⅔ + e^−½ + e^−⅕. For x = (0, √20) and y = (0, 0), the
    means are 2 + k/2, 4, and 2 + k/2, so MMD is 2 − k/2."""
    k = math.exp(-1) + math.exp(-2 / 3) + math.exp(-1 / 2) + math.exp(-1 / 5)
    x, y = torch.tensor([[0.0], [math.sqrt(20)]]), torch.zeros(2, 1)
    assert mmd(x, y).item() == pytest.approx(2 - k / 2, abs=1e-5)
    assert mmd(x, x).item() == pytest.approx(0, abs=1e-5)


def test_the_servers_loss_is_mmd_and_lambda_times_the_distance_to_the_centroid() -> None:
    """F is the identity. (1, 1) of class 1 is ((1 − 0)² + (1 − 3)²)/2 = 5/2 from its centroid (0, 3)."""
    centroids = nn.Embedding(2, 2)
    centroids.weight.data = torch.tensor([[7.0, 7.0], [0.0, 3.0]])
    generator = generators.drawn(DESIGN, reference.stream("generator", 0))
    at = Nets(transformer=Plain(), centroids=centroids, generator=generator)
    batch, noise = Batch(torch.ones(1, 2), torch.tensor([1])), torch.ones(1, 3)
    found = method(2, lam=4.0).server_loss(at, {}, batch, {"noise": noise}).loss
    usual = mmd(batch.x, generator.latents(noise)).item()
    assert found.item() == pytest.approx(usual + 10, rel=1e-5)


def test_a_centroid_is_the_mean_of_what_clients_sent_and_others_stay() -> None:
    fedktl = method()
    server = at_work(fedktl)
    server.nets["transformer"] = nn.Linear(3, 64, bias=False)
    weight = server.nets["transformer"].get_parameter("weight")
    weight.data = torch.zeros(64, 3)
    weight.data[0] = torch.tensor([1.0, 0.0, 0.0])
    before = server.nets["centroids"].get_parameter("weight").clone()
    uplinks = [sent(fedktl, 0, [[1.0, 0, 0], [5.0, 0, 0]], [0, 2]), sent(fedktl, 1, [[2.0, 0, 0]], [0])]
    fedktl.place(server, uplinks)
    after = server.nets["centroids"].get_parameter("weight")
    assert after[[0, 2], 0].tolist() == [1.5, 5.0]
    assert after[0, 1:].eq(0).all()
    assert torch.equal(after[1], before[1])


def test_the_server_aligns_epoch_by_epoch_in_shuffled_batches() -> None:
    """Five prototypes in batches of two: two and three, as BatchNorm cannot train on one."""
    fedktl = method(server_epochs=4, server_batch=2, server_lr=0.5)
    rows = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]
    uplinks = [sent(fedktl, 0, rows, [0, 1, 2]), sent(fedktl, 1, rows[:2], [0, 1])]
    [phase] = fedktl.server_phases(at_work(fedktl), uplinks)
    assert (phase.optimizer, phase.lr, phase.keeps) == ("adam", 0.5, None)
    assert phase.trains == ("transformer", "centroids")
    assert phase.batches is not None
    assert [len(batch.y) for batch in phase.batches] == [2, 3] * 4
    orders = [torch.cat([phase.batches[i].y, phase.batches[i + 1].y]).tolist() for i in range(0, 8, 2)]
    assert all(sorted(order) == [0, 0, 1, 1, 2] for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    for batch in phase.batches:
        assert torch.equal(batch.x, torch.tensor(rows)[batch.y])
    assert phase.draws is not None
    noise = phase.draws(reference.stream("test", 1), phase.batches[0])["noise"]
    assert noise.shape == (2, 64)


def test_the_server_aligns_from_the_placed_centroids() -> None:
    fedktl = method()
    server = at_work(fedktl)
    fedktl.server_phases(server, [sent(fedktl, 0, [[1.0, 0, 0]], [1])])
    with torch.no_grad():
        placed = server.nets["transformer"].eval()(torch.tensor([[1.0, 0, 0]]))[0]
    assert torch.equal(server.nets["centroids"].get_parameter("weight")[1], placed)


def test_a_single_prototype_counts_twice() -> None:
    fedktl = method(server_epochs=1)
    [phase] = fedktl.server_phases(at_work(fedktl), [sent(fedktl, 0, [[1.0, 0, 0]], [1])])
    assert phase.batches is not None
    [batch] = phase.batches
    assert (batch.x.tolist(), batch.y.tolist()) == ([[1.0, 0, 0]] * 2, [1, 1])


def test_after_a_round_the_images_are_those_of_the_placed_centroids() -> None:
    fedktl = method(server_epochs=2)
    start = fedktl.init_server()
    uplinks = [sent(fedktl, 0, [[1.0, 0, 0], [0, 1.0, 0]], [0, 2])]
    server = federations.served(fedktl, start, uplinks).server
    assert server["trained"].item() == 1
    assert start["trained"].item() == 0
    frozen = Generator(fedktl.design())
    frozen.load_state_dict(part(start, "generator"))
    assert all(torch.equal(server[f"generator/{key}"], each) for key, each in of_module(frozen).items())
    with torch.no_grad():
        assert torch.allclose(server["images"], frozen(server["centroids/weight"]), atol=1e-6)
    transformer = fedktl.server_networks()["transformer"]
    transformer.load_state_dict(part(server, "transformer"))
    with torch.no_grad():
        placed = transformer.eval()(uplinks[0].payload["prototypes"])
    assert torch.allclose(server["centroids/weight"][[0, 2]], placed, atol=1e-6)


def test_a_smaller_image_has_the_mean_of_all_pixels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From 32 to 8 pixels, two of four stripes are bright. Without averaging, only the middle ones would count."""
    fedktl = method(generator_file=file(tmp_path, size=32), server_epochs=1)
    stripes = torch.tensor([1.0, 0.0, 0.0, 1.0]).repeat(8).expand(3, 1, 32, 32)
    monkeypatch.setattr(Generator, "forward", lambda self, latents: stripes)
    uplinks = [sent(fedktl, 0, [[1.0, 0, 0], [0, 1.0, 0]], [0, 1])]
    images = federations.served(fedktl, fedktl.init_server(), uplinks).server["images"]
    assert images[..., 1:-1].min() > 0.4 and images[..., 1:-1].max() < 0.6


def test_a_client_sends_the_direction_of_the_mean_direction_of_each_class() -> None:
    parts, _, _, local = sharing.working("fedktl", receives=False)
    payload = parts.method.uplink(local)
    local.nets.eval()
    x, y = local.batch(local.train)
    with torch.no_grad():
        logits = local.nets.model(x)
    for prototype, label in zip(payload["prototypes"], payload["labels"], strict=True):
        mean = (logits / logits.norm(dim=1, keepdim=True))[y == label].mean(0)
        assert torch.allclose(prototype, mean / mean.norm(), atol=1e-5)
    assert payload["labels"].dtype == torch.int32


def test_every_round_begins_with_the_same_projection_and_it_learns_beside_the_model() -> None:
    parts = federations.built(federations.config("fedktl"))
    state, shape = parts.engine.initial_state(), parts.federation.spec.shape
    payload = {"images": torch.zeros(10, *shape), "latents": torch.zeros(10, 64)}
    weights = []
    for client, round in ((0, 2), (0, 3), (2, 3)):
        local = federations.local(parts, client, state.clients[client], round)
        parts.method.receive(local, payload)
        weights.append(local.nets["projection"].get_parameter("weight"))
        [phase] = parts.method.phases(local)
        assert (phase.name, phase.trains) == ("guided", ("model", "projection"))
    with drawing_from(parts.federation.stream("server/projection")):
        drawn = nn.Linear(8, 64).weight
    assert all(torch.equal(drawn, each) for each in weights)


def test_a_client_answers_by_the_cosines() -> None:
    """The direction of (3, 4) with the rows (0, 1) and (.8, .6)."""
    found = method(2).predict(nets(), {"etf": torch.tensor([[0.0, 1], [0.8, 0.6]])}, torch.tensor([[3.0, 4]]))
    assert found.tolist() == [pytest.approx([0.8, 0.96])]


def test_an_untrained_generator_has_at_least_the_samples_size_up_to_64() -> None:
    for side, size in [((8, 8), 8), ((3, 3), 4), ((28, 20), 32), ((20, 64), 64), ((224, 224), 64)]:
        design = method(shape=ImageShape(3, *side)).design()
        assert design == Design(noise=64, latent=64, layers=2, width=16, size=size, channels=3)


def test_a_file_gives_the_generator(tmp_path: Path) -> None:
    fedktl = method(generator_file=file(tmp_path))
    assert fedktl.design() == DESIGN
    state, weights = fedktl.init_server(), generators.read(tmp_path / "generator.safetensors")
    assert all(torch.equal(state[f"generator/{name}"], each) for name, each in weights.items())
    assert state["centroids/weight"].shape == (3, 2)
    assert fedktl.unmet_need() is None


def test_a_file_of_images_with_other_channels_is_refused(tmp_path: Path) -> None:
    fedktl = method(generator_file=file(tmp_path, channels=3))
    with pytest.raises(ConfigError, match=r"a generator of images with 1 channels: .*safetensors makes 3\."):
        fedktl.check()


def test_other_samples_and_a_single_class_are_refused() -> None:
    for classes, shape, reason in [
        (3, TableSpec(6), "needs images"),
        (1, federations.DIGIT, "needs two classes"),
    ]:
        assert reason in str(method(classes, shape).unmet_need())
