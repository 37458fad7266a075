"""Dialogs that let a session go on: as a fork, as a shadow run beside it, and as itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from htfl_sim.details import changeable_sections
from htfl_sim.folders import checked_name, free_name, plain_name
from simulator.results.analysis.costs import rounds_again, seconds_left
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.partners import Pair
from simulator.results.analysis.run import SessionData
from simulator.sessions.history import entries_to, next_change, settings_in_force
from tui.app.dialogs.form import Field, Form, Known, assignments, form_hint, number, setting_names
from tui.common.formatting import duration

THEN: tuple[Known, ...] = (
    ("show", "show the fork when it is ready"),
    ("run", "show the fork and run it here"),
    ("stay", "find it in Sessions (s)"),
)
"""What to do after the fork is made."""


@dataclass(frozen=True)
class ForkWish:
    """The arguments of `simulator.fork` for a new session in `folder`, and what to do then."""

    folder: Path
    round: int
    method: str | None
    settings: tuple[str, ...]
    then: str
    """One of THEN."""


class ForkDialog(Form[ForkWish]):
    """Returns a ForkWish. Empty lines keep the parent's values."""

    hint = form_hint("fork")

    def __init__(self, run: SessionData, round: int, sessions: Path, methods: Sequence[Known]) -> None:
        self._run, self._round, self._sessions = run, round, sessions
        before = settings_in_force(run.document, entries_to(run.history, round))
        self._method = before["method"]["name"]
        super().__init__(
            f"Fork {run.name} after round {round} of {run.round}",
            [
                Field("name", "name", free_name(sessions, plain_name([run.name, f"at{round}"]))),
                Field(
                    "method",
                    "method",
                    placeholder=f"unchanged: {self._method}",
                    known=lambda: methods,
                    only=True,
                ),
                Field("seed", "seed", placeholder="unchanged: the same random draws", whole=True),
                Field("rounds", "total rounds", placeholder=f"unchanged: {before['rounds']}", whole=True),
                Field(
                    "set",
                    "settings",
                    placeholder="key=value …, such as training.lr=0.005",
                    known=self._settings,
                    words=True,
                ),
                Field("then", "then", "show", known=lambda: THEN, only=True),
            ],
        )

    def _settings(self) -> Sequence[Known]:
        return setting_names((*changeable_sections(), "seed"), self.values["method"] or self._method)

    def remark(self, values: dict[str, str]) -> str:
        """What will be computed for it, and its result if nothing changes."""
        rounds, took = rounds_again(self._run, self._round)
        count = "1 round" if rounds == 1 else f"{rounds} rounds"
        said = [f"{count} must be computed again, about {duration(took)}."] if rounds else []
        if not any(values[name] for name in ("method", "seed", "rounds", "set")):
            changed = next_change(self._run.history, self._run.events, self._round)
            until = f"continues with {self._method}, which its parent used until round {changed}."
            ends = "repeats its parent bit for bit." if changed is None else until
            said.append(f"Without changes, the fork {ends}")
        return " ".join(said)

    def accept(self, values: dict[str, str]) -> ForkWish:
        from htfl_sim.catalog import method
        from htfl_sim.errors import ConfigError

        folder = self._sessions / checked_name(values["name"])
        if folder.exists():
            raise ConfigError(f"{folder.name} exists. Choose another name.")
        if values["method"]:
            method(values["method"])  # raises for an unknown one
        if values["then"] not in dict(THEN):
            raise ConfigError(f"then: one of {', '.join(dict(THEN))}.")
        seed, rounds = number(values, "seed", 0), number(values, "rounds")
        if rounds is not None and rounds <= self._round:
            raise ConfigError(f"The fork starts after round {self._round}. Enter more total rounds.")
        quick = [f"{key}={value}" for key, value in (("seed", seed), ("rounds", rounds)) if value is not None]
        settings = (*quick, *assignments(values["set"]))
        return ForkWish(folder, self._round, values["method"] or None, settings, values["then"])


BESIDE = "beside"
"""What to do after the fork is made: run it in its own process, and compare its parent with it."""


class ShadowDialog(Form[ForkWish]):
    """Returns a ForkWish. methods: those that the models can run."""

    hint = form_hint("start")

    def __init__(
        self, run: SessionData, round: int, sessions: Path, methods: Sequence[Known], pair: Pair | None
    ) -> None:
        self._run, self._sessions, self._pair = run, sessions, pair
        begins = round if round < run.rounds else 0
        self._methods = [(name, about) for name, about in methods if name != self._method_after(begins)]
        names = [name for name, _ in self._methods]
        first = BASELINE if BASELINE in names else ""
        super().__init__(
            f"Run another method beside {run.name}",
            [
                Field("method", "method", first, known=lambda: self._methods, only=True),
                Field("round", "after round", str(begins), placeholder="0: from the beginning", whole=True),
            ],
        )

    def _method_after(self, round: int) -> str:
        before = settings_in_force(self._run.document, entries_to(self._run.history, round))
        return str(before["method"]["name"])

    def remark(self, values: dict[str, str]) -> str:
        """What is computed, how long that takes, and whether it is needed."""
        run, text = self._run, values["round"]
        said = ["A fork continues after this round with the method, on the same data and weights."]
        if self._pair is not None:
            said = [f"{run.name} is already compared with {self._pair.partner.name} (B). {said[0]}"]
        if text.isdigit() and int(text) <= run.round:
            rounds, took = rounds_again(run, int(text))
            left = run.rounds - int(text)
            if rounds:
                again = "1 round is" if rounds == 1 else f"{rounds} rounds are"
                said.append(f"First, {again} computed again, about {duration(took)}.")
            if (seconds := seconds_left(run.curves, left)) is not None:
                runs = (
                    "1 round runs in a process of its"
                    if left == 1
                    else f"{left} rounds run in a process of their"
                )
                said.append(f"Then {runs} own, about {duration(seconds)}.")
        said.append("Both runs share the processors of this machine.")
        return " ".join(said)

    def accept(self, values: dict[str, str]) -> ForkWish:
        from htfl_sim.catalog import method
        from htfl_sim.errors import ConfigError

        run, name = self._run, values["method"]
        round = number(values, "round", 0)
        if round is None or round > run.round:
            raise ConfigError(f"after round: {run.name} has rounds 0 to {run.round}. Enter one of them.")
        if round >= run.rounds:
            raise ConfigError(f"after round: no round is left after {round}. Enter an earlier one.")
        method(name)  # raises for an unknown one
        if name == self._method_after(round):
            raise ConfigError(f"method: {run.name} continues with {name} itself. Choose another method.")
        folder = self._sessions / free_name(self._sessions, plain_name([run.name, "shadow", name]))
        return ForkWish(folder, round, name, (), BESIDE)


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
        repeated, _ = rounds_again(self._run, self._run.round)
        first = self._run.round - repeated + 1
        last = int(values["rounds"]) if values["rounds"].isdecimal() else self._run.rounds
        if last <= self._run.round:
            return ""
        took = seconds_left(self._run.curves, last - first + 1)
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
