"""Options from the command line for every run that the app starts: folders, and how sessions are opened."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from htfl_sim.configuring import Choices, Files
from simulator.studies.summary import StudySummary
from tui.app.dialogs.new_run import NewRun
from tui.app.launch import Opener

if TYPE_CHECKING:
    from htfl_sim.running import Session


@dataclass(frozen=True)
class Beginning:
    """A run to start: on a thread by `open`, or in its own process with `arguments` of `htfl-sim`."""

    folder: Path
    open: Opener
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class LaunchOptions:
    """The folders and options of every run started here."""

    sessions: Path
    data: Path
    workers: int | None = None
    device: str | None = None
    name: str | None = None
    """The name of the first new session, if it was given."""
    files: Files = field(default_factory=Files)
    """The users' files from the command line."""
    apart: bool = False
    """Whether every run is a process of its own, which continues when the app ends."""

    def new(self, wish: NewRun) -> Beginning:
        """Makes the session of a new run."""

        def create() -> "Session":
            from htfl_sim.running import begin

            return begin(wish.choices.read(), wish.folder, data_dir=self.data)

        where = ("--session", wish.folder.name, "--sessions-dir", str(wish.folder.parent))
        plugins = Files(self.files.plugins).options()  # the other files are among the choices
        given = (*options_of(wish.choices), *plugins, "--data-dir", str(self.data))
        return Beginning(wish.folder, create, ("run", *given, *where))

    def again(self, folder: Path, rounds: int | None = None, allow_inexact: bool = False) -> Beginning:
        """Resumes a session, with a new total number of rounds if it is given."""

        def resume() -> "Session":
            from htfl_sim.running import extend, reopen

            if rounds is not None:
                extend(folder, rounds)
            return reopen(
                folder,
                data_dir=self.data,
                workers=self.workers,
                device=self.device,
                allow_inexact=allow_inexact,
            )

        return Beginning(
            folder, resume, ("resume", str(folder.absolute()), *self._again(rounds, allow_inexact))
        )

    def study(self, study: StudySummary) -> tuple[str, ...]:
        """The arguments of `htfl-sim` that continue a study."""
        given = {"workers": self.workers, "device": self.device, "data-dir": self.data}
        options = [
            text for option, each in given.items() if each is not None for text in (f"--{option}", str(each))
        ]
        home = str(Path(study.path).parent.absolute())
        options += self.files.options()
        return ("tune" if study.is_tuning else "sweep", study.name, "--sessions-dir", home, *options)

    def _again(self, rounds: int | None, allow_inexact: bool) -> Iterator[str]:
        given = {"rounds": rounds, "workers": self.workers, "device": self.device, "data-dir": self.data}
        for option, value in given.items():
            if value is not None:
                yield from (f"--{option}", str(value))
        if allow_inexact:
            yield "--allow-inexact"
        yield from self.files.options()


def options_of(choices: Choices) -> Iterator[str]:
    """The same as options of `htfl-sim run`."""
    one = {
        "preset": choices.preset,
        "profile": choices.profile,
        "config": choices.file,
        "dataset": choices.dataset,
        "partition": choices.partition,
        "method": choices.method,
        "rounds": choices.rounds,
        "until": choices.until,
        "until-time": choices.until_time,
        "clients": choices.clients,
        "seed": choices.seed,
        "device": choices.device,
        "workers": choices.workers,
        "runner": choices.runner,
        "selection": choices.selection,
    }
    many = {
        "set": choices.assignments,
        "model": choices.models,
        "metric": choices.metrics,
        "watch": choices.watch,
    }
    for option, value in one.items():
        if value is not None:
            yield from (f"--{option}", str(value))
    for option, values in many.items():
        for each in values:
            yield from (f"--{option}", str(each))
