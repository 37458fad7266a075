"""For methods with a small model beside the client's own: models of one feature, and TinyCNN in plain operations."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simulator.base.tensors import Tensors
from simulator.models import Network
from tests import federations


class Times(Network):
    """One feature, a multiple of the image's one pixel; logits (0, feature) or (feature, 0)."""

    layers = ("features",)

    def __init__(self, factor: float, says: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))
        self.head = nn.Linear(1, 2)
        row = torch.zeros(2, 1)
        row[says] = 1.0
        self.head.load_state_dict({"weight": row, "bias": torch.zeros(2)})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.factor * x.flatten(1)}


def features(w: Tensors, x: Tensor) -> Tensor:
    """TinyCNN before its head."""
    h = F.conv2d(x, w["conv1.weight"], w["conv1.bias"]).relu()
    h = F.max_pool2d(h, 3).flatten(1)
    for layer in ("fc1", "fc2"):
        h = (h @ w[f"{layer}.weight"].T + w[f"{layer}.bias"]).relu()
    return h


def ce(h: Tensor, w: Tensors, y: Tensor) -> Tensor:
    """Cross-entropy of w's head on features h."""
    logits = h @ w["head.weight"].T + w["head.bias"]
    return (torch.logsumexp(logits, 1) - logits[range(len(y)), y]).mean()


def flops(method: str, architecture: str, **options: object) -> float:
    """The FLOPs of training on one sample: those of a round of one client, over its number of samples."""
    config = federations.config(
        method, method=options, federation={"clients": 1, "participation": 1.0, "group": [architecture]}
    )
    parts = federations.built(config)
    record = federations.run(parts.engine, 1).record
    assert record is not None
    return record["flops"]["clients"] / len(parts.data.clients[0].train)
