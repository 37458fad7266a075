"""`htfl-sim data`: data sets to download, federations of other tools, and the download at the start of a run."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

import htfl_sim as hs
from tui.cli import completion, options, output
from tui.common import reading
from tui.common.flags import as_flags
from tui.common.formatting import size

if TYPE_CHECKING:
    from htfl_sim.catalog import DatasetCard, Told

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
Name = Annotated[str, options.argument("NAME", completion.datasets, "Name of the data set.")]


class Kind(StrEnum):
    """What the samples of another tool can be."""

    IMAGES = "images"
    SIGNALS = "signals"
    TOKENS = "tokens"
    FEATURES = "features"


@app.command()
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
def check(name: Name, data_dir: options.DataDir = None, as_json: options.AsJson = False) -> None:
    """Read a data set's files and print whether each is intact; exit 3 names the first that is not.

    \b
    Examples
      htfl-sim data check digits
      htfl-sim data check fashion_mnist --data-dir /mnt/big/data
    """
    _say_files(hs.catalog.check_dataset(name, data_dir), as_json)


@app.command("import")
def import_federation(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the federation.")],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="New folder for samples.npz and clients.json.")
    ],
    kind: Annotated[
        Kind | None,
        options.option("What the samples are, where they can be read in several ways.", metavar="KIND"),
    ] = None,
    split: Annotated[
        str | None,
        options.option("Shares of train:test, for a federation without test parts.", metavar="SHARES"),
    ] = None,
    unpickle: Annotated[
        bool,
        options.flag("Read PFLlib's pickled files, in a process of its own that runs nothing of them."),
    ] = False,
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
    output.show(output.facts([*reading.facts(report), ("run it", shlex.join(command))]))
    output.warn(report["warnings"])


@app.command("export")
@options.expanded
def export_federation(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="New folder for train, test, and config.json.")
    ],
    setup: options.Setup,
    data_dir: options.DataDir = None,
) -> None:
    """Write a run's clients as PFLlib and HtFLlib read them. The options are those of `run`.

    \b
    Examples
      htfl-sim data export PFLlib/dataset/Digits --dataset digits --set data.split=8:2
      htfl-sim data export PFLlib/dataset/own --config mine.toml --seed 1
    """
    options.load_plugins(setup.plugin)
    settings = setup.choices(options.Machine()).read()
    fetch_missing(settings.data.dataset, data_dir)
    notes = hs.catalog.export_federation(settings, folder, data_dir)
    output.show(f"{folder}: {settings.federation.clients} clients in train and test, and config.json.")
    output.warn(as_flags(each) for each in notes)


def fetch_missing(name_or_path: str, data_dir: str | None) -> None:
    """Download a missing data set, with a bar. A user's own data are left to the loader."""
    if hs.catalog.is_missing(name_or_path, data_dir):
        output.say(f"{name_or_path} is not in {hs.catalog.data_folder(data_dir)} yet; fetching it.")
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
