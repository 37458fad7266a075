"""Arguments and options that several commands share."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import htfl_sim as hs
from tui.cli import completion

if TYPE_CHECKING:
    from htfl_sim.configuring import Choices

Completer = Callable[..., list[str]]
WHAT, SCALE, WHERE, HOW = "What to run", "Quick settings", "Where things lie", "How it runs"


def option(
    help: str,
    *names: str,
    metavar: str | None = None,
    panel: str | None = None,
    complete: Completer | None = None,
    least: float | None = None,
    parser: Callable[[str], Any] | None = None,
) -> Any:
    """An option whose default the help does not print, or prints in its text."""
    return typer.Option(
        *names,
        help=help,
        metavar=metavar,
        rich_help_panel=panel,
        autocompletion=complete,
        min=least,
        parser=parser,
        show_default=False,
    )


def flag(help: str, *names: str, panel: str | None = None) -> Any:
    """An option that is on or off."""
    return typer.Option(*names, help=help, rich_help_panel=panel)


def dry_run(help: str, panel: str | None = None) -> Any:
    """The flag with which a command downloads nothing."""
    return typer.Option("--dry-run", help=help, rich_help_panel=panel, callback=_download_nothing)


def _download_nothing(context: typer.Context, value: bool) -> bool:
    if value:
        context.with_resource(hs.catalog.without_downloads())
    return value


def argument(metavar: str, complete: Completer, help: str | None = None) -> Any:
    """A name with completion."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, autocompletion=complete)


class Device(StrEnum):
    """The devices for tensors."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


SessionArgument = Annotated[
    str, argument("SESSION", completion.sessions, "A session's name in the sessions folder, or its path.")
]
SteerableArgument = Annotated[
    str, argument("SESSION", completion.steerable, "A session's name, or a study's, or its path.")
]
SESSIONS_DIR = "Folder of the sessions. Default: $HTFL_SESSIONS, or ./sessions."
SessionsDir = Annotated[Path | None, option(SESSIONS_DIR, "--sessions-dir", metavar="DIR", panel=WHERE)]
DATA_DIR = "Folder of the data sets. Default: $HTFL_DATA, or the platform's cache folder."
DataDir = Annotated[str | None, option(DATA_DIR, "--data-dir", metavar="DIR", panel=WHERE)]

AsJson = Annotated[bool, flag("Print JSON on stdout.", "--json")]
RECORDS = "Print each round's record on stdout, one JSON line."
Records = Annotated[bool, flag(RECORDS, "--json", panel=HOW)]
PROGRESS = "Draw progress bars, or write one line per round. Default: bars in a terminal."
Progress = Annotated[bool | None, option(PROGRESS, "--progress/--no-progress", panel=HOW)]

WORKERS = "Number of clients trained at a time. Never changes a result. Default: the machine's cores."
Workers = Annotated[int | None, option(WORKERS, "--workers", least=1, metavar="N", panel=HOW)]
RUNNER = "Runner that computes clients: parallel, sequential, stacked, or ray for a cluster (docs/ray.md)."
RunnerOption = Annotated[str | None, option(RUNNER, "--runner", metavar="R", panel=HOW)]
DeviceOption = Annotated[Device | None, option("Device to compute on.", "--device", panel=HOW)]
MACHINE_SETTINGS = "Set a key of the machine, runtime.… or training.precision. May be repeated."
MachineSettings = Annotated[
    list[str] | None,
    option(MACHINE_SETTINGS, "--set", metavar="KEY=VALUE", complete=completion.assignments, panel=HOW),
]
INEXACT = (
    "Continue even if another torch, device, or thread setting changes the bits. The session records it."
)
AllowInexact = Annotated[bool, flag(INEXACT, "--allow-inexact", panel=HOW)]
PLUGINS = "Python file with methods of your own (docs/writing-a-method.md). May be repeated."
Plugins = Annotated[list[Path] | None, option(PLUGINS, "--plugin", metavar="FILE")]
ASSIGNMENTS = "Configuration key, dotted, with a TOML value. May be repeated."
Assignments = Annotated[
    list[str] | None,
    option(ASSIGNMENTS, "--set", metavar="KEY=VALUE", complete=completion.assignments),
]

PRESET = (
    "A named experiment; see `htfl-sim presets`. In a sweep {method} is replaced by the value on that axis."
)
Preset = Annotated[str | None, option(PRESET, metavar="P", complete=completion.presets, panel=WHAT)]
PROFILE = "Profile of the preset: the paper's text (paper, the default) or the authors' scripts (authors)."
Profile = Annotated[str | None, option(PROFILE, metavar="PROFILE", panel=WHAT)]
CONFIG = "Configuration file in TOML. Replaces a preset."
ConfigFile = Annotated[Path | None, option(CONFIG, metavar="FILE", panel=WHAT)]
DATASET = (
    "A data set's name (`htfl-sim datasets`), a folder of class folders, or an .npz, CSV, or Parquet file."
)
Dataset = Annotated[str | None, option(DATASET, metavar="D", complete=completion.datasets, panel=WHAT)]
PARTITION = "JSON file with every client's sample indices (docs/your-own.md)."
Partition = Annotated[Path | None, option(PARTITION, "--partition", metavar="FILE", panel=WHAT)]
METHOD = "A method; see `htfl-sim methods`."
Method = Annotated[str | None, option(METHOD, metavar="M", complete=completion.methods, panel=WHAT)]
Rounds = Annotated[int | None, option("Number of rounds.", metavar="N", panel=SCALE)]
Clients = Annotated[int | None, option("Number of clients.", metavar="N", panel=SCALE)]


def _seed(text: str) -> int:
    """One seed. Typer's own parser reads 0-2 as -2."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise typer.BadParameter(
        f"'{text}' is not a whole number from 0. `htfl-sim sweep` takes several: --over seed=0..2"
    )


