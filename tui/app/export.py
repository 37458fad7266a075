"""Write the shown contents as files into the working folder."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

from htfl_sim.errors import ConfigError
from simulator.base.names import cell
from simulator.results.analysis.reproduction import command_lines
from tui.app.dialogs.choose import Choice, Choose
from tui.app.dialogs.notices import Text
from tui.app.host import Host
from tui.app.view import Panel, View
from tui.common.errors import explain

CHOICES: tuple[Choice, ...] = (
    ("csv", "CSV", "the numbers of this panel"),
    ("svg", "SVG", "a picture of the screen"),
    ("command", "command line", "the command that makes this session again"),
)


def offer(host: Host, picture: Callable[[], str]) -> None:
    """Ask what to write, and write it. `picture` draws the screen as SVG."""

    def write(what: str) -> None:
        try:
            path, text = export(what, host.view, host.panel, picture)
        except Exception as error:  # shown, and the app continues
            host.say(explain(error)[0], "error")
        else:
            if text:
                host.ask(Text(f"Wrote {path}", text), lambda _: None)
            else:
                host.say(f"Wrote {path}.")

    host.ask(Choose("Export", "Files go to the folder in which you started the app.", CHOICES), write)


def export(what: str, view: View, panel: Panel, picture: Callable[[], str]) -> tuple[Path, str]:
    """Write one of CHOICES. Returns the file, and its text if the user should read it at once.

    Raises OSError, or the project's errors for an unreadable session.
    """
    name = view.run.name
    if what == "command":
        if not name:
            raise ConfigError("no session is open. Press a to open one.")
        path, text = free_path(Path(), f"{name}-again", "txt"), "\n\n".join(command_lines(view.run.folder))
        path.write_text(text.replace("\n\n", "\n") + "\n", encoding="utf-8", errors="surrogateescape")
        return path, text
    path = free_path(Path(), f"{name or 'htfl-sim'}-{panel.id}", what)
    if what == "csv":
        write_csv(path, *panel.table(view))
    else:
        path.write_text(picture(), encoding="utf-8")
    return path, ""


def free_path(folder: Path, stem: str, ending: str) -> Path:
    """A new file of that name."""
    number = 1
    while (path := folder / f"{stem}{'' if number == 1 else f'-{number}'}.{ending}").exists():
        number += 1
    return path


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A header and a line per row. None and NaN are empty. Raises OSError."""
    with path.open("x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(map(cell, columns))
        writer.writerows(map(cell, row) for row in rows)
