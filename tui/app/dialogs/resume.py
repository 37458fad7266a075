"""How a session that nobody runs is to go on."""

from dataclasses import dataclass

from simulator.analysis.run import Run
from tui.app.dialogs.form import Field, Form, number


@dataclass(frozen=True)
class ResumeWish:
    """The number of rounds in all, None for as many as it has; and whether other bits than a single run's will do."""

    rounds: int | None
    allow_inexact: bool


class ResumeDialog(Form[ResumeWish]):
    """Gives back a ResumeWish."""

    def __init__(self, run: Run) -> None:
        self._run = run
        over = run.round >= run.rounds
        super().__init__(
            f"Go on with {run.name} after round {run.round}",
            [
                Field("rounds", "rounds in all", str(run.rounds + 10 if over else run.rounds)),
                Field(
                    "inexact",
                    "allow inexact",
                    "no",
                    known=lambda: [
                        ("no", "refuse to go on where the result would not be bit-identical"),
                        ("yes", "go on with another torch, device or thread setting; it is recorded"),
                    ],
                ),
            ],
        )

    def accept(self, values: dict[str, str]) -> ResumeWish:
        from simulator.errors import ConfigError

        rounds = number(values, "rounds")
        if rounds is not None and rounds <= self._run.round:
            raise ConfigError(f"round {self._run.round} is done; ask for more rounds in all.")
        if values["inexact"] not in ("yes", "no"):
            raise ConfigError("allow inexact: yes or no.")
        return ResumeWish(None if rounds == self._run.rounds else rounds, values["inexact"] == "yes")
