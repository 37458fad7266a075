"""How a session that nobody runs is to go on."""

from dataclasses import dataclass

from simulator.results.analysis import ahead
from simulator.results.analysis.run import Run
from tui.app.dialogs.form import Field, Form, number
from tui.common.formatting import duration


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
                Field("rounds", "rounds in all", str(run.rounds + 10 if over else run.rounds), whole=True),
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

    def remark(self, values: dict[str, str]) -> str:
        """Which rounds will be computed, and about how long that takes."""
        repeated, _ = ahead.again(self._run, self._run.round)
        first = self._run.round - repeated + 1
        last = int(values["rounds"]) if values["rounds"].isdecimal() else self._run.rounds
        if last <= self._run.round:
            return ""
        took = ahead.seconds(self._run.curves, last - first + 1)
        text = f"Computes rounds {first} to {last}" + (f", about {duration(took)}." if took else ".")
        return text + (f" No checkpoint has rounds {first} to {self._run.round}." if repeated else "")

    def accept(self, values: dict[str, str]) -> ResumeWish:
        from simulator.base.errors import ConfigError

        rounds = number(values, "rounds")
        if rounds is not None and rounds <= self._run.round:
            raise ConfigError(f"round {self._run.round} is done; ask for more rounds in all.")
        if values["inexact"] not in ("yes", "no"):
            raise ConfigError("allow inexact: yes or no.")
        return ResumeWish(None if rounds == self._run.rounds else rounds, values["inexact"] == "yes")
