"""Who holds what, counted from the data: the samples of every class of each client, and samples to look at."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from simulator.base.errors import ConfigError
from simulator.base.nested import Raw, merged, with_method
from simulator.config import Config
from simulator.data.federated import FederatedData, load
from simulator.data.inputs import ImageInputs, NumberInputs, TokenInputs
from simulator.results.inspection.client_samples import (
    SIDE,
    STEPS,
    ClassSample,
    ClientSamples,
    FeatureMean,
    as_text,
)
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
    """counts: of each part ('train', 'eval', 'test') the samples [clients][classes]."""

    classes: tuple[str, ...]
    counts: Mapping[str, list[list[int]]]

    @classmethod
    def of(cls, data: FederatedData) -> "Partition":
        def counted(part: str) -> list[list[int]]:
            labels = (data.labels_of(client.part(part)) for client in data.clients)
            return [torch.bincount(each, minlength=data.num_classes).tolist() for each in labels]

        counts = {part: counted(part) for part in ("train", "eval", "test")}
        return cls(data.classes, counts)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for every client and class, also where the client has none of it: COLUMNS."""
        for client, held in enumerate(zip(*self.counts.values(), strict=True)):
            for label, numbers in enumerate(zip(self.classes, *held, strict=True)):
                yield dict(zip(COLUMNS, (client, label, *numbers), strict=True))


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
    data = load(config.source(data_dir), torch.device("cpu"))
    check_data(session, config, data)
    return data


def of_config(config: Config, data_dir: Path) -> Partition:
    """The partition that a run with this configuration would have. Raises ConfigError or DataError."""
    return Partition.of(load(config.source(data_dir), torch.device("cpu")))


def samples_of_session(
    folder: Path, data_dir: Path, clients: Sequence[int] | None = None
) -> tuple[ClientSamples, ...]:
    """Samples of clients (None: of all) before round 1; raises like `data_of_session`, and ConfigError."""
    data = data_of_session(folder, data_dir)
    check_clients(folder, clients or (), len(data.clients))
    return samples_of_data(data, range(len(data.clients)) if clients is None else clients)


def check_clients(folder: Path, clients: Iterable[int], number: int) -> None:
    """Raise ConfigError for a client that a session of so many does not have."""
    for client in clients:
        if not 0 <= client < number:
            raise ConfigError(f"{folder} has no client {client}; it has clients 0 to {number - 1}.")


def samples_of_data(data: FederatedData, clients: Sequence[int]) -> tuple[ClientSamples, ...]:
    """Samples of these clients. The data are on the CPU."""
    kind, found, numbers = data.spec.kind, list[ClientSamples](), np.empty(0)
    channels = _named(data, data.spec.shape[0]) if kind == "signal" else ()
    places = [data.places(client.train).numpy() for client in data.clients] if kind == "table" else []
    if places:
        assert isinstance(data.inputs, NumberInputs)
        numbers = data.inputs.numbers.numpy()
        every = numbers[np.unique(np.concatenate(places))].astype(np.float64)
        overall, deviation = every.mean(0), every.std(0)
    for client in clients:
        held, features = data.clients[client], tuple[FeatureMean, ...]()
        labels = data.labels_of(held.train)
        classes = [
            _sample(data, label, count, int(held.train[(labels == label).nonzero()[0, 0]]))
            for label, count in zip(held.classes, held.class_counts, strict=True)
        ]
        if places and len(places[client]):
            mean = numbers[places[client]].astype(np.float64).mean(0)
            apart = np.divide(mean - overall, deviation, out=np.zeros_like(mean), where=deviation > 0)
            columns = (each.tolist() for each in (mean, overall, apart))
            means = [FeatureMean(*each) for each in zip(_named(data, len(mean)), *columns, strict=True)]
            features = tuple(sorted(means, key=lambda one: -abs(one.difference)))
        ranked = tuple(sorted(classes, key=lambda each: -each.count))
        found.append(ClientSamples(client, kind, ranked, channels, features))
    return tuple(found)


def _sample(data: FederatedData, label: int, count: int, index: int) -> ClassSample:
    """The first sample of a class. Large images and long signals become means of neighbors."""
    place = int(data.places(torch.tensor(index)))
    text, values = "", torch.empty(0, 0)
    match data.inputs:
        case ImageInputs(images=images):
            image = images[place].float().mean(2)[None] / 255
            height, width = image.shape[1:]
            share = min(SIDE / max(height, width), 1.0)
            sides = max(round(height * share), 1), max(round(width * share), 1)
            values = F.adaptive_avg_pool2d(image, sides)[0]
        case TokenInputs(tokens=tokens, spec=spec):
            row = tokens[place].tolist()
            while row and row[-1] == spec.padding:
                row.pop()
            text = as_text(row, data.names)
        case NumberInputs(numbers=numbers) if numbers.dim() == 3:
            values = F.adaptive_avg_pool1d(numbers[place], min(STEPS, numbers.shape[2]))
    rounded = tuple(tuple(round(each, 4) for each in row) for row in values.tolist())
    return ClassSample(label, data.classes[label], count, text, rounded)


def _named(data: FederatedData, count: int) -> tuple[str, ...]:
    return data.names or tuple(str(number) for number in range(count))
