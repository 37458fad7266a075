"""The parts of every dialog: a title, a body that scrolls, a line for errors, and a line of keys."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.containers import Vertical, VerticalScroll
from textual.events import Resize
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from tui.app.widgets.screen import AppScreen
from tui.app.widgets.surface import glyphs_of
from tui.common.formatting import spelled

Result = TypeVar("Result")
WIDE, TALL, LOW = 120, 40, 24
"""From this many columns of the screen on, a dialog is -wide. From this many rows on, it is -tall, below -short. With
fewer rows than LOW, it is also -low."""
OPENED_SECONDS = 0.02
"""Seconds without drawing, in which Textual lays a new dialog out twice."""
SCROLLS = {"up": "scroll_up", "down": "scroll_down", "pageup": "page_up", "pagedown": "page_down"}


class Behind(BackgroundScreen):
    """The screen behind a dialog, in colors that are computed once. A screen has few, each in hundreds of places."""

    @classmethod
    def process_segments(cls, segments: Iterable[Segment], color: Color) -> Iterable[Segment]:
        for text, style, control in segments:
            yield Segment(text, style if control else _tinted(style, color), control)


@lru_cache(4096)
def _tinted(style: Style | None, color: Color) -> Style | None:
    return next(iter(BackgroundScreen.process_segments([Segment(" ", style)], color))).style


class Dialog(ModalScreen[Result], AppScreen[Result]):
    """Base class of the dialogs: `title` above, the widgets of `body` in the middle, `hint` below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "leave", show=False)]
    hint = "esc cancel"

    def __init__(self, title: str, **about: Any) -> None:
        super().__init__(**about)
        self._title = title

    def spelled(self, text: object) -> str:
        """`text` in the app's glyphs."""
        return spelled(text, glyphs_of(self))

    def body(self) -> Iterable[Widget]:
        """The widgets between title and hint."""
        return ()

    def compose(self) -> ComposeResult:
        self.app.delay_update(OPENED_SECONDS)
        self.set_class(glyphs_of(self) == "ascii", "-ascii", update=False)
        self._fit(self.app.size, update=False)  # so that the first layout includes them
        with Vertical(classes="dialog"):
            yield Static(self.spelled(self._title), classes="title", markup=False)
            yield from self.body()
            with Vertical(classes="foot"):
                yield Static("", id="fault", markup=False)
                yield Static(self.spelled(self.hint), classes="hint", markup=False)

    def render(self) -> RenderableType:
        made = super().render()
        return Behind(made.screen, made.color) if isinstance(made, BackgroundScreen) else made

    def _compositor_refresh(self) -> None:
        """Textual draws also while updates are delayed, and then drops what it has drawn."""
        if not self.app._batch_count:
            super()._compositor_refresh()

    def on_resize(self, event: Resize) -> None:
        self._fit(event.size)

    def _fit(self, size: Size, update: bool = True) -> None:
        """Set the classes by which style.tcss sizes dialogs."""
        classes = {
            "-wide": size.width >= WIDE,
            "-tall": size.height >= TALL,
            "-short": size.height < TALL,
            "-low": size.height < LOW,
        }
        self.update_classes(classes, update=update, animate=False)

    def complain(self, fault: str) -> None:
        """Show an error in the dialog. An empty sentence removes it."""
        line = self.query_one("#fault", Static)
        line.update(self.spelled(fault))
        line.display = bool(fault)

    def on_options_narrowed(self, message: Any) -> None:
        """Show the letters by which a list is narrowed, in front of the keys."""
        typed = f"{message.letters}_ backspace · " if message.letters else ""
        self.query_one(".hint", Static).update(self.spelled(typed + self.hint))

    def action_cancel(self) -> None:
        self.dismiss(None)


class Searched(Dialog[None]):
    """A text that scrolls, and a line of words that narrow it. Its body has an Input and a VerticalScroll."""

    DEFAULT_CSS = """
    Searched Input { border: none; height: 1; background: $boost; }
    Searched VerticalScroll { scrollbar-gutter: stable; }  /* or it would be laid out twice */
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"scroll('{key}')", "scroll", show=False, priority=True) for key in SCROLLS
    ]

    @property
    def words(self) -> str:
        """The typed words."""
        return self.query_one(Input).value

    def narrow(self) -> None:
        """Show what fits the words."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).can_focus = False
        self.set_focus(self.query_one(Input))
        self.narrow()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.narrow()
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_scroll(self, key: str) -> None:
        getattr(self.query_one(VerticalScroll), f"action_{SCROLLS[key]}")()
