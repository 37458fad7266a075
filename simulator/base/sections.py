"""The sections of a configuration: frozen, complete, and strict about keys and values.

They stand on the ground, so that data, training and methods can name theirs; `config` puts them together.
"""

import ast
import functools
import inspect
import textwrap
from contextlib import suppress
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from simulator.base.space import Space

MANY = 1000
"""Above this many clients, work that grows with their number needs a setting to cover all clients."""
SAMPLED = 100
"""The maximum number of compared clients: a matrix of 100 clients has 10,000 numbers per layer."""
CLASS_CELLS = 2_000
"""The most clients × classes whose counts a record has by default: 27 KB for each part."""
PARTS = ("test", "eval")
"""The parts of a client's data on which accuracy, loss, F1, and the user's own metrics are measured."""


class Section(BaseModel):
    """A frozen part of the configuration in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """What each key means: the `description` of its field, or the text under it."""
        texts = texts_of(cls)
        return {key: each.description or texts.get(key, "") for key, each in cls.model_fields.items()}


@functools.cache
def texts_of(kind: type) -> dict[str, str]:
    """The text under each key of a class and its bases, read from the source when somebody asks; each in one line."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        with suppress(OSError, TypeError):  # built in, or from a notebook's cell
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]
            for key, text in pairwise(body):
                match key, text:
                    case ast.AnnAssign(target=ast.Name(id)), ast.Expr(value=ast.Constant(value=str(said))):
                        found[id] = " ".join(said.split())
    return found


class SeedsConfig(Section):
    """The seeds of a run's three parts. Each is `seed` by default."""

    data: int | None = Field(None, ge=0, lt=2**63)
    """Random seed of the partition and of the split into train, eval, and test. Default: seed."""
    init: int | None = Field(None, ge=0, lt=2**63)
    """Random seed of the initial weights of clients and server. Default: seed."""
    training: int | None = Field(None, ge=0, lt=2**63)
    """Random seed of all other draws, such as participants, batches, augmentation, and the wire. Default: seed."""


class ModelsConfig(Section):
    """How models are built, where an architecture leaves a choice."""

    stem: Literal["imagenet", "cifar"] | None = None
    """First layers of ResNets and similar models: 7×7/2 with pooling (imagenet), or 3×3 (cifar). Default: 3×3 up to
    64 pixels."""
    features: int | None = Field(None, ge=1)
    """Width K to which the features of every model are pooled, before a new head. Default: each model has its own."""


