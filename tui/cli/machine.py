"""`htfl-sim data` and `doctor`: data sets to download, federations of other tools, and what this machine offers."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

import htfl_sim as hs
from htfl_sim.choices import Choices
from tui.cli import completion, options, output
from tui.cli.options import Option, argument, flag
from tui.common import findings
from tui.common.errors import as_flags
from tui.common.formatting import size, writes_unicode

if TYPE_CHECKING:
    from htfl_sim.catalog import DatasetCard, Told
    from htfl_sim.machine import Check

app = typer.Typer(
    help="""Download data sets, check that they are intact, and exchange federations with other tools.

    \b
    Examples
      htfl-sim data fetch cifar10
      htfl-sim data check fashion_mnist
      htfl-sim data import PFLlib/dataset/MNIST mnist --unpickle
    """,
    rich_markup_mode="rich",
)
Name = Annotated[str, argument("NAME", completion.datasets, "Name of the data set.")]


@app.command()
@options.expanded
def fetch(name: Name, data_dir: options.DataDir = None, as_json: options.AsJson = False) -> None:
    """Download a data set that is missing or damaged, and check its checksums.

    \b
    Examples
      htfl-sim data fetch cifar10
      htfl-sim data fetch cifar100 --data-dir /mnt/big/data
    """
    with _bar(name) as progress:
        found = hs.catalog.fetch_dataset(name, data_dir, progress)
    _say_files(found, as_json)


@app.command()
@options.expanded
def check(name: Name, data_dir: options.DataDir = None, as_json: options.AsJson = False) -> None:
    """Read a data set's files and print whether each is intact; exit 3 names the first that is not.

    \b
    Examples
      htfl-sim data check digits
      htfl-sim data check fashion_mnist --data-dir /mnt/big/data
    """
    _say_files(hs.catalog.check_dataset(name, data_dir), as_json)


KIND = "What the samples are, where they can be read in several ways."
SPLIT = "Shares of train:test, for a federation without test parts."
UNPICKLE = "Read PFLlib's pickled files, in a process of its own that runs nothing of them."
SOURCE, TARGET = "Folder of the federation.", "New folder for samples.npz and clients.json."
PARTS = "New folder for train, test, and config.json."
Kind = Literal["images", "signals", "tokens", "features"]


@app.command("import")
@options.expanded
def import_federation(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=SOURCE)],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help=TARGET)],
    kind: Annotated[Kind | None, Option(KIND, metavar="KIND")] = None,
    split: Annotated[str | None, Option(SPLIT, metavar="SHARES")] = None,
    unpickle: Annotated[bool, flag(UNPICKLE)] = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn a federation of PFLlib, HtFLlib, or LEAF into files of htfl-sim, with the same clients and samples.

    \b
    Examples
      htfl-sim data import PFLlib/dataset/MNIST mnist --unpickle
      htfl-sim data import leaf/data/femnist/data femnist
      htfl-sim data import leaf/data/synthetic/data synthetic --split 9:1
    """
    report = hs.catalog.import_federation(folder, target, kind=kind, unpickle=unpickle, split=split)
    command = ["htfl-sim", "run", "--dataset", f"{target / 'samples.npz'}"]
    command += ["--partition", f"{target / 'clients.json'}", "--clients", str(len(report["clients"]))]
    if as_json:
        output.emit({**report, "command": shlex.join(command)})
        return
    report["notes"] = [as_flags(each) for each in report["notes"]]
    output.show(output.facts([*findings.data_facts(report), ("run it", shlex.join(command))]))
    output.warn(report["warnings"])


@app.command("export")
@options.expanded
def export_federation(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=PARTS)],
    choices: Choices,
    data_dir: options.DataDir = None,
) -> None:
    """Write a run's clients as PFLlib and HtFLlib read them. The options are those of `run`.

    \b
    Examples
      htfl-sim data export PFLlib/dataset/Digits --dataset digits --set data.split=8:2
      htfl-sim data export PFLlib/dataset/own --config mine.toml --seed 1
    """
    settings = choices.read()
    fetch_missing(settings.data.dataset, data_dir)
    notes = hs.catalog.export_federation(settings, folder, data_dir)
    output.show(f"{folder}: {settings.federation.clients} clients in train and test, and config.json.")
    output.warn(as_flags(each) for each in notes)


def fetch_missing(name_or_path: str, data_dir: str | None) -> None:
    """Download a missing data set, with a bar. A user's own data are left to the loader."""
    if hs.catalog.is_missing(name_or_path, data_dir):
        output.say(f"{name_or_path} is not in {hs.folders.data_folder(data_dir)} yet; fetching it.")
        with _bar(name_or_path) as progress:
            hs.catalog.fetch_dataset(name_or_path, data_dir, progress)


@contextmanager
def _bar(name: str) -> Iterator["Told"]:
    """A progress bar in bytes on stderr, in a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), _Downloaded(), TimeRemainingColumn())
    console = output.stderr()
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)


class _Downloaded(ProgressColumn):
    """The bytes done, the total, and the speed."""

    def render(self, task: Task) -> Text:
        whole = f" of {size(task.total)}" if task.total else ""
        return Text(f"{size(task.completed)}{whole}, {size(task.speed)}/s")


def _say_files(dataset: "DatasetCard", as_json: bool) -> None:
    if as_json:
        output.emit({"name": dataset.name, "sound": True, "files": dataset.files})
    elif dataset.files:
        output.show(*dataset.files, f"{dataset.name}: sound.")
    else:
        output.show(f"{dataset.name}: sound; it comes with a dependency and needs no file.")


def doctor(
    sessions_dir: options.SessionsDir = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what this machine offers and what is missing: versions, cores, memory, CUDA, data, disk, terminal.

    \b
    Examples
      htfl-sim doctor
      htfl-sim doctor --json | jq -r '.[] | select(.status != "ok") | .what'
    """
    found = [*hs.machine.doctor(sessions_dir, data_dir), *_terminal()]
    rows = [[each.what, each.status, each.detail] for each in found]
    output.answer(as_json, list(map(asdict, found)), output.table(["", "status", ""], rows))


_COLOURS = {
    "truecolor": "all of them",
    "256": "256, from which the app chooses; COLORTERM=truecolor says where a terminal has all (ssh leaves it out)",
    "standard": "16, which tell little apart; TERM=xterm-256color says where a terminal has more",
}
"""The terminal's abilities, as rich finds them."""


def _terminal() -> Iterator["Check"]:
    check, console, unicode = hs.machine.Check, output.stderr(), writes_unicode()
    if not console.is_terminal:
        yield check("terminal", "missing", "stderr is no terminal: a run writes one line per round")
    else:
        from tui.app.dialogs.base import SMALLEST

        (columns, rows), (width, height) = SMALLEST, console.size
        enough = width >= columns and height >= rows
        least = f"the app needs {columns}×{rows} and is made for 80×24 and more"
        yield check("terminal", "ok" if enough else "missing", f"{width}×{height}; {least}")
        term, colours = os.environ.get("TERM", ""), None if console.no_color else console.color_system
        if colours is None:
            why = "NO_COLOR is set" if os.environ.get("NO_COLOR") else f"TERM={term}"
            yield check("colours", "missing", f"none ({why}); the app says everything in characters")
        else:
            yield check("colours", "ok", f"{_COLOURS.get(colours, colours)} (TERM={term})")
    said = f"stdout writes {(sys.stdout.encoding or 'in no known encoding').lower()}"
    said += "" if unicode else "; tui uses ASCII glyphs"
    yield check("unicode", "ok" if unicode else "missing", said)
