"""pFedES: both losses, the extractor, and traffic by hand; two whole rounds against a reference."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.tensors import Tensors, part
from simulator.data.specs import TokenSpec
from simulator.methods.pfedes import Extractor, PFedES
from simulator.models import ImageShape
from simulator.training.phase import Batch, Nets
from tests import federations
from tests.methods import reference
from tests.methods.small_models import Times, ce, features, flops

ONE = Batch(torch.ones(1, 1, 1, 1), torch.tensor([0]))


def method(shape: Any = federations.DIGIT, **options: Any) -> PFedES:
    return PFedES(
        federations.config("pfedes", method=options).method,
        federations.federation(["tiny_cnn"], shape=shape),
    )


def nets(factor: float) -> Nets:
    """F(x) = x with logits (x, 0), and G(x) = factor · x."""

    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return factor * x

    return Nets(Times(1.0, 0), extractor=Scaled())


@pytest.mark.parametrize("mu", [0.0, 0.25, 1.0])
def test_mu_is_the_weight_of_the_loss_on_the_extractors_image(mu: float) -> None:
    """x = 1, G(x) = 3: the losses for class 0 are log(1 + e⁻¹) and log(1 + e⁻³)."""
    loss = method(mu=mu).model_loss(nets(3.0), {}, ONE, {})
    assert loss.item() == pytest.approx((1 - mu) * math.log1p(math.exp(-1)) + mu * math.log1p(math.exp(-3)))


def test_the_extractor_learns_from_the_loss_on_its_image_alone() -> None:
    assert method().extractor_loss(nets(3.0), {}, ONE, {}).item() == pytest.approx(math.log1p(math.exp(-3)))


def test_the_model_alone_answers_from_the_image_itself() -> None:
    assert method().predict(nets(3.0), {}, ONE.x).tolist() == [[1.0, 0.0]]


def test_the_extractor_keeps_the_size_of_an_image_and_has_no_negative_pixels() -> None:
    """Its kernels here pass the pixel in the middle on, times 2 and then times −1 or 3, and add 1."""
    extractor = Extractor(2, 1)
    middle = torch.zeros(1, 2, 3, 3)
    middle[0, :, 1, 1] = 2.0
    last = torch.zeros(2, 1, 3, 3)
    last[:, 0, 1, 1] = torch.tensor([-1.0, 3.0])
    weights = {"conv1.weight": middle, "conv1.bias": torch.zeros(1), "conv2.weight": last}
    extractor.load_state_dict(weights | {"conv2.bias": torch.ones(2)})
    image = torch.tensor(
        [[[[1.0, -4.0]], [[0.0, 1.0]]]]
    )  # sums 1 and −3 over the channels: 2 and 0 after the ReLU
    assert extractor(image).tolist() == [[[[0.0, 1.0]], [[7.0, 1.0]]]]


@pytest.mark.parametrize(("shape", "channels"), [(federations.DIGIT, 8), (ImageShape(3, 8, 8), 5)])
def test_the_extractor_travels_and_nothing_else(shape: ImageShape, channels: int) -> None:
    """18 · c · c_h + c_h + c numbers; 443 for color images and 8 channels."""
    sent = method(shape, channels=channels).init_server()
    c = shape.channels
    assert sum(each.numel() for each in sent.values()) == 18 * c * channels + channels + c
    assert {name.split("/")[0] for name in sent} == {"extractor"}


def test_an_extractor_for_color_images_has_443_numbers() -> None:
    assert sum(each.numel() for each in method(ImageShape(3, 8, 8)).init_server().values()) == 443


def test_traffic_is_that_of_the_extractor_in_both_directions() -> None:
    """Grey images: 18 · 8 + 8 + 1 numbers of 4 bytes."""
    config = federations.config("pfedes", federation={"participation": 1.0})
    record = federations.run(federations.built(config).engine, 1).record
    assert record is not None
    assert record["bytes"]["per_client_up"] == record["bytes"]["per_client_down"] == [4 * 153] * 4


def test_other_samples_than_images_are_refused() -> None:
    pfedes = PFedES(
        federations.config("pfedes").method,
        federations.federation(["tiny_fasttext"], shape=TokenSpec(4, 5)),
    )
    with pytest.raises(ConfigError, match=r"needs images \(its extractor makes images of images\).*tokens"):
        pfedes.check()


@pytest.mark.parametrize(("options", "epochs"), [({}, None), ({"extractor_epochs": 3}, 3)])
def test_the_extractor_is_trained_after_the_model_for_epochs_of_its_own(
    options: dict[str, int], epochs: int | None
) -> None:
    parts = federations.built(federations.config("pfedes", method=options))
    local = federations.local(parts, 0, parts.engine.initial_state().clients[0])
    parts.method.receive(local, parts.method.init_server())
    found = [(phase.name, phase.trains, phase.epochs) for phase in parts.method.phases(local)]
    assert found == [("model", ("model",), None), ("extractor", ("extractor",), epochs)]


@pytest.mark.parametrize("epochs", [1, 2])
def test_operations_of_a_sample(epochs: int) -> None:
    """m = 2 · 9 · 8 · 64 operations in a convolution between 1 and 8 channels of 8×8 pixels. Phase `model`: 2 m in G,
    and two steps of the model. Phase `extractor`: m and m forward, m and m for the gradients of the weights, and m
    through the second convolution. In the model, a multiplication counts as 2 forward, and as 2 in the gradient of the
    input."""
    m = 2 * 9 * 8 * 64
    through = 4 * (9 * 36 * 4 + 16 * 12 + 12 * 8 + 8 * 4)
    expected = 2 * flops("standalone", "tiny_cnn") + 2 * m + epochs * (5 * m + through)
    assert flops("pfedes", "tiny_cnn", extractor_epochs=epochs) == expected


def made(w: Tensors, x: Tensor) -> Tensor:
    """The extractor's images."""
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"], padding=1).relu()
    return F.conv2d(h, w["conv2.weight"], w["conv2.bias"], padding=1).relu()