Seed = Annotated[int | None, option("Random seed of the run.", metavar="S", panel=SCALE, parser=_seed)]
UNTIL = "End the run after the round in which mean test accuracy (0…1) reaches this. 0: run all rounds."
Until = Annotated[float | None, option(UNTIL, metavar="A", least=0, panel=SCALE)]
UNTIL_TIME = "End the run after the round that reaches this simulated time, such as 90s, 30m, or 2h. 0: run all rounds."
UntilTime = Annotated[str | None, option(UNTIL_TIME, metavar="T", panel=SCALE)]
SETTINGS = "Configuration key, dotted, with a TOML value. May be repeated; overrides all other options."
Settings = Annotated[
    list[str] | None,
    option(SETTINGS, "--set", metavar="KEY=VALUE", complete=completion.assignments, panel=SCALE),
]

WATCH = (
    "Watcher of the run: all, or falling, divergence, plateau, collapse, losing. With options: "
    "plateau:rounds=20,action=stop. May be repeated. Without a name: all (docs/steering.md)."
)
WATCH_FLAG = "--watch"
Watch = Annotated[
    list[str] | None,
    option(WATCH, WATCH_FLAG, metavar="[WATCHER]", complete=completion.watchers, panel=HOW),
]

MODELS = (
    "Model that replaces the preset's: a name from `htfl-sim models`, or FILE.py:NAME. Repeat it for a group."
)
Models = Annotated[
    list[str] | None, option(MODELS, "--model", metavar="M", complete=completion.models, panel=WHAT)
]
METRICS = "Python file with a metric of your own (docs/your-own.md). May be repeated."
Metrics = Annotated[list[Path] | None, option(METRICS, "--metric", metavar="FILE", panel=HOW)]
SELECTION = "Selection of participants: random, available, utility, or a Python file (docs/your-own.md)."
SELECTIONS = "Python file with a selection of your own that the session uses. May be repeated."
Selections = Annotated[list[Path] | None, option(SELECTIONS, "--selection", metavar="FILE", panel=HOW)]
TAGS = "Tag for the session; `htfl-sim sessions --tag` finds it. May be repeated."
Tags = Annotated[list[str] | None, option(TAGS, "--tag", metavar="TAG", panel=WHERE)]
MODEL_FILES = "Python file of a model that the session uses. May be repeated."
ModelFiles = Annotated[list[Path] | None, option(MODEL_FILES, "--model", metavar="FILE", panel=HOW)]


REUSE = (
    "Use finished sessions of identical runs, from the whole sessions folder. "
    "Default: only those of this study. --no-reuse computes every point."
)
Reuse = Annotated[bool | None, option(REUSE, "--reuse/--no-reuse", panel=HOW)]
Steal = Annotated[
    bool, flag("Take over from another machine that you know to be dead.", "--steal", panel=HOW)
]


