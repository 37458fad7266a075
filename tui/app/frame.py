"""The app's one main screen: status, tabs, panels, keys; and the View they draw. It steers nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.content import Content
from textual.events import Resize
from textual.widgets import ContentSwitcher, Input, Static

import checkpoints
from simulator.analysis.reproduction import command_lines
from simulator.analysis.run import Run
from tui.app import export
from tui.app.charts.glyphs import Glyphs
from tui.app.dialogs.attach import AttachDialog
from tui.app.dialogs.choose import Choose
from tui.app.dialogs.help import Help
from tui.app.dialogs.small import SMALLEST, TooSmall
from tui.app.dialogs.text import Text
from tui.app.keys import KEYS, PANEL_TITLES, bindings, footer
from tui.app.messages import ClientPinned, ComparedRead, RunRead, SessionMarked, SessionOpened
from tui.app.palette import Commands
from tui.app.status import status
from tui.app.view import Panel, View
from tui.app.watch import Watch
from tui.app.widgets import LineChart
from tui.common.errors import explain
from tui.common.formatting import spelled

NOWHERE = Path()


class Frame(App[str]):
    """Shows one session in seven panels. What it shows is `view`; only the visible panel draws, when that changes."""

    CSS_PATH = "style.tcss"
    TITLE = "htfl-sim"
    AUTO_FOCUS = ""
    ALLOW_IN_MAXIMIZED_VIEW = "#status, #tabs, #keys"
    ENABLE_COMMAND_PALETTE = False  # ours is bound in keys.py, with the commands made from that table
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-narrow"),
        (120, "-wide"),
        (200, "-vast"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-short"),
        (40, "-tall"),
        (60, "-towering"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]

    def __init__(
        self, sessions_dir: Path, *, glyphs: Glyphs = "braille", panels: Sequence[Panel] | None = None
    ) -> None:
        super().__init__()
        self.sessions_dir = sessions_dir
        self.glyphs = glyphs
        self.view = View(Run(NOWHERE), sessions_dir=sessions_dir)
        self.watch_files = Watch(self.post_message)
        self.animation_level = "none"
        self._panels = panels
        self._drawn: tuple[str, View] | None = None
        self.has_mouse = True

    # What is shown

    def compose(self) -> ComposeResult:
        yield Static(id="status")
        yield Static(id="tabs")
        with ContentSwitcher(initial="live", id="panels"):
            yield from self._panels if self._panels is not None else made_panels()
        yield Input(id="filter", placeholder="show only what has these words", compact=True)
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.set_class(self.glyphs == "ascii", "-ascii")
        self.watch_files.start()
        self.call_after_refresh(self.draw)
        self.call_after_refresh(self._focus_panel)

    def on_unmount(self) -> None:
        self.watch_files.end()

    def on_resize(self, event: Resize) -> None:
        width, height = event.size
        small = width < SMALLEST[0] or height < SMALLEST[1]
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()
        self.call_after_refresh(self._draw_rows)

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
        """What has been asked for and is not done yet, as the status row says it."""
        return []

    def change(self, **changes: Any) -> None:
        """Show another View."""
        self.view = replace(self.view, **changes)
        self.draw()

    def draw(self) -> None:
        """Bring the rows and the visible panel up to date."""
        self._draw_rows()
        panel = self.panel
        if self._drawn is None or self._drawn[0] != panel.id or not self.view.looks_like(self._drawn[1]):
            self._drawn = (panel.id or "", self.view)
            try:
                panel.show(self.view)
            except Exception as fault:  # a fault in a picture must not end the app, and the run with it
                self.say(explain(fault)[0], "error")

    def _draw_rows(self) -> None:
        if not self.main.is_mounted:
            return
        width, shown = self.main.size.width, self.panel.id or ""
        _say(self.main.query_one("#status", Static), status(self.view, self.waiting, width - 2, self.glyphs))
        _say(self.main.query_one("#tabs", Static), tabs(shown, width))
        _say(self.main.query_one("#keys", Static), self._footer(shown, width - 1))

    def _footer(self, panel: str, width: int) -> Content:
        dimmed = self.idle_keys()
        return Content("  ").join(
            Content.assemble(
                (key.print, "bold" if key.name not in dimmed else "dim"),
                " ",
                (key.label, "dim" if key.name in dimmed else ""),
            )
            for key in footer(panel, width)
        )

    def idle_keys(self) -> Sequence[str]:
        """Actions that would only say why they cannot be done now."""
        return ()

    def say(self, message: str, severity: str = "information") -> None:
        """A notice, in a sentence."""
        kind = severity if severity in ("information", "warning", "error") else "information"
        seconds = {"information": 5.0, "warning": 8.0, "error": 12.0}[kind]
        self.notify(spelled(message, self.glyphs), severity=kind, timeout=seconds, markup=False)  # type: ignore[arg-type]

    # What is read

    def open_session(self, folder: Path) -> None:
        """Show this session, live."""
        self.watch_files.follow(folder)
        self.change(run=Run(folder), round=None, pinned=frozenset(), filter="")

    def on_run_read(self, message: RunRead) -> None:
        run = self.with_failure(message.run)
        if run.folder != self.view.run.folder:
            return
        if run.error and run.error != self.view.run.error:
            self.say(run.error, "error")
        self.change(run=run)

    def with_failure(self, run: Run) -> Run:
        """The run as it is to be shown, with what only this process knows of it."""
        return run

    def on_compared_read(self, message: ComparedRead) -> None:
        self.change(compared=message.runs)

    def on_client_pinned(self, message: ClientPinned) -> None:
        self.change(pinned=self.view.pinned ^ {message.client})

    def on_session_marked(self, message: SessionMarked) -> None:
        marked = self.view.marked
        folder = message.folder
        self.mark(tuple(each for each in marked if each != folder) if folder in marked else (*marked, folder))

    def mark(self, folders: tuple[Path, ...]) -> None:
        self.change(
            marked=folders, compared=tuple(run for run in self.view.compared if run.folder in folders)
        )
        self.watch_files.compare(folders)

    # What keys do

    def action_show_panel(self, panel: str) -> None:
        self.screen.minimize()
        self.query_one("#panels", ContentSwitcher).current = panel
        self.draw()
        self.call_after_refresh(self._focus_panel)

    def _focus_panel(self) -> None:
        self.screen_stack[0].set_focus(self.panel.first())  # under a dialog, which keeps its own focus

    def action_panel(self, action: str) -> None:
        """Let the visible panel do it, if it can; the table of keys says which can."""
        key = next(key for key in KEYS if key.action == f"panel('{action}')")
        do: Callable[[], None] | None = getattr(self.panel, f"action_{action}", None)
        if do is not None and key.works_in(self.panel.id or ""):
            do()
        else:
            places = ", ".join(PANEL_TITLES[each] for each in key.where)
            self.say(f"{key.print} works in {places}: {key.about}")

    def action_travel(self, rounds: int) -> None:
        """Show an earlier or a later round; the newest is live."""
        run = self.view.run
        if not run.round:
            self.say("No round is finished yet.")
            return
        target = max(1, self.view.shown + rounds)
        self.change(round=None if target >= run.round else target)

    def action_live(self) -> None:
        self.change(round=None)

    def action_chart_mode(self) -> None:
        self.change(chart=(self.view.chart + 1) % 3)

    def action_compare(self) -> None:
        """The marked sessions beside the one shown."""
        shown, marked = self.view.run.folder, self.view.marked
        if shown != NOWHERE and shown not in marked:
            self.mark((shown, *marked))
        if len(self.view.marked) < 2:
            self.say("Mark the sessions to compare with x in Sessions (s).")
        self.action_show_panel("compare")

    def action_filter(self) -> None:
        words = self.query_one("#filter", Input)
        words.value = self.view.filter
        words.display = True
        self.set_focus(words)

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter" and event.input.display:
            self.change(filter=event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "filter":
            self._close_filter()

    def key_escape(self) -> None:
        """Leave the filter, empty; leave a maximised part."""
        if self.query_one("#filter", Input).has_focus:
            self._close_filter()
            self.change(filter="")
        self.screen.minimize()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self._focus_panel()

    def action_maximise(self) -> None:
        if self.screen.maximized is not None:
            self.screen.minimize()
        elif (part := self.focused or self._chart()) is not None:
            self.screen.maximize(part, container=False)

    def action_zoom(self, direction: int) -> None:
        if (chart := self._chart()) is not None:
            {1: chart.zoom_in, -1: chart.zoom_out, 0: chart.reset_view}[direction]()

    def action_pan(self, share: float) -> None:
        if (chart := self._chart()) is not None:
            chart.pan(share)

    def _chart(self) -> LineChart | None:
        """The chart with the focus, else the panel's first visible one."""
        if isinstance(self.focused, LineChart):
            return self.focused
        return next((chart for chart in self.panel.query(LineChart) if chart.is_on_screen), None)

    def action_mouse(self) -> None:
        """Hand the mouse to the terminal, whose own selection works then, or take it back."""
        self.has_mouse = not self.has_mouse
        # Textual has no public switch for it; its drivers for real terminals have this pair.
        switch = getattr(self._driver, f"_{'enable' if self.has_mouse else 'disable'}_mouse_support", None)
        if switch is not None:
            switch()
        self.say(
            "The app has the mouse."
            if self.has_mouse
            else "The terminal has the mouse: select text as usual."
        )

    def action_command_palette(self) -> None:
        if not any(isinstance(screen, CommandPalette) for screen in self.screen_stack):
            self.push_screen(CommandPalette(providers=[Commands], id="--command-palette"))

    def action_help(self) -> None:
        self.push_screen(Help(self.panel.id or ""))

    def action_change_theme(self) -> None:
        names = sorted(self.available_themes)

        def chosen(name: str | None) -> None:
            if name:
                self.theme = name

        self.push_screen(Choose("Theme", "", [(name, name, "") for name in names], self.theme), chosen)

    # Sessions and files

    def action_attach(self) -> None:
        def known() -> list[tuple[str, str]]:
            found = []
            for path in checkpoints.sessions(self.sessions_dir):
                try:
                    found.append((path.name, checkpoints.SessionReader(path).state()))
                except (checkpoints.SessionUnreadable, checkpoints.DiskError):
                    found.append((path.name, "damaged"))
            return found

        def chosen(folder: Path | None) -> None:
            if folder:
                self.open_session(folder)
                self.action_show_panel("live")

        self.push_screen(AttachDialog(self.sessions_dir, known), chosen)

    def on_session_opened(self, message: SessionOpened) -> None:
        self.open_session(message.folder)
        self.action_show_panel("live")

    def action_export(self) -> None:
        choices = [
            ("csv", "CSV", "the numbers of this panel"),
            ("svg", "SVG", "a picture of the screen"),
            ("command", "command line", "what to type to get this session again"),
        ]
        self.push_screen(
            Choose("Export", "Written into the folder the app was started in.", choices), self._export
        )

    def _export(self, what: str | None) -> None:
        stem = f"{self.view.run.name or 'htfl-sim'}-{self.panel.id}"
        try:
            if what == "csv":
                path = export.free_path(Path(), stem, "csv")
                export.write_csv(path, *self.panel.table(self.view))
            elif what == "svg":
                path = export.free_path(Path(), stem, "svg")
                path.write_text(
                    self.export_screenshot(title=f"htfl-sim · {self.view.run.name}"), encoding="utf-8"
                )
            elif what == "command" and self.view.run.folder != NOWHERE:
                path = export.free_path(Path(), f"{self.view.run.name}-again", "txt")
                lines = command_lines(self.view.run.folder)
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
                self.push_screen(Text(f"Written to {path}", "\n\n".join(lines)))
                return
            else:
                return
        except Exception as error:  # shown, and the app goes on
            self.say(explain(error)[0], "error")
        else:
            self.say(f"Written: {path}")

    def watch_theme(self) -> None:
        if self.is_running and self.screen_stack:
            self._drawn = None
            self.call_after_refresh(self.draw)


def tabs(shown: str, width: int) -> Content:
    """The row of tabs; the one shown is reversed."""
    parts = []
    for panel, title in PANEL_TITLES.items():
        key = next(key.print for key in KEYS if key.action == f"show_panel('{panel}')")
        style = "reverse bold" if panel == shown else ""
        link = f"@click=app.show_panel('{panel}')"
        parts.append(Content.from_markup(f"[{link} {style}] {key} {title} [/]"))
    return Content("").join(parts)


def made_panels() -> list[Panel]:
    """The seven panels, with the ids that tabs and keys know them by."""
    from tui.app.panels import PANELS

    return [PANELS[name](name) for name in PANEL_TITLES]


def _say(row: Static, text: Content) -> None:
    """Update a row that is to look different; two Contents are equal when only their styles differ."""
    shown = row.content
    if not isinstance(shown, Content) or (shown.plain, shown.spans) != (text.plain, text.spans):
        row.update(text)
