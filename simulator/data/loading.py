"""Load a federation's data from its source: read, divide, and move to the device."""

from dataclasses import replace

import torch

from simulator.data import datasets
from simulator.data.federated import FederatedData, Source


def load(source: Source, device: torch.device) -> FederatedData:
    """Load the data, which are the same every time, as their fingerprint shows.

    Raises ConfigError or DataError if they are missing or cannot be divided as configured.
    """
    images = datasets.load(source.config.dataset, source.folder)
    data = FederatedData.build(source.config, source.clients, source.seed, images, device)
    return replace(data, source=source)
