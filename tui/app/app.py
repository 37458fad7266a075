"""The terminal app: the panels of one session, dialogs over them, and the keys for both.

The app moves through panels and rounds (`Navigation`), and owns its parts: `steering` sends commands to runs, `runs`
are those started here, and `computations` are processes that compute. All read and change one `view`. When it
changes, the visible panel draws it.
"""

import asyncio
import csv
import json
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import msgspec
from textual.app import App, ComposeResult, ScreenStackError
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.containers import Vertical
from textual.events import Event, Resize
from textual.events import Key as KeyEvent
from textual.filter import LineFilter
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from htfl_sim.configuring import Choices
from htfl_sim.errors import ConfigError
from simulator.base.units import cell
from simulator.results.analysis.reproduction import command_lines
from simulator.results.analysis.run import SessionData
from tui.app import messages, rows, terminal
from tui.app.charts.look import Glyphs
from tui.app.dialogs import upkeep
from tui.app.dialogs.base import SMALLEST, Choice, Choose, Text, TooSmall
from tui.app.dialogs.pages import Help, WhyDialog, show_effects, show_settings
from tui.app.dialogs.run_forms import NewRun
from tui.app.host import (
    NO_SESSION,
    Alert,
    Background,
    Computations,
    Holds,
    Host,
    MethodChoices,
    Severity,
    Toasts,
    tell_news,
)
from tui.app.keys import KEYS, PANEL_TITLES, PLACES, Commands, bindings
from tui.app.panels import PANELS, client_rows
from tui.app.panels.base import Part
from tui.app.panels.session_list import SessionList
from tui.app.runs import LaunchOptions, LocalRuns
from tui.app.steering import Steering
from tui.app.view import ColorSlots, Panel, View, in_sight
from tui.app.watch import Watch
from tui.app.widgets import LineChart, Table
from tui.app.widgets.screen import AppScreen, Filter, offer_focus
from tui.common.errors import explain
from tui.common.formatting import spelled

PATIENCE = 2.0
"""Seconds after which a key no longer waits for the one before it."""
PREPARING = 20.0
"""Seconds after which it no longer waits for a form."""


class Passed(Message):
    """Sent after a key on the same way. When the app receives it, the key and earlier messages have been handled."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = asyncio.Event()


class KeyQueue:
    """Holds each key until the one before it has taken effect, so that it goes to the part that this one has focused.

    Textual sends a key to the part that has the focus now. That part handles it in its own turn, and passes it on. With
    fast typing, or while a run uses the processors, a letter after a tab would reach the previous field, and one after
    the key that opens a form would be lost. If a form has to be prepared first, keys wait for it. Escape cancels it.
    """

    def __init__(
        self, app: App[Any], deliver: Callable[[KeyEvent], Awaitable[None]], choices: MethodChoices
    ) -> None:
        """`deliver` handles a key. A form that waits for `choices` holds the keys back."""
        self._app, self._deliver, self._choices = app, deliver, choices
        self._keys: deque[KeyEvent] = deque()
        self._following: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a key has not taken effect yet, for another reason than a form that is being prepared."""
        return self._following is not None and not self._choices.awaited

    async def put(self, key: KeyEvent) -> None:
        """Deliver a key now, or after those before it."""
        if key.key == "escape" and self._choices.awaited:
            self._keys.clear()
            self._choices.forget()
        elif self._following is not None:
            self._keys.append(key)
        else:
            await self._hand_out(key)

    async def _hand_out(self, key: KeyEvent) -> None:
        target = self._app.focused or self._app.screen
        await self._deliver(key)
        self._following = asyncio.create_task(self._follow(target))

    async def _follow(self, target: Widget) -> None:
        """Wait for the key, for the messages that it caused, for a form that it requested, and for the focused or new
        part.
        """
        for part in (target, target, None):
            passed = Passed()
            with suppress(TimeoutError, ScreenStackError):  # the key may have ended the app
                if part is None:
                    await asyncio.wait_for(self._prepared(), PREPARING)
                if (part or self._app.focused or self._app.screen).post_message(passed):
                    await asyncio.wait_for(passed.arrived.wait(), PATIENCE)
        if self._keys:
            self._app.call_later(self._hand_out, self._keys.popleft())
        else:
            self._following = None

    async def _prepared(self) -> None:
        while self._choices.awaited:
            await asyncio.sleep(0.02)


