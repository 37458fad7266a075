"""FedKTL: the classes' fixed vectors, both losses, and the server's steps by hand; what travels; needs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from simulator.base.errors import ConfigError
from simulator.base.rng import drawing_from
from simulator.base.sections import TrainingConfig
from simulator.base.tensors import Tensors, of_module, part
from simulator.data.specs import TableSpec
from simulator.methods.fedktl import FedKTL, etf, sine
from simulator.models import ImageShape, generators
from simulator.models.generators import Design, Generator
from simulator.training.flops import FlopCache
from simulator.training.phase import Batch, Nets
from simulator.training.trainer import CentralServer, TrainingContext
from tests import federations
from tests.methods import reference, sharing
from tests.methods.reference import ce, features, logits
from tests.networks import Plain, batch

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


def at_work(fedktl: FedKTL) -> CentralServer:
    with torch.device("meta"):
        networks = fedktl.server_networks()
    context = TrainingContext(fedktl.federation, None, FlopCache())
    return CentralServer(context, 1, fedktl.init_server(), networks)


def test_any_two_class_vectors_have_the_same_widest_angle() -> None:
    """Length 1, and cosine −1/(C − 1) = −1/2 for three classes."""
    vectors = etf(3, reference.stream("test", 1))
    expected = torch.tensor([[1, -0.5, -0.5], [-0.5, 1, -0.5], [-0.5, -0.5, 1]])
    assert torch.allclose(vectors @ vectors.T, expected, atol=1e-6)
    assert not torch.allclose(vectors, vectors.T, atol=0.1)  # turned by the draw


def test_the_margin_keeps_a_finite_gradient_at_the_class_itself() -> None:
    cosines = torch.tensor([1.0, 0.6, 0.0], requires_grad=True)
    found = sine(cosines)
    found.sum().backward()
    assert found.tolist() == pytest.approx([1e-3, 0.8, 1.0])
    assert cosines.grad is not None
    assert cosines.grad.tolist() == pytest.approx([0.0, -0.75, 0.0])


def test_a_step_has_different_images_no_more_than_a_batch() -> None:
    for classes, drawn in [(20, 16), (3, 3)]:
        training = TrainingConfig(batch_size=16)
        federation = federations.federation(["tiny_cnn"], num_classes=classes, training=training)
        fedktl = FedKTL(federations.config("fedktl").method, federation)
        stream = reference.stream("test", 1)
        pairs = fedktl.draws(stream, Batch(torch.zeros(2), torch.zeros(2)))["pairs"]
        assert len(pairs.unique()) == len(pairs) == drawn
        assert not torch.equal(pairs, fedktl.draws(stream, Batch(torch.zeros(2), torch.zeros(2)))["pairs"])


def test_a_centroid_is_the_mean_of_what_clients_sent_and_others_stay() -> None:
    fedktl = method()
    server = at_work(fedktl)
    server.nets["transformer"] = nn.Linear(3, 64, bias=False)
    weight = server.nets["transformer"].get_parameter("weight")
    weight.data = torch.zeros(64, 3)
    weight.data[0] = torch.tensor([1.0, 0.0, 0.0])
    before = server.nets["centroids"].get_parameter("weight").clone()
    first = sharing.sent(fedktl, 0, prototypes=[[1.0, 0, 0], [5.0, 0, 0]], labels=[0, 2])
    fedktl.place(server, [first, sharing.sent(fedktl, 1, prototypes=[[2.0, 0, 0]], labels=[0])])
    after = server.nets["centroids"].get_parameter("weight")
    assert after[[0, 2], 0].tolist() == [1.5, 5.0]
    assert after[0, 1:].eq(0).all()
    assert torch.equal(after[1], before[1])


def test_batches_of_the_server_have_no_single_row() -> None:
    """Five prototypes in batches of two: two and three, as BatchNorm cannot train on one. A single one counts twice."""
    fedktl = method(server_epochs=4, server_batch=2, server_lr=0.5)
    rows = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]
    uplinks = [
        sharing.sent(fedktl, 0, prototypes=rows, labels=[0, 1, 2]),
        sharing.sent(fedktl, 1, prototypes=rows[:2], labels=[0, 1]),
    ]
    [phase] = fedktl.server_phases(at_work(fedktl), uplinks)
    assert (phase.optimizer, phase.lr, phase.keeps) == ("adam", 0.5, None)
    assert [len(batch.y) for batch in phase.batches or ()] == [2, 3] * 4
    one = sharing.sent(fedktl, 0, prototypes=[[1.0, 0, 0]], labels=[1])
    [phase] = method(server_epochs=1).server_phases(at_work(fedktl), [one])
    [batch] = phase.batches or ()
    assert (batch.x.tolist(), batch.y.tolist()) == ([[1.0, 0, 0]] * 2, [1, 1])


def test_a_smaller_image_has_the_mean_of_all_pixels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From 32 to 8 pixels, two of four stripes are bright. Without averaging, only the middle ones would count."""
    fedktl = method(generator_file=file(tmp_path, size=32), server_epochs=1)
    stripes = torch.tensor([1.0, 0.0, 0.0, 1.0]).repeat(8).expand(3, 1, 32, 32)
    monkeypatch.setattr(Generator, "forward", lambda self, latents: stripes)
    uplinks = [sharing.sent(fedktl, 0, prototypes=[[1.0, 0, 0], [0, 1.0, 0]], labels=[0, 1])]
    images = federations.served(fedktl, fedktl.init_server(), uplinks).server["images"]
    assert images[..., 1:-1].min() > 0.4 and images[..., 1:-1].max() < 0.6


