"""The section `unseen`: when unseen clients are measured, and how long they train before."""

from pydantic import Field, model_validator

from simulator.base.sections import Section


class UnseenConfig(Section):
    """When unseen clients are measured, and how long they train before: see `federation.unseen`."""

    every: int | None = Field(
        None,
        ge=1,
        description="Number of rounds between measurements of unseen clients. Default: only after the last round.",
    )
    epochs: int | None = Field(
        None,
        ge=1,
        description="Epochs in which an unseen client adapts. Phases that set their own number keep it. "
        "Default: training.epochs.",
    )
    steps: int | None = Field(
        None, ge=1, description="Training steps in which an unseen client adapts, in place of epochs."
    )

    @model_validator(mode="after")
    def _one_length(self) -> "UnseenConfig":
        if self.epochs is not None and self.steps is not None:
            raise ValueError("epochs and steps are two lengths of one training; remove one of them")
        return self