FILE = "app.json"
SESSIONS = 200
"""Sessions whose pins are kept: those with the latest changes."""


@dataclass
class Preferences:
    """What is kept between starts of the app.

    theme: its name. chart: the accuracy chart's mode. sort: the column by which clients are sorted, and whether
    from high to low. pins: the pinned clients, by session id. places: the slots of compared lines, by folder and name.
    """

    theme: str = ""
    chart: int = 0
    sort: tuple[str, bool] = ("accuracy", False)
    pins: dict[str, list[int]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path | None) -> "Preferences":
        """Read the preferences there. Unreadable ones have their defaults."""
        kept = cls()
        with suppress(OSError, ValueError, TypeError):
            found = json.loads((folder / FILE).read_text(encoding="utf-8")) if folder else {}
            for name, kind in get_type_hints(cls).items():
                with suppress(KeyError, msgspec.ValidationError):
                    setattr(kept, name, msgspec.convert(found[name], kind))
        return kept

    def keep(self, folder: Path | None, *, theme: str, chart: int, sort: tuple[str, bool]) -> None:
        """Write them there, with these changes. If that is impossible, they are not kept."""
        self.theme, self.chart, self.sort = theme, chart, sort
        if folder is None:
            return
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            new = folder / f"{FILE}.new"
            new.write_text(json.dumps(asdict(self)), encoding="utf-8")  # \u escapes: any folder's name fits
            new.replace(folder / FILE)

    def pinned(self, session: str) -> frozenset[int]:
        """The pinned clients of a session, by its id."""
        return frozenset(self.pins.get(session, []))

    def pin(self, session: str, clients: Iterable[int]) -> None:
        self.pins.pop(session, None)
        self.pins = dict([*self.pins.items(), (session, sorted(clients))][-SESSIONS:])


EXPORTS: tuple[Choice, ...] = (
    ("csv", "CSV", "the numbers of this panel"),
    ("svg", "SVG", "a picture of the screen"),
    ("command", "command line", "the command that makes this session again"),
)


def offer_export(host: Host, picture: Callable[[], str]) -> None:
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

    host.ask(Choose("Export", "Files go to the folder in which you started the app.", EXPORTS), write)


def export(what: str, view: View, panel: Panel, picture: Callable[[], str]) -> tuple[Path, str]:
    """Write one of EXPORTS. Returns the file, and its text if the user should read it at once.

    Raises OSError, or the project's errors for an unreadable session.
    """
    name = view.run.name
    if what == "command":
        if not name:
            raise ConfigError(NO_SESSION)
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


