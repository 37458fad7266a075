"""The section `training`: how clients train, and how long."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from simulator.base.sections import Section
from simulator.base.space import Choice, Log, Space


def _whole(epochs: float) -> int | float:
    """A whole number of epochs as an integer, so that it is written without a point."""
    return int(epochs) if epochs == int(epochs) else epochs


Epochs = Annotated[float, AfterValidator(_whole), PlainSerializer(_whole)]
"""A number of epochs, which may be a fraction."""


def refuse_two_lengths(given: Mapping[str, Any]) -> None:
    """Raise ValueError if a section has both epochs and steps."""
    if given.get("epochs") is not None and given.get("steps") is not None:
        raise ValueError(
            f"epochs = {given['epochs']} and steps = {given['steps']} are two lengths of one training; "
            "remove one of them"
        )


class TrainingConfig(Section):
    """Local training, unless a method's phase says otherwise. The optimizer starts afresh each round."""

    space: ClassVar[Space] = {
        "lr": Log(0.001, 0.3),
        "clip": Choice((None, 1.0, 10.0)),
        "momentum": Choice((0.0, 0.5, 0.9)),
        "batch_size": Choice((16, 32, 64, 128)),
        "epochs": Choice((1, 2, 5)),
    }
    """What `htfl-sim tune` searches for every method."""

    epochs: Epochs | None = Field(1, gt=0)
    """Number of local epochs E. A fraction is that share of an epoch's batches, rounded to whole steps, but at
    least one."""
    steps: int | None = Field(None, ge=1)
    """Number of local steps of a client in a round, in place of epochs."""
    batch_size: int = Field(64, ge=1)
    """Number of samples in a training step."""
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    """Optimizer. adamw decays weights separately from the gradient."""
    lr: float = Field(0.01, gt=0)
    """Learning rate η."""
    schedule: Literal["constant", "cosine", "step"] = "constant"
    """How η changes from round to round. Phases of a method that set their own rate keep it."""
    lr_min: float | None = Field(None, ge=0)
    """Rate at the last round, for schedule 'cosine'. Default: 0."""
    lr_step: int | None = Field(None, ge=1)
    """Number of rounds between two changes of the rate, for schedule 'step'."""
    lr_decay: float = Field(0.1, gt=0, lt=1)
    """Factor on the rate at each change, for schedule 'step'."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum factor, for optimizer 'sgd'."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay: this times the weights is added to the gradient, or to the step for adamw."""
    augment: tuple[Literal["flip", "crop", "resized_crop", "cutout", "erase"], ...] = ()
    """Random changes to training images, in this order."""
    clip: float | None = Field(None, gt=0)
    """Largest gradient norm of a step, over all trained parameters. Default: no clipping."""
    class_weights: Literal["balanced"] | None = None
    """Weights of classes in the training loss: balanced gives each class of a client the same weight in all
    (docs/training.md). Default: each sample counts the same."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Precision of matrix products and convolutions in training. tf32 needs CUDA (docs/training.md)."""
    on_divergence: Literal["continue", "stop"] = "continue"
    """What to do after a round in which a client diverged: continue with the others, or stop."""

    @model_validator(mode="before")
    @classmethod
    def _has_one_length(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        refuse_two_lengths(given)
        epochs = None if given.get("steps") is not None else given.get("epochs")
        return {**given, "epochs": 1 if epochs is None and given.get("steps") is None else epochs}

    @model_validator(mode="after")
    def _momentum_is_sgds(self) -> "TrainingConfig":
        if self.optimizer != "sgd" and self.momentum:
            raise ValueError("momentum belongs to optimizer 'sgd'; remove it or change the optimizer")
        return self

    @model_validator(mode="after")
    def _schedules_have_what_they_need(self) -> "TrainingConfig":
        if self.schedule == "step" and self.lr_step is None:
            raise ValueError("schedule 'step' needs lr_step, the rounds between two steps")
        for key, schedule in (("lr_min", "cosine"), ("lr_step", "step")):
            if getattr(self, key) is not None and self.schedule != schedule:
                raise ValueError(f"{key} belongs to schedule '{schedule}'; set that, or remove it")
        if self.lr_min is not None and self.lr_min > self.lr:
            raise ValueError(f"lr_min = {self.lr_min:g} is above lr = {self.lr:g}")
        return self
