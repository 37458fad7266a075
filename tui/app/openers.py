"""The actions of keys that open a dialog or a line, or give the mouse away."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from textual.command import CommandPalette
from textual.screen import Screen

from tui.app import terminal
from tui.app.background import Background
from tui.app.dialogs import describe, effect, upkeep
from tui.app.dialogs.attach import AttachDialog
from tui.app.dialogs.choose import Choose
from tui.app.dialogs.help import Help
from tui.app.dialogs.why import WhyDialog
from tui.app.host import Host
from tui.app.keys import Commands
from tui.app.navigation import Navigation
from tui.app.panels.session_list import SessionList


class Front(Host, Protocol):
    """The app, as far as these actions use it."""

    theme: Any
    navigation: Navigation
    _background: Background

    @property
    def available_themes(self) -> Mapping[str, object]:
        """The themes by name."""

    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """The main screen, and the dialogs over it."""

    def go_to(self, folder: Path) -> None:
        """Show this session in Live."""

    def push_screen(self, screen: Screen[Any]) -> object:
        """Show a screen in front."""


class Openers:
    """Each is an action of a key in the table."""

    def action_command_palette(self: Front) -> None:
        if not any(isinstance(screen, CommandPalette) for screen in self.screen_stack):
            self.push_screen(
                CommandPalette(
                    providers=[Commands], placeholder="Search for commands", id="--command-palette"
                )
            )

    def action_describe(self: Front) -> None:
        describe.show(self, self._background)

    def action_why(self: Front) -> None:
        self.push_screen(WhyDialog(self.view))

    def action_effect(self: Front) -> None:
        effect.show(self, self._background)

    def action_edit(self: Front, what: str) -> None:
        upkeep.edit(self, self._background, what)

    def session_changed(self: Front, folder: Path, now: Path | None) -> None:
        """Follow a change to a session by the user. now: its folder since then; None: it is gone."""
        if now != folder and folder in self.view.marked:
            places = (now if each == folder else each for each in self.view.marked)
            self.navigation.mark_all([each for each in places if each is not None])
        if now != folder and self.view.run.folder == folder:
            self.open_session(now or Path())
        for each in self.screen_stack[0].query(SessionList):
            each.look()

    def action_help(self: Front) -> None:
        self.push_screen(Help(self.panel.place))

    def action_change_theme(self: Front) -> None:
        themes = [(name, name, "") for name in sorted(self.available_themes)]
        self.ask(Choose("Theme", "", themes, str(self.theme)), lambda name: setattr(self, "theme", name))

    def action_mouse(self: Front) -> None:
        """Give the mouse to the terminal, so that its own selection works, or take it back."""
        terminal.switch_mouse(self)

    def action_attach(self: Front) -> None:
        self.ask(AttachDialog(self.sessions_dir), self.go_to)

    def go_to(self: Front, folder: Path) -> None:
        """Show this session in Live."""
        self.open_session(folder)
        self.show_panel("live")