@dataclass(frozen=True)
class Setup:
    """The choice of a run: a preset or a file, then the quick settings, then --set."""

    preset: Preset = None
    profile: Profile = None
    config: ConfigFile = None
    dataset: Dataset = None
    partition: Partition = None
    method: Method = None
    model: Models = None
    rounds: Rounds = None
    until: Until = None
    until_time: UntilTime = None
    clients: Clients = None
    seed: Seed = None
    assignments: Settings = None
    metric: Annotated[list[Path] | None, option(METRICS, "--metric", metavar="FILE", panel=WHAT)] = None
    selection: Annotated[str | None, option(SELECTION, "--selection", metavar="S", panel=WHAT)] = None
    plugin: Plugins = None

    def choices(self, machine: "Machine") -> "Choices":
        """The choices in the form from which a configuration is made."""
        from htfl_sim.configuring import Choices

        return Choices(
            self.preset,
            self.profile,
            self.config,
            self.dataset,
            self.method,
            self.rounds,
            self.clients,
            self.seed,
            machine.device,
            machine.workers,
            self.assignments or (),
            until=self.until,
            until_time=self.until_time,
            partition=self.partition,
            models=self.model or (),
            metrics=self.metric or (),
            selection=self.selection,
        )

    def own(self) -> "Own":
        """The user's files among the choices: mynets.py of mynets.py:MyNet, and a file that selects."""
        models = dict.fromkeys(
            f"{file}.py" for name in self.model or () if (file := name.rpartition(".py:")[0])
        )
        selections = [Path(each) for each in (self.selection,) if each is not None and each.endswith(".py")]
        return Own(list(map(Path, models)), self.metric, self.plugin, selections)

    def without_files(self) -> "Setup":
        """The choices without the options that only name Python files."""
        models = [each for each in self.model or () if not each.endswith(".py")]
        return replace(
            self,
            model=models or None,
            metric=None,
            selection=None if self.own().selection else self.selection,
            plugin=None,
        )


@dataclass(frozen=True)
class Own:
    """The user's files that a session needs."""

    model: ModelFiles = None
    metric: Metrics = None
    plugin: Plugins = None
    selection: Selections = None

    def files(self) -> Iterator[Sequence[Path]]:
        """The files of plugins, models, metrics, and selections."""
        return (each or () for each in (self.plugin, self.model, self.metric, self.selection))

    def options(self) -> Iterator[str]:
        """The options that were typed."""
        for kind, files in zip(("plugin", "model", "metric", "selection"), self.files(), strict=True):
            for file in files:
                yield from (f"--{kind}", str(file))

    def load(self) -> None:
        """Load them. Raises ConfigError."""
        if any(self.files()):
            hs.load_files(*self.files())


@dataclass(frozen=True)
class Folders:
    """The folders of sessions and data sets."""

    sessions_dir: SessionsDir = None
    data_dir: DataDir = None


@dataclass(frozen=True)
class Machine:
    """The machine's settings, and whether bits may differ."""

    device: DeviceOption = None
    workers: Workers = None
    allow_inexact: AllowInexact = False


@dataclass(frozen=True)
class Waiting:
    """How long to wait for the answer of another process."""

    wait: Annotated[bool, flag("Wait for the session's answer, or return at once.", "--wait/--no-wait")] = (
        True
    )
    timeout: Annotated[
        float | None,
        option("Seconds to wait. Default: as long as the session runs.", "--timeout", least=0, metavar="S"),
    ] = None


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose dataclass parameters become options, one for each field.

    Typer sees one option for each field in the place of the dataclass. The command receives the dataclass.
    """
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if isinstance(kind := parameter.annotation, type) and is_dataclass(kind):
            hints = get_type_hints(kind, include_extras=True)
            groups[parameter.name] = kind, [each.name for each in fields(kind)]
            parameters += [
                parameter.replace(name=each.name, annotation=hints[each.name], default=each.default)
                for each in fields(kind)
            ]
        else:
            parameters.append(parameter)

    def call(**given: Any) -> None:
        for name, (kind, names) in groups.items():
            given[name] = kind(**{each: given.pop(each) for each in names})
        command(**given)

    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def with_watchers(given: Sequence[str]) -> list[str]:
    """The arguments of a command line, in which `--watch` without a name stands for all watchers."""
    found: list[str] = []
    for argument, following in pairwise([*given, "--"]):
        found.append(argument)
        if argument == WATCH_FLAG and following.startswith("-"):
            found.append("all")
    return found


def load_plugins(files: Sequence[Path] | None) -> None:
    """Register the methods of these files. Raises ConfigError."""
    if files:
        hs.load_files(plugins=files)
