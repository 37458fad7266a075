"""The terminal app: the panels of one session, dialogs over them, and the keys for both.

The app owns its parts. `navigation` moves through panels and rounds, `steering` sends commands to runs, `control` is
the mailbox of the session shown, and `runs` are those started here. All of them read and change one `view`. When it
changes, the visible panel draws it.
"""

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.events import Event, Resize
from textual.events import Key as KeyEvent
from textual.filter import LineFilter
from textual.geometry import Size
from textual.widgets import ContentSwitcher, Static

from htfl_sim.configuring import Choices
from simulator.results.analysis.run import SessionData
from tui.app import export, messages, rows, terminal
from tui.app.alerts import Alert, Alerts
from tui.app.background import Background
from tui.app.charts.glyphs import Glyphs
from tui.app.cka_computer import CkaComputer
from tui.app.color_slots import ColorSlots
from tui.app.compatibility import MethodChoices
from tui.app.confusion_computer import ConfusionComputer
from tui.app.dialogs.base import Dialog
from tui.app.dialogs.choose import Choose
from tui.app.dialogs.new_run import NewRun
from tui.app.dialogs.notices import SMALLEST, TooSmall
from tui.app.dialogs.why import WhyDialog
from tui.app.embedder import Embedder
from tui.app.host import Holds, Severity
from tui.app.key_order import KeyQueue, Passed
from tui.app.keys import KEYS, PANEL_TITLES, bindings
from tui.app.launch_options import LaunchOptions
from tui.app.local_runs import LocalRuns
from tui.app.navigation import Moves, Navigation
from tui.app.openers import Openers
from tui.app.panels import PANELS, client_rows
from tui.app.preferences import Preferences
from tui.app.remote_control import RemoteControl
from tui.app.sample_reader import SampleReader
from tui.app.steering import Steering
from tui.app.suspend import suspend
from tui.app.toasts import Toasts, say_fault, say_places
from tui.app.view import Panel, View
from tui.app.watch import Watch
from tui.app.widgets import LineChart, Table
from tui.app.widgets.filter import Filter
from tui.app.widgets.focus import offer_focus
from tui.app.widgets.screen import AppScreen
from tui.app.widgets.scroll_bar import use_scroll_bars
from tui.app.xterm import XtermFilter
from tui.common.errors import explain
from tui.common.formatting import spelled

KEEP, STOP, LEAVE = "keep", "stop", "leave"
"""The app's result: the run of this process continues, is to stop, or does not exist."""
FRAME_ROWS = 3  # status, tabs, and keys
NOT_OF_CLIENTS = ("log", "compare", "sessions")  # their filter has words of its own; all others list clients
SETTLED_SECONDS = 0.05  # seconds after a resize without drawing, until the parts have their new sizes

Given = TypeVar("Given")


