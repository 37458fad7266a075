"""Arguments and options that several commands share, and the folders they name."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tui.cli import completion

WHAT, SCALE, WHERE, HOW = "What to run", "Quick settings", "Where things lie", "How it runs"


class Device(StrEnum):
    """Where tensors are computed."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session's name in the sessions folder, or its path.",
        show_default=False,
        autocompletion=completion.sessions,
    ),
]
SessionsDir = Annotated[
    Path | None,
    typer.Option(
        "--sessions-dir",
        metavar="DIR",
        help="Folder of the sessions; else $HTFL_SESSIONS, else ./sessions.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Folder of the data sets; else $HTFL_DATA, else the platform's cache folder.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Progress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Draw progress bars, or write one line per round; default: bars in a terminal.",
        show_default=False,
        rich_help_panel=HOW,
    ),
]
Records = Annotated[
    bool,
    typer.Option("--json", help="Print each round's record on stdout, one JSON line.", rich_help_panel=HOW),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="Clients trained at a time; never changes a result. Default: the machine's cores.",
        show_default=False,
        rich_help_panel=HOW,
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="A Python file with methods of your own (docs/writing-a-method.md); may be repeated.",
        show_default=False,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting, dotted, with a TOML value; may be repeated.",
        show_default=False,
        autocompletion=completion.assignments,
    ),
]
AllowInexact = Annotated[
    bool,
    typer.Option(
        "--allow-inexact",
        help="Go on although another torch, device or thread setting changes the bits; the session records it.",
        rich_help_panel=HOW,
    ),
]
DeviceOption = Annotated[
    Device | None,
    typer.Option("--device", help="Where to compute.", show_default=False, rich_help_panel=HOW),
]

Preset = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="A named experiment; see `htfl-sim presets`.",
        show_default=False,
        autocompletion=completion.presets,
        rich_help_panel=WHAT,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help="The preset as the paper's text has it (paper, the default), or as the authors' scripts do (authors).",
        show_default=False,
        rich_help_panel=WHAT,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A configuration in TOML, in place of a preset.",
        show_default=False,
        rich_help_panel=WHAT,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="A data set's name (`htfl-sim datasets`), a folder of class folders, or an .npz file.",
        show_default=False,
        autocompletion=completion.datasets,
        rich_help_panel=WHAT,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="A method; see `htfl-sim methods`.",
        show_default=False,
        autocompletion=completion.methods,
        rich_help_panel=WHAT,
    ),
]
Rounds = Annotated[
    int | None, typer.Option(metavar="N", help="rounds", show_default=False, rich_help_panel=SCALE)
]
Clients = Annotated[
    int | None,
    typer.Option(metavar="N", help="federation.clients", show_default=False, rich_help_panel=SCALE),
]
Seed = Annotated[
    int | None, typer.Option(metavar="S", help="seed", show_default=False, rich_help_panel=SCALE)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any configuration key, dotted, with a TOML value; may be repeated and has the last word.",
        show_default=False,
        autocompletion=completion.assignments,
        rich_help_panel=SCALE,
    ),
]


def load_plugins(files: Sequence[Path] | None) -> None:
    """Let the methods of these files stand beside the built-in ones. Raises ConfigError."""
    if files:
        from simulator.methods import plugins

        for file in files:
            plugins.load(file)