class Navigation(Host):
    """The part of the app with the path back for Escape, and the actions of keys that move or select."""

    def __init__(self) -> None:
        super().__init__()
        self._came_from: list[str] = []

    # Panels

    def on_panel_wanted(self, message: messages.PanelWanted) -> None:
        """Show another panel; Escape returns to this one."""
        self._came_from.append(self.panel.id or "")
        self.show_panel(message.panel)

    def action_show_panel(self, panel: str) -> None:
        """Show a panel from its tab."""
        self._came_from.clear()
        self.show_panel(panel)

    def key_escape(self) -> None:
        """Hide the crosshair, or return to the panel that Enter left."""
        if self.panel.back():
            self.draw_rows()
        elif self.view.crosshair is not None:
            self.change(crosshair=None)
        elif self._came_from:
            self.show_panel(self._came_from.pop())

    # Clients and sessions

    def on_client_selected(self, message: messages.ClientSelected) -> None:
        if self.view.shown and message.client != self.view.client:
            self.change(client=message.client)

    def on_session_marked(self, message: messages.SessionMarked) -> None:
        folder, marked = message.folder, self.view.marked
        self.mark_all([each for each in marked if each != folder] if folder in marked else [*marked, folder])

    def action_compare(self) -> None:
        """Show the marked sessions beside the current one."""
        run, marked = self.view.run, self.view.marked
        if run.name and run.folder not in marked:
            self.mark_all((run.folder, *marked))
        self.show_panel("compare")

    def mark_all(self, folders: Sequence[Path]) -> None:
        """Mark these sessions and no others."""
        compared = tuple(run for run in self.view.compared if {run.folder, run.folder.parent} & {*folders})
        self.change(marked=tuple(folders), compared=compared)
        self.files.compare(tuple(folders))

    # Rounds

    def action_travel(self, rounds: int) -> None:
        """Show an earlier or a later round; the newest is live."""
        if self.view.run.round:
            self._show_round(max(1, self.view.shown + rounds))
        else:
            self.say("No round is finished yet.", holds=lambda: not self.view.run.round)

    def action_goto(self, round: int) -> None:
        """Show this round, or the newest if it is later."""
        self.action_travel(round - self.view.shown)

    def action_live(self) -> None:
        """Show the newest round, and hide the crosshair."""
        self.change(round=None, crosshair=None)

    def action_replay(self) -> None:
        """Show the round under the crosshair."""
        if (at := self.view.cursor()) is None:
            how = "Choose a round first: move the crosshair with ← and →, or click in a chart."
            self.say(how, holds=lambda: self.view.cursor() is None)
        else:
            self._show_round(int(at))

    def _show_round(self, round: int) -> None:
        """Show this round; the newest is live. The crosshair disappears: the charts' cursor marks the round shown."""
        self.change(round=None if round >= self.view.run.round else round, crosshair=None)

    # Charts

    def action_crosshair(self, steps: int) -> None:
        """Move the crosshair; the first step shows it at the newest round."""
        if (chart := self._chart(over_rounds=True)) is not None and (x := chart.step(steps)) is not None:
            self.on_line_chart_pointed(LineChart.Pointed(chart, x))

    def on_view_changed(self, message: messages.ViewChanged) -> None:
        if any(getattr(self.view, name) != value for name, value in message.changes.items()):
            self.change(**message.changes)

    def on_line_chart_pointed(self, message: LineChart.Pointed) -> None:
        """Put the crosshair of all charts at this x of one of them."""
        figure = message.chart.figure
        if figure.over is not None:
            place = figure.over, message.x * figure.x_unit
            self.on_view_changed(messages.ViewChanged({"crosshair": place}))

    def action_zoom(self, direction: int) -> None:
        """1: in, -1: out, 0: the whole chart."""
        if (chart := self._chart()) is not None:
            {1: chart.zoom_in, -1: chart.zoom_out, 0: chart.reset_view}[direction]()

    def action_pan(self, share: float) -> None:
        """Move a zoomed chart by a share of its width."""
        if (chart := self._chart()) is not None:
            chart.pan(share)

    def action_maximise(self) -> None:
        """Give the focused part the whole screen, with its title, or undo that."""
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif (widget := self.screen.focused or self._chart()) is not None:
            part = next((each for each in widget.ancestors if isinstance(each, Part)), widget)
            self.screen.maximize(part, container=False)

    def _chart(self, over_rounds: bool = False) -> LineChart | None:
        """The focused chart, else the panel's first visible one. over_rounds: only one that shows a crosshair."""
        charts = self.panel.walk_children(LineChart)
        shown = [chart for chart in charts if chart.is_on_screen]
        if not shown and self.screen.maximized is None:  # a panel that has just appeared has no layout yet
            shown = [chart for chart in charts if in_sight(chart)]
        able = (chart for chart in (self.screen.focused, *shown) if isinstance(chart, LineChart))
        return next((chart for chart in able if not over_rounds or chart.figure.over is not None), None)


KEEP, STOP, LEAVE = "keep", "stop", "leave"
"""The app's result: the run of this process continues, is to stop, or does not exist."""
FRAME_ROWS = 3  # status, tabs, and keys
NOT_OF_CLIENTS = ("log", "compare", "sessions")  # their filter has words of its own; all others list clients
SETTLED_SECONDS = 0.05  # seconds after a resize without drawing, until the parts have their new sizes


