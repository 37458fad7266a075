"""A dialog for the resume of a session that no process runs."""

from dataclasses import dataclass

from simulator.results.analysis import remaining
from simulator.results.analysis.run import SessionData
from tui.app.dialogs.form import Field, Form, form_hint, number
from tui.common.formatting import duration


@dataclass(frozen=True)
class ResumeWish:
    """The total number of rounds, None for no change; and whether other bits are accepted."""

    rounds: int | None
    allow_inexact: bool


class ResumeDialog(Form[ResumeWish]):
    """Returns a ResumeWish."""

    hint = form_hint("resume")

    def __init__(self, run: SessionData) -> None:
        self._run = run
        over = run.round >= run.rounds
        super().__init__(
            f"Resume {run.name} from round {run.round}",
            [
                Field("rounds", "total rounds", str(run.rounds + 10 if over else run.rounds), whole=True),
                Field(
                    "inexact",
                    "numeric differences",
                    "no",
                    known=lambda: [
                        ("no", "resume only if the result stays bit-identical"),
                        (
                            "yes",
                            "accept small numeric differences from another torch, device, or thread setting",
                        ),
                    ],
                ),
            ],
        )

    def remark(self, values: dict[str, str]) -> str:
        """The rounds to be computed, and about how long they take."""
        repeated, _ = remaining.rounds_again(self._run, self._run.round)
        first = self._run.round - repeated + 1
        last = int(values["rounds"]) if values["rounds"].isdecimal() else self._run.rounds
        if last <= self._run.round:
            return ""
        took = remaining.seconds_left(self._run.curves, last - first + 1)
        text = f"Computes rounds {first} to {last}" + (f", about {duration(took)}." if took else ".")
        return text + (
            f" Rounds {first} to {self._run.round} have no checkpoint and are computed again."
            if repeated
            else ""
        )

    def accept(self, values: dict[str, str]) -> ResumeWish:
        from htfl_sim.errors import ConfigError

        rounds = number(values, "rounds")
        if rounds is not None and rounds <= self._run.round:
            raise ConfigError(f"Round {self._run.round} is done. Enter more total rounds.")
        if values["inexact"] not in ("yes", "no"):
            raise ConfigError("numeric differences: enter yes or no.")
        return ResumeWish(None if rounds == self._run.rounds else rounds, values["inexact"] == "yes")
