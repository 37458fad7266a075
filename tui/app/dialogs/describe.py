"""All settings of a session, with the differences to another one first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget
from textual.widgets import Input, Static

from htfl_sim.errors import HtflError
from simulator.results.analysis import feed
from simulator.results.analysis.comparison import Setting, described
from simulator.results.analysis.run import SessionData
from simulator.sessions.history import entries_to, settings_in_force
from simulator.sessions.reader import parent_folder
from tui.app.background import Background
from tui.app.dialogs.base import Searched
from tui.app.host import Host
from tui.app.view import View
from tui.app.widgets.surface import glyphs_of
from tui.common.cells import padded
from tui.common.formatting import NONE
from tui.common.fuzzy import fits

Reference = tuple[str, Mapping[str, Any]]
"""A session or preset to compare with, and its settings."""
NAME_CELLS = 28


class Describe(Searched):
    """Lists settings. Typed words filter them, tab compares with the next reference."""

    DEFAULT_CSS = """
    Describe #compared { text-style: bold; width: 100%; }
    Describe #settings { width: 1fr; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "compare(1)", "compare", show=False, priority=True),
        Binding("shift+tab", "compare(-1)", "compare", show=False, priority=True),
    ]
    hint = "type to filter · tab compare with another · ↑↓ scroll · esc close"

    def __init__(self, title: str, config: Mapping[str, Any], references: Sequence[Reference]) -> None:
        """references: the sessions or presets to compare with. Without any, nothing differs."""
        super().__init__(title)
        self._references, self._place = references, 0
        self._described = [described(config, other) for _, other in references] or [described(config)]

    def body(self) -> Iterable[Widget]:
        yield Input(placeholder=self.spelled("filter by words, such as lr or differs"), compact=True)
        yield Static("", id="compared", markup=False)
        with VerticalScroll():
            yield Static("", id="settings", markup=False)

    def on_resize(self, event: Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.narrow)

    def action_compare(self, step: int) -> None:
        """Compare with the next session or preset, or the one before."""
        self._place = (self._place + step) % len(self._described)
        self.narrow()

    def narrow(self) -> None:
        words, every = self.words, self._described[self._place]
        found = [each for each in every if fits(_search(each), words)]
        compared = "Nothing to compare with: no parent, no preset, and no marked session."
        if self._references:
            differ, other = sum(each.differs for each in every), self._references[self._place][0]
            number = len(self._references)
            which = f" ({self._place + 1} of {number})" if number > 1 else ""
            compared = f"{differ} of {len(every)} settings differ from {other}{which}."
        self.query_one("#compared", Static).update(self.spelled(compared))
        lines = [self._line(each) for each in found] or [Content("No setting fits these words.")]
        self.query_one("#settings", Static).update(Content("\n").join(lines))

    def _line(self, setting: Setting) -> Content:
        """The second cue of a difference, beside its color, is a mark in front."""
        name = padded(self.spelled(setting.name), NAME_CELLS)
        value, other = (self.spelled(_said(each)) for each in (setting.value, setting.other))
        if not setting.differs:
            return Content(f"  {name} {value}")
        mark = "!" if glyphs_of(self) == "ascii" else "≠"
        return Content.assemble(
            (f"{mark} {name} ", "bold $text-warning"), (value, "bold"), f"  there: {other}"
        )


def _search(setting: Setting) -> str:
    return f"{setting.name} {_said(setting.value)}" + " differs" * setting.differs


def _said(value: object) -> str:
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)


def show(host: Host, background: Background) -> None:
    """Show the settings in force at the round shown, once those to compare with are read."""
    view = host.view
    if not view.run.document:
        host.say("No session is open. Press a to open one.")
        return
    name, folder = view.run.name, view.run.folder
    title = f"Settings of {name} in round {view.shown}" if view.shown else f"Settings of {name}"
    config = in_force(view.run, view.shown)

    def read(found: list[Reference]) -> None:
        if host.is_at(folder):
            host.ask(Describe(title, config, found), lambda _: None)

    background.run("describe", "reading settings…", lambda: list(references(view)), read)


def in_force(run: SessionData, round: int) -> Mapping[str, Any]:
    """The settings of a session in a round, after its switches."""
    return settings_in_force(run.document, entries_to(run.history, round))


def references(view: View) -> Iterator[Reference]:
    """The parent at the round of the fork, the preset, and the marked sessions, as far as they can be read."""
    run = view.run
    if parent := run.document.get("parent"):
        with suppress(HtflError, OSError):
            if (folder := parent_folder(parent, view.library)) is not None:
                found = feed.read(folder)
                yield f"its parent {found.name}", in_force(found, int(parent["round"]))
    if preset := run.config.get("preset"):
        with suppress(HtflError):
            from htfl_sim.configuring import Choices

            yield f"the preset {preset}", Choices(preset=str(preset)).read().to_json()
    for other in view.compared:
        if other.folder != run.folder and other.config:
            yield other.name, other.config
