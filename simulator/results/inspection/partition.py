"""Who holds what: the samples of every class that each client has, counted from the data."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from simulator.base.nested import Raw, merged, with_method
from simulator.config import Config
from simulator.data.federated import FederatedData
from simulator.data.loading import load
from simulator.sessions.history import settings_in_force
from simulator.sessions.metadata import check_data, read_config
from simulator.sessions.reader import CheckedReader

COLUMNS: dict[str, str] = {
    "client": "from 0",
    "label": "the class's number, from 0",
    "class": "its name",
    "train": "number of training samples",
    "eval": "number of samples in the eval part",
    "test": "number of test samples",
}
_ONLY_THE_DATA: Raw = {"federation": {"group": "tiny"}, "evaluation": {"metrics": []}}
"""Settings in place of those that name files of the user's. Nothing is built from them."""


@dataclass(frozen=True)
class Partition:
    """The counts of every client, class by class, each list as long as `classes`."""

    classes: tuple[str, ...]
    train: tuple[tuple[int, ...], ...]
    eval: tuple[tuple[int, ...], ...]
    test: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, data: FederatedData) -> "Partition":
        def counted(part: str) -> tuple[tuple[int, ...], ...]:
            return tuple(
                tuple(torch.bincount(data.labels_of(client.part(part)), minlength=data.num_classes).tolist())
                for client in data.clients
            )

        return cls(data.classes, counted("train"), counted("eval"), counted("test"))

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for every client and class, also where the client has none of it: COLUMNS."""
        parts = zip(self.train, self.eval, self.test, strict=True)
        for client, counts in enumerate(parts):
            for label, (name, train, eval, test) in enumerate(zip(self.classes, *counts, strict=True)):
                yield dict(zip(COLUMNS, (client, label, name, train, eval, test), strict=True))


def of_session(folder: Path, data_dir: Path) -> Partition:
    """A session's partition; raises like `data_of_session`."""
    return Partition.of(data_of_session(folder, data_dir))


def data_of_session(folder: Path, data_dir: Path) -> FederatedData:
    """The data that a session was made with, on the CPU. Needs neither its method nor its models.

    Raises SessionUnreadable, DataError, or SessionError when the data are not the same.
    """
    session = CheckedReader(folder)
    raw = merged(settings_in_force(session.document, ()), _ONLY_THE_DATA)
    config = read_config(session, with_method(raw, "standalone"))
    data = _loaded(config, data_dir)
    check_data(session, config, data)
    return data


def of_config(config: Config, data_dir: Path) -> Partition:
    """The partition that a run with this configuration would have. Raises ConfigError or DataError."""
    return Partition.of(_loaded(config, data_dir))


def _loaded(config: Config, data_dir: Path) -> FederatedData:
    return load(config.source(data_dir), torch.device("cpu"))