class HtflApp(Moves, Openers, App[str]):
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
        self._background = Background(self, self.draw, lambda fault: self.say(fault, "error"))
        self._choices = MethodChoices(self._background)
        self.control = RemoteControl(self, self._background, self._choices)
        self.runs = LocalRuns(self, options, self._background, self._choices)
        self.navigation = Navigation(self)
        self._cka = CkaComputer(self, self._background, options.data)
        self.steering = Steering(self, self._background, self.control, self.runs, self._cka)
        self._toasts = Toasts(self)
        self._key_queue = KeyQueue(self, super().on_event, self._choices)
        self._xterm = XtermFilter()
        self._embedder = Embedder(self, self._background, options.data)
        self._confusion = ConfusionComputer(self, self._background, options.data)
        self._sample_reader = SampleReader(self, self._background, options.data)
        self._alerts = Alerts(alert, self.say, lambda found: terminal.write(self._driver, found))
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
        use_scroll_bars(self.glyphs)
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
        computers = (self._embedder, self._cka, self._confusion, self._sample_reader)
        for part in (self.files, *computers):
            part.end()
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
        """The visible panel."""
        shown = self.main.query_one("#panels", ContentSwitcher).visible_content
        assert isinstance(shown, Panel)
        return shown

    @property
    def waiting(self) -> list[str]:
        """Requests that are not done yet, in the words of the status row."""
        return [*self.control.waiting, *self._background.doing]

    def change(self, **changes: Any) -> None:
        """Show another View."""
        self.view = replace(self.view, **changes)
        self.draw()

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
        """Update the rows around the panels."""
        if self.is_running and self.main.is_mounted:
            rows.draw(self.main, self.view, self.panel, self.waiting, self.glyphs)

    def say(self, message: str, severity: Severity = "information", holds: Holds | None = None) -> None:
        """Show a notice of one sentence, as long as it `holds`."""
        self._toasts.show(spelled(message, self.glyphs), severity, holds)

    def ask(self, dialog: Dialog[Given], then: Callable[[Given], None]) -> None:
        """Show a dialog. `then` receives its result, unless the user cancels it."""
        self.push_screen(dialog, lambda given: None if given is None else then(given))

    def is_at(self, folder: Path) -> bool:
        """Whether this session is still shown, without a dialog, so an earlier request for it still applies."""
        return len(self.screen_stack) == 1 and self.view.run.folder == folder

    def show_panel(self, panel: str) -> None:
        """Show a panel, by its id."""
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

    def open_session(self, folder: Path) -> None:
        """Show this session, live; `Path()`: none."""
        self.files.follow(folder if folder.name else None)
        self._words.clear()
        self.change(
            run=SessionData(folder), round=None, crosshair=None, client=None, pinned=frozenset(), filter=""
        )

    def on_session_opened(self, message: messages.SessionOpened) -> None:
        self.go_to(message.folder)

    def on_run_read(self, message: messages.RunRead) -> None:
        run = self.runs.with_failure(message.run)
        if run.folder != self.view.run.folder:
            return
        before = self.view.run.error
        self._alerts.look(self.view.run, run)
        pinned = self.view.pinned
        if run.document and not self.view.run.document:
            self.call_after_refresh(self._focus_panel)  # there was almost nothing to focus
            pinned = self._preferences.pinned(run.document["id"])
        self.change(run=run, pinned=pinned)
        say_fault(self, before)

    def on_client_pinned(self, message: messages.ClientPinned) -> None:
        self.change(pinned=self.view.pinned ^ {message.client})
        self._preferences.pin(self.view.run.document.get("id", ""), self.view.pinned)

    def on_compared_read(self, message: messages.ComparedRead) -> None:
        self.change(compared=message.runs)

    def on_pair_read(self, message: messages.PairRead) -> None:
        if message.folder == self.view.run.folder:
            self.change(pair=message.pair)

    def on_client_selected(self, message: messages.ClientSelected) -> None:
        self.navigation.select(message)

    def on_clients_sorted(self, message: messages.ClientsSorted) -> None:
        self.change(sort=(message.column, message.descending))

    def on_session_marked(self, message: messages.SessionMarked) -> None:
        self.navigation.mark(message.folder)

    def on_panel_wanted(self, message: messages.PanelWanted) -> None:
        self.navigation.drill_in(message.panel)

    def on_new_run_wanted(self, message: messages.NewRunWanted) -> None:
        self.runs.new_run(Choices(preset=message.preset))

    def on_chart_wanted(self) -> None:
        self.change(chart=self.view.next_chart)

    def on_line_chart_pointed(self, message: LineChart.Pointed) -> None:
        self.navigation.point(message.chart, message.x)

    def on_crosshair_moved(self, message: messages.CrosshairMoved) -> None:
        self.navigation.set_crosshair(message.place)

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
        self.control.answered(message)

    def on_embedding_wanted(self, message: messages.EmbeddingWanted) -> None:
        self._embedder.compute(message.round)

    def on_round_refused(self, message: messages.RoundRefused) -> None:
        self.say(message.why, "warning", lambda: self.view.shown == message.round)

    def on_confusion_wanted(self, message: messages.ConfusionWanted) -> None:
        self._confusion.compute_for(message.client, message.round)

    def on_samples_wanted(self, message: messages.SamplesWanted) -> None:
        self._sample_reader.read(message.client)

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
            say_places(self, key)

    def action_filter(self) -> None:
        self.query_one(Filter).ask(self.view.filter)

    def on_filter_filtered(self, message: Filter.Filtered) -> None:
        self.change(filter=message.words)
        if message.done:
            self._focus_panel()

    def action_export(self) -> None:
        export.offer(self, lambda: self.export_screenshot(title=f"htfl-sim · {self.view.run.name}"))

    # Leaving

    def _leave_by(self, number: signal.Signals) -> None:
        """A signal ends the app as `stop` does."""
        self.ended_by = number
        self.exit(STOP)

    def action_suspend(self) -> None:
        suspend(self, self.runs.name if self.runs.running else "")

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
