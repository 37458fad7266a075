"""`htfl-sim data fetch` and `data check`, and the fetching that a run does by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from tui.cli import completion, options, output
from tui.common.formatting import size

if TYPE_CHECKING:
    from simulator.data.datasets import Dataset, Progress

app = typer.Typer(
    help="""Bring data sets here, and check that they are whole.

    \b
    Examples
      htfl-sim data fetch cifar10
      htfl-sim data check fashion_mnist
    """,
    rich_markup_mode="rich",
)
Name = Annotated[str, options.argument("NAME", completion.datasets)]


@app.command()
def fetch(name: Name, data_dir: options.DataDir = None, as_json: options.AsJson = False) -> None:
    """Download a data set that is missing or damaged, with its checksums checked.

    \b
    Examples
      htfl-sim data fetch cifar10
      htfl-sim data fetch cifar100 --data-dir /mnt/big/data
    """
    dataset, folder = _dataset(name), _folder(data_dir)
    with _bar(name) as progress:
        dataset.fetch(folder, progress)
    _say_files(dataset, folder, as_json)


@app.command()
def check(name: Name, data_dir: options.DataDir = None, as_json: options.AsJson = False) -> None:
    """Read a data set's files and say whether each is intact; exit 3 names the first that is not.

    \b
    Examples
      htfl-sim data check digits
      htfl-sim data check fashion_mnist --data-dir /mnt/big/data
    """
    dataset, folder = _dataset(name), _folder(data_dir)
    dataset.check(folder)
    _say_files(dataset, folder, as_json)


def fetch_missing(name_or_path: str, folder: Path) -> None:
    """Download a data set that is not here yet, with a bar; a user's own data are left to the loader."""
    from simulator.data import datasets

    if name_or_path in datasets.names() and not datasets.get(name_or_path).is_present(folder):
        output.say(f"{name_or_path} is not in {folder} yet; fetching it.")
        with _bar(name_or_path) as progress:
            datasets.get(name_or_path).fetch(folder, progress)


@contextmanager
def _bar(name: str) -> Iterator["Progress"]:
    """A bar of bytes on stderr, in a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), _Downloaded(), TimeRemainingColumn())
    console = output.stderr()
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)


class _Downloaded(ProgressColumn):
    """How much of how much, and how fast."""

    def render(self, task: Task) -> Text:
        whole = f" of {size(task.total)}" if task.total else ""
        return Text(f"{size(task.completed)}{whole}, {size(task.speed)}/s")


def _say_files(dataset: "Dataset", folder: Path, as_json: bool) -> None:
    files = [str(file) for file in dataset.files(folder)]
    if as_json:
        output.emit({"name": dataset.name, "sound": True, "files": files})
    elif files:
        output.show(*files, f"{dataset.name}: sound.")
    else:
        output.show(f"{dataset.name}: sound; it comes with a dependency and needs no file.")


def _dataset(name: str) -> "Dataset":
    from simulator.data import datasets

    return datasets.get(name)


def _folder(option: str | None) -> Path:
    from simulator.data.datasets import data_folder

    return data_folder(option)