def test_a_client_answers_by_the_cosines() -> None:
    """The direction of (3, 4) with the rows (0, 1) and (.8, .6)."""
    frame = torch.tensor([[0.0, 1], [0.8, 0.6]], dtype=torch.float64)
    found = method(2).predict(Nets(Plain()), {"etf": frame}, batch((3, 4, 0)).x)
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


def own_loss(z: Tensor, y: Tensor, etf: Tensor, margin: float, scale: float) -> Tensor:
    """ArcFace on the cosines of the outputs' directions with the classes' vectors."""
    cosines = z / z.norm(dim=1, keepdim=True) @ etf.T
    angles = torch.acos(cosines)
    at_own = torch.cos(angles + margin * torch.eye(len(etf), dtype=torch.float64)[y])
    return ce(scale * at_own, y)


def kernel(a: Tensor, b: Tensor) -> Tensor:
    squares = ((a[:, None] - b) ** 2).sum(2)
    return sum((-squares / (2 * width)).exp() for width in (10, 15, 20, 50)).mean()


def mapped(f: Tensors, p: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """F of prototypes, normalized with these statistics."""
    h = p @ f["layers.0.weight"].T + f["layers.0.bias"]
    h = (h - mean) / (variance + 1e-5).sqrt() * f["layers.1.weight"] + f["layers.1.bias"]
    return h.relu() @ f["layers.3.weight"].T + f["layers.3.bias"]


def test_two_whole_rounds_equal_the_reference() -> None:
    """Three clients of two classes each. In the first round there are no images yet. The server takes three passes over
    six prototypes, in batches of four and two.
    """
    mu, lam, margin, scale, lr, server_lr = 2.0, 0.5, 0.3, 4.0, 0.1, 0.02
    options = {"mu": mu, "lam": lam, "margin": margin, "scale": scale, "server_lr": server_lr}
    ran = reference.Rounds.of("fedktl", 2, lr, method=options | {"server_epochs": 3, "server_batch": 4})
    generator = Generator(ran.parts.method.design()).double()
    generator.load_state_dict(part(ran.server, "generator"))
    models, frame = ran.of_clients("model"), ran.begun[0]["etf"]
    first = part(ran.server, "transformer")
    learned = {key: each for key, each in first.items() if key.endswith(("weight", "bias"))}
    f, q = reference.leaves(learned), reference.leaves(part(ran.server, "centroids"))
    mean, variance = first["layers.1.running_mean"].clone(), first["layers.1.running_var"].clone()
    images = ran.server["images"]

    @torch.no_grad()
    def place() -> None:
        for label in labels.unique():
            q["weight"][label] = mapped(f, prototypes[labels == label], mean, variance).mean(0)

    for t in (1, 2):
        with reference.double_precision(), drawing_from(ran.parts.federation.stream("server/projection")):
            drawn = nn.Linear(8, q["weight"].shape[1])
        name, latents, sent = ("model", "guided")[t - 1], q["weight"].detach().clone(), []
        for client, (w, (every_x, every_y)) in enumerate(zip(models, ran.data, strict=True)):
            h = reference.leaves(of_module(drawn))
            draws = reference.stream(f"draws/{name}", t, client)
            for x, y in ran.batches(name, t, client):
                loss = own_loss(logits(w, x), y, frame, margin, scale)
                if t == 2:
                    pairs = torch.randperm(4, generator=draws)
                    shown = features(w, images[pairs]) @ h["weight"].T + h["bias"]
                    loss = loss + mu * ((shown - latents[pairs]) ** 2).mean()
                loss.backward()
                reference.step([*w.values(), *h.values()], lr)
            z = logits(w, every_x).detach()
            z = z / z.norm(dim=1, keepdim=True)
            for label in sorted(set(every_y.tolist())):
                direction = z[every_y == label].mean(0)
                sent.append((direction / direction.norm(), label))
        prototypes, labels = (
            torch.stack([each for each, _ in sent]),
            torch.tensor([label for _, label in sent]),
        )
        place()
        adam, draws = reference.Adam(f | q, server_lr), reference.stream("draws/align", t)
        order = reference.stream("order", t)
        for rows in [rows for _ in range(3) for rows in torch.randperm(6, generator=order).split(4)]:
            p = prototypes[rows]
            h = p @ f["layers.0.weight"].T + f["layers.0.bias"]
            made = mapped(f, p, h.mean(0), h.var(0, unbiased=False))
            mean = 0.9 * mean + 0.1 * h.mean(0).detach()
            variance = 0.9 * variance + 0.1 * h.var(0).detach()
            noise = torch.randn(len(rows), generator.design.noise, generator=draws, dtype=torch.float64)
            usual = generator.latents(noise).detach()
            mmd = kernel(made, made) + kernel(usual, usual) - 2 * kernel(made, usual)
            (mmd + lam * ((made - q["weight"][labels[rows]]) ** 2).mean()).backward()
            adam.step()
        place()
        images = generator(q["weight"]).detach()
    found = part(ran.end.server, "transformer")
    assert found.pop("layers.1.num_batches_tracked") == 12
    reference.assert_equal(found, f | {"layers.1.running_mean": mean, "layers.1.running_var": variance})
    reference.assert_equal({"images": ran.end.server["images"]}, {"images": images})
    ran.assert_ended({"centroids": q}, {"model": models})
    assert federations.bits(part(ran.end.server, "generator")) == federations.bits(
        part(ran.server, "generator")
    )