def test_two_whole_rounds_equal_the_reference() -> None:
    lr, mu = 0.1, 0.3
    config = federations.config(
        "pfedes",
        method={"mu": mu, "channels": 3, "extractor_epochs": 3},
        federation={"clients": 3, "participation": 1.0, "group": ["tiny_cnn", "tiny_cnn_w2"]},
        training={"epochs": 2, "lr": lr},
    )
    with reference.double_precision():
        parts = federations.built(config)
        start = parts.engine.initial_state()
        begun = list(start.clients)  # drawn in this precision
        end = parts.engine.round(parts.engine.round(start, lambda event: None), lambda event: None)

    models = [reference.leaves(part(tensors, "model")) for tensors in begun]
    data = [reference.samples(parts, client) for client in range(3)]
    total = sum(len(y) for _, y in data)
    shared = part(start.server, "extractor")
    for t in (1, 2):
        average = {name: torch.zeros_like(weight) for name, weight in shared.items()}
        for client, (x, y) in enumerate(data):
            own, extractor = models[client], reference.leaves(shared)
            for rows in reference.orders(len(y), 16, 2, reference.stream("batches/model", t, client)):
                of_image = ce(features(own, x[rows]), own, y[rows])
                of_made = ce(features(own, made(shared, x[rows])), own, y[rows])
                ((1 - mu) * of_image + mu * of_made).backward()
                reference.step(list(own.values()), lr)
            for rows in reference.orders(len(y), 16, 3, reference.stream("batches/extractor", t, client)):
                ce(features(own, made(extractor, x[rows])), own, y[rows]).backward()
                reference.step(list(extractor.values()), lr)
                reference.step(list(own.values()), 0.0)  # forgets its gradients
            for name, weight in extractor.items():
                average[name] += weight.detach() * len(y) / total
        shared = average

    reference.assert_equal(part(end.server, "extractor"), shared)
    for tensors, own in zip(end.clients, models, strict=True):
        reference.assert_equal(part(tensors, "model"), own)
        assert tensors.keys() == {f"model/{name}" for name in own}