class EvaluationConfig(Section):
    """Who is evaluated at the end of a round, and with which model."""

    clients: Literal["all", "participants"] | Annotated[int, Field(ge=1)] = "all"
    """Clients to evaluate: all, the round's participants, or this many drawn each round."""
    model: Literal["local", "aggregated"] | None = None
    """Model to evaluate: after local training, or the one that the client would receive next. Default: the method's
    choice."""
    parts: tuple[Literal["test", "eval"], ...] | None = None
    """Parts of the split to record accuracy, loss, and F1 for. Default: all that the split has."""
    initial: Literal["all", "skip"] | None = Field(
        None,
        description="Evaluate clients that have never taken part once, or skip them and record null. Default: "
        f"all, for up to {MANY:,} clients.",
    )
    metrics_for: Literal["all", "changed"] | None = Field(
        None,
        description="Clients whose metrics each ledger record holds: all, or only those that changed in "
        f"the round. Default: all, for up to {MANY:,} clients.",
    )
    classes: bool | None = Field(
        None,
        description="Record each client's samples and correct answers by class. Default: yes, for up to "
        f"{CLASS_CELLS:,} clients × classes.",
    )
    metrics: tuple[str, ...] = ()
    """Metrics beside accuracy, loss, and F1: balanced_accuracy, auroc, auprc, or your own files (docs/your-own.md)."""
    batch_size: int = Field(1024, ge=1)
    """Number of samples in an evaluation step."""

    @model_validator(mode="after")
    def _metrics_are_of_some_part(self) -> "EvaluationConfig":
        if self.metrics and self.parts == ():
            raise ValueError(
                "metrics are of the parts that are recorded; name some, or leave the metrics out"
            )
        if self.classes and self.parts == ():
            raise ValueError(
                "classes are counted on the parts that are recorded; name some in evaluation.parts, or set "
                "evaluation.classes=false"
            )
        if len(set(self.metrics)) < len(self.metrics):
            raise ValueError(f"metrics {list(self.metrics)} names one twice")
        return self

    @field_validator("parts")
    @classmethod
    def _parts_are_different(cls, parts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if parts and len(set(parts)) < len(parts):
            raise ValueError(f"{list(parts)} names a part twice")
        return parts


class WireConfig(Section):
    """What can happen to an uplink on its way; nothing unless said. Each draw has its own keyed stream."""

    noise: float = Field(0.0, ge=0)
    """Standard deviation of Gaussian noise on an update, relative to the update's own (InCo Fig. 7)."""
    drop: float = Field(0.0, ge=0, lt=1)
    """Probability that a participant's uplink is lost."""


class RuntimeConfig(Section):
    """Where and how wide the run computes.

    The numbers of workers, `cache`, `address` and `gpus_per_point` never change a result; the others may.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to compute on. auto: a GPU if there is one."""
    workers: int | None = Field(None, ge=1)
    """Number of clients trained at a time. Default: the machine's cores."""
    threads_per_client: int = Field(1, ge=1)
    """Number of torch threads per worker."""
    runner: str = "parallel"
    """Runner that computes clients: parallel, sequential, stacked (clients of one architecture together), or ray."""
    address: str = "local"
    """Ray cluster: local starts one on this machine. auto or ray://HOST:PORT connects to a running one."""
    inner: str = "sequential"
    """Runner inside each Ray actor: sequential, parallel, or stacked."""
    workers_per_actor: int = Field(2, ge=1)
    """Number of clients that a Ray actor computes at a time, for runtime.inner 'parallel'."""
    gpus_per_point: float = Field(1.0, gt=0, le=1)
    """Share of a GPU for each point of a study on Ray. 0.25 puts four points on each GPU."""
    stack: int = Field(16, ge=1)
    """Largest number of clients trained together, for runner 'stacked'. Another number changes last digits."""
    cache: int = Field(512 * 2**20, ge=0)
    """Bytes of client states to keep in memory. Other states are read or drawn when needed."""


class CheckpointConfig(Section):
    """How often the state is written and how much of the past is kept."""

    every: int = Field(1, ge=1)
    """Number of rounds between checkpoints."""
    keep_last: int = Field(3, ge=1)
    """Number of newest checkpoints to keep."""
    keep_every: int | None = Field(None, ge=1)
    """Also keep every Nth round."""
    keep_best: bool = True
    """Also keep the round with the best mean accuracy."""


class CkaConfig(Section):
    """How alike clients' models are, layer by layer: linear CKA between all pairs, on one keyed probe batch."""

    every: int | None = Field(None, ge=0)
    """Number of rounds between CKA measurements. 0: only when you ask. Default: after round 1, and then every tenth
    round, or more rarely where that would take more than 2 % of training."""
    probe: int = Field(256, ge=4)
    """Number of samples in the probe batch."""
    layers: Literal["all"] | tuple[str, ...] = "all"
    """Layers to compare: all, or a list of names such as 'stage3'."""
    debiased: bool = False
    """Use the unbiased estimate of HSIC, for small probe batches."""
    model: Literal["local", "aggregated"] | None = None
    """Model whose layers are compared, local or aggregated. Default: the one that is evaluated."""
    untrained: bool = False
    """Include clients that have never taken part, with their initial models."""
    clients: int = Field(SAMPLED, ge=2)
    """Largest number of clients to compare. Larger federations draw this many once for the run."""


class MethodConfig(Section):
    """Base class of the methods' own sections. Each method adds its paper's symbols."""

    space: ClassVar[Space] = {}
    """The hyper-parameters that `htfl-sim tune` searches, with their ranges."""

    name: str
    """Name of the method, from `htfl-sim methods`."""

    def begun(self, rounds: int) -> Self:
        """The section with the values that are fixed when the method begins, for this many rounds.

        An extension keeps them.
        """
        return self
