"""Arguments and options that several commands share, and how Typer reads them."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import GenericAlias, NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

import htfl_sim as hs
from htfl_sim.choices import HOW, METRICS, WHERE, Device, Plugins, Workers, named_files
from htfl_sim.choices import Option as Option
from tui.cli import completion

if TYPE_CHECKING:
    from htfl_sim.configuring import Files


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


def argument(metavar: str, complete: Callable[..., list[str]] | None = None, help: str | None = None) -> Any:
    """An argument, with completion if it is a name."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, autocompletion=complete)


def seed(text: str) -> int:
    """One seed. Typer's own parser reads 0-2 as -2."""
    if text.isascii() and text.isdigit():
        return int(text)
    raise typer.BadParameter(
        f"'{text}' is not a whole number from 0. `htfl-sim sweep` takes several: --over seed=0..2"
    )


SessionArgument = Annotated[
    str, argument("SESSION", completion.sessions, "A session's name in the sessions folder, or its path.")
]
SteerableArgument = Annotated[
    str, argument("SESSION", completion.steerable, "A session's name, or a study's, or its path.")
]
SESSIONS_DIR = "Folder of the sessions. Default: $HTFL_SESSIONS, or ./sessions."
SessionsDir = Annotated[Path | None, Option(SESSIONS_DIR, "--sessions-dir", metavar="DIR", panel=WHERE)]
DATA_DIR = "Folder of the data sets. Default: $HTFL_DATA, or the platform's cache folder."
DataDir = Annotated[str | None, Option(DATA_DIR, "--data-dir", metavar="DIR", panel=WHERE)]
AsJson = Annotated[bool, flag("Print JSON on stdout.", "--json")]
RECORDS = "Print each round's record on stdout, one JSON line."
Records = Annotated[bool, flag(RECORDS, "--json", panel=HOW)]
PROGRESS = "Draw progress bars, or write one line per round. Default: bars in a terminal."
Progress = Annotated[bool | None, Option(PROGRESS, "--progress/--no-progress", panel=HOW)]
MACHINE_SETTINGS = "Set a key of the machine, runtime.… or training.precision. May be repeated."
MachineSettings = Annotated[
    Sequence[str],
    Option(MACHINE_SETTINGS, "--set", metavar="KEY=VALUE", complete=completion.assignments, panel=HOW),
]
INEXACT = (
    "Continue even if another torch, device, or thread setting changes the bits. The session records it."
)
AllowInexact = Annotated[bool, flag(INEXACT, "--allow-inexact", panel=HOW)]
ASSIGNMENTS = "Configuration key, dotted, with a TOML value. May be repeated."
Assignments = Annotated[
    Sequence[str], Option(ASSIGNMENTS, "--set", metavar="KEY=VALUE", complete=completion.assignments)
]
TAGS = "Tag for the session; `htfl-sim sessions --tag` finds it. May be repeated."
Tags = Annotated[Sequence[str], Option(TAGS, "--tag", metavar="TAG", panel=WHERE)]
MODEL_FILES = "Python file of a model that the session uses. May be repeated."
ModelFiles = Annotated[Sequence[Path], Option(MODEL_FILES, "--model", metavar="FILE", panel=HOW)]
SELECTIONS = "Python file with a selection of your own that the session uses. May be repeated."
REUSE = (
    "Use finished sessions of identical runs, from the whole sessions folder. "
    "Default: only those of this study. --no-reuse computes every point."
)
Reuse = Annotated[bool | None, Option(REUSE, "--reuse/--no-reuse", panel=HOW)]
Steal = Annotated[
    bool, flag("Take over from another machine that you know to be dead.", "--steal", panel=HOW)
]


OWN = {
    "models": ModelFiles,
    "metrics": Annotated[Sequence[Path], Option(METRICS, "--metric", metavar="FILE", panel=HOW)],
    "plugins": Plugins,
    "selections": Annotated[Sequence[Path], Option(SELECTIONS, "--selection", metavar="FILE", panel=HOW)],
}
Own = Annotated["Files", OWN]
"""The user's files that a session needs, each kind an option."""


@dataclass(frozen=True)
class Folders:
    """The folders of sessions and data sets."""

    sessions_dir: SessionsDir = None
    data_dir: DataDir = None


@dataclass(frozen=True)
class Machine:
    """The machine's settings, and whether bits may differ."""

    device: Device = None
    workers: Workers = None
    allow_inexact: AllowInexact = False


TIMEOUT = "Seconds to wait. Default: as long as the session runs."


@dataclass(frozen=True)
class Waiting:
    """How long to wait for the answer of another process."""

    wait: Annotated[bool, flag("Wait for the session's answer, or return at once.", "--wait/--no-wait")] = (
        True
    )
    timeout: Annotated[float | None, Option(TIMEOUT, "--timeout", least=0, metavar="S")] = None


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """A command as Typer reads it: each field of a dataclass is an option, and each `Option` is one of Typer's.

    The command receives the dataclass, and its own default for an option that is repeated and not there.
    """
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    defaults: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and is_dataclass(kind):
            apart = getattr(kind, "APART", ())
            hints = get_type_hints(kind, include_extras=True)
            given = [each for each in fields(kind) if each.name not in apart]
            groups[parameter.name] = kind, [each.name for each in given]
            members = [(each.name, hints[each.name], each.default) for each in given]
        elif kind is Own:
            groups[parameter.name] = named_files, list(OWN)
            members = [(name, annotation, ()) for name, annotation in OWN.items()]
        else:
            members = [(parameter.name, kind, parameter.default)]
        for name, annotation, default in members:
            annotation, repeated = _read(annotation)
            if repeated:
                defaults[name], default = default, None
            parameters.append(parameter.replace(name=name, annotation=annotation, default=default))

    def call(**given: Any) -> None:
        for name, default in defaults.items():
            given[name] = given[name] or default
        for name, (kind, names) in groups.items():
            given[name] = kind(**{each: given.pop(each) for each in names})
        command(**given)

    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _read(annotation: Any) -> tuple[Any, bool]:
    """The annotation of a parameter for Typer, and whether the option may be repeated."""
    if get_origin(annotation) is not Annotated:
        return annotation, False
    kind, about = get_args(annotation)
    info: Any = about
    values: tuple[str, ...] = ()
    if isinstance(about, Option):
        complete = about.complete
        info = typer.Option(
            *filter(None, (about.flag, about.short)),
            help=about.help,
            metavar=about.metavar,
            rich_help_panel=about.panel,
            autocompletion=getattr(completion, complete) if isinstance(complete, str) else complete,
            min=about.least,
            parser=seed if about.key == "seed" else None,
            show_default=False,
        )
        values = about.values
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Literal:
            values = get_args(each)
    if values:
        one: Any = StrEnum("One", {each: each for each in values})  # type: ignore[misc]
        kind = one | None if NoneType in get_args(kind) else one
    repeated = get_origin(kind) is Sequence
    if repeated:
        kind = GenericAlias(list, get_args(kind)) | None
    return Annotated[kind, info], repeated


def with_watchers(given: Sequence[str]) -> list[str]:
    """The arguments of a command line, in which `--watch` without a name stands for all watchers."""
    found: list[str] = []
    for argument, following in pairwise([*given, "--"]):
        found.append(argument)
        if argument == "--watch" and following.startswith("-"):
            found.append("all")
    return found
