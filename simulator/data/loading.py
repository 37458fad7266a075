"""Load a federation's data from its source: read, divide, and move to the device."""

from dataclasses import replace

import torch

from simulator.data import datasets
from simulator.data.federated import FederatedData, Source
from simulator.data.public import of_data_set
from simulator.data.report import report_of
from simulator.data.samples import LabeledSet
from simulator.data.tables import Columns


def load(source: Source, device: torch.device) -> FederatedData:
    """Load the data, which are the same every time, as their fingerprint shows.

    Raises ConfigError or DataError if they are missing or cannot be divided as configured.
    """
    config = source.config

    def read(dataset: str) -> LabeledSet:
        return datasets.load(dataset, source.folder, columns=Columns.of(config))

    def ready(found: LabeledSet) -> LabeledSet:
        # Older sessions took the form of samples from the files, before a pool or a limit.
        return found.learned(None)(found) if config.statistics == "all" else found

    samples, public = read(config.dataset), config.public
    shown = of_data_set(ready(read(public)), config, source.seed) if isinstance(public, str) else None
    data = FederatedData.build(
        config, source.clients, source.seed, ready(samples), device, source.changes, shown, source.measured
    )
    return replace(data, source=source, report=report_of(samples))
