"""The form of a data set's samples: images, tokens, signals, or rows of a table.

Code that depends on the form of samples uses a spec. Data sets have one, models are built for one, and all other code
stays the same. A new kind needs a class here, its batches in `inputs.py`, and models that accept the kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

Kind = Literal["image", "tokens", "signal", "table"]


@dataclass(frozen=True)
class InputSpec(ABC):
    """The form of one sample as a model receives it."""

    kind: ClassVar[Kind]
    noun: ClassVar[str]
    """A description of the samples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample. A batch has one more dimension in front."""
        return tuple(getattr(self, each.name) for each in fields(self))

    @abstractmethod
    def arguments(self) -> Mapping[str, Any]:
        """Arguments that a user's model may have, by name, with their values."""

    def to_json(self) -> dict[str, Any]:
        """The kind and all sizes, as plain JSON values."""
        return {"kind": self.kind} | {each.name: getattr(self, each.name) for each in fields(self)}

    def __str__(self) -> str:
        return "×".join(map(str, self.shape))


@dataclass(frozen=True)
class ImageSpec(InputSpec):
    """Images: float32 [batch, channels, height, width], normalized by channel, channels last in memory."""

    kind = "image"
    noun = "images"
    channels: int
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.channels, self.height, self.width  # `ImageShape` has further fields

    def arguments(self) -> Mapping[str, Any]:
        return {"in_channels": self.channels, "image_size": (self.height, self.width)}


@dataclass(frozen=True)
class TokenSpec(InputSpec):
    """Token sequences: int64 [batch, length], each token from 0 to vocabulary − 1. Short ones end in `padding`."""

    kind = "tokens"
    noun = "tokens"
    length: int
    vocabulary: int
    padding: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    def arguments(self) -> Mapping[str, Any]:
        return {"length": self.length, "vocabulary": self.vocabulary, "padding": self.padding}

    def __str__(self) -> str:
        return f"length {self.length}, vocabulary {self.vocabulary}"


@dataclass(frozen=True)
class SignalSpec(InputSpec):
    """Signals such as those of sensors: float32 [batch, channels, time], normalized by channel."""

    kind = "signal"
    noun = "signals"
    channels: int
    time: int

    def arguments(self) -> Mapping[str, Any]:
        return {"in_channels": self.channels, "time": self.time}


@dataclass(frozen=True)
class TableSpec(InputSpec):
    """Rows of a table: float32 [batch, features], normalized by feature."""

    kind = "table"
    noun = "table rows"
    features: int

    def arguments(self) -> Mapping[str, Any]:
        return {"in_features": self.features}

    def __str__(self) -> str:
        return f"{self.features} features"


SPECS: dict[str, type[InputSpec]] = {
    spec.kind: spec for spec in (ImageSpec, TokenSpec, SignalSpec, TableSpec)
}
ARGUMENTS = {
    kind: tuple(spec(**{each.name: 1 for each in fields(spec)}).arguments()) for kind, spec in SPECS.items()
}
"""The names of each kind's `arguments`."""
