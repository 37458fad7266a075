"""Load a federation's data from its source: read, divide, and move to the device."""

from dataclasses import replace

import torch

from simulator.data import datasets
from simulator.data.federated import FederatedData, Source
from simulator.data.public import of_data_set
from simulator.data.report import report_of
from simulator.data.samples import LabeledSet


def load(source: Source, device: torch.device) -> FederatedData:
    """Load the data, which are the same every time, as their fingerprint shows.

    Raises ConfigError or DataError if they are missing or cannot be divided as configured.
    """
    config = source.config

    def formed(found: LabeledSet) -> LabeledSet:
        # Older sessions took the form of samples from the files, before a pool or a limit.
        return found.learned(None)(found) if config.statistics == "all" else found

    samples, public = datasets.read(config, config.dataset, source.folder), config.public
    shown = None
    if isinstance(public, str):
        shown = of_data_set(formed(datasets.read(config, public, source.folder)), config, source.seed)
    data = FederatedData.build(
        config, source.clients, source.seed, formed(samples), device, source.changes, shown, source.measured
    )
    return replace(data, source=source, report=report_of(samples, data.reading))