class HtflApp(Navigation):
    """`htfl-sim tui`. `start`: the session to show, the run to begin, or the contents of the new-run form."""

    CSS_PATH = "style.tcss"
    TITLE = "htfl-sim"
    AUTO_FOCUS = ""
    ALLOW_IN_MAXIMIZED_VIEW = "#head, #filter, #keys"
    ENABLE_COMMAND_PALETTE = False  # htfl-sim's own is bound in keys.py, with the commands from that table
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]

    def __init__(
        self,
        options: LaunchOptions,
        start: Path | NewRun | Choices | None = None,
        *,
        glyphs: Glyphs = "braille",
        alert: Alert = "off",
        panels: Sequence[Panel] | None = None,
        state: Path | None = None,
    ) -> None:
        """state: the folder of preferences that are kept between starts; None: nowhere."""
        super().__init__()
        self._state, self._preferences = state, Preferences.read(state)
        self.sessions_dir = options.sessions
        self.glyphs = glyphs
        self.animation_level = "none"
        self.has_mouse = True
        self.ended_by: int | None = None
        """The signal that ended the app, if one did."""
        kept = self._preferences
        self.view = View(
            SessionData(Path()),
            chart=max(kept.chart, 0),
            sort=client_rows.known(kept.sort),
            places=ColorSlots(kept.places),
            sessions_dir=options.sessions,
        )
        self.files = Watch(self.post_message)
        self.background = Background(self, self.draw, lambda fault: self.say(fault, "error"))
        self.methods = MethodChoices(self.background)
        self.runs = LocalRuns(self, options)
        self.computations = Computations(self, options.data)
        self.steering = Steering(self, self.runs, self.computations)
        self._toasts = Toasts(self)
        self._key_queue = KeyQueue(self, super().on_event, self.methods)
        self._xterm = terminal.XtermFilter()
        self._alert = alert
        self._start = start
        self.panels = panels if panels is not None else [PANELS[name](name) for name in PANEL_TITLES]
        self._drawn: tuple[str, View] | None = None
        self._words: dict[str, str] = {}
        """The filter of each panel with its own words, and under "" that of all others."""

    def get_default_screen(self) -> AppScreen[None]:
        return AppScreen(id="_default")

    def compose(self) -> ComposeResult:
        self._prepare(self.size)
        yield Vertical(Static(id="status"), Static(id="tabs"), id="head")
        with ContentSwitcher(initial="live", id="panels"):
            yield from self.panels
        yield Filter()
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.set_class(self.glyphs == "ascii", "-ascii")
        terminal.use_scroll_bars(self.glyphs)
        if self._preferences.theme in self.available_themes:
            self.theme = self._preferences.theme
        if not self.is_headless:
            terminal.on_signals(self._leave_by)
        self.files.start()
        self.watch(self.screen, "focused", self.draw_rows, init=False)  # a chart has its own keys
        self.call_after_refresh(self.draw)
        self.call_after_refresh(self._focus_panel)
        match self._start:
            case Path() as folder:
                self.open_session(folder)
            case NewRun() as wish:
                self.runs.begin(wish)
            case Choices() as choices:
                self.call_after_refresh(self.runs.new_run, choices)
            case None:
                self.call_after_refresh(self.show_panel, "sessions")

    def on_unmount(self) -> None:
        self.files.end()
        self.computations.end()
        self._preferences.keep(self._state, theme=self.theme, chart=self.view.chart, sort=self.view.sort)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, KeyEvent) and not event.is_forwarded:
            await self._key_queue.put(event)
        else:
            await super().on_event(event)

    def on_passed(self, message: Passed) -> None:
        message.arrived.set()

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [*filters, self._xterm] if self.console.color_system == "256" else filters

    def on_resize(self, event: Resize) -> None:
        width, height = event.size
        self.delay_update(SETTLED_SECONDS)
        self._prepare(event.size)
        small = width < SMALLEST[0] or height < SMALLEST[1]
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()
        self.call_after_refresh(self.draw_rows)

    def _prepare(self, size: Size) -> None:
        for panel in self.panels:
            panel.prepare(size.width, size.height - FRAME_ROWS)

    # What is shown

    @property
    def main(self) -> Any:
        """The screen under all dialogs."""
        return self.screen_stack[0]

    @property
    def panel(self) -> Panel:
        shown = self.main.query_one("#panels", ContentSwitcher).visible_content
        assert isinstance(shown, Panel)
        return shown

    @property
    def waiting(self) -> list[str]:
        """Requests that are not done yet, in the words of the status row."""
        return [*self.steering.waiting, *self.background.doing]

    def draw(self) -> None:
        """Update the rows and the visible panel."""
        if not self.is_running:  # the app is ending, but results of earlier reads still arrive
            return
        self._toasts.review()
        panel = self.panel
        before = self._drawn
        if not (
            before
            and before[0] == panel.id
            and self.view.looks_like(before[1], within_rounds=panel.FOLLOWS_PROGRESS)
        ):
            self._drawn = (panel.id or "", self.view)
            try:
                panel.show(self.view)
            except Exception as fault:  # an error in drawing must not end the app, and the run with it
                self.say(explain(fault)[0], "error")
        self.draw_rows()  # the footer has the keys of what the panel shows now
        for screen in self.screen_stack:
            if isinstance(screen, WhyDialog) and screen.is_mounted:
                screen.follow(self.view)

    def draw_rows(self) -> None:
        if self.is_running and self.main.is_mounted:
            rows.draw(self.main, self.view, self.panel, self.waiting, self.glyphs)

    def say(self, message: str, severity: Severity = "information", holds: Holds | None = None) -> None:
        self._toasts.show(spelled(message, self.glyphs), severity, holds)

    def show_panel(self, panel: str) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        before, shown = (each if each in NOT_OF_CLIENTS else "" for each in (self.panel.id, panel))
        self._words[before] = self.view.filter
        self.query_one("#panels", ContentSwitcher).current = panel
        self.change(filter=self._words.get(shown, ""))
        self._focus_panel()

    def _focus_panel(self) -> None:
        if self.is_running:
            offer_focus(self.main, self.panel.first())  # under a dialog, which keeps its own focus

    def watch_theme(self) -> None:
        if self.is_running and self.screen_stack:
            self._drawn = None
            self.call_after_refresh(self.draw)

    # Messages from reading, panels, and runs

    def open_session(self, folder: Path, exists: bool = True) -> None:
        self.files.follow(folder if exists and folder.name else None)
        self._words.clear()
        self.change(
            run=SessionData(folder), round=None, crosshair=None, client=None, pinned=frozenset(), filter=""
        )

    def go_to(self, folder: Path) -> None:
        """Show this session in Live."""
        self.open_session(folder)
        self.show_panel("live")

    def session_changed(self, folder: Path, now: Path | None) -> None:
        if now != folder and folder in self.view.marked:
            places = (now if each == folder else each for each in self.view.marked)
            self.mark_all([each for each in places if each is not None])
        if now != folder and self.view.run.folder == folder:
            self.open_session(now or Path())
        for each in self.screen_stack[0].query(SessionList):
            each.look()

    def on_session_opened(self, message: messages.SessionOpened) -> None:
        self.go_to(message.folder)

    def on_run_read(self, message: messages.RunRead) -> None:
        run = self.runs.with_failure(message.run)
        if run.folder != self.view.run.folder:
            return
        before = self.view.run.error
        tell_news(self.view.run, run, self._alert, self.say, partial(terminal.write, self._driver))
        pinned = self.view.pinned
        if run.document and not self.view.run.document:
            self.call_after_refresh(self._focus_panel)  # there was almost nothing to focus
            pinned = self._preferences.pinned(run.document["id"])
        self.change(run=run, pinned=pinned)
        if run.error and run.error != before:
            fault = run.folder, run.error
            self.say(run.error, "error", lambda: (self.view.run.folder, self.view.run.error) == fault)

    def on_client_pinned(self, message: messages.ClientPinned) -> None:
        self.change(pinned=self.view.pinned ^ {message.client})
        self._preferences.pin(self.view.run.document.get("id", ""), self.view.pinned)

    def on_compared_read(self, message: messages.ComparedRead) -> None:
        self.change(compared=message.runs)

    def on_pair_read(self, message: messages.PairRead) -> None:
        if message.folder == self.view.run.folder:
            self.change(pair=message.pair)

    def on_new_run_wanted(self, message: messages.NewRunWanted) -> None:
        self.runs.new_run(Choices(preset=message.preset))

    def on_chart_wanted(self) -> None:
        self.change(chart=self.view.next_chart)

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if self.is_running and self.panel.id == "sessions":  # its keys now steer another session
            self.draw_rows()

    def on_session_list_listed(self) -> None:
        self.draw_rows()

    def on_run_started(self, message: messages.RunStarted) -> None:
        self.runs.started(message)

    def on_run_ended(self, message: messages.RunEnded) -> None:
        self.runs.ended(message)

    def on_answered(self, message: messages.Answered) -> None:
        self.steering.answered(message)

    def on_wanted(self, message: messages.Wanted) -> None:
        self.computations.compute(message.job, message.round, message.client)

    def on_round_refused(self, message: messages.RoundRefused) -> None:
        self.say(message.why, "warning", lambda: self.view.shown == message.round)

    # Actions of keys

    def action_steer(self, what: str) -> None:
        self.steering.steer(what)

    def action_panel(self, action: str) -> None:
        """Call the visible panel's action, if it has one. The table of keys says which panels have it."""
        key = next(key for key in KEYS if key.action == f"panel('{action}')")
        do: Callable[[], None] | None = getattr(self.panel, f"action_{action}", None)
        if do is not None and key.works_in(self.panel.place):
            do()
            self.draw_rows()
        else:
            places, panel = ", ".join(PLACES[each] for each in key.where), self.panel.id
            self.say(f"{key.print} works in {places}: {key.about}", holds=lambda: self.panel.id == panel)

    def action_filter(self) -> None:
        self.query_one(Filter).ask(self.view.filter)

    def on_filter_filtered(self, message: Filter.Filtered) -> None:
        self.change(filter=message.words)
        if message.done:
            self._focus_panel()

    def action_export(self) -> None:
        offer_export(self, lambda: self.export_screenshot(title=f"htfl-sim · {self.view.run.name}"))

    def action_command_palette(self) -> None:
        if not any(isinstance(screen, CommandPalette) for screen in self.screen_stack):
            self.push_screen(
                CommandPalette(
                    providers=[Commands], placeholder="Search for commands", id="--command-palette"
                )
            )

    def action_describe(self) -> None:
        show_settings(self)

    def action_why(self) -> None:
        self.push_screen(WhyDialog(self.view))

    def action_effect(self) -> None:
        show_effects(self)

    def action_edit(self, what: str) -> None:
        upkeep.edit(self, what)

    def action_help(self) -> None:
        self.push_screen(Help(self.panel.place))

    def action_change_theme(self) -> None:
        themes = [(name, name, "") for name in sorted(self.available_themes)]
        self.ask(Choose("Theme", "", themes, str(self.theme)), lambda name: setattr(self, "theme", name))

    def action_mouse(self) -> None:
        terminal.switch_mouse(self)

    def action_attach(self) -> None:
        self.ask(upkeep.AttachDialog(self.sessions_dir), self.go_to)

    # Leaving

    def _leave_by(self, number: signal.Signals) -> None:
        """A signal ends the app as `stop` does."""
        self.ended_by = number
        self.exit(STOP)

    def action_suspend(self) -> None:
        terminal.suspend(self, self.runs.name if self.runs.running else "")

    async def action_quit(self) -> None:
        if not self.runs.running:
            self.exit(LEAVE)
            return
        others = "".join(f" {name} continues in its own process." for name in self.runs.elsewhere)
        choices = [
            (KEEP, "keep training", "without the app, in this terminal, one line per round"),
            (STOP, "stop", "finish the clients at work and write a checkpoint"),
            ("cancel", "cancel", "stay in the app"),
        ]
        question = Choose("Leave", f"{self.runs.name} runs in this process.{others}", choices)
        self.ask(question, lambda which: self.exit(which) if which in (KEEP, STOP) else None)
