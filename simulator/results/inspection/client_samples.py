"""What passes from one process to another to be looked at: samples of a client, and the plane. Needs no torch."""

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec
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
    # Unlike msgspec's, it spells names that are no UTF-8, such as those of folders, and NaN.
    return json.dumps([asdict(each) for each in samples]).encode()


def from_bytes(content: bytes) -> tuple[ClientSamples, ...]:
    """What `to_bytes` gave."""
    return msgspec.convert(json.loads(content), tuple[ClientSamples, ...])


@dataclass(frozen=True, eq=False)
class Embedding:
    """n samples after a round: points [n, K], their labels [n] and clients [n]; anchors [m, K] of the classes
    `anchor_labels` [m], and what one of them is called ("" where there are none).

    Points are features, or logits if the anchors are, as FedL2G-l's guiding vectors, which the paper calls "feature
    vectors with lower dimensions". In the plane K is 2, and they have no unit.
    """

    round: int
    points: NDArray[np.floating]
    labels: NDArray[np.int64]
    clients: NDArray[np.int64]
    classes: tuple[str, ...]
    anchors: NDArray[np.floating]
    anchor_labels: NDArray[np.int64]
    anchor_kind: str

    def in_the_plane(self, seed: int = 0) -> "Embedding":
        """t-SNE (van der Maaten & Hinton, 2008) of points and anchors together.

        It starts at the first two principal components, and draws from `seed` alone; perplexity 30, less where there
        are too few points.
        """
        from sklearn.manifold import TSNE

        points = np.concatenate([self.points, self.anchors])
        perplexity = min(30.0, (len(points) - 1) / 3)
        found = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(points)
        return replace(self, points=found[: len(self.points)], anchors=found[len(self.points) :])

    def to_bytes(self) -> bytes:
        """As numpy's archive of arrays."""
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{name: np.asarray(each) for name, each in vars(self).items()})
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Embedding":
        """What `to_bytes` gave. Raises ValueError or OSError for anything else."""
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            known: dict[str, Any] = {name: found[name] for name in found.files}
        of_text = {"classes": tuple(known["classes"].tolist()), "anchor_kind": str(known["anchor_kind"])}
        return cls(**known | of_text | {"round": int(known["round"])})
