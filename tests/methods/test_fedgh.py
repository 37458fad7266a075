"""FedGH: class means of the features, and the server's steps on them, by hand."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from simulator.base.sections import TrainingConfig
from simulator.methods import Uplink
from simulator.methods.fedgh import FedGH
from simulator.models import ImageShape
from simulator.models.federation import ClientInfo
from simulator.training.client import LocalClient
from simulator.training.flops import FlopCache
from simulator.training.trainer import TrainingContext
from tests import federations
from tests.methods import reference, sharing


def server_side(**method: object) -> FedGH:
    """Two clients, two classes; the header is 2×8, of which the tests use the first feature."""
    config = federations.config("fedgh", method=method)
    return FedGH(config.method, federations.federation(["tiny_cnn", "tiny_mlp"]))


def lars(client: ClientInfo, *pairs: tuple[float, int]) -> Uplink:
    """An uplink of class means (value, 0, 0, …) with their labels."""
    features = torch.zeros(len(pairs), 8)
    features[:, 0] = torch.tensor([value for value, _ in pairs])
    labels = torch.tensor([label for _, label in pairs], dtype=torch.int32)
    return Uplink(client, {"features": features, "labels": labels})


def trained(method: FedGH, *uplinks: Uplink) -> Tensor:
    """The header after a round of the server's that starts from zeros."""
    return federations.served(method, {"head/weight": torch.zeros(2, 8)}, uplinks).server["head/weight"]


def test_the_servers_step_is_the_softmax_gradient() -> None:
    """From θ = 0 the softmax is (½, ½). For f = (1, 0, …) of class 0 the gradient of CE is (p − onehot) fᵀ, that is
    −½ and ½ in the first column; a step with η = 1 leaves ½ and −½ there and zero elsewhere."""
    method = server_side(eta_theta=1.0)
    theta = trained(method, lars(method.federation.clients[0], (1.0, 0)))
    expected = torch.zeros(2, 8)
    expected[:, 0] = torch.tensor([0.5, -0.5])
    assert torch.equal(theta, expected)


def test_a_stale_representation_makes_a_smaller_step() -> None:
    """Half the weight halves the gradient of ½ and −½, beside one of client 1 whose features are zero."""
    for server_step in ["pair", "client", "batch"]:
        method = server_side(eta_theta=1.0, server_step=server_step)
        first, second = method.federation.clients
        stale = replace(lars(first, (1.0, 0)), weight=0.5)
        theta = trained(method, stale, lars(second, (0.0, 0)))
        share = 0.5 if server_step == "batch" else 1.0  # the mean over both pairs
        torch.testing.assert_close(theta[:, 0], share * torch.tensor([0.25, -0.25]))


def test_every_pair_of_representation_and_class_is_a_step_of_its_own() -> None:
    """Eq. 4 by class. f = 1 of class 0 from θ = 0: (½, −½). Then f = 1 of class 1, whose logits are (½, −½):
    p = (0.7311, 0.2689), and θ − (p − (0, 1)) = (½ − 0.7311, −½ + 0.7311)."""
    method = server_side(eta_theta=1.0)
    theta = trained(method, lars(method.federation.clients[0], (1.0, 0), (1.0, 1)))
    torch.testing.assert_close(theta[:, 0], torch.tensor([-0.2310586, 0.2310586]))


def test_with_steps_by_client_one_of_two_classes_makes_one_on_their_mean_loss() -> None:
    """f = 1 of class 0 and f = 3 of class 1: the mean gradient of the first row is (−½·1 + ½·3)/2 = ½. From there
    the logits of another client's f = 1 are (−½, ½), and class 0 adds 1 − 1/(1 + e)."""
    method = server_side(eta_theta=1.0, server_step="client")
    first, second = method.federation.clients
    theta = trained(method, lars(first, (1.0, 0), (3.0, 1)))
    torch.testing.assert_close(theta[:, 0], torch.tensor([-0.5, 0.5]))
    theta = trained(method, lars(first, (1.0, 0), (3.0, 1)), lars(second, (1.0, 0)))
    assert theta[0, 0].item() == pytest.approx(-0.5 + 1 - 1 / (1 + math.e))


