"""What is trained when the speed of training is measured: a group of models, a batch size, a method."""

from typing import Any

from simulator.base.nested import merged
from simulator.config import Config

GROUPS = {"htm5": (10, 1_024), "inco_resnet": (5, 256), "htfe8": (8, 64)}
"""Clients, and training images of each; at least one batch is taken. The deeper groups compute for seconds an image."""
ON_CUDA = {"htm5": (100, 256), "inco_resnet": (40, 256), "htfe8": (40, 128)}
"""The same on a CUDA device, which several clients of an architecture at a time keep busy."""


def config(
    group: str,
    batch_size: int,
    method: str = "standalone",
    workers: int | None = None,
    images: int | None = None,
    clients: int | None = None,
    device: str = "cpu",
    **more: object,
) -> Config:
    """A run on Fashion-MNIST, IID in equal shares, one local epoch; `more` is laid over it.

    Each of so many `clients` trains on so many `images`; the group's numbers where not said.
    """
    usual = (ON_CUDA if device == "cuda" else GROUPS)[group]
    clients, images = clients or usual[0], max(images or usual[1], batch_size)
    setting: dict[str, Any] = {
        "rounds": 1_000,
        "method": {"name": method},
        "data": {
            "dataset": "fashion_mnist",
            "limit": clients * images * 5 // 4,
            "split": "8:2",
            "partition": "iid",
            "quantity": "equal",
        },
        "federation": {"clients": clients, "group": group},
        "training": {"batch_size": batch_size, "epochs": 1},
        "evaluation": {"clients": 1},
        "runtime": {"device": device, "workers": workers},
    }
    return Config.read(merged(setting, more))
