"""A network whose every number can be followed by hand."""

import torch
from torch import Tensor, nn

from simulator.models import Network
from simulator.training.phase import Batch


class Plain(Network):
    """Two features, times `scale` the two pixels of the image; the head is the identity, so they are the logits too."""

    layers = ("features",)

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale, dtype=torch.float64))
        self.head = nn.Linear(2, 2, dtype=torch.float64)
        self.head.load_state_dict({"weight": torch.eye(2), "bias": torch.zeros(2)})

    def represent(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.scale * x.flatten(1)}


def batch(*samples: tuple[float, float, int]) -> Batch:
    """Images of two pixels with their labels, in double precision."""
    x = torch.tensor([sample[:2] for sample in samples], dtype=torch.float64)
    return Batch(x.reshape(-1, 1, 1, 2), torch.tensor([label for _, _, label in samples]))