def test_server_epochs_repeat_the_whole_pass_and_not_each_step() -> None:
    """f = 1 of class 0, then f = 1 of class 1, twice over. After a step of ±½ for class 0 at θ = ±a, where the logits
    differ by 2a, the first row becomes a + 1/(1 + e^(2a)); for class 1 it becomes a − 1/(1 + e^(−2a))."""
    row = 0.0
    for _ in range(2):
        row += 1 / (1 + math.exp(2 * row))
        row -= 1 / (1 + math.exp(-2 * row))
    method = server_side(eta_theta=1.0, server_epochs=2)
    theta = trained(method, *(lars(k, (1.0, label)) for label, k in enumerate(method.federation.clients)))
    assert theta[0, 0].item() == pytest.approx(row)


def batched(batch_size: int) -> FedGH:
    """Two clients whose server steps on batches of so many pairs."""
    config = federations.config("fedgh", method={"server_step": "batch", "eta_theta": 1.0})
    training = TrainingConfig(batch_size=batch_size)
    return FedGH(config.method, federations.federation(["tiny_cnn", "tiny_mlp"], training=training))


def test_batches_of_pairs_are_shuffled_by_the_rounds_stream() -> None:
    """Batches of 3 of four pairs: one step on the mean of three, then one on the other, in the order drawn."""
    method = batched(3)
    first, second = method.federation.clients
    pairs = [(1.0, 0), (2.0, 1), (3.0, 0), (4.0, 1)]
    row = 0.0
    for rows in torch.randperm(4, generator=reference.stream("order", 1)).split(3):
        steps = []
        for value, label in (pairs[number] for number in rows.tolist()):
            p_0 = 1 / (1 + math.exp(-2 * row * value))
            steps.append(((label == 0) - p_0) * value)
        row += sum(steps) / len(steps)
    theta = trained(method, lars(first, *pairs[:2]), lars(second, *pairs[2:]))
    assert theta[0, 0].item() == pytest.approx(row, rel=1e-5)


def test_a_header_with_a_bias_travels_and_trains_with_it() -> None:
    """From θ = 0 and f = (1, 0, …) of class 0 a step with η = 1 leaves ½ and −½ in the bias as in the weights."""
    method = server_side(eta_theta=1.0, bias=True)
    start = {"head/weight": torch.zeros(2, 8), "head/bias": torch.zeros(2)}
    served = federations.served(method, start, [lars(method.federation.clients[0], (1.0, 0))]).server
    assert served["head/bias"].tolist() == [0.5, -0.5]
    _, _, state, local = sharing.working("fedgh", options={"bias": True})
    replaced = {f"model/head.{key}": state.server[f"head/{key}"] for key in ("weight", "bias")}
    assert federations.bits(local.tensors()) == federations.bits(state.clients[0] | replaced)


def test_local_averaged_representations_are_class_means_in_class_order() -> None:
    """A network that shows the brightness of its 3×3 image as its first feature. Class 2 has images of brightness
    2 and 4, class 0 has 10, 20 and 30: means 20 and 3, labels 0 and 2."""
    brightness, labels = torch.tensor([2, 10, 4, 20, 30]), torch.tensor([2, 0, 2, 0, 0])
    images = brightness[:, None, None, None].expand(-1, 3, 3, 1)
    data = federations.pixels(images, labels, [torch.arange(5)], num_classes=3)
    federation = federations.federation(["tiny_cnn"], [5], [(0, 2)], num_classes=3, shape=ImageShape(1, 3, 3))
    tensors = {
        name: torch.zeros_like(t, device="cpu")
        for name, t in federation.architectures["tiny_cnn"].state_dict().items()
    }
    tensors["conv1.weight"][0, 0, 1, 1] = 1.0
    tensors["fc1.weight"][0, 0] = 1.0
    tensors["fc2.weight"][0, 0] = 1.0
    method = FedGH(federations.config("fedgh").method, federation)
    local = LocalClient(
        TrainingContext(federation, data, FlopCache()),
        federation.clients[0],
        1,
        {f"model/{name}": tensor for name, tensor in tensors.items()},
    )
    uplink = method.uplink(local)
    expected = torch.zeros(2, 8)
    expected[:, 0] = torch.tensor([20.0, 3.0])
    assert torch.equal(uplink["features"], expected)
    assert uplink["labels"].tolist() == [0, 2]
    assert uplink["labels"].dtype == torch.int32
