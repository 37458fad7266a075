"""The section `selection`: how the participants of a round are selected."""

from pydantic import Field, model_validator

from simulator.base.sections import Section

RANDOM, AVAILABLE, UTILITY = "random", "available", "utility"
STRATEGIES = (RANDOM, AVAILABLE, UTILITY)
"""The strategies of htfl-sim. Other names are those of users' files."""
PAPERS = {UTILITY: "Oort"}
"""What strategies are called in papers."""
OF_SPEED = ("speed_penalty", "preferred")
"""The options that need seconds, and so a clock."""
_OF_UTILITY = ("exploration", "exploration_decay", "exploration_min", *OF_SPEED, "cutoff")


class SelectionConfig(Section):
    """How the participants of a round are selected. Without this section, at random."""

    strategy: str = Field(RANDOM, min_length=1)
    """Selection of participants: random, available (clients that stay available first), utility (large losses and
    fast clients first, like Oort), or a Python file of your own (docs/your-own.md)."""
    exploration: float = Field(0.9, ge=0, le=1)
    """Share of never selected clients in round 1, for strategy 'utility'."""
    exploration_decay: float = Field(0.98, gt=0, le=1)
    """Factor on that share per round, for strategy 'utility'."""
    exploration_min: float = Field(0.3, ge=0, le=1)
    """Smallest share of never selected clients, for strategy 'utility'."""
    speed_penalty: float = Field(2.0, ge=0)
    """Exponent α of the penalty (T / t)^α on clients that take t > T seconds, for strategy 'utility'."""
    preferred: float = Field(0.3, gt=0, le=1)
    """Quantile of the clients' last seconds that is the preferred duration T, for strategy 'utility'."""
    cutoff: float = Field(0.05, gt=0, le=1)
    """Clients of at least this share of the last selected client's utility take part in the draw, for strategy
    'utility'. 1: the clients of the largest utility."""

    @property
    def is_own(self) -> bool:
        """Whether a user's file selects."""
        return self.strategy not in STRATEGIES

    def changed(self) -> list[str]:
        """The options of `utility` whose values are not the defaults."""
        return [key for key in _OF_UTILITY if getattr(self, key) != type(self).model_fields[key].default]

    @model_validator(mode="after")
    def _options_belong_to_utility(self) -> "SelectionConfig":
        if self.strategy != UTILITY:
            for key in self.changed():
                raise ValueError(
                    f"{key} belongs to strategy 'utility', and this is '{self.strategy}'; remove it"
                )
        return self
