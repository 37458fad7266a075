"""The first steps, in place of an empty list of sessions: the presets, and another folder."""

from dataclasses import dataclass
from functools import cache

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from htfl_sim import catalog
from htfl_sim.configuring import QUICKSTART
from tui.app.charts.table import Column, Row
from tui.app.view import View
from tui.app.widgets import Table
from tui.app.widgets.surface import glyphs_of
from tui.common.formatting import spelled

ATTACH = "attach"
"""The key of the row that is no preset."""
WORDS = (
    "No sessions in {folder}. Press n for a new run, or choose a line with ↑↓ and press enter. "
    "On the command line, `htfl-sim run` starts the quickstart."
)
COLUMNS = (
    Column("start with", names=True, worth=2, most=30, tone="strong"),
    Column("about", stretch=True, worth=1, tone="muted"),
)


class Start(Vertical):
    """A sentence, and a list of first steps."""

    DEFAULT_CSS = """
    Start { height: 1fr; }
    Start > Static { height: auto; padding: 1 2; }
    """

    @dataclass
    class Chosen(Message):
        """Enter was pressed on a first step: ATTACH, or the name of a preset."""

        what: str

    def __init__(self) -> None:
        super().__init__()
        self._words, self.list = Static("", markup=False), Table(COLUMNS, cursor=True)

    def compose(self) -> ComposeResult:
        yield self._words
        yield self.list

    def show(self, view: View) -> None:
        """Name the folder of the view, and list the steps that its filter lets pass."""
        self._words.update(spelled(WORDS.format(folder=view.library), glyphs_of(self)))
        self.list.show(steps())
        self.list.filter(view.filter)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        message.stop()
        self.post_message(self.Chosen(str(message.key)))


@cache
def steps() -> tuple[Row, ...]:
    """The quickstart and another folder first. Then all other presets."""
    first = {
        QUICKSTART: "FedLoRA on digits: no download, about a minute",
        ATTACH: "Open a session of another folder",
    }
    presets = {preset.name: preset.title for preset in catalog.presets()}
    presets.pop(QUICKSTART)
    return tuple(
        Row(name, (name, about), search=f"{name} {about}") for name, about in (first | presets).items()
    )
