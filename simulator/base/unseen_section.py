"""The section `unseen`: when unseen clients are measured, and how long they train before."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from simulator.base.sections import Section
from simulator.base.training_section import Epochs, refuse_two_lengths


class UnseenConfig(Section):
    """When unseen clients are measured, and how long they train before: see `federation.unseen`."""

    every: int | None = Field(None, ge=1)
    """Number of rounds between measurements of unseen clients. Default: only after the last round."""
    epochs: Epochs | None = Field(None, gt=0)
    """Epochs in which an unseen client adapts. Phases that set their own number keep it. Default: training.epochs
    or training.steps."""
    steps: int | None = Field(None, ge=1)
    """Training steps in which an unseen client adapts, in place of epochs."""

    @model_validator(mode="before")
    @classmethod
    def _one_length(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            refuse_two_lengths(given)
        return given
