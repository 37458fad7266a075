"""What passes from one process to another to be looked at: samples of a client, and the plane. Needs no torch."""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.data.specs import Kind

SIDE = 16
"""Pixels of a thumbnail's side, at most."""
STEPS = 64
"""Values of a signal, at most."""

Numbers = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ClassSample:
    """One class of a client: the number of its training samples, and the first of them.

    text: of tokens. values: the rows of an image as brightness from 0 to 1, or the channels of a signal. Neighbors are
    averaged in large images and long signals.
    """

    label: int
    name: str
    count: int
    text: str = ""
    values: Numbers = ()


@dataclass(frozen=True)
class FeatureMean:
    """A feature of a table: its mean over a client's training samples, and over those of all clients.

    difference: of the two, in standard deviations over all.
    """

    name: str
    mean: float
    overall: float
    difference: float


@dataclass(frozen=True)
class ClientSamples:
    """The training samples of a client before round 1.

    classes: those that it holds, the largest first. channels: the names of a signal's channels, or their numbers.
    features: of a table, those that differ most from all clients first.
    """

    client: int
    kind: Kind
    classes: tuple[ClassSample, ...]
    channels: tuple[str, ...] = ()
    features: tuple[FeatureMean, ...] = ()


def as_text(tokens: Iterable[int], names: Sequence[str]) -> str:
    """Tokens as a text: characters, or words with spaces between them; without names, the tokens' numbers.

    Padding has an empty name and is left out. The end of a line is ⏎.
    """
    if not names:
        return " ".join(str(token) for token in tokens)
    found = [name for token in tokens if (name := names[token])]
    between = "" if all(len(name) <= 1 for name in names) else " "
    return between.join(found).replace("\n", "⏎")


def to_bytes(samples: Sequence[ClientSamples]) -> bytes:
    """As JSON."""
    return json.dumps([asdict(each) for each in samples]).encode()


def from_bytes(content: bytes) -> tuple[ClientSamples, ...]:
    """What `to_bytes` gave."""
    return tuple(
        ClientSamples(
            each["client"],
            each["kind"],
            tuple(
                ClassSample(**{**one, "values": tuple(map(tuple, one["values"]))}) for one in each["classes"]
            ),
            tuple(each["channels"]),
            tuple(FeatureMean(**one) for one in each["features"]),
        )
        for each in json.loads(content)
    )


@dataclass(frozen=True, eq=False)
class Embedding:
    """n samples after a round: points [n, 2] without unit, their labels [n] and clients [n]; anchors [m, 2] of the
    classes `anchor_labels` [m], and what one of them is called ("" where there are none)."""

    round: int
    points: NDArray[np.float64]
    labels: NDArray[np.int64]
    clients: NDArray[np.int64]
    classes: tuple[str, ...]
    anchors: NDArray[np.float64]
    anchor_labels: NDArray[np.int64]
    anchor_kind: str

    def to_bytes(self) -> bytes:
        """As numpy's archive of arrays."""
        file = io.BytesIO()
        np.savez(
            file, allow_pickle=False, **{name: np.asarray(value) for name, value in asdict(self).items()}
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Embedding":
        """What `to_bytes` gave. Raises ValueError or OSError for anything else."""
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        own = {
            "round": int(arrays["round"]),
            "classes": tuple(arrays["classes"].tolist()),
            "anchor_kind": str(arrays["anchor_kind"]),
        }
        return cls(**(arrays | own))
