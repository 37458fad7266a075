"""A federation's data from where they lie: read, divided, on the device."""

from dataclasses import replace

import torch

from simulator.data import datasets
from simulator.data.federated import FederatedData, Source


def load(source: Source, device: torch.device) -> FederatedData:
    """The same data every time, as their fingerprint shows. Raises ConfigError or DataError where they are not there,
    or cannot be divided as asked."""
    images = datasets.load(source.config.dataset, source.folder)
    data = FederatedData.build(source.config, source.clients, source.seed, images, device)
    return replace(data, source=source)
