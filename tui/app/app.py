"""The terminal app: the panels of one session, dialogs over them, and the keys for both."""

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
from textual.app import ComposeResult, ScreenStackError
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
from tui.app import terminal
from tui.app.charts.look import Glyphs
from tui.app.dialogs import upkeep
from tui.app.dialogs.base import SMALLEST, Choice, Choose, Text, TooSmall
from tui.app.dialogs.pages import Help, WhyDialog, show_effects, show_settings
from tui.app.dialogs.run_forms import NewRun
from tui.app.host import NO_SESSION, Alert, Computations, Host, tell_news
from tui.app.keys import KEYS, PANEL_TITLES, PLACES, Commands, bindings
from tui.app.panels import PANELS
from tui.app.panels.base import Part
from tui.app.panels.clients import known
from tui.app.runs import LaunchOptions, LocalRuns, RunEnded, RunStarted
from tui.app.steering import Steering
from tui.app.view import (
    ClientPinned,
    ClientSelected,
    ColorSlots,
    NewRunWanted,
    Panel,
    PanelWanted,
    RoundRefused,
    SessionMarked,
    SessionOpened,
    View,
    ViewChanged,
    Wanted,
    in_sight,
)
from tui.app.watch import Answered, ComparedRead, PairRead, RunRead
from tui.app.widgets import LineChart, Table
from tui.app.widgets.screen import Filter
from tui.common.errors import explain

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

    def __init__(self, app: Host, deliver: Callable[[KeyEvent], Awaitable[None]]) -> None:
        self._app, self._deliver = app, deliver
        self._keys: deque[KeyEvent] = deque()
        self._following: asyncio.Task[None] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a key has not taken effect yet, for another reason than a form that is being prepared."""
        return self._following is not None and not self._app.methods.awaited

    async def put(self, key: KeyEvent) -> None:
        if key.key == "escape" and self._app.methods.awaited:
            self._keys.clear()
            self._app.methods.forget()
        elif self._following is not None:
            self._keys.append(key)
        else:
            await self._hand_out(key)

    async def _hand_out(self, key: KeyEvent) -> None:
        target = self._app.focused or self._app.screen
        await self._deliver(key)
        self._following = asyncio.create_task(self._follow(target))

    async def _follow(self, target: Widget) -> None:
        """Wait for the key, the messages that it caused, a form that it requested, and the focused or new part."""
        for part in (target, target, None):
            passed = Passed()
            with suppress(TimeoutError, ScreenStackError):  # the key may have ended the app
                if part is None:
                    async with asyncio.timeout(PREPARING):
                        while self._app.methods.awaited:
                            await asyncio.sleep(0.02)
                if (part or self._app.focused or self._app.screen).post_message(passed):
                    await asyncio.wait_for(passed.arrived.wait(), PATIENCE)
        if self._keys:
            self._app.call_later(self._hand_out, self._keys.popleft())
        else:
            self._following = None


FILE = "app.json"
SESSIONS = 200
"""Sessions whose pins are kept: those with the latest changes."""


@dataclass
class Preferences:
    """What is kept between starts of the app.

    chart: the accuracy chart's mode. sort: the column by which clients are sorted, and whether from high to low. pins:
    the pinned clients, by session id. places: the slots of compared lines, by folder and name.
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
        return frozenset(self.pins.get(session, []))

    def pin(self, session: str, clients: Iterable[int]) -> None:
        self.pins.pop(session, None)
        self.pins = dict([*self.pins.items(), (session, sorted(clients))][-SESSIONS:])


EXPORTS: tuple[Choice, ...] = (
    ("csv", "CSV", "the numbers of this panel"),
    ("svg", "SVG", "a picture of the screen"),
    ("command", "command line", "the command that makes this session again"),
)


def offer_export(host: Host) -> None:
    def write(what: str) -> None:
        try:
            path, text = export(host, what)
        except Exception as error:  # shown, and the app continues
            host.say(explain(error)[0], "error")
        else:
            if text:
                host.ask(Text(f"Wrote {path}", text), lambda _: None)
            else:
                host.say(f"Wrote {path}.")

    host.ask(Choose("Export", "Files go to the folder in which you started the app.", EXPORTS), write)


