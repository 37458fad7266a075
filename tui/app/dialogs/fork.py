"""What a fork is to be: its name, and what is to differ from its parent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.analysis.run import Run
from tui.app.dialogs.form import Field, Form, Known, assignments, number
from tui.common.folders import checked_name, free_name


@dataclass(frozen=True)
class ForkWish:
    """The arguments of `simulator.fork`, for a new session in `folder`."""

    folder: Path
    round: int
    method: str | None
    settings: tuple[str, ...]


class ForkDialog(Form[ForkWish]):
    """Gives back a ForkWish; empty lines mean: as the parent."""

    def __init__(self, run: Run, round: int, sessions: Path, methods: Sequence[Known]) -> None:
        self._run, self._round, self._sessions = run, round, sessions
        kept = " (its checkpoint is kept)" if round in run.checkpoints else ""
        super().__init__(
            f"Fork {run.name} after round {round} of {run.round}{kept}",
            [
                Field("name", "name", free_name(sessions, f"{run.name}-at{round}")),
                Field("method", "method", placeholder=f"as before: {run.method}", known=lambda: methods),
                Field("seed", "seed", placeholder="as before: then nothing differs by chance"),
                Field("rounds", "rounds in all", placeholder=f"as before: {run.rounds}"),
                Field("set", "settings", placeholder="key=value …, such as training.lr=0.005"),
            ],
        )

    def remark(self, values: dict[str, str]) -> str:
        if not any(values[name] for name in ("method", "seed", "rounds", "set")):
            return "With nothing changed it will end as its parent, bit for bit."
        return ""

    def accept(self, values: dict[str, str]) -> ForkWish:
        from simulator import methods
        from simulator.errors import ConfigError

        folder = self._sessions / checked_name(values["name"])
        if folder.exists():
            raise ConfigError(f"{folder.name} exists already; choose another name.")
        if values["method"]:
            methods.get(values["method"])
        seed, rounds = number(values, "seed", 0), number(values, "rounds")
        if rounds is not None and rounds <= self._round:
            raise ConfigError(f"round {self._round} would be the fork's last; ask for more.")
        quick = [f"{key}={value}" for key, value in (("seed", seed), ("rounds", rounds)) if value is not None]
        return ForkWish(folder, self._round, values["method"] or None, (*quick, *assignments(values["set"])))
