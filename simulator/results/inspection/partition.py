"""Who holds what, counted from the data: the samples of every class of each client, and samples to look at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
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
    Numbers,
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


def samples_of_session(
    folder: Path, data_dir: Path, clients: Sequence[int] | None = None
) -> tuple[ClientSamples, ...]:
    """Samples of clients (None: of all) before round 1; raises like `data_of_session`, and ConfigError."""
    data = data_of_session(folder, data_dir)
    for client in clients or ():
        if not 0 <= client < len(data.clients):
            raise ConfigError(
                f"{folder} has no client {client}. Its clients are 0 to {len(data.clients) - 1}."
            )
    return samples_of_data(data, range(len(data.clients)) if clients is None else clients)


def samples_of_data(data: FederatedData, clients: Sequence[int]) -> tuple[ClientSamples, ...]:
    """Samples of these clients. The data are on the CPU."""
    means = _means(data) if data.spec.kind == "table" else None
    found = []
    for client in clients:
        held = data.clients[client]
        labels = data.labels_of(held.train)
        classes = [
            _sample(data, label, count, int(held.train[(labels == label).nonzero()[0, 0]]))
            for label, count in zip(held.classes, held.class_counts, strict=True)
        ]
        found.append(
            ClientSamples(
                client,
                data.spec.kind,
                tuple(sorted(classes, key=lambda each: -each.count)),
                _named(data, data.spec.shape[0]) if data.spec.kind == "signal" else (),
                () if means is None else _features(data, client, *means),
            )
        )
    return tuple(found)


def _sample(data: FederatedData, label: int, count: int, index: int) -> ClassSample:
    place = int(data.places(torch.tensor(index)))
    text, values = "", Numbers()
    match data.inputs:
        case ImageInputs(images=images):
            values = _pooled(images[place].float().mean(2)[None] / 255)
        case TokenInputs(tokens=tokens, spec=spec):
            row = tokens[place].tolist()
            while row and row[-1] == spec.padding:
                row.pop()
            text = as_text(row, data.names)
        case NumberInputs(numbers=numbers) if numbers.dim() == 3:
            signal = numbers[place]
            values = _rows(F.adaptive_avg_pool1d(signal, min(STEPS, signal.shape[1])))
    return ClassSample(label, data.classes[label], count, text, values)


def _pooled(image: Tensor) -> Numbers:
    """An image [1, h, w] with at most `SIDE` rows and columns of the same share."""
    height, width = image.shape[1:]
    share = min(SIDE / max(height, width), 1.0)
    sides = max(round(height * share), 1), max(round(width * share), 1)
    return _rows(F.adaptive_avg_pool2d(image, sides)[0])


def _rows(values: Tensor) -> Numbers:
    return tuple(tuple(round(each, 4) for each in row) for row in values.tolist())


def _named(data: FederatedData, count: int) -> tuple[str, ...]:
    return data.names or tuple(str(number) for number in range(count))


def _table(data: FederatedData) -> np.ndarray:
    assert isinstance(data.inputs, NumberInputs)
    return data.inputs.numbers.numpy()


def _means(data: FederatedData) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature over the training samples of all clients."""
    every = np.unique(np.concatenate([_places(data, client) for client in range(len(data.clients))]))
    held = _table(data)[every].astype(np.float64)
    return held.mean(0), held.std(0)


def _places(data: FederatedData, client: int) -> np.ndarray:
    places: np.ndarray = data.places(data.clients[client].train).numpy()
    return places


def _features(
    data: FederatedData, client: int, overall: np.ndarray, deviation: np.ndarray
) -> tuple[FeatureMean, ...]:
    own = _places(data, client)
    if not len(own):
        return ()
    mean = _table(data)[own].astype(np.float64).mean(0)
    difference = np.divide(mean - overall, deviation, out=np.zeros_like(mean), where=deviation > 0)
    names = _named(data, len(mean))
    order = np.argsort(-np.abs(difference), kind="stable")
    return tuple(
        FeatureMean(names[each], float(mean[each]), float(overall[each]), float(difference[each]))
        for each in order.tolist()
    )