def export(host: Host, what: str) -> tuple[Path, str]:
    """Write one of EXPORTS. Returns the file, and its text to read at once. Raises OSError, or the project's errors."""
    name = host.view.run.name
    if what == "command":
        if not name:
            raise ConfigError(NO_SESSION)
        path, lines = free_path(Path(), f"{name}-again", "txt"), command_lines(host.view.run.folder)
        path.write_text("\n".join([*lines, ""]), encoding="utf-8", errors="surrogateescape")
        return path, "\n\n".join(lines)
    path = free_path(Path(), f"{name or 'htfl-sim'}-{host.panel.id}", what)
    if what == "csv":
        write_csv(path, *host.panel.table(host.view))
    else:
        path.write_text(host.export_screenshot(title=f"htfl-sim · {name}"), encoding="utf-8")
    return path, ""


def free_path(folder: Path, stem: str, ending: str) -> Path:
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


KEEP, STOP, LEAVE = "keep", "stop", "leave"
"""The app's result: the run of this process continues, is to stop, or does not exist."""
FRAME_ROWS = 3  # status, tabs, and keys
SETTLED_SECONDS = 0.05  # seconds after a resize without drawing, until the parts have their new sizes


class HtflApp(Host):
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
        self._state, self._preferences = state, Preferences.read(state)
        kept = self._preferences
        view = View(
            SessionData(Path()),
            chart=max(kept.chart, 0),
            sort=known(kept.sort),
            places=ColorSlots(kept.places),
            sessions_dir=options.sessions,
        )
        panels = panels if panels is not None else [PANELS[name](name) for name in PANEL_TITLES]
        super().__init__(view, options.sessions, glyphs, panels)
        self.animation_level = "none"
        self.has_mouse = True
        self.ended_by: int | None = None
        """The signal that ended the app, if one did."""
        self.runs = LocalRuns(self, options)
        self.computations = Computations(self, options.data)
        self.steering = Steering(self, self.runs, self.computations)
        self._key_queue = KeyQueue(self, super().on_event)
        self._xterm = terminal.XtermFilter()
        self._alert, self._start = alert, start
        self._came_from: list[str] = []
        """The panels that Escape returns to."""

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
        self.delay_update(SETTLED_SECONDS)
        self._prepare(event.size)
        small = event.size.width < SMALLEST[0] or event.size.height < SMALLEST[1]
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()
        self.call_after_refresh(self.draw_rows)

    def _prepare(self, size: Size) -> None:
        for panel in self.panels:
            panel.prepare(size.width, size.height - FRAME_ROWS)

    @property
    def waiting(self) -> list[str]:
        return [*self.steering.waiting, *super().waiting]

    # Messages from reading, panels, and runs

    def on_run_read(self, message: RunRead) -> None:
        run = self.runs.with_failure(message.run)
        if run.folder != self.view.run.folder:
            return
        before = self.view.run
        tell_news(before, run, self._alert, self.say, partial(terminal.write, self._driver))
        pinned = self.view.pinned
        if run.document and not before.document:
            self.call_after_refresh(self._focus_panel)  # there was almost nothing to focus
            pinned = self._preferences.pinned(run.document["id"])
        self.change(run=run, pinned=pinned)
        if run.error and run.error != before.error:
            fault = run.folder, run.error
            self.say(run.error, "error", lambda: (self.view.run.folder, self.view.run.error) == fault)

    def on_compared_read(self, message: ComparedRead) -> None:
        self.change(compared=message.runs)

    def on_pair_read(self, message: PairRead) -> None:
        if message.folder == self.view.run.folder:
            self.change(pair=message.pair)

    def on_answered(self, message: Answered) -> None:
        self.steering.answered(message)

    def on_run_started(self, message: RunStarted) -> None:
        self.runs.started(message)

    def on_run_ended(self, message: RunEnded) -> None:
        self.runs.ended(message)

    def on_client_pinned(self, message: ClientPinned) -> None:
        self.change(pinned=self.view.pinned ^ {message.client})
        self._preferences.pin(self.view.run.document.get("id", ""), self.view.pinned)

    def on_client_selected(self, message: ClientSelected) -> None:
        if self.view.shown:
            self._show_changed(client=message.client)

    def on_view_changed(self, message: ViewChanged) -> None:
        self._show_changed(**message.changes)

    def _show_changed(self, **changes: Any) -> None:
        if any(getattr(self.view, name) != value for name, value in changes.items()):
            self.change(**changes)

    def on_line_chart_pointed(self, message: LineChart.Pointed) -> None:
        """Put the crosshair of all charts at this x of one of them."""
        figure = message.chart.figure
        if figure.over is not None:
            self._show_changed(crosshair=(figure.over, message.x * figure.x_unit))

    def on_panel_wanted(self, message: PanelWanted) -> None:
        """Show another panel; Escape returns to this one."""
        self._came_from.append(self.panel.id or "")
        self.show_panel(message.panel)

    def on_new_run_wanted(self, message: NewRunWanted) -> None:
        self.runs.new_run(Choices(preset=message.preset))

    def on_session_opened(self, message: SessionOpened) -> None:
        self.go_to(message.folder)

    def on_session_marked(self, message: SessionMarked) -> None:
        folder, marked = message.folder, self.view.marked
        self.mark_all([each for each in marked if each != folder] if folder in marked else [*marked, folder])

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if self.is_running and self.panel.id == "sessions":  # its keys now steer another session
            self.draw_rows()

    def on_session_list_listed(self) -> None:
        self.draw_rows()

    def on_wanted(self, message: Wanted) -> None:
        self.computations.compute(message.job, message.round, message.client)

    def on_round_refused(self, message: RoundRefused) -> None:
        self.say(message.why, "warning", lambda: self.view.shown == message.round)

    def on_filter_filtered(self, message: Filter.Filtered) -> None:
        self.change(filter=message.words)
        if message.done:
            self._focus_panel()

    # Actions of keys: panels and dialogs

    def action_show_panel(self, panel: str) -> None:
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

    def action_steer(self, what: str) -> None:
        self.steering.steer(what)

    action_describe = show_settings
    action_effect = show_effects
    action_edit = upkeep.edit
    action_export = offer_export
    action_mouse = terminal.switch_mouse
    action_suspend = terminal.suspend

    def action_why(self) -> None:
        self.push_screen(WhyDialog(self.view))

    def action_help(self) -> None:
        self.push_screen(Help(self.panel.place))

    def action_attach(self) -> None:
        self.ask(upkeep.AttachDialog(self.sessions_dir), self.go_to)

    def action_filter(self) -> None:
        self.query_one(Filter).ask(self.view.filter)

    def action_compare(self) -> None:
        run, marked = self.view.run, self.view.marked
        if run.name and run.folder not in marked:
            self.mark_all((run.folder, *marked))
        self.show_panel("compare")

    def action_command_palette(self) -> None:
        if not any(isinstance(screen, CommandPalette) for screen in self.screen_stack):
            words = "Search for commands"
            self.push_screen(CommandPalette(providers=[Commands], placeholder=words, id="--command-palette"))

    def action_change_theme(self) -> None:
        themes = [(name, name, "") for name in sorted(self.available_themes)]
        self.ask(Choose("Theme", "", themes, str(self.theme)), lambda name: setattr(self, "theme", name))

    # Actions of keys: rounds and charts

    def action_travel(self, rounds: int) -> None:
        """Show an earlier or a later round; the newest is live."""
        if self.view.run.round:
            self._show_round(max(1, self.view.shown + rounds))
        else:
            self.say("No round is finished yet.", holds=lambda: not self.view.run.round)

    def action_goto(self, round: int) -> None:
        self.action_travel(round - self.view.shown)

    def action_live(self) -> None:
        self.change(round=None, crosshair=None)

    def action_replay(self) -> None:
        if (at := self.view.cursor()) is None:
            how = "Choose a round first: move the crosshair with ← and →, or click in a chart."
            self.say(how, holds=lambda: self.view.cursor() is None)
        else:
            self._show_round(int(at))

    def _show_round(self, round: int) -> None:
        """Show this round; the newest is live. The crosshair disappears: the charts' cursor marks the round shown."""
        self.change(round=None if round >= self.view.run.round else round, crosshair=None)

    def action_crosshair(self, steps: int) -> None:
        """Move the crosshair; the first step shows it at the newest round."""
        if (chart := self._chart(over_rounds=True)) is not None and (x := chart.step(steps)) is not None:
            self.on_line_chart_pointed(LineChart.Pointed(chart, x))

    def action_zoom(self, direction: int) -> None:
        """1: in, -1: out, 0: the whole chart."""
        if (chart := self._chart()) is not None:
            chart.zoom(direction)

    def action_pan(self, share: float) -> None:
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

    # Leaving

    def _leave_by(self, number: signal.Signals) -> None:
        """A signal ends the app as `stop` does."""
        self.ended_by = number
        self.exit(STOP)

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
