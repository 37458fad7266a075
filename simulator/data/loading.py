"""Load a federation's data from its source: read, divide, and move to the device."""

from dataclasses import replace

import torch

from simulator.data import datasets
from simulator.data.federated import FederatedData, Source
from simulator.data.public import of_data_set
from simulator.data.tables import Columns


def load(source: Source, device: torch.device) -> FederatedData:
    """Load the data, which are the same every time, as their fingerprint shows.

    Raises ConfigError or DataError if they are missing or cannot be divided as configured.
    """
    config = source.config
    samples = datasets.load(config.dataset, source.folder, columns=Columns.of(config))
    shown = None
    if isinstance(config.public, str):
        held = datasets.load(config.public, source.folder, columns=Columns.of(config))
        shown = of_data_set(held, config, source.seed)
    data = FederatedData.build(config, source.clients, source.seed, samples, device, source.changes, shown)
    return replace(data, source=source)
