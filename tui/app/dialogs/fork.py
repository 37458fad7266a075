"""A dialog for a fork: its name, and its differences from its parent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from htfl_sim.details import changeable_sections
from htfl_sim.folders import checked_name, free_name, plain_name
from simulator.results.analysis import remaining
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
        rounds, took = remaining.rounds_again(self._run, self._round)
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
